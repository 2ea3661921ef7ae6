//! What hosts do, one step at a time, and what must come of it.

use std::collections::HashSet;

use lcm_core::Message;
use lcm_engine::compress::CompressOptions;
use lcm_engine::compress::summary::Summarizer;
use lcm_engine::hosts::speech::{Dialect, Speech};
use lcm_engine::service::{
    CompressRequest, Compressed, InMessage, OutMessage, Service, SessionKey, TurnRequest, Turned,
};
use lcm_engine::valid::{self, Rules, Wrong};

use crate::checks::{matched, matched_anyhow, text_of};
use crate::host::{Host, Saved};
use crate::model::{Element, Id};
use crate::said::{Shape, canonical};
use crate::summarizer::Moody;
use crate::world::{Luck, World, scope_of};

/// Older lists that a host can come back to.
const SAVED_MAX: usize = 8;
/// A list is not made longer than this: what goes wrong does so in short lists, too.
const LIST_MAX: usize = 60;

pub(crate) fn speech_of(text: &str) -> Speech {
    let encoded = Message::parse(text.as_bytes()).unwrap().encode().unwrap();
    Speech::of(&encoded.stored(&encoded.body_slices()).tree().unwrap())
}

fn in_messages(list: &[Element]) -> Vec<InMessage> {
    InMessage::list(list.iter().map(|element| element.text().as_bytes()))
}

impl World {
    /// Does something, whatever comes up.
    pub(crate) fn step(&mut self) {
        self.steps += 1;
        if self.hosts.is_empty() || (self.hosts.len() < 6 && self.random.percent(6)) {
            self.arrive();
            return;
        }
        let at = self.random.below(self.hosts.len());
        match self.random.below(100) {
            0..34 => self.speak(at),
            34..52 => self.compress(at),
            52..55 => self.take_late(at),
            55..61 => self.rewrite(at),
            61..65 => self.go_back(at),
            65..69 => self.drop_some(at),
            69..72 => self.reorder(at),
            72..75 => self.insert(at),
            75..78 => self.restore(at),
            78..81 => self.replay(at),
            81..84 => self.fork(at),
            84..87 => self.roll_over(at),
            87..89 => self.under_another_name(at),
            89..91 => self.delete_index(),
            91..94 => {
                let engine = self.random.below(2);
                self.tell(format!("engine {engine} is closed"));
                self.close(engine);
            }
            _ => self.compress(at),
        }
    }

    /// A host that was not there.
    fn arrive(&mut self) {
        let number = self.hosts.len();
        let agent = *self.random.pick(&["hermes", "librefang"]);
        let person = *self.random.pick(&["anna", "bert"]);
        let key = SessionKey::new(agent, person, &format!("s{number}-{}", self.steps));
        let dialect = if self.random.percent(30) { Dialect::Anthropic } else { Dialect::OpenAi };
        let alternates = self.random.percent(20);
        let mut list = Vec::new();
        if self.random.percent(50) && dialect == Dialect::OpenAi {
            let system = self.speaker.system();
            list.push(self.said(system));
        }
        let user = self.speaker.user(dialect, &mut self.random);
        list.push(self.said(user));
        self.tell(format!("host {number} arrives as {key:?}, {dialect:?}"));
        let host = Host {
            key,
            dialect,
            alternates,
            list,
            is_reordered: false,
            is_branch: false,
            saved: Vec::new(),
            pending: None,
        };
        self.hosts.push(host);
        let list = self.hosts[number].list.clone();
        self.begin(number, &list, &[]);
    }

    fn said(&mut self, shape: Shape) -> Element {
        let id = self.model.say(shape);
        Element::Said { id, text: self.model.said(id).first[0].clone() }
    }

