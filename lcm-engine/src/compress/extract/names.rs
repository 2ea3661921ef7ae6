//! What a text names: files, addresses, ids, numbers, dates, people.
//!
//! A word is a name for its shape alone: an ending that files have, digits among letters, a scheme before it. Scripts
//! without blanks are taken apart where they meet ASCII, so that a path inside a Chinese sentence is found too.

use std::sync::LazyLock;

use super::signs::is_wide;

/// Bytes of one name; what is longer is data.
const NAME_BYTES: std::ops::RangeInclusive<usize> = 3..=160;
/// The least that two words of a person's or a product's name have, each.
const PROPER_CHARS_MIN: usize = 2;

/// Something that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Named<'t> {
    File(&'t str),
    /// An id, an address, a date: what a later reader looks for by its letters.
    Id(&'t str),
    /// A number, or a name of people and products: worth less by itself.
    Word(&'t str),
}

/// All that a text names, in order, as often as it does.
pub(super) fn names<'t>(text: &'t str, mut found: impl FnMut(Named<'t>)) {
    let mut capital: Option<(usize, usize)> = None;
    words(text, |start, raw| {
        let Some((at, word)) = trimmed(raw).map(|(from, word)| (start + from, word)) else {
            capital = None;
            return;
        };
        if let Some(file) = file(word) {
            found(Named::File(file));
            capital = None;
        } else if is_id(word) {
            found(Named::Id(word));
            capital = None;
        } else if is_number(word) {
            found(Named::Word(word));
            capital = None;
        } else if is_capital(word) {
            match capital {
                // Two capitals that only a blank parts: "Sofia Kim".
                Some((from, end)) if text[end..at].bytes().all(|byte| byte == b' ') => {
                    found(Named::Word(&text[from..at + word.len()]));
                    capital = None;
                }
                _ if begins_sentence(text, at) => capital = None,
                _ => capital = Some((at, at + word.len())),
            }
            if raw.len() != word.len() {
                capital = None;
            }
        } else {
            capital = None;
        }
    });
}

/// The files that a text names, and nothing else: what a tool printed is full of ids that nobody asks for.
pub(super) fn files<'t>(text: &'t str, mut found: impl FnMut(&'t str)) {
    let bytes = text.as_bytes();
    let mut done = 0;
    for dot in memchr::memchr_iter(b'.', bytes) {
        // An ending begins with a letter or a digit and follows something.
        let follows = dot > 0
            && (bytes[dot - 1].is_ascii_alphanumeric()
                || b"_-)]~+@".contains(&bytes[dot - 1])
                || bytes[dot - 1] >= 0x80);
        let is_ending = bytes.get(dot + 1).is_some_and(u8::is_ascii_alphanumeric);
        if dot < done || !follows || !is_ending || !has_known_ending(&bytes[dot + 1..]) {
            continue;
        }
        let from = bytes[done..dot].iter().rposition(|byte| is_break(*byte)).map_or(done, |at| done + at + 1);
        let end = bytes[dot..].iter().position(|byte| is_break(*byte)).map_or(bytes.len(), |at| dot + at);
        // Breaks are ASCII, so both are borders of characters.
        // `console.log(x)` and `lines.map(f)` call something.
        let is_called = bytes.get(end) == Some(&b'(');
        pieces(&text[from..end], from, &mut |_, word| {
            let named = trimmed(word).and_then(|(_, word)| file(word));
            if let Some(file) = named.filter(|file| !(is_called && is_often_called(file))) {
                found(file);
            }
        });
        done = end;
    }
}

/// Web addresses in a text, in order.
pub(super) fn addresses<'t>(text: &'t str, mut found: impl FnMut(&'t str)) {
    let bytes = text.as_bytes();
    let mut done = 0;
    for at in memchr::memmem::find_iter(bytes, b"://") {
        if at < done {
            continue;
        }
        let scheme = bytes[done..at].iter().rev().take(8).take_while(|byte| byte.is_ascii_alphabetic()).count();
        let is_end =
            |byte: &u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || b"\"'`<>()[]{}|\\".contains(byte);
        let end = bytes[at..].iter().position(is_end).map_or(bytes.len(), |length| at + length);
        if scheme >= 3 && end > at + 5 {
            if let Some((_, address)) = trimmed(&text[at - scheme..end]) {
                found(address);
            }
            done = end;
        }
    }
}

/// Whether an ending is more often a function's name than a file's, where there is no folder before it.
fn is_often_called(file: &str) -> bool {
    !file.contains(['/', '\\'])
        && file.rsplit_once('.').is_some_and(|(_, ending)| {
            matches!(
                ending,
                "map"
                    | "log"
                    | "key"
                    | "snap"
                    | "lock"
                    | "sample"
                    | "bin"
                    | "data"
                    | "env"
                    | "sig"
                    | "r"
                    | "d"
                    | "m"
                    | "s"
                    | "pub"
            )
        })
}

/// Whether an ending of files begins here, and ends where it should.
fn has_known_ending(bytes: &[u8]) -> bool {
    let length = bytes.iter().take(12).take_while(|byte| byte.is_ascii_alphanumeric()).count();
    str::from_utf8(&bytes[..length]).is_ok_and(|ending| length > 0 && is_ending(ending))
}

fn is_break(byte: u8) -> bool {
    // Every byte of what is summarised comes by here.
    matches!(
        byte,
        0..=b' '
            | 0x7f
            | b'"'
            | b'\''
            | b'`'
            | b'('
            | b')'
            | b'['
            | b']'
            | b'{'
            | b'}'
            | b'<'
            | b'>'
            | b','
            | b';'
            | b'|'
            | b'='
    )
}

/// Words with their positions.
fn words<'t>(text: &'t str, mut found: impl FnMut(usize, &'t str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if is_break(bytes[at]) {
            at += 1;
            continue;
        }
        let mut end = at;
        let mut is_address = false;
        let mut is_ascii = true;
        while end < bytes.len() {
            let byte = bytes[end];
            is_ascii &= byte < 0x80;
            // An address may hold what ends other words; "1,584" is one number.
            let is_grouped = byte == b','
                && end > at
                && bytes[end - 1].is_ascii_digit()
                && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
            if is_break(byte) && !is_grouped && !(is_address && b"=,;()".contains(&byte)) {
                break;
            }
            is_address |= byte == b'/' && end >= at + 2 && bytes[end - 1] == b'/' && bytes[end - 2] == b':';
            end += 1;
        }
        if is_ascii {
            found(at, &text[at..end]);
        } else {
            pieces(&text[at..end], at, &mut found);
        }
        at = end;
    }
}

