//! From text to tokens, the same way for what is indexed and for what is asked.
//!
//! A token is a part of an identifier (`read_file`, `readFile` and `HTTPServer` have two), folded; the whole
//! identifier stands behind its parts when it has several. Scripts that write no spaces (CJK, Thai and their
//! like) give pairs of neighbouring characters, a lone character stands for itself. Text is brought to NFC and
//! to lower case first.
//!
//! Invariant: the tokens of a text depend on the text alone, so that the index, the un-indexed tail and a query
//! always agree. A change of any rule here needs a new `schema::VERSION`.
//! Not here: exact search, which knows no tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// Longer tokens are no words but encoded data, and would fill the dictionary. Exact search finds them.
pub(crate) const TOKEN_BYTES_MAX: usize = 64;

/// Room for one token, kept by whoever takes many texts apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Splitter {
    folded: String,
    /// Where the parts of the identifier at hand begin and end in `folded`.
    parts: Vec<(usize, usize)>,
    normal: String,
}

impl Splitter {
    pub(crate) const fn new() -> Self {
        Self { folded: String::new(), parts: Vec::new(), normal: String::new() }
    }

    /// Hands every token of `text` to `each`, in order, parts before their whole.
    pub(crate) fn tokens(&mut self, text: &str, mut each: impl FnMut(&str)) {
        if text.is_ascii() || is_nfc_quick(text.chars()) == IsNormalized::Yes {
            self.split(text, &mut each);
            return;
        }
        let mut normal = std::mem::take(&mut self.normal);
        normal.clear();
        normal.extend(text.nfc());
        self.split(&normal, &mut each);
        self.normal = normal;
    }

    fn split(&mut self, text: &str, each: &mut impl FnMut(&str)) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match CLASSES[usize::from(byte)] {
                Class::Other => at += 1,
                Class::Wide => {
                    let Some(first) = text[at..].chars().next() else { break };
                    if is_unspaced(first) {
                        at = pairs(text, at, each);
                    } else if is_word(first) {
                        at = self.identifier(text, at, each);
                    } else {
                        at += first.len_utf8();
                    }
                }
                _ => at = self.identifier(text, at, each),
            }
        }
    }

    /// Takes the identifier that begins at `start`; returns where it ends.
    fn identifier(&mut self, text: &str, start: usize, each: &mut impl FnMut(&str)) -> usize {
        let bytes = text.as_bytes();
        let mut end = start;
        // Nearly every word is one part: letters or digits, at most the first of them upper case.
        let mut plain = true;
        while let Some(&byte) = bytes.get(end) {
            match CLASSES[usize::from(byte)] {
                Class::Lower | Class::Digit => {}
                Class::Upper => plain &= end == start,
                Class::Low => plain = false,
                Class::Other | Class::Wide => break,
            }
            end += 1;
        }
        self.folded.clear();
        self.parts.clear();
        if bytes.get(end).is_some_and(|byte| !byte.is_ascii()) {
            end = self.wide_identifier(text, start);
        } else if plain {
            if end - start <= TOKEN_BYTES_MAX {
                self.folded.push_str(&text[start..end]);
                self.folded.make_ascii_lowercase();
                each(&self.folded);
            }
            return end;
        } else {
            self.ascii_identifier(&bytes[start..end]);
        }
        let whole = match (self.parts.first(), self.parts.last()) {
            (Some(&(first, _)), Some(&(_, last))) if self.parts.len() > 1 => Some((first, last)),
            _ => None,
        };
        for &(from, to) in self.parts.iter().chain(&whole) {
            if to - from <= TOKEN_BYTES_MAX {
                each(&self.folded[from..to]);
            }
        }
        end
    }

    fn ascii_identifier(&mut self, run: &[u8]) {
        let mut begun = None;
        for (i, &byte) in run.iter().enumerate() {
            let at = self.folded.len();
            self.folded.push(char::from(byte.to_ascii_lowercase()));
            if byte == b'_' {
                if let Some(from) = begun.take() {
                    self.parts.push((from, at));
                }
                continue;
            }
            let Some(from) = begun else {
                begun = Some(at);
                continue;
            };
            let previous = run[i - 1];
            let next_is_lower = run.get(i + 1).is_some_and(u8::is_ascii_lowercase);
            let breaks = byte.is_ascii_uppercase() && (previous.is_ascii_lowercase() || next_is_lower);
            if breaks {
                self.parts.push((from, at));
                begun = Some(at);
            }
        }
        if let Some(from) = begun {
            self.parts.push((from, self.folded.len()));
        }
    }

    /// The same for identifiers with letters beyond ASCII; returns where it ends.
    fn wide_identifier(&mut self, text: &str, start: usize) -> usize {
        let mut begun = None;
        let mut previous = '_';
        let mut characters = text[start..].chars().peekable();
        let mut end = start;
        while let Some(&c) = characters.peek() {
            if is_unspaced(c) || !is_word(c) {
                break;
            }
            characters.next();
            end += c.len_utf8();
            let at = self.folded.len();
            fold(c, &mut self.folded);
            if c == '_' {
                if let Some(from) = begun.take() {
                    self.parts.push((from, at));
                }
            } else if let Some(from) = begun {
                let next_is_lower = characters.peek().is_some_and(|next| next.is_lowercase());
                if c.is_uppercase() && (previous.is_lowercase() || next_is_lower) {
                    self.parts.push((from, at));
                    begun = Some(at);
                }
            } else {
                begun = Some(at);
            }
            previous = c;
        }
        if let Some(from) = begun {
            self.parts.push((from, self.folded.len()));
        }
        end
    }
}

