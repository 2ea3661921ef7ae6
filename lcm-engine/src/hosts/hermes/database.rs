//! Rows of a Hermes Agent's `state.db` as sessions. The database itself is opened elsewhere; here are its words.
//!
//! A row of `messages` is a message; the order is that of `id`, as the agent reads it. Columns that the agent shows
//! to a model become the message, in the agent's own order of keys; every other column that says something stays
//! with the place. Columns are found by name, so older and newer schemas are read alike.
//!
//! * `active = 0, compacted = 1`: folded away by the agent. Those are originals, and what we are here for.
//! * `active = 0, compacted = 0`: taken back by the user; kept on a path of its own.
//! * When the agent folds in place it writes what it keeps once more, with new ids. Such a copy is told by its
//!   `message_uid`, or where there is none by being equal in content and moment to a folded row while standing
//!   behind a later one; it is not a second message.
//! * A session that the agent split goes on under another id; that stays a session of its own.
//! * A row may name no session, or one by an id that is no name (NULL, empty, bytes). It is a message all the same
//!   and comes in, under a name that says what the id is ([`SessionName`]).

use std::collections::{HashMap, HashSet};

use lcm_core::limits::NAME_BYTES_MAX;
use lcm_core::{Json, JsonString, Message, NodeId};
use rayon::prelude::*;

use super::super::{Fault, Incoming, IncomingMessage, Path, Spot, time};

/// What stands before content that is no plain text.
const JSON_MARK: &[u8] = b"\0json:";

/// The newest schema whose columns we know.
pub const SCHEMA_KNOWN: i64 = 31;

/// The columns that a model is shown, in the agent's order, and what is in them.
const SHOWN: [(&str, Holds); 10] = [
    ("tool_call_id", Holds::Text),
    ("tool_name", Holds::Text),
    ("effect_disposition", Holds::Text),
    ("tool_calls", Holds::Json),
    ("finish_reason", Holds::Text),
    ("reasoning", Holds::Text),
    ("reasoning_content", Holds::TextOrEmpty),
    ("reasoning_details", Holds::Json),
    ("codex_reasoning_items", Holds::Json),
    ("codex_message_items", Holds::Json),
];

/// Columns whose usual value says nothing.
const USUAL: [(&str, i64); 4] = [("active", 1), ("compacted", 0), ("observed", 0), ("_compressed_summary", 0)];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Text; an empty one is as good as none.
    Text,
    /// Text; an empty one is something else than none.
    TextOrEmpty,
    /// JSON as text.
    Json,
}

/// What stands in one column of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A whole number.
    Integer(i64),
    /// Another number.
    Real(f64),
    /// Text; maybe no UTF-8, for SQLite does not look.
    Text(Vec<u8>),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// One row and the names of its columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Row<'c> {
    /// The names.
    pub columns: &'c [String],
    /// A cell for each.
    pub cells: Vec<Cell>,
}

impl Row<'_> {
    fn get(&self, name: &str) -> &Cell {
        let at = self.columns.iter().position(|column| column == name);
        at.and_then(|at| self.cells.get(at)).unwrap_or(&Cell::Null)
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.get(name) {
            Cell::Text(text) => String::from_utf8(text.clone()).ok().filter(|text| !text.is_empty()),
            Cell::Integer(number) => Some(number.to_string()),
            _ => None,
        }
    }

    fn integer(&self, name: &str) -> Option<i64> {
        if let Cell::Integer(number) = self.get(name) { Some(*number) } else { None }
    }

    /// What stands in a column; [`Cell::Null`] when there is no such column.
    #[must_use]
    pub fn cell(&self, name: &str) -> &Cell {
        self.get(name)
    }
}

/// What a session is called, by its id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SessionName {
    /// The id itself.
    Given(String),
    /// Made by us, for an id that is no name; it says what the id is.
    Made(String),
}

impl SessionName {
    /// Bytes of an id that are shown when it is no text.
    const BYTES_SHOWN: usize = 64;

