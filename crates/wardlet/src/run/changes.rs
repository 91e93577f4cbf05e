//! Manifests that were written again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// When the manifests were last written.
pub(crate) struct Files {
    names: Vec<PathBuf>,
    seen: BTreeMap<PathBuf, Option<SystemTime>>,
}

impl Files {
    pub(crate) fn of(names: &[PathBuf]) -> Self {
        let names: Vec<PathBuf> = names.iter().filter(|name| *name != Path::new("-")).cloned().collect();
        let seen = times(&names);
        Self { names, seen }
    }

    /// Whether any was written, added or removed since the last question.
    pub(crate) fn have_changed(&mut self) -> bool {
        let now = times(&self.names);
        std::mem::replace(&mut self.seen, now.clone()) != now
    }
}

fn times(names: &[PathBuf]) -> BTreeMap<PathBuf, Option<SystemTime>> {
    let below = |name: &PathBuf| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(name).into_iter().flatten().flatten().map(|e| e.path());
        entries.chain([name.clone()]).collect()
    };
    let time = |path: &PathBuf| std::fs::metadata(path).and_then(|m| m.modified()).ok();
    names.iter().flat_map(below).map(|path| (path.clone(), time(&path))).collect()
}
