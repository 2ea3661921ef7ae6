//! JSON as hosts say it: opaque, and given back as it came.
//!
//! A host's message is not ours to interpret, so this value keeps what general JSON libraries drop: number
//! literals as text, the order of keys, keys that occur twice, and unpaired surrogates (a tool that cuts a text
//! in the middle of an emoji leaves one, and it must not stop a session from being saved).
//!
//! Reading is strict RFC 8259, with three concessions to real writers: a leading byte order mark is skipped, the
//! literals `NaN`, `Infinity` and `-Infinity` are numbers (Python writes them), and an escape may name a
//! surrogate alone. What was read is written back as the same value in compact form.
//!
//! Not here: what a message is (`message`), and the bytes that are hashed (`canon`).

use std::borrow::Cow;
use std::fmt;

use crate::limits::JSON_DEPTH_MAX;

/// A JSON value, with everything the text said but its white space and its choice of escapes.
///
/// Two values are equal when they are said equally: `1.0` is not `1`, and the order of keys matters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number literal as it was written. Whoever makes one by hand writes a JSON number;
    /// [`crate::Message::from_json`] refuses anything else.
    Number(Box<str>),
    /// A string.
    String(JsonString),
    /// An array.
    Array(Vec<Json>),
    /// An object: entries in the order they were said, keys that occur twice included.
    Object(Vec<(JsonString, Json)>),
}

/// A JSON string: text that may hold unpaired surrogates.
///
/// Held as WTF-8 (UTF-8 plus the three-byte forms of unpaired surrogates), which is plain UTF-8 for nearly every
/// string. A high surrogate that is followed by a low one is always held as the character they make.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonString(Form);

/// Which form a string has follows from its content alone, so that equal strings are equal values.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    /// Without surrogates.
    Utf8(String),
    /// With at least one.
    Wtf8(Vec<u8>),
}

/// Why a text is no JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct JsonError {
    /// Where in the text, in bytes from its beginning.
    pub offset: usize,
    /// What was wrong there.
    pub kind: JsonErrorKind,
}

/// What was wrong with a text that should have been JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// Something else stands where a value should.
    ExpectedValue,
    /// Something else stands where a key should.
    ExpectedKey,
    /// A key without its colon.
    ExpectedColon,
    /// An element of an array that is not followed by `,` or `]`.
    ExpectedCommaOrBracket,
    /// An entry of an object that is not followed by `,` or `}`.
    ExpectedCommaOrBrace,
    /// The text ends inside a value.
    UnexpectedEnd,
    /// A control character inside a string must be escaped.
    ControlCharacter,
    /// A backslash and a character that make no escape.
    BadEscape,
    /// `\u` without four hex digits.
    BadUnicodeEscape,
    /// Not a JSON number.
    BadNumber,
    /// The bytes are no UTF-8.
    NotUtf8,
    /// More than [`JSON_DEPTH_MAX`] arrays and objects inside each other.
    TooDeep,
    /// Something stands behind the value.
    TrailingText,
}

impl fmt::Display for JsonErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExpectedValue => "expected a value",
            Self::ExpectedKey => "expected a key in double quotes",
            Self::ExpectedColon => "expected ':' behind a key",
            Self::ExpectedCommaOrBracket => "expected ',' or ']'",
            Self::ExpectedCommaOrBrace => "expected ',' or '}'",
            Self::UnexpectedEnd => "the text ends inside a value",
            Self::ControlCharacter => "unescaped control character in a string",
            Self::BadEscape => "unknown escape in a string",
            Self::BadUnicodeEscape => "expected four hex digits of an escape",
            Self::BadNumber => "expected a digit of a number",
            Self::NotUtf8 => "the text is not UTF-8",
            Self::TooDeep => "too many arrays and objects inside each other",
            Self::TrailingText => "unexpected text behind the value",
        })
    }
}

