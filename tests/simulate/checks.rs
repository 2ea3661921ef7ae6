//! What must hold after every step.

use std::collections::BTreeMap;

use lcm_core::{Arrival, Json, SessionId, TimelineId};
use lcm_engine::Engine;
use lcm_engine::service::{
    Filter, Grep, GrepRequest, Kinds, LogRequest, Order, Pattern, ReadRequest, Scope, Service, Whole,
};

use crate::model::{Element, Id, Model, word_of};
use crate::said::canonical;
use crate::world::{World, scope_of};

/// Messages of a page, few, so that there is more than one.
const PAGE: usize = 17;

/// A session as it is read, whole.
fn read(engine: &Engine, scope: &Scope, session: SessionId, timeline: Option<TimelineId>) -> Vec<Whole> {
    let (mut all, mut from): (Vec<Whole>, Option<Arrival>) = (Vec::new(), None);
    loop {
        let request = ReadRequest { scope: scope.clone(), session, timeline, from, max: PAGE, bytes_max: 1 << 16 };
        let page = engine.read(&request).unwrap();
        all.extend(page.messages);
        match page.next {
            Some(next) => from = Some(next),
            None => return all,
        }
    }
}

fn shown(texts: &[String]) -> String {
    texts.iter().map(|text| format!("    {}\n", text.chars().take(160).collect::<String>())).collect()
}

fn texts(read: &[Whole]) -> Vec<String> {
    read.iter().map(|whole| canonical(&whole.json)).collect()
}

/// Whether what was read is a line: each message in its first form.
fn is_line(model: &Model, line: &[Id], read: &[String]) -> bool {
    line.len() == read.len() && line.iter().zip(read).all(|(id, text)| model.said(*id).first.contains(text))
}

fn assert_line(model: &Model, line: &[Id], read: &[String], name: &str) {
    if !is_line(model, line, read) {
        let said: Vec<String> = line.iter().map(|id| model.said(*id).first[0].clone()).collect();
        let differs = line.iter().zip(read).position(|(id, text)| !model.said(*id).first.contains(text));
        panic!(
            "{name} has {} messages, {} were said; they differ from {differs:?} on\n  read:\n{}  said: {}\n{}",
            read.len(),
            said.len(),
            shown(read),
            line.iter().map(|id| model.word(*id)).collect::<Vec<_>>().join(" "),
            shown(&said)
        );
    }
}

impl World {
    /// Everything that was ever acknowledged can be read, in order, and nothing is there twice.
    pub(crate) fn check(&mut self) {
        let at = self.random.below(2);
        let is_thorough = self.steps.is_multiple_of(7);
        self.engine(at);
        let conversations = self.model.conversations.clone();
        let mut by_owner: BTreeMap<_, usize> = BTreeMap::new();
        for conversation in &conversations {
            *by_owner.entry(conversation.key.owner.clone()).or_default() += 1;
        }
        for conversation in &conversations {
            let name = format!("session {}", conversation.key.name);
            let scope = scope_of(&conversation.key);
            let sessions = self.engine(at).sessions(&scope).unwrap();
            assert_eq!(sessions.len(), by_owner[&conversation.key.owner], "sessions of one owner");
            let mut named = sessions.iter().filter(|entry| entry.session.name == conversation.key.name);
            let entry = named.next().unwrap_or_else(|| panic!("there is no {name}"));
            assert!(named.next().is_none(), "two are {name}");
            let session = entry.session.id;
            let whole = read(self.engine(at), &scope, session, None);
            assert_line(&self.model, &conversation.line, &texts(&whole), &name);
            assert_eq!(entry.messages, u64::try_from(conversation.line.len()).unwrap(), "{name}, counted");
            if is_thorough {
                self.check_left(at, &scope, session, &conversation.left, &name);
            }
        }
        if is_thorough {
            self.check_search(at);
        }
    }

    /// Every form that a list shows now is kept where it stands.
    pub(crate) fn check_forms(&mut self, conversation: usize, list: &[Element]) {
        let conversation = self.model.conversations[conversation].clone();
        let scope = scope_of(&conversation.key);
        let engine = self.engine(0);
        let sessions = engine.sessions(&scope).unwrap();
        let session = sessions.iter().find(|entry| entry.session.name == conversation.key.name).unwrap().session.id;
        let read = read(engine, &scope, session, None);
        assert_line(&self.model, &conversation.line, &texts(&read), &format!("session {}", conversation.key.name));
        for element in list {
            let Element::Said { id, text } = element else { continue };
            let place = conversation.line.iter().position(|known| known == id);
            let whole = place.and_then(|place| read.get(place)).unwrap_or_else(|| panic!("{text} has no place"));
            let is_kept =
                canonical(&whole.json) == *text || whole.revisions.iter().any(|form| canonical(&form.json) == *text);
            assert!(is_kept, "{text} is no form of message {}: {:?}", whole.entry.number, whole.revisions);
        }
    }

