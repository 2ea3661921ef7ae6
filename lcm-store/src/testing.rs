//! Seams for tests (feature `testing`): a disk that fails when a test wants it to, and a store of any format.
//!
//! [`Disk`] stands between redb and the data file. It sees every step before it is done and says what comes of it:
//! so a test can let the file die after its n-th write, tear a write, fill the disk up, or stop the process at the one
//! moment in which it holds a lock.

use std::fmt::Debug;
use std::io;
use std::ops::Bound;
use std::path::Path;

use lcm_core::{Arrival, TimelineId};
use redb::ReadableTable;

use crate::error::StoreError;
use crate::open::{Files, OpenOptions};
use crate::record::{PlaceRow, Row};
use crate::tables;

/// What is about to be done to the data file.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// Bytes are read.
    Read {
        /// From where on.
        offset: u64,
        /// How many.
        len: usize,
    },
    /// Bytes are written.
    Write {
        /// From where on.
        offset: u64,
        /// What.
        data: &'a [u8],
    },
    /// The file grows or shrinks.
    SetLen {
        /// Its length until now.
        from: u64,
        /// Its length from now on.
        to: u64,
    },
    /// What was written becomes durable.
    Sync,
    /// A lock has been taken. The only step that is told of afterwards.
    Locked {
        /// The first byte of the locked range; redb's header begins at 0.
        start: Bound<u64>,
        /// Whether nobody else can have it.
        exclusive: bool,
    },
}

/// What comes of a step that does not fail outright.
#[derive(Debug)]
pub enum Fate {
    /// It is done.
    Happens,
    /// Of a write, only the first bytes reach the file, and it fails.
    Torn {
        /// How many bytes.
        bytes: usize,
        /// What the writer is told.
        error: io::Error,
    },
}

/// The disk under one opened store, as a test wants it.
pub trait Disk: Debug + Send + Sync {
    /// Decides what comes of a step in `file`, the name under which it was opened.
    ///
    /// # Errors
    /// What the store is told when the step is not done at all.
    fn meet(&self, file: &Path, step: Step<'_>) -> io::Result<Fate>;
}

/// What can be lost of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The row of its place is gone, as when the key was damaged.
    Place,
    /// The row of its place is not what was written.
    PlaceBytes,
    /// Its timeline does not list it.
    Listing,
    /// Its record is gone.
    Record,
}

/// Damages what a store keeps of a message.
///
/// # Errors
/// When the store cannot be opened or written.
pub fn lose(home: &Path, arrival: Arrival, loss: Loss) -> Result<(), StoreError> {
    let files = Files::open(home, OpenOptions::default())?;
    let (txn, pin) = files.begin_write()?;
    {
        let mut places = txn.open_table(tables::PLACES)?;
        let bytes = places.get(arrival.0)?.map(|row| row.value().to_vec()).ok_or(StoreError::NoPlace(arrival))?;
        let row = PlaceRow::from_bytes(&bytes, arrival.0)?;
        match loss {
            Loss::Place => {
                places.remove(arrival.0)?;
            }
            Loss::PlaceBytes => {
                let other: Vec<u8> = bytes.iter().map(|byte| byte ^ 1).collect();
                places.insert(arrival.0, other.as_slice())?;
            }
            Loss::Listing => {
                let key = tables::timeline_key(TimelineId(row.timeline), row.order_key(arrival)?.as_bytes());
                txn.open_table(tables::TIMELINE)?.remove(key.as_slice())?;
            }
            Loss::Record => {
                txn.open_table(tables::RECORDS)?.remove(row.record)?;
            }
        }
    }
    files.finish(txn, &pin)
}

/// Writes another format's number into the data file, as a later program would.
///
/// # Errors
/// When the store cannot be opened or written.
pub fn set_format(home: &Path, format: u64) -> Result<(), StoreError> {
    let files = Files::open(home, OpenOptions::default())?;
    let (txn, pin) = files.begin_write()?;
    txn.open_table(tables::META)?.insert("format", format)?;
    files.finish(txn, &pin)
}
