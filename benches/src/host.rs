//! A host as the benches play it: it opens the engine, shows it what was said, and asks.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use lcm_core::tokens::TokenCounter;
use lcm_core::{Json, Message, Owner, SessionId};
use lcm_engine::Engine;
use lcm_engine::error::EngineError;
use lcm_engine::hosts::{Incoming, IncomingMessage};
use lcm_engine::service::{
    ImportOptions, InMessage, IngestRequest, Ingested, Reader, Scope, Service, SessionKey, ToolBounds, ToolCall,
    TurnRequest,
};
use lcm_store::{OpenOptions, Store};
use serde_json::Value;

use crate::workload::Said;

/// What ops say of who asked.
const BY: &str = "lcm-benches";

/// An engine on a store, and the one agent and person that speak to it.
pub struct Host {
    engine: Engine,
    owner: Owner,
}

impl Host {
    /// Opens the store in `home`, or makes it there.
    ///
    /// # Errors
    /// When the store cannot be opened.
    pub fn open(home: &Path) -> Result<Self, EngineError> {
        let store = Store::open(home, OpenOptions::default())?;
        let owner = Owner { agent: "bench".to_owned(), person: "owner".to_owned() };
        Ok(Self { engine: Engine::new(store), owner })
    }

    /// The same host, whose requests are judged by another counter than the stored one.
    #[must_use]
    pub fn judged_by(self, counter: Arc<dyn TokenCounter>) -> Self {
        Self { engine: self.engine.with_counter(counter), ..self }
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Shows the engine messages of a session of which it has `known` already.
    ///
    /// # Errors
    /// When a message is none, or the store cannot be written.
    pub fn say(&self, session: &str, known: u64, messages: &[Said]) -> Result<Ingested, EngineError> {
        let incoming = incoming(session, known, messages)?;
        let request = IngestRequest { incoming, defaults: self.owner.clone(), by: BY.to_owned(), now_ms: 0 };
        self.engine.ingest(request)
    }

    /// A turn of an agent's session: its whole list.
    #[must_use]
    pub fn turn(&self, agent: &str, session: &str, messages: Vec<Vec<u8>>) -> TurnRequest {
        TurnRequest {
            key: SessionKey::new(agent, "owner", session),
            source: "host".to_owned(),
            dialect: None,
            messages: InMessage::list(messages),
            by: BY.to_owned(),
            now_ms: now_ms(),
        }
    }

    /// Calls a tool as an agent does in the middle of a session; gives its answer.
    ///
    /// # Errors
    /// What the tool says is wrong.
    pub fn call_tool(&self, session: SessionId, name: &str, arguments: &Value) -> Result<Value, Box<dyn Error>> {
        let reader = Reader { owner: self.owner.clone(), session: Some(session), ..Reader::default() };
        let answer = self.engine.call_tool(&ToolCall {
            name,
            arguments: arguments.to_string().as_bytes(),
            reader,
            // Benchmarks ask for more hits at once than a model would read.
            bounds: ToolBounds { tokens_max: u64::MAX, chars_max: usize::MAX, bytes_max: usize::MAX },
            model: None,
            by: BY.to_owned(),
            now_ms: now_ms(),
        });
        if answer.is_error { Err(answer.text.into()) } else { Ok(serde_json::from_str(&answer.text)?) }
    }

    /// Takes in whole sessions as an import does; hears of each that is durable.
    ///
    /// # Errors
    /// When a message is none, or the store cannot be written.
    pub fn import(
        &self,
        sessions: impl Iterator<Item = Result<Incoming, EngineError>> + Send,
        mut done: impl FnMut(&Ingested),
    ) -> Result<(), EngineError> {
        let options = ImportOptions { defaults: self.owner.clone(), by: BY.to_owned(), now_ms: 0, indexing: &|_| {} };
        let mut failed = None;
        let mut lists = sessions.map_while(|list| list.map_err(|error| failed = Some(error)).ok());
        self.engine.import(&mut lists, &options, &mut done)?;
        failed.map_or(Ok(()), Err)
    }

    /// The number of a session.
    ///
    /// # Errors
    /// [`EngineError::NoSession`] when there is none, otherwise when the store cannot be read.
    pub fn session(&self, name: &str) -> Result<SessionId, EngineError> {
        let snapshot = self.engine.store().snapshot()?;
        let session = snapshot.session_named(&self.owner, name)?;
        session.map(|session| session.id).ok_or_else(|| EngineError::NoSession(name.to_owned()))
    }

    /// Everything, or one session alone.
    #[must_use]
    pub fn scope(&self, session: Option<SessionId>) -> Scope {
        Scope::everything().in_sessions(session.into_iter().collect())
    }
}

/// Milliseconds since 1970 UTC.
#[must_use]
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A list of messages as a decoder hands it over.
///
/// # Errors
/// When a message is none.
pub fn incoming(session: &str, known: u64, messages: &[Said]) -> Result<Incoming, EngineError> {
    let one = |said: &Said| -> Result<IncomingMessage, EngineError> {
        let mut message = IncomingMessage::new(&Message::parse(said.json.as_bytes())?)?;
        message.seen_ms = Some(said.seen_ms);
        Ok(message)
    };
    let messages = messages.iter().map(one).collect::<Result<_, _>>()?;
    Ok(Incoming { name: session.to_owned(), source: "workload".to_owned(), known, messages, ..Incoming::default() })
}

/// Bytes of what a message says: its content and the arguments of its calls, as the workload's driver counts them.
///
/// # Errors
/// When the message is no JSON.
pub fn content_bytes(said: &Said) -> Result<usize, lcm_core::JsonError> {
    let message = Json::parse(said.json.as_bytes())?;
    let text = |value: Option<&Json>| value.and_then(Json::as_str).map_or(0, str::len);
    let calls = message.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
    let arguments = calls.iter().map(|call| text(call.get("function").and_then(|function| function.get("arguments"))));
    Ok(text(message.get("content")) + arguments.sum::<usize>())
}
