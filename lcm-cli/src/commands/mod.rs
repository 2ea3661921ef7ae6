//! The commands, one file each, and what they share: opening the store, and finding what a text means.

pub(crate) mod check;
pub(crate) mod compress;
pub(crate) mod config;
pub(crate) mod describe;
pub(crate) mod doctor;
pub(crate) mod expand;
pub(crate) mod export;
pub(crate) mod grep;
pub(crate) mod hook;
pub(crate) mod import;
pub(crate) mod install;
pub(crate) mod log;
pub(crate) mod mcp;
pub(crate) mod pin;
pub(crate) mod repair;
pub(crate) mod replay;
pub(crate) mod select;
pub(crate) mod serve;
pub(crate) mod sidecar;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod status;
pub(crate) mod undo;
pub(crate) mod unfold;
pub(crate) mod why;

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;

use lcm_core::Handle;
use lcm_core::op::Change;
use lcm_engine::redact::Redactor;
use lcm_engine::service::{Branches, Entry, HistoryChanged, OwnerPattern, Owners, Scope, Service, Session};
use lcm_engine::{Engine, OpenOptions};
use tempfile::TempDir;

use crate::args::{Command, Parsed};
use crate::error::{CliError, Outcome};
use crate::paths::{self, Env};
use crate::settings::Layers;
use crate::ui::{self, Text, Ui};

/// Candidates that are listed when a text is ambiguous.
const CANDIDATES_MAX: usize = 10;

/// What every op written by this program says of who asked.
pub(crate) const BY: &str = concat!("lcm-cli ", env!("CARGO_PKG_VERSION"));

/// Runs a command.
pub(crate) fn run(
    parsed: Parsed,
    env: &Env<'_>,
    variables: &[OsString],
    stdin: Box<dyn Read + Send>,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    let asked = parsed.global.home.as_deref();
    match &parsed.command {
        // Whose home is another one's.
        Command::Install(args) => return install::install(args, (asked, env), ui),
        Command::Uninstall(args) => return install::uninstall(args, (asked, env), ui),
        Command::Doctor(args) if args.is_of_a_host() => return doctor::of_host(args, (asked, env), ui),
        _ => {}
    }
    let home = paths::home(asked, env)?;
    let open = || open(&home, Make::No);
    let layers = Layers { home: &home, env, variables };
    match parsed.command {
        // What can be refused without a store is refused before one is made.
        Command::Import(args) => import::run(args, &layers, stdin, ui),
        Command::Sessions(args) => sessions::run(&args, &open()?, ui),
        Command::Log(args) => log::run(&args, &open()?, ui),
        Command::Show(args) => show::run(&args, &open()?, ui),
        Command::Grep(args) => grep::run(&args, &open()?, ui),
        Command::Expand(args) => expand::run(&args, &open()?, ui),
        Command::Describe(args) => describe::run(&args, &open()?, ui),
        Command::Status(args) => status::run(&args, &layers, &open()?, ui),
        Command::Export(args) => export::run(&args, &open()?, ui),
        Command::Check(args) => check::run(&args, &open()?, ui),
        Command::Config(args) => config::run(&args, &layers, ui),
        Command::Repair(args) => repair::run(&args, &layers, ui),
        Command::Compress(args) => compress::run(&args, &layers, stdin, ui),
        Command::Unfold(args) => unfold::run(&args, &open()?, ui),
        Command::Undo(args) => undo::run(&args, &open()?, ui),
        Command::Pin(args) => pin::pin(&args, &open()?, ui),
        Command::Unpin(args) => pin::unpin(&args, &open()?, ui),
        Command::Why(args) => why::run(&args, &open()?, ui),
        Command::Replay(args) => replay::run(&args, parsed.global.home.as_deref(), &layers, stdin, ui),
        Command::Select(args) => select::run(&args, &layers, &open()?, ui),
        Command::Hook(args) => hook::run(&args, &home, env, stdin, ui),
        Command::Serve(args) => serve::run(&args, &layers, stdin, ui),
        Command::Sidecar(args) => sidecar::run(&args, &layers, stdin, ui),
        Command::Mcp(args) => mcp::run(&args, &layers, stdin, ui),
        Command::Doctor(_) => doctor::run(&layers, |make| self::open(&home, make), ui),
        Command::Install(_) | Command::Uninstall(_) => unreachable!("they were carried out above"),
    }
}

