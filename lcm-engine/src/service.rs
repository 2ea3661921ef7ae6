//! The contract: what the engine does for whoever asks, as a trait over plain values.
//!
//! The command line, the wire and the tests all speak to a [`Service`]; the engine is one, a client of a process
//! that serves can be another. A request says everything that its answer depends on: the scope of the reader, the
//! time where it matters, the bounds. An answer that can be long comes in pages and says where to go on, or goes
//! record by record to a callback.
//!
//! Message texts are compact JSON as bytes. They are handed through, never interpreted here.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use lcm_core::op::Op;
use lcm_core::tokens::Correction;
use lcm_core::{Arrival, Handle, Level, NodeId, OpId, Owner, Role, SessionId, SummaryNumber, TimelineId};
pub use lcm_store::{
    Branches, CheckReport, Cursor, Cut, Fault, Filter, Grep, IndexState, IndexStatus, Kinds, LetterCase, Order,
    OwnerPattern, Owners, Pattern, Pinned, Progress, Scope, Session, Words,
};

use crate::compress::CompressOptions;
use crate::compress::summary::Summarizer;
use crate::error::EngineError;
use crate::hosts::Incoming;
use crate::hosts::speech::Dialect;

/// What can be asked of lcm. See the module.
pub trait Service {
    /// The sessions in scope, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn sessions(&self, scope: &Scope) -> Result<Vec<SessionEntry>, EngineError>;

    /// The sessions that a text can mean: `#3`, a name, the beginning of a name. One when it is clear, more when it
    /// is not, none when there is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn find_sessions(&self, scope: &Scope, text: &str) -> Result<Vec<Session>, EngineError>;

    /// The nodes that a text can mean: a handle or the beginning of one, alone or inside a text, an arrival number,
    /// `node 17`. One when it is clear, at most `max` when it is not, none when there is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn find_nodes(&self, scope: &Scope, text: &str, max: usize) -> Result<Vec<Entry>, EngineError>;

    /// One line for each message of a session.
    ///
    /// # Errors
    /// [`EngineError::NoSession`], [`EngineError::NoTimeline`], [`EngineError::NotOnTimeline`]; otherwise when the
    /// store cannot be read.
    fn log(&self, request: &LogRequest) -> Result<LogPage, EngineError>;

    /// The messages of a session, whole.
    ///
    /// # Errors
    /// As [`Service::log`].
    fn read(&self, request: &ReadRequest) -> Result<ReadPage, EngineError>;

    /// Exact search.
    ///
    /// # Errors
    /// [`EngineError::Pattern`]; otherwise when the store cannot be read.
    fn grep(&self, request: &GrepRequest) -> Result<GrepPage, EngineError>;

    /// Search by words.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn search(&self, request: &SearchRequest) -> Result<SearchPage, EngineError>;

    /// What a node stands for: a message whole, a summary's children or originals.
    ///
    /// # Errors
    /// [`EngineError::NoPlace`]; otherwise when the store cannot be read.
    fn expand(&self, request: &ExpandRequest) -> Result<Expansion, EngineError>;

    /// What is known about a node, without its text.
    ///
    /// # Errors
    /// [`EngineError::NoPlace`]; otherwise when the store cannot be read.
    fn describe(&self, scope: &Scope, number: Arrival) -> Result<Description, EngineError>;

    /// What is known about a session.
    ///
    /// # Errors
    /// [`EngineError::NoSession`]; otherwise when the store cannot be read.
    fn describe_session(&self, scope: &Scope, session: SessionId) -> Result<SessionDescription, EngineError>;

    /// How the store is.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn status(&self) -> Result<Status, EngineError>;

    /// What summaries of the sessions in scope cost, from this moment on or ever.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn spent(&self, scope: &Scope, since_ms: Option<i64>) -> Result<Spent, EngineError>;

    /// Takes in what a host shows: keeps what is new of it.
    ///
    /// # Errors
    /// [`EngineError::Gap`] for a delta that does not fit; otherwise when the store cannot be written. Nothing of
    /// the list is lost by asking again.
    fn ingest(&self, request: IngestRequest) -> Result<Ingested, EngineError>;

    /// Takes in many lists, as fast as the machine can. `report` hears of each that is durable, in the order in
    /// which they came.
    ///
    /// # Errors
    /// As [`Service::ingest`] for the first list that fails; those before it are kept.
    fn import(
        &self,
        lists: &mut (dyn Iterator<Item = Incoming> + Send),
        options: &ImportOptions<'_>,
        report: &mut dyn FnMut(&Ingested),
    ) -> Result<Imported, EngineError>;

