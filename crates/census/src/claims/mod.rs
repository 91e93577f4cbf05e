//! Claims of IDs: files of the host and stores of other tools.
//!
//! A missing file claims nothing. One that cannot be read or parsed is a problem of the report, and stops neither
//! leases nor freeing.

mod accounts;
mod incus;
mod kubelet;
mod podman;
mod subids;

use std::io;
use std::path::Path;

use ids::HostSpan;
use ids::witness::Hold;

use crate::census::Census;
use crate::host_root::HostRoot;
use crate::owner::{Owner, OwnerKind, Problem, Report};

/// Reads all claims and adds them to `report`.
pub(crate) fn read(census: &Census, report: &mut Report) {
    let mut claims = Claims { root: &census.host_root, report };
    accounts::read(&mut claims);
    subids::read(&mut claims, census.pool_owner.as_deref());
    kubelet::read(&mut claims, &census.kubelet_dir);
    podman::read(&mut claims);
    incus::read(&mut claims);
}

/// The report under work, and where to read.
struct Claims<'a> {
    root: &'a HostRoot,
    report: &'a mut Report,
}

impl Claims<'_> {
    fn content(&mut self, file: impl AsRef<Path>) -> Option<Vec<u8>> {
        let content = self.root.read(&file);
        self.there(file.as_ref(), content)
    }

    fn text(&mut self, file: impl AsRef<Path>) -> Option<String> {
        self.content(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn names(&mut self, directory: impl AsRef<Path>) -> Vec<String> {
        let names = self.root.list(&directory);
        self.there(directory.as_ref(), names).unwrap_or_default()
    }

    fn there<T>(&mut self, path: &Path, found: io::Result<T>) -> Option<T> {
        match found {
            Ok(found) => Some(found),
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(e) => {
                self.problem(path, format!("cannot be read: {e}"));
                None
            }
        }
    }

    fn problem(&mut self, file: impl AsRef<Path>, cause: String) {
        let file = file.as_ref().display().to_string();
        self.report.problems.push(Problem { file, cause });
    }

    fn add(&mut self, kind: OwnerKind, name: String, ids: Ids) {
        let Ids { uids, gids } = ids;
        self.report.owners.push(Owner { kind, name, hold: Hold::Claimed, uids, gids });
    }
}

/// The IDs of one claim.
#[derive(Debug, Default, PartialEq, Eq)]
struct Ids {
    uids: Vec<HostSpan>,
    gids: Vec<HostSpan>,
}

impl Ids {
    fn is_empty(&self) -> bool {
        self.uids.is_empty() && self.gids.is_empty()
    }
}

#[cfg(test)]
mod tests;
