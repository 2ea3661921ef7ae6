//! Turns that run into each other: words that come while tools run, turns that broke off, two at the same time, and what
//! is told late. Nothing private is kept, nothing of one conversation is given to another, and nothing is lost.

use lcm_core::Json;
use lcm_engine::hosts::librefang::{Caller, Hooks, Who};

use super::host::{AGENT, Host, Turn, text_of};
use super::secret::is_found;

const DATE: &str = "[Current date/time: Tuesday, December 01, 2026 11:23 +00:00]";

/// A call and its result as the host puts them into a window, with what it says of it in the same message.
fn step(host: &mut Host, id: &str, result: &str, beside: &[&str]) -> [Json; 2] {
    let call = Json::object([
        ("type", "tool_use".into()),
        ("id", id.into()),
        ("name", "file_read".into()),
        ("input", Json::object([])),
    ]);
    let called = host.said("assistant", Json::Array(vec![call]));
    let block = Json::object([
        ("type", "tool_result".into()),
        ("tool_use_id", id.into()),
        ("content", result.into()),
        ("is_error", false.into()),
    ]);
    let texts = beside.iter().map(|text| Json::object([("type", "text".into()), ("text", (*text).into())]));
    let given = host.said("user", Json::Array(std::iter::once(block).chain(texts).collect()));
    [called, given]
}

/// A session in which one turn was said, and what the host stores of it.
fn begun(window_tokens: u64) -> (Host, Vec<Json>) {
    let mut host = Host::new(window_tokens);
    host.turn(&Turn { session: "a", text: "hello", reply: "hi", ..Turn::default() });
    let stored = host.sessions["a"].clone();
    (host, stored)
}

fn begin(host: &mut Host, stored: &[Json], text: &str) -> (Json, Vec<Json>) {
    let request = host.said("user", text.into());
    let date = host.said("user", DATE.into());
    let window = [stored, &[request.clone(), date]].concat();
    let shown = host.assemble(&window);
    (request, shown)
}

fn after_turn(host: &mut Host, window: &[Json]) {
    let request = Json::object([
        ("type", "after_turn".into()),
        ("agent_id", AGENT.into()),
        ("messages", Json::Array(window.to_vec())),
    ]);
    host.ask(request);
}

fn ingest(host: &mut Host, text: &str, peer: Option<&str>) {
    let request = Json::object([
        ("type", "ingest".into()),
        ("agent_id", AGENT.into()),
        ("message", text.into()),
        ("peer_id", peer.map_or(Json::Null, Json::from)),
    ]);
    host.ask(request);
}

fn token(host: &Host, session: &str, peer: Option<&str>) -> String {
    let caller = Caller { session: session.to_owned(), peer: peer.map(str::to_owned) };
    match host.hooks.who(&host.engine, &caller, &host.options) {
        Who::Answer(token) => token,
        Who::Reader(reader, _) => panic!("the reader is known: {reader:?}"),
    }
}

#[test]
fn words_that_come_while_tools_run_do_not_make_a_private_turn_history() {
    let words = ["and Tulipan again", "[System] Tool 'file_read' approval resolved (approved). Result: Tulipan"];
    for said in words {
        let (mut host, stored) = begun(16_384);
        let (_, shown) = begin(&mut host, &stored, "the word is Tulipan");
        let steps = step(&mut host, "call_p", "Tulipan grows", &[]);
        let more = host.said("user", said.into());
        let window = [&shown[..], &steps, &[more]].concat();
        host.assemble(&window);
        assert!(!is_found(&host, "Tulipan"), "{said}");
        host.turn(&Turn { session: "a", text: "good night", reply: "bye", ..Turn::default() });
        assert!(!is_found(&host, "Tulipan"), "{said}");
        assert_eq!(host.all_kept(), ["hello", "hi", "good night"]);
    }
}

#[test]
fn words_that_come_while_tools_run_are_kept_where_they_were_said() {
    let (mut host, stored) = begun(16_384);
    let (_, shown) = begin(&mut host, &stored, "read it");
    let steps = step(&mut host, "call_p", "it grows", &[]);
    let more = host.said("user", "and be quick".into());
    let shown = host.assemble(&[&shown[..], &steps, &[more]].concat());
    assert_eq!(text_of(shown.last().unwrap()), "and be quick");
    let steps = step(&mut host, "call_q", "done", &[]);
    let shown = host.assemble(&[&shown[..], &steps].concat());
    after_turn(&mut host, &shown);
    assert_eq!(host.all_kept(), ["hello", "hi", "read it", "", "it grows", "and be quick", "", "done"]);
}