    /// What is said next: a step of the conversation. What comes first has a word of its own.
    fn next(&mut self, at: usize) -> Vec<Element> {
        let dialect = self.hosts[at].dialect;
        let open = self.open_calls(at);
        let mut shapes = Vec::new();
        if !open.is_empty() {
            shapes.extend(self.speaker.results(dialect, &open, &mut self.random));
        }
        for _ in 0..=self.random.below(3) {
            let last_is_user = shapes.last().map_or_else(
                || self.hosts[at].list.last().is_some_and(|last| speech_of(last.text()).is_request()),
                |shape: &Shape| speech_of(&shape.text()).is_request(),
            );
            match self.random.below(20) {
                0..8 if last_is_user => shapes.push(self.speaker.assistant(dialect, &mut self.random)),
                8..15 if last_is_user || dialect == Dialect::OpenAi => {
                    let calls = self.speaker.calls(dialect, &mut self.random);
                    let ids = calls.opens.clone();
                    shapes.push(calls);
                    if self.random.percent(85) {
                        shapes.extend(self.speaker.results(dialect, &ids, &mut self.random));
                    } else {
                        break;
                    }
                }
                15 => shapes.push(self.speaker.orphan()),
                16..18 if !shapes.is_empty() => shapes.push(self.speaker.odd(dialect, &mut self.random)),
                _ if last_is_user => shapes.push(self.speaker.assistant(dialect, &mut self.random)),
                _ => shapes.push(self.speaker.user(dialect, &mut self.random)),
            }
        }
        if shapes[0].is_common {
            shapes.insert(0, self.speaker.user(dialect, &mut self.random));
        }
        shapes.into_iter().map(|shape| self.said(shape)).collect()
    }

    /// The calls that the last message of a list leaves open.
    fn open_calls(&self, at: usize) -> Vec<String> {
        match self.hosts[at].list.last() {
            Some(Element::Said { id, .. }) => self.model.said(*id).shape.opens.clone(),
            _ => Vec::new(),
        }
    }

    /// Shows a host's list and takes the answer for the model's.
    fn show(&mut self, at: usize, base: Option<&[Id]>) -> Turned {
        let host = self.hosts[at].clone();
        self.tell(format!("  {}", self.model.told(&host.list)));
        let request = self.request(&host);
        let luck = self.luck();
        let turned = self.ask(luck, |engine| engine.turn(&request));
        self.acknowledge(at, base, &turned);
        turned
    }

    fn request(&self, host: &Host) -> TurnRequest {
        TurnRequest {
            key: host.key.clone(),
            source: "simulation".to_owned(),
            dialect: Some(host.dialect),
            messages: in_messages(&host.list),
            by: "simulation".to_owned(),
            now_ms: self.now_ms(),
        }
    }

    fn acknowledge(&mut self, at: usize, base: Option<&[Id]>, turned: &Turned) {
        let host = self.hosts[at].clone();
        assert_eq!(turned.key, host.key, "the session that answers");
        let conversation = self.model.find(&host.key).unwrap();
        let before = self.model.conversations[conversation].line.len();
        let new = self.model.take_in(conversation, &host.list, base);
        let line = &self.model.conversations[conversation].line;
        let after = line.len();
        // What is not walked from its beginning may be late where it could be new.
        let is_walked = host.list.iter().flat_map(Element::of).eq(line);
        if !self.has_crashed && after == before + new && base.is_none() && !turned.branched && is_walked {
            assert_eq!(turned.new, u64::try_from(new).unwrap(), "messages that were new");
        }
        self.check_forms(conversation, &host.list);
        let line = self.model.conversations[conversation].line.clone();
        let saved = &mut self.hosts[at].saved;
        saved.push(Saved { list: host.list, line });
        if saved.len() > SAVED_MAX {
            saved.remove(0);
        }
    }

    /// A list begins a session.
    fn begin(&mut self, at: usize, list: &[Element], base: &[Id]) {
        let host = self.hosts[at].clone();
        self.tell(format!("  {}", self.model.told(&host.list)));
        let request = self.request(&host);
        let luck = self.luck();
        let turned = self.ask(luck, |engine| engine.turn(&request));
        assert_eq!(turned.key, host.key, "the session that answers");
        let (conversation, list) = self.model.begin(host.key, list, base);
        self.check_forms(conversation, &list);
        let line = self.model.conversations[conversation].line.clone();
        let host = &mut self.hosts[at];
        host.list.clone_from(&list);
        host.saved = vec![Saved { list, line }];
    }

    fn speak(&mut self, at: usize) {
        if self.hosts[at].list.len() > LIST_MAX {
            self.compress(at);
            return;
        }
        let next = self.next(at);
        self.tell(format!("host {at} says {} messages", next.len()));
        self.hosts[at].list.extend(next);
        self.show(at, None);
    }

