//! One request to a model: the view, and what of the folded originals it should see beside it.

use lcm_store::Scope;

use super::reading::Entry;
use super::turns::{OutMessage, TurnRequest};
use crate::compress::CompressOptions;

/// A request that a host is about to send, and how much of it there may be.
#[derive(Clone, Debug)]
pub struct SelectRequest {
    /// The list, as it is about to be sent. What it brings that is new is not taken in: a request is no history.
    pub turn: TurnRequest,
    /// Messages at the beginning of the list that are the host's and no part of the conversation; they stay first.
    pub head: usize,
    /// What the whole list may cost, tokens by the host's model; 0 where the host does not say.
    pub budget_tokens: u64,
    /// The model that the list goes to, when the host says: its counts are corrected by what was reported of it.
    pub model: Option<String>,
    /// What is looked for; `None` for the newest message of the user.
    pub query: Option<String>,
    /// Where originals may be recalled from.
    pub scope: Scope,
    /// How a list that is over its budget is folded.
    pub folding: CompressOptions,
    /// How much is recalled.
    pub recall: RecallOptions,
}

/// How much is recalled into a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecallOptions {
    /// What the block may cost, tokens; 0 for none. It never takes more than a fair share of the budget.
    pub tokens_max: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Selected {
    /// The list to send instead; `None` to send the one that was given, and then `reason` says why.
    pub messages: Option<Vec<OutMessage>>,
    /// Why the list is as it was.
    pub reason: Option<String>,
    /// What the list cost by the count in force; 0 where it was seen without counting that nothing is to be done.
    pub tokens_before: u64,
    /// What it costs now.
    pub tokens_after: u64,
    /// What was recalled, in the order in which it stands, and why.
    pub recalled: Vec<Recalled>,
    /// What was a candidate and is not there, best first; a few of them.
    pub left_out: Vec<Recalled>,
}

impl Selected {
    /// The list to send: what came of the one that was given, or that one.
    #[must_use]
    pub fn list(&self, given: &[impl AsRef<[u8]>]) -> Vec<Vec<u8>> {
        OutMessage::list(self.messages.as_deref(), given)
    }
}

/// An original that was a candidate for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// Where it stands.
    pub entry: Entry,
    /// How well it fits, thousandths; comparable within one answer only.
    pub score: u32,
    /// What it costs as it is shown, tokens.
    pub tokens: u64,
    /// Why it is there, or not: one short phrase each.
    pub reasons: Vec<String>,
}
