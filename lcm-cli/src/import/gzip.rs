//! Unpacking: the members of a gzip file one after the other, and how the file ends.
//!
//! A file that was cut and one that is whole and has something behind it are different things to whoever imports it:
//! of the first the rest is lost, of the second nothing is. So the frame around the packed bytes is read here, and
//! what is wrong behind the last packed byte is told as [`BehindTheEnd`], after everything was given.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use lcm_engine::hosts::BehindTheEnd;

/// The first bytes of every member.
pub(super) const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Flags of a member's header (RFC 1952, 2.3.1).
const HAS_HEADER_CRC: u8 = 2;
const HAS_EXTRA: u8 = 4;
const HAS_NAME: u8 = 8;
const HAS_COMMENT: u8 = 16;

/// Unpacks a gzip file.
pub(super) struct Unpacker<R> {
    state: State<R>,
    crc: Crc,
    /// What is wrong with a member that was given whole; told at the end of all.
    fault: Option<&'static str>,
}

enum State<R> {
    /// Before a member, if there is one; whether it is the first.
    Between(R, bool),
    Inside(DeflateDecoder<R>),
    /// Everything was given, or it failed.
    Over,
}

impl<R: BufRead> Unpacker<R> {
    pub(super) fn new(packed: R) -> Self {
        Self { state: State::Between(packed, true), crc: Crc::new(), fault: None }
    }

    /// Reads what stands behind a member's packed bytes. They were all there, so nothing that is wrong here costs any.
    fn end_of_member(&mut self, packed: &mut R) -> io::Result<()> {
        let mut trailer = [0; 8];
        let [a, b, c, d, e, f, g, h] = match packed.read_exact(&mut trailer) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.fault.get_or_insert("its checksum was cut off; all that it says is there");
                return Ok(());
            }
            read => read.map(|()| trailer)?,
        };
        let (sum, length) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        if (sum, length) != (self.crc.sum(), self.crc.amount()) {
            self.fault.get_or_insert("its checksum is not that of its content; all that it says was read");
        }
        self.crc.reset();
        Ok(())
    }
}

impl<R: BufRead> Read for Unpacker<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if room.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return self.fault.take().map_or(Ok(0), |fault| Err(BehindTheEnd(fault.into()).into())),
                State::Between(mut packed, is_first) => {
                    let begin = packed.fill_buf()?;
                    if begin.is_empty() {
                        continue;
                    }
                    if !is_first && !begin.starts_with(&MAGIC[..begin.len().min(MAGIC.len())]) {
                        self.fault.get_or_insert(
                            "bytes that belong to nothing stand behind its end; all that it says was read",
                        );
                        continue;
                    }
                    skip_header(&mut packed)?;
                    self.state = State::Inside(DeflateDecoder::new(packed));
                }
                State::Inside(mut unpacking) => match unpacking.read(room) {
                    Ok(0) => {
                        let mut packed = unpacking.into_inner();
                        self.end_of_member(&mut packed)?;
                        self.state = State::Between(packed, false);
                    }
                    read => {
                        let read = read?;
                        self.crc.update(&room[..read]);
                        self.state = State::Inside(unpacking);
                        return Ok(read);
                    }
                },
            }
        }
    }
}

/// Steps over the header of a member.
fn skip_header(packed: &mut impl BufRead) -> io::Result<()> {
    let mut header = [0; 10];
    packed.read_exact(&mut header)?;
    let [first, second, method, flags, ..] = header;
    if [first, second] != MAGIC || method != 8 {
        return Err(io::Error::new(ErrorKind::InvalidData, "what is packed in it is packed in an unknown way"));
    }
    if flags & HAS_EXTRA != 0 {
        let mut length = [0; 2];
        packed.read_exact(&mut length)?;
        skip(packed, u64::from(u16::from_le_bytes(length)))?;
    }
    for flag in [HAS_NAME, HAS_COMMENT] {
        if flags & flag != 0 {
            packed.skip_until(0)?;
        }
    }
    if flags & HAS_HEADER_CRC != 0 {
        skip(packed, 2)?;
    }
    Ok(())
}

fn skip(packed: &mut impl BufRead, bytes: u64) -> io::Result<()> {
    io::copy(&mut packed.take(bytes), &mut io::sink()).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::GzBuilder;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut packing = GzBuilder::new()
            .filename("name")
            .comment("comment")
            .extra(b"extra".to_vec())
            .write(Vec::new(), Compression::default());
        packing.write_all(text).unwrap();
        packing.finish().unwrap()
    }

    /// What was read, and how it ended: whole, behind the end, or torn.
    fn read(packed: &[u8]) -> (Vec<u8>, &'static str) {
        let mut all = Vec::new();
        // A small buffer, so that every border falls between two reads once.
        let ended = Unpacker::new(io::BufReader::with_capacity(3, packed)).read_to_end(&mut all);
        let is_behind = |error: io::Error| error.get_ref().is_some_and(|cause| cause.is::<BehindTheEnd>());
        (all, ended.map_or_else(|error| if is_behind(error) { "behind" } else { "torn" }, |_| "whole"))
    }

    #[test]
    fn members_are_read_one_after_the_other() {
        let text = b"some words, again and again and again".repeat(50);
        assert_eq!(read(&packed(&text)), (text.clone(), "whole"));
        let two = [packed(&text), packed(b""), packed(b"more")].concat();
        assert_eq!(read(&two), ([text, b"more".to_vec()].concat(), "whole"));
    }

    #[test]
    fn what_is_wrong_behind_the_content_costs_nothing_of_it() {
        let whole = packed(b"content");
        let mut wrong_sum = whole.clone();
        let at = wrong_sum.len() - 8;
        wrong_sum[at] ^= 1;
        let garbage = [&whole[..], b"garbage"].concat();
        for file in [&wrong_sum[..], &garbage, &whole[..whole.len() - 3], &whole[..whole.len() - 8]] {
            assert_eq!(read(file), (b"content".to_vec(), "behind"));
        }
        // A member whose checksum is wrong does not hide the next.
        assert_eq!(read(&[wrong_sum, packed(b"more")].concat()), (b"contentmore".to_vec(), "behind"));
    }

    #[test]
    fn what_was_cut_is_torn_wherever_it_was_cut() {
        let whole = packed(b"content that is long enough to be cut");
        for end in 1..whole.len() - 8 {
            assert_eq!(read(&whole[..end]).1, "torn", "cut at {end}");
        }
        let two = [whole.clone(), whole[..20].to_vec()].concat();
        assert_eq!(read(&two).1, "torn");
    }
}
