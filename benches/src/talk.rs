//! What a host that keeps its conversation in lists asks, as JSON: turns, compressing, recall within one agent's scope.
//!
//! For drivers in other languages. Nothing here knows a case or a benchmark: every operation is one call of the engine,
//! its answer as JSON.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lcm_core::SummaryNumber;
use lcm_engine::compress::CompressOptions;
use lcm_engine::compress::summary::{Summarizer, SummarizerError, SummaryPrompt};
use lcm_engine::service::{
    Child, CompressRequest, DownTo, ExpandRequest, Expansion, SearchMode, SearchRequest, Service, SessionKey,
};
use lcm_store::{Scope, Words};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::host::Host;

/// A request of a host; which fields stand in it depends on `op`.
#[derive(Deserialize)]
pub struct Asked {
    /// What it asks.
    pub op: String,
    /// Whose conversation it is.
    #[serde(default)]
    pub agent: String,
    /// Which conversation.
    #[serde(default)]
    pub session: String,
    /// The host's list.
    #[serde(default)]
    pub messages: Vec<Box<RawValue>>,
    /// Settings of compressing.
    #[serde(default)]
    pub options: Settings,
    /// What the provider says the request costs.
    pub current_tokens: Option<u64>,
    /// Whether to fold whatever there is to win.
    #[serde(default)]
    pub force: bool,
    /// A node: a handle or what contains one.
    #[serde(default)]
    pub id: Value,
    /// Where to go on.
    #[serde(default)]
    pub skip: usize,
    /// What to look for.
    #[serde(default)]
    pub query: String,
    /// At most so many hits; 0 for twenty.
    #[serde(default)]
    pub limit: usize,
    /// Whether to look in all conversations of the agent.
    #[serde(default)]
    pub everywhere: bool,
    /// How the stub of a summary model behaves; none for no model.
    pub model: Option<ModelStub>,
}

/// Settings by meaning.
#[derive(Default, Deserialize)]
pub struct Settings {
    threshold_tokens: Option<u64>,
    protect_first: Option<usize>,
    protect_last: Option<usize>,
    tail_tokens_max: Option<u64>,
    chunk_tokens_max: Option<u64>,
    summary_tokens_max: Option<u64>,
    summary_time_max_ms: Option<u64>,
    alternates: Option<bool>,
}

impl Settings {
    fn options(&self) -> CompressOptions {
        let default = CompressOptions::default();
        CompressOptions {
            threshold_tokens: self.threshold_tokens.unwrap_or(default.threshold_tokens),
            protect_first: self.protect_first.unwrap_or(default.protect_first),
            protect_last: self.protect_last.unwrap_or(default.protect_last),
            tail_tokens_max: self.tail_tokens_max,
            chunk_tokens_max: self.chunk_tokens_max.unwrap_or(default.chunk_tokens_max),
            summary_tokens_max: self.summary_tokens_max.unwrap_or(default.summary_tokens_max),
            summary_time_max: self.summary_time_max_ms.map_or(default.summary_time_max, Duration::from_millis),
            alternates: self.alternates.unwrap_or(default.alternates),
        }
    }
}

/// The options in force, by the names under which they are set.
fn in_force(options: &CompressOptions) -> Value {
    let options = options.in_force();
    json!({
        "threshold_tokens": options.threshold_tokens,
        "protect_first": options.protect_first,
        "protect_last": options.protect_last,
        "tail_tokens_max": options.tail_tokens_max,
        "chunk_tokens_max": options.chunk_tokens_max,
        "summary_tokens_max": options.summary_tokens_max,
        "summary_time_max_ms": u64::try_from(options.summary_time_max.as_millis()).unwrap_or(u64::MAX),
        "alternates": options.alternates,
    })
}

/// A summary model that behaves as it is told.
#[derive(Clone, Default, Deserialize)]
pub struct ModelStub {
    mode: String,
    #[serde(default)]
    text: String,
    #[serde(skip)]
    calls: std::sync::Arc<AtomicU64>,
}

