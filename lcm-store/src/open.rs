//! Opening: beside other processes, after a crash, read-only; every wait has a bound.
//!
//! A data directory holds `CURRENT`, which names the data file of the present *generation*. Every transaction
//! holds a shared lock on `CURRENT`, so that whoever writes the next generation (compact, forget, restore) can
//! take it exclusively and know that nobody looks at the old one. A transaction that finds another `CURRENT`
//! than the one it knows opens the new generation first. The lock on the directory is the entrance: who wants the
//! store alone stands in it, so that others leave and no new ones come.
//!
//! The database is opened read-only first: that takes 0.1 ms even while another process is stopped inside a
//! write transaction. The writing handle comes with the first write. No wait for a lock outlasts the call's
//! deadline (`backend`).

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use redb::{
    ConcurrencyMode, Database, DatabaseError, ReadOnlyDatabase, ReadTransaction, ReadableDatabase, WriteTransaction,
};

use crate::backend::{self, DataFile, Pauses, within};
use crate::error::{StoreError, caught, contained};
use crate::format::{CURRENT, CURRENT_MAGIC, FORMAT, FORMAT_OLDEST, INDEX_LOCK, data_file, is_data_file};
use crate::{modes, tables};

/// How many processes may write. One switch, so that we can retreat to one writer should the mode disappoint.
const MODE: ConcurrencyMode = ConcurrencyMode::MultiWriter;

/// How long a handle that is only tried may take: whoever is stopped in a write holds the check up for no longer.
const TRY_MAX: Duration = Duration::from_secs(1);

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Make the store when the directory has none.
    pub create: bool,
    /// How long any call may wait for a lock that another process holds.
    pub wait: Duration,
    /// Bytes of the database's page cache.
    pub cache_bytes: usize,
    /// What the disk does with the data file, where a test decides that.
    #[cfg(feature = "testing")]
    pub disk: Option<Arc<dyn crate::testing::Disk>>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            create: true,
            // Most commits take under a millisecond; five seconds is a stopped process, not a slow one.
            wait: Duration::from_secs(5),
            cache_bytes: 48 << 20,
            #[cfg(feature = "testing")]
            disk: None,
        }
    }
}

/// The data directory and the generation of its database that is open now.
pub(crate) struct Files {
    home: PathBuf,
    options: OpenOptions,
    current: RwLock<Arc<Generation>>,
}

/// One opened data file and the `CURRENT` that names it.
pub(crate) struct Generation {
    pub(crate) number: u64,
    path: PathBuf,
    lock: CurrentLock,
    /// Empty while everybody reads through the writing handle, once that has come: one cache is enough.
    reader: RwLock<Option<Arc<ReadOnlyDatabase>>>,
    writer: Mutex<Writer>,
}

enum Writer {
    Absent,
    Open(Arc<Database>),
    Failed,
}

/// What reads go through.
enum Reading {
    Reader(Arc<ReadOnlyDatabase>),
    Writer(Arc<Database>),
}

/// The lock on `CURRENT`, which stands for the generation it names.
struct CurrentLock {
    file: File,
    identity: (u64, u64),
    /// The directory; `None` where it must not be listed.
    entrance: Option<File>,
    holders: Mutex<Holders>,
}

/// Who of this process holds the lock; the first of its transactions takes it, the last lets it go.
enum Holders {
    Shared(usize),
    Exclusive,
}

/// Keeps the generation in place while a transaction lives.
pub(crate) struct Pin(Arc<Generation>);

/// Keeps everybody else away from the generation.
struct Sole {
    generation: Arc<Generation>,
    _entrance: File,
}

impl Drop for Generation {
    fn drop(&mut self) {
        let writer = std::mem::replace(&mut *lock(&self.writer), Writer::Failed);
        close(writer);
        close(self.reader.write().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut holders = lock(&self.0.lock.holders);
        if let Holders::Shared(count) = &mut *holders {
            *count -= 1;
            if *count == 0 {
                self.0.lock.let_go();
            }
        }
    }
}

impl Drop for Sole {
    fn drop(&mut self) {
        let mut holders = lock(&self.generation.lock.holders);
        *holders = Holders::Shared(0);
        self.generation.lock.let_go();
    }
}

impl std::ops::Deref for Pin {
    type Target = Generation;

