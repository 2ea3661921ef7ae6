//! What commands share that fold: the window and its threshold, and who writes the summaries.

use lcm_engine::compress::CompressOptions;
use lcm_engine::compress::summary::Summarizer;

use crate::error::CliError;
use crate::paths::Env;

/// The window where none is named: what most models have at least.
const WINDOW_TOKENS: u64 = 128_000;

/// How a list is folded.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct FoldArgs {
    /// Tokens that the model's window holds
    #[arg(long, value_name = "TOKENS", default_value_t = WINDOW_TOKENS, value_parser = tokens)]
    pub(crate) window: u64,
    /// Fold above this many tokens, and bring the list under it; three quarters of the window unless named
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    threshold: Option<u64>,
    /// Who writes summaries: none needs no model, http asks the one in the settings
    #[arg(long, value_name = "WHO", default_value = "none")]
    summarizer: SummarizerArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SummarizerArg {
    None,
    Http,
}

/// Reads a number of tokens, of which none is no window.
fn tokens(text: &str) -> Result<u64, String> {
    match text.replace(['_', ','], "").parse() {
        Ok(0) => Err("at least 1".to_owned()),
        Ok(count) => Ok(count),
        Err(_) => Err("not a number of tokens".to_owned()),
    }
}

impl FoldArgs {
    /// Above how many tokens a list is folded.
    pub(crate) fn threshold(&self) -> u64 {
        self.threshold.unwrap_or(self.window / 4 * 3 + self.window % 4 * 3 / 4).max(1)
    }

    pub(crate) fn options(&self) -> Result<CompressOptions, CliError> {
        if self.threshold() > self.window {
            let what =
                format!("a threshold of {} tokens is larger than the window of {}", self.threshold(), self.window);
            return Err(CliError::usage(what, "name the window with --window, or a smaller --threshold"));
        }
        Ok(CompressOptions { threshold_tokens: self.threshold(), ..CompressOptions::default() })
    }

    /// The model that writes summaries; `None` for the summariser that needs none.
    pub(crate) fn summarizer(&self, env: &Env<'_>) -> Result<Option<Box<dyn Summarizer>>, CliError> {
        match self.summarizer {
            SummarizerArg::None => Ok(None),
            SummarizerArg::Http => model(env).map(Some),
        }
    }
}

/// The model that the settings name.
fn model(_env: &Env<'_>) -> Result<Box<dyn Summarizer>, CliError> {
    Err(CliError::usage("no settings name a model that writes summaries", "--summarizer none needs no model"))
}
