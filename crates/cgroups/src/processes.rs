use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;

use crate::error::{Error, Result};
use crate::files::{gone, some_children};
use crate::group::Group;

/// The file with the processes of a group.
const PROCESSES: &str = "cgroup.procs";
/// As many groups of a container are read: one that may write cgroups can make any number of them.
const MOST_GROUPS: usize = 1000;
/// Groups that the first process of a container moves to where it makes groups for others: systemd, and the images of Docker in
/// Docker and of kind.
const OWN: [&str; 3] = ["", "init.scope", "init"];

impl Group {
    /// A process of the group itself, as a rule its first one. Processes of groups below may be in other namespaces: those of a
    /// container in the container. So they are not looked at, but where the first process has moved itself.
    ///
    /// # Errors
    /// If a list of processes cannot be read; a group that does not exist has none.
    pub fn first_process(&self) -> Result<Option<u32>> {
        for place in &self.places {
            for below in OWN {
                if let Some(process) = first(&place.dir.join(below).join(PROCESSES))? {
                    return Ok(Some(process));
                }
            }
        }
        Ok(None)
    }

    /// How many processes are in the group and in those below it, of which the first thousand are read; `None` if it does not
    /// exist.
    ///
    /// # Errors
    /// If a group cannot be read.
    pub fn process_count(&self) -> Result<Option<u64>> {
        // Each hierarchy has all of them.
        let Some(place) = self.places.iter().find(|place| place.dir.is_dir()) else { return Ok(None) };
        let mut groups = vec![place.dir.clone()];
        let (mut processes, mut next) = (0, 0);
        while let Some(dir) = groups.get(next).cloned() {
            processes += count(&dir.join(PROCESSES))?;
            groups.extend(some_children(&dir, MOST_GROUPS - groups.len())?);
            next += 1;
        }
        Ok(Some(processes))
    }
}

/// The first process of a list that this process can see: one outside of its PID namespace is 0.
fn first(list: &Path) -> Result<Option<u32>> {
    /// The first lines of a list; the last of them may be cut.
    const BEGIN: u64 = 256;
    let read = || {
        let mut text = String::new();
        File::open(list)?.take(BEGIN).read_to_string(&mut text)?;
        Ok(text)
    };
    let whole = |text: String| {
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')?.parse().ok());
        lines.find(|process| *process != 0)
    };
    Ok(existing(list, read())?.and_then(whole))
}

fn count(list: &Path) -> Result<u64> {
    let lines =
        || BufReader::new(File::open(list)?).lines().try_fold(0_u64, |all, line| line.map(|_| all + 1));
    Ok(existing(list, lines())?.unwrap_or(0))
}

/// What was read; `None` of a group that is gone, or of one with threads: their processes are in a list above.
fn existing<T>(path: &Path, read: io::Result<T>) -> Result<Option<T>> {
    let has_threads =
        |cause: &io::Error| cause.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error());
    match read {
        Ok(read) => Ok(Some(read)),
        Err(cause) if gone(&cause) || has_threads(&cause) => Ok(None),
        Err(cause) => Err(Error::File { what: "read", path: path.to_owned(), cause }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::find::Hierarchies;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("cgroup.controllers"), "memory\n").unwrap();
            Self(dir)
        }

        fn put(&self, group: &str, processes: &str) {
            let dir = self.0.path().join("c").join(group);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(PROCESSES), processes).unwrap();
        }

        fn group(&self) -> Group {
            Group::open(&Hierarchies::pretended(self.0.path()), "/c").unwrap()
        }
    }

    /// Docker in Docker: the lowest number was that of a container in the container, with another network.
    #[test]
    fn the_first_process_is_of_the_container_itself() {
        let tree = Tree::new();
        assert_eq!(tree.group().first_process().unwrap(), None, "it does not exist");
        tree.put("docker/1f", "7\n");
        tree.put("", "");
        assert_eq!(tree.group().first_process().unwrap(), None);
        tree.put("init", "0\n300\n");
        assert_eq!(tree.group().first_process().unwrap(), Some(300));
        tree.put("init.scope", "200\n");
        assert_eq!(tree.group().first_process().unwrap(), Some(200));
        tree.put("", "100\n50\n");
        assert_eq!(tree.group().first_process().unwrap(), Some(100));
    }

    #[test]
    fn a_number_that_is_cut_is_none() {
        let tree = Tree::new();
        tree.put("", &format!("{}1234567\n", "0\n".repeat(125)));
        assert_eq!(tree.group().first_process().unwrap(), None);
    }

    #[test]
    fn processes_of_all_groups_are_counted_up_to_a_limit() {
        let tree = Tree::new();
        assert_eq!(tree.group().process_count().unwrap(), None);
        tree.put("", "1\n2\n");
        tree.put("a/b", "3\n0\n");
        assert_eq!(tree.group().process_count().unwrap(), Some(4));
        for number in 0..2 * MOST_GROUPS {
            tree.put(&format!("c/{number}"), "5\n");
        }
        let counted = tree.group().process_count().unwrap().unwrap();
        assert!((990..=1000).contains(&counted), "{counted}");
    }
}
