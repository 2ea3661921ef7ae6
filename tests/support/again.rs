//! A test in a process of its own: this test program again, with one test of it.

use std::env;
use std::process::{Command, Stdio};

/// Set in the second process, to the name of its test.
const ALONE: &str = "LCM_TEST_ALONE";

/// Runs `test`, which is in the body of the test called `name`, in a process of its own, and fails as it does.
///
/// For what belongs to a process as a whole (its mask, its limits, its capabilities) and must not touch the other
/// tests, which run in threads of this one.
pub fn alone(name: &str, test: impl FnOnce()) {
    if env::var(ALONE).is_ok_and(|wanted| wanted == name) {
        return test();
    }
    let mut command = this_test(name);
    let output = command.env(ALONE, name).stdin(Stdio::null()).output().expect("this program can be started again");
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

/// This program again, with one test and what it prints.
pub fn this_test(name: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("a program knows its own file"));
    // One thread: the test runs on it, and its capabilities are those of the process.
    command.args([name, "--exact", "--nocapture", "--include-ignored", "--test-threads=1"]);
    command
}
