//! Requests to the runtime in a serialisable form, for a comparison with the plan.

use serde::Serialize;
use types::MountPropagation;

/// One request that creates a sandbox or a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// The CRI method.
    pub call: &'static str,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container; `None` for a sandbox.
    pub container: Option<String>,
    /// The requested user namespace.
    pub user_namespace: Option<UserNamespaceAsked>,
    /// The requested SELinux options, as `USER:ROLE:TYPE:LEVEL` with what is named of them.
    pub selinux: Option<String>,
    /// The requested mounts.
    pub mounts: Vec<MountAsked>,
}

/// A user namespace in a CRI request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserNamespaceAsked {
    /// `Pod` or `Node`.
    pub mode: String,
    /// Host ID, container ID, length.
    pub uids: Vec<[u32; 3]>,
    /// The same for groups.
    pub gids: Vec<[u32; 3]>,
}

/// A mount in a CRI request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MountAsked {
    /// Its path in the container.
    pub path: String,
    /// Its source on the host.
    pub host_path: String,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether mounts below it are read-only too.
    pub recursive_read_only: bool,
    /// `None`, `HostToContainer` or `Bidirectional`.
    pub propagation: &'static str,
    /// Whether the runtime relabels it.
    pub relabel: bool,
    /// Host ID, container ID, length; empty if it is not idmapped.
    pub uids: Vec<[u32; 3]>,
    /// The same for groups.
    pub gids: Vec<[u32; 3]>,
}

fn lines(mappings: &[cri::IdMapping]) -> Vec<[u32; 3]> {
    mappings.iter().map(|m| [m.host_id, m.container_id, m.length]).collect()
}

fn propagation(mount: &cri::Mount) -> &'static str {
    match mount.propagation() {
        cri::MountPropagation::PropagationPrivate => MountPropagation::None.name(),
        cri::MountPropagation::PropagationHostToContainer => MountPropagation::HostToContainer.name(),
        cri::MountPropagation::PropagationBidirectional => MountPropagation::Bidirectional.name(),
    }
}

fn namespace(options: Option<&cri::NamespaceOption>) -> Option<UserNamespaceAsked> {
    let asked = options?.userns_options.as_ref()?;
    let mode = if asked.mode() == cri::NamespaceMode::Pod { "Pod" } else { "Node" };
    Some(UserNamespaceAsked { mode: mode.into(), uids: lines(&asked.uids), gids: lines(&asked.gids) })
}

fn label(options: Option<&cri::SeLinuxOption>) -> Option<String> {
    options.map(|asked| format!("{}:{}:{}:{}", asked.user, asked.role, asked.r#type, asked.level))
}

impl Call {
    pub(crate) fn sandbox(config: &cri::PodSandboxConfig) -> Self {
        let metadata = config.metadata.clone().unwrap_or_default();
        let context = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
        Self {
            call: "RunPodSandbox",
            namespace: metadata.namespace,
            pod: metadata.name,
            container: None,
            user_namespace: namespace(context.and_then(|c| c.namespace_options.as_ref())),
            selinux: label(context.and_then(|c| c.selinux_options.as_ref())),
            mounts: Vec::new(),
        }
    }

    pub(crate) fn container(request: &cri::CreateContainerRequest) -> Option<Self> {
        let of_pod = Self::sandbox(request.sandbox_config.as_ref()?);
        let config = request.config.as_ref()?;
        let context = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
        let mounts = config.mounts.iter().map(|mount| MountAsked {
            path: mount.container_path.clone(),
            host_path: mount.host_path.clone(),
            read_only: mount.readonly,
            recursive_read_only: mount.recursive_read_only,
            propagation: propagation(mount),
            relabel: mount.selinux_relabel,
            uids: lines(&mount.uid_mappings),
            gids: lines(&mount.gid_mappings),
        });
        Some(Self {
            call: "CreateContainer",
            container: config.metadata.as_ref().map(|m| m.name.clone()),
            user_namespace: namespace(context.and_then(|c| c.namespace_options.as_ref())),
            selinux: label(context.and_then(|c| c.selinux_options.as_ref())),
            mounts: mounts.collect(),
            ..of_pod
        })
    }
}
