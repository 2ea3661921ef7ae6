//! The whole client against a server that answers well, badly, slowly, too much or not at all. The server is a
//! listener on this machine that reads one request a connection and then does what the test says.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::*;

const KEY: &str = "sk-hush-0123456789";

type Act = Box<dyn FnOnce(&mut TcpStream) + Send>;

struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    thread: JoinHandle<()>,
}

impl Server {
    /// A server that takes as many connections as there are acts, and then is gone.
    fn that(acts: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = asked.clone();
        let thread = thread::spawn(move || {
            for act in acts {
                let (mut stream, _) = listener.accept().unwrap();
                // A client that never comes must not hang the test.
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let request = request(&mut stream);
                seen.lock().unwrap().push(request);
                act(&mut stream);
            }
        });
        Self { address, asked, thread }
    }

    fn model(&self) -> Model {
        model(&format!("http://{}/v1", self.address))
    }

    /// What was asked, when all connections are over.
    fn asked(self) -> Vec<String> {
        self.thread.join().unwrap();
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

/// One request, whole.
fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => bytes.extend_from_slice(&buffer[..read]),
            _ => return text,
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> Act {
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len());
    Box::new(move |stream| stream.write_all(text.as_bytes()).unwrap())
}

fn good(text: &str) -> Act {
    let body =
        format!(r#"{{"choices":[{{"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}]}}"#);
    answer("200 OK", "content-type: application/json\r\n", &body)
}

/// Waits until the client has gone.
fn hang() -> Act {
    Box::new(|stream| while stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {})
}

fn model(base_url: &str) -> Model {
    Model {
        base_url: base_url.to_owned(),
        name: "test-model".to_owned(),
        key: Secret::new(KEY),
        reasoning_effort: String::new(),
        limit_parameter: "max_tokens".to_owned(),
        headroom_tokens: 100,
        bounds: Bounds { time: Duration::from_secs(10), first_pause: Duration::from_millis(4), ..Bounds::default() },
        cap: Cap { calls: 24, tokens: 0, window: Duration::from_secs(600), backoff: Duration::from_secs(1800) },
        breaker_failures: 2,
        breaker_cooldown: Duration::from_secs(300),
    }
}

fn client(model: Model) -> HttpSummarizer {
    HttpSummarizer::new(model, Spent::default()).unwrap()
}

fn prompt() -> SummaryPrompt {
    SummaryPrompt {
        instructions: "say \"it\" short".to_owned(),
        material: "user| paint the pier\nblue é".to_owned(),
        tokens_max: 300,
        time_max: Duration::from_secs(10),
    }
}

fn asked_once(act: Act) -> Result<String, Failure> {
    let server = Server::that(vec![act]);
    let told = client(server.model()).ask(&prompt());
    assert_eq!(server.asked().len(), 1, "{told:?}");
    told
}

#[test]
fn a_good_answer_is_taken_and_the_request_says_all_that_is_needed() {
    let server = Server::that(vec![good("the pier is to be blue")]);
    let client = client(Model { reasoning_effort: "low".to_owned(), ..server.model() });
    assert_eq!(client.summarize(&prompt()).unwrap(), "the pier is to be blue");
    assert_eq!(client.model(), "test-model");
    let asked = server.asked();
    let (head, body) = asked[0].split_once("\r\n\r\n").unwrap();
    let head = head.to_ascii_lowercase();
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("authorization: bearer {KEY}")) && head.contains("content-type: application/json"));
    assert_eq!(
        body,
        "{\"model\":\"test-model\",\"messages\":[{\"role\":\"system\",\"content\":\"say \\\"it\\\" short\"},\
         {\"role\":\"user\",\"content\":\"user| paint the pier\\nblue é\"}],\"stream\":false,\"max_tokens\":400,\
         \"reasoning_effort\":\"low\"}"
    );
}

#[test]
fn without_a_key_none_is_sent() {
    let server = Server::that(vec![good("x")]);
    client(Model { key: Secret::default(), limit_parameter: String::new(), ..server.model() }).ask(&prompt()).unwrap();
    let asked = server.asked();
    assert!(!asked[0].to_ascii_lowercase().contains("authorization") && !asked[0].contains("max_tokens"), "{asked:?}");
}

