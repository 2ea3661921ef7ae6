//! A Hermes Agent's home: the plugin, the program, two lines of its settings, and what the agent itself says of them.
//!
//! Everything is written beside and renamed, the settings last, so that an agent that starts meanwhile finds either what
//! was there or what is meant to be. Data are never touched: they lie in `lcm` of the home, the plugin in `plugins/lcm`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use lcm_core::Json;

use super::files::{self, Step, private, write};
use super::yaml::{self, Unclear};
use crate::error::CliError;
use crate::paths::Env;

/// The plugin, as it is installed.
const PLUGIN: [(&str, &str); 2] = [
    ("plugin.yaml", include_str!("../../../plugins/hermes/plugin.yaml")),
    ("__init__.py", include_str!("../../../plugins/hermes/__init__.py")),
];
/// The name of the engine, and of the plugin.
const NAME: &str = "lcm";
/// The engine that agents have of themselves.
const BUILT_IN: &str = "compressor";
/// The settings of an agent.
const CONFIG: &str = "config.yaml";
/// What an agent's own Python may take to say what it loads: it imports the whole of the agent.
const ASKING_MAX: Duration = Duration::from_secs(90);
/// What is read of its answer.
const ANSWER_BYTES_MAX: u64 = 1 << 16;
/// Asks an agent's own code which engine it finds.
const ASK: &str = r#"
import json, logging, os, sys
logging.disable()
told = {}
try:
    from importlib import metadata
    told["host"] = next((f"{d.name} {d.version}" for d in metadata.distributions() if d.name.startswith("hermes-agent")), None)
    from hermes_cli.config import load_config
    told["configured"] = ((load_config() or {}).get("context") or {}).get("engine")
    engine = None
    try:
        from plugins.context_engine import load_context_engine
        engine = load_context_engine("lcm")
    except Exception as error:
        told["why"] = f"{type(error).__name__}: {error}"
    if engine is None:
        from hermes_cli.plugins import get_plugin_context_engine
        engine = get_plugin_context_engine()
    told["engine"] = getattr(engine, "name", None)
    if type(engine).__name__ not in ("LCMEngine", "NoneType"):
        told["engine"] = f"{type(engine).__module__}.{type(engine).__name__}"
    told["is_available"] = bool(engine.is_available()) if hasattr(engine, "is_available") else None
except Exception as error:
    told["why"] = f"{type(error).__name__}: {error}"
sys.stdout.write("\nlcm-told " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
"#;

/// A home of an agent.
pub(crate) struct HermesHome {
    /// The directory: what the agent calls `HERMES_HOME`.
    pub(crate) path: PathBuf,
}

/// What an agent's own code says.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Its name and version.
    pub(crate) host: Option<String>,
    /// The engine that its settings name.
    pub(crate) configured: Option<String>,
    /// The engine that it finds.
    pub(crate) engine: Option<String>,
    /// Whether that finds its program.
    pub(crate) is_available: bool,
    /// What went wrong meanwhile.
    pub(crate) why: Option<String>,
}

impl HermesHome {
    /// The home that is meant: as named, else as the environment names it, else the agent's own; of a profile, where one is
    /// named.
    pub(crate) fn find(asked: Option<&Path>, profile: Option<&str>, env: &Env<'_>) -> Result<Self, CliError> {
        let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let own = || set("HOME").map(|home| home.join(".hermes"));
        let named = asked.map(Path::to_owned).or_else(|| set("HERMES_HOME")).or_else(own);
        let hint = "name it with --home";
        let mut path = named.ok_or_else(|| CliError::usage("there is no home of a Hermes Agent", hint))?;
        if let Some(profile) = profile {
            if profile.is_empty() || profile.contains(['/', '\\']) || profile.starts_with('.') {
                return Err(CliError::usage(
                    format!("{profile:?} is no name of a profile"),
                    "name one of `hermes profile list`",
                ));
            }
            path = path.join("profiles").join(profile);
        }
        if !path.is_dir() {
            let what = format!("there is no home of a Hermes Agent at {}", path.display());
            return Err(CliError::usage(what, "start the agent once, or name its home with --home"));
        }
        let absolute =
            fs::canonicalize(&path).map_err(|source| CliError::File { what: "look at", path: path.clone(), source });
        Ok(Self { path: absolute? })
    }

    /// Where the data are.
    pub(crate) fn data(&self) -> PathBuf {
        self.path.join(NAME)
    }

    fn plugin(&self) -> PathBuf {
        self.path.join("plugins").join(NAME)
    }

    fn program(&self) -> PathBuf {
        self.data().join("bin").join("lcm-cli")
    }

    fn config(&self) -> PathBuf {
        // What a link leads to is changed, and the link stays.
        let path = self.path.join(CONFIG);
        fs::canonicalize(&path).unwrap_or(path)
    }

