//! Live messages of a Hermes Agent: what of them is no part of what was said, and what stays of them.
//!
//! The agent marks its messages with keys of its own, which change from call to call (`_row_id`, `_db_persisted`,
//! timestamps); those belong to the place. And it shows a message otherwise after it was written down and read again:
//! texts trimmed, `<memory-context>` blocks gone, names and reasoning gone, images a line that says so. Where it folded, it
//! puts a list of what is left to do behind the newest request. What stays of a message through all that is its
//! *likeness*; two messages of one likeness at one place are the same message.
//!
//! Pure. Rows of the agent's database are read in `database`.

use lcm_core::canon::MessageTree;
use lcm_core::{NodeId, Role};

use super::super::speech::Speech;
use super::super::told::Told;
use super::super::{Alike, HostFormat};

/// How the agent's messages are read.
pub(in super::super) const FORMAT: HostFormat = HostFormat { is_volatile, likeness, alike: Alike::Known };

/// Keys without the agent's mark that are not what was said either: when, under which number, and what is sent in its
/// stead.
const BESIDE: [&str; 6] = ["timestamp", "message_uid", "message_id", "observed", "api_content", "cache_control"];
/// The begin and end of what a memory provider put into a message for one request.
const MEMORY: (&str, &str) = ("<memory-context>", "</memory-context>");
/// Begins what the agent adds to the newest request of a user when it was folded: what is left to do, up to the end.
const TODO: &str = "[Your active task list was preserved across context compression]";
/// What an image is after it was written down.
const IMAGE: &str = "[screenshot]";

fn is_volatile(key: &str) -> bool {
    key.starts_with('_') || BESIDE.contains(&key)
}

/// The likeness of a message, as an id that no message has. `None` where nothing would stay of it.
fn likeness(message: &MessageTree<'_>) -> Option<NodeId> {
    let (told, speech) = (Told::of(message), Speech::of(message));
    let mut hasher = blake3::Hasher::new_derive_key("lcm 2026-12 likeness of a message");
    let mut part = |kind: u8, bytes: &[u8]| {
        hasher.update(&[kind]);
        hasher.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(bytes);
    };
    part(b'r', speech.role.name().as_bytes());
    for id in &speech.calls {
        part(b'c', id.as_bytes());
    }
    for id in &speech.results {
        part(b'a', id.as_bytes());
    }
    let texts = [&told.text].into_iter().chain(&told.results).map(|text| lasting(text));
    let mut says = false;
    for text in texts {
        says |= !text.is_empty();
        part(b't', text.as_bytes());
    }
    // A call without an id is told by what it asks for.
    let names = speech.calls.iter().chain(&speech.results).any(|id| !id.as_bytes().is_empty());
    if !names {
        for call in &told.calls {
            part(b'n', call.name.as_bytes());
            for (name, value) in &call.arguments {
                part(b'k', name.as_bytes());
                part(b'v', value.as_bytes());
            }
        }
    }
    let stays = says || names || (speech.role == Role::Assistant && !told.calls.is_empty());
    stays.then(|| NodeId::from_bytes(*hasher.finalize().as_bytes()))
}

/// What stays of a text.
fn lasting(text: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(MEMORY.0) {
        let Some((_, behind)) = behind.split_once(MEMORY.1) else { break };
        left.push_str(before);
        rest = behind;
    }
    left.push_str(rest);
    let mut left = left.trim();
    if let Some(todo) = left.find(TODO).filter(|at| *at == 0 || left[..*at].ends_with('\n')) {
        left = left[..todo].trim();
    }
    while let Some(before) = left.strip_suffix(IMAGE).filter(|before| before.is_empty() || before.ends_with('\n')) {
        left = before.trim();
    }
    left.to_owned()
}

#[cfg(test)]
mod tests {
    use lcm_core::Message;

    use super::*;
    use crate::hosts::with_tree;

    fn of(json: &str) -> Option<NodeId> {
        with_tree(&Message::parse(json.as_bytes()).unwrap().encode().unwrap(), likeness).unwrap()
    }

    #[test]
    fn keys_of_the_agent_are_beside_the_message_and_those_of_the_model_are_in_it() {
        for key in ["_row_id", "_db_persisted", "_anything_new", "timestamp", "message_uid"] {
            assert!(is_volatile(key), "{key}");
        }
        for key in ["role", "content", "tool_calls", "tool_call_id", "tool_name", "name", "reasoning", "finish_reason"]
        {
            assert!(!is_volatile(key), "{key}");
        }
    }

    #[test]
    fn a_message_that_was_written_down_and_read_again_is_like_what_it_was() {
        let pairs = [
            (r#"{"role":"assistant","content":"so be it \n"}"#, r#"{"role":"assistant","content":"so be it"}"#),
            (
                r#"{"role":"user","content":"look\n\n<memory-context>\nhe likes tea\n</memory-context>"}"#,
                r#"{"role":"user","content":"look"}"#,
            ),
            (
                r#"{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:"}}]}"#,
                r#"{"role":"user","content":"look\n[screenshot]"}"#,
            ),
            (
                r#"{"role":"user","content":"go on\n\n[Your active task list was preserved across context compression]\n- [>] 1. look (in_progress)"}"#,
                r#"{"role":"user","content":"go on"}"#,
            ),
            (
                r#"{"role":"tool","name":"read","tool_name":"read","tool_call_id":"c1","content":"x "}"#,
                r#"{"role":"tool","tool_name":"read","tool_call_id":"c1","content":"x"}"#,
            ),
            (
                r#"{"role":"assistant","content":null,"reasoning":"hm","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]}"#,
                r#"{"role":"assistant","content":"","tool_calls":[{"id":"c1","call_id":"c1","function":{"name":"f","arguments":"{}"}}]}"#,
            ),
        ];
        for (said, read) in pairs {
            assert!(of(said).is_some(), "{said}");
            assert_eq!(of(said), of(read), "{said}");
        }
    }

    #[test]
    fn what_says_something_else_is_not_alike_and_what_says_nothing_is_like_nothing() {
        let texts = [
            r#"{"role":"user","content":"yes"}"#,
            r#"{"role":"assistant","content":"yes"}"#,
            r#"{"role":"user","content":"yes, all"}"#,
            r#"{"role":"tool","tool_call_id":"a","content":"yes"}"#,
            r#"{"role":"tool","tool_call_id":"b","content":"yes"}"#,
            r#"{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"path\":\"a\"}"}}]}"#,
            r#"{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"path\":\"b\"}"}}]}"#,
        ];
        for (at, one) in texts.iter().enumerate() {
            for other in &texts[at + 1..] {
                assert_ne!(of(one), of(other), "{one} {other}");
            }
        }
        assert_eq!(of(r#"{"role":"user","content":" "}"#), None);
        assert_eq!(of(r#"{"role":"user","content":[{"type":"image_url"}]}"#), None);
        let todo = "[Your active task list was preserved across context compression]";
        assert_eq!(of(&format!(r#"{{"role":"user","content":"{todo}\n- [ ] 1. x (pending)"}}"#)), None);
        assert_ne!(
            of(&format!(r#"{{"role":"user","content":"what is {todo}?"}}"#)),
            of(r#"{"role":"user","content":"what is"}"#)
        );
        // A block that never ends is text.
        assert_ne!(of(r#"{"role":"user","content":"a <memory-context> b"}"#), of(r#"{"role":"user","content":"a"}"#));
    }
}
