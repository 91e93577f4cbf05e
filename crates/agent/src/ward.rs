//! A pod that may run, with what was decided for it.

use std::path::PathBuf;

use ids::{IdKind, UserNamespace};
use manifest::k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, PodSpec};
use plan::{Intent, Plan};
use types::PodUid;
use wire::cri;

/// A pod that was read, found valid and planned.
#[derive(Debug, Clone)]
pub struct Admitted {
    /// The pod, with the API's defaults.
    pub pod: Pod,
    /// What it wants.
    pub intent: Intent,
    /// What will be done.
    pub plan: Plan,
}

/// A pod with its host IDs.
#[derive(Debug, Clone)]
pub(crate) struct Ward {
    pub(crate) uid: PodUid,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) pod: Pod,
    pub(crate) spec: PodSpec,
    /// None for a pod that is only looked after to its end.
    pub(crate) plan: Option<Plan>,
    pub(crate) users: UserNamespace,
    /// The SELinux level that was leased with the block, for containers that name none.
    pub(crate) level: Option<String>,
    pub(crate) handler: String,
    pub(crate) node: String,
    /// Where the node keeps the seccomp profiles that pods name.
    pub(crate) profiles: PathBuf,
}

impl Ward {
    /// `namespace/name`, for words.
    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub(crate) fn context(&self) -> PodSecurityContext {
        self.spec.security_context.clone().unwrap_or_default()
    }

    pub(crate) fn is_host_network(&self) -> bool {
        self.spec.host_network == Some(true)
    }

    /// Init containers, then regular ones.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &Container> {
        self.spec.init_containers.iter().flatten().chain(&self.spec.containers)
    }

    pub(crate) fn container(&self, name: &str) -> Option<&Container> {
        self.containers().find(|container| container.name == name)
    }

    /// The lines of its map, as CRI has them; none with the host's users.
    pub(crate) fn mappings(&self, kind: IdKind) -> Vec<cri::IdMapping> {
        crate::mounts::lines(&self.users.lines(kind).unwrap_or_default())
    }
}

#[cfg(test)]
impl Ward {
    /// The pod `shop/web` with this spec, and the host's users.
    pub(crate) fn for_test(spec: &str) -> Self {
        let pod: Pod =
            serde_json::from_str(&format!(r#"{{"metadata":{{"name":"web"}},"spec":{spec}}}"#)).unwrap();
        Self {
            uid: PodUid::new("u-1").unwrap(),
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            spec: pod.spec.clone().unwrap(),
            pod,
            plan: None,
            users: UserNamespace::Host,
            level: None,
            handler: String::new(),
            node: "node-1".to_owned(),
            profiles: PathBuf::from("/state/seccomp"),
        }
    }
}

/// FNV-1a of 64 bits: the same definition gives the same number in every process.
pub(crate) fn hash(value: &impl serde::Serialize) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let text = serde_json::to_string(value).unwrap_or_default();
    text.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_definition_has_another_hash() {
        let container = |image: &str| Container { image: Some(image.into()), ..Container::default() };
        assert_eq!(hash(&container("a:1")), hash(&container("a:1")));
        assert_ne!(hash(&container("a:1")), hash(&container("a:2")));
    }
}
