//! Calls that wait: for a model of the host, for a deadline, for somebody who has given up. Others go on meanwhile.

use std::time::{Duration, Instant};

use lcm_core::Json;
use lcm_tests::run::Desk;

use crate::child::{Serving, code, number};

/// A conversation that is worth a model's summary.
fn compress(id: u64, extra: &str) -> String {
    let messages: Vec<String> = (0..40)
        .map(|n| {
            let role = if n % 2 == 0 { "user" } else { "assistant" };
            format!(r#"{{"role":"{role}","content":"message {n}: {}"}}"#, "the quick brown fox ".repeat(30))
        })
        .collect();
    format!(
        r#"{{"id":{id},"method":"compress","params":{{"session":{{"name":"s"}},"options":{{"threshold_tokens":2000,"protect_last":4}},"list":{{"all":[{}]}}{extra}}}}}"#,
        messages.join(",")
    )
}

fn open(desk: &Desk) -> Serving {
    let mut serving = Serving::start(desk);
    let line = r#"{"id":0,"method":"initialize","params":{"protocol":1,"client":{"name":"test"},"summarize":true}}"#;
    assert!(serving.ask(line).get("result").is_some());
    serving
}

fn id_of(told: &Json) -> u64 {
    number(told, "id")
}

/// Whether it is a call for a summary; for which call it is.
fn asked_for(told: &Json) -> Option<u64> {
    (told.get("method").and_then(Json::as_str) == Some("host/summarize"))
        .then(|| number(told.get("params").unwrap(), "call"))
}

#[test]
fn the_hosts_model_writes_the_summary_while_other_calls_are_answered() {
    let desk = Desk::new();
    let mut serving = open(&desk);
    serving.say(&compress(5, ""));
    let mut is_done = false;
    let mut asked = 0;
    while !is_done {
        let told = serving.told();
        if let Some(call) = asked_for(&told) {
            assert_eq!(call, 5);
            asked += 1;
            // Somebody else is answered while that call waits for us.
            let ping = serving.ask(r#"{"id":77,"method":"ping"}"#);
            assert_eq!(id_of(&ping), 77);
            let id = id_of(&told);
            serving.say(&format!(
                r#"{{"id":{id},"result":{{"text":"The fox is quick and brown, it was said {asked} times."}}}}"#
            ));
            continue;
        }
        assert_eq!(id_of(&told), 5);
        let result = told.get("result").unwrap();
        assert_eq!((number(result, "model_calls"), asked > 0), (asked, true));
        let shown = String::from_utf8(result.get("splices").unwrap().to_text()).unwrap();
        assert!(shown.contains("The fox is quick and brown"), "{shown}");
        is_done = true;
    }
}

#[test]
fn what_the_host_is_asked_has_the_shape_that_the_document_shows() {
    let doc =
        std::fs::read_to_string(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/wire.md")).unwrap();
    let shown = doc.lines().find(|line| line.starts_with('{') && line.contains("host/summarize")).unwrap();
    let shown = Json::parse(shown.as_bytes()).unwrap();
    let desk = Desk::new();
    let mut serving = open(&desk);
    serving.say(&compress(5, ""));
    let told = serving.told();
    let keys = |json: &Json| json.as_object().unwrap().iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    assert_eq!(keys(&told), keys(&shown));
    assert_eq!(keys(told.get("params").unwrap()), keys(shown.get("params").unwrap()));
}

#[test]
fn a_host_whose_model_fails_gets_a_summary_without_it_and_the_reason() {
    let desk = Desk::new();
    let mut serving = open(&desk);
    serving.say(&compress(5, ""));
    loop {
        let told = serving.told();
        match asked_for(&told) {
            Some(_) => {
                let id = id_of(&told);
                serving.say(&format!(r#"{{"id":{id},"error":{{"code":-32051,"message":"out of credit"}}}}"#));
            }
            None => {
                let result = told.get("result").unwrap();
                let failures = String::from_utf8(result.get("failures").unwrap().to_text()).unwrap();
                assert!(failures.contains("out of credit"), "{failures}");
                assert!(!result.get("splices").unwrap().is_null());
                return;
            }
        }
    }
}

#[test]
fn a_call_that_has_no_model_is_not_asked_for_one() {
    let desk = Desk::new();
    let mut serving = open(&desk);
    serving.say(&compress(5, r#","summarize":false"#));
    let told = serving.told();
    assert_eq!((asked_for(&told), id_of(&told)), (None, 5));
}

#[test]
fn a_call_that_is_cancelled_or_late_is_answered_at_once_and_keeps_no_summary() {
    for (extra, cancel, expected) in
        [("", Some(r#"{"method":"cancel","params":{"id":5}}"#), -32021), (r#","deadline_ms":300"#, None, -32020)]
    {
        let desk = Desk::new();
        let mut serving = open(&desk);
        serving.say(&compress(5, extra));
        let asked = serving.told();
        assert_eq!(asked_for(&asked), Some(5));
        let begun = Instant::now();
        if let Some(cancel) = cancel {
            serving.say(cancel);
        }
        let told = serving.told();
        assert_eq!((id_of(&told), code(&told)), (5, expected));
        // The model would have had a minute.
        assert!(begun.elapsed() < Duration::from_secs(30));
        // Its answer comes too late for everybody.
        let id = id_of(&asked);
        serving.say(&format!(r#"{{"id":{id},"result":{{"text":"too late"}}}}"#));
        let told = serving.call("status", r#"{"session":{"name":"s"}}"#);
        let session = told.get("session").unwrap();
        assert_eq!(number(session, "messages"), 40, "{told:?}");
        assert_eq!(serving.end().1, Some(0));
        let ops = desk.run(&["log", "s", "--ops"]).stdout;
        assert!(!ops.contains("summar"), "{ops}");
    }
}

#[test]
fn it_ends_with_the_parent_that_it_was_told_though_its_input_is_held_open() {
    let desk = Desk::new();
    let mut parent = std::process::Command::new("/bin/sleep").arg("1000").spawn().unwrap();
    let mut serving = Serving::start(&desk);
    let line = format!(
        r#"{{"id":0,"method":"initialize","params":{{"protocol":1,"client":{{"name":"test"}},"pid":{}}}}}"#,
        parent.id()
    );
    assert!(serving.ask(&line).get("result").is_some());
    assert!(serving.child.try_wait().unwrap().is_none());
    parent.kill().unwrap();
    parent.wait().unwrap();
    let begun = Instant::now();
    while serving.child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < crate::child::PATIENCE, "it goes on without its parent");
        std::thread::yield_now();
    }
    let told = serving.child.wait().unwrap();
    assert_eq!(told.code(), Some(0));
}

#[test]
fn a_parent_that_is_not_there_is_refused_by_name() {
    let desk = Desk::new();
    let mut serving = Serving::start(&desk);
    for pid in ["0", "4194304000", "99999999"] {
        let line = format!(
            r#"{{"id":0,"method":"initialize","params":{{"protocol":1,"client":{{"name":"t"}},"pid":{pid}}}}}"#
        );
        assert_eq!(code(&serving.ask(&line)), -32602, "{pid}");
    }
}
