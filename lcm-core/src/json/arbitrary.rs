//! Random JSON for the property tests of this crate: values and strings of every kind that matters to us.

use proptest::prelude::*;

use super::wtf8::surrogate_bytes;
use super::{Json, JsonString};

/// The string of UTF-16 code units, surrogates and all.
pub(crate) fn from_units(units: &[u16]) -> JsonString {
    let mut string = JsonString::new();
    for unit in char::decode_utf16(units.iter().copied()) {
        string.push(&match unit {
            Ok(character) => character.to_string().into(),
            Err(error) => JsonString::from_unpaired(surrogate_bytes(error.unpaired_surrogate()).to_vec()),
        });
    }
    string
}

/// Strings of all kinds that matter here: plain, with escapes, with surrogates, as long as a body.
pub(crate) fn any_string() -> impl Strategy<Value = JsonString> {
    let unit = prop_oneof![
        8 => 0x20_u16..0x7f,
        2 => 0_u16..0x20,
        1 => Just(u16::from(b'"')),
        1 => Just(u16::from(b'\\')),
        2 => 0xd800_u16..0xe000,
        2 => any::<u16>(),
    ];
    prop_oneof![
        4 => "[a-z]{0,3}".prop_map(JsonString::from),
        2 => any::<String>().prop_map(JsonString::from),
        4 => prop::collection::vec(unit, 0..40).prop_map(|units| from_units(&units)),
        1 => ("[a-zé]", prop::sample::select(vec![255_usize, 256, 511, 512, 4095, 4096]))
            .prop_map(|(text, times)| text.repeat(times).into()),
    ]
}

fn any_number() -> impl Strategy<Value = Box<str>> {
    prop_oneof![
        8 => "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,10})?([eE][+-]?[0-9]{1,2})?".prop_map(Into::into),
        1 => prop::sample::select(vec!["NaN", "Infinity", "-Infinity", "-0", "1e999"]).prop_map(Into::into),
    ]
}

/// Any value; keys are few, so that some occur twice.
pub(crate) fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any_number().prop_map(Json::Number),
        any_string().prop_map(Json::String),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Json::Array),
            any_entries(inner).prop_map(Json::Object),
        ]
    })
}

pub(crate) fn any_entries(value: impl Strategy<Value = Json>) -> impl Strategy<Value = Vec<(JsonString, Json)>> {
    let key = prop_oneof![
        1 => prop::sample::select(vec!["content", "role", "tool_calls", "type", "text", "name", "id", "a", "b"])
            .prop_map(JsonString::from),
        1 => any_string(),
    ];
    prop::collection::vec((key, value), 0..8)
}
