//! `check` and `repair`: damage is told, and what is derived is made anew.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use lcm_core::Json;
use lcm_tests::run::Desk;

use crate::{both, filled, json_lines};

#[test]
fn a_whole_store_is_whole() {
    insta::assert_snapshot!(both(&filled(), &["check"]));
}

#[test]
fn damage_is_told_and_exits_3() {
    let desk = Desk::with(&["sample/sample.sessions.jsonl.gz"]);
    let file = OpenOptions::new().read(true).write(true).open(desk.home().join("store.1.redb")).unwrap();
    // Bytes in the middle of the file are turned around until something breaks.
    let length = file.metadata().unwrap().len();
    let mut damaged = None;
    for at in (length / 4..length).step_by(4099) {
        let mut bytes = [0; 64];
        file.read_exact_at(&mut bytes, at).unwrap();
        file.write_all_at(&bytes.map(|byte| !byte), at).unwrap();
        let ran = desk.run(&["check", "--format", "json"]);
        file.write_all_at(&bytes, at).unwrap();
        if ran.code != 0 {
            damaged = Some(ran);
            break;
        }
    }
    let ran = damaged.unwrap();
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_eq!(desk.run(&["check"]).code, 0, "the bytes are back");
}

#[test]
fn the_index_can_be_thrown_away_and_made_anew() {
    let desk = filled();
    fs::remove_dir_all(desk.home().join("index")).unwrap();
    // Without it searches look into the messages.
    assert_eq!(desk.run(&["grep", "-c", "station"]).stdout, "3\n");
    let ran = desk.run(&["repair", "index", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(json_lines(&ran)[0].get("indexed_to").and_then(Json::as_u64), Some(49));
    assert_eq!(desk.run(&["grep", "-c", "station"]).stdout, "3\n");
    assert_eq!(desk.run(&["check"]).code, 0);
}
