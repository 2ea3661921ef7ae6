//! What is collected from sources, and how the best of it is written into a budget.
//!
//! Every piece is a line of one kind. It is worth what its kind is worth, more when it is specific or late, less when
//! it is long and room is short. What is said again counts once, where it was said last; what gives another value to
//! the same thing replaces the earlier one and says so.

use std::collections::{HashMap, HashSet};

use lcm_core::tokens::TokenCounter;

use super::files::{Files, Touch};
use super::lines::shortened;
use super::names::{self, Named};
use super::{Extract, Kind};

/// Files and ids that are kept with a summary.
const MENTIONS_MAX: usize = 400;
/// Files among them: ids have a share of their own.
const FILE_MENTIONS_MAX: usize = 300;
/// Names that are told apart; a text with more is data.
const NAMES_MAX: usize = 4000;
/// What names may take of a text in any case, but for half of it: tokens.
const NAMES_TOKENS_MIN: u64 = 40;
/// Dots before a line: deeper summaries look alike.
const DOTS_MAX: usize = 8;
/// Behind an error of something that went well later.
pub(super) const OVERCOME: &str = " (overcome)";
/// How much less it is worth then.
const OVERCOME_COST: i64 = 200;
/// Behind a line whose value was another one before.
pub(super) const UPDATED: &str = " (updated)";
/// How much a name counts that a person or an agent said; what is passed to a command counts less.
pub(super) const SAID_BY_A_PERSON: u32 = 2;
/// Behind a statement that a later one speaks against.
pub(super) const SUPERSEDED: &str = " (superseded)";
/// How much less it is worth then.
const SUPERSEDED_COST: i64 = 320;
/// Statements before an update that it is held against.
const STATEMENTS_MAX: usize = 200;
/// How much more what was said last is worth than what was said first.
const RECENCY: usize = 140;
/// Words of what a statement is about.
const SUBJECT_WORDS_MAX: usize = 8;

/// One line that may be kept.
struct Piece {
    kind: Kind,
    text: String,
    score: i64,
    is_updated: bool,
    is_overcome: bool,
    is_superseded: bool,
}

/// What is collected.
#[derive(Default)]
pub(super) struct Pile {
    pieces: Vec<Piece>,
    /// Lines that are there, by what makes two of them the same.
    seen: HashMap<u64, usize>,
    /// Errors by the key of what failed.
    errors: HashMap<u64, Vec<usize>>,
    /// What persons have stated: the piece, and its words.
    stated: Vec<(usize, Vec<(u64, bool)>)>,
    /// Statements by what they are about.
    subjects: HashMap<u64, usize>,
    pub(super) files: Files,
    names: Vec<(String, u32)>,
    names_at: HashMap<String, usize>,
    /// Depth of what is summarised: 0 for messages.
    depth: usize,
}

impl Pile {
    pub(super) fn of_depth(depth: u16) -> Self {
        Self { depth: usize::from(depth), ..Self::default() }
    }

    /// Adds a line; what it says again is taken away where it was said before.
    pub(super) fn push(&mut self, kind: Kind, text: &str, bonus: i64) {
        self.push_as(kind, text, text, bonus);
    }

