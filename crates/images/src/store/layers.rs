use std::fs;
use std::path::PathBuf;

use durable::Guard;
use kernel::Dir;
use serde::{Deserialize, Serialize};

use super::Store;
use super::lock;
use super::work::Work;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::layer::highest::Highest;
use crate::layer::unpack::Unpacked;

const FILES: &str = "fs";
const RECORD: &str = "layer.json";

/// What is known of an unpacked layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LayerRecord {
    pub(crate) diff_id: Digest,
    /// On disk, without holes.
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    pub(crate) highest: Highest,
}

/// The name of a layer with all layers below it: the layer alone would not do, for directories that it
/// does not name itself are made as those below have them.
pub(crate) fn chain(below: Option<&Digest>, diff_id: &Digest) -> Digest {
    match below {
        None => diff_id.clone(),
        Some(below) => Digest::of(format!("{below} {diff_id}").as_bytes()),
    }
}

/// The chain IDs of these layers, the lowest first.
pub(crate) fn chains(diff_ids: &[Digest]) -> Vec<Digest> {
    let mut below: Option<Digest> = None;
    let next = |diff_id: &Digest| {
        let chain = chain(below.as_ref(), diff_id);
        below = Some(chain.clone());
        chain
    };
    diff_ids.iter().map(next).collect()
}

impl Store {
    fn layer_path(&self, chain: &Digest) -> PathBuf {
        self.folder("layers").join(chain.hex())
    }

    /// Where the layer's files are.
    pub(crate) fn layer_files(&self, chain: &Digest) -> PathBuf {
        self.layer_path(chain).join(FILES)
    }

    /// A layer that is there is whole: it was renamed in after it was on disk.
    pub(crate) fn has_layer(&self, chain: &Digest) -> bool {
        self.layer_path(chain).is_dir()
    }

    pub(crate) fn layer(&self, chain: &Digest) -> Result<LayerRecord> {
        let path = self.layer_path(chain).join(RECORD);
        let text = fs::read(&path).map_err(Error::io("read", &path))?;
        serde_json::from_slice(&text).map_err(|error| Error::Record { path, why: error.to_string() })
    }

    /// Takes the lock for unpacking this layer.
    pub(crate) fn claim_layer(
        &self,
        chain: &Digest,
        waiting: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Guard> {
        lock::wait(&self.folder("locks").join(format!("layer-{}", chain.hex())), waiting)
    }

    /// The layer's directory as the kernel holds it.
    pub(crate) fn open_layer(&self, chain: &Digest) -> Result<Dir> {
        let path = self.layer_files(chain);
        Ok(Dir::open(&std::path::absolute(&path).map_err(Error::io("find", &path))?)?)
    }

    /// An empty directory in which a layer can be made.
    pub(crate) fn layer_room(&self, work: &Work, chain: &Digest) -> Result<Dir> {
        let path = work.room(chain.hex())?.join(FILES);
        fs::create_dir(&path).map_err(Error::io("make", &path))?;
        let path = std::path::absolute(&path).map_err(Error::io("find", &path))?;
        let dir = Dir::open(&path)?;
        rustix::fs::fchmod(&dir, rustix::fs::Mode::from_raw_mode(0o755))
            .map_err(Error::errno("open up", &path))?;
        Ok(dir)
    }

    /// Renames a layer in. Its files are on disk already.
    pub(crate) fn keep_layer(&self, work: &Work, chain: &Digest, unpacked: &Unpacked) -> Result<()> {
        let record = LayerRecord {
            diff_id: unpacked.diff_id.clone(),
            bytes: unpacked.bytes,
            entries: unpacked.entries,
            highest: unpacked.highest.clone(),
        };
        let room = work.path().join(chain.hex());
        let path = room.join(RECORD);
        let text = serde_json::to_vec_pretty(&record)
            .map_err(|error| Error::Record { path: path.clone(), why: error.to_string() })?;
        durable::write(&path, &text)?;
        Ok(durable::rename(&room, &self.layer_path(chain))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_are_those_of_the_image_specification() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        let all = chains(&[a.clone(), b.clone()]);
        assert_eq!(all[0], a);
        assert_eq!(all[1], Digest::of(format!("{a} {b}").as_bytes()));
        assert!(chains(&[]).is_empty());
    }
}
