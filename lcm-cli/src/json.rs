//! What the answers of the service look like as JSON, for `--format json`.
//!
//! Moments stand twice, as RFC 3339 in UTC (`time`) and as milliseconds (`time_ms`); ids in full beside their handles.
//! Keys are only ever added.

use std::ops::Range;

use lcm_core::op::{Change, Op};
use lcm_core::{Handle, Json, Level, NodeId};
use lcm_engine::service::{
    Child, Description, Entry, HistoryChanged, IndexState, IndexStatus, Line, Recalled, Revision, Seen, Session,
    SessionDescription, SessionEntry, Shown, Spent, Status, Whole, Why,
};

use crate::moment;
use crate::settings::Spending;

type Entries = Vec<(&'static str, Json)>;

pub(crate) fn text(text: &str) -> Json {
    text.into()
}

pub(crate) fn number(number: usize) -> Json {
    u64::try_from(number).unwrap_or(u64::MAX).into()
}

/// A value that is JSON text already; `null` for what is not.
fn value(bytes: &[u8]) -> Json {
    Json::parse(bytes).unwrap_or(Json::Null)
}

fn list(values: impl IntoIterator<Item = Json>) -> Json {
    Json::Array(values.into_iter().collect())
}

pub(crate) fn time(ms: i64) -> Json {
    moment::for_programs(ms).map_or(Json::Null, Json::from)
}

/// Where something stands and what it is.
pub(crate) fn entry(entry: &Entry) -> Entries {
    let mut entries = vec![
        ("number", entry.number.0.into()),
        ("handle", entry.handle.to_string().into()),
        ("id", entry.handle.id.to_string().into()),
        ("session", entry.session.0.into()),
        ("timeline", entry.timeline.0.into()),
    ];
    match entry.summary {
        Some(summary) => entries.push(("summary", summary.0.into())),
        None => entries.push(("role", entry.role.name().into())),
    }
    entries.extend([("time", time(entry.seen_ms)), ("time_ms", entry.seen_ms.into()), ("tokens", entry.tokens.into())]);
    if entry.is_late {
        entries.push(("late", true.into()));
    }
    entries
}

/// A message, whole.
pub(crate) fn whole(whole: &Whole) -> Json {
    let mut entries = entry(&whole.entry);
    entries.push(("message", value(&whole.json)));
    if !whole.source.is_empty() {
        entries.push(("source", value(&whole.source)));
    }
    if !whole.revisions.is_empty() {
        entries.push(("revisions", revisions(&whole.revisions)));
    }
    Json::object(entries)
}

fn revisions(revisions: &[Revision]) -> Json {
    list(revisions.iter().map(|revision| {
        Json::object([
            ("id", revision.id.to_string().into()),
            ("time", time(revision.seen_ms)),
            ("time_ms", revision.seen_ms.into()),
            ("message", value(&revision.json)),
        ])
    }))
}

/// Something a summary stands for.
pub(crate) fn child(child: &Child) -> Json {
    match child {
        Child::Message(message) => whole(message),
        Child::Summary { entry: at, text: said } => {
            let mut entries = entry(at);
            entries.push(("text", text(said)));
            Json::object(entries)
        }
    }
}

/// An original that was a candidate for a request.
pub(crate) fn recalled(recalled: &Recalled) -> Json {
    let mut entries = entry(&recalled.entry);
    let reasons = recalled.reasons.iter().map(|reason| text(reason));
    entries.extend([("score", recalled.score.into()), ("cost", recalled.tokens.into()), ("reasons", list(reasons))]);
    Json::object(entries)
}

pub(crate) fn session(session: &Session) -> Entries {
    vec![
        ("session", session.id.0.into()),
        ("name", text(&session.name)),
        ("source", text(&session.source)),
        ("agent", text(&session.owner.agent)),
        ("person", text(&session.owner.person)),
    ]
}

pub(crate) fn session_entry(entry: &SessionEntry) -> Entries {
    let mut entries = session(&entry.session);
    entries.extend([("messages", entry.messages.into()), ("tokens", entry.tokens.into())]);
    if let Some((first, last)) = entry.span_ms {
        entries.extend([
            ("first", time(first)),
            ("first_ms", first.into()),
            ("last", time(last)),
            ("last_ms", last.into()),
        ]);
    }
    entries
}

pub(crate) fn session_description(description: &SessionDescription) -> Json {
    let mut entries = session_entry(&description.entry);
    let created = description.entry.session.created_ms;
    entries.extend([("created", time(created)), ("created_ms", created.into())]);
    entries.push(("timeline", description.entry.session.timeline.0.into()));
    let timelines = description.timelines.iter().map(|timeline| {
        let mut entries = vec![("timeline", timeline.id.0.into())];
        if let Some((parent, shared)) = timeline.parent {
            entries.extend([("parent", parent.0.into()), ("shared", shared.into())]);
        }
        entries.extend([
            ("messages", timeline.messages.into()),
            ("created", time(timeline.created_ms)),
            ("created_ms", timeline.created_ms.into()),
        ]);
        Json::object(entries)
    });
    entries.push(("timelines", list(timelines)));
    Json::object(entries)
}

/// The name of a rung of the ladder.
pub(crate) fn level(level: Level) -> &'static str {
    match level {
        Level::Detailed => "detailed",
        Level::Bullets => "bullets",
        Level::Extract => "extract",
        Level::Cut => "cut",
    }
}

