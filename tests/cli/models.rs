//! `compress` and `replay` with a model over HTTP: it is asked, what it wrote is shown, what it cost is told and counts
//! against the cap, and its key goes to it and nowhere else. The model is a listener on this machine.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use lcm_core::Json;
use lcm_tests::run::{Desk, Ran};

use crate::folding::{number, talk};
use crate::{json_lines, text_of};

const KEY: &str = "sk-hush-0123456789";
const SUMMARY: &str =
    "Every request was to look at a gauge; each gauge at its pier was read and stands at some metres.";

/// A model that answers everything with this text, and hears what it is asked.
fn model(text: &str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let body = format!(r#"{{"choices":[{{"message":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#);
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = asked.clone();
    // It ends with the test program.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
            // The body of the question is the last thing that comes, and it ends an object.
            while !bytes.ends_with(b"}") {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    read => bytes.extend_from_slice(&buffer[..read]),
                }
            }
            heard.lock().unwrap().push(String::from_utf8(bytes).unwrap());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (base_url, asked)
}

/// A desk that is set up for a model there.
fn desk(base_url: &str, more: &str) -> Desk {
    let mut desk = Desk::new();
    fs::create_dir(desk.home()).unwrap();
    let file = format!("{more}\n[summary]\nbase_url = '{base_url}'\nmodel = 'tiny'\n");
    fs::write(desk.home().join("config.toml"), file).unwrap();
    desk.set("LCM_SUMMARY_KEY", KEY);
    desk
}

/// Whether any file below a folder holds these bytes.
pub(crate) fn holds(folder: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).any(|path| match path.is_dir() {
        true => holds(&path, bytes),
        false => fs::read(&path).unwrap().windows(bytes.len()).any(|window| window == bytes),
    })
}

