//! Message lists in OpenAI's format, in the shapes in which people keep them.
//!
//! A value (a line, or an element of a list) is one of these; a file may mix them:
//! * a message: an object with a `role`, a `type` or a `content`;
//! * a request: an object with `messages`; of its other keys only `id`, the name of the session, is used;
//! * a session: `{"session_id", "source", "ids", "messages", "times"?}`;
//! * a turn: `{"session", "seq", "ts", "msg"}`, a message and where it belongs.
//!
//! Messages that stand by themselves are one session, named after the file. No key of a message is volatile here:
//! lists of this kind come from anywhere, and what their keys mean is not ours to guess.

use std::collections::HashMap;

use lcm_core::{Json, JsonString, Message};
use rayon::prelude::*;

use super::document::{self, Part};
use super::lines::{Lines, NumberedLine, Rest};
use super::{DecodeError, DecodeOptions, Decoded, Fault, Incoming, IncomingMessage, Sink, Spot, Tally, time};

/// Messages of one session from which on they are spread over the cores.
const PARALLEL_MIN: usize = 256;

/// What a value turned out to be.
enum Item {
    Message(Box<IncomingMessage>),
    Session(Box<Incoming>, Aside),
    Turn(String, Box<IncomingMessage>),
    Fault(Fault),
}

/// What was not taken of a session.
#[derive(Default)]
struct Aside {
    faults: Vec<Fault>,
    /// Keys beside the messages.
    keys: Vec<String>,
}

/// Whether a value has one of the shapes of this format.
pub(super) fn is_known(value: &Json) -> bool {
    let is_list = |key| value.get(key).is_some_and(|list| list.as_array().is_some());
    let is_text = |key| value.get(key).is_some_and(|text| text.as_str().is_some());
    is_list("messages") || is_turn(value) || is_text("role")
}

fn is_turn(value: &Json) -> bool {
    value.get("session").is_some_and(|name| name.as_str().is_some()) && value.get("msg").is_some()
}

/// Decodes lines.
pub(super) fn decode_lines(
    lines: &mut Lines<'_>,
    options: &DecodeOptions,
    sink: &mut Sink<'_>,
) -> Result<(), DecodeError> {
    let parse = |line: &NumberedLine<'_>| match Json::parse(line.text) {
        Ok(value) => item(value, Spot::Line(line.number), options),
        Err(error) => Item::Fault(Fault::lost(Spot::Line(line.number), format_args!("it is not JSON: {error}"))),
    };
    let mut gathered = Gathered::new(options);
    while let Some(items) = lines.batch(parse, Item::Fault) {
        for item in items {
            gathered.take(item, sink)?;
        }
    }
    gathered.end(sink)?;
    lines.fault().map_or(Ok(()), |fault| sink(Decoded::Fault(fault)))
}

/// Decodes one JSON document: a list of values, or one value.
pub(super) fn decode_document(rest: &Rest, options: &DecodeOptions, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
    let parse = |part: &Part<'_>| match part {
        Part::Fault(fault) | Part::CutOff(fault) => Item::Fault(fault.clone()),
        Part::Value { spot, text } => match Json::parse(text) {
            Ok(value) => item(value, *spot, options),
            Err(error) => Item::Fault(Fault::lost(*spot, format_args!("it is not JSON: {}", error.kind))),
        },
    };
    let mut gathered = Gathered::new(options);
    let mut parts = match document::whole_object(&rest.text) {
        Some(value) => {
            gathered.take(item(value, Spot::Element(1, 1), options), sink)?;
            Vec::new()
        }
        None => document::parts(&rest.text),
    };
    if rest.failure.as_ref().is_some_and(|failure| !failure.is_kept) {
        // Where the text ends is where it could not be read on: one loss, told once.
        parts.pop_if(|last| matches!(last, Part::CutOff(_)));
    }
    for some in parts.chunks(4096) {
        let items: Vec<Item> = some.par_iter().with_min_len(8).map(parse).collect();
        for item in items {
            gathered.take(item, sink)?;
        }
    }
    gathered.end(sink)?;
    rest.failure.clone().map_or(Ok(()), |fault| sink(Decoded::Fault(fault)))
}

