//! The spool: what a hook left while nobody served. `docs/format.md`, *The spool*.
//!
//! A hook lives for some milliseconds under a system-call filter that kills whoever locks a file, resizes one, makes a
//! hard link or changes a mode, so it can open no store. What it was told it leaves here, one file a request, and
//! whoever opens the store takes it in.
//!
//! Invariant: a file is whole under its name, or not there; one that is torn all the same (a disk that lied, a hand) is
//! never read as whole. Everything here blocks, and makes only calls that the filter lets pass.
//!
//! Not here: what a request says, and that it is taken in once.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::BuildHasher;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;

/// The folder in the data directory.
pub const SPOOL_DIR: &str = "spool";
/// The longest request that is kept: as long as the longest line of the wire.
pub const REQUEST_BYTES_MAX: usize = 64 << 20;

/// In the spool: what is torn.
const BAD_DIR: &str = "bad";
/// What a version line begins with; a number and a line feed end it.
const MAGIC: &[u8] = b"lcm spool ";
/// The version line of what is written.
const VERSION_LINE: &[u8] = b"lcm spool 1\n";
/// Length and hash at the end of a file.
const TAIL_BYTES: usize = 8 + blake3::OUT_LEN;
/// The longest file that is read.
const FILE_BYTES_MAX: usize = VERSION_LINE.len() + REQUEST_BYTES_MAX + TAIL_BYTES;
/// Digits of the moment, filled up with zeros so that names sort: enough for three hundred thousand years.
const MOMENT_DIGITS: usize = 16;
/// A file in the making that is older was left by a crash: a hook ends within seconds.
const MAKING_MS_MAX: i64 = 60 * 60 * 1000;

/// The name of a file in the spool. Names sort as their moments do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// What a hook left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spooled {
    /// When: milliseconds since 1970 UTC, by the clock of the hook.
    pub at_ms: i64,
    /// The request, byte for byte.
    pub request: Vec<u8>,
}

/// Why a file of the spool cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// It is not there any more: somebody else took it in.
    #[error("{0} is not in the spool any more")]
    Gone(Name),
    /// It is not what was written. Nothing of it can be trusted, so it belongs aside.
    #[error("{0} in the spool is torn")]
    Torn(Name),
    /// A newer lcm wrote it; it stays for that.
    #[error("{name} in the spool has version {found}, this program reads 1")]
    TooNew {
        /// The file.
        name: Name,
        /// Its version.
        found: u64,
    },
    /// The file system says no.
    #[error("cannot read {name} in the spool")]
    Unreadable {
        /// The file.
        name: Name,
        /// What it says.
        #[source]
        source: io::Error,
    },
}

impl Name {
    /// A name that nobody else has.
    fn new(now_ms: i64) -> Self {
        let moment = now_ms.max(0);
        let pid = process::id();
        // Process numbers come again, and two containers on one directory can have one at the same moment.
        let random = RandomState::new().hash_one(pid);
        Self(format!("{moment:0MOMENT_DIGITS$}-{pid}-{random:016x}"))
    }

    /// The name that a text is, if it is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (moment, pid, random) = (parts.next()?, parts.next()?, parts.next()?);
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let is_hex = random.len() == 16 && random.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let has_moment = moment.len() >= MOMENT_DIGITS && is_number(moment) && moment.parse::<i64>().is_ok();
        (has_moment && is_number(pid) && is_hex && parts.next().is_none()).then(|| Self(text.to_owned()))
    }

    /// When it was left: milliseconds since 1970 UTC.
    #[must_use]
    pub fn at_ms(&self) -> i64 {
        self.0.split('-').next().and_then(|moment| moment.parse().ok()).expect("a name begins with a number: `parse`")
    }

    /// As it stands in the folder.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn in_the_making(&self) -> String {
        format!(".{self}")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Leaves a request; it is durable when this returns. The folder is made where there is none.
