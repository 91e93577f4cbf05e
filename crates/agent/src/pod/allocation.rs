//! The resources that a pod was given: those that admission counted, whatever its spec in the API asks for since.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use manifest::k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use manifest::k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::pod::fields::quantity;
use crate::pod::resize::amounts::{Amounts, CPU, MEMORY};

/// Offset basis and prime of FNV-1a with 32 bits.
const BASIS: u32 = 0x811c_9dc5;
const PRIME: u32 = 0x0100_0193;
/// What a kubelet hashes before the text.
const HASHED_TYPE: &str = "(string)";
/// No node has so many pods that their resources need more bytes.
const LARGEST: u64 = 64 << 20;

/// The resources of a pod and of its containers, as a kubelet's checkpoint has them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct PodAllocation {
    /// Those of its init containers and regular containers, by name.
    #[serde(default, deserialize_with = "or_default")]
    container_resources: BTreeMap<String, ResourceRequirements>,
    /// Those of the pod as a whole.
    #[serde(default)]
    pod_level_resources: Option<ResourceRequirements>,
    /// Limits of volumes in memory, which a kubelet of a later version may have written.
    #[serde(default)]
    empty_dir_volume_limits: Option<Value>,
}

/// Go writes an empty map as null.
fn or_default<'de, D, T>(from: D) -> std::result::Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl PodAllocation {
    /// What this spec asks for.
    #[must_use]
    pub fn of(spec: &PodSpec) -> Self {
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let own = |one: &Container| (one.name.clone(), one.resources.clone().unwrap_or_default());
        Self {
            container_resources: containers.map(own).collect(),
            pod_level_resources: spec.resources.clone(),
            empty_dir_volume_limits: None,
        }
    }

    /// Whether this spec asks for the same amounts.
    #[must_use]
    pub fn is_of(&self, spec: &PodSpec) -> bool {
        let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        is_same(self.pod_level_resources.as_ref(), spec.resources.as_ref())
            && containers.all(|one| match self.container_resources.get(&one.name) {
                Some(known) => is_same(Some(known), one.resources.as_ref()),
                None => true,
            })
    }

    /// The spec with these resources in place of its own, where the amounts differ.
    #[must_use]
    pub fn applied_to(&self, mut spec: PodSpec) -> PodSpec {
        if !is_same(self.pod_level_resources.as_ref(), spec.resources.as_ref()) {
            spec.resources.clone_from(&self.pod_level_resources);
        }
        let containers = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
        for one in containers {
            if let Some(known) = self.container_resources.get(&one.name)
                && !is_same(Some(known), one.resources.as_ref())
            {
                one.resources = Some(known.clone());
            }
        }
        spec
    }

    /// How a spec asks for other resources of containers.
    #[must_use]
    pub fn changes_to(&self, spec: &PodSpec) -> Vec<ResourceChange> {
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        let mut changes = Vec::new();
        for one in containers {
            let Some(known) = self.container_resources.get(&one.name) else { continue };
            let (before, after) = (Amounts::of(None, Some(known)), Amounts::of(None, one.resources.as_ref()));
            for (resource, before, after) in
                [(MEMORY, before.memory, after.memory), (CPU, before.cpu, after.cpu)]
            {
                for (requirement, before, after) in
                    [("requests", before.request, after.request), ("limits", before.limit, after.limit)]
                {
                    let operation = operation(before, after);
                    changes.extend(operation.map(|operation| ResourceChange {
                        resource,
                        requirement,
                        operation,
                    }));
                }
            }
        }
        changes
    }

    /// The resources of a container; `None` for one that is not known.
    pub(crate) fn container(&self, name: &str) -> Option<&ResourceRequirements> {
        self.container_resources.get(name)
    }

    /// The resources of the pod as a whole.
    pub(crate) fn pod(&self) -> Option<&ResourceRequirements> {
        self.pod_level_resources.as_ref()
    }
}

/// A resource of a container that a resize changes, in the words of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceChange {
    /// `cpu` or `memory`.
    pub resource: &'static str,
    /// `requests` or `limits`.
    pub requirement: &'static str,
    /// `add`, `remove`, `increase` or `decrease`.
    pub operation: &'static str,
}

fn operation(before: u64, after: u64) -> Option<&'static str> {
    match (before, after) {
        _ if before == after => None,
        (0, _) => Some("add"),
        (_, 0) => Some("remove"),
        _ if after > before => Some("increase"),
        _ => Some("decrease"),
    }
}

