//! Canonical bytes: what of a node is hashed and kept, written and read back.
//!
//! Laid out in `docs/format.md`, "Canonical bytes" (version 1), with vectors in `tests/fixtures/canon/`. An address
//! never changes, so nothing here goes through serde or a codec. A message is three things: its canonical bytes
//! (hashed), its long strings as *bodies* (each hashed by itself, named by its id in the canonical bytes), and the
//! key order of its first form (kept, not hashed).
//!
//! Every reader takes one checked walk over the bytes, into a [`MessageTree`] that borrows all text; whatever wants
//! to look (JSON, search text, tokens) looks at the tree. Bytes that our writer would not have written are refused.
//!
//! Invariant: decoding what was encoded gives the same JSON value (property test below), and no bytes make a reader
//! panic. Not here: whether the bytes are those that were asked for; a store checks hashes with
//! [`StoredMessage::check`].

use std::borrow::Cow;
use std::collections::HashMap;

use crate::id::{BodyId, NodeId};
use crate::json::{Json, JsonString, is_number, is_wtf8, write_utf8, write_wtf8, wtf8_to_string_lossy};
use crate::limits::{CONTENT_BODY_BYTES_MIN, JSON_DEPTH_MAX, MESSAGE_BYTES_MAX, OTHER_BODY_BYTES_MIN};
use crate::message::{MessageError, Role};
use crate::node::{Level, Summary, SummaryError, SummaryParts};

/// The version of canonical bytes that we write.
const VERSION: u8 = 1;
/// First bytes of a message, a body and a summary: they keep the three kinds of hash apart.
const MESSAGE: [u8; 2] = [b'M', VERSION];
const BODY: [u8; 2] = [b'B', VERSION];
const SUMMARY: [u8; 2] = [b'S', VERSION];

// What becomes a body is part of version 1: another limit would give every message another id.
const _: () = assert!(CONTENT_BODY_BYTES_MIN == 512 && OTHER_BODY_BYTES_MIN == 4096);

/// A long string of a message, kept apart so that it is stored once however often it is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedBody {
    /// blake3 of `bytes`.
    pub id: BodyId,
    /// `B`, the version, and the string as WTF-8.
    pub bytes: Vec<u8>,
}

/// A message as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedMessage {
    /// blake3 of `canon`.
    pub id: NodeId,
    /// `M`, the version, and the object.
    pub canon: Vec<u8>,
    /// How the keys stood in the form that was encoded; empty when they stood in canonical order.
    pub order: Vec<u8>,
    /// Each body that `canon` names, once, in order of first mention.
    pub bodies: Vec<EncodedBody>,
}

impl EncodedMessage {
    /// The bytes of the bodies, as [`StoredMessage`] wants them.
    #[must_use]
    pub fn body_slices(&self) -> Vec<&[u8]> {
        self.bodies.iter().map(|body| body.bytes.as_slice()).collect()
    }

    /// Looks at this message as a store would give it back; `bodies` are its [`Self::body_slices`].
    #[must_use]
    pub fn stored<'a>(&'a self, bodies: &'a [&'a [u8]]) -> StoredMessage<'a> {
        StoredMessage { canon: &self.canon, order: &self.order, bodies }
    }
}

/// The parts of a message as a store holds them.
///
/// ```
/// use lcm_core::{Message, StoredMessage, canon};
///
/// let encoded = Message::parse(br#"{"role": "user", "content": "hello"}"#)?.encode()?;
/// assert_eq!(encoded.id, canon::message_id(&encoded.canon));
///
/// // What a store kept, given back in the form that was said first.
/// let bodies: Vec<&[u8]> = encoded.bodies.iter().map(|body| body.bytes.as_slice()).collect();
/// let stored = StoredMessage { canon: &encoded.canon, order: &encoded.order, bodies: &bodies };
/// stored.check(&encoded.id)?;
/// let mut json = Vec::new();
/// canon::write_json(&stored, &mut json)?;
/// assert_eq!(json, br#"{"role":"user","content":"hello"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StoredMessage<'a> {
    /// See [`EncodedMessage::canon`].
    pub canon: &'a [u8],
    /// See [`EncodedMessage::order`].
    pub order: &'a [u8],
    /// The bytes of each body that [`body_refs`] names, in that order.
    pub bodies: &'a [&'a [u8]],
}

impl<'a> StoredMessage<'a> {
    /// Reads the whole message in one checked walk.
    ///
    /// # Errors
    /// When the bytes are not what our writer writes, or a body is missing. Hashes are not looked at.
    pub fn tree(&self) -> Result<MessageTree<'a>, CanonError> {
        Walk::new(*self)?.message()
    }

    /// Checks that the canonical bytes have this id, and each body the id under which they name it.
    ///
    /// # Errors
    /// Names the first hash that is another one.
    pub fn check(&self, id: &NodeId) -> Result<(), CanonError> {
        let actual = message_id(self.canon);
        if actual != *id {
            return Err(CanonError::WrongMessage { id: *id, actual });
        }
        let mut bodies = self.bodies.iter();
        for reference in body_refs(self.canon)? {
            let body = bodies.next().ok_or(CanonError::MissingBody(reference.id))?;
            let actual = body_id(body);
            if actual != reference.id {
                return Err(CanonError::WrongBody { id: reference.id, actual });
            }
        }
        Ok(())
    }
}

/// A body as canonical bytes name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRef {
    /// Which one.
    pub id: BodyId,
    /// Bytes of the string: two less than the body's bytes.
    pub len: u64,
}

/// What can be told of a message without its bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline<'a> {
    /// Who speaks.
    pub role: Role,
    /// The tools it calls, in order, one for each call; for a result, the tool that it says it is from.
    pub tool_names: Vec<Cow<'a, str>>,
    /// Whether it calls tools.
    pub has_calls: bool,
}

