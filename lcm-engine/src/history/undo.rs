//! Undo: what an op did is as if it had not been done, by a new op.
//!
//! What changes the view goes back to the view before it, and takes with it what changed the view since; a pin goes back
//! alone. What came from a host (messages, their new forms, branches) is not ours to take back. An undo can be undone.
//!
//! [`Standing`] is what of a session's history is in force, read from its ops. Pure.

use std::collections::{HashMap, HashSet};

use lcm_core::op::{Change, Op};
use lcm_core::view::View;
use lcm_core::{Arrival, OpId};
use lcm_store::{Order, Pinned, Snapshot, Store};

use super::{Moment, NOW, NewView, fits, write};
use crate::error::EngineError;
use crate::find;
use crate::service::{UndoRequest, Undone};

/// Something that can be taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Ops that changed what is shown together: their view is kept under the last.
    View { first: OpId, last: OpId },
    /// A pin that was set or taken off.
    Pin { op: OpId, arrival: Arrival, pinned: Pinned },
}

impl Step {
    fn last(&self) -> OpId {
        match *self {
            Self::View { last, .. } => last,
            Self::Pin { op, .. } => op,
        }
    }

    fn holds(&self, op: OpId) -> bool {
        match *self {
            Self::View { first, last } => (first..=last).contains(&op),
            Self::Pin { op: own, .. } => own == op,
        }
    }
}

/// What an undo did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Effect {
    /// Steps that are no longer in force.
    removed: Vec<Step>,
    /// Steps that are in force again.
    restored: Vec<Step>,
}

/// What of a history is in force.
#[derive(Debug, Default)]
struct Standing {
    /// Steps in force, oldest first.
    steps: Vec<Step>,
    undos: HashMap<OpId, Effect>,
}

/// Why an op cannot be taken back.
enum Refusal {
    NotThere,
    Never(&'static str),
    Already,
}

impl Standing {
    /// Reads ops, oldest first; `has_view` says under which of them a view is kept.
    fn of(ops: &[Op], has_view: &HashSet<OpId>) -> Self {
        let mut standing = Self::default();
        let mut open: Option<OpId> = None;
        for op in ops {
            match op.what {
                Change::Fold { .. } | Change::Unfold { .. } => {
                    let first = open.take().unwrap_or(op.id);
                    if has_view.contains(&op.id) {
                        standing.steps.push(Step::View { first, last: op.id });
                    } else {
                        open = Some(first);
                    }
                    continue;
                }
                Change::Pin { arrival } => standing.steps.push(Step::Pin { op: op.id, arrival, pinned: Pinned::Yes }),
                Change::Unpin { arrival } => standing.steps.push(Step::Pin { op: op.id, arrival, pinned: Pinned::No }),
                Change::Undo { op: target } => {
                    if let Ok(effect) = standing.effect(target) {
                        standing.apply(op.id, effect);
                    }
                }
                _ => {}
            }
            open = None;
        }
        standing
    }

    /// What taking an op back does.
    fn effect(&self, target: OpId) -> Result<Effect, Refusal> {
        let views_from = |from: OpId| {
            let is_since = move |step: &&Step| matches!(step, Step::View { first, .. } if *first >= from);
            self.steps.iter().filter(is_since).copied()
        };
        if let Some(undo) = self.undos.get(&target) {
            let is_in_force = undo.removed.iter().all(|step| !self.steps.contains(step));
            if !is_in_force {
                return Err(Refusal::Already);
            }
            let mut removed: Vec<Step> = undo.restored.clone();
            if undo.removed.iter().chain(&undo.restored).any(|step| matches!(step, Step::View { .. })) {
                removed.extend(views_from(target).filter(|step| !undo.restored.contains(step)));
            }
            return Ok(Effect { removed, restored: undo.removed.clone() });
        }
        match self.steps.iter().find(|step| step.holds(target)) {
            Some(Step::View { first, .. }) => {
                Ok(Effect { removed: views_from(*first).collect(), restored: Vec::new() })
            }
            Some(pin) => Ok(Effect { removed: vec![*pin], restored: Vec::new() }),
            None => Err(Refusal::NotThere),
        }
    }