    /// Compresses, with something new or without; the host takes what comes, or not, or later.
    fn compress(&mut self, at: usize) {
        if self.random.percent(60) && self.hosts[at].list.len() <= LIST_MAX {
            let next = self.next(at);
            self.hosts[at].list.extend(next);
        }
        let host = self.hosts[at].clone();
        let options = CompressOptions {
            threshold_tokens: *self.random.pick(&[60, 200, 500, 1000, 2000, 6000]),
            protect_first: self.random.below(3),
            protect_last: self.random.below(8),
            alternates: host.alternates,
            ..CompressOptions::default()
        };
        let force = self.random.percent(30);
        let seed = self.random.number();
        let has_model = self.random.percent(30);
        let turn = self.request(&host);
        self.tell(format!(
            "host {at} has {} messages compressed to {} tokens, force {force}, model {has_model}",
            host.list.len(),
            options.threshold_tokens
        ));
        self.tell(format!("  {}", self.model.told(&host.list)));
        let luck = self.luck();
        let compressed = self.ask(luck, |engine| {
            let moody = Moody::new(seed);
            engine.compress(&CompressRequest {
                force,
                summarizer: has_model.then_some(&moody as &dyn Summarizer),
                ..CompressRequest::new(turn.clone(), options.clone())
            })
        });
        self.acknowledge(at, None, &compressed.turned);
        let Some(out) = self.judged(&host, &options, force, &compressed) else { return };
        self.tell(format!("  -> {}", self.model.told(&out)));
        match self.random.below(10) {
            0 | 1 => self.tell("  which it does not take".to_owned()),
            2 => self.hosts[at].pending = Some((host.list, out)),
            _ => {
                self.tell(format!("  which it takes: {} messages", out.len()));
                self.hosts[at].list = out;
            }
        }
    }

    /// Judges what came out of compress; gives the list, when it is another one.
    fn judged(
        &mut self,
        host: &Host,
        options: &CompressOptions,
        force: bool,
        compressed: &Compressed,
    ) -> Option<Vec<Element>> {
        let Compressed { messages, reason, tokens_before, tokens_after, .. } = compressed;
        let Some(messages) = messages else {
            assert!(reason.is_some(), "unchanged, and nobody says why");
            return None;
        };
        let conversation = self.model.find(&host.key).unwrap();
        let line = self.model.conversations[conversation].line.clone();
        let texts: Vec<String> = messages
            .iter()
            .map(|message| match message {
                OutMessage::Given(at) => host.list[*at].text().to_owned(),
                OutMessage::Made(json) => text_of(json),
            })
            .collect();
        if reason.is_some() {
            // Unchanged, but for what cannot be sent.
            assert_eq!(texts.len(), host.list.len(), "unchanged ({reason:?}), and not as long");
        } else {
            assert!(tokens_after < tokens_before, "{tokens_after} tokens, there were {tokens_before}");
            assert!(force || *tokens_after <= options.threshold_tokens, "{tokens_after} tokens are over the threshold");
            let speeches: Vec<Speech> = texts.iter().map(|text| speech_of(text)).collect();
            // Who shows two users in a row puts that right himself.
            let given: Vec<Speech> = host.list.iter().map(|element| speech_of(element.text())).collect();
            let turns = Rules { alternates: true, ..Rules::default() };
            let breaks_turns = valid::check(&given, turns)
                .is_err_and(|invalid| matches!(invalid.what, Wrong::SameRole | Wrong::BeginsWithAssistant));
            let rules = Rules { dialect: host.dialect, alternates: host.alternates && !breaks_turns };
            assert_eq!(valid::check(&speeches, rules), Ok(()), "{texts:#?}");
            self.assert_request_is_last(host, messages);
        }
        let out = self.elements(host, &line, messages, &texts);
        Some(out)
    }

