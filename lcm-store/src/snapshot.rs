//! One consistent read: everything a caller sees through a snapshot is of one moment.
//!
//! A snapshot pins the database's pages and the generation of the store, so it should live as long as one page
//! of an answer and no longer. Every node given out is hashed again and refused when it does not match its id. Everything
//! public here contains what the database does on a damaged page (`contained`).

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use lcm_core::op::Op;
use lcm_core::view::View;
use lcm_core::{
    Arrival, IdPrefix, NodeId, OpId, OrderKey, Owner, SessionId, StoredMessage, Summary, SummaryNumber, TimelineId,
    canon,
};
use redb::{
    AccessGuard, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError, TableDefinition, TableHandle,
};

use crate::error::{StoreError, contained, unless_damaged};
use crate::open::{Files, Pin, lock};
use crate::pack::{self, Dictionary};
use crate::record::{self, ChildrenRow, OpRow, PlaceRow, RevisionRow, Row, SessionRow, TimelineRow, ViewRow};
use crate::scope::{Resolved, Scope, Span};
use crate::tables::{self, ReadTables};

/// Nodes for each core that helps reading many: for fewer, waking it costs more.
const PARALLEL_MIN: usize = 32;
/// Nodes that one core takes at a time.
const SHARE: usize = 16;

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

/// One line of a log.
#[derive(Debug)]
pub enum Listed {
    /// What stands there.
    Whole(Placed),
    /// What stands there cannot be read.
    Damaged {
        /// Its number.
        arrival: Arrival,
        /// Where in the log it stands.
        order: OrderKey,
        /// What is wrong with it.
        why: StoreError,
    },
}

impl Listed {
    /// Where in the log it stands.
    #[must_use]
    pub fn order(&self) -> &OrderKey {
        match self {
            Self::Whole(placed) => &placed.order,
            Self::Damaged { order, .. } => order,
        }
    }

    /// Its number.
    #[must_use]
    pub fn arrival(&self) -> Arrival {
        match self {
            Self::Whole(placed) => placed.arrival,
            Self::Damaged { arrival, .. } => *arrival,
        }
    }

    /// What stands there; `None` when it is damaged.
    #[must_use]
    pub fn placed(&self) -> Option<&Placed> {
        match self {
            Self::Whole(placed) => Some(placed),
            Self::Damaged { .. } => None,
        }
    }

    /// What stands there.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn whole(self) -> Result<Placed, StoreError> {
        match self {
            Self::Whole(placed) => Ok(placed),
            Self::Damaged { why, .. } => Err(why),
        }
    }
}

/// Whether a read hashes what it reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hashes {
    Checked,
    Unchecked,
}

/// More places than these are not hidden by a damaged page; such a difference is a damaged number.
const HIDDEN_MAX: u64 = 1 << 16;

/// More record numbers between the first and the last are no run of writes.
const NEAR_MAX: u64 = 4096;

/// Rows of `records` that were read as one range. What was written together lies together, and one walk costs less
/// than a look-up each.
#[derive(Default)]
pub(crate) struct Near {
    first: u64,
    rows: Vec<Option<AccessGuard<'static, &'static [u8]>>>,
}

impl Near {
    fn get(&self, record: u64) -> Option<&[u8]> {
        let at = usize::try_from(record.checked_sub(self.first)?).ok()?;
        Some(self.rows.get(at)?.as_ref()?.value())
    }
}

/// Room for one node's bytes, used again and again.
#[derive(Default)]
pub struct Buffer {
    main: Vec<u8>,
    canon_len: usize,
    id: [u8; 32],
    bodies: Vec<Vec<u8>>,
    body_count: usize,
}

impl Buffer {
    /// The id of the node read last.
    #[must_use]
    pub fn id(&self) -> NodeId {
        NodeId::from_bytes(self.id)
    }

    /// Hands the message read last to `look`.
    pub fn with_message<R>(&self, look: impl FnOnce(StoredMessage<'_>) -> R) -> R {
        let (canon, order) = self.main.split_at(self.canon_len);
        // Nearly every message has one body or none: no allocation for those.
        match &self.bodies[..self.body_count] {
            [] => look(StoredMessage { canon, order, bodies: &[] }),
            [one] => look(StoredMessage { canon, order, bodies: &[one] }),
            many => {
                let bodies: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
                look(StoredMessage { canon, order, bodies: &bodies })
            }
        }
    }

    /// The canonical bytes of the node read last.
    #[must_use]
    pub fn canon(&self) -> &[u8] {
        &self.main[..self.canon_len]
    }
}

impl Snapshot {
    pub(crate) fn new(files: &Files, dictionaries: &Arc<Dictionaries>) -> Result<Self, StoreError> {
        let (txn, pin) = files.begin_read()?;
        let tables = contained(pin.path(), || Ok(ReadTables::open(&txn)?))?;
        Ok(Self { tables, txn, pin, dictionaries: dictionaries.clone() })
    }

    /// The newest arrival number, 0 for an empty store.
    ///
    /// # Errors
    /// When the database fails.
    pub fn last_arrival(&self) -> Result<Arrival, StoreError> {
        contained(self.pin.path(), || Ok(Arrival(self.tables.places.last()?.map_or(0, |(key, _)| key.value()))))
    }

    /// The number of places: messages and published summaries.
    ///
    /// # Errors
    /// When the database fails.
    pub fn places_len(&self) -> Result<u64, StoreError> {
        contained(self.pin.path(), || Ok(self.tables.places.len()?))
    }

    /// The number of rows that hold distinct messages, summaries and bodies; a long one takes several.
    ///
    /// # Errors
    /// When the database fails.
    pub fn record_rows_len(&self) -> Result<u64, StoreError> {
        contained(self.pin.path(), || Ok(self.tables.records.len()?))
    }

