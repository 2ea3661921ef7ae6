//! Catching up: whoever gets the index lock brings index and sieve up to the newest place.
//!
//! The lock is tried, never waited for: somebody else who has it does the same work. Places are read in pages, each
//! in a short read transaction, so that no turn waits. How far the index got is the payload of tantivy's own
//! commit, how far the sieve got stands in its slot; each goes on from its own, so a crash at any moment costs
//! what was not committed. What cannot be used (damaged, another version, another store) is thrown away and begun
//! anew.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lcm_core::Arrival;
use tantivy::index::SegmentMeta;
use tantivy::indexer::{IndexWriterOptions, MergeCandidate, MergePolicy};
use tantivy::{Index, IndexWriter, TantivyDocument};

use super::reach::{Reader, is_summary};
use super::schema::{self, Fields, role_number};
use super::segments::{self, Opened, WORDS_DIR, Watermark, guarded};
use super::sieve::{Identity, Sieve, SieveWriter, Slot};
use super::tokenize::{CodeTokenizer, length};
use super::{Pace, Progress, SIEVE, SearchIndex, disk};
use crate::Store;
use crate::error::{StoreError, unless_damaged};
use crate::format::INDEX_LOCK;
use crate::pack;
use crate::snapshot::Snapshot;

/// Places read in one transaction.
const PAGE: u64 = 512;
/// Places indexed between two commits of a long run: what a crash may cost.
const COMMIT_PLACES: u64 = 200_000;
/// What tantivy may hold before it writes a segment. 15 MB is the least it takes.
const GENTLE_BYTES: usize = 15_000_000;
/// A hundred thousand messages give a segment a thread then.
const BULK_BYTES: usize = 250_000_000;
/// Threads that take texts apart: each leaves segments of its own, and every segment makes searches slower.
const BULK_THREADS: usize = 2;
/// Text handed to tantivy's thread and not yet taken apart by it: its own queue counts documents, not bytes.
const QUEUE_BYTES: u64 = 8 << 20;
/// More segments make every search slower; fewer make every catch-up dearer.
const SEGMENTS_MAX: usize = 8;