pub(crate) fn description(description: &Description) -> Json {
    let each = |all: &[Entry]| list(all.iter().map(|at| Json::object(entry(at))));
    let mut entries = entry(&description.entry);
    entries.push(("session_name", text(&description.session.name)));
    if let Some(position) = description.position {
        entries.push(("position", position.into()));
    }
    entries.extend([
        ("bytes", description.bytes.into()),
        ("tools", list(description.tools.iter().map(|tool| text(tool)))),
        ("places_all", number(description.places_all)),
        ("places", each(&description.places)),
        ("parents", each(&description.parents)),
        ("revisions", revisions(&description.revisions)),
    ]);
    if let Some(summary) = &description.summary {
        let texts = |all: &[String]| list(all.iter().map(|one| text(one)));
        entries.extend([
            ("depth", u64::from(summary.depth).into()),
            ("level", level(summary.level).into()),
            ("model", text(&summary.model)),
            ("prompt_version", u64::from(summary.prompt_version).into()),
            ("source_tokens", summary.source_tokens.into()),
            ("first", time(summary.span_ms.0)),
            ("first_ms", summary.span_ms.0.into()),
            ("last", time(summary.span_ms.1)),
            ("last_ms", summary.span_ms.1.into()),
            ("marks", texts(&summary.marks)),
            ("mentions", texts(&summary.mentions)),
            ("children", each(&summary.children)),
        ]);
    }
    if !description.source.is_empty() {
        entries.push(("source", value(&description.source)));
    }
    Json::object(entries)
}

/// An entry of history.
pub(crate) fn op(op: &Op) -> Json {
    let handle = |summary: &NodeId| Json::from(Handle::summary(*summary).to_string());
    let mut entries = vec![
        ("op", op.id.0.into()),
        ("session", op.session.0.into()),
        ("time", time(op.at_ms)),
        ("time_ms", op.at_ms.into()),
        ("by", text(&op.by)),
    ];
    let what = match &op.what {
        Change::Ingest { timeline, first, last } => {
            entries.extend([("timeline", timeline.0.into()), ("first", first.0.into()), ("last", last.0.into())]);
            "ingest"
        }
        Change::Branch { from, to, shared } => {
            entries.extend(from.iter().map(|from| ("from", from.0.into())));
            entries.extend([("to", to.0.into()), ("shared", (*shared).into())]);
            "branch"
        }
        Change::Revise { arrival, form } => {
            entries.extend([("number", arrival.0.into()), ("form", form.to_string().into())]);
            "revise"
        }
        Change::Fold { summary } => {
            entries.push(("summary", handle(summary)));
            "fold"
        }
        Change::Unfold { summary } => {
            entries.push(("summary", handle(summary)));
            "unfold"
        }
        Change::Stage { summaries, calls, tokens } => {
            entries.push(("summaries", (*summaries).into()));
            entries.push(("model_calls", (*calls).into()));
            entries.push(("model_tokens", (*tokens).into()));
            "stage"
        }
        Change::Pin { arrival } => {
            entries.push(("number", arrival.0.into()));
            "pin"
        }
        Change::Unpin { arrival } => {
            entries.push(("number", arrival.0.into()));
            "unpin"
        }
        Change::Undo { op } => {
            entries.push(("undone", op.0.into()));
            "undo"
        }
        _ => "other",
    };
    entries.insert(2, ("what", what.into()));
    Json::object(entries)
}

