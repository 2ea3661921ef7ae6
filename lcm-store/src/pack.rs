//! Records: canonical bytes of a node or body, compressed, behind a short header.
//!
//! Layout in `docs/format.md` ("Table `records`"). The header carries the full id, so that a read can be checked
//! whatever the index said. Compression is zstd-3 with a dictionary trained on this store; its number is in
//! every record, so that old records stay readable when a better dictionary comes.
//!
//! Invariant: what was packed unpacks to the same bytes; whatever does not hash to its id is refused. The id speaks for
//! the canonical bytes only; the key order behind them has a check of its own in the header.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use lcm_core::limits::MESSAGE_BYTES_MAX;
use zstd::zstd_safe::{CCtx, CDict, CompressionLevel, DCtx, DDict};

use crate::error::StoreError;

/// The speed and size that measured best for messages: 3-4 us a read, 0.32 of the size with a dictionary.
const LEVEL: CompressionLevel = 3;
/// Record version of format 1.
const VERSION: u8 = 1;
/// Below this a frame's header and the call cost more than they save.
const COMPRESS_BYTES_MIN: usize = 48;
/// What canonical bytes and key order of the largest message may take together, with room for lengths and tags.
const PAYLOAD_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// Bytes of the fixed part of the header: version and id.
const HEAD: usize = 33;
/// Bytes of the check of the key order, where there is one.
const CHECK: usize = 4;
/// A longer record is cut into rows of this size: with its key and offsets one fills a database page, where a
/// longer value would take a power of two of them and leave up to half of that empty.
const ROW_BYTES_MAX: usize = 4064;
/// The first byte of a row that goes on with the record in front of it; never a record version.
pub(crate) const CONTINUED: u8 = 0;

thread_local! {
    // Contexts hold a few hundred KB of tables each and cost more to make than a message to compress.
    static COMPRESS: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
    static DECOMPRESS: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// A trained dictionary, prepared for both ways.
pub(crate) struct Dictionary {
    pub(crate) number: u32,
    bytes: Vec<u8>,
    decompress: DDict<'static>,
    /// Made with the first record that is written: it takes a millisecond, which a search need not pay.
    compress: OnceLock<Option<CDict<'static>>>,
}

impl Dictionary {
    /// # Errors
    /// When zstd makes nothing of the bytes: they are damaged.
    pub(crate) fn new(number: u32, bytes: &[u8]) -> Result<Arc<Self>, StoreError> {
        let decompress =
            DDict::try_create(bytes).ok_or_else(|| StoreError::row("dictionaries", number, "it is no dictionary"))?;
        Ok(Arc::new(Self { number, bytes: bytes.to_vec(), decompress, compress: OnceLock::new() }))
    }

    /// `None` when zstd makes nothing of the bytes.
    fn for_compression(&self) -> Option<&CDict<'static>> {
        self.compress.get_or_init(|| CDict::try_create(&self.bytes, LEVEL)).as_ref()
    }
}

/// How a record's payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Plain,
    Zstd { dictionary: u32 },
}

/// A record without its links: everything that can be made before the write lock is taken.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    coding: Coding,
    order_len: usize,
    order_check: [u8; CHECK],
    raw_len: usize,
    bytes: Vec<u8>,
}

impl Payload {
    /// Compresses canonical bytes and, behind them, the first form's key order.
    pub(crate) fn new(canon: &[u8], order: &[u8], dictionary: Option<&Dictionary>) -> Self {
        let raw_len = canon.len() + order.len();
        let raw = if order.is_empty() { Cow::Borrowed(canon) } else { Cow::Owned([canon, order].concat()) };
        let frame = if raw_len < COMPRESS_BYTES_MIN { None } else { compress(&raw, dictionary) };
        let (coding, bytes) = match frame {
            None => (Coding::Plain, raw.into_owned()),
            Some(frame) => (Coding::Zstd { dictionary: dictionary.map_or(0, |known| known.number) }, frame),
        };
        Self { coding, order_len: order.len(), order_check: check(order), raw_len, bytes }
    }

