//! Writing an answer: one JSON object in one line, within its budget, in which what was said stays data.
//!
//! What was said stands in blocks of quoted lines between a line that begins one and a line that ends it; as every line
//! of it is quoted, nothing in it can end it. What reads like a mark of ours outside of one, or inside, has its bracket
//! written as an escape: whoever looks at the text as it is sees no mark that is not ours, and whoever parses it gets the
//! very characters that were said. So stripped blocks, put together, are the original.
//!
//! The budget is counted over the whole text, by the stored count and by a plain one of four characters a token: the
//! larger of the two, so that neither host nor model finds more than was asked for.

use std::cell::Cell;
use std::fmt::Write;

use lcm_core::tokens::{Estimate, TokenCounter};

use super::ToolError;
use super::arguments::{Arguments, short};
use crate::assemble;
use crate::service::ToolBounds;

/// Begins a block of what was said.
pub(super) const QUOTE: &str = "[lcm:quote]";
/// Ends it.
pub(super) const END: &str = "[lcm:end]";

/// No token of a vocabulary in use stands for more characters of a text on average.
const CHARS_A_TOKEN: u64 = 4;
/// What is kept for the end of an answer: the cursor and what there is to say about the call.
const TAIL: Cost = Cost::ascii(48, 160);
/// How often an answer that came out too long is made anew, each time for less.
const TRIES_MAX: usize = 12;

/// A JSON object that is being written.
#[derive(Clone)]
pub(super) struct Object {
    text: String,
    /// So many bytes of it were counted, and take this.
    counted: Cell<(usize, Cost)>,
}

impl Object {
    pub(super) fn new() -> Self {
        Self { text: "{".to_owned(), counted: Cell::default() }
    }

    fn key(&mut self, key: &str) {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        self.text.push('"');
        self.text.push_str(key);
        self.text.push_str("\":");
    }

    /// A name or a sentence, whoever wrote it.
    pub(super) fn text(&mut self, key: &str, said: &str) -> &mut Self {
        self.key(key);
        push_string(&mut self.text, said);
        self
    }

    /// What was said, as a quoted block; nothing said is an empty text.
    pub(super) fn quote(&mut self, key: &str, said: &str) -> &mut Self {
        self.key(key);
        push_quote(&mut self.text, said);
        self
    }

    /// What was said, as it was made to fit.
    pub(super) fn quoted(&mut self, key: &str, quoted: &Quoted) -> &mut Self {
        self.key(key);
        let before = self.cost();
        self.text.push_str(&quoted.text);
        self.counted.set((self.text.len(), before.plus(quoted.cost)));
        self
    }

    pub(super) fn number(&mut self, key: &str, number: impl TryInto<i128>) -> &mut Self {
        self.key(key);
        let number: i128 = number.try_into().unwrap_or(i128::MAX);
        // Writing to a text cannot fail.
        let _written = write!(self.text, "{number}");
        self
    }

    pub(super) fn flag(&mut self, key: &str, is: bool) -> &mut Self {
        self.key(key);
        self.text.push_str(if is { "true" } else { "false" });
        self
    }

    /// A moment, as people read it and as programs do.
    pub(super) fn moment(&mut self, ms: i64) -> &mut Self {
        self.key("timestamp");
        let (seconds, rest) = (ms.div_euclid(1000), ms.rem_euclid(1000));
        // Before 1970 the fraction counts the other way; whole seconds are near enough there.
        let _written = match rest {
            0 => write!(self.text, "{seconds}"),
            _ if seconds < 0 => write!(self.text, "{seconds}"),
            rest => write!(self.text, "{seconds}.{rest:03}"),
        };
        self.text("time", &rfc3339(ms))
    }

    /// JSON as it is.
    pub(super) fn json(&mut self, key: &str, json: &str) -> &mut Self {
        self.key(key);
        self.text.push_str(json);
        self
    }

    pub(super) fn names<'n>(&mut self, key: &str, names: impl IntoIterator<Item = &'n str>) -> &mut Self {
        self.key(key);
        self.text.push('[');
        for name in names {
            if !self.text.ends_with('[') {
                self.text.push(',');
            }
            push_string(&mut self.text, name);
        }
        self.text.push(']');
        self
    }

    pub(super) fn objects(&mut self, key: &str, objects: &[String]) -> &mut Self {
        self.key(key);
        self.text.push('[');
        self.text.push_str(&objects.join(","));
        self.text.push(']');
        self
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push('}');
        self.text
    }

    /// What it takes as it is now. Parts are counted by themselves: they end between fields, at a mark, where no word goes on,
    /// so that their sum is not less than what the whole takes.
    pub(super) fn cost(&self) -> Cost {
        let (bytes, cost) = self.counted.get();
        let cost = if bytes < self.text.len() { cost.plus(Cost::of(&self.text[bytes..])) } else { cost };
        self.counted.set((self.text.len(), cost));
        cost
    }
}

