//! What a commit keeps, and how it is found again.

use lcm_core::op::Change;
use lcm_core::view::View;
use lcm_core::{
    Arrival, IdPrefix, Message, NodeId, OpId, OrderKey, SessionId, Summary, SummaryNumber, TimelineId, node,
};
use lcm_store::{Buffer, Scope, Store, StoreError};
use lcm_tests::folder::folder;
use lcm_tests::random::Random;
use lcm_tests::speech::{any, assistant, message, text_of, tool, user};
use lcm_tests::stores::{NOW_MS, append, append_in, assert_whole, log, open, owner, place, prepare, session, texts};

/// A store with one session.
fn one_session(home: &std::path::Path) -> (Store, SessionId, TimelineId) {
    let store = open(home);
    let id = session(&store, &owner("hermes", "anna"), "chat");
    let timeline = store.snapshot().unwrap().session(id).unwrap().timeline;
    (store, id, timeline)
}

fn said_by(messages: &[Message]) -> Vec<String> {
    messages.iter().map(text_of).collect()
}

fn shown(store: &Store, timeline: TimelineId) -> Vec<String> {
    texts(&store.snapshot().unwrap(), timeline).unwrap()
}

/// The order keys of a timeline's places.
fn orders(store: &Store, timeline: TimelineId) -> Vec<OrderKey> {
    log(&store.snapshot().unwrap(), timeline).unwrap().into_iter().map(|placed| placed.order).collect()
}

fn insert(store: &Store, timeline: TimelineId, order: &OrderKey, said: &Message) -> Result<Arrival, StoreError> {
    let prepared = prepare(store, std::slice::from_ref(said));
    store.commit(|commit| commit.insert(timeline, order, &place(&prepared[0])))
}

fn branch(store: &Store, session: SessionId, parent: TimelineId, last: &OrderKey) -> Result<TimelineId, StoreError> {
    store.commit(|commit| commit.branch(session, parent, last, NOW_MS))
}

#[test]
fn what_is_committed_comes_back_equal_and_in_order() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    let mut random = Random::of_test(1);
    let mut all = Vec::new();
    while all.len() < 300 {
        let turn: Vec<Message> = (0..=random.below(7)).map(|_| any(&mut random)).collect();
        let arrivals = append(&store, session, &turn).unwrap();
        assert_eq!(arrivals.len(), turn.len());
        assert_eq!(arrivals[0].0, u64::try_from(all.len()).unwrap() + 1, "arrival numbers count from 1");
        all.extend(turn);
    }
    assert_eq!(shown(&store, timeline), said_by(&all));
    drop(store);
    let store = open(folder.path());
    assert_eq!(shown(&store, timeline), said_by(&all));
    assert_eq!(store.snapshot().unwrap().log_len(timeline).unwrap(), u64::try_from(all.len()).unwrap());
    assert_whole(&store);
}

#[test]
fn records_written_with_and_without_a_dictionary_are_read_side_by_side() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    let line =
        |n: usize| tool(&format!("call_{n}"), &format!("drwxr-xr-x {n} root root /srv/{n}/{}\n", n * n).repeat(9));
    let (mut all, mut trained) = (Vec::new(), Vec::new());
    for turn in 0..8 {
        let messages: Vec<Message> = (0..100).map(|n| line(100 * turn + n)).collect();
        append(&store, session, &messages).unwrap();
        all.extend(messages);
        trained.extend(store.train_when_due().unwrap().then_some(turn));
    }
    assert!(matches!(trained[..], [turn] if turn > 0 && turn < 7), "trained after {trained:?}");
    assert_eq!(shown(&store, timeline), said_by(&all));
    assert_whole(&store);
}

#[test]
fn equal_messages_are_one_node_at_two_places() {
    let folder = folder();
    let (store, session, _) = one_session(folder.path());
    let (hello, other) = (user("hello"), user("something else"));
    let arrivals = append(&store, session, &[hello.clone(), other, hello.clone()]).unwrap();
    let id = hello.encode().unwrap().id;
    let snapshot = store.snapshot().unwrap();
    let places = snapshot.places_of(&Scope::everything(), &id).unwrap();
    assert_eq!(places.iter().map(|placed| placed.arrival).collect::<Vec<_>>(), [arrivals[0], arrivals[2]]);
    assert_eq!(places[0].record, places[1].record);
    assert_eq!((snapshot.places_len().unwrap(), snapshot.record_rows_len().unwrap()), (3, 2));
}

