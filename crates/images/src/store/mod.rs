//! The store on disk. Its layout is drawn in docs/design/images.md. The modules:
//!
//! - [`Store`]: where everything is, and its version.
//! - [`lock`]: locks for single blobs and layers.
//! - [`work`]: directories for work in progress, and what must not be collected meanwhile.
//! - [`blobs`], [`layers`], [`records`]: the content.
//! - [`collect`]: garbage collection.

pub(crate) mod blobs;
pub(crate) mod collect;
pub(crate) mod layers;
pub(crate) mod lock;
pub(crate) mod records;
pub(crate) mod work;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use durable::{Guard, Lock};
use kernel::Dir;

use crate::error::{Error, Result};

const VERSION: u32 = 1;
const FOLDERS: &[&str] = &["blobs/sha256", "images", "layers", "locks", "names", "partial", "uses", "work"];

/// The store in one directory, for root's eyes only: programs in layers have their set-user-ID bits and
/// their real owners.
#[derive(Debug)]
pub(crate) struct Store {
    root: PathBuf,
    patience: Duration,
}

impl Store {
    /// Opens it, makes it if it is not there, and clears away what crashes have left.
    pub(crate) fn open(root: &Path, patience: Duration) -> Result<Self> {
        let store = Self { root: root.to_owned(), patience };
        make_dir(root)?;
        let mode = fs::metadata(root).map_err(Error::io("read", root))?.permissions().mode();
        if mode & 0o077 != 0 {
            fs::set_permissions(root, fs::Permissions::from_mode(0o700)).map_err(Error::io("close", root))?;
        }
        store.check_version()?;
        FOLDERS.iter().try_for_each(|folder| make_dir(&root.join(folder)))?;
        store.sweep()?;
        Ok(store)
    }

    fn check_version(&self) -> Result<()> {
        let path = self.root.join("version");
        match fs::read_to_string(&path) {
            Ok(text) if text.trim() == VERSION.to_string() => Ok(()),
            Ok(text) => {
                Err(Error::TooNew { path: self.root.clone(), found: text.trim().to_owned(), known: VERSION })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let _guard = self.lock()?;
                Ok(durable::write(&path, format!("{VERSION}\n").as_bytes())?)
            }
            Err(error) => Err(Error::io("read", &path)(error)),
        }
    }

    /// The one lock around every change of what there is.
    pub(crate) fn lock(&self) -> Result<Guard> {
        Ok(Lock::at(self.root.join("lock")).acquire(self.patience)?)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn dir(&self, name: &str) -> Result<Dir> {
        let path = self.folder(name);
        let path = std::path::absolute(&path).map_err(Error::io("find", &path))?;
        Ok(Dir::open(&path)?)
    }
}

/// Makes a directory for root's eyes only, and makes its name durable.
pub(crate) fn make_dir(path: &Path) -> Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    Ok(durable::make_dirs(path, 0o700)?)
}
