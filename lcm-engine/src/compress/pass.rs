//! One pass over a list: units, plans at rising pressure, the steps of each carried out.
//!
//! A step that wins nothing leaves its units as they are for good, so every pass ends.

use std::ops::Range;
use std::sync::Arc;

use lcm_core::node::SummaryParts;
use lcm_core::op::Change;
use lcm_core::tokens::{Estimate, TokenCounter};
use lcm_core::{Message, NodeId, OpId, Summary, canon};
use lcm_store::{Buffer, RecordNumber, Snapshot, Store, StoreError};

use super::extract::Source;
use super::plan::{self, Kind, Limits, PRESSURE_MAX, Said, Step, Unit};
use super::summary::{Cost, Material, Writer, Written};
use super::{atoms, cost_of};
use crate::align::Fate;
use crate::assemble;
use crate::error::EngineError;
use crate::find::unreadable;
use crate::hosts::IncomingMessage;
use crate::hosts::speech::{Dialect, Speech};
use crate::hosts::told::Told;
use crate::service::{OutMessage, TurnRequest};
use crate::turn::{self, Element, Fold, Line, List, Live, Ours, Sent};

/// What stands around folds: the message that holds them, and the line between it and a user's.
const AROUND_COST: u64 = 40;
/// Rounds at one pressure; each folds something, so this is never reached by a list of sane length.
const ROUNDS_MAX: usize = 64;

/// A unit, and what is shown of it.
pub(crate) struct Entry {
    pub(super) unit: Unit,
    pub(super) piece: Piece,
}

/// What is shown of one unit.
pub(crate) enum Piece {
    /// Elements of the list, as they were given, but for those that are shown in part.
    Given(Range<usize>, Vec<Part>),
    Fold(Fold),
}

/// An element that is shown in part.
pub(crate) struct Part {
    pub(super) element: usize,
    pub(super) json: Vec<u8>,
    pub(super) tokens: u64,
}

/// One pass over a list.
pub(crate) struct Pass<'a> {
    snapshot: &'a Snapshot,
    request: &'a TurnRequest,
    pub(super) elements: &'a [Arc<Element>],
    pub(super) live: &'a mut Live,
    list: List,
    pub(super) dialect: Dialect,
    pub(super) limits: Limits,
    pub(super) entries: Vec<Entry>,
    /// Elements at the head: system messages.
    pub(super) head: usize,
    pub(super) writer: Writer<'a>,
    /// Summaries that are shown, or were before others stood for them.
    made: Vec<(NodeId, Arc<Summary>)>,
}

impl<'a> Pass<'a> {
    /// Begins a pass; `None` where the list shows messages in another order than they were said.
    #[expect(clippy::too_many_arguments, reason = "everything that a pass depends on, each once")]
    pub(crate) fn new(
        snapshot: &'a Snapshot,
        request: &'a TurnRequest,
        elements: &'a [Arc<Element>],
        live: &'a mut Live,
        list: List,
        dialect: Dialect,
        limits: Limits,
        writer: Writer<'a>,
    ) -> Option<Self> {
        let head = turn::head_of(elements);
        let entries = entries(elements, head, &list, live, limits.fold_cost)?;
        let mut pass =
            Self { snapshot, request, elements, live, list, dialect, limits, entries, head, writer, made: Vec::new() };
        pass.put_in_order();
        pass.is_rising().then_some(pass)
    }

    /// Lets the steps of a request that is not the newest any more stand behind it, as they came.
    fn put_in_order(&mut self) {
        let newest = self.entries.iter().rfind(|entry| entry.unit.is_request()).map(|entry| entry.unit.places.start);
        let is_over = |entry: &Entry| entry.is_within() && newest.is_none_or(|newest| entry.unit.places.start < newest);
        let (over, rest): (Vec<Entry>, Vec<Entry>) = std::mem::take(&mut self.entries).into_iter().partition(is_over);
        self.entries = rest;
        for fold in over.iter().filter_map(Entry::fold) {
            let mut summary = (*fold.summary).clone();
            summary.marks.retain(|mark| mark != assemble::WITHIN);
            let fold = self.fold_of(summary, fold.runs.clone());
            let start = fold.places().start;
            let before = self.entries.iter().rposition(|entry| !entry.is_within() && entry.unit.places.start < start);
            self.made.push((fold.id, fold.summary.clone()));
            self.entries.insert(before.map_or(0, |at| at + 1), Entry::of_fold(fold, self.limits.fold_cost));
        }
    }

