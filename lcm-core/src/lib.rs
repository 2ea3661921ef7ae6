//! What things are: the values lcm keeps and the pure functions on them.
//!
//! Everything here is deterministic and knows no file, clock, thread or host. Modules in reading order:
//! a host says a [`message`], whose [`json`] stays opaque; its [`canon`]ical bytes give it an [`id`], and
//! its [`text`] is what search looks through; it stands at a [`place`] in a timeline; a [`node`] is a message
//! or a summary of nodes; the [`graph`] links them; a [`view`] is what a session shows now; an [`op`] is one
//! entry of history; [`tokens`] says what a message costs and [`limits`] how large anything may be.
//!
//! The invariants of the product that are decided here:
//! * canonical bytes decide identity, and nothing else does: equal messages have one id on every machine;
//! * what was encoded is decoded to the same JSON value, with the first form's key order;
//! * every place of a timeline lies in exactly one segment of a view.

pub mod json;
pub mod message;
pub mod canon;
pub mod text;
pub mod id;
pub mod place;
pub mod node;
pub mod graph;
pub mod view;
pub mod op;
pub mod tokens;
pub mod limits;

pub use canon::{EncodedBody, EncodedMessage, StoredMessage};
pub use id::{Arrival, BodyId, Handle, HandleKind, IdPrefix, NodeId, OpId, SessionId, SummaryNumber, TimelineId};
pub use json::{Json, JsonError, JsonString};
pub use message::{Message, MessageError, Role};
pub use node::{Level, Summary, SummaryError};
pub use place::{OrderKey, Owner};
