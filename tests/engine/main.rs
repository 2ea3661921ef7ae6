//! The engine's turns through its door: what hosts show, and what must come of it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test says what it expects by failing")]

mod session;
mod names;
mod changes;
mod reloaded;
mod together;
mod views;
mod ours;
mod parts;
mod summarizers;
mod lists;
mod secrets;
mod counts;
mod select;
mod found;
mod tools;
