//! Who carries calls out: some threads for short ones, first come, first served; a thread each for those that may wait
//! for a model; and a clock that answers what takes too long.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::connection::{Call, Connection, lock};
use lcm_engine::wire::frame::Failure;

/// Threads for short calls: a read waits for the disk now and then, and a write for the lock.
const THREADS: usize = 8;
/// Calls that may wait for a model at once, over all connections. More wait in the line of the short ones.
const LONG_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// Carries calls out.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Inner>);

struct Inner {
    jobs: Mutex<VecDeque<Job>>,
    has_job: Condvar,
    long: AtomicUsize,
    timers: Mutex<BinaryHeap<Reverse<Timer>>>,
    has_timer: Condvar,
    is_over: AtomicBool,
}

impl Pool {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the machine gives no thread.
    pub(crate) fn start() -> io::Result<Self> {
        let inner = Arc::new(Inner {
            jobs: Mutex::default(),
            has_job: Condvar::new(),
            long: AtomicUsize::new(0),
            timers: Mutex::default(),
            has_timer: Condvar::new(),
            is_over: AtomicBool::new(false),
        });
        for number in 0..THREADS {
            let inner = inner.clone();
            thread::Builder::new().name(format!("lcm-call-{number}")).spawn(move || inner.work())?;
        }
        let clock = inner.clone();
        thread::Builder::new().name("lcm-clock".to_owned()).spawn(move || clock.tick())?;
        Ok(Self(inner))
    }

    /// Has a short call carried out.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        lock(&self.0.jobs).push_back(Box::new(job));
        self.0.has_job.notify_one();
    }

    /// Has a call carried out that may wait long.
    pub(crate) fn run_long(&self, job: impl FnOnce() + Send + 'static) {
        let inner = self.0.clone();
        if inner.long.fetch_add(1, Ordering::AcqRel) >= LONG_MAX {
            inner.long.fetch_sub(1, Ordering::AcqRel);
            return self.run(job);
        }
        // The job is shared, so that it is not lost where there is no thread for it.
        let job: Arc<Mutex<Option<Job>>> = Arc::new(Mutex::new(Some(Box::new(job))));
        let (counted, taken) = (inner.clone(), job.clone());
        let spawned = thread::Builder::new().name("lcm-long-call".to_owned()).spawn(move || {
            let job = lock(&taken).take();
            if let Some(job) = job {
                job();
            }
            counted.long.fetch_sub(1, Ordering::AcqRel);
        });
        if spawned.is_err() {
            inner.long.fetch_sub(1, Ordering::AcqRel);
            let job = lock(&job).take();
            if let Some(job) = job {
                self.run(job);
            }
        }
    }

    /// Lets the threads end with what they are at. What is not begun is never done.
    pub(crate) fn stop(&self) {
        self.0.is_over.store(true, Ordering::Release);
        // Whoever has looked already and not slept yet holds the lock.
        drop(lock(&self.0.jobs));
        self.0.has_job.notify_all();
        drop(lock(&self.0.timers));
        self.0.has_timer.notify_all();
    }

    /// Answers a call with an error when it is not answered after so long.
    pub(crate) fn limit(&self, connection: &Arc<Connection>, call: &Arc<Call>, time_max: Duration) {
        let Some(at) = call.begun.checked_add(time_max) else { return };
        let timer = Timer { at, time_max, connection: Arc::downgrade(connection), call: Arc::downgrade(call) };
        lock(&self.0.timers).push(Reverse(timer));
        self.0.has_timer.notify_one();
    }
}

impl Inner {
    fn work(&self) {
        loop {
            let mut jobs = lock(&self.jobs);
            let job = loop {
                if self.is_over.load(Ordering::Acquire) {
                    return;
                }
                match jobs.pop_front() {
                    Some(job) => break job,
                    None => jobs = self.has_job.wait(jobs).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(jobs);
            job();
        }
    }

    fn tick(&self) {
        let mut timers = lock(&self.timers);
        loop {
            if self.is_over.load(Ordering::Acquire) {
                return;
            }
            let now = Instant::now();
            let mut due = Vec::new();
            while timers.peek().is_some_and(|Reverse(timer)| timer.at <= now || timer.call.strong_count() == 0) {
                due.extend(timers.pop());
            }
            if !due.is_empty() {
                drop(timers);
                for Reverse(timer) in due {
                    timer.ring();
                }
                timers = lock(&self.timers);
                continue;
            }
            timers = match timers.peek() {
                None => self.has_timer.wait(timers).unwrap_or_else(PoisonError::into_inner),
                Some(Reverse(next)) => {
                    let left = next.at.saturating_duration_since(now);
                    self.has_timer.wait_timeout(timers, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

struct Timer {
    at: Instant,
    time_max: Duration,
    connection: Weak<Connection>,
    call: Weak<Call>,
}

impl Timer {
    fn ring(&self) {
        if let (Some(connection), Some(call)) = (self.connection.upgrade(), self.call.upgrade()) {
            let why = format!("the deadline of {} ms has passed", self.time_max.as_millis());
            connection.give_up(&call, Failure::new(Failure::DEADLINE, why));
        }
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}
