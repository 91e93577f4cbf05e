//! Records of images, of their names and of their holders: small files, each replaced as a whole.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Store;
use crate::digest::Digest;
use crate::error::{Error, Result};

/// An image, without its names: they move, it stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageRecord {
    /// The digest of its configuration.
    pub(crate) id: Digest,
    /// The manifest it came with; docker archives have none.
    pub(crate) manifest: Option<Digest>,
    /// Chain IDs, the lowest first.
    pub(crate) layers: Vec<Digest>,
}

/// A name and what it stands for now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NameRecord {
    pub(crate) name: String,
    pub(crate) image: Digest,
    /// What the registry serves under this name: an index's digest, or the manifest's.
    pub(crate) digest: Option<Digest>,
}

/// A holder: a container that runs from an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UseRecord {
    pub(crate) holder: String,
    pub(crate) image: Digest,
}

/// All records of one kind, and what is wrong with the others.
#[derive(Debug)]
pub(crate) struct Records<T> {
    pub(crate) good: Vec<T>,
    pub(crate) damaged: Vec<Error>,
}

impl Store {
    pub(crate) fn image_path(&self, id: &Digest) -> PathBuf {
        self.folder("images").join(format!("{}.json", id.hex()))
    }

    pub(crate) fn name_path(&self, name: &str) -> PathBuf {
        self.folder("names").join(format!("{}.json", Digest::of(name.as_bytes()).hex()))
    }

    pub(crate) fn use_path(&self, holder: &str) -> PathBuf {
        self.folder("uses").join(format!("{holder}.json"))
    }

    pub(crate) fn images(&self) -> Result<Records<ImageRecord>> {
        read_all(&self.folder("images"))
    }

    pub(crate) fn names(&self) -> Result<Records<NameRecord>> {
        read_all(&self.folder("names"))
    }

    pub(crate) fn uses(&self) -> Result<Records<UseRecord>> {
        read_all(&self.folder("uses"))
    }

    /// Writes a record. The store's lock must be held.
    pub(crate) fn record(&self, path: &Path, record: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec_pretty(record)
            .map_err(|error| Error::Record { path: path.to_owned(), why: error.to_string() })?;
        Ok(durable::write(path, &text)?)
    }
}

fn read_all<T: DeserializeOwned>(folder: &Path) -> Result<Records<T>> {
    let mut records = Records { good: Vec::new(), damaged: Vec::new() };
    let entries = fs::read_dir(folder).map_err(Error::io("read", folder))?;
    for entry in entries {
        let path = entry.map_err(Error::io("read", folder))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        match read_one(&path) {
            Ok(Some(record)) => records.good.push(record),
            Ok(None) => {}
            Err(error) => records.damaged.push(error),
        }
    }
    Ok(records)
}

/// Nothing if it was removed meanwhile.
fn read_one<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| Error::Record { path: path.to_owned(), why: error.to_string() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}
