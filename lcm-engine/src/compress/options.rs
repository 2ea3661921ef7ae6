//! How a pass may go: what may be set, what holds where nothing is, and what a plan must keep to.
//!
//! Defaults that depend on other settings are worked out here, so that whoever shows settings shows what is in force.

use std::time::Duration;

use lcm_core::tokens::{Correction, Estimate, TokenCounter};

use super::plan::Limits;
use crate::assemble;

/// A summary of so many tokens tells what matters in a chunk.
const SUMMARY_TOKENS_GOOD: u64 = 300;

/// How the pass may go; tokens, but for counts of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressOptions {
    /// The size above which a list is folded, and under which it is brought.
    pub threshold_tokens: u64,
    /// Messages behind the head that are kept as they are, if their size allows it.
    pub protect_first: usize,
    /// Messages at the end that are kept as they are, if their size allows it.
    pub protect_last: usize,
    /// What the kept end may cost in front of the newest request; `None` for two fifths of the threshold.
    pub tail_tokens_max: Option<u64>,
    /// What one summary of messages stands for: what a model reads well and a summary still tells.
    pub chunk_tokens_max: u64,
    /// The text of one summary.
    pub summary_tokens_max: u64,
    /// How long models may take, all together.
    pub summary_time_max: Duration,
    /// Whether the host's provider wants users and assistants to take turns in OpenAI's format too.
    pub alternates: bool,
}

impl Default for CompressOptions {
    fn default() -> Self {
        Self {
            threshold_tokens: 96_000,
            protect_first: 0,
            protect_last: 16,
            tail_tokens_max: None,
            chunk_tokens_max: 20_000,
            summary_tokens_max: 1500,
            summary_time_max: Duration::from_secs(60),
            alternates: false,
        }
    }
}

impl CompressOptions {
    /// What a plan must keep to, for a list of so many tokens.
    pub(crate) fn limits(&self, tokens: u64, target: u64, correction: Correction) -> Limits {
        let base = correction.stored_within(self.threshold_tokens).min(tokens.max(1));
        Limits {
            target: target.min(base),
            protect_first: self.protect_first,
            protect_last: self.protect_last,
            tail_max: self.tail_tokens_of(base),
            chunk_max: self.chunk_tokens_max,
            // In a small window the tail yields to the summary: one that is much shorter says nothing.
            summary_max: self.summary_tokens_max.min((base / 3).max(SUMMARY_TOKENS_GOOD)),
            text_max: self.summary_tokens_max,
            summaries_max: base / 3,
            fold_cost: u64::from(Estimate.count_text(&assemble::frame())),
        }
    }

    /// What the kept end of a list may cost in front of the newest request: as set, two fifths of the threshold where
    /// it is not, and never more than three fifths, or nothing would be left to fold.
    #[must_use]
    pub fn tail_tokens(&self) -> u64 {
        self.tail_tokens_of(self.threshold_tokens)
    }

    /// The same for a list that is brought under `base` tokens.
    pub(crate) fn tail_tokens_of(&self, base: u64) -> u64 {
        let most = fifths(base, 3);
        self.tail_tokens_max.unwrap_or_else(|| fifths(base, 2)).min(most)
    }

    /// The same options with every default that depends on others worked out.
    #[must_use]
    pub fn in_force(&self) -> Self {
        Self { tail_tokens_max: Some(self.tail_tokens()), ..self.clone() }
    }
}

/// So many fifths, rounded down; of any number.
fn fifths(tokens: u64, count: u64) -> u64 {
    tokens / 5 * count + tokens % 5 * count / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kept_end_follows_the_threshold_until_it_is_set() {
        let options = |threshold_tokens, tail_tokens_max| CompressOptions {
            threshold_tokens,
            tail_tokens_max,
            ..CompressOptions::default()
        };
        assert_eq!(options(10_001, None).tail_tokens(), 4000);
        assert_eq!(options(10_000, Some(500)).tail_tokens(), 500);
        assert_eq!(options(10_000, Some(9_000)).tail_tokens(), 6000);
        assert_eq!(options(u64::MAX, None).tail_tokens(), u64::MAX / 5 * 2);
        assert_eq!(options(0, None).tail_tokens(), 0);
        assert_eq!(options(10_000, None).in_force().tail_tokens_max, Some(4000));
    }
}
