//! A message taken apart for whoever summarises it: what was said, what was called with what, what came back.
//!
//! Read from both common shapes of messages. Texts are lossy where a message holds unpaired surrogates: they are
//! shown, never stored. Pure.

use std::borrow::Cow;

use lcm_core::canon::{MessageTree, TreeValue};
use lcm_core::{Json, Role};

/// Values of one call that are told; a call with more of them carries data.
const ARGUMENTS_MAX: usize = 256;
/// How deep values may lie in the arguments of a call.
const ARGUMENTS_DEPTH_MAX: usize = 4;

/// A message taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// What was said beside calls and results.
    pub text: String,
    /// Calls, in order.
    pub calls: Vec<Called>,
    /// Results, in order.
    pub results: Vec<String>,
    /// Which of them the host marked as failed, by their position.
    pub failed: Vec<usize>,
    /// Images and files that are no text.
    pub attachments: usize,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    /// The tool.
    pub name: String,
    /// Its arguments: string values by the name that stands nearest, in order, those that are nested too; numbers
    /// and booleans are left out.
    pub arguments: Vec<(String, String)>,
}

impl Told {
    /// Takes a message apart.
    #[must_use]
    pub fn of(message: &MessageTree<'_>) -> Self {
        let root = message.root();
        let mut told = Self::default();
        for call in root.get("tool_calls").into_iter().flat_map(TreeValue::elements) {
            if let Some(function) = call.get("function") {
                told.calls.push(called(function, "arguments"));
            }
        }
        if let Some(function) = root.get("function_call").filter(|call| call.is_object()) {
            told.calls.push(called(function, "arguments"));
        }
        let Some(content) = root.get("content") else { return told };
        let mut text = String::new();
        push(content, &mut text);
        for block in content.elements() {
            match block.get("type").and_then(TreeValue::as_wtf8) {
                Some(b"tool_use") => told.calls.push(called(block, "input")),
                Some(b"tool_result") => {
                    let mut result = String::new();
                    if let Some(content) = block.get("content") {
                        push(content, &mut result);
                        for inner in content.elements() {
                            push_line(inner.get("text").unwrap_or(inner), &mut result);
                        }
                    }
                    let is_error = block.get("is_error").map(TreeValue::to_json);
                    if is_error.and_then(|json| json.as_bool()) == Some(true) {
                        told.failed.push(told.results.len());
                    }
                    told.results.push(result);
                }
                Some(b"thinking" | b"redacted_thinking") => {}
                _ => match block.get("text") {
                    Some(said) => push_line(said, &mut text),
                    None if block.is_object() => told.attachments += 1,
                    None => push_line(block, &mut text),
                },
            }
        }
        if message.role() == Role::Tool {
            told.results.push(text);
        } else {
            told.text = text;
        }
        told
    }

    /// What there is one place for when it is shown in part ([`super::speech::Dialect::with_text`]): its result, else its
    /// text.
    #[must_use]
    pub fn main_text(&self) -> &str {
        self.results.first().unwrap_or(&self.text)
    }
}

fn called(function: TreeValue<'_, '_>, key: &str) -> Called {
    let name = function.get("name").and_then(TreeValue::to_str_lossy).unwrap_or_default().into_owned();
    let mut arguments = Vec::new();
    if let Some(given) = function.get(key) {
        match given.to_str_lossy() {
            // OpenAI's are JSON in a string.
            Some(text) => match Json::parse(text.as_bytes()) {
                Ok(object @ Json::Object(_)) => flatten("", &object, 0, &mut arguments),
                _ => arguments.push((String::new(), text.into_owned())),
            },
            None => flatten("", &given.to_json(), 0, &mut arguments),
        }
    }
    Called { name, arguments }
}

/// Strings under a value, each with the nearest name above it.
fn flatten(name: &str, value: &Json, depth: usize, out: &mut Vec<(String, String)>) {
    if depth > ARGUMENTS_DEPTH_MAX || out.len() >= ARGUMENTS_MAX {
        return;
    }
    match value {
        Json::String(text) => out.push((name.to_owned(), text.to_str_lossy().into_owned())),
        Json::Array(values) => values.iter().for_each(|value| flatten(name, value, depth + 1, out)),
        Json::Object(entries) => {
            for (name, value) in entries {
                flatten(&name.to_str_lossy(), value, depth + 1, out);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

fn push(value: TreeValue<'_, '_>, out: &mut String) {
    if let Some(text) = value.to_str_lossy() {
        out.push_str(&text);
    }
}

fn push_line(value: TreeValue<'_, '_>, out: &mut String) {
    if let Some(text) = value.to_str_lossy().filter(|text: &Cow<'_, str>| !text.is_empty()) {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&text);
    }
}

#[cfg(test)]
mod tests {
    use lcm_core::Message;

    use super::*;

    fn told(json: &str) -> Told {
        let message = Message::parse(json.as_bytes()).unwrap().encode().unwrap();
        Told::of(&message.stored(&message.body_slices()).tree().unwrap())
    }

    #[test]
    fn both_formats_say_the_same() {
        let openai = told(
            r#"{"role":"assistant","content":"so","tool_calls":[{"function":{"name":"read","arguments":"{\"path\":\"a.rs\",\"n\":3}"}}]}"#,
        );
        let blocks = told(
            r#"{"role":"assistant","content":[{"type":"text","text":"so"},{"type":"tool_use","name":"read","input":{"path":"a.rs","n":3}}]}"#,
        );
        assert_eq!(openai, blocks);
        assert_eq!(openai.calls[0].arguments, [("path".to_owned(), "a.rs".to_owned())]);
        let result = told(r#"{"role":"tool","content":"done"}"#);
        assert_eq!((result.results, result.text.as_str()), (vec!["done".to_owned()], ""));
        let result = told(
            r#"{"role":"user","content":[{"type":"tool_result","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]}]}"#,
        );
        assert_eq!(result.results, ["x\ny"]);
        let failed = told(
            r#"{"role":"user","content":[{"type":"tool_result","content":"a"},{"type":"tool_result","content":"b","is_error":true}]}"#,
        );
        assert_eq!(failed.failed, [1]);
        let nested = told(
            r#"{"role":"assistant","tool_calls":[{"function":{"name":"edit","arguments":"{\"edits\":[{\"path\":\"a.rs\"},{\"path\":\"b.rs\"}],\"all\":true}"}}]}"#,
        );
        let paths: Vec<&str> = nested.calls[0].arguments.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(paths, ["a.rs", "b.rs"]);
        assert_eq!(told(r#"{"role":"user","content":[{"type":"image"},{"type":"text","text":"see"}]}"#).attachments, 1);
    }
}
