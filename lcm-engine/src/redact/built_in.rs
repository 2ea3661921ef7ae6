//! The built-in patterns: what secrets look like, by name.
//!
//! A pattern matches as little as it can: what it replaces is gone. Most secrets of today begin with a mark of who
//! gave them out, and are told by it. Passwords have no shape and are told by what stands before them; stand-ins in
//! code and examples are left.
//!
//! Word borders and letters are ASCII, so that the automaton stays fast on every text.

use regex::bytes::Regex;

/// Texts that stand behind a word like `password`.
pub(super) const PASSWORD: &str = "password_assignment";

/// The names of the built-in patterns.
pub const BUILT_IN: [&str; 10] = [
    "api_key",
    "bearer_token",
    PASSWORD,
    "private_key",
    "url_password",
    "aws_key",
    "jwt",
    "github_token",
    "gitlab_token",
    "slack_token",
];

/// The words before a password. `pwd` alone is where one is, not a secret.
macro_rules! secret_words {
    () => {
        "(?i-u:passwords?|passwd|passphrase|_pwd|secret|api[_-]?key|secret[_-]?(?:access[_-]?)?key|(?:access|auth|refresh|bearer|session)[_-]?token|private[_-]?key)"
    };
}

/// The words, and what assigns: `=`, `:`, `:=`, `=>`, after a closing quote or a type.
macro_rules! assigned {
    ($value:literal) => {
        concat!(
            secret_words!(),
            r#"(?-u:(?:\\?["'])?[ \t]*(?::[ \t]*[A-Za-z_.\[\]]{1,32}[ \t]*)?(?:=>|:=|=|:)[ \t]*)"#,
            $value
        )
    };
}

/// A value without quotes: its first character and the others. `==` assigns nothing, `$(..)` and `f(..)` are code.
macro_rules! bare {
    () => {
        r#"(?<secret>(?-u:[^=\s"'`,;(){}\[\]<>|&\\-][^\s"'`,;(){}\[\]<>|&\\]{3,}))"#
    };
}

