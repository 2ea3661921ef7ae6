//! A store is its owner's alone: the directory 0700, every file in it 0600, whatever the process's mask says.
//!
//! The mask and the capabilities belong to the whole process, so each test runs in one of its own: this program again,
//! with only that test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use lcm_store::StoreError;
use lcm_tests::again;
use lcm_tests::folder::{contents, folder};
use lcm_tests::speech::user;
use lcm_tests::stores::{append, assert_whole, everything, open, owner, reopen, session};
use rustix::fs::Mode;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn fill(home: &Path) {
    let store = open(home);
    let id = session(&store, &owner("hermes", "anna"), "chat");
    append(&store, id, &[user("hello")]).unwrap();
}

#[test]
fn a_store_is_private_under_any_mask() {
    again::alone("permissions::a_store_is_private_under_any_mask", || {
        for mask in [0o000, 0o022, 0o077, 0o177, 0o777] {
            let folder = folder();
            let home = folder.path().join("store");
            let before = rustix::process::umask(Mode::from_raw_mode(mask));
            fill(&home);
            open(&home).compact().unwrap();
            open(&home).catch_up(lcm_store::Pace::Bulk, &|_| {}).unwrap();
            rustix::process::umask(before);
            assert_eq!(mode(&home), 0o700, "the directory under mask {mask:o}");
            for (path, _) in contents(&home) {
                if path.strip_prefix(&home).unwrap().to_string_lossy().contains("index") {
                    // Derived: where the mask takes even the owner's part, it is made anew.
                    assert_eq!(mode(&path) & 0o077, 0, "{} under mask {mask:o}", path.display());
                } else {
                    assert_eq!(mode(&path), 0o600, "{} under mask {mask:o}", path.display());
                }
            }
        }
    });
}

#[test]
fn an_empty_directory_becomes_private_when_a_store_is_made_in_it() {
    let folder = folder();
    let home = folder.path().join("store");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    drop(open(&home));
    assert_eq!(mode(&home), 0o700);
}

/// As after `cp -r` and an unpacked backup.
#[test]
fn a_store_that_was_opened_to_others_is_told_of_and_closed_by_whoever_writes() {
    let folder = folder();
    let home = folder.path().join("store");
    fill(&home);
    open(&home).catch_up(lcm_store::Pace::Bulk, &|_| {}).unwrap();
    fs::write(home.join("notes.txt"), "not ours").unwrap();
    fs::set_permissions(home.join("notes.txt"), fs::Permissions::from_mode(0o644)).unwrap();
    let opened = ["", "CURRENT", "store.1.redb", "index", "index/words", "index/sieve"].map(|name| home.join(name));
    let open_all = || {
        for path in &opened {
            let others = if path.is_dir() { 0o755 } else { 0o644 };
            fs::set_permissions(path, fs::Permissions::from_mode(others)).unwrap();
        }
    };
    open_all();
    let store = reopen(&home).unwrap();
    let report = lcm_tests::stores::check(&store).unwrap();
    let told = report.told.iter().filter(|fault| fault.part == "modes" && !fault.derived).count();
    assert_eq!((told, report.faults), (opened.len(), u64::try_from(opened.len()).unwrap()), "{:#?}", report.told);
    assert_eq!(mode(&home), 0o755, "a check changes nothing");
    // With the first write, and when a store is opened to be written.
    let id = store.snapshot().unwrap().sessions(&lcm_store::Scope::everything()).unwrap()[0].id;
    append(&store, id, &[user("more")]).unwrap();
    assert_whole(&store);
    drop(store);
    open_all();
    assert_whole(&open(&home));
    for path in &opened {
        assert_eq!(mode(path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    assert_eq!(mode(&home.join("notes.txt")), 0o644);
}

/// Whoever may not write into the directory, or into its files, still reads; a write says why it cannot.
#[test]
fn a_store_that_must_not_be_written_is_read() {
    again::alone("permissions::a_store_that_must_not_be_written_is_read", || {
        let folder = folder();
        let home = folder.path().join("store");
        fill(&home);
        let before = contents(&home);
        for (path, _) in &before {
            fs::set_permissions(path, fs::Permissions::from_mode(0o400)).unwrap();
        }
        fs::set_permissions(&home, fs::Permissions::from_mode(0o500)).unwrap();
        without_privilege();
        let store = reopen(&home).unwrap();
        assert_eq!(everything(&store).unwrap()[0].1.len(), 1);
        assert_whole(&store);
        let id = store.snapshot().unwrap().sessions(&lcm_store::Scope::everything()).unwrap()[0].id;
        for _ in 0..2 {
            let refused = append(&store, id, &[user("no")]);
            assert!(
                matches!(&refused, Err(StoreError::File { path, .. }) if path.ends_with("store.1.redb")),
                "{refused:?}"
            );
        }
        assert!(matches!(store.compact(), Err(StoreError::File { .. })));
        assert_eq!(everything(&store).unwrap()[0].1.len(), 1, "reads go on");
        assert!(before == contents(&home));
        // The folder goes when the test is over.
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    });
}

#[test]
fn a_store_that_must_not_be_read_is_refused_by_name() {
    again::alone("permissions::a_store_that_must_not_be_read_is_refused_by_name", || {
        let folder = folder();
        let home = folder.path().join("store");
        fill(&home);
        fs::set_permissions(home.join("store.1.redb"), fs::Permissions::from_mode(0o000)).unwrap();
        without_privilege();
        let refused = reopen(&home).err();
        assert!(
            matches!(&refused, Some(StoreError::File { path, .. }) if path.ends_with("store.1.redb")),
            "{refused:?}"
        );
        fs::set_permissions(home.join("CURRENT"), fs::Permissions::from_mode(0o000)).unwrap();
        let refused = reopen(&home).err();
        assert!(matches!(&refused, Some(StoreError::File { path, .. }) if path.ends_with("CURRENT")), "{refused:?}");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o000)).unwrap();
        assert!(matches!(reopen(&home), Err(StoreError::File { .. })));
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).unwrap();
    });
}

/// Modes bind everybody but the administrator; so this process stops being one.
fn without_privilege() {
    let may = capabilities(None).unwrap();
    let over = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let less = CapabilitySets { effective: may.effective - over, ..may };
    set_capabilities(None, less).unwrap();
}
