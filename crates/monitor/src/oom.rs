use std::io::Read;
use std::path::{Path, PathBuf};

/// The number of OOM kills in this cgroup. A cgroup that cannot be read counts none: it is created after the first
/// call.
pub(crate) fn kills(hierarchies: &Path, cgroup: &Path) -> u64 {
    let files = [("memory", "memory.oom_control"), ("", "memory.events"), ("unified", "memory.events")];
    let paths = files.map(|(hierarchy, file)| hierarchies.join(hierarchy).join(cgroup).join(file));
    paths.iter().find_map(read).unwrap_or(0)
}

fn read(path: &PathBuf) -> Option<u64> {
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(4096).read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(path: &str, text: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
        root
    }

    #[test]
    fn the_counter_of_version_1_is_read() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        let root = written("memory/pod/c/memory.oom_control", text);
        assert_eq!(kills(root.path(), Path::new("pod/c")), 3);
    }

    #[test]
    fn the_counter_of_version_2_is_read() {
        let text = "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n";
        let root = written("pod/c/memory.events", text);
        assert_eq!(kills(root.path(), Path::new("pod/c")), 1);
    }

    /// As on hosts that have both versions, and memory in the second.
    #[test]
    fn the_counter_of_version_2_is_read_beside_version_1() {
        let root = written("unified/pod/c/memory.events", "oom 2\noom_kill 5\n");
        assert_eq!(kills(root.path(), Path::new("pod/c")), 5);
    }

    #[test]
    fn no_group_is_no_kill() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(kills(root.path(), Path::new("pod/c")), 0);
    }
}
