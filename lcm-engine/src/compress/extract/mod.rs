//! A summary without a model: the sentences and facts that a later reader asks for, the same every time.
//!
//! A request and what came of it, rules and decisions, what is left to do, files read and changed, commands and how
//! they ended, errors, ids, names and numbers. Every piece is taken from the text, shortened, never reworded. Pieces are
//! scored, the best that fit the budget are kept, in the order in which they were said. Files are always named,
//! whoever named them first. A command that failed or was stopped is told as that, and what it printed is no result.
//!
//! Pure. A summary of summaries is made of their lines in the same way: each begins with the word that says its kind.
//! In reading order: `lines` cuts texts, `signs` and `names` say what is in them, `ending` how a call ended, `files`
//! lists files, `pile` keeps the best; what a message says is read here.

mod lines;
mod signs;
mod names;
mod ending;
mod files;
mod pile;

use std::collections::HashSet;

use lcm_core::Role;
use lcm_core::tokens::TokenCounter;

use self::ending::Ending;
use self::files::Touch;
use self::lines::{Unit, shortened};
use self::pile::{Pile, SAID_BY_A_PERSON};
use self::signs::{Signs, is_filler, is_imperative};
use crate::hosts::told::{Called, Told};

/// The version of what is written here; kept with each summary.
pub(crate) const EXTRACT_VERSION: u32 = 4;

/// Characters of one line of a summary of messages.
const LINE_CHARS_MAX: usize = 280;
/// Characters of a reply that only takes note of what was said.
const REPLY_CHARS_MAX: usize = 160;
/// Units of one message from a person up to which each of them may be what is asked.
const UNITS_OF_A_REQUEST: usize = 12;
/// Bytes of a result that is an answer by itself.
const SHORT_RESULT_BYTES: usize = 160;
/// Bytes of a value that is passed to a call and may be a name.
const VALUE_BYTES_MAX: usize = 200;

/// Behind a request whose answer is not among what is summarised.
const LEFT_OPEN: &str = " (left open here)";
/// How much more what has a label is worth: who puts one wants it kept.
const LABEL_BONUS: i64 = 80;
/// Errors of one command that are told by themselves.
const ERRORS_OF_A_COMMAND: usize = 2;

/// A message to be summarised.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) role: Role,
    pub(crate) told: Told,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extract {
    pub(crate) text: String,
    /// Files and ids it speaks of: files first, then ids, each in order of first mention.
    pub(crate) mentions: Vec<String>,
}

/// The word before a line, which says what kind of line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Asked,
    Rule,
    Decided,
    Plan,
    Open,
    Ran,
    Error,
    Answer,
    Fact,
    Changed,
    Read,
    Files,
    Names,
    Other,
}

