//! Stored twins of the core types other than nodes: a version byte, a check, then bincode.
//!
//! The only file that knows bincode. What is hashed never goes through here, so the codec can be replaced
//! behind the version byte and no address changes.

use bincode::{Decode, Encode, config};
use lcm_core::limits::MESSAGE_BYTES_MAX;
use lcm_core::op::{Change, Op};
use lcm_core::view::{Segment, Shows, View};
use lcm_core::{Arrival, NodeId, OpId, OrderKey, SessionId, SummaryNumber, TimelineId};

use crate::error::StoreError;

/// Little-endian varints. The bound is for damaged rows, which must not ask for a terabyte: no row is larger than a
/// message's worth of volatile keys.
const CODEC: config::Configuration<config::LittleEndian, config::Varint, config::Limit<{ 2 * MESSAGE_BYTES_MAX }>> =
    config::standard().with_limit();
/// The row version of format 1.
const VERSION: u8 = 1;
/// Bytes of the check behind the version.
const CHECK: usize = 4;

/// A type with a stored form.
pub(crate) trait Row: Encode + Decode<()> {
    /// The table it stands in.
    const TABLE: &'static str;

    /// Version byte, check and encoding, for the row under `key`.
    fn to_bytes(&self, key: u64) -> Vec<u8> {
        let encoded = bincode::encode_to_vec(self, CODEC).expect("rows hold no type that bincode refuses");
        let mut bytes = Vec::with_capacity(1 + CHECK + encoded.len());
        bytes.push(VERSION);
        bytes.extend_from_slice(&check(Self::TABLE, key, &encoded));
        bytes.extend_from_slice(&encoded);
        bytes
    }

    /// Reads the row under `key`; whatever was changed since it was written, or stands under another key, is refused.
    fn from_bytes(bytes: &[u8], key: u64) -> Result<Self, StoreError> {
        let damaged = |why: &str| StoreError::row(Self::TABLE, key, why);
        let Some((&VERSION, rest)) = bytes.split_first() else { return Err(damaged("unknown row version")) };
        let (told, encoded) = rest.split_at_checked(CHECK).ok_or_else(|| damaged("it is cut"))?;
        if told != check(Self::TABLE, key, encoded) {
            return Err(damaged("its bytes are not those that were written"));
        }
        match bincode::decode_from_slice(encoded, CODEC) {
            Ok((row, read)) if read == encoded.len() => Ok(row),
            Ok(_) => Err(damaged("bytes behind its end")),
            Err(error) => Err(StoreError::row(Self::TABLE, key, error)),
        }
    }
}

/// What tells a whole row from a damaged one. Nodes have their ids for that; a place says which node stands there, so a
/// flipped bit in it would show one message instead of another.
fn check(table: &str, key: u64, encoded: &[u8]) -> [u8; CHECK] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(table.as_bytes()).update(&key.to_le_bytes()).update(encoded);
    let mut check = [0; CHECK];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..CHECK]);
    check
}

/// What stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) enum PlaceKind {
    /// A message; the place also has a row in `timeline`.
    Message,
    /// A summary that a view shows or showed, itself or in one above it, at the first place of the run it stands for.
    Summary {
        /// Its small integer.
        number: u64,
    },
    /// The same, but no view has shown it yet: it can be read, and is not searched.
    Staged {
        /// Its small integer.
        number: u64,
    },
}

/// A row of `places`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct PlaceRow {
    pub(crate) kind: PlaceKind,
    pub(crate) timeline: u64,
    /// `None` where the order key is the arrival number itself: an appended place.
    pub(crate) order: Option<Vec<u8>>,
    pub(crate) record: u64,
    pub(crate) seen_ms: i64,
    pub(crate) tokens: u32,
    pub(crate) volatile: Vec<u8>,
}

impl Row for PlaceRow {
    const TABLE: &'static str = "places";
}

impl PlaceRow {
    /// The order key; `arrival` is the row's key.
    pub(crate) fn order_key(&self, arrival: Arrival) -> Result<OrderKey, StoreError> {
        match &self.order {
            None => Ok(OrderKey::appended(arrival)),
            Some(bytes) => OrderKey::from_bytes(bytes)
                .ok_or_else(|| StoreError::row(Self::TABLE, arrival, "its order key has no legal length")),
        }
    }
}

/// A row of `sessions`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct SessionRow {
    pub(crate) owner: u64,
    pub(crate) agent: String,
    pub(crate) person: String,
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) created_ms: i64,
    pub(crate) timeline: u64,
}

impl Row for SessionRow {
    const TABLE: &'static str = "sessions";
}

/// A row of `timelines`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct TimelineRow {
    pub(crate) session: u64,
    pub(crate) owner: u64,
    /// The timeline this one branched off, the order key of the last shared place, and the highest arrival
    /// number there was at that moment: what came later to the parent is not shared.
    pub(crate) parent: Option<(u64, Vec<u8>, u64)>,
    pub(crate) created_ms: i64,
}

