//! What search looks through, what a model thought, and one line for lists.
//!
//! Texts are read from what is stored; both common shapes of messages are known: OpenAI's (`content`, `tool_calls`)
//! and Anthropic's (blocks under `content`). What is not known is not text: images and files in base64 are in no
//! search. Unpaired surrogates become U+FFFD here, for an index and a terminal want UTF-8.
//!
//! The search text is also what quotations and offsets of search results refer to. So it may be extended, and never
//! rearranged.

use std::borrow::Cow;

use crate::canon::{CanonError, MessageTree, StoredMessage, TreeValue};

/// Appends what search looks through.
///
/// That is the text of `content`, then name and arguments of each entry of `tool_calls` and of `function_call`, as
/// calls were said before there were several; parts that are empty are left out, the others are joined by line
/// feeds. A list under `content` gives a line, maybe an empty one, for each block: its `text`; for `tool_use` the
/// name and the input as compact JSON; for `tool_result` its content.
///
/// # Errors
/// See [`StoredMessage::tree`]; nothing is appended then.
pub fn search_text(message: &StoredMessage<'_>, out: &mut String) -> Result<(), CanonError> {
    push_search_text(&message.tree()?, out);
    Ok(())
}

/// Gives the search text to `look`, without a copy where the message is nothing but a plain text.
///
/// `scratch` is overwritten; whoever reads many messages keeps it.
///
/// # Errors
/// See [`StoredMessage::tree`]; `look` is not called then.
pub fn with_search_text<R>(
    message: &StoredMessage<'_>,
    scratch: &mut String,
    look: impl FnOnce(&str) -> R,
) -> Result<R, CanonError> {
    let tree = message.tree()?;
    Ok(look(&search_text_in(&tree, scratch)))
}

/// The search text of a message that was read: borrowed from it, else built in `scratch`.
pub(crate) fn search_text_in<'s>(tree: &'s MessageTree<'_>, scratch: &'s mut String) -> Cow<'s, str> {
    let root = tree.root();
    let content = root.get("content").and_then(TreeValue::as_str);
    if let Some(content) = content
        && functions_called(root).next().is_none()
    {
        return Cow::Borrowed(content);
    }
    scratch.clear();
    push_search_text(tree, scratch);
    Cow::Borrowed(scratch)
}

fn push_search_text(tree: &MessageTree<'_>, out: &mut String) {
    let root = tree.root();
    let mut parts = Parts { start: out.len(), out };
    if let Some(content) = root.get("content") {
        parts.part(|out| push_content(content, out));
    }
    for function in functions_called(root) {
        if let Some(name) = function.get("name") {
            parts.part(|out| push_string(name, out));
        }
        if let Some(arguments) = function.get("arguments") {
            parts.part(|out| push_arguments(arguments, out));
        }
    }
}

/// What is called beside `content`: objects with a name and arguments.
fn functions_called<'t, 'a>(root: TreeValue<'t, 'a>) -> impl Iterator<Item = TreeValue<'t, 'a>> {
    let calls = root.get("tool_calls").into_iter().flat_map(TreeValue::elements);
    calls.filter_map(|call| call.get("function")).chain(root.get("function_call"))
}

/// Parts that are joined by line feeds, without the empty ones.
struct Parts<'o> {
    /// Where the first one begins.
    start: usize,
    out: &'o mut String,
}

impl Parts<'_> {
    fn part(&mut self, push: impl FnOnce(&mut String)) {
        let before = self.out.len();
        if before > self.start {
            self.out.push('\n');
        }
        let begin = self.out.len();
        push(self.out);
        if self.out.len() == begin {
            self.out.truncate(before);
        }
    }
}

/// The text of a string, or of a list of blocks.
fn push_content(content: TreeValue<'_, '_>, out: &mut String) {
    push_string(content, out);
    let mut is_first = true;
    for block in content.elements() {
        if !block.is_object() && block.as_wtf8().is_none() {
            continue;
        }
        if !is_first {
            out.push('\n');
        }
        is_first = false;
        push_block(block, out);
    }
}

fn push_block(block: TreeValue<'_, '_>, out: &mut String) {
    push_string(block, out);
    match block.get("type").and_then(TreeValue::as_wtf8) {
        Some(b"tool_use") => {
            if let Some(name) = block.get("name") {
                push_string(name, out);
            }
            if let Some(input) = block.get("input") {
                out.push('\n');
                push_arguments(input, out);
            }
        }
        Some(b"tool_result") => {
            // No deeper: results hold text and images, and a walk without a bound is not worth the rest.
            let Some(content) = block.get("content") else { return };
            push_string(content, out);
            for (i, inner) in content.elements().enumerate() {
                if i > 0 {
                    out.push('\n');
                }
                push_string(inner, out);
                if let Some(text) = inner.get("text") {
                    push_string(text, out);
                }
            }
        }
        _ => {
            if let Some(text) = block.get("text") {
                push_string(text, out);
            }
        }
    }
}

