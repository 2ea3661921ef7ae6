//! Which runs to fold so that a list reaches its target. A pure function: the same list and limits give the same plan.
//!
//! Budgets are tokens. Protection by count yields to them, step by step: a plan is made at a *pressure*, and whoever
//! carries it out measures what came of it and, when the target is not reached, plans again at the next one. What a plan
//! will come to can be told before anything is written, so the first plan is made at the pressure that seems enough.
//! * 0: the tail is kept as asked, as far as its share allows;
//! * 1: half that share, and large messages in it are shown in part;
//! * 2: only the newest request and what follows it is kept;
//! * 3: large results of that request are shown in part, but for its newest step;
//! * 4: its older steps are folded.
//!
//! Invariants (property tests below): steps are in order and do not meet; the newest request, its newest step and what
//! is pinned are never folded; at pressure 2 everything in front of the request is.

use std::ops::Range;

/// The last pressure: behind it nothing more can be won.
pub(crate) const PRESSURE_MAX: u8 = 4;
/// Summaries of one depth that are condensed together: fewer would be condensed again and again, more lose too much.
const FAN_IN: usize = 4;
const FAN_IN_MAX: usize = 8;
/// A text of fewer tokens says nothing.
const TEXT_TOKENS_MIN: u64 = 24;
/// What a list is filled up to with longer summaries, in sixteenths of its target: the next turn wants room too.
const FILLED_SIXTEENTHS: u64 = 15;

/// Something that is shown behind the head: an atom or a fold.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// The places it stands for.
    pub(crate) places: Range<usize>,
    /// What it costs as it is shown.
    pub(crate) tokens: u64,
    pub(crate) kind: Kind,
}

impl Unit {
    /// Whether a person asks for something, in a way that a provider takes.
    pub(crate) fn is_request(&self) -> bool {
        matches!(&self.kind, Kind::Said(said) if said.is_request && said.is_sound)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages as they were said.
    Said(Said),
    /// A summary, condensed with its neighbours of the same depth; `None` for one that is to stay as it is.
    Fold {
        depth: Option<u16>,
        /// Whether it stands in front of the request whose steps it is of.
        is_within: bool,
    },
}

/// What the plan must know of an atom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Whether a provider takes it. One that is not sound is always folded.
    pub(crate) is_sound: bool,
    /// Whether calls in it are open.
    pub(crate) is_open: bool,
    /// Whether a person asks for something.
    pub(crate) is_request: bool,
    pub(crate) is_pinned: bool,
    /// Its messages that can be shown in part, by whatever number the caller knows them, and what each costs.
    pub(crate) parts: Vec<(usize, u64)>,
}

/// What a plan must keep to; tokens, but for the two counts of messages.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// What the whole list may cost.
    pub(crate) target: u64,
    pub(crate) protect_first: usize,
    pub(crate) protect_last: usize,
    /// What the kept tail in front of the newest request may cost.
    pub(crate) tail_max: u64,
    /// Sources of one leaf.
    pub(crate) chunk_max: u64,
    /// The text of one summary, as far as its share goes.
    pub(crate) summary_max: u64,
    /// The text of one summary where there is room.
    pub(crate) text_max: u64,
    /// All summaries together.
    pub(crate) summaries_max: u64,
    /// What a fold costs without its text. A run that is not well above it is not worth one.
    pub(crate) fold_cost: u64,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Fold units into a summary of messages.
    Leaf {
        units: Range<usize>,
        /// What its text may cost.
        budget: u64,
        /// Whether they are steps of the newest request: then it stands before that.
        is_within: bool,
    },
    /// Fold summaries into one.
    Condense { units: Range<usize>, budget: u64 },
    /// Show a message in part.
    Part { unit: usize, message: usize, budget: u64 },
}

impl Step {
    /// The units of a summary of messages.
    pub(crate) fn leaf(&self) -> Option<&Range<usize>> {
        match self {
            Self::Leaf { units, .. } => Some(units),
            Self::Condense { .. } | Self::Part { .. } => None,
        }
    }
}

