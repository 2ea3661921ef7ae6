//! The hooks of LibreFang, served: what they ask goes to the engine, and the spool is taken in first.
//!
//! A request that a hook left while nobody served is taken in before the first answer and whenever another one is found. A
//! file stays as long as something of it may still be a secret and is nowhere else; so do requests of ours of which the
//! same is true, so that a crash loses nothing. After a day what may be a secret is forgotten, and its file removed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use lcm_core::Json;
use lcm_engine::Engine;
use lcm_engine::error::EngineError;
use lcm_engine::hosts::librefang::{Caller, HookAnswer, HookOptions, Hooks, PENDING_MS, Waiting, Who};
use lcm_engine::spool::{self, Name, SpoolError};

use super::connection::lock;
use crate::error::CliError;

/// The file with which answers of tools are proved to be ours, in every process on one data directory.
const SECRET: &str = "hooks.secret";
/// A file that is there while the daemon wants the head of its windows to stay the same: it says so once, when it starts.
const STABLE_PREFIX: &str = ".hooks.stable-prefix";
/// How often what is old is looked for: a minute, in milliseconds.
const SWEEP_MS: i64 = 60_000;

/// What a process that serves knows of the hooks of its data directory.
pub(crate) struct Served {
    hooks: Hooks,
    spool: Mutex<Spool>,
}

/// Files of the spool that were taken in and of which something waits.
#[derive(Default)]
struct Spool {
    waiting: HashMap<Name, Waiting>,
    swept_ms: i64,
}

impl Served {
    /// Serves the hooks of a data directory.
    ///
    /// # Errors
    /// When the secret can neither be read nor made.
    pub(crate) fn new(home: &Path) -> io::Result<Self> {
        let hooks = Hooks::new(secret(home)?);
        hooks.set_stable_prefix(home.join(STABLE_PREFIX).exists());
        Ok(Self { hooks, spool: Mutex::default() })
    }

    /// Answers a hook.
    ///
    /// # Errors
    /// When the store or the spool cannot be used; the hook leaves its request in the spool then.
    pub(crate) fn answer(
        &self,
        home: &Path,
        engine: &Engine,
        request: Json,
        options: &HookOptions,
        now_ms: i64,
    ) -> Result<HookAnswer, CliError> {
        self.take_in(home, engine, options, now_ms)?;
        let answer = self.with_mode_kept(home, |hooks| hooks.answer(engine, request, options, now_ms))??;
        if let Some(waiting) = answer.waits.as_ref().filter(|waiting| self.hooks.still_needs(waiting)) {
            let left = spool::write(home, now_ms, waiting.request());
            let name =
                left.map_err(|source| CliError::File { what: "write to", path: home.join(spool::SPOOL_DIR), source })?;
            lock(&self.spool).waiting.insert(name, waiting.clone());
        }
        for note in &answer.notes {
            tracing::warn!("{note}");
        }
        Ok(answer)
    }

    /// Has something done with the hooks, and keeps for the next process what the daemon may have said when it started.
    fn with_mode_kept<T>(&self, home: &Path, work: impl FnOnce(&Hooks) -> T) -> Result<T, CliError> {
        let before = self.hooks.stable_prefix();
        let done = work(&self.hooks);
        let now = self.hooks.stable_prefix();
        if now != before {
            let path = home.join(STABLE_PREFIX);
            let kept = if now { fs::write(&path, "") } else { fs::remove_file(&path) };
            kept.map_err(|source| CliError::File { what: "write", path, source })?;
        }
        Ok(done)
    }

    /// Who calls a tool. The spool is taken in first, so that what it has is found.
    ///
    /// # Errors
    /// As [`Served::answer`].
    pub(crate) fn who(
        &self,
        home: &Path,
        engine: &Engine,
        caller: &Caller,
        options: &HookOptions,
        now_ms: i64,
    ) -> Result<Who, CliError> {
        self.take_in(home, engine, options, now_ms)?;
        Ok(self.hooks.who(engine, caller, options))
    }

