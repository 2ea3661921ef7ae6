//! The writer of a message's canonical bytes, its key order and its bodies, in one walk over the value.
//!
//! One value has one form: keys stand sorted, numbers of bytes in their shortest form, and whether a string is a body
//! follows from where it stands and how long it is. Not here: whether the value is a message (`message`).

use super::body::{KnownBodies, Under};
use super::{BODY, EncodedBody, EncodedMessage, MESSAGE, body_id, message_id};
use crate::json::{Json, JsonString};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::message::MessageError;

/// Encodes a message that [`crate::Message`] has checked.
pub(crate) fn encode(json: &Json) -> Result<EncodedMessage, MessageError> {
    let mut writer = Writer {
        canon: Vec::with_capacity(256),
        order: Vec::new(),
        order_needed: 0,
        bodies: Vec::new(),
        known: KnownBodies::default(),
        body_bytes: 0,
        indexes: Vec::new(),
    };
    writer.canon.extend_from_slice(&MESSAGE);
    writer.value(json, Under::Elsewhere, 0)?;
    let Writer { canon, mut order, order_needed, bodies, .. } = writer;
    order.truncate(order_needed);
    Ok(EncodedMessage { id: message_id(&canon), canon, order, bodies })
}

/// What was written so far.
struct Writer {
    canon: Vec<u8>,
    order: Vec<u8>,
    /// Length of `order` up to the last object whose keys did not stand in canonical order.
    order_needed: usize,
    bodies: Vec<EncodedBody>,
    known: KnownBodies,
    /// The strings that became bodies, each as often as it is said.
    body_bytes: usize,
    /// Scratch of the objects that are being written, outer ones first.
    indexes: Vec<usize>,
}

impl Writer {
    fn value(&mut self, json: &Json, under: Under, depth: usize) -> Result<(), MessageError> {
        match json {
            Json::Null => self.canon.push(b'n'),
            Json::Bool(true) => self.canon.push(b't'),
            Json::Bool(false) => self.canon.push(b'f'),
            Json::Number(literal) => {
                self.canon.push(b'#');
                push_bytes(&mut self.canon, literal.as_bytes());
            }
            Json::String(string) => self.string(string, under),
            Json::Array(elements) => {
                self.canon.push(b'[');
                push_length(&mut self.canon, elements.len());
                for element in elements {
                    self.value(element, under.inside(), depth + 1)?;
                }
            }
            Json::Object(entries) => self.object(entries, under.inside(), depth)?,
        }
        let bytes = self.canon.len().saturating_add(self.body_bytes);
        if bytes > MESSAGE_BYTES_MAX {
            return Err(MessageError::TooLarge { bytes, max: MESSAGE_BYTES_MAX });
        }
        Ok(())
    }

    fn string(&mut self, string: &JsonString, under: Under) {
        let text = string.as_bytes();
        if !under.is_body(text.len()) {
            self.canon.push(b's');
            push_bytes(&mut self.canon, text);
            return;
        }
        let mut bytes = Vec::with_capacity(BODY.len() + text.len());
        bytes.extend_from_slice(&BODY);
        bytes.extend_from_slice(text);
        let id = body_id(&bytes);
        self.canon.push(b'b');
        self.canon.extend_from_slice(id.as_bytes());
        push_length(&mut self.canon, text.len());
        self.body_bytes = self.body_bytes.saturating_add(text.len());
        if self.known.index(id) == self.bodies.len() {
            self.bodies.push(EncodedBody { id, bytes });
        }
    }

    fn object(&mut self, entries: &[(JsonString, Json)], under: Under, depth: usize) -> Result<(), MessageError> {
        self.canon.push(b'{');
        push_length(&mut self.canon, entries.len());
        let base = self.indexes.len();
        let sorted = entries.is_sorted_by(|(a, _), (b, _)| a <= b);
        self.indexes.extend(0..entries.len());
        if !sorted {
            // Stable: keys that occur twice stay in the order in which they were said.
            self.indexes[base..].sort_by(|&a, &b| entries[a].0.cmp(&entries[b].0));
        }
        self.order(entries.len(), base, sorted);
        for i in base..base + entries.len() {
            let (key, value) = &entries[self.indexes[i]];
            push_bytes(&mut self.canon, key.as_bytes());
            let under = if depth == 0 { Under::top_level(key.as_bytes()) } else { under };
            self.value(value, under, depth + 1)?;
        }
        self.indexes.truncate(base);
        Ok(())
    }

