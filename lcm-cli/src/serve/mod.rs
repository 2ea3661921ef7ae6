//! Serving: the wire (`docs/wire.md`) on standard input and output, and on a unix socket beside.
//!
//! One process serves any number of connections, sessions and threads on one store. A connection is read by one thread
//! and written by another; calls are carried out by the pool and answered in any order. The engine decides; here it is
//! connected.
//!
//! What a line is stands in `lcm_engine::wire`. Modules in reading order: `connection` is the calls of one connection,
//! `pool` who carries them out, `verbs` what each of them does, `options` how a call is to be carried
//! out, `idle` what is done between calls, `socket`, `parent` and `memory` the world around.

mod connection;
mod pool;
mod options;
mod verbs;
mod idle;
mod hooks;
pub(crate) mod sidecar;
pub(crate) mod socket;
mod parent;
mod memory;

use std::io::{self, BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use lcm_core::Json;
use lcm_engine::compress::summary::Summarizer;
use lcm_engine::hosts::librefang::{Caller, HookOptions, Who};
use lcm_engine::service::Service;
use lcm_engine::{Engine, OpenOptions, spool};

use self::connection::{Call, Handler};
pub(crate) use self::connection::{Connection, Unanswered, lock};
pub(crate) use self::hooks::Served;
use self::idle::Idle;
use self::options::CallOptions;
use self::pool::Pool;
use crate::error::CliError;
use crate::moment;
use crate::settings::Settings;
use lcm_engine::wire::frame::{self, Params};
pub(crate) use lcm_engine::wire::frame::{CallId, Failure};

/// How long calls that run at the end of input may take to be answered. A model that is asked then is not waited for.
const LAST_CALLS_MAX: Duration = Duration::from_secs(10);
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// What a process that serves goes by.
pub(crate) struct Config {
    pub(crate) home: PathBuf,
    pub(crate) settings: Settings,
    /// What is odd about the settings, each a sentence.
    pub(crate) notes: Vec<String>,
    /// Whether the unix socket is offered.
    pub(crate) has_socket: bool,
}

/// A process that serves.
pub(crate) struct Server {
    config: Config,
    /// Opened by the first `initialize` that can.
    engine: Mutex<Option<Arc<Engine>>>,
    /// Made by the first hook, or tool of a host with hooks, that asks.
    hooks: OnceLock<Served>,
    pool: Pool,
    idle: Idle,
    /// Another one in every process, so that names of bases are nobody else's.
    stamp: String,
    /// The socket that we made.
    socket: Mutex<Option<socket::Made>>,
    /// Tells that the process is to end.
    end: Mutex<Sender<Ended>>,
}

/// Who is at the other end of a connection, as it says.
pub(crate) struct Client {
    /// The host, which becomes the source of sessions.
    host: String,
    /// Who asks, for history.
    by: String,
    settings: Settings,
    /// Whether it answers `host/summarize`.
    summarizes: bool,
    /// A model of the settings, for those that have none of their own.
    model: Option<Arc<dyn Summarizer>>,
    engine: Arc<Engine>,
}

/// Why a process stops serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// Nothing more comes in.
    Input,
    /// The parent is gone.
    Parent,
}

/// Serves until nothing more comes in, or the parent is gone.
///
/// # Errors
/// When the machine gives no threads.
pub(crate) fn serve(
    config: Config,
    input: Box<dyn Read + Send>,
    mut output: Box<dyn Write + Send>,
) -> Result<(), CliError> {
    let no_thread = no_thread("serve");
    let (server, ended) = Server::start(config)?;
    let connection = Connection::new(server.stamp.clone());
    let writing = {
        let connection = connection.clone();
        let write = move || connection.write(&mut *output);
        thread::Builder::new().name("lcm-write".to_owned()).spawn(write).map_err(no_thread)?
    };
    {
        let (server, connection) = (server.clone(), connection.clone());
        let read = move || {
            let mut input = BufReader::with_capacity(READ_BYTES, input);
            if let Err(error) = connection.read(&mut input, &server) {
                tracing::warn!(%error, "cannot read the input any more");
            }
            server.end(Ended::Input);
        };
        thread::Builder::new().name("lcm-read".to_owned()).spawn(read).map_err(no_thread)?;
    }
    // The sender lives as long as the server, so somebody always tells.
    let why = ended.recv().unwrap_or(Ended::Input);
    if why == Ended::Input {
        connection.drain(LAST_CALLS_MAX);
        connection.close_outbox();
        connection.wait_until_written(LAST_CALLS_MAX);
    }
    connection.end();
    drop(writing);
    server.close();
    Ok(())
}