    fn deref(&self) -> &Generation {
        &self.0
    }
}

/// Locks a mutex; a panic elsewhere left its data whole, as nothing under our mutexes is changed in steps.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries `attempt` with growing pauses until it gives something or `wait` is over.
pub(crate) fn retry<T>(
    what: &'static str,
    wait: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>, StoreError>,
) -> Result<T, StoreError> {
    if let Some(got) = attempt()? {
        return Ok(got);
    }
    let mut pauses = Pauses::new(backend::deadline(wait));
    loop {
        let more = pauses.pause();
        if let Some(got) = attempt()? {
            return Ok(got);
        }
        if !more {
            return Err(StoreError::Busy { what, waited: wait });
        }
    }
}

impl Files {
    pub(crate) fn open(home: &Path, options: OpenOptions) -> Result<Self, StoreError> {
        within(options.wait, || {
            match fs::symlink_metadata(home.join(CURRENT)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && options.create => {
                    let made = create(home, &options);
                    // Somebody else may have made it meanwhile, and tidied up what was half ours.
                    if !home.join(CURRENT).exists() {
                        made?;
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    return Err(absent(home));
                }
                Err(error) => return Err(StoreError::file("read", home.join(CURRENT))(error)),
            }
            let current = Generation::open(home, &options)?;
            if options.create {
                modes::close_to_others(home);
            }
            Ok(Self { home: home.to_owned(), current: RwLock::new(Arc::new(current)), options: options.clone() })
        })
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The data file of the generation that is open now.
    pub(crate) fn data_file(&self) -> PathBuf {
        self.current().path.clone()
    }

    /// The generation that is open now.
    fn current(&self) -> Arc<Generation> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the generation that `CURRENT` names by now, unless another thread already did.
    fn move_on(&self, known: &Arc<Generation>) -> Result<(), StoreError> {
        let mut slot = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&slot, known) {
            *slot = Arc::new(Generation::open(&self.home, &self.options)?);
        }
        Ok(())
    }

    /// Holds the present generation in place, opening it anew when another process has moved on.
    fn pin(&self) -> Result<Pin, StoreError> {
        loop {
            let known = self.current();
            if let Some(pin) = known.pin(&self.home, self.options.wait)? {
                return Ok(pin);
            }
            self.move_on(&known)?;
        }
    }

    /// Begins a consistent read.
    pub(crate) fn begin_read(&self) -> Result<(ReadTransaction, Pin), StoreError> {
        within(self.options.wait, || {
            let pin = self.pin()?;
            let txn = pin.begin_read(&self.options)?;
            Ok((txn, pin))
        })
    }

    /// Begins the write; waits its turn among threads and processes, at most `wait`.
    pub(crate) fn begin_write(&self) -> Result<(WriteTransaction, Pin), StoreError> {
        within(self.options.wait, || {
            let pin = self.pin()?;
            let writer = pin.writer(&self.options)?;
            let txn = retry("the write lock", self.options.wait, || {
                let begun = contained(&pin.path, || match writer.try_begin_write() {
                    Ok(txn) => Ok(Some(txn)),
                    Err(redb::TransactionError::WouldBlock) => Ok(None),
                    Err(error) => Err(error.into()),
                });
                begun.map_err(|error| match error {
                    // Nothing has begun: the handle is as good as before.
                    StoreError::Busy { .. } => error,
                    // An earlier write failed before it came to its commit.
                    StoreError::Database { ref source, .. } if matches!(**source, redb::Error::PreviousIo) => {
                        pin.writer_failed(&self.options, error);
                        StoreError::WriterFailed
                    }
                    _ => pin.writer_failed(&self.options, error),
                })
            })?;
            Ok((txn, pin))
        })
    }

    /// Tries whether a write would get its handle. Nothing of it reaches the file.
    pub(crate) fn try_writing(&self) -> Result<(), StoreError> {
        within(self.options.wait.min(TRY_MAX), || {
            let pin = self.pin()?;
            if let Writer::Open(_) = &*lock(&pin.writer) {
                return Ok(());
            }
            let open = || builder(&self.options).create_with_backend(DataFile::tried(&pin.path, &self.options)?);
            let database = opened(&pin.path, open)?;
            contained(&pin.path, || {
                drop(database);
                Ok(())
            })
        })
    }

    /// Makes what was written durable. After a failure nothing more is written.
    pub(crate) fn finish(&self, txn: WriteTransaction, pin: &Pin) -> Result<(), StoreError> {
        let done = within(self.options.wait, || contained(&pin.path, || Ok(txn.commit()?)));
        done.map_err(|error| pin.writer_failed(&self.options, error))
    }

    /// Drops what was written.
    pub(crate) fn undo(&self, txn: WriteTransaction, pin: &Pin) {
        if let Err(error) = within(self.options.wait, || contained(&pin.path, || Ok(txn.abort()?))) {
            // Nothing of it was named by a commit, so nothing of it is ever seen; but the handle is spoilt.
            tracing::warn!(%error, "a write could not be undone in order");
            pin.writer_failed(&self.options, error);
        }
    }

    /// Writes the next generation with `fill` while nobody else looks, and makes it the present one.
    ///
    /// `fill` gets the old database and the new one. Waits at most `wait` for others to end their transactions; they
    /// wait for as long as `fill` takes, or say that the store is busy.
    pub(crate) fn next_generation(
        &self,
        fill: impl FnOnce(&Database, &Database) -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        let (sole, old) = within(self.options.wait, || {
            let sole = loop {
                let known = self.current();
                match known.take(&self.home, self.options.wait)? {
                    Some(sole) => break sole,
                    None => self.move_on(&known)?,
                }
            };
            let old = sole.generation.writer(&self.options)?;
            Ok::<_, StoreError>((sole, old))
        })?;
        let number = sole.generation.number + 1;
        self.sweep(sole.generation.number)?;
        let path = self.home.join(data_file(number));
        make_private(&path)?;
        let filled = open_writer(&path, &self.options).and_then(|new| {
            contained(&sole.generation.path, || {
                fill(&old, &new).map_err(|error| match error {
                    // What is read is the old one; what finds no room is the new one.
                    StoreError::Database { .. } => error.in_file(&path),
                    _ => error,
                })
            })
        });
        let published = filled.and_then(|()| write_current(&self.home, number, Publish::Replace));
        if let Err(error) = published {
            // Where `CURRENT` has moved on in spite of the error, the file must stay.
            if sole.generation.is_current(&self.home).is_ok_and(|still| still)
                && let Err(error) = fs::remove_file(&path)
            {
                tracing::warn!(%error, "a half-written generation stays until the next one is written");
            }
            return Err(error);
        }
        let new = within(self.options.wait, || Generation::open(&self.home, &self.options))?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(new);
        self.sweep(number)?;
        drop(sole);
        Ok(number)
    }

    /// Removes the data files of other generations: what a crash left half-written, or could not remove any more.
    fn sweep(&self, keep: u64) -> Result<(), StoreError> {
        let keep = data_file(keep);
        for entry in fs::read_dir(&self.home).map_err(StoreError::file("read", &self.home))? {
            let name = entry.map_err(StoreError::file("read", &self.home))?.file_name();
            if name.to_str().is_some_and(|name| is_data_file(name) && name != keep) {
                let path = self.home.join(name);
                match fs::remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        return Err(StoreError::file("remove", path)(error));
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

impl CurrentLock {
    /// Whether nobody stands in the entrance. It is for fairness alone: where it cannot be locked it is open.
    fn enter(&self) -> bool {
        let Some(entrance) = &self.entrance else { return true };
        match entrance.try_lock_shared() {
            Ok(()) => entrance.unlock().is_ok(),
            Err(fs::TryLockError::WouldBlock) => false,
            Err(fs::TryLockError::Error(_)) => true,
        }
    }

    fn let_go(&self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "cannot let go of the lock on CURRENT");
        }
    }
}

/// Turns "somebody has it" into `None`.
fn tried(locked: Result<(), fs::TryLockError>, home: &Path) -> Result<Option<()>, StoreError> {
    match locked {
        Ok(()) => Ok(Some(())),
        Err(fs::TryLockError::WouldBlock) => Ok(None),
        Err(fs::TryLockError::Error(error)) => Err(StoreError::file("lock", home.join(CURRENT))(error)),
    }
}

impl Generation {
    /// The data file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn open(home: &Path, options: &OpenOptions) -> Result<Self, StoreError> {
        let name = home.join(CURRENT);
        retry("the store", options.wait, || {
            let mut file = match File::open(&name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(absent(home)),
                opened => opened.map_err(StoreError::file("read", &name))?,
            };
            // Locked while we look, so that nobody takes the data file away before we have it open.
            if tried(file.try_lock_shared(), home)?.is_none() {
                return Ok(None);
            }
            let identity = identity(&file.metadata().map_err(StoreError::file("read", &name))?);
            let number = read_current(&mut file, &name, home)?;
            let holders = Mutex::new(Holders::Shared(0));
            let lock = CurrentLock { file, identity, entrance: File::open(home).ok(), holders };
            let mut opened = Self {
                number,
                path: home.join(data_file(number)),
                lock,
                reader: RwLock::new(None),
                writer: Mutex::new(Writer::Absent),
            };
            if !opened.is_current(home)? {
                return Ok(None);
            }
            let reader = open_reader(&opened.path, options)?;
            check_format(&reader, &opened.path, home)?;
            opened.reader = RwLock::new(Some(Arc::new(reader)));
            opened.lock.let_go();
            Ok(Some(opened))
        })
    }

    /// Whether `CURRENT` still is the file that named this generation.
    fn is_current(&self, home: &Path) -> Result<bool, StoreError> {
        let path = home.join(CURRENT);
        let now = fs::metadata(&path).map_err(StoreError::file("read", path))?;
        Ok(identity(&now) == self.lock.identity)
    }

    /// `None` when `CURRENT` names another generation by now.
    fn pin(self: &Arc<Self>, home: &Path, wait: Duration) -> Result<Option<Pin>, StoreError> {
        let pin = retry("the store", wait, || {
            let mut holders = lock(&self.lock.holders);
            let Holders::Shared(count) = &mut *holders else { return Ok(None) };
            // Whoever has a transaction already may begin another: the one who waits for the first would else be
            // waited for by the second.
            if *count == 0 && (!self.lock.enter() || tried(self.lock.file.try_lock_shared(), home)?.is_none()) {
                return Ok(None);
            }
            *count += 1;
            Ok(Some(Pin(self.clone())))
        })?;
        Ok(self.is_current(home)?.then_some(pin))
    }

    /// Waits until nobody reads or writes, and keeps it so; `None` when `CURRENT` names another generation by now.
    fn take(self: &Arc<Self>, home: &Path, wait: Duration) -> Result<Option<Sole>, StoreError> {
        // Opened anew, as the threads of this process must not get through by what is theirs.
        let entrance = File::open(home).map_err(StoreError::file("read", home))?;
        retry("the store", wait, || match entrance.try_lock() {
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            // Where a directory cannot be locked, one has to wait for a moment in which nobody is there.
            Ok(()) | Err(fs::TryLockError::Error(_)) => Ok(Some(())),
        })?;
        retry("the store", wait, || {
            let mut holders = lock(&self.lock.holders);
            if !matches!(*holders, Holders::Shared(0)) || tried(self.lock.file.try_lock(), home)?.is_none() {
                return Ok(None);
            }
            *holders = Holders::Exclusive;
            Ok(Some(()))
        })?;
        let sole = Sole { generation: self.clone(), _entrance: entrance };
        Ok(self.is_current(home)?.then_some(sole))
    }

    /// What reads go through now: the writing handle once there is one, else one of their own.
    fn reading(&self, options: &OpenOptions) -> Result<Reading, StoreError> {
        let known = || self.reader.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(reader) = known() {
            return Ok(Reading::Reader(reader));
        }
        if let Writer::Open(writer) = &*lock(&self.writer) {
            return Ok(Reading::Writer(writer.clone()));
        }
        // The writing handle failed, and left a reader if it could.
        known().map_or_else(|| self.renew_reader(options), |reader| Ok(Reading::Reader(reader)))
    }

    fn renew_reader(&self, options: &OpenOptions) -> Result<Reading, StoreError> {
        let fresh = Arc::new(open_reader(&self.path, options)?);
        *self.reader.write().unwrap_or_else(PoisonError::into_inner) = Some(fresh.clone());
        Ok(Reading::Reader(fresh))
    }

    fn begin_read(&self, options: &OpenOptions) -> Result<ReadTransaction, StoreError> {
        let begin = |reading: &Reading| match reading {
            Reading::Reader(reader) => contained(&self.path, || Ok(reader.begin_read()?)),
            Reading::Writer(writer) => contained(&self.path, || Ok(writer.begin_read()?)),
        };
        let reading = self.reading(options)?;
        let error = match begin(&reading) {
            Err(error) if !matches!(error, StoreError::Busy { .. }) => error,
            done => return done,
        };
        // A handle that met a failure once gives nothing any more; a fresh one may.
        tracing::warn!(%error, "a database handle failed and is opened again");
        if let Reading::Writer(_) = reading {
            self.writer_failed(options, error);
        }
        begin(&self.renew_reader(options)?)
    }

    /// The writing handle, opened with the first write.
    fn writer(&self, options: &OpenOptions) -> Result<Arc<Database>, StoreError> {
        let mut writer = lock(&self.writer);
        match &*writer {
            Writer::Open(database) => return Ok(database.clone()),
            Writer::Failed => return Err(StoreError::WriterFailed),
            Writer::Absent => {}
        }
        if let Some(home) = self.path.parent() {
            modes::close_to_others(home);
        }
        let database = Arc::new(open_writer(&self.path, options)?);
        *writer = Writer::Open(database.clone());
        *self.reader.write().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(database)
    }

    /// Gives the writing handle up after `error`, and hands the error back. After a failed write nothing more is
    /// written; where a stopped process kept a lock from us, the next write opens a fresh handle.
    fn writer_failed(&self, options: &OpenOptions, error: StoreError) -> StoreError {
        let mut writer = lock(&self.writer);
        let Writer::Open(_) = *writer else { return error };
        // Reads go on through a handle of their own. It is opened while the failed one is still there: a file without
        // any writer would have to be repaired first, and that is a write.
        match open_reader(&self.path, options) {
            Ok(reader) => *self.reader.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(reader)),
            Err(error) => tracing::warn!(%error, "no reading either after a failed write"),
        }
        let next = if matches!(error, StoreError::Busy { .. }) { Writer::Absent } else { Writer::Failed };
        close(std::mem::replace(&mut *writer, next));
        error
    }
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Why there is nothing to open.
fn absent(home: &Path) -> StoreError {
    let not_ours = |why: &str| StoreError::NotAStore { path: home.to_owned(), why: why.into() };
    match fs::metadata(home) {
        Ok(metadata) if !metadata.is_dir() => not_ours("it is not a directory"),
        Ok(_) if home.join(CURRENT).is_symlink() => without_current(home, "its file CURRENT leads nowhere"),
        Ok(_) => match fs::read_dir(home).map(|entries| entries.flatten().any(|entry| !is_set(&entry.file_name()))) {
            Ok(true) => without_current(home, "it has no file CURRENT"),
            _ => StoreError::Absent(home.to_owned()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound && home.is_symlink() => {
            not_ours("it is a link that leads nowhere")
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => StoreError::Absent(home.to_owned()),
        Err(error) => StoreError::file("read", home)(error),
    }
}

/// What a directory is whose `CURRENT` does not serve: beside what only we make it is a damaged store, else
/// somebody else's directory.
fn without_current(home: &Path, why: &str) -> StoreError {
    let (path, why) = (home.to_owned(), why.to_owned());
    let mut names = fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.file_name());
    // A data file in the making was never named by any `CURRENT`.
    let is_ours = |name: &str| (is_data_file(name) && name.ends_with(".redb")) || name == INDEX_LOCK;
    if names.any(|name| name.to_str().is_some_and(is_ours)) {
        StoreError::Incomplete { path, why }
    } else {
        StoreError::NotAStore { path, why }
    }
}

/// Makes the directory, the first data file, and last `CURRENT`; harmless beside others who do the same.
///
/// The data file is made under another name and whole before it gets its own: redb takes a file that a crash left
/// half-made for a foreign one.
fn create(home: &Path, options: &OpenOptions) -> Result<(), StoreError> {
    if home.exists() {
        check_empty(home)?;
        // Before anything is in it.
        modes::close_to_others(home);
    } else if home.is_symlink() {
        return Err(absent(home));
    } else {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(StoreError::file("make", home))?;
        make_mode(home, 0o700)?;
    }
    let path = home.join(data_file(1));
    if !path.exists() {
        let (temporary, _) = make_temporary(home, &data_file(1))?;
        let published = fill_first(&temporary, options).and_then(|()| {
            match fs::hard_link(&temporary, &path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                linked => linked,
            }
            .map_err(StoreError::file("make", &path))
        });
        fs::remove_file(&temporary).map_err(StoreError::file("remove", &temporary))?;
        published?;
    }
    write_current(home, 1, Publish::First)
}

/// Refuses a directory that holds anything but what a crash in [`create`] may have left.
fn check_empty(home: &Path) -> Result<(), StoreError> {
    if !home.is_dir() {
        return Err(absent(home));
    }
    for entry in fs::read_dir(home).map_err(StoreError::file("read", home))? {
        let name = entry.map_err(StoreError::file("read", home))?.file_name();
        let name = name.to_string_lossy();
        // A later generation was named once: whoever lost its `CURRENT` must not be shown an empty store instead.
        let later = name.starts_with("store.") && !name.starts_with(&data_file(1));
        if later || !is_ours(&name) {
            return Err(without_current(home, &format!("it holds {name} and no file CURRENT")));
        }
    }
    Ok(())
}

/// Whether it is a file that people put into the directory, also before there is a store: settings, and a key.
fn is_set(name: &OsStr) -> bool {
    name == "config.toml" || name == "key"
}

/// Files that may lie in a directory whose `CURRENT` is not there yet.
fn is_ours(name: &str) -> bool {
    name.starts_with("store.")
        || name.starts_with(CURRENT)
        // What is kept beside a store by who serves it may be there before it.
        || ["index", "spool", "bin", "installed.toml", "hooks.secret", "serve.log", "serve.log.1", "serve.sock"].contains(&name)
        || is_set(OsStr::new(name))
        || name.starts_with('.')
}

fn fill_first(path: &Path, options: &OpenOptions) -> Result<(), StoreError> {
    let database = open_writer(path, options)?;
    contained(path, || {
        let txn = database.begin_write()?;
        tables::create_all(&txn)?;
        txn.open_table(tables::META)?.insert("format", u64::from(FORMAT))?;
        Ok(txn.commit()?)
    })
}

/// Makes a file that only its owner may read; it must not be there.
fn make_private(path: &Path) -> Result<File, StoreError> {
    let file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path);
    let file = file.map_err(StoreError::file("make", path))?;
    make_mode(path, 0o600)?;
    Ok(file)
}

/// Sets the mode of what we just made: the process's mask may have taken away even what the owner needs.
fn make_mode(path: &Path, mode: u32) -> Result<(), StoreError> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(StoreError::file("make", path))
}

/// Makes a private file beside `name` that nobody else works on: threads, and processes of other containers that may
/// have our number, make theirs at the same moment.
fn make_temporary(home: &Path, name: &str) -> Result<(PathBuf, File), StoreError> {
    let mut number = 0_u32;
    loop {
        let path = home.join(format!("{name}.{}.{number}", std::process::id()));
        match make_private(&path) {
            Ok(file) => return Ok((path, file)),
            Err(StoreError::File { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

enum Publish {
    /// Somebody else's `CURRENT` wins.
    First,
    Replace,
}

fn write_current(home: &Path, generation: u64, publish: Publish) -> Result<(), StoreError> {
    let (temporary, mut file) = make_temporary(home, CURRENT)?;
    let target = home.join(CURRENT);
    let mut write = || -> io::Result<()> {
        writeln!(file, "{CURRENT_MAGIC} {FORMAT} {}", data_file(generation))?;
        file.sync_all()?;
        // The data file's name must be durable before the name that leads to it.
        File::open(home)?.sync_all()?;
        match publish {
            Publish::Replace => fs::rename(&temporary, &target)?,
            Publish::First => match fs::hard_link(&temporary, &target) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                linked => linked?,
            },
        }
        File::open(home)?.sync_all()
    };
    let written = write();
    match fs::remove_file(&temporary) {
        // A rename has taken it away already.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "cannot remove {}", temporary.display());
        }
        _ => {}
    }
    written.map_err(StoreError::file("write", &target))
}

fn read_current(file: &mut File, name: &Path, home: &Path) -> Result<u64, StoreError> {
    let not_ours = |why: &str| without_current(home, why);
    let mut text = String::new();
    // A handful of words; anything longer is another program's file.
    match file.take(256).read_to_string(&mut text) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(not_ours("its file CURRENT is not ours"));
        }
        Err(error) => return Err(StoreError::file("read", name)(error)),
    }
    if text.trim().is_empty() {
        return Err(not_ours("its file CURRENT is empty"));
    }
    let mut words = text.split_whitespace();
    let (magic, format, data, rest) = (words.next(), words.next(), words.next(), words.next());
    let (Some(CURRENT_MAGIC), Some(format), Some(data)) = (magic, format, data) else {
        return Err(not_ours("its file CURRENT is not ours"));
    };
    let found: u32 = format.parse().map_err(|_| not_ours("its file CURRENT names no format"))?;
    // Before anything else is judged: a newer format may say more there.
    check_range(found, home)?;
    data.strip_prefix("store.")
        .and_then(|rest| rest.strip_suffix(".redb"))
        .and_then(|number| number.parse().ok())
        // The next generation needs a number too.
        .filter(|number: &u64| rest.is_none() && *number < u64::MAX && data == data_file(*number))
        .ok_or_else(|| not_ours("its file CURRENT names no data file"))
}

fn check_range(found: u32, home: &Path) -> Result<(), StoreError> {
    if found > FORMAT {
        return Err(StoreError::TooNew { path: home.to_owned(), found, newest: FORMAT });
    }
    if found < FORMAT_OLDEST {
        let why = format!("format {found} is older than any this program reads");
        return Err(StoreError::NotAStore { path: home.to_owned(), why });
    }
    Ok(())
}

fn check_format(reader: &ReadOnlyDatabase, path: &Path, home: &Path) -> Result<(), StoreError> {
    let found = contained(path, || {
        let txn = reader.begin_read()?;
        let table = match txn.open_table(tables::META) {
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
            table => table?,
        };
        Ok(table.get("format")?.map(|found| found.value()))
    })?;
    match found.and_then(|found| u32::try_from(found).ok()) {
        Some(found) => check_range(found, home),
        None => Err(StoreError::NotAStore { path: home.to_owned(), why: "its data file names no format".into() }),
    }
}

fn builder(options: &OpenOptions) -> redb::Builder {
    let mut builder = redb::Builder::new();
    builder.set_concurrency_mode(MODE).set_cache_size(options.cache_bytes);
    builder
}

/// What the opening of `path` came to, in our errors.
fn opened<T>(path: &Path, open: impl FnOnce() -> Result<T, DatabaseError>) -> Result<Option<T>, StoreError> {
    let not_a_store = |why: String| StoreError::NotAStore { path: path.to_owned(), why };
    // `CURRENT` named it, so there was a store.
    let incomplete = |why: &str| StoreError::Incomplete {
        path: path.parent().unwrap_or(path).to_owned(),
        why: format!("its data file {} {why}", path.file_name().unwrap_or_default().display()),
    };
    contained(path, || match open() {
        Ok(database) => Ok(Some(database)),
        Err(DatabaseError::RepairAborted) => Ok(None),
        Err(DatabaseError::LockProtocolMismatch) => Err(StoreError::OtherProtocol(path.to_owned())),
        Err(DatabaseError::UpgradeRequired(version)) => {
            Err(not_a_store(format!("its database has the unknown version {version}")))
        }
        Err(DatabaseError::Storage(redb::StorageError::Io(source))) => Err(match source.kind() {
            io::ErrorKind::InvalidData => incomplete("is no database"),
            io::ErrorKind::NotFound => incomplete("is missing"),
            io::ErrorKind::TimedOut | io::ErrorKind::UnexpectedEof => StoreError::from(redb::StorageError::Io(source)),
            _ => StoreError::file("open", path)(source),
        }),
        Err(error) => Err(error.into()),
    })
}

fn open_reader(path: &Path, options: &OpenOptions) -> Result<ReadOnlyDatabase, StoreError> {
    let open = || opened(path, || builder(options).open_read_only_with_backend(DataFile::read_only(path, options)?));
    if let Some(reader) = open()? {
        return Ok(reader);
    }
    // The last writer died: whoever opens it for writing repairs it, in a millisecond.
    close(open_writer(path, options)?);
    open()?.ok_or_else(|| StoreError::Unrepaired(path.to_owned()))
}

/// Closes a handle. It writes once more then, and meets what is damaged.
fn close<T>(handle: T) {
    if let Err(said) = caught(|| drop(handle)) {
        tracing::warn!(said, "a database handle could not be closed in order");
    }
}

fn open_writer(path: &Path, options: &OpenOptions) -> Result<Database, StoreError> {
    let open = || opened(path, || builder(options).create_with_backend(DataFile::writable(path, options)?));
    open()?.ok_or_else(|| StoreError::Unrepaired(path.to_owned()))
}
