//! What is new in a host's list, and one commit that keeps it.
//!
//! A list is compared with the session's timelines ([`Known`]) outside of the write lock; what it needs is encoded and
//! compressed there too. Inside the lock only a number is compared: when nobody has written since, the plan holds,
//! else it is made again on what is there now, which nobody can change while we hold the lock.
//!
//! Nodes, places and op go into one commit. Only a list beyond the bounds of a commit is cut, at message borders;
//! after a crash in between, the same list puts in the rest.
//!
//! This is the simple form of ingest: a list is a beginning that is known, and what follows. The aligner, which also
//! knows revisions, late inserts and our own folds, will stand in its place.

use std::collections::VecDeque;

use lcm_core::limits::COMMIT_MESSAGES_MAX;
use lcm_core::op::Change;
use lcm_core::{Arrival, EncodedMessage, NodeId, OpId, OrderKey, Owner, SessionId, TimelineId};
use lcm_store::{Commit, NewPlace, Prepared, Session, Snapshot, Store, StoreError};

use crate::error::EngineError;
use crate::hosts::{Incoming, IncomingMessage, Path};
use crate::known::{Known, Step};
use crate::service::{Ingested, SessionKey};

/// Canonical bytes of one commit: what a slow disk takes in well under the time that others wait for the lock.
pub(crate) const COMMIT_BYTES_MAX: usize = 32 << 20;
/// So many messages in common are no accident, under a name that was only guessed.
const SAME_MESSAGES_MIN: usize = 8;
/// How many sessions of one guessed name are told apart.
const GUESSES_MAX: u32 = 1000;

/// One list on its way into the store.
pub(crate) struct Job {
    incoming: Incoming,
    slots: Vec<Slot>,
    ids: Vec<NodeId>,
    /// Whose the session is.
    owner: Owner,
    by: String,
    now_ms: i64,
    plan: Plan,
    /// What was carried out.
    done: Ingested,
}

/// A message of the list.
struct Slot {
    /// What is to be prepared; `None` when it is.
    encoded: Option<EncodedMessage>,
    prepared: Option<Prepared>,
    revisions: Vec<(Option<EncodedMessage>, Option<Prepared>)>,
    bytes: usize,
}

/// What is to be done, as of a moment.
struct Plan {
    /// The newest arrival number when the store was looked at.
    seen: Arrival,
    key: SessionKey,
    session: Option<Session>,
    known: Known,
    steps: VecDeque<Step>,
}

impl Job {
    /// Compares a list with the store.
    pub(crate) fn new(
        snapshot: &Snapshot,
        mut incoming: Incoming,
        defaults: &Owner,
        by: &str,
        now_ms: i64,
        remembered: impl FnOnce(&Session) -> Option<Known>,
    ) -> Result<Self, EngineError> {
        let (owner, _) = Self::name_of(&incoming, defaults);
        if incoming.paths.is_empty() {
            incoming.paths.push(Path { parent: None, own: (0..incoming.messages.len()).collect() });
        }
        let most = u64::try_from(incoming.messages.len()).unwrap_or(u64::MAX);
        for path in &incoming.paths {
            if let Some(bad) = path.own.iter().find(|i| **i >= incoming.messages.len()) {
                return Err(EngineError::NoSuchMessage(u64::try_from(*bad).unwrap_or(most)));
            }
        }
        let ids: Vec<NodeId> = incoming.messages.iter().map(IncomingMessage::id).collect();
        let slots = incoming.messages.iter_mut().map(Slot::take).collect();
        let plan = Plan::new(snapshot, &incoming, &ids, &owner, remembered)?;
        let done = Ingested {
            key: plan.key.clone(),
            session: plan.session.as_ref().map(|session| session.id),
            created: false,
            new: 0,
            known: most,
            branches: 0,
            numbers: None,
            op: None,
            tag: incoming.tag,
        };
        Ok(Self { incoming, slots, ids, owner, by: by.to_owned(), now_ms, plan, done })
    }

