//! Everything that was said in sessions, record by record. How a record looks in a file is `hosts/export`.
//!
//! A message that is damaged is named and left out, and the export goes on: this is how one saves what can be read. Rows
//! that a damaged page hides have no name; where there are any, there is no export, as it would look whole.

use std::collections::BTreeSet;

use lcm_core::canon;
use lcm_core::{Arrival, OrderKey, TimelineId};
use lcm_store::{Buffer, Listed, Placed, RecordNumber, Snapshot, Store};

use crate::error::EngineError;
use crate::find::unreadable;
use crate::read::shared_without;
use crate::service::{ExportMessage, ExportRecord, ExportRequest, ExportRevision};

/// Messages that are read from one snapshot. A snapshot pins pages, and whoever takes the records may be slow.
const PAGE: usize = 512;

type Each<'a> = dyn FnMut(ExportRecord) -> Result<(), EngineError> + 'a;

pub(crate) fn export(store: &Store, request: &ExportRequest, each: &mut Each<'_>) -> Result<(), EngineError> {
    // What is damaged is named on the way; what is hidden would not be missed by anybody.
    store.snapshot()?.check_listed()?;
    each(ExportRecord::Begin { at_ms: request.now_ms })?;
    // What comes while we are at it is left for the next export: a branch may share it otherwise.
    let newest = store.snapshot()?.last_arrival()?;
    let mut export = Export { store, newest, messages: 0, left_out: BTreeSet::new(), written: BTreeSet::new(), each };
    let mut sessions = 0;
    for session in store.snapshot()?.sessions(&request.scope)? {
        sessions += 1;
        let (id, current) = (session.id, session.timeline);
        (export.each)(ExportRecord::Session(session))?;
        export.written.clear();
        for timeline in store.snapshot()?.timelines_of(id)? {
            export.timeline(timeline, timeline == current)?;
        }
    }
    let messages = export.messages;
    each(ExportRecord::End { sessions, messages })
}

/// An export on its way.
struct Export<'e, 's> {
    store: &'s Store,
    /// The newest message that belongs to it.
    newest: Arrival,
    /// Messages handed over.
    messages: u64,
    /// Damaged messages, which have no line: a branch does not share them.
    left_out: BTreeSet<Arrival>,
    /// Timelines of the session that were handed over. A branch of another session's is handed over whole: of that session
    /// nothing may be wanted, or it may come later.
    written: BTreeSet<TimelineId>,
    each: &'e mut Each<'s>,
}