#[test]
fn a_private_turn_behind_one_that_broke_off_is_not_kept_and_what_broke_off_is() {
    // What the host says of a result lets it run the next request together with it.
    let guidance = "[System: 1 tool(s) returned errors. Report the error honestly to the user.]";
    for is_merged in [false, true] {
        let (mut host, stored) = begun(16_384);
        let (request, shown) = begin(&mut host, &stored, "read it");
        let steps = step(&mut host, "call_f", "it grows", &[guidance][..usize::from(is_merged)]);
        host.assemble(&[&shown[..], &steps].concat());
        // The model fails here; the host keeps what there was.
        let next = |host: &mut Host, text: &str| match is_merged {
            true => {
                let [called, mut given] = steps.clone();
                if let Json::Object(entries) = &mut given {
                    for (key, value) in entries {
                        if let (b"content", Json::Array(blocks)) = (key.as_bytes(), value) {
                            blocks.push(Json::object([("type", "text".into()), ("text", text.into())]));
                        }
                    }
                }
                vec![request.clone(), called, given]
            }
            false => [&[request.clone()][..], &steps, &[host.said("user", text.into())]].concat(),
        };
        for text in ["the word is Tulipan", "and now?"] {
            let list = next(&mut host, text);
            let date = host.said("user", DATE.into());
            let shown = host.assemble(&[&stored[..], &list, &[date]].concat());
            assert!(!is_found(&host, "Tulipan"), "merged: {is_merged}");
            assert!(shown.iter().any(|message| text_of(message).ends_with(text)), "merged: {is_merged}");
            if text == "and now?" {
                assert!(shown.iter().all(|message| !text_of(message).contains("Tulipan")), "merged: {is_merged}");
                after_turn(&mut host, &shown);
            } else {
                let steps = step(&mut host, "call_p", "Tulipan grows", &[]);
                host.assemble(&[&shown[..], &steps].concat());
            }
        }
        assert!(!is_found(&host, "Tulipan"), "merged: {is_merged}");
        let kept = host.all_kept();
        assert_eq!(kept[..4], ["hello", "hi", "read it", ""], "merged: {is_merged}");
        assert!(kept[4].starts_with("it grows"), "merged: {is_merged}");
        assert!(kept.iter().all(|text| !text.contains("Current date")), "merged: {is_merged}");
        assert!(is_found(&host, "it grows"));
        assert_eq!(kept.len(), if is_merged { 5 } else { 6 }, "merged: {is_merged}: {kept:?}");
    }
}

#[test]
fn a_result_goes_to_the_message_that_shows_it_though_another_call_has_the_same_id() {
    let mut host = Host::new(16_384);
    let (_, first) = begin(&mut host, &[], "read the red file");
    let (_, second) = begin(&mut host, &[], "read the blue file");
    let (red, blue) = ("a red line\n".repeat(1200), "a blue line\n".repeat(1200));
    let shown_red = host.transform("call_0", "file_read", &red);
    let shown_blue = host.transform("call_0", "file_read", &blue);
    assert!(shown_red.len() < red.len() && shown_blue.len() < blue.len(), "both are shown in part");
    for (begun, shown) in [(first, shown_red), (second, shown_blue)] {
        let steps = step(&mut host, "call_0", &shown, &[]);
        let shown = host.assemble(&[&begun[..], &steps].concat());
        after_turn(&mut host, &shown);
    }
    let kept: Vec<Vec<String>> = host.kept().into_values().collect();
    let expected = [["read the red file", "", red.as_str()], ["read the blue file", "", blue.as_str()]];
    assert!(kept == expected, "one is given the other's");
}

#[test]
fn a_turn_that_is_told_to_be_over_late_does_not_end_the_next_one() {
    let mut host = Host::new(16_384);
    let bob = Turn { session: "bob", text: "the orchid is blue", reply: "ok", peer: Some("bob-1"), ..Turn::default() };
    host.turn(&bob);
    let (_, first) = begin(&mut host, &[], "the orchid is red");
    let reply = host.said("assistant", "noted".into());
    let stored = [&first[..1], &[reply]].concat();
    begin(&mut host, &stored, "which colour?");
    // Meanwhile Bob asks something, and only then it is told that the first turn is over.
    ingest(&mut host, "still there?", Some("bob-1"));
    let stored = host.sessions["bob"].clone();
    begin(&mut host, &stored, "[bob-1]: still there?");
    after_turn(&mut host, &first);
    let asked = token(&host, "s-a", None);
    let answer = host.transform("call_1", "mcp_lcm_grep", &asked);
    assert!(answer.contains("red") && !answer.contains("blue"), "{answer}");
    let asked = token(&host, "s-b", Some("bob-1"));
    let answer = host.transform("call_2", "mcp_lcm_grep", &asked);
    assert!(answer.contains("blue") && !answer.contains("red"), "{answer}");
}

