//! The `state.db` of a Hermes Agent: read-only, also beside a running agent.
//!
//! Nothing is ever written beside the user's file. A database that an agent has open keeps its newest messages in a log
//! beside it (`-wal`), and SQLite reads that log only with a third file (`-shm`) that it may have to make. So:
//! * with a log, the database is opened read-only in place; where that is refused because the folder cannot be written,
//!   both files are copied to a private folder and read there;
//! * without a log nobody has it open, and it is opened as a file that does not change, which makes no other files.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use lcm_engine::hosts::hermes::{self, Cell, Row, SCHEMA_KNOWN, SessionHead, SessionName};
use lcm_engine::hosts::{DecodeError, Decoded, Fault, Sink, Spot};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
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
    let mut reading = Reading { connection, sink, is_torn: false, rows: 0, copies: 0 };
    let sessions = reading.sessions()?;
    for session in &sessions {
        reading.session(session)?;
    }
    reading.account()?;
    let copies = reading.copies;
    if copies > 0 {
        sink(Decoded::Passed { what: "copy that the agent made when it folded".to_owned(), count: copies })?;
    }
    Ok(())
}

/// A session that is listed, or that messages name.
struct Session {
    name: SessionName,
    head: SessionHead,
    /// What stands for it in `session_id`; more than one where ids of different kinds make one name.
    ids: Vec<Cell>,
    is_listed: bool,
}

/// All sessions there are, in the order in which they were met.
#[derive(Default)]
struct Sessions {
    all: Vec<Session>,
    by_name: HashMap<SessionName, usize>,
}

impl Sessions {
    /// Makes a session known, unless it is.
    fn add(&mut self, id: &Cell, head: impl FnOnce(&SessionName) -> SessionHead, is_listed: bool) {
        let name = SessionName::of(id);
        let number = *self.by_name.entry(name.clone()).or_insert_with(|| {
            let (head, ids) = (head(&name), Vec::new());
            self.all.push(Session { name, head, ids, is_listed });
            self.all.len() - 1
        });
        let ids = &mut self.all[number].ids;
        if !ids.contains(id) {
            ids.push(id.clone());
        }
    }

    /// The sessions. A name that we made and an agent gave is made another one.
    fn into_vec(mut self) -> Vec<Session> {
        let is_given = |name: &str| self.by_name.contains_key(&SessionName::Given(name.to_owned()));
        for session in self.all.iter_mut().filter(|session| matches!(session.name, SessionName::Made(_))) {
            while is_given(&session.head.name) {
                session.head.name.push('\'');
            }
        }
        self.all
    }
}

/// Reads a database, and keeps account of its rows.
struct Reading<'r, 's> {
    connection: &'r Connection,
    sink: &'r mut Sink<'s>,
    /// Whether something could not be read to its end; that was told.
    is_torn: bool,
    /// Rows of `messages` that were read.
    rows: u64,
    /// Those that were copies of others.
    copies: u64,
}

impl Reading<'_, '_> {
    fn sessions(&mut self) -> Result<Vec<Session>, ReadError> {
        let mut sessions = Sessions::default();
        let read = each_row(self.connection, "SELECT * FROM sessions ORDER BY rowid", &[], &mut |row| {
            sessions.add(row.cell("id"), |_| SessionHead::of(&row), true);
            Ok(())
        });
        self.cannot_go_on(read, "the list of sessions")?;
        // Asked for what there is and not for what is not listed: NULL is neither in a list nor not in it. And as
        // bytes, whatever the column calls equal.
        let ids = "SELECT DISTINCT session_id COLLATE BINARY AS id FROM messages";
        let read = each_row(self.connection, ids, &[], &mut |row| {
            sessions.add(row.cell("id"), SessionHead::unlisted, false);
            Ok(())
        });
        self.cannot_go_on(read, "the list of the sessions that messages name")?;
        Ok(sessions.into_vec())
    }

