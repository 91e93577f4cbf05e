//! A pod's directory below a kubelet's root directory, as other programs know it.
//!
//! ```text
//! <root>/pods/<uid>/volumes/kubernetes.io~<kind>/<name>    volumes; crate `volumes` makes them and keeps volumes.json beside
//! <root>/pods/<uid>/plugins                                further directories of volumes
//! <root>/pods/<uid>/containers/<name>/<attempt>            termination messages
//! <root>/pods/<uid>/etc-hosts
//! <root>/pods/<uid>/userns                                 the block of the pod, as a kubelet records it
//! <root>/pods/<uid>/wardlet-instance                       the state directory whose pod it is
//! ```
//!
//! Pods of a kubelet and of other agents may be beside it. Only directories with the mark of this instance are collected.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use durable::{AtomicFile, Lifetime};
use ids::IdBlock;
use ids::parse::kubelet::{KubeletRecord, parse_record};
use kernel::MountTable;

use crate::error::{Error, Result};
use crate::instance::InstanceId;
use crate::pod::removal::{gone, remove_file, remove_tree};

/// The file that says whose pod it is, and where its logs are.
pub(crate) const MARK: &str = "wardlet-instance";
/// The file with the pod's block.
const USERNS: &str = "userns";
/// Made for each pod; others mount below them.
const EMPTY: [&str; 2] = ["volumes", "plugins"];
/// What has volumes, which only the volumes' own code removes.
const VOLUMES: [&str; 2] = ["volumes", "volume-subpaths"];
/// The modes of a kubelet's directories.
const MODE: u32 = 0o750;
const RECORD_MODE: u32 = 0o644;
/// More bytes than a mark has.
const LIMIT: u64 = 8192;

/// Whose directory it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) instance: InstanceId,
    /// The directory of the pod's logs.
    pub(crate) logs: PathBuf,
}

/// The directory of one pod.
pub(crate) struct PodFiles<'a>(pub(crate) &'a Path);

impl PodFiles<'_> {
    /// Makes the directory with this mark.
    pub(crate) fn make(&self, mark: &Mark) -> Result<()> {
        if self.mark().as_ref() == Some(mark) {
            return Ok(());
        }
        let made = fs::DirBuilder::new().recursive(true).mode(MODE).create(self.0);
        made.map_err(Error::file("make", self.0))?;
        // Nothing that must outlive a power loss depends on it.
        let text = format!("{}\n{}\n", mark.instance.as_str(), mark.logs.display());
        AtomicFile::at(&self.0.join(MARK)).lifetime(Lifetime::Boot).replace(text.as_bytes())?;
        for name in EMPTY {
            let dir = self.0.join(name);
            match fs::DirBuilder::new().mode(MODE).create(&dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(Error::file("make", &dir))?,
            }
        }
        Ok(())
    }

    /// Whose directory it is; `None` if no mark says that.
    pub(crate) fn mark(&self) -> Option<Mark> {
        let text = durable::read(&self.0.join(MARK), LIMIT).ok().flatten()?;
        let text = String::from_utf8(text).ok()?;
        let mut lines = text.lines();
        let instance = InstanceId::parse(lines.next()?)?;
        Some(Mark { instance, logs: PathBuf::from(lines.next()?) })
    }

    /// Records the pod's block as a kubelet does, for programs that read a kubelet's records. The ledger has it for certain.
    pub(crate) fn record_block(&self, block: IdBlock) -> Result<()> {
        let (path, text) = (self.record(), KubeletRecord::of_block(block).to_json());
        if durable::read(&path, LIMIT).ok().flatten().is_some_and(|found| found == text.as_bytes()) {
            return Ok(());
        }
        Ok(AtomicFile::at(&path).mode(RECORD_MODE).lifetime(Lifetime::Boot).replace(text.as_bytes())?)
    }

    /// The block that a kubelet, or this agent in its place, has recorded.
    ///
    /// # Errors
    /// Why the record cannot be read.
    pub(crate) fn recorded_block(&self) -> std::result::Result<Option<KubeletRecord>, String> {
        let text = durable::read(&self.record(), LIMIT).map_err(|error| error.to_string())?;
        parse_record(&text.unwrap_or_default()).map_err(|error| error.to_string())
    }

    /// The file with the pod's block.
    pub(crate) fn record(&self) -> PathBuf {
        self.0.join(USERNS)
    }

    /// Removes the record of the pod's block.
    pub(crate) fn forget_block(&self) -> Result<()> {
        remove_file(&self.record())
    }

    /// Removes the record of the pod's block, and directories that have nothing of the pod's users.
    pub(crate) fn forget_users(&self) -> Result<()> {
        for name in EMPTY {
            let dir = self.0.join(name);
            match fs::remove_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                removed => gone(removed).map_err(Error::file("remove", &dir))?,
            }
        }
        self.forget_block()
    }

    /// Removes the directory with all that is in it but volumes, which must be torn down. No mount is entered, and no
    /// link followed. The mark goes last, so that what could not be removed is found again.
    pub(crate) fn remove(&self) -> Result<()> {
        for name in VOLUMES {
            let dir = self.0.join(name);
            refuse_mounts(&dir)?;
            remove_empty_dirs(&dir, DEPTH)?;
        }
        let entries = match fs::read_dir(self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(Error::file("read", self.0))?,
        };
        for entry in entries.flatten().filter(|entry| entry.file_name() != MARK) {
            remove_tree(&entry.path())?;
        }
        remove_file(&self.0.join(MARK))?;
        gone(fs::remove_dir(self.0)).map_err(Error::file("remove", self.0))
    }
}

