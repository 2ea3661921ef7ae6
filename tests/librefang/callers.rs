//! In whose name a tool of ours is answered: only what the agent, the person and the conversation said that asks.

use lcm_core::Json;
use lcm_engine::hosts::librefang::{Caller, Who};

use super::host::{AGENT, Host, Turn};

fn caller(session: &str, peer: Option<&str>) -> Caller {
    Caller { session: session.to_owned(), peer: peer.map(str::to_owned) }
}

fn token(host: &Host, session: &str, peer: Option<&str>) -> String {
    match host.hooks.who(&host.engine, &caller(session, peer), &host.options) {
        Who::Answer(token) => token,
        Who::Reader(reader, _) => panic!("the reader is known: {reader:?}"),
    }
}

/// Begins a turn that goes on: its first window was shown.
fn begin(host: &mut Host, session: &str, text: &str) {
    let mut window = host.sessions.get(session).cloned().unwrap_or_default();
    let said = host.said("user", text.into());
    window.push(said);
    host.assemble(&window);
}

fn told(host: &mut Host, token: &str, call: &str) -> String {
    host.transform(call, "mcp_lcm_grep", token)
}

#[test]
fn the_hook_puts_the_answer_in_the_place_of_a_token_and_the_session_is_known_then() {
    let mut host = Host::new(16_384);
    host.turn(&Turn { session: "a", text: "the orchid is blue", reply: "noted", ..Turn::default() });
    begin(&mut host, "a", "which colour?");
    let token = token(&host, "s-1", None);
    let answer = told(&mut host, &token, "call_1");
    assert!(answer.contains("the orchid is blue"), "{answer}");
    let known = host.hooks.who(&host.engine, &caller("s-1", None), &host.options);
    assert!(matches!(known, Who::Reader(..)));
    // When the turn is over nobody of it calls a tool.
    host.turn(&Turn { session: "a", text: "which colour?", reply: "blue", ..Turn::default() });
    assert!(matches!(host.hooks.who(&host.engine, &caller("s-1", None), &host.options), Who::Answer(_)));
}

#[test]
fn a_conversation_does_not_read_another_one_of_the_same_agent() {
    let mut host = Host::new(16_384);
    host.turn(&Turn { session: "a", text: "the orchid is blue", reply: "noted", ..Turn::default() });
    host.turn(&Turn { session: "b", text: "the orchid is red", reply: "noted", ..Turn::default() });
    begin(&mut host, "b", "which colour?");
    let token = token(&host, "s-b", None);
    let answer = told(&mut host, &token, "call_1");
    assert!(answer.contains("the orchid is red") && !answer.contains("blue"), "{answer}");
}

#[test]
fn a_person_does_not_read_what_another_said_to_the_same_agent() {
    let mut host = Host::new(16_384);
    host.options.reads_across = true;
    let bob =
        Turn { session: "bob", text: "the orchid is blue", reply: "noted", peer: Some("bob-1"), ..Turn::default() };
    host.turn(&bob);
    host.turn(&Turn { session: "ann", text: "the orchid is red", peer: Some("ann-1"), ..bob });
    begin(&mut host, "ann", "which colour?");
    let token = token(&host, "s-ann", Some("ann-1"));
    let request = Json::object([
        ("type", "transform_tool_result".into()),
        ("agent_id", AGENT.into()),
        ("tool_name", "mcp_lcm_grep".into()),
        ("tool_use_id", "call_1".into()),
        ("input", Json::object([("query", "orchid".into()), ("session_scope", "all".into())])),
        ("content", token.as_str().into()),
        ("is_error", false.into()),
    ]);
    let answer = String::from_utf8(host.ask(request).text).unwrap();
    assert!(answer.contains("the orchid is red") && !answer.contains("blue"), "{answer}");
}

#[test]
fn an_agent_does_not_read_another_agent() {
    let mut host = Host::new(16_384);
    host.turn(&Turn { session: "a", text: "the orchid is blue", reply: "noted", ..Turn::default() });
    begin(&mut host, "a", "which colour?");
    let token = token(&host, "s-1", None);
    let request = Json::object([
        ("type", "transform_tool_result".into()),
        ("agent_id", "another".into()),
        ("tool_name", "mcp_lcm_grep".into()),
        ("tool_use_id", "call_1".into()),
        ("input", Json::object([("query", "orchid".into())])),
        ("content", token.as_str().into()),
        ("is_error", false.into()),
    ]);
    let answer = String::from_utf8(host.ask(request).text).unwrap();
    assert!(!answer.contains("blue"), "{answer}");
}

#[test]
fn while_two_conversations_go_on_the_next_list_tells_which_one_asked() {
    let mut host = Host::new(16_384);
    host.turn(&Turn { session: "a", text: "the orchid is blue", reply: "noted", ..Turn::default() });
    host.turn(&Turn { session: "b", text: "the orchid is red", reply: "noted", ..Turn::default() });
    begin(&mut host, "a", "which colour?");
    begin(&mut host, "b", "which colour?");
    let first = token(&host, "s-a", None);
    let answer = told(&mut host, &first, "call_1");
    assert!(answer.contains("call the tool again") && !answer.contains("orchid"), "{answer}");
    // The host shows the call with what the hook made of it.
    let mut window = host.sessions["a"].clone();
    let said = host.said("user", "which colour?".into());
    let call = Json::object([
        ("type", "tool_use".into()),
        ("id", "call_1".into()),
        ("name", "mcp_lcm_grep".into()),
        ("input", Json::object([])),
    ]);
    let called = host.said("assistant", Json::Array(vec![call]));
    let block = Json::object([
        ("type", "tool_result".into()),
        ("tool_use_id", "call_1".into()),
        ("content", answer.into()),
        ("is_error", false.into()),
    ]);
    let given = host.said("user", Json::Array(vec![block]));
    window.extend([said, called, given]);
    host.assemble(&window);
    let Who::Reader(reader, _) = host.hooks.who(&host.engine, &caller("s-a", None), &host.options) else {
        panic!("the session is known now")
    };
    assert!(reader.is_confined && reader.session.is_some());
}

#[test]
fn a_token_that_is_not_ours_is_a_result_like_any_other() {
    let mut host = Host::new(16_384);
    host.turn(&Turn { session: "a", text: "the orchid is blue", reply: "noted", ..Turn::default() });
    begin(&mut host, "a", "which colour?");
    let token = token(&host, "s-1", None);
    for forged in
        [token.replace("lcm:call 7b", "lcm:call 7c"), token.replace(']', "0]"), token[..token.len() - 5].to_owned()]
    {
        assert_eq!(told(&mut host, &forged, "call_1"), forged);
    }
}

#[test]
fn an_answer_is_a_page_that_the_host_shows_whole() {
    for window in [8192, 16_384, 200_000] {
        let mut host = Host::new(window);
        for nth in 0..20 {
            let text = format!("the orchid {nth} is blue, and {}", "so it goes on and on ".repeat(60));
            host.turn(&Turn { session: "a", text: &text, reply: "noted", ..Turn::default() });
        }
        begin(&mut host, "a", "which colour?");
        let token = token(&host, "s-1", None);
        let answer = told(&mut host, &token, "call_1");
        // It cuts what has more than 30 % of the window at two characters a token.
        let most = usize::try_from(window).unwrap() * 6 / 10;
        assert!(answer.chars().count() <= most.min(16_000), "{} of {most}", answer.chars().count());
        assert!(Json::parse(answer.as_bytes()).unwrap().get("results").is_some(), "{answer:.200}");
    }
}