    fn config_text(&self) -> Result<String, CliError> {
        let path = self.config();
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            read => read.map_err(|source| CliError::File { what: "read", path, source }),
        }
    }

    /// Puts lcm into the home. With `is_dry` nothing is written.
    pub(crate) fn install(&self, program: &Path, now: &str, is_dry: bool) -> Result<Vec<Step>, CliError> {
        // What can be refused is refused before the first file is written.
        let before = self.config_text()?;
        let after = match self.is_configured(&before) {
            true => before.clone(),
            false => yaml::set(&before, "context", "engine", NAME)
                .and_then(|text| yaml::add(&text, "plugins", "enabled", NAME))
                .and_then(|text| yaml::remove(&text, "plugins", "disabled", NAME))
                .map_err(|Unclear| self.unclear("write `engine: lcm` under `context:` and `- lcm` under `enabled:` of `plugins:` yourself, then install again"))?,
        };
        let mut steps = Vec::new();
        let mut did = |part, what| steps.push(Step { part, what });
        let plugin = self.plugin();
        if plugin.is_symlink() {
            // Somebody works on it there.
            did("plugin", format!("{} is a link and stays as it is", plugin.display()));
        }
        for (name, text) in PLUGIN.iter().filter(|_| !plugin.is_symlink()) {
            let path = plugin.join(name);
            if fs::read(&path).is_ok_and(|known| known == text.as_bytes()) {
                did("plugin", format!("{} is up to date", path.display()));
                continue;
            }
            if !is_dry {
                write(&path, text.as_bytes(), 0o644)?;
            }
            did("plugin", format!("{} is written", path.display()));
        }
        let own = self.program();
        let bytes =
            fs::read(program).map_err(|source| CliError::File { what: "read", path: program.to_owned(), source })?;
        if fs::read(&own).is_ok_and(|known| known == bytes) {
            did("program", format!("{} is up to date", own.display()));
        } else {
            if !is_dry {
                private(&self.data())?;
                write(&own, &bytes, 0o755)?;
            }
            did("program", format!("{} is a copy of {}", own.display(), program.display()));
        }
        self.change(&before, &after, now, is_dry, &mut did)?;
        Ok(steps)
    }

    /// Takes lcm out of the home; the data stay.
    pub(crate) fn uninstall(&self, now: &str, is_dry: bool) -> Result<Vec<Step>, CliError> {
        let before = self.config_text()?;
        let engine = match yaml::get(&before, "context", "engine") {
            Ok(Some(engine)) if engine == NAME => yaml::set(&before, "context", "engine", BUILT_IN),
            Ok(_) => Ok(before.clone()),
            Err(Unclear) => Err(Unclear),
        };
        let after = engine.and_then(|text| yaml::remove(&text, "plugins", "enabled", NAME)).map_err(|Unclear| {
            self.unclear("take lcm out of `context:` and `plugins:` yourself, then uninstall again")
        })?;
        let mut steps = Vec::new();
        let mut did = |part, what| steps.push(Step { part, what });
        // First the settings, so that no agent looks for what is gone.
        self.change(&before, &after, now, is_dry, &mut did)?;
        let plugin = self.plugin();
        // What a link leads to is its owner's work.
        let is_link = plugin.is_symlink();
        let ours = if is_link { vec![plugin.clone()] } else { PLUGIN.map(|(name, _)| plugin.join(name)).to_vec() };
        for path in ours.into_iter().filter(|path| is_link || path.exists()) {
            if !is_dry {
                fs::remove_file(&path).map_err(|source| CliError::File {
                    what: "remove",
                    path: path.clone(),
                    source,
                })?;
            }
            did("plugin", format!("{} is removed", path.display()));
        }
        if !is_dry && !is_link {
            // What Python made of it; then the folder, unless its owner keeps something there.
            drop(fs::remove_dir_all(plugin.join("__pycache__")));
            drop(fs::remove_dir(&plugin));
        }
        did(
            "data",
            format!("{} stays as it is; remove it yourself when nothing of it is wanted", self.data().display()),
        );
        Ok(steps)
    }

    /// The settings are written in a way that is not changed here.
    fn unclear(&self, hint: &str) -> CliError {
        CliError::usage(format!("{} is written in a way that is not changed here", self.config().display()), hint)
    }

    /// Writes the settings, and a copy of what they were.
    fn change(
        &self,
        before: &str,
        after: &str,
        now: &str,
        is_dry: bool,
        did: &mut impl FnMut(&'static str, String),
    ) -> Result<(), CliError> {
        let path = self.config();
        if before == after {
            did("settings", format!("{} stays as it is", path.display()));
            return Ok(());
        }
        let mode = fs::metadata(&path).map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
        if !before.is_empty() {
            let backup = files::backup(&path, now);
            if !is_dry {
                write(&backup, before.as_bytes(), mode)?;
            }
            did("settings", format!("{} is a copy of what they were", backup.display()));
        }
        if !is_dry {
            write(&path, after.as_bytes(), mode)?;
        }
        let is_in = self.is_configured(after);
        let what = match is_in {
            true => "names lcm as the context engine (context.engine) and among the plugins (plugins.enabled)",
            false => "names lcm no longer",
        };
        did("settings", format!("{} {what}", path.display()));
        Ok(())
    }

    /// Whether settings name lcm in both places, and do not forbid it.
    fn is_configured(&self, text: &str) -> bool {
        let has = |list| yaml::list(text, "plugins", list).map(|plugins| plugins.iter().any(|name| name == NAME));
        let engine = yaml::get(text, "context", "engine");
        engine == Ok(Some(NAME.to_owned())) && has("enabled") == Ok(true) && has("disabled") == Ok(false)
    }

    /// Looks at each part; whether it is in order, and how it is.
    pub(crate) fn look(&self) -> Result<Vec<(bool, Step)>, CliError> {
        let mut found = Vec::new();
        let plugin = self.plugin();
        let same =
            PLUGIN.iter().all(|(name, text)| fs::read(plugin.join(name)).is_ok_and(|known| known == text.as_bytes()));
        let what = match (same, plugin.join(PLUGIN[1].0).exists()) {
            (true, _) => format!("{} is that of this program", plugin.display()),
            (false, true) => format!("{} is that of another version", plugin.display()),
            (false, false) => format!("{} is not there", plugin.display()),
        };
        found.push((same, Step { part: "plugin", what }));
        let program = self.program();
        let says = Command::new(&program).arg("--version").output();
        let version = says.ok().filter(|says| says.status.success());
        let version = version.map(|says| String::from_utf8_lossy(&says.stdout).trim().to_owned());
        let ours = format!("lcm-cli {}", env!("CARGO_PKG_VERSION"));
        found.push(match version {
            Some(version) => {
                (version == ours, Step { part: "program", what: format!("{} is {version}", program.display()) })
            }
            None => (false, Step { part: "program", what: format!("{} cannot be run", program.display()) }),
        });
        let config = self.config();
        let is_in = self.is_configured(&self.config_text()?);
        let what = if is_in { "names lcm as the context engine" } else { "does not name lcm as the context engine" };
        found.push((is_in, Step { part: "settings", what: format!("{} {what}", config.display()) }));
        Ok(found)
    }

    /// Asks the agent's own code what it finds; `None` where its Python is not found.
    pub(crate) fn ask(&self, python: Option<&Path>, env: &Env<'_>) -> Option<Asked> {
        let python = python.map(Path::to_owned).or_else(|| self.python(env))?;
        Some(answer(&python, &self.path).unwrap_or_else(|why| Asked { why: Some(why), ..Asked::default() }))
    }

    /// The Python of the agent: that of the `hermes` on the path, or of the agent's own folder.
    fn python(&self, env: &Env<'_>) -> Option<PathBuf> {
        let path = env("PATH").unwrap_or_default();
        let on_path =
            std::env::split_paths(&path).map(|folder| folder.join("hermes")).find_map(|hermes| interpreter(&hermes));
        let own = || {
            let homes = [self.path.clone(), env("HOME").map(PathBuf::from)?.join(".hermes")];
            homes.into_iter().map(|home| home.join("hermes-agent/venv/bin/python")).find(|python| python.exists())
        };
        on_path.or_else(own)
    }
}

