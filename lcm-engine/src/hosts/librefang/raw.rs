//! What tools gave back, whole, until the message comes that shows it: the host makes large results small, and only one
//! hook sees them before.
//!
//! The id of a call is the model's: two conversations, or two turns, may use the same one. So a result is given out once,
//! and where several wait only to a message that shows it.

use std::collections::HashMap;

use super::fit;
use super::message::Said;

/// Bytes of results that are held; beyond that the oldest are let go, which the host shows in part then.
const BYTES_MAX: usize = 64 << 20;

/// Bytes that each costs beside its content.
const BESIDE_BYTES: usize = 128;

/// Results by the id of their call.
#[derive(Default)]
pub(super) struct Raws {
    /// Of one id the newest last, each another one; never empty.
    results: HashMap<String, Vec<Raw>>,
    bytes: usize,
}

/// What one call gave back.
struct Raw {
    at_ms: i64,
    content: String,
}

impl Raws {
    /// Remembers what a call gave back.
    pub(super) fn put(&mut self, call: &str, content: &str, now_ms: i64) {
        let raws = self.results.entry(call.to_owned()).or_default();
        match raws.iter_mut().find(|raw| raw.content == content) {
            Some(raw) => raw.at_ms = now_ms,
            None => {
                raws.push(Raw { at_ms: now_ms, content: content.to_owned() });
                self.bytes += content.len() + BESIDE_BYTES;
            }
        }
        if self.bytes > BYTES_MAX {
            self.let_go();
        }
    }

    /// Lets the oldest go until there is room for as many again: so seldom that all may be looked at.
    fn let_go(&mut self) {
        let mut all: Vec<(i64, usize)> =
            self.results.values().flatten().map(|raw| (raw.at_ms, raw.content.len() + BESIDE_BYTES)).collect();
        all.sort_unstable();
        let mut bytes = self.bytes;
        let is_enough = |(at_ms, size): &(i64, usize)| {
            bytes -= size;
            (bytes <= BYTES_MAX / 2).then_some(*at_ms)
        };
        if let Some(moment_ms) = all.iter().find_map(is_enough) {
            self.forget_before(moment_ms.saturating_add(1));
        }
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// Whether a result of a call waits here.
    pub(super) fn has(&self, call: &str) -> bool {
        self.results.contains_key(call)
    }

    /// A message with its results as the tools gave them; `None` where it shows them so. They wait no longer. What the host
    /// made something else of was given back since a moment, in milliseconds since 1970 UTC.
    pub(super) fn take_whole(&mut self, said: &Said, since_ms: i64) -> Option<Said> {
        let shown = said.results_told();
        let whole = |(call, shown): (String, String)| self.take(&call, &shown, since_ms).map(|whole| (call, whole));
        let results: Vec<(String, String)> = shown.into_iter().filter_map(whole).collect();
        if results.is_empty() { None } else { said.with_results(&results) }
    }

    /// The result of a call that a message shows so.
    fn take(&mut self, call: &str, shown: &str, since_ms: i64) -> Option<String> {
        let raws = self.results.get_mut(call)?;
        let is_shown = |raw: &Raw| raw.content == shown || fit::is_part_of(shown, &raw.content);
        let is_recent = |raw: &Raw| raw.at_ms >= since_ms;
        let at = match raws.iter().rposition(is_shown) {
            Some(at) => at,
            // The host made something else of it. Of several it is not known of which.
            None if raws.iter().filter(|raw| is_recent(raw)).count() == 1 => raws.iter().position(is_recent)?,
            None => return None,
        };
        let raw = raws.remove(at);
        if raws.is_empty() {
            self.results.remove(call);
        }
        self.bytes -= raw.content.len() + BESIDE_BYTES;
        Some(raw.content)
    }

    /// Forgets what is older.
    pub(super) fn forget_before(&mut self, moment_ms: i64) {
        let bytes = &mut self.bytes;
        self.results.retain(|_, raws| {
            raws.retain(|raw| {
                let stays = raw.at_ms >= moment_ms;
                *bytes -= if stays { 0 } else { raw.content.len() + BESIDE_BYTES };
                stays
            });
            !raws.is_empty()
        });
    }
}