impl Export<'_, '_> {
    fn timeline(&mut self, id: TimelineId, is_current: bool) -> Result<(), EngineError> {
        let timeline = self.store.snapshot()?.timeline(id)?;
        self.written.insert(id);
        let (parent, mut behind) = match timeline.parent.filter(|(parent, _)| self.written.contains(parent)) {
            None => (None, None),
            Some((parent, last)) => {
                let shared = shared_without(&self.store.snapshot()?, id, &last, &self.left_out)?;
                (Some((parent, shared)), Some(last))
            }
        };
        (self.each)(ExportRecord::Timeline { id, parent, is_current })?;
        loop {
            let Page { places, is_last } = read_page(&self.store.snapshot()?, id, &mut behind)?;
            for (number, read) in places.into_iter().filter(|(number, _)| *number <= self.newest) {
                match read {
                    Ok((message, damage)) => {
                        self.messages += 1;
                        (self.each)(ExportRecord::Message(message))?;
                        for error in damage {
                            let why = format!("a later form of it: {error}");
                            (self.each)(ExportRecord::Damaged { number, why })?;
                        }
                    }
                    Err(error) => {
                        self.left_out.insert(number);
                        (self.each)(ExportRecord::Damaged { number, why: error.to_string() })?;
                    }
                }
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

/// A message with what is damaged of its later forms, or what is wrong with it.
type Read = Result<(ExportMessage, Vec<EngineError>), EngineError>;

/// Some lines of a timeline, read.
struct Page {
    places: Vec<(Arrival, Read)>,
    is_last: bool,
}

fn read_page(snapshot: &Snapshot, timeline: TimelineId, behind: &mut Option<OrderKey>) -> Result<Page, EngineError> {
    let listed = snapshot.listed(timeline, behind.as_ref(), PAGE)?;
    if let Some(last) = listed.last() {
        *behind = Some(last.order().clone());
    }
    let is_last = listed.len() < PAGE;
    let whole: Vec<&Placed> = listed.iter().filter_map(Listed::placed).collect();
    let records: Vec<RecordNumber> = whole.iter().map(|placed| placed.record).collect();
    let one = |placed: &Placed, buffer: &Buffer| Ok::<_, EngineError>((buffer.id(), json(buffer, placed)?));
    let said = match snapshot.read_each(&records, |i, buffer| one(whole[i], buffer)) {
        Ok(said) => said.into_iter().map(Ok).collect(),
        Err(error) if is_damage(&error) => {
            // One of them at least: read one by one, the others are found to be whole.
            let mut buffer = Buffer::default();
            let mut read = |placed: &&Placed| {
                snapshot.read(placed.record, &mut buffer)?;
                one(placed, &buffer)
            };
            whole.iter().map(|placed| sorted_out(read(placed))).collect::<Result<Vec<_>, _>>()?
        }
        Err(error) => return Err(error),
    };
    let has_revisions = snapshot.has_revisions()?;
    let mut said = said.into_iter();
    let mut places = Vec::with_capacity(listed.len());
    for listed in listed {
        let number = listed.arrival();
        let read = match listed {
            Listed::Damaged { why, .. } => Err(why.into()),
            Listed::Whole(placed) => match said.next().expect("one was read for each that is whole") {
                Err(error) => Err(error),
                Ok((id, json)) => {
                    let (revisions, damage) =
                        if has_revisions { revisions(snapshot, &placed)? } else { Default::default() };
                    let Placed { seen_ms, volatile, .. } = placed;
                    Ok((ExportMessage { number, id, seen_ms, volatile, json, revisions }, damage))
                }
            },
        };
        places.push((number, read));
    }
    Ok(Page { places, is_last })
}

/// Whether something is damaged, beside which the rest may be whole.
fn is_damage(error: &EngineError) -> bool {
    matches!(error, EngineError::Store(error) if error.is_damage())
}

/// What is damaged is told of; every other error ends the export.
fn sorted_out<T>(read: Result<T, EngineError>) -> Result<Result<T, EngineError>, EngineError> {
    match read {
        Err(error) if !is_damage(&error) => Err(error),
        read => Ok(read),
    }
}

/// The message that was read, without what belongs to its place.
fn json(buffer: &Buffer, placed: &Placed) -> Result<Vec<u8>, EngineError> {
    let mut json = Vec::new();
    let written = buffer.with_message(|message| canon::write_json(&message, &mut json));
    written.map(|()| json).map_err(|error| unreadable(placed.arrival, error))
}

/// The later forms of a message, and what is wrong with those that cannot be read.
fn revisions(snapshot: &Snapshot, placed: &Placed) -> Result<(Vec<ExportRevision>, Vec<EngineError>), EngineError> {
    let listed = sorted_out(snapshot.revisions(placed.arrival).map_err(EngineError::from))?;
    let listed = match listed {
        Ok(listed) => listed,
        Err(error) => return Ok((Vec::new(), vec![error])),
    };
    let (mut revisions, mut damage, mut buffer) = (Vec::new(), Vec::new(), Buffer::default());
    for (record, seen_ms, volatile) in listed {
        let read = snapshot.read(record, &mut buffer).map_err(EngineError::from);
        match sorted_out(read.and_then(|()| json(&buffer, placed)))? {
            Ok(json) => revisions.push(ExportRevision { seen_ms, volatile, json }),
            Err(error) => damage.push(error),
        }
    }
    Ok((revisions, damage))
}

#[cfg(test)]
mod tests {
    use lcm_core::{Json, Message, Owner};
    use lcm_store::{OpenOptions, Scope};
    use proptest::prelude::*;

    use super::*;
    use crate::Engine;
    use crate::hosts::{self, DecodeOptions, Decoded, Incoming, IncomingMessage, IncomingRevision};
    use crate::service::{ImportOptions, InMessage, IngestRequest, Service, SessionKey, TurnRequest};

    fn owner() -> Owner {
        Owner { agent: "a".to_owned(), person: "p".to_owned() }
    }

    fn message(said: &str, seen_ms: i64) -> IncomingMessage {
        let message = Message::parse(said.as_bytes()).unwrap();
        IncomingMessage { seen_ms: Some(seen_ms), ..IncomingMessage::new(&message).unwrap() }
    }

    fn show(engine: &Engine, incoming: Incoming) {
        engine.ingest(IngestRequest { incoming, defaults: owner(), by: "test".to_owned(), now_ms: 9 }).unwrap();
    }

    fn text(engine: &Engine) -> Vec<u8> {
        text_in(engine, Scope::everything())
    }

    fn text_in(engine: &Engine, scope: Scope) -> Vec<u8> {
        let mut out = Vec::new();
        let request = ExportRequest { scope, now_ms: 0 };
        let mut each = |record: ExportRecord| {
            hosts::export::encode(&record, &mut out);
            Ok(())
        };
        engine.export(&request, &mut each).unwrap();
        out
    }

    /// Imports an export; gives how many messages were new.
    fn take_in(engine: &Engine, text: &[u8]) -> u64 {
        let options = DecodeOptions { format: None, name: "x".to_owned(), source: "y".to_owned() };
        let mut lists = Vec::new();
        hosts::decode(&mut &*text, &options, &mut |decoded| {
            match decoded {
                Decoded::Session(incoming) => lists.push(incoming),
                other => panic!("{other:?}"),
            }
            Ok(())
        })
        .unwrap();
        let options = ImportOptions { defaults: owner(), by: "test".to_owned(), now_ms: 9, indexing: &|_| {} };
        let mut new = 0;
        engine.import(&mut lists.into_iter(), &options, &mut |ingested| new += ingested.new).unwrap();
        new
    }

    fn engine() -> (tempfile::TempDir, Engine) {
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::open(home.path(), OpenOptions::default()).unwrap();
        (home, engine)
    }

    #[test]
    fn an_export_comes_back_with_places_times_revisions_and_branches() {
        let (_home, engine) = engine();
        let list =
            |messages| Incoming { name: "s".to_owned(), source: "t".to_owned(), messages, ..Incoming::default() };
        let mut revised = message(r#"{"role":"tool","content":"long"}"#, 2);
        revised.volatile = br#"{"lcm_source":{"row":1},"stamp":1.50}"#.to_vec();
        let form = message(r#"{"role":"tool","content":"cleared"}"#, 3);
        revised.revisions.push(IncomingRevision { encoded: form.encoded, seen_ms: 3, volatile: Vec::new() });
        let first = message(r#"{"role":"user","content":"\ud83d","n":1E400}"#, 1);
        show(&engine, list(vec![first.clone(), revised.clone(), message(r#"{"role":"user","content":"x"}"#, 4)]));
        show(&engine, list(vec![first, message(r#"{"role":"user","content":"y"}"#, 5)]));
        let exported = text(&engine);
        // The second import finds everything there.
        assert_eq!(take_in(&engine, &exported), 0);
        let (_home, fresh) = self::engine();
        assert_eq!(take_in(&fresh, &exported), 4);
        assert_eq!(String::from_utf8(text(&fresh)).unwrap(), String::from_utf8(exported).unwrap());
    }

    #[test]
    fn a_session_that_took_over_anothers_beginning_comes_out_whole() {
        let (_home, engine) = engine();
        let key = |name: &str| SessionKey { owner: owner(), name: name.to_owned() };
        let turn = |name: &str, count: usize| {
            let say = |n| format!(r#"{{"role":"user","content":"number {n}"}}"#).into_bytes();
            let (key, messages) = (key(name), InMessage::list((0..count).map(say)));
            let (source, by) = ("t".to_owned(), "test".to_owned());
            engine.turn(&TurnRequest { key, source, dialect: None, messages, by, now_ms: 9 }).unwrap()
        };
        assert_eq!((turn("old", 12).new, turn("new", 14).new), (12, 2));
        let session = engine.session_named(&key("new")).unwrap().unwrap();
        let alone = text_in(&engine, Scope::everything().in_sessions(vec![session.id]));
        let (_home, fresh) = self::engine();
        assert_eq!(take_in(&fresh, &alone), 14);
        assert_eq!(take_in(&fresh, &alone), 0);
        let all = text(&engine);
        assert_eq!(take_in(&engine, &all), 0);
        let (_home, fresh) = self::engine();
        take_in(&fresh, &all);
        let messages: Vec<u64> =
            fresh.sessions(&Scope::everything()).unwrap().iter().map(|entry| entry.messages).collect();
        assert_eq!(messages, [12, 14]);
    }

    #[test]
    fn a_message_as_deep_as_they_go_comes_back() {
        let depth = lcm_core::limits::JSON_DEPTH_MAX - 1;
        let deep = format!(r#"{{"content":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let (_home, engine) = engine();
        let incoming = Incoming { name: "s".to_owned(), messages: vec![message(&deep, 1)], ..Incoming::default() };
        show(&engine, incoming);
        let (_home, fresh) = self::engine();
        assert_eq!(take_in(&fresh, &text(&engine)), 1);
    }

    #[test]
    fn an_export_that_was_cut_or_changed_is_told() {
        let (_home, engine) = engine();
        let incoming = Incoming {
            name: "s".to_owned(),
            messages: vec![message(r#"{"role":"user","content":"one"}"#, 1)],
            ..Incoming::default()
        };
        show(&engine, incoming);
        let whole = String::from_utf8(text(&engine)).unwrap();
        let faults = |text: &str| {
            let options = DecodeOptions { format: None, name: "x".to_owned(), source: "y".to_owned() };
            let mut faults = Vec::new();
            hosts::decode(&mut text.as_bytes(), &options, &mut |decoded| {
                if let Decoded::Fault(fault) = decoded {
                    faults.push(fault.to_string());
                }
                Ok(())
            })
            .unwrap();
            faults
        };
        assert_eq!(faults(&whole), [] as [&str; 0]);
        let cut = whole.lines().take(4).collect::<Vec<_>>().join("\n");
        assert_eq!(faults(&cut), ["the file: it ends early: the last line of an export is missing"]);
        let changed = faults(&whole.replace("one", "two"));
        assert_eq!(changed.len(), 2, "{changed:?}");
        assert!(changed[0].contains("it was changed") && changed[1].contains("0 in 1 were read"), "{changed:?}");
        let newer = faults(&whole.replace(r#""version":1"#, r#""version":2"#));
        assert!(newer[0].contains("version 2"), "{newer:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Whatever a session went through, its export gives another store with the same export.
        #[test]
        fn exports_of_any_history_come_back(
            lists in prop::collection::vec((0..2_u8, prop::collection::vec(0..3_u8, 1..6)), 1..8),
        ) {
            let (_home, engine) = engine();
            for (session, list) in &lists {
                let messages = list.iter().map(|n| message(&format!(r#"{{"role":"user","content":"{n}"}}"#), 1));
                let incoming =
                    Incoming { name: format!("s{session}"), messages: messages.collect(), ..Incoming::default() };
                show(&engine, incoming);
            }
            let exported = text(&engine);
            prop_assert_eq!(take_in(&engine, &exported), 0);
            let (_home, fresh) = self::engine();
            take_in(&fresh, &exported);
            let again = text(&fresh);
            // Timelines may be numbered otherwise; what was said may not.
            let said = |text: &[u8]| {
                let lines = text.split(|byte| *byte == b'\n').filter_map(|line| Json::parse(line).ok());
                let mut ids: Vec<String> = lines.filter_map(|line| line.get("id")?.as_str().map(str::to_owned)).collect();
                ids.sort();
                ids
            };
            prop_assert_eq!(said(&exported), said(&again));
            prop_assert_eq!(take_in(&fresh, &exported), 0);
        }
    }
}
