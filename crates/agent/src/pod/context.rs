//! An admitted pod with its plan and its host IDs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use admission::Hostname;
use ids::{IdKind, UserNamespace};
use manifest::k8s_openapi::api::core::v1::{Container, Pod, PodSecurityContext, PodSpec};
use plan::Plan;
use tracing::Span;
use types::PodUid;

use crate::cri::mappings::id_mappings;
use crate::cri::marks::Marks;
use crate::instance::InstanceId;
use crate::metrics::containers::ContainerType;
use crate::pod::node_fields::NodeFields;
use crate::pod::parent::{CpuLimits, OomKill, PodParent};
use crate::ports::PodRef;

/// A pod with its host IDs.
#[derive(Debug, Clone)]
pub(crate) struct PodContext {
    pub(crate) uid: PodUid,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) pod: Pod,
    pub(crate) spec: PodSpec,
    /// The ephemeral containers of the spec, with the fields of other containers.
    pub(crate) ephemeral: Vec<Container>,
    /// `None` for a pod that is only stopped.
    pub(crate) plan: Option<Plan>,
    pub(crate) users: UserNamespace,
    /// The SELinux level that was leased with the block, for containers that name none.
    pub(crate) level: Option<String>,
    /// Whether SELinux is on, so that the runtime labels the files that the node makes for the pod.
    pub(crate) is_selinux_on: bool,
    pub(crate) handler: String,
    pub(crate) node: String,
    /// The cluster's domain.
    pub(crate) domain: String,
    /// Whether a container without a seccomp profile has that of the runtime.
    pub(crate) seccomp_default: bool,
    pub(crate) oom_kill: OomKill,
    /// The node, as its variables and files tell of it.
    pub(crate) node_fields: Arc<NodeFields>,
    /// By what its containers are found again.
    pub(crate) marks: Marks,
    /// The instance that the pod is of.
    pub(crate) instance: InstanceId,
    /// Where its sandbox and containers are; `None` where the runtime decides that.
    pub(crate) cgroup: Option<PodParent>,
    /// Directory of the node's `Localhost` seccomp profiles.
    pub(crate) profiles: PathBuf,
    /// The tracing span of the pod.
    pub(crate) span: Span,
}

impl PodContext {
    /// The pod, as statuses and events refer to it.
    pub(crate) fn reference(&self) -> PodRef {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        PodRef { namespace, name, uid: self.uid.clone() }
    }

    /// The container as a field path of the pod, as in events: `spec.containers{app}`.
    pub(crate) fn field_path(&self, container: &str) -> String {
        let list = match self.container_type(container) {
            ContainerType::Init => "initContainers",
            ContainerType::Container => "containers",
            ContainerType::Ephemeral => "ephemeralContainers",
        };
        format!("spec.{list}{{{container}}}")
    }

    /// Which list of the spec a container is in.
    pub(crate) fn container_type(&self, name: &str) -> ContainerType {
        let is_named = |container: &Container| container.name == name;
        if self.spec.init_containers.iter().flatten().any(is_named) {
            ContainerType::Init
        } else if self.ephemeral.iter().any(is_named) {
            ContainerType::Ephemeral
        } else {
            ContainerType::Container
        }
    }

    /// The same pod with another definition; its IDs do not change. `plan` is of the new definition, with the pod's user
    /// namespace.
    pub(crate) fn updated(&self, pod: Pod, plan: Option<Plan>) -> Self {
        let spec = pod.spec.clone().unwrap_or_default();
        let plan = plan.or_else(|| self.plan.clone());
        Self { ephemeral: ephemeral(&spec), spec, pod, plan, ..self.clone() }
    }

    /// Its annotations, as the runtime gets them.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        self.marks.of_pod(&self.pod)
    }

    /// The pod's host name and domain.
    pub(crate) fn hostname(&self) -> Hostname {
        Hostname::in_cluster(&self.spec, &self.namespace, &self.name, &self.domain)
    }

    /// `namespace/name`, for messages.
    pub(crate) fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub(crate) fn security_context(&self) -> PodSecurityContext {
        self.spec.security_context.clone().unwrap_or_default()
    }

    pub(crate) fn is_host_network(&self) -> bool {
        self.spec.host_network == Some(true)
    }

    /// Whether its limits of CPU are enforced.
    pub(crate) fn cpu_limits(&self) -> CpuLimits {
        self.cgroup.as_ref().map_or(CpuLimits::DEFAULT, |parent| parent.cpu)
    }

    /// Init containers, then regular ones.
    pub(crate) fn containers(&self) -> impl Iterator<Item = &Container> {
        self.spec.init_containers.iter().flatten().chain(&self.spec.containers)
    }

    /// Init containers, then regular ones, then ephemeral ones.
    pub(crate) fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.containers().chain(&self.ephemeral)
    }

    pub(crate) fn container(&self, name: &str) -> Option<&Container> {
        self.all_containers().find(|container| container.name == name)
    }

    /// The container whose processes an ephemeral container is to see: its `targetContainerName`.
    pub(crate) fn target(&self, ephemeral: &str) -> Option<&str> {
        let mut all = self.spec.ephemeral_containers.iter().flatten();
        let name = all.find(|one| one.name == ephemeral)?.target_container_name.as_deref()?;
        Some(name).filter(|name| !name.is_empty())
    }

    /// The ID mappings of the pod's user namespace as CRI messages; none in the host's user namespace.
    pub(crate) fn mappings(&self, kind: IdKind) -> Vec<cri::IdMapping> {
        id_mappings(&self.users.lines(kind).unwrap_or_default())
    }
}

/// The ephemeral containers of a pod, with the fields of other containers.
pub(crate) fn ephemeral(spec: &PodSpec) -> Vec<Container> {
    spec.ephemeral_containers.iter().flatten().map(manifest::as_container).collect()
}

#[cfg(test)]
impl PodContext {
    /// The pod `shop/web` with this spec, in the host's user namespace.
    pub(crate) fn for_test(spec: &str) -> Self {
        let pod: Pod =
            serde_json::from_str(&format!(r#"{{"metadata":{{"name":"web"}},"spec":{spec}}}"#)).unwrap();
        Self {
            uid: PodUid::new("u-1").unwrap(),
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            ephemeral: ephemeral(pod.spec.as_ref().unwrap()),
            spec: pod.spec.clone().unwrap(),
            pod,
            plan: None,
            users: UserNamespace::Host,
            level: None,
            is_selinux_on: false,
            handler: String::new(),
            node: "node-1".to_owned(),
            domain: "cluster.local".to_owned(),
            seccomp_default: false,
            oom_kill: OomKill::Process,
            node_fields: Arc::default(),
            marks: Marks::Own,
            instance: InstanceId::for_test("instance-1"),
            cgroup: None,
            profiles: PathBuf::from("/state/seccomp"),
            span: Span::none(),
        }
    }
}
