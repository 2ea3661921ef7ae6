//! Two processes take turns in one session: what one writes, the other notices, whatever it remembers.

use crate::session::{
    assert_whole, assistant, behind, call, exchanges, folded, home, open, read, result, turn, user, with,
};

#[test]
fn what_another_process_wrote_is_not_written_again() {
    let home = home();
    let (one, other) = (&home.engine, open(&home.folder));
    let mut list = exchanges("old", 2, 3);
    turn(one, "s", &list);
    for n in 0..6 {
        let engine = if n % 2 == 0 { &other } else { one };
        list.extend([user(&format!("question {n}")), assistant(&format!("answer {n}"))]);
        assert_eq!(turn(engine, "s", &list).new, 2);
        assert_eq!(turn(if n % 2 == 0 { one } else { &other }, "s", &list).new, 0);
    }
    assert_eq!(read(one, "s"), list);
    assert_eq!(read(&other, "s"), list);
    assert_whole(one);
}

#[test]
fn a_branch_a_revision_and_a_late_message_of_another_process_are_noticed() {
    let home = home();
    let (one, other) = (&home.engine, open(&home.folder));
    let mut list = with(&exchanges("old", 3, 3), &[call("c1", "a.rs"), result("c1", "all of a.rs"), user("on")]);
    turn(one, "s", &list);
    turn(&other, "s", &list);
    // Rewritten by one, shown to the other.
    list[7] = result("c1", "[cleared]");
    assert_eq!(turn(&other, "s", &list).revised, 1);
    assert_eq!(turn(one, "s", &list).revised, 0);
    list.insert(2, user("by the way"));
    assert_eq!(turn(one, "s", &list).late, 1);
    assert_eq!(turn(&other, "s", &list).late, 0);
    let back = with(&list[..4], &[user("otherwise")]);
    assert!(turn(&other, "s", &back).branched);
    let on = with(&back, &[assistant("yes")]);
    let turned = turn(one, "s", &on);
    assert_eq!((turned.new, turned.branched), (1, false));
    assert_eq!(read(&other, "s"), on);
}

#[test]
fn a_fold_made_by_one_process_is_known_by_the_other_and_the_turn_between_is_kept() {
    let home = home();
    let (one, other) = (&home.engine, open(&home.folder));
    let said = with(&exchanges("old", 6, 40), &[user("go on")]);
    turn(&other, "s", &said);
    let shown = folded(one, "s", &said, 500);
    // Between the compress and the turn that shows its fold, the other goes on with the long list.
    let long = with(&said, &[assistant("gladly")]);
    assert_eq!(turn(&other, "s", &long).new, 1);
    let short = with(&shown, &[assistant("gladly"), user("and then?")]);
    let turned = turn(one, "s", &short);
    assert_eq!((turned.new, turned.published, turned.branched), (1, true, false));
    let turned = turn(&other, "s", &short);
    assert_eq!((turned.new, turned.published), (0, false));
    let all = with(&long, &[user("and then?")]);
    assert_eq!(read(&other, "s"), all);
    assert_eq!(behind(&other, &short), all);
    // Both make the same of the same list.
    let again = with(&short, &with(&exchanges("more", 5, 40), &[user("and now?")]));
    assert_eq!(folded(one, "s", &again, 500), folded(&other, "s", &again, 500));
    assert_whole(one);
}