    fn apply(&mut self, undo: OpId, effect: Effect) {
        self.steps.retain(|step| !effect.removed.contains(step));
        self.steps.extend(&effect.restored);
        self.steps.sort_by_key(Step::last);
        self.undos.insert(undo, effect);
    }

    /// What can be said of an op of this history that cannot be taken back.
    fn refusal(op: &Op) -> Refusal {
        Refusal::Never(match op.what {
            Change::Ingest { .. } => "what was said stays; only what is shown can go back",
            Change::Revise { .. } => "the host rewrote a message, and every form of it stays",
            Change::Branch { .. } => "the host went on with another list, and its next list says where it goes on",
            Change::Stage { .. } => "it made summaries, and they are shown only when an op folds with them",
            _ => return Refusal::Already,
        })
    }
}

/// Takes an op back, or the newest that can be.
pub(crate) fn undo(store: &Store, request: &UndoRequest) -> Result<Undone, EngineError> {
    struct Plan {
        target: OpId,
        also: Vec<OpId>,
        pins: Vec<(Arrival, Pinned)>,
        new: NewView,
        shows_other: bool,
    }
    let plan = |snapshot: &Snapshot| {
        let session = find::session(snapshot, &request.scope, request.session)?;
        let ops = snapshot.ops_of(session.id, OpId(1)..=NOW, Order::Oldest, usize::MAX)?;
        let has_view: HashSet<OpId> = snapshot.views_of(session.id)?.into_iter().map(|(op, _)| op).collect();
        let standing = Standing::of(&ops, &has_view);
        let target = match request.op {
            Some(op) => op,
            None => standing.steps.last().map(Step::last).ok_or(EngineError::NothingToUndo(session.id))?,
        };
        let refuse = |why| EngineError::NotUndoable { op: target, why };
        let effect = standing.effect(target).or_else(|refusal| {
            let op = ops.iter().find(|op| op.id == target);
            match (refusal, op.map(Standing::refusal)) {
                (_, None) if target > snapshot.last_op()? || target.0 == 0 => Err(EngineError::NoOp(target)),
                (_, None) => Err(EngineError::OpElsewhere { op: target, session: session.id }),
                (_, Some(Refusal::Never(why))) => Err(refuse(why)),
                _ => Err(refuse("it is undone already; undoing the op that did so brings it back")),
            }
        })?;
        let mut pins = Vec::new();
        let mut also: Vec<OpId> = Vec::new();
        for step in &effect.removed {
            match *step {
                Step::Pin { arrival, pinned, .. } => pins.push((arrival, opposite(pinned))),
                Step::View { last, .. } if !step.holds(target) => also.push(last),
                Step::View { .. } => {}
            }
        }
        for step in &effect.restored {
            if let Step::Pin { arrival, pinned, .. } = *step {
                pins.push((arrival, pinned));
            }
        }
        let moment = Moment::at(snapshot, session, None)?;
        let of_view = effect.removed.iter().chain(&effect.restored).filter_map(|step| match step {
            Step::View { first, .. } => Some(*first),
            Step::Pin { .. } => None,
        });
        // An undo goes back to what was before itself, anything else to what was before the first of it.
        let before = of_view.min().map(|first| if standing.undos.contains_key(&target) { target } else { first });
        let shown = match before {
            None => moment.view.clone(),
            Some(op) => match snapshot.view(moment.session.id, OpId(op.0 - 1))? {
                Some(view) if !fits(&view, &moment.places) => {
                    return Err(refuse(
                        "what was shown before it is not on the timeline that the session goes on with",
                    ));
                }
                Some(view) => Some(view),
                None => moment.places.first().map(|placed| View::raw(placed.order.clone())),
            },
        };
        let Some(view) = shown else { return Err(EngineError::NothingToUndo(moment.session.id)) };
        Ok(Plan { target, also, pins, new: NewView::new(snapshot, moment, view)?, shows_other: before.is_some() })
    };
    write(store, plan, |commit, plan| {
        let Plan { target, also, pins, new, shows_other } = plan;
        for (arrival, pinned) in pins {
            commit.pin(new.session.id, arrival, pinned)?;
        }
        let view = shows_other.then_some(&new.view);
        let what = Change::Undo { op: target };
        let op = commit.op(new.session.id, request.now_ms, &request.by, what, view)?;
        Ok(Undone { op: target, also, changed: new.changed(op) })
    })
}

fn opposite(pinned: Pinned) -> Pinned {
    match pinned {
        Pinned::Yes => Pinned::No,
        Pinned::No => Pinned::Yes,
    }
}

#[cfg(test)]
mod tests {
    //! Which steps are in force after folds, pins and undos in any order.

