//! `lcm-cli select`: what would go into a session's next request, and why.

use lcm_core::Json;
use lcm_engine::Engine;
use lcm_engine::service::{
    AssembleRequest, InMessage, RecallOptions, Recalled, SelectRequest, Selected, Service, SessionKey, TurnRequest,
};

use super::{BY, ScopeArgs, one_session};
use crate::error::{CliError, Outcome};
use crate::json;
use crate::settings::{Layers, SettingArgs};
use crate::ui::{self, Ui};

/// Show what would go into a session's next request
///
/// The list as the session shows it, with the best of the folded originals for the newest request beside it; folded where
/// it is over the budget. Nothing of it becomes history; summaries that are made for it are kept.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  lcm-cli select '#3' --explain\n  lcm-cli select '#3' --query 'which port' --budget 8000"
)]
pub(crate) struct SelectArgs {
    /// The session: `#` and its number, or its name
    #[arg(value_name = "SESSION")]
    session: String,
    /// What is looked for; the newest message of the user unless said
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
    /// Tokens that the whole list may cost; the threshold unless said
    #[arg(long, value_name = "TOKENS")]
    budget: Option<u64>,
    /// Tokens that the model's window holds; 128,000 unless set
    #[arg(long, value_name = "TOKENS")]
    window: Option<u64>,
    /// Tell what was recalled and what was left out, and why, instead of the list
    #[arg(long)]
    explain: bool,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    settings: SettingArgs,
}

pub(crate) fn run(args: &SelectArgs, layers: &Layers<'_>, engine: &Engine, ui: &mut Ui) -> Result<Outcome, CliError> {
    let settings = layers.settings(&args.settings, ui)?;
    let session = one_session(engine, &args.scope.scope(), &args.session)?;
    let scope = args.scope.scope().in_sessions(vec![session.id]);
    let shown = engine.assemble(&AssembleRequest { scope: scope.clone(), session: session.id, as_of: None })?;
    let request = SelectRequest {
        turn: TurnRequest {
            key: SessionKey { owner: session.owner, name: session.name },
            source: session.source,
            dialect: Some(shown.dialect),
            messages: InMessage::list(shown.messages),
            by: BY.to_owned(),
            now_ms: ui.now_ms(),
        },
        head: 0,
        budget_tokens: args.budget.unwrap_or(0),
        model: None,
        query: args.query.clone(),
        scope,
        folding: settings.compress_options(args.window),
        recall: RecallOptions { tokens_max: settings.number("select.recall_tokens_max") },
    };
    let selected = engine.select(&request)?;
    let list = selected.list(&request.turn.messages);
    if ui.is_json() {
        ui.json(&as_json(args, &selected, &list))?;
    } else if args.explain {
        explain(&selected, ui)?;
    } else {
        for message in &list {
            ui.bytes(message)?;
            ui.bytes(b"\n")?;
        }
    }
    ui.note(match &selected.reason {
        Some(reason) => format!("the list is as it was: {reason}"),
        None => format!(
            "{} became {}, with {} recalled",
            ui::counted(selected.tokens_before, "token"),
            ui::thousands(selected.tokens_after),
            ui::counted(count(&selected.recalled), "original"),
        ),
    });
    Ok(Outcome::Done)
}

fn count(recalled: &[Recalled]) -> u64 {
    u64::try_from(recalled.len()).unwrap_or(u64::MAX)
}

/// What was recalled and what was left out, each with its reasons.
fn explain(selected: &Selected, ui: &mut Ui) -> Result<(), CliError> {
    for (heading, originals) in [("recalled", &selected.recalled), ("left out", &selected.left_out)] {
        for original in originals {
            let entry = &original.entry;
            let mut line = ui.text();
            line.styled(ui::BOLD, format_args!("{heading:<9}"));
            line.plain(format_args!("{:>5}  ", original.score)).styled(ui::HANDLE, entry.number);
            line.plain(format_args!("  {}  {}  {}  ", entry.role.name(), ui.time(entry.seen_ms), entry.handle));
            line.plain(ui::counted(original.tokens, "token"));
            line.plain("  ").plain(ui::clean_line(&original.reasons.join("; ")));
            ui.show(&line)?;
        }
    }
    Ok(())
}

fn as_json(args: &SelectArgs, selected: &Selected, list: &[Vec<u8>]) -> Json {
    let recalled = |all: &[Recalled]| Json::Array(all.iter().map(json::recalled).collect());
    let mut entries = vec![
        ("tokens_before", selected.tokens_before.into()),
        ("tokens_after", selected.tokens_after.into()),
        ("recalled", recalled(&selected.recalled)),
        ("left_out", recalled(&selected.left_out)),
    ];
    if let Some(reason) = &selected.reason {
        entries.push(("reason", json::text(reason)));
    }
    if !args.explain {
        let messages = list.iter().map(|message| Json::parse(message).unwrap_or(Json::Null));
        entries.push(("messages", Json::Array(messages.collect())));
    }
    Json::object(entries)
}
