//! Ranked search: any of the words, best first.
//!
//! BM25 over the forms of each word, plus a part of what the two neighbours in the timeline score: an answer seldom
//! repeats the words of its question. Measured on the development halves (recall in percent):
//!
//! | what                                   | BEAM R@10 | BFCL R@5 | needles R@5 |
//! |----------------------------------------|-----------|----------|-------------|
//! | words as they are, no neighbours       | 43.8      | 90.2     | 100         |
//! | words as they are, neighbours 0.35     | 46.4      | 93.9     | 100         |
//! | forms of words, neighbours 0.35        | 47.2      | 97.6     | 100         |
//! | ... and a tenth of their block's score | 47.0      | 98.8     | 100         |
//! | ... and a half of their block's score  | 45.4      | 95.1     | 100         |
//!
//! So blocks are left out. Statistics are those of the scope, index and tail together: a score neither jumps when
//! places are indexed, nor tells anything of what the reader may not see.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use lcm_core::{Arrival, OrderKey, TimelineId};
use rayon::prelude::*;
use tantivy::postings::{Postings, TermInfo};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED};

use super::inflect;
use super::look::NumberHasher;
use super::needle::{End, Needle};
use super::reach::{Part, Reach, Reader, is_summary};
use super::segments::{Columns, Opened, Segment};
use super::tail::{Fresh, Kept};
use super::tokenize::{Splitter, length, token_hash};
use super::words::{Admission, bounded, spanned};
use crate::error::{StoreError, contained, unless_damaged};
use crate::record::PlaceRow;
use crate::tables;

/// How soon saying a word again counts less.
const K1: f32 = 1.2;
/// How much a long text counts less.
const B: f32 = 0.75;
/// What a neighbour's score counts.
const NEIGHBOUR: f32 = 0.35;
/// What a word like `the` counts beside one that says more.
const STOP_WORD: f32 = 0.2;
/// Groups of a query that are looked up; a question has ten, a pasted page ends here.
const GROUPS_MAX: usize = 128;
/// A question of more groups than this is decided by its rarer words: what stands in more than one of `COMMON` places in
/// scope is not scored, but for the rarest few.
const GROUPS_FEW: usize = 24;
const GROUPS_RAREST: usize = 6;
const COMMON: f32 = 32.0;
/// Below one in so many places with words, sums are kept for those alone.
const SPARSE: usize = 16;

/// A question, taken apart.
pub(crate) struct Question {
    groups: Vec<Group>,
    /// What to mark in a text.
    pub(crate) needles: Vec<Needle>,
}

/// Forms of one word.
struct Group {
    forms: Vec<String>,
    weight: f32,
}

impl Question {
    pub(crate) fn new(text: &str) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut bases: Vec<String> = Vec::new();
        let mut needles = Vec::new();
        Splitter::default().tokens(bounded(text), |token| {
            let base = inflect::base(token);
            if groups.len() == GROUPS_MAX || bases.contains(&base) {
                return;
            }
            let mut forms = inflect::forms(&base);
            if !forms.iter().any(|form| form == token) {
                forms.push(token.to_owned());
            }
            let is_stop_word = inflect::is_stop_word(token);
            if !is_stop_word {
                let shares_beginning = base.len() > 3 && token.starts_with(base.as_str());
                let (text, end) = if shares_beginning { (base.as_str(), End::InWord) } else { (token, End::Border) };
                needles.extend(Needle::literal(text, end));
            }
            groups.push(Group { forms, weight: if is_stop_word { STOP_WORD } else { 1.0 } });
            bases.push(base);
        });
        // Two words that say something are enough to leave out those that say nothing.
        if groups.iter().filter(|group| group.weight >= 1.0).count() >= 2 {
            groups.retain(|group| group.weight >= 1.0);
        }
        Self { groups, needles }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// A place that was found, with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) arrival: u64,
    pub(crate) score: f32,
    /// Whether it has words of the question itself, and is not only beside such a place.
    pub(crate) has_words: bool,
}

/// Counts of one group of words in one place.
struct Count {
    /// Which place, in the order of the source.
    number: u32,
    times: u32,
}