/// Whether a store is made where there is none.
pub(crate) enum Make {
    Yes,
    No,
}

pub(crate) fn open(home: &Path, make: Make) -> Result<Engine, CliError> {
    let create = matches!(make, Make::Yes);
    Ok(Engine::open(home, OpenOptions { create, ..OpenOptions::default() })?)
}

/// Opens a store into which messages are taken, without the secrets that the redactor knows.
fn open_to_take_in(home: &Path, make: Make, redactor: Option<Redactor>) -> Result<Engine, CliError> {
    let engine = open(home, make)?;
    Ok(match redactor {
        Some(redactor) => engine.with_redactor(redactor),
        None => engine,
    })
}

/// A folder for a store that is thrown away at the end.
fn scratch() -> Result<TempDir, CliError> {
    let fail = |source| CliError::File { what: "make a folder in", path: std::env::temp_dir(), source };
    tempfile::Builder::new().prefix("lcm-").tempdir().map_err(fail)
}

/// What an op did, in words.
fn what_happened(what: &Change) -> String {
    match what {
        Change::Ingest { first, last, .. } if first == last => format!("message {first}"),
        Change::Ingest { first, last, .. } => format!("messages {first} to {last}"),
        Change::Branch { to, shared, .. } => {
            format!("goes on with timeline {to}, which shares {}", ui::counted(*shared, "message"))
        }
        Change::Revise { arrival, .. } => format!("message {arrival} was rewritten"),
        Change::Fold { summary } => format!("{} is shown", Handle::summary(*summary)),
        Change::Unfold { summary } => format!("{} is unfolded", Handle::summary(*summary)),
        Change::Stage { summaries: 0, .. } => "a model was asked, and no new summary came of it".to_owned(),
        Change::Stage { summaries: 1, .. } => "1 summary was made".to_owned(),
        Change::Stage { summaries, .. } => format!("{} summaries were made", ui::thousands(*summaries)),
        Change::Pin { arrival } => format!("message {arrival} is pinned"),
        Change::Unpin { arrival } => format!("message {arrival} is pinned no longer"),
        Change::Undo { op } => format!("op {op} is undone"),
        _ => "something that this version has no words for".to_owned(),
    }
}

/// What a change of the view did to its cost, as the end of a sentence.
fn cost_change(changed: &HistoryChanged) -> String {
    let op = changed.op.id;
    if changed.tokens_before == changed.tokens_after {
        return format!(" (op {op})");
    }
    let before = ui::counted(changed.tokens_before, "token");
    format!(": {before} became {} (op {op})", ui::thousands(changed.tokens_after))
}

/// Whose messages, and of which sessions.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ScopeArgs {
    /// Only messages of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Only messages of this person
    #[arg(long, value_name = "NAME")]
    pub(crate) person: Option<String>,
}

impl ScopeArgs {
    /// The owner of the data directory sees all, unless asked for less.
    pub(crate) fn scope(&self) -> Scope {
        let everybody = self.agent.is_none() && self.person.is_none();
        let pattern = OwnerPattern { agent: self.agent.clone(), person: self.person.clone() };
        Scope {
            owners: if everybody { Owners::All } else { Owners::Matching(vec![pattern]) },
            sessions: Vec::new(),
            branches: Branches::All,
        }
    }

    /// The same, in these sessions only.
    pub(crate) fn in_sessions(&self, sessions: &[String], service: &dyn Service) -> Result<Scope, CliError> {
        let scope = self.scope();
        let mut ids = Vec::with_capacity(sessions.len());
        for text in sessions {
            ids.push(one_session(service, &scope, text)?.id);
        }
        Ok(scope.in_sessions(ids))
    }
}

/// What a text names.
pub(crate) enum Target {
    Session(Box<Session>),
    Node(Box<Entry>),
}

/// Reads how many of something are wanted, for which none makes no sense.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(error.to_string()),
    }
}

