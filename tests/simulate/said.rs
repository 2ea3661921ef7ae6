//! What is said in a simulation: messages of both formats, odd ones among them, and what hosts make of them later.

use lcm_core::Json;
use lcm_engine::hosts::speech::Dialect;
use lcm_tests::random::Random;

/// A message with one text in it that a host may rewrite.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    head: String,
    content: String,
    tail: String,
    /// Whether the message stays known by the ids of its calls or results, whatever becomes of its text.
    pub(crate) has_ids: bool,
    /// Whether the same has been said elsewhere, or may be.
    pub(crate) is_common: bool,
    /// Calls that it leaves open.
    pub(crate) opens: Vec<String>,
}

impl Shape {
    fn new(head: impl Into<String>, content: impl Into<String>, tail: impl Into<String>) -> Self {
        Self {
            head: head.into(),
            content: content.into(),
            tail: tail.into(),
            has_ids: false,
            is_common: false,
            opens: Vec::new(),
        }
    }

    /// The message as JSON text.
    pub(crate) fn text(&self) -> String {
        self.with(&self.content)
    }

    /// The same with halves of surrogate pairs replaced, as it can be sent.
    pub(crate) fn mended(&self) -> Option<String> {
        let text = self.text();
        text.contains("\\ud800").then(|| canonical(text.replace("\\ud800", "\u{fffd}").as_bytes()))
    }

    /// The same message with another text, which is written as it stands between quotation marks.
    fn with(&self, content: &str) -> String {
        format!("{}\"{content}\"{}", self.head, self.tail)
    }

    /// What a host may make of it: clear it, cut it, add to it. `None` where it would be no longer known.
    pub(crate) fn rewritten(&self, random: &mut Random) -> Option<String> {
        let is_plain = self.content.len() >= 12 && !self.content.contains('\\');
        match random.below(3) {
            0 if self.has_ids => Some(self.with("[Old tool result content cleared]")),
            // The word stays: without it the text would be the beginning of others, too.
            1 if is_plain && self.content.len() >= 32 => Some(self.with(&self.content[..self.content.len() - 3])),
            _ if is_plain => Some(self.with(&format!("{} (noted)", self.content))),
            _ => None,
        }
    }
}

/// JSON text, in the one form in which texts are compared.
pub(crate) fn canonical(text: &[u8]) -> String {
    String::from_utf8(Json::parse(text).unwrap().to_text()).unwrap()
}

/// Makes messages. Each has a word of its own, but for those that are said again and again.
pub(crate) struct Speaker {
    said: usize,
}

impl Speaker {
    pub(crate) fn new() -> Self {
        Self { said: 0 }
    }

    /// The word that only the next message has.
    fn word(&mut self) -> String {
        self.said += 1;
        format!("m{}q", self.said)
    }

    fn filler(random: &mut Random) -> String {
        let count = match random.below(20) {
            0..10 => random.below(8),
            10..17 => random.below(60),
            17..19 => random.below(400),
            _ => 1000 + random.below(1500),
        };
        let words =
            ["harbour", "tide", "src/pier.rs", "crane", "failed with exit 1", "42", "must not be painted", "ok"];
        (0..count).map(|_| format!(" {}", random.pick(&words))).collect()
    }

