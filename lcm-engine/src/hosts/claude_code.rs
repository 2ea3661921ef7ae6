//! Session files of Claude Code: JSON lines that form a tree.
//!
//! A line with a `uuid` is a node and names its parent; lines of type `user` and `assistant` hold a message. The
//! message is kept as it stands under `message`; the rest of its line (ids, time, folder, what a tool returned in its
//! own form) stays with the place. Lines of other types are counted and passed over.
//!
//! From the tree to lists:
//! * One answer of the model is written as several lines, one a block, and the results of its calls hang on
//!   different ones of them. All lines of an answer and the results of its calls are therefore one *step*, in the
//!   order of the file; what forks inside a step is no fork of the conversation.
//! * The way from the first step to the step of the last message is the session; a step that is not on it was taken
//!   back, and is kept on a path that shares the beginning.
//! * What a sub-agent said (`isSidechain`) is a session of its own.
//! * A parent that is not in the file, because its line is broken or in another file, is replaced by the line
//!   before: a gap must not tear a session in two.

use std::collections::{HashMap, HashSet};

use lcm_core::{Json, JsonString, Message, Role};

use super::lines::{Lines, NumberedLine};
use super::{DecodeError, DecodeOptions, Decoded, Fault, Incoming, IncomingMessage, Path, Sink, Spot, Tally, time};

/// A line that was read.
enum Item {
    Node(Box<Node>),
    /// No node: its type.
    Passed(String),
    Fault(Fault),
}

/// A line with a `uuid`.
struct Node {
    line: u64,
    uuid: String,
    parent: Parent,
    /// `None` for a line that is in the tree and says nothing.
    message: Option<IncomingMessage>,
    /// What the line is, when it says nothing.
    kind: String,
    /// The sub-agent, for a line of one; its name may be missing.
    agent: Option<Option<String>>,
    session: Option<String>,
    /// The id of the model's answer that this line is a part of.
    answer: Option<String>,
    /// Ids of the calls it makes.
    calls: Vec<String>,
    /// Ids of the calls it has results of.
    results: Vec<String>,
}

enum Parent {
    Root,
    Of(String),
}

/// Decodes a session file.
pub(super) fn decode(lines: &mut Lines<'_>, options: &DecodeOptions, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
    let mut tree = Tree::default();
    let mut passed = Tally::default();
    while let Some(items) = lines.batch(parse, Item::Fault) {
        for item in items {
            match item {
                Item::Fault(fault) => sink(Decoded::Fault(fault))?,
                Item::Passed(kind) => passed.count(kind),
                Item::Node(node) => match tree.add(*node) {
                    Added::New => {}
                    Added::Silent(kind) => passed.count(kind),
                    Added::Repeated => passed.count("repeated line".to_owned()),
                },
            }
        }
    }
    for incoming in tree.into_sessions(options) {
        sink(Decoded::Session(incoming))?;
    }
    passed.tell(sink)?;
    lines.fault().map_or(Ok(()), |fault| sink(Decoded::Fault(fault)))
}

