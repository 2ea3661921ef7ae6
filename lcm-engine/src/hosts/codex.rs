//! Session files of Codex: JSON lines, each a time, a type and a payload.
//!
//! A line of type `response_item` holds what went to the model or came from it. Messages are kept as they stand under
//! `payload`. Calls and their results have a form of their own there; they are put into the form that everybody else has
//! (`tool_calls`, role `tool`), and what that leaves out of the payload stays with the place, as does the rest of the line.
//! Anything else that a model said (reasoning, a search) is a message of the assistant with that one block. Lines of
//! other types say the same again for a screen, or how the program was set; they are counted and passed over.
//!
//! The file is a list: what comes later stands further down. When the program folds its history it says so in a line and
//! goes on; what was said before stands above as it was, and so it is kept.

use lcm_core::{Json, JsonString, Message, MessageError};

use super::lines::{Lines, NumberedLine};
use super::{DecodeError, DecodeOptions, Decoded, Fault, Incoming, IncomingMessage, Sink, Spot, Tally, time};

/// Types of lines by which a file is known.
const TYPES: [&str; 5] = ["session_meta", "response_item", "event_msg", "turn_context", "compacted"];

/// Whether this value would be a line of such a file.
pub(super) fn is_known(line: &Json) -> bool {
    let is_of_type = line.get("type").and_then(Json::as_str).is_some_and(|kind| TYPES.contains(&kind));
    is_of_type && line.get("payload").is_some_and(|payload| payload.as_object().is_some())
}

/// A line that was read.
enum Item {
    Message(Box<IncomingMessage>),
    /// What the file says of the session: its name, and when it was made.
    Session(Option<String>, Option<i64>),
    /// Nothing that was said: its type.
    Passed(String),
    Fault(Fault),
}

/// Decodes a session file.
pub(super) fn decode(lines: &mut Lines<'_>, options: &DecodeOptions, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
    let mut passed = Tally::default();
    let mut session = Incoming {
        name: options.name.clone(),
        name_is_guess: true,
        source: options.source.clone(),
        ..Incoming::default()
    };
    while let Some(items) = lines.batch(parse, Item::Fault) {
        for item in items {
            match item {
                Item::Message(message) => session.messages.push(*message),
                // A session that goes on from another repeats what that one said of itself behind its own.
                Item::Session(Some(name), created_ms) if session.name_is_guess => {
                    (session.name, session.name_is_guess, session.created_ms) = (name, false, created_ms);
                }
                Item::Session(..) => passed.count("session_meta".to_owned()),
                Item::Passed(kind) => passed.count(kind),
                Item::Fault(fault) => sink(Decoded::Fault(fault))?,
            }
        }
    }
    if !session.messages.is_empty() {
        sink(Decoded::Session(session))?;
    }
    passed.tell(sink)?;
    lines.fault().map_or(Ok(()), |fault| sink(Decoded::Fault(fault)))
}

fn parse(line: &NumberedLine<'_>) -> Item {
    let spot = Spot::Line(line.number);
    let entries = match Json::parse(line.text) {
        Ok(Json::Object(entries)) => entries,
        Ok(_) => return Item::Fault(Fault::lost(spot, "it is JSON, and no object")),
        Err(error) => return Item::Fault(Fault::lost(spot, format_args!("it is not JSON: {error}"))),
    };
    let (mut payload, mut beside) = (None, Vec::with_capacity(entries.len()));
    for (key, value) in entries {
        if key.as_str() == Some("payload") && value.as_object().is_some() {
            payload = Some(value);
        } else {
            beside.push((key, value));
        }
    }
    let line = Json::Object(beside);
    let kind = line.get("type").and_then(Json::as_str).unwrap_or("line without a type").to_owned();
    let Some(payload) = payload else { return Item::Passed(kind) };
    match kind.as_str() {
        "session_meta" => {
            let name = payload.get("id").and_then(Json::as_str).filter(|name| !name.is_empty()).map(str::to_owned);
            Item::Session(name, payload.get("timestamp").and_then(time::from_json))
        }
        "response_item" => {
            let seen_ms = line.get("timestamp").and_then(time::from_json);
            let Json::Object(beside) = line else { return Item::Passed(kind) };
            match said(payload, beside) {
                Ok(message) => Item::Message(Box::new(IncomingMessage { seen_ms, ..message })),
                Err(error) => Item::Fault(Fault::lost(spot, error)),
            }
        }
        _ => Item::Passed(kind),
    }
}

/// What a payload says, as a message.
fn said(payload: Json, mut beside: Vec<(JsonString, Json)>) -> Result<IncomingMessage, MessageError> {
    let kind = payload.get("type").and_then(Json::as_str).unwrap_or_default().to_owned();
    let text = |key: &str| payload.get(key).and_then(Json::as_str).map(str::to_owned);
    // The keys that stand in the message in another place, and the message.
    let (taken, message): (&[&str], Json) = match (kind.as_str(), text("call_id")) {
        ("message", _) => return message(payload, beside),
        ("function_call", Some(id)) => {
            let function = ["name", "arguments"].map(|key| (key, payload.get(key).cloned().unwrap_or(Json::Null)));
            (&["call_id", "name", "arguments"], call(&id, "function", Json::object(function)))
        }
        ("custom_tool_call", Some(id)) => {
            let custom = ["name", "input"].map(|key| (key, payload.get(key).cloned().unwrap_or(Json::Null)));
            (&["call_id", "name", "input"], call(&id, "custom", Json::object(custom)))
        }
        ("local_shell_call", Some(id)) => {
            let action = payload.get("action").map(Json::to_text).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&action).into_owned();
            let function = [("name", "local_shell".into()), ("arguments", arguments.into())];
            // The action stays with the place too: a text of JSON is not the JSON.
            (&["call_id"], call(&id, "function", Json::object(function)))
        }
        (kind, Some(id)) if kind.ends_with("_call_output") => {
            let output = payload.get("output").cloned().unwrap_or(Json::Null);
            let message = [("role", "tool".into()), ("tool_call_id", id.into()), ("content", output)];
            (&["call_id", "output"], Json::object(message))
        }
        _ => {
            let message = [("role", "assistant".into()), ("content", Json::Array(vec![payload]))];
            return self::message(Json::object(message), beside);
        }
    };
    if let Json::Object(entries) = payload {
        let left: Vec<(JsonString, Json)> =
            entries.into_iter().filter(|(key, _)| !key.as_str().is_some_and(|key| taken.contains(&key))).collect();
        beside.push(("payload".into(), Json::Object(left)));
    }
    self::message(message, beside)
}

