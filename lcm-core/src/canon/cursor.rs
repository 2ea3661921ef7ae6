//! Bytes that are being read, and the numbers, lengths and hashes in them.
//!
//! Invariant: no read goes beyond the end, no length is believed before as many bytes are seen to be there, and a
//! number is read in its shortest form only. Every error names the part and the offset.
//! The small steps are marked to be inlined: the walks in the files beside this one are little else.

use super::{CanonError, VERSION};
use crate::limits::JSON_DEPTH_MAX;

/// A place in bytes that are being read.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    /// What was not read yet.
    pub(super) rest: &'a [u8],
    /// Length of the whole, to tell where we are.
    whole: usize,
    /// What an error calls them.
    part: &'static str,
}

impl<'a> Cursor<'a> {
    /// Begins at the first of `bytes`; `part` is what errors call them.
    pub(super) fn new(bytes: &'a [u8], part: &'static str) -> Self {
        Self { rest: bytes, whole: bytes.len(), part }
    }

    /// Reads the first two bytes: the kind and the version.
    pub(super) fn begin(bytes: &'a [u8], part: &'static str, kind: [u8; 2]) -> Result<Self, CanonError> {
        let mut cursor = Self::new(bytes, part);
        if cursor.byte()? != kind[0] {
            return Err(cursor.damaged("they begin with another letter"));
        }
        match cursor.byte()? {
            VERSION => Ok(cursor),
            0 => Err(cursor.damaged("there is no version 0")),
            version => Err(CanonError::TooNew { part, version }),
        }
    }

    /// An error that says where we are.
    #[cold]
    pub(super) fn damaged(&self, what: &'static str) -> CanonError {
        CanonError::Damaged { part: self.part, offset: self.whole - self.rest.len(), what }
    }

    #[inline]
    pub(super) fn byte(&mut self) -> Result<u8, CanonError> {
        let Some((&byte, rest)) = self.rest.split_first() else {
            return Err(self.damaged("they end too early"));
        };
        self.rest = rest;
        Ok(byte)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], CanonError> {
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.damaged("they end too early"));
        };
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn hash(&mut self) -> Result<[u8; 32], CanonError> {
        let Some((hash, rest)) = self.rest.split_first_chunk() else {
            return Err(self.damaged("they end too early"));
        };
        self.rest = rest;
        Ok(*hash)
    }

    /// Nearly all numbers have one byte, so that case is kept small enough to be inlined.
    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, CanonError> {
        let first = self.byte()?;
        if first < 0x80 { Ok(u64::from(first)) } else { self.long_varint(first) }
    }

    #[inline(never)]
    fn long_varint(&mut self, first: u8) -> Result<u64, CanonError> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(self.damaged("a number does not fit in 64 bits"));
            }
            value |= bits << shift;
            match byte {
                0 => return Err(self.damaged("a number is longer than it need be")),
                1..0x80 => return Ok(value),
                _ => {}
            }
        }
        Err(self.damaged("a number does not fit in 64 bits"))
    }

    /// Reads how many bytes follow.
    #[inline]
    pub(super) fn length(&mut self) -> Result<usize, CanonError> {
        let length = self.varint()?;
        usize::try_from(length).map_err(|_| self.damaged("they end too early"))
    }

    /// Reads how many things follow that take at least `each` bytes.
    #[inline]
    pub(super) fn count(&mut self, each: usize) -> Result<usize, CanonError> {
        let count = self.length()?;
        if count > self.rest.len() / each {
            return Err(self.damaged("they end too early"));
        }
        Ok(count)
    }

    /// Reads a length and as many bytes.
    #[inline]
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], CanonError> {
        let length = self.length()?;
        self.take(length)
    }

    /// Reads a length and as much UTF-8.
    pub(super) fn text(&mut self) -> Result<&'a str, CanonError> {
        let bytes = self.bytes()?;
        str::from_utf8(bytes).map_err(|_| self.damaged("a text is not UTF-8"))
    }

    /// Checks that nothing is left.
    pub(super) fn end(&self) -> Result<(), CanonError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.damaged("something stands behind the end")) }
    }

    /// Checks that an array or object may stand at this depth.
    pub(super) fn enter(&self, depth: usize) -> Result<(), CanonError> {
        if depth < JSON_DEPTH_MAX { Ok(()) } else { Err(self.damaged("too many values inside each other")) }
    }
}

#[cfg(test)]
mod tests {
    //! That a number has one form.

    use super::*;
    use crate::canon::write::push_varint;

    #[test]
    fn only_the_shortest_form_of_a_number_is_read() {
        let read = |bytes: &[u8]| Cursor::new(bytes, "test").varint();
        assert_eq!(read(b"\x7f"), Ok(127));
        assert_eq!(read(b"\x80\x01"), Ok(128));
        assert!(read(b"\x80\x00").is_err() && read(b"\xff\x80\x00").is_err() && read(b"\x80").is_err());
        let mut most = Vec::new();
        push_varint(&mut most, u64::MAX);
        assert_eq!(read(&most), Ok(u64::MAX));
        most[9] = 2;
        assert!(read(&most).is_err());
        most[9] = 0x81;
        most.push(0);
        assert!(read(&most).is_err());
    }
}
