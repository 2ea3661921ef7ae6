//! `lcm-cli serve`: the wire on standard input and output, for one host process.

use std::io::Read;

use crate::error::{CliError, Outcome};
use crate::serve::{self, Config};
use crate::settings::{Layers, SettingArgs};
use crate::ui::Ui;

/// Serve a program that runs agents, on standard input and output
///
/// Speaks JSON-RPC, one message a line (docs/wire.md), and listens on the socket serve.sock in the data directory for
/// whoever cannot start a program. Makes the store where there is none. Ends when nothing more comes in.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  \
    echo '{\"id\":1,\"method\":\"initialize\",\"params\":{\"protocol\":1,\"client\":{\"name\":\"me\"}}}' | lcm-cli serve")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: SettingArgs,
}

pub(crate) fn run(
    args: &ServeArgs,
    layers: &Layers<'_>,
    stdin: Box<dyn Read + Send>,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    let config = config(&args.settings, layers, ui);
    serve::serve(config, stdin, ui.take_output())?;
    Ok(Outcome::Done)
}

/// What a process that serves goes by; what is odd about the settings is told.
pub(crate) fn config(settings: &SettingArgs, layers: &Layers<'_>, ui: &mut Ui) -> Config {
    let found = layers.find(settings);
    // A host is not left without its agent's memory for a wrong line in a file: it is told, and the layer below holds.
    let notes: Vec<String> = found.problems.iter().cloned().chain(found.notes()).collect();
    for note in &notes {
        ui.note(note);
    }
    let has_socket = found.settings.flag("serve.socket");
    Config { home: layers.home.to_owned(), settings: found.settings, notes, has_socket }
}
