//! Whose messages a call reads.
//!
//! A process is started for somebody, with a scope (`--scope`, `mcp.scope`). Hosts that call for several agents and people
//! say with each call for whom it is, in its metadata; that is never the model's word, and who those are the hooks of that
//! host tell (`Server::who`). Whatever is not named clearly reads nothing.

use lcm_core::Owner;
use lcm_engine::Engine;
use lcm_engine::service::{Reader, Scope, Sees, Service};

use crate::commands;

/// Bytes of a name.
const NAME_BYTES_MAX: usize = 4096;

/// What a process reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OwnScope {
    /// All that the data directory keeps.
    Everything,
    /// What every person said to an agent, and it to them.
    Agent(String),
    /// What one person said to an agent, and it to them.
    Person(Owner),
    /// One session.
    Session(String),
}

impl OwnScope {
    /// Reads a scope as it is set.
    ///
    /// # Errors
    /// What it should be.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wanted = || "a scope is owner, agent=NAME, agent=NAME,person=NAME or session=NAME".to_owned();
        if text.trim() == "owner" {
            return Ok(Self::Everything);
        }
        if let Some(name) = text.strip_prefix("session=") {
            return Ok(Self::Session(checked(name).ok_or_else(wanted)?));
        }
        let rest = text.strip_prefix("agent=").ok_or_else(wanted)?;
        match rest.split_once(",person=") {
            None => Ok(Self::Agent(checked(rest).ok_or_else(wanted)?)),
            Some((agent, person)) => Ok(Self::Person(Owner {
                agent: checked(agent).ok_or_else(wanted)?,
                person: checked(person).ok_or_else(wanted)?,
            })),
        }
    }

    /// Who reads. A session is looked up each time: it may have been made meanwhile.
    ///
    /// # Errors
    /// Why there is nobody, one sentence.
    pub(super) fn reader(&self, engine: &Engine) -> Result<Reader, String> {
        let outside = Reader { is_outside: true, ..Reader::default() };
        Ok(match self {
            Self::Everything => Reader { sees: Sees::All, ..outside },
            Self::Agent(agent) => {
                let owner = Owner { agent: agent.clone(), person: String::new() };
                Reader { owner, sees: Sees::Agent, ..outside }
            }
            Self::Person(owner) => Reader { owner: owner.clone(), ..outside },
            Self::Session(name) => {
                let session = commands::one_session(engine as &dyn Service, &Scope::everything(), name);
                let session = session.map_err(|error| format!("the scope is one session: {}", error.told()))?;
                let (owner, session) = (session.owner, Some(session.id));
                Reader { owner, session, is_confined: true, ..Reader::default() }
            }
        })
    }
}

fn checked(name: &str) -> Option<String> {
    let is_one = !name.trim().is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(",person=");
    is_one.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_is_written_or_not_at_all() {
        let owner = Owner { agent: "a,b".to_owned(), person: "p=q".to_owned() };
        assert_eq!(OwnScope::parse("owner"), Ok(OwnScope::Everything));
        assert_eq!(OwnScope::parse("agent=main"), Ok(OwnScope::Agent("main".to_owned())));
        assert_eq!(OwnScope::parse("agent=a,b,person=p=q"), Ok(OwnScope::Person(owner)));
        assert_eq!(OwnScope::parse("session=#7"), Ok(OwnScope::Session("#7".to_owned())));
        for text in [
            "",
            "all",
            "Owner",
            "agent",
            "agent=",
            "agent= ",
            "person=p",
            "agent=a,person=",
            "session=",
            "agent=a,person=b,person=c",
        ] {
            assert!(OwnScope::parse(text).is_err(), "{text}");
        }
    }
}
