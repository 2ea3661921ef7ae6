//! Exact search: a regular expression or a literal, complete, verified on the stored text.
//!
//! The pattern tells what every match needs (`needs`), the sieve which blocks may fulfil it, and those are read
//! from truth. What lies above the sieve is always read. A pattern that needs nothing is a scan of everything the
//! scope reaches, on all cores.
//!
//! Regular expressions are those of the `regex` crate: linear time, no back references, no look-around. Agents and
//! their prompts know Python's, so what Python reads differently and we can read its way, we do.

use std::ops::RangeInclusive;
use std::time::Instant;

use regex::{Regex, RegexBuilder};
use regex_syntax::ast::{self, Ast, ClassSetItem};
use regex_syntax::{ParserBuilder, ast::parse::Parser};

use super::look::{Bounds, End, Look, Piece};
use super::needs::Needs;
use super::query::{Anchors, Cursor, Grep, GrepHits, LetterCase, Order, Pattern, Position};
use super::reach::{Part, Reach};
use super::sieve::{Block, Entry, Sieve};
use super::snippet;
use super::tail::Kept;
use crate::error::StoreError;

/// A compiled pattern may take this much memory; ten times what any sensible one does.
const PROGRAM_BYTES_MAX: usize = 16 << 20;
/// Groups inside each other; the parser recurses.
const NESTING_MAX: u32 = 200;

/// A pattern made ready.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) regex: Regex,
    pub(crate) needs: Needs,
}

/// Makes a pattern ready.
pub(crate) fn compile(grep: &Grep) -> Result<Compiled, StoreError> {
    let pattern = match &grep.pattern {
        Pattern::Regex(pattern) => without_groups(&as_python_reads_it(pattern)),
        Pattern::Literal(text) => regex::escape(text),
    };
    let refused = |error: &dyn std::fmt::Display| StoreError::Pattern(error.to_string());
    let insensitive = match grep.case {
        LetterCase::Sensitive => false,
        LetterCase::Insensitive => true,
        LetterCase::Smart => !has_upper_case(&pattern),
    };
    let lines = grep.anchors == Anchors::Lines;
    let regex = RegexBuilder::new(&pattern)
        .case_insensitive(insensitive)
        .multi_line(lines)
        .size_limit(PROGRAM_BYTES_MAX)
        .nest_limit(NESTING_MAX)
        .build()
        .map_err(|error| refused(&error))?;
    let hir = ParserBuilder::new()
        .case_insensitive(insensitive)
        .multi_line(lines)
        .nest_limit(NESTING_MAX)
        .build()
        .parse(&pattern)
        .map_err(|error| refused(&error))?;
    Ok(Compiled { regex, needs: Needs::of(&hir) })
}

/// Searches.
pub(crate) fn grep(
    grep: &Grep,
    compiled: &Compiled,
    reach: &Reach<'_>,
    sieve: Option<&Sieve>,
    kept: Option<&Kept>,
) -> Result<GrepHits, StoreError> {
    let bounds = Bounds { begun: Instant::now(), time_max: grep.time_max, bytes_max: grep.bytes_max };
    let regex = &compiled.regex;
    let matcher = |text: &str| {
        let first = regex.find(text)?.range();
        Some(snippet::shown(text, first, grep.snippet_chars, |at| regex.find_at(text, at).map(|found| found.range())))
    };
    let (mut low, mut high) = (1, reach.last);
    match grep.after {
        None => {}
        Some(Cursor(Position::Below(arrival))) => high = high.min(arrival.0.saturating_sub(1)),
        Some(Cursor(Position::Above(arrival))) => low = arrival.0.saturating_add(1),
        // A place among ranked hits is none among these.
        Some(Cursor(Position::Ranked(_))) => return Err(StoreError::Pattern(NOT_OURS.into())),
    }
    let mut look = Look::new(reach, kept, &matcher, grep.order, grep.hits_max, bounds);
    let skipped = sift(&mut look, reach, sieve, &compiled.needs, low..=high, grep.order)?;
    look.flush()?;
    look.scanned.blocks_skipped = skipped;
    look.scanned.damaged += u64::from(reach.has_lost);
    let cursor = |arrival: u64| match grep.order {
        Order::Newest => Cursor(Position::Below(lcm_core::Arrival(arrival))),
        Order::Oldest => Cursor(Position::Above(lcm_core::Arrival(arrival))),
    };
    let (next, cut) = match look.end {
        None => (None, None),
        Some(End::Enough) => (look.hits.last().map(|hit| cursor(hit.placed.arrival.0)), None),
        // Everything before the place was given, so it is the first of the next page.
        Some(End::Cut(cut, at)) => {
            let given = match grep.order {
                Order::Newest => at.saturating_add(1),
                Order::Oldest => at.saturating_sub(1),
            };
            (Some(cursor(given)), Some(cut))
        }
    };
    Ok(GrepHits { hits: look.hits, complete: next.is_none(), cut, next, scanned: look.scanned })
}

const NOT_OURS: &str = "the cursor belongs to a search by words";

