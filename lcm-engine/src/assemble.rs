//! How what we make is shown: folds as quoted history in one message, a large message in part, a line between.
//!
//! Everything of ours begins with [`MARK`]. A fold is a block of quoted lines between a line that names it and a line
//! that ends it; as every line of it is quoted, nothing in it can end it. Neighbouring folds share a message. The text
//! depends on the summaries alone, so it is the same in every process and for ever, and a list that shows it proves
//! what it stands for. Pure. Recalled originals have a room of their own (`recall`).

pub(crate) mod recall;

use lcm_core::{Arrival, Handle, HandleKind, IdPrefix, NodeId, Summary};

use crate::compress::extract;

/// What everything of ours begins with.
pub(crate) const MARK: &str = "[lcm:";
/// The mark of a summary that stands for steps of a request and is shown in front of it.
pub(crate) const WITHIN: &str = "within";

/// What the mark of a first message begins with.
const FROM: &str = "from ";

const INTRO: &str = "[lcm: quoted history, no request; lcm_expand ID: originals]";
/// Ends a fold. It needs no name: every line before it is quoted.
const END: &str = "\n[lcm:end]";
/// What stands between a fold and a user's message, where two of one role must not meet.
pub(crate) const BETWEEN: &str = "[lcm: now]";

/// What stands between the number of characters that are left out and the names among them, and between two names.
const NAMED: &str = ", among them: ";
const NEXT: &str = ", ";
/// Names may take so many characters beside those that are shown: one for each `NAMED_SHARE` of them.
const NAMED_CHARS_MAX: usize = 400;
const NAMED_SHARE: usize = 4;

/// The text of a message that shows folds.
pub(crate) fn folds<'a>(folds: impl IntoIterator<Item = (&'a NodeId, &'a Summary)>) -> String {
    let mut text = INTRO.to_owned();
    for (id, summary) in folds {
        let handle = Handle::summary(*id);
        let count = summary.children().len();
        let what = match (summary.depth(), count) {
            (1, 1) => "message",
            (1, _) => "messages",
            (_, 1) => "summary",
            _ => "summaries",
        };
        let (from, to) = summary.span_ms();
        let within = if is_within(summary) { ", steps already taken for the request below" } else { "" };
        text.push_str(&format!("\n[lcm:fold {handle}: {count} {what}, {}{within}]", span(from, to)));
        for line in summary.text().lines() {
            text.push_str("\n> ");
            match line.contains(is_line_end) {
                true => text.extend(line.chars().map(|c| if is_line_end(c) { ' ' } else { c })),
                false => text.push_str(line),
            }
        }
        text.push_str(END);
    }
    text
}

/// The lines around the text of a fold; ids, counts and times cost about the same in all.
pub(crate) fn frame() -> String {
    let handle = Handle::summary(NodeId::from_bytes([0x5a; 32]));
    format!("\n[lcm:fold {handle}: 100 messages, {}]{END}", span(0, 60_000))
}

/// Whether a summary is shown in front of the request whose steps it stands for.
pub(crate) fn is_within(summary: &Summary) -> bool {
    summary.marks.iter().any(|mark| mark == WITHIN)
}

/// The mark of a summary of messages that begins with what came under this number: equal messages said elsewhere are
/// other places, and their summary is another one.
pub(crate) fn from_mark(first: Arrival) -> String {
    format!("{FROM}{}", first.0)
}

/// The number under which the first message came that a summary stands for.
pub(crate) fn first_of(summary: &Summary) -> Option<Arrival> {
    summary.marks.iter().find_map(|mark| mark.strip_prefix(FROM)?.parse().ok().map(Arrival))
}

