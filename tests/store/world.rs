//! A plain model of a store, in memory: what must be kept, told in the simplest way one can think of.
//!
//! A branch is a copy here, a scope a filter over everything, a view a map. So where the store is clever (lineage,
//! order keys, reverse links, prefixes), the model is not, and the two must agree.

use std::collections::{BTreeMap, BTreeSet};

use lcm_core::op::{Change, Op};
use lcm_core::view::View;
use lcm_core::{
    Arrival, IdPrefix, Message, NodeId, OpId, OrderKey, Owner, SessionId, Summary, SummaryNumber, TimelineId, node,
};
use lcm_store::{Branches, Buffer, OwnerPattern, Owners, Placed, Scope, Store, StoreError};
use lcm_tests::speech::{assistant, text_of, tool, user};
use lcm_tests::stores::{NOW_MS, assert_whole, everything, log, open, owner, place, prepare, said};
use proptest::prelude::*;

/// One thing that is done to a store. Numbers choose among what is there, modulo how much of it there is.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Session {
        owner: u8,
        name: u8,
    },
    Append {
        session: u8,
        messages: Vec<u8>,
    },
    Insert {
        session: u8,
        behind: u8,
        message: u8,
    },
    Branch {
        session: u8,
        parent: u8,
        last: u8,
    },
    GoOn {
        session: u8,
        timeline: u8,
    },
    Revise {
        place: u8,
        message: u8,
    },
    Fold {
        session: u8,
        first: u8,
        len: u8,
    },
    /// A write of several things that fails at its end.
    Fails {
        session: u8,
        messages: Vec<u8>,
    },
    Reopen,
    Compact,
}

/// Any sequence of steps; what happens often in life happens often here.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let messages = || prop::collection::vec(any::<u8>(), 1..5);
    let step = prop_oneof![
        2 => (any::<u8>(), any::<u8>()).prop_map(|(owner, name)| Step::Session { owner, name }),
        6 => (any::<u8>(), messages()).prop_map(|(session, messages)| Step::Append { session, messages }),
        3 => any::<(u8, u8, u8)>().prop_map(|(session, behind, message)| Step::Insert { session, behind, message }),
        3 => any::<(u8, u8, u8)>().prop_map(|(session, parent, last)| Step::Branch { session, parent, last }),
        1 => any::<(u8, u8)>().prop_map(|(session, timeline)| Step::GoOn { session, timeline }),
        2 => any::<(u8, u8)>().prop_map(|(place, message)| Step::Revise { place, message }),
        3 => any::<(u8, u8, u8)>().prop_map(|(session, first, len)| Step::Fold { session, first, len }),
        1 => (any::<u8>(), messages()).prop_map(|(session, messages)| Step::Fails { session, messages }),
        1 => Just(Step::Reopen),
        1 => Just(Step::Compact),
    ];
    prop::collection::vec(step, 1..24)
}

struct ModelSession {
    id: SessionId,
    owner: usize,
    name: String,
    timeline: usize,
    /// Views by op.
    views: BTreeMap<u64, View>,
}

#[derive(Clone)]
struct ModelTimeline {
    id: TimelineId,
    session: usize,
    /// The timeline with which it began: its own, or that of what it branched off.
    root: usize,
    /// Its messages in order, with those it shares.
    messages: Vec<Arrival>,
    /// Its summaries, with those that stand in what it shares.
    summaries: BTreeSet<Arrival>,
}

struct ModelPlace {
    owner: usize,
    order: OrderKey,
    id: NodeId,
    said: Said,
    forms: Vec<NodeId>,
}

enum Said {
    Message(String),
    Summary(SummaryNumber, Box<Summary>),
}

/// A store and what must be in it.
pub(crate) struct World {
    home: tempfile::TempDir,
    store: Option<Store>,
    owners: Vec<Owner>,
    sessions: Vec<ModelSession>,
    timelines: Vec<ModelTimeline>,
    places: Vec<ModelPlace>,
    ops: Vec<Op>,
    summaries: u64,
}

fn nth<T>(all: &[T], number: u8) -> Option<usize> {
    usize::from(number).checked_rem(all.len())
}

