//! Everything that was said in sessions, record by record. How a record looks in a file is `hosts/export`.

use lcm_core::canon;
use lcm_core::{Arrival, OrderKey, TimelineId};
use lcm_store::{Buffer, Placed, RecordNumber, Snapshot, Store};

use crate::error::EngineError;
use crate::find::unreadable;
use crate::read::shared;
use crate::service::{ExportMessage, ExportRecord, ExportRequest, ExportRevision};

/// Messages that are read from one snapshot. A snapshot pins pages, and whoever takes the records may be slow.
const PAGE: usize = 512;

type Each<'a> = dyn FnMut(ExportRecord) -> Result<(), EngineError> + 'a;

pub(crate) fn export(store: &Store, request: &ExportRequest, each: &mut Each<'_>) -> Result<(), EngineError> {
    each(ExportRecord::Begin { at_ms: request.now_ms })?;
    let (mut sessions, mut messages) = (0, 0);
    // What comes while we are at it is left for the next export: a branch may share it otherwise.
    let newest = store.snapshot()?.last_arrival()?;
    for session in store.snapshot()?.sessions(&request.scope)? {
        sessions += 1;
        let (id, current) = (session.id, session.timeline);
        each(ExportRecord::Session(session))?;
        for timeline in store.snapshot()?.timelines_of(id)? {
            messages += export_timeline(store, timeline, timeline == current, newest, each)?;
        }
    }
    each(ExportRecord::End { sessions, messages })
}

fn export_timeline(
    store: &Store,
    id: TimelineId,
    is_current: bool,
    newest: Arrival,
    each: &mut Each<'_>,
) -> Result<u64, EngineError> {
    let timeline = store.snapshot()?.timeline(id)?;
    let (parent, mut behind) = match timeline.parent {
        None => (None, None),
        Some((parent, last)) => (Some((parent, shared(&store.snapshot()?, id, &last)?)), Some(last)),
    };
    each(ExportRecord::Timeline { id, parent, is_current })?;
    let mut count = 0;
    loop {
        let (page, is_last) = read_page(&store.snapshot()?, id, &mut behind)?;
        for message in page {
            if message.number <= newest {
                count += 1;
                each(ExportRecord::Message(message))?;
            }
        }
        if is_last {
            return Ok(count);
        }
    }
}

fn read_page(
    snapshot: &Snapshot,
    timeline: TimelineId,
    behind: &mut Option<OrderKey>,
) -> Result<(Vec<ExportMessage>, bool), EngineError> {
    let places = snapshot.log(timeline, behind.as_ref(), PAGE)?;
    if let Some(last) = places.last() {
        *behind = Some(last.order.clone());
    }
    let is_last = places.len() < PAGE;
    let records: Vec<RecordNumber> = places.iter().map(|placed| placed.record).collect();
    let said =
        snapshot.read_each(&records, |i, buffer| Ok::<_, EngineError>((buffer.id(), json(buffer, &places[i])?)))?;
    let has_revisions = snapshot.has_revisions()?;
    let mut messages = Vec::with_capacity(places.len());
    for (placed, (id, json)) in places.into_iter().zip(said) {
        let revisions = if has_revisions { revisions(snapshot, &placed)? } else { Vec::new() };
        let Placed { arrival: number, seen_ms, volatile, .. } = placed;
        messages.push(ExportMessage { number, id, seen_ms, volatile, json, revisions });
    }
    Ok((messages, is_last))
}

/// The message that was read, without what belongs to its place.
fn json(buffer: &Buffer, placed: &Placed) -> Result<Vec<u8>, EngineError> {
    let mut json = Vec::new();
    let written = buffer.with_message(|message| canon::write_json(&message, &mut json));
    written.map(|()| json).map_err(|error| unreadable(placed.arrival, error))
}

fn revisions(snapshot: &Snapshot, placed: &Placed) -> Result<Vec<ExportRevision>, EngineError> {
    let mut buffer = Buffer::default();
    let one = |(record, seen_ms, volatile)| {
        snapshot.read(record, &mut buffer)?;
        Ok(ExportRevision { seen_ms, volatile, json: json(&buffer, placed)? })
    };
    snapshot.revisions(placed.arrival)?.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use lcm_core::{Json, Message, Owner};
    use lcm_store::{OpenOptions, Scope};
    use proptest::prelude::*;

    use super::*;
    use crate::Engine;
    use crate::hosts::{self, DecodeOptions, Decoded, Incoming, IncomingMessage, IncomingRevision};
    use crate::service::{ImportOptions, IngestRequest, Service};

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
        let mut out = Vec::new();
        let request = ExportRequest { scope: Scope::everything(), now_ms: 0 };
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
