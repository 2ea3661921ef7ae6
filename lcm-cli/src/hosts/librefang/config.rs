//! What of `config.toml` and of an agent's manifest is lcm's: text in, text out, every other byte kept.
//!
//! The daemon writes all of its defaults into `config.toml` when it first starts, so a value that equals the default is
//! one that nobody chose. What a value was before stands in a record, so that uninstalling leaves what was there.
//!
//! Invariant: an edit is parsed again, and means what it meant but for the parts that are ours ([`sure`]).

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::{NAME, TOOLS};

/// What the host's settings are given for a long conversation, what the host has of itself, and why.
pub(super) const RECOMMENDED: [(&[&str], i64, Option<i64>); 3] = [
    // lcm folds; the host's own summaries would only cut what lcm has to see.
    (&["compaction", "threshold_messages"], 100_000, Some(30)),
    // The host's highest. Beyond it the host cuts, whatever else is set.
    (&["max_history_messages"], 500, None),
    // Else the host rewrites results of tools that lcm has not been shown yet.
    (&["tool_results", "history_fold_after_turns"], 100_000, Some(8)),
];
const PLUGIN: &[&str] = &["context_engine", "plugin"];
const STACK: &[&str] = &["context_engine", "plugin_stack"];
const ENGINE: &[&str] = &["context_engine", "engine"];
const SIDECAR: &[&str] = &["context_engine", "sidecar"];
const SERVERS: &str = "mcp_servers";
/// The engine that the host has of itself.
const BUILT_IN: &str = "default";
/// The name of an engine that is a process of its own.
const SIDECAR_ENGINE: &str = "sidecar";
/// What a call of a tool may take. Every call of every server waits for it.
const TOOL_SECS: i64 = 30;

/// How the host calls lcm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A process for each hook.
    Plugin,
    /// One process for all of it.
    Sidecar,
}

/// Where lcm is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    /// The program.
    pub(super) program: &'a str,
    /// The data directory.
    pub(super) data: &'a str,
}

/// Why a text is not changed, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) what: String,
    pub(super) hint: String,
}

impl Refused {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

/// What settings were before: TOML of the value under the dotted name, empty where there was none.
pub(super) type Before = BTreeMap<String, String>;

/// A text and what was done to it.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) text: String,
    /// Each a sentence without a full stop.
    pub(super) said: Vec<String>,
}

/// Reads a record of what settings were.
pub(super) fn before(text: &str) -> Before {
    let Some(Plain::Table(table)) = meaning(text) else { return Before::new() };
    let texts = table.into_iter().filter_map(|(name, value)| match value {
        Plain::Text(text) => Some((name, text)),
        _ => None,
    });
    texts.collect()
}

/// A record as it is kept.
pub(super) fn before_text(before: &Before) -> String {
    let mut document = DocumentMut::new();
    for (name, value) in before {
        document.insert(name, Item::Value(value.as_str().into()));
    }
    format!("# What settings were before lcm was installed; `lcm-cli uninstall librefang` puts them back.\n{document}")
}

/// Puts lcm into `config.toml`. What is replaced goes into `before`, unless it is known from an earlier time.
pub(super) fn install(text: &str, way: Way, place: Place<'_>, before: &mut Before) -> Result<Edit, Refused> {
    let mut file = Config::parse(text, before)?;
    match way {
        Way::Plugin => file.plugin()?,
        Way::Sidecar => file.sidecar(place)?,
    }
    file.server(place)?;
    for (path, ours, default) in RECOMMENDED {
        match file.get(path).map(|item| item.as_integer()) {
            None => file.set(path, ours.into())?,
            Some(value) if value == default && value.is_some() => file.set(path, ours.into())?,
            Some(Some(value)) if value == ours => {}
            // Somebody chose it.
            Some(_) => file.said.push(format!("{} stays as it is; lcm recommends {ours}", path.join("."))),
        }
    }
    file.finish(text)
}

