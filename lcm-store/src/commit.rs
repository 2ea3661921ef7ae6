//! One write: nodes, places, links, view and op in a single redb transaction.
//!
//! What can be done before the write lock is taken is done before ([`Prepared`]: hashing, compressing). A commit
//! either becomes durable as a whole or leaves nothing. Numbers (records, arrivals, ops) rise from what the
//! tables hold, inside the transaction, so that two processes never give the same one.

use std::path::Path;
use std::sync::Arc;

use lcm_core::limits::{MESSAGE_BYTES_MAX, NAME_BYTES_MAX, ORDER_KEY_BYTES_MAX};
use lcm_core::op::{Change, Op};
use lcm_core::view::View;
use lcm_core::{
    Arrival, EncodedMessage, NodeId, OpId, OrderKey, Owner, SessionId, Summary, SummaryNumber, TimelineId, canon,
};
use rayon::prelude::*;
use redb::{ReadableTable, Table, WriteTransaction};

use crate::error::{StoreError, contained};
use crate::pack::{self, Dictionary, Payload};
use crate::record::{ChildrenRow, OpRow, PlaceKind, PlaceRow, RevisionRow, Row, SessionRow, TimelineRow, ViewRow};
use crate::snapshot::RecordNumber;
use crate::tables;

/// From this many messages on, preparing is spread over the cores; a turn is quicker on one.
const PARALLEL_MIN: usize = 32;
/// A message ready to be written: encoded, hashed and compressed.
#[derive(Clone, Debug)]
pub struct Prepared {
    id: NodeId,
    main: Payload,
    bodies: Vec<([u8; 32], u128, Payload)>,
}

impl Prepared {
    /// The message's id.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.id
    }

    pub(crate) fn new(message: &EncodedMessage, dictionary: Option<&Dictionary>) -> Result<Self, StoreError> {
        let size = message.canon.len() + message.bodies.iter().map(|body| body.bytes.len()).sum::<usize>();
        if size > MESSAGE_BYTES_MAX + MESSAGE_BYTES_MAX / 8 {
            return Err(StoreError::TooLarge { what: "a message", size, max: MESSAGE_BYTES_MAX });
        }
        let body = |body: &lcm_core::EncodedBody| {
            (*body.id.as_bytes(), body.id.key(), Payload::new(&body.bytes, &[], dictionary))
        };
        Ok(Self {
            id: message.id,
            main: Payload::new(&message.canon, &message.order, dictionary),
            bodies: message.bodies.iter().map(body).collect(),
        })
    }
}

/// Prepares many messages, on all cores when there are enough of them.
pub(crate) fn prepare(
    messages: &[EncodedMessage],
    dictionary: Option<&Arc<Dictionary>>,
) -> Result<Vec<Prepared>, StoreError> {
    let one = |message: &EncodedMessage| Prepared::new(message, dictionary.map(|dictionary| &**dictionary));
    if messages.len() < PARALLEL_MIN {
        messages.iter().map(one).collect()
    } else {
        messages.par_iter().map(one).collect()
    }
}

/// A message to be put at a place.
#[derive(Clone, Copy, Debug)]
pub struct NewPlace<'a> {
    /// What to put there.
    pub message: &'a Prepared,
    /// When it was said, as its host tells, else now: milliseconds since 1970 UTC.
    pub seen_ms: i64,
    /// Its stored count.
    pub tokens: u32,
    /// The keys that belong to the place, as one JSON object; empty for none.
    pub volatile: &'a [u8],
}

/// Whether a message may be folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    /// Never.
    Yes,
    /// As any other.
    No,
}

/// The number behind the last that was given; 1 when there is none.
fn number_behind(last: Option<u64>) -> Result<u64, StoreError> {
    let next = last.unwrap_or(0).checked_add(1);
    next.ok_or_else(|| StoreError::damaged_file("a table's last number is the last there is"))
}

/// Places of a timeline that a line has: all, or those up to an order key and an arrival number.
#[derive(Clone)]
struct Stretch {
    timeline: u64,
    until: Option<(OrderKey, u64)>,
}