impl Kind {
    const ALL: [(Self, &'static str); 13] = [
        (Self::Asked, "asked: "),
        (Self::Rule, "rule: "),
        (Self::Decided, "decided: "),
        (Self::Plan, "plan: "),
        (Self::Open, "open: "),
        (Self::Ran, "ran: "),
        (Self::Error, "error: "),
        (Self::Answer, "answer: "),
        (Self::Fact, "fact: "),
        (Self::Changed, "changed: "),
        (Self::Read, "read: "),
        (Self::Files, "files: "),
        (Self::Names, "names: "),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }

    fn of_line(line: &str) -> (Self, &str) {
        let found = Self::ALL.iter().find_map(|(kind, word)| Some((*kind, line.strip_prefix(word)?)));
        found.unwrap_or((Self::Other, line))
    }

    fn of_touch(touch: Touch) -> Self {
        match touch {
            Touch::Changed => Self::Changed,
            Touch::Read => Self::Read,
            Touch::Named | Touch::Printed => Self::Files,
        }
    }

    /// How much a reader wants it.
    fn worth(self) -> i64 {
        match self {
            Self::Rule => 900,
            Self::Asked => 800,
            Self::Decided => 760,
            Self::Open => 720,
            Self::Plan => 700,
            Self::Error => 620,
            Self::Ran | Self::Fact => 560,
            Self::Answer => 500,
            Self::Other => 400,
            Self::Changed | Self::Read | Self::Files | Self::Names => 0,
        }
    }

    /// Characters of one line, in a summary of what has this depth: fewer the deeper, so that a summary of summaries is
    /// no copy of them. A rule that is cut in the middle is none.
    fn chars_max(self, depth: usize) -> usize {
        let at_depth = |first: usize, least: usize| first.saturating_sub(20 * (depth - 1)).max(least);
        match (self, depth) {
            (Self::Rule | Self::Decided | Self::Plan, _) | (_, 0) => LINE_CHARS_MAX,
            (Self::Asked | Self::Open | Self::Ran, _) => at_depth(180, 100),
            _ => at_depth(150, 80),
        }
    }

    /// Whether a later line of it can give another value to the same thing.
    fn is_statement(self) -> bool {
        matches!(self, Self::Rule | Self::Decided | Self::Open | Self::Fact | Self::Answer | Self::Other)
    }

    /// Whether it is left out when others have said the same in other words.
    fn may_be_known(self) -> bool {
        matches!(self, Self::Open | Self::Error | Self::Fact | Self::Answer | Self::Other)
    }
}

/// What a text names, each once: files first, then addresses, each in order of mention. Of a long text its ends are read.
pub(crate) fn named(text: &str) -> Vec<&str> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for part in lines::ends(text) {
        names::files(part, |file| found.extend(seen.insert(file).then_some(file)));
    }
    for part in lines::ends(text) {
        names::addresses(part, |address| found.extend(seen.insert(address).then_some(address)));
    }
    found
}

/// The files that a text names, each once, in order of mention. Of a long text its ends are read.
pub(crate) fn files(text: &str) -> Vec<&str> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    for part in lines::ends(text) {
        names::files(part, |file| found.extend(seen.insert(file).then_some(file)));
    }
    found
}

/// Summarises messages.
pub(crate) fn extract(sources: &[Source], budget: u64, counter: &dyn TokenCounter) -> Extract {
    let mut reader = Reader { sources, pile: Pile::default(), told: HashSet::new() };
    for at in 0..sources.len() {
        reader.message(at);
    }
    reader.pile.write(budget, counter)
}

/// What messages name, without a summary of them: what [`Extract::mentions`] would be, but that a value which was
/// replaced later is named too.
pub(crate) fn mentions(sources: &[Source]) -> Vec<String> {
    let mut reader = Reader { sources, pile: Pile::default(), told: HashSet::new() };
    for at in 0..sources.len() {
        reader.names_of(at);
    }
    reader.pile.mentions()
}

/// Summarises summaries of a depth. Lines begin with a dot for each depth above the first, and most are shorter: what
/// two summaries have in common is never more than a line.
pub(crate) fn condense(texts: &[&str], depth: u16, budget: u64, counter: &dyn TokenCounter) -> Extract {
    let mut pile = Pile::of_depth(depth);
    let lines =
        texts.iter().enumerate().flat_map(|(nth, text)| text.lines().map(move |line| (nth + 1 == texts.len(), line)));
    for (is_last, line) in lines {
        let (kind, text) = Kind::of_line(line.trim_start_matches(['·', ' ']).trim_end());
        // What comes behind has gone on with it.
        let text = if is_last { text } else { text.strip_suffix(LEFT_OPEN).unwrap_or(text) };
        let listed = |pile: &mut Pile, touch| files::unlisted(text).iter().for_each(|file| pile.files.add(file, touch));
        match kind {
            _ if text.is_empty() => {}
            Kind::Changed => listed(&mut pile, Touch::Changed),
            Kind::Read => listed(&mut pile, Touch::Read),
            Kind::Files => listed(&mut pile, Touch::Printed),
            Kind::Names => text.split(", ").for_each(|name| pile.name(name, SAID_BY_A_PERSON)),
            Kind::Plan => pile.plan(text),
            Kind::Ran => {
                pile.names_of(text, 1);
                pile.push_as(kind, text.split(" -> ").next().unwrap_or(text), text, 0);
            } // Of a model, or of nobody's kind, or with a label that says its kind.
            Kind::Other => {
                let bonus = pile.names_of(text, 1);
                let (kind, judged) = match label_kind(text) {
                    Some(kind) => (kind, LABEL_BONUS),
                    None => said_by_agent(text, Kind::Answer),
                };
                pile.push(kind, text, bonus + judged);
            }
            _ => {
                let bonus = pile.names_of(text, 1);
                pile.push(kind, text, bonus);
            }
        }
    }
    pile.write(budget, counter)
}

