//! How a call is to be carried out: what the settings say, and what the call says over them.

use lcm_core::Json;
use lcm_engine::compress::CompressOptions;
use lcm_engine::hosts::librefang::HookOptions;
use lcm_engine::service::RecallOptions;
use std::time::Duration;

use crate::commands::BY;
use crate::json;
use crate::settings::Settings;
use lcm_engine::wire::frame::{Failure, Params};

/// How a call is to be carried out.
#[derive(Clone, Debug)]
pub(crate) struct CallOptions {
    /// Tokens that the model's window holds.
    pub(crate) window_tokens: u64,
    pub(crate) folding: CompressOptions,
    pub(crate) recall: RecallOptions,
    /// The model that lists go to, when the host says.
    pub(crate) model: Option<String>,
    /// Options that nobody knows.
    pub(crate) unknown: Vec<String>,
}

impl CallOptions {
    /// What `options` of a call say over the settings.
    pub(crate) fn read(params: &mut Params, settings: &Settings) -> Result<Self, Failure> {
        let mut said = params.object("options")?.unwrap_or_else(|| Params::new(Json::Null));
        let window = said.number("window_tokens")?;
        let mut folding = settings.compress_options(window);
        let size = |number| usize::try_from(number).unwrap_or(usize::MAX);
        if let Some(tokens) = said.number("threshold_tokens")? {
            // A threshold of nothing would fold every list, and reach it with none.
            folding.threshold_tokens = tokens.max(1);
        }
        if let Some(count) = said.number("protect_first")? {
            folding.protect_first = size(count);
        }
        if let Some(count) = said.number("protect_last")? {
            folding.protect_last = size(count);
        }
        if let Some(tokens) = said.number("tail_tokens_max")? {
            folding.tail_tokens_max = (tokens > 0).then_some(tokens);
        }
        if let Some(tokens) = said.number("chunk_tokens_max")? {
            folding.chunk_tokens_max = tokens.max(1);
        }
        if let Some(tokens) = said.number("summary_tokens_max")? {
            folding.summary_tokens_max = tokens.max(1);
        }
        if let Some(ms) = said.number("summary_time_max_ms")? {
            folding.summary_time_max = Duration::from_millis(ms);
        }
        if said.has("alternates") {
            folding.alternates = said.flag("alternates")?;
        }
        let recall = RecallOptions {
            tokens_max: match said.number("recall_tokens_max")? {
                Some(tokens) => tokens,
                None => settings.number("select.recall_tokens_max"),
            },
        };
        let model = said.text("model")?;
        let window_tokens = window.unwrap_or_else(|| settings.number("compress.window_tokens"));
        Ok(Self { window_tokens, folding, recall, model, unknown: said.names() })
    }

    /// What the settings say.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            window_tokens: settings.number("compress.window_tokens"),
            folding: settings.compress_options(None),
            recall: RecallOptions { tokens_max: settings.number("select.recall_tokens_max") },
            model: None,
            unknown: Vec::new(),
        }
    }

    /// How hooks are answered by these.
    pub(crate) fn hooks(&self, settings: &Settings) -> HookOptions {
        HookOptions {
            folding: self.folding.clone(),
            recall: self.recall,
            reads_across: settings.flag("tools.across_sessions"),
            by: BY.to_owned(),
        }
    }

    /// The same with another threshold.
    pub(crate) fn with_threshold(&self, tokens: u64) -> Self {
        let folding = CompressOptions { threshold_tokens: tokens.max(1), ..self.folding.clone() };
        Self { folding, ..self.clone() }
    }

    /// What is in force, by the names under which it is set.
    pub(crate) fn in_force(&self) -> Json {
        let folding = self.folding.in_force();
        let ms = u64::try_from(folding.summary_time_max.as_millis()).unwrap_or(u64::MAX);
        Json::object([
            ("window_tokens", self.window_tokens.into()),
            ("threshold_tokens", folding.threshold_tokens.into()),
            ("protect_first", json::number(folding.protect_first)),
            ("protect_last", json::number(folding.protect_last)),
            ("tail_tokens_max", folding.tail_tokens().into()),
            ("chunk_tokens_max", folding.chunk_tokens_max.into()),
            ("summary_tokens_max", folding.summary_tokens_max.into()),
            ("summary_time_max_ms", ms.into()),
            ("alternates", folding.alternates.into()),
            ("recall_tokens_max", self.recall.tokens_max.into()),
        ])
    }

    /// One sentence for each option that nobody knows.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.unknown.iter().map(|name| format!("there is no option {name}")).collect()
    }
}
