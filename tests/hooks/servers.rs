//! Servers that are stopped, crowded, older, broken or wrong: the hook answers in time, and what it was told is kept.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::Duration;

use lcm_core::Json;
use rustix::process::{Pid, Signal, kill_process};

use crate::host::{Called, Host, call, messages, requests};

/// What a hook is given time for here.
const TIME: Duration = Duration::from_millis(400);

fn request() -> String {
    requests().swap_remove(2).1
}

/// A call that is in a hurry; what was told must be in the spool once more, and nothing said about that.
fn kept(host: &Host, what: &str) -> Called {
    let before = host.spooled().len();
    let mut command = host.command();
    command.env("LCM_HOOK_TIMEOUT_MS", TIME.as_millis().to_string());
    let called = call(command, request().as_bytes());
    assert_eq!(host.spooled().len(), before + 1, "{what}");
    assert_eq!(called.stderr, "", "{what}");
    let shown = Json::parse(request().as_bytes()).unwrap();
    assert_eq!(called.answer.get("messages"), shown.get("messages"), "{what}");
    assert!(called.took < TIME + Duration::from_secs(5), "{what}: {:?}", called.took);
    called
}

/// Has somebody listen in the data directory who does with every connection what `serve` does.
fn listening(host: &Host, serve: impl Fn(&mut BufReader<UnixStream>) + Send + 'static) {
    fs::create_dir_all(host.data()).unwrap();
    let socket = host.data().join("serve.sock");
    if socket.exists() {
        fs::remove_file(&socket).unwrap();
    }
    let listener = UnixListener::bind(&socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            serve(&mut BufReader::new(stream.unwrap()));
        }
    });
}

/// Reads both lines of a hook, and says this.
fn saying(host: &Host, told: Vec<u8>) {
    listening(host, move |stream| {
        let mut lines = Vec::new();
        while lines.iter().filter(|byte| **byte == b'\n').count() < 2 {
            if stream.read_until(b'\n', &mut lines).unwrap() == 0 {
                return;
            }
        }
        // Who has heard enough is gone.
        drop(stream.get_mut().write_all(&told));
    });
}

const FIRST: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocol":1}}"#;

#[test]
fn a_server_that_is_stopped_is_not_waited_for_beyond_the_time() {
    let host = Host::new();
    let server = host.serve();
    kill_process(Pid::from_child(&server.child), Signal::STOP).unwrap();
    let called = kept(&host, "stopped");
    assert!(called.took >= TIME);
    kill_process(Pid::from_child(&server.child), Signal::CONT).unwrap();
    server.end();
}

#[test]
fn the_queue_of_somebody_who_lets_nobody_in_is_not_waited_in_beyond_the_time() {
    let host = Host::new();
    fs::create_dir_all(host.data()).unwrap();
    let socket = host.data().join("serve.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let mut queue = Vec::new();
    let (sender, full) = std::sync::mpsc::channel();
    // The queue is full when a connection has to wait; that thread waits until the listener goes.
    thread::spawn(move || {
        while let Ok(stream) = UnixStream::connect(&socket) {
            if sender.send(stream).is_err() {
                return;
            }
        }
    });
    while let Ok(stream) = full.recv_timeout(Duration::from_millis(300)) {
        queue.push(stream);
    }
    kept(&host, "a full queue");
}

#[test]
fn a_dead_server_s_socket_is_nobody() {
    let host = Host::new();
    host.serve().kill();
    assert!(host.data().join("serve.sock").exists());
    kept(&host, "dead");
}

#[test]
fn what_is_no_answer_is_none() {
    let host = Host::new();
    let line = |text: &str| format!("{FIRST}\n{text}\n").into_bytes();
    let too_long = format!(r#"{{"jsonrpc":"2.0","id":2,"result":{{"a":"{}"}}}}"#, "x".repeat(1 << 20));
    let far_too_long = format!(r#"{{"jsonrpc":"2.0","id":2,"result":{{"a":"{}"}}}}"#, "x".repeat(5 << 20));
    for told in [
        Vec::new(),
        FIRST.as_bytes().to_vec(),
        line(""),
        line("garbage"),
        line(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"there is no verb hook"}}"#),
        line(r#"{"jsonrpc":"2.0","id":2,"result":null}"#),
        line(r#"{"jsonrpc":"2.0","id":2,"result":[]}"#),
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32031,\"message\":\"too new\"}}\n".to_vec(),
        format!("{FIRST}\n{}", r#"{"jsonrpc":"2.0","id":2,"result":{"type":"#).into_bytes(),
        line(&too_long),
        line(&far_too_long),
        b"\xff\xfe\n".to_vec(),
    ] {
        let what = crate::host::shown(&told);
        saying(&host, told);
        kept(&host, &what);
    }
}

#[test]
fn what_is_told_beside_the_answer_is_passed_over_and_the_answer_is_written_as_it_is() {
    let host = Host::new();
    let window = messages(3_000, "told");
    let answer = format!(r#"{{"type":"assemble_result", "messages":{window}}}"#);
    let told = format!(
        "{FIRST}\n{}\n{}\n",
        r#"{"jsonrpc":"2.0","id":7,"method":"host/summarize","params":{}}"#,
        format_args!(r#"{{"jsonrpc":"2.0","id":2,"result":{answer}}}"#)
    );
    saying(&host, told.into_bytes());
    let called = host.call(request().as_bytes());
    assert_eq!(called.answer, Json::parse(answer.as_bytes()).unwrap());
    assert_eq!(host.spooled(), []);
}

#[test]
fn a_door_that_is_closed_is_tried_again() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let host = Host::new();
    let count = AtomicUsize::new(0);
    listening(&host, move |stream| {
        if count.fetch_add(1, Ordering::SeqCst) < 2 {
            return;
        }
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        stream.read_line(&mut line).unwrap();
        let told = format!("{FIRST}\n{}\n", r#"{"jsonrpc":"2.0","id":2,"result":{"type":"third"}}"#);
        stream.get_mut().write_all(told.as_bytes()).unwrap();
    });
    host.expect(request().as_bytes(), r#"{"type":"third"}"#);
    assert_eq!(host.spooled(), []);
}
