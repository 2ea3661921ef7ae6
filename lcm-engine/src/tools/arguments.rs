//! Reading what a model passes to a tool: leniently where the meaning is clear, by name where it is not.
//!
//! Every tool has one table of parameters; its schema, its aliases and its bounds come from there. Names may be in snake
//! or camel case. A wrong type is read where only one thing can be meant (`"10"`, `10.0`, one value for a list), else
//! it is named in one sentence. A number out of bounds is moved to the nearest one, and the answer says so. What no
//! table knows is named in the answer.
//!
//! Not here: what the values mean (each tool).

use lcm_core::{Json, Role};

use super::ToolError;
use super::answer::Object;
use crate::hosts::time;

/// Characters of a value that are named in a sentence.
const NAMED_CHARS_MAX: usize = 80;
/// Names and sentences that an answer gives about arguments.
const TOLD_MAX: usize = 12;
/// Elements of a list that are read.
const LIST_MAX: usize = 256;

/// One tool: what a model is told of it, and what it may pass.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Whether it is listed when nothing is set.
    pub(super) is_default: bool,
    /// Those without which there is no answer.
    pub(super) required: &'static [&'static str],
    pub(super) parameters: &'static [Parameter],
}

/// One parameter.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Other names, in snake case.
    pub(super) aliases: &'static [&'static str],
    /// What the schema says; empty for one that is read and not listed.
    pub(super) about: &'static str,
}

/// What a parameter holds.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// A whole number; least, most.
    Number(i64, i64),
    Flag,
    Choice(&'static [&'static str]),
    /// A text or a number, or several.
    Texts,
    /// What names a node, or several.
    Ids,
    /// Unix seconds, or ISO 8601 with a zone.
    Time,
}

impl Parameter {
    pub(super) const fn listed(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, kind, aliases: &[], about }
    }

    pub(super) const fn silent(name: &'static str, kind: Kind) -> Self {
        Self { name, kind, aliases: &[], about: "" }
    }

    pub(super) const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// Its entry in a JSON schema.
    pub(super) fn schema(&self) -> Json {
        let mut entries: Vec<(&str, Json)> = Vec::new();
        match self.kind {
            Kind::Text | Kind::Time | Kind::Ids => entries.push(("type", "string".into())),
            Kind::Number(..) => entries.push(("type", "integer".into())),
            Kind::Flag => entries.push(("type", "boolean".into())),
            Kind::Choice(names) => {
                entries.push(("type", "string".into()));
                entries.push(("enum", Json::Array(names.iter().map(|name| (*name).into()).collect())));
            }
            Kind::Texts => {
                entries.push(("type", "array".into()));
                entries.push(("items", Json::object([("type", "string".into())])));
            }
        }
        if self.about != "-" {
            entries.push(("description", self.about.into()));
        }
        Json::object(entries)
    }
}

/// Whose habits a call follows where defaults differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Names in snake case: words are looked for.
    Snake,
    /// Names in camel case, or `pattern`: regular expressions are looked for.
    Camel,
}

/// What was passed, under the names of the table.
pub(super) struct Arguments {
    tool: &'static Tool,
    given: Vec<(&'static Parameter, Json)>,
    pub(super) dialect: Dialect,
    ignored: Vec<String>,
    notes: Vec<String>,
}

impl Arguments {
    pub(super) fn read(tool: &'static Tool, bytes: &[u8]) -> Result<Self, ToolError> {
        let mut read =
            Self { tool, given: Vec::new(), dialect: Dialect::Snake, ignored: Vec::new(), notes: Vec::new() };
        for (key, value) in entries(tool.name, bytes)? {
            if key == "pattern" || key.contains(|c: char| c.is_ascii_uppercase()) {
                read.dialect = Dialect::Camel;
            }
            let name = snake(&key);
            let known = tool.parameters.iter().find(|known| known.name == name);
            let known = known.or_else(|| tool.parameters.iter().find(|known| known.aliases.contains(&name.as_str())));
            match known {
                // `null` and an empty text are how some models say that they pass nothing.
                Some(_) if value.is_null() || matches!(&value, Json::String(text) if text.is_empty()) => {}
                Some(known) => {
                    read.given.retain(|(before, _)| before.name != known.name);
                    read.given.push((known, value));
                }
                None => read.ignored.push(short(&key)),
            }
        }
        Ok(read)
    }

    fn get(&self, name: &str) -> Option<&Json> {
        debug_assert!(self.tool.parameters.iter().any(|known| known.name == name), "{name} is not in the table");
        self.given.iter().find(|(known, _)| known.name == name).map(|(_, value)| value)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A text; a number or a truth value as it is written.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ToolError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value {
            Json::Array(one) if one.len() == 1 => text_of(&one[0]),
            value => text_of(value),
        }
        .map(Some)
        .ok_or_else(|| wrong(name, value, "is no text"))
    }

