//! What is to be done with a list: put what is new behind what is known, branch off, go on with what was left, or begin.
//!
//! A list that leaves its session's timeline may be that of another which the session had before. A list that shares
//! nothing with its session is looked for among the timelines of the same owner, and adopted only with proof: a fold
//! of ours, an anchor (the ids of calls) with another message, or more messages in common than chance allows.

use std::collections::HashSet;

use lcm_core::{NodeId, OrderKey, SessionId, TimelineId};
use lcm_store::{Session, Snapshot};

use super::Turn;
use super::live::{List, Live, owner_scope};
use crate::align::{Alignment, Fate, Verdict};
use crate::error::EngineError;
use crate::known::Known;
use crate::service::SessionKey;

/// Messages in common that are no accident, where nothing else proves that two lists are one story.
const SAME_MESSAGES_MIN: usize = 8;
/// Timelines that are looked at when a list is a stranger.
const CANDIDATES_MAX: usize = 16;

/// What is to be done.
pub(super) enum Plan {
    Nothing,
    /// On the session's timeline.
    Grow {
        fates: Vec<Fate>,
    },
    /// Branch off a timeline behind a place; then what is new.
    Branch {
        parent: TimelineId,
        last: OrderKey,
        fates: Vec<Fate>,
    },
    /// Go on with a timeline that was left; what is new begins at this element.
    GoOn {
        timeline: TimelineId,
        from: usize,
    },
    /// A timeline that shares nothing.
    Begin,
    /// The list is that of another session of the same owner, whatever name it came under: that one is asked.
    Other(SessionKey),
}

impl Plan {
    /// Whether something is to be written.
    pub(super) fn has_work(&self) -> bool {
        !matches!(self, Self::Nothing | Self::Other(_))
    }
}

/// How much of a list is known on a timeline: a fold of ours outweighs any number of messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Proof {
    has_fold: bool,
    shared: usize,
}