/// Reads messages into a pile.
struct Reader<'s> {
    sources: &'s [Source],
    pile: Pile,
    /// Results that were told with their calls: message, and position in it.
    told: HashSet<(usize, usize)>,
}

impl<'s> Reader<'s> {
    fn message(&mut self, at: usize) {
        let source = &self.sources[at];
        let told = &source.told;
        match source.role {
            Role::User => self.request(at),
            Role::System | Role::Developer => self.prose(&told.text, |text| {
                let (kind, bonus) = said_by_person(text, false, false);
                (if kind == Kind::Fact { Kind::Rule } else { kind }, bonus - 100)
            }),
            _ => {
                let plain = if told.calls.is_empty() { Kind::Answer } else { Kind::Other };
                self.prose(&told.text, |text| said_by_agent(text, plain));
            }
        }
        for (nth, call) in told.calls.iter().enumerate() {
            let result = self.result_of(at, nth);
            self.call(call, result);
        }
        for (nth, result) in told.results.iter().enumerate() {
            self.printed(result);
            if !self.told.contains(&(at, nth)) {
                self.result(result, told.failed.contains(&nth));
            }
        }
    }

    /// What a message names, and nothing else of it.
    fn names_of(&mut self, at: usize) {
        let told = &self.sources[at].told;
        for unit in lines::units(&told.text) {
            self.pile.names_of(unit.text(), SAID_BY_A_PERSON);
        }
        self.code_files(&told.text);
        for (nth, call) in told.calls.iter().enumerate() {
            self.result_of(at, nth);
            let name = call.name.to_lowercase();
            if is_plan(&name) {
                continue;
            }
            let Passed { command, paths, .. } = self.passed(call);
            let takes_files = takes_files(&name);
            for path in paths.into_iter().filter(|path| takes_files || names::file(path).is_some()) {
                self.pile.files.add(path, Touch::Read);
            }
            if let Some(command) = command {
                names::files(command, |file| self.pile.files.add(file, Touch::Named));
                self.pile.names_of(command, 1);
            }
        }
        for (nth, result) in told.results.iter().enumerate() {
            self.printed(result);
            if result.len() <= SHORT_RESULT_BYTES && !self.told.contains(&(at, nth)) {
                self.pile.names_of(result, 1);
            }
        }
    }

    /// What a tool printed, for the names in it.
    fn printed(&mut self, result: &str) {
        let front = lines::ends(result)[0];
        names::files(front, |file| self.pile.files.add(file, Touch::Printed));
        names::addresses(front, |address| self.pile.name(address, 1));
    }

