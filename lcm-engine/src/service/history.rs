//! What a session shows and showed, and the ways back.

use lcm_core::op::Op;
use lcm_core::{Arrival, Handle, OpId, SessionId, TimelineId};
use lcm_store::{Order, Pinned, Scope, Session};

use super::reading::{Description, Entry};
use crate::hosts::speech::Dialect;

/// Which part of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// The session.
    pub session: SessionId,
    /// As of this op; `None` for now.
    pub as_of: Option<OpId>,
    /// Items that an earlier page gave.
    pub skip: usize,
    /// At most this many items.
    pub max: usize,
    /// After this many bytes of text the page ends; it holds at least one item.
    pub bytes_max: usize,
}

/// A part of what a session shows or showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewPage {
    /// The session, as it is now.
    pub session: Session,
    /// The timeline that it went on with.
    pub timeline: TimelineId,
    /// The moment: further pages of the same are asked for with it.
    pub as_of: OpId,
    /// What is shown, in the order in which a model sees it.
    pub items: Vec<Shown>,
    /// How many there are in all.
    pub items_all: usize,
    /// What all of them cost by the stored count.
    pub tokens: u64,
    /// How many were given up to here, when there are more.
    pub next: Option<usize>,
}

/// One thing that a session shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A message.
    Message {
        /// Where it stands; its count is that of the form shown.
        entry: Entry,
        /// Its newest form then: compact JSON text, the keys that belong to the place last.
        json: Vec<u8>,
        /// Whether it is never folded, as things are now.
        is_pinned: bool,
    },
    /// A summary in place of messages.
    Fold {
        /// The summary.
        entry: Entry,
        /// What it says.
        text: String,
        /// 1 for a summary of messages.
        depth: u16,
        /// Messages that are not shown for it.
        messages: u64,
        /// How many of them came late, so that it does not speak of them.
        late: u64,
        /// What its sources cost, by the stored count.
        source_tokens: u64,
        /// Whether it stands for steps of the request behind it, and in front of which it is shown.
        is_within: bool,
    },
}

/// Of what a list is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssembleRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// The session.
    pub session: SessionId,
    /// As of this op; `None` for now.
    pub as_of: Option<OpId>,
}

/// The list of what a session shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// The session, as it is now.
    pub session: Session,
    /// The moment.
    pub as_of: OpId,
    /// The format, told from the messages.
    pub dialect: Dialect,
    /// The messages as JSON text, without the keys that belong to their places.
    pub messages: Vec<Vec<u8>>,
}

/// Which summary is to be unfolded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfoldRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// The summary's place, as [`Service::find_nodes`](super::Service::find_nodes) gave it.
    pub number: Arrival,
    /// The session that shows it; `None` for the one it was made in.
    pub session: Option<SessionId>,
    /// Who asks, for history.
    pub by: String,
    /// Now: milliseconds since 1970 UTC.
    pub now_ms: i64,
}

/// Which op is to be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// The session.
    pub session: SessionId,
    /// The op; `None` for the newest that can be taken back.
    pub op: Option<OpId>,
    /// Who asks, for history.
    pub by: String,
    /// Now: milliseconds since 1970 UTC.
    pub now_ms: i64,
}

/// What changed what a session shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryChanged {
    /// The session.
    pub session: Session,
    /// The new entry of its history.
    pub op: Op,
    /// What was shown cost so much, by the stored count.
    pub tokens_before: u64,
    /// What is shown now.
    pub tokens_after: u64,
}

/// What was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undone {
    /// The op.
    pub op: OpId,
    /// Ops that changed the view since and went with it.
    pub also: Vec<OpId>,
    /// What that changed.
    pub changed: HistoryChanged,
}

/// Which message is to be pinned, or not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// The message's place, as [`Service::find_nodes`](super::Service::find_nodes) gave it.
    pub number: Arrival,
    /// The session; `None` for the one it was said in.
    pub session: Option<SessionId>,
    /// Which of the two.
    pub pinned: Pinned,
    /// Who asks, for history.
    pub by: String,
    /// Now: milliseconds since 1970 UTC.
    pub now_ms: i64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinSet {
    /// The session.
    pub session: Session,
    /// The message.
    pub entry: Entry,
    /// The new entry of history; `None` when it was so already.
    pub op: Option<Op>,
    /// The summary that is shown instead of the message now.
    pub behind: Option<Handle>,
}

/// Which entries of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpsRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// The session.
    pub session: SessionId,
    /// Where to begin, itself included; `None` for the beginning of the order asked for.
    pub from: Option<OpId>,
    /// [`Order::Oldest`] is how it happened.
    pub order: Order,
    /// At most this many.
    pub max: usize,
}

/// A part of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpsPage {
    /// The session.
    pub session: Session,
    /// The entries in the order asked for.
    pub ops: Vec<Op>,
    /// Where to go on.
    pub next: Option<OpId>,
}

/// What history says about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Why {
    /// What is known about it.
    pub description: Description,
    /// The op that brought or wrote it; `None` where history does not tell.
    pub made: Option<Op>,
    /// How it was seen in its session since, each from an op on, oldest first.
    pub appearances: Vec<Appearance>,
    /// The summary that is shown instead of it now.
    pub covered_by: Option<Entry>,
}

/// How a node is seen from an op on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appearance {
    /// The op.
    pub op: Op,
    /// How it is seen.
    pub seen: Seen,
}

/// How a node is seen in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// As it is.
    Itself,
    /// This summary is shown instead.
    Behind(Handle),
    /// Not at all: the session goes on with another timeline, or shows what the summary stands for.
    Nowhere,
}
