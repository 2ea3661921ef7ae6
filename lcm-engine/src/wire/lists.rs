//! Lists and bases: a host's whole list once, differences from then on. `docs/wire.md`, *Lists and bases*.
//!
//! Messages are kept as compact JSON text and shared between lists, so that a base costs what is new in it. Pure.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use lcm_core::Json;

use super::frame::{Failure, wrong};
use crate::service::{InMessage, OutMessage, SessionKey};

/// Bases that are kept of one session.
pub const BASES_MAX: usize = 8;
/// Bytes of messages that all bases of a connection may hold; each list counts whole.
const BASES_BYTES_MAX: usize = 32 << 20;

/// A list, as a host holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List(
    /// Its messages, as compact JSON text.
    pub Vec<InMessage>,
);

impl List {
    fn bytes(&self) -> usize {
        self.0.iter().map(|message| message.len()).sum()
    }

    /// The list that an answer of the engine makes of this one, and what makes it: splices, each to what the one
    /// before made.
    #[must_use]
    pub fn changed(&self, messages: &[OutMessage]) -> (Self, Json) {
        let mut list = Vec::with_capacity(messages.len());
        let mut splices = Vec::new();
        // How much of this list is behind us, and a splice that is not finished: where it begins, what it inserts.
        let (mut at, mut open): (usize, Option<(usize, Vec<Json>)>) = (0, None);
        let mut close = |open: &mut Option<(usize, Vec<Json>)>, deleted: usize, end: usize| {
            let (begin, inserted) = open.take().unwrap_or((end, Vec::new()));
            if deleted > 0 || !inserted.is_empty() {
                splices.push(Json::Array(vec![number(begin), number(deleted), Json::Array(inserted)]));
            }
        };
        for message in messages {
            match message {
                // What stands in front of what we are at was passed over already: it is shown in another order.
                OutMessage::Given(given) if *given >= at && *given < self.0.len() => {
                    close(&mut open, given - at, list.len());
                    list.push(self.0[*given].clone());
                    at = given + 1;
                }
                other => {
                    let text: InMessage = match other {
                        OutMessage::Given(given) => match self.0.get(*given) {
                            Some(message) => message.clone(),
                            None => continue,
                        },
                        OutMessage::Made(json) => json.clone().into(),
                    };
                    let (_, inserted) = open.get_or_insert_with(|| (list.len(), Vec::new()));
                    inserted.push(Json::parse(&text).unwrap_or(Json::Null));
                    list.push(text);
                }
            }
        }
        close(&mut open, self.0.len() - at, list.len());
        (Self(list), Json::Array(splices))
    }
}

fn number(number: usize) -> Json {
    u64::try_from(number).unwrap_or(u64::MAX).into()
}

/// The lists that a connection knows.
#[derive(Debug)]
pub struct Bases {
    /// What every name of a base begins with: another child's base must not be taken for one of ours.
    stamp: String,
    count: u64,
    sessions: HashMap<SessionKey, VecDeque<(String, Arc<List>)>>,
    /// Sessions by when a base was put, oldest first; one entry a base.
    order: VecDeque<SessionKey>,
    bytes: usize,
}

impl Bases {
    /// No lists; `stamp` is another one in every child.
    #[must_use]
    pub fn new(stamp: String) -> Self {
        Self { stamp, count: 0, sessions: HashMap::new(), order: VecDeque::new(), bytes: 0 }
    }

    /// Keeps a list; gives its name.
    pub fn put(&mut self, session: &SessionKey, list: Arc<List>) -> String {
        let bases = self.sessions.entry(session.clone()).or_default();
        if let Some((name, _)) = bases.iter().find(|(_, known)| Arc::ptr_eq(known, &list)) {
            return name.clone();
        }
        self.count += 1;
        let name = format!("b{}.{}", self.stamp, self.count);
        self.bytes += list.bytes();
        bases.push_back((name.clone(), list));
        self.order.push_back(session.clone());
        if bases.len() > BASES_MAX {
            let at = self.order.iter().position(|of| of == session);
            self.drop_oldest(session);
            if let Some(at) = at {
                self.order.remove(at);
            }
        }
        // The list that was put last stays, however large it is.
        while self.bytes > BASES_BYTES_MAX && self.order.len() > 1 {
            let Some(oldest) = self.order.pop_front() else { break };
            self.drop_oldest(&oldest);
        }
        name
    }

    fn drop_oldest(&mut self, session: &SessionKey) {
        let Some(bases) = self.sessions.get_mut(session) else { return };
        if let Some((_, list)) = bases.pop_front() {
            self.bytes -= list.bytes();
        }
        if bases.is_empty() {
            self.sessions.remove(session);
        }
    }

    fn get(&self, session: &SessionKey, name: &str) -> Option<&Arc<List>> {
        self.sessions.get(session)?.iter().find(|(known, _)| known == name).map(|(_, list)| list)
    }

