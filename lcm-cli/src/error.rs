//! What can go wrong, what to do about it, and the exit codes.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use lcm_engine::compress::summary::SummarizerError;
use lcm_engine::error::{EngineError, StoreError};

/// The exit codes.
pub mod exit {
    /// Done; also when whoever reads our output stopped reading it.
    pub const DONE: u8 = 0;
    /// Nothing was found.
    pub const NOTHING: u8 = 1;
    /// Used wrongly: arguments or files that we cannot take.
    pub const USAGE: u8 = 2;
    /// The store: absent, damaged, too new, busy.
    pub const STORE: u8 = 3;
    /// Done in part: what is broken was named and left out.
    pub const PARTLY: u8 = 4;
    /// A bug of ours.
    pub const BUG: u8 = 70;
}

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// Nothing was found.
    Nothing,
    /// Done but for what was named.
    Partly,
    /// A check found faults.
    Damaged,
}

impl Outcome {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Done => exit::DONE,
            Self::Nothing => exit::NOTHING,
            Self::Partly => exit::PARTLY,
            Self::Damaged => exit::STORE,
        }
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// Something the user gave cannot be taken.
    #[error("{what}")]
    Usage {
        /// What is wrong, as a sentence without a full stop.
        what: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// A text that can mean several things.
    #[error("{what}")]
    Ambiguous {
        /// What is wrong, as a sentence without a full stop.
        what: String,
        /// What it can mean, each a line; not always all.
        candidates: Vec<String>,
    },
    /// Something that was named is not there.
    #[error("{what}")]
    NotFound {
        /// What is missing, as a sentence without a full stop.
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// A file could not be read or written.
    #[error("cannot {what} {path}", path = path.display())]
    File {
        /// What we were doing, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Settings that cannot be taken, each a sentence; at least one.
    #[error("{}", settings(.0))]
    Settings(Vec<String>),
    /// The summary model does not answer as it should.
    #[error(transparent)]
    Model(SummarizerError),
    /// The engine or the store.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Our output could not be written.
    #[error("cannot write the output")]
    Output(#[source] io::Error),
    /// Whoever reads our output has stopped reading it.
    #[error("the output was closed")]
    Closed,
}

impl CliError {
    pub(crate) fn usage(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { what: what.into(), hint: Some(hint.into()) }
    }

    pub(crate) fn output(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Closed } else { Self::Output(error) }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } | Self::Ambiguous { .. } | Self::File { .. } | Self::Output(_) => exit::USAGE,
            Self::NotFound { .. } => exit::NOTHING,
            Self::Settings(_) | Self::Model(_) => exit::USAGE,
            Self::Closed => exit::DONE,
            Self::Engine(error) => match error {
                EngineError::Store(StoreError::Pattern(_)) | EngineError::Pattern(_) => exit::USAGE,
                EngineError::Store(StoreError::TooLarge { .. }) | EngineError::OtherCursor { .. } => exit::USAGE,
                EngineError::Message(_) | EngineError::Gap { .. } => exit::USAGE,
                EngineError::NoSession(_)
                | EngineError::NoTimeline { .. }
                | EngineError::NoPlace(_)
                | EngineError::NoOp(_)
                | EngineError::NotBegun { .. }
                | EngineError::NotShown { .. }
                | EngineError::NothingToUndo(_)
                | EngineError::NotOnTimeline { .. } => exit::NOTHING,
                EngineError::NotUndoable { .. }
                | EngineError::OpElsewhere { .. }
                | EngineError::NotASummary(_)
                | EngineError::NotAMessage(_) => exit::USAGE,
                EngineError::NoSuchMessage(_) => exit::BUG,
                _ => exit::STORE,
            },
        }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        let text = |hint: &str| Some(hint.to_owned());
        match self {
            Self::Usage { hint, .. } => hint.clone(),
            Self::Ambiguous { .. } => text("give more of it, or the number"),
            Self::NotFound { hint, .. } => text(hint),
            Self::Settings(_) => text("`lcm-cli config show` lists all settings and where they come from"),
            Self::Model(_) => text("`lcm-cli config show` tells what is set for it, and where"),
            Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                text("look at the name; one that does not begin with / is looked for in the folder you are in")
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                text("look at the owner and the mode of the file, and of the folders above it")
            }
            Self::Engine(error) => engine_hint(error).map(str::to_owned),
            _ => None,
        }
    }

    /// What a text can mean that is not clear, or what all is wrong, each a line.
    pub(crate) fn candidates(&self) -> &[String] {
        match self {
            Self::Ambiguous { candidates, .. } => candidates,
            // One stands in the sentence.
            Self::Settings(problems) if problems.len() > 1 => problems,
            _ => &[],
        }
    }

    /// What is wrong, why, and what to do about it, in one line.
    pub(crate) fn told(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{}; {hint}", self.sentence()),
            None => self.sentence(),
        }
    }

    /// The error and what is behind it, in one line.
    pub(crate) fn sentence(&self) -> String {
        chain(self)
    }
}