/// A string as it is, anything else but `null` as compact JSON.
fn push_arguments(arguments: TreeValue<'_, '_>, out: &mut String) {
    if arguments.as_wtf8().is_some() {
        push_string(arguments, out);
    } else if !arguments.is_null() {
        let mut json = Vec::new();
        arguments.write_json(&mut json);
        out.push_str(&String::from_utf8_lossy(&json));
    }
}

fn push_string(value: TreeValue<'_, '_>, out: &mut String) {
    if let Some(text) = value.to_str_lossy() {
        out.push_str(&text);
    }
}

/// Appends what the model thought before it spoke; not searched, but it costs tokens.
///
/// That is `reasoning_content`, else `reasoning` (hosts that keep both say the same twice), else the texts and
/// summaries of `reasoning_details`; then the thinking blocks under `content`. Joined by line feeds, without empty
/// parts.
///
/// # Errors
/// See [`StoredMessage::tree`]; nothing is appended then.
pub fn reasoning_text(message: &StoredMessage<'_>, out: &mut String) -> Result<(), CanonError> {
    push_reasoning_text(&message.tree()?, out);
    Ok(())
}

pub(crate) fn push_reasoning_text(tree: &MessageTree<'_>, out: &mut String) {
    let root = tree.root();
    let start = out.len();
    let mut parts = Parts { start, out };
    for key in ["reasoning_content", "reasoning"] {
        if let Some(reasoning) = root.get(key)
            && parts.out.len() == start
        {
            parts.part(|out| push_string(reasoning, out));
        }
    }
    if parts.out.len() == start {
        for detail in root.get("reasoning_details").into_iter().flat_map(TreeValue::elements) {
            if let Some(text) = detail.get("text").or_else(|| detail.get("summary")) {
                parts.part(|out| push_string(text, out));
            }
        }
    }
    for block in root.get("content").into_iter().flat_map(TreeValue::elements) {
        if block.get("type").and_then(TreeValue::as_wtf8) == Some(b"thinking")
            && let Some(thinking) = block.get("thinking")
        {
            parts.part(|out| push_string(thinking, out));
        }
    }
}

/// One line that lets a person recognise the message: the first line that says something, else the first call as
/// `name(arguments)`, else what kinds of blocks there are; at most `chars_max` characters, the last one `…` when
/// something was left out.
///
/// Safe to print: control characters are shown as pictures, and what only changes how other characters look is
/// dropped.
///
/// # Errors
/// See [`StoredMessage::tree`].
pub fn headline(message: &StoredMessage<'_>, chars_max: usize) -> Result<String, CanonError> {
    let tree = message.tree()?;
    let root = tree.root();
    let blocks = || root.get("content").into_iter().flat_map(TreeValue::elements);
    if let Some(content) = root.get("content").and_then(TreeValue::to_str_lossy)
        && let Some(line) = first_line(&content, false, chars_max)
    {
        return Ok(line);
    }
    let mut text = String::new();
    let mut spoken = blocks().filter(|block| !is_call(*block)).peekable();
    while let Some(block) = spoken.next() {
        text.clear();
        push_block(block, &mut text);
        if let Some(line) = first_line(&text, spoken.peek().is_some(), chars_max) {
            return Ok(line);
        }
    }
    text.clear();
    if let Some(function) = functions_called(root).next() {
        push_call(function.get("name"), function.get("arguments"), &mut text);
    } else if let Some(call) = blocks().find(|block| is_call(*block)) {
        push_call(call.get("name"), call.get("input"), &mut text);
    } else {
        for kind in blocks().filter_map(|block| block.get("type")) {
            text.push_str(if text.is_empty() { "[" } else { ", " });
            push_string(kind, &mut text);
        }
        text.push_str(if text.is_empty() { "" } else { "]" });
    }
    Ok(first_line(&text, false, chars_max).unwrap_or_default())
}

fn is_call(block: TreeValue<'_, '_>) -> bool {
    block.get("type").and_then(TreeValue::as_wtf8) == Some(b"tool_use")
}

