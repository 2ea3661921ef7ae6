//! A LibreFang home: the plugin, the program, what of the settings is lcm's, the agents, and what a daemon says of it.
//!
//! `config` changes texts, `daemon` asks one that runs; here they meet the files. Everything is written beside and renamed,
//! the settings last. Data are never touched: they lie in `lcm` of the home, the plugin in `plugins/lcm`.

mod config;
mod daemon;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::Access;

pub(crate) use config::Way;
use config::{Place, Refused};
use daemon::Daemon;

use super::files::{self, Step, private, write};
use crate::commands::doctor::Finding;
use crate::error::CliError;
use crate::paths::Env;
use crate::serve::socket;

/// The name of the plugin, of the MCP server and of the data directory.
const NAME: &str = "lcm";
/// The tools, as the host names them.
const TOOLS: [&str; 4] = ["mcp_lcm_grep", "mcp_lcm_expand", "mcp_lcm_describe", "mcp_lcm_expand_query"];
/// The one that every version of lcm has.
const SERVER_TOOL: &str = TOOLS[0];
const MANIFEST: &str = include_str!("../../../../plugins/librefang/plugin.toml");
/// The settings of the host.
const CONFIG: &str = "config.toml";
/// What they were before.
const RECORD: &str = "installed.toml";
/// Where manifests of agents are. The host moves those of the second to the first when it starts.
const AGENTS: [&str; 2] = ["workspaces/agents", "agents"];
/// What a hook left while nobody served (docs/format.md).
const SPOOL: &str = "spool";
/// What to do about most of it.
const INSTALL: &str = "`lcm-cli install librefang` puts it right";

/// A home of LibreFang.
pub(crate) struct LibreFangHome {
    /// The directory: what the host calls `LIBREFANG_HOME`.
    pub(crate) path: PathBuf,
}

/// A manifest of an agent, and what it would be.
struct AgentFile {
    path: PathBuf,
    before: String,
    /// `None` where nothing is to be changed.
    after: Result<Option<String>, Refused>,
}

