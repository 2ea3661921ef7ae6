//! What the simulator has found, each made as small as it gets, so that it stays mended.

use lcm_engine::compress::CompressOptions;

use crate::session::{
    assistant, behind, call, exchanges, folded, home, long, options, read, result, try_compress, turn, user, with,
};

#[test]
fn a_broken_message_behind_the_newest_request_keeps_its_place() {
    let home = home();
    let mut list = exchanges("old", 4, 30);
    list.extend([
        user("and now?"),
        assistant("I look."),
        result("nobody", &long("lost", 40)),
        assistant("I have looked."),
    ]);
    let shown = folded(&home.engine, "s", &list, 360);
    assert_eq!(behind(&home.engine, &shown), list, "{shown:#?}");
}

#[test]
fn a_request_whose_steps_were_folded_is_folded_without_them() {
    let home = home();
    let mut list = vec![user("paint the pier")];
    for n in 0..8 {
        let id = format!("c{n}");
        list.extend([call(&id, &format!("src/{n}.rs")), result(&id, &long(&format!("file {n}"), 20))]);
    }
    let (_, mut shown) = try_compress(&home.engine, "s", &list, options(380), None).unwrap();
    assert!(shown.iter().any(|message| message.contains("steps already taken")), "{shown:#?}");
    assert_eq!(behind(&home.engine, &shown), list);
    for n in 0..4 {
        let more = with(&exchanges(&format!("next {n}"), 2, 20), &[user(&format!("and {n}?"))]);
        list.extend(more.clone());
        shown.extend(more);
        shown = try_compress(&home.engine, "s", &shown, options(380), None).unwrap().1;
        assert_eq!(behind(&home.engine, &shown), list, "{shown:#?}");
    }
}

#[test]
fn a_result_that_was_moved_and_then_cleared_is_the_same_result() {
    let home = home();
    let mut list = vec![
        user("look"),
        call("c1", "a.rs"),
        result("c1", &long("one", 9)),
        assistant("so"),
        user("on"),
        assistant("yes"),
    ];
    turn(&home.engine, "s", &list);
    let said = list.clone();
    list.swap(2, 3);
    turn(&home.engine, "s", &list);
    list[3] = result("c1", "[cleared]");
    list.push(user("and now?"));
    turn(&home.engine, "s", &list);
    assert_eq!(read(&home.engine, "s"), with(&said, &[user("and now?")]));
}

#[test]
fn a_message_before_a_line_of_ours_is_known_when_it_is_rewritten() {
    let home = home();
    let mut list = vec![user("paint the pier blue, please")];
    list.extend(exchanges("old", 6, 40));
    list.push(user("and now?"));
    let mut options = options(500);
    options.protect_first = 1;
    let (_, mut shown) = try_compress(&home.engine, "s", &list, options, None).unwrap();
    assert!(shown[0] == list[0] && shown[1].contains("[lcm: now]"), "{shown:#?}");
    shown[0] = user("paint the pier blue, please (noted)");
    let turned = turn(&home.engine, "s", &shown);
    assert_eq!((turned.revised, turned.late), (1, 0));
    assert_eq!(read(&home.engine, "s"), list);
}

#[test]
fn another_call_under_an_id_used_again_is_no_new_form_of_the_first() {
    let home = home();
    let begin = vec![user("look"), assistant("I do"), user("at what?")];
    let one = with(&begin, &[call("call_0", "one.rs"), result("call_0", "one")]);
    turn(&home.engine, "s", &one);
    // The answer is asked for again, and the host counts from the beginning.
    let other = with(&begin, &[call("call_0", "other.rs"), result("call_0", "other")]);
    turn(&home.engine, "s", &other);
    assert_eq!(read(&home.engine, "s"), other);
}

#[test]
fn a_list_that_shares_nothing_but_an_id_is_another_story() {
    let home = home();
    let one = vec![user("look at one"), call("call_0", "one.rs"), result("call_0", &long("one", 5))];
    let other = vec![user("look at other"), call("call_0", "other.rs"), result("call_0", &long("other", 5))];
    turn(&home.engine, "s", &one);
    turn(&home.engine, "s", &other);
    assert_eq!(read(&home.engine, "s"), other);
}

