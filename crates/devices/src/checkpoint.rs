//! The kubelet's file of allocations, `kubelet_internal_checkpoint`: a kubelet and this agent read each other's, so that a pod
//! keeps its devices when one takes the other's place.
//!
//! ```text
//! {"Data": {"PodDeviceEntries": [{"PodUID", "ContainerName", "ResourceName", "DeviceIDs": {NUMA node or -1: [ID, ...]},
//!                                 "AllocResp": base64 of the plugin's answer}, ...],
//!           "RegisteredDevices": {resource: [ID of a device that can be used, ...], ...}},
//!  "Checksum": FNV-1a, see `dump`}
//! ```

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::api::v1beta1::ContainerAllocateResponse;
use crate::dump::checksum;
use crate::state::{Allocation, Allocations, Held};

/// Its name in the directory of device plugins.
pub(crate) const FILE: &str = "kubelet_internal_checkpoint";

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct File {
    data: Content,
    checksum: u64,
}

/// What its checksum is of. `None` is what Go calls nil, which its checksum tells from what is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Content {
    #[serde(default)]
    pub(crate) pod_device_entries: Option<Vec<Entry>>,
    #[serde(default)]
    pub(crate) registered_devices: Option<BTreeMap<String, Option<Vec<String>>>>,
}

/// The devices of one resource that a container has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Entry {
    #[serde(default, rename = "PodUID")]
    pub(crate) pod_uid: String,
    #[serde(default)]
    pub(crate) container_name: String,
    #[serde(default)]
    pub(crate) resource_name: String,
    #[serde(default, rename = "DeviceIDs")]
    pub(crate) device_ids: Option<BTreeMap<i64, Option<Vec<String>>>>,
    #[serde(default)]
    pub(crate) alloc_resp: Option<Bytes>,
}

/// Bytes that JSON has in base64.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Self).map_err(D::Error::custom)
    }
}

/// A checkpoint: allocations, and the resources that plugins have registered with the devices that can be used.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Checkpoint {
    pub(crate) allocations: Allocations,
    pub(crate) registered: BTreeMap<String, Vec<String>>,
}

impl Checkpoint {
    /// Reads a file. What it allocates is not confirmed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let File { data, checksum: stored } = serde_json::from_slice(text)
            .map_err(|error| format!("it is not a checkpoint of devices: {error}"))?;
        let computed = checksum(&data);
        if computed != stored {
            return Err(format!(
                "it is damaged, or was written by a kubelet of another version: its checksum is {stored}, and that of its content {computed}"
            ));
        }
        let mut allocations = Allocations::default();
        for entry in data.pod_device_entries.unwrap_or_default() {
            let allocation = allocation(&entry)?;
            allocations.insert(&entry.pod_uid, &entry.container_name, &entry.resource_name, allocation);
        }
        let registered = data.registered_devices.unwrap_or_default().into_iter();
        let registered = registered.map(|(name, ids)| (name, ids.unwrap_or_default())).collect();
        Ok(Self { allocations, registered })
    }

    /// The content of its file.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let entry = |held: Held<'_>| Entry {
            pod_uid: held.pod.to_owned(),
            container_name: held.container.to_owned(),
            resource_name: held.resource.to_owned(),
            device_ids: Some(
                held.allocation.devices.iter().map(|(node, ids)| (*node, Some(ids.clone()))).collect(),
            ),
            alloc_resp: Some(Bytes(held.allocation.response.encode_to_vec())),
        };
        let entries: Vec<Entry> = self.allocations.all().map(entry).collect();
        let registered = self.registered.iter().map(|(name, ids)| (name.clone(), Some(ids.clone())));
        let data = Content {
            // A kubelet has none at all before the first.
            pod_device_entries: Some(entries).filter(|entries| !entries.is_empty()),
            registered_devices: Some(registered.collect()),
        };
        let checksum = checksum(&data);
        // Texts, numbers and lists of them are written without fail.
        serde_json::to_vec(&File { data, checksum }).unwrap_or_default()
    }
}

fn allocation(entry: &Entry) -> Result<Allocation, String> {
    let bytes = entry.alloc_resp.as_ref().map(|bytes| bytes.0.as_slice()).unwrap_or_default();
    let response = ContainerAllocateResponse::decode(bytes).map_err(|error| {
        let Entry { pod_uid, container_name, resource_name, .. } = entry;
        format!("the answer of the plugin of {resource_name} for container {container_name} of pod {pod_uid}: {error}")
    })?;
    let ids = entry.device_ids.iter().flatten();
    let devices = ids.map(|(node, ids)| (*node, ids.clone().unwrap_or_default())).collect();
    Ok(Allocation { devices, response, is_confirmed: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by the packages of a kubelet of 1.37.1.
    const OF_KUBELET: &str = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"pod-1","ContainerName":"con \u003c1\u003e","ResourceName":"example.com/a","DeviceIDs":{"-1":["dev-2"],"0":["z"],"1":["dev 1","déux"],"10":[]},"AllocResp":"CgYKAUESATEaFwoGL2Rldi9jEgkvZGV2L251bGwaAnJ3"},{"PodUID":"pod-2","ContainerName":"c","ResourceName":"b.example/b","DeviceIDs":{},"AllocResp":""}],"RegisteredDevices":{"b.example/b":[],"example.com/a":["dev-2","\"q\""],"example.com/b":["x","y"]}},"Checksum":91668791}"#;

    #[test]
    fn a_kubelets_checkpoint_is_read_and_written_with_its_checksum() {
        let read = Checkpoint::parse(OF_KUBELET.as_bytes()).unwrap();
        let held = read.allocations.get("pod-1", "con <1>", "example.com/a").unwrap();
        assert_eq!(held.ids().into_iter().collect::<Vec<_>>(), ["dev 1", "dev-2", "déux", "z"]);
        assert_eq!(held.response.envs["A"], "1");
        assert_eq!(held.response.devices[0].host_path, "/dev/null");
        assert!(!held.is_confirmed);
        assert_eq!(read.registered["example.com/b"], ["x", "y"]);
        // But for the escapes of Go, which stand for the same text.
        let written = String::from_utf8(read.to_json()).unwrap();
        assert_eq!(written, OF_KUBELET.replace("\\u003c", "<").replace("\\u003e", ">"));
        assert_eq!(Checkpoint::parse(written.as_bytes()).unwrap(), read);
    }

    #[test]
    fn an_empty_checkpoint_is_as_a_kubelet_writes_it() {
        let empty = Checkpoint {
            registered: BTreeMap::from([("example.com/a".to_owned(), Vec::new())]),
            ..Checkpoint::default()
        };
        let expected = r#"{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{"example.com/a":[]}},"Checksum":4218149908}"#;
        assert_eq!(String::from_utf8(empty.to_json()).unwrap(), expected);
        assert_eq!(Checkpoint::parse(expected.as_bytes()).unwrap(), empty);
    }

    #[test]
    fn a_changed_checkpoint_is_refused() {
        let wrong = OF_KUBELET.replace("pod-2", "pod-3");
        let error = Checkpoint::parse(wrong.as_bytes()).unwrap_err();
        assert!(error.contains("its checksum is 91668791"), "{error}");
        for text in ["", "{}", "[]", r#"{"Data":{},"Checksum":-1}"#] {
            let error = Checkpoint::parse(text.as_bytes()).unwrap_err();
            assert!(error.contains("not a checkpoint of devices"), "{text}: {error}");
        }
    }
}
