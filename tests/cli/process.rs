//! The program as a process: its streams, its exit code, the modes of what it writes, and many at once.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use lcm_tests::program;
use lcm_tests::run::{Desk, fixture};

use crate::filled;

#[test]
fn the_program_answers_and_exits_as_its_function_does() {
    let desk = filled();
    for args in
        [&["sessions"][..], &["grep", "station"], &["grep", "nothing like it"], &["log", "nobody"], &["grep", "["]]
    {
        let output = desk.command(program!()).args(args).output().unwrap();
        let ran = desk.run(args);
        assert_eq!(output.status.code(), Some(i32::from(ran.code)), "{args:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), ran.stdout, "{args:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), ran.stderr, "{args:?}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let desk = Desk::with(&["sample/sample.sessions.jsonl.gz"]);
    for args in [&["export"][..], &["show", "#1"], &["grep", "."]] {
        let mut child =
            desk.command(program!()).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut begin = [0; 10];
        child.stdout.take().unwrap().read_exact(&mut begin).unwrap();
        // The reader is gone now, with most of the answer unread.
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()), "{args:?}");
    }
}

#[test]
fn what_is_written_is_for_its_owner_only() {
    let desk = Desk::new();
    // A careless mask must not open anything.
    let script = "umask 000; exec \"$@\"";
    let file = desk.path("all.jsonl").display().to_string();
    for args in [vec!["import", &fixture("import/openai.json")], vec!["export", "--output", &file]] {
        let mut command = desk.command("/bin/sh");
        let output = command.args(["-c", script, "sh", program!()]).args(&args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut open = vec![desk.home(), desk.path("all.jsonl")];
    while let Some(path) = open.pop() {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

#[test]
fn no_color_is_honoured() {
    let desk = filled();
    let mut command = desk.command(program!());
    let output = command.args(["grep", "station"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(output.stdout.contains(&0x1b), "forced");
    let mut command = desk.command(program!());
    let output = command.args(["grep", "station"]).env("NO_COLOR", "1").output().unwrap();
    assert!(!output.stdout.contains(&0x1b), "forbidden");
}

#[test]
fn messages_are_taken_from_a_pipe() {
    let desk = Desk::new();
    let mut command = desk.command(program!());
    let mut child = command
        .args(["import", "-", "--session", "piped"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"{\"role\":\"user\",\"content\":\"through a pipe\"}\n").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(desk.run(&["grep", "-c", "pipe"]).stdout, "1\n");
}

#[test]
fn imports_at_once_keep_every_message_once() {
    let desk = Desk::new();
    let file = fixture("sample/sample.sessions.jsonl.gz");
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut command = desk.command(program!());
            command.args(["import", &file]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let alone = Desk::with(&["sample/sample.sessions.jsonl.gz"]);
    let messages = |desk: &Desk| desk.run(&["export"]).stdout.matches("\"lcm\":\"message\"").count();
    assert_eq!(messages(&desk), messages(&alone));
    assert_eq!(desk.run(&["check"]).code, 0);
}
