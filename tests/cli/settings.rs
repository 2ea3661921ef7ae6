//! Settings as people meet them: which layer wins, what is said about wrong ones, that no key is ever shown, and that
//! the table in `docs/settings.md` is the one of the program.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread::{self, JoinHandle};

use lcm_core::Json;
use lcm_tests::run::{Desk, Ran};

use crate::{json_lines, text_of};

/// A desk whose home holds this settings file.
fn desk(file: &str) -> Desk {
    let desk = Desk::new();
    fs::create_dir(desk.home()).unwrap();
    fs::write(desk.home().join("config.toml"), file).unwrap();
    desk
}

/// The line of one setting.
fn shown(ran: &Ran, name: &str) -> Json {
    let line = json_lines(ran).into_iter().find(|line| line.get("name").and_then(Json::as_str) == Some(name));
    line.unwrap_or_else(|| panic!("no {name}: {ran:?}"))
}

#[test]
fn settings_are_shown_with_where_they_come_from() {
    let mut desk =
        desk("[summary]\nbase_url = 'http://localhost:11434/v1'\nmodel = 'small'\n\n[compress]\nprotect_last = 8\n");
    desk.set("LCM_CONTEXT_THRESHOLD", "0.35");
    desk.set("LCM_SUMMARY_MODEL", "large");
    desk.set("LCM_SUMMARY_KEY", "sk-hush");
    let ran = desk.run(&["config", "show", "--window", "200000", "--set", "compress.protect_last=9"]);
    insta::assert_snapshot!(ran.all());
}

#[test]
fn the_later_layer_wins() {
    let mut desk = desk("compress.protect_last = 8\n");
    let told = |desk: &Desk, args: &[&str]| {
        let ran = desk.run(&[&["config", "show", "--format", "json"], args].concat());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
        let line = shown(&ran, "compress.protect_last");
        (line.get("value").and_then(Json::as_u64).unwrap(), text_of(&line, "origin"))
    };
    assert_eq!(told(&desk, &[]), (8, "[desk]/home/config.toml:1".to_owned()));
    desk.set("LCM_FRESH_TAIL_COUNT", "9");
    assert_eq!(told(&desk, &[]), (9, "LCM_FRESH_TAIL_COUNT".to_owned()));
    desk.set("LCM_COMPRESS_PROTECT_LAST", "10");
    assert_eq!(told(&desk, &[]), (10, "LCM_COMPRESS_PROTECT_LAST".to_owned()));
    assert_eq!(told(&desk, &["--set", "compress.protect_last=11"]), (11, "--set".to_owned()));
    fs::remove_file(desk.home().join("config.toml")).unwrap();
    assert_eq!(told(&Desk::new(), &[]), (16, "default".to_owned()), "no store and no file are needed");
}