    /// Whether places rise, but for steps of the newest request, which stand in front of it.
    fn is_rising(&self) -> bool {
        let places = self.entries.iter().filter(|entry| !entry.is_within()).map(|entry| &entry.unit.places);
        places.clone().zip(places.skip(1)).all(|(one, next)| one.end <= next.start)
    }

    /// Folds until the target is reached or nothing more can be won; gives the list and what it costs.
    pub(super) fn run(&mut self, target: u64) -> Result<(Vec<OutMessage>, u64), EngineError> {
        let beside = cost_of(&self.elements[..self.head]) + AROUND_COST;
        let mut pressure = plan::first_pressure(&self.units(), &self.limits, beside);
        loop {
            for _ in 0..ROUNDS_MAX {
                let units = self.units();
                let mut steps = plan::plan(&units, &self.limits, pressure);
                plan::share(&units, &self.limits, pressure, beside, &mut steps);
                let mut has_changed = false;
                // From the end, so that the numbers of those before stay.
                for step in steps.into_iter().rev() {
                    has_changed |= self.carry_out(step)?;
                }
                if !has_changed {
                    break;
                }
            }
            for _ in 0..ROUNDS_MAX {
                let Some(step) = plan::condense(&self.units(), &self.limits, pressure) else { break };
                if (pressure >= 2 && self.total() <= target) || !self.carry_out(step)? {
                    break;
                }
            }
            // Costs of units are estimates; the list is counted.
            let shaped = self.shape()?;
            if shaped.1 <= target || pressure >= PRESSURE_MAX {
                return Ok(shaped);
            }
            pressure += 1;
        }
    }

    /// Writes the summaries of whole chunks, whose limits do not move any more: what came since is behind them. Gives how
    /// many.
    pub(super) fn prepare(&mut self) -> Result<u64, EngineError> {
        let beside = cost_of(&self.elements[..self.head]) + AROUND_COST;
        let units = self.units();
        let mut steps = plan::plan(&units, &self.limits, 0);
        plan::share(&units, &self.limits, 0, beside, &mut steps);
        let starts: Vec<usize> = steps.iter().filter_map(Step::leaf).map(|units| units.start).collect();
        let is_whole = |step: &Step| step.leaf().is_some_and(|units| starts.contains(&units.end));
        let mut count = 0;
        // From the end, so that the numbers of those before stay.
        for step in steps.into_iter().filter(is_whole).collect::<Vec<_>>().into_iter().rev() {
            if self.writer.is_cancelled() {
                break;
            }
            count += u64::from(self.carry_out(step)?);
        }
        Ok(count)
    }

    /// The session's line.
    pub(crate) fn line(&self) -> &Line {
        &self.live.line
    }

    /// Whether anything is shown otherwise than it was given.
    pub(crate) fn has_changed(&self) -> bool {
        let is_cut = |entry: &Entry| matches!(&entry.piece, Piece::Given(_, parts) if !parts.is_empty());
        !self.made.is_empty() || self.entries.iter().any(is_cut)
    }

    /// The folds that are shown, in order.
    pub(crate) fn folds(&self) -> impl Iterator<Item = &Fold> {
        self.entries.iter().filter_map(Entry::fold)
    }

    /// Writes down what models cost, where no summary is kept; `None` where none was asked.
    pub(super) fn keep_cost(&mut self, store: &Store) -> Result<Option<OpId>, EngineError> {
        self.made.clear();
        self.keep(store)
    }

    /// Keeps the summaries that are shown, and those they stand for, and what models cost, in one commit.
    pub(crate) fn keep(&mut self, store: &Store) -> Result<Option<OpId>, EngineError> {
        let snapshot = store.snapshot()?;
        let scope = turn::owner_scope(&self.live.session.owner);
        let mut new = Vec::new();
        for (id, summary) in &self.made {
            let first = self.live.fold_by_id(id).and_then(|fold| self.live.line.stands.get(fold.places().start));
            if let Some(first) = first
                && snapshot.places_of(&scope, id)?.is_empty()
            {
                new.push((summary.clone(), first.order.clone()));
            }
        }
        drop(snapshot);
        let (request, Cost { calls, tokens }) = (self.request, self.writer.cost);
        if new.is_empty() && calls == 0 {
            return Ok(None);
        }
        let writer = &self.writer;
        self.live.commit(store, |live, commit, _| {
            // A late worker whose caller gave up changes nothing; the lock may have taken the time.
            if writer.is_cancelled() {
                return Err(StoreError::GivenUp.into());
            }
            for (summary, order) in &new {
                commit.stage(summary, live.line.timeline, order, request.now_ms)?;
            }
            let summaries = u64::try_from(new.len()).unwrap_or(u64::MAX);
            let change = Change::Stage { summaries, calls, tokens };
            Ok(Some(commit.op(live.session.id, request.now_ms, &request.by, change, None)?.id))
        })
    }

