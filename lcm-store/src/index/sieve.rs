//! The sieve: which blocks of places cannot hold a text. Exact search reads only what it lets through.
//!
//! Places are taken in blocks of consecutive arrivals, and those of a block in up to eight groups. A block has a
//! *filter*: one bit, chosen by a hash, for every three neighbouring bytes of every text in it, after a fold that maps
//! upper case to lower; and behind it, for every bit that is set, a *mask* of the groups that have it. A pattern that
//! needs three bytes whose bit is not set cannot match in the block; one that needs several can match only in groups
//! that have them all. Both may let through too much, never too little.
//!
//! One file, `index/sieve`, only appended to. How far it is valid stands in one of two slots at its beginning,
//! written in turn after the blocks, so a reader never sees half a block, and a crash leaves the state before.
//! Every part carries a checksum: a damaged block ends the sieve's say, and truth is read instead. It is read
//! with plain reads, not mapped: a file cut under a mapping would end the process.
//!
//! Layout in `docs/format.md` ("The sieve"). Blocks are only written when they are full, so what came last is
//! always searched in truth; that is at most one block's text.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::tokenize::mix;

/// A block is closed at this many places: more would make reading one through for a single hit slow.
pub(crate) const BLOCK_PLACES: usize = 256;
/// ... or at this many bytes of text, whichever comes first.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// Bits of a filter before it is folded: agent transcripts have 5 to 10 thousand different triples in a block.
const FILTER_BITS: usize = 1 << 16;
/// A filter is folded in half while fewer than one in this many bits are set, so that small blocks stay small.
const SPARSE: usize = 8;
const FILTER_BYTES_MIN: usize = 256;
/// Size of the file's header: identity, and two slots.
const FILE_HEADER: usize = 256;
const FILE_HEADER64: u64 = 256;
const SLOT_AT: [u64; 2] = [128, 192];
const SLOT_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"lcmsieve";
/// Another version is made anew. 1: without masks. 2: with them.
const VERSION: u32 = 2;
/// A block's fixed part.
const BLOCK_HEADER: usize = 56;
const BLOCK_MAGIC: u32 = 0x6b6c_6276;
/// What one read takes in: a dozen blocks. New memory costs a short-lived process more than further reads.
const WINDOW: u64 = 256 << 10;
/// Closed blocks are written out at this size.
const PENDING: usize = 1 << 20;
/// No block is larger; a larger length is damage.
const BLOCK_BYTES_MAX: usize = BLOCK_HEADER + 20 * BLOCK_PLACES + FILTER_BITS / 8 + FILTER_BITS + 3 * 8 + 4;
/// Groups of a block: as many as a mask has bits.
const GROUPS: usize = 8;
/// Bytes of a filter whose set bits are counted at once.
const RANKED_BYTES: usize = 64;

/// A hash that tells whether bytes are what was written. Not against an attacker: who can write here can write
/// truth.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    // Four lanes, because one would wait for its own multiplication.
    let mut lanes: [u64; 4] = [1, 2, 3, 4];
    let mut chunks = bytes.chunks_exact(32);
    for chunk in &mut chunks {
        for (lane, word) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            let mut number = [0; 8];
            number.copy_from_slice(word);
            let mixed = (*lane ^ u64::from_le_bytes(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            *lane = mixed ^ (mixed >> 29);
        }
    }
    let mut rest = [0; 32];
    rest[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    let mut sum = mix(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    for (lane, word) in lanes.iter().zip(rest.chunks_exact(8)) {
        let mut number = [0; 8];
        number.copy_from_slice(word);
        sum = mix(sum ^ lane ^ mix(u64::from_le_bytes(number).wrapping_add(*lane)));
    }
    sum
}

/// The fold that texts and patterns share: upper case of ASCII, and the two characters beyond it whose simple
/// case folding is ASCII (`ſ` and the Kelvin sign). Hands over the folded bytes.
pub(crate) fn fold(text: &[u8], mut each: impl FnMut(u8)) {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            0xc5 if text.get(at + 1) == Some(&0xbf) => {
                each(b's');
                at += 2;
            }
            0xe2 if text.get(at + 1..at + 3) == Some(&[0x84, 0xaa]) => {
                each(b'k');
                at += 3;
            }
            _ => {
                each(byte.to_ascii_lowercase());
                at += 1;
            }
        }
    }
}

