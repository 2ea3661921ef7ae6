//! Search, exact and by words: what to look for, and how hits are shown.

use std::collections::BTreeMap;
use std::ops::Range;

use lcm_core::SessionId;
use lcm_store::{Cursor, Cut, Grep, Scope, Session, Words};

use super::reading::Entry;

/// Exact search, and how its hits are to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// What to look for, and the bounds.
    pub grep: Grep,
    /// Find whole words only.
    pub whole_words: bool,
    /// The matching lines of each hit, and how many around them; `None` for snippets alone.
    pub lines: Option<LineOptions>,
}

/// Which lines of a hit are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineOptions {
    /// Lines before and behind each matching one.
    pub context: usize,
    /// Characters of a line; a longer one is cut around its first match. 0 for whole lines.
    pub chars_max: usize,
    /// At most this many matching lines of one hit; at least 1. What a log of a build repeats need not be repeated.
    pub matches_max: usize,
}

/// Hits of an exact search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepPage {
    /// In the order asked for.
    pub hits: Vec<LineHit>,
    /// The sessions they were said in.
    pub sessions: BTreeMap<SessionId, Session>,
    /// Whether these are all there are, from the cursor on.
    pub complete: bool,
    /// The bound that ended it early, when one did.
    pub cut: Option<Cut>,
    /// Where to go on; `None` exactly when complete.
    pub next: Option<Cursor>,
    /// Places that could not be read because the store is damaged there.
    pub damaged: u64,
}

/// A hit with its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineHit {
    /// Where.
    pub entry: Entry,
    /// The text around the first match; control characters as they are stored.
    pub snippet: String,
    /// What matched in the snippet, as byte ranges.
    pub matches: Vec<Range<usize>>,
    /// The lines asked for; may be none where the pattern is one that only the search itself reads, then the snippet
    /// tells.
    pub lines: Vec<Line>,
    /// Matching lines that are not among them.
    pub lines_left: usize,
}

/// A line of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Which one of the text that search looks through, from 1.
    pub number: usize,
    /// The line without its end, maybe cut; control characters as they are stored.
    pub text: String,
    /// Whether something was cut off before `text`, and behind it.
    pub cut: (bool, bool),
    /// What matched, as byte ranges of `text`; empty for a line of context.
    pub matches: Vec<Range<usize>>,
}

/// Search by words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchRequest {
    /// What the reader may see.
    pub scope: Scope,
    /// What to look for, and the bounds.
    pub words: Words,
    /// How.
    pub mode: SearchMode,
}

/// How words are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchMode {
    /// All words, newest first; when there are fewer than asked, ranked ones stand behind them.
    Words,
    /// Any of the words, best first.
    Ranked,
}

/// Hits of a search by words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPage {
    /// Best or newest first, see [`SearchMode`].
    pub hits: Vec<WordHit>,
    /// The sessions they were said in.
    pub sessions: BTreeMap<SessionId, Session>,
    /// Where to go on, when there may be more.
    pub next: Option<Cursor>,
    /// Places that could not be read because the store is damaged there.
    pub damaged: u64,
}

/// A hit with its score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordHit {
    /// Where.
    pub entry: Entry,
    /// The text around the first match; control characters as they are stored.
    pub snippet: String,
    /// What matched, as byte ranges of the snippet.
    pub matches: Vec<Range<usize>>,
    /// How well a ranked hit fits, in thousandths; comparable within one answer only.
    pub score: Option<u32>,
    /// Whether it was found by rank, not because it has all words.
    pub ranked: bool,
}
