//! What the numbers depend on: the machine, and what a sync costs on its disk.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;

use crate::stats::quantile;

const SYNCS: usize = 500;

/// The facts, as found before the first measurement.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) filesystem: String,
    /// Seconds for an append of 4096 bytes and its fdatasync.
    pub(crate) sync_p50: f64,
    pub(crate) sync_p99: f64,
    /// Processes that wanted to run in the last minute, on average: others' work disturbs ours.
    pub(crate) load: String,
}

impl Machine {
    /// Looks at the machine, and tries the disk under `dir`.
    pub(crate) fn look(dir: &Path) -> anyhow::Result<Self> {
        let mut syncs = syncs(dir)?;
        Ok(Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: word("/proc/sys/kernel/osrelease")?,
            filesystem: filesystem(dir)?,
            sync_p50: quantile(&mut syncs, 500).unwrap_or_default(),
            sync_p99: quantile(&mut syncs, 990).unwrap_or_default(),
            load: word("/proc/loadavg")?,
        })
    }
}

/// The first word of a file.
fn word(path: &str) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    Ok(text.split_whitespace().next().unwrap_or_default().to_owned())
}

fn syncs(dir: &Path) -> anyhow::Result<Vec<f64>> {
    let scratch = tempfile::Builder::new().prefix("wardlet-bench-").tempdir_in(dir);
    let scratch = scratch.with_context(|| format!("cannot make a directory in {}", dir.display()))?;
    let path = scratch.path().join("appended");
    let mut file: File = OpenOptions::new().create(true).append(true).open(&path)?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).context("cannot try the disk")?;
        took.push(began.elapsed().as_secs_f64());
    }
    Ok(took)
}

/// The kind of filesystem that holds `dir`.
fn filesystem(dir: &Path) -> anyhow::Result<String> {
    let dir = dir.canonicalize().with_context(|| format!("cannot find {}", dir.display()))?;
    let mounts =
        std::fs::read_to_string("/proc/self/mountinfo").context("cannot read /proc/self/mountinfo")?;
    Ok(kind_of(&dir, &mounts).unwrap_or_else(|| "unknown".to_owned()))
}

/// The longest mount point above `dir` wins; of two on one point, the later.
fn kind_of(dir: &Path, mountinfo: &str) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = PathBuf::from(before.split(' ').nth(4)?);
        dir.starts_with(&point).then(|| (point.components().count(), after.split(' ').next()))
    });
    mounts.max_by_key(|(depth, _)| *depth).and_then(|(_, kind)| kind.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filesystem_of_a_directory_is_that_of_the_deepest_mount_above_it() {
        let mounts = "1 0 8:1 / / rw - ext4 /dev/vda rw\n2 1 0:5 / /var/tmp rw - tmpfs none rw\n3 1 0:6 / /var rw shared:2 - xfs /dev/b rw\n";
        assert_eq!(kind_of(Path::new("/var/tmp/x"), mounts).as_deref(), Some("tmpfs"));
        assert_eq!(kind_of(Path::new("/var/lib"), mounts).as_deref(), Some("xfs"));
        assert_eq!(kind_of(Path::new("/home"), mounts).as_deref(), Some("ext4"));
    }
}