    /// What a person says.
    fn request(&mut self, at: usize) {
        let text = self.sources[at].told.text.as_str();
        if is_interruption(text) {
            return;
        }
        let units = lines::units(text);
        let count = units.len();
        let is_worked_on = self.is_worked_on(at);
        let mut groups = self.grouped(&units, |text| said_by_person(text, is_worked_on, true));
        // Somebody who works was asked for something: for what was said first, if it is said nowhere.
        if is_worked_on
            && !groups.iter().any(|(_, kind, _)| *kind == Kind::Asked)
            && let Some((_, kind, _)) = groups.iter_mut().find(|(_, kind, _)| *kind == Kind::Fact)
        {
            *kind = Kind::Asked;
        }
        let mut state = Some(self.state_of(at));
        let last = groups.len();
        for (nth, (text, kind, bonus)) in groups.into_iter().enumerate() {
            // Of much that was pasted, what stands at its ends was meant.
            let is_pasted = count > UNITS_OF_A_REQUEST && nth > 0 && nth + 2 < last;
            let bonus = if is_pasted { bonus - 200 } else { bonus };
            match kind {
                Kind::Asked => {
                    let state = state.take().unwrap_or_default();
                    // "Go on" asks for nothing new.
                    let bonus = if text.chars().nth(14).is_none() && text.is_ascii() { bonus - 400 } else { bonus };
                    self.pile.push(kind, &format!("{}{state}", shortened(text, LINE_CHARS_MAX - 20)), bonus);
                }
                _ => {
                    let is_update = Signs::of(text).has(Signs::NOW | Signs::DECIDED | Signs::SCOPE);
                    self.pile.state(kind, text, bonus + 40, is_update);
                }
            }
        }
        self.code_files(text);
    }

    fn prose(&mut self, text: &str, judge: impl Fn(&str) -> (Kind, i64)) {
        let units = lines::units(text);
        for (nth, (text, kind, bonus)) in self.grouped(&units, judge).into_iter().enumerate() {
            // The longer somebody talks, the less each line of it says.
            let later = i64::try_from(nth.min(15)).unwrap_or(0) * 10;
            self.pile.push(kind, text, if nth == 0 { bonus + 30 } else { bonus - 40 - later });
        }
        self.code_files(text);
    }

    /// Files in what is no prose: code between fences.
    fn code_files(&mut self, text: &str) {
        if text.contains("```") || text.contains("~~~") {
            for part in lines::ends(text) {
                names::files(part, |file| self.pile.files.add(file, Touch::Named));
            }
        }
    }

