use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::config::Configuration;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::layer::highest::Highest;
use crate::layer::overlay::is_opaque;
use crate::limits::Limits;
use crate::reference::Reference;
use crate::store::Store;
use crate::store::collect::{Collected, Scope};
use crate::store::layers::LayerRecord;
use crate::store::records::{ImageRecord, NameRecord, UseRecord};

const PATIENCE: Duration = Duration::from_secs(60);

/// All images of a node.
#[derive(Debug)]
pub struct Images {
    pub(crate) store: Store,
    pub(crate) limits: Limits,
    /// Cached sizes of layers, in bytes and entries. A layer never changes.
    sizes: Mutex<BTreeMap<Digest, (u64, u64)>>,
}

/// The images, and the records that cannot be read.
#[derive(Debug)]
pub struct Listing {
    /// Sorted by name.
    pub images: Vec<Image>,
    /// One error for each damaged record.
    pub damaged: Vec<Error>,
}

/// The disk usage of all images, shared layers once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Usage {
    /// Bytes of layers, without holes.
    pub bytes: u64,
    /// Files, directories and links of layers.
    pub inodes: u64,
    /// Layers.
    pub layers: u64,
}

/// The result of a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// Removed names.
    pub names: Vec<String>,
    /// The image, if it was removed with its last name.
    pub image: Option<Digest>,
    /// What was collected with it.
    pub collected: Collected,
}

impl Images {
    /// Opens the store in the directory `root`, which is created if it is missing.
    ///
    /// # Errors
    /// If it cannot be used, or a newer version of wardlet wrote it.
    pub fn open(root: &Path, limits: Limits) -> Result<Self> {
        Ok(Self { store: Store::open(root, PATIENCE)?, limits, sizes: Mutex::default() })
    }

    /// All images.
    ///
    /// # Errors
    /// If the store cannot be read at all.
    pub fn list(&self) -> Result<Listing> {
        let (records, names, uses) = (self.store.images()?, self.store.names()?, self.store.uses()?);
        let mut damaged: Vec<Error> = records.damaged;
        damaged.extend(names.damaged);
        damaged.extend(uses.damaged);
        let mut images = Vec::new();
        for record in records.good {
            match self.image(&record, &names.good, &uses.good) {
                Ok(image) => images.push(image),
                Err(error) => damaged.push(error),
            }
        }
        images.sort_by(|a, b| (&a.names, &a.id).cmp(&(&b.names, &b.id)));
        Ok(Listing { images, damaged })
    }

    fn image(&self, record: &ImageRecord, names: &[NameRecord], uses: &[UseRecord]) -> Result<Image> {
        let what = format!("the configuration of {}", record.id);
        let config = Configuration::parse(&what, &self.store.blob(&record.id)?)?;
        let layers: Vec<LayerRecord> =
            record.layers.iter().map(|chain| self.store.layer(chain)).collect::<Result<_>>()?;
        let own = names.iter().filter(|name| name.image == record.id);
        let digests = own.clone().filter_map(|name| {
            let reference: Reference = name.name.parse().ok()?;
            Some(format!("{}@{}", reference.name(), name.digest.as_ref()?))
        });
        let digests: BTreeSet<String> = digests.collect();
        let names: BTreeSet<String> =
            own.map(|name| name.name.clone()).filter(|name| !name.contains('@')).collect();
        let users = uses.iter().filter(|user| user.image == record.id).map(|user| user.holder.clone());
        Ok(Image {
            id: record.id.clone(),
            names: names.into_iter().collect(),
            digests: digests.into_iter().collect(),
            platform: config.platform.to_string(),
            bytes: layers.iter().map(|layer| layer.bytes).sum(),
            highest: layers.into_iter().fold(Highest::default(), |all, layer| all.and(layer.highest)),
            layers: record.layers.clone(),
            created: config.created,
            config: config.config,
            users: users.collect(),
        })
    }

    /// The image that is called `name`: a name, `repository@digest`, an ID or at least four digits of one.
    ///
    /// # Errors
    /// If there is none, or there are several.
    pub fn find(&self, name: &str) -> Result<Image> {
        let images = self.list()?.images;
        let full = name.parse::<Reference>().map(|reference| reference.to_string()).unwrap_or_default();
        let by_name = |image: &&Image| {
            image.names.contains(&full) || image.digests.contains(&full) || image.id.as_str() == name
        };
        if let Some(image) = images.iter().find(by_name) {
            return Ok(image.clone());
        }
        let digits = name.strip_prefix("sha256:").unwrap_or(name);
        let short = digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let matching: Vec<Image> =
            images.into_iter().filter(|image| short && image.id.hex().starts_with(digits)).collect();
        match <[Image; 1]>::try_from(matching) {
            Ok([image]) => Ok(image),
            Err(none) if none.is_empty() => Err(Error::Unknown { name: name.to_owned() }),
            Err(several) => Err(Error::Ambiguous {
                name: name.to_owned(),
                candidates: several.iter().map(|image| image.id.to_string()).collect(),
            }),
        }
    }