impl ModelStub {
    /// A model that always says the same.
    #[must_use]
    pub fn fixed(text: &str) -> Self {
        Self { mode: "fixed".to_owned(), text: text.to_owned(), ..Self::default() }
    }
}

impl Summarizer for ModelStub {
    fn model(&self) -> &'static str {
        "stub"
    }

    fn summarize(&self, prompt: &SummaryPrompt) -> Result<String, SummarizerError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.mode.as_str() {
            "echo" => Ok(prompt.material.clone()),
            "fixed" => Ok(self.text.clone()),
            "empty" => Ok(String::new()),
            "refusal" => Ok("I'm sorry, but I can't help with that.".to_owned()),
            "timeout" => {
                std::thread::sleep(prompt.time_max);
                Err(SummarizerError::TimedOut(prompt.time_max))
            }
            _ => Err(SummarizerError::Unreachable("the connection was lost".to_owned())),
        }
    }
}

/// Answers; `None` for an operation that is not one of these.
///
/// # Errors
/// What the engine says.
pub fn answer(host: &Host, asked: &Asked) -> Result<Option<String>, Box<dyn Error>> {
    let engine = host.engine();
    let messages = || asked.messages.iter().map(|raw| raw.get().as_bytes().to_vec()).collect::<Vec<_>>();
    Ok(Some(match asked.op.as_str() {
        "turn" => {
            let turned = engine.turn(&host.turn(&asked.agent, &asked.session, messages()))?;
            json!({"new": turned.new, "revised": turned.revised, "late": turned.late, "branched": turned.branched, "published": turned.published}).to_string()
        }
        "shorten" => {
            let given = messages();
            let request = CompressRequest {
                current_tokens: asked.current_tokens,
                force: asked.force,
                summarizer: asked.model.as_ref().map(|model| -> &dyn Summarizer { model }),
                ..CompressRequest::new(host.turn(&asked.agent, &asked.session, given.clone()), asked.options.options())
            };
            let done = engine.compress(&request)?;
            let told = json!({
                "changed": done.messages.is_some(), "reason": done.reason, "failures": done.failures,
                "before": done.tokens_before, "after": done.tokens_after, "folds": done.folds.len(),
            });
            with_messages(&told, &done.list(&given))?
        }
        "options" => in_force(&asked.options.options()).to_string(),
        "behind" => with_messages(&json!({}), &engine.behind(&host.scope_of(&asked.agent), &messages())?)?,
        "weigh" => json!({"tokens": engine.weigh(&messages())?}).to_string(),
        "count" => json!({"messages": count(host, &asked.agent, Some(&asked.session))?}).to_string(),
        "count_all" => json!({"messages": count(host, &asked.agent, None)?}).to_string(),
        "due" => {
            let key = SessionKey::new(&asked.agent, "owner", &asked.session);
            let (due, reason) = engine.is_due(&key, asked.current_tokens.unwrap_or(0), &asked.options.options());
            json!({"due": due, "reason": reason}).to_string()
        }
        "nodes" => nodes(host, asked)?,
        "expand" => expand(host, asked)?,
        "find" => find(host, asked)?,
        _ => return Ok(None),
    }))
}

