//! What hosts write, decoded: bytes in, [`Incoming`] lists out.
//!
//! Each format has its file here and knows its host's words; nothing of them goes further. A decoder reads a whole
//! file, hands over each session as soon as it is complete, and names what it cannot take ([`Fault`]): the line or
//! element, and why. What is whole comes in as it was said; what is not is never half a message and never a guess.
//!
//! What a file says about a message beside it (the rest of a line, the other columns of a row) is kept with the
//! place, under [`SOURCE_KEY`] of its volatile keys, so that nothing is dropped and the message stays what was said.
//!
//! Not here: opening, unpacking, databases. Whoever has a file gives its bytes; rows come as [`hermes::Row`].

pub mod claude_code;
mod codex;
mod document;
pub mod export;
pub mod hermes;
pub mod librefang;
pub mod speech;
pub mod told;
mod lines;
pub mod openai;
pub(crate) mod time;

use std::fmt;
use std::io::Read;

use lcm_core::canon::MessageTree;
use lcm_core::tokens::{Estimate, TokenCounter};
use lcm_core::{EncodedMessage, Json, Message, MessageError, NodeId};
use lcm_store::StoreError;

/// The volatile key under which we keep what a file says about a message beside it. It is ours, no host's: whoever
/// gives a message back leaves it out.
pub const SOURCE_KEY: &str = "lcm_source";

/// A list of messages as a host shows it, decoded and encoded.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    /// The host's profile or agent id, when it says.
    pub agent: Option<String>,
    /// The host's conversation or peer, when it says.
    pub person: Option<String>,
    /// What the host calls the session.
    pub name: String,
    /// Whether the name is only that of a file: then a session of that name which tells another story is another
    /// session, and this one gets a number behind its name.
    pub name_is_guess: bool,
    /// The program or file it comes from.
    pub source: String,
    /// When the session was made, when the file says: milliseconds since 1970 UTC.
    pub created_ms: Option<i64>,
    /// How many messages of the session the host did not send because we have them; they stand before these.
    pub known: u64,
    /// The messages, each once.
    pub messages: Vec<IncomingMessage>,
    /// How they follow each other. Empty for one list of all, in order; else the last path is the one the session
    /// goes on with.
    pub paths: Vec<Path>,
    /// Given back with what came of the list; for whoever wants to know which one it was.
    pub tag: u64,
}

/// One way through the messages of a session: all of another path up to a point, then its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// An earlier path, and how many messages this one shares with it.
    pub parent: Option<(usize, usize)>,
    /// Which messages follow, as indexes.
    pub own: Vec<usize>,
}

impl Incoming {
    /// The messages of the path that the session goes on with, in order.
    #[must_use]
    pub fn current(&self) -> Vec<&IncomingMessage> {
        let Some(mut at) = self.paths.len().checked_sub(1) else { return self.messages.iter().collect() };
        let (mut parts, mut taken) = (Vec::new(), usize::MAX);
        // From the end back: of each path what the one behind it shares.
        while let Some(path) = self.paths.get(at) {
            let shared = path.parent.map_or(0, |(_, shared)| shared);
            parts.push(&path.own[..path.own.len().min(taken.saturating_sub(shared))]);
            let Some((parent, shared)) = path.parent.filter(|(parent, _)| *parent < at) else { break };
            (at, taken) = (parent, taken.min(shared));
        }
        parts.into_iter().rev().flatten().filter_map(|i| self.messages.get(*i)).collect()
    }

    /// How many messages a path has, those it shares included; 0 for a path that is not there.
    fn length(&self, path: usize) -> usize {
        let path = self.paths.get(path);
        path.map_or(0, |path| path.parent.map_or(0, |(_, shared)| shared) + path.own.len())
    }
}

/// How a host's live messages are read.
#[derive(Debug)]
pub(crate) struct HostFormat {
    /// Whether a key is no part of what was said, and belongs to the place.
    pub(crate) is_volatile: fn(&str) -> bool,
    /// What stays of a message when the host writes it down and reads it again, as an id that no message has; `None` where
    /// nothing is known to stay of it but the whole.
    pub(crate) likeness: fn(&MessageTree<'_>) -> Option<NodeId>,
    /// What a message of the same likeness is that says something else.
    pub(crate) alike: Alike,
}

/// What another text of one likeness at one place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alike {
    /// The same message, written down and read again: it is known.
    Known,
    /// A later form of it: the likeness is a key that the host gave the message once.
    Revised,
}

