//! The `state.db` of a Hermes Agent: read-only, also beside a running agent.
//!
//! Nothing is ever written beside the user's file. A database that an agent has open keeps its newest messages in a log
//! beside it (`-wal`), and SQLite reads that log only with a third file (`-shm`) that it may have to make. So:
//! * with a log, the database is opened read-only in place; where that is refused because the folder cannot be written,
//!   both files are copied to a private folder and read there;
//! * without a log nobody has it open, and it is opened as a file that does not change, which makes no other files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use lcm_engine::hosts::hermes::{self, Cell, Row, SCHEMA_KNOWN, SessionHead};
use lcm_engine::hosts::{DecodeError, Decoded, Fault, Sink, Spot};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tempfile::TempDir;

/// Why a database could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// SQLite says no.
    #[error("it cannot be read as a database")]
    Sqlite(#[source] rusqlite::Error),
    /// A database, but not an agent's.
    #[error("it is a database without a table {0}, so not a state.db of the Hermes Agent")]
    NoTable(&'static str),
    /// An empty file.
    #[error("it is empty")]
    Empty,
    /// The database or its log cannot be copied.
    #[error("it cannot be copied to be read")]
    Copy(#[source] io::Error),
    /// Whoever takes the messages has stopped taking them.
    #[error(transparent)]
    Stopped(#[from] DecodeError),
}

impl ReadError {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Sqlite(_) => Some("`sqlite3 FILE .recover` may save what is left of a damaged database"),
            Self::NoTable(_) => Some("--as names another format"),
            _ => None,
        }
    }
}

/// An opened database, and the folder it was copied to.
struct Opened {
    connection: Connection,
    _copy: Option<TempDir>,
}

/// Decodes every session of a database.
pub(super) fn decode(path: &Path, sink: &mut Sink<'_>) -> Result<(), ReadError> {
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0) {
        return Err(ReadError::Empty);
    }
    let opened = open(path)?;
    let connection = &opened.connection;
    // One transaction: an agent beside us may go on writing, we read one moment of it.
    connection.execute_batch("BEGIN").map_err(ReadError::Sqlite)?;
    for table in ["sessions", "messages"] {
        if !has_table(connection, table)? {
            return Err(ReadError::NoTable(table));
        }
    }
    if let Some(version) = schema_version(connection).filter(|version| *version > SCHEMA_KNOWN) {
        let what = format!(
            "its schema {version} is newer than any known here ({SCHEMA_KNOWN}); columns that are not known are kept"
        );
        sink(Decoded::Fault(Fault { at: Spot::Whole, what, is_kept: true }))?;
    }
    let mut heads = Vec::new();
    let read = each_row(connection, "SELECT * FROM sessions ORDER BY rowid", &[], &mut |row| {
        heads.extend(SessionHead::of(&row));
        Ok(())
    });
    cannot_go_on(read, "the list of sessions", sink)?;
    let listed = heads.len();
    let read = each_row(
        connection,
        "SELECT DISTINCT session_id FROM messages WHERE session_id NOT IN (SELECT id FROM sessions)",
        &[],
        &mut |row| {
            heads.extend(row.session_id().map(|id| SessionHead::unlisted(&id)));
            Ok(())
        },
    );
    cannot_go_on(read, "the list of sessions", sink)?;
    let mut copies = 0;
    for (number, head) in heads.iter().enumerate() {
        if number >= listed {
            let what = format!("session {:?} has messages and is not in the list of sessions", head.id);
            sink(Decoded::Fault(Fault { at: Spot::Whole, what, is_kept: true }))?;
        }
        copies += decode_session(connection, head, sink)?;
    }
    if copies > 0 {
        sink(Decoded::Passed { what: "copy that the agent made when it folded".to_owned(), count: copies })?;
    }
    Ok(())
}

/// Decodes one session; gives how many rows were copies of others.
fn decode_session(connection: &Connection, head: &SessionHead, sink: &mut Sink<'_>) -> Result<u64, ReadError> {
    let columns = columns(connection, "SELECT * FROM messages LIMIT 0").map_err(ReadError::Sqlite)?;
    let mut rows = Vec::new();
    let read =
        each_row(connection, "SELECT * FROM messages WHERE session_id = ?1 ORDER BY id", &[&head.id], &mut |row| {
            rows.push(Row { columns: &columns, cells: row.cells });
            Ok(())
        });
    cannot_go_on(read, &format!("session {:?}", head.id), sink)?;
    let mut faults = Vec::new();
    let (incoming, copies) = hermes::session(head, &rows, &mut faults);
    for fault in faults {
        sink(Decoded::Fault(fault))?;
    }
    if !incoming.messages.is_empty() {
        sink(Decoded::Session(incoming))?;
    }
    Ok(copies)
}

/// What was read before a failure stays; the failure is told.
fn cannot_go_on(read: Result<(), ReadError>, what: &str, sink: &mut Sink<'_>) -> Result<(), ReadError> {
    match read {
        Err(ReadError::Sqlite(error)) => {
            let what = format!("{what} cannot be read to its end: {error}");
            Ok(sink(Decoded::Fault(Fault { at: Spot::Whole, what, is_kept: false }))?)
        }
        read => read,
    }
}

fn has_table(connection: &Connection, name: &str) -> Result<bool, ReadError> {
    let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1";
    let mut found = false;
    each_row(connection, sql, &[name], &mut |_| {
        found = true;
        Ok(())
    })?;
    Ok(found)
}

