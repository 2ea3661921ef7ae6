//! `lcm-cli check`: is everything whole?

use lcm_core::Json;
use lcm_engine::service::Service;

use crate::error::{CliError, Outcome};
use crate::json;
use crate::ui::{self, Ui, Unit};

/// Check the whole store
///
/// Rehashes every message, follows every link, compares the search index. Exits 3 when something is damaged.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  lcm-cli check")]
pub(crate) struct CheckArgs {
    /// List at most this many faults; all are counted
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    faults: usize,
}

pub(crate) fn run(args: &CheckArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let report = {
        let progress = ui.progress("checking", Unit::Things);
        service.check(args.faults, &|now| progress.set(now.done, now.total))?
    };
    let derived = report.told.iter().filter(|fault| fault.derived).count();
    if ui.is_json() {
        let faults = report.told.iter().map(|fault| {
            Json::object([
                ("part", fault.part.into()),
                ("what", json::text(&fault.what)),
                ("derived", fault.derived.into()),
            ])
        });
        ui.json(&Json::object([
            ("whole", report.is_clean().into()),
            ("records", report.records.into()),
            ("bytes", report.bytes.into()),
            ("places", report.places.into()),
            ("links", report.others.into()),
            ("faults", report.faults.into()),
            ("told", Json::Array(faults.collect())),
        ]))?;
    } else {
        let mut line = ui.text();
        line.plain(format_args!(
            "{} of {}, {}, {} followed: ",
            ui::counted(report.records, "record"),
            ui::size(report.bytes),
            ui::counted(report.places, "place"),
            ui::counted(report.others, "link"),
        ));
        match report.faults {
            0 => line.styled(ui::NAME, "everything is whole"),
            faults => line.styled(ui::MATCH, ui::counted(faults, "fault")),
        };
        ui.show(&line)?;
        for fault in &report.told {
            let mut line = ui.text();
            line.plain("  ").styled(ui::BOLD, fault.part).plain(": ").plain(ui::clean_line(&fault.what));
            ui.show(&line)?;
        }
        let told = u64::try_from(report.told.len()).unwrap_or(u64::MAX);
        if report.faults > told {
            ui.note(format_args!("{} more; --faults lists more of them", ui::thousands(report.faults - told)));
        }
        if derived > 0 {
            ui.note("what is wrong in the index is made anew by `lcm-cli repair index`");
        }
    }
    Ok(if report.is_clean() { Outcome::Done } else { Outcome::Damaged })
}
