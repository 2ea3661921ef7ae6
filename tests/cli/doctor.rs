//! `doctor`: what is in the way is named, with what to do about it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lcm_core::Json;
use lcm_tests::again;
use lcm_tests::folder::copy;
use lcm_tests::run::Desk;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::{filled, json_lines, text_of};

/// The grade of a part, the worst when it has several.
fn grade(desk: &Desk, part: &str) -> (u8, String) {
    let ran = desk.run(&["doctor", "--format", "json"]);
    let lines = json_lines(&ran);
    let of_part = lines.iter().filter(|line| text_of(line, "part") == part);
    let rank = |name: &String| ["fine", "note", "wrong"].iter().position(|known| known == name);
    let worst = of_part.map(|line| text_of(line, "grade")).max_by_key(rank);
    (ran.code, worst.unwrap_or_else(|| panic!("no {part} in {ran:?}")))
}

#[test]
fn a_healthy_store_has_nothing_wrong() {
    let desk = filled();
    let ran = desk.run(&["doctor"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    // Paths, room and sizes differ between machines.
    let parts: Vec<&str> = ran.stdout.lines().filter_map(|line| line.split_whitespace().nth(1)).collect();
    for part in ["directory", "permissions", "disk", "settings", "store", "lock", "index"] {
        assert!(parts.contains(&part), "{part} is missing: {ran:?}");
        assert_ne!(grade(&desk, part).1, "wrong", "{ran:?}");
    }
}

#[test]
fn where_there_is_no_store_it_says_how_to_make_one() {
    let desk = Desk::new();
    let ran = desk.run(&["doctor"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.stdout.contains("there is no store in [desk]/home") && ran.stdout.contains("`lcm-cli import FILE`"));
    assert!(!desk.home().exists(), "looking makes none");
    fs::write(desk.home(), "a letter").unwrap();
    assert_eq!(grade(&desk, "directory"), (3, "wrong".to_owned()));
}

#[test]
fn a_store_that_others_can_read_is_told() {
    let desk = filled();
    fs::set_permissions(desk.home().join("CURRENT"), fs::Permissions::from_mode(0o644)).unwrap();
    let ran = desk.run(&["doctor", "--format", "json"]);
    let found = json_lines(&ran).into_iter().find(|line| text_of(line, "part") == "permissions").unwrap();
    assert_eq!((ran.code, text_of(&found, "grade").as_str()), (3, "wrong"));
    assert!(text_of(&found, "what").contains("CURRENT has mode 644"), "{found:?}");
    assert!(found.get("advice").and_then(Json::as_str).unwrap().starts_with("chmod "), "{found:?}");
}

#[test]
fn a_damaged_index_and_a_damaged_store_are_told_apart() {
    let desk = filled();
    // The index of another store is none for this one.
    let other = Desk::with(&["import/openai.json"]);
    let (from, to) = (other.home().join("index"), desk.home().join("index"));
    fs::remove_dir_all(&to).unwrap();
    copy(&from, &to);
    assert_eq!(grade(&desk, "index"), (3, "wrong".to_owned()));
    assert_ne!(grade(&desk, "store").1, "wrong");
    assert_eq!(desk.run(&["repair", "index"]).code, 0);
    assert_eq!(grade(&desk, "index"), (0, "fine".to_owned()));
    fs::remove_file(desk.home().join("CURRENT")).unwrap();
    assert_eq!(grade(&desk, "store"), (3, "wrong".to_owned()));
}

#[test]
fn a_home_that_depends_on_the_folder_is_worth_a_note() {
    let mut desk = filled();
    desk.set("LCM_HOME", "not/absolute");
    assert_eq!(grade(&desk, "settings").1, "note");
}

#[test]
fn what_is_odd_about_settings_is_told() {
    let mut desk = filled();
    desk.set("LCM_INCREMENTAL_MAX_DEPTH", "3");
    desk.set("LCM_SUMARY_MODEL", "x");
    let (code, grade_then) = grade(&desk, "settings");
    assert_eq!((code, grade_then.as_str()), (0, "note"));
    let ran = desk.run(&["doctor"]);
    assert!(ran.stdout.contains("LCM_INCREMENTAL_MAX_DEPTH is a setting of another engine"), "{ran:?}");
    assert!(ran.stdout.contains("did you mean LCM_SUMMARY_MODEL?"), "{ran:?}");
    for (file, says) in [
        ("compress.protect_last = 'few'\n", "config.toml:1: compress.protect_last must be"),
        ("[compress\n", "is no TOML"),
        ("summary.base_url = 'http://localhost/v1'\n", "summary.model does not say which"),
        ("[redact]\nenabled = true\npatterns = ['none_such']\n", "no built-in redaction pattern"),
    ] {
        fs::write(desk.home().join("config.toml"), file).unwrap();
        assert_eq!(grade(&desk, "settings"), (3, "wrong".to_owned()), "{file}");
        let ran = desk.run(&["doctor"]);
        assert!(ran.stdout.contains(says), "{says}: {ran:?}");
    }
}

/// A store that must not be written: it is read, and every command that would write says why it cannot.
#[test]
fn a_store_that_must_not_be_written_is_named_and_left_as_it_is() {
    again::alone("doctor::a_store_that_must_not_be_written_is_named_and_left_as_it_is", || {
        let desk = filled();
        let file = fs::read_dir(desk.home()).unwrap().map(|entry| entry.unwrap().path());
        let data = file.filter(|path| path.extension().is_some_and(|end| end == "redb")).last().unwrap();
        fs::set_permissions(&data, fs::Permissions::from_mode(0o400)).unwrap();
        // Root may write whatever a mode says.
        let may = capabilities(None).unwrap();
        let over = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
        set_capabilities(None, CapabilitySets { effective: may.effective - over, ..may }).unwrap();
        assert_eq!(grade(&desk, "lock"), (3, "wrong".to_owned()));
        for args in [&["pin", "2"][..], &["compress", "#1", "--force"]] {
            let ran = desk.run(args);
            assert_eq!(ran.code, 3, "{args:?}: {ran:?}");
            assert!(ran.stdout.is_empty() && ran.stderr.contains("store.1.redb"), "{args:?}: {ran:?}");
        }
        assert_eq!(desk.run(&["why", "2"]).code, 0, "reads go on");
        assert_eq!(desk.run(&["show", "#1", "--at", "now"]).code, 0);
    });
}
