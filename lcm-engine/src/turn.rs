//! A turn: a host shows its whole list, and what is new in it is kept, in one commit.
//!
//! What was seen before is known by the hash of its text and costs that hash; the rest is read, encoded and counted.
//! The list is aligned with the session's timeline (`align`); a list that leaves it branches off; one that belongs to
//! no timeline of the session is looked for among those of the same owner, and adopted only with proof.
//!
//! Planned outside of the write lock, carried out inside; when somebody else has written meanwhile it is planned again
//! there. What is remembered of a session between turns is a cache: whatever another process did to the session since
//! is told by its ops, and then the session is read anew.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lcm_core::op::Change;
use lcm_core::tokens::{Estimate, TokenCounter};
use lcm_core::view::View;
use lcm_core::{
    Arrival, EncodedMessage, IdPrefix, Json, JsonString, Message, NodeId, OpId, OrderKey, Owner, Role, SessionId,
    Summary, TimelineId,
};
use lcm_store::{
    Branches, Buffer, Commit, NewPlace, OwnerPattern, Owners, Placed, Prepared, Scope, Session, Snapshot, Store,
    StoreError,
};

use crate::align::{self, Alignment, Fate, Ours, Shown, Signs, Verdict};
use crate::assemble;
use crate::error::EngineError;
use crate::hosts::speech::{Dialect, Speech};
use crate::hosts::told::Told;
use crate::known::Known;
use crate::line::{Line, Stand};
use crate::read;
use crate::service::{Child, DownTo, ExpandRequest, Expansion, SessionKey, TurnRequest, Turned};

/// Messages in common that are no accident, where nothing else proves that two lists are one story.
const SAME_MESSAGES_MIN: usize = 8;
/// Timelines that are looked at when a list is a stranger.
const CANDIDATES_MAX: usize = 16;
/// Ops of others since the last turn that are looked through; after more the session is read anew.
const OPS_MAX: usize = 4096;

/// What is known of a text without reading it again.
#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) id: NodeId,
    pub(crate) speech: Speech,
    pub(crate) signs: Signs,
    pub(crate) tokens: u32,
    /// The message as it can be sent, where it holds halves of pairs: those replaced.
    pub(crate) sendable: Option<Vec<u8>>,
    /// What it names, when it begins as something of ours.
    mark: Option<Mark>,
}

#[derive(Debug)]
enum Mark {
    Folds(Vec<IdPrefix>, String),
    Part(IdPrefix),
    /// A line between two messages of one role.
    Between,
}

/// A summary and the places it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub(crate) id: NodeId,
    pub(crate) summary: Arc<Summary>,
    pub(crate) places: Range<usize>,
}

/// What is remembered of a session between turns.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) session: Session,
    pub(crate) line: Line,
    /// The newest op that is taken into account.
    op: OpId,
    elements: HashMap<[u8; 32], Arc<Element>>,
    folds: HashMap<NodeId, Fold>,
    pins: HashSet<Arrival>,
    /// The folds of the view that was published last, when that is known.
    published: Option<Vec<NodeId>>,
}

/// A list with what is known of each element, aligned with the session's line.
pub(crate) struct List {
    pub(crate) elements: Vec<Arc<Element>>,
    pub(crate) shown: Vec<Shown>,
    pub(crate) folds: Vec<Vec<Fold>>,
    pub(crate) alignment: Alignment,
}

/// One turn on its way into the store.
pub(crate) struct Turn<'r> {
    request: &'r TurnRequest,
    elements: Vec<Arc<Element>>,
    /// Of elements that were read now.
    encoded: Vec<Option<EncodedMessage>>,
}

/// What is to be done.
enum Plan {
    Nothing,
    /// On the session's timeline.
    Grow {
        fates: Vec<Fate>,
    },
    /// Branch off a timeline behind a place; then what is new.
    Branch {
        parent: TimelineId,
        last: OrderKey,
        fates: Vec<Fate>,
    },
    /// Go on with a timeline that was left; what is new begins at this element.
    GoOn {
        timeline: TimelineId,
        from: usize,
    },
    /// A timeline that shares nothing.
    Begin,
    /// The list is that of another session of the same owner, whatever name it came under: that one is asked.
    Other(SessionKey),
}

impl<'r> Turn<'r> {
    /// Reads what was not seen before.
    pub(crate) fn new(request: &'r TurnRequest, live: Option<&Live>) -> Result<Self, EngineError> {
        let mut elements = Vec::with_capacity(request.messages.len());
        let mut encoded = Vec::with_capacity(request.messages.len());
        for raw in &request.messages {
            let hash = *blake3::hash(raw).as_bytes();
            match live.and_then(|live| live.elements.get(&hash)) {
                Some(known) => {
                    elements.push(known.clone());
                    encoded.push(None);
                }
                None => {
                    let (element, message) = read_message(raw)?;
                    elements.push(Arc::new(element));
                    encoded.push(Some(message));
                }
            }
        }
        Ok(Self { request, elements, encoded })
    }

