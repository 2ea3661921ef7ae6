//! A Hermes Agent shows its history otherwise after it wrote it down and read it again: each message is the one it was.
//! Method: a session is shown as it is live, then as the agent reads it back, then goes on; nothing is new, rewritten or
//! left, with folds in the list and without.

use lcm_core::Json;
use lcm_engine::Engine;
use lcm_engine::service::{CompressRequest, OutMessage, Service, TurnRequest, Turned};

use crate::session::{assert_whole, assistant, call, home, key, long, options, read, result, turn_of, user, with};

/// A turn of the agent.
fn agents(list: &[String]) -> TurnRequest {
    TurnRequest { source: "hermes".to_owned(), ..turn_of("s", list) }
}

fn show(engine: &Engine, list: &[String]) -> Turned {
    engine.turn(&agents(list)).unwrap()
}

/// The message with these entries before its last brace.
fn and(message: &str, entries: &str) -> String {
    format!("{},{entries}}}", message.strip_suffix('}').unwrap())
}

/// Eight exchanges, as the agent has them while it runs.
fn live() -> Vec<String> {
    let mut list = Vec::new();
    for at in 0..8 {
        let mark = format!(r#""_db_persisted":true,"_row_id":{at},"timestamp":{}"#, 1_700_000_000 + at);
        list.push(and(
            &user(&format!("go on{}", if at == 3 { "\n\n<memory-context>\ntea\n</memory-context>" } else { "" })),
            &mark,
        ));
        list.push(and(&call(&format!("c{at}"), &format!("{at}.rs")), &format!(r#""reasoning":"hm {at}",{mark}"#)));
        list.push(and(
            &result(&format!("c{at}"), &long(&format!("n{at}"), 60)),
            &format!(r#""name":"read","tool_name":"read",{mark}"#),
        ));
        list.push(and(&assistant(&format!("done {at}  \n")), &mark));
    }
    list.push(
        r#"{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:,"}}]}"#
            .to_owned(),
    );
    list.push(assistant("seen"));
    list
}

/// The same as the agent reads it back.
fn reloaded(list: &[String]) -> Vec<String> {
    let back = list.iter().enumerate().map(|(at, message)| {
        let Json::Object(mut entries) = Json::parse(message.as_bytes()).unwrap() else { panic!("{message}") };
        entries.retain(|(key, _)| !["name", "reasoning"].contains(&key.as_str().unwrap()) && key.as_bytes()[0] != b'_');
        for (key, value) in &mut entries {
            let text = value.as_str().map(|text| text.split("<memory-context>").next().unwrap().trim().to_owned());
            match key.as_str().unwrap() {
                "content" if value.is_null() => *value = "".into(),
                "content" => *value = text.unwrap_or_else(|| "see\n[screenshot]".to_owned()).into(),
                "timestamp" => *value = (1_800_000_000_u64 + u64::try_from(at).unwrap()).into(),
                _ => {}
            }
        }
        String::from_utf8(Json::Object(entries).to_text()).unwrap()
    });
    back.collect()
}

fn assert_nothing_new(told: &Turned) {
    assert_eq!((told.new, told.revised, told.late, told.branched), (0, 0, 0, false));
}

#[test]
fn a_history_that_was_read_back_is_the_same_history() {
    let home = home();
    let engine = &home.engine;
    let (was, is) = (live(), reloaded(&live()));
    assert_ne!(was, is);
    assert_eq!(show(engine, &was).new, 34);
    let kept = read(engine, "s");
    for list in [&is, &was, &is[8..].to_vec(), &is] {
        assert_nothing_new(&show(engine, list));
    }
    assert_eq!(read(engine, "s"), kept);
    let told = show(engine, &with(&is, &[user("and now?")]));
    assert_eq!((told.new, told.revised, told.late, told.branched), (1, 0, 0, false));
    assert_whole(engine);
}

#[test]
fn a_folded_history_that_was_read_back_is_folded_as_it_was() {
    let home = home();
    let engine = &home.engine;
    let list = live();
    let request = CompressRequest { force: true, ..CompressRequest::new(agents(&list), options(900)) };
    let done = engine.compress(&request).unwrap();
    let folded: Vec<String> = done
        .messages
        .unwrap()
        .into_iter()
        .map(|message| match message {
            OutMessage::Given(at) => list[at].clone(),
            OutMessage::Made(made) => String::from_utf8(made).unwrap(),
        })
        .collect();
    assert!(show(engine, &folded).published);
    let session = engine.session_named(&key("s")).unwrap().unwrap();
    for list in [&reloaded(&folded), &folded, &reloaded(&folded)] {
        assert_nothing_new(&show(engine, list));
    }
    assert_eq!(engine.session_named(&key("s")).unwrap().unwrap().timeline, session.timeline);
    assert_eq!(read(engine, "s").len(), list.len());
    assert_whole(engine);
}

#[test]
fn marks_of_the_agent_are_kept_beside_the_message_and_make_no_other_of_it() {
    let home = home();
    let said = user("where is the station?");
    let first = and(&said, r#""message_uid":"u1","_row_id":7"#);
    show(&home.engine, std::slice::from_ref(&first));
    assert_nothing_new(&show(
        &home.engine,
        &[and(&said, r#""message_uid":"u1","_row_id":8,"timestamp":1800000000.5"#)],
    ));
    assert_eq!(read(&home.engine, "s"), [first]);
}
