//! Asking the model: one request and its repetitions, within the time of the prompt.
//!
//! A request runs on a thread and a runtime of its own, whose threads are left behind when the time is over: looking
//! up a name can hang in the system, and nobody may hang with it. So it can be called from anywhere, also from inside
//! another runtime.
//!
//! Where it goes is only what the settings say: no proxy of the environment, no redirect. The key is in one header,
//! marked as sensitive, and in no message.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use lcm_core::Json;
use lcm_core::tokens::{Estimate, TokenCounter};
use lcm_engine::compress::summary::{Summarizer, SummarizerError, SummaryPrompt};
use lcm_engine::service::Spent;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, redirect};
use tokio::time::timeout_at;

use super::answer;
use super::failure::{Failure, words};
use super::guard::{self, Breaker, Cap, Guard};
use crate::settings::Secret;

/// Of an error's body this much is read: what it says stands at the beginning.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Headers of an answer.
const HEADERS_MAX: usize = 200;

/// A model and how it may be asked.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// Up to what stands before `/chat/completions`.
    pub(crate) base_url: String,
    pub(crate) name: String,
    /// Empty for none.
    pub(crate) key: Secret,
    /// Empty for none.
    pub(crate) reasoning_effort: String,
    /// What the service calls the bound of an answer; empty to send none.
    pub(crate) limit_parameter: String,
    /// What is added to that bound.
    pub(crate) headroom_tokens: u64,
    pub(crate) bounds: Bounds,
    pub(crate) cap: Cap,
    pub(crate) breaker_failures: u32,
    pub(crate) breaker_cooldown: Duration,
}

/// How far one request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// All of it, repetitions and pauses included; less when the prompt says less.
    pub(crate) time: Duration,
    /// Until there is a connection, for each try.
    pub(crate) connect_time: Duration,
    /// Of an answer.
    pub(crate) answer_bytes: usize,
    /// Tries after the first.
    pub(crate) retries: u32,
    /// The longest first pause between two tries.
    pub(crate) first_pause: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(60),
            connect_time: Duration::from_secs(5),
            answer_bytes: 1_000_000,
            retries: 2,
            first_pause: Duration::from_secs(1),
        }
    }
}

/// The model as the engine asks it. Shared by any number of threads.
pub(crate) struct HttpSummarizer {
    model: Model,
    client: Client,
    /// The time from which guard and breaker count.
    began: Instant,
    admission: Mutex<Admission>,
}

struct Admission {
    guard: Guard,
    breaker: Breaker,
}

