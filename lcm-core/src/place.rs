//! Where a message stands: a timeline, an order key in it, and an arrival number.
//!
//! Invariant: order keys sort as the conversation reads. A place that is appended gets its arrival number as
//! its key, so appends stay at the edge of the table; a place that comes late gets a key between its two
//! neighbours, and there is always room for one more (property test below).

use std::fmt;

use crate::id::Arrival;
use crate::limits::ORDER_KEY_BYTES_MAX;

/// Who may read a place: checked on every read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The host's profile or agent id.
    pub agent: String,
    /// The host's conversation or peer, else the owner of the data directory.
    pub person: String,
}

/// The position of a place in its timeline; sorts bytewise, shorter first where one is a prefix.
///
/// Eight bytes of an arrival number, most significant first; behind them, for a place that came late, one or more
/// that do not end in 0.
///
/// Comparable across a branch and its ancestors, because arrival numbers are.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderKey(Box<[u8]>);

impl OrderKey {
    /// The key of a place that is appended: after everything that came before it.
    #[must_use]
    pub fn appended(arrival: Arrival) -> Self {
        Self(arrival.0.to_be_bytes().into())
    }

    /// A key strictly between `before` and `after`, for a place that comes late.
    ///
    /// `after` is `None` where nothing stands behind. The result depends on the two alone and grows by a
    /// byte about every seven inserts at the same spot.
    ///
    /// # Panics
    /// When `before` is not smaller than `after`: the caller names two neighbours of one timeline.
    #[must_use]
    pub fn between(before: &Self, after: Option<&Self>) -> Self {
        let Some(after) = after else { return Self::behind(&before.0, 8) };
        assert!(before < after, "neighbours out of order: {before:?}, {after:?}");
        let shared = before.0.iter().zip(&after.0).take_while(|(a, b)| a == b).count();
        let mut key = before.0[..shared].to_vec();
        if shared == before.0.len() {
            // `before` is a prefix of `after`: go below the rest of `after`. A key never ends in 0 beyond the
            // first eight bytes, so there is a byte above 0 to halve.
            for &byte in &after.0[shared..] {
                if byte > 1 {
                    key.push(byte / 2);
                    return Self(key.into());
                }
                key.push(0);
                if byte == 1 {
                    break;
                }
            }
            key.push(128);
            return Self(key.into());
        }
        let (low, high) = (before.0[shared], after.0[shared]);
        if high - low > 1 && shared >= 8 {
            key.push(low + (high - low) / 2);
            return Self(key.into());
        }
        // No byte lies between: keep what tells `before` from `after`, and go behind `before`.
        Self::behind(&before.0, 8.max(shared + 1))
    }

    /// A key behind `bytes` that keeps its first `fixed` bytes. Its last byte is raised where that is possible,
    /// so that a run of late places does not make ever longer keys.
    fn behind(bytes: &[u8], fixed: usize) -> Self {
        let mut key = bytes.to_vec();
        if key.len() > fixed
            && let Some(last) = key.last_mut()
            && *last < 255
        {
            *last += (255 - *last).div_ceil(2).min(8);
            return Self(key.into());
        }
        key.push(128);
        Self(key.into())
    }

    /// The bytes, as stored.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads stored bytes; `None` when they are shorter than an arrival number, longer than
    /// [`ORDER_KEY_BYTES_MAX`], or end in a 0 behind the arrival number, which would leave no room before them.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let leaves_room = bytes.len() == 8 || bytes.last() != Some(&0);
        ((8..=ORDER_KEY_BYTES_MAX).contains(&bytes.len()) && leaves_room).then(|| Self(bytes.into()))
    }

    /// The arrival number this key begins with: its own for an appended place, its anchor's for a late one.
    #[must_use]
    pub fn anchor(&self) -> Arrival {
        let mut head = [0; 8];
        head.copy_from_slice(&self.0[..8]);
        Arrival(u64::from_be_bytes(head))
    }

    /// Whether the place came late, between two that were there.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.0.len() > 8
    }
}

impl fmt::Debug for OrderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.anchor())?;
        for byte in &self.0[8..] {
            write!(f, ".{byte}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! That there is always room between two neighbours, and that keys stay short.
    //! Method: random inserts at random spots; a thousand at one spot.

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any sequence of inserts at any spot keeps the order and never runs out of room.
        #[test]
        fn there_is_always_room_between_two_neighbours(spots in prop::collection::vec(any::<prop::sample::Index>(), 1..400)) {
            let mut keys: Vec<OrderKey> = (1..4).map(|n| OrderKey::appended(Arrival(n))).collect();
            for spot in spots {
                let i = spot.index(keys.len());
                let key = OrderKey::between(&keys[i], keys.get(i + 1));
                keys.insert(i + 1, key);
                prop_assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
                prop_assert!(keys.iter().all(|key| OrderKey::from_bytes(key.as_bytes()).as_ref() == Some(key)));
            }
        }
    }

    #[test]
    fn a_key_at_one_spot_stays_short() {
        let (first, next) = (OrderKey::appended(Arrival(7)), OrderKey::appended(Arrival(8)));
        let (mut low, mut high) = (first.clone(), next.clone());
        for _ in 0..1000 {
            low = OrderKey::between(&low, Some(&next));
            high = OrderKey::between(&first, Some(&high));
        }
        assert!(low.as_bytes().len() < 80, "{} bytes", low.as_bytes().len());
        assert!(high.as_bytes().len() < 160, "{} bytes", high.as_bytes().len());
        assert!(OrderKey::appended(Arrival(7)) < high && high < low && low < next);
    }

    #[test]
    fn bytes_that_no_place_has_as_its_key_are_refused() {
        let first = OrderKey::appended(Arrival(0));
        assert_eq!(OrderKey::from_bytes(&[0; 8]), Some(first));
        assert_eq!(OrderKey::from_bytes(&[0; 7]), None);
        assert_eq!(OrderKey::from_bytes(&[0, 0, 0, 0, 0, 0, 0, 1, 128, 0]), None);
        assert_eq!(OrderKey::from_bytes(&[1; ORDER_KEY_BYTES_MAX + 1]), None);
    }

    #[test]
    fn a_late_key_stays_before_the_next_append() {
        let last = OrderKey::appended(Arrival(9));
        let late = OrderKey::between(&last, None);
        assert!(last < late && late < OrderKey::appended(Arrival(10)));
        assert_eq!(late.anchor(), Arrival(9));
        assert!(late.is_late() && !last.is_late());
    }
}
