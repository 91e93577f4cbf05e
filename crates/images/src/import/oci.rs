use std::io::Read;

use super::content::Content;
use super::{names, only_one};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::install::{Candidate, Layers, Site};
use crate::manifest::{Descriptor, Document, Manifest, choose};
use crate::platform::Platform;
use crate::reference::Reference;

/// Annotations in which builders put a name.
const NAMES: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];
/// An index may contain indexes, up to this depth.
const DEPTH: u32 = 4;

pub(super) fn import(content: &Content, name: Option<&Reference>, site: &Site<'_>) -> Result<Vec<Digest>> {
    let what = format!("index.json in {}", content.path().display());
    let Document::Index(all) = Document::parse(&what, &content.read("index.json")?, site.limits)? else {
        return Err(Error::Document { what, why: "it is a manifest, not an index".to_owned() });
    };
    let here = Platform::here();
    let ours = |one: &&Descriptor| one.platform.as_ref().is_none_or(|platform| here.rank(platform).is_some());
    let chosen: Vec<&Descriptor> = all.iter().filter(ours).collect();
    if chosen.is_empty() {
        choose(&what, &all, &here)?;
    }
    only_one(name, chosen.len(), content.path())?;
    chosen.into_iter().map(|one| image(content, one, name, site)).collect()
}

fn image(content: &Content, top: &Descriptor, name: Option<&Reference>, site: &Site<'_>) -> Result<Digest> {
    let (manifest, bytes) = manifest(content, top.clone(), site)?;
    let own = NAMES.iter().find_map(|key| top.annotations.get(*key).filter(|name| name.contains(['/', ':'])));
    let names = names(name, own.map(std::slice::from_ref).unwrap_or_default());
    let digest = top.digest.clone();
    site.install(&Candidate {
        called: names.first().cloned().unwrap_or_else(|| content.path().display().to_string()),
        config: content.read_blob(&manifest.config)?,
        manifest: Some(bytes),
        count: manifest.layers.len(),
        layers: &FromLayout { content, layers: &manifest.layers },
        names: names.into_iter().map(|name| (name, Some(digest.clone()))).collect(),
    })
}

/// The manifest for this machine, through nested indexes.
fn manifest(content: &Content, top: Descriptor, site: &Site<'_>) -> Result<(Manifest, Vec<u8>)> {
    let mut next = top;
    for _ in 0..DEPTH {
        let what = format!("{} in {}", next.digest, content.path().display());
        let bytes = content.read_blob(&next)?;
        match Document::parse(&what, &bytes, site.limits)? {
            Document::Manifest(manifest) => return Ok((manifest, bytes)),
            Document::Index(all) => next = choose(&what, &all, &Platform::here())?.clone(),
        }
    }
    let why = format!("more than {DEPTH} indexes lead to the image");
    Err(Error::NotAnImage { path: content.path().to_owned(), why })
}

struct FromLayout<'a> {
    content: &'a Content,
    layers: &'a [Descriptor],
}

impl FromLayout<'_> {
    fn descriptor(&self, n: usize) -> Result<&Descriptor> {
        let missing =
            || Error::NotAnImage { path: self.content.path().to_owned(), why: format!("no layer {n}") };
        self.layers.get(n).ok_or_else(missing)
    }
}

impl Layers for FromLayout<'_> {
    fn name(&self, n: usize) -> String {
        self.layers.get(n).map_or_else(String::new, |layer| format!("layer {}", layer.digest))
    }

    fn announced(&self, n: usize) -> Option<&Descriptor> {
        self.layers.get(n)
    }

    fn open(&self, n: usize) -> Result<Box<dyn Read + '_>> {
        Ok(self.content.open_named(&Content::blob_name(&self.descriptor(n)?.digest))?.0)
    }

    fn done(&self, _: usize) -> Result<()> {
        Ok(())
    }
}
