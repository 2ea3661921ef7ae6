//! What is not indexed yet, searched straight from truth.
//!
//! A process that searches more than once keeps the texts of the newest places and a table of their tokens, so
//! that a search over a thousand fresh messages costs microseconds. A process that asks once reads them once and
//! keeps nothing. Places never change, so what is kept is right for ever, within one generation of the store.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use lcm_core::{NodeId, Role};

use super::look::NumberHasher;
use super::reach::{Reader, Said, is_summary};
use super::schema::{self, role_number};
use super::sieve::BLOCK_PLACES;
use super::tokenize::{Splitter, length, token_hash};
use crate::error::{StoreError, unless_damaged};
use crate::snapshot::Snapshot;

/// Longer tails are read where they are: somebody will catch up soon, and memory is bounded.
const KEPT_PLACES_MAX: u64 = 4096;
const KEPT_BYTES_MAX: usize = 24 << 20;

/// The newest places, kept between searches.
#[derive(Default)]
pub(crate) struct Tail {
    kept: RwLock<Kept>,
    searches: AtomicU32,
}

/// What is kept of a run of arrivals.
#[derive(Default)]
pub(crate) struct Kept {
    generation: u64,
    /// Everything above this arrival, up to `to`, is here.
    from: u64,
    to: u64,
    /// Rising by arrival.
    pub(crate) places: Vec<Fresh>,
    /// The places that cannot be read, rising.
    lost: Vec<u64>,
    bytes: usize,
    /// By the hash of a token: which of `places` have it, rising, and how often.
    tokens: HashMap<u64, Vec<(u32, u32)>, BuildHasherDefault<NumberHasher>>,
}

/// One place that is not indexed yet.
pub(crate) struct Fresh {
    pub(crate) arrival: u64,
    pub(crate) timeline: u64,
    pub(crate) anchor: u64,
    /// As the index has it; see `schema::role_number`.
    pub(crate) role: u64,
    pub(crate) seen_ms: i64,
    /// See `tokenize::length`.
    pub(crate) length: u64,
    id: NodeId,
    text: Box<str>,
}

impl Kept {
    /// What stands at a place, when it is kept.
    pub(crate) fn said(&self, arrival: u64) -> Option<Said<'_>> {
        let at = self.places.binary_search_by_key(&arrival, |place| place.arrival).ok()?;
        let place = &self.places[at];
        Some(Said::new(place.id, schema::role_of(place.role).unwrap_or(Role::Other), &place.text))
    }

    /// Which of `places` have a token, rising, and how often.
    pub(crate) fn with_token(&self, hash: u64) -> &[(u32, u32)] {
        self.tokens.get(&hash).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, fresh: Fresh, splitter: &mut Splitter) {
        let number = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        let tokens = &mut self.tokens;
        splitter.tokens(&fresh.text, |token| {
            let places = tokens.entry(token_hash(token)).or_default();
            match places.last_mut() {
                Some((last, count)) if *last == number => *count += 1,
                _ => places.push((number, 1)),
            }
        });
        self.bytes += fresh.text.len();
        self.places.push(fresh);
    }

    /// How many places above `above` and up to `last` cannot be read.
    pub(crate) fn lost(&self, above: u64, last: u64) -> u64 {
        let lost = self.lost.iter().filter(|arrival| (above + 1..=last).contains(arrival)).count();
        u64::try_from(lost).unwrap_or(u64::MAX)
    }

    fn covers(&self, generation: u64, from: u64, to: u64) -> bool {
        self.generation == generation && self.from <= from && self.to >= to
    }
}

impl Tail {
    /// The places above `from`, kept; `None` when this process should rather read them where they are. What is
    /// kept may reach beyond the snapshot, and below `from`.
    pub(crate) fn kept(
        &self,
        snapshot: &Snapshot,
        from: u64,
        last: u64,
    ) -> Result<Option<RwLockReadGuard<'_, Kept>>, StoreError> {
        // The first search of a process is often its last.
        let searched = self.searches.fetch_add(1, Ordering::Relaxed);
        if searched == 0 || last.saturating_sub(from) > KEPT_PLACES_MAX {
            return Ok(None);
        }
        let generation = snapshot.pin.number;
        {
            let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
            if kept.covers(generation, from, last) {
                return Ok(Some(kept));
            }
        }
        {
            let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
            if !kept.covers(generation, from, last) {
                extend(&mut kept, snapshot, from, last)?;
            }
            if kept.bytes > KEPT_BYTES_MAX {
                *kept = Kept::default();
                return Ok(None);
            }
        }
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
        // Another search may have moved it meanwhile.
        Ok(kept.covers(generation, from, last).then_some(kept))
    }

    /// Forgets what is kept.
    pub(crate) fn clear(&self) {
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = Kept::default();
    }
}

/// Lets `kept` hold the places above `from`, up to `last`.
fn extend(kept: &mut Kept, snapshot: &Snapshot, from: u64, last: u64) -> Result<(), StoreError> {
    let mut splitter = Splitter::default();
    let goes_on = kept.generation == snapshot.pin.number && kept.from <= from && from <= kept.to;
    // What was indexed meanwhile is let go once it is the larger part: places are numbered by where they stand. The
    // sieve lags up to a block behind the index, so that much stays.
    let indexed = kept.places.partition_point(|place| place.arrival <= from);
    let stale = indexed.saturating_sub(BLOCK_PLACES);
    if !goes_on || stale > 512.max(kept.places.len() / 2) {
        let old = std::mem::take(kept);
        kept.generation = snapshot.pin.number;
        (kept.from, kept.to) = (from, from);
        if goes_on {
            kept.from = old.places.get(stale).map_or(from, |place| place.arrival - 1);
            kept.to = old.to;
            kept.lost = old.lost;
            for fresh in old.places.into_iter().skip(stale) {
                kept.add(fresh, &mut splitter);
            }
        }
    }
    let mut reader = Reader::default();
    for (arrival, row) in snapshot.place_rows(kept.to + 1..=last)? {
        let fresh = row.and_then(|row| {
            let anchor = row.order_key(arrival)?.anchor().0;
            let is_summary = is_summary(&row);
            reader.read(snapshot, &row, |said| Fresh {
                arrival: arrival.0,
                timeline: row.timeline,
                anchor,
                role: if is_summary { schema::SUMMARY } else { role_number(said.role()) },
                seen_ms: row.seen_ms,
                length: length(said.text),
                id: said.id,
                text: said.text.into(),
            })
        });
        match unless_damaged(fresh)?.flatten() {
            Some(fresh) => kept.add(fresh, &mut splitter),
            None => kept.lost.push(arrival.0),
        }
        kept.to = arrival.0;
        if kept.bytes > KEPT_BYTES_MAX {
            break;
        }
    }
    if kept.bytes <= KEPT_BYTES_MAX {
        kept.to = kept.to.max(last);
    }
    Ok(())
}
