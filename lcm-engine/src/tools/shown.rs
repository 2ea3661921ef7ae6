//! What answers say of a place that was found: what stands there, where, whose it is, when it was said, and which fold
//! stands for it now.

use lcm_store::{Buffer, Scope, Session, Snapshot};

use super::ToolError;
use super::access::{Access, name_of};
use super::answer::{Object, rfc3339};
use crate::history::Covers;
use crate::service::Entry;

/// Says of places where they are.
pub(super) struct Shown<'s> {
    snapshot: &'s Snapshot,
    access: &'s Access<'s>,
    scope: Option<&'s Scope>,
    is_current: bool,
    covers: Covers<'s>,
}

impl<'s> Shown<'s> {
    pub(super) fn new(
        snapshot: &'s Snapshot,
        access: &'s Access<'s>,
        scope: Option<&'s Scope>,
        is_current: bool,
    ) -> Self {
        Self { snapshot, access, scope, is_current, covers: Covers::new(snapshot) }
    }

    /// The beginning of an item: what stands there, where, whose it is, when it was said.
    pub(super) fn place(&mut self, entry: &Entry, session: Option<&Session>) -> Result<Object, ToolError> {
        let mut item = Object::new();
        let summary = match (entry.summary, self.scope) {
            (Some(number), Some(scope)) => {
                let placed = self.snapshot.find_place(scope, entry.number)?;
                let summary = placed.map(|placed| self.snapshot.summary(placed.record, &mut Buffer::default()));
                Some((number, summary.transpose()?))
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
                if let Some(summary) = summary {
                    item.text("depth", &format!("d{}", summary.depth()));
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
                if let Some(summary) = summary {
                    let (from, to) = summary.span_ms();
                    item.text("earliest_at", &rfc3339(from)).text("latest_at", &rfc3339(to));
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

    /// The fold that stands for a message: in the conversation of the call where that is looked into, else in its own.
    fn cover(&mut self, entry: &Entry, session: Option<&Session>) -> Result<Option<Entry>, ToolError> {
        let Some(scope) = self.scope else { return Ok(None) };
        let session = if self.is_current { self.access.own.as_ref().or(session) } else { session };
        let Some(session) = session else { return Ok(None) };
        Ok(self.covers.of(scope, session, &entry.order)?)
    }
}
