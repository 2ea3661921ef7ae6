//! What a list stands for: every original behind what it shows, in order.

use std::collections::HashSet;

use lcm_core::{IdPrefix, Message, NodeId, Summary};
use lcm_store::{Buffer, Placed, Scope, Snapshot};

use super::element::{Element, Mark, Sent, head_of};
use super::live::{has_line_behind, is_our_line, recall_holds};
use crate::assemble;
use crate::error::EngineError;
use crate::hosts::told::Told;
use crate::hosts::with_tree;
use crate::read;
use crate::service::{Child, DownTo, ExpandRequest, Expansion};

/// What an element stands for, when it is ours.
enum Behind {
    Folds(Vec<Unfolded>),
    Whole(Vec<u8>),
    /// Nothing: what it quotes stands elsewhere.
    Recall,
    Between,
}

struct Unfolded {
    id: NodeId,
    originals: Vec<Vec<u8>>,
    /// Whether they are steps of the request that stands behind them.
    is_within: bool,
}

/// What a list stands for, in order, as it is kept. What only reads like something of ours stands for itself.
pub(crate) fn behind(snapshot: &Snapshot, scope: &Scope, sent: Sent<'_>) -> Result<Vec<Vec<u8>>, EngineError> {
    let elements: Vec<Element> =
        (0..sent.messages.len()).map(|at| Ok(sent.element(at)?.0)).collect::<Result<_, EngineError>>()?;
    let mut ours = Vec::with_capacity(elements.len());
    // Who shows a fold again quotes it.
    let mut seen = HashSet::new();
    for (at, element) in elements.iter().enumerate() {
        ours.push(match &element.mark {
            None | Some(Mark::Between) => None,
            Some(Mark::Recall(_)) if !has_line_behind(&elements, at) => None,
            Some(Mark::Recall(claims)) => recall_holds(snapshot, scope, claims)?.then_some(Behind::Recall),
            Some(Mark::Folds { named, text }) => folds(snapshot, scope, named, text)?
                .filter(|folds| folds.iter().all(|fold| seen.insert(fold.id)))
                .map(Behind::Folds),
            Some(Mark::Part { of, text }) => whole(snapshot, scope, of, text)?.map(Behind::Whole),
        });
    }
    let head = head_of(&elements);
    for (at, element) in elements.iter().enumerate() {
        if matches!(element.mark, Some(Mark::Between))
            && is_our_line(&ours, at, head, |ours| matches!(ours, Behind::Folds(_) | Behind::Recall))
        {
            ours[at] = Some(Behind::Between);
        }
    }
    let mut originals = Vec::new();
    // Steps that stand in front of their request came behind it.
    let mut held: Vec<Vec<u8>> = Vec::new();
    for (at, (element, ours)) in elements.iter().zip(ours).enumerate() {
        match ours {
            Some(Behind::Recall | Behind::Between) => {}
            Some(Behind::Whole(whole)) => originals.push(whole),
            Some(Behind::Folds(folds)) => {
                for fold in folds {
                    if fold.is_within { &mut held } else { &mut originals }.extend(fold.originals);
                }
            }
            None => {
                originals.push(match sent.redactor {
                    Some(_) => sent.message(at)?.json().to_text(),
                    None => sent.messages[at].to_vec(),
                });
                if element.speech.is_request() {
                    originals.append(&mut held);
                }
            }
        }
    }
    originals.append(&mut held);
    Ok(originals)
}

/// What the folds of a text stand for; `None` when it is not just what we show of them.
fn folds(
    snapshot: &Snapshot,
    scope: &Scope,
    named: &[IdPrefix],
    text: &str,
) -> Result<Option<Vec<Unfolded>>, EngineError> {
    let mut summaries: Vec<(NodeId, Placed, Summary)> = Vec::with_capacity(named.len());
    let mut buffer = Buffer::default();
    for prefix in named {
        let found = snapshot.find_nodes(scope, prefix, 2)?;
        let Ok([(id, placed)]) = <[(NodeId, Placed); 1]>::try_from(found) else { return Ok(None) };
        if placed.summary.is_none() {
            return Ok(None);
        }
        let summary = snapshot.summary(placed.record, &mut buffer)?;
        summaries.push((id, placed, summary));
    }
    if assemble::folds(summaries.iter().map(|(id, _, summary)| (id, summary))) != text {
        return Ok(None);
    }
    let unfolded = summaries.iter().map(|(id, placed, summary)| {
        let originals = originals(snapshot, scope, placed)?;
        Ok(Unfolded { id: *id, originals, is_within: assemble::is_within(summary) })
    });
    unfolded.collect::<Result<_, _>>().map(Some)
}

/// The message of which a text is a part; `None` when it is not just the part that we show.
fn whole(snapshot: &Snapshot, scope: &Scope, of: &IdPrefix, text: &str) -> Result<Option<Vec<u8>>, EngineError> {
    let Some((id, placed)) = snapshot.find_nodes(scope, of, 1)?.pop() else { return Ok(None) };
    let Some(whole) = originals(snapshot, scope, &placed)?.pop() else { return Ok(None) };
    let told = with_tree(&Message::parse(&whole)?.encode()?, Told::of)?;
    Ok(assemble::is_part(text, &id, told.main_text()).then_some(whole))
}

/// The messages behind a node.
fn originals(snapshot: &Snapshot, scope: &Scope, placed: &Placed) -> Result<Vec<Vec<u8>>, EngineError> {
    let request = ExpandRequest {
        scope: scope.clone(),
        number: placed.arrival,
        down_to: DownTo::Originals,
        skip: 0,
        max: usize::MAX,
        bytes_max: usize::MAX,
    };
    Ok(match read::expand(snapshot, &request)? {
        Expansion::Message(whole) => vec![whole.json],
        Expansion::Summary(page) => {
            let whole = page.children.into_iter().filter_map(|child| match child {
                Child::Message(whole) => Some(whole.json),
                Child::Summary { .. } => None,
            });
            whole.collect()
        }
    })
}
