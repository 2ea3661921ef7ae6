//! Search by words: all of them, newest first.
//!
//! A query is taken apart into units: a plain word, which is one token; a run of several (an identifier, a path, a
//! run of CJK) that must stand in the text as written; quoted words side by side. A text has a unit when it has all
//! of the unit's tokens and, for all but plain words, the unit is found in it. The index gives the texts with the
//! tokens, newest first; what it does not know yet comes from the tail. Both are held to the same definition.
//!
//! Fewer hits than asked: ranked ones stand behind them, see `rank`.

use std::collections::BinaryHeap;
use std::sync::Arc;

use tantivy::postings::SegmentPostings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED};

use super::needle::{End, FoldRoom, Folded, Needle};
use super::needs::Needs;
use super::reach::{Part, Reach};
use super::schema;
use super::segments::{Columns, Opened, Segment};
use super::snippet::{self, Shown};
use super::tail::Kept;
use super::tokenize::{Splitter, is_unspaced, is_word, token_hash};
use crate::error::StoreError;

/// More units of a query are not looked at: a pasted page has no text with all its words, and ranked search reads
/// it whole.
const UNITS_MAX: usize = 32;
/// Bytes of a query that are read.
const QUERY_BYTES_MAX: usize = 16 << 10;

/// A query, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) units: Vec<Unit>,
}

/// One thing every hit has.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// Every one of these is a token of the text.
    pub(crate) tokens: Vec<String>,
    pub(crate) needle: Needle,
    /// Whether the tokens alone do not tell.
    verify: bool,
}

