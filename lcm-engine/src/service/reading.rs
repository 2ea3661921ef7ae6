//! What is there: sessions, messages, summaries, the store; and what each is known by.

use std::path::PathBuf;

use lcm_core::{Arrival, Handle, Level, NodeId, OrderKey, Role, SessionId, SummaryNumber, TimelineId};
use lcm_store::{IndexStatus, Order, Scope, Session};

/// One place as an answer names it: where it is and what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When it came: the number that people and agents quote.
    pub number: Arrival,
    /// What stands there.
    pub handle: Handle,
    /// Its small integer, when it is a summary.
    pub summary: Option<SummaryNumber>,
    /// The session it was said in.
    pub session: SessionId,
    /// The timeline it was added to.
    pub timeline: TimelineId,
    /// Where on it; for a summary, the first place it stands for.
    pub order: OrderKey,
    /// Who speaks; [`Role::Other`] for a summary.
    pub role: Role,
    /// When it was said, as its host tells, else when it came: milliseconds since 1970 UTC.
    pub seen_ms: i64,
    /// The stored count.
    pub tokens: u32,
    /// Whether it came late, between two that were there.
    pub is_late: bool,
}

/// A session in a list of sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEntry {
    /// Number, name, owner, source.
    pub session: Session,
    /// Messages on the timeline it goes on with.
    pub messages: u64,
    /// Their stored counts together.
    pub tokens: u64,
    /// When the earliest and the latest of them were said; `None` without messages.
    pub span_ms: Option<(i64, i64)>,
}

/// Which lines of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// The session.
    pub session: SessionId,
    /// Another timeline than the one it goes on with.
    pub timeline: Option<TimelineId>,
    /// Where to begin: at this message, itself included; `None` for the beginning of the order asked for.
    pub from: Option<Arrival>,
    /// [`Order::Oldest`] is how it was said.
    pub order: Order,
    /// At most this many entries.
    pub max: usize,
    /// Characters of a headline.
    pub headline_chars: usize,
}

/// A part of a session, a line a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// The session.
    pub session: Session,
    /// The timeline that is shown.
    pub timeline: TimelineId,
    /// The messages in the order asked for.
    pub lines: Vec<LogLine>,
    /// Where to go on.
    pub next: Option<Arrival>,
}

/// One message in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The message.
    pub entry: Entry,
    /// Which one of its timeline, from 1.
    pub position: u64,
    /// What it says, cut; without control characters.
    pub headline: String,
}

/// Which messages of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// The session.
    pub session: SessionId,
    /// Another timeline than the one it goes on with.
    pub timeline: Option<TimelineId>,
    /// Where to begin: at this message, itself included; `None` for the first.
    pub from: Option<Arrival>,
    /// At most this many messages.
    pub max: usize,
    /// After this many bytes of JSON the page ends; it holds at least one message.
    pub bytes_max: usize,
}

/// A part of a session, whole messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPage {
    /// The session.
    pub session: Session,
    /// The timeline that is shown.
    pub timeline: TimelineId,
    /// The messages, as they were said.
    pub messages: Vec<Whole>,
    /// Where to go on.
    pub next: Option<Arrival>,
}

/// A message, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Where it stands.
    pub entry: Entry,
    /// What the host said: compact JSON text, key order as it was said; the keys that belong to the place last.
    pub json: Vec<u8>,
    /// What the host's file said about it, beside it: a JSON object; empty for none.
    pub source: Vec<u8>,
    /// Later forms that the host gave it, oldest first.
    pub revisions: Vec<Revision>,
}

/// A later form of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The form.
    pub id: NodeId,
    /// When it came: milliseconds since 1970 UTC.
    pub seen_ms: i64,
    /// The form as compact JSON text.
    pub json: Vec<u8>,
}

