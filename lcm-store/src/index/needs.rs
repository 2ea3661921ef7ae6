//! What a pattern needs: a condition on triples of bytes that holds for every text it matches.
//!
//! The sieve evaluates it for a block of texts; when it does not hold, the pattern matches nothing there. It is
//! derived from the pattern's syntax tree: which strings a part can match exactly while those are few, else how
//! what it matches begins and ends, joined where parts meet.
//!
//! Invariant: the condition may hold too often, never too seldom (property tests in `grep`). So whatever is not
//! understood needs nothing.

use regex_syntax::hir::{Class, Hir, HirKind};

use super::sieve::{self, Bits, Masks};

/// A condition on the triples of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Holds always.
    Nothing,
    /// The triple with this hash is there.
    Triple(u16),
    /// All of these hold.
    All(Vec<Needs>),
    /// At least one of these holds.
    Any(Vec<Needs>),
}

/// More strings a part are not followed one by one.
const STRINGS_MAX: usize = 24;
/// A longer string is cut: its triples are taken, its ends go on.
const STRING_BYTES_MAX: usize = 48;
/// What is kept of a beginning or an end: one byte less than a triple joins with what stands beside it.
const EDGE: usize = 2;
/// Characters of a class that are followed one by one: the digits of any base.
const CLASS_MAX: usize = 16;
/// Copies of a counted repetition that are followed.
const COPIES_MAX: u32 = 8;
/// Conditions side by side. Each that comes is compared with those that are there, so without a bound a pattern of a
/// hundred thousand letters would take minutes; far fewer tell blocks apart.
const NEEDS_MAX: usize = 1024;

impl Needs {
    /// What a pattern needs.
    pub(crate) fn of(hir: &Hir) -> Self {
        part(hir).into_needs()
    }

    /// What a text that holds this one needs.
    pub(crate) fn of_literal(text: &str) -> Self {
        triples(&folded(text.as_bytes()))
    }

    /// Whether the block with these bits may fulfil the condition.
    pub(crate) fn may_hold(&self, bits: Bits<'_>) -> bool {
        match self {
            Self::Nothing => true,
            Self::Triple(hash) => bits.may_hold(*hash),
            Self::All(all) => all.iter().all(|needs| needs.may_hold(bits)),
            Self::Any(any) => any.iter().any(|needs| needs.may_hold(bits)),
        }
    }

    /// The groups of a block that may fulfil the condition, one bit each.
    pub(crate) fn groups(&self, masks: &Masks<'_>) -> u8 {
        match self {
            Self::Nothing => u8::MAX,
            Self::Triple(hash) => masks.groups(*hash),
            // A match lies in one text, so all of it lies in one group.
            Self::All(all) => {
                let mut groups = u8::MAX;
                for needs in all {
                    groups &= needs.groups(masks);
                    if groups == 0 {
                        break;
                    }
                }
                groups
            }
            Self::Any(any) => any.iter().fold(0, |groups, needs| groups | needs.groups(masks)),
        }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        let mut all = Vec::new();
        for needs in [self, other] {
            match needs {
                Self::Nothing => {}
                Self::All(more) => all.extend(more),
                one => all.push(one),
            }
        }
        all.dedup();
        // Less is needed than could be: that is never wrong.
        all.truncate(NEEDS_MAX);
        match all.len() {
            0 => Self::Nothing,
            1 => all.remove(0),
            _ => Self::All(all),
        }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        if self == Self::Nothing || other == Self::Nothing {
            return Self::Nothing;
        }
        let mut any = Vec::new();
        for needs in [self, other] {
            match needs {
                Self::Any(more) => any.extend(more),
                one => any.push(one),
            }
        }
        any.dedup();
        match any.len() {
            1 => any.remove(0),
            0..=NEEDS_MAX => Self::Any(any),
            // None of them may be left out, so nothing is needed.
            _ => Self::Nothing,
        }
    }
}

