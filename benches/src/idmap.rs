//! Whose files are whose: an idmapped mount against a recursive chown, and what a user namespace costs.

use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};
use ids::IdMapping;
use kernel::{Access, Charge, DetachedMount, IdMaps, Submounts, Unmount, UsernsFd};

use crate::dice::Dice;
use crate::measure::{Goal, Measure, Side, Sides};
use crate::report::{Report, say};
use crate::subject::Answer;

/// Files of a volume, and how often each number of them is tried at most.
const SIZES: [(usize, usize); 3] = [(1_000, 100), (10_000, 50), (100_000, 12)];
const FILES_PER_DIRECTORY: usize = 100;
/// A thousandth is what makes the difference between a mount and a wait.
const GOAL: f64 = 0.001;
/// MiB that the process has beside what it needs.
const RESIDENT: [usize; 3] = [0, 256, 1024];
/// The first ID of the block that files are given to.
const BLOCK: u32 = 65_536;

pub(crate) struct Idmaps<'a> {
    /// On the filesystem that is measured.
    pub(crate) dir: &'a Path,
    pub(crate) samples: usize,
}

impl Idmaps<'_> {
    pub(crate) fn run(&self, dice: &mut Dice, report: &mut Report) -> anyhow::Result<()> {
        for (files, most) in SIZES {
            let goal = (files == 100_000).then_some(Goal::Part(GOAL));
            let sides = self.mount_against_chown(files, self.samples.min(most), dice)?;
            let name = format!("volume of {files} files");
            report.measures.push(Measure::new(&name, sides, goal, dice));
        }
        for mebibytes in RESIDENT {
            let sides = user_namespaces(mebibytes, self.samples)?;
            let name = format!("user namespace, {mebibytes} MiB resident");
            report.measures.push(Measure::new(&name, sides, None, dice));
        }
        Ok(())
    }

    fn mount_against_chown(&self, files: usize, pairs: usize, dice: &mut Dice) -> anyhow::Result<Sides> {
        say(&format!("an idmapped mount against a recursive chown of {files} files, {pairs} pairs"));
        let scratch = tempfile::tempdir_in(self.dir)?;
        let (volume, target) = (scratch.path().join("volume"), scratch.path().join("target"));
        fill(&volume, files)?;
        fs::create_dir(&target)?;
        let order: Vec<bool> = (0..pairs).map(|_| dice.heads()).collect();
        let mounted = || {
            let took = timed(|| mount(&volume, &target))?;
            kernel::unmount(&target, Unmount::Now)?;
            anyhow::Ok(took)
        };
        let chowned = || {
            let took = timed(|| shift(&volume, BLOCK, 0))?;
            shift(&volume, 0, BLOCK)?;
            anyhow::Ok(took)
        };
        // Mounts are made where the host does not see them, and are gone before the files are removed.
        kernel::in_private_mount_namespace(|_| {
            let (mut ours, mut peer) = (Side::default(), Side::default());
            for ours_first in order {
                if ours_first {
                    ours.add(&mounted()?);
                    peer.add(&chowned()?);
                } else {
                    peer.add(&chowned()?);
                    ours.add(&mounted()?);
                }
            }
            Ok(Sides::both(ours, peer))
        })?
    }
}

fn timed(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Answer> {
    let began = Instant::now();
    work()?;
    let ns = u64::try_from(began.elapsed().as_nanos())?;
    Ok(Answer { wall_ns: ns, ns: vec![ns], ..Answer::default() })
}

/// All that it takes: a user namespace, a clone of the mount, its map, and a place in the tree.
fn mount(volume: &Path, target: &Path) -> anyhow::Result<()> {
    let line = IdMapping::new(0, BLOCK.into(), 65_536)?;
    let userns = UsernsFd::charged(&IdMaps::new(&[line], &[line]), Charge::Pod)?;
    let clone = DetachedMount::idmapped(volume, &userns, Access::ReadWrite, Submounts::Included)?;
    Ok(clone.attach(target)?)
}

/// What has to be done without: every file is given from one block to the other.
fn shift(path: &Path, up: u32, down: u32) -> anyhow::Result<()> {
    let found = fs::symlink_metadata(path)?;
    let moved = |id: u32| id.checked_add(up).and_then(|id| id.checked_sub(down));
    lchown(path, moved(found.uid()), moved(found.gid()))?;
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            shift(&entry?.path(), up, down)?;
        }
    }
    Ok(())
}

fn fill(volume: &Path, files: usize) -> anyhow::Result<()> {
    for number in 0..files {
        let dir = volume.join(format!("dir-{}", number / FILES_PER_DIRECTORY));
        if number % FILES_PER_DIRECTORY == 0 {
            fs::create_dir_all(&dir)?;
        }
        fs::write(dir.join(format!("file-{number}")), "x")?;
    }
    Ok(())
}

/// Ours and a copy of the process, in a program of its own that has that much memory.
fn user_namespaces(mebibytes: usize, pairs: usize) -> anyhow::Result<Sides> {
    say(&format!("user namespaces of a process with {mebibytes} MiB, {pairs} pairs"));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["run", "--release", "-q", "-p", "kernel", "--example", "userns_cost", "--"])
        .args([mebibytes.to_string(), pairs.to_string()])
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("userns_cost failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let (mut ours, mut peer) = (Side::default(), Side::default());
    for line in String::from_utf8(output.stdout)?.lines() {
        let (mine, copied) = line.split_once(' ').context("userns_cost printed no pair")?;
        for (side, ns) in [(&mut ours, mine), (&mut peer, copied)] {
            let ns = ns.parse()?;
            side.add(&Answer { wall_ns: ns, ns: vec![ns], ..Answer::default() });
        }
    }
    Ok(Sides::both(ours, peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_files_as_were_asked_for() {
        let scratch = tempfile::tempdir().unwrap();
        fill(scratch.path(), 250).unwrap();
        let count = |dir: &str| fs::read_dir(scratch.path().join(dir)).unwrap().count();
        assert_eq!(["dir-0", "dir-1", "dir-2"].map(count), [100, 100, 50]);
    }
}