impl Stretch {
    fn has(&self, row: &PlaceRow, arrival: u64, order: &OrderKey) -> bool {
        let is_until = |(last, newest): &(OrderKey, u64)| arrival <= *newest && order <= last;
        row.timeline == self.timeline && self.until.as_ref().is_none_or(is_until)
    }
}

/// An open write. Nothing of it is seen by anybody before the closure that got it has returned and redb has
/// committed.
pub struct Commit<'t> {
    txn: &'t WriteTransaction,
    /// The data file, for errors.
    file: &'t Path,
    records: Table<'t, u64, &'static [u8]>,
    hashes: Table<'t, u128, (u64, u64)>,
    places: Table<'t, u64, &'static [u8]>,
    timeline: Table<'t, &'static [u8], u64>,
    ops: Table<'t, u64, &'static [u8]>,
    next_record: u64,
    next_arrival: u64,
    next_op: u64,
}

impl<'t> Commit<'t> {
    pub(crate) fn new(txn: &'t WriteTransaction, file: &'t Path) -> Result<Self, StoreError> {
        let records = txn.open_table(tables::RECORDS)?;
        let places = txn.open_table(tables::PLACES)?;
        let ops = txn.open_table(tables::OPS)?;
        let next = |table: &Table<'t, u64, &'static [u8]>| -> Result<u64, StoreError> {
            number_behind(table.last()?.map(|(key, _)| key.value()))
        };
        let (next_record, next_arrival, next_op) = (next(&records)?, next(&places)?, next(&ops)?);
        Ok(Self {
            txn,
            file,
            hashes: txn.open_table(tables::HASHES)?,
            timeline: txn.open_table(tables::TIMELINE)?,
            records,
            places,
            ops,
            next_record,
            next_arrival,
            next_op,
        })
    }

    /// The session that `owner`'s host calls `name`, made with a first timeline when there is none.
    ///
    /// # Errors
    /// [`StoreError::TooLarge`] for a name beyond its bound; otherwise when the database fails.
    pub fn session(&mut self, owner: &Owner, name: &str, source: &str, now_ms: i64) -> Result<SessionId, StoreError> {
        contained(self.file, || {
            for (what, text) in [
                ("an agent's name", &*owner.agent),
                ("a person's name", &owner.person),
                ("a session's name", name),
                ("a source's name", source),
            ] {
                if text.len() > NAME_BYTES_MAX {
                    return Err(StoreError::TooLarge { what, size: text.len(), max: NAME_BYTES_MAX });
                }
            }
            let owner_number = self.owner(owner)?;
            let mut names = self.txn.open_table(tables::SESSION_NAMES)?;
            if let Some(known) = names.get((owner_number, name))? {
                return Ok(SessionId(known.value()));
            }
            let mut sessions = self.txn.open_table(tables::SESSIONS)?;
            let id = number_behind(sessions.last()?.map(|(key, _)| key.value()))?;
            names.insert((owner_number, name), id)?;
            let timeline =
                self.new_timeline(&TimelineRow { session: id, owner: owner_number, parent: None, created_ms: now_ms })?;
            let row = SessionRow {
                owner: owner_number,
                agent: owner.agent.clone(),
                person: owner.person.clone(),
                name: name.to_owned(),
                source: source.to_owned(),
                created_ms: now_ms,
                timeline: timeline.0,
            };
            sessions.insert(id, row.to_bytes(id).as_slice())?;
            Ok(SessionId(id))
        })
    }

    fn owner(&mut self, owner: &Owner) -> Result<u64, StoreError> {
        let mut owners = self.txn.open_table(tables::OWNERS)?;
        let key = (owner.agent.as_str(), owner.person.as_str());
        if let Some(known) = owners.get(key)? {
            return Ok(known.value());
        }
        // A handful of owners: counting them is cheaper than keeping a counter.
        let mut number = 1;
        for entry in owners.iter()? {
            number = number.max(number_behind(Some(entry?.1.value()))?);
        }
        owners.insert(key, number)?;
        Ok(number)
    }

