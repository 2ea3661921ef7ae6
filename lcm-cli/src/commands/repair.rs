//! `lcm-cli repair`: make anew what is derived.

use lcm_core::Json;
use lcm_engine::service::{RewriteRequest, Rewritten, Scope, Service, Session};

use super::{BY, Make, one_session};
use crate::error::{CliError, Outcome};
use crate::folding;
use crate::json;
use crate::settings::{Layers, SettingArgs};
use crate::ui::{self, Ui, Unit};

/// Make anew what is derived from the messages
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  lcm-cli repair index\n  lcm-cli repair summaries")]
pub(crate) struct RepairArgs {
    #[command(subcommand)]
    part: Part,
}

#[derive(clap::Subcommand, Debug)]
enum Part {
    /// Throw the search index away and make it anew
    ///
    /// No message is touched; searches find everything meanwhile.
    #[command(after_help = "Example:\n  lcm-cli repair index")]
    Index,
    Summaries(SummariesArgs),
}

/// Let the model write the summaries that were written without one
///
/// Asks the model of the settings about the same messages once more, and shows what it says from now on. The summaries
/// before stay, and `undo` shows them again; a host that goes on with a list that holds them goes on with them. Exits 1
/// when there are none, and 4 when some could not be written.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  lcm-cli repair summaries\n  lcm-cli repair summaries '#3'")]
struct SummariesArgs {
    /// Session (`#3`, name); all of them unless named
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    settings: SettingArgs,
}

pub(crate) fn run(args: &RepairArgs, layers: &Layers<'_>, ui: &mut Ui) -> Result<Outcome, CliError> {
    match &args.part {
        Part::Index => index(&super::open(layers.home, Make::No)?, ui),
        Part::Summaries(args) => summaries(args, layers, ui),
    }
}

fn summaries(args: &SummariesArgs, layers: &Layers<'_>, ui: &mut Ui) -> Result<Outcome, CliError> {
    let settings = layers.settings(&args.settings, ui)?;
    let Some(model) = settings.model()? else {
        let what = "no summary model is set, so there is nobody to write summaries anew";
        return Err(CliError::usage(what, "set summary.base_url and summary.model; docs/settings.md tells how"));
    };
    let service = super::open_to_take_in(layers.home, Make::No, settings.redactor()?)?;
    let client = folding::client(model, &settings, layers.home, ui)?;
    let everything = Scope::everything();
    let sessions = match &args.session {
        Some(text) => vec![one_session(&service, &everything, text)?],
        None => service.sessions(&everything)?.into_iter().map(|entry| entry.session).collect(),
    };
    let (mut degraded, mut rewritten) = (0, 0);
    for session in sessions {
        let request = RewriteRequest {
            scope: everything.clone(),
            session: session.id,
            options: settings.compress_options(None),
            summarizer: &client,
            by: BY.to_owned(),
            now_ms: ui.now_ms(),
        };
        let done = service.rewrite(&request)?;
        if done.degraded > 0 {
            tell(&session, &done, ui)?;
        }
        degraded += done.degraded;
        rewritten += u64::try_from(done.rewritten.len()).unwrap_or(u64::MAX);
    }
    if degraded == 0 {
        ui.note("every summary that is shown is a model's already");
    }
    Ok(match (degraded, rewritten) {
        (0, _) => Outcome::Nothing,
        (degraded, rewritten) if rewritten < degraded => Outcome::Partly,
        _ => Outcome::Done,
    })
}

/// What came of one session.
fn tell(session: &Session, done: &Rewritten, ui: &mut Ui) -> Result<(), CliError> {
    let count = u64::try_from(done.rewritten.len()).unwrap_or(u64::MAX);
    if ui.is_json() {
        let pair = |(before, now): &(_, _)| {
            let text = |handle: &lcm_core::Handle| json::text(&handle.to_string());
            Json::object([("before", text(before)), ("now", text(now))])
        };
        ui.json(&Json::object([
            ("session", session.id.0.into()),
            ("session_name", json::text(&session.name)),
            ("degraded", done.degraded.into()),
            ("rewritten", Json::Array(done.rewritten.iter().map(pair).collect())),
            ("model_calls", done.model_calls.into()),
            ("model_tokens", done.model_tokens.into()),
            ("failures", Json::Array(done.failures.iter().map(|text| json::text(text)).collect())),
        ]))?;
        return Ok(());
    }
    for failure in &done.failures {
        ui.note(format_args!("a model was not taken at its word: {failure}"));
    }
    let mut line = ui.text();
    line.plain(format_args!("#{} ", session.id)).named(&session.name);
    let (calls, tokens) = (ui::counted(done.model_calls, "call"), ui::counted(done.model_tokens, "token"));
    line.plain(format_args!(
        ": {} of {} without a model written anew, for {calls} and {tokens}",
        ui::thousands(count),
        ui::thousands(done.degraded)
    ));
    ui.show(&line)?;
    for (before, now) in &done.rewritten {
        let mut line = ui.text();
        line.plain("  ").styled(ui::HANDLE, now).plain(" instead of ").styled(ui::HANDLE, before);
        ui.show(&line)?;
    }
    Ok(())
}

fn index(service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let index = {
        let progress = ui.progress("indexing", Unit::Things);
        service.repair_index(&|now| progress.set(now.done, now.total))?
    };
    if ui.is_json() {
        ui.json(&json::index(&index))?;
    } else {
        let mut line = ui.text();
        line.plain(format_args!(
            "index: {} up to message {}, {}",
            json::state(index.state),
            index.indexed_to,
            ui::size(index.bytes)
        ));
        ui.show(&line)?;
    }
    Ok(Outcome::Done)
}
