//! One message of a LibreFang agent: who speaks, by which key it is known again, what the host made itself, and what it
//! costs by the host's own estimate.
//!
//! A message has a moment in nanoseconds that the host gives it once; with the role it is the *key*: what has the same
//! key later is the same message in another form. What the host puts into a window for one request (the date, what it
//! knows about a person, its own summaries, nudges to go on) is told by how it begins and where it stands; it is shown
//! and never kept. Pure.

use lcm_core::canon::{MessageTree, TreeValue};
use lcm_core::{Json, NodeId, Role};

use super::super::speech::Dialect;
use super::super::{Alike, HostFormat};
use crate::assemble;
use crate::service::InMessage;
use crate::turn;

/// How the host's messages are read. Everything in them is part of what was said, the moment too.
pub(in super::super) const FORMAT: HostFormat =
    HostFormat { is_volatile: |_| false, likeness: |message| key_of_tree(message), alike: Alike::Revised };

/// Begins what the host tells a model beside the conversation.
const CONTEXTS: [&str; 5] = [
    "[System context — what you know about this person]",
    "[Previous conversation context]",
    "[Web search results",
    "[Context compaction summary]",
    "[System: ",
];
/// Begins the line that ends every window of newer hosts.
const CLOCK: &str = "[Current date/time:";
/// What the host says in a user's stead where a model said nothing.
const NUDGES: [&str; 2] = ["Please provide your response.", "[no response]"];
/// Begins what it says where a model only told what it would do.
const DESCRIBED: &str = "[System: You described";
/// Begins what the host says in a turn when a person has decided on a call.
const APPROVAL: &str = "[System] Tool '";
/// The names of our tools as our texts have them, and as this host has them.
const TOOLS: (&str, &str) = ("lcm_expand", "mcp_lcm_expand");
/// Begins what stands in front of a window of which something is left out.
const LEFT_OUT: &str = "[lcm: left out here: ";

/// Stands between two messages of an assistant, where the host had said something that is not kept.
pub(super) const BETWEEN: &str = "[lcm: the host spoke here]";

/// Thousandths of a token that the host's estimate gives a character, one of Chinese, Japanese or Korean, a message.
const CHAR_MILLIS: u64 = 250;
const HAN_MILLIS: u64 = 1500;
const MESSAGE_MILLIS: u64 = 4000;
/// An image, which the host does not count and providers do.
const IMAGE_MILLIS: u64 = 1_600_000;

/// Who made a message that is no part of the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Made {
    /// The host, for one request.
    Host,
    /// The host's rendering of a summary that we gave it: what we show says it better.
    Told,
    /// We: the note that something is left out. It is written anew each time.
    Note,
}

/// A message of a window.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) json: Json,
    /// The same as compact text.
    pub(super) text: InMessage,
    pub(super) role: Role,
    /// By what it is known again; `None` where it has no moment.
    pub(super) key: Option<NodeId>,
    pub(super) is_pinned: bool,
    /// The calls it makes and those it answers.
    pub(super) calls: Vec<String>,
    pub(super) results: Vec<String>,
    /// Whether it reads like something of ours: a fold, what was recalled.
    pub(super) is_marked: bool,
    /// Who made it, where that is nobody of the conversation.
    pub(super) made: Option<Made>,
    /// What it costs by the host's estimate: thousandths of a token.
    pub(super) millis: u64,
}

