//! A value to JSON text: compact, the fewest escapes, UTF-8.
//!
//! One value has one text: what is read back from it is equal, and what was compact already is the same bytes again,
//! but for its choice of escapes.

use super::Json;
use super::plain::plain_run;
use super::wtf8::{Piece, pieces};

impl Json {
    /// Appends the value as compact JSON text: no white space, the fewest escapes, UTF-8.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(literal) => out.extend_from_slice(literal.as_bytes()),
            Self::String(string) => string.write(out),
            Self::Array(elements) => {
                out.push(b'[');
                for (i, element) in elements.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    element.write(out);
                }
                out.push(b']');
            }
            Self::Object(entries) => {
                out.push(b'{');
                for (i, (key, value)) in entries.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    key.write(out);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }

    /// The value as compact JSON text.
    #[must_use]
    pub fn to_text(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }
}

/// Writes a string in quotes that has no surrogates.
pub(crate) fn write_utf8(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    write_escaped(text, out);
    out.push(b'"');
}

/// Writes a string in quotes that holds unpaired surrogates; anything that is no WTF-8 becomes U+FFFD.
pub(crate) fn write_wtf8(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for piece in pieces(bytes) {
        match piece {
            Piece::Text(text) => write_escaped(text.as_bytes(), out),
            Piece::Surrogate(code) => {
                out.extend_from_slice(b"\\u");
                out.extend([12, 8, 4, 0].map(|shift| hex_digit(code >> shift)));
            }
            Piece::Bad => out.extend_from_slice("\u{fffd}".as_bytes()),
        }
    }
    out.push(b'"');
}

fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    loop {
        let (plain, tail) = rest.split_at(plain_run(rest));
        out.extend_from_slice(plain);
        let Some((&special, behind)) = tail.split_first() else { return };
        write_escape(special, out);
        rest = behind;
    }
}

#[inline]
fn write_escape(special: u8, out: &mut Vec<u8>) {
    match special {
        b'\n' => out.extend_from_slice(b"\\n"),
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'\r' => out.extend_from_slice(b"\\r"),
        0x08 => out.extend_from_slice(b"\\b"),
        0x0c => out.extend_from_slice(b"\\f"),
        control => {
            out.extend_from_slice(b"\\u00");
            out.extend([control >> 4, control].map(|code| hex_digit(u16::from(code))));
        }
    }
}

/// The lower-case hex digit of the lowest four bits.
fn hex_digit(code: u16) -> u8 {
    b"0123456789abcdef"[usize::from(code & 15)]
}

#[cfg(test)]
mod tests {
    //! That what is written says what was read: literals, order and repetition as they were, escapes in one way.

    use proptest::prelude::*;

    use super::*;
    use crate::json::arbitrary::any_json;

    proptest! {
        #[test]
        fn what_is_written_is_read_back_equal(json in any_json()) {
            prop_assert_eq!(Json::parse(&json.to_text()), Ok(json));
        }
    }

    fn rewritten(text: &str) -> String {
        String::from_utf8(Json::parse(text.as_bytes()).expect(text).to_text()).expect(text)
    }

    #[test]
    fn literals_key_order_and_repeated_keys_stay_as_they_were_said() {
        for text in [
            r#"{"b":1.0,"a":1,"b":-0,"c":1E+2,"":123456789012345678901234567890}"#,
            "[NaN,Infinity,-Infinity,0.10]",
            r#""\ud83d""#,
            r#""\udc00\ud83d""#,
            "\"\u{1f600} \u{fffd} \u{7f}\"",
            r#""\u0000\u001f\b\f\n\r\t\"\\/""#,
            "[[],{},[[]],[{}]]",
            "null",
        ] {
            assert_eq!(rewritten(text), text);
        }
    }

    #[test]
    fn escapes_are_written_in_one_way_only() {
        assert_eq!(rewritten(r#" [ "\u0041\/\u00e9" , "\ud83d\uDE00" ] "#), "[\"A/é\",\"😀\"]");
        assert_eq!(rewritten("\u{feff}{ \"a\" :\t1 }\r\n"), r#"{"a":1}"#);
        assert_eq!(rewritten(r#""\u0008\u000c\u000a\u001b""#), r#""\b\f\n\u001b""#);
    }
}