    /// Writes where in the canonical order each entry of the first form stands; `indexes` from `base` on say the
    /// reverse.
    fn order(&mut self, count: usize, base: usize, sorted: bool) {
        if sorted {
            for i in 0..count {
                push_length(&mut self.order, i);
            }
            return;
        }
        let ranks = base + count;
        self.indexes.resize(ranks + count, 0);
        for i in 0..count {
            let said = self.indexes[base + i];
            self.indexes[ranks + said] = i;
        }
        for rank in &self.indexes[ranks..] {
            push_length(&mut self.order, *rank);
        }
        self.indexes.truncate(ranks);
        self.order_needed = self.order.len();
    }
}

/// Appends a number: seven bits a byte, the lowest first, the top bit set on all but the last.
pub(super) fn push_varint(out: &mut Vec<u8>, value: u64) {
    let mut rest = value;
    while rest >= 0x80 {
        out.push(rest.to_le_bytes()[0] | 0x80);
        rest >>= 7;
    }
    out.push(rest.to_le_bytes()[0]);
}

/// Appends how many bytes or things follow.
pub(super) fn push_length(out: &mut Vec<u8>, length: usize) {
    // `usize` has at most 64 bits on everything Rust runs on.
    push_varint(out, u64::try_from(length).unwrap_or(u64::MAX));
}

/// Appends a length and as many bytes.
pub(super) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    //! Which strings become bodies, and what is too large to be written.

    use super::*;
    use crate::canon::tests::{decoded, encoded, encoded_text};
    use crate::message::Message;

    #[test]
    fn a_string_is_a_body_from_its_limit_on() {
        let content = |text: String| encoded(&Json::object([("content", Json::from(text))]));
        let elsewhere = |key: &str, text: String| encoded(&Json::object([(key, Json::from(text))]));
        assert_eq!(content("a".repeat(511)).bodies, []);
        assert_eq!(content("a".repeat(512)).bodies.len(), 1);
        // Bytes count, not characters.
        assert_eq!(content("é".repeat(256)).bodies.len(), 1);
        assert_eq!(elsewhere("reasoning", "a".repeat(4095)).bodies, []);
        assert_eq!(elsewhere("reasoning", "a".repeat(4096)).bodies.len(), 1);
        assert_eq!(elsewhere("role", "a".repeat(5000)).bodies, []);
        // Keys are never bodies, and what is below `content` is so at any depth.
        let long = "k".repeat(9000);
        let deep = encoded_text(&format!(r#"{{"{long}":1,"content":[{{"text":["{}"]}}]}}"#, "b".repeat(600)));
        assert_eq!(deep.bodies.len(), 1);
        assert_eq!(deep.bodies[0].bytes[..4], *b"B\x01bb");
    }

    #[test]
    fn a_body_said_twice_is_kept_once() {
        let long = "x".repeat(600);
        let message = encoded_text(&format!(r#"{{"content":["{long}","{long}y","{long}"]}}"#));
        assert_eq!(message.bodies.len(), 2);
        assert_eq!(decoded(&message).unwrap().get("content").and_then(Json::as_array).map(<[Json]>::len), Some(3));
    }

    #[test]
    fn many_bodies_keep_their_order() {
        let texts: Vec<Json> = (0..200).map(|n| format!("{:600}", n % 150).into()).collect();
        let json = Json::object([("content", Json::Array(texts))]);
        let message = encoded(&json);
        assert_eq!(message.bodies.len(), 150);
        assert_eq!(decoded(&message), Ok(json));
    }

    #[test]
    fn a_message_that_would_be_too_large_is_not_encoded() {
        let content = vec![Json::from("x".repeat(8 << 20)); 8];
        let json = Json::object([("content", Json::Array(content))]);
        let error = Message::from_json(json).unwrap().encode().unwrap_err();
        assert!(matches!(error, MessageError::TooLarge { .. }), "{error}");
    }
}
