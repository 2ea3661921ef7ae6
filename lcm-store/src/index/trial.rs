//! For the tests of this room: a store in a temporary directory, quickly filled, and what a search should find in
//! it, found by looking at everything.

use lcm_core::node::SummaryParts;
use lcm_core::{Arrival, Message, NodeId, OrderKey, Owner, SessionId, Summary, TimelineId};
use regex::Regex;
use tempfile::TempDir;

use super::{Pace, Words};
use crate::scope::{Branches, OwnerPattern, Owners, Scope};
use crate::{Grep, NewPlace, OpenOptions, Store, StoreError};

/// A store and what was put into it.
pub(crate) struct Trial {
    pub(crate) store: Store,
    pub(crate) home: TempDir,
    /// Arrival and text of every place, in order.
    pub(crate) said: Vec<(u64, String)>,
    now_ms: i64,
}

impl Trial {
    pub(crate) fn new() -> Self {
        let home = TempDir::new().unwrap();
        let store = Store::open(home.path(), OpenOptions::default()).unwrap();
        Self { store, home, said: Vec::new(), now_ms: 1_000_000 }
    }

    /// Another process on the same store.
    pub(crate) fn again(&self) -> Store {
        Store::open(self.home.path(), OpenOptions::default()).unwrap()
    }

    pub(crate) fn session(&self, agent: &str, name: &str) -> (SessionId, TimelineId) {
        let owner = Owner { agent: agent.to_owned(), person: "p".to_owned() };
        let done = self.store.commit(|commit| {
            let session = commit.session(&owner, name, "test", 0)?;
            Ok::<_, StoreError>((session, commit.timeline_of(session)?))
        });
        done.unwrap()
    }

    pub(crate) fn say(&mut self, timeline: TimelineId, texts: &[&str]) -> Vec<u64> {
        self.say_as("user", timeline, texts)
    }

    pub(crate) fn say_as(&mut self, role: &str, timeline: TimelineId, texts: &[&str]) -> Vec<u64> {
        let encoded: Vec<_> = texts.iter().map(|text| message(role, text).encode().unwrap()).collect();
        let prepared = self.store.prepare(&encoded).unwrap();
        let now_ms = self.now_ms;
        let places: Vec<NewPlace<'_>> = prepared
            .iter()
            .zip(now_ms..)
            .map(|(message, seen_ms)| NewPlace { message, seen_ms, tokens: 1, volatile: b"" })
            .collect();
        let written = self.store.commit(|commit| commit.append(timeline, &places));
        self.now_ms += i64::try_from(texts.len()).unwrap();
        let Some((first, last)) = written.unwrap() else { return Vec::new() };
        let arrivals: Vec<u64> = (first.0..=last.0).collect();
        self.said.extend(arrivals.iter().copied().zip(texts.iter().map(|text| (*text).to_owned())));
        arrivals
    }

    /// Branches a session off behind a place of its own timeline.
    pub(crate) fn branch(&self, session: SessionId, parent: TimelineId, last: u64) -> TimelineId {
        let order = OrderKey::appended(Arrival(last));
        self.store.commit(|commit| commit.branch(session, parent, &order, 0)).unwrap()
    }

    pub(crate) fn summarise(&mut self, timeline: TimelineId, child: NodeId, first: u64, text: &str) -> u64 {
        let parts = SummaryParts { text: text.to_owned(), children: vec![child], depth: 1, span_ms: (0, 1) };
        let summary = Summary::new(parts).unwrap();
        let first = OrderKey::appended(Arrival(first));
        let arrival = self.store.commit(|commit| {
            commit.summary(&summary, timeline, &first, 5)?;
            Ok::<_, StoreError>(commit.last_arrival().0)
        });
        let arrival = arrival.unwrap();
        self.said.push((arrival, text.to_owned()));
        arrival
    }

    pub(crate) fn catch_up(&self) {
        self.store.catch_up(Pace::Gentle, &|_| {}).unwrap();
    }

    /// The arrivals whose text matches, newest first.
    pub(crate) fn expected(&self, regex: &Regex, among: impl Fn(u64) -> bool) -> Vec<u64> {
        let matching = self.said.iter().rev().filter(|(arrival, text)| among(*arrival) && regex.is_match(text));
        matching.map(|(arrival, _)| *arrival).collect()
    }

    /// All hits of a pattern, by one store.
    pub(crate) fn grep_in(store: &Store, scope: &Scope, grep: &Grep) -> Vec<u64> {
        let found = store.grep(scope, &Grep { hits_max: 0, ..grep.clone() }).unwrap();
        assert!(found.complete && found.next.is_none());
        found.hits.iter().map(|hit| hit.placed.arrival.0).collect()
    }

    /// The hits with all words, by one store; `None` for the ranked ones behind them.
    pub(crate) fn words_in(store: &Store, scope: &Scope, text: &str) -> Vec<u64> {
        let words = Words { hits_max: 10_000, ..Words::new(text) };
        let found = store.words(scope, &words).unwrap();
        found.hits.iter().filter(|hit| !hit.ranked).map(|hit| hit.placed.arrival.0).collect()
    }
}

/// A message as a host says it.
pub(crate) fn message(role: &str, text: &str) -> Message {
    let text = lcm_core::Json::String(text.into());
    let mut json = format!("{{\"role\":\"{role}\",\"content\":").into_bytes();
    text.write(&mut json);
    json.push(b'}');
    Message::parse(&json).unwrap()
}

/// The scope of one agent.
pub(crate) fn of_agent(agent: &str) -> Scope {
    let pattern = OwnerPattern { agent: Some(agent.to_owned()), person: None };
    Scope { owners: Owners::Matching(vec![pattern]), sessions: Vec::new(), branches: Branches::All }
}

/// The scope of one session, as it goes on now.
pub(crate) fn of_session(session: SessionId) -> Scope {
    Scope { branches: Branches::Current, ..Scope::everything().in_sessions(vec![session]) }
}
