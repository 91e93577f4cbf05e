use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ids::IdMapping;
use serde::{Deserialize, Serialize};
use types::MountPropagation;

/// Everything one container needs. It is written down before anything is done, so that whoever goes
/// on after a crash does the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Start {
    /// Its name among all containers of this host.
    pub id: String,
    /// What it sees as `/`.
    pub rootfs: Rootfs,
    /// What is mounted there, in order.
    pub mounts: Vec<MountSpec>,
    /// Directories that the image wants to be volumes; mounted before whatever is mounted below them.
    pub volumes: Vec<ImageVolume>,
    /// The namespaces it is in; that of its mounts is always new.
    pub spaces: Spaces,
    /// The maps of its user namespace; `None` with the host's.
    pub ids: Option<IdLines>,
    /// Its first process.
    pub process: Process,
    /// The name it has where its UTS namespace is new.
    pub hostname: Option<String>,
    /// Kernel settings of its namespaces.
    pub sysctls: BTreeMap<String, String>,
    /// Paths that it sees empty.
    pub masked_paths: Vec<String>,
    /// Paths that it cannot change.
    pub read_only_paths: Vec<String>,
    /// Devices that it has beside the usual ones.
    pub devices: Vec<Device>,
    /// Which devices it may use, in order; the usual ones are always allowed.
    pub device_rules: Vec<DeviceRule>,
    /// Its control group and limits.
    pub cgroup: Cgroup,
    /// Handed on to the runtime.
    pub annotations: BTreeMap<String, String>,
}

/// The maps of a user namespace, line by line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdLines {
    /// Of user IDs.
    pub uids: Vec<IdMapping>,
    /// Of group IDs.
    pub gids: Vec<IdMapping>,
}

/// What a container sees as `/`: an overlay of its image's layers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rootfs {
    /// The image's layers, the uppermost first, with container-side owners.
    pub lowers: Vec<PathBuf>,
    /// Where its own changes go.
    pub upper: PathBuf,
    /// The overlay's scratch space, beside `upper`.
    pub work: PathBuf,
    /// Whether it can be written to at all.
    pub read_only: bool,
    /// How the layers' files become those of the container's users; no matter with the host's.
    pub owners: Owners,
    /// The SELinux label of all its files and of what is mounted for it; `None` leaves labels as on disk.
    #[serde(default)]
    pub label: Option<String>,
}

/// How the files of an image become those of a user namespace's users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Owners {
    /// They are seen through its maps, or the container does not start.
    #[default]
    Idmap,
    /// They are seen through its maps; where the kernel cannot do that, they are given to its users.
    IdmapOrChown,
    /// They are given to its users, one by one, in the container's own layer.
    Chown,
}

/// A directory of an image that is to outlive the container's other changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageVolume {
    /// Where it is on the host. Its parent exists; it is made, and filled from the image, if it is not there.
    pub source: PathBuf,
    /// Where it appears, and where it is in the image.
    pub target: PathBuf,
}

/// One mount of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MountSpec {
    /// Something of the host.
    Bind(Bind),
    /// A filesystem of its own.
    New(NewMount),
    /// Files of another image.
    Image(ImageFiles),
}

impl MountSpec {
    /// Where it appears.
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
    /// Where it is on the host.
    pub source: PathBuf,
    /// Where it appears.
    pub target: PathBuf,
    /// The maps it is seen through; `None` leaves owners as on disk.
    pub ids: Option<IdLines>,
    /// Whether it can be written through.
    pub read_only: ReadOnly,
    /// Where mounts that are made below it turn up as well.
    #[serde(rename = "travel", with = "WrittenPropagation")]
    pub propagation: MountPropagation,
    /// Further options, as in an OCI mount: `noexec`, `nodev`, `nosuid`.
    pub options: Vec<String>,
}

/// Files of an image that is not the container's own: they can be read and run, not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImageFiles {
    /// The image's layers, the uppermost first, with container-side owners.
    pub layers: Vec<PathBuf>,
    /// The file or directory of the image that is shown, reached without a link; empty is all of it.
    pub sub_path: PathBuf,
    /// Where it appears.
    pub target: PathBuf,
    /// The maps it is seen through; `None` leaves owners as on disk.
    pub ids: Option<IdLines>,
}

/// Whether a bind can be written through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReadOnly {
    /// It can.
    #[default]
    No,
    /// It cannot, what is mounted below it may.
    Yes,
    /// Neither it nor what is mounted below it.
    Recursive,
}

/// How [`MountPropagation`] is written in a container's job, which a server of an earlier version may have left.
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

