//! LibreFang: what its hooks ask, and what they are answered.
//!
//! The host calls a hook at each step of a turn and shows its whole list each time. It names an agent and no session, and
//! does not say which turns are private. So a list is sorted first (`message`: who made what; by which key a message is
//! known again), the newest request and what stands behind it waits (`turn`) until it is known to be no secret, and the rest
//! is taken into the session in which its messages were said (`conversation`). What goes back is what that session shows,
//! and the newest request behind it; where nobody can be asked, what of the window fits (`fit`).
//!
//! `request` decodes and encodes, `raw` keeps what tools gave back until the message comes, `caller` tells which
//! conversation a tool of ours is called in, `agent` carries out. A spooled request is carried out in the same way, later
//! and without an answer.

mod message;
mod request;
mod fit;
mod turn;
mod raw;
mod conversation;
mod window;
mod caller;
mod agent;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lcm_core::Json;

use self::agent::Agent;
use self::caller::Callers;
pub use self::caller::{CALLER_KEY, Caller, Who};
use self::conversation::Work;
use self::fit::Room;
pub(super) use self::message::FORMAT;
use self::request::{Request, answer, answer_list, nothing};
use crate::Engine;
use crate::compress::CompressOptions;
use crate::error::EngineError;
use crate::service::{RecallOptions, TurnRequest};

/// The source of sessions of this host.
pub const SOURCE: &str = "librefang";

/// Bytes of an answer's messages: the host ends a hook that says more than 1 MiB.
const ANSWER_BYTES_MAX: usize = 900 << 10;
/// The window of a model that the host does not know.
const WINDOW_TOKENS: u64 = 8192;
/// How full the host lets a window become, in per cent: beyond that it folds by itself.
const FULL_PERCENT: u64 = 70;
/// How long what may be a secret is kept: a day, in milliseconds.
pub const PENDING_MS: i64 = 24 * 60 * 60 * 1000;
/// Agents whose conversations are remembered.
const AGENTS_MAX: usize = 256;

/// How hooks are answered.
#[derive(Clone, Debug)]
pub struct HookOptions {
    /// How windows are folded; the threshold is the host's.
    pub folding: CompressOptions,
    /// How much is recalled into a request.
    pub recall: RecallOptions,
    /// Whether a conversation may read others of the same agent and person.
    pub reads_across: bool,
    /// Who asks, for history.
    pub by: String,
}

/// What a hook is answered.
#[derive(Debug, Default)]
pub struct HookAnswer {
    /// One JSON object in one line.
    pub text: Vec<u8>,
    /// What was odd about the request, one sentence each; without anything that was said.
    pub notes: Vec<String>,
    /// What of the request may still be a secret and is nowhere else: whoever serves keeps [`Waiting::request`] until
    /// [`Hooks::still_needs`] says that it is not needed any more.
    pub waits: Option<Waiting>,
    /// A list that was taken in because its turn is over, and the size from which on it will be folded: the next fold can
    /// be prepared.
    pub settled: Option<(TurnRequest, u64)>,
}

/// What waits to be history, or to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    agent: String,
    keys: Vec<lcm_core::NodeId>,
    calls: Vec<String>,
    request: Vec<u8>,
}

impl Waiting {
    /// A request that says what waits and no more, for the spool: one JSON object.
    #[must_use]
    pub fn request(&self) -> &[u8] {
        &self.request
    }
}

/// What is remembered of a host's agents between two hooks. Shared by any number of threads.
///
/// All of it can be lost: a list is its own proof, and what is not history yet lies in the spool.
pub struct Hooks {
    agents: Mutex<HashMap<String, Arc<Mutex<Agent>>>>,
    callers: Mutex<Callers>,
    stable_prefix: std::sync::atomic::AtomicBool,
}

