//! What the sandbox brings into each of its containers.

use std::path::Path;

use container::{Bind, MountPropagation, ReadOnly};

use super::super::ContainerRequest;

/// The pod's own files. The root of the pod's user namespace owns them on the host already, so they are not idmapped: the
/// overflow ID would own them.
pub(super) fn of(asked: &ContainerRequest<'_>) -> Vec<Bind> {
    let place = asked.place;
    let files = [
        ("/etc/hosts", place.hosts.as_deref()),
        ("/etc/hostname", place.hostname.as_deref()),
        ("/etc/resolv.conf", place.resolv_conf.as_deref()),
    ];
    // With a root that cannot be written to, these cannot either.
    let read_only = if asked.security().readonly_rootfs { ReadOnly::Yes } else { ReadOnly::No };
    let file = |(target, source): (&str, Option<&Path>)| {
        source.map(|source| Bind { read_only, ..bind(source, target) })
    };
    files.into_iter().filter_map(file).chain([bind(&place.shm, "/dev/shm")]).collect()
}

fn bind(source: &Path, target: &str) -> Bind {
    Bind {
        source: source.to_owned(),
        target: target.into(),
        ids: None,
        read_only: ReadOnly::No,
        propagation: MountPropagation::None,
        options: Vec::new(),
    }
}