/// Makes a plan at a pressure.
pub(crate) fn plan(units: &[Unit], limits: &Limits, pressure: u8) -> Vec<Step> {
    let Some(newest) = units.len().checked_sub(1) else { return Vec::new() };
    let live = units.iter().rposition(Unit::is_request).unwrap_or(newest);
    let first = first_kept(units, live, limits, pressure);
    let tail = tail_from(units, live, limits, pressure);
    let mut steps = Vec::new();
    let folds = |at: usize| match &units[at].kind {
        Kind::Fold { .. } => false,
        Kind::Said(said) if said.is_pinned || at == live || said.is_open => false,
        Kind::Said(said) if !said.is_sound => true,
        Kind::Said(_) => (first <= at && at < tail) || (pressure >= 4 && live < at && at < newest),
    };
    let mut at = 0;
    while at <= newest {
        if folds(at) {
            let end = (at..=newest).find(|at| !folds(*at)).unwrap_or(newest + 1);
            // Only the first steps of the request can stand in front of it: others stand behind what is kept.
            leaves(units, at..end, limits, at == live + 1, &mut steps);
            at = end;
            continue;
        }
        if let Kind::Said(said) = &units[at].kind {
            let is_tail = pressure >= 1 && tail <= at && at < live;
            let is_step = pressure >= 3 && live < at && at < newest;
            // An eighth of everything for one message is out of proportion.
            let large = limits.target / 8;
            if is_tail || is_step {
                let cut = said.parts.iter().filter(|(_, tokens)| *tokens > large);
                steps.extend(cut.map(|&(message, _)| Step::Part { unit: at, message, budget: (large / 4).max(16) }));
            }
        }
        at += 1;
    }
    steps
}

/// The first pressure at which a plan seems to reach the target; `beside` is what is shown beside the units, tokens.
/// Where none does, the one at which everything in front of the request is folded.
pub(crate) fn first_pressure(units: &[Unit], limits: &Limits, beside: u64) -> u8 {
    let reaches = |pressure: &u8| {
        let steps = plan(units, limits, *pressure);
        let texts = steps.iter().filter_map(text_of).map(|(_, budget)| match pressure {
            0 | 1 => budget,
            _ => budget.min(TEXT_TOKENS_MIN),
        });
        texts.sum::<u64>() + without_texts(units, limits, &steps, beside) <= limits.target
    };
    (0..=PRESSURE_MAX).find(reaches).unwrap_or(2)
}

/// Gives the texts of a plan's leaves what the target leaves for them: more where there is room, and less where
/// nothing else can give way.
pub(crate) fn share(units: &[Unit], limits: &Limits, pressure: u8, beside: u64, steps: &mut [Step]) {
    let without = without_texts(units, limits, steps, beside);
    let leaves: Vec<(u64, u64)> =
        steps.iter().filter_map(text_of).map(|(run, text)| (cost(&units[run]), text)).collect();
    let sources: u64 = leaves.iter().map(|(source, _)| source).sum();
    let texts: u64 = leaves.iter().map(|(_, text)| text).sum();
    let mut filled = limits.target * FILLED_SIXTEENTHS / 16;
    let folds = units.iter().filter(|unit| is_fold(unit)).count() + leaves.len();
    if folds >= FAN_IN {
        // Longer ones would be condensed at once.
        let shown: u64 = units.iter().filter(|unit| is_fold(unit)).map(|unit| unit.tokens).sum();
        let frames = limits.fold_cost * u64::try_from(leaves.len()).unwrap_or(u64::MAX);
        filled = filled.min(without + limits.summaries_max.saturating_sub(shown + frames));
    }
    let more = filled.saturating_sub(without + texts);
    let room = limits.target.saturating_sub(without);
    let is_tight = pressure >= 2 && texts > room;
    let mut shares = leaves.into_iter().map(|(source, text)| match is_tight {
        true => part_of(room, text, texts).max(TEXT_TOKENS_MIN).min(text),
        false => (text + part_of(more, source, sources)).min(limits.text_max).min(source / 2).max(text),
    });
    for step in steps {
        if let Step::Leaf { budget, .. } = step {
            *budget = shares.next().unwrap_or(*budget);
        }
    }
}