    /// The same for a line that replaces others with the same key: a command that was run again.
    pub(super) fn push_as(&mut self, kind: Kind, key: &str, text: &str, bonus: i64) {
        let (is_updated, text) = text.strip_suffix(UPDATED).map_or((false, text), |text| (true, text));
        let (is_superseded, text) = text.strip_suffix(SUPERSEDED).map_or((false, text), |text| (true, text));
        let (is_overcome, text) = text.strip_suffix(OVERCOME).map_or((false, text), |text| (true, text));
        let mut is_updated = is_updated;
        let text = shortened(text, kind.chars_max(0));
        let mut kind = kind;
        if let Some(before) = self.seen.insert(
            letters(key.trim_end_matches(UPDATED).trim_end_matches(SUPERSEDED).trim_end_matches(OVERCOME)),
            self.pieces.len(),
        ) {
            let before = &mut self.pieces[before];
            before.text.clear();
            // As the best that it was; but a command that went well at last has no error left.
            if kind != Kind::Ran && before.kind.worth() > kind.worth() {
                kind = before.kind;
            }
        }
        if let Some(subject) = subject(&text).filter(|_| kind.is_statement())
            && let Some(before) = self.subjects.insert(subject, self.pieces.len())
        {
            let before = &mut self.pieces[before];
            let was = std::mem::take(&mut before.text);
            if !was.is_empty() {
                is_updated = true;
                if before.kind.worth() > kind.worth() {
                    kind = before.kind;
                }
                self.unname(&was);
            }
        }
        let score = kind.worth() + bonus
            - if is_overcome { OVERCOME_COST } else { 0 }
            - if is_superseded { SUPERSEDED_COST } else { 0 };
        self.pieces.push(Piece { kind, text, score, is_updated, is_overcome, is_superseded });
    }
    /// Adds what a person states. When it says of itself that it is new, earlier statements whose every word but their
    /// values it takes up are marked as superseded.
    pub(super) fn state(&mut self, kind: Kind, text: &str, bonus: i64, is_update: bool) {
        let own = words(text);
        if is_update {
            for (at, before) in self.stated.iter().rev().take(STATEMENTS_MAX) {
                let said = || before.iter().filter(|(_, has_digit)| !has_digit);
                let known = said().filter(|(word, _)| own.iter().any(|(own, _)| own == word)).count();
                // Two words at least, and at most one of four that is not taken up.
                let piece = &mut self.pieces[*at];
                if known >= 2 && known * 4 >= said().count() * 3 && !piece.is_superseded {
                    piece.is_superseded = true;
                    piece.score -= SUPERSEDED_COST;
                }
            }
        }
        self.push(kind, text, bonus);
        self.stated.push((self.pieces.len() - 1, own));
    }

    /// Adds an error of something that has a key.
    pub(super) fn error(&mut self, key: &str, text: &str, bonus: i64) {
        self.push(Kind::Error, text, bonus);
        self.errors.entry(letters(key)).or_default().push(self.pieces.len() - 1);
    }

    /// Marks the errors of what has gone well since.
    pub(super) fn overcome(&mut self, key: &str) {
        for at in self.errors.remove(&letters(key)).unwrap_or_default() {
            let error = &mut self.pieces[at];
            if !error.is_overcome {
                error.is_overcome = true;
                error.score -= OVERCOME_COST;
            }
        }
    }

