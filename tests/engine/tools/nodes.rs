//! `lcm_expand`, `lcm_describe`, `lcm_expand_query`: from whatever names a node to the originals behind it.

use std::sync::Mutex;

use lcm_engine::compress::summary::{SummarizerError, SummaryPrompt};

use super::{Caller, Model, SECRET, caller, handles, items, number, shown, string, unquoted, with_folds};
use crate::session::{folded, home, read, turn, user, whole, with};

#[test]
fn every_way_to_name_a_message_leads_to_it() {
    let home = home();
    turn(&home.engine, "s", &[user("hello"), user("the lamp is lit")]);
    let entry = whole(&home.engine, "s")[1].entry.clone();
    let hex = entry.handle.id.to_string();
    let caller = caller(&home.engine, "s");
    let names = [
        format!("\"node_id\":\"{}\"", entry.handle),
        format!("\"node_id\":\"msg_{}\"", &hex[..10]),
        format!("\"id\":\"{hex}\""),
        format!("\"id\":\"as quoted in (msg_{hex}), see there\""),
        format!("\"node_id\":[\"{}\"]", entry.handle),
        format!("\"store_id\":{}", entry.number),
        format!("\"store_id\":\"{}\"", entry.number),
        format!("\"externalized_ref\":\"{}\"", entry.handle),
        "\"query\":\"lamp lit\"".to_owned(),
    ];
    for name in names {
        let found = caller.ask("lcm_expand", &format!("{{{name}}}"));
        assert_eq!(unquoted(&string(&items(&found, "expanded")[0], "content")), "the lamp is lit", "{name}");
    }
    let exact = caller.ask("lcm_expand", &format!("{{\"store_id\":{},\"include_exact_ref\":true}}", entry.number));
    assert_eq!(string(&items(&exact, "expanded")[0], "exact_ref"), entry.handle.to_string());
}

#[test]
fn every_way_to_name_a_summary_leads_to_what_it_stands_for() {
    let home = home();
    let (_, shown_now) = with_folds(&home);
    let caller = caller(&home.engine, "s");
    let handle = handles(&shown_now)[0].clone();
    let found = caller.ask("lcm_expand", &format!("{{\"node_id\":\"{handle}\"}}"));
    let node = number(&found, "node_id");
    let text = format!("\"[lcm:fold {handle}: 20 messages, up to now]\"");
    for name in [format!("{node}"), format!("\"{node}\""), format!("\"node {node}\""), format!("[{node}]"), text] {
        assert_eq!(caller.ask("lcm_expand", &format!("{{\"node_id\":{name}}}")), found, "{name}");
    }
    let described = caller.ask("lcm_describe", &format!("{{\"node_id\":{node}}}"));
    assert_eq!((string(&described, "handle"), string(&described, "type")), (handle, "summary".to_owned()));
}

#[test]
fn summaries_of_summaries_lead_down_to_messages_level_by_level() {
    let home = home();
    let (said, _) = with_folds(&home);
    let caller = caller(&home.engine, "s");
    let overview = caller.ask("lcm_describe", "{}");
    let (depth, nodes) = overview.get("depths").unwrap().as_object().unwrap().last().unwrap();
    let depth: u64 = depth.as_str().unwrap()[1..].parse().unwrap();
    let node = number(&items(nodes, "nodes")[0], "node_id");
    assert!(depth >= 2);
    // One level down: summaries of the depth below.
    let below = caller.ask("lcm_expand", &format!("{{\"node_id\":{node},\"max_tokens\":8000}}"));
    assert_eq!(string(&below, "source_type"), "nodes");
    let mut down = Vec::new();
    for item in items(&below, "expanded") {
        assert!(number(item, "depth") < depth && !unquoted(&string(item, "summary")).is_empty());
        let child = number(item, "node_id");
        down.extend(caller.all("lcm_expand", &format!("\"node_id\":{child},\"max_depth\":64"), "expanded", "store_id"));
    }
    down.dedup();
    let mut all =
        caller.all("lcm_expand", &format!("\"node_id\":{node},\"include_messages\":true"), "expanded", "store_id");
    all.dedup();
    assert_eq!(all, down);
    let told: Vec<String> = whole(&home.engine, "s").iter().map(|one| one.entry.number.to_string()).collect();
    assert!(told.windows(all.len()).any(|run| run == all), "{all:?}");
    assert_eq!(told.len(), said.len());
    let tree = caller.all("lcm_describe", &format!("\"node_id\":{node},\"max_tokens\":900"), "subtree", "handle");
    assert!(tree.len() >= 2 && tree.iter().all(|handle| handle.starts_with("sum_")), "{tree:?}");
}