/// The bit of a triple, before a filter's own size cuts it.
pub(crate) fn triple_hash(triple: u32) -> u16 {
    let mixed = triple.wrapping_mul(0x9e37_79b1);
    u16::try_from((mixed ^ (mixed << 7)) >> 16).unwrap_or(u16::MAX)
}

/// Where a place's text lies, and when: one line of a block's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) arrival: u64,
    pub(crate) timeline: u64,
    /// Which group of the block it belongs to.
    pub(crate) group: u8,
}

/// A block being filled.
pub(crate) struct Builder {
    /// For every bit of the filter, the groups that have it.
    masks: Box<[u8; FILTER_BITS]>,
    entries: Vec<Entry>,
    bytes: usize,
    /// The group being filled, and what it has: places, and bytes of text.
    group: u8,
    group_has: (usize, usize),
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self { masks: Box::new([0; FILTER_BITS]), entries: Vec::new(), bytes: 0, group: 0, group_has: (0, 0) }
    }

    /// Adds a place; arrivals must rise.
    pub(crate) fn add(&mut self, arrival: u64, timeline: u64, text: &str) {
        let is_full = self.group_has.0 >= BLOCK_PLACES / GROUPS || self.group_has.1 >= BLOCK_BYTES / GROUPS;
        if is_full && usize::from(self.group) < GROUPS - 1 {
            self.group += 1;
            self.group_has = (0, 0);
        }
        self.group_has = (self.group_has.0 + 1, self.group_has.1 + text.len());
        self.entries.push(Entry { arrival, timeline, group: self.group });
        self.bytes += text.len();
        let (masks, mask) = (&mut self.masks, 1 << self.group);
        let (mut triple, mut seen) = (0_u32, 0_u8);
        fold(text.as_bytes(), |byte| {
            triple = ((triple << 8) | u32::from(byte)) & 0x00ff_ffff;
            if seen >= 2 {
                masks[usize::from(triple_hash(triple))] |= mask;
            } else {
                seen += 1;
            }
        });
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= BLOCK_PLACES || self.bytes >= BLOCK_BYTES
    }

    /// Appends the block to `out` and begins the next.
    fn close(&mut self, out: &mut Vec<u8>) {
        let (Some(first), Some(last)) = (self.entries.first().copied(), self.entries.last().copied()) else { return };
        let start = out.len();
        let mut timelines: Vec<u64> = self.entries.iter().map(|entry| entry.timeline).collect();
        timelines.sort_unstable();
        timelines.dedup();
        let mut table = Vec::with_capacity(2 * self.entries.len() + 16);
        push_varint(&mut table, timelines.len());
        let mut previous = 0;
        for &timeline in &timelines {
            push_varint64(&mut table, timeline - previous);
            previous = timeline;
        }
        let (mut next, mut group) = (first.arrival, 0);
        for entry in &self.entries {
            push_varint64(&mut table, entry.arrival - next);
            let timeline = timelines.partition_point(|timeline| *timeline < entry.timeline);
            push_varint(&mut table, 2 * timeline + usize::from(entry.group != group));
            (next, group) = (entry.arrival + 1, entry.group);
        }
        let (filter, masks) = folded(&self.masks[..]);
        let total = BLOCK_HEADER + table.len() + filter.len() + masks.len() + 3 * 8 + 4;
        out.extend_from_slice(&BLOCK_MAGIC.to_le_bytes());
        for size in [total, table.len(), filter.len(), self.entries.len(), masks.len()] {
            out.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes());
        }
        for number in [first.arrival, last.arrival, u64::try_from(self.bytes).unwrap_or(u64::MAX), 0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&table);
        let sum = checksum(&out[start..]);
        out.extend_from_slice(&sum.to_le_bytes());
        for part in [&filter, &masks] {
            out.extend_from_slice(part);
            out.extend_from_slice(&checksum(part).to_le_bytes());
        }
        out.extend_from_slice(&u32::try_from(total).unwrap_or(u32::MAX).to_le_bytes());
        self.masks.fill(0);
        self.entries.clear();
        (self.bytes, self.group, self.group_has) = (0, 0, (0, 0));
    }
}

