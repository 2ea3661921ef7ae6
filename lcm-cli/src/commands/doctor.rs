//! `lcm-cli doctor`: what could be in the way, each with what to do about it.
//!
//! Looks from outside at what the store needs (directory, modes, room, file system), then asks the store how it is. Each
//! part is a function that gives findings; another part is another function in [`look`].
//! Not here: the audit of everything that is kept (`check`).

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use lcm_core::Json;
use lcm_engine::Engine;
use lcm_engine::service::{IndexState, Service, Status};

use super::Make;
use super::install::{self, Where};
use crate::error::{self, CliError, Outcome};
use crate::hosts::files::Step;
use crate::hosts::hermes::HermesHome;
use crate::hosts::librefang::LibreFangHome;
use crate::json;
use crate::settings::{Layers, SettingArgs};
use crate::ui::{self, Ui};

/// Look whether anything is in the way of the store, and say what to do about it
///
/// The directory and its modes, room on the disk, the file system, the format, whether it can be written, the search
/// index, the settings. Writes nothing. Exits 3 when something is wrong; `lcm-cli check` goes through everything that is
/// kept.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  lcm-cli doctor\n  lcm-cli doctor --home DIR --format json\n  lcm-cli doctor hermes\n  lcm-cli doctor librefang"
)]
pub(crate) struct DoctorArgs {
    /// Look at lcm in this agent's home instead; `--home` names that home then
    #[arg(value_name = "HOST")]
    host: Option<HostArg>,
    /// A profile of the agent (hermes)
    #[arg(long, value_name = "NAME", requires = "host")]
    profile: Option<String>,
    /// The agent's Python; else that of the `hermes` on the path
    #[arg(long, value_name = "FILE", requires = "host")]
    python: Option<PathBuf>,
    /// The program of LibreFang, to tell its version while no daemon runs; else the `librefang` on the path
    #[arg(long, value_name = "FILE", requires = "host")]
    program: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum HostArg {
    Hermes,
    #[value(name = "librefang")]
    LibreFang,
}

impl DoctorArgs {
    /// Whether an agent's home is meant.
    pub(crate) fn is_of_a_host(&self) -> bool {
        self.host.is_some()
    }
}

/// Less room than this and the next import may not fit.
const ROOM_SHORT_BYTES: u64 = 256 << 20;
/// Less than this and a turn may not.
const ROOM_NONE_BYTES: u64 = 16 << 20;
/// Messages that the index may be behind before anybody should care: what a process that serves catches up by itself.
const BEHIND_MAX: u64 = 4096;

/// How a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grade {
    Fine,
    /// Worth knowing; nothing fails by it.
    Note,
    Wrong,
}

impl Grade {
    fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Wrong => "wrong",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The part.
    pub(crate) part: &'static str,
    pub(crate) grade: Grade,
    /// What was found, as a sentence without a full stop.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) advice: Option<String>,
}

impl Finding {
    pub(crate) fn fine(part: &'static str, what: impl Into<String>) -> Self {
        Self { part, grade: Grade::Fine, what: what.into(), advice: None }
    }

    pub(crate) fn note(part: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { part, grade: Grade::Note, what: what.into(), advice: Some(advice.into()) }
    }

    pub(crate) fn wrong(part: &'static str, what: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { part, grade: Grade::Wrong, what: what.into(), advice: Some(advice.into()) }
    }

    pub(crate) fn is_fine(&self) -> bool {
        self.grade == Grade::Fine
    }

    /// Something that failed.
    fn failed(part: &'static str, error: &CliError) -> Self {
        Self { part, grade: Grade::Wrong, what: error.sentence(), advice: error.hint() }
    }
}

pub(crate) fn run(
    layers: &Layers<'_>,
    open: impl Fn(Make) -> Result<Engine, CliError>,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    tell(&look(layers, open), ui)
}

/// Looks at lcm in an agent's home.
pub(crate) fn of_host(args: &DoctorArgs, (home, env): Where<'_>, ui: &mut Ui) -> Result<Outcome, CliError> {
    if let Some(HostArg::LibreFang) = args.host {
        let home = LibreFangHome::find(home, env)?;
        let mut findings = home.look(env, args.program.as_deref())?;
        findings.push(of_data(&home.data()));
        return tell(&findings, ui);
    }
    let home = HermesHome::find(home, args.profile.as_deref(), env)?;
    let mut findings = vec![Finding::fine("directory", home.path.display().to_string())];
    let advice = "`lcm-cli install hermes` puts it right";
    for (is_fine, Step { part, what }) in home.look()? {
        findings.push(if is_fine { Finding::fine(part, what) } else { Finding::wrong(part, what, advice) });
    }
    let asked = home.ask(args.python.as_deref(), env);
    let (is_found, what) = install::verdict(asked.as_ref());
    findings.push(match (is_found, &asked) {
        (true, _) => Finding::fine("agent", what),
        (false, None) => Finding::note("agent", what, "lcm-cli doctor hermes --python FILE"),
        (false, Some(_)) => Finding::wrong("agent", what, advice),
    });
    findings.push(of_data(&home.data()));
    tell(&findings, ui)
}