impl Hooks {
    /// Remembers nothing yet. `secret` proves that a tool's answer is ours: the same in every process on one store, and
    /// nobody else's.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        Self { agents: Mutex::default(), callers: Mutex::new(Callers::new(secret)), stable_prefix: false.into() }
    }

    /// Whether the host wants the head of its windows to stay the same, as its daemon said when it started: then nothing is
    /// recalled. Whoever serves keeps that for the next process.
    #[must_use]
    pub fn stable_prefix(&self) -> bool {
        self.stable_prefix.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The same as an earlier process heard it.
    pub fn set_stable_prefix(&self, is_wanted: bool) {
        self.stable_prefix.store(is_wanted, std::sync::atomic::Ordering::Relaxed);
    }

    /// Answers a hook.
    ///
    /// # Errors
    /// When the store cannot be used. Nothing of the request is lost by asking again.
    pub fn answer(
        &self,
        engine: &Engine,
        request: Json,
        options: &HookOptions,
        now_ms: i64,
    ) -> Result<HookAnswer, EngineError> {
        self.carry_out(engine, Request::read(request), options, now_ms, true)
    }

    /// Takes in a request that was left when nobody served, at `at_ms`; nobody waits for an answer.
    ///
    /// # Errors
    /// As [`Hooks::answer`].
    pub fn take_in(
        &self,
        engine: &Engine,
        request: Json,
        options: &HookOptions,
        at_ms: i64,
    ) -> Result<Option<Waiting>, EngineError> {
        Ok(self.carry_out(engine, Request::read(request), options, at_ms, false)?.waits)
    }

    fn carry_out(
        &self,
        engine: &Engine,
        request: Request,
        options: &HookOptions,
        now_ms: i64,
        is_asked: bool,
    ) -> Result<HookAnswer, EngineError> {
        let recall = match self.stable_prefix() {
            // What is recalled changes from request to request.
            true => RecallOptions { tokens_max: 0 },
            false => options.recall,
        };
        let work = Work { engine, folding: &options.folding, recall, by: &options.by, now_ms };
        Ok(match request {
            Request::Bootstrap { stable_prefix } => {
                self.set_stable_prefix(stable_prefix);
                HookAnswer { text: nothing(), ..HookAnswer::default() }
            }
            Request::Ingest { agent, message, peer } => {
                lock(&self.agent(&agent)).heard(message, peer, now_ms);
                HookAnswer { text: no_memories(), ..HookAnswer::default() }
            }
            Request::Assemble { agent: name, system_prompt, window, tools } => {
                let agent = self.agent(&name);
                let mut agent = lock(&agent);
                let window = self.with_answers(work, &name, &mut agent, window, options.reads_across, is_asked)?;
                let answered = agent.assemble(work, &name, &system_prompt, window, tools.as_ref(), is_asked)?;
                self.learn(&name, &mut agent);
                answered
            }
            Request::Compact { agent: name, window, pressure } => {
                let agent = self.agent(&name);
                let mut agent = lock(&agent);
                let window = self.with_answers(work, &name, &mut agent, window, options.reads_across, false)?;
                agent.compact(work, &name, window, pressure)?
            }
            Request::AfterTurn { agent: name, window } => {
                let agent = self.agent(&name);
                let mut agent = lock(&agent);
                let window = self.with_answers(work, &name, &mut agent, window, options.reads_across, false)?;
                let answered = agent.after_turn(work, &name, window)?;
                self.learn(&name, &mut agent);
                answered
            }
            Request::Transform { agent: name, tool, call, input, content, is_error } => {
                let agent = self.agent(&name);
                let mut agent = lock(&agent);
                let content = content.unwrap_or_default();
                let token = lock(&self.callers).read(&content);
                let (content, shown) = match token {
                    Some(caller) if !is_error => {
                        let told = (tool.as_str(), call.as_str(), &input);
                        match self.tool(work, &name, &mut agent, &caller, told, options.reads_across) {
                            Some(text) => (text.clone(), Some(text)),
                            // The next window in which the call stands tells whose it is.
                            None => return Ok(HookAnswer { text: answer("skip", &[]), ..HookAnswer::default() }),
                        }
                    }
                    _ => {
                        let part = agent.share_of(&tool, &content);
                        (content, part)
                    }
                };
                agent.gave_back(&call, &content, now_ms);
                let mut answered = match shown {
                    Some(shown) => changed(&shown),
                    None => HookAnswer { text: answer("skip", &[]), ..HookAnswer::default() },
                };
                answered.waits = Some(Waiting::result(name, &tool, call, &content));
                answered
            }
            Request::Other(kind) => {
                let known = ["prepare_subagent", "merge_subagent", "on_event", "ingest"].contains(&kind.as_str());
                let notes = if known {
                    Vec::new()
                } else {
                    vec!["a hook of an unknown type was answered with nothing".to_owned()]
                };
                HookAnswer { text: nothing(), notes, ..HookAnswer::default() }
            }
        })
    }

    /// Whether what waits is nowhere else yet.
    #[must_use]
    pub fn still_needs(&self, waiting: &Waiting) -> bool {
        let agent = self.agent(&waiting.agent);
        let agent = lock(&agent);
        agent.still_waits(&waiting.keys, &waiting.calls)
    }

    /// Forgets what may be a secret and was not told to be none for a day.
    pub fn forget_before(&self, moment_ms: i64) {
        let agents: Vec<Arc<Mutex<Agent>>> = lock(&self.agents).values().cloned().collect();
        for agent in agents {
            lock(&agent).forget_before(moment_ms);
        }
    }

    /// Who calls a tool, by the mark that the host puts on a call.
    #[must_use]
    pub fn who(&self, engine: &Engine, caller: &Caller, options: &HookOptions) -> Who {
        let joined = lock(&self.callers).joined(caller);
        if let Some((agent, name)) = joined {
            let agent = self.agent(&agent);
            let agent = lock(&agent);
            if let Some(reader) = agent.reader(engine, &name, caller, options.reads_across) {
                return Who::Reader(reader, agent.bounds());
            }
        }
        Who::Answer(lock(&self.callers).token(caller))
    }

    fn agent(&self, name: &str) -> Arc<Mutex<Agent>> {
        let mut agents = lock(&self.agents);
        if agents.len() >= AGENTS_MAX && !agents.contains_key(name) {
            // Those that somebody works with stay, and those of which something is nowhere else.
            agents.retain(|_, agent| Arc::strong_count(agent) > 1 || lock(agent).waits());
        }
        agents.entry(name.to_owned()).or_default().clone()
    }

    /// Learns from a list in which a tool's call stands whose conversation is.
    fn learn(&self, name: &str, agent: &mut Agent) {
        for (call, conversation) in agent.shown_calls.drain(..) {
            lock(&self.callers).stood_in(&call, name, &conversation);
        }
    }
}

