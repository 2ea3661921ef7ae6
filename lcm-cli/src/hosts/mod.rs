//! Agents' own homes: putting lcm into one, taking it out, and looking whether all is in order there.

pub(crate) mod hermes;
mod yaml;
