//! The client's model answers questions, where the client offers one; and the client is told how a call gets on.

use lcm_core::Json;

use super::child::{Client, at, desk, request, said, text};

const QUESTION: &str =
    r#"{"name":"expand_query","arguments":{"prompt":"what is lit?","query":"lamp"},"_meta":{"progressToken":"p1"}}"#;

#[test]
fn a_question_goes_to_the_clients_model_and_its_answer_comes_back() {
    let desk = desk(&[("main", "owner", "one", &["the lamp is lit at dusk"])]);
    let mut client = Client::open(&desk, &[], r#"{"sampling":{}}"#);
    client.say(&request(5, "tools/call", QUESTION));
    // How it gets on, and the question itself, in either order.
    let (mut asked, mut steps) = (None, 0);
    while asked.is_none() || steps == 0 {
        let told = client.told();
        match text(&told, &["method"]) {
            "notifications/progress" => {
                assert_eq!(text(&told, &["params", "progressToken"]), "p1");
                steps += 1;
            }
            "sampling/createMessage" => asked = Some(told),
            method => panic!("{method}"),
        }
    }
    let asked = asked.unwrap();
    let messages = at(&asked, &["params", "messages"]).as_array().unwrap();
    assert!(text(&messages[0], &["content", "text"]).contains("| the lamp is lit at dusk"));
    assert!(text(&asked, &["params", "systemPrompt"]).contains("what is lit?"));
    assert_eq!(at(&asked, &["params", "maxTokens"]).as_u64(), Some(2000));
    let id = String::from_utf8(at(&asked, &["id"]).to_text()).unwrap();
    client.say(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"role":"assistant","content":{{"type":"text","text":"The lamp."}},"model":"m-1","stopReason":"endTurn"}}}}"#
    ));
    let told = loop {
        let told = client.told();
        if told.get("method").is_none() {
            break told;
        }
    };
    let answer = Json::parse(said(at(&told, &["result"])).as_bytes()).unwrap();
    assert!(text(&answer, &["answer"]).contains("> The lamp."));
    assert_eq!(text(&answer, &["model"]), "m-1");
}

#[test]
fn a_model_that_fails_leaves_the_originals() {
    let desk = desk(&[("main", "owner", "one", &["the lamp is lit at dusk"])]);
    for answer in [
        r#""error":{"code":-1,"message":"the user said no"}"#,
        r#""result":{"nonsense":true}"#,
        r#""result":{"role":"assistant","content":{"type":"text","text":""},"model":""}"#,
        r#""result":{"role":"assistant","content":{"type":"image","data":"","mimeType":"image/png"},"model":"m"}"#,
        r#""result":{"role":"assistant","content":[],"model":"m"}"#,
    ] {
        let mut client = Client::open(&desk, &[], r#"{"sampling":{}}"#);
        client.say(&request(5, "tools/call", r#"{"name":"lcm_expand_query","arguments":{"prompt":"lamp"}}"#));
        let id = String::from_utf8(at(&client.told(), &["id"]).to_text()).unwrap();
        client.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},{answer}}}"#));
        let told = client.told();
        let degraded = Json::parse(said(at(&told, &["result"])).as_bytes()).unwrap();
        assert_eq!(at(&degraded, &["degraded"]).as_bool(), Some(true), "{answer}");
        assert_eq!(at(&degraded, &["evidence"]).as_array().unwrap().len(), 1, "{answer}");
    }
}

#[test]
fn a_client_that_offers_no_model_is_not_asked() {
    let desk = desk(&[("main", "owner", "one", &["the lamp is lit at dusk"])]);
    let mut client = Client::open(&desk, &[], "{}");
    let answer = client.answer("expand_query", r#"{"prompt":"lamp"}"#);
    assert!(text(&answer, &["degraded_reason"]).starts_with("there is no model to ask"), "{answer:?}");
}
