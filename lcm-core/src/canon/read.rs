//! The one checked walk over a stored message, which makes a [`MessageTree`] of it.
//!
//! Every reader of whole messages goes this way. The walk takes exactly what our writer writes, so that no two byte
//! strings are read as one message, and it is bounded: by depth, and by the length that a message may have with its
//! bodies written out.

use super::body::{KnownBodies, Under};
use super::cursor::Cursor;
use super::tree::{NONE, Slot, Value};
use super::{BODY, CANON, CanonError, MESSAGE, MessageTree, StoredMessage};
use crate::id::BodyId;
use crate::json::{Json, is_number};
use crate::limits::MESSAGE_BYTES_MAX;

/// Reads a message back, in the key order of its first form.
///
/// # Errors
/// See [`StoredMessage::tree`].
pub fn decode(message: &StoredMessage<'_>) -> Result<Json, CanonError> {
    Ok(message.tree()?.root().to_json())
}

/// Appends a message as compact JSON text, in the key order of its first form; what [`decode`] and
/// [`Json::write`] would give, without the values between.
///
/// # Errors
/// See [`StoredMessage::tree`]; nothing is appended then.
pub fn write_json(message: &StoredMessage<'_>, out: &mut Vec<u8>) -> Result<(), CanonError> {
    message.tree()?.write_json(out);
    Ok(())
}

/// What [`StoredMessage::tree`] does.
pub(super) fn read(message: StoredMessage<'_>) -> Result<MessageTree<'_>, CanonError> {
    Walk::new(message)?.message()
}

/// The one checked walk over a stored message.
struct Walk<'a> {
    canon: Cursor<'a>,
    /// Empty from the beginning when all keys stood in canonical order, and behind the last object whose did not.
    order: Cursor<'a>,
    bodies: &'a [&'a [u8]],
    /// Those named so far: the number of each is its index in `bodies`.
    known: KnownBodies,
    /// Strings that are bodies, each as often as it is named. Bounded, for a small message may name a large body
    /// a million times.
    body_bytes: usize,
    slots: Vec<Slot<'a>>,
    /// Scratch of the objects that are being read, outer ones first.
    indexes: Vec<usize>,
}

impl<'a> Walk<'a> {
    fn new(message: StoredMessage<'a>) -> Result<Self, CanonError> {
        let canon = Cursor::begin(message.canon, CANON, MESSAGE)?;
        if message.canon.len() > MESSAGE_BYTES_MAX {
            return Err(canon.damaged("they are longer than a message may be"));
        }
        Ok(Self {
            canon,
            order: Cursor::new(message.order, "bytes of the key order"),
            bodies: message.bodies,
            known: KnownBodies::default(),
            body_bytes: message.canon.len(),
            slots: Vec::with_capacity(16),
            indexes: Vec::new(),
        })
    }

