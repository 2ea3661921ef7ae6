//! A summary without a model: the sentences and facts that a later reader asks for, the same every time.
//!
//! A request and what came of it, rules and decisions, files read and changed, commands and how they ended, errors,
//! ids, names and numbers. Every piece is taken from the text, shortened, never reworded. Pieces are scored, the best
//! that fit the budget are kept, in the order in which they were said. Files are always named.
//!
//! Pure. A summary of summaries is made of their lines in the same way: each begins with the word that says its kind.

use std::collections::{HashMap, HashSet};

use lcm_core::Role;
use lcm_core::tokens::TokenCounter;

use crate::hosts::told::{Called, Told};

/// The version of what is written here; kept with each summary.
pub(crate) const EXTRACT_VERSION: u32 = 1;

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
    /// Files and ids it speaks of, in order of first mention.
    pub(crate) mentions: Vec<String>,
}

/// The word before a line, which says what kind of line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Asked,
    Rule,
    Decided,
    Plan,
    Ran,
    Error,
    Answer,
    Fact,
    Changed,
    Read,
    Names,
    Other,
}

impl Kind {
    const ALL: [(Self, &'static str); 11] = [
        (Self::Asked, "asked: "),
        (Self::Rule, "rule: "),
        (Self::Decided, "decided: "),
        (Self::Plan, "plan: "),
        (Self::Ran, "ran: "),
        (Self::Error, "error: "),
        (Self::Answer, "answer: "),
        (Self::Fact, "fact: "),
        (Self::Changed, "changed: "),
        (Self::Read, "read: "),
        (Self::Names, "names: "),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, word)| word)
    }

    fn of_line(line: &str) -> (Self, &str) {
        let found = Self::ALL.iter().find_map(|(kind, word)| Some((*kind, line.strip_prefix(word)?)));
        found.unwrap_or((Self::Other, line))
    }

    /// How much a reader wants it.
    fn worth(self) -> i64 {
        match self {
            Self::Rule => 900,
            Self::Asked => 800,
            Self::Decided => 760,
            Self::Plan => 700,
            Self::Error => 640,
            Self::Ran => 560,
            Self::Fact => 540,
            Self::Answer => 500,
            Self::Other => 400,
            Self::Changed | Self::Read | Self::Names => 0,
        }
    }
}

/// One line that may be kept.
struct Piece {
    kind: Kind,
    text: String,
    score: i64,
}

/// Characters of one line.
const LINE_CHARS_MAX: usize = 280;
/// The same in a summary of summaries.
const CONDENSED_CHARS_MAX: usize = 150;
/// Sentences of one message that are looked at; a pasted book has more and says no more.
const SENTENCES_MAX: usize = 400;
/// Lines of one result that are looked at.
const RESULT_LINES_MAX: usize = 2000;
/// Names that are kept.
const NAMES_MAX: usize = 400;

/// Summarises messages.
pub(crate) fn extract(sources: &[Source], budget: u64, counter: &dyn TokenCounter) -> Extract {
    let mut pile = Pile::default();
    for (at, source) in sources.iter().enumerate() {
        pile.message(source, &sources[at + 1..]);
    }
    pile.write(budget, counter)
}

/// Summarises summaries of a depth. Lines begin with a dot for each depth above the first, and are shorter: what two
/// summaries have in common is never more than a line.
pub(crate) fn condense(texts: &[&str], depth: u16, budget: u64, counter: &dyn TokenCounter) -> Extract {
    let mut pile = Pile { dots: usize::from(depth), ..Pile::default() };
    for line in texts.iter().flat_map(|text| text.lines()) {
        let (kind, text) = Kind::of_line(line.trim_start_matches(['·', ' ']).trim_end());
        match kind {
            Kind::Changed => unlisted(text).iter().for_each(|file| pile.files.change(file)),
            Kind::Read => unlisted(text).iter().for_each(|file| pile.files.read(file)),
            Kind::Names => text.split(", ").for_each(|name| pile.name(name)),
            Kind::Plan => pile.plan(text),
            _ if text.is_empty() => {}
            _ => {
                pile.names_of(text);
                pile.push(kind, text, 0);
            }
        }
    }
    pile.write(budget, counter)
}