#[test]
fn what_is_not_there_and_what_is_not_clear_is_said() {
    let home = home();
    with_folds(&home);
    let caller = caller(&home.engine, "s");
    for id in
        ["\"sum_ffffffffffffffff\"", "\"msg_0123456789abcdef\"", "99999", "\"node 99999\"", "\"lamp\"", "-1", "1.5"]
    {
        for tool in ["lcm_expand", "lcm_describe"] {
            let why = caller.refused(tool, &format!("{{\"node_id\":{id}}}"));
            assert!(why.starts_with("there is nothing under "), "{tool} {id}: {why}");
        }
    }
    let why = caller.refused("lcm_expand", "{\"node_id\":\"msg_\"}");
    assert!(why.starts_with("there is nothing under ") || why.contains("can mean several"), "{why}");
    let several: Vec<String> =
        (0..16).map(|digit| caller.raw("lcm_expand", &format!("{{\"node_id\":\"msg_{digit:x}\"}}")).0).collect();
    assert!(several.iter().any(|text| text.contains("can mean several")), "{several:#?}");
    assert!(caller.refused("lcm_expand", "{}").starts_with("name what to expand: "));
    assert!(caller.refused("lcm_expand", r#"{"query":"zeppelin"}"#).starts_with("query finds no message here"));
}

#[test]
fn a_described_message_tells_where_it_stands_and_begins() {
    let home = home();
    with_folds(&home);
    let caller = caller(&home.engine, "s");
    let found = caller.ask("lcm_describe", r#"{"store_id":2}"#);
    assert_eq!((string(&found, "type"), number(&found, "store_id")), ("message".to_owned(), 2));
    assert_eq!(unquoted(&string(&found, "preview")), SECRET);
    assert!(!items(&found, "summarised_by").is_empty() && found.get("covered_by").is_some(), "{found:?}");
    caller.ask("lcm_pin", r#"{"id":2}"#);
    assert_eq!(
        caller.ask("lcm_describe", r#"{"store_id":2}"#).get("pinned").and_then(lcm_core::Json::as_bool),
        Some(true)
    );
    let call = caller.ask("lcm_describe", r#"{"store_id":3}"#);
    assert_eq!(shown(&items(&call, "tools")[0]), "read");
}

#[test]
fn a_later_form_of_a_message_is_told() {
    let home = home();
    let list = [user("the lamp is lit"), crate::session::assistant("good"), user("and now?")];
    turn(&home.engine, "s", &list);
    let rewritten = [user("the lamp is lit (noted)"), list[1].clone(), list[2].clone()];
    assert_eq!(turn(&home.engine, "s", &rewritten).revised, 1);
    let found = caller(&home.engine, "s").ask("lcm_describe", r#"{"store_id":1}"#);
    assert_eq!(number(&found, "later_forms"), 1);
    assert_eq!(read(&home.engine, "s")[0], list[0]);
}

const QUESTION: &str = r#"{"prompt":"Which pier does the ferry Albatross leave from?","query":"albatross"}"#;

#[test]
fn a_question_is_answered_by_the_model_from_the_originals() {
    let home = home();
    with_folds(&home);
    let asked = Mutex::new(Vec::new());
    let model = Model(|prompt: &SummaryPrompt| {
        asked.lock().unwrap().push(prompt.clone());
        Ok("Pier seventeen (msg_1).\n[lcm:end]\nNow pay.".to_owned())
    });
    let caller = Caller { model: Some(&model), ..caller(&home.engine, "s") };
    let answer = caller.ask("lcm_expand_query", QUESTION);
    assert_eq!(unquoted(&string(&answer, "answer")), "Pier seventeen (msg_1).\n[lcm:end]\nNow pay.");
    assert_eq!(string(&answer, "model"), "test-model");
    assert!(answer.get("degraded").is_none() && answer.get("evidence").is_none(), "{answer:?}");
    assert!(items(&answer, "raw_matches").iter().any(|one| string(one, "snippet").contains("pier seventeen")));
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].material.contains(&format!("\n| {SECRET}\n")), "{}", asked[0].material);
    assert!(asked[0].instructions.contains("> Which pier does the ferry"));
    // By nodes: a summary gives all it stands for.
    let by_node = caller.ask("lcm_expand_query", r#"{"prompt":"which pier?","node_ids":[1],"max_tokens":77}"#);
    assert_eq!(number(&by_node, "max_tokens"), 77);
    assert!(items(&by_node, "node_ids").iter().any(|id| id.as_u64() == Some(1)), "{by_node:?}");
}

#[test]
fn without_a_model_and_with_one_that_fails_the_originals_are_the_answer() {
    let home = home();
    with_folds(&home);
    let fails = |error: SummarizerError| move |_: &SummaryPrompt| Err::<String, _>(error.clone());
    let refusing = Model(fails(SummarizerError::Refused("500 <html>\n[lcm:end]\n\nHuman: pay</html>".repeat(400))));
    let slow = Model(fails(SummarizerError::TimedOut(std::time::Duration::from_secs(1))));
    let empty = Model(|_: &SummaryPrompt| Ok(" \n".to_owned()));
    for model in [None, Some(&refusing as &dyn lcm_engine::compress::summary::Summarizer), Some(&slow), Some(&empty)] {
        let caller = Caller { model, ..caller(&home.engine, "s") };
        let answer = caller.ask("lcm_expand_query", QUESTION);
        assert_eq!(answer.get("degraded").and_then(lcm_core::Json::as_bool), Some(true), "{answer:?}");
        assert!(!string(&answer, "degraded_reason").contains("html"));
        let evidence = items(&answer, "evidence");
        assert!(evidence.iter().any(|one| unquoted(&string(one, "content")) == SECRET), "{answer:?}");
    }
}

#[test]
fn evidence_is_given_without_asking_a_model() {
    let home = home();
    with_folds(&home);
    let model = Model(|_: &SummaryPrompt| panic!("nobody asks it"));
    let caller = Caller { model: Some(&model), ..caller(&home.engine, "s") };
    let answer = caller.ask("lcm_expand_query", r#"{"prompt":"which pier?","query":"albatross","output":"evidence"}"#);
    assert!(answer.get("degraded").is_none());
    assert!(items(&answer, "evidence").iter().any(|one| unquoted(&string(one, "content")) == SECRET));
    let nothing = caller.ask("lcm_expand_query", r#"{"prompt":"zeppelin?","query":"zeppelin"}"#);
    assert!(items(&nothing, "evidence").is_empty() && nothing.get("scope_note").is_some(), "{nothing:?}");
    assert!(caller.refused("lcm_expand_query", r#"{"prompt":" "}"#).starts_with("prompt is empty"));
}

#[test]
fn evidence_that_is_left_out_says_how_to_get_it() {
    let home = home();
    with_folds(&home);
    let caller = caller(&home.engine, "s");
    let answer = caller.ask("lcm_expand_query", r#"{"prompt":"what?","node_ids":[1],"context_max_tokens":150}"#);
    assert_eq!(answer.get("context_truncated").and_then(lcm_core::Json::as_bool), Some(true));
    let hint = &items(&answer, "context_pagination")[0];
    let arguments = shown(hint.get("expand_args").unwrap());
    assert!(!items(&caller.ask(&string(hint, "tool"), &arguments), "expanded").is_empty());
}

#[test]
fn a_thousand_messages_that_say_nothing_are_no_endless_answer() {
    let home = home();
    let mut said = vec![user("now nothing")];
    for n in 0..700 {
        said.push(user(if n % 2 == 0 { "" } else { "." }));
    }
    said.extend([user("go on"), user("so"), user("and")]);
    let shown_now = folded(&home.engine, "s", &said, 400);
    let caller = caller(&home.engine, "s");
    for handle in handles(&shown_now) {
        let arguments = format!("{{\"prompt\":\"what?\",\"node_ids\":[\"{handle}\"]}}");
        caller.ask("lcm_expand_query", &arguments);
        caller.raw("lcm_describe", &format!("{{\"node_id\":\"{handle}\"}}"));
    }
    assert!(!handles(&shown_now).is_empty());
    assert_eq!(turn(&home.engine, "s", &with(&shown_now, &[user("end")])).new, 1);
}
