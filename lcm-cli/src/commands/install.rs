//! `lcm-cli install` and `lcm-cli uninstall`: putting lcm into an agent's home, and taking it out.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use lcm_core::Json;

use super::doctor;
use crate::error::{CliError, Outcome};
use crate::hosts::files::Step;
use crate::hosts::hermes::{Asked, HermesHome};
use crate::hosts::librefang::{LibreFangHome, Way};
use crate::json;
use crate::moment;
use crate::paths::Env;
use crate::ui::{self, Ui};

/// Let an agent use lcm
///
/// Writes the plugin and this program into the agent's home and names lcm in its settings, of which a copy is kept. Asks the
/// agent's own code whether it finds lcm then. Can be repeated, and is what brings an installed lcm up to date.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  lcm-cli install hermes\n  lcm-cli install hermes --profile work --dry-run\n  lcm-cli install librefang"
)]
pub(crate) struct InstallArgs {
    #[command(subcommand)]
    host: InstallHost,
}

#[derive(Subcommand, Debug)]
enum InstallHost {
    /// The Hermes Agent; `--home` is its home, else `HERMES_HOME`, else `~/.hermes`
    Hermes {
        #[command(flatten)]
        home: HomeArgs,
        /// The agent's Python, to ask it whether it finds lcm; else that of the `hermes` on the path
        #[arg(long, value_name = "FILE")]
        python: Option<PathBuf>,
    },
    /// LibreFang; `--home` is its home, else `LIBREFANG_HOME`, else `~/.librefang`
    #[command(name = "librefang")]
    LibreFang {
        /// As one process that the daemon keeps, instead of one for each hook; for a daemon that runs as root
        #[arg(long)]
        sidecar: bool,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
}

/// Let an agent do without lcm again
///
/// Takes lcm out of the agent's settings and plugins. What lcm has kept stays where it is.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  lcm-cli uninstall hermes")]
pub(crate) struct UninstallArgs {
    #[command(subcommand)]
    host: UninstallHost,
}

#[derive(Subcommand, Debug)]
enum UninstallHost {
    /// The Hermes Agent; `--home` is its home, else `HERMES_HOME`, else `~/.hermes`
    Hermes(HomeArgs),
    /// LibreFang; `--home` is its home, else `LIBREFANG_HOME`, else `~/.librefang`
    #[command(name = "librefang")]
    LibreFang {
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Args, Debug)]
struct HomeArgs {
    /// A profile of the agent
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// Where the agent's home is, when it is named, and the environment.
pub(crate) type Where<'a> = (Option<&'a Path>, &'a Env<'a>);

pub(crate) fn install(args: &InstallArgs, (home, env): Where<'_>, ui: &mut Ui) -> Result<Outcome, CliError> {
    let (HomeArgs { profile, dry_run }, python) = match &args.host {
        InstallHost::Hermes { home, python } => (home, python),
        InstallHost::LibreFang { sidecar, dry_run } => {
            let way = if *sidecar { Way::Sidecar } else { Way::Plugin };
            return install_librefang((home, env), way, *dry_run, ui);
        }
    };
    let home = HermesHome::find(home, profile.as_deref(), env)?;
    show(&home.install(&this_program()?, &stamp(ui), *dry_run)?, *dry_run, ui)?;
    if *dry_run {
        return Ok(Outcome::Done);
    }
    let asked = home.ask(python.as_deref(), env);
    let (is_found, what) = verdict(asked.as_ref());
    show(&[Step { part: "agent", what }], false, ui)?;
    ui.note(match is_found {
        true => "next: start the agent anew; /lcm in a conversation tells how it stands, `lcm-cli doctor hermes` looks at all of this again",
        false => "see `lcm-cli doctor hermes`, and the agent's own log for what it says of the plugin lcm",
    });
    Ok(if is_found || asked.is_none() { Outcome::Done } else { Outcome::Partly })
}

fn install_librefang((home, env): Where<'_>, way: Way, is_dry: bool, ui: &mut Ui) -> Result<Outcome, CliError> {
    let home = LibreFangHome::find(home, env)?;
    show(&home.install(&this_program()?, way, &stamp(ui), is_dry)?, is_dry, ui)?;
    if is_dry {
        return Ok(Outcome::Done);
    }
    let mut findings: Vec<_> = home.look_at_owner().into_iter().collect();
    findings.extend(home.ask(Some(way), env)?);
    let outcome = doctor::tell(&findings, ui)?;
    ui.note("next: start the daemon anew, then `lcm-cli doctor librefang` looks at all of this again");
    Ok(if outcome == Outcome::Damaged { Outcome::Partly } else { outcome })
}

/// The program that runs.
fn this_program() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(|source| CliError::File { what: "find", path: "lcm-cli".into(), source })
}

pub(crate) fn uninstall(args: &UninstallArgs, (home, env): Where<'_>, ui: &mut Ui) -> Result<Outcome, CliError> {
    let HomeArgs { profile, dry_run } = match &args.host {
        UninstallHost::Hermes(home) => home,
        UninstallHost::LibreFang { dry_run } => {
            let home = LibreFangHome::find(home, env)?;
            show(&home.uninstall(&stamp(ui), *dry_run)?, *dry_run, ui)?;
            if !*dry_run {
                doctor::tell(&home.ask(None, env)?, ui)?;
                ui.note("next: start the daemon anew");
            }
            return Ok(Outcome::Done);
        }
    };
    let home = HermesHome::find(home, profile.as_deref(), env)?;
    show(&home.uninstall(&stamp(ui), *dry_run)?, *dry_run, ui)?;
    Ok(Outcome::Done)
}

/// What the agent's own code says, as a sentence; and whether lcm is used then.
pub(crate) fn verdict(asked: Option<&Asked>) -> (bool, String) {
    let Some(asked) = asked else {
        return (
            false,
            "its Python was not found, so it was not asked whether it finds lcm: name it with --python".to_owned(),
        );
    };
    let host = asked.host.as_deref().unwrap_or("the agent");
    let is_configured = asked.configured.as_deref() == Some("lcm");
    match (&asked.engine, &asked.why) {
        (Some(engine), _) if engine == "lcm" && is_configured && asked.is_available => {
            (true, format!("{host} finds lcm and its program"))
        }
        (Some(engine), _) if engine == "lcm" && is_configured => {
            (false, format!("{host} finds lcm, but that does not find its program"))
        }
        (Some(engine), _) if engine == "lcm" => {
            (false, format!("{host} finds lcm, but its settings name another engine"))
        }
        (_, Some(why)) => (false, format!("{host} does not find lcm: {why}")),
        _ => (false, format!("{host} does not find lcm")),
    }
}

/// A moment in the name of a file.
fn stamp(ui: &Ui) -> String {
    let now = moment::for_programs(ui.now_ms()).unwrap_or_default();
    now.split('.').next().unwrap_or_default().chars().filter(|c| c.is_ascii_alphanumeric()).collect()
}

fn show(steps: &[Step], is_dry: bool, ui: &mut Ui) -> Result<(), CliError> {
    for Step { part, what } in steps {
        if ui.is_json() {
            let entries = [("part", json::text(part)), ("what", json::text(what)), ("dry_run", Json::Bool(is_dry))];
            ui.json(&Json::object(entries))?;
            continue;
        }
        let mut line = ui.text();
        line.styled(ui::BOLD, format_args!("{part:<10}")).plain(ui::clean_line(what));
        line.plain(if is_dry { " (not done)" } else { "" });
        ui.show(&line)?;
    }
    Ok(())
}
