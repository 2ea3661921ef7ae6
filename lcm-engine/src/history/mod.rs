//! History: what a session shows and showed at any moment, and the way back.
//!
//! A moment is a timeline as it was then and the view of it. Everything else reads moments: the list that a host would
//! send, `unfold`, `undo`, `why`. Nothing is ever taken away: what goes back is a new view under a new op.
//!
//! A view is kept by order keys. When the session has gone on with another timeline since, a fold whose places are not
//! those of that timeline is not shown: it speaks of what was not said there.
//!
//! Not here: folding (`compress`, which also has the writer that `rewrite` asks), and taking a host's list at its word (`turn`).

mod undo;
mod rewrite;
mod why;
mod covers;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use lcm_core::op::{Change, Op};
use lcm_core::tokens::{Estimate, TokenCounter};
use lcm_core::view::{Segment, Shows, View};
use lcm_core::{Arrival, Handle, Message, NodeId, OpId, OrderKey, Role, Summary, TimelineId};
use lcm_store::{Buffer, Order, Pinned, Placed, RecordNumber, Scope, Session, Snapshot, Store};

pub(crate) use self::covers::{Covers, folds_shown};
pub(crate) use self::rewrite::rewrite;
pub(crate) use self::undo::undo;
pub(crate) use self::why::why;

use crate::assemble;
use crate::error::EngineError;
use crate::find::{self, Entries, unreadable};
use crate::hosts::speech::{Dialect, Speech};
use crate::hosts::{self};
use crate::service::{
    AssembleRequest, Assembled, Entry, HistoryChanged, InMessage, OpsPage, OpsRequest, PinRequest, PinSet, Shown,
    UnfoldRequest, ViewPage, ViewRequest,
};
use crate::turn::owner_scope;

/// Places and ops that are read at once.
const PAGE: usize = 4096;
/// The newest moment.
const NOW: OpId = OpId(u64::MAX);

/// What a session shows at one moment.
struct Moment {
    session: Session,
    timeline: TimelineId,
    /// The newest op that counts.
    as_of: OpId,
    /// The places of the timeline then, in order.
    places: Vec<Placed>,
    /// What is shown of them; `None` while there are none.
    view: Option<View>,
    /// Messages that were rewritten since, and how often.
    rewritten: HashMap<Arrival, usize>,
    has_revisions: bool,
}

/// One thing that is shown.
enum Item {
    /// The message at this index of the places.
    Message(usize),
    Fold(Box<FoldItem>),
}

struct FoldItem {
    placed: Placed,
    id: NodeId,
    summary: Summary,
    /// The places that are not shown for it.
    places: Range<usize>,
}

impl Moment {
    /// What a session shows as of an op, or now.
    fn at(snapshot: &Snapshot, session: Session, as_of: Option<OpId>) -> Result<Self, EngineError> {
        let newest = snapshot.last_op()?;
        let as_of = match as_of {
            Some(op) if op > newest || op.0 == 0 => return Err(EngineError::NoOp(op)),
            Some(op) => op,
            None => newest,
        };
        // What came since, and was not there then.
        let since = match as_of == newest {
            true => Vec::new(),
            false => snapshot.ops_of(session.id, OpId(as_of.0 + 1)..=newest, Order::Oldest, usize::MAX)?,
        };
        let mut cutoff = Arrival(u64::MAX);
        let mut rewritten: HashMap<Arrival, usize> = HashMap::new();
        let mut has_left = false;
        for op in &since {
            match op.what {
                // Numbers rise with ops: the first that is too new bounds them all.
                Change::Ingest { first, .. } => cutoff = cutoff.min(first),
                Change::Revise { arrival, .. } => *rewritten.entry(arrival).or_default() += 1,
                Change::Branch { .. } => has_left = true,
                _ => {}
            }
        }
        let timeline = match has_left {
            false => session.timeline,
            true => timeline_at(snapshot, &session, as_of)?,
        };
        let mut places = places_of(snapshot, timeline)?;
        places.retain(|placed| placed.arrival < cutoff);
        if places.is_empty() && !since.is_empty() {
            return Err(EngineError::NotBegun { session: session.id, op: as_of });
        }
        let view = fitting(snapshot.view(session.id, as_of)?, &places);
        let has_revisions = snapshot.has_revisions()?;
        Ok(Self { session, timeline, as_of, places, view, rewritten, has_revisions })
    }

