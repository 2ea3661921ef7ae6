//! One agent of the host: its conversations, and what each hook does with them.

use std::collections::{HashMap, VecDeque};

use lcm_core::tokens::{Estimate, TokenCounter};
use lcm_core::{Json, NodeId, Owner, Role};

use super::caller;
use super::conversation::{Conversation, Work};
use super::fit;
use super::message::{Made, SUMMARY_MARK, Said, Shown, text_millis};
use super::raw::Raws;
use super::request::{Pressure, Window, answer, answer_list};
use super::turn::{Step, Turn};
use super::window::{self, Newest};
use super::{HookAnswer, Hooks, SOURCE, Waiting, lock, room};
use crate::compress::extract::{Source, extract};
use crate::error::EngineError;
use crate::hosts::told::Told;
use crate::service::{Reader, Service, SessionKey, ToolBounds, ToolCall};
use crate::{DEFAULT_PERSON, Engine, tools};

/// Conversations of one agent that are remembered; the others are found again by what was said in them.
const CONVERSATIONS_MAX: usize = 64;
/// What ingest told of that no list has shown yet.
const HEARD_MAX: usize = 64;
/// Messages of a list by which its session is looked for in the store, from its end and from its beginning.
const LOOKED_UP_MAX: usize = 8;
/// How long after its window was shown a model may call a tool: ten minutes, in milliseconds. What is older was given up.
const TURN_MS: i64 = 10 * 60 * 1000;

/// What the host counts beside a list and does not tell us of, its tools above all: at first so much of the window, in
/// per cent, and at most so many tokens.
const RESERVE_PERCENT: u64 = 12;
const RESERVE_TOKENS_MAX: u64 = 8000;
/// A reserve that was learned takes no more than this of the window, in per cent.
const LEARNED_PERCENT_MAX: u64 = 45;
/// From where on the host folds in the middle of a turn, in per cent of the window.
const PRESSED_PERCENT: u64 = 80;

/// An answer of ours may cost this part of a window, in per cent.
const RESULT_PERCENT: u64 = 20;
/// The host cuts a result in the middle that has more characters than 60 to every hundred tokens of the window; what we
/// show in part, and our own pages, stay under it.
const SHOWN_CHARS_PERCENT: u64 = 55;
/// A result of more bytes is put into a file by the host, with a tool of its own to read it.
const RESULT_BYTES_MAX: usize = 16_384;

/// What the host keeps of a list that it wants shorter: of the window in per cent, and messages in front of the newest
/// request. It asks for less again when there are more than 30.
const KEPT_PERCENT: u64 = 35;
const KEPT_MESSAGES_MAX: usize = 16;
/// Characters of a summary that the host shows.
const SUMMARY_CHARS_MAX: usize = 1900;

/// Bytes of a page of a tool; larger ones are no pages for the host, see [`RESULT_BYTES_MAX`].
const PAGE_BYTES_MAX: usize = 16_000;
/// With less a page has no room for anything.
const PAGE_BYTES_MIN: usize = 1500;

/// Answers that are remembered; of an older one the host shows the token again.
const ANSWERS_MAX: usize = 1024;

/// An agent.
#[derive(Default)]
pub(super) struct Agent {
    conversations: HashMap<String, Conversation>,
    /// What persons said and no list has shown yet, newest last: the text, who, when.
    heard: VecDeque<(String, Option<String>, i64)>,
    raws: Raws,
    /// Tokens of the window that was told last.
    window_tokens: u64,
    /// What the host is known to count beside our lists: thousandths of a token.
    learned_millis: u64,
    /// What the last window cost by the host's estimate, with its system prompt.
    shown_millis: u64,
    /// Answers of our tools that stand in the place of a token: by the key of the message and the id of the call, which
    /// models use again.
    answers: HashMap<(NodeId, String), String>,
    /// Calls that stood in the last list, and in which conversation.
    pub(super) shown_calls: Vec<(String, String)>,
}