    /// Takes in the whole list of a host that shows it turn by turn: keeps what is new, notices what was rewritten,
    /// branches where it leaves what was said.
    ///
    /// # Errors
    /// [`EngineError::Message`] for an element that is no message; otherwise when the store cannot be written. Nothing
    /// is lost by asking again.
    fn turn(&self, request: &TurnRequest) -> Result<Turned, EngineError>;

    /// Takes a list in and gives a shorter one in its place, when it is over its threshold or that is forced.
    ///
    /// # Errors
    /// As [`Service::turn`]. That a list cannot be made shorter is no error; the answer says why.
    fn compress(&self, request: &CompressRequest<'_>) -> Result<Compressed, EngineError>;

    /// Whether a session's list should be compressed, by what its provider says it costs, and why or why not. Who has
    /// stored counts only corrects them first (see [`Service::correction`]).
    ///
    /// A list from which nothing could be won is left alone until it has grown.
    fn is_due(&self, key: &SessionKey, prompt_tokens: u64, options: &CompressOptions) -> (bool, String);

    /// Hears what a model's provider says that the session's newest list cost, its own prompt and tools included;
    /// gives what the model's counts are corrected by from now on. Learned from differences between such reports.
    fn report_usage(&self, key: &SessionKey, model: &str, prompt_tokens: u64) -> Correction;

    /// What a model's counts are corrected by; as they are where nothing was reported.
    fn correction(&self, model: &str) -> Correction;

    /// What a list stands for: every original behind it, in order. A fold gives what it is of, a message shown in
    /// part the whole, anything else itself.
    ///
    /// # Errors
    /// [`EngineError::Message`] for an element that is no message; otherwise when the store cannot be read.
    fn behind(&self, scope: &Scope, messages: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, EngineError>;

    /// What a list costs by the stored count.
    ///
    /// # Errors
    /// [`EngineError::Message`] for an element that is no message.
    fn weigh(&self, messages: &[Vec<u8>]) -> Result<u64, EngineError>;

    /// Why a provider would refuse a list, as the end of a sentence; `None` when it takes it. `alternates` says whether
    /// users and assistants must take turns in OpenAI's format too.
    ///
    /// # Errors
    /// [`EngineError::Message`] for an element that is no message.
    fn refusal(&self, messages: &[Vec<u8>], alternates: bool) -> Result<Option<String>, EngineError>;

    /// What a session shows or showed: messages and folds, in the order in which a model sees them.
    ///
    /// # Errors
    /// [`EngineError::NoSession`], [`EngineError::NoOp`], [`EngineError::NotBegun`]; otherwise when the store cannot be
    /// read.
    fn view(&self, request: &ViewRequest) -> Result<ViewPage, EngineError>;

    /// The list that a host would send of what a session shows.
    ///
    /// # Errors
    /// As [`Service::view`].
    fn assemble(&self, request: &AssembleRequest) -> Result<Assembled, EngineError>;

    /// Writes the summaries anew that a session shows and no model wrote, for the same messages, and shows those instead.
    /// What was shown before stays and can be read.
    ///
    /// # Errors
    /// As [`Service::view`]; otherwise when the store cannot be written. What a model does not do is no error.
    fn rewrite(&self, request: &RewriteRequest<'_>) -> Result<Rewritten, EngineError>;

    /// Shows again what a summary stands for, where it is shown now.
    ///
    /// # Errors
    /// [`EngineError::NoPlace`], [`EngineError::NotASummary`], [`EngineError::NotShown`]; otherwise when the store
    /// cannot be written.
    fn unfold(&self, request: &UnfoldRequest) -> Result<HistoryChanged, EngineError>;

    /// Takes back what an op did, by a new op. What changed the view goes back to the view before it, and takes with it
    /// what changed the view since; a pin goes back alone.
    ///
    /// # Errors
    /// [`EngineError::NothingToUndo`], [`EngineError::NotUndoable`], [`EngineError::NoOp`],
    /// [`EngineError::OpElsewhere`]; otherwise when the store cannot be written.
    fn undo(&self, request: &UndoRequest) -> Result<Undone, EngineError>;

    /// Lets a message never be folded, or lets it be folded again.
    ///
    /// # Errors
    /// [`EngineError::NoPlace`], [`EngineError::NotAMessage`], [`EngineError::NotOnTimeline`]; otherwise when the store
    /// cannot be written.
    fn pin(&self, request: &PinRequest) -> Result<PinSet, EngineError>;

    /// What history says about a node: which op made it, and where it was shown since.
    ///
    /// # Errors
    /// [`EngineError::NoPlace`]; otherwise when the store cannot be read.
    fn why(&self, scope: &Scope, number: Arrival) -> Result<Why, EngineError>;

    /// The entries of a session's history.
    ///
    /// # Errors
    /// [`EngineError::NoSession`]; otherwise when the store cannot be read.
    fn ops(&self, request: &OpsRequest) -> Result<OpsPage, EngineError>;

    /// Takes the lock that writers need and gives it back; nothing is written.
    ///
    /// # Errors
    /// When it cannot be had in time, or the store cannot be written at all.
    fn try_write(&self) -> Result<(), EngineError>;

    /// Gives everything that was said in sessions, in an order in which it can be taken in again.
    ///
    /// # Errors
    /// What `each` says, which ends it; otherwise when the store cannot be read.
    fn export(
        &self,
        request: &ExportRequest,
        each: &mut dyn FnMut(ExportRecord) -> Result<(), EngineError>,
    ) -> Result<(), EngineError>;

    /// Rehashes every node, follows every link, compares the index.
    ///
    /// # Errors
    /// When the store cannot be read at all; what is merely wrong stands in the report.
    fn check(&self, faults_max: usize, progress: &(dyn Fn(Progress) + Sync)) -> Result<CheckReport, EngineError>;

    /// Throws the search index away and makes it anew.
    ///
    /// # Errors
    /// When another process writes the index, or it cannot be written.
    fn repair_index(&self, progress: &dyn Fn(Progress)) -> Result<IndexStatus, EngineError>;
}

/// A host's whole list, as it is about to be sent to a model.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// Which session; made when it is not there.
    pub key: SessionKey,
    /// The program it comes from.
    pub source: String,
    /// The format; `None` to tell it from the messages.
    pub dialect: Option<Dialect>,
    /// The messages, each as JSON text.
    pub messages: Vec<Vec<u8>>,
    /// Who asks, for history.
    pub by: String,
    /// Now: milliseconds since 1970 UTC.
    pub now_ms: i64,
}

/// What came of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Turned {
    /// The session it was taken in for: that which was asked for, unless the list proved to be another's.
    pub key: SessionKey,
    /// Its number; `None` while there is none.
    pub session: Option<SessionId>,
    /// Whether it was made.
    pub created: bool,
    /// Messages that were new, at the end.
    pub new: u64,
    /// Messages that were rewritten in place.
    pub revised: u64,
    /// Messages that were new between others.
    pub late: u64,
    /// Whether the list left the timeline that the session had.
    pub branched: bool,
    /// Whether the list showed folds that the session's view had not.
    pub published: bool,
    /// The numbers of what was new at the end.
    pub numbers: Option<(Arrival, Arrival)>,
    /// The newest op that was written.
    pub op: Option<OpId>,
}

impl Turned {
    /// Whether nothing was done but to put messages at the end of a session that was there.
    pub(crate) fn is_plain(&self) -> bool {
        !self.created && !self.branched && self.revised == 0 && self.late == 0
    }
}

/// A list that is to be made shorter.
pub struct CompressRequest<'a> {
    /// The list.
    pub turn: TurnRequest,
    /// How.
    pub options: CompressOptions,
    /// What the host's provider says the request costs, when it does: tokens.
    pub current_tokens: Option<u64>,
    /// The model that the list goes to, when the host says: its counts are corrected by what was reported of it.
    pub model: Option<String>,
    /// Fold whatever there is to win, also below the threshold.
    pub force: bool,
    /// What the summaries should keep above all.
    pub focus: Option<String>,
    /// What the agent's memory holds of the user and the work; models are told, as data, and need not repeat it.
    pub memory_context: Option<String>,
    /// A model that writes summaries; `None` for the extractive summariser.
    pub summarizer: Option<&'a dyn Summarizer>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Compressed {
    /// The list to use instead; `None` to use the one that was given, and then `reason` says why.
    pub messages: Option<Vec<OutMessage>>,
    /// Why the list is as it was.
    pub reason: Option<String>,
    /// What the list cost by the stored count, corrected where the request names a model.
    pub tokens_before: u64,
    /// What it costs now, counted in the same way.
    pub tokens_after: u64,
    /// The folds that are shown, in order.
    pub folds: Vec<NodeId>,
    /// Why models were not taken at their word, one sentence each.
    pub failures: Vec<String>,
    /// How often a model was asked.
    pub model_calls: u64,
    /// What models read and wrote, by our estimate; tokens.
    pub model_tokens: u64,
    /// What was new in the list.
    pub turned: Turned,
}