#[test]
fn the_list_of_a_branch_is_known_under_any_name() {
    let home = home();
    let begin = exchanges("shared", 6, 3);
    turn(&home.engine, "one", &begin);
    let branch = with(&begin, &[user("another way"), assistant("as you like")]);
    turn(&home.engine, "two", &branch);
    turn(&home.engine, "one", &with(&begin, &[user("this way")]));
    turn(&home.engine, "three", &[user("hello")]);
    let turned = turn(&home.engine, "three", &branch);
    assert_eq!((turned.key.name.as_str(), turned.new), ("two", 0));
    assert_eq!(read(&home.engine, "three"), [user("hello")]);
}

#[test]
fn a_session_that_rolls_over_twice_keeps_everything() {
    let home = home();
    let mut said = exchanges("first", 6, 40);
    said.push(user("go on"));
    turn(&home.engine, "one", &said);
    let mut shown = folded(&home.engine, "one", &said, 500);
    for (name, threshold) in [("two", 500), ("three", 500), ("four", 500)] {
        let more = with(&exchanges(name, 4, 40), &[user(&format!("on with {name}"))]);
        said.extend(more.clone());
        shown.extend(more);
        turn(&home.engine, name, &shown);
        assert_eq!(read(&home.engine, name), said, "{name}");
        shown = folded(&home.engine, name, &shown, threshold);
        assert_eq!(behind(&home.engine, &shown), said, "{name}");
    }
}

#[test]
fn a_folded_list_of_a_line_that_was_left_leads_back_to_it() {
    let home = home();
    let mut said = exchanges("first", 6, 40);
    said.push(user("go on"));
    let shown = folded(&home.engine, "s", &said, 500);
    turn(&home.engine, "s", &shown);
    // The person goes back further than the fold reaches, and comes back.
    turn(&home.engine, "s", &with(&said[..3], &[user("another way")]));
    turn(&home.engine, "s", &with(&shown, &[user("as before")]));
    assert_eq!(read(&home.engine, "s"), with(&said, &[user("as before")]));
}

#[test]
fn a_result_cleared_while_the_session_rolls_over_is_no_new_message() {
    let home = home();
    let mut said = exchanges("old", 6, 40);
    said.extend([user("look"), call("c1", "a.rs"), result("c1", "all of a.rs")]);
    let mut shown = folded(&home.engine, "one", &said, 500);
    let at = shown.iter().position(|message| message.contains("tool_call_id")).unwrap();
    shown[at] = result("c1", "[cleared]");
    shown.push(assistant("gladly"));
    turn(&home.engine, "two", &shown);
    let mut two = read(&home.engine, "two");
    // Which of its forms is the first one of the new session may be disputed, where it stands may not.
    let cleared = two.iter().position(|message| message.contains("c1") && message.contains("tool_call_id"));
    assert_eq!(cleared, Some(14), "{two:#?}");
    two[14].clone_from(&said[14]);
    assert_eq!(two, with(&said, &[assistant("gladly")]));
}

