//! What the store knows of a session: its timelines as a tree, and how far a host's list runs along it.
//!
//! Timelines that branched off each other share beginnings, so they are held as what is their own and where they
//! part. A list is walked from the root, or from where an earlier list of the same session led, one id at a time;
//! where the walk ends says what is new. Pure but for the loading.
//!
//! Invariant: walking a list that was planned and executed ends behind its last message (property test below).
//! Not here: revisions, late inserts, folds of ours in the list; the aligner will know them.

use std::collections::HashMap;

use lcm_core::{NodeId, OrderKey, TimelineId};
use lcm_store::{RecordNumber, Session, Snapshot, StoreError};

use crate::hosts::Path;

/// Places of a timeline that are read at once.
const PAGE: usize = 4096;

/// Where a walk is: behind so many messages of a timeline; `None` before the first message of any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Position {
    timeline: Option<usize>,
    offset: usize,
}

impl Position {
    const ROOT: Self = Self { timeline: None, offset: 0 };
}

/// A session's timelines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    timelines: Vec<KnownTimeline>,
    /// Which timelines part at a position.
    branches: HashMap<Position, Vec<usize>>,
    /// The one the session goes on with.
    current: Option<usize>,
    /// Whether all are here, and not only those that the current one is made of.
    is_whole: bool,
}

#[derive(Clone, Debug)]
struct KnownTimeline {
    /// `None` while it is planned and not written.
    id: Option<TimelineId>,
    parent: Option<usize>,
    /// Messages it shares with its parent.
    shared: usize,
    /// Its own messages.
    ids: Vec<NodeId>,
    /// Where they stand; shorter than `ids` while some are planned and not written.
    orders: Vec<OrderKey>,
}

impl KnownTimeline {
    fn len(&self) -> usize {
        self.shared + self.ids.len()
    }
}

/// One thing to do, in order. Timelines are numbers of [`Known`], messages indexes of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Let the session go on with a timeline that it left.
    GoOn { timeline: usize },
    /// Begin a timeline that shares so many messages with another one.
    Branch { timeline: usize, parent: usize, shared: usize },
    /// Begin a timeline that shares nothing.
    Begin { timeline: usize },
    /// Put messages at the end of a timeline.
    Append { timeline: usize, messages: Vec<usize> },
}

impl Known {
    /// What the timeline is made of that the session goes on with.
    pub(crate) fn load(snapshot: &Snapshot, session: &Session) -> Result<Self, StoreError> {
        let mut known = Self::default();
        known.current = Some(known.add(snapshot, session.timeline)?);
        Ok(known)
    }

    /// Loads the timelines that are not here yet.
    pub(crate) fn complete(&mut self, snapshot: &Snapshot, session: &Session) -> Result<(), StoreError> {
        for id in snapshot.timelines_of(session.id)? {
            self.add(snapshot, id)?;
        }
        self.is_whole = true;
        Ok(())
    }

    /// Loads a timeline and those it shares with, unless they are here.
    fn add(&mut self, snapshot: &Snapshot, id: TimelineId) -> Result<usize, StoreError> {
        // Those that are not here, youngest first. Parents are older, so this ends.
        let (mut missing, mut next) = (Vec::new(), Some(id));
        while let Some(id) = next.filter(|id| self.number(*id).is_none()) {
            let timeline = snapshot.timeline(id)?;
            next = timeline.parent.as_ref().map(|(parent, _)| *parent);
            missing.push(timeline);
        }
        for timeline in missing.into_iter().rev() {
            let (parent, after) = match timeline.parent {
                None => (None, None),
                Some((parent, last)) => (self.number(parent), Some(last)),
            };
            let shared = match (parent, &after) {
                (Some(parent), Some(last)) => self.position_of(parent, last),
                _ => 0,
            };
            let (mut ids, mut orders) = (Vec::new(), Vec::new());
            let mut behind = after;
            loop {
                let page = snapshot.log(timeline.id, behind.as_ref(), PAGE)?;
                let records: Vec<RecordNumber> = page.iter().map(|placed| placed.record).collect();
                ids.extend(snapshot.read_each(&records, |_, buffer| Ok::<_, StoreError>(buffer.id()))?);
                behind = page.last().map(|placed| placed.order.clone()).or(behind);
                let is_last = page.len() < PAGE;
                orders.extend(page.into_iter().map(|placed| placed.order));
                if is_last {
                    break;
                }
            }
            self.put(KnownTimeline { id: Some(timeline.id), parent, shared, ids, orders });
        }
        Ok(self.number(id).unwrap_or_default())
    }

    fn number(&self, id: TimelineId) -> Option<usize> {
        self.timelines.iter().position(|timeline| timeline.id == Some(id))
    }

