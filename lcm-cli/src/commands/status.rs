//! `lcm-cli status`: where the store is and how large.

use lcm_engine::service::{IndexState, Service};

use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::{self, Ui};

/// Show where the store is, how large it is, and how far its search index
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  lcm-cli status --format json")]
pub(crate) struct StatusArgs {}

pub(crate) fn run(_args: &StatusArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let status = service.status()?;
    if ui.is_json() {
        ui.json(&json::status(&status))?;
        return Ok(Outcome::Done);
    }
    let index = &status.index;
    let behind = index.last_arrival.0.saturating_sub(index.indexed_to.0);
    let index = match index.state {
        IndexState::Absent => "none; searches look into the messages themselves".to_owned(),
        IndexState::Unusable => "unusable; `lcm-cli repair index` makes it anew".to_owned(),
        IndexState::Ready => {
            let reach = if behind == 0 { "up to date".to_owned() } else { format!("{} behind", ui::thousands(behind)) };
            let segments = u64::try_from(index.segments).unwrap_or(u64::MAX);
            format!("{reach}, {}, {}", ui::counted(segments, "segment"), ui::size(index.bytes))
        }
    };
    for (what, value) in [
        ("home", status.home.display().to_string()),
        ("format", status.format.to_string()),
        ("sessions", ui::thousands(status.sessions)),
        ("messages", ui::thousands(status.places)),
        ("records", ui::thousands(status.records)),
        ("data", ui::size(status.data_bytes)),
        ("index", index),
    ] {
        let mut line = ui.text();
        line.styled(ui::BOLD, format_args!("{what:<9}")).plain(ui::clean_line(&value));
        ui.show(&line)?;
    }
    Ok(Outcome::Done)
}
