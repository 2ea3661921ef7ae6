//! A host that stands in for LibreFang: it keeps sessions, puts its own messages into windows, trims, folds and merges as
//! the real one was seen to do, and asks the hooks in the same order.

use std::collections::BTreeMap;

use lcm_core::Json;
use lcm_engine::compress::CompressOptions;
use lcm_engine::hosts::librefang::{HookAnswer, HookOptions, Hooks, Waiting};
use lcm_engine::service::{ExportRecord, ExportRequest, RecallOptions, Scope, Service};
use lcm_engine::{Engine, OpenOptions};
use lcm_tests::folder::folder;
use tempfile::TempDir;

/// The agent of most tests.
pub(crate) const AGENT: &str = "6a5530d7-e09a-46be-854b-d3266eaa5db7";

pub(crate) struct Host {
    pub(crate) home: TempDir,
    pub(crate) engine: Engine,
    pub(crate) hooks: Hooks,
    pub(crate) window_tokens: u64,
    /// Messages of each session, by its name, as the host stores them.
    pub(crate) sessions: BTreeMap<String, Vec<Json>>,
    pub(crate) summaries: BTreeMap<String, String>,
    pub(crate) options: HookOptions,
    nanos: u64,
    pub(crate) calls: u64,
    /// Every window that a model was shown.
    pub(crate) windows: Vec<Vec<Json>>,
    /// Requests of which something waits, as whoever serves keeps them.
    waits: Vec<(Waiting, Json, i64)>,
    /// Whether calls are numbered anew in each turn, as some models do.
    pub(crate) repeats_ids: bool,
    /// A turn that is over, of which nobody was told yet.
    late: Option<Json>,
    pub(crate) now_ms: i64,
}

/// How a turn goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn<'t> {
    pub(crate) session: &'t str,
    pub(crate) text: &'t str,
    /// What each tool gives back, one call a step.
    pub(crate) results: Vec<String>,
    pub(crate) reply: &'t str,
    pub(crate) is_private: bool,
    /// The model fails: no reply, and nobody is told that the turn is over.
    pub(crate) fails: bool,
    /// The hook that says that a turn is over is not called, or fails.
    pub(crate) loses_after_turn: bool,
    pub(crate) peer: Option<&'t str>,
    /// What a person says while the first tool runs.
    pub(crate) more: Option<&'t str>,
    /// An image stands beside the text, until a model has seen it.
    pub(crate) has_image: bool,
    /// The host folds between two steps.
    pub(crate) is_pressed: bool,
    /// That the turn is over is told when the next one has begun.
    pub(crate) is_told_late: bool,
}

pub(crate) fn options() -> HookOptions {
    HookOptions {
        folding: CompressOptions::default(),
        recall: RecallOptions { tokens_max: 1000 },
        reads_across: false,
        by: "test".to_owned(),
    }
}