/// An object with a list of messages as they are, put together as text.
///
/// # Errors
/// When a message is no UTF-8.
pub fn with_messages(told: &Value, messages: &[Vec<u8>]) -> Result<String, Box<dyn Error>> {
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

fn count(host: &Host, agent: &str, session: Option<&str>) -> Result<u64, Box<dyn Error>> {
    let sessions = host.engine().sessions(&host.scope_of(agent))?;
    let own = sessions.iter().filter(|entry| session.is_none_or(|name| entry.session.name == name));
    Ok(own.map(|entry| entry.messages).sum())
}

/// The summaries of a conversation's branches, with what each stands for.
fn nodes(host: &Host, asked: &Asked) -> Result<String, Box<dyn Error>> {
    let scope = host.scope_of(&asked.agent);
    let engine = host.engine();
    let sessions = engine.find_sessions(&scope, &asked.session)?;
    let Some(own) = sessions.iter().find(|session| session.name == asked.session) else {
        return Ok(json!({"nodes": []}).to_string());
    };
    let scope = scope.in_sessions(vec![own.id]);
    let mut answer = String::from("{\"nodes\":[");
    for number in (1..).map(SummaryNumber) {
        let text = format!("node {number}");
        let found = engine.find_nodes(&host.scope_of(&asked.agent), &text, 1)?;
        if found.is_empty() && engine.find_nodes(&Scope::everything(), &text, 1)?.is_empty() {
            break;
        }
        let Some(entry) = engine.find_nodes(&scope, &text, 1)?.pop() else { continue };
        let request = ExpandRequest {
            scope: scope.clone(),
            number: entry.number,
            down_to: DownTo::Originals,
            skip: 0,
            max: usize::MAX,
            bytes_max: usize::MAX,
        };
        let Expansion::Summary(page) = engine.expand(&request)? else { continue };
        let span = engine.describe(&scope, entry.number)?.summary.map(|summary| summary.span_ms).unwrap_or_default();
        let sources: Vec<Vec<u8>> = page
            .children
            .into_iter()
            .filter_map(|child| if let Child::Message(whole) = child { Some(whole.json) } else { None })
            .collect();
        if !answer.ends_with('[') {
            answer.push(',');
        }
        let told = json!({"text": page.text, "from_ts": span.0 / 1000, "to_ts": span.1 / 1000});
        answer.push_str(&with_messages(&told, &sources)?.replacen("\"messages\":[", "\"sources\":[", 1));
    }
    answer.push_str("]}");
    Ok(answer)
}

fn expand(host: &Host, asked: &Asked) -> Result<String, Box<dyn Error>> {
    let scope = host.scope_of(&asked.agent);
    let found = host.engine().find_nodes(&scope, asked.id.as_str().unwrap_or_default(), 2)?;
    let [entry] = found.as_slice() else { return Ok(json!({"absent": true}).to_string()) };
    let request = ExpandRequest {
        scope,
        number: entry.number,
        down_to: DownTo::Originals,
        skip: asked.skip,
        max: usize::MAX,
        bytes_max: usize::MAX,
    };
    let whole = match host.engine().expand(&request)? {
        Expansion::Message(whole) => vec![whole.json],
        Expansion::Summary(page) => page
            .children
            .into_iter()
            .filter_map(|child| if let Child::Message(whole) = child { Some(whole.json) } else { None })
            .collect(),
    };
    with_messages(&json!({}), &whole)
}

fn find(host: &Host, asked: &Asked) -> Result<String, Box<dyn Error>> {
    let mut scope = host.scope_of(&asked.agent);
    let engine = host.engine();
    if !asked.everywhere {
        let sessions = engine.find_sessions(&scope, &asked.session)?;
        let own = sessions.iter().find(|session| session.name == asked.session);
        let Some(own) = own else { return with_messages(&json!({}), &[]) };
        scope = scope.in_sessions(vec![own.id]);
    }
    let mut words = Words::new(asked.query.clone());
    words.hits_max = if asked.limit == 0 { 20 } else { asked.limit };
    let page = engine.search(&SearchRequest { scope: scope.clone(), words, mode: SearchMode::Words })?;
    let mut whole = Vec::new();
    // Ranked hits behind those with all words answer another question.
    for hit in page.hits.iter().filter(|hit| !hit.ranked) {
        let request = ExpandRequest {
            scope: scope.clone(),
            number: hit.entry.number,
            down_to: DownTo::Children,
            skip: 0,
            max: 1,
            bytes_max: usize::MAX,
        };
        if let Expansion::Message(message) = engine.expand(&request)? {
            whole.push(message.json);
        }
    }
    with_messages(&json!({}), &whole)
}