    fn new_timeline(&mut self, row: &TimelineRow) -> Result<TimelineId, StoreError> {
        let mut timelines = self.txn.open_table(tables::TIMELINES)?;
        let id = number_behind(timelines.last()?.map(|(key, _)| key.value()))?;
        timelines.insert(id, row.to_bytes(id).as_slice())?;
        self.txn.open_table(tables::SESSION_TIMELINES)?.insert((row.session, id), ())?;
        Ok(TimelineId(id))
    }

    fn session_row(&self, session: SessionId) -> Result<SessionRow, StoreError> {
        let sessions = self.txn.open_table(tables::SESSIONS)?;
        let row = sessions.get(session.0)?.ok_or(StoreError::NoSession(session))?;
        SessionRow::from_bytes(row.value(), session.0)
    }

    /// The timeline a session goes on with, read inside this write.
    ///
    /// # Errors
    /// [`StoreError::NoSession`] when there is no such session.
    pub fn timeline_of(&self, session: SessionId) -> Result<TimelineId, StoreError> {
        contained(self.file, || Ok(TimelineId(self.session_row(session)?.timeline)))
    }

    /// The newest arrival number, those of this write included.
    #[must_use]
    pub fn last_arrival(&self) -> Arrival {
        Arrival(self.next_arrival - 1)
    }

    /// The newest op, those of this write included.
    #[must_use]
    pub fn last_op(&self) -> OpId {
        OpId(self.next_op - 1)
    }

    /// The record of a node that is in the store, or was written in this commit.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when it is not; otherwise when the database fails.
    pub fn record_of(&self, id: &NodeId) -> Result<RecordNumber, StoreError> {
        contained(self.file, || {
            let (record, _) = self.hashes.get(id.key())?.ok_or(StoreError::NotFound(*id))?.value();
            self.check_same(record, id.as_bytes())?;
            Ok(RecordNumber(record))
        })
    }

    /// Lets a message of a session never be folded, or lets it be folded again.
    ///
    /// # Errors
    /// [`StoreError::NoPlace`] when nothing stands there; otherwise when the database fails.
    pub fn pin(&mut self, session: SessionId, arrival: Arrival, pinned: Pinned) -> Result<(), StoreError> {
        contained(self.file, || {
            if self.places.get(arrival.0)?.is_none() {
                return Err(StoreError::NoPlace(arrival));
            }
            let mut pins = self.txn.open_table(tables::PINS)?;
            match pinned {
                Pinned::Yes => pins.insert((session.0, arrival.0), ())?,
                Pinned::No => pins.remove((session.0, arrival.0))?,
            };
            Ok(())
        })
    }

    /// Lets a session go on with a new timeline, which shares `parent` up to and with the place at `last`.
    ///
    /// # Errors
    /// [`StoreError::NoSession`], [`StoreError::NoTimeline`] when one of them is not there.
    pub fn branch(
        &mut self,
        session: SessionId,
        parent: TimelineId,
        last: &OrderKey,
        now_ms: i64,
    ) -> Result<TimelineId, StoreError> {
        contained(self.file, || {
            let mut row = self.session_row(session)?;
            self.check_owner(parent, row.owner)?;
            let timeline = self.new_timeline(&TimelineRow {
                session: session.0,
                owner: row.owner,
                parent: Some((parent.0, last.as_bytes().to_vec(), self.next_arrival - 1)),
                created_ms: now_ms,
            })?;
            row.timeline = timeline.0;
            self.txn.open_table(tables::SESSIONS)?.insert(session.0, row.to_bytes(session.0).as_slice())?;
            Ok(timeline)
        })
    }

