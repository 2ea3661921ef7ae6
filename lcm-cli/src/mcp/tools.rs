//! The engine's tools as the protocol has them: how they are told, and a call from its name to its result.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use lcm_core::Json;
use lcm_engine::compress::summary::Summarizer;
use lcm_engine::service::{Cancel, Service, ToolAnswer, ToolCall};
use lcm_engine::tools as engine;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResult, ContentBlock, ErrorData, JsonObject, ProgressNotificationParam, ProgressToken, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::room::{Room, Unread, by, shown};
use super::sampling::ClientModel;
use crate::moment;

/// What stands in front of a tool's short name.
const PREFIX: &str = "lcm_";
/// So often a call that takes longer tells that it goes on.
const TICK: Duration = Duration::from_millis(500);

/// A call as it came.
pub(super) struct Call {
    pub(super) name: String,
    /// Whatever stands for the arguments.
    pub(super) arguments: Value,
    /// For whom, as the host says; `None` where it says nothing.
    pub(super) caller: Option<Value>,
}

/// What is told of the tools, under the names that are offered.
pub(super) fn offered(all: bool, full_names: bool) -> Vec<Tool> {
    let named = |text: &str| if full_names { text.to_owned() } else { text.replace(PREFIX, "") };
    let tool = |schema: &Json| {
        let text = |key: &str| schema.get(key).and_then(Json::as_str);
        let (name, about) = (text("name")?, text("description")?);
        let mut told = Tool::default();
        told.name = Cow::Owned(named(name));
        told.description = Some(Cow::Owned(named(about)));
        told.input_schema = Arc::new(object(schema.get("parameters")?)?);
        let is_read_only = engine::is_read_only(name);
        // Hosts that run calls side by side look for both of the first two. Nothing here is ever destroyed.
        told.annotations =
            Some(ToolAnnotations::from_raw(None, Some(is_read_only), Some(false), Some(true), Some(false)));
        Some(told)
    };
    engine::schemas(all).iter().filter_map(tool).collect()
}

fn object(json: &Json) -> Option<JsonObject> {
    serde_json::from_slice(&json.to_text()).ok()
}

/// The tool that a name means, short or long.
fn known(name: &str) -> Option<&'static str> {
    let name = name.trim();
    engine::names().find(|known| *known == name || known.strip_prefix(PREFIX) == Some(name))
}

/// Tells how a call gets on.
#[derive(Clone)]
pub(super) struct Steps(mpsc::UnboundedSender<&'static str>);

impl Steps {
    pub(super) fn tell(&self, step: &'static str) {
        // Nobody listens any more when the call is over. A call has a handful of steps.
        self.0.send(step).ok();
    }
}

/// Answers a call.
///
/// # Errors
/// Where there is no such tool, or the call was cancelled. All else is an answer.
pub(super) async fn call(
    room: &Room,
    call: Call,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let Some(name) = known(&call.name) else {
        let names: Vec<&str> = engine::names().filter_map(|name| name.strip_prefix(PREFIX)).collect();
        let why = format!("there is no tool {:?}; there are {}", shown(&call.name), names.join(", "));
        return Err(ErrorData::invalid_params(why, None));
    };
    let is_long = name == engine::ASKS_A_MODEL;
    let cancel = Cancel::default();
    let (give_up, given_up) = watch::channel(false);
    let (step, mut steps) = mpsc::unbounded_channel();
    let client_model = match is_long {
        true => ClientModel::of(&context, given_up, room.gone.clone(), Steps(step)),
        false => None,
    };
    // The model of the settings is one for all calls, and made where the store is.
    let shared = (is_long && client_model.is_none()).then(|| room.shared_model());
    let by = by(&context);
    let arguments = match call.arguments {
        Value::String(text) => text.into_bytes(),
        arguments => arguments.to_string().into_bytes(),
    };
    let heeded = cancel.clone();
    let work = room.with_store(is_long, call.caller, move |engine, reader, bounds| {
        if heeded.is_cancelled() {
            return ToolAnswer { text: String::new(), is_error: true };
        }
        let shared = shared.and_then(|shared| shared(engine));
        let model = client_model.as_ref().map(|model| model as &dyn Summarizer).or(shared.as_deref());
        let now_ms = moment::now_ms();
        engine.call_tool(&ToolCall { name, arguments: &arguments, reader, bounds, model, by, now_ms })
    });
    tokio::pin!(work);
    let mut progress = Progress::new(&context);
    let mut ticks = interval_at(Instant::now() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let answer = loop {
        tokio::select! {
            answer = &mut work => break answer,
            () = context.ct.cancelled() => {
                cancel.cancel();
                give_up.send_replace(true);
                return Err(ErrorData::invalid_request("the call was cancelled", None));
            }
            Some(step) = steps.recv() => progress.tell(step).await,
            _ = ticks.tick(), if progress.is_wanted() => progress.tell("still at it").await,
        }
    };
    Ok(match answer {
        Ok(answer) => result(answer),
        Err(Unread::Answer(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Err(Unread::Refused(why)) => {
            let text = Json::object([("error", why.as_str().into())]).to_text();
            result(ToolAnswer { text: String::from_utf8_lossy(&text).into_owned(), is_error: true })
        }
    })
}

/// An answer of the engine's: its text, and the very same object beside it.
fn result(answer: ToolAnswer) -> CallToolResult {
    let structured = serde_json::from_str::<Value>(&answer.text).ok().filter(Value::is_object);
    let content = vec![ContentBlock::text(answer.text)];
    let mut result = if answer.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = structured;
    result
}

/// What is told of a call while it runs, where the client wants that.
struct Progress<'c> {
    context: &'c RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    begun: Instant,
    /// What was told last; it must grow.
    last: f64,
}

impl<'c> Progress<'c> {
    fn new(context: &'c RequestContext<RoleServer>) -> Self {
        Self { context, token: context.meta.get_progress_token(), begun: Instant::now(), last: 0.0 }
    }

    fn is_wanted(&self) -> bool {
        self.token.is_some()
    }

    /// Tells a step: seconds gone, since nobody knows how many there will be.
    async fn tell(&mut self, step: &'static str) {
        let Some(token) = self.token.clone() else { return };
        let seconds = self.begun.elapsed().as_secs_f64().max(self.last + 0.001);
        self.last = seconds;
        let told = ProgressNotificationParam::new(token, seconds).with_message(step);
        // A client that is gone hears nothing.
        drop(self.context.peer.notify_progress(told).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_told_under_the_names_that_are_offered() {
        let short = offered(false, false);
        let names: Vec<&str> = short.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["grep", "expand", "describe", "expand_query"]);
        assert!(short.iter().all(|tool| !format!("{:?}", tool.description).contains(PREFIX)), "{short:?}");
        let full = offered(true, true);
        assert!(full.iter().all(|tool| tool.name.starts_with(PREFIX)));
        assert!(full[0].description.as_ref().is_some_and(|about| about.contains("lcm_expand")));
        assert_eq!(full.len(), engine::names().count());
        for tool in &full {
            let hints = tool.annotations.as_ref().unwrap();
            assert_eq!(hints.read_only_hint, Some(tool.name != "lcm_pin"));
            assert_eq!(hints.destructive_hint, Some(false));
        }
    }

    #[test]
    fn a_tool_is_known_by_either_name() {
        assert_eq!(known("grep"), Some("lcm_grep"));
        assert_eq!(known(" lcm_expand_query"), Some("lcm_expand_query"));
        for name in ["", "lcm_", "lcm_lcm_grep", "gerp", "mcp_lcm_grep"] {
            assert_eq!(known(name), None, "{name}");
        }
    }
}