/// Lays the upper half of the masks over the lower while they stay sparse; gives the filter, and the masks of its bits.
fn folded(masks: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut masks = masks.to_vec();
    while masks.len() > 8 * FILTER_BYTES_MIN {
        let set = masks.iter().filter(|mask| **mask != 0).count();
        if set * SPARSE >= masks.len() {
            break;
        }
        let upper = masks.split_off(masks.len() / 2);
        for (low, high) in masks.iter_mut().zip(upper) {
            *low |= high;
        }
    }
    let bits = |eight: &[u8]| (0..8).filter(|bit| eight[*bit] != 0).fold(0, |byte, bit| byte | 1 << bit);
    let filter = masks.chunks_exact(8).map(bits).collect();
    masks.retain(|mask| *mask != 0);
    (filter, masks)
}

/// A block in the file. Its header and table were checked; filter and masks are when they are asked for.
pub(crate) struct Block<'w> {
    bytes: &'w [u8],
    table_len: usize,
    filter_len: usize,
    masks_len: usize,
    places: usize,
}

/// What a block's table says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Its places, rising.
    pub(crate) entries: Vec<Entry>,
    /// Bytes of their texts.
    pub(crate) bytes: u64,
}

/// The filter of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bits<'w>(&'w [u8]);

impl Bits<'_> {
    /// Whether the block may hold a triple, given by its hash.
    pub(crate) fn may_hold(self, hash: u16) -> bool {
        let bit = self.place(hash);
        self.0[bit / 8] & (1 << (bit % 8)) != 0
    }

    /// Which bit a hash means.
    fn place(self, hash: u16) -> usize {
        // Sizes are powers of two, so the low bits of the hash are its place after folding.
        usize::from(hash) & (self.0.len() * 8 - 1)
    }
}

/// The filter of a block with its masks.
#[derive(Debug)]
pub(crate) struct Masks<'w> {
    bits: Bits<'w>,
    masks: &'w [u8],
    /// How many bits are set before each run of [`RANKED_BYTES`].
    ranks: Vec<u32>,
}

impl Masks<'_> {
    /// The groups that may hold a triple, given by its hash: one bit each.
    pub(crate) fn groups(&self, hash: u16) -> u8 {
        if !self.bits.may_hold(hash) {
            return 0;
        }
        let bit = self.bits.place(hash);
        let (byte, run) = (bit / 8, bit / 8 / RANKED_BYTES);
        let before = ones(&self.bits.0[run * RANKED_BYTES..byte]);
        let here = (self.bits.0[byte] & ((1 << (bit % 8)) - 1)).count_ones();
        let at = usize::try_from(self.ranks[run] + before + here).unwrap_or(usize::MAX);
        // As many masks as set bits, or the block would have been refused.
        self.masks.get(at).copied().unwrap_or(u8::MAX)
    }
}

fn ones(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let of_words: u32 = words.iter().map(|word| u64::from_le_bytes(*word).count_ones()).sum();
    of_words + rest.iter().map(|byte| byte.count_ones()).sum::<u32>()
}

impl<'w> Block<'w> {
    fn parse(bytes: &'w [u8]) -> io::Result<Self> {
        let size = |at| number(bytes, at).and_then(|size| usize::try_from(size).map_err(|_| damaged()));
        let (total, table_len, filter_len, places, masks_len) = (size(4)?, size(8)?, size(12)?, size(16)?, size(20)?);
        let parts = [table_len, filter_len, masks_len, 3 * 8 + 4];
        let whole = parts.into_iter().try_fold(BLOCK_HEADER, usize::checked_add);
        let filter_fits = filter_len.is_power_of_two() && (FILTER_BYTES_MIN..=FILTER_BITS / 8).contains(&filter_len);
        let places_fit = (1..=BLOCK_PLACES).contains(&places);
        if number(bytes, 0)? != BLOCK_MAGIC
            || total != bytes.len()
            || whole != Some(total)
            || !filter_fits
            || !places_fit
        {
            return Err(damaged());
        }
        let end = BLOCK_HEADER + table_len;
        if checksum(&bytes[..end]) != number64(bytes, end)? {
            return Err(damaged());
        }
        Ok(Self { bytes, table_len, filter_len, masks_len, places })
    }