fn parse(line: &NumberedLine<'_>) -> Item {
    let spot = Spot::Line(line.number);
    let value = match Json::parse(line.text) {
        Ok(value) => value,
        Err(error) => return Item::Fault(Fault::lost(spot, format_args!("it is not JSON: {error}"))),
    };
    let Json::Object(entries) = value else {
        return Item::Fault(Fault::lost(spot, "it is JSON, and no object"));
    };
    let (mut said, mut beside) = (None, Vec::with_capacity(entries.len()));
    for (key, value) in entries {
        // Of a key that occurs twice the last one counts.
        if key.as_str() == Some("message") && value.as_object().is_some() {
            said = Some(value);
        } else {
            beside.push((key, value));
        }
    }
    let beside = Json::Object(beside);
    let text = |key: &str| beside.get(key).and_then(Json::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let kind = text("type").unwrap_or_else(|| "line without a type".to_owned());
    let Some(uuid) = text("uuid") else {
        // Never seen with a message; should it come, it is better named than lost.
        return match said {
            Some(_) => Item::Fault(Fault::lost(spot, "it holds a message and has no uuid")),
            None => Item::Passed(kind),
        };
    };
    let mut node = Node {
        line: line.number,
        uuid,
        parent: text("parentUuid").or_else(|| text("logicalParentUuid")).map_or(Parent::Root, Parent::Of),
        message: None,
        agent: (beside.get("isSidechain").and_then(Json::as_bool) == Some(true)).then(|| text("agentId")),
        session: text("sessionId"),
        answer: None,
        calls: Vec::new(),
        results: Vec::new(),
        kind,
    };
    if let Some(said) = said {
        let seen_ms = beside.get("timestamp").and_then(time::from_json);
        if let Err(error) = node.say(said, beside, seen_ms) {
            return Item::Fault(Fault::lost(spot, error));
        }
    }
    Item::Node(Box::new(node))
}

impl Node {
    fn say(&mut self, said: Json, beside: Json, seen_ms: Option<i64>) -> Result<(), lcm_core::MessageError> {
        let message = Message::from_json(said)?;
        let blocks = message.get("content").and_then(Json::as_array).unwrap_or_default();
        let ids = |kind: &str, key: &str| -> Vec<String> {
            let of_kind = blocks.iter().filter(|block| block.get("type").and_then(Json::as_str) == Some(kind));
            of_kind.filter_map(|block| block.get(key).and_then(Json::as_str).map(str::to_owned)).collect()
        };
        match message.role() {
            Role::Assistant => {
                self.calls = ids("tool_use", "id");
                self.answer = message.get("id").and_then(Json::as_str).map(str::to_owned);
            }
            Role::User => self.results = ids("tool_result", "tool_use_id"),
            _ => {}
        }
        let beside: Vec<(JsonString, Json)> = if let Json::Object(entries) = beside { entries } else { Vec::new() };
        let message = IncomingMessage::new(&message)?.with_source(beside);
        self.message = Some(IncomingMessage { seen_ms, ..message });
        Ok(())
    }
}

/// Lines that belong together: an answer of the model and the results of its calls, or one other message.
struct Step {
    parent: Option<usize>,
    /// Its messages, as indexes, in the order of the file.
    messages: Vec<usize>,
    /// The line of the last of them.
    last_line: u64,
    answer: Option<String>,
    calls: HashSet<String>,
    /// Calls whose results are here.
    answered: HashSet<String>,
    /// Which conversation: the session, or a sub-agent's.
    chain: usize,
    /// This step, or the next above it that says something: what a program notes stands between a call and its result.
    speaking: usize,
}

/// One conversation in the file: the session, or what one sub-agent did.
struct Chain {
    /// A sub-agent's.
    name: Option<String>,
    session: Option<String>,
    is_side: bool,
    /// The step that the line before it belongs to.
    last_step: usize,
}

#[derive(Default)]
struct Tree {
    /// The step and the message of each line, by uuid.
    by_uuid: HashMap<String, (usize, Option<usize>)>,
    steps: Vec<Step>,
    chains: Vec<Chain>,
    /// Whether it is a sub-agent's and its name, to its number.
    by_name: HashMap<(bool, Option<String>), usize>,
    messages: Vec<IncomingMessage>,
}

enum Added {
    New,
    /// It says nothing: its type.
    Silent(String),
    /// The same line was there.
    Repeated,
}

impl Tree {
    fn add(&mut self, node: Node) -> Added {
        if let Some(&(_, known)) = self.by_uuid.get(&node.uuid) {
            let before = known.map(|known| self.messages[known].id());
            if before == node.message.as_ref().map(IncomingMessage::id) {
                return Added::Repeated;
            }
            // The same uuid with another message: the program rewrote history. Both are kept, side by side; lines
            // behind go on from the first.
        }
        let parent = self.parent_of(&node);
        let chain = match parent {
            Some(step) => self.steps[step].chain,
            None => self.new_chain(&node),
        };
        if self.chains[chain].session.is_none() {
            self.chains[chain].session.clone_from(&node.session);
        }
        let message = node.message.map(|message| {
            self.messages.push(message);
            self.messages.len() - 1
        });
        let step = match parent.map(|parent| self.steps[parent].speaking) {
            Some(above) if self.steps[above].takes(node.answer.as_deref(), &node.results) => above,
            above => {
                let number = self.steps.len();
                self.steps.push(Step {
                    parent,
                    messages: Vec::new(),
                    last_line: node.line,
                    answer: node.answer,
                    calls: HashSet::new(),
                    answered: HashSet::new(),
                    chain,
                    speaking: if message.is_some() { number } else { above.unwrap_or(number) },
                });
                number
            }
        };
        let whole = &mut self.steps[step];
        whole.messages.extend(message);
        whole.last_line = node.line;
        whole.calls.extend(node.calls);
        whole.answered.extend(node.results);
        self.chains[chain].last_step = step;
        self.by_uuid.entry(node.uuid).or_insert((step, message));
        if message.is_some() { Added::New } else { Added::Silent(node.kind) }
    }

    /// The step a line goes on from. A sub-agent's first line may name the call that began it; that is where it comes
    /// from, not what it goes on with.
    fn parent_of(&self, node: &Node) -> Option<usize> {
        let Parent::Of(uuid) = &node.parent else { return None };
        let is_side = node.agent.is_some();
        let named = self.by_uuid.get(uuid).map(|(step, _)| *step);
        if let Some(step) = named.filter(|step| self.chains[self.steps[*step].chain].is_side == is_side) {
            return Some(step);
        }
        let same = self.by_name.get(&(is_side, node.agent.clone().flatten()))?;
        Some(self.chains[*same].last_step)
    }

    /// The conversation that a line without a parent begins, or begins anew.
    fn new_chain(&mut self, node: &Node) -> usize {
        // An agent without a name is told by its first line.
        let name = node.agent.as_ref().map(|name| name.clone().unwrap_or_else(|| node.uuid.clone()));
        let is_side = node.agent.is_some();
        let next = self.chains.len();
        let number = *self.by_name.entry((is_side, name.clone())).or_insert(next);
        if number == next {
            let session = node.session.clone();
            self.chains.push(Chain { name, session, is_side, last_step: self.steps.len() });
        }
        number
    }

    fn into_sessions(self, options: &DecodeOptions) -> Vec<Incoming> {
        let Self { steps, chains, messages, .. } = self;
        let mut messages: Vec<Option<IncomingMessage>> = messages.into_iter().map(Some).collect();
        let mut sessions = Vec::new();
        for (chain, leaves) in chains.iter().zip(leaves(&steps, chains.len())) {
            let paths = paths(&steps, leaves);
            // Messages are numbered by session from here on.
            let mut numbers: HashMap<usize, usize> = HashMap::new();
            let mut taken = Vec::new();
            let renumbered = paths.into_iter().map(|path| {
                let own = path.own.iter().map(|&i| {
                    *numbers.entry(i).or_insert_with(|| {
                        taken.extend(messages[i].take());
                        taken.len() - 1
                    })
                });
                Path { own: own.collect(), parent: path.parent }
            });
            let paths: Vec<Path> = renumbered.collect();
            if taken.is_empty() {
                continue;
            }
            let session = chain.session.as_ref().unwrap_or(&options.name);
            let name = match &chain.name {
                None => session.clone(),
                Some(agent) => format!("{session}/{agent}"),
            };
            sessions.push(Incoming {
                name,
                name_is_guess: chain.session.is_none(),
                source: options.source.clone(),
                messages: taken,
                paths,
                ..Incoming::default()
            });
        }
        sessions
    }
}

impl Step {
    /// Whether a line whose parent is in this step is a part of it.
    fn takes(&self, answer: Option<&str>, results: &[String]) -> bool {
        if answer.is_some() {
            return self.answer.as_deref() == answer;
        }
        !results.is_empty() && results.iter().all(|id| self.calls.contains(id) && !self.answered.contains(id))
    }
}

/// The last steps of the ways through each conversation, in the order in which they ended.
fn leaves(steps: &[Step], chains: usize) -> Vec<Vec<usize>> {
    let mut has_child = vec![false; steps.len()];
    for step in steps.iter().filter(|step| !step.messages.is_empty()) {
        let mut above = step.parent;
        // Steps that say nothing stand between; each is passed once, as it then has a child.
        while let Some(parent) = above.filter(|parent| !has_child[*parent]) {
            has_child[parent] = true;
            above = if steps[parent].messages.is_empty() { steps[parent].parent } else { None };
        }
    }
    let mut leaves = vec![Vec::new(); chains];
    for (number, step) in steps.iter().enumerate() {
        if !step.messages.is_empty() && !has_child[number] {
            leaves[step.chain].push(number);
        }
    }
    for leaves in &mut leaves {
        leaves.sort_by_key(|leaf: &usize| steps[*leaf].last_line);
    }
    leaves
}

/// The ways through one conversation: those that were left first, the one to the last message at the end.
fn paths(steps: &[Step], leaves: Vec<usize>) -> Vec<Path> {
    // For each step on a path: the path, and how many messages of it there are up to the end of the step.
    let mut reached: HashMap<usize, (usize, usize)> = HashMap::new();
    let mut paths: Vec<Path> = Vec::new();
    for leaf in leaves {
        let (mut new, mut above) = (Vec::new(), Some(leaf));
        while let Some(step) = above.filter(|step| !reached.contains_key(step)) {
            new.push(step);
            above = steps[step].parent;
        }
        let parent = above.map(|step| reached[&step]);
        let mut path = Path { parent, own: Vec::new() };
        let shared = parent.map_or(0, |(_, shared)| shared);
        for step in new.into_iter().rev() {
            path.own.extend(&steps[step].messages);
            reached.insert(step, (paths.len(), shared + path.own.len()));
        }
        paths.push(path);
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::{self, Format};

    /// A line of a session: its uuid, its parent, its type, what else stands in it, and its message.
    fn line(uuid: &str, parent: &str, kind: &str, beside: &str, message: &str) -> String {
        let parent = if parent.is_empty() { "null".to_owned() } else { format!("{parent:?}") };
        let message = if message.is_empty() { String::new() } else { format!(r#","message":{message}"#) };
        format!(r#"{{"uuid":"{uuid}","parentUuid":{parent},"type":"{kind}","sessionId":"s"{beside}{message}}}"#)
    }

    fn user(uuid: &str, parent: &str) -> String {
        line(uuid, parent, "user", "", &format!(r#"{{"role":"user","content":"{uuid}"}}"#))
    }

    fn call(uuid: &str, parent: &str) -> String {
        let block = format!(r#"{{"type":"tool_use","id":"call-{uuid}","name":"x","input":{{}}}}"#);
        line(uuid, parent, "assistant", "", &format!(r#"{{"id":"answer","role":"assistant","content":[{block}]}}"#))
    }

    fn result(uuid: &str, parent: &str, of: &str) -> String {
        let block = format!(r#"{{"type":"tool_result","tool_use_id":"call-{of}","content":"{uuid}"}}"#);
        line(uuid, parent, "user", "", &format!(r#"{{"role":"user","content":[{block}]}}"#))
    }

    /// The sessions of these lines: name, and the uuids on each of its paths.
    fn sessions(lines: &[String]) -> Vec<(String, Vec<Vec<String>>)> {
        let text = lines.join("\n");
        let (name, source) = ("file".to_owned(), "file".to_owned());
        let options = DecodeOptions { format: Some(Format::ClaudeCode), name, source };
        let mut sessions = Vec::new();
        hosts::decode(&mut text.as_bytes(), &options, &mut |decoded| {
            if let Decoded::Session(incoming) = decoded {
                let uuid = |i: usize| {
                    let volatile = Json::parse(&incoming.messages[i].volatile).unwrap();
                    volatile.get(hosts::SOURCE_KEY).unwrap().get("uuid").unwrap().as_str().unwrap().to_owned()
                };
                let mut paths: Vec<Vec<String>> = Vec::new();
                for path in &incoming.paths {
                    let shared = path.parent.map(|(parent, shared)| paths[parent][..shared].to_vec());
                    let mut all = shared.unwrap_or_default();
                    all.extend(path.own.iter().map(|i| uuid(*i)));
                    paths.push(all);
                }
                sessions.push((incoming.name, paths));
            }
            Ok(())
        })
        .unwrap();
        sessions
    }

    fn paths(all: &[&[&str]]) -> Vec<Vec<String>> {
        all.iter().map(|path| path.iter().map(|uuid| (*uuid).to_owned()).collect()).collect()
    }

    fn session(all: &[&[&str]]) -> Vec<(String, Vec<Vec<String>>)> {
        vec![("s".to_owned(), paths(all))]
    }

    #[test]
    fn an_answer_and_its_results_are_one_step_whatever_stands_between() {
        let note = |uuid, parent| line(uuid, parent, "progress", r#","data":{}"#, "");
        let found = sessions(&[
            user("a", ""),
            call("b", "a"),
            note("n", "b"),
            call("c", "b"),
            result("d", "n", "b"),
            note("m", "c"),
            result("e", "m", "c"),
            user("f", "e"),
        ]);
        assert_eq!(found, session(&[&["a", "b", "c", "d", "e", "f"]]));
    }

    #[test]
    fn a_result_that_comes_twice_is_another_way() {
        let found = sessions(&[user("a", ""), call("b", "a"), result("c", "b", "b"), result("d", "b", "b")]);
        assert_eq!(found, session(&[&["a", "b", "c", "d"]]));
        let found = sessions(&[
            user("a", ""),
            call("b", "a"),
            result("c", "b", "b"),
            user("x", "c"),
            result("d", "b", "b"),
            user("y", "d"),
        ]);
        assert_eq!(found, session(&[&["a", "b", "c", "x"], &["a", "b", "c", "d", "y"]]));
    }

    #[test]
    fn ways_that_were_left_share_their_beginning() {
        let lines = [("a", ""), ("b", "a"), ("c", "b"), ("d", "a"), ("e", "b"), ("f", "e")];
        let found = sessions(&lines.map(|(uuid, parent)| user(uuid, parent)));
        assert_eq!(found, session(&[&["a", "b", "c"], &["a", "d"], &["a", "b", "e", "f"]]));
        // The first prompt was asked anew.
        assert_eq!(sessions(&[user("a", ""), user("b", "")]), session(&[&["a"], &["b"]]));
    }

    #[test]
    fn a_sub_agent_is_a_session_of_its_own_also_when_it_names_the_call_it_comes_from() {
        let side = |uuid, parent, agent: &str| {
            let beside = format!(r#","isSidechain":true,"agentId":"{agent}""#);
            line(uuid, parent, "user", &beside, &format!(r#"{{"role":"user","content":"{uuid}"}}"#))
        };
        let one = [side("x", "a", "one"), side("y", "x", "one")];
        let lines = [&[user("a", "")], &one[..], &[side("z", "", "two"), user("b", "a")]].concat();
        let expected = [
            ("s".to_owned(), paths(&[&["a", "b"]])),
            ("s/one".to_owned(), paths(&[&["x", "y"]])),
            ("s/two".to_owned(), paths(&[&["z"]])),
        ];
        assert_eq!(sessions(&lines), expected);
    }

    #[test]
    fn a_gap_does_not_tear_a_session_in_two() {
        let found = sessions(&[user("a", ""), user("c", "b"), user("d", "c")]);
        assert_eq!(found, session(&[&["a", "c", "d"]]));
    }

    #[test]
    fn a_line_that_was_written_twice_counts_once_and_a_rewritten_one_is_kept() {
        let found = sessions(&[user("a", ""), user("b", "a"), user("b", "a"), user("c", "b")]);
        assert_eq!(found, session(&[&["a", "b", "c"]]));
        let rewritten = user("b", "a").replace("\"content\":\"b\"", "\"content\":\"other\"");
        let found = sessions(&[user("a", ""), user("b", "a"), rewritten, user("c", "b")]);
        assert_eq!(found, session(&[&["a", "b"], &["a", "b", "c"]]));
    }
}
