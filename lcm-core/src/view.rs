//! Views: what a session shows now, in order; fold, unfold, "nothing is lost".
//!
//! A view is a list of segments. Each begins at a place and reaches to the beginning of the next, the last to
//! the open end of the timeline. So every place from the first on lies in exactly one segment by construction,
//! a turn that only appends changes no view, and a late place joins the segment it falls into.
//!
//! Invariants, checked by the constructor and kept by every operation: beginnings rise strictly, the last
//! segment is raw, and no two raw segments stand side by side. Unfolding what was folded gives the view one
//! started from.

use crate::id::NodeId;
use crate::place::OrderKey;

/// One piece of a view: from `first` to the beginning of the next piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub first: OrderKey,
    /// What is shown.
    pub shows: Shows,
}

/// What a segment shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shows {
    /// The messages themselves.
    Raw,
    /// This summary instead.
    Folded(NodeId),
}

/// Why a list of segments is no view, or a change to one not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// The last segment must be raw, so that new places are shown as they are.
    #[error("the last segment of a view must be raw")]
    NotOpen,
    /// Segments out of order.
    #[error("segment {0} does not begin behind the one in front of it")]
    OutOfOrder(usize),
    /// The run is empty, lies outside, or cuts a fold in two.
    #[error("the run is empty, outside of this view, or cuts a fold in two")]
    CutsFold,
    /// No segment shows this summary.
    #[error("summary {0:.12} is not in this view")]
    NotShown(NodeId),
}

/// What a session shows, in order. See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    segments: Vec<Segment>,
}

impl View {
    /// A view that shows everything from `first` on as it is.
    #[must_use]
    pub fn raw(first: OrderKey) -> Self {
        Self { segments: vec![Segment { first, shows: Shows::Raw }] }
    }

    /// Checks segments, for example those a store kept, and joins raw neighbours.
    ///
    /// # Errors
    /// When the last is not raw, or they are out of order.
    pub fn new(segments: Vec<Segment>) -> Result<Self, ViewError> {
        if segments.last().is_none_or(|last| last.shows != Shows::Raw) {
            return Err(ViewError::NotOpen);
        }
        if let Some(i) = segments.windows(2).position(|pair| pair[0].first >= pair[1].first) {
            return Err(ViewError::OutOfOrder(i + 1));
        }
        let mut joined: Vec<Segment> = Vec::with_capacity(segments.len());
        for segment in segments {
            let beside_raw = joined.last().is_some_and(|last| last.shows == Shows::Raw);
            if segment.shows != Shows::Raw || !beside_raw {
                joined.push(segment);
            }
        }
        Ok(Self { segments: joined })
    }

    /// The segments, in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The summaries shown, in order.
    pub fn summaries(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.segments.iter().filter_map(|segment| match segment.shows {
            Shows::Raw => None,
            Shows::Folded(summary) => Some(summary),
        })
    }

    /// The segment a place lies in; `None` for a place before the view's first.
    #[must_use]
    pub fn covering(&self, place: &OrderKey) -> Option<&Segment> {
        self.segments.get(self.index_covering(place)?)
    }

    fn index_covering(&self, place: &OrderKey) -> Option<usize> {
        self.segments.partition_point(|segment| segment.first <= *place).checked_sub(1)
    }

    /// Shows `summary` for the places from `first` up to, and without, `next`.
    ///
    /// Folds that lie wholly inside disappear into it (a condensation); raw segments are cut.
    ///
    /// # Errors
    /// [`ViewError::CutsFold`] when the run is empty, begins before the view, or one of its ends lies inside a fold.
    pub fn fold(&self, first: &OrderKey, next: &OrderKey, summary: NodeId) -> Result<Self, ViewError> {
        if first >= next {
            return Err(ViewError::CutsFold);
        }
        let at_border = |place: &OrderKey| {
            let segment = self.covering(place).ok_or(ViewError::CutsFold)?;
            let whole = segment.first == *place || segment.shows == Shows::Raw;
            if whole { Ok(segment.shows) } else { Err(ViewError::CutsFold) }
        };
        at_border(first)?;
        let follows = at_border(next)?;
        let mut segments: Vec<Segment> = self.segments.iter().filter(|s| s.first < *first).cloned().collect();
        segments.push(Segment { first: first.clone(), shows: Shows::Folded(summary) });
        segments.push(Segment { first: next.clone(), shows: follows });
        segments.extend(self.segments.iter().filter(|s| s.first > *next).cloned());
        Self::new(segments)
    }

    /// Shows `instead` where `summary` was shown: the folds it was made of, or one raw segment.
    ///
    /// # Errors
    /// [`ViewError::NotShown`] when no segment shows it; [`ViewError::CutsFold`] when `instead` does not begin
    /// where it began; [`ViewError::OutOfOrder`] when `instead` reaches beyond it.
    pub fn unfold(&self, summary: NodeId, instead: &[Segment]) -> Result<Self, ViewError> {
        let shown = |segment: &Segment| segment.shows == Shows::Folded(summary);
        let i = self.segments.iter().position(shown).ok_or(ViewError::NotShown(summary))?;
        if instead.first().is_none_or(|first| first.first != self.segments[i].first) {
            return Err(ViewError::CutsFold);
        }
        let mut segments = self.segments[..i].to_vec();
        segments.extend_from_slice(instead);
        segments.extend_from_slice(&self.segments[i + 1..]);
        Self::new(segments)
    }
}

