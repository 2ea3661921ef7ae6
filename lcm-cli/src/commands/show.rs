//! `lcm-cli show`: whole messages, for people or exactly as they were said.

use lcm_core::{Arrival, Json, OpId, TimelineId};
use lcm_engine::service::{
    AssembleRequest, Child, DownTo, Entry, ExpandRequest, Expansion, ReadRequest, Scope, Service, Shown, SummaryPage,
    ViewRequest, Whole,
};

use super::{ScopeArgs, Target, at_least_one, heading, one_target};
use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::{self, Text, Ui};

/// Show whole messages
///
/// A session shows all of its messages. Text is made readable and harmless; --raw gives the JSON that was said, one
/// message a line.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  lcm-cli show 17 18\n  lcm-cli show msg_0123456789abcdef --raw\n  lcm-cli show '#3' --from 120 --limit 10\n  lcm-cli show '#3' --at now\n  lcm-cli show '#3' --at 17 --raw"
)]
pub(crate) struct ShowArgs {
    /// Messages, summaries or sessions
    #[arg(value_name = "SESSION|HANDLE", required = true)]
    targets: Vec<String>,
    /// Print exactly the JSON that was said
    #[arg(long)]
    raw: bool,
    /// Show at most this many messages of a session
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = at_least_one)]
    limit: Option<usize>,
    /// Begin at this message of the session
    #[arg(long, value_name = "NUMBER")]
    from: Option<u64>,
    /// Show another timeline than the one the session goes on with
    #[arg(long, value_name = "NUMBER")]
    timeline: Option<u64>,
    /// Show what the session showed to a model as of an op, or `now`: folds in place of what they stand for
    #[arg(long, value_name = "OP", conflicts_with_all = ["from", "timeline"], value_parser = moment)]
    at: Option<Moment>,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// A moment of a session's history.
#[derive(Clone, Copy, Debug)]
struct Moment(Option<OpId>);

fn moment(text: &str) -> Result<Moment, String> {
    match text {
        "now" => Ok(Moment(None)),
        _ => text.parse().map(|op| Moment(Some(OpId(op)))).map_err(|_| "the number of an op, or now".to_owned()),
    }
}

/// Messages that are asked for at once, and bytes after which a page ends.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 4 << 20;

pub(crate) fn run(args: &ShowArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let scope = args.scope.scope();
    // All are looked up before the first is shown: half an answer helps nobody.
    let targets = args.targets.iter().map(|text| one_target(service, &scope, text));
    let targets: Vec<Target> = targets.collect::<Result<_, _>>()?;
    let is_node = |target: &Target| matches!(target, Target::Node(_));
    if args.at.is_some() && targets.iter().any(is_node) {
        return Err(CliError::usage("--at shows a session, and a message or summary is named", "name the session"));
    }
    ui.page();
    let mut shown = 0;
    for target in targets {
        shown += match target {
            Target::Session(session) if let Some(Moment(as_of)) = args.at => {
                let scope = scope.clone();
                let request = ViewRequest { scope, session: session.id, as_of, skip: 0, max: 0, bytes_max: PAGE_BYTES };
                show_view(request, args, service, ui)?
            }
            Target::Session(session) => {
                let request = ReadRequest {
                    scope: scope.clone(),
                    session: session.id,
                    timeline: args.timeline.map(TimelineId),
                    from: args.from.map(Arrival),
                    max: 0,
                    bytes_max: PAGE_BYTES,
                };
                show_session(request, args, service, ui)?
            }
            Target::Node(entry) => {
                show_node(&entry, &scope, args.raw, service, ui)?;
                1
            }
        };
    }
    Ok(if shown == 0 { Outcome::Nothing } else { Outcome::Done })
}

fn show_session(
    mut request: ReadRequest,
    args: &ShowArgs,
    service: &dyn Service,
    ui: &mut Ui,
) -> Result<usize, CliError> {
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut shown = 0;
    while left > 0 {
        request.max = left.min(PAGE);
        let page = service.read(&request)?;
        for whole in &page.messages {
            show_message(whole, args.raw, ui)?;
        }
        shown += page.messages.len();
        left = left.saturating_sub(page.messages.len());
        let Some(next) = page.next else { break };
        request.from = Some(next);
    }
    Ok(shown)
}

