//! Why the store could not answer. "Damaged", "too new", "busy" and "not found" are different things to a user,
//! so they are different variants.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
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
    #[error("the data file is damaged: {0}")]
    DamagedFile(String),
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
    #[error("the database failed")]
    Database(#[source] Box<redb::Error>),
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
}

/// Runs `call`, in which redb is asked, and turns a panic of it into an error.
///
/// redb trusts its file in places: a page that was damaged on the disk can make it panic, and what lies in a file
/// must never end the program. Nothing of ours is left half-changed by that, and redb refuses what it left so itself.
pub(crate) fn contained<T>(call: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let said = said.unwrap_or("the database gave up").lines().next().unwrap_or_default().to_owned();
        Err(StoreError::DamagedFile(said))
    })
}

macro_rules! from_redb {
    ($($error:ty),*) => {
        $(impl From<$error> for StoreError {
            fn from(error: $error) -> Self {
                match redb::Error::from(error) {
                    redb::Error::Corrupted(why) => Self::DamagedFile(why),
                    redb::Error::Io(source) => match LockHeld::within(&source) {
                        Some(waited) => Self::Busy { what: "a lock of the database", waited },
                        None => Self::Database(Box::new(redb::Error::Io(source))),
                    },
                    error => Self::Database(Box::new(error)),
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