    /// The filter, checked.
    pub(crate) fn bits(&self) -> io::Result<Bits<'w>> {
        let start = BLOCK_HEADER + self.table_len + 8;
        let filter = &self.bytes[start..start + self.filter_len];
        if checksum(filter) != number64(self.bytes, start + self.filter_len)? {
            return Err(damaged());
        }
        Ok(Bits(filter))
    }

    /// The filter with its masks, both checked.
    pub(crate) fn masks(&self) -> io::Result<Masks<'w>> {
        let bits = self.bits()?;
        let start = BLOCK_HEADER + self.table_len + 8 + self.filter_len + 8;
        let masks = &self.bytes[start..start + self.masks_len];
        let mut ranks = Vec::with_capacity(bits.0.len() / RANKED_BYTES);
        let mut set = 0;
        for run in bits.0.chunks(RANKED_BYTES) {
            ranks.push(set);
            set += ones(run);
        }
        if usize::try_from(set) != Ok(masks.len()) || checksum(masks) != number64(self.bytes, start + self.masks_len)? {
            return Err(damaged());
        }
        Ok(Masks { bits, masks, ranks })
    }

    /// The oldest place.
    pub(crate) fn first(&self) -> io::Result<u64> {
        number64(self.bytes, 24)
    }

    /// The newest place.
    pub(crate) fn last(&self) -> io::Result<u64> {
        number64(self.bytes, 32)
    }

    /// Which places it is of.
    pub(crate) fn table(&self) -> io::Result<Table> {
        let end = BLOCK_HEADER + self.table_len;
        let mut table = &self.bytes[BLOCK_HEADER..end];
        let mut next = || take_varint(&mut table).ok_or_else(damaged);
        let mut timelines = Vec::new();
        let mut timeline = 0_u64;
        for _ in 0..next()? {
            timeline = timeline.checked_add(next()?).ok_or_else(damaged)?;
            timelines.push(timeline);
        }
        let mut entries = Vec::with_capacity(self.places);
        let mut arrival = number64(self.bytes, 24)?;
        let mut group = 0;
        for _ in 0..self.places {
            arrival = arrival.checked_add(next()?).ok_or_else(damaged)?;
            let whose = next()?;
            group += u8::from(whose & 1 == 1);
            let timeline = usize::try_from(whose >> 1).ok().and_then(|at| timelines.get(at)).ok_or_else(damaged)?;
            if usize::from(group) >= GROUPS {
                return Err(damaged());
            }
            entries.push(Entry { arrival, timeline: *timeline, group });
            arrival = arrival.checked_add(1).ok_or_else(damaged)?;
        }
        if entries.last().map(|entry| entry.arrival) != Some(self.last()?) {
            return Err(damaged());
        }
        Ok(Table { entries, bytes: number64(self.bytes, 40)? })
    }
}

/// Which store a sieve was made of.
pub(crate) type Identity = [u8; 32];

/// How far a sieve goes, as one of its slots says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Where the valid part of the file ends.
    pub(crate) end: u64,
    /// The newest place in it; 0 for none.
    pub(crate) last: u64,
    /// What stood at that place.
    pub(crate) mark: Identity,
}

/// The sieve, opened for reading. Holds nothing but the file: whatever it says is checked when it is read.
#[derive(Debug)]
pub(crate) struct Sieve {
    file: File,
    pub(crate) slot: Slot,
}

impl Sieve {
    /// Opens the sieve; `None` when there is none, it is of another version, or it is damaged. One that was just begun
    /// holds nothing yet.
    pub(crate) fn open(path: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let Some(slot) = read_slot(&file)? else { return Ok(None) };
        Ok(Some(Self { file, slot }))
    }

