//! What each verb does: parameters to a request of the service, its answer to JSON. `docs/wire.md`, *Calls*.

use std::sync::Arc;

use lcm_core::{Json, Owner};
use lcm_engine::compress::summary::Summarizer;
use lcm_engine::error::{EngineError, StoreError};
use lcm_engine::service::{
    Branches, CompressRequest, OwnerPattern, Owners, Reader, Scope, Sees, SelectRequest, Service, SessionKey,
    ToolBounds, ToolCall, TurnRequest, Turned,
};
use lcm_engine::{DEFAULT_AGENT, DEFAULT_PERSON, tools};

use super::connection::{CALLS_MAX, Call, Connection, lock};
use super::options::CallOptions;
use super::{Client, Ended, Server, parent};
use crate::commands::BY;
use crate::error::{CliError, exit};
use crate::folding;
use crate::json;
use crate::moment;
use crate::summarize::HostSummarizer;
use lcm_engine::wire::frame::{CallId, Failure, LINE_BYTES_MAX, Params, Reply, missing, quoted, wrong};
use lcm_engine::wire::lists::{BASES_MAX, List};

/// The protocol that is spoken here.
const PROTOCOL: u64 = 1;
/// Bytes of a name that a host gives: of an agent, a person, a session.
const NAME_BYTES_MAX: usize = 4096;

/// The verb with which a connection begins. Whoever reads carries it out, so that what comes behind it finds it done.
pub(super) const INITIALIZE: &str = "initialize";

const VERBS: &[&str] = &[
    INITIALIZE, "ping", "turn", "due", "weigh", "compress", "select", "behind", "usage", "tools", "tool", "status",
    "hook",
];

/// Whether a call may wait for a model, so that it must not keep a thread from short ones.
pub(super) fn may_wait(verb: &str, params: &Params) -> bool {
    verb == "compress" || (verb == "tool" && params.says("name", tools::ASKS_A_MODEL))
}

/// Carries a call out.
pub(super) fn answer(
    server: &Arc<Server>,
    connection: &Arc<Connection>,
    call: &Arc<Call>,
    verb: &str,
    params: Params,
) -> Result<Reply, Failure> {
    if verb == INITIALIZE {
        return initialize(server, connection, params).map(Reply::Json);
    }
    if !VERBS.contains(&verb) {
        let verbs = VERBS.join(", ");
        return Err(Failure::new(Failure::NO_VERB, format!("there is no verb {}: use one of {verbs}", quoted(verb))));
    }
    let Some(client) = connection.client.get() else {
        return Err(Failure::new(Failure::PROTOCOL, "the first call must be initialize"));
    };
    let asked = Asked { server, connection, call, client, params };
    let told = match verb {
        "hook" => return asked.hook(),
        "ping" => Ok(Json::Object(Vec::new())),
        "turn" => asked.turn(),
        "due" => asked.due(),
        "weigh" => asked.weigh(),
        "compress" => asked.compress(),
        "select" => asked.select(),
        "behind" => asked.behind(),
        "usage" => asked.usage(),
        "tools" => asked.tools(),
        "tool" => asked.tool(),
        "status" => asked.status(),
        _ => unreachable!("{verb} stands in VERBS"),
    };
    told.map(Reply::Json)
}

