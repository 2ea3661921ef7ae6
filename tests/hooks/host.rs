//! The host that stands in: its home with the plugin in it, its calls, and a process that serves.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lcm_core::Json;
use lcm_store::spool::{self, Spooled};
use lcm_tests::program;
use lcm_tests::run::Desk;

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Whose conversation a call is about.
pub(crate) const AGENT: &str = "6f8c2a9e-7d41-4a52-9a36-0d6b1f1c7e11";

/// A home of the host with our plugin.
pub(crate) struct Host {
    pub(crate) desk: Desk,
    hook: PathBuf,
    data: PathBuf,
}

/// What a call gave.
#[derive(Debug)]
pub(crate) struct Called {
    /// The answer: the one line that was written.
    pub(crate) answer: Json,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self::in_folder("librefang")
    }

    /// A home at a path on the desk.
    pub(crate) fn in_folder(name: &str) -> Self {
        let mut desk = Desk::new();
        let home = desk.path(name);
        let hooks = home.join("plugins").join("lcm").join("hooks");
        fs::create_dir_all(&hooks).unwrap();
        let hook = hooks.join("lcm-hook");
        symlink(program!(), &hook).unwrap();
        let data = home.join("lcm");
        desk.set("LCM_HOME", &data.display().to_string());
        Self { desk, hook, data }
    }

    /// The data directory that the hook is to find.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// The hook as the host starts it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lcm-sandbox"));
        command.arg(&self.hook).env_clear().current_dir("/");
        command
            .env("HOME", "/dev/null")
            .env("TMPDIR", "/nowhere")
            .env("PATH", "/usr/bin:/bin")
            .env("LIBREFANG_RUNTIME", "native")
            .env("LIBREFANG_SANDBOX", "1")
            .env("LIBREFANG_AGENT_ID", AGENT);
        command
    }

    pub(crate) fn call(&self, stdin: &[u8]) -> Called {
        call(self.command(), stdin)
    }

    /// Calls; the answer must be this.
    pub(crate) fn expect(&self, stdin: &[u8], answer: &str) {
        let called = self.call(stdin);
        assert_eq!(called.answer, Json::parse(answer.as_bytes()).unwrap(), "{}", shown(stdin));
        assert_eq!(called.stderr, "", "{}", shown(stdin));
    }

    /// What lies in the spool, all of it whole.
    pub(crate) fn spooled(&self) -> Vec<Spooled> {
        let names = spool::names(&self.data).unwrap();
        names.iter().map(|name| spool::read(&self.data, name).unwrap_or_else(|error| panic!("{error}"))).collect()
    }

    /// While somebody serves, only what may still be a secret lies in the spool.
    pub(crate) fn assert_only_what_waits_is_left(&self) {
        for spooled in self.spooled() {
            let request = Json::parse(&spooled.request).unwrap();
            let kind = request.get("type").and_then(Json::as_str).unwrap_or_default().to_owned();
            assert!(["assemble", "compact", "transform_tool_result"].contains(&&*kind), "{}", shown(&spooled.request));
        }
    }

    /// Starts a process that serves.
    pub(crate) fn serve(&self) -> Server {
        Server::start(&self.desk)
    }
}

/// Runs a hook; exit code, output and noise are checked.
pub(crate) fn call(mut command: Command, stdin: &[u8]) -> Called {
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let done = thread::scope(|scope| {
        // The host writes all before it reads; a hook that does not read to the end is a broken pipe to it.
        let writing = scope.spawn(move || input.write_all(stdin));
        let done = child.wait_with_output().unwrap();
        let written = writing.join().unwrap();
        assert!(written.is_ok(), "{}: it was not read to its end: {written:?}", shown(stdin));
        done
    });
    let took = begun.elapsed();
    let stderr = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{}: {}: {stderr}", shown(stdin), done.status);
    assert!(stderr.lines().count() <= 1 && !stderr.contains("panicked"), "{}: {stderr}", shown(stdin));
    let line = done.stdout.strip_suffix(b"\n").unwrap_or_else(|| panic!("{}: no whole line", shown(stdin)));
    assert!(!line.contains(&b'\n'), "{}: more than one line", shown(stdin));
    let answer = Json::parse(line).unwrap_or_else(|error| panic!("{}: {error}", shown(stdin)));
    assert!(matches!(answer, Json::Object(_)), "{}: {answer:?}", shown(stdin));
    Called { answer, stderr, took }
}

/// The beginning of what was said, for failures.
pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}

/// A process that serves, until it is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
}

impl Server {
    fn start(desk: &Desk) -> Self {
        let mut command = desk.command(program!());
        command.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        let first = r#"{"id":0,"method":"initialize","params":{"protocol":1,"client":{"name":"test"}}}"#;
        writeln!(input, "{first}").unwrap();
        let mut told = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut told).unwrap();
        assert!(told.contains(r#""result""#), "{told}");
        Self { child, input: Some(input) }
    }

    /// Ends it at once, as a crash does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it as its host does.
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already, where the test went well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A request for each hook that the host has.
pub(crate) fn requests() -> Vec<(&'static str, String)> {
    let window = messages(3, "a window");
    let token_pressure = r#"{"used_tokens":90,"max_tokens":100,"pressure":0.9,"recommendation":"critical"}"#;
    let of = |rest: &str| format!("{rest},\"agent_id\":\"{AGENT}\"}}\n");
    vec![
        (
            "bootstrap",
            "{\"type\":\"bootstrap\",\"context_window_tokens\":200000,\"max_recall_results\":5}\n".to_owned(),
        ),
        ("ingest", of(r#"{"type":"ingest","message":"Where is the station?","peer_id":null"#)),
        (
            "assemble",
            of(&format!(
                r#"{{"type":"assemble","system_prompt":"You help.","messages":{window},"context_window_tokens":8192"#
            )),
        ),
        (
            "compact",
            of(&format!(
                r#"{{"type":"compact","messages":{window},"model":"m","context_window_tokens":8192,"token_pressure":{token_pressure}"#
            )),
        ),
        (
            "transform_tool_result",
            of(
                r#"{"type":"transform_tool_result","tool_name":"ls","tool_use_id":"t1","input":{},"content":"a","is_error":false,"status":"completed""#,
            ),
        ),
        ("after_turn", of(&format!(r#"{{"type":"after_turn","messages":{window}"#))),
        ("prepare_subagent", "{\"type\":\"prepare_subagent\",\"parent_id\":\"a\",\"child_id\":\"b\"}\n".to_owned()),
        ("merge_subagent", "{\"type\":\"merge_subagent\",\"parent_id\":\"a\",\"child_id\":\"b\"}\n".to_owned()),
        (
            "on_event",
            "{\"type\":\"on_event\",\"event\":{\"name\":\"n\",\"payload\":{},\"source_plugin\":\"p\"}}\n".to_owned(),
        ),
    ]
}

/// A valid window of so many messages, each of which says `mark`, its number and nothing that another says.
pub(crate) fn messages(count: usize, mark: &str) -> String {
    let one = |n: usize| {
        let role = if n.is_multiple_of(2) { "user" } else { "assistant" };
        let (minute, second) = (n / 60 % 60, n % 60);
        format!(
            r#"{{"role":"{role}","content":"{mark} {n}","pinned":false,"timestamp":"2026-03-05T12:{minute:02}:{second:02}.000000001Z"}}"#
        )
    };
    let all: Vec<String> = (0..count).map(one).collect();
    format!("[{}]", all.join(","))
}

/// Reads what a process says until its end.
pub(crate) fn rest(mut from: impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text
}
