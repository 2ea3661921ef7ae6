//! What a timeline lists, in order, what it shares with its ancestors among it; and the proof that nothing that lists
//! messages hides one.

use lcm_core::{Arrival, OrderKey, TimelineId};
use redb::{AccessGuard, ReadableTable, ReadableTableMetadata, StorageError, TableDefinition, TableHandle};

use super::{Placed, Snapshot, placed};
use crate::error::{StoreError, contained, unless_damaged};
use crate::scope::Span;
use crate::tables;

/// One line of a log.
#[derive(Debug)]
pub enum Listed {
    /// What stands there.
    Whole(Placed),
    /// What stands there cannot be read.
    Damaged {
        /// Its number.
        arrival: Arrival,
        /// Where in the log it stands.
        order: OrderKey,
        /// What is wrong with it.
        why: StoreError,
    },
}

impl Listed {
    /// Where in the log it stands.
    #[must_use]
    pub fn order(&self) -> &OrderKey {
        match self {
            Self::Whole(placed) => &placed.order,
            Self::Damaged { order, .. } => order,
        }
    }

    /// Its number.
    #[must_use]
    pub fn arrival(&self) -> Arrival {
        match self {
            Self::Whole(placed) => placed.arrival,
            Self::Damaged { arrival, .. } => *arrival,
        }
    }

    /// What stands there; `None` when it is damaged.
    #[must_use]
    pub fn placed(&self) -> Option<&Placed> {
        match self {
            Self::Whole(placed) => Some(placed),
            Self::Damaged { .. } => None,
        }
    }

    /// What stands there.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn whole(self) -> Result<Placed, StoreError> {
        match self {
            Self::Whole(placed) => Ok(placed),
            Self::Damaged { why, .. } => Err(why),
        }
    }
}

