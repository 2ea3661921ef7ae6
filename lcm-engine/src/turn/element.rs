//! One element of a host's list: what is known of its text without reading it again.

use std::borrow::Borrow;
use std::sync::OnceLock;

use lcm_core::{EncodedMessage, IdPrefix, Json, JsonString, Message, NodeId, Role};
use memchr::memmem;

use crate::align::Signs;
use crate::assemble;
use crate::assemble::recall::{self, Claim};
use crate::error::EngineError;
use crate::hosts::speech::{Dialect, Speech};
use crate::hosts::time;
use crate::hosts::told::Told;
use crate::hosts::{HostFormat, IncomingMessage, with_tree};
use crate::redact::Redactor;
use crate::service::{InMessage, TurnRequest};

/// The key under which hosts say when a message was said.
const TIMESTAMP: &str = "timestamp";
/// How far the clock of a host may be ahead of ours: beyond that its moment is none.
const AHEAD_MS: i64 = 24 * 60 * 60 * 1000;

/// An element that was read.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) id: NodeId,
    pub(crate) speech: Speech,
    pub(crate) signs: Signs,
    pub(crate) tokens: u32,
    /// What stays of it through the host's hands.
    pub(crate) likeness: Option<NodeId>,
    /// Its keys that belong to the place, as one JSON object; empty for none.
    pub(super) volatile: Vec<u8>,
    /// When the message itself says that it was said: milliseconds since 1970 UTC.
    pub(super) said_ms: Option<i64>,
    /// The message as it can be sent, where it holds halves of pairs: those replaced.
    pub(crate) sendable: Option<Vec<u8>>,
    pub(super) mark: Option<Mark>,
    /// What another counter than the stored one makes of it, once that was asked: see `select`.
    pub(crate) judged: OnceLock<u32>,
}

/// What an element that reads like something of ours says it is. Anybody can write such a text, so it is a claim: it is
/// believed only when what it names gives this very text again.
#[derive(Debug)]
pub(super) enum Mark {
    Folds {
        named: Vec<IdPrefix>,
        text: String,
    },
    Part {
        of: IdPrefix,
        text: String,
    },
    /// Originals that were recalled into one request; they stand for nothing.
    Recall(Vec<Claim>),
    /// A line between two messages of one role. Ours only beside folds and what was recalled.
    Between,
}

impl Element {
    /// Reads a message of a host; gives it in the form in which it is kept too, which has no secrets.
    pub(super) fn read(
        raw: &[u8],
        redactor: Option<&Redactor>,
        format: &HostFormat,
    ) -> Result<(Self, EncodedMessage), EngineError> {
        let said = Message::parse(raw)?;
        let sendable = sendable(said.json()).map(|json| json.to_text());
        let said_ms = said.json().get(TIMESTAMP).and_then(time::from_json);
        let (mut kept, with_secrets) = match without_secrets(&said, redactor)? {
            Some(redacted) => (redacted, Some(said)),
            None => (said, None),
        };
        let volatile = kept.take_volatile(format.is_volatile);
        let IncomingMessage { encoded, tokens, .. } = IncomingMessage::new(&kept)?;
        let has_mark = memmem::find(raw, assemble::MARK.as_bytes()).is_some();
        let (speech, told, likeness) =
            with_tree(&encoded, |tree| (Speech::of(tree), has_mark.then(|| Told::of(tree)), (format.likeness)(tree)))?;
        // What is ours is known by its exact text, whatever a pattern finds in that. The text goes nowhere: it is
        // compared, and what turns out to be somebody's own word is kept as `encoded`.
        let told = match (told, with_secrets) {
            (Some(_), Some(said)) => Some(with_tree(&said.encode()?, Told::of)?),
            (told, _) => told,
        };
        let mark = told.and_then(|told| mark_of(&speech, &told));
        let signs = Signs::of(&speech);
        let id = encoded.id;
        let judged = OnceLock::new();
        Ok((Self { id, speech, signs, tokens, likeness, volatile, said_ms, sendable, mark, judged }, encoded))
    }

    /// Whether it reads like something of ours.
    pub(crate) fn is_marked(&self) -> bool {
        self.mark.is_some()
    }

    /// When it was said, as it says itself, else when it is shown.
    pub(super) fn seen_ms(&self, now_ms: i64) -> i64 {
        self.said_ms.filter(|said| (0..=now_ms.saturating_add(AHEAD_MS)).contains(said)).unwrap_or(now_ms)
    }

    /// Whether it reads like a fold of ours.
    pub(crate) fn is_like_fold(&self) -> bool {
        matches!(self.mark, Some(Mark::Folds { .. }))
    }

    /// Whether it reads like a line between.
    pub(super) fn is_like_line(&self) -> bool {
        matches!(self.mark, Some(Mark::Between))
    }

