//! What targets share: a container of a sandbox, for those that build its spec; edits of a configuration
//! and what they give away, for the one that watches the wrapper's guard.

pub mod edits;
pub mod power;

use std::io;
use std::path::{Path, PathBuf};

use container::{Owners, ContainerSpec};
use images::ImageConfig;
use runtime::spec::{self, ContainerRequest, CgroupVersion, NodeFacts, SandboxResources, Refusal};
use cri::{
    ContainerConfig, IdMapping, LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode,
    NamespaceOption, PodSandboxConfig, UserNamespace,
};

/// The sandboxes that a container is asked for in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of the host's users.
    HostUsers,
    /// Of users of its own.
    OwnUsers,
    /// For privileged containers, too.
    Privileged,
}

/// The spec that is built from `config`; every seccomp profile it names reads as `profile`.
pub fn build_spec(kind: Kind, config: &ContainerConfig, profile: &[u8]) -> Result<ContainerSpec, Refusal> {
    let read = |_: &Path| -> io::Result<Vec<u8>> { Ok(profile.to_vec()) };
    spec::container(&ContainerRequest {
        id: "c0ffee",
        sandbox: &sandbox(kind),
        config,
        image: &ImageConfig { cmd: vec!["/bin/true".into()], ..Default::default() },
        lowers: &[PathBuf::from("/layers/one")],
        dir: Path::new("/state/c0ffee"),
        place: &place(kind),
        image_mounts: &[],
        target: None,
        node: &node(),
        read_profile: &read,
    })
}

/// The options of a sandbox of this kind: a container that says the same is not refused for them.
pub fn options(kind: Kind) -> NamespaceOption {
    let line = vec![IdMapping { host_id: 65_536, container_id: 0, length: 65_536 }];
    let users = UserNamespace { mode: NamespaceMode::Pod.into(), uids: line.clone(), gids: line };
    NamespaceOption {
        pid: NamespaceMode::Container.into(),
        userns_options: (kind == Kind::OwnUsers).then_some(users),
        ..Default::default()
    }
}

fn sandbox(kind: Kind) -> PodSandboxConfig {
    let security = LinuxSandboxSecurityContext {
        namespace_options: Some(options(kind)),
        privileged: kind == Kind::Privileged,
        ..Default::default()
    };
    let linux = LinuxPodSandboxConfig { security_context: Some(security), ..Default::default() };
    PodSandboxConfig { linux: Some(linux), ..Default::default() }
}

fn place(kind: Kind) -> SandboxResources {
    SandboxResources {
        sandbox: "5a4db0".into(),
        user: (kind == Kind::OwnUsers).then(|| "/run/ns/user".into()),
        network: Some("/run/ns/net".into()),
        ipc: Some("/run/ns/ipc".into()),
        uts: Some("/run/ns/uts".into()),
        shm: "/run/sandbox/shm".into(),
        cgroup_parent: "/kubepods/pod1".into(),
        ..Default::default()
    }
}

fn node() -> NodeFacts {
    NodeFacts {
        hostname: "node1".into(),
        cgroups: CgroupVersion::V1,
        swap_limits: true,
        hugepage_limits: true,
        rlimits: vec![],
        lowest_oom_score: None,
        pids: None,
        owners: Owners::Idmap,
        apparmor: None,
        selinux: None,
        privileged_label: None,
    }
}
