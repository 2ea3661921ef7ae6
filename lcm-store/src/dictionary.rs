//! Training: a dictionary made from this store's own messages halves what zstd leaves of them.
//!
//! A dictionary is due when the store has grown twentyfold since the last one was trained. Records keep the number
//! of theirs, so none is ever rewritten and none is ever thrown away.

use lcm_core::EncodedMessage;
use redb::{ReadableTable, ReadableTableMetadata};

use crate::error::{StoreError, contained};
use crate::snapshot::Snapshot;
use crate::{Store, pack, tables};

/// Records from which on the first dictionary is worth its training.
const FIRST_RECORDS: u64 = 400;
/// How much the store grows until the next: the gain of a fresher one is a few percent.
const GROWTH: u64 = 20;
/// The second of a large store is trained on what agents do now; a third changed nothing measurable.
const DICTIONARIES_MAX: u64 = 3;
/// Longer records compress well on their own and would crowd out the others.
const SAMPLE_BYTES_MAX: usize = 16 << 10;
/// Material: enough to be worth it, little enough that training stays around 0.2 s.
const SAMPLES_MIN: usize = 200;
const MATERIAL_BYTES_MIN: usize = 128 << 10;
const MATERIAL_BYTES_MAX: usize = 6 << 20;
/// Larger ones gained under a percent and cost time at every start.
const DICTIONARY_BYTES: usize = 64 << 10;

impl Store {
    /// Trains a dictionary on what is in the store when one is due; gives whether it did.
    ///
    /// Takes some tenths of a second then, so it belongs beside or behind other work, never into a turn.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn train_when_due(&self) -> Result<bool, StoreError> {
        let snapshot = self.snapshot()?;
        if !is_due(&snapshot, 0)? {
            return Ok(false);
        }
        let material = contained(snapshot.pin.path(), || material_of(&snapshot))?;
        drop(snapshot);
        self.keep_trained(&material)
    }

    /// Trains the store's first dictionary on messages that are about to be written, when it has none yet and they
    /// are enough; gives whether it did. For bulk imports, whose first messages would be stored large otherwise.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn train_on(&self, messages: &[EncodedMessage]) -> Result<bool, StoreError> {
        if !is_due(&self.snapshot()?, messages.len() as u64)? {
            return Ok(false);
        }
        let mut material = Material::default();
        for message in messages {
            let bodies = message.bodies.iter().map(|body| body.bytes.as_slice());
            if !std::iter::once(message.canon.as_slice()).chain(bodies).all(|bytes| material.add(bytes)) {
                break;
            }
        }
        self.keep_trained(&material)
    }

    fn keep_trained(&self, material: &Material) -> Result<bool, StoreError> {
        if material.samples.len() < SAMPLES_MIN || material.bytes < MATERIAL_BYTES_MIN {
            return Ok(false);
        }
        // Uniform material makes no dictionary; the store does without.
        let Some(trained) = pack::train(&material.samples, DICTIONARY_BYTES) else { return Ok(false) };
        self.commit(|commit| commit.dictionary(&trained))?;
        Ok(true)
    }
}

/// What a store holds, evenly over all of it.
fn material_of(snapshot: &Snapshot) -> Result<Material, StoreError> {
    let mut material = Material::default();
    let last = snapshot.tables.records.last()?.map_or(0, |(key, _)| key.value());
    // Evenly over the store, the newest first: the newest are what the next ones will look like.
    let step = usize::try_from(last / 20_000).unwrap_or(0) + 1;
    let mut raw = Vec::new();
    for number in (1..=last).rev().step_by(step) {
        let Some(row) = snapshot.tables.records.get(number)? else { continue };
        if pack::continuation(row.value()).is_some() {
            continue;
        }
        let head = pack::head(row.value(), number)?;
        raw.clear();
        snapshot.unpack(&head, number, &mut raw)?;
        if !material.add(&raw) {
            break;
        }
    }
    Ok(material)
}

/// Whether the next dictionary is worth training once `coming` more records are there.
fn is_due(snapshot: &Snapshot, coming: u64) -> Result<bool, StoreError> {
    let trained = contained(snapshot.pin.path(), || Ok(snapshot.txn.open_table(tables::DICTIONARIES)?.len()?))?;
    let grown = GROWTH.pow(u32::try_from(trained.min(DICTIONARIES_MAX)).unwrap_or(0));
    Ok(trained < DICTIONARIES_MAX && snapshot.record_rows_len()? + coming >= FIRST_RECORDS * grown)
}

/// What a dictionary is trained on.
#[derive(Default)]
struct Material {
    samples: Vec<Vec<u8>>,
    bytes: usize,
}

impl Material {
    /// Takes a sample; false once there is enough.
    fn add(&mut self, sample: &[u8]) -> bool {
        if (16..=SAMPLE_BYTES_MAX).contains(&sample.len()) {
            self.bytes += sample.len();
            self.samples.push(sample.to_vec());
        }
        self.bytes < MATERIAL_BYTES_MAX
    }
}