/// Opens a connection.
fn initialize(server: &Arc<Server>, connection: &Arc<Connection>, mut params: Params) -> Result<Json, Failure> {
    if connection.client.get().is_some() {
        return Err(Failure::new(Failure::PROTOCOL, "initialize was called already"));
    }
    let newest = params.needed_number("protocol")?;
    if newest < PROTOCOL {
        let why = format!("protocol {newest} is not spoken here: use {PROTOCOL}");
        let spoken = Json::Array(vec![PROTOCOL.into()]);
        return Err(Failure::new(Failure::PROTOCOL, why).with("supported", spoken));
    }
    let mut who = params.object("client")?.ok_or_else(|| missing("client"))?;
    let (name, version) = (who.needed_text("name")?, who.text("version")?.unwrap_or_default());
    let host = params.text("host")?.unwrap_or_else(|| name.clone());
    check_name("host", &host)?;
    let by = format!("{} for {}", BY, quoted(format!("{name} {version}").trim()));
    let mut notes = server.config.notes.clone();
    let mut settings = server.config.settings.clone();
    if let Some(said) = params.object("settings")? {
        notes.extend(settings.take_host(said.into_rest()));
    }
    let engine = server.engine(&settings)?;
    let model = match folding::model_of(&settings, &*engine, moment::now_ms()) {
        Ok(model) => model.map(|model| Arc::new(model) as Arc<dyn Summarizer>),
        Err(error) => {
            // An agent is not stopped by a model that is set wrongly: summaries do without.
            notes.push(format!("no model is asked for summaries: {}", error.sentence()));
            None
        }
    };
    let summarizes = params.flag("summarize")?;
    let pid = params.number("pid")?;
    if let Some(pid) = pid {
        let server = server.clone();
        parent::watch(pid, move || server.end(Ended::Parent)).map_err(|why| wrong("pid", &why))?;
    }
    let home = server.config.home.to_string_lossy().into_owned();
    let client = Client { host, by, settings, summarizes, model, engine };
    if connection.client.set(client).is_err() {
        return Err(Failure::new(Failure::PROTOCOL, "initialize was called already"));
    }
    let limits = Json::object([
        ("line_bytes_max", json::number(LINE_BYTES_MAX)),
        ("calls_max", json::number(CALLS_MAX)),
        ("bases_max", json::number(BASES_MAX)),
    ]);
    Ok(Json::object([
        ("protocol", PROTOCOL.into()),
        ("server", Json::object([("name", "lcm-cli".into()), ("version", env!("CARGO_PKG_VERSION").into())])),
        ("pid", std::process::id().into()),
        ("home", home.into()),
        ("limits", limits),
        ("notes", texts(&notes)),
    ]))
}

/// A call on its way.
struct Asked<'a> {
    server: &'a Arc<Server>,
    connection: &'a Arc<Connection>,
    call: &'a Arc<Call>,
    client: &'a Client,
    params: Params,
}