#[derive(Default)]
struct Pile {
    pieces: Vec<Piece>,
    /// Lines that are there, without their case and spacing: the later one of two counts.
    seen: HashMap<String, usize>,
    files: Files,
    names: Vec<String>,
    names_seen: HashSet<String>,
    /// Dots before each line.
    dots: usize,
    /// Results that were told with their calls.
    told: HashSet<String>,
}

/// Files, in order of first mention.
#[derive(Default)]
struct Files {
    order: Vec<(String, bool)>,
    at: HashMap<String, usize>,
}

impl Files {
    fn add(&mut self, name: &str, changed: bool) {
        let name = name.trim();
        if name.is_empty() || name.chars().count() > 200 || name.contains(char::is_control) {
            return;
        }
        match self.at.get(name) {
            Some(&at) => self.order[at].1 |= changed,
            None => {
                self.at.insert(name.to_owned(), self.order.len());
                self.order.push((name.to_owned(), changed));
            }
        }
    }

    fn change(&mut self, name: &str) {
        self.add(name, true);
    }

    fn read(&mut self, name: &str) {
        self.add(name, false);
    }
}

impl Pile {
    fn push(&mut self, kind: Kind, text: &str, bonus: i64) {
        let text = shortened(text, LINE_CHARS_MAX);
        if text.is_empty() {
            return;
        }
        let key: String = text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
        let mut kind = kind;
        if let Some(&before) = self.seen.get(&key) {
            // What was said again counts where it was said last, as the best that it was.
            let before = &mut self.pieces[before];
            before.text.clear();
            if before.kind.worth() > kind.worth() {
                kind = before.kind;
            }
        }
        self.seen.insert(key, self.pieces.len());
        self.pieces.push(Piece { kind, text, score: kind.worth() + bonus });
    }

    fn plan(&mut self, text: &str) {
        // A later plan replaces the ones before it.
        for piece in self.pieces.iter_mut().filter(|piece| piece.kind == Kind::Plan) {
            piece.text.clear();
        }
        self.push(Kind::Plan, text, 0);
    }

    fn name(&mut self, name: &str) {
        if self.names.len() < NAMES_MAX && self.names_seen.insert(name.to_owned()) {
            self.names.push(name.to_owned());
        }
    }

    /// Ids, numbers and addresses in a text.
    fn names_of(&mut self, text: &str) {
        for word in text.split(|c: char| c.is_whitespace() || "\"'`()[]{}<>,;|=".contains(c)) {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/' && c != '#');
            if is_name(word) {
                self.name(word);
            }
        }
    }

    fn message(&mut self, source: &Source, behind: &[Source]) {
        let told = &source.told;
        match source.role {
            Role::User => self.request(&told.text, behind),
            Role::System | Role::Developer => self.prose(&told.text, Kind::Rule),
            _ => {
                let is_final = told.calls.is_empty();
                self.prose(&told.text, if is_final { Kind::Answer } else { Kind::Other });
            }
        }
        for (nth, call) in told.calls.iter().enumerate() {
            let result = result_of(behind, nth);
            self.call(call, result);
        }
        if source.role == Role::User || source.role == Role::Tool {
            for result in &told.results {
                if !self.told.contains(result) {
                    self.result(result);
                }
            }
        }
    }

    fn request(&mut self, text: &str, behind: &[Source]) {
        let mut sentences = sentences(text).into_iter();
        let Some(first) = sentences.next() else { return };
        let state = state_of(behind);
        self.names_of(first);
        let (kind, bonus) = judge(first);
        match kind {
            Some(kind @ (Kind::Rule | Kind::Decided)) => self.push(kind, first, bonus + 60),
            _ => self.push(Kind::Asked, &format!("{}{state}", shortened(first, LINE_CHARS_MAX - 20)), bonus),
        }
        for sentence in sentences {
            self.sentence(sentence, Kind::Fact, 40);
        }
    }