impl LibreFangHome {
    /// The home that is meant: as named, else as the environment names it, else the host's own.
    pub(crate) fn find(asked: Option<&Path>, env: &Env<'_>) -> Result<Self, CliError> {
        let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let own = || set("HOME").map(|home| home.join(".librefang"));
        let path = asked.map(Path::to_owned).or_else(|| set("LIBREFANG_HOME")).or_else(own);
        let path = path.ok_or_else(|| CliError::usage("there is no home of LibreFang", "name it with --home"))?;
        if !path.is_dir() {
            let what = format!("there is no home of LibreFang at {}", path.display());
            return Err(CliError::usage(what, "start LibreFang once, or name its home with --home"));
        }
        let path = fs::canonicalize(&path).map_err(|source| CliError::File { what: "look at", path, source })?;
        // Both stand in its settings, which are text.
        if path.to_str().is_none() {
            let what = format!("the path of {} is no UTF-8, which LibreFang's settings have to be", path.display());
            return Err(CliError::usage(what, "move it"));
        }
        Ok(Self { path })
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

    fn record(&self) -> PathBuf {
        self.data().join(RECORD)
    }

    fn config(&self) -> PathBuf {
        // What a link leads to is changed, and the link stays.
        let path = self.path.join(CONFIG);
        fs::canonicalize(&path).unwrap_or(path)
    }

    /// Puts lcm into the home. With `is_dry` nothing is written.
    pub(crate) fn install(&self, program: &Path, way: Way, now: &str, is_dry: bool) -> Result<Vec<Step>, CliError> {
        // What can be refused is refused before the first file is written.
        self.is_writable()?;
        let text = self.config_text()?;
        let (own, data) = (self.program(), self.data());
        let place = place(&own, &data);
        let known = config::before(&read(&self.record())?);
        let mut before = known.clone();
        let edit = config::install(&text, way, place, &mut before).map_err(|refused| self.refused(refused))?;
        self.is_plugin_ours()?;
        let bytes =
            fs::read(program).map_err(|source| CliError::File { what: "read", path: program.to_owned(), source })?;
        let agents = self.agents(config::install_agent)?;

        let mut steps = Vec::new();
        if !is_dry {
            private(&data)?;
            self.give(&data)?;
        }
        self.put(&own, &bytes, 0o700, "program", is_dry, &mut steps)?;
        let plugin = self.plugin();
        match way {
            // Somebody works on it there.
            Way::Plugin if plugin.is_symlink() => {
                steps.push(step("plugin", format!("{} is a link and stays as it is", plugin.display())));
            }
            Way::Plugin => {
                for folder in [&plugin, &plugin.join("hooks")].into_iter().filter(|_| !is_dry) {
                    private(folder)?;
                    self.give(folder)?;
                }
                // The host takes the folder for a plugin as soon as the manifest is there.
                self.put(&plugin.join("hooks/lcm-hook"), &bytes, 0o700, "plugin", is_dry, &mut steps)?;
                self.put(&plugin.join("plugin.toml"), MANIFEST.as_bytes(), 0o600, "plugin", is_dry, &mut steps)?;
            }
            Way::Sidecar => self.remove_plugin(is_dry, &mut steps)?,
        }
        if before != known && !is_dry {
            self.write(&self.record(), config::before_text(&before).as_bytes(), 0o600)?;
        }
        self.change(&self.config(), &text, &edit.text, ("settings", &edit.said), now, is_dry, &mut steps)?;
        self.change_agents(agents, "may use lcm's tools", now, is_dry, &mut steps)?;
        Ok(steps)
    }

    /// Takes lcm out of the home; the data stay.
    pub(crate) fn uninstall(&self, now: &str, is_dry: bool) -> Result<Vec<Step>, CliError> {
        self.is_writable()?;
        let text = self.config_text()?;
        let before = config::before(&read(&self.record())?);
        let edit = config::uninstall(&text, &before).map_err(|refused| self.refused(refused))?;
        self.is_plugin_ours()?;
        let agents = self.agents(config::uninstall_agent)?;
        let mut steps = Vec::new();
        // First the settings, so that no daemon looks for what is gone.
        self.change(&self.config(), &text, &edit.text, ("settings", &edit.said), now, is_dry, &mut steps)?;
        self.change_agents(agents, "may use lcm's tools no longer", now, is_dry, &mut steps)?;
        self.remove_plugin(is_dry, &mut steps)?;
        if self.record().exists() && !is_dry {
            self.remove(&self.record())?;
        }
        let data = self.data();
        steps.push(step(
            "data",
            format!("{} stays as it is; remove it yourself when nothing of it is wanted", data.display()),
        ));
        Ok(steps)
    }

    /// Gives the agents that a running daemon keeps in its database lcm's tools, or takes them away; then what it says of lcm.
    pub(crate) fn ask(&self, way: Option<Way>, env: &Env<'_>) -> Result<Vec<Finding>, CliError> {
        let daemon = match self.daemon(env)? {
            Ok(daemon) => daemon,
            Err(why) => return Ok(vec![Finding::note("host", why, "start it, then `lcm-cli doctor librefang`")]),
        };
        let Some(way) = way else { return Ok(self.ask_agents(&daemon, false)) };
        let mut found = daemon.look(way == Way::Plugin);
        // It knows no server of ours before it was started anew, and refuses what it does not know.
        let is_connected = found.iter().any(|finding| finding.part == "tools" && finding.is_fine());
        match is_connected {
            true => found.extend(self.ask_agents(&daemon, true)),
            false => found.push(Finding::note(
                "agents",
                "those that only its database knows get lcm's tools once it is connected to them",
                "start the daemon anew, then `lcm-cli install librefang` again",
            )),
        }
        Ok(found)
    }

    fn ask_agents(&self, daemon: &Daemon, is_install: bool) -> Vec<Finding> {
        let agents = match daemon.agents() {
            Ok(agents) => agents,
            Err(why) => return vec![Finding::note("agents", why, "see the daemon's log")],
        };
        let mut found = Vec::new();
        for mut agent in agents.into_iter().filter(|agent| !self.has_file(&agent.name)) {
            let is_changed = match is_install {
                true if agent.has() => false,
                true => {
                    agent.add();
                    true
                }
                false => agent.drop_tools(),
            };
            if !is_changed {
                continue;
            }
            let now = if is_install { "may use lcm's tools" } else { "may use lcm's tools no longer" };
            found.push(match daemon.change(&agent) {
                Ok(()) => Finding::fine("agents", format!("{} {now}, in the daemon's database", agent.name)),
                Err(why) => {
                    Finding::note("agents", format!("{} stays as it is: {why}", agent.name), "see the daemon's log")
                }
            });
        }
        found
    }

    /// Looks at every part.
    pub(crate) fn look(&self, env: &Env<'_>, program: Option<&Path>) -> Result<Vec<Finding>, CliError> {
        let mut found = vec![Finding::fine("directory", self.path.display().to_string())];
        found.extend(self.look_at_owner());
        let (own, data) = (self.program(), self.data());
        let place = place(&own, &data);
        let text = self.config_text()?;
        let settings = config::look(&text, place);
        let is_plugin = settings
            .as_ref()
            .is_ok_and(|found| found.first().is_none_or(|(_, _, what)| !what.contains("engine is sidecar")));
        if is_plugin {
            found.push(self.look_at_plugin());
        }
        found.push(look_at_program(&own));
        match settings {
            Err(refused) => found.push(Finding::wrong(
                "settings",
                format!("{} {}", self.config().display(), refused.what),
                refused.hint,
            )),
            Ok(parts) => found.extend(parts.into_iter().map(|(is_fine, is_needed, what)| match (is_fine, is_needed) {
                (true, _) => Finding::fine("settings", what),
                (false, true) => Finding::wrong("settings", what, INSTALL),
                (false, false) => {
                    Finding::note("settings", what, "what the host cuts or rewrites first is all that lcm can keep")
                }
            })),
        }
        found.extend(self.look_at_agents()?);
        found.extend(self.look_at_data());
        match self.daemon(env)? {
            Ok(daemon) => {
                found.extend(daemon.look(is_plugin));
                let without = daemon.agents().unwrap_or_default();
                let without = without.iter().filter(|agent| !self.has_file(&agent.name) && !agent.has());
                found.extend(without.map(|agent| {
                    let what = format!("{} may not use lcm's tools, as the daemon's database has it", agent.name);
                    Finding::note("agents", what, "`lcm-cli install librefang` while the daemon runs")
                }));
            }
            Err(why) => {
                let version =
                    program.map(Path::to_owned).or_else(|| on_path(env)).and_then(|program| version_of(&program));
                let version =
                    version.map_or_else(String::new, |version| format!("; the program on this machine is {version}"));
                found.push(Finding::note(
                    "host",
                    format!("{why}{version}"),
                    "start it, then `lcm-cli doctor librefang`",
                ));
            }
        }
        Ok(found)
    }

    /// Whether the user is the right one.
    pub(crate) fn look_at_owner(&self) -> Option<Finding> {
        let owner = fs::metadata(&self.path).ok()?.uid();
        let user = rustix::process::geteuid().as_raw();
        match (owner, user) {
            (0, 0) => Some(Finding::note(
                "user",
                "a daemon that runs as root ends every hook that it starts (its sandbox forbids what it does itself)",
                "run it as another user, or `lcm-cli install librefang --sidecar`",
            )),
            (owner, user) if owner != user => Some(Finding::note(
                "user",
                format!("the home belongs to user {owner}, and this program runs as user {user}"),
                "run it as its owner",
            )),
            _ => None,
        }
    }

    fn look_at_plugin(&self) -> Finding {
        let plugin = self.plugin();
        let hook = plugin.join("hooks/lcm-hook");
        let shown = plugin.display();
        if !plugin.join("plugin.toml").exists() {
            return Finding::wrong("plugin", format!("{shown} is not there"), INSTALL);
        }
        if !plugin.is_symlink() && !fs::read(plugin.join("plugin.toml")).is_ok_and(|known| known == MANIFEST.as_bytes())
        {
            return Finding::wrong("plugin", format!("{shown} is that of another version"), INSTALL);
        }
        let Ok(metadata) = fs::metadata(&hook) else {
            return Finding::wrong("plugin", format!("{} is not there", hook.display()), INSTALL);
        };
        if metadata.permissions().mode() & 0o100 == 0 {
            return Finding::wrong("plugin", format!("{} cannot be executed", hook.display()), INSTALL);
        }
        match (fs::read(&hook), fs::read(self.program())) {
            (Ok(hook), Ok(program)) if hook == program => {
                Finding::fine("plugin", format!("{shown} is that of this program"))
            }
            _ => Finding::wrong(
                "plugin",
                format!("{} is another program than {}", hook.display(), self.program().display()),
                INSTALL,
            ),
        }
    }

    fn look_at_agents(&self) -> Result<Vec<Finding>, CliError> {
        let mut found = Vec::new();
        for AgentFile { path, after, .. } in self.agents(config::install_agent)? {
            let shown = path.display();
            found.push(match after {
                Ok(None) => Finding::fine("agents", format!("{shown} may use lcm's tools")),
                Ok(Some(_)) => Finding::note("agents", format!("{shown} may not use lcm's tools"), INSTALL),
                Err(refused) => Finding::note("agents", format!("{shown} {}", refused.what), refused.hint),
            });
        }
        Ok(found)
    }

    fn look_at_data(&self) -> Vec<Finding> {
        let data = self.data();
        let Ok(metadata) = fs::metadata(&data) else {
            return vec![Finding::wrong("data", format!("{} is not there", data.display()), INSTALL)];
        };
        let mut found = Vec::new();
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            let what = format!("others can look into {} (mode {mode:03o})", data.display());
            found.push(Finding::wrong("data", what, format!("chmod go= {}", data.display())));
        }
        found.push(match UnixStream::connect(data.join(socket::NAME)) {
            Ok(_) => Finding::fine("serve", format!("somebody serves {}", data.display())),
            Err(_) => Finding::note(
                "serve",
                format!("nobody serves {}, so hooks leave in the spool what they are told", data.display()),
                "the daemon starts what serves, together with its MCP servers; it is taken in then",
            ),
        });
        let waiting = fs::read_dir(data.join(SPOOL)).into_iter().flatten().flatten();
        let waiting = waiting.filter(|file| file.file_type().is_ok_and(|kind| kind.is_file())).count();
        if waiting > 0 {
            let waiting = crate::ui::counted(u64::try_from(waiting).unwrap_or(u64::MAX), "request");
            found.push(Finding::note(
                "spool",
                format!("{waiting} of hooks not taken in yet"),
                "whoever serves next takes them in",
            ));
        }
        found
    }

