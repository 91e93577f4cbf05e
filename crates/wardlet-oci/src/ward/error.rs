use std::io;
use std::path::PathBuf;

use plan::CannotIdmap;
use rustix::io::Errno;

/// Why a container of a pod with a user namespace could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A part of the configuration is not what it has to be.
    #[error("config.json: {field}: {why}")]
    Spec {
        /// The part, as a path of names.
        field: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The root filesystem cannot be made anew.
    #[error("root filesystem {}: {why}", root.display())]
    Root {
        /// Where it is.
        root: PathBuf,
        /// What keeps it from being made anew.
        why: String,
    },
    /// Files cannot be shown to the pod's users without changing them on disk.
    #[error("{} cannot be idmapped for {}{}", source_path.display(), target.display(), instead(*policy))]
    NotIdmappable {
        /// Where they are.
        source_path: PathBuf,
        /// Where the container was to see them.
        target: PathBuf,
        /// What the operator wanted in such a case.
        policy: CannotIdmap,
        /// What the kernel said.
        #[source]
        cause: Box<bundle::Error>,
    },
    /// Mounts of a container cannot leave its user namespace.
    #[error("mounts that the container makes below {} cannot leave its user namespace", target.display())]
    BothWays {
        /// Where it was to be mounted.
        target: PathBuf,
    },
    /// A setting of the pod's network could not be made.
    #[error("sysctl {name}={value}")]
    Sysctl {
        /// Its name.
        name: String,
        /// What it was to be.
        value: String,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
    /// A standard stream could not be given to the container's user.
    #[error("give {stream} to user {user}: {errno}")]
    Stream {
        /// Which.
        stream: &'static str,
        /// The user, by the host's number.
        user: u32,
        /// The kernel's answer.
        errno: Errno,
    },
    /// The process is to run as somebody whom the maps leave out.
    #[error("process.user: {kind} {id} is not in the pod's maps")]
    UserUnmapped {
        /// User or group.
        kind: &'static str,
        /// The number in the container.
        id: u32,
    },
    /// The runtime would run it as the host's root.
    #[error("{runtime} runs one more process outside of the pod's user namespace")]
    ExecEscapes {
        /// Which runtime.
        runtime: &'static str,
    },
    /// The pod's block is not on disk, so that nothing may be given to it.
    #[error("the pod's lease is not on disk")]
    NotLeased,
    /// A file could not be read or made.
    #[error("{what} {}", path.display())]
    File {
        /// What was tried, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The container's files could not be made ready.
    #[error(transparent)]
    Bundle(Box<bundle::Error>),
    /// The kernel did not do what was asked of it.
    #[error(transparent)]
    Kernel(Box<kernel::Error>),
}

impl From<bundle::Error> for Error {
    fn from(error: bundle::Error) -> Self {
        Self::Bundle(Box::new(error))
    }
}

impl From<kernel::Error> for Error {
    fn from(error: kernel::Error) -> Self {
        Self::Kernel(Box::new(error))
    }
}

impl Error {
    /// What somebody can do about it.
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
            Self::BothWays { .. } => Some("mount it with propagation from the host only".to_owned()),
            Self::Root { .. } => {
                Some("use containerd's overlayfs snapshotter, or one that gives plain directories".to_owned())
            }
            Self::UserUnmapped { .. } => Some("give the pod a longer range of IDs".to_owned()),
            Self::ExecEscapes { .. } => Some(
                "use runc or crun for pods with a user namespace, or probe the container over its network"
                    .to_owned(),
            ),
            Self::Bundle(error) => error.hint(),
            Self::Kernel(error) => error.hint().map(Into::into),
            Self::Spec { .. }
            | Self::Sysctl { .. }
            | Self::Stream { .. }
            | Self::NotLeased
            | Self::File { .. } => None,
        }
    }
}

/// Why what the operator wants instead is not done for pods by annotation.
fn instead(policy: CannotIdmap) -> &'static str {
    match policy {
        CannotIdmap::Refuse => "",
        CannotIdmap::SharedBlock => {
            "; cannotIdmap: sharedBlock is not for pods by annotation, whose block is chosen before their volumes \
             are known"
        }
        CannotIdmap::ChownOnce => {
            "; cannotIdmap: chownOnce is not for pods by annotation, since a kubelet's volumes are not ours to give \
             away"
        }
    }
}

/// A result of this module.
pub type Result<T, E = Error> = std::result::Result<T, E>;