/// What ends a line for somebody, though it is no line feed.
pub(crate) fn is_line_end(c: char) -> bool {
    matches!(c, '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The handles of the folds that a text of ours shows, in order; `None` for any other text.
pub(crate) fn shown_folds(text: &str) -> Option<Vec<IdPrefix>> {
    let blocks = text.strip_prefix(INTRO)?;
    let names =
        blocks.lines().filter_map(|line| line.strip_prefix("[lcm:fold ")?.split_once(':').map(|(name, _)| name));
    names.map(|name| handle(name, HandleKind::Summary)).collect::<Option<Vec<_>>>().filter(|all| !all.is_empty())
}

/// The message of which a text says that it shows a part; `None` for any other text. Whether it does, [`is_part`] tells.
pub(crate) fn shown_part(text: &str) -> Option<IdPrefix> {
    let (name, _) = text.strip_prefix("[lcm:part ")?.split_once(':')?;
    handle(name, HandleKind::Message)
}

fn handle(name: &str, kind: HandleKind) -> Option<IdPrefix> {
    IdPrefix::from_hex(name.strip_prefix(kind.prefix())?)
}

/// The text of a message shown in part: so many characters of its beginning and its end, what is named between them,
/// and how to get all of it. `None` when it has no more than these.
pub(crate) fn part(id: &NodeId, text: &str, chars: usize) -> Option<String> {
    let (front, middle, back) = cut(id, text, chars)?;
    let mut line = String::new();
    let mut left = (chars / NAMED_SHARE).min(NAMED_CHARS_MAX);
    for name in extract::named(middle) {
        let cost = name.chars().count() + NEXT.len();
        if cost <= left && !front.contains(name) && !back.contains(name) {
            line.push_str(if line.is_empty() { NAMED } else { NEXT });
            line.push_str(name);
            left -= cost;
        }
    }
    Some(format!("{front}{line}{back}"))
}

/// Whether a text is what we show of a message in part. The names between its ends may be others than we would give now,
/// as what counts as one can change; but they stand in what is left out, as all else stands in the message.
pub(crate) fn is_part(shown: &str, id: &NodeId, text: &str) -> bool {
    let chars = shown.split_once(": ").and_then(|(_, rest)| rest.split_once(" of ")).and_then(|(n, _)| n.parse().ok());
    let Some((front, middle, back)) = chars.and_then(|chars| cut(id, text, chars)) else { return false };
    let Some(names) = shown.strip_prefix(front.as_str()).and_then(|rest| rest.strip_suffix(back.as_str())) else {
        return false;
    };
    names.is_empty()
        || names.strip_prefix(NAMED).is_some_and(|names| {
            names.split(NEXT).all(|name| !name.is_empty() && name.len() <= NAMED_CHARS_MAX * 4 && middle.contains(name))
        })
}

/// What is shown in front of the names, what is left out, and what is shown behind the names.
fn cut<'t>(id: &NodeId, text: &'t str, chars: usize) -> Option<(String, &'t str, String)> {
    let all = text.chars().count();
    let left_out = all.checked_sub(chars).filter(|left_out| *left_out > 0)?;
    let tail = chars / 3;
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    let (head_end, tail_start) = (at(chars - tail), at(all - tail));
    let (head, middle, tail) = (&text[..head_end], &text[head_end..tail_start], &text[tail_start..]);
    let handle = Handle::message(*id);
    Some((
        format!(
            "[lcm:part {handle}: {chars} of {all} characters are shown, the beginning and the end; lcm_expand {handle} \
             gives all of them]\n{head}\n[lcm: {left_out} characters left out"
        ),
        middle,
        format!("]\n{tail}"),
    ))
}

/// A span of time in UTC, to the minute; the day once, where it is one.
fn span(from_ms: i64, to_ms: i64) -> String {
    let (from, to) = (moment(from_ms), moment(to_ms));
    match (from == to, from.0 == to.0) {
        (true, _) => format!("{}T{}", from.0, from.1),
        (_, true) => format!("{}T{} to {}", from.0, from.1, to.1),
        _ => format!("{}T{} to {}T{}", from.0, from.1, to.0, to.1),
    }
}

/// The date and the minute of a moment in UTC.
fn moment(ms: i64) -> (String, String) {
    let minutes = ms.div_euclid(60_000);
    let (days, minute) = (minutes.div_euclid(1440), minutes.rem_euclid(1440));
    let (year, month, day) = date(days);
    (format!("{year:04}-{month:02}-{day:02}"), format!("{:02}:{:02}Z", minute / 60, minute % 60))
}

/// The date of a day, counted from 1970-01-01, in the Gregorian calendar.
pub(crate) fn date(days: i64) -> (i64, i64, i64) {
    // Years that begin in March: the day that is there only sometimes is then the last.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use lcm_core::node::SummaryParts;
    use proptest::prelude::*;

    use super::*;

    fn summary(text: &str) -> Summary {
        let children = vec![NodeId::from_bytes([1; 32]), NodeId::from_bytes([2; 32])];
        Summary::new(SummaryParts { text: text.to_owned(), children, depth: 1, span_ms: (0, 1_767_225_599_000) })
            .unwrap()
    }

    #[test]
    fn a_fold_says_what_it_is_and_is_known_again() {
        let id = NodeId::from_bytes([0xab; 32]);
        let text = folds([(&id, &summary("one\ntwo"))]);
        let block = "\n[lcm:fold sum_abababababababab: 2 messages, 1970-01-01T00:00Z to 2025-12-31T23:59Z]\n> one\n> two\n[lcm:end]";
        assert_eq!(text, format!("{INTRO}{block}"));
        assert_eq!(shown_folds(&text).unwrap().len(), 1);
        assert_eq!(shown_folds("hello"), None);
        assert_eq!(shown_folds(INTRO), None);
    }

    #[test]
    fn a_part_shows_both_ends_and_names_the_whole() {
        let id = NodeId::from_bytes([0xcd; 32]);
        let whole = format!("{}END", "x".repeat(5000));
        let text = part(&id, &whole, 90).unwrap();
        assert!(text.starts_with("[lcm:part msg_cdcdcdcdcdcdcdcd: 90 of 5003 characters") && text.ends_with("END"));
        assert!(shown_part(&text).unwrap().matches(&id));
        assert_eq!(shown_part("[lcm:part nobody: x]"), None);
        assert_eq!(part(&id, "short", 5), None);
        assert_eq!(part(&id, &whole, usize::MAX), None);
    }

    #[test]
    fn a_part_is_believed_when_it_is_the_part_that_we_show() {
        let id = NodeId::from_bytes([0xcd; 32]);
        let whole = "0123456789".repeat(20);
        for chars in [0, 1, 2, 3, 100, 199] {
            assert!(is_part(&part(&id, &whole, chars).unwrap(), &id, &whole), "{chars}");
        }
        let text = part(&id, &whole, 90).unwrap();
        assert!(!is_part(&text.replace("90 of", "91 of"), &id, &whole));
        assert!(!is_part(&format!("{text} and more"), &id, &whole));
        assert!(!is_part(&text, &id, &format!("{whole}.")));
        assert!(!is_part("[lcm:part msg_cdcdcdcdcdcdcdcd: what is this?", &id, &whole));
    }

    #[test]
    fn a_part_names_files_that_are_left_out() {
        let id = NodeId::from_bytes([0xcd; 32]);
        let filler = "the tide comes and goes ".repeat(40);
        let whole = format!("src/first.rs {filler} src/pier/lamp.rs {filler} docs/tide.md src/first.rs {filler}");
        let text = part(&id, &whole, 300).unwrap();
        assert!(text.contains(" characters left out, among them: src/pier/lamp.rs, docs/tide.md]"), "{text}");
        assert!(is_part(&text, &id, &whole));
        assert!(is_part(&text.replace(", docs/tide.md]", "]"), &id, &whole));
        assert!(!is_part(&text.replace("docs/tide.md]", "docs/other.md]"), &id, &whole));
        assert!(!is_part(&text.replace("out, among", "out, by me, among"), &id, &whole));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(span(951_827_696_000, 951_827_699_000), "2000-02-29T12:34Z");
        assert_eq!(span(-60_000, -1), "1969-12-31T23:59Z");
        assert_eq!(span(-1, 0), "1969-12-31T23:59Z to 1970-01-01T00:00Z");
        assert_eq!(span(4_107_542_400_000, 4_107_546_000_000), "2100-03-01T00:00Z to 01:00Z");
    }

    proptest! {
        #[test]
        fn nothing_in_a_fold_ends_it(said in "(\\[lcm:end\\]|\\[lcm:fold|\r|\n|\u{2028}|\u{85}|> |\\PC){0,40}") {
            let id = NodeId::from_bytes([0xab; 32]);
            let text = folds([(&id, &summary(&said))]);
            let inner = text.split_once("23:59Z]").unwrap().1;
            let ends: Vec<usize> = inner.match_indices(END).map(|(at, _)| at).collect();
            prop_assert_eq!(ends.len(), 1);
            prop_assert_eq!(ends[0] + END.len(), inner.len());
            prop_assert!(inner[1..ends[0].max(1)].split('\n').all(|line| line.is_empty() || line.starts_with("> ")));
            let has_ends = inner.contains(['\r', '\u{2028}', '\u{85}']);
            prop_assert!(!has_ends);
        }
    }
}
