//! The Hermes Agent: its live messages, and the rows of its database.

mod database;
mod messages;

pub use self::database::{Cell, Row, SCHEMA_KNOWN, SessionHead, SessionName, session};
pub(super) use self::messages::FORMAT;
