//! The host's own model, asked over the wire: `host/summarize` goes to the thread that waits inside the call for which
//! the text is needed (`docs/wire.md`).

use std::sync::Arc;

use lcm_core::Json;
use lcm_engine::compress::summary::{Summarizer, SummarizerError, SummaryPrompt};
use lcm_engine::service::Cancel;

use crate::serve::{CallId, Connection, Failure, Unanswered};

/// What a summary keeps as the name of a model whose host has not said it.
const MODEL: &str = "host";

/// The model of the host at the other end of a connection.
pub(crate) struct HostSummarizer {
    connection: Arc<Connection>,
    /// The call whose thread is to ask.
    call: CallId,
    cancel: Cancel,
}

impl HostSummarizer {
    pub(crate) fn new(connection: Arc<Connection>, call: CallId, cancel: Cancel) -> Self {
        Self { connection, call, cancel }
    }
}

impl Summarizer for HostSummarizer {
    fn model(&self) -> &str {
        MODEL
    }

    fn summarize(&self, prompt: &SummaryPrompt) -> Result<String, SummarizerError> {
        let ms = u64::try_from(prompt.time_max.as_millis()).unwrap_or(u64::MAX);
        let params = Json::object([
            ("call", self.call.as_json().clone()),
            ("instructions", prompt.instructions.as_str().into()),
            ("material", prompt.material.as_str().into()),
            ("tokens_max", prompt.tokens_max.into()),
            ("time_max_ms", ms.into()),
        ]);
        let told = self.connection.ask("host/summarize", params, prompt.time_max, &self.cancel);
        let answer = told.map_err(|why| match why {
            Unanswered::TimedOut => SummarizerError::TimedOut(prompt.time_max),
            Unanswered::Cancelled => SummarizerError::Unreachable("the call was given up".to_owned()),
            Unanswered::Gone => SummarizerError::Unreachable("the host is gone".to_owned()),
            Unanswered::Failed(failure) if failure.code == Failure::NO_MODEL => {
                SummarizerError::Unreachable("the host has none for this call".to_owned())
            }
            Unanswered::Failed(failure) => SummarizerError::Refused(failure.message),
        })?;
        match answer.get("text").and_then(Json::as_str) {
            Some(text) => Ok(text.to_owned()),
            None => Err(SummarizerError::Unusable("it has no text".to_owned())),
        }
    }
}
