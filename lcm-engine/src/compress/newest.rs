//! A list for one request: the newest of it as it was said, all else folded.
//!
//! Compressing plans for many turns to come; this is for one. So as much as there is room for is kept at the end: first
//! the steps of the newest request, then what stands in front of it. The newest request and its newest step are kept
//! whatever they cost. Summaries get a small share, for what they leave out can be recalled.

use super::pass::{Entry, Pass, Piece};
use super::plan::{self, Kind, Limits, Step};
use crate::error::EngineError;
use crate::service::OutMessage;

/// What a fold must have to be worth its frame: tokens.
const FOLD_TOKENS_MIN: u64 = 160;
/// A text of fewer tokens says nothing.
const TEXT_TOKENS_MIN: u64 = 24;
/// Condensing ends by itself; this is never reached.
const ROUNDS_MAX: usize = 64;

/// What there is room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// For what is kept, tokens as the caller counts them.
    pub(crate) newest: u64,
    /// For all summaries together, tokens by the stored count.
    pub(crate) folds: u64,
}

impl Pass<'_> {
    /// Folds all but the newest; gives the list. `cost` says what an element costs, as the caller counts.
    pub(crate) fn keep_newest(
        &mut self,
        room: Room,
        cost: &dyn Fn(usize) -> u64,
    ) -> Result<Vec<OutMessage>, EngineError> {
        let limits = Limits { summaries_max: room.folds, ..self.limits.clone() };
        for step in self.leaves_before(room, &limits, cost).into_iter().rev() {
            self.carry_out(step)?;
        }
        for _ in 0..ROUNDS_MAX {
            let units = self.units();
            let shown: u64 = units.iter().filter(|unit| plan::is_fold(unit)).map(|unit| unit.tokens).sum();
            let Some(step) = plan::condense(&units, &limits, 2).filter(|_| shown > room.folds) else { break };
            if !self.carry_out(step)? {
                break;
            }
        }
        Ok(self.shape()?.0)
    }

    /// The leaves that everything is folded into but the newest.
    fn leaves_before(&self, room: Room, limits: &Limits, cost: &dyn Fn(usize) -> u64) -> Vec<Step> {
        let units = self.units();
        let Some(newest) = units.len().checked_sub(1) else { return Vec::new() };
        let live = units.iter().rposition(plan::Unit::is_request).unwrap_or(newest);
        let (tail, steps_from) = self.kept(live, room.newest, cost);
        let folds = |at: usize| match &units[at].kind {
            Kind::Fold { .. } => false,
            Kind::Said(said) if said.is_pinned || at == live || said.is_open => false,
            Kind::Said(said) => !said.is_sound || at < tail || (live < at && at < steps_from),
        };
        let gone: Vec<usize> = (0..=newest).filter(|at| folds(*at)).collect();
        let sources: u64 = gone.iter().map(|at| units[*at].tokens).sum();
        let shown: u64 = units.iter().filter(|unit| plan::is_fold(unit)).map(|unit| unit.tokens).sum();
        let left = room.folds.saturating_sub(shown);
        let leaves_max = (left / FOLD_TOKENS_MIN).max(1);
        let mut limits = limits.clone();
        // Doubled, not fitted: so the chunks of the next request are mostly the same, and their summaries there.
        while sources / limits.chunk_max.max(1) >= leaves_max {
            limits.chunk_max = limits.chunk_max.max(1).saturating_mul(2);
        }
        let mut steps = Vec::new();
        let mut at = 0;
        while at <= newest {
            let end = (at..=newest).find(|at| !folds(*at)).unwrap_or(newest + 1);
            if at < end {
                // Only the first steps of the request can stand in front of it.
                plan::leaves(&units, at..end, &limits, at == live + 1, &mut steps);
            }
            at = end + 1;
        }
        let count = u64::try_from(steps.len()).unwrap_or(u64::MAX).max(1);
        let text = (left / count).saturating_sub(limits.fold_cost).max(1);
        // The power of two below, for the same reason.
        let text = (1_u64 << text.ilog2()).clamp(TEXT_TOKENS_MIN, limits.text_max.max(TEXT_TOKENS_MIN));
        for step in &mut steps {
            if let Step::Leaf { budget, .. } = step {
                *budget = text;
            }
        }
        steps
    }

    /// The first unit that is kept in front of the newest request, and the first of its steps.
    fn kept(&self, live: usize, room: u64, cost: &dyn Fn(usize) -> u64) -> (usize, usize) {
        let entries = &self.entries;
        let cost = |entry: &Entry| match &entry.piece {
            Piece::Given(range, _) => range.clone().map(cost).sum(),
            Piece::Fold(_) => entry.unit.tokens,
        };
        let mut left = room.saturating_sub(entries.get(live).map_or(0, cost));
        let mut steps_from = entries.len();
        for at in (live + 1..entries.len()).rev() {
            let step = cost(&entries[at]);
            if step > left && at + 1 < entries.len() {
                return (live, steps_from);
            }
            left = left.saturating_sub(step);
            steps_from = at;
        }
        let mut tail = live;
        for at in (0..live).rev() {
            let unit = cost(&entries[at]);
            if unit > left || entries[at].fold().is_some() {
                break;
            }
            left -= unit;
            tail = at;
        }
        (tail, steps_from)
    }
}