impl HostFormat {
    /// Of a host of which nothing is known: a message is all that it is.
    pub(crate) const PLAIN: Self = Self { is_volatile: |_| false, likeness: |_| None, alike: Alike::Known };

    /// The format of a source: a host's name, with more behind a colon.
    pub(crate) fn of(source: &str) -> &'static Self {
        match source.split(':').next() {
            Some("hermes") => &hermes::FORMAT,
            Some(librefang::SOURCE) => &librefang::FORMAT,
            _ => &Self::PLAIN,
        }
    }
}

/// A message of a list.
#[derive(Clone, Debug)]
pub struct IncomingMessage {
    /// What was said, ready to be kept.
    pub encoded: EncodedMessage,
    /// The stored count.
    pub tokens: u32,
    /// When it was said, when the host tells: milliseconds since 1970 UTC.
    pub seen_ms: Option<i64>,
    /// The keys that belong to the place, as one JSON object; empty for none.
    pub volatile: Vec<u8>,
    /// Later forms of the message, oldest first.
    pub revisions: Vec<IncomingRevision>,
}

/// A later form of a message.
#[derive(Clone, Debug)]
pub struct IncomingRevision {
    /// What it became.
    pub encoded: EncodedMessage,
    /// When: milliseconds since 1970 UTC.
    pub seen_ms: i64,
    /// The keys that belong to the place, as one JSON object; empty for none.
    pub volatile: Vec<u8>,
}

impl IncomingMessage {
    /// Encodes and counts a message without anything beside it.
    ///
    /// # Errors
    /// When it is too large to be kept.
    pub fn new(message: &Message) -> Result<Self, MessageError> {
        let encoded = message.encode()?;
        let tokens = Estimate.count(&encoded.stored(&encoded.body_slices()));
        Ok(Self { encoded, tokens, seen_ms: None, volatile: Vec::new(), revisions: Vec::new() })
    }

    /// What was said as JSON text, without the keys that belong to the place.
    #[must_use]
    pub fn json(&self) -> Vec<u8> {
        let mut json = Vec::new();
        let written = lcm_core::canon::write_json(&self.encoded.stored(&self.encoded.body_slices()), &mut json);
        written.expect("what was encoded just now is read again: see `canon`");
        json
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.encoded.id
    }

    /// Keeps with the place what the file said beside the message.
    fn with_source(mut self, entries: Vec<(lcm_core::JsonString, Json)>) -> Self {
        if !entries.is_empty() {
            self.volatile = Json::object([(SOURCE_KEY, Json::Object(entries))]).to_text();
        }
        self
    }
}

/// Hands a message that was encoded just now to `look`, as whoever keeps it would see it.
pub(crate) fn with_tree<R>(
    encoded: &EncodedMessage,
    look: impl FnOnce(&MessageTree<'_>) -> R,
) -> Result<R, StoreError> {
    let bodies = encoded.body_slices();
    match encoded.stored(&bodies).tree() {
        Ok(tree) => Ok(look(&tree)),
        Err(error) => Err(StoreError::DamagedRow {
            table: "records",
            key: "of a message that was encoded just now".to_owned(),
            why: error.to_string(),
        }),
    }
}

/// What was said as one JSON text, the host's own keys of the place put back behind the others; and what its file
/// said beside it, as an object, empty for none.
pub(crate) fn said(message: &MessageTree<'_>, volatile: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut json, mut source) = (Vec::new(), Vec::new());
    message.write_json(&mut json);
    if volatile.is_empty() {
        return (json, source);
    }
    // Written by ourselves; what cannot be read is left out rather than shown as the host's word.
    let Ok(Json::Object(entries)) = Json::parse(volatile) else { return (json, source) };
    for (key, value) in entries {
        if key.as_str() == Some(SOURCE_KEY) {
            source = value.to_text();
            continue;
        }
        json.pop();
        if json.len() > 1 {
            json.push(b',');
        }
        Json::String(key).write(&mut json);
        json.push(b':');
        value.write(&mut json);
        json.push(b'}');
    }
    (json, source)
}

/// What a decoder hands over.
#[derive(Clone, Debug)]
pub enum Decoded {
    /// A session, or the next part of one.
    Session(Incoming),
    /// Something that is not as it should be.
    Fault(Fault),
    /// Something that is no message and was passed over.
    Passed {
        /// What it is, in the host's word.
        what: String,
        /// How many of them.
        count: u64,
    },
}

/// Kinds of things that were passed over, and how often.
#[derive(Default)]
struct Tally(Vec<(String, u64)>);

impl Tally {
    /// More kinds than any file that means well.
    const KINDS_MAX: usize = 1000;

    fn count(&mut self, kind: String) {
        let is_full = self.0.len() >= Self::KINDS_MAX;
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, count)) => *count += 1,
            None if is_full => {}
            None => self.0.push((kind, 1)),
        }
    }

    fn tell(self, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
        self.0.into_iter().try_for_each(|(what, count)| sink(Decoded::Passed { what, count }))
    }
}

