//! What comes in and goes out: JSON-RPC, one message a line.
//!
//! A thread reads, another writes; between them and the SDK stand channels with bounds, so that a client which never reads
//! is not read from either. What the SDK could not take is answered here: lines that are too long, no JSON, no message.
//! It uses a JSON library that refuses half surrogates and bytes that are no UTF-8; they are replaced, as whoever shows
//! them would do.
//!
//! Invariant: nothing but whole lines of the protocol is ever written.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::io::{self, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use lcm_engine::wire::frame::{self, Line};
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::serve::{Failure, lock};

/// Bytes of a line. Calls are small; what a client's model writes is larger, and never so large.
const LINE_BYTES_MAX: usize = 16 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Lines that wait between the threads.
const WAITING_MAX: usize = 32;
/// Calls that run at once; another one is refused.
const CALLS_MAX: usize = 256;

/// A connection to a client.
pub(super) struct Lines {
    input: mpsc::Receiver<Line>,
    output: mpsc::Sender<Vec<u8>>,
    /// Answers of ours that are not with the writer yet.
    waiting: VecDeque<Vec<u8>>,
    /// Calls that are not answered.
    running: Arc<Mutex<HashSet<RequestId>>>,
    /// Whether the client has said something that begins a conversation.
    is_begun: bool,
    gone: watch::Sender<bool>,
}

