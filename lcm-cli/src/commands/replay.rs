//! `lcm-cli replay`: a recorded session through the engine, request by request, as a host would send it.
//!
//! The proof on real input: what is folded, what every request costs, how much of it stays byte-identical, and that every
//! original comes back. By default in a store of its own that is thrown away.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lcm_core::{Json, Message, NodeId, SessionId};
use lcm_engine::compress::CompressOptions;
use lcm_engine::compress::summary::Summarizer;
use lcm_engine::hosts::{Format, Incoming};
use lcm_engine::redact::Redactor;
use lcm_engine::service::{
    CheckReport, CompressRequest, Description, DownTo, ExpandRequest, Expansion, InMessage, ReadRequest, Scope,
    Service, SessionKey, Shown, TurnRequest, ViewRequest,
};
use lcm_engine::{DEFAULT_AGENT, DEFAULT_PERSON};
use tempfile::TempDir;

use super::{BY, Make};
use crate::error::{CliError, Outcome};
use crate::folding::FoldArgs;
use crate::import::{self, Source};
use crate::json;
use crate::settings::Layers;
use crate::ui::{self, Ui, Unit};

/// Replay recorded sessions through a window, turn by turn, and prove that nothing is lost
///
/// Each message of an assistant is the answer to a request: the list up to it goes to the engine as a host's would, and is
/// compressed when it is over the threshold. At the end: the folds as a tree, what the requests cost, how much of them
/// stayed as it was, how long the steps took, and whether every original comes back. Nothing is kept unless --home names
/// a store. Exits 3 when anything is lost, invalid or over budget without a reason.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  lcm-cli replay session.jsonl --window 16000\n  lcm-cli replay sample.sessions.jsonl.gz --session pi --window 16384 --threshold 12000"
)]
pub(crate) struct ReplayArgs {
    /// A file that `import` reads; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    fold: FoldArgs,
    /// Take the file as this format
    #[arg(long = "as", value_name = "FORMAT", value_parser = super::import::format)]
    as_format: Option<Format>,
    /// Replay this session of the file only: its name, or the beginning of it
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
}

/// Rows of the chart, and columns at most.
const CHART_ROWS: usize = 8;
const CHART_COLUMNS_MAX: usize = 72;
/// Lines of the tree of one session.
const TREE_MAX: usize = 200;
/// Faults of the check, and reasons, that are listed.
const LISTED_MAX: usize = 10;
/// Bytes of messages read at once.
const PAGE_BYTES: usize = 8 << 20;

/// A recorded session.
struct Recorded {
    key: SessionKey,
    source: String,
    messages: Vec<InMessage>,
}

/// One request to the model.
struct Request {
    tokens: u64,
    bytes: u64,
    /// Bytes at its head that stood at the head of the one before.
    stable: u64,
}

/// What came of a session.
#[derive(Default)]
struct Replayed {
    name: String,
    /// Tokens that the window holds.
    window: u64,
    messages: u64,
    requests: Vec<Request>,
    compressions: u64,
    turn_times: Vec<Duration>,
    compress_times: Vec<Duration>,
    model_calls: u64,
    model_tokens: u64,
    failures: Vec<String>,
    /// Why lists over the threshold stayed as they were: at which request, and the reason.
    reasons: Vec<(usize, String)>,
    /// Requests over the threshold for which there is no reason.
    over: Vec<usize>,
    /// Lists of ours that a provider would refuse, and why.
    invalid: Vec<(usize, String)>,
    /// Lists that a provider would refuse as the session itself has it.
    invalid_as_said: u64,
    /// How what is behind the last list differs from what was said.
    behind: Difference,
    /// How what the session holds differs from it.
    held: Difference,
    tree: Vec<Branch>,
    folds: u64,
}

/// How a list differs from what was said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Difference {
    /// Messages that are missing.
    lost: u64,
    /// Messages that are there once too often.
    doubled: u64,
    /// Places at which another message stands, where none is missing and none too many.
    moved: u64,
}

/// A line of the tree of folds.
struct Branch {
    depth: usize,
    is_last: Vec<bool>,
    line: String,
    value: Json,
}

impl Replayed {
    /// Requests of more tokens than these.
    fn above(&self, tokens: u64) -> u64 {
        u64::try_from(self.requests.iter().filter(|request| request.tokens > tokens).count()).unwrap_or(u64::MAX)
    }

