//! One connection: its calls, its answers, what we ask the other side, and how much of all that there may be.
//!
//! A thread reads, another writes; calls are carried out elsewhere (`pool`) and answered in any order. A call counts
//! until its answer is written, in number and in bytes. When there is too much nothing more is read, so that a client
//! that never reads, or sends faster than anything can be done, costs no more than the bounds.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use lcm_core::Json;
use lcm_engine::service::Cancel;

use super::Client;
use lcm_engine::wire::frame::{self, CallId, Failure, Frame, LINE_BYTES_MAX, Line, Reply};
use lcm_engine::wire::lists::Bases;

/// Calls that run or wait in one connection.
pub(crate) const CALLS_MAX: usize = 256;
/// Bytes of calls and answers that are held for one connection.
const HELD_BYTES_MAX: usize = 256 << 20;

/// One connection.
pub(crate) struct Connection {
    /// Who is at the other end; set by `initialize`.
    pub(crate) client: OnceLock<Client>,
    pub(crate) bases: Mutex<Bases>,
    held: Mutex<Held>,
    /// Something of `held` was let go.
    has_room: Condvar,
    outbox: Mutex<Outbox>,
    has_mail: Condvar,
    /// Calls of ours, by their number.
    asked: Mutex<HashMap<CallId, Arc<Asked>>>,
    asked_count: AtomicU64,
}

#[derive(Default)]
struct Held {
    calls: HashMap<CallId, Arc<Call>>,
    /// Calls whose answer is not written yet, those without an id included.
    count: usize,
    bytes: usize,
    /// Nothing more is to be done for the other side.
    is_over: bool,
}

#[derive(Default)]
struct Outbox {
    lines: VecDeque<(Vec<u8>, Option<Hold>)>,
    /// The other side is gone, or nothing will come any more.
    is_over: bool,
    /// The writer has ended.
    is_written: bool,
}

/// A part of what a connection may hold, let go when it is dropped.
struct Hold {
    connection: Arc<Connection>,
    bytes: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = lock(&self.connection.held);
        held.count -= 1;
        held.bytes -= self.bytes;
        drop(held);
        self.connection.has_room.notify_all();
    }
}

/// A call of the other side that is not answered yet.
pub(crate) struct Call {
    pub(crate) id: CallId,
    /// Set when nobody waits for it any more.
    pub(crate) cancel: Cancel,
    /// Taken by whoever answers.
    hold: Mutex<Option<Hold>>,
    /// When it was read.
    pub(crate) begun: Instant,
}

/// A call of ours that waits for its answer.
#[derive(Default)]
struct Asked {
    answer: Mutex<Option<Result<Json, Failure>>>,
    has_come: Condvar,
}

/// Why a call of ours was not answered.
#[derive(Debug)]
pub(crate) enum Unanswered {
    TimedOut,
    Cancelled,
    Gone,
    Failed(Failure),
}

/// What is done with what the other side says.
pub(crate) trait Handler {
    /// Has a call carried out, and answered by [`Connection::answer`], sooner or later.
    fn call(&self, connection: &Arc<Connection>, call: Arc<Call>, verb: String, params: Json);
}

impl Connection {
    /// A connection whose names of bases begin with `stamp`.
    pub(crate) fn new(stamp: String) -> Arc<Self> {
        Arc::new(Self {
            client: OnceLock::new(),
            bases: Mutex::new(Bases::new(stamp)),
            held: Mutex::default(),
            has_room: Condvar::new(),
            outbox: Mutex::default(),
            has_mail: Condvar::new(),
            asked: Mutex::default(),
            asked_count: AtomicU64::new(0),
        })
    }

