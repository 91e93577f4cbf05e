//! What is mounted in a container, each before what lies below it.

mod given;
pub(super) mod image;
pub(super) mod inside;
mod own;
pub(super) mod volumes;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use container::MountSpec;
use container::defaults::{self, Privilege};
use cri::ContainerConfig;
use ids::IdMappings;
use types::Refusal;

use super::{ContainerRequest, namespaces};

/// What a caller's missing directories are made with.
const MODE: u32 = 0o755;

pub(super) fn of(asked: &ContainerRequest<'_>, ids: Option<&IdMappings>) -> Result<Vec<MountSpec>, Refusal> {
    let given = given::of(asked, ids)?;
    let own = own::of(asked);
    let own = own.into_iter().filter(|own| !given.iter().any(|given| given.target() == own.target));
    let mut further: Vec<MountSpec> = own.map(MountSpec::Bind).chain(given.iter().cloned()).collect();
    // Of two at one depth the order in which they were given stays.
    further.sort_by_key(|mount| mount.target().components().count());
    let usual = usual(asked, ids)?.into_iter().filter(|usual| !replaced(usual.target(), &given));
    Ok(usual.chain(further).collect())
}

fn usual(asked: &ContainerRequest<'_>, ids: Option<&IdMappings>) -> Result<Vec<MountSpec>, Refusal> {
    let namespaces = namespaces::of(asked, ids)?;
    let privilege = if asked.security().privileged { Privilege::Privileged } else { Privilege::Usual };
    Ok(defaults::mounts(&namespaces, ids, privilege))
}

/// A mount over `/dev` replaces all default mounts below it.
fn replaced(usual: &Path, given: &[MountSpec]) -> bool {
    let targets = given.iter().map(MountSpec::target);
    targets
        .into_iter()
        .any(|target| target == usual || (target == Path::new("/dev") && usual.starts_with("/dev")))
}

/// Makes the directories of the host that are to be mounted and are missing, as callers expect it.
///
/// # Errors
/// With the mount whose directory cannot be made.
pub fn make_missing(config: &ContainerConfig) -> Result<(), Refusal> {
    let named = config.mounts.iter().enumerate().filter(|(_, mount)| mount.image.is_none());
    for (index, mount) in named {
        let path = Path::new(&mount.host_path);
        let refused = |what: &str, error: &std::io::Error| {
            let cause = format!("cannot {what} {}: {error}", path.display());
            Refusal::new(format!("mounts[{index}].host_path"), cause)
        };
        match fs::metadata(path) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.is_absolute() => {
                let made = fs::DirBuilder::new().recursive(true).mode(MODE).create(path);
                made.map_err(|error| refused("make", &error))?;
            }
            Err(error) => return Err(refused("look at", &error)),
        }
    }
    Ok(())
}
