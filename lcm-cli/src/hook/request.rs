//! A request as the host wrote it, and as it may stand in a line of ours.

use std::borrow::Cow;
use std::fmt;

use lcm_core::{Json, JsonError};

/// A byte order mark, which the reader passes over at the beginning and nobody in the middle of a line.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// A request: one JSON object.
pub(super) struct Request<'a> {
    bytes: &'a [u8],
    json: Json,
}

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

impl<'a> Request<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, NoRequest> {
        if bytes.trim_ascii().is_empty() {
            return Err(NoRequest::Empty);
        }
        match Json::parse(bytes).map_err(NoRequest::NoJson)? {
            json @ Json::Object(_) => Ok(Self { bytes, json }),
            _ => Err(NoRequest::NoObject),
        }
    }

    /// Byte for byte as it came.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Which hook it is for.
    pub(super) fn kind(&self) -> Option<&str> {
        self.json.get("type").and_then(Json::as_str)
    }

    /// The same value in one line.
    pub(super) fn line(&self) -> Cow<'a, [u8]> {
        let text = self.bytes.strip_prefix(MARK).unwrap_or(self.bytes).trim_ascii();
        // Inside of strings a line feed is escaped, or the text was no JSON.
        if text.contains(&b'\n') {
            Cow::Owned(text.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect())
        } else {
            Cow::Borrowed(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_sent_in_one_line_and_is_the_same_value() {
        for text in ["{}", "\u{feff}{ \"a\":\r\n 1 }\n\n", "{\"a\":\"\\n\",\n\"a\":[NaN, 1.0]}", "\u{feff}\n{}"] {
            let request = Request::read(text.as_bytes()).unwrap_or_else(|why| panic!("{text}: {why}"));
            let line = request.line();
            assert!(!line.contains(&b'\n'), "{text}");
            let spliced = [br#"{"request":"#, &line[..], b"}"].concat();
            let told = Json::parse(&spliced).unwrap();
            assert_eq!(told.get("request"), Some(&Json::parse(text.as_bytes()).unwrap()));
            assert_eq!(request.bytes(), text.as_bytes());
        }
    }

    #[test]
    fn what_would_break_out_of_its_line_is_no_request() {
        for text in ["", " \n", "{", "[]", "null", "{}}", "{}},\"x\":{{}", "{}\n{}", "{\"a\":\"\n\"}", "not json", "7"]
        {
            assert!(Request::read(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Request::read(b"\xff\xfe").is_err());
    }

    #[test]
    fn which_hook_it_is_for_is_a_text_or_nothing() {
        let kind =
            |text: &str| Request::read(text.as_bytes()).unwrap_or_else(|why| panic!("{why}")).kind().map(str::to_owned);
        assert_eq!(kind(r#"{"type":"assemble"}"#).as_deref(), Some("assemble"));
        assert_eq!(kind(r#"{"type":7}"#), None);
        assert_eq!(kind("{}"), None);
    }
}
