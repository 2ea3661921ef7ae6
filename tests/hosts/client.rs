//! The Python client of the wire, `plugins/hermes/__init__.py`: one test for each file of tests in `client`.

use std::path::Path;
use std::process::Command;

use lcm_tests::folder::folder;
use lcm_tests::program;

/// Runs a file of tests with the Python of the path, as `.ci/run` does.
fn run(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("hosts/client").join(file);
    let home = folder();
    let mut python = Command::new("python3");
    python.args(["-W", "error::ResourceWarning"]).arg(&path);
    python
        .env("LCM_CLI", program!())
        .env("HOME", home.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONUTF8", "1");
    for name in ["LCM_HOME", "XDG_DATA_HOME"] {
        python.env_remove(name);
    }
    let done = match python.output() {
        Ok(done) => done,
        Err(error) => panic!("python3 cannot be run: {error}; these tests need Python 3.11 or later on the path"),
    };
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{}: {}\n{told}", path.display(), done.status);
    // A file in which nothing is found to run would pass too.
    assert!(told.contains("\nRan ") && !told.contains("Ran 0 tests"), "{}: no test was run\n{told}", path.display());
}

#[test]
fn what_is_sent_of_a_list_makes_it_again() {
    run("test_lists.py");
}

#[test]
fn a_call_ends_whatever_the_child_does() {
    run("test_wire.py");
}

#[test]
fn forks_copies_and_ends_of_the_host_leave_no_child_behind() {
    run("test_process.py");
}

#[test]
fn what_threads_say_is_kept_once_whatever_happens_to_the_child() {
    run("test_program.py");
}
