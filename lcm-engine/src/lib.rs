//! What is done: the context engine, without sockets, arguments, environment or a clock of its own.
//!
//! Modules in reading order: the [`service`] is the contract; [`hosts`] decode what hosts write, [`redact`] replaces
//! secrets in it where that is wanted, [`valid`] holds what providers demand. A host that shows its whole list turn by
//! turn: `align` says what of it is new, `turn` keeps that, `usage` learns what its provider counts, [`compress`] folds
//! what is too long and `assemble` is how folds are shown. A list that is imported: `known` says how far it is known and
//! `ingest` keeps the rest, `import` does that for many. `find`, `read`, `spent`, `search` and `export` answer;
//! `history` tells what was shown when, and goes back. An [`Engine`] is a store and does all of it.
//!
//! Not here: what is kept and how (`lcm-store`), and who asks (`lcm-cli`).

pub mod service;
pub mod hosts;
pub mod redact;
pub mod valid;
mod align;
mod assemble;
mod turn;
mod usage;
pub mod compress;
mod known;
mod ingest;
mod import;
mod find;
mod read;
mod spent;
mod history;
mod search;
mod select;
pub mod tools;
pub mod wire;
mod export;
pub mod error;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use lcm_core::tokens::{Correction, TokenCounter};
use lcm_core::{Arrival, NodeId, OrderKey, Owner, SessionId, TimelineId};
use lcm_store::{CheckOptions, CheckReport, IndexStatus, Pace, Session, Snapshot, Store, StoreError};

pub use error::EngineError;
pub use lcm_store::{OpenOptions, is_contained, spool};

use crate::compress::CompressOptions;
use crate::hosts::{HostFormat, Incoming};
use crate::ingest::Job;
use crate::known::Known;
use crate::redact::Redactor;
use crate::select::{Meter, Selecting};
use crate::service::{
    AssembleRequest, Assembled, CompressRequest, Compressed, Description, Entry, ExpandRequest, Expansion,
    ExportRecord, ExportRequest, GrepPage, GrepRequest, HistoryChanged, ImportOptions, Imported, InMessage,
    IngestRequest, Ingested, LogPage, LogRequest, OpsPage, OpsRequest, OwnerPattern, Owners, PinRequest, PinSet,
    Progress, ReadPage, ReadRequest, Reader, RewriteRequest, Rewritten, Scope, SearchPage, SearchRequest,
    SelectRequest, Selected, Service, SessionDescription, SessionEntry, SessionKey, Spent, Status, ToolAnswer,
    ToolCall, TranscriptRequest, TurnRequest, Turned, UndoRequest, Undone, UnfoldRequest, ViewPage, ViewRequest, Why,
};
use crate::turn::{Live, Sent};
use crate::usage::Usage;

/// Whose messages are when nobody says: the one agent of the one person that a data directory belongs to.
pub const DEFAULT_AGENT: &str = "default";
/// See [`DEFAULT_AGENT`].
pub const DEFAULT_PERSON: &str = "owner";

/// Ids of messages that are remembered between two lists: 16 MiB, some hundred sessions.
const REMEMBERED_MAX: usize = 1 << 18;

/// A list from which nothing could be won is tried again when it has grown by this part of its threshold.
const GROWTH_SHARE: u64 = 20;
/// Sessions of which it is remembered that nothing could be won.
const FUTILE_MAX: usize = 4096;

/// A store and what is done with it. Shared by any number of threads.
pub struct Engine {
    store: Store,
    /// What replaces secrets before anything is written; `None` to keep all as it was said.
    redactor: Option<Redactor>,
    /// What the last lists were compared with, so that a turn costs what is new in it.
    remembered: Mutex<Remembered>,
    /// What the last turns were aligned with.
    live: Mutex<LiveSessions>,
    /// What lists cost from which nothing could be won.
    futile: Mutex<HashMap<SessionKey, u64>>,
    /// What counts are corrected by, model by model.
    usage: Usage,
    /// What was selected for the last requests.
    selections: select::Memory,
    /// By what the budgets of requests are judged; `None` for the stored count.
    judge: Option<Arc<dyn TokenCounter>>,
}

#[derive(Default)]
struct Remembered {
    sessions: HashMap<SessionId, RememberedSession>,
    weight: usize,
    clock: u64,
}

