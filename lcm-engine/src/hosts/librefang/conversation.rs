//! One conversation of an agent: which session it is, what of it was taken in, and what it shows.
//!
//! The host names no session. Its messages have keys, and a session is the one in which a message with that key was said;
//! where there is none it begins under the moment of its first message.

use std::collections::HashMap;

use lcm_core::op::Change;
use lcm_core::{Json, NodeId, OpId, SessionId};
use lcm_store::{Order, Pinned, Scope};

use super::message::{Said, Shown};
use super::raw::Raws;
use super::turn::{Step, Turn};
use crate::Engine;
use crate::compress::CompressOptions;
use crate::error::EngineError;
use crate::hosts::librefang::SOURCE;
use crate::service::{
    AssembleRequest, CompressRequest, InMessage, OutMessage, PinRequest, RecallOptions, SelectRequest, Service,
    SessionKey, TurnRequest, Turned,
};

/// Messages whose form is remembered, so that a list is taken in only where something of it is new.
const FORMS_MAX: usize = 1 << 16;
/// Turns that wait to become history; a person has one at a time, and those that failed or were private pass.
const TURNS_MAX: usize = 16;
/// How often a view is folded harder until it fits.
const ROUNDS_MAX: usize = 4;

/// What the work on a conversation needs.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) engine: &'a Engine,
    pub(super) folding: &'a CompressOptions,
    pub(super) recall: RecallOptions,
    pub(super) by: &'a str,
    pub(super) now_ms: i64,
}

/// A conversation.
pub(super) struct Conversation {
    pub(super) key: SessionKey,
    /// The text by which each message of it was seen last, by its key.
    forms: HashMap<NodeId, InMessage>,
    /// What it shows; `None` where that is not known.
    view: Option<View>,
    /// Turns that are not history yet, the newest last.
    pub(super) turns: Vec<Turn>,
    /// The turn that goes on, by the key of its request, and when it was shown last; a tool may be called in it.
    pub(super) in_turn: Option<(Option<NodeId>, i64)>,
    /// When it was used last.
    pub(super) used_ms: i64,
}

/// What a session shows: folds and messages.
pub(super) struct View {
    session: SessionId,
    /// The newest op of the session that is in it.
    op: OpId,
    /// As they are kept.
    pub(super) messages: Vec<InMessage>,
    /// The same as the host is shown them.
    pub(super) shown: Vec<Shown>,
    /// Whether some of them are ours.
    pub(super) has_folds: bool,
}

impl View {
    /// A view of these messages, whose forms are known from now on.
    fn of(session: SessionId, op: OpId, messages: Vec<InMessage>, forms: &mut HashMap<NodeId, InMessage>) -> Self {
        let mut view = Self { session, op, messages: Vec::new(), shown: Vec::new(), has_folds: false };
        for text in messages {
            // What was kept can be read, but for what came in through another door: that is no message of this host.
            let Some(said) = Json::parse(&text).ok().and_then(Said::read) else { continue };
            if let Some(key) = said.key {
                forms.entry(key).or_insert_with(|| text.clone());
            }
            view.push(text, &said);
        }
        view
    }

    pub(super) fn millis(&self) -> u64 {
        self.shown.iter().map(|shown| shown.millis).sum()
    }

    fn bytes(&self) -> usize {
        self.shown.iter().map(|shown| shown.text.len() + 1).sum()
    }

    fn push(&mut self, text: InMessage, said: &Said) {
        self.has_folds |= said.is_marked;
        self.messages.push(text);
        self.shown.push(said.shown());
    }
}

impl Conversation {
    pub(super) fn new(key: SessionKey, now_ms: i64) -> Self {
        Self { key, forms: HashMap::new(), view: None, turns: Vec::new(), in_turn: None, used_ms: now_ms }
    }

    /// Whether something of it is history.
    pub(super) fn is_kept(&self) -> bool {
        !self.forms.is_empty()
    }

    /// Lets go of what can be read again from the store.
    pub(super) fn let_go(&mut self) {
        self.view = None;
        self.forms = HashMap::new();
    }

    /// Whether there is nothing to let go.
    pub(super) fn is_light(&self) -> bool {
        self.view.is_none() && self.forms.is_empty()
    }

    /// Whether a message with this key is known to be part of it.
    pub(super) fn has(&self, key: &NodeId) -> bool {
        self.forms.contains_key(key)
            || self.turns.iter().any(|turn| turn.steps.iter().any(|step| step.now.key == Some(*key)))
    }

