//! Many hooks at once, while whoever serves is killed and comes again: every answer is whole and belongs to its own
//! request, and what was told is in the spool or was taken in, once.
//!
//! `LCM_HOOK_CALLS` says how many calls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use lcm_core::Json;
use lcm_tests::random::Random;

use crate::host::{Called, Host, PATIENCE};

/// Calls at once, as many as a busy daemon makes.
const TOGETHER: usize = 8;
/// How often whoever serves is killed.
const KILLS: usize = 5;
/// The largest window: what 150,000 tokens come to.
const WINDOW_BYTES_MAX: usize = 600 << 10;

/// Whether the verb `hook` keeps what it is told. Until it does, only the spool can be looked at.
const IS_KEPT: bool = true;

/// How many calls are made.
fn calls() -> usize {
    std::env::var("LCM_HOOK_CALLS").ok().and_then(|calls| calls.parse().ok()).unwrap_or(1_000)
}

/// A conversation of one turn, in an agent of its own: a window is assembled, and the same is told after the turn.
struct Turn {
    number: usize,
    texts: Vec<String>,
}

impl Turn {
    /// Most windows are small, some are as large as they get.
    fn new(number: usize, random: &mut Random) -> Self {
        let bytes = match random.below(100) {
            0 => WINDOW_BYTES_MAX,
            1..5 => 100 << 10,
            5..30 => 10 << 10,
            _ => 200,
        };
        let count = if bytes == 200 { 1 } else { 1 + 2 * random.below(20) };
        let text = |n: usize| format!("{} {n} {}", mark(number), "words of a window ".repeat(bytes / count / 18));
        Self { number, texts: (0..count).map(text).collect() }
    }

    fn agent(&self) -> String {
        format!("agent-{}", self.number)
    }

    fn request(&self, kind: &str) -> String {
        let (agent, number) = (self.agent(), self.number);
        let message = |(n, text): (usize, &String)| {
            let role = if n.is_multiple_of(2) { "user" } else { "assistant" };
            let nanos = number * 1_000 + n;
            format!(
                r#"{{"role":"{role}","content":[{{"type":"text","text":"{text}"}}],"pinned":false,"timestamp":"2026-03-05T12:00:00.{nanos:09}Z"}}"#
            )
        };
        let messages: Vec<String> = self.texts.iter().enumerate().map(message).collect();
        let messages = messages.join(",");
        format!(r#"{{"type":"{kind}","agent_id":"{agent}","messages":[{messages}],"context_window_tokens":200000}}"#)
            + "\n"
    }

    /// Both calls.
    fn run(&self, host: &Host) -> [Called; 2] {
        ["assemble", "after_turn"].map(|kind| {
            let request = self.request(kind);
            let called = host.call(request.as_bytes());
            assert_eq!(called.stderr, "", "{kind} {}", self.number);
            self.check(&called.answer);
            called
        })
    }

    /// An answer that shows a window shows this one: its newest message is the request's, and nobody else's is in it.
    fn check(&self, answer: &Json) {
        assert!(answer.get("type").and_then(Json::as_str).is_some(), "{answer:?}");
        let Some(messages) = answer.get("messages").and_then(Json::as_array) else { return };
        let newest = text_of(messages.last().unwrap_or_else(|| panic!("{}: an empty window", self.number)));
        assert_eq!(Some(&newest), self.texts.last(), "{}", self.number);
        for message in messages {
            let text = text_of(message);
            let marks: Vec<&str> = text.split("<mark ").skip(1).filter_map(|rest| rest.split('>').next()).collect();
            assert!(marks.iter().all(|mark| *mark == self.number.to_string()), "{}: {marks:?}", self.number);
        }
    }
}

fn mark(number: usize) -> String {
    format!("<mark {number}>")
}

/// The text of a message, which is a string or has blocks.
fn text_of(message: &Json) -> String {
    let content = message.get("content").unwrap_or(&Json::Null);
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let texts = content.as_array().unwrap_or_default().iter().filter_map(|block| block.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

/// Waits until so many turns are over.
fn wait_for(done: &Receiver<usize>, over: &mut usize, turns: usize) {
    while *over < turns {
        *over = done.recv_timeout(PATIENCE).expect("turns go on").max(*over);
    }
}

#[test]
fn hooks_in_parallel() {
    let mut random = Random::of_test(47);
    let host = Host::new();
    let count = calls() / 2;
    let turns: Vec<Turn> = (0..count).map(|number| Turn::new(number, &mut random)).collect();
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (tell, done) = channel();
    let mut served = host.serve();
    let mut times: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..TOGETHER)
            .map(|_| {
                let (next, finished, turns, host, tell) = (&next, &finished, &turns, &host, tell.clone());
                scope.spawn(move || {
                    let mut times = Vec::new();
                    while let Some(turn) = turns.get(next.fetch_add(1, Ordering::Relaxed)) {
                        times.extend(turn.run(host).map(|called| called.took));
                        tell.send(finished.fetch_add(1, Ordering::Relaxed) + 1).unwrap();
                    }
                    times
                })
            })
            .collect();
        drop(tell);
        let mut over = 0;
        for kill in 1..=KILLS {
            wait_for(&done, &mut over, kill * count / (KILLS + 1));
            served.kill();
            // Some meet nobody.
            wait_for(&done, &mut over, kill * count / (KILLS + 1) + count / 40);
            served = host.serve();
        }
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    let spooled = host.spooled();
    println!(
        "{} calls, {TOGETHER} at once: p50 {:?}, p95 {:?}, longest {:?}; {} left in the spool",
        times.len(),
        at(50),
        at(95),
        at(100),
        spooled.len()
    );
    served.end();
    // What is in the spool is what somebody said, whole.
    for spooled in &spooled {
        let request = Json::parse(&spooled.request).unwrap();
        let agent = request.get("agent_id").and_then(Json::as_str).unwrap();
        let turn = &turns[agent.strip_prefix("agent-").unwrap().parse::<usize>().unwrap()];
        let kind = request.get("type").and_then(Json::as_str).unwrap();
        assert_eq!(spooled.request, turn.request(kind).into_bytes(), "{agent}");
    }
    if IS_KEPT {
        // One more that serves takes in what the last one left, before it answers.
        let last = host.serve();
        for turn in &turns {
            turn.run(&host);
        }
        last.end();
        assert_eq!(host.spooled(), []);
        check_store(&host, &turns);
    } else {
        assert!(!spooled.is_empty() || count < 100, "the kills were met by somebody");
    }
}

/// Nothing is lost and nothing doubled: the export has every text of every turn once.
fn check_store(host: &Host, turns: &[Turn]) {
    let ran = host.desk.run(&["export"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let mut told: HashMap<String, usize> = HashMap::new();
    for line in ran.stdout.lines() {
        let record = Json::parse(line.as_bytes()).unwrap();
        if record.get("lcm").and_then(Json::as_str) == Some("message") {
            *told.entry(text_of(record.get("message").unwrap())).or_default() += 1;
        }
    }
    for text in turns.iter().flat_map(|turn| &turn.texts) {
        assert_eq!(told.remove(text), Some(1), "{}", crate::host::shown(text.as_bytes()));
    }
    assert!(told.is_empty(), "{:?}", told.keys().next());
}
