//! A store with two engines on it, the hosts that use them, and the model of what must be there.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use lcm_engine::error::EngineError;
use lcm_engine::service::{OwnerPattern, Owners, Scope, SessionKey};
use lcm_engine::{Engine, OpenOptions};
use lcm_store::Branches;
use lcm_tests::folder::folder;
use lcm_tests::random::Random;
use tempfile::TempDir;

use crate::disk::Doomed;
use crate::host::Host;
use crate::model::Model;
use crate::said::Speaker;

/// When a simulation begins.
const NOW_MS: i64 = 1_700_000_000_000;

struct Slot {
    engine: Engine,
    disk: Arc<Doomed>,
}

/// What a call is in for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luck {
    /// The disk ends after so many changes, with the process; or is full from then on.
    Ends {
        after: usize,
        fills: bool,
    },
    /// The process dies once it has its answer.
    Dies,
    Fine,
}

pub(crate) struct World {
    home: TempDir,
    slots: [Option<Slot>; 2],
    pub(crate) random: Random,
    pub(crate) model: Model,
    pub(crate) speaker: Speaker,
    pub(crate) hosts: Vec<Host>,
    pub(crate) steps: u64,
    /// Whether the last call had to be made twice.
    pub(crate) has_crashed: bool,
    /// What was done, for whoever reads a failure.
    pub(crate) told: Vec<String>,
}

pub(crate) fn scope_of(key: &SessionKey) -> Scope {
    let pattern = OwnerPattern { agent: Some(key.owner.agent.clone()), person: Some(key.owner.person.clone()) };
    Scope { owners: Owners::Matching(vec![pattern]), sessions: Vec::new(), branches: Branches::All }
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            home: folder(),
            slots: [None, None],
            random: Random::seeded(seed),
            model: Model::new(),
            speaker: Speaker::new(),
            hosts: Vec::new(),
            steps: 0,
            has_crashed: false,
            told: Vec::new(),
        }
    }

    pub(crate) fn tell(&mut self, what: String) {
        self.told.push(format!("{}: {what}", self.steps));
    }

    pub(crate) fn now_ms(&self) -> i64 {
        NOW_MS + i64::try_from(self.steps).unwrap() * 61_000
    }

    /// One of the two engines, opened when it is not.
    pub(crate) fn engine(&mut self, at: usize) -> &Engine {
        let home = self.home.path();
        let slot = self.slots[at].get_or_insert_with(|| {
            let disk = Doomed::new();
            let options = OpenOptions {
                cache_bytes: 4 << 20,
                wait: Duration::from_secs(20),
                disk: Some(disk.clone()),
                ..OpenOptions::default()
            };
            Slot { engine: Engine::open(home, options).unwrap(), disk }
        });
        &slot.engine
    }

    pub(crate) fn close(&mut self, at: usize) {
        self.slots[at] = None;
    }

    /// Takes the index away, under whoever has it open.
    pub(crate) fn delete_index(&self) {
        let index = self.home.path().join("index");
        if index.exists() {
            fs::remove_dir_all(index).unwrap();
        }
    }

    pub(crate) fn luck(&mut self) -> Luck {
        match self.random.below(100) {
            0..6 => Luck::Ends { after: self.random.below(40), fills: self.random.percent(30) },
            6..9 => Luck::Dies,
            _ => Luck::Fine,
        }
    }

    /// Asks an engine; when its disk ends meanwhile, asks again once the store is open anew, as hosts do.
    pub(crate) fn ask<T>(&mut self, luck: Luck, ask: impl Fn(&Engine) -> Result<T, EngineError>) -> T {
        let at = self.random.below(2);
        self.engine(at);
        self.has_crashed = false;
        if let (Luck::Ends { after, fills }, Some(slot)) = (luck, &self.slots[at]) {
            slot.disk.end_after(after, fills);
        }
        let mut answer = ask(self.engine(at));
        if let Err(error) = &answer
            && matches!(luck, Luck::Ends { .. })
        {
            self.has_crashed = true;
            self.tell(format!("the disk of engine {at} ends: {error}"));
            self.close(at);
            answer = ask(self.engine(at));
        }
        if luck != Luck::Fine {
            if let Some(slot) = &self.slots[at] {
                // A process that is killed writes nothing more when it goes.
                slot.disk.end_after(0, false);
            }
            self.tell(format!("engine {at} ends"));
            self.close(at);
        }
        answer.unwrap_or_else(|error| panic!("{error}: {error:?}"))
    }
}
