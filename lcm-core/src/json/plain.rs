//! How far a string goes on before something ends it or must be escaped.
//!
//! Reader and writer both spend most of their time here, so it looks at many bytes at once.

/// Whether a string cannot hold the byte as it is: a quote, a backslash, or a control character.
const fn is_special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// How many bytes stand before the first special one.
///
/// The first words are looked at one by one: code and tool output have something special every few dozen bytes, and
/// then a whole block would be looked at in vain. Behind them it is probably a long run, as in base64.
pub(super) fn plain_run(bytes: &[u8]) -> usize {
    const WORDS_FIRST: usize = 4;
    const BLOCK: usize = 32;
    let mut rest = bytes;
    for _ in 0..WORDS_FIRST {
        let Some((word, behind)) = rest.split_first_chunk() else { break };
        let plain = plain_in_word(*word);
        if plain < 8 {
            return bytes.len() - rest.len() + plain;
        }
        rest = behind;
    }
    while let Some((block, behind)) = rest.split_first_chunk::<BLOCK>()
        && is_plain(block)
    {
        rest = behind;
    }
    while let Some((word, behind)) = rest.split_first_chunk() {
        let plain = plain_in_word(*word);
        if plain < 8 {
            return bytes.len() - rest.len() + plain;
        }
        rest = behind;
    }
    bytes.len() - rest.len() + rest.iter().take_while(|byte| !is_special(**byte)).count()
}

/// Whether nothing special is in the block.
fn is_plain<const N: usize>(block: &[u8; N]) -> bool {
    // Without a branch, so that the compiler makes vectors of it.
    block
        .iter()
        .fold(0, |special, &byte| special | u8::from(byte < 0x20) | u8::from(byte == b'"') | u8::from(byte == b'\\'))
        == 0
}

/// How many of eight bytes stand before the first special one.
fn plain_in_word(word: [u8; 8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let word = u64::from_le_bytes(word);
    let quote = word ^ (ONES * 0x22);
    let backslash = word ^ (ONES * 0x5c);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let hits = (quote.wrapping_sub(ONES) & !quote) | (backslash.wrapping_sub(ONES) & !backslash) | control;
    // A borrow can mark bytes above a hit that are none, never the lowest one.
    let hits = hits & (ONES << 7);
    usize::try_from(hits.trailing_zeros() / 8).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    //! That looking at many bytes at once finds what looking at each would.

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn plain_runs_end_where_a_byte_by_byte_look_says(bytes in prop::collection::vec(prop_oneof![20 => 0x20_u8..0x80, 1 => any::<u8>()], 0..200)) {
            let slow = bytes.iter().take_while(|byte| !is_special(**byte)).count();
            prop_assert_eq!(plain_run(&bytes), slow);
        }
    }
}