#[test]
fn messages_share_the_bodies_that_they_say() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    let output = "a line of output that both of them say\n".repeat(40);
    let messages = [tool("c1", &output), tool("c2", &output)];
    append(&store, session, &messages).unwrap();
    // Two messages and one body.
    assert_eq!(store.snapshot().unwrap().record_rows_len().unwrap(), 3);
    assert_eq!(shown(&store, timeline), said_by(&messages));
}

#[test]
fn a_record_of_any_size_comes_back() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    let mut random = Random::of_test(2);
    let sizes = [0, 1, 511, 512, 4095, 4096, 65_535, 70_000, 300_000, 1_100_000, 5_000_000];
    let messages: Vec<Message> = sizes.iter().map(|&size| user(&lcm_tests::speech::noise(&mut random, size))).collect();
    append(&store, session, &messages).unwrap();
    assert_eq!(shown(&store, timeline), said_by(&messages));
    assert_whole(&store);
}

#[test]
fn what_belongs_to_the_place_is_kept_with_it() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    let prepared = prepare(&store, &[user("hello")]);
    let places = [
        lcm_store::NewPlace { message: &prepared[0], seen_ms: -5, tokens: 7, volatile: br#"{"at":1}"# },
        lcm_store::NewPlace { message: &prepared[0], seen_ms: i64::MAX, tokens: u32::MAX, volatile: b"" },
    ];
    store
        .commit(|commit| {
            let timeline = commit.timeline_of(session)?;
            commit.append(timeline, &places)
        })
        .unwrap();
    let read = log(&store.snapshot().unwrap(), timeline).unwrap();
    let kept = |i: usize| (read[i].seen_ms, read[i].tokens, read[i].volatile.clone());
    assert_eq!(kept(0), (-5, 7, br#"{"at":1}"#.to_vec()));
    assert_eq!(kept(1), (i64::MAX, u32::MAX, Vec::new()));
}

#[test]
fn a_late_message_stands_between_its_neighbours() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    append(&store, session, &[user("one"), user("four")]).unwrap();
    let keys = orders(&store, timeline);
    let late = OrderKey::between(&keys[0], Some(&keys[1]));
    insert(&store, timeline, &late, &user("two")).unwrap();
    insert(&store, timeline, &OrderKey::between(&late, Some(&keys[1])), &user("three")).unwrap();
    insert(&store, timeline, &OrderKey::between(&keys[1], None), &user("five")).unwrap();
    append(&store, session, &[user("six")]).unwrap();
    let expected: Vec<String> = ["one", "two", "three", "four", "five", "six"].map(|text| text_of(&user(text))).into();
    assert_eq!(shown(&store, timeline), expected);
    assert_eq!(store.snapshot().unwrap().last_place(timeline).unwrap().unwrap().arrival, Arrival(6));
    assert_whole(&store);
}

/// Two processes come to the same key for the same gap; the second once replaced the first, whose message was then
/// in no timeline any more.
#[test]
fn a_second_late_message_at_the_same_key_is_refused() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    append(&store, session, &[user("one"), user("three")]).unwrap();
    let keys = orders(&store, timeline);
    let late = OrderKey::between(&keys[0], Some(&keys[1]));
    let first = insert(&store, timeline, &late, &user("two")).unwrap();
    let refused = insert(&store, timeline, &late, &user("two and a half"));
    assert!(matches!(refused, Err(StoreError::PlaceTaken(taken)) if taken == first), "{refused:?}");
    let expected: Vec<String> = ["one", "two", "three"].map(|text| text_of(&user(text))).into();
    assert_eq!(shown(&store, timeline), expected);
    assert_whole(&store);
}

#[test]
fn a_branch_shares_a_prefix_and_nothing_that_its_parent_says_later() {
    let folder = folder();
    let (store, session, parent) = one_session(folder.path());
    append(&store, session, &[user("1"), user("2"), user("3")]).unwrap();
    let keys = orders(&store, parent);
    let child = branch(&store, session, parent, &keys[1]).unwrap();
    append(&store, session, &[user("child")]).unwrap();
    let prepared = prepare(&store, &[user("parent")]);
    store.commit(|commit| commit.append(parent, &[place(&prepared[0])])).unwrap();
    // Late, and before the point at which the two part.
    insert(&store, parent, &OrderKey::between(&keys[0], Some(&keys[1])), &user("1b")).unwrap();
    let said = |texts: &[&str]| texts.iter().map(|text| text_of(&user(text))).collect::<Vec<_>>();
    assert_eq!(shown(&store, parent), said(&["1", "1b", "2", "3", "parent"]));
    assert_eq!(shown(&store, child), said(&["1", "2", "child"]));
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.log_len(child).unwrap(), 3);
    assert_eq!(snapshot.timeline(child).unwrap().parent, Some((parent, keys[1].clone())));
    assert_eq!(snapshot.timelines_of(session).unwrap(), [parent, child]);
    assert_whole(&store);
}