    fn is_right(&self) -> bool {
        let is_whole = self.behind == Difference::default() && self.held == Difference::default();
        is_whole && self.invalid.is_empty() && self.over.is_empty()
    }
}

/// Runs it in the store at `kept`, or in one that is thrown away.
pub(crate) fn run(
    args: &ReplayArgs,
    kept: Option<&Path>,
    layers: &Layers<'_>,
    stdin: Box<dyn Read + Send>,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    let settings = layers.settings(&args.fold.settings, ui)?;
    let folding = args.fold.folding(&settings)?;
    let redactor = settings.redactor()?;
    let summarizer = folding.summarizer(&settings, layers.home, ui)?;
    let options = folding.options;
    let mut source = Source::new(&args.file, &mut Some(stdin))?;
    let shown = source.shown();
    let read = import::sessions_in(&mut source, args.as_format, ui)?;
    let mut sessions = recorded(read.lists);
    if let Some(name) = &args.session {
        sessions.retain(|session| session.key.name.starts_with(name.as_str()));
    }
    if sessions.is_empty() {
        let what = match &args.session {
            Some(name) => format!("{shown} holds no session that is called {name:?}"),
            None => format!("{shown} holds no message"),
        };
        return Err(CliError::NotFound {
            what,
            hint: "`lcm-cli import FILE` and `lcm-cli sessions` tell what is in it",
        });
    }
    // Opened when there is something to replay, and thrown away at the end.
    let scratch = match kept {
        Some(_) => None,
        None => Some(super::scratch()?),
    };
    let Some(home) = kept.or(scratch.as_ref().map(TempDir::path)) else { return Ok(Outcome::Nothing) };
    let service = super::open_to_take_in(home, Make::Yes, settings.redactor()?)?;
    let mut all = Vec::with_capacity(sessions.len());
    for session in sessions {
        let host = Host {
            service: &service,
            options: &options,
            summarizer: summarizer.as_deref(),
            redactor: redactor.as_ref(),
            window: folding.window,
            now_ms: ui.now_ms(),
        };
        let done = host.replay(session, ui)?;
        if ui.is_json() {
            ui.json(&as_json(&done, &options))?;
        } else {
            show(&done, &options, ui)?;
        }
        all.push(done);
    }
    let check = {
        let progress = ui.progress("checking", Unit::Things);
        service.check(LISTED_MAX, &|now| progress.set(now.done, now.total))?
    };
    let is_right = all.iter().all(Replayed::is_right) && check.is_clean() && read.lost == 0;
    conclude(&all, &check, read.lost, is_right, ui)?;
    Ok(if is_right { Outcome::Done } else { Outcome::Damaged })
}

/// The sessions of a file, each with all its messages; parts of one are put together.
fn recorded(lists: Vec<Incoming>) -> Vec<Recorded> {
    let mut sessions: Vec<Recorded> = Vec::new();
    for incoming in lists {
        let agent = incoming.agent.as_deref().unwrap_or(DEFAULT_AGENT);
        let key = SessionKey::new(agent, incoming.person.as_deref().unwrap_or(DEFAULT_PERSON), &incoming.name);
        let messages = InMessage::list(incoming.current().into_iter().map(|message| message.json()));
        let known = usize::try_from(incoming.known).unwrap_or(usize::MAX);
        match sessions.iter_mut().find(|session| session.key == key) {
            Some(session) => {
                session.messages.truncate(known);
                session.messages.extend(messages);
            }
            None => sessions.push(Recorded { key, source: incoming.source, messages }),
        }
    }
    sessions.retain(|session| !session.messages.is_empty());
    sessions
}

/// A host that goes through a recorded session.
struct Host<'a> {
    service: &'a dyn Service,
    options: &'a CompressOptions,
    summarizer: Option<&'a dyn Summarizer>,
    /// What the engine takes out of messages before it keeps them.
    redactor: Option<&'a Redactor>,
    window: u64,
    now_ms: i64,
}

