//! Translation of single IDs by the maps of a container.

use ids::IdMapping;

use crate::start::IdLines;

impl IdLines {
    /// The host's number of a container's user.
    #[must_use]
    pub fn host_user(&self, id: u32) -> Option<u32> {
        host_of(&self.uids, id)
    }

    /// The host's number of a container's group.
    #[must_use]
    pub fn host_group(&self, id: u32) -> Option<u32> {
        host_of(&self.gids, id)
    }
}

/// The host ID of a container's.
pub(crate) fn host_of(lines: &[IdMapping], id: u32) -> Option<u32> {
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