/// How deep the directories of volumes are: the plugin, the volume, and what a driver has made for its mount.
const DEPTH: u32 = 4;

/// Refuses to remove what a driver has mounted something below: its directories are the volume's.
fn refuse_mounts(dir: &Path) -> Result<()> {
    let table = MountTable::read()
        .map_err(|cause| Error::file("read the mounts of", dir)(io::Error::other(cause)))?;
    match table.under(dir).next() {
        None => Ok(()),
        Some(_) => Err(Error::file("remove", dir)(io::ErrorKind::ResourceBusy.into())),
    }
}

/// Removes a directory if there are only directories below it, as the removal of volumes leaves them.
fn remove_empty_dirs(dir: &Path, depth: u32) -> Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::file("read", dir))?,
    };
    let dirs = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    for entry in dirs.filter(|_| depth > 0) {
        remove_empty_dirs(&entry.path(), depth - 1)?;
    }
    gone(fs::remove_dir(dir)).map_err(Error::file("remove", dir))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mark() -> Mark {
        Mark { instance: InstanceId::for_test("one"), logs: PathBuf::from("/logs/shop_web_u-1") }
    }

    #[test]
    fn a_pods_directory_is_a_kubelets_and_says_whose_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pods/u-1");
        let files = PodFiles(&path);
        assert_eq!(files.mark(), None);
        files.make(&mark()).unwrap();
        files.make(&mark()).unwrap();
        assert_eq!(files.mark(), Some(mark()));
        for made in ["", "volumes", "plugins"] {
            assert_eq!(path.join(made).metadata().unwrap().permissions().mode() & 0o777, 0o750, "{made}");
        }
        files.record_block(IdBlock::new(131_072, 65_536).unwrap()).unwrap();
        let read = ledger::kubelet::read_records(&dir.path().join("pods")).unwrap();
        assert_eq!(read[0].claim().unwrap().1, IdBlock::new(131_072, 65_536).unwrap());
        assert_eq!(read[0].pod, "u-1");
        files.remove().unwrap();
        assert!(!path.exists());
        files.remove().unwrap();
    }

    /// The data of a volume that another driver has not unmounted would be lost.
    #[test]
    fn what_is_in_a_volume_keeps_the_directory_and_the_rest_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("u-1");
        let files = PodFiles(&path);
        files.make(&mark()).unwrap();
        let volume = path.join("volumes/kubernetes.io~csi/data/mount");
        fs::create_dir_all(&volume).unwrap();
        fs::create_dir_all(path.join("plugins/kubernetes.io~empty-dir/wrapped_a")).unwrap();
        fs::write(path.join("plugins/kubernetes.io~empty-dir/wrapped_a/ready"), "").unwrap();
        fs::write(volume.join("file"), "x").unwrap();
        files.remove().unwrap_err();
        assert!(volume.join("file").exists() && files.mark().is_some());
        fs::remove_file(volume.join("file")).unwrap();
        files.remove().unwrap();
        assert!(!path.exists());
    }
}
