//! Search: everything under `index/` is derived from truth and may be deleted at any moment.
//!
//! In reading order: [`query`] says what one can ask. `tokenize` takes texts apart, `schema` says what the index
//! keeps of them, `disk` where, `segments` opens it; `sieve` keeps which blocks of places may hold a text, `needs`
//! what a pattern needs of one. `follow` brings both up to the newest place, `audit` holds them against truth, `tail`
//! knows what they do not know yet. `terms` weighs parts of what was found. `reach` says which places a search may look at, `look` reads them; `grep`, `words` and `rank` are the three
//! kinds of search, with `needle`, `inflect` and `snippet` at their hands.
//!
//! What always holds: a search finds the same whether index and sieve are there, lag behind, or are damaged; only
//! its speed differs. Every hit was read from truth, in the scope of the reader.

mod query;
mod tokenize;
mod schema;
mod disk;
mod segments;
mod sieve;
mod needs;
mod follow;
mod audit;
mod tail;
mod reach;
mod look;
mod grep;
mod needle;
mod words;
mod inflect;
mod rank;
mod terms;
mod snippet;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use lcm_core::Arrival;

pub use grep::without_groups;
pub use query::{
    Anchors, Cursor, CursorError, CursorKind, Cut, Filter, Found, Grep, GrepHits, Hit, Kinds, LetterCase, Order,
    Pattern, Scanned, Words,
};
pub use terms::Terms;

use crate::Store;
use crate::error::{StoreError, caught, contained, unless_damaged};
use crate::scope::Scope;
use crate::snapshot::Snapshot;
use look::{Bounds, End, Look, Piece};
use query::Position;
use reach::{Reach, is_summary, with_reader};
use segments::{Opened, Stamp};
use sieve::Sieve;

/// The file of the sieve, in the index directory.
const SIEVE: &str = "sieve";
/// So many places that are not indexed are worth a catch-up: a commit of the index costs some 10 ms.
const BEHIND_MAX: u64 = 512;
/// Arrivals taken from the index at once, at first; doubled as long as hits are missing.
const CANDIDATES_MIN: usize = 32;
const CANDIDATES_MAX: usize = 1 << 12;
/// How long an index that could not be used is not looked at again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// Ranked places that one can page to.
const RANKED_MAX: usize = 1 << 20;

/// How far the index got, and in what state it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexStatus {
    /// Every place up to this one is in the index; 0 for none.
    pub indexed_to: Arrival,
    /// Every place up to this one is in the sieve; 0 for none. It lags up to a block behind.
    pub sieved_to: Arrival,
    /// The newest place of the store.
    pub last_arrival: Arrival,
    /// Segments of the index: fewer are faster.
    pub segments: usize,
    /// Bytes on disk, index and sieve.
    pub bytes: u64,
    /// Whether it can be used.
    pub state: IndexState,
}

/// Whether the index can be used. Searches are complete in every state; only their speed differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// There is none yet.
    Absent,
    /// It is used; what it lacks is searched in truth.
    Ready,
    /// It is damaged, of another version, or belongs to another store; the next catch-up makes it anew.
    Unusable,
}

/// How to catch up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Beside other work: little memory.
    Gentle,
    /// At a bulk import: more memory, fewer and larger segments.
    Bulk,
}

/// How far a long task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Places done.
    pub done: u64,
    /// Places to do in all.
    pub total: u64,
}

/// The index of one store. Cheap to make: nothing is opened before the first search.
pub(crate) struct SearchIndex {
    directory: PathBuf,
    /// The index as it was when it was last looked at.
    opened: RwLock<Option<Arc<Opened>>>,
    /// The index that could not be used, and when that was found: to find it again costs as much as to read it.
    refused: RwLock<Option<(Stamp, Instant)>>,
    tail: tail::Tail,
    /// Whether a thread of this process catches up.
    following: AtomicBool,
    /// Where a catch-up of this process ended last.
    followed_to: AtomicU64,
}

