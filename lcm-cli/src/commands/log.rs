//! `lcm-cli log`: a session, a line a message.

use lcm_core::{Arrival, Json, OpId, SessionId, TimelineId};
use lcm_engine::service::{LogRequest, OpsRequest, Order, Scope, Service};

use super::{ScopeArgs, at_least_one, one_session};
use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::{self, Ui};

/// List the messages of a session, one a line
///
/// Number, time, role, handle, tokens, and how it begins. The number is what `show`, `expand` and `describe` take.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  lcm-cli log '#3'\n  lcm-cli log tide-clock --reverse --limit 20\n  lcm-cli log '#3' --ops"
)]
pub(crate) struct LogArgs {
    /// Number (`#3`), name, or the beginning of a name
    #[arg(value_name = "SESSION")]
    session: String,
    /// List at most this many
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = at_least_one)]
    limit: Option<usize>,
    /// Begin at this message, or op
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
    /// Newest first
    #[arg(long, short)]
    reverse: bool,
    /// List what was done to the session instead: its ops, of which `undo` and `show --at` take the numbers
    #[arg(long, conflicts_with = "timeline")]
    ops: bool,
    /// List another timeline than the one the session goes on with
    #[arg(long, value_name = "NUMBER")]
    timeline: Option<u64>,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// Lines that are asked for at once.
const PAGE: usize = 2000;
/// Characters of a beginning: with what stands before it, a line of a wide terminal.
const HEADLINE_CHARS: usize = 80;

pub(crate) fn run(args: &LogArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let scope = args.scope.scope();
    let session = one_session(service, &scope, &args.session)?;
    ui.page();
    if args.ops {
        return show_ops(args, scope, session.id, service, ui);
    }
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut request = LogRequest {
        scope,
        session: session.id,
        timeline: args.timeline.map(TimelineId),
        from: args.from.map(Arrival),
        order: if args.reverse { Order::Newest } else { Order::Oldest },
        max: 0,
        headline_chars: HEADLINE_CHARS,
    };
    let mut shown = 0;
    while left > 0 {
        request.max = left.min(PAGE);
        let page = service.log(&request)?;
        for line in &page.lines {
            if ui.is_json() {
                let mut entries = json::entry(&line.entry);
                entries.extend([("position", line.position.into()), ("headline", json::text(&line.headline))]);
                ui.json(&Json::object(entries))?;
                continue;
            }
            let entry = &line.entry;
            let mut text = ui.text();
            text.styled(ui::HANDLE, format_args!("{:>7}", entry.number)).plain("  ").plain(ui.time(entry.seen_ms));
            text.plain(format_args!("  {:<9}  ", entry.role.name())).styled(ui::HANDLE, entry.handle);
            text.plain(format_args!("  {:>6}", entry.tokens));
            if !line.headline.is_empty() {
                text.plain("  ").said(&line.headline);
            }
            ui.show(&text)?;
        }
        shown += page.lines.len();
        left = left.saturating_sub(page.lines.len());
        let Some(next) = page.next else { break };
        request.from = Some(next);
    }
    Ok(if shown == 0 { Outcome::Nothing } else { Outcome::Done })
}

/// What was done to a session, a line an op.
fn show_ops(
    args: &LogArgs,
    scope: Scope,
    session: SessionId,
    service: &dyn Service,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    let mut left = args.limit.unwrap_or(usize::MAX);
    let order = if args.reverse { Order::Newest } else { Order::Oldest };
    let mut request = OpsRequest { scope, session, from: args.from.map(OpId), order, max: 0 };
    let mut shown = 0;
    while left > 0 {
        request.max = left.min(PAGE);
        let page = service.ops(&request)?;
        for op in &page.ops {
            if ui.is_json() {
                ui.json(&json::op(op))?;
                continue;
            }
            let mut text = ui.text();
            text.styled(ui::HANDLE, format_args!("{:>7}", op.id)).plain("  ").plain(ui.time(op.at_ms)).plain("  ");
            text.plain(super::what_happened(&op.what)).styled(ui::DIM, "  by ");
            text.styled(ui::DIM, ui::clean_line(&op.by));
            ui.show(&text)?;
        }
        shown += page.ops.len();
        left = left.saturating_sub(page.ops.len());
        let Some(next) = page.next else { break };
        request.from = Some(next);
    }
    Ok(if shown == 0 { Outcome::Nothing } else { Outcome::Done })
}
