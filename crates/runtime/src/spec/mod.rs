//! Builds a [`container::ContainerSpec`] from a CRI request.
//!
//! [`container`] is pure: everything it needs is in [`ContainerRequest`]. Each field of the request is either in the spec
//! or refused by name; none is ignored silently.
//!
//! - [`process`]: program, environment, working directory, user, rlimits.
//! - [`confine`]: capabilities, seccomp and AppArmor profiles, SELinux labels, masked paths.
//! - [`namespaces`]: the namespaces that it joins or creates.
//! - [`mounts`]: the request's mounts, the default mounts, the image's volumes.
//! - [`devices`], [`resources`], [`signal`]: the rest.
//! - [`mod@sandbox`]: checks and limits of the pod as a whole.

mod confine;
mod devices;
mod ids;
mod mounts;
mod namespaces;
mod ping;
mod process;
mod request;
mod resources;
mod sandbox;
mod signal;

use std::collections::BTreeMap;

use container::{Cgroup, ContainerSpec, Rootfs};

use types::keys;

use crate::userns;

pub use mounts::image::{ImagePart, resolve as resolve_image_mount};
pub use mounts::make_missing;
pub use namespaces::sysctls;
pub use request::{
    AppArmor, CgroupVersion, ContainerRequest, ImageMount, NodeFacts, ProfileReader, SandboxResources,
};
pub use resources::{limits, oom_score, parent};
pub use sandbox::{pod_limits, sandbox};
pub use signal::stop_signal;
pub use types::Refusal;

/// The spec of a requested container.
///
/// # Errors
/// A [`Refusal`] names the field of the request that is invalid or not supported.
pub fn container(asked: &ContainerRequest<'_>) -> Result<ContainerSpec, Refusal> {
    userns::same(asked.sandbox_options(), asked.options())?;
    let ids = userns::decide(asked.sandbox_options())?;
    devices::no_cdi(asked.config)?;
    let dir = asked.dir.join("rw");
    Ok(ContainerSpec {
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
        namespaces: namespaces::of(asked, ids.as_ref())?,
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

/// Annotations that OCI runtimes and hooks know from other CRI runtimes.
fn annotations(asked: &ContainerRequest<'_>) -> BTreeMap<String, String> {
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
