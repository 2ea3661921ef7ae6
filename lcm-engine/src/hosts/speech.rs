//! What the rules of providers see of a message: who speaks, what it calls, what it answers, whether it says anything.
//!
//! Read from both common shapes of messages, OpenAI's (`tool_calls`, `tool_call_id`) and Anthropic's (blocks under
//! `content`); a message may mix them. Pure.
//! Not here: the rules (`valid`), and which messages belong together (`compress::atoms`).

use lcm_core::canon::{MessageTree, TreeValue};
use lcm_core::{Json, Role};

/// The id under which a call is answered, as the host gave it. Empty where it gave none: then position alone tells.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(Box<[u8]>);

impl CallId {
    /// An id from its bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What the rules of providers see of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Speech {
    /// Who speaks.
    pub role: Role,
    /// The calls it makes, in order.
    pub calls: Vec<CallId>,
    /// The calls it answers, in order.
    pub results: Vec<CallId>,
    /// Whether it says anything beside them: text that is not blank, an image, a thought.
    pub says: bool,
}

impl Speech {
    /// Reads it.
    #[must_use]
    pub fn of(message: &MessageTree<'_>) -> Self {
        let root = message.root();
        let mut speech = Self { role: message.role(), calls: Vec::new(), results: Vec::new(), says: false };
        let id_of = |value: TreeValue<'_, '_>, key| {
            CallId::new(value.get(key).and_then(TreeValue::as_wtf8).unwrap_or_default())
        };
        for call in root.get("tool_calls").into_iter().flat_map(TreeValue::elements) {
            if call.is_object() {
                speech.calls.push(id_of(call, "id"));
            }
        }
        if root.get("function_call").is_some_and(TreeValue::is_object) {
            speech.calls.push(CallId::new(b""));
        }
        if speech.role == Role::Tool {
            speech.results.push(id_of(root, "tool_call_id"));
        }
        if let Some(content) = root.get("content") {
            speech.says |= says(content);
            for block in content.elements() {
                match block.get("type").and_then(TreeValue::as_wtf8) {
                    Some(b"tool_use") => speech.calls.push(id_of(block, "id")),
                    Some(b"tool_result") => speech.results.push(id_of(block, "tool_use_id")),
                    Some(b"text" | b"input_text" | b"output_text") | None => {
                        speech.says |= says(block) || block.get("text").is_some_and(says);
                    }
                    Some(_) => speech.says = true,
                }
            }
        }
        speech.says |= ["refusal", "audio"].into_iter().filter_map(|key| root.get(key)).any(|value| !value.is_null());
        speech
    }

    /// Whether it stands at the head of a list and nowhere else.
    #[must_use]
    pub fn is_system(&self) -> bool {
        matches!(self.role, Role::System | Role::Developer)
    }

    /// Whether a person, or a host in their name, asks for something: a user's message that answers no call. What stands
    /// beside results in one message is the host's, and nothing may come between them and their call.
    #[must_use]
    pub fn is_request(&self) -> bool {
        self.role == Role::User && self.results.is_empty()
    }

    /// Whether there is nothing in it that a provider would take.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.says && self.calls.is_empty() && self.results.is_empty()
    }
}

/// Whether a string has more than blanks.
fn says(value: TreeValue<'_, '_>) -> bool {
    value.as_wtf8().is_some_and(|text| !text.trim_ascii().is_empty())
}

/// In which format a host takes messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Chat messages: results are messages of their own, a text is a string.
    #[default]
    OpenAi,
    /// Content blocks: results are blocks of the user's message behind the call; roles alternate.
    Anthropic,
}

impl Dialect {
    /// A message of ours, with nothing but a text.
    #[must_use]
    pub fn message(self, role: &str, text: &str) -> Json {
        let content = match self {
            Self::OpenAi => Json::from(text),
            Self::Anthropic => Json::Array(vec![Json::object([("type", "text".into()), ("text", text.into())])]),
        };
        Json::object([("role", role.into()), ("content", content)])
    }