    /// Puts what is known to be history with the past: what is pinned has no reply of its own in front of a later request.
    pub(super) fn sort_known(
        &mut self,
        work: Work<'_>,
        mut past: Vec<Said>,
        mut live: Vec<Said>,
    ) -> Result<(Vec<Said>, Vec<Said>), EngineError> {
        let newest = live.iter().rposition(Said::is_request).unwrap_or(0);
        if live[..newest].iter().any(|said| said.made.is_none()) {
            // With it comes what is known.
            self.view(work)?;
            let is_known = |said: &Said| said.key.is_some_and(|key| self.forms.contains_key(&key));
            let said = |said: &&Said| said.made.is_none() && !said.is_marked;
            let first_new = live[..newest].iter().position(|one| said(&one) && !is_known(one)).unwrap_or(newest);
            let known = live[..first_new].iter().rposition(is_known).map_or(0, |at| at + 1);
            past.extend(live.drain(..known).filter(|said| said.made.is_none()));
        }
        Ok((past, live))
    }

    /// The turn of the newest request, with what the host shows of it.
    pub(super) fn follow(&mut self, live: &[Said], raws: &mut Raws, now_ms: i64) -> &Turn {
        let request = live.iter().find(|said| said.is_request()).and_then(|said| said.key);
        // What was said while tools ran may be all that is left of the requests.
        let is_it = |turn: &Turn| turn.steps.iter().any(|step| step.now.key == request);
        let known = self.turns.iter().rposition(|turn| request.is_some() && is_it(turn));
        let mut turn = known.map_or_else(|| Turn::new(request), |at| self.turns.remove(at));
        turn.follow(live, raws, now_ms);
        self.turns.push(turn);
        if self.turns.len() > TURNS_MAX {
            self.turns.remove(0);
        }
        self.turns.last().expect("a turn was put there just now")
    }

    /// Takes in what stands in front of the newest request: the host keeps it, so it is no secret. Of turns that were not
    /// history yet it takes what was seen first.
    pub(super) fn take_past(
        &mut self,
        work: Work<'_>,
        raws: &mut Raws,
        past: &[Said],
    ) -> Result<Option<Turned>, EngineError> {
        let is_known = |said: &Said| match said.key {
            Some(key) => self.forms.get(&key) == Some(&said.text),
            // What has no key is told by its neighbours.
            None => said.is_marked,
        };
        if past.iter().all(is_known) {
            return Ok(None);
        }
        self.take_in(work, raws, past)
    }

    /// Takes in what stands in front of the newest request, and that with all steps behind it: the turn is over, and was no
    /// secret.
    pub(super) fn take_turn(
        &mut self,
        work: Work<'_>,
        raws: &mut Raws,
        past: &[Said],
        live: &[Said],
    ) -> Result<Option<Turned>, EngineError> {
        let Turn { request, steps, .. } = self.follow(live, raws, work.now_ms).clone();
        let list: Vec<Said> = past.iter().cloned().chain(steps.into_iter().map(|step| step.now)).collect();
        let turned = self.take_in(work, raws, &list)?;
        // The host tells it late sometimes, when the next turn has begun.
        self.in_turn = self.in_turn.take().filter(|(goes_on, _)| *goes_on != request);
        Ok(turned)
    }

