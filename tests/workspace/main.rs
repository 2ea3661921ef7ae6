//! The rules of this repository as tests: who may know what, and that docs and code say the same.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what it expects by failing")]

mod rooms;
mod docs;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};

/// The root of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the checkout").to_owned()
}

/// A file of the checkout as text.
fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every Rust file below a folder of the checkout: its path from the root, and its text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let (mut found, mut open) = (Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{folder} holds no Rust file");
    found
}

/// The part of a source that is in the program: without the tests at its end.
fn program(source: &str) -> &str {
    source.split("#[cfg(test)]").next().unwrap_or(source)
}
