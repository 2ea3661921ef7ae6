//! `import`: everything people have comes in once, and what is broken is named.

use lcm_core::Json;
use lcm_tests::run::{Desk, Ran, fixture};

use crate::{both, json_lines, text_of};

fn import(desk: &Desk, file: &str) -> Ran {
    desk.run(&["import", &fixture(file), "--format", "json"])
}

fn count(ran: &Ran, key: &str) -> u64 {
    json_lines(ran)[0].get(key).and_then(Json::as_u64).unwrap()
}

#[test]
fn files_of_every_kind_come_in_and_are_told_of() {
    let files =
        ["import/messages.jsonl", "import/claude-code.jsonl", "import/openai.json", "import/openai-request.json"];
    let paths: Vec<String> = files.iter().map(|file| fixture(file)).collect();
    let mut args = vec!["import"];
    args.extend(paths.iter().map(String::as_str));
    let hidden = |text: String| text.replace(&fixture(""), "fixtures/");
    insta::assert_snapshot!(hidden(Desk::new().run(&args).all()));
    let desk = Desk::new();
    args.extend(["--format", "json"]);
    insta::assert_snapshot!(hidden(desk.run(&args).all()));
    // The second time nothing is new.
    let again = desk.run(&args);
    assert!(json_lines(&again).iter().all(|line| line.get("new").and_then(Json::as_u64) == Some(0)), "{again:?}");
}

#[test]
fn the_sample_of_real_sessions_comes_in_once() {
    let desk = Desk::new();
    let first = import(&desk, "sample/sample.sessions.jsonl.gz");
    assert_eq!((first.code, count(&first, "new"), count(&first, "sessions")), (0, 415, 5), "{first:?}");
    let second = import(&desk, "sample/sample.sessions.jsonl.gz");
    assert_eq!((second.code, count(&second, "new"), count(&second, "known")), (0, 0, 415), "{second:?}");
    assert_eq!(desk.run(&["check"]).code, 0);
}

#[test]
fn packed_files_windows_files_and_standard_input_are_the_same_messages() {
    let desk = Desk::new();
    let session = ["--session", "one", "--format", "json"];
    for (number, file) in ["messages.jsonl", "messages.jsonl.gz", "messages.windows.jsonl"].into_iter().enumerate() {
        let ran = desk.run(&[&["import", &fixture(&format!("import/{file}"))], session.as_slice()].concat());
        assert_eq!((ran.code, count(&ran, "new")), (0, if number == 0 { 14 } else { 0 }), "{file}: {ran:?}");
    }
    let bytes = std::fs::read(fixture("import/messages.jsonl.gz")).unwrap();
    let ran = desk.run_with(&[&["import", "-"], session.as_slice()].concat(), bytes);
    assert_eq!((ran.code, count(&ran, "known")), (0, 14), "{ran:?}");
}

#[test]
fn broken_lines_are_named_and_the_rest_comes_in() {
    for (file, new, lost) in [
        ("messages.broken-line.jsonl", 13, 1),
        ("messages.not-object.jsonl", 14, 5),
        ("messages.nul.jsonl", 13, 2),
        ("messages.not-utf8.jsonl", 12, 2),
        ("openai.not-object.json", 10, 4),
        ("openai.nul.json", 10, 2),
        ("openai.cut.json", 6, 1),
        ("claude-code.broken-line.jsonl", 24, 1),
        ("claude-code.cut.jsonl", 24, 1),
        ("claude-code.not-object.jsonl", 25, 5),
        ("claude-code.nul.jsonl", 25, 1),
    ] {
        let desk = Desk::new();
        let ran = import(&desk, &format!("import/{file}"));
        assert_eq!((ran.code, count(&ran, "new"), count(&ran, "lost")), (4, new, lost), "{file}: {ran:?}");
        assert_eq!(desk.run(&["check"]).code, 0, "{file}");
        // Once more, and nothing is new.
        assert_eq!(count(&import(&desk, &format!("import/{file}")), "new"), 0, "{file}");
    }
}

#[test]
fn a_packed_file_that_was_cut_gives_what_is_whole() {
    let desk = Desk::new();
    let ran = import(&desk, "import/messages.truncated.jsonl.gz");
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(count(&ran, "new") > 0 && ran.stdout.contains("cannot be read on from here"), "{ran:?}");
    // Half a line and the end of what can be read are one loss.
    assert_eq!(count(&ran, "lost"), 1, "{ran:?}");
}

