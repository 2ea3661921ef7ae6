//! Wrong use and bad input of every kind: one sentence, a hint, the right exit code, nothing half-written; and never a
//! panic, whatever the arguments.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lcm_tests::run::{Desk, fixture};
use proptest::prelude::*;

use crate::filled;

#[test]
fn help_is_there_for_every_command_with_an_example() {
    let desk = Desk::new();
    for command in [
        "import", "sessions", "log", "show", "grep", "expand", "describe", "why", "compress", "unfold", "undo", "pin",
        "unpin", "replay", "status", "doctor", "export", "check", "config", "repair",
    ] {
        let ran = desk.run(&[command, "--help"]);
        assert_eq!(ran.code, 0, "{command}");
        assert!(ran.stdout.contains("Example") && ran.stdout.contains(&format!("lcm-cli {command}")), "{}", ran.stdout);
        assert!(ran.stderr.is_empty() && !desk.home().exists(), "{command}");
    }
    insta::assert_snapshot!(desk.run(&["--help"]).all());
    insta::assert_snapshot!(desk.run(&["grep", "--help"]).all());
}

#[test]
fn wrong_use_is_exit_code_2() {
    let desk = filled();
    for args in [
        &["frobnicate"][..],
        &[],
        &["grep"],
        &["grep", "x", "--role", "nobody"],
        &["grep", "x", "--since", "soon"],
        &["grep", "x", "--cursor", "?"],
        &["grep", "x", "-i", "-s"],
        &["grep", "x", "--words", "-F"],
        &["grep", "["],
        &["grep", "--words", ""],
        &["grep", "--ranked", " \t"],
        &["grep", "--words", "\"\""],
        &["grep", "x", "-m", "0"],
        &["grep", "x", "--ranked", "-m", "0"],
        &["log", "#1", "-n", "0"],
        &["show", "#1", "-n", "0"],
        &["log", "#"],
        &["log", "#one"],
        &["log", "# 1"],
        &["show", "#"],
        &["show", "#1x"],
        &["grep", "x", "--session", "#"],
        &["export", "#"],
        &["grep", "(a{1000}){1000}"],
        &["log", "#1", "--limit", "-3"],
        &["show"],
        &["import"],
        &["import", "-", "-"],
        &["import", "/"],
        &["import", "/no/such/file"],
        &["import", &fixture("import/messages.jsonl"), "--as", "word"],
        &["import", &fixture("import/messages.jsonl"), "--session", ""],
        &["export", "--force"],
        &["sessions", "--format", "xml"],
        &["repair"],
        &["repair", "messages"],
    ] {
        let ran = desk.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{args:?}: {ran:?}");
    }
}

#[test]
fn a_pattern_is_refused_in_one_sentence_that_says_why() {
    let desk = filled();
    for (pattern, why) in [
        ("(", "unclosed group"),
        ("a\n(?P<1>b)", "invalid capture group character"),
        ("(a{1000}){1000}", "it is too large to run"),
        ("\\p{Nothing}", "Unicode property not found"),
    ] {
        let ran = desk.run(&["grep", pattern]);
        let said = format!("lcm-cli: the pattern is not a usable regular expression: {why}; ");
        assert!(ran.code == 2 && ran.stderr.starts_with(&said), "{ran:?}");
        assert_eq!(ran.stderr.lines().count(), 1, "{ran:?}");
    }
}

#[test]
fn a_cursor_of_another_kind_of_search_is_called_that() {
    let desk = filled();
    for args in [
        &["the", "--cursor", "r2"][..],
        &["the", "--cursor", "a2"],
        &["the", "--oldest", "--cursor", "b2"],
        &["the", "--oldest", "--cursor", "r2"],
        &["the", "--ranked", "--cursor", "b5"],
        &["the", "--ranked", "--cursor", "a5"],
        &["the", "--words", "--cursor", "a5"],
        &["the", "-c", "--cursor", "r2"],
    ] {
        let ran = desk.run(&[&["grep"], args].concat());
        let cursor = args.last().unwrap();
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with(&format!("lcm-cli: cursor {cursor} is of searches ")), "{args:?}: {ran:?}");
    }
    for args in
        [&["the", "--cursor", "b9"][..], &["the", "--oldest", "--cursor", "a9"], &["the", "--words", "--cursor", "b9"]]
    {
        assert_eq!(desk.run(&[&["grep"], args].concat()).code, 0, "{args:?}");
    }
}

