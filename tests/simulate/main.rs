//! Seeded conversations through the engine's door, against a plain model: whatever hosts, crashes and other processes
//! do, nothing is lost and nothing is doubled.
//!
//! The seed is the bug report: a failure prints it with the steps that led there, `LCM_SIMULATE_SEED=n` replays it.
//! `LCM_SIMULATE_SECONDS` says for how long new seeds are tried, `LCM_SIMULATE_FROM` where they begin.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test says what it expects by failing")]

mod said;
mod model;
mod host;
mod disk;
mod summarizer;
mod world;
mod checks;
mod steps;
mod seeds;
