//! A disk that is really full, and a limit for the size of files: what was acknowledged stays, reads go on, and with
//! room again so do writes.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use lcm_tests::folder::folder;
use lcm_tests::speech::user;
use lcm_tests::stores::{append, assert_whole, everything, open, owner, reopen, session};

use crate::worker::{Worker, word};

fn goes_on(home: &Path, acknowledged: usize) {
    let store = reopen(home).unwrap();
    let kept = everything(&store).unwrap()[0].1.len();
    assert!(kept == acknowledged || kept == acknowledged + 1, "{acknowledged} acknowledged, {kept} kept");
    assert_whole(&store);
    let id = session(&store, &owner("hermes", "anna"), "filled");
    append(&store, id, &[user("there is room again")]).unwrap();
    assert_eq!(everything(&store).unwrap()[0].1.len(), kept + 1);
    assert_whole(&store);
}

#[test]
fn at_the_limit_for_file_sizes_reads_go_on() {
    for bytes in [200_000, 1_000_000, 1_234_567] {
        let folder = folder();
        drop(open(folder.path()));
        // Without this the signal at the limit would end the process before it can tell of it.
        let ignoring = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"];
        let worker = Worker::start_through(&ignoring, &["fill", word(folder.path()), &bytes.to_string()]);
        let acknowledged = worker.told().parse().unwrap();
        worker.finish();
        goes_on(folder.path(), acknowledged);
    }
}

#[test]
fn on_a_full_file_system_reads_go_on() {
    let folder = folder();
    let place = folder.path().join("small");
    fs::create_dir(&place).unwrap();
    let Some(_mounted) = Mounted::new(&place) else {
        println!("SKIP: only the administrator may mount a small file system");
        return;
    };
    let home = place.join("store");
    drop(open(&home));
    // Room that is given back later.
    fs::write(place.join("ballast"), vec![1; 500_000]).unwrap();
    let worker = Worker::start(&["fill", word(&home), ""]);
    let acknowledged = worker.told().parse().unwrap();
    worker.finish();
    // Without any room, others read too.
    assert!(everything(&reopen(&home).unwrap()).unwrap()[0].1.len() >= acknowledged);
    fs::remove_file(place.join("ballast")).unwrap();
    goes_on(&home, acknowledged);
}

/// A file system of three megabytes, gone with this.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(place: &'a Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        let done = mount.args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"]).arg(place).output();
        done.is_ok_and(|done| done.status.success()).then_some(Self(place))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // A process that another test begins right now holds our files between its fork and its exec.
        let is_gone = (0..50).any(|nth| {
            thread::sleep(Duration::from_millis(10 * nth));
            Command::new("umount").arg(self.0).output().is_ok_and(|done| done.status.success())
        });
        assert!(is_gone, "{} stays mounted", self.0.display());
    }
}
