//! `lcm-cli unfold`: show again what a summary stands for.

use lcm_core::Json;
use lcm_engine::service::{Service, UnfoldRequest};

use super::{BY, ScopeArgs, one_node, one_session};
use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::{self, Ui};

/// Show again what a summary stands for, in the view of its session
///
/// A summary of messages gives way to the messages, one of summaries to those. The summary stays, and `undo` is the way
/// back. A host that still shows the fold folds it again with its next list.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  lcm-cli unfold sum_0123456789abcdef\n  lcm-cli unfold 'node 17' --session '#3'")]
pub(crate) struct UnfoldArgs {
    /// The summary
    #[arg(value_name = "HANDLE")]
    handle: String,
    /// The session that shows it, where that is not the one it was made in
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    scope: ScopeArgs,
}

pub(crate) fn run(args: &UnfoldArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let scope = args.scope.scope();
    let session = args.session.as_ref().map(|text| one_session(service, &scope, text)).transpose()?;
    let node = one_node(service, &scope, &args.handle)?;
    let done = service.unfold(&UnfoldRequest {
        scope,
        number: node.number,
        session: session.map(|session| session.id),
        by: BY.to_owned(),
        now_ms: ui.now_ms(),
    })?;
    if ui.is_json() {
        let mut entries = vec![("unfolded", node.handle.to_string().into())];
        entries.extend(json::changed(&done));
        ui.json(&Json::object(entries))?;
        return Ok(Outcome::Done);
    }
    let mut line = ui.text();
    line.styled(ui::HANDLE, node.handle).plain(format_args!(" is unfolded in #{} ", done.session.id));
    line.named(&done.session.name).plain(super::cost_change(&done));
    ui.show(&line)?;
    Ok(Outcome::Done)
}
