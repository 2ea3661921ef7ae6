//! Files: which were changed, read or only named, and how they are listed in few tokens.
//!
//! A file is one entry, however it is named: `clock.rs` is `src/tide/clock.rs` when that was named too. Lists name a
//! folder once, and what all have in common once; where even that is too long, files keep their own names only.
//! What is written here is read back when summaries are summarised.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use lcm_core::tokens::TokenCounter;

/// Files of one summary; what names more is an index.
const FILES_MAX: usize = 2000;
/// Characters of a name.
const FILE_CHARS_MAX: usize = 200;
/// A common beginning shorter than this is not worth a bracket.
const ROOT_BYTES_MIN: usize = 12;

/// What was done with a file; the later the stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Touch {
    /// Something that was printed names it.
    Printed,
    /// Somebody spoke of it.
    Named,
    Read,
    Changed,
}

/// Files, in order of first mention.
#[derive(Default)]
pub(super) struct Files {
    entries: Vec<(String, Touch)>,
    /// Entries by the last part of their path.
    by_name: HashMap<String, Vec<usize>>,
}

impl Files {
    pub(super) fn add(&mut self, path: &str, touch: Touch) {
        // Where a path begins from is not known any more.
        let mut path = path.trim();
        while let Some(inside) = path.strip_prefix("../").or_else(|| path.strip_prefix("./")) {
            path = inside;
        }
        let is_sane =
            !path.is_empty() && path.chars().nth(FILE_CHARS_MAX).is_none() && !path.contains(char::is_control);
        if !is_sane {
            return;
        }
        let name = own_name(path);
        let same = self.by_name.get(name).and_then(|known| {
            // The whole path itself, or else one that ends in the other at the border of a folder.
            let exact = known.iter().find(|at| self.entries[**at].0 == path);
            exact.or_else(|| {
                known.iter().find(|at| is_tail(&self.entries[**at].0, path) || is_tail(path, &self.entries[**at].0))
            })
        });
        match same {
            Some(&at) => {
                let (known, was) = &mut self.entries[at];
                if path.len() > known.len() {
                    path.clone_into(known);
                }
                *was = touch.max(*was);
            }
            None if self.entries.len() < FILES_MAX => {
                self.by_name.entry(name.to_owned()).or_default().push(self.entries.len());
                self.entries.push((path.to_owned(), touch));
            }
            None => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a word is the name or path of one of them.
    pub(super) fn has(&self, word: &str) -> bool {
        self.by_name.get(own_name(word)).is_some_and(|known| known.iter().any(|at| self.entries[*at].0.ends_with(word)))
    }

    /// All of them by what they are worth, then in order of first mention.
    pub(super) fn into_names(mut self) -> Vec<String> {
        self.entries.sort_by_key(|(_, touch)| *touch == Touch::Printed);
        self.entries.into_iter().map(|(path, _)| path).collect()
    }

    /// Lines that list them and cost at most `room`, each behind the word for its [`Touch`]. When room is short, folders
    /// go first, those of files that were changed last; then the files that were only printed, and the oldest.
    pub(super) fn lines(
        &self,
        room: u64,
        word: impl Fn(Touch) -> &'static str,
        counter: &dyn TokenCounter,
    ) -> Vec<String> {
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        order.sort_by_key(|&at| std::cmp::Reverse((self.entries[at].1, at)));
        let write = |kept: &[usize], has_folder: fn(Touch) -> bool| -> Option<Vec<String>> {
            let mut lines = Vec::new();
            for touch in [Touch::Changed, Touch::Read, Touch::Named] {
                let is_own = |at: &usize| self.entries[*at].1.max(Touch::Named) == touch;
                let mut own: Vec<usize> = kept.iter().copied().filter(is_own).collect();
                own.sort_unstable();
                let paths: Vec<&str> = own.iter().map(|at| self.entries[*at].0.as_str()).collect();
                if !paths.is_empty() {
                    lines.push(format!("{}{}", word(touch), listed(&paths, has_folder(touch))));
                }
            }
            let cost: u64 = lines.iter().map(|line| u64::from(counter.count_text(line)) + 1).sum();
            (cost <= room).then_some(lines)
        };
        let with_folders: [fn(Touch) -> bool; 4] =
            [|_| true, |touch| touch >= Touch::Read, |touch| touch >= Touch::Changed, |_| false];
        if let Some(lines) = with_folders.into_iter().find_map(|has_folder| write(&order, has_folder)) {
            return lines;
        }
        let (mut fits, mut over, mut best) = (0, order.len(), Vec::new());
        while over - fits > 1 {
            let middle = usize::midpoint(fits, over);
            match write(&order[..middle], |_| false) {
                Some(lines) => (fits, best) = (middle, lines),
                None => over = middle,
            }
        }
        best
    }
}

/// The last part of a path.
fn own_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// Whether a path ends in another one, from the border of a folder on.
fn is_tail(path: &str, tail: &str) -> bool {
    path.strip_suffix(tail).is_some_and(|before| before.ends_with(['/', '\\']))
}

/// Paths in one line: `(/srv/harbour) src/tide/: clock.rs table.rs; "/etc/hosts"`, or only their own names.
fn listed(paths: &[&str], has_folders: bool) -> String {
    // What would be read as something else stands in quotation marks.
    let is_odd = |path: &str| path.contains([' ', ';', '"', '(', ')']) || path.ends_with(':');
    let quoted = |path: &str| format!("\"{}\"", path.replace(['"', ';'], "'"));
    let mut parts: Vec<String> = Vec::new();
    if !has_folders {
        let mut seen = HashSet::new();
        let names = paths.iter().map(|path| own_name(path)).filter(|name| seen.insert(*name));
        let (odd, plain): (Vec<&str>, Vec<&str>) = names.partition(|name| is_odd(name));
        parts.extend((!plain.is_empty()).then(|| plain.join(" ")));
        parts.extend(odd.into_iter().map(quoted));
        return parts.join("; ");
    }
    let root = root(paths.iter().copied().filter(|path| !is_odd(path)));
    let inside = |path: &str| match root.is_empty() {
        true => Some(0),
        false => path.strip_prefix(root).is_some_and(|rest| rest.starts_with('/')).then_some(root.len() + 1),
    };
    let mut odd = Vec::new();
    let mut folders: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut at = HashMap::new();
    for path in paths {
        let Some(from) = inside(path).filter(|_| !is_odd(path)) else {
            odd.push(quoted(path));
            continue;
        };
        let path = &path[from..];
        let (folder, name) = path.rsplit_once('/').filter(|(folder, _)| !folder.is_empty()).unwrap_or(("", path));
        let known = *at.entry(folder).or_insert(folders.len());
        if known == folders.len() {
            folders.push((folder, Vec::new()));
        }
        folders[known].1.push(name);
    }
    parts.extend(folders.into_iter().map(|(folder, names)| match (folder, names.as_slice()) {
        ("", _) => names.join(" "),
        (_, [name]) => format!("{folder}/{name}"),
        _ => format!("{folder}/: {}", names.join(" ")),
    }));
    parts.extend(odd);
    let root = if root.is_empty() { String::new() } else { format!("({root}) ") };
    format!("{root}{}", parts.join("; "))
}

/// The folder in which most of these lie deep enough that naming it once saves most; empty where none does.
fn root<'p>(paths: impl Iterator<Item = &'p str>) -> &'p str {
    let folders: BTreeSet<&str> = paths.filter_map(|path| path.rsplit_once('/')).map(|(folder, _)| folder).collect();
    let mut under: BTreeMap<&str, usize> = BTreeMap::new();
    for folder in &folders {
        let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
        for end in ends.filter(|end| *end >= ROOT_BYTES_MIN) {
            *under.entry(&folder[..end]).or_default() += 1;
        }
    }
    let saved = |root: &str, count: usize| {
        let outside = folders.len() - count;
        (root.len() * (count - 1)).saturating_sub(outside * ROOT_BYTES_MIN)
    };
    let best = under.into_iter().max_by_key(|(root, count)| saved(root, *count));
    best.filter(|(root, count)| saved(root, *count) > 0).map_or("", |(root, _)| root)
}

