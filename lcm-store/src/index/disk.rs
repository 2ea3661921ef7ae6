//! The directory tantivy works in: private files, plain reads, and no wait for a lock.
//!
//! Plain reads instead of mapped files: whoever cuts a file under a mapping ends the process that looks at it,
//! and an index may be cut at any moment. What a search needs of a file is read once and kept by its reader.
//!
//! Only catching up takes a lock, and never waits for it. Readers need none: a segment that is collected while it
//! is being opened is a segment that is not there, and the caller opens the newer index instead.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tantivy::HasLen;
use tantivy::directory::error::{DeleteError, LockError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    AntiCallToken, Directory, DirectoryLock, FileHandle, Lock, OwnedBytes, TerminatingWrite, WatchCallback,
    WatchHandle, WritePtr,
};

/// Files up to this size are read whole when they are opened: one call instead of ten.
const WHOLE_BYTES_MAX: usize = 64 << 10;

/// Makes a directory that only its owner may look into, unless it is there.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a file that only its owner may read, making it where it is missing.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Replaces a file as a whole.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{number}", std::process::id()));
    let temporary = path.with_file_name(name);
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        fs::rename(&temporary, path)
    };
    let written = write();
    if written.is_err()
        && let Err(error) = fs::remove_file(&temporary)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "cannot remove {}", temporary.display());
    }
    written
}

/// A directory as tantivy sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Disk(Arc<PathBuf>);

impl Disk {
    pub(crate) fn new(path: &Path) -> Self {
        Self(Arc::new(path.to_owned()))
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.0.join(path)
    }
}

/// An open file: whole in memory when it is small, else read where it is asked for.
#[derive(Debug)]
enum Handle {
    Whole(OwnedBytes),
    File { file: File, len: usize },
}

impl HasLen for Handle {
    fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::File { len, .. } => *len,
        }
    }
}

impl FileHandle for Handle {
    fn read_bytes(&self, range: Range<usize>) -> io::Result<OwnedBytes> {
        let outside = || io::Error::new(io::ErrorKind::UnexpectedEof, "the file is shorter than what is asked of it");
        if range.start > range.end || range.end > self.len() {
            return Err(outside());
        }
        match self {
            Self::Whole(bytes) => Ok(bytes.slice(range)),
            Self::File { file, .. } => {
                let mut bytes = vec![0; range.len()];
                file.read_exact_at(&mut bytes, u64::try_from(range.start).map_err(|_| outside())?)?;
                Ok(OwnedBytes::new(bytes))
            }
        }
    }
}

/// A file being written. Its bytes are on the disk when tantivy says that it is done.
struct Writing(File);

impl Write for Writing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl TerminatingWrite for Writing {
    fn terminate_ref(&mut self, _: AntiCallToken) -> io::Result<()> {
        self.0.sync_data()
    }
}

fn read_error(path: &Path) -> impl Fn(io::Error) -> OpenReadError {
    move |error| match error.kind() {
        io::ErrorKind::NotFound => OpenReadError::FileDoesNotExist(path.to_owned()),
        _ => OpenReadError::wrap_io_error(error, path.to_owned()),
    }
}

impl Directory for Disk {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let open = || -> io::Result<Handle> {
            let mut file = File::open(self.at(path))?;
            let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
            if len > WHOLE_BYTES_MAX {
                return Ok(Handle::File { file, len });
            }
            let mut bytes = Vec::with_capacity(len);
            file.read_to_end(&mut bytes)?;
            Ok(Handle::Whole(OwnedBytes::new(bytes)))
        };
        Ok(Arc::new(open().map_err(read_error(path))?))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        fs::remove_file(self.at(path)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DeleteError::FileDoesNotExist(path.to_owned()),
            _ => DeleteError::IoError { io_error: Arc::new(error), filepath: path.to_owned() },
        })
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.at(path).try_exists().map_err(read_error(path))
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.at(path));
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => OpenWriteError::FileAlreadyExists(path.to_owned()),
            _ => OpenWriteError::wrap_io_error(error, path.to_owned()),
        })?;
        Ok(BufWriter::new(Box::new(Writing(file))))
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        fs::read(self.at(path)).map_err(read_error(path))
    }

    fn atomic_write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        replace(&self.at(path), bytes)
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&*self.0)?.sync_data()
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        if lock.is_blocking {
            // The lock of readers against the collector; see the module.
            return Ok(DirectoryLock::from(Box::new(())));
        }
        let file = private_file(&self.at(&lock.filepath)).map_err(LockError::wrap_io_error)?;
        match file.try_lock() {
            // It goes with the file.
            Ok(()) => Ok(DirectoryLock::from(Box::new(file))),
            Err(fs::TryLockError::WouldBlock) => Err(LockError::LockBusy),
            Err(fs::TryLockError::Error(error)) => Err(LockError::wrap_io_error(error)),
        }
    }

    fn watch(&self, _: WatchCallback) -> tantivy::Result<WatchHandle> {
        // We look at the index when we search, and nowhere else.
        Ok(WatchHandle::empty())
    }
}