impl Row for TimelineRow {
    const TABLE: &'static str = "timelines";
}

/// A row of `ops`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct OpRow {
    session: u64,
    at_ms: i64,
    by: String,
    what: ChangeRow,
}

impl Row for OpRow {
    const TABLE: &'static str = "ops";
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
enum ChangeRow {
    Ingest { timeline: u64, first: u64, last: u64 },
    Branch { from: Option<u64>, to: u64, shared: u64 },
    Revise { arrival: u64, form: [u8; 32] },
    Fold { summary: [u8; 32] },
    Unfold { summary: [u8; 32] },
    Stage { summaries: u64, calls: u64, tokens: u64 },
    Pin { arrival: u64 },
    Unpin { arrival: u64 },
    Undo { op: u64 },
}

impl OpRow {
    pub(crate) fn new(session: SessionId, at_ms: i64, by: &str, what: &Change) -> Result<Self, StoreError> {
        let what = match *what {
            Change::Ingest { timeline, first, last } => {
                ChangeRow::Ingest { timeline: timeline.0, first: first.0, last: last.0 }
            }
            Change::Branch { from, to, shared } => {
                ChangeRow::Branch { from: from.map(|from| from.0), to: to.0, shared }
            }
            Change::Revise { arrival, form } => ChangeRow::Revise { arrival: arrival.0, form: *form.as_bytes() },
            Change::Fold { summary } => ChangeRow::Fold { summary: *summary.as_bytes() },
            Change::Unfold { summary } => ChangeRow::Unfold { summary: *summary.as_bytes() },
            Change::Stage { summaries, calls, tokens } => ChangeRow::Stage { summaries, calls, tokens },
            Change::Pin { arrival } => ChangeRow::Pin { arrival: arrival.0 },
            Change::Unpin { arrival } => ChangeRow::Unpin { arrival: arrival.0 },
            Change::Undo { op } => ChangeRow::Undo { op: op.0 },
            _ => return Err(StoreError::row(Self::TABLE, session, "a change this format has no row for")),
        };
        Ok(Self { session: session.0, at_ms, by: by.to_owned(), what })
    }

    pub(crate) fn into_op(self, id: OpId) -> Op {
        let what = match self.what {
            ChangeRow::Ingest { timeline, first, last } => {
                Change::Ingest { timeline: TimelineId(timeline), first: Arrival(first), last: Arrival(last) }
            }
            ChangeRow::Branch { from, to, shared } => {
                Change::Branch { from: from.map(TimelineId), to: TimelineId(to), shared }
            }
            ChangeRow::Revise { arrival, form } => {
                Change::Revise { arrival: Arrival(arrival), form: NodeId::from_bytes(form) }
            }
            ChangeRow::Fold { summary } => Change::Fold { summary: NodeId::from_bytes(summary) },
            ChangeRow::Unfold { summary } => Change::Unfold { summary: NodeId::from_bytes(summary) },
            ChangeRow::Stage { summaries, calls, tokens } => Change::Stage { summaries, calls, tokens },
            ChangeRow::Pin { arrival } => Change::Pin { arrival: Arrival(arrival) },
            ChangeRow::Unpin { arrival } => Change::Unpin { arrival: Arrival(arrival) },
            ChangeRow::Undo { op } => Change::Undo { op: OpId(op) },
        };
        Op { id, session: SessionId(self.session), at_ms: self.at_ms, by: self.by, what }
    }
}

/// A row of `revisions`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct RevisionRow {
    pub(crate) record: u64,
    pub(crate) seen_ms: i64,
    pub(crate) volatile: Vec<u8>,
}

impl Row for RevisionRow {
    const TABLE: &'static str = "revisions";
}

/// A row of `views`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ViewRow {
    segments: Vec<(Vec<u8>, Option<[u8; 32]>)>,
}

impl Row for ViewRow {
    const TABLE: &'static str = "views";
}

impl From<&View> for ViewRow {
    fn from(view: &View) -> Self {
        let row = |segment: &Segment| {
            let shows = match segment.shows {
                Shows::Raw => None,
                Shows::Folded(summary) => Some(*summary.as_bytes()),
            };
            (segment.first.as_bytes().to_vec(), shows)
        };
        Self { segments: view.segments().iter().map(row).collect() }
    }
}

impl ViewRow {
    pub(crate) fn into_view(self, key: u64) -> Result<View, StoreError> {
        let mut segments = Vec::with_capacity(self.segments.len());
        for (first, shows) in self.segments {
            let first = OrderKey::from_bytes(&first)
                .ok_or_else(|| StoreError::row(Self::TABLE, key, "an order key has no legal length"))?;
            let shows = shows.map_or(Shows::Raw, |id| Shows::Folded(NodeId::from_bytes(id)));
            segments.push(Segment { first, shows });
        }
        View::new(segments).map_err(|error| StoreError::row(Self::TABLE, key, error))
    }
}

