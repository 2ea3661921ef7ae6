//! Why the store could not answer. "Damaged", "too new", "busy" and "not found" are different things to a user,
//! so they are different variants.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use lcm_core::{Arrival, BodyId, NodeId, SessionId, TimelineId};

use crate::backend::LockHeld;

/// Why the store could not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no store in this directory, and it was not to be made.
    #[error("there is no store in {0}")]
    Absent(PathBuf),
    /// The directory or a file in it is something else.
    #[error("{path} is not a store: {why}")]
    NotAStore {
        /// The directory or file.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// Files of a store are there, and one without which nothing can be read is missing or something else.
    #[error("the store in {path} is damaged: {why}")]
    Incomplete {
        /// The data directory.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// A newer lcm wrote this store; it was not touched.
    #[error("the store in {path} has format {found}, this program reads up to {newest}")]
    TooNew {
        /// The data directory.
        path: PathBuf,
        /// The store's format.
        found: u32,
        /// The newest we read.
        newest: u32,
    },
    /// A program with another generation of the database's locking protocol has it open.
    #[error("the store in {0} is open in a program with another locking protocol")]
    OtherProtocol(PathBuf),
    /// Whoever wrote last died, and what has to be done about that was not possible.
    #[error("the store's file {0} was not closed in order and cannot be repaired at present")]
    Unrepaired(PathBuf),
    /// Another process holds a lock for longer than we may wait.
    #[error("{what} is held by another process and was not free within {waited:?}")]
    Busy {
        /// Which lock.
        what: &'static str,
        /// How long we waited.
        waited: Duration,
    },
    /// No node with this id.
    #[error("no node {0:.12} in this store")]
    NotFound(NodeId),
    /// No place with this number.
    #[error("no message number {0} in this store")]
    NoPlace(Arrival),
    /// No session with this number.
    #[error("no session number {0} in this store")]
    NoSession(SessionId),
    /// No timeline with this number.
    #[error("no timeline number {0} in this store")]
    NoTimeline(TimelineId),
    /// The bytes under this id hash to something else: the file is damaged.
    #[error("node {id:.12} is damaged: its bytes hash to {actual:.12}")]
    Damaged {
        /// The node asked for.
        id: NodeId,
        /// The id its bytes give now.
        actual: NodeId,
    },
    /// A long string of a message is missing or hashes to something else.
    #[error("a body is damaged: {0:.12} is missing or its bytes hash to something else")]
    DamagedBody(BodyId),
    /// A row that cannot be read: the file is damaged.
    #[error("row {key} of table {table} is damaged: {why}")]
    DamagedRow {
        /// The table.
        table: &'static str,
        /// The row's key, as text.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// The data file is damaged where no row can be named.
    #[error("{} is damaged: {why}", named(path))]
    DamagedFile {
        /// The data file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Another message stands at that order key already: somebody inserted between the same neighbours first.
    #[error("message number {0} stands there already")]
    PlaceTaken(Arrival),
    /// Something is larger than its bound in `lcm_core::limits`.
    #[error("{what} has {size} bytes; at most {max} are kept")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its size.
        size: usize,
        /// The bound.
        max: usize,
    },
    /// The caller gave up while it waited for the write lock; nothing was written.
    #[error("the write was given up before it began")]
    GivenUp,
    /// An earlier write failed; nothing more is written until the store is opened again.
    #[error("an earlier write failed; the store takes no more until it is opened again")]
    WriterFailed,
    /// The database under us failed.
    #[error("the database in {} failed", named(path))]
    Database {
        /// The data file.
        path: PathBuf,
        /// What it said.
        #[source]
        source: Box<redb::Error>,
    },
    /// The search index failed. It is derived: `repair index` makes it anew.
    #[error("the search index failed")]
    Index(#[source] Box<tantivy::TantivyError>),
    /// A pattern that is no regular expression, or one too large to run.
    #[error("the pattern is not a usable regular expression: {0}")]
    Pattern(String),
    /// A file or directory could not be read or written.
    #[error("cannot {what} {path}")]
    File {
        /// What we were doing, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl StoreError {
    /// Wraps what a file operation said.
    pub(crate) fn file(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { what, path, source }
    }

    /// A row that cannot be read.
    pub(crate) fn row(table: &'static str, key: impl ToString, why: impl ToString) -> Self {
        Self::DamagedRow { table, key: key.to_string(), why: why.to_string() }
    }

    /// The data file is damaged; [`contained`] adds which it is.
    pub(crate) fn damaged_file(why: impl Into<String>) -> Self {
        Self::DamagedFile { path: PathBuf::new(), why: why.into() }
    }

    /// What the database itself said; [`contained`] adds of which file.
    pub(crate) fn database(source: redb::Error) -> Self {
        Self::Database { path: PathBuf::new(), source: Box::new(source) }
    }

    /// Names the data file where that is not done yet.
    pub(crate) fn in_file(mut self, file: &Path) -> Self {
        if let Self::DamagedFile { path, .. } | Self::Database { path, .. } = &mut self
            && path.as_os_str().is_empty()
        {
            *path = file.to_owned();
        }
        self
    }

    /// Whether this tells that something in the data file is damaged, and what was not asked for may still be whole.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::DamagedBody(_) | Self::DamagedRow { .. } | Self::DamagedFile { .. })
    }
}

/// A data file in a sentence, also while nobody has said which.
fn named(path: &Path) -> impl std::fmt::Display {
    if path.as_os_str().is_empty() { "the data file".to_owned() } else { path.display().to_string() }
}

/// `None` for what is damaged, where one bad row must not end what looks at many. `check` names it.
pub(crate) fn unless_damaged<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_damage() => {
            tracing::debug!(%error, "something damaged is passed over");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

thread_local! {
    /// How many calls of this thread, one in the other, turn a panic into an error.
    static CONTAINED: Cell<u32> = const { Cell::new(0) };
}

/// Whether a panic of this thread becomes an error of the store, so that a panic hook need not tell of it.
#[must_use]
pub fn is_contained() -> bool {
    CONTAINED.get() > 0
}

/// Runs `call`; when it panics, the error is what the panic said.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            CONTAINED.set(CONTAINED.get() - 1);
        }
    }
    CONTAINED.set(CONTAINED.get() + 1);
    let _leave = Leave;
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        said.unwrap_or("nothing").to_owned()
    })
}

