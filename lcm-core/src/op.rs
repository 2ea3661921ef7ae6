//! Ops: the entries of history. Nothing is ever changed without one.
//!
//! An op says who did what to which session and when; ops that change what a session shows name the view
//! before and after by the op that wrote it, so that undo, `log` and "context as of turn N" all read ops.

use crate::id::{Arrival, NodeId, OpId, SessionId, TimelineId};

/// One entry of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Its number.
    pub id: OpId,
    /// The session it happened to.
    pub session: SessionId,
    /// Milliseconds since 1970 UTC, by the clock of the process that wrote it.
    pub at_ms: i64,
    /// Who asked: a program and its version, or a host.
    pub by: String,
    /// What happened.
    pub what: Change,
}

/// What an op did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Messages were added at the end of a timeline: those with these arrival numbers, both included.
    Ingest {
        /// The timeline they went to.
        timeline: TimelineId,
        /// The first of them.
        first: Arrival,
        /// The last of them.
        last: Arrival,
    },
    /// The session goes on with another timeline, which shares the places before `at` with the one it left.
    Branch {
        /// The timeline it left; `None` for the first of a session.
        from: Option<TimelineId>,
        /// The timeline it goes on with.
        to: TimelineId,
        /// How many messages the two share.
        shared: u64,
    },
    /// The host rewrote a message in place; tools keep showing the first form.
    Revise {
        /// The place.
        arrival: Arrival,
        /// The new form.
        form: NodeId,
    },
    /// A summary is shown instead of what it stands for. The view after is kept under this op.
    Fold {
        /// The new summary.
        summary: NodeId,
    },
    /// A host was shown summaries instead of runs of its list; its next list tells whether it took them.
    Stage {
        /// How many were made for it.
        summaries: u64,
        /// How often a model was asked to write them.
        calls: u64,
        /// What models read and wrote for them, by our estimate.
        tokens: u64,
    },
    /// A message is never folded from now on.
    Pin {
        /// Its place.
        arrival: Arrival,
    },
    /// A message may be folded again.
    Unpin {
        /// Its place.
        arrival: Arrival,
    },
    /// A summary is no longer shown. The view after is kept under this op.
    Unfold {
        /// The summary.
        summary: NodeId,
    },
    /// What an earlier op did is as if it had not been done; the op itself stays. Where that changes what is shown, the
    /// view after is kept under this op.
    Undo {
        /// The earlier one.
        op: OpId,
    },
}
