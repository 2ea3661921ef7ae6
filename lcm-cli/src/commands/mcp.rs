//! `lcm-cli mcp`: the tools and conversations for any program that speaks the Model Context Protocol.

use std::io::Read;

use crate::error::{CliError, Outcome};
use crate::mcp::{self, Config, OwnScope};
use crate::settings::{Layers, SettingArgs};
use crate::ui::Ui;

/// Serve an MCP client, on standard input and output
///
/// Offers the tools that look into everything that was said (docs/tools.md) and the conversations as resources. Makes the
/// store where there is none, and listens on the socket serve.sock in the data directory as `serve` does. Ends when nothing
/// more comes in.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  claude mcp add lcm -- lcm-cli mcp --scope agent=main")]
pub(crate) struct McpArgs {
    /// What the client reads: owner for all that is kept, else agent=NAME, agent=NAME,person=NAME or session=NAME
    #[arg(long, value_name = "SCOPE", value_parser = OwnScope::parse)]
    scope: Option<OwnScope>,
    #[command(flatten)]
    settings: SettingArgs,
}

pub(crate) fn run(
    args: &McpArgs,
    layers: &Layers<'_>,
    stdin: Box<dyn Read + Send>,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    let serve = super::serve::config(&args.settings, layers, ui);
    let scope = match &args.scope {
        Some(scope) => scope.clone(),
        // Here it must: a scope that is misspelt would else be all that there is.
        None => OwnScope::parse(serve.settings.text("mcp.scope")).map_err(|why| {
            CliError::usage(format!("mcp.scope: {why}"), "name the scope with --scope, or set mcp.scope")
        })?,
    };
    mcp::serve(Config { serve, scope }, stdin, ui.take_output())?;
    Ok(Outcome::Done)
}