impl Said {
    /// Reads a message; `None` for what the host itself could not read.
    pub(super) fn read(json: Json) -> Option<Self> {
        let role = match json.get("role")?.as_str()? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            // The host filters system messages out before it shows a list.
            _ => return None,
        };
        let json = as_said(role, json);
        let content = json.get("content")?;
        let (mut calls, mut results, mut millis) = (Vec::new(), Vec::new(), MESSAGE_MILLIS);
        match content {
            Json::String(text) => millis += text_millis(text.as_bytes()),
            Json::Array(blocks) => {
                for block in blocks {
                    let id = |key| block.get(key).map(id_text).unwrap_or_default();
                    match block.get("type").and_then(Json::as_str) {
                        Some("tool_use") => calls.push(id("id")),
                        Some("tool_result") => results.push(id("tool_use_id")),
                        _ => {}
                    }
                    millis += block_millis(block);
                }
            }
            _ => return None,
        }
        let moment = json.get("timestamp").and_then(Json::as_str);
        let key = moment.map(|moment| key(role, moment));
        let is_pinned = json.get("pinned").and_then(Json::as_bool) == Some(true);
        // The host gives what people and models say a moment, and what we put into a window none.
        let is_marked = key.is_none() && sole_text(&json).is_some_and(|text| text.starts_with(assemble::MARK));
        let text = InMessage::from(json.to_text());
        Some(Self { json, text, role, key, is_pinned, calls, results, is_marked, made: None, millis })
    }

    /// A message of ours.
    pub(super) fn ours(role: &str, text: &str) -> Self {
        let json = Json::object([("role", role.into()), ("content", text.into()), ("pinned", false.into())]);
        let (kind, text) = (Role::from_name(role.as_bytes()), InMessage::from(json.to_text()));
        let millis = MESSAGE_MILLIS + sole_text(&json).map_or(0, |text| text_millis(text.as_bytes()));
        let (calls, results) = (Vec::new(), Vec::new());
        Self {
            json,
            text,
            role: kind,
            key: None,
            is_pinned: false,
            calls,
            results,
            is_marked: true,
            made: None,
            millis,
        }
    }

    /// The same message with other content.
    pub(super) fn with(&self, json: Json) -> Option<Self> {
        Self::read(json).map(|said| Self { made: self.made, ..said })
    }

    /// Its text, where it is nothing but one.
    pub(super) fn sole_text(&self) -> Option<&str> {
        sole_text(&self.json)
    }

    /// Whether it shows a fold: what it stands for is history.
    pub(super) fn has_fold(&self) -> bool {
        self.sole_text().and_then(assemble::shown_folds).is_some()
    }

    /// Whether it reads like the date that the host puts behind what a person says.
    pub(super) fn is_clock(&self) -> bool {
        self.sole_text().is_some_and(|text| text.starts_with(CLOCK))
    }

    /// When the host says it was said, in UTC, without the letter that says so: the earlier one is the smaller text.
    fn moment(&self) -> Option<&str> {
        Some(self.json.get("timestamp")?.as_str()?.trim_end_matches('Z'))
    }

    /// Its words, whatever else there is.
    pub(super) fn words(&self) -> String {
        match self.json.get("content") {
            Some(Json::String(text)) => text.to_str_lossy().into_owned(),
            Some(Json::Array(blocks)) => {
                let texts = blocks.iter().filter_map(|block| block.get("text").and_then(Json::as_str));
                texts.collect::<Vec<_>>().join("\n\n")
            }
            _ => String::new(),
        }
    }

    /// Its words, where there are no more than those: a text, or blocks of text.
    pub(super) fn plain_text(&self) -> Option<String> {
        match self.json.get("content")? {
            Json::String(text) => text.as_str().map(str::to_owned),
            Json::Array(blocks) => blocks
                .iter()
                .map(|block| block.get("text")?.as_str())
                .collect::<Option<Vec<_>>>()
                .map(|texts| texts.join("\n\n")),
            _ => None,
        }
    }

    /// What it shows of the results of calls, where that is text: the call's id, and the text.
    pub(super) fn results_told(&self) -> Vec<(String, String)> {
        let blocks = self.json.get("content").and_then(Json::as_array).unwrap_or_default();
        let of_block = |block: &Json| {
            let call = id_text(block.get("tool_use_id")?);
            block.get("content").and_then(Json::as_str).map(|content| (call, content.to_owned()))
        };
        blocks.iter().filter_map(of_block).collect()
    }

    /// The tool and the input of a call that it makes.
    pub(super) fn called(&self, call: &str) -> Option<(String, Json)> {
        let blocks = self.json.get("content").and_then(Json::as_array).unwrap_or_default();
        let is_it = |block: &&Json| {
            block.get("type").and_then(Json::as_str) == Some("tool_use")
                && block.get("id").is_some_and(|id| id_text(id) == call)
        };
        let block = blocks.iter().find(is_it)?;
        let input = block.get("input").cloned().unwrap_or(Json::Null);
        Some((block.get("name").and_then(Json::as_str)?.to_owned(), input))
    }

    /// The same message with other results, by the ids of their calls; `None` where it has none of them, or shows them.
    pub(super) fn with_results(&self, results: &[(String, String)]) -> Option<Self> {
        let Json::Object(mut entries) = self.json.clone() else { return None };
        let content = entries.iter_mut().rfind(|(key, _)| key.as_bytes() == b"content").map(|(_, content)| content)?;
        let Json::Array(blocks) = content else { return None };
        let mut is_changed = false;
        for block in blocks {
            let call = block.get("tool_use_id").map(id_text);
            let result = results.iter().find(|(id, _)| Some(id) == call.as_ref());
            let (Some((_, result)), Json::Object(entries)) = (result, block) else { continue };
            for (_, value) in entries.iter_mut().filter(|(key, _)| key.as_bytes() == b"content") {
                let result: Json = result.as_str().into();
                is_changed |= *value != result;
                *value = result;
            }
        }
        is_changed.then(|| self.with(Json::Object(entries))).flatten()
    }

    /// Whether it reads like what the host answers a model that said nothing, or did not do what it said.
    pub(super) fn is_nudge(&self) -> bool {
        self.sole_text().is_some_and(|text| NUDGES.contains(&text) || text.starts_with(DESCRIBED))
    }

    /// Whether a person may have said it: a user's message that answers no call, and neither the host nor we made it.
    pub(super) fn is_request(&self) -> bool {
        self.role == Role::User && self.results.is_empty() && self.made.is_none() && !self.is_marked
    }
}

