//! Requests that are not as they should be: each is answered, and what can be read of it is kept.

use lcm_core::Json;
use lcm_engine::hosts::librefang::{Hooks, alone};

use super::host::{AGENT, Host, Turn, messages_of, text_of};

fn request(kind: &str, messages: &str) -> String {
    format!(
        r#"{{"type":"{kind}","agent_id":"{AGENT}","system_prompt":"s","messages":{messages},"context_window_tokens":8192,"message":"m"}}"#
    )
}

const KINDS: [&str; 9] = [
    "bootstrap",
    "ingest",
    "assemble",
    "compact",
    "transform_tool_result",
    "after_turn",
    "prepare_subagent",
    "merge_subagent",
    "something new",
];

#[test]
fn every_request_that_is_json_is_answered() {
    let mut host = Host::new(8192);
    let lists = [
        "null",
        "{}",
        "[]",
        "[null,1,\"x\",{}]",
        r#"[{"role":"user"}]"#,
        r#"[{"role":"tool","content":"x"}]"#,
        r#"[{"role":"user","content":[{"type":"hologram","beam":1}],"timestamp":"t"}]"#,
        r#"[{"role":"user","content":[1,null,{"type":7}],"timestamp":"t"}]"#,
        r#"[{"role":"user","content":"a\u0000b \ud83d half","timestamp":"t2"}]"#,
        r#"[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{}}],"timestamp":"t3"}]"#,
        r#"[{"role":"user","content":[{"type":"tool_result","tool_use_id":"z","content":"x","is_error":false}]}]"#,
    ];
    for kind in KINDS {
        for list in lists {
            let text = request(kind, list);
            let json = Json::parse(text.as_bytes()).unwrap();
            let answer = host.ask(json);
            Json::parse(&answer.text).unwrap();
            Json::parse(&alone(text.as_bytes())).unwrap();
        }
    }
    for text in ["", "null", "[]", "7", "\"x\"", "{", "{\"type\":", "\u{feff}{}"] {
        Json::parse(&alone(text.as_bytes())).unwrap();
    }
}

#[test]
fn half_a_pair_is_answered_as_text_that_the_host_takes() {
    let mut host = Host::new(8192);
    let text = request("assemble", r#"[{"role":"user","content":"cut \ud83d here","timestamp":"t2"}]"#);
    let answer = host.ask(Json::parse(text.as_bytes()).unwrap());
    assert!(!String::from_utf8(answer.text).unwrap().contains("\\ud83d"));
}

#[test]
fn alone_the_newest_that_fits_is_shown_and_what_is_pinned() {
    let mut host = Host::new(8192);
    let mut list = Vec::new();
    for nth in 0..80 {
        let role = if nth % 2 == 0 { "user" } else { "assistant" };
        let said = host.said(role, format!("message {nth} {}", "of some length ".repeat(40)).into());
        list.push(said);
    }
    let request = Json::object([
        ("type", "assemble".into()),
        ("agent_id", AGENT.into()),
        ("system_prompt", "s".into()),
        ("messages", Json::Array(list[..79].to_vec())),
        ("context_window_tokens", 8192_u64.into()),
    ]);
    let shown = messages_of(&alone(&request.to_text()));
    host.check(&shown);
    assert!(text_of(shown.last().unwrap()).starts_with("message 78"));
    assert!(text_of(&shown[0]).starts_with("[lcm: left out here: "), "{}", text_of(&shown[0]));
    // What was shown alone and comes back is known.
    let again = host.assemble(&shown);
    assert!(text_of(again.last().unwrap()).starts_with("message 78"));
}

#[test]
fn a_window_of_six_hundred_kilobytes_is_answered_below_a_mebibyte() {
    let mut host = Host::new(1_000_000);
    for nth in 0..60 {
        let text = format!("请求 {nth} {}", "漢字かな\"\\".repeat(1000));
        host.turn(&Turn { session: "a", text: &text, reply: "好", ..Turn::default() });
    }
    let size = |window: &Vec<Json>| window.iter().map(|message| message.to_text().len()).sum::<usize>();
    assert!(host.windows.iter().map(size).max().unwrap() < 1 << 20);
}

#[test]
fn a_process_that_serves_anew_finds_its_sessions_again() {
    let mut host = Host::new(16_384);
    for nth in 0..10 {
        let text = format!("request {nth}");
        host.turn(&Turn { session: "a", text: &text, reply: "yes", ..Turn::default() });
        host.hooks = Hooks::new([7; 32]);
    }
    assert_eq!(host.kept().len(), 1);
    assert_eq!(host.all_kept().len(), 19);
}
