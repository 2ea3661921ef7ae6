//! The allocator of a process that serves: lists of megabytes are taken on one thread and let go on another, for weeks.
//!
//! glibc keeps an arena for each thread, and what is let go stays in it: sixty lists of five megabytes left 190 MB behind
//! that nobody used. Two arenas, and large blocks mapped by themselves, leave a third of that.

/// Blocks from this size on are mapped by themselves, and go back to the system when they are let go. Said here, the bound
/// does not grow with what was let go before.
#[cfg(target_env = "gnu")]
const MAPPED_BYTES_MIN: libc::c_int = 128 << 10;
/// Threads share them; two cores rarely wait for each other.
#[cfg(target_env = "gnu")]
const ARENAS_MAX: libc::c_int = 2;

/// Sets the allocator up; other C libraries are left as they are.
pub(super) fn share() {
    #[cfg(target_env = "gnu")]
    for (what, value) in [(libc::M_ARENA_MAX, ARENAS_MAX), (libc::M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)] {
        // SAFETY: `mallopt` takes two numbers and a lock of its own; it can be called at any time, from any thread.
        #[expect(unsafe_code, reason = "there is no safe door to the allocator of the system")]
        let is_set = unsafe { libc::mallopt(what, value) };
        if is_set == 0 {
            tracing::debug!(what, value, "the allocator does not take it");
        }
    }
}
