//! Searching: what the store finds, with sessions and lines for whoever shows it.
//!
//! The store verifies every hit against the stored text; here the same pattern is run once more over the texts of the
//! hits, to say which lines matched. Letter case is decided here and told to the store, so that both agree.

use std::collections::BTreeMap;
use std::ops::Range;

use lcm_core::text::with_search_text;
use lcm_core::{SessionId, canon};
use lcm_store::{
    Anchors, Buffer, Cursor, CursorKind, Grep, Hit, LetterCase, Order, Pattern, Scope, Session, Snapshot, Store,
    StoreError,
};
use regex::{Regex, RegexBuilder};

use crate::error::EngineError;
use crate::find::{Entries, unreadable};
use crate::service::{
    GrepPage, GrepRequest, Line, LineHit, LineOptions, SearchMode, SearchPage, SearchRequest, WordHit,
};

/// What a compiled pattern may take. A pattern beyond it is refused, not run slowly.
const PATTERN_BYTES_MAX: usize = 16 << 20;

pub(crate) fn grep(store: &Store, request: &GrepRequest) -> Result<GrepPage, EngineError> {
    let grep = normal(&request.grep, request.whole_words);
    match grep.order {
        Order::Newest => goes_on(grep.after, &[CursorKind::Newest], "is exact, newest first")?,
        Order::Oldest => goes_on(grep.after, &[CursorKind::Oldest], "is exact, oldest first")?,
    }
    let found = store.grep(&request.scope, &grep).map_err(|error| match error {
        StoreError::Pattern(why) => refused(&why),
        error => error.into(),
    })?;
    let snapshot = store.snapshot()?;
    let lines = match request.lines {
        Some(options) if !found.hits.is_empty() => Some(Lines { pattern: compile(&grep)?, options }),
        _ => None,
    };
    let (mut entries, mut sessions) = (Entries::new(&snapshot), BTreeMap::new());
    let (mut hits, mut scratch) = (Vec::with_capacity(found.hits.len()), String::new());
    for hit in found.hits {
        let (mut matching, mut left) = (Vec::new(), 0);
        if let Some(lines) = &lines {
            read_hit(&snapshot, &request.scope, &hit, entries.buffer_mut())?;
            (matching, left) = match hit.placed.summary {
                None => entries
                    .buffer()
                    .with_message(|message| with_search_text(&message, &mut scratch, |text| lines.of(text)))
                    .map_err(|error| unreadable(hit.placed.arrival, error))?,
                Some(_) => {
                    let summary = canon::summary_head(entries.buffer().canon());
                    lines.of(summary.map_err(|error| unreadable(hit.placed.arrival, error))?.text)
                }
            };
        }
        let entry = entries.named(&hit.placed, hit.id, hit.role)?;
        mention(&snapshot, &mut sessions, entry.session)?;
        let (snippet, matches) = (hit.snippet, hit.matches);
        hits.push(LineHit { entry, snippet, matches, lines: matching, lines_left: left });
    }
    Ok(GrepPage {
        hits,
        sessions,
        complete: found.complete,
        cut: found.cut,
        next: found.next,
        damaged: found.scanned.damaged,
    })
}

pub(crate) fn search(store: &Store, request: &SearchRequest) -> Result<SearchPage, EngineError> {
    let after = request.words.after;
    match request.mode {
        // Behind those with all words come those with some.
        SearchMode::Words => goes_on(after, &[CursorKind::Newest, CursorKind::Ranked], "is for all of the words")?,
        SearchMode::Ranked => goes_on(after, &[CursorKind::Ranked], "gives the best first")?,
    }
    let found = match request.mode {
        SearchMode::Words => store.words(&request.scope, &request.words)?,
        SearchMode::Ranked => store.ranked(&request.scope, &request.words)?,
    };
    let snapshot = store.snapshot()?;
    let (mut entries, mut sessions) = (Entries::new(&snapshot), BTreeMap::new());
    let mut hits = Vec::with_capacity(found.hits.len());
    for hit in found.hits {
        let entry = entries.named(&hit.placed, hit.id, hit.role)?;
        mention(&snapshot, &mut sessions, entry.session)?;
        let (snippet, matches) = (hit.snippet, hit.matches);
        hits.push(WordHit { entry, snippet, matches, score: hit.score, ranked: hit.ranked });
    }
    Ok(SearchPage { hits, sessions, next: found.next, damaged: found.damaged })
}

/// Refuses a cursor that no search of this kind gives: it would begin at a place that means something else here.
fn goes_on(after: Option<Cursor>, kinds: &[CursorKind], searches: &'static str) -> Result<(), EngineError> {
    match after.filter(|cursor| !kinds.contains(&cursor.kind())) {
        None => Ok(()),
        Some(cursor) => {
            let given_by = match cursor.kind() {
                CursorKind::Newest => "searches that give the newest first",
                CursorKind::Oldest => "searches that give the oldest first",
                CursorKind::Ranked => "searches by words",
            };
            Err(EngineError::OtherCursor { cursor, given_by, searches })
        }
    }
}

