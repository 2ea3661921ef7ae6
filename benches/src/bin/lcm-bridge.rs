//! `lcm-bridge`: lcm behind the line protocol of the quality benchmark.
//!
//! One JSON object a line in, one out: `reset`, `add`, `search`, `grep`, `select`, `compress`, `expand_all`. Every
//! namespace is a session of one store, told to the engine message by message as a host does, and searched by the tool
//! that agents call. An operation that the engine has not is answered with an error.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a runner's answer goes to stdout, its complaint to stderr"
)]

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use lcm_benches::host::Host;
use lcm_benches::workload::Said;
use lcm_core::{Arrival, SessionId};
use lcm_engine::compress::CompressOptions;
use lcm_engine::service::{CompressRequest, OutMessage, ReadRequest, RecallOptions, SelectRequest, Service};
use lcm_store::Pace;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The agent of namespaces.
const OWNER: &str = "bench";
/// Hits that `lcm_grep` gives at once, at most.
const HITS_MAX: usize = 200;
/// Bytes of messages read at once by `expand_all`.
const PAGE_BYTES: usize = 8 << 20;

/// A line of the protocol; which fields stand in it depends on `op`.
#[derive(Deserialize)]
struct Request {
    op: String,
    #[serde(default)]
    ns: Value,
    #[serde(default)]
    id: Value,
    message: Option<Box<RawValue>>,
    #[serde(default)]
    query: String,
    #[serde(default)]
    k: usize,
    #[serde(default)]
    pattern: String,
    #[serde(default)]
    flags: String,
    #[serde(default)]
    messages: Vec<Box<RawValue>>,
    #[serde(default)]
    budget_tokens: u64,
}

/// A namespace: the session that stands for it, and what the caller calls its messages.
#[derive(Default)]
struct Namespace {
    name: String,
    session: Option<SessionId>,
    said: u64,
    /// The whole list, as a host would send it.
    list: Vec<Vec<u8>>,
    ids: HashMap<Arrival, Value>,
}

