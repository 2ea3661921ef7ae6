//! In which conversation a tool of ours is called.
//!
//! The host marks a call of a tool with its own name of the session, which no hook ever hears, and does not say which agent
//! calls. So a call of a session that is not known is answered with a *token* that names the session; the hook that sees
//! every tool's answer, and whose agent the host vouches for, puts the real answer in its place. Which of the agent's
//! conversations it is, is told by the turn that is going on; where several are, by the next list in which the call stands.

use std::collections::HashMap;

use lcm_core::Json;

use crate::service::{Reader, ToolBounds};

/// The key of the host's mark in the `_meta` of a call.
pub const CALLER_KEY: &str = "io.librefang/caller";

/// Sessions of the host of which it is known whose they are; forgetting one costs a token.
const JOINED_MAX: usize = 4096;
/// Calls that are looked for in lists.
const CALLS_MAX: usize = 1024;
/// Bytes of a name that the host gives.
const NAME_BYTES_MAX: usize = 256;

const BEGIN: &str =
    "lcm cannot tell whose conversation asks: its plugin has to be the context engine of this agent [lcm:call ";

/// Who calls, as the host marks it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    /// The host's own name of the session.
    pub session: String,
    /// Who speaks to the agent in it, when that is not the owner.
    pub peer: Option<String>,
}

impl Caller {
    /// Reads the host's mark; `None` where it names no session.
    #[must_use]
    pub fn read(mark: &Json) -> Option<Self> {
        let text =
            |key| mark.get(key).and_then(Json::as_str).filter(|text| !text.is_empty() && text.len() <= NAME_BYTES_MAX);
        Some(Self { session: text("session_id")?.to_owned(), peer: text("peer_id").map(str::to_owned) })
    }
}

/// Whose messages a call may read.
#[derive(Clone, Debug)]
pub enum Who {
    /// This reader's; and how large an answer may be that the host shows whole.
    Reader(Reader, ToolBounds),
    /// It is not known yet: this is the whole answer of the tool.
    Answer(String),
}

/// What is known of the host's sessions.
pub(super) struct Callers {
    secret: [u8; 32],
    /// The agent and the conversation of a session.
    joined: HashMap<String, (String, String)>,
    /// The session and agent of a call that was answered, by the call's id.
    calls: HashMap<String, (String, String)>,
}

impl Callers {
    pub(super) fn new(secret: [u8; 32]) -> Self {
        Self { secret, joined: HashMap::new(), calls: HashMap::new() }
    }

    /// The answer of a tool whose caller is not known.
    pub(super) fn token(&self, caller: &Caller) -> String {
        let mut entries = vec![("session", Json::from(caller.session.as_str()))];
        entries.extend(caller.peer.as_deref().map(|peer| ("peer", peer.into())));
        let payload = hex(&Json::object(entries).to_text());
        let proof = self.proof(&payload);
        format!("{BEGIN}{payload} {proof}]")
    }

    /// Who a token is of; `None` for any other text.
    pub(super) fn read(&self, text: &str) -> Option<Caller> {
        let (payload, proof) = text.trim().strip_prefix(BEGIN)?.strip_suffix(']')?.split_once(' ')?;
        if self.proof(payload) != proof {
            return None;
        }
        let json = Json::parse(&from_hex(payload)?).ok()?;
        let text = |key| json.get(key).and_then(Json::as_str).map(str::to_owned);
        Some(Caller { session: text("session")?, peer: text("peer") })
    }

    fn proof(&self, payload: &str) -> String {
        hex(&blake3::keyed_hash(&self.secret, payload.as_bytes()).as_bytes()[..16])
    }

    pub(super) fn joined(&self, caller: &Caller) -> Option<(String, String)> {
        self.joined.get(&caller.session).cloned()
    }

    pub(super) fn join(&mut self, caller: &Caller, agent: &str, conversation: &str) {
        if self.joined.len() >= JOINED_MAX {
            self.joined.clear();
        }
        self.joined.insert(caller.session.clone(), (agent.to_owned(), conversation.to_owned()));
    }

    /// A call was answered whose conversation the next list will tell.
    pub(super) fn asked(&mut self, caller: &Caller, agent: &str, call: &str) {
        if self.calls.len() >= CALLS_MAX {
            self.calls.clear();
        }
        self.calls.insert(call.to_owned(), (caller.session.clone(), agent.to_owned()));
    }

    /// A call stands in a list of a conversation.
    pub(super) fn stood_in(&mut self, call: &str, agent: &str, conversation: &str) {
        if self.calls.get(call).is_some_and(|(_, asked)| asked == agent)
            && let Some((session, _)) = self.calls.remove(call)
        {
            self.joined.insert(session, (agent.to_owned(), conversation.to_owned()));
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
