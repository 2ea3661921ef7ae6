//! The index, opened for reading.
//!
//! Nothing here is believed before it was checked: a file must be the one that was sealed after it was written
//! (by inode, length and time of change), or its checksum is computed once; the newest place that was indexed must
//! be in this very store; and what tantivy says to that is caught, panics included. An index that fails is no
//! index: searches read truth instead.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::hash::BuildHasherDefault;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tantivy::columnar::ColumnValues;
use tantivy::directory::error::OpenReadError;
use tantivy::index::{SegmentComponent, SegmentId};
use tantivy::postings::{SegmentPostings, TermInfo};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet, Index, InvertedIndexReader, SegmentMeta, SegmentReader, TERMINATED, TantivyError, Term};

use super::disk;
use super::look::NumberHasher;
use super::schema::{self, Fields, column};
use super::sieve::{Identity, checksum};
use crate::error::caught;

/// Where tantivy works.
pub(crate) const WORDS_DIR: &str = "words";
/// The files that were checked after they were written.
const SEAL: &str = "seal";
/// What tantivy calls its table of contents.
const META: &str = "meta.json";
/// Begins the payload of our commits.
const PAYLOAD: &str = "lcm";
/// How often opening is tried again when segments are merged away under it.
const TRIES: usize = 4;

/// What tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    len: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn new(metadata: &Metadata) -> Self {
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Self { inode: metadata.ino(), len: metadata.len(), changed }
    }

    /// `None` for a file that is not there.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|metadata| Self::new(&metadata))
    }
}

/// How tantivy's table of contents looks now; `None` while there is none.
pub(crate) fn contents(directory: &Path) -> Option<Stamp> {
    Stamp::of(&directory.join(WORDS_DIR).join(META))
}

/// How far an index goes, as its last commit says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watermark {
    /// Every place up to this arrival is in it.
    pub(crate) last: u64,
    /// What stood at that place.
    pub(crate) mark: Identity,
}

impl Watermark {
    /// As the payload of a commit.
    pub(crate) fn to_payload(self) -> String {
        let mark = blake3::Hash::from_bytes(self.mark).to_hex();
        format!("{PAYLOAD} {} {} {mark}", schema::VERSION, self.last)
    }

    /// Reads a payload; `None` for one of another version, or none of ours.
    fn from_payload(payload: &str) -> Option<Self> {
        let mut words = payload.split(' ');
        let version = schema::VERSION.to_string();
        if words.next() != Some(PAYLOAD) || words.next() != Some(version.as_str()) {
            return None;
        }
        let last = words.next()?.parse().ok()?;
        let mark = *blake3::Hash::from_hex(words.next()?).ok()?.as_bytes();
        words.next().is_none().then_some(Self { last, mark })
    }
}

/// The index as of one commit. Segments are shared with the one opened before it.
pub(crate) struct Opened {
    pub(crate) watermark: Watermark,
    pub(crate) segments: Vec<Arc<Segment>>,
    /// What is read while searching, and how it was when it was opened.
    files: Vec<(PathBuf, Stamp)>,
    /// Every file that was checked, by name.
    checked: Vec<(PathBuf, Stamp)>,
}

/// One segment.
pub(crate) struct Segment {
    id: SegmentId,
    pub(crate) docs: u32,
    reader: SegmentReader,
    fields: Fields,
    columns: OnceLock<Columns>,
    totals: OnceLock<Totals>,
    lengths: OnceLock<Vec<u32>>,
    by_arrival: OnceLock<Vec<u32>>,
}

/// What the index keeps of places, by document.
#[derive(Clone)]
pub(crate) struct Columns {
    pub(crate) arrival: Arc<dyn ColumnValues<u64>>,
    pub(crate) timeline: Arc<dyn ColumnValues<u64>>,
    pub(crate) anchor: Arc<dyn ColumnValues<u64>>,
    pub(crate) role: Arc<dyn ColumnValues<u64>>,
    pub(crate) seen: Arc<dyn ColumnValues<i64>>,
    pub(crate) length: Arc<dyn ColumnValues<u64>>,
}

