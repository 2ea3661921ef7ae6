//! `lcm_describe`: what is known about a node, and what it would cost to expand it; without one, about the conversation.

use std::collections::BTreeMap;

use lcm_core::{NodeId, canon};
use lcm_store::{Buffer, Placed, RecordNumber, Scope, Session, Snapshot, Store};

use super::access::{Access, name_of};
use super::answer::{Budget, Object, fitting_bytes, rfc3339};
use super::arguments::{Arguments, Kind, Parameter, Tool};
use super::message::{Form, Parts, is_name};
use super::shown::Shown;
use super::{Answered, ToolError, count, cursor};
use crate::find::{Entries, unreadable};
use crate::history;
use crate::service::{Entry, ToolCall};

pub(super) static TOOL: Tool = Tool {
    name: "lcm_describe",
    about: "What is known about a summary or message: size, time, place, what it stands for and what expanding costs. Without \
            id: an overview of this conversation.",
    is_default: true,
    required: &[],
    parameters: &[
        Parameter::listed("id", Kind::Ids, "A handle, or text holding one").or(&[
            "handle",
            "ref",
            "externalized_ref",
            "file_id",
            "summary_id",
        ]),
        Parameter::listed("node_id", Kind::Ids, "A summary's number").or(&["node"]),
        Parameter::silent("store_id", Kind::Ids).or(&["message_id"]),
        Parameter::listed("session_id", Kind::Text, "Overview of another conversation")
            .or(&["conversation_id", "session"]),
        Parameter::listed("max_tokens", Kind::Number(1, 1_000_000), "-").or(&["token_cap"]),
        Parameter::listed("cursor", Kind::Text, "-"),
        Parameter::silent("expand_file", Kind::Flag),
        Parameter::silent("max_bytes", Kind::Number(1, 512_000)).or(&["expand_file_max_bytes"]),
        Parameter::silent("all_conversations", Kind::Flag),
    ],
};

/// What an answer may take when nobody says.
const TOKENS: u64 = 4_000;
/// What expanding may cost to be marked as within bounds, when nobody says.
const EXPANDING_TOKENS: u64 = 4_000;
/// Characters of a message that are shown.
const PREVIEW_CHARS: usize = 500;
/// Bytes of a message that are shown when all of it is asked for.
const CONTENT_BYTES: usize = 32_768;
/// Summaries of a conversation that an overview counts.
const OVERVIEW_MAX: usize = 2_000;
/// Of each depth so many are named.
const NAMED_MAX: usize = 20;
/// Nodes of a subtree that can be listed, page by page.
const SUBTREE_MAX: usize = 10_000;
/// Neighbours (other places, parents, later forms) that are named.
const NEAR_MAX: usize = 10;

pub(super) fn answer(store: &Store, call: &ToolCall<'_>, mut arguments: Arguments) -> Answered {
    let cap = arguments.number("max_tokens")?.unwrap_or(EXPANDING_TOKENS);
    let budget = Budget::of(&mut arguments, call.bounds, TOKENS.min(call.bounds.tokens_max))?;
    let snapshot = store.snapshot()?;
    let access = Access::new(&snapshot, &call.reader)?;
    let mut named: Vec<Entry> = Vec::new();
    for text in arguments.texts("node_id")? {
        named.push(access.summary_or_node(&text)?);
    }
    for name in ["id", "store_id"] {
        for text in arguments.texts(name)? {
            named.push(access.node(&text)?);
        }
    }
    if named.len() > 1 {
        arguments.note("one node is described at a time; this is the first");
    }
    arguments.ignore("all_conversations");
    let Some(entry) = named.into_iter().next() else { return overview(&snapshot, &access, arguments, budget) };
    let none = || ToolError::Said("there is nothing that can be read here".to_owned());
    let scope = access.all()?.ok_or_else(none)?;
    let placed = access.place(entry.number)?.ok_or_else(none)?;
    let subject = Subject { snapshot: &snapshot, access: &access, scope: &scope, entry, placed };
    match subject.placed.summary {
        Some(_) => subject.summary(arguments, budget, cap),
        None => subject.message(arguments, budget),
    }
}

/// A node that is described.
struct Subject<'a> {
    snapshot: &'a Snapshot,
    access: &'a Access<'a>,
    scope: &'a Scope,
    entry: Entry,
    placed: Placed,
}

