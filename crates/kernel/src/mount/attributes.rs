use std::fmt;
use std::ops::BitOr;

use serde::Serialize;
use types::MountPropagation;

use super::Submounts;
use crate::UsernsFd;

/// Whether a mount can be written through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Access {
    /// Read-write, as the filesystem allows.
    #[default]
    ReadWrite,
    /// Read-only.
    ReadOnly,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadWrite => "rw",
            Self::ReadOnly => "ro",
        })
    }
}

/// Mount propagation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Propagation {
    /// Private: in neither direction.
    Private,
    /// Slave: mounts of its peers arrive here, not the other way round (`HostToContainer`).
    Slave,
    /// Shared: in both directions (`Bidirectional`).
    Shared,
    /// Private, and it cannot be bind-mounted.
    Unbindable,
}

impl Propagation {
    pub(crate) fn bits(self) -> u64 {
        match self {
            Self::Private => libc::MS_PRIVATE,
            Self::Slave => libc::MS_SLAVE,
            Self::Shared => libc::MS_SHARED,
            Self::Unbindable => libc::MS_UNBINDABLE,
        }
    }
}

/// How the kernel does what a pod asks for.
impl From<MountPropagation> for Propagation {
    fn from(asked: MountPropagation) -> Self {
        match asked {
            MountPropagation::None => Self::Private,
            MountPropagation::HostToContainer => Self::Slave,
            MountPropagation::Bidirectional => Self::Shared,
        }
    }
}

impl fmt::Display for Propagation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Private => "private",
            Self::Slave => "slave",
            Self::Shared => "shared",
            Self::Unbindable => "unbindable",
        })
    }
}

/// Mount flags. Combined with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Flags(u64);

impl Flags {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Setuid and setgid bits and file capabilities have no effect.
    pub const NOSUID: Self = Self(libc::MOUNT_ATTR_NOSUID);
    /// Devices cannot be opened.
    pub const NODEV: Self = Self(libc::MOUNT_ATTR_NODEV);
    /// Programs cannot be run.
    pub const NOEXEC: Self = Self(libc::MOUNT_ATTR_NOEXEC);
    /// Symbolic links are not followed.
    pub const NOSYMFOLLOW: Self = Self(libc::MOUNT_ATTR_NOSYMFOLLOW);

    const NAMES: [(Self, &'static str); 4] = [
        (Self::NOSUID, "nosuid"),
        (Self::NODEV, "nodev"),
        (Self::NOEXEC, "noexec"),
        (Self::NOSYMFOLLOW, "nosymfollow"),
    ];

    /// Whether all of `other` are in it.
    #[must_use]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What is to be changed about a mount. The default changes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attributes<'a> {
    /// Owners are translated by the maps of this user namespace.
    pub idmap: Option<&'a UsernsFd>,
    /// Whether it becomes read-only. A mount that is read-only already stays so.
    pub access: Access,
    /// Whether this holds for the mounts below as well; one that cannot be changed so fails all.
    pub submounts: Submounts,
    /// Its new propagation; unchanged if not set.
    pub propagation: Option<Propagation>,
    /// Flags to add.
    pub flags: Flags,
}

impl Attributes<'_> {
    /// Whether there is nothing to change.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.idmap.is_none()
            && self.access == Access::ReadWrite
            && self.propagation.is_none()
            && self.flags == Flags::NONE
    }
}