/// Why canonical bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanonError {
    /// A newer program wrote them.
    #[error("the {part} have version {version}, this program reads version {VERSION}")]
    TooNew {
        /// Canonical bytes of a message or a summary, or a body.
        part: &'static str,
        /// The version they say.
        version: u8,
    },
    /// Our writer did not write them.
    #[error("the {part} are damaged at byte {offset}: {what}")]
    Damaged {
        /// Canonical bytes, key order or body.
        part: &'static str,
        /// Where, from their beginning.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// The message names a body that was not given.
    #[error("body {0:.12} is missing")]
    MissingBody(BodyId),
    /// The canonical bytes of another message, or damaged ones.
    #[error("message {id:.12} is damaged: its bytes hash to {actual:.12}")]
    WrongMessage {
        /// The message asked for.
        id: NodeId,
        /// The id its bytes give now.
        actual: NodeId,
    },
    /// The bytes of another body, or damaged ones.
    #[error("body {id:.12} is damaged: its bytes hash to {actual:.12}")]
    WrongBody {
        /// The body that the message names.
        id: BodyId,
        /// The id its bytes give now.
        actual: BodyId,
    },
    /// The fields can be read and contradict each other.
    #[error("the canonical bytes hold no valid summary")]
    Summary(#[from] SummaryError),
}

/// The id of a message or a summary with these canonical bytes.
#[must_use]
pub fn message_id(canon: &[u8]) -> NodeId {
    NodeId::from_bytes(*blake3::hash(canon).as_bytes())
}

/// The id of a body with these bytes, the first two included.
#[must_use]
pub fn body_id(bytes: &[u8]) -> BodyId {
    BodyId::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// Where a string stands, which decides from which length on it is a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Under {
    /// The value of `role` at the top: always in the message itself, so that roles can be told without bodies.
    Role,
    /// Anywhere under `content` at the top.
    Content,
    Elsewhere,
}

impl Under {
    fn top_level(key: &[u8]) -> Self {
        match key {
            b"role" => Self::Role,
            b"content" => Self::Content,
            _ => Self::Elsewhere,
        }
    }

    /// For what stands inside the array or object here.
    fn inside(self) -> Self {
        if self == Self::Role { Self::Elsewhere } else { self }
    }

    fn is_body(self, len: usize) -> bool {
        match self {
            Self::Role => false,
            Self::Content => len >= CONTENT_BODY_BYTES_MIN,
            Self::Elsewhere => len >= OTHER_BODY_BYTES_MIN,
        }
    }
}

// ---- writing ----

/// Encodes a message that [`crate::Message`] has checked.
pub(crate) fn encode(json: &Json) -> Result<EncodedMessage, MessageError> {
    let mut writer = Writer {
        canon: Vec::with_capacity(256),
        order: Vec::new(),
        order_needed: 0,
        bodies: Vec::new(),
        known: KnownBodies::default(),
        body_bytes: 0,
        indexes: Vec::new(),
    };
    writer.canon.extend_from_slice(&MESSAGE);
    writer.value(json, Under::Elsewhere, 0)?;
    let Writer { canon, mut order, order_needed, bodies, .. } = writer;
    order.truncate(order_needed);
    Ok(EncodedMessage { id: message_id(&canon), canon, order, bodies })
}

struct Writer {
    canon: Vec<u8>,
    order: Vec<u8>,
    /// Length of `order` up to the last object whose keys did not stand in canonical order.
    order_needed: usize,
    bodies: Vec<EncodedBody>,
    known: KnownBodies,
    /// The strings that became bodies, each as often as it is said.
    body_bytes: usize,
    /// Scratch of the objects that are being written, outer ones first.
    indexes: Vec<usize>,
}

impl Writer {
    fn value(&mut self, json: &Json, under: Under, depth: usize) -> Result<(), MessageError> {
        match json {
            Json::Null => self.canon.push(b'n'),
            Json::Bool(true) => self.canon.push(b't'),
            Json::Bool(false) => self.canon.push(b'f'),
            Json::Number(literal) => {
                self.canon.push(b'#');
                push_bytes(&mut self.canon, literal.as_bytes());
            }
            Json::String(string) => self.string(string, under),
            Json::Array(elements) => {
                self.canon.push(b'[');
                push_length(&mut self.canon, elements.len());
                for element in elements {
                    self.value(element, under.inside(), depth + 1)?;
                }
            }
            Json::Object(entries) => self.object(entries, under.inside(), depth)?,
        }
        let bytes = self.canon.len().saturating_add(self.body_bytes);
        if bytes > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLarge { bytes, max: MESSAGE_BYTES_MAX });
        }
        Ok(())
    }

    fn string(&mut self, string: &JsonString, under: Under) {
        let text = string.as_bytes();
        if !under.is_body(text.len()) {
            self.canon.push(b's');
            push_bytes(&mut self.canon, text);
            return;
        }
        let mut bytes = Vec::with_capacity(BODY.len() + text.len());
        bytes.extend_from_slice(&BODY);
        bytes.extend_from_slice(text);
        let id = body_id(&bytes);
        self.canon.push(b'b');
        self.canon.extend_from_slice(id.as_bytes());
        push_length(&mut self.canon, text.len());
        self.body_bytes = self.body_bytes.saturating_add(text.len());
        if self.known.index(id) == self.bodies.len() {
            self.bodies.push(EncodedBody { id, bytes });
        }
    }

    fn object(
        &mut self,
        entries: &[(JsonString, Json)],
        under: Under,
        depth: usize,
    ) -> Result<(), MessageError> {
        self.canon.push(b'{');
        push_length(&mut self.canon, entries.len());
        let base = self.indexes.len();
        let sorted = entries.is_sorted_by(|(a, _), (b, _)| a <= b);
        self.indexes.extend(0..entries.len());
        if !sorted {
            // Stable: keys that occur twice stay in the order in which they were said.
            self.indexes[base..].sort_by(|&a, &b| entries[a].0.cmp(&entries[b].0));
        }
        self.order(entries.len(), base, sorted);
        for i in base..base + entries.len() {
            let (key, value) = &entries[self.indexes[i]];
            push_bytes(&mut self.canon, key.as_bytes());
            let under = if depth == 0 { Under::top_level(key.as_bytes()) } else { under };
            self.value(value, under, depth + 1)?;
        }
        self.indexes.truncate(base);
        Ok(())
    }

    /// Writes where in the canonical order each entry of the first form stands; `indexes` from `base` on say the
    /// reverse.
    fn order(&mut self, count: usize, base: usize, sorted: bool) {
        if sorted {
            for i in 0..count {
                push_length(&mut self.order, i);
            }
            return;
        }
        let ranks = base + count;
        self.indexes.resize(ranks + count, 0);
        for i in 0..count {
            let said = self.indexes[base + i];
            self.indexes[ranks + said] = i;
        }
        for rank in &self.indexes[ranks..] {
            push_length(&mut self.order, *rank);
        }
        self.indexes.truncate(ranks);
        self.order_needed = self.order.len();
    }
}

