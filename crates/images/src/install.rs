//! From a verified configuration and a source of layers to an image in the store: shared by import and pull.

use std::io::Read;

use crate::config::Configuration;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::layer::unpack::{Job, Target, Unpacked, unpack};
use crate::limits::Limits;
use crate::manifest::Descriptor;
use crate::platform::Platform;
use crate::progress::{Progress, Step, told};
use crate::store::Store;
use crate::store::layers::chains;
use crate::store::records::{ImageRecord, NameRecord};
use crate::store::work::{Needs, Work};

/// A source of layers. Layers that exist already are not read from it.
pub(crate) trait Layers {
    /// The name of the n-th layer in messages.
    fn name(&self, n: usize) -> String;
    /// The descriptor of the n-th layer, if there is one.
    fn announced(&self, n: usize) -> Option<&Descriptor>;
    /// The n-th layer's archive.
    fn open(&self, n: usize) -> Result<Box<dyn Read + '_>>;
    /// The n-th layer is in the store: its archive is no longer needed.
    fn done(&self, n: usize) -> Result<()>;
}

/// An image to install.
pub(crate) struct Candidate<'a> {
    /// Its name in messages.
    pub(crate) called: String,
    pub(crate) config: Vec<u8>,
    /// Its bytes, if it came with one.
    pub(crate) manifest: Option<Vec<u8>>,
    pub(crate) layers: &'a dyn Layers,
    /// How many layers its source has.
    pub(crate) count: usize,
    /// Its names, each with the digest that the registry serves under it.
    pub(crate) names: Vec<(String, Option<Digest>)>,
}

/// A layer to install.
struct Wanted<'a> {
    chain: &'a Digest,
    diff_id: &'a Digest,
    /// Chain IDs, the lowest first.
    below: &'a [Digest],
}

/// The context of an installation.
pub(crate) struct Site<'a> {
    pub(crate) store: &'a Store,
    pub(crate) work: &'a Work,
    pub(crate) limits: &'a Limits,
    pub(crate) progress: &'a dyn Progress,
}

impl Site<'_> {
    /// Unpacks the missing layers, then records the image and its names.
    pub(crate) fn install(&self, image: &Candidate<'_>) -> Result<Digest> {
        let config = understood(image)?;
        let chains = chains(&config.diff_ids);
        let id = Digest::of(&image.config);
        let manifest = image.manifest.as_deref().map(Digest::of);
        let blobs = [Some(id.clone()), manifest.clone()].into_iter().flatten().collect();
        self.work.need(self.store, &Needs { layers: chains.clone(), blobs })?;
        self.store.keep_blob(self.work, &image.config)?;
        if let Some(bytes) = &image.manifest {
            self.store.keep_blob(self.work, bytes)?;
        }
        for (n, (chain, diff_id)) in chains.iter().zip(&config.diff_ids).enumerate() {
            self.layer(image, n, &Wanted { chain, diff_id, below: chains.get(..n).unwrap_or_default() })?;
            image.layers.done(n)?;
        }
        self.enter(image, &ImageRecord { id: id.clone(), manifest, layers: chains })?;
        Ok(id)
    }

    fn layer(&self, image: &Candidate<'_>, n: usize, wanted: &Wanted<'_>) -> Result<()> {
        let Wanted { chain, diff_id, below } = *wanted;
        let name = image.layers.name(n);
        let mut waiting = || told(self.progress, Step::Waiting { what: &name });
        let mut claim = None;
        if !self.store.has_layer(chain) {
            claim = Some(self.store.claim_layer(chain, &mut waiting)?);
        }
        if self.store.has_layer(chain) {
            return told(self.progress, Step::Present { what: &name });
        }
        let lowers = below.iter().rev().map(|chain| self.store.open_layer(chain)).collect::<Result<_>>()?;
        let target = Target { root: self.store.layer_room(self.work, chain)?, lowers };
        let number = (n + 1, image.count);
        let job = Job { name: &name, number, limits: self.limits, progress: self.progress };
        let unpacked = unpack(image.layers.open(n)?, target, &job);
        let kept = unpacked.and_then(|unpacked| {
            compare(&name, image.layers.announced(n), diff_id, &unpacked)?;
            self.store.keep_layer(self.work, chain, &unpacked)
        });
        if kept.is_err() {
            self.work.discard(chain.hex())?;
        }
        drop(claim);
        kept
    }

    fn enter(&self, image: &Candidate<'_>, record: &ImageRecord) -> Result<()> {
        let _guard = self.store.lock()?;
        self.store.record(&self.store.image_path(&record.id), record)?;
        for (name, digest) in &image.names {
            let entry = NameRecord { name: name.clone(), image: record.id.clone(), digest: digest.clone() };
            self.store.record(&self.store.name_path(name), &entry)?;
        }
        Ok(())
    }
}

fn understood(image: &Candidate<'_>) -> Result<Configuration> {
    let what = format!("the configuration of {}", image.called);
    let config = Configuration::parse(&what, &image.config)?;
    if config.diff_ids.len() != image.count {
        let why = format!("it is of {} layers, and there are {}", config.diff_ids.len(), image.count);
        return Err(Error::Document { what, why });
    }
    let here = Platform::here();
    if here.rank(&config.platform).is_none() {
        return Err(Error::OtherPlatform {
            image: image.called.clone(),
            wanted: here.to_string(),
            offered: vec![config.platform.to_string()],
        });
    }
    Ok(config)
}

fn compare(name: &str, announced: Option<&Descriptor>, diff_id: &Digest, found: &Unpacked) -> Result<()> {
    let what = name.to_owned();
    if let Some(announced) = announced {
        if announced.size != found.size {
            return Err(Error::WrongSize { what, expected: announced.size, found: found.size });
        }
        if announced.digest != found.digest {
            return Err(Error::WrongDigest {
                what,
                expected: announced.digest.clone(),
                found: found.digest.clone(),
            });
        }
    }
    if *diff_id != found.diff_id {
        let what = format!("{name}, uncompressed,");
        return Err(Error::WrongDigest { what, expected: diff_id.clone(), found: found.diff_id.clone() });
    }
    Ok(())
}