///
/// # Errors
/// As the file system says; nothing is left then. [`io::ErrorKind::InvalidInput`] for a request that is too long.
pub fn write(home: &Path, now_ms: i64, request: &[u8]) -> io::Result<Name> {
    if request.len() > REQUEST_BYTES_MAX {
        let why = format!("the request has {} bytes, the spool takes {REQUEST_BYTES_MAX}", request.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let folder = home.join(SPOOL_DIR);
    make_folder(&folder)?;
    let name = Name::new(now_ms);
    let making = folder.join(name.in_the_making());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&making)?;
    let written = file
        .write_all(&encode(request))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&making, folder.join(name.as_str())));
    if let Err(error) = written {
        // What cannot be removed either goes after an hour.
        fs::remove_file(&making).ok();
        return Err(error);
    }
    sync(&folder)?;
    Ok(name)
}

/// What there is, the oldest first. A folder that is not there is an empty one.
///
/// # Errors
/// As the file system says.
pub fn names(home: &Path) -> io::Result<Vec<Name>> {
    let mut found = listed(home, Name::parse)?;
    found.sort_unstable();
    Ok(found)
}

/// Reads what a hook left.
///
/// # Errors
/// [`SpoolError`]; the file stays where it is.
pub fn read(home: &Path, name: &Name) -> Result<Spooled, SpoolError> {
    let unreadable = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => SpoolError::Gone(name.clone()),
        _ => SpoolError::Unreadable { name: name.clone(), source },
    };
    let path = path(home, name);
    // A pipe of that name would be waited for.
    if !fs::symlink_metadata(&path).map_err(unreadable)?.is_file() {
        return Err(SpoolError::Torn(name.clone()));
    }
    let mut bytes = Vec::new();
    let bound = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    File::open(&path).and_then(|file| file.take(bound).read_to_end(&mut bytes)).map_err(unreadable)?;
    match decode(&mut bytes) {
        Ok(()) => Ok(Spooled { at_ms: name.at_ms(), request: bytes }),
        Err(Undecoded::Torn) => Err(SpoolError::Torn(name.clone())),
        Err(Undecoded::TooNew(found)) => Err(SpoolError::TooNew { name: name.clone(), found }),
    }
}

/// Moves a torn one aside, into the folder `bad` of the spool.
///
/// # Errors
/// As the file system says. That it is gone already is no error.
pub fn set_aside(home: &Path, name: &Name) -> io::Result<()> {
    let folder = home.join(SPOOL_DIR);
    let bad = folder.join(BAD_DIR);
    make_folder(&bad)?;
    match fs::rename(folder.join(name.as_str()), bad.join(name.as_str())) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    sync(&bad)?;
    sync(&folder)
}

/// Removes one that was taken in. A crash can bring it back, so it is taken in by its name, once.
///
/// # Errors
/// As the file system says. That it is gone already is no error.
pub fn remove(home: &Path, name: &Name) -> io::Result<()> {
    remove_file(&path(home, name))
}

/// Removes what crashes left in the making; gives how many.
///
/// # Errors
/// As the file system says.
pub fn sweep(home: &Path, now_ms: i64) -> io::Result<usize> {
    let left = listed(home, |text| Name::parse(text.strip_prefix('.')?))?;
    let old: Vec<Name> = left.into_iter().filter(|name| now_ms.saturating_sub(name.at_ms()) > MAKING_MS_MAX).collect();
    for name in &old {
        remove_file(&home.join(SPOOL_DIR).join(name.in_the_making()))?;
    }
    Ok(old.len())
}

fn path(home: &Path, name: &Name) -> PathBuf {
    home.join(SPOOL_DIR).join(name.as_str())
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The names in the spool that are wanted, in no order.
fn listed(home: &Path, wanted: impl Fn(&str) -> Option<Name>) -> io::Result<Vec<Name>> {
    let entries = match fs::read_dir(home.join(SPOOL_DIR)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(entry?.file_name().to_str().and_then(&wanted));
    }
    Ok(found)
}

/// Makes a folder and those above it that are missing, for their owner alone; durable when this returns.
fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    if let Some(above) = above {
        make_folder(above)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        // Another hook was as quick.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        made => made?,
    }
    sync(above.unwrap_or(Path::new(".")))
}

