//! Models that write summaries. One over HTTP: any service that speaks OpenAI's chat completions. And the host's own.
//!
//! What it says is untrusted and what it costs is somebody's money, so everything has a bound: time, size, tries, and
//! what may be spent. What it wrote is judged by the engine (`compress::summary`), not here.
//!
//! Modules in reading order: `failure` is why there is no answer, `guard` decides whether it is asked now and how long
//! to wait (pure), `answer` reads what came back (pure), `http` asks. `host` asks the model of the host that called.

mod failure;
mod guard;
mod answer;
mod http;
mod host;

pub(crate) use self::guard::Cap;
pub(crate) use self::host::HostSummarizer;
pub(crate) use self::http::{Bounds, HttpSummarizer, Model};
