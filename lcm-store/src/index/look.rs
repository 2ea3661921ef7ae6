//! Looking: reading places in order and keeping those whose text matches.
//!
//! The one loop behind every search. It takes pieces of the arrival numbers, in the order asked for, reads what
//! the scope admits, and asks a matcher. Pieces of one batch are looked at on all cores; batches grow, so that a
//! search that ends soon costs little and one that goes on uses the machine.
//!
//! Invariant: whatever ends it, all places before the point it names were looked at, and none behind it is in the
//! answer. So a cursor made of that point gives each hit once.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lcm_core::Arrival;
use rayon::prelude::*;

use super::query::{Cut, Hit, Order, Scanned};
use super::reach::{Looked, Reach, Reader, Said, is_summary, with_reader};
use super::snippet::Shown;
use super::tail::Kept;
use super::tokenize::mix;
use crate::error::{StoreError, contained, unless_damaged};
use crate::record::PlaceRow;
use crate::snapshot::{self, Near};

/// Some arrival numbers to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// All places of a range.
    Range(RangeInclusive<u64>),
    /// These, rising.
    Some(Vec<u64>),
}

/// Whether a text matches, and what to show of it.
pub(crate) type Matcher<'m> = dyn Fn(&str) -> Option<Shown> + Sync + 'm;

/// Bounds of one search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) begun: Instant,
    pub(crate) time_max: Option<Duration>,
    pub(crate) bytes_max: Option<u64>,
}

impl Bounds {
    /// No bound.
    pub(crate) fn none() -> Self {
        Self { begun: Instant::now(), time_max: None, bytes_max: None }
    }
}

/// Places a piece should have at most: what lies between two checks whether enough was found.
pub(crate) const PIECE_PLACES: u64 = 128;
/// From this many places on their records are read as one range.
const NEAR_MIN: u64 = 16;
/// Numbers are read as one range when at least one in so many of it is wanted.
const DENSE: u64 = 4;
/// Pieces of the first batch.
const BATCH_MIN: usize = 1;
/// Pieces of the largest batch, for each core: enough to keep it busy, few enough that little is read in vain when
/// the last hit is found.
const BATCH_MAX: usize = 4;

/// One search going on.
pub(crate) struct Look<'a> {
    reach: &'a Reach<'a>,
    kept: Option<&'a Kept>,
    matcher: &'a Matcher<'a>,
    order: Order,
    hits_max: usize,
    bounds: Bounds,
    bytes: AtomicU64,
    /// Records that do not match: said again at another place they need no second look.
    missed: HashSet<u64, BuildHasherDefault<NumberHasher>>,
    batch: Vec<Piece>,
    batch_size: usize,
    pub(crate) hits: Vec<Hit>,
    pub(crate) scanned: Scanned,
    /// The places that could not be read.
    pub(crate) damaged: Vec<u64>,
    /// Places passed, admitted or not.
    rows: u64,
    /// Why it ended, when it did.
    pub(crate) end: Option<End>,
}

/// Why a look ended before its pieces did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As many hits as asked for; maybe there are more.
    Enough,
    /// A bound; the place is the first that was not looked at.
    Cut(Cut, u64),
}

/// What came of one piece.
#[derive(Default)]
struct Seen {
    hits: Vec<Hit>,
    missed: Vec<u64>,
    rows: u64,
    places: u64,
    bytes: u64,
    damaged: Vec<u64>,
    cut: Option<(Cut, u64)>,
}

impl<'a> Look<'a> {
    pub(crate) fn new(
        reach: &'a Reach<'a>,
        kept: Option<&'a Kept>,
        matcher: &'a Matcher<'a>,
        order: Order,
        hits_max: usize,
        bounds: Bounds,
    ) -> Self {
        Self {
            reach,
            kept,
            matcher,
            order,
            hits_max: if hits_max == 0 { usize::MAX } else { hits_max },
            bounds,
            bytes: AtomicU64::new(0),
            missed: HashSet::default(),
            batch: Vec::new(),
            batch_size: BATCH_MIN,
            hits: Vec::new(),
            scanned: Scanned::default(),
            damaged: Vec::new(),
            rows: 0,
            end: None,
        }
    }

