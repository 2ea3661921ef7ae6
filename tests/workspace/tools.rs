//! docs/tools.md and the tools say the same: every tool its section, every parameter its row, and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use lcm_core::Json;

use super::text;

/// A row of a table of parameters.
#[derive(Debug, PartialEq)]
struct Row {
    aliases: BTreeSet<String>,
    /// As the table says it: `number 1 to 200`, `choice …`.
    kind: String,
    is_told: bool,
}

/// What stands between backticks in a cell.
fn names(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The rows of every tool in the document.
fn described() -> BTreeMap<String, BTreeMap<String, Row>> {
    let mut tools: BTreeMap<String, BTreeMap<String, Row>> = BTreeMap::new();
    let mut tool = None;
    for line in text("docs/tools.md").lines() {
        if let Some(name) = line.strip_prefix("## ") {
            tool = name.starts_with("lcm_").then(|| name.to_owned());
            tools.extend(tool.clone().map(|name| (name, BTreeMap::new())));
        }
        let (Some(tool), true) = (&tool, line.starts_with("| `")) else { continue };
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        // Tables of fields have two columns.
        let &[name, aliases, kind, _, told, _] = cells.as_slice() else { continue };
        assert!(matches!(told, "yes" | "no"), "{tool}: {line}");
        let row = Row { aliases: names(aliases), kind: kind.to_owned(), is_told: told == "yes" };
        let twice = tools.get_mut(tool).unwrap().insert(name.trim_matches('`').to_owned(), row);
        assert_eq!(twice, None, "{tool}: {name} stands twice");
    }
    tools
}

#[test]
fn every_parameter_of_every_tool_has_its_row_and_nothing_else_has() {
    let mut known: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for schema in lcm_engine::tools::schemas(true) {
        known.entry(schema.get("name").unwrap().as_str().unwrap().to_owned()).or_default();
    }
    for (tool, parameter, aliases) in lcm_engine::tools::parameters() {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        known.get_mut(tool).unwrap().insert(parameter.to_owned(), aliases);
    }
    let described = described().into_iter().map(|(tool, rows)| {
        let rows = rows.into_iter().map(|(name, row)| (name, row.aliases)).collect::<BTreeMap<_, _>>();
        (tool, rows)
    });
    assert_eq!(described.collect::<BTreeMap<_, _>>(), known);
}

#[test]
fn rows_say_what_the_schemas_say() {
    let described = described();
    let default: Vec<Json> = lcm_engine::tools::schemas(false);
    for schema in lcm_engine::tools::schemas(true) {
        let tool = schema.get("name").unwrap().as_str().unwrap();
        let parameters = schema.get("parameters").unwrap();
        let properties = parameters.get("properties").unwrap().as_object().unwrap();
        let listed: BTreeSet<&str> = properties.iter().map(|(name, _)| name.as_str().unwrap()).collect();
        let told: BTreeSet<&str> =
            described[tool].iter().filter(|(_, row)| row.is_told).map(|(name, _)| name.as_str()).collect();
        assert_eq!(told, listed, "{tool}: what is told");
        for (name, property) in properties {
            let row = &described[tool][name.as_str().unwrap()];
            let word = row.kind.split([' ', ',']).next().unwrap();
            let words: &[&str] = match (property.get("type").unwrap().as_str().unwrap(), property.get("enum")) {
                ("string", Some(values)) => {
                    let values = values.as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned());
                    assert_eq!(names(&row.kind), values.collect(), "{tool} {name:?}");
                    &["choice"]
                }
                ("string", None) => &["text", "time", "id"],
                ("integer", _) => &["number"],
                ("boolean", _) => &["flag"],
                ("array", _) => &["texts"],
                (other, _) => panic!("{tool} {name:?} is {other}"),
            };
            assert!(words.contains(&word), "{tool} {name:?}: {word} is none of {words:?}");
        }
        let document = text("docs/tools.md");
        let head = document.split("## What holds for all").next().unwrap();
        let is_default = default.iter().any(|schema| schema.get("name").unwrap().as_str() == Some(tool));
        assert_eq!(head.contains(&format!("`{tool}`")), is_default, "{tool}: whether it is told to every agent");
        let example = format!("```text\n{tool} {{");
        assert!(document.contains(&example), "{tool} has no example");
    }
}
