//! The bytes of nodes, unpacked and hashed again, one or many at once; and the links between summaries and what they
//! stand for.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lcm_core::{Arrival, NodeId, StoredMessage, Summary, canon};
use redb::{AccessGuard, ReadableTable, ReadableTableMetadata};

use super::{Placed, RecordNumber, Snapshot, placed};
use crate::error::{StoreError, contained};
use crate::open::lock;
use crate::pack::{self, Dictionary};
use crate::record::{ChildrenRow, PlaceRow, Row};
use crate::scope::{Resolved, Scope};
use crate::tables;

/// Nodes for each core that helps reading many: for fewer, waking it costs more.
const PARALLEL_MIN: usize = 32;
/// Nodes that one core takes at a time.
const SHARE: usize = 16;
/// More record numbers between the first and the last are no run of writes.
const NEAR_MAX: u64 = 4096;

/// Whether a read hashes what it reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hashes {
    Checked,
    Unchecked,
}

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
    /// The number of rows that hold distinct messages, summaries and bodies; a long one takes several.
    ///
    /// # Errors
    /// When the database fails.
    pub fn record_rows_len(&self) -> Result<u64, StoreError> {
        contained(self.pin.path(), || Ok(self.tables.records.len()?))
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
}
