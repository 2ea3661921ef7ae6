//! Writing a file that appears when it is whole.
//!
//! What is written goes to a file beside the target, `.NAME.lcm-part`, which only its owner can read, and gets its
//! name by a rename: a failure leaves what was there before. The part is locked while it is written. What a program
//! left that was killed is not, and the next one that writes this target makes it anew; so nothing piles up.
//!
//! A link stays a link: the part stands beside what it leads to. And what is no regular file, a pipe or a device, is
//! written straight, because a rename would put a file in its place.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::error::CliError;

/// Links to links that are followed; the kernel follows as many.
const LINKS_MAX: usize = 40;
/// Bytes of a name that its part is called after: with what stands around them, no file system has too little room.
const NAME_BYTES_MAX: usize = 200;
/// How often another program may come between before we give up.
const TRIES_MAX: usize = 100;

/// What becomes of a file that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    Kept,
    Replaced,
}

/// A file on its way.
pub(crate) struct Target {
    /// As the user names it.
    named: PathBuf,
    to: To,
}

enum To {
    /// A pipe or a device.
    Straight(File),
    /// A file beside its last place. Removed when dropped, and only then unlocked: fields are dropped in this order.
    Part { part: TempPath, file: File, last: PathBuf, existing: Existing },
}

impl Target {
    /// Opens a file for writing.
    pub(crate) fn new(path: &Path, existing: Existing) -> Result<Self, CliError> {
        let fail = |source| CliError::File { what: "write", path: path.to_owned(), source };
        let named = path.to_owned();
        let there = fs::metadata(path).ok();
        if there.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(CliError::usage(format!("{} is a directory", path.display()), "name a file in it"));
        }
        if existing == Existing::Kept && fs::symlink_metadata(path).is_ok() {
            return Err(is_there(path));
        }
        if there.is_some_and(|there| !there.is_file()) {
            let file = File::options().write(true).open(path).map_err(fail)?;
            return Ok(Self { named, to: To::Straight(file) });
        }
        let last = followed(path).map_err(fail)?;
        let folder = folder_of(&last);
        match fs::metadata(folder) {
            Ok(metadata) if metadata.is_dir() => {}
            Err(source) if source.kind() != ErrorKind::NotFound => {
                return Err(CliError::File { what: "look into", path: folder.to_owned(), source });
            }
            _ => {
                let what = format!("there is no folder {}", folder.display());
                return Err(CliError::usage(what, "make it, or name a file in another one"));
            }
        }
        let (part, file) = make_part(&last)?;
        file.set_permissions(fs::Permissions::from_mode(0o600)).map_err(fail)?;
        Ok(Self { named, to: To::Part { part, file, last, existing } })
    }

    /// Where to write.
    pub(crate) fn file(&self) -> &File {
        match &self.to {
            To::Straight(file) | To::Part { file, .. } => file,
        }
    }

    /// Shows what was written under its name.
    pub(crate) fn finish(self) -> Result<(), CliError> {
        let Self { named, to } = self;
        // A pipe or a device takes what it gets; there is nothing to make durable.
        let To::Part { part, file, last, existing } = to else { return Ok(()) };
        let fail = |source| CliError::File { what: "write", path: named.clone(), source };
        file.sync_all().map_err(fail)?;
        let shown = match existing {
            Existing::Replaced => part.persist(&last),
            Existing::Kept => part.persist_noclobber(&last),
        };
        shown.map_err(|error| match error.error.kind() {
            ErrorKind::AlreadyExists => is_there(&named),
            _ => fail(error.error),
        })
    }
}

fn is_there(path: &Path) -> CliError {
    let what = format!("{} is there already", path.display());
    CliError::usage(what, "name another file, or replace it with --force")
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where a path leads, also when nothing is there yet.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(to) => path = folder_of(&path).join(to),
            // Not a link, or nothing at all.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => return Ok(path),
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("it is a link to a link, and so on without an end"))
}

/// Makes the part of a file, and locks it.
///
/// Another user may have put something under that name, so nothing that is there is ever written to: it is removed,
/// once nobody has it locked, and made anew.
fn make_part(last: &Path) -> Result<(TempPath, File), CliError> {
    let name = part_name(last.file_name().unwrap_or_else(|| OsStr::new("file")));
    let path = folder_of(last).join(name);
    let fail = |source| CliError::File { what: "write", path: folder_of(last).to_owned(), source };
    for _ in 0..TRIES_MAX {
        match File::options().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                // Until it is locked, another program may take it for a left one and make its own.
                if is_locked(&file).map_err(fail)? && is_at(&file, &path) {
                    return Ok((TempPath::try_from_path(path).map_err(fail)?, file));
                }
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => remove_left(&path, last)?,
            Err(error) => return Err(fail(error)),
        }
    }
    Err(is_busy(last))
}

/// Removes a part that nobody writes any more.
fn remove_left(path: &Path, last: &Path) -> Result<(), CliError> {
    let fail = |source| CliError::File { what: "take over", path: path.to_owned(), source };
    let gone = |error: &io::Error| error.kind() == ErrorKind::NotFound;
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() => {}
        Ok(_) => return Err(CliError::usage(format!("{} is in the way", path.display()), "remove it")),
        Err(error) if gone(&error) => return Ok(()),
        Err(error) => return Err(fail(error)),
    }
    let left = match File::open(path) {
        Err(error) if gone(&error) => return Ok(()),
        opened => opened.map_err(fail)?,
    };
    if !is_locked(&left).map_err(fail)? {
        return Err(is_busy(last));
    }
    if is_at(&left, path) { fs::remove_file(path).map_err(fail) } else { Ok(()) }
}

fn part_name(name: &OsStr) -> OsString {
    let bytes = name.as_bytes();
    let mut part = OsString::from(".");
    part.push(OsStr::from_bytes(&bytes[..bytes.len().min(NAME_BYTES_MAX)]));
    part.push(".lcm-part");
    part
}

/// Locks a file, if nobody has.
fn is_locked(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        // Some file systems have no locks; then nobody else has one either.
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(true),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether this is the file of that name.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => identity(ours) == identity(there),
        _ => false,
    }
}

fn is_busy(last: &Path) -> CliError {
    let what = format!("another program is writing {}", last.display());
    CliError::usage(what, "wait until it is done, or name another file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_named_after_their_file_however_long_that_is() {
        assert_eq!(part_name(OsStr::new("all.jsonl")), ".all.jsonl.lcm-part");
        assert!(part_name(OsStr::new(&"x".repeat(255))).len() <= 255);
    }
}