    /// Asks another matcher from here on.
    pub(crate) fn ask(&mut self, matcher: &'a Matcher<'a>) -> Result<(), StoreError> {
        self.flush()?;
        self.matcher = matcher;
        // What did not match the one may match the other.
        self.missed.clear();
        Ok(())
    }

    /// Whether there is nothing more to look for.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Adds a piece behind those before it, and looks when there are enough of them.
    pub(crate) fn push(&mut self, piece: Piece) -> Result<(), StoreError> {
        if self.hits.len() >= self.hits_max {
            // There is more to look at, and nothing more is wanted.
            self.end = Some(End::Enough);
        }
        if self.has_ended() {
            return Ok(());
        }
        self.batch.push(piece);
        if self.batch.len() >= self.batch_size { self.flush() } else { Ok(()) }
    }

    /// Adds a whole range, in pieces.
    pub(crate) fn push_range(&mut self, range: RangeInclusive<u64>) -> Result<(), StoreError> {
        let (mut low, mut high) = (*range.start(), *range.end());
        while low <= high && !self.has_ended() {
            let piece = match self.order {
                Order::Newest => {
                    let from = low.max(high.saturating_sub(PIECE_PLACES - 1));
                    let piece = from..=high;
                    // `low` is never 0: arrivals are counted from 1.
                    high = from - 1;
                    piece
                }
                Order::Oldest => {
                    let to = high.min(low.saturating_add(PIECE_PLACES - 1));
                    let piece = low..=to;
                    low = to + 1;
                    piece
                }
            };
            self.push(Piece::Range(piece))?;
        }
        Ok(())
    }

    /// Looks at what was pushed.
    pub(crate) fn flush(&mut self) -> Result<(), StoreError> {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() || self.has_ended() {
            return Ok(());
        }
        let this = &*self;
        let file = this.reach.snapshot.pin.path();
        let one = |piece: &Piece| contained(file, || with_reader(|reader| this.look_at(piece, reader)));
        let seen: Result<Vec<Seen>, StoreError> = match batch.as_slice() {
            [piece] => Ok(vec![one(piece)?]),
            many => many.par_iter().with_max_len(1).map(one).collect(),
        };
        for seen in seen? {
            self.rows += seen.rows;
            self.scanned.places += seen.places;
            self.scanned.bytes += seen.bytes;
            self.scanned.damaged += u64::try_from(seen.damaged.len()).unwrap_or(u64::MAX);
            self.damaged.extend(seen.damaged);
            self.missed.extend(seen.missed);
            if self.has_ended() {
                continue;
            }
            self.hits.extend(seen.hits);
            if self.hits.len() > self.hits_max {
                self.hits.truncate(self.hits_max);
                self.end = Some(End::Enough);
            } else if let Some((cut, at)) = seen.cut {
                self.end = Some(End::Cut(cut, at));
            }
        }
        self.batch_size = (self.batch_size * 2).min(BATCH_MAX * rayon::current_num_threads());
        Ok(())
    }

    fn look_at(&self, piece: &Piece, reader: &mut Reader) -> Result<Seen, StoreError> {
        let mut seen = Seen::default();
        let snapshot = self.reach.snapshot;
        let mut rows: Vec<(Arrival, Option<PlaceRow>)> = Vec::new();
        match piece {
            Piece::Some(arrivals) => match (arrivals.first(), arrivals.last()) {
                (Some(&first), Some(&last)) if last - first < DENSE * u64::try_from(arrivals.len()).unwrap_or(0) => {
                    // The index may name a place that is not there; truth decides.
                    let last = last.min(self.reach.last);
                    let mut wanted = arrivals.iter().peekable();
                    for (arrival, row) in snapshot.place_rows(first..=last)? {
                        if wanted.next_if(|wanted| **wanted == arrival.0).is_some() {
                            rows.push((arrival, unless_damaged(row)?));
                        }
                    }
                }
                _ => {
                    for &arrival in arrivals.iter().filter(|arrival| **arrival <= self.reach.last) {
                        let arrival = Arrival(arrival);
                        rows.push((arrival, unless_damaged(snapshot.place_row(arrival))?.flatten()));
                    }
                }
            },
            Piece::Range(range) => {
                for (arrival, row) in snapshot.place_rows(range.clone())? {
                    rows.push((arrival, unless_damaged(row)?));
                }
            }
        }
        if self.order == Order::Newest {
            rows.reverse();
        }
        let near = self.near(&rows)?;
        for (arrival, row) in rows {
            if !self.look_at_place(arrival, row.as_ref(), &near, reader, &mut seen)? {
                break;
            }
        }
        self.bytes.fetch_add(seen.bytes, Ordering::Relaxed);
        Ok(seen)
    }

