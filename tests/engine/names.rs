//! Sessions and their names: what goes on under another name, what branches off, and whose a list is.

use lcm_engine::service::Service;

use crate::session::{
    assert_whole, assistant, behind, call, exchanges, folded, home, key, read, result, scope, session, turn, turn_of,
    user, with,
};

#[test]
fn a_new_name_that_begins_with_our_fold_goes_on_with_the_story() {
    let home = home();
    let said = with(&exchanges("old", 6, 40), &[user("go on")]);
    let shown = with(&folded(&home.engine, "one", &said, 500), &[assistant("gladly")]);
    let turned = turn(&home.engine, "two", &shown);
    assert!(turned.created && turned.new == 1, "{turned:?}");
    assert_eq!(read(&home.engine, "two"), with(&said, &[assistant("gladly")]));
    // The old name is not touched, and goes its own way.
    assert_eq!(read(&home.engine, "one"), said);
    turn(&home.engine, "one", &with(&said, &[assistant("no")]));
    assert_eq!(read(&home.engine, "one"), with(&said, &[assistant("no")]));
    assert_eq!(read(&home.engine, "two"), with(&said, &[assistant("gladly")]));
    assert_eq!(behind(&home.engine, &shown), read(&home.engine, "two"));
    // What is shared is kept once.
    assert_eq!(home.engine.status().unwrap().places, u64::try_from(said.len()).unwrap() + 2 + 1);
    assert_whole(&home.engine);
}

#[test]
fn a_fold_of_somebody_elses_adopts_nothing() {
    let home = home();
    let said = with(&exchanges("old", 6, 40), &[user("go on")]);
    let shown = folded(&home.engine, "one", &said, 500);
    let mut request = turn_of("one", &shown);
    request.key.owner.person = "bert".to_owned();
    let turned = home.engine.turn(&request).unwrap();
    assert_eq!(turned.new, u64::try_from(shown.len()).unwrap(), "all of it is new to bert");
    assert_eq!(home.engine.sessions(&scope()).unwrap().len(), 1);
    assert_eq!(read(&home.engine, "one"), said);
}

#[test]
fn a_shared_beginning_branches_off_and_both_go_on() {
    let home = home();
    let begin = exchanges("shared", 5, 3);
    turn(&home.engine, "one", &with(&begin, &[user("this way"), assistant("yes")]));
    let turned = turn(&home.engine, "two", &with(&begin, &[user("that way")]));
    assert!(turned.created && turned.branched && turned.new == 1, "{turned:?}");
    turn(&home.engine, "two", &with(&begin, &[user("that way"), assistant("as you like")]));
    assert_eq!(read(&home.engine, "one"), with(&begin, &[user("this way"), assistant("yes")]));
    assert_eq!(read(&home.engine, "two"), with(&begin, &[user("that way"), assistant("as you like")]));
    let places = home.engine.status().unwrap().places;
    assert_eq!(places, u64::try_from(begin.len()).unwrap() + 4, "what is shared is kept once");
}

#[test]
fn a_short_beginning_without_proof_is_another_story() {
    let home = home();
    let begin = [user("hello"), assistant("Hello! What can I do?")];
    turn(&home.engine, "one", &with(&begin, &[user("this")]));
    let turned = turn(&home.engine, "two", &with(&begin, &[user("that")]));
    assert_eq!((turned.created, turned.branched, turned.new), (true, false, 3));
    // The id of a call that only this story has is proof.
    let begin = [user("look"), call("toolu_1", "a.rs"), result("toolu_1", "all of a.rs")];
    turn(&home.engine, "three", &with(&begin, &[user("this")]));
    let turned = turn(&home.engine, "four", &with(&begin, &[user("that")]));
    assert_eq!((turned.created, turned.branched, turned.new), (true, true, 1));
}

#[test]
fn a_list_under_another_sessions_name_is_that_sessions() {
    let home = home();
    let one = exchanges("one", 5, 3);
    let two = exchanges("two", 5, 3);
    turn(&home.engine, "one", &one);
    turn(&home.engine, "two", &two);
    let turned = turn(&home.engine, "two", &with(&one, &[user("and?")]));
    assert_eq!((turned.key, turned.new), (key("one"), 1));
    assert_eq!(read(&home.engine, "one"), with(&one, &[user("and?")]));
    assert_eq!(read(&home.engine, "two"), two);
    // And both go on as if nothing had been.
    turn(&home.engine, "two", &with(&two, &[user("well")]));
    turn(&home.engine, "one", &with(&one, &[user("and?"), assistant("so")]));
    assert_eq!(read(&home.engine, "two"), with(&two, &[user("well")]));
    assert_eq!(session(&home.engine, "one").messages, 12);
}

#[test]
fn going_back_branches_and_the_line_that_was_left_can_be_gone_on_with() {
    let home = home();
    let said = exchanges("old", 4, 3);
    turn(&home.engine, "s", &said);
    let back = with(&said[..5], &[user("no, otherwise")]);
    assert!(turn(&home.engine, "s", &back).branched);
    assert_eq!(read(&home.engine, "s"), back);
    let turned = turn(&home.engine, "s", &with(&said, &[user("as before")]));
    assert!(turned.branched && turned.new == 1, "{turned:?}");
    assert_eq!(read(&home.engine, "s"), with(&said, &[user("as before")]));
    let described = home.engine.describe_session(&scope(), session(&home.engine, "s").session.id).unwrap();
    assert_eq!(described.timelines.len(), 2, "the line was gone on with, not copied");
}
