//! Who sees what. What is out of scope is answered exactly like what is absent: the same bytes.

use lcm_core::SessionId;
use lcm_engine::Engine;
use lcm_engine::service::{CompressRequest, Reader, Sees, Service, SessionKey, TurnRequest};

use super::{Caller, NAMES, caller, caller_as, handles, items, owner, string, turn_as, unquoted, with_folds};
use crate::session::{Home, assistant, exchanges, home, key, options, texts, turn, turn_of, user};

/// Others beside anna of hermes: another agent of hers, and another person with the same agent.
fn strangers() -> [SessionKey; 2] {
    [SessionKey::new("claude", "anna", "theirs"), SessionKey::new("hermes", "bert", "theirs")]
}

/// A store with a session `s` of anna with folds, another one of hers, and one of each stranger.
fn world(home: &Home) -> Vec<String> {
    let (_, shown) = with_folds(home);
    turn(&home.engine, "mine", &[user("the zeppelin of mine lands"), assistant("it does")]);
    for key in strangers() {
        turn_as(&home.engine, key, &[user("the zeppelin of theirs lands"), assistant("what a secret")]);
    }
    handles(&shown)
}

/// Calls that name something of session `s` of hermes and anna in every way, and all that find without names.
fn calls(engine: &Engine, folds: &[String]) -> Vec<(&'static str, String)> {
    let asker = caller(engine, "s");
    let first = asker.ask("lcm_expand", r#"{"store_id":2}"#);
    let message = string(&first, "handle");
    let grep = string(&asker.ask("lcm_grep", r#"{"query":"harbour","limit":1}"#), "cursor");
    let expand = string(&asker.ask("lcm_expand", r#"{"node_id":1,"max_tokens":300}"#), "cursor");
    let load = string(&asker.ask("lcm_load_session", r#"{"session_id":"s","limit":1}"#), "cursor");
    let recall = string(&asker.ask("lcm_recall", r#"{"query":"harbour","limit":1}"#), "cursor");
    let mut calls = vec![
        ("lcm_grep", r#"{"query":"albatross","session_scope":"all"}"#.to_owned()),
        ("lcm_grep", r#"{"query":"albatross","mode":"regex","session_scope":"all"}"#.to_owned()),
        ("lcm_grep", r#"{"query":"albatross","sort":"relevance","session_scope":"all"}"#.to_owned()),
        ("lcm_grep", r#"{"query":"albatross","all_conversations":true,"source":"test"}"#.to_owned()),
        ("lcm_grep", r#"{"query":"albatross"}"#.to_owned()),
        ("lcm_grep", format!("{{\"query\":\"harbour\",\"limit\":1,\"cursor\":\"{grep}\"}}")),
        ("lcm_expand", format!("{{\"cursor\":\"{expand}\"}}")),
        ("lcm_expand", r#"{"query":"albatross","session_scope":"all"}"#.to_owned()),
        ("lcm_load_session", format!("{{\"session_id\":\"s\",\"limit\":1,\"cursor\":\"{load}\"}}")),
        ("lcm_recall", r#"{"query":"albatross"}"#.to_owned()),
        ("lcm_recall", format!("{{\"query\":\"harbour\",\"limit\":1,\"cursor\":\"{recall}\"}}")),
        ("lcm_recent", r#"{"scope":"all","period":"30d"}"#.to_owned()),
        ("lcm_expand_query", r#"{"prompt":"albatross?","all_conversations":true}"#.to_owned()),
    ];
    let ids = [
        format!("\"{message}\""),
        format!("\"{}\"", &message[..14]),
        format!("\"{}\"", &message[4..]),
        format!("\"{}\"", &folds[0]),
        format!("\"{}\"", &folds[0][..14]),
        format!("\"see {message}\""),
        "2".to_owned(),
        "\"node 1\"".to_owned(),
        "1".to_owned(),
    ];
    for id in ids {
        for (tool, name) in [
            ("lcm_expand", "node_id"),
            ("lcm_expand", "store_id"),
            ("lcm_expand", "externalized_ref"),
            ("lcm_describe", "id"),
            ("lcm_describe", "node_id"),
            ("lcm_describe", "store_id"),
            ("lcm_pin", "id"),
        ] {
            calls.push((tool, format!("{{\"{name}\":{id}}}")));
        }
        calls.push(("lcm_expand_query", format!("{{\"prompt\":\"what?\",\"node_ids\":[{id}]}}")));
    }
    for name in ["\"s\"", "\"#1\"", "1"] {
        for (tool, arguments) in [
            ("lcm_grep", "\"query\":\"albatross\",\"session_id\""),
            ("lcm_grep", "\"query\":\"lands\",\"session_scope\":\"all\",\"exclude_session_ids\""),
            ("lcm_recall", "\"query\":\"lands\",\"exclude_session_ids\""),
            ("lcm_expand", "\"query\":\"albatross\",\"session_id\""),
            ("lcm_expand_query", "\"prompt\":\"albatross?\",\"session_ids\""),
            ("lcm_load_session", "\"session_id\""),
            ("lcm_describe", "\"session_id\""),
        ] {
            calls.push((tool, format!("{{{arguments}:{name}}}")));
        }
    }
    for tool in ["lcm_status", "lcm_inspect", "lcm_doctor", "lcm_pin", "lcm_describe"] {
        calls.push((tool, "{}".to_owned()));
    }
    calls
}

/// A store in which session `s` never was, and all numbers that others have are the same.
fn world_without(home: &Home) {
    let nobody = SessionKey::new("nobody", "nobody", "nothing");
    // As many places, sessions and summaries, of which nothing is alike.
    fold_as(home, &nobody);
    turn(&home.engine, "mine", &[user("the zeppelin of mine lands"), assistant("it does")]);
    for key in strangers() {
        turn_as(&home.engine, key, &[user("the zeppelin of theirs lands"), assistant("what a secret")]);
    }
}

fn fold_as(home: &Home, key: &SessionKey) {
    let mut list = vec![user("nothing one"), assistant("nothing two"), user("nothing three")];
    for round in 0..8 {
        list.extend(exchanges(&format!("nothing {round}"), 8, 40));
        list.extend([user("go on"), assistant("gladly")]);
        let turn = TurnRequest { key: key.clone(), ..turn_of("", &list) };
        let request = CompressRequest::new(turn, options(900));
        let done = home.engine.compress(&request).unwrap();
        list = texts(done.list(&request.turn.messages));
    }
    turn_as(&home.engine, key.clone(), &list);
}

#[test]
fn what_others_said_is_answered_like_what_nobody_said() {
    let (here, there) = (home(), home());
    let folds = world(&here);
    world_without(&there);
    let calls = calls(&here.engine, &folds);
    let mut compared = 0;
    for stranger in strangers() {
        for (tool, arguments) in &calls {
            let (with_it, is_error) = caller_as(&here.engine, &stranger).raw(tool, arguments);
            let (without_it, _) = caller_as(&there.engine, &stranger).raw(tool, arguments);
            assert_eq!(without_numbers(&with_it), without_numbers(&without_it), "{tool} {arguments}");
            assert!(!with_it.contains("Albatross") && !with_it.contains("harbour "), "{tool} {arguments}: {with_it}");
            compared += usize::from(is_error);
        }
    }
    assert!(compared > 100, "{compared} of {} calls were refused", calls.len() * 2);
}

/// A stranger's own sessions and messages have numbers that depend on how much others have said.
fn without_numbers(text: &str) -> String {
    let mut plain = String::new();
    let mut was_digit = false;
    for c in text.chars() {
        if !c.is_ascii_digit() {
            plain.push(c);
        } else if !was_digit {
            plain.push('0');
        }
        was_digit = c.is_ascii_digit();
    }
    plain
}

#[test]
fn a_reader_without_an_owner_finds_nothing_with_any_tool() {
    let here = home();
    let folds = world(&here);
    let empty = home();
    let session = caller(&here.engine, "s").reader.session;
    for (agent, person) in [("", ""), ("hermes", ""), ("", "anna"), ("nobody", "anna")] {
        let reader = Reader { owner: owner(agent, person), session, ..Reader::default() };
        for (tool, arguments) in calls(&here.engine, &folds) {
            let with_it = Caller { reader: reader.clone(), ..caller(&here.engine, "x") }.raw(tool, &arguments);
            let without_it = Caller { reader: reader.clone(), ..caller(&empty.engine, "x") }.raw(tool, &arguments);
            // How the index is, is the store's own.
            if !matches!(tool, "lcm_status" | "lcm_doctor") {
                assert_eq!(with_it, without_it, "{tool} {arguments} as {agent}/{person}");
            }
        }
    }
}

/// All that a reader finds of the zeppelins, everywhere.
fn zeppelins(caller: &Caller<'_>) -> Vec<String> {
    let mut found: Vec<Vec<String>> = Vec::new();
    for (tool, arguments) in [
        ("lcm_grep", r#"{"query":"zeppelin","session_scope":"all"}"#),
        ("lcm_grep", r#"{"pattern":"zeppelin","allConversations":true}"#),
        ("lcm_grep", r#"{"query":"zeppelin","session_scope":"all","source":"test"}"#),
        ("lcm_recall", r#"{"query":"zeppelin"}"#),
        ("lcm_recent", r#"{"scope":"all","period":"30d","limit":200,"role":"user"}"#),
    ] {
        let answer = caller.ask(tool, arguments);
        let mut texts: Vec<String> =
            items(&answer, "results").iter().map(|hit| unquoted(&string(hit, "snippet"))).collect();
        texts.retain(|text| text.contains("zeppelin"));
        texts.sort();
        found.push(texts);
    }
    let answer =
        caller.ask("lcm_expand_query", r#"{"prompt":"zeppelin","all_conversations":true,"output":"evidence"}"#);
    let mut texts: Vec<String> =
        items(&answer, "evidence").iter().map(|one| unquoted(&string(one, "content"))).collect();
    texts.sort();
    found.push(texts);
    assert!(found.windows(2).all(|two| two[0] == two[1]), "{found:#?}");
    found.remove(0)
}

fn id(engine: &Engine, key: &SessionKey) -> SessionId {
    engine.session_named(key).unwrap().unwrap().id
}

#[test]
fn a_reader_sees_its_own_its_given_and_by_setting_all_sessions() {
    let home = home();
    world(&home);
    let [claude, bert] = strangers();
    let asker = caller(&home.engine, "s");
    let (mine, theirs) = ("the zeppelin of mine lands", "the zeppelin of theirs lands");
    let with = |reader: Reader| Caller { reader, ..asker.clone() };
    let reader = &asker.reader;
    assert_eq!(zeppelins(&asker), [mine]);
    let given = vec![id(&home.engine, &claude)];
    assert_eq!(zeppelins(&with(Reader { given: given.clone(), ..reader.clone() })), [mine, theirs]);
    let confined = Reader { is_confined: true, ..reader.clone() };
    assert_eq!(zeppelins(&with(confined.clone())), Vec::<String>::new());
    assert_eq!(zeppelins(&with(Reader { given, ..confined.clone() })), [theirs]);
    assert_eq!(zeppelins(&with(Reader { given: vec![id(&home.engine, &key("mine"))], ..confined.clone() })), [mine]);
    let all = Reader { sees: Sees::All, ..reader.clone() };
    assert_eq!(zeppelins(&with(all)), [mine, theirs, theirs]);
    // Confined is confined, whatever a setting opens.
    assert_eq!(zeppelins(&with(Reader { sees: Sees::All, ..confined.clone() })), Vec::<String>::new());
    // A session of another owner named as one's own is none.
    assert_eq!(zeppelins(&with(Reader { session: Some(id(&home.engine, &bert)), ..confined })), Vec::<String>::new());
    // A given session that is gone or never was gives nothing.
    assert_eq!(zeppelins(&with(Reader { given: vec![SessionId(4711)], ..reader.clone() })), [mine]);
}

#[test]
fn a_confined_reader_names_what_is_not_its_own_in_vain() {
    let home = home();
    world(&home);
    let mine = caller(&home.engine, "mine");
    let number = items(&mine.ask("lcm_grep", r#"{"query":"zeppelin"}"#), "results")[0].clone();
    let handle = string(&number, "handle");
    let asker = caller(&home.engine, "s");
    let confined = Caller { reader: Reader { is_confined: true, ..asker.reader.clone() }, ..asker.clone() };
    assert!(!items(&asker.ask("lcm_expand", &format!("{{\"node_id\":\"{handle}\"}}")), "expanded").is_empty());
    let why = confined.refused("lcm_expand", &format!("{{\"node_id\":\"{handle}\"}}"));
    assert_eq!(why, format!("there is nothing under {handle:?} that can be read here"));
    for name in ["mine", "#2", "2", "min"] {
        let why = confined.refused("lcm_load_session", &format!("{{\"session_id\":\"{name}\"}}"));
        assert_eq!(why, format!("there is no session {name:?} that can be read here"));
        assert!(!asker.raw("lcm_load_session", &format!("{{\"session_id\":\"{name}\"}}")).1, "{name}");
    }
    assert!(!items(&confined.ask("lcm_expand", r#"{"node_id":1}"#), "expanded").is_empty());
}

#[test]
fn a_prefix_is_clear_when_only_others_share_it() {
    let home = home();
    // So many of others that every first digit is theirs many times.
    turn_as(&home.engine, SessionKey::new("hermes", "bert", "many"), &exchanges("many", 80, 2));
    turn(&home.engine, "s", &[user("the lamp is lit")]);
    let asker = caller(&home.engine, "s");
    let handle = string(&items(&asker.ask("lcm_grep", r#"{"query":"lamp"}"#), "results")[0], "handle");
    let found = asker.ask("lcm_expand", &format!("{{\"node_id\":\"{}\"}}", &handle[..5]));
    assert_eq!(string(&found, "handle"), handle);
}

#[test]
fn nothing_is_written_for_a_reader_that_may_not() {
    let home = home();
    world(&home);
    let ops = home.engine.store().snapshot().unwrap().last_op().unwrap();
    for stranger in strangers() {
        for id in ["1", "2", "\"node 1\""] {
            caller_as(&home.engine, &stranger).refused("lcm_pin", &format!("{{\"id\":{id}}}"));
        }
    }
    for tool in NAMES {
        caller(&home.engine, "nobody yet").raw(tool, r#"{"query":"lamp","prompt":"lamp","session_id":"s"}"#);
    }
    assert_eq!(home.engine.store().snapshot().unwrap().last_op().unwrap(), ops);
    assert!(home.engine.session_named(&key("nobody yet")).unwrap().is_none());
}

#[test]
fn what_a_host_began_anew_is_one_conversation_and_what_was_taken_back_is_not() {
    let home = home();
    let first = [user("the lighthouse is green"), assistant("noted"), user("and the pier is blue"), assistant("blue")];
    turn(&home.engine, "s", &first);
    // The user took the pier back.
    turn(&home.engine, "s", &[&first[..2], &[user("the pier is red"), assistant("red")]].concat());
    // The host lost its list and goes on under the same name.
    turn(&home.engine, "s", &[user("good morning"), assistant("good morning")]);
    let found = |query: &str| {
        let answer =
            caller(&home.engine, "s").ask("lcm_grep", &format!("{{\"query\":\"{query}\",\"sort\":\"oldest\"}}"));
        items(&answer, "results").iter().map(|hit| unquoted(&string(hit, "snippet"))).collect::<Vec<_>>()
    };
    assert_eq!(found("lighthouse"), ["the lighthouse is green"]);
    assert_eq!(found("pier"), ["the pier is red"]);
    assert_eq!(found("morning"), ["good morning", "good morning"]);
}
