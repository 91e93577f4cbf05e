use std::collections::BTreeMap;

use inventory::{KnownWorkload, Objects};

use crate::report::{Driver, ObjectRef};

/// Without these, mount in the driver's container knows of no SELinux and drops the context.
const NEEDS: [&str; 2] = ["/sys/fs/selinux", "/etc/selinux"];

/// Drivers that say they can mount with a context, and whose DaemonSets cannot.
pub(crate) fn drivers(objects: &Objects, workloads: &BTreeMap<ObjectRef, KnownWorkload<'_>>) -> Vec<Driver> {
    let sets = workloads.iter().filter(|(daemon_set, _)| daemon_set.kind == "DaemonSet");
    let signs = sets.flat_map(|(daemon_set, found)| {
        found.template.driver_signs.drivers.iter().map(move |name| (name, daemon_set, found))
    });
    let claiming = signs.filter(|(name, _, _)| objects.mounts_with_context(name));
    let mut found: Vec<Driver> =
        claiming.filter_map(|(name, daemon_set, found)| driver(name, daemon_set, found)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn driver(name: &str, daemon_set: &ObjectRef, found: &KnownWorkload<'_>) -> Option<Driver> {
    let lacks = found.template.driver_signs.lacks(&NEEDS);
    if lacks.is_empty() {
        return None;
    }
    let list = lacks.join(" and ");
    Some(Driver {
        name: name.to_owned(),
        daemon_set: daemon_set.clone(),
        cause: format!("it says seLinuxMount, and its DaemonSet does not mount the host's {list}"),
        hint: format!("mount {list} of the host into the driver's container, or set seLinuxMount to false"),
        lacks,
        source: found.source.clone(),
    })
}