#[test]
fn a_number_behind_a_hash_is_always_the_number() {
    let desk = Desk::new();
    let file = |name: &str, said: &str| desk.put(name, format!("{{\"role\":\"user\",\"content\":\"{said}\"}}\n"));
    assert_eq!(desk.run(&["import", &file("a.jsonl", "first"), "--session", "#2"]).code, 0);
    assert_eq!(desk.run(&["import", &file("b.jsonl", "second"), "--session", "b"]).code, 0);
    assert!(desk.run(&["log", "#2"]).stdout.contains("second"));
    assert_eq!(desk.run(&["log", "#3"]).code, 1);
    assert_eq!(desk.run(&["log", "#99999999999999999999"]).code, 1);
}

#[test]
fn names_with_line_ends_are_shown_in_one_line() {
    let desk = filled();
    let name = "a\nb\x1b[31m\u{202e}.jsonl";
    let missing = desk.path(name).display().to_string();
    let there = desk.put(name, "{\"role\":\"user\",\"content\":\"a\"}\nno JSON\n");
    let none = desk.put("no\nmessages.txt", "Dear Ada,\n");
    for args in [
        &["import", &format!("{missing}.not")][..],
        &["import", &there],
        &["import", &none],
        &["export", "-o", &format!("{missing}/x")],
        &["export", "-o", &there],
        &["log", "no\nsession"],
        &["log", "#\n"],
        &["sessions", "--home", &there],
        &["grep", "x", "--role", "no\nbody"],
        &["no\nsuch\ncommand"],
    ] {
        let ran = desk.run(args);
        assert!(ran.code > 0, "{args:?}: {ran:?}");
        let lines = [&ran.stdout, &ran.stderr].map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).concat();
        // No name begins a line, and none is left as it is.
        assert!(lines.iter().all(|line| !line.starts_with(['b', 's', 'm'])), "{args:?}: {ran:?}");
        assert!(!ran.all().contains(['\x1b', '\u{202e}']), "{args:?}: {ran:?}");
    }
    // Candidates have lines of their own, names in them have none.
    for (name, said) in [("x\ny1", "1"), ("x\ny2", "2")] {
        let file = desk.put("x.jsonl", format!("{{\"role\":\"user\",\"content\":\"{said}\"}}\n"));
        assert_eq!(desk.run(&["import", &file, "--session", name]).code, 0);
    }
    let ran = desk.run(&["log", "x"]);
    assert_eq!((ran.code, ran.stderr.lines().count()), (2, 3), "{ran:?}");
    assert!(ran.stderr.contains(" x␊y1 (agent "), "{ran:?}");
}

#[test]
fn a_file_that_is_missing_comes_with_a_hint() {
    let desk = Desk::new();
    let ran = desk.run(&["import", "/no/such/file.json"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("cannot read /no/such/file.json: ") && ran.stderr.contains("; look at"), "{ran:?}");
}

#[test]
fn a_home_that_cannot_be_one_says_what_it_is() {
    let desk = Desk::new();
    std::os::unix::fs::symlink(desk.path("nowhere"), desk.path("dangling")).unwrap();
    let file = desk.put("file", "x");
    let dangling = desk.path("dangling").display().to_string();
    for (home, said) in [(&dangling, "is a link that leads nowhere"), (&file, "is not a directory")] {
        for args in [&["sessions"][..], &["import", &fixture("import/openai.json")]] {
            let ran = desk.run(&[args, &["--home", home]].concat());
            assert!(ran.code == 3 && ran.stderr.contains(said), "{ran:?}");
        }
    }
    assert!(!desk.path("nowhere").exists());
}

#[test]
fn a_store_that_lacks_a_file_is_damaged_and_not_another_directory() {
    type Damage = fn(&Desk);
    let damages: [(&str, Damage); 5] = [
        ("it has no file CURRENT", |desk| fs::remove_file(desk.home().join("CURRENT")).unwrap()),
        ("its file CURRENT is empty", |desk| fs::write(desk.home().join("CURRENT"), "").unwrap()),
        ("its file CURRENT is not ours", |desk| fs::write(desk.home().join("CURRENT"), "x").unwrap()),
        ("its data file store.1.redb is missing", |desk| fs::remove_file(desk.home().join("store.1.redb")).unwrap()),
        ("its data file store.1.redb is no database", |desk| fs::write(desk.home().join("store.1.redb"), "").unwrap()),
    ];
    for (said, damage) in damages {
        let desk = filled();
        damage(&desk);
        let ran = desk.run(&["sessions"]);
        let expected = format!("lcm-cli: the store in [desk]/home is damaged: {said}; ");
        assert!(ran.code == 3 && ran.stderr.starts_with(&expected), "{ran:?}");
        assert!(ran.stderr.contains("copy") && !ran.stderr.contains("another directory"), "{ran:?}");
    }
}

#[test]
fn what_is_not_there_is_exit_code_1() {
    let desk = filled();
    for args in [
        &["log", "nobody"][..],
        &["log", "#99"],
        &["log", "#1", "--from", "99"],
        &["log", "#1", "--timeline", "4"],
        &["log", "#1", "--timeline", "99"],
        &["show", "99"],
        &["show", "msg_ffffffffffffffff"],
        &["show", "msg_"],
        &["expand", "node 1"],
        &["expand", "#1"],
        &["describe", "sum_0"],
        &["grep", "station", "--session", "nobody"],
        &["export", "nobody"],
    ] {
        let ran = desk.run(args);
        assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty(), "{args:?}: {ran:?}");
    }
}

