//! Select: what goes into one request.
//!
//! Nothing is done for a list that fits and shows no fold, and that is told before anything is read. Otherwise the list
//! stays as it is up to the newest message of the user; directly in front of that stands one block of originals that are
//! folded away: found (`find`), weighed (`score`), packed (`pack`), quoted (`assemble::recall`). A list that is over its
//! budget is folded first, all but the newest of it, and what its summaries leave out is recalled in the same way.
//!
//! The result is for one request. It is no history: what is new in the list is not taken in, and where a host shows the
//! block again it is known as ours. Summaries that were made are kept, so that the handles in them can be expanded.
//!
//! Within a turn, and when a request is tried again, what stood in front of the newest steps stays the same, byte for
//! byte (`memory`). Without that memory the same list still gives the same answer.

mod find;
mod memory;
mod pack;
mod score;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock};

use lcm_core::tokens::{Correction, Estimate, TokenCounter};
use lcm_core::{Message, NodeId, Role, SessionId};
use lcm_store::{Snapshot, Store};
use memchr::memmem::Finder;

use self::find::{Question, Shown};
pub(crate) use self::memory::Memory;
use self::memory::{Asked, Block, Selection};
use self::pack::Lines;
use self::score::Sought;
use crate::align::{Fate, Verdict};
use crate::assemble::{self, recall};
use crate::compress::summary::{Guidance, Writer};
use crate::compress::{Pass, Room};
use crate::error::EngineError;
use crate::hosts::speech::{Dialect, Speech};
use crate::hosts::told::Told;
use crate::hosts::{HostFormat, IncomingMessage, with_tree};
use crate::redact::Redactor;
use crate::service::{InMessage, OutMessage, SelectRequest, Selected, TurnRequest};
use crate::turn::{self, Element, Line, List, Live, Looked, Sent};
use crate::valid::{self, Rules};

/// Messages around the question that say what it is about, and those whose calls say which files.
const AROUND_MAX: usize = 8;
const FILES_AROUND_MAX: usize = 12;
/// How much less a file counts for each message further back.
const FILE_LESS: f32 = 0.85;
/// Words said around the question that are looked for.
const WORDS_AROUND_MAX: usize = 32;
/// What is read of a question.
const QUESTION_BYTES_MAX: usize = 4096;
/// Less than this is no room for an original: tokens.
const RECALL_TOKENS_MIN: u64 = 120;
/// A message of ours costs so much beside its text, and what stands beside it.
const AROUND_TOKENS: u64 = 48;
/// How often an over-long list is folded harder, and a block is packed smaller.
const ROUNDS_MAX: usize = 4;
/// Bytes of shown messages whose lines are known, the newest first.
const KNOWN_BYTES_MAX: usize = 2 << 20;

/// What selecting needs of the engine.
pub(crate) struct Selecting<'a> {
    pub(crate) store: &'a Store,
    pub(crate) redactor: Option<&'a Redactor>,
    pub(crate) meter: Meter<'a>,
    pub(crate) remembered: &'a dyn Fn(SessionId) -> Option<Live>,
    pub(crate) memory: &'a Memory,
}

/// By what budgets are judged.
#[derive(Clone, Copy)]
pub(crate) struct Meter<'a> {
    /// Another counter than the one of stored counts, whose figures are taken as they are.
    pub(crate) judge: Option<&'a dyn TokenCounter>,
    /// What stored counts are multiplied by.
    pub(crate) correction: Correction,
}

