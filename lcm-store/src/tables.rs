//! The redb tables and their keys; `docs/format.md` describes each.
//!
//! A turn touches five of them: `records`, `hashes`, `places`, `timeline`, `ops` (and `again` when a message is
//! said twice). All others change when a session begins, branches or folds.

use redb::{ReadTransaction, TableDefinition, TableError, WriteTransaction};

/// Facts about the store as a whole: `format`.
pub(crate) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
/// zstd dictionaries, by number from 1.
pub(crate) const DICTIONARIES: TableDefinition<u32, &[u8]> = TableDefinition::new("dictionaries");
/// Canonical bytes of nodes and bodies, by record number from 1.
pub(crate) const RECORDS: TableDefinition<u64, &[u8]> = TableDefinition::new("records");
/// The first half of a hash -> record number and first arrival.
pub(crate) const HASHES: TableDefinition<u128, (u64, u64)> = TableDefinition::new("hashes");
/// Every place, by arrival number.
pub(crate) const PLACES: TableDefinition<u64, &[u8]> = TableDefinition::new("places");
/// Timeline number and order key, big-endian -> arrival number.
pub(crate) const TIMELINE: TableDefinition<&[u8], u64> = TableDefinition::new("timeline");
/// The second and later places of a node: record number, arrival number.
pub(crate) const AGAIN: TableDefinition<(u64, u64), ()> = TableDefinition::new("again");
/// History, by op number.
pub(crate) const OPS: TableDefinition<u64, &[u8]> = TableDefinition::new("ops");
/// Sessions, by number.
pub(crate) const SESSIONS: TableDefinition<u64, &[u8]> = TableDefinition::new("sessions");
/// Owner number and the host's name of a session -> session number.
pub(crate) const SESSION_NAMES: TableDefinition<(u64, &str), u64> = TableDefinition::new("session_names");
/// Timelines, by number.
pub(crate) const TIMELINES: TableDefinition<u64, &[u8]> = TableDefinition::new("timelines");
/// Every timeline a session ever had: session number, timeline number.
pub(crate) const SESSION_TIMELINES: TableDefinition<(u64, u64), ()> = TableDefinition::new("session_timelines");
/// Agent and person -> owner number.
pub(crate) const OWNERS: TableDefinition<(&str, &str), u64> = TableDefinition::new("owners");
/// Later forms of a message: arrival and number of the revision from 1 -> record and moment.
pub(crate) const REVISIONS: TableDefinition<(u64, u32), &[u8]> = TableDefinition::new("revisions");
/// The views of a session: session and op number -> segments.
pub(crate) const VIEWS: TableDefinition<(u64, u64), &[u8]> = TableDefinition::new("views");
/// Messages of a session that are never folded: session number, arrival number.
pub(crate) const PINS: TableDefinition<(u64, u64), ()> = TableDefinition::new("pins");
/// A summary's children: its record number -> packed record numbers.
pub(crate) const CHILDREN: TableDefinition<u64, &[u8]> = TableDefinition::new("children");
/// Reverse links: child's record number, parent's record number.
pub(crate) const PARENTS: TableDefinition<(u64, u64), ()> = TableDefinition::new("parents");
/// Summaries by their small integer -> arrival number of their place.
pub(crate) const SUMMARIES: TableDefinition<u64, u64> = TableDefinition::new("summaries");

/// Expands `$each!(TABLE)` for every table; the one list of them.
macro_rules! each {
    ($each:ident) => {
        $each!($crate::tables::META);
        $each!($crate::tables::DICTIONARIES);
        $each!($crate::tables::RECORDS);
        $each!($crate::tables::HASHES);
        $each!($crate::tables::PLACES);
        $each!($crate::tables::TIMELINE);
        $each!($crate::tables::AGAIN);
        $each!($crate::tables::OPS);
        $each!($crate::tables::SESSIONS);
        $each!($crate::tables::SESSION_NAMES);
        $each!($crate::tables::TIMELINES);
        $each!($crate::tables::SESSION_TIMELINES);
        $each!($crate::tables::OWNERS);
        $each!($crate::tables::REVISIONS);
        $each!($crate::tables::VIEWS);
        $each!($crate::tables::PINS);
        $each!($crate::tables::CHILDREN);
        $each!($crate::tables::PARENTS);
        $each!($crate::tables::SUMMARIES);
    };
}
pub(crate) use each;

/// Makes every table, so that no reader meets an absent one.
pub(crate) fn create_all(txn: &WriteTransaction) -> Result<(), TableError> {
    macro_rules! create {
        ($table:expr) => {
            txn.open_table($table)?;
        };
    }
    each!(create);
    Ok(())
}

/// The tables nearly every read needs, opened once a snapshot.
pub(crate) struct ReadTables {
    pub(crate) records: redb::ReadOnlyTable<u64, &'static [u8]>,
    pub(crate) hashes: redb::ReadOnlyTable<u128, (u64, u64)>,
    pub(crate) places: redb::ReadOnlyTable<u64, &'static [u8]>,
    pub(crate) timeline: redb::ReadOnlyTable<&'static [u8], u64>,
    pub(crate) timelines: redb::ReadOnlyTable<u64, &'static [u8]>,
    pub(crate) sessions: redb::ReadOnlyTable<u64, &'static [u8]>,
}

impl ReadTables {
    pub(crate) fn open(txn: &ReadTransaction) -> Result<Self, TableError> {
        Ok(Self {
            records: txn.open_table(RECORDS)?,
            hashes: txn.open_table(HASHES)?,
            places: txn.open_table(PLACES)?,
            timeline: txn.open_table(TIMELINE)?,
            timelines: txn.open_table(TIMELINES)?,
            sessions: txn.open_table(SESSIONS)?,
        })
    }
}

/// The key of a place in `timeline`.
pub(crate) fn timeline_key(timeline: lcm_core::TimelineId, order: &[u8]) -> Vec<u8> {
    let mut key = timeline.0.to_be_bytes().to_vec();
    key.extend_from_slice(order);
    key
}
