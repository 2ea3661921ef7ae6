//! Finding the words of a query in a text, as it was written.
//!
//! A needle is a run of characters, or several with anything but word characters between them. It is found
//! whatever the case, and only where it begins and ends at the border of a word's part, exactly as the tokenizer
//! draws it.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use memchr::memmem;
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

use super::needs::Needs;
use super::tokenize::{fold, is_unspaced, is_word};

/// One thing to find.
#[derive(Clone, Debug)]
pub(crate) struct Needle {
    /// Folded; never empty, none of them is.
    runs: Vec<String>,
    end: End,
}

/// Where a needle may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At a border.
    Border,
    /// In a word: the word's rest belongs to the match. For the beginnings that forms of a word share.
    InWord,
}

/// A text made ready for finding.
#[derive(Debug)]
pub(crate) struct Folded<'t> {
    text: &'t str,
    folded: &'t str,
    /// Where the letters stand in `folded` that were upper case, from and to, when an offset of the one is no offset
    /// of the other.
    apart: Option<&'t [(usize, usize)]>,
}

/// Room for a folded text.
#[derive(Debug, Default)]
pub(crate) struct FoldRoom {
    folded: String,
    upper: Vec<(usize, usize)>,
}

impl FoldRoom {
    pub(crate) const fn new() -> Self {
        Self { folded: String::new(), upper: Vec::new() }
    }

    /// Folds a text.
    pub(crate) fn fold<'t>(&'t mut self, text: &'t str) -> Folded<'t> {
        let Self { folded, upper } = self;
        folded.clear();
        if text.is_ascii() {
            folded.push_str(text);
            folded.make_ascii_lowercase();
            return Folded { text, folded, apart: None };
        }
        let is_normal = is_nfc_quick(text.chars()) == IsNormalized::Yes;
        let aligned = is_normal && fold_aligned(text, folded);
        if aligned {
            return Folded { text, folded, apart: None };
        }
        folded.clear();
        upper.clear();
        for c in text.nfc() {
            let start = folded.len();
            fold(c, folded);
            if c.is_uppercase() {
                upper.push((start, folded.len()));
            }
        }
        Folded { text, folded, apart: Some(upper) }
    }
}

/// Folds a text, as long as every character keeps its length.
fn fold_aligned(text: &str, folded: &mut String) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        // Most of most texts is ASCII, whatever else is in them.
        let plain = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let start = folded.len();
        folded.push_str(&rest[..plain]);
        folded[start..].make_ascii_lowercase();
        rest = &rest[plain..];
        while let Some(c) = rest.chars().next().filter(|c| !c.is_ascii()) {
            let before = folded.len();
            fold(c, folded);
            if folded.len() - before != c.len_utf8() {
                return false;
            }
            rest = &rest[c.len_utf8()..];
        }
    }
    true
}

impl Folded<'_> {
    /// Whether offsets of what was found are offsets of the text itself.
    pub(crate) fn is_aligned(&self) -> bool {
        self.apart.is_none()
    }

    /// The text that borders are drawn in: upper case draws some of them.
    fn bordered(&self) -> &str {
        if self.apart.is_none() { self.text } else { self.folded }
    }

    /// Whether a token may begin or end at an offset.
    fn is_border(&self, at: usize) -> bool {
        let (before, behind) = self.bordered().split_at(at);
        let (Some(previous), Some(c)) = (before.chars().next_back(), behind.chars().next()) else { return true };
        if is_unspaced(previous) || is_unspaced(c) || !is_word(previous) || !is_word(c) || previous == '_' || c == '_' {
            return true;
        }
        // Where an upper-case letter that begins at an offset ends.
        let upper_end = |at: usize| {
            let upper = self.apart?;
            upper.binary_search_by_key(&at, |(start, _)| *start).ok().map(|found| upper[found].1)
        };
        let is_lower = |at: usize, c: char| c.is_lowercase() && upper_end(at).is_none();
        let end = match upper_end(at) {
            Some(end) => end,
            None if c.is_uppercase() => at + c.len_utf8(),
            None => return false,
        };
        is_lower(at - previous.len_utf8(), previous)
            || self.bordered()[end..].chars().next().is_some_and(|next| is_lower(end, next))
    }
}

impl Needle {
    /// Finds `text` as it stands. `None` when it is empty.
    pub(crate) fn literal(text: &str, end: End) -> Option<Self> {
        let mut run = String::with_capacity(text.len());
        for c in text.nfc() {
            fold(c, &mut run);
        }
        (!run.is_empty()).then(|| Self { runs: vec![run], end })
    }

    /// Finds the words of `text` side by side, whatever stands between them.
    pub(crate) fn phrase(text: &str) -> Option<Self> {
        let mut runs = vec![String::new()];
        for c in text.nfc() {
            if is_word(c) || is_unspaced(c) {
                let Some(run) = runs.last_mut() else { break };
                fold(c, run);
            } else if runs.last().is_some_and(|run| !run.is_empty()) {
                runs.push(String::new());
            }
        }
        runs.retain(|run| !run.is_empty());
        (!runs.is_empty()).then_some(Self { runs, end: End::Border })
    }

    /// Whether it is one run, and this one.
    pub(crate) fn is(&self, run: &str) -> bool {
        matches!(self.runs.as_slice(), [one] if one == run)
    }