    /// Whether a manifest of this agent is among the files.
    fn has_file(&self, name: &str) -> bool {
        AGENTS.iter().any(|folder| self.path.join(folder).join(name).join("agent.toml").exists())
    }

    /// The manifests of agents, each with what it would be. One that is damaged is told of, and no reason to stop.
    fn agents(&self, edit: impl Fn(&str) -> Result<Option<String>, Refused>) -> Result<Vec<AgentFile>, CliError> {
        let mut found = Vec::new();
        for folder in AGENTS {
            let entries = fs::read_dir(self.path.join(folder)).into_iter().flatten().flatten();
            let mut paths: Vec<PathBuf> =
                entries.map(|entry| entry.path().join("agent.toml")).filter(|path| path.is_file()).collect();
            paths.sort();
            for path in paths {
                let before = read(&path)?;
                let after = edit(&before);
                found.push(AgentFile { path, before, after });
            }
        }
        Ok(found)
    }

    fn change_agents(
        &self,
        agents: Vec<AgentFile>,
        what: &str,
        now: &str,
        is_dry: bool,
        steps: &mut Vec<Step>,
    ) -> Result<(), CliError> {
        for AgentFile { path, before, after } in agents {
            match after {
                Err(refused) => {
                    steps.push(step("agents", format!("{} stays as it is: it {}", path.display(), refused.what)));
                }
                Ok(None) => steps.push(step("agents", format!("{} stays as it is", path.display()))),
                Ok(Some(after)) => {
                    self.change(&path, &before, &after, ("agents", &[what.to_owned()]), now, is_dry, steps)?;
                }
            }
        }
        Ok(())
    }

