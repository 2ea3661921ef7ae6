//! Short ways to be a host: lists of JSON texts, shown to an engine on a store of its own.

use lcm_engine::compress::CompressOptions;
use lcm_engine::compress::summary::Summarizer;
use lcm_engine::error::EngineError;
use lcm_engine::hosts::speech::Dialect;
use lcm_engine::service::{
    CompressRequest, Compressed, InMessage, OwnerPattern, Owners, ReadRequest, Scope, Service, SessionEntry,
    SessionKey, TurnRequest, Turned, Whole,
};
use lcm_engine::{Engine, OpenOptions};
use lcm_store::Branches;
use lcm_tests::folder::folder;
use lcm_tests::stores::NOW_MS;
use tempfile::TempDir;

/// An engine and the folder of its store.
pub(crate) struct Home {
    pub(crate) folder: TempDir,
    pub(crate) engine: Engine,
}

pub(crate) fn home() -> Home {
    let folder = folder();
    let engine = open(&folder);
    Home { folder, engine }
}

/// Another engine on the same store, as another process has one.
pub(crate) fn open(folder: &TempDir) -> Engine {
    let options = OpenOptions { cache_bytes: 4 << 20, ..OpenOptions::default() };
    Engine::open(folder.path(), options).unwrap()
}

pub(crate) fn key(name: &str) -> SessionKey {
    SessionKey::new("hermes", "anna", name)
}

pub(crate) fn scope() -> Scope {
    let pattern = OwnerPattern { agent: Some("hermes".to_owned()), person: Some("anna".to_owned()) };
    Scope { owners: Owners::Matching(vec![pattern]), sessions: Vec::new(), branches: Branches::All }
}

pub(crate) fn user(text: &str) -> String {
    format!(r#"{{"role":"user","content":{}}}"#, quoted(text))
}

pub(crate) fn assistant(text: &str) -> String {
    format!(r#"{{"role":"assistant","content":{}}}"#, quoted(text))
}

/// A call with an id and something that only it asks for.
pub(crate) fn call(id: &str, what: &str) -> String {
    format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"read","arguments":"{{\"path\":\"{what}\"}}"}}}}]}}"#
    )
}

pub(crate) fn result(id: &str, text: &str) -> String {
    format!(r#"{{"role":"tool","tool_call_id":"{id}","content":{}}}"#, quoted(text))
}

fn quoted(text: &str) -> String {
    String::from_utf8(lcm_core::Json::from(text).to_text()).unwrap()
}

/// So many words that make a message large, and different from others.
pub(crate) fn long(what: &str, words: usize) -> String {
    format!("{what}:{}", format!(" {what} harbour").repeat(words))
}

/// A conversation of so many exchanges, each of its own.
pub(crate) fn exchanges(what: &str, count: usize, words: usize) -> Vec<String> {
    let exchange = |n: usize| {
        [user(&long(&format!("{what} question {n}"), words)), assistant(&long(&format!("{what} answer {n}"), words))]
    };
    (0..count).flat_map(exchange).collect()
}

pub(crate) fn in_messages(list: &[String]) -> Vec<InMessage> {
    InMessage::list(list.iter().cloned())
}

pub(crate) fn texts(list: Vec<Vec<u8>>) -> Vec<String> {
    list.into_iter().map(|message| String::from_utf8(message).unwrap()).collect()
}

pub(crate) fn turn_of(name: &str, list: &[String]) -> TurnRequest {
    TurnRequest {
        key: key(name),
        source: "test".to_owned(),
        dialect: Some(Dialect::OpenAi),
        messages: in_messages(list),
        by: "test".to_owned(),
        now_ms: NOW_MS,
    }
}

pub(crate) fn turn(engine: &Engine, name: &str, list: &[String]) -> Turned {
    engine.turn(&turn_of(name, list)).unwrap()
}

pub(crate) fn options(threshold_tokens: u64) -> CompressOptions {
    CompressOptions { threshold_tokens, protect_last: 2, ..CompressOptions::default() }
}

/// Compresses; gives what came of it and the list that is to be shown then.
pub(crate) fn try_compress(
    engine: &Engine,
    name: &str,
    list: &[String],
    options: CompressOptions,
    summarizer: Option<&dyn Summarizer>,
) -> Result<(Compressed, Vec<String>), EngineError> {
    let turn = turn_of(name, list);
    let request = CompressRequest { summarizer, ..CompressRequest::new(turn, options) };
    let done = engine.compress(&request)?;
    let shown = texts(done.list(&request.turn.messages));
    Ok((done, shown))
}

/// The list that comes out, which must be another one.
pub(crate) fn folded(engine: &Engine, name: &str, list: &[String], threshold_tokens: u64) -> Vec<String> {
    let (done, shown) = try_compress(engine, name, list, options(threshold_tokens), None).unwrap();
    assert!(done.messages.is_some(), "{:?}", done.reason);
    shown
}

pub(crate) fn session(engine: &Engine, name: &str) -> SessionEntry {
    let sessions = engine.sessions(&scope()).unwrap();
    sessions.into_iter().find(|entry| entry.session.name == name).unwrap_or_else(|| panic!("no session {name}"))
}

/// A session, whole.
pub(crate) fn whole(engine: &Engine, name: &str) -> Vec<Whole> {
    let session = session(engine, name).session.id;
    let request =
        ReadRequest { scope: scope(), session, timeline: None, from: None, max: usize::MAX, bytes_max: usize::MAX };
    engine.read(&request).unwrap().messages
}

/// What was said in a session, each as it was said first.
pub(crate) fn read(engine: &Engine, name: &str) -> Vec<String> {
    whole(engine, name).into_iter().map(|whole| String::from_utf8(whole.json).unwrap()).collect()
}

pub(crate) fn behind(engine: &Engine, list: &[String]) -> Vec<String> {
    texts(engine.behind(&scope(), &in_messages(list)).unwrap())
}

pub(crate) fn with(list: &[String], more: &[String]) -> Vec<String> {
    [list, more].concat()
}

pub(crate) fn assert_whole(engine: &Engine) {
    let report = engine.check(20, &|_| {}).unwrap();
    assert!(report.is_clean(), "{:#?}", report.told);
}