    /// Texts: one, or a list, or a list written as a text.
    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, ToolError> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let listed = match value {
            Json::Array(values) => Some(values.clone()),
            Json::String(text) if text.to_str_lossy().trim_start().starts_with('[') => {
                match Json::parse(text.to_str_lossy().trim().as_bytes()) {
                    Ok(Json::Array(values)) => Some(values),
                    _ => None,
                }
            }
            _ => None,
        };
        let values = listed.unwrap_or_else(|| vec![value.clone()]);
        let texts: Option<Vec<String>> = values.iter().filter(|value| !value.is_null()).map(text_of).collect();
        let mut texts = texts.ok_or_else(|| wrong(name, value, "is no list of texts"))?;
        if texts.len() > LIST_MAX {
            texts.truncate(LIST_MAX);
            self.note(format!("of {name} the first {LIST_MAX} were read"));
        }
        Ok(texts)
    }

    /// A whole number within the bounds of the table.
    pub(super) fn number(&mut self, name: &'static str) -> Result<Option<u64>, ToolError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let said = match value {
            Json::Array(one) if one.len() == 1 => &one[0],
            value => value,
        };
        let number = match said {
            Json::Number(literal) => whole(literal),
            Json::String(text) => whole(text.to_str_lossy().trim()),
            _ => None,
        };
        let number = number.ok_or_else(|| wrong(name, value, "is no whole number"))?;
        let parameter = self.tool.parameters.iter().find(|known| known.name == name);
        let (least, most) = match parameter.map(|parameter| parameter.kind) {
            Some(Kind::Number(least, most)) => (least, most),
            _ => (0, i64::MAX),
        };
        let within = number.clamp(least, most);
        if within != number {
            self.note(format!("{name} was {number} and is taken as {within}"));
        }
        Ok(u64::try_from(within).ok())
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ToolError> {
        let Some(value) = self.get(name) else { return Ok(false) };
        let said = match value {
            Json::Bool(said) => Some(*said),
            Json::Number(literal) => whole(literal).map(|number| number != 0),
            Json::String(text) => match text.to_str_lossy().trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "1" | "on" => Some(true),
                "false" | "no" | "0" | "off" | "" => Some(false),
                _ => None,
            },
            _ => None,
        };
        said.ok_or_else(|| wrong(name, value, "is neither true nor false"))
    }

    /// One of the names in the table.
    pub(super) fn choice(&self, name: &'static str) -> Result<Option<&'static str>, ToolError> {
        let Some(said) = self.text(name)? else { return Ok(None) };
        let parameter = self.tool.parameters.iter().find(|known| known.name == name);
        let Some(Kind::Choice(names)) = parameter.map(|parameter| parameter.kind) else { return Ok(None) };
        let wanted = said.trim().to_ascii_lowercase().replace('-', "_");
        match names.iter().find(|known| **known == wanted) {
            Some(known) => Ok(Some(known)),
            None => {
                let names = names.join(", ");
                Err(ToolError::Said(format!("{name} is {:?}, and can be {names}", short(&said))))
            }
        }
    }

    /// Roles by their names.
    pub(super) fn roles(&mut self, name: &'static str) -> Result<Vec<Role>, ToolError> {
        self.texts(name)?.iter().map(|name| role(name)).collect()
    }

    /// A moment in milliseconds since 1970 UTC. A time without a zone means another moment in another place, so it is
    /// refused.
    pub(super) fn time(&self, name: &str) -> Result<Option<i64>, ToolError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let moment = match value {
            Json::Number(literal) => time::from_number(literal),
            Json::String(text) => {
                let text = text.to_str_lossy();
                let text = text.trim();
                match time::from_number(text) {
                    Some(moment) => Some(moment),
                    None if time::from_text(text).is_some() && !has_zone(text) => {
                        return Err(ToolError::Said(format!(
                            "{name} is {:?}, which has no time zone: write it like 2026-03-04T08:00:00Z or with an offset",
                            short(text)
                        )));
                    }
                    None => time::from_text(text),
                }
            }
            _ => None,
        };
        let why = "is no moment: give unix seconds, or a time like 2026-03-04T08:00:00Z";
        moment.ok_or_else(|| wrong(name, value, why)).map(Some)
    }

    /// Says something about the call in its answer.
    pub(super) fn note(&mut self, sentence: impl Into<String>) {
        if self.notes.len() < TOLD_MAX {
            self.notes.push(sentence.into());
        }
    }

    /// Names a parameter that is known and has no effect here.
    pub(super) fn ignore(&mut self, name: &str) {
        if self.has(name) {
            self.ignored.push(name.to_owned());
        }
    }

    /// Writes what there is to say about the call.
    pub(super) fn tell(&self, object: &mut Object) {
        if !self.ignored.is_empty() {
            object.names("ignored", self.ignored.iter().take(TOLD_MAX).map(String::as_str));
        }
        if !self.notes.is_empty() {
            object.names("notes", self.notes.iter().map(String::as_str));
        }
    }
}