    /// The places of each segment, in order, with the summary that is shown instead of them.
    fn runs(&self) -> Vec<(Option<NodeId>, Range<usize>)> {
        let mut runs = Vec::new();
        let Some(view) = &self.view else { return runs };
        let begin = |order: &OrderKey| self.places.partition_point(|placed| placed.order < *order);
        // What came late in front of the first segment is shown as it is.
        let mut from = begin(&view.segments()[0].first);
        if from > 0 {
            runs.push((None, 0..from));
        }
        for (nth, segment) in view.segments().iter().enumerate() {
            let to = view.segments().get(nth + 1).map_or(self.places.len(), |next| begin(&next.first));
            let summary = match segment.shows {
                Shows::Raw => None,
                Shows::Folded(summary) => Some(summary),
            };
            if from < to {
                runs.push((summary, from..to));
            }
            from = to;
        }
        runs
    }

    /// Everything that is shown, in the order in which a model sees it.
    fn items(&self, snapshot: &Snapshot) -> Result<Vec<Item>, EngineError> {
        let scope = owner_scope(&self.session.owner);
        let mut items = Vec::new();
        let mut buffer = Buffer::default();
        for (summary, places) in self.runs() {
            let Some(id) = summary else {
                items.extend(places.map(Item::Message));
                continue;
            };
            let placed = summary_place(snapshot, &scope, &id, self.timeline)?;
            let summary = snapshot.summary(placed.record, &mut buffer)?;
            // Steps of a request stand in front of it.
            let mut at = items.len();
            if assemble::is_within(&summary) {
                for (before, item) in items.iter().enumerate().rev() {
                    let Item::Message(place) = item else { continue };
                    if self.speech(snapshot, *place)?.is_request() {
                        at = before;
                        break;
                    }
                }
            }
            items.insert(at, Item::Fold(Box::new(FoldItem { placed, id, summary, places })));
        }
        Ok(items)
    }

    /// Where the form of a message is that was the newest then, and the keys of its place.
    fn form(&self, snapshot: &Snapshot, place: usize) -> Result<(RecordNumber, Vec<u8>, bool), EngineError> {
        let placed = &self.places[place];
        if self.has_revisions {
            let mut forms = snapshot.revisions(placed.arrival)?;
            let since = self.rewritten.get(&placed.arrival).copied().unwrap_or(0);
            forms.truncate(forms.len().saturating_sub(since));
            if let Some((record, _, volatile)) = forms.pop() {
                return Ok((record, volatile, true));
            }
        }
        Ok((placed.record, placed.volatile.clone(), false))
    }

    /// A message as it was shown: its JSON without the keys of the place, and with them.
    fn said(&self, snapshot: &Snapshot, place: usize, with_keys: Keys) -> Result<Said, EngineError> {
        let (record, volatile, is_rewritten) = self.form(snapshot, place)?;
        let volatile = if with_keys == Keys::Kept { volatile } else { Vec::new() };
        let mut buffer = Buffer::default();
        snapshot.read(record, &mut buffer)?;
        let read = buffer.with_message(|message| {
            let tree = message.tree()?;
            let tokens = if is_rewritten { Estimate.count(&message) } else { self.places[place].tokens };
            Ok(Said { json: hosts::said(&tree, &volatile).0, tokens, role: tree.role(), speech: Speech::of(&tree) })
        });
        read.map_err(|error| unreadable(self.places[place].arrival, error))
    }

    fn speech(&self, snapshot: &Snapshot, place: usize) -> Result<Speech, EngineError> {
        Ok(self.said(snapshot, place, Keys::LeftOut)?.speech)
    }

