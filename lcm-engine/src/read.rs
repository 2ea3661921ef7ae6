//! Reading: sessions, their messages, what a node stands for, how the store is.
//!
//! Every function answers from one snapshot and within the reader's scope. Pages are bounded; only counts run over
//! whole timelines, and those read no message.

use std::collections::{BTreeSet, VecDeque};

use lcm_core::{Arrival, NodeId, OrderKey, Role, SessionId, TimelineId, canon, text};
use lcm_store::{Buffer, FORMAT, Listed, Order, Placed, RecordNumber, Scope, Session, Snapshot, Store, StoreError};
use rayon::prelude::*;

use crate::error::EngineError;
use crate::find::{self, Entries, unreadable};
use crate::hosts;
use crate::service::{
    Child, Description, DownTo, ExpandRequest, Expansion, LogLine, LogPage, LogRequest, ReadPage, ReadRequest,
    Revision, SessionDescription, SessionEntry, Status, SummaryDescription, SummaryPage, TimelineEntry, Whole,
};

/// Places of a timeline that are held at once.
const PAGE: usize = 1024;
/// Places of one node that a description names: more than anybody reads.
const PLACES_MAX: usize = 1000;
/// Children of a summary that are read at once.
const CHILDREN_AT_ONCE: usize = 256;
/// Summaries above a node that a description names.
const PARENTS_MAX: usize = 1000;

pub(crate) fn sessions(snapshot: &Snapshot, scope: &Scope) -> Result<Vec<SessionEntry>, EngineError> {
    let sessions = snapshot.sessions(scope)?;
    sessions.into_par_iter().with_min_len(8).map(|session| session_entry(snapshot, session)).collect()
}

fn session_entry(snapshot: &Snapshot, session: Session) -> Result<SessionEntry, EngineError> {
    let mut entry = SessionEntry { session, messages: 0, tokens: 0, span_ms: None };
    let timeline = entry.session.timeline;
    let counted = each_listed(snapshot, timeline, |listed| {
        // One that is damaged is not counted: a list of sessions must not end at it.
        let Listed::Whole(placed) = listed else { return Ok(Go::On) };
        entry.messages += 1;
        entry.tokens = entry.tokens.saturating_add(u64::from(placed.tokens));
        let (first, last) = entry.span_ms.unwrap_or((placed.seen_ms, placed.seen_ms));
        entry.span_ms = Some((first.min(placed.seen_ms), last.max(placed.seen_ms)));
        Ok(Go::On)
    });
    match counted {
        // Where not even the listing can be read, the session is still one.
        Err(EngineError::Store(error)) if error.is_damage() => Ok(entry),
        counted => counted.map(|()| entry),
    }
}

/// Whether a walk goes on.
enum Go {
    On,
    Stop,
}

/// Hands over the places of a timeline in order, with their positions from 1.
fn each_place(
    snapshot: &Snapshot,
    timeline: TimelineId,
    mut each: impl FnMut(u64, Placed) -> Result<Go, EngineError>,
) -> Result<(), EngineError> {
    let mut position = 0;
    each_listed(snapshot, timeline, |listed| {
        position += 1;
        each(position, listed.whole()?)
    })
}

/// Hands over the lines of a timeline in order, also those that cannot be read.
fn each_listed(
    snapshot: &Snapshot,
    timeline: TimelineId,
    mut each: impl FnMut(Listed) -> Result<Go, EngineError>,
) -> Result<(), EngineError> {
    let mut behind = None::<OrderKey>;
    loop {
        let page = snapshot.listed(timeline, behind.as_ref(), PAGE)?;
        let is_last = page.len() < PAGE;
        behind = page.last().map(|listed| listed.order().clone());
        for listed in page {
            if let Go::Stop = each(listed)? {
                return Ok(());
            }
        }
        if is_last {
            return Ok(());
        }
    }
}

