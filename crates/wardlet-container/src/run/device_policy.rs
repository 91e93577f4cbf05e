//! Which devices a container may use, set here and not by the engine: that allows more than was asked for (tun, 10:200),
//! and on hosts with cgroups v2 every device.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use cgroups::{Devices, Group};
use container::DeviceRule;
use kernel::{AccessKinds, DeviceAccess, DeviceKind, filter_devices};

use crate::failure::Failure;

/// Lets the processes of a group use these devices alone. The container is made and not started.
pub(super) fn set(group: &Group, rules: &[DeviceRule]) -> Result<(), Failure> {
    match group.devices() {
        Some(Devices::Controller(dir)) => rules.iter().try_for_each(|rule| write(dir, rule)),
        Some(Devices::Program(dir)) => {
            let failed = |cause| Failure::during(&format!("cannot open {}", dir.display()), cause);
            let dir = File::open(dir).map_err(failed)?;
            Ok(filter_devices(dir.as_fd(), &rules.iter().map(access).collect::<Vec<_>>())?)
        }
        None => Err(Failure::of("nothing here can limit which devices the container may use")
            .hinted("mount cgroup2, or the devices controller of cgroup version 1, below /sys/fs/cgroup")),
    }
}

fn write(dir: &Path, rule: &DeviceRule) -> Result<(), Failure> {
    let path = dir.join(if rule.allow { "devices.allow" } else { "devices.deny" });
    let number = |number: Option<u32>| number.map_or_else(|| "*".to_owned(), |number| number.to_string());
    let text = match rule.kind {
        'a' => "a".to_owned(),
        kind => format!("{kind} {}:{} {}", number(rule.major), number(rule.minor), rule.access),
    };
    fs::write(&path, &text)
        .map_err(|cause| Failure::during(&format!("cannot write {text:?} to {}", path.display()), cause))
}

fn access(rule: &DeviceRule) -> DeviceAccess {
    let kind = match rule.kind {
        'b' => Some(DeviceKind::Block),
        'c' => Some(DeviceKind::Char),
        _ => None,
    };
    DeviceAccess {
        allow: rule.allow,
        kind,
        major: rule.major,
        minor: rule.minor,
        access: AccessKinds::of(&rule.access),
    }
}