/// Whose summaries are to be written anew.
pub struct RewriteRequest<'a> {
    /// What the asker may see.
    pub scope: Scope,
    /// The session.
    pub session: SessionId,
    /// How large a summary may be, and how long all of them may take.
    pub options: CompressOptions,
    /// Who writes them.
    pub summarizer: &'a dyn Summarizer,
    /// Who asks: the program and its version.
    pub by: String,
    /// The time: milliseconds since 1970 UTC.
    pub now_ms: i64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// Summaries that were shown and that no model wrote.
    pub degraded: u64,
    /// Those that are shown in a model's words now: the one before, and the new one.
    pub rewritten: Vec<(Handle, Handle)>,
    /// Why models were not taken at their word, one sentence each.
    pub failures: Vec<String>,
    /// How often a model was asked.
    pub model_calls: u64,
    /// What models read and wrote, by our estimate; tokens.
    pub model_tokens: u64,
}

/// A message of a list that was made shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutMessage {
    /// The message at this index of the list that was given, as it is.
    Given(usize),
    /// One that we made, as JSON text.
    Made(Vec<u8>),
}

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
    /// The summary's place, as [`Service::find_nodes`] gave it.
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
    /// The message's place, as [`Service::find_nodes`] gave it.
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

/// Exact search, and how its hits are to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// What to look for, and the bounds.
    pub grep: Grep,
    /// Find whole words only.
    pub whole_words: bool,
    /// The matching lines of each hit, and how many around them; `None` for snippets alone.
    pub lines: Option<LineOptions>,
}

