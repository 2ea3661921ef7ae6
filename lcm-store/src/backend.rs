//! The data file under redb: every wait for a lock of another process has an end.
//!
//! redb's own file waits in the kernel, and for ever when the holder is stopped. Two of its locks matter. The *writer's
//! byte* is held through a whole write transaction and through an opening for writing. The *header* is held for some
//! microseconds four times in a commit and once in the beginning of every read, and through a sync when a writing
//! handle opens or closes: a process stopped just there would block readers too. So this file tries and pauses until
//! the deadline of the call, and gives [`LockHeld`], which the caller sees as [`StoreError::Busy`].
//!
//! Everything else goes straight to redb's file.
//!
//! [`StoreError::Busy`]: crate::StoreError::Busy

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::{Bound, Range};
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use redb::backends::FileBackend;
use redb::{BackendError, DatabaseError, StorageBackend};

use crate::open::{OpenOptions, lock};

/// Tries before the first sleep: the header is free again within microseconds, a sleep takes sixty of them.
const YIELDS: u32 = 16;
/// The first sleep between two tries; doubled up to the second.
const SLEEP_MIN: Duration = Duration::from_micros(50);
const SLEEP_MAX: Duration = Duration::from_millis(4);
/// Where a wait without any bound ends: further off than a process lives, near enough for every clock.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

thread_local! {
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs `call` so that all waits for locks in it end `wait` from now, or where the deadline around it ends.
///
/// One deadline for the whole call, not one for each lock: a thread that stood in line behind another of this
/// process for its time has used it up, and does not wait once more.
pub(crate) fn within<T>(wait: Duration, call: impl FnOnce() -> T) -> T {
    struct Restore(Option<Instant>);
    impl Drop for Restore {
        fn drop(&mut self) {
            DEADLINE.set(self.0);
        }
    }
    let _restore = Restore(DEADLINE.get());
    DEADLINE.set(Some(deadline(wait)));
    call()
}

/// Where waits of this thread end: `wait` from now, or earlier inside of [`within`].
pub(crate) fn deadline(wait: Duration) -> Instant {
    let now = Instant::now();
    let own = now.checked_add(wait).unwrap_or(now + FOR_EVER);
    DEADLINE.get().map_or(own, |around| around.min(own))
}

/// Pauses between tries for a lock: first only lets others run, then sleeps, longer each time.
pub(crate) struct Pauses {
    deadline: Instant,
    yields: u32,
    sleep: Duration,
    beat: u32,
}

impl Pauses {
    pub(crate) fn new(deadline: Instant) -> Self {
        // Processes that met once must not meet at every try: each goes by its own beat.
        Self { deadline, yields: 0, sleep: SLEEP_MIN, beat: (std::process::id() ^ thread_number()) % 7 }
    }

    /// Pauses; false when the time is over.
    pub(crate) fn pause(&mut self) -> bool {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        if self.yields < YIELDS {
            self.yields += 1;
            thread::yield_now();
            return true;
        }
        thread::sleep(self.sleep.min(left));
        self.sleep = (self.sleep * (9 + self.beat) / 6).min(SLEEP_MAX + SLEEP_MAX * self.beat / 8);
        true
    }
}

fn thread_number() -> u32 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    thread::current().id().hash(&mut hasher);
    u32::try_from(hasher.finish() >> 33).unwrap_or(0)
}

/// A lock that did not come in time; travels through redb inside of an I/O error.
#[derive(Debug, thiserror::Error)]
#[error("a lock of the database is held by another process")]
pub(crate) struct LockHeld {
    /// How long a call may wait.
    pub(crate) wait: Duration,
}

impl LockHeld {
    /// The wait that was in vain, when that is what `error` speaks of.
    pub(crate) fn within(error: &io::Error) -> Option<Duration> {
        error.get_ref()?.downcast_ref::<Self>().map(|held| held.wait)
    }
}

/// Bytes of a page that is kept beside the file.
const BESIDE_PAGE: u64 = 4096;

/// What would stand in the file if it were written.
#[derive(Debug, Default)]
struct Beside {
    len: Option<u64>,
    /// Whole pages, by their number.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Beside {
    /// A page as it would be now.
    fn page(&self, number: u64, file: &FileBackend) -> io::Result<Vec<u8>> {
        if let Some(page) = self.pages.get(&number) {
            return Ok(page.clone());
        }
        let start = number * BESIDE_PAGE;
        let there = file.len()?.saturating_sub(start).min(BESIDE_PAGE);
        let mut page = vec![0; usize::try_from(there).map_err(io::Error::other)?];
        file.read(start, &mut page)?;
        page.resize(usize::try_from(BESIDE_PAGE).map_err(io::Error::other)?, 0);
        Ok(page)
    }