fn push_call(name: Option<TreeValue<'_, '_>>, arguments: Option<TreeValue<'_, '_>>, out: &mut String) {
    if let Some(name) = name {
        push_string(name, out);
    }
    out.push('(');
    if let Some(arguments) = arguments {
        push_arguments(arguments, out);
    }
    out.push(')');
}

/// The first line that says something, made safe to print; `more` when the text is not all there is.
fn first_line(text: &str, more: bool, chars_max: usize) -> Option<String> {
    let text = text.trim();
    let line = text.lines().next()?;
    Some(shown(line.trim_end(), more || line.len() < text.len(), chars_max))
}

/// A line of at most `chars_max` characters that is safe to print.
fn shown(line: &str, is_cut: bool, chars_max: usize) -> String {
    let mut out = String::with_capacity(line.len().min(chars_max.saturating_mul(4)));
    let mut room = chars_max;
    let mut characters = line.chars().filter_map(printable);
    while let Some(character) = characters.next() {
        // The last character of the room is kept for the mark, unless nothing follows.
        if room == 0 || (room == 1 && (is_cut || characters.next().is_some())) {
            if room == 1 {
                out.push('…');
            }
            return out;
        }
        out.push(character);
        room -= 1;
    }
    if is_cut && room > 0 {
        out.push('…');
    }
    out
}

/// What stands on a terminal for a character; `None` for those that only change how others look.
fn printable(character: char) -> Option<char> {
    match character {
        '\t' => Some(' '),
        // The pictures of the control characters, so that an escape sequence is seen and not obeyed.
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(character)),
        '\u{7f}' => Some('\u{2421}'),
        '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}' => Some('\u{fffd}'),
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' => None,
        // Tags: invisible ASCII, a known way to hide orders to a model.
        '\u{e0000}'..='\u{e007f}' => None,
        _ => Some(character),
    }
}

#[cfg(test)]
mod tests {
    //! What is searched, shown and counted of messages of every shape.

    use proptest::prelude::*;

    use super::*;
    use crate::json::Json;
    use crate::json::arbitrary::{any_entries, any_json};
    use crate::message::Message;

