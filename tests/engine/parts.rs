//! Messages shown in part: the whole is one call away, and equal ones are not mixed up.

use crate::session::{
    assert_whole, behind, call, exchanges, home, long, options, read, result, try_compress, turn, user, with,
};

fn is_part(message: &str) -> bool {
    message.contains("[lcm:part ")
}

/// A request whose steps gave the same large result twice, under an id that the host used again.
fn twice() -> Vec<String> {
    let large = long("table", 250);
    let mut list = vec![user("read it twice")];
    list.extend([call("call_0", "a.rs"), result("call_0", &large)]);
    list.extend([call("call_0", "b.rs"), result("call_0", &large)]);
    list.extend([call("call_1", "c.rs"), result("call_1", "short")]);
    list
}

#[test]
fn a_large_result_is_shown_in_part_and_stands_for_the_whole() {
    let home = home();
    let list = vec![
        user("read it"),
        call("c1", "a.rs"),
        result("c1", &long("table", 300)),
        call("c2", "b.rs"),
        result("c2", "short"),
    ];
    let (done, shown) = try_compress(&home.engine, "s", &list, options(400), None).unwrap();
    assert_eq!(shown.iter().filter(|message| is_part(message)).count(), 1, "{done:?}");
    assert_eq!(behind(&home.engine, &shown), list);
    let turned = turn(&home.engine, "s", &with(&shown, &[user("and?")]));
    assert_eq!((turned.new, turned.revised, turned.late, turned.branched), (1, 0, 0, false));
    assert_eq!(read(&home.engine, "s"), with(&list, &[user("and?")]));
}

#[test]
fn two_equal_large_results_are_both_shown_in_part_and_both_come_back() {
    let home = home();
    let mut said = twice();
    let (done, mut shown) = try_compress(&home.engine, "s", &said, options(500), None).unwrap();
    assert_eq!(shown.iter().filter(|message| is_part(message)).count(), 2, "{done:?}\n{shown:#?}");
    assert_eq!(behind(&home.engine, &shown), said);
    // It goes on, and is compressed again and again.
    for n in 0..4 {
        let more = with(&exchanges(&format!("more {n}"), 2, 40), &[user(&format!("and {n}?"))]);
        said.extend(more.clone());
        shown.extend(more);
        let turned = turn(&home.engine, "s", &shown);
        assert_eq!((turned.new, turned.revised, turned.late, turned.branched), (5, 0, 0, false), "round {n}");
        let (done, next) = try_compress(&home.engine, "s", &shown, options(500), None).unwrap();
        assert!(done.tokens_after <= done.tokens_before);
        shown = next;
        assert_eq!(behind(&home.engine, &shown), said, "round {n}: {shown:#?}");
        assert_eq!(read(&home.engine, "s"), said);
    }
    assert_whole(&home.engine);
}
