//! Pods as the tests ask for them.

use std::path::Path;

use cri::NamespaceMode;
use testbed::images::BUSYBOX;

use super::{Node, WARD};

/// What a pod says to get a block of its own.
pub const ASKS: &str = "wardlet.dev/user-namespace";

#[derive(Debug, Clone)]
pub struct Pod {
    pub config: cri::PodSandboxConfig,
    pub handler: String,
}

impl Pod {
    /// One that asks for nothing, of the handler that calls us.
    pub fn plain(node: &Node, name: &str) -> Self {
        let metadata = cri::PodSandboxMetadata {
            name: name.into(),
            uid: format!("uid-of-{name}"),
            namespace: "tests".into(),
            attempt: 0,
        };
        let options = cri::NamespaceOption { pid: NamespaceMode::Container.into(), ..Default::default() };
        let context =
            cri::LinuxSandboxSecurityContext { namespace_options: Some(options), ..Default::default() };
        let config = cri::PodSandboxConfig {
            metadata: Some(metadata),
            hostname: name.into(),
            log_directory: node.dir(&format!("logs/{name}")).display().to_string(),
            linux: Some(cri::LinuxPodSandboxConfig { security_context: Some(context), ..Default::default() }),
            ..Default::default()
        };
        Self { config, handler: WARD.into() }
    }

    /// One that asks for a block.
    pub fn annotated(node: &Node, name: &str) -> Self {
        Self::plain(node, name).with(ASKS, "true")
    }

    pub fn with(mut self, annotation: &str, value: &str) -> Self {
        self.config.annotations.insert(annotation.into(), value.into());
        self
    }

    pub fn by(mut self, handler: &str) -> Self {
        self.handler = handler.into();
        self
    }

    pub fn sysctl(mut self, name: &str, value: &str) -> Self {
        self.config.linux.as_mut().unwrap().sysctls.insert(name.into(), value.into());
        self
    }

    pub fn context(&mut self) -> &mut cri::LinuxSandboxSecurityContext {
        self.config.linux.as_mut().unwrap().security_context.as_mut().unwrap()
    }

    pub fn options(&mut self) -> &mut cri::NamespaceOption {
        self.context().namespace_options.as_mut().unwrap()
    }

    /// A container that runs a script of the shell, in the namespaces of its pod.
    pub fn shell(&self, name: &str, script: &str) -> cri::ContainerConfig {
        let options = self.clone().options().clone();
        let context =
            cri::LinuxContainerSecurityContext { namespace_options: Some(options), ..Default::default() };
        cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata { name: name.into(), attempt: 0 }),
            image: Some(cri::ImageSpec { image: BUSYBOX.into(), ..Default::default() }),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            log_path: format!("{name}.log"),
            linux: Some(cri::LinuxContainerConfig { security_context: Some(context), ..Default::default() }),
            ..Default::default()
        }
    }

    /// What a container of this pod has written, without times and tags.
    pub fn logged(&self, container: &str) -> String {
        let path = Path::new(&self.config.log_directory).join(format!("{container}.log"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).map(|line| format!("{line}\n")).collect()
    }
}

pub trait Shaped {
    fn user(self, id: i64) -> Self;
    fn volume(self, host: &Path, inside: &str) -> Self;
    fn read_only(self, host: &Path, inside: &str) -> Self;
    fn security(&mut self) -> &mut cri::LinuxContainerSecurityContext;
}

impl Shaped for cri::ContainerConfig {
    fn user(mut self, id: i64) -> Self {
        self.security().run_as_user = Some(cri::Int64Value { value: id });
        self.security().run_as_group = Some(cri::Int64Value { value: id });
        self
    }

    fn volume(mut self, host: &Path, inside: &str) -> Self {
        let (host_path, container_path) = (host.display().to_string(), inside.to_owned());
        self.mounts.push(cri::Mount { host_path, container_path, ..Default::default() });
        self
    }

    fn read_only(self, host: &Path, inside: &str) -> Self {
        let mut config = self.volume(host, inside);
        config.mounts.last_mut().unwrap().readonly = true;
        config
    }

    fn security(&mut self) -> &mut cri::LinuxContainerSecurityContext {
        self.linux.as_mut().unwrap().security_context.as_mut().unwrap()
    }
}