fn push_varint(out: &mut Vec<u8>, value: u64) {
    let mut rest = value;
    while rest >= 0x80 {
        out.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    // `usize` has at most 64 bits on everything Rust runs on.
    push_varint(out, u64::try_from(length).unwrap_or(u64::MAX));
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// The bodies met so far, numbered in order of first mention.
#[derive(Default)]
struct KnownBodies {
    ids: Vec<BodyId>,
    /// Holds all of `ids` as soon as looking through them gets slow.
    numbers: HashMap<BodyId, usize>,
}

impl KnownBodies {
    /// More than nearly every message has.
    const FEW: usize = 16;

    /// The number of this body; the number of bodies known before, when it is new.
    fn index(&mut self, id: BodyId) -> usize {
        let next = self.ids.len();
        let known = if next <= Self::FEW {
            self.ids.iter().position(|other| *other == id)
        } else {
            self.numbers.get(&id).copied()
        };
        if let Some(known) = known {
            return known;
        }
        self.ids.push(id);
        if next == Self::FEW {
            self.numbers.extend(self.ids.iter().copied().zip(0..));
        } else if next > Self::FEW {
            self.numbers.insert(id, next);
        }
        next
    }
}

// ---- reading ----

/// A place in bytes that are being read.
#[derive(Clone)]
struct Cursor<'a> {
    rest: &'a [u8],
    /// Length of the whole, to tell where we are.
    whole: usize,
    /// What an error calls them.
    part: &'static str,
}

impl<'a> Cursor<'a> {
    fn new(bytes: &'a [u8], part: &'static str) -> Self {
        Self { rest: bytes, whole: bytes.len(), part }
    }

    /// Reads the first two bytes: the kind and the version.
    fn begin(bytes: &'a [u8], part: &'static str, kind: [u8; 2]) -> Result<Self, CanonError> {
        let mut cursor = Self::new(bytes, part);
        if cursor.byte()? != kind[0] {
            return Err(cursor.damaged("they begin with another letter"));
        }
        match cursor.byte()? {
            VERSION => Ok(cursor),
            0 => Err(cursor.damaged("there is no version 0")),
            version => Err(CanonError::TooNew { part, version }),
        }
    }

    #[cold]
    fn damaged(&self, what: &'static str) -> CanonError {
        CanonError::Damaged { part: self.part, offset: self.whole - self.rest.len(), what }
    }

    fn byte(&mut self) -> Result<u8, CanonError> {
        let Some((&byte, rest)) = self.rest.split_first() else {
            return Err(self.damaged("they end too early"));
        };
        self.rest = rest;
        Ok(byte)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], CanonError> {
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.damaged("they end too early"));
        };
        self.rest = rest;
        Ok(bytes)
    }

    fn hash(&mut self) -> Result<[u8; 32], CanonError> {
        let Some((hash, rest)) = self.rest.split_first_chunk() else {
            return Err(self.damaged("they end too early"));
        };
        self.rest = rest;
        Ok(*hash)
    }

    /// Nearly all numbers have one byte, so that case is kept small enough to be inlined.
    #[inline]
    fn varint(&mut self) -> Result<u64, CanonError> {
        let first = self.byte()?;
        if first < 0x80 { Ok(u64::from(first)) } else { self.long_varint(first) }
    }

    #[inline(never)]
    fn long_varint(&mut self, first: u8) -> Result<u64, CanonError> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(self.damaged("a number does not fit in 64 bits"));
            }
            value |= bits << shift;
            match byte {
                0 => return Err(self.damaged("a number is longer than it need be")),
                1..0x80 => return Ok(value),
                _ => {}
            }
        }
        Err(self.damaged("a number does not fit in 64 bits"))
    }

    fn length(&mut self) -> Result<usize, CanonError> {
        let length = self.varint()?;
        usize::try_from(length).map_err(|_| self.damaged("they end too early"))
    }

    /// Reads how many things follow that take at least `each` bytes.
    fn count(&mut self, each: usize) -> Result<usize, CanonError> {
        let count = self.length()?;
        if count > self.rest.len() / each {
            return Err(self.damaged("they end too early"));
        }
        Ok(count)
    }

    /// Reads a length and as many bytes.
    fn bytes(&mut self) -> Result<&'a [u8], CanonError> {
        let length = self.length()?;
        self.take(length)
    }

    /// Reads a length and as much UTF-8.
    fn text(&mut self) -> Result<&'a str, CanonError> {
        let bytes = self.bytes()?;
        str::from_utf8(bytes).map_err(|_| self.damaged("a text is not UTF-8"))
    }

    fn end(&self) -> Result<(), CanonError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.damaged("something stands behind the end")) }
    }

    /// Steps over a value, looking only at what it needs to find the end of it.
    fn skip(&mut self, depth: usize, body: &mut impl FnMut(BodyRef)) -> Result<(), CanonError> {
        match self.byte()? {
            b'n' | b't' | b'f' => {}
            b'#' | b's' => {
                self.bytes()?;
            }
            b'b' => body(BodyRef { id: BodyId::from_bytes(self.hash()?), len: self.varint()? }),
            b'[' => {
                self.enter(depth)?;
                for _ in 0..self.count(1)? {
                    self.skip(depth + 1, body)?;
                }
            }
            b'{' => {
                self.enter(depth)?;
                for _ in 0..self.count(2)? {
                    self.bytes()?;
                    self.skip(depth + 1, body)?;
                }
            }
            _ => return Err(self.damaged("no value begins like this")),
        }
        Ok(())
    }

    fn enter(&self, depth: usize) -> Result<(), CanonError> {
        if depth < JSON_DEPTH_MAX { Ok(()) } else { Err(self.damaged("too many values inside each other")) }
    }

    /// Reads the entries of an object with `entry`, which takes the value; steps over anything else.
    fn entries(
        &mut self,
        mut entry: impl FnMut(&'a [u8], &mut Self) -> Result<(), CanonError>,
    ) -> Result<(), CanonError> {
        if self.rest.first() != Some(&b'{') {
            return self.skip_one();
        }
        self.byte()?;
        for _ in 0..self.count(2)? {
            let key = self.bytes()?;
            entry(key, self)?;
        }
        Ok(())
    }

    /// Reads the elements of an array with `element`, which takes the value; steps over anything else.
    fn elements(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), CanonError>,
    ) -> Result<(), CanonError> {
        if self.rest.first() != Some(&b'[') {
            return self.skip_one();
        }
        self.byte()?;
        for _ in 0..self.count(1)? {
            element(self)?;
        }
        Ok(())
    }

    /// Reads a string that stands here in full; steps over anything else.
    fn string(&mut self) -> Result<Option<&'a [u8]>, CanonError> {
        if self.rest.first() != Some(&b's') {
            return self.skip_one().map(|()| None);
        }
        self.byte()?;
        self.bytes().map(Some)
    }

    fn skip_one(&mut self) -> Result<(), CanonError> {
        self.skip(0, &mut |_| {})
    }
}

const CANON: &str = "canonical bytes";

/// The bodies that a message's canonical bytes name: each once, in order of first mention.
///
/// # Errors
/// When the bytes are so damaged that the end of a value cannot be found; all else is left to
/// [`StoredMessage::tree`].
pub fn body_refs(canon: &[u8]) -> Result<Vec<BodyRef>, CanonError> {
    let mut cursor = Cursor::begin(canon, CANON, MESSAGE)?;
    let mut known = KnownBodies::default();
    let mut references: Vec<BodyRef> = Vec::new();
    cursor.skip(0, &mut |reference| {
        if known.index(reference.id) == references.len() {
            references.push(reference);
        }
    })?;
    cursor.end()?;
    Ok(references)
}

/// Reads what can be told of a message without its bodies.
///
/// # Errors
/// When the bytes are so damaged that the end of a value cannot be found.
pub fn outline(canon: &[u8]) -> Result<Outline<'_>, CanonError> {
    let mut cursor = Cursor::begin(canon, CANON, MESSAGE)?;
    let mut role = Role::Other;
    let (mut in_blocks, mut in_calls, mut in_function) = (Vec::new(), Vec::new(), None);
    let (mut has_blocks, mut has_list, mut has_function) = (false, false, false);
    let (mut name, mut tool_name) = (None, None);
    // Of keys that occur twice the last one counts, so each of them starts anew.
    cursor.entries(|key, cursor| {
        match key {
            b"role" => role = cursor.string()?.map_or(Role::Other, Role::from_name),
            b"name" => name = cursor.string()?,
            b"tool_name" => tool_name = cursor.string()?,
            b"content" => {
                in_blocks.clear();
                has_blocks = false;
                cursor.elements(|cursor| {
                    let (mut name, mut is_call) = (None, false);
                    cursor.entries(|key, cursor| {
                        match key {
                            b"name" => name = cursor.string()?,
                            b"type" => is_call = cursor.string()? == Some(b"tool_use"),
                            _ => cursor.skip_one()?,
                        }
                        Ok(())
                    })?;
                    has_blocks |= is_call;
                    in_blocks.extend(name.filter(|_| is_call));
                    Ok(())
                })?;
            }
            b"tool_calls" => {
                in_calls.clear();
                has_list = false;
                cursor.elements(|cursor| {
                    has_list = true;
                    let mut name = None;
                    cursor.entries(|key, cursor| {
                        match key {
                            b"function" => name = function_name(cursor)?,
                            _ => cursor.skip_one()?,
                        }
                        Ok(())
                    })?;
                    in_calls.extend(name);
                    Ok(())
                })?;
            }
            b"function_call" => {
                has_function = cursor.rest.first() == Some(&b'{');
                in_function = function_name(cursor)?;
            }
            _ => cursor.skip_one()?,
        }
        Ok(())
    })?;
    cursor.end()?;
    let from = if role == Role::Tool { tool_name.or(name) } else { None };
    let names = in_blocks.into_iter().chain(in_calls).chain(in_function).chain(from);
    Ok(Outline {
        role,
        tool_names: names.map(lossy).collect(),
        has_calls: has_blocks || has_list || has_function,
    })
}

fn function_name<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, CanonError> {
    let mut name = None;
    cursor.entries(|key, cursor| {
        match key {
            b"name" => name = cursor.string()?,
            _ => cursor.skip_one()?,
        }
        Ok(())
    })?;
    Ok(name)
}

fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(wtf8_to_string_lossy(bytes)),
    }
}

/// Reads a message back, in the key order of its first form.
///
/// # Errors
/// See [`StoredMessage::tree`].
pub fn decode(message: &StoredMessage<'_>) -> Result<Json, CanonError> {
    Ok(message.tree()?.root().to_json())
}