/// Something in a file that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub at: Spot,
    /// What is wrong, without a full stop.
    pub what: String,
    /// Whether it was taken in all the same, as it stands.
    pub is_kept: bool,
}

/// A spot in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// The file as a whole.
    Whole,
    /// A line, from 1.
    Line(u64),
    /// An element of a list, from 1, and the line it begins in.
    Element(u64, u64),
    /// A message of a session that stands in one line or element; both from 1.
    Inside(u64, u64),
    /// A row of the table `messages`, by its id.
    Row(i64),
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("the file"),
            Self::Line(line) => write!(f, "line {line}"),
            Self::Element(number, line) => write!(f, "element {number} in line {line}"),
            Self::Inside(line, number) => write!(f, "message {number} of line {line}"),
            Self::Row(id) => write!(f, "row {id}"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

impl Fault {
    fn lost(at: Spot, what: impl fmt::Display) -> Self {
        Self { at, what: what.to_string(), is_kept: false }
    }

    fn kept(at: Spot, what: impl fmt::Display) -> Self {
        Self { at, what: what.to_string(), is_kept: true }
    }
}

/// The formats that are told from each other by their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Message lists in OpenAI's format: JSON, or JSON lines of messages, requests or sessions.
    OpenAi,
    /// A session file of Claude Code.
    ClaudeCode,
    /// A session file of Codex.
    Codex,
    /// Our own export.
    Export,
    /// A `state.db` of the Hermes Agent: a database, see [`hermes`].
    Hermes,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::OpenAi, Self::ClaudeCode, Self::Codex, Self::Hermes, Self::Export];

    /// The name under which a person asks for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Export => "lcm",
            Self::Hermes => "hermes",
        }
    }

    /// The format of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// What a decoder should know that the bytes do not say.
#[derive(Clone, Debug)]
pub struct DecodeOptions {
    /// The format; `None` to tell it from the bytes.
    pub format: Option<Format>,
    /// What to call a session that has no name of its own.
    pub name: String,
    /// The source of a session that does not say where it is from.
    pub source: String,
}

/// Why nothing could be decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The first byte could not be read.
    #[error("it cannot be read")]
    Read(#[source] std::io::Error),
    /// There is nothing in it, or white space only.
    #[error("it is empty")]
    Empty,
    /// The bytes are in no format that we know.
    #[error("it is in no format that is known here")]
    Unknown,
    /// A database is not read here.
    #[error("it is a database")]
    IsDatabase,
    /// One JSON document that is larger than we hold at once.
    #[error("it is one JSON document of more than {} MiB", document::DOCUMENT_BYTES_MAX >> 20)]
    TooLarge,
    /// Whoever takes what is decoded has stopped taking it.
    #[error("nobody takes what is decoded")]
    Stopped,
}

/// Something is wrong with a file behind all that it says: bytes that belong to nothing, a checksum that is not its
/// own. Whoever unpacks a file gives it as an [`std::io::Error`] when everything is read; then nothing is lost.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BehindTheEnd(pub String);

impl From<BehindTheEnd> for std::io::Error {
    fn from(what: BehindTheEnd) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, what)
    }
}

/// Where decoded things go; `Err` of [`DecodeError::Stopped`] ends the decoding.
pub type Sink<'a> = dyn FnMut(Decoded) -> Result<(), DecodeError> + 'a;