/// What is wrong with settings, as a sentence.
fn settings(problems: &[String]) -> String {
    match problems {
        [problem] => problem.clone(),
        problems => format!("{} settings are wrong", problems.len()),
    }
}

/// An error and its sources in one line. A source that only repeats what was said is left out.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut sentence = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let part = source.to_string();
        if !sentence.ends_with(&part) {
            sentence.push_str(": ");
            sentence.push_str(&part);
        }
        next = source.source();
    }
    sentence
}

fn engine_hint(error: &EngineError) -> Option<&'static str> {
    match error {
        EngineError::Pattern(_) | EngineError::Store(StoreError::Pattern(_)) => {
            Some("-F looks for the characters as they stand")
        }
        EngineError::OtherCursor { .. } => {
            Some("go on with the search that gave it, or leave out --cursor to begin anew")
        }
        EngineError::NoSession(_) => Some("`lcm-cli sessions` lists them"),
        EngineError::NoOp(_)
        | EngineError::OpElsewhere { .. }
        | EngineError::NotBegun { .. }
        | EngineError::NotUndoable { .. }
        | EngineError::NothingToUndo(_) => Some("`lcm-cli log SESSION --ops` lists what was done to it"),
        EngineError::NotShown { .. } => {
            Some("`lcm-cli show SESSION --at now` shows what is, `lcm-cli why HANDLE` tells when it was")
        }
        EngineError::NotASummary(_) => Some("`lcm-cli why HANDLE` names the summary that stands for it"),
        EngineError::NotAMessage(_) => Some("`lcm-cli expand HANDLE` lists the messages that it stands for"),
        EngineError::NoTimeline { .. } | EngineError::NotOnTimeline { .. } => {
            Some("`lcm-cli describe SESSION` lists its timelines")
        }
        EngineError::Store(error) => match error {
            StoreError::Absent(_) => {
                Some("`lcm-cli import FILE` makes one; --home or LCM_HOME names another directory")
            }
            StoreError::NotAStore { .. } => Some("name another directory with --home or LCM_HOME"),
            StoreError::Incomplete { .. } => {
                Some("put the whole directory back from a copy; nothing in it was touched")
            }
            StoreError::TooNew { .. } => Some("use the newer lcm-cli that wrote it"),
            StoreError::OtherProtocol(_) => Some("end the program that has it open, or use the same version of lcm"),
            StoreError::Busy { .. } => Some("try again; if it stays like this, a process that holds it is stopped"),
            StoreError::Damaged { .. } | StoreError::DamagedBody(_) | StoreError::DamagedRow { .. } => {
                Some("`lcm-cli check` tells the extent; `lcm-cli export` saves what can be read")
            }
            StoreError::DamagedFile { .. } => {
                Some("`lcm-cli check` tells the extent; what cannot be read has to come from a copy of the store")
            }
            StoreError::Index(_) => Some("`lcm-cli repair index` makes it anew"),
            StoreError::WriterFailed => Some("look for room on the disk, then run it again"),
            StoreError::Unrepaired(_) => {
                Some("run it again; if it stays like this, look for room on the disk and whether it may be written to")
            }
            _ => None,
        },
        _ => None,
    }
}