/// Takes lcm out of `config.toml`. What is lcm's still becomes what it was.
pub(super) fn uninstall(text: &str, before: &Before) -> Result<Edit, Refused> {
    let mut before = before.clone();
    let mut file = Config::parse(text, &mut before)?;
    file.leave_plugin()?;
    file.leave_sidecar()?;
    if file.servers_drop() {
        file.said.push(format!("{SERVERS} has no entry lcm"));
    }
    for (path, ours, _) in RECOMMENDED {
        if file.get(path).and_then(Item::as_integer) == Some(ours) {
            file.restore(path)?;
        }
    }
    // Tables that were made for this.
    for name in ["context_engine", "compaction", "tool_results"] {
        let is_ours = file.before.get(name).is_some_and(String::is_empty);
        let is_empty = file.document.get(name).and_then(Item::as_table_like).is_some_and(TableLike::is_empty);
        if is_ours && is_empty {
            file.document.remove(name);
        }
    }
    file.finish(text)
}

/// How `config.toml` stands to lcm: each part, whether it is in order, and whether lcm does without it.
pub(super) fn look(text: &str, place: Place<'_>) -> Result<Vec<(bool, bool, String)>, Refused> {
    let mut none = Before::new();
    let file = Config::parse(text, &mut none)?;
    let mut found = Vec::new();
    let engine = file.text(ENGINE).unwrap_or(BUILT_IN);
    let stack = file.stack();
    let plugin = file.text(PLUGIN);
    found.push(match engine {
        SIDECAR_ENGINE => {
            let is_ours = file.is_our_sidecar();
            (
                is_ours,
                true,
                format!(
                    "context_engine.engine is sidecar{}",
                    if is_ours { ", and that is lcm" } else { ", and that is another program" }
                ),
            )
        }
        BUILT_IN | "" if stack.len() > 1 => match stack.iter().position(|name| name == NAME) {
            Some(0) => (true, true, "context_engine.plugin_stack begins with lcm".to_owned()),
            Some(_) => (
                false,
                true,
                "context_engine.plugin_stack does not begin with lcm, and only the first makes what a model is shown"
                    .to_owned(),
            ),
            None => (false, true, "context_engine.plugin_stack does not name lcm".to_owned()),
        },
        BUILT_IN | "" if plugin == Some(NAME) => (true, true, "context_engine.plugin is lcm".to_owned()),
        BUILT_IN | "" => (false, true, "context_engine.plugin is not lcm".to_owned()),
        other => (false, true, format!("context_engine.engine is {other}, which is used instead of every plugin")),
    });
    let mut again = Before::new();
    let mut with = Config::parse(text, &mut again)?;
    found.push(match with.server(place) {
        Ok(()) if with.said.is_empty() => (true, true, format!("{SERVERS} has lcm, so agents can have its tools")),
        Ok(()) => (false, true, format!("{SERVERS} does not have lcm as it is here")),
        Err(refused) => (false, true, refused.what),
    });
    for (path, ours, default) in RECOMMENDED {
        let name = path.join(".");
        let value = file.get(path).and_then(Item::as_integer).or(default);
        found.push(match value {
            Some(value) if value >= ours => (true, false, format!("{name} is {value}")),
            Some(value) => (false, false, format!("{name} is {value}, and lcm recommends {ours}")),
            None => (false, false, format!("{name} is not set, and lcm recommends {ours}")),
        });
    }
    Ok(found)
}

/// The address that the daemon listens on and the key of its API, as `config.toml` has them.
pub(super) fn api(text: &str) -> (Option<String>, Option<String>) {
    let settings = before(text);
    let get = |name: &str| settings.get(name).filter(|text| !text.is_empty()).cloned();
    (get("api_listen"), get("api_key"))
}

/// The program that a manifest of a plugin names for `assemble`.
pub(super) fn assembles(manifest: &str) -> Option<String> {
    match meaning(manifest)?.get("hooks")?.get("assemble")? {
        Plain::Text(path) => Some(path.clone()),
        _ => None,
    }
}

/// Gives an agent lcm's tools; `None` where it has them.
pub(super) fn install_agent(text: &str) -> Result<Option<String>, Refused> {
    let mut document = parse(text)?;
    if document.get(SERVERS).is_none() {
        document.insert(SERVERS, Item::Value(Array::new().into()));
    }
    let list = array(&mut document, SERVERS)?;
    if !has(list, NAME) && !has(list, "*") {
        add(list, list.len(), NAME);
    }
    if let Some(allowed) = document.get_mut("tool_allowlist").and_then(Item::as_array_mut)
        // An empty list allows everything.
        && !allowed.is_empty()
        && !has(allowed, "*")
    {
        for tool in TOOLS {
            if !has(allowed, tool) {
                add(allowed, allowed.len(), tool);
            }
        }
    }
    changed(text, &document)
}