impl Asked<'_> {
    /// Keeps what is new in a list.
    fn turn(mut self) -> Result<Json, Failure> {
        let options = self.options()?;
        let (key, list) = self.shown()?;
        let is_settled = self.params.flag("settled")?;
        let request = self.turn_request(&key, &list)?;
        let turned = self.take_in(&request)?;
        if is_settled {
            self.server.idle.settled(&self.client.engine, request, &options, turned.tokens, self.client.model.clone());
        }
        let mut entries = vec![("base", self.keep(&key, list))];
        entries.extend(turned_entries(&turned));
        Ok(self.with_notes(entries, &options))
    }

    /// Whether a list should be folded.
    fn due(mut self) -> Result<Json, Failure> {
        let options = self.options()?;
        let key = self.session()?;
        let tokens = self.params.needed_number("prompt_tokens")?;
        let (is_due, reason) = self.client.engine.is_due(&key, tokens, &options.folding);
        Ok(self.with_notes(vec![("due", is_due.into()), ("reason", reason.into())], &options))
    }

    /// What a list costs.
    fn weigh(mut self) -> Result<Json, Failure> {
        let options = self.options()?;
        let (key, list) = self.shown()?;
        let stored = self.client.engine.weigh(&list.0).map_err(failed)?;
        let tokens = match &options.model {
            Some(model) => self.client.engine.correction(model).apply(stored),
            None => stored,
        };
        let entries = vec![("base", self.keep(&key, list)), ("tokens", tokens.into())];
        Ok(self.with_notes(entries, &options))
    }

    /// A shorter list.
    fn compress(mut self) -> Result<Json, Failure> {
        let options = self.options()?;
        let (key, list) = self.shown()?;
        let turn = self.turn_request(&key, &list)?;
        let summarizer = self.summarizer()?;
        let mut request = CompressRequest::new(turn, options.folding.clone());
        request.current_tokens = self.params.number("current_tokens")?;
        request.model = options.model.clone();
        request.force = self.params.flag("force")?;
        request.focus = self.params.text("focus")?;
        request.memory_context = self.params.text("memory_context")?;
        request.summarizer = summarizer.as_deref();
        request.cancel = self.call.cancel.clone();
        self.server.idle.folds(&key);
        let done = self.client.engine.compress(&request).map_err(failed)?;
        self.follow(&done.turned);
        let (list, splices) = match &done.messages {
            Some(messages) => {
                let (changed, splices) = list.changed(messages);
                (Arc::new(changed), splices)
            }
            None => (list, Json::Null),
        };
        let folds = done.folds.iter().map(|id| lcm_core::Handle::summary(*id).to_string().into()).collect();
        let mut entries = vec![
            ("base", self.keep(&key, list)),
            ("splices", splices),
            ("reason", done.reason.map_or(Json::Null, Json::from)),
            ("tokens_before", done.tokens_before.into()),
            ("tokens_after", done.tokens_after.into()),
            ("folds", Json::Array(folds)),
            ("failures", texts(&done.failures)),
            ("model_calls", done.model_calls.into()),
            ("model_tokens", done.model_tokens.into()),
        ];
        entries.extend(turned_entries(&done.turned));
        Ok(self.with_notes(entries, &options))
    }

    /// What goes into one request.
    fn select(mut self) -> Result<Json, Failure> {
        let options = self.options()?;
        let (key, list) = self.shown()?;
        let turn = self.turn_request(&key, &list)?;
        let head = self.params.number("head")?.unwrap_or(0);
        let request = SelectRequest {
            turn,
            head: usize::try_from(head).unwrap_or(usize::MAX).min(list.0.len()),
            budget_tokens: self.params.number("budget_tokens")?.unwrap_or(0),
            model: options.model.clone(),
            query: self.params.text("query")?,
            scope: scope_of(&key.owner),
            folding: options.folding.clone(),
            recall: options.recall,
        };
        let done = self.client.engine.select(&request).map_err(failed)?;
        // What is selected is for one request: the next difference is still to what was sent.
        let splices = done.messages.as_ref().map_or(Json::Null, |messages| list.changed(messages).1);
        let recalled = done.recalled.iter().map(json::recalled).collect();
        let entries = vec![
            ("base", self.keep(&key, list)),
            ("splices", splices),
            ("reason", done.reason.map_or(Json::Null, Json::from)),
            ("tokens_before", done.tokens_before.into()),
            ("tokens_after", done.tokens_after.into()),
            ("recalled", Json::Array(recalled)),
        ];
        Ok(self.with_notes(entries, &options))
    }

    /// Every original behind a list.
    fn behind(mut self) -> Result<Json, Failure> {
        let (key, list) = self.shown()?;
        let behind = self.client.engine.behind(&scope_of(&key.owner), &list.0).map_err(failed)?;
        let messages = behind.iter().map(|message| Json::parse(message).unwrap_or(Json::Null)).collect();
        Ok(Json::object([("base", self.keep(&key, list)), ("messages", Json::Array(messages))]))
    }

    /// What a provider says that the newest list cost.
    fn usage(mut self) -> Result<Json, Failure> {
        let key = self.session()?;
        let model = self.params.needed_text("model")?;
        let tokens = self.params.needed_number("prompt_tokens")?;
        self.client.engine.report_usage(&key, &model, tokens);
        Ok(Json::Object(Vec::new()))
    }

    /// The tools that an agent is offered.
    fn tools(mut self) -> Result<Json, Failure> {
        let all = self.params.flag("all")? || self.client.settings.flag("tools.all");
        Ok(Json::object([("tools", Json::Array(tools::schemas(all)))]))
    }

    /// A tool's answer. What the conversation said up to now is taken in first, so that it is found.
    fn tool(mut self) -> Result<Json, Failure> {
        let name = self.params.needed_text("name")?;
        let arguments = self.params.take("arguments").unwrap_or_else(|| Json::Object(Vec::new()));
        // Hosts hand on what the model wrote: an object, or its text.
        let arguments = match &arguments {
            Json::String(text) => text.to_str_lossy().into_owned().into_bytes(),
            other => other.to_text(),
        };
        let key = self.session()?;
        let base = match self.params.take("list") {
            None => None,
            Some(list) => {
                let list = lock(&self.connection.bases).list(&key, list)?;
                let request = self.turn_request(&key, &list)?;
                self.take_in(&request)?;
                Some(self.keep(&key, list))
            }
        };
        let reader = self.reader(key)?;
        let mut bounds = ToolBounds::default();
        if let Some(tokens) = self.params.number("tokens_max")? {
            bounds.tokens_max = tokens;
        }
        if let Some(chars) = self.params.number("chars_max")? {
            bounds.chars_max = usize::try_from(chars).unwrap_or(usize::MAX);
        }
        let summarizer = self.summarizer()?;
        let told = self.client.engine.call_tool(&ToolCall {
            name: &name,
            arguments: &arguments,
            reader,
            bounds,
            model: summarizer.as_deref(),
            by: self.client.by.clone(),
            now_ms: moment::now_ms(),
        });
        let mut entries = vec![("text", told.text.into()), ("is_error", told.is_error.into())];
        entries.extend(base.map(|base| ("base", base)));
        Ok(Json::object(entries))
    }

    /// How the store is, the session, and what is in force.
    fn status(mut self) -> Result<Json, Failure> {
        let options = self.options()?;
        let engine = &self.client.engine;
        let spending = self.client.settings.spending();
        let everything = Scope::everything();
        let now_ms = moment::now_ms();
        let status = engine.status().map_err(failed)?;
        let ever = engine.spent(&everything, None).map_err(failed)?;
        let now = engine.spent(&everything, Some(spending.since_ms(now_ms))).map_err(failed)?;
        let Json::Object(mut entries) = json::status(&status, &ever, &now, &spending) else {
            return Err(Failure::new(Failure::BUG, "a status is an object"));
        };
        entries.push(("options".into(), options.in_force()));
        if let Some(key) = self.optional_session()? {
            let session = engine.session_named(&key).map_err(failed)?;
            let told = match session {
                None => Json::Null,
                Some(session) => {
                    let scope = everything.in_sessions(vec![session.id]);
                    let told = engine.describe_session(&scope, session.id).map_err(failed)?;
                    Json::object(json::session_entry(&told.entry))
                }
            };
            entries.push(("session".into(), told));
        }
        Ok(Json::Object(entries))
    }

    /// A request of a hook of LibreFang, answered with what the hook writes.
    fn hook(mut self) -> Result<Reply, Failure> {
        let request = match self.params.take("request") {
            Some(request @ Json::Object(_)) => request,
            Some(_) => return Err(wrong("request", "an object")),
            None => return Err(missing("request")),
        };
        let Client { engine, settings, model, .. } = self.client;
        let text = self.server.answer_hook(engine, settings, model.clone(), request);
        text.map(Reply::Text).map_err(|error| failure_of(&error))
    }

    // ---- parameters that several verbs have

    fn options(&mut self) -> Result<CallOptions, Failure> {
        CallOptions::read(&mut self.params, &self.client.settings)
    }

    fn optional_session(&mut self) -> Result<Option<SessionKey>, Failure> {
        self.params.object("session")?.map(key_of).transpose()
    }

    fn session(&mut self) -> Result<SessionKey, Failure> {
        self.optional_session()?.ok_or_else(|| missing("session"))
    }

    /// The session and the list of a call.
    fn shown(&mut self) -> Result<(SessionKey, Arc<List>), Failure> {
        // A list may be weighed that is nobody's.
        let key = self.optional_session()?.unwrap_or_default();
        let list = self.params.take("list").ok_or_else(|| missing("list"))?;
        let list = lock(&self.connection.bases).list(&key, list)?;
        Ok((key, list))
    }

    fn turn_request(&mut self, key: &SessionKey, list: &List) -> Result<TurnRequest, Failure> {
        if key.name.is_empty() {
            return Err(missing("session.name"));
        }
        let time_ms = self.params.take("time_ms");
        let now_ms = match time_ms {
            None => moment::now_ms(),
            Some(time) => time.as_i64().ok_or_else(|| wrong("time_ms", "milliseconds since 1970"))?,
        };
        Ok(TurnRequest {
            key: key.clone(),
            source: self.client.host.clone(),
            dialect: None,
            messages: list.0.clone(),
            by: self.client.by.clone(),
            now_ms,
        })
    }

    fn take_in(&self, request: &TurnRequest) -> Result<Turned, Failure> {
        let turned = match self.client.engine.turn(request) {
            // There is nothing to keep of it, and nothing to remember.
            Err(EngineError::NothingSaid(_)) => Turned { key: request.key.clone(), ..Turned::default() },
            told => told.map_err(failed)?,
        };
        self.follow(&turned);
        Ok(turned)
    }

    /// Lets the index follow what was written.
    fn follow(&self, turned: &Turned) {
        if let Some((_, last)) = turned.numbers {
            self.client.engine.follow(last);
        }
    }

    /// Keeps a list as a base; gives its name.
    fn keep(&self, key: &SessionKey, list: Arc<List>) -> Json {
        lock(&self.connection.bases).put(key, list).into()
    }

    /// Who is asked for texts in this call; `None` for nobody.
    fn summarizer(&mut self) -> Result<Option<Box<dyn Summarizer>>, Failure> {
        let host_is_asked = match self.params.has("summarize") {
            true => self.params.flag("summarize")?,
            false => self.client.summarizes,
        };
        if host_is_asked && self.client.summarizes {
            let (connection, cancel) = (self.connection.clone(), self.call.cancel.clone());
            let id: CallId = self.call.id.clone();
            return Ok(Some(Box::new(HostSummarizer::new(connection, id, cancel))));
        }
        Ok(self.client.model.clone().map(|model| Box::new(Shared(model)) as Box<dyn Summarizer>))
    }

    fn reader(&mut self, key: SessionKey) -> Result<Reader, Failure> {
        let engine = &self.client.engine;
        let session = engine.session_named(&key).map_err(failed)?.map(|session| session.id);
        let mut given = Vec::new();
        if let Some(names) = self.params.take("given") {
            let Json::Array(names) = names else { return Err(wrong("given", "an array of sessions")) };
            for name in names {
                let Json::Object(_) = name else { return Err(wrong("given", "an array of sessions")) };
                given.extend(engine.session_named(&key_of(Params::new(name))?).map_err(failed)?.map(|found| found.id));
            }
        }
        let is_confined = self.params.flag("confined")?;
        let sees = if self.client.settings.flag("tools.all_owners") { Sees::All } else { Sees::Own };
        Ok(Reader { owner: key.owner, session, given, is_confined, sees, is_outside: false })
    }

    fn with_notes(&self, mut entries: Vec<(&'static str, Json)>, options: &CallOptions) -> Json {
        let notes = options.notes();
        if !notes.is_empty() {
            entries.push(("notes", texts(&notes)));
        }
        Json::object(entries)
    }
}

