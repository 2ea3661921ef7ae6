//! What one can ask of the search, and what it answers.
//!
//! Invariant: a cursor stays valid for ever, because arrival numbers never change; going on from cursor to cursor
//! gives every hit once.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use lcm_core::{Arrival, NodeId, Role, SessionId};
use regex::Regex;

use super::grep;
use crate::error::StoreError;
use crate::snapshot::Placed;

/// What to look for in exact search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// A regular expression in the syntax of the `regex` crate, which agrees with Python's `re` where both have a
    /// construct; braces and brackets that Python takes as they stand are taken so here, too.
    Regex(String),
    /// These characters, as they stand.
    Literal(String),
}

/// Whether `a` finds `A`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LetterCase {
    /// It does, unless the pattern has an upper-case letter.
    #[default]
    Smart,
    /// It does not.
    Sensitive,
    /// It does.
    Insensitive,
}

/// Where `^` and `$` match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anchors {
    /// At the beginning and end of every line.
    #[default]
    Lines,
    /// At the beginning and end of the text.
    Text,
}

/// Which hits come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The highest arrival number first.
    #[default]
    Newest,
    /// The lowest arrival number first.
    Oldest,
}

/// Exact search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grep {
    /// What to look for.
    pub pattern: Pattern,
    /// Whether `a` finds `A`.
    pub case: LetterCase,
    /// Which hits come first.
    pub order: Order,
    /// At most this many hits; 0 for all there are.
    pub hits_max: usize,
    /// Where an earlier answer ended.
    pub after: Option<Cursor>,
    /// Where `^` and `$` match.
    pub anchors: Anchors,
    /// Which places count.
    pub filter: Filter,
    /// Characters of a snippet; 0 for none.
    pub snippet_chars: usize,
    /// After this time the search ends early and says so.
    pub time_max: Option<Duration>,
    /// After this many bytes of text looked at the search ends early and says so.
    pub bytes_max: Option<u64>,
}

impl Grep {
    /// The newest 20 hits of a pattern, no other bound.
    #[must_use]
    pub fn new(pattern: Pattern) -> Self {
        Self {
            pattern,
            case: LetterCase::Smart,
            order: Order::Newest,
            hits_max: 20,
            after: None,
            anchors: Anchors::Lines,
            filter: Filter::default(),
            snippet_chars: 160,
            time_max: None,
            bytes_max: None,
        }
    }
}

impl Grep {
    /// The regular expression the search runs, for whoever looks at the text of a hit again.
    ///
    /// # Errors
    /// [`StoreError::Pattern`] for a pattern that is none, or one too large to run.
    pub fn regex(&self) -> Result<Regex, StoreError> {
        Ok(grep::compile(self)?.regex)
    }
}

/// Search by words: all of them, or any of them ranked.
///
/// A word is a run of letters and digits; `"quoted words"` stand side by side; a word of several parts
/// (`read_file`, `readFile`) is such a phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// The words.
    pub text: String,
    /// At most this many hits; at least 1.
    pub hits_max: usize,
    /// Where an earlier answer ended.
    pub after: Option<Cursor>,
    /// Which places count.
    pub filter: Filter,
    /// Characters of a snippet; 0 for none.
    pub snippet_chars: usize,
}

impl Words {
    /// The first 20 hits.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), hits_max: 20, after: None, filter: Filter::default(), snippet_chars: 160 }
    }
}

/// Which places count, within the scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Messages, summaries or both.
    pub kinds: Kinds,
    /// Messages of these roles; empty for all. Summaries have none, so naming one leaves them out.
    pub roles: Vec<Role>,
    /// Said at this moment or later: milliseconds since 1970 UTC.
    pub since_ms: Option<i64>,
    /// Said before this moment: milliseconds since 1970 UTC.
    pub before_ms: Option<i64>,
    /// Not in these sessions.
    pub without_sessions: Vec<SessionId>,
}

/// Messages, summaries or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kinds {
    /// Both.
    #[default]
    All,
    /// Messages only.
    Messages,
    /// Summaries only.
    Summaries,
}

/// A place that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Where it stands.
    pub placed: Placed,
    /// What stands there.
    pub id: NodeId,
    /// Who says it; [`Role::Other`] for a summary.
    pub role: Role,
    /// The text around the first match, as it is stored: whoever shows it to a terminal cleans it.
    pub snippet: String,
    /// What matched, as byte ranges of the snippet, in order and apart.
    pub matches: Vec<Range<usize>>,
    /// How well a ranked hit fits, in thousandths; comparable within one answer only.
    pub score: Option<u32>,
    /// Whether it was found by rank, not because it has all words.
    pub ranked: bool,
}

/// The answer to an exact search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrepHits {
    /// In the order asked for.
    pub hits: Vec<Hit>,
    /// Whether these are all there are, from the cursor on.
    pub complete: bool,
    /// The bound that ended it early, when one did.
    pub cut: Option<Cut>,
    /// Where to go on; `None` exactly when complete.
    pub next: Option<Cursor>,
    /// What it took.
    pub scanned: Scanned,
}

/// A bound that ended a search early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// [`Grep::time_max`].
    Time,
    /// [`Grep::bytes_max`].
    Bytes,
}

/// What an exact search looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// Places whose text was read.
    pub places: u64,
    /// Bytes of their texts.
    pub bytes: u64,
    /// Places that could not be read because truth is damaged there.
    pub damaged: u64,
    /// Blocks the sieve let us skip.
    pub blocks_skipped: u64,
}

/// The answer to a search by words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Those with all words newest first, then those found by rank, best first.
    pub hits: Vec<Hit>,
    /// Where to go on, when there may be more.
    pub next: Option<Cursor>,
    /// Places that could not be read because truth is damaged there.
    pub damaged: u64,
}

/// Where an answer ended. A short opaque text for whoever pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor(pub(crate) Position);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Position {
    /// Everything at this arrival number and above was given.
    Below(Arrival),
    /// Everything at this arrival number and below was given.
    Above(Arrival),
    /// All exact hits and this many ranked ones were given.
    Ranked(u64),
}

/// The searches whose answers end at a cursor of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CursorKind {
    /// Exact searches and searches for all of the words, newest first.
    Newest,
    /// Exact searches, oldest first.
    Oldest,
    /// Searches that give the best first.
    Ranked,
}

impl Cursor {
    /// Which searches it goes on with.
    #[must_use]
    pub fn kind(self) -> CursorKind {
        match self.0 {
            Position::Below(_) => CursorKind::Newest,
            Position::Above(_) => CursorKind::Oldest,
            Position::Ranked(_) => CursorKind::Ranked,
        }
    }
}

/// A text that is no cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no cursor")]
pub struct CursorError;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Position::Below(arrival) => write!(f, "b{arrival}"),
            Position::Above(arrival) => write!(f, "a{arrival}"),
            Position::Ranked(given) => write!(f, "r{given}"),
        }
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let (kind, digits) = text.split_at_checked(1).ok_or(CursorError)?;
        if digits.is_empty() || digits.len() > 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(CursorError);
        }
        let number = digits.parse().map_err(|_| CursorError)?;
        match kind {
            "b" => Ok(Self(Position::Below(Arrival(number)))),
            "a" => Ok(Self(Position::Above(Arrival(number)))),
            "r" => Ok(Self(Position::Ranked(number))),
            _ => Err(CursorError),
        }
    }
}