    /// Units with their kinds; neighbours of one kind that stand in one line are one. Fillers are left out.
    fn grouped<'t>(&mut self, units: &[Unit<'t>], judge: impl Fn(&str) -> (Kind, i64)) -> Vec<(&'t str, Kind, i64)> {
        let mut groups: Vec<(Unit<'t>, Kind, i64)> = Vec::new();
        for unit in units {
            let text = unit.text();
            let named = self.pile.names_of(text, SAID_BY_A_PERSON);
            let (kind, bonus) = judge(text);
            let is_plain = matches!(kind, Kind::Fact | Kind::Answer | Kind::Other);
            if named == 0 && is_plain && is_empty_talk(text) {
                continue;
            }
            let bonus = bonus + named + if unit.is_heading { -120 } else { 0 };
            if let Some((last, last_kind, last_bonus)) = groups.last_mut()// A label holds for its whole line.
                && (kind == *last_kind || is_plain || label_kind(last.text()).is_some())
                && let Some(both) = last.with(unit)
            {
                *last = both;
                *last_bonus = bonus.max(*last_bonus);
                continue;
            }
            groups.push((*unit, kind, bonus));
        }
        groups.into_iter().map(|(unit, kind, bonus)| (unit.text(), kind, bonus)).collect()
    }

    fn call(&mut self, call: &Called, result: Option<(&'s str, bool)>) {
        let name = call.name.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let changes = has(&[
            "write", "edit", "patch", "create", "replace", "insert", "append", "update", "delete", "rename", "remove",
            "move",
        ]);
        if is_plan(&name) {
            let plan = plan_of(call).or_else(|| result.map(|(result, _)| shortened(result, LINE_CHARS_MAX)));
            if let Some(plan) = plan {
                self.pile.plan(&plan);
            }
            return;
        }
        let Passed { command, paths, others: passed } = self.passed(call);
        let is_view = command.is_some_and(is_view) || (command.is_none() && !changes && !paths.is_empty());
        let ending = result.map(|(result, is_marked)| Ending::of(result, is_marked, is_view));
        // Nothing came back: nobody knows what came of it.
        let is_done = ending.as_ref().is_some_and(|ending| !ending.is_failed);
        let touch = if changes && is_done { Touch::Changed } else { Touch::Read };
        for path in &paths {
            if names::file(path).is_some() || takes_files(&name) {
                self.pile.files.add(path, touch);
            }
        }
        let told = ending.as_ref().map_or_else(|| " -> no result".to_owned(), Ending::told);
        if let Some(command) = command {
            self.command(command, &told, ending.as_ref(), result.map_or("", |(result, _)| result));
            return;
        }
        let key = format!("{} {}", call.name, paths.first().copied().unwrap_or(passed.trim()));
        if ending.as_ref().is_some_and(|ending| ending.is_failed) {
            self.pile.error(&key, &format!("{key}{told}"), 0);
        } else if paths.is_empty() || ending.is_none() {
            let asks =
                ["get", "list", "search", "find", "read", "look", "fetch", "query", "calc", "think", "show", "view"];
            let bonus = if has(&asks) { -260 } else { 60 };
            self.pile.push_as(Kind::Ran, &key, &format!("{key}{told}"), bonus);
        } else {
            self.pile.overcome(&key);
        }
    }

    /// Takes the values that are passed to a call apart, and what they name.
    fn passed<'c>(&mut self, call: &'c Called) -> Passed<'c> {
        let mut command = None;
        let mut paths = Vec::new();
        let mut others = String::new();
        for (key, value) in &call.arguments {
            let key = key.to_lowercase();
            let has = |words: &[&str]| words.iter().any(|word| key.contains(word));
            if has(&["path", "file", "uri", "notebook"])
                && !has(&["text", "content", "pattern", "glob"])
                && is_path(value)
            {
                paths.push(value.as_str());
            } else if ["command", "cmd", "script", "code"].contains(&key.as_str()) {
                command = Some(value.as_str());
            } else if value.len() <= VALUE_BYTES_MAX {
                self.pile.names_of(value, 2);
                if others.len() < VALUE_BYTES_MAX {
                    others.push_str(&format!(" {key}={}", shortened(value, 60)));
                }
            } else {
                // A patch says in lines of its own which files it is for.
                let marks = ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "+++ b/"];
                let named = value.lines().filter_map(|line| marks.iter().find_map(|mark| line.strip_prefix(mark)));
                named.for_each(|path| self.pile.files.add(path, Touch::Changed));
            }
        }
        Passed { command, paths, others }
    }

    fn command(&mut self, command: &str, told: &str, ending: Option<&Ending>, result: &str) {
        let is_done = ending.is_some_and(|ending| !ending.is_failed);
        for (path, touch) in touched(command) {
            self.pile.files.add(path, if is_done { touch } else { touch.min(Touch::Read) });
        }
        self.pile.names_of(command, 1);
        // Where it ran matters less than what ran.
        let own = command.trim();
        let own = match own.strip_prefix("cd ").and_then(|rest| rest.split_once(" && ")) {
            Some((_, rest)) => rest.trim(),
            None => own,
        };
        let line = shortened(own, LINE_CHARS_MAX / 2);
        let bonus = match ending {
            Some(ending) if ending.is_failed => 100,
            Some(ending) if ending.line.is_some() && is_view(command) => -120,
            Some(_) if is_view(command) => -220,
            Some(_) if own.starts_with("git commit") || own.contains("git commit -m") => 80,
            _ => 0,
        };
        self.pile.push_as(Kind::Ran, &line, &format!("{line}{told}"), bonus);
        match ending {
            Some(ending) if ending.is_failed && !ending.is_interrupted && !is_view(command) => {
                let errors = lines::ends(result)[0].lines().map(str::trim).filter(|line| ending::is_error(line));
                errors.take(ERRORS_OF_A_COMMAND).for_each(|error| self.pile.error(&line, error, -60));
            }
            Some(ending) if !ending.is_failed => self.pile.overcome(&line),
            _ => {}
        }
    }

    /// A result that no call is known for, or that says more than how the call ended.
    fn result(&mut self, text: &str, is_marked: bool) {
        let ending = Ending::of(text, is_marked, false);
        if ending.is_failed {
            self.pile.push(Kind::Error, ending.told().trim_start_matches(" -> "), -40);
        } else if text.len() <= SHORT_RESULT_BYTES {
            let bonus = self.pile.names_of(text, 1);
            self.pile.push(Kind::Fact, text.trim(), bonus - 160);
        }
    }

    /// What the messages behind say of the `nth` call of one, and whether they mark it as failed.
    fn result_of(&mut self, at: usize, nth: usize) -> Option<(&'s str, bool)> {
        let behind =
            self.sources.iter().enumerate().skip(at + 1).take_while(|(_, source)| !source.told.results.is_empty());
        let mut results = behind.flat_map(|(at, source)| (0..source.told.results.len()).map(move |nth| (at, nth)));
        let (at, nth) = results.nth(nth)?;
        self.told.insert((at, nth));
        let told = &self.sources[at].told;
        Some((told.results[nth].as_str(), told.failed.contains(&nth)))
    }

    /// The messages between a person's message and their next one, and that one's text.
    fn behind(&self, at: usize) -> (&'s [Source], Option<&'s str>) {
        let behind = &self.sources[at + 1..];
        let until = behind.iter().position(|source| source.role == Role::User && !source.told.text.trim().is_empty());
        (&behind[..until.unwrap_or(behind.len())], until.map(|next| behind[next].told.text.as_str()))
    }

    /// Whether what a person said was taken as something to do: not only noted.
    fn is_worked_on(&self, at: usize) -> bool {
        let (own, next) = self.behind(at);
        let said: usize = own.iter().map(|source| source.told.text.len()).sum();
        own.iter().any(|source| !source.told.calls.is_empty())
            || said > REPLY_CHARS_MAX
            || (own.is_empty() && next.is_none())
    }

    /// What came of a request, as far as what follows tells.
    fn state_of(&self, at: usize) -> &'static str {
        let (own, next) = self.behind(at);
        if let Some(next) = next {
            if is_interruption(next) {
                return " (interrupted)";
            }
            let is_short = next.len() < 200;
            let signs = if is_short { Signs::of(next) } else { Signs::default() };
            if signs.has(Signs::STOPS) {
                return " (then cancelled)";
            }
            let begins = next.trim_start().to_lowercase();
            if is_short
                && ["actually", "no,", "instead", "нет,", "nein,", "不，", "不对"]
                    .iter()
                    .any(|word| begins.starts_with(word))
            {
                return " (then changed)";
            }
        }
        let Some(last) = own.last() else { return "" };
        match last.told.results.last() {
            Some(result) if Ending::of(result, false, false).is_interrupted => " (interrupted)",
            None if last.role == Role::Assistant && last.told.calls.is_empty() => "",
            _ => LEFT_OPEN,
        }
    }
}

