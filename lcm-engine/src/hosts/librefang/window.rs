//! What the host is shown for one request: what the session shows, what is recalled into it, and the newest request.
//!
//! The view is folded until it fits beside the newest request, and stays the same from request to request. What the host
//! puts into a window for itself stands again where it stood. A list that would break the host's rules or its bounds goes
//! nowhere: then what fits of all is shown.

use lcm_core::{Json, Role};

use super::agent::words_of;
use super::conversation::{Conversation, Work};
use super::fit::{self, Room};
use super::message::{BETWEEN, Said, Shown};
use crate::error::EngineError;
use crate::service::OutMessage;

/// What stands behind the view.
#[derive(Clone, Copy)]
pub(super) struct Newest<'a> {
    /// What the host says in front of the conversation.
    pub(super) context: &'a [Said],
    /// What the host itself shows of what was said before; shown where nothing could be taken in.
    pub(super) past: &'a [Said],
    /// The newest request with its steps, and what the host put between them.
    pub(super) messages: &'a [Said],
}

/// What is shown of a conversation, and whether something of the newest request was left out.
pub(super) fn show(
    conversation: &mut Conversation,
    work: Work<'_>,
    newest: Newest<'_>,
    room: Room,
) -> Result<(Vec<Shown>, bool), EngineError> {
    let beside = || newest.context.iter().chain(newest.messages);
    let millis: u64 = beside().map(|said| said.millis).sum();
    let bytes: usize = beside().map(|said| said.text.len() + 1).sum();
    let left = Room { millis: room.millis.saturating_sub(millis), bytes: room.bytes.saturating_sub(bytes) };
    if left.millis > 0
        && conversation.fold(work, left.millis, left.bytes)?
        && let Some(shown) = whole(conversation, work, newest, room, left.millis)?
    {
        return Ok((shown, false));
    }
    // The newest request alone takes more than there is, or nothing could be folded.
    let all: Vec<Said> = match conversation.view(work)? {
        Some(view) => {
            let view = view.shown.iter().filter_map(|shown| Said::read(Json::parse(&shown.text).ok()?));
            newest.context.iter().cloned().chain(view).chain(newest.messages.iter().cloned()).collect()
        }
        None => newest.context.iter().chain(newest.past).chain(newest.messages).cloned().collect(),
    };
    let shown = fit::fit(all, room, words_of);
    let kept = shown.iter().rev().zip(newest.messages.iter().rev()).take_while(|(shown, said)| shown.text == said.text);
    let is_cut = kept.count() < newest.messages.len();
    Ok((between_assistants(shown.iter().map(Said::shown)), is_cut))
}

/// The view, with what is recalled into it, and the newest request whole; `None` where the host would not take that.
fn whole(
    conversation: &mut Conversation,
    work: Work<'_>,
    newest: Newest<'_>,
    room: Room,
    left_millis: u64,
) -> Result<Option<Vec<Shown>>, EngineError> {
    let said: Vec<Said> = newest.messages.iter().filter(|said| said.made.is_none()).cloned().collect();
    let selected = conversation.select(work, &said, left_millis)?;
    let Some(view) = conversation.view(work)? else { return Ok(None) };
    let context = newest.context.iter().map(Said::shown);
    let mut rest = newest.messages.iter();
    let mut shown: Vec<Shown> = context.collect();
    match selected {
        None => shown.extend(view.shown.iter().cloned()),
        Some(selected) => {
            let mut next = 0;
            for message in selected {
                match message {
                    OutMessage::Made(text) => {
                        let Some(said) = Json::parse(&text).ok().and_then(Said::read) else { return Ok(None) };
                        shown.push(said.shown());
                    }
                    OutMessage::Given(at) if at < view.shown.len() => shown.push(view.shown[at].clone()),
                    OutMessage::Given(at) => {
                        // With what the host put in front of it.
                        for said in rest.by_ref() {
                            shown.push(said.shown());
                            next += usize::from(said.made.is_none());
                            if next > at - view.shown.len() {
                                break;
                            }
                        }
                    }
                }
            }
        }
    }
    shown.extend(rest.map(Said::shown));
    let shown = between_assistants(shown);
    let millis: u64 = shown.iter().map(|shown| shown.millis).sum();
    let bytes: usize = shown.iter().map(|shown| shown.text.len() + 1).sum();
    let is_taken = millis <= room.millis && bytes <= room.bytes && is_sound(&shown);
    Ok(is_taken.then_some(shown))
}

/// A list with a line between two messages of the assistant: where the host spoke between them, that is not kept.
fn between_assistants(messages: impl IntoIterator<Item = Shown>) -> Vec<Shown> {
    let mut list: Vec<Shown> = Vec::new();
    for shown in messages {
        if shown.role == Role::Assistant && list.last().is_some_and(|last| last.role == Role::Assistant) {
            list.push(Said::ours("user", BETWEEN).shown());
        }
        list.push(shown);
    }
    list
}

/// Whether the host takes a list: it begins with a user, nothing in it is empty, and every call is answered in the next
/// message.
fn is_sound(list: &[Shown]) -> bool {
    let begins_well = list.first().is_none_or(|shown| shown.role == Role::User);
    let mut open: &[String] = &[];
    let all_answered = list.iter().all(|shown| {
        let answers = open.len() == shown.results.len() && open.iter().all(|call| shown.results.contains(call));
        open = &shown.calls;
        answers && !shown.is_empty
    });
    // Calls at the very end are running.
    begins_well && all_answered
}
