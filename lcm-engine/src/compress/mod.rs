//! Compress: plan, summarise, fold, so that a list fits its window and nothing is lost.
//!
//! The list is taken in first, so every message of it has a place before anything is folded. Then it is divided into
//! units, a plan is made, summaries are written, and what came of it is measured; when the target is not reached the
//! next plan presses harder. The finished list passes the validator, or the caller's own list comes back with the reason.
//! Summaries are kept in one commit; they become the session's view when the host shows that it took them (`turn`).
//!
//! A summary that stands for the same messages and was written in the same way is used again, so the same list gives
//! the same answer, whoever asks and however often.

pub mod atoms;
pub(crate) mod extract;
pub(crate) mod plan;
pub mod summary;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lcm_core::node::SummaryParts;
use lcm_core::op::Change;
use lcm_core::tokens::{Estimate, TokenCounter};
use lcm_core::{Message, NodeId, Role, Summary, canon};
use lcm_store::{RecordNumber, Snapshot, Store, StoreError};

use self::extract::Source;
use self::plan::{Kind, Limits, PRESSURE_MAX, Said, Step, Unit};
use self::summary::{Material, Writer, Written};
use crate::align::{Fate, Ours};
use crate::assemble;
use crate::error::EngineError;
use crate::find::unreadable;
use crate::hosts::speech::{Dialect, Speech};
use crate::hosts::told::Told;
use crate::service::{CompressRequest, Compressed, OutMessage, Turned};
use crate::turn::{self, Element, Fold, List, Live};
use crate::valid::{self, Rules};

/// What a fold costs without its text: the lines around it.
const FOLD_COST: u64 = 64;
/// Sources of one leaf: what a model reads well and a summary still tells.
const CHUNK_TOKENS_MAX: u64 = 20_000;
/// What stands around folds: the message that holds them, and the line between it and a user's.
const AROUND_COST: u64 = 64;
/// A text of fewer tokens says nothing.
const TEXT_TOKENS_MIN: u64 = 24;
/// Rounds at one pressure; each folds something, so this is never reached by a list of sane length.
const ROUNDS_MAX: usize = 64;

/// What is shown of one unit.
#[derive(Clone, Debug)]
enum Piece {
    /// Elements of the list, as they were given; of some, other text: element, message, tokens.
    Given(Range<usize>, Vec<(usize, Vec<u8>, u64)>),
    Fold(Fold),
}

struct Entry {
    unit: Unit,
    piece: Piece,
}

/// One pass over a list.
struct Pass<'a> {
    store: &'a Store,
    request: &'a CompressRequest<'a>,
    live: &'a mut Live,
    list: List,
    dialect: Dialect,
    limits: Limits,
    entries: Vec<Entry>,
    /// Elements at the head: system messages.
    head: usize,
    writer: Writer<'a>,
    /// Summaries that are to be kept.
    made: Vec<Arc<Summary>>,
}

/// Compresses a list. What comes back can be sent: halves of surrogate pairs, which are kept, are not shown.
pub(crate) fn compress(
    store: &Store,
    request: &CompressRequest<'_>,
    turned: Turned,
    live: &mut Live,
) -> Result<Compressed, EngineError> {
    let elements = live.elements_of(&request.turn)?;
    let mut done = shorten(store, request, turned, live, &elements)?;
    if elements.iter().any(|element| element.sendable.is_some()) {
        let shown = done.messages.take().unwrap_or_else(|| (0..elements.len()).map(OutMessage::Given).collect());
        let sendable = |message| match message {
            OutMessage::Given(at) => match &elements[at].sendable {
                Some(sendable) => OutMessage::Made(sendable.clone()),
                None => OutMessage::Given(at),
            },
            made @ OutMessage::Made(_) => made,
        };
        done.messages = Some(shown.into_iter().map(sendable).collect());
    }
    Ok(done)
}

