//! What a YAML file means, by a parser: two settings that are read, and all the others, which an edit must leave as they are.

use std::collections::BTreeMap;

use saphyr::{LoadableYamlNode, Scalar, Yaml};

use super::Unclear;

/// What merges another mapping in: what a section has then is not all written in it.
const MERGE: &str = "<<";

/// A file, read.
pub(super) struct Meaning<'t>(Yaml<'t>);

impl<'t> Meaning<'t> {
    /// Reads a file of one mapping, or of nothing.
    pub(super) fn of(text: &'t str) -> Result<Self, Unclear> {
        let mut documents = Yaml::load_from_str(text.trim_start_matches('\u{feff}')).map_err(|_| Unclear)?;
        let root = documents.pop().unwrap_or(Yaml::Value(Scalar::Null));
        let is_mapping = root.is_null() || root.as_mapping().is_some();
        if documents.is_empty() && is_mapping { Ok(Self(root)) } else { Err(Unclear) }
    }

    /// The value of a key in a section.
    fn value(&self, section: &str, key: &str) -> Result<Option<&Yaml<'t>>, Unclear> {
        let Some(section) = self.0.as_mapping_get(section).filter(|section| !section.is_null()) else {
            return Ok(None);
        };
        if section.as_mapping().is_none() || section.as_mapping_get(MERGE).is_some() {
            return Err(Unclear);
        }
        Ok(section.as_mapping_get(key).filter(|value| !value.is_null()))
    }

    /// The text of a key in a section.
    pub(super) fn text(&self, section: &str, key: &str) -> Result<Option<&str>, Unclear> {
        self.value(section, key)?.map(|value| value.as_str().ok_or(Unclear)).transpose()
    }

    /// The texts of a list under a key in a section; none where there is no such key.
    pub(super) fn list(&self, section: &str, key: &str) -> Result<Vec<&str>, Unclear> {
        let Some(value) = self.value(section, key)? else { return Ok(Vec::new()) };
        value.as_sequence().ok_or(Unclear)?.iter().map(|item| item.as_str().ok_or(Unclear)).collect()
    }

    /// All values but one, by the way to them.
    pub(super) fn others(&self, section: &str, key: &str) -> BTreeMap<Vec<String>, String> {
        let mut others = BTreeMap::new();
        flatten(&self.0, &mut Vec::new(), &mut others);
        let (section, key) = (name(&text(section)), name(&text(key)));
        others.retain(|way, value| match way.as_slice() {
            [first, second, ..] => *first != section || *second != key,
            // A section that has nothing else.
            [first] => *first != section || !matches!(value.as_str(), NOTHING | EMPTY),
            [] => false,
        });
        others
    }
}

const NOTHING: &str = "null";
const EMPTY: &str = "{}";

fn flatten(yaml: &Yaml<'_>, way: &mut Vec<String>, found: &mut BTreeMap<Vec<String>, String>) {
    let mut inside = |name: String, value: &Yaml<'_>| {
        way.push(name);
        flatten(value, way, found);
        way.pop();
    };
    if let Some(mapping) = yaml.as_mapping().filter(|mapping| !mapping.is_empty()) {
        mapping.iter().for_each(|(key, value)| inside(name(key), value));
    } else if let Some(items) = yaml.as_sequence().filter(|items| !items.is_empty()) {
        items.iter().enumerate().for_each(|(nth, value)| inside(format!("[{nth}]"), value));
    } else {
        let value = match yaml {
            yaml if yaml.is_null() => NOTHING.to_owned(),
            yaml if yaml.as_mapping().is_some() => EMPTY.to_owned(),
            yaml => name(yaml),
        };
        found.insert(way.clone(), value);
    }
}

fn text(text: &str) -> Yaml<'_> {
    Yaml::Value(Scalar::String(text.into()))
}

fn name(yaml: &Yaml<'_>) -> String {
    format!("{yaml:?}")
}
