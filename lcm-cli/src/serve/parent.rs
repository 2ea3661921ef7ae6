//! The parent: when it is gone there is nobody to serve, also where a forked copy of it holds our input open.

use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Calls `gone` when a process ends.
///
/// # Errors
/// What its number should be, where no process has it.
pub(super) fn watch(pid: u64, gone: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(pid) = raw else { return Err("the number of a process".to_owned()) };
    let process = match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Err("the number of a process that is there".to_owned()),
        Err(error) => {
            // An old kernel: then the end of input is all that tells.
            tracing::warn!(%error, "the parent cannot be watched");
            return Ok(());
        }
    };
    let wait = move || {
        loop {
            match poll(&mut [PollFd::new(&process, PollFlags::IN)], None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!(%error, "the parent cannot be watched any more");
                    return;
                }
                Ok(_) => break,
            }
        }
        gone();
    };
    let spawned = thread::Builder::new().name("lcm-parent".to_owned()).spawn(wait);
    if let Err(error) = spawned {
        tracing::warn!(%error, "the parent cannot be watched");
    }
    Ok(())
}