    fn prose(&mut self, text: &str, plain: Kind) {
        for (nth, sentence) in sentences(text).into_iter().enumerate() {
            self.sentence(sentence, plain, if nth == 0 { 30 } else { -60 });
        }
    }

    fn sentence(&mut self, sentence: &str, plain: Kind, bonus: i64) {
        self.names_of(sentence);
        let (kind, judged) = judge(sentence);
        self.push(kind.unwrap_or(plain), sentence, bonus + judged);
    }

    fn call(&mut self, call: &Called, result: Option<&str>) {
        let name = call.name.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let changes =
            has(&["write", "edit", "patch", "create", "replace", "insert", "append", "update", "delete", "rename"]);
        let mut command = None;
        for (key, value) in &call.arguments {
            let key = key.to_lowercase();
            if ["path", "file", "uri", "notebook"].iter().any(|word| key.contains(word)) && !value.contains('\n') {
                self.files.add(value, changes);
            } else if ["command", "cmd", "script", "code"].contains(&key.as_str()) {
                command = Some(value.as_str());
            } else if value.len() <= 200 {
                self.names_of(value);
            }
        }
        if has(&["todo", "plan", "task"]) {
            if let Some(result) = result {
                self.plan(&shortened(result, LINE_CHARS_MAX));
                self.told.insert(result.to_owned());
            }
            return;
        }
        let ended = result.map(ending).unwrap_or_default();
        if let Some(command) = command {
            for word in command.split_whitespace().filter(|word| is_path(word)) {
                self.files.read(word.trim_matches(|c: char| "\"'`;,()".contains(c)));
            }
            let line = shortened(command.trim(), LINE_CHARS_MAX / 2);
            let bonus = if ended.failed { 120 } else { 0 };
            self.push(Kind::Ran, &format!("{line}{}", ended.told), bonus);
        } else if ended.failed {
            self.push(Kind::Error, &format!("{}{}", call.name, ended.told), 0);
        }
    }

    fn result(&mut self, text: &str) {
        let mut errors = 0;
        for line in text.lines().take(RESULT_LINES_MAX) {
            let line = line.trim();
            if errors < 2 && line.len() <= 400 && is_error(line) {
                self.push(Kind::Error, line, -40);
                errors += 1;
            }
        }
        // A short result is an answer by itself.
        if errors == 0 && text.len() <= 160 {
            self.names_of(text);
            self.push(Kind::Fact, text.trim(), -80);
        }
    }

    fn write(mut self, budget: u64, counter: &dyn TokenCounter) -> Extract {
        let mut left = budget;
        let mut lists = Vec::new();
        // Files first: a file that is not named is read again, or forgotten.
        let changed: Vec<String> =
            self.files.order.iter().filter(|(_, changed)| *changed).map(|(file, _)| file.clone()).collect();
        let read: Vec<String> =
            self.files.order.iter().filter(|(_, changed)| !*changed).map(|(file, _)| file.clone()).collect();
        for (kind, list) in [(Kind::Changed, changed), (Kind::Read, read)] {
            let room = left / 2;
            if let Some((line, cost)) = listed(kind, &list, room, counter) {
                left = left.saturating_sub(cost);
                lists.push(line);
            }
        }
        let names_room = left / 6;
        let for_pieces = left - names_room;
        let mut kept = self.best(for_pieces, counter);
        left = left.saturating_sub(kept.cost);
        let shown = kept.lines.join("\n");
        let names: Vec<String> = self.names.iter().filter(|name| !shown.contains(name.as_str())).cloned().collect();
        if let Some((line, _)) = listed(Kind::Names, &names, left.min(names_room.max(left)), counter) {
            lists.push(line);
        }
        kept.lines.append(&mut lists);
        if kept.lines.is_empty() {
            kept.lines.push("nothing was said in words".to_owned());
        }
        let mut mentions: Vec<String> = self.files.order.into_iter().map(|(file, _)| file).collect();
        mentions.extend(self.names);
        mentions.truncate(NAMES_MAX);
        let dots = "·".repeat(self.dots);
        let gap = if self.dots > 0 { " " } else { "" };
        let lines: Vec<String> = kept.lines.into_iter().map(|line| format!("{dots}{gap}{line}")).collect();
        Extract { text: lines.join("\n"), mentions }
    }

