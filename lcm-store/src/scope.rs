//! Who may read what. A scope is part of every query, never a filter over its answer.
//!
//! A scope names owners (agent and person) and, within those, sessions. It is resolved once a snapshot into
//! numbers that the tables and the index know; a name that nobody has resolves to nothing, and nothing is found.

use std::collections::BTreeSet;

use lcm_core::{Arrival, OrderKey, SessionId, TimelineId};

use crate::error::StoreError;
use crate::record::PlaceRow;
use crate::snapshot::Snapshot;
use crate::tables;

/// What a reader may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// Whose messages.
    pub owners: Owners,
    /// Only these sessions; empty for every session of those owners.
    pub sessions: Vec<SessionId>,
    /// Which timelines of a session.
    pub branches: Branches,
}

/// Whose messages a scope reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owners {
    /// Everybody's: the owner of the data directory, at the command line.
    All,
    /// Those that match one of these.
    Matching(Vec<OwnerPattern>),
}

/// An agent, a person, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerPattern {
    /// This agent only.
    pub agent: Option<String>,
    /// This person only.
    pub person: Option<String>,
}

/// Which timelines of a session belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branches {
    /// The one it goes on with, and what that shares with the ones it left.
    Current,
    /// What was said and not taken back: the one it goes on with, and of those that share nothing with it, which a host
    /// began anew under the same name, the newest of each beginning.
    Standing,
    /// All that it ever had.
    All,
}

impl Scope {
    /// Everything in the store: for its owner.
    #[must_use]
    pub fn everything() -> Self {
        Self { owners: Owners::All, sessions: Vec::new(), branches: Branches::All }
    }

    /// Narrows the scope to sessions.
    #[must_use]
    pub fn in_sessions(mut self, sessions: Vec<SessionId>) -> Self {
        self.sessions = sessions;
        self
    }
}

/// A part of a timeline: all of it, or the prefix that a branch shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) timeline: TimelineId,
    /// The last shared place, and the newest arrival at the moment of branching; `None` for all of it. Nothing beyond
    /// either is in the span.
    pub(crate) until: Option<(OrderKey, Arrival)>,
    /// The same of each branch, where several share this timeline.
    prefixes: Vec<(OrderKey, Arrival)>,
}

impl Span {
    /// All of a timeline.
    pub(crate) fn whole(timeline: TimelineId) -> Self {
        Self { timeline, until: None, prefixes: Vec::new() }
    }

    /// What a branch shares of a timeline: its places up to and with `last`, as far as they came by `newest`.
    pub(crate) fn prefix(timeline: TimelineId, last: OrderKey, newest: Arrival) -> Self {
        Self { timeline, until: Some((last.clone(), newest)), prefixes: vec![(last, newest)] }
    }

    /// Whether a place of this timeline lies in the span.
    pub(crate) fn holds(&self, arrival: Arrival, order: &OrderKey) -> bool {
        self.until.is_none() || self.prefixes.iter().any(|(last, newest)| order <= last && arrival <= *newest)
    }
}

/// A scope in the numbers of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resolved {
    Everything,
    Owners(BTreeSet<u64>),
    Spans(Vec<Span>),
}

