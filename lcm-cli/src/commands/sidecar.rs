//! `lcm-cli sidecar`: LibreFang's context engine, as one process that the daemon keeps.

use std::io::Read;

use crate::error::{CliError, Outcome};
use crate::serve::{self, Config};
use crate::settings::{Layers, SettingArgs};
use crate::ui::Ui;

/// Serve a LibreFang daemon as its context engine, on standard input and output
///
/// For `engine = "sidecar"` in the settings of the daemon, instead of the plugin whose hooks are processes of their own.
/// Makes the store where there is none, and listens on the socket serve.sock in the data directory as `serve` does.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  \
    echo '{\"id\":1,\"method\":\"bootstrap\",\"params\":{}}' | lcm-cli sidecar")]
pub(crate) struct SidecarArgs {
    #[command(flatten)]
    settings: SettingArgs,
}

pub(crate) fn run(
    args: &SidecarArgs,
    layers: &Layers<'_>,
    stdin: Box<dyn Read + Send>,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    let found = layers.find(&args.settings);
    // As where `serve` starts: a wrong line in a file must not leave an agent without its memory.
    let notes: Vec<String> = found.problems.iter().cloned().chain(found.notes()).collect();
    for note in &notes {
        ui.note(note);
    }
    let has_socket = found.settings.flag("serve.socket");
    let config = Config { home: layers.home.to_owned(), settings: found.settings, notes, has_socket };
    serve::sidecar::serve(config, stdin, ui.take_output())?;
    Ok(Outcome::Done)
}
