//! What can be told of a message without its bodies: the outline, and which bodies it names.
//!
//! These readers step over what they do not want, and check no more than they need to find the end of it; all else is
//! left to the whole walk (`read`). Invariant: what that walk takes, they take too (property test in `tests`).

use std::borrow::Cow;

use super::body::KnownBodies;
use super::cursor::Cursor;
use super::{BodyRef, CANON, CanonError, MESSAGE};
use crate::id::BodyId;
use crate::json::wtf8_to_str_lossy;
use crate::message::Role;

/// What can be told of a message without its bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline<'a> {
    /// Who speaks.
    pub role: Role,
    /// The tools it calls, in order, one for each call; for a result, the tool that it says it is from.
    pub tool_names: Vec<Cow<'a, str>>,
    /// Whether it calls tools.
    pub has_calls: bool,
}

/// The bodies that a message's canonical bytes name: each once, in order of first mention.
///
/// # Errors
/// When the bytes are so damaged that the end of a value cannot be found; all else is left to
/// [`tree`](crate::StoredMessage::tree).
pub fn body_refs(canon: &[u8]) -> Result<Vec<BodyRef>, CanonError> {
    let mut cursor = Cursor::begin(canon, CANON, MESSAGE)?;
    let mut known = KnownBodies::default();
    let mut references: Vec<BodyRef> = Vec::new();
    cursor.skip(0, &mut |reference| {
        if known.index(reference.id) == references.len() {
            references.push(reference);
        }
    })?;
    cursor.end()?;
    Ok(references)
}

/// Reads what can be told of a message without its bodies.
///
/// # Errors
/// When the bytes are so damaged that the end of a value cannot be found.
pub fn outline(canon: &[u8]) -> Result<Outline<'_>, CanonError> {
    let mut cursor = Cursor::begin(canon, CANON, MESSAGE)?;
    let mut role = Role::Other;
    let (mut in_blocks, mut in_calls, mut in_function) = (Vec::new(), Vec::new(), None);
    let (mut has_blocks, mut has_list, mut has_function) = (false, false, false);
    let (mut name, mut tool_name) = (None, None);
    // Of keys that occur twice the last one counts, so each of them starts anew.
    cursor.entries(|key, cursor| {
        match key {
            b"role" => role = cursor.string()?.map_or(Role::Other, Role::from_name),
            b"name" => name = cursor.string()?,
            b"tool_name" => tool_name = cursor.string()?,
            b"content" => {
                in_blocks.clear();
                has_blocks = false;
                cursor.elements(|cursor| {
                    let (mut name, mut is_call) = (None, false);
                    cursor.entries(|key, cursor| {
                        match key {
                            b"name" => name = cursor.string()?,
                            b"type" => is_call = cursor.string()? == Some(b"tool_use"),
                            _ => cursor.skip_one()?,
                        }
                        Ok(())
                    })?;
                    has_blocks |= is_call;
                    in_blocks.extend(name.filter(|_| is_call));
                    Ok(())
                })?;
            }
            b"tool_calls" => {
                in_calls.clear();
                has_list = false;
                cursor.elements(|cursor| {
                    has_list = true;
                    let mut name = None;
                    cursor.entries(|key, cursor| {
                        match key {
                            b"function" => name = function_name(cursor)?,
                            _ => cursor.skip_one()?,
                        }
                        Ok(())
                    })?;
                    in_calls.extend(name);
                    Ok(())
                })?;
            }
            b"function_call" => {
                has_function = cursor.rest.first() == Some(&b'{');
                in_function = function_name(cursor)?;
            }
            _ => cursor.skip_one()?,
        }
        Ok(())
    })?;
    cursor.end()?;
    let from = if role == Role::Tool { tool_name.or(name) } else { None };
    let names = in_blocks.into_iter().chain(in_calls).chain(in_function).chain(from);
    Ok(Outline {
        role,
        tool_names: names.map(wtf8_to_str_lossy).collect(),
        has_calls: has_blocks || has_list || has_function,
    })
}

/// The name in a call's function; none when it is no object or its name is a body.
fn function_name<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>, CanonError> {
    let mut name = None;
    cursor.entries(|key, cursor| {
        match key {
            b"name" => name = cursor.string()?,
            _ => cursor.skip_one()?,
        }
        Ok(())
    })?;
    Ok(name)
}

/// Steps through values whose bodies are not at hand.
impl<'a> Cursor<'a> {
    /// Steps over a value, looking only at what it needs to find the end of it.
    fn skip(&mut self, depth: usize, body: &mut impl FnMut(BodyRef)) -> Result<(), CanonError> {
        match self.byte()? {
            b'n' | b't' | b'f' => {}
            b'#' | b's' => {
                self.bytes()?;
            }
            b'b' => body(BodyRef { id: BodyId::from_bytes(self.hash()?), len: self.varint()? }),
            b'[' => {
                self.enter(depth)?;
                for _ in 0..self.count(1)? {
                    self.skip(depth + 1, body)?;
                }
            }
            b'{' => {
                self.enter(depth)?;
                for _ in 0..self.count(2)? {
                    self.bytes()?;
                    self.skip(depth + 1, body)?;
                }
            }
            _ => return Err(self.damaged("no value begins like this")),
        }
        Ok(())
    }