/// What to unfold of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// The place, as [`Service::find_nodes`](super::Service::find_nodes) gave it.
    pub number: Arrival,
    /// How far down.
    pub down_to: DownTo,
    /// Children that an earlier page gave.
    pub skip: usize,
    /// At most this many children.
    pub max: usize,
    /// After this many bytes of JSON the page ends; it holds at least one child.
    pub bytes_max: usize,
}

/// How far down a summary is expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownTo {
    /// To what it was made of.
    Children,
    /// To the messages at the bottom.
    Originals,
}

/// What a node stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// The node is a message.
    Message(Whole),
    /// The node is a summary.
    Summary(SummaryPage),
}

/// A part of what a summary stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryPage {
    /// The summary.
    pub entry: Entry,
    /// What it says.
    pub text: String,
    /// What it stands for, in order.
    pub children: Vec<Child>,
    /// How many there are in all.
    pub children_all: usize,
    /// How many were given up to here, when there are more.
    pub next: Option<usize>,
}

/// Something a summary stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Child {
    /// A message.
    Message(Whole),
    /// A summary and what it says.
    Summary {
        /// The summary.
        entry: Entry,
        /// What it says.
        text: String,
    },
}

/// What is known about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The place that was asked for.
    pub entry: Entry,
    /// Its session.
    pub session: Session,
    /// Which one of its timeline, from 1; `None` for a summary.
    pub position: Option<u64>,
    /// The places in scope at which the node stands, oldest first; at most a thousand of them.
    pub places: Vec<Entry>,
    /// How many there are in all.
    pub places_all: usize,
    /// Bytes of its JSON text, or of a summary's text.
    pub bytes: u64,
    /// The tools a message calls; for a result, the one it is from.
    pub tools: Vec<String>,
    /// Later forms that the host gave the message, oldest first.
    pub revisions: Vec<Revision>,
    /// The summaries that directly stand for it.
    pub parents: Vec<Entry>,
    /// What makes it a summary; `None` for a message.
    pub summary: Option<SummaryDescription>,
    /// What the host's file said about it, beside it: a JSON object; empty for none.
    pub source: Vec<u8>,
}

/// What is known about a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryDescription {
    /// 1 for a summary of messages.
    pub depth: u16,
    /// What it directly stands for, in order.
    pub children: Vec<Entry>,
    /// Which rung of the ladder wrote it.
    pub level: Level,
    /// The model that wrote it; empty for none.
    pub model: String,
    /// The version of our prompt, or of the summariser without a model.
    pub prompt_version: u32,
    /// First and last moment of its sources: milliseconds since 1970 UTC.
    pub span_ms: (i64, i64),
    /// What its sources cost, by the stored count.
    pub source_tokens: u64,
    /// What was noticed about the text.
    pub marks: Vec<String>,
    /// Files and ids its sources speak of.
    pub mentions: Vec<String>,
}

/// What is known about a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDescription {
    /// The session and its counts.
    pub entry: SessionEntry,
    /// Every timeline it ever had, oldest first.
    pub timelines: Vec<TimelineEntry>,
}

/// A timeline of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineEntry {
    /// Its number.
    pub id: TimelineId,
    /// The timeline it branched off, and how many messages it shares with it.
    pub parent: Option<(TimelineId, u64)>,
    /// Its messages, those it shares included.
    pub messages: u64,
    /// When it began: milliseconds since 1970 UTC.
    pub created_ms: i64,
}

/// How the store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The data directory.
    pub home: PathBuf,
    /// The format of the store.
    pub format: u32,
    /// Sessions.
    pub sessions: u64,
    /// Places: messages and published summaries.
    pub places: u64,
    /// Distinct messages, summaries and bodies.
    pub records: u64,
    /// Bytes of the data files, as they lie on the disk.
    pub data_bytes: u64,
    /// How far the search index got.
    pub index: IndexStatus,
}

/// What summaries cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Summaries that were made, with a model or without.
    pub summaries: u64,
    /// How often a model was asked.
    pub calls: u64,
    /// What models read and wrote, in tokens by our estimate.
    pub tokens: u64,
}