impl Resolved {
    pub(crate) fn new(scope: &Scope, snapshot: &Snapshot) -> Result<Self, StoreError> {
        let owners = match &scope.owners {
            Owners::All => None,
            Owners::Matching(patterns) => {
                let mut numbers = BTreeSet::new();
                for (owner, number) in snapshot.owners()? {
                    let fits = |pattern: &OwnerPattern| {
                        pattern.agent.as_ref().is_none_or(|agent| *agent == owner.agent)
                            && pattern.person.as_ref().is_none_or(|person| *person == owner.person)
                    };
                    if patterns.iter().any(fits) {
                        numbers.insert(number);
                    }
                }
                Some(numbers)
            }
        };
        if scope.sessions.is_empty() {
            return Ok(owners.map_or(Self::Everything, Self::Owners));
        }
        let mut spans: Vec<Span> = Vec::new();
        for &session in &scope.sessions {
            let Some(row) = snapshot.session_row(session)? else { continue };
            if owners.as_ref().is_some_and(|owners| !owners.contains(&row.owner)) {
                continue;
            }
            let current = TimelineId(row.timeline);
            let lineages = match scope.branches {
                Branches::Current => vec![snapshot.lineage(current)?],
                Branches::Standing => standing(snapshot, session, current)?,
                Branches::All => {
                    let timelines = snapshot.timelines_of(session)?.into_iter();
                    timelines.map(|timeline| snapshot.lineage(timeline)).collect::<Result<_, _>>()?
                }
            };
            for lineage in lineages {
                for span in lineage {
                    match spans.iter_mut().find(|known| known.timeline == span.timeline) {
                        None => spans.push(span),
                        Some(known) => known.widen(span),
                    }
                }
            }
        }
        spans.sort_by_key(|span| span.timeline);
        Ok(Self::Spans(spans))
    }

    /// Whether the reader may see this place.
    pub(crate) fn admits(
        &self,
        arrival: Arrival,
        row: &PlaceRow,
        owner_of: impl FnOnce() -> Result<u64, StoreError>,
    ) -> Result<bool, StoreError> {
        match self {
            Self::Everything => Ok(true),
            Self::Owners(owners) => Ok(owners.contains(&owner_of()?)),
            Self::Spans(spans) => {
                let timeline = TimelineId(row.timeline);
                let Ok(at) = spans.binary_search_by_key(&timeline, |span| span.timeline) else { return Ok(false) };
                Ok(spans[at].holds(arrival, &row.order_key(arrival)?))
            }
        }
    }
}

/// The lineage of the current timeline, and of every beginning that has nothing to do with it the newest.
fn standing(snapshot: &Snapshot, session: SessionId, current: TimelineId) -> Result<Vec<Vec<Span>>, StoreError> {
    // A timeline is younger than what it branched off.
    let beginning = |lineage: &[Span]| lineage.iter().map(|span| span.timeline).min();
    let mut lineages = vec![snapshot.lineage(current)?];
    let mut beginnings = vec![beginning(&lineages[0])];
    for timeline in snapshot.timelines_of(session)?.into_iter().rev() {
        let lineage = snapshot.lineage(timeline)?;
        let begins = beginning(&lineage);
        if !beginnings.contains(&begins) {
            beginnings.push(begins);
            lineages.push(lineage);
        }
    }
    Ok(lineages)
}

impl Span {
    /// Where the span begins, behind `after`, and ends in `timeline`: from the first key up to, and without, the
    /// second. An order key with a byte behind it is the smallest that is larger.
    pub(crate) fn keys(&self, after: Option<&OrderKey>) -> (Vec<u8>, Vec<u8>) {
        let behind = |order: &OrderKey| {
            let mut key = tables::timeline_key(self.timeline, order.as_bytes());
            key.push(0);
            key
        };
        let low = after.map_or_else(|| tables::timeline_key(self.timeline, &[]), behind);
        let high = match &self.until {
            Some((last, _)) => behind(last),
            None => tables::timeline_key(TimelineId(self.timeline.0 + 1), &[]),
        };
        (low, high)
    }

    /// Adds another span of the same timeline. Of two prefixes neither need hold the other: a shorter one that was
    /// shared later has late places that the longer one lacks.
    fn widen(&mut self, other: Self) {
        match (&mut self.until, other.until) {
            (until, None) => *until = None,
            (Some(mine), Some(theirs)) => {
                mine.0 = theirs.0.max(mine.0.clone());
                mine.1 = mine.1.max(theirs.1);
                self.prefixes.extend(other.prefixes);
            }
            (None, Some(_)) => {}
        }
    }
}