#[cfg(test)]
mod tests {
    //! That a fold can be unfolded, and that every place lies in exactly one segment whatever was folded.
    //! Method: random folds of runs of ten places; what a fold hides is kept aside, as history keeps it.

    use proptest::prelude::*;

    use super::*;
    use crate::id::Arrival;

    fn at(n: u64) -> OrderKey {
        OrderKey::appended(Arrival(n))
    }

    fn summary(n: u8) -> NodeId {
        NodeId::from_bytes([n; 32])
    }

    fn raw(n: u64) -> Segment {
        Segment { first: at(n), shows: Shows::Raw }
    }

    fn folded(n: u64, by: u8) -> Segment {
        Segment { first: at(n), shows: Shows::Folded(summary(by)) }
    }

    /// What a view shows from `first` on and before `next`.
    fn hidden(view: &View, first: &OrderKey, next: &OrderKey) -> Vec<Segment> {
        let shows = view.covering(first).expect("the run begins in the view").shows;
        let inner = view.segments().iter().filter(|segment| *first < segment.first && segment.first < *next);
        [Segment { first: first.clone(), shows }].into_iter().chain(inner.cloned()).collect()
    }

    proptest! {
        #[test]
        fn what_was_folded_is_unfolded_to_the_view_before(runs in prop::collection::vec((0_u64..12, 0_u64..12), 1..12)) {
            let mut view = View::raw(at(1));
            for (n, (first, next)) in (1..).zip(runs) {
                let (first, next) = (at(first), at(next));
                let Ok(after) = view.fold(&first, &next, summary(n)) else { continue };
                prop_assert_eq!(after.covering(&first).map(|segment| segment.shows), Some(Shows::Folded(summary(n))));
                prop_assert_eq!(after.unfold(summary(n), &hidden(&view, &first, &next)), Ok(view));
                prop_assert_eq!(View::new(after.segments().to_vec()), Ok(after.clone()));
                prop_assert!(after.segments().windows(2).all(|pair| pair[0].first < pair[1].first));
                prop_assert!(after.segments().windows(2).all(|pair| pair[0].shows != Shows::Raw || pair[1].shows != Shows::Raw));
                prop_assert_eq!(after.segments().last().map(|last| last.shows), Some(Shows::Raw));
                view = after;
            }
        }
    }

    #[test]
    fn a_fold_cuts_raw_runs_and_swallows_whole_folds() {
        let view = View::raw(at(1)).fold(&at(2), &at(4), summary(7)).unwrap();
        assert_eq!(view.segments(), [raw(1), folded(2, 7), raw(4)]);
        let beside = view.fold(&at(4), &at(6), summary(8)).unwrap();
        assert_eq!(beside.summaries().collect::<Vec<_>>(), [summary(7), summary(8)]);
        let over = beside.fold(&at(2), &at(6), summary(9)).unwrap();
        assert_eq!(over.segments(), [raw(1), folded(2, 9), raw(6)]);
        assert_eq!(beside.fold(&at(3), &at(6), summary(9)), Err(ViewError::CutsFold));
        assert_eq!(beside.fold(&at(1), &at(5), summary(9)), Err(ViewError::CutsFold));
    }

    #[test]
    fn runs_that_are_empty_or_outside_are_refused() {
        let view = View::raw(at(5));
        assert_eq!(view.fold(&at(6), &at(6), summary(1)), Err(ViewError::CutsFold));
        assert_eq!(view.fold(&at(4), &at(6), summary(1)), Err(ViewError::CutsFold));
        assert_eq!(view.covering(&at(4)), None);
    }

    #[test]
    fn segments_that_are_no_view_are_refused() {
        assert_eq!(View::new(Vec::new()), Err(ViewError::NotOpen));
        assert_eq!(View::new(vec![raw(1), folded(2, 1)]), Err(ViewError::NotOpen));
        assert_eq!(View::new(vec![folded(2, 1), raw(2)]), Err(ViewError::OutOfOrder(1)));
        assert_eq!(View::new(vec![raw(1), raw(2)]).unwrap().segments(), [raw(1)]);
    }

    #[test]
    fn an_unfold_that_does_not_fit_is_refused() {
        let view = View::raw(at(1)).fold(&at(2), &at(4), summary(7)).unwrap();
        assert_eq!(view.unfold(summary(8), &[raw(2)]), Err(ViewError::NotShown(summary(8))));
        assert_eq!(view.unfold(summary(7), &[raw(3)]), Err(ViewError::CutsFold));
        assert_eq!(view.unfold(summary(7), &[]), Err(ViewError::CutsFold));
        assert_eq!(view.unfold(summary(7), &[folded(2, 1), raw(5)]), Err(ViewError::OutOfOrder(3)));
        assert_eq!(view.unfold(summary(7), &[raw(2)]), Ok(View::raw(at(1))));
    }
}
