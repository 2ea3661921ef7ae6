//! Lines and envelopes: bytes to JSON-RPC 2.0 and back. `docs/wire.md`, *Lines* and *Errors*.
//!
//! A line longer than the bound is passed over to its end without being held. Pure but for the reading itself.

use std::io::{self, BufRead};

use lcm_core::{Json, JsonString};

/// Bytes of one line. A host's whole list is sent once; the largest seen is 12 MB.
pub const LINE_BYTES_MAX: usize = 64 << 20;
/// Characters of a name that is repeated in an error.
const QUOTED_CHARS_MAX: usize = 60;

/// Why a call was not answered: what JSON-RPC calls an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// See `docs/wire.md`, *Errors*.
    pub code: i64,
    /// One sentence without a full stop: what is wrong and what to do.
    pub message: String,
    /// What a program may go by.
    pub data: Option<Json>,
}

impl Failure {
    /// The line is no JSON.
    pub const NO_JSON: i64 = -32700;
    /// The line is no request.
    pub const NO_REQUEST: i64 = -32600;
    /// There is no such verb.
    pub const NO_VERB: i64 = -32601;
    /// A parameter is missing or wrong.
    pub const PARAMETER: i64 = -32602;
    /// A bug of ours.
    pub const BUG: i64 = -32603;
    /// The line is too long.
    pub const LINE_TOO_LONG: i64 = -32001;
    /// No protocol in common, or a call out of its turn.
    pub const PROTOCOL: i64 = -32002;
    /// The base of a list is not known.
    pub const NO_BASE: i64 = -32010;
    /// The deadline has passed.
    pub const DEADLINE: i64 = -32020;
    /// The call was cancelled.
    pub const CANCELLED: i64 = -32021;
    /// The store is busy.
    pub const BUSY: i64 = -32030;
    /// The store cannot be used.
    pub const STORE: i64 = -32031;
    /// A message that is not kept.
    pub const MESSAGE: i64 = -32040;
    /// The other side's: it has no model for a call.
    pub const NO_MODEL: i64 = -32050;

    /// A failure without data.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// A parameter that is missing or wrong.
    #[must_use]
    pub fn parameter(message: impl Into<String>) -> Self {
        Self::new(Self::PARAMETER, message)
    }

    /// The same with a value that a program may go by.
    #[must_use]
    pub fn with(self, name: &str, value: Json) -> Self {
        Self { data: Some(Json::object([(name, value)])), ..self }
    }

    fn to_json(&self) -> Json {
        let entries = [("code", self.code.into()), ("message", self.message.as_str().into())];
        Json::object(entries.into_iter().chain(self.data.clone().map(|data| ("data", data))))
    }

    /// The failure that an error object of the other side tells of.
    fn read(error: &Json) -> Self {
        let code = error.get("code").and_then(Json::as_i64).unwrap_or(0);
        let message = error.get("message").and_then(Json::as_str).unwrap_or("an error without a message");
        Self::new(code, quoted(message))
    }
}

/// The id of a call: what the caller made of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallId(Json);

impl CallId {
    /// The id of a line that has none, or none that can be read.
    #[must_use]
    pub fn none() -> Self {
        Self(Json::Null)
    }

    /// An id that we give.
    #[must_use]
    pub fn number(number: u64) -> Self {
        Self(number.into())
    }

    /// As it stands in a line.
    #[must_use]
    pub fn as_json(&self) -> &Json {
        &self.0
    }

    /// An id that a call can have: a number or a text.
    #[must_use]
    pub fn read(json: &Json) -> Option<Self> {
        matches!(json, Json::Number(_) | Json::String(_)).then(|| Self(json.clone()))
    }
}

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// Wants an answer.
    Call {
        /// Names it in its answer.
        id: CallId,
        /// What is to be done.
        verb: String,
        /// An object.
        params: Json,
    },
    /// Wants none.
    Notice {
        /// What is told.
        verb: String,
        /// An object.
        params: Json,
    },
    /// The answer to a call of ours.
    Answer {
        /// Of our call.
        id: CallId,
        /// What the other side says.
        result: Result<Json, Failure>,
    },
}

