//! The shared workload: sessions of messages, one JSON object a line, or made by its generator.

use std::io::{BufRead, BufReader, Error, ErrorKind, Result};
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    session: &'a str,
    ts: f64,
    #[serde(borrow)]
    msg: &'a RawValue,
}

/// A message as its host says it: JSON text, and when, in milliseconds since 1970 UTC.
#[derive(Clone, Debug)]
pub struct Said {
    /// One JSON object.
    pub json: String,
    /// When.
    pub seen_ms: i64,
}

/// A session of the workload.
#[derive(Clone, Debug)]
pub struct Session {
    /// What its host calls it.
    pub name: String,
    /// What was said, in order.
    pub messages: Vec<Said>,
}

/// Reads a workload.
///
/// # Errors
/// When the file cannot be read or a line has another shape.
pub fn read(path: &Path) -> Result<Vec<Session>> {
    let file = BufReader::with_capacity(1 << 20, std::fs::File::open(path)?);
    collect(file.lines())
}

/// Lets the generator make one session of 2,000 messages.
///
/// # Errors
/// When it cannot be run.
pub fn make(generator: &Path, seed: u32, number: u32) -> Result<Vec<Said>> {
    let output = Command::new("python3")
        .arg(generator)
        .args(["--seed", &seed.to_string(), "--one-session", &number.to_string()])
        .output()?;
    let sessions = collect(output.stdout.lines())?;
    Ok(sessions.into_iter().flat_map(|session| session.messages).collect())
}

/// The generator's queries by kind.
///
/// # Errors
/// When it cannot be run.
pub fn queries(generator: &Path) -> Result<Vec<(String, Vec<String>)>> {
    let output = Command::new("python3").arg(generator).arg("--queries").output()?;
    let map: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&output.stdout)?;
    let texts = |value: serde_json::Value| serde_json::from_value(value).map_err(Error::from);
    map.into_iter().map(|(kind, value)| Ok((kind, texts(value)?))).collect()
}

fn collect(lines: impl Iterator<Item = Result<String>>) -> Result<Vec<Session>> {
    let mut sessions: Vec<Session> = Vec::new();
    for line in lines {
        let line = line?;
        let said: Line<'_> = serde_json::from_str(&line).map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
        if sessions.last().is_none_or(|session| session.name != said.session) {
            sessions.push(Session { name: said.session.to_owned(), messages: Vec::new() });
        }
        let messages = &mut sessions.last_mut().expect("one was just pushed").messages;
        #[allow(clippy::cast_possible_truncation, reason = "moments of this workload fit a thousand times over")]
        messages.push(Said { json: said.msg.get().to_owned(), seen_ms: (said.ts * 1000.0) as i64 });
    }
    Ok(sessions)
}