/// What is passed to a call.
struct Passed<'c> {
    command: Option<&'c str>,
    paths: Vec<&'c str>,
    /// Other values that are short, each behind its name.
    others: String,
}

/// Whether a tool keeps a plan, by its name in small letters.
fn is_plan(name: &str) -> bool {
    ["todo", "plan", "tasklist", "task_list"].iter().any(|word| name.contains(word))
}

/// Whether what a tool takes as a path is a file, by its name in small letters.
fn takes_files(name: &str) -> bool {
    ["read", "view", "write", "edit", "patch"].iter().any(|word| name.contains(word))
}

/// A host's note that the person stopped the agent.
fn is_interruption(text: &str) -> bool {
    let text = text.trim_start();
    text.len() < 200 && text.starts_with('[') && text.to_lowercase().contains("interrupted")
}

/// Whether a unit is only polite, or says what its author will do next.
fn is_empty_talk(text: &str) -> bool {
    is_filler(text) && text.chars().nth(140).is_none()
}

/// What kind a person's sentence is, and how much more it is worth than others of it.
fn said_by_person(text: &str, is_worked_on: bool, is_first_hand: bool) -> (Kind, i64) {
    let signs = Signs::of(text);
    let said = label(text).1;
    let mut bonus = weight_of(text, signs);
    bonus += if said.len() < text.len() { LABEL_BONUS } else { 0 };
    let asks = signs.has(Signs::REQUEST) || is_imperative(said);
    let kind = if let Some(kind) = label_kind(text) {
        kind
    } else if signs.has(Signs::STRICT | Signs::SCOPE) {
        bonus += 40;
        Kind::Rule
    } else if signs.has(Signs::OPEN) && !asks {
        Kind::Open
    } else if signs.has(Signs::DECIDED) || (signs.has(Signs::NOW) && !is_worked_on && !asks) {
        bonus += 20;
        Kind::Decided
    } else if signs.has(Signs::RULE) && !signs.has(Signs::REQUEST) {
        bonus -= 60;
        Kind::Rule
    } else if asks && (is_worked_on || signs.has(Signs::REQUEST)) {
        Kind::Asked
    } else if asks && is_first_hand {
        // Told to do something, and nothing was done: it is to be kept in mind.
        bonus -= 40;
        Kind::Rule
    } else {
        Kind::Fact
    };
    (kind, bonus)
}