/// What is known of what a part of a pattern matches.
enum Part {
    /// One of these strings, and nothing else.
    Exactly(Vec<Vec<u8>>),
    /// Something that begins with one of the first, ends with one of the second, and fulfils a condition.
    Within { begins: Vec<Vec<u8>>, ends: Vec<Vec<u8>>, needs: Needs },
}

impl Part {
    fn anything() -> Self {
        Self::Within { begins: vec![Vec::new()], ends: vec![Vec::new()], needs: Needs::Nothing }
    }

    fn into_needs(self) -> Needs {
        match self {
            Self::Exactly(strings) => one_of(&strings),
            Self::Within { needs, .. } => needs,
        }
    }

    /// The same, with beginnings and ends only.
    fn within(self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, Needs) {
        match self {
            Self::Exactly(strings) => {
                let needs = one_of(&strings);
                let begins = strings.iter().map(|string| string[..string.len().min(EDGE)].to_vec());
                let ends = strings.iter().map(|string| string[string.len().saturating_sub(EDGE)..].to_vec());
                (distinct(begins.collect()), distinct(ends.collect()), needs)
            }
            Self::Within { begins, ends, needs } => (begins, ends, needs),
        }
    }

    /// Both, one behind the other.
    fn then(self, next: Self) -> Self {
        if let (Self::Exactly(left), Self::Exactly(right)) = (&self, &next)
            && left.len() * right.len() <= STRINGS_MAX
            && longest(left) + longest(right) <= STRING_BYTES_MAX
        {
            return Self::Exactly(joined(left, right));
        }
        let whole_left = matches!(self, Self::Exactly(_)).then(|| shortest_of(&self));
        let whole_right = matches!(next, Self::Exactly(_)).then(|| shortest_of(&next));
        let (begins, left_ends, left_needs) = self.within();
        let (right_begins, ends, right_needs) = next.within();
        let mut needs = left_needs.and(right_needs);
        if left_ends.len() * right_begins.len() <= STRINGS_MAX {
            needs = needs.and(one_of(&joined(&left_ends, &right_begins)));
        }
        // A short part that is known exactly does not hide what stands behind or before it.
        let begins = match whole_left {
            Some(short) if short < EDGE && begins.len() * right_begins.len() <= STRINGS_MAX => {
                cut(joined(&begins, &right_begins), |string| string[..string.len().min(EDGE)].to_vec())
            }
            _ => begins,
        };
        let ends = match whole_right {
            Some(short) if short < EDGE && left_ends.len() * ends.len() <= STRINGS_MAX => {
                cut(joined(&left_ends, &ends), |string| string[string.len().saturating_sub(EDGE)..].to_vec())
            }
            _ => ends,
        };
        Self::Within { begins, ends, needs }
    }

    /// One or the other.
    fn or(self, other: Self) -> Self {
        if let (Self::Exactly(left), Self::Exactly(right)) = (&self, &other)
            && left.len() + right.len() <= STRINGS_MAX
        {
            return Self::Exactly(distinct([left.as_slice(), right.as_slice()].concat()));
        }
        let (mut begins, mut ends, needs) = self.within();
        let (more_begins, more_ends, more_needs) = other.within();
        begins.extend(more_begins);
        ends.extend(more_ends);
        let few = |strings: Vec<Vec<u8>>| {
            let strings = distinct(strings);
            if strings.len() > STRINGS_MAX { vec![Vec::new()] } else { strings }
        };
        Self::Within { begins: few(begins), ends: few(ends), needs: needs.or(more_needs) }
    }
}

