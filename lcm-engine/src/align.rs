//! A host's list against a timeline: what is the same, what was rewritten, what is new, and where it belongs.
//!
//! Cursors (how many were seen) are how messages get doubled or lost; a list is its own proof. First it is walked from
//! the beginning: nearly always it is what we know and something more. Otherwise the longest run of messages in order
//! that both have is found, our own folds among them, and what lies between is told by weaker signs: the ids of calls,
//! who speaks, where it stands. Pure.
//!
//! Absence alone changes nothing: hosts show shorter lists all the time. A timeline is left only when a list shares
//! its beginning and then goes on with something else.
//!
//! Invariants (property tests below): a list that was taken in and is shown again, in whole or in any part, has
//! nothing new, unless it puts messages that occur several times in another order: then one that was moved cannot be told
//! from one that was left out and said again. Every element has one fate; elements that are known name places in order.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use lcm_core::{NodeId, Role};

use crate::hosts::speech::Speech;

/// Signs by which a message is known when its text was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signs {
    pub(crate) role: Role,
    /// Of the ids of its calls and of those it answers; `None` where it has none.
    pub(crate) ids: Option<u64>,
}

impl Signs {
    pub(crate) fn of(speech: &Speech) -> Self {
        let mut hasher = blake3::Hasher::new();
        for (kind, ids) in [(b'c', &speech.calls), (b'r', &speech.results)] {
            for id in ids {
                hasher.update(&[kind]);
                hasher.update(&u64::try_from(id.as_bytes().len()).unwrap_or(u64::MAX).to_le_bytes());
                hasher.update(id.as_bytes());
            }
        }
        let named = speech.calls.iter().chain(&speech.results).any(|id| !id.as_bytes().is_empty());
        let mut eight = [0; 8];
        eight.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        Self { role: speech.role, ids: named.then(|| u64::from_le_bytes(eight)) }
    }
}

/// A place of the timeline.
#[derive(Clone, Debug)]
pub(crate) struct Stood {
    /// Every form that the message had there, the first one first; and behind them its likeness, where the host's format
    /// knows one.
    pub(crate) forms: Vec<NodeId>,
    pub(crate) signs: Signs,
}

/// An element of the list.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) id: NodeId,
    /// The message of which it shows a part.
    pub(crate) whole: Option<NodeId>,
    /// What stays of it through the host's hands.
    pub(crate) likeness: Option<NodeId>,
    pub(crate) signs: Signs,
    /// The places that it stands for, rising, when it shows folds; none where it is ours and its place tells nothing.
    pub(crate) folds: Option<Vec<Range<usize>>>,
    /// Places that it stands for and that come later: steps of the request which it stands in front of.
    pub(crate) later: Vec<Range<usize>>,
}

impl Shown {
    /// What it may stand at a place as.
    fn ids(&self) -> impl Iterator<Item = &NodeId> {
        std::iter::once(&self.id).chain(&self.whole).chain(&self.likeness)
    }

    /// Whether it is ours wherever it stands. A fold is ours where it stands for what belongs there.
    fn is_ours(&self) -> bool {
        self.folds.as_ref().is_some_and(Vec::is_empty)
    }
}

/// What became of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stands at this place, as it was or in a form it had.
    Known(usize),
    /// It stands at this place, rewritten.
    Revised(usize),
    /// We made it.
    Ours,
    /// It is new, between what is known: behind this place, or before the first.
    Late(Option<usize>),
    /// It is new, behind all that is known.
    New,
}

impl Fate {
    /// Whether something of it is to be kept.
    pub(crate) fn is_new(self) -> bool {
        matches!(self, Self::Revised(_) | Self::Late(_) | Self::New)
    }
}

/// How the list goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// On this timeline: what is new stands at its end.
    Grows,
    /// It shares this timeline up to this place and leaves it there.
    Parts(usize),
    /// It has nothing to do with this timeline.
    Stranger,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alignment {
    /// Of each element of the list.
    pub(crate) fates: Vec<Fate>,
    pub(crate) verdict: Verdict,
}

/// How far away a message without ids is looked for when it was moved and rewritten: places.
const NEAR: usize = 32;

/// Candidate pairs that are looked at; beyond them those of messages that occur most often are left out. A list of
/// 2,000 messages that are all equal has as many.
const PAIRS_MAX: usize = 1 << 21;