#[test]
fn a_branch_of_a_branch_shares_what_both_share() {
    let folder = folder();
    let (store, session, first) = one_session(folder.path());
    append(&store, session, &[user("1"), user("2"), user("3"), user("4")]).unwrap();
    let keys = orders(&store, first);
    let second = branch(&store, session, first, &keys[2]).unwrap();
    append(&store, session, &[user("b4"), user("b5")]).unwrap();
    let own = orders(&store, second);
    let third = branch(&store, session, second, &own[3]).unwrap();
    append(&store, session, &[user("c5")]).unwrap();
    // It leaves the second before the second left the first.
    let fourth = branch(&store, session, second, &keys[0]).unwrap();
    append(&store, session, &[user("d2")]).unwrap();
    let said = |texts: &[&str]| texts.iter().map(|text| text_of(&user(text))).collect::<Vec<_>>();
    assert_eq!(shown(&store, second), said(&["1", "2", "3", "b4", "b5"]));
    assert_eq!(shown(&store, third), said(&["1", "2", "3", "b4", "c5"]));
    assert_eq!(shown(&store, fourth), said(&["1", "d2"]));
    assert_whole(&store);
}

/// It was once shown behind all that is shared, wherever it belonged.
#[test]
fn a_late_message_of_a_branch_stands_among_the_messages_it_shares() {
    let folder = folder();
    let (store, session, parent) = one_session(folder.path());
    append(&store, session, &[user("1"), user("2"), user("3")]).unwrap();
    let keys = orders(&store, parent);
    let child = branch(&store, session, parent, &keys[2]).unwrap();
    insert(&store, child, &OrderKey::between(&keys[0], Some(&keys[1])), &user("1b")).unwrap();
    let said = |texts: &[&str]| texts.iter().map(|text| text_of(&user(text))).collect::<Vec<_>>();
    assert_eq!(shown(&store, child), said(&["1", "1b", "2", "3"]));
    assert_eq!(shown(&store, parent), said(&["1", "2", "3"]));
    assert_eq!(store.snapshot().unwrap().last_place(child).unwrap().unwrap().order, keys[2]);
}

#[test]
fn a_log_can_be_read_page_by_page() {
    let folder = folder();
    let (store, session, parent) = one_session(folder.path());
    let messages: Vec<Message> = (0..10).map(|n| user(&n.to_string())).collect();
    append(&store, session, &messages).unwrap();
    let keys = orders(&store, parent);
    let child = branch(&store, session, parent, &keys[6]).unwrap();
    append(&store, session, &[user("a"), user("b")]).unwrap();
    let snapshot = store.snapshot().unwrap();
    let whole = log(&snapshot, child).unwrap();
    assert_eq!(whole.len(), 9);
    for size in 1..=whole.len() + 1 {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = snapshot.log(child, after.as_ref(), size).unwrap();
            assert!(page.len() <= size);
            let Some(last) = page.last() else { break };
            after = Some(last.order.clone());
            pages.extend(page);
        }
        assert_eq!(pages, whole, "pages of {size}");
    }
}