/// As much of `all` as `one` is of `whole`.
fn part_of(all: u64, one: u64, whole: u64) -> u64 {
    u64::try_from(u128::from(all) * u128::from(one) / u128::from(whole.max(1))).unwrap_or(u64::MAX)
}

/// The units of a leaf, and what its text may cost.
fn text_of(step: &Step) -> Option<(Range<usize>, u64)> {
    match step {
        Step::Leaf { units, budget, .. } => Some((units.clone(), *budget)),
        Step::Condense { .. } | Step::Part { .. } => None,
    }
}

/// What a list will cost when steps are carried out, but for the texts of their leaves.
fn without_texts(units: &[Unit], limits: &Limits, steps: &[Step], beside: u64) -> u64 {
    // What is beyond their share is condensed later.
    let folds: u64 = units.iter().filter(|unit| is_fold(unit)).map(|unit| unit.tokens).sum();
    let said: u64 = units.iter().filter(|unit| !is_fold(unit)).map(|unit| unit.tokens).sum();
    let (mut gone, mut come) = (0, 0);
    for step in steps {
        match step {
            Step::Leaf { units: run, .. } => {
                gone += cost(&units[run.clone()]);
                come += limits.fold_cost;
            }
            Step::Part { unit, message, budget } => {
                if let Kind::Said(said) = &units[*unit].kind
                    && let Some((_, tokens)) = said.parts.iter().find(|(part, _)| part == message)
                {
                    gone += tokens;
                    come += budget + limits.fold_cost;
                }
            }
            Step::Condense { .. } => {}
        }
    }
    beside + folds.min(limits.summaries_max) + (said + come).saturating_sub(gone)
}

pub(super) fn cost(units: &[Unit]) -> u64 {
    units.iter().map(|unit| unit.tokens).sum()
}

pub(super) fn is_fold(unit: &Unit) -> bool {
    matches!(unit.kind, Kind::Fold { .. })
}

/// Which summaries to fold into one, when all together have outgrown their share.
pub(crate) fn condense(units: &[Unit], limits: &Limits, pressure: u8) -> Option<Step> {
    let kind_of = |unit: &Unit| match unit.kind {
        Kind::Fold { depth: Some(depth), is_within } => Some((depth, is_within)),
        _ => None,
    };
    let all: u64 = units.iter().filter(|unit| is_fold(unit)).map(|unit| unit.tokens).sum();
    if all <= limits.summaries_max && pressure < 2 {
        return None;
    }
    let enough = match pressure {
        0 | 1 => FAN_IN,
        2 => 2,
        // Neighbours of other depths are never folded with it, so it is made shorter alone.
        _ => 1,
    };
    // The oldest run of the lowest depth: what was condensed least.
    let mut best: Option<(u16, Range<usize>)> = None;
    let mut at = 0;
    while at < units.len() {
        let Some(kind @ (depth, _)) = kind_of(&units[at]) else {
            at += 1;
            continue;
        };
        let end = (at..units.len()).find(|next| kind_of(&units[*next]) != Some(kind)).unwrap_or(units.len());
        if end - at >= enough && best.as_ref().is_none_or(|(known, _)| depth < *known) {
            best = Some((depth, at..end.min(at + FAN_IN_MAX)));
        }
        at = end;
    }
    let (_, mut units_of) = best?;
    let budget_of = |sum: u64| (sum / 3).min(limits.summary_max).saturating_sub(limits.fold_cost);
    // No more of them than the share requires: each step away from what was said loses something.
    let over = all.saturating_sub(limits.summaries_max);
    let is_enough = |count: &usize| {
        let sum = cost(&units[units_of.start..units_of.start + count]);
        sum.saturating_sub(budget_of(sum) + limits.fold_cost) >= over
    };
    if pressure < 2
        && let Some(count) = (enough..units_of.len()).find(is_enough)
    {
        units_of.end = units_of.start + count;
    }
    let budget = budget_of(cost(&units[units_of.clone()]));
    (budget > 0).then_some(Step::Condense { units: units_of, budget })
}

