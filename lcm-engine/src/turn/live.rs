//! What is remembered of a session between turns: its line, and what is known of the texts and folds its host shows.
//!
//! A cache. What another process did to the session since is told by its ops, and then the session is read anew; what
//! others did elsewhere is passed over.
//!
//! Here a host's list becomes one that can be aligned: what reads like something of ours is checked against what it
//! names, and stands for that, or for nothing but itself.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use lcm_core::op::Change;
use lcm_core::view::View;
use lcm_core::{Arrival, IdPrefix, NodeId, OpId, Owner, Summary};
use lcm_store::{
    Branches, Buffer, Commit, OwnerPattern, Owners, Placed, RecordNumber, Scope, Session, Snapshot, Store,
};

use super::element::{Element, Mark, told_of};
use super::line::Line;
use crate::align::{self, Alignment, Shown};
use crate::assemble;
use crate::error::EngineError;
use crate::hosts::told::Told;
use crate::service::TurnRequest;

/// Ops of others since the last turn that are looked through; after more the session is read anew.
const OPS_MAX: usize = 4096;

/// A summary and the places it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) id: NodeId,
    pub(crate) summary: Arc<Summary>,
    pub(crate) places: Range<usize>,
}

/// What an element is, when we made it.
#[derive(Debug)]
pub(crate) enum Ours {
    Folds(Vec<Fold>),
    /// A part of this message.
    Part(NodeId),
    /// The line beside folds.
    Between,
}

/// What is remembered of a session.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) session: Session,
    pub(crate) line: Line,
    /// The newest op that is taken into account.
    op: OpId,
    /// Texts that were read, by their hash.
    elements: HashMap<[u8; 32], Arc<Element>>,
    folds: HashMap<NodeId, Fold>,
    /// Elements that claim to be a part of a message, and the message of which they are.
    parts: HashMap<NodeId, Option<NodeId>>,
    pins: HashSet<Arrival>,
    /// The folds of the view that was published last, when that is known.
    published: Option<Vec<NodeId>>,
}

/// A list, aligned with the session's line.
pub(crate) struct List {
    /// Of each element: what it is, when we made it.
    pub(crate) ours: Vec<Option<Ours>>,
    pub(crate) alignment: Alignment,
}

impl Live {
    /// Reads a session.
    pub(super) fn load(snapshot: &Snapshot, session: Session) -> Result<Self, EngineError> {
        let line = Line::load(snapshot, session.timeline)?;
        let op = snapshot.last_op()?;
        let pins = snapshot.pins(session.id)?.into_iter().collect();
        Ok(Self {
            session,
            line,
            op,
            elements: HashMap::new(),
            folds: HashMap::new(),
            parts: HashMap::new(),
            pins,
            published: None,
        })
    }

    /// Reads the session anew. Texts that were read are the same in any case.
    pub(super) fn reload(self, snapshot: &Snapshot, session: Session) -> Result<Self, EngineError> {
        Ok(Self { elements: self.elements, ..Self::load(snapshot, session)? })
    }

    /// Whether nobody else has changed the session.
    pub(super) fn still_holds(&mut self, snapshot: &Snapshot, session: &Session) -> Result<bool, EngineError> {
        if self.session.timeline != session.timeline || self.line.timeline != session.timeline {
            return Ok(false);
        }
        let newest = snapshot.last_op()?;
        if newest == self.op {
            return Ok(true);
        }
        let ops = snapshot.ops(OpId(self.op.0 + 1), OPS_MAX)?;
        let is_untouched = ops.len() < OPS_MAX && ops.iter().all(|op| op.session != session.id);
        if is_untouched {
            self.op = newest;
        }
        Ok(is_untouched)
    }

    /// The same inside of a commit that has written nothing yet: nobody else can write then.
    pub(super) fn still_holds_in(&mut self, store: &Store, commit: &Commit<'_>) -> Result<bool, EngineError> {
        if commit.last_op() == self.op {
            return Ok(true);
        }
        let snapshot = store.snapshot()?;
        let session = snapshot.session(self.session.id)?;
        self.still_holds(&snapshot, &session)
    }

