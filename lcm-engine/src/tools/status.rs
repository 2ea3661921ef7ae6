//! `lcm_status`, `lcm_inspect`, `lcm_doctor`: how the conversation and the store are, without a word of what was said.
//!
//! Counts are of the caller's scope only: how much others have said is theirs.

use lcm_core::op::Change;
use lcm_core::{Handle, OpId};
use lcm_store::{FORMAT, IndexState, Scope, Session, Snapshot, Store};

use super::access::{Access, name_of};
use super::answer::{Budget, Object, rfc3339};
use super::arguments::{Arguments, Kind, Parameter, Tool};
use super::describe::{depths, summaries};
use super::{Answered, ToolError, count, cursor};
use crate::find::Entries;
use crate::history;
use crate::service::{Sees, ToolCall};

pub(super) static STATUS: Tool = Tool {
    name: "lcm_status",
    about: "How this conversation is kept: messages, summaries, what is folded, the search index.",
    is_default: false,
    required: &[],
    parameters: &[],
};

pub(super) static INSPECT: Tool = Tool {
    name: "lcm_inspect",
    about: "How this conversation got here: branches, newest messages and summaries, pins, changes. No texts.",
    is_default: false,
    required: &[],
    parameters: &[
        Parameter::listed("limit", Kind::Number(1, 200), "Default 20"),
        Parameter::silent("max_tokens", Kind::Number(1, 1_000_000)).or(&["token_cap"]),
        Parameter::listed("cursor", Kind::Text, "From the answer before"),
    ],
};

pub(super) static DOCTOR: Tool = Tool {
    name: "lcm_doctor",
    about: "Whether anything is wrong with what is kept here, and what to do about it.",
    is_default: false,
    required: &[],
    parameters: &[],
};

/// Lines of each part of an inspection when nobody says how many.
const LIMIT: usize = 20;
/// Messages that the index may be behind before anybody should care.
const BEHIND_MAX: u64 = 4096;
/// Ops that are gone through for those of one session.
const OPS_LOOKED_MAX: usize = 4096;

pub(super) fn status(store: &Store, call: &ToolCall<'_>, arguments: &Arguments) -> Answered {
    let snapshot = store.snapshot()?;
    let access = Access::new(&snapshot, &call.reader)?;
    let mut object = Object::new();
    object.text("engine", "lcm").text("version", env!("CARGO_PKG_VERSION")).number("format", FORMAT);
    if let (Some(session), Some(scope)) = (&access.own, access.all()?) {
        object.text("session_id", &name_of(session)).text("session", &format!("#{}", session.id));
        let mut kept = Object::new();
        kept.number("messages", snapshot.log_len(session.timeline)?);
        kept.number("pinned", count(snapshot.pins(session.id)?.len()));
        object.json("store", &kept.finish());
        let folds = history::folds_shown(&snapshot, session)?;
        let status = if folds.is_empty() { "idle" } else { "compacted" };
        object.text("last_compression_status", status).number("shown_folds", count(folds.len()));
        let (known, is_all) = summaries(&snapshot, &scope, session)?;
        let mut dag = Object::new();
        dag.number("total_nodes", count(known.len()));
        dag.number("total_tokens", known.iter().map(|known| u64::from(known.placed.tokens)).sum::<u64>());
        dag.flag("complete", is_all).json("depths", &depths(&known, 0));
        object.json("dag", &dag.finish());
    } else {
        object.text("scope_note", "nothing was said yet that can be read here");
    }
    let mut reading = Object::new();
    reading.flag("confined", call.reader.is_confined).number("given_sessions", count(call.reader.given.len()));
    reading.flag("all_owners", call.reader.sees == Sees::All);
    object.json("reader", &reading.finish()).text("search_index", index_state(store)?.0);
    let mut bounds = Object::new();
    bounds.number("tokens_max", call.bounds.tokens_max).number("chars_max", count(call.bounds.chars_max));
    object.json("answers", &bounds.finish()).flag("model", call.model.is_some());
    arguments.tell(&mut object);
    Ok(object.finish())
}