/// Makes what was done to the names in a folder durable.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn encode(request: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(VERSION_LINE.len() + request.len() + TAIL_BYTES);
    bytes.extend_from_slice(VERSION_LINE);
    bytes.extend_from_slice(request);
    bytes.extend_from_slice(&length(request.len()));
    let hash = blake3::hash(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    bytes
}

/// A length as it stands in a file.
fn length(bytes: usize) -> [u8; 8] {
    u64::try_from(bytes).unwrap_or(u64::MAX).to_le_bytes()
}

enum Undecoded {
    Torn,
    TooNew(u64),
}

/// Leaves the request of a file.
fn decode(bytes: &mut Vec<u8>) -> Result<(), Undecoded> {
    if let Some(version) = version(bytes)
        && version != 1
    {
        return Err(Undecoded::TooNew(version));
    }
    let rest = bytes.strip_prefix(VERSION_LINE).ok_or(Undecoded::Torn)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Undecoded::Torn);
    }
    let end = rest.len().checked_sub(TAIL_BYTES).ok_or(Undecoded::Torn)?;
    let (before, hash) = bytes.split_at(bytes.len() - blake3::OUT_LEN);
    let is_whole = rest[end..end + 8] == length(end) && blake3::hash(before).as_bytes() == hash;
    if !is_whole {
        return Err(Undecoded::Torn);
    }
    bytes.truncate(VERSION_LINE.len() + end);
    bytes.drain(..VERSION_LINE.len());
    Ok(())
}