/// A list, sorted.
struct Sorted {
    /// What the host says in front of the conversation.
    context: Vec<Said>,
    /// What was said before the newest request; what is ours among it.
    past: Vec<Said>,
    /// The newest request and all behind it, and what the host put in front of it.
    live: Vec<Said>,
}

impl Sorted {
    fn of(list: Vec<Said>) -> Self {
        let newest = begin_of_turn(&list);
        // What the host tells beside the newest request stands in front of that.
        let live_from = list[..newest].iter().rposition(|said| said.made.is_none()).map_or(0, |at| at + 1);
        let has_past = list[..newest].iter().any(|said| said.made.is_none());
        let (mut context, mut past, mut live) = (Vec::new(), Vec::new(), Vec::new());
        for (at, said) in list.into_iter().enumerate() {
            match said.made {
                Some(Made::Told | Made::Note) => {}
                Some(Made::Host) if at < newest => match has_past && at >= live_from {
                    true => live.push(said),
                    false if past.is_empty() => context.push(said),
                    // Of an earlier turn.
                    false => {}
                },
                _ if at >= newest => live.push(said),
                _ => past.push(said),
            }
        }
        Self { context, past, live }
    }
}

/// Where the newest turn begins: with the newest request that stands behind a reply. What a person says while tools run,
/// and what is said behind a turn that broke off, goes on with that turn: nobody has said yet that it is no secret.
fn begin_of_turn(list: &[Said]) -> usize {
    // A list in which nobody asks for anything tells nothing of what is a secret.
    let Some(mut begin) = list.iter().rposition(Said::is_request) else { return 0 };
    for at in (0..begin).rev() {
        let (said, next) = (&list[at], &list[at + 1]);
        // The host answers a reply that it does not take.
        let is_refused = next.made == Some(Made::Host) && next.is_nudge();
        let is_reply = said.role == Role::Assistant && said.calls.is_empty() && said.made.is_none() && !is_refused;
        // What we recalled may stand in front of what a person said while tools ran.
        if said.has_fold() || (is_reply && !said.is_marked) {
            break;
        }
        // The request itself may be left out.
        if said.made.is_none() && !said.is_marked {
            begin = at;
        }
    }
    begin
}

impl Agent {
    /// A person said something; the host tells who before it shows the list.
    pub(super) fn heard(&mut self, message: String, peer: Option<String>, now_ms: i64) {
        self.heard.push_back((message, peer, now_ms));
        while self.heard.len() > HEARD_MAX {
            self.heard.pop_front();
        }
    }

    /// A tool gave something back.
    pub(super) fn gave_back(&mut self, call: &str, content: &str, now_ms: i64) {
        if !call.is_empty() && !content.is_empty() {
            self.raws.put(call, content, now_ms);
        }
    }

