//! Which places a search may look at, and how it reads their text.
//!
//! Every place that is looked at goes through [`Reach::admits`], with its row from truth in hand: the index and
//! the sieve may only propose. What they say of timelines is used to skip early, never to let in.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use lcm_core::canon::{self, CanonError};
use lcm_core::{Arrival, NodeId, OrderKey, Role, TimelineId, text};

use super::query::{Filter, Kinds};
use crate::error::{StoreError, unless_damaged};
use crate::record::{PlaceKind, PlaceRow};
use crate::scope::{Resolved, Scope, Span};
use crate::snapshot::{Buffer, Near, RecordNumber, Snapshot};

/// What a search reaches: a scope, a filter, and the snapshot they are asked of.
pub(crate) struct Reach<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) filter: &'a Filter,
    scope: Resolved,
    /// The newest place of the snapshot.
    pub(crate) last: u64,
    /// Whether there may be places behind it which a damaged page hides.
    pub(crate) has_lost: bool,
    timelines: RwLock<HashMap<u64, Part>>,
}

/// How much of a timeline is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// None of it.
    Nothing,
    /// All of it.
    All,
    /// Up to a place and a moment: what a branch shares.
    Until(OrderKey, Arrival),
}

impl Part {
    /// Whether a place of the timeline is reached, by what the index keeps of it. Late places whose order key
    /// begins like the bound are let through; truth decides about them.
    pub(crate) fn may_hold(&self, arrival: u64, anchor: u64) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Until(last, newest) => arrival <= newest.0 && anchor <= last.anchor().0,
        }
    }
}

