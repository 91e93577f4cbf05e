//! Names on the host that go with a state directory, so that servers with different ones run side by side.

use std::fs;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use fnv::FnvHasher;

use crate::Node;

/// The state directory whose names have no suffix.
const DEFAULT_STATE: &str = "/var/lib/wardlet";
const RUN: &str = "/run/wardlet";

/// The names of one state directory: those without a suffix for the default one, else with a suffix that is a hash of
/// its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    state: PathBuf,
    suffix: Option<String>,
}

impl Instance {
    /// The instance with this state directory, which need not exist.
    #[must_use]
    pub fn of(state: &Path) -> Self {
        let state = real(state);
        if state == real(Path::new(DEFAULT_STATE)) {
            return Self { state, suffix: None };
        }
        let mut hasher = FnvHasher::default();
        hasher.write(state.as_os_str().as_encoded_bytes());
        // With it, the name of the bridge has as many characters as the name of a network device may have.
        let suffix = format!("{:016x}", hasher.finish()).split_off(9);
        Self { state, suffix: Some(suffix) }
    }

    /// The parent cgroup of its pods.
    #[must_use]
    pub fn cgroup(&self) -> String {
        format!("/{}", self.named("wardlet"))
    }

    /// The bridge of its pods.
    #[must_use]
    pub fn bridge(&self) -> String {
        self.suffix.as_ref().map_or_else(|| "wardlet0".to_owned(), |_| self.named("wardlet"))
    }

    /// The directory of its sockets and pinned namespaces: the default one also if pods of this state directory are
    /// in it.
    #[must_use]
    pub fn run_dir(&self) -> PathBuf {
        let read = |path: PathBuf| fs::read(path).ok();
        let owner = read(Path::new(RUN).join("owner"));
        if owner.is_some() && owner == read(self.state.join("runtime/id")) {
            return PathBuf::from(RUN);
        }
        PathBuf::from(self.named(RUN))
    }

    fn named(&self, name: &str) -> String {
        self.suffix.as_ref().map_or_else(|| name.to_owned(), |suffix| format!("{name}-{suffix}"))
    }
}

impl Node {
    /// The names on the host that go with its state directory.
    #[must_use]
    pub fn instance(&self) -> Instance {
        Instance::of(self.state_dir())
    }
}

/// The path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let parent = || Some(real(path.parent()?).join(path.file_name()?));
    fs::canonicalize(&path).ok().or_else(parent).unwrap_or_else(|| path.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_directory_has_names_of_its_own_and_the_default_one_the_plain_ones() {
        let default = Instance::of(Path::new(DEFAULT_STATE));
        assert_eq!((default.cgroup().as_str(), default.bridge().as_str()), ("/wardlet", "wardlet0"));
        assert_eq!(default.run_dir(), Path::new(RUN));
        let dir = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| Instance::of(&dir.path().join(name)));
        assert_ne!((one.cgroup(), one.bridge(), one.run_dir()), (two.cgroup(), two.bridge(), two.run_dir()));
        let suffix = one.cgroup().strip_prefix("/wardlet-").unwrap().to_owned();
        assert_eq!((one.bridge(), one.bridge().len()), (format!("wardlet-{suffix}"), 15));
        assert_eq!(one.run_dir(), PathBuf::from(format!("/run/wardlet-{suffix}")));
    }

    #[test]
    fn a_link_to_a_state_directory_and_its_first_use_do_not_change_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        let before = Instance::of(&real);
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert_eq!(Instance::of(&link), before);
        assert_eq!(Instance::of(&real), before);
    }
}
