//! A host's list turn by turn: what it shows, what came of it, and the shorter list in its place.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use lcm_core::{Arrival, Handle, NodeId, OpId, Owner, SessionId};
use lcm_store::Scope;

use crate::compress::CompressOptions;
use crate::compress::summary::Summarizer;
use crate::hosts::speech::Dialect;

/// A host's whole list, as it is about to be sent to a model.
#[derive(Clone, Debug)]
pub struct TurnRequest {
    /// Which session; made when it is not there.
    pub key: SessionKey,
    /// The program it comes from.
    pub source: String,
    /// The format; `None` to tell it from the messages.
    pub dialect: Option<Dialect>,
    /// What the host shows, in its order.
    pub messages: Vec<InMessage>,
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
    /// What the list costs, by the stored count.
    pub tokens: u64,
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
    /// Says whether the caller has given up; then no model is asked any more, and no summary kept.
    pub cancel: Cancel,
}

/// Whether whoever asked has given up. Clones are the same one.
#[derive(Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Gives up, for good.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether somebody did.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_cancelled() { "cancelled" } else { "wanted" })
    }
}

impl<'a> CompressRequest<'a> {
    /// A list that is made shorter when it is over its threshold, without a model.
    #[must_use]
    pub fn new(turn: TurnRequest, options: CompressOptions) -> Self {
        Self {
            turn,
            options,
            current_tokens: None,
            model: None,
            force: false,
            focus: None,
            memory_context: None,
            summarizer: None,
            cancel: Cancel::default(),
        }
    }
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

impl Compressed {
    /// The list to use: what came of the one that was given, or that one.
    #[must_use]
    pub fn list(&self, given: &[impl AsRef<[u8]>]) -> Vec<Vec<u8>> {
        OutMessage::list(self.messages.as_deref(), given)
    }
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

/// A message of a list that a host shows: JSON text. Copies share it, and the hash by which it is known again.
#[derive(Clone)]
pub struct InMessage(Arc<InText>);

struct InText {
    text: Box<[u8]>,
    hash: OnceLock<[u8; 32]>,
    tokens: OnceLock<u32>,
}

impl InMessage {
    /// The messages of a list, from their texts.
    pub fn list<T: Into<Vec<u8>>>(texts: impl IntoIterator<Item = T>) -> Vec<Self> {
        texts.into_iter().map(|text| Self::from(text.into())).collect()
    }

    /// The hash of its text, computed once.
    pub(crate) fn hash(&self) -> [u8; 32] {
        *self.0.hash.get_or_init(|| *blake3::hash(&self.0.text).as_bytes())
    }

    /// What it costs; `count` says so once. A list is shown to one engine, which counts all alike.
    pub(crate) fn tokens<E>(&self, count: impl FnOnce() -> Result<u32, E>) -> Result<u32, E> {
        match self.0.tokens.get() {
            Some(tokens) => Ok(*tokens),
            None => count().map(|tokens| *self.0.tokens.get_or_init(|| tokens)),
        }
    }
}

impl From<Vec<u8>> for InMessage {
    fn from(text: Vec<u8>) -> Self {
        Self(Arc::new(InText { text: text.into(), hash: OnceLock::new(), tokens: OnceLock::new() }))
    }
}

impl Deref for InMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.text
    }
}

impl AsRef<[u8]> for InMessage {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for InMessage {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl Eq for InMessage {}

impl fmt::Debug for InMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_BYTES: usize = 120;
        let beginning = String::from_utf8_lossy(&self[..self.len().min(SHOWN_BYTES)]);
        write!(f, "InMessage({} bytes: {beginning})", self.len())
    }
}

/// A message of a list that was made shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutMessage {
    /// The message at this index of the list that was given, as it is.
    Given(usize),
    /// One that we made, as JSON text.
    Made(Vec<u8>),
}

impl OutMessage {
    /// A list of them as JSON texts; the one that was given where there is none.
    pub(super) fn list(messages: Option<&[Self]>, given: &[impl AsRef<[u8]>]) -> Vec<Vec<u8>> {
        let Some(messages) = messages else { return given.iter().map(|message| message.as_ref().to_vec()).collect() };
        let message = |message: &Self| match message {
            Self::Given(at) => given.get(*at).map(|message| message.as_ref().to_vec()),
            Self::Made(json) => Some(json.clone()),
        };
        messages.iter().filter_map(message).collect()
    }
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
