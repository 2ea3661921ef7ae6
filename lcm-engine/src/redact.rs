//! Redaction: what looks like a secret is replaced before anything is written.
//!
//! Off unless an engine is given a [`Redactor`]. Then it stands before every way in: a message is redacted first and
//! gets its id afterwards, so a secret is in no table, no index, no op, and the same list shown again, secret and
//! all, is known. What was kept before stays as it was, and what is replaced is gone: there is no way back, and the
//! mark `[redacted:NAME]` says which pattern it was and nothing else.
//!
//! Invariants, both tested: what comes out matches no pattern outside of marks, so redacting it again changes nothing;
//! and what makes a message work (roles, ids and types of calls, names of tools, keys) is as it was, so a call and its
//! result still belong together. A text that is JSON, as the arguments of a call are, is JSON afterwards.
//!
//! Matching is linear in the text: one automaton of all patterns says whether anything is there at all.
//! Summaries are written from what is kept, and redacted all the same: a model can say more than it was told.
//! Not here: which patterns are wanted (settings), and taking messages in (`ingest`, `turn`).

mod built_in;

use std::borrow::Cow;
use std::ops::Range;

use lcm_core::{Json, JsonString, Message};
use rayon::prelude::*;
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

pub use self::built_in::BUILT_IN;
use self::built_in::{SecretKeys, is_placeholder};
use crate::error::EngineError;
use crate::hosts::{Incoming, IncomingMessage};

/// Own patterns of one redactor: each is searched for in every text.
pub const OWN_PATTERNS_MAX: usize = 64;
/// The text of an own pattern.
pub const PATTERN_BYTES_MAX: usize = 4096;
/// The name of an own pattern: it stands in every mark.
pub const PATTERN_NAME_MAX: usize = 64;
/// What an own pattern may take when it is compiled. `\d{1000}` fits, `\w{1000}` does not.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// The same for all patterns together.
const COMPILED_ALL_MAX: usize = 64 << 20;
/// States of the automaton that are kept; beyond, they are made again, which is slower.
const STATES_BYTES_MAX: usize = 16 << 20;
/// Matches in one text. A text with more is full of secrets, or the pattern matches everything: it is replaced whole.
const MATCHES_MAX: usize = 10_000;
/// How often a text is looked at again: what replaced a secret can be what another pattern waits for. Then all of it
/// is replaced.
const ROUNDS_MAX: usize = 8;
/// JSON inside a string inside JSON: arguments of a call that hold a request hold three. Deeper it is text.
const LEVELS_MAX: u32 = 4;
/// Messages from which on a list is spread over the cores.
const PARALLEL_MIN: usize = 64;

/// Keys of a message, of its calls and of its parts whose texts hold it together. A secret is never said there; a
/// signature is not the host's to change.
const FRAME_KEYS: [&[u8]; 8] =
    [b"role", b"type", b"id", b"name", b"tool_call_id", b"tool_use_id", b"call_id", b"signature"];
/// Keys under which the frame goes on; under all others stands what somebody said.
const FRAME_PARTS: [&[u8]; 5] = [b"content", b"tool_calls", b"function", b"function_call", b"reasoning_details"];

/// A pattern of one's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPattern {
    /// What stands in the mark: `a-z`, `0-9`, `_` and `-`, at most [`PATTERN_NAME_MAX`], no name that is built in.
    pub name: String,
    /// A regular expression. What matches is replaced; where it has a group named `secret`, that group alone.
    pub pattern: String,
}

/// Why there is no such redactor. Each names the pattern.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedactorError {
    /// No built-in pattern has this name.
    #[error("there is no built-in redaction pattern {0:?}: the names are {names}", names = BUILT_IN.join(", "))]
    Unknown(String),
    /// A name that cannot stand in a mark.
    #[error(
        "a redaction pattern cannot be named {0:?}: a name has 1 to {PATTERN_NAME_MAX} of a-z, 0-9, _ and -, and is not taken"
    )]
    BadName(String),
    /// An own pattern that is no regular expression.
    #[error("the redaction pattern {name:?} is no usable regular expression: {why}")]
    BadPattern {
        /// The pattern's name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// An own pattern that is too long, or takes too much memory.
    #[error("the redaction pattern {0:?} is too large: it may have {PATTERN_BYTES_MAX} bytes, and 1 MiB when compiled")]
    TooLarge(String),
    /// An own pattern that matches where nothing is.
    #[error("the redaction pattern {0:?} matches the empty text, so it says nothing about what is secret")]
    MatchesNothing(String),
    /// More own patterns than [`OWN_PATTERNS_MAX`].
    #[error("{0} redaction patterns of one's own are too many: {OWN_PATTERNS_MAX} are searched for")]
    TooMany(usize),
}