/// The timeline asked for, else the one the session goes on with.
fn timeline_of(snapshot: &Snapshot, session: &Session, asked: Option<TimelineId>) -> Result<TimelineId, EngineError> {
    let Some(timeline) = asked else { return Ok(session.timeline) };
    let none = || EngineError::NoTimeline { session: session.id, timeline };
    match snapshot.timeline(timeline) {
        Ok(found) if found.session == session.id => Ok(timeline),
        Ok(_) | Err(StoreError::NoTimeline(_)) => Err(none()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn log(snapshot: &Snapshot, request: &LogRequest) -> Result<LogPage, EngineError> {
    let session = find::session(snapshot, &request.scope, request.session)?;
    let timeline = timeline_of(snapshot, &session, request.timeline)?;
    let max = request.max.max(1);
    // One more than asked for tells where to go on.
    let mut kept: VecDeque<(u64, Placed)> = VecDeque::new();
    let mut is_found = request.from.is_none();
    each_place(snapshot, timeline, |position, placed| {
        let is_from = Some(placed.arrival) == request.from;
        is_found |= is_from;
        match request.order {
            Order::Oldest if is_found => {
                kept.push_back((position, placed));
                Ok(if kept.len() > max { Go::Stop } else { Go::On })
            }
            Order::Oldest => Ok(Go::On),
            Order::Newest => {
                kept.push_back((position, placed));
                if kept.len() > max + 1 {
                    kept.pop_front();
                }
                Ok(if is_from { Go::Stop } else { Go::On })
            }
        }
    })?;
    if let (Some(number), false) = (request.from, is_found) {
        return Err(EngineError::NotOnTimeline { number, timeline });
    }
    let mut next = None;
    if kept.len() > max {
        let extra = if request.order == Order::Oldest { kept.pop_back() } else { kept.pop_front() };
        next = extra.map(|(_, placed)| placed.arrival);
    }
    let mut entries = Entries::new(snapshot);
    let lines = kept.iter().map(|(position, placed)| {
        let entry = entries.entry(placed)?;
        let headline = entries
            .buffer()
            .with_message(|message| text::headline(&message, request.headline_chars))
            .map_err(|error| unreadable(placed.arrival, error))?;
        Ok(LogLine { entry, position: *position, headline })
    });
    let mut lines: Vec<LogLine> = lines.collect::<Result<_, EngineError>>()?;
    if request.order == Order::Newest {
        lines.reverse();
    }
    Ok(LogPage { session, timeline, lines, next })
}

pub(crate) fn read(snapshot: &Snapshot, request: &ReadRequest) -> Result<ReadPage, EngineError> {
    let session = find::session(snapshot, &request.scope, request.session)?;
    let timeline = timeline_of(snapshot, &session, request.timeline)?;
    let max = request.max.max(1);
    let mut entries = Entries::new(snapshot);
    let mut page = ReadPage { session, timeline, messages: Vec::new(), next: None };
    let (mut bytes, mut is_found) = (0_usize, request.from.is_none());
    each_place(snapshot, timeline, |_, placed| {
        is_found |= Some(placed.arrival) == request.from;
        if !is_found {
            return Ok(Go::On);
        }
        if page.messages.len() == max || (bytes >= request.bytes_max && !page.messages.is_empty()) {
            page.next = Some(placed.arrival);
            return Ok(Go::Stop);
        }
        let whole = whole(snapshot, &mut entries, &placed)?;
        bytes = bytes.saturating_add(whole.json.len());
        page.messages.push(whole);
        Ok(Go::On)
    })?;
    match (request.from, is_found) {
        (Some(number), false) => Err(EngineError::NotOnTimeline { number, timeline }),
        _ => Ok(page),
    }
}

/// A message with everything that belongs to it.
fn whole(snapshot: &Snapshot, entries: &mut Entries<'_>, placed: &Placed) -> Result<Whole, EngineError> {
    let entry = entries.entry(placed)?;
    let (json, source) = entries
        .buffer()
        .with_message(|message| Ok(hosts::said(&message.tree()?, &placed.volatile)))
        .map_err(|error| unreadable(placed.arrival, error))?;
    let revisions = revisions(snapshot, placed.arrival)?;
    Ok(Whole { entry, json, source, revisions })
}

fn revisions(snapshot: &Snapshot, number: Arrival) -> Result<Vec<Revision>, EngineError> {
    let mut buffer = Buffer::default();
    let one = |(record, seen_ms, volatile): (RecordNumber, i64, Vec<u8>)| {
        snapshot.read(record, &mut buffer)?;
        let said = buffer.with_message(|message| Ok(hosts::said(&message.tree()?, &volatile)));
        let (json, _) = said.map_err(|error| unreadable(number, error))?;
        Ok(Revision { id: buffer.id(), seen_ms, json })
    };
    snapshot.revisions(number)?.into_iter().map(one).collect()
}

/// What stands at a number, when the scope reaches it.
fn place(snapshot: &Snapshot, scope: &Scope, number: Arrival) -> Result<Placed, EngineError> {
    snapshot.find_place(scope, number)?.ok_or(EngineError::NoPlace(number))
}

pub(crate) fn expand(snapshot: &Snapshot, request: &ExpandRequest) -> Result<Expansion, EngineError> {
    let placed = place(snapshot, &request.scope, request.number)?;
    let mut entries = Entries::new(snapshot);
    if placed.summary.is_none() {
        return whole(snapshot, &mut entries, &placed).map(Expansion::Message);
    }
    let summary = snapshot.summary(placed.record, &mut Buffer::default())?;
    let entry = entries.entry(&placed)?;
    let places = match request.down_to {
        DownTo::Children => snapshot.child_places(&request.scope, placed.record)?,
        DownTo::Originals => originals(snapshot, &request.scope, placed)?,
    };
    let mut page = SummaryPage {
        entry,
        text: summary.text().to_owned(),
        children: Vec::new(),
        children_all: places.len(),
        next: None,
    };
    let has_revisions = snapshot.has_revisions()?;
    let mut bytes = 0_usize;
    let mut given = request.skip.min(places.len());
    // Many are read at once, on all cores; a few too many where the page ends in bytes.
    for places in places[given..].chunks(CHILDREN_AT_ONCE) {
        let records: Vec<RecordNumber> = places.iter().map(|placed| placed.record).collect();
        let said = snapshot.read_each(&records, |i, buffer| child(&places[i], buffer))?;
        for (placed, said) in places.iter().zip(said) {
            let is_full = page.children.len() == request.max.max(1) || bytes >= request.bytes_max;
            if is_full && !page.children.is_empty() {
                page.next = Some(given);
                return Ok(Expansion::Summary(page));
            }
            let entry = entries.named(placed, said.id, said.role)?;
            bytes = bytes.saturating_add(said.json.len() + said.text.len());
            page.children.push(match placed.summary {
                Some(_) => Child::Summary { entry, text: said.text },
                None => {
                    let revisions = if has_revisions { revisions(snapshot, placed.arrival)? } else { Vec::new() };
                    Child::Message(Whole { entry, json: said.json, source: said.source, revisions })
                }
            });
            given += 1;
        }
    }
    Ok(Expansion::Summary(page))
}

/// What is read of a child.
struct Said {
    id: NodeId,
    role: Role,
    json: Vec<u8>,
    source: Vec<u8>,
    text: String,
}

fn child(placed: &Placed, buffer: &Buffer) -> Result<Said, EngineError> {
    let id = buffer.id();
    let broken = |error| unreadable(placed.arrival, error);
    if placed.summary.is_some() {
        let text = canon::decode_summary(buffer.canon()).map_err(broken)?.text().to_owned();
        return Ok(Said { id, role: Role::Other, json: Vec::new(), source: Vec::new(), text });
    }
    let said = buffer.with_message(|message| {
        let tree = message.tree()?;
        let (json, source) = hosts::said(&tree, &placed.volatile);
        Ok(Said { id, role: tree.role(), json, source, text: String::new() })
    });
    said.map_err(broken)
}

/// The places of the messages that a summary stands for, in order.
fn originals(snapshot: &Snapshot, scope: &Scope, summary: Placed) -> Result<Vec<Placed>, EngineError> {
    let (mut messages, mut open) = (Vec::new(), vec![summary]);
    while let Some(placed) = open.pop() {
        if placed.summary.is_none() {
            messages.push(placed);
        } else {
            // What a summary stands for came before it; a store that says otherwise must not lead us in a circle.
            let children = snapshot.child_places(scope, placed.record)?.into_iter().rev();
            open.extend(children.filter(|child| child.arrival < placed.arrival));
        }
    }
    Ok(messages)
}

/// Finds the place at which a node is meant by its neighbours.
struct Near<'a> {
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    timeline: TimelineId,
}

impl Near<'_> {
    /// A place of the node on the same timeline, else its first in scope.
    fn place_of(&self, record: RecordNumber) -> Result<Option<Placed>, EngineError> {
        let mut buffer = Buffer::default();
        self.snapshot.read(record, &mut buffer)?;
        let places = self.snapshot.places_of(self.scope, &buffer.id())?;
        let here = places.iter().position(|placed| placed.timeline == self.timeline);
        Ok(places.into_iter().nth(here.unwrap_or(0)))
    }
}

pub(crate) fn describe(snapshot: &Snapshot, scope: &Scope, number: Arrival) -> Result<Description, EngineError> {
    let placed = place(snapshot, scope, number)?;
    let mut entries = Entries::new(snapshot);
    let entry = entries.entry(&placed)?;
    // The place is in scope, though it may have been said in a session that this one branched off.
    let session = snapshot.session(entry.session)?;
    let near = Near { snapshot, scope, timeline: placed.timeline };
    let all_places = snapshot.places_of(scope, &entry.handle.id)?;
    let mut description = Description {
        entry: entry.clone(),
        session,
        position: None,
        places_all: all_places.len(),
        places: Vec::new(),
        bytes: 0,
        tools: Vec::new(),
        revisions: revisions(snapshot, number)?,
        parents: Vec::new(),
        summary: None,
        source: Vec::new(),
    };
    if placed.summary.is_some() {
        let summary = snapshot.summary(placed.record, &mut Buffer::default())?;
        let mut children = Vec::new();
        for placed in snapshot.child_places(scope, placed.record)? {
            children.push(entries.entry(&placed)?);
        }
        description.bytes = u64::try_from(summary.text().len()).unwrap_or(u64::MAX);
        description.summary = Some(SummaryDescription {
            depth: summary.depth(),
            children,
            level: summary.level,
            model: summary.model.clone(),
            prompt_version: summary.prompt_version,
            span_ms: summary.span_ms(),
            source_tokens: summary.source_tokens,
            marks: summary.marks,
            mentions: summary.mentions,
        });
    } else {
        let whole = whole(snapshot, &mut entries, &placed)?;
        description.bytes = u64::try_from(whole.json.len()).unwrap_or(u64::MAX);
        description.source = whole.source;
        let outline = canon::outline(entries.buffer().canon()).map_err(|error| unreadable(number, error))?;
        description.tools = outline.tool_names.into_iter().map(std::borrow::Cow::into_owned).collect();
        each_place(snapshot, placed.timeline, |position, other| {
            let is_it = other.arrival == number;
            if is_it {
                description.position = Some(position);
            }
            Ok(if is_it { Go::Stop } else { Go::On })
        })?;
    }
    for placed in all_places.iter().take(PLACES_MAX) {
        description.places.push(entries.named(placed, entry.handle.id, entry.role)?);
    }
    for record in snapshot.parents(placed.record)?.into_iter().take(PARENTS_MAX) {
        if let Some(placed) = near.place_of(record)? {
            description.parents.push(entries.entry(&placed)?);
        }
    }
    Ok(description)
}

pub(crate) fn describe_session(
    snapshot: &Snapshot,
    scope: &Scope,
    session: SessionId,
) -> Result<SessionDescription, EngineError> {
    let entry = session_entry(snapshot, find::session(snapshot, scope, session)?)?;
    let mut timelines = Vec::new();
    for id in snapshot.timelines_of(session)? {
        let timeline = snapshot.timeline(id)?;
        let parent = match &timeline.parent {
            None => None,
            Some((parent, last)) => Some((*parent, shared(snapshot, id, last)?)),
        };
        timelines.push(TimelineEntry { id, parent, messages: snapshot.log_len(id)?, created_ms: timeline.created_ms });
    }
    Ok(SessionDescription { entry, timelines })
}

/// How many messages of a timeline stand up to and with `last`.
pub(crate) fn shared(snapshot: &Snapshot, timeline: TimelineId, last: &OrderKey) -> Result<u64, EngineError> {
    shared_without(snapshot, timeline, last, &BTreeSet::new())
}

/// The same without those that are left out, whose numbers are given.
pub(crate) fn shared_without(
    snapshot: &Snapshot,
    timeline: TimelineId,
    last: &OrderKey,
    left_out: &BTreeSet<Arrival>,
) -> Result<u64, EngineError> {
    let mut count = 0;
    each_listed(snapshot, timeline, |listed| {
        if listed.order() > last {
            return Ok(Go::Stop);
        }
        if !left_out.contains(&listed.arrival()) {
            count += 1;
        }
        Ok(Go::On)
    })?;
    Ok(count)
}

pub(crate) fn status(store: &Store) -> Result<Status, EngineError> {
    let snapshot = store.snapshot()?;
    Ok(Status {
        home: store.home().to_owned(),
        format: FORMAT,
        sessions: u64::try_from(snapshot.sessions(&Scope::everything())?.len()).unwrap_or(u64::MAX),
        places: snapshot.places_len()?,
        records: snapshot.record_rows_len()?,
        data_bytes: data_bytes(store),
        index: store.index_status()?,
    })
}

/// What the data files take on the disk; what cannot be looked at is not counted.
fn data_bytes(store: &Store) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(files) = std::fs::read_dir(store.home()) else { return 0 };
    let is_data = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with("store."));
    // Blocks of 512 bytes, whatever the file system's own are.
    let sizes = files.flatten().filter(|file| is_data(&file.file_name())).filter_map(|file| file.metadata().ok());
    sizes.map(|metadata| metadata.blocks().saturating_mul(512)).sum()
}