    /// The record as rows for consecutive numbers: header, links to the records of its bodies, payload.
    pub(crate) fn rows(&self, id: &[u8; 32], bodies: &[u64]) -> Vec<Vec<u8>> {
        let mut record = Vec::with_capacity(HEAD + 16 + 9 * bodies.len() + self.bytes.len());
        record.push(VERSION);
        record.extend_from_slice(id);
        let coding = match self.coding {
            Coding::Plain => 0,
            Coding::Zstd { dictionary } => 1 + u64::from(dictionary),
        };
        push_varint(&mut record, coding);
        push_varint(&mut record, self.order_len as u64);
        push_varint(&mut record, self.raw_len as u64);
        push_varint(&mut record, bodies.len() as u64);
        for &body in bodies {
            push_varint(&mut record, body);
        }
        push_varint(&mut record, self.bytes.len() as u64);
        if self.order_len > 0 {
            record.extend_from_slice(&self.order_check);
        }
        record.extend_from_slice(&self.bytes);
        if record.len() <= ROW_BYTES_MAX {
            return vec![record];
        }
        let rest = record.split_off(ROW_BYTES_MAX);
        let mut rows = vec![record];
        rows.extend(rest.chunks(ROW_BYTES_MAX - 1).map(|part| [&[CONTINUED], part].concat()));
        rows
    }
}

/// A record's header, read.
pub(crate) struct Head<'a> {
    pub(crate) id: [u8; 32],
    /// The records of its bodies, in order of first reference.
    pub(crate) bodies: Links,
    coding: Coding,
    order_len: usize,
    /// `None` where there is no key order.
    order_check: Option<[u8; CHECK]>,
    raw_len: usize,
    /// Bytes of the payload as stored, over all rows.
    stored_len: usize,
    /// Those of them that lie in the first row.
    first: &'a [u8],
}

/// Nearly every message has one body or none: no allocation for those.
#[derive(Clone, Debug)]
pub(crate) enum Links {
    Few([u64; 2], usize),
    Many(Vec<u64>),
}

impl Links {
    pub(crate) fn as_slice(&self) -> &[u64] {
        match self {
            Self::Few(few, count) => &few[..*count],
            Self::Many(many) => many,
        }
    }
}

/// `None` where the frame would not be smaller.
fn compress(raw: &[u8], dictionary: Option<&Dictionary>) -> Option<Vec<u8>> {
    COMPRESS.with_borrow_mut(|context| {
        let mut frame = Vec::with_capacity(zstd::zstd_safe::compress_bound(raw.len()));
        let done = match dictionary {
            Some(dictionary) => context.compress_using_cdict(&mut frame, raw, dictionary.for_compression()?),
            None => context.compress(&mut frame, raw, LEVEL),
        };
        (done.is_ok() && frame.len() < raw.len()).then_some(frame)
    })
}

/// Reads a header; `key` is the record's number, for the error.
pub(crate) fn head(record: &[u8], key: u64) -> Result<Head<'_>, StoreError> {
    let damaged = |why| StoreError::row("records", key, why);
    let (fixed, mut rest) = record.split_at_checked(HEAD).ok_or_else(|| damaged("shorter than its header"))?;
    if fixed[0] != VERSION {
        return Err(damaged("unknown record version"));
    }
    let mut next = || take_varint(&mut rest).ok_or_else(|| damaged("its header is cut"));
    let (coding, order_len, raw_len, links) = (next()?, next()?, next()?, next()?);
    let bodies = if links <= 2 {
        let mut few = [0; 2];
        let count = usize::try_from(links).unwrap_or(0);
        for slot in &mut few[..count] {
            *slot = next()?;
        }
        Links::Few(few, count)
    } else {
        // Each link takes a byte at least, so a wrong count ends with the row.
        let mut many = Vec::new();
        for _ in 0..links {
            many.push(next()?);
        }
        Links::Many(many)
    };
    let stored_len = next()?;
    let size = |n: u64| usize::try_from(n).ok().filter(|n| *n <= PAYLOAD_BYTES_MAX);
    let (Some(order_len), Some(raw_len), Some(stored_len)) = (size(order_len), size(raw_len), size(stored_len)) else {
        return Err(damaged("larger than any record"));
    };
    if order_len > raw_len {
        return Err(damaged("its key order is longer than it"));
    }
    let mut order_check = None;
    if order_len > 0 {
        let (told, payload) = rest.split_first_chunk().ok_or_else(|| damaged("its header is cut"))?;
        (order_check, rest) = (Some(*told), payload);
    }
    if rest.len() > stored_len {
        return Err(damaged("it is longer than its header says"));
    }
    let coding = match coding {
        0 => Coding::Plain,
        n => Coding::Zstd { dictionary: u32::try_from(n - 1).map_err(|_| damaged("no such dictionary"))? },
    };
    let mut id = [0; 32];
    id.copy_from_slice(&fixed[1..]);
    Ok(Head { id, bodies, coding, order_len, order_check, raw_len, stored_len, first: rest })
}

