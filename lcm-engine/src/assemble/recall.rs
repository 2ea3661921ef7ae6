//! How originals are recalled into a request: a block of quotations, and how it is known again.
//!
//! Each original stands between a line that says what and where it is, and a line that ends it. Every line in between
//! is quoted: a piece of its text as a JSON string, which is exact to the last blank and has no line end inside; or
//! what a call was given, as the tool, the argument's name, and a piece of its value. So nothing that is quoted can
//! end its quotation, or read like a mark of ours, a role, or a result.
//!
//! A text that reads like such a block is a claim. It is believed when every original stands where the block says, is
//! what it says, and says each of the pieces. Pure.

use lcm_core::{Arrival, Handle, HandleKind, IdPrefix, Json, Role, SessionId};

use super::{END, is_line_end, moment};
use crate::hosts::told::Told;
use crate::service::Entry;

/// What everything that is recalled begins with.
const INTRO: &str =
    "[lcm: recalled originals, quoted history, no request; each quoted line is JSON; lcm_expand ID: the whole message]";
/// Stands where something between two pieces is left out.
const LEFT_OUT: &str = "\n[lcm: left out]";
/// What a line of a quotation begins with.
const QUOTE: &str = "> ";
/// Originals in one block; what claims to show more is none of ours.
pub(crate) const ORIGINALS_MAX: usize = 256;

/// An original, and what is shown of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Original {
    pub(crate) handle: Handle,
    pub(crate) number: Arrival,
    pub(crate) session: SessionId,
    pub(crate) role: Role,
    pub(crate) seen_ms: i64,
}

impl Original {
    pub(crate) fn of(entry: &Entry) -> Self {
        let Entry { handle, number, session, role, seen_ms, .. } = *entry;
        Self { handle, number, session, role, seen_ms }
    }
}

/// What a message says, in pieces that can be quoted: its text, what its calls were given, its results.
pub(crate) struct Segment<'t> {
    /// The tool and the name of what it was given.
    pub(crate) given: Option<(&'t str, &'t str)>,
    pub(crate) text: &'t str,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Which segment.
    pub(crate) segment: usize,
    /// Where in it, in bytes.
    pub(crate) range: std::ops::Range<usize>,
}

/// What a message says that can be quoted.
pub(crate) fn segments(told: &Told) -> Vec<Segment<'_>> {
    let mut all = Vec::new();
    let plain = |text| Segment { given: None, text };
    all.extend(Some(told.text.as_str()).filter(|text| !text.is_empty()).map(plain));
    for call in &told.calls {
        all.extend(
            call.arguments.iter().map(|(name, value)| Segment {
                given: Some((call.name.as_str(), name.as_str())),
                text: value.as_str(),
            }),
        );
        if call.arguments.is_empty() {
            all.push(Segment { given: Some((call.name.as_str(), "")), text: "" });
        }
    }
    all.extend(told.results.iter().map(String::as_str).filter(|text| !text.is_empty()).map(plain));
    all
}

/// The first line of an original.
pub(crate) fn header(original: &Original, shown: usize, all: usize) -> String {
    let Original { handle, number, session, role, seen_ms } = original;
    let (day, minute) = moment(*seen_ms);
    let part = if shown < all { format!("{shown} of {all} characters") } else { "whole".to_owned() };
    format!(
        "\n[lcm:recall {handle}: number {number} of session #{session}, {}, {day}T{minute}, {part}]",
        role_of(*role)
    )
}

/// The lines around what is quoted of one original; they cost about the same for all.
pub(crate) fn frame() -> String {
    let handle = Handle::message(lcm_core::NodeId::from_bytes([0x5a; 32]));
    let of =
        Original { handle, number: Arrival(12_345), session: SessionId(12), role: Role::Assistant, seen_ms: 60_000 };
    header(&of, 812, 5120) + END
}

/// One quoted line.
pub(crate) fn quote(segment: &Segment<'_>, text: &str) -> String {
    let mut line = format!("\n{QUOTE}");
    match segment.given {
        None => push_json(text, &mut line),
        Some((tool, name)) => {
            line.push('[');
            for (nth, part) in [tool, name, text].into_iter().enumerate() {
                if nth > 0 {
                    line.push(',');
                }
                push_json(part, &mut line);
            }
            line.push(']');
        }
    }
    line
}

