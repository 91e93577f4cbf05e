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
    /// Seen from a private mount namespace, no mount of the container's can reach the host.
    #[error("mounts that the container makes below {} cannot reach the host", target.display())]
    BothWays {
        /// Where it was to be mounted.
        target: PathBuf,
    },
    /// Devices are not handed on yet.
    #[error("device {} cannot be given to a container yet", device.display())]
    Device {
        /// The device.
        device: PathBuf,
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
            Self::Device { .. } => Some("leave the device out".to_owned()),
            Self::NoLayers { .. } => Some("import the image again".to_owned()),
            Self::File { .. } => None,
        }
    }
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