    use lcm_core::{NodeId, SessionId};

    use super::*;

    fn ops(changes: &[Change]) -> Vec<Op> {
        let op = |(id, what): (u64, &Change)| Op {
            id: OpId(id),
            session: SessionId(1),
            at_ms: 0,
            by: String::new(),
            what: what.clone(),
        };
        (1..).zip(changes).map(op).collect()
    }

    fn fold() -> Change {
        Change::Fold { summary: NodeId::from_bytes([1; 32]) }
    }

    fn undo(op: u64) -> Change {
        Change::Undo { op: OpId(op) }
    }

    /// The last ops of the steps in force; every op but those named keeps a view.
    fn in_force(changes: &[Change], without_view: &[u64]) -> Vec<u64> {
        let ops = ops(changes);
        let has_view = ops.iter().map(|op| op.id).filter(|id| !without_view.contains(&id.0)).collect();
        Standing::of(&ops, &has_view).steps.iter().map(|step| step.last().0).collect()
    }

    #[test]
    fn an_undo_takes_back_what_changed_the_view_since() {
        let pin = Change::Pin { arrival: Arrival(7) };
        assert_eq!(in_force(&[fold(), pin.clone(), fold(), fold()], &[]), [1, 2, 3, 4]);
        assert_eq!(in_force(&[fold(), pin.clone(), fold(), fold(), undo(3)], &[]), [1, 2]);
        assert_eq!(in_force(&[fold(), pin.clone(), fold(), undo(2)], &[]), [1, 3]);
        assert_eq!(in_force(&[fold(), pin, fold(), undo(1)], &[]), [2]);
    }

    #[test]
    fn ops_that_share_a_view_go_together() {
        assert_eq!(in_force(&[fold(), fold(), fold()], &[1, 2]), [3]);
        assert_eq!(in_force(&[fold(), fold(), fold(), undo(2)], &[1, 2]), [0; 0]);
        assert_eq!(in_force(&[fold(), fold(), fold(), undo(3)], &[2]), [1]);
    }

    #[test]
    fn an_undo_can_be_undone_and_that_again() {
        assert_eq!(in_force(&[fold(), fold(), undo(1), undo(3)], &[]), [1, 2]);
        assert_eq!(in_force(&[fold(), fold(), undo(1), undo(3), undo(4)], &[]), [0; 0]);
        // What was folded after an undo goes when the undo does.
        assert_eq!(in_force(&[fold(), undo(1), fold(), undo(2)], &[]), [1]);
        let pin = Change::Pin { arrival: Arrival(7) };
        assert_eq!(in_force(&[pin, undo(1), fold(), undo(2)], &[]), [1, 3]);
    }

    #[test]
    fn what_is_undone_already_or_never_can_be_is_refused() {
        let ingest = Change::Ingest { timeline: lcm_core::TimelineId(1), first: Arrival(1), last: Arrival(2) };
        let ops = ops(&[ingest, fold(), undo(2)]);
        let standing = Standing::of(&ops, &HashSet::from([OpId(2), OpId(3)]));
        assert!(matches!(standing.effect(OpId(2)), Err(Refusal::NotThere)));
        assert!(matches!(Standing::refusal(&ops[0]), Refusal::Never(_)));
        assert!(matches!(Standing::refusal(&ops[1]), Refusal::Already));
        assert!(standing.effect(OpId(3)).is_ok());
    }
}
