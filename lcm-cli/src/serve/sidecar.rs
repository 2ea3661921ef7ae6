//! LibreFang's long-lived engine protocol on standard input and output: what its hooks ask, in one process.
//!
//! A line is `{"id", "method", "params"}`; its answer is `{"id", "ok"}` or `{"id", "error"}`, in any order. The host tells
//! more than a hook hears (the tools beside a list) and less (no tool's result before it is cut, and nothing when it
//! compacts). What cannot be carried out goes into the spool, as where nobody serves, and what is answered then is what of
//! the window fits.

use std::io::{BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use lcm_core::{Json, JsonString};
use lcm_engine::hosts::librefang;
use lcm_engine::spool;
use lcm_engine::wire::frame::{self, Line};

use super::connection::lock;
use super::{Config, LAST_CALLS_MAX, READ_BYTES, Server};
use crate::error::CliError;
use crate::moment;

/// Bytes of one line: the host writes no longer ones, and takes none.
const LINE_BYTES_MAX: usize = 16 << 20;

/// Serves until nothing more comes in.
///
/// # Errors
/// When the machine gives no threads.
pub(crate) fn serve(
    config: Config,
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + Send>,
) -> Result<(), CliError> {
    let server = Server::start_beside(config)?;
    let output = Arc::new(Mutex::new(output));
    let mut input = BufReader::with_capacity(READ_BYTES, input);
    // Each call holds a sender until it is answered; when none is left all are.
    let (running, answered) = mpsc::channel::<()>();
    loop {
        let line = match frame::next_line(&mut input, LINE_BYTES_MAX) {
            Ok(Line::Text(line)) if line.trim_ascii().is_empty() => continue,
            Ok(Line::Text(line)) => line,
            Ok(Line::TooLong) => {
                tracing::warn!("a line of more than {LINE_BYTES_MAX} bytes was passed over");
                continue;
            }
            Ok(Line::End) => break,
            Err(error) => {
                tracing::warn!(%error, "cannot read the input any more");
                break;
            }
        };
        let (calling, output, running) = (server.clone(), output.clone(), running.clone());
        server.carry_out(false, move || {
            let answer = catch_unwind(AssertUnwindSafe(|| calling.answer_line(&line)))
                .unwrap_or_else(|_| Some(refused(&Json::Null, "that failed by a bug of ours")));
            if let Some(answer) = answer {
                let mut output = lock(&output);
                // Nobody reads any more: then nothing more will come in either.
                output.write_all(&answer).and_then(|()| output.flush()).ok();
            }
            drop(running);
        });
    }
    drop(running);
    answered.recv_timeout(LAST_CALLS_MAX).ok();
    server.close();
    Ok(())
}

impl Server {
    /// The answer to a line; `None` for one to which there is none.
    fn answer_line(self: &Arc<Self>, line: &[u8]) -> Option<Vec<u8>> {
        let Ok(call) = Json::parse(line) else {
            tracing::warn!("a line is no JSON and was passed over");
            return None;
        };
        let id = call.get("id").cloned().unwrap_or(Json::Null);
        let method = call.get("method").and_then(Json::as_str).unwrap_or_default().to_owned();
        if !["bootstrap", "ingest", "assemble", "after_turn"].contains(&method.as_str()) {
            return Some(refused(&id, "there is no such method: use bootstrap, ingest, assemble or after_turn"));
        }
        let answered = self.open().map_err(|failure| failure.message).and_then(|engine| {
            self.answer_hook(&engine, self.settings(), None, request_of(&method, call)).map_err(|error| error.told())
        });
        let text = match answered {
            Ok(text) => text,
            Err(why) => {
                tracing::warn!("{method} was left in the spool: {why}");
                let text = request_of(&method, Json::parse(line).unwrap_or(Json::Null)).to_text();
                if method != "bootstrap"
                    && let Err(error) = spool::write(&self.config.home, moment::now_ms(), &text)
                {
                    return Some(refused(&id, &format!("{why}, and the spool cannot be written: {error}")));
                }
                librefang::alone(&text)
            }
        };
        let mut answer = br#"{"id":"#.to_vec();
        id.write(&mut answer);
        answer.extend_from_slice(br#","ok":"#);
        answer.extend_from_slice(&text);
        answer.extend_from_slice(b"}\n");
        Some(answer)
    }
}

/// A call as the request of a hook.
fn request_of(method: &str, call: Json) -> Json {
    let mut request: Vec<(JsonString, Json)> = vec![("type".into(), method.into())];
    if let Json::Object(entries) = call
        && let Some((_, Json::Object(params))) = entries.into_iter().rfind(|(key, _)| key.as_bytes() == b"params")
    {
        request.extend(params.into_iter().filter(|(key, _)| key.as_bytes() != b"type"));
    }
    Json::Object(request)
}

fn refused(id: &Json, why: &str) -> Vec<u8> {
    let mut answer = Json::object([("id", id.clone()), ("error", why.into())]).to_text();
    answer.push(b'\n');
    answer
}
