//! A serving process and the lines to and from it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lcm_core::Json;
use lcm_tests::program;
use lcm_tests::run::Desk;

/// Longer than any answer takes on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A serving process.
pub(crate) struct Serving {
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Serving {
    /// Starts one at a desk; nothing was said to it.
    pub(crate) fn start(desk: &Desk) -> Self {
        let mut child = Self::spawn(desk);
        let output = child.stdout.take().unwrap();
        let (say, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { return };
                if say.send(line).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines }
    }

    /// The process with its pipes, for those that read it otherwise.
    pub(crate) fn spawn(desk: &Desk) -> Child {
        let mut command = desk.command(program!());
        command.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Starts one and opens the connection.
    pub(crate) fn open(desk: &Desk) -> Self {
        let mut serving = Self::start(desk);
        let told = serving.ask(r#"{"id":0,"method":"initialize","params":{"protocol":1,"client":{"name":"test"}}}"#);
        assert!(told.get("result").is_some(), "{told:?}");
        serving
    }

    /// Sends a line.
    pub(crate) fn say(&mut self, line: &str) {
        self.send(format!("{line}\n").as_bytes());
    }

    /// Sends bytes; that nobody reads them is no failure here.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        drop(input.write_all(bytes).and_then(|()| input.flush()));
    }

    /// The next line.
    pub(crate) fn line(&mut self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("an answer comes")
    }

    /// The next line as JSON.
    pub(crate) fn told(&mut self) -> Json {
        let line = self.line();
        Json::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub(crate) fn ask(&mut self, line: &str) -> Json {
        self.say(line);
        self.told()
    }

    /// Calls a verb; gives its result.
    pub(crate) fn call(&mut self, verb: &str, params: &str) -> Json {
        let told = self.ask(&format!(r#"{{"id":1,"method":"{verb}","params":{params}}}"#));
        told.get("result").unwrap_or_else(|| panic!("{verb}: {told:?}")).clone()
    }

    /// Ends the input; gives the lines that still came and the exit code.
    pub(crate) fn end(mut self) -> (Vec<String>, Option<i32>) {
        drop(self.input.take());
        let rest = self.lines.iter().collect();
        let code = self.child.wait().unwrap().code();
        let mut talk = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut talk).unwrap();
        assert!(!talk.contains("panicked"), "{talk}");
        (rest, code)
    }

    /// Bytes of memory that it holds.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Ended already, where the test went well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The code of an error.
pub(crate) fn code(told: &Json) -> i64 {
    told.get("error").and_then(|error| error.get("code")).and_then(Json::as_i64).unwrap_or_else(|| panic!("{told:?}"))
}

/// A text of a result.
pub(crate) fn text<'j>(result: &'j Json, name: &str) -> &'j str {
    result.get(name).and_then(Json::as_str).unwrap_or_else(|| panic!("{name} of {result:?}"))
}

/// A number of a result.
pub(crate) fn number(result: &Json, name: &str) -> u64 {
    result.get(name).and_then(Json::as_u64).unwrap_or_else(|| panic!("{name} of {result:?}"))
}
