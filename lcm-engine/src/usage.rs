//! What providers report, and what it says about our counts.
//!
//! A host tells what a request cost; we know what was shown in it. Between two reports of one model, with the same
//! folds shown, the difference is that of what was said in between, and refines the model's [`Correction`]. Held in
//! memory: a process that has heard nothing uses the stored counts as they are.
//!
//! Not here: the arithmetic (`lcm_core::tokens`), and where corrected counts are used (`compress`).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use lcm_core::NodeId;
use lcm_core::limits::NAME_BYTES_MAX;
use lcm_core::tokens::{Correction, Difference};

use crate::service::SessionKey;

/// Models that are told apart; a host that names more makes its names up.
const MODELS_MAX: usize = 256;
/// Sessions whose last report is remembered; of one that is forgotten the next report is a first one.
const SESSIONS_MAX: usize = 4096;

/// Corrections by model, and what they are learned from. Shared by any number of threads.
#[derive(Debug, Default)]
pub(crate) struct Usage(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    corrections: HashMap<String, Correction>,
    sessions: HashMap<SessionKey, Seen>,
    clock: u64,
}

/// A session's newest list, and its newest report.
#[derive(Debug)]
struct Seen {
    list: List,
    reported: Option<Reported>,
    used: u64,
}

/// A list that a host sends.
#[derive(Clone, Debug, PartialEq, Eq)]
struct List {
    /// Its stored counts together.
    stored: u64,
    /// The folds in it.
    folds: Vec<NodeId>,
}

/// What a provider said about a list.
#[derive(Debug)]
struct Reported {
    model: String,
    prompt_tokens: u64,
    list: List,
}

impl Usage {
    /// A session's host sends this list: its stored counts together, and the folds that are shown in it.
    pub(crate) fn shown(&self, key: &SessionKey, stored: u64, mut folds: Vec<NodeId>) {
        // Which folds there are counts, not where they stand.
        folds.sort_unstable();
        let mut heard = self.heard();
        heard.clock += 1;
        let (used, list) = (heard.clock, List { stored, folds });
        match heard.sessions.get_mut(key) {
            Some(seen) => (seen.list, seen.used) = (list, used),
            None => {
                heard.make_room();
                heard.sessions.insert(key.clone(), Seen { list, reported: None, used });
            }
        }
    }

    /// What the provider says the list cost that was shown last. Gives the model's correction as it is now.
    pub(crate) fn reported(&self, key: &SessionKey, model: &str, prompt_tokens: u64) -> Correction {
        let mut heard = self.heard();
        let mut correction = heard.corrections.get(model).copied().unwrap_or_default();
        let Some(seen) = heard.sessions.get_mut(key) else { return correction };
        let report = Reported { model: model.to_owned(), prompt_tokens, list: seen.list.clone() };
        let Some(last) = seen.reported.replace(report) else { return correction };
        if last.model != model || last.list.folds != seen.list.folds {
            return correction;
        }
        let stored = seen.list.stored.saturating_sub(last.list.stored);
        let reported = prompt_tokens.saturating_sub(last.prompt_tokens);
        correction = correction.refined(Difference { stored, reported });
        let has_room = heard.corrections.len() < MODELS_MAX && model.len() <= NAME_BYTES_MAX;
        if has_room || heard.corrections.contains_key(model) {
            heard.corrections.insert(model.to_owned(), correction);
        }
        correction
    }

    /// What a model's counts are corrected by.
    pub(crate) fn correction(&self, model: &str) -> Correction {
        self.heard().corrections.get(model).copied().unwrap_or_default()
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    /// Forgets the session that was used longest ago, when there are too many.
    fn make_room(&mut self) {
        if self.sessions.len() < SESSIONS_MAX {
            return;
        }
        let oldest = self.sessions.iter().min_by_key(|(_, seen)| seen.used).map(|(key, _)| key.clone());
        if let Some(oldest) = oldest {
            self.sessions.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    //! That only differences of one model over the same folds teach anything, and that memory is bounded.

    use super::*;

    fn key(name: &str) -> SessionKey {
        SessionKey::new("a", "p", name)
    }

    /// A session that grows by 10,000 stored tokens a turn, each of which costs `per_mille`.
    fn turns(usage: &Usage, name: &str, model: &str, per_mille: u64, count: u64) -> u32 {
        let mut correction = usage.correction(model);
        for turn in 1..=count {
            usage.shown(&key(name), turn * 10_000, Vec::new());
            // Its own prompt and tools, which we never see.
            correction = usage.reported(&key(name), model, 15_000 + turn * 10 * per_mille);
        }
        correction.scale_per_mille()
    }

    #[test]
    fn what_a_host_adds_to_every_request_does_not_count() {
        let usage = Usage::default();
        assert_eq!(turns(&usage, "s", "m", 880, 20), 880);
        assert_eq!(usage.correction("m").scale_per_mille(), 880);
        assert_eq!(usage.correction("another"), Correction::default());
        // Another session of the same model goes on with it.
        assert_eq!(turns(&usage, "t", "m", 880, 1), 880);
    }

    #[test]
    fn one_report_alone_says_nothing() {
        let usage = Usage::default();
        assert_eq!(usage.reported(&key("never shown"), "m", 50_000), Correction::default());
        assert_eq!(turns(&usage, "s", "m", 1500, 1), 1000);
    }

    #[test]
    fn a_fold_or_another_model_between_two_reports_makes_them_no_pair() {
        let usage = Usage::default();
        usage.shown(&key("s"), 100_000, Vec::new());
        usage.reported(&key("s"), "m", 100_000);
        usage.shown(&key("s"), 120_000, vec![lcm_core::canon::message_id(b"a fold")]);
        assert_eq!(usage.reported(&key("s"), "m", 900_000), Correction::default());
        usage.shown(&key("s"), 140_000, vec![lcm_core::canon::message_id(b"a fold")]);
        assert_eq!(usage.reported(&key("s"), "other", 990_000), Correction::default());
        // A list that became shorter, and a report that did.
        usage.shown(&key("s"), 100_000, vec![lcm_core::canon::message_id(b"a fold")]);
        assert_eq!(usage.reported(&key("s"), "other", 1_000_000), Correction::default());
        usage.shown(&key("s"), 200_000, vec![lcm_core::canon::message_id(b"a fold")]);
        assert_eq!(usage.reported(&key("s"), "other", 10), Correction::default());
    }

    #[test]
    fn sessions_and_models_without_end_do_not_fill_memory() {
        let usage = Usage::default();
        for number in 0..SESSIONS_MAX + 100 {
            turns(&usage, &number.to_string(), &format!("m{}", number % 1000), 900, 2);
        }
        let heard = usage.heard();
        assert_eq!((heard.sessions.len(), heard.corrections.len()), (SESSIONS_MAX, MODELS_MAX));
        assert!(heard.sessions.contains_key(&key(&(SESSIONS_MAX + 99).to_string())));
        assert!(!heard.sessions.contains_key(&key("0")));
    }
}
