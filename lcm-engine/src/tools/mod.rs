//! The tools that agents call in the middle of a conversation.
//!
//! Modules in reading order: `arguments` reads what a model passes, `access` says what the caller may see and `reach`
//! where a call looks, `answer` writes within a budget and keeps what was said apart from what we say, `cursor` is where
//! a cut answer goes on, `message` takes a message apart, `shown` says where something stands. Then a file for each
//! tool or family.
//!
//! What always holds: an answer is one JSON object in one line, no larger than asked for and than its host allows; it says
//! when it is cut and where to go on; nothing that was said stands outside of a quoted block; what is out of the
//! caller's scope is answered like what is not there.
//! Not here: the command line, which asks the service by itself.

mod arguments;
mod access;
mod reach;
mod answer;
mod cursor;
mod message;
mod shown;
mod grep;
mod expand;
mod describe;
mod query;
mod recall;
mod session;
mod status;
mod pin;
mod transcript;

use lcm_core::{Json, SessionId};
use lcm_store::{Session, Store, StoreError};

use self::arguments::{Arguments, Tool, short};
use crate::error::EngineError;
use crate::service::{Reader, ToolAnswer, ToolCall, TranscriptRequest};

/// Every tool, in the order in which they are listed.
static TOOLS: [&Tool; 11] = [
    &grep::TOOL,
    &expand::TOOL,
    &describe::TOOL,
    &query::TOOL,
    &session::TOOL,
    &recall::RECALL,
    &recall::RECENT,
    &status::STATUS,
    &status::INSPECT,
    &status::DOCTOR,
    &pin::TOOL,
];

/// The tool that may ask a model, and so take as long as that does.
pub const ASKS_A_MODEL: &str = "lcm_expand_query";

/// Tools of another engine that agents may still ask for, and what to use instead.
const NOT_ENABLED: [(&str, &str); 5] = [
    ("lcm_query_state", "lcm_grep finds where something was said last"),
    ("lcm_compute", "lcm_expand gives the numbers, word for word"),
    ("lcm_evidence_pack", "lcm_expand_query with output=evidence packs originals"),
    ("lcm_compile_evidence", "lcm_expand_query with output=evidence packs originals"),
    ("lcm_retrieve", "lcm_recall finds across sessions"),
];

/// Why a call could not be answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum ToolError {
    /// What is wrong with the call, and what to do: one sentence.
    #[error("{0}")]
    Said(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<StoreError> for ToolError {
    fn from(error: StoreError) -> Self {
        Self::Engine(error.into())
    }
}

type Answered = Result<String, ToolError>;

/// What is told of the tools to a model: for each an object of `name`, `description` and `parameters` (a JSON schema). The
/// same at every call. `all` gives those too that are listed by setting only.
#[must_use]
pub fn schemas(all: bool) -> Vec<Json> {
    TOOLS.iter().filter(|tool| all || tool.is_default).map(|tool| schema(tool)).collect()
}

fn schema(tool: &Tool) -> Json {
    let listed = tool.parameters.iter().filter(|parameter| !parameter.about.is_empty());
    let properties = Json::object(listed.map(|parameter| (parameter.name, parameter.schema())));
    let mut parameters = vec![("type", "object".into()), ("properties", properties)];
    if !tool.required.is_empty() {
        parameters.push(("required", Json::Array(tool.required.iter().map(|name| (*name).into()).collect())));
    }
    Json::object([
        ("name", tool.name.into()),
        ("description", tool.about.into()),
        ("parameters", Json::object(parameters)),
    ])
}

/// The names of all tools, those included that are listed by setting only.
pub fn names() -> impl Iterator<Item = &'static str> {
    TOOLS.iter().map(|tool| tool.name)
}

/// Whether calls of a tool leave everything as it is.
#[must_use]
pub fn is_read_only(name: &str) -> bool {
    name != pin::TOOL.name
}

/// A session as answers name it: by its name where that can be nothing but a name, else by its number.
#[must_use]
pub fn name_of(session: &Session) -> String {
    access::name_of(session)
}

/// Every parameter that is read: tool, parameter, other names. For whoever writes them down.
#[must_use]
pub fn parameters() -> Vec<(&'static str, &'static str, &'static [&'static str])> {
    let of = |tool: &&'static Tool| {
        let tool: &'static Tool = tool;
        tool.parameters.iter().map(move |parameter| (tool.name, parameter.name, parameter.aliases))
    };
    TOOLS.iter().flat_map(of).collect()
}

/// Answers a call.
pub(crate) fn call(store: &Store, call: &ToolCall<'_>) -> ToolAnswer {
    match answered(store, call) {
        Ok(text) => ToolAnswer { text, is_error: false },
        Err(error) => ToolAnswer { text: answer::error(&sentence(&error)), is_error: true },
    }
}

