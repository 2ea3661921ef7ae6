//! A stream of bytes as numbered lines, in batches that are worth spreading over the cores.

use std::io::{ErrorKind, Read};

use rayon::prelude::*;

use super::{DecodeError, Fault, Spot};

/// Bytes of a batch: some milliseconds of work for each core, and little memory.
const BATCH_BYTES: usize = 4 << 20;
/// The longest line: a session of several hundred thousand messages in one line.
const LINE_BYTES_MAX: usize = 1 << 30;
/// What is looked at to tell the format.
const HEAD_BYTES: usize = 64 << 10;

/// The lines of an input.
pub(super) struct Lines<'a> {
    input: &'a mut dyn Read,
    /// Bytes that were read and not given yet.
    buffer: Vec<u8>,
    /// The number of the next line, from 1.
    next_line: u64,
    /// Why reading ended, when it was not the end.
    failure: Option<String>,
    is_at_end: bool,
    /// How much of the beginning is looked at.
    head: usize,
}

/// A line and its number.
pub(super) struct NumberedLine<'b> {
    pub(super) number: u64,
    pub(super) text: &'b [u8],
}

impl<'a> Lines<'a> {
    /// Reads the beginning.
    ///
    /// # Errors
    /// When not a single byte can be read.
    pub(super) fn new(input: &'a mut dyn Read) -> Result<Self, DecodeError> {
        let mut lines = Self { input, buffer: Vec::new(), next_line: 1, failure: None, is_at_end: false, head: 0 };
        let mut wanted = HEAD_BYTES;
        loop {
            if let Err(error) = lines.fill(wanted) {
                if lines.buffer.is_empty() {
                    return Err(DecodeError::Read(error));
                }
                lines.fail(&error);
            }
            lines.head = lines.buffer.len();
            // An object that is longer than that, as a whole session in a line is, has to be seen whole.
            let is_whole = lines.buffer.contains(&b'\n') || lines.is_at_end || !begins_object(&lines.buffer);
            if is_whole || wanted >= LINE_BYTES_MAX {
                break;
            }
            wanted = wanted.saturating_mul(4).min(LINE_BYTES_MAX);
        }
        if lines.buffer.is_empty() { Err(DecodeError::Empty) } else { Ok(lines) }
    }

    /// The beginning: at least the first line when that is an object. Asked before any line is taken.
    pub(super) fn head(&self) -> &[u8] {
        &self.buffer[..self.head.min(self.buffer.len())]
    }