/// Shows a session as it is or was shown to a model.
fn show_view(mut request: ViewRequest, args: &ShowArgs, service: &dyn Service, ui: &mut Ui) -> Result<usize, CliError> {
    if args.raw {
        // Exactly the list: folds that stand side by side share a message of it.
        let ViewRequest { scope, session, as_of, .. } = request;
        let list = service.assemble(&AssembleRequest { scope, session, as_of })?.messages;
        let shown = list.len().min(args.limit.unwrap_or(usize::MAX));
        for message in &list[..shown] {
            ui.bytes(message)?;
            ui.bytes(b"\n")?;
        }
        return Ok(shown);
    }
    let mut left = args.limit.unwrap_or(usize::MAX);
    let mut shown = 0;
    while left > 0 {
        request.max = left.min(PAGE);
        let page = service.view(&request)?;
        if shown == 0 && !ui.is_json() {
            ui.note(format_args!(
                "{} and {} as of op {}",
                ui::counted(u64::try_from(page.items_all).unwrap_or(u64::MAX), "item"),
                ui::counted(page.tokens, "token"),
                page.as_of
            ));
        }
        for item in &page.items {
            show_item(item, ui)?;
        }
        shown += page.items.len();
        left = left.saturating_sub(page.items.len());
        let Some(next) = page.next else { break };
        // The rest is of the same moment, whatever happens meanwhile.
        (request.skip, request.as_of) = (next, Some(page.as_of));
    }
    Ok(shown)
}

fn show_item(item: &Shown, ui: &mut Ui) -> Result<(), CliError> {
    if ui.is_json() {
        return ui.json(&json::shown(item));
    }
    let mut text = ui.text();
    match item {
        Shown::Message { entry, json, is_pinned } => {
            heading(&mut text, entry, ui);
            text.styled(ui::DIM, format_args!("  {}", ui::counted(u64::from(entry.tokens), "token")));
            if *is_pinned {
                text.styled(ui::DIM, "  pinned");
            }
            text.plain("\n");
            message(json, &mut text);
        }
        Shown::Fold { entry, text: said, messages, late, source_tokens, is_within, .. } => {
            heading(&mut text, entry, ui);
            let (count, tokens) = (ui::counted(*messages, "message"), ui::counted(*source_tokens, "token"));
            text.styled(ui::DIM, format_args!("  stands for {count} of {tokens}"));
            if *late > 0 {
                text.styled(ui::DIM, format_args!(", {} of them came late", ui::thousands(*late)));
            }
            if *is_within {
                text.styled(ui::DIM, ", steps of the request below");
            }
            text.plain("\n").said(said);
        }
    }
    text.plain("\n");
    ui.show(&text)
}

fn show_node(entry: &Entry, scope: &Scope, raw: bool, service: &dyn Service, ui: &mut Ui) -> Result<(), CliError> {
    let request = ExpandRequest {
        scope: scope.clone(),
        number: entry.number,
        down_to: DownTo::Children,
        skip: 0,
        max: 1,
        bytes_max: PAGE_BYTES,
    };
    match service.expand(&request)? {
        Expansion::Message(whole) => show_message(&whole, raw, ui),
        Expansion::Summary(page) => show_summary(&page, raw, ui),
    }
}

/// Shows a message.
pub(crate) fn show_message(whole: &Whole, raw: bool, ui: &mut Ui) -> Result<(), CliError> {
    if raw {
        ui.bytes(&whole.json)?;
        return ui.bytes(b"\n");
    }
    if ui.is_json() {
        return ui.json(&json::whole(whole));
    }
    let mut text = ui.text();
    heading(&mut text, &whole.entry, ui);
    text.styled(ui::DIM, format_args!("  {}", ui::counted(u64::from(whole.entry.tokens), "token")));
    if !whole.revisions.is_empty() {
        let count = u64::try_from(whole.revisions.len()).unwrap_or(u64::MAX);
        text.styled(ui::DIM, format_args!("  revised {}", ui::counted(count, "time")));
    }
    ui.show(&text)?;
    let mut text = ui.text();
    message(&whole.json, &mut text);
    text.plain("\n");
    ui.show(&text)
}

/// What a message says. What we stored is JSON; anything else is shown as it is.
fn message(json: &[u8], text: &mut Text) {
    match Json::parse(json) {
        Ok(said) => body(&said, text),
        Err(_) => {
            text.said(&String::from_utf8_lossy(json));
        }
    }
}

