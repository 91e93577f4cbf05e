//! The spec that is built from a CRI request, and what is refused by which field.

mod confine;
mod mounts;
mod namespaces;
mod process;
mod resources;

use std::io;
use std::path::{Path, PathBuf};

use container::{ContainerSpec, Owners};
use cri::{
    ContainerConfig, IdMapping, LinuxContainerConfig, LinuxContainerResources, LinuxContainerSecurityContext,
    LinuxPodSandboxConfig, LinuxSandboxSecurityContext, NamespaceMode, NamespaceOption, PodSandboxConfig,
    UserNamespace,
};
use images::ImageConfig;
use runtime::spec::{
    self, CgroupVersion, ContainerRequest, ImageMount, NodeFacts, Refusal, SandboxResources,
};

/// A container that asks for nothing but a command, in a sandbox with namespaces of its own; tests change it.
struct Wish {
    sandbox: PodSandboxConfig,
    config: ContainerConfig,
    image: ImageConfig,
    place: SandboxResources,
    node: NodeFacts,
    image_mounts: Vec<ImageMount>,
    target: Option<PathBuf>,
}

impl Wish {
    fn new() -> Self {
        let security = LinuxSandboxSecurityContext {
            namespace_options: Some(options(NamespaceMode::Container)),
            ..Default::default()
        };
        let linux = LinuxPodSandboxConfig { security_context: Some(security), ..Default::default() };
        let config = ContainerConfig { command: vec!["/bin/true".into()], ..Default::default() };
        let wish = Self {
            sandbox: PodSandboxConfig { linux: Some(linux), ..Default::default() },
            config,
            image: ImageConfig::default(),
            place: place(),
            node: node(),
            image_mounts: vec![],
            target: None,
        };
        wish.with(|security| security.namespace_options = Some(options(NamespaceMode::Container)))
    }

    /// In a user namespace of the pod's own.
    fn in_user_namespace() -> Self {
        let mut wish = Self::new();
        let line = vec![IdMapping { host_id: 65_536, container_id: 0, length: 65_536 }];
        let users = UserNamespace { mode: NamespaceMode::Pod.into(), uids: line.clone(), gids: line };
        wish.sandbox_options().userns_options = Some(users.clone());
        wish.place.user = Some("/run/ns/user".into());
        wish.with(|security| {
            security.namespace_options.as_mut().unwrap().userns_options = Some(users.clone());
        })
    }

    fn with(mut self, change: impl Fn(&mut LinuxContainerSecurityContext)) -> Self {
        change(self.security());
        self
    }

    fn linux(&mut self) -> &mut LinuxContainerConfig {
        self.config.linux.get_or_insert_with(LinuxContainerConfig::default)
    }

    fn security(&mut self) -> &mut LinuxContainerSecurityContext {
        self.linux().security_context.get_or_insert_with(LinuxContainerSecurityContext::default)
    }

    fn resources(&mut self) -> &mut LinuxContainerResources {
        self.linux().resources.get_or_insert_with(LinuxContainerResources::default)
    }

    fn options(&mut self) -> &mut NamespaceOption {
        self.security().namespace_options.get_or_insert_with(NamespaceOption::default)
    }

    fn sandbox_security(&mut self) -> &mut LinuxSandboxSecurityContext {
        self.sandbox.linux.as_mut().unwrap().security_context.as_mut().unwrap()
    }

    fn sandbox_options(&mut self) -> &mut NamespaceOption {
        self.sandbox_security().namespace_options.as_mut().unwrap()
    }

    fn privileged(mut self) -> Self {
        self.sandbox_security().privileged = true;
        self.with(|security| security.privileged = true)
    }

    fn read_with(&self, read: &dyn Fn(&Path) -> io::Result<Vec<u8>>) -> Result<ContainerSpec, Refusal> {
        spec::container(&ContainerRequest {
            id: "c0ffee",
            sandbox: &self.sandbox,
            config: &self.config,
            image: &self.image,
            lowers: &[PathBuf::from("/layers/top"), PathBuf::from("/layers/bottom")],
            dir: Path::new("/state/c0ffee"),
            place: &self.place,
            image_mounts: &self.image_mounts,
            target: self.target.as_deref(),
            node: &self.node,
            read_profile: read,
        })
    }

    fn build(&self) -> Result<ContainerSpec, Refusal> {
        self.read_with(&|_| Err(io::ErrorKind::NotFound.into()))
    }

    #[track_caller]
    fn start(&self) -> ContainerSpec {
        self.build().unwrap()
    }

    /// The field of the refusal, if what it says has `cause` in it.
    #[track_caller]
    fn refused(&self, cause: &str) -> String {
        let refusal = self.build().unwrap_err();
        assert!(refusal.to_string().contains(cause), "{refusal}");
        refusal.field
    }
}

fn options(pid: NamespaceMode) -> NamespaceOption {
    NamespaceOption { pid: pid.into(), ..Default::default() }
}

fn place() -> SandboxResources {
    SandboxResources {
        sandbox: "5a4db0".into(),
        user: None,
        network: Some("/run/ns/net".into()),
        ipc: Some("/run/ns/ipc".into()),
        uts: Some("/run/ns/uts".into()),
        pid: None,
        hosts: Some("/run/sandbox/hosts".into()),
        hostname: Some("/run/sandbox/hostname".into()),
        resolv_conf: Some("/run/sandbox/resolv.conf".into()),
        shm: "/run/sandbox/shm".into(),
        cgroup_parent: "/kubepods/pod1".into(),
        label: None,
    }
}

fn node() -> NodeFacts {
    NodeFacts {
        systemd: false,
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

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
