//! What is no store, or not ours to open, is refused by name and left as it was.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use lcm_store::{OpenOptions, Store, StoreError};
use lcm_tests::folder::{contents, folder};
use lcm_tests::speech::user;
use lcm_tests::stores::{append, everything, open, options, owner, reopen, session};

fn make(home: &Path) {
    let store = open(home);
    let id = session(&store, &owner("hermes", "anna"), "chat");
    append(&store, id, &[user("hello")]).unwrap();
}

/// Opens `home` in both ways, which must fail, say something, and change nothing.
fn refused(home: &Path) -> Vec<StoreError> {
    let around = home.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap();
    let before = contents(around);
    let errors: Vec<StoreError> = [false, true]
        .into_iter()
        .map(|create| match Store::open(home, OpenOptions { create, ..options() }) {
            Ok(_) => panic!("{} was opened", home.display()),
            Err(error) => error,
        })
        .collect();
    assert!(before == contents(around), "something was changed under {}", home.display());
    assert!(errors.iter().all(|error| error.to_string().len() > 10));
    errors
}

fn is_no_store(error: &StoreError) -> bool {
    matches!(error, StoreError::NotAStore { .. } | StoreError::Incomplete { .. })
}

#[test]
fn an_empty_or_missing_directory_is_absent_until_it_may_be_made() {
    let folder = folder();
    let (empty, missing) = (folder.path().join("empty"), folder.path().join("a/b/c"));
    fs::create_dir(&empty).unwrap();
    for home in [&empty, &missing] {
        assert!(matches!(reopen(home), Err(StoreError::Absent(_))));
    }
    assert!(!folder.path().join("a").exists());
    for home in [&empty, &missing] {
        make(home);
        assert_eq!(everything(&reopen(home).unwrap()).unwrap().len(), 1);
    }
}

#[test]
fn a_path_that_is_no_directory_is_refused() {
    let folder = folder();
    let (file, dangling) = (folder.path().join("file"), folder.path().join("link"));
    fs::write(&file, "something of somebody's").unwrap();
    symlink(folder.path().join("nowhere"), &dangling).unwrap();
    assert!(refused(&file).iter().all(is_no_store));
    refused(&dangling);
    refused(&file.join("below"));
}

#[test]
fn a_link_to_a_store_is_the_store() {
    let folder = folder();
    make(&folder.path().join("store"));
    symlink(folder.path().join("store"), folder.path().join("link")).unwrap();
    assert_eq!(everything(&reopen(&folder.path().join("link")).unwrap()).unwrap().len(), 1);
}

#[test]
fn a_directory_of_somebody_elses_is_refused() {
    for names in [&["notes.txt"][..], &["CURRENTLY.txt", "store"], &["store.7.redb"], &["index", "photo.jpg"]] {
        let folder = folder();
        let home = folder.path().join("home");
        fs::create_dir(&home).unwrap();
        for name in names {
            fs::write(home.join(name), "x").unwrap();
        }
        assert!(refused(&home).iter().all(is_no_store), "{names:?}");
    }
}

/// What `CURRENT` may hold when it is not ours, damaged, or of another time.
#[test]
fn a_current_that_names_no_data_file_is_refused() {
    let garbage: [&[u8]; 16] = [
        b"",
        b"\n",
        b"lcm",
        b"lcm 1",
        b"lcm 1 ",
        b"lcm one store.1.redb",
        b"lcm 0 store.1.redb",
        b"lcm 1 store.2.redb",
        b"lcm 1 store.01.redb",
        b"lcm 1 store.+1.redb",
        b"lcm 1 store.18446744073709551615.redb",
        b"lcm 1 ../store.1.redb",
        b"lcm 1 store.1.redb and more",
        b"LCM 1 store.1.redb",
        b"\xff\xfe\x00lcm 1 store.1.redb",
        &[b'x'; 100_000],
    ];
    for text in garbage {
        let folder = folder();
        let home = folder.path().join("home");
        make(&home);
        fs::write(home.join("CURRENT"), text).unwrap();
        let errors = refused(&home);
        assert!(errors.iter().all(is_no_store), "{:?}: {errors:?}", String::from_utf8_lossy(text));
    }
}

#[test]
fn a_current_that_is_no_file_is_refused() {
    for kind in ["directory", "dangling link"] {
        let folder = folder();
        let home = folder.path().join("home");
        make(&home);
        fs::remove_file(home.join("CURRENT")).unwrap();
        match kind {
            "directory" => fs::create_dir(home.join("CURRENT")).unwrap(),
            _ => symlink("nowhere", home.join("CURRENT")).unwrap(),
        }
        refused(&home);
    }
}

#[test]
fn a_data_file_that_is_missing_or_no_database_is_refused() {
    let not_databases: [Option<&[u8]>; 5] = [None, Some(b""), Some(b"redb"), Some(&[0; 80_000]), Some(&[0x5a; 5000])];
    for bytes in not_databases {
        let folder = folder();
        let home = folder.path().join("home");
        make(&home);
        let data = home.join("store.1.redb");
        match bytes {
            None => fs::remove_file(&data).unwrap(),
            Some(bytes) => fs::write(&data, bytes).unwrap(),
        }
        let errors = refused(&home);
        assert!(errors.iter().all(is_no_store), "{errors:?}");
    }
    let folder = folder();
    let home = folder.path().join("home");
    make(&home);
    fs::remove_file(home.join("store.1.redb")).unwrap();
    fs::create_dir(home.join("store.1.redb")).unwrap();
    refused(&home);
}

#[test]
fn a_data_file_that_is_cut_is_damaged_not_absent() {
    let folder = folder();
    let whole = folder.path().join("whole");
    make(&whole);
    let len = fs::metadata(whole.join("store.1.redb")).unwrap().len();
    for left in [320, 4096, len / 2, len - 1] {
        let home = folder.path().join(format!("cut{left}"));
        lcm_tests::folder::copy(&whole, &home);
        fs::File::options().write(true).open(home.join("store.1.redb")).unwrap().set_len(left).unwrap();
        let read = reopen(&home).and_then(|store| everything(&store));
        if let Ok(read) = read {
            assert_eq!(read.len(), 1, "cut to {left}");
        }
    }
}

#[test]
fn a_newer_format_is_refused_untouched() {
    let folder = folder();
    let (by_name, by_data) = (folder.path().join("name"), folder.path().join("data"));
    make(&by_name);
    fs::write(by_name.join("CURRENT"), "lcm 2 store.1.redb with a word that only format 2 has\n").unwrap();
    make(&by_data);
    lcm_store::testing::set_format(&by_data, 2).unwrap();
    for home in [by_name, by_data] {
        for error in refused(&home) {
            assert!(matches!(error, StoreError::TooNew { found: 2, newest: 1, .. }), "{error:?}");
        }
    }
}

/// A later generation means that there was a `CURRENT`; an empty store beside it would hide everything.
#[test]
fn a_lost_current_does_not_become_an_empty_store() {
    let folder = folder();
    let home = folder.path().join("home");
    make(&home);
    open(&home).compact().unwrap();
    fs::remove_file(home.join("CURRENT")).unwrap();
    assert!(refused(&home).iter().all(is_no_store));

    let home = folder.path().join("first");
    make(&home);
    fs::remove_file(home.join("CURRENT")).unwrap();
    // The first generation may be what a crash left before it was named; what is in it is kept.
    assert!(matches!(reopen(&home), Err(StoreError::Incomplete { .. })));
    assert_eq!(everything(&open(&home)).unwrap().len(), 1);
}