impl Json {
    /// Reads one value from a whole text.
    ///
    /// # Errors
    /// Says what is wrong and where, for any bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        let text = match str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                return Err(JsonError { offset: error.valid_up_to(), kind: JsonErrorKind::NotUtf8 });
            }
        };
        let mut parser = Parser { text, at: 0 };
        if text.starts_with('\u{feff}') {
            parser.at = '\u{feff}'.len_utf8();
        }
        let value = parser.value(0)?;
        parser.skip_white();
        if parser.at < text.len() {
            return Err(parser.error(JsonErrorKind::TrailingText));
        }
        Ok(value)
    }

    /// Appends the value as compact JSON text: no white space, the fewest escapes, UTF-8.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(literal) => out.extend_from_slice(literal.as_bytes()),
            Self::String(string) => string.write(out),
            Self::Array(elements) => {
                out.push(b'[');
                for (i, element) in elements.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    element.write(out);
                }
                out.push(b']');
            }
            Self::Object(entries) => {
                out.push(b'{');
                for (i, (key, value)) in entries.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    key.write(out);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }

    /// The value as compact JSON text.
    #[must_use]
    pub fn to_text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// An object of these entries, in this order.
    #[must_use]
    pub fn object<'a>(entries: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        Self::Object(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// The value under `key`, when this is an object that has it. Of several the last one counts, as in Python
    /// and JavaScript.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        let entries = self.as_object()?;
        entries.iter().rev().find(|(name, _)| name.as_bytes() == key.as_bytes()).map(|(_, value)| value)
    }

    /// The elements of an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The entries of an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&[(JsonString, Self)]> {
        match self {
            Self::Object(entries) => Some(entries),
            _ => None,
        }
    }

    /// The text of a string that has no unpaired surrogate.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(string) => string.as_str(),
            _ => None,
        }
    }

    /// `true` or `false`.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// A number that is written as a whole one and fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(literal) => literal.parse().ok(),
            _ => None,
        }
    }

    /// A number that is written as a whole one, is not negative, and fits.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(literal) => literal.parse().ok(),
            _ => None,
        }
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Number(value.to_string().into())
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Number(value.to_string().into())
    }
}

impl From<u32> for Json {
    fn from(value: u32) -> Self {
        Self::from(u64::from(value))
    }
}

impl JsonString {
    /// The empty string.
    #[must_use]
    pub const fn new() -> Self {
        Self(Form::Utf8(String::new()))
    }

    /// Reads WTF-8; `None` when the bytes are none. Surrogates that make a pair have another form and are refused.
    #[must_use]
    pub fn from_wtf8(bytes: Vec<u8>) -> Option<Self> {
        match String::from_utf8(bytes) {
            Ok(text) => Some(Self(Form::Utf8(text))),
            Err(error) => is_wtf8(error.as_bytes()).then(|| Self(Form::Wtf8(error.into_bytes()))),
        }
    }

    /// The WTF-8 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Form::Utf8(text) => text.as_bytes(),
            Form::Wtf8(bytes) => bytes,
        }
    }

    /// The text, unless it holds an unpaired surrogate. Costs nothing.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Form::Utf8(text) => Some(text),
            Form::Wtf8(_) => None,
        }
    }

    /// The text, with U+FFFD for every unpaired surrogate.
    #[must_use]
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        match &self.0 {
            Form::Utf8(text) => Cow::Borrowed(text),
            Form::Wtf8(bytes) => Cow::Owned(wtf8_to_string_lossy(bytes)),
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// Appends `other`; surrogates that meet and make a pair become the character they make.
    pub fn push(&mut self, other: &Self) {
        if let (Form::Utf8(text), Form::Utf8(more)) = (&mut self.0, &other.0) {
            text.push_str(more);
            return;
        }
        let mut bytes = self.take_bytes();
        let mut tail = other.as_bytes();
        let met = bytes.len().checked_sub(3).and_then(|end| {
            let high = surrogate_at(&bytes[end..]).filter(|code| is_high(*code))?;
            let low = surrogate_at(tail).filter(|code| is_low(*code))?;
            Some((end, joined(high, low)))
        });
        if let Some((end, character)) = met {
            bytes.truncate(end);
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            tail = &tail[3..];
        }
        bytes.extend_from_slice(tail);
        // A pair that met may have been the last surrogates here: then the string is plain text again.
        *self = Self::from_unpaired(bytes);
    }

    fn take_bytes(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.0, Form::Utf8(String::new())) {
            Form::Utf8(text) => text.into_bytes(),
            Form::Wtf8(bytes) => bytes,
        }
    }

    /// Appends the string in quotes.
    fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Form::Utf8(text) => write_utf8(text.as_bytes(), out),
            Form::Wtf8(bytes) => write_wtf8(bytes, out),
        }
    }

    /// A string of WTF-8 that has no pairs.
    fn from_unpaired(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self(Form::Utf8(text)),
            Err(error) => Self(Form::Wtf8(error.into_bytes())),
        }
    }
}