    /// Calls `each` for the parts of a range that lie on one page: its number, where on it the part begins, and which
    /// bytes of the range it holds.
    fn parts(
        offset: u64,
        len: usize,
        mut each: impl FnMut(u64, usize, Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let at = offset + u64::try_from(done).map_err(io::Error::other)?;
            let within = usize::try_from(at % BESIDE_PAGE).map_err(io::Error::other)?;
            let left = usize::try_from(BESIDE_PAGE - at % BESIDE_PAGE).map_err(io::Error::other)?;
            let next = len.min(done + left);
            each(at / BESIDE_PAGE, within, done..next)?;
            done = next;
        }
        Ok(())
    }

    fn len(&self, file: &FileBackend) -> io::Result<u64> {
        self.len.map_or_else(|| file.len(), Ok)
    }

    fn read(&self, offset: u64, out: &mut [u8], file: &FileBackend) -> io::Result<()> {
        let end = offset.checked_add(u64::try_from(out.len()).map_err(io::Error::other)?);
        if end.is_none_or(|end| self.len(file).is_ok_and(|len| end > len)) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::parts(offset, out.len(), |number, at, part| {
            let (page, len) = (self.page(number, file)?, part.len());
            out[part].copy_from_slice(&page[at..at + len]);
            Ok(())
        })
    }

    fn write(&mut self, offset: u64, data: &[u8], file: &FileBackend) -> io::Result<()> {
        Self::parts(offset, data.len(), |number, at, part| {
            let (mut page, len) = (self.page(number, file)?, part.len());
            page[at..at + len].copy_from_slice(&data[part]);
            self.pages.insert(number, page);
            Ok(())
        })
    }
}

/// The data file as redb uses it.
#[derive(Debug)]
pub(crate) struct DataFile {
    file: FileBackend,
    wait: Duration,
    /// Where everything goes that is written, when the file must stay as it is.
    beside: Option<Mutex<Beside>>,
    #[cfg(feature = "testing")]
    disk: Option<(std::path::PathBuf, std::sync::Arc<dyn crate::testing::Disk>)>,
}

impl DataFile {
    /// Opens the file for reading.
    pub(crate) fn read_only(path: &Path, options: &OpenOptions) -> Result<Self, DatabaseError> {
        Self::new(path, File::open(path)?, options)
    }

    /// Opens the file for reading and writing; it must be there.
    pub(crate) fn writable(path: &Path, options: &OpenOptions) -> Result<Self, DatabaseError> {
        Self::new(path, File::options().read(true).write(true).open(path)?, options)
    }

    /// As [`DataFile::writable`], but all that is written stays in memory and is gone with this: to see whether the
    /// file can be opened to be written.
    pub(crate) fn tried(path: &Path, options: &OpenOptions) -> Result<Self, DatabaseError> {
        Ok(Self { beside: Some(Mutex::default()), ..Self::writable(path, options)? })
    }

    #[cfg_attr(not(feature = "testing"), expect(unused_variables))]
    fn new(path: &Path, file: File, options: &OpenOptions) -> Result<Self, DatabaseError> {
        Ok(Self {
            file: FileBackend::new(file)?,
            wait: options.wait,
            beside: None,
            #[cfg(feature = "testing")]
            disk: options.disk.clone().map(|disk| (path.to_owned(), disk)),
        })
    }

    fn wait_for(&self, mut attempt: impl FnMut() -> Result<bool, BackendError>) -> Result<(), BackendError> {
        if attempt()? {
            return Ok(());
        }
        let mut pauses = Pauses::new(deadline(self.wait));
        loop {
            let more = pauses.pause();
            if attempt()? {
                return Ok(());
            }
            if !more {
                let held = LockHeld { wait: self.wait };
                return Err(BackendError::Io(io::Error::new(io::ErrorKind::TimedOut, held)));
            }
        }
    }

    #[cfg(feature = "testing")]
    fn ask(&self, step: crate::testing::Step<'_>) -> io::Result<crate::testing::Fate> {
        self.disk.as_ref().map_or(Ok(crate::testing::Fate::Happens), |(path, disk)| disk.meet(path, step))
    }