    /// The directories of an image's layers, the topmost first: what an overlay takes as `lowerdir`. Layers
    /// below one whose root is opaque are left out: an overlay does not look at its layers' roots.
    ///
    /// # Errors
    /// If a layer is gone.
    pub fn layers(&self, image: &Image) -> Result<Vec<PathBuf>> {
        let mut shown = Vec::new();
        for chain in image.layers.iter().rev() {
            let path = self.store.layer_files(chain);
            let opaque = is_opaque(&self.store.open_layer(chain)?).map_err(Error::errno("read", &path))?;
            shown.push(path);
            if opaque {
                break;
            }
        }
        Ok(shown)
    }

    /// Records that `holder` runs from the image, which is then neither removed nor collected. A holder has one image:
    /// a second call replaces the first.
    ///
    /// # Errors
    /// If the image is gone.
    pub fn hold(&self, image: &Image, holder: &str) -> Result<()> {
        let path = self.store.use_path(checked(holder)?);
        let _guard = self.store.lock()?;
        if !self.store.image_path(&image.id).exists() {
            return Err(Error::Unknown { name: image.called().to_owned() });
        }
        self.store.record(&path, &UseRecord { holder: holder.to_owned(), image: image.id.clone() })
    }

    /// Ends [`Images::hold`]; idempotent.
    ///
    /// # Errors
    /// If it cannot be recorded.
    pub fn release(&self, holder: &str) -> Result<()> {
        let path = self.store.use_path(checked(holder)?);
        let _guard = self.store.lock()?;
        durable::remove(&path)?;
        Ok(())
    }

    /// Removes the name `name`, or all names of the image if it is an ID. With its last name the image is removed, and
    /// layers that no other image has.
    ///
    /// # Errors
    /// If a container runs from the image and it would be gone.
    pub fn remove(&self, name: &str) -> Result<Removed> {
        let _guard = self.store.lock()?;
        let image = self.find(name)?;
        let full = name.parse::<Reference>().map(|reference| reference.to_string()).unwrap_or_default();
        let own = self.store.names()?.good.into_iter().filter(|record| record.image == image.id);
        let own: Vec<String> = own.map(|record| record.name).collect();
        let (gone, left): (Vec<String>, Vec<String>) = if own.contains(&full) {
            own.into_iter().partition(|known| *known == full)
        } else {
            (own, vec![])
        };
        if let (true, Some(by)) = (left.is_empty(), image.users.first()) {
            return Err(Error::InUse { image: image.called().to_owned(), by: by.clone() });
        }
        // Names first: an image without a name is collected, a name without an image would dangle.
        gone.iter().try_for_each(|name| durable::remove(&self.store.name_path(name)).map(drop))?;
        if !left.is_empty() {
            return Ok(Removed { names: gone, image: None, collected: Collected::default() });
        }
        durable::remove(&self.store.image_path(&image.id))?;
        let collected = self.store.collect(Scope::Content)?;
        Ok(Removed { names: gone, image: Some(image.id), collected })
    }

    /// Removes what is unused: images without a name and without a holder, layers of no image, and partial downloads.
    ///
    /// # Errors
    /// If a record cannot be read: it may refer to anything.
    pub fn collect(&self) -> Result<Collected> {
        let _guard = self.store.lock()?;
        self.store.collect(Scope::Everything)
    }

    /// Collects garbage after a failure. An error of that is ignored: the caller gets the first one.
    pub(crate) fn leave_no_trace(&self) {
        let _ = self.store.lock().and_then(|_guard| self.store.collect(Scope::Content));
    }

    /// The disk usage of all images.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn usage(&self) -> Result<Usage> {
        let chains: BTreeSet<Digest> =
            self.store.images()?.good.into_iter().flat_map(|record| record.layers).collect();
        let mut layers = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        layers.retain(|chain, _| chains.contains(chain));
        for chain in chains {
            if let Entry::Vacant(place) = layers.entry(chain.clone())
                && let Ok(layer) = self.store.layer(&chain)
            {
                place.insert((layer.bytes, layer.entries));
            }
        }
        let count = u64::try_from(layers.len()).unwrap_or(u64::MAX);
        let add = |sum: Usage, (bytes, inodes): &(u64, u64)| Usage {
            bytes: sum.bytes + bytes,
            inodes: sum.inodes + inodes,
            layers: count,
        };
        Ok(layers.values().fold(Usage::default(), add))
    }

    /// The directory of the store.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.store.root()
    }
}

/// A holder's name becomes a file name.
fn checked(holder: &str) -> Result<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    if (1..=200).contains(&holder.len()) && !holder.starts_with('.') && holder.bytes().all(plain) {
        return Ok(holder);
    }
    Err(Error::Holder { text: holder.to_owned() })
}
