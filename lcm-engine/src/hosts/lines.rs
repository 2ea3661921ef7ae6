//! A stream of bytes as numbered lines, in batches that are worth spreading over the cores.

use std::io::{ErrorKind, Read};

use lcm_core::Json;
use lcm_core::json::JsonErrorKind;
use rayon::prelude::*;

use super::{BehindTheEnd, DecodeError, Fault, Spot};

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
    failure: Option<Failure>,
    is_at_end: bool,
    /// How much of the beginning is looked at.
    head: usize,
}

/// Why an input cannot be read on.
struct Failure {
    what: String,
    /// Whether everything was read all the same.
    is_behind_the_end: bool,
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
    /// When not a single byte can be read, or there is nothing but white space.
    pub(super) fn new(input: &'a mut dyn Read) -> Result<Self, DecodeError> {
        let mut lines = Self { input, buffer: Vec::new(), next_line: 1, failure: None, is_at_end: false, head: 0 };
        let mut wanted = HEAD_BYTES;
        loop {
            if let Err(error) = lines.fill(wanted) {
                if is_blank(&lines.buffer) {
                    return Err(DecodeError::Read(error));
                }
                lines.fail(&error);
            }
            lines.head = lines.buffer.len();
            // An object that is longer than that, as a whole session in a line is, has to be seen whole; of blank lines
            // what stands behind them.
            let is_enough = !begins_object(&lines.buffer) || lines.buffer.contains(&b'\n');
            if lines.is_at_end || (is_enough && !is_blank(&lines.buffer)) || wanted >= LINE_BYTES_MAX {
                break;
            }
            wanted = wanted.saturating_mul(4).min(LINE_BYTES_MAX);
        }
        if is_blank(&lines.buffer) { Err(DecodeError::Empty) } else { Ok(lines) }
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
        let is_behind_the_end = error.get_ref().is_some_and(|cause| cause.is::<BehindTheEnd>());
        self.failure = Some(Failure { what: error.to_string(), is_behind_the_end });
        self.is_at_end = true;
    }

    /// What ended the reading early; asked when all lines are taken.
    pub(super) fn fault(&mut self) -> Option<Fault> {
        let failure = self.failure.take()?;
        let line = self.next_line.saturating_sub(1).max(1);
        Some(failure.fault(Spot::Line(line), "the file cannot be read on from here"))
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
        let failure = self.failure.map(|failure| failure.fault(Spot::Whole, "it cannot be read to its end"));
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
            let is_torn = line_end == self.buffer.len() && self.is_torn() && !is_json(text);
            // Of a line that could not be read to its end the failure tells; it is one loss, not two.
            if !text.trim_ascii().is_empty() && !is_torn {
                lines.push(NumberedLine { number: self.next_line, text });
            }
            self.next_line += 1;
            begin = line_end + 1;
        }
        let parsed = lines.par_iter().with_min_len(4).map(parse).collect();
        self.buffer.drain(..end);
        parsed
    }

    /// Whether more would stand here, had it been read.
    fn is_torn(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| !failure.is_behind_the_end)
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

impl Failure {
    /// What it cost: nothing, when all was read before.
    fn fault(&self, at: Spot, what: &str) -> Fault {
        let failure = &self.what;
        if self.is_behind_the_end {
            return Fault::kept(Spot::Whole, failure);
        }
        Fault::lost(at, format_args!("{what}: {failure}"))
    }
}

/// Whether a text says nothing: white space, or a byte order mark and nothing behind it.
fn is_blank(text: &[u8]) -> bool {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii().is_empty()
}

/// Whether a line is whole. One that is deeper than we parse may be, and its decoder tells more.
fn is_json(line: &[u8]) -> bool {
    Json::parse(line).map_or_else(|error| error.kind == JsonErrorKind::TooDeep, |_| true)
}

/// Whether a text may be lines of objects.
fn begins_object(text: &[u8]) -> bool {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start().first() == Some(&b'{')
}

/// The whole of a text.
pub(super) struct Rest {
    pub(super) text: Vec<u8>,
    /// What is wrong with the file it is from.
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
        // A last line that is whole is a line; half a line is told with the failure, as one loss.
        for (text, given) in [("1\n2\n3", &[1, 2, 3][..]), ("1\n2\n{\"a\":", &[1, 2])] {
            let mut input = Torn(text.as_bytes());
            let mut lines = Lines::new(&mut input).unwrap();
            let batch = lines.batch(|line| line.number, |_| 0).unwrap();
            assert_eq!(batch, given);
            assert!(lines.batch(|line| line.number, |_| 0).is_none());
            let fault = lines.fault().unwrap();
            assert_eq!(fault.to_string(), "line 3: the file cannot be read on from here: torn");
            assert!(!fault.is_kept);
        }
    }

    #[test]
    fn a_failure_behind_the_end_costs_nothing() {
        struct Odd(&'static [u8]);
        impl Read for Odd {
            fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
                if self.0.is_empty() { Err(BehindTheEnd("more".to_owned()).into()) } else { self.0.read(room) }
            }
        }
        let mut input = Odd(b"1\n{");
        let mut lines = Lines::new(&mut input).unwrap();
        // What cannot be read in it is wrong in the file, and told by whoever reads it.
        assert_eq!(lines.batch(|line| line.number, |_| 0).unwrap(), [1, 2]);
        let fault = lines.fault().unwrap();
        assert_eq!((fault.to_string().as_str(), fault.is_kept), ("the file: more", true));
    }

    #[test]
    fn nothing_but_blanks_is_nothing() {
        for text in [&b""[..], b" \n\t\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n\n", &[b'\n'; HEAD_BYTES * 2]] {
            let mut input = text;
            assert!(matches!(Lines::new(&mut input), Err(DecodeError::Empty)));
        }
        // Blanks that go on for long do not hide what stands behind them.
        let text = format!("{}{{}}\n", "\n".repeat(HEAD_BYTES * 2));
        let mut input = text.as_bytes();
        assert!(Lines::new(&mut input).unwrap().head().ends_with(b"{}\n"));
    }
}
