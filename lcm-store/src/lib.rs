//! What is kept: redb is the truth, everything under `index/` is derived from it.
//!
//! [`Store`] is the only door. Write with [`Store::commit`], read with [`Store::snapshot`], search with
//! [`Store::words`], [`Store::ranked`] and [`Store::grep`]. The layout on disk is described in `docs/format.md`.
//!
//! What always holds:
//! * a commit is durable when it returns, and nothing of it is seen before;
//! * any number of processes use one data directory at once, and no call waits without a bound;
//! * what is read hashes to its id, or is refused;
//! * the index is a copy: it may be deleted at any moment and is never asked whether something exists.
//!
//! Not here: hosts, JSON, token policies, sockets. The store keeps what it is given, or refuses.

mod format;
mod tables;
mod record;
mod pack;
mod backend;
mod modes;
mod open;
mod snapshot;
mod scope;
mod commit;
mod dictionary;
mod check;
mod compact;
mod index;
pub mod spool;
mod error;
#[cfg(feature = "testing")]
pub mod testing;

use std::path::Path;
use std::sync::Arc;

pub use check::{CheckOptions, CheckReport, Fault};
pub use commit::{Commit, NewPlace, Pinned, Prepared};
pub use error::{StoreError, is_contained};
pub use format::FORMAT;
pub use index::{
    Anchors, Cursor, CursorError, CursorKind, Cut, Filter, Found, Grep, GrepHits, Hit, IndexState, IndexStatus, Kinds,
    LetterCase, Order, Pace, Pattern, Progress, Scanned, Terms, Words, without_groups,
};
pub use open::OpenOptions;
pub use scope::{Branches, OwnerPattern, Owners, Scope};
pub use snapshot::{Buffer, Listed, Placed, RecordNumber, Session, Snapshot, Timeline};

use lcm_core::EncodedMessage;

/// A store: one data directory, shared with any number of threads and processes. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    files: open::Files,
    dictionaries: Arc<snapshot::Dictionaries>,
    index: index::SearchIndex,
}

impl Store {
    /// Opens the store in `home`, or makes it there.
    ///
    /// # Errors
    /// [`StoreError::Absent`], [`StoreError::NotAStore`], [`StoreError::TooNew`], [`StoreError::Busy`] and what
    /// the file system says; nothing is touched then.
    pub fn open(home: &Path, options: OpenOptions) -> Result<Self, StoreError> {
        let files = open::Files::open(home, options)?;
        let index = index::SearchIndex::new(&home.join(format::INDEX_DIR));
        Ok(Self { inner: Arc::new(Inner { files, dictionaries: Arc::default(), index }) })
    }

    /// The data directory.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.inner.files.home()
    }

    /// A consistent read of everything. Keep it for one page of an answer, not longer.
    ///
    /// # Errors
    /// When the database fails.
    pub fn snapshot(&self) -> Result<Snapshot, StoreError> {
        Snapshot::new(&self.inner.files, &self.inner.dictionaries)
    }

    /// Hashes and compresses messages for a commit, outside of the write lock.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] for a message beyond its bound.
    pub fn prepare(&self, messages: &[EncodedMessage]) -> Result<Vec<Prepared>, StoreError> {
        let dictionary = self.snapshot()?.newest_dictionary()?;
        commit::prepare(messages, dictionary.as_ref())
    }

    /// Writes: what `write` does becomes durable as a whole, or not at all when it fails.
    ///
    /// # Errors
    /// What `write` says; [`StoreError::Busy`] when a lock does not come in time; otherwise when the database fails,
    /// and then nothing more is written until the store is opened again. An error of the database in the very
    /// commit leaves open whether it became durable: look before you write again.
    pub fn commit<T, E: From<StoreError>>(&self, write: impl FnOnce(&mut Commit<'_>) -> Result<T, E>) -> Result<T, E> {
        self.commit_if(|| true, write)
    }

    /// Like [`Store::commit`], but asks `wanted` once the lock is won, and drops the write when the caller has
    /// given up meanwhile.
    ///
    /// # Errors
    /// [`StoreError::GivenUp`] when it was dropped; otherwise as [`Store::commit`].
    pub fn commit_if<T, E: From<StoreError>>(
        &self,
        wanted: impl FnOnce() -> bool,
        write: impl FnOnce(&mut Commit<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let files = &self.inner.files;
        let (txn, pin) = files.begin_write()?;
        if !wanted() {
            files.undo(txn, &pin);
            return Err(StoreError::GivenUp.into());
        }
        let begun = error::contained(pin.path(), || Commit::new(&txn, pin.path())).map_err(E::from);
        match begun.and_then(|mut commit| write(&mut commit)) {
            Ok(value) => {
                files.finish(txn, &pin)?;
                Ok(value)
            }
            Err(error) => {
                files.undo(txn, &pin);
                Err(error)
            }
        }
    }
}
