//! Anything can come over the wire: it is refused by name, costs no more than the bounds, and the next call is
//! answered.

use std::io::Write;
use std::time::{Duration, Instant};

use lcm_core::Json;
use lcm_tests::random::Random;
use lcm_tests::run::Desk;

use crate::child::{PATIENCE, Serving, code};

#[test]
fn what_is_no_request_is_refused_and_the_next_is_answered() {
    let desk = Desk::new();
    let mut serving = Serving::open(&desk);
    for (line, expected) in [
        ("{", -32700),
        ("\u{0}\u{1}", -32700),
        ("[]", -32600),
        ("7", -32600),
        (r#"{"id":1}"#, -32600),
        (r#"{"id":[],"method":"ping"}"#, -32600),
        (r#"{"id":1,"method":"ping","params":[]}"#, -32602),
        (r#"{"id":1,"method":"no"}"#, -32601),
        (r#"{"id":1,"method":"turn","params":{}}"#, -32602),
        (r#"{"id":1,"method":"turn","params":{"session":{"name":"s"},"list":{"all":[5]}}}"#, -32040),
        (r#"{"id":1,"method":"turn","params":{"session":{"name":""},"list":{"all":[]}}}"#, -32602),
        (r#"{"id":1,"method":"turn","params":{"session":5,"list":{"all":[]}}}"#, -32602),
        (r#"{"id":1,"method":"due","params":{"session":{"name":"s"},"prompt_tokens":-1}}"#, -32602),
        (
            r#"{"id":1,"method":"compress","params":{"session":{"name":"s"},"list":{"all":[]},"options":{"threshold_tokens":"x"}}}"#,
            -32602,
        ),
        (r#"{"id":1,"method":"initialize","params":{"protocol":1,"client":{"name":"again"}}}"#, -32002),
    ] {
        let told = serving.ask(line);
        assert_eq!(code(&told), expected, "{line}: {told:?}");
    }
    serving.say("");
    serving.say("   ");
    assert!(serving.ask(r#"{"id":1,"method":"ping"}"#).get("result").is_some());
    assert_eq!(serving.end(), (Vec::new(), Some(0)));
}

#[test]
fn nothing_is_answered_before_the_connection_is_open_and_no_unknown_protocol_is_spoken() {
    let desk = Desk::new();
    let mut serving = Serving::start(&desk);
    assert_eq!(code(&serving.ask(r#"{"id":1,"method":"ping"}"#)), -32002);
    let told = serving.ask(r#"{"id":1,"method":"initialize","params":{"protocol":0,"client":{"name":"old"}}}"#);
    assert_eq!(code(&told), -32002);
    let told = serving.ask(r#"{"id":1,"method":"initialize","params":{"protocol":99,"client":{"name":"newer"}}}"#);
    assert_eq!(told.get("result").and_then(|result| result.get("protocol")).and_then(Json::as_u64), Some(1));
}

#[test]
fn a_line_of_a_hundred_megabytes_is_passed_over_without_being_held() {
    let desk = Desk::new();
    let mut serving = Serving::open(&desk);
    let before = serving.resident_bytes();
    let chunk = vec![b'x'; 1 << 20];
    for _ in 0..100 {
        serving.send(&chunk);
    }
    serving.send(b"\n");
    assert_eq!(code(&serving.told()), -32001);
    assert!(serving.ask(r#"{"id":1,"method":"ping"}"#).get("result").is_some());
    let after = serving.resident_bytes();
    assert!(after < before + (160 << 20), "it held {before} bytes, and {after} after");
}

#[test]
fn half_a_line_at_the_end_is_nothing() {
    let desk = Desk::new();
    let mut serving = Serving::open(&desk);
    serving.send(br#"{"id":1,"method":"turn","params":{"session":{"name":"s"},"list":{"all":[{"role":"user","con"#);
    assert_eq!(serving.end(), (Vec::new(), Some(0)));
    assert_eq!(desk.run(&["sessions"]).code, 1);
}

#[test]
fn calls_that_run_at_the_end_of_input_are_answered_and_durable() {
    let desk = Desk::new();
    let mut serving = Serving::open(&desk);
    for n in 0..20 {
        serving.say(&format!(
            r#"{{"id":{n},"method":"turn","params":{{"session":{{"name":"s{n}"}},"list":{{"all":[{{"role":"user","content":"said {n}"}}]}}}}}}"#
        ));
    }
    let (rest, code) = serving.end();
    assert_eq!((rest.len(), code), (20, Some(0)));
    assert_eq!(desk.run(&["sessions", "--format", "json"]).stdout.lines().count(), 20);
}

#[test]
fn a_client_that_never_reads_is_not_read_from_without_an_end() {
    let desk = Desk::new();
    let mut child = Serving::spawn(&desk);
    let mut input = child.stdin.take().unwrap();
    let line = format!("{{\"id\":\"{}\",\"method\":\"nothing\"}}\n", "x".repeat(1000));
    let (say, said) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        // More than every pipe and every bound holds, if each call were taken.
        for _ in 0..200_000 {
            if input.write_all(line.as_bytes()).is_err() {
                break;
            }
            if say.send(()).is_err() {
                break;
            }
        }
    });
    // It stops taking lines: the last of them are long ago.
    let mut count = 0;
    while said.recv_timeout(Duration::from_secs(3)).is_ok() {
        count += 1;
    }
    assert!(count < 200_000, "{count} lines were taken of a client that never reads");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let resident = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    let kilobytes: u64 = resident.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kilobytes < 200_000, "{kilobytes} kB");
    child.kill().unwrap();
    child.wait().unwrap();
    drop(said);
    writer.join().unwrap();
}

#[test]
fn no_bytes_make_it_panic_or_leave_a_call_without_an_answer() {
    let desk = Desk::new();
    let mut random = Random::of_test(31);
    let mut serving = Serving::open(&desk);
    let pieces: &[&str] = &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"id\":1",
        "\"method\":\"turn\"",
        "\"method\":\"tool\"",
        "\"method\":\"select\"",
        "\"params\":{}",
        "\"session\":{\"name\":\"s\"}",
        "\"list\":{\"all\":[{\"role\":\"user\",\"content\":\"x\"}]}",
        "\"list\":{\"base\":\"b\",\"splices\":[[0,0,[]]]}",
        "\"name\":\"lcm_grep\"",
        "\"arguments\":{\"query\":\"x\"}",
        "\"result\":5",
        "null",
        "\u{2028}",
        "\"\\ud800\"",
        "1e999",
        "\"deadline_ms\":0",
        "\"deadline_ms\":50",
        "\n",
    ];
    for round in 0..300 {
        let mut line: Vec<u8> = Vec::new();
        for _ in 0..random.below(12) {
            line.extend(random.pick(pieces).as_bytes());
            if random.below(20) == 0 {
                line.push(u8::try_from(random.below(256)).unwrap());
            }
        }
        line.push(b'\n');
        serving.send(&line);
        let id = format!("round {round}");
        serving.say(&format!(r#"{{"id":"{id}","method":"ping"}}"#));
        let begun = Instant::now();
        loop {
            let told = serving.told();
            if told.get("id").and_then(Json::as_str) == Some(&id) {
                break;
            }
            assert!(begun.elapsed() < PATIENCE, "{}", String::from_utf8_lossy(&line));
        }
    }
    assert_eq!(serving.end().1, Some(0));
}