    /// The best pieces that fit, in their order.
    fn best(&mut self, budget: u64, counter: &dyn TokenCounter) -> Kept {
        self.pieces.retain(|piece| !piece.text.is_empty());
        let count = self.pieces.len();
        let mut order: Vec<usize> = (0..count).collect();
        // Of equals the later one: what was said last holds.
        let recency = |at: usize| i64::try_from(at * 80 / count.max(1)).unwrap_or(0);
        order.sort_by_key(|&at| std::cmp::Reverse((self.pieces[at].score + recency(at), at)));
        let mut chosen = Vec::new();
        let mut left = budget;
        let most = if self.dots > 0 { CONDENSED_CHARS_MAX } else { LINE_CHARS_MAX };
        // A rule that is cut in the middle is none, so a small budget takes fewer lines, not shorter ones.
        let chars_max = usize::try_from(budget).unwrap_or(usize::MAX).clamp(110, most);
        let dots = u64::try_from(self.dots).unwrap_or(0);
        for at in order {
            if left < 6 {
                break;
            }
            let piece = &self.pieces[at];
            let line = format!("{}{}", piece.kind.word(), shortened(&piece.text, chars_max));
            let cost = u64::from(counter.count_text(&line)) + 1 + dots;
            if cost <= left {
                left -= cost;
                chosen.push((at, line));
            }
        }
        chosen.sort_by_key(|(at, _)| *at);
        Kept { lines: chosen.into_iter().map(|(_, line)| line).collect(), cost: budget - left }
    }
}

struct Kept {
    lines: Vec<String>,
    cost: u64,
}

/// A list in one line, as much of it as fits; the last ones are those that count.
fn listed(kind: Kind, list: &[String], room: u64, counter: &dyn TokenCounter) -> Option<(String, u64)> {
    let mut from = 0;
    while from < list.len() {
        let line = match kind {
            Kind::Names => format!("{}{}", kind.word(), list[from..].join(", ")),
            _ => format!("{}{}", kind.word(), by_folder(&list[from..])),
        };
        let cost = u64::from(counter.count_text(&line)) + 1;
        if cost <= room {
            return Some((line, cost));
        }
        // About as many too many as it costs too much.
        let over =
            usize::try_from((cost - room) * u64::try_from(list.len() - from).unwrap_or(1) / cost.max(1)).unwrap_or(1);
        from += over.max(1);
    }
    None
}

