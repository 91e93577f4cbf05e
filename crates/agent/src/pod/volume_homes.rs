//! The directories that have the volumes of pods: the kubelet's root directory, and the state directory for `wardlet run`
//! and for pods of earlier versions of the agent. Each pod stays in the one that its record names.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use kernel::Kernel;
use types::PodUid;
use volumes::{LocalDriver, Notice, PodVolumes, VolumeManager, Wanted};

use crate::error::{Error, Result};
use crate::metrics::volumes::VolumeMetrics;
use crate::pod::store::{Place, Stored};

/// The volumes under one directory.
pub(crate) struct VolumeHome {
    pub(crate) manager: VolumeManager,
    /// Those that the node makes itself.
    pub(crate) local: PodVolumes,
}

/// The directories that pods may have volumes under.
pub(crate) struct VolumeDirs<'a> {
    pub(crate) state: &'a Path,
    /// The root directory, if there is one.
    pub(crate) root: Option<&'a Path>,
    /// Pods of earlier processes, with the root directories that they have.
    pub(crate) known: &'a [Stored],
}

/// The volumes of all pods.
pub(crate) struct VolumeHomes {
    /// By the directory that they are under.
    homes: BTreeMap<PathBuf, VolumeHome>,
    metrics: VolumeMetrics,
}

impl VolumeHomes {
    /// Opens those of the state directory, of the root directory if there is one, and of each root directory that a recorded
    /// pod has.
    pub(crate) fn open(
        dirs: &VolumeDirs<'_>,
        kernel: &Arc<dyn Kernel>,
        metrics: VolumeMetrics,
    ) -> Result<Self> {
        let VolumeDirs { state, root, known } = *dirs;
        let recorded = known.iter().filter_map(|stored| stored.record.root_dir.as_deref());
        // Without its root directory a pod cannot be run, and the others can.
        let recorded = recorded.filter(|dir| dir.is_dir());
        let all: BTreeSet<&Path> = [state].into_iter().chain(root).chain(recorded).collect();
        let open = |dir: &Path| {
            let others: Vec<&Path> = all.iter().copied().filter(|other| *other != dir).collect();
            let local = PodVolumes::open_beside(dir, state, &others, Arc::clone(kernel))?;
            // Another root directory is a kubelet's.
            let local = if dir == state { local } else { local.beside_kubelet() };
            let manager = VolumeManager::new(vec![Arc::new(LocalDriver::new(local.clone()))]);
            Ok((dir.to_owned(), VolumeHome { manager, local }))
        };
        Ok(Self { homes: all.iter().map(|dir| open(dir)).collect::<Result<_>>()?, metrics })
    }

    /// The volumes of the pod at this place.
    ///
    /// # Errors
    /// If the directory that its record names is gone.
    pub(crate) fn of(&self, place: &Place) -> Result<&VolumeHome> {
        let home = place.home();
        self.homes.get(home).ok_or_else(|| Error::file("open", home)(io::ErrorKind::NotFound.into()))
    }

    /// Makes the volumes of the pod at this place what is wanted.
    ///
    /// # Errors
    /// If the directory that its record names is gone, or a volume cannot be set up.
    pub(crate) async fn set_up(&self, place: &Place, wanted: &Wanted) -> Result<Vec<Notice>> {
        let manager = &self.of(place)?.manager;
        self.metrics.wants(&wanted.pod, wanted.volumes.iter().map(|volume| &volume.source));
        let begun = Instant::now();
        let done = manager.set_up(wanted).await;
        self.metrics.set_up(&wanted.pod, begun, &done);
        Ok(done?)
    }

    /// Removes what was made for the volumes of the pod at this place.
    ///
    /// # Errors
    /// If the directory that its record names is gone, or something of a volume cannot be removed.
    pub(crate) async fn tear_down(&self, place: &Place, pod: &PodUid) -> Result<Vec<Notice>> {
        let manager = &self.of(place)?.manager;
        let begun = Instant::now();
        let done = manager.tear_down(pod).await;
        self.metrics.torn_down(pod, begun, &done);
        Ok(done?)
    }
}
