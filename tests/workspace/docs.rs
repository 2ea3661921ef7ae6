//! Docs and code say the same: names, numbers and commands that stand in both are compared.

use std::process::Command;

use lcm_core::limits;

use super::{root, sources, text};

#[test]
fn every_table_is_described() {
    let format = text("docs/format.md");
    let tables = text("lcm-store/src/tables.rs");
    let names: Vec<&str> =
        tables.lines().filter_map(|line| line.split("TableDefinition::new(\"").nth(1)?.split('"').next()).collect();
    assert!(names.len() > 10, "no table was read: {names:?}");
    for name in names {
        assert!(format.contains(&format!("`{name}`")), "docs/format.md does not describe the table {name}");
    }
}

#[test]
fn every_described_table_is_there() {
    let tables = text("lcm-store/src/tables.rs");
    let format = text("docs/format.md");
    for name in format.lines().filter_map(|line| line.strip_prefix("## Table `")?.strip_suffix('`')) {
        assert!(tables.contains(&format!("TableDefinition::new(\"{name}\")")), "there is no table {name}");
    }
}

/// Numbers of `limits` that a format rests on: another number would be another format.
#[test]
fn limits_in_the_docs_are_those_of_the_code() {
    let format = text("docs/format.md");
    let claims = [
        format!("at most {} MiB", limits::MESSAGE_BYTES_MAX >> 20),
        format!("| {} bytes", limits::CONTENT_BODY_BYTES_MIN),
        format!("| {} bytes", limits::OTHER_BODY_BYTES_MIN),
        format!("at most {} deep", limits::JSON_DEPTH_MAX),
        format!("varint count (1 to {})", limits::SUMMARY_CHILDREN_MAX),
        // Of `pack`, where a row is cut.
        format!("has at most {} bytes", number_in("lcm-store/src/pack.rs", "ROW_BYTES_MAX: usize = ")),
    ];
    for claim in claims {
        assert!(format.contains(&claim), "docs/format.md does not say: {claim}");
    }
}

/// The number behind a piece of code.
fn number_in(file: &str, code: &str) -> u64 {
    let source = text(file);
    let behind = source.split(code).nth(1).unwrap_or_else(|| panic!("{file} has no {code}"));
    behind.split(';').next().unwrap().replace('_', "").parse().unwrap()
}

#[test]
fn the_format_has_one_number() {
    let format = text("docs/format.md");
    assert!(format.contains(&format!("format {}", lcm_store::FORMAT)), "docs/format.md speaks of another format");
}

#[test]
fn the_readme_names_every_command_once_built() {
    let readme = text("README.md");
    let changelog = text("docs/changelog.md");
    let commands = sources("lcm-cli/src/commands");
    for (name, _) in commands {
        let command = name.rsplit('/').next().unwrap().trim_end_matches(".rs");
        if command != "mod" {
            assert!(
                readme.contains(&format!("lcm-cli {command}")) || changelog.contains(command),
                "neither README nor changelog tells of {command}"
            );
        }
    }
}

#[test]
fn links_in_the_docs_lead_somewhere() {
    let docs = [
        "README.md",
        "docs/architecture.md",
        "docs/format.md",
        "docs/settings.md",
        "docs/tools.md",
        "docs/glossary.md",
        "docs/changelog.md",
    ];
    for name in docs {
        let folder = root().join(name).parent().unwrap().to_owned();
        for link in text(name).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            assert!(folder.join(path).exists(), "{name} links to {link}, which is not there");
        }
    }
}

#[test]
fn test_data_has_its_licence_beside_it() {
    let list = text("tests/fixtures/README.md");
    for entry in std::fs::read_dir(root().join("tests/fixtures")).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.is_dir() || folder.ends_with("__pycache__") {
            continue;
        }
        let name = folder.file_name().unwrap().to_str().unwrap();
        let told = list.lines().find(|line| line.starts_with(&format!("| `{name}/` |")));
        let told = told.unwrap_or_else(|| panic!("tests/fixtures/README.md does not tell of {name}"));
        if !told.contains("that of the repository") {
            let mut files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
            assert!(files.any(|name| name.to_string_lossy().starts_with("LICENSE")), "{name}: whose is it?");
        }
    }
}

#[test]
fn no_path_of_one_machine_and_no_package_host_is_named() {
    // Built from parts, so that this file does not name them either.
    let words = [["/ro", "ot/"], ["/wo", "rk/"], ["crates", ".io/"], ["pypi", ".org"], ["npmjs", ".org"]];
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    // Outside of a checkout (a packed source tree) there is no list, and nothing to compare.
    let Ok(listed) = listed else { return };
    for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
        if name == "Cargo.lock" || name.ends_with("/Cargo.lock") {
            continue;
        }
        let Ok(source) = std::fs::read_to_string(root().join(name)) else { continue };
        for word in words {
            let word = word.concat();
            assert!(!source.contains(&word), "{name} names {word}");
        }
    }
}