impl Subject<'_> {
    /// Where it is, and what is around it.
    fn head(&self) -> Result<Object, ToolError> {
        let session = self.snapshot.session(self.entry.session)?;
        let mut shown = Shown::new(self.snapshot, self.access, Some(self.scope), self.access.is_own(session.id));
        let mut head = shown.place(&self.entry, Some(&session))?;
        if self.entry.summary.is_none() {
            head.number("token_count", self.entry.tokens);
        }
        let parents = self.snapshot.parents(self.placed.record)?;
        let mut handles = Vec::new();
        for record in parents.into_iter().take(NEAR_MAX) {
            handles.extend(self.handle_in_scope(record)?);
        }
        if !handles.is_empty() {
            head.names("summarised_by", handles.iter().map(String::as_str));
        }
        Ok(head)
    }

    fn handle_in_scope(&self, record: RecordNumber) -> Result<Option<String>, ToolError> {
        let mut buffer = Buffer::default();
        self.snapshot.read(record, &mut buffer)?;
        let is_seen = !self.snapshot.places_of(self.scope, &buffer.id())?.is_empty();
        Ok(is_seen.then(|| lcm_core::Handle::summary(buffer.id()).to_string()))
    }

    fn message(&self, mut arguments: Arguments, mut budget: Budget) -> Answered {
        let mut buffer = Buffer::default();
        self.snapshot.read(self.placed.record, &mut buffer)?;
        let broken = |error| ToolError::from(unreadable(self.placed.arrival, error));
        let parts = buffer.with_message(|message| message.tree().map(|tree| Parts::of(&tree, Form::Readable)));
        let parts = parts.map_err(broken)?;
        let tools = canon::outline(buffer.canon()).map_err(broken)?.tool_names;
        let mut head = self.head()?;
        head.number("content_chars", count(parts.content.chars().count()));
        head.number("calls_chars", count(parts.calls.chars().count()));
        if let Some(id) = &parts.call_id {
            head.text("tool_call_id", id);
        }
        let tools: Vec<&str> = tools.iter().map(|name| &**name).filter(|name| is_name(name)).take(NEAR_MAX).collect();
        if !tools.is_empty() {
            head.names("tools", tools);
        }
        if !parts.left_out.is_empty() {
            head.names("not_shown", parts.left_out.iter().map(String::as_str));
        }
        let places = self.snapshot.places_of(self.scope, &self.entry.handle.id)?;
        if places.len() > 1 {
            head.number("places", count(places.len()));
            let others: Vec<String> = places.iter().take(NEAR_MAX).map(|placed| placed.arrival.to_string()).collect();
            head.json("store_ids", &format!("[{}]", others.join(",")));
        }
        let forms = self.snapshot.revisions(self.placed.arrival)?;
        if !forms.is_empty() {
            head.number("later_forms", count(forms.len()));
        }
        if self.snapshot.pins(self.entry.session)?.contains(&self.entry.number) {
            head.flag("pinned", true);
        }
        head.text("expand_hint", &format!("lcm_expand store_id={}", self.entry.number));
        let is_whole = arguments.flag("expand_file")?;
        let bytes = arguments.number("max_bytes")?.and_then(|bytes| usize::try_from(bytes).ok());
        arguments.tell(&mut head);
        budget.take(head.cost());
        let said = if parts.content.is_empty() { &parts.calls } else { &parts.content };
        let end = match (is_whole, bytes) {
            (false, None) => said.char_indices().nth(PREVIEW_CHARS).map_or(said.len(), |(at, _)| at),
            (_, bytes) => said.floor_char_boundary(bytes.unwrap_or(CONTENT_BYTES)),
        };
        let least = said.chars().next().map_or(0, char::len_utf8);
        let end = fitting_bytes(&said[..end], budget.left()).max(least);
        head.quote(if is_whole { "content" } else { "preview" }, &said[..end]);
        if end < said.len() {
            head.flag("cut", true);
        }
        Ok(head.finish())
    }

    fn summary(&self, arguments: Arguments, mut budget: Budget, cap: u64) -> Answered {
        let summary = self.snapshot.summary(self.placed.record, &mut Buffer::default())?;
        let stamp = cursor::stamp("lcm_describe", [self.entry.number.to_string().as_str(), &cap.to_string()]);
        let skip = match arguments.text("cursor")? {
            None => 0,
            Some(text) => cursor::of(&text, &stamp)?
                .parse::<usize>()
                .map_err(|_| ToolError::Said("that is no cursor: leave it out to begin anew".to_owned()))?,
        };
        let mut head = self.head()?;
        head.number("source_token_count", summary.source_tokens);
        head.number("children", count(summary.children().len()));
        head.number("level", summary.level.number());
        if is_name(&summary.model) {
            head.text("model", &summary.model);
        }
        let shown = match self.snapshot.session(self.entry.session) {
            Ok(session) => history::folds_shown(self.snapshot, &session)?.contains(&self.entry.handle.id),
            Err(error) => return Err(error.into()),
        };
        head.flag("shown", shown);
        arguments.tell(&mut head);
        budget.take(head.cost());
        if skip == 0 {
            // Half of the room is for what it says, half for what it stands for.
            let mut room = budget.left();
            (room.tokens, room.chars, room.bytes) = (room.tokens / 2, room.chars / 2, room.bytes / 2);
            let mut said = Object::new();
            let least = summary.text().chars().next().map_or(0, char::len_utf8);
            let end = fitting_bytes(summary.text(), room).max(least);
            said.quote("content", &summary.text()[..end]);
            if end < summary.text().len() {
                said.flag("content_truncated", true);
            }
            let mentions = summary.mentions.join("\n");
            let room = room.less(said.cost());
            let end = fitting_bytes(&mentions, room);
            if end > 0 {
                said.quote("mentions", &mentions[..end]);
            }
            budget.take(said.cost());
            let said = said.finish();
            // The same entries, in the object of the answer.
            head.json("summary", &said);
        }
        let nodes = self.subtree()?;
        let mut items = Vec::new();
        let mut at = skip.min(nodes.len());
        while at < nodes.len() {
            let item = self.node(&nodes[at], cap)?;
            if !budget.add(&item) && !items.is_empty() {
                break;
            }
            items.push(item);
            at += 1;
        }
        head.objects("subtree", &items).number("subtree_nodes", count(nodes.len()));
        head.flag("has_more", at < nodes.len());
        if at < nodes.len() {
            head.flag("cut", true).text("cursor", &cursor::put(&stamp, &at.to_string()));
        }
        Ok(head.finish())
    }

    /// What lies below a summary: summaries from above to below; of one that stands for messages, those.
    fn subtree(&self) -> Result<Vec<(Placed, usize)>, ToolError> {
        let mut nodes = Vec::new();
        let mut open = vec![(self.placed.clone(), 0)];
        while let Some((placed, level)) = open.pop() {
            if nodes.len() == SUBTREE_MAX {
                break;
            }
            if level > 0 {
                nodes.push((placed.clone(), level));
            }
            if placed.summary.is_none() {
                continue;
            }
            let children = self.snapshot.child_places(self.scope, placed.record)?;
            let is_leaf = children.iter().all(|child| child.summary.is_none());
            if is_leaf && level > 0 {
                continue;
            }
            let below = children.into_iter().rev().filter(|child| child.arrival < placed.arrival);
            open.extend(below.map(|child| (child, level + 1)));
        }
        Ok(nodes)
    }

    fn node(&self, (placed, level): &(Placed, usize), cap: u64) -> Result<String, ToolError> {
        let entry = Entries::new(self.snapshot).entry(placed)?;
        let mut item = Object::new();
        let cost = match placed.summary {
            Some(number) => {
                let summary = self.snapshot.summary(placed.record, &mut Buffer::default())?;
                item.number("node_id", number.0).text("handle", &entry.handle.to_string());
                item.number("depth", summary.depth()).number("children", count(summary.children().len()));
                item.number("token_count", entry.tokens).number("source_token_count", summary.source_tokens);
                summary.source_tokens
            }
            None => {
                item.number("store_id", entry.number.0).text("handle", &entry.handle.to_string());
                item.text("role", entry.role.name()).number("token_count", entry.tokens);
                item.text("time", &rfc3339(entry.seen_ms));
                u64::from(entry.tokens)
            }
        };
        item.number("below", count(*level)).flag("in_budget", cost <= cap);
        Ok(item.finish())
    }
}

