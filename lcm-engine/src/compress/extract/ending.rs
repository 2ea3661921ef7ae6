//! How a command or another call ended, read from what came back.
//!
//! Only what a tool says of itself counts: its first and last lines, or the fields of an answer in JSON. A file that is
//! shown and speaks of errors has not failed.

use lcm_core::Json;

use super::lines::{ends, shortened};
use super::signs::Signs;

/// Lines at each end in which a tool says how it ended.
const EDGE_LINES: usize = 4;
/// Lines at each end in which an error is looked for, once it is known that there is one.
const ERROR_LINES: usize = 200;
/// A line that is longer is no message of a tool.
const LINE_BYTES_MAX: usize = 400;
/// Characters of what is quoted.
const QUOTED_CHARS: usize = 140;
/// An answer in JSON that is longer is data.
const JSON_BYTES_MAX: usize = 1 << 20;

/// How a call ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) code: Option<i64>,
    /// Stopped before it had done what it was asked.
    pub(super) is_interrupted: bool,
    pub(super) is_failed: bool,
    /// The line that says most: the error, or how many tests passed.
    pub(super) line: Option<String>,
}

impl Ending {
    /// Reads it; `is_marked` when the host says that it failed, `is_view` when what came back is what was looked at.
    pub(super) fn of(result: &str, is_marked: bool, is_view: bool) -> Self {
        let mut ending = Self { is_failed: is_marked, ..Self::default() };
        let trimmed = result.trim();
        let trimmed = if trimmed == "(no output)" { "" } else { trimmed };
        let fields = match trimmed.starts_with('{') && trimmed.len() <= JSON_BYTES_MAX {
            true => Json::parse(trimmed.as_bytes()).ok().filter(|json| json.as_object().is_some()),
            false => None,
        };
        match fields {
            Some(fields) => {
                let text = ending.fields(&fields);
                ending.text(&text, is_view);
            }
            None => ending.text(trimmed, is_view),
        }
        ending
    }

    /// How it is told behind a command.
    pub(super) fn told(&self) -> String {
        let code = self.code.map(|code| format!("exit {code}"));
        let state = match (self.is_interrupted, self.is_failed, &code) {
            (true, ..) => Some("interrupted"),
            (false, true, None) => Some("failed"),
            _ => None,
        };
        let how: Vec<&str> = code.as_deref().into_iter().chain(state).collect();
        let parts: Vec<String> =
            [how.join(", ")].into_iter().chain(self.line.clone()).filter(|part| !part.is_empty()).collect();
        if parts.is_empty() { String::new() } else { format!(" -> {}", parts.join(": ")) }
    }

    /// Takes what the fields say; the text that came with them.
    fn fields(&mut self, fields: &Json) -> String {
        let mut text = String::new();
        for (key, value) in fields.as_object().unwrap_or_default() {
            let Some(key) = key.as_str() else { continue };
            match key.to_ascii_lowercase().as_str() {
                "exit_code" | "exitcode" | "returncode" | "return_code" => self.code = value.as_i64().or(self.code),
                "success" | "ok" => self.is_failed |= value.as_bool() == Some(false),
                "is_error" | "failed" => self.is_failed |= value.as_bool() == Some(true),
                "interrupted" | "cancelled" | "canceled" | "timed_out" | "aborted" => {
                    self.is_interrupted |= value.as_bool() == Some(true);
                }
                "status" => match value.as_str().map(str::to_ascii_lowercase).as_deref() {
                    Some("interrupted" | "cancelled" | "canceled" | "timeout" | "aborted" | "killed") => {
                        self.is_interrupted = true;
                    }
                    Some("error" | "failed" | "failure") => self.is_failed = true,
                    _ => {}
                },
                "error" => {
                    if let Some(error) = value.as_str().filter(|error| !error.trim().is_empty()) {
                        self.is_failed = true;
                        self.line = Some(shortened(error, QUOTED_CHARS));
                    }
                }
                "output" | "stdout" | "stderr" | "content" | "result" | "message" => {
                    if let Some(said) = value.as_str() {
                        text.push_str(said);
                        text.push('\n');
                    }
                }
                _ => {}
            }
        }
        text
    }

    fn text(&mut self, text: &str, is_view: bool) {
        let [front, back] = ends(text);
        let back = if back.is_empty() { front } else { back };
        let short = |line: &&str| !line.is_empty() && line.len() <= LINE_BYTES_MAX;
        let first = || front.lines().map(str::trim).filter(short);
        let last = || back.lines().rev().map(str::trim).filter(short);
        for line in last().take(EDGE_LINES).chain(first().take(2)) {
            let lower = line.to_lowercase();
            if self.code.is_none() {
                self.code = exit_code(&lower);
            }
            self.is_interrupted |= is_interruption(&lower);
        }
        self.is_failed |= self.code.is_some_and(|code| code != 0);
        if self.is_interrupted {
            // What it printed before it was stopped is no result.
            self.is_failed = true;
            self.line = None;
            return;
        }
        let is_short = text.len() <= 600;
        if !self.is_failed && self.code.is_none() && is_short && !is_view {
            self.is_failed = first().take(1).chain(last().take(1)).any(is_error);
        }
        if self.line.is_none() && self.is_failed {
            let error = first().take(ERROR_LINES).find(|line| is_error(line));
            let error = error.or_else(|| last().take(ERROR_LINES).find(|line| is_error(line)));
            let error = error.or_else(|| last().find(|line| exit_code(&line.to_lowercase()).is_none()));
            self.line = error.map(|line| shortened(line, QUOTED_CHARS));
        } else if self.line.is_none() && !is_view {
            let is_count = |line: &&str| {
                let lower = line.to_ascii_lowercase();
                ["passed", "failed", "test result", "tests", "errors", "warnings"]
                    .iter()
                    .any(|word| lower.contains(word))
                    && line.bytes().any(|byte| byte.is_ascii_digit())
                    && !line.contains(['{', '"', '`'])
            };
            self.line = last().take(ERROR_LINES / 4).find(is_count).map(|line| shortened(line, QUOTED_CHARS));
        }
        // A line that is all there is answers.
        if self.line.is_none() && !text.is_empty() && text.len() <= QUOTED_CHARS && !text.contains('\n') && !is_view {
            self.line = Some(shortened(text, QUOTED_CHARS));
        }
    }
}