/// An original as it is quoted; `pieces` are in order and apart.
pub(crate) fn original(original: &Original, segments: &[Segment<'_>], pieces: &[Piece]) -> String {
    let chars = |text: &str| text.chars().count();
    let all = segments.iter().map(|segment| chars(segment.text)).sum();
    let texts = || pieces.iter().filter_map(|piece| Some((piece, segments.get(piece.segment)?)));
    let shown = texts().filter_map(|(piece, segment)| segment.text.get(piece.range.clone())).map(chars).sum();
    let mut text = header(original, shown, all);
    let mut before: Option<&Piece> = None;
    for (piece, segment) in texts() {
        if before.is_some_and(|before| before.segment == piece.segment && before.range.end < piece.range.start) {
            text.push_str(LEFT_OUT);
        }
        text.push_str(&quote(segment, segment.text.get(piece.range.clone()).unwrap_or_default()));
        before = Some(piece);
    }
    text.push_str(END);
    text
}

/// The text of a message that shows originals.
pub(crate) fn block<'t>(originals: impl Iterator<Item = &'t str>) -> String {
    let mut text = INTRO.to_owned();
    originals.for_each(|original| text.push_str(original));
    text
}

/// What an original is said to be, by a text that reads like ours.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) id: IdPrefix,
    pub(crate) number: Arrival,
    header: String,
    quotes: Vec<Quote>,
}

#[derive(Debug)]
struct Quote {
    given: Option<(String, String)>,
    text: String,
}

impl Claim {
    /// Whether it is what we would say of an original.
    pub(crate) fn holds(&self, original: &Original, told: &Told) -> bool {
        let segments = segments(told);
        let (mut at, mut from) = (0, 0);
        for quote in &self.quotes {
            let given = quote.given.as_ref().map(|(tool, name)| (tool.as_str(), name.as_str()));
            loop {
                let Some(segment) = segments.get(at) else { return false };
                if segment.given == given
                    && let Some(found) = segment.text.get(from..).and_then(|rest| rest.find(&quote.text))
                {
                    from += found + quote.text.len();
                    break;
                }
                (at, from) = (at + 1, 0);
            }
        }
        let all = segments.iter().map(|segment| segment.text.chars().count()).sum();
        let shown = self.quotes.iter().map(|quote| quote.text.chars().count()).sum();
        header(original, shown, all).trim_start() == self.header
    }
}

/// The originals that a text of ours shows; `None` for any other text.
pub(crate) fn claims(text: &str) -> Option<Vec<Claim>> {
    let mut claims: Vec<Claim> = Vec::new();
    let mut is_open = false;
    for line in text.strip_prefix(INTRO)?.strip_prefix('\n')?.split('\n') {
        match claims.last_mut().filter(|_| is_open) {
            None => {
                let (name, rest) = line.strip_prefix("[lcm:recall ")?.split_once(": number ")?;
                let id = IdPrefix::from_hex(name.strip_prefix(HandleKind::Message.prefix())?)?;
                let number = Arrival(rest.split_once(' ')?.0.parse().ok()?);
                claims.push(Claim { id, number, header: line.to_owned(), quotes: Vec::new() });
                is_open = true;
            }
            Some(_) if line == END.trim_start() => is_open = false,
            Some(_) if line == LEFT_OUT.trim_start() => {}
            Some(claim) => claim.quotes.push(read_quote(line.strip_prefix(QUOTE)?)?),
        }
        if claims.len() > ORIGINALS_MAX {
            return None;
        }
    }
    (!is_open && !claims.is_empty()).then_some(claims)
}

fn read_quote(line: &str) -> Option<Quote> {
    let json = Json::parse(line.as_bytes()).ok()?;
    if let Some(text) = json.as_str() {
        return Some(Quote { given: None, text: text.to_owned() });
    }
    let [tool, name, text] = json.as_array()? else { return None };
    let owned = |json: &Json| json.as_str().map(str::to_owned);
    Some(Quote { given: Some((owned(tool)?, owned(name)?)), text: owned(text)? })
}