/// Where places come from: a segment of the index, or the tail.
struct Source {
    /// For each group, where it stands, rising.
    counts: Vec<Vec<Count>>,
    places: Places,
}

/// What a source tells of its places.
enum Places {
    Segment(Arc<Segment>),
    /// Of each.
    Tail(Vec<Facts>),
}

/// What ranking needs to know of a place.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    arrival: u64,
    timeline: u64,
    anchor: u64,
    length: u64,
}

/// Sums over the scope.
#[derive(Default)]
struct Sums {
    places: u64,
    /// Of their lengths.
    lengths: u64,
}

impl Sums {
    fn is_common(&self, with: u64) -> bool {
        float(with) * COMMON > float(self.places)
    }
}

/// In how many places a group stands: at least, and at most.
#[derive(Clone, Copy)]
struct Bounds {
    least: u64,
    most: u64,
}

/// Finds the best places for a question, best first, at least `max` of them where there are as many; and says how many
/// places that are not indexed cannot be read.
pub(crate) fn rank(
    question: &Question,
    reach: &Reach<'_>,
    opened: Option<&Opened>,
    kept: Option<&Kept>,
    above: u64,
    max: usize,
) -> Result<(Vec<Ranked>, u64), StoreError> {
    let mut sums = Sums::default();
    let segments = opened.map(|opened| opened.segments.as_slice()).unwrap_or_default();
    let mut indexed = Vec::with_capacity(segments.len());
    for segment in segments {
        indexed.push(Indexed::counted_in(question, reach, segment, &mut sums)?);
    }
    let (tail, lost) = match kept {
        Some(kept) => (in_kept(question, reach, kept, above, &mut sums)?, kept.lost(above, reach.last)),
        None => in_truth(question, reach, above, &mut sums)?,
    };
    let is_passed_over = surely_passed_over(&tail, &indexed, &sums);
    let mut sources = Vec::with_capacity(indexed.len() + 1);
    for segment in indexed {
        sources.push(segment.read(&is_passed_over)?);
    }
    // Behind the segments: it may hold places that are indexed by now.
    sources.push(tail);
    let mut lookups = Vec::with_capacity(sources.len());
    for source in &sources {
        lookups.push(source.places.lookup()?);
    }
    let weights = weights(question, &sources, &sums, &is_passed_over);
    let average = (float(sums.lengths) / float(sums.places).max(1.0)).max(1.0);
    let scores: Vec<Scores> =
        sources.iter().zip(&lookups).map(|(source, lookup)| score(source, lookup, &weights, average)).collect();
    // A place owes at most 0.7 of a neighbour's score to its neighbours, so whoever comes in front stands in or
    // beside the best few.
    let best = best(&lookups, &scores, max.saturating_mul(2).saturating_add(32));
    Ok((with_neighbours(&best, &lookups, &scores, reach)?, lost))
}

/// Which groups are passed over for sure, told before it is read where they stand. [`weights`] has the rule itself.
fn surely_passed_over(tail: &Source, indexed: &[Indexed<'_>], sums: &Sums) -> Vec<bool> {
    let bounds = |(group, counts): (usize, &Vec<Count>)| {
        let fresh = Bounds { least: count(counts), most: count(counts) };
        indexed
            .iter()
            .map(|segment| segment.bounds(group))
            .fold(fresh, |sum, one| Bounds { least: sum.least + one.least, most: sum.most + one.most })
    };
    let bounds: Vec<Bounds> = tail.counts.iter().enumerate().map(bounds).collect();
    let is_sure = |one: &Bounds| {
        bounds.len() > GROUPS_FEW
            && sums.is_common(one.least)
            && bounds.iter().filter(|other| other.most < one.least).count() >= GROUPS_RAREST
    };
    bounds.iter().map(is_sure).collect()
}

/// A segment of the index, and what of it is in scope.
struct Indexed<'a> {
    segment: &'a Arc<Segment>,
    admission: Admission<'a>,
    /// Documents in scope, rising, where the scope names sessions.
    reached: Option<Vec<u32>>,
    /// Nearly always all that is in a segment is in scope; then no document of it is asked about.
    is_whole: bool,
    /// For each group, its words that are in the segment.
    terms: Vec<Vec<TermInfo>>,
}

