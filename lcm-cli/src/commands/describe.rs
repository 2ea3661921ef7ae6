//! `lcm-cli describe`: what is known about a node or a session, without its text.

use lcm_engine::service::{Description, Entry, Service, SessionDescription};

use super::{ScopeArgs, Target, one_target};
use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::{self, Ui};

/// Show what is known about a message, a summary or a session
///
/// Where it stands, when it was said, what it costs, what stands for it and what it stands for, how often the host
/// rewrote it; for a session, its timelines.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  lcm-cli describe msg_0123456789abcdef\n  lcm-cli describe '#3'")]
pub(crate) struct DescribeArgs {
    /// Message, summary or session
    #[arg(value_name = "SESSION|HANDLE", required = true)]
    targets: Vec<String>,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// Places, parents and children that are listed for people.
const LISTED_MAX: usize = 20;

pub(crate) fn run(args: &DescribeArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let scope = args.scope.scope();
    let targets = args.targets.iter().map(|text| one_target(service, &scope, text));
    let targets = targets.collect::<Result<Vec<_>, _>>()?;
    ui.page();
    for (i, target) in targets.iter().enumerate() {
        if i > 0 && !ui.is_json() {
            let empty = ui.text();
            ui.show(&empty)?;
        }
        match target {
            Target::Session(session) => {
                let description = service.describe_session(&scope, session.id)?;
                if ui.is_json() {
                    ui.json(&json::session_description(&description))?;
                } else {
                    show_session(&description, ui)?;
                }
            }
            Target::Node(entry) => {
                let description = service.describe(&scope, entry.number)?;
                if ui.is_json() { ui.json(&json::description(&description))? } else { show_node(&description, ui)? }
            }
        }
    }
    Ok(Outcome::Done)
}

/// A line of a description: what, and its value.
pub(super) fn field(ui: &mut Ui, what: &str, value: &str) -> Result<(), CliError> {
    let mut line = ui.text();
    line.styled(ui::BOLD, format_args!("{what:<10}")).plain(ui::clean_line(value));
    ui.show(&line)
}

fn show_session(description: &SessionDescription, ui: &mut Ui) -> Result<(), CliError> {
    let entry = &description.entry;
    let session = &entry.session;
    field(ui, "session", &format!("#{} {}", session.id, session.name))?;
    field(ui, "source", &session.source)?;
    field(ui, "owner", &format!("agent {}, person {}", session.owner.agent, session.owner.person))?;
    let counts = format!("{}, {}", ui::counted(entry.messages, "message"), ui::counted(entry.tokens, "token"));
    field(ui, "size", &counts)?;
    if let Some((first, last)) = entry.span_ms {
        let span = format!("{} to {}", ui.time(first), ui.time(last));
        field(ui, "said", &span)?;
    }
    let created = ui.time(session.created_ms);
    field(ui, "created", &created)?;
    for timeline in &description.timelines {
        let mut text = format!("{}, {}", timeline.id, ui::counted(timeline.messages, "message"));
        if let Some((parent, shared)) = timeline.parent {
            text.push_str(&format!(", shares the first {} with {parent}", ui::thousands(shared)));
        }
        if timeline.id == session.timeline {
            text.push_str(", goes on");
        }
        field(ui, "timeline", &text)?;
    }
    Ok(())
}

fn show_node(description: &Description, ui: &mut Ui) -> Result<(), CliError> {
    let entry = &description.entry;
    let kind = match entry.summary {
        Some(number) => format!("summary, node {number}"),
        None => format!("message {}, {}", entry.number, entry.role.name()),
    };
    field(ui, "handle", &entry.handle.to_string())?;
    field(ui, "id", &entry.handle.id.to_string())?;
    field(ui, "kind", &kind)?;
    field(ui, "session", &format!("#{} {}", description.session.id, description.session.name))?;
    let position = description.position.map(|position| format!(", position {}", ui::thousands(position)));
    let late = if entry.is_late { ", came late" } else { "" };
    field(ui, "place", &format!("timeline {}{}{late}", entry.timeline, position.unwrap_or_default()))?;
    let time = ui.time(entry.seen_ms);
    field(ui, "said", &time)?;
    let cost = format!("{}, {}", ui::counted(u64::from(entry.tokens), "token"), ui::size(description.bytes));
    field(ui, "size", &cost)?;
    if !description.tools.is_empty() {
        field(ui, "tools", &description.tools.join(", "))?;
    }
    if let Some(summary) = &description.summary {
        let model = if summary.model.is_empty() { "no model" } else { &summary.model };
        field(ui, "made", &format!("depth {}, {} by {model}", summary.depth, json::level(summary.level)))?;
        let (first, last) = (ui.time(summary.span_ms.0), ui.time(summary.span_ms.1));
        let sources = ui::counted(summary.source_tokens, "token");
        field(ui, "covers", &format!("{sources}, {first} to {last}"))?;
        for (what, all) in [("marks", &summary.marks), ("mentions", &summary.mentions)] {
            if !all.is_empty() {
                field(ui, what, &all.join(", "))?;
            }
        }
        entries(ui, "child", &summary.children, summary.children.len())?;
    }
    entries(ui, "parent", &description.parents, description.parents.len())?;
    if description.places_all > 1 {
        entries(ui, "stands at", &description.places, description.places_all)?;
    }
    for revision in &description.revisions {
        let revised = format!("{} {:.16}", ui.time(revision.seen_ms), revision.id);
        field(ui, "revised", &revised)?;
    }
    if !description.source.is_empty() {
        let source = String::from_utf8_lossy(&description.source);
        field(ui, "beside", &ui::shorten(&source, 400))?;
    }
    Ok(())
}

pub(super) fn entries(ui: &mut Ui, what: &str, entries: &[Entry], all: usize) -> Result<(), CliError> {
    for entry in entries.iter().take(LISTED_MAX) {
        let line = format!("{}, {}", super::node_line(entry), ui.time(entry.seen_ms));
        field(ui, what, &line)?;
    }
    if all > LISTED_MAX {
        let more = u64::try_from(all - LISTED_MAX).unwrap_or(u64::MAX);
        field(ui, "", &format!("and {} more", ui::thousands(more)))?;
    }
    Ok(())
}
