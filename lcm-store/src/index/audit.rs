//! Index and sieve held against truth, for `check`.
//!
//! Both are copies, so what is wrong with them is no loss: the sentences say what a rebuild would mend.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::SIEVE;
use super::follow::is_ours;
use super::needs::Needs;
use super::reach::Reader;
use super::schema;
use super::segments::{Opened, WORDS_DIR, contents, guarded};
use super::sieve::Sieve;
use super::tokenize::Splitter;
use crate::error::{StoreError, unless_damaged};
use crate::snapshot::Snapshot;

/// What is wrong, as far as anybody wants to read it.
#[derive(Default)]
struct Wrong {
    told: Vec<String>,
    more: u64,
}

impl Wrong {
    /// Sentences kept.
    const TOLD_MAX: usize = 100;

    fn tell(&mut self, what: impl Into<String>) {
        if self.told.len() < Self::TOLD_MAX {
            self.told.push(what.into());
        } else {
            self.more += 1;
        }
    }

    fn add(&mut self, other: Self) {
        self.more += other.more;
        for what in other.told {
            self.tell(what);
        }
    }

    fn into_sentences(self) -> Vec<String> {
        let Self { mut told, more } = self;
        if more > 0 {
            told.push(format!("{more} more like these"));
        }
        told
    }
}

/// Compares index and sieve with truth: watermarks, that every place up to them is there once and nothing else is,
/// what is kept of each, checksums, and of a sample of places that their text is findable.
pub(crate) fn verify(directory: &Path, snapshot: &Snapshot) -> Result<Vec<String>, StoreError> {
    let mut wrong = Wrong::default();
    let (words, sieve) = (directory.join(WORDS_DIR), directory.join(SIEVE));
    for path in [directory, &words] {
        if is_there(path) && !path.is_dir() {
            wrong.tell(format!("{} is not a directory", path.display()));
        }
    }
    match Opened::open(directory, None) {
        Ok(None)
            if contents(directory).is_none() && fs::read_dir(&words).is_ok_and(|mut files| files.next().is_some()) =>
        {
            wrong.tell("the index cannot be used: its table of contents is missing");
        }
        Ok(None) => {}
        Err(error) => wrong.tell(format!("the index cannot be used: {error}")),
        Ok(Some(opened)) if !is_ours(snapshot, opened.watermark.last, &opened.watermark.mark)? => {
            wrong.tell("the index was made of another store, or of an earlier state of this one");
        }
        Ok(Some(opened)) => match verify_words(&opened, directory, snapshot) {
            Err(StoreError::Index(error)) => wrong.tell(format!("the index cannot be read: {error}")),
            verified => wrong.add(verified?),
        },
    }
    match Sieve::open(&sieve) {
        Ok(None) if is_there(&sieve) => wrong.tell("the sieve cannot be used: it is damaged, or of another version"),
        Ok(None) => {}
        Err(error) => wrong.tell(format!("the sieve cannot be read: {error}")),
        Ok(Some(sieve)) if !is_ours(snapshot, sieve.slot.last, &sieve.slot.mark)? => {
            wrong.tell("the sieve was made of another store, or of an earlier state of this one");
        }
        Ok(Some(sieve)) => wrong.add(verify_sieve(&sieve, snapshot)?),
    }
    Ok(wrong.into_sentences())
}

/// Whether anything bears this name.
fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// One place in so many has its text looked up.
const SAMPLE: u64 = 199;

