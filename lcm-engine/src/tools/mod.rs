//! The tools that agents call.

use lcm_store::Store;

use crate::service::{ToolAnswer, ToolCall};

/// Answers a call.
pub(crate) fn call(_store: &Store, call: &ToolCall<'_>) -> ToolAnswer {
    ToolAnswer { text: format!(r#"{{"error":"there is no tool {}"}}"#, call.name.len()), is_error: true }
}
