//! What settings become: the options of the engine, and what the model's client goes by. The only place that knows
//! which setting means what there.

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use lcm_engine::compress::CompressOptions;
use lcm_engine::redact::{BUILT_IN, OwnPattern, Redactor};

use super::{Secret, Settings, Value, file};
use crate::error::CliError;
use crate::summarize::{Bounds, Cap, Model};

/// What models may cost in a window of time, to be shown beside what they did cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spending {
    pub(crate) calls_max: u64,
    /// 0 for no bound.
    pub(crate) tokens_max: u64,
    pub(crate) window: Duration,
}

impl Spending {
    /// When the window began that ends now.
    pub(crate) fn since_ms(&self, now_ms: i64) -> i64 {
        now_ms.saturating_sub(i64::try_from(self.window.as_millis()).unwrap_or(i64::MAX))
    }
}

impl Settings {
    /// How lists are folded in a window of so many tokens; `None` where the host does not say.
    pub(crate) fn compress_options(&self, window_tokens: Option<u64>) -> CompressOptions {
        let window = window_tokens.unwrap_or_else(|| self.number("compress.window_tokens"));
        let by_ratio = u128::from(window) * u128::from(self.number("compress.threshold_ratio")) / 1000;
        let by_ratio = u64::try_from(by_ratio).unwrap_or(u64::MAX);
        let by_tokens = some(self.number("compress.threshold_tokens")).unwrap_or(u64::MAX);
        let by_reserve = window.saturating_sub(self.number("compress.reserve_tokens"));
        CompressOptions {
            // A threshold of nothing would fold every list, and reach it with none.
            threshold_tokens: by_ratio.min(by_tokens).min(by_reserve).max(1),
            protect_first: size(self.number("compress.protect_first")),
            protect_last: size(self.number("compress.protect_last")),
            tail_tokens_max: some(self.number("compress.tail_tokens_max")),
            chunk_tokens_max: self.number("compress.chunk_tokens_max"),
            summary_tokens_max: self.number("compress.summary_tokens_max"),
            summary_time_max: Duration::from_millis(self.number("summary.pass_timeout_ms")),
            alternates: self.flag("compress.alternates"),
        }
    }

    /// What models may cost.
    pub(crate) fn spending(&self) -> Spending {
        Spending {
            calls_max: self.number("summary.spend_calls_max"),
            tokens_max: self.number("summary.spend_tokens_max"),
            window: Duration::from_secs(self.number("summary.spend_window_s")),
        }
    }

    /// The model that writes summaries, its key read; `None` where none is set.
    ///
    /// # Errors
    /// When only half of it is set, or the file of the key cannot be used.
    pub(crate) fn model(&self) -> Result<Option<Model>, CliError> {
        let (base_url, name) = (self.text("summary.base_url"), self.text("summary.model"));
        if base_url.is_empty() {
            return Ok(None);
        }
        if name.is_empty() {
            let what = "summary.base_url says where the model is, but summary.model does not say which";
            return Err(CliError::usage(what, "set both, or none of them"));
        }
        let spending = self.spending();
        let seconds = |name: &str| Duration::from_secs(self.number(name));
        let ms = |name: &str| Duration::from_millis(self.number(name));
        Ok(Some(Model {
            base_url: base_url.to_owned(),
            name: name.to_owned(),
            key: self.key()?,
            reasoning_effort: self.text("summary.reasoning_effort").to_owned(),
            limit_parameter: self.text("summary.limit_parameter").to_owned(),
            headroom_tokens: self.number("summary.headroom_tokens"),
            bounds: Bounds {
                time: ms("summary.timeout_ms"),
                connect_time: ms("summary.connect_timeout_ms"),
                answer_bytes: size(self.number("summary.answer_bytes_max")),
                retries: u32::try_from(self.number("summary.retries")).unwrap_or(u32::MAX),
                ..Bounds::default()
            },
            cap: Cap {
                calls: spending.calls_max,
                tokens: spending.tokens_max,
                window: spending.window,
                backoff: seconds("summary.spend_backoff_s"),
            },
            breaker_failures: u32::try_from(self.number("summary.breaker_failures")).unwrap_or(u32::MAX),
            breaker_cooldown: seconds("summary.breaker_cooldown_s"),
        }))
    }

    /// What takes secrets out of messages before they are kept; `None` where that is not wanted.
    ///
    /// # Errors
    /// When a pattern is not known or cannot be used.
    pub(crate) fn redactor(&self) -> Result<Option<Redactor>, CliError> {
        if !self.flag("redact.enabled") {
            return Ok(None);
        }
        let own = self.list("redact.own").iter().map(|text| match text.split_once('=') {
            Some((name, pattern)) => Ok(OwnPattern { name: name.trim().to_owned(), pattern: pattern.to_owned() }),
            None => {
                let what = format!("redact.own: {} is no name, = and regular expression", super::quoted(text));
                Err(CliError::Settings(vec![what]))
            }
        });
        let own = own.collect::<Result<Vec<_>, _>>()?;
        let named = self.list("redact.patterns");
        let built_in: Vec<&str> = match named {
            [] => BUILT_IN.to_vec(),
            named => named.iter().map(String::as_str).collect(),
        };
        let made = Redactor::new(built_in, &own);
        made.map(Some).map_err(|error| CliError::Settings(vec![format!("redact: {error}")]))
    }

    /// What is legal, and perhaps not meant.
    pub(crate) fn cautions(&self) -> Vec<String> {
        let mut cautions = Vec::new();
        let base_url = self.text("summary.base_url");
        let has_key = *self.value("summary.key") != Value::Secret(Secret::default()) || self.key_file().is_some();
        let url = reqwest::Url::parse(base_url).ok();
        let host = url.as_ref().filter(|url| url.scheme() == "http").and_then(reqwest::Url::host_str);
        if let Some(host) = host.filter(|host| !is_this_machine(host))
            && has_key
        {
            cautions.push(format!("summary.base_url is http://, so the key goes to {host} unencrypted"));
        }
        if let Some(path) = self.key_file()
            && let Ok(metadata) = path.metadata()
            && metadata.permissions().mode() & 0o077 != 0
        {
            cautions.push(format!("others can read the key: chmod 600 {}", path.display()));
        }
        cautions
    }

    /// The file of the key; `None` where none is named.
    fn key_file(&self) -> Option<PathBuf> {
        let named = self.text("summary.key_file");
        // An absolute path stays as it is.
        (!named.is_empty()).then(|| self.home.join(named))
    }

    /// The key, from the environment, else from its file; empty for none.
    fn key(&self) -> Result<Secret, CliError> {
        if let Value::Secret(key) = self.value("summary.key")
            && !key.is_empty()
        {
            return Ok(key.clone());
        }
        let Some(path) = self.key_file() else { return Ok(Secret::default()) };
        let failed = |source| CliError::File { what: "read the key in", path: path.clone(), source };
        let text = file::read(&path).map_err(failed)?;
        let text = text.ok_or_else(|| failed(std::io::ErrorKind::NotFound.into()))?;
        match super::Kind::Secret.read(&text) {
            Ok(Value::Secret(key)) if !key.is_empty() => Ok(key),
            _ => {
                let what = format!("{} does not hold a key and nothing else", path.display());
                Err(CliError::usage(what, "a key is visible ASCII characters in one line"))
            }
        }
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// 0 stands for "not set".
fn some(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