/// Aligns a list with a timeline. `is_form` tells whether an element reads like a rewritten form of what stands at a
/// place: cut, cleared or annotated.
pub(crate) fn align(line: &[Stood], list: &[Shown], is_form: impl Fn(usize, usize) -> bool) -> Alignment {
    let mut fates = vec![Fate::New; list.len()];
    let mut steps = vec![false; line.len()];
    for later in list.iter().flat_map(|shown| &shown.later) {
        if let Some(places) = steps.get_mut(later.clone()) {
            places.fill(true);
        }
    }
    let (walked, reached) = walk(line, list, &steps, &mut fates);
    if walked == list.len() || reached == line.len() {
        return Alignment { fates, verdict: Verdict::Grows };
    }
    let anchors = anchors(line, list, &steps, walked, reached);
    let has_something = walked > 0 || !anchors.is_empty();
    let taken = steps.clone();
    let mut gaps = Gaps { line, list, is_form: &is_form, taken, fates, by_form: OnceCell::new() };
    for (at, shown) in list.iter().enumerate().take(walked) {
        gaps.take(at);
        // What a fold stands for was not moved.
        let runs = shown.folds.as_deref().filter(|_| gaps.fates[at] == Fate::Ours);
        for run in runs.unwrap_or_default() {
            gaps.taken[run.clone()].fill(true);
        }
    }
    for anchor in &anchors {
        gaps.fates[anchor.element] = anchor.fate;
        let runs = list[anchor.element].folds.as_deref().filter(|_| anchor.fate == Fate::Ours);
        for run in runs.unwrap_or(std::slice::from_ref(&anchor.places)) {
            gaps.taken[run.clone()].fill(true);
        }
    }
    let (mut element, mut place) = (walked, reached);
    for anchor in &anchors {
        gaps.between(element..anchor.element, place..anchor.places.start.max(place));
        (element, place) = (anchor.element + 1, anchor.places.end.max(place));
    }
    let reached = gaps.behind(element..list.len(), place);
    // Steps that are shown were not left.
    let last = steps.iter().rposition(|is_step| *is_step).map_or(reached, |step| reached.max(step + 1));
    let goes_on = gaps.fates.last() == Some(&Fate::New);
    // What was moved is still shown, so it was not left.
    let is_left = last < line.len() && gaps.taken[last..].iter().all(|taken| !taken);
    let verdict = match (has_something || reached > place, goes_on) {
        (_, false) if !list.is_empty() => Verdict::Grows,
        (false, _) => Verdict::Stranger,
        // What stands behind the last that is shared was left.
        (true, true) if is_left => match last.checked_sub(1) {
            Some(shared) => Verdict::Parts(shared),
            None => Verdict::Stranger,
        },
        (true, _) => Verdict::Grows,
    };
    let mut fates = gaps.fates;
    if verdict == Verdict::Stranger {
        fates.fill(Fate::New);
    }
    Alignment { fates, verdict }
}

/// The first place from one on that is no step which stands elsewhere.
fn behind_steps(steps: &[bool], place: usize) -> usize {
    steps.iter().skip(place).position(|is_step| !is_step).map_or(steps.len().max(place), |more| place + more)
}

/// Walks from the beginning, past steps that stand elsewhere; gives how many elements and places were passed.
fn walk(line: &[Stood], list: &[Shown], steps: &[bool], fates: &mut [Fate]) -> (usize, usize) {
    let mut place = 0;
    for (element, shown) in list.iter().enumerate() {
        fates[element] = match &shown.folds {
            Some(runs) => match (runs.first(), runs.last()) {
                (Some(first), Some(last)) if first.start <= place && place < last.end && last.end <= line.len() => {
                    place = last.end;
                    Fate::Ours
                }
                (None, None) => Fate::Ours,
                // A fold of what stands elsewhere.
                _ => return (element, place),
            },
            None if line.get(place).is_some_and(|stood| shown.ids().any(|id| stood.forms.contains(id))) => {
                place += 1;
                Fate::Known(place - 1)
            }
            None => return (element, place),
        };
        place = behind_steps(steps, place);
    }
    (list.len(), place)
}

/// An element that is known beyond doubt, and the places it stands for.
struct Anchor {
    element: usize,
    places: Range<usize>,
    fate: Fate,
}

