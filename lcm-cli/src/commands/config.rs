//! `lcm-cli config`: the settings, where each comes from, and whether the model they name answers.

use std::time::{Duration, Instant};

use lcm_core::Json;
use lcm_engine::compress::summary::{Summarizer, SummaryPrompt};
use lcm_engine::service::Spent;

use crate::error::{CliError, Outcome};
use crate::json;
use crate::settings::{Layers, Set, SettingArgs};
use crate::summarize::HttpSummarizer;
use crate::ui::{self, Ui};

/// Show the settings, or try the model they name
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  lcm-cli config show\n  lcm-cli config show --window 200000\n  lcm-cli config try")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    Show(ShowArgs),
    Try(TryArgs),
}

/// List each setting, its value and where that comes from
///
/// Later wins: built-in default, `config.toml` in the data directory, environment, command line. Keys are never shown.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  lcm-cli config show --set compress.threshold_ratio=0.5")]
struct ShowArgs {
    /// Tell also what the settings make of a window of this many tokens
    #[arg(long, value_name = "TOKENS")]
    window: Option<u64>,
    #[command(flatten)]
    settings: SettingArgs,
}

/// Ask the summary model for one word
///
/// Sends it nothing of what is kept. Exits 1 when no model is set.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  lcm-cli config try")]
struct TryArgs {
    #[command(flatten)]
    settings: SettingArgs,
}

pub(crate) fn run(args: &ConfigArgs, layers: &Layers<'_>, ui: &mut Ui) -> Result<Outcome, CliError> {
    match &args.what {
        What::Show(args) => show(args, layers, ui),
        What::Try(args) => try_model(args, layers, ui),
    }
}

fn show(args: &ShowArgs, layers: &Layers<'_>, ui: &mut Ui) -> Result<Outcome, CliError> {
    let found = layers.find(&args.settings);
    for set in found.settings.all() {
        if ui.is_json() {
            ui.json(&as_json(set))?;
            continue;
        }
        let Set { setting, value, origin } = set;
        let mut line = ui.text();
        line.styled(ui::BOLD, format_args!("{:<28}", setting.name)).plain("  ");
        let shown = format!("{value} {}", setting.unit);
        let shown = if value.to_string().is_empty() { "not set" } else { shown.trim_end() };
        line.said(&format!("{shown:<24}")).plain("  ").styled(ui::DIM, ui::clean_line(&origin.to_string()));
        ui.show(&line)?;
    }
    if let Some(window) = args.window {
        let options = found.settings.compress_options(Some(window));
        if ui.is_json() {
            ui.json(&Json::object([
                ("window_tokens", window.into()),
                ("threshold_tokens", options.threshold_tokens.into()),
                ("tail_tokens_max", options.tail_tokens_max.map_or(Json::Null, Json::from)),
            ]))?;
        } else {
            let mut line = ui.text();
            let (window, threshold) = (ui::thousands(window), ui::thousands(options.threshold_tokens));
            line.plain(format_args!("in a window of {window} tokens, a list of more than {threshold} is folded"));
            ui.show(&line)?;
        }
    }
    for note in found.notes() {
        ui.note(note);
    }
    if found.problems.is_empty() { Ok(Outcome::Done) } else { Err(CliError::Settings(found.problems)) }
}

fn as_json(set: &Set) -> Json {
    let Set { setting, value, origin } = set;
    Json::object([
        ("name", setting.name.into()),
        ("value", value.to_json()),
        ("origin", json::text(&origin.to_string())),
        ("unit", setting.unit.into()),
        ("default", setting.default.into()),
        ("variables", Json::Array(setting.variables().into_iter().map(Json::from).collect())),
        ("doc", setting.doc.into()),
    ])
}

fn try_model(args: &TryArgs, layers: &Layers<'_>, ui: &mut Ui) -> Result<Outcome, CliError> {
    let settings = layers.settings(&args.settings, ui)?;
    let Some(model) = settings.model()? else {
        return Err(CliError::NotFound {
            what: "no summary model is set: summaries are written without one".to_owned(),
            hint: "set summary.base_url and summary.model to have one; docs/settings.md tells how",
        });
    };
    for caution in settings.cautions() {
        ui.note(caution);
    }
    let time_max = model.bounds.time;
    let client = HttpSummarizer::new(model, Spent::default()).map_err(CliError::Model)?;
    let prompt = SummaryPrompt {
        instructions: "Answer with the one word ready, and nothing else.".to_owned(),
        material: "Are you ready?".to_owned(),
        tokens_max: 16,
        time_max,
    };
    let begun = Instant::now();
    let answer = client.summarize(&prompt).map_err(CliError::Model)?;
    let took = begun.elapsed();
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    if ui.is_json() {
        ui.json(&Json::object([
            ("model", client.model().into()),
            ("answer", json::text(&answer)),
            ("took_ms", took_ms.into()),
        ]))?;
    } else {
        let mut line = ui.text();
        line.named(client.model()).plain(format_args!(" answered in {}: ", seconds(took)));
        line.plain(ui::clean_line(&ui::shorten(answer.trim(), 60)));
        ui.show(&line)?;
    }
    Ok(Outcome::Done)
}

/// Seconds with two decimals.
fn seconds(time: Duration) -> String {
    format!("{}.{:02} s", time.as_secs(), time.subsec_millis() / 10)
}