fn assert_asked(asked: &Mutex<Vec<String>>, calls: u64) {
    let asked = asked.lock().unwrap();
    assert_eq!(u64::try_from(asked.len()).unwrap(), calls, "every call is counted, and no other");
    for request in asked.iter() {
        assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
        assert!(request.to_lowercase().contains(&format!("authorization: bearer {KEY}")), "{request}");
        assert!(request.contains("gauge") && request.contains(r#""model":"tiny""#), "{request}");
    }
}

fn assert_no_key(desk: &Desk, ran: &Ran) {
    assert!(!ran.all().contains("hush"), "{ran:?}");
    assert!(!holds(&desk.home(), b"sk-hush"), "the key is in the store");
}

#[test]
fn compress_asks_the_model_that_is_set() {
    let (base_url, asked) = model(SUMMARY);
    let desk = desk(&base_url, "");
    let file = desk.put("tides.jsonl", talk(40));
    let ran = desk.run(&["compress", &file, "--threshold", "3000", "--summarizer", "http", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let done = json_lines(&ran).remove(0);
    let (calls, tokens) = (number(&done, "model_calls"), number(&done, "model_tokens"));
    assert!(calls > 0 && tokens > 1000 && ran.stdout.contains("each gauge at its pier was read"), "{ran:?}");
    assert_asked(&asked, calls);
    assert_no_key(&desk, &ran);
    // What it cost is written down, and counts against the cap of the next run.
    let status = json_lines(&desk.run(&["status", "--format", "json"])).remove(0);
    let spent = status.get("spent").unwrap();
    assert_eq!((number(spent, "calls"), number(spent, "tokens")), (calls, tokens), "{status:?}");
    let spent_up = format!("summary.spend_calls_max={calls}");
    let more = desk.put("more.jsonl", talk(41));
    let again = ["compress", &more, "--threshold", "3000", "--summarizer", "http", "--set", &spent_up];
    let ran = desk.run(&again);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("was not asked: ") && ran.stderr.contains(" of 600 seconds are spent"), "{ran:?}");
    assert_asked(&asked, calls);
}

#[test]
fn replay_asks_the_model_that_is_set() {
    let (base_url, asked) = model(SUMMARY);
    let desk = desk(&base_url, "[compress]\nwindow_tokens = 4000\nthreshold_ratio = 0.5");
    let file = desk.put("tides.jsonl", talk(40));
    let ran = desk.run(&["replay", &file, "--summarizer", "http", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let done = json_lines(&ran).remove(0);
    let calls = number(&done, "model_calls");
    assert!(calls > 0 && number(&done, "model_tokens") > 1000, "{ran:?}");
    assert_eq!((number(&done, "window"), number(&done, "threshold")), (4000, 2000), "as it is set: {ran:?}");
    assert_asked(&asked, calls);
    assert_no_key(&desk, &ran);
    // Options hold over what is set.
    let ran = desk.run(&["replay", &file, "--window", "6000", "--threshold", "2500", "--format", "json"]);
    let done = json_lines(&ran).remove(0);
    assert_eq!((number(&done, "window"), number(&done, "threshold"), number(&done, "model_calls")), (6000, 2500, 0));
}

#[test]
fn a_model_that_says_nothing_costs_what_it_read() {
    let (base_url, asked) = model("");
    let desk = desk(&base_url, "");
    let file = desk.put("tides.jsonl", talk(40));
    let ran = desk.run(&["compress", &file, "--threshold", "3000", "--summarizer", "http", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let done = json_lines(&ran).remove(0);
    let calls = number(&done, "model_calls");
    assert!(calls > 0 && number(&done, "model_tokens") > 1000, "{ran:?}");
    let failures = done.get("failures").and_then(Json::as_array).unwrap();
    assert!(failures[0].as_str().unwrap().ends_with("cannot be used: its answer is empty"), "{failures:?}");
    assert_asked(&asked, calls);
}

#[test]
fn a_model_that_is_not_set_is_not_asked_for() {
    let desk = Desk::new();
    let file = desk.put("tides.jsonl", talk(3));
    for command in ["compress", "replay"] {
        let ran = desk.run(&[command, &file, "--summarizer", "http"]);
        assert!(ran.code == 2 && ran.stderr.contains("summary.base_url names none"), "{ran:?}");
    }
    assert!(!desk.home().exists());
}

#[test]
fn secrets_are_taken_out_where_that_is_set() {
    let secret = format!("sk-proj-{}", "Zq7Rk2Wd9Lx4Tb8Nc3Vh6Mj1Pf5Gs0Ya".repeat(2));
    let set = ["--set", "redact.enabled=true", "--set", "redact.own=pier=PIER-[0-9]{4}"];
    let desk = Desk::new();
    let text = format!(
        "{}{{\"role\":\"user\",\"content\":\"the key is {secret}, the code PIER-1234\"}}\n{}",
        talk(20),
        talk(20).lines().skip(1).collect::<Vec<_>>().join("\n").replace("gauge", "buoy")
    );
    let file = desk.put("tides.jsonl", text);
    let ran = desk.run(&[&["import", &file][..], &set].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = desk.run(&[&["compress", &file, "--threshold", "2500"][..], &set].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let kept = desk.path("kept");
    let home = kept.display().to_string();
    let ran = desk.run(&[&["replay", &file, "--window", "3000", "--home", &home][..], &set].concat());
    assert_eq!(ran.code, 0, "what comes back is what was said without its secrets: {ran:?}");
    for folder in [&desk.home(), &kept] {
        assert!(!holds(folder, b"PIER-1234") && !holds(folder, secret.as_bytes()), "{}", folder.display());
    }
    let shown = desk.run(&["grep", "-F", "the key is"]).stdout;
    assert!(shown.contains("[redacted:api_key]") && shown.contains("[redacted:pier]"), "{shown}");
    assert_eq!(desk.run(&["grep", "-F", "PIER-1234"]).code, 1);
    // A pattern that is none is refused before anything is taken in.
    for wrong in ["redact.own=nothing", "redact.own=a=(", "redact.patterns=none_such"] {
        let ran = desk.run(&["import", &file, "--set", "redact.enabled=true", "--set", wrong]);
        assert!(ran.code == 2 && ran.stderr.contains("redact"), "{ran:?}");
    }
}

#[test]
fn summaries_that_no_model_wrote_are_written_anew() {
    let (base_url, asked) = model(SUMMARY);
    let desk = desk(&base_url, "");
    let file = desk.put("tides.jsonl", talk(40));
    assert_eq!(desk.run(&["compress", &file, "--threshold", "3000"]).code, 0);
    let shown = |desk: &Desk| desk.run(&["show", "tides", "--at", "now", "--format", "json"]).stdout;
    let before = shown(&desk);
    // Who has no model is told so, and nothing happens.
    let none = desk.run(&["repair", "summaries", "--set", "summary.base_url="]);
    assert!(none.code == 2 && none.stderr.contains("no summary model is set"), "{none:?}");
    assert_eq!(shown(&desk), before);
    let ran = desk.run(&["repair", "summaries", "--format", "json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let done = json_lines(&ran).remove(0);
    let calls = number(&done, "model_calls");
    let rewritten = done.get("rewritten").and_then(Json::as_array).unwrap();
    assert!(!rewritten.is_empty() && number(&done, "degraded") == u64::try_from(rewritten.len()).unwrap(), "{done:?}");
    assert_asked(&asked, calls);
    assert_no_key(&desk, &ran);
    let after = shown(&desk);
    for pair in rewritten {
        let (old, new) = (text_of(pair, "before"), text_of(pair, "now"));
        assert!(before.contains(&old) && !after.contains(&old) && after.contains(&new), "{before}\n{after}");
        let told = desk.run(&["describe", &new, "--format", "json"]).stdout;
        assert!(told.contains(r#""level":"detailed""#) && told.contains(r#""model":"tiny""#), "{told}");
        // The one before can be read, and both stand for the same messages.
        let originals = |handle: &str| desk.run(&["expand", handle, "--format", "json"]);
        let (old, new) = (originals(&old), originals(&new));
        assert_eq!((old.code, new.code), (0, 0));
    }
    // It is in what it cost, and there is nothing left to do.
    let status = json_lines(&desk.run(&["status", "--format", "json"])).remove(0);
    assert_eq!(number(status.get("spent").unwrap(), "calls"), calls);
    let again = desk.run(&["repair", "summaries", "#1"]);
    assert!(again.code == 1 && again.stderr.contains("is a model's already"), "{again:?}");
    assert_asked(&asked, calls);
    assert_eq!(desk.run(&["check"]).code, 0);
    // Undone, the one before is shown again.
    for _ in rewritten {
        assert_eq!(desk.run(&["undo", "tides"]).code, 0);
    }
    assert_eq!(shown(&desk), before);
}
