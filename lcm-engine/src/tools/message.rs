//! A message as a tool shows it: its text, its calls, and by wish all else, each as a text that can be shown in parts.
//!
//! Readable by default: the text of a string or of blocks, results among them; calls as JSON. What is then left out
//! (images, thoughts, keys of hosts) is named. Exact by wish: content that is no text as compact JSON, and all other
//! keys; role, content, calls and the rest are then the whole message. Half surrogates are shown replaced in readable
//! text, and as their escapes in JSON: exactly, a string that has some is shown as JSON.

use lcm_core::canon::{MessageTree, TreeValue};
use lcm_core::{Json, JsonString, Role};

/// How a message is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Readable,
    Exact,
}

/// A message taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// What it says.
    pub(super) content: String,
    /// Whether it has a key for that, be it empty.
    pub(super) has_content: bool,
    /// Whether that is JSON, because it was no text.
    pub(super) is_json: bool,
    /// What it calls, as JSON; empty for nothing.
    pub(super) calls: String,
    /// All other keys as a JSON object; empty for none, or when they were not asked for.
    pub(super) rest: String,
    /// The id of the call that it answers.
    pub(super) call_id: Option<String>,
    /// The tool that it is from.
    pub(super) name: Option<String>,
    /// What is not shown, by its name.
    pub(super) left_out: Vec<String>,
}

/// A longer text is no name of a tool, a call or a kind of block.
const NAME_BYTES_MAX: usize = 80;
/// Names of what is left out.
const LEFT_OUT_MAX: usize = 8;

impl Parts {
    pub(super) fn of(message: &MessageTree<'_>, form: Form) -> Self {
        let root = message.root();
        let mut parts = Self::default();
        if let Some(content) = root.get("content") {
            parts.has_content = true;
            parts.take_content(content, form);
        }
        let mut calls = Vec::new();
        for key in ["tool_calls", "function_call"] {
            if let Some(value) = root.get(key).filter(|value| !value.is_null()) {
                calls.push((key, value));
            }
        }
        match (calls.as_slice(), form) {
            ([], _) => {}
            ([("tool_calls", value)], _) => parts.push_calls(&json_of(*value)),
            (several, _) => {
                let object = Json::object(several.iter().map(|(key, value)| (*key, value.to_json())));
                parts.push_calls(&String::from_utf8_lossy(&object.to_text()));
            }
        }
        let name = |key: &str| name_of(root.get(key)?);
        if parts.call_id.is_none() {
            parts.call_id = name("tool_call_id");
        }
        if message.role() == Role::Tool {
            parts.name = name("name").or_else(|| name("tool_name"));
        }
        let mut rest = Vec::new();
        let entries: Vec<(&[u8], TreeValue<'_, '_>)> = root.entries().collect();
        for (nth, (key, value)) in entries.iter().copied().enumerate() {
            let is_shown = match key {
                b"role" => value.as_str() == Some(message.role().name()),
                b"content" => true,
                b"tool_calls" | b"function_call" => !value.is_null(),
                _ => false,
            };
            // Of a key that occurs twice the last one counts; exactly, the others are there too.
            let is_last = || entries[nth + 1..].iter().all(|(other, _)| *other != key);
            let is_ours = matches!(key, b"role" | b"content" | b"tool_calls" | b"function_call");
            if is_ours && (form == Form::Readable || is_shown && is_last()) {
                continue;
            }
            let is_name = matches!(key, b"tool_call_id" | b"name" | b"tool_name") && message.role() == Role::Tool;
            let is_shown = is_name && name_of(value).is_some();
            match form {
                Form::Exact => {
                    let name = JsonString::from_wtf8(key.to_vec());
                    let name = name.unwrap_or_else(|| JsonString::from(&*String::from_utf8_lossy(key)));
                    rest.push((name, value.to_json()));
                }
                Form::Readable if is_shown || value.is_null() => {}
                Form::Readable => parts.leave_out(&String::from_utf8_lossy(key)),
            }
        }
        if !rest.is_empty() {
            parts.rest = String::from_utf8_lossy(&Json::Object(rest).to_text()).into_owned();
        }
        parts
    }

