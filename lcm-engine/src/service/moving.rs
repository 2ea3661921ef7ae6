//! Lists that come in and sessions that go out, whole.

use lcm_core::{Arrival, NodeId, OpId, Owner, SessionId, TimelineId};
use lcm_store::{IndexStatus, Progress, Scope, Session};

use super::turns::SessionKey;
use crate::error::EngineError;
use crate::hosts::Incoming;

/// A host's list.
#[derive(Clone, Debug)]
pub struct IngestRequest {
    /// The list. What it does not say of its owner is filled in from `defaults`.
    pub incoming: Incoming,
    /// Whose it is when the list does not say.
    pub defaults: Owner,
    /// Who asks: a program and its version, or a host.
    pub by: String,
    /// The time: milliseconds since 1970 UTC.
    pub now_ms: i64,
}

/// How an import is done.
pub struct ImportOptions<'a> {
    /// Whose the messages are when the host does not say.
    pub defaults: Owner,
    /// Who asks: a program and its version.
    pub by: String,
    /// The time: milliseconds since 1970 UTC.
    pub now_ms: i64,
    /// Hears how far the search index is when all messages are durable.
    pub indexing: &'a dyn Fn(Progress),
}

/// What came of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingested {
    /// What the session is called now.
    pub key: SessionKey,
    /// The session; `None` when the list was empty and there was none.
    pub session: Option<SessionId>,
    /// Whether it was made for this list.
    pub created: bool,
    /// Messages that were kept now.
    pub new: u64,
    /// Messages that were there.
    pub known: u64,
    /// Timelines that branched off.
    pub branches: u64,
    /// The first and the last arrival number that were given.
    pub numbers: Option<(Arrival, Arrival)>,
    /// The last op that was written.
    pub op: Option<OpId>,
    /// The tag of the list, see [`Incoming::tag`].
    pub tag: u64,
}

/// What came of an import beside the lists.
#[derive(Debug)]
pub struct Imported {
    /// How far the search index is, or why it could not be brought up to date. The messages are kept in both cases.
    pub index: Result<IndexStatus, EngineError>,
}

/// What to export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRequest {
    /// What the reader may see; its sessions are what is exported.
    pub scope: Scope,
    /// The time, which the export's first record says: milliseconds since 1970 UTC.
    pub now_ms: i64,
}

/// One record of an export, in the order in which they come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportRecord {
    /// The first.
    Begin {
        /// When it was made: milliseconds since 1970 UTC.
        at_ms: i64,
    },
    /// A session; its timelines follow.
    Session(Session),
    /// A timeline; the messages that it does not share follow.
    Timeline {
        /// Its number.
        id: TimelineId,
        /// The timeline it branched off, and how many messages it shares with it.
        parent: Option<(TimelineId, u64)>,
        /// Whether its session goes on with it.
        is_current: bool,
    },
    /// A message of the timeline before it.
    Message(ExportMessage),
    /// A message of the timeline before it that is left out, or a later form of one: the store is damaged there.
    Damaged {
        /// The message's number.
        number: Arrival,
        /// What is wrong, as a sentence without a full stop.
        why: String,
    },
    /// The last.
    End {
        /// How many sessions there were.
        sessions: u64,
        /// How many messages.
        messages: u64,
    },
}

/// A message of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportMessage {
    /// Its arrival number here.
    pub number: Arrival,
    /// Its id.
    pub id: NodeId,
    /// When it was said: milliseconds since 1970 UTC.
    pub seen_ms: i64,
    /// The keys that belong to the place, as one JSON object; empty for none.
    pub volatile: Vec<u8>,
    /// The message without them: compact JSON text.
    pub json: Vec<u8>,
    /// Later forms, oldest first.
    pub revisions: Vec<ExportRevision>,
}

/// A later form of an exported message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRevision {
    /// When it came: milliseconds since 1970 UTC.
    pub seen_ms: i64,
    /// The keys that belong to the place, as one JSON object; empty for none.
    pub volatile: Vec<u8>,
    /// The form without them: compact JSON text.
    pub json: Vec<u8>,
}
