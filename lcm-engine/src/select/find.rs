//! Candidates for a request: what the words of it find, what files it is about, and what goes with either.
//!
//! Looked for are originals that the list does not show, in the scope of the reader: ranked hits for the question and
//! for what was said around it, messages that name its files, and for each of these the call that it answers and the
//! results that answer it. What cannot be read because the store is damaged is no candidate.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use lcm_core::{Arrival, NodeId, Role};
use lcm_store::{Buffer, Filter, Hit, Kinds, Placed, RecordNumber, Scope, Snapshot, Store, StoreError, Words};

use crate::compress::extract;
use crate::error::EngineError;
use crate::find::Entries;
use crate::hosts::told::Told;
use crate::service::Entry;
use crate::turn::Line;

/// Hits for the question, and for what was said around it.
const HITS_MAX: usize = 96;
/// Files that are followed, and messages of each.
const FILES_MAX: usize = 4;
const FILE_HITS_MAX: usize = 24;
/// Messages that are hidden among the newest: steps that were cut off. A longer run is folded history.
const CUT_OFF_RUN_MAX: usize = 4;
const CUT_OFF_MAX: usize = 16;
/// Messages of one call with its results.
const GROUP_MAX: usize = 8;
/// A value that is longer is no path.
const PATH_BYTES_MAX: usize = 400;
/// What is read of all candidates, the best first: a few milliseconds of weighing.
const TOKENS_MAX: u64 = 256 << 10;

/// What is asked for.
pub(super) struct Question<'a> {
    pub(super) scope: &'a Scope,
    /// What is looked for.
    pub(super) text: String,
    /// Words that were said around it, to look for.
    pub(super) words_around: String,
    /// Files by their own names, and how much each counts: 1 for one that the question names.
    pub(super) files: BTreeMap<String, f32>,
}

/// What the list shows.
pub(super) struct Shown<'a> {
    /// The session's line, and which of its places are shown.
    pub(super) line: Option<&'a Line>,
    pub(super) places: HashSet<usize>,
    /// Messages that are shown.
    pub(super) ids: HashSet<NodeId>,
}

/// An original that may be recalled.
pub(super) struct Candidate {
    pub(super) entry: Entry,
    /// Where it stands on the session's line.
    pub(super) place: Option<usize>,
    pub(super) told: Told,
    /// Files that it is about, by their own names.
    pub(super) files: Vec<String>,
    /// The candidate that calls what it answers.
    pub(super) call: Option<usize>,
    /// Candidates that answer it.
    pub(super) results: Vec<usize>,
    /// How it came to be one.
    pub(super) came: Came,
}