    /// The last number of a place to look for, and whether numbers behind it may be lost.
    ///
    /// Nothing is ever deleted, so the last number is also how many there are. Where a damaged page lets the two
    /// differ, the larger one is believed, unless it is so large that only a damaged number can be.
    pub(crate) fn place_numbers(&self) -> Result<(u64, bool), StoreError> {
        let places = &self.tables.places;
        let (last, rows) = (places.last()?.map_or(0, |(key, _)| key.value()), places.len()?);
        let known = last.max(rows).min(last.min(rows).saturating_add(HIDDEN_MAX));
        Ok((known, known < last.max(rows)))
    }

    /// What stands at `arrival`, whoever asks; an error where something stood. Callers that answer a person or an agent
    /// use [`Snapshot::find_place`].
    pub(crate) fn place_row(&self, arrival: Arrival) -> Result<Option<PlaceRow>, StoreError> {
        match self.tables.places.get(arrival.0)? {
            Some(row) => PlaceRow::from_bytes(row.value(), arrival.0).map(Some),
            None if (1..=self.place_numbers()?.0).contains(&arrival.0) => Err(missing(arrival)),
            None => Ok(None),
        }
    }

    /// The rows of `places` for every number of a range, rising. There are no gaps in the numbers, so a row that
    /// does not come is damage.
    pub(crate) fn place_rows(&self, range: RangeInclusive<u64>) -> Result<PlaceRows<'_>, StoreError> {
        let rows = self.tables.places.range(range.clone())?;
        Ok(PlaceRows { snapshot: self, numbers: range, rows, ahead: None })
    }

    /// What stands at `arrival`, when `scope` reaches it.
    ///
    /// # Errors
    /// When the database fails or the row is damaged.
    pub fn find_place(&self, scope: &Scope, arrival: Arrival) -> Result<Option<Placed>, StoreError> {
        contained(self.pin.path(), || {
            let resolved = Resolved::new(scope, self)?;
            let Some(row) = self.place_row(arrival)? else { return Ok(None) };
            let seen = self.admits(&resolved, arrival, &row)?;
            if seen { placed(arrival, row).map(Some) } else { Ok(None) }
        })
    }

    pub(crate) fn admits(&self, scope: &Resolved, arrival: Arrival, row: &PlaceRow) -> Result<bool, StoreError> {
        scope.admits(arrival, row, || Ok(self.timeline_row(TimelineId(row.timeline))?.owner))
    }

