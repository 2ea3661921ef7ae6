//! What a real LibreFang asked, in order: `tests/fixtures/hosts/librefang`.

use std::io::Read;

use flate2::read::GzDecoder;
use lcm_core::Json;

use super::host::{Host, messages_of};

fn recorded() -> Vec<Json> {
    let packed = include_bytes!("../fixtures/hosts/librefang/conversation.jsonl.gz");
    let mut text = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut text).unwrap();
    text.lines().map(|line| Json::parse(line.as_bytes()).unwrap()).collect()
}

fn kind(request: &Json) -> &str {
    request.get("type").and_then(Json::as_str).unwrap()
}

#[test]
fn everything_of_a_real_conversation_is_kept_once_and_every_window_is_valid() {
    let mut host = Host::new(8192);
    let requests = recorded();
    for request in &requests {
        let answer = host.ask(request.clone());
        if ["assemble", "compact"].contains(&kind(request)) {
            host.check(&messages_of(&answer.text));
        }
    }
    let kept = host.all_kept();
    let heard = requests.iter().filter(|request| kind(request) == "ingest");
    let heard: Vec<&str> = heard.map(|request| request.get("message").and_then(Json::as_str).unwrap()).collect();
    assert_eq!(heard.len(), 17);
    for text in heard {
        let times = kept.iter().filter(|kept| kept.ends_with(text)).count();
        assert_eq!(times, usize::from(!text.contains("tulip")), "{text}");
    }
    assert!(kept.iter().all(|text| !text.contains("tulip") && !text.starts_with("[Current date")));
    // The person who wrote from afar has a session of their own.
    let sessions = host.kept();
    assert_eq!(sessions.len(), 2);
    assert!(sessions.values().any(|texts| texts == &["[Bob]: hello from afar"]));
}

#[test]
fn the_same_requests_once_more_add_nothing() {
    let mut host = Host::new(8192);
    let requests = recorded();
    for request in &requests {
        host.ask(request.clone());
    }
    let kept = host.all_kept();
    host.restart();
    for request in &requests {
        host.ask(request.clone());
    }
    assert_eq!(host.all_kept().len(), kept.len());
    assert!(host.all_kept() == kept);
}
