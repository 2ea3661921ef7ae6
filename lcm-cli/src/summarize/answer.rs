//! What came back, read: a chat completion's text, or what is wrong with it. Pure.

use std::time::Duration;

use jiff::fmt::rfc2822;
use lcm_core::Json;

use super::failure::{Failure, words};

/// Reads the answer of a request that succeeded.
pub(super) fn read(content_type: &str, body: &[u8]) -> Result<String, Failure> {
    let content_type = content_type.to_ascii_lowercase();
    let begin = body.trim_ascii_start();
    if begin.is_empty() {
        return Err(Failure::Empty);
    }
    // The first bytes say more than the type: services name all kinds of types for JSON, but JSON begins with none of
    // these.
    if begin.starts_with(b"<") || content_type.starts_with("text/html") {
        return Err(Failure::WebPage);
    }
    if content_type.starts_with("text/event-stream") || begin.starts_with(b"data:") || begin.starts_with(b"event:") {
        return Err(Failure::Stream);
    }
    let json = Json::parse(body).map_err(|error| Failure::NoJson(error.to_string()))?;
    if let Some(error) = json.get("error").filter(|error| !error.is_null()) {
        return Err(Failure::Error(message(error)));
    }
    let choices = json.get("choices").and_then(Json::as_array).ok_or(Failure::NoCompletion("it has no choices"))?;
    let choice = choices.first().ok_or(Failure::NoCompletion("its list of choices is empty"))?;
    match choice.get("finish_reason").and_then(Json::as_str) {
        Some("length" | "max_tokens") => return Err(Failure::CutOff),
        Some(reason @ ("content_filter" | "safety")) => return Err(Failure::HeldBack(reason.to_owned())),
        _ => {}
    }
    let message = choice.get("message").ok_or(Failure::NoCompletion("its choice has no message"))?;
    let text = match message.get("content") {
        Some(content) if !content.is_null() => text(content).ok_or(Failure::NoCompletion("its content is no text"))?,
        _ => String::new(),
    };
    if !text.trim().is_empty() {
        return Ok(text);
    }
    match message.get("refusal").and_then(Json::as_str) {
        Some(refusal) => Err(Failure::Declined(words(refusal))),
        None => Err(Failure::Empty),
    }
}

/// A content: a text, or a list of parts of which the texts count.
fn text(content: &Json) -> Option<String> {
    if let Some(text) = content.as_str() {
        return Some(text.to_owned());
    }
    let mut all = String::new();
    for part in content.as_array()? {
        // What a model thought is no answer, and has another type.
        let is_text = part.get("type").and_then(Json::as_str).is_none_or(|kind| matches!(kind, "text" | "output_text"));
        match part.get("text").and_then(Json::as_str).or_else(|| part.as_str()) {
            Some(text) if is_text => all.push_str(text),
            _ => {}
        }
    }
    Some(all)
}

/// Why a request failed, from its status and what the service says.
pub(super) fn failure(status: u16, retry_after: Option<&str>, body: &[u8], now_ms: i64) -> Failure {
    if (300..400).contains(&status) {
        return Failure::Elsewhere(status);
    }
    let error = Json::parse(body).ok().and_then(|json| json.get("error").cloned().or(Some(json)));
    let says = |key: &str, word: &str| {
        error.as_ref().and_then(|error| error.get(key)).and_then(Json::as_str).is_some_and(|said| said == word)
    };
    Failure::Status {
        status,
        words: error.as_ref().map(message).unwrap_or_default(),
        retry_after: retry_after.and_then(|text| wait(text, now_ms)),
        is_final: says("code", "insufficient_quota") || says("type", "insufficient_quota"),
    }
}

/// What an error object says. A page for people says nothing.
fn message(error: &Json) -> String {
    let texts =
        [error.as_str(), error.get("message").and_then(Json::as_str), error.get("detail").and_then(Json::as_str)];
    words(texts.into_iter().flatten().next().unwrap_or("it does not say why"))
}

