//! `compress` and `replay`: lists are made shorter and nothing is lost. What summaries say is the engine's affair, so
//! figures are looked at, not texts.

use std::fs;

use lcm_core::Json;
use lcm_tests::run::{Desk, Ran, fixture};

use crate::{json_lines, text_of};

/// A conversation of some thousand tokens with calls, in OpenAI's format.
pub(crate) fn talk(steps: usize) -> String {
    let mut lines = vec![r#"{"role":"system","content":"You keep the tide tables."}"#.to_owned()];
    for n in 0..steps {
        let filler = format!("reading {n} of gauge {n} at pier {n}; ").repeat(12);
        lines.push(format!(r#"{{"role":"user","content":"Request {n}: look at gauge {n}."}}"#));
        lines.push(format!(
            r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{n}","type":"function","function":{{"name":"read","arguments":"{{\"path\":\"gauge/{n}.log\"}}"}}}}]}}"#
        ));
        lines.push(format!(r#"{{"role":"tool","tool_call_id":"c{n}","content":"{filler}"}}"#));
        lines.push(format!(r#"{{"role":"assistant","content":"Gauge {n} stands at {n} metres."}}"#));
    }
    lines.join("\n") + "\n"
}

pub(crate) fn number(json: &Json, key: &str) -> u64 {
    json.get(key).and_then(Json::as_u64).unwrap_or_else(|| panic!("no number {key} in {json:?}"))
}

/// What of a replayed session is lost, doubled or moved: behind its last list, and in the store.
fn differences(session: &Json) -> Vec<u64> {
    let of = |part: &str| {
        let part = session.get(part).unwrap_or_else(|| panic!("no {part} in {session:?}")).clone();
        ["lost", "doubled", "moved"].map(|key| number(&part, key))
    };
    [of("behind"), of("held")].concat()
}

fn only(ran: &Ran) -> Json {
    let mut lines = json_lines(ran);
    assert_eq!(lines.len(), 1, "{ran:?}");
    lines.remove(0)
}

#[test]
fn what_goes_into_a_request_is_told_with_its_reasons() {
    let desk = Desk::new();
    let file = desk.put("tides.jsonl", talk(20));
    assert_eq!(desk.run(&["import", &file]).code, 0);
    // As long as nothing is folded away there is nothing to select.
    let whole = only(&desk.run(&["select", "tides", "--format", "json"]));
    assert!(text_of(&whole, "reason").contains("nothing of it is folded"), "{whole:?}");
    assert_eq!(desk.run(&["compress", "tides", "--threshold", "1500"]).code, 0);
    let asked = ["select", "tides", "--query", "How high does gauge 3 stand?"];
    let done = only(&desk.run(&[&asked[..], &["--format", "json"]].concat()));
    let recalled = done.get("recalled").and_then(Json::as_array).unwrap();
    assert!(
        !recalled.is_empty() && recalled.iter().all(|one| !one.get("reasons").unwrap().as_array().unwrap().is_empty())
    );
    let list = String::from_utf8(done.get("messages").unwrap().to_text()).unwrap();
    for one in recalled {
        assert!(list.contains(&format!("[lcm:recall {}", text_of(one, "handle"))), "{one:?} is not shown: {list}");
    }
    let told = desk.run(&[&asked[..], &["--explain"]].concat());
    assert_eq!(
        (told.code, told.stdout.lines().filter(|line| line.starts_with("recalled")).count()),
        (0, recalled.len())
    );
    // Nothing of it is history.
    let shown = desk.run(&["show", "tides", "--at", "now"]).stdout;
    assert!(!shown.contains("[lcm:recall"));
}

#[test]
fn a_session_is_compressed_to_a_list_that_stands_for_all_of_it() {
    let desk = Desk::new();
    let file = desk.put("tides.jsonl", talk(20));
    assert_eq!(desk.run(&["import", &file]).code, 0);
    let done = only(&desk.run(&["compress", "tides", "--threshold", "1500", "--format", "json"]));
    assert!(number(&done, "tokens_after") <= 1500 && number(&done, "tokens_before") > 1500, "{done:?}");
    let folds = done.get("folds").and_then(Json::as_array).unwrap();
    let messages = done.get("messages").and_then(Json::as_array).unwrap();
    assert!(!folds.is_empty() && messages.len() < 81);
    // It is what the session shows from now on, and what it stands for is all that was said.
    let shown = desk.run(&["show", "tides", "--at", "now", "--format", "json"]);
    let stands_for: u64 =
        json_lines(&shown).iter().map(|item| item.get("messages").and_then(Json::as_u64).unwrap_or(1)).sum();
    assert_eq!(stands_for, 81);
    let raw = desk.run(&["compress", "tides", "--threshold", "1500"]);
    assert_eq!(raw.code, 0);
    assert!(raw.stderr.starts_with("the list is as it was: "), "{raw:?}");
    // Unfolding all of it gives the session back, as it was said.
    for fold in folds {
        assert_eq!(desk.run(&["unfold", &text_of(fold, "handle")]).code, 0);
    }
    while let Some(sum) = json_lines(&desk.run(&["show", "tides", "--at", "now", "--format", "json"]))
        .iter()
        .map(|item| text_of(item, "handle"))
        .find(|handle| handle.starts_with("sum_"))
    {
        assert_eq!(desk.run(&["unfold", &sum]).code, 0);
    }
    assert_eq!(
        desk.run(&["show", "tides", "--at", "now", "--raw"]).stdout,
        desk.run(&["show", "tides", "--raw"]).stdout
    );
    assert_eq!(desk.run(&["check"]).code, 0);
}

#[test]
fn a_file_is_taken_in_and_compressed() {
    let desk = Desk::new();
    let file = desk.put("tides.jsonl", talk(20));
    let ran = desk.run(&["compress", &file, "--threshold", "1500", "--focus", "gauge 3"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains(" tokens became ") && ran.stdout.lines().count() < 81, "{ran:?}");
    assert!(ran.stdout.lines().all(|line| Json::parse(line.as_bytes()).is_ok()));
    let sessions = json_lines(&desk.run(&["sessions", "--format", "json"]));
    assert_eq!((sessions.len(), number(&sessions[0], "messages")), (1, 81));
    // From standard input too, and under the name of that.
    assert_eq!(desk.run_with(&["compress", "-", "--threshold", "1500"], talk(9)).code, 0);
    assert_eq!(desk.run(&["log", "stdin", "-n", "1"]).code, 0);
}

#[test]
fn a_dry_run_tells_and_keeps_nothing() {
    let desk = Desk::new();
    let file = desk.put("tides.jsonl", talk(20));
    let ran = desk.run(&["compress", &file, "--threshold", "1500", "--dry-run"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains(" tokens became ") && ran.stdout.contains(" would become "), "{ran:?}");
    assert!(!desk.home().exists());
    assert_eq!(desk.run(&["import", &file]).code, 0);
    let before = desk.run(&["log", "tides", "--ops", "--format", "json"]).stdout;
    let done = only(&desk.run(&["compress", "tides", "--threshold", "1500", "-n", "--format", "json"]));
    assert!(number(&done, "tokens_after") <= 1500 && done.get("messages").is_none(), "{done:?}");
    assert_eq!(desk.run(&["log", "tides", "--ops", "--format", "json"]).stdout, before);
}

#[test]
fn below_the_threshold_the_list_is_as_it_was_unless_forced() {
    let desk = Desk::new();
    let file = desk.put("tides.jsonl", talk(20));
    let ran = desk.run(&["compress", &file]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 81), "{ran:?}");
    assert!(ran.stderr.contains("within the threshold of 96000"), "{ran:?}");
    let ran = desk.run(&["compress", "tides", "--force", "--format", "json"]);
    let done = only(&ran);
    assert!(number(&done, "tokens_after") < number(&done, "tokens_before"), "{done:?}");
}

#[test]
fn a_list_that_cannot_be_made_short_enough_says_so() {
    let desk = Desk::new();
    let file = desk.put("one.jsonl", format!("{{\"role\":\"user\",\"content\":\"{}\"}}\n", "long ".repeat(2000)));
    let ran = desk.run(&["compress", &file, "--threshold", "20"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (4, 1), "{ran:?}");
    assert!(ran.stderr.starts_with("the list is as it was: "), "{ran:?}");
}

#[test]
fn what_cannot_be_compressed_or_replayed_is_refused_in_one_sentence() {
    let desk = Desk::new();
    let two = desk.put(
        "two.jsonl",
        r#"{"session_id":"a","messages":[{"role":"user","content":"x"}]}
{"session_id":"b","messages":[{"role":"user","content":"y"}]}
"#,
    );
    let letter = desk.put("letter.txt", "Dear Ada,\n");
    let empty = desk.put("empty.jsonl", "");
    let mut said = String::new();
    for args in [
        &["compress", &two][..],
        &["compress", &letter],
        &["compress", &empty],
        &["compress", &two, "--window", "0"],
        &["compress", &two, "--window", "many"],
        &["compress", &two, "--window", "1000", "--threshold", "2000"],
        &["compress", &two, "--summarizer", "http"],
        &["replay", "/no/such/file"],
        &["replay", &letter],
        &["replay", &empty],
        &["replay", &two, "--session", "c"],
        &["replay", &two, "--window", "1000", "--threshold", "2000"],
    ] {
        let ran = desk.run(args);
        assert!(ran.code == 1 || ran.code == 2, "{args:?}: {ran:?}");
        assert!(ran.stdout.is_empty(), "{args:?}: {ran:?}");
        said.push_str(&format!("{}\n", ran.all()));
    }
    assert!(!desk.home().join("CURRENT").exists() || desk.run(&["sessions"]).code == 1, "nothing was taken in");
    assert_eq!(desk.run(&["import", &two]).code, 0);
    said.push_str(&desk.run(&["compress", "nobody"]).all());
    insta::assert_snapshot!(said);
}

#[test]
fn a_session_is_replayed_and_every_original_comes_back() {
    let desk = Desk::new();
    let file = desk.put("tides.jsonl", talk(40));
    let ran = desk.run(&["replay", &file, "--window", "2000", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = json_lines(&ran);
    let [session, end] = lines.as_slice() else { panic!("{ran:?}") };
    assert_eq!((number(session, "messages"), number(session, "requests")), (161, 80));
    assert!(number(session, "compressions") > 0 && number(session, "folds") > 0, "{session:?}");
    assert_eq!(differences(session), [0; 6]);
    // In budget, or there is a reason why not.
    let tokens = session.get("request_tokens").and_then(Json::as_array).unwrap();
    let over = tokens.iter().filter(|tokens| tokens.as_u64().unwrap() > 1500).count();
    assert_eq!(over, session.get("unchanged").and_then(Json::as_array).unwrap().len(), "{session:?}");
    assert_eq!((number(session, "over_window"), number(session, "window")), (0, 2000));
    assert!(number(session, "stable_permille") > 500, "{session:?}");
    assert_eq!(end.get("right"), Some(&Json::from(true)));
    // For people: the chart, the tree, the verdicts.
    let text = desk.run(&["replay", &file, "--window", "2000"]);
    for part in [
        "tokens; a column is 2 requests",
        "─ sum_",
        "every list of ours is valid",
        "all 161 originals come back equal",
        "everything is whole",
    ] {
        assert!(text.stdout.contains(part), "no {part:?} in {}", text.stdout);
    }
    // The store it was done in is gone, and nothing was taken in elsewhere.
    assert!(!desk.home().exists());
}

#[test]
fn a_store_that_is_named_keeps_what_was_replayed() {
    let desk = Desk::new();
    let file = desk.put("tides.jsonl", talk(20));
    let home = desk.path("kept").display().to_string();
    for _ in 0..2 {
        // Again: it is all there, and comes back all the same.
        let ran = desk.run(&["replay", &file, "--window", "2000", "--home", &home]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let sessions = json_lines(&desk.run(&["sessions", "--home", &home, "--format", "json"]));
        assert_eq!((sessions.len(), number(&sessions[0], "messages")), (1, 81));
    }
    assert_eq!(desk.run(&["check", "--home", &home]).code, 0);
}

#[test]
fn packed_files_and_one_session_of_many_are_replayed() {
    let desk = Desk::new();
    let sample = fixture("sample/sample.sessions.jsonl.gz");
    let ran = desk.run(&["replay", &sample, "--session", "tau:", "--window", "6000", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = json_lines(&ran);
    assert_eq!(lines.len(), 5, "{ran:?}");
    assert!(lines[..4].iter().all(|line| text_of(line, "session").starts_with("tau:")));
    assert!(lines[..4].iter().any(|line| number(line, "compressions") > 0), "{ran:?}");
}

#[test]
fn a_broken_line_is_named_and_the_rest_is_replayed() {
    let desk = Desk::new();
    let ran = desk.run(&["replay", &fixture("import/messages.broken-line.jsonl"), "--format", "json"]);
    assert_eq!(ran.code, 3, "what could not be read was not replayed: {ran:?}");
    let lines = json_lines(&ran);
    assert_eq!((differences(&lines[0]), number(lines.last().unwrap(), "not_taken")), (vec![0; 6], 1));
    assert!(ran.stderr.contains("messages.broken-line.jsonl: line "), "{ran:?}");
}

#[test]
fn what_a_replay_was_done_in_is_thrown_away() {
    let mut desk = Desk::new();
    desk.set("LCM_HOME", &desk.path("other").display().to_string());
    let file = desk.put("tides.jsonl", talk(3));
    assert_eq!(desk.run(&["replay", &file]).code, 0);
    assert!(!desk.path("other").exists(), "only --home names a store to keep it in");
    let left = fs::read_dir(desk.path("")).unwrap().count();
    assert_eq!(left, 1, "nothing but the file is on the desk");
}
