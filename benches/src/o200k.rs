//! The o200k vocabulary as a counter, for budgets that are judged in it.
//!
//! Exact, at some 25 MB/s, and 87 ms to load; so it is here, where benchmarks are judged by it, and not in the program.

use bpe_openai::o200k_base;
use lcm_core::StoredMessage;
use lcm_core::text;
use lcm_core::tokens::TokenCounter;

/// What a message costs beside its text: what the quality benchmark charges.
const MESSAGE_TOKENS: usize = 4;

/// See the module.
pub struct O200k;

impl TokenCounter for O200k {
    fn count(&self, message: &StoredMessage<'_>) -> u32 {
        let (mut said, mut thought) = (String::new(), String::new());
        // What cannot be read says nothing; nothing of it is sent either.
        let is_read = text::search_text(message, &mut said).and(text::reasoning_text(message, &mut thought)).is_ok();
        let tokens = if is_read { o200k_base().count(&said) + o200k_base().count(&thought) } else { 0 };
        u32::try_from(tokens + MESSAGE_TOKENS).unwrap_or(u32::MAX)
    }

    fn count_text(&self, text: &str) -> u32 {
        u32::try_from(o200k_base().count(text)).unwrap_or(u32::MAX)
    }

    fn version(&self) -> u16 {
        200
    }
}