/// Shows a summary; its text is ours, so raw means the text alone.
fn show_summary(page: &SummaryPage, raw: bool, ui: &mut Ui) -> Result<(), CliError> {
    if raw {
        ui.bytes(page.text.as_bytes())?;
        return ui.bytes(b"\n");
    }
    let child = Child::Summary { entry: page.entry.clone(), text: page.text.clone() };
    show_child(&child, raw, ui)
}

/// Shows something that a summary stands for.
pub(crate) fn show_child(child: &Child, raw: bool, ui: &mut Ui) -> Result<(), CliError> {
    match child {
        Child::Message(whole) => show_message(whole, raw, ui),
        Child::Summary { .. } if ui.is_json() => ui.json(&json::child(child)),
        Child::Summary { text: said, .. } if raw => {
            ui.bytes(said.as_bytes())?;
            ui.bytes(b"\n")
        }
        Child::Summary { entry, text: said } => {
            let mut text = ui.text();
            heading(&mut text, entry, ui);
            text.plain("\n").said(said).plain("\n");
            ui.show(&text)
        }
    }
}

/// The text of a message: what was thought, said, called.
fn body(said: &Json, text: &mut Text) {
    let mut parts = 0;
    let mut part = |text: &mut Text, write: &dyn Fn(&mut Text)| {
        if parts > 0 {
            text.plain("\n");
        }
        parts += 1;
        write(text);
    };
    for key in ["reasoning_content", "reasoning"] {
        if let Some(Json::String(thought)) = said.get(key).filter(|thought| !is_empty(thought)) {
            let thought = thought.to_str_lossy();
            part(text, &|text| {
                text.said_styled(ui::DIM, &thought);
            });
            break;
        }
    }
    match said.get("content") {
        Some(Json::String(content)) if !content.is_empty() => part(text, &|text| {
            text.said(&content.to_str_lossy());
        }),
        Some(Json::Array(blocks)) => {
            for one in blocks {
                part(text, &|text| block(one, text));
            }
        }
        Some(other) if !is_empty(other) => part(text, &|text| value(other, text)),
        _ => {}
    }
    for call in said.get("tool_calls").and_then(Json::as_array).unwrap_or_default() {
        let function = call.get("function").unwrap_or(call);
        part(text, &|text| called(function.get("name"), function.get("arguments"), text));
    }
    if let Some(function) = said.get("function_call") {
        part(text, &|text| called(function.get("name"), function.get("arguments"), text));
    }
    if parts == 0 {
        text.styled(ui::DIM, "(says nothing)");
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(string) => string.is_empty(),
        Json::Array(elements) => elements.is_empty(),
        _ => false,
    }
}

fn block(block: &Json, text: &mut Text) {
    let of = |key: &str| block.get(key);
    match of("type").and_then(Json::as_str) {
        Some("thinking") => {
            if let Some(Json::String(thought)) = of("thinking") {
                text.said_styled(ui::DIM, &thought.to_str_lossy());
            }
        }
        Some("tool_use") => called(of("name"), of("input"), text),
        Some("tool_result") => match of("content") {
            Some(Json::String(result)) => {
                text.said(&result.to_str_lossy());
            }
            Some(Json::Array(blocks)) => {
                for (i, one) in blocks.iter().enumerate() {
                    if i > 0 {
                        text.plain("\n");
                    }
                    self::block(one, text);
                }
            }
            Some(other) => value(other, text),
            None => {}
        },
        Some(kind @ ("image" | "image_url" | "input_image" | "file" | "input_audio" | "document")) => {
            let bytes = u64::try_from(block.to_text().len()).unwrap_or(u64::MAX);
            text.styled(ui::DIM, format_args!("[{kind}, {}]", ui::size(bytes)));
        }
        _ => match (of("text"), block) {
            (Some(Json::String(said)), _) | (None, Json::String(said)) => {
                text.said(&said.to_str_lossy());
            }
            _ => value(block, text),
        },
    }
}

/// A call as one reads it.
fn called(name: Option<&Json>, arguments: Option<&Json>, text: &mut Text) {
    text.styled(ui::BOLD, "→ ");
    match name {
        Some(Json::String(name)) => text.said_styled(ui::BOLD, &name.to_str_lossy()),
        _ => text.styled(ui::BOLD, "?"),
    };
    text.plain("(");
    match arguments {
        Some(Json::String(arguments)) => {
            text.said(&arguments.to_str_lossy());
        }
        Some(other) => value(other, text),
        None => {}
    }
    text.plain(")");
}

fn value(value: &Json, text: &mut Text) {
    text.said(&String::from_utf8_lossy(&value.to_text()));
}
