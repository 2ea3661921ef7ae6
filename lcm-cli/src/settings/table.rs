//! Every setting there is, in one table: its name, what it may be, its unit, its default and what it means.
//!
//! `docs/settings.md` is this table for people; a test of the program compares the two.
//!
//! Not here: what the settings become (`options`).

use super::value::Kind;

/// A setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Section and name, as `summary.base_url`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What its number counts; empty where it is none.
    pub(crate) unit: &'static str,
    /// Its value where nobody says another, as a text.
    pub(crate) default: &'static str,
    /// One sentence or two.
    pub(crate) doc: &'static str,
    /// Variables of other engines that mean the same.
    pub(crate) aliases: &'static [&'static str],
}

impl Setting {
    /// The variable that sets it: `LCM_`, and its name in capitals.
    pub(crate) fn variable(&self) -> String {
        format!("LCM_{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// Every variable that sets it; the first wins.
    pub(crate) fn variables(&self) -> Vec<String> {
        let own = self.variable();
        let aliases = self.aliases.iter().map(|&alias| alias.to_owned()).filter(|alias| *alias != own);
        std::iter::once(own.clone()).chain(aliases).collect()
    }
}

const fn setting(
    name: &'static str,
    kind: Kind,
    unit: &'static str,
    default: &'static str,
    doc: &'static str,
) -> Setting {
    Setting { name, kind, unit, default, doc, aliases: &[] }
}

impl Setting {
    const fn as_in(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }
}

/// No window is larger.
const TOKENS_MAX: u64 = 100_000_000;
/// A day, in seconds and milliseconds: whoever waits longer waits for ever.
const DAY_S: u64 = 86_400;
const DAY_MS: u64 = DAY_S * 1000;

/// The settings, in the order in which they are listed.
pub(crate) const TABLE: &[Setting] = &[
    setting(
        "compress.window_tokens",
        Kind::Number(1000, TOKENS_MAX),
        "tokens",
        "128000",
        "The model's whole window, where the host does not say.",
    ),
    setting(
        "compress.threshold_ratio",
        Kind::Ratio(50, 980),
        "of the window",
        "0.75",
        "A list that takes more of the window than this is folded.",
    )
    .as_in(&["LCM_CONTEXT_THRESHOLD"]),
    setting(
        "compress.threshold_tokens",
        Kind::Number(0, TOKENS_MAX),
        "tokens",
        "0",
        "A list of more tokens than this is folded, also where the ratio allows more; 0 leaves it to the ratio.",
    )
    .as_in(&["LCM_ABSOLUTE_THRESHOLD_TOKENS"]),
    setting(
        "compress.reserve_tokens",
        Kind::Number(0, TOKENS_MAX),
        "tokens",
        "0",
        "Kept free of the window for the answer, where the ratio leaves less.",
    )
    .as_in(&["LCM_RESERVE_TOKENS_FLOOR"]),
    setting(
        "compress.protect_first",
        Kind::Number(0, 100_000),
        "messages",
        "0",
        "Kept as they are behind the system message, as far as their size allows.",
    ),
    setting(
        "compress.protect_last",
        Kind::Number(0, 100_000),
        "messages",
        "16",
        "Kept as they are at the end, as far as their size allows.",
    )
    .as_in(&["LCM_FRESH_TAIL_COUNT"]),
    setting(
        "compress.tail_tokens_max",
        Kind::Number(0, TOKENS_MAX),
        "tokens",
        "0",
        "What the kept end may cost in front of the newest request; 0 for two fifths of the threshold.",
    )
    .as_in(&["LCM_FRESH_TAIL_MAX_TOKENS"]),
    setting(
        "compress.chunk_tokens_max",
        Kind::Number(500, 1_000_000),
        "tokens",
        "20000",
        "What one summary of messages stands for at most.",
    )
    .as_in(&["LCM_LEAF_CHUNK_TOKENS"]),
    setting("compress.summary_tokens_max", Kind::Number(40, 100_000), "tokens", "1500", "The text of one summary."),
    setting(
        "compress.alternates",
        Kind::Flag,
        "",
        "false",
        "Whether the host's provider wants users and assistants to take turns in OpenAI's format too.",
    ),
    setting(
        "summary.base_url",
        Kind::Address,
        "",
        "",
        "Where an OpenAI-compatible model that writes summaries is, up to what stands before `/chat/completions`; \
         nothing for summaries without a model.",
    ),
    setting("summary.model", Kind::Text, "", "", "The model's name there.").as_in(&["LCM_SUMMARY_MODEL"]),
    setting(
        "summary.key",
        Kind::Secret,
        "",
        "",
        "The key for it. Only from the environment; for a file there is `summary.key_file`.",
    )
    .as_in(&["LCM_SUMMARY_API_KEY"]),
    setting(
        "summary.key_file",
        Kind::File,
        "",
        "",
        "A file that holds nothing but the key; looked for in the data directory when it does not begin with `/`.",
    ),
    setting(
        "summary.reasoning_effort",
        Kind::Choice(&["none", "minimal", "low", "medium", "high"]),
        "",
        "",
        "How much the model may think; nothing to leave it to the model.",
    )
    .as_in(&["LCM_SUMMARY_REASONING_EFFORT"]),
    setting(
        "summary.limit_parameter",
        Kind::Choice(&["max_tokens", "max_completion_tokens"]),
        "",
        "max_tokens",
        "What the service calls the bound of an answer; nothing to send none.",
    ),
    setting(
        "summary.headroom_tokens",
        Kind::Number(0, 1_000_000),
        "tokens",
        "1024",
        "What an answer may cost beyond the summary: models that think count their thoughts.",
    ),
    setting(
        "summary.timeout_ms",
        Kind::Number(100, DAY_MS),
        "ms",
        "60000",
        "How long one summary may take, repeated tries included.",
    )
    .as_in(&["LCM_SUMMARY_TIMEOUT_MS"]),
    setting(
        "summary.pass_timeout_ms",
        Kind::Number(100, DAY_MS),
        "ms",
        "60000",
        "How long models may take for one list, all summaries together.",
    ),
    setting(
        "summary.connect_timeout_ms",
        Kind::Number(10, DAY_MS),
        "ms",
        "5000",
        "How long it may take to reach the model.",
    ),
    setting(
        "summary.answer_bytes_max",
        Kind::Number(1024, 100_000_000),
        "bytes",
        "1000000",
        "Of a longer answer nothing is taken.",
    ),
    setting(
        "summary.retries",
        Kind::Number(0, 10),
        "tries",
        "2",
        "How often a request is repeated that failed for a moment: no connection, too many requests, a fault of the server.",
    ),
    setting(
        "summary.spend_calls_max",
        Kind::Number(0, 100_000),
        "calls",
        "24",
        "Requests to the model in one window of `summary.spend_window_s`; with 0 no model is asked.",
    )
    .as_in(&["LCM_SUMMARY_SPEND_MAX_CALLS"]),
    setting(
        "summary.spend_tokens_max",
        Kind::Number(0, 1_000_000_000_000),
        "tokens",
        "1000000",
        "What the model reads and writes in one window, by our estimate; 0 for no bound but that of calls.",
    ),
    setting("summary.spend_window_s", Kind::Number(1, DAY_S), "s", "600", "The window for what may be spent.")
        .as_in(&["LCM_SUMMARY_SPEND_WINDOW_SECONDS"]),
    setting(
        "summary.spend_backoff_s",
        Kind::Number(0, 7 * DAY_S),
        "s",
        "1800",
        "How long no model is asked after what may be spent is spent.",
    )
    .as_in(&["LCM_SUMMARY_SPEND_BACKOFF_SECONDS"]),
    setting(
        "summary.breaker_failures",
        Kind::Number(1, 1000),
        "failures",
        "2",
        "After so many failures one after the other the model is left alone.",
    )
    .as_in(&["LCM_SUMMARY_CIRCUIT_BREAKER_FAILURE_THRESHOLD"]),
    setting("summary.breaker_cooldown_s", Kind::Number(0, 7 * DAY_S), "s", "300", "How long it is left alone then.")
        .as_in(&["LCM_SUMMARY_CIRCUIT_BREAKER_COOLDOWN_SECONDS"]),
    setting(
        "select.recall_tokens_max",
        Kind::Number(0, TOKENS_MAX),
        "tokens",
        "4000",
        "What originals that are recalled into one request may cost; 0 for none.",
    ),
    setting(
        "tools.all",
        Kind::Flag,
        "",
        "false",
        "Whether agents are offered every tool; each is answered in any case.",
    ),
    setting(
        "tools.all_owners",
        Kind::Flag,
        "",
        "false",
        "Whether the tools of one agent or person read what all others said too.",
    ),
    setting(
        "tools.across_sessions",
        Kind::Flag,
        "",
        "false",
        "Whether an agent of LibreFang may read its other conversations with the same person; a call asks for them.",
    ),
    setting(
        "serve.socket",
        Kind::Flag,
        "",
        "true",
        "Whether a process that serves offers the unix socket in the data directory.",
    ),
    setting(
        "mcp.full_names",
        Kind::Flag,
        "",
        "false",
        "Whether an MCP client is offered the tools as `lcm_grep` and so on, not as `grep`; a call by either name is answered.",
    ),
    setting(
        "mcp.scope",
        Kind::Text,
        "",
        "owner",
        "What an MCP client reads: `owner` for all that is kept, else `agent=NAME`, `agent=NAME,person=NAME` or `session=NAME`.",
    ),
    setting(
        "redact.enabled",
        Kind::Flag,
        "",
        "false",
        "Whether what looks like a secret is taken out of messages before they are kept.",
    )
    .as_in(&["LCM_SENSITIVE_PATTERNS_ENABLED"]),
    setting(
        "redact.patterns",
        Kind::List,
        "",
        "",
        "Names of built-in patterns that are used; nothing for all of them.",
    )
    .as_in(&["LCM_SENSITIVE_PATTERNS"]),
    setting(
        "redact.own",
        Kind::List,
        "",
        "",
        "Patterns of one's own, each a name, `=` and a regular expression; one with a comma in it can stand in the file only.",
    ),
];

/// Variables of ours that are no settings.
pub(crate) const OTHER_VARIABLES: &[&str] = &["LCM_CLI", "LCM_HOME", "LCM_HOOK_TIMEOUT_MS", "LCM_LOG"];

/// Beginnings of variables that other engines know and that mean nothing here.
pub(crate) const FOREIGN_VARIABLES: &[&str] = &[
    "LCM_AUTOCOMPACT_",
    "LCM_CACHE_FRIENDLY_",
    "LCM_CONDENSATION_FANIN",
    "LCM_CRITICAL_BUDGET_PRESSURE_RATIO",
    "LCM_CUSTOM_INSTRUCTIONS",
    "LCM_DATABASE_PATH",
    "LCM_DEFERRED_MAINTENANCE_",
    "LCM_DISABLED_TOOLS",
    "LCM_DOCTOR_CLEAN_APPLY_ENABLED",
    "LCM_DYNAMIC_LEAF_CHUNK_",
    "LCM_EMBEDDING",
    "LCM_EMPTY_LIFECYCLE_GC_",
    "LCM_EXPANSION_",
    "LCM_EXTRACTION_",
    "LCM_IGNORE_MESSAGE_PATTERNS",
    "LCM_IGNORE_SESSION_",
    "LCM_INCREMENTAL_MAX_DEPTH",
    "LCM_L2_BUDGET_RATIO",
    "LCM_L3_TRUNCATE_TOKENS",
    "LCM_LARGE_OUTPUT_",
    "LCM_MAX_ASSEMBLY_TOKENS",
    "LCM_NEW_SESSION_RETAIN_DEPTH",
    "LCM_STATELESS_SESSION_",
    "LCM_SUMMARY_FALLBACK_MODELS",
    "LCM_SUMMARY_PREFIX_TARGET_TOKENS",
    "LCM_TEMPORAL_",
    "LCM_THRESHOLD_FULL_SWEEP_ENABLED",
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_and_variables_are_each_of_one_setting() {
        let mut seen: HashSet<String> = OTHER_VARIABLES.iter().map(|&name| name.to_owned()).collect();
        for setting in TABLE {
            assert!(seen.insert(setting.name.to_owned()), "{} twice", setting.name);
            for variable in setting.variables() {
                assert!(!FOREIGN_VARIABLES.iter().any(|begin| variable.starts_with(begin)), "{variable}");
                assert!(seen.insert(variable.clone()), "{variable} twice");
            }
        }
    }

    #[test]
    fn defaults_are_legal_and_read_as_they_are_written() {
        for setting in TABLE {
            let read = setting.kind.read(setting.default).unwrap_or_else(|right| panic!("{}: {right}", setting.name));
            let expected = if setting.kind == Kind::Secret { "not set" } else { setting.default };
            assert_eq!(read.to_string(), expected, "{}", setting.name);
        }
    }

    #[test]
    fn every_setting_says_what_it_means() {
        for setting in TABLE {
            assert!(setting.doc.ends_with('.') && setting.doc.len() > 20, "{}", setting.name);
            let has_unit = matches!(setting.kind, Kind::Number(..) | Kind::Ratio(..));
            assert_eq!(has_unit, !setting.unit.is_empty(), "{}", setting.name);
        }
    }
}
