//! What summaries cost, as `status` tells it: added up from the ops, beside the cap.

use lcm_core::op::Change;
use lcm_core::{Json, SessionId};
use lcm_tests::run::{Desk, RUN_MS};
use lcm_tests::stores;

use crate::{filled, json_lines};

/// Writes down what summaries of a session cost, so many seconds ago.
fn staged(desk: &Desk, session: u64, seconds_ago: i64, calls: u64, tokens: u64) {
    let store = stores::reopen(&desk.home()).unwrap();
    let what = Change::Stage { summaries: 1, calls, tokens };
    let at_ms = RUN_MS - seconds_ago * 1000;
    store.commit(|commit| commit.op(SessionId(session), at_ms, "test 1.0", what, None)).unwrap();
}

/// Summaries, calls and tokens of a run of `status`, ever and in the window.
fn told(desk: &Desk, args: &[&str]) -> [[u64; 3]; 2] {
    let ran = desk.run(&[&["status", "--format", "json"], args].concat());
    let spent = json_lines(&ran)[0].get("spent").unwrap().clone();
    let three = |of: &Json| ["summaries", "calls", "tokens"].map(|key| of.get(key).and_then(Json::as_u64).unwrap());
    [three(&spent), three(spent.get("window").unwrap())]
}

#[test]
fn what_summaries_cost_is_told_beside_the_cap() {
    let desk = filled();
    assert_eq!(told(&desk, &[]), [[0; 3]; 2]);
    staged(&desk, 1, 90_000, 3, 70_000);
    staged(&desk, 2, 601, 5, 500);
    staged(&desk, 1, 599, 7, 12_000);
    // Clocks of processes differ: one that is behind does not hide what came before it.
    staged(&desk, 2, 1200, 1, 1);
    staged(&desk, 2, 10, 0, 0);
    assert_eq!(told(&desk, &[]), [[5, 16, 82_501], [2, 7, 12_000]]);
    assert_eq!(told(&desk, &["--session", "#1"])[0], [2, 10, 82_000]);
    // The cap is one for all.
    assert_eq!(told(&desk, &["--session", "#2"]), [[3, 6, 501], [2, 7, 12_000]]);
    assert_eq!(told(&desk, &["--set", "summary.spend_window_s=700"])[1], [3, 12, 12_500]);
    let lines = desk.run(&["status"]).stdout;
    let lines: Vec<&str> =
        lines.lines().filter(|line| line.starts_with("summaries") || line.starts_with("cap")).collect();
    assert_eq!(
        lines,
        [
            "summaries 5 made, 16 calls to models, 82,501 tokens",
            "cap       7 of 24 calls, 12,000 of 1,000,000 tokens in the last 600 s",
        ]
    );
}

#[test]
fn more_ops_than_are_read_at_once_are_all_counted() {
    let desk = filled();
    let store = stores::reopen(&desk.home()).unwrap();
    store
        .commit(|commit| {
            for _ in 0..3000 {
                commit.op(
                    SessionId(1),
                    RUN_MS,
                    "test 1.0",
                    Change::Stage { summaries: 1, calls: 2, tokens: 3 },
                    None,
                )?;
            }
            Ok::<_, lcm_store::StoreError>(())
        })
        .unwrap();
    drop(store);
    assert_eq!(told(&desk, &[]), [[3000, 6000, 9000]; 2]);
}
