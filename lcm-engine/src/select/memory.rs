//! What was selected for the newest requests, so that steps of a turn and retries get the same bytes.
//!
//! A cache: whoever has nothing here selects anew, and mostly comes to the same.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lcm_store::Scope;

use crate::compress::CompressOptions;
use crate::hosts::speech::Speech;
use crate::service::{OutMessage, RecallOptions, Recalled, SessionKey};

/// Sessions that are remembered, and bytes of what was made for all of them.
const SESSIONS_MAX: usize = 256;
const BYTES_MAX: usize = 16 << 20;
/// Messages of hosts at the head of lists whose cost is remembered.
const HEADS_MAX: usize = 256;

/// See the module. Shared by any number of threads.
#[derive(Default)]
pub(crate) struct Memory(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    sessions: HashMap<SessionKey, Selection>,
    heads: HashMap<[u8; 32], (u64, Speech)>,
    clock: u64,
    bytes: usize,
}

/// What was asked: the same question about a list that only grew gets the same answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asked {
    pub(super) query: Option<String>,
    pub(super) scope: Scope,
    pub(super) folding: CompressOptions,
    pub(super) recall: RecallOptions,
}

/// What was selected for a request.
#[derive(Clone)]
pub(super) struct Selection {
    pub(super) asked: Asked,
    /// The list behind the host's head, by the hashes of its messages.
    pub(super) given: Vec<[u8; 32]>,
    /// What is shown instead of it; `None` for the list itself.
    pub(super) shown: Option<Vec<OutMessage>>,
    /// What the rules of providers see of that.
    pub(super) speeches: Vec<Speech>,
    /// What it costs.
    pub(super) tokens: u64,
    pub(super) reason: Option<String>,
    /// What the block was made for: the newest request, and the folds that are shown.
    pub(super) turn: blake3::Hash,
    pub(super) block: Option<Block>,
    used: u64,
}

/// What was recalled.
#[derive(Clone)]
pub(super) struct Block {
    /// The message, as JSON text.
    pub(super) json: Vec<u8>,
    pub(super) tokens: u64,
    pub(super) recalled: Vec<Recalled>,
    pub(super) left_out: Vec<Recalled>,
}

impl Selection {
    pub(super) fn new(asked: Asked, given: Vec<[u8; 32]>, turn: blake3::Hash) -> Self {
        let (shown, speeches, tokens, reason, block, used) = (None, Vec::new(), 0, None, None, 0);
        Self { asked, given, shown, speeches, tokens, reason, turn, block, used }
    }

    fn bytes(&self) -> usize {
        let made = self.shown.iter().flatten().map(|message| match message {
            OutMessage::Given(_) => 8,
            OutMessage::Made(json) => json.len(),
        });
        let block = self.block.as_ref().map_or(0, |block| block.json.len());
        made.sum::<usize>() + block + (self.given.len() + self.speeches.len()) * 64
    }
}

impl Memory {
    /// What was selected for a session last.
    pub(super) fn last(&self, key: &SessionKey) -> Option<Selection> {
        let mut kept = self.kept();
        kept.clock += 1;
        let clock = kept.clock;
        let found = kept.sessions.get_mut(key)?;
        found.used = clock;
        Some(found.clone())
    }

    /// Remembers what was selected.
    pub(super) fn put(&self, key: &SessionKey, mut selection: Selection) {
        let mut kept = self.kept();
        kept.clock += 1;
        selection.used = kept.clock;
        kept.bytes += selection.bytes();
        if let Some(before) = kept.sessions.insert(key.clone(), selection) {
            kept.bytes -= before.bytes();
        }
        while kept.sessions.len() > SESSIONS_MAX || (kept.bytes > BYTES_MAX && kept.sessions.len() > 1) {
            let oldest = kept.sessions.iter().min_by_key(|(_, one)| one.used).map(|(key, _)| key.clone());
            let Some(gone) = oldest.and_then(|key| kept.sessions.remove(&key)) else { return };
            kept.bytes -= gone.bytes();
        }
    }

    /// What a message at the head costs, and what the rules see of it.
    pub(super) fn head(&self, hash: &[u8; 32]) -> Option<(u64, Speech)> {
        self.kept().heads.get(hash).cloned()
    }

    pub(super) fn put_head(&self, hash: [u8; 32], tokens: u64, speech: Speech) {
        let mut kept = self.kept();
        if kept.heads.len() >= HEADS_MAX {
            kept.heads.clear();
        }
        kept.heads.insert(hash, (tokens, speech));
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
