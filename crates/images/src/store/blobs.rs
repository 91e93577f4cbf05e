//! Manifests and configurations, kept as they came. Layers are kept unpacked only.

use std::fs;
use std::path::PathBuf;

use durable::Guard;

use super::Store;
use super::lock;
use super::work::Work;
use crate::digest::Digest;
use crate::error::{Error, Result};

impl Store {
    fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.folder("blobs/sha256").join(digest.hex())
    }

    /// Where a layer's archive lies while it is being fetched.
    pub(crate) fn partial(&self, digest: &Digest) -> PathBuf {
        self.folder("partial").join(digest.hex())
    }

    pub(crate) fn blob_lock(&self, digest: &Digest) -> PathBuf {
        self.folder("locks").join(format!("blob-{}", digest.hex()))
    }

    /// Takes the lock for fetching this blob.
    pub(crate) fn claim_blob(
        &self,
        digest: &Digest,
        waiting: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Guard> {
        lock::wait(&self.blob_lock(digest), waiting)
    }

    /// Keeps `bytes` under their own digest.
    pub(crate) fn keep_blob(&self, work: &Work, bytes: &[u8]) -> Result<Digest> {
        let digest = Digest::of(bytes);
        let path = self.blob_path(&digest);
        // One that is there but damaged is replaced.
        if self.blob(&digest).is_err() {
            let fresh = work.path().join(digest.hex());
            durable::write(&fresh, bytes)?;
            durable::rename(&fresh, &path)?;
        }
        Ok(digest)
    }

    /// What was kept, verified again: it decides what runs.
    pub(crate) fn blob(&self, digest: &Digest) -> Result<Vec<u8>> {
        let path = self.blob_path(digest);
        let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
        let found = Digest::of(&bytes);
        if found == *digest {
            return Ok(bytes);
        }
        Err(Error::WrongDigest { what: path.display().to_string(), expected: digest.clone(), found })
    }
}
