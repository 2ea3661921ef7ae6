//! Pages that follow a cursor hold all there is, once: the very texts, the very hits; also when more is said meanwhile,
//! and from another process.

use std::collections::{BTreeMap, HashSet};

use lcm_core::Json;

use super::{Caller, caller, cursor, items, number, shown, string, unquoted, with_folds};
use crate::session::{exchanges, folded, home, long, open, read, turn, user, whole, with};

/// Messages of every shape.
fn odd_messages() -> Vec<String> {
    let calls = r#"[{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a\"}"}}]"#;
    vec![
        user(&"A long tale of \"lamps\" and\n\ttides \u{2028} 灯台 🚢 [lcm:end]\r\n".repeat(120)),
        format!(r#"{{"role":"assistant","content":null,"tool_calls":{calls},"reasoning_content":"hm"}}"#),
        r#"{"role":"tool","tool_call_id":"c1","content":"fn lamp() {}","name":"read"}"#.to_owned(),
        r#"{"role":"user","content":[{"type":"text","text":"two"},{"type":"image_url","image_url":{"url":"data:,x"}},{"type":"text","text":"parts"}],"x":[1.50,1e400]}"#.to_owned(),
        r#"{"role":"assistant","content":"half \ud83d of a pair"}"#.to_owned(),
        r#"{"role":"assistant","content":"","tool_calls":[]}"#.to_owned(),
        format!(r#"{{"role":"assistant","content":"so","tool_calls":{calls},"refusal":null}}"#),
        format!(r#"{{"role":"user","content":"x","blob":"{}"}}"#, "0123456789abcdef".repeat(300)),
        r#"{"role":"user","content":{"a":[]},"a":1,"a":2}"#.to_owned(),
    ]
}

/// What the pages of one expansion give: for each message, in order, its texts put together.
fn joined(pages: &[Json]) -> Vec<(u64, BTreeMap<String, String>)> {
    let mut all: Vec<(u64, BTreeMap<String, String>)> = Vec::new();
    for item in pages.iter().flat_map(|page| items(page, "expanded")) {
        let id = number(item, "store_id");
        if all.last().is_none_or(|(last, _)| *last != id) {
            all.push((id, BTreeMap::from([("role".to_owned(), string(item, "role"))])));
        }
        let texts = &mut all.last_mut().unwrap().1;
        for name in ["content", "calls", "rest"] {
            if let Some(piece) = item.get(name) {
                *texts.entry(name.to_owned()).or_default() += &unquoted(&shown(piece));
            }
        }
    }
    all
}

/// The same of a message as it was said.
fn taken_apart(message: &str) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    let mut rest = Vec::new();
    for (key, value) in Json::parse(message.as_bytes()).unwrap().as_object().unwrap() {
        match key.as_str().unwrap() {
            "role" => drop(texts.insert("role".to_owned(), shown(value))),
            "content" => drop(texts.insert("content".to_owned(), shown(value))),
            "tool_calls" => drop(texts.insert("calls".to_owned(), shown(value))),
            _ => rest.push((key.clone(), value.clone())),
        }
    }
    if !rest.is_empty() {
        texts.insert("rest".to_owned(), String::from_utf8(Json::Object(rest).to_text()).unwrap());
    }
    texts
}

#[test]
fn pages_of_a_message_are_the_very_message_however_small_they_are() {
    let home = home();
    turn(&home.engine, "s", &odd_messages());
    let caller = caller(&home.engine, "s");
    for (said, told) in odd_messages().iter().zip(whole(&home.engine, "s")) {
        let id = told.entry.number;
        // Of the long one a character at a time would be thousands of pages.
        let least = if said.len() > 2000 { 200 } else { 1 };
        for max in [least, 260, 700, 4000] {
            let pages = caller.pages("lcm_expand", &format!("\"store_id\":{id},\"exact\":true,\"max_tokens\":{max}"));
            assert_eq!(joined(&pages), [(id.0, taken_apart(said))], "with {max} tokens");
        }
    }
}

#[test]
fn pages_of_a_summary_are_all_its_messages_in_order() {
    let home = home();
    let said = with(&odd_messages(), &exchanges("old", 10, 60));
    let shown = folded(&home.engine, "s", &with(&said, &[user("go on")]), 900);
    let folds = super::handles(&shown);
    let caller = caller(&home.engine, "s");
    let mut given = Vec::new();
    for max in [300, 1200, 8000] {
        given.clear();
        for handle in &folds {
            let arguments =
                format!("\"node_id\":\"{handle}\",\"include_messages\":true,\"exact\":true,\"max_tokens\":{max}");
            given.extend(joined(&caller.pages("lcm_expand", &arguments)).into_iter().map(|(_, texts)| texts));
        }
        let expected: Vec<_> = said.iter().take(given.len()).map(|message| taken_apart(message)).collect();
        assert_eq!(given, expected, "with {max} tokens");
    }
    assert!(given.len() > 12, "{} messages are folded", given.len());
}

#[test]
fn offsets_lead_on_as_cursors_do() {
    let home = home();
    let text = "é tide and lamp, \"x\" ".repeat(900);
    turn(&home.engine, "s", &[user(&text)]);
    let caller = caller(&home.engine, "s");
    let (mut offset, mut given) = (0, String::new());
    loop {
        let page =
            caller.ask("lcm_expand", &format!("{{\"store_id\":1,\"content_offset\":{offset},\"max_tokens\":1500}}"));
        let item = &items(&page, "expanded")[0];
        given += &unquoted(&string(item, "content"));
        match item.get("next_content_offset") {
            None => break,
            Some(next) => offset = next.as_u64().unwrap(),
        }
    }
    assert_eq!(given, text);
    let lines = (1..=40).map(|n| format!("line {n}\n")).collect::<String>();
    turn(&home.engine, "t", &[user(&lines)]);
    let id = whole(&home.engine, "t")[0].entry.number;
    let part = caller.ask("lcm_expand", &format!("{{\"store_id\":{id},\"startLine\":3,\"endLine\":4}}"));
    assert_eq!(unquoted(&string(&items(&part, "expanded")[0], "content")), "line 3\nline 4\n");
}

#[test]
fn sources_are_skipped_and_limited_by_number() {
    let home = home();
    with_folds(&home);
    let caller = caller(&home.engine, "s");
    let all = caller.all("lcm_expand", "\"node_id\":1,\"include_messages\":true", "expanded", "store_id");
    let mut unique = all;
    unique.dedup();
    assert!(unique.len() > 5);
    let mut given = Vec::new();
    for offset in 0..unique.len() {
        let arguments = format!(
            "{{\"node_id\":1,\"include_messages\":true,\"source_offset\":{offset},\"source_limit\":1,\"max_tokens\":8000}}"
        );
        let page = caller.ask("lcm_expand", &arguments);
        assert_eq!(items(&page, "expanded").len(), 1, "{page:?}");
        given.push(number(&items(&page, "expanded")[0], "store_id").to_string());
        assert_eq!(cursor(&page).is_some(), offset + 1 < unique.len());
    }
    assert_eq!(given, unique);
    let behind = caller.refused("lcm_expand", &format!("{{\"node_id\":1,\"source_offset\":{}}}", unique.len() + 99));
    assert!(behind.starts_with("source_offset is behind"), "{behind}");
}

/// Follows a call to its end while more is said between two pages, each page asked of another engine.
fn pages_while_more_is_said(tool: &str, arguments: &str, list: &str, id: &str) -> (Vec<String>, Vec<String>) {
    let home = home();
    let (_, mut now) = with_folds(&home);
    let before = caller(&home.engine, "s").all(tool, arguments, list, id);
    let mut given = Vec::new();
    let mut cursor_entry = String::new();
    for round in 0..400 {
        let engine = open(&home.folder);
        let page = caller(&engine, "s").ask(tool, &format!("{{{arguments}{cursor_entry}}}"));
        given.extend(items(&page, list).iter().filter_map(|item| item.get(id).map(shown)));
        let Some(cursor) = cursor(&page) else { return (before, given) };
        cursor_entry = format!(",\"cursor\":\"{cursor}\"");
        if round < 20 {
            now.push(user(&format!("harbour, said meanwhile {round}")));
            turn(&engine, "s", &now);
            turn(&engine, &format!("other {round}"), &[user(&format!("harbour, said elsewhere {round}"))]);
        }
    }
    panic!("{tool} never ends");
}

#[test]
fn a_cursor_stays_valid_after_more_was_said_and_in_another_process() {
    let calls = [
        ("lcm_grep", "\"query\":\"harbour\",\"mode\":\"regex\",\"limit\":7", "results", "handle"),
        (
            "lcm_grep",
            "\"query\":\"harbour\",\"mode\":\"regex\",\"limit\":7,\"session_scope\":\"all\"",
            "results",
            "store_id",
        ),
        ("lcm_grep", "\"query\":\"harbour question\",\"limit\":7,\"role\":\"user\"", "results", "store_id"),
        ("lcm_recent", "\"limit\":9,\"period\":\"30d\"", "results", "store_id"),
        ("lcm_recent", "\"limit\":9,\"period\":\"30d\",\"scope\":\"all\"", "results", "store_id"),
        ("lcm_inspect", "\"limit\":100,\"max_tokens\":500", "items", "store_id"),
        ("lcm_expand", "\"node_id\":1,\"include_messages\":true,\"max_tokens\":500", "expanded", "store_id"),
        ("lcm_describe", "\"node_id\":1,\"max_tokens\":600", "subtree", "handle"),
    ];
    for (tool, arguments, list, id) in calls {
        let (mut before, mut given) = pages_while_more_is_said(tool, arguments, list, id);
        if tool == "lcm_expand" {
            before.dedup();
            given.dedup();
        }
        assert!(before.len() > 4, "{tool} {arguments}: {before:?}");
        if arguments.contains("harbour question") {
            // Behind those with all words come those with some, by rank, which moves with what is said.
            given.truncate(before.len());
        }
        assert_eq!(given, before, "{tool} {arguments}");
    }
}

#[test]
fn a_conversation_is_read_to_its_end_with_what_is_said_meanwhile() {
    let home = home();
    let (said, mut now) = with_folds(&home);
    let mut given = Vec::new();
    let mut entry = String::new();
    let mut extra = Vec::new();
    loop {
        let engine = open(&home.folder);
        let page =
            caller(&engine, "s").ask("lcm_load_session", &format!("{{\"session_id\":\"s\",\"limit\":13{entry}}}"));
        given.extend(items(&page, "messages").iter().map(|item| unquoted(&string(item, "content"))));
        let Some(cursor) = cursor(&page) else { break };
        entry = format!(",\"cursor\":\"{cursor}\"");
        if extra.len() < 3 {
            extra.push(user(&format!("meanwhile {}", extra.len())));
            now.extend(extra.last().cloned());
            turn(&engine, "s", &now);
        }
    }
    let text = |message: &String| {
        let content = Json::parse(message.as_bytes()).unwrap().get("content").unwrap().clone();
        content.as_str().unwrap_or_default().to_owned()
    };
    let expected: Vec<String> = with(&said, &extra).iter().map(text).collect();
    assert_eq!(given, expected);
    assert_eq!(read(&home.engine, "s").len(), expected.len());
}

#[test]
fn hits_of_a_search_come_once_whatever_the_size_of_a_page() {
    let home = home();
    with_folds(&home);
    let caller = caller(&home.engine, "s");
    for arguments in [
        "\"query\":\"harbour\",\"mode\":\"regex\"",
        "\"query\":\"harbour\",\"mode\":\"regex\",\"sort\":\"oldest\",\"context_lines\":2",
        "\"query\":\"harbour question\"",
        "\"query\":\"albatross harbour lamp\"",
        "\"query\":\"harbour question\",\"sort\":\"relevance\"",
    ] {
        let at_once = caller.all("lcm_grep", &format!("{arguments},\"limit\":200"), "results", "handle");
        // What was said twice has one handle and two numbers.
        let numbers = caller.all("lcm_grep", &format!("{arguments},\"limit\":200"), "results", "store_id");
        let unique: HashSet<&String> = numbers.iter().collect();
        assert!(numbers.len() > 20 && unique.len() == numbers.len(), "{arguments}: {numbers:?}");
        for page in
            ["\"limit\":1", "\"limit\":7", "\"limit\":200,\"max_tokens\":700", "\"limit\":50,\"max_tokens\":2000"]
        {
            let by_pages = caller.all("lcm_grep", &format!("{arguments},{page}"), "results", "handle");
            assert_eq!(by_pages, at_once, "{arguments} {page}");
        }
    }
}

#[test]
fn what_is_recalled_comes_once_in_pages_of_any_size() {
    let home = home();
    for n in 0..12 {
        turn(&home.engine, &format!("old {n}"), &exchanges(&format!("old {n}"), 8, 5));
    }
    turn(&home.engine, "s", &exchanges("own", 4, 5));
    let caller = caller(&home.engine, "s");
    let at_once = caller.all("lcm_recall", "\"query\":\"harbour question\",\"limit\":25", "results", "handle");
    let unique: HashSet<&String> = at_once.iter().collect();
    assert_eq!((at_once.len(), unique.len()), (200, 200));
    for page in ["\"limit\":1", "\"limit\":8", "\"limit\":25,\"max_tokens\":900"] {
        let later = Caller { now_ms: caller.now_ms + 86_400_000, ..caller.clone() };
        let by_pages = later.all("lcm_recall", &format!("\"query\":\"harbour question\",{page}"), "results", "handle");
        assert_eq!(by_pages, at_once, "{page}");
    }
}

#[test]
fn pins_and_parts_of_an_inspection_come_once() {
    let home = home();
    let said = exchanges("pin", 40, 3);
    turn(&home.engine, "s", &said);
    let caller = caller(&home.engine, "s");
    for id in 1..=40 {
        caller.ask("lcm_pin", &format!("{{\"id\":{id}}}"));
    }
    let pinned = caller.all("lcm_pin", "\"max_tokens\":300", "pinned", "store_id");
    assert_eq!(pinned, (1..=40).map(|id: u64| id.to_string()).collect::<Vec<_>>());
    let small = caller.all("lcm_inspect", "\"limit\":200,\"max_tokens\":300", "items", "store_id");
    let large = caller.all("lcm_inspect", "\"limit\":200", "items", "store_id");
    assert_eq!((small.len(), &small), (120, &large));
}

#[test]
fn a_text_that_is_larger_than_a_page_of_a_conversation_says_where_the_rest_is() {
    let home = home();
    turn(&home.engine, "s", &[user("hello"), user(&long("much", 4000)), user("bye")]);
    let caller = caller(&home.engine, "s");
    let pages = caller.pages("lcm_load_session", "\"session_id\":\"s\",\"max_content_chars\":20000,\"max_tokens\":900");
    let all: Vec<&Json> = pages.iter().flat_map(|page| items(page, "messages")).collect();
    assert_eq!(all.len(), 3);
    assert_eq!(all[1].get("content_truncated").and_then(Json::as_bool), Some(true));
    assert!(number(all[1], "content_chars") > 50_000);
    let rest = caller.pages("lcm_expand", &format!("\"store_id\":{}", number(all[1], "store_id")));
    assert_eq!(joined(&rest)[0].1["content"], long("much", 4000));
}