    /// Lets a session go on with a timeline it had, or begin one that shares nothing (`None`).
    ///
    /// # Errors
    /// [`StoreError::NoSession`], [`StoreError::NoTimeline`] when one of them is not there.
    pub fn go_on_with(
        &mut self,
        session: SessionId,
        timeline: Option<TimelineId>,
        now_ms: i64,
    ) -> Result<TimelineId, StoreError> {
        contained(self.file, || {
            let mut row = self.session_row(session)?;
            let timeline = match timeline {
                Some(known) => {
                    if self.timeline_row(known)?.session != session.0 {
                        return Err(StoreError::NoTimeline(known));
                    }
                    known
                }
                None => {
                    let new = TimelineRow { session: session.0, owner: row.owner, parent: None, created_ms: now_ms };
                    self.new_timeline(&new)?
                }
            };
            row.timeline = timeline.0;
            self.txn.open_table(tables::SESSIONS)?.insert(session.0, row.to_bytes(session.0).as_slice())?;
            Ok(timeline)
        })
    }

    /// Refuses a timeline that is not there, or whose owner is another: a scope follows a session to all that its
    /// timelines share, so nothing of somebody else may ever be shared.
    fn check_owner(&self, timeline: TimelineId, owner: u64) -> Result<(), StoreError> {
        if self.timeline_row(timeline)?.owner == owner { Ok(()) } else { Err(StoreError::NoTimeline(timeline)) }
    }

    fn timeline_row(&self, timeline: TimelineId) -> Result<TimelineRow, StoreError> {
        let timelines = self.txn.open_table(tables::TIMELINES)?;
        let row = timelines.get(timeline.0)?.ok_or(StoreError::NoTimeline(timeline))?;
        TimelineRow::from_bytes(row.value(), timeline.0)
    }

