//! A process that is stopped (a debugger, a frozen container, a laptop's lid) at the worst moments: everybody else's
//! calls come back, within their bound, right or with a name; and once it goes on, everything does.

use std::path::Path;
use std::time::{Duration, Instant};

use lcm_core::SessionId;
use lcm_store::{OpenOptions, Pace, Scope, Store, StoreError, Words};
use lcm_tests::folder::folder;
use lcm_tests::speech::user;
use lcm_tests::stores::{append, assert_whole, everything, open, options, owner, reopen, session};
use rustix::process::Signal;

use crate::worker::{SAID, Worker, word};

/// How long others may wait here. A call may take that and what the machine takes for it: a machine that others use,
/// too, stands still for seconds. What is told apart is a wait that ends and one that does not.
const WAIT: Duration = Duration::from_millis(250);
const SLACK: Duration = Duration::from_secs(10);

struct Scene {
    folder: tempfile::TempDir,
    session: SessionId,
    /// Opened before anybody was stopped, for reading and for writing.
    before: Store,
    stopped: Worker,
}

fn impatient(home: &Path) -> Result<Store, StoreError> {
    Store::open(home, OpenOptions { wait: WAIT, ..options() })
}

/// A store with one message, and a process that stopped on it.
fn scene(task: &[&str]) -> Scene {
    let folder = folder();
    let store = open(folder.path());
    let session = session(&store, &owner("hermes", "anna"), "chat");
    append(&store, session, &[user("before")]).unwrap();
    let before = impatient(folder.path()).unwrap();
    append(&before, session, &[user("before, too")]).unwrap();
    let task: Vec<&str> = task.iter().map(|word| if *word == "HOME" { word_of(folder.path()) } else { word }).collect();
    let stopped = Worker::start(&task);
    stopped.wait_stopped();
    Scene { folder, session, before, stopped }
}

fn word_of(path: &Path) -> &str {
    word(path)
}

/// Runs a call that must come back.
fn bounded<T>(call: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let begun = Instant::now();
    let done = call();
    let took = begun.elapsed();
    assert!(took < WAIT + SLACK, "it took {took:?}");
    if let Err(error) = &done {
        assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    }
    done
}

fn count(store: &Store) -> Result<usize, StoreError> {
    Ok(everything(store)?.iter().map(|(_, texts)| texts.len()).sum())
}

impl Scene {
    fn read_of_old_handle(&self) -> Result<usize, StoreError> {
        bounded(|| count(&self.before))
    }

    fn read_of_new_handle(&self) -> Result<usize, StoreError> {
        let store = bounded(|| impatient(self.folder.path()))?;
        bounded(|| count(&store))
    }

    fn write_of_old_handle(&self) -> Result<(), StoreError> {
        bounded(|| append(&self.before, self.session, &[user("meanwhile")])).map(drop)
    }

    fn write_of_new_handle(&self) -> Result<(), StoreError> {
        let store = bounded(|| impatient(self.folder.path()))?;
        bounded(|| append(&store, self.session, &[user("meanwhile, by another")])).map(drop)
    }

    /// Lets the stopped process go on; then everything works, in old handles and new ones.
    fn go_on(self) -> tempfile::TempDir {
        self.stopped.signal(Signal::CONT);
        while self.stopped.told() != "done" {}
        self.stopped.finish();
        // After a commit that met a stopped process in the middle, the old handle opens the file anew.
        append(&self.before, self.session, &[user("after")]).unwrap();
        let store = reopen(self.folder.path()).unwrap();
        append(&store, self.session, &[user("after, by another")]).unwrap();
        assert_eq!(count(&self.before).unwrap(), count(&store).unwrap());
        for store in [&store, &self.before] {
            assert_whole(store);
        }
        self.folder
    }
}

fn is_busy<T>(done: &Result<T, StoreError>) -> bool {
    matches!(done, Err(StoreError::Busy { .. }))
}

#[test]
fn a_writer_stopped_inside_its_write_keeps_writers_waiting_and_nobody_else() {
    let scene = scene(&["stop", "HOME", "write"]);
    for _ in 0..2 {
        assert_eq!(scene.read_of_old_handle().unwrap(), 2);
        assert_eq!(scene.read_of_new_handle().unwrap(), 2);
        assert!(is_busy(&scene.write_of_old_handle()));
        assert!(is_busy(&scene.write_of_new_handle()));
    }
    let folder = scene.go_on();
    assert_eq!(
        count(&open(folder.path())).unwrap(),
        2 + 1 + 2,
        "what the stopped one said is there, and what was refused is not"
    );
}

#[test]
fn a_writer_stopped_while_its_commit_is_synced_does_not_keep_readers_waiting() {
    let scene = scene(&["stop", "HOME", "sync"]);
    assert_eq!(scene.read_of_old_handle().unwrap(), 3);
    assert_eq!(scene.read_of_new_handle().unwrap(), 3);
    assert!(is_busy(&scene.write_of_old_handle()));
    assert!(is_busy(&scene.write_of_new_handle()));
    scene.go_on();
}

