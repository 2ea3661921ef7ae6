//! What each scope reads, and that it reads nothing else, by any door: hits, handles, numbers, names, resources.

use lcm_core::Json;

use super::child::{Client, at, desk, said, text};

/// The sessions of this test: whose, and what was said in each.
const SESSIONS: [(&str, &str, &str, &[&str]); 4] = [
    ("ada", "ann", "one", &["zeppelin 1"]),
    ("ada", "bob", "two", &["zeppelin 2"]),
    ("eve", "ann", "three", &["zeppelin 3"]),
    ("eve", "bob", "four", &["zeppelin 4"]),
];

#[test]
fn each_scope_reads_its_own_and_nothing_else() {
    let desk = desk(&SESSIONS);
    for (scope, seen) in [
        (None, &[1, 2, 3, 4][..]),
        (Some("owner"), &[1, 2, 3, 4]),
        (Some("agent=ada"), &[1, 2]),
        (Some("agent=eve"), &[3, 4]),
        (Some("agent=ada,person=ann"), &[1]),
        (Some("agent=eve,person=bob"), &[4]),
        (Some("session=three"), &[3]),
        (Some("session=#2"), &[2]),
        (Some("agent=nobody"), &[]),
        (Some("agent=ada,person=nobody"), &[]),
    ] {
        let args: Vec<&str> = scope.iter().flat_map(|scope| ["--scope", scope]).collect();
        let mut client = Client::open(&desk, &args, "{}");
        let told = format!("{scope:?}");
        for asked in ["{}", r#"{"session_scope":"all"}"#, r#"{"session_scope":"current"}"#] {
            let mut asked = Json::parse(asked.as_bytes()).unwrap();
            if let Json::Object(entries) = &mut asked {
                entries.push(("query".into(), "zeppelin".into()));
            }
            let answer = client.answer("grep", std::str::from_utf8(&asked.to_text()).unwrap());
            let hits = at(&answer, &["results"]).as_array().unwrap().iter();
            let mut found: Vec<u64> = hits.map(|hit| at(hit, &["store_id"]).as_u64().unwrap()).collect();
            found.sort_unstable();
            assert_eq!(found, seen, "{told}");
        }
        let answer = client.answer("expand_query", r#"{"prompt":"zeppelin","output":"evidence","max_results":50}"#);
        assert_eq!(at(&answer, &["evidence"]).as_array().unwrap().len(), seen.len(), "{told}");
        let answer = client.answer("recall", r#"{"query":"zeppelin"}"#);
        assert_eq!(at(&answer, &["total_results"]).as_u64(), u64::try_from(seen.len()).ok(), "{told}");
        for (number, (_, _, name, _)) in (1_u64..).zip(SESSIONS) {
            let is_seen = seen.contains(&number);
            for (tool, arguments) in [
                ("expand", format!(r#"{{"store_id":{number}}}"#)),
                ("describe", format!(r#"{{"id":"{number}"}}"#)),
                ("load_session", format!(r#"{{"session_id":"{name}"}}"#)),
                ("load_session", format!(r##"{{"session_id":"#{number}"}}"##)),
                ("describe", format!(r#"{{"session_id":"{name}"}}"#)),
                ("grep", format!(r##"{{"query":"zeppelin","session_id":"#{number}"}}"##)),
            ] {
                let result = client.call(tool, &arguments);
                assert_eq!(at(&result, &["isError"]).as_bool(), Some(!is_seen), "{told} {tool} {arguments}");
                assert_eq!(
                    said(&result).contains("zeppelin "),
                    is_seen && (tool != "describe" || arguments.contains("\"id\"")),
                    "{told} {tool} {arguments}"
                );
            }
            for uri in
                [format!("lcm://session/{number}"), format!("lcm://session/{name}"), format!("lcm://node/{number}")]
            {
                let told_of = client.ask(1, "resources/read", &format!(r#"{{"uri":"{uri}"}}"#));
                assert_eq!(told_of.get("result").is_some(), is_seen, "{told} {uri}");
            }
        }
        let listed = client.ask(1, "resources/list", "{}");
        let listed = at(&listed, &["result", "resources"]).as_array().unwrap().iter();
        let mut listed: Vec<&str> = listed.map(|resource| text(resource, &["uri"])).collect();
        listed.reverse();
        let expected: Vec<String> = seen.iter().map(|number| format!("lcm://session/{number}")).collect();
        assert_eq!(listed, expected, "{told}");
    }
}

#[test]
fn a_cursor_of_one_scope_is_none_of_another() {
    let desk = desk(&SESSIONS);
    let ask = |scope: &str, cursor: &str| {
        let mut client = Client::open(&desk, &["--scope", scope], "{}");
        client.call("grep", &format!(r#"{{"query":"zeppelin","limit":1{cursor}}}"#))
    };
    let first = ask("agent=ada", "");
    let cursor = format!(r#","cursor":"{}""#, text(&first, &["structuredContent", "cursor"]));
    assert_eq!(at(&ask("agent=ada", &cursor), &["isError"]).as_bool(), Some(false));
    for scope in ["owner", "agent=eve", "agent=ada,person=ann"] {
        assert_eq!(at(&ask(scope, &cursor), &["isError"]).as_bool(), Some(true), "{scope}");
    }
}

#[test]
fn a_session_that_is_not_there_yet_is_told_and_found_when_it_is() {
    let desk = desk(&SESSIONS);
    let mut client = Client::open(&desk, &["--scope", "session=later"], "{}");
    let result = client.call("grep", r#"{"query":"zeppelin"}"#);
    assert_eq!(at(&result, &["isError"]).as_bool(), Some(true));
    assert!(said(&result).contains("the scope is one session"), "{result:?}");
    let file = desk.put("list.json", r#"[{"role":"user","content":"zeppelin 5"}]"#);
    assert_eq!(desk.run(&["import", &file, "--session", "later"]).code, 0);
    let answer = client.answer("grep", r#"{"query":"zeppelin"}"#);
    assert_eq!(at(&answer, &["total_results"]).as_u64(), Some(1));
}

#[test]
fn a_scope_that_is_misspelt_starts_nothing() {
    let desk = desk(&SESSIONS);
    for scope in ["all", "agent", "agent=", "person=ann", "Agent=ada"] {
        assert_eq!(desk.run(&["mcp", "--scope", scope]).code, 2, "{scope}");
        assert_eq!(desk.run(&["mcp", "--set", &format!("mcp.scope={scope}")]).code, 2, "{scope}");
    }
}
