use std::io;
use std::path::PathBuf;

/// Why a container could not be prepared or started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error(transparent)]
    Kernel(Box<kernel::Error>),
    /// A layer cannot be idmapped, and a chown was not allowed.
    #[error("layer {} cannot be idmapped", layer.display())]
    LayerNotIdmappable {
        /// The layer.
        layer: PathBuf,
        /// The kernel's error.
        #[source]
        cause: Box<kernel::Error>,
    },
    /// A volume cannot be idmapped.
    #[error("{} cannot be idmapped for {}", bind.display(), target.display())]
    BindNotIdmappable {
        /// The source.
        bind: PathBuf,
        /// The target.
        target: PathBuf,
        /// The kernel's error.
        #[source]
        cause: Box<kernel::Error>,
    },
    /// The container's maps have no host ID for its root.
    #[error("the maps of the container's user namespace leave out its {kind} 0")]
    RootUnmapped {
        /// User or group.
        kind: &'static str,
    },
    /// A bidirectional mount in a user namespace of its own never reaches the host.
    #[error("mounts that the container makes below {} cannot leave its user namespace", target.display())]
    BothWays {
        /// The target.
        target: PathBuf,
    },
    /// The source is not on a shared mount.
    #[error("{} is on a mount that is not shared, so nothing mounted below it can travel", bind.display())]
    NotShared {
        /// The source.
        bind: PathBuf,
    },
    /// A bidirectional mount was not opened before the mount namespace was entered.
    #[error("{} was not held before the mount namespace was entered", bind.display())]
    NotHeld {
        /// The source.
        bind: PathBuf,
    },
    /// The path is not a device.
    #[error("{} is neither a device nor a directory of devices", device.display())]
    NoDevice {
        /// The path.
        device: PathBuf,
    },
    /// Requested capabilities cannot be granted here.
    #[error("the container cannot be given {}", names.join(", "))]
    Capabilities {
        /// Their names.
        names: Vec<String>,
    },
    /// The container's passwd or group file does not have the name.
    #[error("there is no {kind} {name:?} in the container's {}", file.display())]
    NoSuchUser {
        /// User or group.
        kind: &'static str,
        /// The name.
        name: String,
        /// The file.
        file: PathBuf,
    },
    /// An invalid ID.
    #[error("there can be no {kind} with the ID {id}")]
    ImpossibleId {
        /// User or group.
        kind: &'static str,
        /// The value that was given.
        id: String,
    },
    /// A file of the container is invalid.
    #[error("the container's {} cannot be read: {why}", file.display())]
    UnfitFile {
        /// The file.
        file: PathBuf,
        /// Why it is invalid.
        why: &'static str,
    },
    /// A file of the image has an owner without an ID in the container.
    #[error("{} of the image belongs to {kind} {id}, which the maps of the container leave out", file.display())]
    Unmapped {
        /// The file, from the image's root.
        file: PathBuf,
        /// User or group.
        kind: &'static str,
        /// Its ID in the image.
        id: u32,
    },
    /// The target is refused.
    #[error("nothing can be mounted at {}: {why}", target.display())]
    Target {
        /// The path that was to be mounted, masked or made read-only.
        target: PathBuf,
        /// Why it is invalid.
        why: &'static str,
    },
    /// A mount point is missing and cannot be created.
    #[error("the mount point {} cannot be made", target.display())]
    MountPoint {
        /// The target.
        target: PathBuf,
        /// The kernel's error.
        #[source]
        cause: Box<kernel::Error>,
    },
    /// A directory that every container has is something else in the image.
    #[error("{} of the image is not a directory", path.display())]
    NotADirectory {
        /// The path in the image.
        path: PathBuf,
    },
    /// The program cannot start in this directory.
    #[error("{} cannot be the working directory: {why}", path.display())]
    WorkingDirectory {
        /// The path in the container.
        path: PathBuf,
        /// Why it is invalid.
        why: &'static str,
    },
    /// An image volume without layers.
    #[error("the image for {} has no layers", target.display())]
    NothingToShow {
        /// The target.
        target: PathBuf,
    },
    /// A path of an image volume cannot be opened.
    #[error("{} of an image cannot be mounted at {}", sub_path.display(), target.display())]
    ImagePath {
        /// The path.
        sub_path: PathBuf,
        /// The target.
        target: PathBuf,
        /// The kernel's error.
        #[source]
        cause: Box<kernel::Error>,
    },
    /// A path of an image volume is neither file nor directory.
    #[error("{} of an image cannot be mounted at {}: it is neither file nor directory", sub_path.display(), target.display())]
    ImageNode {
        /// The path.
        sub_path: PathBuf,
        /// The target.
        target: PathBuf,
    },
    /// A container's image has no layers.
    #[error("the image of container {id} has no layers")]
    NoLayers {
        /// The container.
        id: String,
    },
    /// A file of ours could not be read or written.
    #[error("{what} {}", path.display())]
    File {
        /// The operation that failed, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        cause: io::Error,
    },
}

