//! The list that a pass gives: folds that stand side by side share a message, and no two of one role meet because of us.

use lcm_core::{Message, Role};

use super::cost_of;
use super::pass::{Entry, Part, Pass, Piece};
use crate::assemble;
use crate::error::EngineError;
use crate::hosts::speech::Speech;
use crate::hosts::{IncomingMessage, with_tree};
use crate::service::OutMessage;
use crate::turn::Fold;

/// What stands behind the head, in the order in which it is shown.
enum Run<'e> {
    Folds(Vec<&'e Fold>),
    Given(&'e Entry),
}

/// A list that grows.
#[derive(Default)]
struct Out {
    messages: Vec<OutMessage>,
    tokens: u64,
    /// Who speaks last behind the head, and whether that message is folds of ours.
    last: Option<(Role, bool)>,
}

impl Pass<'_> {
    /// The list as it is to be shown, and what it costs.
    pub(super) fn shape(&self) -> Result<(Vec<OutMessage>, u64), EngineError> {
        let mut out = Out {
            messages: (0..self.head).map(OutMessage::Given).collect(),
            tokens: cost_of(&self.elements[..self.head]),
            last: None,
        };
        for run in self.runs() {
            match run {
                Run::Folds(folds) => {
                    if out.last.is_some_and(|(role, _)| role == Role::User) {
                        self.make(&mut out, "assistant", assemble::BETWEEN)?;
                    }
                    let text = assemble::folds(folds.iter().map(|fold| (&fold.id, &*fold.summary)));
                    self.make(&mut out, "user", &text)?;
                    out.last = Some((Role::User, true));
                }
                Run::Given(entry) => {
                    let Piece::Given(range, parts) = &entry.piece else { continue };
                    if self.elements[range.start].speech.role == Role::User && out.last == Some((Role::User, true)) {
                        self.make(&mut out, "assistant", assemble::BETWEEN)?;
                    }
                    for element in range.clone() {
                        self.give(&mut out, element, parts);
                    }
                    out.last = Some((self.elements[range.end - 1].speech.role, false));
                }
            }
        }
        Ok((out.messages, out.tokens))
    }

    /// What the rules of providers see of a list.
    pub(crate) fn speeches(&self, messages: &[OutMessage]) -> Result<Vec<Speech>, EngineError> {
        let speech = |message: &OutMessage| match message {
            OutMessage::Given(element) => Ok(self.elements[*element].speech.clone()),
            OutMessage::Made(json) => Ok(with_tree(&Message::parse(json)?.encode()?, Speech::of)?),
        };
        messages.iter().map(speech).collect()
    }

    /// Folds that stand side by side together; steps of the newest request in front of it.
    fn runs(&self) -> Vec<Run<'_>> {
        let mut runs: Vec<Run<'_>> = Vec::new();
        let is_request = |run: &Run<'_>| matches!(run, Run::Given(entry) if entry.unit.is_request());
        for entry in &self.entries {
            let Some(fold) = entry.fold() else {
                runs.push(Run::Given(entry));
                continue;
            };
            let at = match assemble::is_within(&fold.summary) {
                true => runs.iter().rposition(is_request).unwrap_or(runs.len()),
                false => runs.len(),
            };
            match at.checked_sub(1).and_then(|before| runs.get_mut(before)) {
                Some(Run::Folds(folds)) => folds.push(fold),
                _ => runs.insert(at, Run::Folds(vec![fold])),
            }
        }
        runs
    }

    fn make(&self, out: &mut Out, role: &str, text: &str) -> Result<(), EngineError> {
        let message = Message::from_json(self.dialect.message(role, text))?;
        out.tokens += u64::from(IncomingMessage::new(&message)?.tokens);
        out.messages.push(OutMessage::Made(message.json().to_text()));
        Ok(())
    }

    fn give(&self, out: &mut Out, element: usize, parts: &[Part]) {
        match parts.iter().find(|part| part.element == element) {
            Some(part) => {
                out.messages.push(OutMessage::Made(part.json.clone()));
                out.tokens += part.tokens;
            }
            None => {
                out.messages.push(OutMessage::Given(element));
                out.tokens += u64::from(self.elements[element].tokens);
            }
        }
    }
}