fn schema_version(connection: &Connection) -> Option<i64> {
    connection.query_row("SELECT version FROM schema_version", [], |row| row.get(0)).ok()
}

fn columns(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    Ok(connection.prepare(sql)?.column_names().map(str::to_owned).collect())
}

/// Hands over the rows of a query.
fn each_row(
    connection: &Connection,
    sql: &str,
    values: &[&str],
    each: &mut dyn FnMut(Row<'_>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut statement = connection.prepare(sql).map_err(ReadError::Sqlite)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query(rusqlite::params_from_iter(values)).map_err(ReadError::Sqlite)?;
    while let Some(row) = rows.next().map_err(ReadError::Sqlite)? {
        let cells = (0..columns.len()).map(|i| row.get_ref(i).map(cell));
        let cells = cells.collect::<rusqlite::Result<_>>().map_err(ReadError::Sqlite)?;
        each(Row { columns: &columns, cells })?;
    }
    Ok(())
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::Integer(number),
        ValueRef::Real(number) => Cell::Real(number),
        ValueRef::Text(text) => Cell::Text(text.to_vec()),
        ValueRef::Blob(bytes) => Cell::Bytes(bytes.to_vec()),
    }
}

fn open(path: &Path) -> Result<Opened, ReadError> {
    if !has_log(path) {
        return Ok(Opened { connection: open_at(path, "immutable=1")?, _copy: None });
    }
    match open_at(path, "") {
        Ok(connection) => Ok(Opened { connection, _copy: None }),
        Err(ReadError::Sqlite(error)) if cannot_be_opened(&error) => open_copy(path),
        Err(error) => Err(error),
    }
}

/// Whether an agent left its newest messages in a log.
fn has_log(path: &Path) -> bool {
    fs::metadata(beside(path, "-wal")).is_ok_and(|metadata| metadata.len() > 0)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn cannot_be_opened(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

fn open_copy(path: &Path) -> Result<Opened, ReadError> {
    let folder = tempfile::Builder::new().prefix("lcm-import-").tempdir().map_err(ReadError::Copy)?;
    let copy = folder.path().join("state.db");
    // The log first: a frame that the agent moves into the database meanwhile is then in both, never in neither.
    fs::copy(beside(path, "-wal"), beside(&copy, "-wal")).map_err(ReadError::Copy)?;
    fs::copy(path, &copy).map_err(ReadError::Copy)?;
    Ok(Opened { connection: open_at(&copy, "")?, _copy: Some(folder) })
}

/// Opens a database read-only and looks into it, because SQLite opens anything.
fn open_at(path: &Path, options: &str) -> Result<Connection, ReadError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri(path, options), flags).map_err(ReadError::Sqlite)?;
    // An agent in the middle of a write is waited for.
    connection.busy_timeout(std::time::Duration::from_secs(5)).map_err(ReadError::Sqlite)?;
    let look = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get::<_, i64>(0));
    look.map_err(ReadError::Sqlite)?;
    Ok(connection)
}

/// A file as a URI: what a path may hold and a URI may not is escaped.
fn uri(path: &Path, options: &str) -> String {
    use std::os::unix::ffi::OsStrExt;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut uri = "file:".to_owned();
    for &byte in absolute.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    let and = if options.is_empty() { "" } else { "&" };
    format!("{uri}?mode=ro{and}{options}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_makes_a_uri() {
        assert_eq!(
            uri(Path::new("/a b/50%?#é.db"), "immutable=1"),
            "file:/a%20b/50%25%3F%23%C3%A9.db?mode=ro&immutable=1"
        );
    }

    /// A database in write-ahead mode with one message in the file and one in the log only; the agent has it open.
    fn agent(folder: &Path) -> (PathBuf, Connection) {
        let path = folder.join("state.db");
        let agent = Connection::open(&path).unwrap();
        let insert = "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'user', ";
        let script = format!(
            "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
             CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT);
             CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL);
             INSERT INTO sessions VALUES ('s', 'cli');
             {insert} 'in the file', 1);
             PRAGMA wal_checkpoint(TRUNCATE);
             {insert} 'in the log', 2);"
        );
        agent.execute_batch(&script).unwrap();
        (path, agent)
    }

    fn messages(path: &Path) -> usize {
        let mut count = 0;
        decode(path, &mut |decoded| {
            match decoded {
                Decoded::Session(incoming) => count += incoming.messages.len(),
                other => panic!("{other:?}"),
            }
            Ok(())
        })
        .unwrap();
        count
    }

    #[test]
    fn an_agent_that_has_it_open_is_read_up_to_its_last_commit_and_not_disturbed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, agent) = agent(folder.path());
        // A write that is under way is not there yet, and does not keep us waiting.
        agent.execute_batch("BEGIN IMMEDIATE; DELETE FROM messages").unwrap();
        assert_eq!(messages(&path), 2);
        agent.execute_batch("COMMIT").unwrap();
        assert_eq!(messages(&path), 0);
    }

    #[test]
    fn a_copy_holds_what_is_in_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _agent) = agent(folder.path());
        let opened = open_copy(&path).unwrap();
        let count = opened.connection.query_row("SELECT count(*) FROM messages", [], |row| row.get::<_, i64>(0));
        assert_eq!(count.unwrap(), 2);
    }

    #[test]
    fn a_database_that_nobody_has_open_gets_no_files_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let (path, agent) = agent(folder.path());
        drop(agent);
        assert_eq!(messages(&path), 2);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