    /// The newest request is there as it was, and what follows it ends as it did.
    fn assert_request_is_last(&self, host: &Host, out: &[OutMessage]) {
        let given: HashSet<usize> = out
            .iter()
            .filter_map(|message| match message {
                OutMessage::Given(at) => Some(*at),
                OutMessage::Made(_) => None,
            })
            .collect();
        let is_sendable = |at: usize| match &host.list[at] {
            Element::Said { text, .. } => !text.contains("\\ud800"),
            Element::Made { .. } => false,
        };
        let speeches: Vec<Speech> = host.list.iter().map(|element| speech_of(element.text())).collect();
        let request = speeches.iter().rposition(|speech| speech.is_request() && !speech.is_empty());
        if let Some(request) = request.filter(|at| is_sendable(*at)) {
            assert!(given.contains(&request), "the newest request is not there as it was");
        }
        let rules = Rules { dialect: Dialect::OpenAi, alternates: false };
        let last = host.list.len() - 1;
        if valid::check(&speeches, rules).is_ok() && is_sendable(last) {
            assert!(matches!(out.last(), Some(OutMessage::Given(at)) if *at == last), "the last message is not last");
        }
    }

    /// A list that came out, with what each message of it stands for.
    fn elements(&mut self, host: &Host, line: &[Id], out: &[OutMessage], texts: &[String]) -> Vec<Element> {
        let scope = scope_of(&host.key);
        let ask = |world: &mut Self, texts: &[String]| -> Vec<String> {
            let at = world.random.below(2);
            let behind = world.engine(at).behind(&scope, &InMessage::list(texts.iter().cloned())).unwrap();
            behind.iter().map(|text| canonical(text)).collect()
        };
        let behind = ask(self, texts);
        let place = |id: &Id| line.iter().position(|known| known == id);
        let mut must: Vec<Id> = host.list.iter().flat_map(Element::of).copied().collect();
        assert!(must.iter().all(|id| place(id).is_some()), "a message of the list is not on the line");
        must.sort_by_key(place);
        let stood = if host.is_reordered {
            matched_anyhow(&self.model, line, &must, &behind)
        } else {
            matched(&self.model, line, &must, &behind)
        };
        let stood = stood.unwrap_or_else(|| {
            let said: Vec<&String> = must.iter().map(|id| &self.model.said(*id).first[0]).collect();
            panic!(
                "the list does not stand for what it must\n  list: {texts:#?}\n  behind: {behind:#?}\n  said: {said:#?}"
            )
        });
        let mut taken: HashSet<Id> = HashSet::new();
        for message in out {
            if let OutMessage::Given(at) = message {
                taken.extend(host.list[*at].of());
            }
        }
        let mut elements = Vec::new();
        for (message, text) in out.iter().zip(texts) {
            if let OutMessage::Given(at) = message {
                elements.push(host.list[*at].clone());
                continue;
            }
            let text = canonical(text.as_bytes());
            // Alone it would be what somebody said.
            if text.contains("[lcm: now]") && !text.contains("[lcm:fold ") {
                elements.push(Element::Made { text, of: Vec::new(), is_fold: false });
                continue;
            }
            let alone = ask(self, std::slice::from_ref(&text));
            let of: Vec<Id> = alone
                .iter()
                .map(|behind| {
                    let is_it = |id: &&Id| !taken.contains(*id) && self.model.is_form(**id, behind);
                    let id = *stood.iter().find(is_it).unwrap_or_else(|| panic!("{behind} stands behind nothing"));
                    taken.insert(id);
                    id
                })
                .collect();
            elements.push(match of.as_slice() {
                [id] if alone[0] == text => Element::Said { id: *id, text },
                _ => {
                    let is_fold = !of.is_empty() && !text.contains("[lcm:part ");
                    Element::Made { text, of, is_fold }
                }
            });
        }
        elements
    }

    /// A fold that was prepared a while ago is taken now.
    fn take_late(&mut self, at: usize) {
        let Some((before, after)) = self.hosts[at].pending.take() else { return self.speak(at) };
        let list = &self.hosts[at].list;
        let is_same = |(one, other): (&Element, &Element)| one.text() == other.text() && one.of() == other.of();
        if list.len() < before.len() || !list.iter().zip(&before).all(is_same) {
            return;
        }
        let mut taken = after;
        taken.extend(list[before.len()..].iter().cloned());
        self.tell(format!("host {at} takes a fold late: {} messages", taken.len()));
        self.hosts[at].list = taken;
        self.speak(at);
    }

