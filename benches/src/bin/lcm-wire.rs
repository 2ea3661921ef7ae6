//! `lcm-wire PROGRAM STORE WORKLOAD WORD`: what calls over the wire cost, against a store that the workload was imported
//! into.
//!
//! Starts the program's `serve` as a host does, times its first answer, single calls in the workload's first session, that
//! session's list folded and selected from, and 32 threads on one child.
//! Prints one JSON object; times are milliseconds of wall time.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a runner's answer goes to stdout, its complaint to stderr"
)]

use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Threads on one child.
const THREADS: usize = 32;
/// How long they call.
const TIME: Duration = Duration::from_secs(5);
/// Single calls of each kind.
const ROUNDS: usize = 100;

/// One child and those who wait for its answers.
struct Wire {
    input: Mutex<ChildStdin>,
    waiting: Mutex<HashMap<u64, Sender<String>>>,
    next: AtomicU64,
}

impl Wire {
    fn ask(&self, verb: &str, params: &Value) -> Result<Value, Box<dyn Error>> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (say, told) = channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, say);
        let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": verb, "params": params}));
        self.input.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())?;
        let answer: Value = serde_json::from_str(&told.recv_timeout(Duration::from_secs(60))?)?;
        match answer.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(format!("{verb}: {answer}").into()),
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("lcm-wire: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<Value, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [program, store, workload, word] = args.as_slice() else {
        return Err("four arguments are wanted: PROGRAM STORE WORKLOAD WORD".into());
    };
    let (session, messages) = first_session(workload)?;
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.args(["--home", store, "serve"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let output = child.stdout.take().ok_or("the child has no output")?;
    let input = Mutex::new(child.stdin.take().ok_or("the child has no input")?);
    let wire = Arc::new(Wire { input, waiting: Mutex::default(), next: AtomicU64::new(1) });
    let reading = wire.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Ids are numbers of ours and stand at the beginning.
            let id =
                line.strip_prefix(r#"{"jsonrpc":"2.0","id":"#).and_then(|rest| rest.split(',').next()?.parse().ok());
            let waiting =
                id.and_then(|id: u64| reading.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id));
            if let Some(waiting) = waiting {
                drop(waiting.send(line));
            }
        }
    });
    wire.ask("initialize", &json!({"protocol": 1, "client": {"name": "bench"}}))?;
    let start_ms = ms(begun.elapsed());
    let key = json!({"agent": "bench", "person": "owner", "name": session});
    let tool = |name: &str, arguments: Value| json!({"session": key, "name": name, "arguments": arguments});
    let common = tool("lcm_grep", json!({"query": word, "session_scope": "all"}));
    let inside = tool("lcm_grep", json!({"query": word}));
    let mut report = serde_json::Map::new();
    report.insert("start".to_owned(), json!(start_ms));
    for (what, verb, params) in [
        ("ping", "ping", json!({})),
        ("grep_all", "tool", common),
        ("grep_session", "tool", inside.clone()),
        ("describe", "tool", tool("lcm_describe", json!({}))),
    ] {
        report.insert(what.to_owned(), single(&wire, verb, &params)?);
    }
    shown(&wire, &key, messages, &mut report)?;
    report.insert("threads".to_owned(), together(&wire, &inside)?);
    drop(wire);
    child.kill()?;
    child.wait()?;
    Ok(Value::Object(report))
}

/// The first session of a workload and what is said in it.
fn first_session(workload: &str) -> Result<(String, Vec<Value>), Box<dyn Error>> {
    let mut first: Option<(String, Vec<Value>)> = None;
    for line in BufReader::new(File::open(workload)?).lines() {
        let mut row: Value = serde_json::from_str(&line?)?;
        let name = row["session"].as_str().ok_or("a row names no session")?;
        match &mut first {
            Some((session, _)) if session != name => break,
            Some((_, messages)) => messages.push(row["msg"].take()),
            None => first = Some((name.to_owned(), vec![row["msg"].take()])),
        }
    }
    first.ok_or_else(|| "the workload is empty".into())
}