    /// Looks at the store again: what was planned does not hold any more.
    fn plan_again(&mut self, store: &Store) -> Result<(), EngineError> {
        self.plan = Plan::new(&store.snapshot()?, &self.incoming, &self.ids, &self.owner, |_| None)?;
        self.done.key = self.plan.key.clone();
        Ok(())
    }

    /// The newest arrival number when the store was looked at.
    pub(crate) fn seen(&self) -> Arrival {
        self.plan.seen
    }

    /// What came between was written by ourselves, to other sessions.
    pub(crate) fn saw(&mut self, newest: Arrival) {
        self.plan.seen = newest;
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.plan.steps.is_empty()
    }

    /// Bytes that are still to be written.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.iter().map(|slot| slot.bytes).sum()
    }

    pub(crate) fn messages(&self) -> usize {
        self.slots.len()
    }

    /// Whose session a list is of, and under which name it comes; the session itself may get another name when
    /// this one is a guess.
    pub(crate) fn name_of(incoming: &Incoming, defaults: &Owner) -> (Owner, String) {
        let agent = incoming.agent.as_ref().unwrap_or(&defaults.agent).clone();
        let person = incoming.person.as_ref().unwrap_or(&defaults.person).clone();
        (Owner { agent, person }, incoming.name.clone())
    }

    /// Hashes and compresses what the jobs need, on all cores.
    pub(crate) fn prepare(store: &Store, jobs: &mut [&mut Self]) -> Result<(), EngineError> {
        Self::prepare_with(store, jobs, |_| Ok(()))
    }

    /// The same, after training the store's dictionary on it, when it has none and this is enough.
    pub(crate) fn train_and_prepare(store: &Store, jobs: &mut [&mut Self]) -> Result<(), EngineError> {
        Self::prepare_with(store, jobs, |encoded| store.train_on(encoded).map(drop))
    }

    fn prepare_with(
        store: &Store,
        jobs: &mut [&mut Self],
        first: impl FnOnce(&[EncodedMessage]) -> Result<(), StoreError>,
    ) -> Result<(), EngineError> {
        let mut wanted: Vec<(usize, usize, Option<usize>)> = Vec::new();
        let mut encoded: Vec<EncodedMessage> = Vec::new();
        for (number, job) in jobs.iter_mut().enumerate() {
            let appended = job.plan.steps.iter().filter_map(|step| match step {
                Step::Append { messages, .. } => Some(messages),
                _ => None,
            });
            for &message in appended.flatten() {
                let slot = &mut job.slots[message];
                if let Some(taken) = slot.encoded.take() {
                    encoded.push(taken);
                    wanted.push((number, message, None));
                }
                for (form, revision) in slot.revisions.iter_mut().enumerate() {
                    if let Some(taken) = revision.0.take() {
                        encoded.push(taken);
                        wanted.push((number, message, Some(form)));
                    }
                }
            }
        }
        if encoded.is_empty() {
            return Ok(());
        }
        first(&encoded)?;
        for ((job, message, form), prepared) in wanted.into_iter().zip(store.prepare(&encoded)?) {
            let slot = &mut jobs[job].slots[message];
            match form {
                None => slot.prepared = Some(prepared),
                Some(form) => slot.revisions[form].1 = Some(prepared),
            }
        }
        Ok(())
    }

    /// Writes the job; in one commit unless it is beyond the bounds of one.
    pub(crate) fn write(&mut self, store: &Store) -> Result<(), EngineError> {
        while self.has_work() {
            store.commit(|commit| Self::write_in(&mut [&mut *self], store, commit))?;
        }
        Ok(())
    }

    /// Writes jobs of different sessions in an open commit, as far as its bounds allow.
    pub(crate) fn write_in(jobs: &mut [&mut Self], store: &Store, commit: &mut Commit<'_>) -> Result<(), EngineError> {
        let newest = commit.last_arrival();
        for job in jobs.iter_mut().filter(|job| job.plan.seen != newest) {
            // We hold the lock: what the newest snapshot shows is what we write on.
            job.plan_again(store)?;
            Self::prepare(store, &mut [&mut **job])?;
        }
        let mut room = Room { messages: COMMIT_MESSAGES_MAX, bytes: COMMIT_BYTES_MAX };
        for job in jobs.iter_mut() {
            job.carry_out(commit, &mut room)?;
        }
        let newest = commit.last_arrival();
        for job in jobs.iter_mut() {
            job.plan.seen = newest;
        }
        Ok(())
    }

    fn carry_out(&mut self, commit: &mut Commit<'_>, room: &mut Room) -> Result<(), EngineError> {
        if !self.has_work() {
            return Ok(());
        }
        let session = match &self.plan.session {
            Some(session) => session.id,
            None => self.make_session(commit)?,
        };
        while let Some(step) = self.plan.steps.pop_front() {
            match step {
                Step::Append { timeline, mut messages } => {
                    let fits = room.fits(messages.iter().map(|i| self.slots[*i].bytes));
                    if fits == 0 && !messages.is_empty() {
                        self.plan.steps.push_front(Step::Append { timeline, messages });
                        return Ok(());
                    }
                    let rest = messages.split_off(fits);
                    self.append(commit, session, timeline, &messages)?;
                    if !rest.is_empty() {
                        self.plan.steps.push_front(Step::Append { timeline, messages: rest });
                        return Ok(());
                    }
                }
                Step::Branch { timeline, parent, shared } => self.branch(commit, session, timeline, parent, shared)?,
                Step::Begin { timeline } => {
                    // The first timeline of a session came with it.
                    if self.plan.known.id(timeline).is_none() {
                        let from = commit.timeline_of(session)?;
                        let to = commit.go_on_with(session, None, self.now_ms)?;
                        self.plan.known.written(timeline, to);
                        self.op(commit, session, Change::Branch { from: Some(from), to, shared: 0 })?;
                        self.done.branches += 1;
                    }
                }
                Step::GoOn { timeline } => {
                    let from = commit.timeline_of(session)?;
                    let to = self.written(timeline);
                    commit.go_on_with(session, Some(to), self.now_ms)?;
                    let shared = u64::try_from(self.plan.known.shared_by(from, timeline)).unwrap_or(u64::MAX);
                    self.op(commit, session, Change::Branch { from: Some(from), to, shared })?;
                }
            }
        }
        Ok(())
    }

    /// Makes the session of a list that has none. Its first timeline comes with it.
    fn make_session(&mut self, commit: &mut Commit<'_>) -> Result<SessionId, EngineError> {
        let SessionKey { owner, name } = &self.plan.key;
        let created_ms = self.incoming.created_ms.unwrap_or(self.now_ms);
        let session = commit.session(owner, name, &self.incoming.source, created_ms)?;
        let timeline = commit.timeline_of(session)?;
        if let Some(Step::Begin { timeline: first }) = self.plan.steps.front() {
            self.plan.known.written(*first, timeline);
        }
        self.plan.session = Some(Session {
            id: session,
            owner: owner.clone(),
            name: name.clone(),
            source: self.incoming.source.clone(),
            created_ms,
            timeline,
        });
        self.done.session = Some(session);
        self.done.created = true;
        Ok(session)
    }

    fn written(&self, timeline: usize) -> TimelineId {
        self.plan.known.id(timeline).expect("steps come in order: a timeline is begun before it is used")
    }

    fn branch(
        &mut self,
        commit: &mut Commit<'_>,
        session: SessionId,
        timeline: usize,
        parent: usize,
        shared: usize,
    ) -> Result<(), EngineError> {
        let from = commit.timeline_of(session)?;
        let parent_id = self.written(parent);
        let last = self.plan.known.last_shared(parent, shared);
        let last = last.expect("steps come in order: what is shared was written before").clone();
        let to = commit.branch(session, parent_id, &last, self.now_ms)?;
        self.plan.known.written(timeline, to);
        let shared = u64::try_from(shared).unwrap_or(u64::MAX);
        self.op(commit, session, Change::Branch { from: Some(from), to, shared })?;
        self.done.branches += 1;
        Ok(())
    }

    fn append(
        &mut self,
        commit: &mut Commit<'_>,
        session: SessionId,
        timeline: usize,
        messages: &[usize],
    ) -> Result<(), EngineError> {
        let to = self.written(timeline);
        let mut places = Vec::with_capacity(messages.len());
        for &i in messages {
            let said = &self.incoming.messages[i];
            let message = self.slots[i].prepared.as_ref().expect("every step is prepared: see `prepare`");
            places.push(NewPlace {
                message,
                seen_ms: said.seen_ms.unwrap_or(self.now_ms),
                tokens: said.tokens,
                volatile: &said.volatile,
            });
        }
        let Some((first, last)) = commit.append(to, &places)? else { return Ok(()) };
        let numbers = first.0..=last.0;
        for (&i, number) in messages.iter().zip(numbers.clone()) {
            let forms = self.incoming.messages[i].revisions.iter().zip(&self.slots[i].revisions);
            for (form, (_, prepared)) in forms {
                let prepared = prepared.as_ref().expect("prepared with its message: see `prepare`");
                commit.revise(Arrival(number), prepared, form.seen_ms, &form.volatile)?;
                let change = Change::Revise { arrival: Arrival(number), form: prepared.id() };
                self.done.op = Some(commit.op(session, self.now_ms, &self.by, change, None)?.id);
            }
        }
        self.plan.known.appended(timeline, numbers.map(|number| OrderKey::appended(Arrival(number))));
        self.op(commit, session, Change::Ingest { timeline: to, first, last })?;
        let count = u64::try_from(messages.len()).unwrap_or(u64::MAX);
        self.done.new += count;
        self.done.known = self.done.known.saturating_sub(count);
        self.done.numbers = Some((self.done.numbers.map_or(first, |(first, _)| first), last));
        for &i in messages {
            self.slots[i].bytes = 0;
        }
        Ok(())
    }

    fn op(&mut self, commit: &mut Commit<'_>, session: SessionId, change: Change) -> Result<OpId, EngineError> {
        let op = commit.op(session, self.now_ms, &self.by, change, None)?;
        self.done.op = Some(op.id);
        Ok(op.id)
    }

    /// What came of it, and what is known of the session now.
    pub(crate) fn finish(self) -> (Ingested, Known) {
        (self.done, self.plan.known)
    }
}