impl Meter<'_> {
    /// A budget in the tokens in which is planned.
    fn planned(self, tokens: u64) -> u64 {
        if self.judge.is_some() { tokens } else { self.correction.stored_within(tokens) }
    }

    /// Tokens in which is planned as they are told.
    fn told(self, tokens: u64) -> u64 {
        if self.judge.is_some() { tokens } else { self.correction.apply(tokens) }
    }

    fn element(self, element: &Element, raw: &[u8]) -> u64 {
        let Some(judge) = self.judge else { return u64::from(element.tokens) };
        let judged = element.judged.get_or_init(|| {
            let encoded = Message::parse(raw).ok().and_then(|message| message.encode().ok());
            encoded.map_or(element.tokens, |encoded| judge.count(&encoded.stored(&encoded.body_slices())))
        });
        u64::from(*judged)
    }

    fn message(self, message: &Message) -> Result<u64, EngineError> {
        let Some(judge) = self.judge else { return Ok(u64::from(IncomingMessage::new(message)?.tokens)) };
        let encoded = message.encode()?;
        Ok(u64::from(judge.count(&encoded.stored(&encoded.body_slices()))))
    }

    fn text(self, text: &str) -> u64 {
        u64::from(self.judge.map_or_else(|| Estimate.count_text(text), |judge| judge.count_text(text)))
    }

    /// Whether messages fit, told from their sizes alone; `false` where that does not tell.
    fn surely_fit(self, messages: &[InMessage], budget: u64) -> bool {
        static KIND: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("type"));
        /// No byte costs more than two tokens, whatever tokenizer counts.
        const BYTE_TOKENS: usize = 2;
        /// What a block that is no text costs at most, and a message beside its text.
        const BLOCK_TOKENS: usize = 1600;
        const MESSAGE_TOKENS: usize = 128;
        let budget = usize::try_from(self.planned(budget)).unwrap_or(usize::MAX);
        let mut most: usize = 0;
        for raw in messages {
            if may_say_nothing(raw) {
                return false;
            }
            most = most.saturating_add(raw.len().saturating_mul(BYTE_TOKENS).saturating_add(MESSAGE_TOKENS));
            if most > budget {
                return false;
            }
            // Every picture, file and call says its type.
            most = most.saturating_add(KIND.find_iter(raw).count().saturating_mul(BLOCK_TOKENS));
        }
        most <= budget
    }
}

/// Whether a message may have nothing in it, which no provider takes; told from its text alone.
fn may_say_nothing(raw: &[u8]) -> bool {
    static CONTENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""content":"#));
    static CALLS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"_calls\":"));
    let Some(at) = CONTENT.find(raw) else { return false };
    let said = raw[at + br#""content":"#.len()..].trim_ascii_start();
    let says_nothing = said.starts_with(b"null") || said.starts_with(b"\"\"") || said.starts_with(b"[]");
    says_nothing && CALLS.find(raw).is_none()
}

/// Selects for a request. Gives what is known of the session, too, to be remembered.
pub(crate) fn select(
    selecting: &Selecting<'_>,
    request: &SelectRequest,
) -> Result<(Selected, Option<Live>), EngineError> {
    static FOLD: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("[lcm:fold "));
    let Selecting { meter, .. } = *selecting;
    let given = &request.turn.messages;
    let (head, list) = given.split_at(request.head.min(given.len()));
    let is_known = request.budget_tokens > 0;
    let budget = if is_known { request.budget_tokens } else { request.folding.threshold_tokens };
    if meter.surely_fit(given, budget) && !list.iter().any(|raw| FOLD.find(raw).is_some()) {
        return Ok((unchanged(NOTHING_FOLDED), None));
    }
    let snapshot = selecting.store.snapshot()?;
    let sent = Sent { messages: list, redactor: selecting.redactor, format: HostFormat::of(&request.turn.source) };
    let Looked { mut live, hashes, elements } = turn::look(&snapshot, &request.turn.key, sent, selecting.remembered)?;
    let heads = heads(selecting, head)?;
    let beside: u64 = heads.iter().map(|(tokens, _)| tokens).sum();
    let costs: Vec<u64> = elements.iter().zip(list).map(|(element, raw)| meter.element(element, raw)).collect();
    let before = beside + costs.iter().sum::<u64>();
    let limit = meter.planned(budget);
    let done = |mut selected: Selected| {
        selected.tokens_before = meter.told(before);
        if selected.messages.is_none() {
            selected.tokens_after = selected.tokens_before;
        }
        selected
    };
    let dialect = request.turn.dialect;
    let dialect = dialect.unwrap_or_else(|| turn::dialect_of(elements.iter().map(|element| &element.speech)));
    let rules = Rules { dialect, alternates: request.folding.alternates };
    let work = Work {
        selecting,
        request,
        sent,
        hashes: &hashes,
        elements: &elements,
        costs: &costs,
        heads: &heads,
        beside,
        limit,
        dialect,
        rules,
    };
    // Whether what is marked is a fold of this session's is told when the list is aligned.
    let may_show_fold = elements.iter().any(|element| element.is_like_fold());
    if !may_show_fold && before <= limit && work.given_is_valid() {
        return Ok((done(unchanged(NOTHING_FOLDED)), live));
    }
    if let Some(selected) = work.again()? {
        return Ok((done(selected), live));
    }
    let selected = match &mut live {
        Some(live) => work.select(&snapshot, live, before)?,
        None if before <= limit => unchanged(NOTHING_FOLDED),
        None => unchanged("it is over its budget, and nothing of it was taken in that could be folded"),
    };
    Ok((done(selected), live))
}

