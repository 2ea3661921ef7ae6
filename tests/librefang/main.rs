//! LibreFang's hooks through the engine's door: a host that does what the real one was seen to do, and what must come of
//! it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test says what it expects by failing")]

mod host;
mod turns;
mod secret;
mod together;
mod callers;
mod habits;
mod odd;
mod recorded;
mod random;
