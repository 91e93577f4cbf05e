//! Images from files: OCI layouts, as directories or archives, and docker archives.
//!
//! - [`archive`]: a tar archive as a set of named contents that can be read in any order.
//! - [`content`]: such a set, from an archive or a directory.
//! - [`oci`], [`docker`]: what the two kinds hold.

mod archive;
mod content;
mod docker;
mod oci;

use std::collections::BTreeSet;
use std::path::Path;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::images::Images;
use crate::install::Site;
use crate::progress::Progress;
use crate::reference::Reference;
use content::Content;

impl Images {
    /// Imports every image of the file or directory that is for this machine. `name` replaces the name
    /// that it has there, and can be given to one only.
    ///
    /// # Errors
    /// If it is no image, or anything about it is wrong: then nothing of it is kept. Where a file holds
    /// several, those before it are.
    pub fn import(
        &self,
        path: &Path,
        name: Option<&Reference>,
        progress: &dyn Progress,
    ) -> Result<Vec<Image>> {
        let ids = self.import_all(path, name, progress);
        if ids.is_err() {
            self.leave_no_trace();
        }
        // One image may be there under several names.
        let ids: BTreeSet<Digest> = ids?.into_iter().collect();
        ids.iter().map(|id| self.find(id.as_str())).collect()
    }

    fn import_all(
        &self,
        path: &Path,
        name: Option<&Reference>,
        progress: &dyn Progress,
    ) -> Result<Vec<Digest>> {
        let work = self.store.begin()?;
        let site = Site { store: &self.store, work: &work, limits: &self.limits, progress };
        let content = Content::open(path, &site)?;
        if content.has("index.json") {
            oci::import(&content, name, &site)
        } else if content.has("manifest.json") {
            docker::import(&content, name, &site)
        } else {
            let why = "it has neither index.json nor manifest.json".to_owned();
            Err(Error::NotAnImage { path: path.to_owned(), why })
        }
    }
}

/// The one name that was asked for, or those that the image brings along.
fn names(asked: Option<&Reference>, own: &[String]) -> Vec<String> {
    match asked {
        Some(name) => vec![name.to_string()],
        None => {
            let full = own.iter().filter_map(|name| name.parse::<Reference>().ok());
            full.map(|name| name.to_string()).collect()
        }
    }
}

fn only_one(asked: Option<&Reference>, count: usize, path: &Path) -> Result<()> {
    if asked.is_some() && count > 1 {
        let why = format!("it holds {count} images, and one name was given");
        return Err(Error::NotAnImage { path: path.to_owned(), why });
    }
    Ok(())
}
