//! The format of the store and the range of formats we read; mirrors `docs/format.md`.

/// The format this program writes.
pub const FORMAT: u32 = 1;
/// The oldest format this program reads.
pub(crate) const FORMAT_OLDEST: u32 = 1;
/// The first word of the file `CURRENT`.
pub(crate) const CURRENT_MAGIC: &str = "lcm";
/// The file that names the data file of the present generation.
pub(crate) const CURRENT: &str = "CURRENT";
/// The directory of everything that is derived.
pub(crate) const INDEX_DIR: &str = "index";

/// The data file of a generation.
pub(crate) fn data_file(generation: u64) -> String {
    format!("store.{generation}.redb")
}