struct RememberedSession {
    known: Known,
    timeline: TimelineId,
    last: Option<OrderKey>,
    used: u64,
}

impl Engine {
    /// Opens the store in `home`.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open(home: &Path, options: OpenOptions) -> Result<Self, EngineError> {
        Ok(Self::new(Store::open(home, options)?))
    }

    /// An engine on a store that is open.
    #[must_use]
    pub fn new(store: Store) -> Self {
        let (remembered, live, futile, usage, selections) = Default::default();
        Self { store, redactor: None, remembered, live, futile, usage, selections, judge: None }
    }

    /// The same engine, which judges the budgets of single requests by this counter and takes its figures as they are.
    /// What is stored, when lists are compressed, and what is reported of them stay with the stored count.
    #[must_use]
    pub fn with_counter(self, counter: Arc<dyn TokenCounter>) -> Self {
        Self { judge: Some(counter), ..self }
    }

    /// The same engine, which keeps no secrets that the redactor knows. What the store has already stays as it is.
    #[must_use]
    pub fn with_redactor(self, redactor: Redactor) -> Self {
        Self { redactor: Some(redactor), ..self }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Lets the search index follow in the background when it is far behind; `newest` is the newest message. For
    /// processes that live long, after what they write.
    pub fn follow(&self, newest: Arrival) {
        self.store.catch_up_beside(newest);
    }

    /// Brings the search index up to the newest message, unless another process is at it.
    ///
    /// # Errors
    /// When the database or the disk fails; truth is untouched.
    pub fn catch_up(&self) -> Result<IndexStatus, EngineError> {
        Ok(self.store.catch_up(Pace::Gentle, &|_| {})?)
    }

    /// The newest session of an agent in which a message of a host was said, whoever spoke to it.
    pub(crate) fn session_that_said(
        &self,
        agent: &str,
        source: &str,
        message: &InMessage,
    ) -> Result<Option<Session>, EngineError> {
        let pattern = OwnerPattern { agent: Some(agent.to_owned()), person: None };
        let scope = Scope { owners: Owners::Matching(vec![pattern]), ..Scope::everything() };
        let snapshot = self.store.snapshot()?;
        let mut sessions = Vec::new();
        for placed in snapshot.places_of(&scope, &self.id_of(source, message)?)? {
            sessions.push(snapshot.timeline(placed.timeline)?.session);
        }
        Ok(sessions.into_iter().max().map(|session| snapshot.session(session)).transpose()?)
    }

    /// Which of these messages of a host stand on the timeline that a session goes on with, in whatever form.
    pub(crate) fn known_in(
        &self,
        key: &SessionKey,
        source: &str,
        messages: &[InMessage],
    ) -> Result<Vec<bool>, EngineError> {
        let snapshot = self.store.snapshot()?;
        let sent = Sent { messages, redactor: self.redactor.as_ref(), format: HostFormat::of(source) };
        let looked = turn::look(&snapshot, key, sent, &|session| self.take_live(session))?;
        let Some(live) = looked.live else { return Ok(vec![false; messages.len()]) };
        let forms: HashSet<NodeId> = live.line.stood.iter().flat_map(|stood| stood.forms.iter().copied()).collect();
        self.put_live(live);
        let is_known = |element: &Arc<turn::Element>| {
            [Some(element.id), element.likeness].iter().flatten().any(|id| forms.contains(id))
        };
        Ok(looked.elements.iter().map(is_known).collect())
    }

    /// The numbers of the places at which an owner's message of a host stands.
    pub(crate) fn numbers_of(
        &self,
        owner: &Owner,
        source: &str,
        message: &InMessage,
    ) -> Result<Vec<Arrival>, EngineError> {
        let placed = self.store.snapshot()?.places_of(&turn::owner_scope(owner), &self.id_of(source, message)?)?;
        Ok(placed.into_iter().map(|placed| placed.arrival).collect())
    }

    fn id_of(&self, source: &str, message: &InMessage) -> Result<NodeId, EngineError> {
        let messages = std::slice::from_ref(message);
        turn::id_of(Sent { messages, redactor: self.redactor.as_ref(), format: HostFormat::of(source) })
    }

    /// The newest sessions that a reader may see: at most so many of those with a number below this one, newest first, each
    /// with how many messages it goes on with.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn sessions_seen(
        &self,
        reader: &Reader,
        below: SessionId,
        max: usize,
    ) -> Result<Vec<(Session, u64)>, EngineError> {
        tools::sessions(&self.store, reader, below, max)
    }

    /// The newest messages of a session as Markdown, quoted, and how to read on; where there is none, a sentence that
    /// says why.
    #[must_use]
    pub fn transcript(&self, request: &TranscriptRequest) -> ToolAnswer {
        tools::transcript(&self.store, request)
    }

    fn sent<'a>(&'a self, messages: &'a [InMessage]) -> Sent<'a> {
        Sent { messages, redactor: self.redactor.as_ref(), format: &HostFormat::PLAIN }
    }

    /// What is remembered of a session, when it still holds.
    fn recall(&self, snapshot: &Snapshot, session: &Session) -> Option<Known> {
        let found = {
            let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
            remembered.take(session.id)?
        };
        // Whatever another process adds to the timeline stands at its end.
        let last = snapshot.last_place(session.timeline).ok()?.map(|placed| placed.order);
        (found.timeline == session.timeline && found.last == last).then_some(found.known)
    }

    fn correction_of(&self, request: &CompressRequest<'_>) -> Correction {
        request.model.as_deref().map_or_else(Correction::default, |model| self.usage.correction(model))
    }

    fn take_live(&self, session: SessionId) -> Option<Live> {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.sessions.remove(&session).map(|(_, live)| live)
    }

    fn put_live(&self, session: Live) {
        self.live.lock().unwrap_or_else(PoisonError::into_inner).put(session);
    }

    fn remember(&self, session: SessionId, known: Known) {
        let Some((timeline, last)) = known.end() else { return };
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.put(session, timeline, last, known);
    }
}

