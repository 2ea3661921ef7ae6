//! LibreFang's hook requests and answers: at present what a hook answers when nobody serves.

use lcm_core::Json;

/// What a hook answers on its own: the window as it came, and nothing else.
///
/// Pure, and without a panic for any bytes. The answer is one line.
#[must_use]
pub fn alone(request: &[u8]) -> Vec<u8> {
    let request = Json::parse(request).unwrap_or(Json::Null);
    let kind = request.get("type").and_then(Json::as_str);
    match (kind, request.get("messages")) {
        (Some("assemble" | "compact"), Some(messages)) => {
            Json::object([("type", "assemble_result".into()), ("messages", messages.clone())]).to_text()
        }
        _ => br#"{"type":"ok"}"#.to_vec(),
    }
}