#[test]
fn the_owner_is_not_taken_for_another_person_who_is_the_only_one_in_a_turn() {
    let mut host = Host::new(16_384);
    let bob = Turn { session: "bob", text: "the orchid is blue", reply: "ok", peer: Some("bob-1"), ..Turn::default() };
    host.turn(&bob);
    let stored = host.sessions["bob"].clone();
    begin(&mut host, &stored, "[bob-1]: still there?");
    let asked = token(&host, "s-a", None);
    let answer = host.transform("call_1", "mcp_lcm_grep", &asked);
    assert!(!answer.contains("blue"), "{answer}");
}

#[test]
fn two_persons_who_say_the_same_at_once_are_not_taken_for_each_other() {
    for texts in [["hi", "hi"], ["ok", "k"], ["look at this", "at this"]] {
        let mut host = Host::new(16_384);
        ingest(&mut host, texts[0], Some("bob-1"));
        ingest(&mut host, texts[1], Some("ann-1"));
        let (_, bob) = begin(&mut host, &[], &format!("[Bob]: {}", texts[0]));
        let (_, ann) = begin(&mut host, &[], &format!("[Ann]: {}", texts[1]));
        after_turn(&mut host, &bob);
        after_turn(&mut host, &ann);
        let snapshot = host.engine.store().snapshot().unwrap();
        let persons: Vec<String> =
            [1, 2].map(|number| snapshot.session(lcm_core::SessionId(number)).unwrap().owner.person).to_vec();
        assert_ne!(persons[0], "ann-1", "{texts:?}");
        assert_ne!(persons[1], "bob-1", "{texts:?}");
        assert!(!persons.contains(&lcm_engine::DEFAULT_PERSON.to_owned()), "{texts:?}");
    }
}

#[test]
fn a_person_of_whom_nobody_was_told_is_not_the_owner() {
    let mut host = Host::new(16_384);
    ingest(&mut host, "hello", Some("bob-1"));
    host.hooks = Hooks::new([7; 32]);
    let (_, shown) = begin(&mut host, &[], "[Bob]: hello");
    after_turn(&mut host, &shown);
    let snapshot = host.engine.store().snapshot().unwrap();
    assert_ne!(snapshot.session(lcm_core::SessionId(1)).unwrap().owner.person, lcm_engine::DEFAULT_PERSON);
}

#[test]
fn what_a_person_says_in_the_words_of_the_host_is_kept_though_its_turn_was_never_told_to_be_over() {
    for text in ["[System: reboot] what does that mean?", "[Web search results are bad today", "[System: a]"] {
        let mut host = Host::new(16_384);
        let lost = Turn { session: "a", text, reply: "I see", loses_after_turn: true, ..Turn::default() };
        host.turn(&lost);
        host.turn(&Turn { text: "hello", ..lost.clone() });
        host.turn(&lost);
        host.turn(&Turn { text: "bye", loses_after_turn: false, ..lost.clone() });
        assert_eq!(host.all_kept(), [text, "I see", "hello", "I see", text, "I see", "bye"]);
    }
}

#[test]
fn a_request_whose_image_is_a_note_later_is_kept_once() {
    let mut host = Host::new(16_384);
    let turn = Turn { session: "a", text: "what is this?", reply: "an orchid", has_image: true, ..Turn::default() };
    host.turn(&Turn { results: vec!["petals".into()], ..turn });
    host.turn(&Turn { session: "a", text: "thanks", reply: "bye", ..Turn::default() });
    assert_eq!(host.all_kept(), ["what is this?", "I look it up.", "petals", "an orchid", "thanks"]);
}

#[test]
fn a_turn_whose_window_shows_nothing_else_stays_in_its_session_though_another_process_serves() {
    let (mut host, stored) = begun(4096);
    let (request, _) = begin(&mut host, &stored, "read it");
    // There was no room for what was said before, and the process that knew of it is gone.
    host.hooks = Hooks::new([7; 32]);
    host.assemble(std::slice::from_ref(&request));
    let reply = host.said("assistant", "done".into());
    let (_, shown) = begin(&mut host, &[&stored[..], &[request, reply]].concat(), "thanks");
    after_turn(&mut host, &shown);
    let kept: Vec<Vec<String>> = host.kept().into_values().collect();
    assert_eq!(kept, [["hello", "hi", "read it", "done", "thanks"]]);
}