/// Takes lcm's tools from an agent; `None` where it has none of them.
pub(super) fn uninstall_agent(text: &str) -> Result<Option<String>, Refused> {
    let mut document = parse(text)?;
    if document.get(SERVERS).is_some() {
        drop_from(array(&mut document, SERVERS)?, |name| name == NAME);
    }
    if let Some(allowed) = document.get_mut("tool_allowlist").and_then(Item::as_array_mut) {
        let is_all = allowed.iter().all(|tool| tool.as_str().is_some_and(|tool| TOOLS.contains(&tool)));
        // An empty list would allow everything.
        if !is_all {
            drop_from(allowed, |name| TOOLS.contains(&name));
        }
    }
    changed(text, &document)
}

fn changed(before: &str, document: &DocumentMut) -> Result<Option<String>, Refused> {
    let after = same_ends(before, document.to_string());
    if after == before {
        return Ok(None);
    }
    sure(before, &after, |table| {
        table.retain(|name, _| name != SERVERS && name != "tool_allowlist");
    })?;
    Ok(Some(after))
}

/// `config.toml` while it is edited.
struct Config<'a> {
    document: DocumentMut,
    before: &'a mut Before,
    said: Vec<String>,
}

impl<'a> Config<'a> {
    fn parse(text: &str, before: &'a mut Before) -> Result<Self, Refused> {
        Ok(Self { document: parse(text)?, before, said: Vec::new() })
    }

    fn get(&self, path: &[&str]) -> Option<&Item> {
        path.iter().try_fold(self.document.as_item(), |item, name| item.as_table_like()?.get(name))
    }

    fn text(&self, path: &[&str]) -> Option<&str> {
        self.get(path)?.as_str()
    }