fn part(hir: &Hir) -> Part {
    match hir.kind() {
        // Assertions match nothing of the text.
        HirKind::Empty | HirKind::Look(_) => Part::Exactly(vec![Vec::new()]),
        HirKind::Literal(literal) => literal_part(&folded(&literal.0)),
        HirKind::Class(class) => class_part(class),
        HirKind::Capture(capture) => part(&capture.sub),
        HirKind::Concat(parts) => {
            parts.iter().map(part).reduce(Part::then).unwrap_or_else(|| Part::Exactly(vec![Vec::new()]))
        }
        HirKind::Alternation(parts) => parts.iter().map(part).reduce(Part::or).unwrap_or_else(Part::anything),
        HirKind::Repetition(repetition) => {
            if repetition.min == 0 {
                return match repetition.max {
                    Some(1) => part(&repetition.sub).or(Part::Exactly(vec![Vec::new()])),
                    _ => Part::anything(),
                };
            }
            let copies = repetition.min.min(COPIES_MAX);
            let mut whole = part(&repetition.sub);
            for _ in 1..copies {
                whole = whole.then(part(&repetition.sub));
            }
            if repetition.max == Some(copies) {
                return whole;
            }
            // More of the same may stand between: only beginning and end are known.
            let (begins, ends, needs) = whole.within();
            Part::Within { begins, ends, needs }
        }
    }
}

/// A literal of any length: what is too long to be followed is known by its triples and its ends.
fn literal_part(bytes: &[u8]) -> Part {
    if bytes.len() <= STRING_BYTES_MAX {
        return Part::Exactly(vec![bytes.to_vec()]);
    }
    Part::Within {
        begins: vec![bytes[..EDGE].to_vec()],
        ends: vec![bytes[bytes.len() - EDGE..].to_vec()],
        needs: triples(bytes),
    }
}

fn class_part(class: &Class) -> Part {
    let Class::Unicode(class) = class else {
        // Bytes that are no text on their own occur in no pattern for texts; ASCII ones are handled below.
        return Part::anything();
    };
    let mut strings = Vec::new();
    for range in class.iter() {
        for c in range.start()..=range.end() {
            strings.push(folded(c.encode_utf8(&mut [0; 4]).as_bytes()));
            // Both cases of a letter fold to one string, so more characters than strings are looked at.
            if strings.len() > 4 * CLASS_MAX {
                return Part::anything();
            }
        }
    }
    let strings = distinct(strings);
    if strings.len() > CLASS_MAX { Part::anything() } else { Part::Exactly(strings) }
}

fn folded(bytes: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(bytes.len());
    sieve::fold(bytes, |byte| folded.push(byte));
    folded
}

/// All triples of a folded string.
fn triples(folded: &[u8]) -> Needs {
    let mut hashes: Vec<u16> = folded
        .windows(3)
        .map(|triple| sieve::triple_hash(u32::from(triple[0]) << 16 | u32::from(triple[1]) << 8 | u32::from(triple[2])))
        .collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes.into_iter().map(Needs::Triple).fold(Needs::Nothing, Needs::and)
}

fn one_of(strings: &[Vec<u8>]) -> Needs {
    strings.iter().map(|string| triples(string)).reduce(Needs::or).unwrap_or(Needs::Nothing)
}

fn joined(left: &[Vec<u8>], right: &[Vec<u8>]) -> Vec<Vec<u8>> {
    distinct(left.iter().flat_map(|a| right.iter().map(move |b| [a.as_slice(), b].concat())).collect())
}

fn cut(strings: Vec<Vec<u8>>, keep: impl Fn(&[u8]) -> Vec<u8>) -> Vec<Vec<u8>> {
    distinct(strings.iter().map(|string| keep(string)).collect())
}

fn distinct(mut strings: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    strings.sort_unstable();
    strings.dedup();
    strings
}

fn longest(strings: &[Vec<u8>]) -> usize {
    strings.iter().map(Vec::len).max().unwrap_or(0)
}

fn shortest_of(part: &Part) -> usize {
    match part {
        Part::Exactly(strings) => strings.iter().map(Vec::len).min().unwrap_or(0),
        Part::Within { .. } => 0,
    }
}
