//! Canonical bytes: what of a node is hashed and kept, written and read back.
//!
//! Laid out in `docs/format.md`, "Canonical bytes" (version 1), with vectors in `tests/fixtures/canon/`. An address
//! never changes, so nothing here goes through serde or a codec. A message is three things: its canonical bytes
//! (hashed), its long strings as *bodies* (each hashed by itself, named by its id in the canonical bytes), and the
//! key order of its first form (kept, not hashed).
//!
//! Here are a message as it is kept, the ids, and why bytes are refused. In reading order: which strings are bodies
//! (`body`), the writer (`write`), bytes under a reader (`cursor`), what a reader finds (`tree`), its one checked
//! walk (`read`), what can be told without bodies (`outline`), and summaries (`summary`). Bytes that our writer would
//! not have written are refused.
//!
//! Invariant: decoding what was encoded gives the same JSON value (property test in `tests`), and no bytes make a
//! reader panic. Not here: whether the bytes are those that were asked for; a store checks hashes with
//! [`StoredMessage::check`].

mod body;
mod write;
mod cursor;
mod tree;
mod read;
mod outline;
mod summary;
#[cfg(test)]
mod tests;

use crate::id::{BodyId, NodeId};
use crate::node::SummaryError;

pub use body::{BodyRef, EncodedBody, body_id};
pub use outline::{Outline, body_refs, outline};
pub use read::{decode, write_json};
pub use summary::{SummaryHead, decode_summary, encode_summary, summary_head};
pub use tree::{MessageTree, TreeValue};
pub(crate) use write::encode;

/// The version of canonical bytes that we write.
const VERSION: u8 = 1;
/// First bytes of a message, a body and a summary: they keep the three kinds of hash apart.
const MESSAGE: [u8; 2] = [b'M', VERSION];
const BODY: [u8; 2] = [b'B', VERSION];
const SUMMARY: [u8; 2] = [b'S', VERSION];
/// What errors call the canonical bytes of a message.
const CANON: &str = "canonical bytes";

/// A message as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedMessage {
    /// blake3 of `canon`.
    pub id: NodeId,
    /// `M`, the version, and the object.
    pub canon: Vec<u8>,
    /// How the keys stood in the form that was encoded; empty when they stood in canonical order.
    pub order: Vec<u8>,
    /// Each body that `canon` names, once, in order of first mention.
    pub bodies: Vec<EncodedBody>,
}

impl EncodedMessage {
    /// The bytes of the bodies, as [`StoredMessage`] wants them.
    #[must_use]
    pub fn body_slices(&self) -> Vec<&[u8]> {
        self.bodies.iter().map(|body| body.bytes.as_slice()).collect()
    }

    /// Looks at this message as a store would give it back; `bodies` are its [`Self::body_slices`].
    #[must_use]
    pub fn stored<'a>(&'a self, bodies: &'a [&'a [u8]]) -> StoredMessage<'a> {
        StoredMessage { canon: &self.canon, order: &self.order, bodies }
    }
}

/// The parts of a message as a store holds them.
///
/// ```
/// use lcm_core::{Message, StoredMessage, canon};
///
/// let encoded = Message::parse(br#"{"role": "user", "content": "hello"}"#)?.encode()?;
/// assert_eq!(encoded.id, canon::message_id(&encoded.canon));
///
/// // What a store kept, given back in the form that was said first.
/// let bodies: Vec<&[u8]> = encoded.bodies.iter().map(|body| body.bytes.as_slice()).collect();
/// let stored = StoredMessage { canon: &encoded.canon, order: &encoded.order, bodies: &bodies };
/// stored.check(&encoded.id)?;
/// let mut json = Vec::new();
/// canon::write_json(&stored, &mut json)?;
/// assert_eq!(json, br#"{"role":"user","content":"hello"}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct StoredMessage<'a> {
    /// See [`EncodedMessage::canon`].
    pub canon: &'a [u8],
    /// See [`EncodedMessage::order`].
    pub order: &'a [u8],
    /// The bytes of each body that [`body_refs`] names, in that order.
    pub bodies: &'a [&'a [u8]],
}

impl<'a> StoredMessage<'a> {
    /// Reads the whole message in one checked walk.
    ///
    /// # Errors
    /// When the bytes are not what our writer writes, or a body is missing. Hashes are not looked at.
    pub fn tree(&self) -> Result<MessageTree<'a>, CanonError> {
        read::read(*self)
    }

    /// Checks that the canonical bytes have this id, and each body the id under which they name it.
    ///
    /// # Errors
    /// Names the first hash that is another one.
    pub fn check(&self, id: &NodeId) -> Result<(), CanonError> {
        let actual = message_id(self.canon);
        if actual != *id {
            return Err(CanonError::WrongMessage { id: *id, actual });
        }
        let mut bodies = self.bodies.iter();
        for reference in body_refs(self.canon)? {
            let body = bodies.next().ok_or(CanonError::MissingBody(reference.id))?;
            let actual = body_id(body);
            if actual != reference.id {
                return Err(CanonError::WrongBody { id: reference.id, actual });
            }
        }
        Ok(())
    }
}

/// Why canonical bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanonError {
    /// A newer program wrote them.
    #[error("the {part} have version {version}, this program reads version {VERSION}")]
    TooNew {
        /// Canonical bytes of a message or a summary, or a body.
        part: &'static str,
        /// The version they say.
        version: u8,
    },
    /// Our writer did not write them.
    #[error("the {part} are damaged at byte {offset}: {what}")]
    Damaged {
        /// Canonical bytes, key order or body.
        part: &'static str,
        /// Where, from their beginning.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// The message names a body that was not given.
    #[error("body {0:.12} is missing")]
    MissingBody(BodyId),
    /// The canonical bytes of another message, or damaged ones.
    #[error("message {id:.12} is damaged: its bytes hash to {actual:.12}")]
    WrongMessage {
        /// The message asked for.
        id: NodeId,
        /// The id its bytes give now.
        actual: NodeId,
    },
    /// The bytes of another body, or damaged ones.
    #[error("body {id:.12} is damaged: its bytes hash to {actual:.12}")]
    WrongBody {
        /// The body that the message names.
        id: BodyId,
        /// The id its bytes give now.
        actual: BodyId,
    },
    /// The fields can be read and contradict each other.
    #[error("the canonical bytes hold no valid summary")]
    Summary(#[from] SummaryError),
}

/// The id of a message or a summary with these canonical bytes.
#[must_use]
pub fn message_id(canon: &[u8]) -> NodeId {
    NodeId::from_bytes(*blake3::hash(canon).as_bytes())
}
