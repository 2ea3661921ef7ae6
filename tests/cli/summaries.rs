//! Summaries, as they will be written by the engine: expanded down to every original, described, found.

use lcm_core::node::{Summary, SummaryParts};
use lcm_core::op::Change;
use lcm_core::{Json, NodeId, OrderKey};
use lcm_store::{Buffer, OpenOptions, Store};
use lcm_tests::run::{Desk, RUN_MS};

use crate::{both, filled, json_lines};

/// Folds messages 1 to 4 and 5 to 7 of the first session, and both folds into one.
fn folded() -> Desk {
    let desk = filled();
    let store = Store::open(&desk.home(), OpenOptions::default()).unwrap();
    let snapshot = store.snapshot().unwrap();
    let session = snapshot.session(lcm_core::SessionId(1)).unwrap();
    let places = snapshot.log(session.timeline, None, 7).unwrap();
    let mut buffer = Buffer::default();
    let ids: Vec<NodeId> = places
        .iter()
        .map(|placed| {
            snapshot.read(placed.record, &mut buffer).unwrap();
            buffer.id()
        })
        .collect();
    drop(snapshot);
    let summary = |text: &str, children: &[NodeId], depth| {
        let parts = SummaryParts { text: text.to_owned(), children: children.to_vec(), depth, span_ms: (1000, 2000) };
        let mut summary = Summary::new(parts).unwrap();
        (summary.own_tokens, summary.source_tokens) = (9, 120);
        summary.mentions = vec!["dome.log".to_owned()];
        summary
    };
    let leaves = [
        (summary("The gauge of station 7 is asked for.", &ids[..4], 1), places[0].order.clone()),
        (summary("It is a day old.", &ids[4..], 1), places[4].order.clone()),
    ];
    let id = |summary: &Summary| lcm_core::canon::message_id(&lcm_core::canon::encode_summary(summary));
    let top = summary("Station 7 is silent.", &[id(&leaves[0].0), id(&leaves[1].0)], 2);
    let write = |commit: &mut lcm_store::Commit<'_>, summary: &Summary, first: &OrderKey| {
        commit.summary(summary, session.timeline, first, RUN_MS)?;
        let change = Change::Fold { summary: id(summary) };
        commit.op(session.id, RUN_MS, "test", change, None).map(drop)
    };
    store
        .commit(|commit| {
            for (leaf, first) in &leaves {
                write(commit, leaf, first)?;
            }
            write(commit, &top, &places[0].order)
        })
        .unwrap();
    desk
}

#[test]
fn a_summary_is_expanded_to_its_originals_or_its_children() {
    let desk = folded();
    insta::assert_snapshot!(desk.run(&["expand", "node 3"]).all());
    insta::assert_snapshot!(both(&desk, &["expand", "node 3", "--children"]));
    let raw = desk.run(&["expand", "node 3", "--raw"]);
    let first_seven = desk.run(&["show", "messages", "--raw", "--limit", "7"]);
    assert_eq!(raw.stdout, first_seven.stdout);
}

#[test]
fn a_message_expands_to_itself() {
    let desk = folded();
    assert_eq!(desk.run(&["expand", "2", "--raw"]).stdout, desk.run(&["show", "2", "--raw"]).stdout);
}

#[test]
fn a_summary_is_shown_and_described_with_its_links() {
    let desk = folded();
    insta::assert_snapshot!(both(&desk, &["describe", "node 1"]));
    insta::assert_snapshot!(both(&desk, &["show", "node 3"]));
    let described = desk.run(&["describe", "2", "--format", "json"]);
    let parents = json_lines(&described)[0].get("parents").and_then(Json::as_array).unwrap().len();
    assert_eq!(parents, 1, "{described:?}");
}

#[test]
fn what_summaries_say_is_found_too() {
    let desk = folded();
    let ran = desk.run(&["grep", "silent"]);
    assert!(ran.stdout.starts_with("node 3  "), "{ran:?}");
    assert_eq!(desk.run(&["grep", "silent", "--kind", "messages"]).code, 1);
}
