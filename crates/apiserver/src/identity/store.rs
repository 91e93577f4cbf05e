//! Certificates in `--cert-dir`, as a kubelet keeps them: each in a file with the time in its name, and a symbolic link to
//! the newest. Files are never removed.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use durable::AtomicFile;
use k8s_openapi::jiff::Timestamp;
use tracing::warn;

use super::IdentityError;
use crate::client::pair::Pair;

/// The certificates of one kind in a directory.
#[derive(Debug, Clone)]
pub(super) struct Store {
    dir: PathBuf,
    prefix: &'static str,
}

impl Store {
    /// The client certificates.
    pub(super) fn client(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), prefix: "kubelet-client" }
    }

    /// The serving certificates.
    pub(super) fn serving(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), prefix: "kubelet-server" }
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.dir.join(format!("{}{suffix}", self.prefix))
    }

    /// The link to the newest certificate.
    pub(super) fn current_path(&self) -> PathBuf {
        self.file("-current.pem")
    }

    /// The key of a request that is not answered yet.
    pub(super) fn parked_key(&self) -> PathBuf {
        self.file(".key.tmp")
    }

    /// Makes the directory, and finishes what a killed process has begun: the new link had been made and the old one was
    /// gone.
    pub(super) fn open(&self) -> Result<(), IdentityError> {
        durable::make_dirs(&self.dir, 0o755)?;
        let (current, updated) = (self.current_path(), self.file("-updated.pem"));
        if fs::symlink_metadata(&current).is_err() && updated.try_exists().unwrap_or(false) {
            durable::rename(&updated, &current)?;
        }
        Ok(())
    }

    /// The newest certificate, or that of `PREFIX.crt` and `PREFIX.key`; `None` if there is none, or none that can be
    /// used, which is logged.
    pub(super) fn current(&self) -> Option<Pair> {
        let read = || {
            if let Some(pair) = Pair::read(&self.current_path())? {
                return Ok(Some(pair));
            }
            let both = [self.file(".crt"), self.file(".key")].map(|path| fs::read_to_string(path).ok());
            let [Some(certificate), Some(key)] = both else { return Ok(None) };
            Pair::parse(&certificate, &key).map(Some)
        };
        read().unwrap_or_else(|cause: String| {
            warn!(
                hint = "remove it, or put a valid one in its place",
                "cannot use a certificate of this node: {cause}"
            );
            None
        })
    }

    /// Keeps a certificate and makes it the current one. It is complete on the disk before the link leads to it.
    pub(super) fn update(&self, pair: &Pair, now: Timestamp) -> Result<PathBuf, IdentityError> {
        let path = self.file(&format!("-{}.pem", now.strftime("%Y-%m-%d-%H-%M-%S")));
        // One name for all of them: the next write removes what a killed process has left.
        let file = AtomicFile::at(&path).temporary(format!("{}.pem.new", self.prefix));
        file.mode(0o600).replace(pair.text().as_bytes())?;
        let updated = self.file("-updated.pem");
        durable::remove(&updated)?;
        symlink(&path, &updated).map_err(|cause| durable::Error::Io {
            action: "link",
            path: updated.clone(),
            cause,
        })?;
        durable::rename(&updated, &self.current_path())?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::client::pair::tests::pair;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_newest_certificate_is_current_and_older_ones_stay() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::client(&dir.path().join("pki"));
        store.open().unwrap();
        assert_eq!(store.current(), None);
        let (first, second) = (pair(2020, 2030), pair(2021, 2031));
        store.update(&first, time("2026-11-18T01:02:03Z")).unwrap();
        assert_eq!(store.current(), Some(first));
        let path = store.update(&second, time("2026-11-18T01:02:04Z")).unwrap();
        assert_eq!(store.current(), Some(second));
        assert_eq!(fs::read_link(store.current_path()).unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut names: Vec<_> =
            fs::read_dir(dir.path().join("pki")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(
            names,
            [
                "kubelet-client-2026-11-18-01-02-03.pem",
                "kubelet-client-2026-11-18-01-02-04.pem",
                "kubelet-client-current.pem"
            ]
        );
    }

    /// Every state that a process can be killed in leads to a certificate, the old one or the new one.
    #[test]
    fn what_a_killed_process_leaves_is_used_or_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::client(dir.path());
        let (old, new, newest) = (pair(2020, 2030), pair(2021, 2031), pair(2022, 2032));
        store.update(&old, time("2026-01-01T00:00:00Z")).unwrap();
        // The file is written, the link not changed.
        let file = dir.path().join("kubelet-client-2026-01-02-00-00-00.pem");
        fs::write(&file, new.text()).unwrap();
        store.open().unwrap();
        assert_eq!(store.current(), Some(old));
        // The new link is made and the old one in place.
        let updated = dir.path().join("kubelet-client-updated.pem");
        symlink(&file, &updated).unwrap();
        store.open().unwrap();
        store.update(&newest, time("2026-01-03T00:00:00Z")).unwrap();
        assert_eq!(store.current(), Some(newest));
        // A kubelet removes the old link first: only the new one is there.
        fs::remove_file(store.current_path()).unwrap();
        symlink(&file, &updated).unwrap();
        store.open().unwrap();
        assert_eq!(store.current(), Some(new));
        assert!(fs::symlink_metadata(&updated).is_err());
        // A link to nothing is no certificate.
        fs::remove_file(&file).unwrap();
        assert_eq!(store.current(), None);
    }
}
