//! That secrets go, that nothing else does, and that no text and no pattern breaks it.
//!
//! Method: examples of every built-in pattern beside texts that only look like secrets; random messages, texts and own
//! patterns for what must always hold; a store on disk, searched byte by byte, for what must not be written.
//! Secrets here are put together from pieces, so that nobody's scanner takes this file for a leak.

use std::collections::HashSet;
use std::path::Path;
use std::sync::LazyLock;

use lcm_core::Owner;
use lcm_store::{Pace, Scope};
use proptest::prelude::*;

use super::*;
use crate::Engine;
use crate::hosts::{DecodeOptions, Decoded, decode};
use crate::service::{ImportOptions, IngestRequest, ReadRequest, Service};

fn all() -> Redactor {
    Redactor::new(BUILT_IN, &[]).unwrap()
}

/// The same, made once: making it costs more than a short text.
static ALL: LazyLock<Redactor> = LazyLock::new(all);

fn own(name: &str, pattern: &str) -> Result<Redactor, RedactorError> {
    Redactor::new([], &[OwnPattern { name: name.to_owned(), pattern: pattern.to_owned() }])
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).expect(text)
}

/// What becomes of a text that a user says.
fn said(redactor: &Redactor, text: &str) -> String {
    let message = Json::object([("role", "user".into()), ("content", text.into())]);
    let redacted = redactor.redact(&message).unwrap_or(message);
    redacted.get("content").and_then(Json::as_str).unwrap().to_owned()
}

/// Letters and digits without a word in them.
fn noise(length: usize) -> String {
    "Zq7Rk2Wd9Lx4Tb8Nc3Vh6Mj1Pf5Gs0Ya".chars().cycle().take(length).collect()
}

/// Each secret as it is said, by pattern: what stands before it, it, and what stands behind it.
fn secrets() -> Vec<(&'static str, String, String, String)> {
    let lower = noise(64).to_lowercase();
    let hex: String = "0123456789abcdef".repeat(4);
    let mut all = Vec::new();
    let mut add = |name, before: &str, secret: String, behind: &str| {
        all.push((name, before.to_owned(), secret, behind.to_owned()));
    };
    for prefix in ["sk-", "sk-proj-", "sk-ant-api03-", "sk-or-v1-", "gsk_", "xai-", "pplx-", "nvapi-", "tvly-"] {
        add("api_key", "export KEY=", format!("{prefix}{}", noise(40)), " # mine");
    }
    add("api_key", "the key is '", format!("AIza{}", noise(35)), "'");
    add("api_key", "(", format!("{}_live_{}", "sk", noise(24)), ")");
    add("api_key", "HF: ", format!("hf_{}", noise(34)), "\n");
    add("api_key", "", format!("npm_{}", noise(36)), "");
    add("api_key", "", format!("SG.{}.{}", noise(22), noise(43)), "");
    add("api_key", "", format!("dapi{}", &hex[..32]), "");
    add("bearer_token", "curl -H 'Authorization: Bearer ", noise(12), "' https://example.test");
    add("bearer_token", "\"authorization\": \"Basic ", "dXNlcjpwYXNz".to_owned(), "\"");
    add("bearer_token", "it sends bearer ", noise(32), " then");
    add("password_assignment", "DB_PASSWORD=", "hunter2".to_owned(), "\nDB_USER=a");
    add("password_assignment", "password = \"", "correct horse battery".to_owned(), "\"");
    add("password_assignment", "api_key: str = '", "abcd1234".to_owned(), "'");
    add("password_assignment", "  password: ", "hunter2".to_owned(), "\n  user: a");
    add("password_assignment", "a text \\\"client_secret\\\": \\\"", "abcd1234".to_owned(), "\\\" and on");
    add("password_assignment", "https://example.test/?api_key=", "abcd1234".to_owned(), "&page=2");
    add("password_assignment", "login --password ", "hunter2".to_owned(), " now");
    add("password_assignment", "curl -u me:", "hunter2".to_owned(), " https://example.test");
    let key = format!("-----BEGIN {} KEY-----\n{lower}\n{lower}=\n-----END {} KEY-----", "RSA PRIVATE", "RSA PRIVATE");
    add("private_key", "cat id\n", key, "\nand that was all of it.");
    let cut = format!("-----BEGIN {} KEY-----\n{lower}\n{lower}", "OPENSSH PRIVATE");
    add("private_key", "head id\n", cut, "");
    add("url_password", "postgres://app:", "p4ss:w0rd".to_owned(), "@db.example.test/app");
    add("url_password", "redis://:", "hunter2".to_owned(), "@localhost:6379");
    add("aws_key", "id ", format!("AKIA{}", "IOSFODNN7EXAMPLE"), ".");
    add("aws_key", "aws_secret_access_key = ", noise(40), "\n");
    add("jwt", "token ", format!("eyJ{}.eyJ{}.{}", noise(20), noise(30), noise(43)), " ok");
    add("github_token", "git clone https://", format!("ghp_{}", noise(36)), "@github.com/a/b");
    add("github_token", "", format!("github_pat_{}", noise(60)), "");
    add("gitlab_token", "", format!("glpat-{}", noise(20)), "");
    add("slack_token", "", format!("xoxb-123456789012-{}", noise(24)), "");
    add("slack_token", "https://hooks.slack.com/services/", format!("T00000000/B00000000/{}", noise(24)), " posts");
    all
}

