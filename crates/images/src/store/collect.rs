use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;

use durable::Lock;
use serde::Serialize;

use super::Store;
use super::records::ImageRecord;
use crate::digest::Digest;
use crate::error::{Error, Result};

/// What was removed because nothing refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Collected {
    /// Images without a name and without a holder.
    pub images: u64,
    /// Layers of no image.
    pub layers: u64,
    /// What these layers took on disk.
    pub bytes: u64,
    /// Downloads that were broken off.
    pub downloads: u64,
}

/// What is to be collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Layers and blobs of no image.
    Content,
    /// Also images without a name and without a holder, and partial downloads.
    Everything,
}

impl Store {
    /// Removes what nothing refers to. The store's lock must be held.
    ///
    /// If a single record cannot be read, nothing is removed: it may refer to anything.
    pub(crate) fn collect(&self, scope: Scope) -> Result<Collected> {
        self.sweep_locked()?;
        let mut done = Collected::default();
        let mut images = self.readable(self.images()?)?;
        if scope == Scope::Everything {
            done.images = self.drop_nameless(&mut images)?;
            done.downloads = self.drop_downloads()?;
        }
        let needs = self.needs()?;
        let of_images = images.iter().flat_map(|image| image.layers.iter().cloned());
        let layers: BTreeSet<Digest> = of_images.chain(needs.layers).collect();
        self.drop_layers(&layers, &mut done)?;
        let of_images = images.iter().flat_map(|image| [Some(image.id.clone()), image.manifest.clone()]);
        let blobs: BTreeSet<Digest> = of_images.flatten().chain(needs.blobs).collect();
        self.drop_blobs(&blobs)?;
        self.drop_locks()?;
        Ok(done)
    }

    fn readable<T>(&self, records: super::records::Records<T>) -> Result<Vec<T>> {
        match records.damaged.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(records.good),
        }
    }

    fn drop_nameless(&self, images: &mut Vec<ImageRecord>) -> Result<u64> {
        let named = self.readable(self.names()?)?.into_iter().map(|name| name.image);
        let used = self.readable(self.uses()?)?.into_iter().map(|user| user.image);
        let kept: BTreeSet<Digest> = named.chain(used).collect();
        let mut dropped = 0;
        for image in images.extract_if(.., |image| !kept.contains(&image.id)) {
            durable::remove(&self.image_path(&image.id))?;
            dropped += 1;
        }
        Ok(dropped)
    }

    fn drop_layers(&self, kept: &BTreeSet<Digest>, done: &mut Collected) -> Result<()> {
        let layers = self.dir("layers")?;
        for entry in layers.entries()? {
            let Some(chain) = entry.name.to_str().and_then(|hex| Digest::from_hex(hex).ok()) else {
                continue;
            };
            if kept.contains(&chain) {
                continue;
            }
            done.bytes += self.layer(&chain).map_or(0, |record| record.bytes);
            done.layers += 1;
            // Renamed away first: a layer that is there is whole, also when this is killed half-way.
            let grave = self.folder("work").join(format!("gone-{}", chain.hex()));
            let path = self.folder("layers").join(chain.hex());
            fs::rename(&path, &grave).map_err(Error::io("remove", &path))?;
            layers.sync()?;
            self.dir("work")?.remove_tree(OsStr::new(&format!("gone-{}", chain.hex())))?;
        }
        Ok(())
    }

    fn drop_blobs(&self, kept: &BTreeSet<Digest>) -> Result<()> {
        let blobs = self.folder("blobs/sha256");
        for entry in self.dir("blobs/sha256")?.entries()? {
            let digest = entry.name.to_str().and_then(|hex| Digest::from_hex(hex).ok());
            if !digest.is_some_and(|digest| kept.contains(&digest)) {
                durable::remove(&blobs.join(&entry.name))?;
            }
        }
        Ok(())
    }

    /// Downloads that no process has locked.
    fn drop_downloads(&self) -> Result<u64> {
        let mut dropped = 0;
        for entry in self.dir("partial")?.entries()? {
            let Some(digest) = entry.name.to_str().and_then(|hex| Digest::from_hex(hex).ok()) else {
                continue;
            };
            if Lock::at(self.blob_lock(&digest)).try_acquire()?.is_some() {
                durable::remove(&self.partial(&digest))?;
                dropped += 1;
            }
        }
        Ok(dropped)
    }

    fn drop_locks(&self) -> Result<()> {
        for entry in self.dir("locks")?.entries()? {
            let path = self.folder("locks").join(&entry.name);
            if let Some(_guard) = Lock::at(&path).try_acquire()? {
                durable::remove(&path)?;
            }
        }
        Ok(())
    }
}
