//! What must be kept, told in the simplest way one can think of: vectors of what was said.
//!
//! A branch is a copy here, and every message has a number of its own, so that equal ones are told apart by whoever
//! said them, not by a guess.

use std::collections::HashMap;

use lcm_engine::service::SessionKey;

use crate::said::Shape;

/// A message that was said once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(usize);

/// What is known of it.
pub(crate) struct Said {
    pub(crate) shape: Shape,
    /// What it was first; more than one where a list began a session with a form that was rewritten before.
    pub(crate) first: Vec<String>,
    /// What it became in lists later.
    pub(crate) forms: Vec<String>,
}

/// A session.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    pub(crate) key: SessionKey,
    /// What it goes on with.
    pub(crate) line: Vec<Id>,
    /// What it was when it was left.
    pub(crate) left: Vec<Vec<Id>>,
}

/// One message of a host's list.
#[derive(Clone, Debug)]
pub(crate) enum Element {
    /// As it was said, or rewritten.
    Said { id: Id, text: String },
    /// A text of ours, and what it stands for.
    Made { text: String, of: Vec<Id>, is_fold: bool },
}

impl Element {
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Said { text, .. } | Self::Made { text, .. } => text,
        }
    }

    pub(crate) fn of(&self) -> &[Id] {
        match self {
            Self::Said { id, .. } => std::slice::from_ref(id),
            Self::Made { of, .. } => of,
        }
    }
}

/// Everything that was ever acknowledged.
pub(crate) struct Model {
    said: Vec<Said>,
    pub(crate) conversations: Vec<Conversation>,
}

impl Model {
    pub(crate) fn new() -> Self {
        Self { said: Vec::new(), conversations: Vec::new() }
    }

    pub(crate) fn say(&mut self, shape: Shape) -> Id {
        let first = vec![crate::said::canonical(shape.text().as_bytes())];
        self.said.push(Said { shape, first, forms: Vec::new() });
        Id(self.said.len() - 1)
    }

    pub(crate) fn said(&self, id: Id) -> &Said {
        &self.said[id.0]
    }

    /// Whether a text is a message, as it was or as it became.
    pub(crate) fn is_form(&self, id: Id, text: &str) -> bool {
        let said = self.said(id);
        said.first.iter().chain(&said.forms).any(|form| form == text)
            || said.shape.mended().is_some_and(|mended| mended == text)
    }

    pub(crate) fn find(&self, key: &SessionKey) -> Option<usize> {
        self.conversations.iter().position(|conversation| conversation.key == *key)
    }

    /// A list was acknowledged under a session's name. It goes on from `base` where the host went back to a line that
    /// the session had left, else from the line it has. Gives how many messages were new at the end.
    pub(crate) fn take_in(&mut self, at: usize, list: &[Element], base: Option<&[Id]>) -> usize {
        self.keep_forms(list);
        let conversation = &mut self.conversations[at];
        let mut line: Vec<Id> = base.unwrap_or(&conversation.line).to_vec();
        let positions: HashMap<Id, usize> = line.iter().enumerate().map(|(at, id)| (*id, at)).collect();
        let last_known = list.iter().rposition(|element| element.of().iter().any(|id| positions.contains_key(id)));
        let behind = last_known.map_or(0, |last| last + 1);
        let new: Vec<Id> = list[behind..].iter().flat_map(Element::of).copied().collect();
        // Between what is known: right behind what stands before it.
        for pair in list[..behind].windows(2) {
            let [before, late] = pair else { continue };
            for id in late.of() {
                if !line.contains(id) {
                    let last = before.of().iter().filter_map(|id| line.iter().position(|known| known == id)).max();
                    line.insert(last.map_or(0, |last| last + 1), *id);
                }
            }
        }
        if !new.is_empty() {
            let shown: Vec<usize> =
                list.iter().flat_map(Element::of).filter_map(|id| line.iter().position(|known| known == id)).collect();
            line.truncate(shown.into_iter().max().map_or(0, |last| last + 1));
            line.extend(&new);
        }
        conversation.go_on_with(line);
        new.len()
    }