/// A place that may become one.
struct Found {
    placed: Placed,
    came: Came,
    /// How many are in front of it where it was found, or what it goes with.
    nth: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Came {
    /// It stands among the newest, which are shown, and is hidden because no provider takes it.
    CutOff,
    Ranked,
    ByFile,
    WithAnother,
}

/// Finds candidates, in the order in which they were said.
pub(super) fn find(
    store: &Store,
    snapshot: &Snapshot,
    question: &Question<'_>,
    shown: &Shown<'_>,
) -> Result<Vec<Candidate>, EngineError> {
    let mut found: BTreeMap<Arrival, Found> = BTreeMap::new();
    let mut take = |hits: Vec<Hit>, came: Came| {
        for (nth, hit) in hits.into_iter().enumerate() {
            let place = shown.line.and_then(|line| line.position(hit.placed.arrival));
            let is_shown = place.is_some_and(|place| shown.places.contains(&place)) || shown.ids.contains(&hit.id);
            if !is_shown {
                let known = found.entry(hit.placed.arrival).or_insert(Found { placed: hit.placed, came, nth });
                known.nth = known.nth.min(nth);
            }
        }
    };
    let words = |text: &str, hits_max| Words {
        hits_max,
        snippet_chars: 0,
        filter: Filter { kinds: Kinds::Messages, ..Filter::default() },
        ..Words::new(text)
    };
    for text in [&question.text, &question.words_around] {
        if !text.trim().is_empty() {
            take(store.ranked(question.scope, &words(text, HITS_MAX))?.hits, Came::Ranked);
        }
    }
    let mut files: Vec<(&String, &f32)> = question.files.iter().collect();
    files.sort_by(|one, other| other.1.total_cmp(one.1).then(one.0.cmp(other.0)));
    for (file, _) in files.into_iter().take(FILES_MAX) {
        // By rank: verifying a phrase reads many texts that have its words apart.
        take(store.ranked(question.scope, &words(file, FILE_HITS_MAX))?.hits, Came::ByFile);
    }
    if let Some(line) = shown.line {
        for stand in cut_off(line.len(), &shown.places).into_iter().filter_map(|at| line.stands.get(at)) {
            if let Some(placed) = snapshot.find_place(question.scope, stand.arrival)? {
                found.insert(stand.arrival, Found { placed, came: Came::CutOff, nth: 0 });
            }
        }
        with_groups(snapshot, question.scope, line, shown, &mut found)?;
    }
    let mut candidates = read(snapshot, shown, found)?;
    link(&mut candidates);
    Ok(candidates)
}

/// The places that are hidden among the newest: few at a time, between others that are shown.
fn cut_off(length: usize, shown: &HashSet<usize>) -> Vec<usize> {
    let (mut all, mut run) = (Vec::new(), Vec::new());
    for place in (0..length).rev() {
        if shown.contains(&place) {
            all.append(&mut run);
        } else if all.len() + run.len() < CUT_OFF_MAX && run.len() < CUT_OFF_RUN_MAX {
            // The newest itself may not have been taken in when it was shown.
            run.push(place);
        } else {
            break;
        }
    }
    all
}

/// Adds the calls that are answered, and what answers calls.
fn with_groups(
    snapshot: &Snapshot,
    scope: &Scope,
    line: &Line,
    shown: &Shown<'_>,
    found: &mut BTreeMap<Arrival, Found>,
) -> Result<(), StoreError> {
    let places: Vec<(usize, usize)> =
        found.iter().filter_map(|(arrival, one)| Some((line.position(*arrival)?, one.nth))).collect();
    let mut nth_by_place: BTreeMap<usize, usize> = BTreeMap::new();
    for (place, nth) in places {
        for at in group(line, place).filter(|at| *at != place && !shown.places.contains(at)) {
            let known = nth_by_place.entry(at).or_insert(nth);
            *known = nth.min(*known);
        }
    }
    for (at, nth) in nth_by_place {
        let Some(stand) = line.stands.get(at) else { continue };
        if let Some(known) = found.get_mut(&stand.arrival) {
            known.nth = known.nth.min(nth);
        } else if let Some(placed) = snapshot.find_place(scope, stand.arrival)? {
            found.insert(stand.arrival, Found { placed, came: Came::WithAnother, nth });
        }
    }
    Ok(())
}

/// The places of the call with its results that a place belongs to.
fn group(line: &Line, place: usize) -> Range<usize> {
    let first = place.saturating_sub(GROUP_MAX);
    let call = (first..=place).rev().find(|at| line.role(*at) != Role::Tool).unwrap_or(place);
    let end = (call + 1..line.len().min(call + 1 + GROUP_MAX)).find(|at| line.role(*at) != Role::Tool);
    call..end.unwrap_or_else(|| line.len().min(call + 1 + GROUP_MAX)).max(place + 1)
}

/// Reads what was found, as far as it can be read.
fn read(
    snapshot: &Snapshot,
    shown: &Shown<'_>,
    found: BTreeMap<Arrival, Found>,
) -> Result<Vec<Candidate>, EngineError> {
    let mut found: Vec<Found> = found.into_values().collect();
    // Of equals the newest.
    found.sort_by_key(|one| (one.nth, Reverse(one.placed.arrival)));
    let mut room = TOKENS_MAX;
    found.retain(|one| {
        let left = room.checked_sub(u64::from(one.placed.tokens));
        room = left.unwrap_or(room);
        left.is_some()
    });
    found.sort_by_key(|one| one.placed.arrival);
    let records: Vec<RecordNumber> = found.iter().map(|one| one.placed.record).collect();
    let look = |buffer: &Buffer| {
        buffer.with_message(|message| message.tree().map(|tree| (buffer.id(), tree.role(), Told::of(&tree)))).ok()
    };
    let all = snapshot.read_each(&records, |_, buffer| Ok::<_, StoreError>(look(buffer)));
    let all = all.unwrap_or_else(|_| {
        // One of them is damaged: the others are not.
        let mut buffer = Buffer::default();
        records.iter().map(|record| snapshot.read(*record, &mut buffer).ok().and_then(|()| look(&buffer))).collect()
    });
    let mut entries = Entries::new(snapshot);
    let mut candidates = Vec::with_capacity(found.len());
    for (Found { placed, came, .. }, (id, role, told)) in
        found.into_iter().zip(all).filter_map(|(found, read)| Some((found, read?)))
    {
        if shown.ids.contains(&id) {
            continue;
        }
        candidates.push(Candidate {
            entry: entries.named(&placed, id, role)?,
            place: shown.line.and_then(|line| line.position(placed.arrival)),
            files: files_of(&told),
            told,
            call: None,
            results: Vec::new(),
            came,
        });
    }
    Ok(candidates)
}

/// Ties results to the calls that they answer, by where they stand; what answers a call is about the same files.
fn link(candidates: &mut [Candidate]) {
    let by_place: BTreeMap<usize, usize> =
        candidates.iter().enumerate().filter_map(|(at, candidate)| Some((candidate.place?, at))).collect();
    for (&place, &at) in &by_place {
        if candidates[at].entry.role != Role::Tool {
            continue;
        }
        let call = by_place.range(place.saturating_sub(GROUP_MAX)..place).next_back();
        let Some((&before, &call)) = call.filter(|(before, _)| **before + 1 == place) else { continue };
        let call = if candidates[call].told.calls.is_empty() { candidates[call].call } else { Some(call) };
        let Some(call) = call.filter(|_| before < place) else { continue };
        let files = candidates[call].files.clone();
        candidates[at].files.extend(files);
        candidates[at].call = Some(call);
        candidates[call].results.push(at);
    }
}

/// The files that the calls of a message are about, by their own names.
pub(super) fn files_of(told: &Told) -> Vec<String> {
    let values = told.calls.iter().flat_map(|call| &call.arguments).map(|(_, value)| value);
    let mut files: Vec<String> =
        values.filter(|value| value.len() <= PATH_BYTES_MAX).flat_map(|value| files_in(value)).collect();
    files.sort_unstable();
    files.dedup();
    files
}

/// The files that a text names, by their own names.
pub(super) fn files_in(text: &str) -> impl Iterator<Item = String> {
    extract::files(text).into_iter().map(|file| file.rsplit(['/', '\\']).next().unwrap_or(file).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_between_shown_ones_is_cut_off_and_what_is_before_them_is_folded() {
        let shown = HashSet::from([5, 6, 8, 9]);
        assert_eq!(cut_off(10, &shown), [7]);
        assert_eq!(cut_off(12, &shown), [11, 10, 7]);
        assert_eq!(cut_off(20, &shown), [0_usize; 0]);
        assert_eq!(cut_off(10, &HashSet::new()), [0_usize; 0]);
    }
}