    /// Reads until `bytes` are there or the input ends.
    fn fill(&mut self, bytes: usize) -> std::io::Result<()> {
        while self.buffer.len() < bytes && !self.is_at_end {
            let begin = self.buffer.len();
            self.buffer.resize(begin.saturating_add((bytes - begin).clamp(16 << 10, 1 << 20)), 0);
            let read = match self.input.read(&mut self.buffer[begin..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
                Err(error) => Err(error),
                Ok(read) => Ok(Some(read)),
            };
            match read {
                Ok(Some(read)) => {
                    self.buffer.truncate(begin + read);
                    self.is_at_end = read == 0;
                }
                Ok(None) => self.buffer.truncate(begin),
                Err(error) => {
                    self.buffer.truncate(begin);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn fail(&mut self, error: &std::io::Error) {
        self.failure = Some(error.to_string());
        self.is_at_end = true;
    }

    /// What ended the reading early; asked when all lines are taken.
    pub(super) fn fault(&mut self) -> Option<Fault> {
        let failure = self.failure.take()?;
        let line = self.next_line.saturating_sub(1).max(1);
        Some(Fault::lost(Spot::Line(line), format_args!("the file cannot be read on from here: {failure}")))
    }

    /// Everything that is left, as one text of at most `max` bytes.
    ///
    /// # Errors
    /// [`DecodeError::TooLarge`].
    pub(super) fn rest(mut self, max: usize) -> Result<Rest, DecodeError> {
        if let Err(error) = self.fill(max.saturating_add(1)) {
            self.fail(&error);
        }
        if self.buffer.len() > max {
            return Err(DecodeError::TooLarge);
        }
        let failure = self
            .failure
            .map(|failure| Fault::lost(Spot::Whole, format_args!("it cannot be read to its end: {failure}")));
        Ok(Rest { text: self.buffer, failure })
    }

    /// Parses the next batch of lines on all cores, in order; `None` when there are no more. Lines with nothing but
    /// white space are counted and left out.
    pub(super) fn batch<T: Send>(
        &mut self,
        parse: impl Fn(&NumberedLine<'_>) -> T + Sync,
        too_long: impl Fn(Fault) -> T,
    ) -> Option<Vec<T>> {
        let mut wanted = BATCH_BYTES;
        loop {
            if let Err(error) = self.fill(wanted) {
                self.fail(&error);
            }
            if self.buffer.is_empty() {
                return None;
            }
            if self.is_at_end {
                return Some(self.take(self.buffer.len(), &parse));
            }
            if let Some(end) = self.buffer.iter().rposition(|byte| *byte == b'\n') {
                return Some(self.take(end + 1, &parse));
            }
            if self.buffer.len() >= LINE_BYTES_MAX {
                return Some(vec![too_long(self.skip_line())]);
            }
            wanted = wanted.saturating_mul(2).min(LINE_BYTES_MAX);
        }
    }

    fn take<T: Send>(&mut self, end: usize, parse: &(impl Fn(&NumberedLine<'_>) -> T + Sync)) -> Vec<T> {
        let (mut lines, mut begin) = (Vec::new(), 0);
        let ends = memchr::memchr_iter(b'\n', &self.buffer[..end]);
        // What stands behind the last line end, if anything, is a line that has no end.
        for line_end in ends.chain((self.buffer.get(end.wrapping_sub(1)) != Some(&b'\n')).then_some(end)) {
            let text = &self.buffer[begin..line_end];
            if !text.trim_ascii().is_empty() {
                lines.push(NumberedLine { number: self.next_line, text });
            }
            self.next_line += 1;
            begin = line_end + 1;
        }
        let parsed = lines.par_iter().with_min_len(4).map(parse).collect();
        self.buffer.drain(..end);
        parsed
    }

    /// Passes over a line that is longer than any we hold.
    fn skip_line(&mut self) -> Fault {
        let line = self.next_line;
        self.next_line += 1;
        loop {
            self.buffer.clear();
            if let Err(error) = self.fill(BATCH_BYTES) {
                self.fail(&error);
            }
            if self.buffer.is_empty() {
                break;
            }
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                self.buffer.drain(..=end);
                break;
            }
        }
        Fault::lost(Spot::Line(line), format_args!("it is longer than {} MiB", LINE_BYTES_MAX >> 20))
    }
}

/// Whether a text may be lines of objects.
fn begins_object(text: &[u8]) -> bool {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start().first() == Some(&b'{')
}

/// The whole of a text.
pub(super) struct Rest {
    pub(super) text: Vec<u8>,
    pub(super) failure: Option<Fault>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(text: &[u8]) -> Vec<(u64, String)> {
        let mut input = text;
        let mut lines = Lines::new(&mut input).unwrap();
        let mut all = Vec::new();
        let parse = |line: &NumberedLine<'_>| (line.number, String::from_utf8_lossy(line.text).into_owned());
        while let Some(batch) = lines.batch(parse, |fault| (0, fault.what)) {
            all.extend(batch);
        }
        all
    }

    #[test]
    fn lines_keep_their_numbers_over_blank_ones() {
        let line = |number, text: &str| (number, text.to_owned());
        assert_eq!(numbered(b"a\n\n \nb\n"), [line(1, "a"), line(4, "b")]);
        assert_eq!(numbered(b"a\r\nb"), [line(1, "a\r"), line(2, "b")]);
        assert_eq!(numbered(b"\n\n"), []);
    }

    #[test]
    fn the_beginning_holds_the_first_object_however_long_it_is() {
        let text = format!("{{\"a\":\"{}\"}}\n{{}}\n", "x".repeat(HEAD_BYTES * 5));
        let mut input = text.as_bytes();
        assert!(Lines::new(&mut input).unwrap().head().contains(&b'\n'));
        let list = format!("[\"{}\"]", "x".repeat(HEAD_BYTES * 5));
        let mut input = list.as_bytes();
        assert!(Lines::new(&mut input).unwrap().head().len() < list.len());
    }

    #[test]
    fn lines_longer_than_a_batch_stay_whole() {
        let mut text = vec![b'x'; BATCH_BYTES * 3];
        text.extend_from_slice(b"\ny\n");
        let lines = numbered(&text);
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].0, lines[0].1.len()), (1, BATCH_BYTES * 3));
        assert_eq!(lines[1], (2, "y".to_owned()));
    }

    #[test]
    fn a_failure_in_the_middle_is_told_after_what_was_read() {
        struct Torn(&'static [u8]);
        impl Read for Torn {
            fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
                if self.0.is_empty() {
                    return Err(std::io::Error::other("torn"));
                }
                self.0.read(room)
            }
        }
        let mut input = Torn(b"a\nb\nc");
        let mut lines = Lines::new(&mut input).unwrap();
        let batch = lines.batch(|line| line.number, |_| 0).unwrap();
        assert_eq!(batch, [1, 2, 3]);
        assert!(lines.batch(|line| line.number, |_| 0).is_none());
        assert!(lines.fault().unwrap().what.contains("torn"));
    }
}