fn pool(number: u8) -> Message {
    match number % 12 {
        0 => tool("c1", &"one body that several messages share\n".repeat(30)),
        1 => tool("c2", &"one body that several messages share\n".repeat(30)),
        2 => tool("c3", &(0..900_u64).map(|n| format!("{:x}", n * n * 77_777 % 1_000_003)).collect::<String>()),
        3 => assistant(""),
        n => user(&format!("message {n}")),
    }
}

impl World {
    /// An empty store.
    pub(crate) fn new() -> Self {
        let home = lcm_tests::folder::folder();
        let store = open(home.path());
        Self {
            home,
            store: Some(store),
            owners: vec![owner("hermes", "anna"), owner("hermes", "bert"), owner("librefang", "anna")],
            sessions: Vec::new(),
            timelines: Vec::new(),
            places: Vec::new(),
            ops: Vec::new(),
            summaries: 0,
        }
    }

    pub(crate) fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn next_arrival(&self) -> Arrival {
        Arrival(u64::try_from(self.places.len()).unwrap() + 1)
    }

    fn place(&self, arrival: Arrival) -> &ModelPlace {
        &self.places[usize::try_from(arrival.0).unwrap() - 1]
    }

    fn new_timeline(&mut self, session: usize) -> TimelineId {
        let root = self.timelines.len();
        let id = TimelineId(u64::try_from(root).unwrap() + 1);
        let (messages, summaries) = (Vec::new(), BTreeSet::new());
        self.timelines.push(ModelTimeline { id, session, root, messages, summaries });
        id
    }

    fn stands(&mut self, session: usize, order: OrderKey, id: NodeId, said: Said) {
        let owner = self.sessions[session].owner;
        self.places.push(ModelPlace { owner, order, id, said, forms: Vec::new() });
    }

