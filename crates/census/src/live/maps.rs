//! The two maps of a user namespace.

use ids::parse::proc_map::{ProcMapError, parse_proc_map};
use ids::{HostSpan, IdMapping};
use kernel::IdMaps;

/// A user namespace's maps, as host IDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Maps {
    uids: Vec<IdMapping>,
    gids: Vec<IdMapping>,
}

impl Maps {
    pub(crate) fn parse(uid_map: &str, gid_map: &str) -> Result<Self, ProcMapError> {
        Ok(Self { uids: parse_proc_map(uid_map)?, gids: parse_proc_map(gid_map)? })
    }

    /// Not written yet: no ID can be used through it.
    pub(crate) fn is_empty(&self) -> bool {
        self.uids.is_empty() && self.gids.is_empty()
    }

    /// Every ID there is, each mapped to itself: the initial user namespace, or one that a service
    /// manager made to look like it. It sets no ID apart from the host's.
    pub(crate) fn is_the_hosts(&self) -> bool {
        identity_of_all(&self.uids) && identity_of_all(&self.gids)
    }

    pub(crate) fn uids(&self) -> Vec<HostSpan> {
        self.uids.iter().map(|m| m.host()).collect()
    }

    pub(crate) fn gids(&self) -> Vec<HostSpan> {
        self.gids.iter().map(|m| m.host()).collect()
    }
}

impl From<IdMaps> for Maps {
    fn from(maps: IdMaps) -> Self {
        Self { uids: maps.uids, gids: maps.gids }
    }
}

fn identity_of_all(lines: &[IdMapping]) -> bool {
    let same = lines.iter().all(|m| m.container().get() == m.host().first());
    // The kernel refuses overlapping lines, so lengths add up to what is mapped.
    same && lines.iter().map(|m| m.length()).sum::<u64>() == u64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "         0          0 4294967295\n";

    #[test]
    fn the_initial_user_namespace_is_the_host_also_when_written_in_two_lines() {
        assert!(Maps::parse(HOST, HOST).unwrap().is_the_hosts());
        let two = "0 0 1\n1 1 4294967294\n";
        assert!(Maps::parse(two, HOST).unwrap().is_the_hosts());
    }

    #[test]
    fn a_map_of_less_or_with_a_shift_is_a_namespace_of_its_own() {
        assert!(!Maps::parse("0 0 65536\n", HOST).unwrap().is_the_hosts());
        assert!(!Maps::parse("0 1 4294967294\n", HOST).unwrap().is_the_hosts());
        assert!(Maps::parse("", "").unwrap().is_empty());
    }
}