/// The same of an agent's sentence, which is `plain` when nothing else is seen in it.
fn said_by_agent(text: &str, plain: Kind) -> (Kind, i64) {
    let signs = Signs::of(text);
    let mut bonus = weight_of(text, signs);
    let is_filler = is_filler(text);
    let speaks_of_itself = text.starts_with("I ") || text.starts_with("I'");
    let kind = if signs.has(Signs::STRICT) && !speaks_of_itself && !is_filler {
        bonus -= 260;
        Kind::Rule
    } else if signs.has(Signs::DECIDED) && !is_filler {
        bonus += 20;
        Kind::Decided
    } else if signs.has(Signs::OPEN) && !is_filler {
        bonus -= 120;
        Kind::Open
    } else {
        bonus += if signs.has(Signs::OUTCOME) { 80 } else { 0 };
        bonus += if signs.has(Signs::FAILED) { 30 } else { 0 };
        bonus -= if is_filler { 220 } else { 0 };
        plain
    };
    (kind, bonus)
}

fn weight_of(text: &str, signs: Signs) -> i64 {
    let mut bonus = if text.bytes().any(|byte| byte.is_ascii_digit()) { 30 } else { 0 };
    bonus += if signs.has(Signs::REASON) { 40 } else { 0 }; // "This replaces:" only announces.
    bonus -= if text.ends_with([':', '：']) { 240 } else { 0 };
    // "Noted and recorded.": says that something was said.
    if text.chars().nth(12).is_none() || (text.is_ascii() && text.split_whitespace().nth(4).is_none()) {
        bonus -= if bonus == 0 { 200 } else { 0 };
    }
    bonus
}

/// The label before a text, `NOTE: `, and the text behind it; all of the text where there is none.
fn label(text: &str) -> (Option<&str>, &str) {
    let found = text.split_once(": ").filter(|(label, said)| {
        let words = label.split_whitespace().count();
        let is_loud = label.chars().any(char::is_alphabetic) && !label.chars().any(char::is_lowercase);
        let is_word = words == 1 && label.chars().next().is_some_and(char::is_uppercase);
        (1..=3).contains(&words) && label.chars().nth(28).is_none() && (is_loud || is_word) && !said.trim().is_empty()
    });
    found.map_or((None, text), |(label, said)| (Some(label), said))
}

