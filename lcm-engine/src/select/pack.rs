//! Fills the room for what is recalled: the best passages first, each with what it belongs to.
//!
//! What a call was given in short stands with whatever is shown of the call or of its results, and a short result
//! with its call. Passages of one message stand together, in order. What the list shows already, or another passage
//! said, is not said again.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use super::find::{Came, Candidate, Question};
use super::score::{Passage, Weighed};
use crate::assemble::recall::{self, Original, Piece, Segment};
use crate::service::Recalled;

/// Passages with less than this part of the best score are about something else.
const FAINT: f32 = 0.12;
/// What a call was given is short up to here, bytes; and so many of these are shown.
const SHORT_BYTES: usize = 200;
const SHORT_MAX: usize = 6;
/// A line that is shorter says nothing by which it could be known again.
const LINE_BYTES_MIN: usize = 9;
/// A passage is known when so many fifths of its lines are.
const KNOWN_FIFTHS: usize = 4;
/// With less room there is nothing more to try: tokens.
const ROOM_MIN: u64 = 60;
/// Candidates that are named as left out.
const LEFT_OUT_MAX: usize = 8;

/// Lines that are shown, by their hash.
#[derive(Clone, Default)]
pub(super) struct Lines(HashSet<u64>);

impl Lines {
    /// Adds the lines of a text.
    pub(super) fn add(&mut self, text: &str) {
        self.0.extend(lines_of(text));
    }

    fn has_most(&self, text: &str) -> bool {
        let (mut all, mut known) = (0, 0);
        for line in lines_of(text) {
            all += 1;
            known += usize::from(self.0.contains(&line));
        }
        all > 0 && known * 5 >= all * KNOWN_FIFTHS
    }
}

fn lines_of(text: &str) -> impl Iterator<Item = u64> {
    text.lines().map(str::trim).filter(|line| line.len() >= LINE_BYTES_MIN).map(|line| {
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        hasher.finish()
    })
}

/// What is recalled.
pub(super) struct Packed {
    pub(super) text: String,
    pub(super) recalled: Vec<Recalled>,
    pub(super) left_out: Vec<Recalled>,
}

/// What was chosen of one candidate.
#[derive(Default)]
struct Chosen {
    pieces: Vec<(usize, Range<usize>)>,
    score: f32,
    reasons: Vec<String>,
}

struct Packing<'a> {
    candidates: &'a [Candidate],
    count: &'a dyn Fn(&str) -> u64,
    /// By number, which is the order in which they were said.
    chosen: BTreeMap<usize, Chosen>,
    left: u64,
    frame: u64,
}

/// Packs passages into `room` tokens, as `count` counts them; `None` where nothing is worth it.
pub(super) fn pack(
    weighed: &Weighed,
    candidates: &[Candidate],
    question: &Question<'_>,
    mut shown: Lines,
    room: u64,
    count: &dyn Fn(&str) -> u64,
) -> Option<Packed> {
    let frame = count(&recall::frame());
    let intro = count(&recall::block(std::iter::empty()));
    let mut packing = Packing { candidates, count, chosen: BTreeMap::new(), left: room.checked_sub(intro)?, frame };
    let is_weighed = |passage: &&Passage| candidates[passage.candidate].came != Came::CutOff;
    let best = weighed.passages.iter().find(is_weighed).map_or(0.0, |passage| passage.score);
    let mut missed: Vec<(&Passage, &str)> = Vec::new();
    for passage in &weighed.passages {
        if passage.score <= best * FAINT || packing.left < ROOM_MIN {
            break;
        }
        let candidate = &candidates[passage.candidate];
        let segments = recall::segments(&candidate.told);
        let Some(text) = segments.get(passage.segment).and_then(|segment| segment.text.get(passage.range.clone()))
        else {
            continue;
        };
        // What was cut off would be shown whole, whatever else says the same.
        if candidate.came != Came::CutOff && shown.has_most(text) {
            missed.push((passage, "what it says is shown already"));
            continue;
        }
        let reasons = || weighed.reasons(passage, candidate, question);
        if packing.take(passage, &segments, text, reasons) {
            shown.add(text);
        } else {
            missed.push((passage, "there is no room for it"));
        }
    }
    (!packing.chosen.is_empty()).then(|| packing.finish(weighed, question, &missed))
}

/// A candidate that goes with another, and what is shown of its segments.
type Along = (usize, Vec<(usize, Range<usize>)>);

