//! That a message comes back as it was said, that its id depends on what it says and on nothing else, and that
//! a reader takes exactly the bytes that the writer makes.
//! Method: random messages, and random damage to what they are stored as; the vectors of `docs/format.md`.

use proptest::prelude::*;

use super::*;
use crate::json::Json;
use crate::json::arbitrary::{any_entries, any_json};
use crate::message::Message;

pub(super) fn encoded(json: &Json) -> EncodedMessage {
    Message::from_json(json.clone()).unwrap().encode().unwrap()
}

pub(super) fn encoded_text(text: &str) -> EncodedMessage {
    encoded(&Json::parse(text.as_bytes()).expect(text))
}

pub(super) fn decoded(message: &EncodedMessage) -> Result<Json, CanonError> {
    decode(&message.stored(&message.body_slices()))
}

pub(super) fn any_message() -> impl Strategy<Value = Json> {
    any_entries(any_json()).prop_map(Json::Object)
}

/// Turns the keys of every object round, those that occur twice kept in their order.
fn turned_round(json: &Json) -> Json {
    match json {
        Json::Array(elements) => Json::Array(elements.iter().map(turned_round).collect()),
        Json::Object(entries) => {
            let mut turned: Vec<_> = entries.iter().map(|(k, v)| (k.clone(), turned_round(v))).collect();
            turned.sort_by(|(a, _), (b, _)| b.cmp(a));
            Json::Object(turned)
        }
        leaf => leaf.clone(),
    }
}

/// Changes the `n`th leaf or key, counted from 0; whether there was one.
fn change(json: &mut Json, n: &mut usize) -> bool {
    match json {
        Json::Array(elements) if !elements.is_empty() => elements.iter_mut().any(|element| change(element, n)),
        Json::Object(entries) if !entries.is_empty() => entries.iter_mut().any(|(key, value)| {
            if *n == 0 {
                key.push(&"x".into());
                return true;
            }
            *n -= 1;
            change(value, n)
        }),
        leaf => {
            if *n > 0 {
                *n -= 1;
                return false;
            }
            *leaf = match &*leaf {
                Json::Null => Json::Bool(false),
                Json::Bool(value) => Json::Bool(!value),
                Json::Number(literal) => Json::Number(if **literal == *"7" { "8" } else { "7" }.into()),
                Json::String(text) => {
                    let mut text = text.clone();
                    text.push(&"x".into());
                    Json::String(text)
                }
                Json::Array(_) => Json::Object(Vec::new()),
                Json::Object(_) => Json::Array(Vec::new()),
            };
            true
        }
    }
}