    /// A walk over the blocks, newest first or oldest first.
    pub(crate) fn blocks(&self, newest_first: bool) -> Blocks<'_> {
        Blocks { sieve: self, newest_first, low: FILE_HEADER64, high: self.slot.end, window: Vec::new(), window_at: 0 }
    }
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the sieve is damaged")
}

/// The blocks of a sieve, in order.
pub(crate) struct Blocks<'s> {
    sieve: &'s Sieve,
    newest_first: bool,
    /// The part of the file not walked yet.
    low: u64,
    high: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Blocks<'_> {
    /// The next block. After an error there is none: what lies behind a damaged one cannot be trusted to be found.
    pub(crate) fn next(&mut self) -> Option<io::Result<Block<'_>>> {
        if self.low >= self.high {
            return None;
        }
        match self.step() {
            Ok((at, len)) => Some(self.bytes_at(at, len).and_then(Block::parse)),
            Err(error) => {
                self.low = self.high;
                Some(Err(error))
            }
        }
    }

    /// Finds the next block and takes it off the part to walk.
    fn step(&mut self) -> io::Result<(u64, usize)> {
        let left = self.high - self.low;
        let (at, len) = if self.newest_first {
            let len = number(self.bytes_at(self.high.checked_sub(4).ok_or_else(damaged)?, 4)?, 0)?;
            (self.high.checked_sub(u64::from(len)).ok_or_else(damaged)?, len)
        } else {
            (self.low, number(self.bytes_at(self.low, 8)?, 4)?)
        };
        let size = usize::try_from(len).map_err(|_| damaged())?;
        if !(BLOCK_HEADER..=BLOCK_BYTES_MAX).contains(&size) || u64::from(len) > left {
            return Err(damaged());
        }
        self.bytes_at(at, size)?;
        if self.newest_first {
            self.high = at;
        } else {
            self.low = at + u64::from(len);
        }
        Ok((at, size))
    }

    /// Bytes of the file, through a window that is read in the direction of the walk.
    fn bytes_at(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let end = at + u64::try_from(len).map_err(|_| damaged())?;
        let window_end = self.window_at + u64::try_from(self.window.len()).map_err(|_| damaged())?;
        if at < self.window_at || end > window_end {
            let (from, to) = if self.newest_first {
                (end.saturating_sub(WINDOW).max(FILE_HEADER64).min(at), end)
            } else {
                (at, (at + WINDOW).min(self.sieve.slot.end).max(end))
            };
            self.window.resize(usize::try_from(to - from).map_err(|_| damaged())?, 0);
            self.window_at = from;
            if let Err(error) = self.sieve.file.read_exact_at(&mut self.window, from) {
                self.window.clear();
                return Err(error);
            }
        }
        let start = usize::try_from(at - self.window_at).map_err(|_| damaged())?;
        self.window.get(start..start + len).ok_or_else(damaged)
    }
}

fn number(bytes: &[u8], at: usize) -> io::Result<u32> {
    let mut number = [0; 4];
    number.copy_from_slice(bytes.get(at..at + 4).ok_or_else(damaged)?);
    Ok(u32::from_le_bytes(number))
}

fn number64(bytes: &[u8], at: usize) -> io::Result<u64> {
    let mut number = [0; 8];
    number.copy_from_slice(bytes.get(at..at + 8).ok_or_else(damaged)?);
    Ok(u64::from_le_bytes(number))
}