    /// Decodes one session.
    fn session(&mut self, session: &Session) -> Result<(), ReadError> {
        let columns = columns(self.connection, "SELECT * FROM messages LIMIT 0").map_err(ReadError::Sqlite)?;
        // IS is what = is, and finds NULL too.
        let is_one: Vec<String> =
            (1..=session.ids.len()).map(|number| format!("session_id COLLATE BINARY IS ?{number}")).collect();
        let sql = format!("SELECT * FROM messages WHERE {} ORDER BY id", is_one.join(" OR "));
        let mut rows = Vec::new();
        let read = each_row(self.connection, &sql, &session.ids, &mut |row| {
            rows.push(Row { columns: &columns, cells: row.cells });
            Ok(())
        });
        self.rows += u64::try_from(rows.len()).unwrap_or(u64::MAX);
        let name = &session.head.name;
        self.cannot_go_on(read, &format!("session {name:?}"))?;
        if !rows.is_empty() {
            if let SessionName::Made(_) = session.name {
                self.kept(format!("messages whose session_id is no name come in as session {name:?}"))?;
            } else if !session.is_listed {
                self.kept(format!("session {name:?} has messages and is not in the list of sessions"))?;
            }
        }
        let mut faults = Vec::new();
        let (incoming, copies) = hermes::session(&session.head, &rows, &mut faults);
        for fault in faults {
            (self.sink)(Decoded::Fault(fault))?;
        }
        if !incoming.messages.is_empty() {
            (self.sink)(Decoded::Session(incoming))?;
        }
        self.copies += copies;
        Ok(())
    }

    /// Sees that every row of `messages` was read: whatever the reason, none is missing without a word.
    fn account(&mut self) -> Result<(), ReadError> {
        // The table itself is counted; an index may be damaged where the table is not.
        let sql = "SELECT count(*) FROM messages NOT INDEXED";
        match self.connection.query_row(sql, [], |row| row.get::<_, i64>(0)) {
            Ok(all) => {
                let missing = u64::try_from(all).unwrap_or(0).saturating_sub(self.rows);
                if missing > 0 {
                    self.lost(format!("{missing} of the {all} rows of its table messages were not read"))?;
                }
                Ok(())
            }
            // Where it is torn was told.
            Err(_) if self.is_torn => Ok(()),
            Err(error) => self.lost(format!("the rows of its table messages cannot be counted: {error}")),
        }
    }

    /// What was read before a failure stays; the failure is told.
    fn cannot_go_on(&mut self, read: Result<(), ReadError>, what: &str) -> Result<(), ReadError> {
        match read {
            Err(ReadError::Sqlite(error)) => {
                self.is_torn = true;
                self.lost(format!("{what} cannot be read to its end: {error}"))
            }
            read => read,
        }
    }

    fn kept(&mut self, what: String) -> Result<(), ReadError> {
        Ok((self.sink)(Decoded::Fault(Fault { at: Spot::Whole, what, is_kept: true }))?)
    }

    fn lost(&mut self, what: String) -> Result<(), ReadError> {
        Ok((self.sink)(Decoded::Fault(Fault { at: Spot::Whole, what, is_kept: false }))?)
    }
}