    pub(super) fn units(&self) -> Vec<Unit> {
        self.entries.iter().map(|entry| entry.unit.clone()).collect()
    }

    /// What units cost as they are shown.
    fn shown(&self, units: &Range<usize>) -> u64 {
        self.entries[units.clone()].iter().map(|entry| entry.unit.tokens).sum()
    }

    /// What the list costs as it is now, about; it is counted when it is shaped.
    fn total(&self) -> u64 {
        let around = if self.folds().next().is_some() { AROUND_COST } else { 0 };
        cost_of(&self.elements[..self.head]) + around + self.shown(&(0..self.entries.len()))
    }

    /// Carries a step out; whether it changed anything.
    pub(super) fn carry_out(&mut self, step: Step) -> Result<bool, EngineError> {
        match step {
            Step::Part { unit, message, budget } => self.cut(unit, message, budget),
            Step::Leaf { units, budget, is_within } => self.leaf(units, budget, is_within),
            Step::Condense { units, budget } => self.condense(units, budget),
        }
    }

    /// Folds messages into a summary.
    fn leaf(&mut self, units: Range<usize>, budget: u64, is_within: bool) -> Result<bool, EngineError> {
        let entries = &self.entries[units.clone()];
        let places = entries[0].unit.places.start..entries[entries.len() - 1].unit.places.end;
        let must = entries.iter().any(|entry| matches!(&entry.unit.kind, Kind::Said(said) if !said.is_sound));
        let stands = &self.live.line.stands[places.clone()];
        let children: Vec<NodeId> = self.live.line.stood[places.clone()].iter().map(|stood| stood.forms[0]).collect();
        let records: Vec<RecordNumber> = stands.iter().map(|stand| stand.record).collect();
        let source_tokens: u64 = stands.iter().map(|stand| u64::from(stand.tokens)).sum();
        let span_ms = span(stands.iter().map(|stand| (stand.seen_ms, stand.seen_ms)));
        let from = stands.first().map(|stand| assemble::from_mark(stand.arrival));
        let marks = from.into_iter().chain(is_within.then(|| assemble::WITHIN.to_owned())).collect();
        let shown = self.shown(&units);
        let room = if must { source_tokens.max(self.limits.fold_cost) } else { source_tokens.min(shown) };
        let making = Making { children, depth: 1, span_ms, source_tokens, marks };
        let summary = match self.known(records.first().copied(), &making, room, budget)? {
            Some(known) => Some(known),
            None => {
                let first = places.start;
                let sources = self.snapshot.read_each(&records, |at, buffer| {
                    let told = buffer.with_message(|message| Ok(Told::of(&message.tree()?)));
                    let arrival = self.live.line.stands[first + at].arrival;
                    let told = told.map_err(|error| unreadable(arrival, error))?;
                    Ok::<_, EngineError>(Source { role: self.live.line.role(first + at), told })
                })?;
                let written = self.writer.write(&Material::Messages(&sources), room, budget);
                written.map(|written| making.summary(written)).transpose()?
            }
        };
        let fold = summary.map(|summary| self.fold_of(summary, vec![places]));
        Ok(self.replace(units, fold, shown, must))
    }