impl SearchIndex {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            opened: RwLock::new(None),
            refused: RwLock::new(None),
            tail: tail::Tail::default(),
            following: AtomicBool::new(false),
            followed_to: AtomicU64::new(0),
        }
    }

    /// The index as it is now; an error when there is one that cannot be used.
    fn open(&self) -> tantivy::Result<Option<Arc<Opened>>> {
        let known = self.opened.read().unwrap_or_else(PoisonError::into_inner).clone();
        if known.as_ref().is_some_and(|known| known.is_current()) {
            return Ok(known);
        }
        let contents = segments::contents(&self.directory);
        let refused = *self.refused.read().unwrap_or_else(PoisonError::into_inner);
        if refused.is_some_and(|(stamp, at)| Some(stamp) == contents && at.elapsed() < ASK_AGAIN) {
            return Err(segments::unusable("it could not be used a moment ago"));
        }
        let opened = Opened::open(&self.directory, known.as_deref()).map(|opened| opened.map(Arc::new));
        let refused = contents.filter(|_| opened.is_err()).map(|stamp| (stamp, Instant::now()));
        *self.refused.write().unwrap_or_else(PoisonError::into_inner) = refused;
        let usable = opened.as_ref().map_or(None, Clone::clone);
        *self.opened.write().unwrap_or_else(PoisonError::into_inner) = usable;
        opened
    }

    /// The index, when there is one that can be used. Ask for it *before* the snapshot it is searched with: a
    /// place that is in the index is in every snapshot taken after.
    fn usable(&self) -> Option<Arc<Opened>> {
        self.open().unwrap_or_else(|error| {
            tracing::debug!(%error, "the search index cannot be used");
            None
        })
    }

    /// The sieve, when there is one of this store.
    fn sieve(&self, snapshot: &Snapshot) -> Result<Option<Sieve>, StoreError> {
        match Sieve::open(&self.directory.join(SIEVE)) {
            Ok(Some(sieve)) if follow::is_ours(snapshot, sieve.slot.last, &sieve.slot.mark)? => Ok(Some(sieve)),
            Ok(_) => Ok(None),
            Err(error) => {
                tracing::debug!(%error, "the sieve cannot be read");
                Ok(None)
            }
        }
    }

    /// Compares index and sieve with truth; what is wrong, one sentence each. None at all is nothing wrong.
    pub(crate) fn verify(&self, snapshot: &Snapshot) -> Result<Vec<String>, StoreError> {
        contained(snapshot.pin.path(), || audit::verify(&self.directory, snapshot))
    }

    fn bytes(&self) -> u64 {
        fn sum(directory: &Path) -> u64 {
            let Ok(entries) = fs::read_dir(directory) else { return 0 };
            entries
                .filter_map(|entry| {
                    let entry = entry.ok()?;
                    let metadata = entry.metadata().ok()?;
                    Some(if metadata.is_dir() { sum(&entry.path()) } else { metadata.len() })
                })
                .sum()
        }
        sum(&self.directory)
    }
}

/// The index, when it is one of this store.
fn of_this_store(opened: Option<Arc<Opened>>, snapshot: &Snapshot) -> Result<Option<Arc<Opened>>, StoreError> {
    let Some(opened) = opened else { return Ok(None) };
    let ours = follow::is_ours(snapshot, opened.watermark.last, &opened.watermark.mark)?;
    Ok(ours.then_some(opened))
}

impl Store {
    /// Exact search: every place in scope whose text matches, verified against truth.
    ///
    /// # Errors
    /// [`StoreError::Pattern`] for a pattern that is no regular expression, or a cursor of another kind of search;
    /// otherwise when the database fails.
    pub fn grep(&self, scope: &Scope, grep: &Grep) -> Result<GrepHits, StoreError> {
        self.contained(|| self.search_exact(scope, grep))
    }

    fn search_exact(&self, scope: &Scope, grep: &Grep) -> Result<GrepHits, StoreError> {
        let compiled = grep::compile(grep)?;
        let snapshot = self.snapshot()?;
        let index = &self.inner.index;
        // Blocks never change, so a sieve that is newer than the snapshot is right as far as the snapshot goes.
        let sieve = index.sieve(&snapshot)?;
        let reach = Reach::new(&snapshot, scope, &grep.filter)?;
        let above = sieve.as_ref().map_or(0, |sieve| sieve.slot.last);
        let kept = index.tail.kept(&snapshot, above, reach.last)?;
        grep::grep(grep, &compiled, &reach, sieve.as_ref(), kept.as_deref())
    }

