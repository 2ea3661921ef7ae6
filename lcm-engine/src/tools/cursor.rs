//! Where an answer that was cut goes on: an opaque text that stays valid, also in another process.
//!
//! A cursor holds a stamp of what was asked, so that one of another question is refused and not answered wrongly. It
//! proves nothing: what it leads to is looked up in the reader's scope like everything else.
//!
//! It is written in hexadecimal digits, with a letter at the beginning: hosts look for secrets and numbers of telephones in
//! what a model passes, and a long text of letters, digits and signs looks like the one, digits with signs between like the
//! other. Those with a point behind the stamp are of versions that did not know that, and are read like the others.

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

/// What a digit beyond the tens stands for where a cursor goes on.
const SIGNS: [(char, char); 5] = [('a', 'a'), ('b', 'b'), ('c', 'r'), ('d', '-'), ('e', '.')];

/// Puts a cursor together. `rest` is made of digits and of what stands in [`SIGNS`].
pub(super) fn put(stamp: &str, rest: &str) -> String {
    let digit = |c: char| SIGNS.iter().find(|(_, sign)| *sign == c).map_or(c, |(digit, _)| *digit);
    let text = format!("c{stamp}{}", rest.chars().map(digit).collect::<String>());
    debug_assert!(text.bytes().all(|c| c.is_ascii_hexdigit()), "{rest} has signs that a cursor has not");
    text
}

/// Takes a cursor apart: its stamp, and where to go on.
pub(super) fn parts(text: &str) -> Result<(String, String), ToolError> {
    let none = || ToolError::Said("that is no cursor: leave it out to begin anew".to_owned());
    let text = text.trim();
    if text.len() > CHARS_MAX || !text.is_ascii() {
        return Err(none());
    }
    let (stamp, rest) = match text.split_once('.') {
        Some((stamp, rest)) => (stamp, rest.to_owned()),
        None => {
            let (stamp, rest) = text.strip_prefix('c').and_then(|text| text.split_at_checked(8)).ok_or_else(none)?;
            let sign = |c: char| SIGNS.iter().find(|(digit, _)| *digit == c).map_or(c, |(_, sign)| *sign);
            (stamp, rest.chars().map(sign).collect())
        }
    };
    let is_stamp = stamp.len() == 8 && stamp.bytes().all(|c| c.is_ascii_hexdigit());
    if is_stamp && !rest.is_empty() { Ok((stamp.to_owned(), rest)) } else { Err(none()) }
}

/// Takes a cursor apart that must be of the very question that is asked now.
pub(super) fn of(text: &str, stamp: &str) -> Result<String, ToolError> {
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
    fn nothing_in_a_cursor_looks_like_a_secret_or_a_number_of_a_telephone() {
        for rest in ["b17", "a18446744073709551615", "r40", "0-3-1772712000000", "1-0-0-0.12-0-35000.4711-4712", "41"] {
            let cursor = put("12345678", rest);
            assert!(cursor.starts_with('c') && cursor.bytes().all(|c| c.is_ascii_hexdigit()), "{cursor}");
            assert_eq!(of(&cursor, "12345678").ok().as_deref(), Some(rest));
        }
    }

    #[test]
    fn a_cursor_is_of_one_question() {
        let stamp = stamp("lcm_grep", ["tide", "current"]);
        assert_ne!(stamp, super::stamp("lcm_grep", ["tidec", "urrent"]));
        let cursor = put(&stamp, "b17");
        assert_eq!(of(&cursor, &stamp).ok().as_deref(), Some("b17"));
        assert_eq!(of(&format!("{stamp}.b17"), &stamp).ok().as_deref(), Some("b17"));
        assert!(of(&cursor, "00000000").is_err());
        let long = "1".repeat(5000);
        for text in ["", ".", "x", "12345678", "12345678.", "1234567é.b", "c", "c12345678", "c1234567é1", &long] {
            assert!(parts(text).is_err(), "{text}");
        }
        assert_eq!(numbers("1-2"), Some(vec![1, 2]));
        assert_eq!(numbers("1--2"), None);
        assert_eq!(written([Arrival(1), Arrival(2)]), "1-2");
    }
}
