//! `sessions`, `log`, `show`, `describe`: what is in the store, for people and for programs.

use lcm_core::Json;
use lcm_tests::run::{Desk, fixture};

use crate::{both, filled, json_lines, text_of};

#[test]
fn sessions_are_listed() {
    insta::assert_snapshot!(both(&filled(), &["sessions"]));
}

#[test]
fn a_log_has_a_line_for_each_message() {
    insta::assert_snapshot!(both(&filled(), &["log", "messages"]));
}

#[test]
fn a_log_goes_from_anywhere_in_either_direction() {
    let desk = filled();
    let numbers = |args: &[&str]| -> Vec<u64> {
        let ran = desk.run(&[&["log", "messages", "--format", "json"], args].concat());
        json_lines(&ran).iter().map(|line| line.get("number").and_then(Json::as_u64).unwrap()).collect()
    };
    assert_eq!(numbers(&["--limit", "3"]), [1, 2, 3]);
    assert_eq!(numbers(&["--from", "12"]), [12, 13, 14]);
    assert_eq!(numbers(&["--reverse", "-n", "2"]), [14, 13]);
    assert_eq!(numbers(&["--reverse", "--from", "3"]), [3, 2, 1]);
    assert_eq!(numbers(&["--limit", "0"]), [0; 0]);
}

#[test]
fn a_branch_that_was_left_can_be_read() {
    let desk = filled();
    let ran = desk.run(&["describe", "5f0c", "--format", "json"]);
    // The beginning of the name is that of the sub-agent's session too.
    assert_eq!(ran.code, 2, "{ran:?}");
    insta::assert_snapshot!(both(&desk, &["describe", "#2"]));
    let left = desk.run(&["log", "#2", "--timeline", "2"]);
    assert!(left.stdout.contains("Make it 7200.") && !left.stdout.contains("Use the zone"), "{left:?}");
    let now = desk.run(&["log", "#2"]);
    assert!(!now.stdout.contains("Make it 7200.") && now.stdout.contains("Use the zone"), "{now:?}");
}

#[test]
fn messages_are_shown_as_one_reads_them() {
    // Calls at once, a list with an image, thoughts, an empty message, unknown keys, odd characters.
    insta::assert_snapshot!(both(&filled(), &["show", "3", "5", "6", "10", "12", "13", "14"]));
}

#[test]
fn a_session_of_claude_code_is_shown_with_its_blocks() {
    let ran = filled().run(&["show", "#2", "--from", "19", "--limit", "6"]);
    insta::assert_snapshot!(ran.all());
}

#[test]
fn raw_is_exactly_what_was_said() {
    let desk = filled();
    let raw = desk.run(&["show", "messages", "--raw"]);
    let said = std::fs::read(fixture("import/messages.jsonl")).unwrap();
    let lines = said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let expected: Vec<String> =
        lines.map(|line| String::from_utf8(Json::parse(line).unwrap().to_text()).unwrap()).collect();
    assert_eq!(raw.stdout.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_node_is_described() {
    insta::assert_snapshot!(both(&filled(), &["describe", "7", "4"]));
}

#[test]
fn a_handle_is_taken_in_every_form() {
    let desk = filled();
    let described = desk.run(&["describe", "4", "--format", "json"]);
    let line = &json_lines(&described)[0];
    let (handle, id) = (text_of(line, "handle"), text_of(line, "id"));
    let forms = [
        handle.clone(),
        handle[..12].to_owned(),
        id.clone(),
        id[..10].to_uppercase(),
        format!("[{handle}]"),
        format!("as {handle} says"),
        "4".to_owned(),
    ];
    for form in forms {
        let ran = desk.run(&["describe", &form, "--format", "json"]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, described.stdout.as_str()), "{form}: {}", ran.stderr);
    }
}

#[test]
fn the_newest_place_stands_for_a_message_that_was_said_twice() {
    let desk = filled();
    let handle = text_of(&json_lines(&desk.run(&["describe", "7", "--format", "json"]))[0], "handle");
    let ran = desk.run(&["describe", &handle, "--format", "json"]);
    assert_eq!(json_lines(&ran)[0].get("number").and_then(Json::as_u64), Some(11));
}

#[test]
fn the_status_says_where_and_how_large() {
    let ran = filled().run(&["status"]);
    // Sizes differ between file systems.
    let lines = ran.stdout.lines().filter(|line| !line.starts_with("data") && !line.starts_with("index"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"));
    let status = &json_lines(&filled().run(&["status", "--format", "json"]))[0];
    assert_eq!(status.get("sessions").and_then(Json::as_u64), Some(4));
    assert_eq!(status.get("index").and_then(|index| index.get("state")).and_then(Json::as_str), Some("ready"));
}

#[test]
fn a_scope_hides_what_it_does_not_name() {
    let desk = Desk::new();
    let file = fixture("import/openai.json");
    for (agent, session) in [("one", "a"), ("two", "b")] {
        let ran = desk.run(&["import", &file, "--agent", agent, "--person", "p", "--session", session]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let sessions = |args: &[&str]| {
        let ran = desk.run(&[&["sessions", "--format", "json"], args].concat());
        (ran.code, json_lines(&ran).iter().map(|line| text_of(line, "name")).collect::<Vec<_>>())
    };
    assert_eq!(sessions(&["--agent", "one"]), (0, vec!["a".to_owned()]));
    assert_eq!(sessions(&["--person", "p"]), (0, vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(sessions(&["--agent", "three"]), (1, Vec::new()));
    for args in [&["show", "1"], &["describe", "1"], &["expand", "1"], &["log", "#1"], &["show", "a"]] {
        let ran = desk.run(&[args.as_slice(), &["--agent", "two"]].concat());
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
    }
    assert_eq!(desk.run(&["grep", "backup", "-c", "--agent", "three"]).stdout, "0\n");
}