/// A pattern that cannot be used, in one sentence: the regex crate draws a picture first and says why in its last line.
fn refused(why: &str) -> EngineError {
    let last = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(why);
    let why = last.strip_prefix("error: ").unwrap_or(last);
    let is_too_large = why.starts_with("Compiled regex exceeds");
    EngineError::Pattern(if is_too_large { "it is too large to run".to_owned() } else { why.to_owned() })
}

/// Reads what was found. The search had a snapshot of its own, and a compaction in between gives records other numbers;
/// the number of the place stays.
fn read_hit(snapshot: &Snapshot, scope: &Scope, hit: &Hit, buffer: &mut Buffer) -> Result<(), EngineError> {
    let read = snapshot.read(hit.placed.record, buffer);
    if read.is_ok() && buffer.id() == hit.id {
        return Ok(());
    }
    match snapshot.find_place(scope, hit.placed.arrival)? {
        Some(placed) if placed.record != hit.placed.record => Ok(snapshot.read(placed.record, buffer)?),
        _ => Ok(read?),
    }
}

fn mention(snapshot: &Snapshot, sessions: &mut BTreeMap<SessionId, Session>, id: SessionId) -> Result<(), EngineError> {
    if let std::collections::btree_map::Entry::Vacant(vacant) = sessions.entry(id) {
        vacant.insert(snapshot.session(id)?);
    }
    Ok(())
}

/// The same search with its letter case decided, and as whole words when that is asked for.
fn normal(grep: &Grep, whole_words: bool) -> Grep {
    let mut grep = grep.clone();
    if grep.case == LetterCase::Smart {
        let has_upper = match &grep.pattern {
            Pattern::Literal(text) => text.chars().any(char::is_uppercase),
            Pattern::Regex(pattern) => says_upper_case(pattern),
        };
        grep.case = if has_upper { LetterCase::Sensitive } else { LetterCase::Insensitive };
    }
    if whole_words {
        let pattern = match &grep.pattern {
            Pattern::Literal(text) => regex::escape(text),
            Pattern::Regex(pattern) => pattern.clone(),
        };
        // Half borders, so that a pattern that begins or ends with a sign has words too.
        grep.pattern = Pattern::Regex(format!(r"\b{{start-half}}(?:{pattern})\b{{end-half}}"));
    }
    grep
}

/// Whether a regular expression names an upper-case letter; `\W` and `\p{Lu}` do not.
fn says_upper_case(pattern: &str) -> bool {
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        if c == '\\' {
            // A class with a name in braces is skipped with its name.
            let is_class = matches!(characters.next(), Some('p' | 'P'));
            if is_class && characters.as_str().starts_with('{') {
                characters.by_ref().find(|c| *c == '}');
            } else if is_class {
                characters.next();
            }
        } else if c.is_uppercase() {
            return true;
        }
    }
    false
}

/// The pattern as the store runs it, but for what it reads as Python does; a hit can so be without a line, and shows its
/// snippet.
fn compile(grep: &Grep) -> Result<Regex, EngineError> {
    let pattern = match &grep.pattern {
        Pattern::Literal(text) => regex::escape(text),
        Pattern::Regex(pattern) => lcm_store::without_groups(pattern),
    };
    let built = RegexBuilder::new(&pattern)
        .case_insensitive(grep.case == LetterCase::Insensitive)
        .multi_line(grep.anchors == Anchors::Lines)
        .size_limit(PATTERN_BYTES_MAX)
        .build();
    built.map_err(|error| refused(&error.to_string()))
}

/// Finds the matching lines of a text.
struct Lines {
    pattern: Regex,
    options: LineOptions,
}