    /// The list that a parameter stands for.
    ///
    /// # Errors
    /// Where its shape is wrong, or its base is not known.
    pub fn list(&self, session: &SessionKey, json: Json) -> Result<Arc<List>, Failure> {
        let Json::Object(entries) = json else { return Err(wrong("list", "an object with all, or base and splices")) };
        let (mut all, mut base, mut splices) = (None, None, None);
        for (key, value) in entries {
            match key.as_str() {
                Some("all") => all = Some(value),
                Some("base") => base = Some(value),
                Some("splices") => splices = Some(value),
                _ => {}
            }
        }
        if let Some(all) = all {
            let Json::Array(messages) = all else { return Err(wrong("list.all", "an array of messages")) };
            return Ok(Arc::new(List(messages.iter().map(message).collect())));
        }
        let Some(base) = base else { return Err(Failure::parameter("list has neither all nor base")) };
        let known = base.as_str().and_then(|name| self.get(session, name)).ok_or_else(|| {
            let why = "the base is not known any more: send the whole list";
            Failure::new(Failure::NO_BASE, why).with("send", "all".into())
        })?;
        let splices = match splices {
            None | Some(Json::Null) => return Ok(known.clone()),
            Some(Json::Array(splices)) if splices.is_empty() => return Ok(known.clone()),
            Some(Json::Array(splices)) => splices,
            Some(_) => return Err(wrong("list.splices", "an array of [start, delete, [message, …]]")),
        };
        let mut list = known.0.clone();
        for (at, splice) in splices.iter().enumerate() {
            apply(&mut list, splice).map_err(|why| Failure::parameter(format!("list.splices[{at}]: {why}")))?;
        }
        Ok(Arc::new(List(list)))
    }
}

fn message(json: &Json) -> InMessage {
    json.to_text().into()
}

fn apply(list: &mut Vec<InMessage>, splice: &Json) -> Result<(), String> {
    let Some([start, delete, insert]) = splice.as_array() else {
        return Err("it must be [start, delete, [message, …]]".to_owned());
    };
    let size = |json: &Json| json.as_u64().and_then(|number| usize::try_from(number).ok());
    let (Some(start), Some(delete)) = (size(start), size(delete)) else {
        return Err("start and delete must be whole numbers, 0 or more".to_owned());
    };
    let Some(insert) = insert.as_array() else { return Err("what is inserted must be an array".to_owned()) };
    let Some(end) = start.checked_add(delete).filter(|end| *end <= list.len()) else {
        return Err(format!("it deletes {delete} at {start}, and the list has {}", list.len()));
    };
    list.splice(start..end, insert.iter().map(message));
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list(names: &[&str]) -> List {
        List(names.iter().map(|name| message(&Json::from(*name))).collect())
    }

    fn parse(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    fn session(name: &str) -> SessionKey {
        SessionKey::new("a", "p", name)
    }

    #[test]
    fn differences_go_on_from_a_base() {
        let mut bases = Bases::new("x".to_owned());
        let key = session("s");
        let first = bases.list(&key, parse(r#"{"all":["a","b","c"]}"#)).unwrap();
        let name = bases.put(&key, first);
        let next = format!(r#"{{"base":"{name}","splices":[[0,1,["A"]],[3,0,["d"]]]}}"#);
        assert_eq!(*bases.list(&key, parse(&next)).unwrap(), list(&["A", "b", "c", "d"]));
        let other = bases.list(&session("other"), parse(&next)).unwrap_err();
        assert_eq!(other.code, Failure::NO_BASE);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let mut bases = Bases::new("x".to_owned());
        let key = session("s");
        let name = bases.put(&key, Arc::new(list(&["a"])));
        for splices in
            ["5", "[[0,2,[]]]", "[[2,0,[]]]", "[[0,0,5]]", "[[-1,0,[]]]", "[[0,18446744073709551615,[]]]", "[1]"]
        {
            let asked = format!(r#"{{"base":"{name}","splices":{splices}}}"#);
            assert_eq!(bases.list(&key, parse(&asked)).unwrap_err().code, Failure::PARAMETER, "{splices}");
        }
        let asked = format!(r#"{{"base":"{name}"}}"#);
        assert_eq!(*bases.list(&key, parse(&asked)).unwrap(), list(&["a"]));
    }

    #[test]
    fn the_last_eight_bases_of_a_session_are_kept() {
        let mut bases = Bases::new("x".to_owned());
        let (key, other) = (session("s"), session("other"));
        let kept = bases.put(&other, Arc::new(list(&["z"])));
        let names: Vec<String> = (0..10).map(|n| bases.put(&key, Arc::new(list(&[&n.to_string()])))).collect();
        assert!(bases.get(&key, &names[1]).is_none());
        assert!(names[2..].iter().all(|name| bases.get(&key, name).is_some()));
        assert!(bases.get(&other, &kept).is_some());
        assert_eq!((bases.order.len(), bases.bytes), (9, 9 * 3));
    }

    #[test]
    fn large_lists_push_the_oldest_out_whosever_they_are() {
        let mut bases = Bases::new("x".to_owned());
        let large = || Arc::new(List(vec![vec![0_u8; BASES_BYTES_MAX / 3 + 1].into()]));
        let first = bases.put(&session("1"), large());
        let second = bases.put(&session("2"), large());
        let third = bases.put(&session("3"), large());
        assert!(bases.get(&session("1"), &first).is_none());
        assert!(bases.get(&session("2"), &second).is_some() && bases.get(&session("3"), &third).is_some());
    }

    proptest! {
        #[test]
        fn splices_of_an_answer_make_its_list(
            length in 0..6_usize,
            out in prop::collection::vec(prop_oneof![(0..8_usize).prop_map(Some), Just(None)], 0..8),
        ) {
            let given = List((0..length).map(|n| message(&Json::from(n.to_string()))).collect());
            let out: Vec<OutMessage> = out
                .into_iter()
                .map(|at| at.map_or_else(|| OutMessage::Made(br#""made""#.to_vec()), OutMessage::Given))
                .collect();
            let (changed, splices) = given.changed(&out);
            let expected: Vec<InMessage> = out
                .iter()
                .filter_map(|message| match message {
                    OutMessage::Given(at) => given.0.get(*at).cloned(),
                    OutMessage::Made(json) => Some(json.clone().into()),
                })
                .collect();
            prop_assert_eq!(&changed.0, &expected);
            let mut list = given.0;
            for splice in splices.as_array().unwrap() {
                apply(&mut list, splice).unwrap();
            }
            prop_assert_eq!(list, expected);
        }
    }
}
