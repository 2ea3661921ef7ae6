//! Files of a host's home: written whole or not at all, and a copy of what they were beside them.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// One thing that was done, or would be.
pub(crate) struct Step {
    /// The part.
    pub(crate) part: &'static str,
    /// What was done, as a sentence without a full stop.
    pub(crate) what: String,
}

/// Makes a folder that is its owner's alone.
pub(super) fn private(folder: &Path) -> Result<(), CliError> {
    let fail = |source| CliError::File { what: "make", path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(fail)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(fail)
}

/// Writes a file whole or not at all.
pub(super) fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), CliError> {
    let fail = |source| CliError::File { what: "write", path: path.to_owned(), source };
    let folder = path.parent().ok_or_else(|| fail(io::ErrorKind::NotFound.into()))?;
    fs::create_dir_all(folder).map_err(fail)?;
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(".lcm-new");
    let beside = folder.join(name);
    let written = (|| {
        let mut file = File::create(&beside)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)
    })();
    if written.is_err() {
        drop(fs::remove_file(&beside));
    }
    written.map_err(fail)
}

/// The name for a copy of a file as it was before lcm changed it. Never that of another copy, which may be of what its
/// owner wrote.
pub(super) fn backup(path: &Path, now: &str) -> PathBuf {
    let name = |more: &str| {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".before-lcm-{now}{more}"));
        path.with_file_name(name)
    };
    let mut names = std::iter::once(name("")).chain((2..).map(|nth| name(&format!("-{nth}"))));
    names.find(|backup| !backup.exists()).unwrap_or_else(|| name(""))
}
