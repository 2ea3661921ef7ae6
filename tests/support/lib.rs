//! What the tests share.

pub mod again;
pub mod folder;
pub mod random;
pub mod run;
pub mod speech;
pub mod stores;