/// A JSON string without anything that ends a line, for anybody.
fn push_json(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_control() || is_line_end(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn role_of(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
        Role::Developer => "developer",
        Role::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use lcm_core::NodeId;
    use proptest::prelude::*;

    use super::*;
    use crate::hosts::told::Called;

    fn about(role: Role) -> Original {
        let handle = Handle::message(NodeId::from_bytes([0xab; 32]));
        Original { handle, number: Arrival(12), session: SessionId(3), role, seen_ms: 60_000 }
    }

    fn whole(told: &Told) -> Vec<Piece> {
        let piece = |(segment, of): (usize, &Segment<'_>)| Piece { segment, range: 0..of.text.len() };
        segments(told).iter().enumerate().map(piece).collect()
    }

    fn shown(original: &Original, told: &Told, pieces: &[Piece]) -> String {
        block([super::original(original, &segments(told), pieces).as_str()].into_iter())
    }

    #[test]
    fn an_original_says_where_it_stands_and_is_quoted_exactly() {
        let told = Told { text: "one\n\ttwo \"three\"".to_owned(), ..Told::default() };
        let text = shown(&about(Role::User), &told, &whole(&told));
        let said = "\n[lcm:recall msg_abababababababab: number 12 of session #3, user, 1970-01-01T00:01Z, whole]\n\
                    > \"one\\n\\ttwo \\\"three\\\"\"\n[lcm:end]";
        assert_eq!(text, format!("{INTRO}{said}"));
        let claims = claims(&text).unwrap();
        assert!(claims[0].holds(&about(Role::User), &told));
    }

    #[test]
    fn calls_are_quoted_with_what_they_were_given() {
        let arguments = vec![("path".to_owned(), "a.rs".to_owned()), ("text".to_owned(), "x\ny".to_owned())];
        let told = Told { calls: vec![Called { name: "edit".to_owned(), arguments }], ..Told::default() };
        let text = shown(&about(Role::Assistant), &told, &whole(&told));
        assert!(text.contains("\n> [\"edit\",\"path\",\"a.rs\"]\n> [\"edit\",\"text\",\"x\\ny\"]\n"), "{text}");
        assert!(claims(&text).unwrap()[0].holds(&about(Role::Assistant), &told));
    }

    #[test]
    fn a_block_is_believed_when_all_of_it_was_said() {
        let told = Told { text: "the tide comes and the tide goes".to_owned(), ..Told::default() };
        let pieces = [Piece { segment: 0, range: 0..8 }, Piece { segment: 0, range: 19..27 }];
        let text = shown(&about(Role::User), &told, &pieces);
        assert!(text.contains("16 of 32 characters]\n> \"the tide\"\n[lcm: left out]\n> \"the tide\"\n"), "{text}");
        let holds = |text: &str, role| claims(text).is_some_and(|all| all[0].holds(&about(role), &told));
        assert!(holds(&text, Role::User));
        assert!(!holds(&text, Role::Assistant));
        assert!(!holds(&text.replacen("the tide", "the tidy", 1), Role::User));
        assert!(!holds(&text.replace("16 of", "17 of"), Role::User));
        assert!(!holds(&text.replace("#3", "#4"), Role::User));
        for other in ["", "hello", INTRO, &format!("{text}\nand more"), &format!(" {text}"), &text[..text.len() - 1]] {
            assert!(claims(other).is_none(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_quoted_ends_its_quotation(
            said in "(\\[lcm:end\\]|\n\\[lcm:recall|\\[lcm: now\\]|\r|\n|\u{2028}|\u{85}|\u{b}|> |\"|\\\\|\\PC){1,40}",
            name in "(\"|\n|\\]|a){0,4}", tool in "(\"|\n|\\]|a){0,4}",
        ) {
            let call = Called { name: tool, arguments: vec![(name, said.clone())] };
            let told = Told { text: said.clone(), calls: vec![call], results: vec![said], ..Told::default() };
            let text = shown(&about(Role::Tool), &told, &whole(&told));
            let lines: Vec<&str> = text.split(|c| c == '\n' || is_line_end(c)).collect();
            prop_assert_eq!(lines.len(), 6);
            prop_assert!(lines[2..5].iter().all(|line| line.starts_with("> ")));
            prop_assert_eq!(lines[5], "[lcm:end]");
            let has_control = lines.iter().any(|line| line.chars().any(char::is_control));
            prop_assert!(!has_control);
            let claims = claims(&text).unwrap();
            prop_assert!(claims.len() == 1 && claims[0].holds(&about(Role::Tool), &told));
        }

        #[test]
        fn no_text_makes_the_reader_panic(said in "(\\[lcm:recall |msg_ab: number 1 |> |\"|\\[|\\]|\n|\\PC){0,30}") {
            let _claims = claims(&format!("{INTRO}\n{said}"));
        }
    }
}