/// Appends a message as compact JSON text, in the key order of its first form; what [`decode`] and
/// [`Json::write`] would give, without the values between.
///
/// # Errors
/// See [`StoredMessage::tree`]; nothing is appended then.
pub fn write_json(message: &StoredMessage<'_>, out: &mut Vec<u8>) -> Result<(), CanonError> {
    message.tree()?.root().write_json(out);
    Ok(())
}

/// A stored message that was read: JSON that borrows all its text.
#[derive(Clone, Debug)]
pub struct MessageTree<'a> {
    /// Every value, and before the value of an entry its key. The root comes first.
    slots: Vec<Slot<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Slot<'a> {
    value: Value<'a>,
    /// The next element, or the key of the next entry in the order of the first form; [`NONE`] behind the last.
    next: usize,
}

#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(&'a str),
    /// A string of ASCII: most keys. Half as dear to check as UTF-8.
    Ascii(&'a [u8]),
    /// A string with at least one unpaired surrogate.
    Wtf8(&'a [u8]),
    /// The first element, or [`NONE`].
    Array(usize),
    /// The key of the first entry, or [`NONE`].
    Object(usize),
}

const NONE: usize = usize::MAX;

impl<'a> MessageTree<'a> {
    /// The message: an object.
    #[must_use]
    pub fn root(&self) -> TreeValue<'_, 'a> {
        TreeValue { tree: self, at: 0 }
    }

    /// Who speaks.
    #[must_use]
    pub fn role(&self) -> Role {
        self.root().get("role").and_then(TreeValue::as_wtf8).map_or(Role::Other, Role::from_name)
    }
}

/// One value of a [`MessageTree`].
#[derive(Clone, Copy, Debug)]
pub struct TreeValue<'t, 'a> {
    tree: &'t MessageTree<'a>,
    at: usize,
}

impl<'t, 'a> TreeValue<'t, 'a> {
    fn value(self) -> Value<'a> {
        self.tree.slots[self.at].value
    }

    /// The slots from `first` on.
    fn chain(self, first: usize) -> impl Iterator<Item = usize> {
        let present = |at: usize| (at != NONE).then_some(at);
        std::iter::successors(present(first), move |at| present(self.tree.slots[*at].next))
    }

    /// The elements of an array; none for anything else.
    pub fn elements(self) -> impl Iterator<Item = Self> {
        let first = if let Value::Array(first) = self.value() { first } else { NONE };
        self.chain(first).map(move |at| Self { tree: self.tree, at })
    }

    /// The entries of an object in the order of the first form, keys as WTF-8; none for anything else.
    pub fn entries(self) -> impl Iterator<Item = (&'a [u8], Self)> {
        let first = if let Value::Object(first) = self.value() { first } else { NONE };
        self.chain(first).map(move |at| {
            let key = Self { tree: self.tree, at };
            (key.as_wtf8().unwrap_or_default(), Self { tree: self.tree, at: at + 1 })
        })
    }

    /// The value under `key`, when this is an object that has it; of several the last one.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Self> {
        self.entries().filter(|(name, _)| *name == key.as_bytes()).last().map(|(_, value)| value)
    }

    /// The bytes of a string.
    #[must_use]
    pub fn as_wtf8(self) -> Option<&'a [u8]> {
        match self.value() {
            Value::Text(text) => Some(text.as_bytes()),
            Value::Ascii(bytes) | Value::Wtf8(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The text of a string that has no unpaired surrogate.
    #[must_use]
    pub fn as_str(self) -> Option<&'a str> {
        match self.value() {
            Value::Text(text) => Some(text),
            Value::Ascii(bytes) => str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The text of a string, with U+FFFD for every unpaired surrogate.
    #[must_use]
    pub fn to_str_lossy(self) -> Option<Cow<'a, str>> {
        match self.value() {
            Value::Text(text) => Some(Cow::Borrowed(text)),
            Value::Ascii(bytes) | Value::Wtf8(bytes) => Some(lossy(bytes)),
            _ => None,
        }
    }

    /// Whether this is an array.
    #[must_use]
    pub fn is_array(self) -> bool {
        matches!(self.value(), Value::Array(_))
    }

    /// Whether this is an object.
    #[must_use]
    pub fn is_object(self) -> bool {
        matches!(self.value(), Value::Object(_))
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        matches!(self.value(), Value::Null)
    }

    /// Appends the value as compact JSON text.
    pub fn write_json(self, out: &mut Vec<u8>) {
        match self.value() {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Number(literal) => out.extend_from_slice(literal.as_bytes()),
            Value::Text(text) => write_utf8(text.as_bytes(), out),
            Value::Ascii(bytes) => write_utf8(bytes, out),
            Value::Wtf8(bytes) => write_wtf8(bytes, out),
            Value::Array(first) => {
                out.push(b'[');
                for at in self.chain(first) {
                    if at != first {
                        out.push(b',');
                    }
                    Self { tree: self.tree, at }.write_json(out);
                }
                out.push(b']');
            }
            Value::Object(first) => {
                out.push(b'{');
                for at in self.chain(first) {
                    if at != first {
                        out.push(b',');
                    }
                    Self { tree: self.tree, at }.write_json(out);
                    out.push(b':');
                    Self { tree: self.tree, at: at + 1 }.write_json(out);
                }
                out.push(b'}');
            }
        }
    }

    /// A copy that stands by itself.
    #[must_use]
    pub fn to_json(self) -> Json {
        match self.value() {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(value),
            Value::Number(literal) => Json::Number(literal.into()),
            Value::Text(_) | Value::Ascii(_) | Value::Wtf8(_) => Json::String(self.to_json_string()),
            Value::Array(_) => Json::Array(self.elements().map(Self::to_json).collect()),
            Value::Object(first) => {
                let entry = |at| {
                    let key = Self { tree: self.tree, at }.to_json_string();
                    (key, Self { tree: self.tree, at: at + 1 }.to_json())
                };
                Json::Object(self.chain(first).map(entry).collect())
            }
        }
    }

    fn to_json_string(self) -> JsonString {
        match self.value() {
            Value::Text(text) => text.into(),
            Value::Ascii(bytes) | Value::Wtf8(bytes) => {
                JsonString::from_wtf8(bytes.to_vec()).unwrap_or_default()
            }
            _ => JsonString::new(),
        }
    }
}

/// The one checked walk over a stored message.
struct Walk<'a> {
    canon: Cursor<'a>,
    order: Cursor<'a>,
    bodies: &'a [&'a [u8]],
    known: KnownBodies,
    /// Strings that are bodies, each as often as it is named. Bounded, for a small message may name a large body
    /// a million times.
    body_bytes: usize,
    slots: Vec<Slot<'a>>,
    /// Scratch of the objects that are being read, outer ones first.
    indexes: Vec<usize>,
}

impl<'a> Walk<'a> {
    fn new(message: StoredMessage<'a>) -> Result<Self, CanonError> {
        let canon = Cursor::begin(message.canon, CANON, MESSAGE)?;
        if message.canon.len() > MESSAGE_BYTES_MAX {
            return Err(canon.damaged("they are longer than a message may be"));
        }
        Ok(Self {
            canon,
            order: Cursor::new(message.order, "bytes of the key order"),
            bodies: message.bodies,
            known: KnownBodies::default(),
            body_bytes: message.canon.len(),
            slots: Vec::with_capacity(16),
            indexes: Vec::new(),
        })
    }