impl<'a> Indexed<'a> {
    /// A segment whose places in scope are added to `sums`.
    fn counted_in(
        question: &Question,
        reach: &'a Reach<'_>,
        segment: &'a Arc<Segment>,
        sums: &mut Sums,
    ) -> Result<Self, StoreError> {
        let columns = segment.columns()?;
        let mut admission = Admission::new(reach, columns);
        let mut reached: Option<Vec<u32>> = None;
        let mut is_whole = false;
        match spanned(segment, reach)? {
            Some(docs) => {
                let mut inside = Vec::with_capacity(docs.len());
                for doc in docs {
                    if admission.is_reached(doc)? {
                        sums.places += 1;
                        sums.lengths += columns.length.get_val(doc);
                        inside.push(doc);
                    }
                }
                reached = Some(inside);
            }
            None => {
                let mut totals: Vec<(u64, (u64, u64))> =
                    segment.totals()?.iter().map(|(timeline, sum)| (*timeline, *sum)).collect();
                totals.sort_unstable();
                is_whole = columns.arrival.max_value() <= reach.last;
                for (timeline, (places, lengths)) in totals {
                    let part = reach.part(timeline)?;
                    is_whole &= part == Part::All;
                    if part != Part::Nothing {
                        sums.places += places;
                        sums.lengths += lengths;
                    }
                }
            }
        }
        let mut terms = Vec::with_capacity(question.groups.len());
        for group in &question.groups {
            let mut known = Vec::new();
            for form in &group.forms {
                known.extend(segment.term(form)?);
            }
            terms.push(known);
        }
        Ok(Self { segment, admission, reached, is_whole, terms })
    }

    /// In how many places a group stands, told without reading where.
    fn bounds(&self, group: usize) -> Bounds {
        let each = || self.terms[group].iter().map(|term| u64::from(term.doc_freq));
        Bounds { least: each().max().filter(|_| self.is_whole).unwrap_or_default(), most: each().sum() }
    }

    /// Reads where the groups stand that are not passed over.
    fn read(mut self, is_passed_over: &[bool]) -> Result<Source, StoreError> {
        let mut counts = Vec::with_capacity(self.terms.len());
        for (terms, is_passed_over) in std::mem::take(&mut self.terms).iter().zip(is_passed_over) {
            counts.push(if *is_passed_over { Vec::new() } else { self.places_with(terms)? });
        }
        Ok(Source { counts, places: Places::Segment(self.segment.clone()) })
    }

    fn places_with(&mut self, terms: &[TermInfo]) -> Result<Vec<Count>, StoreError> {
        let with: u64 = terms.iter().map(|term| u64::from(term.doc_freq)).sum();
        let most = match &self.reached {
            Some(docs) => docs.len(),
            None if self.is_whole => usize::MAX,
            None => 0,
        };
        let mut found: Vec<Count> = Vec::with_capacity(most.min(usize::try_from(with).unwrap_or(0)));
        for term in terms {
            let mut postings = self.segment.postings(term, IndexRecordOption::WithFreqs)?;
            let mut doc = postings.doc();
            let mut at = 0;
            while doc != TERMINATED {
                let is_reached = match &self.reached {
                    Some(docs) => {
                        // Both rise; what lies between is jumped over.
                        at += docs[at..].partition_point(|known| *known < doc);
                        match docs.get(at) {
                            Some(&known) if known == doc => true,
                            Some(&known) => {
                                doc = postings.seek(known);
                                continue;
                            }
                            None => break,
                        }
                    }
                    None => self.is_whole || self.admission.is_reached(doc)?,
                };
                if is_reached {
                    found.push(Count { number: doc, times: postings.term_freq() });
                }
                doc = postings.advance();
            }
        }
        if terms.len() > 1 {
            found.sort_by_key(|count| count.number);
            found.dedup_by(|next, kept| {
                let same = next.number == kept.number;
                if same {
                    kept.times += next.times;
                }
                same
            });
        }
        Ok(found)
    }
}

