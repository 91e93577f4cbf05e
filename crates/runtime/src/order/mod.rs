//! A container as CRI asks for it, lowered to what is started.
//!
//! [`container`] is pure: everything it needs is in [`Asked`]. Whatever is asked for is either in the
//! [`bundle::Start`] that comes out or refused by the name of its field; nothing is left out in silence.
//!
//! - [`process`]: program, environment, directory, user, limits.
//! - [`confine`]: capabilities, system calls, profiles and labels, masked paths.
//! - [`spaces`]: which namespaces it is in.
//! - [`mounts`]: what the caller mounts, what every container has, the image's volumes.
//! - [`devices`], [`resources`], [`signal`]: the rest.
//! - [`mod@sandbox`]: what holds for the pod as a whole.

mod asked;
mod confine;
mod devices;
mod ids;
mod mounts;
mod ping;
mod process;
mod resources;
mod sandbox;
mod signal;
mod spaces;

use std::collections::BTreeMap;

use bundle::{Cgroup, Rootfs, Start};
use wire::cri::{ContainerConfig, LinuxContainerSecurityContext};

use types::keys;

use crate::userns;

pub use asked::{AppArmor, Asked, CgroupVersion, ImageMount, Node, Place, ProfileReader};
pub use mounts::image::{ImagePart, resolve as resolve_image_mount};
pub use mounts::make_missing;
pub use resources::{limits, oom_score};
pub use sandbox::{pod_limits, sandbox};
pub use signal::stop_signal;
pub use spaces::sysctls;
pub use types::Refusal;

/// What is to be started.
///
/// # Errors
/// With the field that asks for what is not done.
pub fn container(asked: &Asked<'_>) -> Result<Start, Refusal> {
    userns::same(asked.sandbox_options(), asked.options())?;
    let ids = userns::decide(asked.sandbox_options())?;
    devices::no_cdi(asked.config)?;
    let dir = asked.dir.join("rw");
    Ok(Start {
        id: asked.id.to_owned(),
        rootfs: Rootfs {
            lowers: asked.lowers.to_vec(),
            upper: dir.join("upper"),
            work: dir.join("work"),
            read_only: asked.security().readonly_rootfs,
            owners: asked.node.owners,
            label: confine::file_label(asked)?,
        },
        mounts: mounts::of(asked, ids.as_ref())?,
        volumes: mounts::volumes::of(asked)?,
        spaces: spaces::of(asked, ids.as_ref())?,
        process: process::of(asked, ids.as_ref())?,
        ids,
        // The sandbox's namespaces have their name and their settings already.
        hostname: None,
        sysctls: BTreeMap::new(),
        masked_paths: confine::masked_paths(asked)?,
        read_only_paths: confine::read_only_paths(asked)?,
        devices: devices::of(asked)?,
        device_rules: devices::rules(asked),
        cgroup: Cgroup { path: resources::cgroup_path(asked)?, resources: resources::of(asked)? },
        annotations: annotations(asked),
    })
}

/// What runtimes that look at annotations know a container by.
fn annotations(asked: &Asked<'_>) -> BTreeMap<String, String> {
    let pod = asked.sandbox.metadata.clone().unwrap_or_default();
    let name = asked.config.metadata.clone().unwrap_or_default().name;
    let image = asked.config.image.clone().unwrap_or_default().image;
    let known = [
        (keys::CRI_CONTAINER_TYPE, "container".to_owned()),
        (keys::CRI_SANDBOX_ID, asked.place.sandbox.clone()),
        (keys::CRI_SANDBOX_NAME, pod.name),
        (keys::CRI_SANDBOX_NAMESPACE, pod.namespace),
        (keys::CRI_SANDBOX_UID, pod.uid),
        ("io.kubernetes.cri.container-name", name),
        ("io.kubernetes.cri.image-name", image),
    ];
    known.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The part of a configuration that most rules are about; what is absent is all defaults.
fn security(config: &ContainerConfig) -> LinuxContainerSecurityContext {
    config.linux.as_ref().and_then(|linux| linux.security_context.clone()).unwrap_or_default()
}