#[test]
fn half_a_pair_survives_when_the_session_rolls_over() {
    let home = home();
    let mut said = exchanges("old", 6, 40);
    said.extend([r#"{"role":"user","content":"half \ud800 of it"}"#.to_owned(), assistant("which half?")]);
    let mut shown = folded(&home.engine, "one", &said, 400);
    shown.push(user("go on"));
    turn(&home.engine, "two", &shown);
    assert_eq!(read(&home.engine, "two").len(), said.len() + 1);
}

#[test]
fn a_fold_alone_proves_whose_list_it_is() {
    let home = home();
    let mut said = vec![user("Please begin")];
    said.extend(exchanges("old", 6, 40));
    said.push(user("go on"));
    let options = CompressOptions { protect_first: 1, ..options(500) };
    let (_, shown) = try_compress(&home.engine, "s", &said, options, None).unwrap();
    let fold = shown.iter().find(|message| message.contains("[lcm:fold ")).unwrap().clone();
    turn(&home.engine, "s", &shown);
    let answer = assistant("something else");
    turn(&home.engine, "s", &[fold, answer.clone()]);
    let read = read(&home.engine, "s");
    assert!(!read.iter().any(|message| message.contains("[lcm:")), "{read:#?}");
    assert_eq!((read[0].as_str(), read.last()), (said[0].as_str(), Some(&answer)));
}

#[test]
fn a_list_that_fits_is_given() {
    let home = home();
    let mut list = exchanges("old", 4, 30);
    list.extend([
        user("and now?"),
        assistant("I look."),
        result("nobody", &long("lost", 40)),
        assistant("I have looked."),
    ]);
    for threshold in 250..400 {
        let (done, _) = try_compress(&home.engine, "s", &list, options(threshold), None).unwrap();
        if let Some(reason) = done.reason {
            let leaves: u64 = reason.rsplit(' ').next().unwrap().parse().unwrap();
            assert!(leaves > threshold, "{threshold}: {reason}");
        }
    }
}

#[test]
fn a_fold_of_what_was_said_in_two_sessions_is_known_in_both() {
    let home = home();
    let begin = [user("hello"), assistant(&long("Hello! What can I do", 60)), user("paint the pier")];
    let (one, two) = (with(&begin, &[assistant("one")]), with(&begin, &[assistant("two")]));
    turn(&home.engine, "one", &one);
    turn(&home.engine, "two", &two);
    for (name, said) in [("one", one), ("two", two)] {
        let said = with(&said, &[user("go on")]);
        let shown = folded(&home.engine, name, &said, 160);
        assert_eq!(behind(&home.engine, &shown), said, "{name}");
        turn(&home.engine, name, &with(&shown, &[assistant("gladly")]));
        assert_eq!(read(&home.engine, name), with(&said, &[assistant("gladly")]), "{name}");
    }
}

#[test]
fn a_rewritten_list_of_a_line_that_was_left_leads_back_to_it() {
    let home = home();
    let said = [user("look"), call("c1", "a.rs"), result("c1", &long("a.rs", 30)), assistant("I see"), user("on")];
    turn(&home.engine, "s", &said);
    let mut cleared = said.to_vec();
    cleared[2] = result("c1", "[cleared]");
    assert_eq!(turn(&home.engine, "s", &cleared).revised, 1);
    assert!(turn(&home.engine, "s", &[said[0].clone(), assistant("another way")]).branched);
    let turned = turn(&home.engine, "s", &with(&cleared, &[assistant("as before")]));
    assert_eq!(turned.new, 1);
    assert_eq!(read(&home.engine, "s"), with(&said, &[assistant("as before")]));
}

#[test]
fn going_back_to_a_fold_behind_a_gap_keeps_what_it_stands_for() {
    let home = home();
    let begin = with(&exchanges("old", 3, 40), &[user("go on")]);
    let shown = folded(&home.engine, "s", &begin, 250);
    let fold = shown[0].clone();
    assert!(fold.contains("[lcm:fold "), "{shown:#?}");
    turn(&home.engine, "s", &shown);
    // What the host drops stands between that fold and the next.
    let dropped = [assistant("dropped later"), user("dropped, too")];
    turn(&home.engine, "s", &with(&shown, &dropped));
    let more = with(&exchanges("more", 3, 40), &[user("and now?")]);
    let said = [&begin[..], &dropped, &more].concat();
    let list = [&shown[..1], &more].concat();
    turn(&home.engine, "s", &with(&with(&shown, &dropped), &more));
    let (_, again) = try_compress(&home.engine, "s", &list, options(350), None).unwrap();
    turn(&home.engine, "s", &again);
    let kept: Vec<String> = again.iter().filter(|message| message.contains("[lcm:fold ")).cloned().collect();
    let answer = user("something else");
    turn(&home.engine, "s", &with(&kept, std::slice::from_ref(&answer)));
    let reached = said.len() - 1;
    assert_eq!(read(&home.engine, "s"), with(&said[..reached], &[answer]));
}
