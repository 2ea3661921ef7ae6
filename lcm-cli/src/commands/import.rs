//! `lcm-cli import`: take in what people have.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use lcm_core::{Json, Owner};
use lcm_engine::hosts::{DecodeError, Decoded, Fault, Format, Incoming, Spot};
use lcm_engine::redact::Redactor;
use lcm_engine::service::{ImportOptions, Service};
use lcm_engine::{DEFAULT_AGENT, DEFAULT_PERSON};
use tokio::signal::unix::{SignalKind, signal};

use super::{BY, Make};
use crate::error::{self, CliError, Outcome};
use crate::import::watch::Watched;
use crate::import::{ReadError, Source, SourceError};
use crate::json;
use crate::settings::{Layers, SettingArgs, Settings};
use crate::ui::{self, Ui, Unit};

/// Take in conversations from files
///
/// Takes message lists in OpenAI's format (JSON, or JSON lines of messages, requests or sessions), session files of
/// Claude Code and of Codex, the state.db of a Hermes Agent (read-only, also while it runs), and our own exports; .gz is
/// unpacked. The format is told from the content. What is there already is not taken twice. A line or element that is
/// broken is named and the rest is taken; the exit code is then 4.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  lcm-cli import ~/.claude/projects/*/*.jsonl\n  lcm-cli import ~/.hermes/state.db\n  \
                        lcm-cli import --watch ~/.claude/projects ~/.codex/sessions\n  \
                        curl -s https://example.com/chat.json | lcm-cli import - --session chat"
)]
pub(crate) struct ImportArgs {
    /// Files; - for standard input; with --watch also folders, with the .jsonl files in them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Go on: take in what is new whenever a file has grown, and files that are new; ends with Ctrl-C
    #[arg(long, conflicts_with = "session")]
    watch: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = interval, requires = "watch")]
    interval: Duration,
    /// Take the files as this format
    #[arg(long = "as", value_name = "FORMAT", value_parser = format)]
    as_format: Option<Format>,
    /// Call the session this; for files with one session
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Whose agent said it, instead of what the file says
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// To which person, instead of what the file says
    #[arg(long, value_name = "NAME")]
    person: Option<String>,
    /// Where it is from, instead of what the file says
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    #[command(flatten)]
    settings: SettingArgs,
}

/// Lists that wait between decoding and keeping: enough that neither waits long, few enough to bound memory.
const WAITING_MAX: usize = 16;
/// Faults of one file that are listed for people.
const FAULTS_SHOWN: usize = 20;
/// Faults of one file that are kept for programs; all are counted.
const FAULTS_KEPT: usize = 10_000;

/// The format of this name.
pub(super) fn format(name: &str) -> Result<Format, String> {
    Format::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("formats are {}", names.join(", "))
    })
}

/// Reads the time between two looks.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|seconds| (0.05..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "seconds, from 0.05 to 86400".to_owned())
}

/// What came of a file.
#[derive(Default)]
struct Report {
    file: String,
    sessions: HashSet<(Owner, String)>,
    new: u64,
    known: u64,
    branches: u64,
    passed: Vec<(String, u64)>,
    faults: Vec<Fault>,
    /// Faults that cost something, and those that did not.
    lost: u64,
    noted: u64,
    failed: Option<SourceError>,
}

pub(crate) fn run(
    args: ImportArgs,
    layers: &Layers<'_>,
    stdin: Box<dyn Read + Send>,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    let settings = layers.settings(&args.settings, ui)?;
    let redactor = settings.redactor()?;
    if args.watch {
        return watch(&args, layers.home, &settings, ui);
    }
    let open = || super::open_to_take_in(layers.home, Make::Yes, redactor);
    let mut stdin = Some(stdin);
    let sources: Result<Vec<Source>, CliError> = args.files.iter().map(|path| Source::new(path, &mut stdin)).collect();
    let sources = sources?;
    if let Some(name) = args.session.as_ref().filter(|name| name.is_empty()) {
        return Err(CliError::usage(
            format!("{name:?} is no name for a session"),
            "give it a name, or leave out --session",
        ));
    }
    let reports: Vec<Report> =
        sources.iter().map(|source| Report { file: source.shown(), ..Report::default() }).collect();
    let bytes = sources.iter().map(Source::bytes).sum();
    let import = Import { args: &args, reports: Mutex::new(reports), read: Arc::default(), bytes };
    let index = if args.session.is_some() {
        // Whether there is one session only shows at the end, and until then nothing is kept.
        let lists = import.decode_all(sources)?;
        import.keep(&open()?, &mut lists.into_iter(), ui)?
    } else {
        import.stream(sources, open, ui)?
    };
    let reports = import.reports.into_inner().unwrap_or_else(PoisonError::into_inner);
    finish(reports, index, ui)
}