fn item(value: Json, spot: Spot, options: &DecodeOptions) -> Item {
    if value.as_object().is_none() {
        return Item::Fault(Fault::lost(spot, format_args!("{} stands where a message should", kind(&value))));
    }
    if value.get("messages").is_some_and(|list| list.as_array().is_some()) {
        let (incoming, aside) = session(value, spot, options);
        return Item::Session(Box::new(incoming), aside);
    }
    if is_turn(&value) {
        return turn(value, spot);
    }
    if !["role", "type", "content"].iter().any(|key| value.get(key).is_some()) {
        return Item::Fault(Fault::lost(spot, "an object with no role, type or content is no message"));
    }
    match message(value, spot) {
        Ok(message) => Item::Message(Box::new(message)),
        Err(fault) => Item::Fault(fault),
    }
}

/// What a value is, for a sentence about it.
fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a truth value",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

fn message(value: Json, spot: Spot) -> Result<IncomingMessage, Fault> {
    if value.as_object().is_none() {
        return Err(Fault::lost(spot, format_args!("{} stands where a message should", kind(&value))));
    }
    Message::from_json(value)
        .and_then(|message| IncomingMessage::new(&message))
        .map_err(|error| Fault::lost(spot, error))
}

fn turn(value: Json, spot: Spot) -> Item {
    let Json::Object(entries) = value else { return Item::Fault(Fault::lost(spot, "no object")) };
    let (mut name, mut said, mut seen_ms, mut beside) = (None, None, None, Vec::new());
    for (key, value) in entries {
        match key.as_str() {
            Some("session") => name = value.as_str().map(str::to_owned),
            Some("msg") => said = Some(value),
            // The order of the lines is the order of the messages.
            Some("seq") => {}
            Some("ts") => match time::from_json(&value) {
                Some(moment) => seen_ms = Some(moment),
                None => beside.push((key, value)),
            },
            _ => beside.push((key, value)),
        }
    }
    let (Some(name), Some(said)) = (name, said) else {
        return Item::Fault(Fault::lost(spot, "a turn without a session or a message"));
    };
    match message(said, spot) {
        Ok(message) => Item::Turn(name, Box::new(IncomingMessage { seen_ms, ..message.with_source(beside) })),
        Err(fault) => Item::Fault(fault),
    }
}

/// What a session object says about each of its messages, beside them.
#[derive(Default)]
struct Beside {
    ids: Vec<Json>,
    times: Vec<Json>,
}

fn session(value: Json, spot: Spot, options: &DecodeOptions) -> (Incoming, Aside) {
    let (line, number) = match spot {
        Spot::Element(number, line) => (line, number),
        Spot::Line(line) => (line, line),
        _ => (1, 1),
    };
    let mut incoming = Incoming { source: options.source.clone(), ..Incoming::default() };
    let (mut aside, mut beside, mut said) = (Aside::default(), Beside::default(), Vec::new());
    let (mut session_id, mut id) = (None, None);
    let Json::Object(entries) = value else { return (incoming, aside) };
    for (key, value) in entries {
        match (key.as_str(), value) {
            (Some("messages"), Json::Array(messages)) => said = messages,
            (Some("ids"), Json::Array(ids)) => beside.ids = ids,
            (Some("times"), Json::Array(times)) => beside.times = times,
            (Some("session_id"), Json::String(name)) => session_id = Some(name),
            (Some("id"), Json::String(name)) => id = Some(name),
            (Some("source"), Json::String(source)) => incoming.source = source.to_str_lossy().into_owned(),
            _ => aside.keys.push(key.to_str_lossy().into_owned()),
        }
    }
    match session_id.or(id) {
        Some(name) if !name.is_empty() => incoming.name = name.to_str_lossy().into_owned(),
        _ => {
            // Several requests without a name in one file are several sessions, each always under the same name.
            incoming.name = if number == 1 { options.name.clone() } else { format!("{}:{number}", options.name) };
            incoming.name_is_guess = true;
        }
    }
    let one = |(i, value): (usize, Json)| {
        let number = u64::try_from(i + 1).unwrap_or(u64::MAX);
        message(value, Spot::Inside(line, number)).map(|message| beside.put(i, message))
    };
    let decoded: Vec<Result<IncomingMessage, Fault>> = if said.len() < PARALLEL_MIN {
        said.into_iter().enumerate().map(one).collect()
    } else {
        said.into_par_iter().enumerate().map(one).collect()
    };
    for message in decoded {
        match message {
            Ok(message) => incoming.messages.push(message),
            Err(fault) => aside.faults.push(fault),
        }
    }
    (incoming, aside)
}

