//! Which fold stands for a message now. Answers for single messages, without going through their session.
//!
//! A view is kept by order keys; a fold of it is shown when both of its ends are places of the timeline that the session
//! goes on with, as everywhere in history.

use std::collections::HashMap;

use lcm_core::view::{Segment, Shows, View};
use lcm_core::{NodeId, OrderKey, SessionId};
use lcm_store::{Placed, Scope, Session, Snapshot};

use super::NOW;
use crate::error::EngineError;
use crate::find::Entries;
use crate::service::Entry;

/// The folds of some sessions, looked up once each.
pub(crate) struct Covers<'s> {
    snapshot: &'s Snapshot,
    views: HashMap<SessionId, Option<View>>,
    folds: HashMap<(SessionId, NodeId), Option<Entry>>,
}

impl<'s> Covers<'s> {
    pub(crate) fn new(snapshot: &'s Snapshot) -> Self {
        Self { snapshot, views: HashMap::new(), folds: HashMap::new() }
    }

    /// The summary that a session shows instead of a place; `None` where the place is shown as it is, or not at all.
    pub(crate) fn of(
        &mut self,
        scope: &Scope,
        session: &Session,
        order: &OrderKey,
    ) -> Result<Option<Entry>, EngineError> {
        let view = match self.views.entry(session.id) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(slot) => slot.insert(self.snapshot.view(session.id, NOW)?),
        };
        let Some(view) = view else { return Ok(None) };
        let segments = view.segments();
        let Some(at) = segments.partition_point(|segment| segment.first <= *order).checked_sub(1) else {
            return Ok(None);
        };
        let Shows::Folded(fold) = segments[at].shows else { return Ok(None) };
        if let Some(known) = self.folds.get(&(session.id, fold)) {
            return Ok(known.clone());
        }
        let mut entry = None;
        if is_shown(self.snapshot, session, segments, at)? {
            let places = self.snapshot.places_of(scope, &fold)?;
            let here = places.iter().position(|placed| placed.timeline == session.timeline).unwrap_or(0);
            if let Some(placed) = places.get(here) {
                entry = Some(named(self.snapshot, placed, fold)?);
            }
        }
        self.folds.insert((session.id, fold), entry.clone());
        Ok(entry)
    }
}

/// The folds that a session shows now, in order.
pub(crate) fn folds_shown(snapshot: &Snapshot, session: &Session) -> Result<Vec<NodeId>, EngineError> {
    let Some(view) = snapshot.view(session.id, NOW)? else { return Ok(Vec::new()) };
    let segments = view.segments();
    let mut folds = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        if let Shows::Folded(fold) = segment.shows
            && is_shown(snapshot, session, segments, at)?
        {
            folds.push(fold);
        }
    }
    Ok(folds)
}

/// Whether both ends of a fold are places of the timeline that the session goes on with.
fn is_shown(snapshot: &Snapshot, session: &Session, segments: &[Segment], at: usize) -> Result<bool, EngineError> {
    let Some(next) = segments.get(at + 1) else { return Ok(false) };
    Ok(snapshot.is_listed(session.timeline, &segments[at].first)?
        && snapshot.is_listed(session.timeline, &next.first)?)
}

fn named(snapshot: &Snapshot, placed: &Placed, id: NodeId) -> Result<Entry, EngineError> {
    Entries::new(snapshot).named(placed, id, lcm_core::Role::Other)
}