    /// How large an answer of ours may be: what the host shows whole, and no more than its share of the window.
    pub(super) fn bounds(&self) -> ToolBounds {
        let usual = ToolBounds::default();
        let window = if self.window_tokens == 0 { super::WINDOW_TOKENS } else { self.window_tokens };
        let share = (window * RESULT_PERCENT / 100).max(500);
        let bytes_max = self.shown_whole().clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX);
        ToolBounds { tokens_max: usual.tokens_max.min(share), bytes_max, ..usual }
    }

    /// Characters of a result that the host shows whole, and some to spare.
    fn shown_whole(&self) -> usize {
        let window = if self.window_tokens == 0 { super::WINDOW_TOKENS } else { self.window_tokens };
        usize::try_from(window.saturating_mul(SHOWN_CHARS_PERCENT) / 100).unwrap_or(usize::MAX)
    }

    /// What is shown of a result that takes more than its share of the window; `None` for all of it, or for what the host
    /// puts into a file.
    pub(super) fn share_of(&self, tool: &str, content: &str) -> Option<String> {
        // Our own answers are pages that keep their bounds.
        if tool.starts_with("mcp_lcm_") || self.window_tokens == 0 || content.len() > RESULT_BYTES_MAX {
            return None;
        }
        let chars = content.chars().count();
        let whole = self.shown_whole();
        (chars > whole).then(|| fit::part(content, whole / 5 * 4)).flatten()
    }

    // ---- the hooks

    /// A request to the model: what the session shows, and the newest request behind it.
    pub(super) fn assemble(
        &mut self,
        work: Work<'_>,
        agent: &str,
        system_prompt: &str,
        window: Window,
        tools: Option<&Json>,
        is_asked: bool,
    ) -> Result<HookAnswer, EngineError> {
        let notes = unreadable(&window);
        let tokens = window.tokens;
        let beside = match tools {
            Some(tools) => text_millis(&tools.to_text()),
            None => self.reserve_millis(tokens),
        };
        let room = room(&window, system_prompt, beside);
        self.window_tokens = if tokens == 0 { super::WINDOW_TOKENS } else { tokens };
        let Sorted { context, past, live } = Sorted::of(window.messages);
        let name = self.conversation_of(work, agent, &past, &live)?;
        self.is_shown(&name, &live);
        let Self { conversations, raws, .. } = self;
        let conversation = conversations.get_mut(&name).expect("a conversation was found or begun just now");
        conversation.used_ms = work.now_ms;
        let (past, live) = conversation.sort_known(work, past, live)?;
        conversation.take_past(work, raws, &past)?;
        let turn = conversation.follow(&live, raws, work.now_ms);
        let request = turn.request;
        let newest = turn.window(&live);
        let calls = turn.steps.iter().flat_map(|step| step.now.results.iter().cloned()).collect::<Vec<_>>();
        conversation.in_turn = Some((request, work.now_ms));
        self.shown_calls.extend(calls.into_iter().map(|call| (call, name.clone())));
        let passes = Turn::shows_what_passes(&live);
        if !is_asked {
            let waits = Some(Waiting::turn(agent, tokens, &past, &live));
            return Ok(HookAnswer { waits, ..HookAnswer::default() });
        }
        let newest = Newest { context: &context, past: &past, messages: &newest };
        let (shown, is_cut) = window::show(conversation, work, newest, room)?;
        self.shown_millis = text_millis(system_prompt.as_bytes()) + shown.iter().map(|shown| shown.millis).sum::<u64>();
        // What was left out of this answer is not in the host's next list, nor in the one that says that the turn is over.
        let waits = (passes || is_cut).then(|| Waiting::turn(agent, tokens, &past, &live));
        let text = answer_list("assemble_result", shown.iter().map(|shown| &*shown.text), &[]);
        Ok(HookAnswer { text, notes, waits, settled: None })
    }

    /// The host wants a shorter list for good. What it lets go is here; what it keeps is the newest, and pinned.
    pub(super) fn compact(
        &mut self,
        work: Work<'_>,
        agent: &str,
        window: Window,
        pressure: Pressure,
    ) -> Result<HookAnswer, EngineError> {
        let notes = unreadable(&window);
        let tokens = if window.tokens == 0 { super::WINDOW_TOKENS } else { window.tokens };
        let is_in_turn =
            window.messages.iter().rfind(|said| said.made.is_none()).is_some_and(|said| said.role == Role::User);
        if is_in_turn && self.shown_millis > 0 {
            // It folds for what it counts; what we do not see of that is beside the list.
            let counted = tokens.saturating_mul(PRESSED_PERCENT * 10);
            let most = tokens.saturating_mul(LEARNED_PERCENT_MAX * 10);
            self.learned_millis = self.learned_millis.max(counted.saturating_sub(self.shown_millis)).min(most);
        }
        let list: Vec<Said> = fit::sound(window.messages.into_iter().filter(|said| said.made.is_none()).collect());
        let Sorted { past, live, .. } = Sorted::of(list);
        let name = self.conversation_of(work, agent, &past, &live)?;
        let Self { conversations, raws, .. } = self;
        let conversation = conversations.get_mut(&name).expect("a conversation was found or begun just now");
        conversation.used_ms = work.now_ms;
        let (past, live) = conversation.sort_known(work, past, live)?;
        conversation.take_past(work, raws, &past)?;
        conversation.follow(&live, raws, work.now_ms);
        // Harder where the host is pressed harder.
        let share = KEPT_PERCENT.saturating_sub(u64::from(pressure.0) * 8).max(8);
        let (gone, kept) = split(past, &live, tokens.saturating_mul(share * 10));
        let summary = match is_in_turn || gone.is_empty() {
            // The host would show it in front of the newest request and run the two together; and in the middle of a turn
            // what we show says what was folded.
            true => String::new(),
            false => summary_of(conversation, work, &gone)?,
        };
        let summary: Json = summary.as_str().into();
        let messages: Vec<Shown> = kept.iter().chain(&live).map(Said::shown).collect();
        let text = answer_list("compact_result", messages.iter().map(|shown| &*shown.text), &[("summary", &summary)]);
        Ok(HookAnswer { text, notes, ..HookAnswer::default() })
    }

    /// A turn is over and no secret.
    pub(super) fn after_turn(
        &mut self,
        work: Work<'_>,
        agent: &str,
        window: Window,
    ) -> Result<HookAnswer, EngineError> {
        let notes = unreadable(&window);
        let reserve = self.reserve_millis(window.tokens);
        let Sorted { past, live, .. } = Sorted::of(window.messages);
        let name = self.conversation_of(work, agent, &past, &live)?;
        let Self { conversations, raws, .. } = self;
        let conversation = conversations.get_mut(&name).expect("a conversation was found or begun just now");
        conversation.used_ms = work.now_ms;
        let (past, live) = conversation.sort_known(work, past, live)?;
        let turned = conversation.take_turn(work, raws, &past, &live)?;
        let full = self.window_tokens.saturating_mul(super::FULL_PERCENT * 10).saturating_sub(reserve);
        let settled = match turned {
            Some(turned) if turned.new > 0 && full > 0 => {
                let messages = conversation.view(work)?.map(|view| (view.messages.clone(), view.millis()));
                messages.map(|(messages, millis)| {
                    let stored = work.engine.weigh(&messages).unwrap_or(turned.tokens);
                    let threshold = u128::from(stored) * u128::from(full) / u128::from(millis.max(1));
                    (conversation.request(work, messages), u64::try_from(threshold).unwrap_or(u64::MAX))
                })
            }
            _ => None,
        };
        Ok(HookAnswer { text: answer("ok", &[]), notes, waits: None, settled })
    }

    // ---- which conversation

    /// The name of the conversation that a list is of; begun where it is of none.
    fn conversation_of(
        &mut self,
        work: Work<'_>,
        agent: &str,
        past: &[Said],
        live: &[Said],
    ) -> Result<String, EngineError> {
        let said = || past.iter().chain(live).filter(|said| said.made.is_none() && !said.is_marked);
        let keys: Vec<NodeId> = said().filter_map(|said| said.key).collect();
        // A list that showed nothing of the past began a conversation of its own: until one shows whose it is.
        let mut begun = None;
        for key in keys.iter().rev() {
            let having = self.conversations.iter().filter(|(_, conversation)| conversation.has(key));
            let Some((name, found)) = having.max_by_key(|(_, found)| (found.is_kept(), found.used_ms)) else {
                continue;
            };
            if found.is_kept() {
                let name = name.clone();
                self.join(begun, &name);
                return Ok(name);
            }
            begun.get_or_insert(name.clone());
        }
        let keyed: Vec<&Said> = said().filter(|said| said.key.is_some()).collect();
        let from_end = keyed.iter().rev().take(LOOKED_UP_MAX);
        for said in from_end.chain(keyed.iter().take(LOOKED_UP_MAX)) {
            if let Some(session) = work.engine.session_that_said(agent, SOURCE, &said.text)? {
                let key = SessionKey { owner: session.owner, name: session.name };
                let name = self.begin(key, work.now_ms);
                self.join(begun, &name);
                return Ok(name);
            }
        }
        if let Some(name) = begun {
            return Ok(name);
        }
        let first = said().next();
        let moment = first.and_then(|said| said.json.get("timestamp")).and_then(Json::as_str);
        let name = match (moment, first) {
            (Some(moment), _) => moment.chars().take(64).collect(),
            (None, Some(first)) => format!("said {}", &blake3::hash(&first.text).to_hex()[..16]),
            (None, None) => "nothing said".to_owned(),
        };
        let owner = Owner { agent: named(agent), person: self.person_of(live, &name) };
        Ok(self.begin(SessionKey { owner, name }, work.now_ms))
    }

    /// Lets what waits in a conversation that was begun wait in the one that it is of.
    fn join(&mut self, begun: Option<String>, name: &str) {
        let Some(begun) = begun.filter(|begun| begun != name).and_then(|begun| self.conversations.remove(&begun))
        else {
            return;
        };
        if let Some(conversation) = self.conversations.get_mut(name) {
            conversation.turns.extend(begun.turns);
        }
    }

    /// Who speaks in a list that nobody knows, as ingest told: by what they said. Where that does not tell one person, it
    /// is a person of its own, so that nobody reads what another one said.
    fn person_of(&mut self, live: &[Said], name: &str) -> String {
        let request = live.iter().rfind(|said| said.is_request()).map(Said::words).unwrap_or_default();
        let ranks: Vec<usize> = self.heard.iter().map(|(message, ..)| says(&request, message)).collect();
        let best = ranks.iter().copied().max().unwrap_or(0);
        let mut likely = self.heard.iter().zip(&ranks).filter(|(_, rank)| best > 0 && **rank == best);
        let Some(((_, peer, _), _)) = likely.next() else {
            return if is_signed(&request) { format!("unknown {name}") } else { DEFAULT_PERSON.to_owned() };
        };
        match likely.all(|((_, other, _), _)| other == peer) {
            true => peer.clone().unwrap_or_else(|| DEFAULT_PERSON.to_owned()),
            false => format!("unknown {name}"),
        }
    }

    /// What a person said is shown now: what they say next is something else.
    fn is_shown(&mut self, name: &str, live: &[Said]) {
        let Some(person) = self.conversations.get(name).map(|known| known.key.owner.person.as_str()) else { return };
        let request = live.iter().rfind(|said| said.is_request()).map(Said::words).unwrap_or_default();
        let is_it = |(message, peer, _): &(String, Option<String>, i64)| {
            peer.as_deref().unwrap_or(DEFAULT_PERSON) == person && says(&request, message) > 0
        };
        if let Some(at) = self.heard.iter().position(is_it) {
            self.heard.remove(at);
        }
    }

    fn begin(&mut self, key: SessionKey, now_ms: i64) -> String {
        // One in which something waits is nowhere else: it stays until that is history, or a day old, and only what can be
        // read again is let go of it.
        let waits = |(_, conversation): &(&String, &Conversation)| !conversation.turns.is_empty();
        while self.conversations.len() >= CONVERSATIONS_MAX {
            let oldest = self.conversations.iter().filter(|entry| !waits(entry)).min_by_key(|(_, known)| known.used_ms);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { break };
            self.conversations.remove(&oldest);
        }
        if self.conversations.len() >= CONVERSATIONS_MAX
            && let Some(oldest) = self.conversations.values_mut().min_by_key(|known| (known.is_light(), known.used_ms))
        {
            oldest.let_go();
        }
        let name = format!("{}/{}", key.owner.person, key.name);
        self.conversations.entry(name.clone()).or_insert_with(|| Conversation::new(key, now_ms));
        name
    }

    // ---- whose tool

    /// Who reads in a conversation, while a turn of it goes on.
    pub(super) fn reader(
        &self,
        engine: &Engine,
        name: &str,
        caller: &super::Caller,
        reads_across: bool,
    ) -> Option<Reader> {
        let conversation = self.conversations.get(name)?;
        // Who speaks in a conversation that began with somebody else reads what was said in it, and no more.
        let is_theirs = caller.peer.as_ref().is_none_or(|peer| *peer == conversation.key.owner.person);
        conversation.in_turn?;
        let session = engine.session_named(&conversation.key).ok()?;
        Some(Reader {
            owner: conversation.key.owner.clone(),
            session: session.map(|session| session.id),
            given: Vec::new(),
            is_confined: !(reads_across && is_theirs),
            ..Reader::default()
        })
    }

    /// The conversation in which a tool can have been called: the only one of that person in which a turn goes on. Where
    /// several people speak in one, the window tells.
    pub(super) fn only_one_in_turn(&self, peer: Option<&str>, now_ms: i64) -> Option<String> {
        let is_it = |conversation: &Conversation| {
            let is_in_turn =
                conversation.in_turn.is_some_and(|(_, shown_ms)| now_ms.saturating_sub(shown_ms) <= TURN_MS);
            is_in_turn && conversation.key.owner.person == peer.unwrap_or(DEFAULT_PERSON)
        };
        let mut found = self.conversations.iter().filter(|(_, conversation)| is_it(conversation)).map(|(name, _)| name);
        let only = found.next()?.clone();
        found.next().is_none().then_some(only)
    }

    /// Answers a tool of ours in a conversation.
    fn answer_tool(
        &mut self,
        work: Work<'_>,
        conversation: &str,
        caller: &super::Caller,
        (tool, input): (&str, &Json),
        reads_across: bool,
    ) -> String {
        if let Some(conversation) = self.conversations.get_mut(conversation) {
            // Whose call stands in a window is in its turn.
            conversation.in_turn.get_or_insert((None, work.now_ms));
        }
        match self.reader(work.engine, conversation, caller, reads_across) {
            None => r#"{"error":"nothing was kept of this conversation yet"}"#.to_owned(),
            Some(reader) => {
                let asked = ToolCall {
                    name: our_name(tool),
                    arguments: &input.to_text(),
                    reader,
                    bounds: self.bounds(),
                    model: None,
                    by: work.by.to_owned(),
                    now_ms: work.now_ms,
                };
                work.engine.call_tool(&asked).text
            }
        }
    }

    // ---- what waits

    /// Whether there is something that is nowhere else.
    pub(super) fn waits(&self) -> bool {
        !self.raws.is_empty() || self.conversations.values().any(|conversation| !conversation.turns.is_empty())
    }

    pub(super) fn still_waits(&self, keys: &[NodeId], calls: &[String]) -> bool {
        let turns = || self.conversations.values().flat_map(|conversation| &conversation.turns);
        let waits = |step: &Step| {
            step.now.key.is_some_and(|key| keys.contains(&key))
                || step.now.results.iter().any(|call| calls.contains(call))
        };
        calls.iter().any(|call| self.raws.has(call)) || turns().any(|turn| turn.steps.iter().any(waits))
    }

    pub(super) fn forget_before(&mut self, moment_ms: i64) {
        self.heard.retain(|(_, _, at)| *at >= moment_ms);
        self.raws.forget_before(moment_ms);
        #[expect(clippy::iter_over_hash_type, reason = "each is looked at by itself")]
        for conversation in self.conversations.values_mut() {
            conversation.turns.retain(|turn| turn.seen_ms >= moment_ms);
        }
    }

    /// What the host counts beside a list, as far as is known: thousandths of a token.
    fn reserve_millis(&self, window_tokens: u64) -> u64 {
        let tokens = if window_tokens == 0 { self.window_tokens } else { window_tokens };
        let usual = (tokens * RESERVE_PERCENT / 100).min(RESERVE_TOKENS_MAX).saturating_mul(1000);
        usual.max(self.learned_millis)
    }
}

