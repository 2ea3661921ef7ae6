//! What a reader may see, and what the names in a call mean within that.
//!
//! Every read of a tool goes through a scope made here. A reader sees what its owner said, in every session; one that is
//! confined sees its own session and those that were given to it. Whatever is not named clearly is nothing: no owner,
//! no session, a session of somebody else. A name, a number or a handle of something out of scope is answered like one
//! that nobody ever had.

use lcm_core::{Arrival, Owner, SessionId};
use lcm_store::{Branches, OwnerPattern, Owners, Placed, Scope, Session, Snapshot, StoreError};

use super::ToolError;
use super::arguments::short;
use super::message::is_name;
use crate::find;
use crate::service::{Entry, Reader, Sees};

/// Nodes that a text may mean before it says too little.
const AMBIGUOUS_MAX: usize = 4;
/// A session that is named is looked for among so many by the beginning of its name; more are told by number or whole name.
const NAMED_MAX: usize = 5;

/// A reader in one snapshot.
pub(super) struct Access<'s> {
    snapshot: &'s Snapshot,
    owner: Option<Owner>,
    sees: Sees,
    /// Whose messages that is; `None` for nobody's.
    seen: Option<OwnerPattern>,
    is_confined: bool,
    /// Whether "this conversation" means all that may be read.
    pub(super) is_outside: bool,
    /// The conversation in which the call is made, when it is the reader's.
    pub(super) own: Option<Session>,
    given: Vec<Session>,
}

impl<'s> Access<'s> {
    pub(super) fn new(snapshot: &'s Snapshot, reader: &Reader) -> Result<Self, ToolError> {
        let is_named = !reader.owner.agent.is_empty() && !reader.owner.person.is_empty();
        let owner = is_named.then(|| reader.owner.clone());
        let agent = Some(reader.owner.agent.clone()).filter(|agent| !agent.is_empty());
        let seen = match reader.sees {
            Sees::All => Some(OwnerPattern { agent: None, person: None }),
            Sees::Agent => agent.map(|agent| OwnerPattern { agent: Some(agent), person: None }),
            Sees::Own => {
                owner.clone().map(|Owner { agent, person }| OwnerPattern { agent: Some(agent), person: Some(person) })
            }
        };
        let mut access = Self {
            snapshot,
            owner,
            sees: reader.sees,
            seen,
            is_confined: reader.is_confined,
            is_outside: reader.is_outside && reader.session.is_none(),
            own: None,
            given: Vec::new(),
        };
        if let Some(id) = reader.session {
            // A host that names a session of another owner is wrong about one of the two.
            access.own = access.known(id)?.filter(|session| access.owns(session));
        }
        for id in &reader.given {
            access.given.extend(access.known(*id)?);
        }
        Ok(access)
    }

