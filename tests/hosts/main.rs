//! Plugins in what their hosts do to them.
//!
//! The tests of each plugin are programs in its host's language, here run against the program under test. They lie in
//! folders beside this file; what a test program says is told when it fails. The real hosts are driven by `.ci/run`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod client;
mod engine;

use std::path::Path;
use std::process::Command;

use lcm_tests::folder::folder;
use lcm_tests::program;

/// Runs a file of tests with the Python of the path, as `.ci/run` does.
fn run(file: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("hosts").join(file);
    let home = folder();
    let mut python = Command::new("python3");
    python.args(["-W", "error::ResourceWarning"]).arg(&path);
    python
        .env("LCM_CLI", program!())
        .env("HOME", home.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONUTF8", "1");
    // Variables of whoever runs this would be settings.
    let ours = std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_string_lossy().starts_with("LCM_"));
    for name in ours.chain(["HERMES_HOME", "XDG_DATA_HOME"].map(Into::into)).filter(|name| name != "LCM_CLI") {
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