/// The heaviest chain of elements and places that rise together, the latest of several.
fn anchors(line: &[Stood], list: &[Shown], steps: &[bool], walked: usize, reached: usize) -> Vec<Anchor> {
    let places = by_form(line, reached);
    let each_max = (PAIRS_MAX / list.len().max(1)).max(1);
    let candidates = |shown: &Shown| -> Vec<(Range<usize>, Fate)> {
        let mut all = Vec::new();
        if let Some([first, .., last] | [first @ last]) = shown.folds.as_deref()
            && last.end > reached
            && last.end <= line.len()
        {
            all.push((first.start.max(reached)..last.end, Fate::Ours));
        }
        for id in shown.ids() {
            let places = places.get(id).map_or(&[][..], Vec::as_slice);
            let latest = &places[places.len().saturating_sub(each_max)..];
            all.extend(latest.iter().filter(|at| !steps[**at]).map(|&at| (at..at + 1, Fate::Known(at))));
        }
        all
    };
    // From the end: the heaviest chain of what follows, among those that begin at a place or behind it.
    let mut heaviest = Heaviest::new(line.len());
    let mut at_place: Vec<Option<usize>> = vec![None; line.len() + 1];
    let mut links: Vec<Link> = Vec::new();
    for (element, shown) in list.iter().enumerate().skip(walked).rev() {
        let from = links.len();
        for (places, fate) in candidates(shown) {
            let at_once = at_place.get(places.end).copied().flatten();
            let follows = at_once_or(&links, at_once, heaviest.from(places.end));
            let weight = follows.map_or(0, |at| links[at].weight) + 1 + places.len().saturating_sub(1);
            links.push(Link { element, places, fate, weight, follows });
        }
        for (at, link) in links.iter().enumerate().skip(from) {
            heaviest.put(link.places.start, at, link.weight);
            let known = &mut at_place[link.places.start];
            if known.is_none_or(|known| links[known].weight <= link.weight) {
                *known = Some(at);
            }
        }
    }
    let mut chain = Vec::new();
    // What was walked goes on at once, too; a list that was cut at its head is the end of what was said.
    let at_once = at_place.get(reached).copied().flatten().filter(|_| walked > 0);
    let mut next = at_once_or(&links, at_once, heaviest.from(reached));
    while let Some(at) = next {
        let Link { element, places, fate, follows, .. } = &links[at];
        chain.push(Anchor { element: *element, places: places.clone(), fate: *fate });
        next = *follows;
    }
    chain
}

/// Of equal chains the one that goes on at once; else the heaviest.
fn at_once_or(links: &[Link], at_once: Option<usize>, heaviest: Option<usize>) -> Option<usize> {
    let weight = |link: Option<usize>| link.map(|at| links[at].weight);
    if at_once.is_some() && weight(at_once) >= weight(heaviest) { at_once } else { heaviest }
}

/// The places from `from` on at which a form stands, or stood, rising.
fn by_form(line: &[Stood], from: usize) -> HashMap<NodeId, Vec<usize>> {
    let mut places: HashMap<NodeId, Vec<usize>> = HashMap::new();
    for (at, stood) in line.iter().enumerate().skip(from) {
        for form in &stood.forms {
            let places = places.entry(*form).or_default();
            if places.last() != Some(&at) {
                places.push(at);
            }
        }
    }
    places
}

struct Link {
    element: usize,
    places: Range<usize>,
    fate: Fate,
    weight: usize,
    follows: Option<usize>,
}

/// The heaviest link that begins at a place or behind it; of equal ones the one that begins last, and of those the one
/// of the earliest element.
struct Heaviest {
    /// A Fenwick tree over the places, counted from the end: weight, place, link.
    best: Vec<Option<(usize, usize, usize)>>,
    places: usize,
}

impl Heaviest {
    fn new(places: usize) -> Self {
        Self { best: vec![None; places + 2], places }
    }

    /// Behind the last place is 1, the first place is the largest.
    fn index(&self, place: usize) -> usize {
        self.places - place.min(self.places) + 1
    }

    fn put(&mut self, place: usize, link: usize, weight: usize) {
        let mut at = self.index(place);
        while at < self.best.len() {
            let better = self.best[at].is_none_or(|(known, start, _)| (weight, place) >= (known, start));
            if better {
                self.best[at] = Some((weight, place, link));
            }
            at += at & at.wrapping_neg();
        }
    }

