//! Compacting writes the next generation of the data file, and everybody changes over without losing anything.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lcm_core::{Message, SessionId};
use lcm_store::{OpenOptions, Store, StoreError};
use lcm_tests::folder::folder;
use lcm_tests::random::Random;
use lcm_tests::speech::{any, noise, tool, user};
use lcm_tests::stores::{append, assert_whole, everything, open, options, owner, reopen, session};

use crate::disks::{End, Ending, data_files};

fn filled(home: &std::path::Path) -> (Store, SessionId) {
    let store = open(home);
    let id = session(&store, &owner("hermes", "anna"), "chat");
    let mut random = Random::seeded(5);
    for _ in 0..30 {
        let turn: Vec<Message> = (0..4).map(|_| any(&mut random)).collect();
        append(&store, id, &turn).unwrap();
    }
    (store, id)
}

#[test]
fn a_compacted_store_is_smaller_and_tells_the_same() {
    let folder = folder();
    let (store, id) = filled(folder.path());
    // What one large commit needs and many small ones leave behind.
    for n in 0..200 {
        append(&store, id, &[tool(&format!("c{n}"), &noise(&mut Random::seeded(n), 3_000))]).unwrap();
    }
    assert!(!store.train_when_due().unwrap() || store.prepare(&[]).is_ok());
    let (before, size) = (everything(&store).unwrap(), fs::metadata(folder.path().join("store.1.redb")).unwrap().len());
    assert_eq!(store.compact().unwrap(), 2);
    assert_eq!(data_files(folder.path()), ["store.2.redb"], "the old file is gone");
    let compacted = fs::metadata(folder.path().join("store.2.redb")).unwrap().len();
    println!("{size} bytes became {compacted}");
    assert!(compacted * 10 < size * 9, "{size} bytes became {compacted}");
    assert_eq!(everything(&store).unwrap(), before);
    assert_whole(&store);
    append(&store, id, &[user("after")]).unwrap();
    drop(store);
    assert_eq!(everything(&reopen(folder.path()).unwrap()).unwrap()[0].1.len(), before[0].1.len() + 1);
}

#[test]
fn other_handles_change_over_with_their_next_call() {
    let folder = folder();
    let (store, id) = filled(folder.path());
    let (reader, writer) = (open(folder.path()), open(folder.path()));
    append(&writer, id, &[user("before")]).unwrap();
    let before = everything(&reader).unwrap();
    for generation in 2..5 {
        assert_eq!(store.compact().unwrap(), generation);
        assert_eq!(
            everything(&reader).unwrap()[0].1.len(),
            before[0].1.len() + usize::try_from(generation).unwrap() - 2
        );
        append(&writer, id, &[user("between")]).unwrap();
        for handle in [&store, &reader, &writer] {
            assert_whole(handle);
        }
    }
    assert_eq!(data_files(folder.path()).len(), 1);
}

#[test]
fn a_reader_in_the_old_generation_is_waited_for() {
    let folder = folder();
    let (_, id) = filled(folder.path());
    let wait = Duration::from_millis(200);
    let store = Store::open(folder.path(), OpenOptions { wait, ..options() }).unwrap();
    for other in [store.clone(), open(folder.path())] {
        let snapshot = other.snapshot().unwrap();
        let begun = Instant::now();
        assert!(matches!(store.compact(), Err(StoreError::Busy { what: "the store", .. })));
        assert!(begun.elapsed() >= wait && begun.elapsed() < wait + Duration::from_secs(5));
        assert_eq!(snapshot.session(id).unwrap().id, id, "it goes on reading");
    }
    store.compact().unwrap();
}

#[test]
fn what_a_crash_left_lying_is_removed_and_nothing_else() {
    let folder = folder();
    let (store, _) = filled(folder.path());
    let kept = ["spool", "CURRENT.bak", "store.1.redb.bak", "store.old", "store.2.redb.copy.1"];
    for name in ["store.2.redb", "store.9.redb", "store.1.redb.4711.0"].iter().chain(&kept) {
        fs::write(folder.path().join(name), "half-written").unwrap();
    }
    let before = everything(&store).unwrap();
    assert_eq!(everything(&reopen(folder.path()).unwrap()).unwrap(), before, "an open is not disturbed by them");
    assert_eq!(store.compact().unwrap(), 2);
    assert_eq!(data_files(folder.path()), ["store.1.redb.bak", "store.2.redb", "store.2.redb.copy.1", "store.old"]);
    assert!(kept.iter().all(|name| folder.path().join(name).exists()), "what somebody keeps there is not ours");
    assert_eq!(everything(&store).unwrap(), before);
}

