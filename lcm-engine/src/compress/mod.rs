//! Compress: plan, summarise, fold, so that a list fits its window and nothing is lost.
//!
//! The list was taken in first (`turn`), so every message of it has a place before anything is folded. Then it is
//! divided into units (`atoms`), a plan is made (`plan`), summaries are written (`summary`, `extract`), and what came of
//! it is measured; when the target is not reached the next plan presses harder (`pass`). The finished list passes the
//! validator, or the caller's own list comes back with the reason. Summaries are kept in one commit; they become the
//! session's view when the host shows that it took them (`turn`).
//!
//! A summary that stands for the same messages and is such as would be written now is used again, so the same list
//! gives the same answer, whoever asks and however often.

pub mod atoms;
pub(crate) mod plan;
pub mod summary;
pub(crate) mod extract;
mod options;
mod pass;
mod shape;
mod newest;

use std::sync::Arc;

use lcm_core::tokens::{Correction, Estimate};
use lcm_store::{Snapshot, Store};

pub(crate) use self::newest::Room;
pub use self::options::CompressOptions;
pub(crate) use self::pass::Pass;
use self::plan::Limits;
use self::summary::{Guidance, Writer};
use crate::error::EngineError;
use crate::hosts::speech::Speech;
use crate::redact::{self, Redactor};
use crate::service::{CompressRequest, Compressed, OutMessage};
use crate::turn::{self, Element, Sent, Taken};
use crate::valid::{self, Rules};

/// Compresses a list. What comes back can be sent: halves of surrogate pairs, which are kept, are not shown.
///
/// Thresholds are what the host's model counts, which `correction` brings to stored counts; the sizes that come back are
/// stored counts.
pub(crate) fn compress(
    store: &Store,
    request: &CompressRequest<'_>,
    correction: Correction,
    redactor: Option<&Redactor>,
    taken: &mut Taken,
) -> Result<Compressed, EngineError> {
    let mut done = shorten(store, request, correction, redactor, taken)?;
    let elements = &taken.elements;
    if elements.iter().any(|element| element.sendable.is_some()) {
        let shown = done.messages.take().unwrap_or_else(|| (0..elements.len()).map(OutMessage::Given).collect());
        let sendable = |message| match message {
            OutMessage::Given(at) => match &elements[at].sendable {
                Some(sendable) => OutMessage::Made(sendable.clone()),
                None => OutMessage::Given(at),
            },
            made @ OutMessage::Made(_) => made,
        };
        done.messages = Some(shown.into_iter().map(sendable).collect());
    }
    Ok(done)
}

fn shorten(
    store: &Store,
    request: &CompressRequest<'_>,
    correction: Correction,
    redactor: Option<&Redactor>,
    taken: &mut Taken,
) -> Result<Compressed, EngineError> {
    let tokens = taken.turned.tokens;
    let mut done = Compressed {
        turned: taken.turned.clone(),
        tokens_before: tokens,
        tokens_after: tokens,
        ..Compressed::default()
    };
    let options = &request.options;
    let counted = correction.apply(tokens);
    let told = counted.max(request.current_tokens.unwrap_or(0));
    if told <= options.threshold_tokens && !request.force {
        done.reason = Some(format!("{told} tokens are within the threshold of {}", options.threshold_tokens));
        return Ok(done);
    }
    let target = correction.stored_within(target_of(options, counted, told));
    let snapshot = store.snapshot()?;
    let limits = options.limits(tokens, target, correction);
    let alternates = options.alternates && !breaks_turns(&taken.elements);
    let told = Guided::of(request, redactor);
    let Some(mut pass) = told.pass(&snapshot, request, redactor, taken, limits)? else {
        done.reason = Some("the list shows messages in another order than they were said".to_owned());
        return Ok(done);
    };
    let (messages, after) = pass.run(target)?;
    done.failures = std::mem::take(&mut pass.writer.failures);
    (done.model_calls, done.model_tokens) = (pass.writer.cost.calls, pass.writer.cost.tokens);
    let why_not = if !pass.has_changed() {
        Some("there is nothing to fold in it".to_owned())
    } else if after >= tokens {
        Some("what could be folded is not worth a fold".to_owned())
    } else if after > target && !request.force {
        let (target, after) = (correction.apply(target), correction.apply(after));
        Some(format!(
            "it cannot be brought under {target} tokens: the newest request and the newest step alone leave {after}"
        ))
    } else {
        let rules = Rules { dialect: pass.dialect, alternates };
        let checked = valid::check(&pass.speeches(&messages)?, rules);
        checked.err().map(|invalid| format!("no valid list comes of it: {invalid}"))
    };
    if why_not.is_some() {
        // A model that was asked in vain was asked.
        done.turned.op = pass.keep_cost(store)?.or(done.turned.op);
        done.reason = why_not;
        return Ok(done);
    }
    done.folds = pass.folds().map(|fold| fold.id).collect();
    if let Some(op) = pass.keep(store)? {
        done.turned.op = Some(op);
    }
    done.tokens_after = after;
    done.messages = Some(messages);
    Ok(done)
}

