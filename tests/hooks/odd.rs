//! Whatever comes on standard input: exit code 0, one line of JSON, at most one line of talk, and the input read to its end.

use std::process::Stdio;
use std::time::{Duration, Instant};

use lcm_core::Json;

use crate::host::{AGENT, Called, Host, PATIENCE, call, requests, rest};

/// Bytes in the middle of which requests are cut: every one of the first, then some.
fn cuts(len: usize) -> Vec<usize> {
    (0..len.min(24)).chain((24..len).step_by(len / 12 + 1)).chain([len.saturating_sub(2)]).collect()
}

/// With somebody serving, and with nobody.
fn both(test: impl Fn(&Host)) {
    let host = Host::new();
    test(&host);
    let server = host.serve();
    test(&host);
    host.assert_only_what_waits_is_left();
    server.end();
}

/// What cannot be read: a neutral answer, one line of talk, nothing kept.
fn refused(host: &Host, stdin: &[u8]) -> Called {
    let before = host.spooled().len();
    let called = host.call(stdin);
    assert_eq!(called.answer, Json::parse(br#"{"type":"ok"}"#).unwrap(), "{}", crate::host::shown(stdin));
    assert!(called.stderr.starts_with("lcm-hook: the request cannot be read: "), "{}", called.stderr);
    assert_eq!(host.spooled().len(), before, "{}", crate::host::shown(stdin));
    called
}

#[test]
fn a_request_that_is_cut_anywhere_is_refused() {
    both(|host| {
        for (_, request) in requests() {
            let text = request.trim_end();
            for cut in cuts(text.len()) {
                refused(host, &text.as_bytes()[..cut]);
            }
        }
    });
}

#[test]
fn what_is_no_json_object_is_refused() {
    both(|host| {
        for odd in [
            "", " ", "\n", "\n\n", "not-json", "[]\n", "null\n", "7", "\"text\"", "true", "{}{}", "{}\n{}\n",
            "{\"a\":}",
        ] {
            refused(host, odd.as_bytes());
        }
        for odd in [&b"\xff\xfe"[..], b"\0", b"{\"a\":\"\xff\"}", b"{\"type\":\"assemble\"}\0", &[b'['; 10_000]] {
            refused(host, odd);
        }
    });
}

#[test]
fn what_is_an_object_is_answered_whatever_is_in_it() {
    let window = |messages: &str| format!(r#"{{"type":"assemble","agent_id":"{AGENT}","messages":{messages}}}"#);
    let mut all: Vec<String> = [
        "{}",
        "{ }\r\n",
        "\u{feff}{}\n",
        "{\n \"type\": \"ingest\",\n \"message\": \"in lines\"\n}\n",
        r#"{"type":null}"#,
        r#"{"type":7,"messages":{}}"#,
        r#"{"type":"not known yet","messages":[1,2]}"#,
        r#"{"type":"assemble"}"#,
        r#"{"type":"assemble","messages":null}"#,
        r#"{"type":"assemble","type":"compact","messages":[],"messages":[1]}"#,
        r#"{"type":"ingest","message":"nul \u0000 and half \ud83d an emoji"}"#,
        r#"{"type":"ingest","message":["no text"],"agent_id":{"a":1},"peer_id":-1e400}"#,
        r#"{"type":"after_turn","messages":"no list","agent_id":NaN}"#,
        r#"{"type":"compact","messages":[],"token_pressure":[],"context_window_tokens":-5}"#,
        r#"{"type":"transform_tool_result","content":{"deep":[[[[]]]]},"status":3}"#,
        r#"{"type":"on_event"}"#,
    ]
    .map(str::to_owned)
    .to_vec();
    for messages in [
        "[]",
        "{}",
        r#""text""#,
        "[null,1,\"x\",[],{}]",
        r#"[{"role":"user","content":[]}]"#,
        r#"[{"role":"user","content":[{"type":"hologram","data":{"a":[1,null]}}],"not_known_yet":1}]"#,
        r#"[{"role":"tool","content":7}]"#,
        r#"[{"role":"user","content":[{"type":"tool_result","content":"orphan"}]}]"#,
        r#"[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":"{"}]}]"#,
        r#"[{"role":"user","content":"half \udc00 of one","timestamp":"yesterday"}]"#,
    ] {
        all.push(window(messages));
        all.push(window(messages).replace("assemble", "after_turn"));
        all.push(window(messages).replace("assemble", "compact"));
    }
    both(|host| {
        for text in &all {
            let called = host.call(text.as_bytes());
            assert_eq!(called.stderr, "", "{text}");
        }
    });
}

#[test]
fn what_is_deep_is_answered_or_refused() {
    both(|host| {
        for depth in [100, 250, 255, 256, 300, 100_000] {
            let text = format!(r#"{{"type":"ingest","message":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
            let before = host.spooled().len();
            host.call(text.as_bytes());
            // As deep as is read here and one too deep for the line that it stands in: it is kept, and harms nobody.
            let kept = host.spooled().len() - before;
            for name in lcm_store::spool::names(host.data()).unwrap().into_iter().rev().take(kept) {
                lcm_store::spool::remove(host.data(), &name).unwrap();
            }
        }
    });
}

#[test]
fn long_requests_are_read_to_their_end() {
    both(|host| {
        let long = |kind: &str, bytes: usize| {
            let text = "0123456789 äöü \\u0000 ".repeat(bytes / 24);
            format!(
                r#"{{"type":"{kind}","agent_id":"{AGENT}","message":"{text}","messages":[{{"role":"user","content":"{text}"}}]}}"#
            )
        };
        for bytes in [128 << 10, 10 << 20] {
            for kind in ["ingest", "after_turn"] {
                let called = host.call(long(kind, bytes).as_bytes());
                assert_eq!(called.stderr, "");
            }
        }
    });
    // What nobody takes is read all the same.
    let host = Host::new();
    let mut text = br#"{"type":"ingest","message":""#.to_vec();
    text.resize(65 << 20, b'x');
    text.extend_from_slice(br#""}"#);
    assert!(refused(&host, &text).stderr.contains("more than"));
}

#[test]
fn a_pipe_that_is_never_closed_is_not_waited_for_beyond_the_time() {
    let host = Host::new();
    let limited = || {
        let mut command = host.command();
        command.env("LCM_HOOK_TIMEOUT_MS", "300");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    // With nothing in it, with half a request, and with a whole one: that is answered then, and kept.
    for (said, kept) in [("", 0), (r#"{"type":"ing"#, 0), ("{\"type\":\"ingest\",\"message\":\"m\"}\n", 1)] {
        let begun = Instant::now();
        let mut child = limited().spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut input, said.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(begun.elapsed() >= Duration::from_millis(300) && begun.elapsed() < PATIENCE);
        drop(input);
        let answer = if kept == 0 {
            "{\"type\":\"ok\"}\n"
        } else {
            "{\"type\":\"ingest_result\",\"memories\":[],\"recalled_memories\":[]}\n"
        };
        assert_eq!(rest(child.stdout.take().unwrap()), answer, "{said}");
        assert_eq!(rest(child.stderr.take().unwrap()).lines().count(), 1 - kept, "{said}");
        assert_eq!(host.spooled().len(), kept, "{said}");
    }
}

#[test]
fn an_output_that_nobody_reads_is_no_failure() {
    let host = Host::new();
    let mut command = host.command();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), requests()[2].1.as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    assert_eq!(host.spooled().len(), 1);
}

#[test]
fn values_in_the_environment_that_make_no_sense_are_passed_over() {
    let host = Host::new();
    for (variable, value) in [("LCM_HOOK_TIMEOUT_MS", "soon"), ("LCM_LOG", "trace"), ("LIBREFANG_AGENT_ID", "\"\\\n")] {
        let mut command = host.command();
        command.env(variable, value);
        assert_eq!(call(command, requests()[1].1.as_bytes()).stderr, "", "{variable}");
    }
}