impl<'a> Reach<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, scope: &Scope, filter: &'a Filter) -> Result<Self, StoreError> {
        let (scope, (last, has_lost)) = (Resolved::new(scope, snapshot)?, snapshot.place_numbers()?);
        Ok(Self { snapshot, filter, scope, last, has_lost, timelines: RwLock::default() })
    }

    /// The parts of timelines the scope is made of, when it names sessions.
    pub(crate) fn spans(&self) -> Option<&[Span]> {
        match &self.scope {
            Resolved::Spans(spans) => Some(spans),
            _ => None,
        }
    }

    /// Whether every place is reached, whatever its timeline.
    pub(crate) fn is_everything(&self) -> bool {
        self.scope == Resolved::Everything && self.filter.without_sessions.is_empty()
    }

    /// How much of a timeline is reached.
    pub(crate) fn part(&self, timeline: u64) -> Result<Part, StoreError> {
        if self.is_everything() {
            return Ok(Part::All);
        }
        let known = self.timelines.read().unwrap_or_else(PoisonError::into_inner).get(&timeline).cloned();
        if let Some(part) = known {
            return Ok(part);
        }
        let part = self.find_part(TimelineId(timeline))?;
        self.timelines.write().unwrap_or_else(PoisonError::into_inner).insert(timeline, part.clone());
        Ok(part)
    }

    fn find_part(&self, timeline: TimelineId) -> Result<Part, StoreError> {
        let part = match &self.scope {
            Resolved::Everything => Part::All,
            Resolved::Owners(owners) => match self.owner_of(timeline)? {
                Some(owner) if owners.contains(&owner) => Part::All,
                _ => Part::Nothing,
            },
            Resolved::Spans(spans) => match spans.binary_search_by_key(&timeline, |span| span.timeline) {
                Err(_) => Part::Nothing,
                Ok(at) => match &spans[at].until {
                    None => Part::All,
                    Some((last, newest)) => Part::Until(last.clone(), *newest),
                },
            },
        };
        if part == Part::Nothing || self.filter.without_sessions.is_empty() {
            return Ok(part);
        }
        let session = self.snapshot.timeline_row(timeline)?.session;
        let left_out = self.filter.without_sessions.iter().any(|left_out| left_out.0 == session);
        Ok(if left_out { Part::Nothing } else { part })
    }

    /// A timeline that the index names and truth does not know is nobody's.
    fn owner_of(&self, timeline: TimelineId) -> Result<Option<u64>, StoreError> {
        match self.snapshot.timeline_row(timeline) {
            Ok(row) => Ok(Some(row.owner)),
            Err(StoreError::NoTimeline(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the scope reaches a place and the filter lets it through, as far as its row tells.
    pub(crate) fn admits(&self, arrival: Arrival, row: &PlaceRow) -> Result<bool, StoreError> {
        if is_staged(row) || !self.passes(is_summary(row), row.seen_ms) {
            return Ok(false);
        }
        match self.part(row.timeline)? {
            Part::Nothing => Ok(false),
            Part::All => Ok(true),
            Part::Until(last, newest) => Ok(arrival <= newest && row.order_key(arrival)? <= last),
        }
    }

    /// The filter's conditions on kind and time.
    pub(crate) fn passes(&self, is_summary: bool, seen_ms: i64) -> bool {
        let kind_fits = match self.filter.kinds {
            // A summary has no role.
            Kinds::All => !is_summary || self.filter.roles.is_empty(),
            Kinds::Messages => !is_summary,
            Kinds::Summaries => is_summary,
        };
        kind_fits
            && self.filter.since_ms.is_none_or(|since| seen_ms >= since)
            && self.filter.before_ms.is_none_or(|before| seen_ms < before)
    }

    /// The filter's condition on who speaks; a summary was judged by its kind.
    pub(crate) fn wants_role(&self, is_summary: bool, said: &Said<'_>) -> bool {
        is_summary || self.filter.roles.is_empty() || self.filter.roles.contains(&said.role())
    }

    /// The filter's condition on a role.
    pub(crate) fn is_wanted(&self, role: Role) -> bool {
        self.filter.roles.is_empty() || self.filter.roles.contains(&role)
    }

    /// Whether the filter leaves nothing out.
    pub(crate) fn is_unfiltered(&self) -> bool {
        *self.filter == Filter { without_sessions: self.filter.without_sessions.clone(), ..Filter::default() }
    }
}

/// Whether a place is a summary's.
pub(crate) fn is_summary(row: &PlaceRow) -> bool {
    matches!(row.kind, PlaceKind::Summary { .. } | PlaceKind::Staged { .. })
}

/// Whether a place is a summary's that no view has shown.
fn is_staged(row: &PlaceRow) -> bool {
    matches!(row.kind, PlaceKind::Staged { .. })
}

thread_local! {
    // The buffers grow to the largest message of a search; to make them for each piece of one costs more than to
    // read it.
    static READER: RefCell<Reader> = RefCell::new(Reader::default());
}

/// Runs `work` with this thread's room for reading texts.
pub(crate) fn with_reader<R>(work: impl FnOnce(&mut Reader) -> R) -> R {
    READER.with(|reader| match reader.try_borrow_mut() {
        Ok(mut reader) => {
            let done = work(&mut reader);
            reader.shrink();
            done
        }
        // A search inside a search, which we have none of.
        Err(_) => work(&mut Reader::default()),
    })
}

/// Room for reading texts, one for each thread that reads.
#[derive(Default)]
pub(crate) struct Reader {
    /// The largest text since the room was made.
    largest: usize,
    buffer: Buffer,
    scratch: String,
}

/// What stands at a place, as search sees it.
pub(crate) struct Said<'a> {
    pub(crate) id: NodeId,
    pub(crate) text: &'a str,
    role: Known<'a>,
}

/// A role that is known, or the canonical bytes to read it from: nearly no text that is looked at needs one.
enum Known<'a> {
    Role(Role),
    Canon(&'a [u8]),
}

impl<'a> Said<'a> {
    /// What was read before.
    pub(crate) fn new(id: NodeId, role: Role, text: &'a str) -> Self {
        Self { id, text, role: Known::Role(role) }
    }

    /// Who says it; [`Role::Other`] for a summary.
    pub(crate) fn role(&self) -> Role {
        match self.role {
            Known::Role(role) => role,
            // The bytes were read whole before; whoever damaged them between said nothing with it.
            Known::Canon(bytes) => canon::outline(bytes).map_or(Role::Other, |outline| outline.role),
        }
    }
}

/// What came of looking through a text.
pub(crate) enum Looked<R> {
    Found(R),
    Miss,
    Damaged,
}

/// Room is given back after a text of this size.
const LARGE: usize = 4 << 20;

impl Reader {
    fn shrink(&mut self) {
        if self.largest > LARGE {
            *self = Self::default();
        }
    }

    /// Hands what stands at a place to `look`; `None` when its bytes are damaged.
    pub(crate) fn read<R>(
        &mut self,
        snapshot: &Snapshot,
        row: &PlaceRow,
        look: impl FnOnce(Said<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        let read = snapshot.read(RecordNumber(row.record), &mut self.buffer).and_then(|()| self.with_said(row, look));
        unless_damaged(read)
    }

    /// Looks through what stands at a place: as [`Reader::read`], but only what `look` finds something in is hashed
    /// again. `near` holds the rows read in one go with it.
    pub(crate) fn look<R>(
        &mut self,
        snapshot: &Snapshot,
        near: &Near,
        row: &PlaceRow,
        look: impl FnOnce(Said<'_>) -> Option<R>,
    ) -> Result<Looked<R>, StoreError> {
        let looked = snapshot
            .read_unchecked(RecordNumber(row.record), near, &mut self.buffer)
            .and_then(|()| self.with_said(row, look))
            .and_then(|found| match found {
                None => Ok(Looked::Miss),
                Some(found) => snapshot.check_read(&self.buffer).map(|()| Looked::Found(found)),
            });
        Ok(unless_damaged(looked)?.unwrap_or(Looked::Damaged))
    }

    /// Hands what was read last to `look`.
    fn with_said<R>(&mut self, row: &PlaceRow, look: impl FnOnce(Said<'_>) -> R) -> Result<R, StoreError> {
        let damaged = |error: CanonError| StoreError::row("records", row.record, error);
        let Self { largest, buffer, scratch } = self;
        let id = buffer.id();
        if is_summary(row) {
            let summary = canon::summary_head(buffer.canon()).map_err(damaged)?;
            return Ok(look(Said::new(id, Role::Other, summary.text)));
        }
        let role = Known::Canon(buffer.canon());
        let said = buffer.with_message(|message| {
            text::with_search_text(&message, scratch, |text| {
                *largest = text.len().max(*largest);
                look(Said { id, text, role })
            })
        });
        said.map_err(damaged)
    }
}