    /// Adds a plan: it replaces the ones before it.
    pub(super) fn plan(&mut self, text: &str) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.kind == Kind::Plan) {
            piece.text.clear();
        }
        self.push(Kind::Plan, text, 0);
    }

    pub(super) fn name(&mut self, name: &str, weight: u32) {
        match self.names_at.get(name) {
            Some(&at) => self.names[at].1 = self.names[at].1.saturating_add(weight),
            None if self.names.len() < NAMES_MAX => {
                self.names_at.insert(name.to_owned(), self.names.len());
                self.names.push((name.to_owned(), weight));
            }
            None => {}
        }
    }

    /// Takes away what only a text names that holds no more.
    fn unname(&mut self, text: &str) {
        names::names(text, |named| {
            if let Named::Id(name) | Named::Word(name) = named
                && let Some(&at) = self.names_at.get(name)
            {
                self.names[at].1 = self.names[at].1.saturating_sub(SAID_BY_A_PERSON * 2);
            }
        });
    }

    /// Takes what a text names; how much more a line with it is worth.
    pub(super) fn names_of(&mut self, text: &str, weight: u32) -> i64 {
        let mut bonus = 0;
        names::names(text, |named| match named {
            Named::File(file) => {
                self.files.add(file, Touch::Named);
                bonus = bonus.max(40);
            }
            Named::Id(id) => {
                self.name(id, weight * 2);
                bonus = bonus.max(50);
            }
            Named::Word(word) => {
                self.name(word, weight);
                bonus = bonus.max(30);
            }
        });
        bonus
    }

    /// Writes a summary.
    pub(super) fn write(mut self, budget: u64, counter: &dyn TokenCounter) -> Extract {
        self.pieces.retain(|piece| !piece.text.is_empty());
        let has_pieces = !self.pieces.is_empty();
        // A file that is not named is read again, or forgotten: lists come first, but do not take all.
        let for_files = if has_pieces { budget * 2 / 5 } else { budget * 4 / 5 };
        let lists = match self.files.is_empty() {
            true => Vec::new(),
            false => self.files.lines(for_files, |touch| Kind::of_touch(touch).word(), counter),
        };
        let cost = |lines: &[String]| lines.iter().map(|line| u64::from(counter.count_text(line)) + 1).sum::<u64>();
        let mut left = budget.saturating_sub(cost(&lists));
        let has_names = !self.names.is_empty();
        // Where room is short, names say most: they are what can be looked for.
        let for_names = if has_names { (left / 5).max((left / 2).min(NAMES_TOKENS_MIN)) } else { 0 };
        let mut lines = self.best(left - for_names, counter);
        left = left.saturating_sub(cost(&lines));
        let names = self.names_line(&lines, left, counter);
        lines.extend(lists);
        lines.extend(names);
        if lines.is_empty() {
            lines.push(self.scrap(budget));
        }
        let dots = match self.depth.min(DOTS_MAX) {
            0 => String::new(),
            depth => format!("{} ", "·".repeat(depth)),
        };
        let text = lines.iter().map(|line| format!("{dots}{line}")).collect::<Vec<_>>().join("\n");
        Extract { text, mentions: self.mentions() }
    }

    /// The best pieces that fit, in their order.
    fn best(&self, budget: u64, counter: &dyn TokenCounter) -> Vec<String> {
        let count = self.pieces.len().max(1);
        // Of equals the later one: what was said last holds.
        let recency = |at: usize| i64::try_from(at * RECENCY / count).unwrap_or(0);
        // Where room is short, two short lines say more than a long one.
        let per_token = (2400 / i64::try_from(budget.max(1)).unwrap_or(i64::MAX)).clamp(2, 16);
        let dots = u64::try_from(self.depth.min(DOTS_MAX)).unwrap_or(0);
        let mut order: Vec<(i64, usize)> = Vec::with_capacity(self.pieces.len());
        for (at, piece) in self.pieces.iter().enumerate() {
            // About four letters a token, or one that is wide.
            let tokens = i64::try_from(piece.text.len() / 4).unwrap_or(i64::MAX);
            order.push((piece.score + recency(at) - per_token * (tokens - 8).max(0), at));
        }
        order.sort_unstable_by_key(|rank| std::cmp::Reverse(*rank));
        let mut chosen = Vec::new();
        let mut said = HashSet::new();
        let mut left = budget;
        for (_, at) in order {
            if left < 6 {
                break;
            }
            let piece = &self.pieces[at];
            let words = words(&piece.text);
            // What other lines have said in the same words.
            let known = words.iter().filter(|(word, _)| said.contains(word)).count();
            let is_new = words.iter().any(|(word, has_digit)| *has_digit && !said.contains(word));
            if piece.kind.may_be_known() && !words.is_empty() && known * 5 >= words.len() * 4 && !is_new {
                continue;
            }
            let overcome = if piece.is_overcome { OVERCOME } else { "" };
            // A label that says it already is enough.
            let word = if super::label_kind(&piece.text) == Some(piece.kind) { "" } else { piece.kind.word() };
            let superseded = if piece.is_superseded { SUPERSEDED } else { "" };
            let updated = if piece.is_updated { UPDATED } else { "" };
            let line = format!(
                "{word}{}{overcome}{superseded}{updated}",
                shortened(&piece.text, piece.kind.chars_max(self.depth))
            );
            let cost = u64::from(counter.count_text(&line)) + 1 + dots;
            if cost <= left {
                left -= cost;
                said.extend(words.into_iter().map(|(word, _)| word));
                chosen.push((at, line));
            }
        }
        chosen.sort_unstable_by_key(|(at, _)| *at);
        chosen.into_iter().map(|(_, line)| line).collect()
    }

    /// Names that no line shows yet, as many as fit; those that were said most often, then last, are kept.
    fn names_line(&self, lines: &[String], room: u64, counter: &dyn TokenCounter) -> Option<String> {
        let shown = lines.join("\n");
        let is_shown = |name: &str| memchr::memmem::find(shown.as_bytes(), name.as_bytes()).is_some();
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        order.retain(|at| self.names[*at].1 > 0);
        order.sort_unstable_by_key(|&at| std::cmp::Reverse((self.names[at].1, at)));
        let mut kept = Vec::new();
        let word = Kind::Names.word();
        let mut left = room.saturating_sub(u64::from(counter.count_text(word)) + 1);
        for at in order {
            let name = self.names[at].0.as_str();
            // A comma and what stands beside a name cost one more; the estimate errs on the high side.
            let cost = u64::from(counter.count_text(name)) + 1;
            if left < 2 {
                break;
            }
            if cost <= left && !self.files.has(name) && !is_shown(name) {
                left -= cost;
                kept.push(at);
            }
        }
        kept.sort_unstable();
        let names: Vec<&str> = kept.into_iter().map(|at| self.names[at].0.as_str()).collect();
        (!names.is_empty()).then(|| format!("{word}{}", names.join(", ")))
    }

    /// What is said where nothing fits.
    fn scrap(&self, budget: u64) -> String {
        let best = self.pieces.iter().max_by_key(|piece| piece.score);
        match best {
            Some(piece) => shortened(&piece.text, usize::try_from(budget).unwrap_or(usize::MAX).clamp(8, 40)),
            None if self.files.is_empty() && self.names.is_empty() => "nothing was said in words".to_owned(),
            None => "only names".to_owned(),
        }
    }

    pub(super) fn mentions(self) -> Vec<String> {
        let mut mentions = self.files.into_names();
        mentions.truncate(FILE_MENTIONS_MAX);
        let mut order: Vec<usize> = (0..self.names.len()).filter(|at| self.names[*at].1 > 0).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(self.names[at].1));
        order.truncate(MENTIONS_MAX - mentions.len());
        order.sort_unstable();
        let mut names: Vec<String> = self.names.into_iter().map(|(name, _)| name).collect();
        mentions.extend(order.into_iter().map(|at| std::mem::take(&mut names[at])));
        mentions
    }
}