/// The beginning of a query, as much of it as is read.
pub(crate) fn bounded(text: &str) -> &str {
    let mut end = text.len().min(QUERY_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Query {
    pub(crate) fn new(text: &str) -> Self {
        let mut units: Vec<Unit> = Vec::new();
        let mut signs = Vec::new();
        // Every second piece between quotation marks is quoted; a lone mark quotes nothing.
        let pieces: Vec<&str> = bounded(text).split('"').collect();
        let last = pieces.len() - 1;
        for (i, piece) in pieces.into_iter().enumerate() {
            if i % 2 == 1 && i < last {
                units.extend(Unit::phrase(piece));
                continue;
            }
            for chunk in piece.split_whitespace() {
                let is_outside = |c: char| !is_word(c) && !is_unspaced(c);
                let trimmed = chunk.trim_matches(is_outside);
                // Operators of other search languages; as words they would match nothing of what is meant.
                if matches!(trimmed, "AND" | "OR" | "NOT") {
                    continue;
                }
                if trimmed.is_empty() {
                    signs.extend(Needle::literal(chunk, End::Border));
                } else {
                    units.extend(Unit::written(trimmed));
                }
            }
        }
        if units.is_empty() {
            // Nothing but signs: then they are what is looked for.
            units.extend(signs.into_iter().map(|needle| Unit { tokens: Vec::new(), needle, verify: true }));
        }
        units.truncate(UNITS_MAX);
        Self { units }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Whether some units have tokens to look up.
    pub(crate) fn has_tokens(&self) -> bool {
        self.units.iter().any(|unit| !unit.tokens.is_empty())
    }

    /// The tokens every hit has.
    fn tokens(&self) -> Vec<&str> {
        let mut tokens: Vec<&str> = self.units.iter().flat_map(|unit| &unit.tokens).map(String::as_str).collect();
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    /// What the texts of all hits need.
    pub(crate) fn needs(&self) -> Needs {
        self.units.iter().map(|unit| unit.needle.needs()).fold(Needs::Nothing, Needs::and)
    }

    /// What texts that have all tokens still need, where that is more than the tokens tell.
    pub(crate) fn needs_beyond_tokens(&self) -> Needs {
        let verified = self.units.iter().filter(|unit| unit.verify);
        verified.map(|unit| unit.needle.needs()).fold(Needs::Nothing, Needs::and)
    }

    /// Whether a text with all tokens is a hit, and what is shown of it.
    pub(crate) fn match_beyond_tokens(&self, text: &str, room: &mut FoldRoom, chars: usize) -> Option<Shown> {
        let folded = room.fold(text);
        let verified = self.units.iter().filter(|unit| unit.verify);
        verified.map(|unit| unit.needle.find(&folded, 0)).collect::<Option<Vec<_>>>()?;
        Some(self.shown(text, &folded, chars))
    }

    /// Whether any text is a hit, and what is shown of it.
    pub(crate) fn match_text(
        &self,
        text: &str,
        room: &mut FoldRoom,
        splitter: &mut Splitter,
        chars: usize,
    ) -> Option<Shown> {
        let folded = room.fold(text);
        for unit in &self.units {
            unit.needle.find(&folded, 0)?;
        }
        let mut missing: Vec<u64> = self.tokens().into_iter().map(token_hash).collect();
        splitter.tokens(text, |token| {
            if !missing.is_empty() {
                let hash = token_hash(token);
                missing.retain(|wanted| *wanted != hash);
            }
        });
        missing.is_empty().then(|| self.shown(text, &folded, chars))
    }

    fn shown(&self, text: &str, folded: &Folded<'_>, chars: usize) -> Shown {
        let needles: Vec<&Needle> = self.units.iter().map(|unit| &unit.needle).collect();
        shown(text, folded, &needles, chars)
    }
}

impl Unit {
    /// What stands between blanks.
    fn written(text: &str) -> Option<Self> {
        let needle = Needle::literal(text, End::Border)?;
        let mut tokens = Vec::new();
        Splitter::default().tokens(text, |token| tokens.push(token.to_owned()));
        let is_plain = tokens.len() == 1 && needle.is(&tokens[0]) && !text.chars().any(is_unspaced);
        if is_plain || tokens.is_empty() {
            // A lone character of an unspaced script is a token only where it stands alone, and what is too long
            // is none at all.
            return Some(Self { verify: !is_plain, tokens, needle });
        }
        Some(Self { tokens: parts(text), needle, verify: true })
    }

    /// What stands between quotation marks.
    fn phrase(text: &str) -> Option<Self> {
        Some(Self { tokens: parts(text), needle: Needle::phrase(text)?, verify: true })
    }
}

/// The tokens that every text has in which `text` stands, borders at both ends: not the whole of an identifier,
/// which may go on there, and no lone character of an unspaced script, which may have neighbours there.
fn parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    Splitter::default().tokens(text, |token| {
        let is_lone = token.chars().nth(1).is_none() && token.chars().all(is_unspaced);
        if !is_lone && !token.contains('_') {
            parts.push(token.to_owned());
        }
    });
    let wholes = camel_wholes(text);
    parts.retain(|part| !wholes.contains(part));
    parts
}

/// The wholes among the tokens of `text` that have no low line in them.
fn camel_wholes(text: &str) -> Vec<String> {
    let mut wholes = Vec::new();
    for run in text.split(|c| !is_word(c) || is_unspaced(c)) {
        let mut tokens = Vec::new();
        Splitter::default().tokens(run, |token| tokens.push(token.to_owned()));
        if tokens.len() > 1 {
            wholes.extend(tokens.pop());
        }
    }
    wholes
}

/// What is shown of a text for these needles: the stretch with most of them.
pub(crate) fn shown(text: &str, folded: &Folded<'_>, needles: &[&Needle], chars: usize) -> Shown {
    /// Matches of each needle that are looked at when choosing.
    const CANDIDATES_MAX: usize = 24;
    if chars == 0 {
        return Shown::default();
    }
    if !folded.is_aligned() {
        return snippet::beginning(text, chars);
    }
    // The first matches of each, in the order of the text.
    let mut found: Vec<(usize, usize, usize)> = Vec::new();
    for (i, needle) in needles.iter().enumerate() {
        let mut at = 0;
        for _ in 0..CANDIDATES_MAX {
            let Some(range) = needle.find(folded, at) else { break };
            found.push((range.start, range.end, i));
            at = range.end;
        }
    }
    found.sort_unstable();
    let span = chars - chars / 4;
    let mut best: Option<(usize, usize)> = None;
    for (at, &(start, _, _)) in found.iter().enumerate() {
        let mut seen: Vec<usize> =
            found[at..].iter().take_while(|(next, _, _)| next - start < span).map(|&(_, _, needle)| needle).collect();
        seen.sort_unstable();
        seen.dedup();
        if best.is_none_or(|(most, _)| seen.len() > most) {
            best = Some((seen.len(), at));
        }
    }
    let Some((_, at)) = best else { return snippet::beginning(text, chars) };
    let first = found[at].0..found[at].1;
    snippet::shown(text, first, chars, |from| {
        let next = found.iter().filter(|(start, _, _)| *start >= from).min()?;
        Some(next.0..next.1)
    })
}

/// Documents of a segment, rising.
enum Docs {
    Postings(Box<SegmentPostings>),
    List(Vec<u32>, usize),
}

impl Docs {
    fn doc(&self) -> u32 {
        match self {
            Self::Postings(postings) => postings.doc(),
            Self::List(docs, at) => docs.get(*at).copied().unwrap_or(TERMINATED),
        }
    }

    fn advance(&mut self) -> u32 {
        match self {
            Self::Postings(postings) => postings.advance(),
            Self::List(_, at) => {
                *at += 1;
                self.doc()
            }
        }
    }

    fn seek(&mut self, target: u32) -> u32 {
        match self {
            Self::Postings(postings) => postings.seek(target),
            Self::List(docs, at) => {
                *at += docs[(*at).min(docs.len())..].partition_point(|doc| *doc < target);
                self.doc()
            }
        }
    }

    fn len(&self) -> u32 {
        match self {
            Self::Postings(postings) => postings.size_hint(),
            Self::List(docs, _) => u32::try_from(docs.len()).unwrap_or(u32::MAX),
        }
    }
}

/// The documents of a segment that a scope of sessions reaches, rising; `None` for other scopes.
pub(crate) fn spanned(segment: &Segment, reach: &Reach<'_>) -> tantivy::Result<Option<Vec<u32>>> {
    let Some(spans) = reach.spans() else { return Ok(None) };
    let mut docs = Vec::new();
    for span in spans {
        let Some(mut postings) = segment.of_timeline(span.timeline.0)? else { continue };
        let mut doc = postings.doc();
        while doc != TERMINATED {
            docs.push(doc);
            doc = postings.advance();
        }
    }
    docs.sort_unstable();
    Ok(Some(docs))
}

/// Whether a document is reached, by what the index keeps; truth has the last word.
pub(crate) struct Admission<'a> {
    reach: &'a Reach<'a>,
    columns: &'a Columns,
    /// The timeline looked at last: neighbours in a segment are mostly of one.
    last: Option<(u64, Part)>,
}

impl<'a> Admission<'a> {
    pub(crate) fn new(reach: &'a Reach<'a>, columns: &'a Columns) -> Self {
        Self { reach, columns, last: None }
    }

    /// Whether the scope reaches a document.
    pub(crate) fn is_reached(&mut self, doc: u32) -> Result<bool, StoreError> {
        let arrival = self.columns.arrival.get_val(doc);
        if arrival > self.reach.last {
            return Ok(false);
        }
        if self.reach.is_everything() {
            return Ok(true);
        }
        let timeline = self.columns.timeline.get_val(doc);
        if self.last.as_ref().is_none_or(|(known, _)| *known != timeline) {
            self.last = Some((timeline, self.reach.part(timeline)?));
        }
        Ok(self.last.as_ref().is_some_and(|(_, part)| part.may_hold(arrival, self.columns.anchor.get_val(doc))))
    }

    /// Whether the filter lets a document through.
    pub(crate) fn passes(&self, doc: u32) -> bool {
        self.reach.is_unfiltered() || passes(self.reach, self.columns.role.get_val(doc), self.columns.seen.get_val(doc))
    }
}

/// Whether the filter lets through what has this role number and was said then.
pub(crate) fn passes(reach: &Reach<'_>, role: u64, seen_ms: i64) -> bool {
    match schema::role_of(role) {
        None => reach.passes(true, seen_ms),
        Some(role) => reach.passes(false, seen_ms) && reach.is_wanted(role),
    }
}

/// Arrivals of documents that have all tokens of a query, newest first, found segment by segment as they are
/// needed.
pub(crate) struct Newest<'a> {
    query: &'a Query,
    reach: &'a Reach<'a>,
    /// Only below this arrival.
    below: u64,
    /// With the newest arrival of each, rising.
    segments: Vec<(u64, Arc<Segment>)>,
    /// So many of them, from the first, are not searched yet.
    unsearched: usize,
    /// Arrivals that have the tokens, with the segment and the document of each. Whether the scope reaches one is looked
    /// up when it is its turn: of a common word nearly all are never asked for.
    found: BinaryHeap<(u64, usize, u32)>,
    /// See [`Admission`].
    last: Option<(u64, Part)>,
}

impl<'a> Newest<'a> {
    pub(crate) fn new(query: &'a Query, reach: &'a Reach<'a>, opened: &Opened, below: u64) -> tantivy::Result<Self> {
        let mut segments = Vec::with_capacity(opened.segments.len());
        for segment in &opened.segments {
            segments.push((segment.columns()?.arrival.max_value(), segment.clone()));
        }
        segments.sort_by_key(|(newest, _)| *newest);
        Ok(Self { query, reach, below, unsearched: segments.len(), segments, found: BinaryHeap::new(), last: None })
    }

    /// The next `max` arrivals, falling.
    pub(crate) fn take(&mut self, max: usize) -> Result<Vec<u64>, StoreError> {
        let mut taken = Vec::with_capacity(max.min(1024));
        while taken.len() < max {
            let may_be_newer =
                |(newest, _): &(u64, Arc<Segment>)| self.found.peek().is_none_or(|(found, ..)| newest > found);
            if self.segments[..self.unsearched].last().is_some_and(may_be_newer) {
                self.unsearched -= 1;
                self.search(self.unsearched)?;
                continue;
            }
            let Some((arrival, at, doc)) = self.found.pop() else { break };
            let mut admission = Admission::new(self.reach, self.segments[at].1.columns()?);
            admission.last = self.last.take();
            if admission.is_reached(doc)? && admission.passes(doc) {
                taken.push(arrival);
            }
            self.last = admission.last;
        }
        Ok(taken)
    }

    fn search(&mut self, nth: usize) -> Result<(), StoreError> {
        let segment = &*self.segments[nth].1;
        let mut lists = Vec::new();
        for token in self.query.tokens() {
            match segment.with_token(token, IndexRecordOption::Basic)? {
                Some(postings) => lists.push(Docs::Postings(Box::new(postings))),
                None => return Ok(()),
            }
        }
        if let Some(docs) = spanned(segment, self.reach)? {
            lists.push(Docs::List(docs, 0));
        }
        lists.sort_by_key(Docs::len);
        let Some((driver, others)) = lists.split_first_mut() else { return Ok(()) };
        let columns = segment.columns()?;
        let mut found = std::mem::take(&mut self.found).into_vec();
        let mut doc = driver.doc();
        'documents: while doc < segment.docs {
            for other in others.iter_mut() {
                let at = if other.doc() < doc { other.seek(doc) } else { other.doc() };
                if at != doc {
                    doc = driver.seek(at);
                    continue 'documents;
                }
            }
            let arrival = columns.arrival.get_val(doc);
            if arrival < self.below {
                found.push((arrival, nth, doc));
            }
            doc = driver.advance();
        }
        self.found = BinaryHeap::from(found);
        Ok(())
    }
}

/// Arrivals of kept places that have all tokens of a query, rising.
pub(crate) fn in_tail(
    query: &Query,
    kept: &Kept,
    reach: &Reach<'_>,
    above: u64,
    below: u64,
) -> Result<Vec<u64>, StoreError> {
    let mut lists: Vec<&[(u32, u32)]> =
        query.tokens().into_iter().map(|token| kept.with_token(token_hash(token))).collect();
    lists.sort_by_key(|list| list.len());
    let Some((first, others)) = lists.split_first() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for &(number, _) in *first {
        if !others.iter().all(|list| list.binary_search_by_key(&number, |(number, _)| *number).is_ok()) {
            continue;
        }
        let Some(place) = usize::try_from(number).ok().and_then(|at| kept.places.get(at)) else { continue };
        let is_new = above < place.arrival && place.arrival < below && place.arrival <= reach.last;
        if is_new
            && reach.part(place.timeline)?.may_hold(place.arrival, place.anchor)
            && passes(reach, place.role, place.seen_ms)
        {
            found.push(place.arrival);
        }
    }
    Ok(found)
}