#[test]
fn each_kind_of_secret_goes_and_what_stands_around_it_stays() {
    for (name, before, secret, behind) in secrets() {
        let redactor = Redactor::new([name], &[]).unwrap();
        let text = format!("{before}{secret}{behind}");
        assert_eq!(said(&redactor, &text), format!("{before}[redacted:{name}]{behind}"), "{text}");
    }
}

#[test]
fn every_built_in_pattern_has_an_example() {
    let shown: HashSet<&str> = secrets().iter().map(|(name, ..)| *name).collect();
    assert_eq!(shown, HashSet::from(BUILT_IN));
}

#[test]
fn what_only_looks_like_a_secret_stays() {
    let redactor = all();
    for text in [
        "password: must be at least 8 characters",
        "def login(user, password=None): ...",
        "connect(password=password, secret=self.secret)",
        "if password == expected or password != other: pass",
        "password = os.environ[\"DB_PASSWORD\"]",
        "export API_KEY=$API_KEY; echo ${API_KEY}",
        "api_key=<your-key> password=******** secret={{ secret }}",
        "password: string;",
        "interface A { password: string; api_key?: string }",
        "PWD=/home/me/src OLDPWD=/home/me",
        "task-management-for-everybody-and-all, disk-usage-of-the-whole-machine",
        "https://example.test:8080/a@b and mailto:me@example.test, git@github.com:a/b.git",
        "commit d41d8cd98f00b204e9800998ecf8427e0d41d8cd, 550e8400-e29b-41d4-a716-446655440000",
        "the bearer of this letter is a friend; bearer authentication is required here",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE me@host",
        "max_tokens=4096, next_page_token=\"CAUQAA\", token_type=\"word\"",
        "[redacted:api_key] and [redacted:password_assignment] were here",
    ] {
        let message = Json::object([("role", "user".into()), ("content", text.into())]);
        assert_eq!(redactor.redact(&message), None, "{text}");
    }
}

#[test]
fn arguments_of_a_call_stay_json_and_lose_what_hides_behind_escapes() {
    let redactor = all();
    let key = format!("sk-{}", noise(30));
    let inner = Json::object([
        ("command", format!("cd /a\n{key} && curl https://me:hunter2@example.test").as_str().into()),
        ("env", Json::object([("dbPassword", "correct horse".into()), ("HOME", "/home/me".into())])),
        ("api_key", Json::Number("12345678".into())),
    ]);
    let nested = Json::object([("body", String::from_utf8(inner.to_text()).unwrap().into()), ("n", 5_u64.into())]);
    let arguments = String::from_utf8(nested.to_text()).unwrap();
    let call = Json::object([
        ("id", "call_1".into()),
        ("type", "function".into()),
        ("function", Json::object([("name", "bash".into()), ("arguments", arguments.into())])),
    ]);
    let message = Json::object([("role", "assistant".into()), ("tool_calls", Json::Array(vec![call]))]);
    let redacted = redactor.redact(&message).unwrap();
    let call = &redacted.get("tool_calls").unwrap().as_array().unwrap()[0];
    assert_eq!(call.get("id").and_then(Json::as_str), Some("call_1"));
    let arguments = json(call.get("function").unwrap().get("arguments").unwrap().as_str().unwrap());
    assert_eq!(arguments.get("n").and_then(Json::as_u64), Some(5));
    let inner = json(arguments.get("body").unwrap().as_str().unwrap());
    assert_eq!(
        inner.to_text(),
        br#"{"command":"cd /a\n[redacted:api_key] && curl https://me:[redacted:url_password]@example.test","env":{"dbPassword":"[redacted:password_assignment]","HOME":"/home/me"},"api_key":"[redacted:password_assignment]"}"#
    );
    assert_eq!(redactor.redact(&redacted), None);
}

