//! What hosts do to old messages: rewrite them, put others between, leave some out. Nothing is lost by it.

use crate::session::{
    assert_whole, assistant, behind, call, exchanges, folded, home, long, read, result, turn, user, whole, with,
};

#[test]
fn a_cleared_result_is_a_new_form_and_the_first_one_is_what_was_said() {
    let home = home();
    let said = vec![user("look"), call("c1", "a.rs"), result("c1", &long("a.rs", 30)), assistant("I see"), user("on")];
    turn(&home.engine, "s", &said);
    let mut shown = said.clone();
    shown[2] = result("c1", "[cleared]");
    let turned = turn(&home.engine, "s", &shown);
    assert_eq!((turned.new, turned.revised, turned.late, turned.branched), (0, 1, 0, false));
    assert_eq!(read(&home.engine, "s"), said);
    let revisions = &whole(&home.engine, "s")[2].revisions;
    assert_eq!(revisions.len(), 1);
    assert_eq!(revisions[0].json, shown[2].as_bytes());
    // Neither form is news from now on, nor is a third one of another place.
    for list in [&said, &shown] {
        let turned = turn(&home.engine, "s", list);
        assert_eq!((turned.new, turned.revised, turned.late), (0, 0, 0));
    }
    // A fold stands for what was said.
    let more = with(&shown, &with(&exchanges("more", 5, 40), &[user("and?")]));
    let folded = folded(&home.engine, "s", &more, 400);
    assert_eq!(behind(&home.engine, &folded)[2], said[2]);
    assert_whole(&home.engine);
}

#[test]
fn a_message_put_between_old_ones_stands_there() {
    let home = home();
    let said = exchanges("old", 3, 3);
    turn(&home.engine, "s", &said);
    let mut shown = said;
    shown.insert(3, user("remember: the pier is blue"));
    let turned = turn(&home.engine, "s", &shown);
    assert_eq!((turned.new, turned.late, turned.branched), (0, 1, false));
    assert_eq!(read(&home.engine, "s"), shown);
    assert!(whole(&home.engine, "s")[3].entry.is_late);
    shown.insert(4, user("and the crane is red"));
    shown.push(user("go on"));
    let turned = turn(&home.engine, "s", &shown);
    assert_eq!((turned.new, turned.late), (1, 1));
    assert_eq!(read(&home.engine, "s"), shown);
    assert_whole(&home.engine);
}

#[test]
fn what_is_left_out_is_not_gone() {
    let home = home();
    let said = exchanges("old", 5, 3);
    turn(&home.engine, "s", &said);
    let shorter = [&said[3..6], &said[8..]].concat();
    assert_eq!(turn(&home.engine, "s", &shorter).new, 0);
    assert_eq!(turn(&home.engine, "s", &said[..4]).new, 0);
    assert_eq!(turn(&home.engine, "s", &with(&shorter, &[user("on")])).new, 1);
    assert_eq!(read(&home.engine, "s"), with(&said, &[user("on")]));
    // All of it again, with what came since.
    let turned = turn(&home.engine, "s", &with(&said, &[user("on"), assistant("yes")]));
    assert_eq!((turned.new, turned.late, turned.revised), (1, 0, 0));
}

#[test]
fn a_later_form_that_says_more_is_a_message_of_its_own_and_one_that_says_less_is_not() {
    let asked = [user("hello, do something"), assistant("I will do it")];
    let run = [call("c1", "run"), result("c1", "[still running]")];
    for (more, grown) in [
        (vec![user("fix the bug"), assistant("which one?")], vec![user("fix the bug in the magenta module")]),
        (vec![user("fix the login bug")], vec![user("fix the login bug\n\nalso paint it magenta")]),
        (vec![assistant("The colour you are")], vec![assistant("The colour you are looking for is magenta")]),
        (run.to_vec(), vec![run[0].clone(), result("c1", "exit code 3, magenta is missing")]),
    ] {
        let home = home();
        turn(&home.engine, "s", &with(&asked, &more));
        let list = with(&asked, &grown);
        assert_eq!(turn(&home.engine, "s", &list).revised, 0, "{grown:?}");
        let kept = read(&home.engine, "s");
        assert!(kept.contains(grown.last().unwrap()), "{kept:?}");
        let again = turn(&home.engine, "s", &list);
        assert_eq!((again.new, again.revised, again.late), (0, 0, 0), "{grown:?}");
        assert_whole(&home.engine);
    }
    let home = home();
    let list = with(&asked, &[call("c1", "run"), result("c1", "a long result of the run, with every line of it")]);
    turn(&home.engine, "s", &list);
    let cleared = with(&list[..3], &[result("c1", "[cleared]"), assistant("done")]);
    let turned = turn(&home.engine, "s", &cleared);
    assert_eq!((turned.new, turned.revised, turned.late), (1, 1, 0));
    assert_eq!(read(&home.engine, "s")[3], list[3]);
}