const NOTHING_FOLDED: &str = "it fits, and nothing of it is folded";

fn unchanged(reason: &str) -> Selected {
    Selected { reason: Some(reason.to_owned()), ..Selected::default() }
}

/// What the host's own messages cost, and what the rules of providers see of them.
fn heads(selecting: &Selecting<'_>, head: &[InMessage]) -> Result<Vec<(u64, Speech)>, EngineError> {
    let one = |raw: &InMessage| {
        let hash = raw.hash();
        if let Some(known) = selecting.memory.head(&hash) {
            return Ok(known);
        }
        let message = Message::parse(raw)?;
        let tokens = selecting.meter.message(&message)?;
        let speech = with_tree(&message.encode()?, Speech::of)?;
        selecting.memory.put_head(hash, tokens, speech.clone());
        Ok((tokens, speech))
    };
    head.iter().map(one).collect()
}

/// One list on its way to a request. Indices are those of the list behind the host's head.
struct Work<'a> {
    selecting: &'a Selecting<'a>,
    request: &'a SelectRequest,
    sent: Sent<'a>,
    hashes: &'a [[u8; 32]],
    elements: &'a [Arc<Element>],
    costs: &'a [u64],
    heads: &'a [(u64, Speech)],
    /// What the head costs.
    beside: u64,
    /// What all may cost.
    limit: u64,
    dialect: Dialect,
    rules: Rules,
}

/// What is shown, and what it costs.
struct Draft {
    messages: Vec<OutMessage>,
    speeches: Vec<Speech>,
    tokens: u64,
}

/// What a list shows of a session.
struct Seen {
    /// Of each element, the place that it shows as it was said.
    places: Vec<Option<usize>>,
    is_ours: Vec<bool>,
    shows_fold: bool,
}

