//! What a text means: a session, or a node, as people and models write them.
//!
//! A node is `msg_` or `sum_` and the beginning of its id, `node 17`, an arrival number, or the bare beginning of an
//! id; a handle may stand inside a text. A session is `#3`, its name, or a beginning of its name that only one has.
//! All of it is looked for within the reader's scope, and what is out of scope is as if it were not.

use lcm_core::{Arrival, Handle, HandleKind, IdPrefix, Role, SessionId, SummaryNumber, canon};
use lcm_store::{Buffer, Owners, Placed, Scope, Session, Snapshot, StoreError};

use crate::error::EngineError;
use crate::service::Entry;

/// Digits from which on a bare beginning of an id is taken for one; fewer are typed by accident.
const BARE_DIGITS_MIN: usize = 4;
/// A text in which a handle is looked for. Longer ones are no references, whatever they quote.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// How a text names a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    /// `msg_…` or `sum_…`.
    Handle(HandleKind, IdPrefix),
    /// `node 17`.
    Summary(SummaryNumber),
    /// Digits only: an arrival number, else the beginning of an id.
    Number(Arrival, Option<IdPrefix>),
    /// Hex digits.
    Bare(IdPrefix),
}

impl Reference {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        if let Some(number) = text.strip_prefix("node").or_else(|| text.strip_prefix("Node")) {
            let digits = number.trim_start_matches([' ', ':', '#']);
            if digits.len() < number.len()
                && let Some(number) = whole_number(digits)
            {
                return Some(Self::Summary(SummaryNumber(number)));
            }
        }
        let bare = IdPrefix::from_hex(text).filter(|prefix| prefix.digits() >= BARE_DIGITS_MIN);
        if let Some(number) = whole_number(text) {
            return Some(Self::Number(Arrival(number), bare));
        }
        bare.map(Self::Bare).or_else(|| handle_inside(text))
    }
}

/// Digits and nothing else.
fn whole_number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) { None } else { text.parse().ok() }
}

/// The first handle in a text.
fn handle_inside(text: &str) -> Option<Reference> {
    let mut rest = text;
    loop {
        let at = rest.find("msg_").into_iter().chain(rest.find("sum_")).min()?;
        let kind = if rest[at..].starts_with("msg_") { HandleKind::Message } else { HandleKind::Summary };
        // `a_msg_b` is a word of its own.
        let begins = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        rest = &rest[at + 4..];
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if begins && let Some(prefix) = IdPrefix::from_hex(&rest[..digits]) {
            return Some(Reference::Handle(kind, prefix));
        }
    }
}

/// The nodes a text can mean.
pub(crate) fn nodes(snapshot: &Snapshot, scope: &Scope, text: &str, max: usize) -> Result<Vec<Entry>, EngineError> {
    let Some(reference) = Reference::read(text) else { return Ok(Vec::new()) };
    let mut entries = Entries::new(snapshot);
    match reference {
        Reference::Summary(number) => {
            let placed = snapshot.find_summary(scope, number)?;
            placed.into_iter().map(|placed| entries.entry(&placed)).collect()
        }
        Reference::Number(number, bare) => match (snapshot.find_place(scope, number)?, bare) {
            (Some(placed), _) => Ok(vec![entries.entry(&placed)?]),
            (None, Some(prefix)) => by_prefix(snapshot, &mut entries, scope, &prefix, None, max),
            (None, None) => Ok(Vec::new()),
        },
        Reference::Bare(prefix) => by_prefix(snapshot, &mut entries, scope, &prefix, None, max),
        Reference::Handle(kind, prefix) => by_prefix(snapshot, &mut entries, scope, &prefix, Some(kind), max),
    }
}

fn by_prefix(
    snapshot: &Snapshot,
    entries: &mut Entries<'_>,
    scope: &Scope,
    prefix: &IdPrefix,
    kind: Option<HandleKind>,
    max: usize,
) -> Result<Vec<Entry>, EngineError> {
    let mut found = Vec::new();
    for (_, placed) in snapshot.find_nodes(scope, prefix, max)? {
        let entry = entries.entry(&placed)?;
        if kind.is_none_or(|kind| kind == entry.handle.kind) {
            found.push(entry);
        }
    }
    Ok(found)
}

/// The sessions a text can mean.
pub(crate) fn sessions(snapshot: &Snapshot, scope: &Scope, text: &str) -> Result<Vec<Session>, EngineError> {
    if let Some(number) = text.strip_prefix('#').and_then(whole_number) {
        return by_number(snapshot, scope, number);
    }
    let mut all = snapshot.sessions(scope)?;
    if all.iter().any(|session| session.name == text) {
        all.retain(|session| session.name == text);
        return Ok(all);
    }
    all.retain(|session| session.name.starts_with(text));
    match whole_number(text) {
        Some(number) if all.is_empty() => by_number(snapshot, scope, number),
        _ => Ok(all),
    }
}