    /// Reads until the end of input, or until the connection is over.
    pub(crate) fn read(self: &Arc<Self>, input: &mut dyn BufRead, handler: &dyn Handler) -> io::Result<()> {
        while self.wait_for_room() {
            let line = match frame::next_line(input, LINE_BYTES_MAX)? {
                Line::End => return Ok(()),
                Line::TooLong => {
                    let why = format!("a line is longer than {LINE_BYTES_MAX} bytes: send less at once");
                    self.complain(&CallId::none(), Failure::new(Failure::LINE_TOO_LONG, why));
                    continue;
                }
                Line::Text(line) if line.trim_ascii().is_empty() => continue,
                Line::Text(line) => line,
            };
            let bytes = line.len();
            match frame::read(&line) {
                Err((id, failure)) => self.complain(&id, failure),
                Ok(Frame::Notice { verb, params }) if verb == "cancel" => self.cancel(&params),
                // Whatever else it tells us, nobody waits for an answer.
                Ok(Frame::Notice { .. }) => {}
                Ok(Frame::Answer { id, result }) => self.take_answer(&id, result),
                Ok(Frame::Call { id, verb, params }) => {
                    drop(line);
                    if let Some(call) = self.begin(id, bytes) {
                        handler.call(self, call, verb, params);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes what there is to write until all is over.
    pub(crate) fn write(&self, output: &mut dyn Write) {
        self.write_all(output);
        lock(&self.outbox).is_written = true;
        self.has_mail.notify_all();
    }

    fn write_all(&self, output: &mut dyn Write) {
        loop {
            let mut outbox = lock(&self.outbox);
            while outbox.lines.is_empty() && !outbox.is_over {
                outbox = self.has_mail.wait(outbox).unwrap_or_else(PoisonError::into_inner);
            }
            let lines = std::mem::take(&mut outbox.lines);
            drop(outbox);
            if lines.is_empty() {
                return;
            }
            for (line, hold) in lines {
                if output.write_all(&line).is_err() {
                    // Nobody reads any more; whoever waits for that is told.
                    self.end();
                    return;
                }
                drop(hold);
            }
            if output.flush().is_err() {
                self.end();
                return;
            }
        }
    }

    /// Waits until everything that was begun is answered and written, at most so long.
    pub(crate) fn drain(&self, time_max: Duration) {
        let until = Instant::now() + time_max;
        let mut held = lock(&self.held);
        while held.count > 0 && !held.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            held = self.has_room.wait_timeout(held, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the writer has written all that was posted, at most so long.
    pub(crate) fn wait_until_written(&self, time_max: Duration) {
        let until = Instant::now() + time_max;
        let mut outbox = lock(&self.outbox);
        while !outbox.is_written {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            outbox = self.has_mail.wait_timeout(outbox, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the connection: calls are given up, nothing more is written.
    pub(crate) fn end(&self) {
        let calls: Vec<Arc<Call>> = {
            let mut held = lock(&self.held);
            held.is_over = true;
            held.calls.drain().map(|(_, call)| call).collect()
        };
        for call in calls {
            call.cancel.cancel();
            drop(lock(&call.hold).take());
        }
        let lines = {
            let mut outbox = lock(&self.outbox);
            outbox.is_over = true;
            std::mem::take(&mut outbox.lines)
        };
        drop(lines);
        #[expect(clippy::iter_over_hash_type, reason = "all are woken, and nobody sees the order")]
        for asked in lock(&self.asked).values() {
            asked.has_come.notify_all();
        }
        self.has_mail.notify_all();
        self.has_room.notify_all();
    }

    pub(crate) fn is_over(&self) -> bool {
        lock(&self.held).is_over
    }

    /// Answers a call, unless somebody did.
    pub(crate) fn answer(&self, call: &Call, result: &Result<Reply, Failure>) {
        let Some(mut hold) = lock(&call.hold).take() else { return };
        let line = frame::answer(&call.id, result);
        {
            let mut held = lock(&self.held);
            held.calls.remove(&call.id);
            held.bytes += line.len();
        }
        hold.bytes += line.len();
        self.post(line, Some(hold));
    }

    /// Answers a call that nobody waits for any more, and stops what it does.
    pub(crate) fn give_up(&self, call: &Call, failure: Failure) {
        call.cancel.cancel();
        self.answer(call, &Err(failure));
    }

    /// Asks the other side, and waits for what it says.
    pub(crate) fn ask(
        &self,
        verb: &str,
        params: Json,
        time_max: Duration,
        cancel: &Cancel,
    ) -> Result<Json, Unanswered> {
        // Nothing wakes us when a call is cancelled; it is looked after so often.
        const LOOK: Duration = Duration::from_millis(50);
        let id = CallId::number(self.asked_count.fetch_add(1, Ordering::Relaxed) + 1);
        let asked = Arc::new(Asked::default());
        lock(&self.asked).insert(id.clone(), asked.clone());
        self.post(frame::call(&id, verb, params), None);
        let until = Instant::now() + time_max;
        let mut answer = lock(&asked.answer);
        let told = loop {
            if let Some(told) = answer.take() {
                break told.map_err(Unanswered::Failed);
            }
            let left = until.saturating_duration_since(Instant::now());
            if cancel.is_cancelled() {
                break Err(Unanswered::Cancelled);
            }
            if self.is_over() {
                break Err(Unanswered::Gone);
            }
            if left.is_zero() {
                break Err(Unanswered::TimedOut);
            }
            answer = asked.has_come.wait_timeout(answer, left.min(LOOK)).unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(answer);
        lock(&self.asked).remove(&id);
        told
    }

    /// Waits until there is room for another call; `false` when all is over.
    fn wait_for_room(&self) -> bool {
        let mut held = lock(&self.held);
        while !held.is_over && (held.count >= CALLS_MAX || held.bytes >= HELD_BYTES_MAX) {
            held = self.has_room.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        !held.is_over
    }

    /// Takes a part of what the connection may hold; `None` when it is over.
    fn hold(self: &Arc<Self>, bytes: usize) -> Option<Hold> {
        let mut held = lock(&self.held);
        if held.is_over {
            return None;
        }
        held.count += 1;
        held.bytes += bytes;
        Some(Hold { connection: self.clone(), bytes })
    }

    /// Takes a call down; `None` where one of this id runs already, and that is told.
    fn begin(self: &Arc<Self>, id: CallId, bytes: usize) -> Option<Arc<Call>> {
        let hold = self.hold(bytes)?;
        let call = Arc::new(Call {
            id: id.clone(),
            cancel: Cancel::default(),
            hold: Mutex::new(Some(hold)),
            begun: Instant::now(),
        });
        let mut held = lock(&self.held);
        if held.calls.contains_key(&id) {
            drop(held);
            let hold = lock(&call.hold).take();
            let why = "a call with this id is not answered yet: give every call an id of its own";
            self.post(frame::answer(&CallId::none(), &Err(Failure::new(Failure::NO_REQUEST, why))), hold);
            return None;
        }
        held.calls.insert(id, call.clone());
        Some(call)
    }

    fn complain(self: &Arc<Self>, id: &CallId, failure: Failure) {
        if let Some(hold) = self.hold(0) {
            self.post(frame::answer(id, &Err(failure)), Some(hold));
        }
    }

    fn cancel(&self, params: &Json) {
        let Some(id) = params.get("id").and_then(CallId::read) else { return };
        let call = lock(&self.held).calls.get(&id).cloned();
        if let Some(call) = call {
            self.give_up(&call, Failure::new(Failure::CANCELLED, "the call was cancelled"));
        }
    }

    fn take_answer(&self, id: &CallId, result: Result<Json, Failure>) {
        // One that comes too late is nobody's.
        let Some(asked) = lock(&self.asked).remove(id) else { return };
        *lock(&asked.answer) = Some(result);
        asked.has_come.notify_all();
    }

    fn post(&self, line: Vec<u8>, hold: Option<Hold>) {
        let mut outbox = lock(&self.outbox);
        if outbox.is_over {
            // A hold locks what it is of, so it is dropped after.
            drop(outbox);
            drop(hold);
            return;
        }
        outbox.lines.push_back((line, hold));
        drop(outbox);
        self.has_mail.notify_all();
    }

    /// Nothing more will be posted: the writer ends when all is written.
    pub(crate) fn close_outbox(&self) {
        lock(&self.outbox).is_over = true;
        self.has_mail.notify_all();
    }
}

/// Locks; what a panic left behind is as good as it was, since nothing here is half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
