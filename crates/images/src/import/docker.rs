use std::io::Read;

use serde::Deserialize;

use super::content::Content;
use super::{names, only_one};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::install::{Candidate, Layers, Site};
use crate::json;
use crate::manifest::Descriptor;
use crate::reference::Reference;

/// One image of a docker archive's manifest.json.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default, deserialize_with = "json::null_is_default")]
    repo_tags: Vec<String>,
    #[serde(default, deserialize_with = "json::null_is_default")]
    layers: Vec<String>,
}

pub(super) fn import(content: &Content, name: Option<&Reference>, site: &Site<'_>) -> Result<Vec<Digest>> {
    let what = format!("manifest.json in {}", content.path().display());
    let all: Vec<Saved> = json::read(&what, &content.read("manifest.json")?)?;
    if all.is_empty() {
        return Err(Error::Document { what, why: "it names no image".to_owned() });
    }
    only_one(name, all.len(), content.path())?;
    all.iter().map(|saved| image(content, saved, name, site)).collect()
}

fn image(content: &Content, saved: &Saved, name: Option<&Reference>, site: &Site<'_>) -> Result<Digest> {
    let names = names(name, &saved.repo_tags);
    site.install(&Candidate {
        called: names.first().cloned().unwrap_or_else(|| content.path().display().to_string()),
        config: content.read(&saved.config)?,
        manifest: None,
        count: saved.layers.len(),
        layers: &FromArchive { content, layers: &saved.layers },
        names: names.into_iter().map(|name| (name, None)).collect(),
    })
}

/// Its layers are only known by their digests uncompressed, which the configuration has.
struct FromArchive<'a> {
    content: &'a Content,
    layers: &'a [String],
}

impl Layers for FromArchive<'_> {
    fn name(&self, n: usize) -> String {
        self.layers.get(n).map_or_else(String::new, |layer| format!("layer {layer}"))
    }

    fn announced(&self, _: usize) -> Option<&Descriptor> {
        None
    }

    fn open(&self, n: usize) -> Result<Box<dyn Read + '_>> {
        let missing =
            || Error::NotAnImage { path: self.content.path().to_owned(), why: format!("no layer {n}") };
        Ok(self.content.open_named(self.layers.get(n).ok_or_else(missing)?)?.0)
    }

    fn done(&self, _: usize) -> Result<()> {
        Ok(())
    }
}
