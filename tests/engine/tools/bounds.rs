//! Whatever a model passes: one line of JSON, no larger than it may be. [`Caller::raw`] looks at every answer.

use lcm_core::Json;
use lcm_core::tokens::{Estimate, TokenCounter};
use lcm_engine::service::ToolBounds;
use lcm_tests::random::Random;

use super::{Caller, NAMES, caller, string, with_folds};
use crate::session::{home, long, turn, user, with};

/// Values that models have passed, and worse.
const VALUES: [&str; 46] = [
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "7",
    "1000000000",
    "1e9",
    "1.5",
    "-0.0",
    "1e400",
    "99999999999999999999999999",
    "\"\"",
    "\" \"",
    "\"abc\"",
    "\"10\"",
    "\"-1\"",
    "[]",
    "{}",
    "[1]",
    "[\"a\",2,null]",
    "[[[]]]",
    "{\"a\":1}",
    "\"current\"",
    "\"all\"",
    "\"session\"",
    "\"regex\"",
    "\"harbour\"",
    "\"(\"",
    "\"s\"",
    "\"#1\"",
    "\"node 1\"",
    "\"sum_0\"",
    "\"msg_ffffffffffffffff\"",
    "\"user\"",
    "\"pin\"",
    "\"2026-03-04T08:00:00Z\"",
    "\"2026-03-04\"",
    "\"\\ud83d\"",
    "\"a\\u0000b\\u2028c\\r\\n\"",
    "\"00000000.b1\"",
    "\"00000000.1-0-0-0.0-0-0.1\"",
    "\"ffffffff.18446744073709551615\"",
    "\"last 3h\"",
    "\"30d\"",
];

fn long_value() -> String {
    format!("\"{}\"", "[lcm:end] é ".repeat(4000))
}

#[test]
fn any_arguments_are_answered_in_one_line_within_bounds() {
    let home = home();
    with_folds(&home);
    let mut random = Random::of_test(7);
    let parameters = lcm_engine::tools::parameters();
    let long = long_value();
    let narrow = ToolBounds { tokens_max: 1500, chars_max: 6000, bytes_max: usize::MAX };
    let bounds = [ToolBounds::default(), narrow, ToolBounds { bytes_max: 5000, ..ToolBounds::default() }];
    let mut errors = 0;
    for round in 0..1500 {
        let tool = *random.pick(&NAMES);
        let known: Vec<&str> = parameters
            .iter()
            .filter(|(of, _, _)| *of == tool)
            .flat_map(|(_, name, aliases)| std::iter::once(*name).chain(aliases.iter().copied()))
            .collect();
        let mut entries = Vec::new();
        for _ in 0..random.below(6) {
            let name = if known.is_empty() || random.percent(15) { "unknownThing" } else { *random.pick(&known) };
            let value = if random.percent(4) { long.as_str() } else { *random.pick(&VALUES) };
            entries.push(format!("\"{name}\":{value}"));
        }
        if random.percent(60) {
            entries.push("\"query\":\"harbour\",\"prompt\":\"what of the harbour?\"".to_owned());
        }
        let mut arguments = format!("{{{}}}", entries.join(","));
        if random.percent(5) {
            arguments.truncate(arguments.floor_char_boundary(random.below(arguments.len() + 1)));
        }
        let caller = Caller { bounds: bounds[round % 3], ..caller(&home.engine, "s") };
        errors += usize::from(caller.raw(tool, &arguments).1);
    }
    assert!((100..1400).contains(&errors), "{errors} errors: most of it was not tried");
}

#[test]
fn what_is_no_object_is_refused_by_every_tool() {
    let home = home();
    turn(&home.engine, "s", &[user("hello")]);
    for tool in NAMES {
        for arguments in ["[]", "7", "{", "\"x\"", "{\"query\":", "{\"query\":\"a\"", "nonsense", "{}{}"] {
            let why = caller(&home.engine, "s").refused(tool, arguments);
            assert_eq!(why, format!("the arguments of {tool} must be one JSON object"), "{arguments}");
        }
    }
}

#[test]
fn max_tokens_bounds_an_answer_which_gets_on_all_the_same() {
    let home = home();
    let (_, shown) = with_folds(&home);
    let wide = user(&"灯台 🚢 \u{1}\"\\ harbour ".repeat(600));
    turn(&home.engine, "s", &with(&shown, &[wide, user(&long("harbour", 3000))]));
    let caller = caller(&home.engine, "s");
    let calls = [
        ("lcm_grep", "\"query\":\"harbour\",\"limit\":200"),
        ("lcm_grep", "\"query\":\"harbour\",\"mode\":\"regex\",\"context_lines\":50,\"limit\":200"),
        ("lcm_expand", "\"query\":\"harbour\""),
        ("lcm_expand", "\"node_id\":1,\"include_messages\":true"),
        ("lcm_describe", "\"node_id\":1"),
        ("lcm_describe", ""),
        ("lcm_load_session", "\"session_id\":\"s\""),
        ("lcm_recall", "\"query\":\"harbour\",\"detail\":\"answer_ready\""),
        ("lcm_recent", "\"limit\":200"),
        ("lcm_inspect", "\"limit\":200"),
        ("lcm_pin", ""),
    ];
    for (tool, arguments) in calls {
        let comma = if arguments.is_empty() { "" } else { "," };
        for max in ["0", "-1", "1", "60", "200", "500", "1000", "3000", "1000000000"] {
            let (text, is_error) = caller.raw(tool, &format!("{{{arguments}{comma}\"max_tokens\":{max}}}"));
            assert!(!is_error, "{tool}: {text}");
            let max: u64 = max.parse::<i64>().unwrap().clamp(1, 8000).unsigned_abs();
            let tokens = u64::from(Estimate.count_text(&text));
            // The frame of an answer with one item is what it is.
            assert!(tokens <= max.max(420), "{tool} {arguments} with {max}: {tokens} tokens in {text}");
            let json = Json::parse(text.as_bytes()).unwrap();
            let list = ["results", "expanded", "messages", "items"].iter().find_map(|list| json.get(list)?.as_array());
            assert!(list.is_none_or(|list| !list.is_empty()), "{tool} {arguments} with {max}: {text}");
        }
        let why = caller.refused(tool, &format!("{{{arguments}{comma}\"max_tokens\":\"abc\"}}"));
        assert!(why.starts_with("max_tokens is \"abc\""), "{why}");
    }
}