/// Decodes everything in `input`, which is text: not packed, no database.
///
/// # Errors
/// When there is nothing to decode at all, or `sink` has enough. What is wrong inside goes to `sink` as faults.
pub fn decode(input: &mut dyn Read, options: &DecodeOptions, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
    let mut lines = lines::Lines::new(input)?;
    let shape = match options.format {
        Some(format) => forced(format, lines.head()),
        None => detect(lines.head()),
    };
    match shape {
        Shape::Lines(Format::OpenAi) => openai::decode_lines(&mut lines, options, sink),
        Shape::Lines(Format::ClaudeCode) => claude_code::decode(&mut lines, options, sink),
        Shape::Lines(Format::Codex) => codex::decode(&mut lines, options, sink),
        Shape::Lines(Format::Export) => export::decode(&mut lines, sink),
        Shape::Document => openai::decode_document(&lines.rest(document::DOCUMENT_BYTES_MAX)?, options, sink),
        Shape::Lines(Format::Hermes) => Err(DecodeError::IsDatabase),
        Shape::Unknown => Err(DecodeError::Unknown),
    }
}

/// What the beginning of a file looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A value a line.
    Lines(Format),
    /// One value over all lines, in OpenAI's format.
    Document,
    Unknown,
}

/// The first bytes of every SQLite database.
pub const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// Lines that are looked at before we give up on telling the format.
const LINES_LOOKED_AT: usize = 64;

fn forced(format: Format, head: &[u8]) -> Shape {
    if format == Format::OpenAi && is_document(head) { Shape::Document } else { Shape::Lines(format) }
}

fn detect(head: &[u8]) -> Shape {
    if head.starts_with(SQLITE_MAGIC) {
        return Shape::Lines(Format::Hermes);
    }
    if is_document(head) {
        // Only lists of messages, requests and sessions come as documents.
        return Shape::Document;
    }
    let known = text_lines(head).take(LINES_LOOKED_AT).find_map(|line| format_of(&Json::parse(line).ok()?));
    known.map_or(Shape::Unknown, Shape::Lines)
}

/// The lines with something in them, without white space around it and a byte order mark before it.
fn text_lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

/// Whether a text is one value over many lines, and not a value a line.
fn is_document(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let mut lines = text_lines(head);
    let Some(first) = lines.next() else { return false };
    match first[0] {
        b'[' => true,
        // A whole object in the first line is the first of many, or the only one: a line in both cases.
        b'{' if Json::parse(first).is_ok() => false,
        // A line that was cut is followed by a line that begins anew; a document goes on, indented.
        b'{' => {
            let mut raw = head.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).skip(1);
            raw.next().is_some_and(|second| second[0] != b'{')
        }
        _ => false,
    }
}