/// How the index is, and whether it is far behind. Never how many messages there are.
fn index_state(store: &Store) -> Result<(&'static str, bool), ToolError> {
    let index = store.index_status()?;
    let behind = index.last_arrival.0.saturating_sub(index.indexed_to.0);
    Ok(match index.state {
        IndexState::Absent => ("none", behind > BEHIND_MAX),
        IndexState::Unusable => ("unusable", true),
        IndexState::Ready => ("ready", behind > BEHIND_MAX),
    })
}

pub(super) fn inspect(store: &Store, call: &ToolCall<'_>, mut arguments: Arguments) -> Answered {
    let limit = arguments.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LIMIT);
    let mut budget = Budget::of(&mut arguments, call.bounds, call.bounds.tokens_max)?;
    let snapshot = store.snapshot()?;
    let access = Access::new(&snapshot, &call.reader)?;
    let mut object = Object::new();
    let (Some(session), Some(scope)) = (&access.own, access.all()?) else {
        object.text("scope_note", "nothing was said yet that can be read here");
        arguments.tell(&mut object);
        return Ok(object.finish());
    };
    let stamp = cursor::stamp("lcm_inspect", [session.id.to_string().as_str(), &limit.to_string()]);
    // The next page goes on with what there was at the first: what is said and done meanwhile would move its lines.
    let (skip, newest) = match arguments.text("cursor")? {
        None => (0, Newest::of(&snapshot, session)?),
        Some(text) => place_of(&cursor::of(&text, &stamp)?)
            .ok_or_else(|| ToolError::Said("that is no cursor: leave it out to begin anew".to_owned()))?,
    };
    object.text("session_id", &name_of(session)).text("session", &format!("#{}", session.id));
    object.text("created", &rfc3339(session.created_ms));
    object.number("messages", snapshot.log_len(session.timeline)?);
    object.number("timelines", count(snapshot.timelines_of(session.id)?.len()));
    arguments.tell(&mut object);
    budget.take(object.cost());
    // One list, so that one cursor goes through it.
    let all = lines(&snapshot, &scope, session, newest, limit)?;
    let (mut items, mut at) = (Vec::new(), skip.min(all.len()));
    while let Some(line) = all.get(at) {
        if !budget.add(line) && !items.is_empty() {
            break;
        }
        items.push(line.clone());
        at += 1;
    }
    object.objects("items", &items).flag("has_more", at < all.len());
    if at < all.len() {
        object.flag("cut", true).text("cursor", &cursor::put(&stamp, &format!("{at}-{}-{}", newest.number, newest.op)));
    }
    Ok(object.finish())
}

/// The newest of a conversation when an inspection began.
#[derive(Clone, Copy)]
struct Newest {
    number: u64,
    op: u64,
}

impl Newest {
    fn of(snapshot: &Snapshot, session: &Session) -> Result<Self, ToolError> {
        let number = snapshot.last_place(session.timeline)?.map_or(0, |placed| placed.arrival.0);
        // Numbers of others' changes are theirs, so it is the newest of this conversation.
        let ops = snapshot.ops_before(OpId(u64::MAX), OPS_LOOKED_MAX)?;
        Ok(Self { number, op: ops.iter().find(|op| op.session == session.id).map_or(0, |op| op.id.0) })
    }
}

/// Where an inspection goes on.
fn place_of(text: &str) -> Option<(usize, Newest)> {
    let numbers = cursor::numbers(text)?;
    let &[skip, number, op] = numbers.as_slice() else { return None };
    Some((usize::try_from(skip).ok()?, Newest { number, op }))
}

