//! `lcm_expand_query`: a question about what was said, answered from the originals.
//!
//! Finds or takes nodes, packs their originals into a context and asks the caller's model; without one, or when it fails,
//! the originals themselves are the answer, and it says so. What a model wrote of them is as little to be trusted as they
//! are, so it is quoted like them.

use std::time::Duration;

use lcm_core::tokens::{Estimate, TokenCounter};
use lcm_core::{Role, canon};
use lcm_store::{Branches, Buffer, Filter, Kinds, Placed, Scope, Session, Snapshot, Store, Words};

use super::access::Access;
use super::answer::{Budget, Cost, Object, echo, fitting_bytes, rfc3339, within};
use super::arguments::{Arguments, Kind, Parameter, Tool};
use super::message::{Form, Parts};
use super::{Answered, ToolError, count};
use crate::assemble::is_line_end;
use crate::compress::summary::SummaryPrompt;
use crate::find::{Entries, unreadable};
use crate::search;
use crate::service::{Entry, SearchMode, SearchRequest, ToolBounds, ToolCall};

pub(super) static TOOL: Tool = Tool {
    name: super::ASKS_A_MODEL,
    about: "Answer a question from the originals of past conversation: finds them by query (or node_ids), reads them and answers \
            with handles. output=evidence gives the originals instead.",
    is_default: true,
    required: &["prompt"],
    parameters: &[
        Parameter::listed("prompt", Kind::Text, "The question").or(&["question"]),
        Parameter::listed("query", Kind::Text, "Words to find originals by; default the prompt"),
        Parameter::listed("node_ids", Kind::Texts, "Handles or node numbers to read instead").or(&[
            "summary_ids",
            "node_id",
            "ids",
        ]),
        Parameter::silent("session_ids", Kind::Texts).or(&["conversation_id", "session_id"]),
        Parameter::listed("session_scope", Kind::Choice(&["current", "all", "session"]), "Default current"),
        Parameter::silent("all_conversations", Kind::Flag),
        Parameter::listed("max_results", Kind::Number(1, 20), "Default 5").or(&["limit"]),
        Parameter::listed("max_tokens", Kind::Number(16, 100_000), "Of the answer; default 2000"),
        Parameter::silent("context_max_tokens", Kind::Number(100, 200_000)).or(&["token_cap"]),
        Parameter::silent("timeout_ms", Kind::Number(100, 600_000)).or(&["timeout"]),
        Parameter::listed("output", Kind::Choice(&["answer", "evidence"]), "Default answer"),
    ],
};

const PROMPT: &str = include_str!("prompts/answer.md");

/// Nodes that are read when nobody says how many.
const RESULTS: usize = 5;
/// Nodes that are named at most.
const ROOTS_MAX: usize = 20;
/// What a model may write when nobody says.
const ANSWER_TOKENS: u64 = 2_000;
/// What a model is given when nobody says.
const CONTEXT_TOKENS: u64 = 32_000;
/// How long a model may take when nobody says.
const TIMEOUT_MS: u64 = 120_000;
/// Characters of a question.
const PROMPT_CHARS_MAX: usize = 8_000;
/// Characters of what a model's provider says of a failure.
const ERROR_CHARS: usize = 300;
/// Characters of a match beside the answer.
const MATCH_CHARS: usize = 200;
/// Between the instructions and the material, and behind it.
const LINE: &str = "================";

/// An original, or a summary above some.
struct Evidence {
    entry: Entry,
    text: String,
    /// Whether its end is missing.
    is_cut: bool,
}

/// Why there is no answer but only what it would have been made of.
struct Degraded {
    told: &'static str,
    /// What the model's provider says: it may hold a part of what it was sent.
    said: Option<String>,
}

/// What was packed, and of which nodes something is missing.
struct Packed {
    evidence: Vec<Evidence>,
    missing: Vec<String>,
}