impl Hooks {
    /// Answers a tool whose caller only a token names; `None` where several conversations may have called it.
    pub(super) fn tool(
        &self,
        work: Work<'_>,
        name: &str,
        agent: &mut Agent,
        caller: &super::Caller,
        told: (&str, &str, &Json),
        reads_across: bool,
    ) -> Option<String> {
        let (tool, call, input) = told;
        lock(&self.callers).asked(caller, name, call);
        let conversation = agent.only_one_in_turn(caller.peer.as_deref(), work.now_ms)?;
        lock(&self.callers).join(caller, name, &conversation);
        Some(agent.answer_tool(work, &conversation, caller, (tool, input), reads_across))
    }

    /// A window with the answers of our tools where it shows their tokens: who calls is told by the window itself. Where
    /// `may_ask` is not set, only with those that were given before.
    pub(super) fn with_answers(
        &self,
        work: Work<'_>,
        name: &str,
        agent: &mut Agent,
        mut window: Window,
        reads_across: bool,
        may_ask: bool,
    ) -> Result<Window, EngineError> {
        for at in 0..window.messages.len() {
            if window.messages[at].results.is_empty() || !caller::may_hold_token(&window.messages[at].text) {
                continue;
            }
            let mut answers: Vec<(String, String)> = Vec::new();
            for (call, content) in window.messages[at].results_told() {
                let Some(caller) = lock(&self.callers).read(&content) else { continue };
                let place = window.messages[at].key.map(|key| (key, call.clone()));
                let known = place.as_ref().and_then(|place| agent.answers.get(place).cloned());
                let called = window.messages[..at].iter().rev().find_map(|said| said.called(&call));
                let answer = match (known, called) {
                    (Some(known), _) => known,
                    (None, Some((tool, input))) if may_ask => {
                        let conversation = agent.conversation_of(work, name, &window.messages, &[])?;
                        lock(&self.callers).join(&caller, name, &conversation);
                        let answer = agent.answer_tool(work, &conversation, &caller, (&tool, &input), reads_across);
                        if agent.answers.len() >= ANSWERS_MAX {
                            agent.answers.clear();
                        }
                        agent.answers.extend(place.map(|place| (place, answer.clone())));
                        answer
                    }
                    _ => continue,
                };
                answers.push((call, answer));
            }
            if let Some(answered) = window.messages[at].with_results(&answers) {
                window.messages[at] = answered;
            }
        }
        Ok(window)
    }
}

