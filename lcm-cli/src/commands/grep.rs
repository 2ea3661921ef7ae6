//! `lcm-cli grep`: find messages by their text, folded or not.

use std::collections::BTreeMap;
use std::ops::Range;

use lcm_core::{Json, Role, SessionId};
use lcm_engine::service::{
    Cursor, Entry, Filter, Grep, GrepPage, GrepRequest, Kinds, LetterCase, Line, LineHit, LineOptions, Order, Pattern,
    Scope, SearchMode, SearchRequest, Service, Session, WordHit, Words,
};

use super::{ScopeArgs, at_least_one};
use crate::error::{CliError, Outcome};
use crate::json;
use crate::moment;
use crate::ui::{self, Text, Ui};

/// Search everything that was ever said
///
/// Exact, as grep is: a regular expression, matched against what was said, called and returned; newest first, all
/// there is. Letter case counts when the pattern has an upper-case letter. --words and --ranked look for words instead.
/// Exits 1 when nothing matches.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  lcm-cli grep 'exit code [1-9]'\n  lcm-cli grep -F 'a.b(c)' --session '#3' -C 2\n  \
                        lcm-cli grep --ranked 'why did the deploy fail' -m 5\n  lcm-cli grep -c TODO --since '2 days ago'"
)]
pub(crate) struct GrepArgs {
    /// What to look for; -- before one that begins with a dash
    pattern: String,
    /// Take the pattern as it stands
    #[arg(long, short = 'F')]
    fixed: bool,
    /// Letter case never counts
    #[arg(long, short, conflicts_with = "case_sensitive")]
    ignore_case: bool,
    /// Letter case always counts
    #[arg(long, short = 's')]
    case_sensitive: bool,
    /// Find whole words only
    #[arg(long, short)]
    word: bool,
    /// Show this many lines around each matching one
    #[arg(long, short = 'C', value_name = "LINES", default_value_t = 0, hide_default_value = true)]
    context: usize,
    /// Show at most this many messages
    #[arg(long, short = 'm', value_name = "COUNT", value_parser = at_least_one)]
    limit: Option<usize>,
    /// Show at most this many matching lines of a message
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    lines: usize,
    /// Cut lines longer than this around the match; 0 for whole lines
    #[arg(long, value_name = "CHARS", default_value_t = 300)]
    chars: usize,
    /// Oldest first
    #[arg(long)]
    oldest: bool,
    /// Look in this session only; can be repeated
    #[arg(long = "session", value_name = "SESSION")]
    sessions: Vec<String>,
    /// Look at messages of this role only; can be repeated
    #[arg(long = "role", value_name = "ROLE", value_parser = role)]
    roles: Vec<Role>,
    /// Look at messages or summaries only
    #[arg(long, value_name = "KIND", default_value = "all")]
    kind: KindArg,
    /// Said at this time or later: a date, a time, `2 days ago`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Said before this time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Print only how many messages match
    #[arg(long, short, conflicts_with_all = ["list_sessions", "words", "ranked", "limit"])]
    count: bool,
    /// Print only the sessions with matching messages, and how many
    #[arg(long = "list-sessions", short = 'l', conflicts_with_all = ["words", "ranked", "limit"])]
    list_sessions: bool,
    /// Look for all of these words, in any order
    #[arg(long, conflicts_with_all = ["fixed", "word", "ranked", "ignore_case", "case_sensitive", "oldest"])]
    words: bool,
    /// Look for any of these words, best first
    #[arg(long, conflicts_with_all = ["fixed", "word", "ignore_case", "case_sensitive", "oldest"])]
    ranked: bool,
    /// Go on where an earlier answer ended
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    #[command(flatten)]
    scope: ScopeArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum KindArg {
    All,
    Messages,
    Summaries,
}

/// Hits that are asked for at once: few at first, so that the first is shown at once.
const FIRST_PAGE: usize = 32;
const PAGE: usize = 1024;
/// Hits that are only counted cost little.
const COUNTED_PAGE: usize = 16 << 10;
/// Hits of a search by words, when nobody says how many.
const WORD_HITS: usize = 20;
/// Characters of a snippet in a search by words.
const SNIPPET_CHARS: usize = 200;

fn role(name: &str) -> Result<Role, String> {
    let role = Role::from_name(name.as_bytes());
    if role == Role::Other && name != Role::Other.name() {
        return Err("roles are system, developer, user, assistant, tool and other".to_owned());
    }
    Ok(role)
}

pub(crate) fn run(args: &GrepArgs, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let scope = args.scope.in_sessions(&args.sessions, service)?;
    let filter = filter(args, ui)?;
    let after =
        match &args.cursor {
            None => None,
            Some(text) => {
                let cursor = text.parse::<Cursor>();
                Some(cursor.map_err(|error| {
                    CliError::usage(format!("{text:?}: {error}"), "leave out --cursor to begin anew")
                })?)
            }
        };
    if args.words || args.ranked {
        return words(args, scope, filter, after, service, ui);
    }
    let pattern = args.pattern.clone();
    let grep = Grep {
        case: match (args.ignore_case, args.case_sensitive) {
            (true, _) => LetterCase::Insensitive,
            (_, true) => LetterCase::Sensitive,
            _ => LetterCase::Smart,
        },
        order: if args.oldest { Order::Oldest } else { Order::Newest },
        after,
        filter,
        snippet_chars: if args.count || args.list_sessions { 0 } else { SNIPPET_CHARS },
        ..Grep::new(if args.fixed { Pattern::Literal(pattern) } else { Pattern::Regex(pattern) })
    };
    let mut request = GrepRequest { scope, grep, whole_words: args.word, lines: None };
    if args.count || args.list_sessions {
        return count(args, request, service, ui);
    }
    request.lines = Some(LineOptions { context: args.context, chars_max: args.chars, matches_max: args.lines });
    exact(args, request, service, ui)
}

fn filter(args: &GrepArgs, ui: &Ui) -> Result<Filter, CliError> {
    let time = |text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => moment::parse(text, ui.now_ms(), ui.zone()).map(Some).map_err(|what| {
            CliError::usage(
                what,
                "write it like 2026-03-04, 2026-03-04 08:00, 2026-03-04T08:00:00Z, yesterday or 2 days ago",
            )
        }),
    };
    Ok(Filter {
        kinds: match args.kind {
            KindArg::All => Kinds::All,
            KindArg::Messages => Kinds::Messages,
            KindArg::Summaries => Kinds::Summaries,
        },
        roles: args.roles.clone(),
        since_ms: time(&args.since)?,
        before_ms: time(&args.until)?,
        without_sessions: Vec::new(),
    })
}