    /// How many messages of a timeline stand up to and with `last`.
    fn position_of(&self, timeline: usize, last: &OrderKey) -> usize {
        let known = &self.timelines[timeline];
        match (known.orders.partition_point(|order| order <= last), known.parent) {
            (0, Some(parent)) => self.position_of(parent, last).min(known.shared),
            (own, _) => known.shared + own,
        }
    }

    fn put(&mut self, timeline: KnownTimeline) -> usize {
        let number = self.timelines.len();
        let parts_at = match timeline.parent {
            None => Position::ROOT,
            Some(parent) => self.normal(parent, timeline.shared),
        };
        self.branches.entry(parts_at).or_default().push(number);
        self.timelines.push(timeline);
        number
    }

    /// The one name of a position: with the timeline that the message before it is an own one of.
    fn normal(&self, timeline: usize, offset: usize) -> Position {
        let mut at = timeline;
        // Parents have smaller numbers, so this ends.
        while offset <= self.timelines[at].shared {
            match self.timelines[at].parent {
                Some(parent) => at = parent,
                None => return Position::ROOT,
            }
        }
        Position { timeline: Some(at), offset }
    }

    /// Goes along `ids` as far as they run.
    fn walk(&self, from: Position, ids: impl Iterator<Item = NodeId>) -> (Position, usize) {
        let (mut at, mut walked) = (from, 0);
        for id in ids {
            let goes_on = at.timeline.and_then(|timeline| {
                let known = &self.timelines[timeline];
                // A normal position lies behind an own message.
                let next = known.ids.get(at.offset - known.shared)?;
                (*next == id).then_some(timeline)
            });
            let parts = || {
                let branches = self.branches.get(&at)?;
                branches.iter().copied().find(|branch| self.timelines[*branch].ids.first() == Some(&id))
            };
            let Some(timeline) = goes_on.or_else(parts) else { break };
            at = Position { timeline: Some(timeline), offset: at.offset + 1 };
            walked += 1;
        }
        (at, walked)
    }

    /// How many messages the current timeline has.
    pub(crate) fn current_len(&self) -> usize {
        self.current.map_or(0, |current| self.timelines[current].len())
    }

    /// Whether a list of this session's is likely to be this session's: it is all here, goes on where one ends, or
    /// has this many messages in common.
    pub(crate) fn tells_the_same(&self, ids: &[NodeId], enough: usize) -> bool {
        let (at, walked) = self.walk(Position::ROOT, ids.iter().copied());
        let ends = at.timeline.is_some_and(|timeline| at.offset == self.timelines[timeline].len());
        let is_empty = self.timelines.iter().all(|timeline| timeline.ids.is_empty());
        walked == ids.len() || ends || walked >= enough || is_empty
    }

    /// How far a list runs along the timelines, and the timeline at whose end it then is.
    pub(crate) fn reached(&self, ids: &[NodeId]) -> (usize, Option<TimelineId>) {
        let (at, walked) = self.walk(Position::ROOT, ids.iter().copied());
        let end = at.timeline.map(|timeline| &self.timelines[timeline]).filter(|timeline| at.offset == timeline.len());
        (walked, end.and_then(|timeline| timeline.id))
    }