    fn stack(&self) -> Vec<String> {
        let stack = self.get(STACK).and_then(Item::as_array);
        stack.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The table that a name stands in; made where there is none.
    fn table(&mut self, path: &[&str]) -> Result<&mut dyn TableLike, Refused> {
        let mut item = self.document.as_item_mut();
        for (depth, name) in path.iter().enumerate() {
            let is_new = item.as_table_like().is_some_and(|table| !table.contains_key(name));
            let table = item.as_table_like_mut().ok_or_else(|| not_a_table(&path[..depth]))?;
            if is_new {
                table.insert(name, Item::Table(Table::new()));
                self.before.entry(path[..=depth].join(".")).or_default();
            }
            item = table.get_mut(name).ok_or_else(|| not_a_table(&path[..=depth]))?;
        }
        item.as_table_like_mut().ok_or_else(|| not_a_table(path))
    }

    /// Sets a value, and remembers what it was.
    fn set(&mut self, path: &[&str], value: Value) -> Result<(), Refused> {
        let was = self.get(path).and_then(Item::as_value).map(bare);
        if was.as_deref() == Some(value.to_string().trim()) {
            return Ok(());
        }
        self.said.push(match &was {
            Some(was) => format!("{} is {value}; it was {was}", path.join(".")),
            None => format!("{} is {value}", path.join(".")),
        });
        self.before.entry(path.join(".")).or_insert(was.unwrap_or_default());
        self.put(path, value)
    }

    fn put(&mut self, path: &[&str], mut value: Value) -> Result<(), Refused> {
        let (name, above) = path.split_last().ok_or_else(|| not_a_table(path))?;
        let table = self.table(above)?;
        match table.get_mut(name).and_then(Item::as_value_mut) {
            Some(known) => {
                *value.decor_mut() = known.decor().clone();
                *known = value;
            }
            None => {
                table.insert(name, Item::Value(value));
            }
        }
        Ok(())
    }

    /// Makes a value what it was.
    fn restore(&mut self, path: &[&str]) -> Result<(), Refused> {
        let name = path.join(".");
        let was = self.before.get(&name).and_then(|was| was.parse::<Value>().ok());
        self.said.push(match &was {
            // A list may be written in many lines.
            Some(was) if was.is_array() => format!("{name} is what it was"),
            Some(was) => format!("{name} is {} again", was.to_string().trim()),
            None => format!("{name} is gone"),
        });
        match was {
            Some(was) => self.put(path, was),
            None => {
                self.remove(path);
                Ok(())
            }
        }
    }

    fn remove(&mut self, path: &[&str]) {
        if let Some((name, above)) = path.split_last()
            && let Some(table) = above
                .iter()
                .try_fold(self.document.as_item_mut(), |item, name| item.as_table_like_mut()?.get_mut(name))
                .and_then(Item::as_table_like_mut)
        {
            table.remove(name);
        }
    }

    fn plugin(&mut self) -> Result<(), Refused> {
        self.leave_sidecar()?;
        if let Some(engine) = self.text(ENGINE).filter(|engine| !["", BUILT_IN].contains(engine)) {
            let what =
                format!("names the engine {engine:?} (context_engine.engine), which is used instead of every plugin");
            return Err(Refused::new(what, "take that line out, then install again"));
        }
        // The host takes a stack from two on; only the first of it makes what a model is shown.
        let stack = self.stack();
        if stack.len() > 1 || stack.first().is_some_and(|name| name == NAME) {
            if stack.first().is_some_and(|name| name == NAME) {
                return Ok(());
            }
            let was = self.get(STACK).and_then(Item::as_value).map(bare).unwrap_or_default();
            self.before.entry(STACK.join(".")).or_insert(was);
            let table = self.table(&STACK[..1])?;
            let stack = table.get_mut(STACK[1]).and_then(Item::as_array_mut).ok_or_else(|| not_a_list(STACK[1]))?;
            drop_from(stack, |name| name == NAME);
            add(stack, 0, NAME);
            self.said.push(
                "context_engine.plugin_stack begins with lcm, since only its first makes what a model is shown"
                    .to_owned(),
            );
            return Ok(());
        }
        self.set(PLUGIN, NAME.into())
    }

    fn leave_plugin(&mut self) -> Result<(), Refused> {
        if self.text(PLUGIN) == Some(NAME) {
            self.restore(PLUGIN)?;
        }
        if !self.stack().iter().any(|name| name == NAME) {
            return Ok(());
        }
        let rest: Vec<String> = self.stack().into_iter().filter(|name| name != NAME).collect();
        let was = self.before.get(&STACK.join(".")).and_then(|was| was.parse::<Value>().ok());
        let names = |value: &Value| -> Vec<String> {
            let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.filter(|name| *name != NAME).map(str::to_owned).collect()
        };
        if was.as_ref().is_some_and(|was| names(was) == rest) {
            return self.restore(STACK);
        }
        // Somebody changed it since.
        let table = self.table(&STACK[..1])?;
        if let Some(stack) = table.get_mut(STACK[1]).and_then(Item::as_array_mut) {
            drop_from(stack, |name| name == NAME);
        }
        self.said.push("context_engine.plugin_stack names lcm no longer".to_owned());
        Ok(())
    }

    fn is_our_sidecar(&self) -> bool {
        let command = self.get(SIDECAR).and_then(|table| table.as_table_like()?.get("command")?.as_str());
        self.text(ENGINE) == Some(SIDECAR_ENGINE) && command.is_some_and(is_our_program)
    }

    fn sidecar(&mut self, place: Place<'_>) -> Result<(), Refused> {
        let engine = self.text(ENGINE).unwrap_or(BUILT_IN).to_owned();
        if !["", BUILT_IN].contains(&engine.as_str()) && !self.is_our_sidecar() {
            let what = format!("names the engine {engine:?} (context_engine.engine)");
            return Err(Refused::new(what, "take that line out, then install again"));
        }
        self.leave_plugin()?;
        self.set(ENGINE, SIDECAR_ENGINE.into())?;
        let args: Array = ["--home", place.data, "sidecar"].into_iter().collect();
        self.set(&["context_engine", "sidecar", "command"], place.program.into())?;
        self.set(&["context_engine", "sidecar", "args"], args.into())
    }

    fn leave_sidecar(&mut self) -> Result<(), Refused> {
        if !self.is_our_sidecar() {
            return Ok(());
        }
        self.remove(SIDECAR);
        self.restore(ENGINE)
    }

    /// The entry among the MCP servers.
    fn server(&mut self, place: Place<'_>) -> Result<(), Refused> {
        let variable = format!("LCM_HOME={}", place.data);
        let is_there = self.document.contains_key(SERVERS);
        // An empty list in one line is none.
        if !is_there || self.document.get(SERVERS).and_then(Item::as_array).is_some_and(Array::is_empty) {
            self.before.entry(SERVERS.to_owned()).or_insert(if is_there { "[]".to_owned() } else { String::new() });
            self.document.remove(SERVERS);
            self.document.insert(SERVERS, Item::ArrayOfTables(ArrayOfTables::new()));
        }
        let servers = self.document.get_mut(SERVERS).ok_or_else(|| not_a_list(SERVERS))?;
        let entry: Option<&mut dyn TableLike> = match servers {
            Item::ArrayOfTables(list) => {
                list.iter_mut().map(|table| table as &mut dyn TableLike).find(|table| is_named(*table))
            }
            Item::Value(Value::Array(list)) => list
                .iter_mut()
                .filter_map(Value::as_inline_table_mut)
                .map(|table| table as &mut dyn TableLike)
                .find(|table| is_named(*table)),
            _ => return Err(not_a_list(SERVERS)),
        };
        let Some(entry) = entry else {
            let mut table = Table::new();
            fill(&mut table, place, &variable);
            match servers {
                Item::ArrayOfTables(list) => list.push(table),
                Item::Value(Value::Array(list)) => list.push(table.into_inline_table()),
                _ => return Err(not_a_list(SERVERS)),
            }
            self.said.push(format!("{SERVERS} has lcm: {} mcp", place.program));
            return Ok(());
        };
        let command = entry.get("transport").and_then(|item| item.as_table_like()?.get("command")?.as_str());
        if !command.is_some_and(is_our_program) {
            let what = "has an MCP server named lcm that is another program";
            return Err(Refused::new(what, "give that one another name, then install again"));
        }
        if bring_up_to_date(entry, place, &variable) {
            self.said.push(format!("{SERVERS} has lcm as it is now: {} mcp", place.program));
        }
        Ok(())
    }

    /// Takes the entry out; whether there was one.
    fn servers_drop(&mut self) -> bool {
        let count = |item: Option<&Item>| match item {
            Some(Item::ArrayOfTables(list)) => list.len(),
            Some(Item::Value(Value::Array(list))) => list.len(),
            _ => 0,
        };
        let had = count(self.document.get(SERVERS));
        match self.document.get_mut(SERVERS) {
            Some(Item::ArrayOfTables(list)) => list.retain(|table| !is_ours(table)),
            Some(Item::Value(Value::Array(list))) => {
                list.retain(|value| !value.as_inline_table().is_some_and(is_ours));
            }
            _ => {}
        }
        let has = count(self.document.get(SERVERS));
        if had > 0 && has == 0 {
            self.document.remove(SERVERS);
            if self.before.get(SERVERS).is_some_and(|was| was == "[]") {
                self.document.insert(SERVERS, Item::Value(Array::new().into()));
            }
        }
        had != has
    }

    fn finish(self, before: &str) -> Result<Edit, Refused> {
        let text = same_ends(before, self.document.to_string());
        // What only looks different stays as it was written.
        let text = if self.said.is_empty() { before.to_owned() } else { text };
        sure(before, &text, take_out)?;
        Ok(Edit { text, said: self.said })
    }
}

/// Whether an entry has our name.
fn is_named(entry: &(impl TableLike + ?Sized)) -> bool {
    entry.get("name").and_then(Item::as_str) == Some(NAME)
}

/// Whether an entry is ours.
fn is_ours(entry: &(impl TableLike + ?Sized)) -> bool {
    let command = entry.get("transport").and_then(|item| item.as_table_like()?.get("command")?.as_str());
    is_named(entry) && command.is_some_and(is_our_program)
}

/// Whether a command is a program of ours, wherever it lies.
fn is_our_program(command: &str) -> bool {
    std::path::Path::new(command).file_name().is_some_and(|name| name == "lcm-cli")
}

fn fill(table: &mut Table, place: Place<'_>, variable: &str) {
    table.insert("name", Item::Value(NAME.into()));
    table.insert("timeout_secs", Item::Value(TOOL_SECS.into()));
    table.insert("env", Item::Value([variable].into_iter().collect::<Array>().into()));
    // Else no search for an address, a number or an id of a message gets through.
    table.insert("taint_scanning", Item::Value(false.into()));
    let mut transport = InlineTable::new();
    transport.insert("type", "stdio".into());
    transport.insert("command", place.program.into());
    transport.insert("args", ["mcp"].into_iter().collect::<Array>().into());
    table.insert("transport", Item::Value(transport.into()));
}

/// Gives an entry of ours what it has to have; whether that changed it. The rest is its owner's.
fn bring_up_to_date(entry: &mut dyn TableLike, place: Place<'_>, variable: &str) -> bool {
    let mut is_changed = false;
    let mut put = |table: &mut dyn TableLike, name: &str, value: Value| {
        let known = table.get_mut(name).and_then(Item::as_value_mut);
        let is_same = known.as_ref().is_some_and(|known| plain(known) == plain(&value));
        if is_same {
            return;
        }
        is_changed = true;
        match known {
            Some(known) => *known = value,
            None => {
                table.insert(name, Item::Value(value));
            }
        }
    };
    if entry.get("timeout_secs").is_none() {
        put(entry, "timeout_secs", TOOL_SECS.into());
    }
    put(entry, "taint_scanning", false.into());
    let known = entry.get("env").and_then(Item::as_array).cloned().unwrap_or_default();
    let others = known.iter().filter_map(Value::as_str).filter(|known| !known.starts_with("LCM_HOME"));
    let mut env: Vec<&str> = others.collect();
    // Where it stood.
    let at = known.iter().position(|known| known.as_str().is_some_and(|known| known.starts_with("LCM_HOME")));
    env.insert(at.unwrap_or(env.len()).min(env.len()), variable);
    put(entry, "env", env.into_iter().collect::<Array>().into());
    if let Some(transport) = entry.get_mut("transport").and_then(Item::as_table_like_mut) {
        put(transport, "type", "stdio".into());
        put(transport, "command", place.program.into());
        put(transport, "args", ["mcp"].into_iter().collect::<Array>().into());
    }
    is_changed
}

/// A value as it is written, without what stands around it.
fn bare(value: &Value) -> String {
    value.clone().decorated("", "").to_string()
}

/// A value however it is written.
fn plain(value: &Value) -> String {
    match value {
        Value::Array(list) => list.iter().map(|value| plain(value) + ",").collect(),
        Value::String(text) => format!("{:?}", text.value()),
        value => value.clone().decorated("", "").to_string(),
    }
}

fn parse(text: &str) -> Result<DocumentMut, Refused> {
    text.parse::<DocumentMut>().map_err(|error| {
        let line = error.span().map_or(1, |span| text.get(..span.start).unwrap_or_default().matches('\n').count() + 1);
        let why = error.message().lines().next().unwrap_or_default().to_owned();
        Refused::new(format!("is no TOML (line {line}: {why})"), "put it right, then try again")
    })
}

fn array<'a>(document: &'a mut DocumentMut, name: &str) -> Result<&'a mut Array, Refused> {
    document.get_mut(name).and_then(Item::as_array_mut).ok_or_else(|| not_a_list(name))
}

