//! Disks that fail when a test wants it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lcm_store::testing::{Disk, Fate, Step};
use lcm_tests::random::Random;

const DISK_FULL: i32 = 28;
const INPUT_OUTPUT: i32 = 5;

/// How a disk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Nothing happens any more: the process is dead, and does not know.
    Dies,
    /// The same, and half of the last write reached the file.
    Tears,
    /// It is full: nothing can be written, everything can be read.
    Fills,
}

/// A disk that ends after so many changes of the file.
#[derive(Debug)]
pub(crate) struct Ending {
    end: End,
    after: u64,
    changes: AtomicU64,
}

impl Ending {
    pub(crate) fn new(end: End, after: u64) -> Arc<Self> {
        Arc::new(Self { end, after, changes: AtomicU64::new(0) })
    }

    /// How many changes were tried.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Whether it has come to its end.
    pub(crate) fn has_ended(&self) -> bool {
        self.changes() > self.after
    }
}

impl Disk for Ending {
    fn meet(&self, _file: &Path, step: Step<'_>) -> io::Result<Fate> {
        let failed = || {
            let error = if self.end == End::Fills { DISK_FULL } else { INPUT_OUTPUT };
            io::Error::from_raw_os_error(error)
        };
        let changes = match step {
            Step::Locked { .. } => return Ok(Fate::Happens),
            Step::Read { .. } if self.end != End::Fills && self.has_ended() => return Err(failed()),
            Step::Read { .. } => return Ok(Fate::Happens),
            Step::Sync if self.end == End::Fills => return Ok(Fate::Happens),
            Step::Write { .. } | Step::SetLen { .. } | Step::Sync => self.changes.fetch_add(1, Ordering::SeqCst),
        };
        match step {
            _ if changes < self.after => Ok(Fate::Happens),
            Step::Write { data, .. } if changes == self.after && self.end == End::Tears => {
                Ok(Fate::Torn { bytes: data.len() / 2, error: failed() })
            }
            _ => Err(failed()),
        }
    }
}

/// What the disk has been told and not yet synced, of one file.
#[derive(Debug, Default)]
struct Unsynced {
    /// What lay there before, and what was put there.
    changes: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write { offset: u64, before: Vec<u8>, after: Vec<u8> },
    SetLen { from: u64, to: u64, cut: Vec<u8> },
}

/// A disk whose power fails: it ends like [`End::Dies`], and then of all that was not synced any part may be there.
#[derive(Debug)]
pub(crate) struct Powered {
    ending: Arc<Ending>,
    files: Mutex<BTreeMap<PathBuf, Unsynced>>,
}

impl Powered {
    pub(crate) fn new(after: u64) -> Arc<Self> {
        Arc::new(Self { ending: Ending::new(End::Dies, after), files: Mutex::default() })
    }

    /// Makes of the files what the disk may have kept: each sector that was not synced is as before or as after.
    pub(crate) fn fail(&self, home: &Path, random: &mut Random) {
        for (path, unsynced) in self.files.lock().unwrap().iter() {
            // The first data file is made under another name.
            let path = if path.exists() { path.clone() } else { home.join("store.1.redb") };
            let Ok(file) = File::options().read(true).write(true).open(&path) else { continue };
            for change in unsynced.changes.iter().rev() {
                change.undo(&file);
            }
            for change in &unsynced.changes {
                change.redo_in_part(&file, random);
            }
        }
    }
}

impl Change {
    fn undo(&self, file: &File) {
        match self {
            Self::Write { offset, before, .. } => file.write_all_at(before, *offset).unwrap(),
            Self::SetLen { from, to, cut } => {
                file.set_len(*from).unwrap();
                file.write_all_at(cut, *to).unwrap();
            }
        }
    }

    fn redo_in_part(&self, file: &File, random: &mut Random) {
        const SECTOR: usize = 512;
        match self {
            Self::Write { offset, after, .. } => {
                let len = file.metadata().unwrap().len();
                for (n, sector) in after.chunks(SECTOR).enumerate() {
                    let at = offset + u64::try_from(n * SECTOR).unwrap();
                    // A file that did not grow has nothing beyond its end.
                    if random.percent(50) && at + u64::try_from(sector.len()).unwrap() <= len {
                        file.write_all_at(sector, at).unwrap();
                    }
                }
            }
            Self::SetLen { to, .. } => {
                if random.percent(50) {
                    file.set_len(*to).unwrap();
                }
            }
        }
    }
}

fn read_at(path: &Path, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let read = File::open(path).and_then(|file| {
        let there = usize::try_from(file.metadata()?.len().saturating_sub(offset)).unwrap().min(len);
        file.read_exact_at(&mut bytes[..there], offset)
    });
    read.unwrap();
    bytes
}

impl Disk for Powered {
    fn meet(&self, file: &Path, step: Step<'_>) -> io::Result<Fate> {
        let fate = self.ending.meet(file, step)?;
        // A hard link gives the file another name after it was opened.
        let name = if file.exists() { file.to_owned() } else { file.with_file_name("store.1.redb") };
        let mut files = self.files.lock().unwrap();
        let unsynced = files.entry(file.to_owned()).or_default();
        match step {
            Step::Sync => unsynced.changes.clear(),
            Step::Write { offset, data } => {
                let before = read_at(&name, offset, data.len());
                unsynced.changes.push(Change::Write { offset, before, after: data.to_vec() });
            }
            Step::SetLen { from, to } => {
                let cut = read_at(&name, to, usize::try_from(from.saturating_sub(to)).unwrap());
                unsynced.changes.push(Change::SetLen { from, to, cut });
            }
            Step::Read { .. } | Step::Locked { .. } => {}
        }
        Ok(fate)
    }
}

/// The names of the data files in a store's directory.
pub(crate) fn data_files(home: &Path) -> Vec<String> {
    let names = fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("store.")).collect();
    names.sort();
    names
}
