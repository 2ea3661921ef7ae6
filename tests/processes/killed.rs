//! `kill -9` of any process at any moment: nothing acknowledged is lost, and the next one to open reads at once.

use std::thread;
use std::time::{Duration, Instant};

use lcm_tests::folder::folder;
use lcm_tests::random::Random;
use lcm_tests::stores::{assert_whole, everything, open, reopen};

use crate::acknowledged::{acknowledged, assert_kept};
use crate::seconds;
use crate::worker::{Worker, start_writer, word};

#[test]
fn a_process_that_is_killed_loses_nothing_it_was_told_is_durable() {
    let folder = folder();
    let home = folder.path().join("store");
    drop(open(&home));
    let mut random = Random::of_test(12);
    let time = (seconds() + 30).to_string();
    let mut started = 0;
    let mut start = || {
        started += 1;
        // Every third reads. Each run has a number of its own, so that a turn under way can be told from an old one.
        if started % 3 == 0 {
            Worker::start(&["read", word(&home), &time])
        } else {
            start_writer(&home, folder.path(), &format!("writer{}", started % 4), seconds() + 30, started)
        }
    };
    let mut workers: Vec<Worker> = (0..6).map(|_| start()).collect();
    let begun = Instant::now();
    let (mut killed, mut slowest) = (0, Duration::ZERO);
    while begun.elapsed() < Duration::from_secs(seconds()) {
        // Some die while they open, some in the middle of their work.
        thread::sleep(Duration::from_micros(random.number() % 120_000));
        let victim = random.below(workers.len());
        workers[victim].kill();
        killed += 1;
        let told = acknowledged(folder.path());
        let opened = Instant::now();
        let store = reopen(&home).unwrap();
        let kept = everything(&store).unwrap();
        slowest = slowest.max(opened.elapsed());
        for (writer, told) in &told {
            let name = writer.split(' ').next().unwrap();
            let session = kept.iter().find(|(session, _)| session == name);
            let texts = &session.unwrap_or_else(|| panic!("the session of {writer} is gone")).1;
            // In order and all of them; others may stand between.
            let mut texts = texts.iter();
            for line in told {
                assert!(texts.any(|text| text.contains(line.as_str())), "lost after {killed} kills: {line}");
            }
        }
        workers[victim] = start();
    }
    for worker in &mut workers {
        worker.kill();
    }
    let store = reopen(&home).unwrap();
    let kept = everything(&store).unwrap();
    assert_kept(&kept, &acknowledged(folder.path()), true);
    assert_whole(&store);
    let messages: usize = kept.iter().map(|(_, texts)| texts.len()).sum();
    println!("{killed} kills, {messages} messages, slowest opening with a full read {slowest:?}");
}