impl Slot {
    fn take(message: &mut IncomingMessage) -> Self {
        let encoded = take_encoded(&mut message.encoded);
        let bytes = encoded.canon.len()
            + encoded.bodies.iter().map(|body| body.bytes.len()).sum::<usize>()
            + message.volatile.len();
        let revisions = message.revisions.iter_mut().map(|form| (Some(take_encoded(&mut form.encoded)), None));
        Self { encoded: Some(encoded), prepared: None, revisions: revisions.collect(), bytes }
    }
}

/// Takes a message out, so that it is held once; its id stays.
fn take_encoded(encoded: &mut EncodedMessage) -> EncodedMessage {
    let rest = EncodedMessage { id: encoded.id, canon: Vec::new(), order: Vec::new(), bodies: Vec::new() };
    std::mem::replace(encoded, rest)
}

/// What a commit still takes.
struct Room {
    messages: usize,
    bytes: usize,
}

impl Room {
    /// How many of these fit; one always does into a commit that is empty.
    fn fits(&mut self, sizes: impl Iterator<Item = usize>) -> usize {
        let mut count = 0;
        for size in sizes {
            let is_first = self.messages == COMMIT_MESSAGES_MAX;
            if !is_first && (self.messages == 0 || size > self.bytes) {
                break;
            }
            self.messages -= 1;
            self.bytes = self.bytes.saturating_sub(size);
            count += 1;
        }
        count
    }
}

