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

/// The lock of whoever brings the index along.
pub(crate) const INDEX_LOCK: &str = ".index.lock";

/// The data file of a generation.
pub(crate) fn data_file(generation: u64) -> String {
    format!("store.{generation}.redb")
}

/// Whether a name is one that we give to data files, whole or in the making; a copy that somebody keeps there is not.
pub(crate) fn is_data_file(name: &str) -> bool {
    let Some((generation, rest)) = name.strip_prefix("store.").and_then(|rest| rest.split_once(".redb")) else {
        return false;
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let in_the_making = rest.strip_prefix('.').and_then(|rest| rest.split_once('.'));
    is_number(generation) && (rest.is_empty() || in_the_making.is_some_and(|(p, i)| is_number(p) && is_number(i)))
}
