//! One row that is lost or changed, and who tells of it.
//!
//! Method: lose what a store keeps of one message, and ask for all of them. The others are given, the lost one is
//! named or counted, and nothing that lists everything passes for whole.

use std::fs;
use std::path::Path;

use lcm_core::{Arrival, Message, SessionId};
use lcm_engine::Engine;
use lcm_engine::service::{ExportRecord, ExportRequest, Service};
use lcm_store::testing::{Loss, lose};
use lcm_store::{Grep, Listed, Pace, Pattern, Scope, Store, StoreError, Words};
use lcm_tests::folder::{contents, copy, folder};
use lcm_tests::speech::user;
use lcm_tests::stores::{append, assert_whole, check, open, owner, reopen, session};

const SAID: u64 = 40;
/// The message that is lost: neither the first nor the last of anything.
const LOST: Arrival = Arrival(17);

/// Two sessions in turn, each message with a word of its own and one that all share.
fn fill(home: &Path) {
    let store = open(home);
    let sessions = ["one", "two"].map(|name| session(&store, &owner("hermes", "anna"), name));
    for n in 1..=SAID {
        let id = sessions[usize::try_from(n % 2).unwrap()];
        append(&store, id, &[user(&format!("shared word{n}"))]).unwrap();
    }
}

const LOSSES: [Loss; 3] = [Loss::Place, Loss::PlaceBytes, Loss::Record];

/// Every number but the lost one's, newest first.
fn others() -> Vec<u64> {
    (1..=SAID).rev().filter(|n| *n != LOST.0).collect()
}

/// The numbers that each kind of search gives, with how many it says are damaged.
fn searched(store: &Store, scope: &Scope) -> [(Vec<u64>, u64); 3] {
    let numbers = |hits: &[lcm_store::Hit]| hits.iter().map(|hit| hit.placed.arrival.0).collect::<Vec<_>>();
    let grep = Grep { hits_max: 0, ..Grep::new(Pattern::Literal("shared".into())) };
    let grep = store.grep(scope, &grep).unwrap();
    let words = Words { hits_max: 100, ..Words::new("shared") };
    let found = store.words(scope, &words).unwrap();
    let ranked = store.ranked(scope, &words).unwrap();
    let mut best = numbers(&ranked.hits);
    best.sort_unstable_by(|a, b| b.cmp(a));
    [(numbers(&grep.hits), grep.scanned.damaged), (numbers(&found.hits), found.damaged), (best, ranked.damaged)]
}

#[test]
fn a_search_gives_all_but_the_lost_message_and_counts_it() {
    let folder = folder();
    let [fresh, indexed] = ["fresh", "indexed"].map(|name| folder.path().join(name));
    fill(&fresh);
    copy(&fresh, &indexed);
    open(&indexed).catch_up(Pace::Bulk, &|_| {}).unwrap();
    for (state, whole) in [("fresh", &fresh), ("indexed", &indexed)] {
        for loss in LOSSES {
            let home = folder.path().join(format!("{state}{loss:?}"));
            copy(whole, &home);
            lose(&home, LOST, loss).unwrap();
            let store = reopen(&home).unwrap();
            // The first search of a process reads what is not indexed where it is, those behind it keep it.
            for time in 1..=3 {
                for (kind, found) in ["grep", "words", "ranked"].iter().zip(searched(&store, &Scope::everything())) {
                    assert_eq!(found, (others(), 1), "{kind} {time}, {state}, without its {loss:?}");
                }
            }
            // A session that cannot have it may not know that it does not.
            let one = Scope::everything().in_sessions(vec![SessionId(1)]);
            let even: Vec<u64> = others().into_iter().filter(|n| n % 2 == 0).collect();
            for (found, _) in searched(&store, &one) {
                assert_eq!(found, even, "{state}, without its {loss:?}");
            }
        }
    }
}