    /// Puts messages at the end of a timeline; gives the first and the last arrival number, `None` for none.
    ///
    /// # Errors
    /// [`StoreError::NoTimeline`] when there is none; otherwise when the database fails.
    pub fn append(
        &mut self,
        timeline: TimelineId,
        new: &[NewPlace<'_>],
    ) -> Result<Option<(Arrival, Arrival)>, StoreError> {
        contained(self.file, || {
            self.timeline_row(timeline)?;
            let first = self.next_arrival;
            for place in new {
                self.put(timeline, None, place)?;
            }
            Ok((self.next_arrival > first).then(|| (Arrival(first), Arrival(self.next_arrival - 1))))
        })
    }

    /// Puts a message between two places of a timeline that are neighbours there.
    ///
    /// # Errors
    /// [`StoreError::PlaceTaken`] when somebody put another there first, [`StoreError::NoTimeline`] when there is no
    /// such timeline, [`StoreError::TooLarge`] after some 28,000 late places at one spot; otherwise when the database
    /// fails.
    pub fn insert(
        &mut self,
        timeline: TimelineId,
        order: &OrderKey,
        new: &NewPlace<'_>,
    ) -> Result<Arrival, StoreError> {
        contained(self.file, || {
            let size = order.as_bytes().len();
            if size > ORDER_KEY_BYTES_MAX {
                return Err(StoreError::TooLarge { what: "an order key", size, max: ORDER_KEY_BYTES_MAX });
            }
            self.timeline_row(timeline)?;
            self.put(timeline, Some(order), new)
        })
    }

    fn put(
        &mut self,
        timeline: TimelineId,
        order: Option<&OrderKey>,
        new: &NewPlace<'_>,
    ) -> Result<Arrival, StoreError> {
        let arrival = Arrival(self.next_arrival);
        let appended = OrderKey::appended(arrival);
        let key = tables::timeline_key(timeline, order.unwrap_or(&appended).as_bytes());
        // The key between two neighbours depends on them alone, so two processes come to the same one.
        if let Some(first) = self.timeline.get(key.as_slice())? {
            return Err(StoreError::PlaceTaken(Arrival(first.value())));
        }
        self.next_arrival += 1;
        let record = self.node(new.message, arrival)?;
        let row = PlaceRow {
            kind: PlaceKind::Message,
            timeline: timeline.0,
            order: order.map(|order| order.as_bytes().to_vec()),
            record: record.0,
            seen_ms: new.seen_ms,
            tokens: new.tokens,
            volatile: new.volatile.to_vec(),
        };
        self.places.insert(arrival.0, row.to_bytes(arrival.0).as_slice())?;
        self.timeline.insert(key.as_slice(), arrival.0)?;
        Ok(arrival)
    }

    /// The record of a message that stands at `arrival`, written when it is new.
    fn node(&mut self, message: &Prepared, arrival: Arrival) -> Result<RecordNumber, StoreError> {
        let key = message.id.key();
        let known = self.hashes.get(key)?.map(|known| known.value());
        let Some((record, first)) = known else {
            let mut links = Vec::with_capacity(message.bodies.len());
            for (id, key, payload) in &message.bodies {
                links.push(self.body(id, *key, payload)?);
            }
            let record = self.write_record(&message.main.rows(message.id.as_bytes(), &links))?;
            self.hashes.insert(key, (record, arrival.0))?;
            return Ok(RecordNumber(record));
        };
        self.check_same(record, message.id.as_bytes())?;
        if first == 0 {
            self.hashes.insert(key, (record, arrival.0))?;
        } else {
            self.txn.open_table(tables::AGAIN)?.insert((record, arrival.0), ())?;
        }
        Ok(RecordNumber(record))
    }

    fn body(&mut self, id: &[u8; 32], key: u128, payload: &Payload) -> Result<u64, StoreError> {
        if let Some(record) = self.hashes.get(key)?.map(|known| known.value().0) {
            self.check_same(record, id)?;
            return Ok(record);
        }
        let record = self.write_record(&payload.rows(id, &[]))?;
        self.hashes.insert(key, (record, 0))?;
        Ok(record)
    }

    fn write_record(&mut self, rows: &[Vec<u8>]) -> Result<u64, StoreError> {
        let record = self.next_record;
        for row in rows {
            self.records.insert(self.next_record, row.as_slice())?;
            self.next_record += 1;
        }
        Ok(record)
    }

    /// Half a hash led to `record`; the other half must agree.
    fn check_same(&self, record: u64, id: &[u8; 32]) -> Result<(), StoreError> {
        let row = self.records.get(record)?.ok_or_else(|| StoreError::row("records", record, "it is missing"))?;
        let found = pack::head(row.value(), record)?.id;
        if found == *id {
            return Ok(());
        }
        Err(StoreError::row("hashes", NodeId::from_bytes(*id), "another node has the same first half"))
    }

    /// Adds a later form of the message at a place.
    ///
    /// # Errors
    /// [`StoreError::NoPlace`] when nothing stands there.
    pub fn revise(
        &mut self,
        arrival: Arrival,
        form: &Prepared,
        seen_ms: i64,
        volatile: &[u8],
    ) -> Result<(), StoreError> {
        contained(self.file, || {
            if self.places.get(arrival.0)?.is_none() {
                return Err(StoreError::NoPlace(arrival));
            }
            let record = self.form(form)?;
            let mut revisions = self.txn.open_table(tables::REVISIONS)?;
            let last = revisions.range((arrival.0, 0)..=(arrival.0, u32::MAX))?.next_back().transpose()?;
            let number = last.map_or(1, |(key, _)| key.value().1 + 1);
            let row = RevisionRow { record, seen_ms, volatile: volatile.to_vec() };
            revisions.insert((arrival.0, number), row.to_bytes(arrival.0).as_slice())?;
            Ok(())
        })
    }

    /// The record of a message that stands at no place of its own.
    fn form(&mut self, message: &Prepared) -> Result<u64, StoreError> {
        let key = message.id.key();
        if let Some(record) = self.hashes.get(key)?.map(|known| known.value().0) {
            self.check_same(record, message.id.as_bytes())?;
            return Ok(record);
        }
        let mut links = Vec::with_capacity(message.bodies.len());
        for (id, key, payload) in &message.bodies {
            links.push(self.body(id, *key, payload)?);
        }
        let record = self.write_record(&message.main.rows(message.id.as_bytes(), &links))?;
        self.hashes.insert(key, (record, 0))?;
        Ok(record)
    }

    /// Writes a summary, its links both ways, and its place at the first place it stands for.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when a child is not in the store.
    pub fn summary(
        &mut self,
        summary: &Summary,
        timeline: TimelineId,
        first: &OrderKey,
        now_ms: i64,
    ) -> Result<SummaryNumber, StoreError> {
        self.put_summary(summary, timeline, first, now_ms, |number| PlaceKind::Summary { number })
    }

    /// The same for a summary that no view shows yet: search finds it from the first view on that does, itself or in
    /// one above it (see [`Commit::op`]).
    ///
    /// # Errors
    /// As [`Commit::summary`].
    pub fn stage(
        &mut self,
        summary: &Summary,
        timeline: TimelineId,
        first: &OrderKey,
        now_ms: i64,
    ) -> Result<SummaryNumber, StoreError> {
        self.put_summary(summary, timeline, first, now_ms, |number| PlaceKind::Staged { number })
    }

    fn put_summary(
        &mut self,
        summary: &Summary,
        timeline: TimelineId,
        first: &OrderKey,
        now_ms: i64,
        kind: fn(u64) -> PlaceKind,
    ) -> Result<SummaryNumber, StoreError> {
        contained(self.file, || {
            let canon = canon::encode_summary(summary);
            let id = canon::message_id(&canon);
            let line = self.line_of(timeline)?;
            let mut children = Vec::with_capacity(summary.children().len());
            let again = self.txn.open_table(tables::AGAIN)?;
            for child in summary.children() {
                let (record, earliest) = self.hashes.get(child.key())?.ok_or(StoreError::NotFound(*child))?.value();
                self.check_same(record, child.as_bytes())?;
                let behind = children.last().map_or(0, |(_, place)| *place);
                children.push((record, self.place_meant(&again, record, earliest, &line, (behind, first))?));
            }
            drop(again);
            let message = Prepared { id, main: Payload::new(&canon, &[], None), bodies: Vec::new() };
            let arrival = Arrival(self.next_arrival);
            self.next_arrival += 1;
            let record = self.node(&message, arrival)?;
            let mut summaries = self.txn.open_table(tables::SUMMARIES)?;
            let number = number_behind(summaries.last()?.map(|(key, _)| key.value()))?;
            summaries.insert(number, arrival.0)?;
            let row = PlaceRow {
                kind: kind(number),
                timeline: timeline.0,
                order: Some(first.as_bytes().to_vec()),
                record: record.0,
                seen_ms: now_ms,
                tokens: summary.own_tokens,
                volatile: Vec::new(),
            };
            self.places.insert(arrival.0, row.to_bytes(arrival.0).as_slice())?;
            self.txn
                .open_table(tables::CHILDREN)?
                .insert(record.0, ChildrenRow::new(&children).to_bytes(record.0).as_slice())?;
            let mut parents = self.txn.open_table(tables::PARENTS)?;
            for (child, _) in children {
                parents.insert((child, record.0), ())?;
            }
            Ok(SummaryNumber(number))
        })
    }

    /// The place of a node that a summary means: of several one of its line, if it can be the first behind the child
    /// before it that does not stand in front of the summary; else the node's first place.
    fn place_meant(
        &self,
        again: &impl ReadableTable<(u64, u64), ()>,
        record: u64,
        first: u64,
        line: &[Stretch],
        (behind, from): (u64, &OrderKey),
    ) -> Result<u64, StoreError> {
        let mut others = again.range((record, 0)..=(record, u64::MAX))?.peekable();
        if others.peek().is_none() {
            return Ok(first);
        }
        let others = others.map(|entry| Ok(entry?.0.value().1));
        let mut before = None;
        for place in std::iter::once(Ok(first)).chain(others) {
            let place: u64 = place.map_err(|error: redb::StorageError| StoreError::from(error))?;
            let Some(row) = self.places.get(place)? else { continue };
            let row = PlaceRow::from_bytes(row.value(), place)?;
            let order = row.order_key(Arrival(place))?;
            if line.iter().any(|stretch| stretch.has(&row, place, &order)) {
                if place > behind && order >= *from {
                    return Ok(place);
                }
                before.get_or_insert(place);
            }
        }
        Ok(before.unwrap_or(first))
    }

    /// A timeline and what it shares with those it branched off.
    fn line_of(&self, timeline: TimelineId) -> Result<Vec<Stretch>, StoreError> {
        let timelines = self.txn.open_table(tables::TIMELINES)?;
        let mut line = vec![Stretch { timeline: timeline.0, until: None }];
        let mut last = line[0].clone();
        while let Some(row) = timelines.get(last.timeline)? {
            let Some((parent, order, newest)) = TimelineRow::from_bytes(row.value(), last.timeline)?.parent else {
                break;
            };
            let order = OrderKey::from_bytes(&order)
                .ok_or_else(|| StoreError::row("timelines", last.timeline, "its order key has no legal length"))?;
            let until = match last.until {
                None => (order, newest),
                Some((known, before)) => (known.min(order), before.min(newest)),
            };
            // A timeline branches off an older one, so this ends; a damaged row must not lead in a circle.
            if parent >= last.timeline {
                break;
            }
            last = Stretch { timeline: parent, until: Some(until) };
            line.push(last.clone());
        }
        Ok(line)
    }

    /// Lets search find a summary that is shown, and those it stands for.
    fn publish(&mut self, id: &NodeId) -> Result<(), StoreError> {
        let Some((record, first)) = self.hashes.get(id.key())?.map(|known| known.value()) else { return Ok(()) };
        let again = self.txn.open_table(tables::AGAIN)?;
        let mut open = vec![first];
        for entry in again.range((record, 0)..=(record, u64::MAX))? {
            open.push(entry?.0.value().1);
        }
        while let Some(place) = open.pop() {
            let Some(row) = self.places.get(place)?.map(|row| PlaceRow::from_bytes(row.value(), place)) else {
                continue;
            };
            let mut row = row?;
            // Where one is published, those below it are.
            let PlaceKind::Staged { number } = row.kind else { continue };
            row.kind = PlaceKind::Summary { number };
            self.places.insert(place, row.to_bytes(place).as_slice())?;
            let children = self.txn.open_table(tables::CHILDREN)?;
            let Some(links) = children.get(row.record)? else { continue };
            let below = ChildrenRow::from_bytes(links.value(), row.record)?.places(row.record)?;
            // What a summary stands for is of one kind, and messages are not staged.
            let Some(one) = below.first().map(|place| self.places.get(*place)).transpose()?.flatten() else { continue };
            if PlaceRow::from_bytes(one.value(), below[0])?.kind != PlaceKind::Message {
                open.extend(below);
            }
        }
        Ok(())
    }

    /// Writes an op; a view that changed with it goes under the same number.
    ///
    /// # Errors
    /// When the database fails.
    pub fn op(
        &mut self,
        session: SessionId,
        at_ms: i64,
        by: &str,
        what: Change,
        view: Option<&View>,
    ) -> Result<Op, StoreError> {
        contained(self.file, || {
            let id = OpId(self.next_op);
            self.next_op += 1;
            let row = OpRow::new(session, at_ms, by, &what)?;
            self.ops.insert(id.0, row.to_bytes(id.0).as_slice())?;
            if let Some(view) = view {
                for summary in view.summaries() {
                    self.publish(&summary)?;
                }
                let row = ViewRow::from(view);
                self.txn.open_table(tables::VIEWS)?.insert((session.0, id.0), row.to_bytes(id.0).as_slice())?;
            }
            Ok(Op { id, session, at_ms, by: by.to_owned(), what })
        })
    }

    /// Keeps a trained dictionary; new records use it from the next write on.
    pub(crate) fn dictionary(&mut self, bytes: &[u8]) -> Result<u32, StoreError> {
        let mut dictionaries = self.txn.open_table(tables::DICTIONARIES)?;
        let number = dictionaries.last()?.map_or(1, |(key, _)| key.value() + 1);
        dictionaries.insert(number, bytes)?;
        Ok(number)
    }
}
