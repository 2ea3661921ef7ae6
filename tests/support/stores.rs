//! Short ways to write into a store and to read all of it.

use std::path::Path;
use std::time::Duration;

use lcm_core::{Arrival, Message, Owner, SessionId, TimelineId, canon};
use lcm_store::{
    Buffer, CheckOptions, CheckReport, Commit, NewPlace, OpenOptions, Placed, Prepared, Snapshot, Store, StoreError,
};

/// When everything in tests was said.
pub const NOW_MS: i64 = 1_700_000_000_000;

/// Opens a store, or makes it; a small cache, as tests have many of them.
pub fn open(home: &Path) -> Store {
    Store::open(home, options()).expect("the store opens")
}

/// How tests open stores.
pub fn options() -> OpenOptions {
    OpenOptions { cache_bytes: 4 << 20, wait: Duration::from_secs(20), ..OpenOptions::default() }
}

/// Opens a store that must be there.
pub fn reopen(home: &Path) -> Result<Store, StoreError> {
    Store::open(home, OpenOptions { create: false, ..options() })
}

/// An agent's owner.
pub fn owner(agent: &str, person: &str) -> Owner {
    Owner { agent: agent.to_owned(), person: person.to_owned() }
}

/// The session a host calls `name`, made when it is new.
pub fn session(store: &Store, owner: &Owner, name: &str) -> SessionId {
    store.commit(|commit| commit.session(owner, name, "test", NOW_MS)).expect("a session can be made")
}

/// Messages, hashed and compressed.
pub fn prepare(store: &Store, messages: &[Message]) -> Vec<Prepared> {
    try_prepare(store, messages).expect("messages can be prepared")
}

/// The same where the store may be busy or broken.
pub fn try_prepare(store: &Store, messages: &[Message]) -> Result<Vec<Prepared>, StoreError> {
    let encoded: Result<Vec<_>, _> = messages.iter().map(Message::encode).collect();
    store.prepare(&encoded.expect("the test's messages are within bounds"))
}

/// A place for a message.
pub fn place(message: &Prepared) -> NewPlace<'_> {
    NewPlace { message, seen_ms: NOW_MS, tokens: 7, volatile: b"" }
}

/// Appends messages to the timeline a session goes on with; gives their arrival numbers.
pub fn append(store: &Store, session: SessionId, messages: &[Message]) -> Result<Vec<Arrival>, StoreError> {
    let prepared = try_prepare(store, messages)?;
    store.commit(|commit| append_in(commit, session, &prepared))
}

/// The same inside a commit.
pub fn append_in(
    commit: &mut Commit<'_>,
    session: SessionId,
    prepared: &[Prepared],
) -> Result<Vec<Arrival>, StoreError> {
    let timeline = commit.timeline_of(session)?;
    let places: Vec<_> = prepared.iter().map(place).collect();
    let added = commit.append(timeline, &places)?;
    Ok(added.map_or_else(Vec::new, |(first, last)| (first.0..=last.0).map(Arrival).collect()))
}

/// Every place of a timeline, in order.
pub fn log(snapshot: &Snapshot, timeline: TimelineId) -> Result<Vec<Placed>, StoreError> {
    snapshot.log(timeline, None, usize::MAX)
}

/// What was said at a place, as its JSON.
pub fn said(snapshot: &Snapshot, placed: &Placed) -> Result<String, StoreError> {
    let mut buffer = Buffer::default();
    snapshot.read(placed.record, &mut buffer)?;
    let mut json = Vec::new();
    buffer.with_message(|message| canon::write_json(&message, &mut json)).expect("what hashes to its id decodes");
    Ok(String::from_utf8(json).expect("JSON is written as UTF-8"))
}

/// Everything a timeline shows, as JSON.
pub fn texts(snapshot: &Snapshot, timeline: TimelineId) -> Result<Vec<String>, StoreError> {
    log(snapshot, timeline)?.iter().map(|placed| said(snapshot, placed)).collect()
}

/// Every session of the store with what it shows now.
pub fn everything(store: &Store) -> Result<Vec<(String, Vec<String>)>, StoreError> {
    let snapshot = store.snapshot()?;
    let sessions = snapshot.sessions(&lcm_store::Scope::everything())?;
    sessions.into_iter().map(|session| Ok((session.name, texts(&snapshot, session.timeline)?))).collect()
}

/// Checks the store.
pub fn check(store: &Store) -> Result<CheckReport, StoreError> {
    store.check(&CheckOptions { faults_max: 20, progress: &|_, _| {} })
}

/// Checks the store, which must be whole.
pub fn assert_whole(store: &Store) {
    let report = check(store).expect("the store can be read");
    assert!(report.is_clean(), "{:#?}", report.told);
}