/// A tool by our name, whatever the host puts in front of it.
fn our_name(tool: &str) -> &str {
    let ours = tools::names().filter(|name| tool.ends_with(name.strip_prefix("lcm").unwrap_or(name)));
    ours.max_by_key(|name| name.len()).unwrap_or(tool)
}

/// Which of the past the host is to keep: the newest that cost so much at most, from a request on, and what is pinned.
fn split(past: Vec<Said>, live: &[Said], millis_max: u64) -> (Vec<Said>, Vec<Said>) {
    let mut left = millis_max.saturating_sub(live.iter().map(|said| said.millis).sum());
    let mut from = past.len();
    for at in (0..past.len()).rev() {
        let said = &past[at];
        if said.millis > left || past.len() - at > KEPT_MESSAGES_MAX {
            break;
        }
        left -= said.millis;
        if said.is_request() {
            from = at;
        }
    }
    let mut past = past;
    let mut kept = past.split_off(from);
    if kept.is_empty() {
        // Without something that is known nobody could tell what the list goes on from: the last request and its answer.
        let reply =
            past.iter().rposition(|said| said.role == Role::Assistant && said.calls.is_empty() && !said.is_marked);
        let request = reply.and_then(|reply| past[..reply].iter().rposition(Said::is_request));
        if let (Some(request), Some(reply)) = (request, reply) {
            kept = vec![past[request].clone(), past[reply].clone()];
        }
    }
    let mut pinned = Vec::new();
    let mut gone = Vec::new();
    for said in past {
        // What we showed is no message of the host's.
        match (said.is_pinned && said.calls.is_empty() && said.results.is_empty(), said.is_marked) {
            (true, _) => pinned.push(said),
            (_, true) => {}
            _ => gone.push(said),
        }
    }
    let kept = pinned.into_iter().chain(kept.into_iter().filter(|said| !said.is_marked)).collect();
    (gone, kept)
}

