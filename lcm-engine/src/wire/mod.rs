//! The wire as values: lines, envelopes, parameters, and lists as differences. `docs/wire.md` says what is spoken.
//!
//! Pure but for reading lines from whatever gives bytes. `frame` is bytes to JSON-RPC 2.0 and back, `lists` a host's whole
//! list once and differences from then on. Who carries a call out, and when, is decided by whoever serves (`lcm-cli`).

pub mod frame;
pub mod lists;
