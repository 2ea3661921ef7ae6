//! What is shown: stdout is data, stderr is talk; text for people or JSON for programs.
//!
//! Texts of messages come from anywhere. In text they are cleaned of everything that steers a terminal
//! ([`clean`]); JSON escapes it. Colour, pager and progress appear on a terminal only and carry no meaning.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::process::{Child, Command, Stdio};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::tz::TimeZone;
use lcm_core::Json;

use crate::Stream;
use crate::args::{ColorArg, FormatArg, GlobalArgs};
use crate::error::CliError;
use crate::moment;

/// What a match looks like.
pub(crate) const MATCH: Style = AnsiColor::Red.on_default().bold();
/// Handles and numbers, which can be used in a next command.
pub(crate) const HANDLE: Style = AnsiColor::Cyan.on_default();
/// Names of sessions.
pub(crate) const NAME: Style = AnsiColor::Green.on_default();
/// What is beside the point.
pub(crate) const DIM: Style = Style::new().dimmed();
/// Headings.
pub(crate) const BOLD: Style = Style::new().bold();
const ERROR: Style = AnsiColor::Red.on_default().bold();

/// What a user interface needs to know of the world.
pub(crate) struct Surroundings {
    pub(crate) now_ms: i64,
    pub(crate) time_zone: Option<TimeZone>,
    /// The variable `TZ`.
    pub(crate) tz: Option<OsString>,
    pub(crate) pager: Option<OsString>,
}

/// Shows things.
pub(crate) struct Ui {
    out: Out,
    err: Box<dyn Write + Send>,
    format: FormatArg,
    colors_out: bool,
    colors_err: bool,
    may_page: bool,
    shows_progress: bool,
    pager: Option<OsString>,
    now_ms: i64,
    tz: Option<OsString>,
    zone: OnceCell<TimeZone>,
}

enum Out {
    Stream(BufWriter<Box<dyn Write + Send>>),
    Pager(Child, BufWriter<Box<dyn Write + Send>>),
}

impl Out {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Stream(writer) | Self::Pager(_, writer) => writer,
        }
    }
}

impl Ui {
    pub(crate) fn new(stdout: Stream, stderr: Stream, global: &GlobalArgs, surroundings: Surroundings) -> Self {
        let colors = |stream: &Stream| match global.color {
            ColorArg::Always => true,
            ColorArg::Never => false,
            ColorArg::Auto => stream.takes_color,
        };
        let is_text = global.format == FormatArg::Text;
        let zone = OnceCell::new();
        if let Some(given) = surroundings.time_zone {
            // The cell is new, so this sets it.
            zone.get_or_init(|| given);
        }
        Self {
            colors_out: colors(&stdout) && is_text,
            colors_err: colors(&stderr),
            may_page: stdout.is_terminal && is_text && !global.no_pager,
            shows_progress: stderr.is_terminal,
            out: Out::Stream(BufWriter::with_capacity(64 << 10, stdout.writer)),
            err: stderr.writer,
            format: global.format,
            pager: surroundings.pager,
            now_ms: surroundings.now_ms,
            tz: surroundings.tz,
            zone,
        }
    }

    /// Whether programs read the output.
    pub(crate) fn is_json(&self) -> bool {
        self.format == FormatArg::Json
    }

