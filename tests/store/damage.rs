//! A damaged data file: a bit that flipped, a sector of zeros, a page of another time.
//!
//! Method: damage copies of one store at random places and ask each of them everything. Whatever is answered is what
//! the whole store answers; the rest is an error that says so, never a panic, never a wait without end. What is missing
//! or changed without any question having met it is named by the check.
//!
//! Not here: writing. Where the pages are damaged in which redb keeps account of the free ones, a commit can panic while
//! it panics, and that ends a process; nobody above can contain it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lcm_core::op::Change;
use lcm_core::view::View;
use lcm_core::{Arrival, IdPrefix, Message, NodeId, OpId, OrderKey, Summary, SummaryNumber, node};
use lcm_store::{Scope, Store, StoreError};
use lcm_tests::folder::{copy, folder};
use lcm_tests::random::Random;
use lcm_tests::speech::{any, noise, tool, user};
use lcm_tests::stores::{NOW_MS, append, check, open, owner, prepare, reopen, said, session};

const DATA: &str = "store.1.redb";

/// A store with something in every table.
fn fill(home: &Path) {
    let store = open(home);
    let mut random = Random::seeded(6);
    for (agent, person) in [("hermes", "anna"), ("hermes", "bert"), ("librefang", "anna")] {
        let id = session(&store, &owner(agent, person), &format!("{agent} with {person}"));
        for n in 0..12 {
            let turn: Vec<Message> = (0..4).map(|_| any(&mut random)).collect();
            append(&store, id, &turn).unwrap();
            append(&store, id, &[tool(&format!("{agent}{person}{n}"), &noise(&mut random, 900))]).unwrap();
        }
        let snapshot = store.snapshot().unwrap();
        let timeline = snapshot.session(id).unwrap().timeline;
        let log = snapshot.log(timeline, None, usize::MAX).unwrap();
        let ids: Vec<NodeId> = log
            .iter()
            .map(|placed| {
                let mut buffer = lcm_store::Buffer::default();
                snapshot.read(placed.record, &mut buffer).unwrap();
                buffer.id()
            })
            .collect();
        let forms = prepare(&store, &[user("a later form"), user("a late message")]);
        let mut view = View::raw(log[0].order.clone());
        for first in [0, 10, 20] {
            let parts = node::SummaryParts {
                text: format!("ten messages of {agent} and {person} from {first} on"),
                children: ids[first..first + 10].to_vec(),
                depth: 1,
                span_ms: (NOW_MS, NOW_MS),
            };
            let summary = Summary::new(parts).unwrap();
            let summary_id = lcm_core::canon::message_id(&lcm_core::canon::encode_summary(&summary));
            view = view.fold(&log[first].order, &log[first + 10].order, summary_id).unwrap();
            store
                .commit(|commit| {
                    commit.summary(&summary, timeline, &log[first].order, NOW_MS)?;
                    commit.revise(log[first].arrival, &forms[0], NOW_MS, b"{}")?;
                    commit.op(id, NOW_MS, "test", Change::Fold { summary: summary_id }, Some(&view))
                })
                .unwrap();
        }
        store
            .commit(|commit| {
                let branch = commit.branch(id, timeline, &log[30].order, NOW_MS)?;
                let late = OrderKey::between(&log[3].order, Some(&log[4].order));
                commit.insert(branch, &late, &lcm_tests::stores::place(&forms[1]))
            })
            .unwrap();
    }
}

/// The question whether anything that lists messages hides a row.
const ALL_LISTED: &str = "that all is listed";

/// Everything a store can be asked, each question with its answer as text.
type Answers = BTreeMap<String, Result<String, StoreError>>;

