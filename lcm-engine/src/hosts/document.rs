//! One JSON document that may be damaged, taken apart so that what is whole in it can be read.
//!
//! A list is cut into its elements by looking at nothing but quotes and brackets; each element is then read by the
//! real parser. So a broken element costs itself, not the file.

use lcm_core::Json;

use super::{Fault, Spot};

/// One document is held at once, and its elements beside it.
pub(super) const DOCUMENT_BYTES_MAX: usize = 1 << 30;

/// A piece of a document.
pub(super) enum Part<'t> {
    /// The text of an element.
    Value { spot: Spot, text: &'t [u8] },
    /// Something between elements that should not be there.
    Fault(Fault),
    /// The text ends too early: the last part, and all that is told of it.
    CutOff(Fault),
}

/// The value of a document that is one whole object.
pub(super) fn whole_object(text: &[u8]) -> Option<Json> {
    let begin = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    if begin.first() == Some(&b'{') { Json::parse(text).ok() } else { None }
}

/// Cuts a list, or the list under `messages` of an object, into its elements.
pub(super) fn parts(text: &[u8]) -> Vec<Part<'_>> {
    let mut scan = Scan { text, at: 0, line: 1, parts: Vec::new(), number: 0 };
    if text.starts_with(b"\xef\xbb\xbf") {
        scan.at = 3;
    }
    scan.white();
    match scan.peek() {
        Some(b'[') => scan.list(),
        Some(b'{') => scan.object(),
        _ => scan.fault("neither a list nor an object begins here"),
    }
    scan.parts
}

/// Cuts an object into its entries: the text of each key, with its quotes, and of each value. For objects whose
/// values are read one by one; `None` when it is not cut cleanly.
pub(super) fn entries(text: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut scan = Scan { text, at: 0, line: 1, parts: Vec::new(), number: 0 };
    scan.white();
    if scan.peek() != Some(b'{') {
        return None;
    }
    scan.step();
    let mut entries = Vec::new();
    loop {
        scan.white();
        match scan.peek()? {
            b'}' => return Some(entries),
            b',' => scan.step(),
            b'"' => {
                let key = scan.value();
                scan.white();
                if scan.peek() != Some(b':') {
                    return None;
                }
                scan.step();
                scan.white();
                let value = scan.value();
                if value.is_empty() {
                    return None;
                }
                entries.push((key, value));
            }
            _ => return None,
        }
    }
}

struct Scan<'t> {
    text: &'t [u8],
    at: usize,
    /// The line of `at`, from 1.
    line: u64,
    parts: Vec<Part<'t>>,
    /// Elements met.
    number: u64,
}

