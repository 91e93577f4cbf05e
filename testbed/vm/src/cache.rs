//! The cache outside the checkout. One directory per version of a kernel's package:
//!
//! ```text
//! CACHE/vm/linux-6.12.115-2~deb12u1.2/    (the last number: LAYOUT)
//!     vmlinuz               the kernel as Debian ships it
//!     modules.ext4          every module of the kernel, for /lib/modules
//!     var.ext4              an empty filesystem, for /var; what a guest writes there is not kept
//!     early/NN-NAME.ko      those that the guest's first stage loads, in this order
//!     base-1a2b3c4d.cpio    initramfs without agent and payload, one per policy and first process
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::error::{Error, Result};
use crate::series::Series;

/// To be raised when the files of a kernel's directory become others.
const LAYOUT: u32 = 2;

/// The cache and what is in it.
#[derive(Debug, Clone)]
pub(crate) struct Cache(PathBuf);

/// One kernel, ready to boot.
#[derive(Debug, Clone)]
pub(crate) struct Installed(PathBuf);

impl Cache {
    /// Where this user's environment says.
    pub(crate) fn of_user() -> Result<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        variable("WARDLET_CACHE")
            .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("wardlet")))
            .or_else(|| variable("HOME").map(|home| home.join(".cache/wardlet")))
            .map(|cache| Self(cache.join("vm")))
            .ok_or(Error::NoCache)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Where this version of the kernel belongs.
    pub(crate) fn place(&self, version: &str) -> PathBuf {
        self.0.join(format!("linux-{version}.{LAYOUT}"))
    }

    /// The kernel of the series that was installed last.
    pub(crate) fn newest(&self, series: Series) -> Option<Installed> {
        let entries = fs::read_dir(&self.0).ok()?;
        let named = entries.flatten().filter(|entry| is_of(&entry.file_name().to_string_lossy(), series));
        let newest = named.max_by_key(|entry| entry.metadata().and_then(|m| m.modified()).ok());
        newest.map(|entry| Installed(entry.path()))
    }

    /// Held by a process that changes the cache, until dropped.
    pub(crate) fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.0).map_err(Error::file("make", &self.0))?;
        let path = self.0.join(".lock");
        let file = File::create(&path).map_err(Error::file("make", &path))?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)
            .map_err(|errno| Error::file("lock", &path)(errno.into()))?;
        Ok(file)
    }
}

fn is_of(name: &str, series: Series) -> bool {
    name.starts_with(&format!("linux-{series}.")) && name.ends_with(&format!(".{LAYOUT}"))
}

impl Installed {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// What is there, if anything is.
    pub(crate) fn at(path: PathBuf) -> Option<Self> {
        path.is_dir().then(|| Self::new(path))
    }

    pub(crate) fn kernel(&self) -> PathBuf {
        self.0.join("vmlinuz")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn var(&self) -> PathBuf {
        self.0.join("var.ext4")
    }

    pub(crate) fn early_modules(&self) -> PathBuf {
        self.0.join("early")
    }

    pub(crate) fn modules(&self) -> PathBuf {
        self.0.join("modules.ext4")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_not_taken_for_a_longer_one() {
        let name = format!("linux-6.12.115-2~deb12u1.{LAYOUT}");
        assert!(is_of(&name, Series::V6_12));
        assert!(!is_of(&name, Series::V6_1));
    }

    #[test]
    fn a_kernel_of_another_layout_is_not_used() {
        assert!(is_of(&format!("linux-6.1.190-1.{LAYOUT}"), Series::V6_1));
        assert!(!is_of("linux-6.1.190-1.0", Series::V6_1));
    }
}
