//! `lcm-cli sidecar`: LibreFang's context engine, as one process that the daemon keeps.

use std::io::Read;

use crate::error::{CliError, Outcome};
use crate::serve;
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
    let config = super::serve::config(&args.settings, layers, ui);
    serve::sidecar::serve(config, stdin, ui.take_output())?;
    Ok(Outcome::Done)
}