/// Exact search, page by page.
fn exact(args: &GrepArgs, mut request: GrepRequest, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    let (mut left, mut shown, mut damaged) = (args.limit.unwrap_or(usize::MAX), 0, 0);
    let mut next = None;
    let mut page_size = FIRST_PAGE;
    while left > 0 {
        request.grep.hits_max = left.min(page_size);
        page_size = PAGE;
        let page = service.grep(&request)?;
        if shown == 0 && !page.hits.is_empty() {
            ui.page();
        }
        for hit in &page.hits {
            show_hit(hit, &page.sessions, shown > 0, args, ui)?;
            shown += 1;
        }
        // What was found is shown while the rest is looked for.
        ui.flush()?;
        damaged += page.damaged;
        left = left.saturating_sub(page.hits.len());
        let is_stuck = page.hits.is_empty();
        next = page.next;
        request.grep.after = next;
        if next.is_none() || is_stuck {
            break;
        }
    }
    tell(next, damaged, ui);
    Ok(if shown == 0 { Outcome::Nothing } else { Outcome::Done })
}

/// Says that there is more, and what could not be read.
fn tell(next: Option<Cursor>, damaged: u64, ui: &mut Ui) {
    if let Some(next) = next {
        ui.note(format_args!("there may be more: go on with --cursor {next}"));
    }
    if damaged > 0 {
        ui.note(format_args!("{} could not be read; `lcm-cli check` tells more", ui::counted(damaged, "message")));
    }
}

