//! What a crash, a torn write, a power failure or a full disk in the middle of a write leaves behind.
//! Method: let the file end after its n-th change, for every n; open it again; compare with what was acknowledged.

use std::path::Path;

use lcm_core::op::Change;
use lcm_core::view::View;
use lcm_core::{OpId, SessionId, Summary, node};
use lcm_store::testing::Disk;
use lcm_store::{OpenOptions, Scope, Store, StoreError};
use lcm_tests::folder::folder;
use lcm_tests::random::Random;
use lcm_tests::speech::{assistant, noise, tool, user};
use lcm_tests::stores::{
    NOW_MS, append, append_in, assert_whole, everything, open, options, owner, place, reopen, try_prepare,
};

use crate::disks::{End, Ending, Powered};

/// Everything a store tells: texts of all sessions, ops, views, forms, places.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
struct State {
    sessions: Vec<(String, Vec<String>)>,
    ops: usize,
    views: usize,
    places: u64,
    records: u64,
}

fn state(store: &Store) -> Result<State, StoreError> {
    let snapshot = store.snapshot()?;
    let session = SessionId(1);
    Ok(State {
        sessions: everything(store)?,
        ops: snapshot.ops(OpId(0), usize::MAX)?.len(),
        views: usize::from(snapshot.view(session, OpId(u64::MAX))?.is_some()),
        places: snapshot.places_len()?,
        records: snapshot.record_rows_len()?,
    })
}

/// A first turn: a session and what was said in it.
fn first_turn(store: &Store) -> Result<(), StoreError> {
    let messages = [user("look around"), assistant("I do"), tool("c1", &noise(&mut Random::seeded(3), 9_000))];
    let prepared = try_prepare(store, &messages)?;
    store.commit(|commit| {
        let id = commit.session(&owner("hermes", "anna"), "chat", "test", NOW_MS)?;
        append_in(commit, id, &prepared).map(drop)
    })
}

/// A second turn, which touches all that a turn can: a branch, a late message, a fold, a new form, an op.
fn second_turn(store: &Store) -> Result<(), StoreError> {
    let messages = [user("and then?"), user("late"), tool("c1", "[cleared]"), user("and then?")];
    let prepared = try_prepare(store, &messages)?;
    let id = SessionId(1);
    let timeline = store.snapshot()?.session(id)?.timeline;
    let log = store.snapshot()?.log(timeline, None, 9)?;
    let parts = node::SummaryParts {
        text: "they looked around".to_owned(),
        children: vec![user("look around").encode().unwrap().id, assistant("I do").encode().unwrap().id],
        depth: 1,
        span_ms: (NOW_MS, NOW_MS),
    };
    let summary = Summary::new(parts).unwrap();
    let summary_id = lcm_core::canon::message_id(&lcm_core::canon::encode_summary(&summary));
    let view = View::raw(log[0].order.clone()).fold(&log[0].order, &log[2].order, summary_id).unwrap();
    store.commit(|commit| {
        commit.summary(&summary, timeline, &log[0].order, NOW_MS)?;
        commit.op(id, NOW_MS, "test", Change::Fold { summary: summary_id }, Some(&view))?;
        commit.revise(log[2].arrival, &prepared[2], NOW_MS, b"")?;
        let branch = commit.branch(id, timeline, &log[2].order, NOW_MS)?;
        commit.append(branch, &[place(&prepared[0]), place(&prepared[3])])?;
        let late = lcm_core::OrderKey::between(&log[0].order, Some(&log[1].order));
        commit.insert(branch, &late, &place(&prepared[1])).map(drop)
    })
}

/// Opens a store on a disk and does both turns; gives the store, how many turns were acknowledged, and why it ended.
fn two_turns(home: &Path, disk: std::sync::Arc<dyn Disk>) -> (Option<Store>, usize, Result<(), StoreError>) {
    let store = match Store::open(home, OpenOptions { disk: Some(disk), ..options() }) {
        Ok(store) => store,
        Err(error) => return (None, 0, Err(error)),
    };
    let first = first_turn(&store);
    if first.is_err() {
        return (Some(store), 0, first);
    }
    let second = second_turn(&store);
    let acknowledged = if second.is_ok() { 2 } else { 1 };
    (Some(store), acknowledged, second)
}

/// The states after none, one and both turns.
fn states() -> [State; 3] {
    let folder = folder();
    let store = open(folder.path());
    let none = state(&store).unwrap();
    first_turn(&store).unwrap();
    let one = state(&store).unwrap();
    second_turn(&store).unwrap();
    [none, one, state(&store).unwrap()]
}

/// How many changes of the file both turns take, from the making of the store to its closing.
fn changes_of_two_turns() -> u64 {
    let folder = folder();
    let disk = Ending::new(End::Dies, u64::MAX);
    let (store, done, ended) = two_turns(folder.path(), disk.clone());
    ended.unwrap();
    assert_eq!(done, 2);
    drop(store);
    disk.changes()
}