    /// What all of it costs by the stored count.
    fn tokens(&self, snapshot: &Snapshot, items: &[Item]) -> Result<u64, EngineError> {
        let mut tokens = 0_u64;
        for item in items {
            tokens += u64::from(match item {
                Item::Fold(fold) => fold.summary.own_tokens,
                // Only what was rewritten has no count yet.
                Item::Message(place) if self.has_revisions => self.said(snapshot, *place, Keys::LeftOut)?.tokens,
                Item::Message(place) => self.places[*place].tokens,
            });
        }
        Ok(tokens)
    }
}

/// Whether the keys that belong to the place are put back behind the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Kept,
    LeftOut,
}

/// What is read of a message.
struct Said {
    json: Vec<u8>,
    tokens: u32,
    role: Role,
    speech: Speech,
}

/// The timeline that a session went on with at an op.
fn timeline_at(snapshot: &Snapshot, session: &Session, as_of: OpId) -> Result<TimelineId, EngineError> {
    // The newest branch up to then; before the first there is the timeline that came with the session.
    let mut until = as_of;
    loop {
        let page = snapshot.ops_of(session.id, OpId(1)..=until, Order::Newest, PAGE)?;
        let branch = page.iter().find_map(|op| match op.what {
            Change::Branch { to, .. } => Some(to),
            _ => None,
        });
        match (branch, page.last()) {
            (Some(timeline), _) => return Ok(timeline),
            (None, Some(op)) if op.id.0 > 1 => until = OpId(op.id.0 - 1),
            _ => break,
        }
    }
    let first = snapshot.timelines_of(session.id)?.into_iter().next();
    Ok(first.unwrap_or(session.timeline))
}

/// Every place of a timeline, in order.
fn places_of(snapshot: &Snapshot, timeline: TimelineId) -> Result<Vec<Placed>, EngineError> {
    let mut places: Vec<Placed> = Vec::new();
    loop {
        let behind = places.last().map(|placed| placed.order.clone());
        let page = snapshot.log(timeline, behind.as_ref(), PAGE)?;
        let is_last = page.len() < PAGE;
        places.extend(page);
        if is_last {
            return Ok(places);
        }
    }
}

/// What of a view can be shown of these places: folds whose two ends are places of them; all else as it was said.
fn fitting(view: Option<View>, places: &[Placed]) -> Option<View> {
    let first = &places.first()?.order;
    let Some(view) = view else { return Some(View::raw(first.clone())) };
    let is_there = |order: &OrderKey| places.binary_search_by(|placed| placed.order.cmp(order)).is_ok();
    let mut segments = view.segments().to_vec();
    for at in 0..segments.len() {
        let ends = segments.get(at + 1).is_some_and(|next| is_there(&next.first));
        if !(ends && is_there(&segments[at].first)) {
            segments[at].shows = Shows::Raw;
        }
    }
    if segments.iter().all(|segment| segment.shows == Shows::Raw) {
        return Some(View::raw(first.clone()));
    }
    // Only what is shown was changed, so the order is still that of a view.
    View::new(segments).ok().or_else(|| Some(View::raw(first.clone())))
}

/// Whether nothing of a view is left out where it is shown of these places.
fn fits(view: &View, places: &[Placed]) -> bool {
    fitting(Some(view.clone()), places).is_some_and(|fitted| fitted.summaries().eq(view.summaries()))
}

/// The place of a summary: on a timeline, else its first in scope.
fn summary_place(snapshot: &Snapshot, scope: &Scope, id: &NodeId, timeline: TimelineId) -> Result<Placed, EngineError> {
    let places = snapshot.places_of(scope, id)?;
    let here = places.iter().position(|placed| placed.timeline == timeline);
    places.into_iter().nth(here.unwrap_or(0)).ok_or_else(|| lcm_store::StoreError::NotFound(*id).into())
}

/// The arrival numbers of the messages below a node, without an order.
fn originals(snapshot: &Snapshot, scope: &Scope, placed: &Placed) -> Result<HashSet<Arrival>, EngineError> {
    let (mut messages, mut open, mut seen) = (HashSet::new(), vec![placed.clone()], HashSet::new());
    while let Some(placed) = open.pop() {
        if placed.summary.is_none() {
            messages.insert(placed.arrival);
        } else if seen.insert(placed.record) {
            open.extend(snapshot.child_places(scope, placed.record)?);
        }
    }
    Ok(messages)
}

