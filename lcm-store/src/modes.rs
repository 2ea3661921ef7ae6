//! Modes: a store is its owner's alone, its directories 0700 and its files 0600.
//!
//! Everything is made so (`open`, `index`). A copy, an unpacked backup or a hand may open it to others: whoever opens
//! the store to write closes it again, and the check tells of it until then. Who does not own it can change nothing.

use std::fs::{self, Metadata};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::format::{CURRENT, INDEX_DIR, INDEX_LOCK, is_data_file};
use crate::spool::SPOOL_DIR;

/// What others than the owner may do with a file.
const OTHERS: u32 = 0o077;

/// A directory or file of a store, and its mode, which lets others than its owner in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ajar {
    pub(crate) path: PathBuf,
    pub(crate) mode: u32,
}

/// What of the store in `home` is open to others, sorted. What lies beside it is not ours to judge, and what cannot be
/// looked at is not told.
pub(crate) fn open_to_others(home: &Path) -> Vec<Ajar> {
    let mut found = Vec::new();
    // The directory itself may be reached through a link.
    if let Ok(metadata) = fs::metadata(home) {
        look(home, &metadata, &mut found);
    }
    let is_ours = |name: &str| [CURRENT, INDEX_DIR, INDEX_LOCK, SPOOL_DIR].contains(&name) || is_data_file(name);
    walk(home, &mut found, &is_ours);
    found.sort();
    found
}

/// Takes from others what the store gives them, as far as its files are ours.
pub(crate) fn close_to_others(home: &Path) {
    for Ajar { path, mode } in open_to_others(home) {
        match fs::set_permissions(&path, fs::Permissions::from_mode(mode & !OTHERS)) {
            Ok(()) => tracing::info!(path = %path.display(), "it was open to others"),
            Err(error) => tracing::debug!(%error, path = %path.display(), "it stays open to others"),
        }
    }
}

fn look(path: &Path, metadata: &Metadata, found: &mut Vec<Ajar>) {
    let mode = metadata.permissions().mode() & 0o777;
    if mode & OTHERS != 0 {
        found.push(Ajar { path: path.to_owned(), mode });
    }
}

fn walk(directory: &Path, found: &mut Vec<Ajar>, is_ours: &dyn Fn(&str) -> bool) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        // A link leads to what somebody else may have chosen.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_symlink() || !entry.file_name().to_str().is_some_and(is_ours) {
            continue;
        }
        look(&entry.path(), &metadata, found);
        if metadata.is_dir() {
            walk(&entry.path(), found, &|_| true);
        }
    }
}
