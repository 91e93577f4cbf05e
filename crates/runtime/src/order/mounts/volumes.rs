//! Directories that an image wants to be volumes.

use bundle::ImageVolume;

use super::super::Asked;
use super::inside;

/// Those where the caller mounts nothing else.
pub(crate) fn of(asked: &Asked<'_>) -> Vec<ImageVolume> {
    let given = |target: &std::path::PathBuf| {
        asked.config.mounts.iter().any(|mount| inside(&mount.container_path) == *target)
    };
    let wanted = asked.image.volumes.iter().map(|path| inside(path));
    let wanted = wanted.filter(|target| target.as_os_str() != "/" && !given(target));
    let source = |number: usize| asked.dir.join("volumes").join(number.to_string());
    wanted.enumerate().map(|(number, target)| ImageVolume { source: source(number), target }).collect()
}