/// Files with the folder they share named once: `src/tide/: clock.rs table.rs; README.md`.
fn by_folder(files: &[String]) -> String {
    let mut folders: Vec<(&str, Vec<&str>)> = Vec::new();
    for file in files {
        // A blank in a name would be read as two.
        let (folder, name) = file.rsplit_once('/').filter(|_| !file.contains([' ', ';'])).unwrap_or(("", file));
        match folders.iter_mut().find(|(known, _)| *known == folder && !folder.is_empty()) {
            Some((_, names)) => names.push(name),
            None => folders.push((folder, vec![name])),
        }
    }
    let shown = folders.into_iter().map(|(folder, names)| match (folder, names.as_slice()) {
        ("", _) => names.join(" "),
        (_, [name]) => format!("{folder}/{name}"),
        _ => format!("{folder}/: {}", names.join(" ")),
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// The files of such a line.
fn unlisted(line: &str) -> Vec<String> {
    let mut files = Vec::new();
    for part in line.split("; ") {
        match part.split_once("/: ") {
            Some((folder, names)) => files.extend(names.split(' ').map(|name| format!("{folder}/{name}"))),
            None => files.push(part.to_owned()),
        }
    }
    files
}

/// What the message behind says of the `nth` call.
fn result_of(behind: &[Source], nth: usize) -> Option<&str> {
    let results = behind.iter().take_while(|source| !source.told.results.is_empty());
    results.flat_map(|source| source.told.results.iter()).nth(nth).map(String::as_str)
}

/// What came of a request, as far as what follows tells.
fn state_of(behind: &[Source]) -> &'static str {
    let until = behind.iter().position(|source| source.role == Role::User && !source.told.text.trim().is_empty());
    let own = &behind[..until.unwrap_or(behind.len())];
    if let Some(next) = until.map(|at| behind[at].told.text.to_lowercase()) {
        let stops = ["cancel", "stop", "never mind", "forget it", "drop it"];
        if next.len() < 200 && stops.iter().any(|word| next.contains(word)) {
            return " (then cancelled)";
        }
    }
    match own.last() {
        None => "",
        Some(last) if last.told.results.iter().any(|result| result.to_lowercase().contains("interrupted")) => {
            " (interrupted)"
        }
        Some(last) if last.role == Role::Assistant && last.told.calls.is_empty() => "",
        Some(_) => " (left open here)",
    }
}

/// How a command ended.
#[derive(Default)]
struct Ending {
    told: String,
    failed: bool,
}

fn ending(result: &str) -> Ending {
    let lower = result.to_lowercase();
    let mut told = String::new();
    let mut failed = false;
    if let Some(code) = exit_code(&lower) {
        failed = code != 0;
        told = format!(" -> exit {code}");
    }
    let lines = || result.lines().take(RESULT_LINES_MAX).map(str::trim).filter(|line| !line.is_empty());
    let telling = lines().filter(|line| {
        let line = line.to_lowercase();
        ["passed", "failed", "test result"].iter().any(|word| line.contains(word))
            && line.bytes().any(|byte| byte.is_ascii_digit())
    });
    let telling = telling.last();
    let error = lines().find(|line| is_error(line));
    if lower.contains("interrupted") || lower.contains("aborted") || lower.contains("timed out") {
        failed = true;
        told.push_str(", interrupted");
    }
    if let Some(line) = error.filter(|_| told.is_empty() || failed).or(telling) {
        failed |= error.is_some() && told.is_empty();
        told.push_str(": ");
        told.push_str(&shortened(line, 120));
    }
    Ending { told, failed }
}

/// The exit code that a result names.
fn exit_code(lower: &str) -> Option<i64> {
    for mark in [
        "\"exit_code\":",
        "exit code:",
        "exit code ",
        "exit_code:",
        "exit_code=",
        "exit status:",
        "exit status ",
        "exited with ",
        "returncode:",
        "exit ",
    ] {
        if let Some(at) = lower.rfind(mark) {
            let rest = lower[at + mark.len()..].trim_start();
            let digits: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
            if let Ok(code) = digits.parse() {
                return Some(code);
            }
        }
    }
    None
}

fn is_error(line: &str) -> bool {
    let lower = line.to_lowercase();
    [
        "error:",
        "error[",
        "error ",
        "exception",
        "traceback",
        "panicked",
        "fatal:",
        "failed to",
        "cannot ",
        "no such file",
        "not found",
        "permission denied",
    ]
    .iter()
    .any(|word| lower.contains(word))
}

/// What kind of sentence it is, and how much more it is worth than others of it.
fn judge(sentence: &str) -> (Option<Kind>, i64) {
    let lower = sentence.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let mut bonus = 0;
    if sentence.bytes().any(|byte| byte.is_ascii_digit()) {
        bonus += 30;
    }
    if sentence.split_whitespace().any(|word| is_name(word.trim_matches(|c: char| !c.is_alphanumeric()))) {
        bonus += 40;
    }
    if sentence.len() > 400 {
        bonus -= 60;
    }
    // "Noted and recorded.": says that something was said.
    if sentence.split_whitespace().count() <= 5 && bonus == 0 {
        bonus -= 200;
    }
    let kind = if has(&[
        "must",
        "never",
        "always",
        "do not ",
        "don't",
        "only use",
        "make sure",
        "required",
        "forbidden",
        "important",
        "under no circumstances",
        "rule",
        "constraint",
        "policy",
        "prefer",
        "禁止",
        "必须",
        "不要",
    ]) {
        Some(Kind::Rule)
    } else if has(&[
        "decided",
        "decision",
        "agreed",
        "instead of",
        "we will",
        "we'll",
        "switch to",
        "chose",
        "settled on",
        "changed to",
        "no longer",
        "correction",
        "actually,",
        "update:",
        "supersede",
        "replaces",
        "决定",
        "改为",
    ]) {
        bonus += 20;
        Some(Kind::Decided)
    } else {
        None
    };
    (kind, bonus)
}

/// Whether a word is an id, a number that means something, or an address.
fn is_name(word: &str) -> bool {
    if word.len() < 3 || word.len() > 120 {
        return false;
    }
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
    let joins = word.bytes().filter(|byte| b"-_./:#@".contains(byte)).count();
    word.contains("://")
        || is_path(word)
        || (digits > 0 && letters > 0 && digits + letters >= 4)
        || (digits >= 3 && letters == 0)
        || (joins > 0 && digits > 0 && digits + joins >= 3)
        || (letters >= 3 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_') && word.contains('_'))
}

/// Whether a word looks like the path of a file.
fn is_path(word: &str) -> bool {
    let word = word.trim_matches(|c: char| "\"'`;,()".contains(c));
    let last = word.rsplit('/').next().unwrap_or(word);
    let extension = last.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
    let has_extension = extension.is_some_and(|extension| {
        (1..=5).contains(&extension.len())
            && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && extension.bytes().any(|byte| byte.is_ascii_alphabetic())
    });
    let is_clean = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"./_-~+@".contains(&byte));
    word.len() >= 3
        && is_clean
        && !word.starts_with('-')
        && (has_extension || word.matches('/').count() >= 2)
        && !word.contains("..")
}

/// Sentences and lines of a text.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    for line in text.lines() {
        let mut rest = line.trim().trim_start_matches(['#', '*', '-', '>', ' ']);
        while !rest.is_empty() && sentences.len() < SENTENCES_MAX {
            let end = sentence_end(rest);
            let (sentence, behind) = rest.split_at(end);
            let sentence = sentence.trim();
            if sentence.chars().any(char::is_alphanumeric) {
                sentences.push(sentence);
            }
            rest = behind.trim_start();
        }
    }
    sentences
}