/// Counts hits, of each session.
fn count(args: &GrepArgs, mut request: GrepRequest, service: &dyn Service, ui: &mut Ui) -> Result<Outcome, CliError> {
    request.grep.hits_max = COUNTED_PAGE;
    let mut counts: BTreeMap<SessionId, (Session, u64)> = BTreeMap::new();
    let (mut all, mut damaged) = (0_u64, 0);
    loop {
        let GrepPage { hits, sessions, next, damaged: bad, .. } = service.grep(&request)?;
        damaged += bad;
        for hit in &hits {
            all += 1;
            if let Some(session) = sessions.get(&hit.entry.session) {
                counts.entry(session.id).or_insert_with(|| (session.clone(), 0)).1 += 1;
            }
        }
        request.grep.after = next;
        if next.is_none() || hits.is_empty() {
            break;
        }
    }
    if args.list_sessions {
        for (session, count) in counts.values() {
            if ui.is_json() {
                let mut entries = json::session(session);
                entries.push(("matches", (*count).into()));
                ui.json(&Json::object(entries))?;
            } else {
                let mut line = ui.text();
                line.styled(ui::HANDLE, format_args!("#{}", session.id)).plain("  ");
                line.named(&session.name).plain(format_args!("  {}", ui::thousands(*count)));
                ui.show(&line)?;
            }
        }
    } else if ui.is_json() {
        ui.json(&Json::object([("matches", all.into())]))?;
    } else {
        let mut line = ui.text();
        line.plain(all);
        ui.show(&line)?;
    }
    tell(None, damaged, ui);
    Ok(if all == 0 { Outcome::Nothing } else { Outcome::Done })
}

/// Search by words.
fn words(
    args: &GrepArgs,
    scope: Scope,
    filter: Filter,
    after: Option<Cursor>,
    service: &dyn Service,
    ui: &mut Ui,
) -> Result<Outcome, CliError> {
    // Quotes hold words together and are none; nothing would be found, whatever was said.
    if args.pattern.chars().all(|c| c.is_whitespace() || c == '"') {
        return Err(CliError::usage("there is no word to look for", "name one or more"));
    }
    let words = Words {
        hits_max: args.limit.unwrap_or(WORD_HITS),
        after,
        filter,
        snippet_chars: if args.chars == 0 { SNIPPET_CHARS } else { args.chars.min(SNIPPET_CHARS) },
        ..Words::new(args.pattern.clone())
    };
    let mode = if args.ranked { SearchMode::Ranked } else { SearchMode::Words };
    let page = service.search(&SearchRequest { scope, words, mode })?;
    if !page.hits.is_empty() {
        ui.page();
    }
    for hit in &page.hits {
        if ui.is_json() {
            ui.json(&word_hit_json(hit, &page.sessions))?;
            continue;
        }
        let mut line = ui.text();
        place(&mut line, &hit.entry, &page.sessions, ui);
        if let Some(score) = hit.score {
            line.styled(ui::DIM, format_args!("  score {}.{:03}", score / 1000, score % 1000));
        }
        if hit.ranked && !args.ranked {
            line.styled(ui::DIM, "  some of the words");
        }
        ui.show(&line)?;
        show_snippet(&hit.snippet, &hit.matches, ui)?;
    }
    tell(page.next, page.damaged, ui);
    Ok(if page.hits.is_empty() { Outcome::Nothing } else { Outcome::Done })
}

fn word_hit_json(hit: &WordHit, sessions: &BTreeMap<SessionId, Session>) -> Json {
    let mut entries = json::entry(&hit.entry);
    if let Some(session) = sessions.get(&hit.entry.session) {
        entries.push(("session_name", json::text(&session.name)));
    }
    entries.extend([("snippet", json::text(&hit.snippet)), ("matches", json::ranges(&hit.matches))]);
    if let Some(score) = hit.score {
        entries.push(("score", score.into()));
    }
    entries.push(("ranked", hit.ranked.into()));
    Json::object(entries)
}