/// A word cut where a script without blanks meets another; a path keeps its names in such a script.
fn pieces<'t>(word: &'t str, start: usize, found: &mut impl FnMut(usize, &'t str)) {
    if word.is_ascii() {
        found(start, word);
        return;
    }
    let mut from = 0;
    let mut before: Option<char> = None;
    for (at, c) in word.char_indices() {
        let is_mark = is_wide_mark(c);
        let parts = before.is_some_and(|before| {
            // "文档/说明.md" is one, "修改src/main.rs文件" is three.
            is_wide(before) != is_wide(c) && !matches!(c, '/' | '.' | '_' | '-') && !matches!(before, '/' | '_' | '-')
        });
        if is_mark || parts {
            if at > from {
                found(start + from, &word[from..at]);
            }
            from = if is_mark { at + c.len_utf8() } else { at };
        }
        before = Some(c);
    }
    if from < word.len() {
        found(start + from, &word[from..]);
    }
}

/// Full-width punctuation.
fn is_wide_mark(c: char) -> bool {
    matches!(c, '\u{3000}'..='\u{303f}' | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '“' | '”' | '‘' | '’' | '«' | '»' | '…' | '—' | '–')
}

/// A word without the punctuation around it, and where it begins; `None` where nothing is left.
fn trimmed(word: &str) -> Option<(usize, &str)> {
    let front = word
        .trim_start_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '.' | '~' | '$' | '#' | '@' | '_'));
    let from = word.len() - front.len();
    let word = front.trim_end_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '_' | '%' | '+' | '#'));
    NAME_BYTES.contains(&word.len()).then_some((from, word))
}