impl Turn<'_> {
    /// Plans on what a snapshot shows; `live` is the session the list came under, when there is one.
    pub(super) fn plan(&self, snapshot: &Snapshot, live: Option<&mut Live>) -> Result<Plan, EngineError> {
        let begin = || if self.elements.is_empty() { Plan::Nothing } else { Plan::Begin };
        let Some(live) = live else {
            return Ok(self.adopt(snapshot, None, false)?.unwrap_or_else(begin));
        };
        let list = live.align(snapshot, self.request, &self.elements)?;
        let has_work = list.alignment.fates.iter().any(|fate| fate.is_new());
        Ok(match list.alignment.verdict {
            Verdict::Grows if !has_work => Plan::Nothing,
            Verdict::Grows => {
                let grow = Plan::Grow { fates: list.alignment.fates };
                match live.line.len() {
                    0 => self.adopt(snapshot, Some(live.session.id), false)?.unwrap_or(grow),
                    _ => grow,
                }
            }
            Verdict::Parts(last) => match self.elsewhere(snapshot, &live.session, &list)? {
                Some(plan) => plan,
                None => {
                    let last = live.line.stands[last].order.clone();
                    Plan::Branch { parent: live.line.timeline, last, fates: list.alignment.fates }
                }
            },
            Verdict::Stranger => match self.elsewhere(snapshot, &live.session, &list)? {
                Some(plan) => plan,
                None => self.adopt(snapshot, Some(live.session.id), true)?.unwrap_or_else(begin),
            },
        })
    }

    /// Whether the list is that of a timeline which the session left.
    fn elsewhere(&self, snapshot: &Snapshot, session: &Session, list: &List) -> Result<Option<Plan>, EngineError> {
        if list.ours.iter().any(Option::is_some) || snapshot.timelines_of(session.id)?.len() < 2 {
            return Ok(None);
        }
        let mut known = Known::load(snapshot, session)?;
        known.complete(snapshot, session)?;
        let ids: Vec<NodeId> = self.elements.iter().map(|element| element.id).collect();
        Ok(match known.reached(&ids) {
            (walked, _) if walked == ids.len() => Some(Plan::Nothing),
            (walked, Some(timeline)) if walked > 0 => Some(Plan::GoOn { timeline, from: walked }),
            _ => None,
        })
    }

    /// A timeline of the same owner that the list goes on from, with proof. `has_own` says whether the session the list
    /// came under has said something itself.
    fn adopt(&self, snapshot: &Snapshot, but: Option<SessionId>, has_own: bool) -> Result<Option<Plan>, EngineError> {
        let owner = &self.request.key.owner;
        let mut best: Option<(Proof, Plan)> = None;
        for id in self.candidates(snapshot)? {
            let timeline = snapshot.timeline(id)?;
            if but == Some(timeline.session) {
                continue;
            }
            let session = snapshot.session(timeline.session)?;
            if session.owner != *owner {
                continue;
            }
            let (goes_on_with, name) = (session.timeline, session.name.clone());
            let mut live = Live::load(snapshot, Session { timeline: id, ..session })?;
            let List { ours, alignment } = live.align(snapshot, self.request, &self.elements)?;
            let Alignment { mut fates, verdict } = alignment;
            let has_fold = ours.iter().flatten().any(|ours| !ours.folds().is_empty());
            // Without a fold of ours only what two lists share from their beginning is one story: what was said in
            // both further on was said twice.
            let shared = fates.iter().enumerate().take_while(|(at, fate)| **fate == Fate::Known(*at)).count();
            let has_anchor = self.elements[..shared].iter().any(|element| element.signs.ids.is_some());
            let is_proved = has_fold || shared >= SAME_MESSAGES_MIN || (has_anchor && shared >= 2);
            let last = match verdict {
                Verdict::Stranger => None,
                _ if !has_fold => shared.checked_sub(1),
                Verdict::Parts(last) => Some(last),
                Verdict::Grows => live.line.len().checked_sub(1),
            };
            let proof = Proof { has_fold, shared };
            let Some(last) = last.filter(|_| is_proved && best.as_ref().is_none_or(|(known, _)| proof > *known)) else {
                continue;
            };
            // A session that has said something else does not take over what another goes on with.
            let is_others = has_own && verdict == Verdict::Grows && id == goes_on_with;
            let plan = if is_others {
                Plan::Other(SessionKey { owner: owner.clone(), name })
            } else {
                for (at, fate) in fates.iter_mut().enumerate() {
                    // Nothing is mended in a timeline that is somebody else's: what it has not is new in the branch.
                    let is_elsewhere = matches!(fate, Fate::Late(_) | Fate::Revised(_)) || (!has_fold && at >= shared);
                    if is_elsewhere && *fate != Fate::Ours {
                        *fate = Fate::New;
                    }
                }
                Plan::Branch { parent: id, last: live.line.stands[last].order.clone(), fates }
            };
            best = Some((proof, plan));
        }
        Ok(best.map(|(_, plan)| plan))
    }

    /// Timelines of the same owner on which something stands that the list shows or names.
    fn candidates(&self, snapshot: &Snapshot) -> Result<Vec<TimelineId>, EngineError> {
        let scope = owner_scope(&self.request.key.owner);
        let mut candidates: Vec<TimelineId> = Vec::new();
        for prefix in self.elements.iter().flat_map(|element| element.named()) {
            candidates.extend(snapshot.find_nodes(&scope, prefix, 2)?.into_iter().map(|(_, placed)| placed.timeline));
        }
        let has_anchor = self.elements.iter().any(|element| element.signs.ids.is_some());
        if self.elements.len() >= SAME_MESSAGES_MIN || !candidates.is_empty() || has_anchor {
            // What was said rarely leads to few timelines; a greeting leads to all.
            for element in self.elements.iter().filter(|element| !element.speech.is_system()).take(SAME_MESSAGES_MIN) {
                let places = snapshot.places_of(&scope, &element.id)?;
                if places.len() <= CANDIDATES_MAX {
                    candidates.extend(places.into_iter().map(|placed| placed.timeline));
                }
            }
        }
        let mut seen = HashSet::new();
        candidates.retain(|timeline| seen.insert(*timeline));
        candidates.truncate(CANDIDATES_MAX);
        Ok(candidates)
    }
}
