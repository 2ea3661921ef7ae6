//! The contract: what the engine does for whoever asks, as a trait over plain values.
//!
//! The command line, the wire and the tests all speak to a [`Service`]; the engine is one, a client of a process
//! that serves can be another. A request says everything that its answer depends on: the scope of the reader, the
//! time where it matters, the bounds. An answer that can be long comes in pages and says where to go on, or goes
//! record by record to a callback.
//!
//! Message texts are compact JSON as bytes. They are handed through, never interpreted here.
//!
//! Rooms in reading order: what is there, what is searched, what hosts show turn by turn, what goes into one request, what
//! agents call, what was shown when, and what comes in and goes out whole.

mod reading;
mod search;
mod turns;
mod select;
mod tools;
mod history;
mod moving;

use lcm_core::tokens::Correction;
use lcm_core::{Arrival, SessionId};
pub use lcm_store::{
    Branches, CheckReport, Cursor, Cut, Fault, Filter, Grep, IndexState, IndexStatus, Kinds, LetterCase, Order,
    OwnerPattern, Owners, Pattern, Pinned, Progress, Scope, Session, Words,
};

pub use self::history::{
    Appearance, AssembleRequest, Assembled, HistoryChanged, OpsPage, OpsRequest, PinRequest, PinSet, Seen, Shown,
    UndoRequest, Undone, UnfoldRequest, ViewPage, ViewRequest, Why,
};
pub use self::moving::{
    ExportMessage, ExportRecord, ExportRequest, ExportRevision, ImportOptions, Imported, IngestRequest, Ingested,
};
pub use self::reading::{
    Child, Description, DownTo, Entry, ExpandRequest, Expansion, LogLine, LogPage, LogRequest, ReadPage, ReadRequest,
    Revision, SessionDescription, SessionEntry, Spent, Status, SummaryDescription, SummaryPage, TimelineEntry, Whole,
};
pub use self::search::{
    GrepPage, GrepRequest, Line, LineHit, LineOptions, SearchMode, SearchPage, SearchRequest, WordHit,
};
pub use self::select::{RecallOptions, Recalled, SelectRequest, Selected};
pub use self::tools::{Reader, Sees, ToolAnswer, ToolBounds, ToolCall, TranscriptRequest};
pub use self::turns::{
    Cancel, CompressRequest, Compressed, InMessage, OutMessage, RewriteRequest, Rewritten, SessionKey, TurnRequest,
    Turned,
};
use crate::compress::CompressOptions;
use crate::error::EngineError;
use crate::hosts::Incoming;

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

    /// The session that an owner calls by this very name.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn session_named(&self, key: &SessionKey) -> Result<Option<Session>, EngineError>;

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

    /// Takes a list in and makes the summaries that its next fold will want, so that the fold only has to show them; gives
    /// how many. Only what will not change any more is summarised, and nothing is shown otherwise by it.
    ///
    /// # Errors
    /// As [`Service::turn`]; that the caller has given up is one.
    fn prepare(&self, request: &CompressRequest<'_>) -> Result<u64, EngineError>;

    /// What a host should send instead of a list: the same, but for what is folded because it does not fit, and with the
    /// best of the folded originals for the newest request beside it. Nothing of the list is taken in.
    ///
    /// # Errors
    /// [`EngineError::Message`] for an element that is no message; otherwise when the store cannot be used.
    fn select(&self, request: &SelectRequest) -> Result<Selected, EngineError>;

    /// Answers a tool of an agent. Never fails: what is wrong is told in the answer.
    fn call_tool(&self, call: &ToolCall<'_>) -> ToolAnswer;

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
    fn behind(&self, scope: &Scope, messages: &[InMessage]) -> Result<Vec<Vec<u8>>, EngineError>;

    /// What a list costs by the stored count.
    ///
    /// # Errors
    /// [`EngineError::Message`] for an element that is no message.
    fn weigh(&self, messages: &[InMessage]) -> Result<u64, EngineError>;

    /// Why a provider would refuse a list, as the end of a sentence; `None` when it takes it. `alternates` says whether
    /// users and assistants must take turns in OpenAI's format too.
    ///
    /// # Errors
    /// [`EngineError::Message`] for an element that is no message.
    fn refusal(&self, messages: &[InMessage], alternates: bool) -> Result<Option<String>, EngineError>;

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
