//! Images that are mounted as volumes.

use std::path::{Component, Path, PathBuf};

use kernel::{Dir, LastLink, Within};
use types::Refusal;

/// What a mount of an image shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagePart {
    /// The image's layers, the uppermost first.
    pub layers: Vec<PathBuf>,
    /// The file or directory of them; empty is all.
    pub sub_path: PathBuf,
}

/// The directory or file that a mount of an image shows. It is looked for without following links, which an
/// image could lead anywhere with, and found in some layer; what all layers make of it together is seen when
/// it is mounted.
///
/// # Errors
/// With the field of the mount that cannot be had.
pub fn resolve(layers: &[PathBuf], sub_path: &str) -> Result<ImagePart, Refusal> {
    if layers.is_empty() {
        return Err(Refusal::new("image", "it has no layers, and so nothing to mount"));
    }
    let refused = |cause: String| Refusal::new("image_sub_path", format!("{sub_path:?}: {cause}"));
    let below = Path::new(sub_path);
    if !below.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(refused("takes a path below the image's root".to_owned()));
    }
    let found = ImagePart { layers: layers.to_vec(), sub_path: below.to_owned() };
    if sub_path.is_empty() {
        return Ok(found);
    }
    let mut causes = Vec::new();
    for layer in layers {
        let root = Dir::open(layer).map_err(|error| Refusal::new("image", error.to_string()))?;
        match root.node(below, Within::NoLinks, LastLink::Follow) {
            Ok(_) => return Ok(found),
            Err(error) => causes.push(error.to_string()),
        }
    }
    Err(refused(causes.first().cloned().unwrap_or_default()))
}