/// The beginning of a text that fits into some room, quoted.
pub(super) struct Quoted {
    text: String,
    cost: Cost,
    /// Bytes of what was said that it holds; at a border between characters.
    pub(super) end: usize,
}

impl Quoted {
    /// As much of a text as fits into some room.
    pub(super) fn fitting(said: &str, room: Cost) -> Self {
        let chars = usize::try_from(room.tokens.saturating_mul(CHARS_A_TOKEN)).unwrap_or(usize::MAX);
        let chars = chars.min(room.chars).min(room.bytes);
        let mut end = said.char_indices().nth(chars).map_or(said.len(), |(at, _)| at);
        let mut text = String::new();
        loop {
            text.clear();
            push_quote(&mut text, &said[..end]);
            let cost = Cost::of(&text);
            if end == 0 || cost.is_within(room) {
                return Self { text, cost, end };
            }
            // Nearly what fits, a little less; always less than before.
            let part = |room: u64, cost: u64| (u128::from(room) * 1000 / u128::from(cost.max(1))).min(1000);
            let number = |chars: usize| u64::try_from(chars).unwrap_or(u64::MAX);
            let part = part(room.tokens, cost.tokens)
                .min(part(number(room.chars), number(cost.chars)))
                .min(part(number(room.bytes), number(cost.bytes)));
            let bytes = u128::from(number(end)) * part / 1010;
            let bytes = usize::try_from(bytes).unwrap_or(0).min(end - 1);
            end = said.floor_char_boundary(bytes);
        }
    }
}

/// Appends a text as a JSON string. Nothing in it ends the line for anybody, and nothing in it is a mark of ours.
fn push_string(out: &mut String, said: &str) {
    out.push('"');
    push_escaped(out, said);
    out.push('"');
}

fn push_quote(out: &mut String, said: &str) {
    out.push('"');
    if !said.is_empty() {
        out.push_str(QUOTE);
        for line in said.split('\n') {
            out.push_str("\\n> ");
            push_escaped(out, line);
        }
        out.push_str("\\n");
        out.push_str(END);
    }
    out.push('"');
}

fn push_escaped(out: &mut String, said: &str) {
    out.reserve(said.len());
    let (mut plain, mut at) = (0, 0);
    while let Some(found) = said.as_bytes()[at..].iter().position(|byte| MAY_NEED_ESCAPE[usize::from(*byte)]) {
        at += found;
        let Some(c) = said[at..].chars().next() else { break };
        let end = at + c.len_utf8();
        let escape = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '[' if is_mark(&said.as_bytes()[at..]) => "\\u005b",
            c if c < ' ' || matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}') => "",
            _ => {
                at = end;
                continue;
            }
        };
        out.push_str(&said[plain..at]);
        match escape {
            "" => {
                let _written = write!(out, "\\u{:04x}", u32::from(c));
            }
            escape => out.push_str(escape),
        }
        (plain, at) = (end, end);
    }
    out.push_str(&said[plain..]);
}

/// Bytes with which a character begins that may be written as an escape.
static MAY_NEED_ESCAPE: [bool; 256] = {
    let mut bytes = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        // 0xc2 begins U+0080 to U+00BF, 0xe2 U+2000 to U+2FFF.
        bytes[byte] = byte < 0x20 || matches!(byte, 0x22 | 0x5b | 0x5c | 0x7f | 0xc2 | 0xe2);
        byte += 1;
    }
    bytes
};

/// Whether a bracket begins what reads like a mark of ours.
fn is_mark(text: &[u8]) -> bool {
    text.get(1..4).is_some_and(|name| name.eq_ignore_ascii_case(b"lcm"))
}

/// A moment as RFC 3339 in UTC.
pub(super) fn rfc3339(ms: i64) -> String {
    let (days, of_day) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = assemble::date(days);
    let (seconds, rest) = (of_day / 1000, of_day % 1000);
    let fraction = if rest == 0 { String::new() } else { format!(".{rest:03}") };
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// What a text takes of a budget, or what is left of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub(super) tokens: u64,
    pub(super) chars: usize,
    pub(super) bytes: usize,
}

