//! The other processes: starting, watching and ending them, and what they do.

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use lcm_core::{Message, SessionId};
use lcm_store::testing::{Disk, Fate, Step};
use lcm_store::{OpenOptions, Pace, Store, StoreError};
use lcm_tests::again::this_test;
use lcm_tests::random::Random;
use lcm_tests::speech::{noise, user};
use lcm_tests::stores::{append, everything, options, owner, session};
use rustix::process::{Pid, Signal, kill_process};

/// Says what the second process is to do.
const TASK: &str = "LCM_TEST_TASK";
/// Between the words of a task.
const GAP: char = '\x1f';
/// In front of what a process tells its starter; the harness prints other lines around it.
const MARK: &str = "@ ";
/// The longest that anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A process that works on a store. It ends, at the latest, with this.
pub(crate) struct Worker {
    child: Child,
    /// The worker goes when this closes: it must not outlive a test that was killed.
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    task: String,
}

impl Worker {
    /// Starts a process with a task.
    pub(crate) fn start(task: &[&str]) -> Self {
        Self::start_with(this_test("worker::worker"), task)
    }

    /// Starts a process through another command, which ends by running the words it is given.
    pub(crate) fn start_through(command: &[&str], task: &[&str]) -> Self {
        let worker = this_test("worker::worker");
        let mut through = Command::new(command[0]);
        through.args(&command[1..]).arg(worker.get_program()).args(worker.get_args());
        Self::start_with(through, task)
    }

