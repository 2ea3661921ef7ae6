//! Agents' own homes: putting lcm into one, taking it out, and looking whether all is in order there.

pub(crate) mod hermes;
pub(crate) mod librefang;
pub(crate) mod files;
mod yaml;
