use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cgroups::Resources;
use ids::IdMappings;
use serde::{Deserialize, Serialize};
use types::MountPropagation;

/// Everything that one container needs. It is recorded before anything is done, so that a process which continues
/// after a crash does the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContainerSpec {
    /// Its unique ID on this host.
    pub id: String,
    /// Its root filesystem.
    pub rootfs: Rootfs,
    /// Its mounts, in order.
    pub mounts: Vec<MountSpec>,
    /// Volumes of the image; mounted before whatever is mounted below them.
    pub volumes: Vec<ImageVolume>,
    /// Its namespaces; the mount namespace is always new.
    #[serde(rename = "spaces")]
    pub namespaces: NamespaceSpecs,
    /// The maps of its user namespace; `None` with the host's.
    pub ids: Option<IdMappings>,
    /// Its first process.
    pub process: Process,
    /// Its host name, where its UTS namespace is new.
    pub hostname: Option<String>,
    /// Sysctls of its namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// Masked paths.
    pub masked_paths: Vec<String>,
    /// Read-only paths.
    pub read_only_paths: Vec<String>,
    /// Devices beside the default ones.
    pub devices: Vec<Device>,
    /// Device rules, in order; the default devices are always allowed.
    pub device_rules: Vec<DeviceRule>,
    /// Its cgroup and limits.
    pub cgroup: Cgroup,
    /// Passed to the runtime.
    pub annotations: BTreeMap<String, String>,
}

/// A container's root filesystem: an overlay of its image's layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rootfs {
    /// The image's layers, the uppermost first, with container-side owners.
    pub lowers: Vec<PathBuf>,
    /// The overlay's upper directory.
    pub upper: PathBuf,
    /// The overlay's work directory, beside `upper`.
    pub work: PathBuf,
    /// Whether it is read-only.
    pub read_only: bool,
    /// How the layers' files get the IDs of the container's user namespace; ignored with the host's.
    pub owners: Owners,
    /// The SELinux label of all its files and of what is mounted for it; `None` leaves labels as on disk.
    #[serde(default)]
    pub label: Option<String>,
}

/// How the files of an image get the IDs of a container's user namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owners {
    /// By an idmapped mount. If the kernel cannot make one, the container does not start.
    #[default]
    Idmap,
    /// By an idmapped mount; if the kernel cannot make one, by `chown`.
    IdmapOrChown,
    /// By `chown` of each file, in the container's upper directory.
    Chown,
}

/// A `VOLUME` of an image: a directory of the host, filled from the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageVolume {
    /// Its path on the host. Its parent must exist; it is created, and filled from the image, if it is missing.
    pub source: PathBuf,
    /// Its path in the container and in the image.
    pub target: PathBuf,
}

/// One mount of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MountSpec {
    /// A file or directory of the host.
    Bind(Bind),
    /// A new filesystem.
    New(NewMount),
    /// Files of another image.
    Image(ImageFiles),
}

impl MountSpec {
    /// The mount point in the container.
    #[must_use]
    pub fn target(&self) -> &Path {
        match self {
            Self::Bind(bind) => &bind.target,
            Self::New(new) => &new.target,
            Self::Image(image) => &image.target,
        }
    }
}

/// A file or directory of the host in the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bind {
    /// Its path on the host.
    pub source: PathBuf,
    /// The mount point in the container.
    pub target: PathBuf,
    /// The maps that it is idmapped with; `None` leaves owners as on disk.
    pub ids: Option<IdMappings>,
    /// Whether it is read-only.
    pub read_only: ReadOnly,
    /// Its mount propagation.
    #[serde(rename = "travel", with = "WrittenPropagation")]
    pub propagation: MountPropagation,
    /// Further options, as in an OCI mount: `noexec`, `nodev`, `nosuid`.
    pub options: Vec<String>,
}

/// An image volume: files of another image, mounted read-only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageFiles {
    /// The image's layers, the uppermost first, with container-side owners.
    pub layers: Vec<PathBuf>,
    /// The file or directory of the image that is mounted, resolved without following links; empty is all of it.
    pub sub_path: PathBuf,
    /// The mount point in the container.
    pub target: PathBuf,
    /// The maps that it is idmapped with; `None` leaves owners as on disk.
    pub ids: Option<IdMappings>,
}

/// Whether a bind mount is read-only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReadOnly {
    /// Writable.
    #[default]
    No,
    /// Read-only; submounts may be writable.
    Yes,
    /// Read-only, with all submounts.
    Recursive,
}