/// Shows a snippet, indented; its line ends stay.
fn show_snippet(snippet: &str, matches: &[Range<usize>], ui: &mut Ui) -> Result<(), CliError> {
    let mut begin = 0;
    for piece in snippet.split_inclusive('\n') {
        let said = piece.trim_end_matches(['\n', '\r']);
        let end = begin + said.len();
        let inside = matches.iter().filter(|range| range.start < end && range.end > begin);
        let matches: Vec<_> = inside.map(|range| range.start.max(begin) - begin..range.end.min(end) - begin).collect();
        if !said.trim().is_empty() {
            let mut line = ui.text();
            line.plain("    ").said_with_matches(said, &matches);
            ui.show(&line)?;
        }
        begin += piece.len();
    }
    Ok(())
}

fn show_hit(
    hit: &LineHit,
    sessions: &BTreeMap<SessionId, Session>,
    is_behind_another: bool,
    args: &GrepArgs,
    ui: &mut Ui,
) -> Result<(), CliError> {
    if ui.is_json() {
        let mut entries = json::entry(&hit.entry);
        if let Some(session) = sessions.get(&hit.entry.session) {
            entries.push(("session_name", json::text(&session.name)));
        }
        entries.push(("lines", json::lines(&hit.lines)));
        if hit.lines.is_empty() {
            entries.extend([("snippet", json::text(&hit.snippet)), ("matches", json::ranges(&hit.matches))]);
        }
        if hit.lines_left > 0 {
            entries.push(("lines_left", json::number(hit.lines_left)));
        }
        return ui.json(&Json::object(entries));
    }
    if is_behind_another && args.context > 0 {
        let mut line = ui.text();
        line.styled(ui::DIM, "--");
        ui.show(&line)?;
    }
    let mut line = ui.text();
    place(&mut line, &hit.entry, sessions, ui);
    ui.show(&line)?;
    if hit.lines.is_empty() {
        show_snippet(&hit.snippet, &hit.matches, ui)?;
    }
    let mut before: Option<usize> = None;
    for one in &hit.lines {
        if args.context > 0 && before.is_some_and(|before| before + 1 < one.number) {
            let mut line = ui.text();
            line.styled(ui::DIM, "      --");
            ui.show(&line)?;
        }
        before = Some(one.number);
        let mut line = ui.text();
        matching_line(&mut line, one);
        ui.show(&line)?;
    }
    if hit.lines_left > 0 {
        let mut line = ui.text();
        let left = u64::try_from(hit.lines_left).unwrap_or(u64::MAX);
        line.styled(ui::DIM, format_args!("      {} more", ui::counted(left, "matching line")));
        ui.show(&line)?;
    }
    Ok(())
}

/// A line of a text, as grep shows it: `12:` matches, `12-` stands around.
fn matching_line(text: &mut Text, line: &Line) {
    let sign = if line.matches.is_empty() { '-' } else { ':' };
    text.styled(ui::DIM, format_args!("{:>5}{sign} ", line.number));
    if line.cut.0 {
        text.styled(ui::DIM, "…");
    }
    text.said_with_matches(&line.text, &line.matches);
    if line.cut.1 {
        text.styled(ui::DIM, "…");
    }
}

/// Place, time, role and handle of a hit.
fn place(text: &mut Text, entry: &Entry, sessions: &BTreeMap<SessionId, Session>, ui: &Ui) {
    super::heading(text, entry, ui);
    text.plain("  ").styled(ui::HANDLE, format_args!("#{}", entry.session));
    if let Some(session) = sessions.get(&entry.session) {
        text.plain(" ").named(&session.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_taken_by_their_names() {
        assert_eq!(role("user"), Ok(Role::User));
        assert_eq!(role("function"), Ok(Role::Tool));
        assert_eq!(role("other"), Ok(Role::Other));
        assert!(role("nobody").is_err());
    }
}
