//! The long-lived protocol in the hands of the same host: one process, answers by their ids, and the spool where the store
//! cannot be used.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use lcm_core::Json;
use lcm_engine::spool;
use lcm_tests::program;
use lcm_tests::run::Desk;

const USER: &str =
    r#"{"role":"user","content":"the orchid is blue","pinned":false,"timestamp":"2026-12-01T10:00:00.000000001Z"}"#;
const CLOCK: &str = r#"{"role":"user","content":"[Current date/time: Tuesday, December 01, 2026 11:23 +00:00]","pinned":false,"timestamp":"2026-12-01T10:00:00.000000002Z"}"#;

struct Sidecar {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Sidecar {
    fn start(desk: &Desk) -> Self {
        let mut command = desk.command(program!());
        command.arg("sidecar").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn told(&mut self) -> Json {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        Json::parse(line.as_bytes()).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn ask(&mut self, id: u64, method: &str, params: &str) -> Json {
        self.say(&format!(r#"{{"id":{id},"method":"{method}","params":{params}}}"#));
        let told = self.told();
        assert_eq!(told.get("id").and_then(Json::as_u64), Some(id));
        told
    }

    fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn list(messages: &[&str]) -> String {
    format!(
        r#"{{"agent_id":"a","system_prompt":"s","tools":[{{"name":"t"}}],"context_window_tokens":16384,"messages":[{}]}}"#,
        messages.join(",")
    )
}

#[test]
fn a_turn_is_answered_and_kept() {
    let desk = Desk::new();
    let mut sidecar = Sidecar::start(&desk);
    assert!(sidecar.ask(1, "bootstrap", "{}").get("ok").is_some());
    let told = sidecar.ask(2, "ingest", r#"{"agent_id":"a","user_message":"the orchid is blue","peer_id":null}"#);
    assert_eq!(told.get("ok").unwrap().get("recalled_memories"), Some(&Json::Array(Vec::new())));
    let told = sidecar.ask(3, "assemble", &list(&[USER, CLOCK]));
    let shown = told.get("ok").unwrap().get("messages").unwrap().as_array().unwrap().to_vec();
    assert_eq!(shown, [USER, CLOCK].map(|text| Json::parse(text.as_bytes()).unwrap()));
    // The host puts the date into the message that it stands behind.
    let merged = USER.replace("blue\"", "blue\\n\\n[Current date/time: Tuesday, December 01, 2026 11:23 +00:00]\"");
    assert!(sidecar.ask(4, "after_turn", &list(&[&merged])).get("ok").is_some());
    sidecar.end();
    let ran = desk.run(&["log", "#1"]);
    assert!(ran.stdout.contains("the orchid is blue") && !ran.stdout.contains("Current date"), "{}", ran.stdout);
}

#[test]
fn calls_of_many_agents_are_answered_by_their_ids() {
    let desk = Desk::new();
    let mut sidecar = Sidecar::start(&desk);
    for id in 0..40 {
        let params = list(&[USER]).replace(r#""agent_id":"a""#, &format!(r#""agent_id":"a{id}""#));
        sidecar.say(&format!(r#"{{"id":{id},"method":"assemble","params":{params}}}"#));
    }
    let mut ids: Vec<u64> = (0..40).map(|_| sidecar.told().get("id").and_then(Json::as_u64).unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..40).collect::<Vec<_>>());
    sidecar.end();
}

#[test]
fn odd_lines_are_refused_or_passed_over_and_the_next_one_is_answered() {
    let desk = Desk::new();
    let mut sidecar = Sidecar::start(&desk);
    for odd in ["", "no json", "{", "\u{feff}"] {
        sidecar.say(odd);
    }
    for odd in
        ["null", "[]", "7", "{}", r#"{"id":9}"#, r#"{"id":9,"method":7}"#, r#"{"id":9,"method":"compact","params":{}}"#]
    {
        sidecar.say(odd);
        assert!(sidecar.told().get("error").is_some(), "{odd}");
    }
    for params in ["null", "[]", r#"{"messages":7}"#, r#"{"type":"after_turn","messages":[]}"#] {
        assert!(sidecar.ask(1, "assemble", params).get("ok").is_some(), "{params}");
    }
    sidecar.end();
}

#[test]
fn what_cannot_be_kept_now_is_left_in_the_spool_and_taken_in_later() {
    let desk = Desk::new();
    // A store of a newer version: nothing can be opened.
    std::fs::create_dir_all(desk.home()).unwrap();
    std::fs::write(desk.home().join("CURRENT"), "not a store\n").unwrap();
    let mut sidecar = Sidecar::start(&desk);
    let told = sidecar.ask(1, "after_turn", &list(&[USER]));
    assert!(told.get("ok").is_some(), "{told:?}");
    sidecar.end();
    assert_eq!(spool::names(&desk.home()).unwrap().len(), 1);
    std::fs::remove_file(desk.home().join("CURRENT")).unwrap();
    let mut sidecar = Sidecar::start(&desk);
    sidecar.ask(1, "ingest", r#"{"agent_id":"a","user_message":"x","peer_id":null}"#);
    sidecar.end();
    assert_eq!(spool::names(&desk.home()).unwrap().len(), 0);
    assert!(desk.run(&["log", "#1"]).stdout.contains("the orchid is blue"));
}
