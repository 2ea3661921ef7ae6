//! Two settings of somebody's YAML file, changed in place: every other byte stays as it is.
//!
//! A host's settings are its owner's, with comments and an order of their own, so nothing is written anew. What is edited is
//! what people write: sections at the margin, with their keys indented under them, and lists in a line or below. An edit
//! counts only when a parser (`meaning`) finds that it changed what it should and nothing else. Anything else is
//! [`Unclear`], and the owner is told which lines to write.

mod meaning;

use self::meaning::Meaning;

/// The file is written in a way that is not changed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unclear;

/// A file, line by line; each line with its end.
struct Lines(Vec<String>);

/// What stands behind a key on its line: the value without a comment, and the comment with the blanks before it.
struct Behind<'a> {
    value: &'a str,
    comment: &'a str,
}

/// What a key of a section says; `None` where there is none.
pub(super) fn get(text: &str, section: &str, key: &str) -> Result<Option<String>, Unclear> {
    Ok(Meaning::of(text)?.text(section, key)?.map(str::to_owned))
}

/// The items of a list under a key of a section; none where there is no such key.
pub(super) fn list(text: &str, section: &str, key: &str) -> Result<Vec<String>, Unclear> {
    Ok(Meaning::of(text)?.list(section, key)?.into_iter().map(str::to_owned).collect())
}

