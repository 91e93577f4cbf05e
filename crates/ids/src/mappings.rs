use serde::{Deserialize, Serialize};

use crate::mapping::IdMapping;

/// The maps of a user namespace as the kernel takes them: lines for `uid_map` and lines for `gid_map`. Records on disk
/// hold this type. It says nothing about the owner of the host IDs, and its lines may be any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdMappings {
    /// Of user IDs.
    pub uids: Vec<IdMapping>,
    /// Of group IDs.
    pub gids: Vec<IdMapping>,
}

impl IdMappings {
    /// The host ID of a container's user; `None` for a user that no line maps.
    #[must_use]
    pub fn host_user(&self, id: u32) -> Option<u32> {
        host_of(&self.uids, id)
    }

    /// The host ID of a container's group; `None` for a group that no line maps.
    #[must_use]
    pub fn host_group(&self, id: u32) -> Option<u32> {
        host_of(&self.gids, id)
    }
}

/// The host ID of a container's.
fn host_of(lines: &[IdMapping], id: u32) -> Option<u32> {
    lines.iter().find_map(|line| {
        let offset = id.checked_sub(line.container().get())?;
        (u64::from(offset) < line.length()).then(|| line.host().first().checked_add(offset))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_translated_by_its_line_or_not_at_all() {
        let lines = [IdMapping::new(10, 5000, 5).unwrap(), IdMapping::new(0, 1 << 20, 5).unwrap()];
        let host = |id| host_of(&lines, id);
        assert_eq!(
            [host(0), host(4), host(10), host(14)],
            [Some(1 << 20), Some((1 << 20) + 4), Some(5000), Some(5004)]
        );
        assert_eq!([host(5), host(9), host(15), host(u32::MAX)], [None; 4]);
    }
}