    /// All words, newest first; when there are fewer hits than asked, ranked ones stand behind them.
    ///
    /// # Errors
    /// When the database fails.
    pub fn words(&self, scope: &Scope, words: &Words) -> Result<Found, StoreError> {
        self.indexed(|opened| {
            let snapshot = self.snapshot()?;
            let opened = of_this_store(opened, &snapshot)?;
            let reach = Reach::new(&snapshot, scope, &words.filter)?;
            let query = words::Query::new(&words.text);
            if query.is_empty() {
                return Ok(Found { hits: Vec::new(), next: None, damaged: 0 });
            }
            let above = opened.as_ref().map_or(0, |opened| opened.watermark.last);
            let kept = self.inner.index.tail.kept(&snapshot, above, reach.last)?;
            let search = Search { store: self, reach: &reach, opened: opened.as_deref(), kept: kept.as_deref(), above };
            let mut found = search.words(words, &query)?;
            found.damaged += u64::from(reach.has_lost);
            Ok(found)
        })
    }

    /// Any of the words, best first; also what stands beside places that have them.
    ///
    /// # Errors
    /// When the database fails.
    pub fn ranked(&self, scope: &Scope, words: &Words) -> Result<Found, StoreError> {
        self.indexed(|opened| {
            let snapshot = self.snapshot()?;
            let opened = of_this_store(opened, &snapshot)?;
            let reach = Reach::new(&snapshot, scope, &words.filter)?;
            let above = opened.as_ref().map_or(0, |opened| opened.watermark.last);
            let kept = self.inner.index.tail.kept(&snapshot, above, reach.last)?;
            let search = Search { store: self, reach: &reach, opened: opened.as_deref(), kept: kept.as_deref(), above };
            let given = match words.after {
                Some(Cursor(Position::Ranked(given))) => given,
                _ => 0,
            };
            let mut found = search.ranked(words, given, words.hits_max.max(1), Beside::Too, None)?;
            found.damaged += u64::from(reach.has_lost);
            Ok(found)
        })
    }

    fn contained<T>(&self, call: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        contained(&self.inner.files.data_file(), call)
    }