impl Host<'_> {
    fn replay(&self, session: Recorded, ui: &mut Ui) -> Result<Replayed, CliError> {
        let Recorded { key, source, messages: said } = session;
        let count = u64::try_from(said.len()).unwrap_or(u64::MAX);
        let (name, window) = (key.name.clone(), self.window);
        let mut done = Replayed { name, window, messages: count, ..Replayed::default() };
        let progress = ui.progress("replaying", Unit::Things);
        let mut list: Vec<InMessage> = Vec::new();
        let mut before: Vec<InMessage> = Vec::new();
        let mut at = 0;
        let turn = |messages: Vec<InMessage>, now: usize| TurnRequest {
            key: key.clone(),
            source: source.clone(),
            dialect: None,
            messages,
            by: BY.to_owned(),
            // As if a second went by between two messages.
            now_ms: self.now_ms.saturating_add(i64::try_from(now).unwrap_or(i64::MAX).saturating_mul(1000)),
        };
        while at < said.len() {
            // Everything up to the next answer goes into one request; answers that follow each other are one each.
            while at < said.len() && (list.is_empty() || !is_answer(&said[at])) {
                list.push(said[at].clone());
                at += 1;
            }
            let begun = Instant::now();
            self.service.turn(&turn(list.clone(), at))?;
            done.turn_times.push(begun.elapsed());
            let mut tokens = self.service.weigh(&list)?;
            let nth = done.requests.len() + 1;
            let (is_due, why) = self.service.is_due(&key, tokens, self.options);
            if !is_due && tokens > self.options.threshold_tokens {
                done.reasons.push((nth, why));
            }
            if is_due {
                let begun = Instant::now();
                let shortened = self.shorten(turn(list.clone(), at), &mut done, nth)?;
                done.compress_times.push(begun.elapsed());
                if let Some(shorter) = shortened {
                    list = shorter;
                    tokens = self.service.weigh(&list)?;
                    if tokens > self.options.threshold_tokens {
                        done.over.push(nth);
                    }
                }
            }
            if let Some(why) = self.service.refusal(&list, self.options.alternates)? {
                match self.service.refusal(&said[..at], self.options.alternates)? {
                    Some(_) => done.invalid_as_said += 1,
                    None => done.invalid.push((nth, why)),
                }
            }
            let sizes = |list: &[InMessage]| list.iter().map(|message| message.len()).sum::<usize>();
            let same = before.iter().zip(&list).take_while(|(one, other)| one == other).count();
            let number = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
            done.requests.push(Request { tokens, bytes: number(sizes(&list)), stable: number(sizes(&list[..same])) });
            before.clone_from(&list);
            if at < said.len() {
                // The model answers.
                list.push(said[at].clone());
                at += 1;
            }
            progress.set(u64::try_from(at).unwrap_or(0), count);
        }
        // What was said last is shown once more at the session's end.
        let turned = self.service.turn(&turn(list.clone(), at))?;
        if let Some(id) = turned.session {
            self.recover(id, &list, &said, &mut done)?;
        } else {
            done.held.lost = count;
        }
        Ok(done)
    }

    /// The list that comes back; `None` when the one that was given stays.
    fn shorten(&self, turn: TurnRequest, done: &mut Replayed, nth: usize) -> Result<Option<Vec<InMessage>>, CliError> {
        let (options, summarizer) = (self.options.clone(), self.summarizer);
        let request = CompressRequest { summarizer, ..CompressRequest::new(turn, options) };
        let shortened = self.service.compress(&request)?;
        let shorter = InMessage::list(shortened.list(&request.turn.messages));
        done.model_calls += shortened.model_calls;
        done.model_tokens += shortened.model_tokens;
        done.failures.extend(shortened.failures);
        if shortened.messages.is_none() {
            match shortened.reason {
                Some(reason) => done.reasons.push((nth, reason)),
                None => done.over.push(nth),
            }
            return Ok(None);
        }
        done.compressions += 1;
        // What we hand out must be taken, whatever the session itself is like.
        if let Some(why) = self.service.refusal(&shorter, self.options.alternates)? {
            done.invalid.push((nth, why));
        }
        Ok(Some(shorter))
    }

    /// Compares what comes back with what was said, and looks at what is shown.
    fn recover(
        &self,
        session: SessionId,
        list: &[InMessage],
        said: &[InMessage],
        done: &mut Replayed,
    ) -> Result<(), CliError> {
        let scope = Scope::everything().in_sessions(vec![session]);
        let wanted = ids(said, self.redactor)?;
        done.behind = Difference::between(&wanted, &ids(&self.service.behind(&scope, list)?, None)?);
        let mut read = Vec::with_capacity(said.len());
        let mut request = ReadRequest {
            scope: scope.clone(),
            session,
            timeline: None,
            from: None,
            max: usize::MAX,
            bytes_max: PAGE_BYTES,
        };
        loop {
            let page = self.service.read(&request)?;
            read.extend(page.messages.iter().map(|whole| whole.entry.handle.id));
            match page.next {
                None => break,
                next => request.from = next,
            }
        }
        done.held = Difference::between(&wanted, &read);
        let view =
            ViewRequest { scope: scope.clone(), session, as_of: None, skip: 0, max: usize::MAX, bytes_max: usize::MAX };
        let page = self.service.view(&view)?;
        let shown: Vec<_> = page
            .items
            .into_iter()
            .filter_map(|shown| match shown {
                Shown::Fold { entry, .. } => Some(entry.number),
                Shown::Message { .. } => None,
            })
            .collect();
        done.folds = u64::try_from(shown.len()).unwrap_or(u64::MAX);
        for (nth, number) in shown.iter().enumerate() {
            let fold = self.service.describe(&scope, *number)?;
            self.grow(&scope, &fold, &[nth + 1 == shown.len()], &mut done.tree)?;
        }
        Ok(())
    }

    /// Puts a fold and those below it into the tree.
    fn grow(
        &self,
        scope: &Scope,
        fold: &Description,
        is_last: &[bool],
        tree: &mut Vec<Branch>,
    ) -> Result<(), CliError> {
        let Some(summary) = &fold.summary else { return Ok(()) };
        if tree.len() >= TREE_MAX {
            return Ok(());
        }
        let request = ExpandRequest {
            scope: scope.clone(),
            number: fold.entry.number,
            down_to: DownTo::Originals,
            skip: 0,
            max: 1,
            bytes_max: 0,
        };
        let messages = match self.service.expand(&request)? {
            Expansion::Summary(page) => u64::try_from(page.children_all).unwrap_or(u64::MAX),
            Expansion::Message(_) => 1,
        };
        let level = json::level(summary.level);
        tree.push(Branch {
            depth: is_last.len(),
            is_last: is_last.to_vec(),
            line: format!(
                "{}  {}, {} in {}, {level}",
                fold.entry.handle,
                ui::counted(messages, "message"),
                ui::counted(summary.source_tokens, "token"),
                ui::thousands(u64::from(fold.entry.tokens)),
            ),
            value: Json::object([
                ("handle", fold.entry.handle.to_string().into()),
                ("under", u64::try_from(is_last.len() - 1).unwrap_or(0).into()),
                ("depth", u64::from(summary.depth).into()),
                ("messages", messages.into()),
                ("source_tokens", summary.source_tokens.into()),
                ("tokens", fold.entry.tokens.into()),
                ("level", level.into()),
            ]),
        });
        let below: Vec<_> = summary.children.iter().filter(|child| child.summary.is_some()).collect();
        for (nth, child) in below.iter().enumerate() {
            let child = self.service.describe(scope, child.number)?;
            self.grow(scope, &child, &[is_last, &[nth + 1 == below.len()]].concat(), tree)?;
        }
        Ok(())
    }
}

