//! A window that fits, made of the window alone: what a hook answers with nobody to ask, and the last resort of who is
//! asked.
//!
//! The newest request, the newest step and what is pinned stay; of the rest as much as there is room for, the newest
//! first, calls with their results. What is left out is named in a note in front. When what has to stay is too large by
//! itself, results are shown in part. By the host's own rules: it begins with a user, and every call is answered in the
//! next message. Pure, and the same for the same window.

use lcm_core::{Json, Role};

use super::message::{Made, Said, count_left_out, is_empty, left_out, text_millis};

/// How much there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Thousandths of a token by the host's estimate.
    pub(super) millis: u64,
    /// Bytes of the messages as JSON.
    pub(super) bytes: usize,
}

/// What a note may say of what is left out, and what it costs beside that.
const WORDS_MILLIS_MAX: u64 = 1_000_000;
const NOTE_MILLIS: u64 = 40_000;
/// Results are not cut to fewer characters than these.
const CUT_CHARS_MIN: usize = 400;
/// How often results are cut harder.
const ROUNDS_MAX: usize = 16;

/// Messages that belong together: a call with its results; and what the host put behind.
struct Group {
    messages: Vec<Said>,
    millis: u64,
    bytes: usize,
    must_stay: bool,
}

impl Group {
    fn of(messages: Vec<Said>) -> Self {
        let millis = messages.iter().map(|said| said.millis).sum();
        let bytes = messages.iter().map(|said| said.text.len() + 1).sum();
        Self { messages, millis, bytes, must_stay: false }
    }
}

/// A window that fits into a room. `words` says what is left out, in so many thousandths of a token.
pub(super) fn fit(window: Vec<Said>, room: Room, words: impl Fn(&[Said], u64) -> String) -> Vec<Said> {
    let mut before = 0;
    let window: Vec<Said> = window
        .into_iter()
        .filter(|said| {
            let is_note = said.made == Some(Made::Note);
            before += said.sole_text().filter(|_| is_note).map_or(0, count_left_out);
            !is_note
        })
        .collect();
    let mut groups = groups(sound(window));
    let newest = groups.iter().rposition(|group| group.messages.iter().any(Said::is_request));
    let last = groups.len().saturating_sub(1);
    for (at, group) in groups.iter_mut().enumerate() {
        group.must_stay =
            at == last || Some(at) == newest || group.messages.iter().any(|said| said.is_pinned || said.made.is_some());
    }
    let all: u64 = groups.iter().map(|group| group.millis).sum();
    let bytes: usize = groups.iter().map(|group| group.bytes).sum();
    let begins_well =
        groups.first().is_none_or(|group| group.messages.first().is_none_or(|said| said.role == Role::User));
    if before == 0 && begins_well && all <= room.millis && bytes <= room.bytes {
        return groups.into_iter().flat_map(|group| group.messages).collect();
    }
    let (mut millis, mut bytes) = groups
        .iter()
        .filter(|group| group.must_stay)
        .fold((NOTE_MILLIS, 256), |(millis, bytes), group| (millis + group.millis, bytes + group.bytes));
    // The steps of the newest request before what came before it, each from the end.
    let mut stays: Vec<bool> = groups.iter().map(|group| group.must_stay).collect();
    for at in (0..groups.len()).rev() {
        if stays[at] {
            continue;
        }
        let (more, size) = (millis + groups[at].millis, bytes + groups[at].bytes);
        if more > room.millis || size > room.bytes {
            break;
        }
        (millis, bytes, stays[at]) = (more, size, true);
    }
    let mut gone: Vec<Said> = Vec::new();
    let mut shown: Vec<Group> = Vec::new();
    for (group, stays) in groups.into_iter().zip(stays) {
        match stays {
            true => shown.push(group),
            false => gone.extend(group.messages),
        }
    }
    if millis > room.millis || bytes > room.bytes {
        cut_results(&mut shown, room);
    }
    let mut window: Vec<Said> = shown.into_iter().flat_map(|group| group.messages).collect();
    let begins_well = window.first().is_none_or(|said| said.role == Role::User);
    if !gone.is_empty() || before > 0 || !begins_well {
        let left = room.millis.saturating_sub(window.iter().map(|said| said.millis).sum::<u64>() + NOTE_MILLIS);
        let words = words(&gone, left.min(WORDS_MILLIS_MAX));
        let words = if text_millis(words.as_bytes()) <= left { words } else { String::new() };
        window.insert(0, Said::ours("user", &left_out(before + gone.len(), &words)));
    }
    window
}

/// Calls with their results, and with what the host put behind; everything else alone.
fn groups(window: Vec<Said>) -> Vec<Group> {
    let mut groups: Vec<Vec<Said>> = Vec::new();
    for said in window {
        let goes_on = groups.last().and_then(|group| group.last()).is_some_and(|before| {
            let answers = !said.results.is_empty() && !before.calls.is_empty();
            // The date belongs to what it stands behind.
            answers || (said.made == Some(Made::Host) && before.is_request())
        });
        match groups.last_mut() {
            Some(group) if goes_on => group.push(said),
            _ => groups.push(vec![said]),
        }
    }
    groups.into_iter().map(Group::of).collect()
}