impl From<kernel::Error> for Error {
    fn from(error: kernel::Error) -> Self {
        Self::Kernel(Box::new(error))
    }
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Kernel(error) => error.hint().map(Into::into),
            Self::LayerNotIdmappable { .. } => Some(
                "keep images on a filesystem that can be idmapped: ext4, xfs, btrfs, or tmpfs from Linux 6.3"
                    .to_owned(),
            ),
            Self::BindNotIdmappable { .. } => Some(
                "use a volume on a filesystem that can be idmapped, or another volume policy for it"
                    .to_owned(),
            ),
            Self::RootUnmapped { .. } => Some("map ID 0 of the container".to_owned()),
            Self::BothWays { .. } => Some("mount it with propagation from the host only".to_owned()),
            Self::NotShared { .. } => {
                Some("make its mount shared on the host (mount --make-shared)".to_owned())
            }
            Self::NoDevice { .. } => Some("name a device of the host, such as /dev/fuse".to_owned()),
            Self::Capabilities { .. } => Some(
                "drop them: with the host's users, a container has at most what the runtime itself has"
                    .to_owned(),
            ),
            Self::NoSuchUser { .. } => {
                Some("name the user by number, or use an image that has the name".to_owned())
            }
            Self::Unmapped { .. } => Some("give the pod a longer range of IDs".to_owned()),
            Self::ImpossibleId { .. } | Self::UnfitFile { .. } | Self::NotHeld { .. } => None,
            Self::ImagePath { .. } | Self::ImageNode { .. } => {
                Some("name a file or directory that the image has; links are not followed".to_owned())
            }
            Self::Target { .. } => Some(
                "mount it elsewhere; below /proc and /sys only the host's own files of that filesystem can be mounted"
                    .to_owned(),
            ),
            Self::MountPoint { .. } => {
                Some("make it in the image or the volume, or mount the volume that it is in writable".to_owned())
            }
            Self::NotADirectory { path } => Some(format!(
                "use an image in which {} is a directory, or missing: a link there could lead to files of the host",
                path.display()
            )),
            Self::WorkingDirectory { .. } => Some("set workingDir to a directory of the image".to_owned()),
            Self::NothingToShow { .. } | Self::NoLayers { .. } => Some("import the image again".to_owned()),
            Self::File { .. } => None,
        }
    }
}

impl From<durable::Error> for Error {
    fn from(error: durable::Error) -> Self {
        use durable::Error as Cause;
        match error {
            Cause::Io { action, path, cause } => Self::File { what: action, path, cause },
            Cause::Damaged { ref path, .. }
            | Cause::Version { ref path, .. }
            | Cause::TooLarge { ref path, .. }
            | Cause::Untrusted { ref path, .. }
            | Cause::Locked { ref path, .. } => {
                Self::File { what: "use", path: path.clone(), cause: std::io::Error::other(error) }
            }
        }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