    /// Searches with the index, and without it when it fails on the way: it is a copy, truth is not.
    fn indexed<T>(&self, search: impl Fn(Option<Arc<Opened>>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let Some(opened) = self.inner.index.usable() else { return self.contained(|| search(None)) };
        match caught(|| search(Some(opened))) {
            Ok(Err(StoreError::Index(error))) => tracing::warn!(%error, "the search index failed"),
            Err(said) => tracing::warn!(said, "the search index is damaged where it was not expected"),
            Ok(done) => return done.map_err(|error| error.in_file(&self.inner.files.data_file())),
        }
        self.inner.index.tail.clear();
        self.contained(|| search(None))
    }

    /// Brings the index up to the newest place, unless another process or thread is at it.
    ///
    /// # Errors
    /// When the database or the disk fails; truth is untouched.
    pub fn catch_up(&self, pace: Pace, progress: &dyn Fn(Progress)) -> Result<IndexStatus, StoreError> {
        if let Some(lock) = self.inner.index.try_lock()? {
            self.contained(|| follow::catch_up(self, &lock, pace, progress))?;
        }
        self.index_status()
    }

    /// Lets a thread of this process catch up when at least 512 places are not indexed; `newest` is the newest
    /// place, as a commit tells it. Costs nothing otherwise. For processes that live long, after each commit.
    pub fn catch_up_beside(&self, newest: Arrival) {
        let index = &self.inner.index;
        if newest.0.saturating_sub(index.followed_to.load(Ordering::Relaxed)) < BEHIND_MAX {
            return;
        }
        if index.following.swap(true, Ordering::AcqRel) {
            return;
        }
        let store = self.clone();
        let spawned = std::thread::Builder::new().name("lcm-index".into()).spawn(move || {
            let index = &store.inner.index;
            let followed = store.catch_up_if_behind();
            match followed {
                // Who has the lock, does the work; to ask again at once would be to wait for it.
                Ok(status) => {
                    index.followed_to.store(status.indexed_to.0.max(newest.0 - BEHIND_MAX / 2), Ordering::Relaxed);
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot bring the search index up to date");
                    // Truth answers meanwhile; the next try comes with as many places again.
                    index.followed_to.store(newest.0, Ordering::Relaxed);
                }
            }
            index.following.store(false, Ordering::Release);
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot begin a thread for the search index");
            index.following.store(false, Ordering::Release);
        }
    }

    fn catch_up_if_behind(&self) -> Result<IndexStatus, StoreError> {
        let status = self.index_status()?;
        if status.last_arrival.0.saturating_sub(status.indexed_to.0) < BEHIND_MAX {
            return Ok(status);
        }
        self.catch_up(Pace::Gentle, &|_| {})
    }

    /// Throws the index away and makes it anew.
    ///
    /// # Errors
    /// [`StoreError::Busy`] while another writes it; otherwise as [`Store::catch_up`].
    pub fn rebuild_index(&self, progress: &dyn Fn(Progress)) -> Result<IndexStatus, StoreError> {
        let index = &self.inner.index;
        let lock = index.try_lock()?.ok_or(StoreError::Busy { what: "the search index", waited: Duration::ZERO })?;
        follow::wipe(&index.directory, &lock)?;
        self.contained(|| follow::catch_up(self, &lock, Pace::Bulk, progress))?;
        drop(lock);
        self.index_status()
    }

    /// How far the index got.
    ///
    /// # Errors
    /// When the database fails.
    pub fn index_status(&self) -> Result<IndexStatus, StoreError> {
        let index = &self.inner.index;
        let opened = index.open();
        let snapshot = self.snapshot()?;
        let (is_there, opened) = match opened {
            Ok(opened) => (opened.is_some(), of_this_store(opened, &snapshot)?),
            Err(_) => (true, None),
        };
        let sieve = index.sieve(&snapshot)?;
        Ok(IndexStatus {
            indexed_to: Arrival(opened.as_ref().map_or(0, |opened| opened.watermark.last)),
            sieved_to: Arrival(sieve.map_or(0, |sieve| sieve.slot.last)),
            last_arrival: snapshot.last_arrival()?,
            segments: opened.as_ref().map_or(0, |opened| opened.segments.len()),
            bytes: index.bytes(),
            state: match (is_there, opened) {
                (false, _) => IndexState::Absent,
                (true, Some(_)) => IndexState::Ready,
                (true, None) => IndexState::Unusable,
            },
        })
    }
}

/// Whether places that only stand beside those with the words are given, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Too,
    Not,
}

/// The search for places with all words, which stands before the ranked one.
struct Before<'q> {
    query: &'q words::Query,
    /// Whether it has looked at what is not indexed.
    has_read_tail: bool,
    /// The places that it could not read.
    damaged: HashSet<u64>,
}

/// One search by words.
struct Search<'a> {
    store: &'a Store,
    reach: &'a Reach<'a>,
    opened: Option<&'a Opened>,
    kept: Option<&'a tail::Kept>,
    /// What lies above is not indexed.
    above: u64,
}

