//! What is remembered of a session between turns: its line, and what is known of the texts and folds its host shows.
//!
//! A cache. What another process did to the session since is told by its ops, and then the session is read anew; what
//! others did elsewhere is passed over.
//!
//! Here a host's list becomes one that can be aligned: what reads like something of ours is checked against what it
//! names, and stands for that, or for nothing but itself.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::sync::Arc;

use lcm_core::op::Change;
use lcm_core::view::View;
use lcm_core::{Arrival, IdPrefix, NodeId, OpId, Owner, Summary};
use lcm_store::{
    Branches, Buffer, Commit, OwnerPattern, Owners, Placed, RecordNumber, Scope, Session, Snapshot, Store,
};

use super::element::{Element, Mark, Sent, head_of};
use super::forms::Forms;
use super::line::Line;
use crate::align::{self, Alignment, Fate, Shown, Stood};
use crate::assemble;
use crate::assemble::recall::{Claim, Original};
use crate::error::EngineError;
use crate::find::Entries;
use crate::hosts::told::Told;
use crate::hosts::{Alike, HostFormat};
use crate::service::TurnRequest;

/// Ops of others since the last turn that are looked through; after more the session is read anew.
const OPS_MAX: usize = 4096;

/// A summary and the places of a line it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) id: NodeId,
    pub(crate) summary: Arc<Summary>,
    /// Rising, at least one. What came late between two messages that were folded lies between two runs.
    pub(crate) runs: Vec<Range<usize>>,
}

impl Fold {
    /// From the first place to the last.
    pub(crate) fn places(&self) -> Range<usize> {
        let (first, last) = (self.runs.first(), self.runs.last());
        first.map_or(0, |run| run.start)..last.map_or(0, |run| run.end)
    }
}

/// What an element is, when we made it.
#[derive(Debug)]
pub(crate) enum Ours {
    Folds(Vec<Fold>),
    /// A part of this message.
    Part(NodeId),
    /// Originals that were recalled into one request.
    Recall,
    /// The line beside folds and what was recalled.
    Between,
}

/// Hashes keys that are hashes already: takes their first eight bytes.
#[derive(Debug, Default)]
struct HashHasher(u64);

impl Hasher for HashHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 ^= u64::from_le_bytes(*first);
        }
    }

    /// The length in front of an array, which is the same for all.
    fn write_usize(&mut self, _: usize) {}
}

