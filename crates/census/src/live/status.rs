//! `/proc/PID/status`, as far as IDs go.

use std::collections::BTreeSet;

use ids::{HostId, UNIT};

use crate::owner::Role;

/// The IDs of a process, of all its threads together, from 65536 up.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) uids: BTreeSet<HostId>,
    pub(crate) gids: BTreeSet<HostId>,
    pub(crate) roles: BTreeSet<Role>,
}

/// What a task's status says, apart from its IDs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) name: String,
    pub(crate) parent: u32,
    /// 0 where the kernel did not say.
    pub(crate) threads: u32,
    pub(crate) kernel_thread: bool,
    /// Whether it has ended, and only its parent has not asked for its code yet.
    pub(crate) ended: bool,
}

/// Adds the IDs in `text` to `credentials`. `None` if the text is no status: then nothing that was
/// added can be relied upon.
pub(crate) fn read_status(text: &[u8], credentials: &mut Credentials) -> Option<Status> {
    let mut status = Status::default();
    let mut essential = 0;
    for line in text.split(|b| *b == b'\n') {
        let Some(colon) = line.iter().position(|b| *b == b':') else { continue };
        let (key, value) = line.split_at_checked(colon)?;
        let value = value.get(1..)?.trim_ascii();
        match key {
            b"Name" => status.name = String::from_utf8_lossy(value).into_owned(),
            b"PPid" => status.parent = number(value)?,
            b"Uid" => essential += add(value, Side::Uids, credentials)?,
            b"Gid" => essential += add(value, Side::Gids, credentials)?,
            b"Groups" => essential += add(value, Side::Groups, credentials)?,
            // What follows is of no concern.
            b"Threads" => {
                status.threads = number(value)?;
                break;
            }
            b"State" => status.ended = value.starts_with(b"Z"),
            b"Kthread" => status.kernel_thread = value == b"1",
            _ => {}
        }
    }
    (essential == 3).then_some(status)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Uids,
    Gids,
    Groups,
}

/// Returns 1, for one line read.
fn add(value: &[u8], side: Side, to: &mut Credentials) -> Option<u32> {
    let numbers = value.split(|b| matches!(b, b' ' | b'\t')).filter(|n| !n.is_empty());
    let mut count = 0;
    for text in numbers {
        let id = number(text)?;
        let role = match side {
            Side::Groups => Role::Supplementary,
            Side::Uids | Side::Gids => *Role::CREDENTIALS.get(count)?,
        };
        count += 1;
        if u64::from(id) < UNIT {
            continue;
        }
        let id = HostId::try_from(u64::from(id)).ok()?;
        to.roles.insert(role);
        match side {
            Side::Uids => to.uids.insert(id),
            Side::Gids | Side::Groups => to.gids.insert(id),
        };
    }
    (side == Side::Groups || count == Role::CREDENTIALS.len()).then_some(1)
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(Status, Credentials)> {
        let mut credentials = Credentials::default();
        read_status(text.as_bytes(), &mut credentials).map(|s| (s, credentials))
    }

    fn ids(set: &BTreeSet<HostId>) -> Vec<u32> {
        set.iter().map(|i| i.get()).collect()
    }

    #[test]
    fn real_effective_saved_filesystem_and_supplementary_ids_are_all_counted() {
        let text = "Name:\tx y\nPPid:\t12\nUid:\t70000\t70001\t70002\t70003\nGid:\t0\t0\t0\t80000\n\
                    Groups:\t5 90000 \nKthread:\t1\nThreads:\t3\nSigQ:\t0/7\n";
        let (status, credentials) = read(text).unwrap();
        assert!(!status.ended && status.kernel_thread);
        assert_eq!((status.name.as_str(), status.parent, status.threads), ("x y", 12, 3));
        assert_eq!(ids(&credentials.uids), [70_000, 70_001, 70_002, 70_003]);
        assert_eq!(ids(&credentials.gids), [80_000, 90_000]);
        assert_eq!(credentials.roles.len(), 5);
    }

    #[test]
    fn what_has_ended_is_told_from_what_sleeps() {
        let ended = |state: &str| {
            let text = format!("State:\t{state}\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\n");
            read(&text).unwrap().0.ended
        };
        assert!(ended("Z (zombie)") && !ended("S (sleeping)") && !ended("X (dead)"));
    }

    #[test]
    fn ids_of_the_host_add_nothing() {
        let (_, credentials) = read("Uid:\t0\t0\t0\t65535\nGid:\t5\t5\t5\t5\nGroups:\t \n").unwrap();
        assert_eq!(credentials, Credentials::default());
    }

    #[test]
    fn a_status_that_is_cut_short_or_odd_is_none() {
        assert!(read("").is_none());
        assert!(read("Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n").is_none());
        assert!(read("Uid:\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\n").is_none());
        assert!(read("Uid:\t0\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t\n").is_none());
        assert!(read("Uid:\t0\t0\t0\t-1\nGid:\t0\t0\t0\t0\nGroups:\t\n").is_none());
    }
}