impl HttpSummarizer {
    /// Makes a client; nobody is asked yet. `already` is what was spent in the present window, also by others.
    ///
    /// # Errors
    /// [`SummarizerError::Unreachable`] when this machine gives no client: mostly it has no certificates.
    pub(crate) fn new(model: Model, already: Spent) -> Result<Self, SummarizerError> {
        let is_encrypted = model.base_url.starts_with("https:");
        // A second client in one process finds the first one's provider, which is the same.
        drop(rustls::crypto::ring::default_provider().install_default());
        let builder = Client::builder()
            .user_agent(concat!("lcm/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .http1_only()
            .http1_max_headers(HEADERS_MAX)
            .connect_timeout(model.bounds.connect_time)
            // A connection belongs to a runtime, and each request has its own.
            .pool_max_idle_per_host(0);
        // Without encryption the machine's certificates, which take time to read, are not needed.
        let builder = if is_encrypted { builder.https_only(true) } else { builder.tls_certs_only([]) };
        let client = builder.build().map_err(|error| SummarizerError::Unreachable(chain(error)))?;
        let admission = Admission {
            guard: Guard::new(model.cap, Duration::ZERO, already.calls, already.tokens),
            breaker: Breaker::new(model.breaker_failures, model.breaker_cooldown),
        };
        Ok(Self { model, client, began: Instant::now(), admission: Mutex::new(admission) })
    }

    fn admission(&self) -> std::sync::MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, and tells guard and breaker.
    pub(super) fn ask(&self, prompt: &SummaryPrompt) -> Result<String, Failure> {
        self.admission().breaker.admit(self.began.elapsed())?;
        let asked = self.on_a_thread(prompt);
        let mut admission = self.admission();
        match &asked {
            Ok(_) => admission.breaker.succeeded(),
            Err(failure) if failure.counts() => admission.breaker.failed(self.began.elapsed()),
            Err(_) => {}
        }
        asked
    }

    fn on_a_thread(&self, prompt: &SummaryPrompt) -> Result<String, Failure> {
        let not_asked = |error: std::io::Error| Failure::NotAsked(format!("no thread can be started for it: {error}"));
        std::thread::scope(|scope| {
            let work = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(not_asked)?;
                let asked = runtime.block_on(self.tries(prompt));
                // What still waits for the system does so alone.
                runtime.shutdown_background();
                asked
            };
            let thread = std::thread::Builder::new().name("lcm-summary".to_owned()).spawn_scoped(scope, work);
            let thread = thread.map_err(not_asked)?;
            thread.join().unwrap_or_else(|_| Err(Failure::NotAsked("the client of it panicked".to_owned())))
        })
    }

    /// One request and its repetitions.
    async fn tries(&self, prompt: &SummaryPrompt) -> Result<String, Failure> {
        let time = prompt.time_max.min(self.model.bounds.time);
        let until = tokio::time::Instant::now() + time;
        let body = self.body(prompt);
        let cost =
            u64::from(Estimate.count_text(&prompt.instructions)) + u64::from(Estimate.count_text(&prompt.material));
        let mut last = None;
        let mut next = 1;
        loop {
            if let Err(spent) = self.admission().guard.admit(self.began.elapsed(), cost) {
                // Why it failed says more than why it is not tried again.
                return Err(last.unwrap_or(spent));
            }
            let failure = match timeout_at(until, self.once(body.clone())).await {
                Ok(Ok(text)) => {
                    self.admission().guard.add(u64::from(Estimate.count_text(&text)));
                    return Ok(text);
                }
                Ok(Err(failure)) => failure,
                Err(_) => return Err(Failure::TimedOut(time)),
            };
            if !failure.may_pass() || next > self.model.bounds.retries {
                return Err(failure);
            }
            let wanted = match &failure {
                Failure::Status { retry_after, .. } => retry_after.unwrap_or_default(),
                _ => Duration::ZERO,
            };
            let pause = guard::pause(next, self.model.bounds.first_pause, chance()).max(wanted);
            if until.saturating_duration_since(tokio::time::Instant::now()) <= pause {
                return Err(failure);
            }
            tokio::time::sleep(pause).await;
            (last, next) = (Some(failure), next + 1);
        }
    }

    /// One try.
    async fn once(&self, body: Vec<u8>) -> Result<String, Failure> {
        let url = format!("{}/chat/completions", self.model.base_url);
        let mut request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(body);
        if !self.model.key.is_empty() {
            let bearer = format!("Bearer {}", self.model.key.reveal());
            let mut bearer = HeaderValue::from_str(&bearer)
                .map_err(|_| Failure::NotAsked("its key has characters that no header can hold".to_owned()))?;
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        let response = request.send().await.map_err(broken)?;
        let header = |name| response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let status = response.status();
        let content_type = header(CONTENT_TYPE).unwrap_or_default().to_owned();
        let retry_after = header(RETRY_AFTER).map(str::to_owned);
        if !status.is_success() {
            // What can be read of it is enough, and the status alone too.
            let body = read(response, ERROR_BYTES_MAX).await.unwrap_or_default();
            let now_ms = jiff::Timestamp::now().as_millisecond();
            return Err(answer::failure(status.as_u16(), retry_after.as_deref(), &body, now_ms));
        }
        let body = read(response, self.model.bounds.answer_bytes).await?;
        answer::read(&content_type, &body)
    }

    fn body(&self, prompt: &SummaryPrompt) -> Vec<u8> {
        let message = |role: &str, text: &str| Json::object([("role", role.into()), ("content", text.into())]);
        let messages = Json::Array(vec![message("system", &prompt.instructions), message("user", &prompt.material)]);
        let mut entries: Vec<(&str, Json)> =
            vec![("model", self.model.name.as_str().into()), ("messages", messages), ("stream", false.into())];
        if !self.model.limit_parameter.is_empty() {
            let limit = prompt.tokens_max.saturating_add(self.model.headroom_tokens);
            entries.push((&self.model.limit_parameter, limit.into()));
        }
        if !self.model.reasoning_effort.is_empty() {
            entries.push(("reasoning_effort", self.model.reasoning_effort.as_str().into()));
        }
        Json::object(entries).to_text()
    }
}

impl Summarizer for HttpSummarizer {
    fn model(&self) -> &str {
        &self.model.name
    }

    fn summarize(&self, prompt: &SummaryPrompt) -> Result<String, SummarizerError> {
        self.ask(prompt).map_err(|failure| failure.into_error(self.model.key.reveal()))
    }
}

/// Reads a body, of at most so many bytes.
async fn read(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let told = response.content_length().and_then(|length| usize::try_from(length).ok());
    if told.is_some_and(|length| length > bytes_max) {
        return Err(Failure::TooLong(bytes_max));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if body.len() + chunk.len() > bytes_max {
            return Err(Failure::TooLong(bytes_max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// A failure of the client itself.
fn broken(error: reqwest::Error) -> Failure {
    let is_connect = error.is_connect();
    let text = chain(error);
    if is_connect { Failure::NoConnection(text) } else { Failure::Broken(text) }
}

/// What an error and its causes say, without the address.
fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut said = vec![error.to_string()];
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        let text = error.to_string();
        // Many layers repeat what the one below says.
        if !said.iter().any(|said| said.contains(&text)) {
            said.push(text);
        }
        cause = error.source();
    }
    words(&said.join(": "))
}

/// A random number: the standard library seeds each hasher by chance.
fn chance() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests;