/// What changed what a session shows.
pub(crate) fn changed(changed: &HistoryChanged) -> Entries {
    vec![
        ("session", changed.session.id.0.into()),
        ("name", text(&changed.session.name)),
        ("op", op(&changed.op)),
        ("tokens_before", changed.tokens_before.into()),
        ("tokens_after", changed.tokens_after.into()),
    ]
}

/// Something that a session shows.
pub(crate) fn shown(shown: &Shown) -> Json {
    match shown {
        Shown::Message { entry: at, json, is_pinned } => {
            let mut entries = entry(at);
            if *is_pinned {
                entries.push(("pinned", true.into()));
            }
            entries.push(("message", value(json)));
            Json::object(entries)
        }
        Shown::Fold { entry: at, text: said, depth, messages, late, source_tokens, is_within } => {
            let mut entries = entry(at);
            entries.extend([
                ("depth", u64::from(*depth).into()),
                ("messages", (*messages).into()),
                ("late_messages", (*late).into()),
                ("source_tokens", (*source_tokens).into()),
                ("within", (*is_within).into()),
                ("text", text(said)),
            ]);
            Json::object(entries)
        }
    }
}

/// What history says about a node.
pub(crate) fn why(why: &Why) -> Json {
    let mut entries = vec![("node", description(&why.description))];
    entries.push(("made", why.made.as_ref().map_or(Json::Null, op)));
    let appearances = why.appearances.iter().map(|appearance| {
        let mut entries = vec![("op", op(&appearance.op))];
        match appearance.seen {
            Seen::Itself => entries.push(("seen", "itself".into())),
            Seen::Behind(fold) => entries.extend([("seen", "behind".into()), ("fold", fold.to_string().into())]),
            Seen::Nowhere => entries.push(("seen", "nowhere".into())),
        }
        Json::object(entries)
    });
    entries.push(("since", list(appearances)));
    if let Some(fold) = &why.covered_by {
        entries.push(("covered_by", Json::object(entry(fold))));
    }
    Json::object(entries)
}

/// Ranges as pairs of byte offsets.
pub(crate) fn ranges(ranges: &[Range<usize>]) -> Json {
    list(ranges.iter().map(|range| list([number(range.start), number(range.end)])))
}

pub(crate) fn lines(lines: &[Line]) -> Json {
    list(lines.iter().map(|line| {
        let mut entries =
            vec![("line", number(line.number)), ("text", text(&line.text)), ("matches", ranges(&line.matches))];
        if line.cut != (false, false) {
            entries.push(("cut", true.into()));
        }
        Json::object(entries)
    }))
}

/// The name of the state an index is in.
pub(crate) fn state(state: IndexState) -> &'static str {
    match state {
        IndexState::Absent => "absent",
        IndexState::Ready => "ready",
        IndexState::Unusable => "unusable",
    }
}

pub(crate) fn index(index: &IndexStatus) -> Json {
    Json::object([
        ("state", state(index.state).into()),
        ("indexed_to", index.indexed_to.0.into()),
        ("sieved_to", index.sieved_to.0.into()),
        ("last", index.last_arrival.0.into()),
        ("segments", number(index.segments)),
        ("bytes", index.bytes.into()),
    ])
}

/// What summaries cost.
fn spent(spent: &Spent) -> Entries {
    vec![("summaries", spent.summaries.into()), ("calls", spent.calls.into()), ("tokens", spent.tokens.into())]
}

/// How the store is; what summaries cost ever, and in the window that is capped. A cap of tokens is absent where there
/// is none.
pub(crate) fn status(status: &Status, ever: &Spent, now: &Spent, spending: &Spending) -> Json {
    let mut window = spent(now);
    window.extend([("seconds", spending.window.as_secs().into()), ("calls_max", spending.calls_max.into())]);
    if spending.tokens_max > 0 {
        window.push(("tokens_max", spending.tokens_max.into()));
    }
    let mut spent = spent(ever);
    spent.push(("window", Json::object(window)));
    Json::object([
        ("home", text(&status.home.to_string_lossy())),
        ("format", status.format.into()),
        ("sessions", status.sessions.into()),
        ("places", status.places.into()),
        ("records", status.records.into()),
        ("data_bytes", status.data_bytes.into()),
        ("index", index(&status.index)),
        ("spent", Json::object(spent)),
    ])
}
