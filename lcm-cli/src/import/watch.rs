//! Which files have grown: what `import --watch` looks at, time and again.
//!
//! Files are looked at, not listened for: a look costs a call of the system for each, works on every file system, and
//! misses nothing that happened while nobody looked. A file that is being written is read when its last line has an
//! end, or when it has waited long enough.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Endings of the files that are followed in a folder.
const ENDINGS: [&str; 2] = ["jsonl", "ndjson"];
/// Folders within folders; links to folders are not followed.
const DEPTH_MAX: usize = 16;
/// Files that are followed. More are a folder that nobody meant.
const FILES_MAX: usize = 200_000;
/// Looks at a file whose last line has no end before it is read all the same.
const HALF_LINES_MAX: u32 = 3;
/// A file is not read again before so many times as long as that took have gone by: long files that grow all the time
/// would keep a processor busy.
const REST_TIMES: u32 = 10;

/// What is followed.
pub(crate) struct Watched {
    paths: Vec<PathBuf>,
    files: HashMap<PathBuf, File>,
}

/// A file that is followed.
#[derive(Default)]
struct File {
    /// As it was when it was read last; `None` for never.
    read: Option<State>,
    /// Looks that found half a line at its end.
    half_lines: u32,
    /// Not read again before then.
    rests_until: Option<SystemTime>,
}

/// By what a file is known to be as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    bytes: u64,
    modified: Option<SystemTime>,
    /// The same of what a database writes first.
    log: (u64, Option<SystemTime>),
}

/// What a look found.
#[derive(Default)]
pub(crate) struct Found {
    /// Files that are new or have changed, in order.
    pub(crate) changed: Vec<PathBuf>,
    /// What cannot be looked at, and why.
    pub(crate) unread: Vec<(PathBuf, io::Error)>,
}

impl Watched {
    /// Follows files, and folders with all that is in them and comes into them.
    pub(crate) fn new(paths: Vec<PathBuf>) -> Self {
        Self { paths, files: HashMap::new() }
    }

    /// Looks at everything once.
    pub(crate) fn look(&mut self, now: SystemTime) -> Found {
        let mut found = Found::default();
        let mut there: BTreeMap<PathBuf, State> = BTreeMap::new();
        for path in &self.paths {
            match fs::metadata(path) {
                Ok(metadata) if metadata.is_dir() => inside(path, 0, &mut there, &mut found.unread),
                Ok(metadata) => drop(there.insert(path.clone(), State::of(path, &metadata))),
                Err(error) => found.unread.push((path.clone(), error)),
            }
        }
        for (path, state) in there {
            let file = self.files.entry(path.clone()).or_default();
            if file.read == Some(state) || file.rests_until.is_some_and(|until| now < until) {
                continue;
            }
            if file.half_lines < HALF_LINES_MAX && ends_in_half_a_line(&path).unwrap_or(false) {
                file.half_lines += 1;
                continue;
            }
            (file.read, file.half_lines) = (Some(state), 0);
            found.changed.push(path);
        }
        found
    }

    /// Has a file read again that could not be taken.
    pub(crate) fn forget(&mut self, path: &Path) {
        if let Some(file) = self.files.get_mut(path) {
            file.read = None;
        }
    }

    /// Lets a file rest that took so long to read.
    pub(crate) fn rest(&mut self, path: &Path, now: SystemTime, took: Duration) {
        if let Some(file) = self.files.get_mut(path) {
            file.rests_until = now.checked_add(took.saturating_mul(REST_TIMES));
        }
    }
}

impl State {
    fn of(path: &Path, metadata: &fs::Metadata) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = match path.extension().is_some_and(|ending| ending == "db") {
            true => fs::metadata(log).map_or((0, None), |log| (log.len(), log.modified().ok())),
            false => (0, None),
        };
        Self { bytes: metadata.len(), modified: metadata.modified().ok(), log }
    }
}

/// The files in a folder and the folders in it.
fn inside(folder: &Path, depth: usize, there: &mut BTreeMap<PathBuf, State>, unread: &mut Vec<(PathBuf, io::Error)>) {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return unread.push((folder.to_owned(), error)),
    };
    for entry in entries.flatten() {
        if there.len() >= FILES_MAX {
            return;
        }
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() {
            if depth < DEPTH_MAX {
                inside(&path, depth + 1, there, unread);
            }
            continue;
        }
        let is_wanted =
            path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| ENDINGS.contains(&ending));
        // A link may lead to a file; what is gone meanwhile is not there.
        let metadata = fs::metadata(&path).ok().filter(|metadata| is_wanted && metadata.is_file());
        if let Some(metadata) = metadata {
            there.insert(path.clone(), State::of(&path, &metadata));
        }
    }
}

fn ends_in_half_a_line(path: &Path) -> io::Result<bool> {
    if !path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| ENDINGS.contains(&ending)) {
        return Ok(false);
    }
    let mut file = fs::File::open(path)?;
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_when_it_has_changed_and_its_last_line_has_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        fs::create_dir_all(&deep).unwrap();
        fs::write(folder.path().join("notes.txt"), "x\n").unwrap();
        let file = deep.join("one.jsonl");
        fs::write(&file, "1\n").unwrap();
        let mut watched = Watched::new(vec![folder.path().to_owned(), folder.path().join("later")]);
        let now = SystemTime::now();
        let found = watched.look(now);
        assert_eq!((found.changed, found.unread.len()), (vec![file.clone()], 1));
        assert!(watched.look(now).changed.is_empty());
        fs::write(&file, "1\n2").unwrap();
        for _ in 0..HALF_LINES_MAX {
            assert!(watched.look(now).changed.is_empty());
        }
        assert_eq!(watched.look(now).changed, std::slice::from_ref(&file));
        fs::write(&file, "1\n2\n3\n").unwrap();
        watched.rest(&file, now, Duration::from_secs(1));
        assert!(watched.look(now).changed.is_empty());
        assert_eq!(watched.look(now + Duration::from_secs(11)).changed, [file]);
    }
}