struct Bridge {
    host: Host,
    namespaces: HashMap<String, Namespace>,
    resets: u64,
    /// Whether messages came that the index has not: a host's idle moment is when a search follows.
    fresh: bool,
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lcm-bridge: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Box<dyn Error>> {
    // A store of its own, gone with the process, unless one is named.
    let kept = std::env::args().nth(1).map(PathBuf::from);
    let scratch = tempfile::tempdir()?;
    let home = kept.unwrap_or_else(|| scratch.path().join("lcm"));
    let host = Host::open(&home)?;
    #[cfg(feature = "o200k")]
    let host = host.judged_by(std::sync::Arc::new(lcm_benches::o200k::O200k));
    let mut bridge = Bridge { host, namespaces: HashMap::new(), resets: 0, fresh: false };
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let answer = serde_json::from_str(&line).map_err(Into::into).and_then(|request| bridge.answer(request));
        let answer = answer.unwrap_or_else(|error| json!({"error": error.to_string()}).to_string());
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

impl Bridge {
    fn answer(&mut self, request: Request) -> Result<String, Box<dyn Error>> {
        match request.op.as_str() {
            "reset" => {
                self.resets += 1;
                let name = format!("{}~{}", key(&request.ns), self.resets);
                self.namespaces.insert(key(&request.ns), Namespace { name, ..Namespace::default() });
                Ok(json!({"ok": true}).to_string())
            }
            "add" => {
                let message = request.message.ok_or("add wants a message")?;
                self.add(&request.ns, request.id, message.get().to_owned())
            }
            "search" => {
                let wanted = json!({"query": request.query, "sort": "relevance", "scope": "messages"});
                self.find(&request.ns, wanted, request.k)
            }
            "grep" => {
                let case = if request.flags.contains('i') { "insensitive" } else { "sensitive" };
                let wanted = json!({
                    "query": request.pattern, "mode": "regex", "case": case, "sort": "oldest", "scope": "messages",
                });
                self.find(&request.ns, wanted, usize::MAX)
            }
            "compress" => self.compress(&request),
            "select" => self.select(&request),
            "expand_all" => self.expand_all(&request.ns),
            other => Err(format!("there is no operation {other}").into()),
        }
    }

    fn add(&mut self, ns: &Value, id: Value, json: String) -> Result<String, Box<dyn Error>> {
        let namespace = self.namespaces.entry(key(ns)).or_default();
        if namespace.name.is_empty() {
            namespace.name = key(ns);
        }
        let said = json.clone().into_bytes();
        let done = self.host.say(&namespace.name, namespace.said, &[Said { json, seen_ms: 0 }])?;
        namespace.session = done.session;
        namespace.said += 1;
        namespace.list.push(said);
        let (number, _) = done.numbers.ok_or("a new message got no number")?;
        namespace.ids.insert(number, id);
        self.fresh = true;
        Ok(json!({"ok": true}).to_string())
    }

    /// A namespace's whole list, brought under a budget.
    fn compress(&mut self, request: &Request) -> Result<String, Box<dyn Error>> {
        let namespace = self.namespaces.entry(key(&request.ns)).or_default();
        if namespace.name.is_empty() {
            namespace.name = key(&request.ns);
        }
        let given: Vec<Vec<u8>> = request.messages.iter().map(|raw| raw.get().as_bytes().to_vec()).collect();
        let turn = self.host.turn(OWNER, &namespace.name, given.clone());
        let options = CompressOptions { threshold_tokens: request.budget_tokens, ..CompressOptions::default() };
        let wanted = CompressRequest { force: true, ..CompressRequest::new(turn, options) };
        let done = self.host.engine().compress(&wanted)?;
        namespace.session = done.turned.session;
        self.fresh = true;
        with_messages(&json!({}), &done.list(&given))
    }

    /// What of a namespace goes into one request: its whole list is the request. Budgets are judged in
    /// o200k where that is compiled in, else by the stored count, which errs on the high side.
    fn select(&mut self, request: &Request) -> Result<String, Box<dyn Error>> {
        self.rest()?;
        let Some((namespace, session)) = self.namespace(&request.ns) else {
            return with_messages(&json!({}), &[]);
        };
        let wanted = SelectRequest {
            turn: self.host.turn(OWNER, &namespace.name, namespace.list.clone()),
            head: 0,
            budget_tokens: request.budget_tokens,
            model: None,
            query: Some(request.query.clone()).filter(|query| !query.is_empty()),
            scope: self.host.scope(Some(session)),
            folding: CompressOptions { threshold_tokens: request.budget_tokens, ..CompressOptions::default() },
            recall: RecallOptions { tokens_max: u64::MAX },
        };
        let done = self.host.engine().select(&wanted)?;
        let recalled: Vec<&Value> =
            done.recalled.iter().filter_map(|one| namespace.ids.get(&one.entry.number)).collect();
        let given = done.messages.iter().flatten().filter_map(|message| match message {
            OutMessage::Given(at) => Some(*at),
            OutMessage::Made(_) => None,
        });
        let told = json!({
            "reason": done.reason, "before": done.tokens_before, "after": done.tokens_after, "recalled": recalled,
            "given": given.collect::<Vec<_>>(),
        });
        // Where nothing valid fits, nothing is sent: a host would send its list and be refused.
        let is_over = done.messages.is_none() && done.tokens_before > request.budget_tokens;
        let list = if is_over { Vec::new() } else { done.list(&wanted.turn.messages) };
        with_messages(&told, &list)
    }

    /// What the caller calls the messages that `lcm_grep` finds in a namespace, page by page, at most so many.
    fn find(&mut self, ns: &Value, mut wanted: Value, max: usize) -> Result<String, Box<dyn Error>> {
        self.rest()?;
        let mut ids = Vec::new();
        if let Some((namespace, session)) = self.namespace(ns) {
            while ids.len() < max {
                wanted["limit"] = json!((max - ids.len()).min(HITS_MAX));
                let page = self.host.call_tool(session, "lcm_grep", &wanted)?;
                let hits = page["results"].as_array().ok_or("an answer without results")?;
                let numbers = hits.iter().filter_map(|hit| hit["store_id"].as_u64().map(Arrival));
                ids.extend(numbers.filter_map(|number| namespace.ids.get(&number).cloned()));
                match page.get("cursor") {
                    Some(cursor) if !hits.is_empty() => wanted["cursor"] = cursor.clone(),
                    _ => break,
                }
            }
        }
        Ok(json!({"ids": ids}).to_string())
    }

    fn namespace(&self, ns: &Value) -> Option<(&Namespace, SessionId)> {
        let namespace = self.namespaces.get(&key(ns))?;
        Some((namespace, namespace.session?))
    }

    /// What a long-lived host does between turns.
    fn rest(&mut self) -> Result<(), Box<dyn Error>> {
        if std::mem::take(&mut self.fresh) {
            self.host.engine().store().catch_up(Pace::Gentle, &|_| {})?;
        }
        Ok(())
    }

    /// Every message the session ever had, on whichever timeline, once. Put together as text: their JSON is what was
    /// said, and stays so.
    fn expand_all(&self, ns: &Value) -> Result<String, Box<dyn Error>> {
        let mut answer = String::from(r#"{"messages":["#);
        if let Some((_, session)) = self.namespace(ns) {
            let scope = self.host.scope(Some(session));
            let mut given = HashSet::new();
            for timeline in self.host.engine().describe_session(&scope, session)?.timelines {
                let mut request = ReadRequest {
                    scope: scope.clone(),
                    session,
                    timeline: Some(timeline.id),
                    from: None,
                    max: usize::MAX,
                    bytes_max: PAGE_BYTES,
                };
                loop {
                    let page = self.host.engine().read(&request)?;
                    for whole in page.messages.into_iter().filter(|whole| given.insert(whole.entry.number)) {
                        if !answer.ends_with('[') {
                            answer.push(',');
                        }
                        answer.push_str(std::str::from_utf8(&whole.json)?);
                    }
                    match page.next {
                        None => break,
                        next => request.from = next,
                    }
                }
            }
        }
        answer.push_str("]}");
        Ok(answer)
    }
}

/// An object with a list of messages as they are, put together as text.
fn with_messages(told: &Value, messages: &[Vec<u8>]) -> Result<String, Box<dyn Error>> {
    let mut answer = told.to_string();
    answer.pop();
    if answer.len() > 1 {
        answer.push(',');
    }
    answer.push_str("\"messages\":[");
    for (nth, message) in messages.iter().enumerate() {
        if nth > 0 {
            answer.push(',');
        }
        answer.push_str(std::str::from_utf8(message)?);
    }
    answer.push_str("]}");
    Ok(answer)
}

/// Callers name namespaces by texts or numbers.
fn key(ns: &Value) -> String {
    match ns {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