#[test]
fn what_is_asked_about_the_lost_message_is_answered_with_an_error_that_names_it() {
    for loss in [Loss::Place, Loss::PlaceBytes] {
        let folder = folder();
        let home = folder.path().join("store");
        fill(&home);
        lose(&home, LOST, loss).unwrap();
        let store = reopen(&home).unwrap();
        let snapshot = store.snapshot().unwrap();
        let names_it =
            |error: &StoreError| error.is_damage() && error.to_string().starts_with("row 17 of table places");
        let found = snapshot.find_place(&Scope::everything(), LOST);
        assert!(found.as_ref().is_err_and(names_it), "{found:?}");
        assert!(snapshot.find_place(&Scope::everything(), Arrival(SAID + 1)).unwrap().is_none());
        let timeline = snapshot.session(SessionId(2)).unwrap().timeline;
        assert!(snapshot.log(timeline, None, 100).is_err_and(|error| names_it(&error)));
        let listed = snapshot.listed(timeline, None, 100).unwrap();
        let damaged = |listed: &Listed| matches!(listed, Listed::Damaged { why, .. } if names_it(why));
        assert_eq!(listed.len(), 20);
        for line in &listed {
            assert_eq!(damaged(line), line.arrival() == LOST, "{line:?}");
        }
        // Page by page the same.
        let mut behind = None;
        for line in &listed {
            let page = snapshot.listed(timeline, behind.as_ref(), 1).unwrap();
            assert_eq!(page[0].arrival(), line.arrival());
            behind = Some(line.order().clone());
        }
        // An index without it would let searches pass over it in silence.
        let indexed = store.catch_up(Pace::Bulk, &|_| {});
        assert!(indexed.as_ref().is_err_and(names_it), "{indexed:?}");
        let report = check(&store).unwrap();
        assert!(report.told.iter().any(|fault| fault.part == "places" && !fault.derived), "{:#?}", report.told);
    }
}

/// What came of an export: the numbers of its messages, and of those that are damaged.
fn exported(engine: &Engine) -> Result<(Vec<u64>, Vec<u64>), String> {
    let (mut messages, mut damaged, mut ended) = (Vec::new(), Vec::new(), None);
    let request = ExportRequest { scope: Scope::everything(), now_ms: 0 };
    let done = engine.export(&request, &mut |record| {
        match record {
            ExportRecord::Message(message) => messages.push(message.number.0),
            ExportRecord::Damaged { number, why } => {
                assert!(!why.is_empty());
                damaged.push(number.0);
            }
            ExportRecord::End { messages, .. } => ended = Some(messages),
            _ => {}
        }
        Ok(())
    });
    match done {
        Ok(()) => {
            assert_eq!(ended, Some(u64::try_from(messages.len()).unwrap()));
            messages.sort_unstable_by(|a, b| b.cmp(a));
            Ok((messages, damaged))
        }
        Err(error) => {
            assert!(messages.is_empty() && ended.is_none(), "it failed on the way");
            Err(error.to_string())
        }
    }
}

#[test]
fn lists_and_exports_go_on_without_the_lost_message() {
    for loss in LOSSES {
        let folder = folder();
        let home = folder.path().join("store");
        fill(&home);
        lose(&home, LOST, loss).unwrap();
        let engine = Engine::new(reopen(&home).unwrap());
        let sessions = engine.sessions(&Scope::everything()).unwrap();
        let counts: Vec<u64> = sessions.iter().map(|entry| entry.messages).collect();
        let expected = if loss == Loss::Record { 20 } else { 19 };
        assert_eq!(counts, [20, expected], "without its {loss:?}");
        assert_eq!(exported(&engine), Ok((others(), vec![LOST.0])), "without its {loss:?}");
    }
}

#[test]
fn a_branch_shares_what_its_parent_has_in_the_export() {
    let folder = folder();
    let home = folder.path().join("store");
    let store = open(&home);
    let id = session(&store, &owner("hermes", "anna"), "one");
    let said: Vec<Message> = (1..=6).map(|n| user(&format!("word{n}"))).collect();
    append(&store, id, &said).unwrap();
    let snapshot = store.snapshot().unwrap();
    let timeline = snapshot.session(id).unwrap().timeline;
    let last = snapshot.log(timeline, None, 4).unwrap().pop().unwrap();
    store.commit(|commit| commit.branch(id, timeline, &last.order, 0)).unwrap();
    append(&store, id, &[user("behind the branch")]).unwrap();
    drop((snapshot, store));
    lose(&home, Arrival(2), Loss::Record).unwrap();
    let engine = Engine::new(reopen(&home).unwrap());
    let mut shared = Vec::new();
    let request = ExportRequest { scope: Scope::everything(), now_ms: 0 };
    let mut take = |record| {
        if let ExportRecord::Timeline { parent: Some((_, count)), .. } = record {
            shared.push(count);
        }
        Ok(())
    };
    engine.export(&request, &mut take).unwrap();
    assert_eq!(shared, [3], "the first four without the second");
}

