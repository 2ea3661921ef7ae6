//! The protocol as it should be spoken: beginning, listing, calling, giving up, ending.

use std::time::{Duration, Instant};

use lcm_core::Json;
use lcm_tests::run::Desk;

use super::child::{Client, at, desk, error, request, said, text};

fn names(tools: &Json) -> Vec<&str> {
    at(tools, &["result", "tools"]).as_array().unwrap().iter().map(|tool| text(tool, &["name"])).collect()
}

#[test]
fn every_version_of_the_protocol_is_answered_in_its_own() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let desk = Desk::new();
        let mut client = Client::start(&desk, &[]);
        assert!(client.ask(1, "ping", "{}").get("result").is_some());
        let params = format!(
            r#"{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"t","version":""}}}}"#
        );
        let told = client.ask(2, "initialize", &params);
        assert_eq!(text(&told, &["result", "protocolVersion"]), version);
        assert_eq!(text(&told, &["result", "serverInfo", "name"]), "lcm");
        assert!(client.ask(3, "ping", "{}").get("result").is_some());
        assert_eq!(client.end(), (Vec::new(), Some(0)));
        // There was none before.
        assert!(desk.home().join("CURRENT").exists());
    }
}

#[test]
fn tools_are_offered_under_short_names_or_long_ones_and_answer_to_both() {
    let desk = desk(&[("main", "owner", "one", &["the lamp is lit at dusk"])]);
    for (args, expected) in [
        (&[][..], &["grep", "expand", "describe", "expand_query"][..]),
        (&["--set", "mcp.full_names=true"], &["lcm_grep", "lcm_expand", "lcm_describe", "lcm_expand_query"]),
    ] {
        let mut client = Client::open(&desk, args, "{}");
        let tools = client.ask(1, "tools/list", "{}");
        assert_eq!(names(&tools), expected);
        let first = &at(&tools, &["result", "tools"]).as_array().unwrap()[0];
        assert!(text(first, &["description"]).contains(if args.is_empty() {
            " for expand."
        } else {
            " for lcm_expand."
        }));
        assert_eq!(text(first, &["inputSchema", "type"]), "object");
        for (hint, expected) in [("readOnlyHint", true), ("destructiveHint", false), ("openWorldHint", false)] {
            assert_eq!(at(first, &["annotations", hint]).as_bool(), Some(expected), "{hint}");
        }
        for name in ["grep", "lcm_grep"] {
            let result = client.call(name, r#"{"query":"lamp"}"#);
            assert_eq!(at(&result, &["isError"]).as_bool(), Some(false));
            let answer = Json::parse(said(&result).as_bytes()).unwrap();
            assert_eq!(at(&answer, &["total_results"]).as_u64(), Some(1));
            // The very same object beside the text.
            assert_eq!(at(&result, &["structuredContent", "total_results"]).as_u64(), Some(1));
            assert_eq!(
                at(&result, &["structuredContent", "results"]).as_array().unwrap().len(),
                at(&answer, &["results"]).as_array().unwrap().len()
            );
        }
    }
    let mut client = Client::open(&desk, &["--set", "tools.all=true"], "{}");
    let tools = client.ask(1, "tools/list", "{}");
    assert_eq!(names(&tools).len(), 11);
    let pin = at(&tools, &["result", "tools"]).as_array().unwrap().iter().find(|tool| text(tool, &["name"]) == "pin");
    assert_eq!(at(pin.unwrap(), &["annotations", "readOnlyHint"]).as_bool(), Some(false));
    // Where there is no conversation the message says which one it is of.
    assert_eq!(at(&client.answer("pin", r#"{"id":1}"#), &["pinned"]).as_bool(), Some(true));
    assert_eq!(at(&client.answer("describe", "{}"), &["sessions"]).as_u64(), Some(1));
}

#[test]
fn a_tool_that_is_not_there_is_an_error_that_names_those_which_are() {
    let desk = Desk::new();
    let mut client = Client::open(&desk, &[], "{}");
    let told = client.ask(1, "tools/call", r#"{"name":"gerp","arguments":{}}"#);
    let (code, why) = error(&told);
    assert_eq!(code, -32602);
    assert!(why.starts_with("there is no tool \"gerp\"; there are grep, expand, describe"), "{why}");
}

#[test]
fn a_wrong_argument_is_an_error_of_the_tool() {
    let desk = Desk::new();
    let mut client = Client::open(&desk, &[], "{}");
    let result = client.call("grep", r#"{"query":"x","limit":"many"}"#);
    assert_eq!(at(&result, &["isError"]).as_bool(), Some(true));
    assert!(text(&result, &["structuredContent", "error"]).starts_with("limit is "));
}

#[test]
fn a_call_that_is_given_up_is_not_answered_and_keeps_nobody_waiting() {
    let desk = desk(&[("main", "owner", "one", &["the lamp"])]);
    let mut client = Client::open(&desk, &[], r#"{"sampling":{}}"#);
    client.say(&request(5, "tools/call", r#"{"name":"expand_query","arguments":{"prompt":"lamp"}}"#));
    let asked = client.told();
    assert_eq!(text(&asked, &["method"]), "sampling/createMessage");
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5,"reason":"enough"}}"#);
    // The client's model need not go on either; then the id may be used anew.
    let told = client.told();
    assert_eq!(text(&told, &["method"]), "notifications/cancelled");
    assert!(client.ask(5, "ping", "{}").get("result").is_some());
    assert_eq!(client.end(), (Vec::new(), Some(0)));
}

#[test]
fn the_end_of_input_ends_the_process_also_while_the_clients_model_is_asked() {
    let desk = desk(&[("main", "owner", "one", &["the lamp"])]);
    let mut client = Client::open(&desk, &[], r#"{"sampling":{}}"#);
    client.say(&request(5, "tools/call", r#"{"name":"expand_query","arguments":{"prompt":"lamp"}}"#));
    assert_eq!(text(&client.told(), &["method"]), "sampling/createMessage");
    assert!(desk.home().join("serve.sock").exists());
    let begun = Instant::now();
    let (rest, code) = client.end();
    assert_eq!(code, Some(0), "{rest:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(!desk.home().join("serve.sock").exists());
}

#[test]
fn calls_that_came_before_the_end_of_input_are_answered() {
    let desk = desk(&[("main", "owner", "one", &["the lamp"])]);
    let mut client = Client::open(&desk, &[], "{}");
    for id in 1..=20 {
        client.say(&request(id, "tools/call", r#"{"name":"grep","arguments":{"query":"lamp"}}"#));
    }
    let (rest, code) = client.end();
    assert_eq!((rest.len(), code), (20, Some(0)));
    assert!(rest.iter().all(|line| line.contains("\"total_results\":1")));
}

#[test]
fn a_store_that_cannot_be_opened_is_told_with_each_call_and_tried_again() {
    let desk = Desk::new();
    std::fs::create_dir_all(desk.home()).unwrap();
    let current = desk.home().join("CURRENT");
    std::fs::write(&current, "what is this").unwrap();
    let mut client = Client::open(&desk, &[], "{}");
    let result = client.call("grep", r#"{"query":"x"}"#);
    assert_eq!(at(&result, &["isError"]).as_bool(), Some(true), "{result:?}");
    std::fs::remove_file(&current).unwrap();
    let result = client.call("grep", r#"{"query":"x"}"#);
    assert_eq!(at(&result, &["isError"]).as_bool(), Some(false), "{result:?}");
    assert!(desk.home().join("serve.sock").exists());
}