/// Runs `call`, in which redb is asked about `file`, turns a panic of it into an error, and names the file.
///
/// redb trusts its file in places: a page that was damaged on the disk can make it panic, and what lies in a file
/// must never end the program. Nothing of ours is left half-changed by that, and redb refuses what it left so itself.
///
/// What runs on other threads meanwhile needs a `contained` of its own there, or the panic is told on the way.
pub(crate) fn contained<T>(file: &Path, call: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let done = caught(call).unwrap_or_else(|said| Err(unreadable(&said)));
    done.map_err(|error| error.in_file(file))
}

/// A page that the database cannot read. Its own words name places in its code, which help nobody but us.
fn unreadable(said: &str) -> StoreError {
    tracing::debug!(said, "the database met something damaged");
    StoreError::damaged_file(match said.starts_with("File length") {
        true => "its length is not one that a data file has",
        false => "a page of it cannot be read",
    })
}

macro_rules! from_redb {
    ($($error:ty),*) => {
        $(impl From<$error> for StoreError {
            fn from(error: $error) -> Self {
                match redb::Error::from(error) {
                    redb::Error::Corrupted(why) => unreadable(&why),
                    redb::Error::Io(source) => match LockHeld::within(&source) {
                        Some(waited) => Self::Busy { what: "a lock of the database", waited },
                        None if source.kind() == io::ErrorKind::UnexpectedEof => {
                            Self::damaged_file("it is shorter than what is asked of it")
                        }
                        None => Self::database(redb::Error::Io(source)),
                    },
                    error => Self::database(error),
                }
            }
        })*
    };
}

from_redb!(
    redb::Error,
    redb::DatabaseError,
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError
);

impl From<tantivy::TantivyError> for StoreError {
    fn from(error: tantivy::TantivyError) -> Self {
        Self::Index(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_inside_becomes_an_error_in_our_words_that_names_the_file() {
        assert!(!is_contained());
        let file = Path::new("/a/store.1.redb");
        let failed: Result<(), StoreError> = contained(file, || {
            assert!(is_contained());
            let inner: Result<(), StoreError> =
                contained(file, || unreachable!("internal error of the database at page {}", 7));
            assert!(is_contained() && inner.is_err());
            inner
        });
        assert!(!is_contained());
        assert_eq!(failed.unwrap_err().to_string(), "/a/store.1.redb is damaged: a page of it cannot be read");
    }

    #[test]
    fn what_the_database_says_of_its_file_is_told_apart() {
        let said = |error: redb::StorageError| contained::<()>(Path::new("/a/b"), || Err(error.into())).unwrap_err();
        let cut = said(redb::StorageError::Io(io::ErrorKind::UnexpectedEof.into()));
        assert!(cut.is_damage() && cut.to_string().starts_with("/a/b is damaged"), "{cut}");
        let grown = said(redb::StorageError::Corrupted("File length does not correspond to a valid region".into()));
        assert_eq!(grown.to_string(), "/a/b is damaged: its length is not one that a data file has");
        let full = said(redb::StorageError::Io(io::ErrorKind::StorageFull.into()));
        assert!(!full.is_damage() && full.to_string() == "the database in /a/b failed", "{full}");
    }
}