    /// The records of some places, read as one range as far as they were written together.
    fn near(&self, rows: &[(Arrival, Option<PlaceRow>)]) -> Result<Near, StoreError> {
        let is_kept = |arrival: Arrival| self.kept.is_some_and(|kept| kept.said(arrival.0).is_some());
        let count = u64::try_from(rows.len()).unwrap_or(u64::MAX);
        let records = rows.iter().filter(|(arrival, _)| !is_kept(*arrival)).filter_map(|(_, row)| row.as_ref());
        match records.map(|row| row.record).max() {
            // A message has one or two records; what was said before lies elsewhere.
            Some(newest) if count >= NEAR_MIN => self.reach.snapshot.near(newest.saturating_sub(3 * count)..=newest),
            _ => Ok(Near::default()),
        }
    }

    /// Looks at one place; `false` when this piece has given all it may.
    fn look_at_place(
        &self,
        arrival: Arrival,
        row: Option<&PlaceRow>,
        near: &Near,
        reader: &mut Reader,
        seen: &mut Seen,
    ) -> Result<bool, StoreError> {
        if let Some(cut) = self.cut(seen) {
            seen.cut = Some((cut, arrival.0));
            return Ok(false);
        }
        seen.rows += 1;
        let admitted = match row {
            Some(row) => unless_damaged(self.reach.admits(arrival, row))?.map(|is_admitted| (row, is_admitted)),
            None => None,
        };
        // A place that cannot be read might be one that is reached, and might match.
        let Some((row, is_admitted)) = admitted else {
            seen.damaged.push(arrival.0);
            return Ok(true);
        };
        if !is_admitted || self.missed.contains(&row.record) {
            return Ok(true);
        }
        let is_summary = is_summary(row);
        seen.places += 1;
        let (mut size, mut has_role) = (0, true);
        let mut look = |said: Said<'_>| {
            has_role = self.reach.wants_role(is_summary, &said);
            if !has_role {
                return None;
            }
            size = said.text.len();
            (self.matcher)(said.text).map(|shown| (said.id, said.role(), shown))
        };
        let looked = match self.kept.and_then(|kept| kept.said(arrival.0)) {
            Some(said) => look(said).map_or(Looked::Miss, Looked::Found),
            None => reader.look(self.reach.snapshot, near, row, look)?,
        };
        seen.bytes += u64::try_from(size).unwrap_or(u64::MAX);
        match looked {
            Looked::Damaged => seen.damaged.push(arrival.0),
            Looked::Miss if has_role => seen.missed.push(row.record),
            Looked::Miss => {}
            Looked::Found((id, role, shown)) => {
                let placed = snapshot::placed(arrival, row.clone())?;
                let Shown { snippet, matches } = shown;
                seen.hits.push(Hit { placed, id, role, snippet, matches, score: None, ranked: false });
                if seen.hits.len() > self.hits_max {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The bound that was reached, if one was. The first place of all is always looked at, so that going on from
    /// cursor to cursor ends.
    fn cut(&self, seen: &Seen) -> Option<Cut> {
        if self.rows + seen.rows == 0 {
            return None;
        }
        if self.bounds.time_max.is_some_and(|max| self.bounds.begun.elapsed() >= max) {
            return Some(Cut::Time);
        }
        let bytes = self.bytes.load(Ordering::Relaxed) + seen.bytes;
        self.bounds.bytes_max.is_some_and(|max| bytes >= max).then_some(Cut::Bytes)
    }
}

/// Hashes record numbers, which nobody chooses against us.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0 ^ u64::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }
}