/// The first unit behind those that are kept at the beginning.
fn first_kept(units: &[Unit], live: usize, limits: &Limits, pressure: u8) -> usize {
    let (mut messages, mut tokens, mut first) = (0, 0, 0);
    if pressure >= 2 {
        return 0;
    }
    for unit in &units[..live] {
        let is_sound = matches!(&unit.kind, Kind::Said(said) if said.is_sound);
        messages += unit.places.len();
        tokens += unit.tokens;
        if !is_sound || messages > limits.protect_first || tokens > limits.target / 8 {
            break;
        }
        first += 1;
    }
    first
}

/// The first unit of those that are kept in front of the newest request.
fn tail_from(units: &[Unit], live: usize, limits: &Limits, pressure: u8) -> usize {
    let room = match pressure {
        0 => limits.tail_max,
        1 => limits.tail_max / 2,
        _ => return live,
    };
    let mut messages: usize = units[live..].iter().map(|unit| unit.places.len()).sum();
    let (mut tokens, mut tail) = (0, live);
    while let Some(unit) = tail.checked_sub(1).and_then(|at| units.get(at)) {
        messages += unit.places.len();
        tokens += unit.tokens;
        if matches!(unit.kind, Kind::Fold { .. }) || messages > limits.protect_last || tokens > room {
            break;
        }
        tail -= 1;
    }
    tail
}