fn verify_words(opened: &Opened, directory: &Path, snapshot: &Snapshot) -> Result<Wrong, StoreError> {
    let mut wrong = Wrong::default();
    let damaged = guarded(|| match schema::open(&directory.join(WORDS_DIR))? {
        Some((index, _)) => index.validate_checksum(),
        None => Ok(HashSet::new()),
    })?;
    let mut damaged: Vec<PathBuf> = damaged.into_iter().collect();
    damaged.sort();
    for path in damaged {
        wrong.tell(format!("{} does not match its checksum", path.display()));
    }
    let mut indexed: Vec<(u64, u64, u64)> = Vec::new();
    for segment in &opened.segments {
        let columns = segment.columns()?;
        let facts = |doc| (columns.arrival.get_val(doc), columns.timeline.get_val(doc), columns.anchor.get_val(doc));
        indexed.extend((0..segment.docs).map(facts));
    }
    indexed.sort_unstable();
    let mut indexed = indexed.into_iter().peekable();
    let (mut reader, mut missing) = (Reader::default(), 0_u64);
    for (arrival, row) in snapshot.place_rows(1..=opened.watermark.last)? {
        while let Some(other) = indexed.next_if(|(indexed, _, _)| *indexed < arrival.0) {
            wrong.tell(format!("the index has number {}, where nothing stands, or has it twice", other.0));
        }
        let indexed = indexed.next_if(|(indexed, _, _)| *indexed == arrival.0);
        // What is wrong in truth is told where truth is checked.
        let Some(row) = unless_damaged(row)? else { continue };
        match indexed {
            None => missing += 1,
            Some((_, timeline, anchor)) => {
                if (timeline, anchor) != (row.timeline, row.order_key(arrival)?.anchor().0) {
                    wrong.tell(format!("the index has number {arrival} in another place"));
                }
            }
        }
        if arrival.0 % SAMPLE == 0 {
            let tokens = reader.read(snapshot, &row, |said| {
                let mut tokens = Vec::new();
                Splitter::default().tokens(said.text, |token| tokens.push(token.to_owned()));
                tokens.sort_unstable();
                tokens.dedup();
                // The rarest tell most, and long ones are rare.
                tokens.sort_by_key(|token| Reverse(token.len()));
                tokens.truncate(8);
                tokens
            })?;
            for token in tokens.unwrap_or_default() {
                if !opened.has(arrival.0, &token)? {
                    wrong.tell(format!("the index does not find number {arrival} by `{token}`"));
                }
            }
        }
    }
    for (arrival, _, _) in indexed {
        wrong.tell(format!("the index has number {arrival}, where nothing stands"));
    }
    if missing > 0 {
        wrong.tell(format!("{missing} places are missing in the index"));
    }
    Ok(wrong)
}

fn verify_sieve(sieve: &Sieve, snapshot: &Snapshot) -> Result<Wrong, StoreError> {
    let mut wrong = Wrong::default();
    let mut blocks = sieve.blocks(false);
    let mut next = 1;
    let mut reader = Reader::default();
    while let Some(block) = blocks.next() {
        let Ok((table, masks)) = block.and_then(|block| Ok((block.table()?, block.masks()?))) else {
            wrong.tell("the sieve is damaged");
            return Ok(wrong);
        };
        let Some(last) = table.entries.last().map(|entry| entry.arrival) else { continue };
        let mut entries = table.entries.into_iter().peekable();
        for (arrival, row) in snapshot.place_rows(next..=last)? {
            let entry = entries.next_if(|entry| entry.arrival == arrival.0);
            let Some(row) = unless_damaged(row)? else { continue };
            if entry.is_none_or(|entry| entry.timeline != row.timeline) {
                wrong.tell(format!("the sieve does not know number {arrival}, or in another timeline"));
            }
            if arrival.0 % SAMPLE == 0 {
                let groups = reader.read(snapshot, &row, |said| Needs::of_literal(said.text).groups(&masks))?;
                let group = entry.map_or(0, |entry| entry.group);
                if groups.is_some_and(|groups| groups & (1 << group) == 0) {
                    wrong.tell(format!("the sieve holds number {arrival} back"));
                }
            }
        }
        if entries.next().is_some() {
            wrong.tell(format!("the sieve has places before number {last} where nothing stands"));
        }
        next = last + 1;
    }
    if next != sieve.slot.last + 1 {
        wrong.tell("the sieve ends before it says");
    }
    Ok(wrong)
}