impl Work<'_> {
    fn meter(&self) -> Meter<'_> {
        self.selecting.meter
    }

    fn asked(&self) -> Asked {
        let SelectRequest { query, scope, folding, recall, .. } = self.request;
        Asked { query: query.clone(), scope: scope.clone(), folding: folding.clone(), recall: *recall }
    }

    /// What was selected before, when the list has only grown by steps since and still fits.
    fn again(&self) -> Result<Option<Selected>, EngineError> {
        let Some(last) = self.selecting.memory.last(&self.request.turn.key) else { return Ok(None) };
        let known = last.given.len();
        let is_same = self.hashes.starts_with(&last.given) && last.asked == self.asked();
        let new = self.elements.get(known..).unwrap_or_default();
        if !is_same || new.iter().any(|element| element.speech.is_request() || element.is_marked()) {
            return Ok(None);
        }
        let tokens = last.tokens + self.costs[known..].iter().sum::<u64>();
        if tokens > self.limit {
            return Ok(None);
        }
        let Some(mut messages) = last.shown else {
            return Ok(Some(Selected { reason: last.reason, ..Selected::default() }));
        };
        let mut speeches = last.speeches;
        messages.extend((known..self.elements.len()).map(OutMessage::Given));
        speeches.extend(new.iter().map(|element| element.speech.clone()));
        let draft = Draft { messages, speeches, tokens };
        if self.check(&draft).is_err() {
            return Ok(None);
        }
        Ok(Some(self.selected(&draft, last.block.as_ref())))
    }

    fn select(&self, snapshot: &Snapshot, live: &mut Live, before: u64) -> Result<Selected, EngineError> {
        let list = live.align(snapshot, self.sent, self.elements)?;
        let seen = Seen::of(&list);
        // A list that no provider takes is shown otherwise also where it fits.
        let fits = before <= self.limit && self.given_is_valid();
        if fits && !seen.shows_fold {
            return Ok(unchanged(NOTHING_FOLDED));
        }
        if list.alignment.verdict == Verdict::Stranger {
            return Ok(unchanged("the list is not that of the session"));
        }
        if fits {
            let messages = (0..self.elements.len()).map(OutMessage::Given).collect();
            let draft = self.draft(messages)?;
            let (draft, selection) =
                self.with_recall(snapshot, Some(&live.line), live.session.id, &seen, draft, false)?;
            return Ok(self.finish(draft, selection));
        }
        // Over its budget: all but the newest is folded; else only what no provider takes.
        let is_over = before > self.limit;
        let turn = TurnRequest { messages: self.sent.messages.to_vec(), ..self.without_messages() };
        let session = live.session.id;
        let options = &self.request.folding;
        let stored: u64 = self.elements.iter().map(|element| u64::from(element.tokens)).sum();
        let limits = options.limits(stored, self.limit, self.meter().correction);
        let writer =
            Writer::new(None, &Estimate, Guidance::default(), options.summary_time_max, self.selecting.redactor);
        let pass = Pass::new(snapshot, &turn, self.elements, live, list, self.dialect, limits, writer);
        let Some(mut pass) = pass else {
            return Ok(unchanged("it would be folded, and shows messages in another order than they were said"));
        };
        let system: u64 = self.costs[..turn::head_of(self.elements)].iter().sum();
        let free = self.limit.saturating_sub(self.beside + system + AROUND_TOKENS);
        let recall = if is_over { self.recall_max().min(free / 5 * 2) } else { 0 };
        let folds = if is_over { free / 10 } else { 0 };
        let mut newest = free.saturating_sub(recall + folds);
        let mut draft;
        let mut rounds = 0;
        loop {
            let messages = pass.keep_newest(Room { newest, folds }, &|element| self.costs[element])?;
            draft = self.draft(messages)?;
            rounds += 1;
            if draft.tokens <= self.limit || rounds == ROUNDS_MAX {
                break;
            }
            newest = newest.saturating_sub((draft.tokens - self.limit) / 8 * 9 + AROUND_TOKENS);
        }
        if draft.tokens > self.limit {
            let (limit, left) = (self.meter().told(self.limit), self.meter().told(draft.tokens));
            return Ok(unchanged(&format!(
                "it cannot be brought under {limit} tokens: what must be shown as it is leaves {left}"
            )));
        }
        let hides_steps = seen.hides_steps(self.elements, &draft.messages);
        let (draft, mut selection) =
            self.with_recall(snapshot, Some(pass.line()), session, &seen, draft, hides_steps)?;
        if let Err(invalid) = self.check(&draft) {
            return Ok(unchanged(&format!("it would be folded, and no valid list comes of it: {invalid}")));
        }
        pass.keep(self.selecting.store)?;
        selection.shown = Some(draft.messages.clone());
        Ok(self.finish(draft, selection))
    }

    /// The request without its list.
    fn without_messages(&self) -> TurnRequest {
        let TurnRequest { key, source, dialect, messages: _, by, now_ms } = &self.request.turn;
        let (key, source, by) = (key.clone(), source.clone(), by.clone());
        TurnRequest { key, source, dialect: *dialect, messages: Vec::new(), by, now_ms: *now_ms }
    }

    fn recall_max(&self) -> u64 {
        self.meter().planned(self.request.recall.tokens_max)
    }

    /// Counts what is shown.
    fn draft(&self, messages: Vec<OutMessage>) -> Result<Draft, EngineError> {
        let (mut speeches, mut tokens) = (Vec::with_capacity(messages.len()), self.beside);
        for message in &messages {
            match message {
                OutMessage::Given(at) => {
                    tokens += self.costs[*at];
                    speeches.push(self.elements[*at].speech.clone());
                }
                OutMessage::Made(json) => {
                    let message = Message::parse(json)?;
                    tokens += self.meter().message(&message)?;
                    speeches.push(with_tree(&message.encode()?, Speech::of)?);
                }
            }
        }
        Ok(Draft { messages, speeches, tokens })
    }

    /// Whether a provider takes the list as it was given.
    fn given_is_valid(&self) -> bool {
        let given = self.elements.iter().map(|element| &element.speech);
        let all: Vec<Speech> = self.heads.iter().map(|(_, speech)| speech).chain(given).cloned().collect();
        valid::check(&all, self.rules).is_ok()
    }

    fn check(&self, draft: &Draft) -> Result<(), valid::Invalid> {
        let all: Vec<Speech> = self.heads.iter().map(|(_, speech)| speech).chain(&draft.speeches).cloned().collect();
        valid::check(&all, self.rules)
    }

    /// Puts what is recalled in front of the newest request, as far as there is room; gives what is to be remembered.
    fn with_recall(
        &self,
        snapshot: &Snapshot,
        line: Option<&Line>,
        session: SessionId,
        seen: &Seen,
        draft: Draft,
        hides_steps: bool,
    ) -> Result<(Draft, Selection), EngineError> {
        let at = draft.messages.iter().rposition(
            |message| matches!(message, OutMessage::Given(at) if !seen.is_ours[*at] && self.elements[*at].speech.is_request()),
        );
        let mut selection = Selection::new(self.asked(), self.hashes.to_vec(), self.turn_of(&draft, at));
        let Some(at) = at else {
            selection.reason = Some("there is no message of a user in it to recall anything for".to_owned());
            return Ok((draft, selection));
        };
        let free = self.limit.saturating_sub(draft.tokens + 2 * AROUND_TOKENS);
        // Where it was folded for this request, room was left for it.
        let share = if hides_steps || seen.has_gone(&draft) { free } else { self.limit / 5 * 2 };
        let room = self.recall_max().min(share).min(free);
        if room < RECALL_TOKENS_MIN {
            selection.reason = Some("there is no room to recall anything".to_owned());
            return Ok((draft, selection));
        }
        let last = self.selecting.memory.last(&self.request.turn.key);
        let known = last
            .filter(|last| last.turn == selection.turn && last.asked == selection.asked)
            .and_then(|last| last.block)
            .filter(|block| block.tokens <= room);
        let block = match known {
            Some(block) => Some(block),
            None => self.block(snapshot, line, session, seen, &draft, at, room, hides_steps)?,
        };
        let Some(block) = block else {
            selection.reason = Some("nothing that is folded away has to do with the request".to_owned());
            return Ok((draft, selection));
        };
        let shown = self.draft(self.placed(&draft, at, &block)?)?;
        if shown.tokens > self.limit || self.check(&shown).is_err() {
            selection.reason = Some("no valid list comes of what would be recalled".to_owned());
            return Ok((draft, selection));
        }
        selection.shown = Some(shown.messages.clone());
        selection.block = Some(block);
        Ok((shown, selection))
    }

    /// What a block is made for: the newest request, and the folds that are shown in front of it.
    fn turn_of(&self, draft: &Draft, at: Option<usize>) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for (place, message) in draft.messages.iter().enumerate() {
            match message {
                OutMessage::Given(element) if Some(place) == at || self.elements[*element].is_marked() => {
                    hasher.update(&self.hashes[*element]);
                }
                OutMessage::Given(_) => {}
                OutMessage::Made(json) => {
                    hasher.update(blake3::hash(json).as_bytes());
                }
            }
        }
        hasher.finalize()
    }

    /// The list with a block in front of the message at `at`.
    fn placed(&self, draft: &Draft, at: usize, block: &Block) -> Result<Vec<OutMessage>, EngineError> {
        let between = || {
            let message = Message::from_json(self.dialect.message("assistant", assemble::BETWEEN))?;
            Ok::<_, EngineError>(OutMessage::Made(message.json().to_text()))
        };
        let mut messages = draft.messages[..at].to_vec();
        if at.checked_sub(1).is_some_and(|before| draft.speeches[before].role == Role::User) {
            messages.push(between()?);
        }
        messages.push(OutMessage::Made(block.json.clone()));
        messages.push(between()?);
        messages.extend_from_slice(&draft.messages[at..]);
        Ok(messages)
    }

    /// Finds, weighs and packs; `None` where nothing is worth it.
    #[expect(clippy::too_many_arguments, reason = "everything that a block depends on, each once")]
    fn block(
        &self,
        snapshot: &Snapshot,
        line: Option<&Line>,
        session: SessionId,
        seen: &Seen,
        draft: &Draft,
        at: usize,
        room: u64,
        hides_steps: bool,
    ) -> Result<Option<Block>, EngineError> {
        let given = |message: &OutMessage| match message {
            OutMessage::Given(element) if !seen.is_ours[*element] => Some(*element),
            _ => None,
        };
        let OutMessage::Given(request) = draft.messages[at] else { return Ok(None) };
        let shown: Vec<usize> = draft.messages.iter().filter_map(given).collect();
        // What a question of its own is about is told by the newest messages; what a request is about, by those in front
        // of it, so that its steps do not change it.
        let is_at_end = self.request.query.is_some() || hides_steps;
        let around: Vec<usize> = (0..self.elements.len())
            .rev()
            .filter(|element| !seen.is_ours[*element] && !self.elements[*element].speech.is_system())
            .filter(|element| is_at_end || *element < request)
            .take(FILES_AROUND_MAX)
            .collect();
        let mut around: Vec<Told> = around.into_iter().map(|at| self.sent.told(at)).collect::<Result<_, _>>()?;
        let text = match &self.request.query {
            Some(query) => query.clone(),
            None => self.sent.told(request)?.text,
        };
        let text = score::beginning(&text, QUESTION_BYTES_MAX).to_owned();
        let mut files: BTreeMap<String, f32> = find::files_in(&text).map(|file| (file, 1.0)).collect();
        let mut weight = FILE_LESS;
        for told in &around {
            for file in find::files_of(told) {
                files.entry(file).or_insert(weight);
            }
            weight *= FILE_LESS;
        }
        around.truncate(AROUND_MAX);
        let sought = Sought::new(&text, &around);
        let words_around = sought.words_around(WORDS_AROUND_MAX);
        let question = Question { scope: &self.request.scope, text, words_around, files };
        let ids: HashSet<NodeId> = shown.iter().map(|at| self.elements[*at].id).collect();
        let places: HashSet<usize> = shown.iter().filter_map(|at| seen.places[*at]).collect();
        let list = Shown { line, places, ids };
        let candidates = find::find(self.selecting.store, snapshot, &question, &list)?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let weighed = score::weigh(sought, &question, &candidates, Some(session), line.map_or(0, Line::len));
        let mut lines = Lines::default();
        let mut bytes = KNOWN_BYTES_MAX;
        for &element in shown.iter().rev() {
            let Some(left) = bytes.checked_sub(self.sent.messages[element].len()) else { break };
            bytes = left;
            for segment in recall::segments(&self.sent.told(element)?) {
                lines.add(segment.text);
            }
        }
        let meter = self.meter();
        let count = |text: &str| meter.text(text);
        let mut packing = room.saturating_sub(AROUND_TOKENS);
        for _ in 0..ROUNDS_MAX {
            let Some(packed) = pack::pack(&weighed, &candidates, &question, lines.clone(), packing, &count) else {
                return Ok(None);
            };
            let message = Message::from_json(self.dialect.message("user", &packed.text))?;
            let tokens = meter.message(&message)?;
            if tokens <= room {
                let pack::Packed { recalled, left_out, .. } = packed;
                return Ok(Some(Block { json: message.json().to_text(), tokens, recalled, left_out }));
            }
            packing = packing.saturating_sub((tokens - room) * 2);
        }
        Ok(None)
    }

    /// Remembers what was selected, and gives it.
    fn finish(&self, draft: Draft, mut selection: Selection) -> Selected {
        let selected = match &selection.shown {
            Some(_) => self.selected(&draft, selection.block.as_ref()),
            None => Selected { reason: selection.reason.clone(), ..Selected::default() },
        };
        (selection.speeches, selection.tokens) = (draft.speeches, draft.tokens);
        self.selecting.memory.put(&self.request.turn.key, selection);
        selected
    }

    /// What is handed out: with the host's head in front, and without halves of surrogate pairs.
    fn selected(&self, draft: &Draft, block: Option<&Block>) -> Selected {
        let head = self.heads.len();
        let behind = draft.messages.iter().map(|message| match message {
            OutMessage::Given(at) => match &self.elements[*at].sendable {
                Some(sendable) => OutMessage::Made(sendable.clone()),
                None => OutMessage::Given(head + at),
            },
            made @ OutMessage::Made(_) => made.clone(),
        });
        Selected {
            messages: Some((0..head).map(OutMessage::Given).chain(behind).collect()),
            tokens_after: self.meter().told(draft.tokens),
            recalled: block.map(|block| block.recalled.clone()).unwrap_or_default(),
            left_out: block.map(|block| block.left_out.clone()).unwrap_or_default(),
            ..Selected::default()
        }
    }
}