/// The session a text means. `#` is followed by a number, whatever sessions are called.
pub(crate) fn one_session(service: &dyn Service, scope: &Scope, text: &str) -> Result<Session, CliError> {
    if let Some(number) = text.strip_prefix('#')
        && (number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()))
    {
        let what = format!("{text:?} is no session: # is followed by the number of one");
        return Err(CliError::usage(what, "`lcm-cli sessions` lists the numbers; a name stands without #"));
    }
    let mut found = service.find_sessions(scope, text)?;
    match (found.pop(), found.is_empty()) {
        (Some(session), true) => Ok(session),
        (None, _) => Err(CliError::NotFound {
            what: format!("no session is called {text:?}"),
            hint: "`lcm-cli sessions` lists them",
        }),
        (Some(last), false) => {
            found.push(last);
            Err(ambiguous(text, found.len(), found.iter().map(session_line)))
        }
    }
}

/// The node a text means.
pub(crate) fn one_node(service: &dyn Service, scope: &Scope, text: &str) -> Result<Entry, CliError> {
    let mut found = service.find_nodes(scope, text, CANDIDATES_MAX + 1)?;
    match (found.pop(), found.is_empty()) {
        (Some(node), true) => Ok(node),
        (None, _) => Err(CliError::NotFound {
            what: format!("no message or summary is called {text:?}"),
            hint: "a number, `msg_` or `sum_` and the beginning of an id, or `node N` names one; `lcm-cli grep` finds them",
        }),
        (Some(last), false) => {
            found.push(last);
            Err(ambiguous(text, found.len(), found.iter().map(node_line)))
        }
    }
}

/// The node or session a text means. A node wins, because `#` always names a session.
pub(crate) fn one_target(service: &dyn Service, scope: &Scope, text: &str) -> Result<Target, CliError> {
    if text.starts_with('#') {
        return one_session(service, scope, text).map(|session| Target::Session(Box::new(session)));
    }
    let nodes = service.find_nodes(scope, text, CANDIDATES_MAX + 1)?;
    if let [node] = nodes.as_slice() {
        return Ok(Target::Node(Box::new(node.clone())));
    }
    let sessions = service.find_sessions(scope, text)?;
    match (nodes.as_slice(), sessions.as_slice()) {
        ([], [session]) => Ok(Target::Session(Box::new(session.clone()))),
        ([], []) => Err(CliError::NotFound {
            what: format!("no message, summary or session is called {text:?}"),
            hint: "`lcm-cli sessions` lists the sessions, `lcm-cli log SESSION` their messages",
        }),
        (nodes, sessions) => {
            let lines = nodes.iter().map(node_line).chain(sessions.iter().map(session_line));
            Err(ambiguous(text, nodes.len() + sessions.len(), lines))
        }
    }
}

fn session_line(session: &Session) -> String {
    format!("#{} {} (agent {}, person {})", session.id, session.name, session.owner.agent, session.owner.person)
}

fn node_line(node: &Entry) -> String {
    match node.summary {
        Some(number) => format!("node {number} {} in session #{}", node.handle, node.session),
        None => format!("{} {} {} in session #{}", node.number, node.handle, node.role.name(), node.session),
    }
}

fn ambiguous(text: &str, count: usize, lines: impl Iterator<Item = String>) -> CliError {
    let things = if count > CANDIDATES_MAX { "many things".to_owned() } else { format!("{count} things") };
    let mut candidates: Vec<String> = lines.take(CANDIDATES_MAX).collect();
    if count > CANDIDATES_MAX {
        candidates.push("…".to_owned());
    }
    CliError::Ambiguous { what: format!("{text:?} can mean {things}"), candidates }
}

/// The line that stands over a message or summary.
pub(crate) fn heading(text: &mut Text, entry: &Entry, ui: &Ui) {
    match entry.summary {
        Some(number) => text.styled(ui::HANDLE, format_args!("node {number}")),
        None => text.styled(ui::HANDLE, entry.number),
    };
    text.plain("  ").plain(ui.time(entry.seen_ms)).plain("  ");
    text.styled(ui::BOLD, if entry.summary.is_some() { "summary" } else { entry.role.name() });
    text.plain("  ").styled(ui::HANDLE, entry.handle);
}