fn in_kept(
    question: &Question,
    reach: &Reach<'_>,
    kept: &Kept,
    above: u64,
    sums: &mut Sums,
) -> Result<Source, StoreError> {
    let mut places = Vec::with_capacity(kept.places.len());
    let mut reached = Vec::with_capacity(kept.places.len());
    for place in &kept.places {
        let is_reached = above < place.arrival
            && place.arrival <= reach.last
            && reach.part(place.timeline)?.may_hold(place.arrival, place.anchor);
        if is_reached {
            sums.places += 1;
            sums.lengths += place.length;
        }
        reached.push(is_reached);
        let &Fresh { arrival, timeline, anchor, length, .. } = place;
        places.push(Facts { arrival, timeline, anchor, length });
    }
    let mut counts = Vec::with_capacity(question.groups.len());
    for group in &question.groups {
        let mut times: Vec<(u32, u32)> = Vec::new();
        for form in &group.forms {
            times.extend_from_slice(kept.with_token(token_hash(form)));
        }
        times.sort_unstable();
        let mut found: Vec<Count> = Vec::new();
        for (number, times) in times {
            if !usize::try_from(number).is_ok_and(|at| reached.get(at) == Some(&true)) {
                continue;
            }
            match found.last_mut() {
                Some(last) if last.number == number => last.times += times,
                _ => found.push(Count { number, times }),
            }
        }
        counts.push(found);
    }
    Ok(Source { counts, places: Places::Tail(places) })
}

/// A place read from truth, and how often each group of words stands in it.
type Counted = (Facts, Vec<u32>);

/// The same, read from truth by a process that keeps nothing.
fn in_truth(question: &Question, reach: &Reach<'_>, above: u64, sums: &mut Sums) -> Result<(Source, u64), StoreError> {
    /// Places read by one task.
    const STRIDE: u64 = 256;
    let mut by_form: HashMap<u64, usize, BuildHasherDefault<NumberHasher>> = HashMap::default();
    for (number, group) in question.groups.iter().enumerate() {
        by_form.extend(group.forms.iter().map(|form| (token_hash(form), number)));
    }
    let strides: Vec<u64> = (above + 1..=reach.last).step_by(usize::try_from(STRIDE).unwrap_or(1)).collect();
    // What is read of one place; `None` when it is not reached.
    let count =
        |arrival: Arrival, row: &PlaceRow, reader: &mut Reader, splitter: &mut Splitter| {
            let anchor = row.order_key(arrival)?.anchor().0;
            if !reach.part(row.timeline)?.may_hold(arrival.0, anchor) {
                return Ok(Some(None));
            }
            let counted = reader.read(reach.snapshot, row, |said| {
                let mut times = vec![0; question.groups.len()];
                splitter.tokens(said.text, |token| {
                    if let Some(&group) = by_form.get(&token_hash(token)) {
                        times[group] += 1;
                    }
                });
                (length(said.text), times)
            })?;
            Ok::<_, StoreError>(counted.map(|(length, times)| {
                Some((Facts { arrival: arrival.0, timeline: row.timeline, anchor, length }, times))
            }))
        };
    let read_stride = |from: u64| -> Result<(Vec<Counted>, u64), StoreError> {
        let (mut reader, mut splitter) = (Reader::default(), Splitter::default());
        let (mut found, mut lost) = (Vec::new(), 0);
        for (arrival, row) in reach.snapshot.place_rows(from..=reach.last.min(from + STRIDE - 1))? {
            let counted = row.and_then(|row| count(arrival, &row, &mut reader, &mut splitter));
            match unless_damaged(counted)?.flatten() {
                None => lost += 1,
                Some(counted) => found.extend(counted),
            }
        }
        Ok((found, lost))
    };
    let read = |from: &u64| contained(reach.snapshot.pin.path(), || read_stride(*from));
    let strides: Result<Vec<_>, StoreError> = match strides.as_slice() {
        [one] => Ok(vec![read(one)?]),
        many => many.par_iter().map(read).collect(),
    };
    let strides = strides?;
    let lost = strides.iter().map(|(_, lost)| lost).sum();
    let mut places = Vec::new();
    let mut counts: Vec<Vec<Count>> = question.groups.iter().map(|_| Vec::new()).collect();
    for (facts, times) in strides.into_iter().flat_map(|(counted, _)| counted) {
        let number = u32::try_from(places.len()).unwrap_or(u32::MAX);
        places.push(facts);
        sums.places += 1;
        sums.lengths += facts.length;
        for (counts, times) in counts.iter_mut().zip(times) {
            if times > 0 {
                counts.push(Count { number, times });
            }
        }
    }
    Ok((Source { counts, places: Places::Tail(places) }, lost))
}

