//! What can be asked: global options and the list of commands. The doc comments are the help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::commands::{
    check, compress, config, describe, doctor, expand, export, grep, hook, import, install, log, mcp, pin, repair,
    replay, select, serve, sessions, show, sidecar, status, undo, unfold, why,
};

/// Keep every message of an agent, find it again, give it back
#[derive(Parser, Debug)]
#[command(
    name = "lcm-cli",
    bin_name = "lcm-cli",
    version,
    max_term_width = 100,
    after_help = "Examples:\n  lcm-cli import session.jsonl\n  lcm-cli grep 'exit code [1-9]'\n  lcm-cli show 17\n\n\
                  Exit codes: 0 done, 1 nothing found, 2 wrong use, 3 the store, 4 done in part, 70 our bug"
)]
pub(crate) struct Parsed {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Args, Debug)]
pub(crate) struct GlobalArgs {
    /// Data directory
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        help = "Data directory; else LCM_HOME, else lcm in your data folder",
        help_heading = "Options of every command"
    )]
    pub(crate) home: Option<PathBuf>,
    /// Text for people, JSON lines for programs
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        help_heading = "Options of every command"
    )]
    pub(crate) format: FormatArg,
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Options of every command")]
    pub(crate) color: ColorArg,
    /// Show everything at once, also on a terminal
    #[arg(long, global = true, help_heading = "Options of every command")]
    pub(crate) no_pager: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    Auto,
    Always,
    Never,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    Import(import::ImportArgs),
    Sessions(sessions::SessionsArgs),
    Log(log::LogArgs),
    Show(show::ShowArgs),
    Grep(Box<grep::GrepArgs>),
    Expand(expand::ExpandArgs),
    Describe(describe::DescribeArgs),
    Why(why::WhyArgs),
    Compress(compress::CompressArgs),
    Unfold(unfold::UnfoldArgs),
    Undo(undo::UndoArgs),
    Pin(pin::PinArgs),
    Unpin(pin::UnpinArgs),
    Replay(replay::ReplayArgs),
    Select(select::SelectArgs),
    Serve(serve::ServeArgs),
    Sidecar(sidecar::SidecarArgs),
    Hook(hook::HookArgs),
    Mcp(mcp::McpArgs),
    Status(status::StatusArgs),
    Doctor(doctor::DoctorArgs),
    Export(export::ExportArgs),
    Check(check::CheckArgs),
    Config(config::ConfigArgs),
    Repair(repair::RepairArgs),
    Install(install::InstallArgs),
    Uninstall(install::UninstallArgs),
}

/// Reads the arguments.
pub(crate) fn parse(args: Vec<OsString>, columns: Option<usize>) -> Result<Parsed, clap::Error> {
    let mut command = Parsed::command();
    if let Some(columns) = columns {
        command = command.term_width(columns);
    }
    Parsed::from_arg_matches(&command.try_get_matches_from(args)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_agree_with_each_other() {
        Parsed::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Parsed::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has none", command.get_name());
        }
    }
}
