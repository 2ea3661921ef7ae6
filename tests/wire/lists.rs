//! Lists and differences: what is said in parts is what would have been said whole.

use lcm_core::Json;
use lcm_tests::run::Desk;

use crate::child::{Serving, code, number, text};

const SESSION: &str = r#""session":{"name":"s"}"#;

fn turn(serving: &mut Serving, list: &str) -> Json {
    serving.call("turn", &format!(r#"{{{SESSION},"list":{list}}}"#))
}

fn behind(serving: &mut Serving, list: &str) -> String {
    let told = serving.call("behind", &format!(r#"{{{SESSION},"list":{list}}}"#));
    String::from_utf8(told.get("messages").unwrap().to_text()).unwrap()
}

#[test]
fn a_list_in_differences_is_the_list_said_whole() {
    let desk = Desk::new();
    let mut serving = Serving::open(&desk);
    let odd = r#"{"role":"user","content":"half \ud83d, twins","n":1.0,"n":1.00,"big":123456789012345678901234567890}"#;
    let first = turn(&mut serving, &format!(r#"{{"all":[{{"role":"user","content":"one"}},{odd}]}}"#));
    assert_eq!(number(&first, "new"), 2);
    let base = text(&first, "base");
    let list = format!(
        r#"{{"base":"{base}","splices":[[0,1,[{{"role":"user","content":"two"}}]],[2,0,[{{"role":"assistant","content":"three"}}]]]}}"#
    );
    let shown = behind(&mut serving, &list);
    let expected = format!(r#"[{{"role":"user","content":"two"}},{odd},{{"role":"assistant","content":"three"}}]"#);
    assert_eq!(shown, String::from_utf8(Json::parse(expected.as_bytes()).unwrap().to_text()).unwrap());
    // The base is as it was.
    let again = turn(&mut serving, &format!(r#"{{"base":"{base}","splices":[]}}"#));
    assert_eq!((number(&again, "new"), text(&again, "base")), (0, base));
}

#[test]
fn a_base_of_another_child_is_not_known() {
    let desk = Desk::new();
    let mut one = Serving::open(&desk);
    let first = turn(&mut one, r#"{"all":[{"role":"user","content":"one"}]}"#);
    let mut other = Serving::open(&desk);
    turn(&mut other, r#"{"all":[{"role":"user","content":"other"}]}"#);
    let base = text(&first, "base");
    let told = other
        .ask(&format!(r#"{{"id":1,"method":"turn","params":{{{SESSION},"list":{{"base":"{base}","splices":[]}}}}}}"#));
    assert_eq!(code(&told), -32010);
}

#[test]
fn a_list_that_was_made_shorter_is_shown_by_splices_and_becomes_the_view_when_it_comes_back() {
    let desk = Desk::new();
    let mut serving = Serving::open(&desk);
    let messages: Vec<String> = (0..40)
        .map(|n| {
            let role = if n % 2 == 0 { "user" } else { "assistant" };
            format!(
                r#"{{"role":"{role}","content":"message {n} about file src/part{n}.rs and {}"}}"#,
                "words ".repeat(60)
            )
        })
        .collect();
    let list = format!(r#"{{"all":[{}]}}"#, messages.join(","));
    let options = r#""options":{"threshold_tokens":1500,"protect_last":4}"#;
    let done = serving.call("compress", &format!(r#"{{{SESSION},{options},"list":{list}}}"#));
    let splices = done.get("splices").and_then(Json::as_array).unwrap();
    assert!(!splices.is_empty() && number(&done, "tokens_after") <= 1500, "{done:?}");
    // The answer's base names the changed list; shown again it is published, and stands for every original.
    let base = text(&done, "base");
    let told = turn(&mut serving, &format!(r#"{{"base":"{base}","splices":[]}}"#));
    assert_eq!((number(&told, "new"), told.get("published").and_then(Json::as_bool)), (0, Some(true)));
    let shown = behind(&mut serving, &format!(r#"{{"base":"{base}","splices":[]}}"#));
    assert_eq!(shown, format!("[{}]", messages.join(",")));
}