/// A model that several calls share.
struct Shared(Arc<dyn Summarizer>);

impl Summarizer for Shared {
    fn model(&self) -> &str {
        self.0.model()
    }

    fn summarize(
        &self,
        prompt: &lcm_engine::compress::summary::SummaryPrompt,
    ) -> Result<String, lcm_engine::compress::summary::SummarizerError> {
        self.0.summarize(prompt)
    }
}

fn key_of(mut session: Params) -> Result<SessionKey, Failure> {
    let agent = session.text("agent")?.unwrap_or_else(|| DEFAULT_AGENT.to_owned());
    let person = session.text("person")?.unwrap_or_else(|| DEFAULT_PERSON.to_owned());
    let name = session.needed_text("name")?;
    for (what, name) in [("agent", &agent), ("person", &person), ("name", &name)] {
        check_name(what, name)?;
    }
    Ok(SessionKey { owner: Owner { agent, person }, name })
}

fn check_name(what: &str, name: &str) -> Result<(), Failure> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(wrong(what, &format!("1 to {NAME_BYTES_MAX} bytes long")));
    }
    Ok(())
}

/// All that an owner said.
fn scope_of(owner: &Owner) -> Scope {
    let pattern = OwnerPattern { agent: Some(owner.agent.clone()), person: Some(owner.person.clone()) };
    Scope { owners: Owners::Matching(vec![pattern]), sessions: Vec::new(), branches: Branches::All }
}