fn message(said: Json, beside: Vec<(JsonString, Json)>) -> Result<IncomingMessage, MessageError> {
    Ok(IncomingMessage::new(&Message::from_json(said)?)?.with_source(beside))
}

/// A message of the assistant that calls a tool.
fn call(id: &str, kind: &'static str, what: Json) -> Json {
    let call = Json::object([("id", id.into()), ("type", kind.into()), (kind, what)]);
    Json::object([("role", "assistant".into()), ("content", Json::Null), ("tool_calls", Json::Array(vec![call]))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> (Vec<Incoming>, Vec<(String, u64)>, Vec<Fault>) {
        let options = DecodeOptions { format: None, name: "file".to_owned(), source: "file.jsonl".to_owned() };
        let (mut sessions, mut passed, mut faults) = (Vec::new(), Vec::new(), Vec::new());
        super::super::decode(&mut text.as_bytes(), &options, &mut |decoded| {
            match decoded {
                Decoded::Session(session) => sessions.push(session),
                Decoded::Passed { what, count } => passed.push((what, count)),
                Decoded::Fault(fault) => faults.push(fault),
            }
            Ok(())
        })
        .unwrap();
        (sessions, passed, faults)
    }

    fn line(kind: &str, payload: &str) -> String {
        format!(r#"{{"timestamp":"2026-03-04T08:00:00.500Z","type":"{kind}","payload":{payload}}}"#)
    }

    #[test]
    fn what_was_said_comes_in_and_calls_have_the_form_that_all_have() {
        let lines = [
            line("session_meta", r#"{"id":"s1","timestamp":"2026-03-04T07:59:00Z","cwd":"/x"}"#),
            line("response_item", r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#),
            line("event_msg", r#"{"type":"user_message","message":"hi"}"#),
            line(
                "response_item",
                r#"{"type":"function_call","id":"fc","name":"shell","arguments":"{}","call_id":"c1"}"#,
            ),
            line("response_item", r#"{"type":"function_call_output","call_id":"c1","output":"done"}"#),
            line("response_item", r#"{"type":"custom_tool_call","call_id":"c2","name":"patch","input":"+x"}"#),
            line("response_item", r#"{"type":"custom_tool_call_output","call_id":"c2","output":"ok"}"#),
            line("response_item", r#"{"type":"reasoning","summary":[],"encrypted_content":"x"}"#),
            line("session_meta", r#"{"id":"s0"}"#),
        ];
        let (sessions, passed, faults) = decoded(&lines.join("\n"));
        assert_eq!((sessions.len(), faults.len()), (1, 0));
        assert_eq!(passed, [("event_msg".to_owned(), 1), ("session_meta".to_owned(), 1)]);
        let session = &sessions[0];
        assert_eq!((session.name.as_str(), session.name_is_guess), ("s1", false));
        assert_eq!(session.created_ms, Some(1_772_611_140_000));
        let said: Vec<String> =
            session.messages.iter().map(|message| String::from_utf8(message.json()).unwrap()).collect();
        let expected = [
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"shell","arguments":"{}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"c1","content":"done"}"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c2","type":"custom","custom":{"name":"patch","input":"+x"}}]}"#,
            r#"{"role":"tool","tool_call_id":"c2","content":"ok"}"#,
            r#"{"role":"assistant","content":[{"type":"reasoning","summary":[],"encrypted_content":"x"}]}"#,
        ];
        assert_eq!(said, expected);
        assert!(session.messages.iter().all(|message| message.seen_ms == Some(1_772_611_200_500)));
        // What has no place in the message stays beside it.
        let beside = String::from_utf8(session.messages[1].volatile.clone()).unwrap();
        assert!(beside.contains(r#""payload":{"type":"function_call","id":"fc"}"#), "{beside}");
    }

    #[test]
    fn broken_lines_are_named_and_a_file_without_a_name_is_called_after_itself() {
        let said = line("response_item", r#"{"type":"message","role":"user","content":"a"}"#);
        let (sessions, _, faults) = decoded(&[&said, "{\"timestamp\":", "7", &said[..40]].join("\n"));
        assert_eq!((sessions[0].name.as_str(), sessions[0].name_is_guess), ("file", true));
        assert_eq!(faults.iter().map(|fault| fault.at).collect::<Vec<_>>(), [2, 3, 4].map(Spot::Line));
    }

    #[test]
    fn odd_payloads_are_kept_as_they_stand() {
        for payload in
            ["{}", r#"{"type":7}"#, r#"{"type":"function_call"}"#, r#"{"type":"x_call_output","call_id":null}"#]
        {
            let (sessions, _, faults) = decoded(&line("response_item", payload));
            assert_eq!(faults, []);
            let json = String::from_utf8(sessions[0].messages[0].json()).unwrap();
            assert_eq!(json, format!(r#"{{"role":"assistant","content":[{payload}]}}"#));
        }
    }
}