/// The path in a word, if it looks like that of a file: without the line number behind it.
pub(super) fn file(word: &str) -> Option<&str> {
    if word.contains("://") {
        return None;
    }
    // "src/a.rs:12:5" and "a.rs:" name a file; so does "C:\a.rs".
    let drive = usize::from(word.as_bytes().get(1) == Some(&b':') && word.contains('\\')) * 2;
    let word = word[drive..].find(':').map_or(word, |at| &word[..drive + at]);
    let is_mail = word.split_once('@').is_some_and(|(who, _)| !who.is_empty() && !who.contains('/'));
    if is_mail {
        return None;
    }
    let word = word.trim_start_matches(['@', '$', '#']).trim_end_matches(['.', '-', '_', '#', '@', '+', '%']);
    // A pattern for files is none.
    if !NAME_BYTES.contains(&word.len()) || word.ends_with('/') || word.contains(['*', '?']) {
        return None;
    }
    let last = word.rsplit(['/', '\\']).next().unwrap_or(word);
    let has_folder = last.len() < word.len();
    let ending = last.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, ending)| ending);
    let is_known = match ending {
        Some(ending) => is_ending(ending) || (has_folder && is_plausible(ending)),
        None => is_named_alone(last),
    };
    // A lone letter before the ending is a member of something: `e.c`, `x.h`.
    let stem = ending.map_or(last.len(), |ending| last.len() - ending.len() - 1);
    (is_known && (has_folder || stem >= 2 || ending.is_some_and(|ending| ending.len() >= 2)) && !last.starts_with(".."))
        .then_some(word)
}

/// Whether an ending that nobody knows may be one, behind a path.
fn is_plausible(ending: &str) -> bool {
    (1..=8).contains(&ending.len())
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && ending.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Files that have no ending.
fn is_named_alone(name: &str) -> bool {
    matches!(
        name,
        "Makefile"
            | "Dockerfile"
            | "Justfile"
            | "Vagrantfile"
            | "Jenkinsfile"
            | "Gemfile"
            | "Rakefile"
            | "Procfile"
            | "LICENSE"
            | "README"
            | "CHANGELOG"
            | "CODEOWNERS"
            | ".gitignore"
            | ".gitattributes"
            | ".dockerignore"
            | ".editorconfig"
            | ".env"
            | ".npmrc"
            | ".bashrc"
            | ".zshrc"
            | ".eslintrc"
            | ".prettierrc"
            | "crontab"
    )
}

fn is_ending(ending: &str) -> bool {
    packed(ending).is_some_and(|packed| ENDINGS.binary_search(&packed).is_ok())
}

/// An ending as a number, whatever its case; `None` where it is longer than any that is known. Asked for every full
/// stop in everything that is summarised.
fn packed(ending: &str) -> Option<u128> {
    let bytes = ending.bytes();
    (bytes.len() <= 12).then(|| bytes.fold(0, |packed, byte| packed << 8 | u128::from(byte.to_ascii_lowercase())))
}

/// Endings by which a file is known without a folder before it, packed and sorted.
static ENDINGS: LazyLock<Vec<u128>> = LazyLock::new(|| {
    let mut endings: Vec<u128> = "py pyi ipynb js mjs cjs jsx ts tsx mts cts vue svelte astro go rs java kt kts scala groovy rb erb php pl pm lua r jl \
     c h cc hh cpp hpp cxx cs fs swift m mm dart ex exs erl hs ml clj cljs lisp el vim asm s zig nim sol v vhd sv \
     sh bash zsh fish ps1 bat cmd sql graphql proto thrift avsc html htm xhtml css scss sass less styl xml xsl xsd svg \
     json jsonl json5 jsonc ndjson geojson yaml yml toml ini cfg conf config env properties lock plist tf tfvars hcl nix \
     md mdx markdown rst txt adoc tex bib org log csv tsv psv xls xlsx ods doc docx odt pdf ppt pptx odp rtf epub \
     png jpg jpeg gif webp bmp ico tiff heic psd ai fig mp3 mp4 m4a wav flac ogg mov avi mkv webm \
     zip tar gz tgz bz2 xz zst 7z rar jar war whl gem deb rpm dmg iso exe dll so dylib wasm bin dat db sqlite sqlite3 \
     parquet arrow feather npy npz pkl h5 onnx pt safetensors gguf pem key crt cer csr p12 pub asc sig \
     gradle cmake mk dockerfile makefile patch diff tmpl tpl j2 ejs hbs pug snap map example sample bak orig tmp eml ics \
     vcf gpx kml po pot ttf otf woff woff2 enc"
        .split_whitespace()
        .filter_map(packed)
        .collect();
    endings.sort_unstable();
    endings
});

/// Whether a word is an id, an address, a date, a constant.
pub(super) fn is_id(word: &str) -> bool {
    if !NAME_BYTES.contains(&word.len()) {
        return false;
    }
    let (mut digits, mut letters, mut capitals, mut joins) = (0, 0, 0, 0);
    for byte in word.bytes() {
        match byte {
            b'0'..=b'9' => digits += 1,
            b'a'..=b'z' => letters += 1,
            b'A'..=b'Z' => (letters, capitals) = (letters + 1, capitals + 1),
            b'-' | b'_' | b'.' | b'/' | b':' | b'#' | b'@' => joins += 1,
            _ => {}
        }
    }
    if word.contains("://") {
        return letters > 0;
    }
    let is_mail = word.split_once('@').is_some_and(|(who, host)| !who.is_empty() && host.contains('.'));
    let is_constant = capitals >= 3 && capitals == letters && word.contains('_');
    let is_branch = word.split_once('/').is_some_and(|(kind, rest)| {
        matches!(kind, "feature" | "feat" | "fix" | "bugfix" | "hotfix" | "release" | "chore" | "origin")
            && rest.len() >= 3
    });
    is_mail
        || is_constant
        || is_branch
        || (digits > 0 && letters > 0 && digits + letters >= 4)
        // Dates, times, versions, addresses, tickets: "2027-03-04", "15:30", "1.26", "#471".
        || (letters == 0 && joins > 0 && digits >= 2 && digits + joins >= 4 && digits + joins == word.len())
}

/// Whether a word is a number that means something.
fn is_number(word: &str) -> bool {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let is_amount = word.starts_with('$') || word.ends_with('%') || word.starts_with(['€', '£', '¥', '₽']);
    let only =
        word.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '$' | '%' | '€' | '£' | '¥' | '₽' | '+'));
    only && (digits >= 3 || (is_amount && digits > 0))
}