    /// The places of every node in scope whose id begins with `prefix`, at most one place a node and at most
    /// `max` nodes; the newest place of each.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn find_nodes(
        &self,
        scope: &Scope,
        prefix: &IdPrefix,
        max: usize,
    ) -> Result<Vec<(NodeId, Placed)>, StoreError> {
        contained(self.pin.path(), || {
            let resolved = Resolved::new(scope, self)?;
            let (low, high) = prefix.range();
            let mut found = Vec::new();
            let mut keys = Rising::new("hashes", low.key()..=high.key());
            for entry in self.tables.hashes.range(low.key()..=high.key())? {
                let (key, value) = entry?;
                keys.take(key.value())?;
                let (record, first) = value.value();
                if first == 0 {
                    continue;
                }
                let row = self.tables.records.get(record)?;
                let row = row.ok_or_else(|| StoreError::row("records", record, "it is missing"))?;
                let id = NodeId::from_bytes(pack::head(row.value(), record)?.id);
                if id.key() != key.value() {
                    return Err(StoreError::row("hashes", record, "it leads to a node with another hash"));
                }
                if !prefix.matches(&id) {
                    continue;
                }
                if let Some(placed) = self.newest_place(&resolved, record, first)? {
                    found.push((id, placed));
                    if found.len() == max {
                        break;
                    }
                }
            }
            Ok(found)
        })
    }

    fn newest_place(&self, scope: &Resolved, record: u64, first: u64) -> Result<Option<Placed>, StoreError> {
        let again = self.txn.open_table(tables::AGAIN)?;
        for entry in again.range((record, 0)..=(record, u64::MAX))?.rev() {
            let arrival = Arrival(entry?.0.value().1);
            if let Some(placed) = self.admitted(scope, record, arrival)? {
                return Ok(Some(placed));
            }
        }
        self.admitted(scope, record, Arrival(first))
    }

    /// The place to which a link from `record` leads, when the scope reaches it.
    fn admitted(&self, scope: &Resolved, record: u64, arrival: Arrival) -> Result<Option<Placed>, StoreError> {
        // Links have no check of their own, so both ends must agree.
        let Some(row) = self.place_row(arrival)?.filter(|row| row.record == record) else {
            return Err(StoreError::row(
                "hashes",
                record,
                format_args!("it leads to place {arrival}, where it does not stand"),
            ));
        };
        if self.admits(scope, arrival, &row)? { placed(arrival, row).map(Some) } else { Ok(None) }
    }

    /// Every place in scope at which the node of `record` stands, rising.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn places_of(&self, scope: &Scope, id: &NodeId) -> Result<Vec<Placed>, StoreError> {
        contained(self.pin.path(), || {
            let resolved = Resolved::new(scope, self)?;
            let Some(value) = self.tables.hashes.get(id.key())? else { return Ok(Vec::new()) };
            let (record, first) = value.value();
            let mut places = Vec::new();
            if first != 0 {
                places.extend(self.admitted(&resolved, record, Arrival(first))?);
            }
            let again = self.txn.open_table(tables::AGAIN)?;
            let mut keys = Rising::new("again", (record, 0)..=(record, u64::MAX));
            for entry in again.range((record, 0)..=(record, u64::MAX))? {
                let key = entry?.0.value();
                keys.take(key)?;
                places.extend(self.admitted(&resolved, record, Arrival(key.1))?);
            }
            Ok(places)
        })
    }

    /// The place of the summary with this small integer, when `scope` reaches it.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn find_summary(&self, scope: &Scope, number: SummaryNumber) -> Result<Option<Placed>, StoreError> {
        contained(self.pin.path(), || {
            let arrival = self.txn.open_table(tables::SUMMARIES)?.get(number.0)?.map(|arrival| arrival.value());
            let Some(arrival) = arrival.map(Arrival) else { return Ok(None) };
            match self.find_place(scope, arrival)? {
                Some(placed) if placed.summary != Some(number) => Err(StoreError::row(
                    "summaries",
                    number,
                    format_args!("it leads to place {arrival}, where it does not stand"),
                )),
                placed => Ok(placed),
            }
        })
    }

    /// Reads a node into `buffer` and checks every hash.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] and its kin when bytes do not match their ids.
    pub fn read(&self, record: RecordNumber, buffer: &mut Buffer) -> Result<(), StoreError> {
        contained(self.pin.path(), || {
            let row = self.tables.records.get(record.0)?;
            let row = row.ok_or_else(|| StoreError::row("records", record.0, "it is missing"))?;
            self.read_row(record.0, row.value(), buffer, &Near::default(), Hashes::Checked)
        })
    }

    /// Reads a node into `buffer` to look through it, without hashing it again: a search reads thousands for every
    /// one it gives out, and checks that one ([`Snapshot::check_read`]).
    pub(crate) fn read_unchecked(
        &self,
        record: RecordNumber,
        near: &Near,
        buffer: &mut Buffer,
    ) -> Result<(), StoreError> {
        contained(self.pin.path(), || match near.get(record.0) {
            Some(row) => self.read_row(record.0, row, buffer, near, Hashes::Unchecked),
            None => {
                let row = self.tables.records.get(record.0)?;
                let row = row.ok_or_else(|| StoreError::row("records", record.0, "it is missing"))?;
                self.read_row(record.0, row.value(), buffer, near, Hashes::Unchecked)
            }
        })
    }

    /// Checks what [`Snapshot::read_unchecked`] read last.
    pub(crate) fn check_read(&self, buffer: &Buffer) -> Result<(), StoreError> {
        let (id, actual) = (buffer.id(), canon::message_id(buffer.canon()));
        if actual != id {
            return Err(StoreError::Damaged { id, actual });
        }
        if buffer.body_count == 0 {
            return Ok(());
        }
        let named = canon::body_refs(buffer.canon()).map_err(|error| StoreError::row("records", id, error))?;
        for (body, named) in buffer.bodies.iter().zip(named).take(buffer.body_count) {
            if canon::body_id(body) != named.id {
                return Err(StoreError::DamagedBody(named.id));
            }
        }
        Ok(())
    }

    /// The records of a range, read in one go; none for a range too wide to be one run of writes.
    pub(crate) fn near(&self, range: RangeInclusive<u64>) -> Result<Near, StoreError> {
        let (first, last) = (*range.start(), *range.end());
        if last.saturating_sub(first) > NEAR_MAX {
            return Ok(Near::default());
        }
        contained(self.pin.path(), || {
            let mut near = Near { first, rows: Vec::new() };
            for entry in self.tables.records.range(range.clone())? {
                let (key, row) = entry?;
                if !range.contains(&key.value()) {
                    // A damaged key; whoever wants the row behind it asks for it by its number.
                    continue;
                }
                let at = usize::try_from(key.value().saturating_sub(first)).unwrap_or(usize::MAX);
                if near.rows.len() <= at {
                    near.rows.resize_with(at + 1, || None);
                }
                near.rows[at] = Some(row);
            }
            Ok(near)
        })
    }

    fn read_row(
        &self,
        number: u64,
        row: &[u8],
        buffer: &mut Buffer,
        near: &Near,
        hashes: Hashes,
    ) -> Result<(), StoreError> {
        let head = pack::head(row, number)?;
        buffer.main.clear();
        buffer.canon_len = head.canon_len();
        buffer.id = head.id;
        buffer.body_count = 0;
        self.unpack(&head, number, &mut buffer.main)?;
        if hashes == Hashes::Checked {
            let actual = canon::message_id(&buffer.main[..buffer.canon_len]);
            if actual != buffer.id() {
                return Err(StoreError::Damaged { id: buffer.id(), actual });
            }
        }
        // The links stand in the header, which no hash covers; the canonical bytes say what they must lead to.
        let canon = &buffer.main[..buffer.canon_len];
        let named = match canon.first() {
            // A summary has all it says in itself.
            Some(b'S') => Vec::new(),
            _ => canon::body_refs(canon).map_err(|error| StoreError::row("records", number, error))?,
        };
        let links = head.bodies.as_slice();
        if named.len() != links.len() {
            return Err(StoreError::row("records", number, "its links to bodies are not those it names"));
        }
        for (&body, named) in links.iter().zip(named) {
            let id = named.id;
            if buffer.bodies.len() == buffer.body_count {
                buffer.bodies.push(Vec::new());
            }
            let room = &mut buffer.bodies[buffer.body_count];
            room.clear();
            match near.get(body) {
                Some(row) => self.unpack(&pack::head(row, body)?, body, room)?,
                None => {
                    let row = self.tables.records.get(body)?.ok_or(StoreError::DamagedBody(id))?;
                    self.unpack(&pack::head(row.value(), body)?, body, room)?;
                }
            }
            if hashes == Hashes::Checked && canon::body_id(room) != id {
                return Err(StoreError::DamagedBody(id));
            }
            buffer.body_count += 1;
        }
        Ok(())
    }

    /// Appends what a record holds to `out`: canonical bytes and, behind them, key order.
    pub(crate) fn unpack(&self, head: &pack::Head<'_>, number: u64, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let dictionary = match head.dictionary() {
            0 => None,
            dictionary => Some(self.dictionary(dictionary)?),
        };
        let behind = head.rows_behind() as u64;
        if behind == 0 {
            return head.unpack(head.first(), dictionary.as_deref(), number, out);
        }
        let mut stored = head.first().to_vec();
        for entry in self.tables.records.range(number + 1..=number.saturating_add(behind))? {
            let (_, row) = entry?;
            let part = pack::continuation(row.value());
            stored
                .extend_from_slice(part.ok_or_else(|| StoreError::row("records", number, "a part of it is missing"))?);
        }
        head.unpack(&stored, dictionary.as_deref(), number, out)
    }

    fn dictionary(&self, number: u32) -> Result<Arc<Dictionary>, StoreError> {
        let key = (self.pin.number, number);
        if let Some(known) = self.dictionaries.0.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let table = self.txn.open_table(tables::DICTIONARIES)?;
        let bytes = table.get(number)?.ok_or_else(|| StoreError::row("dictionaries", number, "it is missing"))?;
        let dictionary = Dictionary::new(number, bytes.value())?;
        let mut known = self.dictionaries.0.write().unwrap_or_else(PoisonError::into_inner);
        Ok(known.entry(key).or_insert(dictionary).clone())
    }

    /// The dictionary for new records: the newest.
    pub(crate) fn newest_dictionary(&self) -> Result<Option<Arc<Dictionary>>, StoreError> {
        contained(self.pin.path(), || {
            let newest = self.txn.open_table(tables::DICTIONARIES)?.last()?.map(|(key, _)| key.value());
            newest.map(|number| self.dictionary(number)).transpose()
        })
    }

    /// Whether the store holds a node or body with the hash whose first half is `key`.
    pub(crate) fn knows(&self, key: u128) -> Result<bool, StoreError> {
        Ok(self.tables.hashes.get(key)?.is_some())
    }

    /// Reads a summary.
    ///
    /// # Errors
    /// When it is damaged, or `record` is no summary.
    pub fn summary(&self, record: RecordNumber, buffer: &mut Buffer) -> Result<Summary, StoreError> {
        self.read(record, buffer)?;
        canon::decode_summary(buffer.canon()).map_err(|error| StoreError::row("records", record.0, error))
    }

    /// The records of a summary's children, in order; empty for a message.
    ///
    /// # Errors
    /// When the database fails or the row is damaged.
    pub fn children(&self, record: RecordNumber) -> Result<Vec<RecordNumber>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::CHILDREN)?;
            let Some(row) = table.get(record.0)? else { return Ok(Vec::new()) };
            let numbers = ChildrenRow::from_bytes(row.value(), record.0)?.records(record.0)?;
            Ok(numbers.into_iter().map(RecordNumber).collect())
        })
    }

    /// The places of a summary's children, in order, as far as `scope` reaches them; empty for a message.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn child_places(&self, scope: &Scope, record: RecordNumber) -> Result<Vec<Placed>, StoreError> {
        contained(self.pin.path(), || {
            let resolved = Resolved::new(scope, self)?;
            let table = self.txn.open_table(tables::CHILDREN)?;
            let Some(row) = table.get(record.0)? else { return Ok(Vec::new()) };
            let numbers = ChildrenRow::from_bytes(row.value(), record.0)?.places(record.0)?;
            let mut places = Vec::with_capacity(numbers.len());
            let mut take = |arrival: Arrival, row: PlaceRow| -> Result<(), StoreError> {
                if self.admits(&resolved, arrival, &row)? {
                    places.push(placed(arrival, row)?);
                }
                Ok(())
            };
            let mut numbers = numbers.as_slice();
            while let Some((&first, rest)) = numbers.split_first() {
                // What was said together mostly has numbers that follow each other: one walk, not a look-up each.
                let run = (first..).zip(numbers).take_while(|(next, number)| next == *number).count();
                if first == 0 {
                    // A child that has no place.
                    numbers = rest;
                    continue;
                }
                let last = numbers[run - 1];
                for (arrival, row) in self.place_rows(first..=last)? {
                    take(arrival, row?)?;
                }
                numbers = &numbers[run..];
            }
            Ok(places)
        })
    }

    /// The records of the summaries that stand for a node.
    ///
    /// # Errors
    /// When the database fails.
    pub fn parents(&self, record: RecordNumber) -> Result<Vec<RecordNumber>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::PARENTS)?;
            let mut parents = Vec::new();
            for entry in table.range((record.0, 0)..=(record.0, u64::MAX))? {
                let parent = RecordNumber(entry?.0.value().1);
                // A link has no check of its own, so both ends must agree.
                if !self.children(parent)?.contains(&record) {
                    return Err(StoreError::row("parents", record.0, "it leads to a summary of other nodes"));
                }
                if parents.last().is_some_and(|last| *last >= parent) {
                    return Err(StoreError::row("parents", record.0, "its links are out of order"));
                }
                parents.push(parent);
            }
            Ok(parents)
        })
    }

    /// Reads every node of `records`, checked like [`Snapshot::read`], and gives what `look` makes of each, in
    /// order. Many are spread over the cores: unpacking and hashing are most of the work of an answer.
    ///
    /// # Errors
    /// As [`Snapshot::read`], or what `look` says.
    pub fn read_each<T: Send, E: From<StoreError> + Send>(
        &self,
        records: &[RecordNumber],
        look: impl Fn(usize, &Buffer) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let shares: Vec<&[RecordNumber]> = records.chunks(SHARE).collect();
        let next = AtomicUsize::new(0);
        // Takes shares until none is left: who wakes up late takes fewer.
        let work = || {
            let mut buffer = Buffer::default();
            let mut read = Vec::new();
            loop {
                let share = next.fetch_add(1, Ordering::Relaxed);
                let Some(records) = shares.get(share) else { return read };
                read.push((share, self.read_share(records, share * SHARE, &mut buffer, &look)));
            }
        };
        let helpers = (rayon::current_num_threads() - 1).min(records.len() / PARALLEL_MIN);
        let mut read = Mutex::new(Vec::with_capacity(shares.len()));
        rayon::in_place_scope(|scope| {
            for _ in 0..helpers {
                scope.spawn(|_| lock(&read).extend(work()));
            }
            let ours = work();
            lock(&read).extend(ours);
        });
        let read = read.get_mut().unwrap_or_else(PoisonError::into_inner);
        read.sort_unstable_by_key(|(share, _)| *share);
        let mut all = Vec::with_capacity(records.len());
        for (_, share) in read.drain(..) {
            all.extend(share?);
        }
        Ok(all)
    }

    fn read_share<T, E: From<StoreError>>(
        &self,
        records: &[RecordNumber],
        from: usize,
        buffer: &mut Buffer,
        look: impl Fn(usize, &Buffer) -> Result<T, E>,
    ) -> Result<Vec<T>, E> {
        let near = self.near_these(records)?;
        let one = |(i, record): (usize, &RecordNumber)| {
            self.read_near(*record, &near, buffer)?;
            look(from + i, buffer)
        };
        records.iter().enumerate().map(one).collect()
    }

    /// The rows of some records, read as one range where they were written together.
    fn near_these(&self, records: &[RecordNumber]) -> Result<Near, StoreError> {
        let numbers = || records.iter().map(|record| record.0);
        let count = u64::try_from(records.len()).unwrap_or(u64::MAX);
        match (numbers().min(), numbers().max()) {
            // A message has one record or two, or some more when it is long.
            (Some(first), Some(last)) if last - first < 4 * count => self.near(first..=last.saturating_add(count)),
            _ => Ok(Near::default()),
        }
    }

    fn read_near(&self, record: RecordNumber, near: &Near, buffer: &mut Buffer) -> Result<(), StoreError> {
        // Even to look at a row that was read may panic.
        contained(self.pin.path(), || match near.get(record.0) {
            Some(row) => self.read_row(record.0, row, buffer, near, Hashes::Checked),
            None => self.read(record, buffer),
        })
    }

    // Sessions, timelines, history.

    /// Every owner and its number.
    pub(crate) fn owners(&self) -> Result<Vec<(Owner, u64)>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::OWNERS)?;
            let (mut owners, mut numbers) = (Vec::new(), HashSet::new());
            for entry in table.iter()? {
                let (key, number) = entry?;
                let (agent, person) = key.value();
                let owner = Owner { agent: agent.to_owned(), person: person.to_owned() };
                // Rows without a check of their own, on which every scope rests: two owners are never one.
                if !numbers.insert(number.value()) {
                    return Err(StoreError::row("owners", number.value(), "two owners have this number"));
                }
                owners.push((owner, number.value()));
            }
            Ok(owners)
        })
    }

    pub(crate) fn session_row(&self, id: SessionId) -> Result<Option<SessionRow>, StoreError> {
        match self.tables.sessions.get(id.0)? {
            None => Ok(None),
            Some(row) => SessionRow::from_bytes(row.value(), id.0).map(Some),
        }
    }

    pub(crate) fn timeline_row(&self, id: TimelineId) -> Result<TimelineRow, StoreError> {
        let row = self.tables.timelines.get(id.0)?.ok_or(StoreError::NoTimeline(id))?;
        TimelineRow::from_bytes(row.value(), id.0)
    }

    /// The sessions in scope, oldest first.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn sessions(&self, scope: &Scope) -> Result<Vec<Session>, StoreError> {
        contained(self.pin.path(), || {
            let resolved = Resolved::new(&Scope { sessions: Vec::new(), ..scope.clone() }, self)?;
            let mut sessions = Vec::new();
            let mut keys = Rising::new("sessions", 0..=u64::MAX);
            for entry in self.tables.sessions.iter()? {
                let (key, value) = entry?;
                keys.take(key.value())?;
                let id = SessionId(key.value());
                let row = SessionRow::from_bytes(value.value(), id.0)?;
                let owned = match &resolved {
                    Resolved::Owners(owners) => owners.contains(&row.owner),
                    _ => true,
                };
                if owned && (scope.sessions.is_empty() || scope.sessions.contains(&id)) {
                    sessions.push(session(id, row));
                }
            }
            Ok(sessions)
        })
    }

    /// The session with this number, whoever asks.
    ///
    /// # Errors
    /// [`StoreError::NoSession`] when there is none.
    pub fn session(&self, id: SessionId) -> Result<Session, StoreError> {
        contained(self.pin.path(), || Ok(session(id, self.session_row(id)?.ok_or(StoreError::NoSession(id))?)))
    }

    /// The session that `owner`'s host calls `name`.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn session_named(&self, owner: &Owner, name: &str) -> Result<Option<Session>, StoreError> {
        contained(self.pin.path(), || {
            let owners = self.txn.open_table(tables::OWNERS)?;
            let Some(number) = owners.get((owner.agent.as_str(), owner.person.as_str()))? else { return Ok(None) };
            let names = self.txn.open_table(tables::SESSION_NAMES)?;
            let Some(id) = names.get((number.value(), name))?.map(|id| SessionId(id.value())) else { return Ok(None) };
            let session = self.session(id)?;
            if session.name != name || session.owner != *owner {
                return Err(StoreError::row("session_names", id, "it leads to a session of another name"));
            }
            Ok(Some(session))
        })
    }

    /// A timeline.
    ///
    /// # Errors
    /// [`StoreError::NoTimeline`] when there is none.
    pub fn timeline(&self, id: TimelineId) -> Result<Timeline, StoreError> {
        contained(self.pin.path(), || {
            let row = self.timeline_row(id)?;
            let parent = match row.parent {
                None => None,
                Some((parent, last, _)) => Some((TimelineId(parent), stored_order("timelines", id, &last)?)),
            };
            Ok(Timeline { id, session: SessionId(row.session), parent, created_ms: row.created_ms })
        })
    }

    /// Every timeline a session ever had, oldest first.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn timelines_of(&self, session: SessionId) -> Result<Vec<TimelineId>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::SESSION_TIMELINES)?;
            let range = (session.0, 0)..=(session.0, u64::MAX);
            let mut keys = Rising::new("session_timelines", range.clone());
            let mut timelines = Vec::new();
            for entry in table.range(range)? {
                let key = entry?.0.value();
                keys.take(key)?;
                let id = TimelineId(key.1);
                // A key has no check of its own, so both ends must agree.
                if self.timeline_row(id)?.session != session.0 {
                    return Err(StoreError::row("session_timelines", id, "it is a timeline of another session"));
                }
                timelines.push(id);
            }
            Ok(timelines)
        })
    }

    /// The parts of timelines that a timeline is made of, its own last.
    pub(crate) fn lineage(&self, timeline: TimelineId) -> Result<Vec<Span>, StoreError> {
        let mut spans = vec![Span::whole(timeline)];
        let mut row = self.timeline_row(timeline)?;
        while let Some((parent, last, newest)) = row.parent {
            let id = TimelineId(parent);
            // Numbers rise, so a damaged link cannot lead in a circle.
            if spans.last().is_some_and(|child| child.timeline <= id) {
                return Err(StoreError::row("timelines", id, "it branched off a newer timeline"));
            }
            let last = stored_order("timelines", id, &last)?;
            // What a grandchild shares ends with what the child shared.
            let last = match spans.last().and_then(|span| span.until.as_ref()) {
                Some((bound, _)) if *bound < last => bound.clone(),
                _ => last,
            };
            spans.push(Span::prefix(id, last, Arrival(newest)));
            row = self.timeline_row(id)?;
        }
        spans.reverse();
        Ok(spans)
    }

    /// The places of a timeline and of what it shares with its ancestors, in order, from the one behind `after`
    /// on, at most `max`.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn log(&self, timeline: TimelineId, after: Option<&OrderKey>, max: usize) -> Result<Vec<Placed>, StoreError> {
        self.listed(timeline, after, max)?.into_iter().map(Listed::whole).collect()
    }

    /// As [`Snapshot::log`], but what cannot be read at a place stands in its stead: one damaged place must not hide
    /// those beside it.
    ///
    /// # Errors
    /// When the database fails, or what lists the places is damaged.
    pub fn listed(
        &self,
        timeline: TimelineId,
        after: Option<&OrderKey>,
        max: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        contained(self.pin.path(), || {
            let mut runs = Vec::new();
            for span in self.lineage(timeline)? {
                let (low, high) = span.keys(after);
                if low < high {
                    let mut rows = self.tables.timeline.range(low.as_slice()..high.as_slice())?;
                    let head = self.next_in(&span, &mut rows)?;
                    runs.push((span, rows, head));
                }
            }
            let mut places = Vec::new();
            while places.len() < max {
                // Nearly always the first run that has one left: only a late place of a branch, put between places that
                // it shares, lies in front of those.
                let heads = runs.iter().enumerate().filter_map(|(i, (_, _, head))| Some((i, head.as_ref()?.order())));
                let Some((i, _)) = heads.min_by_key(|(_, order)| *order) else { break };
                let (span, rows, head) = &mut runs[i];
                let next = self.next_in(span, rows)?;
                if let (Some(place), Some(next)) = (&head, &next)
                    && place.order() >= next.order()
                {
                    return Err(StoreError::row("timeline", next.arrival(), "it is listed behind what follows it"));
                }
                places.extend(std::mem::replace(head, next));
            }
            Ok(places)
        })
    }

    /// The next place of a span among rows of its timeline.
    fn next_in<'k>(
        &self,
        span: &Span,
        rows: &mut impl Iterator<Item = Result<(AccessGuard<'k, &'static [u8]>, AccessGuard<'k, u64>), StorageError>>,
    ) -> Result<Option<Listed>, StoreError> {
        for entry in rows {
            let (key, value) = entry?;
            let arrival = Arrival(value.value());
            let strange = || StoreError::row("timeline", arrival, "the message does not stand where it is listed");
            // Where keys are damaged, a range may give what lies outside of it, even somebody else's.
            let order = key.value().strip_prefix(span.timeline.0.to_be_bytes().as_slice());
            let order = order.and_then(OrderKey::from_bytes).ok_or_else(strange)?;
            // The row has no check of its own, so it and its place must agree.
            let place = self.place_row(arrival).and_then(|row| match placed(arrival, row.ok_or_else(strange)?)? {
                place if place.timeline == span.timeline && place.order == order => Ok(place),
                _ => Err(strange()),
            });
            return match place {
                Ok(_) if span.until.as_ref().is_some_and(|(_, newest)| arrival > *newest) => continue,
                Ok(place) => Ok(Some(Listed::Whole(place))),
                Err(why) if why.is_damage() => Ok(Some(Listed::Damaged { arrival, order, why })),
                Err(error) => Err(error),
            };
        }
        Ok(None)
    }

    /// How many messages stand in a timeline and in what it shares.
    ///
    /// # Errors
    /// When the database fails.
    pub fn log_len(&self, timeline: TimelineId) -> Result<u64, StoreError> {
        contained(self.pin.path(), || {
            let mut count = 0;
            for span in self.lineage(timeline)? {
                let (low, high) = span.keys(None);
                let mut before = Vec::new();
                for entry in self.tables.timeline.range(low.as_slice()..high.as_slice())? {
                    let (key, value) = entry?;
                    let (key, arrival) = (key.value(), Arrival(value.value()));
                    if key < low.as_slice() || key >= high.as_slice() || key <= before.as_slice() {
                        return Err(StoreError::row("timeline", arrival, "it is listed out of order"));
                    }
                    before.clear();
                    before.extend_from_slice(key);
                    if span.until.as_ref().is_none_or(|(_, newest)| arrival <= *newest) {
                        count += 1;
                    }
                }
            }
            Ok(count)
        })
    }

    /// The last place of a timeline, or of what it shares when it has none of its own.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn last_place(&self, timeline: TimelineId) -> Result<Option<Placed>, StoreError> {
        contained(self.pin.path(), || {
            let mut last = None;
            for span in self.lineage(timeline)? {
                let (low, high) = span.keys(None);
                let mut rows = self.tables.timeline.range(low.as_slice()..high.as_slice())?.rev();
                let here = self.next_in(&span, &mut rows)?.map(Listed::whole).transpose()?;
                // A branch may have no place of its own but a late one between those that it shares.
                last = here.into_iter().chain(last).max_by(|one, other| one.order.cmp(&other.order));
            }
            Ok(last)
        })
    }

    /// Proves that nothing that lists messages hides a row: a damaged page can make the rows on it absent, and whoever
    /// reads everything would not miss them.
    ///
    /// What is listed and cannot be read is no matter of this: whoever reads it meets it.
    ///
    /// # Errors
    /// [`StoreError::DamagedFile`] and [`StoreError::DamagedRow`] when rows are hidden; otherwise when the database
    /// fails.
    pub fn check_listed(&self) -> Result<(), StoreError> {
        contained(self.pin.path(), || {
            self.check_rows(tables::SESSIONS, |_, _| Ok(()))?;
            self.check_rows(tables::TIMELINES, |_, _| Ok(()))?;
            // Both ends of each agree and there are as many, so no timeline is missing.
            self.check_rows(tables::SESSION_TIMELINES, |(session, timeline), ()| {
                let id = TimelineId(timeline);
                match self.timeline_row(id)?.session == session {
                    true => Ok(()),
                    false => Err(StoreError::row("session_timelines", id, "it is a timeline of another session")),
                }
            })?;
            let of_sessions = self.txn.open_table(tables::SESSION_TIMELINES)?.len()?;
            compare("timelines", self.tables.timelines.len()?, of_sessions)?;
            self.check_rows(tables::TIMELINE, |key, arrival| {
                let arrival = Arrival(arrival);
                // One that stands elsewhere in the same timeline is met there.
                let is_met = match unless_damaged(self.place_row(arrival))? {
                    Some(Some(row)) => key.starts_with(&row.timeline.to_be_bytes()),
                    Some(None) => false,
                    None => true,
                };
                match is_met {
                    true => Ok(()),
                    false => Err(StoreError::row("timeline", arrival, "it is listed in another timeline than its own")),
                }
            })?;
            // Each place is a message's, which is listed, or a summary's.
            let (places, has_lost) = self.place_numbers()?;
            let summaries = self.txn.open_table(tables::SUMMARIES)?.len()?;
            compare("messages and summaries", places, self.tables.timeline.len()?.saturating_add(summaries))?;
            self.check_rows(tables::REVISIONS, |(arrival, _), _| match (1..=places).contains(&arrival) {
                true => Ok(()),
                false => Err(StoreError::row("revisions", arrival, "it is the form of no message")),
            })?;
            match has_lost {
                true => Err(StoreError::damaged_file("nobody can tell how many messages there are")),
                false => Ok(()),
            }
        })
    }

    /// Counts the rows of a table, whose keys must rise, and hands each to `each`.
    fn check_rows<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        definition: TableDefinition<'static, K, V>,
        each: impl Fn(K::SelfType<'_>, V::SelfType<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let table = self.txn.open_table(definition)?;
        let (mut shown, mut before) = (0_u64, Vec::new());
        for entry in table.iter()? {
            let (key, value) = entry?;
            let key = key.value();
            {
                let bytes = K::as_bytes(&key);
                if shown > 0 && K::compare(&before, bytes.as_ref()).is_ge() {
                    return Err(StoreError::damaged_file(format!("table {} is out of order", definition.name())));
                }
                before.clear();
                before.extend_from_slice(bytes.as_ref());
            }
            shown += 1;
            each(key, value.value())?;
        }
        let rows = table.len()?;
        if shown != rows {
            let why = format!("table {} shows {shown} of its {rows} rows", definition.name());
            return Err(StoreError::damaged_file(why));
        }
        Ok(())
    }

    /// Whether any message has a later form.
    ///
    /// # Errors
    /// When the database fails.
    pub fn has_revisions(&self) -> Result<bool, StoreError> {
        contained(self.pin.path(), || Ok(!self.txn.open_table(tables::REVISIONS)?.is_empty()?))
    }

    /// The later forms of the message at a place, oldest first.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn revisions(&self, arrival: Arrival) -> Result<Vec<(RecordNumber, i64, Vec<u8>)>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::REVISIONS)?;
            let rows = table.range((arrival.0, 0)..=(arrival.0, u32::MAX))?;
            let mut keys = Rising::new("revisions", (arrival.0, 0)..=(arrival.0, u32::MAX));
            rows.map(|entry| {
                let (key, value) = entry?;
                keys.take(key.value())?;
                let row = RevisionRow::from_bytes(value.value(), arrival.0)?;
                Ok((RecordNumber(row.record), row.seen_ms, row.volatile))
            })
            .collect()
        })
    }

    /// The ops from `from` on, rising, at most `max`.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn ops(&self, from: OpId, max: usize) -> Result<Vec<Op>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::OPS)?;
            let mut keys = Rising::new("ops", from.0..=u64::MAX);
            let rows = table.range(from.0..)?.take(max).map(|entry| {
                let (key, value) = entry?;
                keys.take(key.value())?;
                let id = OpId(key.value());
                Ok(OpRow::from_bytes(value.value(), id.0)?.into_op(id))
            });
            rows.collect()
        })
    }

    /// The newest op; 0 for none.
    ///
    /// # Errors
    /// When the database fails.
    pub fn last_op(&self) -> Result<OpId, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::OPS)?;
            Ok(OpId(table.last()?.map_or(0, |(key, _)| key.value())))
        })
    }

    /// The messages of a session that are never folded, rising.
    ///
    /// # Errors
    /// When the database fails or the table is damaged.
    pub fn pins(&self, session: SessionId) -> Result<Vec<Arrival>, StoreError> {
        contained(self.pin.path(), || {
            let range = (session.0, 0)..=(session.0, u64::MAX);
            let mut keys = Rising::new("pins", range.clone());
            let table = self.txn.open_table(tables::PINS)?;
            let pins = table.range(range)?.map(|entry| {
                let key = entry?.0.value();
                keys.take(key)?;
                Ok(Arrival(key.1))
            });
            pins.collect()
        })
    }

    /// The view of a session as of an op, or now; `None` while it shows everything as it is.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn view(&self, session: SessionId, as_of: OpId) -> Result<Option<View>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::VIEWS)?;
            let mut rows = table.range((session.0, 0)..=(session.0, as_of.0))?;
            match rows.next_back() {
                None => Ok(None),
                Some(entry) => {
                    let (key, value) = entry?;
                    Rising::new("views", (session.0, 0)..=(session.0, as_of.0)).take(key.value())?;
                    ViewRow::from_bytes(value.value(), key.value().1)?.into_view(key.value().1).map(Some)
                }
            }
        })
    }
}