/// What is remembered of a session.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) session: Session,
    pub(crate) line: Line,
    /// The newest op that is taken into account.
    op: OpId,
    /// Texts that were read, by their hash.
    elements: HashMap<[u8; 32], Arc<Element>, BuildHasherDefault<HashHasher>>,
    folds: HashMap<NodeId, Fold>,
    /// Elements that claim to be a part of a message, and the message of which they are.
    parts: HashMap<NodeId, Option<NodeId>>,
    /// Elements that claim to recall originals, and whether they do.
    recalls: HashMap<NodeId, bool>,
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
        let line = Line::load(snapshot, session.timeline, HostFormat::of(&session.source))?;
        let op = snapshot.last_op()?;
        let pins = snapshot.pins(session.id)?.into_iter().collect();
        Ok(Self {
            session,
            line,
            op,
            elements: HashMap::default(),
            folds: HashMap::new(),
            parts: HashMap::new(),
            recalls: HashMap::new(),
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
            self.recalls.clear();
        }
        for (hash, element) in hashes.iter().zip(elements) {
            self.elements.entry(*hash).or_insert_with(|| element.clone());
        }
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
        sent: Sent<'_>,
        elements: &[Arc<Element>],
    ) -> Result<List, EngineError> {
        let head = head_of(elements);
        let mut ours = self.ours(snapshot, elements)?;
        let forms = Forms::new(snapshot, &self.line, sent);
        loop {
            let shown: Vec<Shown> =
                elements.iter().zip(&ours).map(|(element, ours)| shown(element, ours.as_ref())).collect();
            let mut alignment =
                align::align(&self.line.stood, &shown, |element, place| forms.reads_like(element, place));
            // Readers are given the first form of a message, so a later one that says more is a message of its own.
            match sent.format.alike {
                Alike::Known => {
                    for (element, fate) in alignment.fates.iter_mut().enumerate() {
                        if let Fate::Revised(place) = *fate
                            && forms.says_more(element, place)
                        {
                            *fate = Fate::Late(Some(place));
                        }
                    }
                }
                Alike::Revised => self.revise_what_is_alike(&shown, &mut alignment.fates, &forms),
            }
            // What stands where it does not belong is what somebody said.
            for (ours, fate) in ours.iter_mut().zip(&alignment.fates) {
                let is_said = match ours {
                    Some(Ours::Folds(_) | Ours::Recall) => *fate != Fate::Ours,
                    Some(Ours::Part(_)) => fate.is_new(),
                    Some(Ours::Between) | None => false,
                };
                if is_said {
                    *ours = None;
                }
            }
            let is_alone = |at: &usize| {
                matches!(ours[*at], Some(Ours::Between)) && !is_our_line(&ours, *at, head, Ours::wants_line)
            };
            let alone: Vec<usize> = (0..ours.len()).filter(is_alone).collect();
            if alone.is_empty() {
                return Ok(List { ours, alignment });
            }
            for at in alone {
                ours[at] = None;
            }
        }
    }

    /// Where a host gives messages a key, another text under the key of a place is a form that was not seen before. Only
    /// what two persons' messages were run together to is a message of its own.
    fn revise_what_is_alike(&self, shown: &[Shown], fates: &mut [Fate], forms: &Forms<'_>) {
        for (element, (shown, fate)) in shown.iter().zip(fates).enumerate() {
            let (Fate::Known(place) | Fate::Revised(place)) = *fate else { continue };
            let has = |stood: &Stood| {
                stood.forms.contains(&shown.id) || shown.whole.is_some_and(|whole| stood.forms.contains(&whole))
            };
            *fate = match has(&self.line.stood[place]) {
                true => Fate::Known(place),
                false => match self.line.stood.iter().position(has) {
                    Some(place) => Fate::Known(place),
                    None if forms.runs_together(element, place) => Fate::Late(Some(place)),
                    None => Fate::Revised(place),
                },
            };
        }
    }

    /// Which elements are ours, and what they stand for.
    fn ours(&mut self, snapshot: &Snapshot, elements: &[Arc<Element>]) -> Result<Vec<Option<Ours>>, EngineError> {
        let mut all = Vec::with_capacity(elements.len());
        // Who shows a fold again quotes it.
        let mut seen = HashSet::new();
        for (at, element) in elements.iter().enumerate() {
            all.push(match &element.mark {
                None | Some(Mark::Between) => None,
                Some(Mark::Part { of, text }) => self.whole_of(snapshot, element, of, text)?.map(Ours::Part),
                Some(Mark::Recall(_)) if !has_line_behind(elements, at) => None,
                Some(Mark::Recall(claims)) => self.has_recalled(snapshot, element, claims)?.then_some(Ours::Recall),

                Some(Mark::Folds { named, text }) => {
                    let folds = self.folds_of(snapshot, named, text)?;
                    folds.filter(|folds| folds.iter().all(|fold| seen.insert(fold.id))).map(Ours::Folds)
                }
            });
        }
        let head = head_of(elements);
        for (at, element) in elements.iter().enumerate() {
            if matches!(element.mark, Some(Mark::Between)) && is_our_line(&all, at, head, Ours::wants_line) {
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

    /// Whether an element recalls what its owner said.
    fn has_recalled(&mut self, snapshot: &Snapshot, element: &Element, claims: &[Claim]) -> Result<bool, EngineError> {
        if let Some(known) = self.recalls.get(&element.id) {
            return Ok(*known);
        }
        let holds = recall_holds(snapshot, &owner_scope(&self.session.owner), claims)?;
        self.recalls.insert(element.id, holds);
        Ok(holds)
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
        let Some(fold) = fold_at(snapshot, &self.line, *id, placed)? else { return Ok(None) };
        self.folds.insert(*id, fold.clone());
        Ok(Some(fold))
    }

    /// Lets the view of the session be what the list shows, when that is another one: the host has taken a fold, in
    /// this process or another, now or days ago. A list without folds is no evidence against any. Gives whether it is
    /// another one, and the folds that the list shows.
    pub(super) fn publish(
        &mut self,
        store: &Store,
        request: &TurnRequest,
        elements: &[Arc<Element>],
    ) -> Result<(bool, Vec<NodeId>), EngineError> {
        if elements.iter().all(|element| element.mark.is_none()) {
            return Ok((false, Vec::new()));
        }
        let snapshot = store.snapshot()?;
        let ours = self.ours(&snapshot, elements)?;
        let folds: Vec<&Fold> = ours.iter().flatten().flat_map(Ours::folds).collect();
        let ids: Vec<NodeId> = folds.iter().map(|fold| fold.id).collect();
        if folds.is_empty() || self.published.as_ref() == Some(&ids) {
            return Ok((false, ids));
        }
        let before = snapshot.view(self.session.id, OpId(u64::MAX))?;
        drop(snapshot);
        let Some(view) = view_of(&self.line, &folds) else { return Ok((false, ids)) };
        if before.as_ref() == Some(&view) {
            self.published = Some(ids.clone());
            return Ok((false, ids));
        }
        let known: HashSet<NodeId> = before.iter().flat_map(View::summaries).collect();
        let mut changes: Vec<Change> =
            view.summaries().filter(|id| !known.contains(id)).map(|summary| Change::Fold { summary }).collect();
        if changes.is_empty() {
            // The host went back to what it showed before.
            let shown: HashSet<NodeId> = view.summaries().collect();
            let gone = before.iter().flat_map(View::summaries).filter(|id| !shown.contains(id));
            changes.extend(gone.map(|summary| Change::Unfold { summary }));
        }
        let count = changes.len();
        let last = self.commit(store, |live, commit, holds| {
            let mut last = None;
            // Where somebody else has changed the session, the list is compared with what it is now in the next turn.
            for (nth, change) in changes.into_iter().enumerate().filter(|_| holds) {
                let view = (nth + 1 == count).then_some(&view);
                last = Some(commit.op(live.session.id, request.now_ms, &request.by, change, view)?.id);
            }
            Ok(last)
        })?;
        self.published = last.map(|_| ids.clone());
        Ok((last.is_some(), ids))
    }
}

impl Ours {
    pub(super) fn is_folds(&self) -> bool {
        matches!(self, Self::Folds(_))
    }

    /// Whether a line of ours may stand beside it.
    fn wants_line(&self) -> bool {
        matches!(self, Self::Folds(_) | Self::Recall)
    }

    /// The folds that are shown.
    pub(crate) fn folds(&self) -> &[Fold] {
        match self {
            Self::Folds(folds) => folds,
            Self::Part(_) | Self::Recall | Self::Between => &[],
        }
    }
}

/// Whether a line between at a place of a list is ours: beside a fold or what was recalled, or at the beginning, where the
/// fold before it was dropped. No conversation begins with it.
pub(super) fn is_our_line<T>(list: &[Option<T>], at: usize, head: usize, is_folds: impl Fn(&T) -> bool) -> bool {
    let neighbours = [at.checked_sub(1), Some(at + 1)];
    at == head || neighbours.into_iter().flatten().filter_map(|at| list.get(at)?.as_ref()).any(is_folds)
}

/// An element as it is aligned.
fn shown(element: &Element, ours: Option<&Ours>) -> Shown {
    let mut shown = Shown {
        id: element.id,
        whole: None,
        // What we made is known by its text to the letter.
        likeness: element.likeness.filter(|_| ours.is_none()),
        signs: element.signs.clone(),
        folds: ours.filter(|ours| !matches!(ours, Ours::Part(_))).map(|_| Vec::new()),
        later: Vec::new(),
    };
    match ours {
        Some(Ours::Part(whole)) => shown.whole = Some(*whole),
        Some(Ours::Folds(folds)) => {
            for fold in folds {
                // Steps of the present request stand in front of it, so their places are no sign of where we are.
                let to = if assemble::is_within(&fold.summary) {
                    &mut shown.later
                } else {
                    shown.folds.get_or_insert_default()
                };
                to.extend(fold.runs.iter().cloned());
            }
        }
        Some(Ours::Recall | Ours::Between) | None => {}
    }
    shown
}

/// A summary with the places of a line it stands for; `None` where the line does not have all of them.
fn fold_at(snapshot: &Snapshot, line: &Line, id: NodeId, placed: &Placed) -> Result<Option<Fold>, EngineError> {
    let mut buffer = Buffer::default();
    let summary = Arc::new(snapshot.summary(placed.record, &mut buffer)?);
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut open = vec![placed.record];
    let mut seen = HashSet::new();
    while let Some(record) = open.pop() {
        // A damaged link must not lead in a circle.
        if !seen.insert(record) {
            return Ok(None);
        }
        let children = snapshot.children(record)?;
        let summary = snapshot.summary(record, &mut buffer)?;
        if summary.depth() > 1 {
            open.extend(children.into_iter().rev());
            continue;
        }
        let reached = runs.last().map_or(0, |run| run.end);
        let Some(places) = line.find(&children, reached, assemble::first_of(&summary)) else { return Ok(None) };
        for place in places {
            match runs.last_mut() {
                Some(run) if run.end == place => run.end += 1,
                _ => runs.push(place..place + 1),
            }
        }
    }
    Ok((!runs.is_empty()).then_some(Fold { id, summary, runs }))
}

/// The view that shows these folds of a line, and the rest as it was said; `None` where they do not lie side by side.
fn view_of(line: &Line, folds: &[&Fold]) -> Option<View> {
    let mut view = View::raw(line.stands.first()?.order.clone());
    for fold in folds {
        let places = fold.places();
        let first = &line.stands.get(places.start)?.order;
        let next = &line.stands.get(places.end)?.order;
        view = view.fold(first, next, fold.id).ok()?;
    }
    Some(view)
}

/// Whether a line of ours stands behind an element, as it does behind all that we recall: who pastes a block says it.
pub(super) fn has_line_behind(elements: &[impl Borrow<Element>], at: usize) -> bool {
    elements.get(at + 1).is_some_and(|next| Borrow::<Element>::borrow(next).is_like_line())
}

/// Whether all that a text claims to recall was said, in scope.
pub(super) fn recall_holds(snapshot: &Snapshot, scope: &Scope, claims: &[Claim]) -> Result<bool, EngineError> {
    let mut entries = Entries::new(snapshot);
    for claim in claims {
        let Some(placed) = snapshot.find_place(scope, claim.number)?.filter(|placed| placed.summary.is_none()) else {
            return Ok(false);
        };
        let entry = entries.entry(&placed)?;
        if !claim.id.matches(&entries.buffer().id()) || !claim.holds(&Original::of(&entry), &told_in(entries.buffer()))
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// All that one owner may read.
pub(crate) fn owner_scope(owner: &Owner) -> Scope {
    let pattern = OwnerPattern { agent: Some(owner.agent.clone()), person: Some(owner.person.clone()) };
    Scope { owners: Owners::Matching(vec![pattern]), sessions: Vec::new(), branches: Branches::All }
}

/// What a message that is kept says.
pub(super) fn told_at(snapshot: &Snapshot, record: RecordNumber) -> Result<Told, EngineError> {
    let mut buffer = Buffer::default();
    snapshot.read(record, &mut buffer)?;
    Ok(told_in(&buffer))
}

/// What the message says that was read last.
fn told_in(buffer: &Buffer) -> Told {
    // What cannot be taken apart says nothing.
    buffer.with_message(|message| message.tree().map(|tree| Told::of(&tree))).unwrap_or_default()
}