fn by_number(snapshot: &Snapshot, scope: &Scope, number: u64) -> Result<Vec<Session>, EngineError> {
    match snapshot.session(SessionId(number)) {
        Ok(session) => Ok(if reaches(scope, &session) { vec![session] } else { Vec::new() }),
        Err(StoreError::NoSession(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Whether a scope reaches a session.
fn reaches(scope: &Scope, session: &Session) -> bool {
    let is_owned = match &scope.owners {
        Owners::All => true,
        Owners::Matching(patterns) => patterns.iter().any(|pattern| {
            pattern.agent.as_ref().is_none_or(|agent| *agent == session.owner.agent)
                && pattern.person.as_ref().is_none_or(|person| *person == session.owner.person)
        }),
    };
    is_owned && (scope.sessions.is_empty() || scope.sessions.contains(&session.id))
}

/// A session by its number, when the scope reaches it.
pub(crate) fn session(snapshot: &Snapshot, scope: &Scope, id: SessionId) -> Result<Session, EngineError> {
    let mut found = by_number(snapshot, scope, id.0)?;
    found.pop().ok_or_else(|| EngineError::NoSession(format!("number {id}")))
}

/// Makes entries of places; remembers what many of them need.
pub(crate) struct Entries<'s> {
    snapshot: &'s Snapshot,
    buffer: Buffer,
    /// The last timeline met and its session: neighbours mostly share theirs.
    timeline: Option<(lcm_core::TimelineId, SessionId)>,
}

impl<'s> Entries<'s> {
    pub(crate) fn new(snapshot: &'s Snapshot) -> Self {
        Self { snapshot, buffer: Buffer::default(), timeline: None }
    }

    /// Reads the node at a place and says what it is. The node stays in the buffer.
    pub(crate) fn entry(&mut self, placed: &Placed) -> Result<Entry, EngineError> {
        self.snapshot.read(placed.record, &mut self.buffer)?;
        let role = match placed.summary {
            Some(_) => Role::Other,
            None => canon::outline(self.buffer.canon()).map_err(|error| unreadable(placed.arrival, error))?.role,
        };
        self.named(placed, self.buffer.id(), role)
    }

    /// An entry of a node whose id and role are known.
    pub(crate) fn named(&mut self, placed: &Placed, id: lcm_core::NodeId, role: Role) -> Result<Entry, EngineError> {
        let session = match self.timeline {
            Some((timeline, session)) if timeline == placed.timeline => session,
            _ => self.snapshot.timeline(placed.timeline)?.session,
        };
        self.timeline = Some((placed.timeline, session));
        let handle = if placed.summary.is_some() { Handle::summary(id) } else { Handle::message(id) };
        Ok(Entry {
            number: placed.arrival,
            handle,
            summary: placed.summary,
            session,
            timeline: placed.timeline,
            order: placed.order.clone(),
            role,
            seen_ms: placed.seen_ms,
            tokens: placed.tokens,
            is_late: placed.order.is_late(),
        })
    }

    /// Room for a node that the caller reads itself.
    pub(crate) fn buffer_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// The node that was read last.
    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

/// What stands at a place was written by ourselves and cannot be read: the store is damaged.
pub(crate) fn unreadable(number: Arrival, error: canon::CanonError) -> EngineError {
    let (table, key, why) = ("records", format!("of message number {number}"), error.to_string());
    StoreError::DamagedRow { table, key, why }.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hex(digits: &str) -> IdPrefix {
        IdPrefix::from_hex(digits).unwrap()
    }

    #[test]
    fn a_node_is_named_in_every_way_people_and_models_write() {
        let handle = |digits| Some(Reference::Handle(HandleKind::Message, hex(digits)));
        assert_eq!(Reference::read("msg_0123456789abcdef"), handle("0123456789abcdef"));
        assert_eq!(Reference::read("[msg_0123456789abcdef]"), handle("0123456789abcdef"));
        assert_eq!(Reference::read("see msg_01, then sum_99"), handle("01"));
        assert_eq!(Reference::read("my_msg_x and sum_ab."), Some(Reference::Handle(HandleKind::Summary, hex("ab"))));
        assert_eq!(Reference::read("node 17"), Some(Reference::Summary(SummaryNumber(17))));
        assert_eq!(Reference::read("Node #17"), Some(Reference::Summary(SummaryNumber(17))));
        assert_eq!(Reference::read("17"), Some(Reference::Number(Arrival(17), None)));
        assert_eq!(Reference::read("1234"), Some(Reference::Number(Arrival(1234), Some(hex("1234")))));
        assert_eq!(Reference::read("12ab"), Some(Reference::Bare(hex("12ab"))));
        for text in ["", "abc", "msg_", "msg_xyz", "node", "node x", "#3", "msg", "99999999999999999999999x"] {
            assert_eq!(Reference::read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "(msg_|sum_|node |#|[0-9a-f]{1,70}|é|\\PC){0,6}") {
            let _reference = Reference::read(&text);
        }
    }
}
