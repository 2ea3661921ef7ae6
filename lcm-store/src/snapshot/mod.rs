//! One consistent read: everything a caller sees through a snapshot is of one moment.
//!
//! A snapshot pins the database's pages and the generation of the store, so it should live as long as one page
//! of an answer and no longer. Every node given out is hashed again and refused when it does not match its id. Everything
//! public here contains what the database does on a damaged page (`contained`).
//!
//! Its parts: `places` finds what stands at a number or under an id, for whoever may see it; `nodes` reads the bytes of
//! it, and the links between summaries and what they stand for; `log` lists a timeline in order; `sessions` says whose
//! timelines there are, and what was done to them.

mod places;
mod nodes;
mod log;
mod sessions;

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, RwLock};

use lcm_core::{Arrival, OrderKey, Owner, SessionId, SummaryNumber, TimelineId};
use redb::ReadTransaction;

use crate::error::{StoreError, contained};
use crate::open::{Files, Pin};
use crate::pack::Dictionary;
use crate::tables::ReadTables;

pub use self::log::Listed;
pub use self::nodes::Buffer;
pub(crate) use self::nodes::Near;
pub(crate) use self::places::placed;

/// A consistent read of the whole store.
pub struct Snapshot {
    // Order matters: the transaction ends before the generation is let go.
    pub(crate) tables: ReadTables,
    pub(crate) txn: ReadTransaction,
    pub(crate) pin: Pin,
    dictionaries: Arc<Dictionaries>,
}

/// Dictionaries by number, loaded when a record first needs one.
#[derive(Default)]
pub(crate) struct Dictionaries(RwLock<HashMap<(u64, u32), Arc<Dictionary>>>);

/// A record number: where a node's bytes are kept. Means nothing outside of its store and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordNumber(pub(crate) u64);

/// A session as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number.
    pub id: SessionId,
    /// Who may read it.
    pub owner: Owner,
    /// What its host calls it.
    pub name: String,
    /// The program or file it came from.
    pub source: String,
    /// Milliseconds since 1970 UTC.
    pub created_ms: i64,
    /// The timeline it goes on with.
    pub timeline: TimelineId,
}

/// A timeline as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// Its number.
    pub id: TimelineId,
    /// The session it belongs to.
    pub session: SessionId,
    /// The timeline it branched off, and the last place it shares with it.
    pub parent: Option<(TimelineId, OrderKey)>,
    /// Milliseconds since 1970 UTC.
    pub created_ms: i64,
}

/// What stands at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// When it came; the number that agents quote.
    pub arrival: Arrival,
    /// The timeline it was added to.
    pub timeline: TimelineId,
    /// Where in it; for a summary, the first place it stands for.
    pub order: OrderKey,
    /// Its small integer, when it is a summary.
    pub summary: Option<SummaryNumber>,
    /// Where its bytes are.
    pub record: RecordNumber,
    /// When the message was said, as its host tells, else when it came: milliseconds since 1970 UTC.
    pub seen_ms: i64,
    /// The stored count.
    pub tokens: u32,
    /// The keys that belong to the place, as one JSON object; empty for none.
    pub volatile: Vec<u8>,
}

impl Snapshot {
    pub(crate) fn new(files: &Files, dictionaries: &Arc<Dictionaries>) -> Result<Self, StoreError> {
        let (txn, pin) = files.begin_read()?;
        let tables = contained(pin.path(), || Ok(ReadTables::open(&txn)?))?;
        Ok(Self { tables, txn, pin, dictionaries: dictionaries.clone() })
    }
}

/// The keys of a range as they come. Where keys are damaged, a range gives what lies outside of it, or the same twice.
struct Rising<K> {
    table: &'static str,
    range: RangeInclusive<K>,
    last: Option<K>,
}

impl<K: PartialOrd + Copy + std::fmt::Debug> Rising<K> {
    fn new(table: &'static str, range: RangeInclusive<K>) -> Self {
        Self { table, range, last: None }
    }

    /// Takes the next key, which must lie in the range and behind those before it.
    fn take(&mut self, key: K) -> Result<(), StoreError> {
        if !self.range.contains(&key) || self.last.is_some_and(|last| last >= key) {
            return Err(StoreError::row(self.table, format_args!("{key:?}"), "it is listed out of order"));
        }
        self.last = Some(key);
        Ok(())
    }
}

fn stored_order(table: &'static str, key: impl ToString, bytes: &[u8]) -> Result<OrderKey, StoreError> {
    OrderKey::from_bytes(bytes).ok_or_else(|| StoreError::row(table, key, "an order key has no legal length"))
}
