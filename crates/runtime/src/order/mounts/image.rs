//! Images that are mounted as volumes.

use std::path::{Component, Path, PathBuf};

use kernel::{Dir, LastLink, Within};

use super::super::Refusal;

/// The directory or file that a mount of an image shows: `sub_path` of its only layer, found without following
/// links, which an image could lead anywhere with.
///
/// # Errors
/// With the field of the mount that cannot be had.
pub fn resolve(layers: &[PathBuf], sub_path: &str) -> Result<PathBuf, Refusal> {
    let [layer] = layers else {
        let cause = format!("it has {} layers, and only an image of one can be mounted", layers.len());
        return Err(Refusal::new("image", cause).with_hint("build the volume's image in one layer"));
    };
    let refused = |cause: String| Refusal::new("image_sub_path", format!("{sub_path:?}: {cause}"));
    let below = Path::new(sub_path);
    if !below.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(refused("takes a path below the image's root".to_owned()));
    }
    let root = Dir::open(layer).map_err(|error| Refusal::new("image", error.to_string()))?;
    if !sub_path.is_empty() {
        let node = root.node(below, Within::NoLinks, LastLink::Follow);
        node.map_err(|error| refused(error.to_string()))?;
    }
    Ok(layer.join(below))
}