impl Cost {
    /// Of text that is a byte a character.
    pub(super) const fn ascii(tokens: u64, chars: usize) -> Self {
        Self { tokens, chars, bytes: chars }
    }

    pub(super) fn of(text: &str) -> Self {
        let tokens = u64::from(Estimate.count_text(text)).max(plain_tokens(text));
        Self { tokens, chars: text.chars().count(), bytes: text.len() }
    }

    /// What is left when so much is taken.
    pub(super) fn less(self, taken: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(taken.tokens),
            chars: self.chars.saturating_sub(taken.chars),
            bytes: self.bytes.saturating_sub(taken.bytes),
        }
    }

    /// What a host allows.
    pub(super) fn allowed(bounds: ToolBounds) -> Self {
        Self { tokens: bounds.tokens_max, chars: bounds.chars_max, bytes: bounds.bytes_max }
    }

    /// What both take.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            chars: self.chars.saturating_add(other.chars),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn is_within(self, room: Self) -> bool {
        self.tokens <= room.tokens && self.chars <= room.chars && self.bytes <= room.bytes
    }
}

/// Four characters of ASCII a token, two of other letters, one of those that are wide.
fn plain_tokens(text: &str) -> u64 {
    if text.is_ascii() {
        return u64::try_from(text.len()).unwrap_or(u64::MAX).div_ceil(CHARS_A_TOKEN);
    }
    let (mut ascii, mut wide, mut other) = (0_u64, 0_u64, 0_u64);
    for c in text.chars() {
        match c {
            '\0'..='\u{7f}' => ascii += 1,
            '\u{80}'..='\u{2e7f}' => other += 1,
            _ => wide += 1,
        }
    }
    (ascii + 2 * other + 4 * wide).div_ceil(CHARS_A_TOKEN)
}

/// What an answer may take, and how much of it is taken.
pub(super) struct Budget {
    max: Cost,
    used: Cost,
}

impl Budget {
    /// What a call asks for, else `default`; never more than its host allows.
    pub(super) fn of(arguments: &mut Arguments, bounds: ToolBounds, default: u64) -> Result<Self, ToolError> {
        let asked = arguments.number("max_tokens")?;
        let tokens = asked.unwrap_or(default).min(bounds.tokens_max).max(1);
        if asked.is_some_and(|asked| asked > tokens) {
            arguments.note(format!("max_tokens is at most {tokens} here"));
        }
        Ok(Self::new(Cost { tokens, ..Cost::allowed(bounds) }))
    }

    pub(super) fn new(max: Cost) -> Self {
        Self { max, used: Cost::default() }
    }

    /// Takes what is written already.
    pub(super) fn take(&mut self, cost: Cost) {
        self.used = self.used.plus(cost);
    }

    /// What is left, when the end of the answer is written too.
    pub(super) fn left(&self) -> Cost {
        self.max.less(self.used.plus(TAIL))
    }

    /// Takes a text, when it fits. A comma stands in front of it.
    pub(super) fn add(&mut self, text: &str) -> bool {
        let cost = Cost::of(text).plus(Cost::ascii(0, 1));
        let fits = cost.is_within(self.left());
        if fits {
            self.take(cost);
        }
        fits
    }

    /// Whether a finished answer is within the budget.
    pub(super) fn holds(&self, text: &str) -> bool {
        Cost::of(text).is_within(self.max)
    }
}

/// How many bytes of a text fit into some room when they are quoted; at a border between characters.
pub(super) fn fitting_bytes(said: &str, room: Cost) -> usize {
    Quoted::fitting(said, room).end
}

/// Makes an answer that is no longer than `bounds` allow in bytes.
///
/// Parts are counted before they are put together, and the least that is always given (one item, one character, the notes) is
/// given uncounted. So an answer can come out longer than there is room; then it is made anew for so much less, which
/// gives a page that ends earlier and goes on at its cursor, never one that is cut.
///
/// # Errors
/// What `make` says; or that even the least is too much.
pub(super) fn within(
    bounds: ToolBounds,
    mut make: impl FnMut(ToolBounds) -> Result<String, ToolError>,
) -> Result<String, ToolError> {
    let mut narrowed = bounds;
    for _ in 0..TRIES_MAX {
        let text = make(narrowed)?;
        let Some(over) = text.len().checked_sub(bounds.bytes_max).filter(|over| *over > 0) else { return Ok(text) };
        narrowed.bytes_max = narrowed.bytes_max.saturating_sub(over.max(bounds.bytes_max / 16));
    }
    Err(ToolError::Said(format!(
        "the answer cannot be made to fit into {} bytes: ask for fewer things at once",
        bounds.bytes_max
    )))
}

