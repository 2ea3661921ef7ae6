//! The tools that agents call, through the engine's door: what they answer, to whom, how much of it, and that nothing
//! that was said passes for anything else.

mod bounds;
mod nodes;
mod others;
mod pages;
mod quotes;
mod scopes;
mod words;

use lcm_core::tokens::{Estimate, TokenCounter};
use lcm_core::{Json, Owner};
use lcm_engine::Engine;
use lcm_engine::compress::summary::{Summarizer, SummarizerError, SummaryPrompt};
use lcm_engine::service::{Reader, Service, SessionKey, ToolBounds, ToolCall, TurnRequest};
use lcm_tests::stores::NOW_MS;

use crate::session::{Home, assistant, call, exchanges, folded, home, key, result, turn, turn_of, user, with};

/// Every tool.
const NAMES: [&str; 11] = [
    "lcm_grep",
    "lcm_expand",
    "lcm_describe",
    "lcm_expand_query",
    "lcm_load_session",
    "lcm_recall",
    "lcm_recent",
    "lcm_status",
    "lcm_inspect",
    "lcm_doctor",
    "lcm_pin",
];

/// A call and whoever makes it.
#[derive(Clone)]
struct Caller<'a> {
    engine: &'a Engine,
    reader: Reader,
    bounds: ToolBounds,
    model: Option<&'a dyn Summarizer>,
    now_ms: i64,
}

/// Anna, in her session of this name; nothing may have been said in it yet.
fn caller<'a>(engine: &'a Engine, name: &str) -> Caller<'a> {
    caller_as(engine, &key(name))
}

fn caller_as<'a>(engine: &'a Engine, key: &SessionKey) -> Caller<'a> {
    let session = engine.session_named(key).unwrap().map(|session| session.id);
    let reader = Reader { owner: key.owner.clone(), session, ..Reader::default() };
    Caller { engine, reader, bounds: ToolBounds::default(), model: None, now_ms: NOW_MS }
}

impl Caller<'_> {
    /// The answer as it is, and whether it is an error. Whatever it is: one line of JSON, an object, within bounds.
    fn raw(&self, tool: &str, arguments: &str) -> (String, bool) {
        let answer = self.engine.call_tool(&ToolCall {
            name: tool,
            arguments: arguments.as_bytes(),
            reader: self.reader.clone(),
            bounds: self.bounds,
            model: self.model,
            by: "test".to_owned(),
            now_ms: self.now_ms,
        });
        let text = answer.text;
        let ends_a_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        assert!(!text.contains(ends_a_line), "{tool} {arguments}: {text}");
        let json = Json::parse(text.as_bytes()).unwrap();
        assert!(json.as_object().is_some(), "{tool} {arguments}: {text}");
        assert_eq!(json.get("error").is_some(), answer.is_error, "{tool} {arguments}: {text}");
        let (tokens, chars) = (u64::from(Estimate.count_text(&text)), text.chars().count());
        assert!(tokens <= self.bounds.tokens_max && chars <= self.bounds.chars_max, "{tool} {arguments}: {tokens}");
        assert!(text.len() <= self.bounds.bytes_max, "{tool} {arguments}: {} bytes", text.len());
        (text, answer.is_error)
    }

    /// What a call that must be answered gives.
    fn ask(&self, tool: &str, arguments: &str) -> Json {
        let (text, is_error) = self.raw(tool, arguments);
        assert!(!is_error, "{tool} {arguments}: {text}");
        Json::parse(text.as_bytes()).unwrap()
    }

    /// The sentence of a call that must be refused.
    fn refused(&self, tool: &str, arguments: &str) -> String {
        let (text, is_error) = self.raw(tool, arguments);
        assert!(is_error, "{tool} {arguments}: {text}");
        string(&Json::parse(text.as_bytes()).unwrap(), "error")
    }

    /// All pages of a call: every answer until there is none behind it. `arguments` are the entries of an object.
    fn pages(&self, tool: &str, arguments: &str) -> Vec<Json> {
        let mut pages = vec![self.ask(tool, &format!("{{{arguments}}}"))];
        while let Some(cursor) = cursor(&pages[pages.len() - 1]) {
            assert!(pages.len() < 3000, "{tool} {arguments} never ends");
            let comma = if arguments.is_empty() { "" } else { "," };
            pages.push(self.ask(tool, &format!("{{{arguments}{comma}\"cursor\":\"{cursor}\"}}")));
        }
        pages
    }

    /// The values under a key of all items that a call gives, page by page.
    fn all(&self, tool: &str, arguments: &str, list: &str, key: &str) -> Vec<String> {
        let pages = self.pages(tool, arguments);
        pages.iter().flat_map(|page| items(page, list)).filter_map(|item| item.get(key).map(shown)).collect()
    }
}

