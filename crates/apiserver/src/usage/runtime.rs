//! What the runtime says that it has on disks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cri::client::Client;
use cri::{FilesystemUsage, ImageFsInfoRequest, ListContainerStatsRequest, within};
use kubelet_api::Filesystem;
use tracing::warn;

use super::{Layers, filesystem};

/// How long the runtime may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What images and containers take.
#[derive(Debug, Default)]
pub(super) struct Disks {
    pub(super) images: Option<Taken>,
    pub(super) containers: Option<Taken>,
    pub(super) layers: Layers,
}

/// Where the runtime keeps images and containers, as this process sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RuntimeDirs {
    pub(super) images: Option<PathBuf>,
    pub(super) containers: Option<PathBuf>,
}

impl RuntimeDirs {
    /// # Errors
    /// If the runtime does not say.
    pub(super) async fn read(client: &Client, host_root: &Path) -> Result<Self, String> {
        let mut images = client.images();
        let places = within(PATIENCE, "ImageFsInfo", images.image_fs_info(ImageFsInfoRequest {}));
        let places = places.await.map_err(|error| error.to_string())?;
        let first = |all: &[FilesystemUsage]| {
            let dir = PathBuf::from(&all.first()?.fs_id.as_ref()?.mountpoint);
            Some(seen(&dir, host_root))
        };
        let images = first(&places.image_filesystems);
        // A runtime that does not tell them apart has them at one place.
        let containers = first(&places.container_filesystems).or_else(|| images.clone());
        Ok(Self { images, containers })
    }
}

/// Where this process sees a directory of the host.
fn seen(dir: &Path, host_root: &Path) -> PathBuf {
    host_root.join(dir.strip_prefix("/").unwrap_or(dir))
}

/// What something takes of the filesystem that has this directory.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    dir: PathBuf,
    bytes: u64,
    inodes: u64,
}

impl Disks {
    /// What a runtime does not say is left out.
    pub(super) async fn read(client: &Client) -> Self {
        let (mut images, mut runtime) = (client.images(), client.runtime());
        let places = within(PATIENCE, "ImageFsInfo", images.image_fs_info(ImageFsInfoRequest {}));
        let request = ListContainerStatsRequest { filter: None };
        let stats = within(PATIENCE, "ListContainerStats", runtime.list_container_stats(request));
        let (places, stats) = tokio::join!(places, stats);
        let places = places.inspect_err(|error| warn!("what images take is not known: {error}")).ok();
        let stats =
            stats.inspect_err(|error| warn!("what containers have written is not known: {error}")).ok();
        let first = |all: &[FilesystemUsage]| all.first().and_then(Taken::of);
        let layer = |stats: &cri::ContainerStats| {
            Some((stats.attributes.as_ref()?.id.clone(), Taken::of(stats.writable_layer.as_ref()?)?))
        };
        Self {
            images: places.as_ref().and_then(|places| first(&places.image_filesystems)),
            containers: places.as_ref().and_then(|places| first(&places.container_filesystems)),
            layers: stats.iter().flat_map(|all| &all.stats).filter_map(layer).collect(),
        }
    }
}

impl Taken {
    fn of(usage: &FilesystemUsage) -> Option<Self> {
        let number = |value: &Option<cri::UInt64Value>| value.map_or(0, |value| value.value);
        let dir = PathBuf::from(&usage.fs_id.as_ref()?.mountpoint);
        Some(Self { dir, bytes: number(&usage.used_bytes), inodes: number(&usage.inodes_used) })
    }

    /// This and its filesystem; `None` if the directory is not there.
    pub(super) fn on(&self, host_root: &Path) -> Option<Filesystem> {
        let whole = filesystem(&seen(&self.dir, host_root))?;
        Some(Filesystem { used: self.bytes, inodes_used: self.inodes, ..whole })
    }
}