/// Calls with lists: what is selected from a short list and from a folded one, and a hundred messages of a fold.
fn shown(
    wire: &Wire,
    key: &Value,
    messages: Vec<Value>,
    report: &mut serde_json::Map<String, Value>,
) -> Result<(), Box<dyn Error>> {
    let asked = |at: usize| json!({"role": "user", "content": format!("what was it with the harbour lamp, {at}?")});
    let options = json!({"window_tokens": 128_000, "threshold_tokens": 64_000});
    let select = |key: &Value, mut list: Vec<Value>| -> Result<Value, Box<dyn Error>> {
        let mut times = Vec::with_capacity(ROUNDS);
        let at = list.len();
        list.push(asked(0));
        let params = json!({"session": key, "list": {"all": list}, "budget_tokens": 64_000, "options": options});
        let mut base = wire.ask("select", &params)?["base"].take();
        for round in 1..=ROUNDS {
            let list = json!({"base": base, "splices": [[at, 1, [asked(round)]]]});
            let params = json!({"session": key, "list": list, "budget_tokens": 64_000, "options": options});
            let begun = Instant::now();
            let mut answer = wire.ask("select", &params)?;
            times.push(begun.elapsed());
            base = answer["base"].take();
        }
        Ok(spread(times))
    };
    let fresh = json!({"agent": "bench", "person": "owner", "name": "fresh"});
    // Up to an answer, so that a provider takes what follows.
    let answers = |message: &Value| message["role"] == "assistant" && message["tool_calls"].is_null();
    let end = messages.iter().take(32).rposition(answers).ok_or("the first messages have no answer")?;
    let short = messages[..=end].to_vec();
    wire.ask("turn", &json!({"session": fresh, "list": {"all": short}}))?;
    report.insert("select_none".to_owned(), select(&fresh, short)?);
    let params = json!({"session": key, "list": {"all": messages}, "options": options, "force": true});
    let begun = Instant::now();
    let compressed = wire.ask("compress", &params)?;
    report.insert("compress_first".to_owned(), json!(ms(begun.elapsed())));
    let mut list = messages;
    for splice in compressed["splices"].as_array().ok_or("nothing was folded")? {
        let [start, count] = [0, 1].map(|at| splice[at].as_u64().and_then(|count| usize::try_from(count).ok()));
        let (start, count) = start.zip(count).ok_or("a splice has no place")?;
        let made = splice[2].as_array().cloned().unwrap_or_default();
        list.splice(start..start + count, made);
    }
    wire.ask("turn", &json!({"session": key, "list": {"all": list}}))?;
    report.insert("select_folded".to_owned(), select(key, list)?);
    let fold = compressed["folds"][0].clone();
    let arguments = json!({"node_id": fold, "include_messages": true, "source_limit": 100, "max_tokens": 1_000_000});
    let params = json!({"session": key, "name": "lcm_expand", "arguments": arguments,
        "tokens_max": 10_000_000, "chars_max": 100_000_000});
    let told = wire.ask("tool", &params)?;
    let told: Value = serde_json::from_str(told["text"].as_str().unwrap_or_default())?;
    report.insert("expanded".to_owned(), json!(told["expanded"].as_array().map_or(0, Vec::len)));
    report.insert("expand".to_owned(), single(wire, "tool", &params)?);
    Ok(())
}

/// One call after another.
fn single(wire: &Wire, verb: &str, params: &Value) -> Result<Value, Box<dyn Error>> {
    let mut times = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        wire.ask(verb, params)?;
        times.push(begun.elapsed());
    }
    Ok(spread(times))
}

/// Many threads at once, for a time.
fn together(wire: &Arc<Wire>, params: &Value) -> Result<Value, Box<dyn Error>> {
    let begun = Instant::now();
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (wire, params) = (wire.clone(), params.clone());
            std::thread::spawn(move || {
                let mut times = Vec::new();
                while begun.elapsed() < TIME {
                    let asked = Instant::now();
                    if let Err(error) = wire.ask("tool", &params) {
                        return Err(error.to_string());
                    }
                    times.push(asked.elapsed());
                }
                Ok(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    let mut fewest = usize::MAX;
    for thread in threads {
        let told = thread.join().map_err(|_| "a thread panicked")??;
        fewest = fewest.min(told.len());
        times.extend(told);
    }
    let calls = times.len();
    #[allow(clippy::cast_precision_loss, reason = "thousands of calls")]
    let a_second = calls as f64 / begun.elapsed().as_secs_f64();
    Ok(json!({"calls_per_s": a_second, "fewest_of_a_thread": fewest, "times": spread(times)}))
}

fn spread(mut times: Vec<Duration>) -> Value {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).or(times.last()).copied().map_or(0.0, ms);
    json!({"min": at(0), "p50": at(50), "p99": at(99)})
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
