//! JSON text to a value: strict RFC 8259 with the concessions that the module above names.
//!
//! The reader recurses no deeper than [`JSON_DEPTH_MAX`], and no bytes make it panic.

use std::fmt;

use super::plain::plain_run;
use super::wtf8::{is_high, is_low, joined, surrogate_bytes};
use super::{Json, JsonString};
use crate::limits::JSON_DEPTH_MAX;

/// Why a text is no JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {offset}")]
pub struct JsonError {
    /// Where in the text, in bytes from its beginning.
    pub offset: usize,
    /// What was wrong there.
    pub kind: JsonErrorKind,
}

/// What was wrong with a text that should have been JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// Something else stands where a value should.
    ExpectedValue,
    /// Something else stands where a key should.
    ExpectedKey,
    /// A key without its colon.
    ExpectedColon,
    /// An element of an array that is not followed by `,` or `]`.
    ExpectedCommaOrBracket,
    /// An entry of an object that is not followed by `,` or `}`.
    ExpectedCommaOrBrace,
    /// The text ends inside a value.
    UnexpectedEnd,
    /// A control character inside a string must be escaped.
    ControlCharacter,
    /// A backslash and a character that make no escape.
    BadEscape,
    /// `\u` without four hex digits.
    BadUnicodeEscape,
    /// Not a JSON number.
    BadNumber,
    /// The bytes are no UTF-8.
    NotUtf8,
    /// More than [`JSON_DEPTH_MAX`] arrays and objects inside each other.
    TooDeep,
    /// Something stands behind the value.
    TrailingText,
}

impl fmt::Display for JsonErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExpectedValue => "expected a value",
            Self::ExpectedKey => "expected a key in double quotes",
            Self::ExpectedColon => "expected ':' behind a key",
            Self::ExpectedCommaOrBracket => "expected ',' or ']'",
            Self::ExpectedCommaOrBrace => "expected ',' or '}'",
            Self::UnexpectedEnd => "the text ends inside a value",
            Self::ControlCharacter => "unescaped control character in a string",
            Self::BadEscape => "unknown escape in a string",
            Self::BadUnicodeEscape => "expected four hex digits of an escape",
            Self::BadNumber => "expected a digit of a number",
            Self::NotUtf8 => "the text is not UTF-8",
            Self::TooDeep => "too many arrays and objects inside each other",
            Self::TrailingText => "unexpected text behind the value",
        })
    }
}

impl Json {
    /// Reads one value from a whole text.
    ///
    /// # Errors
    /// Says what is wrong and where, for any bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        let text = match str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                return Err(JsonError { offset: error.valid_up_to(), kind: JsonErrorKind::NotUtf8 });
            }
        };
        let mut parser = Parser { text, at: 0 };
        if text.starts_with('\u{feff}') {
            parser.at = '\u{feff}'.len_utf8();
        }
        let value = parser.value(0)?;
        parser.skip_white();
        if parser.at < text.len() {
            return Err(parser.error(JsonErrorKind::TrailingText));
        }
        Ok(value)
    }
}

/// Whether this is a number literal that we read.
pub(crate) fn is_number(literal: &[u8]) -> bool {
    number_end(literal) == Ok(literal.len())
}

/// Where the number ends that the bytes begin with; else where it goes wrong.
fn number_end(bytes: &[u8]) -> Result<usize, usize> {
    let digits = |from: usize| {
        let count = bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        if count == 0 { Err(from) } else { Ok(from + count) }
    };
    if bytes.starts_with(b"NaN") {
        return Ok(3);
    }
    let mut at = usize::from(bytes.first() == Some(&b'-'));
    if bytes[at..].starts_with(b"Infinity") {
        return Ok(at + 8);
    }
    at = if bytes.get(at) == Some(&b'0') { at + 1 } else { digits(at)? };
    if bytes.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        at = digits(at + usize::from(matches!(bytes.get(at), Some(b'+' | b'-'))))?;
    }
    Ok(at)
}