fn not_a_table(path: &[&str]) -> Refused {
    Refused::new(
        format!("has {} in a way that is not changed here", path.join(".")),
        "write it as a table, then try again",
    )
}

fn not_a_list(name: &str) -> Refused {
    Refused::new(format!("has {name} in a way that is not changed here"), "write it as a list, then try again")
}

fn has(list: &Array, name: &str) -> bool {
    list.iter().any(|value| value.as_str() == Some(name))
}

/// Adds a text to a list, written as its neighbours are.
fn add(list: &mut Array, at: usize, text: &str) {
    let near = list.get(if at < list.len() { at } else { at.saturating_sub(1) }).map(prefix);
    // Of what stands before a neighbour, only where it is; not what is said about it.
    let own_line = near.as_deref().and_then(|near| near.rfind('\n').map(|newline| near[newline..].to_owned()));
    // What is said behind the last one stays behind it.
    let trailing = list.trailing().as_str().unwrap_or_default().to_owned();
    let (said, rest) = match trailing.find('\n') {
        Some(newline) if at == list.len() && own_line.is_some() => trailing.split_at(newline),
        _ => ("", trailing.as_str()),
    };
    list.insert(at, text);
    let mut write = |at: usize, prefix: &str| {
        if let Some(value) = list.get_mut(at) {
            value.decor_mut().set_prefix(prefix);
        }
    };
    match own_line {
        Some(line) => write(at, &format!("{said}{line}")),
        None => {
            write(at, if at == 0 { "" } else { " " });
            if at == 0 && near.is_some() {
                write(1, " ");
            }
        }
    }
    list.set_trailing(rest);
}