impl Search<'_> {
    fn words(&self, words: &Words, query: &words::Query) -> Result<Found, StoreError> {
        let hits_max = words.hits_max.max(1);
        let (mut low, mut high, mut given) = (1, self.reach.last, None);
        match words.after {
            None => {}
            Some(Cursor(Position::Below(arrival))) => high = high.min(arrival.0.saturating_sub(1)),
            Some(Cursor(Position::Above(arrival))) => low = arrival.0.saturating_add(1),
            Some(Cursor(Position::Ranked(count))) => given = Some(count),
        }
        let mut found = Found { hits: Vec::new(), next: None, damaged: 0 };
        let mut before = Before { query, has_read_tail: false, damaged: HashSet::new() };
        if given.is_none() {
            let is_complete = self.exact(words, low, high, &mut before, &mut found)?;
            if !is_complete {
                found.next = found.hits.last().map(|hit| Cursor(Position::Below(hit.placed.arrival)));
                return Ok(found);
            }
        }
        let missing = hits_max - found.hits.len();
        let ranked = self.ranked(words, given.unwrap_or(0), missing, Beside::Not, Some(&before))?;
        found.hits.extend(ranked.hits);
        found.damaged += ranked.damaged;
        found.next = ranked.next;
        Ok(found)
    }

    /// Finds the places with all words, newest first; whether these are all there are.
    fn exact(
        &self,
        words: &Words,
        low: u64,
        high: u64,
        before: &mut Before<'_>,
        found: &mut Found,
    ) -> Result<bool, StoreError> {
        let query = before.query;
        let any = |text: &str| {
            ROOM.with_borrow_mut(|(room, splitter)| query.match_text(text, room, splitter, words.snippet_chars))
        };
        let with_tokens =
            |text: &str| ROOM.with_borrow_mut(|(room, _)| query.match_beyond_tokens(text, room, words.snippet_chars));
        let mut look = Look::new(self.reach, self.kept, &any, Order::Newest, words.hits_max.max(1), Bounds::none());
        let by_tokens = query.has_tokens();
        // What is not indexed first: it is the newest.
        let unindexed = if by_tokens { low.max(self.above + 1) } else { low };
        match self.kept {
            Some(kept) if by_tokens => {
                look.ask(&with_tokens)?;
                let mut arrivals = words::in_tail(query, kept, self.reach, self.above, high + 1)?;
                arrivals.retain(|arrival| *arrival >= low);
                push_falling(&mut look, arrivals.into_iter().rev())?;
                // They were read when the others were.
                look.scanned.damaged += kept.lost(self.above.max(low - 1), high);
            }
            _ => {
                let sieve = self.store.inner.index.sieve(self.reach.snapshot)?;
                grep::sift(&mut look, self.reach, sieve.as_ref(), &query.needs(), unindexed..=high, Order::Newest)?;
            }
        }
        if let (Some(opened), true) = (self.opened, by_tokens) {
            look.ask(&with_tokens)?;
            self.take_from_index(&mut look, query, opened, low, high)?;
        }
        look.flush()?;
        found.damaged += look.scanned.damaged;
        before.has_read_tail = true;
        before.damaged.extend(look.damaged);
        let is_complete = look.end != Some(End::Enough);
        found.hits = look.hits;
        Ok(is_complete)
    }

    /// Hands over what the index knows, newest first, a few at a time.
    fn take_from_index<'q>(
        &'q self,
        look: &mut Look<'_>,
        query: &'q words::Query,
        opened: &Opened,
        low: u64,
        high: u64,
    ) -> Result<(), StoreError> {
        let needs = query.needs_beyond_tokens();
        let mut sieve = None;
        let mut newest = words::Newest::new(query, self.reach, opened, high.min(self.above) + 1)?;
        let mut count = CANDIDATES_MIN;
        while !look.has_ended() {
            let mut arrivals = newest.take(count)?;
            let was_last = arrivals.len() < count;
            arrivals.retain(|arrival| *arrival >= low);
            if let Some(known) = &sieve
                && grep::sieve_out(known, &needs, &mut arrivals).is_err()
            {
                // A damaged sieve sieves nothing.
                sieve = None;
            }
            push_falling(look, arrivals.into_iter())?;
            if was_last {
                break;
            }
            // To look at the first few costs less than to read the sieve; when they were not enough, many will not be.
            if count == CANDIDATES_MIN && needs != needs::Needs::Nothing {
                sieve = self.store.inner.index.sieve(self.reach.snapshot)?;
            }
            count = (count * 2).min(CANDIDATES_MAX);
        }
        Ok(())
    }

    /// Finds places by rank, behind the first `given` of them; none that are hits of `exact`.
    fn ranked(
        &self,
        words: &Words,
        given: u64,
        max: usize,
        beside: Beside,
        before: Option<&Before<'_>>,
    ) -> Result<Found, StoreError> {
        let mut found = Found { hits: Vec::new(), next: None, damaged: 0 };
        let question = rank::Question::new(&words.text);
        if question.is_empty() {
            return Ok(found);
        }
        // With no room at all it is still told whether there is more: a page may be full of others.
        let skip = usize::try_from(given).unwrap_or(usize::MAX);
        // A filter, and hits that were given already, take some of the best away; rarely more than a quarter, else it is
        // tried again with more.
        let needed = skip.saturating_add(max);
        let mut wanted = needed.saturating_add(needed / 4).saturating_add(16).min(RANKED_MAX);
        loop {
            let (ranked, lost) = rank::rank(&question, self.reach, self.opened, self.kept, self.above, wanted)?;
            let all_there_are = ranked.len() < wanted;
            let (hits, damaged) =
                self.read_ranked(words, &question, &ranked, skip.saturating_add(max), beside, before)?;
            let enough = hits.len() > skip.saturating_add(max);
            if enough || all_there_are || wanted == RANKED_MAX {
                found.damaged = damaged + if before.is_some_and(|before| before.has_read_tail) { 0 } else { lost };
                found.hits = hits.into_iter().skip(skip).take(max).collect();
                if enough {
                    found.next =
                        Some(Cursor(Position::Ranked(given.saturating_add(u64::try_from(max).unwrap_or(u64::MAX)))));
                }
                return Ok(found);
            }
            wanted = wanted.saturating_mul(4).min(RANKED_MAX);
        }
    }

    /// Reads ranked places, best first, until there is one more than `max`.
    fn read_ranked(
        &self,
        words: &Words,
        question: &rank::Question,
        ranked: &[rank::Ranked],
        max: usize,
        beside: Beside,
        before: Option<&Before<'_>>,
    ) -> Result<(Vec<Hit>, u64), StoreError> {
        let needles: Vec<&needle::Needle> = question.needles.iter().collect();
        let (mut hits, mut damaged) = (Vec::new(), 0);
        for place in ranked {
            if beside == Beside::Not && !place.has_words {
                continue;
            }
            let arrival = Arrival(place.arrival);
            // What is not indexed was counted where it was read, and what was met before is not counted again.
            let is_news =
                place.arrival <= self.above && before.is_none_or(|before| !before.damaged.contains(&place.arrival));
            let row = self.reach.snapshot.place_row(arrival).and_then(|row| match row {
                Some(row) if self.reach.admits(arrival, &row)? => Ok(Some(row)),
                _ => Ok(None),
            });
            let Some(row) = unless_damaged(row)? else {
                damaged += u64::from(is_news);
                continue;
            };
            let Some(row) = row else { continue };
            let is_summary = is_summary(&row);
            let look = |said: reach::Said<'_>| {
                if !self.reach.wants_role(is_summary, &said) {
                    return None;
                }
                let shown = ROOM.with_borrow_mut(|(room, splitter)| {
                    let is_exact =
                        before.is_some_and(|before| before.query.match_text(said.text, room, splitter, 0).is_some());
                    if is_exact {
                        return None;
                    }
                    let folded = room.fold(said.text);
                    Some(words::shown(said.text, &folded, &needles, words.snippet_chars))
                })?;
                Some((said.id, said.role(), shown))
            };
            let read = match self.kept.and_then(|kept| kept.said(place.arrival)) {
                Some(said) => Some(look(said)),
                None => with_reader(|reader| reader.read(self.reach.snapshot, &row, look))?,
            };
            match read {
                None => damaged += u64::from(is_news),
                Some(None) => {}
                Some(Some((id, role, shown))) => {
                    let snippet::Shown { snippet, matches } = shown;
                    let score = Some(rank::thousandths(place.score));
                    let placed = crate::snapshot::placed(arrival, row)?;
                    hits.push(Hit { placed, id, role, snippet, matches, score, ranked: true });
                    if hits.len() > max {
                        break;
                    }
                }
            }
        }
        Ok((hits, damaged))
    }
}

thread_local! {
    static ROOM: std::cell::RefCell<(needle::FoldRoom, tokenize::Splitter)> = const {
        std::cell::RefCell::new((needle::FoldRoom::new(), tokenize::Splitter::new()))
    };
}

/// Hands falling arrivals to `look`, in pieces.
fn push_falling(look: &mut Look<'_>, arrivals: impl Iterator<Item = u64>) -> Result<(), StoreError> {
    let mut arrivals = arrivals.peekable();
    while arrivals.peek().is_some() && !look.has_ended() {
        let mut piece: Vec<u64> = arrivals.by_ref().take(CANDIDATES_MIN).collect();
        piece.reverse();
        look.push(Piece::Some(piece))?;
    }
    Ok(())
}

#[cfg(test)]
mod trial;
#[cfg(test)]
mod tests;