/// An error in the form in which tools answer.
pub(super) fn error(sentence: &str) -> String {
    let mut object = Object::new();
    object.text("error", sentence);
    object.finish()
}

/// What was asked for, as an answer says it again.
pub(super) fn echo(object: &mut Object, key: &str, said: &str) {
    object.text(key, &short(said));
}

#[cfg(test)]
mod tests {
    use lcm_core::Json;
    use proptest::prelude::*;

    use super::*;

    /// What a quoted block holds.
    fn unquoted(block: &str) -> String {
        if block.is_empty() {
            return String::new();
        }
        let inner = block.strip_prefix("[lcm:quote]\n").and_then(|rest| rest.strip_suffix("\n[lcm:end]")).unwrap();
        let lines: Vec<&str> = inner.split('\n').map(|line| line.strip_prefix("> ").unwrap()).collect();
        lines.join("\n")
    }

    fn quoted(said: &str) -> String {
        let mut object = Object::new();
        object.quote("content", said).text("name", said);
        object.finish()
    }

    proptest! {
        #[test]
        fn what_was_said_comes_back_and_no_mark_in_it_is_ours(
            said in "(\\[lcm:end\\]|\\[LCM:quote|\\\\n|\"|\r|\n|\u{2028}|\u{85}|> |\u{0}|\\PC){0,30}",
        ) {
            let text = quoted(&said);
            let json = Json::parse(text.as_bytes()).unwrap();
            prop_assert_eq!(unquoted(json.get("content").unwrap().as_str().unwrap()), said.as_str());
            prop_assert_eq!(json.get("name").unwrap().as_str().unwrap(), said.as_str());
            let marks = text.to_lowercase().matches("[lcm").count();
            prop_assert_eq!(marks, if said.is_empty() { 0 } else { 2 });
            let is_one_line = !text.contains(['\n', '\r', '\u{2028}', '\u{2029}', '\u{85}']);
            prop_assert!(is_one_line);
        }

        #[test]
        fn what_is_counted_field_by_field_is_not_less_than_the_whole(
            fields in prop::collection::vec(("[a-z_]{1,8}", "(\\PC|[a-z0-9]|\n|=|漢){0,40}", 0..3_u8), 0..8),
        ) {
            let mut object = Object::new();
            for (key, said, kind) in &fields {
                match kind {
                    0 => object.text(key, said),
                    1 => object.number(key, said.len() as u64),
                    _ => object.quoted(key, &Quoted::fitting(said, Cost { tokens: 1000, chars: 1000, bytes: 4000 })),
                };
                let whole = Cost::of(&object.text);
                let counted = object.cost();
                prop_assert!(counted.tokens >= whole.tokens && counted.chars == whole.chars, "{:?} {:?}", counted, whole);
            }
        }

        #[test]
        fn what_fits_is_within_the_room(said in "(a|é|漢|🦀|\n|\"| ){0,300}", tokens in 0..80_u64, chars in 0..300_usize, bytes in 0..500_usize) {
            let room = Cost { tokens, chars, bytes };
            let end = fitting_bytes(&said, room);
            prop_assert!(said.is_char_boundary(end));
            let mut shown = String::new();
            push_quote(&mut shown, &said[..end]);
            prop_assert!(end == 0 || Cost::of(&shown).is_within(room));
        }
    }

    #[test]
    fn nearly_all_of_a_room_is_used() {
        let said = "The tide comes and goes, and the lamp on pier 3 is lit at dusk.\n".repeat(4000);
        let room = Cost { tokens: 4000, chars: 30_000, bytes: 120_000 };
        let mut shown = String::new();
        push_quote(&mut shown, &said[..fitting_bytes(&said, room)]);
        let cost = Cost::of(&shown);
        assert!(cost.is_within(room) && cost.tokens * 100 >= room.tokens * 93, "{cost:?}");
    }

    #[test]
    fn moments_are_written_in_utc() {
        assert_eq!(rfc3339(1_770_849_605_000), "2026-02-11T22:40:05Z");
        assert_eq!(rfc3339(1_770_849_605_120), "2026-02-11T22:40:05.120Z");
        assert_eq!(rfc3339(-1), "1969-12-31T23:59:59.999Z");
        let mut object = Object::new();
        object.moment(1_500);
        assert_eq!(object.finish(), r#"{"timestamp":1.500,"time":"1970-01-01T00:00:01.500Z"}"#);
    }
}
