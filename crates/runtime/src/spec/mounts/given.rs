//! What the caller mounts.

use std::path::PathBuf;

use container::{Bind, ImageFiles, MountPropagation, MountSpec, ReadOnly};

use cri::Mount;
use ids::{IdMapping, IdMappings};
use types::Refusal;

use super::super::{ContainerRequest, ImagePart};
use super::inside::inside;
use crate::selinux;

pub(super) fn of(asked: &ContainerRequest<'_>, ids: Option<&IdMappings>) -> Result<Vec<MountSpec>, Refusal> {
    let one = |(index, mount): (usize, &Mount)| {
        let given = can_be_relabelled(asked, mount)
            .and_then(|()| source(asked, index, mount))
            .and_then(|source| lowered(mount, source, ids));
        given.map_err(|refusal| refusal.below(&format!("mounts[{index}]")))
    };
    asked.config.mounts.iter().enumerate().map(one).collect()
}

/// What is mounted.
enum From {
    Host(PathBuf),
    Image(ImagePart),
}

fn lowered(mount: &Mount, source: From, ids: Option<&IdMappings>) -> Result<MountSpec, Refusal> {
    let target = inside(&mount.container_path);
    if !mount.container_path.starts_with('/') || target.as_os_str() == "/" {
        let cause = format!("{:?} is no absolute path below /", mount.container_path);
        return Err(Refusal::new("container_path", cause));
    }
    if !mount.mount_options.is_empty() {
        let cause = "mount options are not something this runtime does, as Status says";
        return Err(Refusal::new("mount_options", cause));
    }
    let propagation = propagation(mount, ids)?;
    let ids = maps(mount, ids)?;
    let read_only = read_only(mount, propagation)?;
    Ok(match source {
        From::Host(source) => {
            MountSpec::Bind(Bind { source, target, ids, read_only, propagation, options: Vec::new() })
        }
        From::Image(ImagePart { layers, sub_path }) => {
            MountSpec::Image(ImageFiles { layers, sub_path, target, ids })
        }
    })
}

/// Where SELinux is off there is nothing to relabel, and every caller asks for it all the same.
fn can_be_relabelled(asked: &ContainerRequest<'_>, mount: &Mount) -> Result<(), Refusal> {
    if asked.node.selinux.is_none() || !mount.selinux_relabel || mount.image.is_some() {
        return Ok(());
    }
    selinux::may_be_relabelled(&inside(&mount.host_path))
}

/// A file or directory of the host, or an image.
fn source(asked: &ContainerRequest<'_>, index: usize, mount: &Mount) -> Result<From, Refusal> {
    let Some(image) = &mount.image else {
        if !mount.image_sub_path.is_empty() {
            return Err(Refusal::new("image_sub_path", "is given without an image"));
        }
        if !mount.host_path.starts_with('/') {
            return Err(Refusal::new("host_path", format!("{:?} is not absolute", mount.host_path)));
        }
        return Ok(From::Host(mount.host_path.clone().into()));
    };
    if !mount.host_path.is_empty() {
        return Err(Refusal::new("host_path", "is given together with an image"));
    }
    if !mount.readonly {
        return Err(Refusal::new("readonly", "an image can only be mounted read-only"));
    }
    let found = asked.image_mounts.iter().find(|found| found.index == index);
    let missing = || Refusal::new("image", format!("there is no image {:?}", image.image));
    found.map(|found| From::Image(found.source.clone())).ok_or_else(missing)
}

fn propagation(mount: &Mount, ids: Option<&IdMappings>) -> Result<MountPropagation, Refusal> {
    let refused = |cause: &str| Err(Refusal::new("propagation", cause));
    match cri::MountPropagation::try_from(mount.propagation) {
        Ok(cri::MountPropagation::PropagationPrivate) => Ok(MountPropagation::None),
        Ok(_) if mount.image.is_some() => refused("an image's mount is private"),
        Ok(cri::MountPropagation::PropagationHostToContainer) => Ok(MountPropagation::HostToContainer),
        // The kernel lets no mount out of a user namespace.
        Ok(cri::MountPropagation::PropagationBidirectional) if ids.is_some() => {
            refused("mounts made in a user namespace cannot reach the host")
        }
        Ok(cri::MountPropagation::PropagationBidirectional) => Ok(MountPropagation::Bidirectional),
        Err(_) => refused("is no propagation"),
    }
}

fn read_only(mount: &Mount, propagation: MountPropagation) -> Result<ReadOnly, Refusal> {
    let refused = |cause: &str| Err(Refusal::new("recursive_read_only", cause));
    match (mount.recursive_read_only, mount.readonly) {
        (true, false) => refused("is given without readonly"),
        (true, true) if propagation != MountPropagation::None => refused("takes private propagation"),
        (true, true) => Ok(ReadOnly::Recursive),
        (false, true) => Ok(ReadOnly::Yes),
        (false, false) => Ok(ReadOnly::No),
    }
}

/// Through the pod's own maps or through none.
fn maps(mount: &Mount, ids: Option<&IdMappings>) -> Result<Option<IdMappings>, Refusal> {
    let kinds = [("uid_mappings", &mount.uid_mappings), ("gid_mappings", &mount.gid_mappings)];
    if kinds.iter().all(|(_, lines)| lines.is_empty()) {
        return Ok(None);
    }
    let wanted = ids.map(|ids| [&ids.uids, &ids.gids]);
    for (number, (name, lines)) in kinds.into_iter().enumerate() {
        let Some(wanted) = wanted.and_then(|wanted| wanted.get(number).copied()) else {
            return Err(Refusal::new(name, "the sandbox is in the host's user namespace"));
        };
        if read(name, lines)? != *wanted {
            let cause = "is not the mapping of the sandbox's user namespace";
            return Err(Refusal::new(name, cause).with_hint("give each mount the sandbox's own mapping"));
        }
    }
    Ok(ids.cloned())
}

fn read(name: &str, lines: &[cri::IdMapping]) -> Result<Vec<IdMapping>, Refusal> {
    let one = |line: &cri::IdMapping| {
        IdMapping::new(line.container_id.into(), line.host_id.into(), line.length.into())
            .map_err(|error| Refusal::new(name, error.to_string()))
    };
    lines.iter().map(one).collect()
}
