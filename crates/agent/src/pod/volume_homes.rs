//! The directories that have the volumes of pods: the kubelet's root directory, and the state directory for `wardlet run`
//! and for pods of earlier versions of the agent. Each pod stays in the one that its record names.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernel::Kernel;
use volumes::{LocalDriver, PodVolumes, VolumeManager};

use crate::error::{Error, Result};
use crate::pod::store::{Place, Stored};

/// The volumes under one directory.
pub(crate) struct VolumeHome {
    pub(crate) manager: VolumeManager,
    /// Those that the node makes itself.
    pub(crate) local: PodVolumes,
}

/// The volumes of all pods, by the directory that they are under.
pub(crate) struct VolumeHomes(BTreeMap<PathBuf, VolumeHome>);

impl VolumeHomes {
    /// Opens those of the state directory, of the root directory if there is one, and of each root directory that a recorded
    /// pod has.
    pub(crate) fn open(
        state: &Path,
        root: Option<&Path>,
        known: &[Stored],
        kernel: &Arc<dyn Kernel>,
    ) -> Result<Self> {
        let recorded = known.iter().filter_map(|stored| stored.record.root_dir.as_deref());
        // Without its root directory a pod cannot be run, and the others can.
        let recorded = recorded.filter(|dir| dir.is_dir());
        let all: BTreeSet<&Path> = [state].into_iter().chain(root).chain(recorded).collect();
        let open = |dir: &Path| {
            let others: Vec<&Path> = all.iter().copied().filter(|other| *other != dir).collect();
            let local = PodVolumes::open_beside(dir, state, &others, Arc::clone(kernel))?;
            let manager = VolumeManager::new(vec![Arc::new(LocalDriver::new(local.clone()))]);
            Ok((dir.to_owned(), VolumeHome { manager, local }))
        };
        Ok(Self(all.iter().map(|dir| open(dir)).collect::<Result<_>>()?))
    }

    /// The volumes of the pod at this place.
    ///
    /// # Errors
    /// If the directory that its record names is gone.
    pub(crate) fn of(&self, place: &Place) -> Result<&VolumeHome> {
        let home = place.home();
        self.0.get(home).ok_or_else(|| Error::file("open", home)(io::ErrorKind::NotFound.into()))
    }
}
