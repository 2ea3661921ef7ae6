//! A hook of LibreFang: one request in, one answer out, in a process that lives for some milliseconds.
//!
//! It opens no store, because its host's system-call filter kills whoever locks a file. Whoever serves answers for it
//! (`ask`); with nobody serving it leaves the request in the spool and answers on its own. Modules in reading order:
//! `place` is where the data directory is, `request` what may be sent, `ask` the client of the socket, `pipes` standard
//! input and output as this host wants them.
//!
//! What always holds: standard input is read to its end first (the host writes all of it before it reads, outside of
//! its time limit); the exit code is 0 and the answer one line of JSON, whatever came in; nothing is written to standard
//! error before the answer, because an older host loses half of one that it is reading then.
//!
//! Nothing here makes a call that the filter kills, and nothing starts a thread or a runtime.

mod place;
mod request;
mod ask;
mod pipes;

use std::ffi::OsString;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lcm_core::Json;
use lcm_engine::hosts::librefang;
use lcm_engine::spool;

use self::ask::Unanswered;
use crate::paths::Env;

/// What the file name of the program begins with when it is a hook.
const NAME: &str = "lcm-hook";
/// The argument with which nothing is kept and all is told.
const DRY: &str = "--dry";
/// How long a call takes at most. Well below the time limits that people give hooks, beyond which the host kills us.
const TIME_MAX: Duration = Duration::from_secs(8);
/// Another limit, in milliseconds.
const TIME_VARIABLE: &str = "LCM_HOOK_TIMEOUT_MS";
/// An answer that changes nothing, to whatever was asked.
const NEUTRAL: &[u8] = br#"{"type":"ok"}"#;
/// The longest answer, its line feed apart: the host kills a hook that writes more than 1 MiB.
const ANSWER_BYTES_MAX: usize = (1 << 20) - 1;

/// One call.
pub(crate) struct Hook {
    /// The data directory, when there is one to be found.
    home: Option<PathBuf>,
    /// Whose conversation it is, as the host's environment says.
    agent_id: Option<String>,
    until: Instant,
    is_dry: bool,
}

/// What comes of a call.
pub(crate) struct Answered {
    /// JSON in one line, without its end.
    pub(crate) answer: Vec<u8>,
    /// What people are told, after the answer; a sentence.
    pub(crate) told: Option<String>,
}

/// What came in.
pub(crate) enum Input {
    Whole(Vec<u8>),
    /// More than is taken.
    TooLong,
    /// What came until the time was over.
    Late(Vec<u8>),
}

/// Runs as a hook where the arguments say so; `None` where they say something else.
pub(crate) fn main(args: &[OsString]) -> Option<ExitCode> {
    let rest = match args {
        [program, rest @ ..] if is_hook(program) => rest,
        [_, command, rest @ ..] if command == "hook" => rest,
        _ => return None,
    };
    // Whoever gives other arguments is a person.
    if rest.iter().any(|argument| argument != DRY) {
        return None;
    }
    // The host would show a panic's text to its user.
    std::panic::set_hook(Box::new(|_| {}));
    pipes::widen_output();
    let program = args.first().map(Path::new);
    let env = |name: &str| std::env::var_os(name);
    let hook = Hook::new(place::home(program, &env), &env, !rest.is_empty());
    let input = pipes::read_input(hook.until);
    let answered = catch_unwind(AssertUnwindSafe(|| hook.answer(&input)))
        .unwrap_or_else(|_| Answered { answer: NEUTRAL.to_vec(), told: Some("it failed by a bug of ours".to_owned()) });
    pipes::write_output(answered.answer);
    if let Some(told) = answered.told {
        pipes::tell(&format!("{NAME}: {told}"));
    }
    Some(ExitCode::SUCCESS)
}

/// The arguments as those of the program's command, where its name says that it is a hook.
pub(crate) fn as_command(args: Vec<OsString>) -> Vec<OsString> {
    match args.split_first() {
        Some((program, rest)) if is_hook(program) => {
            [program.clone(), "hook".into()].into_iter().chain(rest.iter().cloned()).collect()
        }
        _ => args,
    }
}

fn is_hook(program: &OsString) -> bool {
    let name = Path::new(program).file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(NAME.as_bytes())
}

