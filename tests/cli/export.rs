//! `export`: what comes out comes in again to the same ids, and adds nothing where it is from.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lcm_core::Json;
use lcm_tests::run::{Desk, fixture};

use crate::{filled, json_lines};

#[test]
fn an_export_is_lines_of_json() {
    let ran = filled().run(&["export", "#2"]);
    let shown: Vec<&str> = ran.stdout.lines().take(5).collect();
    insta::assert_snapshot!(shown.join("\n"));
    assert!(ran.stdout.ends_with("{\"lcm\":\"end\",\"sessions\":1,\"messages\":23}\n"), "{ran:?}");
}

#[test]
fn an_export_comes_in_again_to_the_same_export() {
    let desk = filled();
    let file = desk.path("all.jsonl").display().to_string();
    let ran = desk.run(&["export", "--output", &file]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout, "[desk]/all.jsonl: 4 sessions, 49 messages\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let back = desk.run(&["import", &file, "--format", "json"]);
    assert_eq!(json_lines(&back)[0].get("new").and_then(Json::as_u64), Some(0), "{back:?}");
    let other = Desk::new();
    assert_eq!(other.run(&["import", &file]).code, 0);
    assert_eq!(other.run(&["export"]).stdout, fs::read_to_string(&file).unwrap());
}

#[test]
fn a_packed_export_is_the_same_each_time() {
    let desk = filled();
    let path = |name: &str| desk.path(name).display().to_string();
    for name in ["a.jsonl.gz", "b.jsonl.gz"] {
        assert_eq!(desk.run(&["export", "-o", &path(name)]).code, 0);
    }
    assert_eq!(fs::read(path("a.jsonl.gz")).unwrap(), fs::read(path("b.jsonl.gz")).unwrap());
    let other = Desk::new();
    assert_eq!(other.run(&["import", &path("a.jsonl.gz")]).code, 0);
    assert_eq!(other.run(&["export"]).stdout, desk.run(&["export"]).stdout);
}

#[test]
fn a_file_that_is_there_is_replaced_only_when_asked() {
    let desk = filled();
    let file = desk.put("mine.txt", "mine");
    let ran = desk.run(&["export", "--output", &file]);
    assert_eq!((ran.code, fs::read_to_string(&file).unwrap().as_str()), (2, "mine"), "{ran:?}");
    assert_eq!(desk.run(&["export", "--output", &file, "--force"]).code, 0);
    assert!(fs::read_to_string(&file).unwrap().starts_with("{\"lcm\":\"export\""));
    let nowhere = desk.run(&["export", "--output", &desk.path("no/such/place").display().to_string()]);
    assert_eq!(nowhere.code, 2, "{nowhere:?}");
}

#[test]
fn the_real_sessions_come_out_equal_message_by_message() {
    let desk = Desk::with(&["sample/sample.sessions.jsonl.gz"]);
    let exported = json_lines(&desk.run(&["export"]));
    let said = exported.iter().filter_map(|line| line.get("message"));
    let packed = fs::File::open(fixture("sample/sample.sessions.jsonl.gz")).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed), &mut text).unwrap();
    let sessions = text.lines().map(|line| Json::parse(line.as_bytes()).unwrap());
    let expected: Vec<Json> =
        sessions.flat_map(|session| session.get("messages").and_then(Json::as_array).unwrap().to_vec()).collect();
    assert_eq!(said.cloned().collect::<Vec<_>>(), expected);
}