/// Hands over the pairs of the unspaced run that begins at `start`; returns where it ends.
fn pairs(text: &str, start: usize, each: &mut impl FnMut(&str)) -> usize {
    let mut previous = None;
    let mut end = start;
    let mut alone = true;
    for c in text[start..].chars().take_while(|&c| is_unspaced(c)) {
        let from = end;
        end += c.len_utf8();
        if let Some(previous) = previous {
            each(&text[previous..end]);
            alone = false;
        }
        previous = Some(from);
    }
    if alone {
        each(&text[start..end]);
    }
    end
}

/// What a byte can mean.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Other,
    Lower,
    Upper,
    Digit,
    /// The low line that joins the parts of an identifier.
    Low,
    /// A byte of a character beyond ASCII.
    Wide,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte {
            0x61..=0x7a => Class::Lower,
            0x41..=0x5a => Class::Upper,
            0x30..=0x39 => Class::Digit,
            0x5f => Class::Low,
            0x80..=0xff => Class::Wide,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
};

/// Appends a character in lower case; the two letters whose lower case depends on their place get one form.
pub(crate) fn fold(c: char, out: &mut String) {
    match c {
        'ſ' => out.push('s'),
        'ς' => out.push('σ'),
        // Nothing in CJK has a case.
        '\u{2e80}'..='\u{a63f}' | '\u{ac00}'..='\u{d7ff}' => out.push(c),
        _ => out.extend(c.to_lowercase()),
    }
}

/// Whether a character belongs to a word.
pub(crate) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric() || (!c.is_ascii() && is_combining_mark(c))
}

/// Whether a character is of a script that writes no spaces between words.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c,
        // Thai, Lao, Burmese, Khmer.
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        // Kana; Han with its extensions; Hangul.
        | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3134f}')
}

/// The tokenizer as tantivy wants it.
#[derive(Clone, Default)]
pub(crate) struct CodeTokenizer {
    splitter: Splitter,
    /// Bytes of text taken apart so far, by all clones: whoever feeds the index sees how far behind it is.
    taken: Arc<AtomicU64>,
    /// The tokens of the text at hand, end to end.
    text: String,
    ends: Vec<usize>,
    token: Token,
}

impl CodeTokenizer {
    /// A tokenizer that counts into `taken`.
    pub(crate) fn counting(taken: Arc<AtomicU64>) -> Self {
        Self { taken, ..Self::default() }
    }
}

impl Tokenizer for CodeTokenizer {
    type TokenStream<'a> = CodeTokens<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> CodeTokens<'a> {
        let Self { splitter, taken, text: tokens, ends, token } = self;
        taken.fetch_add(u64::try_from(text.len()).unwrap_or(0), Ordering::Relaxed);
        tokens.clear();
        ends.clear();
        splitter.tokens(text, |token| {
            tokens.push_str(token);
            ends.push(tokens.len());
        });
        // No positions are kept, so every token may stand at the same one.
        token.position = 0;
        token.position_length = 1;
        CodeTokens { text: tokens, ends: ends.iter(), from: 0, token }
    }
}

/// The tokens of one text.
pub(crate) struct CodeTokens<'a> {
    text: &'a str,
    ends: std::slice::Iter<'a, usize>,
    from: usize,
    token: &'a mut Token,
}

