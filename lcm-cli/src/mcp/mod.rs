//! Serving the Model Context Protocol on standard input and output, for any program that speaks it.
//!
//! The protocol is the official SDK's, on one thread; the engine is asked on the threads of `serve`, whose store and
//! socket these are too. The engine decides; here it is connected.
//!
//! Modules in reading order: `scope` says whose messages a call reads, `lines` is what comes in and goes out, `room`
//! answers, `tools` and `resources` do it, `sampling` asks the client's model.

mod scope;
mod lines;
mod room;
mod tools;
mod resources;
mod sampling;

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use rmcp::ServiceExt;
use tokio::runtime;

use self::lines::Lines;
use self::room::Room;
pub(crate) use self::scope::OwnScope;
use crate::error::CliError;
use crate::serve::{self, Server, no_thread};

/// Bytes of one text that is given, in UTF-8. Hosts put more than 16,384 aside and show a stub.
const TEXT_BYTES_MAX: usize = 16_000;

/// How long what is to be written at the end may wait for somebody who reads it.
const LAST_LINES_MAX: Duration = Duration::from_secs(2);

/// What a process goes by.
pub(crate) struct Config {
    pub(crate) serve: serve::Config,
    /// What is read by calls that do not say for whom they are made.
    pub(crate) scope: OwnScope,
}

/// Serves until nothing more comes in.
///
/// # Errors
/// When the machine gives no threads.
pub(crate) fn serve(
    config: Config,
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + Send>,
) -> Result<(), CliError> {
    let no_thread = no_thread("mcp");
    let server = Server::start_beside(config.serve)?;
    // The first call finds it open, and a hook its socket; the client is greeted meanwhile.
    let opener = server.clone();
    let open = move || {
        if let Err(failure) = opener.open() {
            tracing::warn!("{}", failure.message);
        }
    };
    let opening = thread::Builder::new().name("lcm-open".to_owned()).spawn(open).map_err(no_thread)?;
    let runtime = runtime::Builder::new_current_thread().enable_time().build().map_err(no_thread)?;
    let (lines, written) = Lines::start(input, output).map_err(no_thread)?;
    let gone = lines.gone();
    let room = Room::new(server.clone(), config.scope, gone);
    runtime.block_on(async {
        match room.serve(lines).await {
            Ok(running) => {
                if let Err(error) = running.waiting().await {
                    tracing::error!(%error, "serving ended by a bug");
                }
            }
            // It was gone before it said who it is.
            Err(error) => tracing::debug!(%error, "no client"),
        }
    });
    runtime.shutdown_background();
    // A client that has gone may have left without reading; then nothing is waited for.
    written.recv_timeout(LAST_LINES_MAX).ok();
    // Else its socket would be made behind our back. It ends in any case, and a panic in it was told.
    drop(opening.join());
    server.close();
    Ok(())
}
