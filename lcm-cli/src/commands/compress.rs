//! `lcm-cli compress`: a shorter list in place of a session's, or of a file's.

use std::io::Read;
use std::path::Path;

use lcm_core::{Json, Owner};
use lcm_engine::compress::CompressOptions;
use lcm_engine::hosts::Format;
use lcm_engine::service::{
    AssembleRequest, CompressRequest, Compressed, InMessage, IngestRequest, Scope, Service, SessionKey, Shown,
    TurnRequest, ViewRequest,
};
use lcm_engine::{DEFAULT_AGENT, DEFAULT_PERSON, Engine};

use super::{BY, Make, ScopeArgs, one_session};
use crate::error::{CliError, Outcome};
use crate::folding::FoldArgs;
use crate::import::{self, Source};
use crate::json;
use crate::settings::Layers;
use crate::ui::{self, Ui};

/// Give a shorter list in place of what a session shows, or of a file
///
/// Prints the list as a host would send it to a model, one message a line: old runs are folded into summaries, everything
/// else is as it was. It becomes what the session shows; `unfold` and `undo` are the ways back. A file is taken in first,
/// as `import` does. Exits 4 when the list is too long and cannot be made shorter.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  lcm-cli compress '#3' --window 32000\n  lcm-cli compress chat.json --threshold 8000 --focus 'the login bug'\n  \
                        lcm-cli compress '#3' --window 16000 --dry-run"
)]
pub(crate) struct CompressArgs {
    /// Session (`#3`, name), or a file that `import` reads; - for standard input
    #[arg(value_name = "SESSION|FILE")]
    target: String,
    #[command(flatten)]
    fold: FoldArgs,
    /// Take the file as this format
    #[arg(long = "as", value_name = "FORMAT", value_parser = super::import::format)]
    as_format: Option<Format>,
    /// What the summaries should keep above all
    #[arg(long, value_name = "TEXT")]
    focus: Option<String>,
    /// Fold whatever there is to win, also below the threshold
    #[arg(long, short)]
    force: bool,
    /// Tell what would come of it, from the originals, and keep nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// A list to be made shorter, and whose it is.
struct List {
    key: SessionKey,
    source: String,
    messages: Vec<Vec<u8>>,
}

pub(crate) fn run(
    args: &CompressArgs,
    layers: &Layers<'_>,
    stdin: Box<dyn Read + Send>,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    let settings = layers.settings(&args.fold.settings, ui)?;
    let folding = args.fold.folding(&settings)?;
    let summarizer = folding.summarizer(&settings, layers.home, ui)?;
    let options = folding.options;
    let open = |home: &Path, make| super::open_to_take_in(home, make, settings.redactor()?);
    let path = Path::new(&args.target);
    let is_file = args.target == "-" || (path.exists() && !args.target.starts_with('#'));
    // What is only tried is tried in a store that is thrown away.
    let scratch = args.dry_run.then(super::scratch).transpose()?;
    let tried = scratch.as_ref().map(|folder| open(folder.path(), Make::Yes)).transpose()?;
    let (kept, list);
    if is_file {
        let source = Source::new(path, &mut Some(stdin))?;
        match &tried {
            Some(engine) => list = from_file(source, args, engine, ui)?,
            None => {
                kept = open(layers.home, Make::Yes)?;
                list = from_file(source, args, &kept, ui)?;
                return finish(args, &kept, list, options, summarizer.as_deref(), ui);
            }
        }
    } else {
        kept = open(layers.home, Make::No)?;
        let session = one_session(&kept, &args.scope.scope(), &args.target)?;
        let scope = args.scope.scope().in_sessions(vec![session.id]);
        let shown = kept.assemble(&AssembleRequest { scope: scope.clone(), session: session.id, as_of: None })?;
        let key = SessionKey { owner: session.owner, name: session.name };
        if tried.is_none() {
            let list = List { key, source: session.source, messages: shown.messages };
            return finish(args, &kept, list, options, summarizer.as_deref(), ui);
        }
        list = List { key, source: session.source, messages: kept.behind(&scope, &InMessage::list(shown.messages))? };
    }
    match &tried {
        Some(engine) => finish(args, engine, list, options, summarizer.as_deref(), ui),
        None => Ok(Outcome::Nothing),
    }
}

/// Takes in the one session of a file.
fn from_file(mut source: Source, args: &CompressArgs, engine: &Engine, ui: &mut Ui) -> Result<List, CliError> {
    let shown = source.shown();
    let lists = import::sessions_in(&mut source, args.as_format, ui)?.lists;
    let name = |at: usize| lists.get(at).map(|list| (&list.agent, &list.person, &list.name));
    if (1..lists.len()).any(|at| name(at) != name(0)) {
        let what = format!("{shown} holds more than one session");
        return Err(CliError::usage(what, "`lcm-cli import` takes all of them in; then compress one by its name"));
    }
    let defaults = Owner {
        agent: args.scope.agent.clone().unwrap_or_else(|| DEFAULT_AGENT.to_owned()),
        person: args.scope.person.clone().unwrap_or_else(|| DEFAULT_PERSON.to_owned()),
    };
    let mut last = None;
    for incoming in lists {
        let (defaults, by) = (defaults.clone(), BY.to_owned());
        let source = incoming.source.clone();
        let done = engine.ingest(IngestRequest { incoming, defaults, by, now_ms: ui.now_ms() })?;
        last = done.session.map(|session| (session, done.key, source));
    }
    let Some((session, key, source)) = last else {
        return Err(CliError::usage(format!("{shown} holds no message"), "name a file with messages in it"));
    };
    let scope = Scope::everything().in_sessions(vec![session]);
    let messages = engine.assemble(&AssembleRequest { scope, session, as_of: None })?.messages;
    Ok(List { key, source, messages })
}

fn finish(
    args: &CompressArgs,
    engine: &Engine,
    list: List,
    options: CompressOptions,
    summarizer: Option<&dyn lcm_engine::compress::summary::Summarizer>,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    let threshold = options.threshold_tokens;
    let turn = TurnRequest {
        key: list.key,
        source: list.source,
        dialect: None,
        messages: InMessage::list(list.messages),
        by: BY.to_owned(),
        now_ms: ui.now_ms(),
    };
    let (force, focus) = (args.force, args.focus.clone());
    let request = CompressRequest { force, focus, summarizer, ..CompressRequest::new(turn, options) };
    let done = engine.compress(&request)?;
    let shown = done.list(&request.turn.messages);
    // Whoever asked goes on with it, so it is what the session shows from now on.
    let turned = engine.turn(&TurnRequest { messages: InMessage::list(shown.iter().cloned()), ..request.turn })?;
    let folds = folds(engine, turned.session.or(done.turned.session), &done)?;
    if ui.is_json() {
        ui.json(&as_json(args, &done, &folds, &shown))?;
    } else {
        if !args.dry_run {
            for message in &shown {
                ui.bytes(message)?;
                ui.bytes(b"\n")?;
            }
        }
        tell(args, &done, &folds, ui)?;
    }
    Ok(if done.reason.is_some() && done.tokens_after > threshold { Outcome::Partly } else { Outcome::Done })
}

/// A fold that is shown.
struct Fold {
    handle: String,
    messages: u64,
    source_tokens: u64,
    tokens: u64,
}

fn folds(
    service: &dyn Service,
    session: Option<lcm_core::SessionId>,
    done: &Compressed,
) -> Result<Vec<Fold>, CliError> {
    let Some(session) = session.filter(|_| !done.folds.is_empty()) else { return Ok(Vec::new()) };
    let scope = Scope::everything().in_sessions(vec![session]);
    let request = ViewRequest { scope, session, as_of: None, skip: 0, max: usize::MAX, bytes_max: usize::MAX };
    let fold = |shown| match shown {
        Shown::Fold { entry, messages, source_tokens, .. } => {
            Some(Fold { handle: entry.handle.to_string(), messages, source_tokens, tokens: u64::from(entry.tokens) })
        }
        Shown::Message { .. } => None,
    };
    Ok(service.view(&request)?.items.into_iter().filter_map(fold).collect())
}

fn as_json(args: &CompressArgs, done: &Compressed, folds: &[Fold], shown: &[Vec<u8>]) -> Json {
    let texts = |all: &[String]| Json::Array(all.iter().map(|text| json::text(text)).collect());
    let fold = |fold: &Fold| {
        Json::object([
            ("handle", json::text(&fold.handle)),
            ("messages", fold.messages.into()),
            ("source_tokens", fold.source_tokens.into()),
            ("tokens", fold.tokens.into()),
        ])
    };
    let mut entries = vec![
        ("dry_run", args.dry_run.into()),
        ("session", json::text(&done.turned.key.name)),
        ("tokens_before", done.tokens_before.into()),
        ("tokens_after", done.tokens_after.into()),
        ("folds", Json::Array(folds.iter().map(fold).collect())),
        ("model_calls", done.model_calls.into()),
        ("model_tokens", done.model_tokens.into()),
        ("failures", texts(&done.failures)),
    ];
    if let Some(reason) = &done.reason {
        entries.push(("reason", json::text(reason)));
    }
    if !args.dry_run {
        let messages = shown.iter().map(|message| Json::parse(message).unwrap_or(Json::Null));
        entries.push(("messages", Json::Array(messages.collect())));
    }
    Json::object(entries)
}

fn tell(args: &CompressArgs, done: &Compressed, folds: &[Fold], ui: &mut Ui) -> Result<(), CliError> {
    for failure in &done.failures {
        ui.note(format_args!("a model was not taken at its word: {failure}"));
    }
    if done.model_calls > 0 {
        let (calls, tokens) = (ui::counted(done.model_calls, "call"), ui::counted(done.model_tokens, "token"));
        ui.note(format_args!("summaries cost {calls} to the model, {tokens} by our estimate"));
    }
    let count = u64::try_from(folds.len()).unwrap_or(u64::MAX);
    let outcome = match &done.reason {
        Some(reason) => format!("the list is as it was: {reason}"),
        None => format!(
            "{} became {}, with {}",
            ui::counted(done.tokens_before, "token"),
            ui::thousands(done.tokens_after),
            ui::counted(count, "fold")
        ),
    };
    if !args.dry_run {
        ui.note(outcome);
        return Ok(());
    }
    let mut line = ui.text();
    line.plain(outcome);
    ui.show(&line)?;
    for fold in folds {
        let mut line = ui.text();
        line.plain(format_args!(
            "  {} of {} would become {}",
            ui::counted(fold.messages, "message"),
            ui::counted(fold.source_tokens, "token"),
            ui::counted(fold.tokens, "token"),
        ));
        ui.show(&line)?;
    }
    Ok(())
}
