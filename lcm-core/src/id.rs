//! Names of things: content addresses, numbers, and the handles that people and models quote.
//!
//! A [`NodeId`] is a blake3 hash of canonical bytes and never changes. Numbers rise and are never
//! reused. A handle is `msg_` or `sum_` and the first 16 hex digits of the id: short enough to quote,
//! long enough that one store does not meet a second one by accident, and still only a prefix: whoever
//! resolves it must be ready for none, one or several.

use std::fmt;

/// Hex digits in a printed handle. Fixed, so that text once shown never changes.
pub const HANDLE_DIGITS: usize = 16;

macro_rules! hash_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// Wraps the 32 bytes of a blake3 hash.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The 32 bytes of the hash.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }

            /// Reads 64 hex digits.
            #[must_use]
            pub fn from_hex(hex: &str) -> Option<Self> {
                let prefix = IdPrefix::from_hex(hex)?;
                (prefix.digits() == 64).then_some(Self(prefix.bytes))
            }

            /// The first 16 bytes as a number, most significant byte first: the key of the hash index.
            #[must_use]
            pub fn key(&self) -> u128 {
                let mut half = [0; 16];
                half.copy_from_slice(&self.0[..16]);
                u128::from_be_bytes(half)
            }
        }

        impl fmt::Display for $name {
            /// Lower-case hex; a precision shortens it (`{id:.12}`).
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(f, &self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:.12})"), self)
            }
        }
    };
}

hash_id! {
    /// The content address of a message or a summary: blake3 of its canonical bytes.
    NodeId
}
hash_id! {
    /// The content address of a body: a long string kept apart from the message that says it.
    BodyId
}

fn write_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8; 32]) -> fmt::Result {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = f.precision().unwrap_or(64).min(64);
    for i in 0..digits {
        let byte = bytes[i / 2];
        let nibble = if i % 2 == 0 { byte >> 4 } else { byte & 15 };
        fmt::Write::write_char(f, char::from(DIGITS[usize::from(nibble)]))?;
    }
    Ok(())
}

/// The beginning of a [`NodeId`], as a person types it: 1 to 64 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdPrefix {
    bytes: [u8; 32],
    digits: u8,
}

impl IdPrefix {
    /// Reads 1 to 64 hex digits of either case.
    #[must_use]
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digits = u8::try_from(hex.len()).ok().filter(|n| (1..=64).contains(n))?;
        let mut bytes = [0; 32];
        for (i, c) in hex.bytes().enumerate() {
            let nibble = match c {
                b'0'..=b'9' => c - b'0',
                b'a'..=b'f' => c - b'a' + 10,
                b'A'..=b'F' => c - b'A' + 10,
                _ => return None,
            };
            bytes[i / 2] |= if i % 2 == 0 { nibble << 4 } else { nibble };
        }
        Some(Self { bytes, digits })
    }

    /// How many digits were given.
    #[must_use]
    pub fn digits(&self) -> usize {
        usize::from(self.digits)
    }

    /// The smallest and the largest id that begin like this.
    #[must_use]
    pub fn range(&self) -> (NodeId, NodeId) {
        let mut high = self.bytes;
        for i in self.digits()..64 {
            high[i / 2] |= if i % 2 == 0 { 0xf0 } else { 0x0f };
        }
        (NodeId(self.bytes), NodeId(high))
    }

    /// Whether `id` begins like this.
    #[must_use]
    pub fn matches(&self, id: &NodeId) -> bool {
        let (low, high) = self.range();
        low <= *id && *id <= high
    }
}

impl fmt::Display for IdPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*}", self.digits(), NodeId(self.bytes))
    }
}

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number_id! {
    /// When a place came, counted over the whole store from 1: given in the write transaction, never reused,
    /// never changed. It is the `store_id` that agents quote.
    Arrival
}
number_id! {
    /// One timeline of the store, counted from 1. A timeline only grows; a branch is a new one.
    TimelineId
}
number_id! {
    /// One entry of history, counted over the whole store from 1.
    OpId
}
number_id! {
    /// The small integer of a summary (`node 17`), counted over the whole store from 1, never reused.
    SummaryNumber
}
number_id! {
    /// One session of the store, counted from 1. What the host calls it stands in the session's row.
    SessionId
}

/// What kind of node a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandleKind {
    /// `msg_`
    Message,
    /// `sum_`
    Summary,
}

impl HandleKind {
    /// `msg_` or `sum_`.
    #[must_use]
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Message => "msg_",
            Self::Summary => "sum_",
        }
    }
}

/// What people and models quote for a node: `msg_` or `sum_` and 16 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    /// Message or summary.
    pub kind: HandleKind,
    /// The node.
    pub id: NodeId,
}

impl Handle {
    /// The handle of a message.
    #[must_use]
    pub const fn message(id: NodeId) -> Self {
        Self { kind: HandleKind::Message, id }
    }

    /// The handle of a summary.
    #[must_use]
    pub const fn summary(id: NodeId) -> Self {
        Self { kind: HandleKind::Summary, id }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:.*}", self.kind.prefix(), HANDLE_DIGITS, self.id)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    //! That ids are read and printed the same way, and that a prefix finds what begins like it and nothing else.

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_is_read_back_from_what_it_prints(bytes in any::<[u8; 32]>()) {
            let id = NodeId::from_bytes(bytes);
            prop_assert_eq!(NodeId::from_hex(&id.to_string()), Some(id));
            prop_assert_eq!(NodeId::from_hex(&id.to_string().to_uppercase()), Some(id));
            prop_assert_eq!(format!("{:032x}", id.key()), format!("{id:.32}"));
        }

        #[test]
        fn a_prefix_matches_what_begins_with_its_digits(bytes in any::<[u8; 32]>(), other in any::<[u8; 32]>(), digits in 1_usize..=64) {
            let (id, other) = (NodeId::from_bytes(bytes), NodeId::from_bytes(other));
            let text = format!("{id:.digits$}");
            let prefix = IdPrefix::from_hex(&text).unwrap();
            prop_assert_eq!(prefix.digits(), digits);
            prop_assert_eq!(&prefix.to_string(), &text);
            prop_assert!(prefix.matches(&id));
            prop_assert_eq!(prefix.matches(&other), other.to_string().starts_with(&text));
            let (low, high) = prefix.range();
            prop_assert_eq!(low.to_string(), format!("{text:0<64}"));
            prop_assert_eq!(high.to_string(), format!("{text:f<64}"));
        }

        #[test]
        fn no_text_makes_a_prefix_panic(text in any::<String>()) {
            let is_hex = !text.is_empty() && text.len() <= 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            prop_assert_eq!(IdPrefix::from_hex(&text).is_some(), is_hex);
        }
    }

    #[test]
    fn handles_have_a_fixed_length_and_say_what_they_name() {
        let id = NodeId::from_bytes([0xab; 32]);
        assert_eq!(Handle::message(id).to_string(), "msg_abababababababab");
        assert_eq!(Handle::summary(id).to_string(), "sum_abababababababab");
    }

    #[test]
    fn a_precision_shortens_an_id() {
        let id = BodyId::from_bytes([0x1f; 32]);
        assert_eq!(format!("{id:.5}"), "1f1f1");
        assert_eq!(format!("{id:?}"), "BodyId(1f1f1f1f1f1f)");
    }
}