    /// Folds summaries into one.
    fn condense(&mut self, units: Range<usize>, budget: u64) -> Result<bool, EngineError> {
        let folds: Vec<Fold> = self.entries[units.clone()].iter().filter_map(Entry::fold).cloned().collect();
        let Some(first) = folds.first() else { return Ok(false) };
        let depth = first.summary.depth();
        let runs: Vec<Range<usize>> = folds.iter().flat_map(|fold| fold.runs.iter().cloned()).collect();
        let is_within = assemble::is_within(&first.summary);
        let making = Making {
            children: folds.iter().map(|fold| fold.id).collect(),
            depth: depth + 1,
            span_ms: span(folds.iter().map(|fold| fold.summary.span_ms())),
            source_tokens: folds.iter().map(|fold| fold.summary.source_tokens).sum(),
            marks: is_within.then(|| assemble::WITHIN.to_owned()).into_iter().collect(),
        };
        let shown = self.shown(&units);
        let scope = turn::owner_scope(&self.live.session.owner);
        // What was made in this pass has no place yet, and nothing stands for it.
        let record = self.snapshot.places_of(&scope, &first.id)?.first().map(|placed| placed.record);
        let summary = match self.known(record, &making, shown, budget)? {
            Some(known) => Some(known),
            None => {
                let texts: Vec<&str> = folds.iter().map(|fold| fold.summary.text()).collect();
                let written = self.writer.write(&Material::Summaries(&texts, depth), shown, budget);
                written.map(|written| making.summary(written)).transpose()?
            }
        };
        let fold = summary.map(|summary| self.fold_of(summary, runs));
        Ok(self.replace(units, fold, shown, false))
    }

    /// A summary of just this that is such as would be written now, the one that says most; `first` is its first child.
    fn known(
        &self,
        first: Option<RecordNumber>,
        making: &Making,
        room: u64,
        budget: u64,
    ) -> Result<Option<Summary>, EngineError> {
        let Some(first) = first else { return Ok(None) };
        let mut buffer = Buffer::default();
        let mut best: Option<Summary> = None;
        for parent in self.snapshot.parents(first)? {
            let summary = self.snapshot.summary(parent, &mut buffer)?;
            if making.is_of(&summary)
                && self.writer.would_write(&summary, room, budget)
                && best.as_ref().is_none_or(|best| best.own_tokens < summary.own_tokens)
            {
                best = Some(summary);
            }
        }
        Ok(best)
    }

    fn fold_of(&mut self, summary: Summary, runs: Vec<Range<usize>>) -> Fold {
        let id = canon::message_id(&canon::encode_summary(&summary));
        let fold = Fold { id, summary: Arc::new(summary), runs };
        self.live.add_fold(fold.clone());
        fold
    }

    /// Shows a fold instead of units, when it is smaller or must be; else they are left as they are for good.
    fn replace(&mut self, units: Range<usize>, fold: Option<Fold>, shown: u64, must: bool) -> bool {
        let cost = self.limits.fold_cost;
        let fits = |fold: &Fold| must || u64::from(fold.summary.own_tokens) + cost < shown;
        let Some(fold) = fold.filter(fits) else {
            for entry in &mut self.entries[units] {
                match &mut entry.unit.kind {
                    Kind::Said(said) => said.is_pinned = true,
                    Kind::Fold { depth, .. } => *depth = None,
                }
            }
            return false;
        };
        self.made.push((fold.id, fold.summary.clone()));
        self.entries.splice(units, [Entry::of_fold(fold, cost)]);
        true
    }

    /// Shows a message in part.
    fn cut(&mut self, unit: usize, element: usize, budget: u64) -> Result<bool, EngineError> {
        let Kind::Said(said) = &mut self.entries[unit].unit.kind else { return Ok(false) };
        said.parts.retain(|(part, _)| *part != element);
        let Fate::Known(place) = self.list.alignment.fates[element] else { return Ok(false) };
        let id = self.elements[element].id;
        // The handle gives the first form.
        if self.live.line.stood[place].forms[0] != id {
            return Ok(false);
        }
        let sent = Sent::of(self.request, self.writer.redactor);
        let told = sent.told(element)?;
        // About three characters a token, and some for the lines around.
        let chars = usize::try_from(budget.saturating_mul(3)).unwrap_or(usize::MAX);
        let Some(part) = assemble::part(&id, told.main_text(), chars) else { return Ok(false) };
        let Some(cut) = Dialect::with_text(sent.message(element)?.json(), &part) else { return Ok(false) };
        let message = Message::from_json(turn::sendable(&cut).unwrap_or(cut))?;
        let before = u64::from(self.elements[element].tokens);
        let after = u64::from(IncomingMessage::new(&message)?.tokens);
        if after >= before {
            return Ok(false);
        }
        let entry = &mut self.entries[unit];
        entry.unit.tokens = entry.unit.tokens - before + after;
        if let Piece::Given(_, parts) = &mut entry.piece {
            parts.push(Part { element, json: message.json().to_text(), tokens: after });
        }
        Ok(true)
    }
}

