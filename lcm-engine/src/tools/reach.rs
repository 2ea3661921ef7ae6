//! Where a tool looks: what the tools that search call their scope.

use lcm_core::SessionId;
use lcm_store::{Branches, Scope};

use super::ToolError;
use super::access::Access;
use super::arguments::{Arguments, short};

/// Where a call looks.
pub(super) struct Reach {
    /// What was chosen: `current`, `all` or `session`.
    pub(super) name: &'static str,
    /// What may be read of that; `None` for nothing.
    pub(super) scope: Option<Scope>,
    pub(super) is_current: bool,
    /// The session that was named.
    pub(super) session: Option<SessionId>,
    /// The program or file that it was narrowed to.
    pub(super) source: Option<String>,
}

impl Reach {
    /// Reads `session_scope`, `session_id` and `all_conversations`.
    pub(super) fn read(access: &Access<'_>, arguments: &mut Arguments) -> Result<Self, ToolError> {
        let session = arguments.text("session_id")?.filter(|text| !text.trim().is_empty());
        let asked = arguments.choice("session_scope")?;
        let everywhere = arguments.flag("all_conversations")?;
        let name = match asked {
            Some(name) => name,
            None if everywhere => "all",
            None if session.is_some() => "session",
            None if access.is_outside => "all",
            None => "current",
        };
        let name = match name {
            "current" if access.is_outside => {
                arguments.note("calls are made outside of any conversation here, so all were looked through");
                "all"
            }
            name => name,
        };
        let to = |scope, is_current| Self { name, scope, is_current, session: None, source: None };
        match (name, session) {
            ("session", None) => Err(ToolError::Said("session_scope session needs a session_id".to_owned())),
            ("session", Some(text)) => {
                let session = access.session(&text)?;
                let reach = to(access.of(&[&session], Branches::All), access.is_own(session.id));
                Ok(Self { session: Some(session.id), ..reach })
            }
            (_, session) => {
                if session.is_some() {
                    arguments.note(format!("session_id has no effect with session_scope {name}"));
                }
                Ok(if name == "all" { to(access.all()?, false) } else { to(access.current(), true) })
            }
        }
    }
}

/// Reads `exclude_current_session` and `exclude_session_ids`: the sessions that a search leaves out.
pub(super) fn left_out(access: &Access<'_>, arguments: &mut Arguments) -> Result<Vec<SessionId>, ToolError> {
    let mut left_out = Vec::new();
    if arguments.flag("exclude_current_session")? {
        left_out.extend(access.own.iter().map(|session| session.id));
    }
    for text in arguments.texts("exclude_session_ids")? {
        match access.session(&text) {
            Ok(session) => left_out.push(session.id),
            Err(ToolError::Said(_)) => {
                arguments.note(format!("exclude_session_ids: {:?} is no session here", short(&text)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(left_out)
}
