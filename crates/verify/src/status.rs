//! `/proc/PID/status`, as far as `verify` needs it.

use std::collections::BTreeSet;

use ids::IdKind;

/// What a task's status says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) name: String,
    pub(crate) threads: u32,
    pub(crate) kernel_thread: bool,
    /// A zombie. The leader of a process can be one while other threads go on.
    pub(crate) ended: bool,
    /// Real, effective, saved and filesystem user IDs, without their order.
    pub(crate) users: BTreeSet<u32>,
    /// The same of groups, and the supplementary ones.
    pub(crate) groups: BTreeSet<u32>,
}

impl Status {
    /// `None` if the text is not laid out as the kernel does.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut status = Self::default();
        let mut essential = 0;
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match key {
                "Name" => status.name = value.to_owned(),
                "State" => status.ended = value.starts_with(['Z', 'X']),
                "Threads" => status.threads = value.parse().ok()?,
                "Kthread" => status.kernel_thread = value == "1",
                "Uid" => essential += add(value, &mut status.users)?,
                "Gid" | "Groups" => essential += add(value, &mut status.groups)?,
                _ => {}
            }
        }
        (essential == 3).then_some(status)
    }

    /// The IDs of one space.
    pub(crate) fn ids(&self, kind: IdKind) -> &BTreeSet<u32> {
        match kind {
            IdKind::Uid => &self.users,
            IdKind::Gid => &self.groups,
        }
    }

    /// Adds what another thread has.
    pub(crate) fn join(&mut self, other: &Self) {
        self.users.extend(&other.users);
        self.groups.extend(&other.groups);
    }
}

/// Returns 1, for one line read.
fn add(numbers: &str, to: &mut BTreeSet<u32>) -> Option<u32> {
    for number in numbers.split_whitespace() {
        to.insert(number.parse().ok()?);
    }
    Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_of_a_task_is_read_and_a_torn_text_is_none() {
        let text = "Name:\ta b\nState:\tZ (zombie)\nUid:\t1\t2\t3\t4\nGid:\t5\t5\t5\t6\nThreads:\t2\nGroups:\t7 8 \nKthread:\t0\n";
        let status = Status::parse(text).unwrap();
        assert_eq!(status.users, BTreeSet::from([1, 2, 3, 4]));
        assert_eq!(status.groups, BTreeSet::from([5, 6, 7, 8]));
        assert_eq!((status.name.as_str(), status.threads, status.kernel_thread), ("a b", 2, false));
        assert!(status.ended);
        assert_eq!(Status::parse("Uid:\t1\t2\t3\t4\nGid:\t5\t5\t5\t6\n"), None);
        assert_eq!(Status::parse("Uid:\t-1\nGid:\t5\nGroups:\t\n"), None);
    }
}