    pub(crate) fn system(&mut self) -> Shape {
        let word = self.word();
        Shape::new(r#"{"role":"system","content":"#, format!("You are the harbour's clerk {word}."), "}")
    }

    pub(crate) fn user(&mut self, dialect: Dialect, random: &mut Random) -> Shape {
        let text = format!("Please look at {}{}", self.word(), Self::filler(random));
        Self::said_by("user", dialect, text)
    }

    /// A user's message as hosts and people also send them.
    pub(crate) fn odd(&mut self, dialect: Dialect, random: &mut Random) -> Shape {
        let mut shape = match random.below(5) {
            // Said again and again, and the same every time.
            0 => Shape { is_common: true, ..Self::said_by("user", dialect, "continue".to_owned()) },
            1 => {
                let text = format!("half \\ud800 of {}{}", self.word(), Self::filler(random));
                Self::said_by("user", dialect, text)
            }
            2 => {
                let text = format!("numbers of {}", self.word());
                let mut shape = Self::said_by("user", dialect, text);
                shape.tail = r#","x":1e400,"y":-0.0,"y":1}"#.to_owned();
                if dialect == Dialect::Anthropic {
                    shape.tail.insert_str(0, "}]");
                }
                shape
            }
            3 => {
                let text = format!("a picture of {}", self.word());
                let image = r#"},{"type":"image","source":{"type":"base64","data":"AAAA"}}]}"#;
                Shape::new(r#"{"role":"user","content":[{"type":"text","text":"#, text, image)
            }
            _ => Self::said_by(
                "user",
                dialect,
                format!("läßt sich {} öffnen? 雨が降る{}", self.word(), Self::filler(random)),
            ),
        };
        shape.has_ids = false;
        shape
    }

    pub(crate) fn assistant(&mut self, dialect: Dialect, random: &mut Random) -> Shape {
        if random.percent(4) {
            return Shape { is_common: true, ..Self::said_by("assistant", dialect, String::new()) };
        }
        let text = format!("I have seen {}{}", self.word(), Self::filler(random));
        Self::said_by("assistant", dialect, text)
    }

    /// What nobody has called for.
    pub(crate) fn orphan(&mut self) -> Shape {
        let text = format!("a result of {}", self.word());
        let head = r#"{"role":"tool","tool_call_id":"nobody","content":"#;
        Shape { has_ids: true, ..Shape::new(head, text, "}") }
    }

    /// An assistant's calls; their results are made by [`Speaker::results`].
    pub(crate) fn calls(&mut self, dialect: Dialect, random: &mut Random) -> Shape {
        let count = 1 + random.below(3);
        // Many hosts count their calls from the beginning in each turn.
        let uses_again = random.percent(30);
        let word = self.word();
        let ids: Vec<String> =
            (0..count).map(|n| if uses_again { format!("call_{n}") } else { format!("{word}_{n}") }).collect();
        let mut shape = match dialect {
            Dialect::OpenAi => {
                let calls: Vec<String> = ids
                    .iter()
                    .map(|id| {
                        format!(
                            r#"{{"id":"{id}","type":"function","function":{{"name":"read","arguments":"{{\"path\":\"src/{word}.rs\"}}"}}}}"#
                        )
                    })
                    .collect();
                let tail = format!(r#","tool_calls":[{}]}}"#, calls.join(","));
                Shape::new(r#"{"role":"assistant","content":"#, format!("reading for {word}"), tail)
            }
            Dialect::Anthropic => {
                let calls: Vec<String> = ids
                    .iter()
                    .map(|id| {
                        format!(r#"{{"type":"tool_use","id":"{id}","name":"read","input":{{"path":"src/{word}.rs"}}}}"#)
                    })
                    .collect();
                let tail = format!(r#"}},{}]}}"#, calls.join(","));
                Shape::new(
                    r#"{"role":"assistant","content":[{"type":"text","text":"#,
                    format!("reading for {word}"),
                    tail,
                )
            }
        };
        (shape.has_ids, shape.opens) = (true, ids);
        shape
    }

    /// The results of calls, as one message each or as one for all.
    pub(crate) fn results(&mut self, dialect: Dialect, ids: &[String], random: &mut Random) -> Vec<Shape> {
        let mut shapes = Vec::new();
        match dialect {
            Dialect::OpenAi => {
                for id in ids {
                    let text = format!("file {}{}", self.word(), Self::filler(random));
                    let head = format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"#);
                    shapes.push(Shape::new(head, text, "}"));
                }
            }
            Dialect::Anthropic => {
                let text = format!("file {}{}", self.word(), Self::filler(random));
                let head = format!(
                    r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{}","content":"#,
                    ids[0]
                );
                let others: String = ids[1..]
                    .iter()
                    .map(|id| {
                        format!(r#",{{"type":"tool_result","tool_use_id":"{id}","content":"done {}"}}"#, self.word())
                    })
                    .collect();
                shapes.push(Shape::new(head, text, format!("}}{others}]}}")));
            }
        }
        for shape in &mut shapes {
            shape.has_ids = true;
        }
        shapes
    }

    fn said_by(role: &str, dialect: Dialect, text: String) -> Shape {
        match dialect {
            Dialect::OpenAi => Shape::new(format!(r#"{{"role":"{role}","content":"#), text, "}"),
            Dialect::Anthropic => {
                Shape::new(format!(r#"{{"role":"{role}","content":[{{"type":"text","text":"#), text, "}]}")
            }
        }
    }
}
