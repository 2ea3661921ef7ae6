//! Owners, sessions, their timelines, and what was done to them: ops, views, pins.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use lcm_core::op::Op;
use lcm_core::view::View;
use lcm_core::{Arrival, OpId, Owner, SessionId, TimelineId};
use redb::ReadableTable;

use super::{Rising, Session, Snapshot, Timeline, stored_order};
use crate::error::{StoreError, contained};
use crate::index::Order;
use crate::record::{OpRow, Row, SessionRow, TimelineRow, ViewRow};
use crate::scope::{Resolved, Scope, Span};
use crate::tables;

impl Snapshot {
    /// Every owner and its number.
    pub(crate) fn owners(&self) -> Result<Vec<(Owner, u64)>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::OWNERS)?;
            let (mut owners, mut numbers) = (Vec::new(), HashSet::new());
            for entry in table.iter()? {
                let (key, number) = entry?;
                let (agent, person) = key.value();
                let owner = Owner { agent: agent.to_owned(), person: person.to_owned() };
                // Rows without a check of their own, on which every scope rests: two owners are never one.
                if !numbers.insert(number.value()) {
                    return Err(StoreError::row("owners", number.value(), "two owners have this number"));
                }
                owners.push((owner, number.value()));
            }
            Ok(owners)
        })
    }

    pub(crate) fn session_row(&self, id: SessionId) -> Result<Option<SessionRow>, StoreError> {
        match self.tables.sessions.get(id.0)? {
            None => Ok(None),
            Some(row) => SessionRow::from_bytes(row.value(), id.0).map(Some),
        }
    }

    pub(crate) fn timeline_row(&self, id: TimelineId) -> Result<TimelineRow, StoreError> {
        let row = self.tables.timelines.get(id.0)?.ok_or(StoreError::NoTimeline(id))?;
        TimelineRow::from_bytes(row.value(), id.0)
    }

    /// The sessions in scope, oldest first.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn sessions(&self, scope: &Scope) -> Result<Vec<Session>, StoreError> {
        contained(self.pin.path(), || {
            let resolved = Resolved::new(&Scope { sessions: Vec::new(), ..scope.clone() }, self)?;
            let mut sessions = Vec::new();
            let mut keys = Rising::new("sessions", 0..=u64::MAX);
            for entry in self.tables.sessions.iter()? {
                let (key, value) = entry?;
                keys.take(key.value())?;
                let id = SessionId(key.value());
                let row = SessionRow::from_bytes(value.value(), id.0)?;
                let owned = match &resolved {
                    Resolved::Owners(owners) => owners.contains(&row.owner),
                    _ => true,
                };
                if owned && (scope.sessions.is_empty() || scope.sessions.contains(&id)) {
                    sessions.push(session(id, row));
                }
            }
            Ok(sessions)
        })
    }

    /// The session with this number, whoever asks.
    ///
    /// # Errors
    /// [`StoreError::NoSession`] when there is none.
    pub fn session(&self, id: SessionId) -> Result<Session, StoreError> {
        contained(self.pin.path(), || Ok(session(id, self.session_row(id)?.ok_or(StoreError::NoSession(id))?)))
    }

    /// The session that `owner`'s host calls `name`.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn session_named(&self, owner: &Owner, name: &str) -> Result<Option<Session>, StoreError> {
        contained(self.pin.path(), || {
            let owners = self.txn.open_table(tables::OWNERS)?;
            let Some(number) = owners.get((owner.agent.as_str(), owner.person.as_str()))? else { return Ok(None) };
            let names = self.txn.open_table(tables::SESSION_NAMES)?;
            let Some(id) = names.get((number.value(), name))?.map(|id| SessionId(id.value())) else { return Ok(None) };
            let session = self.session(id)?;
            if session.name != name || session.owner != *owner {
                return Err(StoreError::row("session_names", id, "it leads to a session of another name"));
            }
            Ok(Some(session))
        })
    }

    /// A timeline.
    ///
    /// # Errors
    /// [`StoreError::NoTimeline`] when there is none.
    pub fn timeline(&self, id: TimelineId) -> Result<Timeline, StoreError> {
        contained(self.pin.path(), || {
            let row = self.timeline_row(id)?;
            let parent = match row.parent {
                None => None,
                Some((parent, last, _)) => Some((TimelineId(parent), stored_order("timelines", id, &last)?)),
            };
            Ok(Timeline { id, session: SessionId(row.session), parent, created_ms: row.created_ms })
        })
    }

    /// Every timeline a session ever had, oldest first.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn timelines_of(&self, session: SessionId) -> Result<Vec<TimelineId>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::SESSION_TIMELINES)?;
            let range = (session.0, 0)..=(session.0, u64::MAX);
            let mut keys = Rising::new("session_timelines", range.clone());
            let mut timelines = Vec::new();
            for entry in table.range(range)? {
                let key = entry?.0.value();
                keys.take(key)?;
                let id = TimelineId(key.1);
                // A key has no check of its own, so both ends must agree.
                if self.timeline_row(id)?.session != session.0 {
                    return Err(StoreError::row("session_timelines", id, "it is a timeline of another session"));
                }
                timelines.push(id);
            }
            Ok(timelines)
        })
    }

    /// The parts of timelines that a timeline is made of, its own last.
    pub(crate) fn lineage(&self, timeline: TimelineId) -> Result<Vec<Span>, StoreError> {
        let mut spans = vec![Span::whole(timeline)];
        let mut row = self.timeline_row(timeline)?;
        while let Some((parent, last, newest)) = row.parent {
            let id = TimelineId(parent);
            // Numbers rise, so a damaged link cannot lead in a circle.
            if spans.last().is_some_and(|child| child.timeline <= id) {
                return Err(StoreError::row("timelines", id, "it branched off a newer timeline"));
            }
            let last = stored_order("timelines", id, &last)?;
            // What a grandchild shares ends with what the child shared.
            let last = match spans.last().and_then(|span| span.until.as_ref()) {
                Some((bound, _)) if *bound < last => bound.clone(),
                _ => last,
            };
            spans.push(Span::prefix(id, last, Arrival(newest)));
            row = self.timeline_row(id)?;
        }
        spans.reverse();
        Ok(spans)
    }

    /// The ops from `from` on, rising, at most `max`.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn ops(&self, from: OpId, max: usize) -> Result<Vec<Op>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::OPS)?;
            let mut keys = Rising::new("ops", from.0..=u64::MAX);
            let rows = table.range(from.0..)?.take(max).map(|entry| {
                let (key, value) = entry?;
                keys.take(key.value())?;
                let id = OpId(key.value());
                Ok(OpRow::from_bytes(value.value(), id.0)?.into_op(id))
            });
            rows.collect()
        })
    }

    /// The ops before `before`, newest first, at most `max`.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn ops_before(&self, before: OpId, max: usize) -> Result<Vec<Op>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::OPS)?;
            // The walk falls, and the keys are looked at as if it rose from the other end.
            let mut keys = Rising::new("ops", 0..=u64::MAX);
            let rows = table.range(..before.0)?.rev().take(max).map(|entry| {
                let (key, value) = entry?;
                keys.take(u64::MAX - key.value())?;
                let id = OpId(key.value());
                Ok(OpRow::from_bytes(value.value(), id.0)?.into_op(id))
            });
            rows.collect()
        })
    }

    /// The ops of a session from one number to another, both included, in the order asked for, at most `max`.
    ///
    /// History is one row for the whole store, so the ops of others between them are passed over.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn ops_of(
        &self,
        session: SessionId,
        range: RangeInclusive<OpId>,
        order: Order,
        max: usize,
    ) -> Result<Vec<Op>, StoreError> {
        contained(self.pin.path(), || {
            let (first, last) = (range.start().0, range.end().0);
            let mut ops = Vec::new();
            if first > last {
                return Ok(ops);
            }
            let table = self.txn.open_table(tables::OPS)?;
            let mut rows = table.range(first..=last)?;
            // Numbers of a range that is gone through backwards rise when they are counted from its end.
            let mut keys = Rising::new("ops", 0..=last - first);
            while ops.len() < max {
                let entry = if order == Order::Oldest { rows.next() } else { rows.next_back() };
                let Some(entry) = entry else { break };
                let (key, value) = entry?;
                let id = OpId(key.value());
                let passed = if order == Order::Oldest { id.0.checked_sub(first) } else { last.checked_sub(id.0) };
                keys.take(passed.unwrap_or(u64::MAX))?;
                let op = OpRow::from_bytes(value.value(), id.0)?.into_op(id);
                if op.session == session {
                    ops.push(op);
                }
            }
            Ok(ops)
        })
    }

    /// The newest op; 0 for none.
    ///
    /// # Errors
    /// When the database fails.
    pub fn last_op(&self) -> Result<OpId, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::OPS)?;
            Ok(OpId(table.last()?.map_or(0, |(key, _)| key.value())))
        })
    }

    /// The messages of a session that are never folded, rising.
    ///
    /// # Errors
    /// When the database fails or the table is damaged.
    pub fn pins(&self, session: SessionId) -> Result<Vec<Arrival>, StoreError> {
        contained(self.pin.path(), || {
            let range = (session.0, 0)..=(session.0, u64::MAX);
            let mut keys = Rising::new("pins", range.clone());
            let table = self.txn.open_table(tables::PINS)?;
            let pins = table.range(range)?.map(|entry| {
                let key = entry?.0.value();
                keys.take(key)?;
                Ok(Arrival(key.1))
            });
            pins.collect()
        })
    }

    /// The view of a session as of an op, or now; `None` while it shows everything as it is.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn view(&self, session: SessionId, as_of: OpId) -> Result<Option<View>, StoreError> {
        contained(self.pin.path(), || {
            let table = self.txn.open_table(tables::VIEWS)?;
            let mut rows = table.range((session.0, 0)..=(session.0, as_of.0))?;
            match rows.next_back() {
                None => Ok(None),
                Some(entry) => {
                    let (key, value) = entry?;
                    Rising::new("views", (session.0, 0)..=(session.0, as_of.0)).take(key.value())?;
                    ViewRow::from_bytes(value.value(), key.value().1)?.into_view(key.value().1).map(Some)
                }
            }
        })
    }

    /// Every view a session ever had, oldest first, with the op that it is shown from.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn views_of(&self, session: SessionId) -> Result<Vec<(OpId, View)>, StoreError> {
        contained(self.pin.path(), || {
            let range = (session.0, 0)..=(session.0, u64::MAX);
            let mut keys = Rising::new("views", range.clone());
            let table = self.txn.open_table(tables::VIEWS)?;
            let rows = table.range(range)?.map(|entry| {
                let (key, value) = entry?;
                keys.take(key.value())?;
                let op = key.value().1;
                Ok((OpId(op), ViewRow::from_bytes(value.value(), op)?.into_view(op)?))
            });
            rows.collect()
        })
    }
}

fn session(id: SessionId, row: SessionRow) -> Session {
    Session {
        id,
        owner: Owner { agent: row.agent, person: row.person },
        name: row.name,
        source: row.source,
        created_ms: row.created_ms,
        timeline: TimelineId(row.timeline),
    }
}