    fn message(mut self) -> Result<MessageTree<'a>, CanonError> {
        if self.canon.rest.first() != Some(&b'{') {
            return Err(self.canon.damaged("a message is an object"));
        }
        self.value(Under::Elsewhere, 0)?;
        self.canon.end()?;
        self.order.end()?;
        if self.known.len() != self.bodies.len() {
            return Err(self.canon.damaged("a body is given that they do not name"));
        }
        Ok(MessageTree { slots: self.slots, bytes: self.body_bytes })
    }

    fn push(&mut self, value: Value<'a>) {
        self.slots.push(Slot { value, next: NONE });
    }

    fn value(&mut self, under: Under, depth: usize) -> Result<(), CanonError> {
        match self.canon.byte()? {
            b's' => {
                let bytes = self.canon.bytes()?;
                if under.is_body(bytes.len()) {
                    return Err(self.canon.damaged("a string stands here that is a body"));
                }
                let value = Value::string(bytes).ok_or_else(|| self.canon.damaged("a string is not WTF-8"))?;
                self.push(value);
            }
            b'b' => self.body(under)?,
            b'{' => self.object(under.inside(), depth)?,
            b'[' => {
                self.canon.enter(depth)?;
                let count = self.canon.count(1)?;
                let mut last = self.slots.len();
                self.push(Value::Array(if count == 0 { NONE } else { last + 1 }));
                for i in 0..count {
                    let at = self.slots.len();
                    if i > 0 {
                        self.slots[last].next = at;
                    }
                    last = at;
                    self.value(under.inside(), depth + 1)?;
                }
            }
            b'#' => {
                let literal = self.canon.text()?;
                if !is_number(literal.as_bytes()) {
                    return Err(self.canon.damaged("a number is none"));
                }
                self.push(Value::Number(literal));
            }
            b'n' => self.push(Value::Null),
            b't' => self.push(Value::Bool(true)),
            b'f' => self.push(Value::Bool(false)),
            _ => return Err(self.canon.damaged("no value begins like this")),
        }
        Ok(())
    }

    fn body(&mut self, under: Under) -> Result<(), CanonError> {
        let id = BodyId::from_bytes(self.canon.hash()?);
        let length = self.canon.length()?;
        if !under.is_body(length) {
            return Err(self.canon.damaged("a string is a body that is none"));
        }
        self.body_bytes = self.body_bytes.saturating_add(length);
        if self.body_bytes > MESSAGE_BYTES_MAX {
            return Err(self.canon.damaged("the bodies are longer than a message may be"));
        }
        let bytes = self.bodies.get(self.known.index(id)).ok_or(CanonError::MissingBody(id))?;
        let body = Cursor::begin(bytes, "bytes of a body", BODY)?;
        if body.rest.len() != length {
            return Err(body.damaged("it has another length"));
        }
        let value = Value::string(body.rest).ok_or_else(|| body.damaged("it is not WTF-8"))?;
        self.push(value);
        Ok(())
    }

    fn object(&mut self, under: Under, depth: usize) -> Result<(), CanonError> {
        self.canon.enter(depth)?;
        let count = self.canon.count(2)?;
        let object = self.slots.len();
        self.push(Value::Object(if count == 0 { NONE } else { object + 1 }));
        // The order of this object stands before that of the objects in it, so it is read first.
        let base = self.indexes.len();
        let in_order = self.order.rest.is_empty();
        if !in_order {
            for _ in 0..count {
                let rank = self.order.length()?;
                if rank >= count {
                    return Err(self.order.damaged("an entry is named that is not there"));
                }
                self.indexes.push(rank);
            }
        }
        let starts = self.indexes.len();
        let (mut previous, mut previous_key): (usize, &[u8]) = (NONE, &[]);
        let mut has_twins = false;
        for _ in 0..count {
            let key = self.canon.bytes()?;
            if previous != NONE {
                if previous_key > key {
                    return Err(self.canon.damaged("keys are not in order"));
                }
                has_twins |= previous_key == key;
                self.slots[previous].next = self.slots.len();
            }
            previous = self.slots.len();
            previous_key = key;
            let value = Value::string(key).ok_or_else(|| self.canon.damaged("a key is not WTF-8"))?;
            if !in_order {
                self.indexes.push(previous);
            }
            self.push(value);
            let under = if depth == 0 { Under::top_level(key) } else { under };
            self.value(under, depth + 1)?;
        }
        if !in_order && count > 0 {
            self.reorder(object, base, starts, has_twins)?;
        }
        self.indexes.truncate(base);
        Ok(())
    }

    /// Links the entries of an object in the order of the first form: `indexes` from `base` on name entries, those
    /// from `starts` on say where the keys are.
    fn reorder(&mut self, object: usize, base: usize, starts: usize, has_twins: bool) -> Result<(), CanonError> {
        let mut last = NONE;
        for i in base..starts {
            let rank = self.indexes[i];
            let at = std::mem::replace(&mut self.indexes[starts + rank], NONE);
            if at == NONE {
                return Err(self.order.damaged("an entry is named twice"));
            }
            // Of two entries with one key the first said is the first here: the last one counts for readers.
            if has_twins && rank > 0 {
                let before = self.indexes[starts + rank - 1];
                if before != NONE && self.slots[before].value.as_wtf8() == self.slots[at].value.as_wtf8() {
                    return Err(self.order.damaged("entries with one key have changed places"));
                }
            }
            if last == NONE {
                self.slots[object].value = Value::Object(at);
            } else {
                self.slots[last].next = at;
            }
            last = at;
        }
        self.slots[last].next = NONE;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! What is refused and why, and that depth and length have limits that are reached and not passed.

    use super::*;
    use crate::canon::tests::{decoded, encoded, encoded_text};
    use crate::canon::write::push_length;
    use crate::canon::{body_refs, message_id, outline};
    use crate::limits::JSON_DEPTH_MAX;

    #[test]
    fn too_new_damaged_and_missing_are_told_apart() {
        let message = encoded(&Json::object([("content", Json::from("x".repeat(600)))]));
        let missing = StoredMessage { canon: &message.canon, order: &message.order, bodies: &[] };
        assert_eq!(missing.tree().unwrap_err(), CanonError::MissingBody(message.bodies[0].id));
        assert_eq!(missing.check(&message.id), Err(CanonError::MissingBody(message.bodies[0].id)));
        let newer = StoredMessage { canon: b"M\x02whatever", order: &[], bodies: &[] };
        let too_new = newer.tree().unwrap_err();
        assert_eq!(too_new.to_string(), "the canonical bytes have version 2, this program reads version 1");
        let other = StoredMessage { bodies: &[b"B\x01y"], ..missing };
        assert!(matches!(other.check(&message.id), Err(CanonError::WrongBody { .. })));
        assert!(matches!(other.tree(), Err(CanonError::Damaged { part: "bytes of a body", .. })));
        assert!(matches!(other.check(&message_id(b"")), Err(CanonError::WrongMessage { .. })));
        let mut extra = message.body_slices();
        extra.push(b"B\x01y");
        assert!(message.stored(&extra).tree().is_err());
    }

    /// 33 bytes can name a body of 64 MiB; without a bound a small file would be written out as petabytes.
    #[test]
    fn a_small_message_that_names_a_large_body_very_often_is_refused() {
        let once = encoded(&Json::object([("content", Json::from("x".repeat(1 << 20)))]));
        let reference = &once.canon[once.canon.len() - 36..];
        assert_eq!(reference[0], b'b');
        let mut canon = b"M\x01{\x01\x07content[".to_vec();
        push_length(&mut canon, 100);
        for _ in 0..100 {
            canon.extend_from_slice(reference);
        }
        let bomb = StoredMessage { canon: &canon, order: &[], bodies: &[&once.bodies[0].bytes] };
        let error = bomb.tree().unwrap_err();
        assert!(matches!(error, CanonError::Damaged { what: "the bodies are longer than a message may be", .. }));
    }

    #[test]
    fn the_deepest_message_we_read_can_be_stored_and_read_back() {
        let text = format!("{{\"a\":{}{}}}", "[".repeat(JSON_DEPTH_MAX - 1), "]".repeat(JSON_DEPTH_MAX - 1));
        let message = encoded_text(&text);
        assert_eq!(decoded(&message).unwrap().to_text(), text.as_bytes());
        let mut canon = b"M\x01{\x01\x01a".to_vec();
        canon.extend(b"[\x01".repeat(JSON_DEPTH_MAX + 1));
        canon.push(b'n');
        let too_deep = StoredMessage { canon: &canon, order: &[], bodies: &[] };
        assert!(too_deep.tree().is_err() && body_refs(&canon).is_err() && outline(&canon).is_err());
    }

    /// Readers and writers recurse: the limit of depth must be one that every thread of a host can bear.
    #[test]
    fn the_deepest_message_fits_a_small_stack() {
        let text = format!(
            "{{\"content\":{}{{}}{}}}",
            "[{\"b\":".repeat(JSON_DEPTH_MAX / 2 - 1),
            "}]".repeat(JSON_DEPTH_MAX / 2 - 1)
        );
        let work = move || {
            let message = encoded_text(&text);
            let bodies = message.body_slices();
            let stored = message.stored(&bodies);
            let mut out = Vec::new();
            write_json(&stored, &mut out).unwrap();
            assert_eq!(out, text.as_bytes());
            assert_eq!(decode(&stored).unwrap().to_text(), out);
            body_refs(&message.canon).unwrap();
            outline(&message.canon).unwrap();
        };
        let thread = std::thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap();
        thread.join().unwrap();
    }
}