    /// The first place at or behind `from` where it is found; offsets are those of the folded text.
    pub(crate) fn find(&self, text: &Folded<'_>, from: usize) -> Option<Range<usize>> {
        let (first, others) = self.runs.split_first()?;
        let finder = memmem::Finder::new(first.as_bytes());
        let haystack = text.folded.as_bytes();
        let mut at = from;
        while let Some(found) = haystack.get(at..).and_then(|rest| finder.find(rest)) {
            let start = at + found;
            if let Some(end) = follow(text.folded, start + first.len(), others)
                && text.bordered().is_char_boundary(start)
                && text.bordered().is_char_boundary(end)
                && text.is_border(start)
            {
                match self.end {
                    End::Border if text.is_border(end) => return Some(start..end),
                    End::Border => {}
                    End::InWord => return Some(start..word_end(text.bordered(), end)),
                }
            }
            // The next character's first byte: runs begin with one.
            at = start + 1;
        }
        None
    }

    /// What a text needs for this to be found in it: the sieve knows no case but ASCII's, and no normal form.
    pub(crate) fn needs(&self) -> Needs {
        let mut needs = Needs::Nothing;
        for run in &self.runs {
            let mut piece = String::new();
            for c in run.chars() {
                if c.is_ascii() || (('\u{3400}'..='\u{9fff}').contains(&c) && !COMPATIBLE.contains(&c)) {
                    piece.push(c);
                    continue;
                }
                if is_combining_mark(c) {
                    // One character may have stood for the letter and its mark.
                    piece.pop();
                }
                needs = needs.and(Needs::of_literal(&piece));
                piece.clear();
            }
            needs = needs.and(Needs::of_literal(&piece));
        }
        needs
    }
}

/// Whether `runs` follow at `at`, each behind something that is no word; returns where the last one ends.
fn follow(text: &str, at: usize, runs: &[String]) -> Option<usize> {
    let mut end = at;
    for run in runs {
        let rest = &text[end..];
        let gap = rest.find(|c| is_word(c) || is_unspaced(c))?;
        if gap == 0 || !rest[gap..].starts_with(run.as_str()) {
            return None;
        }
        end += gap + run.len();
    }
    Some(end)
}

/// Han characters that another one becomes in NFC: a text may hold either.
static COMPATIBLE: LazyLock<HashSet<char>> = LazyLock::new(|| {
    let others = ('\u{f900}'..='\u{faff}').chain('\u{2f800}'..='\u{2fa1f}');
    others.filter_map(|c| std::iter::once(c).nfc().next().filter(|same| *same != c)).collect()
});

fn word_end(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    at + rest.find(|c| !is_word(c) || is_unspaced(c)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tokenize::Splitter;
    use super::*;

    fn find(needle: &Needle, text: &str) -> Option<Range<usize>> {
        needle.find(&FoldRoom::default().fold(text), 0)
    }

    fn word(text: &str) -> Needle {
        Needle::literal(text, End::Border).unwrap()
    }

    #[test]
    fn a_word_is_found_at_the_borders_of_parts_only() {
        assert_eq!(find(&word("file"), "profile readFile"), Some(12..16));
        assert_eq!(find(&word("read_file"), "spread_file, READ_FILE_now"), Some(13..22));
        assert_eq!(find(&word("server"), "HTTPServers"), None);
        assert_eq!(find(&word("http"), "myHTTPServer"), Some(2..6));
        assert_eq!(find(&word("缓存"), "量子缓存"), Some(6..12));
    }

    #[test]
    fn a_phrase_is_found_whatever_stands_between_its_words() {
        let phrase = Needle::phrase("connection, refused!").unwrap();
        assert_eq!(find(&phrase, "a Connection:\n  refused."), Some(2..23));
        assert_eq!(find(&phrase, "connection was refused"), None);
        assert_eq!(find(&phrase, "connectionrefused"), None);
    }

    #[test]
    fn case_beyond_ascii_and_other_normal_forms_are_found() {
        assert_eq!(find(&word("größe"), "die GRÖSSE, GRÖßE"), Some(13..20));
        assert!(find(&word("cafe\u{301}"), "CAFÉ").is_some());
        assert!(find(&word("café"), "CAFE\u{301}").is_some());
    }

    #[test]
    fn signs_are_found_anywhere() {
        assert_eq!(find(&word("=>"), "a=>b"), Some(1..3));
        assert_eq!(find(&word("🎉"), "so🎉"), Some(2..6));
    }

    #[test]
    fn the_rest_of_a_word_belongs_to_its_beginning() {
        let needle = Needle::literal("commit", End::InWord).unwrap();
        assert_eq!(find(&needle, "two Commits now"), Some(4..11));
    }

    proptest! {
        /// The scan of what is not indexed and the index must agree on what has a word.
        #[test]
        fn what_has_a_token_is_found_by_it(text in "[a-zA-Z0-9_ .éÉσς量子İẞ\u{301}]{0,40}") {
            let mut tokens = Vec::new();
            Splitter::default().tokens(&text, |token| tokens.push(token.to_owned()));
            for token in tokens {
                prop_assert!(find(&word(&token), &text).is_some(), "{token} in {text}");
            }
        }

        #[test]
        fn nothing_makes_it_panic(needle in "\\PC{1,6}", text in "\\PC{0,40}", from in 0_usize..50) {
            let mut room = FoldRoom::default();
            let folded = room.fold(&text);
            for needle in [Needle::literal(&needle, End::Border), Needle::phrase(&needle)].into_iter().flatten() {
                if let Some(found) = needle.find(&folded, from) {
                    prop_assert!(found.start < found.end && found.end <= folded.folded.len());
                }
            }
        }
    }
}