/// Whether a model said it.
fn is_answer(message: &[u8]) -> bool {
    let role = Json::parse(message).ok().and_then(|json| Some(json.get("role")?.as_str()? == "assistant"));
    role.unwrap_or(false)
}

/// What messages say, whatever the order of their keys: two are equal exactly when these are. With a redactor what is
/// left of them without secrets.
fn ids(messages: &[impl AsRef<[u8]>], redactor: Option<&Redactor>) -> Result<Vec<NodeId>, CliError> {
    let kept = |message: Message| match redactor.and_then(|redactor| redactor.redact(message.json())) {
        Some(redacted) => Message::from_json(redacted),
        None => Ok(message),
    };
    let id = |message: &[u8]| {
        let encoded = Message::parse(message).and_then(kept).and_then(|message| message.encode());
        encoded.map(|encoded| encoded.id).map_err(|error| CliError::Engine(error.into()))
    };
    messages.iter().map(|message| id(message.as_ref())).collect()
}

impl Difference {
    fn between(wanted: &[NodeId], found: &[NodeId]) -> Self {
        let mut counts: HashMap<NodeId, (u64, u64)> = HashMap::new();
        for id in wanted {
            counts.entry(*id).or_default().0 += 1;
        }
        for id in found {
            counts.entry(*id).or_default().1 += 1;
        }
        let lost = counts.values().map(|(wanted, found)| wanted.saturating_sub(*found)).sum();
        let doubled = counts.values().map(|(wanted, found)| found.saturating_sub(*wanted)).sum();
        let moved = match (lost, doubled) {
            (0, 0) => wanted.iter().zip(found).filter(|(one, other)| one != other).count(),
            _ => 0,
        };
        Self { lost, doubled, moved: u64::try_from(moved).unwrap_or(u64::MAX) }
    }

