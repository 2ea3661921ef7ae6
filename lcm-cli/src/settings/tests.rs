//! Layers, and what is said about wrong ones. Whole runs of the program are in `tests/cli/settings.rs`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use lcm_engine::compress::CompressOptions;
use proptest::prelude::*;

use super::*;

struct Desk {
    folder: tempfile::TempDir,
    env: BTreeMap<&'static str, &'static str>,
}

impl Desk {
    fn new(file: &str, env: &[(&'static str, &'static str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(file::NAME), file).unwrap();
        Self { folder, env: env.iter().copied().collect() }
    }

    fn find(&self, flags: &[&str]) -> Found {
        let env = |name: &str| self.env.get(name).map(OsString::from);
        let variables: Vec<OsString> = self.env.keys().map(OsString::from).collect();
        let set = flags.iter().map(|&flag| flag.to_owned()).collect();
        Layers { home: self.folder.path(), env: &env, variables: &variables }.find(&SettingArgs { set })
    }
}

fn told(found: &Found, name: &str) -> (String, String) {
    let set = found.settings.all().iter().find(|set| set.setting.name == name).unwrap();
    let origin = set.origin.to_string();
    (set.value.to_string(), origin.rsplit('/').next().unwrap().to_owned())
}

#[test]
fn the_later_layer_wins_and_is_named() {
    let name = "compress.protect_last";
    let file = "[compress]\n\nprotect_last = 3\n";
    let alias = ("LCM_FRESH_TAIL_COUNT", "4");
    let own = ("LCM_COMPRESS_PROTECT_LAST", "5");
    let pair = |value: &str, origin: &str| (value.to_owned(), origin.to_owned());
    assert_eq!(told(&Desk::new("", &[]).find(&[]), name), pair("16", "default"));
    assert_eq!(told(&Desk::new(file, &[]).find(&[]), name), pair("3", "config.toml:3"));
    assert_eq!(told(&Desk::new(file, &[alias]).find(&[]), name), pair("4", "LCM_FRESH_TAIL_COUNT"));
    assert_eq!(told(&Desk::new(file, &[alias, own]).find(&[]), name), pair("5", "LCM_COMPRESS_PROTECT_LAST"));
    let flagged = Desk::new(file, &[alias, own]).find(&["compress.protect_last=6", "compress.protect_last = 7"]);
    assert_eq!(told(&flagged, name), pair("7", "--set"));
    assert!(flagged.problems.is_empty() && flagged.warnings.is_empty());
    let empty = Desk::new(file, &[("LCM_COMPRESS_PROTECT_LAST", "")]).find(&[]);
    assert_eq!(told(&empty, name), pair("3", "config.toml:3"));
}

#[test]
fn a_wrong_value_is_named_with_what_is_right_and_the_layer_below_holds() {
    let desk = Desk::new(
        "compress.threshold_ratio = 2\ncompress.protect_last = [1]\nredact.enabled = 'perhaps'\n",
        &[("LCM_SUMMARY_TIMEOUT_MS", "soon"), ("LCM_SUMMARY_BASE_URL", "https://me:hush@host/v1")],
    );
    let found = desk.find(&["summary.retries=-1", "summary.retries", "summary.key=hush"]);
    let home = format!("{}/", desk.folder.path().display());
    let problems: Vec<String> = found.problems.iter().map(|problem| problem.replace(&home, "")).collect();
    assert_eq!(
        problems,
        [
            "config.toml:1: compress.threshold_ratio must be a number from 0.05 to 0.98, with at most three decimals, and is \"2\"",
            "config.toml:2: compress.protect_last must be a single value, and is a list",
            "config.toml:3: redact.enabled must be true or false, and is \"perhaps\"",
            "LCM_SUMMARY_BASE_URL: summary.base_url must be an http:// or https:// address without name, password, query \
             or fragment, and is something else",
            "LCM_SUMMARY_TIMEOUT_MS: summary.timeout_ms must be a whole number from 100 to 86400000, and is \"soon\"",
            "--set: summary.retries must be a whole number from 0 to 10, and is \"-1\"",
            "--set \"summary.retries\": a name, = and a value are needed",
            "--set summary.key: arguments can be seen by others; set LCM_SUMMARY_KEY instead",
        ]
    );
    assert_eq!(told(&found, "compress.threshold_ratio").0, "0.75");
    assert!(!format!("{found:?}").contains("hush"));
}

#[test]
fn an_unknown_name_is_told_with_the_nearest_one() {
    let desk = Desk::new(
        "[sumary]\nmodel = 'x'\n[compress]\nprotect_lasst = 1\nmodel = 'y'\n[unheard]\nof = 1\n",
        &[("LCM_SUMMARY_MODLE", "x"), ("LCM_HOME", "/x"), ("LCM_LOG", "info"), ("LCM_QQQQ", "1"), ("OTHER", "1")],
    );
    let found = desk.find(&["compress.windw_tokens=1000"]);
    let home = format!("{}/", desk.folder.path().display());
    let warnings: Vec<String> = found.warnings.iter().map(|warning| warning.replace(&home, "")).collect();
    assert_eq!(
        warnings,
        [
            "config.toml:2: there is no setting \"sumary.model\"; did you mean summary.model?",
            "config.toml:4: there is no setting \"compress.protect_lasst\"; did you mean compress.protect_last?",
            "config.toml:5: there is no setting \"compress.model\"; did you mean summary.model?",
            "config.toml:7: there is no setting \"unheard.of\"; `lcm-cli config show` lists all of them",
            "the variable \"LCM_QQQQ\" sets nothing; `lcm-cli config show` lists all of them",
            "the variable \"LCM_SUMMARY_MODLE\" sets nothing; did you mean LCM_SUMMARY_MODEL?",
        ]
    );
    assert_eq!(
        found.problems,
        ["--set: there is no setting \"compress.windw_tokens\"; did you mean compress.window_tokens?"]
    );
}

#[test]
fn variables_of_other_engines_are_known_as_such() {
    let env = [("LCM_CONDENSATION_FANIN", "4"), ("LCM_EMBEDDINGS_ENABLED", "true"), ("LCM_FRESH_TAIL_COUNT", "8")];
    let found = Desk::new("", &env).find(&[]);
    assert_eq!(found.foreign, ["LCM_CONDENSATION_FANIN", "LCM_EMBEDDINGS_ENABLED"]);
    assert!(found.warnings.is_empty());
}

#[test]
fn a_key_is_read_from_the_environment_or_its_file_and_never_from_the_settings() {
    let model = "[summary]\nbase_url = 'http://localhost/v1'\nmodel = 'm'\n";
    let key = |desk: &Desk| desk.find(&[]).settings.model().map(|model| model.unwrap().key.reveal().to_owned());
    assert_eq!(key(&Desk::new(model, &[])).unwrap(), "");
    assert_eq!(key(&Desk::new(model, &[("LCM_SUMMARY_API_KEY", "sk-env")])).unwrap(), "sk-env");
    let desk = Desk::new(&format!("{model}key_file = 'key'\n"), &[]);
    assert!(key(&desk).unwrap_err().to_string().starts_with("cannot read the key in "));
    fs::write(desk.folder.path().join("key"), " sk-file\n").unwrap();
    assert_eq!(key(&desk).unwrap(), "sk-file");
    for wrong in ["", "two words", "sk-ä"] {
        fs::write(desk.folder.path().join("key"), wrong).unwrap();
        let error = key(&desk).unwrap_err().to_string();
        assert!(error.ends_with("does not hold a key and nothing else"), "{error}");
    }
    let found = Desk::new("summary.key = 'sk-told'\n", &[]).find(&[]);
    assert!(found.problems[0].contains("does not belong into this file") && !format!("{found:?}").contains("sk-told"));
    assert_eq!(told(&found, "summary.key").0, "not set");
}

#[test]
fn a_key_that_others_can_see_is_told_of() {
    use std::os::unix::fs::PermissionsExt;
    let cautions = |desk: &Desk| desk.find(&[]).settings.cautions();
    let at = |url: &str| Desk::new(&format!("summary.base_url = '{url}'\n"), &[("LCM_SUMMARY_KEY", "sk")]);
    assert_eq!(cautions(&at("http://models.lan/v1")).len(), 1);
    for safe in ["https://models.lan/v1", "http://localhost:1/v1", "http://127.0.0.1/v1", "http://[::1]:80/v1"] {
        assert_eq!(cautions(&at(safe)), [""; 0], "{safe}");
    }
    let desk = Desk::new("summary.key_file = 'key'\n", &[]);
    let path = desk.folder.path().join("key");
    fs::write(&path, "sk").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    assert!(cautions(&desk)[0].starts_with("others can read the key"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(cautions(&desk), [""; 0]);
}

#[test]
fn lists_are_read_from_every_layer() {
    let (file, env) = ("redact.own = ['a=x{1,2}', 'b=y']\n", [("LCM_SENSITIVE_PATTERNS", "jwt, api_key,")]);
    let found = Desk::new(file, &env).find(&[]);
    let list = |parts: [&str; 2]| Value::List(parts.map(str::to_owned).to_vec());
    assert_eq!(*found.settings.value("redact.own"), list(["a=x{1,2}", "b=y"]));
    assert_eq!(*found.settings.value("redact.patterns"), list(["jwt", "api_key"]));
    assert!(found.problems.is_empty());
}

#[test]
fn half_a_model_is_none() {
    let found = Desk::new("summary.base_url = 'http://localhost'\n", &[]).find(&[]);
    assert!(found.settings.model().unwrap_err().to_string().contains("summary.model"));
    assert!(Desk::new("summary.model = 'm'\n", &[]).find(&[]).settings.model().unwrap().is_none());
}

/// Every getter is called with the defaults here, so a name that is not in the table shows.
#[test]
fn the_defaults_are_those_of_the_engine() {
    let found = Desk::new("summary.base_url = 'http://localhost'\nsummary.model = 'm'\n", &[]).find(&[]);
    assert_eq!(found.settings.compress_options(None), CompressOptions::default());
    let model = found.settings.model().unwrap().unwrap();
    assert_eq!((model.cap.calls, model.cap.window, model.cap.backoff.as_secs()), (24, Duration::from_secs(600), 1800));
    assert_eq!((model.breaker_failures, model.breaker_cooldown.as_secs()), (2, 300));
}

#[test]
fn the_lowest_threshold_holds() {
    let options = |flags: &[&str], window| Desk::new("", &[]).find(flags).settings.compress_options(window);
    let threshold = |flags: &[&str], window| options(flags, window).threshold_tokens;
    assert_eq!(threshold(&[], Some(16_000)), 12_000);
    assert_eq!(threshold(&["compress.threshold_ratio=0.35"], Some(200_000)), 70_000);
    assert_eq!(threshold(&["compress.threshold_tokens=9000"], Some(16_000)), 9000);
    assert_eq!(threshold(&["compress.reserve_tokens=10000"], Some(16_000)), 6000);
    assert_eq!(threshold(&["compress.reserve_tokens=20000"], Some(16_000)), 1);
    assert_eq!(threshold(&["compress.window_tokens=2000"], None), 1500);
    assert_eq!(threshold(&[], Some(u64::MAX)), u64::MAX / 4 * 3 + 2);
    assert_eq!(options(&["compress.tail_tokens_max=500"], None).tail_tokens_max, Some(500));
}

proptest! {
    #[test]
    fn distance_is_a_distance(a in "[a-c]{0,6}", b in "[a-c]{0,6}", c in "[a-c]{0,6}") {
        prop_assert_eq!(distance(&a, &b), distance(&b, &a));
        prop_assert_eq!(distance(&a, &b) == 0, a == b);
        prop_assert!(distance(&a, &c) <= distance(&a, &b) + distance(&b, &c));
    }

    #[test]
    fn no_file_and_no_flag_panics(file in "\\PC{0,60}|(summary|compress|redact)?\\.?[a-z_]{0,20} = [\\[\\]\"'{}a-z0-9. ]{0,20}",
                                  flag in "\\PC{0,40}|(summary|compress)\\.[a-z_]{0,20}=\\PC{0,20}") {
        let found = Desk::new(&file, &[]).find(&[&flag]);
        prop_assert!(found.problems.iter().chain(&found.warnings).all(|sentence| sentence.len() < 1000));
        let _options = found.settings.compress_options(None);
    }
}