/// An edit, when the setting is afterwards as it should be and all others are as they were.
fn checked(
    before: &str,
    after: String,
    section: &str,
    key: &str,
    is_right: impl FnOnce(&Meaning<'_>) -> Result<bool, Unclear>,
) -> Result<String, Unclear> {
    let is_so = {
        let meant = Meaning::of(&after)?;
        Meaning::of(before)?.others(section, key) == meant.others(section, key) && is_right(&meant)?
    };
    if is_so { Ok(after) } else { Err(Unclear) }
}

/// Lets a key of a section say something.
pub(super) fn set(text: &str, section: &str, key: &str, value: &str) -> Result<String, Unclear> {
    let after = with_value(text, section, key, value)?;
    checked(text, after, section, key, |meant| Ok(meant.text(section, key)? == Some(value)))
}

fn with_value(text: &str, section: &str, key: &str, value: &str) -> Result<String, Unclear> {
    let mut lines = Lines::of(text)?;
    match lines.key(section, key)? {
        None => lines.insert(section, &format!("{key}: {value}"))?,
        Some(at) => {
            let line = lines.0[at].clone();
            let Behind { value: old, comment } = behind(&line)?;
            if old.is_empty() && lines.is_deeper(at + 1, indent(&line)) {
                return Err(Unclear);
            }
            lines.0[at] = format!("{}{key}: {value}{comment}{}", " ".repeat(indent(&line)), end(&line));
        }
    }
    Ok(lines.0.concat())
}

/// Adds an item to a list, unless it is in it.
pub(super) fn add(text: &str, section: &str, key: &str, wanted: &str) -> Result<String, Unclear> {
    let mut items = list(text, section, key)?;
    if items.iter().any(|item| item == wanted) {
        return Ok(text.to_owned());
    }
    items.push(wanted.to_owned());
    let after = with_item(text, section, key, wanted)?;
    checked(text, after, section, key, |meant| Ok(meant.list(section, key)? == items))
}

fn with_item(text: &str, section: &str, key: &str, wanted: &str) -> Result<String, Unclear> {
    let mut lines = Lines::of(text)?;
    let Some(at) = lines.key(section, key)? else {
        lines.insert(section, &format!("{key}: [{wanted}]"))?;
        return Ok(lines.0.concat());
    };
    let line = lines.0[at].clone();
    let Behind { value, comment } = behind(&line)?;
    let margin = " ".repeat(indent(&line));
    let items = lines.items(at)?;
    match items.last() {
        Some(&last) => {
            let before = lines.0[last].clone();
            if !before.ends_with('\n') {
                lines.0[last].push('\n');
            }
            lines.0.insert(last + 1, format!("{}- {wanted}{}", " ".repeat(indent(&before)), end(&before)));
        }
        None => {
            let inside = match value {
                "" | "~" | "null" => wanted.to_owned(),
                value => match inner(value)?.is_empty() {
                    true => wanted.to_owned(),
                    false => format!("{}, {wanted}", value[1..value.len() - 1].trim()),
                },
            };
            lines.0[at] = format!("{margin}{key}: [{inside}]{comment}{}", end(&line));
        }
    }
    Ok(lines.0.concat())
}

/// Takes an item out of a list, if it is in it.
pub(super) fn remove(text: &str, section: &str, key: &str, unwanted: &str) -> Result<String, Unclear> {
    let mut items = list(text, section, key)?;
    if items.iter().all(|item| item != unwanted) {
        return Ok(text.to_owned());
    }
    items.retain(|item| item != unwanted);
    let after = without_item(text, section, key, unwanted)?;
    checked(text, after, section, key, |meant| Ok(meant.list(section, key)? == items))
}

fn without_item(text: &str, section: &str, key: &str, unwanted: &str) -> Result<String, Unclear> {
    let mut lines = Lines::of(text)?;
    let Some(at) = lines.key(section, key)? else { return Ok(text.to_owned()) };
    let line = lines.0[at].clone();
    let Behind { value, comment } = behind(&line)?;
    let margin = " ".repeat(indent(&line));
    let items = lines.items(at)?;
    if items.is_empty() {
        if !matches!(value, "" | "~" | "null") && inner(value)?.contains(&unwanted) {
            let left = value[1..value.len() - 1].split(',').map(str::trim).filter(|item| unquoted(item) != unwanted);
            let left: Vec<&str> = left.filter(|item| !item.is_empty()).collect();
            lines.0[at] = format!("{margin}{key}: [{}]{comment}{}", left.join(", "), end(&line));
        }
    } else {
        let found: Vec<usize> =
            items.iter().copied().filter(|at| item(&lines.0[*at]).is_some_and(|item| item == unwanted)).collect();
        if found.len() == items.len() {
            lines.0[at] = format!("{margin}{key}: []{comment}{}", end(&line));
        }
        for at in found.into_iter().rev() {
            lines.0.remove(at);
        }
    }
    Ok(lines.0.concat())
}

impl Lines {
    fn of(text: &str) -> Result<Self, Unclear> {
        let lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
        let said = |line: &&String| !is_blank(line) && !line.starts_with("---") && !line.starts_with('%');
        let is_unclear = lines.iter().find(said).is_some_and(|first| !is_key(first))
            || lines
                .iter()
                .skip_while(|line| is_blank(line) || line.starts_with('%'))
                .skip(1)
                .any(|line| line.starts_with("---"))
            || lines.iter().any(|line| line[..line.len() - line.trim_start().len()].contains('\t'));
        if is_unclear { Err(Unclear) } else { Ok(Self(lines)) }
    }

    /// The line of a section.
    fn section(&self, section: &str) -> Result<Option<usize>, Unclear> {
        let found: Vec<usize> = (0..self.0.len()).filter(|at| names(&self.0[*at], 0, section)).collect();
        match found.as_slice() {
            [] => Ok(None),
            [at] => Ok(Some(*at)),
            _ => Err(Unclear),
        }
    }

    /// The line of a key in a section.
    fn key(&self, section: &str, key: &str) -> Result<Option<usize>, Unclear> {
        let Some(at) = self.section(section)? else { return Ok(None) };
        match behind(&self.0[at])?.value {
            "" => {}
            "{}" | "~" | "null" => return Ok(None),
            _ => return Err(Unclear),
        }
        let Some(margin) = self.margin(at) else { return Ok(None) };
        Ok(self.inside(at).find(|line| names(&self.0[*line], margin, key)))
    }

    /// The lines of a section.
    fn inside(&self, section: usize) -> impl Iterator<Item = usize> {
        (section + 1..self.0.len()).take_while(|at| is_blank(&self.0[*at]) || indent(&self.0[*at]) > 0)
    }

    /// How far the keys of a section are indented; `None` where there are none.
    fn margin(&self, section: usize) -> Option<usize> {
        self.inside(section).find(|at| !is_blank(&self.0[*at])).map(|at| indent(&self.0[at]))
    }

    /// The lines of the items below a key; none where there are none.
    fn items(&self, key: usize) -> Result<Vec<usize>, Unclear> {
        let margin = indent(&self.0[key]);
        let mut items = Vec::new();
        for at in key + 1..self.0.len() {
            let line = &self.0[at];
            match item(line) {
                _ if is_blank(line) => {}
                Some(_) if indent(line) >= margin => items.push(at),
                _ if indent(line) > margin => return Err(Unclear),
                _ => break,
            }
        }
        Ok(items)
    }

    fn is_deeper(&self, from: usize, margin: usize) -> bool {
        self.0[from..].iter().find(|line| !is_blank(line)).is_some_and(|line| indent(line) > margin)
    }

    /// Puts a line at the beginning of a section, and the section at the end where there is none.
    fn insert(&mut self, section: &str, line: &str) -> Result<(), Unclear> {
        let Some(at) = self.section(section)? else {
            if let Some(last) = self.0.last_mut().filter(|last| !last.ends_with('\n')) {
                last.push('\n');
            }
            self.0.push(format!("{section}:\n  {line}\n"));
            return Ok(());
        };
        let own = self.0[at].clone();
        let Behind { value, comment } = behind(&own)?;
        if !matches!(value, "" | "{}" | "~" | "null") {
            return Err(Unclear);
        }
        self.0[at] = format!("{section}:{comment}\n");
        let margin = self.margin(at).unwrap_or(2);
        self.0.insert(at + 1, format!("{}{line}\n", " ".repeat(margin)));
        Ok(())
    }
}

fn is_blank(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn end(line: &str) -> &'static str {
    if line.ends_with("\r\n") { "\r\n" } else { "\n" }
}

/// Whether a line begins with a plain or quoted key.
fn is_key(line: &str) -> bool {
    line.split_once(':').is_some_and(|(key, rest)| {
        let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '/' | '"' | '\'');
        !key.trim().is_empty() && key.chars().all(plain) && (rest.is_empty() || rest.starts_with([' ', '\n', '\r']))
    })
}