/// Opens the store once the disk is whole again: what was acknowledged is there, and nothing by halves.
fn assert_nothing_lost(home: &Path, acknowledged: usize, states: &[State; 3], cut: &str) {
    let store = open(home);
    let found = state(&store).unwrap();
    let in_flight = (acknowledged + 1).min(2);
    assert!(found == states[acknowledged] || found == states[in_flight], "{cut}: {acknowledged} turns, {found:#?}");
    assert_whole(&store);
    // Whoever comes next can write, and everybody sees it.
    let id = store.commit(|commit| commit.session(&owner("next", "one"), "after", "test", NOW_MS)).unwrap();
    append(&store, id, &[user("after the crash")]).unwrap();
    drop(store);
    let store = reopen(home).unwrap();
    let mut after = state(&store).unwrap();
    assert_eq!(after.sessions.pop().unwrap().1.len(), 1);
    assert_eq!(after.sessions, found.sessions);
    assert_whole(&store);
}

#[test]
fn a_file_that_ends_after_any_change_holds_the_state_before_or_after() {
    let (states, changes) = (states(), changes_of_two_turns());
    assert!(changes > 40, "only {changes} changes: is the disk asked at all?");
    for end in [End::Dies, End::Tears] {
        for after in 0..=changes {
            let folder = folder();
            let disk = Ending::new(end, after);
            let (store, acknowledged, ended) = two_turns(folder.path(), disk.clone());
            assert!(ended.is_err() || acknowledged == 2);
            drop(store);
            assert!(disk.has_ended() || after >= changes - 1, "{changes} changes, not {after}");
            assert_nothing_lost(folder.path(), acknowledged, &states, &format!("{end:?} after {after}"));
        }
    }
}

#[test]
fn a_power_failure_after_any_change_leaves_the_state_before_or_after() {
    let (states, changes) = (states(), changes_of_two_turns());
    let mut random = Random::of_test(4);
    for after in 0..=changes {
        for _ in 0..3 {
            let folder = folder();
            let disk = Powered::new(after);
            let (store, acknowledged, _) = two_turns(folder.path(), disk.clone());
            drop(store);
            disk.fail(folder.path(), &mut random);
            assert_nothing_lost(folder.path(), acknowledged, &states, &format!("power fails after {after}"));
        }
    }
}

#[test]
fn on_a_full_disk_reads_go_on_and_nothing_more_is_written() {
    let states = states();
    let mut failed_turns = 0;
    for after in 0.. {
        let folder = folder();
        let disk = Ending::new(End::Fills, after);
        let (store, acknowledged, ended) = two_turns(folder.path(), disk.clone());
        let Err(error) = ended else { break };
        if let Some(store) = store {
            failed_turns += 1;
            assert!(!matches!(error, StoreError::WriterFailed), "the first failure says why: {error:?}");
            for _ in 0..2 {
                let found = state(&store).unwrap();
                let in_flight = (acknowledged + 1).min(2);
                assert!(found == states[acknowledged] || found == states[in_flight], "after {after}: {found:#?}");
                assert_whole(&store);
                let refused = store.commit(|commit| commit.session(&owner("a", "b"), "c", "test", NOW_MS));
                // A write that failed before it began is tried again, and fails again.
                let same = matches!(
                    refused,
                    Err(StoreError::WriterFailed | StoreError::Database { .. } | StoreError::File { .. })
                );
                assert!(same, "after {after}: {refused:?}");
            }
        }
        assert_nothing_lost(folder.path(), acknowledged, &states, &format!("full after {after}"));
    }
    assert!(failed_turns > 10);
}

#[test]
fn after_a_failed_commit_the_writer_says_so_until_the_store_is_opened_again() {
    let folder = folder();
    drop(open(folder.path()));
    // Enough for the writing handle to open, too little for a turn.
    let disk = Ending::new(End::Fills, 4);
    let store = Store::open(folder.path(), OpenOptions { disk: Some(disk.clone()), ..options() }).unwrap();
    let first = first_turn(&store);
    assert!(matches!(first, Err(StoreError::Database { .. })), "{first:?}");
    let tried = disk.changes();
    for _ in 0..3 {
        let again = first_turn(&store);
        assert!(matches!(again, Err(StoreError::WriterFailed)), "{again:?}");
    }
    assert_eq!(disk.changes(), tried, "nothing more is written");
    assert!(store.snapshot().unwrap().sessions(&Scope::everything()).unwrap().is_empty());
    // Another handle is not touched by it.
    first_turn(&open(folder.path())).unwrap();
    assert_eq!(store.snapshot().unwrap().sessions(&Scope::everything()).unwrap().len(), 1, "and its work is seen");
}