/// Reads an envelope.
///
/// # Errors
/// Where there is none: the id that the complaint is for, and the complaint.
pub fn read(line: &[u8]) -> Result<Frame, (CallId, Failure)> {
    let no_request =
        |id: CallId, why: &str| (id, Failure::new(Failure::NO_REQUEST, format!("the line is no request: {why}")));
    let json = Json::parse(line)
        .map_err(|error| (CallId::none(), Failure::new(Failure::NO_JSON, format!("the line is no JSON: {error}"))))?;
    let Json::Object(entries) = json else {
        let why = if matches!(json, Json::Array(_)) { "batches are not taken" } else { "it is no object" };
        return Err(no_request(CallId::none(), why));
    };
    let (mut id, mut verb, mut params, mut result, mut error) = (None, None, None, None, None);
    for (key, value) in entries {
        match key.as_str() {
            Some("id") => id = Some(value),
            Some("method") => verb = Some(value),
            Some("params") => params = Some(value),
            Some("result") => result = Some(value),
            Some("error") => error = Some(value),
            _ => {}
        }
    }
    let call_id = id.as_ref().and_then(CallId::read);
    let shown_id = || call_id.clone().unwrap_or_else(CallId::none);
    let Some(verb) = verb else {
        let Some(id) = call_id.clone() else { return Err(no_request(CallId::none(), "it has no method")) };
        return match (result, error) {
            (_, Some(error)) if !error.is_null() => Ok(Frame::Answer { id, result: Err(Failure::read(&error)) }),
            (Some(result), _) => Ok(Frame::Answer { id, result: Ok(result) }),
            _ => Err(no_request(id, "it has no method")),
        };
    };
    let Some(verb) = verb.as_str().map(str::to_owned) else {
        return Err(no_request(shown_id(), "its method is no text"));
    };
    let params = params.filter(|params| !params.is_null()).unwrap_or_else(|| Json::Object(Vec::new()));
    if !matches!(params, Json::Object(_)) {
        return Err((shown_id(), Failure::parameter("params must be an object")));
    }
    match (id, call_id) {
        (None, _) => Ok(Frame::Notice { verb, params }),
        (Some(_), Some(id)) => Ok(Frame::Call { id, verb, params }),
        (Some(_), None) => Err(no_request(CallId::none(), "its id is no number and no text")),
    }
}

/// What a call is answered with.
#[derive(Debug)]
pub enum Reply {
    /// A value.
    Json(Json),
    /// JSON that is a text already: one value in one line. A window of a host is neither read nor written once more.
    Text(Vec<u8>),
}

impl From<Json> for Reply {
    fn from(value: Json) -> Self {
        Self::Json(value)
    }
}