    /// Messages are cleared, cut or annotated.
    fn rewrite(&mut self, at: usize) {
        let mut rewritten = 0;
        for nth in 0..self.hosts[at].list.len() {
            let Element::Said { id, .. } = &self.hosts[at].list[nth] else { continue };
            let id = *id;
            let text = self.hosts[at].list[nth].text();
            let uses_again = text.contains("\"call_") || text.contains("nobody");
            // Results under one id that are cleared are all alike: which of them it was, nothing may tell.
            if uses_again {
                continue;
            }
            let shape = &self.model.said(id).shape;
            // A text that was moved far away and rewritten is another text to anybody.
            if self.hosts[at].is_reordered && !shape.has_ids {
                continue;
            }
            if shape.is_common || !(shape.has_ids || nth > 0) || !self.random.percent(25) {
                continue;
            }
            let Some(text) = self.model.said(id).shape.rewritten(&mut self.random) else { continue };
            self.hosts[at].list[nth] = Element::Said { id, text: canonical(text.as_bytes()) };
            rewritten += 1;
        }
        self.tell(format!("host {at} rewrites {rewritten} messages"));
        if self.random.percent(50) {
            self.speak(at);
        } else {
            self.show(at, None);
        }
    }

    /// The person goes back and says something else.
    fn go_back(&mut self, at: usize) {
        let host = &self.hosts[at];
        if host.list.len() < 3 || host.is_reordered {
            return;
        }
        let kept = 1 + self.random.below(host.list.len() - 2);
        // What is kept ends with something that was said once only.
        let is_common = |element: &Element| match element {
            Element::Said { id, .. } => self.model.said(*id).shape.is_common,
            Element::Made { of, .. } => of.is_empty(),
        };
        if is_common(&host.list[kept - 1]) {
            return;
        }
        let list = host.list[..kept].to_vec();
        let host = &mut self.hosts[at];
        (host.list, host.pending) = (list, None);
        self.tell(format!("host {at} goes back to message {kept}"));
        self.answer(at);
    }

    /// Says something that was never said.
    fn answer(&mut self, at: usize) {
        let dialect = self.hosts[at].dialect;
        let user = self.speaker.user(dialect, &mut self.random);
        let user = self.said(user);
        self.hosts[at].list.push(user);
        self.show(at, None);
    }

    /// The list is cut at its head or in its middle.
    fn drop_some(&mut self, at: usize) {
        let len = self.hosts[at].list.len();
        if len < 4 {
            return;
        }
        let from = if self.random.percent(50) { 0 } else { self.random.below(len - 2) };
        let count = 1 + self.random.below(len - 2 - from);
        let is_alone = |element: &Element| matches!(element, Element::Made { of, .. } if of.is_empty());
        let mut list = self.hosts[at].list.clone();
        list.drain(from..from + count);
        // A line of ours that stands beside no fold is what somebody said, but at the beginning.
        let is_fold = |at: Option<usize>| {
            at.and_then(|at| list.get(at)).is_some_and(|element| matches!(element, Element::Made { is_fold: true, .. }))
        };
        let is_beside = |at: usize| is_fold(at.checked_sub(1)) || is_fold(Some(at + 1));
        let keeps = |(at, element): &(usize, &Element)| !is_alone(element) || *at == 0 || is_beside(*at);
        let list: Vec<Element> = list.iter().enumerate().filter(keeps).map(|(_, element)| element.clone()).collect();
        let host = &mut self.hosts[at];
        (host.list, host.pending) = (list, None);
        self.tell(format!("host {at} drops {count} messages from {from} on"));
        if self.random.percent(70) {
            self.answer(at);
        } else {
            self.show(at, None);
        }
    }

    fn reorder(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        if host.list.len() < 5 {
            return;
        }
        let inner = host.list.len() - 2;
        let (one, other) = (1 + self.random.below(inner), 1 + self.random.below(inner));
        let is_said = |at: usize| match &host.list[at] {
            Element::Said { id, .. } => !self.model.said(*id).shape.is_common,
            Element::Made { .. } => false,
        };
        if one == other || !is_said(one) || !is_said(other) {
            return;
        }
        host.list.swap(one, other);
        (host.is_reordered, host.pending) = (true, None);
        self.tell(format!("host {at} swaps messages {one} and {other}"));
        self.show(at, None);
    }

