use std::io;
use std::path::PathBuf;

/// Why a container could not be made ready or started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel did not do what was asked of it.
    #[error(transparent)]
    Kernel(Box<kernel::Error>),
    /// A layer's files cannot be made the pod's without changing them, and nobody allowed that.
    #[error("layer {} cannot be idmapped", layer.display())]
    LayerNotIdmappable {
        /// The layer.
        layer: PathBuf,
        /// What the kernel said.
        #[source]
        cause: Box<kernel::Error>,
    },
    /// A volume's files cannot be made the pod's without changing them.
    #[error("{} cannot be idmapped for {}", bind.display(), target.display())]
    BindNotIdmappable {
        /// What was to be mounted.
        bind: PathBuf,
        /// Where.
        target: PathBuf,
        /// What the kernel said.
        #[source]
        cause: Box<kernel::Error>,
    },
    /// The container's maps have no host ID for its root.
    #[error("the maps of the container's user namespace leave out its {kind} 0")]
    RootUnmapped {
        /// User or group.
        kind: &'static str,
    },
    /// Mounts made in a user namespace of its own never reach the host.
    #[error("mounts that the container makes below {} cannot leave its user namespace", target.display())]
    BothWays {
        /// Where it was to be mounted.
        target: PathBuf,
    },
    /// The host keeps the mounts below it to itself.
    #[error("{} is on a mount that is not shared, so nothing mounted below it can travel", bind.display())]
    NotShared {
        /// What was to be mounted.
        bind: PathBuf,
    },
    /// A bind that travels both ways was not held before the mount namespace was entered.
    #[error("{} was not held before the mount namespace was entered", bind.display())]
    NotHeld {
        /// What was to be mounted.
        bind: PathBuf,
    },
    /// What was named as a device is none.
    #[error("{} is neither a device nor a directory of devices", device.display())]
    NoDevice {
        /// What it is instead of a device.
        device: PathBuf,
    },
    /// Capabilities were asked for by name that cannot be given here.
    #[error("the container cannot be given {}", names.join(", "))]
    Capabilities {
        /// Their names.
        names: Vec<String>,
    },
    /// The container's files do not know the name.
    #[error("there is no {kind} {name:?} in the container's {}", file.display())]
    NoSuchUser {
        /// User or group.
        kind: &'static str,
        /// The name.
        name: String,
        /// The file that was looked in.
        file: PathBuf,
    },
    /// The kernel has no such ID.
    #[error("there can be no {kind} with the ID {id}")]
    ImpossibleId {
        /// User or group.
        kind: &'static str,
        /// As it was written.
        id: String,
    },
    /// A file of the container's own is not what it should be.
    #[error("the container's {} cannot be read: {why}", file.display())]
    UnfitFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A file of the image belongs to somebody who has no ID in the container.
    #[error("{} of the image belongs to {kind} {id}, which the maps of the container leave out", file.display())]
    Unmapped {
        /// The file, from the image's root.
        file: PathBuf,
        /// User or group.
        kind: &'static str,
        /// Its number in the image.
        id: u32,
    },
    /// This host has no control groups.
    #[error("no control groups are mounted")]
    NoCgroups,
    /// A control group cannot be at this path.
    #[error("there can be no control group {path:?}: {why}")]
    CgroupPath {
        /// The path, or the part of it that is wrong.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// What was to be limited cannot be limited here.
    #[error("nothing here can set {controller} of the control group {}", group.display())]
    NoController {
        /// The group.
        group: PathBuf,
        /// The controller, or the file of one.
        controller: String,
    },
    /// The kernel did not take a value of a control group.
    #[error("write {value:?} to {}", path.display())]
    CgroupFile {
        /// The file.
        path: PathBuf,
        /// What was to be written.
        value: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// Processes that were killed did not end.
    #[error("processes of the control group {} do not end: {processes:?}", path.display())]
    StillRunning {
        /// The group.
        path: PathBuf,
        /// Their numbers.
        processes: Vec<u32>,
    },
    /// Nothing can be mounted there.
    #[error("nothing can be mounted at {}: {why}", target.display())]
    Target {
        /// Where it was to be mounted, masked or made read-only.
        target: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is nothing to mount it on, and nothing can be made there.
    #[error("the mount point {} cannot be made", target.display())]
    MountPoint {
        /// Where it was to be mounted.
        target: PathBuf,
        /// What the kernel said.
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
        /// What is wrong with it.
        why: &'static str,
    },
    /// An image without a layer has nothing to show.
    #[error("the image for {} has no layers", target.display())]
    NothingToShow {
        /// Where it was to be mounted.
        target: PathBuf,
    },
    /// A part of an image cannot be shown.
    #[error("{} of an image cannot be mounted at {}", sub_path.display(), target.display())]
    ImagePath {
        /// The part.
        sub_path: PathBuf,
        /// Where it was to be mounted.
        target: PathBuf,
        /// What the kernel said.
        #[source]
        cause: Box<kernel::Error>,
    },
    /// A part of an image is neither file nor directory.
    #[error("{} of an image cannot be mounted at {}: it is neither file nor directory", sub_path.display(), target.display())]
    ImageNode {
        /// The part.
        sub_path: PathBuf,
        /// Where it was to be mounted.
        target: PathBuf,
    },
    /// An image without a layer has no files to run.
    #[error("the image of container {id} has no layers")]
    NoLayers {
        /// The container.
        id: String,
    },
    /// A file of ours could not be read or written.
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
            Self::NoCgroups => Some("mount cgroup2 at /sys/fs/cgroup".to_owned()),
            Self::NoController { .. } => {
                Some("leave the limit out, or start the kernel with the controller".to_owned())
            }
            Self::StillRunning { .. } => {
                Some("they wait for a device or a network filesystem; see /proc/PID/stack".to_owned())
            }
            Self::CgroupPath { .. } | Self::CgroupFile { .. } => None,
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
            | Cause::Locked { ref path, .. } => {
                Self::File { what: "use", path: path.clone(), cause: std::io::Error::other(error) }
            }
        }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
