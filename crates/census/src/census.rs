use std::fs;
use std::io;
use std::path::PathBuf;

use ids::witness::{Sighting, Witness, WitnessError};

use crate::claims;
use crate::error::CensusError;
use crate::host_root::HostRoot;
use crate::live;
use crate::owner::{Owner, Report};

/// One who looks at the host itself.
#[derive(Debug, Clone)]
pub struct Census {
    /// Where the host's files are found.
    pub host_root: HostRoot,
    /// Whose lines in subuid and subgid are the pool that blocks are leased from, and so no claim
    /// against it.
    pub pool_owner: Option<String>,
    /// The kubelet's root directory, as the host names it.
    pub kubelet_dir: PathBuf,
}

impl Default for Census {
    fn default() -> Self {
        Self {
            host_root: HostRoot::default(),
            pool_owner: Some("kubelet".into()),
            kubelet_dir: PathBuf::from("/var/lib/kubelet"),
        }
    }
}

impl Census {
    /// Looks anew, now.
    pub fn take(&self) -> Result<Report, CensusError> {
        let mut report = Report::default();
        live::look(&self.host_root, &mut report)?;
        claims::read(self, &mut report);
        Ok(report)
    }
}

impl Witness for Census {
    fn look(&self) -> Result<Sighting, WitnessError> {
        let report = self.take().map_err(|CensusError::Proc { path, source }| WitnessError {
            what: format!("cannot list the processes in {}", path.display()),
            source,
        })?;
        Ok(Sighting::new(report.owners.iter().flat_map(Owner::uses).collect(), report.blind))
    }

    /// A place that cannot be looked at counts as still there.
    fn remaining(&self, places: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError> {
        let there = |place: &&PathBuf| match fs::symlink_metadata(self.host_root.path(place)) {
            Err(e) => e.kind() != io::ErrorKind::NotFound,
            Ok(_) => true,
        };
        Ok(places.iter().filter(there).cloned().collect())
    }
}