#[test]
fn what_is_wrong_behind_the_end_of_a_packed_file_costs_no_message() {
    let whole = std::fs::read(fixture("import/messages.jsonl.gz")).unwrap();
    let mut wrong_sum = whole.clone();
    let at = wrong_sum.len() - 8;
    wrong_sum[at] ^= 1;
    let garbage = [&whole[..], b"garbage"].concat();
    for (bytes, said) in
        [(wrong_sum, "checksum"), (garbage, "behind its end"), (whole[..whole.len() - 2].to_vec(), "cut off")]
    {
        let desk = Desk::new();
        let file = desk.put("odd.jsonl.gz", bytes);
        let ran = desk.run(&["import", &file, "--format", "json"]);
        assert_eq!((ran.code, count(&ran, "new"), count(&ran, "lost"), count(&ran, "noted")), (0, 14, 0, 1), "{ran:?}");
        assert!(ran.stdout.contains(said), "{ran:?}");
    }
}

#[test]
fn what_is_wrong_is_said_with_file_and_line() {
    let desk = Desk::new();
    let file = desk.put("bad.jsonl", "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"user\"\n7\n{\"x\":1}\n");
    insta::assert_snapshot!(both(&desk, &["import", &file]).replace(&file, "bad.jsonl"));
}

#[test]
fn an_empty_file_is_nothing_and_makes_no_store() {
    let desk = Desk::new();
    let ran = desk.run(&["import", &fixture("import/empty.jsonl")]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("it is empty"), "{ran:?}");
    assert!(!desk.home().exists(), "nothing was half-made");
    for blank in [&b" \n\n"[..], b"\xef\xbb\xbf", b"\r\n\t"] {
        let file = desk.put("blank.jsonl", blank);
        for args in [&["import", &file][..], &["import", &file, "--as", "openai"]] {
            let ran = desk.run(args);
            assert_eq!((ran.code, ran.stderr.as_str()), (1, "[desk]/blank.jsonl: it is empty\n"), "{ran:?}");
        }
    }
    assert!(!desk.home().exists(), "nothing was half-made");
}

#[test]
fn what_the_user_says_overrules_what_the_file_says() {
    let desk = Desk::new();
    let file = fixture("import/openai.json");
    let ran = desk.run(&["import", &file, "--session", "mine", "--agent", "a", "--person", "p", "--source", "s"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let line = &json_lines(&desk.run(&["sessions", "--format", "json"]))[0];
    let told = ["name", "agent", "person", "source"].map(|key| text_of(line, key));
    assert_eq!(told, ["mine", "a", "p", "s"]);
}

#[test]
fn one_name_for_several_sessions_is_refused_before_anything_is_kept() {
    let desk = Desk::new();
    let ran = desk.run(&["import", &fixture("sample/sample.sessions.jsonl.gz"), "--session", "x"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("there are 5") && !desk.home().exists(), "{ran:?}");
}

#[test]
fn two_files_of_one_name_are_two_sessions_unless_they_tell_the_same() {
    let desk = Desk::new();
    let line = |text: &str| format!("{{\"role\":\"user\",\"content\":\"{text}\"}}\n");
    std::fs::create_dir(desk.path("a")).unwrap();
    std::fs::create_dir(desk.path("b")).unwrap();
    let first = desk.put("a/notes.jsonl", line("one"));
    let other = desk.put("b/notes.jsonl", line("two"));
    assert_eq!(desk.run(&["import", &first, &other]).code, 0);
    let longer = desk.put("a/notes.jsonl", line("one") + &line("more"));
    assert_eq!(desk.run(&["import", &longer, &other]).code, 0);
    let sessions = json_lines(&desk.run(&["sessions", "--format", "json"]));
    let told: Vec<(String, Option<u64>)> =
        sessions.iter().map(|line| (text_of(line, "name"), line.get("messages").and_then(Json::as_u64))).collect();
    assert_eq!(told, [("notes".to_owned(), Some(2)), ("notes-2".to_owned(), Some(1))]);
}

#[test]
fn a_good_file_comes_in_beside_one_that_cannot_be_taken() {
    let desk = Desk::new();
    let letter = desk.put("letter.txt", "Dear Ada,\nall is well.\n");
    let ran = desk.run(&["import", &letter, &fixture("import/openai.json")]);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stdout.contains("10 new messages") && ran.stderr.contains("letter.txt: it is in no format"), "{ran:?}");
}

#[test]
fn a_forced_format_takes_what_would_not_be_told() {
    let desk = Desk::new();
    let file = desk.put("odd.jsonl", "{\"content\":\"no role\"}\n");
    assert_eq!(desk.run(&["import", &file]).code, 2);
    assert_eq!(desk.run(&["import", &file, "--as", "openai"]).code, 0);
}