fn shorten(
    store: &Store,
    request: &CompressRequest<'_>,
    turned: Turned,
    live: &mut Live,
    elements: &[Arc<Element>],
) -> Result<Compressed, EngineError> {
    let snapshot = store.snapshot()?;
    let list = live.align(&snapshot, &request.turn, elements)?;
    let tokens = list.elements.iter().map(|element| u64::from(element.tokens)).sum::<u64>();
    let mut done = Compressed { turned, tokens_before: tokens, tokens_after: tokens, ..Compressed::default() };
    let told = tokens.max(request.current_tokens.unwrap_or(0));
    let options = &request.options;
    let is_over = told > options.threshold_tokens;
    if !is_over && !request.force {
        done.reason = Some(format!("{told} tokens are within the threshold of {}", options.threshold_tokens));
        return Ok(done);
    }
    // What the host counts and we do not see (tool schemas, its own prompt) is there whatever we do.
    let beside = told - tokens;
    let target = match options.threshold_tokens.checked_sub(beside) {
        Some(target) if is_over && target > 0 => target,
        Some(_) if !is_over => tokens.saturating_sub(1),
        // More than everything is beside the list: win what can be won.
        _ => tokens / 2,
    };
    let Some(entries) = entries(&list, live) else {
        done.reason = Some("the list shows messages in another order than they were said".to_owned());
        return Ok(done);
    };
    let base = options.threshold_tokens.min(tokens.max(1));
    let limits = Limits {
        target: target.min(base),
        protect_first: options.protect_first,
        protect_last: options.protect_last,
        tail_max: options.tail_tokens_max.unwrap_or(base * 2 / 5).min(base * 3 / 5),
        chunk_max: CHUNK_TOKENS_MAX,
        // Of a small window a summary may take its share, or it says nothing.
        summary_max: options.summary_tokens_max.min((base / 3).max(40)),
        summaries_max: base / 3,
        fold_cost: FOLD_COST,
    };
    let head = list.elements.iter().take_while(|element| element.speech.is_system()).count();
    let writer = Writer::new(request.summarizer, &Estimate, request.focus.as_deref(), options.summary_time_max);
    let dialect = request.turn.dialect.unwrap_or_else(|| turn::dialect_of(&list.elements));
    let mut pass = Pass { store, request, live, list, dialect, limits, entries, head, writer, made: Vec::new() };
    let reached = pass.run(&snapshot, target)?;
    let (messages, after) = pass.assemble()?;
    // What stands between is known only now.
    let reached = reached && after <= target;
    done.failures = std::mem::take(&mut pass.writer.failures);
    done.model_calls = pass.writer.calls;
    if pass.made.is_empty() && !pass.has_cuts() {
        done.reason = Some("there is nothing to fold in it".to_owned());
        return Ok(done);
    }
    if after >= tokens {
        done.reason = Some("what could be folded is not worth a fold".to_owned());
        return Ok(done);
    }
    if !reached && !request.force {
        done.reason = Some(format!(
            "it cannot be brought under {target} tokens: the newest request and the newest step alone leave {after}"
        ));
        return Ok(done);
    }
    let rules = Rules { dialect: pass.dialect, alternates: options.alternates };
    if let Err(invalid) = valid::check(&pass.speeches(&messages)?, rules) {
        done.reason = Some(format!("no valid list comes of it: {invalid}"));
        return Ok(done);
    }
    if let Some(op) = pass.keep()? {
        done.turned.op = Some(op);
    }
    done.folds = pass
        .entries
        .iter()
        .filter_map(|entry| match &entry.piece {
            Piece::Fold(fold) => Some(fold.id),
            Piece::Given(..) => None,
        })
        .collect();
    done.tokens_after = after;
    done.messages = Some(messages);
    Ok(done)
}

