//! What a daemon that runs says of lcm, asked over its API on this machine and nowhere else.
//!
//! The program itself has no way to be asked while the daemon is down: its own `doctor` wants the daemon's registry.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use lcm_core::Json;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Method, redirect};

use super::{NAME, SERVER_TOOL};
use crate::commands::doctor::Finding;

/// What one answer may take.
const TIME: Duration = Duration::from_secs(10);
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Of an answer. The list of all tools of all servers is the longest.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Agents that are asked about. Each is two questions.
const AGENTS_MAX: usize = 200;
/// Where a daemon listens when nothing says so.
const LISTEN: &str = "127.0.0.1:4545";

/// A daemon.
pub(super) struct Daemon {
    address: SocketAddr,
    key: Option<String>,
    /// What it says its version is.
    pub(super) version: String,
}

/// An agent as the daemon keeps it.
pub(super) struct Agent {
    pub(super) name: String,
    id: String,
    servers: Vec<String>,
    allowed: Vec<String>,
}

impl Daemon {
    /// The daemon, where it answers; else why it was not asked, as a sentence.
    pub(super) fn find(listen: Option<&str>, key: Option<String>) -> Result<Self, String> {
        let listen = listen.unwrap_or(LISTEN);
        let mut address: SocketAddr = listen
            .parse()
            .map_err(|_| format!("api_listen is {listen:?}, which is no address, so no daemon was asked"))?;
        if address.ip().is_unspecified() {
            address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        if !address.ip().is_loopback() {
            return Err(format!("the daemon listens on {listen}, and only one on this machine is asked"));
        }
        let mut daemon = Self { address, key, version: String::new() };
        let health = daemon.ask(Method::GET, "/api/health", None);
        let health = health.map_err(|_| format!("no daemon answers on {address}, so it was not asked"))?;
        text(&health, "version").unwrap_or_default().clone_into(&mut daemon.version);
        Ok(daemon)
    }

    /// What it says of the plugin, of the engine that it uses, and of the tools.
    pub(super) fn look(&self, is_plugin: bool) -> Vec<Finding> {
        let mut found = Vec::new();
        let again = "start the daemon anew: it reads its settings and its plugins only then";
        if is_plugin {
            found.push(match self.ask(Method::GET, &format!("/api/plugins/{NAME}/lint"), None) {
                Err(why) => Finding::note(
                    "host",
                    why,
                    "its key is LIBREFANG_API_KEY, else api_key of config.toml; its log tells the rest",
                ),
                Ok(lint) if lint.get("ok").and_then(Json::as_bool) == Some(true) => {
                    Finding::fine("host", format!("LibreFang {} accepts the plugin", self.version))
                }
                Ok(lint) => {
                    let errors = lint.get("errors").and_then(Json::as_array).unwrap_or_default();
                    let errors: Vec<&str> = errors.iter().filter_map(Json::as_str).collect();
                    let what = format!("LibreFang {} does not accept the plugin: {}", self.version, errors.join(", "));
                    Finding::wrong("host", what, "`lcm-cli install librefang` writes it anew")
                }
            });
            if let Ok(doctor) = self.ask(Method::GET, "/api/plugins/doctor", None) {
                let plugins = doctor.get("plugins").and_then(Json::as_array).unwrap_or_default();
                let is_in_order = |plugin: &&Json| {
                    ["runtime_available", "hooks_valid"]
                        .iter()
                        .all(|key| plugin.get(key).and_then(Json::as_bool) == Some(true))
                };
                found.push(match plugins.iter().find(|plugin| text(plugin, "name") == Some(NAME)) {
                    Some(plugin) if is_in_order(&plugin) => Finding::fine("host", "it finds its hooks"),
                    Some(_) => Finding::wrong(
                        "host",
                        "it does not find its hooks",
                        "`lcm-cli install librefang` writes them anew",
                    ),
                    None => Finding::wrong("host", "it does not list the plugin lcm", again),
                });
            }
        }
        if let Ok(health) = self.ask(Method::GET, "/api/context-engine/health", None) {
            let active = health.get("active_plugins").and_then(Json::as_array).unwrap_or_default();
            let is_active = active.iter().any(|name| name.as_str() == Some(NAME));
            found.push(match (is_active, is_plugin) {
                (true, true) => Finding::fine("host", "lcm is the engine that it uses"),
                (false, true) => Finding::note("host", "it does not use lcm yet", again),
                (true, false) => Finding::note("host", "it still uses lcm as a plugin", again),
                (false, false) => Finding::fine("host", "it uses no plugin; it does not tell which engine"),
            });
        }
        if let Ok(servers) = self.ask(Method::GET, "/api/mcp/servers", None) {
            let connected = servers.get("connected").and_then(Json::as_array).unwrap_or_default();
            let ours = connected.iter().find(|server| text(server, "name") == Some(NAME));
            let tools = ours.and_then(|server| server.get("tools")?.as_array()).unwrap_or_default();
            found.push(match (ours, tools.iter().any(|tool| text(tool, "name") == Some(SERVER_TOOL))) {
                (Some(_), true) => Finding::fine("tools", "it has lcm's tools"),
                (Some(_), false) => Finding::wrong("tools", "it is connected to lcm and finds no tools there", again),
                (None, _) => Finding::note("tools", "it is not connected to lcm's tools yet", again),
            });
        }
        found
    }

    /// The agents that it keeps.
    pub(super) fn agents(&self) -> Result<Vec<Agent>, String> {
        let listed = self.ask(Method::GET, "/api/agents", None)?;
        let mut agents = Vec::new();
        for agent in listed.get("items").and_then(Json::as_array).unwrap_or_default().iter().take(AGENTS_MAX) {
            let (Some(id), Some(name)) = (text(agent, "id"), text(agent, "name")) else { continue };
            // What goes into a path is only what an id is made of.
            if !id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
                continue;
            }
            let servers = self.ask(Method::GET, &format!("/api/agents/{id}/mcp_servers"), None)?;
            let tools = self.ask(Method::GET, &format!("/api/agents/{id}/tools"), None)?;
            let servers = match text(&servers, "mode") {
                Some("all") => vec!["*".to_owned()],
                _ => names(&servers, "assigned"),
            };
            agents.push(Agent {
                name: name.to_owned(),
                id: id.to_owned(),
                servers,
                allowed: names(&tools, "tool_allowlist"),
            });
        }
        Ok(agents)
    }