    fn take_content(&mut self, content: TreeValue<'_, '_>, form: Form) {
        let text = match form {
            Form::Readable => content.to_str_lossy(),
            Form::Exact => content.as_str().map(Into::into),
        };
        if let Some(text) = text {
            self.content = text.into_owned();
            return;
        }
        if content.is_null() && form == Form::Readable {
            return;
        }
        if form == Form::Exact || content.elements().next().is_none() {
            (self.content, self.is_json) = (json_of(content), true);
            return;
        }
        let mut pieces: Vec<String> = Vec::new();
        for block in content.elements() {
            let kind = block.get("type").and_then(TreeValue::to_str_lossy).unwrap_or_default();
            let said = block.to_str_lossy().or_else(|| block.get("text").and_then(TreeValue::to_str_lossy));
            match (said, &*kind) {
                (Some(said), _) => pieces.push(said.into_owned()),
                (None, "tool_use") => self.push_calls(&json_of(block)),
                (None, "tool_result") => {
                    self.call_id = block.get("tool_use_id").and_then(name_of);
                    if let Some(inner) = block.get("content") {
                        pieces.extend(inner.to_str_lossy().map(|said| said.into_owned()));
                        for piece in inner.elements() {
                            let said =
                                piece.to_str_lossy().or_else(|| piece.get("text").and_then(TreeValue::to_str_lossy));
                            match said {
                                Some(said) => pieces.push(said.into_owned()),
                                None => self.leave_out(&kind_of(piece)),
                            }
                        }
                    }
                }
                (None, _) => self.leave_out(&kind_of(block)),
            }
        }
        self.content = pieces.join("\n");
    }

    fn push_calls(&mut self, json: &str) {
        if !self.calls.is_empty() {
            self.calls.push('\n');
        }
        self.calls.push_str(json);
    }

    fn leave_out(&mut self, name: &str) {
        let name = if is_name(name) { name } else { "other" };
        if self.left_out.len() < LEFT_OUT_MAX && !self.left_out.iter().any(|known| known == name) {
            self.left_out.push(name.to_owned());
        }
    }
}

/// A text that can only be a name: nothing that somebody says could hide in it.
fn name_of(value: TreeValue<'_, '_>) -> Option<String> {
    value.as_str().filter(|text| is_name(text)).map(str::to_owned)
}

/// Letters, digits and the signs of names, and not many.
pub(super) fn is_name(text: &str) -> bool {
    let is_sign = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.' | b':' | b'/');
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_sign)
}

fn kind_of(block: TreeValue<'_, '_>) -> String {
    match block.get("type").and_then(TreeValue::to_str_lossy) {
        Some(kind) if !kind.is_empty() => kind.into_owned(),
        _ => "block".to_owned(),
    }
}

fn json_of(value: TreeValue<'_, '_>) -> String {
    let mut json = Vec::new();
    value.write_json(&mut json);
    String::from_utf8_lossy(&json).into_owned()
}

#[cfg(test)]
mod tests {
    use lcm_core::Message;

    use super::*;
    use crate::hosts::with_tree;

    fn parts(json: &str, form: Form) -> Parts {
        let encoded = Message::parse(json.as_bytes()).unwrap().encode().unwrap();
        with_tree(&encoded, |tree| Parts::of(tree, form)).unwrap()
    }

    #[test]
    fn texts_blocks_and_calls_are_readable_and_the_rest_is_named() {
        assert_eq!(parts(r#"{"role":"user","content":"a\ud83d"}"#, Form::Readable).content, "a\u{fffd}");
        let blocks = r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{}},"b",{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"c"}]}]}"#;
        let read = parts(blocks, Form::Readable);
        assert_eq!((read.content.as_str(), read.call_id.as_deref()), ("a\nb\nc", Some("t1")));
        assert_eq!(read.left_out, ["image"]);
        let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"x"}],"reasoning_content":"hm"}"#;
        let read = parts(call, Form::Readable);
        assert_eq!((read.content.as_str(), read.calls.as_str()), ("", r#"[{"id":"x"}]"#));
        assert_eq!(read.left_out, ["reasoning_content"]);
        let used = r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"read","input":{"a":1}}]}"#;
        assert!(parts(used, Form::Readable).calls.contains(r#""input":{"a":1}"#));
        let object = parts(r#"{"role":"user","content":{"a":[1.50]}}"#, Form::Readable);
        assert_eq!((object.content.as_str(), object.is_json), (r#"{"a":[1.50]}"#, true));
    }

    #[test]
    fn exactly_nothing_is_left_out() {
        let json = r#"{"role":"tool","content":[{"type":"image","data":"x"}],"tool_call_id":"c","z":[1.0,"\ud83d"]}"#;
        let read = parts(json, Form::Exact);
        assert!(read.is_json && read.left_out.is_empty());
        assert_eq!(read.content, r#"[{"type":"image","data":"x"}]"#);
        assert_eq!(read.rest, r#"{"tool_call_id":"c","z":[1.0,"\ud83d"]}"#);
        let half = parts(r#"{"role":"user","content":"a\ud83d"}"#, Form::Exact);
        assert_eq!((half.content.as_str(), half.is_json, half.rest.as_str()), (r#""a\ud83d""#, true, ""));
        let odd = parts(
            r#"{"role":"critic","content":1,"tool_calls":null,"content":null,"\ud83d":2,"role":"critic"}"#,
            Form::Exact,
        );
        assert_eq!((odd.content.as_str(), odd.calls.as_str()), ("null", ""));
        assert_eq!(odd.rest, r#"{"role":"critic","content":1,"tool_calls":null,"\ud83d":2,"role":"critic"}"#);
        assert!(!parts(r#"{"role":"user"}"#, Form::Exact).has_content);
    }
}