    fn config_text(&self) -> Result<String, CliError> {
        read(&self.config())
    }

    fn refused(&self, Refused { what, hint }: Refused) -> CliError {
        CliError::usage(format!("{} {what}", self.config().display()), hint)
    }

    fn is_writable(&self) -> Result<(), CliError> {
        let config = self.config();
        let paths = [Some(self.path.as_path()), config.exists().then_some(config.as_path())];
        for path in paths.into_iter().flatten() {
            rustix::fs::access(path, Access::WRITE_OK).map_err(|error| CliError::File {
                what: "write to",
                path: path.to_owned(),
                source: error.into(),
            })?;
        }
        Ok(())
    }

    /// Refuses a plugin of that name that somebody else wrote.
    fn is_plugin_ours(&self) -> Result<(), CliError> {
        let plugin = self.plugin();
        if plugin.is_symlink() || fs::symlink_metadata(&plugin).is_err() {
            return Ok(());
        }
        let manifest = read(&plugin.join("plugin.toml"))?;
        let is_ours = config::assembles(&manifest).as_deref() == Some("hooks/lcm-hook");
        let is_empty = fs::read_dir(&plugin).is_ok_and(|mut entries| entries.next().is_none());
        // One that was cut short has only the hook yet.
        let is_begun = manifest.is_empty() && plugin.join("hooks/lcm-hook").exists();
        if is_ours || is_empty || is_begun {
            return Ok(());
        }
        let what = format!("{} is a plugin of another kind", plugin.display());
        Err(CliError::usage(what, "move it away, then try again"))
    }

