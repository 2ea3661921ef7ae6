//! `lcm-perf`: one stage of the shared workload on lcm, measured; the `--runner` protocol of its driver.
//!
//! Takes `--stage S --workload F --store D --rounds N --seconds X --opt gen=PATH` and prints `@@` and one JSON
//! object last. It calls the engine as a host would; nothing here knows what the workload holds.
//!
//! Stages that are ours alone: `oneshot` (whole processes of the program, `--opt cli=PATH`), `complete` (every match of
//! the generator's patterns in the whole store), `lists` (a host that shows its whole list each turn: a short one, to
//! compare stores of different sizes, and one of a megabyte), `redact` (what looking for secrets costs).
//!
//! Of `compress`, `first` and `incremental` are with a model that answers the same at once, so that what is measured is
//! ours; `extractive` is the same without a model.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a runner's answer goes to stdout, its complaint to stderr"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use lcm_benches::host::{Host, content_bytes, incoming};
use lcm_benches::measure::{Samples, cpu_time, peak_resident_kb, timed};
use lcm_benches::workload;
use lcm_core::node::SummaryParts;
use lcm_core::{Json, SessionId};
use lcm_engine::compress::CompressOptions;
use lcm_engine::compress::summary::{Summarizer, SummarizerError, SummaryPrompt};
use lcm_engine::redact::{BUILT_IN, Redactor};
use lcm_engine::service::{
    CompressRequest, DownTo, ExpandRequest, Expansion, GrepRequest, Pattern, SearchMode, SearchRequest, Service,
};
use lcm_store::{Grep, StoreError, Words};
use serde_json::{Map, Value, json};

type Outcome = Result<Value, Box<dyn Error>>;

/// What the driver passes.
struct Options {
    stage: String,
    workload: PathBuf,
    store: PathBuf,
    round: u32,
    rounds: u32,
    seconds: f64,
    extra: BTreeMap<String, String>,
}

impl Options {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut plain, mut extra) = (BTreeMap::new(), BTreeMap::new());
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or_else(|| format!("{word} is no option"))?;
            let value = words.next().ok_or_else(|| format!("--{name} wants a value"))?;
            match (name, value.split_once('=')) {
                ("opt", Some((key, value))) => extra.insert(key.to_owned(), value.to_owned()),
                ("opt", None) => return Err(format!("--opt {value} is not KEY=VALUE")),
                _ => plain.insert(name.to_owned(), value),
            };
        }
        let mut take = |name: &str| plain.remove(name).ok_or_else(|| format!("--{name} is missing"));
        let number = |text: Option<String>, default: f64| match text {
            None => Ok(default),
            Some(text) => text.parse::<f64>().map_err(|_| format!("{text} is no number")),
        };
        let (stage, workload, store) = (take("stage")?, take("workload")?, take("store")?);
        let whole = |text: Option<String>, default: u32| {
            text.map_or(Ok(default), |text| text.parse().map_err(|_| format!("{text} is no number")))
        };
        let (round, rounds) = (whole(take("round").ok(), 0)?, whole(take("rounds").ok(), 3)?);
        Ok(Self {
            stage,
            workload: workload.into(),
            store: store.into(),
            round,
            rounds,
            seconds: number(take("seconds").ok(), 1.0)?,
            extra,
        })
    }

    fn generator(&self) -> Result<&Path, String> {
        self.extra.get("gen").map(Path::new).ok_or_else(|| "--opt gen=PATH names the workload's generator".to_owned())
    }
}

