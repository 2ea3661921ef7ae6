//! `import --watch`: what is new comes in when a file has grown, once, until a signal ends it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use lcm_core::Json;
use lcm_tests::program;
use lcm_tests::run::{Desk, fixture};
use rustix::process::{Pid, Signal, kill_process};

use crate::json_lines;

/// Longer than any look takes on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(desk: &Desk, paths: &[&str]) -> Self {
        let mut command = desk.command(program!());
        command.args(["import", "--watch", "--interval", "0.05", "--format", "json"]).args(paths);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (say, lines) = channel();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let told = say.clone();
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).for_each(|line| drop(say.send(line)));
        });
        std::thread::spawn(move || {
            BufReader::new(err).lines().map_while(Result::ok).for_each(|line| drop(told.send(line)));
        });
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line comes")
    }

    /// New messages of the next file that is taken in.
    fn taken(&self) -> u64 {
        let line = self.line();
        let json = Json::parse(line.as_bytes()).unwrap_or_else(|_| panic!("{line}"));
        json.get("new").and_then(Json::as_u64).unwrap()
    }

    /// Ends it; gives what it still said.
    fn end(mut self, signal: Signal) -> Vec<String> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        self.lines.iter().collect()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // Ended already, where the test went well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn append(path: &str, text: &str) {
    fs::File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn what_is_new_in_files_and_folders_comes_in_once() {
    let desk = Desk::new();
    fs::create_dir_all(desk.path("agents/deep/er")).unwrap();
    let whole = fs::read_to_string(fixture("import/claude-code.jsonl")).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    let file = desk.path("agents/deep/one.jsonl").display().to_string();
    append(&file, &lines[..10].concat());
    let watching = Watching::start(&desk, &[&desk.path("agents").display().to_string()]);
    let mut all = watching.taken();
    assert!(all > 0);
    // Half a line waits for its other half.
    let (half, rest) = lines[10].split_at(40);
    append(&file, half);
    append(&file, rest);
    append(&file, &lines[11..].concat());
    let plain = Desk::new();
    let imported = plain.run(&["import", &fixture("import/claude-code.jsonl"), "--format", "json"]);
    let expected = json_lines(&imported)[0].get("new").and_then(Json::as_u64).unwrap();
    while all < expected {
        all += watching.taken();
    }
    assert_eq!(all, expected);
    // A file that comes later, in a folder that was there, of another program.
    fs::copy(fixture("import/codex.jsonl"), desk.path("agents/deep/er/two.jsonl")).unwrap();
    assert_eq!(watching.taken(), 12);
    assert_eq!(watching.end(Signal::TERM), Vec::<String>::new());
    assert_eq!(desk.run(&["check"]).code, 0);
    // The same again: nothing is new, and nothing is said.
    let watching = Watching::start(&desk, &[&desk.path("agents").display().to_string()]);
    append(&desk.path("agents/three.jsonl").display().to_string(), "{\"role\":\"user\",\"content\":\"a\"}\n");
    assert_eq!(watching.taken(), 1);
    assert_eq!(watching.end(Signal::INT), Vec::<String>::new());
}

#[test]
fn what_cannot_be_read_is_named_once_and_the_rest_goes_on() {
    let desk = Desk::new();
    let odd = desk.put("odd.jsonl", "a letter to a friend\n");
    let later = desk.path("later.jsonl").display().to_string();
    let watching = Watching::start(&desk, &[&odd, &later]);
    let told = [watching.line(), watching.line()];
    assert!(told.iter().any(|line| line.contains("later.jsonl")), "{told:?}");
    assert!(told.iter().any(|line| line.contains("odd.jsonl") && line.contains("no format")), "{told:?}");
    append(&odd, "and another\n");
    append(&later, "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\n");
    // A broken line is named, the whole one comes in.
    let told = [watching.line(), watching.line()];
    assert!(told.iter().any(|line| line.contains("line 2")), "{told:?}");
    assert!(told.iter().any(|line| line.contains("\"new\":1")), "{told:?}");
    append(&later, "{\"role\":\"user\",\"content\":\"b\"}\n");
    assert_eq!(watching.taken(), 1);
    assert_eq!(watching.end(Signal::TERM), Vec::<String>::new());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let desk = Desk::new();
    for args in [
        &["import", "--watch", "-"][..],
        &["import", "--watch", "x.jsonl", "--session", "one"],
        &["import", "--interval", "1", "x.jsonl"],
        &["import", "--watch", "x.jsonl", "--interval", "0"],
        &["import", "--watch", "x.jsonl", "--interval", "soon"],
        &["import", "--watch"],
    ] {
        assert_eq!(desk.run(args).code, 2, "{args:?}");
    }
}