pub(super) fn answer(store: &Store, call: &ToolCall<'_>, mut arguments: Arguments) -> Answered {
    let prompt = arguments.text("prompt")?.filter(|prompt| !prompt.trim().is_empty());
    let prompt = prompt.ok_or_else(|| ToolError::Said("prompt is empty: ask a question".to_owned()))?;
    let prompt: String = prompt.chars().take(PROMPT_CHARS_MAX).collect();
    let query = arguments.text("query")?.filter(|query| !query.trim().is_empty());
    let tokens = arguments.number("max_tokens")?.unwrap_or(ANSWER_TOKENS);
    let context = arguments.number("context_max_tokens")?.unwrap_or(CONTEXT_TOKENS);
    let timeout = Duration::from_millis(arguments.number("timeout_ms")?.unwrap_or(TIMEOUT_MS));
    let results = arguments.number("max_results")?.and_then(|max| usize::try_from(max).ok()).unwrap_or(RESULTS);
    let output = arguments.choice("output")?.unwrap_or("answer");

    let snapshot = store.snapshot()?;
    let access = Access::new(&snapshot, &call.reader)?;
    let mut roots: Vec<Placed> = Vec::new();
    for text in arguments.texts("node_ids")?.iter().take(ROOTS_MAX) {
        let entry = access.summary_or_node(text)?;
        roots.extend(access.place(entry.number)?);
    }
    let scope = scope(&access, &mut arguments)?;
    if roots.is_empty()
        && let Some(scope) = &scope
    {
        roots = found(store, &access, scope, query.as_deref().unwrap_or(&prompt), results, &mut arguments)?;
    } else if query.is_some() && !roots.is_empty() {
        arguments.note("query has no effect beside node_ids");
    }
    // Evidence goes into the answer itself, which has its own bound.
    let context =
        if output == "evidence" || call.model.is_none() { context.min(call.bounds.tokens_max) } else { context };
    let packed = match access.all()? {
        Some(all) if !roots.is_empty() => pack(&snapshot, &all, &roots, context)?,
        _ => Packed { evidence: Vec::new(), missing: Vec::new() },
    };
    drop(access);
    drop(snapshot);

    let mut degraded = None;
    let mut written = None;
    if output == "answer" && !packed.evidence.is_empty() {
        match call.model {
            None => {
                let told = "there is no model to ask here; these are the originals";
                degraded = Some(Degraded { told, said: None });
            }
            Some(model) => {
                let instructions =
                    PROMPT.replace("{budget}", &tokens.to_string()).replace("{question}", &quoted(&prompt));
                let asked =
                    SummaryPrompt { instructions, material: material(&packed), tokens_max: tokens, time_max: timeout };
                match model.summarize(&asked) {
                    Ok(text) if text.trim().is_empty() => {
                        degraded = Some(Degraded { told: "the model gave no answer", said: None });
                    }
                    Ok(text) => written = Some((text.trim().to_owned(), model.model().to_owned())),
                    Err(error) => {
                        let said = Some(error.to_string());
                        degraded = Some(Degraded { told: "the model failed; these are the originals", said });
                    }
                }
            }
        }
    }
    let shown = Shown {
        prompt: &prompt,
        query: query.as_deref(),
        packed: &packed,
        written,
        degraded,
        tokens,
        context,
        timeout,
    };
    // A model is asked once, however long what comes of it is.
    within(call.bounds, |bounds| Ok(put_together(bounds, &arguments, &shown)))
}