/// The line of an answer.
#[must_use]
pub fn answer(id: &CallId, result: &Result<Reply, Failure>) -> Vec<u8> {
    // Beside the value: the version, an id, braces.
    const ENVELOPE_BYTES: usize = 64;
    let text = match result {
        Ok(Reply::Text(text)) => text.as_slice(),
        _ => &[],
    };
    debug_assert!(!text.contains(&b'\n'), "a text is one line");
    let mut line = Vec::with_capacity(text.len() + ENVELOPE_BYTES);
    line.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    id.0.write(&mut line);
    line.extend_from_slice(if result.is_ok() { br#","result":"# } else { br#","error":"# });
    match result {
        Ok(Reply::Text(text)) => line.extend_from_slice(text),
        Ok(Reply::Json(value)) => value.write(&mut line),
        Err(failure) => failure.to_json().write(&mut line),
    }
    line.extend_from_slice(b"}\n");
    line
}

/// The line of a call of ours.
#[must_use]
pub fn call(id: &CallId, verb: &str, params: Json) -> Vec<u8> {
    let version = ("jsonrpc", "2.0".into());
    let mut line = Json::object([version, ("id", id.0.clone()), ("method", verb.into()), ("params", params)]).to_text();
    line.push(b'\n');
    line
}

/// The parameters of a call; each is taken out once.
#[derive(Debug)]
pub struct Params(Vec<(JsonString, Json)>);

impl Params {
    /// An object's entries; nothing for anything else.
    #[must_use]
    pub fn new(json: Json) -> Self {
        match json {
            Json::Object(entries) => Self(entries),
            _ => Self(Vec::new()),
        }
    }

    /// A parameter that is there and not `null`. Of twins the last counts.
    pub fn take(&mut self, name: &str) -> Option<Json> {
        let at = self.0.iter().rposition(|(key, _)| key.as_bytes() == name.as_bytes())?;
        Some(self.0.swap_remove(at).1).filter(|value| !value.is_null())
    }

    /// Whether a parameter is there and not `null`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| !value.is_null())
    }

    /// Whether a parameter is this text.
    #[must_use]
    pub fn says(&self, name: &str, text: &str) -> bool {
        self.get(name).and_then(Json::as_str) == Some(text)
    }

    fn get(&self, name: &str) -> Option<&Json> {
        self.0.iter().rfind(|(key, _)| key.as_bytes() == name.as_bytes()).map(|(_, value)| value)
    }

    /// A text.
    ///
    /// # Errors
    /// Where it is something else.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let Json::String(text) = value else { return Err(wrong(name, "a text")) };
        Ok(Some(text.to_str_lossy().into_owned()))
    }

    /// A text that must be there.
    ///
    /// # Errors
    /// Where it is not, or is something else.
    pub fn needed_text(&mut self, name: &str) -> Result<String, Failure> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// A whole number, 0 or more.
    ///
    /// # Errors
    /// Where it is something else.
    pub fn number(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        let Some(value) = self.take(name) else { return Ok(None) };
        value.as_u64().map(Some).ok_or_else(|| wrong(name, "a whole number, 0 or more"))
    }

    /// A whole number that must be there.
    ///
    /// # Errors
    /// Where it is not, or is something else.
    pub fn needed_number(&mut self, name: &str) -> Result<u64, Failure> {
        self.number(name)?.ok_or_else(|| missing(name))
    }

    /// True or false; false where it is not there.
    ///
    /// # Errors
    /// Where it is something else.
    pub fn flag(&mut self, name: &str) -> Result<bool, Failure> {
        let Some(value) = self.take(name) else { return Ok(false) };
        value.as_bool().ok_or_else(|| wrong(name, "true or false"))
    }

    /// The entries of an object.
    ///
    /// # Errors
    /// Where it is something else.
    pub fn object(&mut self, name: &str) -> Result<Option<Self>, Failure> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::Object(entries)) => Ok(Some(Self(entries))),
            Some(_) => Err(wrong(name, "an object")),
        }
    }

    /// The names that nobody took, in their order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.iter().map(|(name, _)| quoted(&name.to_str_lossy())).collect()
    }

    /// What nobody took.
    #[must_use]
    pub fn into_rest(self) -> Vec<(JsonString, Json)> {
        self.0
    }
}

/// A parameter that is not there.
#[must_use]
pub fn missing(name: &str) -> Failure {
    Failure::parameter(format!("{name} is missing"))
}

/// A parameter that is not what it should be.
#[must_use]
pub fn wrong(name: &str, right: &str) -> Failure {
    Failure::parameter(format!("{name} must be {right}"))
}

