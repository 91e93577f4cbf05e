use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tracing::{info, warn};

use crate::error::Error;

type Load<T> = dyn Fn() -> Result<T, Error> + Send + Sync;

/// What is read from files, and read again when one of them changes. If that fails, the last value stays.
pub struct Watched<T> {
    paths: Vec<PathBuf>,
    load: Box<Load<T>>,
    state: Mutex<State<T>>,
}

struct State<T> {
    stamps: Vec<Option<Stamp>>,
    value: Option<T>,
}

/// Changes with the content of a file, also if another file takes its place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl<T: Clone> Watched<T> {
    /// Reads the files.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn open(
        paths: Vec<PathBuf>,
        load: impl Fn() -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let stamps = stamps(&paths);
        let value = Some(load()?);
        Ok(Self { paths, load: Box::new(load), state: Mutex::new(State { stamps, value }) })
    }

    /// Files that may not exist yet.
    pub fn expected(
        paths: Vec<PathBuf>,
        load: impl Fn() -> Result<T, Error> + Send + Sync + 'static,
    ) -> Self {
        let stamps = stamps(&paths);
        let value = load().ok();
        Self { paths, load: Box::new(load), state: Mutex::new(State { stamps, value }) }
    }

    /// The value of the files as they are now.
    pub fn current(&self) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Stamps are taken first: a change during the read is seen the next time.
        let stamps = stamps(&self.paths);
        if stamps != state.stamps {
            state.stamps = stamps;
            match (self.load)() {
                Ok(value) => {
                    info!("{} has changed and is used", shown(&self.paths));
                    state.value = Some(value);
                }
                Err(error) => {
                    warn!("{} has changed: {error}; the last usable content stays", shown(&self.paths))
                }
            }
        }
        state.value.clone()
    }
}

fn shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn stamps(paths: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |path: &Path| {
        let found = fs::metadata(path).ok()?;
        Some(Stamp {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    };
    paths.iter().map(|path| stamp(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_read_again_and_an_unusable_one_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let read = {
            let path = path.clone();
            move || {
                let text = fs::read_to_string(&path).map_err(|error| Error::file(&path, &error))?;
                text.parse::<u32>().map_err(|error| Error::file(&path, &error))
            }
        };
        assert!(Watched::open(vec![path.clone()], read.clone()).is_err());
        let later = Watched::expected(vec![path.clone()], read.clone());
        assert_eq!(later.current(), None);
        fs::write(&path, "1").unwrap();
        let watched = Watched::open(vec![path.clone()], read).unwrap();
        assert_eq!((watched.current(), later.current()), (Some(1), Some(1)));
        let other = dir.path().join("b");
        fs::write(&other, "2").unwrap();
        fs::rename(&other, &path).unwrap();
        assert_eq!(watched.current(), Some(2));
        fs::write(&path, "not a number").unwrap();
        assert_eq!(watched.current(), Some(2));
        fs::remove_file(&path).unwrap();
        assert_eq!(watched.current(), Some(2));
    }
}
