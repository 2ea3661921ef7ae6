//! Select: what goes into one request.

use lcm_store::Store;

use crate::error::EngineError;
use crate::service::{SelectRequest, Selected};

/// Selects for a request.
pub(crate) fn select(_store: &Store, _request: &SelectRequest) -> Result<Selected, EngineError> {
    Ok(Selected { reason: Some("nothing is folded".to_owned()), ..Selected::default() })
}
