//! What is to be done with a list: put what is new behind what is known, branch off, go on with what was left, or begin.
//!
//! A list that leaves its session's timeline may be that of another which the session had before. A list that shares
//! nothing with its session is looked for among the timelines of the same owner, and adopted only with proof: a fold
//! of ours, an anchor (the ids of calls) with another message, or more messages in common than chance allows.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;

use lcm_core::{NodeId, OrderKey, SessionId, TimelineId};
use lcm_store::{Session, Snapshot};

use super::Turn;
use super::line::Line;
use super::live::{List, Live, Ours, owner_scope};
use crate::align::{Alignment, Fate, Verdict};
use crate::error::EngineError;
use crate::hosts::HostFormat;
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
        /// The line that the fates speak of, where it is not the session's own.
        on: Option<Box<Line>>,
    },
    /// Go on with a timeline that was left; then what is new.
    GoOn {
        timeline: TimelineId,
        fates: Vec<Fate>,
        /// The line that the fates speak of, where they speak of more than what is new.
        on: Option<Box<Line>>,
    },
    /// A timeline that shares nothing.
    Begin {
        /// What is said in the list.
        said: Vec<usize>,
    },
    /// The list is that of another session of the same owner, whatever name it came under: that one is asked.
    Other(SessionKey),
}

impl Plan {
    /// Whether something is to be written.
    pub(super) fn has_work(&self) -> bool {
        !matches!(self, Self::Nothing | Self::Other(_))
    }
}

/// How much of a list is known on a timeline, the weightiest first: a fold of ours outweighs any number of messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Proof {
    folds: usize,
    known: usize,
    /// Messages of the timeline for which the list shows nothing, up to where it goes on.
    passed_over: Reverse<usize>,
    /// Messages that both have from their beginning.
    shared: usize,
    /// Whether its session goes on with it.
    is_current: bool,
}

