use std::fs;
use std::io;
use std::path::PathBuf;

use ids::witness::{Sighting, Use, Witness, WitnessError};

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
        self.take_while(&mut || (), &mut || ())
    }

    /// What is written down as somebody's, read anew: the part of a look that takes no time.
    #[must_use]
    pub fn claims(&self) -> Vec<Use> {
        let mut claimed = Report::default();
        claims::read(self, &mut claimed);
        claimed.owners.iter().flat_map(Owner::uses).collect()
    }

    fn take_while(
        &self,
        beside: &mut (dyn FnMut() + Send),
        before: &mut dyn FnMut(),
    ) -> Result<Report, CensusError> {
        let (mut report, mut claimed) = (Report::default(), Report::default());
        let mut beside = || {
            beside();
            claims::read(self, &mut claimed);
        };
        live::look(&self.host_root, &mut report, (&mut beside, before))?;
        report.add(claimed);
        Ok(report)
    }
}

impl Witness for Census {
    fn look(&self) -> Result<Sighting, WitnessError> {
        self.look_while(&mut || (), &mut || ())
    }

    fn look_while(
        &self,
        beside: &mut (dyn FnMut() + Send),
        before: &mut dyn FnMut(),
    ) -> Result<Sighting, WitnessError> {
        let report = self.take_while(beside, before).map_err(|CensusError::Proc { path, source }| {
            WitnessError { what: format!("cannot list the processes in {}", path.display()), source }
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