/// Where an answer goes on. It says so when it is cut, and only then.
fn cursor(answer: &Json) -> Option<String> {
    let has_more = answer.get("has_more").and_then(Json::as_bool).unwrap_or(false);
    let cursor = answer.get("cursor").map(shown);
    assert_eq!(cursor.is_some(), has_more, "{answer:?}");
    cursor
}

fn items<'j>(answer: &'j Json, list: &str) -> &'j [Json] {
    answer.get(list).and_then(Json::as_array).unwrap_or_else(|| panic!("no {list} in {answer:?}"))
}

fn string(json: &Json, key: &str) -> String {
    json.get(key).and_then(Json::as_str).unwrap_or_else(|| panic!("no text {key} in {json:?}")).to_owned()
}

fn number(json: &Json, key: &str) -> u64 {
    json.get(key).and_then(Json::as_u64).unwrap_or_else(|| panic!("no number {key} in {json:?}"))
}

/// A text or a number as people write it.
fn shown(json: &Json) -> String {
    json.as_str().map_or_else(|| String::from_utf8(json.to_text()).unwrap(), str::to_owned)
}

/// What a quoted block holds.
fn unquoted(block: &str) -> String {
    if block.is_empty() {
        return String::new();
    }
    let inner = block.strip_prefix("[lcm:quote]\n").and_then(|rest| rest.strip_suffix("\n[lcm:end]"));
    let inner = inner.unwrap_or_else(|| panic!("no quoted block: {block:?}"));
    let line = |line: &str| line.strip_prefix("> ").unwrap_or_else(|| panic!("not quoted: {line:?}")).to_owned();
    inner.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

fn quoted_json(text: &str) -> String {
    String::from_utf8(Json::from(text).to_text()).unwrap()
}

/// Something said by anybody.
fn turn_as(engine: &Engine, key: SessionKey, list: &[String]) {
    engine.turn(&TurnRequest { key, ..turn_of("", list) }).unwrap();
}

fn owner(agent: &str, person: &str) -> Owner {
    Owner { agent: agent.to_owned(), person: person.to_owned() }
}

/// A model that says what the test says.
struct Model<F>(F);

impl<F: Fn(&SummaryPrompt) -> Result<String, SummarizerError> + Send + Sync> Summarizer for Model<F> {
    fn model(&self) -> &'static str {
        "test-model"
    }

    fn summarize(&self, prompt: &SummaryPrompt) -> Result<String, SummarizerError> {
        (self.0)(prompt)
    }
}

/// What is folded away in [`with_folds`], and nowhere else.
const SECRET: &str = "The ferry Albatross leaves from pier seventeen.";

/// A session `s` of which most is folded, twice over; what was said in it, and what is shown.
fn with_folds(home: &Home) -> (Vec<String>, Vec<String>) {
    let mut said = vec![user("please remember what the pilot said"), assistant(SECRET), call("c1", "src/lamp.rs")];
    said.push(result("c1", "fn lamp() { light(3) }"));
    said.push(assistant("I have read it."));
    let mut shown = said.clone();
    for round in 0..8 {
        let more = with(&exchanges(&format!("round {round}"), 8, 40), &[user("go on"), assistant("gladly")]);
        said.extend(more.clone());
        shown.extend(more);
        shown = folded(&home.engine, "s", &shown, 900);
    }
    turn(&home.engine, "s", &shown);
    (said, shown)
}

/// The handles of the folds in a list that is shown.
fn handles(shown: &[String]) -> Vec<String> {
    let all = shown.iter().flat_map(|message| message.split("[lcm:fold ").skip(1));
    all.map(|rest| rest.split(':').next().unwrap().to_owned()).collect()
}

#[test]
fn the_tools_that_are_told_are_those_that_are_tried_here() {
    let told = lcm_engine::tools::schemas(true);
    let told: Vec<String> = told.iter().map(|schema| string(schema, "name")).collect();
    assert_eq!(told, NAMES);
}

#[test]
fn a_maker_folds_twice_over() {
    let home = home();
    let (_, shown) = with_folds(&home);
    let found = caller(&home.engine, "s").ask("lcm_describe", "{}");
    let depths = found.get("depths").unwrap().as_object().unwrap();
    assert!(depths.len() >= 2, "{found:?}");
    assert!(!handles(&shown).is_empty());
}