/// Where the first sentence ends: behind a mark with a blank behind it, or a full-width one.
fn sentence_end(text: &str) -> usize {
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let ends = matches!(c, '。' | '！' | '？')
            || (matches!(c, '.' | '!' | '?' | ';') && next.is_none_or(char::is_whitespace));
        // An abbreviation or a number of a list is no sentence.
        if ends && at >= 12 {
            return at + c.len_utf8();
        }
    }
    text.len()
}

/// A text in one line of at most so many characters; what is left out is left out at a word's border.
fn shortened(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        let gap = usize::from(!line.is_empty());
        if count + gap + length > chars_max {
            let room = chars_max.saturating_sub(count + gap + 1);
            // A long word without blanks, as in Chinese, is cut where it must be.
            if length > 24 && room > 8 {
                if gap > 0 {
                    line.push(' ');
                }
                line.extend(word.chars().take(room));
            }
            line.push('…');
            return line;
        }
        if gap > 0 {
            line.push(' ');
        }
        line.extend(word.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }));
        count += gap + length;
    }
    line
}

#[cfg(test)]
mod tests {
    use lcm_core::tokens::Estimate;
    use proptest::prelude::*;

    use super::*;

    fn user(text: &str) -> Source {
        Source { role: Role::User, told: Told { text: text.to_owned(), ..Told::default() } }
    }

