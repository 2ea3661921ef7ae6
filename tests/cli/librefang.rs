//! `install librefang` and its way back: what of a home is lcm's, every other byte as it was, and what is refused.
//!
//! No daemon runs here: that one accepts all of this is tried by `.ci/run --only librefang`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use lcm_tests::folder::contents;
use lcm_tests::run::{Desk, Ran};

/// Nobody listens on a port of this number.
const CONFIG: &str = r#"# mine
api_listen = "127.0.0.1:1"   # local

# where models are
[default_model]
provider = "openai"

[compaction]
threshold_messages = 30   # the host's own
keep_recent = 10

[[mcp_servers]]
name = "weather"
[mcp_servers.transport]
type = "stdio"
command = "/opt/weather"
args = []

[web]
timeout_secs = 15
# the end
"#;

const AGENT: &str = "name = \"x\"   # me\ntool_allowlist = [\n    \"file_list\",   # reads\n]\nmcp_servers = [\"weather\"]\n\n[model]\nprovider = \"openai\"\n";

fn home(desk: &Desk, config: &str) -> PathBuf {
    let home = desk.path("librefang");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("config.toml"), config).unwrap();
    home
}

fn agent(home: &Path, folder: &str, text: &str) -> PathBuf {
    let path = home.join(folder).join("agent.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn run(desk: &Desk, command: &str, home: &Path, more: &[&str]) -> Ran {
    let home = home.display().to_string();
    let mut args = vec![command, "librefang", "--home", home.as_str()];
    args.extend(more);
    let mut ran = desk.run(&args);
    // Whoever runs the tests as root is told so.
    let is_told = |line: &&str| !line.contains(" user ") && !line.contains("run it as another user");
    ran.stdout = ran.stdout.lines().filter(is_told).map(|line| format!("{line}\n")).collect();
    ran
}

fn config(desk: &Desk, home: &Path) -> String {
    fs::read_to_string(home.join("config.toml")).unwrap().replace(&desk.path("").display().to_string(), "[desk]/")
}

/// Files of a home but copies of what they were.
fn files(home: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let is_copy = |path: &PathBuf| path.to_string_lossy().contains(".before-lcm-");
    contents(home).into_iter().filter(|(path, _)| !is_copy(path)).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_home_is_given_lcm_and_its_settings_keep_every_other_byte() {
    let desk = Desk::new();
    let home = home(&desk, CONFIG);
    let manifest = agent(&home, "workspaces/agents/x", AGENT);
    let ran = run(&desk, "install", &home, &[]);
    assert_snapshot!(ran.all());
    assert_snapshot!(config(&desk, &home));
    assert_snapshot!(fs::read_to_string(&manifest).unwrap());
    for (path, wanted) in [
        ("lcm", 0o700),
        ("lcm/bin/lcm-cli", 0o700),
        ("plugins/lcm", 0o700),
        ("plugins/lcm/plugin.toml", 0o600),
        ("plugins/lcm/hooks/lcm-hook", 0o700),
    ] {
        assert_eq!(mode(&home.join(path)), wanted, "{path}");
    }
    assert_eq!(
        fs::read(home.join("lcm/bin/lcm-cli")).unwrap(),
        fs::read(home.join("plugins/lcm/hooks/lcm-hook")).unwrap()
    );
    let was = contents(&home);
    let again = run(&desk, "install", &home, &[]);
    assert_eq!((again.code, contents(&home) == was), (0, true), "{again:?}");
}

#[test]
fn a_home_does_without_lcm_again_and_what_was_kept_stays() {
    for more in [&[][..], &["--sidecar"]] {
        let desk = Desk::new();
        let home = home(&desk, CONFIG);
        agent(&home, "workspaces/agents/x", AGENT);
        let was = files(&home);
        assert_eq!(run(&desk, "install", &home, more).code, 0);
        fs::write(home.join("lcm/kept"), "everything").unwrap();
        let ran = run(&desk, "uninstall", &home, &[]);
        assert_eq!(ran.code, 0, "{ran:?}");
        let is_data = |path: &PathBuf| path.starts_with("lcm") || path.starts_with(home.join("lcm"));
        let now: Vec<_> = files(&home).into_iter().filter(|(path, _)| !is_data(path)).collect();
        assert_eq!(now, was, "{more:?}");
        assert_eq!(fs::read_to_string(home.join("lcm/kept")).unwrap(), "everything");
        assert!(!home.join("plugins/lcm").exists());
        assert_eq!(run(&desk, "uninstall", &home, &[]).code, 0, "there is nothing left to do");
    }
}

#[test]
fn a_home_without_settings_gets_some() {
    let desk = Desk::new();
    let home = home(&desk, "");
    fs::remove_file(home.join("config.toml")).unwrap();
    assert_eq!(run(&desk, "install", &home, &[]).code, 0);
    assert_snapshot!(config(&desk, &home));
    assert_eq!(mode(&home.join("config.toml")), 0o600);
    run(&desk, "uninstall", &home, &[]);
    assert_eq!(config(&desk, &home), "");
}

/// Only the first of a stack makes what a model is shown.
#[test]
fn lcm_is_the_first_of_a_stack() {
    let desk = Desk::new();
    let stack = "[context_engine]\nplugin = \"one\"\nplugin_stack = [\"one\", \"two\"] # both\n";
    let home = home(&desk, stack);
    run(&desk, "install", &home, &[]);
    assert!(config(&desk, &home).starts_with(
        "max_history_messages = 500\n[context_engine]\nplugin = \"one\"\nplugin_stack = [\"lcm\", \"one\", \"two\"] # both\n"
    ));
    run(&desk, "uninstall", &home, &[]);
    assert_eq!(config(&desk, &home), stack);
    // Somebody moved it down, or changed the rest meanwhile.
    fs::write(home.join("config.toml"), stack.replace("\"two\"", "\"lcm\"")).unwrap();
    assert!(run(&desk, "doctor", &home, &[]).stdout.contains("does not begin with lcm"));
    run(&desk, "install", &home, &[]);
    assert!(config(&desk, &home).contains("plugin_stack = [\"lcm\", \"one\"] # both"), "{}", config(&desk, &home));
    fs::write(home.join("config.toml"), config(&desk, &home).replace("\"one\"]", "\"three\", \"four\"]")).unwrap();
    run(&desk, "uninstall", &home, &[]);
    assert!(config(&desk, &home).contains("plugin_stack = [\"three\", \"four\"] # both"), "{}", config(&desk, &home));
}

#[test]
fn what_somebody_chose_stays_and_a_plugin_that_was_there_comes_back() {
    let desk = Desk::new();
    let chosen = "max_history_messages = 80\n[context_engine]\nengine = \"default\"\nplugin = \"one\"\n[compaction]\nthreshold_messages = 12\n";
    let home = home(&desk, chosen);
    let ran = run(&desk, "install", &home, &[]);
    assert!(ran.stdout.contains("context_engine.plugin is \"lcm\"; it was \"one\""), "{ran:?}");
    let after = config(&desk, &home);
    assert!(after.contains("max_history_messages = 80") && after.contains("threshold_messages = 12"), "{after}");
    assert!(run(&desk, "doctor", &home, &[]).stdout.contains("threshold_messages is 12, and lcm recommends 100000"));
    // Set since, so no longer ours.
    fs::write(
        home.join("config.toml"),
        after.replace("history_fold_after_turns = 100000", "history_fold_after_turns = 9"),
    )
    .unwrap();
    run(&desk, "uninstall", &home, &[]);
    assert_eq!(config(&desk, &home), format!("{chosen}\n[tool_results]\nhistory_fold_after_turns = 9\n"));
}

/// Somebody writes on another system, or everything in one line.
#[test]
fn settings_stay_as_they_are_written() {
    let dotted = "context_engine.plugin = \"one\" # mine\nmcp_servers = [{ name = \"w\", transport = { type = \"stdio\", command = \"/w\" } }]\ncompaction = { threshold_messages = 30 }\n";
    for text in [
        CONFIG.replace('\n', "\r\n"),
        dotted.to_owned(),
        // An empty list, as the last line above the first table; it comes back there.
        CONFIG
            .replace("# local\n", "# local\nmcp_servers = []\n")
            .replace("[[mcp_servers]]", "[x]")
            .replace("[mcp_servers.", "[x."),
    ] {
        let desk = Desk::new();
        let home = home(&desk, &text);
        let ran = run(&desk, "install", &home, &[]);
        assert_eq!(ran.code, 0, "{text}: {ran:?}");
        let with = config(&desk, &home);
        assert!(
            with.contains("\"lcm\"") && (!text.contains('\r') || !with.replace("\r\n", "").contains('\n')),
            "{with}"
        );
        let was = contents(&home);
        run(&desk, "install", &home, &[]);
        assert_eq!(contents(&home), was, "{text}");
        assert!(run(&desk, "doctor", &home, &[]).stdout.contains("mcp_servers has lcm, so agents"), "{with}");
        run(&desk, "uninstall", &home, &[]);
        assert_eq!(config(&desk, &home), text);
    }
}

#[test]
fn agents_are_given_the_tools_and_only_those() {
    let desk = Desk::new();
    let home = home(&desk, "");
    let all = "mcp_servers = [\"*\"]\n";
    let paths = [
        agent(&home, "workspaces/agents/all", all),
        agent(&home, "workspaces/agents/damaged", "name = \n"),
        agent(&home, "agents/none", "name = \"none\"\nmcp_servers = []\n[metadata]\nlazy_tools = true\n"),
    ];
    let ran = run(&desk, "install", &home, &[]);
    assert!(ran.stdout.contains("damaged/agent.toml stays as it is: it is no TOML (line 1"), "{ran:?}");
    let now = paths.each_ref().map(|path| fs::read_to_string(path).unwrap());
    assert_eq!(now[0], all);
    assert_eq!(now[1], "name = \n");
    assert_eq!(now[2], "name = \"none\"\nmcp_servers = [\"lcm\"]\n[metadata]\nlazy_tools = true\n");
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let desk = Desk::new();
    let home = home(&desk, CONFIG);
    agent(&home, "workspaces/agents/x", AGENT);
    let was = contents(&home);
    for (command, more) in [("install", "--dry-run"), ("uninstall", "--dry-run")] {
        let ran = run(&desk, command, &home, &[more]);
        assert_eq!((ran.code, contents(&home) == was), (0, true), "{ran:?}");
        assert!(ran.stdout.contains("(not done)"), "{ran:?}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_in_a_sentence_before_anything_is_written() {
    for (text, says) in [
        ("a = \n", "is no TOML (line 1"),
        ("[context_engine]\nengine = \"summary\"\n", "names the engine \"summary\""),
        ("[context_engine]\nengine = \"sidecar\"\nsidecar = { command = \"/x\" }\n", "names the engine \"sidecar\""),
        ("context_engine = 3\n", "has context_engine in a way that is not changed here"),
        ("mcp_servers = \"none\"\n", "has mcp_servers in a way that is not changed here"),
        (
            "[[mcp_servers]]\nname = \"lcm\"\ntransport = { type = \"stdio\", command = \"/other\" }\n",
            "has an MCP server named lcm that is another program",
        ),
    ] {
        let desk = Desk::new();
        let home = home(&desk, text);
        let was = contents(&home);
        let ran = run(&desk, "install", &home, &[]);
        assert_eq!((ran.code, contents(&home) == was), (2, true), "{text}: {ran:?}");
        assert!(ran.stderr.contains(says) && ran.stderr.contains("config.toml"), "{text}: {ran:?}");
    }
    let desk = Desk::new();
    let ran = run(&desk, "install", &desk.path("nowhere"), &[]);
    assert!(ran.code == 2 && ran.stderr.contains("nowhere") && ran.stderr.contains("--home"), "{ran:?}");
    let home = home(&desk, CONFIG);
    fs::create_dir_all(home.join("plugins/lcm")).unwrap();
    fs::write(home.join("plugins/lcm/plugin.toml"), "name = \"lcm\"\n[hooks]\nassemble = \"hooks/theirs.py\"\n")
        .unwrap();
    let was = contents(&home);
    for command in ["install", "uninstall"] {
        let ran = run(&desk, command, &home, &[]);
        assert_eq!((ran.code, contents(&home) == was), (2, true), "{ran:?}");
        assert!(ran.stderr.contains("plugins/lcm is a plugin of another kind"), "{ran:?}");
    }
}

#[test]
fn a_way_that_was_taken_is_left_for_the_other() {
    let desk = Desk::new();
    let home = home(&desk, CONFIG);
    run(&desk, "install", &home, &[]);
    assert_eq!(run(&desk, "install", &home, &["--sidecar"]).code, 0);
    let sidecar = config(&desk, &home);
    let wanted = "engine = \"sidecar\"\n\n[context_engine.sidecar]\ncommand = \"[desk]/librefang/lcm/bin/lcm-cli\"\nargs = [\"--home\", \"[desk]/librefang/lcm\", \"sidecar\"]\n";
    assert!(sidecar.contains(wanted) && !sidecar.contains("plugin ="), "{sidecar}");
    assert!(!home.join("plugins/lcm").exists());
    run(&desk, "install", &home, &[]);
    assert!(config(&desk, &home).contains("plugin = \"lcm\"") && !config(&desk, &home).contains("sidecar"));
    run(&desk, "uninstall", &home, &[]);
    assert_eq!(config(&desk, &home), CONFIG);
}

#[test]
fn the_doctor_tells_of_each_part_that_is_not_in_order() {
    let desk = Desk::new();
    let home = home(&desk, CONFIG);
    agent(&home, "workspaces/agents/x", AGENT);
    assert_snapshot!(run(&desk, "doctor", &home, &[]).all());
    run(&desk, "install", &home, &[]);
    // The program is that of these tests, which is none to be asked for its version.
    let says = |part: &str| {
        let ran = run(&desk, "doctor", &home, &[]);
        assert!(ran.code == 3 && ran.stdout.contains(part), "{part}: {ran:?}");
    };
    fs::set_permissions(home.join("lcm"), fs::Permissions::from_mode(0o755)).unwrap();
    says("others can look into [desk]/librefang/lcm (mode 755)");
    run(&desk, "install", &home, &[]);
    fs::create_dir(home.join("lcm/spool")).unwrap();
    fs::write(home.join("lcm/spool/1"), "x").unwrap();
    says("1 request of hooks not taken in yet");
    fs::write(home.join("lcm/CURRENT"), "lcm 99 store.1.redb\n").unwrap();
    says("has format 99");
    fs::remove_file(home.join("lcm/CURRENT")).unwrap();
    let hook = home.join("plugins/lcm/hooks/lcm-hook");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o600)).unwrap();
    says("lcm-hook cannot be executed");
    fs::write(home.join("plugins/lcm/plugin.toml"), "# older\n[hooks]\nassemble = \"hooks/lcm-hook\"\n").unwrap();
    says("plugins/lcm is that of another version");
    run(&desk, "install", &home, &[]);
    fs::write(&hook, "#!/bin/sh\n").unwrap();
    says("is another program than");
}

#[test]
fn what_is_installed_becomes_a_store_when_something_is_kept() {
    let desk = Desk::new();
    let home = home(&desk, CONFIG);
    assert_eq!(run(&desk, "install", &home, &[]).code, 0);
    let data = home.join("lcm").display().to_string();
    let list = r#"[{"role":"user","content":"the orchid is blue"}]"#;
    let ran = desk.run_with(&["--home", &data, "import", "-"], list);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(desk.run(&["--home", &data, "grep", "orchid"]).stdout.contains("blue"));
}