#[test]
fn what_fails_for_a_moment_is_tried_again() {
    let server = Server::that(vec![
        answer("429 Too Many Requests", "retry-after: 0\r\n", r#"{"error":{"message":"slow down"}}"#),
        answer("503 Service Unavailable", "", "busy"),
        good("at last"),
    ]);
    assert_eq!(client(server.model()).ask(&prompt()).unwrap(), "at last");
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn a_fault_that_stays_is_told_when_the_tries_are_over() {
    let fault = || answer("500 Internal Server Error", "", r#"{"error":{"message":"out of memory"}}"#);
    let server = Server::that(vec![fault(), fault(), fault()]);
    let told = client(server.model()).ask(&prompt()).unwrap_err();
    assert_eq!(told.to_string(), "status 500: out of memory");
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn what_stays_wrong_is_not_tried_again() {
    for (act, says) in [
        (answer("401 Unauthorized", "", r#"{"error":{"message":"wrong key"}}"#), "status 401: wrong key"),
        (answer("404 Not Found", "", "<html>"), "status 404"),
        (
            answer("429 Too Many Requests", "", r#"{"error":{"message":"no money","code":"insufficient_quota"}}"#),
            "status 429: no money",
        ),
        (answer("501 Not Implemented", "", ""), "status 501"),
    ] {
        assert_eq!(asked_once(act).unwrap_err().to_string(), says);
    }
}

#[test]
fn a_wait_longer_than_the_time_is_not_waited() {
    let begun = Instant::now();
    let told = asked_once(answer("429 Too Many Requests", "retry-after: 3600\r\n", "")).unwrap_err();
    assert!(matches!(told, Failure::Status { status: 429, .. }), "{told:?}");
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_redirect_is_not_followed() {
    let told = asked_once(answer("307 Temporary Redirect", "location: http://127.0.0.1:1/v1/chat/completions\r\n", ""));
    assert_eq!(told, Err(Failure::Elsewhere(307)));
}

#[test]
fn a_server_that_hangs_or_drips_costs_the_time_of_the_prompt_and_no_more() {
    let drip: Act = Box::new(|stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n").unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(3))).unwrap();
        // A byte, and a look whether the client is still there, which is also the pause.
        while stream.write_all(b" ").is_ok() && !stream.read(&mut [0; 8]).is_ok_and(|read| read == 0) {}
    });
    let heads: Act = Box::new(|stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").unwrap();
        while stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
    });
    for act in [hang(), drip, heads] {
        let server = Server::that(vec![act]);
        let time = Duration::from_millis(150);
        let begun = Instant::now();
        let told = client(server.model()).ask(&SummaryPrompt { time_max: time, ..prompt() });
        assert_eq!(told, Err(Failure::TimedOut(time)));
        assert!(begun.elapsed() >= time && begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert_eq!(server.asked().len(), 1, "what took all the time is not tried again");
    }
}

#[test]
fn of_an_answer_that_is_too_long_no_more_than_the_bound_is_read() {
    const MANY: usize = 50_000_000;
    for head in ["content-length: 50000000\r\n", "transfer-encoding: chunked\r\n", ""] {
        let sent = Arc::new(Mutex::new(0));
        let counted = sent.clone();
        let act: Act = Box::new(move |stream| {
            let chunk = [b' '; 0x10000];
            let is_chunked = head.starts_with("transfer");
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n").as_bytes()).unwrap();
            let mut send = || {
                if is_chunked {
                    stream.write_all(b"10000\r\n")?;
                }
                stream.write_all(&chunk)?;
                if is_chunked { stream.write_all(b"\r\n") } else { Ok(()) }
            };
            while *counted.lock().unwrap() < MANY && send().is_ok() {
                *counted.lock().unwrap() += chunk.len();
            }
        });
        assert_eq!(asked_once(act), Err(Failure::TooLong(1_000_000)), "{head}");
        // Beyond the bound there is what the sockets hold.
        assert!(*sent.lock().unwrap() < MANY / 2, "{head}: {} bytes were taken", sent.lock().unwrap());
    }
}

#[test]
fn wrong_answers_are_named() {
    let body = |kind: &str, body: &str| asked_once(answer("200 OK", &format!("content-type: {kind}\r\n"), body));
    assert_eq!(body("text/html", "<!doctype html><p>Sign in"), Err(Failure::WebPage));
    assert_eq!(body("text/event-stream", "data: {}\n\n"), Err(Failure::Stream));
    assert!(matches!(body("application/json", "{\"choices\":"), Err(Failure::NoJson(_))));
    assert_eq!(body("application/json", ""), Err(Failure::Empty));
    let cut = r#"{"choices":[{"message":{"content":"half"},"finish_reason":"length"}]}"#;
    assert_eq!(body("application/json", cut), Err(Failure::CutOff));
    assert!(matches!(asked_once(answer("204 No Content", "", "")), Err(Failure::Empty)));
}

#[test]
fn a_connection_that_breaks_is_tried_again_and_told() {
    let cut = || -> Act {
        Box::new(|stream| stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"choices\"").unwrap())
    };
    let garbage = || -> Act { Box::new(|stream| stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").unwrap()) };
    let reset = || -> Act { Box::new(|stream| stream.shutdown(Shutdown::Both).unwrap()) };
    for acts in [vec![cut(), cut(), cut()], vec![garbage(), garbage(), garbage()], vec![reset(), reset(), reset()]] {
        let server = Server::that(acts);
        let told = client(server.model()).ask(&prompt());
        assert!(matches!(told, Err(Failure::Broken(_))), "{told:?}");
        assert_eq!(server.asked().len(), 3);
    }
    let server = Server::that(vec![reset(), good("better")]);
    assert_eq!(client(server.model()).ask(&prompt()).unwrap(), "better");
    server.asked();
}

#[test]
fn a_connection_that_is_reset_is_tried_again_and_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // What closes a connection with something unread in it resets it.
    let server = thread::spawn(move || {
        for _ in 0..3 {
            let (stream, _) = listener.accept().unwrap();
            stream.peek(&mut [0; 1]).unwrap();
        }
    });
    let told = client(model(&format!("http://{address}"))).ask(&prompt());
    assert!(matches!(&told, Err(Failure::Broken(why)) if why.contains("reset")), "{told:?}");
    server.join().unwrap();
}

#[test]
fn an_error_with_an_endless_page_is_its_status() {
    let act: Act = Box::new(|stream| {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert_eq!(asked_once(act).unwrap_err().to_string(), "status 400");
}

fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn a_closed_port_and_a_name_that_nobody_has_are_told() {
    for url in [format!("http://{}/v1", closed_port()), "http://nobody.invalid/v1".to_owned()] {
        let client = client(Model { bounds: Bounds { retries: 0, ..model(&url).bounds }, ..model(&url) });
        let told = client.summarize(&prompt()).unwrap_err();
        assert!(matches!(&told, SummarizerError::Unreachable(_)), "{told:?}");
        assert!(!told.to_string().contains("/v1"), "the address is not repeated: {told}");
    }
}

#[test]
fn encryption_is_not_left_out() {
    // A server without it is no server for an address with it; on a machine without certificates there is no client.
    let url = format!("https://{}/v1", closed_port());
    let told = HttpSummarizer::new(model(&url), Spent::default()).and_then(|client| client.summarize(&prompt()));
    assert!(matches!(told, Err(SummarizerError::Unreachable(_))), "{told:?}");
    let server = Server::that(vec![Box::new(|_| {})]);
    let url = format!("https://{}/v1", server.address);
    let model = Model { bounds: Bounds { retries: 0, ..model(&url).bounds }, ..model(&url) };
    let Ok(client) = HttpSummarizer::new(model, Spent::default()) else {
        drop(TcpStream::connect(server.address));
        return;
    };
    assert!(matches!(client.summarize(&prompt()), Err(SummarizerError::Unreachable(_))));
    assert!(!server.asked()[0].contains(KEY));
}

#[test]
fn no_failure_says_the_key() {
    let echo = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}"}}}}"#);
    let acts: Vec<Act> = vec![
        answer("401 Unauthorized", "", &echo),
        answer("200 OK", "", &echo),
        answer("200 OK", "", &format!("{KEY} is no JSON")),
        answer("200 OK", "", &format!(r#"{{"choices":[{{"message":{{"content":null,"refusal":"not {KEY}"}}}}]}}"#)),
        answer("302 Found", &format!("location: http://x/{KEY}\r\n"), ""),
        Box::new(|stream| stream.write_all(format!("HTTP/1.1 {KEY}\r\n\r\n").as_bytes()).unwrap()),
    ];
    for act in acts {
        let server = Server::that(vec![act]);
        let model = Model { bounds: Bounds { retries: 0, ..server.model().bounds }, ..server.model() };
        assert!(!format!("{model:?}").contains(KEY));
        let told = client(model).summarize(&prompt()).unwrap_err();
        assert!(!told.to_string().contains(KEY) && !format!("{told:?}").contains(KEY), "{told}");
        server.asked();
    }
}

#[test]
fn after_two_failures_the_model_is_left_alone() {
    let server = Server::that(vec![answer("400 Bad Request", "", ""), answer("400 Bad Request", "", "")]);
    let client = client(server.model());
    for _ in 0..2 {
        assert!(matches!(client.ask(&prompt()), Err(Failure::Status { status: 400, .. })));
    }
    // Nobody listens any more: were it asked, there would be no connection.
    server.asked();
    assert!(
        matches!(client.summarize(&prompt()), Err(SummarizerError::Spent(why)) if why.contains("failed too often"))
    );
}

#[test]
fn what_is_spent_is_spent_also_by_others_and_by_repetitions() {
    let server = Server::that(vec![answer("500 Internal Server Error", "", ""), good("x")]);
    let cap = Cap { calls: 5, ..server.model().cap };
    let client = HttpSummarizer::new(Model { cap, ..server.model() }, Spent { calls: 3, ..Spent::default() }).unwrap();
    client.ask(&prompt()).unwrap();
    assert_eq!(server.asked().len(), 2);
    assert!(matches!(client.summarize(&prompt()), Err(SummarizerError::Spent(why)) if why.contains("5 calls")));
}

#[test]
fn it_can_be_asked_from_many_threads_and_from_inside_a_runtime() {
    let server = Server::that((0..8).map(|_| good("x")).collect());
    let client = client(server.model());
    thread::scope(|scope| {
        let threads: Vec<_> = (0..7).map(|_| scope.spawn(|| client.ask(&prompt()))).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap().unwrap(), "x");
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(async { client.ask(&prompt()) }).unwrap(), "x");
    server.asked();
}
