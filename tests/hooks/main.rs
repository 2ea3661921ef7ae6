//! The hook program in the hands of a host that stands in for LibreFang: a fresh process for each call, a cleared
//! environment, and over it the system-call filter that kills whoever locks or resizes a file.
//!
//! Whatever comes in, and whoever serves or does not, the exit code is 0 and the answer one line of JSON.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test says what it expects by failing")]

mod host;
mod sandbox;
mod answers;
mod servers;
mod sidecar;
mod odd;
mod parallel;
mod time;