    /// Removes what was installed there. What a link leads to is its owner's work.
    fn remove_plugin(&self, is_dry: bool, steps: &mut Vec<Step>) -> Result<(), CliError> {
        let plugin = self.plugin();
        let is_link = plugin.is_symlink();
        let ours = if is_link {
            vec![plugin.clone()]
        } else {
            vec![plugin.join("plugin.toml"), plugin.join("hooks/lcm-hook")]
        };
        for path in ours.into_iter().filter(|path| is_link || path.exists()) {
            if !is_dry {
                self.remove(&path)?;
            }
            steps.push(step("plugin", format!("{} is removed", path.display())));
        }
        if !is_dry && !is_link {
            // Unless its owner, or the host, keeps something there.
            drop(fs::remove_dir(plugin.join("hooks")));
            drop(fs::remove_dir(&plugin));
            drop(fs::remove_dir(self.path.join("plugins")));
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), CliError> {
        fs::remove_file(path).map_err(|source| CliError::File { what: "remove", path: path.to_owned(), source })
    }

    /// Writes a file of ours, unless it is as it should be.
    fn put(
        &self,
        path: &Path,
        bytes: &[u8],
        mode: u32,
        part: &'static str,
        is_dry: bool,
        steps: &mut Vec<Step>,
    ) -> Result<(), CliError> {
        let is_same = fs::read(path).is_ok_and(|known| known == bytes)
            && fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o777 == mode);
        if is_same {
            steps.push(step(part, format!("{} is up to date", path.display())));
            return Ok(());
        }
        if !is_dry {
            self.write(path, bytes, mode)?;
        }
        steps.push(step(part, format!("{} is written", path.display())));
        Ok(())
    }

    fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> Result<(), CliError> {
        write(path, bytes, mode)?;
        self.give(path)?;
        path.parent().map_or(Ok(()), |folder| self.give(folder))
    }

    /// Gives a file that root made to whose home it is: nobody else could use it.
    fn give(&self, path: &Path) -> Result<(), CliError> {
        let fail = |source| CliError::File { what: "give away", path: path.to_owned(), source };
        let home = fs::metadata(&self.path).map_err(fail)?;
        if !rustix::process::geteuid().is_root() || home.uid() == 0 || !path.starts_with(&self.path) {
            return Ok(());
        }
        std::os::unix::fs::lchown(path, Some(home.uid()), Some(home.gid())).map_err(fail)
    }

    /// Writes a file that is its owner's, and a copy of what it was.
    #[expect(clippy::too_many_arguments, reason = "each is another thing, and all callers stand above")]
    fn change(
        &self,
        path: &Path,
        before: &str,
        after: &str,
        (part, said): (&'static str, &[String]),
        now: &str,
        is_dry: bool,
        steps: &mut Vec<Step>,
    ) -> Result<(), CliError> {
        if before == after {
            steps.push(step(part, format!("{} stays as it is", path.display())));
            return Ok(());
        }
        // It may hold keys.
        let mode = fs::metadata(path).map_or(0o600, |metadata| metadata.permissions().mode() & 0o777);
        if path.exists() {
            let backup = files::backup(path, now);
            if !is_dry {
                self.write(&backup, before.as_bytes(), mode)?;
            }
            steps.push(step(part, format!("{} is a copy of what it was", backup.display())));
        }
        if !is_dry {
            self.write(path, after.as_bytes(), mode)?;
        }
        steps.extend(said.iter().map(|said| step(part, format!("{}: {said}", path.display()))));
        Ok(())
    }

    fn daemon(&self, env: &Env<'_>) -> Result<Result<Daemon, String>, CliError> {
        let (listen, key) = config::api(&self.config_text()?);
        let set = |name: &str| env(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty());
        Ok(Daemon::find(listen.as_deref(), set("LIBREFANG_API_KEY").or(key)))
    }
}

fn step(part: &'static str, what: String) -> Step {
    Step { part, what }
}

fn place<'a>(program: &'a Path, data: &'a Path) -> Place<'a> {
    // The home is UTF-8: `find` saw to it.
    Place { program: program.to_str().unwrap_or_default(), data: data.to_str().unwrap_or_default() }
}

/// Reads a text; one that is not there is empty.
fn read(path: &Path) -> Result<String, CliError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|source| CliError::File { what: "read", path: path.to_owned(), source }),
    }
}

fn look_at_program(program: &Path) -> Finding {
    let ours = format!("lcm-cli {}", env!("CARGO_PKG_VERSION"));
    match version_of(program) {
        Some(version) if version == ours => Finding::fine("program", format!("{} is {version}", program.display())),
        Some(version) => {
            Finding::wrong("program", format!("{} is {version}, and this is {ours}", program.display()), INSTALL)
        }
        None => Finding::wrong("program", format!("{} cannot be run", program.display()), INSTALL),
    }
}

/// What a program says its version is.
fn version_of(program: &Path) -> Option<String> {
    let says = Command::new(program).arg("--version").stdin(std::process::Stdio::null()).output().ok()?;
    says.status.success().then(|| String::from_utf8_lossy(&says.stdout).trim().to_owned())
}

fn on_path(env: &Env<'_>) -> Option<PathBuf> {
    let path = env("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join("librefang")).find(|program| program.is_file())
}