/// The format of which this value would be a line.
fn format_of(line: &Json) -> Option<Format> {
    let has = |key| line.get(key).is_some();
    if line.get("lcm").and_then(Json::as_str).is_some() {
        return Some(Format::Export);
    }
    if codex::is_known(line) {
        return Some(Format::Codex);
    }
    if !has("role") && has("type") && (has("uuid") || has("sessionId") || has("leafUuid") || has("messageId")) {
        return Some(Format::ClaudeCode);
    }
    openai::is_known(line).then_some(Format::OpenAi)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_comes_back_with_the_hosts_keys_and_without_ours() {
        let back = |json: &str, volatile: &str| {
            let encoded = Message::parse(json.as_bytes()).unwrap().encode().unwrap();
            let bodies = encoded.body_slices();
            let (json, source) = said(&encoded.stored(&bodies).tree().unwrap(), volatile.as_bytes());
            (String::from_utf8(json).unwrap(), String::from_utf8(source).unwrap())
        };
        let pair = |json: &str, source: &str| (json.to_owned(), source.to_owned());
        assert_eq!(back(r#"{"b":1,"a":2}"#, ""), pair(r#"{"b":1,"a":2}"#, ""));
        assert_eq!(
            back(r#"{"b":1}"#, r#"{"t":5,"lcm_source":{"id":"x"},"u":{}}"#),
            pair(r#"{"b":1,"t":5,"u":{}}"#, r#"{"id":"x"}"#)
        );
        assert_eq!(back("{}", r#"{"t":5}"#), pair(r#"{"t":5}"#, ""));
    }

    fn shape(text: &str) -> Shape {
        detect(text.as_bytes())
    }

    #[test]
    fn formats_are_told_from_their_first_lines() {
        assert_eq!(shape(r#"{"role":"user","content":"a"}"#), Shape::Lines(Format::OpenAi));
        assert_eq!(shape(r#"{"session_id":"a","messages":[]}"#), Shape::Lines(Format::OpenAi));
        assert_eq!(shape(r#"{"session":"a","seq":0,"ts":1,"msg":{}}"#), Shape::Lines(Format::OpenAi));
        assert_eq!(shape("\u{feff}\n\n  {\"role\":\"user\"}\r\n"), Shape::Lines(Format::OpenAi));
        assert_eq!(shape("[{\"role\":\"user\"}]"), Shape::Document);
        assert_eq!(shape("{\n \"model\": \"m\",\n \"messages\": [] }"), Shape::Document);
        assert_eq!(shape(r#"{"type":"summary","leafUuid":"x"}"#), Shape::Lines(Format::ClaudeCode));
        assert_eq!(shape(r#"{"type":"session_meta","payload":{}}"#), Shape::Lines(Format::Codex));
        assert_eq!(shape(r#"{"lcm":"export","version":1}"#), Shape::Lines(Format::Export));
        assert_eq!(shape("SQLite format 3\0 and more"), Shape::Lines(Format::Hermes));
        assert_eq!(shape("a letter to a friend"), Shape::Unknown);
        assert_eq!(shape(r#"{"some":"object"}"#), Shape::Unknown);
        assert_eq!(shape(""), Shape::Unknown);
    }

    #[test]
    fn a_broken_first_line_does_not_hide_the_format() {
        let text = "{\"role\":\"user\",\"content\":\"cut he\n{\"role\":\"user\",\"content\":\"b\"}\n";
        assert_eq!(shape(text), Shape::Lines(Format::OpenAi));
        assert_eq!(shape("\0\0\0\n{\"role\":\"user\"}\n"), Shape::Lines(Format::OpenAi));
    }

    /// Decodes a file of `tests/fixtures/import`.
    fn fixture(name: &str) -> Vec<Decoded> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/import/");
        decoded(&std::fs::read(format!("{folder}{name}")).unwrap(), None)
    }

    fn decoded(bytes: &[u8], format: Option<Format>) -> Vec<Decoded> {
        let options = DecodeOptions { format, name: "file".to_owned(), source: "file.json".to_owned() };
        let mut all = Vec::new();
        let ended = decode(&mut &*bytes, &options, &mut |decoded| {
            all.push(decoded);
            Ok(())
        });
        if let Err(error) = ended {
            all.push(Decoded::Fault(Fault::lost(Spot::Whole, error)));
        }
        all
    }

    fn sessions(decoded: &[Decoded]) -> Vec<&Incoming> {
        let mut sessions = Vec::new();
        for decoded in decoded {
            if let Decoded::Session(session) = decoded {
                sessions.push(session);
            }
        }
        sessions
    }

    fn faults(decoded: &[Decoded]) -> Vec<String> {
        let fault = |decoded: &Decoded| {
            if let Decoded::Fault(fault) = decoded { Some(fault.to_string()) } else { None }
        };
        decoded.iter().filter_map(fault).collect()
    }

    fn passed(decoded: &[Decoded]) -> Vec<String> {
        let passed = |decoded: &Decoded| match decoded {
            Decoded::Passed { what, count } => Some(format!("{count} {what}")),
            _ => None,
        };
        decoded.iter().filter_map(passed).collect()
    }

    fn json(message: &IncomingMessage) -> String {
        let bodies = message.encoded.body_slices();
        let mut json = Vec::new();
        lcm_core::canon::write_json(&message.encoded.stored(&bodies), &mut json).unwrap();
        String::from_utf8(json).unwrap()
    }

    #[test]
    fn whole_files_come_in_whole() {
        for (name, messages) in
            [("messages.jsonl", 14), ("messages.windows.jsonl", 14), ("openai.json", 10), ("openai-request.json", 6)]
        {
            let decoded = fixture(name);
            assert_eq!(faults(&decoded), [] as [&str; 0], "{name}");
            let sessions = sessions(&decoded);
            assert_eq!((sessions.len(), sessions[0].messages.len()), (1, messages), "{name}");
            assert_eq!((sessions[0].name.as_str(), sessions[0].name_is_guess), ("file", true), "{name}");
        }
    }

    #[test]
    fn lines_come_in_as_they_were_said() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/import/");
        let text = std::fs::read(format!("{folder}messages.jsonl")).unwrap();
        let decoded = fixture("messages.jsonl");
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        for (message, line) in sessions(&decoded)[0].messages.iter().zip(lines) {
            assert_eq!(json(message).into_bytes(), Json::parse(line).unwrap().to_text());
        }
    }

    #[test]
    fn what_is_damaged_is_named_and_the_rest_comes_in() {
        let told = |name, messages| {
            let decoded = fixture(name);
            let count: usize = sessions(&decoded).iter().map(|session| session.messages.len()).sum();
            assert_eq!(count, messages, "{name}");
            faults(&decoded)
        };
        assert_eq!(told("messages.broken-line.jsonl", 13).len(), 1);
        assert!(told("messages.broken-line.jsonl", 13)[0].starts_with("line 4: it is not JSON: the text ends"));
        assert_eq!(
            told("messages.not-object.jsonl", 14),
            [
                "line 2: a number stands where a message should",
                "line 4: a text stands where a message should",
                "line 6: a list stands where a message should",
                "line 8: null stands where a message should",
                "line 10: a truth value stands where a message should",
            ]
        );
        assert_eq!(told("messages.not-utf8.jsonl", 12).len(), 2);
        assert_eq!(told("messages.nul.jsonl", 13).len(), 2);
        assert_eq!(told("openai.not-object.json", 10).len(), 4);
        let cut = told("openai.cut.json", 6);
        assert_eq!(cut.len(), 1, "{cut:?}");
        assert!(cut[0].ends_with("the text ends inside it"), "{cut:?}");
        let nul = told("openai.nul.json", 10);
        assert_eq!(nul.len(), 2, "{nul:?}");
        assert_eq!(told("empty.jsonl", 0), ["the file: it is empty"]);
    }

    #[test]
    fn a_document_that_cannot_be_read_to_its_end_is_one_loss() {
        struct Torn<'t>(&'t [u8], bool);
        impl Read for Torn<'_> {
            fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
                match (self.0.is_empty(), self.1) {
                    (false, _) => self.0.read(room),
                    (true, false) => Err(std::io::Error::other("torn")),
                    (true, true) => Err(BehindTheEnd("garbage".to_owned()).into()),
                }
            }
        }
        let told = |text: &str, is_behind_the_end| {
            let options = DecodeOptions { format: None, name: "file".to_owned(), source: "file.json".to_owned() };
            let mut all = Vec::new();
            decode(&mut Torn(text.as_bytes(), is_behind_the_end), &options, &mut |decoded| {
                all.push(decoded);
                Ok(())
            })
            .unwrap();
            (sessions(&all)[0].messages.len(), faults(&all))
        };
        let torn = ["the file: it cannot be read to its end: torn".to_owned()];
        assert_eq!(told("[{\"role\":\"user\"},\n{\"role\":\"us", false), (1, torn.to_vec()));
        assert_eq!(told("[{\"role\":\"user\"},", false), (1, torn.to_vec()));
        assert_eq!(told("[{\"role\":\"user\"}]", true), (1, vec!["the file: garbage".to_owned()]));
    }

    #[test]
    fn a_session_of_claude_code_is_one_way_through_its_tree_and_the_ways_that_were_left() {
        let decoded = fixture("claude-code.jsonl");
        assert_eq!(faults(&decoded), [] as [&str; 0]);
        let sessions = sessions(&decoded);
        let names: Vec<&str> = sessions.iter().map(|session| session.name.as_str()).collect();
        let id = "5f0c2a9e-7d41-4a52-9a36-0d6b1f1c7e11";
        assert_eq!(names, [id.to_owned(), format!("{id}/a7c01")]);
        let main = sessions[0];
        assert_eq!((main.paths.len(), main.messages.len()), (2, 23));
        // Lines 3 to 13 are shared; 15 and 16 were taken back.
        assert_eq!(main.paths[0].own.len(), 13);
        assert_eq!(main.paths[1].parent, Some((0, 11)));
        let line = |i: usize| {
            let Ok(Json::Object(volatile)) = Json::parse(&main.messages[i].volatile) else { panic!("no object") };
            let uuid = volatile[0].1.get("uuid").and_then(Json::as_str).unwrap().to_owned();
            u64::from_str_radix(&uuid[24..32], 16).unwrap()
        };
        let list: Vec<u64> = main.paths[0].own[..11].iter().chain(&main.paths[1].own).map(|i| line(*i)).collect();
        assert!(list.is_sorted(), "the order of the file: {list:?}");
        assert_eq!(sessions[1].messages.len(), 2);
        assert_eq!(json(&sessions[1].messages[0]), r#"{"role":"user","content":"Who calls zone_offset()?"}"#);
        assert_eq!(sessions[1].messages[0].seen_ms, Some(1_772_611_219_603));
        assert_eq!(
            passed(&decoded),
            ["1 summary", "2 file-history-snapshot", "2 system", "2 queue-operation", "1 last-prompt"]
        );
    }

    #[test]
    fn damage_to_a_session_of_claude_code_costs_the_line_and_not_the_session() {
        let whole = fixture("claude-code.jsonl");
        for (name, lost, told) in [
            ("claude-code.doubled.jsonl", 0, 0),
            ("claude-code.not-object.jsonl", 0, 5),
            ("claude-code.nul.jsonl", 0, 1),
            ("claude-code.broken-line.jsonl", 1, 1),
            ("claude-code.cut.jsonl", 1, 1),
        ] {
            let decoded = fixture(name);
            assert_eq!(faults(&decoded).len(), told, "{name}: {:?}", faults(&decoded));
            let (now, before) = (sessions(&decoded), sessions(&whole));
            assert_eq!(now.len(), before.len(), "{name}");
            assert_eq!(now[0].messages.len() + lost, before[0].messages.len(), "{name}");
            assert_eq!(now[0].paths.len(), before[0].paths.len(), "{name}");
        }
    }

    #[test]
    fn sessions_requests_and_turns_come_in_under_their_names() {
        let text = br#"{"session_id":"a","source":"x","ids":["m0","m1"],"times":["March-15-2024",5],"messages":[{"role":"user"},7],"meta":{}}
{"messages":[{"role":"user"}]}
{"session":"t","seq":0,"ts":1767225614.5,"msg":{"role":"user"}}
{"session":"u","seq":0,"ts":1,"msg":{"role":"user"},"more":1}
{"session":"t","seq":1,"ts":2,"msg":{"role":"user"}}
"#;
        let decoded = decoded(text, None);
        let told: Vec<(String, String, u64, usize, Option<i64>)> = sessions(&decoded)
            .iter()
            .map(|s| (s.name.clone(), s.source.clone(), s.known, s.messages.len(), s.messages[0].seen_ms))
            .collect();
        let row =
            |name: &str, source: &str, known, count, seen| (name.to_owned(), source.to_owned(), known, count, seen);
        assert_eq!(
            told,
            [
                row("a", "x", 0, 1, Some(1_710_460_800_000)),
                row("file:2", "file.json", 0, 1, None),
                row("t", "file.json", 0, 1, Some(1_767_225_614_500)),
                row("u", "file.json", 0, 1, Some(1000)),
                row("t", "file.json", 1, 1, Some(2000)),
            ]
        );
        assert_eq!(faults(&decoded), ["message 2 of line 1: a number stands where a message should"]);
        assert_eq!(passed(&decoded), [r#"1 key "meta" of a request or session"#]);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_a_decoder_panic(
            lines in proptest::collection::vec(
                r#"(\{"(role|type|uuid|parentUuid|lcm|messages|session|msg|message|timeline|parent|shared|content|isSidechain)":("[ab]"|[0-9]|\[|\{|true|"session"|"timeline"|"message"|\{"role":"user"\}),?){0,5}[\[\]\{\}"]{0,5}|\PC{0,10}"#,
                0..6,
            ),
        ) {
            let text = lines.join("\n");
            for format in [None, Some(Format::OpenAi), Some(Format::ClaudeCode), Some(Format::Export)] {
                let _decoded = decoded(text.as_bytes(), format);
            }
        }
    }
}
