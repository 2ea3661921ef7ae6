//! Messages: one JSON object as a host said it, nothing dropped.
//!
//! We read what we need of it (who speaks, what is text, which tools are called) and never write into it. What
//! belongs to the place where it stands and not to what it says (a host's timestamps, marks, cache hints) is taken
//! out as *volatile* before it gets its id.
//!
//! Invariant: a `Message` is an object, no deeper than [`JSON_DEPTH_MAX`], and its numbers are JSON numbers; so
//! what is encoded can always be read back.
//! Not here: the bytes and the id (`canon`), what search sees of it (`text`).

use crate::canon::{self, EncodedMessage};
use crate::json::{Json, JsonError, JsonString, is_number};
use crate::limits::{JSON_DEPTH_MAX, MESSAGE_BYTES_MAX};

/// Who speaks, by the names that OpenAI's and Anthropic's formats use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// `system`
    System,
    /// `developer`
    Developer,
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `tool`, and `function` as it was called before.
    Tool,
    /// Any other, or none.
    Other,
}

impl Role {
    /// The role of this name, compared exactly.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Self {
        match name {
            b"system" => Self::System,
            b"developer" => Self::Developer,
            b"user" => Self::User,
            b"assistant" => Self::Assistant,
            b"tool" | b"function" => Self::Tool,
            _ => Self::Other,
        }
    }

    /// A name to show and to keep in an index; `other` for what has none.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::Other => "other",
        }
    }
}

/// Why a value is no message that we keep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The text is no JSON.
    #[error("a message is not JSON")]
    Json(#[from] JsonError),
    /// JSON, but no object.
    #[error("a message must be a JSON object")]
    NotObject,
    /// More than [`MESSAGE_BYTES_MAX`].
    #[error("a message may have at most {max} bytes, this one has {bytes} or more")]
    TooLarge {
        /// How many it has at least.
        bytes: usize,
        /// How many it may have.
        max: usize,
    },
    /// More than [`JSON_DEPTH_MAX`] arrays and objects inside each other.
    #[error("a message may have at most {JSON_DEPTH_MAX} arrays and objects inside each other")]
    TooDeep,
    /// A number that was made by hand and is none.
    #[error("{0:?} is not a JSON number")]
    BadNumber(Box<str>),
}

/// One message as a host said it. See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    json: Json,
}

impl Message {
    /// Reads a message from JSON text.
    ///
    /// # Errors
    /// When the text is too long, no JSON, or no object.
    pub fn parse(bytes: &[u8]) -> Result<Self, MessageError> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLarge { bytes: bytes.len(), max: MESSAGE_BYTES_MAX });
        }
        match Json::parse(bytes)? {
            json @ Json::Object(_) => Ok(Self { json }),
            _ => Err(MessageError::NotObject),
        }
    }

    /// Takes a value that was read elsewhere, or made by hand.
    ///
    /// # Errors
    /// When it is no object, too deep, or has a number that is none.
    pub fn from_json(json: Json) -> Result<Self, MessageError> {
        let Json::Object(_) = json else { return Err(MessageError::NotObject) };
        check(&json, 0)?;
        Ok(Self { json })
    }

    /// The object.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.json
    }

    /// The object, given away.
    #[must_use]
    pub fn into_json(self) -> Json {
        self.json
    }

    /// The value under a key of the object; of several the last one.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        self.json.get(key)
    }

    /// Who speaks.
    #[must_use]
    pub fn role(&self) -> Role {
        match self.get("role") {
            Some(Json::String(name)) => Role::from_name(name.as_bytes()),
            _ => Role::Other,
        }
    }

    /// Takes the keys of the object out that `is_volatile` names, and returns what was under them as one compact JSON
    /// object; empty when there was none.
    pub fn take_volatile(&mut self, is_volatile: impl Fn(&str) -> bool) -> Vec<u8> {
        let Json::Object(entries) = &mut self.json else { return Vec::new() };
        let taken = entries.extract_if(.., |(key, _)| key.as_str().is_some_and(&is_volatile));
        let taken: Vec<(JsonString, Json)> = taken.collect();
        if taken.is_empty() { Vec::new() } else { Json::Object(taken).to_text() }
    }

    /// Puts back what [`Self::take_volatile`] returned, behind the other keys.
    ///
    /// # Errors
    /// When the bytes are neither empty nor a JSON object.
    pub fn with_volatile(mut self, volatile: &[u8]) -> Result<Self, MessageError> {
        if volatile.is_empty() {
            return Ok(self);
        }
        let Json::Object(back) = Json::parse(volatile)? else { return Err(MessageError::NotObject) };
        if let Json::Object(entries) = &mut self.json {
            entries.extend(back);
        }
        Ok(self)
    }

    /// The bytes to keep and the id they give.
    ///
    /// # Errors
    /// [`MessageError::TooLarge`].
    pub fn encode(&self) -> Result<EncodedMessage, MessageError> {
        canon::encode(&self.json)
    }
}