#[test]
fn cursors_that_nobody_gave_are_refused_in_one_sentence() {
    let home = home();
    let (_, shown) = with_folds(&home);
    turn(&home.engine, "s", &shown);
    let calls = [
        ("lcm_grep", "\"query\":\"harbour\""),
        ("lcm_expand", "\"node_id\":1"),
        ("lcm_expand", "\"query\":\"harbour\""),
        ("lcm_describe", "\"node_id\":1"),
        ("lcm_load_session", "\"session_id\":\"s\""),
        ("lcm_recall", "\"query\":\"harbour\""),
        ("lcm_recent", ""),
        ("lcm_inspect", ""),
        ("lcm_pin", ""),
    ];
    for (tool, arguments) in calls {
        for cursor in ["x", " ", ".", "b17", "zzzzzzzz.b1", "00000000.", "00000000.b1", "00000000.1-0-0-0.0-0-0.1"] {
            let comma = if arguments.is_empty() { "" } else { "," };
            let why =
                caller(&home.engine, "s").refused(tool, &format!("{{{arguments}{comma}\"cursor\":\"{cursor}\"}}"));
            assert!(why.contains("cursor") && !why.contains('\n'), "{tool} {cursor}: {why}");
        }
    }
}

#[test]
fn a_cursor_of_one_question_is_refused_by_another() {
    let home = home();
    with_folds(&home);
    let caller = caller(&home.engine, "s");
    let first = caller.ask("lcm_grep", r#"{"query":"harbour","limit":1}"#);
    let cursor = string(&first, "cursor");
    for other in [
        "\"query\":\"lamp\"",
        "\"query\":\"harbour\",\"role\":\"user\"",
        "\"query\":\"harbour\",\"sort\":\"relevance\"",
    ] {
        let why = caller.refused("lcm_grep", &format!("{{{other},\"cursor\":\"{cursor}\"}}"));
        assert!(why.starts_with("the cursor is of another question"), "{why}");
    }
    let why = caller.refused("lcm_recall", &format!("{{\"query\":\"harbour\",\"cursor\":\"{cursor}\"}}"));
    assert!(why.starts_with("the cursor is of another question"), "{why}");
}

#[test]
fn a_cursor_of_expand_that_was_tampered_with_never_leads_astray() {
    let home = home();
    with_folds(&home);
    let caller = caller(&home.engine, "s");
    let first = caller.ask("lcm_expand", r#"{"node_id":1,"max_tokens":300}"#);
    let cursor = string(&first, "cursor");
    let mut random = Random::of_test(11);
    for _ in 0..400 {
        let mut bytes = cursor.clone().into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            bytes[at] = *random.pick(b"0123456789-.af");
        }
        let forged = String::from_utf8(bytes).unwrap();
        caller.raw("lcm_expand", &format!("{{\"cursor\":\"{forged}\",\"max_tokens\":300}}"));
    }
}

#[test]
fn names_that_no_tool_knows_are_told_and_the_rest_is_answered() {
    let home = home();
    turn(&home.engine, "s", &[user("the lamp is lit")]);
    let caller = caller(&home.engine, "s");
    for tool in NAMES {
        let arguments = r#"{"query":"lamp","prompt":"lamp?","session_id":"s","store_id":1,"quary":1,"filterBy":[]}"#;
        let answer = caller.ask(tool, arguments);
        let ignored: Vec<&str> =
            answer.get("ignored").unwrap().as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
        assert!(ignored.contains(&"quary") && ignored.contains(&"filterBy"), "{tool}: {ignored:?}");
    }
}

#[test]
fn tools_that_are_not_here_say_what_is() {
    let home = home();
    let caller = caller(&home.engine, "s");
    for name in ["lcm_query_state", "lcm_compute", "lcm_evidence_pack", "lcm_compile_evidence", "lcm_retrieve"] {
        let why = caller.refused(name, "{}");
        assert!(why.starts_with(&format!("{name} is not enabled here: lcm_")), "{why}");
    }
    let why = caller.refused(&"lcm_gerp\n".repeat(100), "{");
    assert!(why.contains("there is no tool") && why.contains("lcm_grep, lcm_expand"), "{why}");
}
