//! A turn: a host shows its whole list, and what is new in it is kept, in one commit.
//!
//! What was seen before is known by the hash of its text and costs that hash; the rest is read, encoded and counted
//! (`element`). The list is aligned with the session's timeline (`line`, `forms`, `live`, and `align`, which is pure); what is to
//! be done is planned (`plan`) outside of the write lock and carried out here, inside. When somebody else has written to
//! the session meanwhile it is planned again there. `behind` is the way back: what a list stands for.

mod element;
mod line;
mod forms;
mod live;
mod plan;
mod behind;

use std::collections::HashMap;
use std::sync::Arc;

use lcm_core::op::Change;
use lcm_core::{Arrival, EncodedMessage, NodeId, OrderKey, SessionId, TimelineId};
use lcm_store::{Commit, NewPlace, Prepared, Snapshot, Store};

pub(crate) use self::behind::behind;
pub(crate) use self::element::{Element, Sent, dialect_of, head_of, sendable};
pub(crate) use self::line::Line;
use self::line::Stand;
pub(crate) use self::live::{Fold, List, Live, Ours, owner_scope};
use self::plan::Plan;
use crate::align::{Fate, Stood};
use crate::compress;
use crate::error::EngineError;
use crate::hosts::IncomingMessage;
use crate::redact::Redactor;
use crate::service::{SessionKey, TurnRequest, Turned};

/// One turn on its way into the store.
struct Turn<'r> {
    request: &'r TurnRequest,
    sent: Sent<'r>,
    hashes: Vec<[u8; 32]>,
    elements: Vec<Arc<Element>>,
    /// Of elements that were read now.
    encoded: Vec<Option<EncodedMessage>>,
}

/// A list that was taken in.
pub(crate) struct Taken {
    pub(crate) turned: Turned,
    /// The session as it is now.
    pub(crate) live: Live,
    pub(crate) elements: Vec<Arc<Element>>,
    /// The folds that the list shows.
    pub(crate) folds: Vec<NodeId>,
}

/// Takes a list in, without the secrets that the redactor knows. `remembered` gives what is remembered of a session, for
/// good.
pub(crate) fn take_in(
    store: &Store,
    request: &TurnRequest,
    redactor: Option<&Redactor>,
    remembered: &dyn Fn(SessionId) -> Option<Live>,
) -> Result<Taken, EngineError> {
    let snapshot = store.snapshot()?;
    let mut live = live_of(&snapshot, &request.key, remembered)?;
    let mut turn = Turn::new(request, redactor, live.as_ref())?;
    let mut plan = turn.plan(&snapshot, live.as_mut())?;
    let mut turned = Turned { key: request.key.clone(), ..Turned::default() };
    turned.session = live.as_ref().map(|live| live.session.id);
    if plan.has_work() {
        let seen = snapshot.last_op()?;
        drop(snapshot);
        let mut prepared = turn.prepare(store, &plan)?;
        store.commit(|commit| {
            let still_holds = match &mut live {
                Some(live) => live.still_holds_in(store, commit)?,
                None => commit.last_op() == seen,
            };
            if !still_holds {
                // We hold the lock: what the newest snapshot shows is what we write on.
                let snapshot = store.snapshot()?;
                let session = snapshot.session_named(&request.key.owner, &request.key.name)?;
                live = session.map(|session| Live::load(&snapshot, session)).transpose()?;
                plan = turn.plan(&snapshot, live.as_mut())?;
                prepared = turn.prepare(store, &plan)?;
            }
            if plan.has_work() {
                turned.session = Some(turn.carry_out(commit, &plan, &prepared, live.as_mut(), &mut turned)?);
            }
            Ok::<_, EngineError>(())
        })?;
        match (&mut live, turned.session, turned.op) {
            (Some(live), _, Some(op)) if turned.is_plain() => live.took(op),
            (None, Some(session), _) | (_, Some(session), Some(_)) => {
                let snapshot = store.snapshot()?;
                live = Some(Live::load(&snapshot, snapshot.session(session)?)?);
            }
            _ => {}
        }
    }
    if let Plan::Other(key) = plan {
        return take_in(store, &TurnRequest { key, ..request.clone() }, redactor, remembered);
    }
    // An empty list for a session that is not there: there is nothing to keep, and nothing to remember.
    let mut live = live.ok_or_else(|| EngineError::NothingSaid(request.key.name.clone()))?;
    live.remember(&turn.hashes, &turn.elements);
    let folds;
    (turned.published, folds) = live.publish(store, request, &turn.elements)?;
    turned.tokens = compress::cost_of(&turn.elements);
    Ok(Taken { turned, live, elements: turn.elements, folds })
}