/// Where the reader stands: `at` lies between two characters of `text`.
struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn error(&self, kind: JsonErrorKind) -> JsonError {
        self.error_at(self.at, kind)
    }

    /// An error; where nothing is left to be wrong, it is the end that came too early.
    fn error_at(&self, offset: usize, kind: JsonErrorKind) -> JsonError {
        if offset >= self.text.len() {
            return JsonError { offset: self.text.len(), kind: JsonErrorKind::UnexpectedEnd };
        }
        JsonError { offset, kind }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_white(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes `wanted` when it stands here.
    fn took(&mut self, wanted: u8) -> bool {
        let stands = self.peek() == Some(wanted);
        self.at += usize::from(stands);
        stands
    }

    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.skip_white();
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                self.string().map(Json::String)
            }
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => self.number(),
            Some(b't') => self.literal("true", Json::Bool(true)),
            Some(b'f') => self.literal("false", Json::Bool(false)),
            Some(b'n') => self.literal("null", Json::Null),
            _ => Err(self.error(JsonErrorKind::ExpectedValue)),
        }
    }

    fn literal(&mut self, word: &str, value: Json) -> Result<Json, JsonError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error(JsonErrorKind::ExpectedValue));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        match number_end(&self.text.as_bytes()[start..]) {
            Ok(length) => {
                self.at += length;
                Ok(Json::Number(self.text[start..self.at].into()))
            }
            // A word that only begins like `NaN` or `Infinity` is no number gone wrong.
            Err(0) => Err(self.error(JsonErrorKind::ExpectedValue)),
            Err(length) => Err(self.error_at(start + length, JsonErrorKind::BadNumber)),
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.enter(depth)?;
        let mut elements = Vec::new();
        self.skip_white();
        if self.took(b']') {
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            self.skip_white();
            if self.took(b']') {
                return Ok(Json::Array(elements));
            }
            if !self.took(b',') {
                return Err(self.error(JsonErrorKind::ExpectedCommaOrBracket));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.enter(depth)?;
        let mut entries = Vec::new();
        self.skip_white();
        if self.took(b'}') {
            return Ok(Json::Object(entries));
        }
        loop {
            self.skip_white();
            if !self.took(b'"') {
                return Err(self.error(JsonErrorKind::ExpectedKey));
            }
            let key = self.string()?;
            self.skip_white();
            if !self.took(b':') {
                return Err(self.error(JsonErrorKind::ExpectedColon));
            }
            entries.push((key, self.value(depth + 1)?));
            self.skip_white();
            if self.took(b'}') {
                return Ok(Json::Object(entries));
            }
            if !self.took(b',') {
                return Err(self.error(JsonErrorKind::ExpectedCommaOrBrace));
            }
        }
    }

    /// Steps over an opening bracket, unless that would be one too many.
    fn enter(&mut self, depth: usize) -> Result<(), JsonError> {
        if depth >= JSON_DEPTH_MAX {
            return Err(self.error(JsonErrorKind::TooDeep));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads a string whose opening quote was taken.
    fn string(&mut self) -> Result<JsonString, JsonError> {
        let start = self.at;
        self.at += plain_run(&self.text.as_bytes()[start..]);
        // What ends a plain run is ASCII, so both cuts lie between characters.
        let plain = &self.text[start..self.at];
        if self.took(b'"') {
            return Ok(plain.into());
        }
        // Text with one escape usually has more: leave room for as much again.
        let mut string = Vec::with_capacity(plain.len() * 2 + 64);
        string.extend_from_slice(plain.as_bytes());
        loop {
            if self.took(b'"') {
                return Ok(JsonString::from_unpaired(string));
            }
            if !self.took(b'\\') {
                return Err(self.error(JsonErrorKind::ControlCharacter));
            }
            self.escape(&mut string)?;
            let start = self.at;
            self.at += plain_run(&self.text.as_bytes()[start..]);
            string.extend_from_slice(&self.text.as_bytes()[start..self.at]);
        }
    }

    /// Reads an escape whose backslash was taken.
    fn escape(&mut self, string: &mut Vec<u8>) -> Result<(), JsonError> {
        let byte = match self.peek() {
            Some(b'n') => b'\n',
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape(string);
            }
            _ => return Err(self.error(JsonErrorKind::BadEscape)),
        };
        self.at += 1;
        string.push(byte);
        Ok(())
    }

    /// Reads the digits of a `\u` escape, and those of a second one that makes a pair with it.
    fn unicode_escape(&mut self, string: &mut Vec<u8>) -> Result<(), JsonError> {
        let code = self.four_digits()?;
        let mut character = char::from_u32(u32::from(code));
        if character.is_none() && is_high(code) && self.text.as_bytes()[self.at..].starts_with(b"\\u") {
            let behind = self.at;
            self.at += 2;
            let low = self.four_digits()?;
            if is_low(low) {
                character = Some(joined(code, low));
            } else {
                self.at = behind;
            }
        }
        match character {
            Some(character) => string.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            None => string.extend_from_slice(&surrogate_bytes(code)),
        }
        Ok(())
    }

    fn four_digits(&mut self) -> Result<u16, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = match self.peek() {
                Some(digit @ b'0'..=b'9') => digit - b'0',
                Some(digit @ b'a'..=b'f') => digit - b'a' + 10,
                Some(digit @ b'A'..=b'F') => digit - b'A' + 10,
                _ => return Err(self.error(JsonErrorKind::BadUnicodeEscape)),
            };
            code = code << 4 | u16::from(digit);
            self.at += 1;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    //! That anything that is no JSON is refused in words, and what is read is what others read.
    //! Method: examples, and random texts against `serde_json`, apart from what the module says we read beyond it.

    use proptest::prelude::*;

    use super::*;
    use crate::json::arbitrary::any_json;

    /// What `serde_json` cannot say: it holds no surrogates, no such numbers, and not as much depth.
    fn is_beyond_serde(text: &[u8]) -> bool {
        let text = String::from_utf8_lossy(text).to_lowercase();
        let error = serde_json::from_str::<serde_json::Value>(&text).err().map(|error| error.to_string());
        text.contains("\\ud")
            || text.contains("nan")
            || text.contains("infinity")
            || text.starts_with('\u{feff}')
            || error.is_some_and(|error| error.contains("out of range") || error.contains("recursion"))
    }

    fn agree(text: &[u8]) -> Result<(), TestCaseError> {
        let ours = Json::parse(text);
        let theirs = serde_json::from_slice::<serde_json::Value>(text);
        match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) => {
                let read = serde_json::from_slice::<serde_json::Value>(&ours.to_text());
                prop_assert_eq!(&read.unwrap(), theirs);
            }
            (Err(error), Err(_)) => prop_assert!(error.offset <= text.len()),
            _ => prop_assert!(is_beyond_serde(text), "ours: {:?}, theirs: {:?}", ours, theirs),
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn we_agree_with_serde_on_texts_that_are_nearly_json(
            json in any_json(),
            at in any::<prop::sample::Index>(),
            cut in 0_usize..3,
            insert in prop_oneof![Just(Vec::new()), "[\\[\\]{},:\"\\\\0-9eE+.truefalsn \\x00-\\x1f-]{1,2}".prop_map(String::into_bytes), prop::collection::vec(any::<u8>(), 1..4)],
        ) {
            let mut text = json.to_text();
            let start = at.index(text.len() + 1);
            let end = text.len().min(start + cut);
            text.splice(start..end, insert);
            agree(&text)?;
        }

        #[test]
        fn we_agree_with_serde_on_soups_of_tokens(tokens in prop::collection::vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\\u0041\"", "\"\\x\"", "\"", "1", "-", "01", "1.", "1e5", ".5", "-0", "true", "nul",
            "null", " ", "\n", "\u{a0}", "é", "\"é\"", "\\",
        ]), 0..12)) {
            agree(tokens.concat().as_bytes())?;
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            agree(&bytes)?;
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_where() {
        for (text, message) in [
            ("", "the text ends inside a value at byte 0"),
            ("{\"a\": }", "expected a value at byte 6"),
            ("{\"a\" 1}", "expected ':' behind a key at byte 5"),
            ("{a: 1}", "expected a key in double quotes at byte 1"),
            ("{\"a\": 1,}", "expected a key in double quotes at byte 8"),
            ("[1 2]", "expected ',' or ']' at byte 3"),
            ("{\"a\":1 2}", "expected ',' or '}' at byte 7"),
            ("[1, 2", "the text ends inside a value at byte 5"),
            ("\"abc", "the text ends inside a value at byte 4"),
            ("\"a\nb\"", "unescaped control character in a string at byte 2"),
            ("\"\\q\"", "unknown escape in a string at byte 2"),
            ("\"\\u00g0\"", "expected four hex digits of an escape at byte 5"),
            ("[-]", "expected a digit of a number at byte 2"),
            ("[1.]", "expected a digit of a number at byte 3"),
            ("[Nothing]", "expected a value at byte 1"),
            ("[trye]", "expected a value at byte 1"),
            ("01", "unexpected text behind the value at byte 1"),
            ("{} {}", "unexpected text behind the value at byte 3"),
        ] {
            assert_eq!(Json::parse(text.as_bytes()).unwrap_err().to_string(), message, "{text}");
        }
        let not_utf8 = Json::parse(b"\"ab\xff\"").unwrap_err();
        assert_eq!(not_utf8.to_string(), "the text is not UTF-8 at byte 3");
    }

    #[test]
    fn nesting_has_a_limit_that_is_reached_and_not_passed() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Json::parse(nested(JSON_DEPTH_MAX).as_bytes()).is_ok());
        let error = Json::parse(nested(JSON_DEPTH_MAX + 1).as_bytes()).unwrap_err();
        assert_eq!(error, JsonError { offset: JSON_DEPTH_MAX, kind: JsonErrorKind::TooDeep });
        assert!(Json::parse("[".repeat(1 << 20).as_bytes()).is_err());
    }
}