impl Hook {
    /// A call that begins now.
    pub(crate) fn new(home: Option<PathBuf>, env: &Env<'_>, is_dry: bool) -> Self {
        let text = |name: &str| env(name).map(|value| value.to_string_lossy().into_owned());
        let time_max = text(TIME_VARIABLE).and_then(|ms| ms.trim().parse().ok()).map(Duration::from_millis);
        let begun = Instant::now();
        let until = begun.checked_add(time_max.unwrap_or(TIME_MAX)).unwrap_or(begun + TIME_MAX);
        Self { home, agent_id: text("LIBREFANG_AGENT_ID"), until, is_dry }
    }

    /// Answers, whatever came in.
    pub(crate) fn answer(&self, input: &Input) -> Answered {
        let neutral = |why: &dyn Display| Answered {
            answer: NEUTRAL.to_vec(),
            told: Some(format!("the request cannot be read: {why}")),
        };
        let bytes = match input {
            Input::Whole(bytes) => bytes,
            Input::TooLong => return neutral(&format_args!("it has more than {} bytes", spool::REQUEST_BYTES_MAX)),
            Input::Late(bytes) if bytes.is_empty() => return neutral(&"nothing came in time"),
            // It may be whole all the same: the host only has to close the pipe.
            Input::Late(bytes) => bytes,
        };
        let asked = self.home.as_deref().map(|home| (home, self.ask(home, bytes)));
        if let Some((home, Ok(answer))) = asked {
            let told = self.is_dry.then(|| format!("answered by whoever serves in {}", home.display()));
            return Answered { answer, told };
        }
        if let Err(why) = request::check(bytes) {
            return neutral(&why);
        }
        let told = match asked {
            Some((home, Err(why))) => self.keep(home, bytes, &why),
            _ => Some("nothing is kept: there is no data directory: set LCM_HOME, or LIBREFANG_HOME".to_owned()),
        };
        on_its_own(bytes, told)
    }

    /// What whoever serves makes of a request.
    fn ask(&self, home: &Path, bytes: &[u8]) -> Result<Vec<u8>, Unanswered> {
        let line = request::line(bytes).ok_or(Unanswered::NotSent)?;
        ask::ask(home, &line, self.agent_id.as_deref(), self.until)
    }

    /// Leaves a request to whoever serves next; gives what is to be told of that.
    fn keep(&self, home: &Path, bytes: &[u8], why: &Unanswered) -> Option<String> {
        if self.is_dry {
            return Some(format!("the request would go into the spool of {}: {why}", home.display()));
        }
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let left = spool::write(home, i64::try_from(now_ms).unwrap_or(i64::MAX), bytes);
        left.err().map(|error| format!("the request is not kept in {}: {error}", home.display()))
    }
}

/// The answer to a request that nobody else answers.
fn on_its_own(bytes: &[u8], told: Option<String>) -> Answered {
    let answer = librefang::alone(bytes);
    // One that is too long is none to the host: it goes by its own rules then, as it does without an answer.
    let answer = if answer.len() > ANSWER_BYTES_MAX { NEUTRAL.to_vec() } else { answer };
    Answered { answer, told }
}

/// A text as JSON.
fn json_text(text: &str) -> Vec<u8> {
    Json::from(text).to_text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_known_by_its_name_or_its_command() {
        let args = |args: &[&str]| args.iter().map(OsString::from).collect::<Vec<_>>();
        for name in ["lcm-hook", "/f/plugins/lcm/hooks/lcm-hook", "hooks/lcm-hook-0.1"] {
            assert!(is_hook(&name.into()), "{name}");
        }
        for name in ["lcm-cli", "lcm", "", "/lcm-hook/lcm-cli"] {
            assert!(!is_hook(&name.into()), "{name}");
        }
        // What a person asks is no request.
        assert!(main(&args(&["lcm-hook", "--help"])).is_none());
        assert!(main(&args(&["lcm-cli", "hook", "--help"])).is_none());
        assert!(main(&args(&["lcm-cli", "log"])).is_none());
        assert!(main(&[]).is_none());
        assert_eq!(as_command(args(&["x/lcm-hook", "-h"])), args(&["x/lcm-hook", "hook", "-h"]));
        assert_eq!(as_command(args(&["lcm-cli", "-h"])), args(&["lcm-cli", "-h"]));
    }
}
