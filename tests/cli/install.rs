//! `install`, `uninstall` and `doctor hermes`: what is written into an agent's home, and that its owner's words stay.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use lcm_tests::folder::contents;
use lcm_tests::run::{Desk, Ran};

const CONFIG: &str = "# my agent\nmodel:\n  default: big   # the good one\ncontext:\n  engine: compressor  # for now\nplugins:\n  enabled:\n  - weather\n";

/// A home of an agent with these settings, and the option that names a Python which says what the agent's own code would.
fn agent(desk: &Desk, config: &str) -> (PathBuf, [String; 2]) {
    let home = desk.path("agent");
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join("config.yaml"), config).unwrap();
    let python = desk.path("python");
    let told = r#"{"host": "hermes-agent 0.19.0", "configured": "lcm", "engine": "lcm", "is_available": true}"#;
    fs::write(&python, format!("#!/bin/sh\necho noise\necho 'lcm-told {told}'\n")).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    (home, ["--python".to_owned(), python.display().to_string()])
}

fn run(desk: &Desk, command: &str, home: &Path, more: &[impl AsRef<str>]) -> Ran {
    let home = home.display().to_string();
    let mut args = vec![command, "hermes", "--home", home.as_str()];
    args.extend(more.iter().map(AsRef::as_ref));
    desk.run(&args)
}

/// No options.
const PLAIN: &[&str] = &[];

fn config(home: &Path) -> String {
    fs::read_to_string(home.join("config.yaml")).unwrap()
}

#[test]
fn an_agent_is_given_lcm_and_its_settings_keep_every_other_byte() {
    let desk = Desk::new();
    let (home, python) = agent(&desk, CONFIG);
    let ran = run(&desk, "install", &home, &python);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("hermes-agent 0.19.0 finds lcm and its program"), "{ran:?}");
    let after = CONFIG.replace("engine: compressor", "engine: lcm").replace("- weather\n", "- weather\n  - lcm\n");
    assert_eq!(config(&home), after);
    let backups = contents(&home)
        .into_iter()
        .filter(|(name, _)| name.to_string_lossy().contains("before-lcm"))
        .collect::<Vec<_>>();
    assert_eq!(backups.len(), 1);
    let program = home.join("lcm/bin/lcm-cli");
    assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
    assert_eq!(fs::metadata(home.join("lcm")).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(fs::read_to_string(home.join("plugins/lcm/plugin.yaml")).unwrap().contains("kind: standalone"));
    let was = contents(&home);
    let again = run(&desk, "install", &home, &python);
    assert_eq!((again.code, contents(&home) == was), (0, true), "{again:?}");
}

#[test]
fn an_agent_does_without_lcm_again_and_what_was_kept_stays() {
    let desk = Desk::new();
    let (home, python) = agent(&desk, CONFIG);
    run(&desk, "install", &home, &python);
    fs::write(home.join("lcm/kept"), "everything").unwrap();
    let ran = run(&desk, "uninstall", &home, PLAIN);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(config(&home), CONFIG);
    assert!(!home.join("plugins/lcm").exists());
    assert_eq!(fs::read_to_string(home.join("lcm/kept")).unwrap(), "everything");
    assert_eq!(run(&desk, "uninstall", &home, PLAIN).code, 0, "there is nothing left to do");
}

#[test]
fn what_a_link_leads_to_stays_its_owner_s() {
    let desk = Desk::new();
    let (home, python) = agent(&desk, CONFIG);
    let work = desk.path("work");
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("__init__.py"), "mine = True\n").unwrap();
    fs::create_dir_all(home.join("plugins")).unwrap();
    std::os::unix::fs::symlink(&work, home.join("plugins/lcm")).unwrap();
    assert_eq!(run(&desk, "install", &home, &python).code, 0);
    assert_eq!(fs::read_to_string(work.join("__init__.py")).unwrap(), "mine = True\n");
    assert_eq!(run(&desk, "uninstall", &home, PLAIN).code, 0);
    assert_eq!(fs::read_to_string(work.join("__init__.py")).unwrap(), "mine = True\n");
    assert!(!home.join("plugins/lcm").is_symlink());
}

