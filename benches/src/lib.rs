//! What the benches share: measuring, and the shared workload as messages.

pub mod host;
pub mod measure;
#[cfg(feature = "o200k")]
pub mod o200k;
pub mod workload;