/// What is read of a source's places, by number.
enum Lookup<'a> {
    Segment {
        segment: &'a Segment,
        columns: &'a Columns,
        lengths: &'a [u32],
    },
    /// Rising by arrival.
    Tail(&'a [Facts]),
}

impl Places {
    fn lookup(&self) -> Result<Lookup<'_>, StoreError> {
        Ok(match self {
            Self::Segment(segment) => {
                Lookup::Segment { segment, columns: segment.columns()?, lengths: segment.lengths()? }
            }
            Self::Tail(places) => Lookup::Tail(places),
        })
    }
}

impl Lookup<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Segment { lengths, .. } => lengths.len(),
            Self::Tail(places) => places.len(),
        }
    }

    fn length(&self, number: u32) -> u64 {
        let at = usize::try_from(number).ok();
        match self {
            Self::Segment { lengths, .. } => at.and_then(|at| lengths.get(at)).copied().map_or(0, u64::from),
            Self::Tail(places) => at.and_then(|at| places.get(at)).map_or(0, |place| place.length),
        }
    }

    fn facts(&self, number: u32) -> Facts {
        match self {
            Self::Segment { columns, .. } => Facts {
                arrival: columns.arrival.get_val(number),
                timeline: columns.timeline.get_val(number),
                anchor: columns.anchor.get_val(number),
                length: columns.length.get_val(number),
            },
            Self::Tail(places) => {
                usize::try_from(number).ok().and_then(|at| places.get(at)).copied().unwrap_or_default()
            }
        }
    }

    fn arrival(&self, number: u32) -> u64 {
        match self {
            Self::Segment { columns, .. } => columns.arrival.get_val(number),
            Self::Tail(_) => self.facts(number).arrival,
        }
    }

    /// The number of the place that arrived as `arrival`; `near` is a number of a place that stands near it.
    fn number_of(&self, arrival: u64, near: Option<u32>) -> Result<Option<u32>, StoreError> {
        Ok(match self {
            Self::Segment { segment, columns, .. } => {
                // In a segment that one thread wrote documents follow one another as places do.
                let guess = near.and_then(|near| {
                    let apart = arrival.wrapping_sub(columns.arrival.get_val(near)).cast_signed();
                    u32::try_from(i64::from(near).saturating_add(apart)).ok()
                });
                segment.doc_of(arrival, guess)?
            }
            Self::Tail(places) => {
                let at = places.binary_search_by_key(&arrival, |place| place.arrival).ok();
                at.and_then(|at| u32::try_from(at).ok())
            }
        })
    }
}

/// Scores of a source's places.
enum Scores {
    /// By number, rising, of those that have words of the question.
    Few(Vec<(u32, f32)>),
    /// Of each.
    All(Vec<f32>),
}

impl Scores {
    fn get(&self, number: u32) -> f32 {
        match self {
            Self::Few(scores) => {
                let at = scores.binary_search_by_key(&number, |(number, _)| *number);
                at.map_or(0.0, |at| scores[at].1)
            }
            Self::All(scores) => {
                usize::try_from(number).ok().and_then(|at| scores.get(at)).copied().unwrap_or_default()
            }
        }
    }

    fn each(&self, mut each: impl FnMut(u32, f32)) {
        match self {
            Self::Few(scores) => scores.iter().for_each(|(number, score)| each(*number, *score)),
            Self::All(scores) => (0..).zip(scores).for_each(|(number, score)| each(number, *score)),
        }
    }
}

