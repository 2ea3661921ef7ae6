//! Writing summaries anew: what a session shows that was written without a model, when there is one.
//!
//! A new attempt stands for the same children as the one before, and takes its place in the view by an op of its own.
//! The one before stays and can be read; `undo` shows it again. The model is asked outside of the write lock: when the
//! session shows something else afterwards, what it cost is written down and nothing is changed.

use lcm_core::canon;
use lcm_core::node::SummaryParts;
use lcm_core::op::Change;
use lcm_core::tokens::{Estimate, TokenCounter};
use lcm_core::view::{Segment, Shows};
use lcm_core::{Handle, Level, NodeId, Summary};
use lcm_store::{Buffer, Snapshot, Store};

use super::{FoldItem, Item, Moment, NOW, fitting};
use crate::compress::extract::Source;
use crate::compress::summary::{Cost, Guidance, Material, Writer, Written};
use crate::error::EngineError;
use crate::find::{self, unreadable};
use crate::hosts::told::Told;
use crate::redact::Redactor;
use crate::service::{RewriteRequest, Rewritten};
use crate::turn::owner_scope;

/// A text of fewer tokens says nothing.
const TEXT_TOKENS_MIN: u64 = 24;

/// Writes the summaries anew that a session shows and no model wrote.
pub(crate) fn rewrite(
    store: &Store,
    request: &RewriteRequest<'_>,
    redactor: Option<&Redactor>,
) -> Result<Rewritten, EngineError> {
    let snapshot = store.snapshot()?;
    let session = find::session(&snapshot, &request.scope, request.session)?;
    let moment = Moment::at(&snapshot, session, None)?;
    let time_max = request.options.summary_time_max;
    let mut writer = Writer::new(Some(request.summarizer), &Estimate, Guidance::default(), time_max, redactor);
    let (mut done, mut anew) = (Rewritten::default(), Vec::new());
    for item in moment.items(&snapshot)? {
        let Item::Fold(fold) = item else { continue };
        if !matches!(fold.summary.level, Level::Extract | Level::Cut) {
            continue;
        }
        done.degraded += 1;
        if let Some(summary) = written(&snapshot, &mut writer, &fold, request)? {
            anew.push((fold, canon::message_id(&canon::encode_summary(&summary)), summary));
        }
    }
    drop(snapshot);
    let Cost { calls, tokens } = writer.cost;
    (done.model_calls, done.model_tokens, done.failures) = (calls, tokens, writer.failures);
    if calls == 0 {
        return Ok(done);
    }
    let session = moment.session.id;
    let scope = owner_scope(&moment.session.owner);
    store.commit(|commit| {
        // We hold the lock: this is what we write on.
        let snapshot = store.snapshot()?;
        let view = fitting(snapshot.view(session, NOW)?, &moment.places);
        if snapshot.session(session)?.timeline != moment.timeline || view != moment.view {
            anew.clear();
        }
        let mut summaries = 0;
        for (fold, id, summary) in &anew {
            if snapshot.places_of(&scope, id)?.is_empty() {
                let first = &moment.places[fold.places.start].order;
                commit.stage(summary, moment.timeline, first, request.now_ms)?;
                summaries += 1;
            }
        }
        commit.op(session, request.now_ms, &request.by, Change::Stage { summaries, calls, tokens }, None)?;
        let Some(mut view) = view else { return Ok(()) };
        for (fold, id, _) in &anew {
            let first = moment.places[fold.places.start].order.clone();
            let instead = [Segment { first, shows: Shows::Folded(*id) }];
            // One that does not begin where it is shown stays.
            let Ok(changed) = view.unfold(fold.id, &instead) else { continue };
            view = changed;
            let what = Change::Fold { summary: *id };
            commit.op(session, request.now_ms, &request.by, what, Some(&view))?;
            done.rewritten.push((Handle::summary(fold.id), Handle::summary(*id)));
        }
        Ok::<_, EngineError>(())
    })?;
    Ok(done)
}

/// The same summary in a model's words; `None` where none is taken.
fn written(
    snapshot: &Snapshot,
    writer: &mut Writer<'_>,
    fold: &FoldItem,
    request: &RewriteRequest<'_>,
) -> Result<Option<Summary>, EngineError> {
    let old = &fold.summary;
    let records = snapshot.children(fold.placed.record)?;
    let budget = |room: u64| (room / 4).min(request.options.summary_tokens_max).max(TEXT_TOKENS_MIN);
    let written = if old.depth() == 1 {
        let sources = snapshot.read_each(&records, |_, buffer| {
            let read = buffer.with_message(|message| {
                let tree = message.tree()?;
                Ok(Source { role: tree.role(), told: Told::of(&tree) })
            });
            read.map_err(|error| unreadable(fold.placed.arrival, error))
        })?;
        writer.write(&Material::Messages(&sources), old.source_tokens, budget(old.source_tokens))
    } else {
        let mut buffer = Buffer::default();
        let mut below = Vec::with_capacity(records.len());
        for record in records {
            below.push(snapshot.summary(record, &mut buffer)?);
        }
        let room = below.iter().map(|summary| u64::from(summary.own_tokens)).sum();
        let texts: Vec<&str> = below.iter().map(Summary::text).collect();
        writer.write(&Material::Summaries(&texts, old.depth() - 1), room, budget(2 * room))
    };
    let by_model = written.filter(|written| !matches!(written.level, Level::Extract | Level::Cut));
    let Some(Written { text, level, model, prompt_version, mentions }) = by_model else { return Ok(None) };
    let own_tokens = Estimate.count_text(&text);
    let children: Vec<NodeId> = old.children().to_vec();
    let mut summary = Summary::new(SummaryParts { text, children, depth: old.depth(), span_ms: old.span_ms() })?;
    (summary.source_tokens, summary.own_tokens, summary.level) = (old.source_tokens, own_tokens, level);
    (summary.model, summary.prompt_version) = (model, prompt_version);
    (summary.marks, summary.mentions) = (old.marks.clone(), mentions);
    Ok(Some(summary))
}
