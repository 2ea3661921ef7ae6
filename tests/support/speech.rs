//! Messages as hosts say them.

use lcm_core::Message;

use crate::random::Random;

/// A message from its JSON.
pub fn message(json: &str) -> Message {
    Message::parse(json.as_bytes()).expect("the test's own JSON is a message")
}

/// What a user says.
pub fn user(text: &str) -> Message {
    message(&format!(r#"{{"role":"user","content":{}}}"#, quoted(text)))
}

/// What an assistant says.
pub fn assistant(text: &str) -> Message {
    message(&format!(r#"{{"role":"assistant","content":{}}}"#, quoted(text)))
}

/// What a tool gave for a call.
pub fn tool(call: &str, output: &str) -> Message {
    let (call, output) = (quoted(call), quoted(output));
    message(&format!(r#"{{"role":"tool","tool_call_id":{call},"content":{output}}}"#))
}

fn quoted(text: &str) -> String {
    let mut quoted = Vec::new();
    lcm_core::Json::from(text).write(&mut quoted);
    String::from_utf8(quoted).expect("JSON of a str is UTF-8")
}

/// A message of any shape that is opaque to us: odd keys, numbers, nesting, sizes; some of them often the same.
pub fn any(random: &mut Random) -> Message {
    let number = random.below(6);
    match random.below(10) {
        0 => user(&format!("what is {number}?")),
        1 => assistant(&format!("it is {number}, as far as I can see")),
        2 => message(
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{\"path\": \"/\"}"}}]}"#,
        ),
        // A body of its own, shared by all that say it.
        3 => tool("c1", &"total 4096 drwxr-xr-x root root\n".repeat(20 + number)),
        // Larger than a page of the database.
        4 => tool(&format!("c{number}"), &noise(random, 5_000 + 4_000 * number)),
        5 => message(
            r#"{"content":[{"type":"text","text":"wörtlich \ud800 7"},{"type":"image","source":{"data":"AAAA"}}],"role":"user","x":1e400,"y":-0.0,"y":1}"#,
        ),
        6 => message(&format!(r#"{{"role":"user","content":[],"seed":{}}}"#, random.number())),
        7 => message(r#"{"role":"tool","content":""}"#),
        8 => message("{}"),
        _ => user(&noise(random, 40)),
    }
}

/// Text that does not compress.
pub fn noise(random: &mut Random, len: usize) -> String {
    (0..len).map(|_| char::from(*random.pick(b"abcdefghijklmnopqrstuvwxyz 0123456789\n"))).collect()
}

/// A message's JSON as it was said, without spaces: what must come back.
pub fn text_of(message: &Message) -> String {
    String::from_utf8(message.json().to_text()).expect("JSON is written as UTF-8")
}
