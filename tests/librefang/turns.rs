//! Turns as the host goes through them: what is shown, what is kept, and that both hold whatever the host does to its own
//! list.

use lcm_core::Json;

use super::host::{Host, Turn, assert_same, text_of};

fn texts(window: &[Json]) -> Vec<String> {
    window.iter().map(text_of).collect()
}

#[test]
fn a_short_conversation_is_shown_as_it_is_and_kept_without_what_the_host_says() {
    let mut host = Host::new(16_384);
    host.turn(&Turn { session: "a", text: "where is the station?", reply: "behind the park", ..Turn::default() });
    let shown = host.turn(&Turn {
        session: "a",
        text: "how far is it?",
        reply: "not far",
        results: vec!["12 minutes".into()],
        ..Turn::default()
    });
    let date = "[Current date/time: Tuesday, December 01, 2026 11:23 +00:00]";
    let expected = ["where is the station?", "behind the park", "how far is it?", date, "I look it up.", "12 minutes"];
    assert_eq!(texts(&shown), expected);
    // The last reply of a conversation is heard with the next turn.
    assert_eq!(
        host.all_kept(),
        ["where is the station?", "behind the park", "how far is it?", "I look it up.", "12 minutes"]
    );
    host.turn(&Turn { session: "a", text: "thanks", reply: "bye", ..Turn::default() });
    assert_eq!(host.all_kept().len(), 7);
    assert_eq!(host.kept().len(), 1, "one session");
}

#[test]
fn everything_is_kept_once_and_every_window_fits_through_two_hundred_turns() {
    let mut host = Host::new(8192);
    let mut said: Vec<String> = Vec::new();
    for nth in 0..200 {
        let (text, reply) = (
            format!("request {nth}: {}", "a detail of it. ".repeat(20)),
            format!("reply {nth}: {}", "so it is. ".repeat(30)),
        );
        let results = match nth % 4 {
            0 => vec![format!("result {nth}: {}", "a line of a file\n".repeat(60))],
            1 => vec![format!("first {nth}"), format!("second {nth}: {}", "x y z\n".repeat(3000))],
            _ => Vec::new(),
        };
        said.push(text.clone());
        for result in &results {
            said.extend(["I look it up.".to_owned(), result.clone()]);
        }
        said.push(reply.clone());
        let shown = host.turn(&Turn { session: "a", text: &text, reply: &reply, results, ..Turn::default() });
        assert!(texts(&shown).contains(&text), "turn {nth}: the request is shown");
        if nth % 7 == 3 {
            host.compact("a");
        }
        if nth % 50 == 20 {
            host.restart();
        }
    }
    said.pop();
    assert_same(&said, &host.all_kept());
    let folded =
        host.windows.iter().filter(|window| texts(window).iter().any(|text| text.starts_with("[lcm:"))).count();
    assert!(folded > 100, "{folded} windows show a fold");
    let whole = host.engine.store().check(&lcm_store::CheckOptions { faults_max: 9, progress: &|_, _| {} }).unwrap();
    assert!(whole.is_clean(), "{:?}", whole.told);
}

#[test]
fn the_head_of_the_window_stays_the_same_between_folds() {
    let mut host = Host::new(16_384);
    host.options.recall.tokens_max = 0;
    let mut same = 0;
    for nth in 0..60 {
        let text = format!("request {nth}: {}", "a detail of it. ".repeat(20));
        host.turn(&Turn {
            session: "a",
            text: &text,
            reply: "so it is",
            results: vec![format!("r{nth}")],
            ..Turn::default()
        });
    }
    let heads: Vec<Vec<Vec<u8>>> =
        host.windows.iter().map(|window| window.iter().map(Json::to_text).collect()).collect();
    for pair in heads.windows(2) {
        let date = |text: &&Vec<u8>| !text.windows(18).any(|part| part == b"[Current date/time");
        let (before, after): (Vec<_>, Vec<_>) =
            (pair[0].iter().filter(date).collect(), pair[1].iter().filter(date).collect());
        same += usize::from(after.starts_with(&before));
    }
    assert!(same * 10 >= (heads.len() - 1) * 9, "{same} of {} windows begin with the one before", heads.len() - 1);
}

#[test]
fn what_the_host_lost_before_its_next_window_is_shown_by_us() {
    let mut host = Host::new(200_000);
    for nth in 0..50 {
        let text = format!("request {nth}");
        host.turn(&Turn { session: "a", text: &text, reply: "yes", ..Turn::default() });
    }
    // The host keeps 60 messages.
    assert!(host.sessions["a"].len() <= 62);
    let shown = texts(host.windows.last().unwrap());
    assert_eq!(shown[0], "request 0");
    assert_eq!(shown.len(), 100);
}

