//! `lcm-cli hook`: one request of LibreFang in, one answer out.
//!
//! The host starts the program under the name `lcm-hook`, and without arguments; that way nothing but `hook` runs
//! (`crate::hook::main`). Here is the same for people who name a data directory.

use std::io::Read;
use std::path::Path;

use lcm_engine::spool::REQUEST_BYTES_MAX;

use crate::error::{CliError, Outcome};
use crate::hook::{Hook, Input};
use crate::paths::Env;
use crate::ui::Ui;

/// Answer one request of a LibreFang hook
///
/// Reads the request, asks whoever serves in the data directory and writes the answer. With nobody serving it leaves the
/// request in the spool of the data directory and answers on its own. Exits 0 whatever comes in.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  echo '{\"type\":\"bootstrap\"}' | lcm-cli hook --dry")]
pub(crate) struct HookArgs {
    /// Leave nothing in the spool, and say on standard error what became of the request
    #[arg(long)]
    dry: bool,
}

pub(crate) fn run(
    args: &HookArgs,
    home: &Path,
    env: &Env<'_>,
    stdin: Box<dyn Read + Send>,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    let hook = Hook::new(Some(home.to_owned()), env, args.dry);
    let mut bytes = Vec::new();
    let bound = u64::try_from(REQUEST_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    // What cannot be read has nothing more.
    stdin.take(bound).read_to_end(&mut bytes).ok();
    let input = if bytes.len() > REQUEST_BYTES_MAX { Input::TooLong } else { Input::Whole(bytes) };
    let mut answered = hook.answer(&input);
    answered.answer.push(b'\n');
    ui.bytes(&answered.answer)?;
    if let Some(told) = answered.told {
        ui.note(told);
    }
    Ok(Outcome::Done)
}
