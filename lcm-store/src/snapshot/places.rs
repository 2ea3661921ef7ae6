//! What stands at a number or under an id, in the scope of who asks; the later forms of a message.
//!
//! Numbers have no gaps, so a row that does not come is damage. Links have no check of their own, so both ends must
//! agree.

use std::ops::RangeInclusive;

use lcm_core::{Arrival, IdPrefix, NodeId, SummaryNumber, TimelineId};
use redb::{AccessGuard, ReadableTable, ReadableTableMetadata};

use super::{Placed, RecordNumber, Rising, Snapshot};
use crate::error::{StoreError, contained};
use crate::pack;
use crate::record::{self, PlaceRow, RevisionRow, Row};
use crate::scope::{Resolved, Scope};
use crate::tables;

/// More places than these are not hidden by a damaged page; such a difference is a damaged number.
const HIDDEN_MAX: u64 = 1 << 16;

impl Snapshot {
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

/// A place is lost: numbers are given without gaps.
fn missing(arrival: Arrival) -> StoreError {
    StoreError::row("places", arrival, "it is missing")
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
