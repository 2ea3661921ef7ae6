//! Every hook, with somebody serving and without: what is answered, what is left in the spool, where it is looked for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use lcm_core::Json;
use lcm_store::spool::{self, SPOOL_DIR};
use lcm_tests::{folder, program};

use crate::host::{AGENT, Host, call, messages, requests, rest};

fn kind(answer: &Json) -> &str {
    answer.get("type").and_then(Json::as_str).unwrap_or_default()
}

#[test]
fn with_nobody_serving_each_hook_answers_on_its_own_and_leaves_its_request() {
    let host = Host::new();
    for (name, request) in requests() {
        let called = host.call(request.as_bytes());
        assert_eq!(called.stderr, "", "{name}");
        let messages = called.answer.get("messages");
        match name {
            "assemble" => {
                let shown = Json::parse(request.as_bytes()).unwrap();
                assert_eq!(messages, shown.get("messages"), "a window that fits is left as it is");
            }
            "compact" => {}
            _ => assert_eq!(messages, None, "{name}"),
        }
    }
    // In the order in which they were told, byte for byte; nothing was said in a bootstrap.
    let left: Vec<Vec<u8>> = host.spooled().into_iter().map(|spooled| spooled.request).collect();
    let told: Vec<Vec<u8>> = requests().into_iter().skip(1).map(|(_, request)| request.into_bytes()).collect();
    assert_eq!(left, told);
    let folder = host.data().join(SPOOL_DIR);
    for folder in [host.data(), &folder] {
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    }
    for name in spool::names(host.data()).unwrap() {
        let file = fs::metadata(folder.join(name.as_str())).unwrap();
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(spool::sweep(host.data(), i64::MAX).unwrap(), 0, "nothing is left in the making");
}

#[test]
fn with_somebody_serving_each_hook_writes_what_it_is_told_and_leaves_nothing() {
    let host = Host::new();
    let server = host.serve();
    for (name, request) in requests() {
        let called = host.call(request.as_bytes());
        assert_eq!(called.stderr, "", "{name}");
        assert!(!kind(&called.answer).is_empty(), "{name}: {:?}", called.answer);
    }
    host.assert_only_what_waits_is_left();
    server.end();
}

#[test]
fn an_answer_is_never_longer_than_the_host_reads() {
    let host = Host::new();
    let window = messages(12_000, &"long ".repeat(5));
    let request =
        format!(r#"{{"type":"assemble","agent_id":"{AGENT}","messages":{window},"context_window_tokens":9000000}}"#);
    assert!(request.len() > 1 << 20);
    let called = host.call(request.as_bytes());
    assert!(called.answer.to_text().len() < 1 << 20);
    assert_eq!(host.spooled().len(), 1);
}

#[test]
fn a_data_directory_with_a_long_path_is_served_and_spooled_to() {
    let host = Host::in_folder(&"long".repeat(40));
    let (_, request) = &requests()[1];
    host.expect(request.as_bytes(), r#"{"type":"ingest_result","memories":[],"recalled_memories":[]}"#);
    assert_eq!(host.spooled().len(), 1);
    let server = host.serve();
    host.expect(request.as_bytes(), r#"{"type":"ingest_result","memories":[],"recalled_memories":[]}"#);
    assert_eq!(host.spooled(), [], "who serves takes in what was left");
    server.end();
}

#[test]
fn the_data_directory_is_found_by_the_environment_or_beside_the_program() {
    let host = Host::new();
    let (_, request) = &requests()[1];
    let left = |home: &str| spool::names(&host.desk.path(home).join("lcm")).unwrap().len();
    for (variable, value, home) in [
        ("LIBREFANG_HOME", host.desk.path("one"), "one"),
        ("LCM_HOME", host.desk.path("two").join("lcm"), "two"),
        ("LCM_HOME", "".into(), "librefang"),
        ("LCM_HOME", "three/lcm".into(), "librefang"),
    ] {
        let before = left(home);
        let mut command = host.command();
        command.env(variable, &value);
        assert_eq!(call(command, request.as_bytes()).stderr, "");
        assert_eq!(left(home), before + 1, "{variable}={}", value.display());
    }
    // A hook that was copied, and is told a name without a path.
    let copied = host.desk.path("librefang/plugins/other/hooks/assemble");
    fs::create_dir_all(copied.parent().unwrap()).unwrap();
    fs::copy(program!(), &copied).unwrap();
    let before = left("librefang");
    let mut command = Command::new(&copied);
    command.arg0("lcm-hook").env_clear();
    assert_eq!(call(command, request.as_bytes()).stderr, "");
    assert_eq!(left("librefang"), before + 1);
}

#[test]
fn without_a_data_directory_it_answers_and_says_so_after() {
    let mut command = Command::new(program!());
    command.arg0("lcm-hook").env_clear().env("HOME", "/").env("LIBREFANG_AGENT_ID", AGENT);
    let (_, request) = &requests()[2];
    let called = call(command, request.as_bytes());
    assert!(called.stderr.contains("no data directory"), "{}", called.stderr);
    assert!(called.answer.get("messages").is_some());
}

#[test]
fn where_nothing_can_be_left_it_answers_and_says_so_after() {
    let host = Host::new();
    fs::create_dir(host.data()).unwrap();
    fs::write(host.data().join(SPOOL_DIR), "in the way").unwrap();
    let (_, request) = &requests()[2];
    let called = host.call(request.as_bytes());
    assert!(called.stderr.contains("is not kept"), "{}", called.stderr);
    assert!(called.answer.get("messages").is_some());
    assert_eq!(fs::read(host.data().join(SPOOL_DIR)).unwrap(), b"in the way");
}

#[test]
fn a_dry_call_leaves_nothing_and_says_what_became_of_the_request() {
    let host = Host::new();
    let (_, request) = &requests()[1];
    let dry = |request: &str| {
        let mut command = host.command();
        command.arg("--dry");
        call(command, request.as_bytes()).stderr
    };
    let told = dry(request);
    assert!(told.contains("would go into the spool") && told.contains("nobody serves"), "{told}");
    assert!(told.contains(&host.data().display().to_string()), "{told}");
    assert!(dry(&requests()[0].1).contains("would not be kept"));
    assert!(dry("nonsense").contains("no JSON"));
    assert!(!host.data().exists(), "nothing was made");
    let server = host.serve();
    let told = dry(request);
    assert!(told.contains("answered by whoever serves"), "{told}");
    server.end();
}

#[test]
fn a_person_gets_help_and_the_command_does_the_same() {
    let host = Host::new();
    let mut command = host.command();
    let mut child = command.arg("--help").stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    assert!(rest(child.stdout.take().unwrap()).contains("Usage: lcm-cli hook"));
    assert!(child.wait().unwrap().success());

    let (_, request) = &requests()[1];
    let home = folder::folder();
    let ran = host.desk.run_with(&["hook", "--home", &home.path().display().to_string()], request.as_bytes());
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (0, "{\"type\":\"ingest_result\",\"memories\":[],\"recalled_memories\":[]}\n", "")
    );
    assert_eq!(spool::names(home.path()).unwrap().len(), 1);
    let ran = host.desk.run_with(&["hook", "--dry"], "[]");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.lines().count()), (0, "{\"type\":\"ok\"}\n", 1));
}
