//! Canonical bytes of a summary: all that makes it what it is, in one order.
//!
//! Laid out in `docs/format.md`, "Summary". Not here: which summaries are valid ([`Summary::new`] says so, for those
//! that are read too).

use super::cursor::Cursor;
use super::write::{push_bytes, push_length, push_varint};
use super::{CanonError, SUMMARY};
use crate::id::NodeId;
use crate::node::{Level, Summary, SummaryParts};

/// The canonical bytes of a summary.
#[must_use]
pub fn encode_summary(summary: &Summary) -> Vec<u8> {
    let children = summary.children();
    let mut out = Vec::with_capacity(summary.text().len() + 32 * children.len() + 128);
    out.extend_from_slice(&SUMMARY);
    push_varint(&mut out, u64::from(summary.depth()));
    push_varint(&mut out, u64::from(summary.level.number()));
    push_varint(&mut out, u64::from(summary.prompt_version));
    push_varint(&mut out, summary.source_tokens);
    push_varint(&mut out, u64::from(summary.own_tokens));
    let (first_ms, last_ms) = summary.span_ms();
    push_varint(&mut out, zigzag(first_ms));
    push_varint(&mut out, zigzag(last_ms));
    push_bytes(&mut out, summary.model.as_bytes());
    push_bytes(&mut out, summary.text().as_bytes());
    let mut marks: Vec<&String> = summary.marks.iter().collect();
    marks.sort();
    push_length(&mut out, marks.len());
    for mark in marks {
        push_bytes(&mut out, mark.as_bytes());
    }
    push_length(&mut out, summary.mentions.len());
    for mention in &summary.mentions {
        push_bytes(&mut out, mention.as_bytes());
    }
    push_length(&mut out, children.len());
    for child in children {
        out.extend_from_slice(child.as_bytes());
    }
    out
}

/// What stands first in a summary: enough to show it in a list and to search it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryHead<'a> {
    /// Levels below it, 1 or more.
    pub depth: u16,
    /// When the first and the last of its sources were said: milliseconds since 1970 UTC.
    pub span_ms: (i64, i64),
    /// What it says.
    pub text: &'a str,
}

/// Reads the head of a summary alone.
///
/// # Errors
/// When the bytes do not begin as [`encode_summary`] writes them.
pub fn summary_head(canon: &[u8]) -> Result<SummaryHead<'_>, CanonError> {
    let mut cursor = Cursor::begin(canon, "canonical bytes of a summary", SUMMARY)?;
    let Front { depth, span_ms, text, .. } = Front::read(&mut cursor)?;
    Ok(SummaryHead { depth, span_ms, text })
}

/// All that stands in front of the lists.
struct Front<'a> {
    depth: u16,
    level: Level,
    prompt_version: u32,
    source_tokens: u64,
    own_tokens: u32,
    span_ms: (i64, i64),
    model: &'a str,
    text: &'a str,
}

impl<'a> Front<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, CanonError> {
        let too_large = |cursor: &Cursor<'_>| cursor.damaged("a number is too large");
        let depth = u16::try_from(cursor.varint()?).map_err(|_| too_large(cursor))?;
        let level = u8::try_from(cursor.varint()?).ok().and_then(Level::from_number);
        let level = level.ok_or_else(|| cursor.damaged("there is no such level"))?;
        let prompt_version = u32::try_from(cursor.varint()?).map_err(|_| too_large(cursor))?;
        let source_tokens = cursor.varint()?;
        let own_tokens = u32::try_from(cursor.varint()?).map_err(|_| too_large(cursor))?;
        let span_ms = (unzigzag(cursor.varint()?), unzigzag(cursor.varint()?));
        let (model, text) = (cursor.text()?, cursor.text()?);
        Ok(Self { depth, level, prompt_version, source_tokens, own_tokens, span_ms, model, text })
    }
}

/// Reads a summary back.
///
/// # Errors
/// When the bytes are not what [`encode_summary`] writes.
pub fn decode_summary(canon: &[u8]) -> Result<Summary, CanonError> {
    let mut cursor = Cursor::begin(canon, "canonical bytes of a summary", SUMMARY)?;
    let front = Front::read(&mut cursor)?;
    let mut marks: Vec<String> = Vec::new();
    for _ in 0..cursor.count(1)? {
        marks.push(cursor.text()?.to_owned());
    }
    if !marks.is_sorted() {
        return Err(cursor.damaged("marks are not in order"));
    }
    let mut mentions = Vec::new();
    for _ in 0..cursor.count(1)? {
        mentions.push(cursor.text()?.to_owned());
    }
    let count = cursor.count(32)?;
    let mut children = Vec::with_capacity(count);
    for _ in 0..count {
        children.push(NodeId::from_bytes(cursor.hash()?));
    }
    cursor.end()?;
    let Front { depth, span_ms, .. } = front;
    let mut summary = Summary::new(SummaryParts { text: front.text.to_owned(), children, depth, span_ms })?;
    summary.source_tokens = front.source_tokens;
    summary.own_tokens = front.own_tokens;
    summary.level = front.level;
    summary.model = front.model.to_owned();
    summary.prompt_version = front.prompt_version;
    summary.marks = marks;
    summary.mentions = mentions;
    Ok(summary)
}

