//! What summaries cost: calls to models and their tokens, added up from the ops, newest first.
//!
//! An op is written with each commit of summaries and says what they cost; nothing is counted a second time anywhere.
//! Not here: the cap, which belongs to whoever asks the models.

use std::collections::HashSet;

use lcm_core::op::Change;
use lcm_core::{OpId, SessionId};
use lcm_store::{Owners, Scope, Snapshot};

use crate::error::EngineError;
use crate::service::Spent;

/// Ops that are held at once.
const PAGE: usize = 1024;
/// Ops are in the order of their commits, and their moments are of the clocks of several processes. An op so much
/// older than the moment asked for ends the walk: no clock that counts is as wrong as that.
const CLOCKS_APART_MS: i64 = 3_600_000;

/// What the sessions in scope cost, from a moment on or ever.
pub(crate) fn spent(snapshot: &Snapshot, scope: &Scope, since_ms: Option<i64>) -> Result<Spent, EngineError> {
    let is_all = scope.owners == Owners::All && scope.sessions.is_empty();
    let visible: HashSet<SessionId> = match is_all {
        true => HashSet::new(),
        false => snapshot.sessions(scope)?.into_iter().map(|session| session.id).collect(),
    };
    let mut sum = Spent::default();
    let mut before = OpId(u64::MAX);
    loop {
        let page = snapshot.ops_before(before, PAGE)?;
        let Some(oldest) = page.last() else { return Ok(sum) };
        before = oldest.id;
        for op in &page {
            if since_ms.is_some_and(|since| op.at_ms < since.saturating_sub(CLOCKS_APART_MS)) {
                return Ok(sum);
            }
            let Change::Stage { summaries, calls, tokens } = op.what else { continue };
            if since_ms.is_none_or(|since| op.at_ms >= since) && (is_all || visible.contains(&op.session)) {
                sum.summaries = sum.summaries.saturating_add(summaries);
                sum.calls = sum.calls.saturating_add(calls);
                sum.tokens = sum.tokens.saturating_add(tokens);
            }
        }
    }
}
