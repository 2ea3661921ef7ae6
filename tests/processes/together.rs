//! Writers and readers side by side, in processes and in threads.

use std::thread;
use std::time::{Duration, Instant};

use lcm_store::StoreError;
use lcm_tests::folder::folder;
use lcm_tests::random::Random;
use lcm_tests::speech::user;
use lcm_tests::stores::{append, assert_whole, everything, open, owner, session};

use crate::acknowledged::{acknowledged, assert_kept};
use crate::seconds;
use crate::worker::{Worker, start_writer, word};

#[test]
fn eight_writers_and_four_readers_lose_and_double_nothing() {
    let folder = folder();
    let home = folder.path().join("store");
    drop(open(&home));
    let mut random = Random::of_test(11);
    let time = seconds().to_string();
    let writers: Vec<Worker> = (0..8)
        .map(|n| start_writer(&home, folder.path(), &format!("writer{n}"), seconds(), random.number() % 1000))
        .collect();
    let readers: Vec<Worker> = (0..4).map(|_| Worker::start(&["read", word(&home), &time])).collect();
    for worker in writers.iter().chain(&readers) {
        worker.expect("ready");
    }
    // Meanwhile the file is replaced under them, now and then.
    let store = open(&home);
    let (begun, mut compacted) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(seconds()) {
        match store.compact() {
            Ok(_) => compacted += 1,
            Err(StoreError::Busy { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
        thread::sleep(Duration::from_secs(1));
    }
    drop(store);
    let mut reads = Vec::new();
    for reader in readers {
        reads.push(reader.told());
        reader.finish();
    }
    for writer in writers {
        writer.expect("done");
        writer.finish();
    }
    let (store, acknowledged) = (open(&home), acknowledged(folder.path()));
    let kept = everything(&store).unwrap();
    assert_eq!((kept.len(), acknowledged.len()), (8, 8));
    assert_kept(&kept, &acknowledged, false);
    assert_whole(&store);
    let counts: Vec<usize> = acknowledged.values().map(Vec::len).collect();
    println!("{counts:?} messages in {} s beside {reads:?} and {compacted} compactions", seconds());
    assert!(compacted > 0);
    assert!(counts.iter().all(|count| *count > 0), "nobody starves");
}

#[test]
fn eight_threads_of_one_process_write_and_read_at_once() {
    let folder = folder();
    let store = open(folder.path());
    thread::scope(|scope| {
        for n in 0..8 {
            let store = store.clone();
            scope.spawn(move || {
                let id = session(&store, &owner("hermes", "anna"), &format!("thread{n}"));
                let mut expected = Vec::new();
                for turn in 0..60 {
                    let message = user(&format!("thread{n} 0 {turn}"));
                    append(&store, id, std::slice::from_ref(&message)).unwrap();
                    expected.push(lcm_tests::speech::text_of(&message));
                    let snapshot = store.snapshot().unwrap();
                    let timeline = snapshot.session(id).unwrap().timeline;
                    assert_eq!(
                        lcm_tests::stores::texts(&snapshot, timeline).unwrap(),
                        expected,
                        "one reads what one wrote"
                    );
                }
            });
        }
    });
    assert_eq!(everything(&store).unwrap().iter().map(|(_, texts)| texts.len()).sum::<usize>(), 8 * 60);
    assert_whole(&store);
}
