//! Compacting: the next generation holds every row, and none of the space that changes left behind.
//!
//! The database never gives pages back while others have it open, and fills those it frees only later. So every row
//! is copied, in the order of its key, into a file of its own, and `CURRENT` leads there (`open`).
//!
//! Invariant: whoever reads or writes next finds what the old generation held; until `CURRENT` has moved, a crash leaves
//! the old one in its place.

use redb::{Database, ReadableDatabase, ReadableTable};

use crate::Store;
use crate::error::StoreError;
use crate::tables;

impl Store {
    /// Rewrites the data file without the space that is free in it; gives the number of the new generation.
    ///
    /// Needs room for a second file meanwhile. Whoever reads or writes at the time waits, and is told that the store is
    /// busy when that takes longer than they may wait.
    ///
    /// # Errors
    /// [`StoreError::Busy`] when others do not end their transactions in time; otherwise when the database or the
    /// disk fails, and then the old generation stays.
    pub fn compact(&self) -> Result<u64, StoreError> {
        self.inner.files.next_generation(copy)
    }
}

fn copy(old: &Database, new: &Database) -> Result<(), StoreError> {
    let (from, to) = (old.begin_read()?, new.begin_write()?);
    macro_rules! copy_table {
        ($table:expr) => {{
            let mut target = to.open_table($table)?;
            for entry in from.open_table($table)?.iter()? {
                let (key, value) = entry?;
                target.insert(key.value(), value.value())?;
            }
        }};
    }
    tables::each!(copy_table);
    to.commit()?;
    Ok(())
}
