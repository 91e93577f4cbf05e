//! What the processes of a container have open.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Sums over all processes. A process that exits meanwhile is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Processes {
    /// Processes.
    pub count: u64,
    /// Their open files.
    pub files: u64,
    /// Of these, sockets.
    pub sockets: u64,
    /// How many files the first of them may open.
    pub open_files_limit: Option<u64>,
}

impl Processes {
    /// Those with these numbers.
    #[must_use]
    pub fn read(pids: &BTreeSet<u32>) -> Self {
        let mut found = Self::default();
        for pid in pids {
            let dir = PathBuf::from(format!("/proc/{pid}"));
            let Ok(files) = fs::read_dir(dir.join("fd")) else { continue };
            found.count += 1;
            for file in files.flatten() {
                found.files += 1;
                let socket =
                    fs::read_link(file.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:"));
                found.sockets += u64::from(socket);
            }
            found.open_files_limit = found.open_files_limit.or_else(|| limit(&dir));
        }
        found
    }
}

fn limit(dir: &Path) -> Option<u64> {
    let text = fs::read_to_string(dir.join("limits")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_process_with_sockets_is_seen_with_them() {
        let own = BTreeSet::from([std::process::id()]);
        let before = Processes::read(&own);
        let _sockets = UnixStream::pair().unwrap();
        let after = Processes::read(&own);
        assert_eq!(after.count, 1);
        assert!(after.files >= 3 && after.sockets >= 2, "{before:?} {after:?}");
        assert!(after.open_files_limit.is_some());
        assert_eq!(Processes::read(&BTreeSet::from([u32::MAX])), Processes::default());
    }
}
