//! What the host asks a hook, decoded; and the answers, so that the host's source and its published page both take them.
//!
//! A field that is missing or of another type is as if it were absent: a hook always answers. What that cost is told in a
//! note. Pure.

use lcm_core::Json;

use super::Waiting;
use super::message::Said;

/// A call of a hook.
#[derive(Debug)]
pub(super) enum Request {
    /// The daemon has started.
    Bootstrap { stable_prefix: bool },
    /// A turn begins; what a person said, and who, when that is not the owner.
    Ingest { agent: String, message: String, peer: Option<String> },
    /// A request to the model is about to be sent.
    Assemble { agent: String, system_prompt: String, window: Window, tools: Option<Json> },
    /// The host wants a shorter list.
    Compact { agent: String, window: Window, pressure: Pressure },
    /// A tool has answered.
    Transform { agent: String, tool: String, call: String, input: Json, content: Option<String>, is_error: bool },
    /// A turn is over, and is no secret.
    AfterTurn { agent: String, window: Window },
    /// Something that asks for no answer.
    Other(String),
}

/// A list of messages and what it may cost.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) messages: Vec<Said>,
    /// What the host could not read itself, so that it does not count: how many.
    pub(super) unreadable: usize,
    /// Tokens that the model's window holds; 0 where the host does not say.
    pub(super) tokens: u64,
}

/// How full the host thinks the window is: 0 (light) to 3 (critical).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pressure(pub(super) u8);

/// A window of more tokens is a mistake of whoever says so, and is taken for this one.
const WINDOW_TOKENS_MAX: u64 = 1 << 30;
/// Bytes at the end of a text by which a message of a person is found that ingest told of; more tell no more.
const MESSAGE_BYTES_MAX: usize = 4096;

impl Request {
    /// Reads a request.
    pub(super) fn read(json: Json) -> Self {
        let text = |key: &str| json.get(key).and_then(Json::as_str).map(str::to_owned);
        let kind = text("type").unwrap_or_default();
        let agent = text("agent_id").unwrap_or_default();
        match kind.as_str() {
            "bootstrap" => {
                let stable_prefix = json.get("stable_prefix_mode").and_then(Json::as_bool) == Some(true);
                Self::Bootstrap { stable_prefix }
            }
            "ingest" => {
                let message = json.get("message").or_else(|| json.get("user_message"));
                let Some(Json::String(message)) = message else { return Self::Other(kind) };
                let mut message = message.to_str_lossy().into_owned();
                // What a person said stands behind what the host puts in front of it.
                let mut from = message.len().saturating_sub(MESSAGE_BYTES_MAX);
                while !message.is_char_boundary(from) {
                    from += 1;
                }
                message.drain(..from);
                Self::Ingest { agent, message, peer: text("peer_id").filter(|peer| !peer.is_empty()) }
            }
            "assemble" => {
                let system_prompt = text("system_prompt").unwrap_or_default();
                let tools = json.get("tools").cloned();
                Self::Assemble { agent, system_prompt, tools, window: Window::take(json) }
            }
            "compact" => {
                let pressure = json.get("token_pressure").map(Pressure::read).unwrap_or_default();
                Self::Compact { agent, pressure, window: Window::take(json) }
            }
            "transform_tool_result" => Self::Transform {
                agent,
                tool: text("tool_name").unwrap_or_default(),
                call: text("tool_use_id").unwrap_or_default(),
                input: json.get("input").or_else(|| json.get("args")).cloned().unwrap_or(Json::Null),
                // The published page says `result`, the source `content`.
                content: match json.get("content").or_else(|| json.get("result")) {
                    Some(Json::String(content)) => Some(content.to_str_lossy().into_owned()),
                    _ => None,
                },
                is_error: json.get("is_error").and_then(Json::as_bool) == Some(true),
            },
            "after_turn" => Self::AfterTurn { agent, window: Window::take(json) },
            _ => Self::Other(kind),
        }
    }
}

impl Window {
    fn take(json: Json) -> Self {
        let tokens = json.get("context_window_tokens").and_then(Json::as_u64).unwrap_or(0).min(WINDOW_TOKENS_MAX);
        let Json::Object(entries) = json else { return Self::default() };
        let messages = entries.into_iter().rfind(|(key, _)| key.as_bytes() == b"messages").map(|(_, value)| value);
        let Some(Json::Array(given)) = messages else { return Self { tokens, ..Self::default() } };
        let count = given.len();
        let mut messages: Vec<Said> = given.into_iter().filter_map(Said::read).collect();
        super::message::tell_who_made(&mut messages);
        Self { unreadable: count - messages.len(), messages, tokens }
    }
}

impl Pressure {
    fn read(json: &Json) -> Self {
        Self(match json.get("recommendation").and_then(Json::as_str) {
            Some("critical") => 3,
            Some("aggressive") => 2,
            Some("moderate") => 1,
            _ => 0,
        })
    }
}

/// An answer of a hook: one JSON object as text, in one line.
pub(super) fn answer(kind: &str, entries: &[(&str, &Json)]) -> Vec<u8> {
    let mut text = br#"{"type":"#.to_vec();
    Json::from(kind).write(&mut text);
    finish(text, entries)
}

/// An answer with a list of messages, each JSON text, and what stands behind them.
pub(super) fn answer_list<'m>(
    kind: &str,
    messages: impl Iterator<Item = &'m [u8]>,
    entries: &[(&str, &Json)],
) -> Vec<u8> {
    let mut text = br#"{"type":"#.to_vec();
    Json::from(kind).write(&mut text);
    text.extend_from_slice(br#","messages":["#);
    for (nth, message) in messages.enumerate() {
        if nth > 0 {
            text.push(b',');
        }
        text.extend_from_slice(message);
    }
    text.push(b']');
    finish(text, entries)
}

/// The rest of an object that is begun.
fn finish(mut text: Vec<u8>, entries: &[(&str, &Json)]) -> Vec<u8> {
    for (key, value) in entries {
        text.push(b',');
        Json::from(*key).write(&mut text);
        text.push(b':');
        value.write(&mut text);
    }
    text.push(b'}');
    text
}

impl Waiting {
    /// What a tool gave back.
    pub(super) fn result(agent: String, tool: &str, call: String, content: &str) -> Self {
        let entries = [
            ("agent_id", &agent.as_str().into()),
            ("tool_name", &tool.into()),
            ("tool_use_id", &call.as_str().into()),
            ("content", &content.into()),
        ];
        let request = answer("transform_tool_result", &entries);
        Self { agent, keys: Vec::new(), calls: vec![call], request }
    }

    /// The newest request of a window and its steps; with the last message before it, which tells whose they are.
    pub(super) fn turn(agent: &str, window_tokens: u64, past: &[Said], live: &[Said]) -> Self {
        let before = past.iter().rfind(|said| said.key.is_some() && said.made.is_none());
        let entries = [("agent_id", &agent.into()), ("context_window_tokens", &window_tokens.into())];
        let request = answer_list("assemble", before.into_iter().chain(live).map(|said| &*said.text), &entries);
        let keys = live.iter().filter(|said| said.made.is_none()).filter_map(|said| said.key).collect();
        Self { agent: agent.to_owned(), keys, calls: Vec::new(), request }
    }
}

/// The answer that changes nothing.
pub(super) fn nothing() -> Vec<u8> {
    answer("ok", &[])
}
