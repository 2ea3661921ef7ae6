//! Standard input and output of a hook, as its host wants them: input read to its end, the answer in one write.

use std::io::{stderr, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use lcm_engine::spool::REQUEST_BYTES_MAX;
use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::pipe::fcntl_setpipe_size;

use super::Input;

/// What the pipe of the answer is made to hold: the longest answer there is.
const PIPE_BYTES: usize = 1 << 20;
/// Bytes read at once: what a pipe holds.
const READ_BYTES: usize = 64 << 10;

/// Lets a whole answer lie in the pipe, so that nothing of it is still to come when the host looks elsewhere: one that
/// is half read when standard error ends is lost in older hosts.
pub(super) fn widen_output() {
    // What is no pipe, or may not grow, is as it is.
    fcntl_setpipe_size(stdout(), PIPE_BYTES).ok();
}

/// Reads standard input to its end, or until the time is over.
pub(super) fn read_input(until: Instant) -> Input {
    let mut bytes = Vec::with_capacity(READ_BYTES);
    let mut is_too_long = false;
    while wait(stdin().as_fd(), PollFlags::IN, until) {
        bytes.reserve(READ_BYTES);
        match retry_on_intr(|| read(stdin(), spare_capacity(&mut bytes))) {
            Ok(0) => return if is_too_long { Input::TooLong } else { Input::Whole(bytes) },
            Ok(_) => {}
            Err(Errno::AGAIN) => continue,
            // Something that cannot be read has nothing more.
            Err(_) => return Input::Whole(bytes),
        }
        if bytes.len() > REQUEST_BYTES_MAX {
            // The host still writes, and takes a pipe that closes early for a failure.
            is_too_long = true;
            bytes.clear();
        }
    }
    if is_too_long { Input::TooLong } else { Input::Late(bytes) }
}

/// Writes an answer and one line feed, at once where the pipe takes it.
pub(super) fn write_output(mut answer: Vec<u8>) {
    answer.push(b'\n');
    let mut rest = answer.as_slice();
    while !rest.is_empty() {
        match retry_on_intr(|| write(stdout(), rest)) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            // Nobody reads any more.
            Err(_) => return,
        }
    }
}

/// Writes a line to standard error.
pub(super) fn tell(line: &str) {
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).chain(['\n']).collect();
    // Nobody is left to be told when this fails.
    write(stderr(), line.as_bytes()).ok();
}

/// Waits until something can be done; `false` when the time is over before.
fn wait(what: BorrowedFd<'_>, how: PollFlags, until: Instant) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(time) = Timespec::try_from(left) else { return true };
        match poll(&mut [PollFd::from_borrowed_fd(what, how)], Some(&time)) {
            Ok(0) => return false,
            Err(Errno::INTR) => {}
            // What cannot be waited for says so when it is used.
            _ => return true,
        }
    }
}
