//! Settings: what may be set, and where each value comes from.
//!
//! Five layers, the later wins: the built-in default, `config.toml` in the data directory, the host that is served, the
//! environment, the command line. A wrong value is an error that names it and what would be right; a name that nobody knows is told
//! with the nearest that somebody does. Nothing here panics, whatever stands in a file or a variable.
//!
//! Modules in reading order: `value` reads one value, `table` lists the settings, `file` takes `config.toml` apart,
//! `options` makes of settings what the engine and the model's client take.

mod value;
mod table;
mod file;
mod options;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use lcm_core::{Json, JsonString};

use self::file::Written;
pub(crate) use self::options::Spending;
pub(crate) use self::table::Setting;
use self::table::{FOREIGN_VARIABLES, OTHER_VARIABLES, TABLE};
pub(crate) use self::value::{Kind, Secret, Value};
use crate::error::CliError;
use crate::paths::Env;
use crate::ui::{self, Ui};

/// Columns of a wrong value that are shown.
const QUOTED_COLUMNS_MAX: usize = 60;

/// What the command line sets. For every command that goes by settings.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct SettingArgs {
    /// Set a setting for this run only (can be repeated); `lcm-cli config show` lists them
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    /// A line of the settings file.
    File(PathBuf, usize),
    /// The host that we serve.
    Host,
    /// A variable of the environment.
    Variable(String),
    /// An option of the command.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Host => f.write_str("the host"),
            Self::Variable(name) => f.write_str(name),
            Self::Flag(name) => f.write_str(name),
        }
    }
}

/// A setting and what it is.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) setting: &'static Setting,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// All settings.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    home: PathBuf,
    /// In the order of the table, every one of it.
    all: Vec<Set>,
}

/// Settings as they were found, and what was found beside them.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where a value was wrong, the layer below holds.
    pub(crate) settings: Settings,
    /// Wrong values: nobody may go on with these settings.
    pub(crate) problems: Vec<String>,
    /// Names that nobody knows.
    pub(crate) warnings: Vec<String>,
    /// Variables of other engines that mean nothing here.
    pub(crate) foreign: Vec<String>,
}

/// What settings are read from.
pub(crate) struct Layers<'a> {
    pub(crate) home: &'a Path,
    pub(crate) env: &'a Env<'a>,
    /// The names of the variables there are.
    pub(crate) variables: &'a [OsString],
}

impl Layers<'_> {
    /// Reads all layers.
    pub(crate) fn find(&self, args: &SettingArgs) -> Found {
        let all = TABLE.iter().map(|setting| Set {
            setting,
            value: setting.kind.read(setting.default).expect("defaults are legal: tested where they stand"),
            origin: Origin::Default,
        });
        let settings = Settings { home: self.home.to_owned(), all: all.collect() };
        let mut found = Found { settings, problems: Vec::new(), warnings: Vec::new(), foreign: Vec::new() };
        found.take_file(&self.home.join(file::NAME));
        found.take_variables(self.env, self.variables);
        for text in &args.set {
            found.take_flag(text);
        }
        found
    }

    /// The settings, for a command that goes by them; what is odd about them is told.
    ///
    /// # Errors
    /// When a value is wrong.
    pub(crate) fn settings(&self, args: &SettingArgs, ui: &mut Ui) -> Result<Settings, CliError> {
        let found = self.find(args);
        for warning in &found.warnings {
            ui.note(warning);
        }
        if found.problems.is_empty() { Ok(found.settings) } else { Err(CliError::Settings(found.problems)) }
    }
}

impl Found {
    /// What is to be told beside wrong values, each a sentence: unknown names, what may not be meant, and variables of
    /// other engines.
    pub(crate) fn notes(&self) -> Vec<String> {
        let foreign = |name: &String| format!("{name} is a setting of another engine and means nothing here");
        let foreign = self.foreign.iter().map(foreign);
        self.warnings.iter().cloned().chain(self.settings.cautions()).chain(foreign).collect()
    }