/// The newest messages, the summaries that are shown, what is pinned, and what was done last.
fn lines(
    snapshot: &Snapshot,
    scope: &Scope,
    session: &Session,
    newest: Newest,
    limit: usize,
) -> Result<Vec<String>, ToolError> {
    let mut lines = Vec::new();
    let mut entries = Entries::new(snapshot);
    // From the last place backwards, by numbers: going through the whole conversation is not worth twenty lines.
    let current = Scope { branches: lcm_store::Branches::Current, ..scope.clone() }.in_sessions(vec![session.id]);
    let last = snapshot.last_place(session.timeline)?.map_or(0, |placed| placed.arrival.0);
    let mut number = newest.number.min(last);
    let (mut given, mut looked) = (0, 0);
    while number > 0 && given < limit && looked < limit * 8 {
        looked += 1;
        if let Some(placed) =
            snapshot.find_place(&current, lcm_core::Arrival(number))?.filter(|placed| placed.summary.is_none())
        {
            let entry = entries.entry(&placed)?;
            let mut line = Object::new();
            line.text("what", "message").number("store_id", entry.number.0).text("handle", &entry.handle.to_string());
            line.text("role", entry.role.name())
                .text("time", &rfc3339(entry.seen_ms))
                .number("token_count", entry.tokens);
            lines.push(line.finish());
            given += 1;
        }
        number -= 1;
    }
    for fold in history::folds_shown(snapshot, session)?.into_iter().rev().take(limit) {
        let Some(placed) = snapshot.places_of(scope, &fold)?.into_iter().next() else { continue };
        let mut line = Object::new();
        line.text("what", "shown fold");
        if let Some(number) = placed.summary {
            line.number("node_id", number.0);
        }
        line.text("handle", &Handle::summary(fold).to_string()).number("token_count", placed.tokens);
        lines.push(line.finish());
    }
    for pin in snapshot.pins(session.id)?.into_iter().rev().take(limit) {
        let mut line = Object::new();
        line.text("what", "pinned").number("store_id", pin.0);
        lines.push(line.finish());
    }
    let newest = snapshot.ops_before(OpId(newest.op.saturating_add(1)), OPS_LOOKED_MAX)?;
    for op in newest.iter().filter(|op| op.session == session.id).take(limit) {
        let mut line = Object::new();
        line.text("what", done(&op.what)).text("time", &rfc3339(op.at_ms));
        lines.push(line.finish());
    }
    Ok(lines)
}

fn done(what: &Change) -> &'static str {
    match what {
        Change::Ingest { .. } => "messages came",
        Change::Revise { .. } => "a message was rewritten",
        Change::Branch { .. } => "the conversation branched",
        Change::Fold { .. } => "a fold was shown",
        Change::Unfold { .. } => "a fold was unfolded",
        Change::Stage { .. } => "summaries were written",
        _ => "a change",
    }
}

pub(super) fn doctor(store: &Store, call: &ToolCall<'_>, arguments: &Arguments) -> Answered {
    let snapshot = store.snapshot()?;
    let access = Access::new(&snapshot, &call.reader)?;
    let mut checks: Vec<(&str, &str, String)> = Vec::new();
    let readable = match &access.own {
        None => ("session", "warn", "the call names no conversation of this agent and person".to_owned()),
        Some(session) => match snapshot.last_place(session.timeline) {
            Ok(Some(placed)) => match snapshot.read(placed.record, &mut lcm_store::Buffer::default()) {
                Ok(()) => ("session", "pass", "the newest message was read and hashes to its id".to_owned()),
                Err(error) => ("session", "fail", error.to_string()),
            },
            Ok(None) => ("session", "pass", "nothing was said in it yet".to_owned()),
            Err(error) => ("session", "fail", error.to_string()),
        },
    };
    checks.push(readable);
    let (state, is_behind) = index_state(store)?;
    checks.push(match (state, is_behind) {
        ("unusable", _) => {
            ("search_index", "warn", "it cannot be used; searches look into the messages themselves".to_owned())
        }
        (state, true) => ("search_index", "warn", format!("{state}, and far behind; searches are complete and slower")),
        (state, false) => ("search_index", "pass", state.to_owned()),
    });
    checks.push(("format", "pass", format!("store format {FORMAT}")));
    checks.push(match call.model {
        Some(_) => ("model", "pass", "a model answers lcm_expand_query".to_owned()),
        None => ("model", "warn", "no model: lcm_expand_query gives originals instead of an answer".to_owned()),
    });
    let worst = |status: &str| checks.iter().any(|(_, found, _)| *found == status);
    let overall = if worst("fail") {
        "unhealthy"
    } else if worst("warn") {
        "warnings"
    } else {
        "healthy"
    };
    let mut object = Object::new();
    object.text("overall", overall);
    let items: Vec<String> = checks
        .iter()
        .map(|(check, status, detail)| {
            let mut item = Object::new();
            item.text("check", check).text("status", status).text("detail", detail);
            item.finish()
        })
        .collect();
    object.objects("checks", &items);
    object
        .text("guidance", "lcm-cli doctor looks at the directory and the settings, lcm-cli check at all that is kept");
    arguments.tell(&mut object);
    Ok(object.finish())
}
