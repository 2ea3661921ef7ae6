//! `export`: what comes out comes in again to the same ids, and adds nothing where it is from.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use lcm_core::Json;
use lcm_tests::run::{Desk, fixture};

use crate::{filled, json_lines};

#[test]
fn an_export_is_lines_of_json() {
    let ran = filled().run(&["export", "#2"]);
    let shown: Vec<&str> = ran.stdout.lines().take(5).collect();
    insta::assert_snapshot!(shown.join("\n"));
    assert!(ran.stdout.ends_with("{\"lcm\":\"end\",\"sessions\":1,\"messages\":23}\n"), "{ran:?}");
}

#[test]
fn an_export_comes_in_again_to_the_same_export() {
    let desk = filled();
    let file = desk.path("all.jsonl").display().to_string();
    let ran = desk.run(&["export", "--output", &file]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout, "[desk]/all.jsonl: 4 sessions, 49 messages\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let back = desk.run(&["import", &file, "--format", "json"]);
    assert_eq!(json_lines(&back)[0].get("new").and_then(Json::as_u64), Some(0), "{back:?}");
    let other = Desk::new();
    assert_eq!(other.run(&["import", &file]).code, 0);
    assert_eq!(other.run(&["export"]).stdout, fs::read_to_string(&file).unwrap());
}

#[test]
fn a_packed_export_is_the_same_each_time() {
    let desk = filled();
    let path = |name: &str| desk.path(name).display().to_string();
    for name in ["a.jsonl.gz", "b.jsonl.gz"] {
        assert_eq!(desk.run(&["export", "-o", &path(name)]).code, 0);
    }
    assert_eq!(fs::read(path("a.jsonl.gz")).unwrap(), fs::read(path("b.jsonl.gz")).unwrap());
    let other = Desk::new();
    assert_eq!(other.run(&["import", &path("a.jsonl.gz")]).code, 0);
    assert_eq!(other.run(&["export"]).stdout, desk.run(&["export"]).stdout);
}

#[test]
fn a_session_is_as_old_after_an_export_as_before() {
    let text = filled().run(&["export", "#2"]).stdout;
    let older = text.replacen("\"created_ms\":1772712000000", "\"created_ms\":1600000000000", 1);
    assert_ne!(older, text);
    let desk = Desk::new();
    let file = desk.put("older.jsonl", &older);
    assert_eq!(desk.run(&["import", &file]).code, 0);
    let session = |text: &str| text.lines().find(|line| line.contains("\"lcm\":\"session\"")).map(str::to_owned);
    assert_eq!(session(&desk.run(&["export"]).stdout), session(&older));
}

/// Files in the folder of a desk, hidden ones too, but for the store.
fn lying_about(desk: &Desk) -> Vec<String> {
    let entries = fs::read_dir(desk.path("")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name != "home").collect();
    names.sort();
    names
}

#[test]
fn a_link_stays_one_and_what_it_leads_to_is_replaced() {
    let desk = filled();
    fs::create_dir(desk.path("far")).unwrap();
    for (link, to) in
        [("there.jsonl", "far/there.jsonl"), ("dangling.jsonl", "far/new.jsonl"), ("twice", "there.jsonl")]
    {
        std::os::unix::fs::symlink(to, desk.path(link)).unwrap();
        let file = desk.path(link).display().to_string();
        // Without --force a link is something that is there, wherever it leads.
        assert_eq!(desk.run(&["export", "-o", &file]).code, 2);
        fs::write(desk.path("far/there.jsonl"), "old").unwrap();
        let ran = desk.run(&["export", "-o", &file, "--force"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(fs::read_link(desk.path(link)).unwrap().to_str(), Some(to));
        assert_eq!(fs::read_to_string(desk.path(link)).unwrap(), desk.run(&["export"]).stdout);
    }
    assert_eq!(fs::read_dir(desk.path("far")).unwrap().count(), 2);
}

#[test]
fn what_is_no_file_is_written_straight_and_stays_what_it_is() {
    let desk = filled();
    let pipe = desk.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let file = pipe.display().to_string();
    assert_eq!(desk.run(&["export", "-o", &file]).code, 2, "only when asked");
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::read_to_string(pipe).unwrap()
    });
    let ran = desk.run(&["export", "-o", &file, "--force"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(reader.join().unwrap(), desk.run(&["export"]).stdout);
    assert!(std::os::unix::fs::FileTypeExt::is_fifo(&fs::metadata(&pipe).unwrap().file_type()));
    assert_eq!(lying_about(&desk), ["pipe"]);
    let folder = desk.run(&["export", "-o", &desk.home().display().to_string(), "--force"]);
    assert_eq!((folder.code, folder.stderr.contains("is a directory")), (2, true), "{folder:?}");
}

#[test]
fn what_a_killed_export_left_is_taken_over_and_what_another_writes_is_not() {
    let desk = filled();
    let file = desk.path("all.jsonl").display().to_string();
    let part = desk.put(".all.jsonl.lcm-part", "left by one that was killed");
    assert_eq!(desk.run(&["export", "-o", &file]).code, 0);
    assert_eq!(lying_about(&desk), ["all.jsonl"]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    fs::write(&part, "being written").unwrap();
    let other = fs::File::open(&part).unwrap();
    other.lock().unwrap();
    let before = fs::read_to_string(&file).unwrap();
    let ran = desk.run(&["export", "#1", "-o", &file, "--force"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("another program is writing [desk]/all.jsonl; "), "{ran:?}");
    assert_eq!(fs::read_to_string(&part).unwrap(), "being written");
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    drop(other);
    assert_eq!(desk.run(&["export", "#1", "-o", &file, "--force"]).code, 0);
    assert_eq!(lying_about(&desk), ["all.jsonl"]);

    // A link under that name leads to somebody else's file.
    let mine = desk.put("mine.txt", "mine");
    std::os::unix::fs::symlink(&mine, &part).unwrap();
    assert_eq!(desk.run(&["export", "-o", &file, "--force"]).code, 2);
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
}

#[test]
fn a_file_that_is_there_is_replaced_only_when_asked() {
    let desk = filled();
    let file = desk.put("mine.txt", "mine");
    let ran = desk.run(&["export", "--output", &file]);
    assert_eq!((ran.code, fs::read_to_string(&file).unwrap().as_str()), (2, "mine"), "{ran:?}");
    assert_eq!(desk.run(&["export", "--output", &file, "--force"]).code, 0);
    assert!(fs::read_to_string(&file).unwrap().starts_with("{\"lcm\":\"export\""));
    let nowhere = desk.run(&["export", "--output", &desk.path("no/such/place").display().to_string()]);
    assert_eq!(nowhere.code, 2, "{nowhere:?}");
    assert!(nowhere.stderr.contains("there is no folder [desk]/no/such; "), "{nowhere:?}");
}

#[test]
fn the_real_sessions_come_out_equal_message_by_message() {
    let desk = Desk::with(&["sample/sample.sessions.jsonl.gz"]);
    let exported = json_lines(&desk.run(&["export"]));
    let said = exported.iter().filter_map(|line| line.get("message"));
    let packed = fs::File::open(fixture("sample/sample.sessions.jsonl.gz")).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(packed), &mut text).unwrap();
    let sessions = text.lines().map(|line| Json::parse(line.as_bytes()).unwrap());
    let expected: Vec<Json> =
        sessions.flat_map(|session| session.get("messages").and_then(Json::as_array).unwrap().to_vec()).collect();
    assert_eq!(said.cloned().collect::<Vec<_>>(), expected);
}