    fn assistant(text: &str) -> Source {
        Source { role: Role::Assistant, told: Told { text: text.to_owned(), ..Told::default() } }
    }

    fn call(name: &str, key: &str, value: &str) -> Source {
        let call = Called { name: name.to_owned(), arguments: vec![(key.to_owned(), value.to_owned())] };
        Source { role: Role::Assistant, told: Told { calls: vec![call], ..Told::default() } }
    }

    fn result(text: &str) -> Source {
        Source { role: Role::Tool, told: Told { results: vec![text.to_owned()], ..Told::default() } }
    }

    #[test]
    fn what_a_later_reader_asks_for_is_there() {
        let sources = [
            user("Please fix the tide clock in the harbour office. Never push to main without review."),
            call("read_file", "path", "src/tide/clock.rs"),
            result("fn main() {}"),
            call("edit_file", "file_path", "src/tide/table.rs"),
            result("ok"),
            call("bash", "command", "cargo test -p tide"),
            result("running 12 tests\ntest result: FAILED. 11 passed; 1 failed\nExit code: 101"),
            assistant("We decided to use UTC instead of local time. The ticket is HARB-4711."),
        ];
        let Extract { text, mentions } = extract(&sources, 400, &Estimate);
        for part in [
            "asked: Please fix the tide clock",
            "rule: Never push to main without review.",
            "changed: src/tide/table.rs",
            "read: src/tide/clock.rs",
            "ran: cargo test -p tide -> exit 101",
            "decided: We decided to use UTC",
            "HARB-4711",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert_eq!(mentions[..2], ["src/tide/clock.rs".to_owned(), "src/tide/table.rs".to_owned()]);
    }

    #[test]
    fn a_later_plan_replaces_an_earlier_one_and_a_cancelled_request_says_so() {
        let sources = [
            user("Write the report about the pier"),
            call("todo", "x", "y"),
            result("1 pending, 2 pending"),
            call("todo", "x", "y"),
            result("1 pending, 2 cancelled"),
            user("stop, cancel the report"),
        ];
        let text = extract(&sources, 300, &Estimate).text;
        assert!(text.contains("plan: 1 pending, 2 cancelled") && !text.contains("2 pending"), "{text}");
        assert!(text.contains("report about the pier (then cancelled)"), "{text}");
    }

    #[test]
    fn lines_are_kept_when_summaries_are_summarised() {
        let first =
            "asked: build the pier\nrule: never dive alone\nchanged: a.rs\nread: b.rs; s/t/: d.rs e.rs\nnames: X-100";
        let second = "asked: paint the pier\nread: a.rs; c.rs";
        let text = condense(&[first, second], 1, 200, &Estimate).text;
        for part in [
            "rule: never dive alone",
            "asked: paint the pier",
            "changed: a.rs",
            "read: b.rs; s/t/: d.rs e.rs; c.rs",
            "names: X-100",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    proptest! {
        #[test]
        fn it_keeps_its_budget_is_never_empty_and_says_the_same_again(
            texts in prop::collection::vec("\\PC{0,200}|([a-zA-Z0-9./_-]{1,12} ){0,60}|[漢字量子。]{0,80}", 1..12),
            budget in 20_u64..600,
        ) {
            let sources: Vec<Source> = texts.iter().enumerate().map(|(n, text)| match n % 3 {
                0 => user(text),
                1 => assistant(text),
                _ => result(text),
            }).collect();
            let one = extract(&sources, budget, &Estimate);
            prop_assert_eq!(&one, &extract(&sources, budget, &Estimate));
            prop_assert!(!one.text.is_empty());
            let cost = u64::from(Estimate.count_text(&one.text));
            prop_assert!(cost <= budget + 12, "{cost} of {budget}: {}", one.text);
        }
    }
}