    fn start_with(mut command: Command, task: &[&str]) -> Self {
        let words = task.join(&GAP.to_string());
        command.env(TASK, words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("this program can be started again");
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Nobody listens any more once the test is over.
                if line.split_once(MARK).is_some_and(|(_, told)| sender.send(told.to_owned()).is_err()) {
                    break;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, task: task.join(" ") }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// What the process tells next.
    pub(crate) fn told(&self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => panic!("{}: it tells nothing: {error}", self.task),
        }
    }

    /// Waits until the process tells just this.
    pub(crate) fn expect(&self, expected: &str) {
        let told = self.told();
        assert_eq!(told, expected, "{}", self.task);
    }

    /// What it told until now and nobody has heard.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Lets the process do its next step.
    pub(crate) fn go(&mut self) {
        self.input.as_mut().unwrap().write_all(b"go\n").expect("the worker listens");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is our child, and not yet waited for");
    }

    /// Waits until a signal has stopped the process.
    pub(crate) fn wait_stopped(&self) {
        let begun = Instant::now();
        while self.state() != 'T' {
            assert!(begun.elapsed() < PATIENCE, "{}: it did not stop, it is {}", self.task, self.state());
            assert!(!matches!(self.state(), 'Z' | 'X'), "{}: it ended: {:?}", self.task, self.heard());
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// The state as the kernel names it: `T` for stopped, `Z` for ended.
    pub(crate) fn state(&self) -> char {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // Behind the name, which may hold anything.
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('X')
    }

    /// Waits for the end of the process.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                begun.elapsed() < PATIENCE + Duration::from_secs(crate::seconds()),
                "{}: it does not end",
                self.task
            );
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for the end of the process, which must be a good one.
    pub(crate) fn finish(mut self) {
        self.input = None;
        let status = self.wait();
        assert!(status.success(), "{}: {status}: {:?}", self.task, self.heard());
    }

    /// Ends the process at once.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.child.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

/// Tells the starter something.
fn tell(what: &str) {
    let mut out = std::io::stdout().lock();
    // One write, so that a kill leaves it whole or not at all.
    out.write_all(format!("{MARK}{what}\n").as_bytes()).expect("the starter listens");
    out.flush().expect("the starter listens");
}

/// Waits until the starter lets us go on; ends the process when the starter is gone.
fn wait_for_go() {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line).unwrap_or(0) == 0 {
        std::process::exit(3);
    }
}

/// Stops this process until somebody lets it go on.
fn stop_here() {
    let begun = Instant::now();
    kill_process(rustix::process::getpid(), Signal::STOP).expect("one may signal oneself");
    // The signal stops the process as a whole, a moment later for this thread than for others. Once it goes on, the
    // moment has long passed.
    while begun.elapsed() < Duration::from_millis(20) {
        std::hint::spin_loop();
    }
}

/// Not a test: what the other processes run. Without a task it is empty.
#[test]
fn worker() {
    let Ok(task) = env::var(TASK) else { return };
    let words: Vec<&str> = task.split(GAP).collect();
    match words[..] {
        ["write", home, name, acknowledged, seconds, seed] => {
            write(Path::new(home), name, Path::new(acknowledged), seconds.parse().unwrap(), seed.parse().unwrap());
        }
        ["read", home, seconds] => read(Path::new(home), seconds.parse().unwrap()),
        ["open", home, name] => open_and_say(Path::new(home), name),
        ["look", home] => {
            tell("ready");
            wait_for_go();
            let store = Store::open(Path::new(home), options()).unwrap();
            let kept = everything(&store).unwrap();
            tell(&kept.iter().map(|(_, texts)| texts.len()).sum::<usize>().to_string());
        }
        ["stop", home, point] => stop_at(Path::new(home), point),
        ["step", home, step] => stop_at_step(Path::new(home), step.parse().unwrap()),
        ["fill", home, bytes] => fill(Path::new(home), bytes.parse().ok()),
        _ => panic!("no such task: {words:?}"),
    }
}

/// Writes turn after turn, and each, once it is acknowledged, into a file of its own.
fn write(home: &Path, name: &str, acknowledged: &Path, seconds: u64, seed: u64) {
    let mut random = Random::seeded(seed);
    let store = Store::open(home, options()).unwrap();
    let id = session(&store, &owner("hermes", "anna"), name);
    let mut file = fs::OpenOptions::new().create(true).append(true).open(acknowledged).unwrap();
    tell("ready");
    let begun = Instant::now();
    for turn in 0.. {
        if begun.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        let size = if random.percent(5) { 6000 } else { 10 };
        let texts: Vec<String> = (0..=random.below(3))
            .map(|n| format!("{name} {seed} {turn} {n} {}", noise(&mut random, size).replace('\n', " ")))
            .collect();
        let messages: Vec<Message> = texts.iter().map(|text| user(text)).collect();
        append(&store, id, &messages).unwrap();
        let lines: String = texts.iter().map(|text| format!("{text}\n")).collect();
        file.write_all(lines.as_bytes()).unwrap();
    }
    tell("done");
}

/// Reads everything again and again: it only ever grows.
fn read(home: &Path, seconds: u64) {
    let store = Store::open(home, options()).unwrap();
    tell("ready");
    let begun = Instant::now();
    let (mut before, mut reads) = (everything(&store).unwrap(), 0_u64);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let now = everything(&store).unwrap();
        for (old, new) in before.iter().zip(&now) {
            assert_eq!(old.0, new.0, "sessions keep their order");
            assert!(new.1.starts_with(&old.1), "{}: what was read before is not there any more", old.0);
        }
        assert!(now.len() >= before.len());
        (before, reads) = (now, reads + 1);
    }
    tell(&format!("{reads} reads"));
}

/// Opens a store, which perhaps is made by that, at the same moment as others, and says something in it.
fn open_and_say(home: &Path, name: &str) {
    tell("ready");
    wait_for_go();
    let store = Store::open(home, options()).unwrap();
    let id = session(&store, &owner("hermes", "anna"), name);
    append(&store, id, &[user(name)]).unwrap();
    tell("done");
}

/// What one commit of a worker that stops says.
pub(crate) const SAID: &str = "said by the one that was stopped";

fn say(store: &Store) -> Result<SessionId, StoreError> {
    let id = store.commit(|commit| commit.session(&owner("hermes", "anna"), "stopped", "test", 0))?;
    append(store, id, &[user(SAID)])?;
    Ok(id)
}

/// Stops the process at a named moment, and goes on from there.
fn stop_at(home: &Path, point: &str) {
    let disk = Arc::new(StopsOnce::default());
    let store = Store::open(home, OpenOptions { disk: Some(disk.clone()), ..options() }).unwrap();
    match point {
        "write" => {
            let id = session(&store, &owner("hermes", "anna"), "stopped");
            let prepared = lcm_tests::stores::prepare(&store, &[user(SAID)]);
            store
                .commit(|commit| {
                    stop_here();
                    lcm_tests::stores::append_in(commit, id, &prepared)
                })
                .unwrap();
        }
        "read" => {
            let snapshot = store.snapshot().unwrap();
            let before = snapshot.places_len().unwrap();
            stop_here();
            assert_eq!(snapshot.places_len().unwrap(), before, "a snapshot is of one moment");
            for session in snapshot.sessions(&lcm_store::Scope::everything()).unwrap() {
                lcm_tests::stores::texts(&snapshot, session.timeline).unwrap();
            }
        }
        "index" => {
            let stopped = AtomicU64::new(0);
            let stop_once = |_| {
                if stopped.fetch_add(1, Ordering::SeqCst) == 0 {
                    stop_here();
                }
            };
            store.catch_up(Pace::Bulk, &stop_once).unwrap();
            assert!(stopped.into_inner() > 0, "it was asked for its progress");
        }
        "header shared" => {
            disk.arm(Moment::HeaderShared);
            store.snapshot().unwrap();
        }
        "header exclusive" => {
            say(&store).unwrap();
            disk.arm(Moment::HeaderExclusive);
            append(&store, session(&store, &owner("hermes", "anna"), "stopped"), &[]).unwrap();
        }
        "sync" => {
            say(&store).unwrap();
            disk.arm(Moment::Sync);
            session(&store, &owner("hermes", "anna"), "another");
        }
        "compact" => {
            disk.arm(Moment::Sync);
            store.compact().unwrap();
        }
        _ => panic!("no such point: {point}"),
    }
    tell("done");
}

/// Stops the process before the n-th step that its opening and one turn ask of the file; without so many it ends.
fn stop_at_step(home: &Path, step: u64) {
    let disk = Arc::new(StopsAtStep { left: AtomicU64::new(step) });
    let store = Store::open(home, OpenOptions { disk: Some(disk.clone()), ..options() }).unwrap();
    say(&store).unwrap();
    drop(store);
    let reached = disk.left.load(Ordering::SeqCst) == u64::MAX;
    tell(if reached { "done" } else { "no such step" });
}

/// Writes until it fails, under a limit for the size of files where one is given; then reads what was acknowledged.
fn fill(home: &Path, bytes: Option<u64>) {
    let store = Store::open(home, options()).unwrap();
    let id = session(&store, &owner("hermes", "anna"), "filled");
    if let Some(bytes) = bytes {
        let limit = rustix::process::Rlimit { current: Some(bytes), maximum: Some(bytes) };
        rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    }
    let mut random = Random::seeded(9);
    let mut said = Vec::new();
    let error = loop {
        let message = user(&noise(&mut random, 20_000));
        match append(&store, id, std::slice::from_ref(&message)) {
            Ok(_) => said.push(lcm_tests::speech::text_of(&message)),
            Err(error) => break error,
        }
        assert!(said.len() < 10_000, "the disk is never full");
    };
    assert!(!matches!(error, StoreError::WriterFailed | StoreError::Busy { .. }), "{error:?}");
    for _ in 0..3 {
        let kept = everything(&store).unwrap();
        let kept = &kept.iter().find(|(name, _)| name == "filled").unwrap().1;
        // The commit that failed may have become durable; nothing else differs.
        assert!(*kept == said || kept.starts_with(&said) && kept.len() == said.len() + 1);
        lcm_tests::stores::assert_whole(&store);
        let again = append(&store, id, &[user("more")]);
        assert!(matches!(again, Err(StoreError::WriterFailed)), "{again:?}");
    }
    tell(&said.len().to_string());
}

/// A moment in the work of redb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    HeaderShared,
    HeaderExclusive,
    Sync,
}