impl Lines {
    /// The matching lines and those around them; and how many matching ones are left out.
    fn of(&self, text: &str) -> (Vec<Line>, usize) {
        // Where each line begins; the last entry is behind the text.
        let mut begins = vec![0];
        begins.extend(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
        let line_of = |at: usize| begins.partition_point(|begin| *begin <= at) - 1;
        // A match may reach over several lines; each of them matches.
        let mut matching: Vec<(usize, Vec<Range<usize>>)> = Vec::new();
        for found in self.pattern.find_iter(text) {
            let (first, last) = (line_of(found.start()), line_of(found.end().saturating_sub(1).max(found.start())));
            for line in first..=last {
                let begin = begins[line];
                let end = begins.get(line + 1).map_or(text.len(), |next| next - 1);
                let range = found.start().max(begin) - begin..found.end().min(end).max(begin) - begin;
                match matching.last_mut() {
                    Some((known, ranges)) if *known == line => ranges.push(range),
                    _ => matching.push((line, vec![range])),
                }
            }
        }
        let left = matching.len().saturating_sub(self.options.matches_max.max(1));
        matching.truncate(self.options.matches_max.max(1));
        let mut lines: Vec<Line> = Vec::new();
        for (line, _) in &matching {
            let first = line.saturating_sub(self.options.context);
            let last = line.saturating_add(self.options.context).min(begins.len() - 1);
            for number in first..=last {
                if lines.last().is_some_and(|before| before.number > number) {
                    continue;
                }
                let end = begins.get(number + 1).map_or(text.len(), |next| next - 1);
                let ranges = matching.iter().find(|(matches, _)| *matches == number).map(|(_, ranges)| ranges.clone());
                let said = text[begins[number]..end].trim_end_matches('\r');
                lines.push(cut(number + 1, said, ranges.unwrap_or_default(), self.options.chars_max));
            }
        }
        (lines, left)
    }
}

/// Cuts a line around its first match.
fn cut(number: usize, line: &str, ranges: Vec<Range<usize>>, chars_max: usize) -> Line {
    if chars_max == 0 || line.len() <= chars_max {
        return Line { number, text: line.to_owned(), cut: (false, false), matches: within(&ranges, 0, line.len()) };
    }
    let anchor = ranges.first().map_or(0, |range| range.start.min(line.len()));
    // A quarter of the room stands before the match, so that one sees where it is.
    let before = line[..line.floor_char_boundary(anchor)].char_indices().rev().take(chars_max / 4).last();
    let begin = before.map_or(anchor, |(at, _)| at);
    let begin = line.floor_char_boundary(begin);
    let end = line[begin..].char_indices().nth(chars_max).map_or(line.len(), |(at, _)| begin + at);
    Line {
        number,
        text: line[begin..end].to_owned(),
        cut: (begin > 0, end < line.len()),
        matches: within(&ranges, begin, end),
    }
}

/// Ranges of a line as ranges of a part of it.
fn within(ranges: &[Range<usize>], begin: usize, end: usize) -> Vec<Range<usize>> {
    let inside = ranges.iter().filter(|range| range.start < end && range.end > begin);
    inside.map(|range| range.start.max(begin) - begin..range.end.min(end) - begin).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(pattern: &str, options: LineOptions, text: &str) -> (Vec<Line>, usize) {
        let grep = Grep { case: LetterCase::Sensitive, ..Grep::new(Pattern::Regex(pattern.to_owned())) };
        Lines { pattern: compile(&grep).unwrap(), options }.of(text)
    }

    const ALL: LineOptions = LineOptions { context: 0, chars_max: 0, matches_max: 100 };

    #[test]
    fn the_matching_lines_and_those_around_them_are_given_once() {
        let text = "one\ntwo x\nthree\nfour x x\nfive\r\nsix\n";
        let numbers = |context| {
            let (lines, _) = lines("x", LineOptions { context, ..ALL }, text);
            lines.into_iter().map(|line| (line.number, line.text, line.matches.len())).collect::<Vec<_>>()
        };
        let line = |number, text: &str, matches| (number, text.to_owned(), matches);
        // "six" has an x as well.
        assert_eq!(numbers(0), [line(2, "two x", 1), line(4, "four x x", 2), line(6, "six", 1)]);
        assert_eq!(numbers(1).iter().map(|line| line.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(numbers(1)[4], line(5, "five", 0));
    }

    #[test]
    fn a_match_over_several_lines_marks_each_of_them() {
        let (lines, _) = lines("b\\nc", ALL, "ab\ncd");
        let told: Vec<(usize, &Range<usize>)> = lines.iter().map(|line| (line.number, &line.matches[0])).collect();
        assert_eq!(told, [(1, &(1..2)), (2, &(0..1))]);
    }

    #[test]
    fn long_lines_are_cut_around_the_match_and_many_matches_are_counted() {
        let text = format!("{}needle{}", "é".repeat(500), "ü".repeat(500));
        let (found, _) = lines("needle", LineOptions { chars_max: 40, ..ALL }, &text);
        assert_eq!(found[0].text, format!("{}needle{}", "é".repeat(10), "ü".repeat(24)));
        assert_eq!(found[0].cut, (true, true));
        assert_eq!(&found[0].text[found[0].matches[0].clone()], "needle");
        let (found, left) = lines("x", LineOptions { matches_max: 2, ..ALL }, "x\nx\nx\nx");
        assert_eq!((found.len(), left), (2, 2));
    }

    #[test]
    fn smart_case_looks_at_letters_only() {
        assert!(says_upper_case("Foo"));
        assert!(says_upper_case("fOo"));
        assert!(says_upper_case("é|É"));
        for pattern in [r"foo\W", r"\p{Lu}x", r"\pLx", r"\S+\B", "", r"\"] {
            assert!(!says_upper_case(pattern), "{pattern}");
        }
    }

    #[test]
    fn whole_words_may_begin_with_a_sign() {
        let grep = normal(&Grep::new(Pattern::Literal("-x".to_owned())), true);
        let pattern = compile(&grep).unwrap();
        assert!(pattern.is_match("a -x b") && !pattern.is_match("a -xy b"));
    }

    proptest! {
        #[test]
        fn no_text_and_no_cut_make_it_panic(
            text in "[xé\\n\\r -]{0,40}", chars_max in 0..10_usize, context in 0..3_usize, which in 0..6_usize,
        ) {
            let pattern = ["x", "é", "\\n", "^", "$", "x*"][which];
            let (lines, _) = lines(pattern, LineOptions { context, chars_max, matches_max: 3 }, &text);
            for line in lines {
                for range in line.matches {
                    prop_assert!(line.text.get(range).is_some());
                }
            }
        }
    }
}