/// Small numbers of either sign to small numbers without one: 0, -1, 1, -2 become 0, 1, 2, 3.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    //! That a summary comes back as it was made, and one that contradicts itself not at all.
    //! Method: random summaries, single bytes changed, the vectors of `docs/format.md`.

    use proptest::prelude::*;

    use super::*;
    use crate::canon::message_id;
    use crate::canon::tests::{hex, spelled};
    use crate::node::SummaryError;

    proptest! {
        #[test]
        fn a_summary_comes_back_as_it_was_made(
            text in any::<String>(),
            children in prop::collection::vec(any::<[u8; 32]>(), 1..5),
            numbers in (1..u16::MAX, any::<u64>(), any::<u32>(), any::<u32>(), prop::sample::select(Level::ALL.to_vec())),
            span in (any::<i64>(), any::<i64>()),
            mut names in prop::collection::vec(any::<String>(), 0..6),
        ) {
            let children = children.into_iter().map(NodeId::from_bytes).collect();
            let span_ms = (span.0.min(span.1), span.0.max(span.1));
            let mut summary = Summary::new(SummaryParts { text, children, depth: numbers.0, span_ms }).unwrap();
            (_, summary.source_tokens, summary.own_tokens, summary.prompt_version, summary.level) = numbers;
            summary.model = names.pop().unwrap_or_default();
            summary.mentions = names.clone();
            let mut unsorted = summary.clone();
            unsorted.marks = names.clone();
            names.sort();
            summary.marks = names;
            let canon = encode_summary(&summary);
            let head = SummaryHead { depth: summary.depth(), span_ms, text: summary.text() };
            prop_assert_eq!(summary_head(&canon), Ok(head));
            prop_assert_eq!(decode_summary(&canon), Ok(summary));
            prop_assert_eq!(encode_summary(&unsorted), canon);
        }
    }

    #[test]
    fn small_numbers_of_either_sign_stay_small() {
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
        for value in [0, -1, i64::MIN, i64::MAX] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    #[test]
    fn summaries_that_contradict_themselves_are_refused() {
        let children = vec![NodeId::from_bytes([7; 32])];
        let parts = SummaryParts { text: "t".into(), children, depth: 1, span_ms: (5, 6) };
        let canon = encode_summary(&Summary::new(parts).unwrap());
        let with = |at: usize, byte: u8| {
            let mut canon = canon.clone();
            canon[at] = byte;
            decode_summary(&canon).unwrap_err()
        };
        assert_eq!(with(2, 0), CanonError::Summary(SummaryError::NoDepth));
        assert!(matches!(with(3, 9), CanonError::Damaged { what: "there is no such level", .. }));
        assert_eq!(with(7, 14), CanonError::Summary(SummaryError::BackwardSpan));
        assert!(matches!(with(1, 3), CanonError::TooNew { version: 3, .. }));
        assert!(matches!(with(0, b'M'), CanonError::Damaged { .. }));
        assert!(decode_summary(&canon[..canon.len() - 1]).is_err());
    }

    #[test]
    fn the_stored_examples_of_summaries_are_reproduced() {
        let examples = include_str!("../../../tests/fixtures/canon/summaries.json");
        let examples: Vec<serde_json::Value> = serde_json::from_str(examples).unwrap();
        for example in examples {
            let name = &example["name"];
            let fields = &example["summary"];
            let number = |key: &str| fields[key].as_u64().unwrap();
            let texts = |key: &str| -> Vec<String> { fields[key].as_array().unwrap().iter().map(spelled).collect() };
            let mut summary = Summary::new(SummaryParts {
                text: spelled(&fields["text"]),
                children: texts("children").iter().map(|id| NodeId::from_hex(id).unwrap()).collect(),
                depth: u16::try_from(number("depth")).unwrap(),
                span_ms: (fields["span_ms"][0].as_i64().unwrap(), fields["span_ms"][1].as_i64().unwrap()),
            })
            .unwrap();
            summary.level = Level::from_number(u8::try_from(number("level")).unwrap()).unwrap();
            summary.prompt_version = u32::try_from(number("prompt_version")).unwrap();
            summary.source_tokens = number("source_tokens");
            summary.own_tokens = u32::try_from(number("own_tokens")).unwrap();
            summary.model = spelled(&fields["model"]);
            summary.marks = texts("marks");
            summary.mentions = texts("mentions");
            let canon = encode_summary(&summary);
            assert_eq!(hex(&canon), spelled(&example["canonical_hex"]), "canonical bytes: {name}");
            assert_eq!(message_id(&canon).to_string(), spelled(&example["id"]), "id: {name}");
            summary.marks.sort();
            assert_eq!(decode_summary(&canon), Ok(summary), "read back: {name}");
        }
    }
}
