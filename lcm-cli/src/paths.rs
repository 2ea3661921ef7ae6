//! Where the store is: `--home`, else `LCM_HOME`, else `lcm` in the user's data folder.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// Looks up an environment variable.
pub(crate) type Env<'a> = dyn Fn(&str) -> Option<OsString> + 'a;

/// The data directory.
pub(crate) fn home(asked: Option<&Path>, env: &Env<'_>) -> Result<PathBuf, CliError> {
    // A variable that is set to nothing is as good as not set.
    let set = |name: &str| env(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(home) = asked.map(Path::to_owned).or_else(|| set("LCM_HOME")) {
        return Ok(home);
    }
    // The XDG rules say that a relative path is to be ignored.
    let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| set("HOME").map(|home| home.join(".local").join("share")));
    data.map(|data| data.join("lcm")).ok_or_else(|| {
        CliError::usage("there is no home directory to keep the store in", "name one with --home or LCM_HOME")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_setting_wins() {
        let found = |asked: Option<&str>, env: &[(&str, &str)]| {
            let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
            home(asked.map(Path::new), &env).ok()
        };
        let all = [("LCM_HOME", "/l"), ("XDG_DATA_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(found(Some("a"), &all), Some("a".into()));
        assert_eq!(found(None, &all), Some("/l".into()));
        assert_eq!(found(None, &[("LCM_HOME", ""), ("XDG_DATA_HOME", "/x")]), Some("/x/lcm".into()));
        assert_eq!(found(None, &[("XDG_DATA_HOME", "x"), ("HOME", "/h")]), Some("/h/.local/share/lcm".into()));
        assert_eq!(found(None, &[]), None);
    }
}