fn ask_everything(store: &Store, ids: &[NodeId]) -> Answers {
    let mut answers = Answers::new();
    let everything = Scope::everything();
    let snapshot = match store.snapshot() {
        Ok(snapshot) => snapshot,
        Err(error) => return Answers::from([("a snapshot".to_owned(), Err(error))]),
    };
    let mut answer = |question: String, answer: Result<String, StoreError>| {
        answers.insert(question, answer);
    };
    let sessions = snapshot.sessions(&everything);
    for session in sessions.as_deref().unwrap_or_default() {
        let (id, named) = (session.id, snapshot.session_named(&session.owner, &session.name));
        answer(format!("the session named {}", session.name), named.map(|found| format!("{found:?}")));
        answer(format!("the session {id}"), snapshot.session(id).map(|found| format!("{found:?}")));
        answer(format!("the view of {id}"), snapshot.view(id, OpId(u64::MAX)).map(|view| format!("{view:?}")));
        let timelines = snapshot.timelines_of(id);
        for &timeline in timelines.as_deref().unwrap_or_default() {
            let log = snapshot.log(timeline, None, usize::MAX);
            for placed in log.as_deref().unwrap_or_default() {
                answer(format!("what was said at {}", placed.arrival), said(&snapshot, placed));
            }
            let log = log.map(|log| format!("{log:?}"));
            answer(format!("the log of {timeline}"), log);
            answer(format!("the length of {timeline}"), snapshot.log_len(timeline).map(|len| len.to_string()));
            answer(format!("the end of {timeline}"), snapshot.last_place(timeline).map(|last| format!("{last:?}")));
        }
        answer(format!("the timelines of {id}"), timelines.map(|timelines| format!("{timelines:?}")));
    }
    answer("the sessions".into(), sessions.map(|sessions| format!("{sessions:?}")));
    answer(ALL_LISTED.into(), snapshot.check_listed().map(|()| String::new()));
    answer("the ops".into(), snapshot.ops(OpId(0), usize::MAX).map(|ops| format!("{ops:?}")));
    let newest_first = snapshot.ops_before(OpId(u64::MAX), usize::MAX);
    answer("the ops, newest first".into(), newest_first.map(|ops| format!("{ops:?}")));
    for arrival in (1..=200).map(Arrival) {
        answer(
            format!("the place {arrival}"),
            snapshot.find_place(&everything, arrival).map(|place| format!("{place:?}")),
        );
        let forms = snapshot.revisions(arrival);
        for (record, ..) in forms.as_deref().unwrap_or_default() {
            let mut buffer = lcm_store::Buffer::default();
            let read = snapshot.read(*record, &mut buffer).map(|()| buffer.id().to_string());
            answer(format!("the form {record:?}"), read);
        }
        answer(format!("the forms of {arrival}"), forms.map(|forms| format!("{forms:?}")));
    }
    for number in (1..=9).map(SummaryNumber) {
        let found = snapshot.find_summary(&everything, number);
        if let Ok(Some(placed)) = &found {
            let mut buffer = lcm_store::Buffer::default();
            let summary = snapshot.summary(placed.record, &mut buffer).map(|summary| format!("{summary:?}"));
            answer(format!("the text of summary {number}"), summary);
            let children = snapshot.children(placed.record).map(|children| format!("{children:?}"));
            answer(format!("the children of summary {number}"), children);
        }
        answer(format!("summary {number}"), found.map(|found| format!("{found:?}")));
    }
    for id in ids {
        answer(
            format!("the places of {id:.12}"),
            snapshot.places_of(&everything, id).map(|places| format!("{places:?}")),
        );
        let prefix = IdPrefix::from_hex(&format!("{id:.16}")).unwrap();
        answer(
            format!("the node {id:.16}"),
            snapshot.find_nodes(&everything, &prefix, 2).map(|found| format!("{found:?}")),
        );
        if let Ok(Some((_, placed))) =
            snapshot.find_nodes(&everything, &prefix, 1).map(|found| found.into_iter().next())
        {
            answer(
                format!("what stands for {id:.12}"),
                snapshot.parents(placed.record).map(|parents| format!("{parents:?}")),
            );
        }
    }
    answers
}

fn ids_of(store: &Store) -> Vec<NodeId> {
    let snapshot = store.snapshot().unwrap();
    let all = IdPrefix::from_hex("0").unwrap();
    let mut ids: Vec<NodeId> = Vec::new();
    for digit in "0123456789abcdef".chars() {
        let prefix = IdPrefix::from_hex(&digit.to_string()).unwrap_or(all);
        ids.extend(
            snapshot.find_nodes(&Scope::everything(), &prefix, usize::MAX).unwrap().into_iter().map(|(id, _)| id),
        );
    }
    ids
}

/// How a file is damaged.
#[derive(Debug)]
enum Damage {
    Flip {
        at: u64,
        bit: u8,
    },
    Fill {
        at: u64,
        len: usize,
        byte: u8,
    },
    Noise {
        at: u64,
        len: usize,
        seed: u64,
    },
    /// Pages that changed places.
    Swap {
        one: u64,
        other: u64,
    },
}