pub(crate) fn text_of(message: &Json) -> String {
    match message.get("content") {
        Some(Json::String(text)) => text.to_str_lossy().into_owned(),
        Some(Json::Array(blocks)) => {
            let texts = blocks.iter().filter_map(|block| block.get("text").or_else(|| block.get("content"))?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

pub(crate) fn messages_of(answer: &[u8]) -> Vec<Json> {
    let answer = Json::parse(answer).expect("an answer is JSON");
    answer.get("messages").and_then(Json::as_array).expect("an answer has messages").to_vec()
}

impl Host {
    pub(crate) fn new(window_tokens: u64) -> Self {
        let home = folder();
        let engine = open(&home);
        Self {
            home,
            engine,
            hooks: Hooks::new([7; 32]),
            window_tokens,
            sessions: BTreeMap::new(),
            summaries: BTreeMap::new(),
            options: options(),
            nanos: 0,
            calls: 0,
            windows: Vec::new(),
            waits: Vec::new(),
            repeats_ids: false,
            late: None,
            now_ms: 1_800_000_000_000,
        }
    }

    /// The process that serves is another one: it finds in the spool what waits.
    pub(crate) fn restart(&mut self) {
        let before = std::mem::replace(&mut self.hooks, Hooks::new([7; 32]));
        self.waits.retain(|(waiting, _, _)| before.still_needs(waiting));
        for (waiting, request, at_ms) in &mut self.waits {
            let request = Json::parse(&request.to_text()).unwrap();
            if let Some(waits) = self.hooks.take_in(&self.engine, request, &self.options, *at_ms).unwrap() {
                *waiting = waits;
            }
        }
    }

    pub(crate) fn moment(&mut self) -> String {
        self.nanos += 1_000_003;
        format!(
            "2026-12-01T10:{:02}:{:02}.{:09}Z",
            self.nanos / 60_000_000_000 % 60,
            self.nanos / 1_000_000_000 % 60,
            self.nanos % 1_000_000_000
        )
    }

    pub(crate) fn said(&mut self, role: &str, content: Json) -> Json {
        let moment = self.moment();
        Json::object([
            ("role", role.into()),
            ("content", content),
            ("pinned", false.into()),
            ("timestamp", moment.into()),
        ])
    }

    pub(crate) fn ask(&mut self, request: Json) -> HookAnswer {
        self.now_ms += 1000;
        // What comes over the wire was text.
        let request = Json::parse(&request.to_text()).unwrap();
        let answer = self.hooks.answer(&self.engine, request, &self.options, self.now_ms).expect("a hook is answered");
        let kept = |waits: Waiting| (Json::parse(waits.request()).unwrap(), waits);
        self.waits.extend(answer.waits.clone().map(kept).map(|(request, waits)| (waits, request, self.now_ms)));
        let line = String::from_utf8(answer.text.clone()).expect("an answer is UTF-8");
        assert!(!line.contains('\n'), "an answer is one line");
        assert!(line.len() < 1 << 20, "an answer is below 1 MiB");
        answer
    }

    pub(crate) fn assemble(&mut self, window: &[Json]) -> Vec<Json> {
        let request = Json::object([
            ("type", "assemble".into()),
            ("agent_id", AGENT.into()),
            ("system_prompt", "You are a test agent.".into()),
            ("messages", Json::Array(window.to_vec())),
            ("context_window_tokens", self.window_tokens.into()),
        ]);
        let answer = self.ask(request);
        let shown = messages_of(&answer.text);
        self.check(&shown);
        self.windows.push(shown.clone());
        shown
    }

    /// What the host's provider would refuse, and what does not fit.
    pub(crate) fn check(&self, window: &[Json]) {
        let mut open: Vec<String> = Vec::new();
        assert_eq!(window.first().and_then(|message| message.get("role")).and_then(Json::as_str), Some("user"));
        let mut chars = 0;
        for message in window {
            let role = message.get("role").and_then(Json::as_str).expect("a message has a role");
            chars += text_of(message).chars().count();
            let blocks = message.get("content").and_then(Json::as_array).unwrap_or_default();
            let ids = |kind: &str, key: &str| -> Vec<String> {
                let of_kind = blocks.iter().filter(|block| block.get("type").and_then(Json::as_str) == Some(kind));
                of_kind.map(|block| block.get(key).and_then(Json::as_str).unwrap().to_owned()).collect()
            };
            let (calls, results) = (ids("tool_use", "id"), ids("tool_result", "tool_use_id"));
            if open.is_empty() {
                assert!(results.is_empty(), "a result without a call: {results:?}");
            } else {
                assert_eq!((role, &results), ("user", &open), "calls are answered in the next message");
            }
            open = calls;
            assert!(!text_of(message).trim().is_empty() || !blocks.is_empty(), "an empty message");
        }
        assert!(open.is_empty(), "calls that nobody answers: {open:?}");
        let tokens = u64::try_from(chars).unwrap() / 4;
        assert!(tokens <= self.window_tokens, "{tokens} tokens in a window of {}", self.window_tokens);
    }

    /// One turn, as the host goes through it.
    pub(crate) fn turn(&mut self, turn: &Turn<'_>) -> Vec<Json> {
        let name = turn.session.to_owned();
        let request = Json::object([
            ("type", "ingest".into()),
            ("agent_id", AGENT.into()),
            ("message", turn.text.into()),
            ("peer_id", turn.peer.map_or(Json::Null, Json::from)),
        ]);
        self.ask(request);
        let text = turn.peer.map_or_else(|| turn.text.to_owned(), |peer| format!("[{peer}]: {}", turn.text));
        let mut stored = self.sessions.get(&name).cloned().unwrap_or_default();
        // A request that failed is run together with the next one.
        let failed = stored.last().filter(|last| is_words(last)).cloned();
        match failed {
            Some(failed) => {
                stored.pop();
                let both =
                    Json::object([("type", "text".into()), ("text", format!("{}\n\n{text}", text_of(&failed)).into())]);
                stored.push(Json::object([
                    ("role", "user".into()),
                    ("content", Json::Array(vec![both])),
                    ("pinned", false.into()),
                    ("timestamp", failed.get("timestamp").unwrap().clone()),
                ]));
            }
            None => {
                let said = self.said("user", text.into());
                stored.push(said);
            }
        }
        let cut = stored.len().saturating_sub(60);
        // Cut where a person speaks.
        let cut = (cut..stored.len()).find(|at| is_words(&stored[*at])).unwrap_or(0);
        stored.drain(..cut);
        let mut window = Vec::new();
        if let Some(summary) = self.summaries.get(&name).cloned() {
            let said = self.said("user", format!("[Previous conversation context]\n{summary}").into());
            window.push(said);
        }
        window.extend(stored.iter().cloned());
        let date = self.said("user", "[Current date/time: Tuesday, December 01, 2026 11:23 +00:00]".into());
        window.push(date);
        if turn.has_image {
            let image = Json::object([
                ("type", "image".into()),
                ("media_type", "image/png".into()),
                ("data", "aGVsbG8=".repeat(2000).into()),
            ]);
            let at = window.len() - 2;
            window[at] = beside(&window[at], image);
        }
        let mut shown = self.assemble(&window);
        if let Some(late) = self.late.take() {
            self.ask(late);
        }
        if turn.has_image {
            // A model has seen it.
            let text = Json::object([("type", "text".into()), ("text", "[Image: already seen]".into())]);
            let said = stored.pop().expect("the request was put there");
            let moment = said.get("timestamp").cloned();
            let said = beside(&said, text);
            for message in shown.iter_mut().filter(|message| message.get("timestamp") == moment.as_ref()) {
                *message = said.clone();
            }
            stored.push(said);
        }
        for (nth, result) in turn.results.iter().enumerate() {
            self.calls += 1;
            let id = format!("call_{}", if self.repeats_ids { u64::try_from(nth).unwrap() } else { self.calls });
            let call = Json::object([
                ("type", "tool_use".into()),
                ("id", id.as_str().into()),
                ("name", "file_read".into()),
                ("input", Json::object([("path", "a.txt".into())])),
            ]);
            let words = Json::object([("type", "text".into()), ("text", "I look it up.".into())]);
            let called = self.said("assistant", Json::Array(vec![words, call]));
            let given = self.transform(&id, "file_read", result);
            // The host puts what is large into a file.
            let given = match given.len() > 16_384 {
                true => format!("[artifact a-{id}: {} bytes, read_artifact shows it]", given.len()),
                false => given,
            };
            let block = Json::object([
                ("type", "tool_result".into()),
                ("tool_use_id", id.as_str().into()),
                ("tool_name", "file_read".into()),
                ("content", given.into()),
                ("is_error", false.into()),
                ("status", "completed".into()),
            ]);
            let answered = self.said("user", Json::Array(vec![block]));
            for said in [called, answered] {
                shown.push(said.clone());
                stored.push(said);
            }
            if let Some(more) = turn.more.filter(|_| nth == 0) {
                let said = self.said("user", more.into());
                shown.push(said.clone());
                stored.push(said);
            }
            if turn.is_pressed {
                shown = self.press(&shown);
            }
            shown = self.assemble(&shown.clone());
        }
        if turn.is_private {
            return shown;
        }
        if turn.fails {
            self.sessions.insert(name, stored);
            return shown;
        }
        if !turn.loses_after_turn {
            let request = Json::object([
                ("type", "after_turn".into()),
                ("agent_id", AGENT.into()),
                ("messages", Json::Array(shown.clone())),
            ]);
            if turn.is_told_late {
                self.late = Some(request);
            } else {
                self.ask(request);
            }
        }
        let reply = self.said("assistant", turn.reply.into());
        stored.push(reply);
        // Results of long ago are folded.
        let old = stored.len().saturating_sub(30);
        for message in &mut stored[..old] {
            *message = folded(message);
        }
        self.sessions.insert(name, stored);
        shown
    }

    pub(crate) fn transform(&mut self, call: &str, tool: &str, content: &str) -> String {
        let request = Json::object([
            ("type", "transform_tool_result".into()),
            ("agent_id", AGENT.into()),
            ("tool_name", tool.into()),
            ("tool_use_id", call.into()),
            ("input", Json::object([("query", "orchid".into())])),
            ("content", content.into()),
            ("is_error", false.into()),
            ("status", "completed".into()),
        ]);
        let answer = Json::parse(&self.ask(request).text).unwrap();
        answer.get("content").and_then(Json::as_str).unwrap_or(content).to_owned()
    }

    /// The host folds in the middle of a turn: the date and its own summary are not in what it shows, and come back.
    fn press(&mut self, window: &[Json]) -> Vec<Json> {
        let is_of_host = |message: &&Json| {
            text_of(message).starts_with("[Current date/time:")
                || text_of(message).starts_with("[Previous conversation")
        };
        let given: Vec<Json> = window.iter().filter(|message| !is_of_host(message)).cloned().collect();
        let answer = self.ask_compact(given, "critical");
        let mut kept = messages_of(&answer);
        if let Some(date) = window.iter().rfind(|message| text_of(message).starts_with("[Current date/time:")) {
            let request =
                window.iter().position(|message| message == date).and_then(|at| window.get(at.checked_sub(1)?));
            let at = request.and_then(|request| {
                kept.iter().rposition(|message| message.get("timestamp") == request.get("timestamp"))
            });
            kept.insert(at.expect("the request is kept") + 1, date.clone());
        }
        kept
    }

    fn ask_compact(&mut self, messages: Vec<Json>, recommendation: &str) -> Vec<u8> {
        let pressure = Json::object([
            ("used_tokens", 229_u64.into()),
            ("max_tokens", self.window_tokens.into()),
            ("recommendation", recommendation.into()),
        ]);
        let request = Json::object([
            ("type", "compact".into()),
            ("agent_id", AGENT.into()),
            ("messages", Json::Array(messages)),
            ("model", "mock".into()),
            ("context_window_tokens", self.window_tokens.into()),
            ("token_pressure", pressure),
        ]);
        self.ask(request).text
    }

    /// The host wants its stored list shorter.
    pub(crate) fn compact(&mut self, session: &str) {
        let stored = self.sessions.get(session).cloned().unwrap_or_default();
        let answer = self.ask_compact(stored, "light");
        let kept = messages_of(&answer);
        self.check(&kept);
        let summary = Json::parse(&answer)
            .unwrap()
            .get("summary")
            .and_then(Json::as_str)
            .unwrap_or("plugin compaction")
            .to_owned();
        self.sessions.insert(session.to_owned(), kept);
        if summary.is_empty() {
            self.summaries.remove(session);
        } else {
            self.summaries.insert(session.to_owned(), summary.chars().take(2000).collect());
        }
    }

    /// The texts that are kept, in the order in which they were said: of each session its messages, each as it was seen
    /// first.
    pub(crate) fn kept(&self) -> BTreeMap<String, Vec<String>> {
        let mut kept: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut name = String::new();
        let request = ExportRequest { scope: Scope::everything(), now_ms: self.now_ms };
        self.engine
            .export(&request, &mut |record| {
                match record {
                    ExportRecord::Session(session) => name = session.name,
                    ExportRecord::Message(message) => {
                        let json = Json::parse(&message.json).unwrap();
                        kept.entry(name.clone()).or_default().push(text_of(&json));
                    }
                    _ => {}
                }
                Ok(())
            })
            .unwrap();
        kept
    }

    /// The messages that are kept, as JSON.
    pub(crate) fn kept_json(&self) -> Vec<String> {
        let request = ExportRequest { scope: Scope::everything(), now_ms: self.now_ms };
        let mut kept = Vec::new();
        let each = &mut |record| {
            if let ExportRecord::Message(message) = record {
                kept.push(String::from_utf8(message.json).unwrap());
            }
            Ok(())
        };
        self.engine.export(&request, each).unwrap();
        kept
    }

    pub(crate) fn all_kept(&self) -> Vec<String> {
        self.kept().into_values().flatten().collect()
    }
}

fn open(home: &TempDir) -> Engine {
    let options = OpenOptions { create: true, cache_bytes: 4 << 20, ..OpenOptions::default() };
    Engine::open(home.path(), options).expect("the store opens")
}

/// Whether a message of a stored list is what a person said.
fn is_words(message: &Json) -> bool {
    let blocks = message.get("content").and_then(Json::as_array).unwrap_or_default();
    message.get("role").and_then(Json::as_str) == Some("user")
        && !blocks.iter().any(|block| block.get("tool_use_id").is_some())
}

/// A message of one text, and a block beside it.
fn beside(message: &Json, block: Json) -> Json {
    let Json::Object(mut entries) = message.clone() else { return message.clone() };
    for (_, value) in entries.iter_mut().filter(|(key, _)| key.as_bytes() == b"content") {
        let text = Json::object([("type", "text".into()), ("text", text_of(message).into())]);
        *value = Json::Array(vec![text, block.clone()]);
    }
    Json::Object(entries)
}

fn folded(message: &Json) -> Json {
    let Json::Object(entries) = message else { return message.clone() };
    let mut entries = entries.clone();
    for (key, value) in &mut entries {
        let Json::Array(blocks) = value else { continue };
        if key.as_bytes() != b"content" {
            continue;
        }
        for block in blocks {
            let Json::Object(entries) = block else { continue };
            let is_result = entries.iter().any(|(key, _)| key.as_bytes() == b"tool_use_id");
            for (key, value) in entries {
                if is_result && key.as_bytes() == b"content" {
                    *value = "[history-fold] a file was read".into();
                }
            }
        }
    }
    Json::Object(entries)
}

/// Where two lists part, in few words.
pub(crate) fn difference(told: &[String], kept: &[Vec<String>]) -> String {
    let nearest = kept.iter().max_by_key(|kept| kept.iter().zip(told).take_while(|(a, b)| a == b).count());
    let Some(nearest) = nearest else { return "nothing is kept".to_owned() };
    let at = nearest.iter().zip(told).take_while(|(a, b)| a == b).count();
    let short = |text: &String| {
        format!(
            "{}..{} ({})",
            text.chars().take(30).collect::<String>(),
            text.chars().rev().take(30).collect::<Vec<_>>().iter().rev().collect::<String>(),
            text.len()
        )
    };
    let show = |texts: &[String]| texts.iter().skip(at).take(3).map(short).collect::<Vec<String>>();
    format!("at {at} of {}: said {:?}, kept {:?}", told.len(), show(told), show(nearest))
}

pub(crate) fn assert_same(said: &[String], kept: &[String]) {
    assert!(said == kept, "{}", difference(said, &[kept.to_vec()]));
}