    /// Tells the disk of the test that a lock was taken, which may stop the process there.
    #[cfg(feature = "testing")]
    fn locked(&self, start: Bound<u64>, exclusive: bool) {
        // A lock that was taken cannot fail any more.
        drop(self.ask(crate::testing::Step::Locked { start, exclusive }));
    }
}

impl StorageBackend for DataFile {
    fn len(&self) -> io::Result<u64> {
        match &self.beside {
            Some(beside) => lock(beside).len(&self.file),
            None => self.file.len(),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if let Some(beside) = &self.beside {
            return lock(beside).read(offset, out, &self.file);
        }
        #[cfg(feature = "testing")]
        self.ask(crate::testing::Step::Read { offset, len: out.len() })?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if let Some(beside) = &self.beside {
            lock(beside).len = Some(len);
            return Ok(());
        }
        #[cfg(feature = "testing")]
        self.ask(crate::testing::Step::SetLen { from: self.file.len()?, to: len })?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.beside.is_some() {
            return Ok(());
        }
        #[cfg(feature = "testing")]
        self.ask(crate::testing::Step::Sync)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(beside) = &self.beside {
            return lock(beside).write(offset, data, &self.file);
        }
        #[cfg(feature = "testing")]
        if let crate::testing::Fate::Torn { bytes, error } = self.ask(crate::testing::Step::Write { offset, data })? {
            self.file.write(offset, &data[..bytes.min(data.len())])?;
            return Err(error);
        }
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        let taken = self.file.try_lock_range(start, end)?;
        #[cfg(feature = "testing")]
        if taken {
            self.locked(start, true);
        }
        Ok(taken)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        let taken = self.file.try_lock_shared_range(start, end)?;
        #[cfg(feature = "testing")]
        if taken {
            self.locked(start, false);
        }
        Ok(taken)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.wait_for(|| self.file.try_lock_range(start, end))?;
        #[cfg(feature = "testing")]
        self.locked(start, true);
        Ok(())
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.wait_for(|| self.file.try_lock_shared_range(start, end))?;
        #[cfg(feature = "testing")]
        self.locked(start, false);
        Ok(())
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tried_is_read_again_and_leaves_the_file_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let whole: Vec<u8> = (0..10_000_u32).map(|n| u8::try_from(n % 251).unwrap()).collect();
        std::fs::write(&path, &whole).unwrap();
        let tried = DataFile::tried(&path, &OpenOptions::default()).unwrap();
        let mut expected = whole.clone();
        let read = |expected: &[u8]| {
            let mut out = vec![0; expected.len()];
            tried.read(0, &mut out).unwrap();
            assert!(out == expected);
            assert_eq!(tried.len().unwrap(), u64::try_from(expected.len()).unwrap());
        };
        read(&expected);
        tried.write(4090, &[7; 5000]).unwrap();
        expected[4090..9090].fill(7);
        read(&expected);
        assert!(tried.read(9_999, &mut [0; 2]).is_err());
        tried.set_len(20_000).unwrap();
        expected.resize(20_000, 0);
        read(&expected);
        tried.write(19_990, &[9; 10]).unwrap();
        expected[19_990..].fill(9);
        read(&expected);
        tried.sync_data().unwrap();
        assert!(std::fs::read(&path).unwrap() == whole);
    }

    #[test]
    fn a_call_inside_of_another_ends_with_the_outer_one() {
        let short = Duration::from_millis(20);
        let begun = Instant::now();
        within(short, || {
            assert!(deadline(Duration::from_secs(60)) <= begun + 2 * short);
            within(Duration::MAX, || assert!(deadline(Duration::MAX) <= begun + 2 * short));
        });
        assert!(deadline(Duration::from_secs(60)) > begun + Duration::from_secs(59));
    }

    #[test]
    fn a_held_lock_is_given_up_at_the_deadline_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"").unwrap();
        let wait = Duration::from_millis(50);
        let options = OpenOptions { wait, ..OpenOptions::default() };
        let one = DataFile::writable(&path, &options).unwrap();
        let other = DataFile::read_only(&path, &options).unwrap();
        let byte = Bound::Included(7);
        one.lock_range(byte, byte).unwrap();
        let begun = Instant::now();
        let error = other.lock_shared_range(byte, byte).unwrap_err();
        assert!((wait..wait + Duration::from_secs(2)).contains(&begun.elapsed()));
        let BackendError::Io(error) = error else { panic!("{error}") };
        assert_eq!(LockHeld::within(&error), Some(wait));
        one.unlock_range(byte, byte).unwrap();
        other.lock_shared_range(byte, byte).unwrap();
    }
}