#[test]
fn later_forms_of_a_message_are_kept_beside_the_first() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    let first = tool("c1", &"the whole output\n".repeat(50));
    let arrival = append(&store, session, std::slice::from_ref(&first)).unwrap()[0];
    let forms = [tool("c1", "[cleared]"), tool("c1", "[cleared twice]")];
    for (n, form) in prepare(&store, &forms).iter().enumerate() {
        let seen_ms = NOW_MS + i64::try_from(n).unwrap();
        store.commit(|commit| commit.revise(arrival, form, seen_ms, b"{}")).unwrap();
    }
    let snapshot = store.snapshot().unwrap();
    assert_eq!(texts(&snapshot, timeline).unwrap(), [text_of(&first)], "the log shows the first form");
    let mut buffer = Buffer::default();
    let mut read = Vec::new();
    for (record, seen_ms, volatile) in snapshot.revisions(arrival).unwrap() {
        snapshot.read(record, &mut buffer).unwrap();
        read.push((buffer.id(), seen_ms, volatile));
    }
    let expected: Vec<_> =
        forms.iter().zip(NOW_MS..).map(|(form, at)| (form.encode().unwrap().id, at, b"{}".to_vec())).collect();
    assert_eq!(read, expected);
    // A form stands at no place, so nobody finds it by its id.
    assert!(snapshot.places_of(&Scope::everything(), &expected[0].0).unwrap().is_empty());
    let nowhere = store.commit(|commit| commit.revise(Arrival(99), &prepare(&store, &forms)[0], 0, b""));
    assert!(matches!(nowhere, Err(StoreError::NoPlace(Arrival(99)))));
    assert_whole(&store);
}

fn summary(text: &str, children: Vec<NodeId>, depth: u16) -> Summary {
    let parts = node::SummaryParts { text: text.to_owned(), children, depth, span_ms: (NOW_MS, NOW_MS + 1) };
    Summary::new(parts).unwrap()
}

#[test]
fn a_summary_is_linked_to_its_children_and_they_to_it() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    let messages = [user("a"), assistant("b"), user("c"), user("a")];
    append(&store, session, &messages).unwrap();
    let ids: Vec<NodeId> = messages.iter().map(|message| message.encode().unwrap().id).collect();
    let keys = orders(&store, timeline);
    let leaves = [summary("a and b", ids[..2].to_vec(), 1), summary("c and a again", ids[2..].to_vec(), 1)];
    let numbers: Vec<SummaryNumber> = leaves
        .iter()
        .zip([0, 2])
        .map(|(leaf, first)| store.commit(|commit| commit.summary(leaf, timeline, &keys[first], NOW_MS)).unwrap())
        .collect();
    assert_eq!(numbers, [SummaryNumber(1), SummaryNumber(2)], "summaries have numbers of their own");

    let snapshot = store.snapshot().unwrap();
    let places: Vec<_> =
        numbers.iter().map(|&number| snapshot.find_summary(&Scope::everything(), number).unwrap().unwrap()).collect();
    let mut buffer = Buffer::default();
    for (place, leaf) in places.iter().zip(&leaves) {
        assert_eq!(&snapshot.summary(place.record, &mut buffer).unwrap(), leaf);
        let children = snapshot.children(place.record).unwrap();
        let mut read = Vec::new();
        read.extend(snapshot.read_each(&children, |_, buffer| Ok::<_, StoreError>(buffer.id())).unwrap());
        assert_eq!(read, leaf.children());
    }
    assert_eq!(places[1].order, keys[2], "it stands where what it stands for begins");
    let twice = snapshot.places_of(&Scope::everything(), &ids[0]).unwrap()[0].record;
    assert_eq!(snapshot.parents(twice).unwrap(), [places[0].record, places[1].record]);
    assert_eq!(shown(&store, timeline), said_by(&messages), "a summary is no part of the log");

    let leaf_ids: Vec<NodeId> = places
        .iter()
        .map(|place| {
            snapshot.read(place.record, &mut buffer).unwrap();
            buffer.id()
        })
        .collect();
    let top = summary("all", leaf_ids, 2);
    store.commit(|commit| commit.summary(&top, timeline, &keys[0], NOW_MS)).unwrap();
    let unknown = summary("of nothing here", vec![NodeId::from_bytes([7; 32])], 1);
    let refused = store.commit(|commit| commit.summary(&unknown, timeline, &keys[0], NOW_MS));
    assert!(matches!(refused, Err(StoreError::NotFound(_))), "{refused:?}");
    assert_whole(&store);
}

