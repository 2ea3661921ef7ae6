//! What answers say of a place that was found: what stands there, where, whose it is, when it was said, and which fold
//! stands for it now.

use lcm_core::canon;
use lcm_store::{Buffer, Placed, Scope, Session, Snapshot};

use super::ToolError;
use super::access::{Access, name_of};
use super::answer::{Object, rfc3339};
use crate::find::unreadable;
use crate::history::Covers;
use crate::service::Entry;

/// Says of places where they are.
pub(super) struct Shown<'s> {
    snapshot: &'s Snapshot,
    access: &'s Access<'s>,
    scope: Option<&'s Scope>,
    is_current: bool,
    covers: Covers<'s>,
    buffer: Buffer,
}

impl<'s> Shown<'s> {
    pub(super) fn new(
        snapshot: &'s Snapshot,
        access: &'s Access<'s>,
        scope: Option<&'s Scope>,
        is_current: bool,
    ) -> Self {
        Self { snapshot, access, scope, is_current, covers: Covers::new(snapshot), buffer: Buffer::default() }
    }

    /// The beginning of an item: what stands there, where, whose it is, when it was said.
    pub(super) fn place(&mut self, entry: &Entry, session: Option<&Session>) -> Result<Object, ToolError> {
        let mut item = Object::new();
        let summary = match (entry.summary, self.scope) {
            (Some(number), Some(scope)) => {
                let placed = self.snapshot.find_place(scope, entry.number)?;
                Some((number, placed.map(|placed| self.depth_and_span(&placed)).transpose()?))
            }
            (Some(number), None) => Some((number, None)),
            (None, _) => None,
        };
        match &summary {
            None => {
                item.text("type", "message").text("depth", "raw").number("store_id", entry.number.0);
            }
            Some((number, summary)) => {
                item.text("type", "summary");
                if let Some((depth, _)) = summary {
                    item.text("depth", &format!("d{depth}"));
                }
                item.number("node_id", number.0);
            }
        }
        item.text("handle", &entry.handle.to_string());
        if let Some(session) = session {
            item.text("session_id", &name_of(session));
        }
        item.text("session", &format!("#{}", entry.session));
        match &summary {
            None => {
                item.text("role", entry.role.name()).moment(entry.seen_ms);
            }
            Some((number, summary)) => {
                item.number("token_count", entry.tokens);
                if let Some((_, (from, to))) = summary {
                    item.text("earliest_at", &rfc3339(*from)).text("latest_at", &rfc3339(*to));
                }
                item.text("expand_hint", &format!("lcm_expand node_id={number}"));
            }
        }
        item.flag("from_current_session", self.is_current || self.access.is_own(entry.session));
        if summary.is_none()
            && let Some(cover) = self.cover(entry, session)?
        {
            let mut covered = Object::new();
            covered.text("handle", &cover.handle.to_string());
            if let Some(number) = cover.summary {
                covered.number("node_id", number.0);
            }
            item.json("covered_by", &covered.finish());
        }
        Ok(item)
    }

    /// How many levels are below a summary, and when its sources were said.
    fn depth_and_span(&mut self, placed: &Placed) -> Result<(u16, (i64, i64)), ToolError> {
        self.snapshot.read(placed.record, &mut self.buffer)?;
        let head = canon::summary_head(self.buffer.canon()).map_err(|error| unreadable(placed.arrival, error))?;
        Ok((head.depth, head.span_ms))
    }

    /// The fold that stands for a message: in the conversation of the call where that is looked into, else in its own.
    fn cover(&mut self, entry: &Entry, session: Option<&Session>) -> Result<Option<Entry>, ToolError> {
        let Some(scope) = self.scope else { return Ok(None) };
        let session = if self.is_current { self.access.own.as_ref().or(session) } else { session };
        let Some(session) = session else { return Ok(None) };
        Ok(self.covers.of(scope, session, &entry.order)?)
    }
}