impl<'t> Scan<'t> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn step(&mut self) {
        if self.peek() == Some(b'\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    fn white(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.step();
        }
    }

    fn fault(&mut self, what: &str) {
        self.parts.push(Part::Fault(Fault::lost(Spot::Line(self.line), what)));
    }

    fn cut_off(&mut self, spot: Spot, what: &str) {
        self.parts.push(Part::CutOff(Fault::lost(spot, what)));
    }

    fn list(&mut self) {
        self.step();
        loop {
            self.white();
            match self.peek() {
                None => return self.cut_off(Spot::Line(self.line), "the text ends inside the list"),
                Some(b']') => {
                    self.step();
                    break;
                }
                Some(b',') => self.step(),
                Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => {
                    self.number += 1;
                    let spot = Spot::Element(self.number, self.line);
                    let text = self.value();
                    // Half a value and half a list are one loss.
                    if self.at >= self.text.len() && Json::parse(text).is_err() {
                        return self.cut_off(spot, "the text ends inside it");
                    }
                    self.parts.push(Part::Value { spot, text });
                }
                Some(_) => self.garbage(),
            }
        }
        self.white();
        if self.at < self.text.len() {
            self.fault("something stands behind the end of the list");
        }
    }

    /// Looks for `messages` in an object that cannot be read as a whole.
    fn object(&mut self) {
        self.step();
        loop {
            self.white();
            match self.peek() {
                Some(b',') => self.step(),
                Some(b'"') => {
                    let key = self.value();
                    self.white();
                    if self.peek() == Some(b':') {
                        self.step();
                    }
                    self.white();
                    if key == b"\"messages\"" && self.peek() == Some(b'[') {
                        return self.messages();
                    }
                    if self.at >= self.text.len() || self.value().is_empty() {
                        return self.no_messages();
                    }
                }
                _ => return self.no_messages(),
            }
        }
    }

    fn no_messages(&mut self) {
        let what = "the object has no whole list of messages";
        if self.at < self.text.len() { self.fault(what) } else { self.cut_off(Spot::Line(self.line), what) }
    }

    fn messages(&mut self) {
        self.list();
        // What stands behind the list is the rest of the object.
        if let Some(Part::Fault(fault)) = self.parts.last_mut()
            && fault.what.starts_with("something")
        {
            fault.is_kept = true;
            "the object is not whole; its list of messages is".clone_into(&mut fault.what);
        }
    }

    /// Steps over bytes that begin nothing.
    fn garbage(&mut self) {
        self.fault("bytes that are no JSON stand between the elements");
        while self.peek().is_some_and(|byte| !matches!(byte, b',' | b'{' | b'[' | b']' | b'"')) {
            self.step();
        }
    }

    /// Steps over a value and returns its text; of one that does not end, all there is.
    fn value(&mut self) -> &'t [u8] {
        let begin = self.at;
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{' | b'[') => {
                let mut depth = 0_usize;
                while let Some(byte) = self.peek() {
                    match byte {
                        b'"' => {
                            self.string();
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    self.step();
                    if depth == 0 {
                        break;
                    }
                }
            }
            _ => {
                let ends = |byte: u8| matches!(byte, b',' | b']' | b'}' | b':') || byte.is_ascii_whitespace();
                while self.peek().is_some_and(|byte| !ends(byte)) {
                    self.step();
                }
            }
        }
        &self.text[begin..self.at]
    }

    fn string(&mut self) {
        self.step();
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => return self.step(),
                b'\\' => {
                    self.step();
                    if self.at < self.text.len() {
                        self.step();
                    }
                }
                _ => {
                    // Long texts are most of a document: go from one special byte to the next.
                    let run = memchr::memchr3(b'"', b'\\', b'\n', &self.text[self.at..]);
                    match run {
                        Some(0) => self.step(),
                        Some(run) => self.at += run,
                        None => self.at = self.text.len(),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        parts(text.as_bytes())
            .iter()
            .map(|part| match part {
                Part::Value { spot, text } => format!("{spot}: {}", String::from_utf8_lossy(text)),
                Part::Fault(fault) | Part::CutOff(fault) => format!("{}: {}", fault.at, fault.what),
            })
            .collect()
    }

    #[test]
    fn a_list_is_cut_into_its_elements() {
        assert_eq!(
            told("[\n{\"a\": \"} ] \\\" ,\"},\n 7, [1, {}] ,\"x\"]\n"),
            [
                "element 1 in line 2: {\"a\": \"} ] \\\" ,\"}",
                "element 2 in line 3: 7",
                "element 3 in line 3: [1, {}]",
                "element 4 in line 3: \"x\"",
            ]
        );
    }

    #[test]
    fn a_list_that_ends_early_gives_what_was_whole() {
        assert_eq!(
            told("[{\"a\":1},\n{\"b\":\"cut"),
            ["element 1 in line 1: {\"a\":1}", "element 2 in line 2: the text ends inside it",]
        );
        assert_eq!(told("[{},"), ["element 1 in line 1: {}", "line 1: the text ends inside the list"]);
    }

    #[test]
    fn bytes_between_elements_are_named_and_stepped_over() {
        assert_eq!(
            told("[{}\0\0,\n{}]\0"),
            [
                "element 1 in line 1: {}",
                "line 1: bytes that are no JSON stand between the elements",
                "element 2 in line 2: {}",
                "line 2: something stands behind the end of the list",
            ]
        );
    }

    #[test]
    fn the_messages_of_a_cut_request_are_found() {
        assert_eq!(
            told("{\"model\": \"m\", \"messages\": [{\"role\": \"user\"}], \"tools\": ["),
            ["element 1 in line 1: {\"role\": \"user\"}", "line 1: the object is not whole; its list of messages is"]
        );
        assert_eq!(told("{\"model\": "), ["line 1: the object has no whole list of messages"]);
        assert_eq!(told("{"), ["line 1: the object has no whole list of messages"]);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_scan_panic_or_run_for_ever(text in "[\\[\\]{}\",:\\\\\n\0 a0é]{0,60}") {
            let _parts = parts(text.as_bytes());
        }
    }
}
