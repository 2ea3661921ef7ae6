//! `lcm-cli repair`: make anew what is derived.

use lcm_engine::service::Service;

use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::{self, Ui, Unit};

/// Make anew what is derived from the messages
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  lcm-cli repair index")]
pub(crate) struct RepairArgs {
    #[command(subcommand)]
    part: Part,
}

#[derive(clap::Subcommand, Debug)]
enum Part {
    /// Throw the search index away and make it anew
    ///
    /// No message is touched; searches find everything meanwhile.
    #[command(after_help = "Example:\n  lcm-cli repair index")]
    Index,
}

pub(crate) fn run(args: &RepairArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let Part::Index = args.part;
    let index = {
        let progress = ui.progress("indexing", Unit::Things);
        service.repair_index(&|now| progress.set(now.done, now.total))?
    };
    if ui.is_json() {
        ui.json(&json::index(&index))?;
    } else {
        let mut line = ui.text();
        line.plain(format_args!(
            "index: {} up to message {}, {}",
            json::state(index.state),
            index.indexed_to,
            ui::size(index.bytes)
        ));
        ui.show(&line)?;
    }
    Ok(Outcome::Done)
}
