//! `import` of a Hermes Agent's `state.db`: read-only, beside a running agent, whole and damaged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use lcm_core::Json;
use lcm_tests::folder::contents;
use lcm_tests::run::{Desk, Ran, fixture};

use crate::json_lines;

/// Makes a database in a folder of its own.
fn database(desk: &Desk, args: &[&str]) -> PathBuf {
    let folder = desk.path("agent");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("state.db");
    let script = fixture("import/make_state_db.py");
    let made = Command::new("python3").arg(script).arg(&path).args(args).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    path
}

fn import(desk: &Desk, path: &std::path::Path) -> Ran {
    desk.run(&["import", &path.display().to_string(), "--format", "json"])
}

fn counts(ran: &Ran) -> (u64, u64) {
    let line = &json_lines(ran)[0];
    let count = |key| line.get(key).and_then(Json::as_u64).unwrap();
    (count("new"), count("lost"))
}

/// Messages of each session on the way it goes on with.
fn messages(desk: &Desk) -> Vec<u64> {
    let sessions = json_lines(&desk.run(&["sessions", "--format", "json"]));
    sessions.iter().map(|line| line.get("messages").and_then(Json::as_u64).unwrap()).collect()
}

#[test]
fn both_schemas_come_in_with_what_was_folded_and_what_was_taken_back() {
    for (schema, all, listed) in [("22", 16, [6, 3, 6]), ("31", 18, [6, 3, 8])] {
        let desk = Desk::new();
        let path = database(&desk, &["--schema", schema]);
        let before = contents(path.parent().unwrap());
        let ran = import(&desk, &path);
        assert_eq!((ran.code, counts(&ran)), (0, (all, 0)), "{ran:?}");
        assert_eq!(messages(&desk), listed);
        // The user's own files are as they were, and no others lie beside them.
        assert_eq!(contents(path.parent().unwrap()), before);
        assert_eq!(counts(&import(&desk, &path)), (0, 0));
        assert_eq!(desk.run(&["check"]).code, 0);
    }
}

#[test]
fn messages_are_what_the_agent_shows_a_model() {
    let desk = Desk::new();
    assert_eq!(import(&desk, &database(&desk, &["--schema", "31"])).code, 0);
    insta::assert_snapshot!(desk.run(&["show", "#1", "--raw"]).stdout);
    insta::assert_snapshot!(desk.run(&["show", "#3", "--format", "json", "--limit", "4"]).stdout);
    insta::assert_snapshot!(desk.run(&["sessions"]).stdout);
}

#[test]
fn what_is_only_in_the_log_of_a_running_agent_comes_in() {
    let desk = Desk::new();
    let path = database(&desk, &["--wal"]);
    let ran = import(&desk, &path);
    assert_eq!((ran.code, counts(&ran)), (0, (16, 0)), "{ran:?}");
}

#[test]
fn a_folder_that_cannot_be_written_is_no_hindrance() {
    let desk = Desk::new();
    let path = database(&desk, &["--wal"]);
    let folder = path.parent().unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o500)).unwrap();
    let ran = import(&desk, &path);
    let left = contents(folder);
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!((ran.code, counts(&ran)), (0, (16, 0)), "{ran:?}");
    // Root writes anywhere; for everybody else nothing was made.
    assert!(left.iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "db")).count() == 1, "{left:?}");
}

#[test]
fn damaged_rows_are_named_and_the_others_come_in() {
    for (kind, code, new, lost) in [
        ("old-columns", 0, 16, 0),
        ("newer-schema", 0, 16, 0),
        ("bad-tool-calls", 0, 16, 0),
        ("tool-calls-no-list", 0, 16, 0),
        ("bad-content-json", 0, 16, 0),
        ("nul-in-content", 0, 16, 0),
        ("content-bytes", 4, 15, 1),
        ("text-not-utf8", 4, 15, 1),
        ("time-is-text", 0, 16, 0),
        ("unknown-role", 0, 16, 0),
        ("no-session", 0, 16, 0),
        ("parent-circle", 0, 16, 0),
    ] {
        let desk = Desk::new();
        let ran = import(&desk, &database(&desk, &["--broken", kind]));
        assert_eq!((ran.code, counts(&ran)), (code, (new, lost)), "{kind}: {ran:?}");
        assert_eq!(desk.run(&["check"]).code, 0, "{kind}");
    }
}

#[test]
fn what_is_no_database_of_an_agent_is_refused_in_a_sentence() {
    for (kind, code, said) in [
        ("no-database", 2, "it is in no format that is known here"),
        ("empty", 1, "it is empty"),
        ("no-messages-table", 2, "it is a database without a table messages"),
    ] {
        let desk = Desk::new();
        let path = database(&desk, &["--broken", kind]);
        let ran = desk.run(&["import", &path.display().to_string()]);
        assert_eq!(ran.code, code, "{kind}: {ran:?}");
        assert!(ran.stderr.contains(said), "{kind}: {ran:?}");
        assert!(!desk.home().exists(), "{kind}: nothing was half-made");
    }
    // Half of a database: what can be read is, and the rest is named.
    for kind in ["cut", "zeroed"] {
        let desk = Desk::new();
        let path = database(&desk, &["--broken", kind]);
        let ran = desk.run(&["import", &path.display().to_string()]);
        assert!([2, 4].contains(&ran.code), "{kind}: {ran:?}");
        assert!(ran.stderr.contains("state.db"), "{kind}: {ran:?}");
    }
}
