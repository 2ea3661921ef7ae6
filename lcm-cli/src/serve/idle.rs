//! Between calls: the search index catches up, and summaries that the next fold will want are prepared.
//!
//! One thread does it, a step at a time, and begins only while no call runs; what it prepares for a session it gives up
//! when that session is folded. Nothing depends on it: whatever is not done here is done when it is needed.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lcm_engine::Engine;
use lcm_engine::compress::summary::Summarizer;
use lcm_engine::service::{Cancel, CompressRequest, Service, SessionKey, TurnRequest};

use super::connection::lock;
use super::options::CallOptions;

/// Summaries are prepared when nobody called for so long.
const QUIET: Duration = Duration::from_millis(200);
/// The index is looked at when nobody called for so long. While somebody does it follows by many messages at once.
const LONG_QUIET: Duration = Duration::from_secs(5);
/// From this part of the threshold on summaries are prepared, in per cent.
const PREPARE_PERCENT: u64 = 70;
/// Sessions for which something waits to be prepared; beyond that the oldest goes without.
const WAITING_MAX: usize = 32;

/// What is done between calls.
pub(super) struct Idle(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    engine: Option<Arc<Engine>>,
    /// Calls that run.
    working: usize,
    last: Instant,
    /// Whether something was written since the index was looked at.
    is_fresh: bool,
    waiting: VecDeque<Work>,
    /// What is being prepared now.
    preparing: Option<(SessionKey, Cancel)>,
    is_over: bool,
}

/// A list whose summaries are to be prepared.
struct Work {
    engine: Arc<Engine>,
    request: TurnRequest,
    options: CallOptions,
    model: Option<Arc<dyn Summarizer>>,
}

/// A call that runs.
pub(super) struct Working(Arc<Inner>);

impl Idle {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the machine gives no thread.
    pub(super) fn start() -> io::Result<Self> {
        let state = State {
            engine: None,
            working: 0,
            last: Instant::now(),
            is_fresh: true,
            waiting: VecDeque::new(),
            preparing: None,
            is_over: false,
        };
        let inner = Arc::new(Inner { state: Mutex::new(state), changed: Condvar::new() });
        let thread = inner.clone();
        thread::Builder::new().name("lcm-idle".to_owned()).spawn(move || thread.run())?;
        Ok(Self(inner))
    }

    /// From now on there is a store.
    pub(super) fn watch(&self, engine: &Arc<Engine>) {
        lock(&self.0.state).engine = Some(engine.clone());
        self.0.changed.notify_all();
    }

    /// A call begins.
    pub(super) fn working(&self) -> Working {
        lock(&self.0.state).working += 1;
        Working(self.0.clone())
    }

    /// A session is about to be folded: nothing needs to be prepared for it any more.
    pub(super) fn folds(&self, session: &SessionKey) {
        let mut state = lock(&self.0.state);
        state.waiting.retain(|work| work.request.key != *session);
        if let Some((_, cancel)) = state.preparing.as_ref().filter(|(key, _)| key == session) {
            cancel.cancel();
        }
    }

    /// A turn is over: what the next fold will want can be prepared.
    pub(super) fn settled(
        &self,
        engine: &Arc<Engine>,
        request: TurnRequest,
        options: &CallOptions,
        tokens: u64,
        model: Option<Arc<dyn Summarizer>>,
    ) {
        let from = options.folding.threshold_tokens / 100 * PREPARE_PERCENT;
        if tokens < from {
            return;
        }
        let mut state = lock(&self.0.state);
        state.waiting.retain(|work| work.request.key != request.key);
        if state.waiting.len() >= WAITING_MAX {
            state.waiting.pop_front();
        }
        state.waiting.push_back(Work { engine: engine.clone(), request, options: options.clone(), model });
        self.0.changed.notify_all();
    }

    /// Nothing is done any more.
    pub(super) fn stop(&self) {
        let mut state = lock(&self.0.state);
        state.is_over = true;
        if let Some((_, cancel)) = &state.preparing {
            cancel.cancel();
        }
        self.0.changed.notify_all();
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.working -= 1;
        state.last = Instant::now();
        state.is_fresh = true;
        self.0.changed.notify_all();
    }
}

/// What is to be done next.
enum Next {
    Prepare(Box<Work>, Cancel),
    Follow(Arc<Engine>),
    Over,
}

impl Inner {
    fn run(&self) {
        loop {
            match self.next() {
                Next::Over => return,
                Next::Prepare(work, cancel) => {
                    work.prepare(&cancel);
                    lock(&self.state).preparing = None;
                }
                Next::Follow(engine) => {
                    if let Err(error) = engine.catch_up() {
                        tracing::warn!(%error, "cannot bring the search index up to date");
                    }
                }
            }
        }
    }

    /// Waits until there is something to do and nobody calls.
    fn next(&self) -> Next {
        let mut state = lock(&self.state);
        loop {
            if state.is_over {
                return Next::Over;
            }
            let quiet = state.last.elapsed();
            let wanted = match (&state.engine, state.working) {
                (_, 1..) => None,
                _ if !state.waiting.is_empty() => Some(QUIET),
                (Some(_), _) if state.is_fresh => Some(LONG_QUIET),
                _ => None,
            };
            let Some(wanted) = wanted else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = wanted.saturating_sub(quiet);
            if !left.is_zero() {
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            if let Some(work) = state.waiting.pop_front() {
                let cancel = Cancel::default();
                state.preparing = Some((work.request.key.clone(), cancel.clone()));
                return Next::Prepare(Box::new(work), cancel);
            }
            if let Some(engine) = state.engine.clone() {
                state.is_fresh = false;
                return Next::Follow(engine);
            }
        }
    }
}

impl Work {
    fn prepare(self, cancel: &Cancel) {
        let request = CompressRequest {
            model: self.options.model.clone(),
            summarizer: self.model.as_deref(),
            cancel: cancel.clone(),
            ..CompressRequest::new(self.request, self.options.folding)
        };
        if let Err(error) = self.engine.prepare(&request) {
            tracing::debug!(%error, "no summaries were prepared");
        }
    }
}