/// Says of each message of a window who made it, where that is nobody of the conversation. What a person types is
/// theirs though it reads like the host's word: the host's own stand in front of what they said, or right behind it.
pub(super) fn tell_who_made(window: &mut [Said]) {
    for at in 0..window.len() {
        let made = who_made(&window[at], &window[..at], &window[at + 1..]);
        window[at].made = made;
    }
}

fn who_made(said: &Said, before: &[Said], behind: &[Said]) -> Option<Made> {
    let text = said.sole_text()?;
    if said.role == Role::Assistant {
        return NUDGES.contains(&text).then_some(Made::Host);
    }
    if said.key.is_none() && (text.starts_with(LEFT_OUT) || text == BETWEEN) {
        return Some(Made::Note);
    }
    if text.starts_with(CLOCK) && text.trim_end().ends_with(']') {
        // It stands behind what a person said, with the results of a turn that broke off in front, and behind no other date.
        return before.last().is_some_and(|said| said.role == Role::User && !said.is_clock()).then_some(Made::Host);
    }
    if NUDGES.contains(&text) {
        return before
            .iter()
            .rev()
            .find(|said| said.made.is_none())
            .is_some_and(|said| !speaks(said))
            .then_some(Made::Host);
    }
    if CONTEXTS.iter().any(|context| text.starts_with(context)) {
        let is_ours = text.contains(SUMMARY_MARK);
        let is_nudge = text.starts_with(DESCRIBED);
        return (is_nudge || is_told_beside(said, behind)).then_some(if is_ours { Made::Told } else { Made::Host });
    }
    if text.starts_with(APPROVAL) {
        return before.last().is_some_and(|said| !said.results.is_empty()).then_some(Made::Host);
    }
    None
}

/// Whether what reads like the host's word stands where the host puts it: in front of what a person says, and made for
/// this request. What a person said so is older than all behind it, and was answered.
fn is_told_beside(said: &Said, behind: &[Said]) -> bool {
    let is_words = |said: &Said| said.role == Role::User && said.results.is_empty() && !said.is_clock();
    let is_made_now = said.key.is_none()
        || behind.first().is_some_and(is_words)
        || behind
            .iter()
            .any(|other| other.moment().is_some_and(|moment| said.moment().is_some_and(|own| own > moment)));
    is_made_now && behind.iter().any(is_words)
}

/// Marks a summary of ours that the host shows as its own.
pub(super) const SUMMARY_MARK: &str = "[lcm: kept whole]";

/// Whether an assistant's message has words or calls: then what comes behind it is an answer to that.
fn speaks(said: &Said) -> bool {
    said.role == Role::Assistant
        && (!said.calls.is_empty() || said.sole_text().is_none_or(|text| !text.trim().is_empty()))
}

/// The note that stands in front of a window of which so many messages are left out, and what they say.
pub(super) fn left_out(count: usize, words: &str) -> String {
    let messages = if count == 1 { "message" } else { "messages" };
    let mut text = format!("{LEFT_OUT}{count} earlier {messages}, quoted history, no request]");
    for line in words.lines() {
        text.push_str("\n> ");
        text.extend(line.chars().map(|c| if assemble::is_line_end(c) { ' ' } else { c }));
    }
    text
}

/// How many messages a note says are left out; 0 for what is no note.
pub(super) fn count_left_out(text: &str) -> usize {
    let count = text.strip_prefix(LEFT_OUT).and_then(|text| text.split_once(' ')).map(|(count, _)| count);
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// A message as it was said: without the date that the host's long-lived protocol puts behind it, and with our tools by
/// our names.
fn as_said(role: Role, json: Json) -> Json {
    let said = match sole_text(&json) {
        None => return json,
        Some(text) if text.starts_with(assemble::MARK) => renamed(text, TOOLS.1, TOOLS.0),
        Some(text) if role == Role::User => match text.rsplit_once("\n\n") {
            Some((said, clock)) if clock.starts_with(CLOCK) && clock.ends_with(']') && !said.is_empty() => {
                said.to_owned()
            }
            _ => return json,
        },
        Some(_) => return json,
    };
    Dialect::with_text(&json, &said).unwrap_or(json)
}

/// A message as the host is shown it, and what its rules see of it.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) text: InMessage,
    pub(super) role: Role,
    pub(super) calls: Vec<String>,
    pub(super) results: Vec<String>,
    /// Whether there is nothing in it that a provider would take.
    pub(super) is_empty: bool,
    /// What it costs by the host's estimate: thousandths of a token.
    pub(super) millis: u64,
}

