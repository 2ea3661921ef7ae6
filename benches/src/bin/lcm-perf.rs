//! `lcm-perf`: one stage of the shared workload on lcm, measured; the `--runner` protocol of its driver.
//!
//! Takes `--stage S --workload F --store D --rounds N --seconds X --opt gen=PATH` and prints `@@` and one JSON
//! object last. It calls the engine as a host would; nothing here knows what the workload holds.
//!
//! Two stages are ours alone: `oneshot` (whole processes of the program, `--opt cli=PATH`) and `complete` (every
//! match of the generator's patterns in the whole store).

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
use lcm_core::SessionId;
use lcm_core::node::SummaryParts;
use lcm_engine::service::{DownTo, ExpandRequest, Expansion, GrepRequest, Pattern, SearchMode, SearchRequest, Service};
use lcm_store::{Grep, StoreError, Words};
use serde_json::{Map, Value, json};

type Outcome = Result<Value, Box<dyn Error>>;

/// What the driver passes.
struct Options {
    stage: String,
    workload: PathBuf,
    store: PathBuf,
    round: u32,
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
        let round =
            take("round").ok().map_or(Ok(0), |text| text.parse().map_err(|_| format!("{text} is no number")))?;
        Ok(Self {
            stage,
            workload: workload.into(),
            store: store.into(),
            round,
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