/// A text of somebody else in one line, cut where it is long.
#[must_use]
pub fn quoted(text: &str) -> String {
    let is_long = text.chars().nth(QUOTED_CHARS_MAX).is_some();
    let mut short: String = text.chars().take(QUOTED_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if is_long {
        short.push('…');
    }
    short
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// A line without its end; the last one may have had none.
    Text(Vec<u8>),
    /// One that was longer than the bound, and is passed over.
    TooLong,
    /// Nothing comes any more.
    End,
}

/// Reads the next line of at most `bytes_max` bytes.
///
/// # Errors
/// As the input.
pub fn next_line(input: &mut dyn BufRead, bytes_max: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if chunk.is_empty() {
            // Half a line at the end of input: whoever wrote it is gone.
            return Ok(Line::End);
        }
        let end = memchr::memchr(b'\n', chunk);
        let part = end.unwrap_or(chunk.len());
        if line.len() + part > bytes_max {
            is_too_long = true;
            line = Vec::new();
        }
        if !is_too_long {
            line.extend_from_slice(&chunk[..part]);
        }
        input.consume(end.map_or(part, |end| end + 1));
        if end.is_some() {
            return Ok(if is_too_long { Line::TooLong } else { Line::Text(line) });
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_text(line: &str) -> Result<Frame, (CallId, Failure)> {
        read(line.as_bytes())
    }

    fn code(line: &str) -> i64 {
        read_text(line).expect_err("the line is wrong").1.code
    }

    #[test]
    fn calls_notices_and_answers_are_told_apart() {
        let call = read_text(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#).unwrap();
        let params = Json::Object(Vec::new());
        assert_eq!(call, Frame::Call { id: CallId::number(7), verb: "ping".to_owned(), params: params.clone() });
        let notice = read_text(r#"{"method":"cancel","params":null}"#).unwrap();
        assert_eq!(notice, Frame::Notice { verb: "cancel".to_owned(), params });
        let answer = read_text(r#"{"id":"a","result":null}"#).unwrap();
        assert!(matches!(answer, Frame::Answer { result: Ok(Json::Null), .. }));
        let answer = read_text(r#"{"id":"a","result":1,"error":{"code":-5,"message":"no"}}"#).unwrap();
        assert!(matches!(answer, Frame::Answer { result: Err(Failure { code: -5, .. }), .. }));
    }

    #[test]
    fn what_is_no_request_is_refused_by_name() {
        assert_eq!(code("{"), Failure::NO_JSON);
        assert_eq!(code("[]"), Failure::NO_REQUEST);
        assert_eq!(code("7"), Failure::NO_REQUEST);
        assert_eq!(code("{}"), Failure::NO_REQUEST);
        assert_eq!(code(r#"{"id":1}"#), Failure::NO_REQUEST);
        assert_eq!(code(r#"{"id":{},"method":"ping"}"#), Failure::NO_REQUEST);
        assert_eq!(code(r#"{"id":1,"method":5}"#), Failure::NO_REQUEST);
        let (id, failure) = read_text(r#"{"id":1,"method":"ping","params":[1]}"#).unwrap_err();
        assert_eq!((id, failure.code), (CallId::number(1), Failure::PARAMETER));
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_is_read() {
        let text = format!("short\n{}\nafter\nhalf", "x".repeat(100));
        let mut input = io::BufReader::with_capacity(7, text.as_bytes());
        let mut next = || next_line(&mut input, 20).unwrap();
        assert_eq!(next(), Line::Text(b"short".to_vec()));
        assert_eq!(next(), Line::TooLong);
        assert_eq!(next(), Line::Text(b"after".to_vec()));
        assert_eq!(next(), Line::End);
    }

    #[test]
    fn an_answer_is_one_line_whatever_it_says() {
        let told = Json::object([("a\n", "b\nc\u{2028}".into())]);
        let line = answer(&CallId::number(1), &Ok(told.clone().into()));
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let frame = read(&line[..line.len() - 1]).unwrap();
        assert_eq!(frame, Frame::Answer { id: CallId::number(1), result: Ok(told) });
    }

    #[test]
    fn an_answer_that_is_a_text_is_passed_on_as_it_is() {
        let text = br#"{ "a" : 1.0, "a":"\ud800" }"#;
        let line = answer(&CallId::number(2), &Ok(Reply::Text(text.to_vec())));
        assert_eq!(line, [br#"{"jsonrpc":"2.0","id":2,"result":"#, &text[..], b"}\n"].concat());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 1..20_usize) {
            let mut input = io::BufReader::with_capacity(cut, bytes.as_slice());
            while let Ok(Line::Text(line)) = next_line(&mut input, 50) {
                prop_assert!(line.len() <= 50);
                drop(read(&line));
            }
        }
    }
}