    /// Lines that were left can be read.
    fn check_left(&mut self, at: usize, scope: &Scope, session: SessionId, left: &[Vec<Id>], name: &str) {
        let timelines = self.engine(at).describe_session(scope, session).unwrap().timelines;
        let kept: Vec<Vec<String>> =
            timelines.iter().map(|entry| texts(&read(self.engine(at), scope, session, Some(entry.id)))).collect();
        for line in left {
            // Where it was gone on with, more may stand behind it and between.
            let has_it = |kept: &Vec<String>| {
                let mut rest = kept.iter();
                line.iter().all(|id| rest.any(|text| self.model.said(*id).first.contains(text)))
            };
            assert!(kept.iter().any(has_it), "a line of {name} that was left cannot be read: {line:?}");
        }
        let log = self.engine(at).log(&LogRequest {
            scope: scope.clone(),
            session,
            timeline: None,
            from: None,
            order: Order::Oldest,
            max: usize::MAX,
            headline_chars: 40,
        });
        let lines = log.unwrap().lines;
        assert!(lines.iter().zip(1..).all(|(line, n)| line.position == n), "{name}: positions");
    }

    /// A word that was said is found by whose it is, and by nobody else.
    fn check_search(&mut self, at: usize) {
        let conversations = self.model.conversations.clone();
        if conversations.is_empty() {
            return;
        }
        let conversation = self.random.pick(&conversations).clone();
        if conversation.line.is_empty() {
            return;
        }
        let id = *self.random.pick(&conversation.line);
        let Some(word) = word_of(&self.model.said(id).first[0]) else { return };
        for other in &conversations {
            let grep = Grep {
                filter: Filter { kinds: Kinds::Messages, ..Filter::default() },
                ..Grep::new(Pattern::Literal(word.clone()))
            };
            let request = GrepRequest { scope: scope_of(&other.key), grep, whole_words: false, lines: None };
            let hits = self.engine(at).grep(&request).unwrap().hits.len();
            let is_theirs = other.key.owner == conversation.key.owner;
            assert_eq!(
                hits > 0,
                is_theirs,
                "{word}, said in {:?}, looked for by {:?}",
                conversation.key,
                other.key.owner
            );
        }
    }

    /// The store is whole.
    pub(crate) fn check_store(&mut self) {
        let at = self.random.below(2);
        let report = self.engine(at).check(20, &|_| {}).unwrap();
        assert!(report.is_clean(), "{:#?}", report.told);
    }
}

/// What messages of a list stand for, found among those of a line: each of `must`, in order, and maybe more of the
/// line between them, which a host had dropped and a fold stands for.
pub(crate) fn matched(model: &Model, line: &[Id], must: &[Id], behind: &[String]) -> Option<Vec<Id>> {
    // From the end: whether what is left of `behind` can be found in what is left of the line.
    let is_must = |id: &Id| must.contains(id);
    let mut fits = vec![vec![false; line.len() + 1]; behind.len() + 1];
    fits[behind.len()][line.len()] = true;
    for text in (0..=behind.len()).rev() {
        for place in (0..line.len()).rev() {
            let is_it = text < behind.len() && fits[text + 1][place + 1] && model.is_form(line[place], &behind[text]);
            fits[text][place] = is_it || (!is_must(&line[place]) && fits[text][place + 1]);
        }
    }
    if !fits[0][0] {
        return None;
    }
    let (mut place, mut found) = (0, Vec::new());
    for text in 0..behind.len() {
        while !(fits[text + 1][place + 1] && model.is_form(line[place], &behind[text])) {
            place += 1;
        }
        found.push(line[place]);
        place += 1;
    }
    Some(found)
}

/// The same where the order cannot be told.
pub(crate) fn matched_anyhow(model: &Model, line: &[Id], must: &[Id], behind: &[String]) -> Option<Vec<Id>> {
    let mut found: Vec<Id> = Vec::new();
    for text in behind {
        let is_it = |id: &&Id| !found.contains(*id) && model.is_form(**id, text);
        let id = must.iter().find(is_it).or_else(|| line.iter().find(is_it))?;
        found.push(*id);
    }
    found.sort_by_key(|id| line.iter().position(|known| known == id));
    must.iter().all(|id| found.contains(id)).then_some(found)
}

/// JSON text of a message, checked to be one.
pub(crate) fn text_of(json: &[u8]) -> String {
    Json::parse(json).unwrap();
    String::from_utf8(json.to_vec()).unwrap()
}