impl Plan {
    fn new(
        snapshot: &Snapshot,
        incoming: &Incoming,
        ids: &[NodeId],
        owner: &Owner,
        remembered: impl FnOnce(&Session) -> Option<Known>,
    ) -> Result<Self, EngineError> {
        let seen = snapshot.last_arrival()?;
        let (name, session, mut known) = match incoming.name_is_guess {
            true => Self::guess(snapshot, incoming, ids, owner)?,
            false => {
                let session = snapshot.session_named(owner, &incoming.name)?;
                let known = match &session {
                    None => Known::default(),
                    Some(session) => match remembered(session) {
                        Some(known) => known,
                        None => Known::load(snapshot, session)?,
                    },
                };
                (incoming.name.clone(), session, known)
            }
        };
        let have = u64::try_from(known.current_len()).unwrap_or(u64::MAX);
        if incoming.known > have {
            return Err(EngineError::Gap { session: name, known: incoming.known, have });
        }
        let before = usize::try_from(incoming.known).unwrap_or(usize::MAX);
        let steps = known.plan(ids, &incoming.paths, before, |known| match &session {
            Some(session) => known.complete(snapshot, session),
            None => Ok(()),
        })?;
        let key = SessionKey { owner: owner.clone(), name };
        Ok(Self { seen, key, session, known, steps: steps.into() })
    }

