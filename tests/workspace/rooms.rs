//! Who may know what. A crate that has no dependency on a thing cannot know it, so the manifests are looked at first.

use super::{program, sources, text};

/// The names under `[dependencies]` of a crate.
fn dependencies(folder: &str) -> Vec<String> {
    let manifest = text(format!("{folder}/Cargo.toml"));
    let part = manifest.split("\n[dependencies]").nth(1).unwrap_or_default();
    let lines = part.lines().skip(1).take_while(|line| !line.starts_with('['));
    let name = |line: &str| line.split(['.', ' ', '=']).next().unwrap_or_default().to_owned();
    lines.map(name).filter(|name| !name.is_empty() && !name.starts_with('#')).collect()
}

#[test]
fn crates_know_only_those_below_them() {
    let order = ["lcm-core", "lcm-store", "lcm-engine", "lcm-cli"];
    for (i, folder) in order.iter().enumerate() {
        let known = dependencies(folder);
        assert!(!known.is_empty(), "{folder}: no dependency was read");
        for above in &order[i..] {
            assert!(!known.contains(&(*above).to_owned()), "{folder} knows {above}");
        }
    }
}

#[test]
fn each_thing_is_met_in_its_crate_only() {
    let rules: [(&[&str], &[&str]); 5] = [
        (&["redb", "tantivy", "bincode", "zstd", "memmap2"], &["lcm-store"]),
        (&["tokio", "reqwest", "rustls", "toml", "clap", "indicatif", "jiff", "rusqlite", "anstream"], &["lcm-cli"]),
        (&["petgraph"], &["lcm-core"]),
        (&["serde"], &["lcm-cli", "lcm-engine"]),
        (&["rayon"], &["lcm-store", "lcm-engine", "lcm-cli"]),
    ];
    for (things, homes) in rules {
        for folder in ["lcm-core", "lcm-store", "lcm-engine", "lcm-cli"] {
            if homes.contains(&folder) {
                continue;
            }
            for thing in things {
                assert!(!dependencies(folder).contains(&(*thing).to_owned()), "{folder} knows {thing}");
            }
        }
    }
}

#[test]
fn the_codec_lives_in_one_file() {
    let users: Vec<String> = sources("lcm-store/src")
        .into_iter()
        .filter(|(_, source)| source.contains("bincode::"))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(users, ["lcm-store/src/record.rs"]);
}

#[test]
fn libraries_read_no_clock_and_write_to_no_terminal() {
    for folder in ["lcm-core/src", "lcm-store/src", "lcm-engine/src"] {
        for (name, source) in sources(folder) {
            for word in ["SystemTime::now", "println!", "eprintln!", "std::env::var", "std::process::exit"] {
                assert!(!program(&source).contains(word), "{name} has {word}");
            }
        }
    }
}

/// `expect` says why it holds; `unwrap` does not.
#[test]
fn the_program_unwraps_nothing_without_a_proof() {
    for folder in ["lcm-core/src", "lcm-store/src", "lcm-engine/src", "lcm-cli/src"] {
        let sources = sources(folder);
        // Files that are tests as a whole say so where they are named.
        let named = |source: &str, file: &str| source.contains(&format!("#[cfg(test)]\nmod {file};"));
        for (name, source) in &sources {
            let file = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".rs");
            if sources.iter().any(|(_, source)| named(source, file)) {
                continue;
            }
            for (number, line) in program(source).lines().enumerate() {
                let code = line.trim_start();
                // Examples in doc comments are read by people who know what they do.
                let unproved =
                    !code.starts_with("//") && (code.contains(".unwrap()") || code.contains(".expect(\"\")"));
                assert!(!unproved, "{name}:{}: {code}", number + 1);
            }
        }
    }
}

#[test]
fn a_hosts_words_stay_in_its_file() {
    for (name, source) in sources("lcm-store/src").into_iter().chain(sources("lcm-core/src")) {
        for word in ["Hermes", "LibreFang", "Claude Code"] {
            assert!(!source.contains(word), "{name} speaks of {word}");
        }
    }
}

#[test]
fn every_file_says_in_its_first_line_what_lives_there() {
    for folder in ["lcm-core/src", "lcm-store/src", "lcm-engine/src", "lcm-cli/src", "benches/src", "tests"] {
        for (name, source) in sources(folder) {
            assert!(source.starts_with("//! "), "{name} begins without a header");
        }
    }
}

#[test]
fn what_touches_data_is_pinned() {
    let manifest = text("Cargo.toml");
    for name in ["bincode", "blake3", "redb", "tantivy", "zstd"] {
        let line = manifest.lines().find(|line| line.starts_with(&format!("{name} ="))).unwrap();
        assert!(line.contains("\"="), "{line}");
    }
}
