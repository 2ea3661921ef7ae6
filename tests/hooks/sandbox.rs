//! The filter is there, and kills what the host's kills; else nothing of the other tests would be worth anything.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use lcm_tests::folder::folder;
use rustix::process::Signal;

fn probed(call: &str) -> ExitStatus {
    let place = folder();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lcm-sandbox"));
    command.args(["--probe", call]).arg(place.path());
    command.status().unwrap()
}

#[test]
fn whoever_makes_a_forbidden_call_dies_of_it() {
    for call in ["flock", "ftruncate", "linkat", "chmod", "fchmod", "utimensat", "copy_file_range", "socketpair"] {
        assert_eq!(probed(call).signal(), Some(Signal::SYS.as_raw()), "{call}");
    }
}

#[test]
fn what_the_spool_needs_passes() {
    assert!(probed("none").success());
}
