//! What tools gave back, whole, until the message is kept that shows it: the host makes large results small later, and
//! only one hook sees them before.

use std::collections::HashMap;

use super::message::Said;

/// Bytes of results that are held; beyond that the oldest are let go, which the host shows in part then.
const BYTES_MAX: usize = 64 << 20;

/// Results by the id of their call.
#[derive(Default)]
pub(super) struct Raws {
    results: HashMap<String, (i64, String)>,
    bytes: usize,
}

impl Raws {
    /// Remembers what a call gave back.
    pub(super) fn put(&mut self, call: &str, content: &str, now_ms: i64) {
        self.bytes += content.len();
        if let Some((_, before)) = self.results.insert(call.to_owned(), (now_ms, content.to_owned())) {
            self.bytes -= before.len();
        }
        while self.bytes > BYTES_MAX
            && let Some(oldest) = self.results.iter().min_by_key(|(_, (at, _))| *at).map(|(call, _)| call.clone())
        {
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, call: &str) {
        if let Some((_, content)) = self.results.remove(call) {
            self.bytes -= content.len();
        }
    }

    /// Whether a call's result waits here.
    pub(super) fn has(&self, call: &str) -> bool {
        self.results.contains_key(call)
    }

    /// A message with its results as the tools gave them; `None` where it shows them so.
    pub(super) fn whole(&self, said: &Said) -> Option<Said> {
        let result = |call: &String| self.results.get(call).map(|(_, content)| (call.clone(), content.clone()));
        let results: Vec<(String, String)> = said.results.iter().filter_map(result).collect();
        if results.is_empty() { None } else { said.with_results(&results) }
    }

    /// A message was kept: its results are no longer needed.
    pub(super) fn is_kept(&mut self, said: &Said) {
        for call in &said.results {
            self.remove(call);
        }
    }

    /// Forgets what is older.
    pub(super) fn forget_before(&mut self, moment_ms: i64) {
        let old: Vec<String> =
            self.results.iter().filter(|(_, (at, _))| *at < moment_ms).map(|(call, _)| call.clone()).collect();
        for call in old {
            self.remove(&call);
        }
    }
}