#[test]
fn a_view_can_be_read_as_of_any_op() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    append(&store, session, &[user("a"), user("b"), user("c")]).unwrap();
    let keys = orders(&store, timeline);
    let raw = View::raw(keys[0].clone());
    let fold = |text: &str, view: &View| {
        let leaf = summary(text, vec![user("a").encode().unwrap().id], 1);
        let id = lcm_core::canon::message_id(&lcm_core::canon::encode_summary(&leaf));
        let view = view.fold(&keys[0], &keys[1], id).unwrap();
        store
            .commit(|commit| {
                commit.summary(&leaf, timeline, &keys[0], NOW_MS)?;
                commit.op(session, NOW_MS, "test", Change::Fold { summary: id }, Some(&view))
            })
            .map(|op| (op, view))
            .unwrap()
    };
    let ingest = Change::Ingest { timeline, first: Arrival(1), last: Arrival(3) };
    let op_of_turn = store.commit(|commit| commit.op(session, NOW_MS, "test", ingest.clone(), None)).unwrap();
    let (first, first_view) = fold("one", &raw);
    let (second, second_view) = fold("two", &raw);
    let snapshot = store.snapshot().unwrap();
    assert_eq!(snapshot.view(session, op_of_turn.id).unwrap(), None);
    assert_eq!(snapshot.view(session, first.id).unwrap(), Some(first_view));
    assert_eq!(snapshot.view(session, second.id).unwrap().as_ref(), Some(&second_view));
    assert_eq!(snapshot.view(session, OpId(u64::MAX)).unwrap(), Some(second_view));
    assert_eq!(snapshot.view(SessionId(9), OpId(u64::MAX)).unwrap(), None);
    assert_eq!(snapshot.ops(OpId(0), 10).unwrap(), [op_of_turn.clone(), first.clone(), second.clone()]);
    assert_eq!(snapshot.ops_before(OpId(u64::MAX), 2).unwrap(), [second.clone(), first.clone()]);
    assert_eq!(snapshot.ops_before(second.id, 10).unwrap(), [first.clone(), op_of_turn.clone()]);
    assert_eq!(snapshot.ops_before(op_of_turn.id, 10).unwrap(), []);
    assert_eq!(snapshot.ops(first.id, 1).unwrap(), [first]);
    assert_whole(&store);
}

#[test]
fn a_prefix_finds_none_one_or_several_nodes() {
    let folder = folder();
    let (store, session, _) = one_session(folder.path());
    let messages: Vec<Message> = (0..300).map(|n| user(&format!("message {n}"))).collect();
    append(&store, session, &messages).unwrap();
    let mut ids: Vec<NodeId> = messages.iter().map(|message| message.encode().unwrap().id).collect();
    ids.sort();
    let snapshot = store.snapshot().unwrap();
    let find = |prefix: &str, max| -> Vec<NodeId> {
        let prefix = IdPrefix::from_hex(prefix).unwrap();
        snapshot.find_nodes(&Scope::everything(), &prefix, max).unwrap().into_iter().map(|(id, _)| id).collect()
    };
    let mut lengths = [0; 3];
    for digits in [1, 2, 3, 16, 31, 32, 33, 63, 64] {
        for id in &ids {
            let prefix = format!("{id:.digits$}");
            let expected: Vec<NodeId> =
                ids.iter().copied().filter(|other| format!("{other:.digits$}") == prefix).collect();
            assert_eq!(find(&prefix, usize::MAX), expected, "{prefix}");
            assert_eq!(find(&prefix, 1), expected[..1]);
            lengths[expected.len().min(2)] += 1;
        }
    }
    assert!(lengths[1] > 0 && lengths[2] > 0, "both happened");
    // Equal to an id in the half that is indexed, and not in the other.
    let near = format!("{:.33}", ids[0]);
    let last = if near.ends_with('0') { '1' } else { '0' };
    assert!(find(&format!("{}{last}", &near[..32]), 9).is_empty());
    assert!(find(&"f".repeat(64), 9).is_empty());
}

#[test]
fn a_name_that_nobody_has_finds_nothing() {
    let folder = folder();
    let (store, session, _) = one_session(folder.path());
    append(&store, session, &[user("hello")]).unwrap();
    let snapshot = store.snapshot().unwrap();
    let named = |agent: &str, person: &str, name: &str| {
        snapshot.session_named(&owner(agent, person), name).unwrap().map(|session| session.id)
    };
    assert_eq!(named("hermes", "anna", "chat"), Some(session));
    for (agent, person, name) in
        [("hermes", "anna", "Chat"), ("hermes", "bert", "chat"), ("", "anna", "chat"), ("hermes", "anna", "")]
    {
        assert_eq!(named(agent, person, name), None);
    }
    assert!(matches!(snapshot.session(SessionId(2)), Err(StoreError::NoSession(_))));
    assert!(matches!(snapshot.timeline(TimelineId(2)), Err(StoreError::NoTimeline(_))));
    assert!(matches!(snapshot.log(TimelineId(0), None, 1), Err(StoreError::NoTimeline(_))));
    assert_eq!(snapshot.find_place(&Scope::everything(), Arrival(2)).unwrap(), None);
    assert_eq!(snapshot.find_summary(&Scope::everything(), SummaryNumber(1)).unwrap(), None);
}

