//! Words to weigh passages by: taken from texts as ranked search takes them from a question, each with all its forms.
//!
//! For whoever chooses among parts of texts that were found; the index is not asked here. Pure.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::inflect;
use super::look::NumberHasher;
use super::tokenize::{Splitter, token_hash};

/// Words that say something, by number, from 0 in the order in which they were added.
#[derive(Default)]
pub struct Terms {
    by_form: HashMap<u64, usize, BuildHasherDefault<NumberHasher>>,
    words: Vec<String>,
    splitter: Splitter,
}

impl Terms {
    /// Adds the words of a text, as far as there is room for `max` in all; tells the number of each, known or new, as
    /// often as it stands there.
    pub fn add(&mut self, text: &str, max: usize, mut each: impl FnMut(usize)) {
        let Self { by_form, words, splitter } = self;
        splitter.tokens(text, |token| {
            let says_nothing = (token.len() == 1 && token.is_ascii()) || inflect::is_stop_word(token);
            if says_nothing {
                return;
            }
            if let Some(&known) = by_form.get(&token_hash(token)) {
                return each(known);
            }
            if words.len() >= max {
                return;
            }
            let number = words.len();
            words.push(token.to_owned());
            by_form.insert(token_hash(token), number);
            for form in inflect::forms(&inflect::base(token)) {
                by_form.entry(token_hash(&form)).or_insert(number);
            }
            each(number);
        });
    }

    /// Looks for them in a text: tells the number of each as often as it stands there, and gives how many words the
    /// text has.
    pub fn find(&mut self, text: &str, mut each: impl FnMut(usize)) -> usize {
        let Self { by_form, splitter, .. } = self;
        let mut count = 0;
        splitter.tokens(text, |token| {
            count += 1;
            if let Some(&number) = by_form.get(&token_hash(token)) {
                each(number);
            }
        });
        count
    }

    /// A word, as it was added first.
    #[must_use]
    pub fn word(&self, number: usize) -> Option<&str> {
        self.words.get(number).map(String::as_str)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_all_their_forms_and_parts() {
        let mut terms = Terms::default();
        let mut added = Vec::new();
        terms.add("the setModel tests", 10, |number| added.push(number));
        let words: Vec<&str> = (0..terms.len()).filter_map(|number| terms.word(number)).collect();
        assert_eq!((words, added), (vec!["set", "model", "setmodel", "tests"], vec![0, 1, 2, 3]));
        let mut found = Vec::new();
        let count = terms.find("It tested the models", |number| found.push(number));
        assert_eq!((count, found), (4, vec![3, 1]));
    }

    #[test]
    fn there_is_no_more_than_there_is_room_for() {
        let mut terms = Terms::default();
        terms.add("one two three two", 2, |_| {});
        assert_eq!((terms.len(), terms.word(2)), (2, None));
    }
}