/// Divides a list behind its head into units; `None` where its places do not rise.
fn entries(list: &List, live: &Live) -> Option<Vec<Entry>> {
    let elements = &list.elements;
    let head = elements.iter().take_while(|element| element.speech.is_system()).count();
    let mut entries: Vec<Entry> = Vec::new();
    let is_folds = |at: usize| matches!(list.shown[at].ours, Some(Ours::Folds(_)));
    let mut at = head;
    while at < elements.len() {
        if is_folds(at) {
            for fold in &list.folds[at] {
                let kind = Kind::Fold { depth: fold.summary.depth() };
                let unit =
                    Unit { places: fold.places.clone(), tokens: u64::from(fold.summary.own_tokens) + FOLD_COST, kind };
                entries.push(Entry { unit, piece: Piece::Fold(fold.clone()) });
            }
            at += 1;
            continue;
        }
        let end = (at..elements.len()).find(|at| is_folds(*at)).unwrap_or(elements.len());
        let speeches: Vec<Speech> = elements[at..end].iter().map(|element| element.speech.clone()).collect();
        for atom in atoms::atoms(&speeches) {
            let range = at + atom.range.start..at + atom.range.end;
            let (mut first, mut end_place) = (usize::MAX, 0);
            for element in range.clone() {
                let (Fate::Known(place) | Fate::Revised(place)) = list.alignment.fates[element] else { return None };
                (first, end_place) = (first.min(place), end_place.max(place + 1));
            }
            let places = first..end_place;
            let tokens = elements[range.clone()].iter().map(|element| u64::from(element.tokens)).sum();
            let is_open = atom.is_open && end == elements.len();
            let parts = range
                .clone()
                .filter(|element| list.shown[*element].ours.is_none())
                .map(|element| (element, u64::from(elements[element].tokens)))
                .collect();
            let said = Said {
                is_sound: atom.is_sound && (is_open || !atom.is_open),
                is_open,
                is_request: elements[range.start].speech.is_request(),
                is_pinned: places.clone().any(|place| live.is_pinned(place)),
                parts,
            };
            entries.push(Entry {
                unit: Unit { places, tokens, kind: Kind::Said(said) },
                piece: Piece::Given(range, Vec::new()),
            });
        }
        at = end;
    }
    // Folds of steps of the newest request stand in front of it; all else rises.
    let mut reached = 0;
    for entry in &entries {
        let is_within = matches!(&entry.piece, Piece::Fold(fold) if assemble::is_within(&fold.summary));
        if !is_within {
            if entry.unit.places.start < reached {
                return None;
            }
            reached = entry.unit.places.end;
        }
    }
    Some(entries)
}