#[test]
fn what_is_in_order_however_it_is_written_is_not_changed_and_what_is_forbidden_is_allowed() {
    let desk = Desk::new();
    let flow = "context: {engine: lcm}\nplugins: {enabled: [lcm]}\n";
    let (home, python) = agent(&desk, flow);
    assert_eq!(run(&desk, "install", &home, &python).code, 0);
    assert_eq!(config(&home), flow);
    let ran = run(&desk, "doctor", &home, &python);
    assert!(ran.stdout.contains("config.yaml names lcm"), "{ran:?}");
    fs::write(home.join("config.yaml"), "context:\n  engine: lcm\nplugins:\n  enabled: [lcm]\n  disabled: [lcm, x]\n")
        .unwrap();
    let ran = run(&desk, "doctor", &home, &python);
    assert!(ran.stdout.contains("config.yaml does not name lcm"), "{ran:?}");
    assert_eq!(run(&desk, "install", &home, &python).code, 0);
    assert_eq!(config(&home), "context:\n  engine: lcm\nplugins:\n  enabled: [lcm]\n  disabled: [x]\n");
    // A store that cannot be read is not in order.
    fs::write(home.join("lcm/CURRENT"), "lcm 99 store.1.redb\n").unwrap();
    let ran = run(&desk, "doctor", &home, &python);
    assert!(ran.code == 3 && ran.stdout.contains("has format 99"), "{ran:?}");
}

#[test]
fn a_dry_run_says_what_would_be_done_and_does_nothing() {
    let desk = Desk::new();
    let (home, _) = agent(&desk, CONFIG);
    let was = contents(&home);
    for command in ["install", "uninstall"] {
        let ran = run(&desk, command, &home, &["--dry-run"]);
        assert_eq!((ran.code, contents(&home) == was), (0, true), "{ran:?}");
        assert!(ran.stdout.contains("(not done)"), "{ran:?}");
    }
}

#[test]
fn settings_that_are_not_understood_are_left_alone_and_the_lines_to_write_are_named() {
    let desk = Desk::new();
    let (home, _) = agent(&desk, r#"{"context": {"engine": "compressor"}}"#);
    let was = contents(&home);
    let ran = run(&desk, "install", &home, PLAIN);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("engine: lcm") && ran.stderr.contains("config.yaml"), "{ran:?}");
    assert_eq!(contents(&home), was);
}

#[test]
fn a_home_without_settings_gets_some_and_one_that_is_not_there_is_named() {
    let desk = Desk::new();
    let (home, python) = agent(&desk, "");
    fs::remove_file(home.join("config.yaml")).unwrap();
    let ran = run(&desk, "install", &home, &python);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(config(&home), "context:\n  engine: lcm\nplugins:\n  enabled: [lcm]\n");
    let ran = run(&desk, "install", &desk.path("nowhere"), PLAIN);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.stderr.contains("nowhere") && ran.stderr.contains("--home"), "{ran:?}");
    let ran = run(&desk, "install", &home, &["--profile", "../other"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}

#[test]
fn an_agent_that_does_not_find_lcm_is_told_of() {
    let desk = Desk::new();
    let (home, python) = agent(&desk, CONFIG);
    fs::write(&python[1], "#!/bin/sh\necho 'lcm-told {\"why\": \"ImportError: no module\"}'\n").unwrap();
    let ran = run(&desk, "install", &home, &python);
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stdout.contains("does not find lcm: ImportError: no module"), "{ran:?}");
    let ran = run(&desk, "doctor", &home, &python);
    assert_eq!(ran.code, 3, "{ran:?}");
}

#[test]
fn the_doctor_tells_of_each_part_that_is_not_in_order() {
    let desk = Desk::new();
    let (home, python) = agent(&desk, CONFIG);
    let ran = run(&desk, "doctor", &home, &python);
    assert_eq!(ran.code, 3, "{ran:?}");
    for part in ["plugins/lcm is not there", "bin/lcm-cli cannot be run", "does not name lcm"] {
        assert!(ran.stdout.contains(part), "{part}: {ran:?}");
    }
    run(&desk, "install", &home, &python);
    fs::write(home.join("plugins/lcm/__init__.py"), "# older").unwrap();
    let ran = run(&desk, "doctor", &home, &python);
    assert!(ran.stdout.contains("is that of another version"), "{ran:?}");
}