/// Whether the data in a host's home can be read.
fn of_data(data: &Path) -> Finding {
    let advice = format!("`lcm-cli doctor --home {}` looks at the data", data.display());
    match data.join("CURRENT").exists().then(|| super::open(data, Make::No)) {
        Some(Ok(_)) => Finding::fine("data", data.display().to_string()),
        Some(Err(error)) => Finding::wrong("data", error.sentence(), advice),
        None => Finding::fine("data", format!("{} is made with the first conversation", data.display())),
    }
}

/// Says what was found; the worst of it is how the command ends.
pub(crate) fn tell(findings: &[Finding], ui: &mut Ui) -> Result<Outcome, CliError> {
    let mut worst = Grade::Fine;
    for finding in findings {
        worst = worst.max(finding.grade);
        if ui.is_json() {
            let mut entries = vec![
                ("part", json::text(finding.part)),
                ("grade", json::text(finding.grade.name())),
                ("what", json::text(&finding.what)),
            ];
            entries.extend(finding.advice.iter().map(|advice| ("advice", json::text(advice))));
            ui.json(&Json::object(entries))?;
            continue;
        }
        let mut line = ui.text();
        let style = match finding.grade {
            Grade::Fine => ui::NAME,
            Grade::Note => ui::BOLD,
            Grade::Wrong => ui::MATCH,
        };
        line.styled(style, format_args!("{:<6}", finding.grade.name()));
        line.styled(ui::BOLD, format_args!("{:<12}", finding.part)).plain(ui::clean_line(&finding.what));
        ui.show(&line)?;
        if let Some(advice) = &finding.advice {
            let mut line = ui.text();
            line.styled(ui::DIM, format_args!("{:<18}", "")).plain(ui::clean_line(advice));
            ui.show(&line)?;
        }
    }
    Ok(if worst == Grade::Wrong { Outcome::Damaged } else { Outcome::Done })
}

/// Looks at everything, part by part.
fn look(layers: &Layers<'_>, open: impl Fn(Make) -> Result<Engine, CliError>) -> Vec<Finding> {
    let home = layers.home;
    let mut findings = vec![directory(home)];
    findings.extend(permissions(home));
    findings.extend(disk(home));
    findings.extend(settings(layers));
    match open(Make::No) {
        Err(error) => findings.push(Finding::failed("store", &error)),
        Ok(engine) => match engine.status() {
            Err(error) => findings.push(Finding::failed("store", &error.into())),
            Ok(status) => {
                findings.push(store(&status));
                findings.push(lock(&engine));
                findings.push(index(&status));
            }
        },
    }
    findings
}

fn directory(home: &Path) -> Finding {
    match fs::metadata(home) {
        Ok(metadata) if metadata.is_dir() => Finding::fine("directory", home.display().to_string()),
        Ok(_) => Finding::wrong(
            "directory",
            format!("{} is not a directory", home.display()),
            "name another one with --home or LCM_HOME",
        ),
        Err(error) => Finding::wrong(
            "directory",
            format!("{} cannot be looked at: {error}", home.display()),
            "`lcm-cli import FILE` makes a store; --home or LCM_HOME names another directory",
        ),
    }
}

/// Whether anybody but its owner can read or write it, and whether that is us.
fn permissions(home: &Path) -> Vec<Finding> {
    let Ok(metadata) = fs::metadata(home) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut open = Vec::new();
    let mut paths = vec![home.to_owned()];
    let is_ours = |name: &str| name == "CURRENT" || name == "index" || name.starts_with("store.");
    let files = fs::read_dir(home).into_iter().flatten().flatten();
    paths.extend(files.filter(|file| file.file_name().to_str().is_some_and(is_ours)).map(|file| file.path()));
    for path in paths {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let mode = metadata.permissions().mode() & 0o777;
        if !metadata.is_symlink() && mode & 0o077 != 0 {
            open.push(format!("{} has mode {mode:03o}", path.display()));
        }
    }
    if let Some(first) = open.first() {
        let more = match open.len() {
            1 => String::new(),
            count => format!(", and {} more", count - 1),
        };
        let advice = format!("chmod -R go= {}; the next write does it too", home.display());
        findings.push(Finding::wrong("permissions", format!("others can look in: {first}{more}"), advice));
    }
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        let what = format!("the directory belongs to user {}, and this program runs as user {user}", metadata.uid());
        findings.push(Finding::note(
            "permissions",
            what,
            "run it as its owner, so that all of its files stay the owner's",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::fine("permissions", "its owner's alone"));
    }
    findings
}

