//! The tools that are listed by setting: reading a conversation, recalling, what is recent, how things are, pins.

use lcm_core::Json;
use lcm_engine::service::{Service, TurnRequest};
use lcm_tests::stores::NOW_MS;

use super::{Caller, caller, items, number, shown, string, unquoted, with_folds};
use crate::session::{
    assistant, call, exchanges, home, options, result, try_compress, turn, turn_of, user, whole, with,
};

fn contents(answer: &Json, list: &str, key: &str) -> Vec<String> {
    items(answer, list).iter().map(|item| unquoted(&string(item, key))).collect()
}

#[test]
fn a_conversation_is_read_in_order_by_role_time_and_place() {
    let home = home();
    let said = [user("one"), call("c1", "a.rs"), result("c1", "two"), assistant("three")];
    turn(&home.engine, "s", &said);
    let later = TurnRequest { now_ms: NOW_MS + 3_600_000, ..turn_of("s", &with(&said, &[user("four")])) };
    home.engine.turn(&later).unwrap();
    let caller = caller(&home.engine, "t");
    let read = |more: &str| {
        contents(&caller.ask("lcm_load_session", &format!("{{\"session_id\":\"s\"{more}}}")), "messages", "content")
    };
    assert_eq!(read(""), ["one", "", "two", "three", "four"]);
    assert_eq!(read(",\"roles\":[\"user\"]"), ["one", "four"]);
    assert_eq!(read(",\"role\":\"tool\""), ["two"]);
    assert_eq!(read(",\"after_store_id\":3"), ["three", "four"]);
    assert_eq!(read(&format!(",\"time_from\":{}", NOW_MS / 1000 + 60)), ["four"]);
    assert_eq!(read(&format!(",\"time_to\":{}", NOW_MS / 1000 + 60)), ["one", "", "two", "three"]);
    assert_eq!(read(",\"limit\":2,\"max_content_chars\":1"), ["o", ""]);
    let all = caller.ask("lcm_load_session", r##"{"session":"#1","include_exact_ref":true}"##);
    assert_eq!((number(&all, "total_messages"), number(&all, "returned_messages")), (5, 5));
    let called = &items(&all, "messages")[1];
    assert!(unquoted(&string(called, "calls")).contains("a.rs"));
    assert_eq!(string(called, "exact_ref"), string(called, "handle"));
    assert!(caller.refused("lcm_load_session", "{}").starts_with("session_id is missing"));
    assert!(caller.refused("lcm_load_session", r#"{"session_id":"x"}"#).starts_with("there is no session \"x\""));
    let why = caller.refused("lcm_load_session", r#"{"session_id":"s","after_store_id":77}"#);
    assert!(why.contains("77 is no message of this session"), "{why}");
}

#[test]
fn recall_finds_across_conversations_and_counts_the_own_and_the_recent_more() {
    let home = home();
    let old =
        TurnRequest { now_ms: NOW_MS - 300 * 86_400_000, ..turn_of("old", &[user("the ferry Albatross is old")]) };
    home.engine.turn(&old).unwrap();
    turn(&home.engine, "new", &[user("the ferry Albatross is new")]);
    turn(&home.engine, "s", &[user("the ferry Albatross is mine")]);
    let caller = caller(&home.engine, "s");
    let found = |more: &str| {
        let found = caller.ask("lcm_recall", &format!("{{\"query\":\"albatross ferry\"{more}}}"));
        let snippets = contents(&found, "results", "snippet");
        snippets.iter().map(|text| text.rsplit(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(""), ["mine", "new", "old"]);
    assert_eq!(found(",\"scope_bias\":1,\"detail\":\"answer_ready\""), ["mine", "new", "old"]);
    assert_eq!(found(",\"exclude_current_session\":true"), ["new", "old"]);
    assert_eq!(found(",\"exclude_session_ids\":[\"new\",\"nobody\"]"), ["mine", "old"]);
    assert_eq!(found(",\"include\":\"summaries\""), Vec::<String>::new());
    let first = caller.ask("lcm_recall", r#"{"query":"albatross ferry"}"#);
    let handle = string(&items(&first, "results")[0], "handle");
    assert_eq!(found(&format!(",\"seen_refs\":[\"{handle}\"]")), ["new", "old"]);
    let why = caller.refused("lcm_recall", r#"{"query":"x","scope_bias":"much"}"#);
    assert!(why.starts_with("scope_bias is \"much\""), "{why}");
    assert!(caller.refused("lcm_recall", "{}").starts_with("query is empty"));
}

#[test]
fn recent_gives_what_was_said_in_a_window() {
    let home = home();
    let day = 86_400_000;
    for (name, days, text) in [("a", 9, "nine"), ("b", 1, "yesterday"), ("s", 0, "now")] {
        home.engine.turn(&TurnRequest { now_ms: NOW_MS - days * day, ..turn_of(name, &[user(text)]) }).unwrap();
    }
    let caller = caller(&home.engine, "s");
    let found =
        |arguments: &str| contents(&caller.ask("lcm_recent", &format!("{{{arguments}}}")), "results", "snippet");
    assert_eq!(found(""), ["now"]);
    assert_eq!(found("\"scope\":\"all\",\"period\":\"week\""), ["now", "yesterday"]);
    assert_eq!(found("\"scope\":\"all\",\"period\":\"30d\""), ["now", "yesterday", "nine"]);
    assert_eq!(found("\"scope\":\"all\",\"period\":\"yesterday\""), ["yesterday"]);
    assert_eq!(found("\"scope\":\"all\",\"period\":\"date:2023-11-13\""), ["yesterday"]);
    assert_eq!(found("\"period\":\"last 1h\",\"role\":\"assistant\""), Vec::<String>::new());
    assert!(caller.refused("lcm_recent", r#"{"period":"soon"}"#).starts_with("period is \"soon\""));
}

#[test]
fn status_and_inspection_count_without_a_word_of_what_was_said() {
    let home = home();
    let (said, _) = with_folds(&home);
    let caller = caller(&home.engine, "s");
    let status = caller.ask("lcm_status", "{}");
    assert_eq!(string(&status, "last_compression_status"), "compacted");
    assert_eq!(number(status.get("store").unwrap(), "messages"), u64::try_from(said.len()).unwrap());
    assert!(number(status.get("dag").unwrap(), "total_nodes") > 1);
    let inspection = caller.ask("lcm_inspect", r#"{"limit":3}"#);
    let what: Vec<String> = items(&inspection, "items").iter().map(|item| string(item, "what")).collect();
    for kind in ["message", "shown fold"] {
        assert!(what.iter().any(|what| what == kind), "{what:?}");
    }
    assert_eq!(what.iter().filter(|what| *what == "message").count(), 3);
    for tool in ["lcm_status", "lcm_inspect", "lcm_doctor"] {
        let text = caller.raw(tool, "{}").0;
        assert!(!text.contains("harbour") && !text.contains("Albatross"), "{text}");
    }
}

#[test]
fn the_doctor_tells_what_is_missing() {
    let home = home();
    turn(&home.engine, "s", &[user("hello")]);
    let found = caller(&home.engine, "s").ask("lcm_doctor", "{}");
    assert_eq!(string(&found, "overall"), "warnings");
    let status = |answer: &Json, name: &str| {
        let check = items(answer, "checks").iter().find(|check| string(check, "check") == name).cloned().unwrap();
        string(&check, "status")
    };
    assert_eq!((status(&found, "session"), status(&found, "model")), ("pass".to_owned(), "warn".to_owned()));
    let model = super::Model(|_: &_| Ok(String::new()));
    let with_model = Caller { model: Some(&model), ..caller(&home.engine, "s") };
    assert_eq!(string(&with_model.ask("lcm_doctor", "{}"), "overall"), "healthy");
    assert_eq!(status(&caller(&home.engine, "nobody").ask("lcm_doctor", "{}"), "session"), "warn");
}

#[test]
fn what_is_pinned_is_never_folded_until_it_is_unpinned() {
    let home = home();
    let list = with(&[user("the code is 4711"), assistant("noted")], &exchanges("old", 10, 60));
    turn(&home.engine, "s", &list);
    let asker = caller(&home.engine, "s");
    let set = asker.ask("lcm_pin", r#"{"id":1}"#);
    assert_eq!((set.get("pinned"), set.get("changed")), (Some(&Json::Bool(true)), Some(&Json::Bool(true))));
    assert_eq!(asker.ask("lcm_pin", r#"{"id":1}"#).get("changed"), Some(&Json::Bool(false)));
    assert_eq!(shown(items(&asker.ask("lcm_pin", "{}"), "pinned")[0].get("store_id").unwrap()), "1");
    let (_, now) = try_compress(&home.engine, "s", &list, options(900), None).unwrap();
    assert!(now.len() < list.len() && now.contains(&list[0]), "{now:#?}");
    turn(&home.engine, "s", &now);
    let unset = asker.ask("lcm_pin", r#"{"id":1,"action":"unpin"}"#);
    assert_eq!(unset.get("pinned"), Some(&Json::Bool(false)));
    assert!(items(&asker.ask("lcm_pin", r#"{"action":"list"}"#), "pinned").is_empty());
    // What is folded already stays folded, and that is told.
    let folded = asker.ask("lcm_pin", r#"{"id":4}"#);
    assert!(string(&folded, "covered_by").starts_with("sum_") && folded.get("note").is_some(), "{folded:?}");
    assert!(asker.refused("lcm_pin", r#"{"action":"pin"}"#).contains("needs the id of one message"));
    assert!(asker.refused("lcm_pin", r#"{"id":[1,2]}"#).contains("needs the id of one message"));
    turn(&home.engine, "t", &[user("elsewhere")]);
    let elsewhere = whole(&home.engine, "t")[0].entry.number;
    assert!(asker.refused("lcm_pin", &format!("{{\"id\":{elsewhere}}}")).contains("no message of this conversation"));
}
