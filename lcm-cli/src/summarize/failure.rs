//! Why a model did not give a summary. Each way to fail has its name; to the engine it is one of five.

use std::time::Duration;

use lcm_engine::compress::summary::SummarizerError;

/// Characters of a service's own words that are shown.
const TOLD_CHARS_MAX: usize = 300;
/// What stands where a key stood.
const KEY: &str = "[key]";

/// Why there is no answer, or none that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// Our own side: no client, no thread, no runtime.
    #[error("{0}")]
    NotAsked(String),
    /// No connection.
    #[error("{0}")]
    NoConnection(String),
    /// The connection ended before the answer did.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The time was over, whether nothing came or too slowly.
    #[error("the time was over")]
    TimedOut(Duration),
    /// A status that is no success.
    #[error("status {status}{}", told(.words))]
    Status {
        status: u16,
        /// What the service says about it.
        words: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
        /// Whether asking again makes no sense: the account is empty.
        is_final: bool,
    },
    /// It sends us to another address, where we do not go with a key and a conversation.
    #[error("status {0}: it points to another address; put the right one into summary.base_url")]
    Elsewhere(u16),
    /// More bytes than are read.
    #[error("its answer has more than {0} bytes")]
    TooLong(usize),
    /// A page for people: a login, a proxy, a wrong address.
    #[error("its answer is a web page; is summary.base_url right?")]
    WebPage,
    /// An answer bit by bit, which nobody asked for.
    #[error("its answer is a stream of events, which was not asked for")]
    Stream,
    /// Not JSON.
    #[error("its answer is no JSON: {0}")]
    NoJson(String),
    /// JSON that is no chat completion.
    #[error("its answer is no chat completion: {0}")]
    NoCompletion(&'static str),
    /// An error in an answer that says it is a success.
    #[error("{0}")]
    Error(String),
    /// The model declined.
    #[error("it declined{}", told(.0))]
    Declined(String),
    /// The answer ended at the bound of its length.
    #[error("its answer was cut off at its bound; summary.headroom_tokens gives it more")]
    CutOff,
    /// The service held the answer back.
    #[error("the service held its answer back: {0}")]
    HeldBack(String),
    /// Nothing in it.
    #[error("its answer is empty")]
    Empty,
    /// What may be spent is spent.
    #[error("{what} of {window} seconds are spent; it is asked again in {left} seconds", window = .window.as_secs(), left = whole_seconds(*.left))]
    Spent {
        /// What the bound is.
        what: String,
        window: Duration,
        left: Duration,
    },
    /// It failed too often.
    #[error("it failed too often; it is asked again in {} seconds", whole_seconds(*.0))]
    LeftAlone(Duration),
}

/// What a service says, behind a colon; nothing for nothing.
fn told(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!(": {words}") }
}

/// Seconds, rounded up: after so many it is so.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// A service's own words: in one line, of a length that can be read.
pub(super) fn words(text: &str) -> String {
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((at, _)) = words.char_indices().nth(TOLD_CHARS_MAX) {
        words.truncate(at);
        words.push('…');
    }
    words
}

impl Failure {
    /// Whether the same request may succeed a moment later.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::NoConnection(_) | Self::Broken(_) => true,
            Self::Status { status, is_final, .. } => {
                !is_final && matches!(status, 408 | 429 | 500 | 502..=504 | 520..=529)
            }
            _ => false,
        }
    }

    /// Whether it says that the model is not to be reached or not to be used, rather than that this one request was
    /// not for it.
    pub(super) fn counts(&self) -> bool {
        !matches!(self, Self::Spent { .. } | Self::LeftAlone(_) | Self::CutOff | Self::Declined(_) | Self::HeldBack(_))
    }

    /// For the engine, without the key, should a service have said it back.
    pub(super) fn into_error(self, key: &str) -> SummarizerError {
        let text = self.to_string();
        let text = if key.is_empty() { text } else { text.replace(key, KEY) };
        match self {
            Self::NotAsked(_) | Self::NoConnection(_) | Self::Broken(_) => SummarizerError::Unreachable(text),
            Self::TimedOut(time) => SummarizerError::TimedOut(time),
            Self::Spent { .. } | Self::LeftAlone(_) => SummarizerError::Spent(text),
            Self::TooLong(_)
            | Self::WebPage
            | Self::Stream
            | Self::NoJson(_)
            | Self::NoCompletion(_)
            | Self::CutOff
            | Self::Empty => SummarizerError::Unusable(text),
            Self::Status { .. } | Self::Elsewhere(_) | Self::Error(_) | Self::Declined(_) | Self::HeldBack(_) => {
                SummarizerError::Refused(text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16) -> Failure {
        Failure::Status { status, words: "no\n\tway sk-hush".to_owned(), retry_after: None, is_final: false }
    }

    #[test]
    fn only_what_passes_is_tried_again() {
        for (failure, passes) in [
            (status(429), true),
            (status(503), true),
            (status(500), true),
            (status(501), false),
            (status(400), false),
            (status(401), false),
            (Failure::NoConnection(String::new()), true),
            (Failure::TimedOut(Duration::from_secs(1)), false),
            (Failure::Empty, false),
            (Failure::Status { status: 429, words: String::new(), retry_after: None, is_final: true }, false),
        ] {
            assert_eq!(failure.may_pass(), passes, "{failure:?}");
        }
    }

    #[test]
    fn a_key_said_back_is_not_said_on() {
        let error = status(401).into_error("sk-hush").to_string();
        assert!(error.contains("status 401") && error.contains(KEY) && !error.contains("hush"), "{error}");
        assert_eq!(status(401).into_error("").to_string().matches("hush").count(), 1);
    }

    #[test]
    fn words_of_others_are_one_short_line() {
        assert_eq!(words(" a\r\n\tb  c "), "a b c");
        assert_eq!(words(&"ü".repeat(1000)).chars().count(), TOLD_CHARS_MAX + 1);
    }
}