    /// Takes a list in, each message first as it was seen first.
    fn take_in(&mut self, work: Work<'_>, raws: &mut Raws, list: &[Said]) -> Result<Option<Turned>, EngineError> {
        // A list that shows something of ours is made of our own answer: what stood there is what the session shows.
        let is_from_us = list.iter().any(|said| said.is_marked);
        if is_from_us || self.view.is_some() {
            // Read anew where others changed it, so that theirs is not taken for ours.
            self.view(work)?;
        }
        let mut list: Vec<Said> = list.iter().filter(|said| said.made.is_none() && !said.is_marked).cloned().collect();
        let mut before = Vec::new();
        let is_seen = |said: &Said| said.key.is_some_and(|key| self.forms.contains_key(&key));
        if is_from_us || !list.iter().any(is_seen) {
            let texts: Vec<InMessage> = list.iter().map(|said| said.text.clone()).collect();
            let known = work.engine.known_in(&self.key, SOURCE, &texts)?;
            // And one of which nothing is known goes on where the session ends: the host cut all that stood before it.
            if is_from_us || known.iter().all(|known| !known) {
                // It may be taken in long after it was shown, and be folded since.
                let mut known = known.into_iter();
                list.retain(|_| !known.next().unwrap_or(false));
                before = self.view(work)?.map(|view| view.messages.clone()).unwrap_or_default();
            }
        }
        if list.is_empty() {
            return Ok(None);
        }
        let mut firsts: HashMap<NodeId, Said> = HashMap::new();
        for Step { first, now } in self.turns.iter().flat_map(|turn| &turn.steps) {
            if let Some(key) = now.key {
                firsts.insert(key, first.clone());
            }
        }
        let mut differs = false;
        let first_list: Vec<Said> = list
            .iter()
            .map(|said| {
                let is_new = said.key.is_some_and(|key| !self.forms.contains_key(&key));
                if !is_new {
                    return said.clone();
                }
                let first = said.key.and_then(|key| firsts.remove(&key));
                let first = first.or_else(|| raws.take_whole(said, i64::MIN)).unwrap_or_else(|| said.clone());
                differs |= first.text != said.text;
                first
            })
            .collect();
        let mut done = Vec::with_capacity(2);
        if differs {
            done.push(self.turn(work, &before, &first_list)?);
        }
        let turned = self.turn(work, &before, &list)?;
        done.push(turned.clone());
        let new = usize::try_from(done.iter().map(|turned| turned.new).sum::<u64>()).unwrap_or(usize::MAX);
        let ops: u64 = done.iter().map(|turned| u64::from(turned.new > 0) + turned.revised).sum();
        match &mut self.view {
            // What the host rewrites stays as it was shown, until a fold changes the view anyway: so that the head of a
            // window stays the same.
            Some(view) if done.iter().all(is_plain) && turned.op.is_none_or(|op| op.0 == view.op.0 + ops) => {
                for said in &list[list.len() - new.min(list.len())..] {
                    view.push(said.text.clone(), said);
                }
                view.op = turned.op.unwrap_or(view.op);
            }
            _ => self.view = None,
        }
        self.pin(work, &turned, &list)?;
        if self.forms.len() + list.len() > FORMS_MAX {
            // Forgetting costs one alignment.
            self.forms.clear();
        }
        for said in &list {
            if let Some(key) = said.key {
                self.forms.insert(key, said.text.clone());
            }
        }
        let forms = &self.forms;
        self.turns.retain(|turn| !turn.request.is_some_and(|request| forms.contains_key(&request)));
        Ok(Some(turned))
    }

    fn turn(&mut self, work: Work<'_>, before: &[InMessage], list: &[Said]) -> Result<Turned, EngineError> {
        let messages = before.iter().cloned().chain(list.iter().map(|said| said.text.clone())).collect();
        let turned = work.engine.turn(&self.request(work, messages))?;
        if turned.key != self.key {
            self.key = turned.key.clone();
            self.view = None;
        }
        if let Some((_, last)) = turned.numbers {
            work.engine.follow(last);
        }
        Ok(turned)
    }

    pub(super) fn request(&self, work: Work<'_>, messages: Vec<InMessage>) -> TurnRequest {
        TurnRequest {
            key: self.key.clone(),
            source: SOURCE.to_owned(),
            dialect: None,
            messages,
            by: work.by.to_owned(),
            now_ms: work.now_ms,
        }
    }