/// Sessions that take turns, by when they were used.
#[derive(Default)]
struct LiveSessions {
    sessions: HashMap<SessionId, (u64, Live)>,
    clock: u64,
}

impl LiveSessions {
    fn put(&mut self, live: Live) {
        self.clock += 1;
        self.sessions.insert(live.session.id, (self.clock, live));
        while self.sessions.values().map(|(_, live)| live.weight()).sum::<usize>() > REMEMBERED_MAX
            && self.sessions.len() > 1
        {
            let oldest = self.sessions.iter().min_by_key(|(_, (used, _))| *used).map(|(id, _)| *id);
            let Some(oldest) = oldest else { return };
            self.sessions.remove(&oldest);
        }
    }
}

impl Remembered {
    fn take(&mut self, session: SessionId) -> Option<RememberedSession> {
        let found = self.sessions.remove(&session)?;
        self.weight -= found.known.weight();
        Some(found)
    }

    fn put(&mut self, session: SessionId, timeline: TimelineId, last: Option<OrderKey>, known: Known) {
        // Another thread may have put its own meanwhile.
        self.take(session);
        self.clock += 1;
        self.weight += known.weight();
        self.sessions.insert(session, RememberedSession { known, timeline, last, used: self.clock });
        while self.weight > REMEMBERED_MAX && self.sessions.len() > 1 {
            let oldest = self.sessions.iter().min_by_key(|(_, session)| session.used).map(|(id, _)| *id);
            let Some(oldest) = oldest else { return };
            self.take(oldest);
        }
    }
}

impl Service for Engine {
    fn sessions(&self, scope: &Scope) -> Result<Vec<SessionEntry>, EngineError> {
        read::sessions(&self.store.snapshot()?, scope)
    }

    fn find_sessions(&self, scope: &Scope, text: &str) -> Result<Vec<Session>, EngineError> {
        find::sessions(&self.store.snapshot()?, scope, text)
    }

    fn session_named(&self, key: &SessionKey) -> Result<Option<Session>, EngineError> {
        Ok(self.store.snapshot()?.session_named(&key.owner, &key.name)?)
    }

    fn find_nodes(&self, scope: &Scope, text: &str, max: usize) -> Result<Vec<Entry>, EngineError> {
        find::nodes(&self.store.snapshot()?, scope, text, max)
    }

    fn log(&self, request: &LogRequest) -> Result<LogPage, EngineError> {
        read::log(&self.store.snapshot()?, request)
    }

    fn read(&self, request: &ReadRequest) -> Result<ReadPage, EngineError> {
        read::read(&self.store.snapshot()?, request)
    }

