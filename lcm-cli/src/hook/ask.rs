//! The hook as a client of the wire: two lines out, two answers in, on the socket of whoever serves.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use lcm_core::Json;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::{ANSWER_BYTES_MAX, json_text};
use crate::serve::socket;

/// What an answer to the second call begins with; a brace ends it.
const ANSWER: &[u8] = br#"{"jsonrpc":"2.0","id":2,"result":"#;
/// The longest path that a socket has.
const PATH_BYTES_MAX: usize = 107;
/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;
/// The longest line that is read: the longest answer in its envelope.
const LINE_BYTES_MAX: u64 = (2 << 20) as u64;
/// How often a door that was closed is tried: whoever serves lets only so many in at once.
const TRIES_MAX: u32 = 4;
/// How long to wait before that.
const PAUSE: Duration = Duration::from_millis(25);

/// Why nobody answered.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("nobody serves ({0})")]
    Nobody(#[source] io::Error),
    #[error("whoever serves closed the connection")]
    Closed,
    #[error("no answer came in time")]
    Late,
    #[error("the answer is too long for the host")]
    TooLong,
    #[error("it is no request")]
    NotSent,
    #[error("whoever serves refused: {0}")]
    Refused(String),
}

/// Asks whoever serves in `home`; gives the answer's text as it came.
pub(super) fn ask(home: &Path, request: &[u8], agent_id: Option<&str>, until: Instant) -> Result<Vec<u8>, Unanswered> {
    let mut tries = 1;
    loop {
        let stream = reach(home, until)?;
        match talk(&stream, request, agent_id, until) {
            // What was heard twice is taken in once.
            Err(Unanswered::Closed) if tries < TRIES_MAX => {}
            told => return told,
        }
        tries += 1;
        thread::sleep(PAUSE.min(left(until).ok_or(Unanswered::Late)?));
    }
}

/// Connects, without waiting longer than there is time: the queue of a process that is stopped can be full.
fn reach(home: &Path, until: Instant) -> Result<UnixStream, Unanswered> {
    let time = left(until).ok_or(Unanswered::Late)?;
    let connected = || -> io::Result<UnixStream> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Send, Some(time))?;
        let path = home.join(socket::NAME);
        if path.as_os_str().as_bytes().len() <= PATH_BYTES_MAX {
            connect(&socket, &SocketAddrUnix::new(&path)?)?;
        } else {
            let folder = File::open(home)?;
            connect(&socket, &SocketAddrUnix::new(socket::short_name(&folder).join(socket::NAME))?)?;
        }
        Ok(socket.into())
    };
    connected().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Unanswered::Late,
        _ => Unanswered::Nobody(error),
    })
}

/// Says the two lines and hears the two answers.
fn talk(stream: &UnixStream, request: &[u8], agent_id: Option<&str>, until: Instant) -> Result<Vec<u8>, Unanswered> {
    let broken = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Unanswered::Late,
        _ => Unanswered::Closed,
    };
    let time_ms = left(until).ok_or(Unanswered::Late)?.as_millis();
    let mut timed = Timed { stream, until };
    timed.write_all(&lines(request, agent_id, time_ms)).map_err(broken)?;
    let mut input = BufReader::with_capacity(READ_BYTES, timed);
    loop {
        let mut line = Vec::new();
        (&mut input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(broken)?;
        if line.pop() != Some(b'\n') {
            return Err(if line.is_empty() { Unanswered::Closed } else { Unanswered::TooLong });
        }
        if let Some(told) = answer_in(line) {
            return told;
        }
    }
}

