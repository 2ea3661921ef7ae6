//! Many lists at once: decoding, preparing, committing and indexing go on side by side.
//!
//! The calling thread takes lists, compares them with the store and prepares what is new, on all cores; a second
//! thread commits, as there is one writer at a time anyway; a third brings the search index along. Lists of one
//! session never overtake each other: a list waits until those before it are durable.
//!
//! Memory is bounded: at most three batches are alive.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;

use lcm_core::{Arrival, Owner};
use lcm_store::{Pace, Store};

use crate::Engine;
use crate::error::EngineError;
use crate::hosts::Incoming;
use crate::ingest::Job;
use crate::redact::Redactor;
use crate::service::{ImportOptions, Imported, Ingested};

/// A batch is full with so many messages. Each commit rewrites most pages of the hash index, whose keys are random,
/// and leaves the old ones behind as free space: few large batches make a small file, and a quick import. It takes
/// the write lock for some tenths of a second, which others wait out.
const BATCH_MESSAGES: usize = 8192;
/// Or with so many bytes.
const BATCH_BYTES: usize = 16 << 20;
/// An import of so many places that makes up half of the store or more ends with making its file dense: it is mostly
/// of one piece, and a sixth of it would stay empty.
const COMPACT_PLACES_MIN: u64 = 10_000;
/// New messages from which on the index is brought along while the import goes on. Each time costs it a commit.
const INDEX_EVERY: u64 = 16_384;

pub(crate) fn import(
    engine: &Engine,
    lists: &mut (dyn Iterator<Item = Incoming> + Send),
    options: &ImportOptions<'_>,
    report: &mut dyn FnMut(&Ingested),
) -> Result<Imported, EngineError> {
    let store = &engine.store;
    let places_before = store.snapshot()?.places_len()?;
    thread::scope(|scope| {
        let (to_write, batches) = mpsc::sync_channel(1);
        let (tell, told) = mpsc::channel();
        let (to_index, written) = mpsc::channel();
        scope.spawn(move || write_all(store, &batches, &tell, &to_index));
        scope.spawn(move || index_along(store, &written));
        let (redactor, in_flight) = (engine.redactor.as_ref(), VecDeque::new());
        let mut feeding = Feeding { store, redactor, to_write, told, report, batch: Batch::default(), in_flight };
        feeding.feed(lists, options)
    })?;
    let places = store.snapshot()?.places_len()?;
    let added = places.saturating_sub(places_before);
    if added >= COMPACT_PLACES_MIN && added >= places / 2 {
        // Others may be at work: a file with some room in it is no reason to fail, nor to keep them waiting.
        if let Err(error) = store.compact() {
            tracing::info!(%error, "the file keeps the room that the import left in it");
        }
    }
    // All is durable; the index is derived, and an import is whole without it.
    let index = match store.train_when_due() {
        Ok(_) => store.catch_up(Pace::Bulk, &|progress| (options.indexing)(progress)),
        Err(error) => Err(error),
    };
    Ok(Imported { index: index.map_err(EngineError::from) })
}

/// Jobs that are written together.
#[derive(Default)]
struct Batch {
    jobs: Vec<Job>,
    names: Vec<(Owner, String)>,
    messages: usize,
    bytes: usize,
}

struct Feeding<'a> {
    store: &'a Store,
    redactor: Option<&'a Redactor>,
    to_write: SyncSender<Vec<Job>>,
    told: Receiver<Result<Vec<Ingested>, EngineError>>,
    report: &'a mut dyn FnMut(&Ingested),
    batch: Batch,
    /// The sessions of batches that are not durable yet, oldest first.
    in_flight: VecDeque<Vec<(Owner, String)>>,
}