    fn grep(&self, request: &GrepRequest) -> Result<GrepPage, EngineError> {
        search::grep(&self.store, request)
    }

    fn search(&self, request: &SearchRequest) -> Result<SearchPage, EngineError> {
        search::search(&self.store, request)
    }

    fn expand(&self, request: &ExpandRequest) -> Result<Expansion, EngineError> {
        read::expand(&self.store.snapshot()?, request)
    }

    fn describe(&self, scope: &Scope, number: Arrival) -> Result<Description, EngineError> {
        read::describe(&self.store.snapshot()?, scope, number)
    }

    fn describe_session(&self, scope: &Scope, session: SessionId) -> Result<SessionDescription, EngineError> {
        read::describe_session(&self.store.snapshot()?, scope, session)
    }

    fn status(&self) -> Result<Status, EngineError> {
        read::status(&self.store)
    }

    fn spent(&self, scope: &Scope, since_ms: Option<i64>) -> Result<Spent, EngineError> {
        spent::spent(&self.store.snapshot()?, scope, since_ms)
    }

    fn ingest(&self, request: IngestRequest) -> Result<Ingested, EngineError> {
        let snapshot = self.store.snapshot()?;
        let IngestRequest { mut incoming, defaults, by, now_ms } = request;
        if let Some(redactor) = &self.redactor {
            redactor.redact_list(&mut incoming)?;
        }
        let recall = |session: &Session| self.recall(&snapshot, session);
        let mut job = Job::new(&snapshot, incoming, &defaults, &by, now_ms, recall)?;
        drop(snapshot);
        Job::prepare(&self.store, &mut [&mut job])?;
        job.write(&self.store)?;
        let (ingested, known) = job.finish();
        if let Some(session) = ingested.session {
            self.remember(session, known);
        }
        Ok(ingested)
    }

    fn turn(&self, request: &TurnRequest) -> Result<Turned, EngineError> {
        let taken = turn::take_in(&self.store, request, self.redactor.as_ref(), &|session| self.take_live(session))?;
        self.put_live(taken.live);
        self.usage.shown(&request.key, taken.turned.tokens, taken.folds);
        Ok(taken.turned)
    }

    fn compress(&self, request: &CompressRequest<'_>) -> Result<Compressed, EngineError> {
        let redactor = self.redactor.as_ref();
        let mut taken = turn::take_in(&self.store, &request.turn, redactor, &|session| self.take_live(session))?;
        let correction = self.correction_of(request);
        let mut compressed = compress::compress(&self.store, request, correction, redactor, &mut taken)?;
        self.put_live(taken.live);
        // What is learned is learned of stored counts.
        let folds = if compressed.messages.is_some() { compressed.folds.clone() } else { taken.folds };
        self.usage.shown(&request.turn.key, compressed.tokens_after, folds);
        compressed.tokens_before = correction.apply(compressed.tokens_before);
        compressed.tokens_after = correction.apply(compressed.tokens_after);
        let told = compressed.tokens_before.max(request.current_tokens.unwrap_or(0));
        let mut futile = self.futile.lock().unwrap_or_else(PoisonError::into_inner);
        if compressed.messages.is_none() && told > request.options.threshold_tokens {
            if futile.len() >= FUTILE_MAX {
                // Forgetting costs one more attempt each.
                futile.clear();
            }
            futile.insert(request.turn.key.clone(), told);
        } else {
            futile.remove(&request.turn.key);
        }
        Ok(compressed)
    }

    fn prepare(&self, request: &CompressRequest<'_>) -> Result<u64, EngineError> {
        let redactor = self.redactor.as_ref();
        let mut taken = turn::take_in(&self.store, &request.turn, redactor, &|session| self.take_live(session))?;
        let correction = self.correction_of(request);
        let prepared = compress::prepare(&self.store, request, correction, redactor, &mut taken)?;
        self.put_live(taken.live);
        Ok(prepared)
    }

    fn select(&self, request: &SelectRequest) -> Result<Selected, EngineError> {
        let correction =
            request.model.as_deref().map_or_else(Correction::default, |model| self.usage.correction(model));
        let selecting = Selecting {
            store: &self.store,
            redactor: self.redactor.as_ref(),
            meter: Meter { judge: self.judge.as_deref(), correction },
            remembered: &|session| self.take_live(session),
            memory: &self.selections,
        };
        let (selected, live) = select::select(&selecting, request)?;
        if let Some(live) = live {
            self.put_live(live);
        }
        Ok(selected)
    }