/// What is known of a session now; `None` where there is none.
fn live_of(
    snapshot: &Snapshot,
    key: &SessionKey,
    remembered: &dyn Fn(SessionId) -> Option<Live>,
) -> Result<Option<Live>, EngineError> {
    let Some(session) = snapshot.session_named(&key.owner, &key.name)? else { return Ok(None) };
    Ok(Some(match remembered(session.id) {
        None => Live::load(snapshot, session)?,
        Some(mut live) => match live.still_holds(snapshot, &session)? {
            true => live,
            false => live.reload(snapshot, session)?,
        },
    }))
}

/// A list that was read, and not taken in.
pub(crate) struct Looked {
    /// The session as it is; `None` where there is none.
    pub(crate) live: Option<Live>,
    pub(crate) hashes: Vec<[u8; 32]>,
    pub(crate) elements: Vec<Arc<Element>>,
}

/// Reads a list without taking anything in. `remembered` is as for [`take_in`].
pub(crate) fn look(
    snapshot: &Snapshot,
    key: &SessionKey,
    sent: Sent<'_>,
    remembered: &dyn Fn(SessionId) -> Option<Live>,
) -> Result<Looked, EngineError> {
    let mut live = live_of(snapshot, key, remembered)?;
    let (hashes, elements, _) = read(sent, live.as_ref())?;
    if let Some(live) = &mut live {
        live.remember(&hashes, &elements);
    }
    Ok(Looked { live, hashes, elements })
}

/// The id under which the first message of a list is kept.
pub(crate) fn id_of(sent: Sent<'_>) -> Result<NodeId, EngineError> {
    Ok(sent.element(0)?.0.id)
}

type Read = (Vec<[u8; 32]>, Vec<Arc<Element>>, Vec<Option<EncodedMessage>>);

/// Reads what was not seen before.
fn read(sent: Sent<'_>, live: Option<&Live>) -> Result<Read, EngineError> {
    let count = sent.messages.len();
    let (mut hashes, mut elements) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let mut encoded = Vec::with_capacity(count);
    for (at, raw) in sent.messages.iter().enumerate() {
        let hash = raw.hash();
        hashes.push(hash);
        match live.and_then(|live| live.known(&hash)) {
            Some(known) => {
                elements.push(known.clone());
                encoded.push(None);
            }
            None => {
                let (element, message) = sent.element(at)?;
                elements.push(Arc::new(element));
                encoded.push(Some(message));
            }
        }
    }
    Ok((hashes, elements, encoded))
}

impl<'r> Turn<'r> {
    fn new(request: &'r TurnRequest, redactor: Option<&'r Redactor>, live: Option<&Live>) -> Result<Self, EngineError> {
        let sent = Sent::of(request, redactor);
        let (hashes, elements, encoded) = read(sent, live)?;
        Ok(Self { request, sent, hashes, elements, encoded })
    }

    /// Hashes and compresses what the plan needs.
    fn prepare(&mut self, store: &Store, plan: &Plan) -> Result<HashMap<usize, Prepared>, EngineError> {
        let wanted: Vec<usize> = match plan {
            Plan::Nothing | Plan::Other(_) => Vec::new(),
            Plan::Grow { fates } | Plan::Branch { fates, .. } | Plan::GoOn { fates, .. } => {
                (0..fates.len()).filter(|at| fates[*at].is_new()).collect()
            }
            Plan::Begin { said } => said.clone(),
        };
        let mut encoded = Vec::with_capacity(wanted.len());
        for &at in &wanted {
            encoded.push(match self.encoded[at].take() {
                Some(encoded) => encoded,
                None => self.sent.element(at)?.1,
            });
        }
        Ok(wanted.into_iter().zip(store.prepare(&encoded)?).collect())
    }

    /// Of a list that begins something: all but what was recalled into it, and a line of ours beside that or at its
    /// beginning.
    fn said(&self, snapshot: &Snapshot) -> Result<Vec<usize>, EngineError> {
        let head = head_of(&self.elements);
        let scope = owner_scope(&self.request.key.owner);
        let mut recalls = Vec::with_capacity(self.elements.len());
        for (at, element) in self.elements.iter().enumerate() {
            let claims = element.recalls().filter(|_| live::has_line_behind(&self.elements, at));
            let holds = claims.map_or(Ok(false), |claims| live::recall_holds(snapshot, &scope, claims))?;
            recalls.push(holds.then_some(()));
        }
        let is_ours = |at: usize| {
            recalls[at].is_some()
                || (self.elements[at].is_like_line() && live::is_our_line(&recalls, at, head, |()| true))
        };
        Ok((0..self.elements.len()).filter(|at| !is_ours(*at)).collect())
    }

    fn place<'p>(&'p self, prepared: &'p HashMap<usize, Prepared>, at: usize) -> NewPlace<'p> {
        NewPlace {
            message: prepared.get(&at).expect("every element of a plan is prepared: see `prepare`"),
            seen_ms: self.elements[at].seen_ms(self.request.now_ms),
            tokens: self.elements[at].tokens,
            volatile: &self.elements[at].volatile,
        }
    }

