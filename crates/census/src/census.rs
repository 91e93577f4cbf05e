use std::fs;
use std::io;
use std::path::PathBuf;

use ids::witness::{Sighting, Witness, WitnessError};

use crate::claims;
use crate::error::CensusError;
use crate::host_root::HostRoot;
use crate::live::{self, Budget};
use crate::owner::{Owner, Report};

/// How many open descriptors are looked at when a block is leased: some tenths of a second at most. An ordinary node has fewer.
const DESCRIPTORS: usize = 16_384;

/// Scans the host itself.
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
        self.scan(&Budget::all())
    }

    /// One scan of the host: first the processes, then the files in which others claim IDs. In this order a pod that
    /// starts meanwhile is not missed: a kubelet writes its record before the pod runs.
    fn scan(&self, descriptors: &Budget) -> Result<Report, CensusError> {
        let mut report = Report::default();
        live::look(&self.host_root, &mut report, descriptors)?;
        claims::read(self, &mut report);
        Ok(report)
    }

    /// The owners that files name, read anew: kubelet records, subordinate IDs, accounts. No process is looked at.
    #[must_use]
    pub fn recorded_owners(&self) -> Vec<Owner> {
        let mut claimed = Report::default();
        claims::read(self, &mut claimed);
        claimed.owners
    }
}

fn testimony(report: Result<Report, CensusError>) -> Result<Sighting, WitnessError> {
    let report = report.map_err(|CensusError::Proc { path, source }| WitnessError {
        what: format!("cannot list the processes in {}", path.display()),
        source,
    })?;
    Ok(Sighting::new(report.owners.iter().flat_map(Owner::uses).collect(), report.blind))
}

impl Witness for Census {
    fn look(&self) -> Result<Sighting, WitnessError> {
        testimony(self.take())
    }

    fn look_to_lease(&self) -> Result<Sighting, WitnessError> {
        testimony(self.scan(&Budget::of(DESCRIPTORS)))
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
