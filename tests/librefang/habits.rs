//! What else the host does to a window: its own words in it, images that pass, compaction in the middle of a turn, turns that
//! are told out of order.

use lcm_core::Json;

use super::host::{AGENT, Host, Turn, messages_of, text_of};

fn texts(window: &[Json]) -> Vec<String> {
    window.iter().map(text_of).collect()
}

fn block(kind: &str, entries: &[(&'static str, Json)]) -> Json {
    Json::object([("type", kind.into())].into_iter().chain(entries.iter().cloned()))
}

fn without_moment(role: &str, text: &str) -> Json {
    Json::object([("role", role.into()), ("content", text.into()), ("pinned", false.into())])
}

fn after_turn(host: &mut Host, window: &[Json]) {
    let request = Json::object([
        ("type", "after_turn".into()),
        ("agent_id", AGENT.into()),
        ("messages", Json::Array(window.to_vec())),
    ]);
    host.ask(request);
}

fn compact(host: &mut Host, window: &[Json]) -> (Vec<Json>, String) {
    let request = Json::object([
        ("type", "compact".into()),
        ("agent_id", AGENT.into()),
        ("messages", Json::Array(window.to_vec())),
        ("model", "m".into()),
        ("context_window_tokens", host.window_tokens.into()),
        ("token_pressure", Json::object([("recommendation", "critical".into())])),
    ]);
    let text = host.ask(request).text;
    let summary = Json::parse(&text).unwrap().get("summary").and_then(Json::as_str).unwrap().to_owned();
    (messages_of(&text), summary)
}

#[test]
fn an_image_is_kept_though_the_host_shows_a_word_in_its_place_later() {
    let mut host = Host::new(16_384);
    let words = block("text", &[("text", "what is this?".into())]);
    let image = block("image", &[("media_type", "image/png".into()), ("data", "aGVsbG8=".into())]);
    let said = host.said("user", Json::Array(vec![words.clone(), image]));
    let shown = host.assemble(std::slice::from_ref(&said));
    assert_eq!(shown, std::slice::from_ref(&said));
    let Json::Object(mut entries) = said else { unreachable!() };
    entries[1].1 = Json::Array(vec![words, block("text", &[("text", "[image]".into())])]);
    // The process that serves is another one by then.
    host.restart();
    after_turn(&mut host, &[Json::Object(entries)]);
    assert!(host.kept_json().iter().any(|json| json.contains("aGVsbG8=")));
    assert_eq!(host.all_kept().len(), 1);
}

#[test]
fn what_the_host_says_in_a_window_is_shown_and_not_kept() {
    let mut host = Host::new(16_384);
    host.turn(&Turn { session: "a", text: "hello", reply: "hi", ..Turn::default() });
    let mut window = host.sessions["a"].clone();
    let context = host.said("user", "[Previous conversation context]\nthey met before".into());
    window.insert(0, context);
    let person = host.said("user", "[System context — what you know about this person] tall".into());
    let asked = host.said("user", "who am I?".into());
    let date = host.said("user", "[Current date/time: Tuesday, December 01, 2026 11:23 +00:00]".into());
    let silent = host.said("assistant", "[no response]".into());
    let nudge = host.said("user", "Please provide your response.".into());
    window.extend([person, asked, date, silent, nudge]);
    let shown = host.assemble(&window);
    assert_eq!(texts(&shown), texts(&window));
    after_turn(&mut host, &shown);
    assert_eq!(host.all_kept(), ["hello", "hi", "who am I?"]);
}

#[test]
fn a_person_who_types_the_words_of_the_host_is_kept() {
    let mut host = Host::new(16_384);
    for text in
        ["[Current date/time: when?]", "[System: what do you know?]", "Please provide your response.", "[lcm: now]"]
    {
        host.turn(&Turn { session: "a", text, reply: "so", ..Turn::default() });
    }
    let kept = host.all_kept();
    for text in ["[Current date/time: when?]", "[System: what do you know?]", "[lcm: now]"] {
        assert!(kept.contains(&text.to_owned()), "{text}: {kept:?}");
    }
}

#[test]
fn a_compaction_in_the_middle_of_a_turn_costs_nothing() {
    let mut host = Host::new(8192);
    for nth in 0..12 {
        let text = format!("request {nth}: {}", "a detail of it. ".repeat(40));
        host.turn(&Turn { session: "a", text: &text, reply: "so it is", ..Turn::default() });
    }
    let mut window = host.sessions["a"].clone();
    let asked = host.said("user", "and now?".into());
    window.push(asked);
    let (kept, summary) = compact(&mut host, &window);
    assert_eq!(summary, "", "the host runs a summary together with what stands behind it");
    assert!(texts(&kept).contains(&"and now?".to_owned()));
    let shown = host.assemble(&kept);
    assert_eq!(texts(&shown).last().unwrap(), "and now?");
    after_turn(&mut host, &shown);
    let requests = host.all_kept().iter().filter(|text| text.starts_with("request ")).count();
    assert_eq!(requests, 12);
    assert!(host.all_kept().contains(&"and now?".to_owned()));
}

#[test]
fn a_turn_that_is_told_to_be_over_after_the_next_one_began_is_kept_in_its_place() {
    let mut host = Host::new(16_384);
    let first = host.said("user", "one".into());
    let shown = host.assemble(std::slice::from_ref(&first));
    let reply = host.said("assistant", "two".into());
    let second = host.said("user", "three".into());
    let window = [first, reply, second];
    let later = host.assemble(&window);
    after_turn(&mut host, &shown);
    after_turn(&mut host, &later);
    after_turn(&mut host, &shown);
    assert_eq!(host.all_kept(), ["one", "two", "three"]);
}

#[test]
fn the_same_window_is_answered_the_same_again_and_again() {
    let mut host = Host::new(8192);
    for nth in 0..25 {
        let text = format!("request {nth}: {}", "a detail of it. ".repeat(40));
        host.turn(&Turn { session: "a", text: &text, reply: "so it is", ..Turn::default() });
    }
    let mut window = host.sessions["a"].clone();
    let asked = host.said("user", "which detail was it in request 3?".into());
    window.push(asked);
    let shown = host.assemble(&window);
    for _ in 0..5 {
        assert_eq!(host.assemble(&window), shown);
        assert_eq!(host.assemble(&shown), shown, "an answer that is shown again is answered with itself");
    }
}

#[test]
fn a_note_of_what_is_left_out_does_not_grow() {
    let mut host = Host::new(4096);
    let results: Vec<String> = (0..40).map(|nth| format!("step {nth}: {}", "a line of it\n".repeat(60))).collect();
    // Its turn goes on.
    host.turn(&Turn { session: "a", text: "read them all", is_private: true, results, ..Turn::default() });
    let last = host.windows.last().unwrap().clone();
    let notes = |window: &[Json]| texts(window).iter().filter(|text| text.starts_with("[lcm: left out")).count();
    assert_eq!(notes(&last), 1);
    assert_eq!(host.assemble(&last), last);
}

#[test]
fn two_turns_of_one_agent_at_once_stay_apart() {
    let mut host = Host::new(16_384);
    let (a, b) = (host.said("user", "I am Ludwig".into()), host.said("user", "I am Clara".into()));
    let (shown_a, shown_b) = (host.assemble(std::slice::from_ref(&a)), host.assemble(std::slice::from_ref(&b)));
    after_turn(&mut host, &shown_b);
    after_turn(&mut host, &shown_a);
    let (hi, asked) = (host.said("assistant", "hi".into()), host.said("user", "who am I?".into()));
    let shown = host.assemble(&[a, hi, asked]);
    assert_eq!(texts(&shown), ["I am Ludwig", "hi", "who am I?"]);
    assert_eq!(host.kept().len(), 2);
}

#[test]
fn a_summary_of_ours_that_the_host_shows_as_its_own_is_not_shown_twice() {
    let mut host = Host::new(16_384);
    for nth in 0..30 {
        let text = format!("request {nth}: {}", "a detail of it. ".repeat(20));
        host.turn(&Turn { session: "a", text: &text, reply: "so it is", ..Turn::default() });
    }
    host.compact("a");
    assert!(host.summaries["a"].starts_with("[lcm: kept whole]"));
    assert!(host.summaries["a"].len() > 200, "{}", host.summaries["a"]);
    let shown = host.turn(&Turn { session: "a", text: "and?", reply: "so", ..Turn::default() });
    assert!(texts(&shown).iter().all(|text| !text.starts_with("[Previous conversation context]")));
}

#[test]
fn words_that_the_host_runs_together_with_our_summary_are_not_lost() {
    let mut host = Host::new(16_384);
    host.turn(&Turn { session: "a", text: "hello", reply: "hi", ..Turn::default() });
    let merged = without_moment(
        "user",
        "[Context compaction summary] Earlier conversation turns were summarised. Summary of removed messages: [lcm: kept whole] x\n\nand what now?",
    );
    let shown = host.assemble(&[merged]);
    assert!(texts(&shown).iter().any(|text| text.contains("and what now?")), "{:?}", texts(&shown));
}

#[test]
fn more_conversations_than_are_remembered_lose_nothing_that_waits() {
    let mut host = Host::new(16_384);
    let mut begun = Vec::new();
    for nth in 0..150 {
        let words = block("text", &[("text", format!("what is image {nth}?").into())]);
        let image = block("image", &[("media_type", "image/png".into()), ("data", format!("aW1hZ2U{nth}").into())]);
        let said = host.said("user", Json::Array(vec![words.clone(), image]));
        host.assemble(std::slice::from_ref(&said));
        begun.push((said, words));
    }
    for (said, words) in begun {
        let Json::Object(mut entries) = said else { unreachable!() };
        entries[1].1 = Json::Array(vec![words, block("text", &[("text", "[image]".into())])]);
        after_turn(&mut host, &[Json::Object(entries)]);
    }
    let kept = host.kept_json();
    assert_eq!((kept.len(), host.kept().len()), (150, 150));
    assert!(kept.iter().all(|json| json.contains("aW1hZ2U")));
}