/// The entries of the object that was passed. Some models write it as a text in a text, some pass nothing at all.
fn entries(tool: &str, bytes: &[u8]) -> Result<Vec<(String, Json)>, ToolError> {
    let no_object = || ToolError::Said(format!("the arguments of {tool} must be one JSON object"));
    if bytes.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let mut json = Json::parse(bytes.trim_ascii()).map_err(|_| no_object())?;
    if let Json::String(text) = &json {
        let text = text.to_str_lossy();
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        json = Json::parse(text.trim().as_bytes()).map_err(|_| no_object())?;
    }
    match json {
        Json::Null => Ok(Vec::new()),
        Json::Object(entries) => {
            Ok(entries.into_iter().map(|(key, value)| (key.to_str_lossy().into_owned(), value)).collect())
        }
        _ => Err(no_object()),
    }
}

/// A name in snake case.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.trim().chars() {
        if c.is_ascii_uppercase() {
            if !snake.is_empty() && !snake.ends_with('_') {
                snake.push('_');
            }
            snake.push(c.to_ascii_lowercase());
        } else {
            snake.push(if c == '-' { '_' } else { c });
        }
    }
    snake
}

fn text_of(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.to_str_lossy().into_owned()),
        Json::Number(literal) => Some(whole(literal).map_or_else(|| literal.to_string(), |number| number.to_string())),
        Json::Bool(said) => Some(said.to_string()),
        _ => None,
    }
}

/// A whole number as models write it: `10`, `10.0`, `1e3`. What is too large for us is the largest there is.
fn whole(literal: &str) -> Option<i64> {
    if literal.len() > 400 {
        return None;
    }
    if let Ok(number) = literal.parse::<i64>() {
        return Some(number);
    }
    let is_number = literal.bytes().all(|c| c.is_ascii_digit() || matches!(c, b'+' | b'-' | b'.' | b'e' | b'E'));
    let number =
        literal.parse::<f64>().ok().filter(|number| is_number && (number.fract() == 0.0 || number.is_infinite()))?;
    // Beyond 2^53 a float is always whole; the bounds of every parameter lie far below.
    match number {
        number if number >= 9e15 => Some(i64::MAX),
        number if number <= -9e15 => Some(i64::MIN),
        number => format!("{number:.0}").parse().ok(),
    }
}

/// Whether a time says in which zone it is.
fn has_zone(text: &str) -> bool {
    let Some((_, clock)) = text.split_once(['T', 't', ' ']) else { return false };
    clock.contains(['Z', 'z', '+', '-'])
}

fn wrong(name: &str, value: &Json, why: &str) -> ToolError {
    let said = String::from_utf8_lossy(&value.to_text()).into_owned();
    ToolError::Said(format!("{name} is {}, which {why}", short(&said)))
}

/// The beginning of a text, for a sentence.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(NAMED_CHARS_MAX) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