    /// A host puts something in between.
    fn insert(&mut self, at: usize) {
        let host = self.hosts[at].clone();
        let conversation = self.model.find(&host.key).unwrap();
        let line = self.model.conversations[conversation].line.clone();
        let place = |element: &Element, last: bool| {
            let places = element.of().iter().filter_map(|id| line.iter().position(|known| known == id));
            if last { places.max() } else { places.min() }
        };
        let neighbours: Vec<usize> = (1..host.list.len())
            .filter(|&at| {
                let (before, after) = (place(&host.list[at - 1], true), place(&host.list[at], false));
                // Where what a fold is of is not all there, something else may have been said in that place.
                let has_gap = place(&host.list[at - 1], false)
                    .zip(before)
                    .is_some_and(|(first, last)| last - first >= host.list[at - 1].of().len());
                !has_gap && before.is_some_and(|before| after == Some(before + 1))
            })
            .collect();
        if neighbours.is_empty() || host.is_reordered {
            return;
        }
        let between = *self.random.pick(&neighbours);
        let late = self.speaker.user(host.dialect, &mut self.random);
        let late = self.said(late);
        let host = &mut self.hosts[at];
        host.list.insert(between, late);
        host.pending = None;
        self.tell(format!("host {at} puts a message before {between}"));
        self.show(at, None);
    }

    /// An old list comes back, and the conversation goes on from there.
    fn restore(&mut self, at: usize) {
        if self.hosts[at].saved.is_empty() {
            return;
        }
        let saved = self.random.pick(&self.hosts[at].saved).clone();
        self.go_on_from(at, saved);
    }

    fn go_on_from(&mut self, at: usize, saved: Saved) {
        let conversation = self.model.find(&self.hosts[at].key).unwrap();
        let line = &self.model.conversations[conversation].line;
        let is_on_line = saved.list.iter().flat_map(Element::of).all(|id| line.contains(id));
        let whole: Vec<Id> = saved.list.iter().flat_map(Element::of).copied().collect();
        // What was cut and then left cannot be told from something else.
        let can_be_told = saved.line.starts_with(&whole);
        // Nor can a line that shares more with the present one than a beginning, as something came between.
        let shared = line.iter().zip(&saved.line).take_while(|(one, other)| one == other).count();
        let has_parted = !saved.line[shared..].iter().any(|id| line.contains(id));
        let leads_back = can_be_told && has_parted;
        if !is_on_line && self.stands_otherwise(&whole, &saved.line) {
            return;
        }
        if !is_on_line && !leads_back {
            return;
        }
        let base = (!is_on_line).then_some(saved.line);
        self.tell(format!("host {at} restores a list of {} messages, on its line: {is_on_line}", saved.list.len()));
        let host = &mut self.hosts[at];
        (host.list, host.pending, host.is_reordered) = (saved.list, None, true);
        let dialect = host.dialect;
        let user = self.speaker.user(dialect, &mut self.random);
        let user = self.said(user);
        self.hosts[at].list.push(user);
        self.show(at, base.as_deref());
        self.hosts[at].is_reordered = self.is_out_of_order(at);
    }

    fn is_out_of_order(&self, at: usize) -> bool {
        let conversation = self.model.find(&self.hosts[at].key).unwrap();
        let line = &self.model.conversations[conversation].line;
        let places: Vec<Option<usize>> = self.hosts[at]
            .list
            .iter()
            .filter(|element| matches!(element, Element::Said { .. }))
            .flat_map(Element::of)
            .map(|id| line.iter().position(|known| known == id))
            .collect();
        !places.is_sorted()
    }

    /// An old list is shown again, and nothing more comes of it.
    fn replay(&mut self, at: usize) {
        if self.hosts[at].saved.is_empty() {
            return;
        }
        let saved = self.random.pick(&self.hosts[at].saved).clone();
        let conversation = self.model.find(&self.hosts[at].key).unwrap();
        let line = &self.model.conversations[conversation].line;
        if !saved.list.iter().flat_map(Element::of).all(|id| line.contains(id)) {
            return;
        }
        self.tell(format!("host {at} shows an old list of {} messages", saved.list.len()));
        let now = std::mem::replace(&mut self.hosts[at].list, saved.list);
        let turned = self.show(at, None);
        assert_eq!((turned.new, turned.late), (0, 0), "an old list has something new");
        self.hosts[at].list = now;
    }