/// What a session shows.
pub(crate) fn view(snapshot: &Snapshot, request: &ViewRequest) -> Result<ViewPage, EngineError> {
    let session = find::session(snapshot, &request.scope, request.session)?;
    let moment = Moment::at(snapshot, session, request.as_of)?;
    let items = moment.items(snapshot)?;
    let pins: HashSet<Arrival> = snapshot.pins(moment.session.id)?.into_iter().collect();
    let scope = owner_scope(&moment.session.owner);
    let mut entries = Entries::new(snapshot);
    let mut page = ViewPage {
        session: moment.session.clone(),
        timeline: moment.timeline,
        as_of: moment.as_of,
        items: Vec::new(),
        items_all: items.len(),
        tokens: moment.tokens(snapshot, &items)?,
        next: None,
    };
    let mut bytes = 0_usize;
    for (at, item) in items.iter().enumerate().skip(request.skip) {
        if page.items.len() == request.max.max(1) || (bytes >= request.bytes_max && !page.items.is_empty()) {
            page.next = Some(at);
            break;
        }
        page.items.push(match item {
            Item::Message(place) => {
                let said = moment.said(snapshot, *place, Keys::Kept)?;
                bytes = bytes.saturating_add(said.json.len());
                let placed = &moment.places[*place];
                let mut entry = entries.entry(placed)?;
                entry.tokens = said.tokens;
                Shown::Message { is_pinned: pins.contains(&placed.arrival), entry, json: said.json }
            }
            Item::Fold(fold) => {
                bytes = bytes.saturating_add(fold.summary.text().len());
                let below = originals(snapshot, &scope, &fold.placed)?;
                let late = moment.places[fold.places.clone()].iter().filter(|placed| !below.contains(&placed.arrival));
                Shown::Fold {
                    entry: entries.named(&fold.placed, fold.id, Role::Other)?,
                    text: fold.summary.text().to_owned(),
                    depth: fold.summary.depth(),
                    messages: number(fold.places.len()),
                    late: number(late.count()),
                    source_tokens: fold.summary.source_tokens,
                    is_within: assemble::is_within(&fold.summary),
                }
            }
        });
    }
    Ok(page)
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The list that a host would send of what a session shows.
pub(crate) fn assemble(snapshot: &Snapshot, request: &AssembleRequest) -> Result<Assembled, EngineError> {
    let session = find::session(snapshot, &request.scope, request.session)?;
    let moment = Moment::at(snapshot, session, request.as_of)?;
    let items = moment.items(snapshot)?;
    // The newest form of each, and which format they are in.
    let mut said: Vec<Option<Said>> = Vec::with_capacity(items.len());
    for item in &items {
        said.push(match item {
            Item::Message(place) => Some(moment.said(snapshot, *place, Keys::LeftOut)?),
            Item::Fold(_) => None,
        });
    }
    let has_blocks = |said: &Said| said.role == Role::User && !said.speech.results.is_empty();
    let dialect = match said.iter().flatten().any(has_blocks) {
        true => Dialect::Anthropic,
        false => Dialect::OpenAi,
    };
    let made = |role: &str, text: &str| dialect.message(role, text).to_text();
    let mut messages: Vec<Vec<u8>> = Vec::with_capacity(items.len());
    let mut at = 0;
    // Whether a user's message stands last, and whether it is one of ours.
    let (mut after_user, mut after_ours) = (false, false);
    while at < items.len() {
        if let Some(said) = said[at].take() {
            let is_user = said.role == Role::User;
            if is_user && after_ours {
                messages.push(made("assistant", assemble::BETWEEN));
            }
            messages.push(said.json);
            (after_user, after_ours) = (is_user, false);
            at += 1;
            continue;
        }
        // Folds that stand side by side share a message.
        let run = items[at..].iter().map_while(|item| match item {
            Item::Fold(fold) => Some(&**fold),
            Item::Message(_) => None,
        });
        let run: Vec<&FoldItem> = run.collect();
        if after_user {
            messages.push(made("assistant", assemble::BETWEEN));
        }
        messages.push(made("user", &assemble::folds(run.iter().map(|fold| (&fold.id, &fold.summary)))));
        (after_user, after_ours) = (true, true);
        at += run.len();
    }
    Ok(Assembled { session: moment.session, as_of: moment.as_of, dialect, messages })
}

/// A change that is planned on one moment and written on the same, or planned again.
fn write<P, T>(
    store: &Store,
    plan: impl Fn(&Snapshot) -> Result<P, EngineError>,
    carry_out: impl FnOnce(&mut lcm_store::Commit<'_>, P) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let snapshot = store.snapshot()?;
    let seen = snapshot.last_op()?;
    let planned = plan(&snapshot)?;
    drop(snapshot);
    store.commit(|commit| {
        // We hold the lock: what the newest snapshot shows is what we write on.
        let planned = if commit.last_op() == seen { planned } else { plan(&store.snapshot()?)? };
        carry_out(commit, planned)
    })
}

/// A view that is to be shown instead of another.
struct NewView {
    session: Session,
    view: View,
    tokens_before: u64,
    tokens_after: u64,
}

impl NewView {
    fn new(snapshot: &Snapshot, mut moment: Moment, view: View) -> Result<Self, EngineError> {
        let tokens_before = moment.tokens(snapshot, &moment.items(snapshot)?)?;
        moment.view = Some(view.clone());
        let tokens_after = moment.tokens(snapshot, &moment.items(snapshot)?)?;
        Ok(Self { session: moment.session, view, tokens_before, tokens_after })
    }

    fn changed(self, op: Op) -> HistoryChanged {
        let Self { session, tokens_before, tokens_after, .. } = self;
        HistoryChanged { session, op, tokens_before, tokens_after }
    }
}

/// Shows again what a summary stands for.
pub(crate) fn unfold(store: &Store, request: &UnfoldRequest) -> Result<HistoryChanged, EngineError> {
    let plan = |snapshot: &Snapshot| {
        let placed = snapshot.find_place(&request.scope, request.number)?;
        let placed = placed.ok_or(EngineError::NoPlace(request.number))?;
        let mut buffer = Buffer::default();
        snapshot.read(placed.record, &mut buffer)?;
        let id = buffer.id();
        if placed.summary.is_none() {
            return Err(EngineError::NotASummary(Handle::message(id)));
        }
        let session = match request.session {
            Some(session) => session,
            None => snapshot.timeline(placed.timeline)?.session,
        };
        let session = find::session(snapshot, &request.scope, session)?;
        let moment = Moment::at(snapshot, session, None)?;
        let view = unfolded(snapshot, &moment, &placed, id)?;
        Ok((NewView::new(snapshot, moment, view)?, id))
    };
    write(store, plan, |commit, (new, summary)| {
        let what = Change::Unfold { summary };
        let op = commit.op(new.session.id, request.now_ms, &request.by, what, Some(&new.view))?;
        Ok(new.changed(op))
    })
}

/// The view that shows the children of a summary where it is shown.
fn unfolded(snapshot: &Snapshot, moment: &Moment, placed: &Placed, id: NodeId) -> Result<View, EngineError> {
    let not_shown = || EngineError::NotShown { session: moment.session.id, summary: Handle::summary(id) };
    let view = moment.view.as_ref().ok_or_else(not_shown)?;
    let (_, run) = moment.runs().into_iter().find(|(summary, _)| *summary == Some(id)).ok_or_else(not_shown)?;
    let first = moment.places[run.start].order.clone();
    let mut shown = view.unfold(id, &[Segment { first, shows: Shows::Raw }]).map_err(|_| not_shown())?;
    let scope = owner_scope(&moment.session.owner);
    let mut buffer = Buffer::default();
    for child in snapshot.child_places(&scope, placed.record)? {
        if child.summary.is_none() {
            continue;
        }
        let below = originals(snapshot, &scope, &child)?;
        let is_below = |place: &usize| below.contains(&moment.places[*place].arrival);
        let (Some(low), Some(high)) = (run.clone().find(is_below), run.clone().rfind(is_below)) else { continue };
        let Some(next) = moment.places.get(high + 1) else { continue };
        snapshot.read(child.record, &mut buffer)?;
        // One that does not lie beside the others is shown as it was said.
        if let Ok(folded) = shown.fold(&moment.places[low].order, &next.order, buffer.id()) {
            shown = folded;
        }
    }
    Ok(shown)
}

/// Lets a message never be folded, or lets it be folded again.
pub(crate) fn pin(store: &Store, request: &PinRequest) -> Result<PinSet, EngineError> {
    struct Plan {
        session: Session,
        entry: Entry,
        is_changed: bool,
        behind: Option<Handle>,
    }
    let plan = |snapshot: &Snapshot| {
        let placed = snapshot.find_place(&request.scope, request.number)?;
        let placed = placed.ok_or(EngineError::NoPlace(request.number))?;
        let entry = Entries::new(snapshot).entry(&placed)?;
        if placed.summary.is_some() {
            return Err(EngineError::NotAMessage(entry.handle));
        }
        let session = find::session(snapshot, &request.scope, request.session.unwrap_or(entry.session))?;
        let moment = Moment::at(snapshot, session, None)?;
        let Some(at) = moment.places.iter().position(|other| other.arrival == placed.arrival) else {
            return Err(EngineError::NotOnTimeline { number: placed.arrival, timeline: moment.timeline });
        };
        let run = moment.runs().into_iter().find(|(_, run)| run.contains(&at));
        let behind = run.and_then(|(summary, _)| summary).map(Handle::summary);
        let is_pinned = snapshot.pins(moment.session.id)?.contains(&placed.arrival);
        Ok(Plan { session: moment.session, entry, is_changed: is_pinned != (request.pinned == Pinned::Yes), behind })
    };
    let set = |plan: Plan, op| PinSet { session: plan.session, entry: plan.entry, op, behind: plan.behind };
    let planned = plan(&store.snapshot()?)?;
    if !planned.is_changed {
        return Ok(set(planned, None));
    }
    write(store, plan, |commit, plan| {
        let arrival = plan.entry.number;
        commit.pin(plan.session.id, arrival, request.pinned)?;
        let what = match request.pinned {
            Pinned::Yes => Change::Pin { arrival },
            Pinned::No => Change::Unpin { arrival },
        };
        let op = commit.op(plan.session.id, request.now_ms, &request.by, what, None)?;
        Ok(set(plan, Some(op)))
    })
}

/// The entries of a session's history.
pub(crate) fn ops(snapshot: &Snapshot, request: &OpsRequest) -> Result<OpsPage, EngineError> {
    let session = find::session(snapshot, &request.scope, request.session)?;
    let range = match (request.order, request.from) {
        (Order::Oldest, from) => from.unwrap_or(OpId(1))..=NOW,
        (Order::Newest, from) => OpId(1)..=from.unwrap_or(NOW),
    };
    let max = request.max.max(1);
    // One more than asked for tells where to go on.
    let mut ops = snapshot.ops_of(session.id, range, request.order, max.saturating_add(1))?;
    let next = (ops.len() > max).then(|| ops.pop()).flatten().map(|op| op.id);
    Ok(OpsPage { session, ops, next })
}

/// Why a provider would refuse a list; `None` when it takes it.
pub(crate) fn refusal(messages: &[InMessage], alternates: bool) -> Result<Option<String>, EngineError> {
    let mut speeches = Vec::with_capacity(messages.len());
    for raw in messages {
        let encoded = Message::parse(raw)?.encode()?;
        let bodies = encoded.body_slices();
        let stored = encoded.stored(&bodies);
        let tree = stored.tree().map_err(|error| unreadable(Arrival(0), error))?;
        speeches.push(Speech::of(&tree));
    }
    let has_blocks = |speech: &Speech| speech.role == Role::User && !speech.results.is_empty();
    let dialect = if speeches.iter().any(has_blocks) { Dialect::Anthropic } else { Dialect::OpenAi };
    let checked = crate::valid::check(&speeches, crate::valid::Rules { dialect, alternates });
    Ok(checked.err().map(|invalid| invalid.to_string()))
}

#[cfg(test)]
mod tests;
