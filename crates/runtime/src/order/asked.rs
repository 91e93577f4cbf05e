use std::io;
use std::path::{Path, PathBuf};

use bundle::{Owners, Rlimit};
use images::ImageConfig;
use labels::{HostDefaults, Label};
use wire::cri::{
    ContainerConfig, LinuxContainerSecurityContext, LinuxSandboxSecurityContext, NamespaceOption,
    PodSandboxConfig,
};

use super::ImagePart;

/// Reads the file of a seccomp profile.
pub type ProfileReader<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// Everything that an order is made from.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The container's name among all of this host.
    pub id: &'a str,
    /// The sandbox as it was asked for.
    pub sandbox: &'a PodSandboxConfig,
    /// The container as it is asked for.
    pub config: &'a ContainerConfig,
    /// What its image says.
    pub image: &'a ImageConfig,
    /// The image's layers, the uppermost first.
    pub lowers: &'a [PathBuf],
    /// Where the container keeps what it writes: `rw` and `volumes` are below it.
    pub dir: &'a Path,
    /// What was made for the sandbox.
    pub place: &'a Place,
    /// What was found for each mount of the configuration that is of an image.
    pub image_mounts: &'a [ImageMount],
    /// The PID namespace of the container that this one names as its target.
    pub target: Option<&'a Path>,
    /// What holds on this node.
    pub node: &'a Node,
    /// How seccomp profiles are read.
    pub read_profile: ProfileReader<'a>,
}

/// What was made for a sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The sandbox's ID.
    pub sandbox: String,
    /// Where its user namespace is pinned; `None` is the host's, as for the others.
    pub user: Option<PathBuf>,
    /// Its network namespace.
    pub network: Option<PathBuf>,
    /// Its IPC namespace.
    pub ipc: Option<PathBuf>,
    /// Its UTS namespace.
    pub uts: Option<PathBuf>,
    /// Its PID namespace, where one is shared.
    pub pid: Option<PathBuf>,
    /// Its `/etc/hosts`, where one was made; it and the next two belong to its own root already.
    pub hosts: Option<PathBuf>,
    /// Its `/etc/hostname`.
    pub hostname: Option<PathBuf>,
    /// Its `/etc/resolv.conf`.
    pub resolv_conf: Option<PathBuf>,
    /// Its `/dev/shm`, which belongs to its own root already; the host's with the host's IPC.
    pub shm: PathBuf,
    /// The control group above its containers'.
    pub cgroup_parent: String,
    /// The label of its processes, where SELinux is on.
    pub label: Option<Label>,
}

/// What a mount of an image leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageMount {
    /// Which mount of the configuration, from 0.
    pub index: usize,
    /// What is mounted, found by [`super::resolve_image_mount`].
    pub source: ImagePart,
}

/// What holds on this node, for all containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The host's name: that of pods in its network.
    pub hostname: String,
    /// Which control groups the limits are of.
    pub cgroups: CgroupVersion,
    /// Whether swap can be limited.
    pub swap_limits: bool,
    /// Whether huge pages can be limited.
    pub hugepage_limits: bool,
    /// Limits of every process.
    pub rlimits: Vec<Rlimit>,
    /// Our own `oom_score_adj` where we lack CAP_SYS_RESOURCE and so cannot give a lower one.
    pub lowest_oom_score: Option<i32>,
    /// Processes that a container may have unless it is told otherwise.
    pub pids: Option<i64>,
    /// How images' files become the pod's.
    pub owners: Owners,
    /// AppArmor, where the kernel has it switched on.
    pub apparmor: Option<AppArmor>,
    /// SELinux's own labels for containers, where it is switched on.
    pub selinux: Option<HostDefaults>,
}

/// Which control groups a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupVersion {
    /// One hierarchy for each controller, also beside a unified one that has few.
    V1,
    /// One for all.
    V2,
}

/// What AppArmor has loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AppArmor {
    /// The profile of containers that ask for the runtime's own.
    pub default: Option<String>,
    /// All profiles by name.
    pub loaded: Vec<String>,
}

impl Asked<'_> {
    pub(super) fn security(&self) -> LinuxContainerSecurityContext {
        super::security(self.config)
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

impl std::fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").field("id", &self.id).finish_non_exhaustive()
    }
}