    fn json(self) -> Json {
        Json::object([("lost", self.lost.into()), ("doubled", self.doubled.into()), ("moved", self.moved.into())])
    }

    /// In words, behind what it is the difference of.
    fn told(self, of: &str) -> String {
        let Self { lost, doubled, moved } = self;
        format!("{of} {lost} are lost, {doubled} doubled, {moved} out of order")
    }
}

/// The middle and the worst of some times, in microseconds.
fn middle_and_worst(times: &[Duration]) -> Option<(u64, u64)> {
    let mut micros: Vec<u64> = times.iter().map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)).collect();
    micros.sort_unstable();
    Some((*micros.get(micros.len() / 2)?, *micros.last()?))
}

/// Milliseconds with two digits behind the point.
fn milliseconds(micros: u64) -> String {
    format!("{}.{:02} ms", micros / 1000, micros % 1000 / 10)
}

/// Which part of what was sent stood at the head of the request before: in thousandths.
fn stable_share(requests: &[Request]) -> u64 {
    let sum = |of: fn(&Request) -> u64| requests.iter().skip(1).map(of).sum::<u64>();
    sum(|request| request.stable).saturating_mul(1000) / sum(|request| request.bytes).max(1)
}

fn as_json(done: &Replayed, options: &CompressOptions) -> Json {
    let times = |times: &[Duration]| match middle_and_worst(times) {
        Some((middle, worst)) => Json::object([("median_us", middle.into()), ("worst_us", worst.into())]),
        None => Json::Null,
    };
    let told = |all: &[(usize, String)]| {
        let one =
            |(nth, why): &(usize, String)| Json::object([("request", json::number(*nth)), ("why", json::text(why))]);
        Json::Array(all.iter().map(one).collect())
    };
    Json::object([
        ("session", json::text(&done.name)),
        ("messages", done.messages.into()),
        ("threshold", options.threshold_tokens.into()),
        ("requests", json::number(done.requests.len())),
        ("request_tokens", Json::Array(done.requests.iter().map(|request| request.tokens.into()).collect())),
        ("compressions", done.compressions.into()),
        ("folds", done.folds.into()),
        ("tree", Json::Array(done.tree.iter().map(|branch| branch.value.clone()).collect())),
        ("stable_permille", stable_share(&done.requests).into()),
        ("turn", times(&done.turn_times)),
        ("compress", times(&done.compress_times)),
        ("model_calls", done.model_calls.into()),
        ("model_tokens", done.model_tokens.into()),
        ("failures", Json::Array(done.failures.iter().map(|text| json::text(text)).collect())),
        ("unchanged", told(&done.reasons)),
        ("window", done.window.into()),
        ("over_threshold", done.above(options.threshold_tokens).into()),
        ("over_window", done.above(done.window).into()),
        ("over_budget", Json::Array(done.over.iter().map(|nth| json::number(*nth)).collect())),
        ("invalid", told(&done.invalid)),
        ("invalid_as_said", done.invalid_as_said.into()),
        ("behind", done.behind.json()),
        ("held", done.held.json()),
        ("right", done.is_right().into()),
    ])
}