/// Some microseconds of each commit, in which nobody can even begin to read. It cannot be avoided; it is bounded.
#[test]
fn a_writer_stopped_while_it_holds_the_header_keeps_everybody_waiting_no_longer_than_allowed() {
    let scene = scene(&["stop", "HOME", "header exclusive"]);
    // Begun before, a snapshot would go on; see below.
    assert!(is_busy(&scene.read_of_old_handle()));
    assert!(is_busy(&scene.read_of_new_handle()));
    assert!(is_busy(&scene.write_of_old_handle()));
    assert!(is_busy(&scene.write_of_new_handle()));
    // Many threads stand in line for the same lock, and each has only its own time.
    let before = &scene.before;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(is_busy(&bounded(|| count(before)))));
        }
    });
    scene.go_on();
}

#[test]
fn a_reader_stopped_with_a_snapshot_disturbs_nobody() {
    let scene = scene(&["stop", "HOME", "read"]);
    for n in 0..50 {
        scene.write_of_old_handle().unwrap();
        assert_eq!(scene.read_of_old_handle().unwrap(), 3 + n);
    }
    scene.write_of_new_handle().unwrap();
    assert_eq!(scene.read_of_new_handle().unwrap(), 2 + 50 + 1);
    assert!(is_busy(&bounded(|| scene.before.compact())), "its generation must stay");
    scene.go_on();
}

#[test]
fn a_reader_stopped_at_the_beginning_of_its_read_lets_others_read() {
    let scene = scene(&["stop", "HOME", "header shared"]);
    assert_eq!(scene.read_of_old_handle().unwrap(), 2);
    assert_eq!(scene.read_of_new_handle().unwrap(), 2);
    assert!(is_busy(&scene.write_of_old_handle()));
    assert!(is_busy(&scene.write_of_new_handle()));
    assert_eq!(scene.read_of_old_handle().unwrap(), 2, "also after a write that gave up");
    scene.go_on();
}

#[test]
fn a_compaction_that_is_stopped_keeps_everybody_waiting_no_longer_than_allowed() {
    let scene = scene(&["stop", "HOME", "compact"]);
    assert!(is_busy(&scene.read_of_old_handle()));
    assert!(is_busy(&scene.read_of_new_handle()));
    assert!(is_busy(&scene.write_of_old_handle()));
    assert!(is_busy(&bounded(|| scene.before.compact())));
    scene.go_on();
}

#[test]
fn whoever_is_stopped_with_the_lock_of_the_index_disturbs_no_search() {
    let scene = scene(&["stop", "HOME", "index"]);
    scene.write_of_old_handle().unwrap();
    assert_eq!(scene.read_of_new_handle().unwrap(), 3);
    for store in [scene.before.clone(), impatient(scene.folder.path()).unwrap()] {
        let found = bounded(|| store.words(&Scope::everything(), &Words::new("meanwhile"))).unwrap();
        assert_eq!(found.hits.len(), 1, "what is not indexed is found as well");
        bounded(|| store.catch_up(Pace::Bulk, &|_| {})).unwrap();
    }
    scene.go_on();
}

/// Every single step that an opening and two commits ask of the file, with a process stopped just there.
#[test]
fn wherever_a_process_is_stopped_calls_of_others_come_back() {
    let (mut steps, mut blocked) = (0, Vec::new());
    for step in 0.. {
        let folder = folder();
        let store = open(folder.path());
        let id = session(&store, &owner("hermes", "anna"), "chat");
        append(&store, id, &[user("before")]).unwrap();
        drop(store);
        let quick = OpenOptions { wait: Duration::from_millis(40), ..options() };
        let before = Store::open(folder.path(), quick.clone()).unwrap();
        let worker = Worker::start(&["step", word(folder.path()), &step.to_string()]);
        let told = worker.told();
        let Some(what) = told.strip_prefix("stops: ") else {
            assert_eq!(told, "no such step");
            break;
        };
        steps += 1;
        worker.wait_stopped();
        let old = bounded(|| count(&before));
        let new = bounded(|| Store::open(folder.path(), quick.clone()).and_then(|store| count(&store)));
        for found in [&old, &new].into_iter().flatten() {
            assert!((1..=2).contains(found), "step {step}, {what}: {found} messages");
        }
        if old.is_err() || new.is_err() {
            blocked.push(format!("{step}: {what}"));
        }
        let wrote = bounded(|| append(&before, id, &[user("meanwhile")])).is_ok();
        worker.signal(Signal::CONT);
        worker.expect("done");
        worker.finish();
        let store = reopen(folder.path()).unwrap();
        let texts = everything(&store).unwrap();
        let said = |text: &str| texts.iter().flat_map(|(_, texts)| texts).filter(|said| said.contains(text)).count();
        assert_eq!(said(SAID), 1, "step {step}, {what}");
        // A commit that was given up in its middle may have become durable.
        assert!(said("meanwhile") == usize::from(wrote) || !wrote, "step {step}, {what}");
        assert!(said("meanwhile") <= 1);
        assert_whole(&store);
        append(&before, id, &[user("after")]).unwrap();
    }
    println!("{steps} steps; reads had to wait at {}: {blocked:#?}", blocked.len());
    assert!(steps > 60 && blocked.len() * 2 < steps);
}
