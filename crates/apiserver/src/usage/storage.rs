//! What pods take of the filesystem of the node.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agent::{LocalVolume, PodStatus, Stored};
use kernel::disk_usage::{DiskUsage, DiskUsageMeter};
use kubelet_api::{Filesystem, VolumeUsage};
use tracing::warn;

use super::{BLOCK, statvfs};

/// Measures the volumes and files of pods.
#[derive(Debug, Default)]
pub(super) struct LocalStorage(Option<DiskUsageMeter>);

impl LocalStorage {
    /// Starts to measure. Without a thread for it, and where that is not wanted, only what needs no walk is known.
    pub(super) fn start(is_wanted: bool) -> Self {
        let start =
            || DiskUsageMeter::start().inspect_err(|error| warn!("volumes are not measured: {error}"));
        Self(is_wanted.then(start).and_then(Result::ok))
    }

    /// Measures the volumes of these pods from now on, and of no others.
    pub(super) fn watch(&self, pods: &[Stored]) {
        let Some(meter) = &self.0 else { return };
        let has_ended = |pod: &&Stored| pod.status.as_ref().is_some_and(PodStatus::is_terminated);
        let groups = pods.iter().filter(|pod| !has_ended(pod)).map(|pod| {
            let volumes = pod.local_volumes().into_iter().map(|volume| volume.path);
            let trees = volumes.filter(|path| !is_mount(path)).chain([pod.container_files()]);
            (pod.record.uid.as_str().to_owned(), trees.collect::<BTreeSet<PathBuf>>())
        });
        meter.watch(groups.collect());
    }

    /// Whether each volume of the pods that were watched last is measured.
    pub(super) fn is_complete(&self) -> bool {
        self.0.as_ref().is_none_or(DiskUsageMeter::is_complete)
    }

    /// The volumes of a pod, as far as it is known what they take.
    pub(super) fn volumes(&self, pod: &Stored) -> Vec<VolumeUsage> {
        pod.local_volumes().into_iter().filter_map(|volume| self.volume(volume)).collect()
    }

    fn volume(&self, volume: LocalVolume) -> Option<VolumeUsage> {
        let LocalVolume { name, path, is_ephemeral_storage } = volume;
        let whole = statvfs(&path)?;
        // A mount is the volume's alone, and its filesystem counts what is in it.
        if is_mount(&path) {
            return self.0.is_some().then_some(VolumeUsage {
                name,
                filesystem: whole,
                at_least: false,
                is_ephemeral_storage: false,
            });
        }
        let DiskUsage { bytes, inodes, at_least } = self.0.as_ref()?.usage(&path)?;
        let filesystem = Filesystem { used: bytes, inodes_used: inodes, ..whole };
        Some(VolumeUsage { name, filesystem, at_least, is_ephemeral_storage })
    }

    /// What other files take that the node keeps for a pod: `/etc/hosts` and the termination messages, which containers can
    /// write. `root_dir` has them.
    pub(super) fn files(&self, pod: &Stored, root_dir: &Path) -> Option<Filesystem> {
        let hosts = fs::symlink_metadata(pod.hosts_file()).ok();
        let hosts = hosts.map_or(0, |found| found.blocks().saturating_mul(BLOCK));
        let of_containers = self.0.as_ref().and_then(|meter| meter.usage(&pod.container_files()));
        let DiskUsage { bytes, inodes, .. } = of_containers.unwrap_or_default();
        let used = hosts.saturating_add(bytes);
        Some(Filesystem { used, inodes_used: inodes + 1, ..statvfs(root_dir)? })
    }
}

/// Whether a directory is on another filesystem than the one above it.
fn is_mount(path: &Path) -> bool {
    let device = |path: &Path| -> io::Result<u64> { Ok(fs::symlink_metadata(path)?.dev()) };
    let above = path.parent().map(device);
    matches!((device(path), above), (Ok(own), Some(Ok(above))) if own != above)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::json;

    use super::*;

    /// A recorded pod with an emptyDir of this medium.
    fn pod(state: &Path) -> Stored {
        let place = state.join("pods/u-1");
        fs::create_dir_all(place.join("volumes/kubernetes.io~empty-dir/v")).unwrap();
        let record = json!({
            "version": 1, "uid": "u-1", "namespace": "shop", "name": "web", "hash": "", "endpoint": "", "handler": "",
            "mode": "own", "uids": [], "gids": [], "process": 1,
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
                "containers": [{"name": "a", "image": "i"}],
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "away", "emptyDir": {}}],
            }},
        });
        fs::write(place.join("agent.json"), record.to_string()).unwrap();
        agent::stored_one(state, "u-1").unwrap().unwrap()
    }

    #[test]
    fn a_volume_is_known_once_it_is_measured() {
        let dir = tempfile::tempdir().unwrap();
        let stored = pod(dir.path());
        let volume = dir.path().join("pods/u-1/volumes/kubernetes.io~empty-dir/v");
        fs::write(volume.join("file"), vec![1; 8192]).unwrap();
        fs::write(stored.hosts_file(), vec![1; 4096]).unwrap();
        let storage = LocalStorage::start(true);
        assert!(storage.volumes(&stored).is_empty());
        storage.watch(std::slice::from_ref(&stored));
        let deadline = Instant::now() + Duration::from_secs(60);
        let found = loop {
            let found = storage.volumes(&stored);
            if !found.is_empty() {
                break found;
            }
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(10));
        };
        let [found] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((found.name.as_str(), found.filesystem.inodes_used), ("v", 2));
        assert!(found.is_ephemeral_storage && found.filesystem.used >= 8192);
        assert!(found.filesystem.capacity > found.filesystem.used);
        let files = storage.files(&stored, dir.path()).unwrap();
        assert!(files.used >= 4096 && files.inodes_used >= 1, "{files:?}");
        // Measuring can be turned off.
        assert!(LocalStorage::start(false).volumes(&stored).is_empty());
    }
}