    fn message(mut self) -> Result<MessageTree<'a>, CanonError> {
        if self.canon.rest.first() != Some(&b'{') {
            return Err(self.canon.damaged("a message is an object"));
        }
        self.value(Under::Elsewhere, 0)?;
        self.canon.end()?;
        self.order.end()?;
        if self.known.ids.len() != self.bodies.len() {
            let offset = self.known.ids.len();
            return Err(CanonError::Damaged {
                part: "bodies",
                offset,
                what: "one is given that nothing names",
            });
        }
        Ok(MessageTree { slots: self.slots })
    }

    fn push(&mut self, value: Value<'a>) {
        self.slots.push(Slot { value, next: NONE });
    }

    fn value(&mut self, under: Under, depth: usize) -> Result<(), CanonError> {
        match self.canon.byte()? {
            b's' => {
                let bytes = self.canon.bytes()?;
                if under.is_body(bytes.len()) {
                    return Err(self.canon.damaged("a string stands here that is a body"));
                }
                let value = text_value(bytes).ok_or_else(|| self.canon.damaged("a string is not WTF-8"))?;
                self.push(value);
            }
            b'b' => self.body(under)?,
            b'{' => self.object(under.inside(), depth)?,
            b'[' => {
                self.canon.enter(depth)?;
                let count = self.canon.count(1)?;
                let mut last = self.slots.len();
                self.push(Value::Array(if count == 0 { NONE } else { last + 1 }));
                for i in 0..count {
                    let at = self.slots.len();
                    if i > 0 {
                        self.slots[last].next = at;
                    }
                    last = at;
                    self.value(under.inside(), depth + 1)?;
                }
            }
            b'#' => {
                let literal = self.canon.text()?;
                if !is_number(literal.as_bytes()) {
                    return Err(self.canon.damaged("a number is none"));
                }
                self.push(Value::Number(literal));
            }
            b'n' => self.push(Value::Null),
            b't' => self.push(Value::Bool(true)),
            b'f' => self.push(Value::Bool(false)),
            _ => return Err(self.canon.damaged("no value begins like this")),
        }
        Ok(())
    }

    fn body(&mut self, under: Under) -> Result<(), CanonError> {
        let id = BodyId::from_bytes(self.canon.hash()?);
        let length = self.canon.length()?;
        if !under.is_body(length) {
            return Err(self.canon.damaged("a string is a body that is none"));
        }
        self.body_bytes = self.body_bytes.saturating_add(length);
        if self.body_bytes > MESSAGE_BYTES_MAX {
            return Err(self.canon.damaged("the bodies are longer than a message may be"));
        }
        let bytes = self.bodies.get(self.known.index(id)).ok_or(CanonError::MissingBody(id))?;
        let body = Cursor::begin(bytes, "bytes of a body", BODY)?;
        if body.rest.len() != length {
            return Err(body.damaged("it has another length"));
        }
        let value = text_value(body.rest).ok_or_else(|| body.damaged("it is not WTF-8"))?;
        self.push(value);
        Ok(())
    }

    fn object(&mut self, under: Under, depth: usize) -> Result<(), CanonError> {
        self.canon.enter(depth)?;
        let count = self.canon.count(2)?;
        let object = self.slots.len();
        self.push(Value::Object(if count == 0 { NONE } else { object + 1 }));
        // The order of this object stands before that of the objects in it, so it is read first.
        let base = self.indexes.len();
        let in_order = self.order.rest.is_empty();
        if !in_order {
            for _ in 0..count {
                let rank = self.order.length()?;
                if rank >= count {
                    return Err(self.order.damaged("an entry is named that is not there"));
                }
                self.indexes.push(rank);
            }
        }
        let starts = self.indexes.len();
        let (mut previous, mut previous_key): (usize, &[u8]) = (NONE, &[]);
        let mut has_twins = false;
        for _ in 0..count {
            let key = self.canon.bytes()?;
            if previous != NONE {
                if previous_key > key {
                    return Err(self.canon.damaged("keys are not in order"));
                }
                has_twins |= previous_key == key;
                self.slots[previous].next = self.slots.len();
            }
            previous = self.slots.len();
            previous_key = key;
            let value = text_value(key).ok_or_else(|| self.canon.damaged("a key is not WTF-8"))?;
            if !in_order {
                self.indexes.push(previous);
            }
            self.push(value);
            let under = if depth == 0 { Under::top_level(key) } else { under };
            self.value(under, depth + 1)?;
        }
        if !in_order && count > 0 {
            self.reorder(object, base, starts, has_twins)?;
        }
        self.indexes.truncate(base);
        Ok(())
    }

    /// Links the entries of an object in the order of the first form: `indexes` from `base` on name entries, those
    /// from `starts` on say where the keys are.
    fn reorder(
        &mut self,
        object: usize,
        base: usize,
        starts: usize,
        has_twins: bool,
    ) -> Result<(), CanonError> {
        let mut last = NONE;
        for i in base..starts {
            let rank = self.indexes[i];
            let at = std::mem::replace(&mut self.indexes[starts + rank], NONE);
            if at == NONE {
                return Err(self.order.damaged("an entry is named twice"));
            }
            // Of two entries with one key the first said is the first here: the last one counts for readers.
            if has_twins && rank > 0 {
                let before = self.indexes[starts + rank - 1];
                if before != NONE && self.key(before) == self.key(at) {
                    return Err(self.order.damaged("entries with one key have changed places"));
                }
            }
            if last == NONE {
                self.slots[object].value = Value::Object(at);
            } else {
                self.slots[last].next = at;
            }
            last = at;
        }
        self.slots[last].next = NONE;
        Ok(())
    }

    fn key(&self, at: usize) -> &'a [u8] {
        match self.slots[at].value {
            Value::Text(text) => text.as_bytes(),
            Value::Ascii(bytes) | Value::Wtf8(bytes) => bytes,
            _ => &[],
        }
    }
}

/// A string, when the bytes are WTF-8.
fn text_value(bytes: &[u8]) -> Option<Value<'_>> {
    /// Longer ones are likely to be asked for as text.
    const ASCII_BYTES_MAX: usize = 32;
    if bytes.len() <= ASCII_BYTES_MAX && bytes.is_ascii() {
        return Some(Value::Ascii(bytes));
    }
    match str::from_utf8(bytes) {
        Ok(text) => Some(Value::Text(text)),
        Err(_) => is_wtf8(bytes).then_some(Value::Wtf8(bytes)),
    }
}

// ---- summaries ----

/// The canonical bytes of a summary.
#[must_use]
pub fn encode_summary(summary: &Summary) -> Vec<u8> {
    let children = summary.children();
    let mut out = Vec::with_capacity(summary.text().len() + 32 * children.len() + 128);
    out.extend_from_slice(&SUMMARY);
    push_varint(&mut out, u64::from(summary.depth()));
    push_varint(&mut out, u64::from(summary.level.number()));
    push_varint(&mut out, u64::from(summary.prompt_version));
    push_varint(&mut out, summary.source_tokens);
    push_varint(&mut out, u64::from(summary.own_tokens));
    let (first_ms, last_ms) = summary.span_ms();
    push_varint(&mut out, zigzag(first_ms));
    push_varint(&mut out, zigzag(last_ms));
    push_bytes(&mut out, summary.model.as_bytes());
    push_bytes(&mut out, summary.text().as_bytes());
    let mut marks: Vec<&String> = summary.marks.iter().collect();
    marks.sort();
    push_length(&mut out, marks.len());
    for mark in marks {
        push_bytes(&mut out, mark.as_bytes());
    }
    push_length(&mut out, summary.mentions.len());
    for mention in &summary.mentions {
        push_bytes(&mut out, mention.as_bytes());
    }
    push_length(&mut out, children.len());
    for child in children {
        out.extend_from_slice(child.as_bytes());
    }
    out
}