/// The question, so that its lines cannot be taken for ours.
fn quoted(prompt: &str) -> String {
    let lines = prompt.split(|c| c == '\n' || is_line_end(c));
    lines.map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

fn scope(access: &Access<'_>, arguments: &mut Arguments) -> Result<Option<Scope>, ToolError> {
    let named = arguments.texts("session_ids")?;
    let everywhere = arguments.flag("all_conversations")? || arguments.choice("session_scope")? == Some("all");
    if !named.is_empty() {
        let sessions: Vec<Session> =
            named.iter().take(ROOTS_MAX).map(|text| access.session(text)).collect::<Result<_, _>>()?;
        return Ok(access.of(&sessions.iter().collect::<Vec<_>>(), Branches::All));
    }
    if arguments.choice("session_scope")? == Some("session") {
        return Err(ToolError::Said("session_scope session needs session_ids".to_owned()));
    }
    if everywhere || access.is_outside { access.all() } else { Ok(access.current()) }
}

fn found(
    store: &Store,
    access: &Access<'_>,
    scope: &Scope,
    query: &str,
    results: usize,
    arguments: &mut Arguments,
) -> Result<Vec<Placed>, ToolError> {
    let words = Words {
        hits_max: results,
        snippet_chars: 0,
        filter: Filter { kinds: Kinds::Messages, ..Filter::default() },
        ..Words::new(query)
    };
    let page = search::search(store, &SearchRequest { scope: scope.clone(), words, mode: SearchMode::Words })?;
    if !page.hits.is_empty() && page.hits.iter().all(|hit| hit.ranked) {
        arguments.note("no message has all words; these have some");
    }
    let mut places = Vec::new();
    for hit in page.hits {
        places.extend(access.place(hit.entry.number)?);
    }
    Ok(places)
}

/// Packs what the nodes stand for, each with its share of what is left.
fn pack(snapshot: &Snapshot, scope: &Scope, roots: &[Placed], tokens_max: u64) -> Result<Packed, ToolError> {
    let mut packed = Packed { evidence: Vec::new(), missing: Vec::new() };
    let mut left = tokens_max;
    let mut entries = Entries::new(snapshot);
    for (nth, root) in roots.iter().enumerate() {
        let share = left / count(roots.len() - nth).max(1);
        let mut room = share;
        let mut open = vec![root.clone()];
        let mut skipped = 0_usize;
        let mut given = 0_usize;
        while let Some(placed) = open.pop() {
            if room == 0 {
                skipped += 1;
                break;
            }
            let (entry, text) = read(snapshot, &mut entries, &placed)?;
            let (text, is_cut) = cut(text, room);
            // At least the frame, so that a thousand empty messages are not free.
            let cost = u64::from(Estimate.count_text(&text)).saturating_add(16);
            room = room.saturating_sub(cost);
            if placed.summary.is_some() {
                let children = snapshot.child_places(scope, placed.record)?.into_iter().rev();
                open.extend(children.filter(|child| child.arrival < placed.arrival));
            } else {
                given += 1;
            }
            packed.evidence.push(Evidence { entry, text, is_cut });
            if is_cut {
                skipped += 1;
                break;
            }
        }
        left = left.saturating_sub(share - room);
        if skipped > 0 || !open.is_empty() {
            let mut args = Object::new();
            match root.summary {
                Some(number) => args.number("node_id", number.0).flag("include_messages", true),
                None => args.number("store_id", root.arrival.0),
            };
            if root.summary.is_some() && given > 1 {
                args.number("source_offset", count(given - 1));
            }
            let mut one = Object::new();
            one.text("tool", "lcm_expand").json("expand_args", &args.finish());
            packed.missing.push(one.finish());
        }
    }
    Ok(packed)
}

fn read(snapshot: &Snapshot, entries: &mut Entries<'_>, placed: &Placed) -> Result<(Entry, String), ToolError> {
    let mut buffer = Buffer::default();
    snapshot.read(placed.record, &mut buffer)?;
    let broken = |error| ToolError::from(unreadable(placed.arrival, error));
    let (role, text) = if placed.summary.is_some() {
        (Role::Other, canon::decode_summary(buffer.canon()).map_err(broken)?.text().to_owned())
    } else {
        let read =
            buffer.with_message(|message| message.tree().map(|tree| (tree.role(), Parts::of(&tree, Form::Readable))));
        let (role, parts) = read.map_err(broken)?;
        let text =
            [parts.content, parts.calls].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
        (role, text)
    };
    Ok((entries.named(placed, buffer.id(), role)?, text))
}

/// The beginning of a text that costs no more than so much.
fn cut(mut text: String, tokens: u64) -> (String, bool) {
    let chars = usize::try_from(tokens.saturating_mul(4)).unwrap_or(usize::MAX);
    let mut end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let whole = text.len();
    while end > 0 {
        let cost = u64::from(Estimate.count_text(&text[..end]));
        if cost <= tokens {
            break;
        }
        let part = u128::from(tokens) * 1000 / u128::from(cost.max(1));
        let bytes = u128::from(count(end)) * part / 1010;
        end = text.floor_char_boundary(usize::try_from(bytes).unwrap_or(0).min(end - 1));
    }
    text.truncate(end);
    (text, end < whole)
}

/// The evidence as a model reads it. Every line of it is quoted, so nothing in it ends it.
fn material(packed: &Packed) -> String {
    let mut text = format!("{LINE}\n");
    for one in &packed.evidence {
        let who = if one.entry.summary.is_some() { "summary of what follows" } else { one.entry.role.name() };
        text.push_str(&format!("{} {who} {}\n", one.entry.handle, rfc3339(one.entry.seen_ms)));
        // What ends a line for anybody ends it here, so that every line begins with the bar.
        for line in one.text.split(|c| c == '\n' || is_line_end(c)) {
            text.push_str("| ");
            text.push_str(line);
            text.push('\n');
        }
        if one.is_cut {
            text.push_str("(the rest of it is not shown)\n");
        }
    }
    text.push_str(LINE);
    text
}

/// All that an answer is made of.
struct Shown<'a> {
    prompt: &'a str,
    query: Option<&'a str>,
    packed: &'a Packed,
    written: Option<(String, String)>,
    degraded: Option<Degraded>,
    tokens: u64,
    context: u64,
    timeout: Duration,
}