    /// Reads the entries of an object with `entry`, which takes the value; steps over anything else.
    fn entries(
        &mut self,
        mut entry: impl FnMut(&'a [u8], &mut Self) -> Result<(), CanonError>,
    ) -> Result<(), CanonError> {
        if self.rest.first() != Some(&b'{') {
            return self.skip_one();
        }
        self.byte()?;
        for _ in 0..self.count(2)? {
            let key = self.bytes()?;
            entry(key, self)?;
        }
        Ok(())
    }

    /// Reads the elements of an array with `element`, which takes the value; steps over anything else.
    fn elements(&mut self, mut element: impl FnMut(&mut Self) -> Result<(), CanonError>) -> Result<(), CanonError> {
        if self.rest.first() != Some(&b'[') {
            return self.skip_one();
        }
        self.byte()?;
        for _ in 0..self.count(1)? {
            element(self)?;
        }
        Ok(())
    }

    /// Reads a string that stands here in full; steps over anything else.
    fn string(&mut self) -> Result<Option<&'a [u8]>, CanonError> {
        if self.rest.first() != Some(&b's') {
            return self.skip_one().map(|()| None);
        }
        self.byte()?;
        self.bytes().map(Some)
    }

    /// Steps over a value, whatever it is.
    fn skip_one(&mut self) -> Result<(), CanonError> {
        self.skip(0, &mut |_| {})
    }
}

#[cfg(test)]
mod tests {
    //! That the outline says what the message says, whatever shape its calls have, and names every body.

    use proptest::prelude::*;

    use super::*;
    use crate::canon::body_id;
    use crate::canon::tests::{any_message, encoded, encoded_text};
    use crate::json::arbitrary::any_string;
    use crate::json::{Json, JsonString};
    use crate::limits::{CONTENT_BODY_BYTES_MIN, OTHER_BODY_BYTES_MIN};

    proptest! {
        #[test]
        fn the_bodies_named_are_those_kept_and_none_is_short(json in any_message()) {
            let message = encoded(&json);
            let named = body_refs(&message.canon).unwrap();
            let kept: Vec<BodyRef> = message.bodies.iter()
                .map(|body| BodyRef { id: body_id(&body.bytes), len: u64::try_from(body.bytes.len() - 2).unwrap() })
                .collect();
            prop_assert_eq!(named, kept);
            prop_assert!(message.bodies.iter().all(|body| body.bytes.len() >= 2 + CONTENT_BODY_BYTES_MIN));
        }

        #[test]
        fn the_outline_says_what_the_whole_message_says(json in any_message(), names in prop::collection::vec(any_string(), 0..3)) {
            let Json::Object(mut entries) = json else { unreachable!("made as an object") };
            let function = |name: &JsonString| Json::object([("function", Json::object([("name", Json::String(name.clone()))]))]);
            entries.push(("tool_calls".into(), Json::Array(names.iter().map(function).collect())));
            entries.push(("content".into(), Json::Null));
            entries.push(("role".into(), "assistant".into()));
            let message = encoded(&Json::Object(entries));
            let outline = outline(&message.canon).unwrap();
            let short: Vec<_> = names.iter().filter(|name| name.len() < OTHER_BODY_BYTES_MIN).map(JsonString::to_str_lossy).collect();
            prop_assert_eq!(outline.role, Role::Assistant);
            prop_assert_eq!(outline.has_calls, !names.is_empty());
            prop_assert_eq!(&outline.tool_names[..short.len()], &short);
        }
    }

    #[test]
    fn the_outline_finds_the_calls_of_every_shape() {
        for (text, role, names, has_calls) in [
            (
                r#"{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"ls","arguments":"{}"}},{"function":{"name":"cat"}}]}"#,
                Role::Assistant,
                vec!["ls", "cat"],
                true,
            ),
            (
                r#"{"role":"assistant","content":[{"type":"text","name":"no","text":"t"},{"type":"tool_use","name":"grep","input":{"name":"no"}}]}"#,
                Role::Assistant,
                vec!["grep"],
                true,
            ),
            (r#"{"role":"tool","tool_call_id":"1","name":"ls","content":"out"}"#, Role::Tool, vec!["ls"], false),
            (r#"{"role":"function","name":"ls","tool_name":"lss","content":"out"}"#, Role::Tool, vec!["lss"], false),
            (r#"{"role":"user","name":"Bob","content":"hi"}"#, Role::User, vec![], false),
            (
                r#"{"role":"assistant","function_call":{"name":"old","arguments":""}}"#,
                Role::Assistant,
                vec!["old"],
                true,
            ),
            (r#"{"role":"assistant","tool_calls":[{}],"tool_calls":[]}"#, Role::Assistant, vec![], false),
            (r#"{"role":"assistant","tool_calls":[{}]}"#, Role::Assistant, vec![], true),
            ("{}", Role::Other, vec![], false),
        ] {
            let message = encoded_text(text);
            let outline = outline(&message.canon).unwrap();
            assert_eq!((outline.role, outline.has_calls), (role, has_calls), "{text}");
            assert_eq!(outline.tool_names, names, "{text}");
        }
    }
}