impl TokenStream for CodeTokens<'_> {
    fn advance(&mut self) -> bool {
        let Some(&end) = self.ends.next() else { return false };
        self.token.text.clear();
        self.token.text.push_str(&self.text[self.from..end]);
        self.from = end;
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// How long a text is, for ranking: its words, with a character beyond the first two thousand of Unicode (CJK and
/// its like) counted as one. Close to the number of its tokens, and known before they are.
pub(crate) fn length(text: &str) -> u64 {
    let mut length = 0;
    let mut in_word = false;
    for &byte in text.as_bytes() {
        let is_word = CLASSES[usize::from(byte)] != Class::Other;
        length += u64::from((is_word && !in_word) || byte >= 0xe0);
        in_word = is_word;
    }
    length
}

/// A hash of a token, for tables in memory.
pub(crate) fn token_hash(token: &str) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = FACTOR ^ u64::try_from(token.len()).unwrap_or(0);
    let mut chunks = token.as_bytes().chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        hash = mix(hash ^ u64::from_le_bytes(word));
    }
    let mut word = [0; 8];
    let rest = chunks.remainder();
    word[..rest.len()].copy_from_slice(rest);
    mix(hash ^ u64::from_le_bytes(word))
}

/// Spreads the bits of a number over all of it.
pub(crate) fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    number = (number ^ (number >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number ^ (number >> 32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut tokens = Vec::new();
        Splitter::default().tokens(text, |token| tokens.push(token.to_owned()));
        tokens
    }

    #[test]
    fn identifiers_give_their_parts_and_their_whole() {
        assert_eq!(tokens("read_file(x)"), ["read", "file", "read_file", "x"]);
        assert_eq!(tokens("readFile HTTPServer2"), ["read", "file", "readfile", "http", "server2", "httpserver2"]);
        assert_eq!(tokens("__init__ ZQX0000777K sha256Sum"), ["init", "zqx0000777k", "sha256", "sum", "sha256sum"]);
    }

    #[test]
    fn words_of_any_script_are_folded() {
        assert_eq!(tokens("Größe ΣΟΦΟΣ σοφος"), ["größe", "σοφοσ", "σοφοσ"]);
        assert_eq!(tokens("cafe\u{301} café"), ["café", "café"]);
        assert_eq!(tokens("\u{212a}elvin ſo"), ["kelvin", "so"]);
    }

    #[test]
    fn scripts_without_spaces_give_pairs() {
        assert_eq!(tokens("量子缓存"), ["量子", "子缓", "缓存"]);
        assert_eq!(tokens("用 Rust写"), ["用", "rust", "写"]);
    }

    #[test]
    fn what_is_no_word_gives_no_token() {
        assert_eq!(tokens(" \n--==>>🎉;__ "), Vec::<String>::new());
        assert_eq!(tokens(&"a".repeat(65)), Vec::<String>::new());
        assert_eq!(tokens(&"a".repeat(64)).len(), 1);
    }

    #[test]
    fn tantivy_gets_the_same_tokens() {
        let mut tokenizer = CodeTokenizer::default();
        let mut stream = tokenizer.token_stream("readFile 量子缓存");
        let mut seen = Vec::new();
        while stream.advance() {
            seen.push(stream.token().text.clone());
        }
        assert_eq!(seen, tokens("readFile 量子缓存"));
    }

    proptest! {
        #[test]
        fn tokens_are_short_folded_and_never_empty(text in "\\PC{0,60}|[a-zA-Z_0-9 ]{0,80}|[\u{300}-\u{36f}aAéÉ量子ก]{0,30}") {
            for token in tokens(&text) {
                prop_assert!(!token.is_empty() && token.len() <= TOKEN_BYTES_MAX);
                prop_assert!(!token.chars().any(|c| c.is_ascii_uppercase()), "{token}");
            }
        }

        /// A query is often a piece of the text it looks for.
        #[test]
        fn a_word_alone_gives_the_tokens_it_gives_in_a_text(word in "[a-zA-Z][a-zA-Z0-9]{0,12}", before in "[ ,.(]", after in "[ ,.)]") {
            let inside = tokens(&format!("x{before}{word}{after}y"));
            let alone = tokens(&word);
            prop_assert_eq!(&inside[1..inside.len() - 1], &alone[..]);
        }
    }
}
