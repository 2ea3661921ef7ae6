//! `lcm_pin`: a message that is never folded, or may be again; and which there are.

use lcm_core::Handle;
use lcm_store::{Branches, Buffer, Pinned, Store};

use super::access::{Access, name_of};
use super::answer::{Budget, Object};
use super::arguments::{Arguments, Kind, Parameter, Tool};
use super::{Answered, ToolError, count, cursor};
use crate::history;
use crate::service::{PinRequest, ToolCall};

pub(super) static TOOL: Tool = Tool {
    name: "lcm_pin",
    about: "Keep a message of this conversation from ever being folded, end that, or list what is kept so.",
    is_default: false,
    required: &[],
    parameters: &[
        Parameter::listed("id", Kind::Ids, "The message: msg_… or its number; none to list").or(&[
            "store_id",
            "message_id",
            "handle",
        ]),
        Parameter::listed("action", Kind::Choice(&["pin", "unpin", "list"]), "Default pin with an id, list without"),
        Parameter::silent("unpin", Kind::Flag),
        Parameter::silent("max_tokens", Kind::Number(1, 1_000_000)).or(&["token_cap"]),
        Parameter::listed("cursor", Kind::Text, "From the answer before"),
    ],
};

pub(super) fn answer(store: &Store, call: &ToolCall<'_>, mut arguments: Arguments) -> Answered {
    let ids = arguments.texts("id")?;
    let default = match (ids.is_empty(), arguments.flag("unpin")?) {
        (true, _) => "list",
        (false, true) => "unpin",
        (false, false) => "pin",
    };
    let action = arguments.choice("action")?.unwrap_or(default);
    let snapshot = store.snapshot()?;
    let access = Access::new(&snapshot, &call.reader)?;
    let none = || ToolError::Said("nothing was said yet in this conversation, so nothing can be pinned".to_owned());
    let named = match (access.is_outside, ids.as_slice()) {
        // Where there is no conversation the message says which one it is of.
        (true, [id]) => Some(snapshot.session(access.node(id)?.session)?),
        (true, _) => return Err(ToolError::Said(format!("{action} needs the id of one message here"))),
        (false, _) => access.own.clone(),
    };
    let session = named.ok_or_else(none)?;
    let scope = access.of(&[&session], Branches::Standing).ok_or_else(none)?;
    if action == "list" {
        let stamp = cursor::stamp("lcm_pin", [session.id.to_string().as_str()]);
        let mut budget = Budget::of(&mut arguments, call.bounds, call.bounds.tokens_max)?;
        let skip = match arguments.text("cursor")? {
            None => 0,
            Some(text) => {
                let parsed = cursor::of(&text, &stamp)?.parse::<u64>();
                parsed.map_err(|_| ToolError::Said("that is no cursor: leave it out to begin anew".to_owned()))?
            }
        };
        let pins = snapshot.pins(session.id)?;
        let mut object = Object::new();
        object.text("session_id", &name_of(&session)).number("total_results", count(pins.len()));
        arguments.tell(&mut object);
        budget.take(object.cost());
        let (mut items, mut next) = (Vec::new(), None);
        let mut last = skip;
        for pin in pins.into_iter().filter(|pin| pin.0 > skip) {
            let mut item = Object::new();
            item.number("store_id", pin.0);
            if let Some(placed) = access.place(pin)? {
                let mut buffer = Buffer::default();
                snapshot.read(placed.record, &mut buffer)?;
                item.text("handle", &Handle::message(buffer.id()).to_string()).number("token_count", placed.tokens);
            }
            let item = item.finish();
            if !budget.add(&item) && !items.is_empty() {
                next = Some(last);
                break;
            }
            items.push(item);
            last = pin.0;
        }
        object.objects("pinned", &items).flag("has_more", next.is_some());
        if let Some(next) = next {
            object.flag("cut", true).text("cursor", &cursor::put(&stamp, &next.to_string()));
        }
        return Ok(object.finish());
    }
    let [id] = ids.as_slice() else {
        return Err(ToolError::Said(format!("{action} needs the id of one message")));
    };
    let entry = access.node(id)?;
    // A message of another conversation is not this one's to keep.
    if snapshot.find_place(&scope, entry.number)?.is_none() {
        return Err(ToolError::Said(format!("{} is no message of this conversation", entry.handle)));
    }
    drop(access);
    drop(snapshot);
    let pinned = if action == "pin" { Pinned::Yes } else { Pinned::No };
    let request = PinRequest {
        scope,
        number: entry.number,
        session: Some(session.id),
        pinned,
        by: call.by.clone(),
        now_ms: call.now_ms,
    };
    let set = history::pin(store, &request)?;
    let mut object = Object::new();
    object.number("store_id", set.entry.number.0).text("handle", &set.entry.handle.to_string());
    object.flag("pinned", pinned == Pinned::Yes).flag("changed", set.op.is_some());
    if let Some(behind) = set.behind {
        object.text("covered_by", &behind.to_string());
        object.text("note", "it is folded now: what is folded stays folded until that is undone");
    }
    arguments.tell(&mut object);
    Ok(object.finish())
}
