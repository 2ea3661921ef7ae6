//! Decoders of `lcm_engine::hosts`: any bytes, as each format that comes as text and as rows of a database.
//!
//! An input is a file as a user might name it. For the rows of a Hermes database the same bytes are cut into cells.
//!
//! What must hold, whatever is in the file: decoding ends; a message that comes out can be read back from its
//! canonical bytes under its id; every message lies on exactly one path, behind what that path shares with an earlier
//! one; a fault says something; and how the file was read, in one piece or in many, changes nothing.

use std::io::Read;
use std::sync::Once;

use lcm_core::{EncodedMessage, Json, canon};
use lcm_engine::hosts::hermes::{self, Cell, Row, SessionHead, SessionName};
use lcm_engine::hosts::{self, DecodeError, DecodeOptions, Decoded, Fault, Format, Incoming};

/// The target: see the module.
pub fn import(bytes: &[u8]) {
    ONE_THREAD.call_once(|| {
        // This thread does all the work: handing tiny inputs to others costs more than decoding them. When there is a
        // pool already, that one will do.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread();
        drop(pool.build_global());
    });
    let whole = decoded(&mut { bytes }, None);
    let in_pieces = decoded(&mut Pieces { rest: bytes, most: 1 + bytes.len() / 8 }, None);
    assert_eq!(whole, in_pieces, "what is decoded depends on how the file is read");
    for format in [Format::OpenAi, Format::ClaudeCode, Format::Codex, Format::Export] {
        decoded(&mut { bytes }, Some(format));
    }
    rows_become_a_session(bytes);
}

static ONE_THREAD: Once = Once::new();

/// A file that gives a few bytes at a time.
struct Pieces<'a> {
    rest: &'a [u8],
    most: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let most = room.len().min(self.most);
        self.rest.read(&mut room[..most])
    }
}

/// Decodes, checks what comes, and says it in lines that can be compared.
fn decoded(input: &mut dyn Read, format: Option<Format>) -> Vec<String> {
    let options = DecodeOptions { format, name: "fuzz".to_owned(), source: "fuzz".to_owned() };
    let mut said = Vec::new();
    let mut sink = |part: Decoded| {
        said.push(match part {
            Decoded::Session(incoming) => session_is_whole(&incoming),
            Decoded::Fault(fault) => fault_says_something(&fault),
            Decoded::Passed { what, count } => format!("passed {count} {what}"),
        });
        Ok::<(), DecodeError>(())
    };
    if let Err(error) = hosts::decode(input, &options, &mut sink) {
        said.push(error.to_string());
    }
    said
}

fn rows_become_a_session(bytes: &[u8]) {
    let columns = COLUMNS.map(str::to_owned);
    let rows: Vec<Row<'_>> =
        bytes.split(|byte| *byte == b'\n').map(|line| Row { columns: &columns, cells: cells(line) }).collect();
    let head = match rows.split_first() {
        Some((first, [])) => SessionHead::unlisted(&SessionName::of(first.cells.first().unwrap_or(&Cell::Null))),
        Some((first, _)) => SessionHead::of(first),
        None => SessionHead::unlisted(&SessionName::of(&Cell::Null)),
    };
    let mut faults = Vec::new();
    let (incoming, copies) = hermes::session(&head, &rows, &mut faults);
    session_is_whole(&incoming);
    faults.iter().for_each(|fault| drop(fault_says_something(fault)));
    assert!(incoming.messages.len() <= rows.len(), "more messages than rows");
    assert!(copies <= rows.len() as u64, "more copies than rows");
}

/// Those that the decoder asks for by name, and one that it does not know.
const COLUMNS: [&str; 17] = [
    "id",
    "session_id",
    "role",
    "content",
    "tool_calls",
    "timestamp",
    "active",
    "compacted",
    "tool_call_id",
    "tool_name",
    "reasoning_content",
    "reasoning_details",
    "observed",
    "message_uid",
    "source",
    "finish_reason",
    "another",
];

/// A tab ends a cell; its first byte says what the rest is, text by default.
fn cells(line: &[u8]) -> Vec<Cell> {
    line.split(|byte| *byte == b'\t').take(COLUMNS.len()).map(cell).collect()
}

fn cell(bytes: &[u8]) -> Cell {
    let number = |digits: &[u8]| str::from_utf8(digits).ok().map(str::to_owned);
    match bytes.split_first() {
        None => Cell::Null,
        Some((b'i', rest)) => Cell::Integer(number(rest).and_then(|text| text.parse().ok()).unwrap_or(1)),
        Some((b'r', rest)) => Cell::Real(number(rest).and_then(|text| text.parse().ok()).unwrap_or(0.5)),
        Some((b'b', rest)) => Cell::Bytes(rest.to_vec()),
        Some((b'j', rest)) => Cell::Text([b"\0json:", rest].concat()),
        _ => Cell::Text(bytes.to_vec()),
    }
}

/// Checks a session and says it in one line.
fn session_is_whole(incoming: &Incoming) -> String {
    let mut line = format!("{} from {}, known {}:", incoming.name, incoming.source, incoming.known);
    for message in &incoming.messages {
        message_reads_back(&message.encoded);
        is_object_or_empty(&message.volatile);
        for revision in &message.revisions {
            message_reads_back(&revision.encoded);
            is_object_or_empty(&revision.volatile);
        }
        line.push_str(&format!(" {:.12}+{}", message.id(), message.revisions.len()));
    }
    let mut on_paths = vec![0_usize; incoming.messages.len()];
    let mut lengths = Vec::new();
    for path in &incoming.paths {
        let shared = path.parent.map_or(0, |(parent, shared)| {
            let length: Option<&usize> = lengths.get(parent);
            assert!(length.is_some_and(|length| shared <= *length), "a path shares what its parent does not have");
            shared
        });
        lengths.push(shared + path.own.len());
        path.own.iter().for_each(|index| on_paths[*index] += 1);
        line.push_str(&format!(" path {:?} {:?}", path.parent, path.own));
    }
    if !incoming.paths.is_empty() {
        assert!(on_paths.iter().all(|count| *count == 1), "a message on no path, or on two: {on_paths:?}");
    }
    line
}

fn message_reads_back(encoded: &EncodedMessage) {
    let bodies = encoded.body_slices();
    let stored = encoded.stored(&bodies);
    assert_eq!(stored.check(&encoded.id), Ok(()), "hashes are those of the bytes");
    assert!(matches!(canon::decode(&stored), Ok(Json::Object(_))), "a message is an object");
}

fn is_object_or_empty(volatile: &[u8]) {
    assert!(volatile.is_empty() || matches!(Json::parse(volatile), Ok(Json::Object(_))), "volatile keys are an object");
}

fn fault_says_something(fault: &Fault) -> String {
    assert!(!fault.what.trim().is_empty(), "a fault without a word");
    format!("{}: {} ({})", fault.at, fault.what, fault.is_kept)
}
