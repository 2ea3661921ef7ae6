//! What a person sees at a terminal: colour only there, and nothing that a message says can steer it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lcm_tests::run::Desk;

use crate::filled;

#[test]
fn colour_appears_only_where_it_may() {
    let mut desk = filled();
    let args = ["grep", "-m", "1", "gauge"];
    assert!(!desk.run(&args).stdout.contains('\u{1b}'));
    assert!(desk.run(&[&args[..], &["--color", "always"]].concat()).stdout.contains("\u{1b}[31mgauge"));
    desk.is_terminal = true;
    desk.set("PAGER", "cat");
    assert!(desk.run(&args).stdout.contains("\u{1b}[31mgauge"));
    assert!(!desk.run(&[&args[..], &["--color", "never"]].concat()).stdout.contains('\u{1b}'));
    assert!(!desk.run(&[&args[..], &["--format", "json"]].concat()).stdout.contains('\u{1b}'));
}

/// A pager that is a script on the desk, and the file it writes to.
fn pager(desk: &mut Desk, script: &str) -> std::path::PathBuf {
    let out = desk.path("paged");
    let path = desk.put("pager", format!("#!/bin/sh\n{script} > '{}'\n", out.display()));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    desk.is_terminal = true;
    desk.set("PAGER", &path);
    out
}

#[test]
fn long_answers_go_through_the_pager_on_a_terminal() {
    let mut desk = filled();
    let plain = desk.run(&["log", "messages"]).stdout;
    let out = pager(&mut desk, "cat");
    let ran = desk.run(&["log", "messages", "--color", "never"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
    assert_eq!(fs::read_to_string(&out).unwrap(), plain);
    fs::remove_file(&out).unwrap();
    for args in [&["log", "messages", "--no-pager"][..], &["log", "messages", "--format", "json"], &["status"]] {
        let ran = desk.run(args);
        assert!(!ran.stdout.is_empty() && !out.exists(), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_pager_may_be_left_early() {
    let mut desk = Desk::with(&["sample/sample.sessions.jsonl.gz"]);
    let out = pager(&mut desk, "head -n 1");
    let ran = desk.run(&["show", "#1"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    assert_eq!(fs::read_to_string(&out).unwrap().lines().count(), 1);
}

#[test]
fn a_pager_that_is_not_there_is_done_without() {
    let mut desk = filled();
    desk.is_terminal = true;
    desk.set("PAGER", "no-such-pager --at-all");
    let ran = desk.run(&["log", "messages"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 14), "{ran:?}");
}

#[test]
fn messages_cannot_steer_a_terminal() {
    let desk = Desk::new();
    let hostile = r#"{"role":"user","content":"red \u001b[31m title \u001b]0;x\u0007 back \b\b csi \u009b2J turn \u202e del \u007f"}"#;
    let turn = format!(r#"{{"session":"evil\u001b[2J","seq":0,"ts":1,"msg":{hostile}}}"#);
    let file = desk.put("hostile.jsonl", turn);
    assert_eq!(desk.run(&["import", &file]).code, 0);
    for args in [
        &["sessions"][..],
        &["log", "#1"],
        &["show", "1"],
        &["show", "1", "--raw"],
        &["grep", "red"],
        &["grep", "-l", "red"],
        &["grep", "--words", "red"],
        &["grep", "--ranked", "red"],
        &["expand", "1"],
        &["describe", "1"],
        &["describe", "#1"],
        &["export"],
        &["show", "1", "--format", "json"],
        &["sessions", "--format", "json"],
    ] {
        let ran = desk.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
        let raw = args.contains(&"--raw") || args.contains(&"json") || args.contains(&"export");
        // JSON escapes what is below the space, and is not meant for a terminal.
        let bad = ran.stdout.chars().filter(|c| steers(*c) && !(raw && u32::from(*c) >= 0x7f)).count();
        assert_eq!(bad, 0, "{args:?}: {:?}", ran.stdout);
    }
    insta::assert_snapshot!(desk.run(&["show", "1"]).all());
}

#[test]
fn a_name_that_is_not_found_cannot_steer_a_terminal_either() {
    let ran = filled().run(&["show", "\u{1b}[31mred", "--color", "never"]);
    assert!(!ran.stderr.contains('\u{1b}'), "{ran:?}");
}
