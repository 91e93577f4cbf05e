//! What a container gets with its devices.

use std::collections::{BTreeMap, BTreeSet};

use tracing::warn;

use crate::api::v1beta1::{ContainerAllocateResponse, Mount};
use crate::error::AllocateError;

/// Annotations that decide on the isolation of pods begin so.
const RESERVED: &str = "wardlet.dev/";

/// What a container gets beside what its definition says, from the answers of the plugins of its devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerEdits {
    /// Environment variables. Those of the container's definition come before them.
    pub env: BTreeMap<String, String>,
    /// Mounts, which are made before those of the container's definition.
    pub mounts: Vec<DeviceMount>,
    /// Device nodes of the host.
    pub nodes: Vec<DeviceNode>,
    /// Annotations for the container runtime.
    pub annotations: BTreeMap<String, String>,
    /// Qualified names of CDI devices.
    pub cdi: Vec<String>,
}

/// A file or directory of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceMount {
    /// Its path in the container.
    pub container_path: String,
    /// Its path on the host.
    pub host_path: String,
    /// Whether the container cannot write to it.
    pub read_only: bool,
}

/// A device node of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNode {
    /// Its path in the container.
    pub container_path: String,
    /// Its path on the host.
    pub host_path: String,
    /// Letters of "rwm".
    pub permissions: String,
}

impl ContainerEdits {
    /// What all of these answers say. Where two differ on the same thing, the first counts.
    pub(crate) fn merged<'a>(answers: impl Iterator<Item = &'a ContainerAllocateResponse>) -> Self {
        let mut edits = Self::default();
        answers.for_each(|answer| edits.add(answer));
        edits
    }

    fn add(&mut self, answer: &ContainerAllocateResponse) {
        // An answer that a kubelet has recorded was not checked when it was given.
        let (reserved, annotations): (Vec<_>, Vec<_>) =
            answer.annotations.iter().partition(|(key, _)| key.starts_with(RESERVED));
        for (key, _) in reserved {
            warn!("the annotation {key:?} of a device plugin is ignored: plugins may not set it");
        }
        add_texts(&mut self.env, &answer.envs, "environment variable");
        add_texts(&mut self.annotations, annotations, "annotation");
        for Mount { container_path, host_path, read_only } in &answer.mounts {
            match self.mounts.iter().find(|known| known.container_path == *container_path) {
                Some(known) if known.host_path != *host_path => differs("mount", container_path),
                Some(_) => {}
                None => self.mounts.push(DeviceMount {
                    container_path: container_path.clone(),
                    host_path: host_path.clone(),
                    read_only: *read_only,
                }),
            }
        }
        for node in &answer.devices {
            match self.nodes.iter().find(|known| known.container_path == node.container_path) {
                Some(known) if known.host_path != node.host_path => {
                    differs("device node", &node.container_path);
                }
                Some(_) => {}
                None => self.nodes.push(DeviceNode {
                    container_path: node.container_path.clone(),
                    host_path: node.host_path.clone(),
                    permissions: node.permissions.clone(),
                }),
            }
        }
        let mut known: BTreeSet<String> = self.cdi.iter().cloned().collect();
        self.cdi.extend(
            answer.cdi_devices.iter().map(|one| one.name.clone()).filter(|name| known.insert(name.clone())),
        );
    }
}

fn add_texts<'a>(
    all: &mut BTreeMap<String, String>,
    more: impl IntoIterator<Item = (&'a String, &'a String)>,
    what: &str,
) {
    for (name, value) in more {
        if all.get(name).is_some_and(|known| known != value) {
            differs(what, name);
        }
        all.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

fn differs(what: &str, name: &str) {
    warn!("{what} {name} of a container differs between its device plugins; the first value counts");
}

/// Refuses an answer that would change how a pod is isolated.
pub(crate) fn check(resource: &str, answer: &ContainerAllocateResponse) -> Result<(), AllocateError> {
    match answer.annotations.keys().find(|key| key.starts_with(RESERVED)) {
        None => Ok(()),
        Some(key) => {
            Err(AllocateError::Annotation { resource: resource.to_owned(), annotation: key.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::v1beta1::{CdiDevice, DeviceSpec};

    fn answer(value: &str) -> ContainerAllocateResponse {
        let texts = |key: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        ContainerAllocateResponse {
            envs: texts("GPU"),
            mounts: vec![Mount {
                container_path: "/lib/gpu".to_owned(),
                host_path: format!("/opt/{value}"),
                read_only: true,
            }],
            devices: vec![DeviceSpec {
                container_path: "/dev/gpu".to_owned(),
                host_path: format!("/dev/{value}"),
                permissions: "rw".to_owned(),
            }],
            annotations: texts("example.com/gpu"),
            cdi_devices: vec![CdiDevice { name: format!("example.com/gpu={value}") }],
        }
    }

    #[test]
    fn answers_are_merged_and_the_first_counts_where_they_differ() {
        let edits = ContainerEdits::merged([answer("a"), answer("b"), answer("a")].iter());
        assert_eq!(edits.env["GPU"], "a");
        assert_eq!(edits.annotations["example.com/gpu"], "a");
        assert_eq!((edits.mounts.len(), edits.nodes.len()), (1, 1));
        assert_eq!(
            (edits.mounts[0].host_path.as_str(), edits.nodes[0].host_path.as_str()),
            ("/opt/a", "/dev/a")
        );
        assert!(edits.mounts[0].read_only && edits.nodes[0].permissions == "rw");
        assert_eq!(edits.cdi, ["example.com/gpu=a", "example.com/gpu=b"]);
        assert_eq!(ContainerEdits::merged([].into_iter()), ContainerEdits::default());
    }

    /// Those of a kubelet's checkpoint reached the runtime.
    #[test]
    fn a_recorded_annotation_that_decides_on_isolation_is_ignored() {
        let mut recorded = answer("a");
        recorded.annotations.insert("wardlet.dev/ids".to_owned(), "shared".to_owned());
        let edits = ContainerEdits::merged([recorded].iter());
        assert_eq!(edits, ContainerEdits::merged([answer("a")].iter()));
    }

    #[test]
    fn a_plugin_sets_no_annotation_that_decides_on_isolation() {
        check("example.com/gpu", &answer("a")).unwrap();
        let mut wrong = answer("a");
        wrong.annotations.insert("wardlet.dev/ids".to_owned(), String::new());
        let error = check("example.com/gpu", &wrong).unwrap_err().to_string();
        assert!(error.contains("example.com/gpu") && error.contains("wardlet.dev/ids"), "{error}");
    }
}