fn main() -> ExitCode {
    let report = Options::parse(std::env::args().skip(1)).map_err(Into::into).and_then(|options| run(&options));
    match report {
        Ok(mut report) => {
            report["peak_rss_kb"] = json!(peak_resident_kb());
            println!("\n@@{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("lcm-perf: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Outcome {
    match options.stage.as_str() {
        "import" => import(options),
        "open" => open(options),
        "turns" => turns(options),
        "compress" => compress(options),
        "lists" => lists(options),
        "redact" => redact(options),
        "grep" => grep(options),
        "expand" => expand(options),
        "oneshot" => oneshot(options),
        "complete" => complete(options),
        other => Err(format!("there is no stage {other}").into()),
    }
}

fn import(options: &Options) -> Outcome {
    let sessions = workload::read(&options.workload)?;
    let (mut messages, mut bytes) = (0, 0);
    for said in sessions.iter().flat_map(|session| &session.messages) {
        messages += 1;
        bytes += content_bytes(said)?;
    }
    let resident = peak_resident_kb();
    let host = Host::open(&options.store)?;
    let (begun, cpu) = (Instant::now(), cpu_time());
    let mut each = Vec::new();
    let mut last = begun;
    host.import(sessions.iter().map(|session| incoming(&session.name, 0, &session.messages)), |_| {
        each.push(last.elapsed());
        last = Instant::now();
    })?;
    let (wall, cpu) = (begun.elapsed(), cpu_time() - cpu);
    drop(host);
    let disk = length(&options.store)?;
    Ok(json!({
        "messages": messages,
        "content_bytes": bytes,
        "wall_s": wall.as_secs_f64(),
        "cpu_s": cpu.as_secs_f64(),
        "msg_per_s": (ratio(messages, wall)).round(),
        "mb_per_s": ratio(bytes, wall) / 1e6,
        "first_session_s": each.first().map(Duration::as_secs_f64),
        "last_session_s": each.last().map(Duration::as_secs_f64),
        "disk_bytes": disk,
        "rss_before_kb": resident,
    }))
}

#[allow(clippy::cast_precision_loss, reason = "a rate for a report")]
fn ratio(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

fn length(path: &Path) -> std::io::Result<u64> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    let mut total = 0;
    for entry in std::fs::read_dir(path)? {
        total += length(&entry?.path())?;
    }
    Ok(total)
}

fn open(options: &Options) -> Outcome {
    let (opened, host) = timed(|| Host::open(&options.store));
    let host = host?;
    let (started, session) = timed(|| host.session("s00000"));
    session?;
    Ok(json!({
        "open_s": opened.wall.as_secs_f64(),
        "open_cpu_s": opened.cpu.as_secs_f64(),
        "start_s": started.wall.as_secs_f64(),
    }))
}

fn turns(options: &Options) -> Outcome {
    let messages = workload::make(options.generator()?, 7001, options.round)?;
    let host = Host::open(&options.store)?;
    let name = format!("turns-{}", options.round);
    let mut samples = Samples::default();
    let mut known = 0;
    for turn in messages.chunks(4) {
        let (sample, said) = timed(|| host.say(&name, known, turn));
        said?;
        samples.push(sample);
        known += turn.len() as u64;
    }
    let all = samples.len();
    let part = all.min(100);
    Ok(json!({
        "turn": samples.report(),
        "turn_first100": samples.part(0..part).report(),
        "turn_last100": samples.part(all - part..all).report(),
    }))
}

/// What the shared driver makes of a message: characters / 4, and 4.
fn driver_tokens(json: &str) -> Result<u64, Box<dyn Error>> {
    let message = Json::parse(json.as_bytes())?;
    let characters = |value: Option<&Json>| value.and_then(Json::as_str).map_or(0, |text| text.chars().count());
    let calls = message.get("tool_calls").and_then(Json::as_array).unwrap_or_default();
    let arguments = calls.iter().map(|call| characters(call.get("function").and_then(|call| call.get("arguments"))));
    let all = characters(message.get("content")) + arguments.sum::<usize>();
    Ok(u64::try_from(all / 4 + 4)?)
}

/// What every stub of the shared driver answers with, nine times.
const STUB_SENTENCE: &str = "The session request handler was changed so that a stale cache row is retried once before the \
     timeout is reported; two tests were added and the migration was verified. ";
/// A conversation that is compressed for the first time.
const FIRST_TOKENS: u64 = 200_000;
/// What comes in front of the newest messages before it is compressed again.
const MORE_TOKENS: u64 = 22_000;
/// The driver's newest messages.
const TAIL_MESSAGES: usize = 64;
/// A list is brought under this: about what those messages and a few summaries cost.
const THRESHOLD_TOKENS: u64 = 24_000;

/// A model that always says the same.
struct Stub(String);

impl Summarizer for Stub {
    fn model(&self) -> &'static str {
        "stub"
    }

    fn summarize(&self, _prompt: &SummaryPrompt) -> Result<String, SummarizerError> {
        Ok(self.0.clone())
    }
}

fn compress(options: &Options) -> Outcome {
    let host = Host::open(&options.store)?;
    let stub = Stub(format!(
        "## Progress\n{}\nExpand for details about: session handler, cache rows, retry budget, migration test",
        STUB_SENTENCE.repeat(9)
    ));
    let mut report = compress_with(options, &host, 0, Some(&stub))?;
    report["extractive"] = compress_with(options, &host, 5, None)?;
    Ok(report)
}

/// The sessions from this number on: what another one said before would be warm.
fn compress_with(options: &Options, host: &Host, from: u32, model: Option<&dyn Summarizer>) -> Outcome {
    let (mut first, mut incremental, mut shape) = (Samples::default(), Samples::default(), Vec::new());
    let settings = CompressOptions {
        threshold_tokens: THRESHOLD_TOKENS,
        protect_last: TAIL_MESSAGES,
        ..CompressOptions::default()
    };
    for round in 0..options.rounds {
        let number = 10 * options.round + from + round;
        let session = format!("compress-{number}");
        let mut said = workload::make(options.generator()?, 8001, number)?.into_iter().map(|said| said.json);
        let (mut list, mut tokens) = (Vec::new(), Vec::new());
        while tokens.iter().sum::<u64>() < FIRST_TOKENS {
            let json = said.next().ok_or("the generator's session is too short")?;
            tokens.push(driver_tokens(&json)?);
            list.push(json.into_bytes());
        }
        // The messages are in the store already, as in a live agent.
        host.engine().turn(&host.turn("bench", &session, list.clone()))?;
        for nth in 0..5 {
            let request = CompressRequest {
                force: true,
                summarizer: model,
                ..CompressRequest::new(host.turn("bench", &session, list.clone()), settings.clone())
            };
            let (sample, done) = timed(|| host.engine().compress(&request));
            let done = done?;
            if let Some(reason) = done.reason {
                return Err(format!("nothing was folded: {reason}").into());
            }
            let samples = if nth == 0 { &mut first } else { &mut incremental };
            samples.push(sample);
            shape.push(json!([list.len(), done.tokens_before, done.tokens_after, done.folds.len(), done.model_calls]));
            list = done.list(&list);
            tokens = list.iter().map(|json| driver_tokens(std::str::from_utf8(json)?)).collect::<Result<_, _>>()?;
            let in_front = |tokens: &[u64]| tokens[..tokens.len().saturating_sub(TAIL_MESSAGES)].iter().sum::<u64>();
            while in_front(&tokens) < MORE_TOKENS {
                for json in said.by_ref().take(4) {
                    tokens.push(driver_tokens(&json)?);
                    list.push(json.into_bytes());
                }
                host.engine().turn(&host.turn("bench", &session, list.clone()))?;
            }
        }
    }
    shape.truncate(5);
    // Of each: messages, tokens before and after by the stored count, folds, calls of the model.
    Ok(json!({"first": first.report(), "incremental": incremental.report(), "shape": shape}))
}

/// Bytes of JSON of a long list.
const LONG_LIST_BYTES: usize = 1 << 20;
/// Turns on each list.
const LIST_TURNS: usize = 50;

/// A host that shows its whole list: 4 messages more each turn.
fn lists(options: &Options) -> Outcome {
    let host = Host::open(&options.store)?;
    let (mut short, mut long, mut long_bytes) = (Samples::default(), Samples::default(), 0);
    for round in 0..options.rounds {
        let made = workload::make(options.generator()?, 7002, 10 * options.round + round)?;
        let said: Vec<Vec<u8>> = made.into_iter().map(|said| said.json.into_bytes()).collect();
        let grow = |name: &str, from: usize, samples: &mut Samples| -> Result<usize, Box<dyn Error>> {
            let session = format!("lists-{name}-{}-{round}", options.round);
            host.engine().turn(&host.turn("bench", &session, said[..from].to_vec()))?;
            let mut bytes = 0;
            for nth in 1..=LIST_TURNS {
                let list = said.get(..from + 4 * nth).ok_or("the generator's session is too short")?.to_vec();
                bytes = list.iter().map(Vec::len).sum();
                let request = host.turn("bench", &session, list);
                let (sample, turned) = timed(|| host.engine().turn(&request));
                if turned?.new != 4 {
                    return Err("a turn did not find its 4 new messages".into());
                }
                samples.push(sample);
            }
            Ok(bytes)
        };
        grow("short", 4, &mut short)?;
        let mut total = 0;
        let fits = |json: &&Vec<u8>| {
            total += json.len();
            total < LONG_LIST_BYTES
        };
        let from = said.iter().take_while(fits).count();
        long_bytes = grow("long", from, &mut long)?;
    }
    Ok(json!({"short": short.report(), "long": long.report(), "long_bytes_at_end": long_bytes}))
}

/// All built-in patterns over the workload, on one core.
fn redact(options: &Options) -> Outcome {
    let (made, redactor) = timed(|| Redactor::new(BUILT_IN, &[]));
    let redactor = redactor?;
    let (mut messages, mut bytes) = (Vec::new(), 0);
    for said in workload::read(&options.workload)?.iter().flat_map(|session| &session.messages) {
        bytes += said.json.len();
        messages.push(Json::parse(said.json.as_bytes())?);
    }
    let (mut best, mut hits) = (Duration::MAX, 0);
    for _ in 0..options.rounds.max(1) {
        let (sample, found) = timed(|| messages.iter().filter(|message| redactor.redact(message).is_some()).count());
        (best, hits) = (best.min(sample.cpu), found);
    }
    Ok(json!({
        "make_ms": made.wall.as_secs_f64() * 1e3,
        "messages": messages.len(),
        "redacted": hits,
        "mb_per_s": ratio(bytes, best) / 1e6,
    }))
}

fn grep(options: &Options) -> Outcome {
    let queries = workload::queries(options.generator()?)?;
    let host = Host::open(&options.store)?;
    let session = host.session("s00000")?;
    let mut report = Map::new();
    for (place, scope) in [("all", None), ("session", Some(session))] {
        for (kind, texts) in &queries {
            let (mut samples, mut hits) = (Samples::default(), Vec::new());
            for text in texts {
                hits.push(find(&host, kind, text, scope)?);
                let begun = Instant::now();
                let mut asked = 0;
                while asked < 3 || (begun.elapsed().as_secs_f64() < options.seconds && asked < 60) {
                    let (sample, found) = timed(|| find(&host, kind, text, scope));
                    found?;
                    samples.push(sample);
                    asked += 1;
                }
            }
            let mut measured = samples.report();
            measured["hits"] = json!(hits);
            report.insert(format!("{place}:{kind}"), measured);
        }
    }
    Ok(Value::Object(report))
}

/// The newest 20 hits with their snippets, as text that a host could show; gives how many.
fn find(host: &Host, kind: &str, text: &str, session: Option<SessionId>) -> Result<usize, Box<dyn Error>> {
    let scope = host.scope(session);
    let mut shown = String::new();
    let hits = if kind == "regex" {
        let grep = Grep::new(Pattern::Regex(text.to_owned()));
        let page = host.engine().grep(&GrepRequest { scope, grep, whole_words: false, lines: None })?;
        page.hits.iter().for_each(|hit| show(&mut shown, hit.entry.number.0, &hit.snippet));
        page.hits.len()
    } else {
        let words = if kind == "cjk" { format!("\"{text}\"") } else { text.to_owned() };
        let request = SearchRequest { scope, words: Words::new(words), mode: SearchMode::Words };
        let page = host.engine().search(&request)?;
        page.hits.iter().for_each(|hit| show(&mut shown, hit.entry.number.0, &hit.snippet));
        page.hits.len()
    };
    std::hint::black_box(shown);
    Ok(hits)
}

fn show(out: &mut String, number: u64, snippet: &str) {
    out.push_str(&json!({"id": number, "snippet": snippet}).to_string());
}

/// Whole processes: start, open, one query, its answer read.
fn oneshot(options: &Options) -> Outcome {
    let program = options.extra.get("cli").ok_or("--opt cli=PATH names the program")?;
    let queries = workload::queries(options.generator()?)?;
    let mut report = Map::new();
    for (kind, texts) in &queries {
        let mut samples = Samples::default();
        for text in texts {
            let begun = Instant::now();
            for asked in 0..60 {
                if asked >= 5 && begun.elapsed().as_secs_f64() > options.seconds {
                    break;
                }
                let mut command = Command::new(program);
                command.arg("--home").arg(&options.store).args(["grep", "--limit", "20"]);
                if kind != "regex" {
                    command.arg("-F");
                }
                let (sample, output) = timed(|| command.arg("--").arg(text.trim_matches('"')).output());
                if output?.stdout.is_empty() {
                    return Err(format!("{text} was not found").into());
                }
                samples.push(sample);
            }
        }
        report.insert(kind.clone(), samples.report());
    }
    Ok(Value::Object(report))
}

/// Every match in the whole store.
fn complete(options: &Options) -> Outcome {
    let queries = workload::queries(options.generator()?)?;
    let host = Host::open(&options.store)?;
    let mut report = Map::new();
    for text in queries.iter().filter(|(kind, _)| kind == "regex").flat_map(|(_, texts)| texts) {
        let (mut samples, mut hits) = (Samples::default(), 0);
        for _ in 0..7 {
            let mut grep = Grep::new(Pattern::Regex(text.clone()));
            grep.hits_max = 0;
            let request = GrepRequest { scope: host.scope(None), grep, whole_words: false, lines: None };
            let (sample, page) = timed(|| host.engine().grep(&request));
            let page = page?;
            if !page.complete {
                return Err("the search was cut short".into());
            }
            hits = page.hits.len();
            samples.push(sample);
        }
        let mut measured = samples.report();
        measured["hits"] = json!(hits);
        report.insert(text.clone(), measured);
    }
    Ok(Value::Object(report))
}

fn expand(options: &Options) -> Outcome {
    let host = Host::open(&options.store)?;
    let store = host.engine().store();
    let session = host.session("s00000")?;
    let snapshot = store.snapshot()?;
    let timeline = snapshot.session(session)?.timeline;
    let places = snapshot.log(timeline, None, 300)?;
    let places = &places[places.len().min(200)..];
    let mut buffer = lcm_store::Buffer::default();
    let mut children = Vec::new();
    for place in places {
        snapshot.read(place.record, &mut buffer)?;
        children.push(buffer.id());
    }
    drop(snapshot);
    let span_ms = (places[0].seen_ms, places[places.len() - 1].seen_ms);
    let parts = SummaryParts { text: "What these hundred messages say.".to_owned(), children, depth: 1, span_ms };
    let summary = lcm_core::Summary::new(parts)?;
    let number = store.commit(|commit| {
        commit.summary(&summary, timeline, &places[0].order, 0)?;
        Ok::<_, StoreError>(commit.last_arrival())
    })?;
    let (mut samples, mut size) = (Samples::default(), 0);
    for _ in 0..300 {
        let (sample, bytes) = timed(|| -> Result<usize, Box<dyn Error>> {
            let request = ExpandRequest {
                scope: host.scope(Some(session)),
                number,
                down_to: DownTo::Children,
                skip: 0,
                max: usize::MAX,
                bytes_max: usize::MAX,
            };
            let Expansion::Summary(page) = host.engine().expand(&request)? else {
                return Err("the summary is a message".into());
            };
            let mut out = b"[".to_vec();
            for child in &page.children {
                if let lcm_engine::service::Child::Message(whole) = child {
                    out.extend_from_slice(&whole.json);
                    out.push(b',');
                }
            }
            Ok(out.len())
        });
        samples.push(sample);
        size = bytes?;
    }
    let mut report = samples.report();
    report["bytes_returned"] = json!(size);
    Ok(report)
}
