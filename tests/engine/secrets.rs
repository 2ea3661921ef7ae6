//! Secrets in a host's list, where a redactor is set: they are in nothing that is kept, and the list that holds them is
//! known again all the same.

use std::fs;
use std::path::Path;

use lcm_engine::compress::summary::{Summarizer, SummarizerError, SummaryPrompt};
use lcm_engine::redact::{BUILT_IN, OwnPattern, Redactor};
use lcm_engine::service::{CompressRequest, ExportRequest, GrepRequest, Pattern, Service};
use lcm_engine::{Engine, OpenOptions};
use lcm_store::Pace;
use lcm_tests::folder::folder;
use lcm_tests::stores::NOW_MS;

use crate::session::{
    assert_whole, assistant, behind, call, exchanges, folded, in_messages, long, options, read, result, scope,
    try_compress, turn, turn_of, user, with,
};

/// Put together, so that nobody's scanner takes this file for a leak.
fn secret() -> String {
    format!("sk-proj-{}", "Zq7Rk2Wd9Lx4Tb8Nc3Vh6Mj1Pf5Gs0Ya".repeat(2))
}

fn redactor() -> Redactor {
    let own = |name: &str, pattern: &str| OwnPattern { name: name.to_owned(), pattern: pattern.to_owned() };
    // The second finds every handle of ours.
    Redactor::new(BUILT_IN, &[own("pier", "PIER-[0-9]{4}"), own("hex", "[0-9a-f]{16}")]).unwrap()
}

fn engine(home: &Path) -> Engine {
    Engine::open(home, OpenOptions::default()).unwrap().with_redactor(redactor())
}

/// A list with secrets in what a user says, in what is called, in what comes back, and in a message that is too large.
fn said() -> Vec<String> {
    let secret = secret();
    with(
        &exchanges("old", 12, 60),
        &[
            user(&format!("my key is {secret}, the code of the gate PIER-1234; remember both")),
            call("c1", &format!("gate/{secret}/PIER-1234")),
            result("c1", &format!("logged in with {secret}\n{}", long("PIER-1234 gate", 400))),
            call("c2", "gate"),
            result("c2", "PIER-1234 is open"),
            assistant(&format!("I keep {secret} in mind, and PIER-1234.")),
            user("go on"),
        ],
    )
}

fn without_secrets(list: &[String]) -> Vec<String> {
    let redacted =
        |text: &String| text.replace(&secret(), "[redacted:api_key]").replace("PIER-1234", "[redacted:pier]");
    list.iter().map(redacted).collect()
}

/// Every byte of every file, and what stands in records, which are compressed.
fn assert_no_secret(home: &Path, engine: &Engine) {
    fn files(folder: &Path, secrets: &[&[u8]]) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                files(&path, secrets);
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            for secret in secrets {
                assert!(!bytes.windows(secret.len()).any(|window| window == *secret), "in {}", path.display());
            }
        }
    }
    let secret = secret();
    files(home, &[b"PIER-1234", secret.as_bytes()]);
    for text in ["PIER-1234", &secret] {
        let grep = lcm_store::Grep::new(Pattern::Literal(text.to_owned()));
        let grep = GrepRequest { scope: scope(), grep, whole_words: false, lines: None };
        assert!(engine.grep(&grep).unwrap().hits.is_empty(), "{text} is found");
    }
    let mut records = 0;
    let request = ExportRequest { scope: scope(), now_ms: NOW_MS };
    engine
        .export(&request, &mut |record| {
            records += 1;
            let text = format!("{record:?}");
            assert!(!text.contains("PIER-1234") && !text.contains(&secret), "{text}");
            Ok(())
        })
        .unwrap();
    assert!(records > 10, "{records} records are looked at");
}

#[test]
fn what_a_turn_shows_is_kept_without_its_secrets() {
    let home = folder();
    let engine = engine(home.path());
    let said = said();
    assert_eq!(turn(&engine, "s", &said).new, u64::try_from(said.len()).unwrap());
    assert_eq!(read(&engine, "s"), without_secrets(&said));
    // With its secrets or without, now or in another process: it is the same list.
    for list in [&said, &without_secrets(&said)] {
        let again = turn(&engine, "s", list);
        assert_eq!((again.new, again.revised, again.late, again.branched), (0, 0, 0, false), "{again:?}");
    }
    engine.store().catch_up(Pace::Bulk, &|_| {}).unwrap();
    drop(engine);
    let engine = self::engine(home.path());
    let again = turn(&engine, "s", &said);
    assert_eq!((again.new, again.revised, again.late, again.branched, again.op), (0, 0, 0, false, None));
    assert_no_secret(home.path(), &engine);
    let weight = |list: &[String]| engine.weigh(&in_messages(list)).unwrap();
    assert_eq!(weight(&said), weight(&without_secrets(&said)));
    assert_eq!(behind(&engine, &said), without_secrets(&said));
}

#[test]
fn folds_and_parts_are_made_of_what_is_kept() {
    let home = folder();
    let engine = engine(home.path());
    let mut said = said();
    // The steps of the newest request are too large, so one is shown in part; then it is folded with the others.
    let mut shown = folded(&engine, "s", &said[..said.len() - 2], 2500);
    let is_part = |message: &String| message.contains("[lcm:part ") && message.contains("[redacted:pier]");
    assert_eq!(shown.iter().filter(|message| is_part(message)).count(), 1, "{shown:#?}");
    shown.extend_from_slice(&said[said.len() - 2..]);
    for round in 0..3 {
        assert_eq!(behind(&engine, &shown), without_secrets(&said));
        let again = turn(&engine, "s", &shown);
        assert_eq!((again.revised, again.branched), (0, false), "round {round}: {again:?}");
        assert_eq!(read(&engine, "s"), without_secrets(&said), "round {round}");
        let more = with(
            &exchanges(&format!("more {round}"), 8, 60),
            &[user(&format!("the key {} again, round {round}", secret()))],
        );
        (said, shown) = (with(&said, &more), with(&shown, &more));
        shown = folded(&engine, "s", &shown, 2500);
    }
    assert_whole(&engine);
    assert_no_secret(home.path(), &engine);
}

/// A model that makes a secret up, or was told one elsewhere.
struct Tells;

impl Summarizer for Tells {
    fn model(&self) -> &'static str {
        "test-model"
    }

    fn summarize(&self, prompt: &SummaryPrompt) -> Result<String, SummarizerError> {
        let asked = format!("{}{}", prompt.instructions, prompt.material);
        assert!(!asked.contains("PIER-1234") && !asked.contains(&secret()), "a model is told no secret: {asked}");
        Ok(format!("Every old question about the harbour has its answer; the key is {} for PIER-1234.", secret()))
    }
}

#[test]
fn a_model_is_told_no_secret_and_cannot_bring_one_in() {
    let home = folder();
    let engine = engine(home.path());
    let said = said();
    let request = CompressRequest {
        focus: Some(format!("the gate PIER-1234 and {}", secret())),
        memory_context: Some(format!("they were told of {}", secret())),
        summarizer: Some(&Tells),
        ..CompressRequest::new(turn_of("s", &said), options(2500))
    };
    let done = engine.compress(&request).unwrap();
    assert!(done.model_calls > 0 && done.failures.is_empty() && !done.folds.is_empty(), "{done:?}");
    let (_, shown) = try_compress(&engine, "s", &said, options(2500), Some(&Tells)).unwrap();
    assert!(shown.iter().any(|message| message.contains("the key is [redacted:api_key] for [redacted:pier]")));
    assert_eq!(turn(&engine, "s", &shown).new, 0);
    assert_no_secret(home.path(), &engine);
}