    /// A list began a session; `base` is the line it came from, when it came from one.
    /// Gives the session, and the list with the messages that it is of now.
    pub(crate) fn begin(&mut self, key: SessionKey, list: &[Element], base: &[Id]) -> (usize, Vec<Element>) {
        let has_fold = list.iter().any(|element| matches!(element, Element::Made { is_fold: true, .. }));
        self.conversations.push(Conversation { key, line: base.to_vec(), left: Vec::new() });
        let at = self.conversations.len() - 1;
        let mut shown = list.to_vec();
        if has_fold {
            self.take_in(at, list, None);
            // Where it came from is no line of its own.
            self.conversations[at].left.clear();
        } else {
            self.keep_forms(list);
            // Without a fold there is no proof beyond the beginning: the list is what the session is.
            let mut line: Vec<Id> = Vec::new();
            for element in &mut shown {
                match element {
                    Element::Said { id, text } => {
                        let said = self.said(*id);
                        let (shape, mut first) = (said.shape.clone(), said.first.clone());
                        if first.contains(text) {
                            line.push(*id);
                            continue;
                        }
                        // What is shared is there in its first form, what is said anew as it is shown.
                        first.push(text.clone());
                        let forms = said.forms.clone();
                        self.said.push(Said { shape, first, forms });
                        *id = Id(self.said.len() - 1);
                        line.push(*id);
                    }
                    Element::Made { of, .. } => line.extend(of.iter().copied()),
                }
            }
            self.conversations[at].line = line;
        }
        (at, shown)
    }

    /// A list in one line, for whoever reads a failure: each message by its word, what was rewritten marked.
    pub(crate) fn told(&self, list: &[Element]) -> String {
        let of = |ids: &[Id]| ids.iter().map(|id| self.word(*id)).collect::<Vec<_>>().join(" ");
        let told = |element: &Element| match element {
            Element::Said { id, text } if self.said(*id).first.contains(text) => self.word(*id),
            Element::Said { id, .. } => format!("{}'", self.word(*id)),
            Element::Made { of: ids, is_fold: true, .. } => format!("fold({})", of(ids)),
            Element::Made { of: ids, .. } if ids.is_empty() => "~".to_owned(),
            Element::Made { of: ids, .. } => format!("part({})", of(ids)),
        };
        list.iter().map(told).collect::<Vec<_>>().join(" ")
    }

    /// What a message is called: who says it, and its word.
    pub(crate) fn word(&self, id: Id) -> String {
        let text = &self.said(id).first[0];
        let role = text.split("\"role\":\"").nth(1).unwrap_or("?");
        let calls = if self.said(id).shape.opens.is_empty() { "" } else { "+" };
        format!("{}{calls}{}", &role[..1], word_of(text).unwrap_or_else(|| format!("={}", id.0)))
    }

    fn keep_forms(&mut self, list: &[Element]) {
        for element in list {
            if let Element::Said { id, text } = element {
                let said = &mut self.said[id.0];
                if !said.first.contains(text) && !said.forms.contains(text) {
                    said.forms.push(text.clone());
                }
            }
        }
    }
}

impl Conversation {
    fn go_on_with(&mut self, line: Vec<Id>) {
        // A line that was only added to, at its end or between, is the same line.
        let mut rest = line.iter();
        if !self.line.iter().all(|id| rest.any(|other| other == id)) {
            self.left.push(std::mem::take(&mut self.line));
        }
        self.line = line;
    }
}

/// The word that only this message has.
pub(crate) fn word_of(text: &str) -> Option<String> {
    let is_word = |word: &&str| {
        word.strip_prefix('m').and_then(|word| word.strip_suffix('q')).is_some_and(|n| n.parse::<u32>().is_ok())
    };
    text.split(|c: char| !c.is_alphanumeric()).find(is_word).map(str::to_owned)
}
