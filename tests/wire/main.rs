//! The wire: what `docs/wire.md` says is what is spoken, and nothing that comes over it costs more than the bounds.
//!
//! Every test speaks to the program as a process of its own, by lines.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod child;
mod examples;
mod lists;
mod robust;
mod waiting;
mod socket;