fn has_table(connection: &Connection, name: &str) -> Result<bool, ReadError> {
    let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1";
    let mut found = false;
    each_row(connection, sql, &[Cell::Text(name.as_bytes().to_vec())], &mut |_| {
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
    values: &[Cell],
    each: &mut dyn FnMut(Row<'_>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    let mut statement = connection.prepare(sql).map_err(ReadError::Sqlite)?;
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut rows = statement.query(rusqlite::params_from_iter(values.iter().map(Bound))).map_err(ReadError::Sqlite)?;
    while let Some(row) = rows.next().map_err(ReadError::Sqlite)? {
        let cells = (0..columns.len()).map(|i| row.get_ref(i).map(cell));
        let cells = cells.collect::<rusqlite::Result<_>>().map_err(ReadError::Sqlite)?;
        each(Row { columns: &columns, cells })?;
    }
    Ok(())
}

/// A cell as the value of a query.
struct Bound<'c>(&'c Cell);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Cell::Null => ValueRef::Null,
            Cell::Integer(number) => ValueRef::Integer(*number),
            Cell::Real(number) => ValueRef::Real(*number),
            Cell::Text(text) => ValueRef::Text(text),
            Cell::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
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

    /// Sessions by name, with the number of their messages.
    type Counts = Vec<(String, usize)>;
    /// What was told, and whether it was kept.
    type Told = Vec<(String, bool)>;

    /// What a database gives whose two tables are made and filled by `script`.
    fn given(script: &str) -> (Counts, Told) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.db");
        Connection::open(&path).unwrap().execute_batch(script).unwrap();
        let (mut sessions, mut told) = (Vec::new(), Vec::new());
        decode(&path, &mut |decoded| {
            match decoded {
                Decoded::Session(incoming) => sessions.push((incoming.name, incoming.messages.len())),
                Decoded::Fault(fault) => told.push((fault.what, fault.is_kept)),
                Decoded::Passed { .. } => {}
            }
            Ok(())
        })
        .unwrap();
        (sessions, told)
    }

    /// Tables that allow everything, with a message in each session.
    fn loose(sessions: &[&str], messages: &[&str]) -> String {
        let mut script = "CREATE TABLE sessions (id, source TEXT);
             CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id, role TEXT, content TEXT, timestamp REAL);"
            .to_owned();
        for id in sessions {
            script.push_str(&format!("INSERT INTO sessions VALUES ({id}, 'cli');"));
        }
        for id in messages {
            let row = format!("({id}, 'user', 'of ' || quote({id}), 1)");
            script.push_str(&format!("INSERT INTO messages (session_id, role, content, timestamp) VALUES {row};"));
        }
        script
    }

    fn named(sessions: &[(String, usize)]) -> Vec<(&str, usize)> {
        sessions.iter().map(|(name, count)| (name.as_str(), *count)).collect()
    }

    /// A NULL in the list of sessions made "not in the list" true of nothing, and every message of a session that is
    /// not listed was left out without a word; so were those whose id is no text.
    #[test]
    fn every_row_is_in_a_session_whatever_its_id_is() {
        let ids = ["'a'", "NULL", "''", "x'00ff'", "7", "'gone'", "NULL"];
        let all = ["unnamed", "unnamed (empty)", "unnamed x'00ff'", "gone"];
        for listed in [&["'a'", "7"][..], &["'a'", "7", "NULL"], &["NULL", "'a'", "''", "x'00ff'", "7"], &[]] {
            let (sessions, told) = given(&loose(listed, &ids));
            let mut sessions = named(&sessions);
            sessions.sort_unstable();
            let expected =
                [("7", 1), ("a", 1), ("gone", 1), ("unnamed", 2), ("unnamed (empty)", 1), ("unnamed x'00ff'", 1)];
            assert_eq!(sessions, expected, "{listed:?}");
            assert!(told.iter().all(|(_, is_kept)| *is_kept), "{told:?}");
            for name in all {
                let count = told.iter().filter(|(what, _)| what.contains(&format!("{name:?}"))).count();
                assert_eq!(count, 1, "{name} of {listed:?}: {told:?}");
            }
        }
    }

    #[test]
    fn ids_that_only_look_alike_are_two_sessions_and_those_that_make_one_name_are_one() {
        // The agent's own session of that name is none of those without one.
        let (sessions, _) = given(&loose(&["'unnamed'"], &["'unnamed'", "NULL"]));
        assert_eq!(named(&sessions), [("unnamed", 1), ("unnamed'", 1)]);
        let (sessions, _) = given(&loose(&["7", "7"], &["7", "'7'", "7"]));
        assert_eq!(named(&sessions), [("7", 3)]);
        // A column may call things equal that are not.
        let script = loose(&[], &[]).replace("session_id,", "session_id TEXT COLLATE NOCASE,");
        let rows = "INSERT INTO messages (session_id, role, timestamp) VALUES ('A', 'user', 1), ('a', 'user', 1);";
        let (sessions, _) = given(&(script + rows));
        assert_eq!(named(&sessions), [("A", 1), ("a", 1)]);
    }

    #[test]
    fn rows_that_nothing_leads_to_are_told_as_lost() {
        // An index that lost its rows: what is looked for by it is not found, and the table still has it.
        let script = loose(&["'a'"], &["'a'", "'a'"])
            + "CREATE INDEX of ON messages (session_id); PRAGMA writable_schema = 1;
               UPDATE sqlite_master SET sql = replace(sql, '(session_id)', '(session_id) WHERE id < 0')
                   WHERE name = 'of';
               PRAGMA writable_schema = RESET; REINDEX;
               PRAGMA writable_schema = 1;
               UPDATE sqlite_master SET sql = 'CREATE INDEX of ON messages (session_id)' WHERE name = 'of';
               PRAGMA writable_schema = RESET;";
        let (sessions, told) = given(&script);
        assert_eq!(named(&sessions), []);
        assert_eq!(told, [("2 of the 2 rows of its table messages were not read".to_owned(), false)]);
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
