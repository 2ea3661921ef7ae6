//! The tools that agents call in the middle of a conversation.

use lcm_core::{Arrival, Owner, SessionId};

use crate::compress::summary::Summarizer;

/// Who calls a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reader {
    /// Whose messages may be read; nobody's where it is empty.
    pub owner: Owner,
    /// The conversation in which the call is made; `None` while it has said nothing, or where there is none.
    pub session: Option<SessionId>,
    /// Sessions of others that were handed to this reader, a sub-agent's parent for one.
    pub given: Vec<SessionId>,
    /// Whether the reader sees its own and the given sessions only, and no other of its owner: a sub-agent.
    pub is_confined: bool,
    /// Whose messages may be read beside the owner's; a setting says so, never a call.
    pub sees: Sees,
    /// Whether there is no conversation in which calls are made, and will be none: where others mean theirs, all that may
    /// be read is meant.
    pub is_outside: bool,
}

/// Whose messages a reader sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sees {
    /// Its owner's.
    #[default]
    Own,
    /// Those of every person of its owner's agent.
    Agent,
    /// Everybody's.
    All,
}

/// A call of a tool.
pub struct ToolCall<'a> {
    /// The tool, as the model names it.
    pub name: &'a str,
    /// What the model passes: JSON text, whatever it is.
    pub arguments: &'a [u8],
    /// Who calls.
    pub reader: Reader,
    /// How large an answer may be, whatever the call asks for.
    pub bounds: ToolBounds,
    /// A model that answers questions; `None` for none.
    pub model: Option<&'a dyn Summarizer>,
    /// Who asks, for history.
    pub by: String,
    /// Now: milliseconds since 1970 UTC.
    pub now_ms: i64,
}

/// How large an answer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolBounds {
    /// Tokens by the stored count.
    pub tokens_max: u64,
    /// Characters.
    pub chars_max: usize,
    /// Bytes of the text in UTF-8. A bound that always holds: what cannot be made to fit is an error.
    pub bytes_max: usize,
}

impl Default for ToolBounds {
    fn default() -> Self {
        // Hosts put more than 8,000 tokens or 30,000 characters into a file and show its beginning.
        Self { tokens_max: 8_000, chars_max: 30_000, bytes_max: usize::MAX }
    }
}

/// A conversation that is asked for as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptRequest {
    /// Who asks.
    pub reader: Reader,
    /// The session: a name, its beginning, or `#` and its number.
    pub session: String,
    /// Only messages before this one; `None` for the newest.
    pub before: Option<Arrival>,
    /// Bytes of the text.
    pub bytes_max: usize,
}

/// The answer of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAnswer {
    /// JSON text in one line, as the model gets it.
    pub text: String,
    /// Whether the call could not be answered; the text says why and what to do.
    pub is_error: bool,
}
