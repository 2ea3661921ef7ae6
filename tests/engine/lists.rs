//! Lists that nobody should send: bounded, answered with a reason, nothing lost, and the next call works.

use std::time::{Duration, Instant};

use lcm_engine::compress::CompressOptions;
use lcm_engine::error::EngineError;
use lcm_engine::service::Service;

use crate::session::{
    assert_whole, assistant, behind, call, exchanges, folded, home, in_messages, long, options, read, result, session,
    try_compress, turn, turn_of, user, with,
};

/// How long one call may take, however odd its list: unoptimised, on a machine with other work.
const CALL_MAX: Duration = Duration::from_secs(30);

/// Shows a list, has it compressed to several sizes, and goes on.
fn assert_bounded(list: &[String]) {
    let home = home();
    let within = |what: &str, began: Instant| assert!(began.elapsed() < CALL_MAX, "{what}: {:?}", began.elapsed());
    let began = Instant::now();
    let turned = turn(&home.engine, "s", list);
    within("turn", began);
    assert_eq!(turned.new, u64::try_from(list.len()).unwrap());
    assert!(read(&home.engine, "s") == list, "what was said does not come back");
    for threshold in [100, 5000] {
        let began = Instant::now();
        let (done, shown) = try_compress(&home.engine, "s", list, options(threshold), None).unwrap();
        within("compress", began);
        match &done.messages {
            None => assert!(done.reason.is_some()),
            Some(_) => assert!(done.tokens_after < done.tokens_before),
        }
        assert!(behind(&home.engine, &shown) == list, "to {threshold}: {:?}", done.reason);
    }
    let next = with(list, &[user("and now?")]);
    assert_eq!(turn(&home.engine, "s", &next).new, 1);
    assert_eq!(session(&home.engine, "s").messages, u64::try_from(next.len()).unwrap());
    assert_whole(&home.engine);
}

#[test]
fn an_empty_list_is_told_apart_from_an_empty_session() {
    let home = home();
    let nothing = home.engine.turn(&turn_of("s", &[]));
    assert!(matches!(nothing, Err(EngineError::NothingSaid(name)) if name == "s"));
    assert!(matches!(try_compress(&home.engine, "s", &[], options(100), None), Err(EngineError::NothingSaid(_))));
    assert_eq!(turn(&home.engine, "s", &[user("hello")]).new, 1);
    assert_eq!(turn(&home.engine, "s", &[]).new, 0);
    let (done, _) = try_compress(&home.engine, "s", &[], options(100), None).unwrap();
    assert!(done.messages.is_none() && done.reason.is_some());
    assert_eq!(read(&home.engine, "s"), [user("hello")]);
}

#[test]
fn one_message_is_a_list() {
    assert_bounded(&[user("hello")]);
    assert_bounded(&[user(&long("large", 5000))]);
    assert_bounded(&[assistant(&long("large", 5000))]);
    assert_bounded(&[result("nobody", &long("large", 5000))]);
    assert_bounded(&[r#"{"role":"system","content":"Be kind."}"#.to_owned()]);
}

#[test]
fn all_of_one_role_is_a_list() {
    let all = |say: fn(&str) -> String| (0..40).map(|n| say(&long(&format!("one {n}"), 30))).collect::<Vec<_>>();
    assert_bounded(&all(user));
    assert_bounded(&all(assistant));
    assert_bounded(&(0..40).map(|n| result(&format!("c{n}"), &long(&format!("one {n}"), 30))).collect::<Vec<_>>());
    assert_bounded(&vec![user("the same"); 300]);
    assert_bounded(&vec![assistant(""); 300]);
}

#[test]
fn orphans_are_kept_and_not_shown() {
    let mut list = exchanges("old", 8, 30);
    list.insert(3, result("nobody", &long("lost", 20)));
    list.insert(7, call("open", "a.rs"));
    list.push(user("go on"));
    assert_bounded(&list);
    let home = home();
    let shown = folded(&home.engine, "s", &list, 500);
    assert!(!shown.iter().any(|message| message.contains("\"nobody\"") || message.contains("\"open\"")), "{shown:#?}");
}

#[test]
fn a_message_of_ten_megabytes_is_kept_and_what_is_around_it_folded() {
    let mut list = exchanges("old", 3, 30);
    list.insert(2, user(&"ten megabytes of harbour ".repeat(400_000)));
    list.push(user("go on"));
    assert_bounded(&list);
}

#[test]
fn five_thousand_open_calls_are_bounded() {
    let calls: Vec<String> = (0..5000)
        .map(|n| format!(r#"{{"id":"c{n}","type":"function","function":{{"name":"read","arguments":"{{}}"}}}}"#))
        .collect();
    let at_once = format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","));
    assert_bounded(&[user("read all"), at_once.clone()]);
    assert_bounded(&[user("read all"), at_once, user("well?")]);
    let mut one_by_one = vec![user("read all")];
    one_by_one.extend((0..5000).map(|n| call(&format!("c{n}"), &format!("src/{n}.rs"))));
    assert_bounded(&one_by_one);
}

#[test]
fn what_is_no_message_is_named_and_nothing_of_its_list_is_kept() {
    let home = home();
    turn(&home.engine, "s", &[user("hello")]);
    for bad in ["", "7", "[]", "{\"role\":\"user\"", "{\"role\":\"user\",\"content\":\"\u{0}"] {
        let list = [user("hello"), assistant("yes"), bad.to_owned()];
        assert!(matches!(home.engine.turn(&turn_of("s", &list)), Err(EngineError::Message(_))), "{bad}");
        assert_eq!(read(&home.engine, "s"), [user("hello")]);
    }
    assert_eq!(turn(&home.engine, "s", &[user("hello"), assistant("yes")]).new, 1);
}

#[test]
fn where_users_and_assistants_take_turns_calls_are_folded_and_what_the_host_shows_out_of_turn_too() {
    let strict = || CompressOptions { alternates: true, ..options(900) };
    let mut list = Vec::new();
    for at in 0..12 {
        let id = format!("c{at}");
        let step = [user(&format!("look at {at}")), call(&id, "a.txt"), result(&id, &long(&id, 60)), assistant("seen")];
        list.extend(step);
    }
    list.push(user("and now?"));
    // A request that was never answered, and asked again.
    let out_of_turn = with(&list, &[user("hello?")]);
    for (name, list) in [("s", list), ("t", out_of_turn)] {
        let home = home();
        let (done, shown) = try_compress(&home.engine, name, &list, strict(), None).unwrap();
        assert_eq!(done.reason, None, "{name}");
        assert!(shown.len() < list.len() / 2, "{name}: {shown:#?}");
        assert_eq!(home.engine.refusal(&in_messages(&shown), name == "s").unwrap(), None);
        assert_eq!(behind(&home.engine, &shown), list);
    }
}