    /// Writes ops of ours to the session, or nothing when `write` gives none; it is told whether all that is
    /// remembered still holds.
    ///
    /// Ops of ours are taken into account at once. Where somebody else has changed the session before them they are
    /// not, so that it is read anew in the next turn.
    pub(crate) fn commit(
        &mut self,
        store: &Store,
        write: impl FnOnce(&Self, &mut Commit<'_>, bool) -> Result<Option<OpId>, EngineError>,
    ) -> Result<Option<OpId>, EngineError> {
        let (op, holds) = store.commit(|commit| {
            let holds = self.still_holds_in(store, commit)?;
            Ok::<_, EngineError>((write(self, commit, holds)?, holds))
        })?;
        if let Some(op) = op.filter(|_| holds) {
            self.op = op;
        }
        Ok(op)
    }

    /// All ops up to this one are taken into account: those of others were, and this one is ours.
    pub(super) fn took(&mut self, op: OpId) {
        self.op = op;
    }

    /// What was known of a text.
    pub(super) fn known(&self, hash: &[u8; 32]) -> Option<&Arc<Element>> {
        self.elements.get(hash)
    }

    /// Keeps what is known of a list's elements, and lets go of what is long out of it.
    pub(super) fn remember(&mut self, hashes: &[[u8; 32]], elements: &[Arc<Element>]) {
        if self.elements.len() > 4 * elements.len() + 64 {
            self.elements.clear();
            self.parts.clear();
        }
        self.elements.extend(hashes.iter().copied().zip(elements.iter().cloned()));
    }

    /// Ids that are held, as a weight.
    pub(crate) fn weight(&self) -> usize {
        self.line.len() + self.elements.len()
    }

    /// Whether a place is never folded.
    pub(crate) fn is_pinned(&self, place: usize) -> bool {
        self.line.stands.get(place).is_some_and(|stand| self.pins.contains(&stand.arrival))
    }

    /// A fold that was met or made.
    pub(crate) fn fold_by_id(&self, id: &NodeId) -> Option<&Fold> {
        self.folds.get(id)
    }

    /// A summary that was made now.
    pub(crate) fn add_fold(&mut self, fold: Fold) {
        self.folds.insert(fold.id, fold);
    }

    /// Aligns a list with the line.
    pub(crate) fn align(
        &mut self,
        snapshot: &Snapshot,
        request: &TurnRequest,
        elements: &[Arc<Element>],
    ) -> Result<List, EngineError> {
        let ours = self.ours(snapshot, elements)?;
        let shown: Vec<Shown> =
            elements.iter().zip(&ours).map(|(element, ours)| shown(element, ours.as_ref())).collect();
        let forms = Forms { snapshot, line: &self.line, request, texts: RefCell::default() };
        let alignment = align::align(&self.line.stood, &shown, |element, place| forms.reads_like(element, place));
        Ok(List { ours, alignment })
    }

    /// Which elements are ours, and what they stand for.
    fn ours(&mut self, snapshot: &Snapshot, elements: &[Arc<Element>]) -> Result<Vec<Option<Ours>>, EngineError> {
        let mut all = Vec::with_capacity(elements.len());
        for element in elements {
            all.push(match &element.mark {
                None | Some(Mark::Between) => None,
                Some(Mark::Part { of, text }) => self.whole_of(snapshot, element, of, text)?.map(Ours::Part),
                Some(Mark::Folds { named, text }) => self.folds_of(snapshot, named, text)?.map(Ours::Folds),
            });
        }
        for (at, element) in elements.iter().enumerate() {
            if matches!(element.mark, Some(Mark::Between)) && is_beside(&all, at, |ours| matches!(ours, Ours::Folds(_)))
            {
                all[at] = Some(Ours::Between);
            }
        }
        Ok(all)
    }

    /// The message of this line of which an element shows a part.
    fn whole_of(
        &mut self,
        snapshot: &Snapshot,
        element: &Element,
        of: &IdPrefix,
        text: &str,
    ) -> Result<Option<NodeId>, EngineError> {
        if let Some(known) = self.parts.get(&element.id) {
            return Ok(*known);
        }
        let mut whole = None;
        for (stood, stand) in self.line.stood.iter().zip(&self.line.stands) {
            if let Some(id) = stood.forms.first().filter(|id| of.matches(id) && stood.signs == element.signs) {
                let told = told_at(snapshot, stand.record)?;
                whole = assemble::is_part(text, id, told.main_text()).then_some(*id);
                break;
            }
        }
        self.parts.insert(element.id, whole);
        Ok(whole)
    }

    /// The folds of this line that a text shows.
    fn folds_of(
        &mut self,
        snapshot: &Snapshot,
        named: &[IdPrefix],
        text: &str,
    ) -> Result<Option<Vec<Fold>>, EngineError> {
        let mut folds = Vec::with_capacity(named.len());
        for prefix in named {
            let Some(fold) = self.fold(snapshot, prefix)? else { return Ok(None) };
            folds.push(fold);
        }
        // The exact text: what a host changed in it is a message of the host's.
        let is_exact = assemble::folds(folds.iter().map(|fold| (&fold.id, &*fold.summary))) == text;
        Ok(is_exact.then_some(folds))
    }

    /// A summary of this line by the beginning of its id.
    fn fold(&mut self, snapshot: &Snapshot, prefix: &IdPrefix) -> Result<Option<Fold>, EngineError> {
        if let Some(known) = self.folds.values().find(|fold| prefix.matches(&fold.id)) {
            return Ok(Some(known.clone()));
        }
        let scope = owner_scope(&self.session.owner);
        let found = snapshot.find_nodes(&scope, prefix, 2)?;
        let [(id, placed)] = found.as_slice() else { return Ok(None) };
        if placed.summary.is_none() {
            return Ok(None);
        }
        let Some(fold) = fold_at(snapshot, &scope, &self.line, *id, placed)? else { return Ok(None) };
        self.folds.insert(*id, fold.clone());
        Ok(Some(fold))
    }

    /// Lets the view of the session be what the list shows, when that is another one: the host has taken a fold, in
    /// this process or another, now or days ago. A list without folds is no evidence against any.
    pub(super) fn publish(
        &mut self,
        store: &Store,
        request: &TurnRequest,
        elements: &[Arc<Element>],
    ) -> Result<bool, EngineError> {
        if elements.iter().all(|element| element.mark.is_none()) {
            return Ok(false);
        }
        let snapshot = store.snapshot()?;
        let ours = self.ours(&snapshot, elements)?;
        let folds: Vec<&Fold> = ours.iter().flatten().flat_map(Ours::folds).collect();
        let ids: Vec<NodeId> = folds.iter().map(|fold| fold.id).collect();
        if folds.is_empty() || self.published.as_ref() == Some(&ids) {
            return Ok(false);
        }
        let before = snapshot.view(self.session.id, OpId(u64::MAX))?;
        drop(snapshot);
        let Some(view) = view_of(&self.line, &folds) else { return Ok(false) };
        if before.as_ref() == Some(&view) {
            self.published = Some(ids);
            return Ok(false);
        }
        let known: HashSet<NodeId> = before.iter().flat_map(View::summaries).collect();
        let new: Vec<NodeId> = view.summaries().filter(|summary| !known.contains(summary)).collect();
        let last = self.commit(store, |live, commit, holds| {
            let mut last = None;
            // Where somebody else has changed the session, the list is compared with what it is now in the next turn.
            for (nth, summary) in new.iter().enumerate().filter(|_| holds) {
                let view = (nth + 1 == new.len()).then_some(&view);
                let change = Change::Fold { summary: *summary };
                last = Some(commit.op(live.session.id, request.now_ms, &request.by, change, view)?.id);
            }
            Ok(last)
        })?;
        self.published = last.map(|_| ids);
        Ok(last.is_some())
    }
}

impl Ours {
    /// The folds that are shown.
    pub(crate) fn folds(&self) -> &[Fold] {
        match self {
            Self::Folds(folds) => folds,
            Self::Part(_) | Self::Between => &[],
        }
    }
}

/// Whether something stands directly in front of a place of a list, or directly behind it.
pub(super) fn is_beside<T>(list: &[Option<T>], at: usize, is_it: impl Fn(&T) -> bool) -> bool {
    let neighbours = [at.checked_sub(1), Some(at + 1)];
    neighbours.into_iter().flatten().filter_map(|at| list.get(at)?.as_ref()).any(is_it)
}

/// An element as it is aligned.
fn shown(element: &Element, ours: Option<&Ours>) -> Shown {
    let (id, folds) = match ours {
        None => (element.id, None),
        Some(Ours::Part(whole)) => (*whole, None),
        Some(Ours::Between) => (element.id, Some(Vec::new())),
        Some(Ours::Folds(folds)) => {
            // Steps of the present request stand in front of it, so their places are no sign of where we are.
            let runs = folds.iter().filter(|fold| !assemble::is_within(&fold.summary));
            (element.id, Some(runs.map(|fold| fold.places.clone()).collect()))
        }
    };
    Shown { id, signs: element.signs.clone(), folds }
}

/// A summary with the places of a line it stands for; `None` where the line does not have them.
fn fold_at(
    snapshot: &Snapshot,
    scope: &Scope,
    line: &Line,
    id: NodeId,
    placed: &Placed,
) -> Result<Option<Fold>, EngineError> {
    let summary = snapshot.summary(placed.record, &mut Buffer::default())?;
    let (mut low, mut high) = (usize::MAX, 0);
    let mut open = vec![placed.record];
    let mut seen = HashSet::new();
    while let Some(record) = open.pop() {
        // What is reached twice gives nothing new; and a damaged link must not lead in a circle.
        if !seen.insert(record) {
            continue;
        }
        for child in snapshot.child_places(scope, record)? {
            if child.summary.is_some() {
                open.push(child.record);
            } else if let Some(at) = line.position(child.arrival) {
                low = low.min(at);
                high = high.max(at + 1);
            }
        }
    }
    Ok((low < high).then(|| Fold { id, summary: Arc::new(summary), places: low..high }))
}

/// The view that shows these folds of a line, and the rest as it was said; `None` where they do not lie side by side.
fn view_of(line: &Line, folds: &[&Fold]) -> Option<View> {
    let mut view = View::raw(line.stands.first()?.order.clone());
    for fold in folds {
        let first = &line.stands.get(fold.places.start)?.order;
        let next = &line.stands.get(fold.places.end)?.order;
        view = view.fold(first, next, fold.id).ok()?;
    }
    Some(view)
}

/// All that one owner may read.
pub(crate) fn owner_scope(owner: &Owner) -> Scope {
    let pattern = OwnerPattern { agent: Some(owner.agent.clone()), person: Some(owner.person.clone()) };
    Scope { owners: Owners::Matching(vec![pattern]), sessions: Vec::new(), branches: Branches::All }
}

/// What a message that is kept says.
fn told_at(snapshot: &Snapshot, record: RecordNumber) -> Result<Told, EngineError> {
    let mut buffer = Buffer::default();
    snapshot.read(record, &mut buffer)?;
    // What cannot be taken apart says nothing.
    Ok(buffer.with_message(|message| message.tree().map(|tree| Told::of(&tree))).unwrap_or_default())
}

/// An element of a list by its index, or else a place of a line.
type Which = Result<usize, usize>;

/// Compares texts of elements with texts of places, each read once.
struct Forms<'a> {
    snapshot: &'a Snapshot,
    line: &'a Line,
    request: &'a TurnRequest,
    texts: RefCell<HashMap<Which, Option<Rc<str>>>>,
}

impl Forms<'_> {
    /// Whether an element is what stands at a place, cut, cleared or annotated.
    fn reads_like(&self, element: usize, place: usize) -> bool {
        let (new, old) = (self.text(Ok(element)), self.text(Err(place)));
        let (Some(new), Some(old)) = (new, old) else { return false };
        let (short, long) = if new.len() < old.len() { (&new, &old) } else { (&old, &new) };
        // A word that happens to begin both is no sign.
        short.len() >= 8 && short.len() * 20 >= long.len() && (long.starts_with(&**short) || long.ends_with(&**short))
    }

    /// The text of an element, or else of what stands at a place; `None` where it cannot be read.
    fn text(&self, what: Which) -> Option<Rc<str>> {
        if let Some(known) = self.texts.borrow().get(&what) {
            return known.clone();
        }
        let told = match what {
            Ok(element) => told_of(&self.request.messages[element]),
            Err(place) => told_at(self.snapshot, self.line.stands[place].record),
        };
        let text = told.ok().map(|told| if told.results.is_empty() { told.text } else { told.results.join("\n") });
        let text: Option<Rc<str>> = text.map(Rc::from);
        self.texts.borrow_mut().insert(what, text.clone());
        text
    }
}
