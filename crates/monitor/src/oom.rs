use std::io::Read;
use std::path::{Path, PathBuf};

use monitor::Ending;

const KILL: i32 = 9;
/// What a shell makes of the end of a process by SIGKILL.
const KILLED: i32 = 137;

/// The number of OOM kills in a cgroup and in the slice above its scope. A cgroup that cannot be read counts none: it is
/// created after the first call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kills {
    own: Option<u64>,
    above: Option<u64>,
}

impl Kills {
    pub(crate) fn read(hierarchies: &Path, cgroup: &Path) -> Self {
        Self {
            own: kills(hierarchies, cgroup),
            // systemd removes a scope as soon as its last process has ended. The slice above it counts its kills, too.
            above: slice(cgroup).and_then(|above| kills(hierarchies, above)),
        }
    }

    /// Whether the kernel has killed a process of the cgroup for want of memory since `before`. Of a scope that is gone
    /// the slice tells it, for a container that ended as by SIGKILL.
    pub(crate) fn are_more_than(self, before: Self, ending: Ending) -> bool {
        let was_killed = matches!(ending, Ending::Signal(KILL) | Ending::Code(KILLED));
        match (self.own, self.above, before.above) {
            (Some(own), ..) => own > before.own.unwrap_or(0),
            (None, Some(above), Some(before)) => was_killed && above > before,
            _ => false,
        }
    }
}

/// The slice above the scope that the cgroup of a container is in.
fn slice(cgroup: &Path) -> Option<&Path> {
    cgroup.parent().filter(|scope| scope.extension().is_some_and(|kind| kind == "scope"))?.parent()
}

fn kills(hierarchies: &Path, cgroup: &Path) -> Option<u64> {
    let files = [("memory", "memory.oom_control"), ("", "memory.events"), ("unified", "memory.events")];
    let paths = files.map(|(hierarchy, file)| hierarchies.join(hierarchy).join(cgroup).join(file));
    paths.iter().find_map(read)
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
        assert_eq!(kills(root.path(), Path::new("pod/c")), Some(3));
    }

    #[test]
    fn the_counter_of_version_2_is_read() {
        let text = "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n";
        let root = written("pod/c/memory.events", text);
        assert_eq!(kills(root.path(), Path::new("pod/c")), Some(1));
    }

    /// As on hosts that have both versions, and memory in the second.
    #[test]
    fn the_counter_of_version_2_is_read_beside_version_1() {
        let root = written("unified/pod/c/memory.events", "oom 2\noom_kill 5\n");
        assert_eq!(kills(root.path(), Path::new("pod/c")), Some(5));
    }

    #[test]
    fn no_group_is_no_kill() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Kills::read(root.path(), Path::new("pod/c")), Kills::default());
        assert!(!Kills::default().are_more_than(Kills::default(), Ending::Signal(KILL)));
    }

    #[test]
    fn of_a_scope_that_is_gone_the_slice_tells_the_kills() {
        let scope = Path::new("a.slice/wardlet-1.scope/container");
        let root = written("a.slice/wardlet-1.scope/container/memory.events", "oom_kill 0\n");
        let events = root.path().join("a.slice/memory.events");
        std::fs::write(&events, "oom_kill 2\n").unwrap();
        let before = Kills::read(root.path(), scope);
        assert!(!before.are_more_than(before, Ending::Signal(KILL)));
        std::fs::remove_dir_all(root.path().join(scope)).unwrap();
        let after = || Kills::read(root.path(), scope);
        assert!(!after().are_more_than(before, Ending::Signal(KILL)));
        std::fs::write(&events, "oom_kill 3\n").unwrap();
        assert!(after().are_more_than(before, Ending::Signal(KILL)));
        assert!(after().are_more_than(before, Ending::Code(KILLED)));
        assert!(!after().are_more_than(before, Ending::Code(1)));
        // An adopted container, whose start was not seen.
        assert!(!after().are_more_than(Kills::default(), Ending::Signal(KILL)));
    }
}