/// What the host is told of what it lets go: what the session shows of it, else what is worth telling of it.
fn summary_of(conversation: &mut Conversation, work: Work<'_>, gone: &[Said]) -> Result<String, EngineError> {
    let view = conversation.view(work)?;
    let folds: Vec<String> = view
        .into_iter()
        .flat_map(|view| view.messages.iter().take_while(|text| text.windows(5).any(|part| part == b"[lcm:")))
        .filter_map(|text| Said::read(Json::parse(text).ok()?)?.plain_text())
        .flat_map(|text| text.lines().filter_map(|line| line.strip_prefix("> ").map(str::to_owned)).collect::<Vec<_>>())
        .collect();
    let head = format!("{SUMMARY_MARK} Earlier messages; mcp_lcm_grep finds them, mcp_lcm_expand shows them whole.\n");
    let words = words_of(gone, 450_000);
    let room = SUMMARY_CHARS_MAX - head.chars().count();
    let newest: String = words.chars().take(if folds.is_empty() { room } else { room / 2 }).collect();
    let older: String = folds.join("\n").chars().take(room - newest.chars().count()).collect();
    let text = [older, newest].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n");
    Ok(format!("{head}{text}"))
}

/// What messages say, in so many thousandths of a token at most; without a model.
pub(super) fn words_of(gone: &[Said], millis: u64) -> String {
    let sources: Vec<Source> = gone
        .iter()
        .filter(|said| said.made.is_none() && !said.is_marked)
        .filter_map(|said| {
            let encoded = lcm_core::Message::from_json(said.json.clone()).ok()?.encode().ok()?;
            let told = crate::hosts::with_tree(&encoded, Told::of).ok()?;
            Some(Source { role: said.role, told })
        })
        .collect();
    if sources.is_empty() {
        return String::new();
    }
    let counter: &dyn TokenCounter = &Estimate;
    extract(&sources, millis / 1500, counter).text
}

fn unreadable(window: &Window) -> Vec<String> {
    match window.unreadable {
        0 => Vec::new(),
        count => vec![format!("{count} elements of the list are no messages of this host and were passed over")],
    }
}

/// How well a request tells that this is what was said: more for more of it, 0 for not at all. The host puts in front who
/// says it, and what was said before and failed; and a warning somewhere.
fn says(request: &str, message: &str) -> usize {
    if message.is_empty() {
        return 0;
    }
    match request.strip_suffix(message) {
        Some("") => usize::MAX,
        // Of a long message the end is remembered.
        Some(front) if front.ends_with([' ', '\n']) || message.len() > 1000 => usize::MAX / 2 + message.len(),
        _ if request.contains(message) => message.len(),
        _ => 0,
    }
}

/// Whether the host puts in front of a request who says it.
fn is_signed(request: &str) -> bool {
    request.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).is_some_and(|(name, _)| !name.contains('\n'))
}

/// A name that is not empty: without one nobody could be told apart.
fn named(agent: &str) -> String {
    if agent.is_empty() { "unnamed".to_owned() } else { agent.to_owned() }
}
