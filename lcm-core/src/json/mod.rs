//! JSON as hosts say it: opaque, and given back as it came.
//!
//! A host's message is not ours to interpret, so this value keeps what general JSON libraries drop: number
//! literals as text, the order of keys, keys that occur twice, and unpaired surrogates (a tool that cuts a text
//! in the middle of an emoji leaves one, and it must not stop a session from being saved).
//!
//! Reading is strict RFC 8259, with three concessions to real writers: a leading byte order mark is skipped, the
//! literals `NaN`, `Infinity` and `-Infinity` are numbers (Python writes them), and an escape may name a
//! surrogate alone. What was read is written back as the same value in compact form.
//!
//! Here is the value. In reading order: its strings (`string`), the encoding that lets them hold half an emoji
//! (`wtf8`), text to value (`parse`), value to text (`write`), and the search for what ends a plain run that both
//! need (`plain`).
//!
//! Not here: what a message is (`message`), and the bytes that are hashed (`canon`).

mod string;
mod wtf8;
mod parse;
mod write;
mod plain;
#[cfg(test)]
pub(crate) mod arbitrary;

pub use parse::{JsonError, JsonErrorKind};
pub use string::JsonString;

pub(crate) use parse::is_number;
pub(crate) use write::{write_utf8, write_wtf8};
pub(crate) use wtf8::{is_wtf8, wtf8_to_str_lossy};

/// A JSON value, with everything the text said but its white space and its choice of escapes.
///
/// Two values are equal when they are said equally: `1.0` is not `1`, and the order of keys matters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number literal as it was written. Whoever makes one by hand writes a JSON number;
    /// [`crate::Message::from_json`] refuses anything else.
    Number(Box<str>),
    /// A string.
    String(JsonString),
    /// An array.
    Array(Vec<Json>),
    /// An object: entries in the order they were said, keys that occur twice included.
    Object(Vec<(JsonString, Json)>),
}

impl Json {
    /// An object of these entries, in this order.
    #[must_use]
    pub fn object<'a>(entries: impl IntoIterator<Item = (&'a str, Self)>) -> Self {
        Self::Object(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// The value under `key`, when this is an object that has it. Of several the last one counts, as in Python
    /// and JavaScript.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        let entries = self.as_object()?;
        entries.iter().rev().find(|(name, _)| name.as_bytes() == key.as_bytes()).map(|(_, value)| value)
    }

    /// The elements of an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The entries of an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&[(JsonString, Self)]> {
        match self {
            Self::Object(entries) => Some(entries),
            _ => None,
        }
    }

    /// The text of a string that has no unpaired surrogate.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(string) => string.as_str(),
            _ => None,
        }
    }

    /// `true` or `false`.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// A number that is written as a whole one and fits.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(literal) => literal.parse().ok(),
            _ => None,
        }
    }

    /// A number that is written as a whole one, is not negative, and fits.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(literal) => literal.parse().ok(),
            _ => None,
        }
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Number(value.to_string().into())
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Number(value.to_string().into())
    }
}

impl From<u32> for Json {
    fn from(value: u32) -> Self {
        Self::from(u64::from(value))
    }
}

#[cfg(test)]
mod tests {
    //! What counts of keys that occur twice, and which literals are numbers that fit.

    use super::*;

    #[test]
    fn of_keys_that_occur_twice_the_last_one_counts() {
        let json = Json::parse(br#"{"a":1,"b":2,"a":3}"#).unwrap();
        assert_eq!(json.get("a").and_then(Json::as_u64), Some(3));
        assert_eq!(json.get("c"), None);
        assert_eq!(Json::Null.get("a"), None);
    }

    #[test]
    fn numbers_are_read_when_they_are_whole_and_fit() {
        let number = |literal: &str| Json::Number(literal.into());
        assert_eq!(number("18446744073709551615").as_u64(), Some(u64::MAX));
        assert_eq!(number("-5").as_i64(), Some(-5));
        for literal in ["18446744073709551616", "-5", "1.0", "1e3", "NaN"] {
            assert_eq!(number(literal).as_u64(), None, "{literal}");
        }
    }
}