/// The newest sessions that a reader may see, below a number, each with how many messages it goes on with.
pub(crate) fn sessions(
    store: &Store,
    reader: &Reader,
    below: SessionId,
    max: usize,
) -> Result<Vec<(Session, u64)>, EngineError> {
    let snapshot = store.snapshot()?;
    let seen = access::Access::new(&snapshot, reader).and_then(|access| access.all());
    let scope = match seen {
        Ok(Some(scope)) => scope,
        Err(ToolError::Engine(error)) => return Err(error),
        // Whatever cannot be named clearly is nothing.
        Ok(None) | Err(ToolError::Said(_)) => return Ok(Vec::new()),
    };
    let mut sessions = snapshot.sessions(&scope)?;
    sessions.retain(|session| session.id < below);
    sessions.sort_by_key(|session| std::cmp::Reverse(session.id));
    sessions.truncate(max);
    let counted = |session: Session| Ok((snapshot.log_len(session.timeline)?, session));
    let counted: Result<Vec<_>, StoreError> = sessions.into_iter().map(counted).collect();
    Ok(counted?.into_iter().map(|(messages, session)| (session, messages)).collect())
}

/// The newest messages of a session, as text.
pub(crate) fn transcript(store: &Store, request: &TranscriptRequest) -> ToolAnswer {
    match transcript::transcript(store, request) {
        Ok(text) => ToolAnswer { text, is_error: false },
        Err(error) => ToolAnswer { text: sentence(&error), is_error: true },
    }
}

fn answered(store: &Store, call: &ToolCall<'_>) -> Answered {
    match call.name.trim() {
        // They see to it themselves: these do something that must not be done twice.
        ASKS_A_MODEL | "lcm_pin" => answered_once(store, call),
        _ => answer::within(call.bounds, |bounds| {
            if bounds == call.bounds {
                return answered_once(store, call);
            }
            let (reader, by) = (call.reader.clone(), call.by.clone());
            answered_once(store, &ToolCall { bounds, reader, by, ..*call })
        }),
    }
}

fn answered_once(store: &Store, call: &ToolCall<'_>) -> Answered {
    let name = call.name.trim();
    let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else { return Err(no_tool(name)) };
    let arguments = Arguments::read(tool, call.arguments)?;
    match name {
        "lcm_grep" => grep::answer(store, call, arguments),
        "lcm_expand" => expand::answer(store, call, arguments),
        "lcm_describe" => describe::answer(store, call, arguments),
        ASKS_A_MODEL => query::answer(store, call, arguments),
        "lcm_load_session" => session::answer(store, call, arguments),
        "lcm_recall" => recall::recall(store, call, arguments),
        "lcm_recent" => recall::recent(store, call, arguments),
        "lcm_status" => status::status(store, call, &arguments),
        "lcm_inspect" => status::inspect(store, call, arguments),
        "lcm_doctor" => status::doctor(store, call, &arguments),
        "lcm_pin" => pin::answer(store, call, arguments),
        _ => Err(no_tool(name)),
    }
}

fn no_tool(name: &str) -> ToolError {
    if let Some((name, instead)) = NOT_ENABLED.iter().find(|(known, _)| *known == name) {
        return ToolError::Said(format!("{name} is not enabled here: {instead}"));
    }
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.name).collect();
    ToolError::Said(format!("there is no tool {:?}; there are {}", short(name), names.join(", ")))
}

/// An error and its causes in one sentence.
fn sentence(error: &ToolError) -> String {
    let mut sentence = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let told = error.to_string();
        if !sentence.contains(&told) {
            sentence.push_str(": ");
            sentence.push_str(&told);
        }
        cause = error.source();
    }
    sentence
}

/// A count as answers give it.
fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use lcm_core::tokens::{Estimate, TokenCounter};

    use super::*;

    #[test]
    fn the_default_tools_are_cheap_to_tell() {
        let schemas = schemas(false);
        let names: Vec<&str> = schemas.iter().filter_map(|schema| schema.get("name")?.as_str()).collect();
        assert_eq!(names, ["lcm_grep", "lcm_expand", "lcm_describe", "lcm_expand_query"]);
        let text = String::from_utf8(Json::Array(schemas).to_text()).unwrap();
        let tokens = Estimate.count_text(&text);
        assert!(tokens <= 1200, "{tokens} tokens");
    }

    #[test]
    fn schemas_are_the_same_every_time_and_name_what_is_required() {
        assert_eq!(schemas(true), schemas(true));
        assert_eq!(schemas(true).len(), TOOLS.len());
        for tool in TOOLS {
            for name in tool.required {
                assert!(tool.parameters.iter().any(|known| known.name == *name && !known.about.is_empty()), "{name}");
            }
            let mut names: Vec<&str> = tool.parameters.iter().flat_map(|known| known.aliases).copied().collect();
            names.extend(tool.parameters.iter().map(|known| known.name));
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}: a name stands twice", tool.name);
        }
    }

    #[test]
    fn what_is_not_enabled_says_what_to_use_instead() {
        for (name, instead) in NOT_ENABLED {
            assert!(no_tool(name).to_string().ends_with(instead));
        }
        assert!(no_tool("lcm_gerp").to_string().contains("lcm_grep, lcm_expand"));
    }
}
