//! Every bound with its reason, and compile-time checks of how they relate.

/// One message as JSON text. The largest real ones carry a few images; beyond this a host has a bug.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// Arrays and objects inside each other. Our readers recurse; 256 levels fit any thread's stack.
pub const JSON_DEPTH_MAX: usize = 256;
/// A string under `content` from which on it is a body of its own. Below, the record, its hash and its index
/// row cost more than an average duplicate saves.
pub const CONTENT_BODY_BYTES_MIN: usize = 512;
/// The same for strings elsewhere (call arguments, reasoning), which are rarely said twice.
pub const OTHER_BODY_BYTES_MIN: usize = 4096;
/// Children of one summary. A leaf holds at most a chunk of 20k tokens; a message costs at least 4.
pub const SUMMARY_CHILDREN_MAX: usize = 1 << 16;
/// The names a host gives: sessions, agents, persons, sources.
pub const NAME_BYTES_MAX: usize = 1024;
/// Messages of one commit. Larger imports are cut, so that other processes get their turn in between.
pub const COMMIT_MESSAGES_MAX: usize = 1 << 16;
/// An order key. It grows by a byte about every seven late places at one spot, so this is room for 28,000 of them.
pub const ORDER_KEY_BYTES_MAX: usize = 4096;

const _: () = assert!(CONTENT_BODY_BYTES_MIN <= OTHER_BODY_BYTES_MIN);
const _: () = assert!(OTHER_BODY_BYTES_MIN < MESSAGE_BYTES_MAX);
