//! A process that serves an MCP client, and the lines to and from it.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lcm_core::Json;
use lcm_tests::program;
use lcm_tests::run::Desk;

/// Longer than any answer takes on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A client's end.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Client {
    /// Starts a process that has not heard anything yet.
    pub(crate) fn start(desk: &Desk, args: &[&str]) -> Self {
        let mut command = desk.command(program!());
        command.arg("mcp").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
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

    /// Starts one and begins, as a client that offers these capabilities.
    pub(crate) fn open(desk: &Desk, args: &[&str], capabilities: &str) -> Self {
        let mut client = Self::start(desk, args);
        let told = client.ask(0, "initialize", &format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"clientInfo":{{"name":"test","version":"1"}}}}"#
        ));
        assert_eq!(text(&told, &["result", "protocolVersion"]), "2025-11-25");
        client.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        client
    }

    pub(crate) fn say(&mut self, line: &str) {
        self.send(format!("{line}\n").as_bytes());
    }

    /// Sends bytes; that nobody reads them is no failure here.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        drop(input.write_all(bytes).and_then(|()| input.flush()));
    }

    /// The next line.
    pub(crate) fn told(&self) -> Json {
        let line = self.lines.recv_timeout(PATIENCE).expect("an answer comes");
        Json::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Calls a method; gives the whole answer.
    pub(crate) fn ask(&mut self, id: u64, method: &str, params: &str) -> Json {
        self.say(&request(id, method, params));
        let told = self.told();
        assert_eq!(told.get("id").and_then(Json::as_u64), Some(id), "{told:?}");
        told
    }

    /// Calls a tool; gives its result.
    pub(crate) fn call(&mut self, name: &str, arguments: &str) -> Json {
        let told = self.ask(1, "tools/call", &format!(r#"{{"name":"{name}","arguments":{arguments}}}"#));
        told.get("result").unwrap_or_else(|| panic!("{name}: {told:?}")).clone()
    }

    /// Calls a tool; gives what it says.
    pub(crate) fn answer(&mut self, name: &str, arguments: &str) -> Json {
        Json::parse(said(&self.call(name, arguments)).as_bytes()).unwrap()
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
}

impl Drop for Client {
    fn drop(&mut self) {
        // Ended already, where the test went well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn request(id: u64, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// What stands under some keys, one in the other.
pub(crate) fn at<'j>(json: &'j Json, keys: &[&str]) -> &'j Json {
    keys.iter().fold(json, |json, key| json.get(key).unwrap_or_else(|| panic!("{key} of {json:?}")))
}

pub(crate) fn text<'j>(json: &'j Json, keys: &[&str]) -> &'j str {
    at(json, keys).as_str().unwrap_or_else(|| panic!("{keys:?} of {json:?}"))
}

/// The text of a tool's result.
pub(crate) fn said(result: &Json) -> &str {
    let content = at(result, &["content"]).as_array().unwrap();
    assert_eq!(content.len(), 1, "{result:?}");
    text(&content[0], &["text"])
}

/// The code and the sentence of an error.
pub(crate) fn error(told: &Json) -> (i64, &str) {
    (at(told, &["error", "code"]).as_i64().unwrap(), text(told, &["error", "message"]))
}

/// A desk with a store of these sessions, each of an agent, a person, a name and what was said.
pub(crate) fn desk(sessions: &[(&str, &str, &str, &[&str])]) -> Desk {
    let desk = Desk::new();
    for (agent, person, name, said) in sessions {
        let messages: Vec<Json> =
            said.iter().map(|said| Json::object([("role", "user".into()), ("content", (*said).into())])).collect();
        let file = desk.put("list.json", Json::Array(messages).to_text());
        let ran = desk.run(&["import", &file, "--agent", agent, "--person", person, "--session", name]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    desk
}
