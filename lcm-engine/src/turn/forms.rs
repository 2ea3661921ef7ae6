//! Whether what a host shows at a place is a later form of what stands there, or something else that somebody said.
//!
//! Hosts clear, cut and mark messages in place. Readers are given the first form, so a form must say no more than that:
//! what says more is a message of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use lcm_core::Role;
use lcm_store::Snapshot;

use super::element::Sent;
use super::line::Line;
use super::live::told_at;
use crate::hosts::told::Called;

/// What a host adds to a text of so few bytes is a mark of its own, and no words that somebody would look for.
const MARK_BYTES_MAX: usize = 16;
/// A note in the stead of a text, in square brackets as hosts write it, is no longer than this.
const NOTE_BYTES_MAX: usize = 200;

/// An element of a list by its index, or else a place of a line.
type Which = Result<usize, usize>;

/// Compares texts of elements with texts of places, each read once.
pub(super) struct Forms<'a> {
    snapshot: &'a Snapshot,
    line: &'a Line,
    sent: Sent<'a>,
    said: RefCell<HashMap<Which, Option<Rc<SaidAndCalled>>>>,
}

/// What a message says, or of results what came back; and what it calls.
struct SaidAndCalled {
    said: String,
    /// Of results each.
    results: Vec<String>,
    calls: Vec<Called>,
}

impl<'a> Forms<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, line: &'a Line, sent: Sent<'a>) -> Self {
        Self { snapshot, line, sent, said: RefCell::default() }
    }
}

impl Forms<'_> {
    /// Whether an element is what stands at a place, cut, cleared or annotated.
    pub(super) fn reads_like(&self, element: usize, place: usize) -> bool {
        let (Some(new), Some(old)) = (self.read(Ok(element)), self.read(Err(place))) else { return false };
        if !old.calls.is_empty() || !new.calls.is_empty() {
            return old.calls == new.calls;
        }
        let (new, old) = (&new.said, &old.said);
        if new == old {
            return true;
        }
        let (short, long) = if new.len() < old.len() { (new, old) } else { (old, new) };
        // A word that happens to begin both is no sign.
        short.len() >= 8 && short.len() * 20 >= long.len() && (long.starts_with(&**short) || long.ends_with(&**short))
    }

    /// Whether an element has words that what stands at a place has not, and is no note in their stead. Hosts cut and clear
    /// what tools and assistants said; what they make of a user's words is theirs or the user's.
    pub(super) fn says_more(&self, element: usize, place: usize) -> bool {
        let (Some(new), Some(old)) = (self.read(Ok(element)), self.read(Err(place))) else { return false };
        let is_users = self.line.role(place) == Role::User && old.results.is_empty();
        match (new.results.as_slice(), old.results.as_slice()) {
            (new, old) if !new.is_empty() && new.len() == old.len() => {
                new.iter().zip(old).any(|(new, old)| has_more(new, old, false))
            }
            _ => has_more(&new.said, &old.said, is_users),
        }
    }

    /// Whether an element is what a person said at a place, and behind it what was said next.
    pub(super) fn runs_together(&self, element: usize, place: usize) -> bool {
        let (Some(new), Some(old)) = (self.read(Ok(element)), self.read(Err(place))) else { return false };
        let is_said = self.line.role(place) == Role::User && old.results.is_empty() && !old.said.is_empty();
        // A note stands for an image that is not shown any more.
        let is_words = |more: &str| more.starts_with("\n\n") && !more.trim().is_empty() && !is_note(more.trim());
        is_said && new.said.strip_prefix(&*old.said).is_some_and(is_words)
    }

    /// What an element, or else what stands at a place, says; `None` where it cannot be read.
    fn read(&self, what: Which) -> Option<Rc<SaidAndCalled>> {
        if let Some(known) = self.said.borrow().get(&what) {
            return known.clone();
        }
        let told = match what {
            Ok(element) => self.sent.told(element),
            Err(place) => told_at(self.snapshot, self.line.stands[place].record),
        };
        let said = told.ok().map(|told| {
            let said = if told.results.is_empty() { told.text } else { told.results.join("\n") };
            Rc::new(SaidAndCalled { said, results: told.results, calls: told.calls })
        });
        self.said.borrow_mut().insert(what, said.clone());
        said
    }
}

/// Whether a text reads like what a host puts in the place of what it does not show.
fn is_note(text: &str) -> bool {
    text.len() <= NOTE_BYTES_MAX && text.starts_with('[') && text.ends_with(']')
}

/// Whether a text has words that an older one has not: all that is new where it is a user's, else only what grew.
fn has_more(new: &str, old: &str, is_users: bool) -> bool {
    let added = new.len().saturating_sub(old.len());
    let is_marked = added <= MARK_BYTES_MAX && (new.starts_with(old) || new.ends_with(old));
    !old.contains(new.trim()) && !is_marked && !is_note(new) && (is_users || new.len() > old.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grew_says_more_and_cuts_marks_and_notes_do_not() {
        let old = "the pier is blue, and the harbour is deep";
        for (new, is_users) in [
            ("the pier is blue, and the harbour is deep; paint both of them", false),
            ("the pier is red", true),
            ("exit code 3: the pier is gone and the harbour is dry", false),
        ] {
            assert!(has_more(new, old, is_users), "{new}");
        }
        for (new, is_users) in [
            (old, true),
            ("the pier is blue", true),
            ("the harbour is deep\n", true),
            ("the pier is blue, and the harbour is deep (noted)", true),
            ("[Old tool result content cleared to save room in the context]", false),
            ("the pier ... is deep", false),
        ] {
            assert!(!has_more(new, old, is_users), "{new}");
        }
    }
}