    /// Does a step, to the store and to the model.
    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::Session { owner, name } => {
                self.session(usize::from(*owner) % self.owners.len(), &format!("s{}", name % 3));
            }
            Step::Append { session, messages } => {
                let Some(session) = nth(&self.sessions, *session) else { return };
                let messages: Vec<Message> = messages.iter().map(|&number| pool(number)).collect();
                self.append(session, &messages);
            }
            Step::Insert { session, behind, message } => {
                let Some(session) = nth(&self.sessions, *session) else { return };
                self.insert(session, *behind, &pool(*message));
            }
            Step::Branch { session, parent, last } => {
                let (Some(session), Some(parent)) = (nth(&self.sessions, *session), nth(&self.timelines, *parent))
                else {
                    return;
                };
                self.branch(session, parent, *last);
            }
            Step::GoOn { session, timeline } => {
                let Some(session) = nth(&self.sessions, *session) else { return };
                self.go_on(session, *timeline);
            }
            Step::Revise { place, message } => {
                let Some(place) = nth(&self.places, *place) else { return };
                let form = prepare(self.store(), &[pool(*message)]);
                let arrival = Arrival(u64::try_from(place).unwrap() + 1);
                self.store().commit(|commit| commit.revise(arrival, &form[0], NOW_MS, b"")).unwrap();
                self.places[place].forms.push(form[0].id());
            }
            Step::Fold { session, first, len } => {
                let Some(session) = nth(&self.sessions, *session) else { return };
                self.fold(session, *first, *len);
            }
            Step::Fails { session, messages } => {
                let Some(session) = nth(&self.sessions, *session) else { return };
                let messages: Vec<Message> = messages.iter().map(|&number| pool(number)).collect();
                let (id, prepared) = (self.sessions[session].id, prepare(self.store(), &messages));
                let failed = self.store().commit(|commit| {
                    let timeline = commit.go_on_with(id, None, NOW_MS)?;
                    commit.append(timeline, &prepared.iter().map(place).collect::<Vec<_>>())?;
                    Err::<(), _>(StoreError::GivenUp)
                });
                assert!(matches!(failed, Err(StoreError::GivenUp)));
            }
            Step::Reopen => {
                self.store = None;
                self.store = Some(open(self.home.path()));
            }
            Step::Compact => {
                self.store().compact().unwrap();
            }
        }
    }

    fn session(&mut self, owner: usize, name: &str) {
        let id = self.store().commit(|commit| commit.session(&self.owners[owner], name, "model", NOW_MS)).unwrap();
        if let Some(known) = self.sessions.iter().find(|known| known.owner == owner && known.name == name) {
            assert_eq!(id, known.id, "the same name is the same session");
            return;
        }
        let number = self.sessions.len();
        assert_eq!(id.0, u64::try_from(number).unwrap() + 1);
        let timeline = self.timelines.len();
        self.sessions.push(ModelSession { id, owner, name: name.to_owned(), timeline, views: BTreeMap::new() });
        self.new_timeline(number);
    }

    fn append(&mut self, session: usize, messages: &[Message]) {
        let (id, at) = (self.sessions[session].id, self.sessions[session].timeline);
        let prepared = prepare(self.store(), messages);
        let (first, timeline) = (self.next_arrival(), self.timelines[at].id);
        let last = Arrival(first.0 + u64::try_from(messages.len()).unwrap() - 1);
        let what = Change::Ingest { timeline, first, last };
        let (added, op) = self
            .store()
            .commit(|commit| {
                assert_eq!(commit.timeline_of(id)?, timeline);
                let added = commit.append(timeline, &prepared.iter().map(place).collect::<Vec<_>>())?;
                assert_eq!(commit.last_arrival(), last);
                Ok::<_, StoreError>((added, commit.op(id, NOW_MS, "model", what, None)?))
            })
            .unwrap();
        assert_eq!(added, Some((first, last)));
        self.ops.push(op);
        for (message, prepared) in messages.iter().zip(&prepared) {
            let arrival = self.next_arrival();
            self.timelines[at].messages.push(arrival);
            self.stands(session, OrderKey::appended(arrival), prepared.id(), Said::Message(text_of(message)));
        }
    }

    fn insert(&mut self, session: usize, behind: u8, message: &Message) {
        let at = self.sessions[session].timeline;
        let Some(behind) = nth(&self.timelines[at].messages, behind) else { return };
        let key = |at: &ModelTimeline, i: usize| at.messages.get(i).map(|&arrival| self.place(arrival).order.clone());
        let (before, after) = (key(&self.timelines[at], behind).unwrap(), key(&self.timelines[at], behind + 1));
        let order = OrderKey::between(&before, after.as_ref());
        let prepared = prepare(self.store(), std::slice::from_ref(message));
        let timeline = self.timelines[at].id;
        let inserted = self.store().commit(|commit| commit.insert(timeline, &order, &place(&prepared[0])));
        // What a parent or another branch has at this key is not in the way; what this timeline itself has, but shows
        // elsewhere, cannot be.
        let arrival = inserted.unwrap();
        assert_eq!(arrival, self.next_arrival());
        self.timelines[at].messages.insert(behind + 1, arrival);
        self.stands(session, order, prepared[0].id(), Said::Message(text_of(message)));
    }

    fn branch(&mut self, session: usize, parent: usize, last: u8) {
        let Some(last) = nth(&self.timelines[parent].messages, last) else { return };
        let (from, id) = (self.timelines[parent].clone(), self.sessions[session].id);
        let order = self.place(from.messages[last]).order.clone();
        let made = self.store().commit(|commit| commit.branch(id, from.id, &order, NOW_MS));
        if self.sessions[from.session].owner != self.sessions[session].owner {
            assert!(matches!(made, Err(StoreError::NoTimeline(_))), "somebody else's timeline is not shared");
            return;
        }
        let summaries = from.summaries.iter().copied().filter(|&summary| self.place(summary).order <= order).collect();
        let timeline = TimelineId(u64::try_from(self.timelines.len()).unwrap() + 1);
        let messages = from.messages[..=last].to_vec();
        self.timelines.push(ModelTimeline { id: timeline, session, root: from.root, messages, summaries });
        assert_eq!(made.unwrap(), timeline);
        self.sessions[session].timeline = self.timelines.len() - 1;
    }

    fn go_on(&mut self, session: usize, timeline: u8) {
        let mine: Vec<usize> = (0..self.timelines.len()).filter(|&at| self.timelines[at].session == session).collect();
        // One of those it had, or a new one.
        let chosen = mine.get(usize::from(timeline) % (mine.len() + 1)).copied();
        let (id, known) = (self.sessions[session].id, chosen.map(|at| self.timelines[at].id));
        let now = self.store().commit(|commit| commit.go_on_with(id, known, NOW_MS)).unwrap();
        let at = chosen.unwrap_or_else(|| {
            self.new_timeline(session);
            self.timelines.len() - 1
        });
        assert_eq!(now, self.timelines[at].id);
        self.sessions[session].timeline = at;
    }

    fn fold(&mut self, session: usize, first: u8, len: u8) {
        let at = self.sessions[session].timeline;
        let messages = self.timelines[at].messages.clone();
        let Some(first) = nth(&messages, first) else { return };
        let end = (first + usize::from(len) % 5 + 1).min(messages.len());
        let children: Vec<NodeId> = messages[first..end].iter().map(|&arrival| self.place(arrival).id).collect();
        let text = format!("{} messages from {} on", children.len(), messages[first]);
        let parts = node::SummaryParts { text, children, depth: 1, span_ms: (NOW_MS, NOW_MS) };
        let mut summary = Summary::new(parts).unwrap();
        summary.own_tokens = 9;
        let id = lcm_core::canon::message_id(&lcm_core::canon::encode_summary(&summary));
        let order = self.place(messages[first]).order.clone();
        let view = View::raw(self.place(messages[0]).order.clone());
        let next = messages.get(end).map(|&arrival| self.place(arrival).order.clone());
        let view = next.and_then(|next| view.fold(&order, &next, id).ok());
        let (session_id, timeline) = (self.sessions[session].id, self.timelines[at].id);
        let (number, op) = self
            .store()
            .commit(|commit| {
                let number = commit.summary(&summary, timeline, &order, NOW_MS)?;
                let what = Change::Fold { summary: id };
                Ok::<_, StoreError>((number, commit.op(session_id, NOW_MS, "model", what, view.as_ref())?))
            })
            .unwrap();
        self.summaries += 1;
        assert_eq!(number, SummaryNumber(self.summaries));
        if let Some(view) = view {
            self.sessions[session].views.insert(op.id.0, view);
        }
        self.ops.push(op);
        let arrival = self.next_arrival();
        self.timelines[at].summaries.insert(arrival);
        self.stands(session, order, id, Said::Summary(number, Box::new(summary)));
    }

    /// Compares everything the store tells with the model.
    pub(crate) fn compare(&self) {
        assert_whole(self.store());
        let snapshot = self.store().snapshot().unwrap();
        assert_eq!(snapshot.last_arrival().unwrap().0 + 1, self.next_arrival().0);
        assert_eq!(snapshot.places_len().unwrap() + 1, self.next_arrival().0);
        for timeline in &self.timelines {
            let shown = log(&snapshot, timeline.id).unwrap();
            let arrivals: Vec<Arrival> = shown.iter().map(|placed| placed.arrival).collect();
            assert_eq!(arrivals, timeline.messages, "the log of timeline {}", timeline.id);
            assert_eq!(snapshot.log_len(timeline.id).unwrap(), u64::try_from(shown.len()).unwrap());
            assert_eq!(snapshot.last_place(timeline.id).unwrap().as_ref(), shown.last());
            assert_eq!(snapshot.timeline(timeline.id).unwrap().session, self.sessions[timeline.session].id);
            for placed in &shown {
                let Said::Message(text) = &self.place(placed.arrival).said else { panic!("a summary in a log") };
                assert_eq!(&said(&snapshot, placed).unwrap(), text);
                assert_eq!(placed.order, self.place(placed.arrival).order);
            }
        }
        let shown = everything(self.store()).unwrap();
        assert_eq!(shown.len(), self.sessions.len());
        for (session, (name, texts)) in self.sessions.iter().zip(shown) {
            let kept = snapshot.session(session.id).unwrap();
            assert_eq!((&kept.name, &kept.owner), (&session.name, &self.owners[session.owner]));
            assert_eq!(kept.timeline, self.timelines[session.timeline].id);
            assert_eq!((&name, texts.len()), (&session.name, self.timelines[session.timeline].messages.len()));
            assert_eq!(snapshot.session_named(&kept.owner, &name).unwrap(), Some(kept));
            for op in 0..=self.ops.len() {
                let op = OpId(u64::try_from(op).unwrap());
                let expected = session.views.range(..=op.0).next_back().map(|(_, view)| view);
                assert_eq!(snapshot.view(session.id, op).unwrap().as_ref(), expected);
            }
        }
        assert_eq!(snapshot.ops(OpId(0), usize::MAX).unwrap(), self.ops);
        self.compare_forms_and_links();
    }

    fn compare_forms_and_links(&self) {
        let snapshot = self.store().snapshot().unwrap();
        let mut buffer = Buffer::default();
        let id_of = |record, buffer: &mut Buffer| {
            snapshot.read(record, buffer).unwrap();
            buffer.id()
        };
        let mut parents: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
        for place in &self.places {
            let Said::Summary(_, summary) = &place.said else { continue };
            for child in summary.children() {
                parents.entry(*child).or_default().insert(place.id);
            }
        }
        for (place, arrival) in self.places.iter().zip((1..).map(Arrival)) {
            let forms: Vec<NodeId> = snapshot
                .revisions(arrival)
                .unwrap()
                .into_iter()
                .map(|(record, ..)| id_of(record, &mut buffer))
                .collect();
            assert_eq!(forms, place.forms, "the forms of {arrival}");
            let placed = snapshot.find_place(&Scope::everything(), arrival).unwrap().unwrap();
            let found: BTreeSet<NodeId> =
                snapshot.parents(placed.record).unwrap().into_iter().map(|record| id_of(record, &mut buffer)).collect();
            assert_eq!(found, parents.get(&place.id).cloned().unwrap_or_default(), "what stands for {arrival}");
            if let Said::Summary(number, summary) = &place.said {
                assert_eq!(placed.summary, Some(*number));
                assert_eq!(&snapshot.summary(placed.record, &mut buffer).unwrap(), &**summary);
                let children = snapshot.children(placed.record).unwrap().into_iter();
                let children: Vec<NodeId> = children.map(|record| id_of(record, &mut buffer)).collect();
                assert_eq!(children, summary.children());
            }
        }
    }

    /// Every scope that the names of this world can make, a few of names it does not have, with what lies in it.
    fn scopes(&self) -> Vec<(Scope, BTreeSet<Arrival>)> {
        let pattern = |agent: Option<&str>, person: Option<&str>| OwnerPattern {
            agent: agent.map(str::to_owned),
            person: person.map(str::to_owned),
        };
        let owners = [
            Owners::All,
            Owners::Matching(vec![]),
            Owners::Matching(vec![pattern(None, None)]),
            Owners::Matching(vec![pattern(Some("hermes"), None)]),
            Owners::Matching(vec![pattern(None, Some("anna"))]),
            Owners::Matching(vec![pattern(Some("hermes"), Some("bert"))]),
            Owners::Matching(vec![pattern(Some("hermes"), Some("bert")), pattern(Some("librefang"), Some("anna"))]),
            Owners::Matching(vec![pattern(Some("librefang"), Some("bert"))]),
            Owners::Matching(vec![pattern(Some("nobody"), None)]),
        ];
        let mut named: Vec<Vec<SessionId>> = vec![vec![], vec![SessionId(99)]];
        let ids: Vec<SessionId> = self.sessions.iter().map(|session| session.id).collect();
        named.extend(ids.iter().map(|&id| vec![id]));
        named.extend(ids.windows(2).map(|pair| vec![pair[1], pair[0], SessionId(0)]));
        named.push(ids);
        let mut scopes = Vec::new();
        for owners in owners {
            for sessions in &named {
                for branches in [Branches::Current, Branches::Standing, Branches::All] {
                    let scope = Scope { owners: owners.clone(), sessions: sessions.clone(), branches };
                    let inside = self.lies_in(&scope);
                    scopes.push((scope, inside));
                }
            }
        }
        scopes
    }

    fn owner_fits(&self, scope: &Scope, owner: usize) -> bool {
        let owner = &self.owners[owner];
        match &scope.owners {
            Owners::All => true,
            Owners::Matching(patterns) => patterns.iter().any(|pattern| {
                pattern.agent.as_ref().is_none_or(|agent| *agent == owner.agent)
                    && pattern.person.as_ref().is_none_or(|person| *person == owner.person)
            }),
        }
    }

    fn lies_in(&self, scope: &Scope) -> BTreeSet<Arrival> {
        let mut inside = BTreeSet::new();
        if scope.sessions.is_empty() {
            let all = self.places.iter().zip((1..).map(Arrival));
            inside.extend(all.filter(|(place, _)| self.owner_fits(scope, place.owner)).map(|(_, arrival)| arrival));
        }
        for (number, session) in self.sessions.iter().enumerate() {
            if !scope.sessions.contains(&session.id) || !self.owner_fits(scope, session.owner) {
                continue;
            }
            for (at, timeline) in self.timelines.iter().enumerate() {
                let reached = match scope.branches {
                    Branches::Current => at == session.timeline,
                    Branches::Standing => self.stands_in(number, at),
                    Branches::All => timeline.session == number,
                };
                if reached {
                    inside.extend(timeline.messages.iter().chain(&timeline.summaries));
                }
            }
        }
        inside
    }

    /// Whether a timeline of a session was not taken back: it goes on with it, or it is the newest of its beginning.
    fn stands_in(&self, session: usize, at: usize) -> bool {
        let (timeline, current) = (&self.timelines[at], self.sessions[session].timeline);
        let is_newest = |root| self.timelines.iter().rposition(|one| one.session == session && one.root == root);
        timeline.session == session
            && (at == current
                || (timeline.root != self.timelines[current].root && is_newest(timeline.root) == Some(at)))
    }

    /// Whatever is found lies in scope, and whatever lies in scope is found, by every way there is.
    pub(crate) fn compare_scopes(&self) {
        let snapshot = self.store().snapshot().unwrap();
        for (scope, inside) in self.scopes() {
            let at = |found: Vec<Placed>| found.into_iter().map(|placed| placed.arrival).collect::<Vec<_>>();
            for arrival in (0..=self.next_arrival().0).map(Arrival) {
                let found = snapshot.find_place(&scope, arrival).unwrap();
                assert_eq!(found.is_some(), inside.contains(&arrival), "{arrival} in {scope:?}");
            }
            let mut nodes: BTreeMap<NodeId, Vec<Arrival>> = BTreeMap::new();
            let mut numbers = BTreeSet::new();
            for (place, arrival) in self.places.iter().zip((1..).map(Arrival)) {
                let places = nodes.entry(place.id).or_default();
                if inside.contains(&arrival) {
                    places.push(arrival);
                    numbers.extend(if let Said::Summary(number, _) = place.said { Some(number) } else { None });
                }
            }
            for (id, places) in &nodes {
                assert_eq!(&at(snapshot.places_of(&scope, id).unwrap()), places, "{id:.12} in {scope:?}");
            }
            for number in (0..=self.summaries + 1).map(SummaryNumber) {
                let found = snapshot.find_summary(&scope, number).unwrap();
                assert_eq!(found.is_some(), numbers.contains(&number), "summary {number} in {scope:?}");
            }
            let mut found = Vec::new();
            for digit in "0123456789abcdef".chars() {
                let prefix = IdPrefix::from_hex(&digit.to_string()).unwrap();
                found.extend(snapshot.find_nodes(&scope, &prefix, usize::MAX).unwrap());
            }
            let found: Vec<(NodeId, Arrival)> = found.into_iter().map(|(id, placed)| (id, placed.arrival)).collect();
            let expected: Vec<(NodeId, Arrival)> =
                nodes.iter().filter_map(|(id, places)| Some((*id, *places.last()?))).collect();
            assert_eq!(found, expected, "prefixes in {scope:?}");
            let found: Vec<SessionId> =
                snapshot.sessions(&scope).unwrap().into_iter().map(|session| session.id).collect();
            let expected = self.sessions.iter().filter(|session| {
                self.owner_fits(&scope, session.owner)
                    && (scope.sessions.is_empty() || scope.sessions.contains(&session.id))
            });
            assert_eq!(found, expected.map(|session| session.id).collect::<Vec<_>>(), "sessions in {scope:?}");
        }
    }
}