/// A filesystem made for the container: `proc`, `tmpfs`, `sysfs`, `mqueue`, `devpts`, `cgroup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMount {
    /// The kernel's name of it.
    pub filesystem: String,
    /// Where it appears.
    pub target: PathBuf,
    /// Its options.
    pub options: Vec<String>,
}

/// The namespaces of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spaces {
    /// Users.
    pub user: Space,
    /// The network.
    pub network: Space,
    /// IPC.
    pub ipc: Space,
    /// The host's name.
    pub uts: Space,
    /// Processes.
    pub pid: Space,
    /// Control groups.
    pub cgroup: Space,
}

/// Which namespace of its kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Space {
    /// The host's.
    #[default]
    Host,
    /// One of its own.
    New,
    /// The one that this path leads to.
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
    /// Where it starts; made if it is missing.
    pub cwd: PathBuf,
    /// Who it is to be.
    pub user: WantedUser,
    /// What it may do beyond its user.
    pub capabilities: crate::capabilities::Sets,
    /// Whether no program it starts may gain more.
    pub no_new_privileges: bool,
    /// Limits of the process itself.
    pub rlimits: Vec<Rlimit>,
    /// How soon it is killed when memory runs out.
    pub oom_score_adj: Option<i32>,
    /// Its AppArmor profile.
    pub apparmor_profile: Option<String>,
    /// Its SELinux label.
    pub selinux_label: Option<String>,
    /// Which system calls it may make.
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

/// Who a process is to be. What is not said is looked up in the container's own files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedUser {
    /// `user` or `user:group`, each a name or a number: the image's, or the pod's user name.
    pub name: Option<String>,
    /// The user's number; counts before the name.
    pub uid: Option<u32>,
    /// The group's number; counts before any other.
    pub gid: Option<u32>,
    /// The groups that the pod gives it.
    pub groups: Vec<u32>,
    /// Whether the image's groups count.
    pub policy: GroupPolicy,
}

/// Whether a user is also in the groups that the image's own files name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GroupPolicy {
    /// It is.
    #[default]
    Merge,
    /// It is in those that the pod gives it only.
    Strict,
}

/// Who a process is, by container-side numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The groups it is in beside that.
    pub groups: Vec<u32>,
}

/// A limit of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rlimit {
    /// `RLIMIT_NOFILE` and the like.
    pub kind: String,
    /// What holds.
    pub soft: u64,
    /// How far it may be raised.
    pub hard: u64,
}

/// Which system calls a process may make.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Seccomp {
    /// All.
    #[default]
    Unconfined,
    /// Those of this profile, in the form of OCI.
    Profile(Box<serde_json::Value>),
}

/// A device of a container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Device {
    /// Where it is on the host.
    pub source: PathBuf,
    /// Where it appears.
    pub target: PathBuf,
    /// `r`, `w` and `m`.
    pub access: String,
    /// Whose it is in a user namespace.
    #[serde(default)]
    pub owner: NodeOwner,
}

/// Whose a device is in a container with a user namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeOwner {
    /// The host's: nobody's inside, who may do with it what everybody on the host may.
    #[default]
    Host,
    /// The container's: it belongs to the same numbers inside as it does outside. Only for what was given to
    /// this container by name: its root can open it whatever its mode.
    Container,
}

/// A rule about devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeviceRule {
    /// Whether it allows.
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

/// The control group of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cgroup {
    /// Its path from the root of each hierarchy.
    pub path: String,
    /// Its limits.
    pub resources: Resources,
}

/// Limits of a control group; what is `None` is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// Weight of its processor time, as version 1 counts it.
    pub cpu_shares: Option<u64>,
    /// Microseconds of processor time in each period; negative is unlimited.
    pub cpu_quota: Option<i64>,
    /// Microseconds of a period.
    pub cpu_period: Option<u64>,
    /// Processors, as a list of ranges.
    pub cpuset_cpus: Option<String>,
    /// Memory nodes, as a list of ranges.
    pub cpuset_mems: Option<String>,
    /// Bytes of memory; negative is unlimited.
    pub memory: Option<i64>,
    /// Bytes of memory and swap together; negative is unlimited.
    pub memory_swap: Option<i64>,
    /// Processes and threads; negative is unlimited.
    pub pids: Option<i64>,
    /// Bytes of huge pages by page size as the kernel names it (`2MB`).
    pub hugepages: BTreeMap<String, u64>,
    /// Files of the unified hierarchy, by name.
    pub unified: BTreeMap<String, String>,
}