/// The exit code that a line names.
fn exit_code(lower: &str) -> Option<i64> {
    // A line of a program that only speaks of codes is none: "if code != 0 { exit(1) }".
    if lower.contains(['{', '(', '=', '"', '$']) && !lower.contains("(code ") {
        return None;
    }
    for mark in [
        "exited with",
        "exit code",
        "exit_code",
        "exit status",
        "exit:",
        "[exit",
        "returncode",
        "(code ",
        "non-zero exit status",
    ] {
        let Some(at) = lower.find(mark) else { continue };
        let rest = lower[at + mark.len()..].trim_start_matches([' ', ':', '[', '(']);
        let rest = ["code", "status"].iter().find_map(|word| rest.strip_prefix(word)).unwrap_or(rest);
        let rest = rest.trim_start_matches([' ', ':']);
        let end = rest.bytes().position(|byte| !byte.is_ascii_digit() && byte != b'-').unwrap_or(rest.len());
        if let Ok(code) = rest[..end].parse() {
            return Some(code);
        }
    }
    None
}

/// Whether a tool says that it was stopped.
fn is_interruption(lower: &str) -> bool {
    const WORDS: [&str; 7] = ["aborted", "interrupted", "cancelled", "canceled", "killed", "terminated", "прервано"];
    if lower.split_whitespace().count() > 14 || lower.contains(['{', '}', ';', '"', '=', '`']) {
        return false;
    }
    // Words as they stand: "run_is_interrupted ... ok" is the name of a test.
    let mut words = lower.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_counted = lower.split_whitespace().any(|word| word == "0" || word == "not" || word == "no");
    !is_counted
        && (words.any(|word| WORDS.contains(&word))
            || ["timed out", "^c", "中断", "キャンセル", "abgebrochen", "interrompu"]
                .iter()
                .any(|word| lower.contains(word)))
}

/// Whether a line is an error that a tool reports: it begins with one, or names one as programs do.
pub(super) fn is_error(line: &str) -> bool {
    if line.len() > LINE_BYTES_MAX || !Signs::of(line).has(Signs::FAILED) {
        // Panics and signals have words of their own.
        return line.len() <= LINE_BYTES_MAX && (line.contains("panicked at") || line.starts_with("Traceback"));
    }
    // Source code speaks of errors too.
    let is_code =
        line.ends_with(['{', ';', ',', '(']) || line.contains("=>") || line.contains("= ") || line.starts_with("//");
    if is_code {
        return false;
    }
    let head: String = line.chars().take(70).flat_map(char::to_lowercase).collect();
    [
        "error",
        "fatal",
        "exception",
        "panick",
        "failed",
        "failure",
        "cannot",
        "can't",
        "could not",
        "unable",
        "no such",
        "not found",
        "denied",
        "×",
        "✗",
        "错误",
        "失败",
        "ошибка",
        "エラー",
        "오류",
        "fehler",
        "erreur",
    ]
    .iter()
    .any(|word| head.contains(word))
        || line.contains(": No such file")
        || line.contains("rror:")
        || line.contains("not found")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(result: &str) -> String {
        Ending::of(result, false, false).told()
    }

    #[test]
    fn exit_codes_and_the_telling_line_are_read() {
        assert_eq!(
            told("running 12 tests\ntest result: FAILED. 11 passed; 1 failed\nExit code: 101"),
            " -> exit 101: test result: FAILED. 11 passed; 1 failed"
        );
        assert_eq!(told("a\nb\n12 passed in 0.3s"), " -> 12 passed in 0.3s");
        assert_eq!(
            told("x.ts(1,2): error TS1: no\n\nCommand exited with code 2"),
            " -> exit 2: x.ts(1,2): error TS1: no"
        );
        assert_eq!(
            told(r#"{"output":"a\nerror: no pier\n","exit_code":1,"error":null}"#),
            " -> exit 1: error: no pier"
        );
        assert_eq!(told("grep: a.ts: No such file or directory"), " -> failed: grep: a.ts: No such file or directory");
        assert_eq!(told("done\nand\nout"), "");
        assert_eq!(told("0.4.2"), " -> 0.4.2");
    }

    #[test]
    fn what_was_stopped_has_no_result() {
        assert_eq!(told("12 passed\n\nCommand aborted"), " -> interrupted");
        assert_eq!(told(r#"{"status":"interrupted","output":"12 passed"}"#), " -> interrupted");
        assert_eq!(told("[Request interrupted by user for tool use]"), " -> interrupted");
    }

    #[test]
    fn a_file_that_speaks_of_errors_has_not_failed() {
        for shown in [
            "function f() {\n\tthrow new Error(\"Compaction cancelled\");\n}",
            "if code != 0 { exit(1) }",
            "// Error: never seen\nconst exitCode = 1;",
        ] {
            assert_eq!(Ending::of(shown, false, true), Ending::default(), "{shown}");
        }
        assert!(Ending::of("anything", true, true).is_failed);
    }
}
