//! A model that writes summaries, asked over HTTP: any service that speaks OpenAI's chat completions.
//!
//! What it says is untrusted and what it costs is somebody's money, so everything has a bound: time, size, tries, and
//! what may be spent. What it wrote is judged by the engine (`compress::summary`), not here.
//!
//! Modules in reading order: `failure` is why there is no answer, `guard` decides whether it is asked now and how long
//! to wait (pure), `answer` reads what came back (pure), `http` asks.

mod failure;
mod guard;
mod answer;
mod http;

pub(crate) use self::guard::Cap;
pub(crate) use self::http::{Bounds, HttpSummarizer, Model};