/// The version that a whole version line names.
fn version(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let digits = str::from_utf8(&rest[..end]).ok()?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::thread;

    use proptest::prelude::*;
    use tempfile::tempdir;

    use super::*;

    const NOW_MS: i64 = 1_772_712_000_000;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_is_left_is_read_in_the_order_in_which_it_was_left() {
        let home = tempdir().unwrap();
        assert_eq!(names(home.path()).unwrap(), []);
        let moments = [NOW_MS + 10, NOW_MS, 10 * NOW_MS, NOW_MS + 9];
        for at_ms in moments {
            write(home.path(), at_ms, format!("{{\"at\":{at_ms}}}").as_bytes()).unwrap();
        }
        let found = names(home.path()).unwrap();
        let read: Vec<Spooled> = found.iter().map(|name| read(home.path(), name).unwrap()).collect();
        let mut sorted = moments;
        sorted.sort_unstable();
        assert_eq!(read.iter().map(|spooled| spooled.at_ms).collect::<Vec<_>>(), sorted);
        for spooled in read {
            assert_eq!(spooled.request, format!("{{\"at\":{}}}", spooled.at_ms).into_bytes());
        }
        for name in &found {
            remove(home.path(), name).unwrap();
            remove(home.path(), name).unwrap();
            assert!(matches!(super::read(home.path(), name), Err(SpoolError::Gone(gone)) if gone == *name));
        }
        assert_eq!(names(home.path()).unwrap(), []);
    }

    #[test]
    fn a_file_is_its_owners_alone_and_so_are_the_folders_that_are_made() {
        let above = tempdir().unwrap();
        let home = above.path().join("a").join("lcm");
        let name = write(&home, NOW_MS, b"{}").unwrap();
        assert_eq!(mode(&path(&home, &name)), 0o600);
        set_aside(&home, &name).unwrap();
        for folder in [&home, &home.join("spool"), &home.join("spool/bad"), &above.path().join("a")] {
            assert_eq!(mode(folder), 0o700, "{}", folder.display());
        }
    }

    #[test]
    fn a_file_cut_at_any_byte_is_torn_and_so_is_one_with_anything_changed_or_added() {
        let home = tempdir().unwrap();
        let name = write(home.path(), NOW_MS, br#"{"type":"after_turn"}"#).unwrap();
        let path = path(home.path(), &name);
        let whole = fs::read(&path).unwrap();
        let is_torn = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            matches!(read(home.path(), &name), Err(SpoolError::Torn(_)))
        };
        for cut in 0..whole.len() {
            assert!(is_torn(&whole[..cut]), "cut at byte {cut}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            // One byte of a version line away stands another version: that is refused too.
            fs::write(&path, &changed).unwrap();
            let told = read(home.path(), &name);
            assert!(matches!(told, Err(SpoolError::Torn(_) | SpoolError::TooNew { .. })), "byte {at}: {told:?}");
        }
        assert!(is_torn(&[&whole[..], b"x"].concat()) && is_torn(&[&whole[..], &whole[..]].concat()));
        assert!(!is_torn(&whole));
    }

    #[test]
    fn one_of_a_newer_program_is_named_and_stays() {
        let home = tempdir().unwrap();
        let name = write(home.path(), NOW_MS, b"{}").unwrap();
        fs::write(path(home.path(), &name), b"lcm spool 12\nwhatever comes then").unwrap();
        assert!(matches!(read(home.path(), &name), Err(SpoolError::TooNew { found: 12, .. })));
        assert_eq!(names(home.path()).unwrap(), [name]);
    }

    #[test]
    fn many_writers_at_once_leave_all_they_have() {
        let home = tempdir().unwrap();
        // Before there is a folder, so that they make it at once too.
        let home = home.path().join("lcm");
        thread::scope(|scope| {
            for writer in 0..4 {
                let home = &home;
                scope.spawn(move || {
                    for n in 0..50 {
                        write(home, NOW_MS, format!("{writer} {n}").as_bytes()).unwrap();
                    }
                });
            }
        });
        let found = names(&home).unwrap();
        let mut told: Vec<Vec<u8>> = found.iter().map(|name| read(&home, name).unwrap().request).collect();
        told.sort();
        told.dedup();
        assert_eq!((found.len(), told.len()), (200, 200));
    }

    #[test]
    fn what_is_torn_is_set_aside_and_what_is_nobodys_is_passed_over() {
        let home = tempdir().unwrap();
        let name = write(home.path(), NOW_MS, b"{}").unwrap();
        let folder = home.path().join(SPOOL_DIR);
        fs::write(folder.join("notes.txt"), "mine").unwrap();
        fs::write(folder.join("0001772712000000-1-0123456789ABCDEF"), "").unwrap();
        set_aside(home.path(), &name).unwrap();
        set_aside(home.path(), &name).unwrap();
        assert_eq!(names(home.path()).unwrap(), []);
        assert!(folder.join("bad").join(name.as_str()).is_file());
        // What is no file is not waited for, and not followed.
        symlink("notes.txt", path(home.path(), &name)).unwrap();
        assert!(matches!(read(home.path(), &name), Err(SpoolError::Torn(_))));
    }

    #[test]
    fn what_a_crash_left_in_the_making_goes_after_an_hour() {
        let home = tempdir().unwrap();
        assert_eq!(sweep(home.path(), NOW_MS).unwrap(), 0);
        let left = write(home.path(), NOW_MS, b"{}").unwrap();
        let (old, new) = (Name::new(NOW_MS - MAKING_MS_MAX - 1), Name::new(NOW_MS - MAKING_MS_MAX));
        for name in [&old, &new] {
            fs::write(home.path().join(SPOOL_DIR).join(name.in_the_making()), "half").unwrap();
        }
        assert_eq!(sweep(home.path(), NOW_MS).unwrap(), 1);
        assert!(home.path().join(SPOOL_DIR).join(new.in_the_making()).exists());
        assert_eq!(names(home.path()).unwrap(), [left]);
    }

    #[test]
    fn a_request_that_is_too_long_is_refused_before_anything_is_written() {
        let home = tempdir().unwrap();
        let error = write(home.path(), NOW_MS, &vec![b' '; REQUEST_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(!home.path().join(SPOOL_DIR).exists());
    }

    proptest! {
        #[test]
        fn any_request_comes_back(request in prop::collection::vec(any::<u8>(), 0..500)) {
            let mut bytes = encode(&request);
            prop_assert!(decode(&mut bytes).is_ok());
            prop_assert_eq!(bytes, request);
        }

        #[test]
        fn no_bytes_are_a_request_by_chance(mut bytes in prop::collection::vec(any::<u8>(), 0..500)) {
            prop_assert!(decode(&mut bytes).is_err());
        }
    }
}