#[test]
fn a_compaction_that_ends_anywhere_leaves_the_old_generation() {
    let whole = folder();
    let (store, _) = filled(whole.path());
    let before = everything(&store).unwrap();
    drop(store);
    let compact = |after| {
        let folder = folder();
        lcm_tests::folder::copy(whole.path(), folder.path());
        let disk = Ending::new(End::Dies, after);
        let store = Store::open(folder.path(), OpenOptions { disk: Some(disk.clone()), ..options() }).unwrap();
        let done = store.compact();
        drop(store);
        (folder, done, disk.changes())
    };
    let (_, done, changes) = compact(u64::MAX);
    done.unwrap();
    assert!(changes > 20);
    let mut survived = 0;
    for after in 0..changes {
        let (folder, done, _) = compact(after);
        // The very last changes come after `CURRENT` has moved on.
        let moved = fs::read_to_string(folder.path().join("CURRENT")).unwrap().contains("store.2.redb");
        assert!(moved || done.is_err(), "cut at {after}");
        let store = reopen(folder.path()).unwrap();
        assert_eq!(everything(&store).unwrap(), before, "cut at {after}");
        assert_whole(&store);
        let generation = store.compact().unwrap();
        survived += u32::from(!moved);
        assert_eq!(generation, if moved { 3 } else { 2 }, "cut at {after}");
        assert_eq!(data_files(folder.path()).len(), 1, "cut at {after}");
        assert_eq!(everything(&store).unwrap(), before, "cut at {after}");
    }
    assert!(survived > 10);
}

/// Handles of their own are to each other what processes are: their locks exclude each other just so.
#[test]
fn writers_and_readers_go_on_through_many_compactions() {
    let folder = folder();
    let (store, _) = filled(folder.path());
    let (over, commits) = (AtomicBool::new(false), AtomicUsize::new(0));
    let rounds = 12;
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|n| {
                let (home, over, commits) = (folder.path(), &over, &commits);
                scope.spawn(move || {
                    let store = open(home);
                    let id = session(&store, &owner("hermes", "anna"), &format!("writer {n}"));
                    let mut said = Vec::new();
                    while !over.load(Ordering::SeqCst) {
                        let message = user(&format!("{n}: {}", said.len()));
                        append(&store, id, std::slice::from_ref(&message)).unwrap();
                        said.push(lcm_tests::speech::text_of(&message));
                        commits.fetch_add(1, Ordering::SeqCst);
                    }
                    (format!("writer {n}"), said)
                })
            })
            .collect();
        let reader = {
            let (home, over) = (folder.path(), &over);
            scope.spawn(move || {
                let store = open(home);
                let mut seen = 0;
                while !over.load(Ordering::SeqCst) {
                    let now = everything(&store).unwrap().into_iter().map(|(_, texts)| texts.len()).sum();
                    assert!(now >= seen, "{seen} messages were there, now {now}");
                    seen = now;
                    thread::yield_now();
                }
            })
        };
        let mut compacted = 0;
        for round in 1..=rounds {
            // Some work between any two.
            let begun = Instant::now();
            while commits.load(Ordering::SeqCst) < 30 * round && begun.elapsed() < Duration::from_secs(20) {
                thread::yield_now();
            }
            match store.compact() {
                Ok(_) => compacted += 1,
                Err(StoreError::Busy { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        over.store(true, Ordering::SeqCst);
        let said: BTreeSet<(String, Vec<String>)> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        reader.join().unwrap();
        let kept: BTreeSet<(String, Vec<String>)> = everything(&store).unwrap().into_iter().collect();
        println!(
            "{compacted} of {rounds} compactions beside {} commits",
            said.iter().map(|(_, said)| said.len()).sum::<usize>()
        );
        assert!(said.is_subset(&kept), "everything acknowledged is kept, in order");
        assert!(compacted > rounds / 2, "{compacted} of {rounds}: the store was hardly ever free");
    });
    assert_whole(&store);
}