    /// The session of this name that tells the same story, else one that is not there yet.
    fn guess(
        snapshot: &Snapshot,
        incoming: &Incoming,
        ids: &[NodeId],
        owner: &Owner,
    ) -> Result<(String, Option<Session>, Known), EngineError> {
        let last: Vec<NodeId> = incoming.last_list().into_iter().filter_map(|i| ids.get(i).copied()).collect();
        let mut name = incoming.name.clone();
        for number in 2..=GUESSES_MAX {
            let Some(session) = snapshot.session_named(owner, &name)? else {
                return Ok((name, None, Known::default()));
            };
            let mut known = Known::load(snapshot, &session)?;
            known.complete(snapshot, &session)?;
            if known.tells_the_same(&last, SAME_MESSAGES_MIN) {
                return Ok((name, Some(session), known));
            }
            name = format!("{}-{number}", incoming.name);
        }
        let session = snapshot.session_named(owner, &name)?;
        let known = session.as_ref().map(|session| Known::load(snapshot, session)).transpose()?;
        Ok((name, session, known.unwrap_or_default()))
    }
}

impl Incoming {
    /// The messages of the path that the session goes on with, in order.
    fn last_list(&self) -> Vec<usize> {
        // The own messages of the path and of those above it, last ones first, each up to where the next parts.
        let (mut pieces, mut next, mut until) = (Vec::new(), self.paths.len().checked_sub(1), usize::MAX);
        while let Some(path) = next.and_then(|path| self.paths.get(path)) {
            let shared = path.parent.map_or(0, |(_, shared)| shared);
            let own = path.own.len().min(until.saturating_sub(shared));
            pieces.push(&path.own[..own]);
            until = until.min(shared);
            // A path names an earlier one; anything else ends here.
            next = path.parent.map(|(parent, _)| parent).filter(|parent| Some(*parent) < next);
        }
        pieces.into_iter().rev().flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use lcm_core::Message;
    use lcm_store::{OpenOptions, Scope};

    use super::*;
    use crate::Engine;
    use crate::service::{ImportOptions, IngestRequest, ReadRequest, Service};

    fn owner() -> Owner {
        Owner { agent: "a".to_owned(), person: "p".to_owned() }
    }

    fn engine() -> (tempfile::TempDir, Engine) {
        let home = tempfile::tempdir().unwrap();
        let engine = Engine::open(home.path(), OpenOptions::default()).unwrap();
        (home, engine)
    }

    fn list(name: &str, known: u64, texts: &[&str]) -> Incoming {
        let message = |text: &&str| {
            let message = Message::parse(format!(r#"{{"role":"user","content":"{text}"}}"#).as_bytes()).unwrap();
            IncomingMessage { seen_ms: Some(7), ..IncomingMessage::new(&message).unwrap() }
        };
        let messages = texts.iter().map(message).collect();
        Incoming { name: name.to_owned(), source: "test".to_owned(), known, messages, ..Incoming::default() }
    }

    fn show(engine: &Engine, incoming: Incoming) -> Ingested {
        let request = IngestRequest { incoming, defaults: owner(), by: "test".to_owned(), now_ms: 9 };
        engine.ingest(request).unwrap()
    }

    /// What the session goes on with.
    fn texts(engine: &Engine, name: &str) -> Vec<String> {
        let session = engine.store().snapshot().unwrap().session_named(&owner(), name).unwrap().unwrap();
        let request = ReadRequest {
            scope: Scope::everything(),
            session: session.id,
            timeline: None,
            from: None,
            max: 1000,
            bytes_max: usize::MAX,
        };
        let messages = engine.read(&request).unwrap().messages;
        messages.iter().map(|whole| String::from_utf8(whole.json.clone()).unwrap()).collect()
    }

    fn said(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| format!(r#"{{"role":"user","content":"{text}"}}"#)).collect()
    }

    #[test]
    fn a_list_that_grows_is_kept_once() {
        let (_home, engine) = engine();
        let first = show(&engine, list("s", 0, &["a", "b"]));
        assert_eq!(
            (first.created, first.new, first.known, first.numbers),
            (true, 2, 0, Some((Arrival(1), Arrival(2))))
        );
        let second = show(&engine, list("s", 0, &["a", "b", "b", "c"]));
        assert_eq!((second.created, second.new, second.known), (false, 2, 2));
        let again = show(&engine, list("s", 0, &["a", "b", "b", "c"]));
        assert_eq!((again.new, again.known, again.op), (0, 4, None));
        let shorter = show(&engine, list("s", 0, &["a"]));
        assert_eq!((shorter.new, shorter.known), (0, 1));
        assert_eq!(texts(&engine, "s"), said(&["a", "b", "b", "c"]));
    }

    #[test]
    fn deltas_go_on_behind_what_is_known_and_gaps_are_refused() {
        let (_home, engine) = engine();
        show(&engine, list("s", 0, &["a", "b"]));
        assert_eq!(show(&engine, list("s", 2, &["c"])).new, 1);
        assert_eq!(show(&engine, list("s", 2, &["c", "d"])).new, 1);
        assert_eq!(texts(&engine, "s"), said(&["a", "b", "c", "d"]));
        let gap = list("s", 9, &["z"]);
        let request = IngestRequest { incoming: gap, defaults: owner(), by: "test".to_owned(), now_ms: 9 };
        assert!(matches!(engine.ingest(request), Err(EngineError::Gap { known: 9, have: 4, .. })));
    }

    #[test]
    fn a_list_that_differs_goes_on_as_a_branch_and_the_old_one_is_known() {
        let (_home, engine) = engine();
        show(&engine, list("s", 0, &["a", "b", "c"]));
        let branch = show(&engine, list("s", 0, &["a", "x", "y"]));
        assert_eq!((branch.new, branch.known, branch.branches), (2, 1, 1));
        assert_eq!(texts(&engine, "s"), said(&["a", "x", "y"]));
        // An old list is no evidence of anything.
        assert_eq!(show(&engine, list("s", 0, &["a", "b", "c"])).new, 0);
        assert_eq!(texts(&engine, "s"), said(&["a", "x", "y"]));
        // One that goes on is.
        assert_eq!(show(&engine, list("s", 0, &["a", "b", "c", "d"])).new, 1);
        assert_eq!(texts(&engine, "s"), said(&["a", "b", "c", "d"]));
        let other = show(&engine, list("s", 0, &["q"]));
        assert_eq!((other.new, other.branches), (1, 1));
        assert_eq!(texts(&engine, "s"), said(&["q"]));
    }

    #[test]
    fn another_engine_on_the_store_is_noticed() {
        let (home, engine) = engine();
        let other = Engine::open(home.path(), OpenOptions::default()).unwrap();
        show(&engine, list("s", 0, &["a"]));
        show(&other, list("s", 0, &["a", "b"]));
        assert_eq!(show(&engine, list("s", 0, &["a", "b", "c"])).new, 1);
        assert_eq!(show(&other, list("s", 0, &["a", "b", "c"])).new, 0);
        assert_eq!(texts(&other, "s"), said(&["a", "b", "c"]));
    }

    #[test]
    fn a_plan_that_was_overtaken_is_made_again_under_the_lock() {
        let (_home, engine) = engine();
        show(&engine, list("s", 0, &["a"]));
        let snapshot = engine.store().snapshot().unwrap();
        let mut job = Job::new(&snapshot, list("s", 0, &["a", "b"]), &owner(), "test", 9, |_| None).unwrap();
        drop(snapshot);
        Job::prepare(engine.store(), &mut [&mut job]).unwrap();
        // The same message comes by another way, and one more.
        show(&engine, list("s", 0, &["a", "b", "c"]));
        job.write(engine.store()).unwrap();
        assert_eq!(job.finish().0.new, 0);
        assert_eq!(texts(&engine, "s"), said(&["a", "b", "c"]));
    }

    #[test]
    fn guessed_names_tell_two_stories_apart_and_know_one_again() {
        let (_home, engine) = engine();
        let guess = |texts: &[&str]| show(&engine, Incoming { name_is_guess: true, ..list("notes", 0, texts) });
        assert_eq!(guess(&["a", "b"]).key.name, "notes");
        assert_eq!(guess(&["x", "y"]).key.name, "notes-2");
        assert_eq!(guess(&["x", "y", "z"]).key.name, "notes-2");
        assert_eq!(guess(&["a", "b"]).new, 0);
        assert_eq!(guess(&["a", "c"]).key.name, "notes-3");
    }

    #[test]
    fn a_list_beyond_the_bounds_of_a_commit_is_kept_whole() {
        let (_home, engine) = engine();
        let texts_owned: Vec<String> = (0..COMMIT_MESSAGES_MAX + 10).map(|i| i.to_string()).collect();
        let many: Vec<&str> = texts_owned.iter().map(String::as_str).collect();
        let kept = show(&engine, list("s", 0, &many));
        assert_eq!(kept.new, u64::try_from(many.len()).unwrap());
        assert_eq!(show(&engine, list("s", 0, &many)).new, 0);
    }

    #[test]
    fn an_import_of_many_lists_keeps_each_once_and_in_order() {
        let (_home, engine) = engine();
        let texts_owned: Vec<String> = (0..3000).map(|i| i.to_string()).collect();
        let many: Vec<&str> = texts_owned.iter().map(String::as_str).collect();
        // One session in parts, which must not overtake each other, between others.
        let lists = || {
            let mut lists = vec![list("long", 0, &many[..1000]), list("long", 1000, &many[1000..])];
            lists.extend((0..50).map(|i| list(&format!("s{i}"), 0, &many[i..i + 20])));
            lists.push(list("long", 0, &many));
            lists
        };
        let options = ImportOptions { defaults: owner(), by: "test".to_owned(), now_ms: 9, indexing: &|_| {} };
        for expected in [3000 + 50 * 20, 0] {
            let mut new = 0;
            engine.import(&mut lists().into_iter(), &options, &mut |ingested| new += ingested.new).unwrap();
            assert_eq!(new, expected);
        }
        assert_eq!(texts(&engine, "long").len(), 1000);
        assert_eq!(engine.sessions(&Scope::everything()).unwrap()[0].messages, 3000);
    }
}
