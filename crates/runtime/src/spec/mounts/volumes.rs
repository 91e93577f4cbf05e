//! Directories that an image wants to be volumes.

use std::collections::BTreeSet;
use std::path::Path;

use container::ImageVolume;
use types::Refusal;

use super::super::ContainerRequest;
use super::inside::inside;

/// What every container has. Images that run systemd ask for the control groups.
const MADE_ANYWAY: [&str; 2] = ["/", "/sys/fs/cgroup"];

/// More than any image has that means it.
const MOST: usize = 128;

/// Those where the caller mounts nothing else, each once.
pub(crate) fn of(asked: &ContainerRequest<'_>) -> Result<Vec<ImageVolume>, Refusal> {
    let given: BTreeSet<_> = asked.config.mounts.iter().map(|mount| inside(&mount.container_path)).collect();
    let mut known = BTreeSet::new();
    let wanted = asked.image.volumes.iter().map(|path| inside(path));
    let wanted = wanted.filter(|target| !MADE_ANYWAY.iter().any(|made| target == Path::new(made)));
    let wanted = wanted.filter(|target| !given.contains(target));
    let wanted: Vec<_> = wanted.filter(|target| known.insert(target.clone())).collect();
    if wanted.len() > MOST {
        let cause = format!("the image has {} volumes, and at most {MOST} are made", wanted.len());
        return Err(Refusal::new("image", cause));
    }
    let source = |number: usize| asked.dir.join("volumes").join(number.to_string());
    let volumes = wanted.into_iter().enumerate();
    Ok(volumes.map(|(number, target)| ImageVolume { source: source(number), target }).collect())
}