/// Reads a summary back.
///
/// # Errors
/// When the bytes are not what [`encode_summary`] writes.
pub fn decode_summary(canon: &[u8]) -> Result<Summary, CanonError> {
    let mut cursor = Cursor::begin(canon, "canonical bytes of a summary", SUMMARY)?;
    let too_large = |cursor: &Cursor<'_>| cursor.damaged("a number is too large");
    let depth = u16::try_from(cursor.varint()?).map_err(|_| too_large(&cursor))?;
    let level = u8::try_from(cursor.varint()?).ok().and_then(Level::from_number);
    let level = level.ok_or_else(|| cursor.damaged("there is no such level"))?;
    let prompt_version = u32::try_from(cursor.varint()?).map_err(|_| too_large(&cursor))?;
    let source_tokens = cursor.varint()?;
    let own_tokens = u32::try_from(cursor.varint()?).map_err(|_| too_large(&cursor))?;
    let span_ms = (unzigzag(cursor.varint()?), unzigzag(cursor.varint()?));
    let model = cursor.text()?.to_owned();
    let text = cursor.text()?.to_owned();
    let mut marks: Vec<String> = Vec::new();
    for _ in 0..cursor.count(1)? {
        marks.push(cursor.text()?.to_owned());
    }
    if !marks.is_sorted() {
        return Err(cursor.damaged("marks are not in order"));
    }
    let mut mentions = Vec::new();
    for _ in 0..cursor.count(1)? {
        mentions.push(cursor.text()?.to_owned());
    }
    let count = cursor.count(32)?;
    let mut children = Vec::with_capacity(count);
    for _ in 0..count {
        children.push(NodeId::from_bytes(cursor.hash()?));
    }
    cursor.end()?;
    let mut summary = Summary::new(SummaryParts { text, children, depth, span_ms })?;
    summary.source_tokens = source_tokens;
    summary.own_tokens = own_tokens;
    summary.level = level;
    summary.model = model;
    summary.prompt_version = prompt_version;
    summary.marks = marks;
    summary.mentions = mentions;
    Ok(summary)
}