/// Room, and whether locks can be relied on.
fn disk(home: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Ok(system) = rustix::fs::statvfs(home) {
        let room = system.f_bavail.saturating_mul(system.f_frsize);
        let said = format!("{} free", ui::size(room));
        let advice = "make room: a write that finds none fails as a whole, and nothing is lost";
        findings.push(match room {
            0..ROOM_NONE_BYTES => Finding::wrong("disk", said, advice),
            ROOM_NONE_BYTES..ROOM_SHORT_BYTES => Finding::note("disk", said, advice),
            _ => Finding::fine("disk", said),
        });
    }
    #[cfg(target_os = "linux")]
    if let Ok(system) = rustix::fs::statfs(home) {
        // The numbers that the kernel gives to file systems behind a network.
        let remote = match u64::try_from(system.f_type).unwrap_or(0) {
            0x6969 => Some("NFS"),
            0xff53_4d42 | 0xfe53_4d42 | 0x517b => Some("SMB"),
            0x0102_1997 => Some("9P"),
            0x00c3_6400 => Some("Ceph"),
            _ => None,
        };
        if let Some(name) = remote {
            findings.push(Finding::note(
                "disk",
                format!("the store lies on {name}, where locks of byte ranges are not always kept"),
                "keep it on a disk of this machine when more than one process uses it",
            ));
        }
    }
    findings
}

/// What the environment and the settings say, and whether that makes sense.
fn settings(layers: &Layers<'_>) -> Vec<Finding> {
    const PART: &str = "settings";
    let shows = "`lcm-cli config show` lists all settings and where they come from";
    let found = layers.find(&SettingArgs::default());
    let mut findings: Vec<Finding> =
        found.problems.iter().map(|problem| Finding::wrong(PART, problem.as_str(), shows)).collect();
    // What is wrong in itself makes no more of it.
    if findings.is_empty() {
        findings.extend(found.settings.model().err().map(|error| Finding::failed(PART, &error)));
        findings.extend(found.settings.redactor().err().map(|error| Finding::failed(PART, &error)));
    }
    if let Some(home) = (layers.env)("LCM_HOME").filter(|home| !home.is_empty() && !Path::new(home).is_absolute()) {
        findings.push(Finding::note(
            PART,
            format!("LCM_HOME is {}, which depends on the folder one is in", home.to_string_lossy()),
            "set it to a path that begins with /",
        ));
    }
    findings.extend(found.notes().into_iter().map(|note| Finding::note(PART, note, shows)));
    if findings.is_empty() {
        findings.push(Finding::fine(PART, "nothing is in the way"));
    }
    findings
}

fn store(status: &Status) -> Finding {
    Finding::fine(
        "store",
        format!(
            "format {}, {}, {}, {}",
            status.format,
            ui::counted(status.sessions, "session"),
            format_args!("{} and summaries", ui::counted(status.places, "message")),
            ui::size(status.data_bytes)
        ),
    )
}

/// Whether a write could begin.
fn lock(engine: &Engine) -> Finding {
    match engine.try_write() {
        Ok(()) => Finding::fine("lock", "it can be written"),
        Err(failed) => {
            let failed = CliError::from(failed);
            let advice = failed.hint().unwrap_or_else(|| "look at the owner and the modes of its files".to_owned());
            Finding::wrong("lock", format!("it cannot be written: {}", error::chain(&failed)), advice)
        }
    }
}

fn index(status: &Status) -> Finding {
    let index = &status.index;
    let behind = index.last_arrival.0.saturating_sub(index.indexed_to.0);
    let advice = "`lcm-cli repair index` makes it anew; searches find everything meanwhile";
    match index.state {
        IndexState::Unusable => Finding::wrong("index", "the search index is unusable", advice),
        IndexState::Absent if behind > BEHIND_MAX => {
            Finding::note("index", "there is no search index, so searches read the messages themselves", advice)
        }
        IndexState::Absent => Finding::fine("index", "none yet; searches look into the messages themselves"),
        IndexState::Ready if behind > BEHIND_MAX => {
            let what = format!("the search index is {} behind", ui::counted(behind, "message"));
            Finding::note("index", what, "a process that serves catches up by itself; so does the next import")
        }
        IndexState::Ready => Finding::fine("index", format!("up to message {}", index.indexed_to)),
    }
}