/// A disk that stops the process once, when a moment comes after it was armed.
#[derive(Debug, Default)]
struct StopsOnce(std::sync::Mutex<Option<Moment>>);

impl StopsOnce {
    fn arm(&self, moment: Moment) {
        *self.0.lock().unwrap() = Some(moment);
    }
}

/// Whether a lock is the one on redb's header.
fn is_header(start: std::ops::Bound<u64>) -> bool {
    matches!(start, std::ops::Bound::Included(0) | std::ops::Bound::Unbounded)
}

impl Disk for StopsOnce {
    fn meet(&self, _file: &Path, step: Step<'_>) -> std::io::Result<Fate> {
        let now = match step {
            Step::Locked { start, exclusive: false } if is_header(start) => Moment::HeaderShared,
            Step::Locked { start, exclusive: true } if is_header(start) => Moment::HeaderExclusive,
            Step::Sync => Moment::Sync,
            _ => return Ok(Fate::Happens),
        };
        let mut armed = self.0.lock().unwrap();
        if *armed == Some(now) {
            *armed = None;
            drop(armed);
            stop_here();
        }
        Ok(Fate::Happens)
    }
}

/// A disk that stops the process before its n-th step.
#[derive(Debug)]
struct StopsAtStep {
    /// Steps until then; `u64::MAX` once it is over.
    left: AtomicU64,
}

impl Disk for StopsAtStep {
    fn meet(&self, _file: &Path, step: Step<'_>) -> std::io::Result<Fate> {
        let left = self.left.load(Ordering::SeqCst);
        if left == 0 {
            self.left.store(u64::MAX, Ordering::SeqCst);
            let what = match step {
                Step::Read { offset, len } => format!("read {len} at {offset}"),
                Step::Write { offset, data } => format!("write {} at {offset}", data.len()),
                Step::SetLen { from, to } => format!("length {from} to {to}"),
                Step::Sync => "sync".into(),
                Step::Locked { start, exclusive } => {
                    let what = if is_header(start) { "header".into() } else { format!("{start:?}") };
                    format!("locked {what}{}", if exclusive { ", alone" } else { "" })
                }
            };
            tell(&format!("stops: {what}"));
            stop_here();
        } else if left != u64::MAX {
            self.left.store(left - 1, Ordering::SeqCst);
        }
        Ok(Fate::Happens)
    }
}

/// A path as a word of a task.
pub(crate) fn word(path: &Path) -> &str {
    path.to_str().expect("the test's own folders have plain names")
}

/// The file in which a writer keeps what was acknowledged.
pub(crate) fn acknowledged_by(folder: &Path, name: &str, seed: u64) -> PathBuf {
    folder.join(format!("{name}.{seed}.acknowledged"))
}

/// Starts a writer.
pub(crate) fn start_writer(home: &Path, folder: &Path, name: &str, seconds: u64, seed: u64) -> Worker {
    let acknowledged = acknowledged_by(folder, name, seed);
    let (seconds, seed) = (seconds.to_string(), seed.to_string());
    Worker::start(&["write", word(home), name, word(&acknowledged), &seconds, &seed])
}
