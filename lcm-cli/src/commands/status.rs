//! `lcm-cli status`: where the store is and how large, and what summaries cost.

use lcm_engine::service::{IndexState, Scope, Service};

use super::one_session;
use crate::error::{CliError, Outcome};
use crate::json;
use crate::settings::{Layers, SettingArgs};
use crate::ui::{self, Ui};

/// Show where the store is, how large it is, and what summaries cost
///
/// Tells also how far the search index is, and what models may cost in a window of time.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  lcm-cli status --format json")]
pub(crate) struct StatusArgs {
    /// Tell what summaries of this session cost, rather than all of them
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    settings: SettingArgs,
}

pub(crate) fn run(
    args: &StatusArgs,
    layers: &Layers<'_>,
    service: &dyn Service,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    let spending = layers.settings(&args.settings, ui)?.spending();
    let everything = Scope::everything();
    let scope = match &args.session {
        None => everything.clone(),
        Some(text) => everything.clone().in_sessions(vec![one_session(service, &everything, text)?.id]),
    };
    let status = service.status()?;
    let ever = service.spent(&scope, None)?;
    // The cap is one for all sessions.
    let now = service.spent(&everything, Some(spending.since_ms(ui.now_ms())))?;
    if ui.is_json() {
        ui.json(&json::status(&status, &ever, &now, &spending))?;
        return Ok(Outcome::Done);
    }
    let index = &status.index;
    let behind = index.last_arrival.0.saturating_sub(index.indexed_to.0);
    let index = match index.state {
        IndexState::Absent => "none; searches look into the messages themselves".to_owned(),
        IndexState::Unusable => "unusable; `lcm-cli repair index` makes it anew".to_owned(),
        IndexState::Ready => {
            let reach = if behind == 0 { "up to date".to_owned() } else { format!("{} behind", ui::thousands(behind)) };
            let segments = u64::try_from(index.segments).unwrap_or(u64::MAX);
            format!("{reach}, {}, {}", ui::counted(segments, "segment"), ui::size(index.bytes))
        }
    };
    let summaries = format!(
        "{} made, {} to models, {}",
        ui::thousands(ever.summaries),
        ui::counted(ever.calls, "call"),
        ui::counted(ever.tokens, "token")
    );
    let of_tokens = match spending.tokens_max {
        0 => String::new(),
        most => format!(" of {}", ui::thousands(most)),
    };
    let cap = format!(
        "{} of {} calls, {}{of_tokens} tokens in the last {} s",
        ui::thousands(now.calls),
        ui::thousands(spending.calls_max),
        ui::thousands(now.tokens),
        ui::thousands(spending.window.as_secs())
    );
    for (what, value) in [
        ("home", status.home.display().to_string()),
        ("format", status.format.to_string()),
        ("sessions", ui::thousands(status.sessions)),
        ("messages", ui::thousands(status.places)),
        ("records", ui::thousands(status.records)),
        ("data", ui::size(status.data_bytes)),
        ("index", index),
        ("summaries", summaries),
        ("cap", cap),
    ] {
        let mut line = ui.text();
        line.styled(ui::BOLD, format_args!("{what:<10}")).plain(ui::clean_line(&value));
        ui.show(&line)?;
    }
    Ok(Outcome::Done)
}
