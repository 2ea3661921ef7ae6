//! A disk that ends when a simulation wants it to.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use lcm_store::testing::{Disk, Fate, Step};

const INPUT_OUTPUT: i32 = 5;
const DISK_FULL: i32 = 28;

/// A disk that works until it is told how many changes it still makes.
#[derive(Debug)]
pub(crate) struct Doomed {
    /// Changes that still happen.
    left: AtomicI64,
    /// Whether it is only full: then what is there can be read.
    fills: AtomicBool,
}

impl Doomed {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { left: AtomicI64::new(i64::MAX), fills: AtomicBool::new(false) })
    }

    /// Lets it end after so many changes.
    pub(crate) fn end_after(&self, changes: usize, fills: bool) {
        self.fills.store(fills, Ordering::SeqCst);
        self.left.store(i64::try_from(changes).unwrap(), Ordering::SeqCst);
    }
}

impl Disk for Doomed {
    fn meet(&self, _file: &Path, step: Step<'_>) -> io::Result<Fate> {
        let fills = self.fills.load(Ordering::SeqCst);
        let code = if fills { DISK_FULL } else { INPUT_OUTPUT };
        let left = match step {
            Step::Locked { .. } => return Ok(Fate::Happens),
            Step::Read { .. } | Step::Sync if fills => return Ok(Fate::Happens),
            Step::Read { .. } => self.left.load(Ordering::SeqCst),
            Step::Write { .. } | Step::SetLen { .. } | Step::Sync => self.left.fetch_sub(1, Ordering::SeqCst),
        };
        match step {
            _ if left > 0 => Ok(Fate::Happens),
            // Half of the last write reaches the file.
            Step::Write { data, .. } if left == 0 && !fills && data.len() % 3 == 0 => {
                Ok(Fate::Torn { bytes: data.len() / 2, error: io::Error::from_raw_os_error(code) })
            }
            _ => Err(io::Error::from_raw_os_error(code)),
        }
    }
}
