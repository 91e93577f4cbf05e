//! What is written down about sandboxes and containers before anything is done.

use ids::IdMappings;
use serde::{Deserialize, Serialize};

use crate::id::Id;

/// The layout of the records; an older server refuses a newer one's.
pub(crate) const VERSION: u32 = 1;

/// A sandbox as it was asked for, and how far it has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SandboxRecord {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// Its name.
    pub(crate) id: Id,
    /// Nanoseconds since 1970.
    pub(crate) created_at: i64,
    /// The boot it was made in: its namespaces are gone in any other.
    pub(crate) boot_id: String,
    /// How far it has come.
    pub(crate) stage: SandboxStage,
    /// As it was asked for.
    #[serde(with = "message")]
    pub(crate) config: cri::PodSandboxConfig,
    /// The handler that it was asked for with.
    pub(crate) handler: String,
    /// The maps of its user namespace.
    pub(crate) ids: Option<IdMappings>,
    /// The control group that its containers are in.
    pub(crate) cgroup: CgroupParent,
    /// The SELinux label of its processes.
    #[serde(default)]
    pub(crate) label: Option<selinux::Label>,
    /// Its addresses, the primary one first.
    pub(crate) ips: Vec<String>,
}

impl durable::Record for SandboxRecord {
    const VERSION: u32 = VERSION;
}

/// How far a sandbox has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SandboxStage {
    /// Not all of it is there; if the server ends now, it is taken away again.
    Making,
    /// All of it is there.
    Ready,
    /// Nothing of it needs to be there any more.
    Stopped,
}

/// The control group above a pod's containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CgroupParent {
    /// Created and removed by the caller.
    Given(String),
    /// Created and removed by this server.
    Own(String),
}

impl CgroupParent {
    /// Its path from the root of each hierarchy.
    #[must_use]
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Given(path) | Self::Own(path) => path,
        }
    }
}

/// A container as it was asked for, and how far it has come.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ContainerRecord {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// Its name.
    pub(crate) id: Id,
    /// The sandbox that it is in.
    pub(crate) sandbox: Id,
    /// Nanoseconds since 1970.
    pub(crate) created_at: i64,
    /// How far it has come; what became of it after its start is in files of the monitor's.
    pub(crate) stage: ContainerStage,
    /// As it was asked for, with the limits that hold now.
    #[serde(with = "message")]
    pub(crate) config: cri::ContainerConfig,
    /// What the image is called.
    pub(crate) image_name: String,
    /// The image's ID.
    pub(crate) image_id: String,
    /// The image as the caller may pull it again.
    pub(crate) image_ref: String,
    /// The number of the signal that asks it to end.
    pub(crate) stop_signal: i32,
    /// Its control group.
    pub(crate) cgroup: String,
    /// Where its output goes.
    pub(crate) log: Option<std::path::PathBuf>,
}

impl durable::Record for ContainerRecord {
    const VERSION: u32 = VERSION;
}

/// How far a container has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ContainerStage {
    /// Not all of it is there; if the server ends now, it is taken away again.
    Making,
    /// It can be started.
    Created,
    /// The monitor was asked to start it.
    Starting,
    /// It never ran.
    Failed {
        /// StartError and the like.
        reason: String,
        /// What happened.
        message: String,
        /// Nanoseconds since 1970.
        at: i64,
    },
}

/// Messages of CRI inside of records, as the digits of their bytes: the contract has its own rules about
/// fields that come and go, and they hold for what is kept, too.
mod message {
    use prost::Message;
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::id::{hex, unhex};

    pub(super) fn serialize<M: Message, S: Serializer>(message: &M, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hex(&message.encode_to_vec()))
    }

    pub(super) fn deserialize<'de, M: Message + Default, D: Deserializer<'de>>(
        from: D,
    ) -> Result<M, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = unhex(&text).ok_or_else(|| de::Error::custom("not hex digits"))?;
        M::decode(bytes.as_slice()).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let metadata = cri::ContainerMetadata { name: "web".into(), attempt: 3 };
        let envs = vec![cri::KeyValue { key: "A".into(), value: vec![0xff, 0] }];
        let config = cri::ContainerConfig { metadata: Some(metadata), envs, ..Default::default() };
        let record = ContainerRecord {
            version: VERSION,
            id: Id::random().unwrap(),
            sandbox: Id::random().unwrap(),
            created_at: 7,
            stage: ContainerStage::Failed { reason: "StartError".into(), message: "no".into(), at: 8 },
            config,
            image_name: "a:1".into(),
            image_id: "sha256:0".into(),
            image_ref: "a@b".into(),
            stop_signal: 15,
            cgroup: "/wardlet/x".into(),
            log: None,
        };
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<ContainerRecord>(&text).unwrap(), record);
        assert!(
            serde_json::from_str::<ContainerRecord>(&text.replace("\"config\":\"", "\"config\":\"z"))
                .is_err()
        );
    }
}
