//! `lcm-cli expand`: what a summary stands for, down to the messages.

use lcm_core::Json;
use lcm_engine::service::{DownTo, ExpandRequest, Expansion, Service};

use super::show::{show_child, show_message};
use super::{ScopeArgs, one_node};
use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::{self, Ui};

/// Show what a summary stands for, down to the messages
///
/// A message is shown whole. The order is that in which it was said.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  lcm-cli expand sum_0123456789abcdef\n  lcm-cli expand 'node 17' --children\n  lcm-cli expand 17 --raw"
)]
pub(crate) struct ExpandArgs {
    /// Summaries or messages
    #[arg(value_name = "HANDLE", required = true)]
    handles: Vec<String>,
    /// Print exactly the JSON that was said
    #[arg(long)]
    raw: bool,
    /// Go down one level only
    #[arg(long)]
    children: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// Children that are asked for at once, and bytes after which a page ends.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 4 << 20;

pub(crate) fn run(args: &ExpandArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let scope = args.scope.scope();
    let nodes = args.handles.iter().map(|text| one_node(service, &scope, text));
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    ui.page();
    for node in nodes {
        let mut request = ExpandRequest {
            scope: scope.clone(),
            number: node.number,
            down_to: if args.children { DownTo::Children } else { DownTo::Originals },
            skip: 0,
            max: PAGE,
            bytes_max: PAGE_BYTES,
        };
        loop {
            match service.expand(&request)? {
                Expansion::Message(whole) => {
                    show_message(&whole, args.raw, ui)?;
                    break;
                }
                Expansion::Summary(page) => {
                    if request.skip == 0 && ui.is_json() && !args.raw {
                        let mut entries = json::entry(&page.entry);
                        entries
                            .extend([("text", json::text(&page.text)), ("children", json::number(page.children_all))]);
                        ui.json(&Json::object(entries))?;
                    } else if request.skip == 0 && !args.raw {
                        let mut text = ui.text();
                        super::heading(&mut text, &page.entry, ui);
                        let count = u64::try_from(page.children_all).unwrap_or(u64::MAX);
                        let noun = if args.children { "child" } else { "message" };
                        let count = if noun == "child" && count != 1 {
                            format!("{count} children")
                        } else {
                            ui::counted(count, noun)
                        };
                        text.styled(ui::DIM, format_args!("  stands for {count}"));
                        text.plain("\n").said(&page.text).plain("\n");
                        ui.show(&text)?;
                    }
                    for child in &page.children {
                        show_child(child, args.raw, ui)?;
                    }
                    let Some(next) = page.next else { break };
                    request.skip = next;
                }
            }
        }
    }
    Ok(Outcome::Done)
}