/// Small numbers of either sign to small numbers without one: 0, -1, 1, -2 become 0, 1, 2, 3.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    //! That a message comes back as it was said, that its id depends on what it says and on nothing else, and that
    //! a reader takes exactly the bytes that the writer makes.
    //! Method: random messages, and random damage to what they are stored as; the vectors of `docs/format.md`.

    use proptest::prelude::*;

    use super::*;
    use crate::json::tests::{any_entries, any_json, any_string};
    use crate::message::Message;

    fn encoded(json: &Json) -> EncodedMessage {
        Message::from_json(json.clone()).unwrap().encode().unwrap()
    }

    fn encoded_text(text: &str) -> EncodedMessage {
        encoded(&Json::parse(text.as_bytes()).expect(text))
    }

    fn decoded(message: &EncodedMessage) -> Result<Json, CanonError> {
        decode(&message.stored(&message.body_slices()))
    }

    fn any_message() -> impl Strategy<Value = Json> {
        any_entries(any_json()).prop_map(Json::Object)
    }

    /// Turns the keys of every object round, those that occur twice kept in their order.
    fn turned_round(json: &Json) -> Json {
        match json {
            Json::Array(elements) => Json::Array(elements.iter().map(turned_round).collect()),
            Json::Object(entries) => {
                let mut turned: Vec<_> = entries.iter().map(|(k, v)| (k.clone(), turned_round(v))).collect();
                turned.sort_by(|(a, _), (b, _)| b.cmp(a));
                Json::Object(turned)
            }
            leaf => leaf.clone(),
        }
    }

    /// Changes the `n`th leaf or key, counted from 0; whether there was one.
    fn change(json: &mut Json, n: &mut usize) -> bool {
        match json {
            Json::Array(elements) if !elements.is_empty() => {
                elements.iter_mut().any(|element| change(element, n))
            }
            Json::Object(entries) if !entries.is_empty() => entries.iter_mut().any(|(key, value)| {
                if *n == 0 {
                    key.push(&"x".into());
                    return true;
                }
                *n -= 1;
                change(value, n)
            }),
            leaf => {
                if *n > 0 {
                    *n -= 1;
                    return false;
                }
                *leaf = match &*leaf {
                    Json::Null => Json::Bool(false),
                    Json::Bool(value) => Json::Bool(!value),
                    Json::Number(literal) => Json::Number(if **literal == *"7" { "8" } else { "7" }.into()),
                    Json::String(text) => {
                        let mut text = text.clone();
                        text.push(&"x".into());
                        Json::String(text)
                    }
                    Json::Array(_) => Json::Object(Vec::new()),
                    Json::Object(_) => Json::Array(Vec::new()),
                };
                true
            }
        }
    }

    proptest! {
        #[test]
        fn a_message_comes_back_as_it_was_said(json in any_message()) {
            let message = encoded(&json);
            let bodies = message.body_slices();
            let stored = message.stored(&bodies);
            prop_assert_eq!(decode(&stored), Ok(json.clone()));
            let mut text = b"before".to_vec();
            write_json(&stored, &mut text).unwrap();
            prop_assert_eq!(&text[6..], json.to_text());
            prop_assert_eq!(stored.check(&message.id), Ok(()));
        }

        #[test]
        fn the_order_of_keys_does_not_change_what_is_hashed(json in any_message()) {
            let (one, other) = (encoded(&json), encoded(&turned_round(&json)));
            prop_assert_eq!((one.id, one.canon, one.bodies), (other.id, other.canon, other.bodies));
        }

        #[test]
        fn any_change_of_a_key_or_value_changes_the_id(json in any_message(), at in any::<prop::sample::Index>()) {
            let mut rest = usize::MAX;
            change(&mut json.clone(), &mut rest);
            let mut n = at.index((usize::MAX - rest).max(1));
            let mut changed = json.clone();
            if change(&mut changed, &mut n) && changed.as_object().is_some() {
                prop_assert_ne!(encoded(&json).id, encoded(&changed).id);
            }
        }

        #[test]
        fn the_bodies_named_are_those_kept_and_none_is_short(json in any_message()) {
            let message = encoded(&json);
            let named = body_refs(&message.canon).unwrap();
            let kept: Vec<BodyRef> = message.bodies.iter()
                .map(|body| BodyRef { id: body_id(&body.bytes), len: u64::try_from(body.bytes.len() - 2).unwrap() })
                .collect();
            prop_assert_eq!(named, kept);
            prop_assert!(message.bodies.iter().all(|body| body.bytes.len() >= 2 + CONTENT_BODY_BYTES_MIN));
        }

        /// The property that makes an id mean something: no two byte strings are read as one message.
        #[test]
        fn what_a_reader_takes_is_what_the_writer_makes(
            json in any_message(),
            damage in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..2, prop::collection::vec(any::<u8>(), 0..2)), 0..3),
        ) {
            let mut message = encoded(&json);
            for (at, cut, insert) in damage {
                let start = at.index(message.canon.len() + 1);
                let end = message.canon.len().min(start + cut);
                message.canon.splice(start..end, insert);
            }
            message.id = message_id(&message.canon);
            if let Ok(json) = decoded(&message)
                && message.stored(&message.body_slices()).check(&message.id).is_ok()
            {
                let again = encoded(&json);
                prop_assert_eq!((message.id, message.canon, message.bodies), (again.id, again.canon, again.bodies));
            }
        }

        #[test]
        fn a_damaged_key_order_is_refused_or_moves_keys_only(
            json in any_message(),
            order in prop::collection::vec(prop_oneof![8 => 0_u8..4, 1 => any::<u8>()], 0..12),
        ) {
            let mut message = encoded(&json);
            message.order = order;
            if let Ok(json) = decoded(&message) {
                prop_assert_eq!(encoded(&json).id, message.id);
            }
        }

        #[test]
        fn no_bytes_make_a_reader_panic(
            mut canon in prop::collection::vec(prop_oneof![1 => any::<u8>(), 2 => prop::sample::select(b"ntf#s[{b\x00\x01\x02\x03".to_vec())], 0..80),
            order in prop::collection::vec(any::<u8>(), 0..8),
            body in prop::collection::vec(any::<u8>(), 0..8),
            head in prop::sample::select(vec![b"M\x01{\x01".to_vec(), b"S\x01\x01\x01".to_vec(), b"M\x01".to_vec(), Vec::new()]),
        ) {
            canon.splice(0..0, head);
            let stored = StoredMessage { canon: &canon, order: &order, bodies: &[&body] };
            let alone = StoredMessage { bodies: &[], ..stored };
            if stored.tree().is_ok() || alone.tree().is_ok() {
                prop_assert!(body_refs(&canon).is_ok() && outline(&canon).is_ok());
            }
            if let Ok(summary) = decode_summary(&canon) {
                prop_assert_eq!(encode_summary(&summary), canon);
            }
        }

        #[test]
        fn the_outline_says_what_the_whole_message_says(json in any_message(), names in prop::collection::vec(any_string(), 0..3)) {
            let Json::Object(mut entries) = json else { unreachable!("made as an object") };
            let function = |name: &JsonString| Json::object([("function", Json::object([("name", Json::String(name.clone()))]))]);
            entries.push(("tool_calls".into(), Json::Array(names.iter().map(function).collect())));
            entries.push(("content".into(), Json::Null));
            entries.push(("role".into(), "assistant".into()));
            let message = encoded(&Json::Object(entries));
            let outline = outline(&message.canon).unwrap();
            let short: Vec<_> = names.iter().filter(|name| name.len() < OTHER_BODY_BYTES_MIN).map(JsonString::to_str_lossy).collect();
            prop_assert_eq!(outline.role, Role::Assistant);
            prop_assert_eq!(outline.has_calls, !names.is_empty());
            prop_assert_eq!(&outline.tool_names[..short.len()], &short);
        }

        #[test]
        fn a_summary_comes_back_as_it_was_made(
            text in any::<String>(),
            children in prop::collection::vec(any::<[u8; 32]>(), 1..5),
            numbers in (1..u16::MAX, any::<u64>(), any::<u32>(), any::<u32>(), prop::sample::select(Level::ALL.to_vec())),
            span in (any::<i64>(), any::<i64>()),
            mut names in prop::collection::vec(any::<String>(), 0..6),
        ) {
            let children = children.into_iter().map(NodeId::from_bytes).collect();
            let span_ms = (span.0.min(span.1), span.0.max(span.1));
            let mut summary = Summary::new(SummaryParts { text, children, depth: numbers.0, span_ms }).unwrap();
            (_, summary.source_tokens, summary.own_tokens, summary.prompt_version, summary.level) = numbers;
            summary.model = names.pop().unwrap_or_default();
            summary.mentions = names.clone();
            let mut unsorted = summary.clone();
            unsorted.marks = names.clone();
            names.sort();
            summary.marks = names;
            let canon = encode_summary(&summary);
            prop_assert_eq!(decode_summary(&canon), Ok(summary));
            prop_assert_eq!(encode_summary(&unsorted), canon);
        }
    }

    #[test]
    fn a_string_is_a_body_from_its_limit_on() {
        let content = |text: String| encoded(&Json::object([("content", Json::from(text))]));
        let elsewhere = |key: &str, text: String| encoded(&Json::object([(key, Json::from(text))]));
        assert_eq!(content("a".repeat(511)).bodies, []);
        assert_eq!(content("a".repeat(512)).bodies.len(), 1);
        // Bytes count, not characters.
        assert_eq!(content("é".repeat(256)).bodies.len(), 1);
        assert_eq!(elsewhere("reasoning", "a".repeat(4095)).bodies, []);
        assert_eq!(elsewhere("reasoning", "a".repeat(4096)).bodies.len(), 1);
        assert_eq!(elsewhere("role", "a".repeat(5000)).bodies, []);
        // Keys are never bodies, and what is below `content` is so at any depth.
        let long = "k".repeat(9000);
        let deep = encoded_text(&format!(r#"{{"{long}":1,"content":[{{"text":["{}"]}}]}}"#, "b".repeat(600)));
        assert_eq!(deep.bodies.len(), 1);
        assert_eq!(deep.bodies[0].bytes[..4], *b"B\x01bb");
    }

    #[test]
    fn a_body_said_twice_is_kept_once() {
        let long = "x".repeat(600);
        let message = encoded_text(&format!(r#"{{"content":["{long}","{long}y","{long}"]}}"#));
        assert_eq!(message.bodies.len(), 2);
        assert_eq!(
            decoded(&message).unwrap().get("content").and_then(Json::as_array).map(<[Json]>::len),
            Some(3)
        );
    }

    #[test]
    fn many_bodies_keep_their_order() {
        let texts: Vec<Json> = (0..200).map(|n| format!("{:600}", n % 150).into()).collect();
        let json = Json::object([("content", Json::Array(texts))]);
        let message = encoded(&json);
        assert_eq!(message.bodies.len(), 150);
        assert_eq!(decoded(&message), Ok(json));
    }

    /// 33 bytes can name a body of 64 MiB; without a bound a small file would be written out as petabytes.
    #[test]
    fn a_small_message_that_names_a_large_body_very_often_is_refused() {
        let once = encoded(&Json::object([("content", Json::from("x".repeat(1 << 20)))]));
        let reference = &once.canon[once.canon.len() - 36..];
        assert_eq!(reference[0], b'b');
        let mut canon = b"M\x01{\x01\x07content[".to_vec();
        push_length(&mut canon, 100);
        for _ in 0..100 {
            canon.extend_from_slice(reference);
        }
        let bomb = StoredMessage { canon: &canon, order: &[], bodies: &[&once.bodies[0].bytes] };
        let error = bomb.tree().unwrap_err();
        assert!(matches!(
            error,
            CanonError::Damaged { what: "the bodies are longer than a message may be", .. }
        ));
    }

    #[test]
    fn a_message_that_would_be_too_large_is_not_encoded() {
        let content = vec![Json::from("x".repeat(8 << 20)); 8];
        let json = Json::object([("content", Json::Array(content))]);
        let error = Message::from_json(json).unwrap().encode().unwrap_err();
        assert!(matches!(error, MessageError::TooLarge { .. }), "{error}");
    }

    #[test]
    fn the_deepest_message_we_read_can_be_stored_and_read_back() {
        let text = format!("{{\"a\":{}{}}}", "[".repeat(JSON_DEPTH_MAX - 1), "]".repeat(JSON_DEPTH_MAX - 1));
        let message = encoded_text(&text);
        assert_eq!(decoded(&message).unwrap().to_text(), text.as_bytes());
        let mut canon = b"M\x01{\x01\x01a".to_vec();
        canon.extend(b"[\x01".repeat(JSON_DEPTH_MAX + 1));
        canon.push(b'n');
        let too_deep = StoredMessage { canon: &canon, order: &[], bodies: &[] };
        assert!(too_deep.tree().is_err() && body_refs(&canon).is_err() && outline(&canon).is_err());
    }

    /// Readers and writers recurse: the limit of depth must be one that every thread of a host can bear.
    #[test]
    fn the_deepest_message_fits_a_small_stack() {
        let text = format!(
            "{{\"content\":{}{{}}{}}}",
            "[{\"b\":".repeat(JSON_DEPTH_MAX / 2 - 1),
            "}]".repeat(JSON_DEPTH_MAX / 2 - 1)
        );
        let work = move || {
            let message = encoded_text(&text);
            let bodies = message.body_slices();
            let stored = message.stored(&bodies);
            let mut out = Vec::new();
            write_json(&stored, &mut out).unwrap();
            assert_eq!(out, text.as_bytes());
            assert_eq!(decode(&stored).unwrap().to_text(), out);
            body_refs(&message.canon).unwrap();
            outline(&message.canon).unwrap();
        };
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn too_new_damaged_and_missing_are_told_apart() {
        let message = encoded(&Json::object([("content", Json::from("x".repeat(600)))]));
        let missing = StoredMessage { canon: &message.canon, order: &message.order, bodies: &[] };
        assert_eq!(missing.tree().unwrap_err(), CanonError::MissingBody(message.bodies[0].id));
        assert_eq!(missing.check(&message.id), Err(CanonError::MissingBody(message.bodies[0].id)));
        let newer = StoredMessage { canon: b"M\x02whatever", order: &[], bodies: &[] };
        let too_new = newer.tree().unwrap_err();
        assert_eq!(too_new.to_string(), "the canonical bytes have version 2, this program reads version 1");
        let other = StoredMessage { bodies: &[b"B\x01y"], ..missing };
        assert!(matches!(other.check(&message.id), Err(CanonError::WrongBody { .. })));
        assert!(matches!(other.tree(), Err(CanonError::Damaged { part: "bytes of a body", .. })));
        assert!(matches!(other.check(&message_id(b"")), Err(CanonError::WrongMessage { .. })));
        let mut extra = message.body_slices();
        extra.push(b"B\x01y");
        assert!(message.stored(&extra).tree().is_err());
    }

    #[test]
    fn only_the_shortest_form_of_a_number_is_read() {
        let read = |bytes: &[u8]| Cursor::new(bytes, "test").varint();
        assert_eq!(read(b"\x7f"), Ok(127));
        assert_eq!(read(b"\x80\x01"), Ok(128));
        assert!(read(b"\x80\x00").is_err() && read(b"\xff\x80\x00").is_err() && read(b"\x80").is_err());
        let mut most = Vec::new();
        push_varint(&mut most, u64::MAX);
        assert_eq!(read(&most), Ok(u64::MAX));
        most[9] = 2;
        assert!(read(&most).is_err());
        most[9] = 0x81;
        most.push(0);
        assert!(read(&most).is_err());
    }

    #[test]
    fn small_numbers_of_either_sign_stay_small() {
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
        for value in [0, -1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn the_outline_finds_the_calls_of_every_shape() {
        for (text, role, names, has_calls) in [
            (
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"ls","arguments":"{}"}},{"function":{"name":"cat"}}]}"#,
                Role::Assistant,
                vec!["ls", "cat"],
                true,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"text","name":"no","text":"t"},{"type":"tool_use","name":"grep","input":{"name":"no"}}]}"#,
                Role::Assistant,
                vec!["grep"],
                true,
            ),
            (
                r#"{"role":"tool","tool_call_id":"1","name":"ls","content":"out"}"#,
                Role::Tool,
                vec!["ls"],
                false,
            ),
            (
                r#"{"role":"function","name":"ls","tool_name":"lss","content":"out"}"#,
                Role::Tool,
                vec!["lss"],
                false,
            ),
            (r#"{"role":"user","name":"Bob","content":"hi"}"#, Role::User, vec![], false),
            (
                r#"{"role":"assistant","function_call":{"name":"old","arguments":""}}"#,
                Role::Assistant,
                vec!["old"],
                true,
            ),
            (r#"{"role":"assistant","tool_calls":[{}],"tool_calls":[]}"#, Role::Assistant, vec![], false),
            (r#"{"role":"assistant","tool_calls":[{}]}"#, Role::Assistant, vec![], true),
            ("{}", Role::Other, vec![], false),
        ] {
            let message = encoded_text(text);
            let outline = outline(&message.canon).unwrap();
            assert_eq!((outline.role, outline.has_calls), (role, has_calls), "{text}");
            assert_eq!(outline.tool_names, names, "{text}");
        }
    }

    /// A text of the stored examples: a string, or pieces and repetitions put together.
    fn spelled(text: &serde_json::Value) -> String {
        match text {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Array(pieces) => pieces.iter().map(spelled).collect(),
            repeated => {
                let times = usize::try_from(repeated["times"].as_u64().unwrap()).unwrap();
                spelled(&repeated["repeat"]).repeat(times)
            }
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_stored_examples_of_messages_are_reproduced() {
        let examples = include_str!("../../tests/fixtures/canon/messages.json");
        let examples: Vec<serde_json::Value> = serde_json::from_str(examples).unwrap();
        assert!(examples.len() >= 20, "{} examples", examples.len());
        for example in examples {
            let name = &example["name"];
            let text = spelled(&example["json"]);
            let message = encoded_text(&text);
            assert_eq!(hex(&message.canon), spelled(&example["canonical_hex"]), "canonical bytes: {name}");
            assert_eq!(hex(&message.order), spelled(&example["order_hex"]), "key order: {name}");
            assert_eq!(message.id.to_string(), spelled(&example["id"]), "id: {name}");
            let bodies: Vec<_> =
                message.bodies.iter().map(|body| (body.id.to_string(), hex(&body.bytes))).collect();
            let expected: Vec<_> = (example["bodies"].as_array().unwrap().iter())
                .map(|body| (spelled(&body["id"]), spelled(&body["bytes"])))
                .collect();
            assert_eq!(bodies, expected, "bodies: {name}");
            assert_eq!(decoded(&message), Ok(Json::parse(text.as_bytes()).unwrap()), "read back: {name}");
        }
    }

    #[test]
    fn the_stored_examples_of_summaries_are_reproduced() {
        let examples = include_str!("../../tests/fixtures/canon/summaries.json");
        let examples: Vec<serde_json::Value> = serde_json::from_str(examples).unwrap();
        for example in examples {
            let name = &example["name"];
            let fields = &example["summary"];
            let number = |key: &str| fields[key].as_u64().unwrap();
            let texts =
                |key: &str| -> Vec<String> { fields[key].as_array().unwrap().iter().map(spelled).collect() };
            let mut summary = Summary::new(SummaryParts {
                text: spelled(&fields["text"]),
                children: texts("children").iter().map(|id| NodeId::from_hex(id).unwrap()).collect(),
                depth: u16::try_from(number("depth")).unwrap(),
                span_ms: (fields["span_ms"][0].as_i64().unwrap(), fields["span_ms"][1].as_i64().unwrap()),
            })
            .unwrap();
            summary.level = Level::from_number(u8::try_from(number("level")).unwrap()).unwrap();
            summary.prompt_version = u32::try_from(number("prompt_version")).unwrap();
            summary.source_tokens = number("source_tokens");
            summary.own_tokens = u32::try_from(number("own_tokens")).unwrap();
            summary.model = spelled(&fields["model"]);
            summary.marks = texts("marks");
            summary.mentions = texts("mentions");
            let canon = encode_summary(&summary);
            assert_eq!(hex(&canon), spelled(&example["canonical_hex"]), "canonical bytes: {name}");
            assert_eq!(message_id(&canon).to_string(), spelled(&example["id"]), "id: {name}");
            summary.marks.sort();
            assert_eq!(decode_summary(&canon), Ok(summary), "read back: {name}");
        }
    }

    #[test]
    fn summaries_that_contradict_themselves_are_refused() {
        let children = vec![NodeId::from_bytes([7; 32])];
        let parts = SummaryParts { text: "t".into(), children, depth: 1, span_ms: (5, 6) };
        let canon = encode_summary(&Summary::new(parts).unwrap());
        let with = |at: usize, byte: u8| {
            let mut canon = canon.clone();
            canon[at] = byte;
            decode_summary(&canon).unwrap_err()
        };
        assert_eq!(with(2, 0), CanonError::Summary(SummaryError::NoDepth));
        assert!(matches!(with(3, 9), CanonError::Damaged { what: "there is no such level", .. }));
        assert_eq!(with(7, 14), CanonError::Summary(SummaryError::BackwardSpan));
        assert!(matches!(with(1, 3), CanonError::TooNew { version: 3, .. }));
        assert!(matches!(with(0, b'M'), CanonError::Damaged { .. }));
        assert!(decode_summary(&canon[..canon.len() - 1]).is_err());
    }
}
