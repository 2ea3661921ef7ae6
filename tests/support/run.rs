//! The program in this process: with its own home, a clock that stands still and nothing of the machine's environment.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::tz::TimeZone;
use lcm_cli::{Stream, World};
use tempfile::TempDir;

use crate::folder::folder;

/// The time of every run: 2026-03-05 12:00 UTC.
pub const RUN_MS: i64 = 1_772_712_000_000;

/// A place to run the program in.
pub struct Desk {
    folder: TempDir,
    /// Whether a person looks at the output.
    pub is_terminal: bool,
    env: BTreeMap<String, OsString>,
}

/// What a run gave.
#[derive(Debug)]
pub struct Ran {
    /// The exit code.
    pub code: u8,
    /// Data.
    pub stdout: String,
    /// Talk.
    pub stderr: String,
}

impl Desk {
    /// An empty desk.
    pub fn new() -> Self {
        Self { folder: folder(), is_terminal: false, env: BTreeMap::new() }
    }

    /// A desk with a store that holds these files of `tests/fixtures`.
    pub fn with(files: &[&str]) -> Self {
        let desk = Self::new();
        let paths: Vec<String> = files.iter().map(|file| fixture(file)).collect();
        let mut args = vec!["import"];
        args.extend(paths.iter().map(String::as_str));
        let ran = desk.run(&args);
        assert_eq!(ran.code, 0, "{ran:?}");
        desk
    }

    /// The data directory.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A path on the desk.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Puts a file on the desk; gives its path.
    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).expect("a file can be put on the desk");
        path.display().to_string()
    }

    /// Sets a variable of the environment.
    pub fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.into());
    }

    /// Runs the program.
    pub fn run<S: AsRef<str>>(&self, args: &[S]) -> Ran {
        self.run_with(args, Vec::new())
    }

    /// Runs the program with this on its standard input.
    pub fn run_with<S: AsRef<str>>(&self, args: &[S], stdin: impl Into<Vec<u8>>) -> Ran {
        let args = std::iter::once("lcm-cli").chain(args.iter().map(AsRef::as_ref)).map(OsString::from).collect();
        let (stdout, stderr) = (Shared::default(), Shared::default());
        let mut env = self.env.clone();
        env.entry("LCM_HOME".to_owned()).or_insert_with(|| self.home().into());
        let code = lcm_cli::run(World {
            args,
            variables: env.keys().map(OsString::from).collect(),
            env: Box::new(move |name| env.get(name).cloned()),
            stdin: Box::new(Cursor::new(stdin.into())),
            stdout: self.stream(&stdout),
            // Progress bars go to the real terminal, which is not ours.
            stderr: Stream { is_terminal: false, ..self.stream(&stderr) },
            now_ms: RUN_MS,
            time_zone: Some(TimeZone::UTC),
            columns: Some(100),
        });
        let hidden = |text: String| text.replace(&self.folder.path().display().to_string(), "[desk]");
        Ran { code, stdout: hidden(stdout.text()), stderr: hidden(stderr.text()) }
    }

    fn stream(&self, shared: &Shared) -> Stream {
        Stream { writer: Box::new(shared.clone()), is_terminal: self.is_terminal, takes_color: self.is_terminal }
    }

    /// The program as a process of its own; `program` is what [`crate::program!`] gives.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("LCM_HOME", self.home()).env("TZ", "UTC").current_dir(self.folder.path());
        command.envs(&self.env);
        command
    }
}

impl Default for Desk {
    fn default() -> Self {
        Self::new()
    }
}

impl Ran {
    /// Everything about a run in one text, as snapshots keep it.
    pub fn all(&self) -> String {
        let mut all = format!("exit code: {}\n", self.code);
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                all.push_str(&format!("----- {name}\n{text}"));
                if !text.ends_with('\n') {
                    all.push('\n');
                }
            }
        }
        all
    }
}

/// The path of a file of `tests/fixtures`.
pub fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name).display().to_string()
}

/// The path of the program under test, in a test program of this crate.
#[macro_export]
macro_rules! program {
    () => {
        env!("CARGO_BIN_EXE_lcm-under-test")
    };
}

/// Bytes that several hold.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
