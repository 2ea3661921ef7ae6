//! Stores of every format that was ever given out stay readable.
//!
//! `tests/fixtures/formats/<n>/` holds a small store of format n and, as JSON lines, what is in it. The folder of the
//! present format is made anew with `LCM_MAKE_FIXTURES=1 cargo test -p lcm-tests --test store formats`, for as long
//! as no program that writes it has been given out; those of older formats are never touched again.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use lcm_core::op::Change;
use lcm_core::view::View;
use lcm_core::{OpId, OrderKey, Summary, node};
use lcm_store::{Buffer, Scope, Store};
use lcm_tests::folder::{contents, folder};
use lcm_tests::random::Random;
use lcm_tests::speech::{any, message, tool, user};
use lcm_tests::stores::{NOW_MS, append, assert_whole, log, open, owner, place, prepare, reopen, said, session};

fn fixture(format: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/formats/{format}"))
}

/// One of everything that format 1 can hold.
fn fill(home: &Path) {
    let store = open(home);
    let mut random = Random::seeded(8);
    let id = session(&store, &owner("hermes", "anna"), "first chat");
    // Noise would make the fixture large, and says nothing that the rest does not.
    let short = |message: &lcm_core::Message| message.json().to_text().len() < 2000;
    let turn: Vec<_> = std::iter::repeat_with(|| any(&mut random)).filter(short).take(12).collect();
    append(&store, id, &turn).unwrap();
    append(
        &store,
        id,
        &[message(r#"{"z":1,"role":"user","content":"order of keys","a":[1.50,1e2]}"#), turn[0].clone()],
    )
    .unwrap();
    // Enough to train a dictionary on, and something that uses it.
    let lines =
        |n: usize| tool(&format!("call_{n}"), &format!("-rw-r--r-- {n} root root /srv/{n}/{}\n", n * n).repeat(9));
    append(&store, id, &(0..410).map(lines).collect::<Vec<_>>()).unwrap();
    assert!(store.train_when_due().unwrap());
    append(&store, id, &(410..420).map(lines).collect::<Vec<_>>()).unwrap();

    let snapshot = store.snapshot().unwrap();
    let timeline = snapshot.session(id).unwrap().timeline;
    let places = log(&snapshot, timeline).unwrap();
    let mut buffer = Buffer::default();
    let children = places[..4].iter().map(|placed| {
        snapshot.read(placed.record, &mut buffer).unwrap();
        buffer.id()
    });
    let parts = node::SummaryParts {
        text: "how it began".to_owned(),
        children: children.collect(),
        depth: 1,
        span_ms: (NOW_MS, NOW_MS + 1000),
    };
    let mut summary = Summary::new(parts).unwrap();
    (summary.source_tokens, summary.own_tokens, summary.prompt_version) = (400, 4, 2);
    (summary.model, summary.marks, summary.mentions) = ("a model".into(), vec!["cut".into()], vec!["/srv".into()]);
    let summary_id = lcm_core::canon::message_id(&lcm_core::canon::encode_summary(&summary));
    let view = View::raw(places[0].order.clone()).fold(&places[0].order, &places[4].order, summary_id).unwrap();
    let others = prepare(&store, &[user("[cleared]"), user("late"), user("on the branch")]);
    store
        .commit(|commit| {
            commit.summary(&summary, timeline, &places[0].order, NOW_MS)?;
            commit.op(id, NOW_MS, "test 1.0", Change::Fold { summary: summary_id }, Some(&view))?;
            commit.revise(places[1].arrival, &others[0], NOW_MS + 5, br#"{"at":5}"#)?;
            commit.op(
                id,
                NOW_MS,
                "test 1.0",
                Change::Revise { arrival: places[1].arrival, form: others[0].id() },
                None,
            )?;
            commit.insert(
                timeline,
                &OrderKey::between(&places[4].order, Some(&places[5].order)),
                &place(&others[1]),
            )?;
            let branch = commit.branch(id, timeline, &places[6].order, NOW_MS)?;
            commit.op(id, NOW_MS, "test 1.0", Change::Branch { from: Some(timeline), to: branch, shared: 7 }, None)?;
            commit.append(branch, &[place(&others[2])])?;
            commit.op(id, NOW_MS, "test 1.0", Change::Stage { summaries: 3, calls: 4, tokens: 70_000 }, None)?;
            commit.op(id, NOW_MS, "test 1.0", Change::Unfold { summary: summary_id }, None)
        })
        .unwrap();
    let other = session(&store, &owner("librefang", "bert"), "second chat");
    append(&store, other, &[turn[0].clone(), user("somebody else's")]).unwrap();
}

/// Everything a store holds, one line a thing; long texts by their beginning, as their ids speak for all of them.
fn told(store: &Store) -> String {
    let snapshot = store.snapshot().unwrap();
    let mut lines = Vec::new();
    let mut buffer = Buffer::default();
    for session in snapshot.sessions(&Scope::everything()).unwrap() {
        let (id, owner) = (session.id, session.owner);
        lines.push(format!(
            "session {id}: {} of {} with {}, from {}",
            session.name, owner.agent, owner.person, session.source
        ));
        lines.push(format!("session {id}: since {}, goes on with {}", session.created_ms, session.timeline));
        for timeline in snapshot.timelines_of(id).unwrap() {
            let parent = snapshot.timeline(timeline).unwrap().parent;
            lines.push(format!("timeline {timeline}: shares {parent:?}"));
            for placed in log(&snapshot, timeline).unwrap() {
                let (at, order) = (placed.arrival, &placed.order);
                let (text, short) =
                    (said(&snapshot, &placed).unwrap(), format!("{} {}", placed.seen_ms, placed.tokens));
                snapshot.read(placed.record, &mut buffer).unwrap();
                lines.push(format!("  {at} at {order:?}: {:.20} {short} {text:.120}", buffer.id()));
                for (record, seen_ms, volatile) in snapshot.revisions(at).unwrap() {
                    snapshot.read(record, &mut buffer).unwrap();
                    let volatile = String::from_utf8(volatile).unwrap();
                    lines.push(format!("  {at} later: {:.20} {seen_ms} {volatile}", buffer.id()));
                }
            }
        }
        let view = snapshot.view(id, OpId(u64::MAX)).unwrap();
        for segment in view.iter().flat_map(View::segments) {
            lines.push(format!("session {id}: shows from {:?} {:?}", segment.first, segment.shows));
        }
    }
    for op in snapshot.ops(OpId(0), usize::MAX).unwrap() {
        lines.push(format!("op {}: session {} at {} by {}: {:?}", op.id, op.session, op.at_ms, op.by, op.what));
    }
    for number in (1..).map(lcm_core::SummaryNumber) {
        let Some(placed) = snapshot.find_summary(&Scope::everything(), number).unwrap() else { break };
        let summary = snapshot.summary(placed.record, &mut buffer).unwrap();
        lines.push(format!("summary {number} at {} of {:?}: {:.20}", placed.arrival, placed.order, buffer.id()));
        lines.push(format!("summary {number}: {} {:?}", summary.text(), summary.children()));
    }
    lines.join("\n") + "\n"
}

fn unpacked(format: u32, home: &Path) {
    fs::DirBuilder::new().mode(0o700).create(home).unwrap();
    fs::copy(fixture(format).join("CURRENT"), home.join("CURRENT")).unwrap();
    let mut data = Vec::new();
    GzDecoder::new(fs::File::open(fixture(format).join("store.1.redb.gz")).unwrap()).read_to_end(&mut data).unwrap();
    fs::write(home.join("store.1.redb"), data).unwrap();
    for name in ["CURRENT", "store.1.redb"] {
        fs::set_permissions(home.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn a_store_of_format_1_tells_what_it_told() {
    if std::env::var_os("LCM_MAKE_FIXTURES").is_some() {
        let folder = folder();
        fill(folder.path());
        // One generation further, and back to the first: without what churn left, it is a fifth of the size.
        open(folder.path()).compact().unwrap();
        let data = fs::read(folder.path().join("store.2.redb")).unwrap();
        let file = fs::File::create(fixture(1).join("store.1.redb.gz")).unwrap();
        let mut packed = GzEncoder::new(file, flate2::Compression::best());
        packed.write_all(&data).unwrap();
        packed.finish().unwrap();
        let current = fs::read_to_string(folder.path().join("CURRENT")).unwrap().replace("store.2", "store.1");
        fs::write(fixture(1).join("CURRENT"), current).unwrap();
        fs::write(fixture(1).join("told.txt"), told(&open(folder.path()))).unwrap();
    }
    let folder = folder();
    let home = folder.path().join("store");
    unpacked(1, &home);
    let before = contents(&home);
    let store = reopen(&home).unwrap();
    let expected = fs::read_to_string(fixture(1).join("told.txt")).unwrap();
    let found = told(&store);
    for (n, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {n}");
    }
    assert_eq!(found.len(), expected.len());
    assert_whole(&store);
    assert!(before == contents(&home), "reading changes nothing");
    // And it goes on.
    let id = session(&store, &owner("hermes", "anna"), "first chat");
    append(&store, id, &[user("today")]).unwrap();
    assert_eq!(told(&store).lines().count(), expected.lines().count() + 1);
    assert_whole(&store);
}
