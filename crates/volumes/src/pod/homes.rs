//! The directories that pods of one agent have been given.

use std::path::Path;
use std::sync::Arc;

use kernel::Dir;

use super::dir;
use crate::error::{Error, Result};
use types::PodUid;

/// Where the volumes of pods are, and what is known of all of them.
#[derive(Debug, Clone)]
pub(crate) struct Homes {
    /// Its directory `pods` has the pods whose volumes are set up and torn down.
    pub(crate) own: Arc<Dir>,
    /// Other directories whose pods may have the same users and the same trees.
    others: Vec<Arc<Dir>>,
    /// Has the journals of trees that are given to pods. It is one for all homes, so that no tree is given twice.
    pub(crate) journals: Arc<Dir>,
}

impl Homes {
    /// Volumes and journals in one directory.
    pub(crate) fn single(state: &Path) -> Result<Self> {
        let own = Arc::new(open(state)?);
        Ok(Self { journals: Arc::clone(&own), own, others: Vec::new() })
    }

    /// Volumes in `own`, journals in `state`; other pods are in `others`.
    pub(crate) fn several(own: &Path, state: &Path, others: &[&Path]) -> Result<Self> {
        let (own, journals) = (Arc::new(open(own)?), Arc::new(open(state)?));
        let others = others.iter().map(|dir| open(dir).map(Arc::new)).collect::<Result<Vec<_>>>()?;
        let others = others.into_iter().filter(|dir| dir.path() != own.path()).collect();
        Ok(Self { own, others, journals })
    }

    /// All pods with the directory that they are in. A pod may be in two: its record says which is its own.
    pub(crate) fn pods(&self) -> Result<Vec<(&Dir, PodUid)>> {
        let mut found = Vec::new();
        for home in std::iter::once(&self.own).chain(&self.others) {
            found.extend(dir::all(home)?.into_iter().map(|pod| (&**home, pod)));
        }
        Ok(found)
    }
}

/// Opens a directory by the path that mountinfo has: without links.
fn open(path: &Path) -> Result<Dir> {
    let failed = |e: std::io::Error| Error::io("open", path, crate::record::errno_of(&e));
    Ok(Dir::open(&path.canonicalize().map_err(failed)?)?)
}
