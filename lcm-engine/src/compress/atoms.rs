//! Atoms: messages that only go together. A message with calls and all its results are one; any other stands alone.
//!
//! Paired by position, never by a table of ids: a quarter of real logs use ids again. A cut falls between atoms. Pure.
//!
//! Invariant: the atoms of a list are its messages, each once, in order; putting sound atoms side by side breaks no
//! pair (property test below).

use std::ops::Range;

use lcm_core::Role;

use crate::hosts::speech::{CallId, Speech};

/// One or more messages that only go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Atom {
    /// Which messages.
    pub range: Range<usize>,
    /// Whether a provider takes it, wherever it stands behind the head. One that is not sound is never shown.
    pub is_sound: bool,
    /// Whether calls in it wait for their results: the list ends here, and the tools run.
    pub is_open: bool,
}

/// Divides a list into atoms.
#[must_use]
pub fn atoms(list: &[Speech]) -> Vec<Atom> {
    let mut atoms = Vec::new();
    let head = list.iter().take_while(|speech| speech.is_system()).count();
    let mut at = 0;
    while let Some(speech) = list.get(at) {
        let atom = if speech.calls.is_empty() {
            let is_alone = speech.role == Role::Tool || !speech.results.is_empty();
            let is_sound = if speech.is_system() { at < head } else { !is_alone && !speech.is_empty() };
            Atom { range: at..at + 1, is_sound, is_open: false }
        } else {
            group(list, at)
        };
        at = atom.range.end;
        atoms.push(atom);
    }
    atoms
}

/// The message with calls at `at`, and the results behind it.
fn group(list: &[Speech], at: usize) -> Atom {
    let calls = &list[at].calls;
    let mut open: Vec<&CallId> = calls.iter().collect();
    open.sort_unstable();
    // Results in the message that calls belong to calls before it, which are not there.
    let mut is_sound = !open.windows(2).any(|pair| pair[0] == pair[1]) && list[at].results.is_empty();
    let mut end = at + 1;
    while let Some(answer) = list.get(end).filter(|answer| !answer.results.is_empty() && answer.calls.is_empty()) {
        let is_ours = answer.results.iter().any(|result| calls.contains(result));
        if !is_ours {
            break;
        }
        for result in &answer.results {
            match open.iter().position(|id| *id == result) {
                Some(found) => {
                    open.remove(found);
                }
                None => is_sound = false,
            }
        }
        end += 1;
        // A user's message takes all results at once.
        if answer.role == Role::User {
            break;
        }
    }
    let is_open = !open.is_empty() && end == list.len();
    Atom { range: at..end, is_sound: is_sound && (open.is_empty() || is_open), is_open }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::valid::{self, Rules};

    fn speech() -> impl Strategy<Value = Speech> {
        let id = || prop_oneof![Just("1"), Just("2"), Just("3")].prop_map(|id: &str| CallId::new(id.as_bytes()));
        prop_oneof![
            1 => Just((Role::System, true, Vec::new(), Vec::new())),
            4 => any::<bool>().prop_map(|says| (Role::User, says, Vec::new(), Vec::new())),
            4 => (any::<bool>(), prop::collection::vec(id(), 0..3)).prop_map(|(says, calls)| (Role::Assistant, says, calls, Vec::new())),
            5 => id().prop_map(|id| (Role::Tool, true, Vec::new(), vec![id])),
            2 => prop::collection::vec(id(), 1..3).prop_map(|ids| (Role::User, false, Vec::new(), ids)),
        ]
        .prop_map(|(role, says, calls, results)| Speech { role, says, calls, results })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

        #[test]
        fn atoms_are_all_messages_and_sound_ones_go_together(list in prop::collection::vec(speech(), 0..60)) {
            let atoms = atoms(&list);
            let all: Vec<usize> = atoms.iter().flat_map(|atom| atom.range.clone()).collect();
            prop_assert_eq!(all, (0..list.len()).collect::<Vec<_>>());
            prop_assert!(atoms.iter().all(|atom| !atom.range.is_empty()));
            prop_assert!(atoms.iter().rev().skip(1).all(|atom| !atom.is_open), "only the end can be open");
            let sound: Vec<Speech> =
                atoms.iter().filter(|atom| atom.is_sound).flat_map(|atom| list[atom.range.clone()].iter().cloned()).collect();
            // Where the open end was followed by nothing it is at the end here too.
            prop_assert_eq!(valid::check(&sound, Rules::default()), Ok(()));
        }

        #[test]
        fn a_list_that_is_valid_has_only_sound_atoms(list in prop::collection::vec(speech(), 0..12)) {
            if valid::check(&list, Rules::default()).is_ok() {
                prop_assert!(atoms(&list).iter().all(|atom| atom.is_sound), "{list:?}");
            }
        }
    }
}