impl Lines {
    /// Starts the threads; gives also what tells when all is written that was to be.
    ///
    /// # Errors
    /// When the machine gives none.
    pub(super) fn start(
        input: Box<dyn Read + Send>,
        mut output: Box<dyn Write + Send>,
    ) -> io::Result<(Self, Receiver<()>)> {
        let (heard, hears) = mpsc::channel(WAITING_MAX);
        let read = move || {
            let mut input = BufReader::with_capacity(READ_BYTES, input);
            loop {
                match frame::next_line(&mut input, LINE_BYTES_MAX) {
                    Ok(Line::End) => return,
                    Ok(line) => {
                        if heard.blocking_send(line).is_err() {
                            return;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot read the input any more");
                        return;
                    }
                }
            }
        };
        let (say, mut said) = mpsc::channel::<Vec<u8>>(WAITING_MAX);
        let (ending, written) = std::sync::mpsc::channel();
        let write = move || {
            // Dropped with the thread, which whoever waits for it is told by.
            let _ending: Sender<()> = ending;
            while let Some(line) = said.blocking_recv() {
                // That nobody reads any more shows at the input, too.
                if output.write_all(&line).and_then(|()| output.flush()).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("lcm-read".to_owned()).spawn(read)?;
        thread::Builder::new().name("lcm-write".to_owned()).spawn(write)?;
        let lines = Self {
            input: hears,
            output: say,
            waiting: VecDeque::new(),
            running: Arc::default(),
            is_begun: false,
            gone: watch::Sender::new(false),
        };
        Ok((lines, written))
    }

    /// Tells when nothing more comes in.
    pub(super) fn gone(&self) -> watch::Receiver<bool> {
        self.gone.subscribe()
    }

    fn refuse(&mut self, id: &Value, code: i64, message: &str) {
        let answer = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        let mut line = answer.to_string().into_bytes();
        line.push(b'\n');
        self.waiting.push_back(line);
    }

    /// A line as a message; `None` where there is nothing in it for anybody but us.
    fn read(&mut self, line: Line) -> Option<ClientJsonRpcMessage> {
        let line = match line {
            Line::Text(line) if line.trim_ascii().is_empty() => return None,
            Line::Text(line) => line,
            Line::TooLong => {
                let why = format!("a line is longer than {LINE_BYTES_MAX} bytes: send less at once");
                self.refuse(&Value::Null, Failure::LINE_TOO_LONG, &why);
                return None;
            }
            Line::End => return None,
        };
        let line = mended(&line);
        match serde_json::from_slice::<ClientJsonRpcMessage>(&line) {
            Ok(message) => self.admitted(message),
            Err(_) => {
                match serde_json::from_slice::<Value>(&line) {
                    Err(error) => self.refuse(&Value::Null, Failure::NO_JSON, &format!("the line is no JSON: {error}")),
                    Ok(value) => self.complain(&value),
                }
                None
            }
        }
    }

    /// What is said of JSON that is no message.
    fn complain(&mut self, value: &Value) {
        let Value::Object(entries) = value else {
            let why = if value.is_array() { "batches are not taken" } else { "it is no object" };
            return self.refuse(&Value::Null, Failure::NO_REQUEST, &format!("the line is no request: {why}"));
        };
        let id = entries.get("id").filter(|id| id.is_i64() || id.is_string());
        if id.is_none() && entries.get("id").is_none() && entries.contains_key("method") {
            // A notification that nobody understands wants no answer.
            return;
        }
        if !entries.contains_key("method") && (entries.contains_key("result") || entries.contains_key("error")) {
            tracing::debug!("an answer that nobody asked for");
            return;
        }
        let why =
            "the line is no request: it needs jsonrpc \"2.0\", an id that is a whole number or a text, and a method";
        self.refuse(id.unwrap_or(&Value::Null), Failure::NO_REQUEST, why);
    }

    /// Lets a message through to the SDK, which takes it for granted that a client begins properly.
    fn admitted(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        match &message {
            ClientJsonRpcMessage::Request(request) => {
                let mut running = lock(&self.running);
                let why: Option<String> = if running.len() >= CALLS_MAX {
                    Some(format!("{CALLS_MAX} calls are running: wait for one to be answered"))
                } else if running.contains(&request.id) {
                    Some("a call with this id is not answered yet: give every call an id of its own".to_owned())
                } else {
                    None
                };
                if let Some(why) = why {
                    drop(running);
                    let id = serde_json::to_value(&request.id).unwrap_or(Value::Null);
                    self.refuse(&id, Failure::NO_REQUEST, &why);
                    return None;
                }
                running.insert(request.id.clone());
                drop(running);
                // A probe begins nothing.
                self.is_begun |=
                    !matches!(request.request, ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_));
            }
            ClientJsonRpcMessage::Notification(notice) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notice.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // Nobody answers it any more.
                    lock(&self.running).remove(id);
                }
                if !self.is_begun {
                    return None;
                }
            }
            _ if !self.is_begun => return None,
            _ => {}
        }
        Some(message)
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(&mut self, item: ServerJsonRpcMessage) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let line = serde_json::to_vec(&item).map(|mut line| {
            line.push(b'\n');
            line
        });
        let answered = match item {
            ServerJsonRpcMessage::Response(response) => Some(response.id),
            ServerJsonRpcMessage::Error(error) => error.id,
            _ => None,
        };
        let (output, running) = (self.output.clone(), self.running.clone());
        async move {
            let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
            let sent = output.send(line?).await.map_err(|_| gone());
            // Only what the writer has taken counts no more: a client that does not read must not be read from.
            if let Some(id) = answered {
                lock(&running).remove(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        // It may be dropped at each `await` and begun anew, so nothing is held across one but in `self`.
        loop {
            while !self.waiting.is_empty() {
                let Ok(permit) = self.output.reserve().await else {
                    self.waiting.clear();
                    break;
                };
                if let Some(line) = self.waiting.pop_front() {
                    permit.send(line);
                }
            }
            let Some(line) = self.input.recv().await else {
                // Whoever waits for the client's model waits in vain.
                self.gone.send_replace(true);
                return None;
            };
            if let Some(message) = self.read(line) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.input.close();
        Ok(())
    }
}

/// A line without what the SDK's JSON library cannot carry.
fn mended(line: &[u8]) -> Cow<'_, [u8]> {
    let line = match std::str::from_utf8(line) {
        Ok(_) => Cow::Borrowed(line),
        Err(_) => Cow::Owned(String::from_utf8_lossy(line).into_owned().into_bytes()),
    };
    let halves = halves(&line);
    if halves.is_empty() {
        return line;
    }
    let mut line = line.into_owned();
    for at in halves {
        line[at..at + 4].copy_from_slice(b"fffd");
    }
    Cow::Owned(line)
}

/// Where the digits of half surrogates stand that have no other half.
fn halves(line: &[u8]) -> Vec<usize> {
    let escaped = |at: usize| -> Option<u16> {
        let digits = line.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(next) = line[at..].iter().position(|byte| *byte == b'\\') {
        at += next;
        match escaped(at) {
            Some(0xd800..=0xdbff) if matches!(escaped(at + 6), Some(0xdc00..=0xdfff)) => at += 12,
            Some(0xd800..=0xdfff) => {
                found.push(at + 2);
                at += 6;
            }
            Some(_) => at += 6,
            // Another escape: what stands behind the backslash is no beginning of one.
            None => at = (at + 2).min(line.len()),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_surrogates_are_replaced_and_whole_ones_stay() {
        for (line, expected) in [
            (r#"{"a":"\ud83d"}"#, r#"{"a":"\ufffd"}"#),
            (r#"{"a":"\ud83d\ude00 \ude00\uD83D\uD83D\uDE00"}"#, r#"{"a":"\ud83d\ude00 \ufffd\ufffd\uD83D\uDE00"}"#),
            (r#"{"a":"\\ud83d \\\ud83d"}"#, r#"{"a":"\\ud83d \\\ufffd"}"#),
            (r#"{"a":"\"#, r#"{"a":"\"#),
            (r#"{"a":"\ud8"#, r#"{"a":"\ud8"#),
        ] {
            assert_eq!(&*mended(line.as_bytes()), expected.as_bytes(), "{line}");
        }
        assert_eq!(&*mended(b"\"\xff\""), "\"\u{fffd}\"".as_bytes());
    }

    proptest! {
        #[test]
        fn whatever_our_own_json_takes_the_library_takes_mended(
            said in "(\\\\u[dD][89abcdefABCDEF][0-9a-f]{2}|\\\\\\\\|\\\\n|[a-z ]|é|🦀){0,12}",
        ) {
            let line = format!("{{\"a\":\"{said}\"}}");
            prop_assert!(lcm_core::Json::parse(line.as_bytes()).is_ok());
            prop_assert!(serde_json::from_slice::<Value>(&mended(line.as_bytes())).is_ok(), "{}", line);
        }

        #[test]
        fn no_bytes_make_it_panic(line in prop::collection::vec(any::<u8>(), 0..60)) {
            let _mended = mended(&line);
        }
    }
}