    /// What it claims to recall, when it reads like that.
    pub(super) fn recalls(&self) -> Option<&[Claim]> {
        match &self.mark {
            Some(Mark::Recall(claims)) => Some(claims),
            _ => None,
        }
    }

    /// The nodes that it names, when it reads like something of ours.
    pub(super) fn named(&self) -> &[IdPrefix] {
        match &self.mark {
            Some(Mark::Folds { named, .. }) => named,
            Some(Mark::Part { of, .. }) => std::slice::from_ref(of),
            Some(Mark::Recall(_) | Mark::Between) | None => &[],
        }
    }
}

/// How many elements stand at the head of a list: system messages.
pub(crate) fn head_of(elements: &[impl Borrow<Element>]) -> usize {
    elements.iter().take_while(|element| Borrow::<Element>::borrow(*element).speech.is_system()).count()
}

fn mark_of(speech: &Speech, told: &Told) -> Option<Mark> {
    let text = told.main_text();
    if let Some(of) = assemble::shown_part(text) {
        return Some(Mark::Part { of, text: text.to_owned() });
    }
    let is_text = speech.calls.is_empty() && speech.results.is_empty() && told.attachments == 0;
    match speech.role {
        Role::User if is_text => assemble::shown_folds(text)
            .map(|named| Mark::Folds { named, text: text.to_owned() })
            .or_else(|| recall::claims(text).map(Mark::Recall)),
        Role::Assistant if is_text && text == assemble::BETWEEN => Some(Mark::Between),
        _ => None,
    }
}

/// What a host sent, to be read again: as it is kept, without secrets.
#[derive(Clone, Copy)]
pub(crate) struct Sent<'a> {
    pub(crate) messages: &'a [InMessage],
    pub(crate) redactor: Option<&'a Redactor>,
    /// How the host's messages are read.
    pub(crate) format: &'static HostFormat,
}

impl<'a> Sent<'a> {
    /// The list of a request.
    pub(crate) fn of(request: &'a TurnRequest, redactor: Option<&'a Redactor>) -> Self {
        Self { messages: &request.messages, redactor, format: HostFormat::of(&request.source) }
    }
}

impl Sent<'_> {
    /// A message of it.
    pub(crate) fn message(self, at: usize) -> Result<Message, EngineError> {
        let said = Message::parse(&self.messages[at])?;
        Ok(without_secrets(&said, self.redactor)?.unwrap_or(said))
    }

    /// What that says.
    pub(crate) fn told(self, at: usize) -> Result<Told, EngineError> {
        Ok(with_tree(&self.message(at)?.encode()?, Told::of)?)
    }

    /// All that is known of it, and the form in which it is kept.
    pub(super) fn element(self, at: usize) -> Result<(Element, EncodedMessage), EngineError> {
        Element::read(&self.messages[at], self.redactor, self.format)
    }
}

/// A message without its secrets; `None` where it has none, or nobody wants them out.
fn without_secrets(message: &Message, redactor: Option<&Redactor>) -> Result<Option<Message>, EngineError> {
    let redacted = redactor.and_then(|redactor| redactor.redact(message.json()));
    Ok(redacted.map(Message::from_json).transpose()?)
}

/// The same value with halves of surrogate pairs replaced, which no request can carry; `None` where it has none.
pub(crate) fn sendable(json: &Json) -> Option<Json> {
    has_halves(json).then(|| {
        let mut sendable = json.clone();
        replace_halves(&mut sendable);
        sendable
    })
}

fn has_halves(json: &Json) -> bool {
    match json {
        Json::String(string) => string.as_str().is_none(),
        Json::Array(elements) => elements.iter().any(has_halves),
        Json::Object(entries) => entries.iter().any(|(key, value)| key.as_str().is_none() || has_halves(value)),
        _ => false,
    }
}

fn replace_halves(json: &mut Json) {
    let replace = |string: &mut JsonString| {
        if string.as_str().is_none() {
            *string = (&*string.to_str_lossy().into_owned()).into();
        }
    };
    match json {
        Json::String(string) => replace(string),
        Json::Array(elements) => elements.iter_mut().for_each(replace_halves),
        Json::Object(entries) => {
            for (key, value) in entries {
                replace(key);
                replace_halves(value);
            }
        }
        _ => {}
    }
}

/// Which dialect a list is in, when the host does not say: results in messages of the user are Anthropic's.
pub(crate) fn dialect_of<'a>(mut speeches: impl Iterator<Item = &'a Speech>) -> Dialect {
    let has_blocks = |speech: &Speech| speech.role == Role::User && !speech.results.is_empty();
    if speeches.any(has_blocks) { Dialect::Anthropic } else { Dialect::OpenAi }
}
