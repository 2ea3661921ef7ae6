//! Our own export, both ways: JSON lines from which the same nodes come back, branches included.
//!
//! Each line says under `lcm` what it is; in this order: `export`, then for each `session` its `timeline`s, each with
//! the `message`s that it does not share with the one of the session that it branched off, and at the `end` how many there
//! were. So a file that was cut is told from a whole one. What a session took over from another stands in both.
//!
//! | `lcm` | entries |
//! | --- | --- |
//! | `export` | `version` 1, `program`, `at_ms` |
//! | `session` | `name`, `agent`, `person`, `source`, `created_ms` |
//! | `timeline` | `timeline` its number in this file, `parent` and `shared` (of a branch: the timeline, how many messages), `current` |
//! | `message` | `number`, `id`, `seen_ms`, `volatile` (keys of the place, if any), `message`, `revisions` (`seen_ms`, `volatile`, `message`), if any |
//! | `end` | `sessions`, `messages` |
//!
//! Invariant: what was exported and imported into an empty store has the same ids in the same order, and imported
//! into the store it is from adds nothing.

use std::collections::HashMap;

use lcm_core::{Json, JsonError, JsonString, Message, NodeId};

use super::document;
use super::lines::{Lines, NumberedLine};
use super::{DecodeError, Decoded, Fault, Incoming, IncomingMessage, IncomingRevision, Path, Sink, Spot};
use crate::service::{ExportMessage, ExportRecord, ExportRevision};

/// The version of the lines that we write, and the newest that we read.
const VERSION: u64 = 1;
// TODO(late places): a parent that got a late place after the branch shares another run than its first messages;
// exports name how many are shared, which is right as long as nothing is inserted.

/// Appends a record as one line, its end included.
pub fn encode(record: &ExportRecord, out: &mut Vec<u8>) {
    let line = match record {
        ExportRecord::Begin { at_ms } => Json::object([
            ("lcm", "export".into()),
            ("version", VERSION.into()),
            ("program", concat!("lcm ", env!("CARGO_PKG_VERSION")).into()),
            ("at_ms", (*at_ms).into()),
        ]),
        ExportRecord::Session(session) => Json::object([
            ("lcm", "session".into()),
            ("name", session.name.as_str().into()),
            ("agent", session.owner.agent.as_str().into()),
            ("person", session.owner.person.as_str().into()),
            ("source", session.source.as_str().into()),
            ("created_ms", session.created_ms.into()),
        ]),
        ExportRecord::Timeline { id, parent, is_current } => {
            let mut entries = vec![("lcm", "timeline".into()), ("timeline", id.0.into())];
            if let Some((parent, shared)) = parent {
                entries.extend([("parent", parent.0.into()), ("shared", (*shared).into())]);
            }
            entries.push(("current", (*is_current).into()));
            Json::object(entries)
        }
        ExportRecord::Message(message) => return encode_message(message, out),
        // What is left out has no line; whoever makes the export tells of it.
        ExportRecord::Damaged { .. } => return,
        ExportRecord::End { sessions, messages } => {
            Json::object([("lcm", "end".into()), ("sessions", (*sessions).into()), ("messages", (*messages).into())])
        }
    };
    line.write(out);
    out.push(b'\n');
}

