//! Why a node is here: which op made it, and where it was shown since, or what was shown for it.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};

use lcm_core::op::{Change, Op};
use lcm_core::view::Shows;
use lcm_core::{Arrival, Handle, NodeId, OpId, TimelineId};
use lcm_store::{Buffer, Order, Placed, RecordNumber, Scope, Snapshot};

use super::{NOW, PAGE, fitting, places_of, summary_place};
use crate::error::EngineError;
use crate::find::Entries;
use crate::read;
use crate::service::{Appearance, Seen, Why};
use crate::turn::owner_scope;

/// Summaries above a node that are looked through.
const ABOVE_MAX: usize = 10_000;

/// Everything that history says about a node.
pub(crate) fn why(snapshot: &Snapshot, scope: &Scope, number: Arrival) -> Result<Why, EngineError> {
    let description = read::describe(snapshot, scope, number)?;
    let placed = snapshot.find_place(scope, number)?.ok_or(EngineError::NoPlace(number))?;
    let id = description.entry.handle.id;
    let session = &description.session;
    let ops = snapshot.ops_of(session.id, OpId(1)..=NOW, Order::Oldest, usize::MAX)?;
    let made = match placed.summary {
        None => ops.iter().find(|op| brings(op, number)).cloned(),
        Some(_) => made_summary(snapshot, &ops, id, number)?,
    };
    let above = match placed.summary {
        None => HashSet::new(),
        Some(_) => above(snapshot, placed.record)?,
    };
    let views: HashMap<OpId, _> = snapshot.views_of(session.id)?.into_iter().collect();
    let first = snapshot.timelines_of(session.id)?.into_iter().next();
    let mut timeline = first.unwrap_or(session.timeline);
    let mut lines: HashMap<TimelineId, Vec<Placed>> = HashMap::new();
    let mut view = None;
    let mut seen = Seen::Nowhere;
    let mut appearances: Vec<Appearance> = Vec::new();
    for op in &ops {
        if let Change::Branch { to, .. } = op.what {
            timeline = to;
        }
        if let Some(new) = views.get(&op.id) {
            view = Some(new.clone());
        }
        let changes = matches!(op.what, Change::Branch { .. }) || views.contains_key(&op.id);
        if made.as_ref().is_some_and(|made| op.id < made.id) || !(changes || brings(op, number)) {
            continue;
        }
        let line = match lines.entry(timeline) {
            Slot::Occupied(known) => known.into_mut(),
            Slot::Vacant(slot) => slot.insert(places_of(snapshot, timeline)?),
        };
        let now = seen_in(fitting(view.clone(), line), line, &placed, id, &above);
        if now != seen {
            seen = now;
            appearances.push(Appearance { op: op.clone(), seen });
        }
    }
    let mut covered_by = None;
    if let Seen::Behind(fold) = seen {
        let place = summary_place(snapshot, &owner_scope(&session.owner), &fold.id, timeline)?;
        covered_by = Some(Entries::new(snapshot).entry(&place)?);
    }
    Ok(Why { description, made, appearances, covered_by })
}

/// Whether an op brought the message with this number.
fn brings(op: &Op, number: Arrival) -> bool {
    matches!(op.what, Change::Ingest { first, last, .. } if (first..=last).contains(&number))
}

/// The op with which a summary was written.
///
/// Every number is given by an op that brings messages, and says so, or by one that makes summaries, and says how many. So
/// they are counted from the last of the session that came before.
fn made_summary(snapshot: &Snapshot, ops: &[Op], id: NodeId, number: Arrival) -> Result<Option<Op>, EngineError> {
    let last_given = |op: &Op| match op.what {
        Change::Ingest { last, .. } if last < number => Some((op.id, last)),
        _ => None,
    };
    let (mut at, mut given) = ops.iter().filter_map(last_given).max().unwrap_or((OpId(0), Arrival(0)));
    'walk: loop {
        let page = snapshot.ops(OpId(at.0 + 1), PAGE)?;
        let Some(last) = page.last() else { break };
        at = last.id;
        for op in page {
            match op.what {
                Change::Ingest { last, .. } => given = last,
                Change::Stage { summaries, .. } => given = Arrival(given.0.saturating_add(summaries)),
                _ => {}
            }
            if given >= number {
                match op.what {
                    Change::Stage { .. } => return Ok(Some(op)),
                    // It came between, with an op that folds.
                    _ => break 'walk,
                }
            }
        }
    }
    let folds = |op: &&Op| matches!(op.what, Change::Fold { summary } if summary == id);
    Ok(ops.iter().find(folds).cloned())
}

/// The summaries that stand for a node, at any height.
fn above(snapshot: &Snapshot, record: RecordNumber) -> Result<HashSet<NodeId>, EngineError> {
    let (mut ids, mut seen, mut open) = (HashSet::new(), HashSet::new(), vec![record]);
    let mut buffer = Buffer::default();
    while let Some(record) = open.pop() {
        for parent in snapshot.parents(record)? {
            if seen.len() < ABOVE_MAX && seen.insert(parent) {
                snapshot.read(parent, &mut buffer)?;
                ids.insert(buffer.id());
                open.push(parent);
            }
        }
    }
    Ok(ids)
}

/// How a node is seen in a view of these places.
fn seen_in(
    view: Option<lcm_core::view::View>,
    places: &[Placed],
    placed: &Placed,
    id: NodeId,
    above: &HashSet<NodeId>,
) -> Seen {
    let Some(view) = view else { return Seen::Nowhere };
    if placed.summary.is_some() {
        if view.summaries().any(|shown| shown == id) {
            return Seen::Itself;
        }
        let over = view.summaries().find(|shown| above.contains(shown));
        return over.map_or(Seen::Nowhere, |fold| Seen::Behind(Handle::summary(fold)));
    }
    if !places.iter().any(|other| other.arrival == placed.arrival) {
        return Seen::Nowhere;
    }
    match view.covering(&placed.order).map(|segment| segment.shows) {
        Some(Shows::Folded(fold)) => Seen::Behind(Handle::summary(fold)),
        Some(Shows::Raw) | None => Seen::Itself,
    }
}
