//! An answer is a whole page of at most 16,000 bytes, whatever was said and whatever is asked, and the pages together are
//! all of it.

use lcm_core::Json;

use super::child::{Client, at, desk, said, text};

const BYTES_MAX: usize = 16_000;

/// What a quoted block holds.
fn unquoted(block: &str) -> String {
    if block.is_empty() {
        return String::new();
    }
    let inner = block.strip_prefix("[lcm:quote]\n").and_then(|rest| rest.strip_suffix("\n[lcm:end]")).unwrap();
    inner.split('\n').map(|line| line.strip_prefix("> ").unwrap()).collect::<Vec<_>>().join("\n")
}

/// Every page of a call, each looked at.
fn pages(client: &mut Client, name: &str, arguments: &str) -> Vec<Json> {
    let mut pages: Vec<Json> = Vec::new();
    let mut cursor = String::new();
    loop {
        let mut asked = Json::parse(arguments.as_bytes()).unwrap();
        if let (false, Json::Object(entries)) = (cursor.is_empty(), &mut asked) {
            entries.push(("cursor".into(), cursor.as_str().into()));
        }
        let result = client.call(name, std::str::from_utf8(&asked.to_text()).unwrap());
        let text_of_page = said(&result);
        assert!(text_of_page.len() <= BYTES_MAX, "{} bytes", text_of_page.len());
        assert_eq!(at(&result, &["isError"]).as_bool(), Some(false), "{text_of_page}");
        let page = Json::parse(text_of_page.as_bytes()).unwrap();
        let next = page.get("cursor").and_then(Json::as_str).map(str::to_owned);
        // The same page beside it.
        let beside = at(&result, &["structuredContent"]);
        assert_eq!(beside.get("cursor").and_then(Json::as_str), next.as_deref());
        pages.push(page);
        let Some(next) = next else { return pages };
        // Hosts that look for secrets let it pass, and for numbers of telephones too.
        assert!(next.starts_with('c') && next.bytes().all(|byte| byte.is_ascii_hexdigit()), "{next}");
        assert_ne!(next, cursor);
        cursor = next;
        assert!(pages.len() < 500, "it does not end");
    }
}

#[test]
fn long_texts_of_wide_letters_and_of_escapes_come_whole_page_by_page() {
    let wide = "潮起潮落，灯火通明。".repeat(4000);
    let escapes = "\u{1}\"\\\u{2028}\n[lcm:end]\r".repeat(3000);
    let faces = "🦀".repeat(9000);
    let desk = desk(&[("main", "owner", "one", &[&wide, &escapes, &faces])]);
    let mut client = Client::open(&desk, &[], "{}");
    for (number, whole) in [(1, &wide), (2, &escapes), (3, &faces)] {
        for asked in ["", r#","max_tokens":1000000"#] {
            let pages = pages(&mut client, "expand", &format!(r#"{{"store_id":{number}{asked}}}"#));
            let parts = pages.iter().flat_map(|page| at(page, &["expanded"]).as_array().unwrap());
            let together: String = parts.map(|item| unquoted(text(item, &["content"]))).collect();
            assert_eq!(&together, whole, "message {number}");
        }
    }
}

#[test]
fn many_hits_come_once_each() {
    let texts: Vec<String> = (0..300).map(|number| format!("{}灯塔{number}\u{7}", "很长的句子。".repeat(60))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let desk = desk(&[("main", "owner", "one", &texts)]);
    let mut client = Client::open(&desk, &[], "{}");
    for (name, arguments, list) in [
        ("grep", r#"{"query":"灯塔[0-9]+","mode":"regex","limit":200,"max_tokens":1000000}"#, "results"),
        ("load_session", r##"{"session_id":"#1","limit":200,"max_content_chars":20000}"##, "messages"),
    ] {
        let pages = pages(&mut client, name, arguments);
        assert!(pages.len() > 3, "{name}: {} pages", pages.len());
        let items = pages.iter().flat_map(|page| at(page, &[list]).as_array().unwrap());
        let mut numbers: Vec<u64> = items.map(|item| at(item, &["store_id"]).as_u64().unwrap()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=300).collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn what_a_question_gives_is_within_the_bound_too() {
    let texts: Vec<String> = (0..60).map(|number| format!("灯塔 {number} {}", "很长的句子。".repeat(400))).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let desk = desk(&[("main", "owner", "one", &texts)]);
    let mut client = Client::open(&desk, &[], "{}");
    for arguments in [
        r#"{"prompt":"灯塔","max_results":50,"context_max_tokens":1000000,"output":"evidence"}"#,
        r#"{"prompt":"灯塔","max_results":50}"#,
    ] {
        let result = client.call("expand_query", arguments);
        let text = said(&result);
        assert!((8_000..=BYTES_MAX).contains(&text.len()), "{} bytes", text.len());
        assert!(!at(&Json::parse(text.as_bytes()).unwrap(), &["evidence"]).as_array().unwrap().is_empty());
    }
}