/// The files of such a line.
pub(super) fn unlisted(line: &str) -> Vec<String> {
    let (root, line) = match line.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
        Some((root, rest)) => (format!("{root}/"), rest),
        None => (String::new(), line),
    };
    let mut files = Vec::new();
    for part in line.split("; ").filter(|part| !part.is_empty()) {
        if let Some(path) = part.strip_prefix('"').and_then(|part| part.strip_suffix('"')) {
            files.push(path.to_owned());
        } else if let Some((folder, names)) = part.split_once("/: ") {
            files.extend(names.split(' ').map(|name| format!("{root}{folder}/{name}")));
        } else {
            files.extend(part.split(' ').map(|name| format!("{root}{name}")));
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use lcm_core::tokens::Estimate;
    use proptest::prelude::*;

    use super::*;

    fn word(touch: Touch) -> &'static str {
        match touch {
            Touch::Changed => "changed: ",
            Touch::Read => "read: ",
            Touch::Named | Touch::Printed => "files: ",
        }
    }

    #[test]
    fn a_file_is_one_however_it_is_named() {
        let mut files = Files::default();
        files.add("clock.rs", Touch::Printed);
        files.add("/srv/harbour/src/clock.rs", Touch::Read);
        files.add("src/clock.rs", Touch::Changed);
        files.add("my clock.rs", Touch::Named);
        assert!(files.has("clock.rs") && files.has("src/clock.rs") && !files.has("lock.rs"));
        let lines = files.lines(100, word, &Estimate);
        assert_eq!(lines, ["changed: /srv/harbour/src/clock.rs", "files: \"my clock.rs\""]);
    }

    #[test]
    fn lists_get_shorter_with_the_room_and_changed_files_go_last() {
        let mut files = Files::default();
        for n in 0..20 {
            files.add(&format!("/srv/harbour/src/part{}/read{n}.rs", n % 5), Touch::Read);
            files.add(&format!("printed{n}.rs"), Touch::Printed);
        }
        files.add("/srv/harbour/src/part1/changed.rs", Touch::Changed);
        let all = files.lines(1000, word, &Estimate).join("\n");
        assert!(all.contains("read: (/srv/harbour/src) part0/: read0.rs read5.rs"), "{all}");
        let mut last = usize::MAX;
        for room in [1000, 120, 60, 30, 12] {
            let lines = files.lines(room, word, &Estimate).join("\n");
            assert!(lines.contains("changed.rs") && lines.len() <= last, "{room}: {lines}");
            assert!(u64::from(Estimate.count_text(&lines)) <= room, "{room}: {lines}");
            last = lines.len();
        }
        assert!(files.lines(0, word, &Estimate).is_empty());
    }

    proptest! {
        #[test]
        fn what_is_listed_is_read_back(
            paths in prop::collection::vec("(/srv/harbour/(src/)?)?([a-c]{1,2}/){0,3}[a-z0-9 _.;()\"字-]{1,8}\\.rs", 0..30),
        ) {
            let mut files = Files::default();
            paths.iter().for_each(|path| files.add(path, Touch::Read));
            let lines = files.lines(100_000, word, &Estimate);
            let line = lines.first().map_or("", |line| line.strip_prefix("read: ").unwrap());
            let mut back = unlisted(line);
            // Quotation marks and what ends a part are the only letters that are not kept.
            let mut names: Vec<String> = files.into_names().into_iter().map(|name| name.replace(['"', ';'], "'")).collect();
            names.sort();
            back.sort();
            prop_assert_eq!(back, names);
        }
    }
}