/// The serialized form of [`MountPropagation`] in a container's job, which a server of an earlier version may have
/// written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "MountPropagation")]
enum WrittenPropagation {
    #[serde(rename = "private")]
    None,
    #[serde(rename = "fromHost")]
    HostToContainer,
    #[serde(rename = "bothWays")]
    Bidirectional,
}

/// A new filesystem of the container: `proc`, `tmpfs`, `sysfs`, `mqueue`, `devpts`, `cgroup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMount {
    /// Its type.
    pub filesystem: String,
    /// The mount point in the container.
    pub target: PathBuf,
    /// Its options.
    pub options: Vec<String>,
}

/// The namespaces of a container, one field for each kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceSpecs {
    /// The user namespace.
    pub user: NamespaceSpec,
    /// The network namespace.
    pub network: NamespaceSpec,
    /// The IPC namespace.
    pub ipc: NamespaceSpec,
    /// The UTS namespace.
    pub uts: NamespaceSpec,
    /// The PID namespace.
    pub pid: NamespaceSpec,
    /// The cgroup namespace.
    pub cgroup: NamespaceSpec,
}

/// Which namespace of one kind a container gets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NamespaceSpec {
    /// The host's namespace.
    #[default]
    Host,
    /// A new namespace.
    New,
    /// The namespace that is pinned at this path.
    At(PathBuf),
}

/// The first process of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Process {
    /// The program and its arguments.
    pub args: Vec<String>,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// Its working directory; created if it is missing.
    pub cwd: PathBuf,
    /// The requested user.
    pub user: WantedUser,
    /// Its capabilities.
    pub capabilities: crate::capabilities::Sets,
    /// `no_new_privs`.
    pub no_new_privileges: bool,
    /// Limits of the process itself.
    pub rlimits: Vec<Rlimit>,
    /// Its `oom_score_adj`.
    pub oom_score_adj: Option<i32>,
    /// Its AppArmor profile.
    pub apparmor_profile: Option<String>,
    /// Its SELinux label.
    pub selinux_label: Option<String>,
    /// Its seccomp profile.
    pub seccomp: Seccomp,
    /// Whether it has a terminal.
    pub console: Console,
}

/// Whether a process has a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Console {
    /// Pipes only.
    #[default]
    Pipes,
    /// A terminal.
    Terminal,
}

/// The user that a process is to have. What is not set is looked up in the container's own files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedUser {
    /// `user` or `user:group`, each a name or a number: the image's, or the pod's user name.
    pub name: Option<String>,
    /// The user ID; takes precedence over the name.
    pub uid: Option<u32>,
    /// The group ID; takes precedence over any other.
    pub gid: Option<u32>,
    /// Supplementary groups of the pod.
    pub groups: Vec<u32>,
    /// Whether the image's groups count.
    pub policy: GroupPolicy,
}

/// Whether a user is also in the groups that the image's own files name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupPolicy {
    /// Yes: the groups of `/etc/group` in the image and those of the pod.
    #[default]
    Merge,
    /// No: only those of the pod.
    Strict,
}

/// The user of a process, as IDs inside the container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its supplementary groups.
    pub groups: Vec<u32>,
}

/// A limit of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rlimit {
    /// `RLIMIT_NOFILE` and the like.
    pub kind: String,
    /// The soft limit.
    pub soft: u64,
    /// The hard limit.
    pub hard: u64,
}

/// The seccomp filter of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Seccomp {
    /// All system calls are allowed.
    #[default]
    Unconfined,
    /// A seccomp profile, in OCI's format.
    Profile(Box<serde_json::Value>),
}

/// A device of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Device {
    /// Its path on the host.
    pub source: PathBuf,
    /// Its path in the container.
    pub target: PathBuf,
    /// `r`, `w` and `m`.
    pub access: String,
    /// Its owner in a user namespace.
    #[serde(default)]
    pub owner: NodeOwner,
}

/// The owner of a device in a container with a user namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeOwner {
    /// The host's: inside it has the overflow ID, with the permissions of every other user of the host.
    #[default]
    Host,
    /// The container's: it has the same IDs inside as it has outside. Only for a device that was given to this
    /// container by name: its root can open it whatever its mode.
    Container,
}

/// A rule about devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceRule {
    /// Whether it allows or denies.
    pub allow: bool,
    /// `c`, `b` or `a`.
    pub kind: char,
    /// `None` is all.
    pub major: Option<u32>,
    /// `None` is all.
    pub minor: Option<u32>,
    /// `r`, `w` and `m`.
    pub access: String,
}

/// The cgroup of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cgroup {
    /// Its path from the root of each hierarchy.
    pub path: String,
    /// Its limits.
    pub resources: Resources,
}
