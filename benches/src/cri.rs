//! A container runtime of the testbed, driven over CRI: whoever it is, by the same calls.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use testbed::{Containerd, Options, Part, Parts, Testbed};
use wire::Endpoint;
use wire::client::Client;
use wire::cri::{
    ContainerConfig, ContainerMetadata, CreateContainerRequest, ExecSyncRequest, IdMapping, ImageSpec,
    LinuxContainerConfig, LinuxContainerSecurityContext, LinuxPodSandboxConfig, LinuxSandboxSecurityContext,
    NamespaceMode, NamespaceOption, PodSandboxConfig, PodSandboxMetadata, RemovePodSandboxRequest,
    RunPodSandboxRequest, StartContainerRequest, StopPodSandboxRequest, UserNamespace,
};

use crate::memory;

const PATIENCE: Duration = Duration::from_secs(60);
/// The first block, of 65 536 IDs each: far from anybody's.
const FIRST_ID: u32 = 2_000_027_648;

/// A runtime that is up.
pub(crate) struct Runtime {
    testbed: Testbed,
    client: Client,
    logs: tempfile::TempDir,
}

/// A pod that runs.
pub(crate) struct Pod {
    sandbox: String,
    container: String,
}

impl Runtime {
    pub(crate) async fn start(which: Containerd) -> anyhow::Result<Self> {
        let options = Options { containerd: which, ..Options::from(Parts::of(&[Part::Containerd])) };
        let testbed = Testbed::start(options)?;
        let client = Client::connect(&Endpoint::try_from(testbed.containerd_socket())?).await?;
        Ok(Self { testbed, client, logs: tempfile::tempdir_in("/var/tmp")? })
    }

    /// Sandbox, container, and its first instruction seen in its log.
    pub(crate) async fn pod(&self, number: u32) -> anyhow::Result<(Pod, Duration)> {
        let began = Instant::now();
        let mut runtime = self.client.runtime();
        let config = self.sandbox(number);
        let request = RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
        let sandbox =
            runtime.run_pod_sandbox(request).await.context("a sandbox")?.into_inner().pod_sandbox_id;
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.clone(),
            config: Some(container(number)),
            sandbox_config: Some(config),
        };
        let container = runtime.create_container(request).await.context("a container")?.into_inner();
        let container = container.container_id;
        let request = StartContainerRequest { container_id: container.clone() };
        runtime.start_container(request).await.context("start")?;
        self.wait_for_the_first_line(number, began).await?;
        Ok((Pod { sandbox, container }, began.elapsed()))
    }

    async fn wait_for_the_first_line(&self, number: u32, began: Instant) -> anyhow::Result<()> {
        let log = self.log_directory(number).join("main.log");
        while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains(" F up\n")) {
            if began.elapsed() > PATIENCE {
                bail!("{}: pod {number} has not said a word", self.testbed.name());
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        Ok(())
    }

    /// One more process in it, to its end.
    pub(crate) async fn exec(&self, pod: &Pod) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let cmd = vec!["true".to_owned()];
        let request = ExecSyncRequest { container_id: pod.container.clone(), cmd, timeout: 30 };
        let code = self.client.runtime().exec_sync(request).await.context("exec")?.into_inner().exit_code;
        if code != 0 {
            bail!("{}: true ended with {code}", self.testbed.name());
        }
        Ok(began.elapsed())
    }

    /// Stopped and gone.
    pub(crate) async fn end(&self, pod: Pod) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let mut runtime = self.client.runtime();
        let pod_sandbox_id = pod.sandbox;
        let request = StopPodSandboxRequest { pod_sandbox_id: pod_sandbox_id.clone() };
        runtime.stop_pod_sandbox(request).await.context("stop")?;
        runtime.remove_pod_sandbox(RemovePodSandboxRequest { pod_sandbox_id }).await.context("remove")?;
        Ok(began.elapsed())
    }

    /// Kilobytes of all processes that serve pods, the pods' own left out.
    pub(crate) fn kilobytes(&self) -> anyhow::Result<u64> {
        let supervisor = self.testbed.record().supervisor.context("a testbed without a supervisor")?;
        memory::of_servers(u32::try_from(supervisor.pid)?)
    }

    fn log_directory(&self, number: u32) -> PathBuf {
        self.logs.path().join(number.to_string())
    }

    fn sandbox(&self, number: u32) -> PodSandboxConfig {
        let metadata = PodSandboxMetadata {
            name: format!("bench-{number}"),
            uid: format!("00000000-0000-0000-0000-{number:012}"),
            namespace: "default".into(),
            attempt: 0,
        };
        let context =
            LinuxSandboxSecurityContext { namespace_options: Some(namespaces(number)), ..Default::default() };
        PodSandboxConfig {
            metadata: Some(metadata),
            hostname: format!("bench-{number}"),
            log_directory: self.log_directory(number).display().to_string(),
            linux: Some(LinuxPodSandboxConfig { security_context: Some(context), ..Default::default() }),
            ..Default::default()
        }
    }
}

fn namespaces(number: u32) -> NamespaceOption {
    let host_id = FIRST_ID + (number % 4000) * 65_536;
    let ids = vec![IdMapping { host_id, container_id: 0, length: 65_536 }];
    let userns = UserNamespace { mode: NamespaceMode::Pod.into(), uids: ids.clone(), gids: ids };
    NamespaceOption {
        network: NamespaceMode::Pod.into(),
        pid: NamespaceMode::Container.into(),
        userns_options: Some(userns),
        ..Default::default()
    }
}

fn container(number: u32) -> ContainerConfig {
    let context =
        LinuxContainerSecurityContext { namespace_options: Some(namespaces(number)), ..Default::default() };
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: "main".into(), attempt: 0 }),
        image: Some(ImageSpec { image: testbed::images::BUSYBOX.into(), ..Default::default() }),
        // It ends at once when told to: what is measured is the runtime's part.
        command: ["sh", "-c", "trap 'exit 0' TERM; echo up; sleep 1000000 & wait"].map(str::to_owned).into(),
        log_path: "main.log".into(),
        linux: Some(LinuxContainerConfig { security_context: Some(context), ..Default::default() }),
        ..Default::default()
    }
}