/// Whether a line is that of a key at this margin.
fn names(line: &str, margin: usize, key: &str) -> bool {
    !is_blank(line)
        && indent(line) == margin
        && is_key(line)
        && line.trim_start().split_once(':').is_some_and(|(name, _)| unquoted(name.trim()) == key)
}

/// What stands behind the key of a line.
fn behind(line: &str) -> Result<Behind<'_>, Unclear> {
    let (_, rest) = line.trim_end_matches(['\n', '\r']).split_once(':').ok_or(Unclear)?;
    let comment = rest.find(" #").unwrap_or(rest.len());
    let (value, comment) = rest.split_at(comment);
    let kept = value.trim();
    // Blanks before a comment stay before it.
    let blanks = if comment.is_empty() { 0 } else { value.len() - value.trim_end().len() };
    let comment = &rest[value.len() - blanks..];
    if kept.starts_with(['&', '*', '!', '|', '>']) { Err(Unclear) } else { Ok(Behind { value: kept, comment }) }
}

/// The item of a line of a list.
fn item(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('-').filter(|rest| rest.starts_with([' ', '\n', '\r']))?;
    let rest = rest.find(" #").map_or(rest, |at| &rest[..at]);
    Some(unquoted(rest.trim()))
}

/// The items of a list on one line.
fn inner(value: &str) -> Result<Vec<&str>, Unclear> {
    let inside = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or(Unclear)?;
    if inside.contains(['[', ']', '{', '}']) {
        return Err(Unclear);
    }
    Ok(inside.split(',').map(|item| unquoted(item.trim())).filter(|item| !item.is_empty()).collect())
}