    fn take_file(&mut self, path: &Path) {
        let text = match file::read(path) {
            Ok(None) => return,
            Ok(Some(text)) => text,
            Err(error) => {
                self.problems.push(format!("{} cannot be read: {error}", path.display()));
                return;
            }
        };
        let content = file::parse(&text);
        for (line, why) in content.faults {
            self.problems.push(format!("{}:{line} is no TOML: {why}", path.display()));
        }
        for file::Entry { name, line, written } in content.entries {
            let origin = Origin::File(path.to_owned(), line);
            let Some(place) = self.settings.place(&name) else {
                self.warnings.push(unknown(
                    &format!("{origin}: there is no setting {}", quoted(&name)),
                    &name,
                    names(),
                ));
                continue;
            };
            let setting = self.settings.all[place].setting;
            let value = match (setting.kind, written) {
                (Kind::Secret, _) => {
                    let why = format!(
                        "a key does not belong into this file; set {}, or name a file in summary.key_file",
                        setting.variable()
                    );
                    self.problems.push(format!("{origin}: {}: {why}", setting.name));
                    continue;
                }
                (_, Written::One(text)) => self.read(setting, &origin, &text),
                (Kind::List, Written::List(parts)) => match Kind::list(parts) {
                    Ok(value) => Some(value),
                    Err(right) => self.wrong(setting, &origin, "a list", &right),
                },
                (_, Written::List(_)) => self.wrong(setting, &origin, "a list", "a single value"),
                (_, Written::Other(what)) => self.wrong(setting, &origin, what, "a single value"),
            };
            self.put(place, value, origin);
        }
    }

    fn take_variables(&mut self, env: &Env<'_>, variables: &[OsString]) {
        for place in 0..self.settings.all.len() {
            let setting = self.settings.all[place].setting;
            // A variable that is set to nothing is as good as not set.
            let mut given = setting.variables().into_iter().filter_map(|name| {
                let value = env(&name).filter(|value| !value.is_empty())?;
                Some((name, value))
            });
            let Some((name, value)) = given.next() else { continue };
            let origin = Origin::Variable(name);
            let value = match value.into_string() {
                Ok(text) => self.read(setting, &origin, &text),
                Err(_) => self.wrong(setting, &origin, "no UTF-8", "a text in UTF-8"),
            };
            self.put(place, value, origin);
        }
        let known: Vec<String> = TABLE.iter().flat_map(Setting::variables).collect();
        let mut others: Vec<&str> = variables.iter().filter_map(|name| name.to_str()).collect();
        others.sort_unstable();
        for name in others.into_iter().filter(|name| name.starts_with("LCM_")) {
            if known.iter().any(|known| known == name) || OTHER_VARIABLES.contains(&name) {
                continue;
            }
            if FOREIGN_VARIABLES.iter().any(|begin| name.starts_with(begin)) {
                self.foreign.push(name.to_owned());
            } else {
                let known = known.iter().map(String::as_str).chain(OTHER_VARIABLES.iter().copied());
                self.warnings.push(unknown(&format!("the variable {} sets nothing", quoted(name)), name, known));
            }
        }
    }

    fn take_flag(&mut self, text: &str) {
        const FLAG: &str = "--set";
        let Some((name, value)) = text.split_once('=') else {
            self.problems.push(format!("{FLAG} {}: a name, = and a value are needed", quoted(text)));
            return;
        };
        let Some(place) = self.settings.place(name.trim()) else {
            self.problems.push(unknown(&format!("{FLAG}: there is no setting {}", quoted(name)), name, names()));
            return;
        };
        let setting = self.settings.all[place].setting;
        if setting.kind == Kind::Secret {
            let why = format!("arguments can be seen by others; set {} instead", setting.variable());
            self.problems.push(format!("{FLAG} {}: {why}", setting.name));
            return;
        }
        let value = self.read(setting, &Origin::Flag(FLAG), value);
        self.put(place, value, Origin::Flag(FLAG));
    }

    fn read(&mut self, setting: &Setting, origin: &Origin, text: &str) -> Option<Value> {
        match setting.kind.read(text) {
            Ok(value) => Some(value),
            Err(right) if setting.kind.may_be_quoted() => self.wrong(setting, origin, &quoted(text), &right),
            Err(right) => self.wrong(setting, origin, "something else", &right),
        }
    }

    /// Tells of a wrong value.
    fn wrong(&mut self, setting: &Setting, origin: &Origin, what: &str, right: &str) -> Option<Value> {
        self.problems.push(format!("{origin}: {} must be {right}, and is {what}", setting.name));
        None
    }

    fn put(&mut self, place: usize, value: Option<Value>, origin: Origin) {
        if let Some(value) = value {
            let set = &mut self.settings.all[place];
            (set.value, set.origin) = (value, origin);
        }
    }
}