    pub(crate) fn elements(&self) -> &[Arc<Element>] {
        &self.elements
    }

    /// What an element says, read again.
    fn encoded(&mut self, at: usize) -> Result<EncodedMessage, EngineError> {
        match self.encoded[at].take() {
            Some(encoded) => Ok(encoded),
            None => Ok(read_message(&self.request.messages[at])?.1),
        }
    }
}

/// Reads a message of a host.
fn read_message(raw: &[u8]) -> Result<(Element, EncodedMessage), EngineError> {
    let message = Message::parse(raw)?;
    let mut sendable = message.json().clone();
    let sendable = mend_strings(&mut sendable).then(|| sendable.to_text());
    let encoded = message.encode()?;
    let bodies = encoded.body_slices();
    let stored = encoded.stored(&bodies);
    let tokens = Estimate.count(&stored);
    let tree = stored.tree().map_err(|error| StoreError::DamagedRow {
        table: "records",
        key: "of a message that was read just now".to_owned(),
        why: error.to_string(),
    })?;
    let speech = Speech::of(&tree);
    let signs = Signs::of(&speech);
    let mark = match raw.windows(assemble::MARK.len()).any(|window| window == assemble::MARK.as_bytes()) {
        true => mark_of(&Told::of(&tree)),
        false => None,
    };
    drop(tree);
    let element = Element { id: encoded.id, speech, signs, tokens, sendable, mark };
    drop(bodies);
    Ok((element, encoded))
}

/// Replaces halves of surrogate pairs, which no request can carry; whether there were any.
fn mend_strings(json: &mut Json) -> bool {
    let mend = |string: &mut JsonString| {
        let is_broken = string.as_str().is_none();
        if is_broken {
            *string = (&*string.to_str_lossy().into_owned()).into();
        }
        is_broken
    };
    match json {
        Json::String(string) => mend(string),
        Json::Array(elements) => elements.iter_mut().fold(false, |any, element| mend_strings(element) | any),
        Json::Object(entries) => {
            entries.iter_mut().fold(false, |any, (key, value)| mend(key) | mend_strings(value) | any)
        }
        _ => false,
    }
}

fn mark_of(told: &Told) -> Option<Mark> {
    let text = told.results.first().map_or(told.text.as_str(), String::as_str);
    if let Some(part) = assemble::shown_part(text) {
        return Some(Mark::Part(part));
    }
    if text == assemble::BETWEEN {
        return Some(Mark::Between);
    }
    assemble::shown_folds(text).map(|folds| Mark::Folds(folds, text.to_owned()))
}

impl Live {
    /// Reads a session.
    pub(crate) fn load(snapshot: &Snapshot, session: Session) -> Result<Self, EngineError> {
        let line = Line::load(snapshot, session.timeline)?;
        let op = snapshot.last_op()?;
        let pins = snapshot.pins(session.id)?.into_iter().collect();
        Ok(Self { session, line, op, elements: HashMap::new(), folds: HashMap::new(), pins, published: None })
    }