fn unquoted(text: &str) -> &str {
    let within = |quote| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# mine\nmodel:\n  default: big   # the good one\n\ncontext:\n  # which\n  engine: compressor  # was lcm\n\
                        plugins:\n  enabled:\n  - a\n  - \"b\"\n  disabled: [c]\nlast: 1\n";

    #[test]
    fn a_key_is_changed_and_every_other_byte_stays() {
        let changed = set(FILE, "context", "engine", "lcm").unwrap();
        assert_eq!(changed, FILE.replace("engine: compressor  # was", "engine: lcm  # was"));
        assert_eq!(get(&changed, "context", "engine"), Ok(Some("lcm".to_owned())));
        assert_eq!(get(&changed, "model", "default"), Ok(Some("big".to_owned())));
        assert_eq!(get(&changed, "model", "none"), Ok(None));
        assert_eq!(set(&changed, "context", "engine", "compressor").unwrap(), FILE);
    }

    #[test]
    fn a_section_that_is_missing_or_empty_is_made() {
        assert_eq!(set("", "context", "engine", "lcm").unwrap(), "context:\n  engine: lcm\n");
        assert_eq!(set("a: 1", "context", "engine", "lcm").unwrap(), "a: 1\ncontext:\n  engine: lcm\n");
        for empty in ["context:\na: 1\n", "context: {}\na: 1\n", "context: null\na: 1\n"] {
            assert_eq!(set(empty, "context", "engine", "lcm").unwrap(), "context:\n  engine: lcm\na: 1\n", "{empty}");
        }
        assert_eq!(
            set("context:\n    x: 1\n", "context", "engine", "lcm").unwrap(),
            "context:\n    engine: lcm\n    x: 1\n"
        );
    }

    #[test]
    fn lists_of_both_kinds_are_read_added_to_and_taken_from() {
        assert_eq!(list(FILE, "plugins", "enabled").unwrap(), ["a", "b"]);
        let added = add(FILE, "plugins", "enabled", "lcm").unwrap();
        assert_eq!(added, FILE.replace("  - \"b\"\n", "  - \"b\"\n  - lcm\n"));
        assert_eq!(add(&added, "plugins", "enabled", "lcm").unwrap(), added);
        assert_eq!(remove(&added, "plugins", "enabled", "lcm").unwrap(), FILE);
        for (before, after) in [
            ("plugins: {}\n", "plugins:\n  enabled: [lcm]\n"),
            ("plugins:\n  enabled: []  # none\n", "plugins:\n  enabled: [lcm]  # none\n"),
            ("plugins:\n  enabled: [a, 'b']\n", "plugins:\n  enabled: [a, 'b', lcm]\n"),
            ("plugins:\n  enabled:\n", "plugins:\n  enabled: [lcm]\n"),
            ("plugins:\n  enabled:\n    - a", "plugins:\n  enabled:\n    - a\n    - lcm\n"),
        ] {
            assert_eq!(add(before, "plugins", "enabled", "lcm").unwrap(), after);
            assert_eq!(list(after, "plugins", "enabled").unwrap().last().unwrap(), "lcm");
        }
        assert_eq!(
            remove("plugins:\n  enabled:\n  - lcm\nx: 1\n", "plugins", "enabled", "lcm").unwrap(),
            "plugins:\n  enabled: []\nx: 1\n"
        );
        assert_eq!(
            remove("plugins:\n  enabled: [a, lcm]\n", "plugins", "enabled", "lcm").unwrap(),
            "plugins:\n  enabled: [a]\n"
        );
    }

    #[test]
    fn what_would_mean_something_else_afterwards_is_left_alone() {
        let install =
            |text: &str| set(text, "context", "engine", "lcm").and_then(|text| add(&text, "plugins", "enabled", "lcm"));
        for unclear in [
            "plugins:\n  enabled: [a, b, ]\n",
            "a: 1\n...\n",
            "--- {a: 1}\n",
            "  a: 1\n  b: 2\n",
            "plugins:\n- a\n- b\n",
            "base: &b\n  enabled: [x, y]\nplugins:\n  <<: *b\n  disabled: []\n",
            "context:\n  engine: my\n    engine\n",
            "context:\n  engine: a\n  engine: b\n",
            "plugins:\n  enabled:\n  - - a\n  - - b\n",
            "plugins:\n  enabled: [a]\n  enabled: [b]\n",
        ] {
            assert_eq!(install(unclear), Err(Unclear), "{unclear}");
        }
        // What is not edited may be written in any way.
        let odd = "plugins:\n  disabled: [a,\n    b]\n";
        assert_eq!(remove(odd, "plugins", "disabled", "lcm").unwrap(), odd);
        let flow = "context: {engine: lcm}\nplugins: {enabled: [a, lcm]}\n";
        assert_eq!(
            (get(flow, "context", "engine"), list(flow, "plugins", "enabled").unwrap().len()),
            (Ok(Some("lcm".to_owned())), 2)
        );
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        for unclear in [
            "{\"context\": {\"engine\": \"x\"}}\n",
            "context: {engine: x}\n",
            "context: &c\n  engine: x\n",
            "context:\n\tengine: x\n",
            "context:\n  engine:\n    deeper: 1\n",
            "a: 1\n---\ncontext:\n  engine: x\n",
            "context:\n  engine: x\ncontext:\n  engine: y\n",
            "- a\n- b\n",
        ] {
            assert_eq!(set(unclear, "context", "engine", "lcm"), Err(Unclear), "{unclear}");
        }
        for unclear in
            ["plugins:\n  enabled: [a,\n    b]\n", "plugins:\n  enabled:\n    a: 1\n", "plugins:\n  enabled: a\n"]
        {
            assert_eq!(add(unclear, "plugins", "enabled", "lcm"), Err(Unclear), "{unclear}");
        }
    }
}