impl Settings {
    /// All of them, in the order of the table.
    pub(crate) fn all(&self) -> &[Set] {
        &self.all
    }

    /// Takes what a host sets: it holds over the file, not over the environment or the command line. Gives what is wrong or
    /// unknown among it, each a sentence; that is passed over.
    pub(crate) fn take_host(&mut self, said: Vec<(JsonString, Json)>) -> Vec<String> {
        let mut notes = Vec::new();
        let mut open: Vec<(String, Json)> =
            said.into_iter().map(|(name, value)| (name.to_str_lossy().into_owned(), value)).collect();
        open.reverse();
        while let Some((name, value)) = open.pop() {
            // A section may be an object, as it is a table in the file.
            if let Json::Object(inner) = value {
                let inner = inner.into_iter().rev();
                // One level is all there is.
                if name.contains('.') {
                    notes.push(format!("the host sets {}, which is no setting", quoted(&name)));
                    continue;
                }
                open.extend(inner.map(|(key, value)| (format!("{name}.{}", key.to_str_lossy()), value)));
                continue;
            }
            let Some(place) = self.place(&name) else {
                notes.push(unknown(&format!("the host sets {}, which is no setting", quoted(&name)), &name, names()));
                continue;
            };
            let setting = self.all[place].setting;
            let read = match (setting.kind, &value) {
                (Kind::Secret, _) => Err(format!("set in {}, where others do not see it", setting.variable())),
                (_, Json::String(text)) => setting.kind.read(&text.to_str_lossy()),
                (_, Json::Number(literal)) => setting.kind.read(literal),
                (_, Json::Bool(flag)) => setting.kind.read(if *flag { "true" } else { "false" }),
                (Kind::List, Json::Array(parts)) => {
                    let parts: Option<Vec<String>> =
                        parts.iter().map(|part| part.as_str().map(str::to_owned)).collect();
                    parts.ok_or_else(|| "a list of texts".to_owned()).and_then(Kind::list)
                }
                _ => Err("a single value".to_owned()),
            };
            match read {
                Err(right) => notes.push(format!("the host sets {name}, which must be {right}")),
                Ok(value) => {
                    let set = &mut self.all[place];
                    if matches!(set.origin, Origin::Default | Origin::File(..) | Origin::Host) {
                        (set.value, set.origin) = (value, Origin::Host);
                    }
                }
            }
        }
        notes
    }

    fn place(&self, name: &str) -> Option<usize> {
        self.all.iter().position(|set| set.setting.name == name)
    }

    fn value(&self, name: &str) -> &Value {
        let place = self.place(name).expect("the name stands in the table: every caller is tested with the defaults");
        &self.all[place].value
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Number(number) | Value::Ratio(number) => *number,
            other => unreachable!("{name} is no number but {other}"),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        *self.value(name) == Value::Flag(true)
    }

    fn list(&self, name: &str) -> &[String] {
        match self.value(name) {
            Value::List(list) => list,
            other => unreachable!("{name} is no list but {other}"),
        }
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Value::Text(text) => text,
            other => unreachable!("{name} is no text but {other}"),
        }
    }
}

/// A text that somebody gave, short and in quotation marks.
fn quoted(text: &str) -> String {
    format!("{:?}", ui::shorten(text, QUOTED_COLUMNS_MAX))
}

fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|setting| setting.name)
}

/// A sentence about an unknown name, with the nearest that is known.
fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    match nearest(name, known) {
        Some(near) => format!("{what}; did you mean {near}?"),
        None => format!("{what}; `lcm-cli config show` lists all of them"),
    }
}

/// The known name that looks most like this one, if any does.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A name nobody wrote by mistake is like no other, and comparing it would take long.
    if name.len() > 100 {
        return None;
    }
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let far = name.chars().count() / 3;
    known
        .map(|known| {
            // The right name in the wrong section is near too, and so is the beginning of one.
            let is_moved = last(known) == last(name) && known.contains('.');
            let is_begun = name.len() > 5 && known.starts_with(name) && !last(name).is_empty();
            (if is_moved || is_begun { 1 } else { distance(name, known) }, known)
        })
        .filter(|(distance, _)| *distance <= far.max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Characters that must be put in, left out or changed to make one text of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests;
