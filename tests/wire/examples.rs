//! Every example of `docs/wire.md`, spoken from top to bottom: each verb has one, and each is true.

use std::fs;
use std::path::Path;

use lcm_tests::run::Desk;

use crate::child::Serving;

/// Stands for what differs from run to run.
const ANYTHING: &str = "…";

fn doc() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/wire.md");
    fs::read_to_string(path).unwrap()
}

/// The lines of the blocks that are spoken.
fn spoken(doc: &str) -> Vec<&str> {
    let mut is_inside = false;
    let mut lines = Vec::new();
    for line in doc.lines() {
        match line {
            "```text" => is_inside = true,
            "```" => is_inside = false,
            line if is_inside => lines.push(line),
            _ => {}
        }
    }
    lines
}

/// Whether a line is the example's, but for what differs from run to run.
fn is_like(line: &str, example: &str) -> bool {
    let mut parts = example.split(ANYTHING);
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        match parts.peek() {
            None => return rest.ends_with(part),
            Some(_) => match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            },
        }
    }
    rest.is_empty()
}

/// The base that an answer names.
fn base_of(line: &str) -> Option<&str> {
    line.split_once(r#""base":""#)?.1.split_once('"').map(|(base, _)| base)
}

#[test]
fn every_example_of_the_document_is_true() {
    let desk = Desk::new();
    let mut serving = Serving::start(&desk);
    let doc = doc();
    let mut base = String::new();
    let mut count = 0;
    for line in spoken(&doc) {
        if let Some(said) = line.strip_prefix("-> ") {
            serving.say(&said.replace(ANYTHING, &base));
        } else if let Some(example) = line.strip_prefix("<- ") {
            let told = serving.line();
            assert!(is_like(&told, example), "expected: {example}\ntold:     {told}");
            base = base_of(&told).map_or(base, str::to_owned);
            count += 1;
        }
    }
    assert!(count >= 15, "the examples are found: {count}");
    assert_eq!(serving.end(), (Vec::new(), Some(0)));
}

#[test]
fn every_verb_has_an_example() {
    let desk = Desk::new();
    let mut serving = Serving::open(&desk);
    let told = serving.ask(r#"{"id":1,"method":"no such verb"}"#);
    let message = crate::child::text(told.get("error").unwrap(), "message");
    let (_, verbs) = message.split_once("use one of ").unwrap();
    let doc = doc();
    let said: Vec<&str> = spoken(&doc).into_iter().filter(|line| line.starts_with("-> ")).collect();
    for verb in verbs.split(", ") {
        let named = format!(r#""method":"{verb}""#);
        assert!(said.iter().any(|line| line.contains(&named)), "{verb} has none");
    }
}

#[test]
fn what_differs_is_passed_over_and_nothing_else() {
    assert!(is_like("abc", "abc") && is_like("axc", "a…c") && is_like("axcyc", "a…c…c") && is_like("a", "a…"));
    assert!(!is_like("abcd", "abc") && !is_like("axd", "a…c") && !is_like("ac", "a…c…c"));
}
