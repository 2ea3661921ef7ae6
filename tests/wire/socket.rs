//! The unix socket: the same protocol, for the owner only, with one server or several, and after one that died.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use lcm_tests::run::Desk;

use crate::child::Serving;

const INITIALIZE: &str = r#"{"id":1,"method":"initialize","params":{"protocol":1,"client":{"name":"hook"}}}"#;

/// Says lines on the socket of a data directory; gives the answers.
fn asked(home: &Path, lines: &[&str]) -> Vec<String> {
    let mut stream = UnixStream::connect(home.join("serve.sock")).unwrap();
    stream.set_read_timeout(Some(crate::child::PATIENCE)).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    lines
        .iter()
        .map(|line| {
            writeln!(stream, "{line}").unwrap();
            answers.next().unwrap().unwrap()
        })
        .collect()
}

const TURN: &str =
    r#"{"id":2,"method":"turn","params":{"session":{"name":"hooked"},"list":{"all":[{"role":"user","content":"x"}]}}}"#;

#[test]
fn whoever_serves_answers_on_the_socket_too_and_takes_it_away_at_the_end() {
    let desk = Desk::new();
    let serving = Serving::open(&desk);
    let socket = desk.home().join("serve.sock");
    assert_eq!(socket.symlink_metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let answers = asked(&desk.home(), &[INITIALIZE, TURN]);
    assert!(answers[1].contains(r#""new":1"#), "{answers:?}");
    assert_eq!(serving.end().1, Some(0));
    assert!(!socket.exists());
    assert_eq!(desk.run(&["sessions", "--format", "json"]).stdout.lines().count(), 1);
}

#[test]
fn a_socket_that_a_dead_server_left_is_replaced_and_several_servers_harm_nobody() {
    let desk = Desk::new();
    let mut dead = Serving::open(&desk);
    dead.child.kill().unwrap();
    dead.child.wait().unwrap();
    assert!(desk.home().join("serve.sock").exists());
    let one = Serving::open(&desk);
    let two = Serving::open(&desk);
    assert!(asked(&desk.home(), &[INITIALIZE, TURN])[1].contains(r#""new":1"#));
    // The second did not listen, because the first did.
    assert_eq!(two.end().1, Some(0));
    assert!(asked(&desk.home(), &[INITIALIZE, TURN])[1].contains(r#""new":0"#));
    assert_eq!(one.end().1, Some(0));
}

#[test]
fn a_data_directory_with_a_long_path_has_a_socket_too() {
    let mut desk = Desk::new();
    let long = desk.path(&"long".repeat(40));
    desk.set("LCM_HOME", &long.display().to_string());
    let serving = Serving::open(&desk);
    assert!(long.join("serve.sock").exists());
    assert_eq!(serving.end().1, Some(0));
}

#[test]
fn the_setting_keeps_the_socket_away() {
    let mut desk = Desk::new();
    desk.set("LCM_SERVE_SOCKET", "false");
    let serving = Serving::open(&desk);
    assert!(!desk.home().join("serve.sock").exists());
    assert_eq!(serving.end().1, Some(0));
}