impl Packing<'_> {
    /// Takes a passage with what belongs to it, when there is room.
    fn take(
        &mut self,
        passage: &Passage,
        segments: &[Segment<'_>],
        text: &str,
        reasons: impl FnOnce() -> Vec<String>,
    ) -> bool {
        let at = passage.candidate;
        let Some(segment) = segments.get(passage.segment) else { return false };
        let mut cost = (self.count)(&recall::quote(segment, text));
        let mut with: Vec<Along> = Vec::new();
        let is_fresh = !self.chosen.contains_key(&at);
        if is_fresh {
            cost += self.frame;
            let candidate = &self.candidates[at];
            let call = candidate.call.filter(|call| !self.chosen.contains_key(call));
            for other in [Some(at), call].into_iter().flatten() {
                let given = short(&self.candidates[other], true);
                if !given.is_empty() {
                    with.push((other, given));
                }
            }
            for &result in candidate.results.iter().filter(|result| !self.chosen.contains_key(result)) {
                let said = short(&self.candidates[result], false);
                if !said.is_empty() {
                    with.push((result, said));
                }
            }
            for (other, pieces) in &with {
                let segments = recall::segments(&self.candidates[*other].told);
                let quoted = pieces.iter().filter_map(|(at, range)| {
                    let segment = segments.get(*at)?;
                    Some((self.count)(&recall::quote(segment, segment.text.get(range.clone())?)))
                });
                cost += quoted.sum::<u64>() + if *other == at { 0 } else { self.frame };
            }
        }
        if cost > self.left || self.chosen.len() + with.len() >= recall::ORIGINALS_MAX {
            return false;
        }
        self.left -= cost;
        for (other, pieces) in with {
            let chosen = self.chosen.entry(other).or_default();
            chosen.pieces.extend(pieces);
            if other != at {
                chosen.score = chosen.score.max(passage.score);
                chosen.reasons.push(format!("goes with {}", self.candidates[at].entry.handle));
            }
        }
        let chosen = self.chosen.entry(at).or_default();
        chosen.score = chosen.score.max(passage.score);
        if is_fresh {
            chosen.reasons.extend(reasons());
            match self.candidates[at].came {
                Came::WithAnother => chosen.reasons.push("stands with what was found".to_owned()),
                Came::ByFile => chosen.reasons.push("names a file that is followed".to_owned()),
                Came::Ranked | Came::CutOff => {}
            }
        }
        chosen.pieces.push((passage.segment, passage.range.clone()));
        true
    }

    fn finish(self, weighed: &Weighed, question: &Question<'_>, missed: &[(&Passage, &str)]) -> Packed {
        let mut texts = Vec::with_capacity(self.chosen.len());
        let mut recalled = Vec::with_capacity(self.chosen.len());
        for (at, chosen) in &self.chosen {
            let candidate = &self.candidates[*at];
            let segments = recall::segments(&candidate.told);
            let pieces = joined(chosen.pieces.clone(), &segments);
            let text = recall::original(&Original::of(&candidate.entry), &segments, &pieces);
            recalled.push(Recalled {
                entry: candidate.entry.clone(),
                score: thousandths(chosen.score),
                tokens: (self.count)(&text),
                reasons: chosen.reasons.clone(),
            });
            texts.push(text);
        }
        let mut named: HashSet<usize> = self.chosen.keys().copied().collect();
        let mut left_out = Vec::new();
        for (passage, why) in missed {
            if left_out.len() == LEFT_OUT_MAX || !named.insert(passage.candidate) {
                continue;
            }
            let candidate = &self.candidates[passage.candidate];
            let mut reasons = weighed.reasons(passage, candidate, question);
            reasons.push((*why).to_owned());
            let (entry, score) = (candidate.entry.clone(), thousandths(passage.score));
            left_out.push(Recalled { tokens: u64::from(entry.tokens), entry, score, reasons });
        }
        Packed { text: recall::block(texts.iter().map(String::as_str)), recalled, left_out }
    }
}

/// What a message says in short: what its calls were given, or else what it says at all.
fn short(candidate: &Candidate, given: bool) -> Vec<(usize, Range<usize>)> {
    let segments = recall::segments(&candidate.told);
    if !given && segments.iter().map(|segment| segment.text.len()).sum::<usize>() > SHORT_BYTES {
        return Vec::new();
    }
    let short = segments
        .iter()
        .enumerate()
        .filter(|(_, segment)| (segment.given.is_some() || !given) && segment.text.len() <= SHORT_BYTES);
    short.take(SHORT_MAX).map(|(at, segment)| (at, 0..segment.text.len())).collect()
}

/// Pieces in order, those that meet as one; without the line end behind each.
fn joined(mut pieces: Vec<(usize, Range<usize>)>, segments: &[Segment<'_>]) -> Vec<Piece> {
    pieces.sort_by_key(|(segment, range)| (*segment, range.start, range.end));
    let mut all: Vec<Piece> = Vec::new();
    for (segment, range) in pieces {
        match all.last_mut() {
            Some(last) if last.segment == segment && range.start <= last.range.end => {
                last.range.end = last.range.end.max(range.end);
            }
            _ => all.push(Piece { segment, range }),
        }
    }
    for piece in &mut all {
        let text = segments.get(piece.segment).and_then(|segment| segment.text.get(piece.range.clone()));
        if let Some(text) = text {
            let kept = text.trim_end_matches(['\n', '\r']).len();
            piece.range.end = piece.range.start + kept;
        }
    }
    all
}

/// A score as it is told.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped; a score needs no more")]
fn thousandths(score: f32) -> u32 {
    (score * 1000.0).clamp(0.0, 1e9) as u32
}
