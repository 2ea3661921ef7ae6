//! Opening what people have: files, packed or not, standard input, a database of another program.
//!
//! Everything that is not text is dealt with here; what the text means is the decoders' affair. A source is named by
//! its path in all that is said about it.

mod gzip;
mod sqlite;
pub(crate) mod watch;

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lcm_engine::hosts::{self, DecodeError, DecodeOptions, Decoded, Format, Incoming, SQLITE_MAGIC, Sink};

use crate::error::{self, CliError};
use crate::ui::Ui;

pub(crate) use sqlite::ReadError;

/// Where messages come from.
pub(crate) enum Source {
    Stdin(Option<Box<dyn Read + Send>>),
    File(PathBuf),
}

/// Why nothing of a source could be taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// What stands in it cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A database that cannot be read.
    #[error(transparent)]
    Database(#[from] ReadError),
    /// The file cannot be opened.
    #[error("it cannot be opened")]
    Open(#[source] io::Error),
    /// A packed database.
    #[error("it is a packed database")]
    PackedDatabase,
    /// A database on standard input.
    #[error("a database cannot be read from standard input")]
    DatabaseOnStdin,
}

impl SourceError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Decode(DecodeError::Unknown) => {
                Some("--as names the format: openai, claude-code, codex, hermes or lcm; see `lcm-cli import --help`")
            }
            Self::Decode(DecodeError::TooLarge) => Some("write it as JSON lines, a message a line"),
            Self::Decode(DecodeError::IsDatabase) | Self::DatabaseOnStdin => Some("name the file itself"),
            Self::PackedDatabase => Some("unpack it first"),
            Self::Database(error) => error.hint(),
            _ => None,
        }
    }
}

impl Source {
    /// A file, or standard input for `-`. What is no file is refused before anything is read.
    pub(crate) fn new(path: &Path, stdin: &mut Option<Box<dyn Read + Send>>) -> Result<Self, CliError> {
        if path == Path::new("-") {
            return match stdin.take() {
                Some(stdin) => Ok(Self::Stdin(Some(stdin))),
                None => Err(CliError::usage("- can be named once only", "name each file once")),
            };
        }
        let fail = |source| CliError::File { what: "read", path: path.to_owned(), source };
        let file = File::open(path).map_err(fail)?;
        if file.metadata().map_err(fail)?.is_dir() {
            let what = format!("{} is a directory", path.display());
            return Err(CliError::usage(what, "name the files in it, for example with DIR/*.jsonl"));
        }
        Ok(Self::File(path.to_owned()))
    }

    /// What it is called in all that is said about it.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Stdin(_) => "standard input".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// What to call a session that has no name of its own: the file's name without its endings.
    pub(crate) fn session_name(&self) -> String {
        let Self::File(path) = self else { return "stdin".to_owned() };
        let name = file_name(path);
        let mut stem = name.as_str();
        for ending in [".gz", ".json", ".jsonl", ".ndjson", ".sessions"] {
            stem = stem.strip_suffix(ending).filter(|stem| !stem.is_empty()).unwrap_or(stem);
        }
        stem.to_owned()
    }

    /// What to say of where messages are from that do not say it themselves.
    pub(crate) fn source_name(&self) -> String {
        match self {
            Self::Stdin(_) => "stdin".to_owned(),
            Self::File(path) => file_name(path),
        }
    }