/// What each group counts; `None` where it is passed over.
fn weights(question: &Question, sources: &[Source], sums: &Sums, is_passed_over: &[bool]) -> Vec<Option<f32>> {
    let places = float(sums.places);
    let with: Vec<u64> = (0..question.groups.len())
        .map(|group| sources.iter().map(|source| count(&source.counts[group])).sum())
        .collect();
    let mut left: Vec<usize> = (0..with.len()).filter(|group| !is_passed_over[*group]).collect();
    left.sort_by_key(|group| with[*group]);
    let mut weights = vec![None; with.len()];
    let is_long = with.len() > GROUPS_FEW;
    for (nth, group) in left.into_iter().enumerate() {
        if !is_long || nth < GROUPS_RAREST || !sums.is_common(with[group]) {
            let with = float(with[group]).min(places);
            weights[group] = Some(question.groups[group].weight * (1.0 + (places - with + 0.5) / (with + 0.5)).ln());
        }
    }
    weights
}

/// Scores every place of a source that has words of the question.
fn score(source: &Source, lookup: &Lookup<'_>, weights: &[Option<f32>], average: f32) -> Scores {
    let part = |count: &Count, weight: f32| {
        let times = float(u64::from(count.times));
        let length = float(lookup.length(count.number));
        weight * times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * length / average))
    };
    let groups = || source.counts.iter().zip(weights).filter_map(|(counts, weight)| Some((counts, (*weight)?)));
    let counted: usize = groups().map(|(counts, _)| counts.len()).sum();
    if counted < lookup.len() / SPARSE {
        let mut scores = Vec::with_capacity(counted);
        for (counts, weight) in groups() {
            scores.extend(counts.iter().map(|count| (count.number, part(count, weight))));
        }
        // Stable, so that the parts of a place are summed in the order of the groups: here, and below.
        scores.sort_by_key(|(number, _)| *number);
        scores.dedup_by(|next, sum| {
            let same = next.0 == sum.0;
            if same {
                sum.1 += next.1;
            }
            same
        });
        return Scores::Few(scores);
    }
    let mut scores = vec![0.0_f32; lookup.len()];
    for (counts, weight) in groups() {
        for count in counts {
            if let Some(score) = usize::try_from(count.number).ok().and_then(|at| scores.get_mut(at)) {
                *score += part(count, weight);
            }
        }
    }
    Scores::All(scores)
}

/// A place that has words of the question.
#[derive(Clone, Copy)]
struct Scored {
    source: usize,
    number: u32,
    score: f32,
}