    /// Writes what is planned; gives the session.
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
        let line = live.as_ref().map(|live| &live.line);
        let timeline = commit.timeline_of(session)?;
        let mut writing = Writing { commit, session, request, turned };
        let all_new = |fates: &[Fate]| (0..fates.len()).filter(|at| fates[*at] == Fate::New).collect::<Vec<_>>();
        let (timeline, fresh) = match plan {
            Plan::Nothing | Plan::Other(_) => return Ok(session),
            Plan::Grow { fates } => {
                if let Some(line) = line {
                    self.mend(&mut writing, line, fates, prepared)?;
                }
                (timeline, all_new(fates))
            }
            Plan::Branch { parent, last, fates, on } => {
                let line = on.as_deref().or(line);
                if let Some(line) = line {
                    self.mend(&mut writing, line, fates, prepared)?;
                }
                let to = writing.commit.branch(session, *parent, last, request.now_ms)?;
                let shared = line.map_or(0, |line| line.stands.partition_point(|stand| stand.order <= *last));
                writing.left(*parent, to, shared)?;
                (to, all_new(fates))
            }
            Plan::GoOn { timeline: to, fates, on } => {
                writing.commit.go_on_with(session, Some(*to), request.now_ms)?;
                if let Some(line) = on {
                    self.mend(&mut writing, line, fates, prepared)?;
                }
                let known = fates.iter().filter(|fate| matches!(fate, Fate::Known(_))).count();
                writing.left(timeline, *to, known)?;
                (*to, all_new(fates))
            }
            // The first timeline of a session came with it.
            Plan::Begin { said } if line.is_none_or(|line| line.len() == 0) => (timeline, said.clone()),
            Plan::Begin { said } => {
                let to = writing.commit.go_on_with(session, None, request.now_ms)?;
                writing.left(timeline, to, 0)?;
                (to, said.clone())
            }
        };
        let places: Vec<NewPlace<'_>> = fresh.iter().map(|at| self.place(prepared, *at)).collect();
        if let Some((first, last)) = writing.commit.append(timeline, &places)? {
            writing.op(Change::Ingest { timeline, first, last })?;
            let Writing { commit, turned, .. } = writing;
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
                        seen_ms: element.seen_ms(request.now_ms),
                        tokens: element.tokens,
                    };
                    live.line.push(
                        stand,
                        Stood {
                            forms: std::iter::once(element.id).chain(element.likeness).collect(),
                            signs: element.signs.clone(),
                        },
                    );
                }
            }
        }
        Ok(session)
    }

    /// Writes revisions and late places.
    fn mend(
        &self,
        writing: &mut Writing<'_, '_>,
        line: &Line,
        fates: &[Fate],
        prepared: &HashMap<usize, Prepared>,
    ) -> Result<(), EngineError> {
        // Where the last late place went, so that the next of the same gap goes behind it.
        let mut before: Option<(Option<usize>, OrderKey)> = None;
        for (at, fate) in fates.iter().enumerate() {
            match *fate {
                Fate::Revised(place) => {
                    let arrival = line.stands[place].arrival;
                    let form = prepared.get(&at).expect("every element of a plan is prepared: see `prepare`");
                    writing.commit.revise(arrival, form, self.request.now_ms, &self.elements[at].volatile)?;
                    writing.op(Change::Revise { arrival, form: form.id() })?;
                    writing.turned.revised += 1;
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
                    let arrival = writing.commit.insert(line.timeline, &order, &self.place(prepared, at))?;
                    before = Some((behind, order));
                    writing.op(Change::Ingest { timeline: line.timeline, first: arrival, last: arrival })?;
                    writing.turned.late += 1;
                }
                Fate::Known(_) | Fate::Ours | Fate::New => {}
            }
        }
        Ok(())
    }
}

/// The commit of a turn, and what came of it.
struct Writing<'w, 'c> {
    commit: &'w mut Commit<'c>,
    session: SessionId,
    request: &'w TurnRequest,
    turned: &'w mut Turned,
}

impl Writing<'_, '_> {
    fn op(&mut self, change: Change) -> Result<(), EngineError> {
        let op = self.commit.op(self.session, self.request.now_ms, &self.request.by, change, None)?;
        self.turned.op = Some(op.id);
        Ok(())
    }

    /// The session goes on with another timeline, which shares so many messages.
    fn left(&mut self, from: TimelineId, to: TimelineId, shared: usize) -> Result<(), EngineError> {
        self.turned.branched = true;
        let shared = u64::try_from(shared).unwrap_or(u64::MAX);
        self.op(Change::Branch { from: Some(from), to, shared })
    }
}

/// What a list costs by the stored count.
pub(crate) fn weigh(sent: Sent<'_>) -> Result<u64, EngineError> {
    let count = |at| Ok::<_, EngineError>(IncomingMessage::new(&sent.message(at)?)?.tokens);
    sent.messages.iter().enumerate().map(|(at, message)| Ok(u64::from(message.tokens(|| count(at))?))).sum()
}
