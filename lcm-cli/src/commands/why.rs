//! `lcm-cli why`: how a node came here, and where it was shown since.

use lcm_engine::service::{Seen, Service, Why};

use super::describe::{entries, field};
use super::{ScopeArgs, one_node};
use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::{self, Ui};

/// Tell how a message or summary came here, and where it was shown since
///
/// Which op made it, by whom and when; for a summary, what it stands for and who wrote it; from which op on it was shown,
/// or what was shown instead, and what covers it now.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  lcm-cli why 17\n  lcm-cli why sum_0123456789abcdef")]
pub(crate) struct WhyArgs {
    /// Messages or summaries
    #[arg(value_name = "HANDLE", required = true)]
    handles: Vec<String>,
    #[command(flatten)]
    scope: ScopeArgs,
}

pub(crate) fn run(args: &WhyArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let scope = args.scope.scope();
    let nodes = args.handles.iter().map(|text| one_node(service, &scope, text)).collect::<Result<Vec<_>, _>>()?;
    ui.page();
    for (i, node) in nodes.iter().enumerate() {
        let why = service.why(&scope, node.number)?;
        if ui.is_json() {
            ui.json(&json::why(&why))?;
            continue;
        }
        if i > 0 {
            let empty = ui.text();
            ui.show(&empty)?;
        }
        show(&why, ui)?;
    }
    Ok(Outcome::Done)
}

fn show(why: &Why, ui: &mut Ui) -> Result<(), CliError> {
    let description = &why.description;
    let entry = &description.entry;
    let name = match entry.summary {
        Some(number) => format!("{}, summary, node {number}", entry.handle),
        None => format!("{}, message {}, {}", entry.handle, entry.number, entry.role.name()),
    };
    field(ui, "what", &name)?;
    field(ui, "session", &format!("#{} {}", description.session.id, description.session.name))?;
    match &why.made {
        Some(op) => {
            let made = format!("op {} by {}, {}: {}", op.id, op.by, ui.time(op.at_ms), super::what_happened(&op.what));
            field(ui, "made", &made)?;
        }
        None => field(ui, "made", "history does not tell")?,
    }
    if let Some(summary) = &description.summary {
        let model = if summary.model.is_empty() { "no model" } else { &summary.model };
        let written = format!(
            "{} by {model}, prompt version {}, depth {}",
            json::level(summary.level),
            summary.prompt_version,
            summary.depth
        );
        field(ui, "written", &written)?;
        let own = ui::counted(u64::from(entry.tokens), "token");
        field(ui, "covers", &format!("{} in {own}", ui::counted(summary.source_tokens, "token")))?;
        entries(ui, "child", &summary.children, summary.children.len())?;
    }
    for appearance in &why.appearances {
        let seen = match appearance.seen {
            Seen::Itself => "it is shown".to_owned(),
            Seen::Behind(fold) => format!("{fold} is shown instead"),
            Seen::Nowhere => "it is not shown".to_owned(),
        };
        let op = &appearance.op;
        let since = format!("op {}, {} ({}): {seen}", op.id, ui.time(op.at_ms), super::what_happened(&op.what));
        field(ui, "since", &since)?;
    }
    if why.appearances.is_empty() {
        field(ui, "since", "it was never shown")?;
    }
    match (&why.covered_by, why.appearances.last().map(|appearance| appearance.seen)) {
        (Some(fold), _) => {
            let line = super::node_line(fold);
            field(ui, "now", &format!("behind {line}; `lcm-cli unfold {}` shows it again", fold.handle))
        }
        (None, Some(Seen::Itself)) => field(ui, "now", "shown"),
        (None, _) => field(ui, "now", "not shown"),
    }
}