    /// The time.
    /// Hands standard output over to whoever writes to it alone from now on.
    pub(crate) fn take_output(&mut self) -> Box<dyn Write + Send> {
        let nothing: Box<dyn Write + Send> = Box::new(io::sink());
        match std::mem::replace(&mut self.out, Out::Stream(BufWriter::new(nothing))) {
            Out::Stream(writer) => Box::new(writer),
            // A pager is started with the first line that is shown, and none was.
            pager @ Out::Pager(..) => {
                self.out = pager;
                Box::new(io::sink())
            }
        }
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// The zone in which people read times.
    pub(crate) fn zone(&self) -> &TimeZone {
        self.zone.get_or_init(|| moment::local_zone(self.tz.as_deref().and_then(OsStr::to_str)))
    }

    /// A moment as people read it.
    pub(crate) fn time(&self, ms: i64) -> String {
        moment::for_people(ms, self.zone())
    }

    /// A text to be filled and shown.
    pub(crate) fn text(&self) -> Text {
        Text { out: String::new(), colors: self.colors_out }
    }

    /// Shows what follows page by page, when a person looks at it. For what may be long.
    pub(crate) fn page(&mut self) {
        if !std::mem::take(&mut self.may_page) {
            return;
        }
        let asked = self.pager.take().and_then(|pager| pager.into_string().ok());
        let command = asked.unwrap_or_else(|| "less -FRX".to_owned());
        let mut words = command.split_whitespace();
        let Some(program) = words.next().filter(|program| *program != "cat") else { return };
        let Ok(mut child) = Command::new(program).args(words).stdin(Stdio::piped()).spawn() else {
            // Without a pager everything is shown at once.
            return;
        };
        if let Some(stdin) = child.stdin.take() {
            self.out = Out::Pager(child, BufWriter::with_capacity(64 << 10, Box::new(stdin)));
        }
    }

    /// Shows a text; a line end is put behind it.
    pub(crate) fn show(&mut self, text: &Text) -> Result<(), CliError> {
        let out = self.out.writer();
        out.write_all(text.out.as_bytes()).and_then(|()| out.write_all(b"\n")).map_err(CliError::output)
    }

    /// Shows a JSON value in a line.
    pub(crate) fn json(&mut self, value: &Json) -> Result<(), CliError> {
        let mut line = value.to_text();
        line.push(b'\n');
        self.bytes(&line)
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.out.writer().write_all(bytes).map_err(CliError::output)
    }

    /// Hands on what was shown so far.
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        self.out.writer().flush().map_err(CliError::output)
    }

    /// Says something beside the data.
    pub(crate) fn note(&mut self, text: impl fmt::Display) {
        // What was shown before stands in front of it.
        drop(self.flush());
        self.talk(&format!("{}\n", clean_line(&text.to_string())));
    }

    /// Says why it failed and what to do.
    pub(crate) fn error(&mut self, error: &CliError) {
        let (on, off) = if self.colors_err {
            (ERROR.render().to_string(), ERROR.render_reset().to_string())
        } else {
            <_>::default()
        };
        let mut text = format!("{on}lcm-cli:{off} {}\n", clean_line(&error.told()));
        for candidate in error.candidates() {
            text.push_str(&format!("  {}\n", clean_line(candidate)));
        }
        // What was shown before the failure comes before what is said about it; an error here has no reader.
        drop(self.flush());
        self.talk(&text);
    }

    fn talk(&mut self, text: &str) {
        // Talk that nobody can hear is no failure of the command.
        drop(self.err.write_all(text.as_bytes()).and_then(|()| self.err.flush()));
    }

    /// Shows how far a long task is, on a terminal.
    pub(crate) fn progress(&self, what: &'static str, unit: Unit) -> Progress {
        if !self.shows_progress {
            return Progress(None);
        }
        let template = match unit {
            Unit::Bytes => "{msg} {wide_bar} {bytes}/{total_bytes} {eta}",
            Unit::Things => "{msg} {wide_bar} {human_pos}/{human_len} {eta}",
        };
        // Drawn a few times a second, whatever is told.
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(8));
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        Progress(Some(bar))
    }

    /// Ends: everything is handed on, the pager has been left.
    pub(crate) fn finish(&mut self) -> Result<(), CliError> {
        let flushed = self.flush();
        let taken = std::mem::replace(&mut self.out, Out::Stream(BufWriter::new(Box::new(io::sink()))));
        if let Out::Pager(mut child, writer) = taken {
            // A pager that was left early takes nothing more; what is in the buffer need not be written.
            drop(writer.into_parts());
            child.wait().map_err(CliError::Output)?;
        }
        flushed
    }
}

/// What a progress bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Things,
}

