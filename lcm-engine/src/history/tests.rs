//! That every moment comes back as it was, that unfolding is the way back of folding, and that undo loses nothing.
//! Method: random conversations in small windows, compressed round by round and shown as a host shows them.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use lcm_core::{Json, SessionId};
use lcm_store::{OpenOptions, Scope};
use proptest::prelude::*;

use super::*;
use crate::Engine;
use crate::compress::CompressOptions;
use crate::service::{CompressRequest, InMessage, Seen, Service, SessionKey, TurnRequest, UndoRequest};

static ENGINE: LazyLock<(tempfile::TempDir, Engine)> = LazyLock::new(|| {
    let home = tempfile::tempdir().unwrap();
    let engine = Engine::open(home.path(), OpenOptions::default()).unwrap();
    (home, engine)
});
static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// A conversation on its way, as its host holds it.
struct Talk {
    person: String,
    list: Vec<String>,
    said: Vec<String>,
    session: SessionId,
}

impl Talk {
    fn begin() -> Self {
        let person = format!("p{}", SESSIONS.fetch_add(1, Ordering::Relaxed));
        let system = r#"{"role":"system","content":"You are a clerk."}"#.to_owned();
        let mut talk = Self { person, list: Vec::new(), said: Vec::new(), session: SessionId(0) };
        talk.say(system);
        talk.session = talk.turn().session.unwrap();
        talk
    }

    fn say(&mut self, message: String) {
        self.list.push(message.clone());
        self.said.push(message);
    }

