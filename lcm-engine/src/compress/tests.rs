//! That compressing loses nothing, doubles nothing, gives valid lists that are smaller, and says the same again.
//! Method: random conversations, with calls and without, valid and not, in windows of any size; one store for all.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use lcm_core::{Json, Message};
use lcm_store::{OpenOptions, Scope};
use proptest::prelude::*;

use super::*;
use crate::Engine;
use crate::hosts::speech::Speech;
use crate::hosts::with_tree;
use crate::service::{InMessage, Service, SessionKey, TurnRequest};

static ENGINE: LazyLock<(tempfile::TempDir, Engine)> = LazyLock::new(|| {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::open(home.path(), OpenOptions::default()).unwrap();
    (home, engine)
});
static SESSIONS: AtomicU64 = AtomicU64::new(0);

fn turn(session: u64, messages: &[String]) -> TurnRequest {
    TurnRequest {
        key: SessionKey::new("a", &format!("p{session}"), "s"),
        source: "test".to_owned(),
        dialect: None,
        messages: InMessage::list(messages.iter().cloned()),
        by: "test".to_owned(),
        now_ms: 1_767_225_599_000,
    }
}

fn compressed(session: u64, messages: &[String], threshold: u64, force: bool) -> (Compressed, Vec<String>) {
    let options = CompressOptions { threshold_tokens: threshold, protect_last: 4, ..CompressOptions::default() };
    let turn = turn(session, messages);
    let request = CompressRequest { force, ..CompressRequest::new(turn, options) };
    let done = ENGINE.1.compress(&request).unwrap();
    let shown = done.list(&request.turn.messages);
    let shown = shown.into_iter().map(|message| String::from_utf8(message).unwrap()).collect();
    (done, shown)
}

fn speeches(messages: &[String]) -> Vec<Speech> {
    let speech = |message: &String| {
        with_tree(&Message::parse(message.as_bytes()).unwrap().encode().unwrap(), Speech::of).unwrap()
    };
    messages.iter().map(speech).collect()
}

fn parsed(messages: &[Vec<u8>]) -> Vec<Json> {
    messages.iter().map(|message| Json::parse(message).unwrap()).collect()
}

/// What is behind a list, whose session is the owner's only one.
fn behind(shown: &[String]) -> Vec<Json> {
    parsed(&ENGINE.1.behind(&Scope::everything(), &InMessage::list(shown.iter().cloned())).unwrap())
}

fn count(session: u64) -> u64 {
    let sessions = ENGINE.1.sessions(&Scope::everything()).unwrap();
    let own = sessions.iter().find(|entry| entry.session.owner.person == format!("p{session}"));
    own.map_or(0, |entry| entry.messages)
}

/// A conversation: steps of a kind and a size.
fn conversation() -> impl Strategy<Value = Vec<String>> {
    let step = (0_u8..8, 1_usize..60, any::<u16>());
    (any::<bool>(), prop::collection::vec(step, 0..24), "[a-z]{1,8}").prop_map(|(has_system, steps, end)| {
        let mut list = Vec::new();
        if has_system {
            list.push(r#"{"role":"system","content":"You are a clerk."}"#.to_owned());
        }
        for (n, (kind, size, seed)) in steps.into_iter().enumerate() {
            let text = format!("{n} {seed} {}", format!("word{seed} harbour ").repeat(size));
            let call = |ids: &[String]| {
                let calls: Vec<String> = ids
                    .iter()
                    .map(|id| format!(r#"{{"id":"{id}","type":"function","function":{{"name":"read","arguments":"{{\"path\":\"src/{id}.rs\"}}"}}}}"#))
                    .collect();
                format!(r#"{{"role":"assistant","content":null,"tool_calls":[{}]}}"#, calls.join(","))
            };
            let result = |id: &str| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"{text}"}}"#);
            match kind {
                0 | 1 => list.push(format!(r#"{{"role":"user","content":"{text}"}}"#)),
                2 | 3 => list.push(format!(r#"{{"role":"assistant","content":"{text}"}}"#)),
                4 | 5 => {
                    let ids = [format!("c{}", seed % 4), format!("d{n}")];
                    list.push(call(&ids));
                    list.extend(ids.iter().map(|id| result(id)));
                }
                // What no provider takes: a result without its call, an empty answer.
                6 => list.push(result("nobody")),
                _ => list.push(r#"{"role":"assistant","content":""}"#.to_owned()),
            }
        }
        list.push(format!(r#"{{"role":"user","content":"and now {end}?"}}"#));
        list
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_shown_nothing_is_lost_and_what_comes_out_is_valid_and_smaller(
        messages in conversation(),
        more in conversation(),
        threshold in 60_u64..6000,
        force in any::<bool>(),
    ) {
        let session = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let (done, shown) = compressed(session, &messages, threshold, force);
        let originals: Vec<Json> = messages.iter().map(|message| Json::parse(message.as_bytes()).unwrap()).collect();
        prop_assert_eq!(count(session), u64::try_from(messages.len()).unwrap());
        prop_assert_eq!(&behind(&shown), &originals, "{:?}", shown);
        prop_assert_eq!(shown.last(), messages.last());
        if done.messages.is_some() {
            prop_assert_eq!(valid::check(&speeches(&shown), Rules::default()), Ok(()), "{:?}", shown);
            prop_assert!(done.tokens_after < done.tokens_before);
            prop_assert!(force || done.tokens_after <= threshold);
            let weight = ENGINE.1.weigh(&InMessage::list(shown.iter().cloned())).unwrap();
            prop_assert_eq!(weight, done.tokens_after);
        } else {
            prop_assert!(done.reason.is_some());
        }
        // The same again says the same, and adds nothing.
        prop_assert_eq!(&compressed(session, &messages, threshold, force).1, &shown);
        prop_assert_eq!(count(session), u64::try_from(messages.len()).unwrap());
        // The host goes on with what it got.
        let mut next = shown.clone();
        next.extend(more.iter().filter(|message| !message.contains("system")).cloned());
        let said = messages.len() + next.len() - shown.len();
        let (_, later) = compressed(session, &next, threshold, force);
        prop_assert_eq!(count(session), u64::try_from(said).unwrap(), "{:?}", next);
        let mut all = originals;
        all.extend(next[shown.len()..].iter().map(|message| Json::parse(message.as_bytes()).unwrap()));
        prop_assert_eq!(behind(&later), all);
        // And comes back with an old form of it.
        ENGINE.1.turn(&turn(session, &messages)).unwrap();
        ENGINE.1.turn(&turn(session, &shown)).unwrap();
        prop_assert_eq!(count(session), u64::try_from(said).unwrap());
    }
}