    fn call_tool(&self, call: &ToolCall<'_>) -> ToolAnswer {
        tools::call(&self.store, call)
    }

    fn is_due(&self, key: &SessionKey, prompt_tokens: u64, options: &CompressOptions) -> (bool, String) {
        let threshold = options.threshold_tokens;
        if prompt_tokens <= threshold {
            return (false, format!("{prompt_tokens} tokens are within the threshold of {threshold}"));
        }
        let futile = self.futile.lock().unwrap_or_else(PoisonError::into_inner);
        match futile.get(key).map(|told| told + threshold / GROWTH_SHARE) {
            Some(until) if prompt_tokens < until => {
                (false, format!("nothing could be won when it was tried last; it is tried again at {until} tokens"))
            }
            _ => (true, format!("{prompt_tokens} tokens are over the threshold of {threshold}")),
        }
    }

    fn report_usage(&self, key: &SessionKey, model: &str, prompt_tokens: u64) -> Correction {
        self.usage.reported(key, model, prompt_tokens)
    }

    fn correction(&self, model: &str) -> Correction {
        self.usage.correction(model)
    }

    fn behind(&self, scope: &Scope, messages: &[InMessage]) -> Result<Vec<Vec<u8>>, EngineError> {
        turn::behind(&self.store.snapshot()?, scope, self.sent(messages))
    }

    fn weigh(&self, messages: &[InMessage]) -> Result<u64, EngineError> {
        turn::weigh(self.sent(messages))
    }

    fn import(
        &self,
        lists: &mut (dyn Iterator<Item = Incoming> + Send),
        options: &ImportOptions<'_>,
        report: &mut dyn FnMut(&Ingested),
    ) -> Result<Imported, EngineError> {
        import::import(self, lists, options, report)
    }

    fn refusal(&self, messages: &[InMessage], alternates: bool) -> Result<Option<String>, EngineError> {
        history::refusal(messages, alternates)
    }

    fn view(&self, request: &ViewRequest) -> Result<ViewPage, EngineError> {
        history::view(&self.store.snapshot()?, request)
    }

    fn assemble(&self, request: &AssembleRequest) -> Result<Assembled, EngineError> {
        history::assemble(&self.store.snapshot()?, request)
    }

    fn rewrite(&self, request: &RewriteRequest<'_>) -> Result<Rewritten, EngineError> {
        history::rewrite(&self.store, request, self.redactor.as_ref())
    }

    fn unfold(&self, request: &UnfoldRequest) -> Result<HistoryChanged, EngineError> {
        history::unfold(&self.store, request)
    }

    fn undo(&self, request: &UndoRequest) -> Result<Undone, EngineError> {
        history::undo(&self.store, request)
    }

    fn pin(&self, request: &PinRequest) -> Result<PinSet, EngineError> {
        history::pin(&self.store, request)
    }

    fn why(&self, scope: &Scope, number: Arrival) -> Result<Why, EngineError> {
        history::why(&self.store.snapshot()?, scope, number)
    }

    fn ops(&self, request: &OpsRequest) -> Result<OpsPage, EngineError> {
        history::ops(&self.store.snapshot()?, request)
    }

    fn try_write(&self) -> Result<(), EngineError> {
        match self.store.commit_if(|| false, |_| Ok::<_, EngineError>(())) {
            Err(EngineError::Store(StoreError::GivenUp)) => Ok(()),
            tried => tried,
        }
    }

    fn export(
        &self,
        request: &ExportRequest,
        each: &mut dyn FnMut(ExportRecord) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        export::export(&self.store, request, each)
    }

    fn check(&self, faults_max: usize, progress: &(dyn Fn(Progress) + Sync)) -> Result<CheckReport, EngineError> {
        let progress = |done, total| progress(Progress { done, total });
        Ok(self.store.check(&CheckOptions { faults_max, progress: &progress })?)
    }

    fn repair_index(&self, progress: &dyn Fn(Progress)) -> Result<IndexStatus, EngineError> {
        Ok(self.store.rebuild_index(progress)?)
    }
}
