//! Who asks: the program as a function of its arguments, environment and streams.
//!
//! [`run`] is all of it; [`main`] gives it the real world. A command asks the service and hands what it says to the
//! `Ui`; it decides nothing else. Modules in reading order: `args` is what can be asked, `commands` answer,
//! `import` opens what people have, `folding` says how lists are folded, `paths` says where the store is, `settings` what
//! is set and where, `summarize` asks models, `serve` speaks the wire, `mcp` the Model Context Protocol, `hook` is a process
//! that asks whoever serves, `target` writes files, `ui` shows, `error`
//! explains.

mod args;
mod commands;
mod import;
mod hosts;
mod folding;
mod hook;
mod json;
mod mcp;
mod moment;
mod paths;
mod serve;
mod settings;
mod summarize;
mod target;
mod ui;
mod error;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use jiff::tz::TimeZone;

use crate::error::CliError;

pub use error::exit;

/// Looks up an environment variable.
pub type Env = dyn Fn(&str) -> Option<OsString>;

/// Everything a run may see of the world.
pub struct World {
    /// The arguments, the program's name first.
    pub args: Vec<OsString>,
    /// Looks up an environment variable.
    pub env: Box<Env>,
    /// The names of the environment variables there are; what is set to nobody's use is told.
    pub variables: Vec<OsString>,
    /// Where `-` reads from.
    pub stdin: Box<dyn Read + Send>,
    /// Data goes here.
    pub stdout: Stream,
    /// Talk goes here.
    pub stderr: Stream,
    /// The time: milliseconds since 1970 UTC.
    pub now_ms: i64,
    /// The zone in which people read times; `None` for that of the machine.
    pub time_zone: Option<TimeZone>,
    /// Columns of the terminal, when that is fixed.
    pub columns: Option<usize>,
}

/// An output and what is known about it.
pub struct Stream {
    /// Where to write.
    pub writer: Box<dyn Write + Send>,
    /// Whether a person looks at it.
    pub is_terminal: bool,
    /// Whether it may be coloured.
    pub takes_color: bool,
}

/// Runs the program in the real world.
#[must_use]
pub fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    // Before anything else: a hook runs under a filter that kills whoever makes a call too many.
    if let Some(code) = hook::main(&args) {
        return code;
    }
    let color = |choice| choice != anstream::ColorChoice::Never;
    let (stdout, stderr) = (io::stdout(), io::stderr());
    let world = World {
        args: hook::as_command(args),
        env: Box::new(|name| std::env::var_os(name)),
        variables: std::env::vars_os().map(|(name, _)| name).collect(),
        stdin: Box::new(io::stdin()),
        now_ms: jiff::Timestamp::now().as_millisecond(),
        time_zone: None,
        columns: None,
        stdout: Stream {
            is_terminal: stdout.is_terminal(),
            takes_color: color(anstream::AutoStream::choice(&stdout)),
            writer: Box::new(stdout),
        },
        stderr: Stream {
            is_terminal: stderr.is_terminal(),
            takes_color: color(anstream::AutoStream::choice(&stderr)),
            writer: Box::new(stderr),
        },
    };
    log_when_asked();
    leave_out_what_is_contained();
    // A panic is our bug, never the user's; it has been printed where it happened.
    ExitCode::from(catch_unwind(AssertUnwindSafe(|| run(world))).unwrap_or(exit::BUG))
}

/// Keeps quiet about panics that the store turns into errors: those are told as such.
fn leave_out_what_is_contained() {
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !lcm_engine::is_contained() {
            told(panic);
        }
    }));
}

/// Sets up logging when `LCM_LOG` asks for it; it costs start-up time otherwise.
fn log_when_asked() {
    if let Ok(filter) = std::env::var("LCM_LOG") {
        let subscriber = tracing_subscriber::fmt().with_writer(io::stderr).with_env_filter(filter);
        // A second call in one process keeps the first.
        drop(subscriber.try_init());
    }
}

/// Runs the program; gives its exit code.
pub fn run(world: World) -> u8 {
    let World { args, env, variables, stdin, mut stdout, mut stderr, now_ms, time_zone, columns } = world;
    let parsed = match args::parse(args, columns) {
        Ok(parsed) => parsed,
        Err(error) => return show_usage(error, &mut stdout, &mut stderr),
    };
    let surroundings = ui::Surroundings { now_ms, time_zone, tz: env("TZ"), pager: env("PAGER") };
    let mut ui = ui::Ui::new(stdout, stderr, &parsed.global, surroundings);
    let done =
        commands::run(parsed, &*env, &variables, stdin, &mut ui).and_then(|outcome| ui.finish().map(|()| outcome));
    match done {
        Ok(outcome) => outcome.exit_code(),
        Err(CliError::Closed) => exit::DONE,
        Err(error) => {
            ui.error(&error);
            error.exit_code()
        }
    }
}

/// Help and version go to stdout, wrong use to stderr.
fn show_usage(mut error: clap::Error, stdout: &mut Stream, stderr: &mut Stream) -> u8 {
    // What was typed is shown in it.
    let typed = |(kind, value): (_, &ContextValue)| match value {
        ContextValue::String(text) => Some((kind, ui::clean_line(text).into_owned())),
        _ => None,
    };
    let typed: Vec<(ContextKind, String)> = error.context().filter_map(typed).collect();
    for (kind, text) in typed {
        error.insert(kind, ContextValue::String(text));
    }
    let stream = if error.use_stderr() { stderr } else { stdout };
    let rendered = error.render();
    let text = if stream.takes_color { rendered.ansi().to_string() } else { rendered.to_string() };
    // Nobody is left to be told when this fails.
    let written = stream.writer.write_all(text.as_bytes()).and_then(|()| stream.writer.flush());
    drop(written);
    if error.use_stderr() { exit::USAGE } else { exit::DONE }
}