impl Head<'_> {
    /// The dictionary needed to unpack, 0 for none.
    pub(crate) fn dictionary(&self) -> u32 {
        match self.coding {
            Coding::Plain => 0,
            Coding::Zstd { dictionary } => dictionary,
        }
    }

    /// Where the key order begins in what [`Head::unpack`] appends.
    pub(crate) fn canon_len(&self) -> usize {
        self.raw_len - self.order_len
    }

    /// How many rows follow the first.
    pub(crate) fn rows_behind(&self) -> usize {
        (self.stored_len - self.first.len()).div_ceil(ROW_BYTES_MAX - 1)
    }

    /// The payload when it lies in one row.
    pub(crate) fn first(&self) -> &[u8] {
        self.first
    }

    /// Appends canonical bytes and key order to `out`; checks the order, and leaves the hash to the caller. `stored` is
    /// the payload of all rows; see [`continuation`].
    pub(crate) fn unpack(
        &self,
        stored: &[u8],
        dictionary: Option<&Dictionary>,
        key: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let damaged = |why: &str| StoreError::row("records", key, why);
        if stored.len() != self.stored_len {
            return Err(damaged("a part of it is missing"));
        }
        if self.coding == Coding::Plain {
            if stored.len() != self.raw_len {
                return Err(damaged("its length is wrong"));
            }
            out.extend_from_slice(stored);
            return self.check_order(out, key);
        }
        let start = out.len();
        out.resize(start + self.raw_len, 0);
        let target = &mut out[start..];
        let written = DECOMPRESS.with_borrow_mut(|context| match dictionary {
            Some(dictionary) => context.decompress_using_ddict(target, stored, &dictionary.decompress),
            None => context.decompress(target, stored),
        });
        if written != Ok(self.raw_len) {
            out.truncate(start);
            return Err(damaged("its frame cannot be read"));
        }
        self.check_order(out, key)
    }

    fn check_order(&self, out: &[u8], key: u64) -> Result<(), StoreError> {
        let order = &out[out.len() - self.order_len..];
        if self.order_check.is_some_and(|told| told != check(order)) {
            return Err(StoreError::row("records", key, "its key order is not the one that was written"));
        }
        Ok(())
    }
}

/// What tells a whole key order from a damaged one.
fn check(order: &[u8]) -> [u8; CHECK] {
    let mut check = [0; CHECK];
    if !order.is_empty() {
        check.copy_from_slice(&blake3::hash(order).as_bytes()[..CHECK]);
    }
    check
}

/// The payload in a row that goes on with a record; `None` for the first row of another.
pub(crate) fn continuation(row: &[u8]) -> Option<&[u8]> {
    row.split_first().filter(|(first, _)| **first == CONTINUED).map(|(_, part)| part)
}

/// Trains a dictionary on samples; `None` when there is too little or too uniform material.
pub(crate) fn train(samples: &[Vec<u8>], size: usize) -> Option<Vec<u8>> {
    zstd::dict::from_samples(samples, size).ok()
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        out.push(u8::try_from(number & 127).expect("seven bits fit a byte") | 128);
        number >>= 7;
    }
    out.push(u8::try_from(number).expect("less than 128"));
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_dictionary_is_an_error_and_not_a_panic() {
        // The number with which zstd's dictionaries begin, and nothing that could follow it.
        let bytes = [&[0x37, 0xa4, 0x30, 0xec][..], &[0xff; 60]].concat();
        let error = Dictionary::new(3, &bytes).err().unwrap();
        assert!(error.is_damage() && error.to_string().starts_with("row 3 of table dictionaries"), "{error}");
    }
}