impl Said {
    /// The message as the host is shown it.
    pub(super) fn shown(&self) -> Shown {
        let Self { role, millis, .. } = *self;
        let (calls, results) = (self.calls.clone(), self.results.clone());
        Shown { text: self.for_host(), role, calls, results, is_empty: is_empty(&self.json), millis }
    }

    /// As text that the host can read: without halves of surrogate pairs, which it does not take; ours with our tools by its
    /// names, and with what it demands beside.
    fn for_host(&self) -> InMessage {
        // Only a half is written as an escape that begins so; what else does is read in vain.
        let has_halves = memchr::memmem::find(&self.text, br"\ud").is_some();
        if !has_halves && !self.is_marked {
            return self.text.clone();
        }
        let mut json = turn::sendable(&self.json).unwrap_or_else(|| self.json.clone());
        if self.is_marked {
            let shown = sole_text(&json).map(|text| renamed(text, TOOLS.0, TOOLS.1));
            json = shown.and_then(|shown| Dialect::with_text(&json, &shown)).unwrap_or(json);
            if let Json::Object(entries) = &mut json
                && !entries.iter().any(|(key, _)| key.as_bytes() == b"pinned")
            {
                entries.push(("pinned".into(), false.into()));
            }
        }
        json.to_text().into()
    }
}

/// Whether there is nothing in a message that a provider would take.
pub(super) fn is_empty(json: &Json) -> bool {
    match json.get("content") {
        Some(Json::String(text)) => text.as_bytes().trim_ascii().is_empty(),
        Some(Json::Array(blocks)) => blocks.iter().all(|block| {
            block.get("type").and_then(Json::as_str) == Some("text")
                && block.get("text").and_then(Json::as_str).is_some_and(|text| text.trim().is_empty())
        }),
        _ => true,
    }
}

/// A text of ours with another name for a tool, in our own lines and not in what is quoted.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| if line.starts_with("> ") { line.to_owned() } else { line.replace(from, to) })
        .collect();
    lines.join("\n")
}

/// The text of a message that is nothing but one.
fn sole_text(json: &Json) -> Option<&str> {
    match json.get("content")? {
        Json::String(text) => text.as_str(),
        Json::Array(blocks) => match blocks.as_slice() {
            [block] if block.get("type").and_then(Json::as_str) == Some("text") => block.get("text")?.as_str(),
            _ => None,
        },
        _ => None,
    }
}

fn id_text(id: &Json) -> String {
    match id {
        Json::String(text) => text.to_str_lossy().into_owned(),
        other => String::from_utf8_lossy(&other.to_text()).into_owned(),
    }
}

/// The key of a message.
fn key(role: Role, moment: &str) -> NodeId {
    let mut hasher = blake3::Hasher::new_derive_key("lcm 2026-12 librefang key of a message");
    hasher.update(role.name().as_bytes());
    hasher.update(b" ");
    hasher.update(moment.as_bytes());
    NodeId::from_bytes(*hasher.finalize().as_bytes())
}

fn key_of_tree(message: &MessageTree<'_>) -> Option<NodeId> {
    let moment = message.root().get("timestamp").and_then(TreeValue::to_str_lossy)?;
    Some(key(message.role(), &moment))
}

/// What a text costs by the host's estimate. Counted on its bytes, so that nothing has to be valid UTF-8.
pub(super) fn text_millis(text: &[u8]) -> u64 {
    let mut millis = 0;
    let mut rest = text;
    while let Some(&byte) = rest.first() {
        let (length, cost) = match byte {
            0..=0x7f => {
                // The most common by far.
                let run = rest.iter().position(|byte| *byte > 0x7f).unwrap_or(rest.len());
                (run, u64::try_from(run).unwrap_or(u64::MAX).saturating_mul(CHAR_MILLIS))
            }
            0xe3..=0xed => (3, HAN_MILLIS),
            0xf0..=0xff => (4, HAN_MILLIS),
            0xe0..=0xe2 | 0xee..=0xef => (3, CHAR_MILLIS),
            _ => (2, CHAR_MILLIS),
        };
        millis += cost;
        rest = rest.get(length..).unwrap_or_default();
    }
    millis
}

fn block_millis(block: &Json) -> u64 {
    let text = |key| match block.get(key) {
        Some(Json::String(text)) => text_millis(text.as_bytes()),
        Some(other) => text_millis(&other.to_text()),
        None => 0,
    };
    match block.get("type").and_then(Json::as_str) {
        Some("text") => text("text"),
        Some("tool_use") => text("name") + text("input"),
        Some("tool_result") => text("content"),
        Some("thinking") => text("thinking"),
        Some("image" | "image_file") => IMAGE_MILLIS,
        _ => text_millis(&block.to_text()),
    }
}
