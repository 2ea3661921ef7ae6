//! `grep`: exact as grep is, and by words.

use lcm_core::Json;
use lcm_tests::run::Desk;

use crate::{both, filled, json_lines, text_of};

/// The numbers of the messages that a search finds.
fn found(desk: &Desk, args: &[&str]) -> Vec<u64> {
    let ran = desk.run(&[&["grep", "--format", "json"], args].concat());
    assert_eq!(ran.code, u8::from(ran.stdout.is_empty()), "{ran:?}");
    json_lines(&ran).iter().map(|line| line.get("number").and_then(Json::as_u64).unwrap()).collect()
}

#[test]
fn hits_show_place_time_role_handle_and_lines() {
    insta::assert_snapshot!(both(&filled(), &["grep", "station"]));
}

#[test]
fn lines_around_a_match_are_shown_when_asked_for() {
    insta::assert_snapshot!(filled().run(&["grep", "-C", "1", "orders-0304"]).all());
}

#[test]
fn patterns_are_expressions_unless_they_are_fixed() {
    let desk = filled();
    assert_eq!(found(&desk, &["rain.gauge"]), [2]);
    assert_eq!(found(&desk, &["-F", "rain.gauge"]), [0; 0]);
    assert_eq!(found(&desk, &["-F", "(exit 1)"]), [9]);
    assert_eq!(found(&desk, &["雨量计"]), [2]);
    assert_eq!(found(&desk, &["--", "-rw-"]), [43]);
}

#[test]
fn letter_case_counts_when_the_pattern_has_upper_case() {
    let desk = filled();
    assert_eq!(found(&desk, &["metric"]), [1]);
    assert_eq!(found(&desk, &["METRIC"]), [0; 0]);
    assert_eq!(found(&desk, &["-i", "METRIC"]), [1]);
    assert_eq!(found(&desk, &["-s", "metric"]), [0; 0]);
    assert_eq!(found(&desk, &["Metric\\W"]), [1]);
}

#[test]
fn whole_words_are_whole() {
    let desk = filled();
    assert_eq!(found(&desk, &["-w", "st7"]), [10, 9, 8]);
    assert_eq!(found(&desk, &["-w", "st"]), [0; 0]);
}

#[test]
fn a_search_can_be_narrowed() {
    let desk = filled();
    assert_eq!(found(&desk, &["station", "--role", "tool"]), [0; 0]);
    assert_eq!(found(&desk, &["station", "--role", "system", "--role", "user"]), [2, 1]);
    assert_eq!(found(&desk, &["station", "--session", "openai"]), [0; 0]);
    assert_eq!(found(&desk, &["station", "--session", "#1", "--session", "openai"]).len(), 3);
    assert_eq!(found(&desk, &["offset", "--until", "2026-03-04 08:00:08"]).len(), 2);
    assert_eq!(found(&desk, &["offset", "--since", "2026-03-05"]), [0; 0]);
    assert_eq!(found(&desk, &["station", "--since", "1 hour ago"]).len(), 3);
    assert_eq!(found(&desk, &["station", "--kind", "summaries"]), [0; 0]);
}

#[test]
fn an_answer_that_was_limited_goes_on_at_its_cursor() {
    let desk = filled();
    let all = found(&desk, &["the"]);
    let mut paged = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut args = vec!["grep", "--format", "json", "-m", "3", "the"];
        if let Some(cursor) = &cursor {
            args.extend(["--cursor", cursor]);
        }
        let ran = desk.run(&args);
        paged.extend(json_lines(&ran).iter().map(|line| line.get("number").and_then(Json::as_u64).unwrap()));
        cursor = ran.stderr.split("--cursor ").nth(1).map(|rest| rest.trim().to_owned());
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(paged, all);
    let mut oldest = found(&desk, &["--oldest", "the"]);
    oldest.reverse();
    assert_eq!(oldest, all);
}

#[test]
fn hits_are_counted_in_all_and_by_session() {
    let desk = filled();
    insta::assert_snapshot!(both(&desk, &["grep", "-c", "the"]));
    insta::assert_snapshot!(both(&desk, &["grep", "-l", "the"]));
}

#[test]
fn nothing_found_is_exit_code_1_and_no_word() {
    let ran = filled().run(&["grep", "no such thing"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (1, "", ""));
}

#[test]
fn words_are_found_in_any_order_and_ranked() {
    let desk = filled();
    let first = |mode: &str, text: &str| {
        let ran = desk.run(&["grep", mode, text, "--format", "json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        json_lines(&ran)[0].clone()
    };
    let hit = first("--words", "gauge station rain");
    assert_eq!(hit.get("number").and_then(Json::as_u64), Some(2));
    assert_eq!(hit.get("ranked").and_then(Json::as_bool), Some(false));
    let hit = first("--ranked", "is the rain gauge alive");
    assert_eq!(hit.get("number").and_then(Json::as_u64), Some(2));
    assert!(text_of(&hit, "snippet").contains("rain gauge"), "{hit:?}");
    let text = desk.run(&["grep", "--ranked", "is the rain gauge alive", "-m", "1"]);
    assert!(text.stdout.contains("score") && text.stdout.contains("    Is the rain gauge"), "{text:?}");
}

#[test]
fn long_lines_are_cut_around_the_match() {
    let desk = Desk::new();
    let long = format!(r#"[{{"role":"user","content":"{}needle{}"}}]"#, "a ".repeat(5000), " b".repeat(5000));
    let file = desk.put("long.json", long);
    assert_eq!(desk.run(&["import", &file]).code, 0);
    let ran = desk.run(&["grep", "needle", "--chars", "40"]);
    assert!(ran.stdout.contains("    1: …a a a a a needle b b b b b b b b b b b b…"), "{}", ran.stdout);
    assert!(desk.run(&["grep", "needle", "--chars", "0"]).stdout.len() > 20_000);
    assert!(desk.run(&["grep", "needle"]).stdout.len() < 500);
}