/// Takes in what is new until somebody ends it.
fn watch(args: &ImportArgs, home: &Path, settings: &Settings, ui: &mut Ui) -> Result<Outcome, CliError> {
    if args.files.iter().any(|path| path == Path::new("-")) {
        return Err(CliError::usage("- cannot be followed: it is read once", "name files or folders"));
    }
    let fail = |source| CliError::File { what: "wait for", path: "signals".into(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
    let signals = {
        let _runtime = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate()].map(signal)
    };
    let [interrupt, terminate] = signals;
    let (mut interrupt, mut terminate) = (interrupt.map_err(fail)?, terminate.map_err(fail)?);
    let mut watched = Watched::new(args.files.clone());
    let mut told: HashSet<String> = HashSet::new();
    loop {
        let found = watched.look(SystemTime::now());
        for (path, error) in found.unread {
            say_once(&mut told, format!("{}: {error}", path.display()), ui);
        }
        for path in found.changed {
            let begun = Instant::now();
            if !take_in(args, home, settings.redactor()?, &path, &mut told, ui)? {
                watched.forget(&path);
            }
            watched.rest(&path, SystemTime::now(), begun.elapsed());
        }
        ui.flush()?;
        let is_over = runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => true,
                _ = terminate.recv() => true,
                () = tokio::time::sleep(args.interval) => false,
            }
        });
        if is_over {
            return Ok(Outcome::Done);
        }
    }
}

/// Takes in a file that has changed; whether it is done with. What cannot be taken is told once, and the next file
/// follows.
fn take_in(
    args: &ImportArgs,
    home: &Path,
    redactor: Option<Redactor>,
    path: &Path,
    told: &mut HashSet<String>,
    ui: &mut Ui,
) -> Result<bool, CliError> {
    let source = match Source::new(path, &mut None) {
        Ok(source) => source,
        Err(error) => {
            say_once(told, error.told(), ui);
            return Ok(true);
        }
    };
    let reports = Mutex::new(vec![Report { file: source.shown(), ..Report::default() }]);
    let import = Import { args, reports, read: Arc::default(), bytes: source.bytes() };
    let open = || super::open_to_take_in(home, Make::Yes, redactor);
    let mut is_done = true;
    match import.stream(vec![source], open, ui) {
        Ok(None) => {}
        Ok(Some(what)) => say_once(told, format!("the search index is not up to date: {what}"), ui),
        // A store that is busy or a disk that is full is not for ever.
        Err(error) => {
            is_done = false;
            say_once(told, error.told(), ui);
        }
    }
    let reports = import.reports.into_inner().unwrap_or_else(PoisonError::into_inner);
    for report in reports {
        for fault in report.faults.iter().take(FAULTS_SHOWN) {
            say_once(told, format!("{}: {}: {}", report.file, fault.at, fault.what), ui);
        }
        match &report.failed {
            None | Some(SourceError::Decode(DecodeError::Empty) | SourceError::Database(ReadError::Empty)) => {}
            Some(error) => say_once(told, format!("{}: {}", report.file, error::chain(error)), ui),
        }
        if report.new == 0 && report.branches == 0 {
            continue;
        }
        if ui.is_json() {
            ui.json(&report.json())?;
        } else {
            // What was passed over and what is wrong is the same each time.
            Report { passed: Vec::new(), faults: Vec::new(), lost: 0, noted: 0, ..report }.show(ui)?;
        }
    }
    Ok(is_done)
}

/// Says something, once.
fn say_once(told: &mut HashSet<String>, what: String, ui: &mut Ui) {
    if told.len() < FAULTS_KEPT && told.insert(what.clone()) {
        ui.note(what);
    }
}

struct Import<'a> {
    args: &'a ImportArgs,
    reports: Mutex<Vec<Report>>,
    /// Bytes that were read, of how many.
    read: Arc<AtomicU64>,
    bytes: u64,
}

/// Sends what is decoded, the first list when there is one.
type Waiting = SyncSender<Incoming>;