#[test]
fn no_export_is_made_while_a_message_is_listed_nowhere() {
    let folder = folder();
    let home = folder.path().join("store");
    fill(&home);
    lose(&home, LOST, Loss::Listing).unwrap();
    let engine = Engine::new(reopen(&home).unwrap());
    let error = exported(&engine).unwrap_err();
    let path = home.join("store.1.redb");
    assert!(error.starts_with(&format!("{} is damaged", path.display())), "{error}");
    assert!(!check(engine.store()).unwrap().is_clean());
}

/// A walk over a range ends at the first key beyond it: one damaged key hid all that stood behind it from the check.
#[test]
fn a_number_that_is_too_large_hides_nothing_from_the_check() {
    let folder = folder();
    let whole = folder.path().join("whole");
    fill(&whole);
    // The keys of one page lie behind each other.
    let keys: Vec<u8> = (16..19_u64).flat_map(u64::to_le_bytes).collect();
    let bytes = fs::read(whole.join("store.1.redb")).unwrap();
    let spots: Vec<usize> = (0..bytes.len() - keys.len()).filter(|at| bytes[*at..].starts_with(&keys)).collect();
    assert!(!spots.is_empty());
    for spot in spots {
        let home = folder.path().join(spot.to_string());
        copy(&whole, &home);
        let mut damaged = bytes.clone();
        damaged[spot + 8 + 1] ^= 0x40;
        fs::write(home.join("store.1.redb"), &damaged).unwrap();
        let store = reopen(&home).unwrap();
        let said = |n| {
            let snapshot = store.snapshot()?;
            let placed =
                snapshot.find_place(&Scope::everything(), Arrival(n))?.ok_or(StoreError::NoPlace(Arrival(n)))?;
            lcm_tests::stores::said(&snapshot, &placed)
        };
        let unread = (1..=SAID).filter(|n| said(*n).is_err()).count();
        assert!(unread <= 1, "{unread} are gone with the one");
        let is_whole = check(&store).unwrap().is_clean();
        assert!(unread == 0 || !is_whole, "at {spot}: {unread} cannot be read, and the check finds nothing");
    }
}

#[test]
fn a_data_file_that_cannot_be_opened_to_be_written_is_told() {
    let folder = folder();
    let home = folder.path().join("store");
    fill(&home);
    let before = contents(&home);
    assert_whole(&reopen(&home).unwrap());
    assert!(before == contents(&home), "the check leaves the bytes as they were");
    let path = home.join("store.1.redb");
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() + 5_000_000).unwrap();
    let store = reopen(&home).unwrap();
    assert_eq!(searched(&store, &Scope::everything())[0].0.len(), 40, "it can be read");
    let report = check(&store).unwrap();
    assert!(report.told.iter().any(|fault| fault.part == "data file" && !fault.derived), "{:#?}", report.told);
    let refused = append(&store, SessionId(1), &[user("no")]);
    assert!(matches!(&refused, Err(StoreError::DamagedFile { path: named, .. }) if *named == path), "{refused:?}");
}

#[test]
fn a_data_file_that_was_cut_is_damaged_and_named() {
    let folder = folder();
    let whole = folder.path().join("whole");
    fill(&whole);
    let len = fs::metadata(whole.join("store.1.redb")).unwrap().len();
    for part in 1..20 {
        let home = folder.path().join(part.to_string());
        copy(&whole, &home);
        let path = home.join("store.1.redb");
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(len * part / 20).unwrap();
        let asked = reopen(&home).and_then(|store| {
            let snapshot = store.snapshot()?;
            snapshot.check_listed()?;
            for session in snapshot.sessions(&Scope::everything())? {
                lcm_tests::stores::texts(&snapshot, session.timeline)?;
            }
            Ok(())
        });
        let Err(error) = asked else { continue };
        assert!(error.is_damage(), "{part}/20: {error:?}");
        let text = error.to_string();
        assert!(text.contains(&path.display().to_string()) || text.contains("table"), "{part}/20: {text}");
        assert!(!text.contains("unreachable") && !text.contains("buffer"), "{part}/20: {text}");
    }
}