    /// Whether nobody else has changed the session; what others did elsewhere is passed over.
    pub(crate) fn still_holds(&mut self, snapshot: &Snapshot, session: &Session) -> Result<bool, EngineError> {
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

    /// Keeps what is known of a list's elements, and lets go of what is long out of it.
    pub(crate) fn remember(&mut self, request: &TurnRequest, elements: &[Arc<Element>]) {
        if self.elements.len() > 4 * elements.len() + 64 {
            self.elements.clear();
        }
        for (raw, element) in request.messages.iter().zip(elements) {
            self.elements.insert(*blake3::hash(raw).as_bytes(), element.clone());
        }
    }

    /// Ids that are held, as a weight.
    pub(crate) fn weight(&self) -> usize {
        self.line.len() + self.elements.len()
    }

    /// What is known of the elements of a list.
    pub(crate) fn elements_of(&self, request: &TurnRequest) -> Result<Vec<Arc<Element>>, EngineError> {
        Ok(Turn::new(request, Some(self))?.elements)
    }

    /// Whether a place is never folded.
    pub(crate) fn is_pinned(&self, place: usize) -> bool {
        self.line.stands.get(place).is_some_and(|stand| self.pins.contains(&stand.arrival))
    }

    /// A fold that was met or made.
    pub(crate) fn fold_by_id(&self, id: &NodeId) -> Option<&Fold> {
        self.folds.get(id)
    }

    /// We wrote an op to this session ourselves.
    pub(crate) fn wrote(&mut self, op: OpId) {
        self.op = op;
    }

    /// Aligns a list with the line.
    pub(crate) fn align(
        &mut self,
        snapshot: &Snapshot,
        request: &TurnRequest,
        elements: &[Arc<Element>],
    ) -> Result<List, EngineError> {
        let scope = owner_scope(&self.session.owner);
        let (mut shown, mut folds) = (Vec::with_capacity(elements.len()), Vec::with_capacity(elements.len()));
        for element in elements {
            let (ours, of_it) = self.ours(snapshot, &scope, element)?;
            shown.push(Shown { id: element.id, signs: element.signs.clone(), ours });
            folds.push(of_it);
        }
        let forms = Forms { snapshot, line: &self.line, request, texts: RefCell::default() };
        let alignment = align::align(&self.line.stood, &shown, |element, place| forms.reads_like(element, place));
        Ok(List { elements: elements.to_vec(), shown, folds, alignment })
    }

    /// What an element stands for, when we made it.
    fn ours(
        &mut self,
        snapshot: &Snapshot,
        scope: &Scope,
        element: &Element,
    ) -> Result<(Option<Ours>, Vec<Fold>), EngineError> {
        match &element.mark {
            None => Ok((None, Vec::new())),
            Some(Mark::Between) => Ok((Some(Ours::Folds(Vec::new())), Vec::new())),
            Some(Mark::Part(prefix)) => {
                let is_it = |at: &usize| {
                    let stood = &self.line.stood[*at];
                    stood.forms.first().is_some_and(|first| prefix.matches(first)) && stood.signs == element.signs
                };
                Ok(((0..self.line.len()).find(is_it).map(Ours::Part), Vec::new()))
            }
            Some(Mark::Folds(prefixes, text)) => {
                let mut folds = Vec::with_capacity(prefixes.len());
                for prefix in prefixes {
                    let Some(fold) = self.fold(snapshot, scope, prefix)? else { return Ok((None, Vec::new())) };
                    folds.push(fold);
                }
                // The exact text: what a host changed in it is a message of the host's.
                if assemble::folds(folds.iter().map(|fold| (&fold.id, &*fold.summary))) != *text {
                    return Ok((None, Vec::new()));
                }
                let runs = folds.iter().filter(|fold| !assemble::is_within(&fold.summary));
                Ok((Some(Ours::Folds(runs.map(|fold| fold.places.clone()).collect())), folds))
            }
        }
    }

    /// A summary of this line by the beginning of its id.
    pub(crate) fn fold(
        &mut self,
        snapshot: &Snapshot,
        scope: &Scope,
        prefix: &IdPrefix,
    ) -> Result<Option<Fold>, EngineError> {
        if let Some(known) = self.folds.values().find(|fold| prefix.matches(&fold.id)) {
            return Ok(Some(known.clone()));
        }
        let found = snapshot.find_nodes(scope, prefix, 2)?;
        let [(id, placed)] = found.as_slice() else { return Ok(None) };
        if placed.summary.is_none() {
            return Ok(None);
        }
        let Some(fold) = fold_at(snapshot, scope, &self.line, *id, placed)? else { return Ok(None) };
        self.folds.insert(*id, fold.clone());
        Ok(Some(fold))
    }

    /// Lets the view of the session be what the list shows, when that is another one: the host has taken a fold, in
    /// this process or another, now or days ago. A list without folds is no evidence against any.
    fn publish(
        &mut self,
        store: &Store,
        request: &TurnRequest,
        elements: &[Arc<Element>],
    ) -> Result<bool, EngineError> {
        if elements.iter().all(|element| element.mark.is_none()) {
            return Ok(false);
        }
        let snapshot = store.snapshot()?;
        let scope = owner_scope(&self.session.owner);
        let mut folds = Vec::new();
        for element in elements {
            folds.extend(self.ours(&snapshot, &scope, element)?.1);
        }
        let ids: Vec<NodeId> = folds.iter().map(|fold| fold.id).collect();
        if folds.is_empty() || self.published.as_ref() == Some(&ids) {
            return Ok(false);
        }
        let before = snapshot.view(self.session.id, OpId(u64::MAX))?;
        drop(snapshot);
        let Some(view) = view_of(&self.line, &folds) else { return Ok(false) };
        self.published = Some(ids);
        if before.as_ref() == Some(&view) {
            return Ok(false);
        }
        let known: HashSet<NodeId> = before.iter().flat_map(View::summaries).collect();
        let new: Vec<NodeId> = view.summaries().filter(|summary| !known.contains(summary)).collect();
        let session = self.session.id;
        let last = store.commit(|commit| {
            let mut last = None;
            for (nth, summary) in new.iter().enumerate() {
                let view = (nth + 1 == new.len()).then_some(&view);
                let change = Change::Fold { summary: *summary };
                last = Some(commit.op(session, request.now_ms, &request.by, change, view)?.id);
            }
            Ok::<_, StoreError>(last)
        })?;
        self.op = last.unwrap_or(self.op);
        Ok(last.is_some())
    }

    /// A summary that was made now.
    pub(crate) fn add_fold(&mut self, fold: Fold) {
        self.folds.insert(fold.id, fold);
    }
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
fn view_of(line: &Line, folds: &[Fold]) -> Option<View> {
    let mut view = View::raw(line.stands.first()?.order.clone());
    for fold in folds {
        let first = &line.stands.get(fold.places.start)?.order;
        let next = &line.stands.get(fold.places.end)?.order;
        view = view.fold(first, next, fold.id).ok()?;
    }
    Some(view)
}

pub(crate) fn owner_scope(owner: &Owner) -> Scope {
    let pattern = OwnerPattern { agent: Some(owner.agent.clone()), person: Some(owner.person.clone()) };
    Scope { owners: Owners::Matching(vec![pattern]), sessions: Vec::new(), branches: Branches::All }
}

/// Compares texts of elements with texts of places, each read once.
struct Forms<'a> {
    snapshot: &'a Snapshot,
    line: &'a Line,
    request: &'a TurnRequest,
    texts: RefCell<HashMap<Result<usize, usize>, Option<String>>>,
}

impl Forms<'_> {
    /// Whether an element is what stands at a place, cut, cleared or annotated.
    fn reads_like(&self, element: usize, place: usize) -> bool {
        let (new, old) = (self.text(Ok(element)), self.text(Err(place)));
        let (Some(new), Some(old)) = (new, old) else { return false };
        let (short, long) = if new.len() < old.len() { (&new, &old) } else { (&old, &new) };
        // A word that happens to begin both is no sign.
        short.len() >= 8
            && short.len() * 20 >= long.len()
            && (long.starts_with(short.as_str()) || long.ends_with(short.as_str()))
    }