impl Feeding<'_> {
    fn feed(
        &mut self,
        lists: &mut (dyn Iterator<Item = Incoming> + Send),
        options: &ImportOptions<'_>,
    ) -> Result<(), EngineError> {
        for mut incoming in lists {
            if let Some(redactor) = self.redactor {
                redactor.redact_list(&mut incoming)?;
            }
            let name = Job::name_of(&incoming, &options.defaults);
            if self.is_under_way(&name) {
                self.flush()?;
                self.wait()?;
            }
            let snapshot = self.store.snapshot()?;
            let job = Job::new(&snapshot, incoming, &options.defaults, &options.by, options.now_ms, |_| None)?;
            drop(snapshot);
            let batch = &mut self.batch;
            batch.messages += job.messages();
            batch.bytes += job.bytes();
            batch.names.push(name);
            batch.jobs.push(job);
            if batch.messages >= BATCH_MESSAGES || batch.bytes >= BATCH_BYTES {
                self.flush()?;
            }
            while let Ok(told) = self.told.try_recv() {
                self.hear(told)?;
            }
        }
        self.flush()?;
        self.wait()
    }

    /// Whether an earlier list of this session is on its way. Under a guessed name that can be any of that name.
    fn is_under_way(&self, name: &(Owner, String)) -> bool {
        self.batch.names.contains(name) || self.in_flight.iter().any(|names| names.contains(name))
    }

    fn flush(&mut self) -> Result<(), EngineError> {
        let Batch { mut jobs, names, .. } = std::mem::take(&mut self.batch);
        if jobs.is_empty() {
            return Ok(());
        }
        let mut all: Vec<&mut Job> = jobs.iter_mut().collect();
        Job::train_and_prepare(self.store, &mut all)?;
        self.in_flight.push_back(names);
        if self.to_write.send(jobs).is_err() {
            // The writer has ended, and said why.
            self.wait()?;
        }
        Ok(())
    }

    /// Waits until everything that was sent is durable.
    fn wait(&mut self) -> Result<(), EngineError> {
        while !self.in_flight.is_empty() {
            let Ok(told) = self.told.recv() else { break };
            self.hear(told)?;
        }
        Ok(())
    }

    fn hear(&mut self, told: Result<Vec<Ingested>, EngineError>) -> Result<(), EngineError> {
        self.in_flight.pop_front();
        for ingested in told? {
            (self.report)(&ingested);
        }
        Ok(())
    }
}

/// Commits batch after batch, until there are no more or one fails.
fn write_all(
    store: &Store,
    batches: &Receiver<Vec<Job>>,
    tell: &Sender<Result<Vec<Ingested>, EngineError>>,
    to_index: &Sender<()>,
) {
    // Our own commits since the jobs were planned: first and last arrival number of each.
    let mut own: VecDeque<(Arrival, Arrival)> = VecDeque::new();
    let mut not_indexed = 0;
    while let Ok(mut jobs) = batches.recv() {
        let written = write_batch(store, &mut jobs, &mut own);
        let failed = written.is_err();
        let told = written.map(|()| jobs.into_iter().map(|job| job.finish().0).collect::<Vec<_>>());
        if let Ok(told) = &told {
            not_indexed += told.iter().map(|ingested| ingested.new).sum::<u64>();
        }
        if tell.send(told).is_err() || failed {
            return;
        }
        if not_indexed >= INDEX_EVERY && to_index.send(()).is_ok() {
            not_indexed = 0;
        }
    }
}

fn write_batch(store: &Store, jobs: &mut [Job], own: &mut VecDeque<(Arrival, Arrival)>) -> Result<(), EngineError> {
    loop {
        let mut open: Vec<&mut Job> = jobs.iter_mut().filter(|job| job.has_work()).collect();
        if open.is_empty() {
            return Ok(());
        }
        let (before, after) = store.commit(|commit| {
            let before = commit.last_arrival();
            for job in &mut open {
                // No list of the same session was under way when this one was compared, so what we wrote ourselves
                // meanwhile changes nothing for it.
                let mut seen = job.seen();
                for (before, after) in &*own {
                    if *before == seen {
                        seen = *after;
                    }
                }
                job.saw(seen);
            }
            Job::write_in(&mut open, store, commit)?;
            Ok::<_, EngineError>((before, commit.last_arrival()))
        })?;
        own.push_back((before, after));
        // Jobs are compared at most three batches before they are written; a list that is cut takes more commits.
        while own.len() > 64 {
            own.pop_front();
        }
    }
}

/// Indexes what is durable, while more of it comes.
fn index_along(store: &Store, written: &Receiver<()>) {
    while written.recv().is_ok() {
        // What came together is done together.
        while written.try_recv().is_ok() {}
        if let Err(error) = store.catch_up(Pace::Bulk, &|_| {}) {
            // The last catch-up tells; until then searches look into truth.
            tracing::warn!(%error, "cannot bring the index along");
            return;
        }
    }
}
