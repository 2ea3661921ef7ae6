//! `lcm-cli export`: everything that was said, as JSON lines that import takes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use lcm_core::Json;
use lcm_engine::error::EngineError;
use lcm_engine::hosts::export::encode;
use lcm_engine::service::{ExportRecord, ExportRequest, Service};

use super::ScopeArgs;
use crate::error::{CliError, Outcome};
use crate::target::{Existing, Target};
use crate::ui::{self, Ui};

/// Write everything that was said as JSON lines
///
/// `lcm-cli import` takes them again and gives every message the same id; branches are included. To a file, the
/// export appears when it is whole.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  lcm-cli export --output all.jsonl.gz\n  lcm-cli export '#3' tide-clock | gzip > two.jsonl.gz"
)]
pub(crate) struct ExportArgs {
    /// Only these sessions
    #[arg(value_name = "SESSION")]
    sessions: Vec<String>,
    /// Write to this file, packed when its name ends in .gz; only you can read it
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file when it is there
    #[arg(long, requires = "output")]
    force: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

pub(crate) fn run(args: &ExportArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let scope = args.scope.in_sessions(&args.sessions, service)?;
    let request = ExportRequest { scope, now_ms: ui.now_ms() };
    let Some(path) = &args.output else {
        let (counts, _) = write(service, &request, &mut |line| ui.bytes(line))?;
        counts.tell(ui);
        return Ok(counts.outcome());
    };
    let fail = |source| CliError::File { what: "write", path: path.clone(), source };
    let target = Target::new(path, if args.force { Existing::Replaced } else { Existing::Kept })?;
    let mut out = Packed::new(target.file(), path);
    let (counts, bytes) = write(service, &request, &mut |line| out.write_all(line).map_err(fail))?;
    out.finish().map_err(fail)?;
    target.finish()?;
    counts.tell(ui);
    if ui.is_json() {
        let file = path.to_string_lossy();
        ui.json(&Json::object([
            ("file", file.as_ref().into()),
            ("sessions", counts.sessions.into()),
            ("messages", counts.messages.into()),
            ("bytes", bytes.into()),
        ]))?;
    } else {
        let mut line = ui.text();
        line.named(&path.display().to_string()).plain(format_args!(
            ": {}, {}",
            ui::counted(counts.sessions, "session"),
            ui::counted(counts.messages, "message")
        ));
        ui.show(&line)?;
    }
    Ok(counts.outcome())
}

#[derive(Default)]
struct Counts {
    sessions: u64,
    messages: u64,
    /// What is damaged and left out, and the first of it, a line each.
    damaged: u64,
    told: Vec<String>,
}

/// Damaged messages that are named one by one: more than these nobody reads, and `check` tells all.
const TOLD_MAX: usize = 100;

impl Counts {
    fn outcome(&self) -> Outcome {
        match (self.damaged, self.sessions) {
            (1.., _) => Outcome::Partly,
            (0, 0) => Outcome::Nothing,
            (0, _) => Outcome::Done,
        }
    }

    /// Tells of what is left out.
    fn tell(&self, ui: &mut Ui) {
        for line in &self.told {
            ui.note(line);
        }
        let told = u64::try_from(self.told.len()).unwrap_or(u64::MAX);
        if self.damaged > told {
            ui.note(format_args!("{} more are damaged and left out", ui::thousands(self.damaged - told)));
        }
        if self.damaged > 0 {
            ui.note("`lcm-cli check` tells the extent");
        }
    }
}

/// Hands every line of an export over; says how much there was.
fn write(
    service: &dyn Service,
    request: &ExportRequest,
    take: &mut dyn FnMut(&[u8]) -> Result<(), CliError>,
) -> Result<(Counts, u64), CliError> {
    let (mut line, mut counts, mut bytes, mut failed) = (Vec::new(), Counts::default(), 0_u64, None);
    let exported = service.export(request, &mut |record| {
        match &record {
            ExportRecord::End { sessions, messages } => (counts.sessions, counts.messages) = (*sessions, *messages),
            ExportRecord::Damaged { number, why } => {
                counts.damaged += 1;
                if counts.told.len() < TOLD_MAX {
                    counts.told.push(format!("left out: message {number}: {why}"));
                }
            }
            _ => {}
        }
        line.clear();
        encode(&record, &mut line);
        bytes += u64::try_from(line.len()).unwrap_or(u64::MAX);
        take(&line).map_err(|error| {
            failed = Some(error);
            EngineError::Stopped
        })
    });
    match (exported, failed) {
        (_, Some(error)) => Err(error),
        (Err(error), None) => Err(error.into()),
        (Ok(()), None) => Ok((counts, bytes)),
    }
}

/// A file that is packed when its name says so.
enum Packed<'f> {
    Plain(BufWriter<&'f File>),
    Gzip(GzEncoder<BufWriter<&'f File>>),
}

impl<'f> Packed<'f> {
    fn new(file: &'f File, path: &Path) -> Self {
        let file = BufWriter::with_capacity(256 << 10, file);
        if path.extension().is_some_and(|extension| extension == "gz") {
            // No name and no time in it: the same export gives the same bytes.
            Self::Gzip(GzEncoder::new(file, Compression::default()))
        } else {
            Self::Plain(file)
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.write_all(bytes),
            Self::Gzip(file) => file.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut file) => file.flush(),
            Self::Gzip(file) => file.finish()?.flush(),
        }
    }
}