/// Documents and summed lengths of each timeline.
pub(crate) type Totals = HashMap<u64, (u64, u64), BuildHasherDefault<NumberHasher>>;

/// Runs what tantivy does; a file it does not expect can make it panic.
pub(crate) fn guarded<T>(work: impl FnOnce() -> tantivy::Result<T>) -> tantivy::Result<T> {
    caught(work)
        .unwrap_or_else(|_| Err(TantivyError::InternalError("the index is damaged where it was not expected".into())))
}

impl Opened {
    /// Opens the index in `directory`. `None` when there is none; an error when it cannot be used.
    pub(crate) fn open(directory: &Path, before: Option<&Self>) -> tantivy::Result<Option<Self>> {
        let words = directory.join(WORDS_DIR);
        for _ in 1..TRIES {
            match guarded(|| Self::try_open(directory, &words, before)) {
                // Merged away between two of our calls: the newer index is there already.
                Err(TantivyError::OpenReadError(OpenReadError::FileDoesNotExist(_))) if words.join(META).exists() => {}
                opened => return opened,
            }
        }
        guarded(|| Self::try_open(directory, &words, before))
    }

    fn try_open(directory: &Path, words: &Path, before: Option<&Self>) -> tantivy::Result<Option<Self>> {
        let meta = words.join(META);
        let Some(stamp) = Stamp::of(&meta) else { return Ok(None) };
        let (mut files, mut checked) = (vec![(meta, stamp)], Vec::new());
        let Some((index, fields)) = schema::open(words)? else { return Err(unusable("it has another schema")) };
        let metas = index.load_metas()?;
        if metas.payload.is_none() && metas.segments.is_empty() {
            // Made, and nothing was committed to it: an index of nothing is as none.
            return Ok(None);
        }
        let watermark = metas.payload.as_deref().and_then(Watermark::from_payload);
        let watermark = watermark.ok_or_else(|| unusable("its last commit is not ours"))?;
        let sealed = read_seal(directory);
        let mut segments = Vec::with_capacity(metas.segments.len());
        for meta in metas.segments {
            let known = before.and_then(|before| before.segments.iter().find(|segment| segment.id == meta.id()));
            for path in files_of(&meta) {
                let Some(stamp) = Stamp::of(&words.join(&path)) else {
                    return Err(TantivyError::OpenReadError(OpenReadError::FileDoesNotExist(path)));
                };
                let was_checked = sealed.contains(&(path.clone(), stamp))
                    || before.is_some_and(|before| before.checked.contains(&(path.clone(), stamp)));
                if !was_checked && !is_whole(&index, &path)? {
                    return Err(unusable("a file of it does not match its checksum"));
                }
                checked.push((path.clone(), stamp));
                if is_read_later(&path) {
                    files.push((words.join(path), stamp));
                }
            }
            let segment = match known {
                Some(known) => known.clone(),
                None => Arc::new(Segment::open(&index, meta, fields)?),
            };
            segments.push(segment);
        }
        Ok(Some(Self { watermark, segments, files, checked }))
    }

    /// Whether every file is as it was when this was opened.
    pub(crate) fn is_current(&self) -> bool {
        self.files.iter().all(|(path, stamp)| Stamp::of(path) == Some(*stamp))
    }

    /// Whether the place with this arrival is found by a token.
    pub(crate) fn has(&self, arrival: u64, token: &str) -> tantivy::Result<bool> {
        for segment in &self.segments {
            let Some(mut postings) = segment.with_token(token, IndexRecordOption::Basic)? else { continue };
            let columns = segment.columns()?;
            let mut doc = postings.doc();
            while doc != TERMINATED {
                if columns.arrival.get_val(doc) == arrival {
                    return Ok(true);
                }
                doc = postings.advance();
            }
        }
        Ok(false)
    }
}

