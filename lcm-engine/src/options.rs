//! What may be set, and what holds where nothing is.
//!
//! Defaults that depend on other settings are worked out here, so that whoever shows settings shows what is in force.

use crate::compress::CompressOptions;

impl CompressOptions {
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
