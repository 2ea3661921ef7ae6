//! `lcm-cli export`: everything that was said, as JSON lines that import takes.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use lcm_core::Json;
use lcm_engine::error::EngineError;
use lcm_engine::hosts::export::encode;
use lcm_engine::service::{ExportRecord, ExportRequest, Service};
use tempfile::NamedTempFile;

use super::ScopeArgs;
use crate::error::{CliError, Outcome};
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
        return Ok(counts.outcome());
    };
    let fail = |what: &'static str| move |source| CliError::File { what, path: path.clone(), source };
    if !args.force && fs::symlink_metadata(path).is_ok() {
        let what = format!("{} is there already", path.display());
        return Err(CliError::usage(what, "name another file, or replace it with --force"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Made with mode 0600 beside its last place, so that a failure leaves nothing and a rename shows all at once.
    let file = NamedTempFile::new_in(folder).map_err(fail("write"))?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o600)).map_err(fail("write"))?;
    let mut out = Packed::new(file.as_file(), path);
    let (counts, bytes) = write(service, &request, &mut |line| out.write_all(line).map_err(fail("write")))?;
    out.finish().map_err(fail("write"))?;
    file.as_file().sync_all().map_err(fail("write"))?;
    match args.force {
        true => file.persist(path).map_err(|error| fail("write")(error.error))?,
        false => file.persist_noclobber(path).map_err(|error| fail("write")(error.error))?,
    };
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
        line.said(&path.display().to_string()).plain(format_args!(
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
}

impl Counts {
    fn outcome(&self) -> Outcome {
        if self.sessions == 0 { Outcome::Nothing } else { Outcome::Done }
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
        if let ExportRecord::End { sessions, messages } = record {
            counts = Counts { sessions, messages };
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
