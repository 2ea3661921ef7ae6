//! What the benches share: measuring, and the shared workload as messages.

pub mod host;
pub mod measure;
pub mod workload;
pub mod talk;