/// One summary of a conversation.
pub(super) struct Known {
    pub(super) placed: Placed,
    pub(super) id: NodeId,
    pub(super) depth: u16,
    pub(super) source_tokens: u64,
}

/// The summaries that a conversation shows, and those below them; at most so many, and whether these are all.
pub(super) fn summaries(
    snapshot: &Snapshot,
    scope: &Scope,
    session: &Session,
) -> Result<(Vec<Known>, bool), ToolError> {
    let mut open = Vec::new();
    for fold in history::folds_shown(snapshot, session)? {
        open.extend(snapshot.places_of(scope, &fold)?.into_iter().next());
    }
    open.reverse();
    let mut known = Vec::new();
    let mut buffer = Buffer::default();
    while let Some(placed) = open.pop() {
        if known.len() == OVERVIEW_MAX {
            return Ok((known, false));
        }
        let summary = snapshot.summary(placed.record, &mut buffer)?;
        if summary.depth() > 1 {
            let children = snapshot.child_places(scope, placed.record)?.into_iter().rev();
            open.extend(children.filter(|child| child.summary.is_some() && child.arrival < placed.arrival));
        }
        known.push(Known { id: buffer.id(), depth: summary.depth(), source_tokens: summary.source_tokens, placed });
    }
    Ok((known, true))
}