/// The files of a segment. Ours delete nothing, so there is no list of deleted documents.
fn files_of(meta: &SegmentMeta) -> impl Iterator<Item = PathBuf> {
    use SegmentComponent::{FastFields, FieldNorms, Positions, Postings, Store, Terms};
    [Terms, Postings, Positions, FastFields, FieldNorms, Store]
        .map(|component| meta.relative_path(component))
        .into_iter()
}

/// Whether a file is read again after its segment was opened.
fn is_read_later(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("term" | "idx" | "fast"))
}

/// Whether a file matches the checksum at its end.
fn is_whole(index: &Index, path: &Path) -> tantivy::Result<bool> {
    Ok(index.directory().validate_checksum(path)?)
}

pub(crate) fn unusable(why: &str) -> TantivyError {
    TantivyError::InternalError(why.to_owned())
}

/// Writes down which files an index has now and how they look, after they were written and before the lock is
/// let go. Readers need not compute their checksums then.
pub(crate) fn write_seal(directory: &Path, index: &Index) -> tantivy::Result<()> {
    let words = directory.join(WORDS_DIR);
    let mut text = String::new();
    for meta in index.load_metas()?.segments {
        for path in files_of(&meta) {
            let (Some(stamp), Some(name)) = (Stamp::of(&words.join(&path)), path.to_str()) else { continue };
            let Stamp { inode, len, changed: (seconds, nanos) } = stamp;
            text.push_str(&format!("{name} {inode} {len} {seconds} {nanos}\n"));
        }
    }
    text.push_str(&format!("{:016x}\n", checksum(text.as_bytes())));
    disk::replace(&directory.join(SEAL), text.as_bytes())?;
    Ok(())
}

/// The sealed files; none for a seal that is missing or damaged.
fn read_seal(directory: &Path) -> Vec<(PathBuf, Stamp)> {
    let read = || -> Option<Vec<(PathBuf, Stamp)>> {
        let text = fs::read_to_string(directory.join(SEAL)).ok()?;
        let body_len = text.trim_end().rfind('\n').map_or(0, |at| at + 1);
        let (body, sum) = text.split_at(body_len);
        if u64::from_str_radix(sum.trim_end(), 16).ok()? != checksum(body.as_bytes()) {
            return None;
        }
        let line = |line: &str| {
            let mut words = line.split(' ');
            let name = PathBuf::from(words.next()?);
            let (inode, len) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            let changed = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some((name, Stamp { inode, len, changed }))
        };
        body.lines().map(line).collect()
    };
    read().unwrap_or_default()
}

impl Segment {
    fn open(index: &Index, meta: SegmentMeta, fields: Fields) -> tantivy::Result<Self> {
        let (id, docs) = (meta.id(), meta.max_doc());
        let reader = SegmentReader::open(&index.segment(meta))?;
        Ok(Self {
            id,
            docs,
            reader,
            fields,
            columns: OnceLock::new(),
            totals: OnceLock::new(),
            lengths: OnceLock::new(),
            by_arrival: OnceLock::new(),
        })
    }

    /// What is kept of places, by document.
    pub(crate) fn columns(&self) -> tantivy::Result<&Columns> {
        if let Some(columns) = self.columns.get() {
            return Ok(columns);
        }
        let fast = self.reader.fast_fields();
        let columns = Columns {
            arrival: fast.column_first_or_default(column::ARRIVAL)?,
            timeline: fast.column_first_or_default(column::TIMELINE)?,
            anchor: fast.column_first_or_default(column::ANCHOR)?,
            role: fast.column_first_or_default(column::ROLE)?,
            seen: fast.column_first_or_default(column::SEEN)?,
            length: fast.column_first_or_default(column::LENGTH)?,
        };
        if columns.arrival.num_vals() != self.docs {
            return Err(unusable("a column is shorter than its segment"));
        }
        Ok(self.columns.get_or_init(|| columns))
    }

