//! Why the engine could not do what it was asked. What the store said stands behind it as the source.

use lcm_core::{Arrival, MessageError, SessionId, SummaryError, TimelineId};

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