    fn with_stored<R>(text: &str, look: impl FnOnce(&StoredMessage<'_>) -> R) -> R {
        let message = Message::parse(text.as_bytes()).expect(text).encode().unwrap();
        look(&message.stored(&message.body_slices()))
    }

    fn searched(text: &str) -> String {
        with_stored(text, |message| {
            let mut out = "before".to_owned();
            search_text(message, &mut out).unwrap();
            let copied = with_search_text(message, &mut "old".to_owned(), str::to_owned).unwrap();
            assert_eq!(out[6..], copied);
            copied
        })
    }

    fn reasoned(text: &str) -> String {
        with_stored(text, |message| {
            let mut out = String::new();
            reasoning_text(message, &mut out).unwrap();
            out
        })
    }

    fn headed(text: &str, chars_max: usize) -> String {
        with_stored(text, |message| headline(message, chars_max).unwrap())
    }

    #[test]
    fn text_and_calls_are_searched_and_empty_parts_leave_no_line() {
        for (text, searched_text) in [
            (r#"{"role":"user","content":"hello\nthere"}"#, "hello\nthere"),
            (r#"{"content":null}"#, ""),
            (
                r#"{"content":"","tool_calls":[{"function":{"name":"ls","arguments":"{\"a\": 1}"}},{"function":{"name":"","arguments":"x"}}]}"#,
                "ls\n{\"a\": 1}\nx",
            ),
            (r#"{"content":"go","tool_calls":[]}"#, "go"),
            (r#"{"content":"go","tool_calls":null}"#, "go"),
            (
                r#"{"content":"go","tool_calls":[{"id":"1","function":{"arguments":{"b":1,"a":[2.0]},"name":"f"}},7,{"function":null}]}"#,
                "go\nf\n{\"b\":1,\"a\":[2.0]}",
            ),
            (r#"{"content":null,"function_call":{"name":"old","arguments":"{}"}}"#, "old\n{}"),
            (r#"{"content":"cut \ud83d off"}"#, "cut \u{fffd} off"),
            (r#"{"content":"one","content":"two"}"#, "two"),
            (r#"{"content":7,"reasoning_content":"no"}"#, ""),
        ] {
            assert_eq!(searched(text), searched_text, "{text}");
        }
    }

    #[test]
    fn every_block_gives_a_line_and_no_base64_is_searched() {
        let openai = r#"{"content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"text","text":"b"}]}"#;
        assert_eq!(searched(openai), "a\n\nb");
        let anthropic = r#"{"role":"user","content":[
            {"type":"tool_result","tool_use_id":"t1","content":"plain"},
            {"type":"tool_result","content":[{"type":"text","text":"x"},{"type":"image","source":{"type":"base64","data":"BBBB"}}]},
            {"type":"image","source":{"type":"base64","data":"CCCC"}}, "bare", 5]}"#;
        assert_eq!(searched(anthropic), "plain\nx\n\n\nbare");
        let call = r#"{"content":[{"type":"tool_use","id":"t","name":"read","input":{"path":"/a b","n":[1,2]}}]}"#;
        assert_eq!(searched(call), "read\n{\"path\":\"/a b\",\"n\":[1,2]}");
    }

    /// The fast path is there so that scanning a session does not copy it.
    #[test]
    fn a_plain_text_is_given_without_a_copy() {
        let text = format!(r#"{{"role":"tool","content":"{}"}}"#, "x".repeat(600));
        let message = Message::parse(text.as_bytes()).unwrap().encode().unwrap();
        let bodies = message.body_slices();
        let body = bodies[0][2..].as_ptr();
        let seen = with_search_text(&message.stored(&bodies), &mut String::new(), str::as_ptr).unwrap();
        assert_eq!(seen, body);
    }

    #[test]
    fn reasoning_is_taken_once_from_wherever_it_stands() {
        for (text, reasoning) in [
            (r#"{"reasoning_content":"a","reasoning":"a","reasoning_details":[{"text":"a"}]}"#, "a"),
            (r#"{"reasoning_content":"","reasoning":"b"}"#, "b"),
            (
                r#"{"reasoning_details":[{"type":"reasoning.summary","summary":"s"},{"text":"t"},{"data":"enc"}]}"#,
                "s\nt",
            ),
            (r#"{"content":[{"type":"thinking","thinking":"hm","signature":"xx"},{"type":"text","text":"no"}]}"#, "hm"),
            (r#"{"content":"no"}"#, ""),
        ] {
            assert_eq!(reasoned(text), reasoning, "{text}");
        }
    }

    #[test]
    fn a_headline_is_the_first_line_that_says_something() {
        for (text, line) in [
            (r#"{"content":"\n  first line \nsecond"}"#, "first line…"),
            (r#"{"content":"only\n"}"#, "only"),
            (r#"{"content":[{"type":"image"},{"type":"text","text":" \n seen"}]}"#, "seen"),
            (r#"{"content":[{"type":"text","text":"seen"},{"type":"image"}]}"#, "seen…"),
            (r#"{"content":" ","tool_calls":[{"function":{"name":"ls","arguments":"{}"}}]}"#, "ls({})"),
            (r#"{"content":[{"type":"tool_use","name":"ls","input":{"a":1}}]}"#, "ls({\"a\":1})"),
            (r#"{"content":[{"type":"image"},{"type":"document"}]}"#, "[image, document]"),
            (r#"{"content":null}"#, ""),
            (r#"{"content":"0123456789012345678901234567890123456789"}"#, "0123456789012345678901234567890123456789"),
            (r#"{"content":"01234567890123456789012345678901234567890"}"#, "012345678901234567890123456789012345678…"),
        ] {
            assert_eq!(headed(text, 40), line, "{text}");
        }
        assert_eq!(headed(r#"{"content":"ab"}"#, 1), "…");
        assert_eq!(headed(r#"{"content":"a"}"#, 1), "a");
        assert_eq!(headed(r#"{"content":"a"}"#, 0), "");
    }

    #[test]
    fn a_headline_cannot_steer_a_terminal() {
        let text = r#"{"content":"a\u001b[31m\u0007\u009b\u202eb\tc\u2066\ud83d\udb40\udc41\u007f"}"#;
        assert_eq!(headed(text, 80), "a␛[31m␇\u{fffd}b c\u{fffd}␡");
    }

    proptest! {
        #[test]
        fn no_message_makes_a_reader_of_text_panic(entries in any_entries(any_json()), chars_max in 0_usize..50) {
            let message = Message::from_json(Json::Object(entries)).unwrap().encode().unwrap();
            let bodies = message.body_slices();
            let stored = message.stored(&bodies);
            let mut text = String::new();
            search_text(&stored, &mut text).unwrap();
            with_search_text(&stored, &mut String::new(), |borrowed| assert_eq!(borrowed, text)).unwrap();
            reasoning_text(&stored, &mut text).unwrap();
            let line = headline(&stored, chars_max).unwrap();
            prop_assert!(line.chars().count() <= chars_max);
            prop_assert!(!line.chars().any(char::is_control));
        }
    }
}