/// The rows of `places` for every number of a range; see [`Snapshot::place_rows`].
pub(crate) struct PlaceRows<'s> {
    snapshot: &'s Snapshot,
    numbers: RangeInclusive<u64>,
    rows: redb::Range<'static, u64, &'static [u8]>,
    /// A row that came before its number did.
    ahead: Option<PlaceEntry>,
}

type PlaceEntry = (AccessGuard<'static, u64>, AccessGuard<'static, &'static [u8]>);

impl Iterator for PlaceRows<'_> {
    type Item = (Arrival, Result<PlaceRow, StoreError>);

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.numbers.next()?;
        Some((Arrival(number), self.row(number)))
    }
}

impl PlaceRows<'_> {
    fn row(&mut self, number: u64) -> Result<PlaceRow, StoreError> {
        loop {
            let entry = match self.ahead.take() {
                Some(ahead) => Some(ahead),
                None => self.rows.next().transpose()?,
            };
            match entry {
                Some((key, row)) if key.value() == number => return PlaceRow::from_bytes(row.value(), number),
                // Its turn is over: its key was damaged, or the one of a row in front of it.
                Some((key, _)) if key.value() < number => {}
                other => {
                    // Where one key is damaged, its neighbours still answer to theirs.
                    self.ahead = other;
                    let arrival = Arrival(number);
                    return self.snapshot.place_row(arrival)?.ok_or_else(|| missing(arrival));
                }
            }
        }
    }
}

