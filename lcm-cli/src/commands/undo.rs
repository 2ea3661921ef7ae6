//! `lcm-cli undo`: take back what an op did to what a session shows.

use lcm_core::{Json, OpId};
use lcm_engine::service::{Service, UndoRequest};

use super::{BY, ScopeArgs, one_session};
use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::Ui;

/// Take back what an op did to what a session shows
///
/// The view goes back to what it was before the op, and with it go the ops that changed the view since; a pin goes back
/// alone. Nothing is deleted: the undo is an op of its own, and can be undone. `lcm-cli log SESSION --ops` lists the ops.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  lcm-cli undo '#3'\n  lcm-cli undo '#3' 17")]
pub(crate) struct UndoArgs {
    /// Number (`#3`), name, or the beginning of a name
    #[arg(value_name = "SESSION")]
    session: String,
    /// The op; the newest that can be taken back unless named
    #[arg(value_name = "OP")]
    op: Option<u64>,
    #[command(flatten)]
    scope: ScopeArgs,
}

pub(crate) fn run(args: &UndoArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let scope = args.scope.scope();
    let session = one_session(service, &scope, &args.session)?.id;
    let (by, now_ms) = (BY.to_owned(), ui.now_ms());
    let done = service.undo(&UndoRequest { scope, session, op: args.op.map(OpId), by, now_ms })?;
    if ui.is_json() {
        let also = done.also.iter().map(|op| op.0.into()).collect();
        let mut entries = vec![("undone", done.op.0.into()), ("also", Json::Array(also))];
        entries.extend(json::changed(&done.changed));
        ui.json(&Json::object(entries))?;
        return Ok(Outcome::Done);
    }
    let mut line = ui.text();
    line.plain(format_args!("op {}", done.op));
    if !done.also.is_empty() {
        let also: Vec<String> = done.also.iter().map(ToString::to_string).collect();
        line.plain(format_args!(" and what came since (op {})", also.join(", ")));
    }
    line.plain(format_args!(" is undone in #{} ", done.changed.session.id)).named(&done.changed.session.name);
    line.plain(super::cost_change(&done.changed));
    ui.show(&line)?;
    Ok(Outcome::Done)
}