impl Default for JsonString {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&str> for JsonString {
    fn from(text: &str) -> Self {
        Self(Form::Utf8(text.to_owned()))
    }
}

impl From<String> for JsonString {
    fn from(text: String) -> Self {
        Self(Form::Utf8(text))
    }
}

impl PartialOrd for JsonString {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for JsonString {
    /// By bytes: the order of keys in canonical bytes.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Debug for JsonString {
    /// As JSON text, so that a surrogate can be seen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        self.write(&mut out);
        f.write_str(&String::from_utf8_lossy(&out))
    }
}

/// Writes a string in quotes that has no surrogates.
pub(crate) fn write_utf8(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    write_escaped(text, out);
    out.push(b'"');
}

/// Writes a string in quotes that holds unpaired surrogates; anything that is no WTF-8 becomes U+FFFD.
pub(crate) fn write_wtf8(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for piece in pieces(bytes) {
        match piece {
            Piece::Text(text) => write_escaped(text.as_bytes(), out),
            Piece::Surrogate(code) => {
                out.extend_from_slice(b"\\u");
                out.extend([12, 8, 4, 0].map(|shift| hex_digit(code >> shift)));
            }
            Piece::Bad => out.extend_from_slice("\u{fffd}".as_bytes()),
        }
    }
    out.push(b'"');
}

fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    loop {
        let (plain, tail) = rest.split_at(plain_run(rest));
        out.extend_from_slice(plain);
        let Some((&special, behind)) = tail.split_first() else { return };
        write_escape(special, out);
        rest = behind;
    }
}

#[inline]
fn write_escape(special: u8, out: &mut Vec<u8>) {
    match special {
        b'\n' => out.extend_from_slice(b"\\n"),
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'\r' => out.extend_from_slice(b"\\r"),
        0x08 => out.extend_from_slice(b"\\b"),
        0x0c => out.extend_from_slice(b"\\f"),
        control => {
            out.extend_from_slice(b"\\u00");
            out.extend([control >> 4, control].map(|code| hex_digit(u16::from(code))));
        }
    }
}

/// The lower-case hex digit of the lowest four bits.
fn hex_digit(code: u16) -> u8 {
    b"0123456789abcdef"[usize::from(code & 15)]
}

/// Whether a string cannot hold the byte as it is: a quote, a backslash, or a control character.
const fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// How many bytes stand before the first special one.
///
/// The first words are looked at one by one: code and tool output have something special every few dozen bytes, and
/// then a whole block would be looked at in vain. Behind them it is probably a long run, as in base64.
fn plain_run(bytes: &[u8]) -> usize {
    const WORDS_FIRST: usize = 4;
    const BLOCK: usize = 32;
    let mut rest = bytes;
    for _ in 0..WORDS_FIRST {
        let Some((word, behind)) = rest.split_first_chunk() else { break };
        let plain = plain_in_word(*word);
        if plain < 8 {
            return bytes.len() - rest.len() + plain;
        }
        rest = behind;
    }
    while let Some((block, behind)) = rest.split_first_chunk::<BLOCK>()
        && is_plain(block)
    {
        rest = behind;
    }
    while let Some((word, behind)) = rest.split_first_chunk() {
        let plain = plain_in_word(*word);
        if plain < 8 {
            return bytes.len() - rest.len() + plain;
        }
        rest = behind;
    }
    bytes.len() - rest.len() + rest.iter().take_while(|byte| !is_special(**byte)).count()
}