/// Replaces what looks like a secret. Shared by any number of threads.
#[derive(Debug)]
pub struct Redactor {
    /// Whether anything is there, by one pass over a text. Numbered as `patterns`.
    any: RegexSet,
    patterns: Vec<Pattern>,
    /// The marks of this redactor.
    marks: Regex,
    /// Keys whose texts are secrets, whatever they look like.
    keys: Option<SecretKeys>,
}

#[derive(Debug)]
struct Pattern {
    name: String,
    regex: Regex,
    /// The number of the group `secret`.
    group: Option<usize>,
    /// Whether what it finds can be a stand-in for a secret, as in code and examples.
    has_placeholders: bool,
}

/// What is to be replaced in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    range: Range<usize>,
    pattern: usize,
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A message, one of its calls, one of its parts.
    Frame,
    /// What somebody said.
    Said,
    /// JSON that is in a text: a number there is text as well. So many levels may follow.
    Text(u32),
}

/// A text without the secrets that a redactor knows, where there is one.
pub(crate) fn text<'t>(redactor: Option<&Redactor>, text: &'t str) -> Cow<'t, str> {
    let redacted = redactor.and_then(|redactor| redactor.redact_text(text));
    redacted.map_or(Cow::Borrowed(text), Cow::Owned)
}

impl Redactor {
    /// A redactor with these built-in patterns (see [`BUILT_IN`]) and these of one's own.
    ///
    /// # Errors
    /// When a name is not known or a pattern cannot be used; the message names it.
    pub fn new<'a>(built_in: impl IntoIterator<Item = &'a str>, own: &[OwnPattern]) -> Result<Self, RedactorError> {
        if own.len() > OWN_PATTERNS_MAX {
            return Err(RedactorError::TooMany(own.len()));
        }
        let (mut sources, mut patterns, mut names, mut keys) = (Vec::new(), Vec::new(), Vec::new(), None);
        for name in built_in {
            if !BUILT_IN.contains(&name) {
                return Err(RedactorError::Unknown(name.to_owned()));
            }
            if names.contains(&name) {
                continue;
            }
            names.push(name);
            for &source in built_in::sources(name) {
                let has_placeholders = name == built_in::PASSWORD;
                patterns.push(Pattern::new(name, source, has_placeholders)?);
                sources.push(source);
            }
            if name == built_in::PASSWORD {
                keys = Some(SecretKeys::new());
            }
        }
        for OwnPattern { name, pattern } in own {
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
            let is_taken = names.contains(&name.as_str()) || BUILT_IN.contains(&name.as_str());
            if is_taken || name.is_empty() || name.len() > PATTERN_NAME_MAX || !name.bytes().all(fits) {
                return Err(RedactorError::BadName(name.clone()));
            }
            names.push(name);
            patterns.push(Pattern::new(name, pattern, false)?);
            sources.push(pattern.as_str());
        }
        let any = RegexSetBuilder::new(&sources)
            .size_limit(COMPILED_ALL_MAX)
            .dfa_size_limit(STATES_BYTES_MAX)
            .build()
            .map_err(|_| RedactorError::TooLarge(names.last().copied().unwrap_or_default().to_owned()))?;
        let marks = format!(r"\[redacted:(?:{})\]", names.join("|"));
        let marks = Regex::new(&marks).map_err(|error| bad("mark", &error))?;
        Ok(Self { any, patterns, marks, keys })
    }

    /// The message without its secrets; `None` when it has none. Redacting what comes out gives `None`.
    #[must_use]
    pub fn redact(&self, message: &Json) -> Option<Json> {
        if !self.finds(message, Place::Frame) {
            return None;
        }
        let mut redacted = message.clone();
        for _ in 0..ROUNDS_MAX {
            if !self.pass(&mut redacted, Place::Frame) {
                break;
            }
        }
        // What does not come to rest is replaced whole, text by text; then nothing is left to find.
        if self.pass(&mut redacted, Place::Frame) {
            self.give_up(&mut redacted, Place::Frame);
        }
        // Only stand-ins were found, which stay.
        (redacted != *message).then_some(redacted)
    }

    /// A text that somebody or a model said, without its secrets; `None` when it has none.
    pub(crate) fn redact_text(&self, text: &str) -> Option<String> {
        let redacted = self.redact(&Json::object([("content", text.into())]))?;
        redacted.get("content").and_then(Json::as_str).map(str::to_owned)
    }

    /// A list without its secrets: its messages, their later forms, and what their file said beside them. Names of
    /// sessions stay: they are how a host finds them again.
    ///
    /// # Errors
    /// [`EngineError::Message`] when a message at the bound of its size is beyond it with its marks.
    pub(crate) fn redact_list(&self, list: &mut Incoming) -> Result<(), EngineError> {
        if list.messages.len() < PARALLEL_MIN {
            return list.messages.iter_mut().try_for_each(|message| self.redact_incoming(message));
        }
        list.messages.par_iter_mut().with_min_len(8).try_for_each(|message| self.redact_incoming(message))
    }

    fn redact_incoming(&self, message: &mut IncomingMessage) -> Result<(), EngineError> {
        if let Some(redacted) = self.redact_stored(&message.encoded)? {
            let IncomingMessage { encoded, tokens, .. } = IncomingMessage::new(&redacted)?;
            (message.encoded, message.tokens) = (encoded, tokens);
        }
        self.redact_beside(&mut message.volatile);
        for form in &mut message.revisions {
            if let Some(redacted) = self.redact_stored(&form.encoded)? {
                form.encoded = redacted.encode()?;
            }
            self.redact_beside(&mut form.volatile);
        }
        Ok(())
    }

    fn redact_stored(&self, encoded: &lcm_core::EncodedMessage) -> Result<Option<Message>, EngineError> {
        let bodies = encoded.body_slices();
        let stored = encoded.stored(&bodies);
        // What cannot be read back is refused by the store, which says what is wrong with it.
        let Ok(tree) = stored.tree() else { return Ok(None) };
        Ok(self.redact(&tree.root().to_json()).map(Message::from_json).transpose()?)
    }

    /// What belongs to a place: JSON of an object, or nothing.
    fn redact_beside(&self, volatile: &mut Vec<u8>) {
        if volatile.is_empty() {
            return;
        }
        if let Some(beside) = Json::parse(volatile).ok().and_then(|beside| self.redact(&beside)) {
            *volatile = beside.to_text();
        }
    }

    /// Whether a pass over the value can change anything.
    fn finds(&self, value: &Json, place: Place) -> bool {
        match value {
            Json::String(text) => {
                if self.any.is_match(text.as_bytes()) {
                    return true;
                }
                let level = place.level();
                holds_json(text, level).is_some_and(|inner| self.finds(&inner, Place::Text(level - 1)))
            }
            Json::Number(literal) => matches!(place, Place::Text(_)) && self.any.is_match(literal.as_bytes()),
            Json::Array(elements) => elements.iter().any(|element| self.finds(element, place)),
            Json::Object(entries) => entries.iter().any(|(key, value)| match place.under(key, value) {
                None => false,
                Some(under) => self.is_secret(key, value, under) || self.finds(value, under),
            }),
            Json::Null | Json::Bool(_) => false,
        }
    }

    /// Replaces what is found, once; whether that changed anything.
    fn pass(&self, value: &mut Json, place: Place) -> bool {
        match value {
            Json::String(text) => match self.pass_text(text, place.level()) {
                Some(redacted) => {
                    *text = redacted;
                    true
                }
                None => false,
            },
            Json::Number(literal) if matches!(place, Place::Text(_)) => {
                match self.spans(literal.as_bytes(), |_| true).first() {
                    Some(span) => {
                        *value = Json::from(self.mark(span.pattern));
                        true
                    }
                    None => false,
                }
            }
            Json::Array(elements) => elements.iter_mut().fold(false, |any, element| self.pass(element, place) | any),
            Json::Object(entries) => {
                let mut any = false;
                for (key, value) in entries {
                    let Some(under) = place.under(key, value) else { continue };
                    if self.is_secret(key, value, under) {
                        let held = if let Json::String(text) = &*value { holds_json(text, 1) } else { None };
                        let mark = mark(built_in::PASSWORD);
                        *value =
                            held.map_or_else(|| mark.as_str().into(), |inner| Json::String(emptied(&inner, &mark)));
                        any = true;
                    } else {
                        any |= self.pass(value, under);
                    }
                }
                any
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => false,
        }
    }

    /// Whether a value is secret because of its key.
    fn is_secret(&self, key: &JsonString, value: &Json, place: Place) -> bool {
        let Some(keys) = &self.keys else { return false };
        let text = match value {
            Json::String(text) => text.as_bytes(),
            Json::Number(literal) if matches!(place, Place::Text(_)) => literal.as_bytes(),
            _ => return false,
        };
        let is_mark = || without_marks(0..text.len(), &self.marks_in(text)).is_empty();
        let is_emptied = || match value {
            Json::String(text) => holds_json(text, 1).is_some_and(|inner| self.is_emptied(&inner)),
            _ => false,
        };
        keys.has(key.as_bytes()) && !is_placeholder(text) && !is_mark() && !is_emptied()
    }

    /// One pass over a text; `None` when it stays.
    fn pass_text(&self, text: &JsonString, level: u32) -> Option<JsonString> {
        let Some(mut inner) = holds_json(text, level) else {
            let spans = self.spans(text.as_bytes(), |_| true);
            return (!spans.is_empty()).then(|| self.replace(text.as_bytes(), &spans));
        };
        if self.is_emptied(&inner) {
            return None;
        }
        // Texts inside first: there the escapes are gone that hide where a word begins.
        let has_changed = self.pass(&mut inner, Place::Text(level - 1));
        let walked = if has_changed { json_string(inner.to_text()) } else { text.clone() };
        // Then the text as it is written, for patterns that span keys and values; which values are passwords the keys
        // have told.
        let spans = self.spans(walked.as_bytes(), |pattern| !pattern.has_placeholders);
        let Some(first) = spans.first() else { return has_changed.then_some(walked) };
        let replaced = self.replace(walked.as_bytes(), &spans);
        let redacted = match holds_json(&replaced, level) {
            Some(_) => replaced,
            None => emptied(&inner, &self.mark(first.pattern)),
        };
        (redacted != *text).then_some(redacted)
    }

    /// Whether nothing is in a value but a mark.
    fn is_emptied(&self, inner: &Json) -> bool {
        let only = match inner {
            Json::Array(elements) if elements.len() == 1 => &elements[0],
            Json::Object(entries) if entries.len() == 1 && entries[0].0.as_bytes() == b"redacted" => &entries[0].1,
            _ => return false,
        };
        let Some(text) = only.as_str() else { return false };
        self.marks_in(text.as_bytes()).first().is_some_and(|mark| *mark == (0..text.len()))
    }

    /// Replaces every text in which something is still found.
    fn give_up(&self, value: &mut Json, place: Place) {
        match value {
            Json::String(text) => {
                if self.pass_text(text, place.level()).is_some() {
                    let pattern = self.any.matches(text.as_bytes()).iter().next().unwrap_or(0);
                    *text = match holds_json(text, place.level()) {
                        Some(inner) => emptied(&inner, &self.mark(pattern)),
                        None => self.mark(pattern).into(),
                    };
                }
            }
            Json::Array(elements) => elements.iter_mut().for_each(|element| self.give_up(element, place)),
            Json::Object(entries) => {
                for (key, value) in entries {
                    if let Some(under) = place.under(key, value) {
                        self.give_up(value, under);
                    }
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    /// What is to be replaced in a text, in order, without overlaps and outside of marks.
    fn spans(&self, text: &[u8], is_wanted: impl Fn(&Pattern) -> bool) -> Vec<Span> {
        let mut found: Vec<Span> = Vec::new();
        if !self.any.is_match(text) {
            return found;
        }
        for pattern in self.any.matches(text).into_iter().filter(|pattern| is_wanted(&self.patterns[*pattern])) {
            let room = MATCHES_MAX + 1 - found.len();
            found.extend(self.patterns[pattern].find(text, room).into_iter().map(|range| Span { range, pattern }));
        }
        if found.len() > MATCHES_MAX {
            let pattern = found[0].pattern;
            found = vec![Span { range: 0..text.len(), pattern }];
        }
        found.sort_by_key(|span| (span.range.start, span.pattern));
        let mut joined: Vec<Span> = Vec::with_capacity(found.len());
        for span in found {
            match joined.last_mut() {
                Some(last)
                    if span.range.start < last.range.end
                        || (span.range.start == last.range.end && span.pattern == last.pattern) =>
                {
                    last.range.end = last.range.end.max(span.range.end);
                }
                _ => joined.push(span),
            }
        }
        let marks = self.marks_in(text);
        let outside = |span: &Span| {
            let ranges = without_marks(span.range.clone(), &marks);
            ranges.into_iter().map(|range| Span { range, pattern: span.pattern }).collect::<Vec<_>>()
        };
        joined.iter().flat_map(outside).collect()
    }

    fn marks_in(&self, text: &[u8]) -> Vec<Range<usize>> {
        self.marks.find_iter(text).map(|mark| mark.range()).collect()
    }

    fn replace(&self, text: &[u8], spans: &[Span]) -> JsonString {
        let mut out = Vec::with_capacity(text.len());
        let mut from = 0;
        for span in spans {
            out.extend_from_slice(&text[from..span.range.start]);
            out.extend_from_slice(self.mark(span.pattern).as_bytes());
            from = span.range.end;
        }
        out.extend_from_slice(&text[from..]);
        // An own pattern of bytes can tear a character apart: then nothing of the text can be kept.
        JsonString::from_wtf8(out).unwrap_or_else(|| self.mark(spans[0].pattern).into())
    }

    fn mark(&self, pattern: usize) -> String {
        mark(&self.patterns[pattern].name)
    }
}

/// What of a range lies outside of these.
fn without_marks(range: Range<usize>, marks: &[Range<usize>]) -> Vec<Range<usize>> {
    let (mut outside, mut from) = (Vec::new(), range.start);
    let first = marks.partition_point(|mark| mark.end <= range.start);
    for mark in marks[first..].iter().take_while(|mark| mark.start < range.end) {
        outside.push(from..mark.start);
        from = mark.end;
    }
    outside.push(from..range.end);
    outside.retain(|range| range.start < range.end);
    outside
}

fn mark(name: &str) -> String {
    format!("[redacted:{name}]")
}

fn bad(name: &str, error: &regex::Error) -> RedactorError {
    match error {
        regex::Error::CompiledTooBig(_) => RedactorError::TooLarge(name.to_owned()),
        other => {
            // The message draws the pattern over several lines; the last one says what is wrong.
            let why = other.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            RedactorError::BadPattern { name: name.to_owned(), why }
        }
    }
}

/// JSON of the same kind with nothing in it but a mark.
fn emptied(inner: &Json, mark: &str) -> JsonString {
    let emptied = match inner {
        Json::Array(_) => Json::Array(vec![mark.into()]),
        _ => Json::object([("redacted", mark.into())]),
    };
    json_string(emptied.to_text())
}

/// What was written by us is WTF-8.
fn json_string(text: Vec<u8>) -> JsonString {
    JsonString::from_wtf8(text).unwrap_or_default()
}

/// The object or list that a text is, if it is one and that is looked for on this level.
fn holds_json(text: &JsonString, level: u32) -> Option<Json> {
    let bytes = text.as_bytes().trim_ascii();
    let is_likely = matches!((bytes.first(), bytes.last()), (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')));
    if level == 0 || !is_likely {
        return None;
    }
    Json::parse(bytes).ok().filter(|json| matches!(json, Json::Object(_) | Json::Array(_)))
}

impl Place {
    /// Where a value under a key stands; `None` for what holds the message together.
    fn under(self, key: &JsonString, value: &Json) -> Option<Self> {
        match self {
            Self::Frame => match key.as_bytes() {
                key if FRAME_KEYS.contains(&key) && matches!(value, Json::String(_) | Json::Number(_)) => None,
                key if FRAME_PARTS.contains(&key) => Some(Self::Frame),
                _ => Some(Self::Said),
            },
            said => Some(said),
        }
    }

    /// How many levels of JSON in texts follow.
    fn level(self) -> u32 {
        match self {
            Self::Frame | Self::Said => LEVELS_MAX,
            Self::Text(level) => level,
        }
    }
}

impl Pattern {
    fn new(name: &str, source: &str, has_placeholders: bool) -> Result<Self, RedactorError> {
        if source.len() > PATTERN_BYTES_MAX {
            return Err(RedactorError::TooLarge(name.to_owned()));
        }
        let regex = RegexBuilder::new(source).size_limit(COMPILED_BYTES_MAX).build();
        let regex = regex.map_err(|error| bad(name, &error))?;
        if regex.is_match(b"") {
            return Err(RedactorError::MatchesNothing(name.to_owned()));
        }
        let group = regex.capture_names().position(|name| name == Some("secret"));
        Ok(Self { name: name.to_owned(), regex, group, has_placeholders })
    }

    /// What is secret in a text, in order; at most so much.
    fn find(&self, text: &[u8], max: usize) -> Vec<Range<usize>> {
        let is_secret = |range: &Range<usize>| {
            let is_stand_in = self.has_placeholders && is_placeholder(&text[range.clone()]);
            !range.is_empty() && !is_stand_in
        };
        match self.group {
            None => self.regex.find_iter(text).map(|found| found.range()).filter(is_secret).take(max).collect(),
            Some(group) => {
                let groups = self.regex.captures_iter(text).filter_map(|found| Some(found.get(group)?.range()));
                groups.filter(is_secret).take(max).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests;