/// The kind that a label in capitals says: `HARD CONSTRAINT: ` is for a rule.
fn label_kind(text: &str) -> Option<Kind> {
    let label = label(text).0.filter(|label| !label.chars().any(char::is_lowercase))?;
    let signs = Signs::of(label);
    let has = |words: &[&str]| label.split_whitespace().any(|word| words.contains(&word));
    if signs.has(Signs::RULE | Signs::STRICT) {
        Some(Kind::Rule)
    } else if signs.has(Signs::OPEN) || has(&["GOAL", "TASK", "NEXT", "STATUS", "QUESTION"]) {
        Some(Kind::Open)
    } else if signs.has(Signs::DECIDED) {
        Some(Kind::Decided)
    } else if has(&["FACT", "FACTS", "NOTE", "INFO", "CONTEXT"]) {
        Some(Kind::Fact)
    } else {
        None
    }
}

/// Whether a value is the path of something.
fn is_path(value: &str) -> bool {
    !value.is_empty() && value.len() <= 300 && !value.contains(['\n', '{', '<'])
}

/// A plan in the arguments of a call: steps, each with its state.
fn plan_of(call: &Called) -> Option<String> {
    let mut plan = String::new();
    for (key, value) in &call.arguments {
        match key.to_lowercase().as_str() {
            "content" | "step" | "title" | "text" | "task" | "description" | "name" | "subject" => {
                if !plan.is_empty() {
                    plan.push_str("; ");
                }
                plan.push_str(&shortened(value, 80));
            }
            "status" | "state" if !plan.is_empty() => plan.push_str(&format!(" [{}]", shortened(value, 20))),
            _ => {}
        }
    }
    // One value alone is what was passed, no list of steps.
    (plan.contains("; ") || plan.contains(" [")).then(|| shortened(&plan, LINE_CHARS_MAX))
}

/// Whether a command only shows something.
fn is_view(command: &str) -> bool {
    let command = command.replace("2>&1", "").replace("2>/dev/null", "").replace(">/dev/null", "");
    const VIEWS: [&str; 28] = [
        "cat", "head", "tail", "less", "more", "ls", "tree", "find", "fd", "grep", "rg", "ag", "sed", "awk", "wc",
        "pwd", "which", "file", "stat", "du", "df", "echo", "env", "ps", "jq", "diff", "sort", "type",
    ];
    segments(&command).all(|segment| {
        let mut words = segment.split_whitespace();
        match words.next() {
            Some("cd") | None => true,
            Some("git") => {
                matches!(
                    words.next(),
                    Some("log" | "diff" | "show" | "status" | "blame" | "grep" | "ls-files" | "branch" | "rev-parse")
                )
            }
            Some("sed") => !segment.contains(" -i"),
            Some(word) => VIEWS.contains(&word) && !segment.contains('>'),
        }
    })
}

/// The parts of a line of commands.
fn segments(command: &str) -> impl Iterator<Item = &str> {
    command.split(['|', ';', '\n', '&']).map(str::trim).filter(|segment| !segment.is_empty())
}

/// The files that a command names, and what it does with them.
fn touched(command: &str) -> Vec<(&str, Touch)> {
    let mut touched = Vec::new();
    for segment in segments(command) {
        let mut words = segment.split_whitespace();
        let first = words.next().unwrap_or("");
        let is_git = first == "git" && matches!(words.next(), Some("mv" | "rm" | "checkout" | "restore" | "apply"));
        let changes = is_git
            || matches!(first, "mv" | "cp" | "rm" | "touch" | "tee" | "patch" | "ln" | "truncate" | "install")
            || (matches!(first, "sed" | "perl") && segment.contains(" -i"));
        let reads =
            is_view(segment) || matches!(first, "python" | "python3" | "node" | "bash" | "sh" | "npx" | "source" | ".");
        let aim = segment.find('>').map(|at| &segment[at..]);
        names::files(segment, |file| {
            // Behind an arrow it is written to.
            let is_aim = aim.is_some_and(|aim| aim.trim_start_matches(['>', ' ']).starts_with(file));
            let touch = if changes || is_aim {
                Touch::Changed
            } else if reads {
                Touch::Read
            } else {
                Touch::Named
            };
            touched.push((file, touch));
        });
    }
    touched
}

#[cfg(test)]
mod tests;