/// Whether a host's own list has two users or two assistants in a row. Who shows that puts it right himself, and it must
/// not keep the list from being folded.
fn breaks_turns(elements: &[Arc<Element>]) -> bool {
    let given: Vec<Speech> = elements.iter().map(|element| element.speech.clone()).collect();
    let rules = Rules { alternates: true, ..Rules::default() };
    valid::check(&given, rules).is_err_and(|invalid| invalid.what.is_about_turns())
}

/// Makes the summaries that the next fold of a list will want, as far as what they stand for will not change any more,
/// and keeps them staged; gives how many. Nothing is shown otherwise by it.
pub(crate) fn prepare(
    store: &Store,
    request: &CompressRequest<'_>,
    correction: Correction,
    redactor: Option<&Redactor>,
    taken: &mut Taken,
) -> Result<u64, EngineError> {
    let options = &request.options;
    let target = correction.stored_within(options.threshold_tokens);
    // As when it will be folded: then it costs more than the threshold.
    let limits = options.limits(u64::MAX, target, correction);
    let snapshot = store.snapshot()?;
    let told = Guided::of(request, redactor);
    let Some(mut pass) = told.pass(&snapshot, request, redactor, taken, limits)? else { return Ok(0) };
    let count = pass.prepare()?;
    if count > 0 || pass.writer.cost.calls > 0 {
        pass.keep(store)?;
    }
    Ok(count)
}

/// What a host says beside the conversation, without secrets.
struct Guided {
    focus: Option<String>,
    memory: Option<String>,
}

impl Guided {
    fn of(request: &CompressRequest<'_>, redactor: Option<&Redactor>) -> Self {
        let clean = |text: &Option<String>| text.as_deref().map(|text| redact::text(redactor, text).into_owned());
        Self { focus: clean(&request.focus), memory: clean(&request.memory_context) }
    }

    /// A pass over a list that was taken in; `None` where it shows messages in another order than they were said.
    fn pass<'a>(
        &'a self,
        snapshot: &'a Snapshot,
        request: &'a CompressRequest<'_>,
        redactor: Option<&'a Redactor>,
        taken: &'a mut Taken,
        limits: Limits,
    ) -> Result<Option<Pass<'a>>, EngineError> {
        let elements = taken.elements.as_slice();
        let list = taken.live.align(snapshot, Sent::of(&request.turn, redactor), elements)?;
        let dialect = request.turn.dialect;
        let dialect = dialect.unwrap_or_else(|| turn::dialect_of(elements.iter().map(|element| &element.speech)));
        let guidance = Guidance { focus: self.focus.as_deref(), memory: self.memory.as_deref() };
        let writer = Writer::new(request.summarizer, &Estimate, guidance, request.options.summary_time_max, redactor)
            .heeding(&request.cancel);
        Ok(Pass::new(snapshot, &request.turn, elements, &mut taken.live, list, dialect, limits, writer))
    }
}

/// What a list is to cost: `tokens` by our corrected count, `told` by its provider's where that is more.
fn target_of(options: &CompressOptions, tokens: u64, told: u64) -> u64 {
    // What the host counts and we do not see (tool schemas, its own prompt) is there whatever we do.
    let beside = told - tokens;
    match options.threshold_tokens.checked_sub(beside) {
        _ if told <= options.threshold_tokens => tokens.saturating_sub(1),
        Some(target) if target > 0 => target,
        // More than everything is beside the list: win what can be won.
        _ => tokens / 2,
    }
}

/// What elements cost, by the stored count.
pub(crate) fn cost_of(elements: &[Arc<Element>]) -> u64 {
    elements.iter().map(|element| u64::from(element.tokens)).sum()
}

#[cfg(test)]
mod tests;
