//! Devices that a container has beside the usual ones.

use container::{Device, DeviceRule, NodeOwner};
use cri::ContainerConfig;
use types::Refusal;

use super::ContainerRequest;

/// Annotations by which device plugins of old ask for CDI devices.
const CDI: &str = "cdi.k8s.io/";

/// Devices named by CDI are not looked up: a container that needs one does not start without it.
pub(super) fn no_cdi(config: &ContainerConfig) -> Result<(), Refusal> {
    let hint = "give the device as a device of the container";
    if let Some(device) = config.cdi_devices.first() {
        let cause = format!("{:?}: CDI devices are not something this runtime does", device.name);
        return Err(Refusal::new("CDI_devices[0]", cause).with_hint(hint));
    }
    match config.annotations.keys().find(|key| key.starts_with(CDI)) {
        Some(key) => {
            let cause = "CDI devices are not something this runtime does";
            Err(Refusal::new(format!("annotations[{key}]"), cause).with_hint(hint))
        }
        None => Ok(()),
    }
}

/// What is given by name; a privileged container has all of the host's.
pub(super) fn of(asked: &ContainerRequest<'_>) -> Result<Vec<Device>, Refusal> {
    let given = asked.config.devices.iter().enumerate().map(|(index, device)| {
        let refused = |name: &str, cause: &str| Refusal::new(format!("devices[{index}].{name}"), cause);
        if !device.host_path.starts_with('/') {
            return Err(refused("host_path", "is not absolute"));
        }
        let target = Some(&device.container_path).filter(|path| !path.is_empty());
        let target = target.unwrap_or(&device.host_path);
        if !target.starts_with('/') {
            return Err(refused("container_path", "is not absolute"));
        }
        let letters = &device.permissions;
        if letters.is_empty() || !letters.chars().all(|letter| "rwm".contains(letter)) {
            return Err(refused("permissions", "takes letters of \"rwm\""));
        }
        Ok(Device {
            source: device.host_path.clone().into(),
            target: target.into(),
            access: letters.clone(),
            owner: NodeOwner::Container,
        })
    });
    let given: Vec<Device> = given.collect::<Result<_, _>>()?;
    let all = asked.security().privileged.then(every);
    Ok(all.into_iter().chain(given).collect())
}

/// All devices of the host. They keep their owners: in a user namespace the host's disks are owned by the overflow ID.
fn every() -> Device {
    let access = "rwm".to_owned();
    Device { source: "/dev".into(), target: "/dev".into(), access, owner: NodeOwner::Host }
}

/// A privileged container may use every device.
pub(super) fn rules(asked: &ContainerRequest<'_>) -> Vec<DeviceRule> {
    let all = DeviceRule { allow: true, kind: 'a', major: None, minor: None, access: "rwm".to_owned() };
    asked.security().privileged.then_some(all).into_iter().collect()
}