/// The lock of whoever writes the index; given back when dropped.
pub(crate) struct IndexLock(#[expect(dead_code, reason = "holds the lock")] File);

impl SearchIndex {
    /// The index lock, or `None` while another has it.
    pub(crate) fn try_lock(&self) -> Result<Option<IndexLock>, StoreError> {
        // Beside the index, not in it: a directory that is deleted and made again must not make two of it.
        let path = self.directory.with_file_name(INDEX_LOCK);
        let file = disk::private_file(&path).map_err(StoreError::file("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(IndexLock(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(StoreError::file("lock", path)(error)),
        }
    }
}

/// What stands at a place: tells an index of this store from one of any other, and of an earlier state than one that
/// was restored. Zeros for place 0, `None` when nothing stands there.
///
/// The generation has no part in it, because compacting changes no place. Whoever writes a generation that holds less
/// must remove the index directory: its files still hold the words.
pub(crate) fn mark(snapshot: &Snapshot, arrival: u64) -> Result<Option<Identity>, StoreError> {
    if arrival == 0 {
        return Ok(Some([0; 32]));
    }
    let Some(row) = snapshot.place_row(Arrival(arrival))? else { return Ok(None) };
    let record = snapshot.tables.records.get(row.record)?;
    let record = record.ok_or_else(|| StoreError::row("records", row.record, "it is missing"))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"lcm index of a place\0");
    for number in [arrival, row.timeline, row.seen_ms.cast_unsigned()] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(&pack::head(record.value(), row.record)?.id);
    hasher.update(row.order_key(Arrival(arrival))?.as_bytes());
    Ok(Some(*hasher.finalize().as_bytes()))
}

/// Whether what was made up to `last`, where `at` stood, was made of this store.
pub(crate) fn is_ours(snapshot: &Snapshot, last: u64, at: &Identity) -> Result<bool, StoreError> {
    // Where that very place is damaged, nobody can tell, and truth is searched.
    Ok(unless_damaged(mark(snapshot, last))?.flatten().as_ref() == Some(at))
}

/// Catches up with the newest place, also with what comes meanwhile. The caller holds the lock.
pub(crate) fn catch_up(
    store: &Store,
    _lock: &IndexLock,
    pace: Pace,
    progress: &dyn Fn(Progress),
) -> Result<(), StoreError> {
    let index = &store.inner.index;
    if !index.directory.is_dir() {
        remove(&index.directory)?;
    }
    disk::make_directory(&index.directory).map_err(StoreError::file("make", &index.directory))?;
    let mut work = Work::begin(store, &index.directory, pace)?;
    let begun = work.next;
    loop {
        let snapshot = store.snapshot()?;
        let last = snapshot.place_numbers()?.0;
        if work.next > last {
            break;
        }
        work.page(&snapshot, last)?;
        drop(snapshot);
        progress(Progress { done: work.next - begun, total: (last + 1).saturating_sub(begun) });
        if work.uncommitted >= COMMIT_PLACES {
            work.commit(store)?;
        }
    }
    work.commit(store)?;
    work.finish()
}

/// Throws the index away.
pub(crate) fn wipe(directory: &Path, _lock: &IndexLock) -> Result<(), StoreError> {
    remove(directory)
}

/// Removes whatever bears a name of ours, be it a directory or not; nothing when nothing does.
fn remove(path: &Path) -> Result<(), StoreError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::file("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Index and sieve, being written.
struct Work {
    directory: PathBuf,
    words: Words,
    sieve: SieveWriter,
    /// The first place not looked at yet.
    next: u64,
    /// Places added to the index since its last commit.
    uncommitted: u64,
    reader: Reader,
}

/// The index, opened for writing when the first place comes.
struct Words {
    index: Index,
    fields: Fields,
    pace: Pace,
    writer: Option<IndexWriter>,
    /// The newest place that was added.
    last: u64,
    sent: u64,
    taken: Arc<AtomicU64>,
}

impl Work {
    fn begin(store: &Store, directory: &Path, pace: Pace) -> Result<Self, StoreError> {
        let snapshot = store.snapshot()?;
        let words = Words::open(&snapshot, directory, pace)?;
        let path = directory.join(SIEVE);
        let slot = usable_sieve(&snapshot, &path)?;
        if path.is_dir() {
            remove(&path)?;
        }
        let sieve = SieveWriter::open(&path, slot).map_err(StoreError::file("open", &path))?;
        let next = words.last.min(sieve.closed()) + 1;
        Ok(Self { directory: directory.to_owned(), words, sieve, next, uncommitted: 0, reader: Reader::default() })
    }

    /// Reads one page and adds it.
    fn page(&mut self, snapshot: &Snapshot, last: u64) -> Result<(), StoreError> {
        let end = last.min(self.next.saturating_add(PAGE - 1));
        for (arrival, row) in snapshot.place_rows(self.next..=end)? {
            // An index without a place would let searches pass over it in silence; without an index they tell of it.
            let row = row?;
            let anchor = row.order_key(arrival)?.anchor().0;
            let is_summary = is_summary(&row);
            let (words, sieve, uncommitted) = (&mut self.words, &mut self.sieve, &mut self.uncommitted);
            let mut add = |role: u64, text: &str| -> Result<(), StoreError> {
                sieve.add(arrival.0, row.timeline, text).map_err(StoreError::file("write", SIEVE))?;
                if arrival.0 <= words.last {
                    return Ok(());
                }
                *uncommitted += 1;
                words.add(
                    &Place { arrival: arrival.0, timeline: row.timeline, anchor, role, seen_ms: row.seen_ms },
                    text,
                )
            };
            let read = self.reader.read(snapshot, &row, |said| {
                add(if is_summary { schema::SUMMARY } else { role_number(said.role()) }, said.text)
            })?;
            match read {
                Some(added) => added?,
                None => {
                    // A damaged record has no text, and must not stop those behind it. `check` names it.
                    tracing::warn!(%arrival, "a damaged message is not searchable");
                    add(if is_summary { schema::SUMMARY } else { role_number(lcm_core::Role::Other) }, "")?;
                }
            }
        }
        self.next = end + 1;
        Ok(())
    }

    /// Makes what was added searchable.
    fn commit(&mut self, store: &Store) -> Result<(), StoreError> {
        let snapshot = store.snapshot()?;
        let path = || self.directory.join(SIEVE);
        if let Some(mark) = mark(&snapshot, self.sieve.closed())? {
            self.sieve.commit(mark).map_err(StoreError::file("write", path()))?;
        }
        if self.uncommitted > 0 {
            let last = self.words.last;
            let mark = mark(&snapshot, last)?.ok_or(StoreError::NoPlace(Arrival(last)))?;
            self.words.commit(Watermark { last, mark })?;
            self.uncommitted = 0;
        }
        Ok(())
    }

    /// Waits for merges, and seals the files.
    fn finish(mut self) -> Result<(), StoreError> {
        if let Some(writer) = self.words.writer.take() {
            guarded(|| writer.wait_merging_threads())?;
        }
        Ok(guarded(|| segments::write_seal(&self.directory, &self.words.index))?)
    }
}

/// How far the sieve at `path` can be gone on with; `None` to begin anew.
fn usable_sieve(snapshot: &Snapshot, path: &Path) -> Result<Option<Slot>, StoreError> {
    let sieve = match Sieve::open(path) {
        Ok(Some(sieve)) => sieve,
        Ok(None) | Err(_) => return Ok(None),
    };
    if !is_ours(snapshot, sieve.slot.last, &sieve.slot.mark)? {
        return Ok(None);
    }
    let mut blocks = sieve.blocks(true);
    while let Some(block) = blocks.next() {
        if block.and_then(|block| block.masks().map(drop)).is_err() {
            return Ok(None);
        }
    }
    Ok(Some(sieve.slot))
}

/// What the index keeps of a place, beside its text.
struct Place {
    arrival: u64,
    timeline: u64,
    anchor: u64,
    role: u64,
    seen_ms: i64,
}

impl Words {
    fn open(snapshot: &Snapshot, directory: &Path, pace: Pace) -> Result<Self, StoreError> {
        let path = directory.join(WORDS_DIR);
        let usable = match Opened::open(directory, None) {
            Ok(Some(opened)) if is_ours(snapshot, opened.watermark.last, &opened.watermark.mark)? => {
                guarded(|| schema::open(&path))?.map(|(index, fields)| (index, fields, opened.watermark.last))
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(%error, "the search index cannot be used and is made anew");
                None
            }
        };
        let (index, fields, last) = match usable {
            Some(usable) => usable,
            None => {
                remove(&path)?;
                disk::make_directory(&path).map_err(StoreError::file("make", &path))?;
                let (index, fields) = guarded(|| schema::create(&path))?;
                (index, fields, 0)
            }
        };
        let taken = Arc::new(AtomicU64::new(0));
        schema::register(&index, CodeTokenizer::counting(taken.clone()));
        Ok(Self { index, fields, pace, writer: None, last, sent: 0, taken })
    }

    fn add(&mut self, place: &Place, text: &str) -> Result<(), StoreError> {
        let fields = self.fields;
        let mut document = TantivyDocument::default();
        document.add_u64(fields.arrival, place.arrival);
        document.add_u64(fields.timeline, place.timeline);
        document.add_u64(fields.anchor, place.anchor);
        document.add_u64(fields.role, place.role);
        document.add_i64(fields.seen, place.seen_ms);
        document.add_u64(fields.length, length(text));
        document.add_text(fields.text, text);
        self.wait_for_room();
        self.sent += u64::try_from(text.len()).unwrap_or(0);
        self.last = place.arrival;
        let writer = self.writer()?;
        writer.add_document(document)?;
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut IndexWriter, StoreError> {
        if self.writer.is_none() {
            let (threads, bytes) = match self.pace {
                Pace::Gentle => (1, GENTLE_BYTES),
                Pace::Bulk => (BULK_THREADS.min(rayon::current_num_threads()), BULK_BYTES),
            };
            let options = IndexWriterOptions::builder()
                .num_worker_threads(threads)
                .memory_budget_per_thread(bytes)
                .num_merge_threads(1);
            let writer: IndexWriter = guarded(|| self.index.writer_with_options(options.build()))?;
            writer.set_merge_policy(Box::new(Tidy));
            self.writer = Some(writer);
        }
        Ok(self.writer.as_mut().expect("made just above"))
    }

    /// Waits until tantivy's thread has taken most of what it was given.
    fn wait_for_room(&self) {
        let mut seen = self.taken.load(Ordering::Relaxed);
        let mut since = Instant::now();
        while self.sent.saturating_sub(seen) > QUEUE_BYTES {
            std::thread::sleep(Duration::from_micros(200));
            let now = self.taken.load(Ordering::Relaxed);
            if now != seen {
                (seen, since) = (now, Instant::now());
            } else if since.elapsed() > Duration::from_secs(10) {
                // It writes a segment, or it has died; then adding says so.
                return;
            }
        }
    }

    fn commit(&mut self, watermark: Watermark) -> Result<(), StoreError> {
        let Some(writer) = self.writer.as_mut() else { return Ok(()) };
        guarded(|| {
            let mut commit = writer.prepare_commit()?;
            commit.set_payload(&watermark.to_payload());
            commit.commit()
        })?;
        Ok(())
    }
}

/// Keeps segments few: when there are too many, the small ones become one that is not smaller than any left of
/// it. So a place is rewritten about as often as the index has doubled.
#[derive(Debug)]
struct Tidy;

impl MergePolicy for Tidy {
    fn compute_merge_candidates(&self, segments: &[SegmentMeta]) -> Vec<MergeCandidate> {
        if segments.len() <= SEGMENTS_MAX {
            return Vec::new();
        }
        let mut segments: Vec<(u64, &SegmentMeta)> =
            segments.iter().map(|segment| (u64::from(segment.max_doc()), segment)).collect();
        segments.sort_by_key(|(docs, segment)| (*docs, segment.id()));
        // Half of them at least, and more while the next is no larger than those before it together.
        let mut count = segments.len() - SEGMENTS_MAX / 2;
        let mut sum: u64 = segments[..count].iter().map(|(docs, _)| docs).sum();
        while let Some((docs, _)) = segments.get(count)
            && *docs <= sum
        {
            sum += docs;
            count += 1;
        }
        vec![MergeCandidate(segments[..count].iter().map(|(_, segment)| segment.id()).collect())]
    }
}