    /// Another session begins with what this one has said, up to some message, and goes on by itself.
    fn fork(&mut self, at: usize) {
        let host = self.hosts[at].clone();
        if self.hosts.len() >= 12 || host.is_reordered || host.list.len() < 2 {
            return;
        }
        let kept = 1 + self.random.below(host.list.len());
        let mut list = host.list;
        list.truncate(kept);
        if list.last().is_some_and(|last| last.of().is_empty()) {
            list.pop();
        }
        if list.is_empty() {
            return;
        }
        self.branch_off(at, list, "forks");
    }

    /// The host gives the conversation a new name, with all that it shows.
    fn roll_over(&mut self, at: usize) {
        let host = self.hosts[at].clone();
        if self.hosts.len() >= 12 || host.is_reordered {
            return;
        }
        self.branch_off(at, host.list, "rolls over");
    }

    /// Whether a line has all of some messages, and something more in between than another: either may be meant.
    fn stands_otherwise(&self, whole: &[Id], than: &[Id]) -> bool {
        let until_last = |line: &[Id]| {
            let places: Option<Vec<usize>> = whole.iter().map(|id| line.iter().position(|known| known == id)).collect();
            places.and_then(|places| places.into_iter().max()).map(|last| line[..=last].to_vec())
        };
        let own = until_last(than);
        let mut lines = self.model.conversations.iter().flat_map(|other| other.left.iter().chain([&other.line]));
        lines.any(|line| until_last(line).is_some_and(|other| own.as_ref() != Some(&other)))
    }

    fn branch_off(&mut self, at: usize, list: Vec<Element>, how: &str) {
        let number = self.hosts.len();
        let parent = self.hosts[at].clone();
        let conversation = self.model.find(&parent.key).unwrap();
        let base = self.model.conversations[conversation].line.clone();
        let whole: Vec<Id> = list.iter().flat_map(Element::of).copied().collect();
        // A form that was rewritten leads to no line of its own: what a branch of a branch shares may be known only there.
        let is_rewritten = |element: &Element| match element {
            Element::Said { id, text } => !self.model.said(*id).first.contains(text),
            Element::Made { .. } => false,
        };
        if self.stands_otherwise(&whole, &base) || (parent.is_branch && list.iter().any(is_rewritten)) {
            return;
        }
        let key = SessionKey { name: format!("s{number}-{}", self.steps), ..parent.key.clone() };
        self.tell(format!("host {at} {how} into host {number} with {} messages", list.len()));
        self.hosts.push(Host { key, list, is_branch: true, saved: Vec::new(), pending: None, ..parent });
        let user = self.speaker.user(self.hosts[number].dialect, &mut self.random);
        let user = self.said(user);
        self.hosts[number].list.push(user);
        let list = self.hosts[number].list.clone();
        self.begin(number, &list, &base);
    }

    /// A list comes under the name of another session of the same owner, which has said something else.
    fn under_another_name(&mut self, at: usize) {
        let host = self.hosts[at].clone();
        let conversation = self.model.conversations[self.model.find(&host.key).unwrap()].clone();
        let whole: Vec<Id> = host.list.iter().flat_map(Element::of).copied().collect();
        if whole != conversation.line || whole.len() < 9 || whole.iter().any(|id| self.model.said(*id).shape.is_common)
        {
            return;
        }
        let is_stranger = |other: &&crate::model::Conversation| {
            let mut all = other.left.iter().chain([&other.line]).flatten();
            other.key.owner == host.key.owner && !all.any(|id| whole.contains(id))
        };
        let Some(other) = self.model.conversations.iter().find(is_stranger) else { return };
        let mut request = self.request(&host);
        request.key = other.key.clone();
        self.tell(format!("the list of host {at} comes under the name {}", request.key.name));
        let turned = self.ask(Luck::Fine, |engine| engine.turn(&request));
        assert_eq!((turned.key, turned.new), (host.key, 0), "whose list it is");
    }
}