/// A window without calls that nobody answers and results that nobody called for, as the host repairs its own.
pub(super) fn sound(window: Vec<Said>) -> Vec<Said> {
    let mut sound: Vec<Said> = Vec::with_capacity(window.len());
    let count = window.len();
    let next: Vec<Vec<String>> = window.iter().skip(1).map(|said| said.results.clone()).chain([Vec::new()]).collect();
    let mut open: Vec<String> = Vec::new();
    for (at, (said, answers)) in window.into_iter().zip(next).enumerate() {
        // Calls at the very end are running.
        let is_last = at + 1 == count;
        let mut called = Vec::new();
        let mut is_answered = |id: &String| {
            let is_first = !called.contains(id);
            called.push(id.clone());
            is_first && (is_last || answers.contains(id))
        };
        let keep_calls: Vec<bool> = said.calls.iter().map(&mut is_answered).collect();
        let keep_results: Vec<bool> = said
            .results
            .iter()
            .map(|id| open.iter().position(|open| open == id).map(|at| open.remove(at)).is_some())
            .collect();
        open = said.calls.iter().zip(&keep_calls).filter(|(_, keep)| **keep).map(|(id, _)| id.clone()).collect();
        if keep_calls.iter().chain(&keep_results).all(|keep| *keep) {
            if !is_empty(&said.json) {
                sound.push(said);
            }
            continue;
        }
        let (mut calls, mut results) = (keep_calls.into_iter(), keep_results.into_iter());
        let kept = with_blocks(&said.json, |block| match block.get("type").and_then(Json::as_str) {
            Some("tool_use") => calls.next().unwrap_or(true),
            Some("tool_result") => results.next().unwrap_or(true),
            _ => true,
        });
        sound.extend(kept.filter(|json| !is_empty(json)).and_then(|json| said.with(json)));
    }
    sound
}

/// The same message with the blocks that are to stay.
fn with_blocks(json: &Json, mut keep: impl FnMut(&Json) -> bool) -> Option<Json> {
    let Json::Object(mut entries) = json.clone() else { return None };
    let content = entries.iter_mut().rfind(|(key, _)| key.as_bytes() == b"content").map(|(_, content)| content)?;
    if let Json::Array(blocks) = content {
        blocks.retain(&mut keep);
    }
    Some(Json::Object(entries))
}

/// Shows results in part, the largest most, until there is room.
fn cut_results(groups: &mut [Group], room: Room) {
    let mut chars = usize::try_from(room.millis / 500).unwrap_or(usize::MAX).max(CUT_CHARS_MIN);
    for _ in 0..ROUNDS_MAX {
        let (millis, bytes) = groups
            .iter()
            .fold((NOTE_MILLIS, 256), |(millis, bytes), group| (millis + group.millis, bytes + group.bytes));
        if millis <= room.millis && bytes <= room.bytes {
            return;
        }
        for group in &mut *groups {
            if group.messages.iter().all(|said| said.results.is_empty()) {
                continue;
            }
            let messages = std::mem::take(&mut group.messages);
            let cut = messages.into_iter().map(|said| cut(&said, chars).unwrap_or(said)).collect();
            let must_stay = group.must_stay;
            *group = Group { must_stay, ..Group::of(cut) };
        }
        if chars == CUT_CHARS_MIN {
            return;
        }
        chars = (chars / 2).max(CUT_CHARS_MIN);
    }
}

/// A message with its results in part; `None` where they are no longer than that.
fn cut(said: &Said, chars: usize) -> Option<Said> {
    let mut is_cut = false;
    let Json::Object(mut entries) = said.json.clone() else { return None };
    let content = entries.iter_mut().rfind(|(key, _)| key.as_bytes() == b"content").map(|(_, content)| content)?;
    let Json::Array(blocks) = content else { return None };
    for block in blocks {
        if block.get("type").and_then(Json::as_str) != Some("tool_result") {
            continue;
        }
        let Json::Object(entries) = block else { continue };
        for (key, value) in entries {
            if key.as_bytes() == b"content"
                && let Json::String(text) = value
                && let Some(part) = part(&text.to_str_lossy(), chars)
            {
                *value = part.into();
                is_cut = true;
            }
        }
    }
    is_cut.then(|| said.with(Json::Object(entries))).flatten()
}

/// Begins the line in the middle of a text of which a part is shown.
const CUT_MARK: &str = "[lcm: ";

const CUT_END: &str = " characters are left out here of ";

/// Whether a text is one of which [`part`] shows the beginning and the end.
pub(super) fn is_part(text: &str) -> bool {
    let Some((_, line)) = text.split_once(&format!("\n{CUT_MARK}")) else { return false };
    line.split_once(CUT_END).is_some_and(|(count, _)| count.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a text is one that [`part`] makes of this one.
pub(super) fn is_part_of(text: &str, whole: &str) -> bool {
    let line = format!("\n{CUT_MARK}");
    text.match_indices(&line).any(|(at, _)| {
        let (front, rest) = (&text[..at], &text[at + line.len()..]);
        let back = rest.split_once('\n').filter(|(line, _)| line.contains(CUT_END)).map(|(_, back)| back);
        back.is_some_and(|back| {
            front.len() + back.len() < whole.len() && whole.starts_with(front) && whole.ends_with(back)
        })
    })
}

/// The beginning and the end of a text, and how much is between them; `None` where it is no longer than that.
pub(super) fn part(text: &str, chars: usize) -> Option<String> {
    let all = text.chars().count();
    if all <= chars + chars / 4 {
        return None;
    }
    let (front, back) = (chars / 3 * 2, chars / 3);
    let at = |nth: usize| text.char_indices().nth(nth).map_or(text.len(), |(at, _)| at);
    let (front_end, back_begin) = (at(front), at(all - back));
    let left = all - front - back;
    Some(format!("{}\n{CUT_MARK}{left}{CUT_END}{all}]\n{}", &text[..front_end], &text[back_begin..]))
}