fn put_together(bounds: ToolBounds, arguments: &Arguments, shown: &Shown<'_>) -> String {
    let packed = shown.packed;
    let mut budget = Budget::new(Cost::allowed(bounds));
    let mut head = Object::new();
    echo(&mut head, "prompt", shown.prompt);
    if let Some(query) = shown.query {
        echo(&mut head, "query", query);
    }
    head.number("max_tokens", shown.tokens).number("context_max_tokens", shown.context);
    head.flag("context_truncated", !packed.missing.is_empty());
    if packed.evidence.is_empty() {
        head.text("scope_note", "nothing was found; try other words, or session_scope all");
    }
    if let Some(reason) = &shown.degraded {
        head.flag("degraded", true).text("degraded_reason", reason.told);
        if let Some(said) = &reason.said {
            head.quote("model_error", &said.chars().take(ERROR_CHARS).collect::<String>());
        }
        head.number("timeout_seconds", shown.timeout.as_secs());
    }
    arguments.tell(&mut head);
    budget.take(head.cost());
    let mut pagination = Vec::new();
    for one in &packed.missing {
        if budget.add(one) {
            pagination.push(one.clone());
        }
    }
    if !pagination.is_empty() {
        head.objects("context_pagination", &pagination);
    }
    if let Some((text, model)) = &shown.written {
        let mut answer = Object::new();
        let end = fitting_bytes(text, budget.left());
        answer.quote("answer", &text[..end]);
        budget.take(answer.cost());
        head.quote("answer", &text[..end]).text("model", &model.chars().take(80).collect::<String>());
        if end < text.len() {
            head.flag("cut", true);
        }
    }
    let with_evidence = shown.written.is_none();
    let (mut matches, mut raw, mut evidence, mut is_cut) = (Vec::new(), Vec::new(), Vec::new(), false);
    let mut numbers = Vec::new();
    for one in &packed.evidence {
        let mut item = Object::new();
        match one.entry.summary {
            Some(number) => item.number("node_id", number.0),
            None => item.number("store_id", one.entry.number.0),
        };
        item.text("handle", &one.entry.handle.to_string());
        if one.entry.summary.is_none() {
            item.text("role", one.entry.role.name()).text("time", &rfc3339(one.entry.seen_ms));
        }
        let mut room = budget.left();
        room = room.less(item.cost().plus(Cost::ascii(8, 40)));
        let wanted = match with_evidence {
            true => one.text.len(),
            false => one.text.char_indices().nth(MATCH_CHARS).map_or(one.text.len(), |(at, _)| at),
        };
        let end = fitting_bytes(&one.text[..wanted], room);
        if end < wanted && (end == 0 || !with_evidence) {
            is_cut = true;
            break;
        }
        item.quote(if with_evidence { "content" } else { "snippet" }, &one.text[..end]);
        if one.is_cut || end < wanted {
            item.flag("content_truncated", true);
        }
        let item = item.finish();
        if !budget.add(&item) {
            // Nothing to cut in what says nothing; the first is given all the same.
            is_cut = true;
            if !numbers.is_empty() || !evidence.is_empty() || !raw.is_empty() {
                break;
            }
        }
        numbers.extend(one.entry.summary.map(|number| number.to_string()));
        if with_evidence {
            evidence.push(item);
        } else if one.entry.summary.is_some() {
            matches.push(item);
        } else {
            raw.push(item);
        }
        if end < wanted {
            is_cut = true;
            break;
        }
    }
    head.json("node_ids", &format!("[{}]", numbers.join(",")));
    if with_evidence {
        head.objects("evidence", &evidence);
    } else {
        head.objects("matches", &matches).objects("raw_matches", &raw);
    }
    if is_cut {
        head.flag("evidence_truncated", true);
    }
    head.finish()
}