/// Whether a word begins with a capital and goes on in small letters.
fn is_capital(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(char::is_uppercase)
        && word.chars().nth(PROPER_CHARS_MIN - 1).is_some()
        && chars.all(|c| c.is_lowercase() || c == '\'')
}

/// Whether a sentence begins at a word, so that its capital says nothing.
fn begins_sentence(text: &str, at: usize) -> bool {
    let before = text[..at].trim_end_matches([' ', '"', '\'', '*', '(', '#', '-', '>']);
    before.is_empty() || before.ends_with(['.', '!', '?', ':', '\n', ';', '|', '。'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Named<'_>> {
        let mut all = Vec::new();
        names(text, |named| all.push(named));
        all
    }

    fn all_files(text: &str) -> Vec<&str> {
        let mut all = Vec::new();
        files(text, |file| all.push(file));
        all
    }

    #[test]
    fn names_are_found_by_their_shape() {
        use Named::{File, Id, Word};
        assert_eq!(
            all("See src/main.rs:12, HARB-4711 and https://a.example/x?y=1&z=(2), until 2027-03-04 15:30."),
            [File("src/main.rs"), Id("HARB-4711"), Id("https://a.example/x?y=1&z=(2"), Id("2027-03-04"), Id("15:30")]
        );
        assert_eq!(all("the cap is $812, or 1,584 for Sofia Kim"), [Word("$812"), Word("1,584"), Word("Sofia Kim")]);
        assert_eq!(
            all("Write to kim@harbour.example about MAX_RETRIES"),
            [Id("kim@harbour.example"), Id("MAX_RETRIES")]
        );
        assert_eq!(all("e.g. this and that. However Much it rains"), []);
        assert_eq!(all("修改src/main.rs文件，工单HARB-4711。"), [File("src/main.rs"), Id("HARB-4711")]);
        assert_eq!(all("см. файл документы/план.md и Makefile"), [File("документы/план.md"), File("Makefile")]);
        assert_eq!(all("文档/说明.md"), [File("文档/说明.md")]);
    }

    #[test]
    fn addresses_are_found_in_what_tools_print() {
        let mut all = Vec::new();
        addresses("see [it](https://ajv.example/x.md?a=b), ssh://host:22/y. Not ://, a://b", |address| {
            all.push(address);
        });
        assert_eq!(all, ["https://ajv.example/x.md?a=b", "ssh://host:22/y"]);
    }

    #[test]
    fn files_are_found_in_what_tools_print() {
        assert_eq!(
            all_files(
                "import {a} from \"./lib/agent.js\";\nself.value = x.y; console.log(src/**/*.ts)\nC:\\work\\plan.txt\nsrc/a.ts:12: b\n"
            ),
            ["./lib/agent.js", "C:\\work\\plan.txt", "src/a.ts"]
        );
        assert_eq!(all_files("对文档/说明.md的修改 http://x.example/a.html"), ["对文档/说明.md"]);
    }
}
