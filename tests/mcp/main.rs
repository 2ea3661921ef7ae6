//! `lcm-cli mcp` from outside: the built program, and JSON-RPC lines to and from it, as any client writes them.
//!
//! Not here: how it gets on with the official clients (`tests/hosts/mcp`), and what the tools say (`tests/engine/tools`).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod child;
mod calls;
mod pages;
mod resources;
mod robust;
mod sampling;
mod scopes;