    /// Steps of a kind and a size.
    fn steps(&mut self, steps: &[(u8, usize)]) {
        for (kind, size) in steps {
            let n = self.said.len();
            let text = format!("{n} {}", format!("harbour{n} ledger ").repeat(*size));
            match kind {
                0 => self.say(format!(r#"{{"role":"user","content":"{text}"}}"#)),
                1 => self.say(format!(r#"{{"role":"assistant","content":"{text}"}}"#)),
                _ => {
                    let function = r#"{"name":"read","arguments":"{\"path\":\"src/a.rs\"}"}"#;
                    self.say(format!(
                        r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"c{n}","type":"function","function":{function}}}]}}"#
                    ));
                    self.say(format!(r#"{{"role":"tool","tool_call_id":"c{n}","content":"{text}"}}"#));
                }
            }
        }
        let n = self.said.len();
        self.say(format!(r#"{{"role":"user","content":"and now {n}?"}}"#));
    }

    fn request(&self) -> TurnRequest {
        TurnRequest {
            key: SessionKey::new("a", &self.person, "s"),
            source: "test".to_owned(),
            dialect: None,
            messages: InMessage::list(self.list.iter().cloned()),
            by: "test".to_owned(),
            now_ms: 1_767_225_599_000,
        }
    }

    fn turn(&self) -> crate::service::Turned {
        ENGINE.1.turn(&self.request()).unwrap()
    }

    /// Compresses and goes on with what came back; what was shown in part is shown whole.
    fn compress(&mut self, threshold: u64) {
        let options = CompressOptions { threshold_tokens: threshold, protect_last: 2, ..CompressOptions::default() };
        let turn = self.request();
        let request = CompressRequest { force: true, ..CompressRequest::new(turn, options) };
        let list = ENGINE.1.compress(&request).unwrap().list(&request.turn.messages);
        self.list = list.into_iter().map(|message| String::from_utf8(message).unwrap()).collect();
        self.turn();
    }

    fn scope(&self) -> Scope {
        Scope::everything().in_sessions(vec![self.session])
    }

    fn view(&self, as_of: Option<OpId>) -> ViewPage {
        let request = ViewRequest {
            scope: self.scope(),
            session: self.session,
            as_of,
            skip: 0,
            max: usize::MAX,
            bytes_max: usize::MAX,
        };
        ENGINE.1.view(&request).unwrap()
    }

    fn assembled(&self) -> Vec<Vec<u8>> {
        let request = AssembleRequest { scope: self.scope(), session: self.session, as_of: None };
        ENGINE.1.assemble(&request).unwrap().messages
    }

    fn behind(&self, list: &[Vec<u8>]) -> Vec<Json> {
        parsed(&ENGINE.1.behind(&self.scope(), &InMessage::list(list.iter().cloned())).unwrap())
    }

    fn originals(&self) -> Vec<Json> {
        self.said.iter().map(|message| Json::parse(message.as_bytes()).unwrap()).collect()
    }

    fn unfold(&self, number: Arrival) -> Result<HistoryChanged, EngineError> {
        let by = "test".to_owned();
        ENGINE.1.unfold(&UnfoldRequest { scope: self.scope(), number, session: None, by, now_ms: 1 })
    }

    fn undo(&self, op: Option<OpId>) -> Result<crate::service::Undone, EngineError> {
        let by = "test".to_owned();
        ENGINE.1.undo(&UndoRequest { scope: self.scope(), session: self.session, op, by, now_ms: 1 })
    }
}

fn parsed(messages: &[Vec<u8>]) -> Vec<Json> {
    messages.iter().map(|message| Json::parse(message).unwrap()).collect()
}

/// The folds of a view, by handle, place and extent.
fn folds(page: &ViewPage) -> Vec<(String, Arrival, u64)> {
    let fold = |shown: &Shown| match shown {
        Shown::Fold { entry, messages, .. } => Some((entry.handle.to_string(), entry.number, *messages)),
        Shown::Message { .. } => None,
    };
    page.items.iter().filter_map(fold).collect()
}

fn rounds() -> impl Strategy<Value = Vec<Vec<(u8, usize)>>> {
    prop::collection::vec(prop::collection::vec((0_u8..3, 1_usize..40), 1..12), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_moment_comes_back_and_unfolding_is_the_way_back_of_folding(
        rounds in rounds(),
        threshold in 150_u64..2500,
    ) {
        let mut talk = Talk::begin();
        let mut moments: Vec<ViewPage> = Vec::new();
        for steps in &rounds {
            talk.steps(steps);
            talk.turn();
            moments.push(talk.view(None));
            talk.compress(threshold);
            moments.push(talk.view(None));
        }
        for moment in &moments {
            prop_assert_eq!(&talk.view(Some(moment.as_of)), moment);
        }
        // What is shown stands for everything that was said, and is what the host shows.
        let list = talk.assembled();
        prop_assert_eq!(talk.behind(&list), talk.originals());
        let before = talk.view(None);
        let shown = list.iter().map(|message| String::from_utf8(message.clone()).unwrap()).collect();
        let turned = Talk { list: shown, ..talk_of(&talk) }.turn();
        prop_assert_eq!((turned.new, turned.revised, turned.late, turned.branched, turned.published), (0, 0, 0, false, false));
        prop_assert_eq!(&talk.view(None), &before);
        let [.., earlier, latest] = moments.as_slice() else { unreachable!() };
        prop_assert_eq!(&folds(&before), &folds(latest));
        // Back to the view before the last round, fold by fold; then each step back again.
        let known = folds(earlier);
        let mut steps = Vec::new();
        while let Some((_, number, _)) = folds(&talk.view(None)).into_iter().find(|fold| !known.contains(fold)) {
            let seen = talk.view(None);
            let done = talk.unfold(number).unwrap();
            prop_assert_eq!(done.tokens_before, seen.tokens);
            prop_assert_eq!(done.tokens_after, talk.view(None).tokens);
            prop_assert_eq!(talk.behind(&talk.assembled()), talk.originals());
            let nowhere = matches!(talk.unfold(number), Err(EngineError::NotShown { .. }));
            prop_assert!(nowhere, "{number} is unfolded twice");
            steps.push((seen, done.op.id));
        }
        prop_assert_eq!(folds(&talk.view(None)), known);
        for (seen, op) in steps.iter().rev() {
            let undone = talk.undo(None).unwrap();
            prop_assert_eq!(undone.op, *op);
            prop_assert_eq!(&talk.view(None).items, &seen.items);
        }
        if let Some((seen, op)) = steps.first() {
            // The first of them once more, with all behind it; and that taken back.
            let again = talk.undo(Some(*op));
            prop_assert!(matches!(again, Err(EngineError::NotUndoable { .. })), "{again:?}");
            prop_assert_eq!(&talk.view(None).items, &seen.items);
        }
        while let Ok(undone) = talk.undo(None) {
            prop_assert!(undone.also.is_empty(), "{undone:?}");
        }
        prop_assert_eq!(folds(&talk.view(None)), Vec::new());
        prop_assert_eq!(parsed(&talk.assembled()), talk.originals());
    }
}

/// The same session with another list.
fn talk_of(talk: &Talk) -> Talk {
    Talk { person: talk.person.clone(), list: Vec::new(), said: Vec::new(), session: talk.session }
}

/// A conversation that is folded, in a store of its own kind.
fn folded() -> Talk {
    let mut talk = Talk::begin();
    talk.steps(&[(0, 30), (1, 30), (2, 30), (0, 30), (1, 30), (2, 30)]);
    talk.compress(400);
    assert!(!folds(&talk.view(None)).is_empty());
    talk
}

#[test]
fn undoing_a_fold_takes_what_came_since_with_it_and_can_be_undone() {
    let talk = folded();
    let request = OpsRequest { scope: talk.scope(), session: talk.session, from: None, order: Order::Newest, max: 3 };
    let page = ENGINE.1.ops(&request).unwrap();
    let fold = page.ops.iter().find(|op| matches!(op.what, Change::Fold { .. })).unwrap().id;
    let shown = talk.view(None);
    let number = folds(&shown)[0].1;
    let unfolded = talk.unfold(number).unwrap().op.id;
    let back = talk.undo(Some(fold)).unwrap();
    assert_eq!(back.also, [unfolded]);
    assert_eq!(folds(&talk.view(None)), []);
    talk.undo(Some(back.changed.op.id)).unwrap();
    // As it was before the undo: unfolded.
    assert_eq!(folds(&talk.view(None)).len(), folds(&shown).len() - 1);
    talk.undo(Some(unfolded)).unwrap();
    assert_eq!(talk.view(None).items, shown.items);
}

#[test]
fn what_a_host_did_is_not_undone_and_says_why() {
    let talk = folded();
    let ops = ENGINE.1.ops(&OpsRequest {
        scope: talk.scope(),
        session: talk.session,
        from: None,
        order: Order::Oldest,
        max: 100,
    });
    for op in ops.unwrap().ops {
        let is_hosts = matches!(op.what, Change::Ingest { .. } | Change::Stage { .. });
        if is_hosts {
            let refused = talk.undo(Some(op.id)).unwrap_err();
            assert!(matches!(refused, EngineError::NotUndoable { .. }), "{refused}");
        }
    }
    let newest = ENGINE.1.store().snapshot().unwrap().last_op().unwrap();
    assert!(matches!(talk.undo(Some(OpId(newest.0 + 1000))), Err(EngineError::NoOp(_))));
    let elsewhere = folded().turn();
    let other = OpId(newest.0 + 1);
    assert!(elsewhere.session.is_some());
    assert!(matches!(talk.undo(Some(other)), Err(EngineError::OpElsewhere { .. })));
}

#[test]
fn pages_of_history_hold_every_op_once_in_both_orders() {
    let talk = folded();
    let read = |order, max| {
        let mut request = OpsRequest { scope: talk.scope(), session: talk.session, from: None, order, max };
        let mut ids = Vec::new();
        loop {
            let page = ENGINE.1.ops(&request).unwrap();
            ids.extend(page.ops.iter().map(|op| op.id));
            match page.next {
                None => return ids,
                next => request.from = next,
            }
        }
    };
    let all = read(Order::Oldest, 1000);
    assert!(all.len() > 3 && all.is_sorted());
    assert_eq!(read(Order::Oldest, 1), all);
    let mut newest = read(Order::Newest, 2);
    newest.reverse();
    assert_eq!(newest, all);
}

#[test]
fn a_pin_is_an_op_and_keeps_a_message_out_of_folds() {
    let mut talk = Talk::begin();
    talk.steps(&[(0, 30), (1, 30), (0, 30), (1, 30), (0, 30), (1, 30)]);
    talk.turn();
    let Shown::Message { entry, .. } = &talk.view(None).items[3] else { panic!("nothing is folded yet") };
    let number = entry.number;
    let set = |pinned| {
        let by = "test".to_owned();
        ENGINE.1.pin(&PinRequest { scope: talk.scope(), number, session: None, pinned, by, now_ms: 1 }).unwrap()
    };
    assert!(set(Pinned::Yes).op.is_some());
    assert!(set(Pinned::Yes).op.is_none(), "it was so already");
    // The engine has the session in its cache and notices.
    talk.compress(300);
    let view = talk.view(None);
    assert!(!folds(&view).is_empty());
    let is_it =
        |shown: &Shown| matches!(shown, Shown::Message { entry, is_pinned: true, .. } if entry.number == number);
    assert!(view.items.iter().any(is_it), "{:?}", folds(&view));
    let why = ENGINE.1.why(&talk.scope(), number).unwrap();
    assert_eq!(why.appearances.last().map(|appearance| appearance.seen), Some(Seen::Itself));
    // The pin alone is undone when it is named.
    let pins = ENGINE.1.ops(&OpsRequest {
        scope: talk.scope(),
        session: talk.session,
        from: None,
        order: Order::Oldest,
        max: 100,
    });
    let pin = pins.unwrap().ops.into_iter().find(|op| matches!(op.what, Change::Pin { .. })).unwrap();
    let undone = talk.undo(Some(pin.id)).unwrap();
    assert_eq!((undone.also, undone.changed.tokens_after), (vec![], view.tokens));
    let is_pinned = |shown: &Shown| matches!(shown, Shown::Message { is_pinned: true, .. });
    assert!(!talk.view(None).items.iter().any(is_pinned));
    assert_eq!(folds(&talk.view(None)), folds(&view));
}

#[test]
fn why_names_the_op_that_made_a_node_and_where_it_was_seen() {
    let talk = folded();
    let view = talk.view(None);
    let fold = folds(&view)[0].clone();
    let why = ENGINE.1.why(&talk.scope(), fold.1).unwrap();
    assert!(matches!(why.made.as_ref().unwrap().what, Change::Stage { .. }), "{:?}", why.made);
    let seen: Vec<Seen> = why.appearances.iter().map(|appearance| appearance.seen).collect();
    assert_eq!(seen, [Seen::Itself]);
    let child = why.description.summary.unwrap().children[0].number;
    let unfolded = talk.unfold(fold.1).unwrap();
    let why = ENGINE.1.why(&talk.scope(), child).unwrap();
    assert!(matches!(why.made.unwrap().what, Change::Ingest { .. } | Change::Stage { .. }));
    let last = why.appearances.last().unwrap();
    assert_eq!((last.op.id, last.seen), (unfolded.op.id, Seen::Itself));
    let behind = why
        .appearances
        .iter()
        .any(|appearance| matches!(appearance.seen, Seen::Behind(handle) if handle.to_string() == fold.0));
    assert!(behind && why.covered_by.is_none(), "{:?}", why.appearances);
    let gone = ENGINE.1.why(&talk.scope(), fold.1).unwrap();
    assert_eq!(gone.appearances.last().map(|appearance| appearance.seen), Some(Seen::Nowhere));
}

#[test]
fn a_turn_notices_what_another_process_unfolded() {
    let talk = folded();
    let other = Engine::open(ENGINE.0.path(), OpenOptions::default()).unwrap();
    let fold = folds(&talk.view(None))[0].clone();
    let by = "other".to_owned();
    other.unfold(&UnfoldRequest { scope: talk.scope(), number: fold.1, session: None, by, now_ms: 1 }).unwrap();
    // A list that shows no folds is no evidence against what was unfolded, and adds nothing.
    let raw = Talk { list: talk.said.clone(), ..talk_of(&talk) };
    let turned = raw.turn();
    assert_eq!((turned.new, turned.published), (0, false));
    assert!(!folds(&talk.view(None)).contains(&fold));
    // A host that still shows the fold has not taken the unfolding: the view is what it shows.
    let turned = talk.turn();
    assert!(turned.published && turned.new == 0, "{turned:?}");
    assert!(folds(&talk.view(None)).contains(&fold));
    assert_eq!(talk.behind(&talk.assembled()), talk.originals());
}

#[test]
fn a_branch_shows_no_fold_of_what_was_not_said_on_it() {
    let mut talk = folded();
    let before = talk.view(None);
    // The host goes back to the third message and says something else.
    talk.said.truncate(3);
    talk.list = talk.said.clone();
    talk.say(r#"{"role":"user","content":"no, the other way around"}"#.to_owned());
    talk.say(r#"{"role":"assistant","content":"around it is"}"#.to_owned());
    assert!(talk.turn().branched);
    assert_eq!(talk.behind(&talk.assembled()), talk.originals());
    assert_eq!(parsed(&talk.assembled()), talk.originals());
    assert_eq!(talk.view(Some(before.as_of)), ViewPage { session: talk.view(None).session, ..before });
}
