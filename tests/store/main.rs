//! The store, through its door: what is kept comes back, whatever happens in between.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test says what it expects by failing")]

mod commits;
mod scope;
mod world;
mod disks;
mod model;
mod crashes;
mod damage;
mod lost;
mod refusals;
mod permissions;
mod generations;
mod formats;
