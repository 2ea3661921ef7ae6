//! Whatever a client sends gives an answer or nothing, never an end and never a line that is not of the protocol.

use lcm_core::Json;
use lcm_tests::run::Desk;

use super::child::{Client, at, desk, error, request, said};

#[test]
fn lines_that_are_no_message_are_told_so() {
    let desk = Desk::new();
    let mut client = Client::open(&desk, &[], "{}");
    for (line, code) in [
        ("nonsense", -32700),
        ("{\"jsonrpc\":", -32700),
        ("\u{0}\u{0}", -32700),
        (&"[".repeat(100_000), -32700),
        ("[]", -32600),
        ("7", -32600),
        ("{}", -32600),
        (r#"{"id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"nope"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"prompts/list"}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}"#, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{}}"#, -32602),
    ] {
        client.say(line);
        let told = client.told();
        assert_eq!(error(&told).0, code, "{line:.80}: {told:?}");
    }
    let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#, "x".repeat(17 << 20));
    client.say(&long);
    assert_eq!(error(&client.told()).0, -32001);
    assert!(client.ask(2, "ping", "{}").get("result").is_some());
    assert_eq!(client.end(), (Vec::new(), Some(0)));
}

#[test]
fn what_wants_no_answer_gets_none() {
    let desk = Desk::new();
    let mut client = Client::open(&desk, &[], "{}");
    for line in [
        "",
        "  ",
        r#"{"jsonrpc":"2.0","method":"notifications/nope","params":{"a":[]}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":7}"#,
        r#"{"jsonrpc":"2.0","id":77,"result":{"nobody":"asked"}}"#,
        r#"{"jsonrpc":"2.0","id":77,"error":{"code":1,"message":"x"}}"#,
        r#"{"method":"x"}"#,
    ] {
        client.say(line);
    }
    assert!(client.ask(2, "ping", "{}").get("result").is_some());
    assert_eq!(client.end(), (Vec::new(), Some(0)));
}

#[test]
fn a_client_that_begins_wrongly_can_begin_again() {
    let desk = Desk::new();
    let mut client = Client::start(&desk, &[]);
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":5,"result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    ] {
        client.say(line);
    }
    assert!(client.ask(1, "tools/list", "{}").get("error").is_some());
    assert!(client.ask(2, "initialize", r#"{"protocolVersion":7}"#).get("error").is_some());
    let params = r#"{"protocolVersion":"1999-01-01","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;
    assert!(client.ask(3, "initialize", params).get("result").is_some());
    assert!(client.ask(4, "tools/list", "{}").get("result").is_some());
}

#[test]
fn arguments_of_any_kind_are_read_or_refused_by_the_tool() {
    let desk = desk(&[("main", "owner", "one", &["the lamp"])]);
    let mut client = Client::open(&desk, &[], "{}");
    let found = |answer: &Json| answer.get("total_results").and_then(Json::as_u64);
    assert_eq!(found(&client.answer("grep", r#""{\"query\":\"lamp\"}""#)), Some(1));
    for arguments in ["null", "[]", "7", r#""x""#, r#"{"query":{}}"#, r#"{"query":null}"#] {
        let result = client.call("grep", arguments);
        assert_eq!(at(&result, &["isError"]).as_bool(), Some(true), "{arguments}");
    }
    // Half of a character that has two halves, and bytes that are no text.
    assert_eq!(found(&client.answer("grep", r#"{"query":"\ud83d"}"#)), Some(0));
    assert_eq!(found(&client.answer("grep", r#"{"query":"\ud83e\udd80"}"#)), Some(0));
    client.send(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"grep\",\"arguments\":{\"query\":\"\xff\"}}}\n");
    let told = client.told();
    assert!(said(at(&told, &["result"])).contains("\"total_results\":0"), "{told:?}");
}

#[test]
fn metadata_that_is_none_gives_no_more_than_none() {
    let desk = desk(&[("main", "owner", "one", &["the lamp"])]);
    let mut client = Client::open(&desk, &[], "{}");
    let call = |meta: &str| format!(r#"{{"name":"grep","arguments":{{"query":"lamp"}},"_meta":{meta}}}"#);
    for meta in ["{}", r#"{"progressToken":"t"}"#, r#"{"progressToken":[]}"#, r#"{"other":1}"#, "null"] {
        let told = client.ask(1, "tools/call", &call(meta));
        assert!(said(at(&told, &["result"])).contains("\"total_results\":1"), "{meta}: {told:?}");
    }
    for meta in ["7", "[]", r#""x""#] {
        let told = client.ask(1, "tools/call", &call(meta));
        assert!(told.get("error").is_some(), "{meta}: {told:?}");
    }
    // Who is named and not known reads nothing, whatever is said of them.
    for caller in [r#"{"session_id":"x"}"#, "{}", "null", "7", "[]"] {
        let meta = format!(r#"{{"io.librefang/caller":{caller}}}"#);
        for arguments in [r#"{"query":"lamp"}"#, r#""{\"query\":\"lamp\"}""#] {
            let params = format!(r#"{{"name":"grep","arguments":{arguments},"_meta":{meta}}}"#);
            let told = client.ask(1, "tools/call", &params);
            // Where a session is named, the hook of the host puts the answer in the place of this one.
            let why = if caller.contains("session_id") { "[lcm:call " } else { "nothing in scope" };
            let answer = said(at(&told, &["result"]));
            assert!(answer.contains(why) && !answer.contains("lamp"), "{params}: {told:?}");
        }
        let told = client.ask(1, "resources/read", &format!(r#"{{"uri":"lcm://session/1","_meta":{meta}}}"#));
        assert!(error(&told).1.starts_with("nothing in scope"), "{told:?}");
        let told = client.ask(1, "resources/list", &format!(r#"{{"_meta":{meta}}}"#));
        let listed = told.get("result").and_then(|result| result.get("resources")?.as_array().map(<[Json]>::len));
        assert!(told.get("error").is_some() || listed == Some(0), "{told:?}");
    }
}

#[test]
fn an_id_that_is_in_use_is_refused_and_many_calls_at_once_are_answered_each() {
    let desk = desk(&[("main", "owner", "one", &["the lamp"])]);
    let mut client = Client::open(&desk, &[], r#"{"sampling":{}}"#);
    client.say(&request(5, "tools/call", r#"{"name":"expand_query","arguments":{"prompt":"lamp"}}"#));
    let asked = client.told();
    assert_eq!(error(&client.ask(5, "ping", "{}")).0, -32600);
    client.say(&format!(
        r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-1,"message":"no"}}}}"#,
        String::from_utf8(at(&asked, &["id"]).to_text()).unwrap()
    ));
    let told = client.told();
    assert_eq!(at(&told, &["id"]).as_u64(), Some(5));
    for id in 100..300 {
        client.say(&request(id, "tools/call", r#"{"name":"grep","arguments":{"query":"lamp"}}"#));
    }
    let mut ids: Vec<u64> = (100..300).map(|_| at(&client.told(), &["id"]).as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (100..300).collect::<Vec<_>>());
}