/// Which lines of a hit are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineOptions {
    /// Lines before and behind each matching one.
    pub context: usize,
    /// Characters of a line; a longer one is cut around its first match. 0 for whole lines.
    pub chars_max: usize,
    /// At most this many matching lines of one hit; at least 1. What a log of a build repeats need not be repeated.
    pub matches_max: usize,
}

/// Hits of an exact search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepPage {
    /// In the order asked for.
    pub hits: Vec<LineHit>,
    /// The sessions they were said in.
    pub sessions: BTreeMap<SessionId, Session>,
    /// Whether these are all there are, from the cursor on.
    pub complete: bool,
    /// The bound that ended it early, when one did.
    pub cut: Option<Cut>,
    /// Where to go on; `None` exactly when complete.
    pub next: Option<Cursor>,
    /// Places that could not be read because the store is damaged there.
    pub damaged: u64,
}

/// A hit with its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineHit {
    /// Where.
    pub entry: Entry,
    /// The text around the first match; control characters as they are stored.
    pub snippet: String,
    /// What matched in the snippet, as byte ranges.
    pub matches: Vec<Range<usize>>,
    /// The lines asked for; may be none where the pattern is one that only the search itself reads, then the snippet
    /// tells.
    pub lines: Vec<Line>,
    /// Matching lines that are not among them.
    pub lines_left: usize,
}

/// A line of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which one of the text that search looks through, from 1.
    pub number: usize,
    /// The line without its end, maybe cut; control characters as they are stored.
    pub text: String,
    /// Whether something was cut off before `text`, and behind it.
    pub cut: (bool, bool),
    /// What matched, as byte ranges of `text`; empty for a line of context.
    pub matches: Vec<Range<usize>>,
}

/// Search by words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// What to look for, and the bounds.
    pub words: Words,
    /// How.
    pub mode: SearchMode,
}

/// How words are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchMode {
    /// All words, newest first; when there are fewer than asked, ranked ones stand behind them.
    Words,
    /// Any of the words, best first.
    Ranked,
}

/// Hits of a search by words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPage {
    /// Best or newest first, see [`SearchMode`].
    pub hits: Vec<WordHit>,
    /// The sessions they were said in.
    pub sessions: BTreeMap<SessionId, Session>,
    /// Where to go on, when there may be more.
    pub next: Option<Cursor>,
    /// Places that could not be read because the store is damaged there.
    pub damaged: u64,
}

/// A hit with its score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordHit {
    /// Where.
    pub entry: Entry,
    /// The text around the first match; control characters as they are stored.
    pub snippet: String,
    /// What matched, as byte ranges of the snippet.
    pub matches: Vec<Range<usize>>,
    /// How well a ranked hit fits, in thousandths; comparable within one answer only.
    pub score: Option<u32>,
    /// Whether it was found by rank, not because it has all words.
    pub ranked: bool,
}

/// What to unfold of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// The place, as [`Service::find_nodes`] gave it.
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

/// Who said something, and in which session.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// Who may read it.
    pub owner: Owner,
    /// What the host calls the session.
    pub name: String,
}

impl SessionKey {
    /// A session by its owner and name.
    #[must_use]
    pub fn new(agent: &str, person: &str, name: &str) -> Self {
        Self { owner: Owner { agent: agent.to_owned(), person: person.to_owned() }, name: name.to_owned() }
    }
}

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
