//! The settings file: `config.toml` in the data directory, as names, texts and lines.
//!
//! Sections are tables: `[summary]` and `model = "…"` in it are `summary.model`. What a value must be is told by the
//! table of settings; here every value becomes a text, just as it stands there.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The name of the file in the data directory.
pub(crate) const NAME: &str = "config.toml";
/// A file of settings is some kilobytes.
const BYTES_MAX: u64 = 1 << 20;
/// Faults that are told of one file: the first explain the others.
const FAULTS_MAX: usize = 10;

/// What stands in a file.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) entries: Vec<Entry>,
    /// What is wrong with the file itself, each a line and a reason.
    pub(crate) faults: Vec<(usize, String)>,
}

/// One setting in a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The names of the tables around it and its own, dots between.
    pub(crate) name: String,
    /// Counted from 1.
    pub(crate) line: usize,
    pub(crate) written: Written,
}

/// How a value is written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// A text, a number, true or false.
    One(String),
    /// A list of such.
    List(Vec<String>),
    /// Something that no setting is: a moment, a list of lists, an empty table.
    Other(&'static str),
}

/// Reads a file as a text; `None` where there is none.
///
/// # Errors
/// When it cannot be read, is too long, or is no file.
pub(crate) fn read(path: &Path) -> io::Result<Option<String>> {
    // Opening a pipe would wait for a writer.
    match path.metadata() {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.is_file() => return Err(io::Error::other("it is no file")),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = line_of(error.as_bytes(), error.utf8_error().valid_up_to());
        io::Error::other(format!("line {line} is not UTF-8"))
    })?;
    Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text)))
}

/// Takes a file apart.
pub(crate) fn parse(text: &str) -> Content {
    let mut content = Content::default();
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors.iter().take(FAULTS_MAX) {
        let at = error.span().map_or(0, |span| span.start);
        // What the parser says can run over several lines; the first is the reason.
        let why = error.message().lines().next().unwrap_or("it cannot be read").to_owned();
        content.faults.push((line_of(text.as_bytes(), at), why));
    }
    if content.faults.is_empty() {
        entries(text, "", table.get_ref(), &mut content.entries);
        content.entries.sort_by_key(|entry| entry.line);
    }
    content
}

fn entries(text: &str, around: &str, table: &DeTable<'_>, found: &mut Vec<Entry>) {
    for (key, value) in table {
        let key_text: &str = key.get_ref();
        let name = if around.is_empty() { key_text.to_owned() } else { format!("{around}.{key_text}") };
        match value.get_ref() {
            DeValue::Table(inner) if inner.iter().next().is_some() => entries(text, &name, inner, found),
            _ => found.push(Entry { name, line: line_of(text.as_bytes(), key.span().start), written: written(value) }),
        }
    }
}

fn written(value: &Spanned<DeValue<'_>>) -> Written {
    if let Some(one) = one(value.get_ref()) {
        return Written::One(one);
    }
    match value.get_ref() {
        DeValue::Array(array) => {
            let parts: Option<Vec<String>> = array.iter().map(|value| one(value.get_ref())).collect();
            parts.map_or(Written::Other("a list of more than texts"), Written::List)
        }
        DeValue::Table(_) => Written::Other("a section"),
        _ => Written::Other("a moment"),
    }
}

/// A single value as it stands there; of numbers, the digits.
fn one(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        // Other bases have no meaning for a setting; the prefix makes them wrong.
        DeValue::Integer(number) if number.radix() != 10 => {
            Some(format!("base {}: {}", number.radix(), number.as_str()))
        }
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The line of a byte, counted from 1.
fn line_of(text: &[u8], at: usize) -> usize {
    1 + text.iter().take(at).filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sections_names_values_and_lines_are_found() {
        let text = "# settings\n[compress]\nthreshold_ratio = 0.50 # half\nprotect_last = 1_2\n\n[summary]\nmodel = 'a\"b'\n\
                    key = \"x\"\n[redact]\npatterns = [\"one\", 'two']\nenabled = true\nat = 2024-01-01\nempty.x = {}\n";
        let content = parse(text);
        let one = |text: &str| Written::One(text.to_owned());
        let list = Written::List(vec!["one".to_owned(), "two".to_owned()]);
        let expected = [
            ("compress.threshold_ratio", 3, one("0.50")),
            ("compress.protect_last", 4, one("12")),
            ("summary.model", 7, one("a\"b")),
            ("summary.key", 8, one("x")),
            ("redact.patterns", 10, list),
            ("redact.enabled", 11, one("true")),
            ("redact.at", 12, Written::Other("a moment")),
            ("redact.empty.x", 13, Written::Other("a section")),
        ];
        let expected = expected.map(|(name, line, written)| Entry { name: name.to_owned(), line, written });
        assert_eq!(content.entries, expected);
        assert!(content.faults.is_empty());
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_line() {
        for (text, line) in [("a = 1\nb = = 2\n", 2), ("[compress\n", 1), ("a = 1\n\na = 2\n", 3), ("x = \"open\n", 1)]
        {
            let content = parse(text);
            assert_eq!(content.faults.first().map(|fault| fault.0), Some(line), "{text:?}: {content:?}");
            assert!(content.entries.is_empty());
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error_and_what_is_not_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        assert!(read(&path).unwrap().is_none());
        std::fs::write(&path, b"a = 1\nb = \"\xff\"\n").unwrap();
        assert_eq!(read(&path).unwrap_err().to_string(), "line 2 is not UTF-8");
        std::fs::write(&path, vec![b' '; (1 << 20) + 1]).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("more than"));
        std::fs::write(&path, "\u{feff}a = 1\n").unwrap();
        assert_eq!(read(&path).unwrap().unwrap(), "a = 1\n");
        assert_eq!(read(folder.path()).unwrap_err().to_string(), "it is no file");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC{0,60}|[\\[\\]{}=\"'.,a-z0-9\n# _-]{0,80}") {
            let content = parse(&text);
            prop_assert!(content.faults.len() <= FAULTS_MAX);
        }
    }

    #[test]
    fn a_file_of_brackets_does_not_exhaust_the_stack() {
        for text in ["a = ".to_owned() + &"[".repeat(200_000), "a.".repeat(100_000) + "b = 1", "[a".repeat(100_000)] {
            let _content = parse(&text);
        }
    }
}
