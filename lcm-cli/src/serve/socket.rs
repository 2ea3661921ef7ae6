//! The unix socket in the data directory: the same protocol for whoever cannot be a child of ours, a sandboxed hook for
//! one.
//!
//! Whoever serves listens, unless somebody does already. A stale socket is replaced by a rename, so that there is never
//! a moment without one; several that do so at once harm nobody, the last one is found.

use std::fs;
use std::io::{self, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::connection::Connection;
use super::{LAST_CALLS_MAX, READ_BYTES, Server};

/// Its name in the data directory.
pub(crate) const NAME: &str = "serve.sock";
/// Connections at once. A hook is one for some milliseconds.
const CONNECTIONS_MAX: usize = 64;
/// How long nobody is let in after that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// The file of a socket that we made.
pub(super) struct Made {
    device: u64,
    inode: u64,
}

/// Listens, where nobody does. That it cannot is no reason not to serve: who came by pipe has what it needs.
pub(super) fn listen(server: &Arc<Server>) -> Option<Made> {
    let home = &server.config.home;
    let (listener, made) = match bind(home) {
        Ok(bound) => bound?,
        Err(error) => {
            tracing::warn!(%error, "cannot listen on the socket in {}", home.display());
            return None;
        }
    };
    let server = Arc::downgrade(server);
    let accept = move || {
        let count = Arc::new(AtomicUsize::new(0));
        for stream in listener.incoming() {
            let Some(server) = server.upgrade() else { return };
            match stream {
                Ok(stream) if count.fetch_add(1, Ordering::AcqRel) < CONNECTIONS_MAX => {
                    let counted = count.clone();
                    let serve = move || {
                        serve(&server, &stream);
                        counted.fetch_sub(1, Ordering::AcqRel);
                    };
                    let spawned = thread::Builder::new().name("lcm-socket".to_owned()).spawn(serve);
                    if spawned.is_err() {
                        count.fetch_sub(1, Ordering::AcqRel);
                    }
                }
                // One too many finds a closed door and comes again.
                Ok(stream) => {
                    drop(stream);
                    count.fetch_sub(1, Ordering::AcqRel);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot take a connection");
                    thread::sleep(PAUSE);
                }
            }
        }
    };
    let spawned = thread::Builder::new().name("lcm-listen".to_owned()).spawn(accept);
    if let Err(error) = spawned {
        tracing::warn!(%error, "cannot listen on the socket");
    }
    Some(made)
}

/// Serves one connection to its end.
fn serve(server: &Arc<Server>, stream: &UnixStream) {
    let connection = Connection::new(server.stamp.clone());
    let (Ok(input), Ok(mut output)) = (stream.try_clone(), stream.try_clone()) else { return };
    let writing = {
        let connection = connection.clone();
        thread::Builder::new().name("lcm-write".to_owned()).spawn(move || connection.write(&mut output))
    };
    let Ok(writing) = writing else { return };
    // A connection that breaks ends like one that is closed.
    drop(connection.read(&mut BufReader::with_capacity(READ_BYTES, input), server));
    connection.drain(LAST_CALLS_MAX);
    connection.close_outbox();
    connection.wait_until_written(LAST_CALLS_MAX);
    connection.end();
    // Wakes a writer that waits for somebody who does not read.
    drop(stream.shutdown(std::net::Shutdown::Both));
    drop(writing.join());
}

/// Makes the socket; `None` where somebody listens already.
fn bind(home: &Path) -> io::Result<Option<(UnixListener, Made)>> {
    // A path of a socket holds 107 bytes; a folder that is open has a short name.
    let folder = fs::File::open(home)?;
    let short = short_name(&folder);
    if UnixStream::connect(short.join(NAME)).is_ok() {
        return Ok(None);
    }
    let own = format!("{NAME}.{}", std::process::id());
    let made = short.join(&own);
    if made.exists() {
        // Of a process that had our number once.
        fs::remove_file(&made)?;
    }
    let listener = UnixListener::bind(&made)?;
    fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
    let file = made.symlink_metadata()?;
    fs::rename(&made, short.join(NAME))?;
    Ok(Some((listener, Made { device: file.dev(), inode: file.ino() })))
}

/// A folder's name under which its path is short, however long it is.
pub(crate) fn short_name(folder: &fs::File) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// Takes the socket away that we made; another's stays.
pub(super) fn remove(home: &Path, made: &Made) {
    let path = home.join(NAME);
    let is_ours = path.symlink_metadata().is_ok_and(|file| (file.dev(), file.ino()) == (made.device, made.inode));
    if is_ours && let Err(error) = fs::remove_file(&path) {
        tracing::debug!(%error, "cannot remove the socket");
    }
}
