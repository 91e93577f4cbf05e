//! The runtime that `wardlet-oci` hands over to.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::WrapperSettings;

const OURS: &str = "wardlet-oci";

/// Why there is no runtime to hand over to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// The runtime is in no directory of PATH.
    #[error("the runtime {} is nowhere in PATH", name.display())]
    NotFound {
        /// As it is configured.
        name: PathBuf,
    },
    /// The runtime is the calling program.
    #[error("{} is wardlet-oci itself: it cannot hand over to itself", path.display())]
    Itself {
        /// As it is configured.
        path: PathBuf,
    },
}

impl RuntimeError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        "set wrapper.runtime to the real runtime's absolute path".to_owned()
    }
}

/// The file of the runtime that the configuration names, or that the name of the called program names:
/// `wardlet-oci-NAME` hands over to NAME. `search` has directories for names, in the form of PATH. An absolute path is
/// not checked to exist.
pub fn find_runtime(
    settings: &WrapperSettings,
    called_as: &OsStr,
    search: &OsStr,
) -> Result<PathBuf, RuntimeError> {
    let called = Path::new(called_as).file_name().and_then(OsStr::to_str).unwrap_or(OURS);
    let suffix = called.strip_prefix(OURS).and_then(|rest| rest.strip_prefix('-'));
    let wanted = suffix.map_or_else(|| settings.runtime.clone(), PathBuf::from);
    let given = wanted.to_str().and_then(|name| settings.runtimes.get(name)).cloned().unwrap_or(wanted);
    if given.is_absolute() {
        return if is_us(&given) { Err(RuntimeError::Itself { path: given }) } else { Ok(given) };
    }
    std::env::split_paths(search)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(&given))
        .find(|path| is_program(path) && !is_us(path))
        .ok_or(RuntimeError::NotFound { name: given })
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
}

/// Handing over to ourselves would never end.
fn is_us(path: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(path), identity(Path::new("/proc/self/exe"))), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn settings(runtime: &str) -> WrapperSettings {
        let runtimes = [("gvisor".to_owned(), PathBuf::from("/opt/runsc"))].into();
        WrapperSettings { runtime: runtime.into(), runtimes, ..WrapperSettings::default() }
    }

    fn found(runtime: &str, called: &str, search: &str) -> Result<PathBuf, String> {
        find_runtime(&settings(runtime), OsStr::new(called), OsStr::new(search)).map_err(|e| e.to_string())
    }

    #[test]
    fn the_configuration_or_the_name_called_under_chooses() {
        assert_eq!(found("/usr/bin/crun", "wardlet-oci", ""), Ok("/usr/bin/crun".into()));
        assert_eq!(found("gvisor", "/x/wardlet-oci", ""), Ok("/opt/runsc".into()));
        assert_eq!(found("/usr/bin/crun", "/x/wardlet-oci-gvisor", ""), Ok("/opt/runsc".into()));
    }

    #[test]
    fn a_name_is_looked_for_and_never_found_in_ourselves() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, theirs) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::create_dir(&ours).unwrap();
        std::fs::create_dir(&theirs).unwrap();
        std::os::unix::fs::symlink("/proc/self/exe", ours.join("runc")).unwrap();
        std::fs::write(theirs.join("runc"), "").unwrap();
        let search = format!("relative:{}:{}", ours.display(), theirs.display());
        assert!(found("runc", "wardlet-oci", &search).unwrap_err().contains("runc"), "it cannot be run");
        std::fs::set_permissions(theirs.join("runc"), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found("runc", "wardlet-oci", &search), Ok(theirs.join("runc")));
        let us = ours.join("runc");
        assert!(found(us.to_str().unwrap(), "wardlet-oci", "").unwrap_err().contains("itself"));
    }
}