/// Cuts a run of units into leaves.
pub(super) fn leaves(units: &[Unit], run: Range<usize>, limits: &Limits, mut is_within: bool, steps: &mut Vec<Step>) {
    let must = |unit: &Unit| matches!(&unit.kind, Kind::Said(said) if !said.is_sound);
    let mut begin = run.start;
    let mut tokens = 0;
    let mut rest = cost(&units[run.clone()]);
    for at in run.clone() {
        tokens += units[at].tokens;
        rest -= units[at].tokens;
        let is_last = at + 1 == run.end;
        let next = units.get(at + 1).map_or(0, |unit| unit.tokens);
        // A rest that is not worth a fold of its own goes with what stands before it.
        if !is_last && (tokens + next <= limits.chunk_max || rest <= 2 * limits.fold_cost) {
            continue;
        }
        let is_worth = tokens > 2 * limits.fold_cost || units[begin..=at].iter().any(must);
        if is_worth {
            let budget = (tokens / 4).min(limits.summary_max).max(limits.fold_cost / 4);
            steps.push(Step::Leaf { units: begin..at + 1, budget, is_within });
        } else {
            // What follows stays behind it.
            is_within = false;
        }
        begin = at + 1;
        tokens = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unit() -> impl Strategy<Value = (u64, Kind, usize)> {
        let said = (prop::bool::weighted(0.9), prop::bool::weighted(0.4), prop::bool::weighted(0.1)).prop_map(
            |(is_sound, is_request, is_pinned)| Kind::Said(Said { is_sound, is_request, is_pinned, ..Said::default() }),
        );
        let kind = prop_oneof![8 => said, 2 => (prop::option::weighted(0.8, 1_u16..4), any::<bool>()).prop_map(|(depth, is_within)| Kind::Fold { depth, is_within })];
        (prop_oneof![1_u64..200, 200_u64..40_000], kind, 1_usize..5)
    }

    fn units() -> impl Strategy<Value = Vec<Unit>> {
        prop::collection::vec(unit(), 0..60).prop_map(|units| {
            let mut at = 0;
            units
                .into_iter()
                .map(|(tokens, kind, messages)| {
                    let mut kind = kind;
                    if let Kind::Said(said) = &mut kind {
                        said.parts = vec![(at, tokens)];
                    }
                    let unit = Unit { places: at..at + messages, tokens, kind };
                    at += messages;
                    unit
                })
                .collect()
        })
    }

    fn limits(target: u64, protect_last: usize) -> Limits {
        Limits {
            target,
            protect_first: 2,
            protect_last,
            tail_max: target / 3,
            chunk_max: 20_000,
            summary_max: 1500,
            text_max: 1500,
            summaries_max: target / 4,
            fold_cost: 60,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]

        #[test]
        fn steps_do_not_meet_and_spare_what_is_sacred(units in units(), target in 100_u64..200_000, last in 0_usize..40, pressure in 0_u8..=PRESSURE_MAX) {
            let limits = limits(target, last);
            let steps = plan(&units, &limits, pressure);
            prop_assert_eq!(&steps, &plan(&units, &limits, pressure));
            let live = units.iter().rposition(Unit::is_request).unwrap_or(units.len().saturating_sub(1));
            let mut behind = 0;
            for step in &steps {
                match step {
                    Step::Leaf { units: run, budget, is_within } => {
                        prop_assert!(run.start >= behind && run.end > run.start && run.end <= units.len());
                        prop_assert!(*budget > 0);
                        let before: Vec<Range<usize>> = steps
                            .iter()
                            .filter_map(|step| match step {
                                Step::Leaf { units, .. } => Some(units.clone()),
                                _ => None,
                            })
                            .filter(|units| units.start <= run.start)
                            .collect();
                        let folded_before = |at: usize| before.iter().any(|units| units.contains(&at));
                        prop_assert!(!is_within || run.start > live);
                        behind = run.end;
                        for at in run.clone() {
                            prop_assert!(at != live);
                            prop_assert!(!is_within || (live + 1..at).all(folded_before));
                            match &units[at].kind {
                                Kind::Said(said) => prop_assert!(!said.is_pinned && (pressure >= 4 || at < live || !said.is_sound)),
                                Kind::Fold { .. } => prop_assert!(false, "a fold in a leaf"),
                            }
                        }
                    }
                    Step::Part { unit, message, .. } => {
                        prop_assert!(*unit >= behind && *unit != live && *unit + 1 != units.len());
                        prop_assert!(units[*unit].places.contains(message));
                        behind = *unit;
                    }
                    Step::Condense { .. } => prop_assert!(false, "not here"),
                }
            }
            if pressure >= 2 {
                let folded = |at: usize| steps.iter().any(|step| matches!(step, Step::Leaf { units, .. } if units.contains(&at)));
                for (at, unit) in units.iter().enumerate().take(live) {
                    if let Kind::Said(said) = &unit.kind
                        && !said.is_pinned && unit.tokens > 2 * limits.fold_cost
                    {
                        prop_assert!(folded(at), "{at} is left");
                    }
                }
            }
        }

        #[test]
        fn texts_get_what_the_target_leaves(units in units(), target in 100_u64..200_000, last in 0_usize..40) {
            let limits = limits(target, last);
            let pressure = first_pressure(&units, &limits, 30);
            let mut steps = plan(&units, &limits, pressure);
            let asked = steps.clone();
            share(&units, &limits, pressure, 30, &mut steps);
            let texts = |steps: &[Step]| steps.iter().filter_map(text_of).map(|(_, budget)| budget).sum::<u64>();
            let without = without_texts(&units, &limits, &steps, 30);
            prop_assert_eq!(steps.len(), asked.len());
            for (step, before) in steps.iter().zip(&asked) {
                if let (Some((run, text)), Some((_, before))) = (text_of(step), text_of(before)) {
                    prop_assert!(text > 0 && (text <= before || text <= limits.text_max.min(cost(&units[run]) / 2)));
                }
            }
            // Longer than asked only where all of them fit.
            prop_assert!(texts(&steps) <= texts(&asked) || without + texts(&steps) <= target);
            if pressure < 2 {
                prop_assert!(without + texts(&asked) <= target);
            }
        }

        #[test]
        fn summaries_are_condensed_with_their_like(units in units(), pressure in 0_u8..=PRESSURE_MAX) {
            if let Some(Step::Condense { units: run, budget }) = condense(&units, &limits(1000, 4), pressure) {
                let least = if pressure >= 3 { 1 } else { 2 };
                prop_assert!(run.len() >= least && budget > 0);
                let first = units[run.start].kind.clone();
                let is_fold = matches!(first, Kind::Fold { depth: Some(_), .. });
                prop_assert!(is_fold);
                prop_assert!(units[run].iter().all(|unit| unit.kind == first));
            }
        }
    }
}
