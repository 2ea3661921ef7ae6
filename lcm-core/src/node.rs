//! Nodes: a message, or a summary that stands for a run of nodes and links back to all of them.
//!
//! A summary's canonical bytes are laid out in `docs/format.md` ("Summary"); they hold everything that
//! makes it what it is, so that two summaries with one id are the same in every respect.
//!
//! Invariant: a summary has a child, a depth and a span that goes forward. Not here: its bytes (`canon`), whether its
//! children are there (the store), what leads to what (`graph`).

use crate::id::NodeId;

/// Which rung of the ladder wrote a summary: the lower, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// A model, in detail.
    Detailed,
    /// A model, in bullets at half the size.
    Bullets,
    /// The extractive summariser, without a model.
    Extract,
    /// A cut with handles.
    Cut,
}

impl Level {
    /// All levels, best first.
    pub const ALL: [Self; 4] = [Self::Detailed, Self::Bullets, Self::Extract, Self::Cut];

    /// The stored number, 1 to 4.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Detailed => 1,
            Self::Bullets => 2,
            Self::Extract => 3,
            Self::Cut => 4,
        }
    }

    /// The level of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.number() == number)
    }
}

/// Why a summary is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// It stands for nothing.
    #[error("a summary needs at least one child")]
    NoChildren,
    /// More children than [`crate::limits::SUMMARY_CHILDREN_MAX`].
    #[error("a summary may have at most {max} children, this one has {count}")]
    TooManyChildren {
        /// How many there were.
        count: usize,
        /// How many may be.
        max: usize,
    },
    /// Depth 0 is a message.
    #[error("a summary is at least one deep")]
    NoDepth,
    /// The span ends before it begins.
    #[error("a summary's time span ends before it begins")]
    BackwardSpan,
}

/// A text that stands for an ordered run of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    text: String,
    children: Vec<NodeId>,
    depth: u16,
    /// What the children cost, by the stored count.
    pub source_tokens: u64,
    /// What the text costs, by the stored count.
    pub own_tokens: u32,
    span_ms: (i64, i64),
    /// Which rung of the ladder wrote it.
    pub level: Level,
    /// The model that wrote it; empty for none.
    pub model: String,
    /// The version of our prompt or of the extractive summariser.
    pub prompt_version: u32,
    /// What was noticed about the text, in our own words (`repaired`, `cut`); sorted.
    pub marks: Vec<String>,
    /// Files and ids the sources speak of, in order of first mention.
    pub mentions: Vec<String>,
}

/// The parts of a new [`Summary`] that have an invariant between them.
#[derive(Clone, Debug)]
pub struct SummaryParts {
    /// What is shown.
    pub text: String,
    /// Ordered; messages for depth 1, summaries of one depth less otherwise.
    pub children: Vec<NodeId>,
    /// 1 for a summary of messages.
    pub depth: u16,
    /// First and last moment of the sources, milliseconds since 1970 UTC.
    pub span_ms: (i64, i64),
}

impl Summary {
    /// Makes a summary; the public fields start as an extract of no known size.
    ///
    /// # Errors
    /// When it has no or too many children, no depth, or a backward span.
    pub fn new(parts: SummaryParts) -> Result<Self, SummaryError> {
        let SummaryParts { text, children, depth, span_ms } = parts;
        let (count, max) = (children.len(), crate::limits::SUMMARY_CHILDREN_MAX);
        if count == 0 {
            return Err(SummaryError::NoChildren);
        }
        if count > max {
            return Err(SummaryError::TooManyChildren { count, max });
        }
        if depth == 0 {
            return Err(SummaryError::NoDepth);
        }
        if span_ms.1 < span_ms.0 {
            return Err(SummaryError::BackwardSpan);
        }
        Ok(Self {
            text,
            children,
            depth,
            source_tokens: 0,
            own_tokens: 0,
            span_ms,
            level: Level::Extract,
            model: String::new(),
            prompt_version: 0,
            marks: Vec::new(),
            mentions: Vec::new(),
        })
    }

    /// What is shown in place of the children.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it stands for, in order.
    #[must_use]
    pub fn children(&self) -> &[NodeId] {
        &self.children
    }

    /// 1 for a summary of messages, one more than its children otherwise.
    #[must_use]
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// First and last moment of the sources, milliseconds since 1970 UTC.
    #[must_use]
    pub fn span_ms(&self) -> (i64, i64) {
        self.span_ms
    }
}

#[cfg(test)]
mod tests {
    //! That a summary which contradicts itself cannot be made.

    use super::*;

    fn parts() -> SummaryParts {
        SummaryParts { text: "t".into(), children: vec![NodeId::from_bytes([1; 32])], depth: 1, span_ms: (5, 5) }
    }

    #[test]
    fn a_summary_stands_for_something_at_some_depth_in_forward_time() {
        assert!(Summary::new(parts()).is_ok());
        let without_children = SummaryParts { children: Vec::new(), ..parts() };
        assert_eq!(Summary::new(without_children), Err(SummaryError::NoChildren));
        assert_eq!(Summary::new(SummaryParts { depth: 0, ..parts() }), Err(SummaryError::NoDepth));
        let backward = SummaryParts { span_ms: (5, 4), ..parts() };
        assert_eq!(Summary::new(backward), Err(SummaryError::BackwardSpan));
    }

    #[test]
    fn a_summary_has_as_many_children_as_the_limit_says_and_no_more() {
        let max = crate::limits::SUMMARY_CHILDREN_MAX;
        let with = |count| SummaryParts { children: vec![NodeId::from_bytes([1; 32]); count], ..parts() };
        assert!(Summary::new(with(max)).is_ok());
        let error = SummaryError::TooManyChildren { count: max + 1, max };
        assert_eq!(Summary::new(with(max + 1)), Err(error));
    }

    #[test]
    fn levels_are_numbered_from_1_best_first() {
        assert!(Level::ALL.is_sorted());
        assert_eq!(Level::ALL.map(Level::number), [1, 2, 3, 4]);
        assert_eq!(Level::ALL.map(|level| Level::from_number(level.number())), Level::ALL.map(Some));
        assert_eq!(Level::from_number(0), None);
    }
}
