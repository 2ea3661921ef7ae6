//! A host: its list, and the older ones it can come back to.

use lcm_engine::hosts::speech::Dialect;
use lcm_engine::service::SessionKey;

use crate::model::{Element, Id};

/// A list as it once was, and the line that it belonged to.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    pub(crate) list: Vec<Element>,
    pub(crate) line: Vec<Id>,
}

/// A host in one session.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) key: SessionKey,
    pub(crate) dialect: Dialect,
    /// Whether its provider wants users and assistants to take turns.
    pub(crate) alternates: bool,
    pub(crate) list: Vec<Element>,
    /// Whether the list shows messages in another order than they were said.
    pub(crate) is_reordered: bool,
    /// Whether its session began with what another one had said.
    pub(crate) is_branch: bool,
    pub(crate) saved: Vec<Saved>,
    /// What a fold that was not taken at once stands for: it, and how much of the list.
    pub(crate) pending: Option<(Vec<Element>, Vec<Element>)>,
}
