//! A folder for one test, gone when the test is over.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A folder in memory where the machine has one: tests commit thousands of times, and a disk's syncs would be all
/// they wait for.
pub fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a folder for the test can be made")
}

/// A folder on the disk, for what a memory file system does not do as disks do.
pub fn folder_on_disk() -> TempDir {
    tempfile::tempdir().expect("a folder for the test can be made")
}

/// Copies the files of a folder into another, which is made.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the copy's folder can be made");
    // A store is its owner's alone, and so is its copy.
    let mode = fs::metadata(from).expect("the folder can be looked at").permissions();
    fs::set_permissions(to, mode).expect("the copy's folder is ours");
    for entry in fs::read_dir(from).expect("the folder can be read") {
        let entry = entry.expect("the folder can be read");
        if entry.path().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("a file can be copied");
        }
    }
}

/// Every file under a folder with its bytes, sorted: equal before and after when nothing was touched.
pub fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("the folder can be read").path();
            if path.is_symlink() {
                let target = fs::read_link(&path).expect("a link can be read");
                found.push((path, target.into_os_string().into_encoded_bytes()));
            } else if path.is_dir() {
                folders.push(path.clone());
                found.push((path, Vec::new()));
            } else {
                let bytes = fs::read(&path).expect("a file can be read");
                found.push((path, bytes));
            }
        }
    }
    found.sort();
    found
}