    /// Bytes on the disk; 0 where nobody knows.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Stdin(_) => 0,
            Self::File(path) => path.metadata().map_or(0, |metadata| metadata.len()),
        }
    }

    /// Decodes all of it. `read` counts the bytes that were taken from the disk.
    pub(crate) fn decode(
        &mut self,
        format: Option<Format>,
        read: &Arc<AtomicU64>,
        sink: &mut Sink<'_>,
    ) -> Result<(), SourceError> {
        let options = DecodeOptions { format, name: self.session_name(), source: self.source_name() };
        match self {
            Self::Stdin(stdin) => {
                let Some(stdin) = stdin.take() else { return Err(DecodeError::Empty.into()) };
                decode_stream(BufReader::new(Counted { inner: stdin, read: read.clone() }), &options, sink, || {
                    SourceError::DatabaseOnStdin
                })
            }
            Self::File(path) => {
                let mut file = File::open(&*path).map_err(SourceError::Open)?;
                let mut magic = [0; SQLITE_MAGIC.len()];
                let is_database = format == Some(Format::Hermes)
                    || read_magic(&mut file, &mut magic).map_err(DecodeError::Read)? && magic == SQLITE_MAGIC;
                if is_database {
                    sqlite::decode(path, sink)?;
                    read.fetch_add(file.metadata().map_or(0, |metadata| metadata.len()), Ordering::Relaxed);
                    return Ok(());
                }
                file.seek(SeekFrom::Start(0)).map_err(DecodeError::Read)?;
                let file = BufReader::with_capacity(256 << 10, Counted { inner: file, read: read.clone() });
                decode_stream(file, &options, sink, || SourceError::PackedDatabase)
            }
        }
    }
}

/// What is in a source.
pub(crate) struct Lists {
    pub(crate) lists: Vec<Incoming>,
    /// Elements that could not be taken.
    pub(crate) lost: u64,
}

/// Faults of a source that are listed; all are counted.
const FAULTS_SHOWN: usize = 20;

/// Decodes all of a source at once and says what is wrong with it.
pub(crate) fn sessions_in(source: &mut Source, format: Option<Format>, ui: &mut Ui) -> Result<Lists, CliError> {
    let shown = source.shown();
    let (mut lists, mut faults, mut lost) = (Vec::new(), Vec::new(), 0);
    let decoded = source.decode(format, &Arc::default(), &mut |decoded| {
        match decoded {
            Decoded::Session(incoming) => lists.push(incoming),
            Decoded::Fault(fault) => {
                lost += u64::from(!fault.is_kept);
                faults.push(fault);
            }
            Decoded::Passed { .. } => {}
        }
        Ok(())
    });
    for fault in faults.iter().take(FAULTS_SHOWN) {
        ui.note(format_args!("{shown}: {fault}"));
    }
    match decoded {
        // Nothing in it is nothing wrong; whoever asked says so.
        Ok(()) | Err(SourceError::Decode(DecodeError::Empty) | SourceError::Database(ReadError::Empty)) => {
            Ok(Lists { lists, lost })
        }
        Err(error) => {
            let what = format!("{shown}: {}", error::chain(&error));
            Err(CliError::Usage { what, hint: error.hint().map(str::to_owned) })
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| "file".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Whether the file has that many bytes.
fn read_magic(file: &mut File, magic: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(magic) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Decodes a stream, unpacked where it is packed.
fn decode_stream(
    mut input: impl io::BufRead,
    options: &DecodeOptions,
    sink: &mut Sink<'_>,
    is_database: impl FnOnce() -> SourceError,
) -> Result<(), SourceError> {
    let begin = input.fill_buf().map_err(DecodeError::Read)?;
    let decoded = if begin.starts_with(&gzip::MAGIC) {
        hosts::decode(&mut gzip::Unpacker::new(input), options, sink)
    } else {
        hosts::decode(&mut input, options, sink)
    };
    match decoded {
        Err(DecodeError::IsDatabase) => Err(is_database()),
        decoded => Ok(decoded?),
    }
}

/// A reader that counts.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(room)?;
        self.read.fetch_add(u64::try_from(read).unwrap_or(0), Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_called_after_files_without_their_endings() {
        for (path, name) in [
            ("a/notes.json", "notes"),
            ("tau.sessions.jsonl.gz", "tau"),
            (".jsonl", ".jsonl"),
            ("messages.windows.jsonl", "messages.windows"),
            ("x", "x"),
        ] {
            assert_eq!(Source::File(PathBuf::from(path)).session_name(), name, "{path}");
        }
    }
}
