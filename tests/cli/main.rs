//! The program, command by command: what it says to people and to programs, and how it refuses.
//!
//! Every run has its own home, a clock that stands still and no environment; `process` starts the real program where
//! only a process will do. Snapshots are under `snapshots/`; `INSTA_UPDATE=always cargo test -p lcm-tests --test cli`
//! writes them anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod import;
mod hermes;
mod reading;
mod search;
mod summaries;
mod history;
mod folding;
mod models;
mod export;
mod care;
mod settings;
mod costs;
mod doctor;
mod install;
mod librefang;
mod refusals;
mod terminal;
mod process;
mod watch;

use lcm_tests::run::{Desk, Ran};

/// The files that most tests read.
const FILES: [&str; 3] = ["import/messages.jsonl", "import/claude-code.jsonl", "import/openai.json"];

/// A desk with a store that holds [`FILES`].
fn filled() -> Desk {
    Desk::with(&FILES)
}

/// Runs a command for people and for programs; both as one text.
fn both(desk: &Desk, args: &[&str]) -> String {
    let text = desk.run(args);
    let json = desk.run(&[args, &["--format", "json"]].concat());
    assert_eq!(text.code, json.code, "both end alike");
    format!("{}\n===== json\n{}", text.all(), json.all())
}

/// The lines of a run that are JSON.
fn json_lines(ran: &Ran) -> Vec<lcm_core::Json> {
    ran.stdout.lines().map(|line| lcm_core::Json::parse(line.as_bytes()).unwrap()).collect()
}

/// A text under a key of a JSON line.
fn text_of(line: &lcm_core::Json, key: &str) -> String {
    line.get(key).and_then(lcm_core::Json::as_str).unwrap_or_else(|| panic!("no {key} in {line:?}")).to_owned()
}
