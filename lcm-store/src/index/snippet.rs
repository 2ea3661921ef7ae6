//! The piece of a text that is shown for a hit, and what in it matched.
//!
//! Bounded in characters, cut between characters, otherwise as stored: whoever shows it to a terminal cleans it.

use std::ops::Range;

/// What is shown of a hit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) snippet: String,
    /// Ranges of the snippet, in order and apart.
    pub(crate) matches: Vec<Range<usize>>,
}

/// Marked matches in one snippet: more say nothing.
const MATCHES_MAX: usize = 32;

/// Cuts `chars` characters around `first`; `next` gives the first match at or behind an offset of the text.
pub(crate) fn shown(
    text: &str,
    first: Range<usize>,
    chars: usize,
    mut next: impl FnMut(usize) -> Option<Range<usize>>,
) -> Shown {
    if chars == 0 {
        return Shown::default();
    }
    let window = window(text, first.start, chars);
    let mut matches = Vec::new();
    let mut found = Some(first);
    while let Some(range) = found {
        if range.start >= window.end || matches.len() == MATCHES_MAX {
            break;
        }
        let (start, end) = (range.start.max(window.start), range.end.min(window.end));
        if start < end {
            matches.push(start - window.start..end - window.start);
        }
        // A match of nothing must not stop the walk.
        let behind = if range.end > range.start { range.end } else { next_character(text, range.end) };
        found = if behind < window.end { next(behind) } else { None };
    }
    Shown { snippet: text[window].to_owned(), matches }
}

/// The beginning of a text, nothing marked.
pub(crate) fn beginning(text: &str, chars: usize) -> Shown {
    Shown { snippet: text[..forward(text, 0, chars)].to_owned(), matches: Vec::new() }
}

/// `chars` characters with the one at `at` in them: a quarter before it, unless the text ends before the window
/// does; not in the middle of a word where that can be had for a few characters.
fn window(text: &str, at: usize, chars: usize) -> Range<usize> {
    let mut start = back(text, at, chars / 4);
    let end = forward(text, start, chars);
    if end == text.len() {
        let missing = chars - text[start..end].chars().count();
        start = back(text, start, missing);
    }
    if start > 0 {
        let lead = &text[start..at];
        let inside_word = text[..start].chars().next_back().is_some_and(|c| !c.is_whitespace());
        // A word's rest at the beginning reads worse than a little less before the match.
        if inside_word && let Some((blank, c)) = lead.char_indices().take(chars / 8).find(|(_, c)| c.is_whitespace()) {
            start += blank + c.len_utf8();
        }
    }
    start..end
}

fn back(text: &str, at: usize, chars: usize) -> usize {
    if chars == 0 { at } else { text[..at].char_indices().rev().nth(chars - 1).map_or(0, |(start, _)| start) }
}

fn forward(text: &str, at: usize, chars: usize) -> usize {
    text[at..].char_indices().nth(chars).map_or(text.len(), |(end, _)| at + end)
}

fn next_character(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(1, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    fn of(text: &str, pattern: &str, chars: usize) -> Shown {
        let regex = Regex::new(pattern).unwrap();
        let first = regex.find(text).unwrap().range();
        shown(text, first, chars, |at| regex.find_at(text, at).map(|found| found.range()))
    }

    #[test]
    fn a_snippet_stands_around_the_first_match_and_marks_all_in_it() {
        let text = format!("{} the error and one more error {}", "a ".repeat(100), "b ".repeat(100));
        let shown = of(&text, "error", 40);
        assert!(shown.snippet.chars().count() <= 40, "{}", shown.snippet);
        let marked: Vec<&str> = shown.matches.iter().map(|range| &shown.snippet[range.clone()]).collect();
        assert_eq!(marked, ["error", "error"]);
    }

    #[test]
    fn a_short_text_is_shown_whole() {
        let text = "量子缓存 error";
        assert_eq!(of(text, "error", 40), Shown { snippet: text.into(), matches: vec![13..18] });
    }

    #[test]
    fn a_match_of_nothing_is_shown_and_ends() {
        assert_eq!(of("abc", "x*", 10), Shown { snippet: "abc".into(), matches: Vec::new() });
    }

    proptest! {
        #[test]
        fn a_snippet_is_bounded_and_its_matches_lie_in_it(text in "[ab é量\n\u{1F600}]{1,200}", chars in 0_usize..60) {
            let Some(first) = text.find('a') else { return Ok(()) };
            let regex = Regex::new("a+").unwrap();
            let _ = first;
            let found = regex.find(&text).unwrap().range();
            let shown = shown(&text, found, chars, |at| regex.find_at(&text, at).map(|found| found.range()));
            prop_assert!(shown.snippet.chars().count() <= chars);
            prop_assert!(text.contains(&shown.snippet));
            for range in &shown.matches {
                prop_assert!(shown.snippet[range.clone()].bytes().all(|byte| byte == b'a'));
            }
            prop_assert!(chars < 1 || !shown.matches.is_empty());
        }
    }
}
