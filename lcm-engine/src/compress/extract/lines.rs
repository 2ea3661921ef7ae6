//! A text cut into what can be said again by itself: sentences, and runs of them inside one line.

use super::signs::is_wide;

/// Bytes at the beginning of one text that are looked at; a pasted book has more and says no more.
const FRONT_BYTES: usize = 64 << 10;
/// The same at its end: what is asked often stands behind what was pasted.
const BACK_BYTES: usize = 16 << 10;
/// Sentences of one line that are of a kind stay together up to so many bytes: a rule and its exception, a decision
/// and its reason.
const WHOLE_BYTES_MAX: usize = 260;
/// A sentence shorter than this says little without the next one.
const SHORT_CHARS: usize = 40;

/// A sentence, or some that are short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit<'t> {
    /// The line it stands in.
    line: &'t str,
    from: usize,
    to: usize,
    /// Whether it is a heading.
    pub(super) is_heading: bool,
    /// Whether it begins its paragraph.
    pub(super) begins: bool,
}

impl<'t> Unit<'t> {
    pub(super) fn text(&self) -> &'t str {
        self.line[self.from..self.to].trim()
    }

    /// This and the next one as one, where they stand in one line and are not too long together.
    pub(super) fn with(&self, next: &Self) -> Option<Self> {
        let is_next = std::ptr::eq(self.line, next.line) && self.to == next.from;
        (is_next && next.to - self.from <= WHOLE_BYTES_MAX).then_some(Self { to: next.to, ..*self })
    }
}

/// The parts of a text that are looked at: all of it, or its two ends.
pub(super) fn ends(text: &str) -> [&str; 2] {
    if text.len() <= FRONT_BYTES + BACK_BYTES {
        return [text, ""];
    }
    let front = (0..=FRONT_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let back = (text.len() - BACK_BYTES..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    [&text[..front], &text[back..]]
}

/// The units of a text, without code between fences.
pub(super) fn units(text: &str) -> Vec<Unit<'_>> {
    let mut units = Vec::new();
    let mut is_code = false;
    let mut begins = true;
    for line in ends(text).into_iter().flat_map(str::lines) {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            is_code = !is_code;
            continue;
        }
        if is_code {
            continue;
        }
        if line.is_empty() {
            begins = true;
            continue;
        }
        let is_heading = line.starts_with('#') && line.trim_start_matches('#').starts_with(' ');
        let line = bare(line);
        if line.chars().any(char::is_alphanumeric) {
            let from = units.len();
            sentences(line, is_heading, &mut units);
            if let Some(first) = units.get_mut(from) {
                first.begins = begins;
            }
            begins = false;
        }
    }
    units
}

/// A line without the marks of its list, heading or quotation.
fn bare(line: &str) -> &str {
    let mut line = line.trim_start_matches(['#', '*', '-', '>', '•', '|', ' ']);
    // "3. " and "3) " count; "3.11" does not.
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=3).contains(&digits) && [". ", ") "].iter().any(|mark| line[digits..].starts_with(mark)) {
        line = line[digits + 2..].trim_start();
    }
    line.trim_end_matches(['*', ' ', '|'])
}

fn sentences<'t>(line: &'t str, is_heading: bool, units: &mut Vec<Unit<'t>>) {
    let mut from = 0;
    let mut at = 0;
    while at < line.len() {
        at += sentence_end(&line[at..]);
        let text = line[from..at].trim();
        // A short one stands with the one behind it.
        if text.chars().nth(SHORT_CHARS).is_none() && at < line.len() {
            continue;
        }
        if text.chars().any(char::is_alphanumeric) {
            units.push(Unit { line, from, to: at, is_heading, begins: false });
        }
        from = at;
    }
}

/// Where the first sentence ends: behind a mark with a blank behind it, or a full-width one.
fn sentence_end(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let ends = matches!(c, '。' | '！' | '？')
            || (matches!(c, '.' | '!' | '?' | ';') && next.is_none_or(char::is_whitespace));
        // An abbreviation or a number of a list is no sentence.
        if ends && at >= 12 {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// A text in one line of at most so many characters; what is left out is left out at a word's border.
pub(super) fn shortened(text: &str, chars_max: usize) -> String {
    let mut line = String::with_capacity(text.len().min(chars_max * 2));
    let mut count = 0;
    for word in text.split_whitespace() {
        // The length only matters up to what fits.
        let length = word.chars().take(chars_max + 2).count();
        let gap = usize::from(!line.is_empty());
        if count + gap + length > chars_max {
            let room = chars_max.saturating_sub(count + gap + 1);
            // A long word without blanks, as in Chinese, is cut where it must be.
            if (length > 24 || word.chars().next().is_some_and(is_wide)) && room > 8 {
                if gap > 0 {
                    line.push(' ');
                }
                line.extend(word.chars().take(room).map(visible));
            }
            line.push('…');
            return line;
        }
        if gap > 0 {
            line.push(' ');
        }
        line.extend(word.chars().map(visible));
        count += gap + length;
    }
    line
}

fn visible(c: char) -> char {
    if c.is_control() { '\u{fffd}' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        units(text).iter().map(Unit::text).collect()
    }

    #[test]
    fn lines_are_cut_into_sentences_and_short_ones_stay_together() {
        assert_eq!(
            texts("# Plan\n- Only Python 3.11. No network.\n\n```\nlet x = 1;\n```\n2. second"),
            ["Plan", "Only Python 3.11. No network.", "second"]
        );
        let first = "The harbour office keeps the tide tables of the whole coast in a cellar that is never dry.";
        let long = format!("{first} Why? {first} {first}");
        assert_eq!(texts(&long), [first, &format!("Why? {first}"), first]);
        let chinese = "这是一个很长的句子用来测试分句功能是否正确。".repeat(20);
        assert!(texts(&chinese).len() > 5);
    }

    #[test]
    fn neighbours_in_a_line_can_be_one() {
        let line =
            "Budget cap is $812 in total for this project. Never exceed it without explicit approval.\nOther line.";
        let units = units(line);
        assert_eq!(units[0].with(&units[1]).unwrap().text(), line.lines().next().unwrap());
        assert_eq!(units[1].with(&units[2]), None);
    }

    #[test]
    fn the_end_of_a_long_text_is_looked_at() {
        let text = format!("{}\nCan you fix it?", "log line é\n".repeat(20_000));
        assert_eq!(texts(&text).last(), Some(&"Can you fix it?"));
    }

    #[test]
    fn a_text_is_shortened_at_a_word() {
        assert_eq!(shortened("one  two\nthree four", 12), "one two…");
        assert_eq!(shortened("один два три", 8), "один два…");
        assert_eq!(shortened(&"字".repeat(40), 20).chars().count(), 20);
    }
}