/// A row of `children`: the record numbers of the children, then the arrival numbers of the places that are meant, 0
/// where there is none; each packed as the zigzag differences between neighbours.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct ChildrenRow {
    records: Vec<u8>,
    places: Vec<u8>,
}

impl Row for ChildrenRow {
    const TABLE: &'static str = "children";
}

impl ChildrenRow {
    pub(crate) fn new(children: &[(u64, u64)]) -> Self {
        let (records, places): (Vec<u64>, Vec<u64>) = children.iter().copied().unzip();
        Self { records: pack_numbers(&records), places: pack_numbers(&places) }
    }

    /// The record numbers; `key` is the row's key.
    pub(crate) fn records(&self, key: u64) -> Result<Vec<u64>, StoreError> {
        unpack_numbers(&self.records).ok_or_else(|| StoreError::row(Self::TABLE, key, "its list cannot be read"))
    }

    /// The arrival numbers; `key` is the row's key.
    pub(crate) fn places(&self, key: u64) -> Result<Vec<u64>, StoreError> {
        unpack_numbers(&self.places).ok_or_else(|| StoreError::row(Self::TABLE, key, "its list cannot be read"))
    }
}

/// Zigzag differences as LEB128: neighbours are mostly near.
fn pack_numbers(numbers: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(numbers.len() + 8);
    let mut last = 0_u64;
    for &number in numbers {
        let difference = number.wrapping_sub(last).cast_signed();
        let mut zigzag = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
        last = number;
        while zigzag >= 128 {
            bytes.push(low_seven(zigzag) | 128);
            zigzag >>= 7;
        }
        bytes.push(low_seven(zigzag));
    }
    bytes
}

fn low_seven(number: u64) -> u8 {
    u8::try_from(number & 127).expect("seven bits fit a byte")
}

/// Reads what [`pack_numbers`] wrote; `None` for anything else.
fn unpack_numbers(bytes: &[u8]) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    let (mut last, mut zigzag, mut shift) = (0_u64, 0_u64, 0_u32);
    for &byte in bytes {
        if shift > 63 {
            return None;
        }
        zigzag |= u64::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
            last = last.wrapping_add(difference);
            numbers.push(last);
            (zigzag, shift) = (0, 0);
        }
    }
    (shift == 0).then_some(numbers)
}

/// A summary's small integer as stored in its place.
pub(crate) fn summary_number(kind: PlaceKind) -> Option<SummaryNumber> {
    match kind {
        PlaceKind::Message => None,
        PlaceKind::Summary { number } | PlaceKind::Staged { number } => Some(SummaryNumber(number)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn packed_numbers_come_back(numbers in prop::collection::vec(any::<u64>(), 0..50)) {
            prop_assert_eq!(unpack_numbers(&pack_numbers(&numbers)), Some(numbers));
        }

        #[test]
        fn no_bytes_make_a_row_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _read = unpack_numbers(&bytes);
            let _read = PlaceRow::from_bytes(&bytes, 0).is_ok();
            let _read = OpRow::from_bytes(&bytes, 0).is_ok();
            let _read = ViewRow::from_bytes(&bytes, 0).is_ok();
        }
    }

    #[test]
    fn a_row_of_another_version_is_damaged_not_misread() {
        let row = RevisionRow { record: 7, seen_ms: -1, volatile: b"{}".to_vec() };
        let mut bytes = row.to_bytes(1);
        assert_eq!(RevisionRow::from_bytes(&bytes, 1).unwrap(), row);
        bytes[0] = 2;
        assert!(matches!(RevisionRow::from_bytes(&bytes, 1), Err(StoreError::DamagedRow { .. })));
    }

    #[test]
    fn a_row_with_a_flipped_bit_or_under_another_key_is_damaged() {
        let row = TimelineRow { session: 3, owner: 1, parent: Some((1, vec![0; 8], 9)), created_ms: 1_700_000_000_000 };
        let whole = row.to_bytes(2);
        assert!(matches!(TimelineRow::from_bytes(&whole, 3), Err(StoreError::DamagedRow { .. })));
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(TimelineRow::from_bytes(&bytes, 2).is_err(), "bit {bit}");
        }
        for cut in 0..whole.len() {
            assert!(TimelineRow::from_bytes(&whole[..cut], 2).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_length_that_lies_does_not_become_an_allocation() {
        // A row whose check is right and whose list claims 2^60 bytes.
        let encoded = [&[7, 0][..], &[253], &(1_u64 << 60).to_le_bytes()].concat();
        let bytes = [&[VERSION][..], &check("revisions", 1, &encoded), &encoded].concat();
        assert!(matches!(RevisionRow::from_bytes(&bytes, 1), Err(StoreError::DamagedRow { .. })));
    }
}