proptest! {
    #[test]
    fn a_message_comes_back_as_it_was_said(json in any_message()) {
        let message = encoded(&json);
        let bodies = message.body_slices();
        let stored = message.stored(&bodies);
        prop_assert_eq!(decode(&stored), Ok(json.clone()));
        let mut text = b"before".to_vec();
        write_json(&stored, &mut text).unwrap();
        prop_assert_eq!(&text[6..], json.to_text());
        prop_assert_eq!(stored.check(&message.id), Ok(()));
    }

    #[test]
    fn the_order_of_keys_does_not_change_what_is_hashed(json in any_message()) {
        let (one, other) = (encoded(&json), encoded(&turned_round(&json)));
        prop_assert_eq!((one.id, one.canon, one.bodies), (other.id, other.canon, other.bodies));
    }

    #[test]
    fn any_change_of_a_key_or_value_changes_the_id(json in any_message(), at in any::<prop::sample::Index>()) {
        let mut rest = usize::MAX;
        change(&mut json.clone(), &mut rest);
        let mut n = at.index((usize::MAX - rest).max(1));
        let mut changed = json.clone();
        if change(&mut changed, &mut n) && changed.as_object().is_some() {
            prop_assert_ne!(encoded(&json).id, encoded(&changed).id);
        }
    }

    /// The property that makes an id mean something: no two byte strings are read as one message.
    #[test]
    fn what_a_reader_takes_is_what_the_writer_makes(
        json in any_message(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..2, prop::collection::vec(any::<u8>(), 0..2)), 0..3),
    ) {
        let mut message = encoded(&json);
        for (at, cut, insert) in damage {
            let start = at.index(message.canon.len() + 1);
            let end = message.canon.len().min(start + cut);
            message.canon.splice(start..end, insert);
        }
        message.id = message_id(&message.canon);
        if let Ok(json) = decoded(&message)
            && message.stored(&message.body_slices()).check(&message.id).is_ok()
        {
            let again = encoded(&json);
            prop_assert_eq!((message.id, message.canon, message.bodies), (again.id, again.canon, again.bodies));
        }
    }

    #[test]
    fn a_damaged_key_order_is_refused_or_moves_keys_only(
        json in any_message(),
        order in prop::collection::vec(prop_oneof![8 => 0_u8..4, 1 => any::<u8>()], 0..12),
    ) {
        let mut message = encoded(&json);
        message.order = order;
        if let Ok(json) = decoded(&message) {
            prop_assert_eq!(encoded(&json).id, message.id);
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(
        mut canon in prop::collection::vec(prop_oneof![1 => any::<u8>(), 2 => prop::sample::select(b"ntf#s[{b\x00\x01\x02\x03".to_vec())], 0..80),
        order in prop::collection::vec(any::<u8>(), 0..8),
        body in prop::collection::vec(any::<u8>(), 0..8),
        head in prop::sample::select(vec![b"M\x01{\x01".to_vec(), b"S\x01\x01\x01".to_vec(), b"M\x01".to_vec(), Vec::new()]),
    ) {
        canon.splice(0..0, head);
        let stored = StoredMessage { canon: &canon, order: &order, bodies: &[&body] };
        let alone = StoredMessage { bodies: &[], ..stored };
        if stored.tree().is_ok() || alone.tree().is_ok() {
            prop_assert!(body_refs(&canon).is_ok() && outline(&canon).is_ok());
        }
        if let Ok(summary) = decode_summary(&canon) {
            prop_assert_eq!(encode_summary(&summary), canon);
        }
    }
}

/// A text of the stored examples: a string, or pieces and repetitions put together.
pub(super) fn spelled(text: &serde_json::Value) -> String {
    match text {
        serde_json::Value::String(text) => text.clone(),
        serde_json::Value::Array(pieces) => pieces.iter().map(spelled).collect(),
        repeated => {
            let times = usize::try_from(repeated["times"].as_u64().unwrap()).unwrap();
            spelled(&repeated["repeat"]).repeat(times)
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_stored_examples_of_messages_are_reproduced() {
    let examples = include_str!("../../../tests/fixtures/canon/messages.json");
    let examples: Vec<serde_json::Value> = serde_json::from_str(examples).unwrap();
    assert!(examples.len() >= 20, "{} examples", examples.len());
    for example in examples {
        let name = &example["name"];
        let text = spelled(&example["json"]);
        let message = encoded_text(&text);
        assert_eq!(hex(&message.canon), spelled(&example["canonical_hex"]), "canonical bytes: {name}");
        assert_eq!(hex(&message.order), spelled(&example["order_hex"]), "key order: {name}");
        assert_eq!(message.id.to_string(), spelled(&example["id"]), "id: {name}");
        let bodies: Vec<_> = message.bodies.iter().map(|body| (body.id.to_string(), hex(&body.bytes))).collect();
        let expected: Vec<_> = (example["bodies"].as_array().unwrap().iter())
            .map(|body| (spelled(&body["id"]), spelled(&body["bytes"])))
            .collect();
        assert_eq!(bodies, expected, "bodies: {name}");
        assert_eq!(decoded(&message), Ok(Json::parse(text.as_bytes()).unwrap()), "read back: {name}");
    }
}
