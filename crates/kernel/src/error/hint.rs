use rustix::io::Errno;

use super::Error;

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::StartChild { errno: Errno::NOSPC } => {
                Some("this user has reached /proc/sys/user/max_user_namespaces")
            }
            Self::StartChild { errno: Errno::PERM } => Some(
                "user namespaces are forbidden here: see /proc/sys/user/max_user_namespaces and /proc/sys/kernel/unprivileged_userns_clone",
            ),
            Self::WriteMap { errno: Errno::PERM, .. } => {
                Some("run as root: mapping IDs that are not one's own takes CAP_SETUID and CAP_SETGID")
            }
            Self::WriteMap { errno: Errno::INVAL, .. } => {
                Some("the lines overlap, are none or too many, or reach 4294967295")
            }
            Self::Idmap { errno: Errno::INVAL, .. } => Some(
                "this filesystem, or one mounted below it, cannot be idmapped: ext4, xfs, btrfs and tmpfs can; overlay, proc and most network filesystems cannot",
            ),
            Self::Idmap { errno: Errno::PERM, .. } => {
                Some("the mount is idmapped already, or the caller has no CAP_SYS_ADMIN over its filesystem")
            }
            Self::AlreadyIdmapped { .. } => {
                Some("giving an idmapped mount another map takes Linux 6.15 or later")
            }
            Self::Idmap { errno: Errno::NOSYS, .. } => Some("idmapped mounts take Linux 5.12 or later"),
            Self::Overlay { errno: Errno::NODEV, .. } => Some("load the kernel's overlay module"),
            error if error.is_of_layers_by_descriptor() => {
                Some("overlay layers given by descriptor take Linux 6.13 or later")
            }
            Self::TooManyLayers { .. } => {
                Some("before Linux 6.13, which takes up to 500, about 150 fit into one mount")
            }
            Self::Overlay { log, .. } if log.is_empty() => Some("`dmesg | grep overlay` may name the reason"),
            Self::MountNamespace { errno: Errno::PERM, .. }
            | Self::CloneMount { errno: Errno::PERM, .. }
            | Self::MountPoints { errno: Errno::PERM, .. }
            | Self::Attach { errno: Errno::PERM, .. } => Some("run as root: mounting takes CAP_SYS_ADMIN"),
            Self::Below { errno, .. } => below(*errno),
            Self::MountInTheWay { .. } => Some("unmount it first, then remove again"),
            Self::FilesystemOption { errno: Errno::INVAL, option, .. } if option.starts_with("context=") => {
                Some("SELinux is not active, or its policy does not know this label")
            }
            Self::OtherContext { .. } => {
                Some("a filesystem has one context for all its mounts, and the first mount sets it")
            }
            Self::Unmount { errno: Errno::BUSY, .. } => {
                Some("a process has a file open there, or something is mounted below it")
            }
            Self::Charge { .. } => Some("run as root: taking on another user takes CAP_SETUID"),
            Self::NewNamespaces { errno: Errno::NOSPC, .. } => {
                Some("a limit in /proc/sys/user/max_*_namespaces is reached")
            }
            Self::NewNamespaces { errno: Errno::PERM, .. } => {
                Some("run as root: new namespaces take CAP_SYS_ADMIN")
            }
            Self::Pin { errno: Errno::EXIST, .. } => {
                Some("another namespace is pinned there: unpin it first")
            }
            Self::AskNamespace { errno: Errno::NOTTY, .. } => Some("this kernel cannot be asked that"),
            _ => None,
        }
    }
}

fn below(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::XDEV => Some("the path leads outside of the directory"),
        Errno::LOOP => Some("the path has a symbolic link where none may be, or too many"),
        Errno::AGAIN => Some("another process keeps renaming or mounting on the path; try again"),
        Errno::NOSYS => Some("this takes Linux 5.6 or later (openat2)"),
        _ => None,
    }
}