/// Whether nothing special is in the block.
fn is_plain<const N: usize>(block: &[u8; N]) -> bool {
    // Without a branch, so that the compiler makes vectors of it.
    block.iter().fold(0, |special, &byte| {
        special | u8::from(byte < 0x20) | u8::from(byte == b'"') | u8::from(byte == b'\\')
    }) == 0
}

/// How many of eight bytes stand before the first special one.
fn plain_in_word(word: [u8; 8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let word = u64::from_le_bytes(word);
    let quote = word ^ (ONES * 0x22);
    let backslash = word ^ (ONES * 0x5c);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let hits = (quote.wrapping_sub(ONES) & !quote) | (backslash.wrapping_sub(ONES) & !backslash) | control;
    // A borrow can mark bytes above a hit that are none, never the lowest one.
    let hits = hits & (ONES << 7);
    usize::try_from(hits.trailing_zeros() / 8).unwrap_or(0)
}

/// One step through bytes that should be WTF-8.
enum Piece<'a> {
    Text(&'a str),
    Surrogate(u16),
    Bad,
}

/// Takes WTF-8 apart into text and surrogates.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let text = rest.utf8_chunks().next()?.valid();
        if !text.is_empty() {
            rest = &rest[text.len()..];
            return Some(Piece::Text(text));
        }
        if let Some(code) = surrogate_at(rest) {
            rest = &rest[3..];
            return Some(Piece::Surrogate(code));
        }
        rest = &rest[1..];
        Some(Piece::Bad)
    })
}

/// Whether the bytes are WTF-8 without pairs. For bytes that are known not to be UTF-8; slow for those that are.
pub(crate) fn is_wtf8(bytes: &[u8]) -> bool {
    let mut high_before = false;
    pieces(bytes).all(|piece| match piece {
        Piece::Text(_) => {
            high_before = false;
            true
        }
        Piece::Surrogate(code) => {
            let pair = high_before && is_low(code);
            high_before = is_high(code);
            !pair
        }
        Piece::Bad => false,
    })
}

/// The text of WTF-8, with U+FFFD for every surrogate.
pub(crate) fn wtf8_to_string_lossy(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for piece in pieces(bytes) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Surrogate(_) | Piece::Bad => out.push('\u{fffd}'),
        }
    }
    out
}

/// The surrogate whose three-byte form the bytes begin with.
fn surrogate_at(bytes: &[u8]) -> Option<u16> {
    match bytes {
        [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ..] => {
            Some(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f))
        }
        _ => None,
    }
}

fn surrogate_bytes(code: u16) -> [u8; 3] {
    let [high, low] = code.to_be_bytes();
    [0xed, 0x80 | (high & 0x0f) << 2 | low >> 6, 0x80 | low & 0x3f]
}

fn is_high(code: u16) -> bool {
    (0xd800..0xdc00).contains(&code)
}

fn is_low(code: u16) -> bool {
    (0xdc00..0xe000).contains(&code)
}

