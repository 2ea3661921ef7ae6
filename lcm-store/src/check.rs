//! Audit: rehash every node, follow every link, compare the index. On all cores, with bounded memory.
//!
//! The check proves the claim that nothing is lost: every record hashes to its id and is found by it, every place
//! leads to a record and back, every timeline row leads to its place, every link has its counterpart. Faults are
//! counted all and told up to a bound; nothing is changed. Whether the data file can be written is tried on a copy in
//! memory of what would be.

use std::error::Error;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use lcm_core::{Arrival, BodyId, NodeId, OpId, SessionId, SummaryNumber, TimelineId, canon};
use rayon::prelude::*;
use redb::{ReadableTable, ReadableTableMetadata, TableHandle};

use crate::error::{StoreError, contained};
use crate::open::lock;
use crate::pack;
use crate::record::{ChildrenRow, OpRow, PlaceKind, PlaceRow, RevisionRow, Row, SessionRow, TimelineRow, ViewRow};
use crate::snapshot::Snapshot;
use crate::{Store, modes, tables};

/// Rows a core takes at once: a few milliseconds of work.
const STRIDE: u64 = 1024;

/// What to check and how to tell of it.
pub struct CheckOptions<'a> {
    /// How many faults are told one by one; all are counted.
    pub faults_max: usize,
    /// Called now and then with rows done and rows in all.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The table or file.
    pub part: &'static str,
    /// What is wrong, as a sentence without a full stop.
    pub what: String,
    /// Whether it is in what can be made anew (`repair index`), and not in truth.
    pub derived: bool,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Records rehashed: messages, summaries and bodies.
    pub records: u64,
    /// Their canonical bytes, unpacked.
    pub bytes: u64,
    /// Places followed.
    pub places: u64,
    /// Timelines, sessions, ops, views and links followed.
    pub others: u64,
    /// All faults, also those not told.
    pub faults: u64,
    /// The first of them, sorted.
    pub told: Vec<Fault>,
}

impl CheckReport {
    /// Whether everything is whole.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.faults == 0
    }
}

struct Check<'a> {
    snapshot: &'a Snapshot,
    options: &'a CheckOptions<'a>,
    rows: u64,
    done: AtomicU64,
    bytes: AtomicU64,
    others: AtomicU64,
    /// Rows that go on with a record, and how many the records' headers want.
    continued: AtomicU64,
    continuing: AtomicU64,
    faults: AtomicU64,
    told: Mutex<Vec<Fault>>,
}

impl Store {
    /// Checks the whole store as of now.
    ///
    /// # Errors
    /// When the database itself cannot be read; what is merely wrong stands in the report.
    pub fn check(&self, options: &CheckOptions<'_>) -> Result<CheckReport, StoreError> {
        let snapshot = self.snapshot()?;
        let (records, places) = (snapshot.tables.records.len()?, snapshot.tables.places.len()?);
        let timeline = snapshot.tables.timeline.len()?;
        let check = Check {
            snapshot: &snapshot,
            options,
            rows: records + places + timeline,
            done: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            others: AtomicU64::new(0),
            continued: AtomicU64::new(0),
            continuing: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            told: Mutex::new(Vec::new()),
        };
        check.stage("records", false, Check::records)?;
        check.stage("hashes", false, Check::hashes)?;
        check.stage("places", false, Check::places)?;
        check.stage("timeline", false, Check::timeline)?;
        check.stage("sessions", false, Check::sessions)?;
        check.stage("parents", false, Check::links)?;
        check.stage("ops", false, Check::history)?;
        check.counts()?;
        check.stage("index", true, |check| {
            for what in self.inner.index.verify(check.snapshot)? {
                check.fault("index", what, true);
            }
            Ok(())
        })?;
        // Where something is damaged already, redb may panic while it panics, and nobody could contain that.
        if check.faults.load(Ordering::Relaxed) == 0
            && let Err(error) = self.inner.files.try_writing()
            && bars_writing(&error)
        {
            check.fault("data file", format!("it cannot be opened to be written: {}", in_one_line(&error)), false);
        }
        for modes::Ajar { path, mode } in modes::open_to_others(self.home()) {
            check.fault("modes", format!("{} is open to others: its mode is {mode:03o}", path.display()), false);
        }
        let continued = check.continued.load(Ordering::Relaxed);
        let mut told = std::mem::take(&mut *lock(&check.told));
        told.sort();
        Ok(CheckReport {
            records: records.saturating_sub(continued),
            bytes: check.bytes.into_inner(),
            places,
            others: check.others.into_inner(),
            faults: check.faults.into_inner(),
            told,
        })
    }
}