/// Regular expressions of a name. A group `secret` is what is replaced, else all of it.
pub(super) fn sources(name: &str) -> &'static [&'static str] {
    match name {
        "api_key" => &[
            // OpenAI, Anthropic, OpenRouter, DeepSeek, Moonshot, and Stripe's `sk_live_`.
            r"(?-u:\b)(?-u:sk-[A-Za-z0-9_-]{20,}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,})",
            // Google.
            r"(?-u:\b)(?-u:AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{20,})",
            // Groq, xAI, Perplexity, Hugging Face, Replicate, NVIDIA, Cerebras, Fireworks, Tavily.
            r"(?-u:\b)(?-u:gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|pplx-[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{30,}|r8_[A-Za-z0-9]{30,}|nvapi-[A-Za-z0-9_-]{20,}|csk-[a-z0-9]{20,}|fw_[A-Za-z0-9]{20,}|tvly-[A-Za-z0-9_-]{20,})",
            // npm, PyPI, DigitalOcean, SendGrid, Databricks, Linear, Notion, Twilio, Telegram bots.
            r"(?-u:\b)(?-u:npm_[A-Za-z0-9]{36}|pypi-AgE[A-Za-z0-9_-]{40,}|do[opr]_v1_[a-f0-9]{64}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|dapi[a-f0-9]{32}|lin_api_[A-Za-z0-9]{32,}|ntn_[A-Za-z0-9]{40,}|SK[0-9a-f]{32}|[0-9]{8,10}:AA[A-Za-z0-9_-]{33})",
        ],
        "bearer_token" => &[
            r#"(?i-u:\bauthorization\\?["']?\s*[:=]\s*\\?["']?\s*(?:bearer|basic|token)\s+)(?<secret>(?-u:[A-Za-z0-9._~+/=-]{8,}))"#,
            r"(?i-u:\bbearer\s+)(?<secret>(?-u:[A-Za-z0-9._~+/=-]{20,}))",
        ],
        PASSWORD => &[
            // Inside a text that is quoted itself, quoted twice, quoted once.
            assigned!(r#"(?-u:\\")(?<secret>(?-u:[^"\\\r\n]{4,}))"#),
            assigned!(r#"(?-u:")(?<secret>(?-u:(?:[^"\\\r\n]|\\[^\r\n]){4,}))"#),
            assigned!(r"(?-u:')(?<secret>(?-u:(?:[^'\\\r\n]|\\[^\r\n]){4,}))"),
            // Not quoted: behind `=` anything that is no code, behind `:` the last thing of its line.
            concat!(secret_words!(), r"(?-u:[ \t]*=[ \t]*)", bare!(), r#"(?-u:["'\s,;&\\]|\z)"#),
            concat!(secret_words!(), r"(?-u:[ \t]*:[ \t]*)", bare!(), r"(?-u:[ \t\r]*(?:[\n\\]|\z))"),
            // On a command line.
            concat!(r"(?i-u:--[a-z-]{0,32}(?:password|passwd|passphrase|token|secret|api-key)[ \t]+)", bare!()),
            r#"(?-u:\bcurl\b[^\r\n|;&]{0,200}[ \t](?:-u|--user)[ \t]+["']?[^\s:"'\\]{1,64}:)(?<secret>(?-u:[^\s"'\\]{4,}))"#,
        ],
        "private_key" => &[
            // To its end, else as far as it looks like one: a page can end in the middle.
            "(?-u:-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----)(?:(?-u:(?:[^-]|-{1,4}[^-])*?-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----)|(?:(?-u:[A-Za-z0-9+/=\\s\\\\:,>|])|\u{2192})*)",
        ],
        "url_password" => &[
            r#"(?-u:\b)(?-u:[A-Za-z][A-Za-z0-9+.-]{0,31}:(?:\\?/){2}[^\s:/?#@"'<>\\]{0,256}:)(?<secret>(?-u:[^\s/@"'<>\\]{1,256}))@"#,
        ],
        "aws_key" => &[
            r"(?-u:\b)(?-u:(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16})(?-u:\b)",
            r#"(?i-u:secret_?access_?key\\?["']?\s*[:=]\s*\\?["']?)(?<secret>(?-u:[A-Za-z0-9/+=]{40}))"#,
            r#"(?i-u:aws_?session_?token\\?["']?\s*[:=]\s*\\?["']?)(?<secret>(?-u:[A-Za-z0-9/+=]{64,}))"#,
        ],
        "jwt" => &[r"(?-u:\b)(?-u:eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"],
        "github_token" => &[r"(?-u:\b)(?-u:gh[oprsu]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})"],
        "gitlab_token" => &[r"(?-u:\b)(?-u:gl(?:pat|ptt|dt|rt|cbt|soat|ft)-[A-Za-z0-9_.-]{20,})"],
        "slack_token" => &[
            r"(?-u:\b)(?-u:xox[abceoprs]-[A-Za-z0-9.-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,})",
            r"(?-u:hooks\.slack\.com/(?:services|workflows|triggers)/)(?<secret>(?-u:[A-Za-z0-9/_-]{20,}))",
        ],
        _ => &[],
    }
}

/// Keys of objects whose texts are secrets: those that end in a word that assigns one.
#[derive(Debug)]
pub(super) struct SecretKeys(Regex);

impl SecretKeys {
    pub(super) fn new() -> Self {
        Self(Regex::new(concat!(secret_words!(), r"\z")).expect("a fixed pattern that a test compiles"))
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.0.is_match(key)
    }
}

/// What stands where a password would, in code, in schemas, in examples.
const STAND_INS: [&str; 26] = [
    "string",
    "required",
    "optional",
    "none",
    "null",
    "true",
    "false",
    "undefined",
    "unknown",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "api_key",
    "apikey",
    "hidden",
    "masked",
    "redacted",
    "default",
    "example",
    "bytes",
    "integer",
    "number",
    "object",
    "boolean",
];

/// Whether a text only stands for a secret: too short, a word like `string`, a variable, a path of names in code.
pub(super) fn is_placeholder(text: &[u8]) -> bool {
    let is_wrapped = |open: &[u8], close: &[u8]| text.starts_with(open) && text.ends_with(close);
    let is_name = |part: &[u8]| !part.is_empty() && part.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    text.len() < 4
        || STAND_INS.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
        || text.iter().all(|byte| b"*.xX-_ ".contains(byte))
        || is_wrapped(b"${", b"}")
        || is_wrapped(b"{{", b"}}")
        || is_wrapped(b"<", b">")
        || text
            .strip_prefix(b"$")
            .is_some_and(|name| name.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_'))
        || (text.contains(&b'.') && text.split(|byte| *byte == b'.').all(is_name))
}
