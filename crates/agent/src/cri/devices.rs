//! Devices of plugins in the CRI configuration of a container.

use std::collections::BTreeMap;

use cri::{CdiDevice, Device, Mount};
use devices::ContainerEdits;
use ids::IdKind;

use crate::error::{Error, Result};
use crate::pod::context::PodContext;
use crate::pod::env::LARGEST;

/// Adds the variables of a container's devices. Those of its definition come before them, as with a kubelet.
///
/// # Errors
/// If all of them are too large.
pub(crate) fn add_variables(all: &mut BTreeMap<String, String>, edits: &ContainerEdits) -> Result<()> {
    for (name, value) in &edits.env {
        all.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let size: usize = all.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size <= LARGEST {
        return Ok(());
    }
    let cause = format!("with them the container has more than {LARGEST} bytes of variables");
    Err(Error::config("variables of the container's devices", cause))
}

/// The mounts of a container's devices. In a user namespace their files belong to the IDs inside that they belong to outside, as
/// with a kubelet: what belongs to the host's root belongs to that of the container.
pub(crate) fn mounts(context: &PodContext, edits: &ContainerEdits) -> Vec<Mount> {
    let mount = |mount: &devices::DeviceMount| Mount {
        container_path: mount.container_path.clone(),
        host_path: mount.host_path.clone(),
        readonly: mount.read_only,
        uid_mappings: context.mappings(IdKind::Uid),
        gid_mappings: context.mappings(IdKind::Gid),
        ..Mount::default()
    };
    edits.mounts.iter().map(mount).collect()
}

/// The device nodes of a container's devices.
pub(crate) fn nodes(edits: &ContainerEdits) -> impl Iterator<Item = Device> {
    edits.nodes.iter().map(|node| Device {
        container_path: node.container_path.clone(),
        host_path: node.host_path.clone(),
        permissions: node.permissions.clone(),
    })
}

/// The CDI devices of a container's devices.
pub(crate) fn cdi(edits: &ContainerEdits) -> Vec<CdiDevice> {
    edits.cdi.iter().map(|name| CdiDevice { name: name.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use devices::{DeviceMount, DeviceNode};

    use super::*;

    fn texts(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_containers_own_variables_come_before_those_of_its_devices() {
        let edits = ContainerEdits { env: texts(&[("A", "device"), ("B", "device")]), ..Default::default() };
        let mut all = texts(&[("A", "own")]);
        add_variables(&mut all, &edits).unwrap();
        assert_eq!(all, texts(&[("A", "own"), ("B", "device")]));
        let large = ContainerEdits { env: texts(&[("C", &"x".repeat(LARGEST))]), ..Default::default() };
        assert!(add_variables(&mut all, &large).unwrap_err().to_string().contains("variables"));
    }

    #[test]
    fn mounts_nodes_and_cdi_devices_are_asked_for_as_the_plugin_says() {
        let edits = ContainerEdits {
            mounts: vec![DeviceMount {
                container_path: "/usr/lib/gpu".to_owned(),
                host_path: "/opt/gpu".to_owned(),
                read_only: true,
            }],
            nodes: vec![DeviceNode {
                container_path: "/dev/gpu".to_owned(),
                host_path: "/dev/gpu7".to_owned(),
                permissions: "mrw".to_owned(),
            }],
            cdi: vec!["example.com/gpu=7".to_owned()],
            ..Default::default()
        };
        let mut context = PodContext::for_test(r#"{"containers":[]}"#);
        let of_host = mounts(&context, &edits);
        assert!(of_host[0].readonly && of_host[0].uid_mappings.is_empty());
        assert_eq!(
            (of_host[0].host_path.as_str(), of_host[0].container_path.as_str()),
            ("/opt/gpu", "/usr/lib/gpu")
        );
        let block = ids::IdBlock::new(65_536, 65_536).unwrap();
        context.users = ids::UserNamespace::Leased { uids: block, gids: block };
        let mapped = mounts(&context, &edits);
        assert_eq!((mapped[0].uid_mappings[0].host_id, mapped[0].gid_mappings[0].host_id), (65_536, 65_536));
        let node = nodes(&edits).next().unwrap();
        assert_eq!((node.host_path.as_str(), node.permissions.as_str()), ("/dev/gpu7", "mrw"));
        assert_eq!(cdi(&edits)[0].name, "example.com/gpu=7");
    }
}
