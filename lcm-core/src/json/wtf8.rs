//! WTF-8: UTF-8, plus the three-byte forms of unpaired surrogates.
//!
//! A pair of surrogates has no form here: it is always the character that the two make. So a text has one form, and
//! bytes can be compared and hashed.

use std::borrow::Cow;

/// One step through bytes that should be WTF-8.
pub(super) enum Piece<'a> {
    Text(&'a str),
    Surrogate(u16),
    /// A byte that belongs to neither.
    Bad,
}

/// Takes WTF-8 apart into text and surrogates.
pub(super) fn pieces(bytes: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let text = rest.utf8_chunks().next()?.valid();
        if !text.is_empty() {
            rest = &rest[text.len()..];
            return Some(Piece::Text(text));
        }
        if let Some(code) = surrogate_at(rest) {
            rest = &rest[3..];
            return Some(Piece::Surrogate(code));
        }
        rest = &rest[1..];
        Some(Piece::Bad)
    })
}

/// Whether the bytes are WTF-8 without pairs. For bytes that are known not to be UTF-8; slow for those that are.
pub(crate) fn is_wtf8(bytes: &[u8]) -> bool {
    let mut high_before = false;
    pieces(bytes).all(|piece| match piece {
        Piece::Text(_) => {
            high_before = false;
            true
        }
        Piece::Surrogate(code) => {
            let pair = high_before && is_low(code);
            high_before = is_high(code);
            !pair
        }
        Piece::Bad => false,
    })
}

/// The text of WTF-8, with U+FFFD for every surrogate; borrowed when there is none.
pub(crate) fn wtf8_to_str_lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len());
    for piece in pieces(bytes) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Surrogate(_) | Piece::Bad => out.push('\u{fffd}'),
        }
    }
    Cow::Owned(out)
}

/// The surrogate whose three-byte form the bytes begin with.
pub(super) fn surrogate_at(bytes: &[u8]) -> Option<u16> {
    match bytes {
        [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ..] => {
            Some(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f))
        }
        _ => None,
    }
}

/// The three-byte form of a surrogate.
pub(super) fn surrogate_bytes(code: u16) -> [u8; 3] {
    let [high, low] = code.to_be_bytes();
    [0xed, 0x80 | (high & 0x0f) << 2 | low >> 6, 0x80 | low & 0x3f]
}

/// Whether this is the first half of a pair.
pub(super) fn is_high(code: u16) -> bool {
    (0xd800..0xdc00).contains(&code)
}

/// Whether this is the second half of a pair.
pub(super) fn is_low(code: u16) -> bool {
    (0xdc00..0xe000).contains(&code)
}

/// The character that a high and a low surrogate make.
pub(super) fn joined(high: u16, low: u16) -> char {
    let code = 0x1_0000 + (u32::from(high & 0x3ff) << 10) + u32::from(low & 0x3ff);
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}
