//! Very many processes that open one store in the same moment, and several that make it.

use std::time::Instant;

use lcm_tests::folder::folder;
use lcm_tests::speech::user;
use lcm_tests::stores::{append, assert_whole, everything, open, owner, session};

use crate::worker::{Worker, word};

#[test]
fn two_hundred_processes_open_and_read_at_once() {
    let folder = folder();
    let store = open(folder.path());
    let id = session(&store, &owner("hermes", "anna"), "chat");
    append(&store, id, &(0..50).map(|n| user(&n.to_string())).collect::<Vec<_>>()).unwrap();
    let mut workers: Vec<Worker> = (0..200).map(|_| Worker::start(&["look", word(folder.path())])).collect();
    for worker in &workers {
        worker.expect("ready");
    }
    let begun = Instant::now();
    for worker in &mut workers {
        worker.go();
    }
    for worker in &workers {
        worker.expect("50");
    }
    println!("200 processes opened and read everything in {:?}", begun.elapsed());
    for worker in workers {
        worker.finish();
    }
    append(&store, id, &[user("after")]).unwrap();
    assert_whole(&store);
}

#[test]
fn sixteen_processes_that_make_the_same_store_make_one() {
    for round in 0..6 {
        let folder = folder();
        let home = folder.path().join("a/store");
        let mut workers: Vec<Worker> =
            (0..16).map(|n| Worker::start(&["open", word(&home), &format!("maker{n}")])).collect();
        for worker in &workers {
            worker.expect("ready");
        }
        for worker in &mut workers {
            worker.go();
        }
        for worker in workers {
            worker.expect("done");
            worker.finish();
        }
        let store = open(&home);
        let mut kept = everything(&store).unwrap();
        kept.sort();
        let mut expected: Vec<String> = (0..16).map(|n| format!("maker{n}")).collect();
        expected.sort();
        assert_eq!(kept.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), expected, "round {round}");
        assert!(kept.iter().all(|(_, texts)| texts.len() == 1));
        assert_whole(&store);
        let mut names: Vec<_> = std::fs::read_dir(&home).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.retain(|name| !name.to_string_lossy().contains("index"));
        names.sort();
        assert_eq!(names, ["CURRENT", "store.1.redb"], "nothing half-made is left");
    }
}