/// Hands a range of arrivals to `look`, without the blocks in which nothing can match; returns how many those are.
pub(crate) fn sift(
    look: &mut Look<'_>,
    reach: &Reach<'_>,
    sieve: Option<&Sieve>,
    needs: &Needs,
    range: RangeInclusive<u64>,
    order: Order,
) -> Result<u64, StoreError> {
    let (low, high) = (*range.start(), *range.end());
    if low > high {
        return Ok(0);
    }
    let newest = order == Order::Newest;
    let mut skipped = 0;
    // What is still to be handed over: from `from` up to `to`.
    let (mut from, mut to) = (low, high);
    if let Some(sieve) = sieve {
        let top = sieve.slot.last.min(high);
        if newest && top < to {
            look.push_range(from.max(top + 1)..=to)?;
            to = top;
        }
        let mut blocks = sieve.blocks(newest);
        while from <= to && !look.has_ended() {
            let Some(block) = blocks.next() else { break };
            // A damaged block ends the sieve's say; what it did not speak of is read.
            let Ok(sifted) = block.and_then(|block| Sifted::new(&block, needs)) else { break };
            let beyond = if newest { sifted.last < from } else { sifted.first > to };
            if beyond {
                break;
            }
            if sifted.last < from || sifted.first > to {
                continue;
            }
            if newest {
                look.push_range(from.max(sifted.last.saturating_add(1))..=to)?;
                to = sifted.first - 1;
            } else {
                look.push_range(from..=to.min(sifted.first - 1))?;
                from = sifted.last.saturating_add(1);
            }
            match sifted.entries {
                None => skipped += 1,
                Some((entries, groups)) => {
                    let places = entries.len();
                    let mut wanted = Vec::with_capacity(places);
                    for Entry { arrival, timeline, group } in entries {
                        let may_match = groups & (1 << group) != 0 && (low..=high).contains(&arrival);
                        if may_match && reach.part(timeline)? != Part::Nothing {
                            wanted.push(arrival);
                        }
                    }
                    match (wanted.first(), wanted.last()) {
                        (Some(&first), Some(&last)) if wanted.len() == places => {
                            look.push(Piece::Range(first..=last))?;
                        }
                        (Some(_), Some(_)) => {
                            look.push(Piece::Some(wanted))?;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    if from <= to {
        look.push_range(from..=to)?;
    }
    Ok(skipped)
}

/// Takes those of falling `arrivals` away that the sieve knows not to fulfil `needs`.
pub(crate) fn sieve_out(sieve: &Sieve, needs: &Needs, arrivals: &mut Vec<u64>) -> std::io::Result<()> {
    let mut blocks = sieve.blocks(true);
    let mut kept = Vec::with_capacity(arrivals.len());
    // First and last arrival of the block at hand, and whether something may match in it.
    let mut at: Option<(u64, u64, bool)> = None;
    'arrivals: for &arrival in arrivals.iter() {
        while at.is_none_or(|(first, _, _)| first > arrival) {
            let Some(block) = blocks.next() else {
                kept.push(arrival);
                continue 'arrivals;
            };
            let block = block?;
            at = Some((block.first()?, block.last()?, groups(&block, needs)? != 0));
        }
        let is_known = at.is_some_and(|(first, last, _)| first <= arrival && arrival <= last);
        if !is_known || at.is_some_and(|(_, _, may_match)| may_match) {
            kept.push(arrival);
        }
    }
    *arrivals = kept;
    Ok(())
}

/// What the sieve says of one block.
struct Sifted {
    first: u64,
    last: u64,
    /// Its places, and the groups of them in which something may match, when there are any.
    entries: Option<(Vec<Entry>, u8)>,
}

impl Sifted {
    fn new(block: &Block<'_>, needs: &Needs) -> std::io::Result<Self> {
        let (first, last) = (block.first()?, block.last()?);
        if first == 0 || first > last {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        let groups = groups(block, needs)?;
        let entries = if groups == 0 { None } else { Some((block.table()?.entries, groups)) };
        Ok(Self { first, last, entries })
    }
}

/// The groups of a block in which something may match, one bit each.
fn groups(block: &Block<'_>, needs: &Needs) -> std::io::Result<u8> {
    match needs {
        Needs::Nothing => Ok(u8::MAX),
        // Most blocks go without their masks being looked at.
        _ if !needs.may_hold(block.bits()?) => Ok(0),
        _ => Ok(needs.groups(&block.masks()?)),
    }
}

/// Whether a pattern names an upper-case letter. One that cannot be read has none; it is refused elsewhere.
fn has_upper_case(pattern: &str) -> bool {
    struct Visitor(bool);
    impl ast::Visitor for Visitor {
        type Output = bool;
        type Err = std::convert::Infallible;

        fn finish(self) -> Result<bool, Self::Err> {
            Ok(self.0)
        }

        fn visit_pre(&mut self, ast: &Ast) -> Result<(), Self::Err> {
            if let Ast::Literal(literal) = ast {
                self.0 |= literal.c.is_uppercase();
            }
            Ok(())
        }

        fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), Self::Err> {
            match item {
                ClassSetItem::Literal(literal) => self.0 |= literal.c.is_uppercase(),
                ClassSetItem::Range(range) => self.0 |= range.start.c.is_uppercase() || range.end.c.is_uppercase(),
                _ => {}
            }
            Ok(())
        }
    }
    match Parser::new().parse(pattern) {
        Err(_) => false,
        Ok(ast) => match ast::visit(&ast, Visitor(false)) {
            Ok(has) => has,
            Err(never) => match never {},
        },
    }
}

/// The same pattern with groups that keep nothing. Nobody asks for groups here, and the `regex` crate takes room for the
/// number of groups times the size of the program: a pattern of some thousands would take gigabytes, and end the process.
#[must_use]
pub fn without_groups(pattern: &str) -> String {
    /// What each group begins with behind its bracket: nothing, or a name.
    struct Visitor(Vec<(usize, usize)>);
    impl ast::Visitor for Visitor {
        type Output = Vec<(usize, usize)>;
        type Err = std::convert::Infallible;
        fn finish(self) -> Result<Vec<(usize, usize)>, std::convert::Infallible> {
            Ok(self.0)
        }
        fn visit_pre(&mut self, ast: &Ast) -> Result<(), std::convert::Infallible> {
            if let Ast::Group(group) = ast {
                let begin = group.span.start.offset + 1;
                match &group.kind {
                    ast::GroupKind::CaptureIndex(_) => self.0.push((begin, begin)),
                    ast::GroupKind::CaptureName { name, .. } => self.0.push((begin, name.span.end.offset + 1)),
                    ast::GroupKind::NonCapturing(_) => {}
                }
            }
            Ok(())
        }
    }
    // What cannot be read is refused by whoever compiles it, in its own words.
    let Ok(ast) = Parser::new().parse(pattern) else { return pattern.to_owned() };
    let groups = match ast::visit(&ast, Visitor(Vec::new())) {
        Ok(groups) => groups,
        Err(never) => match never {},
    };
    let mut out = String::with_capacity(pattern.len() + 2 * groups.len());
    let mut at = 0;
    for (from, to) in groups {
        out.push_str(&pattern[at..from]);
        out.push_str("?:");
        at = to;
    }
    out.push_str(&pattern[at..]);
    out
}

/// Rewrites what Python's `re` reads and the `regex` crate refuses or reads differently: a brace that repeats
/// nothing, brackets and doubled signs inside a class, `\Z`.
fn as_python_reads_it(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let characters: Vec<char> = pattern.chars().collect();
    let at = |i: usize| characters.get(i).copied();
    let mut in_class = false;
    let mut i = 0;
    while let Some(c) = at(i) {
        i += 1;
        match c {
            '\\' => {
                let Some(escaped) = at(i) else {
                    out.push('\\');
                    break;
                };
                i += 1;
                match escaped {
                    'Z' if !in_class => out.push_str("\\z"),
                    // In a class it is a backspace.
                    'b' if in_class => out.push_str("\\x08"),
                    _ => {
                        out.push('\\');
                        out.push(escaped);
                        // The braces of an escape are part of it.
                        if matches!(escaped, 'p' | 'P' | 'x' | 'u' | 'U' | 'b') && at(i) == Some('{') {
                            while let Some(c) = at(i) {
                                i += 1;
                                out.push(c);
                                if c == '}' {
                                    break;
                                }
                            }
                        }
                    }
                }
            }
            '[' if !in_class => {
                in_class = true;
                out.push('[');
                if at(i) == Some('^') {
                    i += 1;
                    out.push('^');
                }
                // First in a class it stands for itself.
                if at(i) == Some(']') {
                    i += 1;
                    out.push_str("\\]");
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '[' if at(i) == Some(':') => {
                // The names of POSIX are no Python, but what people mean by them is plain.
                out.push('[');
                while let Some(c) = at(i) {
                    i += 1;
                    out.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '[' => out.push_str("\\["),
            '&' | '~' if in_class && at(i) == Some(c) => {
                out.push('\\');
                out.push(c);
            }
            '{' if !in_class => match repetition(&characters[i..]) {
                Some((repeat, len)) if !out.is_empty() => {
                    out.push_str(&repeat);
                    i += len;
                }
                _ => out.push_str("\\{"),
            },
            _ => out.push(c),
        }
    }
    out
}

/// Reads `3}`, `3,}`, `,5}` or `3,5}`: the repetition as we write it, and its length.
fn repetition(characters: &[char]) -> Option<(String, usize)> {
    let end = characters.iter().position(|&c| c == '}')?;
    let text: String = characters[..end].iter().collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let repeat = match text.split_once(',') {
        None if is_number(&text) => format!("{{{text}}}"),
        Some((low, high)) if (low.is_empty() || is_number(low)) && (high.is_empty() || is_number(high)) => {
            if low.is_empty() && high.is_empty() {
                return None;
            }
            format!("{{{},{high}}}", if low.is_empty() { "0" } else { low })
        }
        _ => return None,
    };
    Some((repeat, end + 1))
}