    /// Takes in what hooks left, the oldest first.
    ///
    /// # Errors
    /// When the store or the spool cannot be used; what was not taken in stays.
    pub(crate) fn take_in(
        &self,
        home: &Path,
        engine: &Engine,
        options: &HookOptions,
        now_ms: i64,
    ) -> Result<(), CliError> {
        let fail = |source| CliError::File { what: "read", path: home.join(spool::SPOOL_DIR), source };
        // One at a time: each goes on from what the one before it said.
        let mut spooled = lock(&self.spool);
        if now_ms.saturating_sub(spooled.swept_ms) >= SWEEP_MS {
            spooled.swept_ms = now_ms;
            self.hooks.forget_before(now_ms.saturating_sub(PENDING_MS));
            if let Err(error) = spool::sweep(home, now_ms) {
                tracing::warn!(%error, "cannot look after the spool");
            }
        }
        let names = spool::names(home).map_err(fail)?;
        for name in names {
            if let Some(waiting) = spooled.waiting.get(&name) {
                if !self.hooks.still_needs(waiting) {
                    spool::remove(home, &name).map_err(fail)?;
                    spooled.waiting.remove(&name);
                }
                continue;
            }
            if let Some(waiting) = self.take_in_one(home, &name, engine, options, now_ms)? {
                spooled.waiting.insert(name, waiting);
            }
        }
        Ok(())
    }

    /// Takes in one file; what of it waits, where something does. Otherwise the file is gone.
    fn take_in_one(
        &self,
        home: &Path,
        name: &Name,
        engine: &Engine,
        options: &HookOptions,
        now_ms: i64,
    ) -> Result<Option<Waiting>, CliError> {
        let fail = |source| CliError::File { what: "remove", path: home.join(spool::SPOOL_DIR), source };
        let left = match spool::read(home, name) {
            Ok(left) => left,
            Err(SpoolError::Gone(_)) => return Ok(None),
            Err(error @ (SpoolError::TooNew { .. } | SpoolError::Unreadable { .. })) => {
                // A newer program, or another moment, can read it.
                tracing::warn!(%error, "a request of a hook cannot be taken in now");
                return Ok(None);
            }
            Err(error) => {
                tracing::warn!(%error, "a request of a hook is set aside");
                spool::set_aside(home, name).map_err(fail)?;
                return Ok(None);
            }
        };
        let Ok(request) = Json::parse(&left.request) else {
            tracing::warn!("a request of a hook is no JSON and is set aside: {}", name.as_str());
            spool::set_aside(home, name).map_err(fail)?;
            return Ok(None);
        };
        let waits = match self.with_mode_kept(home, |hooks| hooks.take_in(engine, request, options, left.at_ms))? {
            Ok(waits) => waits,
            // The store is what failed, and may be well again.
            Err(error @ EngineError::Store(_)) => return Err(error.into()),
            // One that cannot be taken in at all must not keep the others from it.
            Err(error) => {
                tracing::warn!(%error, "a request of a hook is set aside: {}", name.as_str());
                spool::set_aside(home, name).map_err(fail)?;
                return Ok(None);
            }
        };
        let is_recent = now_ms.saturating_sub(left.at_ms) < PENDING_MS;
        match waits.filter(|waiting| is_recent && self.hooks.still_needs(waiting)) {
            Some(waiting) => Ok(Some(waiting)),
            None => {
                // What was public of it is durable. A crash before this takes it in again, which adds nothing.
                spool::remove(home, name).map_err(fail)?;
                Ok(None)
            }
        }
    }
}

/// The secret of a data directory, made by the first who serves it.
fn secret(home: &Path) -> io::Result<[u8; 32]> {
    let path = home.join(SECRET);
    for _ in 0..2 {
        match File::open(&path) {
            Ok(mut file) => {
                let mut secret = [0; 32];
                file.read_exact(&mut secret)?;
                return Ok(secret);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut random = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        // Whole under its name, or not there.
        let made = home.join(format!(".{SECRET}.{}", std::process::id()));
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&made)?;
        file.write_all(&random)?;
        file.sync_all()?;
        // Of several that make one at once the first one's is everybody's.
        let linked = fs::hard_link(&made, &path);
        fs::remove_file(&made)?;
        match linked {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "the secret of hooks cannot be made"))
}
