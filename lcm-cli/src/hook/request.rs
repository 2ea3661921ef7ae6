//! A request as the host wrote it, and as it may stand in a line of ours.
//!
//! Whoever serves reads it all; a window of some thousand messages is not read twice. Here is only seen that it is one
//! value, and nothing that would end early the line it is put into. What cannot be sent, or was refused, is read
//! to know why.

use std::borrow::Cow;
use std::fmt;

use lcm_core::{Json, JsonError};

/// A byte order mark, which the reader passes over at the beginning and nobody in the middle of a line.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// Why something is no request.
#[derive(Debug)]
pub(super) enum NoRequest {
    Empty,
    NoJson(JsonError),
    NoObject,
}

impl fmt::Display for NoRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("nothing came"),
            Self::NoJson(error) => write!(f, "it is no JSON: {error}"),
            Self::NoObject => f.write_str("it is no JSON object"),
        }
    }
}

/// Whether it is a request at all: a JSON object.
pub(super) fn check(bytes: &[u8]) -> Result<(), NoRequest> {
    if bytes.trim_ascii().is_empty() {
        return Err(NoRequest::Empty);
    }
    match Json::parse(bytes).map_err(NoRequest::NoJson)? {
        Json::Object(_) => Ok(()),
        _ => Err(NoRequest::NoObject),
    }
}

/// The same value in one line; `None` for what is no object.
///
/// Whether all of it is JSON is for the reader of the line. It ends where it should: with the brace that closes it.
pub(super) fn line(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    let text = bytes.strip_prefix(MARK).unwrap_or(bytes).trim_ascii();
    let has_breaks = is_closed(text)?;
    Some(match has_breaks {
        // They stand between values: in a string one would be no JSON.
        true => Cow::Owned(text.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect()),
        false => Cow::Borrowed(text),
    })
}

/// Whether a text has line feeds; `None` unless it begins with a brace that its last byte closes.
fn is_closed(text: &[u8]) -> Option<bool> {
    let (mut depth, mut at, mut has_breaks) = (0_usize, 0, false);
    if text.first() != Some(&b'{') {
        return None;
    }
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return (*byte == b'}' && at == text.len()).then_some(has_breaks);
                }
            }
            b'"' => at += string_end(&text[at..])?,
            b'\n' => has_breaks = true,
            _ => {}
        }
    }
    None
}

/// Where the string ends whose quote stands before these bytes; `None` where it does not.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += text.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        match text[at] {
            b'"' => return Some(at + 1),
            // A line feed behind it would end the line too.
            b'\\' if text.get(at + 1).is_some_and(|byte| *byte >= 0x20) => at += 2,
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What becomes of a text in the line that it is put into.
    fn spliced(text: &[u8]) -> Option<Json> {
        let line = line(text)?;
        assert!(!line.contains(&b'\n'));
        Json::parse(&[br#"{"request":"#, &line[..], b"}"].concat()).ok()
    }

    #[test]
    fn a_request_is_sent_in_one_line_and_is_the_same_value() {
        for text in [
            "{}",
            "\u{feff}{ \"a\":\r\n 1 }\n\n",
            "{\"a\":\"\\n\",\n\"a\":[NaN, 1.0]}",
            "\u{feff}\n{}",
            r#"{"a":"}]\"\\","b":[{"{":"["}]}"#,
        ] {
            let told = spliced(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(told.get("request"), Some(&Json::parse(text.as_bytes()).unwrap()));
        }
    }

    #[test]
    fn what_would_break_out_of_its_line_is_not_sent() {
        for text in [
            "",
            " \n",
            "{",
            "[]",
            "null",
            "{}}",
            "{}},\"x\":{{}",
            "{}\n{}",
            "{\"a\":\"\n\"}",
            "not json",
            "7",
            "{\"a\":\"\\\"}",
            "{]",
            "[}",
        ] {
            assert_eq!(line(text.as_bytes()), None, "{text}");
            assert!(check(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        /// Braces, quotes and what lies between, so that some of it is JSON.
        #[test]
        fn what_is_sent_is_the_value_that_came_or_is_refused(text in "[{}\\[\\]\",:a\\\\\n 1]{0,12}") {
            for text in [text.clone(), format!("{{{text}}}"), format!("{{\"a\":{text}}}"), format!("{{\"a\":\"{text}\"}}")] {
                let came = Json::parse(text.as_bytes()).ok().filter(|json| matches!(json, Json::Object(_)));
                let sent = spliced(text.as_bytes());
                prop_assert_eq!(sent.is_some(), came.is_some(), "{}", text);
                if let (Some(sent), Some(came)) = (sent, came) {
                    let only = Json::object([("request", came)]);
                    prop_assert_eq!(sent, only);
                }
            }
        }
    }
}