    fn known(&self, id: SessionId) -> Result<Option<Session>, ToolError> {
        match self.snapshot.session(id) {
            Ok(session) => Ok(Some(session)),
            Err(StoreError::NoSession(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn owns(&self, session: &Session) -> bool {
        let is = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
        self.seen
            .as_ref()
            .is_some_and(|seen| is(&seen.agent, &session.owner.agent) && is(&seen.person, &session.owner.person))
    }

    fn owners<'o>(&self, owners: impl Iterator<Item = &'o Owner>) -> Owners {
        if self.sees == Sees::All {
            return Owners::All;
        }
        let mut patterns: Vec<OwnerPattern> = Vec::new();
        for owner in owners {
            let pattern = OwnerPattern { agent: Some(owner.agent.clone()), person: Some(owner.person.clone()) };
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        Owners::Matching(patterns)
    }

    /// Everything that the reader may see; `None` for nothing.
    pub(super) fn all(&self) -> Result<Option<Scope>, ToolError> {
        let seen = match &self.seen {
            Some(seen) if !self.is_confined => seen.clone(),
            _ => {
                let sessions: Vec<&Session> = self.own.iter().chain(&self.given).collect();
                return Ok(self.of(&sessions, Branches::All));
            }
        };
        let is_foreign = |session: &&Session| !self.owns(session);
        let owners = if self.sees == Sees::All { Owners::All } else { Owners::Matching(vec![seen]) };
        let scope = Scope { owners, sessions: Vec::new(), branches: Branches::All };
        let foreign: Vec<&Session> = self.given.iter().filter(is_foreign).collect();
        if foreign.is_empty() {
            return Ok(Some(scope));
        }
        // What was given is one session of another owner and no more of theirs: all that may be seen is named.
        let own = self.snapshot.sessions(&scope)?;
        let sessions: Vec<&Session> = own.iter().chain(foreign).collect();
        Ok(self.of(&sessions, Branches::All))
    }

    /// The conversation, with what it shares with others and without what was taken back; `None` for none.
    pub(super) fn current(&self) -> Option<Scope> {
        self.of(&self.own.iter().collect::<Vec<_>>(), Branches::Standing)
    }

    /// Sessions that the reader may see; `None` for none.
    pub(super) fn of(&self, sessions: &[&Session], branches: Branches) -> Option<Scope> {
        if sessions.is_empty() {
            return None;
        }
        let owners = self.owners(sessions.iter().map(|session| &session.owner));
        Some(Scope { owners, sessions: sessions.iter().map(|session| session.id).collect(), branches })
    }

    /// The sessions of a scope that came from one program or file; `None` for none.
    pub(super) fn of_source(&self, scope: &Scope, source: &str) -> Result<Option<Scope>, ToolError> {
        let mut sessions = self.snapshot.sessions(scope)?;
        sessions.retain(|session| session.source == source);
        Ok(self.of(&sessions.iter().collect::<Vec<_>>(), scope.branches))
    }

    /// The session that a text names.
    pub(super) fn session(&self, text: &str) -> Result<Session, ToolError> {
        let none = || ToolError::Said(format!("there is no session {:?} that can be read here", short(text)));
        let text = text.trim();
        // What nearly every call names.
        let near = self.own.iter().chain(&self.given);
        if let Some(session) = near.clone().find(|session| session.name == text) {
            return Ok(session.clone());
        }
        let Some(scope) = self.all()? else { return Err(none()) };
        if let (Some(owner), false) = (&self.owner, self.is_confined)
            && let Some(session) = self.snapshot.session_named(owner, text)?
        {
            return Ok(session);
        }
        let mut found = if text.is_empty() { Vec::new() } else { find::sessions(self.snapshot, &scope, text)? };
        match found.len() {
            0 => Err(none()),
            1 => Ok(found.remove(0)),
            count => {
                let told = |session: &Session| match is_name(&session.name) {
                    true => format!("#{} {}", session.id, session.name),
                    false => format!("#{}", session.id),
                };
                let names = found.iter().take(NAMED_MAX).map(told).collect::<Vec<_>>().join(", ");
                Err(ToolError::Said(format!("{:?} can mean {count} sessions: {names}; name one of them", short(text))))
            }
        }
    }

    /// The node that a text names: a handle, alone or in a text, `node 17`, or a number.
    pub(super) fn node(&self, text: &str) -> Result<Entry, ToolError> {
        let none = || ToolError::Said(format!("there is nothing under {:?} that can be read here", short(text)));
        let Some(scope) = self.all()? else { return Err(none()) };
        let mut found = find::nodes(self.snapshot, &scope, text, AMBIGUOUS_MAX)?;
        match found.len() {
            0 => Err(none()),
            1 => Ok(found.remove(0)),
            _ => {
                let ids: Vec<String> =
                    found.iter().map(|entry| format!("{} {:.24}", kind(entry), entry.handle.id)).collect();
                let ids = ids.join(", ");
                Err(ToolError::Said(format!("{:?} can mean several: {ids}; give more digits", short(text))))
            }
        }
    }

    /// The summary with a small number, else what [`Access::node`] finds.
    pub(super) fn summary_or_node(&self, text: &str) -> Result<Entry, ToolError> {
        let digits = text.trim();
        let is_number = !digits.is_empty() && digits.len() < 19 && digits.bytes().all(|c| c.is_ascii_digit());
        if !is_number {
            return self.node(text);
        }
        let found = self.node(&format!("node {digits}"));
        found.map_err(|error| match error {
            ToolError::Said(_) => {
                ToolError::Said(format!("there is nothing under {:?} that can be read here", short(text)))
            }
            error => error,
        })
    }

    /// Who reads, for the stamp of a cursor. It does not say which sessions there are: they become more meanwhile.
    pub(super) fn written(&self) -> String {
        let given = self.given.iter().map(|session| session.id).collect::<Vec<_>>();
        let own = self.own.as_ref().map(|session| session.id);
        // Cursors stay valid for ever, so what this gave before there were agents stays as it was.
        let agent = self.seen.as_ref().filter(|_| self.sees == Sees::Agent).map(|seen| format!(" {seen:?}"));
        let (agent, sees_all) = (agent.unwrap_or_default(), self.sees == Sees::All);
        format!("{:?} {own:?} {given:?} {} {sees_all}{agent}", self.owner, self.is_confined)
    }

    /// What stands at a number.
    pub(super) fn place(&self, number: Arrival) -> Result<Option<Placed>, ToolError> {
        let Some(scope) = self.all()? else { return Ok(None) };
        Ok(self.snapshot.find_place(&scope, number)?)
    }

    /// Whether a session is the one in which the call is made.
    pub(super) fn is_own(&self, session: SessionId) -> bool {
        self.own.as_ref().is_some_and(|own| own.id == session)
    }
}

/// A session as answers name it, in a way that calls can name it too. Hosts take names from titles and files, so
/// whatever could be more than a name is told by number only.
pub(super) fn name_of(session: &Session) -> String {
    if is_name(&session.name) { session.name.clone() } else { format!("#{}", session.id) }
}

fn kind(entry: &Entry) -> &'static str {
    if entry.summary.is_some() { "sum" } else { "msg" }
}
