//! Where an answer that was cut goes on: an opaque text that stays valid, also in another process.
//!
//! A cursor holds a stamp of what was asked, so that one of another question is refused and not answered wrongly. It
//! proves nothing: what it leads to is looked up in the reader's scope like everything else.

use lcm_core::Arrival;

use super::ToolError;

/// A longer text is no cursor of ours.
const CHARS_MAX: usize = 1024;

/// A short digest of what was asked.
pub(super) fn stamp<'p>(tool: &str, parts: impl IntoIterator<Item = &'p str>) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(tool.as_bytes());
    for part in parts {
        // Lengths stand between, so that no two lists of parts read the same.
        hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..8].to_owned()
}

/// Takes a cursor apart: its stamp, and where to go on.
pub(super) fn parts(text: &str) -> Result<(&str, &str), ToolError> {
    let none = || ToolError::Said("that is no cursor: leave it out to begin anew".to_owned());
    let text = text.trim();
    if text.len() > CHARS_MAX {
        return Err(none());
    }
    let (stamp, rest) = text.split_once('.').ok_or_else(none)?;
    let is_stamp = stamp.len() == 8 && stamp.bytes().all(|c| c.is_ascii_hexdigit());
    if is_stamp && !rest.is_empty() { Ok((stamp, rest)) } else { Err(none()) }
}

/// Takes a cursor apart that must be of the very question that is asked now.
pub(super) fn of<'t>(text: &'t str, stamp: &str) -> Result<&'t str, ToolError> {
    let (found, rest) = parts(text)?;
    if found == stamp {
        return Ok(rest);
    }
    Err(ToolError::Said(
        "the cursor is of another question: repeat the arguments of the call that gave it, or leave it out".to_owned(),
    ))
}

/// Numbers as a cursor writes them.
pub(super) fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split('-').map(|number| number.parse().ok()).collect()
}

/// The other way.
pub(super) fn written(numbers: impl IntoIterator<Item = Arrival>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_of_one_question() {
        let stamp = stamp("lcm_grep", ["tide", "current"]);
        assert_ne!(stamp, super::stamp("lcm_grep", ["tidec", "urrent"]));
        let cursor = format!("{stamp}.b17");
        assert_eq!(of(&cursor, &stamp).ok(), Some("b17"));
        assert!(of(&cursor, "00000000").is_err());
        for text in ["", ".", "x", "12345678", "12345678.", "1234567é.b", &"1".repeat(5000)] {
            assert!(parts(text).is_err(), "{text}");
        }
        assert_eq!(numbers("1-2"), Some(vec![1, 2]));
        assert_eq!(numbers("1--2"), None);
        assert_eq!(written([Arrival(1), Arrival(2)]), "1-2");
    }
}