/// Both lines, to be written at once.
fn lines(request: &[u8], agent_id: Option<&str>, time_ms: u128) -> Vec<u8> {
    let mut lines = Vec::with_capacity(request.len() + 512);
    lines.extend_from_slice(concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol":1,"client":{"name":"lcm-hook","version":""#,
        env!("CARGO_PKG_VERSION"),
        "\"},\"host\":\"librefang\"}}\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"hook","params":{"deadline_ms":"#,
    ).as_bytes());
    lines.extend_from_slice(time_ms.to_string().as_bytes());
    if let Some(agent_id) = agent_id {
        lines.extend_from_slice(br#","env":{"agent_id":"#);
        lines.extend_from_slice(&json_text(agent_id));
        lines.push(b'}');
    }
    lines.extend_from_slice(br#","request":"#);
    lines.extend_from_slice(request);
    lines.extend_from_slice(b"}}\n");
    lines
}

/// The answer to the second call, when this line tells it; `None` for one that is about something else.
fn answer_in(mut line: Vec<u8>) -> Option<Result<Vec<u8>, Unanswered>> {
    // A window is not read to be written again.
    if line.starts_with(ANSWER) && line.ends_with(b"}") {
        line.truncate(line.len() - 1);
        line.drain(..ANSWER.len());
        return Some(checked(line));
    }
    let Ok(json) = Json::parse(&line) else {
        return Some(Err(Unanswered::Refused("what it says is no JSON".to_owned())));
    };
    // One without an id is for a line that could not be read; that of the first call is why the second fails.
    if let Some(error) = json.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").and_then(Json::as_str).unwrap_or("it does not say why");
        return Some(Err(Unanswered::Refused(message.to_owned())));
    }
    let is_ours = json.get("id").and_then(Json::as_u64) == Some(2) && json.get("method").is_none();
    is_ours.then(|| checked(json.get("result").unwrap_or(&Json::Null).to_text()))
}

/// An answer that the host takes.
fn checked(answer: Vec<u8>) -> Result<Vec<u8>, Unanswered> {
    if answer.len() > ANSWER_BYTES_MAX {
        return Err(Unanswered::TooLong);
    }
    if answer.starts_with(b"{") { Ok(answer) } else { Err(Unanswered::Refused("its answer is no object".to_owned())) }
}

/// What is left of the time; `None` when it is over.
fn left(until: Instant) -> Option<Duration> {
    Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

/// A stream that is waited for until a moment, and not longer.
struct Timed<'a> {
    stream: &'a UnixStream,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        left(self.until).ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> Option<Result<String, String>> {
        let told = answer_in(line.as_bytes().to_vec())?;
        Some(told.map(|answer| String::from_utf8(answer).unwrap()).map_err(|error| error.to_string()))
    }

    #[test]
    fn an_answer_is_taken_out_of_its_envelope_as_it_is() {
        let ours = Some(Ok(r#"{ "a": 1.0 }"#.to_owned()));
        assert_eq!(told(r#"{"jsonrpc":"2.0","id":2,"result":{ "a": 1.0 }}"#), ours);
        // Another way to say it.
        assert_eq!(told(r#"{"id":2,"result":{"a":1.0},"jsonrpc":"2.0"}"#), Some(Ok(r#"{"a":1.0}"#.to_owned())));
        assert_eq!(told(r#"{"jsonrpc":"2.0","id":1,"result":{"protocol":1}}"#), None);
        assert_eq!(told(r#"{"jsonrpc":"2.0","id":2,"method":"host/summarize","params":{}}"#), None);
    }

    #[test]
    fn whatever_else_is_said_is_a_refusal() {
        let refused = |line: &str| told(line).unwrap().unwrap_err();
        assert!(
            refused(r#"{"id":2,"error":{"code":-32601,"message":"there is no verb hook"}}"#).contains("no verb hook")
        );
        assert!(refused(r#"{"id":1,"error":{"code":-32002}}"#).contains("does not say why"));
        assert!(refused(r#"{"id":null,"error":{"code":-32001,"message":"too long"}}"#).contains("too long"));
        assert!(refused("garbage").contains("no JSON"));
        assert!(refused(r#"{"jsonrpc":"2.0","id":2,"result":null}"#).contains("no object"));
        let long = format!(r#"{{"jsonrpc":"2.0","id":2,"result":{{"a":"{}"}}}}"#, "x".repeat(1 << 20));
        assert!(refused(&long).contains("too long"));
    }

    #[test]
    fn the_lines_are_calls_of_the_wire() {
        let lines = lines(br#"{"type":"ingest","agent_id":"a"}"#, Some("a\"b"), 7);
        let lines: Vec<&[u8]> = lines.split(|byte| *byte == b'\n').collect();
        let [first, second, b""] = lines[..] else { panic!("{lines:?}") };
        assert_eq!(Json::parse(first).unwrap().get("method").and_then(Json::as_str), Some("initialize"));
        let second = Json::parse(second).unwrap();
        let params = second.get("params").unwrap();
        assert_eq!(params.get("request").and_then(|request| request.get("agent_id")?.as_str()), Some("a"));
        assert_eq!(params.get("env").and_then(|env| env.get("agent_id")?.as_str()), Some("a\"b"));
        assert_eq!(params.get("deadline_ms").and_then(Json::as_u64), Some(7));
    }
}
