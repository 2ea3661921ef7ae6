//! `lcm-wire PROGRAM STORE SESSION WORD`: what calls over the wire cost, against a store that is there.
//!
//! Starts the program's `serve` as a host does, times its first answer, single calls, and 32 threads on one child.
//! Prints one JSON object; times are milliseconds of wall time.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a runner's answer goes to stdout, its complaint to stderr"
)]

use std::collections::HashMap;
use std::error::Error;
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
    let [program, store, session, word] = args.as_slice() else {
        return Err("four arguments are wanted: PROGRAM STORE SESSION WORD".into());
    };
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
    report.insert("threads".to_owned(), together(&wire, &inside)?);
    drop(wire);
    child.kill()?;
    child.wait()?;
    Ok(Value::Object(report))
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