    /// The documents with a token.
    pub(crate) fn with_token(
        &self,
        token: &str,
        option: IndexRecordOption,
    ) -> tantivy::Result<Option<SegmentPostings>> {
        self.term(token)?.map(|term| self.postings(&term, option)).transpose()
    }

    /// Where the documents with a token are found, and how many they are.
    pub(crate) fn term(&self, token: &str) -> tantivy::Result<Option<TermInfo>> {
        let term = Term::from_field_text(self.fields.text, token);
        self.inverted(self.fields.text)?.get_term_info(&term).map_err(io_error)
    }

    /// The documents with a token, which [`Segment::term`] of this very segment gave.
    pub(crate) fn postings(&self, term: &TermInfo, option: IndexRecordOption) -> tantivy::Result<SegmentPostings> {
        self.inverted(self.fields.text)?.read_postings_from_terminfo(term, option).map_err(io_error)
    }

    /// The documents of a timeline.
    pub(crate) fn of_timeline(&self, timeline: u64) -> tantivy::Result<Option<SegmentPostings>> {
        let term = Term::from_field_u64(self.fields.timeline, timeline);
        self.inverted(self.fields.timeline)?.read_postings(&term, IndexRecordOption::Basic).map_err(io_error)
    }

    fn inverted(&self, field: Field) -> tantivy::Result<Arc<InvertedIndexReader>> {
        self.reader.inverted_index(field)
    }

    /// The length of each document; read once. Ranking asks for them for every word of every document, which is too
    /// often for the packed column.
    pub(crate) fn lengths(&self) -> tantivy::Result<&[u32]> {
        if let Some(lengths) = self.lengths.get() {
            return Ok(lengths);
        }
        let column = &self.columns()?.length;
        let lengths = (0..self.docs).map(|doc| u32::try_from(column.get_val(doc)).unwrap_or(u32::MAX)).collect();
        Ok(self.lengths.get_or_init(|| lengths))
    }

    /// The document of a place. It is looked for at `guess` first.
    pub(crate) fn doc_of(&self, arrival: u64, guess: Option<u32>) -> tantivy::Result<Option<u32>> {
        let column = &self.columns()?.arrival;
        if arrival < column.min_value() || arrival > column.max_value() {
            return Ok(None);
        }
        if let Some(guess) = guess.filter(|guess| *guess < self.docs && column.get_val(*guess) == arrival) {
            return Ok(Some(guess));
        }
        let by_arrival = self.by_arrival()?;
        let at = by_arrival.partition_point(|doc| column.get_val(*doc) < arrival);
        Ok(by_arrival.get(at).copied().filter(|doc| column.get_val(*doc) == arrival))
    }

    /// The documents by their arrivals; sorted once.
    fn by_arrival(&self) -> tantivy::Result<&[u32]> {
        if let Some(docs) = self.by_arrival.get() {
            return Ok(docs);
        }
        let column = &self.columns()?.arrival;
        let mut docs: Vec<u32> = (0..self.docs).collect();
        docs.sort_by_cached_key(|doc| column.get_val(*doc));
        Ok(self.by_arrival.get_or_init(|| docs))
    }

    /// Documents and summed lengths of each timeline; counted once.
    pub(crate) fn totals(&self) -> tantivy::Result<&Totals> {
        if let Some(totals) = self.totals.get() {
            return Ok(totals);
        }
        let columns = self.columns()?;
        let mut totals = Totals::default();
        for doc in 0..self.docs {
            let (docs, lengths) = totals.entry(columns.timeline.get_val(doc)).or_default();
            *docs += 1;
            *lengths += columns.length.get_val(doc);
        }
        Ok(self.totals.get_or_init(|| totals))
    }
}

fn io_error(error: io::Error) -> TantivyError {
    TantivyError::IoError(Arc::new(error))
}