#[test]
fn a_write_that_fails_leaves_nothing() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    append(&store, session, &[user("kept")]).unwrap();
    let prepared = prepare(&store, &[user("lost"), user("kept")]);
    let failed: Result<(), StoreError> = store.commit(|commit| {
        append_in(commit, session, &prepared)?;
        commit.branch(session, timeline, &OrderKey::appended(Arrival(1)), NOW_MS)?;
        commit.session(&owner("x", "y"), "z", "test", NOW_MS)?;
        Err(StoreError::GivenUp)
    });
    assert!(matches!(failed, Err(StoreError::GivenUp)));
    let mut asked = false;
    let given_up = store.commit_if(
        || false,
        |_| {
            asked = true;
            Ok::<_, StoreError>(())
        },
    );
    assert!(matches!(given_up, Err(StoreError::GivenUp)) && !asked, "the work of a caller who gave up is not begun");
    assert_eq!(shown(&store, timeline), [text_of(&user("kept"))]);
    assert_eq!(store.snapshot().unwrap().sessions(&Scope::everything()).unwrap().len(), 1);
    let next = append(&store, session, &[user("next")]).unwrap();
    assert_eq!(next, [Arrival(2)], "a number that nobody ever saw is given again");
    assert_whole(&store);
}

#[test]
fn nothing_is_put_into_a_timeline_that_is_not_there_or_is_somebody_elses() {
    let folder = folder();
    let (store, mine, timeline) = one_session(folder.path());
    append(&store, mine, &[user("mine")]).unwrap();
    let theirs = session(&store, &owner("hermes", "bert"), "chat");
    let second = session(&store, &owner("hermes", "anna"), "another");
    let prepared = prepare(&store, &[user("x")]);
    let (nowhere, last) = (TimelineId(77), OrderKey::appended(Arrival(1)));
    let refused = [
        store.commit(|commit| commit.append(nowhere, &[place(&prepared[0])]).map(drop)),
        store.commit(|commit| commit.insert(nowhere, &last, &place(&prepared[0])).map(drop)),
        store.commit(|commit| commit.branch(mine, nowhere, &last, NOW_MS).map(drop)),
        store.commit(|commit| commit.branch(theirs, timeline, &last, NOW_MS).map(drop)),
        store.commit(|commit| commit.go_on_with(theirs, Some(timeline), NOW_MS).map(drop)),
        store.commit(|commit| commit.go_on_with(second, Some(timeline), NOW_MS).map(drop)),
    ];
    for (n, refused) in refused.into_iter().enumerate() {
        assert!(matches!(refused, Err(StoreError::NoTimeline(_))), "{n}: {refused:?}");
    }
    // Another session of the same owner may share what was said.
    branch(&store, second, timeline, &last).unwrap();
    assert_whole(&store);
}

#[test]
fn a_name_beyond_its_bound_is_refused() {
    let folder = folder();
    let store = open(folder.path());
    let long = "x".repeat(lcm_core::limits::NAME_BYTES_MAX + 1);
    let longest = &long[1..];
    for (agent, person, name, source) in
        [(&*long, "", "", ""), ("", &*long, "", ""), ("", "", &*long, ""), ("", "", "", &*long)]
    {
        let refused = store.commit(|commit| commit.session(&owner(agent, person), name, source, NOW_MS));
        assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
    }
    let id = store.commit(|commit| commit.session(&owner(longest, longest), longest, longest, NOW_MS)).unwrap();
    let named = store.snapshot().unwrap().session_named(&owner(longest, longest), longest).unwrap().unwrap();
    assert_eq!(named.id, id);
}

#[test]
fn the_first_forms_order_of_keys_comes_back() {
    let folder = folder();
    let (store, session, timeline) = one_session(folder.path());
    let said = message(r#"{"z":1,"role":"user","a":{"d":1,"c":2},"content":"x","a":3}"#);
    append(&store, session, std::slice::from_ref(&said)).unwrap();
    assert_eq!(shown(&store, timeline), [r#"{"z":1,"role":"user","a":{"d":1,"c":2},"content":"x","a":3}"#]);
}
