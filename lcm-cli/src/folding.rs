//! What commands share that fold: the window and its threshold, and who writes the summaries. What is set holds, and the
//! command's own options hold over it.

use std::path::Path;

use lcm_engine::compress::CompressOptions;
use lcm_engine::compress::summary::Summarizer;
use lcm_engine::error::{EngineError, StoreError};
use lcm_engine::service::{Scope, Service, Spent};

use crate::commands::{self, Make};
use crate::error::CliError;
use crate::settings::{SettingArgs, Settings};
use crate::summarize::{HttpSummarizer, Model};
use crate::ui::Ui;

/// How a list is folded.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct FoldArgs {
    /// Tokens that the model's window holds; 128,000 unless set
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    window: Option<u64>,
    /// Fold above this many tokens, and bring the list under it; three quarters of the window unless set
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    threshold: Option<u64>,
    /// Who writes summaries: none needs no model, http asks the one in the settings
    #[arg(long, value_name = "WHO", default_value = "none")]
    summarizer: SummarizerArg,
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
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

/// What settings and options come to.
#[derive(Debug)]
pub(crate) struct Folding {
    /// Tokens that the window holds.
    pub(crate) window: u64,
    pub(crate) options: CompressOptions,
    /// Who writes summaries; `None` for the summariser that needs no model.
    model: Option<Model>,
}

impl FoldArgs {
    /// What these options and the settings come to.
    pub(crate) fn folding(&self, settings: &Settings) -> Result<Folding, CliError> {
        let window = self.window.unwrap_or_else(|| settings.number("compress.window_tokens"));
        let mut options = settings.compress_options(Some(window));
        options.threshold_tokens = self.threshold.unwrap_or(options.threshold_tokens);
        let threshold = options.threshold_tokens;
        if threshold > window {
            let what = format!("a threshold of {threshold} tokens is larger than the window of {window}");
            return Err(CliError::usage(what, "name the window with --window, or a smaller --threshold"));
        }
        let model = match self.summarizer {
            SummarizerArg::None => None,
            SummarizerArg::Http => Some(settings.model()?.ok_or_else(|| {
                let what = "--summarizer http asks a model, and summary.base_url names none";
                CliError::usage(what, "set summary.base_url and summary.model; --summarizer none needs no model")
            })?),
        };
        Ok(Folding { window, options, model })
    }
}

impl Folding {
    /// The model that writes summaries (see [`client`]).
    pub(crate) fn summarizer(
        &self,
        settings: &Settings,
        home: &Path,
        ui: &mut Ui,
    ) -> Result<Option<Box<dyn Summarizer>>, CliError> {
        let Some(model) = &self.model else { return Ok(None) };
        Ok(Some(Box::new(client(model.clone(), settings, home, ui)?)))
    }
}

/// A model's client, which may spend what is left of the cap: `home` holds what was spent already, by whatever process.
pub(crate) fn client(model: Model, settings: &Settings, home: &Path, ui: &mut Ui) -> Result<HttpSummarizer, CliError> {
    for caution in settings.cautions() {
        ui.note(caution);
    }
    let since = settings.spending().since_ms(ui.now_ms());
    let spent = match commands::open(home, Make::No) {
        Ok(engine) => engine.spent(&Scope::everything(), Some(since))?,
        Err(CliError::Engine(EngineError::Store(StoreError::Absent(_)))) => Spent::default(),
        Err(error) => return Err(error),
    };
    HttpSummarizer::new(model, spent).map_err(CliError::Model)
}

/// The client of the model that the settings name, for a process that serves; `None` where they name none.
pub(crate) fn model_of(
    settings: &Settings,
    service: &dyn Service,
    now_ms: i64,
) -> Result<Option<HttpSummarizer>, CliError> {
    let Some(model) = settings.model()? else { return Ok(None) };
    let spent = service.spent(&Scope::everything(), Some(settings.spending().since_ms(now_ms)))?;
    HttpSummarizer::new(model, spent).map(Some).map_err(CliError::Model)
}