impl Beside {
    /// Keeps with a message what the session says about it.
    fn put(&self, i: usize, message: IncomingMessage) -> IncomingMessage {
        let mut said: Vec<(JsonString, Json)> = Vec::new();
        if let Some(id) = self.ids.get(i) {
            said.push(("id".into(), id.clone()));
        }
        let moment = self.times.get(i);
        if let Some(moment) = moment {
            said.push(("time".into(), moment.clone()));
        }
        IncomingMessage { seen_ms: moment.and_then(time::from_json), ..message.with_source(said) }
    }
}

/// Messages that wait until their session is complete.
struct Gathered<'o> {
    options: &'o DecodeOptions,
    /// Those that stand by themselves.
    loose: Vec<IncomingMessage>,
    /// The session of the turn before, and its messages.
    session: String,
    turns: Vec<IncomingMessage>,
    /// How many messages of each session of turns were handed over.
    given: HashMap<String, u64>,
    /// Keys of sessions that were not kept.
    passed: Tally,
}

impl<'o> Gathered<'o> {
    fn new(options: &'o DecodeOptions) -> Self {
        Self {
            options,
            loose: Vec::new(),
            session: String::new(),
            turns: Vec::new(),
            given: HashMap::new(),
            passed: Tally::default(),
        }
    }

    fn take(&mut self, item: Item, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
        match item {
            Item::Message(message) => self.loose.push(*message),
            Item::Fault(fault) => sink(Decoded::Fault(fault))?,
            Item::Turn(session, message) => {
                if session != self.session {
                    self.end_of_turns(sink)?;
                    self.session = session;
                }
                self.turns.push(*message);
            }
            Item::Session(incoming, aside) => {
                for fault in aside.faults {
                    sink(Decoded::Fault(fault))?;
                }
                for key in aside.keys {
                    self.passed.count(format!("key {key:?} of a request or session"));
                }
                sink(Decoded::Session(*incoming))?;
            }
        }
        Ok(())
    }

    fn end_of_turns(&mut self, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
        if self.turns.is_empty() {
            return Ok(());
        }
        let messages = std::mem::take(&mut self.turns);
        let count = u64::try_from(messages.len()).unwrap_or(u64::MAX);
        let known = self.given.insert(self.session.clone(), count).unwrap_or(0);
        if known > 0 {
            self.given.insert(self.session.clone(), known.saturating_add(count));
        }
        sink(Decoded::Session(Incoming {
            name: self.session.clone(),
            source: self.options.source.clone(),
            known,
            messages,
            ..Incoming::default()
        }))
    }

    fn end(mut self, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
        self.end_of_turns(sink)?;
        if !self.loose.is_empty() {
            sink(Decoded::Session(Incoming {
                name: self.options.name.clone(),
                name_is_guess: true,
                source: self.options.source.clone(),
                messages: std::mem::take(&mut self.loose),
                ..Incoming::default()
            }))?;
        }
        self.passed.tell(sink)
    }
}