/// Whether two requirements have the same amounts of the same resources. None at all are as good as empty ones.
pub(crate) fn is_same(one: Option<&ResourceRequirements>, other: Option<&ResourceRequirements>) -> bool {
    let nothing = ResourceRequirements::default();
    let (one, other) = (one.unwrap_or(&nothing), other.unwrap_or(&nothing));
    is_same_list(one.requests.as_ref(), other.requests.as_ref())
        && is_same_list(one.limits.as_ref(), other.limits.as_ref())
}

type List = BTreeMap<String, Written>;

fn is_same_list(one: Option<&List>, other: Option<&List>) -> bool {
    let nothing = List::new();
    let (one, other) = (one.unwrap_or(&nothing), other.unwrap_or(&nothing));
    let is_equal = |name: &String, amount: &Written| {
        other.get(name).is_some_and(|same| same == amount || quantity(same) == quantity(amount))
    };
    one.len() == other.len() && one.iter().all(|(name, amount)| is_equal(name, amount))
}

/// A file with the resources of pods in the format of a kubelet's checkpoints, by which a kubelet that takes the node over
/// knows them, and this agent those of a kubelet. It is replaced as a whole, and only if it changes.
#[derive(Debug)]
pub struct ResourceCheckpoint {
    path: PathBuf,
    /// The checksum of what is on disk.
    written: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    data: String,
    checksum: u64,
}

#[derive(Default, Serialize, Deserialize)]
struct Entries {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    entries: BTreeMap<String, PodAllocation>,
}

impl ResourceCheckpoint {
    /// The allocated resources of the node's pods, in a kubelet's root directory.
    #[must_use]
    pub fn allocated(root: &Path) -> Self {
        Self { path: root.join("allocated_pods_state"), written: None }
    }

    /// The resources that the node's pods have in effect, in a kubelet's root directory.
    #[must_use]
    pub fn actuated(root: &Path) -> Self {
        Self { path: root.join("actuated_pods_state"), written: None }
    }

    /// The pods in the file, by UID; none if there is no file.
    ///
    /// # Errors
    /// [`Error::Record`] if it cannot be read, or its checksum is not that of its content.
    pub fn read(&mut self) -> Result<BTreeMap<String, PodAllocation>> {
        let wrong = |cause: String| Error::Record { path: self.path.clone(), cause };
        let Some(text) = durable::read(&self.path, LARGEST)? else { return Ok(BTreeMap::new()) };
        let envelope: Envelope = serde_json::from_slice(&text).map_err(|e| wrong(e.to_string()))?;
        let sum = checksum(&envelope.data);
        if u64::from(sum) != envelope.checksum {
            return Err(wrong("its checksum is not that of its content".to_owned()));
        }
        let entries: Entries = serde_json::from_str(&envelope.data).map_err(|e| wrong(e.to_string()))?;
        self.written = Some(sum);
        Ok(entries.entries)
    }

    /// Writes these pods, unless the file has them.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&mut self, entries: BTreeMap<String, PodAllocation>) -> Result<()> {
        let wrong = |e: serde_json::Error| Error::Record { path: self.path.clone(), cause: e.to_string() };
        let data = serde_json::to_string(&Entries { entries }).map_err(wrong)?;
        let sum = checksum(&data);
        if self.written == Some(sum) {
            return Ok(());
        }
        let envelope = Envelope { data, checksum: sum.into() };
        durable::write(&self.path, &serde_json::to_vec(&envelope).map_err(wrong)?)?;
        self.written = Some(sum);
        Ok(())
    }
}