impl Damage {
    fn any(random: &mut Random, len: u64) -> Self {
        let at = random.number() % len;
        let page = |random: &mut Random| random.number() % (len / 4096) * 4096;
        match random.below(10) {
            0..=4 => Self::Flip { at, bit: u8::try_from(random.below(8)).unwrap() },
            5 => Self::Fill { at: at / 512 * 512, len: 512, byte: 0 },
            6 => Self::Fill { at: page(random), len: 4096, byte: *random.pick(&[0, 0xff]) },
            7 => Self::Noise { at, len: 1 + random.below(16), seed: random.number() },
            8 => Self::Noise { at: page(random), len: 4096, seed: random.number() },
            _ => Self::Swap { one: page(random), other: page(random) },
        }
    }

    fn apply(&self, bytes: &mut [u8]) {
        let index = |at: u64| usize::try_from(at).unwrap();
        match *self {
            Self::Flip { at, bit } => bytes[index(at)] ^= 1 << bit,
            Self::Fill { at, len, byte } => {
                let end = (index(at) + len).min(bytes.len());
                bytes[index(at)..end].fill(byte);
            }
            Self::Noise { at, len, seed } => {
                let (end, mut random) = ((index(at) + len).min(bytes.len()), Random::seeded(seed));
                bytes[index(at)..end].fill_with(|| u8::try_from(random.number() & 255).unwrap());
            }
            Self::Swap { one, other } if one != other => {
                let (low, high) = (index(one.min(other)), index(one.max(other)));
                let (front, back) = bytes.split_at_mut(high);
                front[low..low + 4096].swap_with_slice(&mut back[..4096]);
            }
            Self::Swap { .. } => {}
        }
    }
}

/// What came of a damaged store.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Nobody can tell it from the whole one.
    Whole,
    /// Not opened, and an error says why.
    NotOpened,
    /// The last commit is gone, as after a crash: its header was damaged, and the one before it is used.
    Before,
    /// Errors where it is damaged, right answers elsewhere.
    Errors,
    /// Only the check found it.
    Checked,
}

fn examine(home: &Path, whole: &Answers, before: &Answers, ids: &[NodeId]) -> Result<Outcome, String> {
    let store = match reopen(home) {
        Ok(store) => store,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Ok(Outcome::NotOpened);
        }
    };
    let answers = ask_everything(&store, ids);
    let report = check(&store);
    let faulty = report.as_ref().map_or(true, |report| !report.is_clean());
    let errors = answers.values().filter(|answer| answer.is_err()).count();
    let differs = |expected: &Answers| {
        expected.iter().find_map(|(question, expected)| match (answers.get(question), expected) {
            (Some(Ok(answer)), Ok(expected)) if answer != expected => {
                Some(format!("{question}: {answer:.300} instead of {expected:.300}"))
            }
            // Not asked, because the list of what to ask about was an error or shorter.
            (None, _) if errors == 0 => Some(format!("{question} did not come up")),
            _ => None,
        })
    };
    let Some(difference) = differs(whole) else {
        return Ok(match (errors, faulty) {
            (0, false) => Outcome::Whole,
            (0, true) => Outcome::Checked,
            (_, true) => Outcome::Errors,
            (_, false) => {
                let error = answers.iter().find(|(_, answer)| answer.is_err());
                return Err(format!("{errors} errors, and the check finds nothing: {error:?}"));
            }
        });
    };
    if differs(before).is_none() && !faulty {
        return Ok(Outcome::Before);
    }
    // A link without a check of its own may be gone; then it is absent, never another's, and the check names it.
    let all_is_listed = answers.get(ALL_LISTED).is_some_and(Result::is_ok);
    let wrong = whole.iter().find_map(|(question, expected)| match (answers.get(question), expected) {
        (Some(Ok(answer)), Ok(expected)) => {
            // What exports are made of is no shorter than it should be, or the one who exports was told.
            let lists = ["the sessions", "the timelines of ", "the log of ", "the forms of "];
            let may_be_less = !(all_is_listed && lists.iter().any(|list| question.starts_with(list)));
            let right = answer == expected
                || (may_be_less && (is_less(answer, expected) || is_other_place(question, answer, whole)));
            (!right).then(|| format!("{question}: {answer:.300} instead of {expected:.300}"))
        }
        _ => None,
    });
    match wrong {
        None if faulty => Ok(Outcome::Checked),
        None => Err(format!("the check finds nothing; {difference}")),
        Some(wrong) => Err(wrong),
    }
}

