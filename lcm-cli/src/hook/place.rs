//! Where a hook's data directory is. Its host passes neither its own home nor the user's, so the folder in which the
//! program lies tells.

use std::path::{Path, PathBuf};

use crate::paths::Env;

/// The data directory in a home of the host.
const FOLDER: &str = "lcm";

/// `LCM_HOME`, else `lcm` in `LIBREFANG_HOME`, else `lcm` in the home in which the program is a plugin's hook.
///
/// Only absolute paths count: the folder that a hook runs in is the host's, and `HOME` is `/dev/null`.
pub(super) fn home(program: Option<&Path>, env: &Env<'_>) -> Option<PathBuf> {
    let set = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("LCM_HOME")
        .or_else(|| set("LIBREFANG_HOME").map(|home| home.join(FOLDER)))
        .or_else(|| program.and_then(beside))
        .or_else(|| beside(&std::env::current_exe().ok()?))
}

/// The data directory of the host whose hook this is: `<home>/plugins/<name>/hooks/<file>` leads to `<home>/lcm`.
fn beside(program: &Path) -> Option<PathBuf> {
    let hooks = program.parent().filter(|_| program.is_absolute())?;
    let plugins = hooks.parent()?.parent()?;
    let is_named = |folder: &Path, name: &str| folder.file_name().is_some_and(|found| found == name);
    (is_named(hooks, "hooks") && is_named(plugins, "plugins"))
        .then(|| plugins.parent().map(|home| home.join(FOLDER)))?
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn the_nearest_setting_wins_and_only_absolute_paths_count() {
        let program = "/f/plugins/lcm/hooks/lcm-hook";
        let found = |program: &str, env: &[(&str, &str)]| {
            let env = |name: &str| env.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
            home(Some(Path::new(program)), &env)
        };
        let all = [("LCM_HOME", "/l"), ("LIBREFANG_HOME", "/h"), ("HOME", "/u")];
        assert_eq!(found(program, &all), Some("/l".into()));
        assert_eq!(found(program, &all[1..]), Some("/h/lcm".into()));
        assert_eq!(found(program, &all[2..]), Some("/f/lcm".into()));
        assert_eq!(found(program, &[("LCM_HOME", ""), ("LIBREFANG_HOME", "h")]), Some("/f/lcm".into()));
        for other in ["plugins/lcm/hooks/lcm-hook", "lcm-hook", "/usr/bin/lcm-hook", "/plugins/hooks/lcm-hook", "/", ""]
        {
            assert_eq!(found(other, &[("HOME", "/u")]), None, "{other}");
        }
    }
}
