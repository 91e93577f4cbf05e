//! Paths below the state directory. docs/design/volumes.md has them drawn.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use types::{ContainerName, VolumeName};

/// The directory of all pods.
pub(crate) const PODS: &str = "pods";
/// A pod's volumes, by kind and name.
pub(crate) const VOLUMES: &str = "volumes";
/// Parts of volumes, mounted for runtimes that take paths only.
pub(crate) const SUB_PATHS: &str = "volume-subpaths";
/// Further directories of a volume.
pub(crate) const PLUGINS: &str = "plugins";
/// Journals of trees that are given to pods.
pub(crate) const CHOWN_ONCE: &str = "chown-once";
/// The record of a pod's volumes.
pub(crate) const RECORD: &str = "volumes.json";
/// The record while it is being written.
pub(crate) const NEW_RECORD: &str = "volumes.json.new";
/// Accessible to root and the group root only.
pub(crate) const DIR_MODE: u32 = 0o750;

/// A kind of volume that has a directory of its own in a pod's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MadeKind {
    /// Scratch space.
    EmptyDir,
    /// Keys of a ConfigMap.
    ConfigMap,
    /// Keys of a Secret.
    Secret,
    /// Fields of the pod.
    DownwardApi,
    /// Several of these.
    Projected,
    /// An image of several layers.
    Image,
    /// A tree of the host's that was given to the pod's block.
    HostPath,
}

impl MadeKind {
    /// The directory of this kind, named as the kubelet does, for tools that search for volumes.
    pub(crate) fn dir(self) -> &'static str {
        match self {
            Self::EmptyDir => "kubernetes.io~empty-dir",
            Self::ConfigMap => "kubernetes.io~configmap",
            Self::Secret => "kubernetes.io~secret",
            Self::DownwardApi => "kubernetes.io~downward-api",
            Self::Projected => "kubernetes.io~projected",
            Self::Image => "kubernetes.io~image",
            Self::HostPath => "kubernetes.io~host-path",
        }
    }

    /// Where a volume of this kind is in its pod's directory.
    #[must_use]
    pub fn volume(self, name: &VolumeName) -> PathBuf {
        [VOLUMES, self.dir(), name.as_str()].iter().collect()
    }

    /// The directory in which a kubelet marks a volume of this kind as complete: it makes all of them as an emptyDir.
    pub(crate) fn kubelets_mark(self, name: &VolumeName) -> PathBuf {
        let name = match self {
            Self::EmptyDir => name.as_str().to_owned(),
            _ => format!("wrapped_{name}"),
        };
        Path::new(PLUGINS).join(Self::EmptyDir.dir()).join(name)
    }

    /// The path of further directories of a volume of this kind.
    pub(crate) fn beside(self, name: &VolumeName) -> PathBuf {
        [PLUGINS, self.dir(), name.as_str()].iter().collect()
    }
}

/// The path in the pod's directory at which a subPath is mounted.
pub(crate) fn sub_path(volume: &VolumeName, container: &ContainerName, index: usize) -> PathBuf {
    Path::new(SUB_PATHS).join(volume.as_str()).join(container.as_str()).join(index.to_string())
}
