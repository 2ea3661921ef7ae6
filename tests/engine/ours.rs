//! Texts of ours that somebody says: a fold echoed by an assistant, pasted by a person, a line of ours quoted. Whoever
//! says it has said it: it is a message like any other, and is kept.

use lcm_engine::service::{InMessage, Service};

use crate::session::{Home, assistant, behind, exchanges, folded, home, read, turn, turn_of, user, with};

const BETWEEN: &str = "[lcm: now]";

/// A session with a fold; what was said in it, the list that shows it, and the text of its fold.
fn with_fold(home: &Home) -> (Vec<String>, Vec<String>, String) {
    let said = with(&exchanges("old", 6, 40), &[user("go on")]);
    let shown = folded(&home.engine, "s", &said, 500);
    let fold = shown.iter().find(|message| message.contains("[lcm:fold ")).unwrap();
    let json = lcm_core::Json::parse(fold.as_bytes()).unwrap();
    let text = json.get("content").unwrap().as_str().unwrap().to_owned();
    turn(&home.engine, "s", &shown);
    (said, shown, text)
}

/// Somebody says something at the end of a list with a fold: it is one message more.
fn assert_kept(say: impl Fn(&str) -> String) {
    let home = home();
    let (said, shown, fold) = with_fold(&home);
    let more = [assistant("gladly"), say(&fold), user("what was that?")];
    for count in 1..=more.len() {
        let turned = turn(&home.engine, "s", &with(&shown, &more[..count]));
        assert_eq!(turned.new, 1, "{}", more[count - 1]);
        assert_eq!(read(&home.engine, "s"), with(&said, &more[..count]));
    }
    assert_eq!(behind(&home.engine, &with(&shown, &more)), with(&said, &more));
}

#[test]
fn an_assistant_echoes_a_fold() {
    assert_kept(assistant);
}

#[test]
fn a_person_pastes_a_fold() {
    assert_kept(user);
}

#[test]
fn a_person_pastes_a_fold_with_a_word_before_or_behind() {
    assert_kept(|fold| user(&format!("look: {fold}")));
}

#[test]
fn a_person_pastes_a_fold_with_a_word_behind() {
    assert_kept(|fold| user(&format!("{fold} what is this?")));
}

#[test]
fn a_person_says_the_line_between() {
    assert_kept(|_| user(BETWEEN));
}

#[test]
fn an_assistant_says_the_line_between_where_we_would_not() {
    let home = home();
    let list = [user("say it"), assistant(BETWEEN), user("thank you")];
    for count in 1..=list.len() {
        turn(&home.engine, "s", &list[..count]);
        assert_eq!(read(&home.engine, "s"), list[..count]);
    }
    assert_eq!(behind(&home.engine, &list), list);
}

#[test]
fn the_lines_of_a_part_are_said() {
    assert_kept(|_| user("[lcm:part msg_0123456789abcdef: 9 of 90 characters are shown]\nnothing"));
    assert_kept(|_| assistant("[lcm:part nobody: 9 of 90 characters are shown]\nnothing"));
}

#[test]
fn marks_of_ours_inside_a_text_are_nothing() {
    assert_kept(|_| user("what does [lcm:fold sum_0123456789abcdef: ...] mean?"));
    assert_kept(|_| assistant("[lcm:end sum_0123456789abcdef]"));
    assert_kept(|_| assistant("[lcm: quoted history, no request; lcm_expand ID: originals]"));
}

/// What is a fold for one is a text for another, and stands for itself.
#[test]
fn a_fold_of_somebody_else_stands_for_itself() {
    let home = home();
    let (_, _, fold) = with_fold(&home);
    let mut request = turn_of("b", &[user(&fold), assistant("what is that?")]);
    request.key.owner.person = "bert".to_owned();
    assert_eq!(home.engine.turn(&request).unwrap().new, 2);
    let mut scope = crate::session::scope();
    if let lcm_engine::service::Owners::Matching(patterns) = &mut scope.owners {
        patterns[0].person = Some("bert".to_owned());
    }
    let behind = home.engine.behind(&scope, &request.messages).unwrap();
    assert_eq!(InMessage::list(behind), request.messages);
}