    /// The same message with another text where its result, else its text, was; `None` where there is no one place
    /// for it: several results, images, thoughts that are sealed.
    #[must_use]
    pub fn with_text(message: &Json, text: &str) -> Option<Json> {
        let Json::Object(entries) = message else { return None };
        let mut entries = entries.clone();
        let content = entries.iter_mut().rfind(|(key, _)| key.as_bytes() == b"content").map(|(_, content)| content)?;
        match content {
            Json::String(said) => *said = text.into(),
            Json::Array(blocks) => {
                let [Json::Object(block)] = blocks.as_mut_slice() else { return None };
                let kind = block.iter().rfind(|(key, _)| key.as_bytes() == b"type").map(|(_, kind)| kind.clone());
                let key: &[u8] = match kind.as_ref().and_then(Json::as_str) {
                    Some("text") => b"text",
                    Some("tool_result") => b"content",
                    _ => return None,
                };
                let said = block.iter_mut().rfind(|(name, _)| name.as_bytes() == key).map(|(_, said)| said)?;
                match said {
                    Json::String(said) => *said = text.into(),
                    Json::Array(inner) if inner.iter().all(|block| block.get("text").is_some()) => {
                        *said = Json::Array(vec![Json::object([("type", "text".into()), ("text", text.into())])]);
                    }
                    _ => return None,
                }
            }
            _ => return None,
        }
        Some(Json::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    //! That both formats are read alike.

    use lcm_core::Message;

    use super::*;

    fn speech(json: &str) -> Speech {
        let message = Message::parse(json.as_bytes()).unwrap().encode().unwrap();
        Speech::of(&message.stored(&message.body_slices()).tree().unwrap())
    }

    fn ids(ids: &[CallId]) -> Vec<&str> {
        ids.iter().map(|id| str::from_utf8(id.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn calls_and_results_are_read_in_both_formats() {
        let call = speech(r#"{"role":"assistant","content":null,"tool_calls":[{"id":"a"},{"id":"b"}]}"#);
        assert_eq!((ids(&call.calls), call.says), (vec!["a", "b"], false));
        let call =
            speech(r#"{"role":"assistant","content":[{"type":"text","text":"so"},{"type":"tool_use","id":"a"}]}"#);
        assert_eq!((ids(&call.calls), call.says), (vec!["a"], true));
        let result = speech(r#"{"role":"tool","tool_call_id":"a","content":"x"}"#);
        assert_eq!((ids(&result.results), result.is_request()), (vec!["a"], false));
        let result = speech(r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}"#);
        assert_eq!((ids(&result.results), result.says, result.is_request()), (vec!["a"], false, false));
        assert!(speech(r#"{"role":"assistant","function_call":{"name":"f"}}"#).calls == [CallId::new(b"")]);
    }

    #[test]
    fn blank_messages_are_empty_and_images_are_not() {
        for blank in [r#"null"#, r#""""#, r#"" \n""#, "[]", r#"[{"type":"text","text":""}]"#] {
            assert!(speech(&format!(r#"{{"role":"assistant","content":{blank}}}"#)).is_empty(), "{blank}");
        }
        assert!(!speech(r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}"#).is_empty());
        assert!(!speech(r#"{"role":"user","content":["plain"]}"#).is_empty());
    }

    #[test]
    fn a_text_is_replaced_where_there_is_one_place_for_it() {
        let replaced = |json: &str| {
            let message = Message::parse(json.as_bytes()).unwrap();
            Dialect::with_text(message.json(), "cut").map(|json| String::from_utf8(json.to_text()).unwrap())
        };
        assert_eq!(
            replaced(r#"{"role":"tool","content":"long","tool_call_id":"a"}"#).as_deref(),
            Some(r#"{"role":"tool","content":"cut","tool_call_id":"a"}"#)
        );
        let result = r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"long"}]}"#;
        assert_eq!(replaced(result).as_deref(), Some(&*result.replace("long", "cut")));
        assert_eq!(replaced(r#"{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"}]}"#), None);
        assert_eq!(replaced(r#"{"role":"assistant","content":null}"#), None);
    }
}
