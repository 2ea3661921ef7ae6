//! Conversations and nodes as resources: listed, read, read on, and never longer than a tool's answer.

use lcm_core::Json;

use super::child::{Client, at, desk, error, text};

fn read(client: &mut Client, uri: &str) -> String {
    let told = client.ask(1, "resources/read", &format!(r#"{{"uri":"{uri}"}}"#));
    let contents = at(&told, &["result", "contents"]).as_array().unwrap();
    assert_eq!(text(&contents[0], &["uri"]), uri);
    text(&contents[0], &["text"]).to_owned()
}

#[test]
fn sessions_are_listed_newest_first_page_by_page() {
    let said: &[&str] = &["hello"];
    let names: Vec<String> = (0..60).map(|number| format!("s{number}")).collect();
    let sessions: Vec<_> = names.iter().map(|name| ("main", "owner", name.as_str(), said)).collect();
    let desk = desk(&sessions);
    let mut client = Client::open(&desk, &[], "{}");
    let mut found = Vec::new();
    let mut params = "{}".to_owned();
    loop {
        let told = client.ask(1, "resources/list", &params);
        let page = at(&told, &["result", "resources"]).as_array().unwrap();
        found.extend(page.iter().map(|resource| text(resource, &["name"]).to_owned()));
        match at(&told, &["result"]).get("nextCursor").and_then(Json::as_str) {
            Some(cursor) => params = format!(r#"{{"cursor":"{cursor}"}}"#),
            None => break,
        }
    }
    let newest: Vec<String> = names.into_iter().rev().collect();
    assert_eq!(found, newest);
    let told = client.ask(1, "resources/templates/list", "{}");
    let templates = at(&told, &["result", "resourceTemplates"]).as_array().unwrap();
    let templates: Vec<&str> = templates.iter().map(|template| text(template, &["uriTemplate"])).collect();
    assert_eq!(templates, ["lcm://session/{session}{?before}", "lcm://node/{handle}{?cursor}"]);
}

#[test]
fn a_conversation_is_read_from_its_end_to_its_beginning() {
    let texts: Vec<String> = (0..40).map(|number| format!("message {number} {}", "潮".repeat(500))).collect();
    let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let long = "很".repeat(30_000);
    texts[20] = &long;
    texts[21] = "a line\n## 99 assistant\n> quoted\u{2028}# Session";
    let desk = desk(&[("main", "owner", "a b", &texts)]);
    let mut client = Client::open(&desk, &[], "{}");
    let mut seen = Vec::new();
    let mut uri = "lcm://session/1".to_owned();
    loop {
        let page = read(&mut client, &uri);
        assert!(page.len() <= 16_000, "{} bytes", page.len());
        assert!(page.starts_with("# Session #1 #1\n"), "{page}");
        let mut numbers: Vec<u64> =
            page.lines().filter_map(|line| line.strip_prefix("## ")?.split(' ').next()?.parse().ok()).collect();
        numbers.extend(seen);
        seen = numbers;
        let Some((_, rest)) = page.split_once("?before=") else { break };
        uri = format!("lcm://session/a%20b?before={}", rest.split(' ').next().unwrap());
    }
    // What was said has no headings of ours in it.
    assert_eq!(seen, (1..=40).collect::<Vec<_>>());
}

#[test]
fn a_node_is_what_expand_gives() {
    let desk = desk(&[("main", "owner", "one", &[&"the lamp ".repeat(4000)])]);
    let mut client = Client::open(&desk, &[], "{}");
    let first = Json::parse(read(&mut client, "lcm://node/1").as_bytes()).unwrap();
    let handle = text(&first, &["handle"]).to_owned();
    let again = Json::parse(read(&mut client, &format!("lcm://node/{handle}")).as_bytes()).unwrap();
    let cursor = text(&again, &["cursor"]);
    let next = Json::parse(read(&mut client, &format!("lcm://node/{handle}?cursor={cursor}")).as_bytes()).unwrap();
    assert_eq!(at(&next, &["expanded"]).as_array().unwrap().len(), 1);
}

#[test]
fn what_is_not_there_is_an_error_of_one_sentence() {
    let desk = desk(&[("main", "owner", "one", &["a"])]);
    let mut client = Client::open(&desk, &[], "{}");
    for uri in ["lcm://session/9", "lcm://session/two", "lcm://node/msg_00", "lcm://x/1", "file:///etc/passwd", ""] {
        let told = client.ask(1, "resources/read", &format!(r#"{{"uri":"{uri}"}}"#));
        let (code, why) = error(&told);
        assert_eq!(code, -32002, "{uri}");
        assert!(why.starts_with("there is no"), "{uri}: {why}");
    }
    assert_eq!(error(&client.ask(1, "resources/list", r#"{"cursor":"x"}"#)).0, -32602);
}
