//! `show --at`, `log --ops`, `unfold`, `undo`, `pin`, `unpin`, `why`: what a session shows and showed, and the ways back.
//! The folds are written here as the engine writes them, so that the answers do not depend on what a summary says.

use lcm_core::node::{Summary, SummaryParts};
use lcm_core::op::Change;
use lcm_core::view::View;
use lcm_core::{Json, NodeId};
use lcm_store::{Buffer, OpenOptions, Placed, Store};
use lcm_tests::run::{Desk, RUN_MS};

use crate::{both, filled, json_lines, text_of};

/// Folds messages 1 to 4 and 5 to 7 of the first session one after the other, then both folds into one.
fn folded() -> Desk {
    let desk = filled();
    let store = Store::open(&desk.home(), OpenOptions::default()).unwrap();
    let snapshot = store.snapshot().unwrap();
    let session = snapshot.session(lcm_core::SessionId(1)).unwrap();
    let places: Vec<Placed> = snapshot.log(session.timeline, None, 8).unwrap();
    let mut buffer = Buffer::default();
    let ids: Vec<NodeId> = places
        .iter()
        .map(|placed| {
            snapshot.read(placed.record, &mut buffer).unwrap();
            buffer.id()
        })
        .collect();
    drop(snapshot);
    let id = |summary: &Summary| lcm_core::canon::message_id(&lcm_core::canon::encode_summary(summary));
    let summary = |text: &str, children: &[NodeId], depth| {
        let parts = SummaryParts { text: text.to_owned(), children: children.to_vec(), depth, span_ms: (1000, 2000) };
        let mut summary = Summary::new(parts).unwrap();
        (summary.own_tokens, summary.source_tokens, summary.prompt_version) = (9, 120, 3);
        summary
    };
    let first = summary("The gauge of station 7 is asked for.", &ids[..4], 1);
    let second = summary("It is a day old.", &ids[4..7], 1);
    let top = summary("Station 7 is silent.", &[id(&first), id(&second)], 2);
    let mut view = View::raw(places[0].order.clone());
    for (summary, from, to) in [(&first, 0, 4), (&second, 4, 7), (&top, 0, 7)] {
        view = view.fold(&places[from].order, &places[to].order, id(summary)).unwrap();
        store
            .commit(|commit| {
                commit.summary(summary, session.timeline, &places[from].order, RUN_MS)?;
                commit.op(session.id, RUN_MS, "test", Change::Stage { summaries: 1, calls: 0, tokens: 0 }, None)?;
                let fold = Change::Fold { summary: id(summary) };
                commit.op(session.id, RUN_MS, "test", fold, Some(&view)).map(drop)
            })
            .unwrap();
    }
    desk
}

/// The ops of the first session: number and what.
fn ops(desk: &Desk) -> Vec<(u64, String)> {
    let lines = json_lines(&desk.run(&["log", "#1", "--ops", "--format", "json"]));
    lines.iter().map(|op| (op.get("op").and_then(Json::as_u64).unwrap(), text_of(op, "what"))).collect()
}

/// What the first session shows: handles.
fn shown(desk: &Desk, at: &str) -> Vec<String> {
    let ran = desk.run(&["show", "#1", "--at", at, "--format", "json"]);
    json_lines(&ran).iter().map(|item| text_of(item, "handle")).collect()
}

#[test]
fn a_history_has_a_line_for_each_op() {
    let desk = folded();
    insta::assert_snapshot!(both(&desk, &["log", "#1", "--ops"]));
    let two = desk.run(&["log", "#1", "--ops", "--reverse", "-n", "2", "--format", "json"]);
    let whats: Vec<String> = json_lines(&two).iter().map(|op| text_of(op, "what")).collect();
    assert_eq!(whats, ["fold", "stage"]);
}

#[test]
fn a_session_is_shown_as_of_any_op() {
    let desk = folded();
    insta::assert_snapshot!(both(&desk, &["show", "#1", "--at", "now", "--limit", "2"]));
    let all = ops(&desk);
    let fold = all.iter().find(|(_, what)| what == "fold").unwrap().0;
    let before = (fold - 1).to_string();
    assert_eq!(shown(&desk, &before).len(), 14);
    let then = shown(&desk, &fold.to_string());
    assert_eq!((then.len(), then[0].starts_with("sum_"), then[1].starts_with("msg_")), (11, true, true));
    assert_eq!(shown(&desk, "now").len(), 8);
}