/// A text by its letters and digits alone, without their case: FNV-1a over characters.
fn letters(text: &str) -> u64 {
    let mut hash = FNV_START;
    for c in text.chars().filter(|c| c.is_alphanumeric()) {
        match c.is_ascii() {
            true => mix(&mut hash, u64::from(c.to_ascii_lowercase())),
            false => c.to_lowercase().for_each(|c| mix(&mut hash, u64::from(c))),
        }
    }
    hash
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

fn mix(hash: &mut u64, value: u64) {
    *hash = (*hash ^ value).wrapping_mul(0x0100_0000_01b3);
}

/// The words of a text that say something, four letters or a digit, and whether they have a digit.
fn words(text: &str) -> Vec<(u64, bool)> {
    let words =
        text.split(|c: char| !c.is_alphanumeric()).map(|word| (word, word.bytes().any(|byte| byte.is_ascii_digit())));
    words
        .filter(|(word, has_digit)| *has_digit || word.chars().nth(3).is_some())
        .map(|(word, has_digit)| (letters(word), has_digit))
        .collect()
}

/// What a statement is about, when it gives a value to something: "The cap is $300 in total" and "The cap is $812 in
/// total" are about the same; "Case 1 fails" is about nothing else but itself.
fn subject(text: &str) -> Option<u64> {
    const COPULAS: [&str; 11] =
        [" is ", " are ", " = ", " was set to ", " set to ", " wants ", " будет ", " равен ", " — ", " ist ", "是"];
    let is_value = |word: &str| word.bytes().any(|byte| byte.is_ascii_digit());
    // Most lines have none, and are asked no more.
    if !is_value(text) {
        return None;
    }
    let (at, copula) =
        COPULAS.iter().filter_map(|copula| Some((text.find(copula)?, *copula))).min_by_key(|(at, _)| *at)?;
    let about = &text[..at];
    let value = &text[at + copula.len()..];
    let count = about.split_whitespace().count();
    if count == 0 || count > SUBJECT_WORDS_MAX || !is_value(value) {
        return None;
    }
    // What it is about has its own numbers; only the value may differ.
    let mut hash = letters(about);
    for word in value.split_whitespace() {
        mix(&mut hash, if is_value(word) { 0 } else { letters(word) });
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_value_of_the_same_thing_replaces_it() {
        assert_eq!(subject("The budget cap is $300 in total."), subject("the budget cap is $812 in total"));
        assert_eq!(subject("端口是8080"), subject("端口是9090"));
        for (one, other) in [
            ("Case 101 is failing with 3 errors", "Case 202 is failing with 3 errors"),
            ("The fix is in a1.ts", "The fix is 3 lines long"),
            ("Project ceiling is $500", "Conference ceiling is $250"),
        ] {
            assert_ne!(subject(one), subject(other), "{one}");
        }
        assert_eq!(subject("The tide is high"), None);
    }
}
