//! What a turn brings before it is known whether it is a secret: the newest request and the steps behind it.
//!
//! The host shows the same list again with every step, each time as it is then: what we left out of the last answer is
//! gone, results are folded, images are placeholders. A [`Turn`] keeps each message as it was when it was seen first, and as
//! it is now. It becomes history when the turn is over and was no secret; otherwise it is forgotten. Pure.

use std::collections::HashMap;

use lcm_core::{Json, NodeId, Role};

use super::fit;
use super::message::{Made, Said};
use super::raw::Raws;

/// One message of a turn.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) first: Said,
    pub(super) now: Said,
}

/// A turn that is not history yet.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The key of what the person said; `None` where it has none.
    pub(super) request: Option<NodeId>,
    pub(super) steps: Vec<Step>,
    /// When it was last shown: milliseconds since 1970 UTC.
    pub(super) seen_ms: i64,
}

impl Turn {
    /// A turn that begins.
    pub(super) fn new(request: Option<NodeId>) -> Self {
        Self { request, steps: Vec::new(), seen_ms: 0 }
    }

    /// Takes in what the host shows of it now. What it does not show any more stays where it was.
    pub(super) fn follow(&mut self, live: &[Said], raws: &mut Raws, now_ms: i64) {
        let before_ms = std::mem::replace(&mut self.seen_ms, now_ms);
        let said = || live.iter().filter(|said| said.made.is_none() && !said.is_marked);
        if said().all(|said| self.position(said) == Some(0)) {
            // The turn begins: steps that are known are of one that failed or was private.
            self.steps.truncate(1);
        }
        let (mut at, mut is_longer) = (0, false);
        for said in said() {
            match self.position(said) {
                Some(known) => {
                    // The host may put what is said next into the message that was the last.
                    is_longer = said.role == Role::User && self.steps[known].now.words() != said.words();
                    self.steps[known].now_is(said);
                    at = known + 1;
                }
                None => {
                    let first = raws.take_whole(said, before_ms).unwrap_or_else(|| said.clone());
                    self.steps.insert(at, Step { first, now: said.clone() });
                    (at, is_longer) = (at + 1, true);
                }
            }
        }
        if is_longer {
            // We leave out no newest step, so what stood behind it is of a turn that failed or was private.
            self.steps.truncate(at);
        }
    }

    fn position(&self, said: &Said) -> Option<usize> {
        self.steps.iter().position(|step| match said.key {
            Some(key) => step.now.key == Some(key),
            None => step.now.key.is_none() && (step.now.text == said.text || step.first.text == said.text),
        })
    }

    /// The window of the newest request: its steps as they are now, and where the host put something of its own.
    pub(super) fn window(&self, live: &[Said]) -> Vec<Said> {
        // What the host made stands behind the same step as in its own list.
        let mut behind: HashMap<Option<usize>, Vec<Said>> = HashMap::new();
        let mut last = None;
        for said in live {
            match said.made {
                Some(Made::Host) => behind.entry(last).or_default().push(said.clone()),
                Some(Made::Told | Made::Note) => {}
                None => last = self.position(said).or(last),
            }
        }
        let mut window = behind.remove(&None).unwrap_or_default();
        for (at, step) in self.steps.iter().enumerate() {
            window.push(step.now.clone());
            window.extend(behind.remove(&Some(at)).unwrap_or_default());
        }
        window
    }

    /// Whether the host shows an image or something else that it will show otherwise later.
    pub(super) fn shows_what_passes(live: &[Said]) -> bool {
        live.iter().any(|said| {
            let blocks = said.json.get("content").and_then(Json::as_array).unwrap_or_default();
            blocks.iter().any(|block| matches!(block.get("type").and_then(Json::as_str), Some("image" | "image_file")))
        })
    }
}

impl Step {
    fn now_is(&mut self, said: &Said) {
        if self.now.text == said.text || is_cut(said) {
            return;
        }
        // A request that failed is put in front of the next one, under the moment of the first; and what stood behind it
        // before may have been private.
        if said.role == Role::User {
            let (before, now) = (self.first.words(), said.words());
            let is_plain = self.first.plain_text().is_some();
            if !now.starts_with(&before) || (is_plain && now != before) {
                self.first = said.clone();
            }
        }
        self.now = said.clone();
    }
}

/// Whether a result is shown in part by us: then what is known of it is more.
fn is_cut(said: &Said) -> bool {
    let blocks = said.json.get("content").and_then(Json::as_array).unwrap_or_default();
    blocks.iter().any(|block| {
        let content = block.get("content").and_then(Json::as_str);
        content.is_some_and(fit::is_part)
    })
}