impl Turn<'_> {
    /// Plans on what a snapshot shows; `live` is the session the list came under, when there is one.
    pub(super) fn plan(&self, snapshot: &Snapshot, live: Option<&mut Live>) -> Result<Plan, EngineError> {
        let begin = || match self.elements.is_empty() {
            true => Ok(Plan::Nothing),
            false => Ok::<_, EngineError>(Plan::Begin { said: self.said(snapshot)? }),
        };
        let Some(live) = live else {
            return self.adopt(snapshot, None, false)?.map_or_else(begin, Ok);
        };
        let list = live.align(snapshot, self.sent, &self.elements)?;
        let known = known(&list.alignment.fates);
        let has_work = list.alignment.fates.iter().any(|fate| fate.is_new());
        // A fold that is none of this line may be one of a line that the session left.
        if self.has_strange_fold(&list)
            && let Some(plan) = self.elsewhere(snapshot, &live.session, known)?
        {
            return Ok(plan);
        }
        Ok(match list.alignment.verdict {
            Verdict::Grows if !has_work => Plan::Nothing,
            Verdict::Grows => {
                let grow = Plan::Grow { fates: list.alignment.fates };
                match live.line.len() {
                    0 => self.adopt(snapshot, Some(live.session.id), false)?.unwrap_or(grow),
                    _ => grow,
                }
            }
            Verdict::Parts(last) => match self.elsewhere(snapshot, &live.session, known)? {
                Some(plan) => plan,
                None => {
                    let last = live.line.stands[last].order.clone();
                    Plan::Branch { parent: live.line.timeline, last, fates: list.alignment.fates, on: None }
                }
            },
            Verdict::Stranger => match self.elsewhere(snapshot, &live.session, known)? {
                Some(plan) => plan,
                None => self.adopt(snapshot, Some(live.session.id), true)?.map_or_else(begin, Ok)?,
            },
        })
    }

    /// Whether something new reads like a fold.
    fn has_strange_fold(&self, list: &List) -> bool {
        let fates = self.elements.iter().zip(&list.alignment.fates);
        fates.into_iter().any(|(element, fate)| fate.is_new() && element.is_like_fold())
    }

    /// Whether the list is that of a timeline which the session left; `least` is what is known of it on the present one.
    fn elsewhere(&self, snapshot: &Snapshot, session: &Session, least: usize) -> Result<Option<Plan>, EngineError> {
        let timelines = snapshot.timelines_of(session.id)?;
        if timelines.len() < 2 {
            return Ok(None);
        }
        if self.elements.iter().all(|element| element.mark.is_none()) {
            let mut known = Known::load(snapshot, session)?;
            known.complete(snapshot, session)?;
            let ids: Vec<NodeId> = self.elements.iter().map(|element| element.id).collect();
            match known.reached(&ids) {
                (walked, _) if walked == ids.len() => return Ok(Some(Plan::Nothing)),
                // What it branched off may be another session's.
                (walked, Some(timeline)) if walked > 0 && timelines.contains(&timeline) => {
                    let mut fates: Vec<Fate> = (0..walked).map(Fate::Known).collect();
                    fates.resize(ids.len(), Fate::New);
                    return Ok(Some(Plan::GoOn { timeline, fates, on: None }));
                }
                _ => {}
            }
        }
        // It may show folds of that line, or later forms of its messages.
        let mut best: Option<(usize, Plan)> = None;
        let left = timelines.into_iter().rev().filter(|timeline| *timeline != session.timeline);
        for timeline in left.take(CANDIDATES_MAX) {
            let mut live = Live::load(snapshot, Session { timeline, ..session.clone() })?;
            let list = live.align(snapshot, self.sent, &self.elements)?;
            let known = known(&list.alignment.fates);
            let is_more = best.as_ref().map_or(known > least, |(most, _)| known > *most);
            if !is_more || self.has_strange_fold(&list) {
                continue;
            }
            let Alignment { fates, verdict } = list.alignment;
            let on = Some(Box::new(live.line));
            let plan = match verdict {
                Verdict::Stranger => continue,
                Verdict::Grows if fates.iter().all(|fate| !fate.is_new()) => Plan::Nothing,
                Verdict::Grows => Plan::GoOn { timeline, fates, on },
                Verdict::Parts(last) => {
                    let Some(last) = on.as_ref().and_then(|line| line.stands.get(last)) else { continue };
                    Plan::Branch { parent: timeline, last: last.order.clone(), fates, on }
                }
            };
            best = Some((known, plan));
        }
        Ok(best.map(|(_, plan)| plan))
    }

    /// A timeline of the same owner that the list goes on from, with proof. `has_own` says whether the session the list
    /// came under has said something itself.
    fn adopt(&self, snapshot: &Snapshot, but: Option<SessionId>, has_own: bool) -> Result<Option<Plan>, EngineError> {
        let owner = &self.request.key.owner;
        let mut best: Option<(Proof, Plan)> = None;
        let names_none = self.elements.iter().all(|element| element.named().is_empty());
        for id in self.candidates(snapshot)? {
            let timeline = snapshot.timeline(id)?;
            if but == Some(timeline.session) {
                continue;
            }
            let session = snapshot.session(timeline.session)?;
            if session.owner != *owner {
                continue;
            }
            // Without a fold only a beginning in common is a proof, and to read one place is cheap.
            if names_none && !self.begins_as(snapshot, id, &session)? {
                continue;
            }
            let (goes_on_with, name) = (session.timeline, session.name.clone());
            let mut live = Live::load(snapshot, Session { timeline: id, ..session })?;
            let List { ours, alignment } = live.align(snapshot, self.sent, &self.elements)?;
            let Alignment { mut fates, verdict } = alignment;
            let folds = ours.iter().flatten().filter(|ours| ours.is_folds()).count();
            // Without a fold of ours only what two lists share from their beginning is one story: what was said in
            // both further on was said twice.
            let shared = fates.iter().enumerate().take_while(|(at, fate)| **fate == Fate::Known(*at)).count();
            let has_anchor = self.elements[..shared].iter().any(|element| element.signs.ids.is_some());
            let is_proved = folds > 0 || shared >= SAME_MESSAGES_MIN || (has_anchor && shared >= 2);
            let last = match verdict {
                Verdict::Stranger => None,
                _ if folds == 0 => shared.checked_sub(1),
                Verdict::Parts(last) => Some(last),
                Verdict::Grows => live.line.len().checked_sub(1),
            };
            let Some(last) = last.filter(|_| is_proved) else { continue };
            let is_current = id == goes_on_with;
            let folded = ours.iter().flatten().flat_map(Ours::folds).flat_map(|fold| &fold.runs).map(Range::len);
            let stood = fates.iter().filter(|fate| matches!(fate, Fate::Known(_) | Fate::Revised(_))).count();
            let passed_over = Reverse((last + 1).saturating_sub(folded.sum::<usize>() + stood));
            let proof = Proof { folds, known: known(&fates), passed_over, shared, is_current };
            if best.as_ref().is_some_and(|(known, _)| proof <= *known) {
                continue;
            }
            // A session that has said something else does not take over what another goes on with.
            let plan = if has_own && verdict == Verdict::Grows && is_current {
                Plan::Other(SessionKey { owner: owner.clone(), name })
            } else {
                for (at, fate) in fates.iter_mut().enumerate() {
                    // Nothing is put into a timeline that is somebody else's: what it has not is new in the branch.
                    let is_elsewhere = matches!(fate, Fate::Late(_)) || (folds == 0 && at >= shared);
                    if is_elsewhere && *fate != Fate::Ours {
                        *fate = Fate::New;
                    }
                }
                let last = live.line.stands[last].order.clone();
                Plan::Branch { parent: id, last, fates, on: Some(Box::new(live.line)) }
            };
            best = Some((proof, plan));
        }
        Ok(best.map(|(_, plan)| plan))
    }

    /// Whether the first message of a timeline is that of the list.
    fn begins_as(&self, snapshot: &Snapshot, timeline: TimelineId, session: &Session) -> Result<bool, EngineError> {
        let first = Line::first(snapshot, timeline, HostFormat::of(&session.source))?;
        let (Some(stood), Some(element)) = (first, self.elements.first()) else { return Ok(false) };
        Ok(stood.forms.iter().any(|form| *form == element.id || Some(*form) == element.likeness))
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
            // What was said rarely leads to few timelines; a greeting leads to all. What a branch shares stands in the
            // timeline it left, and what is its own at its end.
            let said: Vec<_> = self.elements.iter().filter(|element| !element.speech.is_system()).collect();
            let ends = said.len().saturating_sub(SAME_MESSAGES_MIN).max(SAME_MESSAGES_MIN.min(said.len()));
            // Its end first: beginnings are shared by more than are looked at.
            for element in said[ends..].iter().rev().chain(said.iter().take(SAME_MESSAGES_MIN)) {
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

/// How many elements are known, or stand for what is.
fn known(fates: &[Fate]) -> usize {
    fates.iter().filter(|fate| matches!(fate, Fate::Known(_) | Fate::Revised(_) | Fate::Ours)).count()
}