fn texts(texts: &[String]) -> Json {
    Json::Array(texts.iter().map(|text| json::text(text)).collect())
}

fn turned_entries(turned: &Turned) -> Vec<(&'static str, Json)> {
    let session = Json::object([
        ("agent", json::text(&turned.key.owner.agent)),
        ("person", json::text(&turned.key.owner.person)),
        ("name", json::text(&turned.key.name)),
    ]);
    vec![
        ("session", session),
        ("new", turned.new.into()),
        ("revised", turned.revised.into()),
        ("late", turned.late.into()),
        ("branched", turned.branched.into()),
        ("published", turned.published.into()),
        ("tokens", turned.tokens.into()),
    ]
}

fn failed(error: EngineError) -> Failure {
    failure_of(&error.into())
}

/// What an error of ours is on the wire: one sentence, and what to do.
pub(super) fn failure_of(error: &CliError) -> Failure {
    let code = match error {
        CliError::Engine(EngineError::Store(StoreError::Busy { .. })) => Failure::BUSY,
        CliError::Engine(EngineError::Store(StoreError::GivenUp)) => Failure::CANCELLED,
        CliError::Engine(EngineError::Message(_)) => Failure::MESSAGE,
        error => match error.exit_code() {
            exit::USAGE | exit::NOTHING => Failure::PARAMETER,
            exit::BUG => Failure::BUG,
            _ => Failure::STORE,
        },
    };
    let failure = Failure::new(code, error.told());
    if code == Failure::BUSY { failure.with("retry", true.into()) } else { failure }
}