/// What a hook answers with nobody to ask: the window, what of it fits.
///
/// Pure: the same for the same request. An answer to what is no request says nothing.
#[must_use]
pub fn alone(request: &[u8]) -> Vec<u8> {
    let Ok(request) = Json::parse(request) else { return nothing() };
    match Request::read(request) {
        Request::Assemble { window, system_prompt, .. } => {
            let room = Room { bytes: ANSWER_BYTES_MAX, ..room(&window, &system_prompt, 0) };
            let shown = fit::fit(window.messages, room, |_, _| String::new());
            list_of("assemble_result", &shown, &[])
        }
        Request::Compact { window, .. } => {
            let room = Room { bytes: ANSWER_BYTES_MAX, ..room(&window, "", 0) };
            let shown = fit::fit(window.messages, room, |_, _| String::new());
            // What stays of the list is what the host keeps; it tells no model that something was left out.
            list_of("compact_result", &shown, &[("summary", &"".into())])
        }
        Request::Ingest { .. } => no_memories(),
        Request::Transform { .. } => answer("skip", &[]),
        Request::Bootstrap { .. } | Request::AfterTurn { .. } | Request::Other(_) => nothing(),
    }
}

/// Five short texts in the system prompt, and a cold cache, are no recall: what is recalled stands in the window. The
/// long-lived protocol has another name for the list.
fn no_memories() -> Vec<u8> {
    let none = Json::Array(Vec::new());
    answer("ingest_result", &[("memories", &none), ("recalled_memories", &none)])
}

fn list_of(kind: &str, shown: &[message::Said], entries: &[(&str, &Json)]) -> Vec<u8> {
    let shown: Vec<message::Shown> = shown.iter().map(message::Said::shown).collect();
    answer_list(kind, shown.iter().map(|shown| &*shown.text), entries)
}

/// What a window has room for beside a system prompt and `beside` thousandths of a token.
fn room(window: &request::Window, system_prompt: &str, beside_millis: u64) -> Room {
    let tokens = if window.tokens == 0 { WINDOW_TOKENS } else { window.tokens };
    let full = tokens.saturating_mul(FULL_PERCENT * 10);
    let taken = message::text_millis(system_prompt.as_bytes()).saturating_add(beside_millis);
    // Whatever stands beside it, a quarter of the window is the conversation's.
    Room { millis: full.saturating_sub(taken).max(tokens.saturating_mul(250)), bytes: ANSWER_BYTES_MAX }
}

fn changed(text: &str) -> HookAnswer {
    let text: Json = text.into();
    HookAnswer { text: answer("transformed", &[("result", &text), ("content", &text)]), ..HookAnswer::default() }
}

/// Locks; what a panic left behind is a cache that the next list puts right.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