    /// Never folds what the host says must stay.
    fn pin(&self, work: Work<'_>, turned: &Turned, list: &[Said]) -> Result<(), EngineError> {
        let Some(session) = turned.session.filter(|_| list.iter().any(|said| said.is_pinned)) else { return Ok(()) };
        for said in list.iter().filter(|said| said.is_pinned) {
            if said.key.is_some_and(|key| self.forms.get(&key).is_some_and(|form| *form == said.text)) {
                continue;
            }
            for number in work.engine.numbers_of(&self.key.owner, SOURCE, &said.text)? {
                let request = PinRequest {
                    scope: Scope::everything(),
                    number,
                    session: Some(session),
                    pinned: Pinned::Yes,
                    by: work.by.to_owned(),
                    now_ms: work.now_ms,
                };
                match work.engine.pin(&request) {
                    Ok(_) | Err(EngineError::NotOnTimeline { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// What the session shows now; `None` while nothing of it was taken in.
    pub(super) fn view(&mut self, work: Work<'_>) -> Result<Option<&View>, EngineError> {
        if let Some(view) = &mut self.view {
            let snapshot = work.engine.store().snapshot()?;
            let newest = snapshot.last_op()?;
            // Somebody may have folded, unfolded or pinned meanwhile.
            let is_changed = newest > view.op && {
                let since = snapshot.ops_of(view.session, OpId(view.op.0 + 1)..=newest, Order::Oldest, usize::MAX)?;
                since.iter().any(|op| !matches!(op.what, Change::Pin { .. }))
            };
            if is_changed {
                self.view = None;
            } else {
                view.op = newest;
            }
        }
        if self.view.is_none() {
            let Some(session) = work.engine.session_named(&self.key)? else { return Ok(None) };
            let request = AssembleRequest { scope: Scope::everything(), session: session.id, as_of: None };
            let assembled = work.engine.assemble(&request)?;
            let (session, op) = (session.id, assembled.as_of);
            let messages = assembled.messages.into_iter().map(InMessage::from).collect();
            self.view = Some(View::of(session, op, messages, &mut self.forms));
        }
        Ok(self.view.as_ref())
    }

    /// Folds the view until it costs no more than `millis_max`, and lets that be what the session shows. Whether it came
    /// to that.
    pub(super) fn fold(&mut self, work: Work<'_>, millis_max: u64, bytes_max: usize) -> Result<bool, EngineError> {
        // Folded somewhat under what there is room for, so that the next turns find it as it is.
        let mut share = 60;
        for _ in 0..ROUNDS_MAX {
            let Some(view) = self.view(work)? else { return Ok(false) };
            let (millis, bytes) = (view.millis(), view.bytes());
            if millis <= millis_max && bytes <= bytes_max {
                return Ok(true);
            }
            let stored = work.engine.weigh(&view.messages)?;
            let by_millis = part_of(stored, millis_max, millis);
            let by_bytes = part_of(stored, number(bytes_max), number(bytes));
            let threshold = (by_millis.min(by_bytes) / 100 * share).max(1);
            let messages = view.messages.clone();
            let options = CompressOptions { threshold_tokens: threshold, ..work.folding.clone() };
            let request = CompressRequest::new(self.request(work, messages.clone()), options);
            let done = work.engine.compress(&request)?;
            let Some(shown) = &done.messages else {
                tracing::debug!(reason = done.reason, "a window could not be folded");
                return Ok(false);
            };
            // The host never shows what it was given: that the session shows it now is ours to say.
            let list: Vec<InMessage> = shown
                .iter()
                .map(|message| match message {
                    OutMessage::Given(at) => messages[*at].clone(),
                    OutMessage::Made(text) => text.clone().into(),
                })
                .collect();
            work.engine.turn(&self.request(work, list.clone()))?;
            // What is shown in part is so for this view, which the store does not know of.
            let op = work.engine.store().snapshot()?.last_op()?;
            let session = self.view.as_ref().map(|view| view.session);
            self.view = session.map(|session| View::of(session, op, list, &mut self.forms));
            share = share * 3 / 4;
        }
        let Some(view) = self.view(work)? else { return Ok(false) };
        Ok(view.millis() <= millis_max && view.bytes() <= bytes_max)
    }

    /// What is shown of the view and the newest request, with the originals that have to do with it where some are folded
    /// away; `None` for just these. What is given is told by its index. The view may cost `millis_max`.
    pub(super) fn select(
        &self,
        work: Work<'_>,
        live: &[Said],
        millis_max: u64,
    ) -> Result<Option<Vec<OutMessage>>, EngineError> {
        let Some(view) = self.view.as_ref().filter(|view| view.has_folds && work.recall.tokens_max > 0) else {
            return Ok(None);
        };
        let messages: Vec<InMessage> =
            view.messages.iter().cloned().chain(live.iter().map(|said| said.text.clone())).collect();
        let view_tokens = work.engine.weigh(&view.messages)?;
        let live_tokens = work.engine.weigh(&messages)?.saturating_sub(view_tokens);
        let tokens_max = part_of(view_tokens, millis_max, view.millis()).saturating_add(live_tokens);
        let selected = work.engine.select(&SelectRequest {
            turn: self.request(work, messages),
            head: 0,
            budget_tokens: tokens_max,
            model: None,
            query: None,
            // What another conversation of the same agent said is not for this one.
            scope: Scope::everything().in_sessions(vec![view.session]),
            folding: CompressOptions { threshold_tokens: tokens_max.max(1), ..work.folding.clone() },
            recall: work.recall,
        })?;
        Ok(selected.messages)
    }
}

/// Whether a list only put something behind what was there.
fn is_plain(turned: &Turned) -> bool {
    turned.late == 0 && !turned.branched && !turned.created
}

/// `whole * part / of`, without loss.
fn part_of(whole: u64, part: u64, of: u64) -> u64 {
    let scaled = u128::from(whole) * u128::from(part) / u128::from(of.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