impl Pass<'_> {
    /// Folds until the target is reached; whether it is.
    fn run(&mut self, snapshot: &Snapshot, target: u64) -> Result<bool, EngineError> {
        for pressure in 0..=PRESSURE_MAX {
            for _ in 0..ROUNDS_MAX {
                let units: Vec<Unit> = self.entries.iter().map(|entry| entry.unit.clone()).collect();
                let steps = plan::plan(&units, &self.limits, pressure);
                let mut has_changed = false;
                // From the end, so that the numbers of those before stay.
                for step in steps.into_iter().rev() {
                    has_changed |= self.carry_out(snapshot, self.within_room(step, pressure, target))?;
                }
                if !has_changed {
                    break;
                }
            }
            for _ in 0..ROUNDS_MAX {
                let units: Vec<Unit> = self.entries.iter().map(|entry| entry.unit.clone()).collect();
                let Some(step) = plan::condense(&units, &self.limits, pressure) else { break };
                if (pressure >= 2 && self.total() <= target) || !self.carry_out(snapshot, step)? {
                    break;
                }
            }
            if self.total() <= target {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same step, with a text that is not larger than what the target leaves, where nothing else can give way.
    fn within_room(&self, step: Step, pressure: u8, target: u64) -> Step {
        match step {
            Step::Leaf { units, budget, is_within } if pressure >= 2 => {
                let shown: u64 = self.entries[units.clone()].iter().map(|entry| entry.unit.tokens).sum();
                let others = self.total().saturating_sub(shown) + FOLD_COST;
                let room = target.saturating_sub(others).max(TEXT_TOKENS_MIN);
                Step::Leaf { units, budget: budget.min(room), is_within }
            }
            step => step,
        }
    }

    /// What the list costs as it is now, about; it is counted when it is assembled.
    fn total(&self) -> u64 {
        let head = self.list.elements[..self.head].iter().map(|element| u64::from(element.tokens)).sum::<u64>();
        let around =
            if self.entries.iter().any(|entry| matches!(entry.piece, Piece::Fold(_))) { AROUND_COST } else { 0 };
        head + around + self.entries.iter().map(|entry| entry.unit.tokens).sum::<u64>()
    }

    fn has_cuts(&self) -> bool {
        self.entries.iter().any(|entry| matches!(&entry.piece, Piece::Given(_, cuts) if !cuts.is_empty()))
    }

    /// Carries a step out; whether it changed anything.
    fn carry_out(&mut self, snapshot: &Snapshot, step: Step) -> Result<bool, EngineError> {
        match step {
            Step::Part { unit, message, budget } => self.cut(unit, message, budget),
            Step::Leaf { units, budget, is_within } => {
                let places = self.entries[units.start].unit.places.start..self.entries[units.end - 1].unit.places.end;
                let children: Vec<NodeId> =
                    self.live.line.stood[places.clone()].iter().map(|stood| stood.forms[0]).collect();
                let records: Vec<RecordNumber> =
                    self.live.line.stands[places.clone()].iter().map(|stand| stand.record).collect();
                let stands = &self.live.line.stands[places.clone()];
                let span =
                    |pick: fn(i64, i64) -> i64| stands.iter().map(|stand| stand.seen_ms).reduce(pick).unwrap_or(0);
                let span_ms = (span(i64::min), span(i64::max));
                let source_tokens: u64 = stands.iter().map(|stand| u64::from(stand.tokens)).sum();
                let shown: u64 = self.entries[units.clone()].iter().map(|entry| entry.unit.tokens).sum();
                let must = self.entries[units.clone()]
                    .iter()
                    .any(|entry| matches!(&entry.unit.kind, Kind::Said(said) if !said.is_sound));
                // Equal messages said elsewhere are other places: their summary is another one.
                let mut marks = vec![format!("from {}", stands.first().map_or(0, |stand| stand.arrival.0))];
                if is_within {
                    marks.push(assemble::WITHIN.to_owned());
                }
                let version = self.writer.prompt_version();
                let summary = match known(snapshot, &records, &children, version, &marks)? {
                    Some(known) => Some(known),
                    None => {
                        let first = places.start;
                        let sources = snapshot.read_each(&records, |at, buffer| {
                            let told = buffer.with_message(|message| Ok(Told::of(&message.tree()?)));
                            let arrival = self.live.line.stands[first + at].arrival;
                            let told = told.map_err(|error| unreadable(arrival, error))?;
                            Ok::<_, EngineError>(Source { role: self.live.line.role(first + at), told })
                        })?;
                        let room = if must { source_tokens.max(FOLD_COST) } else { source_tokens.min(shown) };
                        let written = self.writer.write(&Material::Messages(&sources), room, budget);
                        let parts = SummaryParts { text: String::new(), children, depth: 1, span_ms };
                        written.map(|written| made(parts, written, source_tokens, marks)).transpose()?
                    }
                };
                let fold = summary.map(|summary| self.fold_of(summary, places));
                Ok(self.replace(units, fold, shown, must))
            }
            Step::Condense { units, budget } => {
                let folds: Vec<Fold> = self.entries[units.clone()]
                    .iter()
                    .filter_map(|entry| match &entry.piece {
                        Piece::Fold(fold) => Some(fold.clone()),
                        Piece::Given(..) => None,
                    })
                    .collect();
                let children: Vec<NodeId> = folds.iter().map(|fold| fold.id).collect();
                let depth = folds.iter().map(|fold| fold.summary.depth()).max().unwrap_or(1);
                let places = folds.iter().map(|fold| fold.places.start).min().unwrap_or(0)
                    ..folds.iter().map(|fold| fold.places.end).max().unwrap_or(0);
                let shown: u64 = self.entries[units.clone()].iter().map(|entry| entry.unit.tokens).sum();
                let source_tokens: u64 = folds.iter().map(|fold| fold.summary.source_tokens).sum();
                let spans: Vec<(i64, i64)> = folds.iter().map(|fold| fold.summary.span_ms()).collect();
                let span_ms = (
                    spans.iter().map(|span| span.0).min().unwrap_or(0),
                    spans.iter().map(|span| span.1).max().unwrap_or(0),
                );
                let is_within = folds.iter().all(|fold| assemble::is_within(&fold.summary));
                let marks = if is_within { vec![assemble::WITHIN.to_owned()] } else { Vec::new() };
                let texts: Vec<&str> = folds.iter().map(|fold| fold.summary.text()).collect();
                let written = self.writer.write(&Material::Summaries(&texts, depth), shown, budget);
                let parts = SummaryParts { text: String::new(), children, depth: depth + 1, span_ms };
                let summary = written.map(|written| made(parts, written, source_tokens, marks)).transpose()?;
                let fold = summary.map(|summary| self.fold_of(summary, places));
                Ok(self.replace(units, fold, shown, false))
            }
        }
    }

    fn fold_of(&mut self, summary: Summary, places: Range<usize>) -> Fold {
        let id = canon::message_id(&canon::encode_summary(&summary));
        let fold = Fold { id, summary: Arc::new(summary), places };
        self.live.add_fold(fold.clone());
        fold
    }

    /// Shows a fold instead of units, when it is smaller or must be; else they are left as they are for good.
    fn replace(&mut self, units: Range<usize>, fold: Option<Fold>, shown: u64, must: bool) -> bool {
        let fits = |fold: &Fold| must || u64::from(fold.summary.own_tokens) + FOLD_COST < shown;
        let Some(fold) = fold.filter(fits) else {
            for entry in &mut self.entries[units] {
                match &mut entry.unit.kind {
                    Kind::Said(said) => said.is_pinned = true,
                    // A depth of its own is condensed with nobody.
                    Kind::Fold { depth } => *depth = u16::MAX,
                }
            }
            return false;
        };
        let tokens = u64::from(fold.summary.own_tokens) + FOLD_COST;
        let unit = Unit { places: fold.places.clone(), tokens, kind: Kind::Fold { depth: fold.summary.depth() } };
        self.made.push(fold.summary.clone());
        self.entries.splice(units, [Entry { unit, piece: Piece::Fold(fold) }]);
        true
    }

    /// Shows a message in part.
    fn cut(&mut self, unit: usize, element: usize, budget: u64) -> Result<bool, EngineError> {
        let Fate::Known(place) = self.list.alignment.fates[element] else { return Ok(false) };
        let id = self.live.line.stood[place].forms[0];
        let raw = &self.request.turn.messages[element];
        let json = turn::json(raw)?;
        let told = told(raw)?;
        let text = told.results.first().map_or(told.text.as_str(), String::as_str);
        // About three characters a token, and some for the lines around.
        let chars = usize::try_from(budget.saturating_mul(3)).unwrap_or(usize::MAX);
        let before = u64::from(self.list.elements[element].tokens);
        let cut = Dialect::with_text(&json, &assemble::part(&id, text, chars));
        let Kind::Said(said) = &mut self.entries[unit].unit.kind else { return Ok(false) };
        said.parts.retain(|(part, _)| *part != element);
        let Some(cut) = cut.filter(|_| text.len() > chars) else { return Ok(false) };
        let message = Message::from_json(cut)?;
        let encoded = message.encode()?;
        let after = u64::from(Estimate.count(&encoded.stored(&encoded.body_slices())));
        if after >= before {
            return Ok(false);
        }
        let entry = &mut self.entries[unit];
        entry.unit.tokens = entry.unit.tokens - before + after;
        if let Piece::Given(_, cuts) = &mut entry.piece {
            cuts.push((element, message.json().to_text(), after));
        }
        Ok(true)
    }

    /// The list as it is to be shown, and what it costs.
    fn assemble(&self) -> Result<(Vec<OutMessage>, u64), EngineError> {
        // Folds that stand side by side share a message.
        enum Run<'e> {
            Folds(Vec<&'e Fold>),
            Given(&'e Entry),
        }
        let mut runs: Vec<Run<'_>> = Vec::new();
        for entry in &self.entries {
            let Piece::Fold(fold) = &entry.piece else {
                runs.push(Run::Given(entry));
                continue;
            };
            // Steps of the newest request stand in front of it.
            let is_request = |run: &Run<'_>| matches!(run, Run::Given(entry) if matches!(&entry.unit.kind, Kind::Said(said) if said.is_request));
            let at = match assemble::is_within(&fold.summary) {
                true => runs.iter().rposition(is_request).unwrap_or(runs.len()),
                false => runs.len(),
            };
            match at.checked_sub(1).and_then(|before| runs.get_mut(before)) {
                Some(Run::Folds(folds)) => folds.push(fold),
                _ => runs.insert(at, Run::Folds(vec![fold])),
            }
        }
        let mut messages: Vec<OutMessage> = (0..self.head).map(OutMessage::Given).collect();
        let mut tokens = self.list.elements[..self.head].iter().map(|element| u64::from(element.tokens)).sum::<u64>();
        let mut last_role = None;
        for run in &runs {
            let role = match run {
                Run::Folds(_) => Role::User,
                Run::Given(entry) => match &entry.piece {
                    Piece::Given(range, _) => self.list.elements[range.start].speech.role,
                    Piece::Fold(_) => Role::User,
                },
            };
            let is_ours = matches!(run, Run::Folds(_));
            let before_is_ours =
                matches!(messages.last(), Some(OutMessage::Made(_))) && last_role == Some((Role::User, true));
            if role == Role::User
                && ((is_ours && last_role.is_some_and(|(role, _)| role == Role::User)) || before_is_ours)
            {
                tokens += self.make(&mut messages, "assistant", assemble::BETWEEN)?;
            }
            match run {
                Run::Folds(folds) => {
                    let text = assemble::folds(folds.iter().map(|fold| (&fold.id, &*fold.summary)));
                    tokens += self.make(&mut messages, "user", &text)?;
                    last_role = Some((Role::User, true));
                }
                Run::Given(entry) => {
                    let Piece::Given(range, cuts) = &entry.piece else { continue };
                    for element in range.clone() {
                        match cuts.iter().find(|(cut, _, _)| *cut == element) {
                            Some((_, json, cost)) => {
                                messages.push(OutMessage::Made(json.clone()));
                                tokens += cost;
                            }
                            None => {
                                messages.push(OutMessage::Given(element));
                                tokens += u64::from(self.list.elements[element].tokens);
                            }
                        }
                    }
                    last_role = Some((self.list.elements[range.end - 1].speech.role, false));
                }
            }
        }
        Ok((messages, tokens))
    }

    fn make(&self, messages: &mut Vec<OutMessage>, role: &str, text: &str) -> Result<u64, EngineError> {
        let message = Message::from_json(self.dialect.message(role, text))?;
        let encoded = message.encode()?;
        messages.push(OutMessage::Made(message.json().to_text()));
        Ok(u64::from(Estimate.count(&encoded.stored(&encoded.body_slices()))))
    }

    fn speeches(&self, messages: &[OutMessage]) -> Result<Vec<Speech>, EngineError> {
        let speech = |message: &OutMessage| match message {
            OutMessage::Given(element) => Ok(self.list.elements[*element].speech.clone()),
            OutMessage::Made(json) => {
                let encoded = Message::parse(json)?.encode()?;
                let bodies = encoded.body_slices();
                let stored = encoded.stored(&bodies);
                let tree = stored.tree().map_err(|error| StoreError::DamagedRow {
                    table: "records",
                    key: "of a message that was made just now".to_owned(),
                    why: error.to_string(),
                })?;
                Ok(Speech::of(&tree))
            }
        };
        messages.iter().map(speech).collect()
    }

    /// Keeps the summaries that are shown, and those they stand for, in one commit.
    fn keep(&mut self) -> Result<Option<lcm_core::OpId>, EngineError> {
        let snapshot = self.store.snapshot()?;
        let scope = turn::owner_scope(&self.live.session.owner);
        let mut new = Vec::new();
        for summary in &self.made {
            let id = canon::message_id(&canon::encode_summary(summary));
            if snapshot.places_of(&scope, &id)?.is_empty() {
                new.push((id, summary.clone()));
            }
        }
        drop(snapshot);
        if new.is_empty() {
            return Ok(None);
        }
        let (request, live) = (self.request, &*self.live);
        let (session, timeline) = (live.session.id, live.line.timeline);
        let op = self.store.commit(|commit| {
            for (id, summary) in &new {
                let first = live.fold_by_id(id).and_then(|fold| live.line.stands.get(fold.places.start));
                let Some(first) = first else { continue };
                commit.summary(summary, timeline, &first.order, request.turn.now_ms)?;
            }
            let summaries = u64::try_from(new.len()).unwrap_or(u64::MAX);
            commit.op(session, request.turn.now_ms, &request.turn.by, Change::Stage { summaries }, None)
        })?;
        self.live.wrote(op.id);
        Ok(Some(op.id))
    }
}

/// What a message of the list says.
fn told(raw: &[u8]) -> Result<Told, EngineError> {
    let encoded = Message::parse(raw)?.encode()?;
    let bodies = encoded.body_slices();
    let told = encoded.stored(&bodies).tree().map(|tree| Told::of(&tree)).unwrap_or_default();
    Ok(told)
}

/// A summary that stands for just these messages, written in the same way.
fn known(
    snapshot: &Snapshot,
    records: &[RecordNumber],
    children: &[NodeId],
    version: u32,
    marks: &[String],
) -> Result<Option<Summary>, EngineError> {
    let Some(first) = records.first() else { return Ok(None) };
    let mut buffer = lcm_store::Buffer::default();
    for parent in snapshot.parents(*first)? {
        let summary = snapshot.summary(parent, &mut buffer)?;
        if summary.children() == children && summary.prompt_version == version && summary.marks == marks {
            return Ok(Some(summary));
        }
    }
    Ok(None)
}

fn made(
    parts: SummaryParts,
    written: Written,
    source_tokens: u64,
    mut marks: Vec<String>,
) -> Result<Summary, EngineError> {
    let Written { text, level, model, prompt_version, marks: noticed, mentions } = written;
    let own_tokens = Estimate.count_text(&text);
    let mut summary = Summary::new(SummaryParts { text, ..parts })?;
    marks.extend(noticed);
    marks.sort_unstable();
    (summary.source_tokens, summary.own_tokens, summary.level) = (source_tokens, own_tokens, level);
    (summary.model, summary.prompt_version, summary.marks, summary.mentions) = (model, prompt_version, marks, mentions);
    Ok(summary)
}

/// How the pass may go; tokens, but for counts of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressOptions {
    /// The size above which a list is folded, and under which it is brought.
    pub threshold_tokens: u64,
    /// Messages behind the head that are kept as they are, if their size allows it.
    pub protect_first: usize,
    /// Messages at the end that are kept as they are, if their size allows it.
    pub protect_last: usize,
    /// What the kept end may cost in front of the newest request; `None` for two fifths of the threshold.
    pub tail_tokens_max: Option<u64>,
    /// The text of one summary.
    pub summary_tokens_max: u64,
    /// How long models may take, all together.
    pub summary_time_max: Duration,
    /// Whether the host's provider wants users and assistants to take turns in OpenAI's format too.
    pub alternates: bool,
}

impl Default for CompressOptions {
    fn default() -> Self {
        Self {
            threshold_tokens: 96_000,
            protect_first: 0,
            protect_last: 16,
            tail_tokens_max: None,
            summary_tokens_max: 1500,
            summary_time_max: Duration::from_secs(60),
            alternates: false,
        }
    }
}

#[cfg(test)]
mod tests;