    fn from(&self, place: usize) -> Option<usize> {
        let mut at = self.index(place);
        let mut found: Option<(usize, usize, usize)> = None;
        while at > 0 {
            if let Some(one) = self.best[at]
                && found.is_none_or(|known| (one.0, one.1) > (known.0, known.1))
            {
                found = Some(one);
            }
            at -= at & at.wrapping_neg();
        }
        found.map(|(_, _, link)| link)
    }
}

/// What lies between anchors.
struct Gaps<'a, F> {
    line: &'a [Stood],
    list: &'a [Shown],
    is_form: &'a F,
    /// Places that an element stands for.
    taken: Vec<bool>,
    fates: Vec<Fate>,
    /// Made when the first element asks whether it stood elsewhere.
    by_form: OnceCell<HashMap<NodeId, Vec<usize>>>,
}

impl<F: Fn(usize, usize) -> bool> Gaps<'_, F> {
    fn take(&mut self, element: usize) {
        if let Fate::Known(place) | Fate::Revised(place) = self.fates[element] {
            self.taken[place] = true;
        }
    }

    fn pair(&mut self, element: usize, place: usize) {
        self.fates[element] = Fate::Revised(place);
        self.taken[place] = true;
    }

    /// Pairs elements with places by the ids of calls, and by reading like a form; gives the pairs, in order. Behind all
    /// that is known an id alone proves nothing: many hosts count theirs from the beginning again.
    fn pairs(&mut self, elements: Range<usize>, places: Range<usize>, is_open: bool) -> Vec<(usize, usize)> {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        let mut from = places.start;
        for element in elements.clone() {
            let shown = &self.list[element];
            if shown.folds.is_some() {
                continue;
            }
            let is_it = |place: &usize| {
                let stood = &self.line[*place];
                if self.taken[*place] || stood.signs.role != shown.signs.role || stood.signs.ids != shown.signs.ids {
                    return false;
                }
                match (shown.signs.ids, shown.signs.role) {
                    (Some(_), _) if !is_open => true,
                    (None, _) | (Some(_), Role::Assistant) => (self.is_form)(element, *place),
                    (Some(_), _) => {
                        let is_answered =
                            |call: usize| self.taken[call] || pairs.iter().any(|(_, paired)| *paired == call);
                        let is_next = match pairs.last() {
                            Some((before, stood)) => element == before + 1 && *place == stood + 1,
                            None => element == elements.start && *place == places.start,
                        };
                        is_next || self.call_of(*place).is_some_and(is_answered) || (self.is_form)(element, *place)
                    }
                }
            };
            // A call that was moved; results that were cleared are all alike.
            if shown.signs.role == Role::Assistant && self.stood_at(element).is_some() {
                continue;
            }
            if let Some(place) = (from..places.end).find(is_it) {
                pairs.push((element, place));
                from = place + 1;
            }
        }
        for &(element, place) in &pairs {
            self.pair(element, place);
        }
        pairs
    }

    /// The place of the message whose calls a result at a place answers.
    fn call_of(&self, place: usize) -> Option<usize> {
        let is_call = |signs: &Signs| signs.role == Role::Assistant && signs.ids.is_some();
        self.line[..place].iter().rposition(|stood| is_call(&stood.signs))
    }

    /// A place for which nothing stands and at which an element stood just as it is: it was moved, not said again.
    fn stood_at(&self, element: usize) -> Option<usize> {
        let by_form = self.by_form.get_or_init(|| by_form(self.line, 0));
        let places = self.list[element].ids().filter_map(|id| by_form.get(id)).flatten();
        places.copied().find(|place| !self.taken[*place])
    }

    /// A place for which nothing stands and of which an element that stands elsewhere is a form: by the id of its call,
    /// or near by because it reads like it.
    fn moved(&self, element: usize, near: &Range<usize>) -> Option<usize> {
        let signs = &self.list[element].signs;
        let is_it = |place: &usize| !self.taken[*place] && self.line[*place].signs == *signs;
        let is_same = |place: &usize| match (signs.ids, signs.role) {
            (Some(_), role) if role != Role::Assistant => {
                let is_only = || self.line.iter().filter(|stood| stood.signs == *signs).count() == 1;
                self.call_of(*place).is_some_and(|call| self.taken[call]) || is_only()
            }
            _ => (self.is_form)(element, *place),
        };
        let places = match signs.ids {
            Some(_) => 0..self.line.len(),
            None => near.start.saturating_sub(NEAR)..near.end.saturating_add(NEAR).min(self.line.len()),
        };
        places.into_iter().find(|place| is_it(place) && is_same(place))
    }

    /// Tells what lies between two anchors.
    fn between(&mut self, elements: Range<usize>, places: Range<usize>) {
        let pairs = self.pairs(elements.clone(), places.clone(), false);
        let (mut element, mut place) = (elements.start, places.start);
        for (paired, stood) in pairs.into_iter().chain([(elements.end, places.end)]) {
            self.run(element..paired, place..stood);
            (element, place) = (paired + 1, stood + 1);
        }
    }

    /// Elements between two that are known, and the places between those.
    fn run(&mut self, elements: Range<usize>, places: Range<usize>) {
        let (ours, unknown): (Vec<usize>, Vec<usize>) = elements.partition(|element| self.list[*element].is_ours());
        for element in ours {
            self.fates[element] = Fate::Ours;
        }
        let free: Vec<usize> = places.clone().filter(|place| !self.taken[*place]).collect();
        let same_roles = unknown.len() == free.len()
            && unknown.iter().zip(&free).all(|(element, place)| {
                let (shown, stood) = (&self.list[*element].signs, &self.line[*place].signs);
                shown.role == stood.role && shown.ids.is_none() && stood.ids.is_none()
            });
        for (nth, &element) in unknown.iter().enumerate() {
            if let Some(runs) = &self.list[element].folds
                && runs
                    .iter()
                    .all(|run| self.taken.get(run.clone()).is_some_and(|taken| taken.iter().all(|taken| !taken)))
            {
                for run in runs {
                    self.taken[run.clone()].fill(true);
                }
                self.fates[element] = Fate::Ours;
                continue;
            }
            if let Some(place) = self.stood_at(element) {
                self.fates[element] = Fate::Known(place);
                self.taken[place] = true;
            } else if let Some(place) = self.moved(element, &places) {
                self.pair(element, place);
            } else if same_roles && !self.taken[free[nth]] {
                self.pair(element, free[nth]);
            } else {
                self.fates[element] = Fate::Late(places.start.checked_sub(1));
            }
        }
    }

    /// Tells what lies behind the last anchor; gives the place behind the last that is known.
    fn behind(&mut self, elements: Range<usize>, place: usize) -> usize {
        let pairs = self.pairs(elements.clone(), place..self.line.len(), true);
        let (mut element, mut reached) = (elements.start, place);
        for (paired, stood) in pairs {
            self.run(element..paired, reached..stood);
            (element, reached) = (paired + 1, stood + 1);
        }
        for element in element..elements.end {
            if self.list[element].is_ours() {
                self.fates[element] = Fate::Ours;
            }
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    //! Lists as hosts make them, one of each kind; then any sequence of what hosts do, against a plain model.

    use proptest::prelude::*;

    use super::*;

    fn id(n: u8) -> NodeId {
        NodeId::from_bytes([n; 32])
    }

    fn signs(n: u8) -> Signs {
        let role = if n.is_multiple_of(2) { Role::User } else { Role::Assistant };
        Signs { role, ids: (n >= 200).then_some(u64::from(n / 10)) }
    }

    fn line(text: &[u8]) -> Vec<Stood> {
        text.iter().map(|&n| Stood { forms: vec![id(n)], signs: signs(n) }).collect()
    }

    fn list(text: &[u8]) -> Vec<Shown> {
        text.iter()
            .map(|&n| Shown { id: id(n), whole: None, likeness: None, signs: signs(n), folds: None, later: Vec::new() })
            .collect()
    }

    fn told(line_of: &[u8], list_of: &[u8]) -> (Vec<Fate>, Verdict) {
        let Alignment { fates, verdict } = align(&line(line_of), &list(list_of), |_, _| false);
        (fates, verdict)
    }

    use Fate::{Known, Late, New, Revised};
    use Verdict::{Grows, Parts, Stranger};

    #[test]
    fn what_grows_grows_and_what_is_shorter_changes_nothing() {
        assert_eq!(told(&[], &[1, 2]), (vec![New, New], Grows));
        assert_eq!(told(&[1, 2], &[1, 2, 3]), (vec![Known(0), Known(1), New], Grows));
        assert_eq!(told(&[1, 2, 3], &[1]), (vec![Known(0)], Grows));
        assert_eq!(told(&[1, 2, 3], &[]), (vec![], Grows));
        // Trimmed from the head, and from the middle.
        assert_eq!(told(&[1, 2, 3, 4], &[3, 4, 5]), (vec![Known(2), Known(3), New], Grows));
        assert_eq!(told(&[1, 2, 3, 4], &[1, 4, 5]), (vec![Known(0), Known(3), New], Grows));
        assert_eq!(told(&[1, 2, 3, 4], &[2, 3]), (vec![Known(1), Known(2)], Grows));
    }

    #[test]
    fn equal_messages_are_told_apart_by_where_they_stand() {
        assert_eq!(told(&[1, 2, 1, 2], &[1, 2, 1, 2, 1, 2]).0, [Known(0), Known(1), Known(2), Known(3), New, New]);
        // A head that was cut: what is left is the end.
        assert_eq!(told(&[4, 1, 2, 1, 2], &[1, 2, 8]), (vec![Known(3), Known(4), New], Grows));
    }

    #[test]
    fn a_list_that_shares_a_beginning_and_goes_on_otherwise_parts() {
        assert_eq!(told(&[1, 2, 3], &[1, 8]), (vec![Known(0), New], Parts(0)));
        assert_eq!(told(&[1, 2, 3, 4], &[1, 2, 3, 6, 7]), (vec![Known(0), Known(1), Known(2), New, New], Parts(2)));
        assert_eq!(told(&[1, 2, 3], &[8, 9]), (vec![New, New], Stranger));
    }

    #[test]
    fn what_comes_in_between_is_late_and_what_was_rewritten_is_a_revision() {
        assert_eq!(told(&[1, 2, 3], &[1, 9, 7, 2, 3]).0, [Known(0), Late(Some(0)), Late(Some(0)), Known(1), Known(2)]);
        assert_eq!(told(&[1, 2, 3], &[9, 7, 1, 2, 3]).0[..2], [Late(None), Late(None)]);
        // One for one, same speaker: rewritten in place.
        assert_eq!(told(&[1, 2, 3], &[1, 8, 3]).0, [Known(0), Revised(1), Known(2)]);
        // By the id of the call; at the end only behind the call itself.
        assert_eq!(told(&[1, 200, 3], &[1, 202, 3]).0, [Known(0), Revised(1), Known(2)]);
        assert_eq!(told(&[1, 201, 200], &[1, 201, 202]).0, [Known(0), Known(1), Revised(2)]);
        assert_eq!(told(&[1, 201, 200], &[1, 203, 202]), (vec![Known(0), New, New], Parts(0)));
        assert_eq!(told(&[2, 201, 200], &[4, 203, 202]), (vec![New, New, New], Stranger));
        let cut = align(&line(&[1, 2]), &list(&[1, 4]), |element, place| (element, place) == (1, 1));
        assert_eq!(cut.fates, [Known(0), Revised(1)]);
    }

    #[test]
    fn what_was_moved_is_not_said_again() {
        let (fates, verdict) = told(&[1, 2, 3, 4, 5], &[1, 4, 2, 3, 5]);
        assert!(fates.iter().all(|fate| matches!(fate, Known(_))), "{fates:?}");
        assert_eq!(verdict, Grows);
    }

    #[test]
    fn our_folds_stand_for_what_they_are_of() {
        let mut shown = list(&[1, 100, 4, 5]);
        shown[1].folds = Some(vec![1..2, 2..3]);
        let aligned = align(&line(&[1, 2, 3, 4]), &shown, |_, _| false);
        assert_eq!(aligned.fates, [Known(0), Fate::Ours, Known(3), New]);
        assert_eq!(aligned.verdict, Grows);
        // The head is gone, the fold proves what follows.
        let aligned = align(&line(&[1, 2, 3, 4]), &shown[1..], |_, _| false);
        assert_eq!((aligned.fates, aligned.verdict), (vec![Fate::Ours, Known(3), New], Grows));
        // A fold alone: what follows it is left.
        let aligned = align(&line(&[1, 2, 3, 4]), &shown[1..2], |_, _| false);
        assert_eq!((aligned.fates, aligned.verdict), (vec![Fate::Ours], Grows));
        let aligned = align(&line(&[1, 2, 3, 4]), &[shown[1].clone(), shown[3].clone()], |_, _| false);
        assert_eq!((aligned.fates, aligned.verdict), (vec![Fate::Ours, New], Parts(2)));
        // What was rewritten in front of a line of ours was rewritten.
        let mut shown = list(&[9, 100, 2, 3]);
        shown[1].folds = Some(Vec::new());
        let aligned = align(&line(&[1, 2, 3]), &shown, |_, _| false);
        assert_eq!(aligned.fates, [Revised(0), Fate::Ours, Known(1), Known(2)]);
        // A fold of steps of the present request stands before that request, and its place tells nothing.
        let mut shown = list(&[1, 100, 2, 5, 6]);
        shown[1].folds = Some(Vec::new());
        let aligned = align(&line(&[1, 2, 3, 4, 5]), &shown, |_, _| false);
        assert_eq!((aligned.fates, aligned.verdict), (vec![Known(0), Fate::Ours, Known(1), Known(4), New], Grows));
        // These steps were not left.
        let mut shown = list(&[1, 100, 2, 6]);
        (shown[1].folds, shown[1].later) = (Some(Vec::new()), vec![2..4]);
        let aligned = align(&line(&[1, 2, 3, 4]), &shown, |_, _| false);
        assert_eq!((aligned.fates, aligned.verdict), (vec![Known(0), Fate::Ours, Known(1), New], Grows));
        // What came behind them was.
        let aligned = align(&line(&[1, 2, 3, 4, 5]), &shown, |_, _| false);
        assert_eq!((aligned.fates, aligned.verdict), (vec![Known(0), Fate::Ours, Known(1), New], Parts(3)));
    }

    #[test]
    fn a_fold_where_its_places_do_not_belong_is_what_somebody_said() {
        let mut shown = list(&[1, 2, 3, 100, 5]);
        shown[3].folds = Some(vec![0..2]);
        let aligned = align(&line(&[1, 2, 3]), &shown, |_, _| false);
        assert_eq!((aligned.fates, aligned.verdict), (vec![Known(0), Known(1), Known(2), New, New], Grows));
        let aligned = align(&line(&[1, 2, 3, 100]), &shown, |_, _| false);
        assert_eq!((aligned.fates[3], aligned.verdict), (Known(3), Grows));
    }

    #[test]
    fn what_a_fold_stands_for_is_said_again_when_it_is_shown_behind_the_fold() {
        let mut shown = list(&[100, 8, 4, 12, 10]);
        shown[0].folds = Some(vec![0..3]);
        let aligned = align(&line(&[2, 4, 6, 8, 10]), &shown, |_, _| false);
        assert_eq!(aligned.fates, [Fate::Ours, Known(3), Late(Some(3)), Late(Some(3)), Known(4)]);
    }

    #[test]
    fn what_a_fold_is_not_of_is_known_beside_it() {
        let mut shown = list(&[100, 2, 4]);
        shown[0].folds = Some(vec![0..1, 2..3]);
        let aligned = align(&line(&[1, 2, 3, 4]), &shown, |_, _| false);
        assert_eq!((aligned.fates, aligned.verdict), (vec![Fate::Ours, Known(1), Known(3)], Grows));
    }

    #[test]
    fn a_part_is_its_message_and_a_copy_of_a_part_is_a_message() {
        let mut shown = list(&[9, 2, 9]);
        shown[0].whole = Some(id(1));
        shown[2].whole = Some(id(1));
        assert_eq!(align(&line(&[1, 2]), &shown, |_, _| false).fates, [Known(0), Known(1), New]);
        assert_eq!(align(&line(&[1, 2, 9]), &shown, |_, _| false).fates, [Known(0), Known(1), Known(2)]);
    }

    #[test]
    fn a_result_that_was_moved_and_rewritten_is_that_result() {
        let (fates, verdict) = told(&[1, 201, 200, 5, 7], &[1, 201, 5, 202, 7]);
        assert_eq!((fates, verdict), (vec![Known(0), Known(1), Known(3), Revised(2), Known(4)], Grows));
    }

    #[test]
    fn of_equal_messages_the_first_is_the_one_that_is_known() {
        assert_eq!(told(&[4, 1, 2], &[2, 6, 2]).0, [Known(2), New, New]);
    }

    /// What a host does with its list.
    #[derive(Clone, Debug)]
    enum Change {
        Drop(usize, usize),
        Cut(usize),
        Swap(usize, usize),
        Restore,
        Say,
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let change = prop_oneof![
            (0_usize..60, 0_usize..6).prop_map(|(at, count)| Change::Drop(at, count)),
            (0_usize..60).prop_map(Change::Cut),
            (0_usize..60, 0_usize..60).prop_map(|(one, other)| Change::Swap(one, other)),
            Just(Change::Restore),
            Just(Change::Say),
        ];
        prop::collection::vec(change, 0..30)
    }

    /// Takes a list in as ingest would; gives what the timeline is then, each place with the forms it had.
    fn taken_in(line_of: &[Vec<u8>], list_of: &[u8]) -> Vec<Vec<u8>> {
        let stood: Vec<Stood> = line_of
            .iter()
            .map(|forms| Stood { forms: forms.iter().map(|n| id(*n)).collect(), signs: signs(forms[0]) })
            .collect();
        let Alignment { fates, verdict } = align(&stood, &list(list_of), |_, _| false);
        let mut line: Vec<(usize, Vec<u8>)> = (1..).map(|at| 2 * at).zip(line_of.iter().cloned()).collect();
        for (fate, &n) in fates.iter().zip(list_of) {
            if let Revised(place) = fate {
                line[*place].1.push(n);
            }
        }
        if let Parts(last) = verdict {
            line.truncate(last + 1);
        }
        if verdict == Stranger {
            line.clear();
        }
        let mut end = 2 * line_of.len() + 4;
        for (fate, &n) in fates.iter().zip(list_of) {
            match fate {
                New => {
                    line.push((end, vec![n]));
                    end += 1;
                }
                Late(behind) => line.push((behind.map_or(1, |at| 2 * at + 3), vec![n])),
                _ => {}
            }
        }
        line.sort_by_key(|(at, _)| *at);
        line.into_iter().map(|(_, forms)| forms).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

        /// Distinct messages, so that what is doubled shows.
        #[test]
        fn whatever_a_host_does_nothing_is_lost_and_nothing_is_doubled(start in 1_u8..60, changes in changes()) {
            let mut next = start;
            let mut list: Vec<u8> = (0..start).collect();
            let mut said = list.clone();
            let mut line: Vec<Vec<u8>> = list.iter().map(|n| vec![*n]).collect();
            for change in changes {
                match change {
                    Change::Drop(at, count) => {
                        // The end stays: a host that drops it and goes on has gone back.
                        let last = list.len().saturating_sub(1);
                        let at = at.min(last);
                        list.drain(at..(at + count).min(last));
                    }
                    Change::Cut(at) => { list.drain(..at.min(list.len().saturating_sub(1))); }
                    Change::Swap(one, other) => {
                        let inner = list.len().saturating_sub(2);
                        if inner > 1 { list.swap(1 + one % inner, 1 + other % inner); }
                    }
                    Change::Restore => list = line.iter().map(|forms| forms[0]).collect(),
                    Change::Say if next < 190 => {
                        list.push(next);
                        said.push(next);
                        next += 1;
                    }
                    Change::Say => {}
                }
                line = taken_in(&line, &list);
                let mut kept: Vec<u8> = line.iter().map(|forms| forms[0]).collect();
                kept.sort_unstable();
                prop_assert_eq!(&kept, &said, "list {:?}", list);
                prop_assert_eq!(taken_in(&line, &list), line.clone(), "shown again, {:?}", list);
            }
        }

        #[test]
        fn every_element_has_one_fate_whatever_comes(line_of in prop::collection::vec(0_u8..12, 0..40), list_of in prop::collection::vec(0_u8..12, 0..40)) {
            let (fates, verdict) = told(&line_of, &list_of);
            prop_assert_eq!(fates.len(), list_of.len());
            let mut taken = vec![false; line_of.len()];
            for (fate, &n) in fates.iter().zip(&list_of) {
                if let Known(place) | Revised(place) = fate {
                    prop_assert!(!std::mem::replace(&mut taken[*place], true), "two elements at {place}");
                }
                if let Known(place) = fate {
                    prop_assert_eq!(line_of[*place], n);
                }
            }
            if let Parts(last) = verdict {
                prop_assert!(last < line_of.len());
            }
            // What was taken in is known when it is shown again, in the order in which it was said.
            let known: Vec<usize> =
                fates.iter().filter_map(|fate| if let Known(place) = fate { Some(*place) } else { None }).collect();
            if !known.is_sorted() {
                return Ok(());
            }
            let line_of: Vec<Vec<u8>> = line_of.into_iter().map(|n| vec![n]).collect();
            let line = taken_in(&line_of, &list_of);
            prop_assert_eq!(taken_in(&line, &list_of).len(), line.len());
        }
    }
}
