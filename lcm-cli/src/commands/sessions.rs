//! `lcm-cli sessions`: what conversations there are.

use std::borrow::Cow;

use lcm_core::Json;
use lcm_engine::service::{Service, SessionEntry};

use super::ScopeArgs;
use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::{self, Ui};

/// List the sessions
///
/// Oldest first: number, name, source, whose they are, messages, tokens, first and last message.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  lcm-cli sessions\n  lcm-cli sessions --agent default --format json")]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    scope: ScopeArgs,
}

/// Columns of a name; sessions called after long paths would push everything else away.
const NAME_COLUMNS: usize = 40;
const SOURCE_COLUMNS: usize = 24;

pub(crate) fn run(args: &SessionsArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let sessions = service.sessions(&args.scope.scope())?;
    if ui.is_json() {
        for session in &sessions {
            ui.json(&Json::object(json::session_entry(session)))?;
        }
    } else if !sessions.is_empty() {
        table(&sessions, ui)?;
    }
    Ok(if sessions.is_empty() { Outcome::Nothing } else { Outcome::Done })
}

fn table(sessions: &[SessionEntry], ui: &mut Ui) -> Result<(), CliError> {
    const HEADS: [&str; 8] = ["#", "NAME", "SOURCE", "OWNER", "MESSAGES", "TOKENS", "FIRST", "LAST"];
    const RIGHT: [bool; 8] = [true, false, false, false, true, true, false, false];
    ui.page();
    let row = |entry: &SessionEntry| -> [String; 8] {
        let owner = &entry.session.owner;
        let short = |text: &str, columns| ui::shorten(&one_line(text), columns).into_owned();
        let (first, last) =
            entry.span_ms.map_or_else(Default::default, |(first, last)| (ui.time(first), ui.time(last)));
        [
            entry.session.id.to_string(),
            short(&entry.session.name, NAME_COLUMNS),
            short(&entry.session.source, SOURCE_COLUMNS),
            short(&format!("{}/{}", owner.agent, owner.person), NAME_COLUMNS),
            ui::thousands(entry.messages),
            ui::thousands(entry.tokens),
            first,
            last,
        ]
    };
    let rows: Vec<[String; 8]> = sessions.iter().map(row).collect();
    let mut widths = HEADS.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(ui::columns(cell));
        }
    }
    let heads = HEADS.map(str::to_owned);
    for (number, row) in std::iter::once(&heads).chain(&rows).enumerate() {
        let mut line = ui.text();
        for (i, cell) in row.iter().enumerate() {
            let pad = widths[i].saturating_sub(ui::columns(cell));
            if i > 0 {
                line.plain("  ");
            }
            if RIGHT[i] {
                line.plain(" ".repeat(pad));
            }
            match (number, i) {
                (0, _) => line.styled(ui::BOLD, cell),
                (_, 0) => line.styled(ui::HANDLE, cell),
                (_, 1) => line.styled(ui::NAME, cell),
                _ => line.plain(cell),
            };
            if !RIGHT[i] && i + 1 < row.len() {
                line.plain(" ".repeat(pad));
            }
        }
        ui.show(&line)?;
    }
    Ok(())
}

/// A name for a table: harmless, and without line ends.
fn one_line(text: &str) -> Cow<'_, str> {
    let cleaned = ui::clean(text);
    if cleaned.contains(['\n', '\t']) { cleaned.replace(['\n', '\t'], " ").into() } else { cleaned }
}