/// When to come back, of a `Retry-After`: seconds, or a moment.
fn wait(text: &str, now_ms: i64) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let moment = rfc2822::parse(text).ok()?.timestamp().as_millisecond();
    Some(Duration::from_millis(u64::try_from(moment.saturating_sub(now_ms)).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(body: &str) -> Result<String, Failure> {
        read("application/json", body.as_bytes())
    }

    fn choice(inside: &str) -> Result<String, Failure> {
        json(&format!(r#"{{"id":"x","choices":[{{"index":0,{inside}}}],"usage":{{"total_tokens":3}}}}"#))
    }

    #[test]
    fn texts_and_parts_are_read() {
        let good = |inside| choice(inside).unwrap();
        assert_eq!(good(r#""message":{"role":"assistant","content":"a\nb"},"finish_reason":"stop""#), "a\nb");
        assert_eq!(
            good(r#""message":{"content":[{"type":"text","text":"a"},{"type":"output_text","text":"b"}]}"#),
            "ab"
        );
        assert_eq!(
            good(r#""message":{"content":[{"type":"thinking","text":"hm"},{"type":"text","text":"a"},"b"]}"#),
            "ab"
        );
        assert_eq!(read("text/plain", br#"{"choices":[{"message":{"content":"a"}}]}"#).unwrap(), "a");
    }

    #[test]
    fn every_wrong_answer_has_its_name() {
        assert_eq!(json(""), Err(Failure::Empty));
        assert_eq!(json(" \n<!doctype html><title>Sign in</title>"), Err(Failure::WebPage));
        assert_eq!(read("text/html; charset=utf-8", b"{}"), Err(Failure::WebPage));
        assert_eq!(json("data: {\"choices\":[]}\n\n"), Err(Failure::Stream));
        assert!(matches!(json("{\"choices\": [{\"mess"), Err(Failure::NoJson(_))));
        assert!(matches!(json("I am a summary."), Err(Failure::NoJson(_))));
        assert_eq!(json("[]"), Err(Failure::NoCompletion("it has no choices")));
        assert_eq!(json(r#"{"choices":[]}"#), Err(Failure::NoCompletion("its list of choices is empty")));
        assert_eq!(choice(r#""text":"x""#), Err(Failure::NoCompletion("its choice has no message")));
        assert_eq!(choice(r#""message":{"content":7}"#), Err(Failure::NoCompletion("its content is no text")));
        assert_eq!(choice(r#""message":{"content":" \n"}"#), Err(Failure::Empty));
        assert_eq!(choice(r#""message":{"content":[{"type":"image","url":"x"}]}"#), Err(Failure::Empty));
        assert_eq!(choice(r#""message":{"content":null}"#), Err(Failure::Empty));
        assert_eq!(
            choice(r#""message":{"content":null,"refusal":"I won't"}"#),
            Err(Failure::Declined("I won't".into()))
        );
        assert_eq!(choice(r#""message":{"content":"half a"},"finish_reason":"length""#), Err(Failure::CutOff));
        let held = choice(r#""message":{"content":""},"finish_reason":"content_filter""#);
        assert_eq!(held, Err(Failure::HeldBack("content_filter".into())));
        assert_eq!(json(r#"{"error":{"message":"overloaded\nnow"}}"#), Err(Failure::Error("overloaded now".into())));
        assert_eq!(choice(r#""message":{"content":"a"},"finish_reason":"stop""#).as_deref(), Ok("a"));
    }

    #[test]
    fn a_failed_request_says_why_and_when_to_come_back() {
        let told = |status, after, body: &str| failure(status, after, body.as_bytes(), 1_772_712_000_000).to_string();
        assert_eq!(
            told(401, None, r#"{"error":{"message":"wrong key","code":"invalid_api_key"}}"#),
            "status 401: wrong key"
        );
        assert_eq!(told(404, None, r#"{"error":"no model m"}"#), "status 404: no model m");
        assert_eq!(told(422, None, r#"{"detail":"bad"}"#), "status 422: bad");
        assert_eq!(told(502, None, "<html>bad gateway</html>"), "status 502");
        assert!(told(308, None, "").starts_with("status 308: it points to another address"));
        let after = |text| match failure(429, Some(text), b"", 1_772_712_000_000) {
            Failure::Status { retry_after, .. } => retry_after.map(|wait| wait.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!(after("7"), Some(7));
        assert_eq!(after("Thu, 05 Mar 2026 12:00:30 GMT"), Some(30));
        assert_eq!(after("Thu, 05 Mar 2020 12:00:30 GMT"), Some(0));
        for odd in ["soon", "-1", "1.5", ""] {
            assert_eq!(after(odd), None, "{odd}");
        }
        let empty = failure(429, None, br#"{"error":{"message":"no money","code":"insufficient_quota"}}"#, 0);
        assert!(!empty.may_pass());
    }

    proptest! {
        #[test]
        fn no_answer_panics(kind in "\\PC{0,10}", body in prop::collection::vec(any::<u8>(), 0..60),
                            status in any::<u16>(), json in "[\\[\\]{}\":,a-z0-9]{0,60}", after in "\\PC{0,12}") {
            for body in [&body[..], json.as_bytes()] {
                let _read = read(&kind, body);
                let _failure = failure(status, Some(&after), body, 0);
            }
        }
    }
}
