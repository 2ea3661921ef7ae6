//! `lcm-cli pin` and `unpin`: messages that are never folded.

use lcm_core::Json;
use lcm_engine::service::{PinRequest, Pinned, Service};

use super::{BY, ScopeArgs, one_node, one_session};
use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::{self, Ui};

/// Keep messages from being folded
///
/// A message that stands behind a fold already stays there until the fold is unfolded.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  lcm-cli pin 17\n  lcm-cli pin msg_0123456789abcdef --session '#3'")]
pub(crate) struct PinArgs {
    #[command(flatten)]
    which: WhichArgs,
}

/// Let pinned messages be folded again
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  lcm-cli unpin 17")]
pub(crate) struct UnpinArgs {
    #[command(flatten)]
    which: WhichArgs,
}

#[derive(clap::Args, Debug)]
struct WhichArgs {
    /// Messages
    #[arg(value_name = "HANDLE", required = true)]
    handles: Vec<String>,
    /// The session, where that is not the one they were said in
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    #[command(flatten)]
    scope: ScopeArgs,
}

pub(crate) fn pin(args: &PinArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    run(&args.which, Pinned::Yes, service, ui)
}

pub(crate) fn unpin(args: &UnpinArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    run(&args.which, Pinned::No, service, ui)
}

fn run(args: &WhichArgs, pinned: Pinned, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let scope = args.scope.scope();
    let session = args.session.as_ref().map(|text| one_session(service, &scope, text)).transpose()?;
    // All are looked up before the first is changed.
    let nodes = args.handles.iter().map(|text| one_node(service, &scope, text)).collect::<Result<Vec<_>, _>>()?;
    for node in nodes {
        let set = service.pin(&PinRequest {
            scope: scope.clone(),
            number: node.number,
            session: session.as_ref().map(|session| session.id),
            pinned,
            by: BY.to_owned(),
            now_ms: ui.now_ms(),
        })?;
        if ui.is_json() {
            let mut entries = json::entry(&set.entry);
            entries.push(("pinned", (pinned == Pinned::Yes).into()));
            entries.push(("changed", set.op.is_some().into()));
            entries.extend(set.op.iter().map(|op| ("op", json::op(op))));
            entries.extend(set.behind.iter().map(|fold| ("behind", fold.to_string().into())));
            ui.json(&Json::object(entries))?;
            continue;
        }
        let mut line = ui.text();
        line.styled(ui::HANDLE, set.entry.number).plain("  ").styled(ui::HANDLE, set.entry.handle);
        line.plain(match (pinned, set.op.is_some()) {
            (Pinned::Yes, true) => " is pinned: it is never folded",
            (Pinned::Yes, false) => " is pinned already",
            (Pinned::No, true) => " is pinned no longer",
            (Pinned::No, false) => " is not pinned",
        });
        ui.show(&line)?;
        if let (Pinned::Yes, Some(fold)) = (pinned, set.behind) {
            ui.note(format_args!("it stands behind {fold} now; `lcm-cli unfold {fold}` shows it again"));
        }
    }
    Ok(Outcome::Done)
}