    /// The name of the session with this id.
    #[must_use]
    pub fn of(id: &Cell) -> Self {
        match id {
            Cell::Null => Self::Made("unnamed".to_owned()),
            Cell::Integer(number) => Self::Given(number.to_string()),
            Cell::Real(number) => Self::Given(number.to_string()),
            Cell::Text(text) if text.is_empty() => Self::Made("unnamed (empty)".to_owned()),
            Cell::Text(text) => match str::from_utf8(text) {
                Ok(name) if name.len() <= NAME_BYTES_MAX => Self::Given(name.to_owned()),
                Ok(name) => {
                    let begin: String = name.chars().take(Self::BYTES_SHOWN).collect();
                    Self::Made(format!("{begin}… ({} bytes)", name.len()))
                }
                Err(_) => Self::bytes(text),
            },
            Cell::Bytes(bytes) => Self::bytes(bytes),
        }
    }

    fn bytes(bytes: &[u8]) -> Self {
        let digits = hex_digits(&bytes[..bytes.len().min(Self::BYTES_SHOWN)]);
        let more = if bytes.len() > Self::BYTES_SHOWN { format!("… ({} bytes)", bytes.len()) } else { String::new() };
        Self::Made(format!("unnamed x'{digits}'{more}"))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Given(name) | Self::Made(name) => name,
        }
    }
}

/// Whose messages follow: a row of `sessions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionHead {
    /// What it is called.
    pub name: String,
    source: String,
    agent: Option<String>,
    person: Option<String>,
}

impl SessionHead {
    /// Reads a row of `sessions`.
    #[must_use]
    pub fn of(row: &Row<'_>) -> Self {
        let source = row.text("source").map_or_else(|| "hermes".to_owned(), |source| format!("hermes:{source}"));
        let (agent, person) = (row.text("profile_name"), row.text("session_key"));
        let name = SessionName::of(row.get("id")).as_str().to_owned();
        Self { name, source, agent, person }
    }

    /// A session that only its messages name.
    #[must_use]
    pub fn unlisted(name: &SessionName) -> Self {
        Self { name: name.as_str().to_owned(), source: "hermes".to_owned(), agent: None, person: None }
    }
}

/// A row as a message.
struct Said {
    message: IncomingMessage,
    uid: Option<String>,
    is_active: bool,
    is_folded: bool,
}