/// Takes texts out of a list. What is said before one of them stays, and the next one begins where it stood.
fn drop_from(list: &mut Array, is_dropped: impl Fn(&str) -> bool) {
    let is_dropped = |value: &Value| value.as_str().is_some_and(&is_dropped);
    let (mut said, mut first) = (String::new(), None);
    for at in 0..list.len() {
        let Some(value) = list.get_mut(at) else { continue };
        let before = prefix(value);
        if is_dropped(value) {
            let (comment, _) = before.split_at(before.rfind('\n').unwrap_or(0));
            said.push_str(comment);
            if at == 0 {
                first = Some(before);
            }
        } else if let Some(first) = first.take() {
            value.decor_mut().set_prefix(first);
            said.clear();
        } else if !said.is_empty() {
            value.decor_mut().set_prefix(std::mem::take(&mut said) + &before);
        }
    }
    list.retain(|value| !is_dropped(value));
    let trailing = list.trailing().as_str().unwrap_or_default().to_owned();
    list.set_trailing(said + &trailing);
}

/// What stands before a value: room, and what is said about it.
fn prefix(value: &Value) -> String {
    value.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned()
}

/// Lines end as they did: the crate writes all of them as `\n`.
fn same_ends(before: &str, after: String) -> String {
    let lines = before.matches('\n').count();
    if lines > 0 && before.matches("\r\n").count() == lines {
        after.replace("\r\n", "\n").replace('\n', "\r\n")
    } else {
        after
    }
}