fn checksum(data: &str) -> u32 {
    let bytes = HASHED_TYPE.bytes().chain(data.bytes());
    bytes.fold(BASIS, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(value: Value) -> PodSpec {
        serde_json::from_value(value).unwrap()
    }

    fn app(resources: &Value) -> PodSpec {
        spec(json!({"containers": [{"name": "app", "resources": resources}]}))
    }

    /// With another checksum a kubelet does not start on the node.
    #[test]
    fn the_file_is_a_kubelets() {
        let dir = tempfile::tempdir().unwrap();
        let full = json!({"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "500m"}});
        let entries = BTreeMap::from([("u-1".to_owned(), PodAllocation::of(&app(&full)))]);
        ResourceCheckpoint::allocated(dir.path()).write(entries.clone()).unwrap();
        let text = std::fs::read_to_string(dir.path().join("allocated_pods_state")).unwrap();
        let found: Value = serde_json::from_str(&text).unwrap();
        let data = r#"{"entries":{"u-1":{"ContainerResources":{"app":{"limits":{"cpu":"1","memory":"64Mi"},"requests":{"cpu":"500m"}}},"PodLevelResources":null,"EmptyDirVolumeLimits":null}}}"#;
        assert_eq!((&found["data"], &found["checksum"]), (&json!(data), &json!(2_574_197_237_u32)));
        assert_eq!(ResourceCheckpoint::allocated(dir.path()).read().unwrap(), entries);
        let mut none = ResourceCheckpoint::actuated(dir.path());
        assert!(none.read().unwrap().is_empty());
        none.write(BTreeMap::new()).unwrap();
        let text = std::fs::read_to_string(dir.path().join("actuated_pods_state")).unwrap();
        assert_eq!(text, r#"{"data":"{}","checksum":694314937}"#);
    }

    #[test]
    fn a_file_that_was_changed_by_hand_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("allocated_pods_state");
        for text in [r#"{"data":"{}","checksum":1}"#, "{", r#"{"data":"[]","checksum":0}"#] {
            std::fs::write(&path, text).unwrap();
            assert!(
                matches!(ResourceCheckpoint::allocated(dir.path()).read(), Err(Error::Record { .. })),
                "{text}"
            );
        }
        let data = r#"{"entries":{"u":{"ContainerResources":null,"PodLevelResources":null}}}"#;
        let text = json!({"data": data, "checksum": checksum(data)}).to_string();
        std::fs::write(&path, text).unwrap();
        let found = ResourceCheckpoint::allocated(dir.path()).read().unwrap();
        assert_eq!(found["u"], PodAllocation::default());
    }

    #[test]
    fn the_same_pods_are_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = ResourceCheckpoint::allocated(dir.path());
        file.write(BTreeMap::new()).unwrap();
        std::fs::remove_file(dir.path().join("allocated_pods_state")).unwrap();
        file.write(BTreeMap::new()).unwrap();
        assert!(!dir.path().join("allocated_pods_state").exists());
        file.write(BTreeMap::from([("u".to_owned(), PodAllocation::default())])).unwrap();
        assert!(dir.path().join("allocated_pods_state").exists());
    }

    #[test]
    fn amounts_are_compared_and_not_their_texts() {
        let allocated = PodAllocation::of(&app(&json!({"requests": {"cpu": "1", "memory": "64Mi"}})));
        assert!(
            allocated.is_of(&app(&json!({"requests": {"cpu": "1000m", "memory": "65536Ki"}, "limits": {}})))
        );
        for other in [
            json!({"requests": {"cpu": "1"}}),
            json!({"requests": {"cpu": "1", "memory": "65Mi"}}),
            json!({"limits": {"cpu": "1", "memory": "64Mi"}}),
            json!({"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "0"}}),
        ] {
            assert!(!allocated.is_of(&app(&other)), "{other}");
        }
        let mut whole = app(&json!({"requests": {"cpu": "1", "memory": "64Mi"}}));
        whole.resources = Some(ResourceRequirements::default());
        assert!(allocated.is_of(&whole));
        whole.resources = serde_json::from_value(json!({"limits": {"cpu": "2"}})).unwrap();
        assert!(!allocated.is_of(&whole));
    }

    #[test]
    fn a_spec_gets_what_was_allocated_and_keeps_its_own_texts() {
        let allocated = PodAllocation::of(&spec(json!({
            "initContainers": [{"name": "side", "resources": {"requests": {"cpu": "100m"}}}],
            "containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}, {"name": "same", "resources": {"requests": {"cpu": "1"}}}],
        })));
        let wanted = spec(json!({
            "resources": {"limits": {"cpu": "4"}},
            "initContainers": [{"name": "side", "resources": {"requests": {"cpu": "200m"}}}],
            "containers": [{"name": "app", "image": "i", "resources": {"requests": {"cpu": "2"}}},
                {"name": "same", "resources": {"requests": {"cpu": "1000m"}}}, {"name": "unknown", "resources": {"requests": {"cpu": "3"}}}],
        }));
        let given = allocated.applied_to(wanted);
        let cpu = |one: &Container| one.resources.clone().unwrap().requests.unwrap()["cpu"].0.clone();
        assert_eq!(given.containers.iter().map(cpu).collect::<Vec<_>>(), ["1", "1000m", "3"]);
        assert_eq!((cpu(&given.init_containers.unwrap()[0]).as_str(), given.resources), ("100m", None));
        assert_eq!(given.containers[0].image.as_deref(), Some("i"));
    }
}
