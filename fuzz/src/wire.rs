//! `lcm_engine::wire`, and behind it turns and tools: any bytes as what a client sends.
//!
//! An input is lines. A line that is a call with a list is taken in, a call with arguments is a call of a tool; the same
//! person says it all, and nobody else's input.
//!
//! What must hold: lines are the same in one piece or in many; whatever is refused says why in one line; a list shown
//! again adds nothing; a tool's answer is JSON within its bounds.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io::BufReader;
use std::sync::{Arc, OnceLock};

use lcm_core::{Json, Owner};
use lcm_engine::service::{Reader, Service, SessionKey, ToolBounds, ToolCall, TurnRequest};
use lcm_engine::wire::frame::{self, CallId, Frame, Line, Params};
use lcm_engine::wire::lists::Bases;
use lcm_engine::{Engine, OpenOptions};
use tempfile::TempDir;

/// Longer than most lines of an input, shorter than some.
const LINE_BYTES_MAX: usize = 2048;
/// When everything is said.
const NOW_MS: i64 = 1_772_712_000_000;

/// The target: see the module.
pub fn wire(bytes: &[u8]) {
    let lines = lines(bytes, bytes.len() + 1);
    assert_eq!(lines, self::lines(bytes, 3), "lines depend on how the input is read");
    // Every input has a person of its own, so that nothing depends on what came before it.
    let person = format!("{:x}", BuildHasherDefault::<DefaultHasher>::default().hash_one(bytes));
    let key = SessionKey::new("fuzz", &person, "session");
    let mut bases = Bases::new("fuzz".to_owned());
    for line in lines {
        match frame::read(&line) {
            Err((id, failure)) => is_one_line(&frame::answer(&id, &Err(failure))),
            Ok(Frame::Call { params, .. }) => call(params, &key, &mut bases),
            Ok(Frame::Notice { .. } | Frame::Answer { .. }) => {}
        }
    }
}

fn lines(bytes: &[u8], at_once: usize) -> Vec<Vec<u8>> {
    let mut input = BufReader::with_capacity(at_once, bytes);
    let mut lines = Vec::new();
    loop {
        match frame::next_line(&mut input, LINE_BYTES_MAX).expect("a slice can be read") {
            Line::Text(line) => lines.push(line),
            Line::TooLong => {}
            Line::End => return lines,
        }
    }
}

fn is_one_line(line: &[u8]) {
    assert!(line.iter().position(|byte| *byte == b'\n') == Some(line.len() - 1), "an answer is one line");
    Json::parse(line).expect("an answer is JSON");
}

fn call(params: Json, key: &SessionKey, bases: &mut Bases) {
    let engine = engine();
    let mut params = Params::new(params);
    let name = params.text("name").ok().flatten().unwrap_or_else(|| "lcm_grep".to_owned());
    if let Some(list) = params.take("list") {
        let list = match bases.list(key, list) {
            Ok(list) => list,
            Err(failure) => return is_one_line(&frame::answer(&CallId::none(), &Err(failure))),
        };
        let request = TurnRequest {
            key: key.clone(),
            source: "fuzz".to_owned(),
            dialect: None,
            messages: list.0.clone(),
            by: "fuzz".to_owned(),
            now_ms: NOW_MS,
        };
        if engine.turn(&request).is_ok() {
            let again = engine.turn(&request).expect("what was taken in once is taken in again");
            assert_eq!((again.new, again.revised, again.late), (0, 0, 0), "a list shown again adds something");
        }
        bases.put(key, Arc::clone(&list));
    }
    let Some(arguments) = params.take("arguments") else { return };
    let bounds = ToolBounds::default();
    let session = engine.session_named(key).expect("the store is read").map(|session| session.id);
    let owner = Owner { agent: key.owner.agent.clone(), person: key.owner.person.clone() };
    let answer = engine.call_tool(&ToolCall {
        name: &name,
        arguments: &arguments.to_text(),
        reader: Reader { owner, session, ..Reader::default() },
        bounds,
        model: None,
        by: "fuzz".to_owned(),
        now_ms: NOW_MS,
    });
    Json::parse(answer.text.as_bytes()).expect("a tool answers JSON");
    assert!(!answer.text.contains('\n') && answer.text.chars().count() <= bounds.chars_max, "a tool keeps its bounds");
}

/// A store that is gone with the process.
fn engine() -> &'static Engine {
    static OPEN: OnceLock<(Engine, TempDir)> = OnceLock::new();
    let (engine, _) = OPEN.get_or_init(|| {
        let folder = TempDir::new().expect("a folder can be made");
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        (Engine::open(&folder.path().join("lcm"), options).expect("a store can be made"), folder)
    });
    engine
}
