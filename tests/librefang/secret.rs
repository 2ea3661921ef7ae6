//! Private turns: the host shows them to every hook but one, and says nothing of it. Nothing of them may be kept.

use super::host::{Host, Turn};

/// Whether some bytes stand anywhere in the data directory. Values of the store are compressed, so it is asked, too.
pub(crate) fn is_found(host: &Host, word: &str) -> bool {
    let in_files = lcm_tests::folder::contents(host.home.path())
        .iter()
        .any(|(_, bytes)| bytes.windows(word.len()).any(|part| part == word.as_bytes()));
    in_files || host.all_kept().iter().any(|text| text.contains(word))
}

#[test]
fn nothing_of_a_private_turn_is_kept_anywhere() {
    let mut host = Host::new(8192);
    for nth in 0..20 {
        let text = format!("request {nth}: {}", "a detail of it. ".repeat(60));
        host.turn(&Turn { session: "a", text: &text, reply: "so it is", ..Turn::default() });
        let private = Turn { session: "a", text: "the word is Tulipan", is_private: true, ..Turn::default() };
        // Large enough that something has to be left out.
        host.turn(&Turn { results: vec![format!("Tulipan {nth} {}", "x y\n".repeat(2000)); 4], ..private });
        if nth % 5 == 0 {
            host.compact("a");
        }
    }
    host.turn(&Turn { session: "a", text: "good night", reply: "bye", ..Turn::default() });
    assert!(!is_found(&host, "Tulipan"));
    assert!(is_found(&host, "good night"), "what is no secret is found");
}

#[test]
fn what_may_be_a_secret_is_forgotten_after_a_day() {
    let mut host = Host::new(8192);
    let private = Turn { session: "a", text: "the word is Tulipan", is_private: true, ..Turn::default() };
    host.turn(&private);
    let request = lcm_core::Json::object([
        ("type", "transform_tool_result".into()),
        ("agent_id", super::host::AGENT.into()),
        ("tool_name", "file_read".into()),
        ("tool_use_id", "call_x".into()),
        ("content", "Tulipan".into()),
    ]);
    let waits = host.ask(request).waits.expect("a result waits");
    assert!(host.hooks.still_needs(&waits));
    host.hooks.forget_before(host.now_ms + 1);
    assert!(!host.hooks.still_needs(&waits));
}

#[test]
fn what_a_person_adds_in_the_middle_of_a_private_turn_makes_nothing_of_it_public() {
    let mut host = Host::new(8192);
    host.turn(&Turn { session: "a", text: "hello", reply: "hi", ..Turn::default() });
    let private = Turn { session: "a", text: "the word is Tulipan", is_private: true, ..Turn::default() };
    let mut window = host.turn(&Turn { results: vec!["Tulipan grows".into()], ..private });
    let added = host.said("user", "and quick".into());
    window.push(added);
    host.assemble(&window);
    host.turn(&Turn { session: "a", text: "good night", reply: "bye", ..Turn::default() });
    assert!(!is_found(&host, "Tulipan"));
    assert_eq!(host.all_kept(), ["hello", "hi", "good night"]);
}