fn show(done: &Replayed, options: &CompressOptions, ui: &mut Ui) -> Result<(), CliError> {
    let mut line = ui.text();
    line.named(&done.name).plain(format_args!(
        ": {} in {}, folded {} above {}",
        ui::counted(done.messages, "message"),
        ui::counted(u64::try_from(done.requests.len()).unwrap_or(u64::MAX), "request"),
        ui::counted(done.compressions, "time"),
        ui::counted(options.threshold_tokens, "token"),
    ));
    ui.show(&line)?;
    for row in chart(&done.requests, options.threshold_tokens) {
        let mut line = ui.text();
        line.plain(row);
        ui.show(&line)?;
    }
    for branch in &done.tree {
        let mut line = ui.text();
        line.styled(ui::DIM, rails(branch)).plain(&branch.line);
        ui.show(&line)?;
    }
    if done.tree.len() >= TREE_MAX {
        ui.note(format_args!("the tree ends after {TREE_MAX} lines"));
    }
    let share = stable_share(&done.requests);
    let row = |what: &str, value: String, ui: &mut Ui| super::describe::field(ui, what, &value);
    row(
        "prefix",
        format!("{}.{} % of what was sent stood at the head of the request before", share / 10, share % 10),
        ui,
    )?;
    for (what, times) in [("turn", &done.turn_times), ("compress", &done.compress_times)] {
        if let Some((middle, worst)) = middle_and_worst(times) {
            row(what, format!("{} in the middle, {} at worst", milliseconds(middle), milliseconds(worst)), ui)?;
        }
    }
    if done.model_calls > 0 || !done.failures.is_empty() {
        let failures = u64::try_from(done.failures.len()).unwrap_or(u64::MAX);
        let (calls, tokens) = (ui::counted(done.model_calls, "call"), ui::counted(done.model_tokens, "token"));
        row("model", format!("{calls}, {tokens}, {} not taken at its word", ui::counted(failures, "time")), ui)?;
    }
    let as_said = match done.invalid_as_said {
        0 => String::new(),
        count => format!("; {} would be refused for what the session itself says", ui::counted(count, "list")),
    };
    match done.invalid.first() {
        None => row("lists", format!("every list of ours is valid{as_said}"), ui)?,
        Some(_) => {
            for (nth, why) in done.invalid.iter().take(LISTED_MAX) {
                row("lists", format!("request {nth} would be refused: {why}"), ui)?;
            }
        }
    }
    for (nth, why) in done.reasons.iter().take(LISTED_MAX) {
        row("budget", format!("request {nth} stayed as it was: {why}"), ui)?;
    }
    if done.reasons.len() > LISTED_MAX {
        row("", format!("and {} more; --format json lists them", done.reasons.len() - LISTED_MAX), ui)?;
    }
    let most = done.requests.iter().map(|request| request.tokens).max().unwrap_or(0);
    let largest = format!("the largest request has {}", ui::counted(most, "token"));
    let (above, beyond) = (done.above(options.threshold_tokens), done.above(done.window));
    let kept = match (done.over.first(), above) {
        (Some(nth), _) => format!("request {nth} is over the threshold without a reason; {largest}"),
        (None, 0) => format!("every request is within the threshold; {largest}"),
        (None, _) => {
            let above = ui::counted(above, "request");
            format!(
                "{above} over the threshold, {} of them over the window, each with its reason; {largest}",
                ui::thousands(beyond)
            )
        }
    };
    row("budget", kept, ui)?;
    let recovered = match done.behind == Difference::default() && done.held == Difference::default() {
        true => format!("all {} come back equal, in order", ui::counted(done.messages, "original")),
        false => {
            let held = done.held.told("in the session");
            format!("{}; {held}", done.behind.told("behind the last list"))
        }
    };
    row("originals", recovered, ui)
}

/// The lines that lead to a branch of the tree.
fn rails(branch: &Branch) -> String {
    let mut rails = String::new();
    for (level, is_last) in branch.is_last.iter().enumerate() {
        rails.push_str(match (level + 1 == branch.depth, is_last) {
            (true, true) => "└─ ",
            (true, false) => "├─ ",
            (false, true) => "   ",
            (false, false) => "│  ",
        });
    }
    rails
}

