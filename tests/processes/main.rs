//! Many processes on one store: nothing lost, nothing doubled, and nobody waits without an end.
//!
//! The processes are this test program again, with the test `worker` and a task in its environment. Every test ends
//! its processes by their number, whatever happened, and prints its seed. `LCM_TEST_SECONDS` says how long those
//! run that run for a time.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test says what it expects by failing")]

mod worker;
mod acknowledged;
mod together;
mod killed;
mod stopped;
mod openings;
mod full;

/// How long the tests run that run for a time: long enough for some thousand commits.
fn seconds() -> u64 {
    std::env::var("LCM_TEST_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(10)
}
