//! The one validator that every list passes on its way out.
//!
//! The strictest common rules of providers: system messages at the head only; behind a message with calls stand their
//! results and nothing else, each once; no message without anything in it; where the format asks for it, users and
//! assistants take turns and a user begins. Calls that are still open at the very end are allowed: their tools run.
//!
//! Pure. Not here: mending a list. What is not valid is not handed out.

use std::fmt;

use lcm_core::Role;

use crate::hosts::speech::{CallId, Dialect, Speech};

/// What a host's provider asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The format.
    pub dialect: Dialect,
    /// Whether users and assistants must take turns in OpenAI's format too; in Anthropic's they always must.
    pub alternates: bool,
}

impl Rules {
    fn takes_turns(self) -> bool {
        self.alternates || self.dialect == Dialect::Anthropic
    }
}

/// The first thing that is wrong with a list: at which message, from 0, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The message.
    pub at: usize,
    /// What is wrong with it.
    pub what: Wrong,
}

/// What can be wrong with a message where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A system message behind others.
    LateSystem,
    /// Nothing in it.
    Empty,
    /// Two calls of one id.
    RepeatedCall,
    /// A result whose call does not stand before it.
    OrphanResult,
    /// A call that is not answered where it must be.
    Unanswered,
    /// Two users or two assistants in a row.
    SameRole,
    /// An assistant before the first user.
    BeginsWithAssistant,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            Wrong::LateSystem => "is a system message behind others",
            Wrong::Empty => "has nothing in it",
            Wrong::RepeatedCall => "has two calls of one id",
            Wrong::OrphanResult => "is a result whose call does not stand before it",
            Wrong::Unanswered => "has a call that is not answered behind it",
            Wrong::SameRole => "has the role of the one before it",
            Wrong::BeginsWithAssistant => "is an assistant's before any of a user",
        };
        write!(f, "message {} {what}", self.at + 1)
    }
}

impl Wrong {
    /// Whether it is about who takes turns: what some providers ask for and others do not.
    pub(crate) fn is_about_turns(self) -> bool {
        matches!(self, Self::SameRole | Self::BeginsWithAssistant)
    }
}

/// Checks a list.
///
/// # Errors
/// The first message that a provider would refuse.
pub fn check(list: &[Speech], rules: Rules) -> Result<(), Invalid> {
    let wrong = |at, what| Err(Invalid { at, what });
    let head = list.iter().take_while(|speech| speech.is_system()).count();
    let mut before: Option<Role> = None;
    let mut at = head;
    while let Some(speech) = list.get(at) {
        if speech.is_system() {
            return wrong(at, Wrong::LateSystem);
        }
        // What stands here with results was not reached from a call.
        if speech.role == Role::Tool || !speech.results.is_empty() {
            return wrong(at, Wrong::OrphanResult);
        }
        if speech.is_empty() {
            return wrong(at, Wrong::Empty);
        }
        if rules.takes_turns() {
            if before.is_none() && speech.role == Role::Assistant {
                return wrong(at, Wrong::BeginsWithAssistant);
            }
            if before == Some(speech.role) {
                return wrong(at, Wrong::SameRole);
            }
        }
        before = Some(speech.role);
        if speech.calls.is_empty() {
            at += 1;
            continue;
        }
        let mut open: Vec<&CallId> = speech.calls.iter().collect();
        open.sort_unstable();
        if open.windows(2).any(|pair| pair[0] == pair[1]) {
            return wrong(at, Wrong::RepeatedCall);
        }
        let call = at;
        at += 1;
        while let Some(answer) = list.get(at).filter(|answer| !answer.results.is_empty() && answer.calls.is_empty()) {
            for result in &answer.results {
                match open.iter().position(|id| *id == result) {
                    Some(found) => open.remove(found),
                    None => return wrong(at, Wrong::OrphanResult),
                };
            }
            at += 1;
            // It is somebody else's turn then: the assistant goes on with what it got.
            before = Some(answer.role);
            // A user's message takes all results at once.
            if answer.role == Role::User {
                break;
            }
        }
        if !open.is_empty() && at < list.len() {
            return wrong(call, Wrong::Unanswered);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Each rule once broken and once kept; what is random is compared with a slow reading of the same rules.

    use super::*;

    fn say(role: Role, says: bool, calls: &[&str], results: &[&str]) -> Speech {
        let ids = |ids: &[&str]| ids.iter().map(|id| CallId::new(id.as_bytes())).collect();
        Speech { role, says, calls: ids(calls), results: ids(results) }
    }

    fn list(text: &str) -> Vec<Speech> {
        text.split_whitespace()
            .map(|word| {
                let (kind, ids) = word.split_once(':').unwrap_or((word, ""));
                let ids: Vec<&str> = ids.split(',').filter(|id| !id.is_empty()).collect();
                match kind {
                    "s" => say(Role::System, true, &[], &[]),
                    "u" => say(Role::User, true, &[], &[]),
                    "a" => say(Role::Assistant, ids.is_empty(), &ids, &[]),
                    "t" => say(Role::Tool, true, &[], &ids),
                    "r" => say(Role::User, false, &[], &ids),
                    "e" => say(Role::Assistant, false, &[], &[]),
                    other => panic!("{other}"),
                }
            })
            .collect()
    }

    fn told(text: &str, rules: Rules) -> Option<(usize, Wrong)> {
        check(&list(text), rules).err().map(|invalid| (invalid.at, invalid.what))
    }

    #[test]
    fn each_rule_is_kept_and_broken() {
        let plain = Rules::default();
        for fine in ["", "s u a u", "s s u a:1,2 t:2 t:1 a", "u a:1", "u a:1,2 t:1", "a u u a", "u a:1 t:1 a:1 t:1"] {
            assert_eq!(told(fine, plain), None, "{fine}");
        }
        for (text, at, what) in [
            ("u s", 1, Wrong::LateSystem),
            ("u e u", 1, Wrong::Empty),
            ("u a:1,1 t:1 t:1", 1, Wrong::RepeatedCall),
            ("u t:1", 1, Wrong::OrphanResult),
            ("u a:1 t:2", 2, Wrong::OrphanResult),
            ("u a:1 t:1 t:1", 3, Wrong::OrphanResult),
            ("u a:1 u", 1, Wrong::Unanswered),
            ("u a:1,2 t:1 a", 1, Wrong::Unanswered),
        ] {
            assert_eq!(told(text, plain), Some((at, what)), "{text}");
        }
    }

    #[test]
    fn roles_take_turns_where_they_must() {
        let strict = Rules { alternates: true, ..Rules::default() };
        assert_eq!(told("s u a u", strict), None);
        assert_eq!(told("s u a:1 t:1 a u a:1,2 t:2 t:1 a:3 t:3 a u", strict), None);
        assert_eq!(told("s u a:1 t:1 a a u", strict), Some((5, Wrong::SameRole)));
        assert_eq!(told("s a u", strict), Some((1, Wrong::BeginsWithAssistant)));
        assert_eq!(told("u u", strict), Some((1, Wrong::SameRole)));
        let blocks = Rules { dialect: Dialect::Anthropic, alternates: false };
        assert_eq!(told("u a:1 r:1 a u", blocks), None);
        assert_eq!(told("u a:1 r:1 u", blocks), Some((3, Wrong::SameRole)));
        assert_eq!(told("u a:1,2 r:1 a", blocks), Some((1, Wrong::Unanswered)));
    }
}
