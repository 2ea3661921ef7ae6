//! Bodies: the long strings of a message, each kept once under an id of its own.
//!
//! Which strings are bodies is part of version 1 of the canonical bytes: writer and reader ask [`Under`], so they
//! cannot differ. Both number the bodies of a message with [`KnownBodies`], in order of first mention.

use std::collections::HashMap;

use crate::id::BodyId;
use crate::limits::{CONTENT_BODY_BYTES_MIN, OTHER_BODY_BYTES_MIN};

// What becomes a body is part of version 1: another limit would give every message another id.
const _: () = assert!(CONTENT_BODY_BYTES_MIN == 512 && OTHER_BODY_BYTES_MIN == 4096);

/// A long string of a message, kept apart so that it is stored once however often it is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedBody {
    /// blake3 of `bytes`.
    pub id: BodyId,
    /// `B`, the version, and the string as WTF-8.
    pub bytes: Vec<u8>,
}

/// A body as canonical bytes name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyRef {
    /// Which one.
    pub id: BodyId,
    /// Bytes of the string: two less than the body's bytes.
    pub len: u64,
}

/// The id of a body with these bytes, the first two included.
#[must_use]
pub fn body_id(bytes: &[u8]) -> BodyId {
    BodyId::from_bytes(*blake3::hash(bytes).as_bytes())
}

/// Where a string stands, which decides from which length on it is a body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Under {
    /// The value of `role` at the top: always in the message itself, so that roles can be told without bodies.
    Role,
    /// Anywhere under `content` at the top.
    Content,
    Elsewhere,
}

impl Under {
    /// For the value of a key of the message itself.
    pub(super) fn top_level(key: &[u8]) -> Self {
        match key {
            b"role" => Self::Role,
            b"content" => Self::Content,
            _ => Self::Elsewhere,
        }
    }

    /// For what stands inside the array or object here.
    pub(super) fn inside(self) -> Self {
        if self == Self::Role { Self::Elsewhere } else { self }
    }

    /// Whether a string of so many bytes is a body here.
    pub(super) fn is_body(self, len: usize) -> bool {
        match self {
            Self::Role => false,
            Self::Content => len >= CONTENT_BODY_BYTES_MIN,
            Self::Elsewhere => len >= OTHER_BODY_BYTES_MIN,
        }
    }
}

/// The bodies met so far, numbered in order of first mention.
#[derive(Default)]
pub(super) struct KnownBodies {
    ids: Vec<BodyId>,
    /// Holds all of `ids` as soon as looking through them gets slow.
    numbers: HashMap<BodyId, usize>,
}

impl KnownBodies {
    /// More than nearly every message has.
    const FEW: usize = 16;

    /// The number of this body; the number of bodies known before, when it is new.
    pub(super) fn index(&mut self, id: BodyId) -> usize {
        let next = self.ids.len();
        let known = if next <= Self::FEW {
            self.ids.iter().position(|other| *other == id)
        } else {
            self.numbers.get(&id).copied()
        };
        if let Some(known) = known {
            return known;
        }
        self.ids.push(id);
        if next == Self::FEW {
            self.numbers.extend(self.ids.iter().copied().zip(0..));
        } else if next > Self::FEW {
            self.numbers.insert(id, next);
        }
        next
    }

    /// How many different ones were met.
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}