fn read_slot(file: &File) -> io::Result<Option<Slot>> {
    let mut header = [0; FILE_HEADER];
    match file.read_exact_at(&mut header, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    if header[..8] != MAGIC || number(&header, 8)? != VERSION {
        return Ok(None);
    }
    if header[FILE_HEADER - 2 * SLOT_BYTES..].iter().all(|byte| *byte == 0) {
        return Ok(Some(Slot { end: FILE_HEADER64, last: 0, mark: [0; 32] }));
    }
    let size = file.metadata()?.len();
    let slots = SLOT_AT.iter().filter_map(|&at| {
        let at = usize::try_from(at).ok()?;
        let slot = &header[at..at + SLOT_BYTES];
        let sum = number64(slot, 56).ok()?;
        if checksum(&slot[..56]) != sum {
            return None;
        }
        let mut mark = [0; 32];
        mark.copy_from_slice(&slot[16..48]);
        let slot = Slot { end: number64(slot, 0).ok()?, last: number64(slot, 8).ok()?, mark };
        (FILE_HEADER64 <= slot.end && slot.end <= size).then_some(slot)
    });
    Ok(slots.max_by_key(|slot| slot.end))
}

/// The sieve, opened by whoever holds the index lock.
pub(crate) struct SieveWriter {
    file: File,
    slot: Slot,
    builder: Builder,
    pending: Vec<u8>,
    /// The newest place in a closed block.
    closed: u64,
}

impl SieveWriter {
    /// Goes on with the sieve at `path`, as far as `slot` says; without one, begins it anew.
    pub(crate) fn open(path: &Path, slot: Option<Slot>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(slot.is_none()).mode(0o600);
        let mut file = options.open(path)?;
        let slot = match slot {
            Some(slot) => slot,
            None => {
                let mut header = [0; FILE_HEADER];
                header[..8].copy_from_slice(&MAGIC);
                header[8..12].copy_from_slice(&VERSION.to_le_bytes());
                file.write_all(&header)?;
                Slot { end: FILE_HEADER64, last: 0, mark: [0; 32] }
            }
        };
        // What a crash left behind the end was never valid.
        file.set_len(slot.end)?;
        Ok(Self { file, slot, builder: Builder::new(), pending: Vec::new(), closed: slot.last })
    }

    /// The newest place that is in the file, or would be after [`SieveWriter::commit`].
    pub(crate) fn closed(&self) -> u64 {
        self.closed
    }

    /// Adds a place behind all others; places the sieve has are passed over.
    pub(crate) fn add(&mut self, arrival: u64, timeline: u64, text: &str) -> io::Result<()> {
        if arrival <= self.closed {
            return Ok(());
        }
        self.builder.add(arrival, timeline, text);
        if self.builder.is_full() {
            self.builder.close(&mut self.pending);
            self.closed = arrival;
            if self.pending.len() >= PENDING {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Begins the next group with the next place, if one is left.
    #[cfg(test)]
    pub(crate) fn next_group_for_test(&mut self) {
        self.builder.group_has.0 = BLOCK_PLACES;
    }

    /// Closes the block at hand, full or not.
    #[cfg(test)]
    pub(crate) fn close_for_test(&mut self) {
        if let Some(entry) = self.builder.entries.last() {
            self.closed = entry.arrival;
        }
        self.builder.close(&mut self.pending);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.pending, self.slot.end)?;
        self.slot.end += u64::try_from(self.pending.len()).map_err(|_| damaged())?;
        self.pending.clear();
        Ok(())
    }

    /// Makes every closed block valid; `mark` says what stands at the newest place of them.
    pub(crate) fn commit(&mut self, mark: Identity) -> io::Result<()> {
        if self.closed == self.slot.last {
            return Ok(());
        }
        self.flush()?;
        self.slot = Slot { end: self.slot.end, last: self.closed, mark };
        let mut bytes = [0; SLOT_BYTES];
        bytes[..8].copy_from_slice(&self.slot.end.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.slot.last.to_le_bytes());
        bytes[16..48].copy_from_slice(&mark);
        let sum = checksum(&bytes[..56]);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        // The slot with the lower end is the older one, or holds nothing.
        let mut oldest = (u64::MAX, SLOT_AT[0]);
        for at in SLOT_AT {
            let mut end = [0; 8];
            self.file.read_exact_at(&mut end, at)?;
            oldest = oldest.min((u64::from_le_bytes(end), at));
        }
        self.file.write_all_at(&bytes, oldest.1)
    }
}

fn push_varint(out: &mut Vec<u8>, number: usize) {
    push_varint64(out, u64::try_from(number).unwrap_or(u64::MAX));
}

fn push_varint64(out: &mut Vec<u8>, mut number: u64) {
    while number >= 128 {
        out.push(u8::try_from(number & 127).unwrap_or(0) | 128);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
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
