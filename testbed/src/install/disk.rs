//! Room: asked for before anything is built, because a build that fills the disk fails late and obscurely.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, Result, paths};

const MEGABYTE: u64 = 1 << 20;

/// The nearest directory that exists already.
fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|dir| dir.exists()).unwrap_or_else(|| Path::new("/")).to_path_buf()
}

/// Refuses if less than `needed` MB are free where components are kept, or where Go keeps what it fetched and
/// compiled on the way, which is most of it.
pub(super) fn check(needed: u64) -> Result<()> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    [Some(paths::cache_root()), home].iter().flatten().try_for_each(|path| check_at(&existing(path), needed))
}

fn check_at(path: &Path, needed: u64) -> Result<()> {
    let stat = rustix::fs::statvfs(path).map_err(|e| Error::file("ask for the room of", path)(e.into()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize) / MEGABYTE;
    if free < needed { Err(Error::DiskFull { path: path.to_path_buf(), free, needed }) } else { Ok(()) }
}

/// What the programs or files of a component take.
pub(super) fn megabytes(directory: Option<&Path>) -> f64 {
    let Some(directory) = directory else { return 0.0 };
    let listed = ["bin", "files"].map(|name| fs::read_dir(directory.join(name)));
    let entries = listed.into_iter().flatten().flatten().flatten();
    let bytes: u64 = entries.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum();
    // Tenths of a MB fit a u32 for anything that fits a disk of today.
    f64::from(u32::try_from(bytes * 10 / MEGABYTE).unwrap_or(u32::MAX)) / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_any_disk_has_is_refused_with_numbers() {
        let error = check(u64::MAX / MEGABYTE).expect_err("no disk is that large");
        assert!(error.to_string().contains("MB are needed"), "{error}");
    }
}