/// What the requests cost, from left to right; each column is the largest of its share.
fn chart(requests: &[Request], threshold: u64) -> Vec<String> {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let share = requests.len().div_ceil(CHART_COLUMNS_MAX).max(1);
    let columns: Vec<u64> =
        requests.chunks(share).map(|part| part.iter().map(|request| request.tokens).max().unwrap_or(0)).collect();
    let most = columns.iter().copied().max().unwrap_or(0).max(threshold).max(1);
    let rows = u64::try_from(CHART_ROWS).unwrap_or(1);
    let width = ui::thousands(most).len();
    let mut lines = Vec::with_capacity(CHART_ROWS + 1);
    for row in (0..rows).rev() {
        let bar = |tokens: &u64| {
            // Of `rows * 8` steps those that lie in this row.
            let steps = tokens.saturating_mul(rows * 8).div_ceil(most);
            EIGHTHS[usize::try_from(steps.saturating_sub(row * 8).min(8)).unwrap_or(8)]
        };
        // The highest row that the threshold reaches carries its figure.
        let is_threshold = threshold.saturating_mul(rows).div_ceil(most).saturating_sub(1) == row;
        let label = if is_threshold {
            ui::thousands(threshold)
        } else if row + 1 == rows {
            ui::thousands(most)
        } else {
            String::new()
        };
        let edge = if is_threshold { '┤' } else { '│' };
        lines.push(
            format!("{label:>width$} {edge}{}", columns.iter().map(bar).collect::<String>()).trim_end().to_owned(),
        );
    }
    let what =
        if share == 1 { "tokens of each request".to_owned() } else { format!("tokens; a column is {share} requests") };
    lines.push(format!("{:>width$} └ {what}", 0));
    lines
}

fn conclude(all: &[Replayed], check: &CheckReport, unread: u64, is_right: bool, ui: &mut Ui) -> Result<(), CliError> {
    if ui.is_json() {
        let faults = check.told.iter().map(|fault| json::text(&format!("{}: {}", fault.part, fault.what)));
        return ui.json(&Json::object([
            ("sessions", json::number(all.len())),
            ("check_faults", check.faults.into()),
            ("told", Json::Array(faults.collect())),
            ("not_taken", unread.into()),
            ("right", is_right.into()),
        ]));
    }
    let found = match check.faults {
        0 => format!(
            "{} and {}, everything is whole",
            ui::counted(check.records, "record"),
            ui::counted(check.places, "place")
        ),
        faults => ui::counted(faults, "fault"),
    };
    super::describe::field(ui, "check", &found)?;
    for fault in &check.told {
        ui.note(format_args!("{}: {}", fault.part, fault.what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(tokens: &[u64]) -> Vec<Request> {
        tokens.iter().map(|tokens| Request { tokens: *tokens, bytes: 100, stable: 50 }).collect()
    }

    #[test]
    fn a_chart_shows_what_requests_cost_and_where_the_threshold_is() {
        let lines = chart(&requests(&[0, 1, 40, 80, 20]), 40);
        assert_eq!(lines.len(), CHART_ROWS + 1);
        assert_eq!(lines[0], "80 │   █");
        assert_eq!(lines[4], "40 ┤  ██");
        assert_eq!(lines[7], "   │ ▁███");
        assert_eq!(lines[8], " 0 └ tokens of each request");
        let long = chart(&requests(&[7; 1000]), 10);
        assert!(long.iter().all(|line| line.chars().count() <= CHART_COLUMNS_MAX + 8), "{long:?}");
        assert_eq!(chart(&[], 10).len(), CHART_ROWS + 1);
    }

    #[test]
    fn the_first_request_has_none_before_it() {
        assert_eq!(stable_share(&requests(&[1, 1, 1])), 500);
        assert_eq!(stable_share(&requests(&[1])), 0);
        assert_eq!(stable_share(&[]), 0);
    }

    #[test]
    fn what_is_lost_doubled_or_moved_is_counted() {
        let id = |n| NodeId::from_bytes([n; 32]);
        let between = |wanted: &[u8], found: &[u8]| {
            let ids = |all: &[u8]| all.iter().map(|n| id(*n)).collect::<Vec<_>>();
            let Difference { lost, doubled, moved } = Difference::between(&ids(wanted), &ids(found));
            (lost, doubled, moved)
        };
        assert_eq!(between(&[1, 2, 1], &[1, 2, 1]), (0, 0, 0));
        assert_eq!(between(&[1, 2, 1], &[1, 2]), (1, 0, 0));
        assert_eq!(between(&[1, 2], &[1, 1, 2]), (0, 1, 0));
        assert_eq!(between(&[1, 2, 3], &[2, 1, 3]), (0, 0, 2));
        assert_eq!(between(&[1, 2], &[1, 3]), (1, 1, 0));
    }
}