impl Import<'_> {
    fn with<T>(&self, file: usize, change: impl FnOnce(&mut Report) -> T) -> T {
        // Reports are counts and lists; a panic elsewhere leaves them whole.
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut reports[file])
    }

    /// Decodes a file; everything but the sessions goes into its report.
    fn decode(&self, file: usize, mut source: Source, take: &mut dyn FnMut(Incoming) -> Result<(), DecodeError>) {
        let decoded = source.decode(self.args.as_format, &self.read, &mut |decoded| match decoded {
            Decoded::Session(mut incoming) => {
                incoming.tag = u64::try_from(file).unwrap_or(u64::MAX);
                self.overrule(&mut incoming);
                take(incoming)
            }
            Decoded::Fault(fault) => {
                self.with(file, |report| report.fault(fault));
                Ok(())
            }
            Decoded::Passed { what, count } => {
                self.with(file, |report| report.passed.push((what, count)));
                Ok(())
            }
        });
        if let Err(error) = decoded {
            self.with(file, |report| report.failed = Some(error));
        }
    }

    /// What the user says counts more than what the file says.
    fn overrule(&self, incoming: &mut Incoming) {
        let ImportArgs { session, agent, person, source, .. } = self.args;
        if let Some(agent) = agent {
            incoming.agent = Some(agent.clone());
        }
        if let Some(person) = person {
            incoming.person = Some(person.clone());
        }
        if let Some(source) = source {
            incoming.source.clone_from(source);
        }
        if let Some(session) = session {
            incoming.name.clone_from(session);
            incoming.name_is_guess = false;
        }
    }

    /// Decodes every file before anything is kept, and sees that there is one session only.
    fn decode_all(&self, sources: Vec<Source>) -> Result<Vec<Incoming>, CliError> {
        let mut lists = Vec::new();
        let mut parts = HashSet::new();
        for (file, source) in sources.into_iter().enumerate() {
            self.decode(file, source, &mut |incoming| {
                // What is sent in parts is one session; all else comes whole.
                if incoming.known == 0 {
                    parts.insert((file, lists.len()));
                }
                lists.push(incoming);
                Ok(())
            });
        }
        if parts.len() > 1 {
            let what = format!("--session names one session, and there are {}", parts.len());
            return Err(CliError::usage(what, "leave out --session, or import the files one by one"));
        }
        Ok(lists)
    }

    /// Decodes on a thread of its own while what is decoded is kept. The store is made when the first session comes.
    fn stream<S: Service>(
        &self,
        sources: Vec<Source>,
        open: impl FnOnce() -> Result<S, CliError>,
        ui: &Ui,
    ) -> Result<Option<String>, CliError> {
        thread::scope(|scope| {
            let (send, lists): (Waiting, Receiver<Incoming>) = mpsc::sync_channel(WAITING_MAX);
            scope.spawn(move || {
                for (file, source) in sources.into_iter().enumerate() {
                    self.decode(file, source, &mut |incoming| send.send(incoming).map_err(|_| DecodeError::Stopped));
                }
            });
            match lists.recv() {
                Ok(first) => self.keep(&open()?, &mut std::iter::once(first).chain(lists), ui),
                // There is nothing to keep, so no store is made.
                Err(mpsc::RecvError) => Ok(None),
            }
        })
    }

    /// Keeps what was decoded; gives why the search index is not up to date, when it is not.
    fn keep(
        &self,
        service: &dyn Service,
        lists: &mut (dyn Iterator<Item = Incoming> + Send),
        ui: &Ui,
    ) -> Result<Option<String>, CliError> {
        let progress = ui.progress("importing", Unit::Bytes);
        let indexing = OnceCell::new();
        let options = ImportOptions {
            defaults: Owner { agent: DEFAULT_AGENT.to_owned(), person: DEFAULT_PERSON.to_owned() },
            by: BY.to_owned(),
            now_ms: ui.now_ms(),
            indexing: &|now| indexing.get_or_init(|| ui.progress("indexing", Unit::Things)).set(now.done, now.total),
        };
        let imported = service.import(lists, &options, &mut |ingested| {
            progress.set(self.read.load(Ordering::Relaxed).min(self.bytes), self.bytes);
            let Ok(file) = usize::try_from(ingested.tag) else { return };
            self.with(file, |report| {
                report.new += ingested.new;
                report.known += ingested.known;
                report.branches += ingested.branches;
                report.sessions.insert((ingested.key.owner.clone(), ingested.key.name.clone()));
            });
        })?;
        // Searches look into the messages themselves, so this is no failure of the import.
        Ok(imported.index.err().map(|error| error::chain(&error)))
    }
}