/// The texts of messages are JSON already and are put in as they are.
fn encode_message(message: &ExportMessage, out: &mut Vec<u8>) {
    let ExportMessage { number, id, seen_ms, volatile, json, revisions } = message;
    out.extend_from_slice(format!(r#"{{"lcm":"message","number":{number},"id":"{id}","seen_ms":{seen_ms}"#).as_bytes());
    push_entry(b"volatile", volatile, out);
    push_entry(b"message", json, out);
    if !revisions.is_empty() {
        out.extend_from_slice(br#","revisions":["#);
        for (i, ExportRevision { seen_ms, volatile, json }) in revisions.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            out.extend_from_slice(format!(r#"{comma}{{"seen_ms":{seen_ms}"#).as_bytes());
            push_entry(b"volatile", volatile, out);
            push_entry(b"message", json, out);
            out.push(b'}');
        }
        out.push(b']');
    }
    out.extend_from_slice(b"}\n");
}

fn push_entry(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if !value.is_empty() {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(key);
        out.extend_from_slice(b"\":");
        out.extend_from_slice(value);
    }
}

/// A line that was read.
enum Item {
    Begin,
    Session(Box<Incoming>),
    Timeline { id: u64, parent: Option<(u64, u64)>, is_current: bool },
    Message(Box<IncomingMessage>),
    End { sessions: u64, messages: u64 },
    Fault(Fault),
}

/// Decodes an export.
pub(super) fn decode(lines: &mut Lines<'_>, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
    let parse = |line: &NumberedLine<'_>| (line.number, parse(line));
    let mut reading = Reading::default();
    while let Some(items) = lines.batch(parse, |fault| (0, Item::Fault(fault))) {
        for (line, item) in items {
            reading.take(line, item, sink)?;
        }
    }
    reading.end_of_session(sink)?;
    let fault = lines.fault();
    if !reading.is_ended && fault.is_none() {
        let what = "it ends early: the last line of an export is missing";
        return sink(Decoded::Fault(Fault::lost(Spot::Whole, what)));
    }
    fault.map_or(Ok(()), |fault| sink(Decoded::Fault(fault)))
}

fn parse(line: &NumberedLine<'_>) -> Item {
    let spot = Spot::Line(line.number);
    let entries = match read_entries(line.text) {
        Ok(entries) => entries,
        Err(error) => {
            return Item::Fault(Fault::lost(spot, format_args!("it is not a JSON object: {error}")));
        }
    };
    item(&Json::Object(entries)).unwrap_or_else(|what| Item::Fault(Fault::lost(spot, what)))
}

/// Reads the object in a line. A message may be as deep as JSON goes here, and stands inside of it: then the values
/// are read one by one.
fn read_entries(text: &[u8]) -> Result<Vec<(JsonString, Json)>, JsonError> {
    match Json::parse(text) {
        Ok(Json::Object(entries)) => Ok(entries),
        Ok(_) => Err(JsonError { offset: 0, kind: lcm_core::json::JsonErrorKind::ExpectedKey }),
        Err(error) if error.kind == lcm_core::json::JsonErrorKind::TooDeep => {
            let entries = document::entries(text).ok_or(error)?;
            let read = entries.into_iter().map(|(key, value)| match Json::parse(key)? {
                Json::String(key) => Ok((key, Json::parse(value)?)),
                _ => Err(error),
            });
            read.collect()
        }
        Err(error) => Err(error),
    }
}

fn item(line: &Json) -> Result<Item, String> {
    let text = |key: &str| {
        line.get(key).and_then(Json::as_str).map(str::to_owned).ok_or_else(|| format!("{key:?} is no text"))
    };
    let number = |key: &str| line.get(key).and_then(Json::as_u64).ok_or_else(|| format!("{key:?} is no whole number"));
    match text("lcm")?.as_str() {
        "export" => match number("version")? {
            ..=VERSION => Ok(Item::Begin),
            version => Err(format!("this export has version {version}; version {VERSION} is read here")),
        },
        "session" => Ok(Item::Session(Box::new(Incoming {
            agent: Some(text("agent")?),
            person: Some(text("person")?),
            name: text("name")?,
            source: text("source")?,
            // Exports of before had none, and without one a session is as whole.
            created_ms: line.get("created_ms").and_then(Json::as_i64),
            ..Incoming::default()
        }))),
        "timeline" => {
            let parent = if line.get("parent").is_some() { Some((number("parent")?, number("shared")?)) } else { None };
            let is_current = line.get("current").and_then(Json::as_bool) == Some(true);
            Ok(Item::Timeline { id: number("timeline")?, parent, is_current })
        }
        "message" => message(line).map(|message| Item::Message(Box::new(message))),
        "end" => Ok(Item::End { sessions: number("sessions")?, messages: number("messages")? }),
        other => Err(format!("an export has no lines of the kind {other:?}")),
    }
}

fn message(line: &Json) -> Result<IncomingMessage, String> {
    let read = |from: &Json| {
        let said = from.get("message").cloned().ok_or("it has no message")?;
        let said = Message::from_json(said).map_err(|error| error.to_string())?;
        let message = IncomingMessage::new(&said).map_err(|error| error.to_string())?;
        let volatile = from.get("volatile").map(Json::to_text).unwrap_or_default();
        let seen_ms = from.get("seen_ms").and_then(Json::as_i64);
        Ok::<_, String>(IncomingMessage { seen_ms, volatile, ..message })
    };
    let mut message = read(line)?;
    if let Some(id) = line.get("id") {
        let named = id.as_str().and_then(NodeId::from_hex).ok_or("its id is none")?;
        if named != message.id() {
            return Err(format!("its message is {:.12} and not {named:.12}, as it says: it was changed", message.id()));
        }
    }
    for revision in line.get("revisions").and_then(Json::as_array).unwrap_or_default() {
        let IncomingMessage { encoded, seen_ms, volatile, .. } = read(revision)?;
        message.revisions.push(IncomingRevision { encoded, seen_ms: seen_ms.unwrap_or(0), volatile });
    }
    Ok(message)
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    session: Option<Incoming>,
    /// Which path each timeline of the session is.
    timelines: HashMap<u64, usize>,
    /// The path that the session goes on with.
    current: Option<usize>,
    sessions: u64,
    messages: u64,
    is_ended: bool,
}

impl Reading {
    fn take(&mut self, line: u64, item: Item, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
        let mut fault = |what: &str| sink(Decoded::Fault(Fault::lost(Spot::Line(line), what)));
        match item {
            // Two exports in one file are as good as one.
            Item::Begin => {}
            Item::Fault(fault) => sink(Decoded::Fault(fault))?,
            Item::Session(incoming) => {
                self.end_of_session(sink)?;
                self.sessions += 1;
                self.session = Some(*incoming);
            }
            Item::Timeline { id, parent, is_current } => {
                let Some(session) = &mut self.session else { return fault("a timeline without a session") };
                let parent = match parent {
                    None => None,
                    Some((parent, shared)) => match self.timelines.get(&parent) {
                        None => return fault("the timeline it branched off is not in front of it"),
                        Some(&parent) => {
                            let shared = usize::try_from(shared).unwrap_or(usize::MAX);
                            Some((parent, shared.min(session.length(parent))))
                        }
                    },
                };
                self.timelines.insert(id, session.paths.len());
                if is_current {
                    self.current = Some(session.paths.len());
                }
                session.paths.push(Path { parent, own: Vec::new() });
            }
            Item::Message(message) => {
                self.messages += 1;
                let Some(session) = &mut self.session else { return fault("a message without a session") };
                let number = session.messages.len();
                match session.paths.last_mut() {
                    None => return fault("a message without a timeline"),
                    Some(path) => path.own.push(number),
                }
                session.messages.push(*message);
            }
            Item::End { sessions, messages } => {
                if (sessions, messages) != (self.sessions, self.messages) {
                    let (had, read) = (messages, self.messages);
                    fault(&format!(
                        "the export had {had} messages in {sessions} sessions; {read} in {} were read",
                        self.sessions
                    ))?;
                }
                self.end_of_session(sink)?;
                (self.sessions, self.messages, self.is_ended) = (0, 0, true);
            }
        }
        Ok(())
    }

    fn end_of_session(&mut self, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
        self.timelines.clear();
        let current = self.current.take();
        let Some(mut session) = self.session.take() else { return Ok(()) };
        if let Some(current) = current.filter(|current| current + 1 < session.paths.len()) {
            // The last path is the one the session goes on with.
            let all = session.length(current);
            session.paths.push(Path { parent: Some((current, all)), own: Vec::new() });
        }
        sink(Decoded::Session(session))
    }
}