fn role(name: &str) -> Result<Role, ToolError> {
    let lower = name.trim().to_ascii_lowercase();
    match (Role::from_name(lower.as_bytes()), lower.as_str()) {
        (Role::Other, "unknown" | "other") => Ok(Role::Other),
        (Role::Other, _) => Err(ToolError::Said(format!(
            "role is {:?}, and can be system, developer, user, assistant, tool or unknown",
            short(name)
        ))),
        (role, _) => Ok(role),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    static TOOL: Tool = Tool {
        name: "test",
        about: "",
        is_default: false,
        required: &[],
        parameters: &[
            Parameter::silent("query", Kind::Text).or(&["pattern"]),
            Parameter::silent("limit", Kind::Number(1, 200)),
            Parameter::silent("ids", Kind::Texts).or(&["summary_ids"]),
            Parameter::silent("deep", Kind::Flag),
            Parameter::silent("from", Kind::Time),
            Parameter::silent("sort", Kind::Choice(&["recency", "best_first"])),
        ],
    };

    fn read(json: &str) -> Arguments {
        Arguments::read(&TOOL, json.as_bytes()).map_err(|error| error.to_string()).unwrap()
    }

    fn told(arguments: &Arguments) -> String {
        let mut object = Object::new();
        arguments.tell(&mut object);
        object.finish()
    }

    #[test]
    fn numbers_are_read_in_every_clear_form_and_moved_into_their_bounds() {
        for (json, number) in [("10", 10), ("10.0", 10), ("\"10\"", 10), ("[7]", 7), ("1e2", 100), ("\" 5 \"", 5)] {
            let mut arguments = read(&format!("{{\"limit\":{json}}}"));
            assert_eq!(arguments.number("limit").ok(), Some(Some(number)), "{json}");
            assert_eq!(told(&arguments), "{}");
        }
        for (json, number) in [("0", 1), ("-1", 1), ("1000000000", 200), ("1e300", 200), ("-99999999999999999999", 1)] {
            let mut arguments = read(&format!("{{\"limit\":{json}}}"));
            assert_eq!(arguments.number("limit").ok(), Some(Some(number)), "{json}");
            assert!(told(&arguments).contains("limit was "), "{json}");
        }
        for json in ["\"abc\"", "1.5", "true", "{}", "[1,2]", "\" \"", "NaN", "\"Infinity\""] {
            let error = read(&format!("{{\"limit\":{json}}}")).number("limit").err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.starts_with("limit is ")), "{json}");
        }
        for json in [r#"{"limit":null}"#, r#"{"limit":""}"#] {
            assert_eq!(read(json).number("limit").ok(), Some(None), "{json}");
        }
    }

    #[test]
    fn names_come_in_either_case_and_under_their_aliases() {
        let mut arguments = read(r#"{"summaryIds":["a",7],"pattern":"x"}"#);
        assert_eq!(arguments.texts("ids").ok(), Some(vec!["a".to_owned(), "7".to_owned()]));
        assert_eq!(arguments.text("query").ok(), Some(Some("x".to_owned())));
        assert_eq!(arguments.dialect, Dialect::Camel);
        assert_eq!(read(r#"{"query":"x"}"#).dialect, Dialect::Snake);
        assert_eq!(read(r#"{"ids":"[1, \"b\"]"}"#).texts("ids").ok(), Some(vec!["1".to_owned(), "b".to_owned()]));
        assert_eq!(read(r#"{"ids":"[see sum_1]"}"#).texts("ids").ok(), Some(vec!["[see sum_1]".to_owned()]));
    }

    #[test]
    fn what_no_table_knows_is_named() {
        assert_eq!(told(&read(r#"{"quary":"x","deep":true}"#)), r#"{"ignored":["quary"]}"#);
    }

    #[test]
    fn a_text_in_a_text_and_nothing_at_all_are_objects_too() {
        assert!(read(r#""{\"query\":\"x\"}""#).has("query"));
        assert!(!read("").has("query") && !read("null").has("query") && !read("\"\"").has("query"));
        for json in ["[]", "7", "{", "\"x\""] {
            assert!(Arguments::read(&TOOL, json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn moments_need_a_zone() {
        for json in ["1770849605", "\"1770849605\"", "\"2026-02-11T22:40:05Z\"", "\"2026-02-12T06:40:05+08:00\""] {
            let moment = read(&format!("{{\"from\":{json}}}")).time("from").ok();
            assert_eq!(moment, Some(Some(1_770_849_605_000)), "{json}");
        }
        for json in ["\"2026-02-11T22:40:05\"", "\"2026-02-11\"", "\"yesterday\"", "[]"] {
            assert!(read(&format!("{{\"from\":{json}}}")).time("from").is_err(), "{json}");
        }
        let naive = read(r#"{"from":"2026-02-11T22:40:05"}"#).time("from").err().map(|error| error.to_string());
        assert!(naive.is_some_and(|error| error.contains("no time zone")));
    }

    #[test]
    fn choices_and_flags_are_read_as_models_write_them() {
        assert_eq!(read(r#"{"sort":"Best-First"}"#).choice("sort").ok(), Some(Some("best_first")));
        assert!(read(r#"{"sort":"x"}"#).choice("sort").is_err());
        assert_eq!(read(r#"{"deep":"yes"}"#).flag("deep").ok(), Some(true));
        assert_eq!(read(r#"{"deep":0}"#).flag("deep").ok(), Some(false));
        assert!(read(r#"{"deep":"maybe"}"#).flag("deep").is_err());
    }

    proptest! {
        #[test]
        fn no_arguments_make_the_reader_panic(
            json in "\\{(\"(query|limit|ids|deep|from|sort|x)\":(\"[0-9a-z:TZ.\\[-]{0,12}\"|[0-9.e-]{1,9}|null|true|\\[[0-9,]{0,5}\\]),?){0,4}\\}?|\\PC{0,20}",
        ) {
            if let Ok(mut arguments) = Arguments::read(&TOOL, json.as_bytes()) {
                let _read = (arguments.number("limit"), arguments.texts("ids"), arguments.flag("deep"));
                let _read = (arguments.text("query"), arguments.time("from"), arguments.choice("sort"));
            }
        }
    }
}
