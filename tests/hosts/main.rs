//! Plugins in what their hosts do to them.
//!
//! The tests of each plugin are programs in its host's language, here run against the program under test. They lie in
//! folders beside this file; what a test program says is told when it fails.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod client;