/// Counts of some summaries, by depth; so many of each are named.
pub(super) fn depths(summaries: &[Known], named_max: usize) -> String {
    let mut depths: BTreeMap<u16, Vec<&Known>> = BTreeMap::new();
    for known in summaries {
        depths.entry(known.depth).or_default().push(known);
    }
    let mut object = Object::new();
    for (depth, nodes) in depths {
        let mut of_depth = Object::new();
        of_depth.number("count", count(nodes.len()));
        of_depth.number("total_tokens", nodes.iter().map(|known| u64::from(known.placed.tokens)).sum::<u64>());
        of_depth.number("total_source_tokens", nodes.iter().map(|known| known.source_tokens).sum::<u64>());
        let mut named = Vec::new();
        for known in nodes.iter().take(named_max) {
            let mut node = Object::new();
            if let Some(number) = known.placed.summary {
                node.number("node_id", number.0);
            }
            node.text("handle", &lcm_core::Handle::summary(known.id).to_string());
            node.number("token_count", known.placed.tokens).number("source_token_count", known.source_tokens);
            named.push(node.finish());
        }
        if named_max > 0 {
            of_depth.objects("nodes", &named);
        }
        object.json(&format!("d{depth}"), &of_depth.finish());
    }
    object.finish()
}

fn overview(snapshot: &Snapshot, access: &Access<'_>, mut arguments: Arguments, budget: Budget) -> Answered {
    let session = match arguments.text("session_id")?.filter(|text| !text.trim().is_empty()) {
        Some(text) => Some(access.session(&text)?),
        None => access.own.clone(),
    };
    arguments.ignore("cursor");
    let mut object = Object::new();
    if session.is_none() && access.is_outside {
        return overview_of_all(snapshot, access, &arguments, budget);
    }
    let Some(session) = session else {
        object.number("store_message_count", 0_u64).json("depths", "{}");
        object.text("scope_note", "nothing was said yet that can be read here");
        arguments.tell(&mut object);
        return Ok(object.finish());
    };
    let scope = access.all()?.ok_or_else(|| ToolError::Said("there is nothing that can be read here".to_owned()))?;
    object.text("session_id", &name_of(&session)).text("session", &format!("#{}", session.id));
    object.text("created", &rfc3339(session.created_ms));
    object.number("store_message_count", snapshot.log_len(session.timeline)?);
    object.number("pinned", count(snapshot.pins(session.id)?.len()));
    let (known, is_all) = summaries(snapshot, &scope, &session)?;
    object.number("shown_folds", count(history::folds_shown(snapshot, &session)?.len()));
    if !is_all {
        arguments.note(format!("only the first {OVERVIEW_MAX} summaries are counted"));
    }
    arguments.tell(&mut object);
    let mut named = NAMED_MAX;
    loop {
        let mut whole = object.clone();
        whole.json("depths", &depths(&known, named));
        let is_cut = named < NAMED_MAX && known.len() > named;
        if is_cut {
            whole.flag("cut", true);
        }
        let text = whole.finish();
        if named == 0 || budget.holds(&text) {
            return Ok(text);
        }
        named /= 2;
    }
}

/// What there is for a reader who is in no conversation: the newest sessions, so that calls can name one.
fn overview_of_all(snapshot: &Snapshot, access: &Access<'_>, arguments: &Arguments, mut budget: Budget) -> Answered {
    let mut sessions = access.all()?.map_or(Ok(Vec::new()), |scope| snapshot.sessions(&scope))?;
    sessions.sort_by_key(|session| std::cmp::Reverse(session.id));
    let mut object = Object::new();
    object.number("sessions", count(sessions.len()));
    arguments.tell(&mut object);
    budget.take(object.cost());
    let mut items = Vec::new();
    for session in sessions.iter().take(NAMED_MAX) {
        let mut item = Object::new();
        item.text("session_id", &name_of(session)).text("session", &format!("#{}", session.id));
        item.text("created", &rfc3339(session.created_ms));
        item.number("store_message_count", snapshot.log_len(session.timeline)?);
        let item = item.finish();
        if !budget.add(&item) {
            break;
        }
        items.push(item);
    }
    object.objects("newest", &items).flag("has_more", items.len() < sessions.len());
    let note =
        if sessions.is_empty() { "nothing was said yet that can be read here" } else { "name one with session_id" };
    object.text("scope_note", note);
    Ok(object.finish())
}