    fn text(&self, what: Result<usize, usize>) -> Option<String> {
        if let Some(known) = self.texts.borrow().get(&what) {
            return known.clone();
        }
        let told = match what {
            Ok(element) => Message::parse(&self.request.messages[element]).ok().and_then(|message| {
                let encoded = message.encode().ok()?;
                Some(Told::of(&encoded.stored(&encoded.body_slices()).tree().ok()?))
            }),
            Err(place) => {
                let mut buffer = Buffer::default();
                let record = self.line.stands[place].record;
                self.snapshot
                    .read(record, &mut buffer)
                    .ok()
                    .and_then(|()| buffer.with_message(|message| message.tree().ok().map(|tree| Told::of(&tree))))
            }
        };
        let text = told.map(|told| if told.results.is_empty() { told.text } else { told.results.join("\n") });
        self.texts.borrow_mut().insert(what, text.clone());
        text
    }
}

/// Takes a list in; gives what came of it and the session as it is now.
pub(crate) fn take_in(
    store: &Store,
    request: &TurnRequest,
    remembered: &dyn Fn(SessionId) -> Option<Live>,
) -> Result<(Turned, Live), EngineError> {
    let snapshot = store.snapshot()?;
    let session = snapshot.session_named(&request.key.owner, &request.key.name)?;
    let mut live = match session {
        None => None,
        Some(session) => match remembered(session.id) {
            Some(mut live) => match live.still_holds(&snapshot, &session)? {
                true => Some(live),
                // Texts that were read are the same in any case.
                false => Some(Live { elements: live.elements, ..Live::load(&snapshot, session)? }),
            },
            None => Some(Live::load(&snapshot, session)?),
        },
    };
    let mut turn = Turn::new(request, live.as_ref())?;
    let mut plan = turn.plan(&snapshot, live.as_mut())?;
    if let Plan::Other(key) = plan {
        drop(snapshot);
        return take_in(store, &TurnRequest { key, ..request.clone() }, remembered);
    }
    let mut turned = Turned { key: request.key.clone(), ..Turned::default() };
    if let Some(live) = &live {
        turned.session = Some(live.session.id);
    }
    if !matches!(plan, Plan::Nothing) {
        let seen = (snapshot.last_arrival()?, snapshot.last_op()?);
        drop(snapshot);
        let mut prepared = turn.prepare(store, &plan)?;
        store.commit(|commit| {
            if (commit.last_arrival(), commit.last_op()) != seen {
                // We hold the lock: what the newest snapshot shows is what we write on.
                let snapshot = store.snapshot()?;
                live = match snapshot.session_named(&request.key.owner, &request.key.name)? {
                    None => None,
                    Some(session) => Some(Live::load(&snapshot, session)?),
                };
                plan = turn.plan(&snapshot, live.as_mut())?;
                prepared = turn.prepare(store, &plan)?;
            }
            turned.session = Some(turn.carry_out(commit, &plan, &prepared, live.as_mut(), &mut turned)?);
            Ok::<_, EngineError>(())
        })?;
        let Some(session) = turned.session else { return Err(EngineError::NoSession(request.key.name.clone())) };
        let snapshot = store.snapshot()?;
        live = match live.take().filter(|_| turned.is_plain()) {
            Some(mut live) => {
                live.op = turned.op.unwrap_or(live.op);
                Some(live)
            }
            None => Some(Live::load(&snapshot, snapshot.session(session)?)?),
        };
    }
    let mut live = match live {
        Some(live) => live,
        // An empty list for a session that is not there: there is nothing to keep, and nothing to remember.
        None => return Err(EngineError::NothingSaid(request.key.name.clone())),
    };
    live.remember(request, turn.elements());
    turned.published = live.publish(store, request, turn.elements())?;
    Ok((turned, live))
}