impl Snapshot {
    /// The places of a timeline and of what it shares with its ancestors, in order, from the one behind `after`
    /// on, at most `max`.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn log(&self, timeline: TimelineId, after: Option<&OrderKey>, max: usize) -> Result<Vec<Placed>, StoreError> {
        self.listed(timeline, after, max)?.into_iter().map(Listed::whole).collect()
    }

    /// As [`Snapshot::log`], but what cannot be read at a place stands in its stead: one damaged place must not hide
    /// those beside it.
    ///
    /// # Errors
    /// When the database fails, or what lists the places is damaged.
    pub fn listed(
        &self,
        timeline: TimelineId,
        after: Option<&OrderKey>,
        max: usize,
    ) -> Result<Vec<Listed>, StoreError> {
        contained(self.pin.path(), || {
            let mut runs = Vec::new();
            for span in self.lineage(timeline)? {
                let (low, high) = span.keys(after);
                if low < high {
                    let mut rows = self.tables.timeline.range(low.as_slice()..high.as_slice())?;
                    let head = self.next_in(&span, &mut rows)?;
                    runs.push((span, rows, head));
                }
            }
            let mut places = Vec::new();
            while places.len() < max {
                // Nearly always the first run that has one left: only a late place of a branch, put between places that
                // it shares, lies in front of those.
                let heads = runs.iter().enumerate().filter_map(|(i, (_, _, head))| Some((i, head.as_ref()?.order())));
                let Some((i, _)) = heads.min_by_key(|(_, order)| *order) else { break };
                let (span, rows, head) = &mut runs[i];
                let next = self.next_in(span, rows)?;
                if let (Some(place), Some(next)) = (&head, &next)
                    && place.order() >= next.order()
                {
                    return Err(StoreError::row("timeline", next.arrival(), "it is listed behind what follows it"));
                }
                places.extend(std::mem::replace(head, next));
            }
            Ok(places)
        })
    }

    /// The next place of a span among rows of its timeline.
    fn next_in<'k>(
        &self,
        span: &Span,
        rows: &mut impl Iterator<Item = Result<(AccessGuard<'k, &'static [u8]>, AccessGuard<'k, u64>), StorageError>>,
    ) -> Result<Option<Listed>, StoreError> {
        for entry in rows {
            let (key, value) = entry?;
            let arrival = Arrival(value.value());
            let strange = || StoreError::row("timeline", arrival, "the message does not stand where it is listed");
            // Where keys are damaged, a range may give what lies outside of it, even somebody else's.
            let order = key.value().strip_prefix(span.timeline.0.to_be_bytes().as_slice());
            let order = order.and_then(OrderKey::from_bytes).ok_or_else(strange)?;
            // The row has no check of its own, so it and its place must agree.
            let place = self.place_row(arrival).and_then(|row| match placed(arrival, row.ok_or_else(strange)?)? {
                place if place.timeline == span.timeline && place.order == order => Ok(place),
                _ => Err(strange()),
            });
            return match place {
                Ok(_) if span.until.as_ref().is_some_and(|(_, newest)| arrival > *newest) => continue,
                Ok(place) => Ok(Some(Listed::Whole(place))),
                Err(why) if why.is_damage() => Ok(Some(Listed::Damaged { arrival, order, why })),
                Err(error) => Err(error),
            };
        }
        Ok(None)
    }

    /// How many messages stand in a timeline and in what it shares.
    ///
    /// # Errors
    /// When the database fails.
    pub fn log_len(&self, timeline: TimelineId) -> Result<u64, StoreError> {
        contained(self.pin.path(), || {
            let mut count = 0;
            for span in self.lineage(timeline)? {
                let (low, high) = span.keys(None);
                let mut before = Vec::new();
                for entry in self.tables.timeline.range(low.as_slice()..high.as_slice())? {
                    let (key, value) = entry?;
                    let (key, arrival) = (key.value(), Arrival(value.value()));
                    if key < low.as_slice() || key >= high.as_slice() || key <= before.as_slice() {
                        return Err(StoreError::row("timeline", arrival, "it is listed out of order"));
                    }
                    before.clear();
                    before.extend_from_slice(key);
                    if span.until.as_ref().is_none_or(|(_, newest)| arrival <= *newest) {
                        count += 1;
                    }
                }
            }
            Ok(count)
        })
    }

    /// Whether a place with this order key stands on a timeline or in what it shares.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn is_listed(&self, timeline: TimelineId, order: &OrderKey) -> Result<bool, StoreError> {
        contained(self.pin.path(), || {
            for span in self.lineage(timeline)? {
                let key = tables::timeline_key(span.timeline, order.as_bytes());
                if let Some(value) = self.tables.timeline.get(key.as_slice())?
                    && span.holds(Arrival(value.value()), order)
                {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// The last place of a timeline, or of what it shares when it has none of its own.
    ///
    /// # Errors
    /// When the database fails or a row is damaged.
    pub fn last_place(&self, timeline: TimelineId) -> Result<Option<Placed>, StoreError> {
        contained(self.pin.path(), || {
            let mut last = None;
            for span in self.lineage(timeline)? {
                let (low, high) = span.keys(None);
                let mut rows = self.tables.timeline.range(low.as_slice()..high.as_slice())?.rev();
                let here = self.next_in(&span, &mut rows)?.map(Listed::whole).transpose()?;
                // A branch may have no place of its own but a late one between those that it shares.
                last = here.into_iter().chain(last).max_by(|one, other| one.order.cmp(&other.order));
            }
            Ok(last)
        })
    }

    /// Proves that nothing that lists messages hides a row: a damaged page can make the rows on it absent, and whoever
    /// reads everything would not miss them.
    ///
    /// What is listed and cannot be read is no matter of this: whoever reads it meets it.
    ///
    /// # Errors
    /// [`StoreError::DamagedFile`] and [`StoreError::DamagedRow`] when rows are hidden; otherwise when the database
    /// fails.
    pub fn check_listed(&self) -> Result<(), StoreError> {
        contained(self.pin.path(), || {
            self.check_rows(tables::SESSIONS, |_, _| Ok(()))?;
            self.check_rows(tables::TIMELINES, |_, _| Ok(()))?;
            // Both ends of each agree and there are as many, so no timeline is missing.
            self.check_rows(tables::SESSION_TIMELINES, |(session, timeline), ()| {
                let id = TimelineId(timeline);
                match self.timeline_row(id)?.session == session {
                    true => Ok(()),
                    false => Err(StoreError::row("session_timelines", id, "it is a timeline of another session")),
                }
            })?;
            let of_sessions = self.txn.open_table(tables::SESSION_TIMELINES)?.len()?;
            compare("timelines", self.tables.timelines.len()?, of_sessions)?;
            self.check_rows(tables::TIMELINE, |key, arrival| {
                let arrival = Arrival(arrival);
                // One that stands elsewhere in the same timeline is met there.
                let is_met = match unless_damaged(self.place_row(arrival))? {
                    Some(Some(row)) => key.starts_with(&row.timeline.to_be_bytes()),
                    Some(None) => false,
                    None => true,
                };
                match is_met {
                    true => Ok(()),
                    false => Err(StoreError::row("timeline", arrival, "it is listed in another timeline than its own")),
                }
            })?;
            // Each place is a message's, which is listed, or a summary's.
            let (places, has_lost) = self.place_numbers()?;
            let summaries = self.txn.open_table(tables::SUMMARIES)?.len()?;
            compare("messages and summaries", places, self.tables.timeline.len()?.saturating_add(summaries))?;
            self.check_rows(tables::REVISIONS, |(arrival, _), _| match (1..=places).contains(&arrival) {
                true => Ok(()),
                false => Err(StoreError::row("revisions", arrival, "it is the form of no message")),
            })?;
            match has_lost {
                true => Err(StoreError::damaged_file("nobody can tell how many messages there are")),
                false => Ok(()),
            }
        })
    }

    /// Counts the rows of a table, whose keys must rise, and hands each to `each`.
    fn check_rows<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        definition: TableDefinition<'static, K, V>,
        each: impl Fn(K::SelfType<'_>, V::SelfType<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let table = self.txn.open_table(definition)?;
        let (mut shown, mut before) = (0_u64, Vec::new());
        for entry in table.iter()? {
            let (key, value) = entry?;
            let key = key.value();
            {
                let bytes = K::as_bytes(&key);
                if shown > 0 && K::compare(&before, bytes.as_ref()).is_ge() {
                    return Err(StoreError::damaged_file(format!("table {} is out of order", definition.name())));
                }
                before.clear();
                before.extend_from_slice(bytes.as_ref());
            }
            shown += 1;
            each(key, value.value())?;
        }
        let rows = table.len()?;
        if shown != rows {
            let why = format!("table {} shows {shown} of its {rows} rows", definition.name());
            return Err(StoreError::damaged_file(why));
        }
        Ok(())
    }
}

/// Tells that fewer are listed than there are, or more.
fn compare(what: &str, there: u64, listed: u64) -> Result<(), StoreError> {
    match there == listed {
        true => Ok(()),
        false => Err(StoreError::damaged_file(format!("{listed} {what} are listed, and there are {there}"))),
    }
}
