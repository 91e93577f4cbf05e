use std::io;
use std::path::PathBuf;

use plan::CannotIdmap;
use rustix::io::Errno;

/// Why a container of a pod with a user namespace cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A part of the configuration is missing or has the wrong type.
    #[error("config.json: {field}: {why}")]
    Spec {
        /// The path of the field.
        field: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The root filesystem cannot be mounted again with the pod's ID mappings.
    #[error("root filesystem {}: {why}", root.display())]
    Root {
        /// Its path.
        root: PathBuf,
        /// The reason.
        why: String,
    },
    /// A mount would cover the whole root filesystem.
    #[error("{} cannot be mounted on: it leads to the container's / itself", target.display())]
    OverRoot {
        /// The destination of the mount.
        target: PathBuf,
    },
    /// Files cannot be idmapped, so that the pod's users could not own them without a chown(2).
    #[error("{} cannot be idmapped for {}{}", source_path.display(), target.display(), instead(*policy))]
    NotIdmappable {
        /// The source of the mount.
        source_path: PathBuf,
        /// The destination of the mount.
        target: PathBuf,
        /// The operator's policy for such files.
        policy: CannotIdmap,
        /// The cause.
        #[source]
        cause: Box<container::Error>,
    },
    /// The mount asks for propagation to the host, which is not possible from a user namespace.
    #[error("{}: mounts cannot propagate from a user namespace to the host", target.display())]
    BothWays {
        /// The destination of the mount.
        target: PathBuf,
    },
    /// A sysctl of the pod's network namespace cannot be set.
    #[error("sysctl {name}={value}")]
    Sysctl {
        /// Its name.
        name: String,
        /// The value.
        value: String,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The owner of a standard stream cannot be changed to the container's user.
    #[error("cannot change the owner of {stream} to user {user}: {errno}")]
    Stream {
        /// The name of the stream.
        stream: &'static str,
        /// The host user ID.
        user: u32,
        /// The error of fchown(2).
        errno: Errno,
    },
    /// The process is to run with a user or group ID that is not in the pod's ID mappings.
    #[error("process.user: {kind} {id} is not in the pod's maps")]
    UserUnmapped {
        /// User or group.
        kind: &'static str,
        /// The ID in the container.
        id: u32,
    },
    /// The runtime would run the new process with the host's user IDs.
    #[error("{runtime} runs one more process outside of the pod's user namespace")]
    ExecEscapes {
        /// The name of the runtime.
        runtime: &'static str,
    },
    /// A file cannot be read, created or changed.
    #[error("cannot {what} {}", path.display())]
    File {
        /// The action, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system error.
        #[source]
        cause: io::Error,
    },
    /// The container's mounts cannot be prepared.
    #[error(transparent)]
    Bundle(Box<container::Error>),
    /// A system call failed.
    #[error(transparent)]
    Kernel(Box<kernel::Error>),
}

impl From<container::Error> for Error {
    fn from(error: container::Error) -> Self {
        Self::Bundle(Box::new(error))
    }
}

impl From<kernel::Error> for Error {
    fn from(error: kernel::Error) -> Self {
        Self::Kernel(Box::new(error))
    }
}

impl Error {
    /// What the operator or the pod's author can do about it, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotIdmappable { policy, .. } => {
                let own = "use a filesystem that can be idmapped (ext4, xfs, btrfs; tmpfs from Linux 6.3)";
                Some(match policy {
                    CannotIdmap::Refuse => own.to_owned(),
                    _ => format!("{own}, or run the pod by wardlet agent, which follows the policy"),
                })
            }
            Self::BothWays { .. } => Some("use mountPropagation HostToContainer or None".to_owned()),
            Self::Root { .. } => {
                Some("use containerd's overlayfs snapshotter, or one that gives plain directories".to_owned())
            }
            Self::OverRoot { target } => Some(format!(
                "mount it elsewhere, or use an image in which {} is no link to /",
                target.display()
            )),
            Self::UserUnmapped { .. } => Some("ask for more IDs with annotation wardlet.dev/ids".to_owned()),
            Self::ExecEscapes { .. } => Some(
                "use runc or crun for pods with a user namespace, or probe the container over its network"
                    .to_owned(),
            ),
            Self::Bundle(error) => error.hint(),
            Self::Kernel(error) => error.hint().map(Into::into),
            Self::Spec { .. } | Self::Sysctl { .. } | Self::Stream { .. } | Self::File { .. } => None,
        }
    }
}

/// Why the operator's policy does not apply to pods that ask for a user namespace by annotation.
fn instead(policy: CannotIdmap) -> &'static str {
    match policy {
        CannotIdmap::Refuse => "",
        CannotIdmap::SharedBlock => {
            "; cannotIdmap: sharedBlock is not for pods by annotation, whose block is chosen before their volumes \
             are known"
        }
        CannotIdmap::ChownOnce => {
            "; cannotIdmap: chownOnce is not for pods by annotation, since the kubelet owns their volumes"
        }
    }
}

/// A result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;