/// The best places, at most `max`, best first and of equal ones the newest.
fn best(lookups: &[Lookup<'_>], scores: &[Scores], max: usize) -> Vec<Scored> {
    let arrival = |place: &Scored| lookups[place.source].arrival(place.number);
    let best_first = |a: &Scored, b: &Scored| b.score.total_cmp(&a.score).then_with(|| arrival(b).cmp(&arrival(a)));
    let mut best: Vec<Scored> = Vec::new();
    let mut least = 0.0;
    for (source, scores) in scores.iter().enumerate() {
        scores.each(|number, score| {
            if score <= 0.0 || score < least {
                return;
            }
            best.push(Scored { source, number, score });
            if best.len() >= max.saturating_mul(2) {
                best.select_nth_unstable_by(max - 1, best_first);
                best.truncate(max);
                least = best[max - 1].score;
            }
        });
    }
    best.sort_unstable_by(best_first);
    best.truncate(max);
    best
}

/// Adds to each of the best places a part of what its neighbours score, and the neighbours themselves.
fn with_neighbours(
    best: &[Scored],
    lookups: &[Lookup<'_>],
    scores: &[Scores],
    reach: &Reach<'_>,
) -> Result<Vec<Ranked>, StoreError> {
    let own = |arrival: Option<u64>, near: &Scored| {
        let Some(arrival) = arrival else { return Ok(0.0) };
        // Most stand in the same segment. The tail, which is the last, holds places too that are indexed by now and have
        // their scores there.
        let tail = lookups.len().saturating_sub(1);
        let first = (near.source != tail).then_some(near.source);
        for source in first.into_iter().chain((0..lookups.len()).filter(|source| Some(*source) != first)) {
            let near = (source == near.source).then_some(near.number);
            if let Some(number) = lookups[source].number_of(arrival, near)? {
                return Ok(scores[source].get(number));
            }
        }
        Ok::<f32, StoreError>(0.0)
    };
    let mut ranked: HashMap<u64, Ranked, BuildHasherDefault<NumberHasher>> = HashMap::default();
    for place in best {
        // The place itself in the middle, two on each side.
        let around = around(reach, &lookups[place.source].facts(place.number))?;
        let mut scores = [0.0; 5];
        for (score, arrival) in scores.iter_mut().zip(around) {
            *score = own(arrival, place)?;
        }
        for at in 1..4 {
            let Some(arrival) = around[at] else { continue };
            let score = scores[at] + NEIGHBOUR * (scores[at - 1] + scores[at + 1]);
            ranked.entry(arrival).or_insert(Ranked { arrival, score, has_words: scores[at] > 0.0 });
        }
    }
    let mut ranked: Vec<Ranked> = ranked.into_values().collect();
    ranked.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(b.arrival.cmp(&a.arrival)));
    Ok(ranked)
}

/// A place with the two before and the two behind it in its timeline.
fn around(reach: &Reach<'_>, place: &Facts) -> Result<[Option<u64>; 5], StoreError> {
    let arrival = Arrival(place.arrival);
    let mut around = [None, None, Some(place.arrival), None, None];
    let order = if place.anchor == place.arrival {
        // Appended, as nearly all are: its order key is its number.
        OrderKey::appended(arrival)
    } else {
        let row = match unless_damaged(reach.snapshot.place_row(arrival))? {
            Some(Some(row)) => row,
            Some(None) => return Ok([None; 5]),
            // Who reads it will tell.
            None => return Ok(around),
        };
        if is_summary(&row) {
            // A summary stands for a run of places and beside none.
            return Ok(around);
        }
        row.order_key(arrival)?
    };
    let timeline = TimelineId(place.timeline);
    let key = tables::timeline_key(timeline, order.as_bytes());
    let (low, high) =
        (tables::timeline_key(timeline, &[]), tables::timeline_key(TimelineId(timeline.0.saturating_add(1)), &[]));
    let table = &reach.snapshot.tables.timeline;
    for (slot, entry) in [1, 0].into_iter().zip(table.range(low.as_slice()..key.as_slice())?.rev()) {
        around[slot] = Some(entry?.1.value());
    }
    for (slot, entry) in [3, 4].into_iter().zip(table.range(key.as_slice()..high.as_slice())?.skip(1)) {
        around[slot] = Some(entry?.1.value());
    }
    Ok(around)
}

fn count(counts: &[Count]) -> u64 {
    u64::try_from(counts.len()).unwrap_or(u64::MAX)
}

/// Counts as scores take them: beyond 16 million they may be off by one, which no score shows.
fn float(number: u64) -> f32 {
    number as f32
}

/// A score in thousandths.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits, and never below 0")]
pub(crate) fn thousandths(score: f32) -> u32 {
    (score * 1000.0).clamp(0.0, 4_000_000.0) as u32
}

#[cfg(test)]
mod tests {
    //! That the best are found among many as by sorting all of them.

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_best_are_those_that_sorting_gives(
            few in prop::collection::vec(0..6_u8, 0..60),
            all in prop::collection::vec(0..6_u8, 0..200),
            max in 1..20_usize,
        ) {
            let places = |count: usize, first: u64| -> Vec<Facts> {
                (first..).take(count).map(|arrival| Facts { arrival, ..Facts::default() }).collect()
            };
            let (earlier, later) = (places(few.len(), 1), places(all.len(), 1000));
            let lookups = [Lookup::Tail(&earlier), Lookup::Tail(&later)];
            let few: Vec<(u32, f32)> = (0..).zip(few.into_iter().map(f32::from)).filter(|(_, score)| *score > 0.0).collect();
            let scores = [Scores::Few(few), Scores::All(all.into_iter().map(f32::from).collect())];
            let mut expected: Vec<(f32, u64)> = Vec::new();
            for (scores, lookup) in scores.iter().zip(&lookups) {
                scores.each(|number, score| expected.push((score, lookup.arrival(number))));
            }
            expected.retain(|(score, _)| *score > 0.0);
            expected.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
            expected.truncate(max);
            let found: Vec<(f32, u64)> = best(&lookups, &scores, max)
                .iter()
                .map(|place| (place.score, lookups[place.source].arrival(place.number)))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