/// That the machine gives no thread.
pub(crate) fn no_thread(what: &'static str) -> impl Fn(io::Error) -> CliError + Copy {
    move |source| CliError::File { what: "start threads for", path: what.into(), source }
}

impl Server {
    /// A process that serves: its threads wait, its store is not open.
    ///
    /// # Errors
    /// When the machine gives no threads.
    fn start(config: Config) -> Result<(Arc<Self>, Receiver<Ended>), CliError> {
        memory::share();
        let no_thread = no_thread("serve");
        let (end, ended) = mpsc::channel();
        let server = Arc::new(Self {
            engine: Mutex::new(None),
            hooks: OnceLock::new(),
            pool: Pool::start().map_err(no_thread)?,
            idle: Idle::start().map_err(no_thread)?,
            stamp: stamp(),
            socket: Mutex::new(None),
            end: Mutex::new(end),
            config,
        });
        Ok((server, ended))
    }

    /// The same for a host that speaks another protocol: it ends when that host says so, whatever is said on the socket.
    ///
    /// # Errors
    /// When the machine gives no threads.
    pub(crate) fn start_beside(config: Config) -> Result<Arc<Self>, CliError> {
        Self::start(config).map(|(server, _)| server)
    }

    /// What is set.
    pub(crate) fn settings(&self) -> &Settings {
        &self.config.settings
    }

    /// The store as the settings have it, made where there is none; the socket is offered from then on.
    ///
    /// # Errors
    /// When it cannot be opened; the next one who asks tries again.
    pub(crate) fn open(self: &Arc<Self>) -> Result<Arc<Engine>, Failure> {
        self.engine(&self.config.settings)
    }

    /// Has something carried out by the threads for calls; `is_long` for what may wait for a model.
    pub(crate) fn carry_out(self: &Arc<Self>, is_long: bool, job: impl FnOnce() + Send + 'static) {
        let server = self.clone();
        let job = move || {
            let working = server.idle.working();
            job();
            drop(working);
        };
        if is_long { self.pool.run_long(job) } else { self.pool.run(job) }
    }

    fn end(&self, why: Ended) {
        // Nobody listens any more when it ends already.
        lock(&self.end).send(why).ok();
    }

    /// What is left to do when nobody calls any more.
    pub(crate) fn close(&self) {
        self.idle.stop();
        self.pool.stop();
        if let Some(made) = lock(&self.socket).take() {
            socket::remove(&self.config.home, &made);
        }
    }

    /// What is known of the hooks of the data directory.
    pub(crate) fn hooks(&self) -> Result<&Served, CliError> {
        if let Some(served) = self.hooks.get() {
            return Ok(served);
        }
        let fail = |source| CliError::File { what: "prepare hooks in", path: self.config.home.clone(), source };
        let served = Served::new(&self.config.home).map_err(fail)?;
        // Of two that come at once, the first one's is everybody's.
        Ok(self.hooks.get_or_init(|| served))
    }