/// Whether an answer is the expected one with something missing: every word of it stands there, in order.
fn is_less(answer: &str, expected: &str) -> bool {
    let mut words = expected.split([' ', ',', '[', ']', '(', ')']);
    answer
        .split([' ', ',', '[', ']', '(', ')'])
        .filter(|word| !word.is_empty() && *word != "None")
        .all(|word| words.any(|expected| expected == word))
}

/// Whether a node is found at another of its places, or a log ends with another of its places: the links to those
/// behind are gone.
fn is_other_place(question: &str, answer: &str, whole: &Answers) -> bool {
    let all = if let Some(id) = question.strip_prefix("the node ") {
        format!("the places of {id:.12}")
    } else if let Some(timeline) = question.strip_prefix("the end of ") {
        format!("the log of {timeline}")
    } else if let Some(timeline) = question.strip_prefix("the length of ") {
        let len = |answers: &str| answers.parse::<usize>().unwrap();
        let whole = whole[&format!("the length of {timeline}")].as_ref().unwrap();
        return len(answer) < len(whole);
    } else {
        return false;
    };
    let places = whole.get(&all).and_then(|places| places.as_ref().ok());
    let place = answer.find("Placed").map(|at| answer[at..].trim_end_matches([')', ']']));
    places.zip(place).is_some_and(|(places, place)| places.contains(place))
}

/// Runs `examine` where it can neither end the test nor hold it up.
fn contained(call: impl FnOnce() -> Result<Outcome, String> + Send + 'static) -> Result<Outcome, String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let done = catch_unwind(AssertUnwindSafe(call));
        let panicked = |panic: Box<dyn std::any::Any + Send>| {
            let said = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            Err(format!("it panicked: {}", said.unwrap_or_default()))
        };
        drop(sender.send(done.unwrap_or_else(panicked)));
    });
    receiver.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| Err("it took longer than a minute".into()))
}

#[test]
fn whatever_is_damaged_answers_are_right_or_errors() {
    let cases = std::env::var("LCM_TEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300);
    let mut random = Random::of_test(7);
    let folder = folder();
    let home = folder.path().join("whole");
    fill(&home);
    let before_last = folder.path().join("before");
    copy(&home, &before_last);
    let mut ids = Vec::new();
    let [before, whole] = [&before_last, &home].map(|home| {
        let store = open(home);
        if ids.is_empty() {
            ids = ids_of(&store);
        }
        let answers = ask_everything(&store, &ids);
        assert!(answers.values().all(Result::is_ok));
        answers
    });
    // The last commit and the one before it, so that a lost header shows.
    let id = lcm_core::SessionId(1);
    append(&open(&home), id, &[user("the last")]).unwrap();
    let whole = {
        drop(whole);
        ask_everything(&open(&home), &ids)
    };
    let bytes = fs::read(home.join(DATA)).unwrap();
    println!("{} bytes, {} questions", bytes.len(), whole.len());
    let (whole, before, ids) = (std::sync::Arc::new(whole), std::sync::Arc::new(before), std::sync::Arc::new(ids));
    let mut outcomes: BTreeMap<Outcome, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in 0..cases {
        let damage = Damage::any(&mut random, u64::try_from(bytes.len()).unwrap());
        let damaged = folder.path().join(format!("damaged{case}"));
        fs::DirBuilder::new().mode(0o700).create(&damaged).unwrap();
        fs::copy(home.join("CURRENT"), damaged.join("CURRENT")).unwrap();
        let mut changed = bytes.clone();
        damage.apply(&mut changed);
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(damaged.join(DATA));
        file.unwrap().write_all_at(&changed, 0).unwrap();
        let (place, whole, before, ids) = (damaged.clone(), whole.clone(), before.clone(), ids.clone());
        match contained(move || examine(&place, &whole, &before, &ids)) {
            Ok(outcome) => *outcomes.entry(outcome).or_default() += 1,
            Err(what) => wrong.push(format!("case {case}, {damage:?}: {what}")),
        }
        fs::remove_dir_all(&damaged).unwrap();
    }
    println!("{outcomes:?}");
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(outcomes.len() > 2, "damage was not met: {outcomes:?}");
}
