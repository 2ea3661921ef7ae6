//! Strings of JSON: text that may hold unpaired surrogates.
//!
//! Nearly every string is plain UTF-8 and costs what a `String` costs. Not here: the encoding of the others (`wtf8`),
//! and how strings are escaped (`write`).

use std::borrow::Cow;
use std::fmt;

use super::write::{write_utf8, write_wtf8};
use super::wtf8::{is_high, is_low, is_wtf8, joined, surrogate_at, wtf8_to_str_lossy};

/// A JSON string: text that may hold unpaired surrogates.
///
/// Held as WTF-8 (UTF-8 plus the three-byte forms of unpaired surrogates), which is plain UTF-8 for nearly every
/// string. A high surrogate that is followed by a low one is always held as the character they make.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonString(Form);

/// Which form a string has follows from its content alone, so that equal strings are equal values.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    /// Without surrogates.
    Utf8(String),
    /// With at least one.
    Wtf8(Vec<u8>),
}

impl JsonString {
    /// The empty string.
    #[must_use]
    pub const fn new() -> Self {
        Self(Form::Utf8(String::new()))
    }

    /// Reads WTF-8; `None` when the bytes are none. Surrogates that make a pair have another form and are refused.
    #[must_use]
    pub fn from_wtf8(bytes: Vec<u8>) -> Option<Self> {
        match String::from_utf8(bytes) {
            Ok(text) => Some(Self(Form::Utf8(text))),
            Err(error) => is_wtf8(error.as_bytes()).then(|| Self(Form::Wtf8(error.into_bytes()))),
        }
    }

    /// The WTF-8 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Form::Utf8(text) => text.as_bytes(),
            Form::Wtf8(bytes) => bytes,
        }
    }

    /// The text, unless it holds an unpaired surrogate. Costs nothing.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Form::Utf8(text) => Some(text),
            Form::Wtf8(_) => None,
        }
    }

    /// The text, with U+FFFD for every unpaired surrogate.
    #[must_use]
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        match &self.0 {
            Form::Utf8(text) => Cow::Borrowed(text),
            Form::Wtf8(bytes) => wtf8_to_str_lossy(bytes),
        }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }

    /// Appends `other`; surrogates that meet and make a pair become the character they make.
    pub fn push(&mut self, other: &Self) {
        if let (Form::Utf8(text), Form::Utf8(more)) = (&mut self.0, &other.0) {
            text.push_str(more);
            return;
        }
        let mut bytes = self.take_bytes();
        let mut tail = other.as_bytes();
        let met = bytes.len().checked_sub(3).and_then(|end| {
            let high = surrogate_at(&bytes[end..]).filter(|code| is_high(*code))?;
            let low = surrogate_at(tail).filter(|code| is_low(*code))?;
            Some((end, joined(high, low)))
        });
        if let Some((end, character)) = met {
            bytes.truncate(end);
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            tail = &tail[3..];
        }
        bytes.extend_from_slice(tail);
        // A pair that met may have been the last surrogates here: then the string is plain text again.
        *self = Self::from_unpaired(bytes);
    }

    fn take_bytes(&mut self) -> Vec<u8> {
        match std::mem::replace(&mut self.0, Form::Utf8(String::new())) {
            Form::Utf8(text) => text.into_bytes(),
            Form::Wtf8(bytes) => bytes,
        }
    }

    /// A string of WTF-8 that has no pairs.
    pub(super) fn from_unpaired(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self(Form::Utf8(text)),
            Err(error) => Self(Form::Wtf8(error.into_bytes())),
        }
    }

    /// Appends the string in quotes.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Form::Utf8(text) => write_utf8(text.as_bytes(), out),
            Form::Wtf8(bytes) => write_wtf8(bytes, out),
        }
    }
}

impl Default for JsonString {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&str> for JsonString {
    fn from(text: &str) -> Self {
        Self(Form::Utf8(text.to_owned()))
    }
}

impl From<String> for JsonString {
    fn from(text: String) -> Self {
        Self(Form::Utf8(text))
    }
}

impl PartialOrd for JsonString {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for JsonString {
    /// By bytes: the order of keys in canonical bytes.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Debug for JsonString {
    /// As JSON text, so that a surrogate can be seen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::new();
        self.write(&mut out);
        f.write_str(&String::from_utf8_lossy(&out))
    }
}

#[cfg(test)]
mod tests {
    //! That a surrogate is never lost and never makes two forms of one string.
    //! Method: examples, and strings put together from random UTF-16 code units.

    use proptest::prelude::*;

    use super::*;
    use crate::json::Json;
    use crate::json::arbitrary::from_units;

    proptest! {
        #[test]
        fn strings_are_joined_as_their_code_units_are(a in prop::collection::vec(any::<u16>(), 0..6), b in prop::collection::vec(0xd700_u16..0xe100, 0..6)) {
            let mut joined = from_units(&a);
            joined.push(&from_units(&b));
            prop_assert_eq!(&joined, &from_units(&[a, b].concat()));
            prop_assert_eq!(JsonString::from_wtf8(joined.as_bytes().to_vec()), Some(joined));
        }
    }

    #[test]
    fn a_surrogate_is_lossy_as_text_and_kept_as_bytes() {
        let Ok(Json::String(string)) = Json::parse(r#""a\ud83db""#.as_bytes()) else { panic!("no string") };
        assert_eq!(string.as_str(), None);
        assert_eq!(string.to_str_lossy(), "a\u{fffd}b");
        assert_eq!(string.as_bytes(), b"a\xed\xa0\xbdb");
        assert_eq!(format!("{string:?}"), r#""a\ud83db""#);
    }

    #[test]
    fn bytes_that_are_no_wtf8_make_no_string() {
        for bytes in
            [&b"\xff"[..], b"\xed\xa0", b"\xed\xa0\xbd\xed\xb8\x80", b"a\xc3", b"\xf5\x80\x80\x80", b"\xc0\x80"]
        {
            assert_eq!(JsonString::from_wtf8(bytes.to_vec()), None, "{bytes:x?}");
        }
        for bytes in [
            &b""[..],
            "é😀".as_bytes(),
            b"\xed\xb8\x80\xed\xa0\xbd",
            b"\xed\xa0\xbd\xed\xa0\xbd",
            b"\xed\xa0\xbd-\xed\xb8\x80",
        ] {
            assert!(JsonString::from_wtf8(bytes.to_vec()).is_some(), "{bytes:x?}");
        }
    }
}