/// Makes a session of the rows of its messages, in the order of their ids. What cannot be taken goes to `faults`;
/// the second value is how many rows were copies of others.
pub fn session(head: &SessionHead, rows: &[Row<'_>], faults: &mut Vec<Fault>) -> (Incoming, u64) {
    let mut incoming = Incoming {
        agent: head.agent.clone(),
        person: head.person.clone(),
        name: head.name.clone(),
        source: head.source.clone(),
        ..Incoming::default()
    };
    let decoded: Vec<(Option<Said>, Vec<Fault>)> = rows.par_iter().with_min_len(16).map(said).collect();
    let mut copies = Copies::default();
    let mut path = Path::default();
    let mut taken_back: Option<Path> = None;
    for (said, found) in decoded {
        faults.extend(found);
        let Some(said) = said.filter(|said| !copies.is_copy(said)) else { continue };
        let number = incoming.messages.len();
        incoming.messages.push(said.message);
        if said.is_active || said.is_folded {
            if let Some(left) = taken_back.take() {
                incoming.leave(&mut path, left);
            }
            path.own.push(number);
        } else {
            taken_back.get_or_insert_with(Path::default).own.push(number);
        }
    }
    if let Some(left) = taken_back {
        incoming.leave(&mut path, left);
    }
    if !incoming.paths.is_empty() {
        incoming.paths.push(path);
    }
    (incoming, copies.count)
}

impl Incoming {
    /// Ends a path where the user took something back: what was said so far and taken back is a path; the session
    /// goes on from where they part.
    fn leave(&mut self, path: &mut Path, taken_back: Path) {
        let parted = path.parent.map_or(0, |(_, shared)| shared) + path.own.len();
        let mut left = std::mem::take(path);
        left.own.extend(taken_back.own);
        path.parent = Some((self.paths.len(), parted));
        self.paths.push(left);
    }
}

/// What was folded away, to tell copies by.
#[derive(Default)]
struct Copies {
    uids: HashSet<String>,
    moments: HashMap<NodeId, Vec<i64>>,
    newest_ms: Option<i64>,
    count: u64,
}

impl Copies {
    fn is_copy(&mut self, said: &Said) -> bool {
        let (id, moment) = (said.message.id(), said.message.seen_ms);
        let is_copy = match (&said.uid, moment) {
            (Some(uid), _) => self.uids.contains(uid),
            (None, Some(moment)) => {
                self.newest_ms.is_some_and(|newest| moment < newest)
                    && self.moments.get(&id).is_some_and(|moments| moments.contains(&moment))
            }
            (None, None) => false,
        };
        self.newest_ms = self.newest_ms.max(moment);
        if is_copy {
            self.count += 1;
            return true;
        }
        if said.is_folded {
            self.uids.extend(said.uid.clone());
            if let Some(moment) = moment {
                self.moments.entry(id).or_default().push(moment);
            }
        }
        false
    }
}

/// Makes a message of a row.
fn said(row: &Row<'_>) -> (Option<Said>, Vec<Fault>) {
    let spot = row.integer("id").map_or(Spot::Whole, Spot::Row);
    let mut faults = Vec::new();
    let mut kept = |what: String| faults.push(Fault::kept(spot, what));
    match said_or(row, &mut kept) {
        Ok(said) => (Some(said), faults),
        Err(what) => {
            // Nothing was taken, so nothing was taken as it stands.
            (None, vec![Fault::lost(spot, what)])
        }
    }
}

fn said_or(row: &Row<'_>, kept: &mut dyn FnMut(String)) -> Result<Said, String> {
    let role = plain(row, "role")?.ok_or("it has no role")?;
    let mut entries: Vec<(JsonString, Json)> =
        vec![("role".into(), role.into()), ("content".into(), content(row, kept)?)];
    for (name, holds) in SHOWN {
        let Some(text) = plain(row, name)?.filter(|text| !text.is_empty() || holds == Holds::TextOrEmpty) else {
            continue;
        };
        let value =
            if holds == Holds::Json { Json::parse(text.as_bytes()).map_err(|_| name) } else { Ok(text.clone().into()) };
        entries.push((
            name.into(),
            value.unwrap_or_else(|name| {
                kept(format!("its {name} are no JSON; they are kept as text"));
                text.into()
            }),
        ));
    }
    let message = Message::from_json(Json::Object(entries)).map_err(|error| error.to_string())?;
    let message = IncomingMessage::new(&message).map_err(|error| error.to_string())?;
    let seen_ms = match row.get("timestamp") {
        Cell::Integer(moment) => time::from_number(&moment.to_string()),
        Cell::Real(moment) => time::from_number(&moment.to_string()),
        _ => None,
    };
    if seen_ms.is_none() {
        kept("its timestamp is no moment".to_owned());
    }
    let is_not_zero = |name| row.integer(name).is_some_and(|flag| flag != 0);
    Ok(Said {
        message: IncomingMessage { seen_ms, ..message.with_source(beside(row)) },
        uid: row.text("message_uid"),
        // Before there was such a column, every row was.
        is_active: *row.get("active") == Cell::Null || is_not_zero("active"),
        is_folded: is_not_zero("compacted"),
    })
}

/// The text in a column that should hold text.
fn plain(row: &Row<'_>, name: &str) -> Result<Option<String>, String> {
    match row.get(name) {
        Cell::Null => Ok(None),
        Cell::Text(text) => String::from_utf8(text.clone()).map(Some).map_err(|_| format!("its {name} is not UTF-8")),
        Cell::Integer(_) | Cell::Real(_) => Err(format!("its {name} is a number")),
        Cell::Bytes(_) => Err(format!("its {name} is bytes, not text")),
    }
}

fn content(row: &Row<'_>, kept: &mut dyn FnMut(String)) -> Result<Json, String> {
    let Some(text) = plain(row, "content")? else { return Ok(Json::Null) };
    let Some(structured) = text.as_bytes().strip_prefix(JSON_MARK) else { return Ok(text.into()) };
    // The agent reads it the same way: what cannot be decoded is a text that begins strangely.
    Ok(Json::parse(structured).unwrap_or_else(|_| {
        kept("its structured content is no JSON; it is kept as text".to_owned());
        text.into()
    }))
}

/// What the row says beside the message.
fn beside(row: &Row<'_>) -> Vec<(JsonString, Json)> {
    let is_shown =
        |name: &str| ["session_id", "role", "content"].contains(&name) || SHOWN.iter().any(|(shown, _)| *shown == name);
    let is_usual = |name: &str, cell: &Cell| match cell {
        Cell::Null => true,
        Cell::Integer(number) => USUAL.contains(&(name, *number)),
        _ => false,
    };
    let columns = row.columns.iter().zip(&row.cells);
    // An id that is no name is not all in the name that was made of it.
    let is_odd_id =
        |name: &str, cell: &Cell| name == "session_id" && matches!(SessionName::of(cell), SessionName::Made(_));
    let said = columns.filter(|(name, cell)| (!is_shown(name) || is_odd_id(name, cell)) && !is_usual(name, cell));
    said.map(|(name, cell)| (name.as_str().into(), json(cell))).collect()
}

fn json(cell: &Cell) -> Json {
    match cell {
        Cell::Null => Json::Null,
        Cell::Integer(number) => (*number).into(),
        Cell::Real(number) if number.is_finite() => Json::Number(number.to_string().into()),
        Cell::Real(number) => number.to_string().into(),
        Cell::Text(text) => match str::from_utf8(text) {
            Ok(text) => text.into(),
            Err(_) => hex(text),
        },
        Cell::Bytes(bytes) => hex(bytes),
    }
}

/// Bytes as SQLite writes them in statements.
fn hex(bytes: &[u8]) -> Json {
    format!("x'{}'", hex_digits(bytes)).into()
}

fn hex_digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(names: &str) -> Vec<String> {
        names.split(' ').map(str::to_owned).collect()
    }

    fn text(text: &str) -> Cell {
        Cell::Text(text.as_bytes().to_vec())
    }

    fn head() -> SessionHead {
        SessionHead::unlisted(&SessionName::Given("s".to_owned()))
    }

    fn contents(incoming: &Incoming, path: usize) -> Vec<usize> {
        match incoming.paths[path].parent {
            None => incoming.paths[path].own.clone(),
            Some((parent, shared)) => {
                let mut all = contents(incoming, parent);
                all.truncate(shared);
                all.extend(&incoming.paths[path].own);
                all
            }
        }
    }

    fn flagged(rows: &[(&str, i64, i64, i64)]) -> (Incoming, u64) {
        let columns = columns("id role content timestamp active compacted");
        let rows: Vec<Row<'_>> = rows
            .iter()
            .zip(1..)
            .map(|(&(said, moment, active, compacted), id)| Row {
                columns: &columns,
                cells: vec![
                    Cell::Integer(id),
                    text("user"),
                    text(said),
                    Cell::Integer(moment),
                    Cell::Integer(active),
                    Cell::Integer(compacted),
                ],
            })
            .collect();
        session(&head(), &rows, &mut Vec::new())
    }

    #[test]
    fn every_id_makes_a_name_and_one_that_is_no_name_says_what_it_is() {
        let made = |name: &str| SessionName::Made(name.to_owned());
        assert_eq!(SessionName::of(&text("s")), SessionName::Given("s".to_owned()));
        assert_eq!(SessionName::of(&Cell::Integer(7)), SessionName::Given("7".to_owned()));
        assert_eq!(SessionName::of(&Cell::Null), made("unnamed"));
        assert_eq!(SessionName::of(&text("")), made("unnamed (empty)"));
        assert_eq!(SessionName::of(&Cell::Bytes(vec![0, 255])), made("unnamed x'00ff'"));
        assert_eq!(SessionName::of(&Cell::Text(vec![b'a', 255])), made("unnamed x'61ff'"));
        for long in [Cell::Bytes(vec![7; 5000]), text(&"é".repeat(5000))] {
            assert!(SessionName::of(&long).as_str().len() <= NAME_BYTES_MAX);
        }
    }

    #[test]
    fn what_was_taken_back_stands_on_a_path_of_its_own() {
        let (incoming, _) = flagged(&[("a", 1, 1, 0), ("b", 2, 0, 0), ("c", 3, 1, 0), ("d", 4, 0, 0), ("e", 5, 0, 0)]);
        let lists: Vec<Vec<usize>> = (0..incoming.paths.len()).map(|path| contents(&incoming, path)).collect();
        assert_eq!(lists, [vec![0, 1], vec![0, 2, 3, 4], vec![0, 2]]);
    }

    #[test]
    fn what_the_agent_wrote_once_more_when_it_folded_is_no_second_message() {
        let (incoming, copies) = flagged(&[
            ("a", 1, 0, 1),
            ("go on", 2, 0, 1),
            ("go on", 3, 0, 1),
            ("SUMMARY", 9, 1, 0),
            ("go on", 3, 1, 0),
            ("new", 10, 1, 0),
            ("go on", 11, 1, 0),
        ]);
        assert_eq!((incoming.messages.len(), copies), (6, 1));
    }

    #[test]
    fn equal_rows_of_one_moment_stay_two_messages() {
        let (incoming, copies) = flagged(&[("", 5, 0, 1), ("", 5, 0, 1), ("SUMMARY", 9, 1, 0)]);
        assert_eq!((incoming.messages.len(), copies), (3, 0));
    }

    #[test]
    fn a_row_that_is_not_whole_is_named_and_the_others_come_in() {
        let columns = columns("id role content tool_calls timestamp");
        let row = |id, content: Cell, calls: Cell, moment: Cell| Row {
            columns: &columns,
            cells: vec![Cell::Integer(id), text("assistant"), content, calls, moment],
        };
        let rows = [
            row(1, Cell::Bytes(vec![255]), Cell::Null, Cell::Real(1.5)),
            row(2, Cell::Text(vec![b'a', 255]), Cell::Null, Cell::Real(1.5)),
            row(3, text("\0json:[{"), text("[{"), text("yesterday")),
            row(4, text("\0json:\"\\u0000json:[1]\""), text("[]"), Cell::Real(1772611204.125)),
        ];
        let mut faults = Vec::new();
        let (incoming, _) = session(&head(), &rows, &mut faults);
        let told: Vec<String> =
            faults.iter().map(|fault| format!("{}: {} {}", fault.at, fault.what, fault.is_kept)).collect();
        assert_eq!(
            told,
            [
                "row 1: its content is bytes, not text false",
                "row 2: its content is not UTF-8 false",
                "row 3: its structured content is no JSON; it is kept as text true",
                "row 3: its tool_calls are no JSON; they are kept as text true",
                "row 3: its timestamp is no moment true",
            ]
        );
        let texts: Vec<String> = incoming
            .messages
            .iter()
            .map(|message| {
                let bodies = message.encoded.body_slices();
                let mut out = Vec::new();
                lcm_core::canon::write_json(&message.encoded.stored(&bodies), &mut out).unwrap();
                String::from_utf8(out).unwrap()
            })
            .collect();
        assert_eq!(
            texts,
            [
                r#"{"role":"assistant","content":"\u0000json:[{","tool_calls":"[{"}"#,
                r#"{"role":"assistant","content":"\u0000json:[1]","tool_calls":[]}"#,
            ]
        );
        assert_eq!(incoming.messages[1].seen_ms, Some(1_772_611_204_125));
    }
}