/// What the first line of a script names.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    File::open(script).ok()?.take(4096).read_to_end(&mut line).ok()?;
    let line = line.split(|byte| *byte == b'\n').next()?.strip_prefix(b"#!")?;
    let line = str::from_utf8(line).ok()?.trim();
    let python = PathBuf::from(line.split(' ').next()?);
    (python.file_name().and_then(OsStr::to_str)?.starts_with("python") && python.exists()).then_some(python)
}

fn answer(python: &Path, home: &Path) -> Result<Asked, String> {
    let mut command = Command::new(python);
    command.args(["-c", ASK]).env("HERMES_HOME", home).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(home);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{} cannot be started: {error}", python.display()))?;
    let output = child.stdout.take().ok_or("it says nothing")?;
    let reading = thread::spawn(move || {
        let mut said = Vec::new();
        output.take(ANSWER_BYTES_MAX).read_to_end(&mut said).map(|_| said)
    });
    let until = Instant::now() + ASKING_MAX;
    loop {
        match child.try_wait() {
            Ok(Some(_)) => break,
            Ok(None) if Instant::now() < until => thread::sleep(Duration::from_millis(20)),
            _ => {
                // It may have ended just now; either way nobody waits for it any more.
                drop(child.kill());
                drop(child.wait());
                return Err(format!("{} did not answer within {} s", python.display(), ASKING_MAX.as_secs()));
            }
        }
    }
    let said = reading.join().map_err(|_| "its answer was not read")?.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&said);
    let line =
        said.lines().find_map(|line| line.strip_prefix("lcm-told ")).ok_or("it is no Python of a Hermes Agent")?;
    let told = Json::parse(line.as_bytes()).map_err(|error| error.to_string())?;
    let text = |key: &str| told.get(key).and_then(Json::as_str).map(str::to_owned);
    let is_available = told.get("is_available").and_then(Json::as_bool).unwrap_or(false);
    Ok(Asked {
        host: text("host"),
        configured: text("configured"),
        engine: text("engine"),
        is_available,
        why: text("why"),
    })
}