#[test]
fn raw_is_the_list_that_a_model_is_sent() {
    let desk = folded();
    let now = desk.run(&["show", "#1", "--at", "now", "--raw"]);
    let first = now.stdout.lines().next().unwrap();
    assert!(
        first.starts_with(r#"{"role":"user","content":"[lcm: "#) && first.contains("> Station 7 is silent."),
        "{first}"
    );
    let rest: Vec<&str> = now.stdout.lines().skip(1).filter(|line| !line.contains("[lcm:")).collect();
    let said = desk.run(&["show", "#1", "--raw"]);
    assert_eq!(rest, said.stdout.lines().skip(7).collect::<Vec<_>>());
}

#[test]
fn unfolding_shows_the_children_and_undo_is_the_way_back() {
    let desk = folded();
    let before = shown(&desk, "now");
    insta::assert_snapshot!(desk.run(&["unfold", "node 3"]).all());
    let children = shown(&desk, "now");
    assert_eq!((children.len(), children[0].starts_with("sum_"), children[1].starts_with("sum_")), (9, true, true));
    let ran = desk.run(&["unfold", &children[1], "--format", "json"]);
    assert_eq!(text_of(&json_lines(&ran)[0], "unfolded"), children[1]);
    assert_eq!(shown(&desk, "now").len(), 11);
    // The newest first; then those of the folds.
    for left in [9, 8, 9, 11, 14] {
        let ran = desk.run(&["undo", "#1", "--format", "json"]);
        assert_eq!((ran.code, shown(&desk, "now").len()), (0, left), "{ran:?}");
    }
    let ran = desk.run(&["undo", "#1"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    insta::assert_snapshot!(ran.all());
    // An undo is undone by its number: what it took back is shown again.
    let last = ops(&desk).last().unwrap().clone();
    assert_eq!(last.1, "undo");
    assert_eq!(desk.run(&["undo", "#1", &last.0.to_string()]).code, 0);
    assert_eq!(shown(&desk, "now").len(), 11);
    assert_eq!(before.len(), 8);
    assert_eq!(desk.run(&["check"]).code, 0);
}

#[test]
fn an_undo_of_an_earlier_op_takes_what_came_since_with_it() {
    let desk = folded();
    let second = ops(&desk).iter().filter(|(_, what)| what == "fold").nth(1).unwrap().0;
    insta::assert_snapshot!(desk.run(&["undo", "#1", &second.to_string()]).all());
    assert_eq!(shown(&desk, "now").len(), 11);
}

#[test]
fn what_cannot_be_undone_says_why() {
    let desk = folded();
    let all = ops(&desk);
    let number = |what: &str| all.iter().find(|op| op.1 == what).unwrap().0.to_string();
    let mut said = String::new();
    for op in [number("ingest"), number("stage"), "999".to_owned(), "0".to_owned()] {
        said.push_str(&desk.run(&["undo", "#1", &op]).all());
    }
    // An op of another session; one that is undone already.
    said.push_str(&desk.run(&["undo", "#2", &number("fold")]).all());
    assert_eq!(desk.run(&["undo", "#1", &number("fold")]).code, 0);
    said.push_str(&desk.run(&["undo", "#1", &number("fold")]).all());
    insta::assert_snapshot!(said);
}

#[test]
fn a_pin_is_set_and_taken_off_and_told_of() {
    let desk = folded();
    insta::assert_snapshot!(both(&desk, &["pin", "9", "2"]));
    let ran = desk.run(&["show", "#1", "--at", "now"]);
    assert_eq!(ran.stdout.matches("  pinned").count(), 1, "what stands behind a fold is not shown: {ran:?}");
    insta::assert_snapshot!(both(&desk, &["unpin", "9"]));
    let whats: Vec<String> = ops(&desk).into_iter().map(|op| op.1).collect();
    assert_eq!(whats[whats.len() - 3..], ["pin", "pin", "unpin"]);
}

#[test]
fn why_tells_who_made_it_and_where_it_was_shown() {
    let desk = folded();
    assert_eq!(desk.run(&["unfold", "node 3"]).code, 0);
    insta::assert_snapshot!(both(&desk, &["why", "node 1"]));
    insta::assert_snapshot!(desk.run(&["why", "2", "node 3", "10"]).all());
}

#[test]
fn wrong_targets_are_refused_in_one_sentence() {
    let desk = folded();
    let mut said = String::new();
    for args in [
        &["unfold", "2"][..],
        &["unfold", "node 1"],
        &["unfold", "node 99"],
        &["unfold", "node 3", "--session", "#2"],
        &["unfold", "node 3", "--session", "nobody"],
        &["pin", "node 1"],
        &["pin", "999"],
        &["pin", "20", "--session", "#1"],
        &["undo", "nobody"],
        &["why", "sum_ffff"],
        &["show", "#1", "--at", "999"],
        &["show", "#2", "--at", "1"],
        &["show", "2", "--at", "now"],
        &["log", "nobody", "--ops"],
    ] {
        let ran = desk.run(args);
        assert!(ran.code == 1 || ran.code == 2, "{args:?}: {ran:?}");
        assert!(ran.stdout.is_empty() && ran.stderr.lines().count() <= 2, "{args:?}: {ran:?}");
        said.push_str(&format!("$ {}\n{}", args.join(" "), ran.all()));
    }
    insta::assert_snapshot!(said);
    // A beginning that several share is told as such.
    let ran = desk.run(&["undo", "5f0c"]);
    assert!(ran.code == 2 && ran.stderr.contains("can mean 2 things"), "{ran:?}");
    for args in [&["unfold"][..], &["undo"], &["pin"], &["why"], &["show", "#1", "--at", "soon"], &["undo", "#1", "x"]]
    {
        assert_eq!(desk.run(args).code, 2, "{args:?}");
    }
}

#[test]
fn what_is_out_of_scope_is_absent() {
    let desk = folded();
    for args in [&["unfold", "node 3"][..], &["pin", "2"], &["why", "2"], &["undo", "#1"], &["log", "#1", "--ops"]] {
        let ran = desk.run(&[args, &["--agent", "nobody"]].concat());
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
    }
}