    /// Says what is to be done so that every path is here, and counts as done.
    ///
    /// The list begins behind the first `known` messages of the current timeline, and so do its paths. `more` loads
    /// what is missing, when it is needed.
    pub(crate) fn plan<E>(
        &mut self,
        ids: &[NodeId],
        paths: &[Path],
        known: usize,
        mut more: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<Vec<Step>, E> {
        let is_new = self.current.is_none();
        let begin = match self.current {
            Some(current) if known > 0 => self.normal(current, known.min(self.timelines[current].len())),
            _ => Position::ROOT,
        };
        let mut steps = Vec::new();
        let mut ends: Vec<Position> = Vec::new();
        for path in paths {
            let start = match path.parent {
                None => begin,
                Some((parent, shared)) => match ends.get(parent).copied() {
                    Some(Position { timeline: Some(timeline), offset }) => {
                        self.normal(timeline, shared.saturating_add(known).min(offset))
                    }
                    _ => begin,
                },
            };
            let list = || path.own.iter().filter_map(|i| ids.get(*i).copied());
            let (mut at, mut walked) = self.walk(start, list());
            if walked < path.own.len() && !self.is_whole {
                more(self)?;
                self.is_whole = true;
                (at, walked) = self.walk(start, list());
            }
            if walked < path.own.len() {
                at = self.extend(at, &path.own[walked..], ids, &mut steps);
            }
            ends.push(at);
        }
        // A session that is new goes on as its last path says.
        if let (true, Some(Position { timeline: Some(timeline), offset })) = (is_new, ends.last().copied())
            && self.current != Some(timeline)
            && self.timelines[timeline].len() == offset
        {
            self.current = Some(timeline);
            steps.push(Step::GoOn { timeline });
        }
        Ok(steps)
    }

    /// Puts messages behind a position.
    fn extend(&mut self, at: Position, messages: &[usize], ids: &[NodeId], steps: &mut Vec<Step>) -> Position {
        let empty = |known: &Self| {
            // A session that was made and never said anything has a timeline that waits for its first message.
            known.current.filter(|current| known.timelines[*current].len() == 0)
        };
        let at_end = match at.timeline {
            Some(timeline) => Some(timeline).filter(|timeline| self.timelines[*timeline].len() == at.offset),
            None => empty(self),
        };
        let timeline = match at_end {
            Some(timeline) => {
                if self.current != Some(timeline) {
                    steps.push(Step::GoOn { timeline });
                }
                timeline
            }
            None => {
                let shared = at.offset;
                let parent = at.timeline;
                let timeline =
                    self.put(KnownTimeline { id: None, parent, shared, ids: Vec::new(), orders: Vec::new() });
                steps.push(match parent {
                    Some(parent) => Step::Branch { timeline, parent, shared },
                    None => Step::Begin { timeline },
                });
                timeline
            }
        };
        self.current = Some(timeline);
        let known = &mut self.timelines[timeline];
        known.ids.extend(messages.iter().filter_map(|i| ids.get(*i)));
        steps.push(Step::Append { timeline, messages: messages.to_vec() });
        Position { timeline: Some(timeline), offset: self.timelines[timeline].len() }
    }

    // While the steps are carried out.

    /// The id of a timeline, when it is written.
    pub(crate) fn id(&self, timeline: usize) -> Option<TimelineId> {
        self.timelines[timeline].id
    }

    /// A planned timeline was written.
    pub(crate) fn written(&mut self, timeline: usize, id: TimelineId) {
        self.timelines[timeline].id = Some(id);
    }

    /// The next planned messages of a timeline were written.
    pub(crate) fn appended(&mut self, timeline: usize, orders: impl Iterator<Item = OrderKey>) {
        self.timelines[timeline].orders.extend(orders);
    }

    /// The place behind which a timeline parts that shares so many messages with `parent`.
    pub(crate) fn last_shared(&self, parent: usize, shared: usize) -> Option<&OrderKey> {
        let mut at = parent;
        while shared <= self.timelines[at].shared {
            at = self.timelines[at].parent?;
        }
        let own = shared.checked_sub(self.timelines[at].shared + 1)?;
        self.timelines[at].orders.get(own)
    }

    /// How many messages two timelines share.
    pub(crate) fn shared_by(&self, one: TimelineId, other: usize) -> usize {
        let Some(one) = self.number(one) else { return 0 };
        let (one, other) = (self.made_of(one), self.made_of(other));
        let common = one.iter().flat_map(|(part, until)| {
            other.iter().filter(move |(other, _)| other == part).map(move |(_, other)| until.min(other))
        });
        common.copied().max().unwrap_or(0)
    }

    /// The timelines that a timeline is made of, and up to which message of each.
    fn made_of(&self, timeline: usize) -> Vec<(usize, usize)> {
        let mut parts = vec![(timeline, self.timelines[timeline].len())];
        while let Some(&(at, until)) = parts.last()
            && let Some(parent) = self.timelines[at].parent
        {
            parts.push((parent, until.min(self.timelines[at].shared)));
        }
        parts
    }

    /// The timeline the session goes on with, and the last place on it; `None` without a timeline that is written.
    pub(crate) fn end(&self) -> Option<(TimelineId, Option<OrderKey>)> {
        let current = self.current?;
        let last = self.last_shared(current, self.timelines[current].len());
        Some((self.timelines[current].id?, last.cloned()))
    }

    /// How many ids are held.
    pub(crate) fn weight(&self) -> usize {
        self.timelines.iter().map(|timeline| timeline.ids.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(number: u8) -> NodeId {
        NodeId::from_bytes([number; 32])
    }

    /// Plans lists one after the other, as if each were a host's call; gives the steps of each.
    fn planned(known: &mut Known, lists: &[Vec<u8>]) -> Vec<Vec<Step>> {
        lists
            .iter()
            .map(|list| {
                let ids: Vec<NodeId> = list.iter().map(|number| id(*number)).collect();
                let path = Path { parent: None, own: (0..list.len()).collect() };
                let whole = |known: &mut Known| {
                    known.is_whole = true;
                    Ok::<_, ()>(())
                };
                known.plan(&ids, &[path], 0, whole).unwrap()
            })
            .collect()
    }

    fn messages_of(known: &Known, timeline: usize) -> Vec<NodeId> {
        let this = &known.timelines[timeline];
        let mut all = this.parent.map(|parent| messages_of(known, parent)).unwrap_or_default();
        all.truncate(this.shared);
        all.extend(&this.ids);
        all
    }

    #[test]
    fn a_longer_list_is_appended_and_a_shorter_or_equal_one_changes_nothing() {
        let mut known = Known::default();
        let steps = planned(&mut known, &[vec![1, 2], vec![1, 2, 3], vec![1], vec![1, 2, 3], vec![]]);
        assert_eq!(steps[1], [Step::Append { timeline: 0, messages: vec![2] }]);
        assert!(steps[2..].iter().all(Vec::is_empty), "{steps:?}");
    }

    #[test]
    fn a_list_that_differs_in_the_middle_branches_and_the_old_list_is_still_known() {
        let mut known = Known::default();
        let steps = planned(&mut known, &[vec![1, 2, 3], vec![1, 2, 4], vec![1, 2, 3], vec![1, 2, 3, 5]]);
        assert_eq!(
            steps[1],
            [Step::Branch { timeline: 1, parent: 0, shared: 2 }, Step::Append { timeline: 1, messages: vec![2] }]
        );
        assert_eq!(steps[2], []);
        // The session goes back to the timeline that it left.
        assert_eq!(steps[3], [Step::GoOn { timeline: 0 }, Step::Append { timeline: 0, messages: vec![3] }]);
    }

    #[test]
    fn a_list_that_shares_nothing_begins_a_timeline() {
        let mut known = Known::default();
        let steps = planned(&mut known, &[vec![1], vec![2]]);
        assert_eq!(steps[1], [Step::Begin { timeline: 1 }, Step::Append { timeline: 1, messages: vec![0] }]);
    }

    #[test]
    fn equal_messages_at_two_places_stay_two() {
        let mut known = Known::default();
        let steps = planned(&mut known, &[vec![1, 1], vec![1, 1, 1]]);
        assert_eq!(steps[1], [Step::Append { timeline: 0, messages: vec![2] }]);
        assert_eq!(messages_of(&known, 0).len(), 3);
    }

    #[test]
    fn paths_of_one_list_share_what_they_say_they_share() {
        let mut known = Known::default();
        let ids: Vec<NodeId> = (0..6).map(id).collect();
        let path = |parent, own: &[usize]| Path { parent, own: own.to_vec() };
        let paths = [path(None, &[0, 1, 2]), path(Some((0, 1)), &[3, 4]), path(Some((1, 2)), &[5])];
        let steps = known.plan(&ids, &paths, 0, |_| Ok::<_, ()>(())).unwrap();
        assert_eq!(steps.iter().filter(|step| matches!(step, Step::Branch { .. })).count(), 2);
        assert_eq!(messages_of(&known, 1), [id(0), id(3), id(4)]);
        assert_eq!(messages_of(&known, 2), [id(0), id(3), id(5)]);
        assert_eq!(known.plan(&ids, &paths, 0, |_| Ok::<_, ()>(())).unwrap(), []);
    }

    #[test]
    fn a_delta_goes_on_behind_what_is_known() {
        let mut known = Known::default();
        planned(&mut known, &[vec![1, 2, 3]]);
        let path = [Path { parent: None, own: vec![0, 1] }];
        let steps = known.plan(&[id(3), id(4)], &path, 2, |_| Ok::<_, ()>(())).unwrap();
        assert_eq!(steps, [Step::Append { timeline: 0, messages: vec![1] }]);
        let steps = known.plan(&[id(5), id(6)], &path, 2, |_| Ok::<_, ()>(())).unwrap();
        assert_eq!(steps[0], Step::Branch { timeline: 1, parent: 0, shared: 2 });
    }

    proptest! {
        /// Whatever a host shows, in whatever order: all of it is there afterwards, and showing it again adds nothing.
        #[test]
        fn every_list_is_kept_and_no_list_is_kept_twice(
            lists in prop::collection::vec(prop::collection::vec(0..4_u8, 0..12), 1..12),
        ) {
            let mut known = Known::default();
            planned(&mut known, &lists);
            let kept: Vec<Vec<NodeId>> = (0..known.timelines.len()).map(|i| messages_of(&known, i)).collect();
            for list in &lists {
                let ids: Vec<NodeId> = list.iter().map(|number| id(*number)).collect();
                prop_assert!(list.is_empty() || kept.iter().any(|all| all.starts_with(&ids)), "{list:?} in {kept:?}");
            }
            let again = planned(&mut known, &lists);
            prop_assert!(again.iter().all(Vec::is_empty), "{again:?}");
            // No more is held than was said: every timeline's own messages differ from all others at its beginning.
            for (i, one) in kept.iter().enumerate() {
                for other in &kept[i + 1..] {
                    prop_assert!(!one.starts_with(other) && !other.starts_with(one), "{one:?} {other:?}");
                }
            }
        }
    }
}
