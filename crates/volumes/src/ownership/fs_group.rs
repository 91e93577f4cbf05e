use ids::ContainerId;
use kernel::{Access, Kind};

use crate::payload::Mode;

/// The group that a volume's files are given to, and what it may do with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsGroup {
    /// The group inside.
    pub group: ContainerId,
    /// Whether the volume can be written to at all.
    pub access: Access,
}

/// When a volume's files are given to the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsGroupChangePolicy {
    /// At every start.
    Always,
    /// Only if the volume's root is not the group's yet. The root is changed last, so one that is
    /// the group's has everything below it changed.
    OnRootMismatch,
}

impl FsGroup {
    /// The bits that a file gets besides its own.
    pub(crate) fn adds(self, kind: Kind) -> Mode {
        let bits = match self.access {
            Access::ReadWrite => 0o660,
            Access::ReadOnly => 0o440,
        };
        match kind {
            Kind::Symlink => Mode::cut(0),
            // New files in a directory inherit its group.
            Kind::Directory => Mode::cut(bits | 0o2110),
            _ => Mode::cut(bits),
        }
    }

    /// Whether a root with this group and mode shows that all below it was changed.
    pub(crate) fn is_on(self, root: &Root) -> bool {
        let wanted = self.adds(Kind::Directory);
        root.kind == Kind::Directory && root.gid == root.wanted_gid && root.mode.and(wanted) == wanted
    }
}

/// What a volume's root has, and the group that it should have.
pub(crate) struct Root {
    pub(crate) kind: Kind,
    pub(crate) mode: Mode,
    pub(crate) gid: u32,
    pub(crate) wanted_gid: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(access: Access) -> FsGroup {
        FsGroup { group: ContainerId::try_from(2000).unwrap(), access }
    }

    #[test]
    fn the_group_gets_what_it_needs_and_nothing_is_taken_from_others() {
        let on = |access, kind, mode: u32| Mode::new(mode).unwrap().with(group(access).adds(kind)).bits();
        assert_eq!(on(Access::ReadWrite, Kind::File, 0o600), 0o660);
        assert_eq!(on(Access::ReadOnly, Kind::File, 0o600), 0o640);
        assert_eq!(on(Access::ReadOnly, Kind::File, 0o400), 0o440);
        assert_eq!(on(Access::ReadWrite, Kind::File, 0o4711), 0o4771);
        assert_eq!(on(Access::ReadWrite, Kind::Directory, 0o755), 0o2775);
        assert_eq!(on(Access::ReadOnly, Kind::Directory, 0o700), 0o2750);
        assert_eq!(on(Access::ReadWrite, Kind::Symlink, 0o777), 0o777);
    }

    #[test]
    fn a_root_shows_that_all_is_done_only_with_group_bits_and_setgid() {
        let root = |mode, gid| Root { kind: Kind::Directory, mode: Mode::cut(mode), gid, wanted_gid: 2000 };
        let is_on = |mode, gid| group(Access::ReadWrite).is_on(&root(mode, gid));
        assert!(is_on(0o2770, 2000));
        assert!(is_on(0o2777, 2000));
        assert!(!is_on(0o2770, 0));
        assert!(!is_on(0o0770, 2000));
        assert!(!is_on(0o2750, 2000));
        assert!(group(Access::ReadOnly).is_on(&root(0o2550, 2000)));
        assert!(!group(Access::ReadOnly).is_on(&Root { kind: Kind::File, ..root(0o2770, 2000) }));
    }
}