/// A progress bar, or nothing where nobody sees it.
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(crate) fn set(&self, done: u64, total: u64) {
        if let Some(bar) = &self.0 {
            bar.set_length(total);
            bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A text for people, with colour where it may have it.
pub(crate) struct Text {
    out: String,
    colors: bool,
}

impl Text {
    /// Our own words.
    pub(crate) fn plain(&mut self, text: impl fmt::Display) -> &mut Self {
        fmt::Write::write_fmt(&mut self.out, format_args!("{text}")).expect("a string takes everything");
        self
    }

    /// Our own words in colour.
    pub(crate) fn styled(&mut self, style: Style, text: impl fmt::Display) -> &mut Self {
        if self.colors {
            self.plain(format_args!("{}{text}{}", style.render(), style.render_reset()))
        } else {
            self.plain(text)
        }
    }

    /// Somebody else's words.
    pub(crate) fn said(&mut self, text: &str) -> &mut Self {
        self.out.push_str(&clean(text));
        self
    }

    /// A name that somebody else gave; it takes no line of its own.
    pub(crate) fn named(&mut self, name: &str) -> &mut Self {
        self.styled(NAME, clean_line(name))
    }

    /// Somebody else's words in colour.
    pub(crate) fn said_styled(&mut self, style: Style, text: &str) -> &mut Self {
        self.styled(style, clean(text))
    }

    /// Somebody else's words with the matches in colour; ranges that do not fit are left out.
    pub(crate) fn said_with_matches(&mut self, text: &str, matches: &[std::ops::Range<usize>]) -> &mut Self {
        let mut at = 0;
        for range in matches {
            let (Some(before), Some(found)) = (text.get(at..range.start), text.get(range.clone())) else {
                continue;
            };
            self.said(before);
            if !found.is_empty() {
                self.said_styled(MATCH, found);
            }
            at = range.end;
        }
        self.said(text.get(at..).unwrap_or_default())
    }
}

/// Makes a text harmless for a terminal: what steers one is shown as a sign that stands for it. Line ends and tabs stay.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !is_steering(c) || c == '\n' || c == '\t';
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            // A line end of Windows is a line end.
            '\r' if characters.peek() == Some(&'\n') => {}
            c if is_plain(c) => out.push(c),
            '\0'..='\x1f' => out.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('?')),
            '\x7f' => out.push('\u{2421}'),
            c => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
        }
    }
    Cow::Owned(out)
}

/// Makes a text harmless, and one line: a name may hold anything, and what is said about it is a sentence.
pub(crate) fn clean_line(text: &str) -> Cow<'_, str> {
    let cleaned = clean(text);
    if cleaned.contains(['\n', '\t']) {
        cleaned.replace('\n', "\u{240a}").replace('\t', "\u{2409}").into()
    } else {
        cleaned
    }
}

/// Control characters, and those that turn the direction of a line around.
fn is_steering(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
}

/// Columns that a text takes on a terminal; wide characters take two. For tables, so near enough is enough.
pub(crate) fn columns(text: &str) -> usize {
    let wide = |c: char| {
        matches!(u32::from(c),
            0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f
            | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd)
    };
    text.chars().map(|c| if wide(c) { 2 } else { 1 }).sum()
}

/// A text of at most so many columns; a longer one ends with `…`.
pub(crate) fn shorten(text: &str, columns_max: usize) -> Cow<'_, str> {
    if columns(text) <= columns_max {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += columns(c.encode_utf8(&mut [0; 4]));
        if used > columns_max {
            break;
        }
        out.push(c);
    }
    out.push('…');
    Cow::Owned(out)
}

/// A number with its thousands apart.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count and its noun: `1 message`, `2 messages`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", thousands(count), if count == 1 { "" } else { "s" })
}

/// A size in binary units.
pub(crate) fn size(bytes: u64) -> String {
    let (mut unit, mut divisor) = ("B", 1);
    for (name, next) in [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)] {
        if bytes >= next {
            (unit, divisor) = (name, next);
        }
    }
    if divisor == 1 {
        return format!("{bytes} B");
    }
    let tenths = (u128::from(bytes) * 10 + u128::from(divisor) / 2) / u128::from(divisor);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_steers_a_terminal_is_made_harmless() {
        assert_eq!(clean("a\x1b[31mb\x07\u{9b}c\u{202e}\n\td\x7f\r\ne\r"), "a␛[31mb␇<U+009B>c<U+202E>\n\td␡\ne␍");
        assert!(matches!(clean("plain, 統, é\n"), Cow::Borrowed(_)));
        assert_eq!(clean_line("a\nb\tc\r\nd\x1b"), "a␊b␉c␊d␛");
        assert!(matches!(clean_line("plain, 統, é"), Cow::Borrowed(_)));
    }

    #[test]
    fn numbers_and_sizes_are_easy_to_read() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(u64::MAX), "16777216.0 TiB");
        assert_eq!(counted(1, "message"), "1 message");
    }

    #[test]
    fn long_texts_are_cut_at_columns() {
        assert_eq!(shorten("abc", 3), "abc");
        assert_eq!(shorten("abcd", 3), "ab…");
        assert_eq!(shorten("統一碼", 5), "統一…");
    }

    proptest! {
        #[test]
        fn nothing_that_steers_a_terminal_gets_through(text in "\\PC{0,20}|[\\x00-\\u{9f}\\u{2028}-\\u{202f}]{0,20}") {
            let cleaned = clean(&text);
            prop_assert!(cleaned.chars().all(|c| !is_steering(c) || c == '\n' || c == '\t'), "{cleaned:?}");
        }
    }
}