    /// Who calls a tool, by the mark that a host with hooks puts on the call.
    pub(crate) fn who(&self, engine: &Engine, mark: &str) -> Result<Who, Failure> {
        let caller = Json::parse(mark.as_bytes()).ok().and_then(|mark| Caller::read(&mark));
        let caller =
            caller.ok_or_else(|| Failure::new(Failure::PARAMETER, "nothing in scope: the call names no session"))?;
        let told = self
            .hooks()
            .and_then(|hooks| hooks.who(&self.config.home, engine, &caller, &self.hook_options(), moment::now_ms()));
        told.map_err(|error| verbs::failure_of(&error))
    }

    /// Takes in what hooks left, where they left something.
    pub(crate) fn take_in_spool(&self, engine: &Engine) -> Result<(), Failure> {
        let home = &self.config.home;
        if spool::names(home).is_ok_and(|names| names.is_empty()) {
            return Ok(());
        }
        let taken = self.hooks().and_then(|hooks| hooks.take_in(home, engine, &self.hook_options(), moment::now_ms()));
        taken.map_err(|error| verbs::failure_of(&error))
    }

    /// Answers a hook of a client with these settings and this model; gives the answer's text.
    pub(crate) fn answer_hook(
        &self,
        engine: &Arc<Engine>,
        settings: &Settings,
        model: Option<Arc<dyn Summarizer>>,
        request: Json,
    ) -> Result<Vec<u8>, CliError> {
        let options = CallOptions::of(settings);
        let hooks = options.hooks(settings);
        let answered = self.hooks()?.answer(&self.config.home, engine, request, &hooks, moment::now_ms())?;
        if let Some((list, threshold)) = answered.settled {
            let tokens = engine.weigh(&list.messages)?;
            self.idle.settled(engine, list, &options.with_threshold(threshold), tokens, model);
        }
        Ok(answered.text)
    }

    fn hook_options(&self) -> HookOptions {
        CallOptions::of(&self.config.settings).hooks(&self.config.settings)
    }

    /// The store, made where there is none; without the secrets that the settings of the first who asked tell.
    fn engine(self: &Arc<Self>, settings: &Settings) -> Result<Arc<Engine>, Failure> {
        let mut engine = lock(&self.engine);
        if let Some(engine) = &*engine {
            return Ok(engine.clone());
        }
        let redactor = settings.redactor().map_err(|error| verbs::failure_of(&error))?;
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let opened = Engine::open(&self.config.home, options).map_err(|error| verbs::failure_of(&error.into()))?;
        let opened = Arc::new(match redactor {
            Some(redactor) => opened.with_redactor(redactor),
            None => opened,
        });
        *engine = Some(opened.clone());
        drop(engine);
        self.idle.watch(&opened);
        if self.config.has_socket {
            *lock(&self.socket) = socket::listen(self);
        }
        Ok(opened)
    }
}

impl Handler for Arc<Server> {
    fn call(&self, connection: &Arc<Connection>, call: Arc<Call>, verb: String, params: Json) {
        let mut params = Params::new(params);
        match params.number("deadline_ms") {
            Ok(None) => {}
            Ok(Some(ms)) => self.pool.limit(connection, &call, Duration::from_millis(ms)),
            Err(failure) => return connection.answer(&call, &Err(failure)),
        }
        let (is_first, is_long) = (verb == verbs::INITIALIZE, verbs::may_wait(&verb, &params));
        let (server, connection) = (self.clone(), connection.clone());
        let job = move || {
            if call.cancel.is_cancelled() {
                return;
            }
            let working = server.idle.working();
            let answer = || verbs::answer(&server, &connection, &call, &verb, params);
            let result = catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|_| {
                Err(Failure::new(Failure::BUG, format!("{} failed by a bug of ours", frame::quoted(&verb))))
            });
            drop(working);
            connection.answer(&call, &result);
        };
        match (is_first, is_long) {
            (true, _) => job(),
            (_, true) => self.pool.run_long(job),
            (_, false) => self.pool.run(job),
        }
    }
}

/// A text that no other process has, for names that must not be mistaken for another's.
fn stamp() -> String {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    format!("{:08x}", random & 0xffff_ffff)
}
