use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread::{Builder, scope};
use std::time::Duration;

use ids::witness::{Sighting, Use, Witness, WitnessError};

use crate::claims;
use crate::error::CensusError;
use crate::host_root::HostRoot;
use crate::live::{self, Budget, Together};
use crate::owner::{Owner, Report};

/// How many open descriptors are looked at when a block is leased: some tenths of a second at most. An ordinary node has fewer.
const DESCRIPTORS: usize = 16_384;

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
        take(&self.begin())
    }

    /// A look that is shared. It is meant for the choice of a block: the credentials and the maps of every task are looked at,
    /// and no more than a bounded number of descriptors. If there are more, the report is blind to them.
    #[must_use]
    pub fn begin_to_lease(&self) -> Look {
        Look { together: Together::new(Budget::of(DESCRIPTORS)), ..self.begin() }
    }

    /// A look that is shared.
    #[must_use]
    pub fn begin(&self) -> Look {
        Look { census: self.clone(), together: Together::default(), claimed: OnceLock::new() }
    }

    /// What is written down as somebody's, read anew: the part of a look that takes no time.
    #[must_use]
    pub fn claims(&self) -> Vec<Use> {
        self.recorded_owners().iter().flat_map(Owner::uses).collect()
    }

    /// The owners that files name, read anew: kubelet records, subordinate IDs, accounts. No process is looked at.
    #[must_use]
    pub fn recorded_owners(&self) -> Vec<Owner> {
        let mut claimed = Report::default();
        claims::read(self, &mut claimed);
        claimed.owners
    }
}

/// One look, by one who leads and others who help: each in a thread of its own.
pub struct Look {
    census: Census,
    together: Together,
    claimed: OnceLock<Report>,
}

impl Look {
    /// Looks now, with whoever helps. To be called once.
    pub fn lead(&self) -> Result<Report, CensusError> {
        let mut report = Report::default();
        live::look(&self.census.host_root, &mut report, &self.together)?;
        report.add(self.claimed().clone());
        Ok(report)
    }

    /// The same, as a witness says it.
    pub fn testify(&self) -> Result<Sighting, WitnessError> {
        testimony(self.lead())
    }

    /// Takes a part of it, if one leads by then. Comes back when nothing is left to be done.
    pub fn help(&self, patience: Duration) {
        // What is read before it began would be older than the look says.
        if self.together.begins(patience) {
            self.claimed();
            self.together.help(&self.census.host_root);
        }
    }

    /// Nobody will lead: whoever helps comes back.
    pub fn cancel(&self) {
        self.together.cancel();
    }

    fn claimed(&self) -> &Report {
        self.claimed.get_or_init(|| {
            let mut claimed = Report::default();
            claims::read(&self.census, &mut claimed);
            claimed
        })
    }
}

fn take(look: &Look) -> Result<Report, CensusError> {
    scope(|scope| {
        let help = || look.help(Duration::MAX);
        let helping = Builder::new().name("census".to_owned()).spawn_scoped(scope, help);
        // Where there is no thread to be had, one goes all the way.
        let report = look.lead();
        // One that was broken off is in the report.
        let _ = helping.map(|thread| thread.join());
        report
    })
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
        testimony(take(&self.begin_to_lease()))
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