    /// Writes what an agent may use.
    pub(super) fn change(&self, agent: &Agent) -> Result<(), String> {
        let list = |names: &[String]| Json::Array(names.iter().map(|name| name.as_str().into()).collect());
        let id = &agent.id;
        let body = Json::object([("mcp_servers", list(&agent.servers))]);
        self.ask(Method::PUT, &format!("/api/agents/{id}/mcp_servers"), Some(&body))?;
        if !agent.allowed.is_empty() {
            let body = Json::object([("tool_allowlist", list(&agent.allowed))]);
            self.ask(Method::PUT, &format!("/api/agents/{id}/tools"), Some(&body))?;
        }
        Ok(())
    }

    /// One question. On a thread and a runtime of its own, so that it can be asked from anywhere.
    fn ask(&self, method: Method, path: &str, body: Option<&Json>) -> Result<Json, String> {
        let answer = std::thread::scope(|scope| {
            let work = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|error| error.to_string())?;
                let asked = runtime.block_on(async {
                    tokio::time::timeout(TIME, self.once(method, path, body))
                        .await
                        .unwrap_or_else(|_| Err("it takes too long".to_owned()))
                });
                runtime.shutdown_background();
                asked
            };
            scope.spawn(work).join().unwrap_or_else(|_| Err("the client of it panicked".to_owned()))
        });
        answer.map_err(|why| format!("the daemon does not tell of {path}: {why}"))
    }

    async fn once(&self, method: Method, path: &str, body: Option<&Json>) -> Result<Json, String> {
        let told = |error: reqwest::Error| error.without_url().to_string();
        // A second client in one process finds the first one's provider, which is the same.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = Client::builder().redirect(redirect::Policy::none()).no_proxy().http1_only();
        let client = client.connect_timeout(CONNECT_TIME).tls_certs_only([]).build().map_err(told)?;
        let mut request = client.request(method, format!("http://{}{path}", self.address));
        if let Some(key) = &self.key {
            let mut bearer =
                HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| "its key is no text for a header")?;
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        if let Some(body) = body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.to_text());
        }
        let mut response = request.send().await.map_err(told)?;
        let status = response.status();
        let mut said = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(told)? {
            if said.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err("its answer is too long".to_owned());
            }
            said.extend_from_slice(&chunk);
        }
        match status.as_u16() {
            200..=299 => Json::parse(&said).map_err(|error| error.to_string()),
            401 | 403 => Err("it wants another key".to_owned()),
            status => {
                let why = Json::parse(&said).ok().and_then(|answer| text(&answer, "error").map(str::to_owned));
                Err(why.unwrap_or_else(|| format!("status {status}")))
            }
        }
    }
}

impl Agent {
    /// Whether it may use lcm's tools.
    pub(super) fn has(&self) -> bool {
        let is_in = |list: &[String], name: &str| list.iter().any(|known| known == name || known == "*");
        let may = |tool: &str| self.allowed.is_empty() || is_in(&self.allowed, tool);
        is_in(&self.servers, NAME) && super::TOOLS.iter().all(|tool| may(tool))
    }

    pub(super) fn add(&mut self) {
        let push = |list: &mut Vec<String>, name: &str| {
            if !list.iter().any(|known| known == name || known == "*") {
                list.push(name.to_owned());
            }
        };
        push(&mut self.servers, NAME);
        if !self.allowed.is_empty() {
            super::TOOLS.iter().for_each(|tool| push(&mut self.allowed, tool));
        }
    }

    /// Takes lcm's tools from it; whether there were any.
    pub(super) fn drop_tools(&mut self) -> bool {
        let was = (self.servers.len(), self.allowed.len());
        self.servers.retain(|name| name != NAME);
        // An empty list would allow everything.
        if !self.allowed.iter().all(|tool| super::TOOLS.contains(&tool.as_str())) {
            self.allowed.retain(|tool| !super::TOOLS.contains(&tool.as_str()));
        }
        was != (self.servers.len(), self.allowed.len())
    }
}

fn text<'a>(value: &'a Json, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Json::as_str)
}

fn names(value: &Json, key: &str) -> Vec<String> {
    let list = value.get(key).and_then(Json::as_array).unwrap_or_default();
    list.iter().filter_map(Json::as_str).map(str::to_owned).collect()
}