/// Whether an error on the way to a writing handle is the file's own fault, and not that somebody else writes or that
/// this process, or the disk, may not be written to.
fn bars_writing(error: &StoreError) -> bool {
    let io_is_fault = |error: &io::Error| {
        use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        !matches!(error.kind(), PermissionDenied | QuotaExceeded | ReadOnlyFilesystem | StorageFull)
    };
    match error {
        StoreError::Busy { .. } | StoreError::Unrepaired(_) => false,
        StoreError::File { source, .. } => io_is_fault(source),
        StoreError::Database { source, .. } => match &**source {
            redb::Error::Io(error) => io_is_fault(error),
            _ => true,
        },
        _ => true,
    }
}

/// An error with its cause.
fn in_one_line(error: &StoreError) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl Check<'_> {
    fn fault(&self, part: &'static str, what: impl ToString, derived: bool) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        let mut told = lock(&self.told);
        if told.len() < self.options.faults_max {
            told.push(Fault { part, what: what.to_string(), derived });
        }
    }

    /// Runs one part of the check. Where the database cannot be read further, that is told, and the other parts go on.
    fn stage(
        &self,
        part: &'static str,
        derived: bool,
        run: impl FnOnce(&Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match contained(self.snapshot.pin.path(), || run(self)) {
            Err(StoreError::DamagedFile { why, .. }) => {
                self.fault(part, format!("it cannot be read to its end: {why}"), derived);
                Ok(())
            }
            Err(error) if error.is_damage() => {
                self.fault(part, error, derived);
                Ok(())
            }
            done => done,
        }
    }

    /// Tells that two counts which must agree do not.
    fn compare(&self, part: &'static str, what: &str, expected: u64, found: u64) {
        if expected != found {
            self.fault(part, format!("there should be {expected} {what}, and there are {found}"), false);
        }
    }

    /// Tells a damaged row and goes on; what the database itself says ends the part.
    fn or_fault<T>(&self, part: &'static str, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error @ (StoreError::Database { .. } | StoreError::DamagedFile { .. } | StoreError::File { .. })) => {
                Err(error)
            }
            Err(error) => {
                self.fault(part, error, false);
                Ok(None)
            }
        }
    }

    fn step(&self, rows: u64) {
        let done = self.done.fetch_add(rows, Ordering::Relaxed) + rows;
        (self.options.progress)(done.min(self.rows), self.rows);
    }

    /// Runs `each` over the strides of a table whose rows are numbered from 1, on all cores.
    fn strides(
        &self,
        part: &'static str,
        table: &redb::ReadOnlyTable<u64, &'static [u8]>,
        each: impl Fn(u64, u64) -> Result<u64, StoreError> + Sync,
    ) -> Result<(), StoreError> {
        let (rows, last) = (table.len()?, table.last()?.map_or(0, |(key, _)| key.value()));
        if last != rows {
            // Nothing is ever deleted. And a damaged number may be so large that its strides would not end.
            self.fault(part, format!("the last row has number {last}, and there are {rows} rows"), false);
            self.step(each(0, u64::MAX)?);
            return Ok(());
        }
        let met = AtomicU64::new(0);
        (0..=last / STRIDE).into_par_iter().try_for_each(|stride| {
            let (low, high) = (stride * STRIDE, stride * STRIDE + STRIDE - 1);
            let here = contained(self.snapshot.pin.path(), || each(low, high))?;
            met.fetch_add(here, Ordering::Relaxed);
            self.step(here);
            Ok::<_, StoreError>(())
        })?;
        // A damaged number that is larger than the stride's last ends it, and hides what stands behind.
        self.compare(part, "rows under their numbers", rows, met.into_inner());
        Ok(())
    }

    fn records(&self) -> Result<(), StoreError> {
        let table = &self.snapshot.tables.records;
        self.strides("records", table, |low, high| {
            let (mut rows, mut raw) = (0, Vec::new());
            for entry in table.range(low..=high)? {
                let (key, value) = entry?;
                rows += 1;
                if pack::continuation(value.value()).is_some() {
                    self.continued.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                raw.clear();
                self.or_fault("records", self.record(key.value(), value.value(), &mut raw))?;
                self.bytes.fetch_add(raw.len() as u64, Ordering::Relaxed);
            }
            Ok(rows)
        })?;
        let (wanted, found) = (self.continuing.load(Ordering::Relaxed), self.continued.load(Ordering::Relaxed));
        self.compare("records", "rows with which a record goes on", wanted, found);
        Ok(())
    }

    /// Every record was found by its hash; so when there are as many hashes, none leads anywhere else.
    fn hashes(&self) -> Result<(), StoreError> {
        let tables = &self.snapshot.tables;
        let records = tables.records.len()?.saturating_sub(self.continued.load(Ordering::Relaxed));
        self.compare("hashes", "hashes of records", records, tables.hashes.len()?);
        let mut standing = self.snapshot.txn.open_table(tables::AGAIN)?.len()?;
        for entry in tables.hashes.iter()? {
            let (_, value) = entry?;
            standing += u64::from(value.value().1 != 0);
        }
        self.compare("hashes", "places to which hashes lead", tables.places.len()?, standing);
        Ok(())
    }

    fn record(&self, number: u64, row: &[u8], raw: &mut Vec<u8>) -> Result<(), StoreError> {
        let wrong = |what: &str| Err(StoreError::row("records", number, what));
        let head = pack::head(row, number)?;
        self.continuing.fetch_add(head.rows_behind() as u64, Ordering::Relaxed);
        self.snapshot.unpack(&head, number, raw)?;
        let bytes = &raw[..head.canon_len()];
        let actual = blake3::hash(bytes);
        if *actual.as_bytes() != head.id {
            let (id, actual) = (NodeId::from_bytes(head.id), NodeId::from_bytes(*actual.as_bytes()));
            return Err(StoreError::Damaged { id, actual });
        }
        let found = self.snapshot.tables.hashes.get(NodeId::from_bytes(head.id).key())?;
        if found.is_none_or(|found| found.value().0 != number) {
            return wrong("it is not found by its hash");
        }
        match bytes.first() {
            Some(b'B') => Ok(()),
            Some(b'S') => {
                let summary =
                    canon::decode_summary(bytes).map_err(|error| StoreError::row("records", number, error))?;
                let children = self.snapshot.children(crate::RecordNumber(number))?;
                if children.len() != summary.children().len() {
                    return wrong("its links are not those of its summary");
                }
                for (record, child) in children.iter().zip(summary.children()) {
                    if self.id_of(record.0)? != Some(*child.as_bytes()) {
                        return wrong("a link leads to another node than its summary names");
                    }
                }
                Ok(())
            }
            Some(b'M') => {
                let named = canon::body_refs(bytes).map_err(|error| StoreError::row("records", number, error))?;
                let links = head.bodies.as_slice();
                if links.len() != named.len() {
                    return wrong("its links to bodies are not those it names");
                }
                for (&link, named) in links.iter().zip(&named) {
                    if self.id_of(link)? != Some(*named.id.as_bytes()) {
                        return Err(StoreError::DamagedBody(BodyId::from_bytes(*named.id.as_bytes())));
                    }
                }
                Ok(())
            }
            _ => wrong("it is of no known kind"),
        }
    }

    fn id_of(&self, record: u64) -> Result<Option<[u8; 32]>, StoreError> {
        match self.snapshot.tables.records.get(record)? {
            None => Ok(None),
            Some(row) => Ok(Some(pack::head(row.value(), record)?.id)),
        }
    }

    fn places(&self) -> Result<(), StoreError> {
        let summaries = AtomicU64::new(0);
        self.strides("places", &self.snapshot.tables.places, |low, high| {
            let mut rows = 0;
            let again = self.snapshot.txn.open_table(tables::AGAIN)?;
            for entry in self.snapshot.tables.places.range(low..=high)? {
                let (key, value) = entry?;
                rows += 1;
                let arrival = Arrival(key.value());
                let Some(row) = self.or_fault("places", PlaceRow::from_bytes(value.value(), arrival.0))? else {
                    continue;
                };
                let Some(order) = self.or_fault("places", row.order_key(arrival))? else { continue };
                match self.or_fault("places", self.id_of(row.record))? {
                    Some(Some(id)) => {
                        let id = NodeId::from_bytes(id);
                        let first = self.snapshot.tables.hashes.get(id.key())?.map_or(0, |found| found.value().1);
                        if first != arrival.0 && again.get((row.record, arrival.0))?.is_none() {
                            self.fault("places", format!("message {arrival} is not found by its id {id:.12}"), false);
                        }
                    }
                    Some(None) => {
                        self.fault("places", format!("message {arrival} has lost its record {}", row.record), false);
                    }
                    None => {}
                }
                if self.snapshot.tables.timelines.get(row.timeline)?.is_none() {
                    self.fault("places", format!("message {arrival} stands in no timeline"), false);
                }
                match row.kind {
                    PlaceKind::Message => {
                        let key = tables::timeline_key(TimelineId(row.timeline), order.as_bytes());
                        let found = self.snapshot.tables.timeline.get(key.as_slice())?.map(|found| found.value());
                        if found != Some(arrival.0) {
                            self.fault("places", format!("message {arrival} is missing in its timeline"), false);
                        }
                    }
                    PlaceKind::Summary { number } | PlaceKind::Staged { number } => {
                        summaries.fetch_add(1, Ordering::Relaxed);
                        let numbers = self.snapshot.txn.open_table(tables::SUMMARIES)?;
                        let found = numbers.get(number)?.map(|found| found.value());
                        if found != Some(arrival.0) {
                            let number = SummaryNumber(number);
                            self.fault("places", format!("summary {number} is not found by its number"), false);
                        }
                    }
                }
            }
            Ok(rows)
        })?;
        let (places, summaries) = (self.snapshot.tables.places.len()?, summaries.into_inner());
        let numbered = self.snapshot.txn.open_table(tables::SUMMARIES)?.len()?;
        self.compare("summaries", "numbers of summaries", summaries, numbered);
        let listed = self.snapshot.tables.timeline.len()?;
        self.compare("timeline", "messages in timelines", places.saturating_sub(summaries), listed);
        Ok(())
    }

    fn timeline(&self) -> Result<(), StoreError> {
        let mut rows = 0;
        for entry in self.snapshot.tables.timeline.iter()? {
            let (key, value) = entry?;
            let arrival = Arrival(value.value());
            rows += 1;
            if rows % STRIDE == 0 {
                self.step(STRIDE);
            }
            let row = self.or_fault("places", self.snapshot.place_row(arrival))?.flatten();
            let Some(row) = row else {
                self.fault("timeline", format!("message {arrival} is listed and has no place"), false);
                continue;
            };
            let Some(order) = self.or_fault("places", row.order_key(arrival))? else { continue };
            if key.value() != tables::timeline_key(TimelineId(row.timeline), order.as_bytes()) {
                self.fault("timeline", format!("message {arrival} is listed where it does not stand"), false);
            }
        }
        self.step(rows % STRIDE);
        Ok(())
    }

    /// Counts the rows of every table: a page of another time, whole in itself, lacks the rows that came later.
    fn counts(&self) -> Result<(), StoreError> {
        macro_rules! count {
            ($table:expr) => {
                let definition: &'static redb::TableDefinition<'static, _, _> = &$table;
                self.stage(definition.name(), false, |check| {
                    let (table, mut rows) = (check.snapshot.txn.open_table(*definition)?, 0);
                    for entry in table.iter()? {
                        entry?;
                        rows += 1;
                    }
                    check.compare(definition.name(), "rows", table.len()?, rows);
                    Ok(())
                })?;
            };
        }
        tables::each!(count);
        Ok(())
    }

    fn other(&self) {
        self.others.fetch_add(1, Ordering::Relaxed);
    }

    fn sessions(&self) -> Result<(), StoreError> {
        let owners = self.snapshot.owners()?;
        let names = self.snapshot.txn.open_table(tables::SESSION_NAMES)?;
        self.compare("session_names", "names of sessions", self.snapshot.tables.sessions.len()?, names.len()?);
        for entry in self.snapshot.tables.sessions.iter()? {
            let (key, value) = entry?;
            let id = SessionId(key.value());
            self.other();
            let Some(row) = self.or_fault("sessions", SessionRow::from_bytes(value.value(), id.0))? else { continue };
            if !owners
                .iter()
                .any(|(owner, number)| *number == row.owner && owner.agent == row.agent && owner.person == row.person)
            {
                self.fault("sessions", format!("session {id} has no owner"), false);
            }
            if names.get((row.owner, row.name.as_str()))?.is_none_or(|found| found.value() != id.0) {
                self.fault("session_names", format!("session {id} is not found by its name"), false);
            }
            if self.snapshot.tables.timelines.get(row.timeline)?.is_none() {
                self.fault("sessions", format!("session {id} goes on with no timeline"), false);
            }
        }
        let of_sessions = self.snapshot.txn.open_table(tables::SESSION_TIMELINES)?;
        let timelines = self.snapshot.tables.timelines.len()?;
        self.compare("session_timelines", "timelines of sessions", timelines, of_sessions.len()?);
        for entry in self.snapshot.tables.timelines.iter()? {
            let (key, value) = entry?;
            let id = TimelineId(key.value());
            self.other();
            let Some(row) = self.or_fault("timelines", TimelineRow::from_bytes(value.value(), id.0))? else { continue };
            match self.or_fault("sessions", self.snapshot.session_row(SessionId(row.session)))?.flatten() {
                Some(session) if session.owner == row.owner => {}
                Some(_) => self.fault("timelines", format!("timeline {id} and its session have two owners"), false),
                None => self.fault("timelines", format!("timeline {id} belongs to no session"), false),
            }
            if of_sessions.get((row.session, id.0))?.is_none() {
                self.fault("session_timelines", format!("timeline {id} is not found by its session"), false);
            }
            self.or_fault("timelines", self.snapshot.lineage(id))?;
        }
        Ok(())
    }

    fn links(&self) -> Result<(), StoreError> {
        let parents = self.snapshot.txn.open_table(tables::PARENTS)?;
        let children = self.snapshot.txn.open_table(tables::CHILDREN)?;
        let mut forward = 0;
        for entry in children.iter()? {
            let (key, value) = entry?;
            self.other();
            let row = ChildrenRow::from_bytes(value.value(), key.value())
                .and_then(|row| Ok((row.records(key.value())?, row.places(key.value())?)));
            let Some((mut list, places)) = self.or_fault("children", row)? else { continue };
            if list.len() != places.len() {
                self.fault("children", format!("the lists of summary {} differ in length", key.value()), false);
            }
            for (record, place) in list.iter().zip(places).filter(|(_, place)| *place != 0) {
                let row = self.or_fault("places", self.snapshot.place_row(Arrival(place)))?.flatten();
                if row.is_none_or(|row| row.record != *record) {
                    self.fault("children", format!("record {record} does not stand at {place}"), false);
                }
            }
            list.sort_unstable();
            list.dedup();
            forward += list.len() as u64;
            for child in list {
                if parents.get((child, key.value()))?.is_none() {
                    self.fault(
                        "parents",
                        format!("record {child} does not lead to its summary {}", key.value()),
                        false,
                    );
                }
            }
        }
        if parents.len()? != forward {
            self.fault("parents", "there are more links to summaries than summaries have children", false);
        }
        Ok(())
    }

    fn history(&self) -> Result<(), StoreError> {
        let ops = self.snapshot.txn.open_table(tables::OPS)?;
        for entry in ops.iter()? {
            let (key, value) = entry?;
            self.other();
            self.or_fault("ops", OpRow::from_bytes(value.value(), key.value()))?;
        }
        let views = self.snapshot.txn.open_table(tables::VIEWS)?;
        for entry in views.iter()? {
            let (key, value) = entry?;
            self.other();
            let (session, op) = key.value();
            let row = ViewRow::from_bytes(value.value(), op).and_then(|row| row.into_view(op));
            let Some(view) = self.or_fault("views", row)? else { continue };
            let entry = ops.get(op)?.map(|row| OpRow::from_bytes(row.value(), op)).transpose();
            let entry = self.or_fault("ops", entry)?.flatten().map(|row| row.into_op(OpId(op)));
            if entry.is_none_or(|entry| entry.session.0 != session) {
                self.fault("views", format!("a view of session {session} has no entry {op} in history"), false);
            }
            for summary in view.summaries() {
                if !self.snapshot.knows(summary.key())? {
                    self.fault("views", format!("session {session} shows the missing summary {summary:.12}"), false);
                }
            }
        }
        let revisions = self.snapshot.txn.open_table(tables::REVISIONS)?;
        let mut before = (0, 0);
        for entry in revisions.iter()? {
            let (key, value) = entry?;
            self.other();
            let (arrival, number) = key.value();
            if number != if before.0 == arrival { before.1 + 1 } else { 1 } {
                self.fault("revisions", format!("form {number} of message {arrival} does not follow another"), false);
            }
            before = (arrival, number);
            let Some(row) = self.or_fault("revisions", RevisionRow::from_bytes(value.value(), arrival))? else {
                continue;
            };
            if self.or_fault("records", self.id_of(row.record))?.flatten().is_none() {
                self.fault("revisions", format!("form {number} of message {arrival} has lost its record"), false);
            }
            if self.snapshot.tables.places.get(arrival)?.is_none() {
                self.fault("revisions", format!("form {number} of message {arrival} stands at no place"), false);
            }
        }
        Ok(())
    }
}