/// The character that a high and a low surrogate make.
fn joined(high: u16, low: u16) -> char {
    let code = 0x1_0000 + (u32::from(high & 0x3ff) << 10) + u32::from(low & 0x3ff);
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Whether this is a number literal that we read.
pub(crate) fn is_number(literal: &[u8]) -> bool {
    number_end(literal) == Ok(literal.len())
}

/// Where the number ends that the bytes begin with; else where it goes wrong.
fn number_end(bytes: &[u8]) -> Result<usize, usize> {
    let digits = |from: usize| {
        let count = bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        if count == 0 { Err(from) } else { Ok(from + count) }
    };
    if bytes.starts_with(b"NaN") {
        return Ok(3);
    }
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    if bytes[at..].starts_with(b"Infinity") {
        return Ok(at + 8);
    }
    at = if bytes.get(at) == Some(&b'0') { at + 1 } else { digits(at)? };
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        at = digits(at + usize::from(matches!(bytes.get(at), Some(b'+' | b'-'))))?;
    }
    Ok(at)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn error(&self, kind: JsonErrorKind) -> JsonError {
        self.error_at(self.at, kind)
    }

    /// An error; where nothing is left to be wrong, it is the end that came too early.
    fn error_at(&self, offset: usize, kind: JsonErrorKind) -> JsonError {
        if offset >= self.text.len() {
            return JsonError { offset: self.text.len(), kind: JsonErrorKind::UnexpectedEnd };
        }
        JsonError { offset, kind }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_white(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes `wanted` when it stands here.
    fn took(&mut self, wanted: u8) -> bool {
        let stands = self.peek() == Some(wanted);
        self.at += usize::from(stands);
        stands
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.skip_white();
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                self.string().map(Json::String)
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => self.number(),
            Some(b't') => self.literal("true", Json::Bool(true)),
            Some(b'f') => self.literal("false", Json::Bool(false)),
            Some(b'n') => self.literal("null", Json::Null),
            _ => Err(self.error(JsonErrorKind::ExpectedValue)),
        }
    }

    fn literal(&mut self, word: &str, value: Json) -> Result<Json, JsonError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error(JsonErrorKind::ExpectedValue));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        match number_end(&self.text.as_bytes()[start..]) {
            Ok(length) => {
                self.at += length;
                Ok(Json::Number(self.text[start..self.at].into()))
            }
            // A word that only begins like `NaN` or `Infinity` is no number gone wrong.
            Err(0) => Err(self.error(JsonErrorKind::ExpectedValue)),
            Err(length) => Err(self.error_at(start + length, JsonErrorKind::BadNumber)),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.enter(depth)?;
        let mut elements = Vec::new();
        self.skip_white();
        if self.took(b']') {
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            self.skip_white();
            if self.took(b']') {
                return Ok(Json::Array(elements));
            }
            if !self.took(b',') {
                return Err(self.error(JsonErrorKind::ExpectedCommaOrBracket));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.enter(depth)?;
        let mut entries = Vec::new();
        self.skip_white();
        if self.took(b'}') {
            return Ok(Json::Object(entries));
        }
        loop {
            self.skip_white();
            if !self.took(b'"') {
                return Err(self.error(JsonErrorKind::ExpectedKey));
            }
            let key = self.string()?;
            self.skip_white();
            if !self.took(b':') {
                return Err(self.error(JsonErrorKind::ExpectedColon));
            }
            entries.push((key, self.value(depth + 1)?));
            self.skip_white();
            if self.took(b'}') {
                return Ok(Json::Object(entries));
            }
            if !self.took(b',') {
                return Err(self.error(JsonErrorKind::ExpectedCommaOrBrace));
            }
        }
    }

    /// Steps over an opening bracket, unless that would be one too many.
    fn enter(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth >= JSON_DEPTH_MAX {
            return Err(self.error(JsonErrorKind::TooDeep));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads a string whose opening quote was taken.
    fn string(&mut self) -> Result<JsonString, JsonError> {
        let start = self.at;
        self.at += plain_run(&self.text.as_bytes()[start..]);
        // What ends a plain run is ASCII, so both cuts lie between characters.
        let plain = &self.text[start..self.at];
        if self.took(b'"') {
            return Ok(plain.into());
        }
        // Text with one escape usually has more: leave room for as much again.
        let mut string = Vec::with_capacity(plain.len() * 2 + 64);
        string.extend_from_slice(plain.as_bytes());
        loop {
            if self.took(b'"') {
                return Ok(JsonString::from_unpaired(string));
            }
            if !self.took(b'\\') {
                return Err(self.error(JsonErrorKind::ControlCharacter));
            }
            self.escape(&mut string)?;
            let start = self.at;
            self.at += plain_run(&self.text.as_bytes()[start..]);
            string.extend_from_slice(&self.text.as_bytes()[start..self.at]);
        }
    }

    /// Reads an escape whose backslash was taken.
    fn escape(&mut self, string: &mut Vec<u8>) -> Result<(), JsonError> {
        let byte = match self.peek() {
            Some(b'n') => b'\n',
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape(string);
            }
            _ => return Err(self.error(JsonErrorKind::BadEscape)),
        };
        self.at += 1;
        string.push(byte);
        Ok(())
    }

    /// Reads the digits of a `\u` escape, and those of a second one that makes a pair with it.
    fn unicode_escape(&mut self, string: &mut Vec<u8>) -> Result<(), JsonError> {
        let code = self.four_digits()?;
        let mut character = char::from_u32(u32::from(code));
        if character.is_none() && is_high(code) && self.text.as_bytes()[self.at..].starts_with(b"\\u") {
            let behind = self.at;
            self.at += 2;
            let low = self.four_digits()?;
            if is_low(low) {
                character = Some(joined(code, low));
            } else {
                self.at = behind;
            }
        }
        match character {
            Some(character) => string.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            None => string.extend_from_slice(&surrogate_bytes(code)),
        }
        Ok(())
    }

    fn four_digits(&mut self) -> Result<u16, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = match self.peek() {
                Some(digit @ b'0'..=b'9') => digit - b'0',
                Some(digit @ b'a'..=b'f') => digit - b'a' + 10,
                Some(digit @ b'A'..=b'F') => digit - b'A' + 10,
                _ => return Err(self.error(JsonErrorKind::BadUnicodeEscape)),
            };
            code = code << 4 | u16::from(digit);
            self.at += 1;
        }
        Ok(code)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    //! That a text is read as it was said and written as it was read, and that anything else is refused in words.
    //! Method: examples, and random values and texts against `serde_json`, apart from what the module says we
    //! read beyond it.

    use proptest::prelude::*;

    use super::*;

    /// The string of UTF-16 code units, surrogates and all.
    pub(crate) fn from_units(units: &[u16]) -> JsonString {
        let mut string = JsonString::new();
        for unit in char::decode_utf16(units.iter().copied()) {
            string.push(&match unit {
                Ok(character) => character.to_string().into(),
                Err(error) => JsonString::from_unpaired(surrogate_bytes(error.unpaired_surrogate()).to_vec()),
            });
        }
        string
    }

    /// Strings of all kinds that matter here: plain, with escapes, with surrogates, as long as a body.
    pub(crate) fn any_string() -> impl Strategy<Value = JsonString> {
        let unit = prop_oneof![
            8 => 0x20_u16..0x7f,
            2 => 0_u16..0x20,
            1 => Just(u16::from(b'"')),
            1 => Just(u16::from(b'\\')),
            2 => 0xd800_u16..0xe000,
            2 => any::<u16>(),
        ];
        prop_oneof![
            4 => "[a-z]{0,3}".prop_map(JsonString::from),
            2 => any::<String>().prop_map(JsonString::from),
            4 => prop::collection::vec(unit, 0..40).prop_map(|units| from_units(&units)),
            1 => ("[a-zé]", prop::sample::select(vec![255_usize, 256, 511, 512, 4095, 4096]))
                .prop_map(|(text, times)| text.repeat(times).into()),
        ]
    }

    fn any_number() -> impl Strategy<Value = Box<str>> {
        prop_oneof![
            8 => "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,10})?([eE][+-]?[0-9]{1,2})?".prop_map(Into::into),
            1 => prop::sample::select(vec!["NaN", "Infinity", "-Infinity", "-0", "1e999"]).prop_map(Into::into),
        ]
    }

    /// Any value; keys are few, so that some occur twice.
    pub(crate) fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            any_number().prop_map(Json::Number),
            any_string().prop_map(Json::String),
        ];
        leaf.prop_recursive(6, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Json::Array),
                any_entries(inner).prop_map(Json::Object),
            ]
        })
    }

    pub(crate) fn any_entries(
        value: impl Strategy<Value = Json>,
    ) -> impl Strategy<Value = Vec<(JsonString, Json)>> {
        let key = prop_oneof![
            1 => prop::sample::select(vec!["content", "role", "tool_calls", "type", "text", "name", "id", "a", "b"])
                .prop_map(JsonString::from),
            1 => any_string(),
        ];
        prop::collection::vec((key, value), 0..8)
    }

    /// What `serde_json` cannot say: it holds no surrogates, no such numbers, and not as much depth.
    fn is_beyond_serde(text: &[u8]) -> bool {
        let text = String::from_utf8_lossy(text).to_lowercase();
        let error = serde_json::from_str::<serde_json::Value>(&text).err().map(|error| error.to_string());
        text.contains("\\ud")
            || text.contains("nan")
            || text.contains("infinity")
            || text.starts_with('\u{feff}')
            || error.is_some_and(|error| error.contains("out of range") || error.contains("recursion"))
    }

    fn agree(text: &[u8]) -> Result<(), TestCaseError> {
        let ours = Json::parse(text);
        let theirs = serde_json::from_slice::<serde_json::Value>(text);
        match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) => {
                let read = serde_json::from_slice::<serde_json::Value>(&ours.to_text());
                prop_assert_eq!(&read.unwrap(), theirs);
            }
            (Err(error), Err(_)) => prop_assert!(error.offset <= text.len()),
            _ => prop_assert!(is_beyond_serde(text), "ours: {:?}, theirs: {:?}", ours, theirs),
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_equal(json in any_json()) {
            prop_assert_eq!(Json::parse(&json.to_text()), Ok(json));
        }

        #[test]
        fn we_agree_with_serde_on_texts_that_are_nearly_json(
            json in any_json(),
            at in any::<prop::sample::Index>(),
            cut in 0_usize..3,
            insert in prop_oneof![Just(Vec::new()), "[\\[\\]{},:\"\\\\0-9eE+.truefalsn \\x00-\\x1f-]{1,2}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 1..4)],
        ) {
            let mut text = json.to_text();
            let start = at.index(text.len() + 1);
            let end = text.len().min(start + cut);
            text.splice(start..end, insert);
            agree(&text)?;
        }

        #[test]
        fn we_agree_with_serde_on_soups_of_tokens(tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\\u0041\"", "\"\\x\"", "\"", "1", "-", "01", "1.", "1e5", ".5", "-0", "true", "nul",
            "null", " ", "\n", "\u{a0}", "é", "\"é\"", "\\",
        ]), 0..12)) {
            agree(tokens.concat().as_bytes())?;
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            agree(&bytes)?;
        }

        #[test]
        fn plain_runs_end_where_a_byte_by_byte_look_says(bytes in prop::collection::vec(prop_oneof![20 => 0x20_u8..0x80, 1 => any::<u8>()], 0..200)) {
            let slow = bytes.iter().take_while(|byte| !is_special(**byte)).count();
            prop_assert_eq!(plain_run(&bytes), slow);
        }

        #[test]
        fn strings_are_joined_as_their_code_units_are(a in prop::collection::vec(any::<u16>(), 0..6), b in prop::collection::vec(0xd700_u16..0xe100, 0..6)) {
            let mut joined = from_units(&a);
            joined.push(&from_units(&b));
            prop_assert_eq!(&joined, &from_units(&[a, b].concat()));
            prop_assert_eq!(JsonString::from_wtf8(joined.as_bytes().to_vec()), Some(joined));
        }
    }

    fn rewritten(text: &str) -> String {
        String::from_utf8(Json::parse(text.as_bytes()).expect(text).to_text()).expect(text)
    }

    #[test]
    fn literals_key_order_and_repeated_keys_stay_as_they_were_said() {
        for text in [
            r#"{"b":1.0,"a":1,"b":-0,"c":1E+2,"":123456789012345678901234567890}"#,
            "[NaN,Infinity,-Infinity,0.10]",
            r#""\ud83d""#,
            r#""\udc00\ud83d""#,
            "\"\u{1f600} \u{fffd} \u{7f}\"",
            r#""\u0000\u001f\b\f\n\r\t\"\\/""#,
            "[[],{},[[]],[{}]]",
            "null",
        ] {
            assert_eq!(rewritten(text), text);
        }
    }

    #[test]
    fn escapes_are_written_in_one_way_only() {
        assert_eq!(rewritten(r#" [ "\u0041\/\u00e9" , "\ud83d\uDE00" ] "#), "[\"A/é\",\"😀\"]");
        assert_eq!(rewritten("\u{feff}{ \"a\" :\t1 }\r\n"), r#"{"a":1}"#);
        assert_eq!(rewritten(r#""\u0008\u000c\u000a\u001b""#), r#""\b\f\n\u001b""#);
    }

    #[test]
    fn a_surrogate_is_lossy_as_text_and_kept_as_bytes() {
        let Ok(Json::String(string)) = Json::parse(r#""a\ud83db""#.as_bytes()) else { panic!("no string") };
        assert_eq!(string.as_str(), None);
        assert_eq!(string.to_str_lossy(), "a\u{fffd}b");
        assert_eq!(string.as_bytes(), b"a\xed\xa0\xbdb");
        assert_eq!(format!("{string:?}"), r#""a\ud83db""#);
    }

    #[test]
    fn bytes_that_are_no_wtf8_make_no_string() {
        for bytes in [
            &b"\xff"[..],
            b"\xed\xa0",
            b"\xed\xa0\xbd\xed\xb8\x80",
            b"a\xc3",
            b"\xf5\x80\x80\x80",
            b"\xc0\x80",
        ] {
            assert_eq!(JsonString::from_wtf8(bytes.to_vec()), None, "{bytes:x?}");
        }
        for bytes in [
            &b""[..],
            "é😀".as_bytes(),
            b"\xed\xb8\x80\xed\xa0\xbd",
            b"\xed\xa0\xbd\xed\xa0\xbd",
            b"\xed\xa0\xbd-\xed\xb8\x80",
        ] {
            assert!(JsonString::from_wtf8(bytes.to_vec()).is_some(), "{bytes:x?}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_where() {
        for (text, message) in [
            ("", "the text ends inside a value at byte 0"),
            ("{\"a\": }", "expected a value at byte 6"),
            ("{\"a\" 1}", "expected ':' behind a key at byte 5"),
            ("{a: 1}", "expected a key in double quotes at byte 1"),
            ("{\"a\": 1,}", "expected a key in double quotes at byte 8"),
            ("[1 2]", "expected ',' or ']' at byte 3"),
            ("{\"a\":1 2}", "expected ',' or '}' at byte 7"),
            ("[1, 2", "the text ends inside a value at byte 5"),
            ("\"abc", "the text ends inside a value at byte 4"),
            ("\"a\nb\"", "unescaped control character in a string at byte 2"),
            ("\"\\q\"", "unknown escape in a string at byte 2"),
            ("\"\\u00g0\"", "expected four hex digits of an escape at byte 5"),
            ("[-]", "expected a digit of a number at byte 2"),
            ("[1.]", "expected a digit of a number at byte 3"),
            ("[Nothing]", "expected a value at byte 1"),
            ("[trye]", "expected a value at byte 1"),
            ("01", "unexpected text behind the value at byte 1"),
            ("{} {}", "unexpected text behind the value at byte 3"),
        ] {
            assert_eq!(Json::parse(text.as_bytes()).unwrap_err().to_string(), message, "{text}");
        }
        let not_utf8 = Json::parse(b"\"ab\xff\"").unwrap_err();
        assert_eq!(not_utf8.to_string(), "the text is not UTF-8 at byte 3");
    }

    #[test]
    fn nesting_has_a_limit_that_is_reached_and_not_passed() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Json::parse(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
        let error = Json::parse(nested(JSON_DEPTH_MAX + 1).as_bytes()).unwrap_err();
        assert_eq!(error, JsonError { offset: JSON_DEPTH_MAX, kind: JsonErrorKind::TooDeep });
        assert!(Json::parse("[".repeat(1 << 20).as_bytes()).is_err());
    }

    #[test]
    fn of_keys_that_occur_twice_the_last_one_counts() {
        let json = Json::parse(br#"{"a":1,"b":2,"a":3}"#).unwrap();
        assert_eq!(json.get("a").and_then(Json::as_u64), Some(3));
        assert_eq!(json.get("c"), None);
        assert_eq!(Json::Null.get("a"), None);
    }

    #[test]
    fn numbers_are_read_when_they_are_whole_and_fit() {
        let number = |literal: &str| Json::Number(literal.into());
        assert_eq!(number("18446744073709551615").as_u64(), Some(u64::MAX));
        assert_eq!(number("-5").as_i64(), Some(-5));
        for literal in ["18446744073709551616", "-5", "1.0", "1e3", "NaN"] {
            assert_eq!(number(literal).as_u64(), None, "{literal}");
        }
    }
}