/// Checks a value that does not come from our parser.
fn check(json: &Json, depth: usize) -> Result<(), MessageError> {
    if depth >= JSON_DEPTH_MAX && matches!(json, Json::Array(_) | Json::Object(_)) {
        return Err(MessageError::TooDeep);
    }
    match json {
        Json::Number(literal) if !is_number(literal.as_bytes()) => Err(MessageError::BadNumber(literal.clone())),
        Json::Array(elements) => elements.iter().try_for_each(|element| check(element, depth + 1)),
        Json::Object(entries) => entries.iter().try_for_each(|(_, value)| check(value, depth + 1)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    //! What is a message and what is none, and that volatile keys leave and come back whole.

    use super::*;

    fn message(text: &str) -> Message {
        Message::parse(text.as_bytes()).expect(text)
    }

    #[test]
    fn only_objects_are_messages() {
        assert_eq!(Message::parse(b"[1]"), Err(MessageError::NotObject));
        assert!(matches!(Message::parse(b"{"), Err(MessageError::Json(_))));
        assert_eq!(Message::from_json(Json::Null), Err(MessageError::NotObject));
    }

    #[test]
    fn a_value_made_by_hand_is_checked_like_one_that_was_read() {
        let bad = Json::object([("n", Json::Number("1,5".into()))]);
        assert_eq!(Message::from_json(bad), Err(MessageError::BadNumber("1,5".into())));
        let mut deep = Json::Null;
        for _ in 0..JSON_DEPTH_MAX - 1 {
            deep = Json::Array(vec![deep]);
        }
        assert!(Message::from_json(Json::object([("deep", deep.clone())])).is_ok());
        let deeper = Json::object([("deep", Json::Array(vec![deep]))]);
        assert_eq!(Message::from_json(deeper), Err(MessageError::TooDeep));
    }

    #[test]
    fn a_message_beyond_the_limit_is_refused_before_it_is_read() {
        let error = Message::parse(&vec![b' '; MESSAGE_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(error, MessageError::TooLarge { bytes: MESSAGE_BYTES_MAX + 1, max: MESSAGE_BYTES_MAX });
    }

    #[test]
    fn roles_are_compared_exactly_and_the_last_one_counts() {
        assert_eq!(message(r#"{"role":"user","role":"function"}"#).role(), Role::Tool);
        for text in ["{}", r#"{"role":"User"}"#, r#"{"role":"human"}"#, r#"{"role":null}"#] {
            assert_eq!(message(text).role(), Role::Other, "{text}");
        }
    }

    #[test]
    fn volatile_keys_leave_in_order_and_come_back_at_the_end() {
        let mut kept = message(r#"{"t":1,"role":"user","_x":[1, 2],"content":"t","t":2.0}"#);
        let volatile = kept.take_volatile(|key| ["t", "_x", "absent"].contains(&key));
        assert_eq!(volatile, br#"{"t":1,"_x":[1,2],"t":2.0}"#);
        assert_eq!(kept, message(r#"{"role":"user","content":"t"}"#));
        let back = kept.with_volatile(&volatile).unwrap();
        assert_eq!(back, message(r#"{"role":"user","content":"t","t":1,"_x":[1,2],"t":2.0}"#));
    }

    #[test]
    fn without_volatile_keys_nothing_is_taken_and_nothing_put_back() {
        let mut said = message(r#"{"role":"user"}"#);
        assert_eq!(said.take_volatile(|key| key == "t"), b"");
        assert_eq!(said.clone().with_volatile(b"").unwrap(), said);
        assert_eq!(said.with_volatile(b"[]"), Err(MessageError::NotObject));
    }
}
