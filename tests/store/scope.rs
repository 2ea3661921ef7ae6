//! A place outside of a scope is absent: for numbers, ids, prefixes, summaries and lists alike.
//! Method: in a world of any shape, ask every scope for everything there is, and compare with a plain filter.

use lcm_core::OrderKey;
use lcm_store::{Branches, Owners, Scope};
use lcm_tests::folder::folder;
use lcm_tests::speech::user;
use lcm_tests::stores::{NOW_MS, append, log, open, owner, place, prepare, session};
use proptest::prelude::*;

use crate::world::{World, steps};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_found_lies_in_scope_and_whatever_lies_in_scope_is_found(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.compare_scopes();
    }
}

/// Two sessions share one conversation, the first more of it, the second later. A message that came late, beyond what
/// the second shares and after the first had left, once lay in the scope of both together.
#[test]
fn two_branches_of_one_timeline_do_not_reach_what_neither_shares() {
    let folder = folder();
    let store = open(folder.path());
    let anna = owner("hermes", "anna");
    let [base, first, second] = ["base", "first", "second"].map(|name| session(&store, &anna, name));
    append(&store, base, &["1", "2", "3"].map(user)).unwrap();
    let snapshot = store.snapshot().unwrap();
    let timeline = snapshot.session(base).unwrap().timeline;
    let keys: Vec<OrderKey> = log(&snapshot, timeline).unwrap().into_iter().map(|placed| placed.order).collect();
    store.commit(|commit| commit.branch(first, timeline, &keys[2], NOW_MS)).unwrap();
    let prepared = prepare(&store, &[user("late")]);
    let late = OrderKey::between(&keys[1], Some(&keys[2]));
    let late = store.commit(|commit| commit.insert(timeline, &late, &place(&prepared[0]))).unwrap();
    store.commit(|commit| commit.branch(second, timeline, &keys[0], NOW_MS)).unwrap();
    let scope = |sessions| Scope { owners: Owners::All, sessions, branches: Branches::Current };
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.find_place(&scope(vec![first, second]), late).unwrap(), None);
    assert!(snapshot.find_place(&scope(vec![base]), late).unwrap().is_some());
}
