//! A stored message that was read: JSON that borrows all its text, in the key order of its first form.
//!
//! Whatever wants to look at a message (JSON, search text, tokens) looks here. All values lie in one list, each
//! naming the one that follows it, so that a tree costs one allocation and another key order none.
//!
//! Invariant, kept by the walk that makes it (`read`): the root is an object, every slot named is there, behind the
//! key of an entry stands its value, and strings are what their variant says.

use std::borrow::Cow;

use crate::json::{Json, JsonString, is_wtf8, write_utf8, write_wtf8, wtf8_to_str_lossy};
use crate::message::Role;

/// A stored message that was read: JSON that borrows all its text.
#[derive(Clone, Debug)]
pub struct MessageTree<'a> {
    /// Every value, and before the value of an entry its key. The root comes first.
    pub(super) slots: Vec<Slot<'a>>,
    /// Bytes of what was read, for whoever makes room for it.
    pub(super) bytes: usize,
}

/// A value, or the key of an entry, and what follows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<'a> {
    pub(super) value: Value<'a>,
    /// The next element, or the key of the next entry in the order of the first form; [`NONE`] behind the last.
    pub(super) next: usize,
}

/// A value as it lies in the list: what is inside it is named by the index of its first slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(&'a str),
    /// A string of ASCII: most keys. Half as dear to check as UTF-8.
    Ascii(&'a [u8]),
    /// A string with at least one unpaired surrogate.
    Wtf8(&'a [u8]),
    /// The first element, or [`NONE`].
    Array(usize),
    /// The key of the first entry, or [`NONE`].
    Object(usize),
}

impl<'a> Value<'a> {
    /// A string, when the bytes are WTF-8.
    pub(super) fn string(bytes: &'a [u8]) -> Option<Self> {
        /// Longer ones are likely to be asked for as text.
        const ASCII_BYTES_MAX: usize = 32;
        if bytes.len() <= ASCII_BYTES_MAX && bytes.is_ascii() {
            return Some(Self::Ascii(bytes));
        }
        match str::from_utf8(bytes) {
            Ok(text) => Some(Self::Text(text)),
            Err(_) => is_wtf8(bytes).then_some(Self::Wtf8(bytes)),
        }
    }

    /// The bytes of a string.
    pub(super) fn as_wtf8(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(text) => Some(text.as_bytes()),
            Self::Ascii(bytes) | Self::Wtf8(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// Where a slot could be named and there is none.
pub(super) const NONE: usize = usize::MAX;

impl<'a> MessageTree<'a> {
    /// The message: an object.
    #[must_use]
    pub fn root(&self) -> TreeValue<'_, 'a> {
        TreeValue { tree: self, at: 0 }
    }

    /// Appends the message as compact JSON text, in the key order of its first form.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        // Text grows by its escapes, mostly by less than an eighth.
        out.reserve(self.bytes + self.bytes / 8);
        self.root().write_json(out);
    }

    /// Who speaks.
    #[must_use]
    pub fn role(&self) -> Role {
        self.root().get("role").and_then(TreeValue::as_wtf8).map_or(Role::Other, Role::from_name)
    }
}

/// One value of a [`MessageTree`].
#[derive(Clone, Copy, Debug)]
pub struct TreeValue<'t, 'a> {
    tree: &'t MessageTree<'a>,
    at: usize,
}

impl<'t, 'a> TreeValue<'t, 'a> {
    fn value(self) -> Value<'a> {
        self.tree.slots[self.at].value
    }

    /// The slots from `first` on.
    fn chain(self, first: usize) -> impl Iterator<Item = usize> {
        let present = |at: usize| (at != NONE).then_some(at);
        std::iter::successors(present(first), move |at| present(self.tree.slots[*at].next))
    }

    /// The elements of an array; none for anything else.
    pub fn elements(self) -> impl Iterator<Item = Self> {
        let first = if let Value::Array(first) = self.value() { first } else { NONE };
        self.chain(first).map(move |at| Self { tree: self.tree, at })
    }

    /// The entries of an object in the order of the first form, keys as WTF-8; none for anything else.
    pub fn entries(self) -> impl Iterator<Item = (&'a [u8], Self)> {
        let first = if let Value::Object(first) = self.value() { first } else { NONE };
        self.chain(first).map(move |at| {
            let key = Self { tree: self.tree, at };
            (key.as_wtf8().unwrap_or_default(), Self { tree: self.tree, at: at + 1 })
        })
    }

    /// The value under `key`, when this is an object that has it; of several the last one.
    #[must_use]
    pub fn get(self, key: &str) -> Option<Self> {
        self.entries().filter(|(name, _)| *name == key.as_bytes()).last().map(|(_, value)| value)
    }

    /// The bytes of a string.
    #[must_use]
    pub fn as_wtf8(self) -> Option<&'a [u8]> {
        self.value().as_wtf8()
    }

    /// The text of a string that has no unpaired surrogate.
    #[must_use]
    pub fn as_str(self) -> Option<&'a str> {
        match self.value() {
            Value::Text(text) => Some(text),
            Value::Ascii(bytes) => str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The text of a string, with U+FFFD for every unpaired surrogate.
    #[must_use]
    pub fn to_str_lossy(self) -> Option<Cow<'a, str>> {
        match self.value() {
            Value::Text(text) => Some(Cow::Borrowed(text)),
            Value::Ascii(bytes) | Value::Wtf8(bytes) => Some(wtf8_to_str_lossy(bytes)),
            _ => None,
        }
    }

    /// Whether this is an object.
    #[must_use]
    pub fn is_object(self) -> bool {
        matches!(self.value(), Value::Object(_))
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        matches!(self.value(), Value::Null)
    }

    /// Appends the value as compact JSON text.
    pub fn write_json(self, out: &mut Vec<u8>) {
        match self.value() {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(true) => out.extend_from_slice(b"true"),
            Value::Bool(false) => out.extend_from_slice(b"false"),
            Value::Number(literal) => out.extend_from_slice(literal.as_bytes()),
            Value::Text(text) => write_utf8(text.as_bytes(), out),
            Value::Ascii(bytes) => write_utf8(bytes, out),
            Value::Wtf8(bytes) => write_wtf8(bytes, out),
            Value::Array(first) => {
                out.push(b'[');
                for at in self.chain(first) {
                    if at != first {
                        out.push(b',');
                    }
                    Self { tree: self.tree, at }.write_json(out);
                }
                out.push(b']');
            }
            Value::Object(first) => {
                out.push(b'{');
                for at in self.chain(first) {
                    if at != first {
                        out.push(b',');
                    }
                    Self { tree: self.tree, at }.write_json(out);
                    out.push(b':');
                    Self { tree: self.tree, at: at + 1 }.write_json(out);
                }
                out.push(b'}');
            }
        }
    }

    /// A copy that stands by itself.
    #[must_use]
    pub fn to_json(self) -> Json {
        match self.value() {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(value),
            Value::Number(literal) => Json::Number(literal.into()),
            Value::Text(_) | Value::Ascii(_) | Value::Wtf8(_) => Json::String(self.to_json_string()),
            Value::Array(_) => Json::Array(self.elements().map(Self::to_json).collect()),
            Value::Object(first) => {
                let entry = |at| {
                    let key = Self { tree: self.tree, at }.to_json_string();
                    (key, Self { tree: self.tree, at: at + 1 }.to_json())
                };
                Json::Object(self.chain(first).map(entry).collect())
            }
        }
    }

    fn to_json_string(self) -> JsonString {
        match self.value() {
            Value::Text(text) => text.into(),
            Value::Ascii(bytes) | Value::Wtf8(bytes) => JsonString::from_wtf8(bytes.to_vec()).unwrap_or_default(),
            _ => JsonString::new(),
        }
    }
}