impl Turn<'_> {
    fn plan(&self, snapshot: &Snapshot, live: Option<&mut Live>) -> Result<Plan, EngineError> {
        let begin = |turn: &Self| if turn.elements.is_empty() { Plan::Nothing } else { Plan::Begin };
        let Some(live) = live else {
            return Ok(self.adopt(snapshot, None, false)?.unwrap_or_else(|| begin(self)));
        };
        let list = live.align(snapshot, self.request, &self.elements)?;
        let Alignment { fates, verdict } = list.alignment;
        let has_work = fates.iter().any(|fate| matches!(fate, Fate::New | Fate::Late(_) | Fate::Revised(_)));
        Ok(match verdict {
            Verdict::Grows if !has_work => Plan::Nothing,
            Verdict::Grows if live.line.len() == 0 => {
                self.adopt(snapshot, Some(live.session.id), false)?.unwrap_or(Plan::Grow { fates })
            }
            Verdict::Grows => Plan::Grow { fates },
            Verdict::Parts(last) => match self.elsewhere(snapshot, &live.session)? {
                Some(plan) => plan,
                None => {
                    let last = live.line.stands[last].order.clone();
                    Plan::Branch { parent: live.line.timeline, last, fates }
                }
            },
            Verdict::Stranger => match self.elsewhere(snapshot, &live.session)? {
                Some(plan) => plan,
                None => self.adopt(snapshot, Some(live.session.id), true)?.unwrap_or_else(|| begin(self)),
            },
        })
    }

    /// Whether the list is that of a timeline which the session left.
    fn elsewhere(&self, snapshot: &Snapshot, session: &Session) -> Result<Option<Plan>, EngineError> {
        if self.elements.iter().any(|element| element.mark.is_some()) || snapshot.timelines_of(session.id)?.len() < 2 {
            return Ok(None);
        }
        let mut known = Known::load(snapshot, session)?;
        known.complete(snapshot, session)?;
        let ids: Vec<NodeId> = self.elements.iter().map(|element| element.id).collect();
        Ok(match known.reached(&ids) {
            (walked, _) if walked == ids.len() => Some(Plan::Nothing),
            (walked, Some(timeline)) if walked > 0 => Some(Plan::GoOn { timeline, from: walked }),
            _ => None,
        })
    }

    /// A timeline of the same owner that the list goes on from, with proof. `has_own` says whether the session the list
    /// came under has said something itself.
    fn adopt(&self, snapshot: &Snapshot, but: Option<SessionId>, has_own: bool) -> Result<Option<Plan>, EngineError> {
        let owner = &self.request.key.owner;
        let scope = owner_scope(owner);
        let mut candidates: Vec<TimelineId> = Vec::new();
        for element in &self.elements {
            let prefixes: &[IdPrefix] = match &element.mark {
                Some(Mark::Folds(prefixes, _)) => prefixes,
                Some(Mark::Part(prefix)) => std::slice::from_ref(prefix),
                Some(Mark::Between) | None => continue,
            };
            for prefix in prefixes {
                candidates
                    .extend(snapshot.find_nodes(&scope, prefix, 2)?.into_iter().map(|(_, placed)| placed.timeline));
            }
        }
        if self.elements.len() >= SAME_MESSAGES_MIN || !candidates.is_empty() || self.has_anchor() {
            // What was said rarely leads to few timelines; a greeting leads to all.
            for element in self.elements.iter().filter(|element| !element.speech.is_system()).take(SAME_MESSAGES_MIN) {
                let places = snapshot.places_of(&scope, &element.id)?;
                if places.len() <= CANDIDATES_MAX {
                    candidates.extend(places.into_iter().map(|placed| placed.timeline));
                }
            }
        }
        let mut seen = HashSet::new();
        candidates.retain(|timeline| seen.insert(*timeline));
        candidates.truncate(CANDIDATES_MAX);
        let mut best: Option<(usize, Plan)> = None;
        for id in candidates {
            let timeline = snapshot.timeline(id)?;
            if but == Some(timeline.session) {
                continue;
            }
            let session = snapshot.session(timeline.session)?;
            if session.owner != *owner {
                continue;
            }
            let (goes_on_with, name) = (session.timeline, session.name.clone());
            let mut live = Live::load(snapshot, Session { timeline: id, ..session })?;
            let List { shown, alignment: Alignment { mut fates, verdict }, .. } =
                live.align(snapshot, self.request, &self.elements)?;
            let has_fold = shown.iter().any(|shown| matches!(&shown.ours, Some(Ours::Folds(runs)) if !runs.is_empty()));
            // Without a fold of ours only what two lists share from their beginning is one story: what was said in
            // both further on was said twice.
            let shared = fates.iter().enumerate().take_while(|(at, fate)| **fate == Fate::Known(*at)).count();
            let has_anchor = self.elements[..shared].iter().any(|element| element.signs.ids.is_some());
            let is_proved = has_fold || shared >= SAME_MESSAGES_MIN || (has_anchor && shared >= 2);
            let last = match verdict {
                Verdict::Stranger => None,
                _ if !has_fold => shared.checked_sub(1),
                Verdict::Parts(last) => Some(last),
                Verdict::Grows => live.line.len().checked_sub(1),
            };
            let Some(last) = last else { continue };
            for (at, fate) in fates.iter_mut().enumerate() {
                // Nothing is mended in a timeline that is somebody else's: what it has not is new in the branch.
                let is_elsewhere = matches!(fate, Fate::Late(_) | Fate::Revised(_)) || (!has_fold && at >= shared);
                if is_elsewhere && *fate != Fate::Ours {
                    *fate = Fate::New;
                }
            }
            let count = shared;
            let weight = count + usize::from(has_fold) * 1000;
            if is_proved && best.as_ref().is_none_or(|(known, _)| weight > *known) {
                // A session that has said something else does not take over what another goes on with.
                let is_others = has_own && verdict == Verdict::Grows && id == goes_on_with;
                let plan = if is_others {
                    Plan::Other(SessionKey { owner: owner.clone(), name })
                } else {
                    Plan::Branch { parent: id, last: live.line.stands[last].order.clone(), fates }
                };
                best = Some((weight, plan));
            }
        }
        Ok(best.map(|(_, plan)| plan))
    }

    fn has_anchor(&self) -> bool {
        self.elements.iter().any(|element| element.signs.ids.is_some())
    }

    /// Hashes and compresses what the plan needs.
    fn prepare(&mut self, store: &Store, plan: &Plan) -> Result<HashMap<usize, Prepared>, EngineError> {
        let wanted: Vec<usize> = match plan {
            Plan::Nothing | Plan::Other(_) => Vec::new(),
            Plan::Grow { fates } | Plan::Branch { fates, .. } => {
                let is_new = |at: &usize| matches!(fates[*at], Fate::New | Fate::Late(_) | Fate::Revised(_));
                (0..fates.len()).filter(is_new).collect()
            }
            Plan::GoOn { from, .. } => (*from..self.elements.len()).collect(),
            Plan::Begin => (0..self.elements.len()).collect(),
        };
        let mut encoded = Vec::with_capacity(wanted.len());
        for &at in &wanted {
            encoded.push(self.encoded(at)?);
        }
        Ok(wanted.into_iter().zip(store.prepare(&encoded)?).collect())
    }

    fn place<'p>(&self, prepared: &'p HashMap<usize, Prepared>, at: usize) -> NewPlace<'p> {
        NewPlace {
            message: prepared.get(&at).expect("every element of a plan is prepared: see `prepare`"),
            seen_ms: self.request.now_ms,
            tokens: self.elements[at].tokens,
            volatile: &[],
        }
    }

    fn carry_out(
        &self,
        commit: &mut Commit<'_>,
        plan: &Plan,
        prepared: &HashMap<usize, Prepared>,
        live: Option<&mut Live>,
        turned: &mut Turned,
    ) -> Result<SessionId, EngineError> {
        let request = self.request;
        let session = match &live {
            Some(live) => live.session.id,
            None => {
                turned.created = true;
                commit.session(&request.key.owner, &request.key.name, &request.source, request.now_ms)?
            }
        };
        let mut op = |commit: &mut Commit<'_>, change: Change| -> Result<(), EngineError> {
            turned.op = Some(commit.op(session, request.now_ms, &request.by, change, None)?.id);
            Ok(())
        };
        let (mut timeline, mut fresh): (TimelineId, Vec<usize>) = (commit.timeline_of(session)?, Vec::new());
        let is_new = |fates: &[Fate]| (0..fates.len()).filter(|at| fates[*at] == Fate::New).collect::<Vec<_>>();
        match plan {
            Plan::Nothing => return Ok(session),
            // Somebody wrote between plan and lock, and now the list is another's: nothing was kept, so say so.
            Plan::Other(_) => return Err(StoreError::Busy { what: "the session", waited: Duration::ZERO }.into()),
            Plan::Grow { fates } => {
                if let Some(live) = &live {
                    self.mend(commit, &live.line, fates, prepared, turned, session)?;
                }
                fresh = is_new(fates);
            }
            Plan::Branch { parent, last, fates } => {
                if let Some(live) = live.as_ref().filter(|live| live.line.timeline == *parent) {
                    self.mend(commit, &live.line, fates, prepared, turned, session)?;
                }
                let to = commit.branch(session, *parent, last, request.now_ms)?;
                let shared = match &live {
                    Some(live) => live.line.stands.partition_point(|stand| stand.order <= *last),
                    None => 0,
                };
                let shared = u64::try_from(shared).unwrap_or(u64::MAX);
                turned.branched = true;
                turned.op = Some(
                    commit
                        .op(
                            session,
                            request.now_ms,
                            &request.by,
                            Change::Branch { from: Some(*parent), to, shared },
                            None,
                        )?
                        .id,
                );
                timeline = to;
                fresh = is_new(fates);
            }
            Plan::GoOn { timeline: to, from } => {
                commit.go_on_with(session, Some(*to), request.now_ms)?;
                op(
                    commit,
                    Change::Branch { from: Some(timeline), to: *to, shared: u64::try_from(*from).unwrap_or(u64::MAX) },
                )?;
                turned.branched = true;
                timeline = *to;
                fresh = (*from..self.elements.len()).collect();
            }
            Plan::Begin => {
                // The first timeline of a session came with it.
                if live.as_ref().is_some_and(|live| live.line.len() > 0) {
                    let to = commit.go_on_with(session, None, request.now_ms)?;
                    op(commit, Change::Branch { from: Some(timeline), to, shared: 0 })?;
                    turned.branched = true;
                    timeline = to;
                }
                fresh.extend(0..self.elements.len());
            }
        }
        let places: Vec<NewPlace<'_>> = fresh.iter().map(|at| self.place(prepared, *at)).collect();
        if let Some((first, last)) = commit.append(timeline, &places)? {
            let change = Change::Ingest { timeline, first, last };
            turned.op = Some(commit.op(session, request.now_ms, &request.by, change, None)?.id);
            turned.new += u64::try_from(fresh.len()).unwrap_or(u64::MAX);
            turned.numbers = Some((first, last));
            if let Some(live) = live.filter(|_| turned.is_plain()) {
                for (&at, number) in fresh.iter().zip(first.0..) {
                    let element = &self.elements[at];
                    let arrival = Arrival(number);
                    let stand = Stand {
                        arrival,
                        order: OrderKey::appended(arrival),
                        record: commit.record_of(&element.id)?,
                        seen_ms: request.now_ms,
                        tokens: element.tokens,
                    };
                    live.line.push(stand, align::Stood { forms: vec![element.id], signs: element.signs.clone() });
                }
            }
        }
        Ok(session)
    }

    /// Writes revisions and late places.
    fn mend(
        &self,
        commit: &mut Commit<'_>,
        line: &Line,
        fates: &[Fate],
        prepared: &HashMap<usize, Prepared>,
        turned: &mut Turned,
        session: SessionId,
    ) -> Result<(), EngineError> {
        let request = self.request;
        // Where the last late place went, so that the next of the same gap goes behind it.
        let mut before: Option<(Option<usize>, OrderKey)> = None;
        for (at, fate) in fates.iter().enumerate() {
            match *fate {
                Fate::Revised(place) => {
                    let arrival = line.stands[place].arrival;
                    let form = prepared.get(&at).expect("every element of a plan is prepared: see `prepare`");
                    commit.revise(arrival, form, request.now_ms, &[])?;
                    let change = Change::Revise { arrival, form: form.id() };
                    turned.op = Some(commit.op(session, request.now_ms, &request.by, change, None)?.id);
                    turned.revised += 1;
                }
                Fate::Late(behind) => {
                    let next = behind.map_or(0, |place| place + 1);
                    let after = line.stands.get(next).map(|stand| &stand.order);
                    let lower = match (&before, behind) {
                        (Some((gap, order)), _) if *gap == behind => order.clone(),
                        (_, Some(place)) => line.stands[place].order.clone(),
                        (_, None) => OrderKey::appended(Arrival(0)),
                    };
                    let order = OrderKey::between(&lower, after);
                    let arrival = commit.insert(line.timeline, &order, &self.place(prepared, at))?;
                    before = Some((behind, order));
                    let change = Change::Ingest { timeline: line.timeline, first: arrival, last: arrival };
                    turned.op = Some(commit.op(session, request.now_ms, &request.by, change, None)?.id);
                    turned.late += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// What a list stands for, in order.
pub(crate) fn behind(snapshot: &Snapshot, scope: &Scope, messages: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, EngineError> {
    let mut originals = Vec::new();
    // Steps that stand in front of their request came behind it.
    let mut held: Vec<Vec<u8>> = Vec::new();
    for raw in messages {
        let (element, _) = read_message(raw)?;
        match &element.mark {
            Some(Mark::Folds(prefixes, _)) => {
                for prefix in prefixes {
                    let Some(Behind { originals: found, is_within }) = expanded(snapshot, scope, prefix)? else {
                        continue;
                    };
                    if is_within {
                        held.extend(found);
                    } else {
                        originals.extend(found);
                    }
                }
            }
            Some(Mark::Part(prefix)) => match expanded(snapshot, scope, prefix)? {
                Some(behind) => originals.extend(behind.originals),
                None => originals.push(raw.clone()),
            },
            Some(Mark::Between) => {}
            None => {
                let is_request = element.speech.is_request();
                originals.push(raw.clone());
                if is_request {
                    originals.append(&mut held);
                }
            }
        }
    }
    originals.append(&mut held);
    Ok(originals)
}

/// What is behind a node.
struct Behind {
    originals: Vec<Vec<u8>>,
    /// Whether they are steps of the request that stands behind them.
    is_within: bool,
}

fn expanded(snapshot: &Snapshot, scope: &Scope, prefix: &IdPrefix) -> Result<Option<Behind>, EngineError> {
    let Some((_, placed)) = snapshot.find_nodes(scope, prefix, 1)?.pop() else { return Ok(None) };
    let mut is_within = false;
    if placed.summary.is_some() {
        is_within = assemble::is_within(&snapshot.summary(placed.record, &mut Buffer::default())?);
    }
    let request = ExpandRequest {
        scope: scope.clone(),
        number: placed.arrival,
        down_to: DownTo::Originals,
        skip: 0,
        max: usize::MAX,
        bytes_max: usize::MAX,
    };
    Ok(Some(match read::expand(snapshot, &request)? {
        Expansion::Message(whole) => Behind { originals: vec![whole.json], is_within },
        Expansion::Summary(page) => {
            let whole = page.children.into_iter().filter_map(|child| match child {
                Child::Message(whole) => Some(whole.json),
                Child::Summary { .. } => None,
            });
            Behind { originals: whole.collect(), is_within }
        }
    }))
}

/// What a list costs by the stored count.
pub(crate) fn weigh(messages: &[Vec<u8>]) -> Result<u64, EngineError> {
    let mut tokens = 0_u64;
    for raw in messages {
        let encoded = Message::parse(raw)?.encode()?;
        tokens += u64::from(Estimate.count(&encoded.stored(&encoded.body_slices())));
    }
    Ok(tokens)
}

/// The message of an element as JSON.
pub(crate) fn json(raw: &[u8]) -> Result<Json, EngineError> {
    Ok(Message::parse(raw)?.into_json())
}

/// The key of a session, for whoever has no name for it.
impl SessionKey {
    /// A session by its owner and name.
    #[must_use]
    pub fn new(agent: &str, person: &str, name: &str) -> Self {
        Self { owner: Owner { agent: agent.to_owned(), person: person.to_owned() }, name: name.to_owned() }
    }
}

/// Which dialect a list is in, when the host does not say: blocks of calls or results are Anthropic's.
pub(crate) fn dialect_of(elements: &[Arc<Element>]) -> Dialect {
    let has_blocks = |element: &Arc<Element>| element.speech.role == Role::User && !element.speech.results.is_empty();
    if elements.iter().any(has_blocks) { Dialect::Anthropic } else { Dialect::OpenAi }
}