impl Report {
    fn fault(&mut self, fault: Fault) {
        if fault.is_kept {
            self.noted += 1;
        } else {
            self.lost += 1;
        }
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push(fault);
        }
    }

    fn json(&self) -> Json {
        let spot = |at: Spot| match at {
            Spot::Whole => Vec::new(),
            Spot::Line(line) => vec![("line", line.into())],
            Spot::Element(number, line) => vec![("element", number.into()), ("line", line.into())],
            Spot::Inside(line, number) => vec![("line", line.into()), ("message", number.into())],
            Spot::Row(id) => vec![("row", id.into())],
        };
        let faults = self.faults.iter().map(|fault| {
            let mut entries = spot(fault.at);
            entries.extend([("what", json::text(&fault.what)), ("kept", fault.is_kept.into())]);
            Json::object(entries)
        });
        let passed = self.passed.iter().map(|(what, count)| (what.as_str().into(), (*count).into()));
        let mut entries = vec![
            ("file", json::text(&self.file)),
            ("sessions", json::number(self.sessions.len())),
            ("new", self.new.into()),
            ("known", self.known.into()),
            ("branches", self.branches.into()),
            ("passed", Json::Object(passed.collect())),
            ("lost", self.lost.into()),
            ("noted", self.noted.into()),
            ("faults", Json::Array(faults.collect())),
        ];
        if let Some(error) = &self.failed {
            entries.push(("error", json::text(&error::chain(error))));
        }
        Json::object(entries)
    }

    fn show(&self, ui: &mut Ui) -> Result<(), CliError> {
        let mut line = ui.text();
        line.named(&self.file).plain(": ");
        let sessions = u64::try_from(self.sessions.len()).unwrap_or(u64::MAX);
        line.plain(ui::counted(sessions, "session")).plain(", ");
        line.plain(ui::counted(self.new, "new message"));
        if self.known > 0 {
            line.plain(format_args!(", {} there already", ui::thousands(self.known)));
        }
        if self.branches > 0 {
            let count = ui::thousands(self.branches);
            line.plain(format_args!(", {count} {}", if self.branches == 1 { "branch" } else { "branches" }));
        }
        if self.lost > 0 {
            line.styled(ui::MATCH, format_args!(", {} not taken", ui::thousands(self.lost)));
        }
        ui.show(&line)?;
        for (what, count) in &self.passed {
            let mut line = ui.text();
            line.plain(format_args!("  passed over: {} × ", ui::thousands(*count))).plain(ui::clean_line(what));
            ui.show(&line)?;
        }
        for fault in self.faults.iter().take(FAULTS_SHOWN) {
            let kept = if fault.is_kept { " (taken all the same)" } else { "" };
            ui.note(format_args!("{}: {}: {}{kept}", self.file, fault.at, fault.what));
        }
        let all = self.lost + self.noted;
        let shown = u64::try_from(FAULTS_SHOWN).unwrap_or(u64::MAX);
        if all > shown {
            ui.note(format_args!("{}: {} more; --format json lists them", self.file, ui::thousands(all - shown)));
        }
        Ok(())
    }
}

fn finish(mut reports: Vec<Report>, index: Option<String>, ui: &mut Ui) -> Result<Outcome, CliError> {
    let (mut failures, mut is_anything, mut lost) = (Vec::new(), false, 0);
    for report in &mut reports {
        is_anything |= report.new + report.known > 0;
        lost += report.lost;
        if ui.is_json() {
            ui.json(&report.json())?;
        } else if report.failed.is_none() || report.new + report.known + report.lost > 0 {
            report.show(ui)?;
        }
        match report.failed.take() {
            // Nothing in it is nothing wrong.
            Some(SourceError::Decode(DecodeError::Empty) | SourceError::Database(ReadError::Empty)) => {
                ui.note(format_args!("{}: it is empty", report.file));
            }
            Some(error) => failures.push(CliError::Usage {
                what: format!("{}: {}", report.file, error::chain(&error)),
                hint: error.hint().map(str::to_owned),
            }),
            None => {}
        }
    }
    if let Some(what) = index {
        ui.note(format_args!("the search index is not up to date: {what}"));
    }
    if !is_anything && failures.is_empty() && lost > 0 {
        failures.push(CliError::usage("nothing in it could be taken", "--as names the format, if it was mistaken"));
    }
    let is_partly = lost > 0 || !failures.is_empty();
    // The last failure is told by whoever called, when it is all there is.
    let last = if is_anything { None } else { failures.pop() };
    for failure in &failures {
        ui.error(failure);
    }
    match last {
        Some(failure) => Err(failure),
        None if is_partly => Ok(Outcome::Partly),
        None => Ok(if is_anything { Outcome::Done } else { Outcome::Nothing }),
    }
}