impl Entry {
    /// `cost` is that of the lines around its text.
    fn of_fold(fold: Fold, cost: u64) -> Self {
        let tokens = u64::from(fold.summary.own_tokens) + cost;
        let kind = Kind::Fold { depth: Some(fold.summary.depth()), is_within: assemble::is_within(&fold.summary) };
        Self { unit: Unit { places: fold.places(), tokens, kind }, piece: Piece::Fold(fold) }
    }

    fn is_within(&self) -> bool {
        matches!(self.unit.kind, Kind::Fold { is_within: true, .. })
    }

    pub(super) fn fold(&self) -> Option<&Fold> {
        match &self.piece {
            Piece::Fold(fold) => Some(fold),
            Piece::Given(..) => None,
        }
    }
}

/// Divides a list behind its head into units; `None` where an element has no place.
fn entries(elements: &[Arc<Element>], head: usize, list: &List, live: &Live, fold_cost: u64) -> Option<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let is_folds = |at: usize| matches!(list.ours[at], Some(Ours::Folds(_) | Ours::Recall | Ours::Between));
    let mut at = head;
    while at < elements.len() {
        if is_folds(at) {
            let folds = list.ours[at].iter().flat_map(Ours::folds);
            entries.extend(folds.map(|fold| Entry::of_fold(fold.clone(), fold_cost)));
            at += 1;
            continue;
        }
        let end = (at..elements.len()).find(|at| is_folds(*at)).unwrap_or(elements.len());
        let speeches: Vec<Speech> = elements[at..end].iter().map(|element| element.speech.clone()).collect();
        for atom in atoms::atoms(&speeches) {
            let range = at + atom.range.start..at + atom.range.end;
            let (mut first, mut end_place) = (usize::MAX, 0);
            let mut is_new = false;
            for element in range.clone() {
                let place = match list.alignment.fates[element] {
                    Fate::Known(place) | Fate::Revised(place) => place,
                    // A list that was not taken in: what is new in it will stand behind all.
                    Fate::New => {
                        is_new = true;
                        live.line.len() + element
                    }
                    Fate::Ours | Fate::Late(_) => return None,
                };
                (first, end_place) = (first.min(place), end_place.max(place + 1));
            }
            let places = first..end_place;
            let is_open = atom.is_open && end == elements.len();
            let parts = range
                .clone()
                .filter(|element| list.ours[*element].is_none())
                .map(|element| (element, u64::from(elements[element].tokens)))
                .collect();
            let said = Said {
                is_sound: atom.is_sound && (is_open || !atom.is_open),
                is_open,
                is_request: elements[range.start].speech.is_request(),
                is_pinned: is_new || places.clone().any(|place| live.is_pinned(place)),
                parts,
            };
            let unit = Unit { places, tokens: cost_of(&elements[range.clone()]), kind: Kind::Said(said) };
            entries.push(Entry { unit, piece: Piece::Given(range, Vec::new()) });
        }
        at = end;
    }
    Some(entries)
}

/// A summary without its text.
struct Making {
    children: Vec<NodeId>,
    depth: u16,
    span_ms: (i64, i64),
    source_tokens: u64,
    marks: Vec<String>,
}

impl Making {
    /// Whether a summary is one of just this.
    fn is_of(&self, summary: &Summary) -> bool {
        summary.depth() == self.depth && summary.children() == self.children && summary.marks == self.marks
    }

    fn summary(self, written: Written) -> Result<Summary, EngineError> {
        let Self { children, depth, span_ms, source_tokens, marks } = self;
        let Written { text, level, model, prompt_version, mentions } = written;
        let own_tokens = Estimate.count_text(&text);
        let mut summary = Summary::new(SummaryParts { text, children, depth, span_ms })?;
        (summary.source_tokens, summary.own_tokens, summary.level) = (source_tokens, own_tokens, level);
        (summary.model, summary.prompt_version) = (model, prompt_version);
        (summary.marks, summary.mentions) = (marks, mentions);
        Ok(summary)
    }
}

/// From the first moment to the last; zero without any.
fn span(spans: impl Iterator<Item = (i64, i64)>) -> (i64, i64) {
    spans.reduce(|all, span| (all.0.min(span.0), all.1.max(span.1))).unwrap_or((0, 0))
}