#[test]
fn two_sessions_of_one_agent_never_meet() {
    let mut host = Host::new(8192);
    for nth in 0..40 {
        for name in ["ludwig", "clara"] {
            let text = format!("{name} says {nth}: {}", "of an orchid ".repeat(30));
            let shown = host.turn(&Turn { session: name, text: &text, reply: "yes", ..Turn::default() });
            let other = if name == "clara" { "ludwig" } else { "clara" };
            assert!(texts(&shown).iter().all(|text| !text.contains(other)), "{name} is shown {other}");
        }
    }
    assert_eq!(host.kept().len(), 2);
}

#[test]
fn a_turn_that_nobody_said_was_over_is_kept_with_the_next_one() {
    let mut host = Host::new(16_384);
    let lost =
        Turn { session: "a", text: "the word is dahlia", reply: "noted", loses_after_turn: true, ..Turn::default() };
    host.turn(&Turn { results: vec!["it grows".into()], ..lost });
    assert_eq!(host.all_kept(), [""; 0]);
    host.turn(&Turn { session: "a", text: "and now?", reply: "yes", ..Turn::default() });
    assert_eq!(host.all_kept(), ["the word is dahlia", "I look it up.", "it grows", "noted", "and now?"]);
}

#[test]
fn a_request_that_failed_is_kept_with_the_one_it_was_run_together_with() {
    let mut host = Host::new(16_384);
    host.turn(&Turn { session: "a", text: "hello", reply: "hi", ..Turn::default() });
    host.turn(&Turn { session: "a", text: "it fails", fails: true, ..Turn::default() });
    let shown = host.turn(&Turn { session: "a", text: "and again", reply: "yes", ..Turn::default() });
    assert_eq!(texts(&shown)[2], "it fails\n\nand again");
    assert_eq!(host.all_kept(), ["hello", "hi", "it fails\n\nand again"]);
    host.turn(&Turn { session: "a", text: "good", reply: "yes", ..Turn::default() });
    assert_eq!(host.all_kept(), ["hello", "hi", "it fails\n\nand again", "yes", "good"]);
}

#[test]
fn a_result_is_kept_as_the_tool_gave_it_and_shown_as_the_host_has_it() {
    let mut host = Host::new(200_000);
    let result = "a line of a large file\n".repeat(2000);
    host.turn(&Turn { session: "a", text: "read it", reply: "done", results: vec![result.clone()], ..Turn::default() });
    assert!(host.all_kept().contains(&result));
    let shown = host.turn(&Turn { session: "a", text: "and?", reply: "so", ..Turn::default() });
    let stub = "[artifact a-call_1: 46000 bytes, read_artifact shows it]";
    assert!(texts(&shown).iter().any(|text| text == stub), "{:?}", texts(&shown));
}

#[test]
fn what_is_pinned_is_never_folded() {
    let mut host = Host::new(8192);
    let rule = Json::object([
        ("role", "user".into()),
        ("content", "Rule: never delete the ledger.".into()),
        ("pinned", true.into()),
        ("timestamp", "2026-01-01T00:00:00.000000001Z".into()),
    ]);
    let noted = host.said("assistant", "Understood.".into());
    host.sessions.insert("a".to_owned(), vec![rule, noted]);
    for nth in 0..60 {
        let text = format!("request {nth}: {}", "a detail of it. ".repeat(40));
        let shown = host.turn(&Turn { session: "a", text: &text, reply: "so it is", ..Turn::default() });
        assert!(texts(&shown).contains(&"Rule: never delete the ledger.".to_owned()), "turn {nth}");
    }
}

#[test]
fn a_request_that_is_larger_than_the_window_leaves_as_much_of_its_steps_as_there_is_room_for() {
    let mut host = Host::new(8192);
    let results: Vec<String> = (0..30).map(|nth| format!("step {nth}: {}", "a line of it\n".repeat(120))).collect();
    let shown = host.turn(&Turn {
        session: "a",
        text: "read them all",
        reply: "done",
        results: results.clone(),
        ..Turn::default()
    });
    let shown = texts(&shown);
    assert!(shown.contains(&"read them all".to_owned()));
    assert_eq!(shown.last(), results.last(), "the newest step is whole");
    // What was left out of the windows is kept all the same.
    let kept = host.all_kept();
    assert_eq!(
        kept.iter().filter(|text| text.starts_with("step ")).collect::<Vec<_>>(),
        results.iter().collect::<Vec<_>>()
    );
}

#[test]
fn a_result_that_is_shown_in_part_is_kept_whole() {
    let mut host = Host::new(4096);
    for nth in 0..30 {
        let results: Vec<String> =
            (0..3).map(|step| format!("result {nth}.{step} {}", "line\n".repeat(300 * (step + 1)))).collect();
        host.turn(&Turn {
            session: "a",
            text: "read them",
            reply: "done",
            results: results.clone(),
            ..Turn::default()
        });
        let kept = host.all_kept();
        for result in &results {
            assert!(kept.contains(result), "turn {nth}: {} bytes of {:.12} are gone", result.len(), result);
        }
    }
}