#[test]
fn a_password_that_is_json_leaves_json() {
    let message = json(r#"{"content":{"api_key":"{\"a\":[1]}","secret":"[1,2]"}}"#);
    let redacted = ALL.redact(&message).unwrap();
    let mark = "[redacted:password_assignment]";
    assert_eq!(
        String::from_utf8(redacted.to_text()).unwrap(),
        format!(r#"{{"content":{{"api_key":"{{\"redacted\":\"{mark}\"}}","secret":"[\"{mark}\"]"}}}}"#)
    );
    assert_eq!(ALL.redact(&redacted), None);
}

#[test]
fn what_holds_a_message_together_is_never_touched() {
    let redactor = own("all", "(?s).+").unwrap();
    let message = json(
        r#"{"role":"assistant","name":"n","id":"i","content":[{"type":"text","text":"t"},{"type":"tool_use","id":"u","name":"f","input":{"id":"x","k":1}},{"type":"tool_result","tool_use_id":"u","content":[{"type":"text","text":"r"}]},{"type":"thinking","thinking":"h","signature":"s"}],"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}],"ts":5}"#,
    );
    let redacted = redactor.redact(&message).unwrap();
    let mark = "[redacted:all]";
    assert_eq!(
        String::from_utf8(redacted.to_text()).unwrap(),
        format!(
            r#"{{"role":"assistant","name":"n","id":"i","content":[{{"type":"text","text":"{mark}"}},{{"type":"tool_use","id":"u","name":"f","input":{{"id":"{mark}","k":1}}}},{{"type":"tool_result","tool_use_id":"u","content":[{{"type":"text","text":"{mark}"}}]}},{{"type":"thinking","thinking":"{mark}","signature":"s"}}],"tool_calls":[{{"id":"c","type":"function","function":{{"name":"f","arguments":"{{\"redacted\":\"{mark}\"}}"}}}}],"ts":5}}"#
        )
    );
}

#[test]
fn a_group_named_secret_is_what_goes() {
    let redactor = own("account", r"account (?<secret>\d+) at").unwrap();
    assert_eq!(said(&redactor, "my account 12345 at the bank"), "my account [redacted:account] at the bank");
    assert_eq!(said(&redactor, "account 12345"), "account 12345");
}

#[test]
fn own_patterns_that_cannot_be_used_are_named_in_one_sentence() {
    let told = |name: &str, pattern: &str| own(name, pattern).unwrap_err().to_string();
    assert_eq!(told("mine", "a(b"), r#"the redaction pattern "mine" is no usable regular expression: unclosed group"#);
    assert!(
        told("mine", r"(?=a)b").starts_with(r#"the redaction pattern "mine" is no usable regular expression: look"#)
    );
    assert!(told("mine", r"\w{1000}").starts_with(r#"the redaction pattern "mine" is too large"#));
    assert!(told("mine", &"a".repeat(PATTERN_BYTES_MAX + 1)).contains("is too large"));
    assert!(told("mine", "a*").starts_with(r#"the redaction pattern "mine" matches the empty text"#));
    for name in ["", "Mine", "a b", "x]", "jwt", &"a".repeat(PATTERN_NAME_MAX + 1)] {
        assert!(told(name, "a").starts_with(&format!("a redaction pattern cannot be named {name:?}")), "{name}");
    }
    let unknown = Redactor::new(["jwt", "everything"], &[]).unwrap_err().to_string();
    assert!(unknown.starts_with(r#"there is no built-in redaction pattern "everything": the names are api_key, "#));
    let many = vec![OwnPattern { name: "a".to_owned(), pattern: "a".to_owned() }; OWN_PATTERNS_MAX + 1];
    assert!(matches!(Redactor::new([], &many), Err(RedactorError::TooMany(65))));
    assert!(matches!(Redactor::new([], &many[..2]), Err(RedactorError::BadName(_))), "a name twice");
}

#[test]
fn a_text_full_of_matches_is_replaced_whole() {
    let redactor = own("digit", r"\d").unwrap();
    assert_eq!(said(&redactor, "12345, 6"), "[redacted:digit], [redacted:digit]");
    assert_eq!(said(&redactor, &"1 ".repeat(MATCHES_MAX + 1)), "[redacted:digit]");
}

#[test]
fn json_as_deep_as_any_reader_takes_and_json_in_json_in_json_end() {
    let redactor = all();
    let mut text = format!("sk-{}", noise(30));
    for _ in 0..12 {
        text = String::from_utf8(Json::Array(vec![text.as_str().into()]).to_text()).unwrap();
        assert!(!said(&redactor, &text).contains(&noise(30)), "{text}");
    }
    let deep = format!("{}\"{}\"{}", "[".repeat(255), format_args!("sk-{}", noise(30)), "]".repeat(255));
    assert!(said(&redactor, &deep).contains("[redacted:api_key]"));
}

#[test]
fn half_an_emoji_beside_a_secret_stays_and_bytes_torn_apart_take_the_text_with_them() {
    let message = json(&format!(r#"{{"content":"\ud83d sk-{} \ude00"}}"#, noise(30)));
    let redacted = all().redact(&message).unwrap();
    assert_eq!(redacted.to_text(), br#"{"content":"\ud83d [redacted:api_key] \ude00"}"#);
    assert_eq!(said(&own("byte", r"(?-u:\xc3)").unwrap(), "Größe"), "[redacted:byte]");
}

/// Texts that are likely to make patterns of the next strategy meet: pieces of marks, JSON, escapes.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[abz ]{0,4}".prop_map(String::from),
        prop::sample::select(vec![
            "[redacted:own]",
            "[redacted:",
            "]",
            "{\"a\":\"",
            "\"}",
            "[\"",
            "\"]",
            "\\",
            "\\\"",
            ":",
            "é",
            "😀",
            "1",
            "password=",
            "hunter22",
            "\n",
            "{\"password\":\"",
            "secret",
        ])
        .prop_map(str::to_owned),
        prop::sample::select(secrets()).prop_map(|(_, before, secret, behind)| format!("{before}{secret}{behind}")),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn values() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![texts().prop_map(Json::from), any::<u64>().prop_map(Json::from), Just(Json::Null)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop::sample::select(vec![
            "role",
            "content",
            "tool_calls",
            "function",
            "arguments",
            "input",
            "id",
            "name",
            "text",
            "api_key",
            "k",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
            prop::collection::vec((key, inner.clone()), 0..4).prop_map(Json::object),
            inner.prop_map(|value| String::from_utf8(value.to_text()).unwrap().into()),
        ]
    })
}

/// Own patterns that match marks, JSON, borders: what could make a redactor chase its own tail.
fn patterns() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "a",
        "ab?",
        "[a-z]+",
        r"\]b",
        r"\[",
        r"^b",
        "b$",
        r"\bz",
        "redacted",
        "own",
        r"\{.*\}",
        ":",
        r"a(?<secret>b)",
        r"(?s).+",
        r"\\",
        "\"",
        r"\d",
        r"z(?<secret>.)a",
        r"(?-u:\xc3)",
        r"[^a]",
        r"\]",
    ])
    .prop_map(str::to_owned)
}

/// What a message is without what it says: keys, kinds of values, and the texts that are never touched.
fn frame(value: &Json, is_frame: bool) -> Json {
    match value {
        Json::String(_) => Json::from("text"),
        Json::Array(elements) => Json::Array(elements.iter().map(|element| frame(element, is_frame)).collect()),
        Json::Object(entries) => Json::Object(
            entries
                .iter()
                .map(|(key, value)| {
                    let keeps = is_frame && ["role", "id", "name"].iter().any(|name| name.as_bytes() == key.as_bytes());
                    let goes_on = ["content", "tool_calls", "function"].iter().any(|name| key.as_str() == Some(name));
                    let under = if keeps && value.as_str().is_some() {
                        value.clone()
                    } else {
                        frame(value, is_frame && goes_on)
                    };
                    (key.clone(), under)
                })
                .collect(),
        ),
        other => other.clone(),
    }
}

/// Every text of a value that is JSON, in order; `None` for those that are not.
fn held(value: &Json, out: &mut Vec<bool>) {
    match value {
        Json::String(text) => out.push(holds_json(text, 1).is_some()),
        Json::Array(elements) => elements.iter().for_each(|element| held(element, out)),
        Json::Object(entries) => entries.iter().for_each(|(_, value)| held(value, out)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn redacting_again_changes_nothing_and_the_frame_stays(
        value in values(),
        own in prop::collection::vec(patterns(), 0..3),
        with_built_in in prop::bool::weighted(0.1),
    ) {
        let name = |nth: usize| ["own", "other", "third"][nth].to_owned();
        let own: Vec<OwnPattern> =
            own.into_iter().enumerate().map(|(nth, pattern)| OwnPattern { name: name(nth), pattern }).collect();
        let redactor = Redactor::new(BUILT_IN.into_iter().filter(|_| with_built_in), &own).unwrap();
        if let Some(redacted) = redactor.redact(&value) {
            prop_assert_ne!(&redacted, &value);
            prop_assert_eq!(redactor.redact(&redacted), None, "{:?}", redacted);
            prop_assert_eq!(frame(&redacted, true), frame(&value, true));
            let (mut before, mut after) = (Vec::new(), Vec::new());
            held(&value, &mut before);
            held(&redacted, &mut after);
            let stayed = before.iter().zip(&after).all(|(before, after)| !before || *after);
            prop_assert!(stayed, "a text that was JSON is none: {:?}", redacted);
        }
    }

    #[test]
    fn no_secret_is_left_wherever_it_was_said(
        value in values(),
        secret in prop::sample::select(secrets()),
        levels in 0..3_usize,
        is_key in any::<bool>(),
    ) {
        let (_, before, secret, behind) = secret;
        let mut text = Json::from(format!("{before}{secret}{behind}"));
        for _ in 0..levels {
            let around = if is_key { Json::object([("k", text)]) } else { Json::Array(vec![text, 1_u64.into()]) };
            text = String::from_utf8(around.to_text()).unwrap().into();
        }
        let message = Json::object([("role", "user".into()), ("extra", value), ("content", text)]);
        let redacted = ALL.redact(&message).expect("there is a secret in it");
        let content = redacted.get("content").unwrap().to_text();
        let content = String::from_utf8(content).unwrap().replace("\\\\", "\\");
        prop_assert!(!content.contains(&secret), "{} in {}", secret, content);
    }
}

/// All bytes of a folder, file by file.
fn bytes_under(folder: &Path, out: &mut Vec<(std::path::PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { bytes_under(&path, out) } else { out.push((path.clone(), std::fs::read(&path).unwrap())) }
    }
}

fn decoded(text: &str) -> Vec<Incoming> {
    let options = DecodeOptions { format: None, name: "file".to_owned(), source: "file.jsonl".to_owned() };
    let mut lists = Vec::new();
    decode(&mut text.as_bytes(), &options, &mut |decoded| {
        if let Decoded::Session(list) = decoded {
            lists.push(list);
        }
        Ok(())
    })
    .unwrap();
    lists
}

/// Everything that the API gives back, as one text.
fn everything(engine: &Engine) -> String {
    let mut told = String::new();
    for entry in engine.sessions(&Scope::everything()).unwrap() {
        let request = ReadRequest {
            scope: Scope::everything(),
            session: entry.session.id,
            timeline: None,
            from: None,
            max: usize::MAX,
            bytes_max: usize::MAX,
        };
        for whole in engine.read(&request).unwrap().messages {
            told.push_str(std::str::from_utf8(&whole.json).unwrap());
            told.push_str(std::str::from_utf8(&whole.source).unwrap());
        }
    }
    told
}

#[test]
fn a_secret_that_was_imported_is_in_no_byte_of_the_store_and_shown_again_adds_nothing() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::open(home.path(), lcm_store::OpenOptions::default()).unwrap().with_redactor(all());
    let kept = "an-ordinary-word-of-this-list";
    let mut lines = String::new();
    for (nth, (_, before, secret, behind)) in secrets().into_iter().enumerate() {
        let text = format!("{before}{secret}{behind}");
        let arguments = String::from_utf8(Json::object([("command", text.as_str().into())]).to_text()).unwrap();
        let call = Json::object([
            ("id", format!("call_{nth}").into()),
            ("type", "function".into()),
            ("function", Json::object([("name", "bash".into()), ("arguments", arguments.into())])),
        ]);
        for message in [
            Json::object([("role", "user".into()), ("content", format!("{kept} {nth}").into())]),
            Json::object([
                ("role", "assistant".into()),
                ("content", Json::Null),
                ("tool_calls", Json::Array(vec![call])),
            ]),
            Json::object([
                ("role", "tool".into()),
                ("tool_call_id", format!("call_{nth}").into()),
                ("content", text.as_str().into()),
            ]),
        ] {
            let turn = Json::object([
                ("session", "s".into()),
                ("seq", 0_u64.into()),
                ("note", text.as_str().into()),
                ("msg", message),
            ]);
            lines.push_str(std::str::from_utf8(&turn.to_text()).unwrap());
            lines.push('\n');
        }
    }
    let options = ImportOptions {
        defaults: Owner { agent: "a".to_owned(), person: "p".to_owned() },
        by: "test".to_owned(),
        now_ms: 9,
        indexing: &|_| {},
    };
    let import = |engine: &Engine| {
        let mut new = 0;
        engine.import(&mut decoded(&lines).into_iter(), &options, &mut |ingested| new += ingested.new).unwrap();
        new
    };
    assert_eq!(import(&engine), secrets().len() as u64 * 3);
    assert_eq!(import(&engine), 0, "the same list, secrets and all, is known");
    // The same list message by message, as a host that sends what is new.
    for list in decoded(&lines) {
        let (defaults, by) = (options.defaults.clone(), "test".to_owned());
        let ingested = engine.ingest(IngestRequest { incoming: list, defaults, by, now_ms: 10 }).unwrap();
        assert_eq!((ingested.new, ingested.op), (0, None));
    }
    engine.store().catch_up(Pace::Bulk, &|_| {}).unwrap();

    let told = everything(&engine);
    assert!(told.contains(kept));
    assert!(told.matches("[redacted:").count() >= secrets().len() * 3);
    // Records are compressed, so they are read through the API as well; names, ops and the index are not.
    drop(engine);
    let mut files = Vec::new();
    bytes_under(home.path(), &mut files);
    assert!(files.iter().any(|(path, _)| path.starts_with(home.path().join("index"))), "there is an index");
    let finder = |needle: &str| memchr::memmem::Finder::new(needle.as_bytes()).into_owned();
    let mut seen = 0;
    for (_, _, secret, _) in secrets() {
        // Escaped or not, the first line of a secret is itself; the index keeps words in small letters.
        let line = secret.lines().nth(usize::from(secret.contains('\n'))).unwrap();
        assert!(!told.contains(line), "{line}");
        for needle in [line.to_owned(), line.to_lowercase()] {
            for (path, bytes) in &files {
                assert!(finder(&needle).find(bytes).is_none(), "{needle} in {}", path.display());
            }
        }
        seen += 1;
    }
    assert!(seen > 30);
    // The search for bytes can find what is there.
    assert!(files.iter().any(|(_, bytes)| finder("ordinary").find(bytes).is_some()));
}

#[test]
fn without_a_redactor_everything_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::open(home.path(), lcm_store::OpenOptions::default()).unwrap();
    let secret = format!("sk-{}", noise(30));
    let line = Json::object([("role", "user".into()), ("content", secret.as_str().into())]).to_text();
    for incoming in decoded(std::str::from_utf8(&line).unwrap()) {
        let defaults = Owner { agent: "a".to_owned(), person: "p".to_owned() };
        engine.ingest(IngestRequest { incoming, defaults, by: "test".to_owned(), now_ms: 1 }).unwrap();
    }
    assert!(everything(&engine).contains(&secret));
}

#[test]
fn later_forms_and_what_stands_beside_a_message_are_redacted_too() {
    let secret = format!("sk-{}", noise(30));
    let message =
        |text: &str| Message::from_json(Json::object([("role", "user".into()), ("content", text.into())])).unwrap();
    let volatile = Json::object([("note", secret.as_str().into()), ("id", "x".into())]).to_text();
    let form = crate::hosts::IncomingRevision {
        encoded: message(&secret).encode().unwrap(),
        seen_ms: 2,
        volatile: volatile.clone(),
    };
    let first = IncomingMessage { volatile, revisions: vec![form], ..IncomingMessage::new(&message(&secret)).unwrap() };
    let tokens = first.tokens;
    let mut list = Incoming { messages: vec![first; PARALLEL_MIN + 1], ..Incoming::default() };
    all().redact_list(&mut list).unwrap();
    let wanted = message("[redacted:api_key]").encode().unwrap();
    for message in &list.messages {
        assert_eq!((message.encoded.id, message.revisions[0].encoded.id), (wanted.id, wanted.id));
        assert_ne!(message.tokens, tokens, "the count is of what is kept");
        for beside in [&message.volatile, &message.revisions[0].volatile] {
            assert_eq!(beside, br#"{"note":"[redacted:api_key]","id":"x"}"#);
        }
    }
}