/// Tells that fewer are listed than there are, or more.
fn compare(what: &str, there: u64, listed: u64) -> Result<(), StoreError> {
    match there == listed {
        true => Ok(()),
        false => Err(StoreError::damaged_file(format!("{listed} {what} are listed, and there are {there}"))),
    }
}

/// A place is lost: numbers are given without gaps.
fn missing(arrival: Arrival) -> StoreError {
    StoreError::row("places", arrival, "it is missing")
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

fn session(id: SessionId, row: SessionRow) -> Session {
    Session {
        id,
        owner: Owner { agent: row.agent, person: row.person },
        name: row.name,
        source: row.source,
        created_ms: row.created_ms,
        timeline: TimelineId(row.timeline),
    }
}

pub(crate) fn placed(arrival: Arrival, row: PlaceRow) -> Result<Placed, StoreError> {
    Ok(Placed {
        arrival,
        timeline: TimelineId(row.timeline),
        order: row.order_key(arrival)?,
        summary: record::summary_number(row.kind),
        record: RecordNumber(row.record),
        seen_ms: row.seen_ms,
        tokens: row.tokens,
        volatile: row.volatile,
    })
}

fn stored_order(table: &'static str, key: impl ToString, bytes: &[u8]) -> Result<OrderKey, StoreError> {
    OrderKey::from_bytes(bytes).ok_or_else(|| StoreError::row(table, key, "an order key has no legal length"))
}