#[test]
fn an_ambiguous_name_lists_what_it_can_mean() {
    let desk = filled();
    insta::assert_snapshot!(desk.run(&["log", "5f0c"]).all());
    // Sixteen messages would have to differ in their first digit for one of these to be clear.
    let ran = (0..16).map(|digit| desk.run(&["show", &format!("msg_{digit:x}")])).find(|ran| ran.code == 2).unwrap();
    assert!(ran.stderr.contains("can mean") && ran.stderr.matches("msg_").count() > 2, "{ran:?}");
}

#[test]
fn a_store_that_is_none_is_told_and_not_touched() {
    let mut desk = Desk::new();
    let missing = desk.run(&["sessions"]);
    assert_eq!(missing.code, 3, "{missing:?}");
    insta::assert_snapshot!(missing.all());
    fs::create_dir(desk.path("photos")).unwrap();
    let photo = desk.put("photos/one.jpg", "not a store");
    let other = desk.path("photos").display().to_string();
    for args in [&["sessions"][..], &["import", &fixture("import/openai.json")]] {
        let ran = desk.run(&[args, &["--home", &other]].concat());
        assert_eq!(ran.code, 3, "{ran:?}");
        assert!(ran.stderr.contains("is not a store") && ran.stderr.contains("--home"), "{ran:?}");
    }
    assert_eq!(fs::read_dir(desk.path("photos")).unwrap().count(), 1);
    let ran = desk.run(&["sessions", "--home", &photo]);
    assert_eq!(ran.code, 3, "{ran:?}");
    desk.set("LCM_HOME", "");
    let homeless = desk.run(&["sessions"]);
    assert_eq!(homeless.code, 2, "{homeless:?}");
}

#[test]
fn a_store_of_a_newer_format_is_refused_untouched() {
    let desk = filled();
    let current = desk.home().join("CURRENT");
    let text = fs::read_to_string(&current).unwrap();
    fs::write(&current, text.replacen("lcm 1 ", "lcm 999 ", 1)).unwrap();
    for args in [&["sessions"][..], &["import", &fixture("import/openai.json")], &["check"]] {
        let ran = desk.run(args);
        assert_eq!(ran.code, 3, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("format 999"), "{ran:?}");
    }
}

#[test]
fn a_file_that_must_not_be_read_is_named() {
    let desk = Desk::new();
    let file = desk.put("secret.json", "[]");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    let ran = desk.run(&["import", &file]);
    // Root reads everything; then the list is merely empty.
    assert!(ran.code == 2 || ran.code == 1, "{ran:?}");
    assert!(!desk.home().exists());
}

/// One word of a command line, sensible or not.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "grep",
            "log",
            "show",
            "expand",
            "describe",
            "sessions",
            "status",
            "export",
            "check",
            "repair",
            "index",
            "import",
            "--format",
            "json",
            "text",
            "--raw",
            "--children",
            "--limit",
            "--from",
            "-c",
            "-l",
            "--words",
            "--ranked",
            "-F",
            "-C",
            "--chars",
            "--since",
            "--until",
            "--session",
            "--cursor",
            "b3",
            "r1",
            "#1",
            "1",
            "0",
            "-1",
            "18446744073709551615",
            "node 1",
            "msg_",
            "messages",
            "5f0c",
            ".",
            "[",
            "a|b",
            "--help",
            "-",
            "2 days ago",
            "9999-12-31",
            "--color",
            "always",
            "--role",
            "user",
            "--kind",
            "summaries",
            "-w",
            "-m",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,12}",
        "[\\x01-\\x1f]{1,3}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn no_arguments_make_the_program_panic(words in prop::collection::vec(word(), 0..7)) {
        let desk = DESK.with(|desk| desk.clone());
        // Nothing of the machine is imported, and nothing is written but on the desk.
        let words: Vec<String> = words.into_iter().filter(|word| !word.contains(['/', '~', '-']) || word.starts_with('-')).collect();
        if words.iter().any(|word| word.starts_with("-o") || word.starts_with("--o") || word == "import" || word.starts_with("--h")) {
            return Ok(());
        }
        let ran = desk.run(&words);
        prop_assert!([0, 1, 2, 3, 4].contains(&ran.code), "{words:?}: {ran:?}");
    }
}

thread_local! {
    static DESK: std::rc::Rc<Desk> = std::rc::Rc::new(filled());
}
