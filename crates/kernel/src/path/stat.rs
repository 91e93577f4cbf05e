use std::fmt;
use std::os::fd::BorrowedFd;

use ids::HostId;
use rustix::fs::{AtFlags, FileType, Statx, StatxAttributes, StatxFlags, makedev, statx};
use rustix::io::Errno;
use serde::Serialize;

/// The owner of a file, as IDs of the caller's user namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct Owner {
    /// The user's ID.
    pub uid: u32,
    /// The group's ID.
    pub gid: u32,
}

impl Owner {
    /// The host's root.
    pub const ROOT: Self = Self { uid: 0, gid: 0 };

    /// These two.
    #[must_use]
    pub fn new(user: HostId, group: HostId) -> Self {
        Self { uid: user.get(), gid: group.get() }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uid, self.gid)
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A block device.
    BlockDevice,
    /// A character device.
    CharDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// Something that the kernel has no name for.
    Other,
}

impl Kind {
    pub(crate) fn of(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::File,
            FileType::Directory => Self::Directory,
            FileType::Symlink => Self::Symlink,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::CharacterDevice => Self::CharDevice,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            _ => Self::Other,
        }
    }
}

/// What the kernel knows of an open file, and of the mount that it was opened through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Its number in its filesystem.
    pub ino: u64,
    /// Its filesystem.
    pub dev: u64,
    /// The mount that it was opened through: two mounts of one filesystem differ. The number is that
    /// of mountinfo.
    pub mount_id: u64,
    /// Whether it is the root of that mount.
    pub is_mount_root: bool,
    /// What it is.
    pub kind: Kind,
    /// Its permissions, with the bits for setuid, setgid and sticky.
    pub mode: u32,
    /// The user that it belongs to, as seen through the mount.
    pub uid: u32,
    /// The group that it belongs to, as seen through the mount.
    pub gid: u32,
    /// How many names it has.
    pub links: u32,
    /// Which device it is, for one that is.
    pub rdev: u64,
    /// Its length.
    pub size: u64,
}

impl Stat {
    /// The user and the group.
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner { uid: self.uid, gid: self.gid }
    }

    /// Whether `other` is the same file, whatever mount either was opened through.
    #[must_use]
    pub fn same_file(&self, other: &Self) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }

    /// Of the open file itself.
    pub(crate) fn of(file: BorrowedFd<'_>) -> Result<Self, Errno> {
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let found = statx(file, c"", AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT, wanted)?;
        // Without the mount's number, nothing that is said about mounts would be true.
        let told = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
        if told { Ok(Self::from_kernel(&found)) } else { Err(Errno::NOSYS) }
    }

    /// Only the number of its mount, without asking a server that may never answer.
    pub(crate) fn mount_id_of(file: BorrowedFd<'_>) -> Result<u64, Errno> {
        let told = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        let found = statx(file, c"", told, StatxFlags::MNT_ID)?;
        let has = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::MNT_ID);
        if has { Ok(found.stx_mnt_id) } else { Err(Errno::NOSYS) }
    }

    fn from_kernel(found: &Statx) -> Self {
        Self {
            ino: found.stx_ino,
            dev: makedev(found.stx_dev_major, found.stx_dev_minor),
            mount_id: found.stx_mnt_id,
            is_mount_root: found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
            kind: Kind::of(FileType::from_raw_mode(found.stx_mode.into())),
            mode: u32::from(found.stx_mode) & 0o7777,
            uid: found.stx_uid,
            gid: found.stx_gid,
            links: found.stx_nlink,
            rdev: makedev(found.stx_rdev_major, found.stx_rdev_minor),
            size: found.stx_size,
        }
    }
}