#[test]
fn unknown_names_are_told_and_wrong_values_are_refused() {
    let mut wrong =
        desk("[compress]\nthreshold_ration = 0.5\nprotect_last = \"few\"\n[summary]\nretries = 99\nkey = 'sk-hush'\n");
    wrong.set("LCM_SUMMARY_TIMEOUT_MS", "soon");
    wrong.set("LCM_SUMARY_MODEL", "x");
    wrong.set("LCM_INCREMENTAL_MAX_DEPTH", "3");
    let ran = wrong.run(&["config", "show", "--set", "compress.window=1"]);
    assert_eq!(ran.code, 2);
    insta::assert_snapshot!(ran.stderr);
    assert!(!ran.all().contains("hush"));
    // What goes by settings does not go on with wrong ones; what does not, does.
    let broken = Desk::with(&["import/openai.json"]);
    fs::write(broken.home().join("config.toml"), "[compress\n").unwrap();
    let ran = broken.run(&["status"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("config.toml:1 is no TOML: "), "{ran:?}");
    assert_eq!(broken.run(&["sessions"]).code, 0);
    // A name that nobody knows is no reason to stop.
    fs::write(broken.home().join("config.toml"), "compress.protect_lost = 1\n").unwrap();
    let ran = broken.run(&["status"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("did you mean compress.protect_last?"), "{ran:?}");
}

#[test]
fn a_settings_file_that_is_none_is_refused() {
    let desk = desk("");
    let path = desk.home().join("config.toml");
    for (bytes, says) in
        [(&b"a = \"\xff\"\n"[..], "line 1 is not UTF-8"), (&[b'#'; 2 << 20], "more than 1048576 bytes")]
    {
        fs::write(&path, bytes).unwrap();
        let ran = desk.run(&["config", "show"]);
        assert!(ran.code == 2 && ran.stderr.contains(says), "{:?}", ran.stderr);
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(desk.run(&["config", "show"]).stderr.contains("it is no file"));
}

/// A model that answers each connection with the next of these, and what it was asked.
fn model(answers: Vec<String>) -> (SocketAddr, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked = thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
            // The body of the question is the last thing that comes, and it ends an object.
            while !bytes.ends_with(b"}") {
                let read = stream.read(&mut buffer).unwrap();
                bytes.extend_from_slice(&buffer[..read]);
            }
            asked.push(String::from_utf8(bytes).unwrap());
            stream.write_all(answer.as_bytes()).unwrap();
        }
        asked
    });
    (address, asked)
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn the_model_can_be_tried_and_its_key_is_never_shown() {
    let good = r#"{"choices":[{"message":{"content":" ready\u001b[31m "},"finish_reason":"stop"}]}"#;
    let bad = r#"{"error":{"message":"no such key: sk-hush"}}"#;
    let (address, asked) = model(vec![answer("200 OK", good), answer("401 Unauthorized", bad)]);
    let mut desk = desk(&format!("[summary]\nbase_url = 'http://{address}/v1'\nmodel = 'tiny'\nkey_file = 'key'\n"));
    fs::write(desk.home().join("key"), "sk-hush\n").unwrap();
    // Variables of proxies are for others: this one would lead nowhere.
    for name in ["http_proxy", "HTTP_PROXY", "ALL_PROXY"] {
        desk.set(name, "http://127.0.0.1:1");
    }
    let run = |args: &[&str]| desk.command(lcm_tests::program!()).env("LCM_LOG", "trace").args(args).output().unwrap();
    let good = run(&["config", "try"]);
    let text = String::from_utf8(good.stdout).unwrap();
    assert!(
        good.status.success() && text.starts_with("tiny answered in ") && text.ends_with(" s: ready␛[31m\n"),
        "{text}"
    );
    let bad = run(&["config", "try"]);
    let told = String::from_utf8(bad.stderr).unwrap();
    assert_eq!(bad.status.code(), Some(2), "{told}");
    assert!(told.contains("status 401: no such key: [key]"), "{told}");
    // Not even where everything is logged.
    assert!(!told.contains("hush") && !String::from_utf8_lossy(&good.stderr).contains("hush"), "{told}");
    let asked = asked.join().unwrap();
    assert!(asked[0].to_lowercase().contains("authorization: bearer sk-hush"), "{asked:?}");
}

#[test]
fn without_a_model_there_is_nothing_to_try() {
    let ran = Desk::new().run(&["config", "try"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("summary.base_url"), "{ran:?}");
    let half = desk("summary.base_url = 'http://localhost'\n").run(&["config", "try"]);
    assert!(half.code == 2 && half.stderr.contains("summary.model does not say which"), "{half:?}");
}

/// The table of the docs, made of what the program says of itself.
#[test]
fn the_docs_list_every_setting_as_it_is() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/settings.md");
    let docs = fs::read_to_string(path).unwrap();
    let rows: Vec<String> = json_lines(&Desk::new().run(&["config", "show", "--format", "json"]))
        .iter()
        .map(|line| {
            let variables = line.get("variables").and_then(Json::as_array).unwrap().iter();
            let variables: Vec<String> = variables.map(|name| format!("`{}`", name.as_str().unwrap())).collect();
            let default = match text_of(line, "default") {
                default if default.is_empty() => String::new(),
                default => format!(" `{default}`"),
            };
            let unit = match text_of(line, "unit") {
                unit if unit.is_empty() => String::new(),
                unit => format!(" {unit}"),
            };
            format!(
                "| `{}` |{default} |{unit} | {} | {} |",
                text_of(line, "name"),
                variables.join(", "),
                text_of(line, "doc")
            )
        })
        .collect();
    let written: Vec<&str> = docs.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(written, rows, "docs/settings.md should hold:\n{}", rows.join("\n"));
}