/// What a text of TOML means, however it is written.
#[derive(Debug, PartialEq, Eq)]
enum Plain {
    Text(String),
    /// A number, a truth value or a time, as it is written.
    Other(String),
    List(Vec<Self>),
    Table(BTreeMap<String, Self>),
}

impl Plain {
    fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Table(table) => table.get(name),
            _ => None,
        }
    }
}

/// Reads a text by another parser than the one that edits; `None` where it is no TOML.
fn meaning(text: &str) -> Option<Plain> {
    let (table, errors) = DeTable::parse_recoverable(text);
    errors.is_empty().then(|| Plain::Table(table_of(table.get_ref())))
}

fn table_of(table: &DeTable<'_>) -> BTreeMap<String, Plain> {
    table.iter().map(|(name, value)| (name.get_ref().to_string(), value_of(value.get_ref()))).collect()
}

fn value_of(value: &DeValue<'_>) -> Plain {
    match value {
        DeValue::String(text) => Plain::Text(text.to_string()),
        DeValue::Array(list) => Plain::List(list.iter().map(|value| value_of(value.get_ref())).collect()),
        DeValue::Table(table) => Plain::Table(table_of(table)),
        other => Plain::Other(format!("{other:?}")),
    }
}

/// Takes out of settings what lcm may change.
fn take_out(table: &mut BTreeMap<String, Plain>) {
    let ours = [PLUGIN, STACK, ENGINE, SIDECAR].into_iter().chain(RECOMMENDED.map(|(path, _, _)| path));
    for path in ours {
        match path {
            [name] => drop(table.remove(*name)),
            [above, name] => {
                if let Some(Plain::Table(inner)) = table.get_mut(*above) {
                    inner.remove(*name);
                    if inner.is_empty() {
                        table.remove(*above);
                    }
                }
            }
            _ => {}
        }
    }
    if let Some(Plain::List(list)) = table.get_mut(SERVERS) {
        list.retain(|entry| entry.get("name") != Some(&Plain::Text(NAME.to_owned())));
        if list.is_empty() {
            table.remove(SERVERS);
        }
    }
}

/// Whether two texts mean the same but for what `take_out` takes out.
fn sure(before: &str, after: &str, take_out: impl Fn(&mut BTreeMap<String, Plain>)) -> Result<(), Refused> {
    let rest = |text: &str| match meaning(text)? {
        Plain::Table(mut table) => {
            take_out(&mut table);
            Some(table)
        }
        _ => None,
    };
    match (rest(before), rest(after)) {
        (Some(before), Some(after)) if before == after => Ok(()),
        _ => Err(Refused::new(
            "is written in a way that is not changed here",
            "make the changes that docs/hosts.md lists yourself",
        )),
    }
}
