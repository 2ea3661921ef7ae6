//! Why the engine could not do what it was asked. What the store said stands behind it as the source.

use lcm_core::{Arrival, Handle, MessageError, OpId, SessionId, SummaryError, TimelineId};

use lcm_store::Cursor;
pub use lcm_store::StoreError;

/// Why the engine could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A message that is not kept: too large, or no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A delta that begins behind the end of what we have: what lies between was never shown to us.
    #[error("the messages begin at number {known} of session {session}, which has {have}: send the whole list")]
    Gap {
        /// What the host calls the session.
        session: String,
        /// How many messages the host believes that we have.
        known: u64,
        /// How many we have.
        have: u64,
    },
    /// A list names a message that it does not bring: the decoder that made it is wrong.
    #[error("a list names message {0}, which it does not bring")]
    NoSuchMessage(u64),
    /// The scope reaches no such session.
    #[error("no session {0}")]
    NoSession(String),
    /// The session has no such timeline.
    #[error("session {session} has no timeline {timeline}")]
    NoTimeline {
        /// The session.
        session: SessionId,
        /// The timeline that was asked for.
        timeline: TimelineId,
    },
    /// The scope reaches no such message.
    #[error("no message number {0}")]
    NoPlace(Arrival),
    /// The session has no such message on the timeline that was asked for.
    #[error("message number {number} is not on timeline {timeline}")]
    NotOnTimeline {
        /// The message.
        number: Arrival,
        /// The timeline.
        timeline: TimelineId,
    },
    /// History has no such entry.
    #[error("there is no op {0} in history")]
    NoOp(OpId),
    /// An op of another session.
    #[error("op {op} was not done to session {session}")]
    OpElsewhere {
        /// The op.
        op: OpId,
        /// The session that was asked about.
        session: SessionId,
    },
    /// A moment before the first message of a session.
    #[error("nothing was said yet in session {session} at op {op}")]
    NotBegun {
        /// The session.
        session: SessionId,
        /// The moment.
        op: OpId,
    },
    /// An op that is not taken back.
    #[error("op {op} cannot be undone: {why}")]
    NotUndoable {
        /// The op.
        op: OpId,
        /// Why not, as a sentence without a full stop.
        why: &'static str,
    },
    /// A history without an op that could be taken back.
    #[error("there is nothing to undo in session {0}")]
    NothingToUndo(SessionId),
    /// The session does not show this summary now.
    #[error("session {session} does not show {summary} now")]
    NotShown {
        /// The session.
        session: SessionId,
        /// The summary.
        summary: Handle,
    },
    /// A message, where a summary is wanted.
    #[error("{0} is a message: only summaries are unfolded")]
    NotASummary(Handle),
    /// A summary, where a message is wanted.
    #[error("{0} is a summary: only messages are pinned")]
    NotAMessage(Handle),
    /// A list without messages for a session that is not there.
    #[error("nothing was said yet in session {0}")]
    NothingSaid(String),
    /// A summary that contradicts itself: a bug of ours.
    #[error(transparent)]
    Summary(#[from] SummaryError),
    /// A pattern that is no regular expression, or one too large to run.
    #[error("the pattern is not a usable regular expression: {0}")]
    Pattern(String),
    /// A cursor that another kind of search gave.
    #[error("cursor {cursor} is of {given_by}; this search {searches}")]
    OtherCursor {
        /// The cursor.
        cursor: Cursor,
        /// Which searches give it.
        given_by: &'static str,
        /// What this one does.
        searches: &'static str,
    },
    /// Whoever takes the answer has stopped taking it.
    #[error("the answer was not taken to its end")]
    Stopped,
}
