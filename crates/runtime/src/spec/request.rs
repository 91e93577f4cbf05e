use std::io;
use std::path::{Path, PathBuf};

use container::{Owners, Rlimit};
use cri::{
    ContainerConfig, LinuxContainerSecurityContext, LinuxSandboxSecurityContext, NamespaceOption,
    PodSandboxConfig,
};
use images::ImageConfig;
use selinux::{HostDefaults, Label};

use super::mounts::image::ImagePart;

/// Where [`ContainerRequest::security`] is in a configuration.
pub(super) const SECURITY: &str = "linux.security_context";

/// Reads the file of a seccomp profile (`Localhost`).
pub type ProfileReader<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// Everything that a [`container::ContainerSpec`] is built from: the CRI request, the image, the sandbox and the node.
#[derive(Clone, Copy)]
pub struct ContainerRequest<'a> {
    /// The container's ID, unique on this host.
    pub id: &'a str,
    /// The sandbox's configuration from CRI.
    pub sandbox: &'a PodSandboxConfig,
    /// The container's configuration from CRI.
    pub config: &'a ContainerConfig,
    /// The image's configuration.
    pub image: &'a ImageConfig,
    /// The image's layers, the uppermost first.
    pub lowers: &'a [PathBuf],
    /// The container's directory: its upper layer (`rw`) and its image's volumes (`volumes`) are below it.
    pub dir: &'a Path,
    /// The sandbox's namespaces, files and cgroup.
    pub place: &'a SandboxResources,
    /// The resolved image volumes among the mounts of the configuration.
    pub image_mounts: &'a [ImageMount],
    /// The PID namespace of the target container (`NamespaceMode::Target`).
    pub target: Option<&'a Path>,
    /// The node's features and defaults.
    pub node: &'a NodeFacts,
    /// Reads seccomp profiles.
    pub read_profile: ProfileReader<'a>,
}

/// Namespaces, files and cgroup that were created for a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxResources {
    /// The sandbox's ID.
    pub sandbox: String,
    /// The pin of its user namespace; `None` means the host's, here and below.
    pub user: Option<PathBuf>,
    /// Its network namespace.
    pub network: Option<PathBuf>,
    /// Its IPC namespace.
    pub ipc: Option<PathBuf>,
    /// Its UTS namespace.
    pub uts: Option<PathBuf>,
    /// Its PID namespace, where one is shared.
    pub pid: Option<PathBuf>,
    /// Its `/etc/hosts`, if one was written. The root of the pod's user namespace owns it and the next two.
    pub hosts: Option<PathBuf>,
    /// Its `/etc/hostname`.
    pub hostname: Option<PathBuf>,
    /// Its `/etc/resolv.conf`.
    pub resolv_conf: Option<PathBuf>,
    /// Its `/dev/shm`, which the root of the pod's user namespace owns; the host's with the host's IPC namespace.
    pub shm: PathBuf,
    /// The parent cgroup of its containers.
    pub cgroup_parent: String,
    /// The SELinux label of its processes, if SELinux is enabled.
    pub label: Option<Label>,
}

/// A resolved image volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageMount {
    /// The index of the mount in the configuration.
    pub index: usize,
    /// The layers and the path, resolved by [`super::resolve_image_mount`].
    pub source: ImagePart,
}

/// Features and defaults of this node, the same for all containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// The host's name, which pods with the host's network have.
    pub hostname: String,
    /// Whether cgroups are units of systemd, which is process 1.
    pub systemd: bool,
    /// The cgroup version.
    pub cgroups: CgroupVersion,
    /// Whether swap can be limited.
    pub swap_limits: bool,
    /// Whether huge pages can be limited.
    pub hugepage_limits: bool,
    /// Default rlimits of every process.
    pub rlimits: Vec<Rlimit>,
    /// This process's `oom_score_adj`, if it lacks CAP_SYS_RESOURCE and so cannot set a lower one.
    pub lowest_oom_score: Option<i32>,
    /// The default limit of a container's processes.
    pub pids: Option<i64>,
    /// How image files get the IDs of a pod's user namespace.
    pub owners: Owners,
    /// AppArmor's profiles, if AppArmor is enabled.
    pub apparmor: Option<AppArmor>,
    /// The SELinux policy's labels for containers, if SELinux is enabled.
    pub selinux: Option<HostDefaults>,
    /// The label of privileged containers, if the loaded SELinux policy has it.
    pub privileged_label: Option<Label>,
}

impl NodeFacts {
    /// How callers make and name control groups: as slices where process 1 is systemd.
    #[must_use]
    pub fn cgroup_driver(&self) -> cri::CgroupDriver {
        if self.systemd { cri::CgroupDriver::Systemd } else { cri::CgroupDriver::Cgroupfs }
    }
}

/// The cgroup version of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupVersion {
    /// v1, or hybrid.
    V1,
    /// v2, the unified hierarchy.
    V2,
}

/// The AppArmor profiles that are loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppArmor {
    /// The profile for `RuntimeDefault`.
    pub default: Option<String>,
    /// All profiles by name.
    pub loaded: Vec<String>,
}

impl ContainerRequest<'_> {
    /// The part of a configuration that most rules are about; what is absent is all defaults.
    pub(super) fn security(&self) -> LinuxContainerSecurityContext {
        let linux = self.config.linux.as_ref();
        linux.and_then(|linux| linux.security_context.clone()).unwrap_or_default()
    }

    pub(super) fn sandbox_security(&self) -> Option<&LinuxSandboxSecurityContext> {
        self.sandbox.linux.as_ref()?.security_context.as_ref()
    }

    pub(super) fn sandbox_options(&self) -> Option<&NamespaceOption> {
        self.sandbox_security()?.namespace_options.as_ref()
    }

    pub(super) fn options(&self) -> Option<&NamespaceOption> {
        self.config.linux.as_ref()?.security_context.as_ref()?.namespace_options.as_ref()
    }
}

impl std::fmt::Debug for ContainerRequest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContainerRequest").field("id", &self.id).finish_non_exhaustive()
    }
}
