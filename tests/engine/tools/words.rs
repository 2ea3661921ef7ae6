//! `lcm_grep`: what it finds, what it does not, and that any text may be looked for.

use lcm_core::Json;
use lcm_engine::service::{Service, TurnRequest};

use lcm_tests::stores::NOW_MS;

use super::{SECRET, caller, handles, items, number, quoted_json, shown, string, unquoted, with_folds};
use crate::session::{assistant, call, exchanges, folded, home, result, turn, turn_of, user, with};

fn snippets(answer: &Json) -> Vec<String> {
    items(answer, "results").iter().map(|hit| unquoted(&string(hit, "snippet"))).collect()
}

#[test]
fn messages_of_the_turn_that_runs_are_found() {
    let home = home();
    let list = [user("look for the lamp"), call("c1", "pier/lamp.rs"), result("c1", "the wick is trimmed")];
    turn(&home.engine, "s", &list);
    let caller = caller(&home.engine, "s");
    for (query, mode) in
        [("wick trimmed", "full_text"), ("WICK IS", "regex"), ("wick is", "regex"), ("pier/lamp.rs", "full_text")]
    {
        let found = caller.ask("lcm_grep", &format!("{{\"query\":{},\"mode\":\"{mode}\"}}", quoted_json(query)));
        let exact = items(&found, "results").iter().filter(|hit| hit.get("ranked").is_none());
        assert_eq!(exact.count(), usize::from(query != "WICK IS"), "{query}: {found:?}");
    }
    let found = caller.ask("lcm_grep", r#"{"query":"lamp","mode":"regex","role":"assistant"}"#);
    assert_eq!(string(&items(&found, "results")[0], "role"), "assistant");
}

#[test]
fn any_text_is_a_legal_query() {
    let home = home();
    with_folds(&home);
    let nasty = [
        "(",
        ")",
        "[",
        "[a-",
        "*",
        "+?",
        "\\",
        "\\x",
        "a{99999999}",
        "(?P<x",
        "(a|b",
        "\"open phrase",
        "AND",
        "OR NOT",
        "NOT",
        "a AND",
        "-x",
        "field:value",
        "^",
        "$",
        "",
        " ",
        "\u{0}",
        "%",
        "_",
        "'; DROP TABLE x; --",
        "🚢",
        "\\ud83d",
        "a\nb",
        "\u{2028}",
        "((((((((((",
        "(?i)",
        "\\b",
        ".*",
        "[[:alpha:]]",
        "x*",
        "NEAR(a b)",
        "*:*",
        "~0.8",
        "^2",
        "{!lucene}",
        "title:[* TO *]",
    ];
    for text in nasty {
        for mode in ["full_text", "regex", "semantic", "hybrid"] {
            let arguments = format!("{{\"query\":{},\"mode\":\"{mode}\"}}", quoted_json(text));
            let (answer, is_error) = caller(&home.engine, "s").raw("lcm_grep", &arguments);
            assert_eq!(is_error, text.is_empty(), "{arguments}: {answer}");
        }
    }
    // Groups a thousand times over took gigabytes once.
    for pattern in [format!("({}){{300}}", "(a)".repeat(600)), "(a|b)*".repeat(600), "(?P<n>a)".to_owned()] {
        caller(&home.engine, "s").ask("lcm_grep", &format!("{{\"query\":\"{pattern}\",\"mode\":\"regex\"}}"));
    }
    let long = format!("{{\"query\":{},\"mode\":\"regex\"}}", quoted_json(&"(a|b)*".repeat(20_000)));
    caller(&home.engine, "s").raw("lcm_grep", &long);
    let deep = format!("{{\"query\":{}}}", quoted_json(&"harbour ".repeat(20_000)));
    caller(&home.engine, "s").raw("lcm_grep", &deep);
}

#[test]
fn a_regex_that_is_none_is_looked_for_as_it_stands_and_that_is_said() {
    let home = home();
    turn(&home.engine, "s", &[user("call lamp(3 now"), user("call lamp[3 now")]);
    let found = caller(&home.engine, "s").ask("lcm_grep", r#"{"query":"lamp(3","mode":"regex"}"#);
    assert_eq!(snippets(&found), ["call lamp(3 now"]);
    let note = shown(&items(&found, "notes")[0]);
    assert!(note.starts_with("query is no usable regular expression ("), "{note}");
}

#[test]
fn filters_narrow_the_search_itself() {
    let home = home();
    let at = |name: &str, hour: i64, list: &[String]| {
        let request = TurnRequest { now_ms: NOW_MS + hour * 3_600_000, ..turn_of(name, list) };
        home.engine.turn(&request).unwrap();
    };
    let first = [user("the lamp one"), assistant("the lamp two")];
    at("s", 0, &first);
    at("s", 2, &with(&first, &[user("the lamp three"), assistant("the lamp four")]));
    at("t", 4, &[user("the lamp five")]);
    let caller = caller(&home.engine, "s");
    let found = |more: &str| {
        let found = caller.ask("lcm_grep", &format!("{{\"query\":\"lamp\"{more}}}"));
        snippets(&found).iter().map(|text| text.rsplit(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let from = NOW_MS / 1000 + 3600;
    assert_eq!(found(""), ["four", "three", "two", "one"]);
    assert_eq!(found(",\"role\":\"user\""), ["three", "one"]);
    assert_eq!(found(",\"role\":[\"user\",\"assistant\"],\"limit\":1"), ["four"]);
    assert_eq!(found(",\"role\":\"tool\""), Vec::<String>::new());
    assert_eq!(found(&format!(",\"time_from\":{from}")), ["four", "three"]);
    assert_eq!(found(&format!(",\"before\":{from}")), ["two", "one"]);
    assert_eq!(found(",\"since\":\"2023-11-14T23:13:20Z\",\"until\":\"2023-11-15T03:13:20+02:00\""), ["four", "three"]);
    assert_eq!(found(",\"session_scope\":\"all\""), ["five", "four", "three", "two", "one"]);
    assert_eq!(found(",\"session_scope\":\"all\",\"exclude_current_session\":true"), ["five"]);
    assert_eq!(found(",\"session_scope\":\"all\",\"exclude_session_ids\":[\"t\"]"), ["four", "three", "two", "one"]);
    assert_eq!(found(",\"session_id\":\"t\""), ["five"]);
    assert_eq!(found(",\"conversationId\":\"#2\",\"mode\":\"full_text\""), ["five"]);
    assert_eq!(found(",\"allConversations\":true,\"limit\":1,\"mode\":\"full_text\""), ["five"]);
    assert_eq!(found(",\"source\":\"test\",\"limit\":1"), ["four"]);
    assert_eq!(found(",\"source\":\"elsewhere\""), Vec::<String>::new());
    assert_eq!(found(",\"mode\":\"regex\",\"sort\":\"oldest\",\"role\":\"assistant\""), ["two", "four"]);
    let why = caller.refused("lcm_grep", r#"{"query":"lamp","role":"pilot"}"#);
    assert!(why.starts_with("role is \"pilot\", and can be "), "{why}");
    let why = caller.refused("lcm_grep", r#"{"query":"lamp","time_from":"2026-03-04T08:00:00"}"#);
    assert!(why.contains("no time zone"), "{why}");
    let why = caller.refused("lcm_grep", r#"{"query":"lamp","session_scope":"session"}"#);
    assert!(why.contains("needs a session_id"), "{why}");
}

#[test]
fn a_hit_tells_which_fold_stands_for_it_now() {
    let home = home();
    let said = [user("please remember what the pilot said"), assistant(SECRET)];
    turn(&home.engine, "s", &said);
    let grep = r#"{"query":"albatross seventeen"}"#;
    let before = caller(&home.engine, "s").ask("lcm_grep", grep);
    assert!(items(&before, "results")[0].get("covered_by").is_none(), "{before:?}");
    let list = with(&said, &exchanges("old", 10, 60));
    let shown_now = folded(&home.engine, "s", &list, 900);
    // A fold is the conversation's once its host shows it.
    turn(&home.engine, "s", &shown_now);
    let after = caller(&home.engine, "s").ask("lcm_grep", grep);
    let hit = items(&after, "results").iter().find(|hit| string(hit, "type") == "message").unwrap();
    let cover = hit.get("covered_by").unwrap_or_else(|| panic!("{after:?}"));
    assert!(handles(&shown_now).contains(&string(cover, "handle")), "{cover:?} is not in {shown_now:#?}");
    let originals = caller(&home.engine, "s").all(
        "lcm_expand",
        &format!("\"node_id\":{},\"include_messages\":true", number(cover, "node_id")),
        "expanded",
        "content",
    );
    assert!(originals.iter().any(|text| text.contains(SECRET)), "{originals:?}");
}

#[test]
fn lines_around_a_match_are_numbered() {
    let home = home();
    turn(&home.engine, "s", &[user("one\ntwo\nthe lamp\nfour\nfive")]);
    let found = caller(&home.engine, "s").ask("lcm_grep", r#"{"query":"lamp","mode":"regex","context_lines":1}"#);
    assert_eq!(unquoted(&string(&items(&found, "results")[0], "lines")), "2- two\n3: the lamp\n4- four");
}

#[test]
fn the_other_dialect_is_understood() {
    let home = home();
    let (_, shown) = with_folds(&home);
    let caller = caller(&home.engine, "s");
    // A pattern is a regular expression there, and fifty hits are given.
    let found = caller.ask("lcm_grep", r#"{"pattern":"pier\\s+sev.nteen","scope":"messages"}"#);
    assert_eq!((string(&found, "mode"), number(&found, "limit")), ("regex".to_owned(), 50));
    assert_eq!(items(&found, "results").len(), 1);
    let handle = handles(&shown)[0].clone();
    let arguments = format!(r#"{{"summaryIds":["{handle}"],"includeMessages":true,"tokenCap":8000}}"#);
    let expanded = caller.ask("lcm_expand", &arguments);
    assert_eq!(string(&expanded, "handle"), handle);
    let described =
        caller.ask("lcm_describe", &format!(r#"{{"id":"see [lcm:fold {handle}: 12 messages]","tokenCap":500}}"#));
    assert_eq!(string(&described, "handle"), handle);
    let arguments = format!(
        r#"{{"prompt":"which pier?","summaryIds":["{handle}"],"maxTokens":500,"conversationId":1,"timeoutMs":150000}}"#
    );
    let answered = caller.ask("lcm_expand_query", &arguments);
    assert!(!items(&answered, "evidence").is_empty(), "{answered:?}");
}