impl Seen {
    fn of(list: &List) -> Self {
        let places = list.alignment.fates.iter().zip(&list.ours).map(|(fate, ours)| match (fate, ours) {
            (Fate::Known(place) | Fate::Revised(place), None) => Some(*place),
            _ => None,
        });
        Self {
            places: places.collect(),
            is_ours: list.ours.iter().map(Option::is_some).collect(),
            shows_fold: list.ours.iter().flatten().any(|ours| !ours.folds().is_empty()),
        }
    }

    /// Whether messages of the list are not shown.
    fn has_gone(&self, draft: &Draft) -> bool {
        let shown = draft.messages.iter().filter(|message| matches!(message, OutMessage::Given(_))).count();
        shown < self.places.len()
    }

    /// Whether steps of the newest request are not shown.
    fn hides_steps(&self, elements: &[Arc<Element>], messages: &[OutMessage]) -> bool {
        let is_request = |at: &usize| !self.is_ours[*at] && elements[*at].speech.is_request();
        let Some(request) = (0..elements.len()).rev().find(is_request) else { return false };
        let shown: HashSet<usize> = messages
            .iter()
            .filter_map(|message| if let OutMessage::Given(at) = message { Some(*at) } else { None })
            .collect();
        (request..elements.len()).any(|at| !shown.contains(&at))
    }
}
