//! The timeline that a session goes on with, as the aligner and the plan need it.
//!
//! Loaded from the store once and kept between turns; what was appended since is added to it. Texts stay in the store.

use std::collections::HashMap;

use lcm_core::{Arrival, NodeId, OrderKey, Role, TimelineId};
use lcm_store::{Buffer, Placed, RecordNumber, Snapshot, StoreError};

use crate::align::{Signs, Stood};
use crate::error::EngineError;
use crate::find::unreadable;
use crate::hosts::HostFormat;
use crate::hosts::speech::Speech;

/// Places that are read at once.
const PAGE: usize = 4096;

/// One place.
#[derive(Clone, Debug)]
pub(crate) struct Stand {
    pub(crate) arrival: Arrival,
    pub(crate) order: OrderKey,
    /// The first form.
    pub(crate) record: RecordNumber,
    pub(crate) seen_ms: i64,
    /// The stored count of the first form.
    pub(crate) tokens: u32,
}

/// A timeline, place by place.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) timeline: TimelineId,
    pub(crate) stands: Vec<Stand>,
    /// The same places as the aligner sees them.
    pub(crate) stood: Vec<Stood>,
    by_arrival: HashMap<Arrival, usize>,
}

impl Line {
    pub(crate) fn empty(timeline: TimelineId) -> Self {
        Self { timeline, stands: Vec::new(), stood: Vec::new(), by_arrival: HashMap::new() }
    }

    pub(crate) fn load(snapshot: &Snapshot, timeline: TimelineId, format: &HostFormat) -> Result<Self, EngineError> {
        let mut line = Self::empty(timeline);
        while line.read_on(snapshot, format, PAGE)? == PAGE {}
        Ok(line)
    }

    /// The first place of a timeline.
    pub(crate) fn first(
        snapshot: &Snapshot,
        timeline: TimelineId,
        format: &HostFormat,
    ) -> Result<Option<Stood>, EngineError> {
        let mut line = Self::empty(timeline);
        line.read_on(snapshot, format, 1)?;
        Ok(line.stood.pop())
    }

    /// Reads so many places more; gives how many there were.
    fn read_on(&mut self, snapshot: &Snapshot, format: &HostFormat, max: usize) -> Result<usize, EngineError> {
        let has_revisions = snapshot.has_revisions()?;
        let behind = self.stands.last().map(|stand| stand.order.clone());
        let page = snapshot.log(self.timeline, behind.as_ref(), max)?;
        let count = page.len();
        let records: Vec<RecordNumber> = page.iter().map(|placed| placed.record).collect();
        let read = snapshot.read_each(&records, |i, buffer| {
            let read = buffer.with_message(|message| {
                let tree = message.tree()?;
                Ok((Speech::of(&tree), (format.likeness)(&tree)))
            });
            let (speech, likeness) = read.map_err(|error| unreadable(page[i].arrival, error))?;
            Ok::<_, EngineError>((buffer.id(), Signs::of(&speech), likeness))
        })?;
        for (placed, (id, signs, likeness)) in page.into_iter().zip(read) {
            let mut forms = vec![id];
            if has_revisions {
                forms.extend(later_forms(snapshot, &placed)?);
            }
            forms.extend(likeness);
            self.push(Stand::of(&placed), Stood { forms, signs });
        }
        Ok(count)
    }

    pub(crate) fn push(&mut self, stand: Stand, stood: Stood) {
        self.by_arrival.insert(stand.arrival, self.stands.len());
        self.stands.push(stand);
        self.stood.push(stood);
    }

    pub(crate) fn len(&self) -> usize {
        self.stands.len()
    }

    pub(crate) fn position(&self, arrival: Arrival) -> Option<usize> {
        self.by_arrival.get(&arrival).copied()
    }

    /// The places of messages that were said in this order, from a place on: where `first` came, else wherever they
    /// stand side by side, else in order as early as can be. `None` where the line does not have all of them.
    pub(crate) fn find(&self, records: &[RecordNumber], from: usize, first: Option<Arrival>) -> Option<Vec<usize>> {
        let head = records.first()?;
        let begins = |at: &usize| self.stands[*at].record == *head;
        let goes_on = |at: &usize| {
            let stands = self.stands.get(*at..at + records.len());
            stands.is_some_and(|stands| stands.iter().map(|stand| stand.record).eq(records.iter().copied()))
        };
        let rest = from..self.stands.len();
        let told = first.and_then(|first| self.position(first)).filter(|at| *at >= from).filter(begins);
        let side_by_side = || rest.clone().filter(begins).find(goes_on);
        let mut at = told.or_else(side_by_side).or_else(|| rest.clone().find(begins))?;
        let mut places = Vec::with_capacity(records.len());
        for record in records {
            at += self.stands[at..].iter().position(|stand| stand.record == *record)?;
            places.push(at);
            at += 1;
        }
        Some(places)
    }

    /// Who speaks at a place.
    pub(crate) fn role(&self, at: usize) -> Role {
        self.stood.get(at).map_or(Role::Other, |stood| stood.signs.role)
    }
}

impl Stand {
    fn of(placed: &Placed) -> Self {
        Self {
            arrival: placed.arrival,
            order: placed.order.clone(),
            record: placed.record,
            seen_ms: placed.seen_ms,
            tokens: placed.tokens,
        }
    }
}

fn later_forms(snapshot: &Snapshot, placed: &Placed) -> Result<Vec<NodeId>, StoreError> {
    let mut buffer = Buffer::default();
    let forms = snapshot.revisions(placed.arrival)?.into_iter().map(|(record, _, _)| {
        snapshot.read(record, &mut buffer)?;
        Ok(buffer.id())
    });
    forms.collect()
}
