//! A container runtime of the testbed, driven over CRI: every runtime by the same calls.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use cri::Endpoint;
use cri::client::Client;
use cri::{
    ContainerConfig, ContainerMetadata, CreateContainerRequest, ExecSyncRequest, IdMapping, ImageSpec,
    LinuxContainerConfig, LinuxContainerSecurityContext, LinuxPodSandboxConfig, LinuxSandboxSecurityContext,
    NamespaceMode, NamespaceOption, PodSandboxConfig, PodSandboxMetadata, RemovePodSandboxRequest,
    RunPodSandboxRequest, StartContainerRequest, StopPodSandboxRequest, UserNamespace,
};
use testbed::{Containerd, Handler, Options, Part, Parts, Testbed};

use crate::memory;

const PATIENCE: Duration = Duration::from_secs(60);
/// The first block, of 65 536 IDs each: far from any block that is in use.
const FIRST_ID: u32 = 2_000_027_648;
/// The annotation by which a pod asks the wrapper for a user namespace.
const ASKS: &str = "wardlet.dev/user-namespace";

/// A pod, as it is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Of its own: names, directories and host IDs follow from it.
    pub(crate) number: u32,
    /// The runtime handler; the usual one if empty.
    pub(crate) handler: &'static str,
    pub(crate) users: Users,
}

/// Where a pod's users come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    /// The host.
    Host,
    /// A user namespace by CRI.
    Cri,
    /// A user namespace by the wrapper, which goes by an annotation; without the wrapper the host.
    Annotation,
}

/// How long the parts of a pod's start took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    /// `RunPodSandbox`.
    pub(crate) sandbox: Duration,
    /// `StartContainer`, in which containerd has the shim create the container.
    pub(crate) start: Duration,
    /// From the first call to the first line of the log.
    pub(crate) all: Duration,
}

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
        Self::with_handlers(which, vec![]).await
    }

    /// With more runtime handlers than the usual one.
    pub(crate) async fn with_handlers(which: Containerd, handlers: Vec<Handler>) -> anyhow::Result<Self> {
        let options =
            Options { containerd: which, handlers, ..Options::from(Parts::of(&[Part::Containerd])) };
        let testbed = Testbed::start(options)?;
        let client = Client::connect(&Endpoint::try_from(testbed.containerd_socket())?).await?;
        Ok(Self { testbed, client, logs: tempfile::tempdir_in("/var/tmp")? })
    }

    /// Sandbox, container, and its first instruction seen in its log.
    pub(crate) async fn pod(&self, wanted: Wanted) -> anyhow::Result<(Pod, Took)> {
        let began = Instant::now();
        let mut runtime = self.client.runtime();
        let config = self.sandbox(wanted);
        let runtime_handler = wanted.handler.to_owned();
        let request = RunPodSandboxRequest { config: Some(config.clone()), runtime_handler };
        let sandbox =
            runtime.run_pod_sandbox(request).await.context("a sandbox")?.into_inner().pod_sandbox_id;
        let of_sandbox = began.elapsed();
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.clone(),
            config: Some(container(wanted)),
            sandbox_config: Some(config),
        };
        let container = runtime.create_container(request).await.context("a container")?.into_inner();
        let container = container.container_id;
        let request = StartContainerRequest { container_id: container.clone() };
        let before = Instant::now();
        runtime.start_container(request).await.context("start")?;
        let of_start = before.elapsed();
        self.wait_for_the_first_line(wanted.number, began).await?;
        let took = Took { sandbox: of_sandbox, start: of_start, all: began.elapsed() };
        Ok((Pod { sandbox, container }, took))
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

    /// A program inside, to its end.
    pub(crate) fn inside(&self, program: &str, words: &[&str]) -> anyhow::Result<()> {
        let output = self.testbed.command(program).args(words).output().context("cannot run nsenter")?;
        ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Which user of the host a container's root is.
    pub(crate) async fn first_host_user(&self, pod: &Pod) -> anyhow::Result<u32> {
        let cmd = ["cat", "/proc/self/uid_map"].map(str::to_owned).to_vec();
        let request = ExecSyncRequest { container_id: pod.container.clone(), cmd, timeout: 30 };
        let answer = self.client.runtime().exec_sync(request).await.context("exec")?.into_inner();
        let map = String::from_utf8_lossy(&answer.stdout);
        let first = map.split_whitespace().nth(1).with_context(|| format!("a map of user IDs: {map:?}"))?;
        Ok(first.parse()?)
    }

    fn log_directory(&self, number: u32) -> PathBuf {
        self.logs.path().join(number.to_string())
    }

    fn sandbox(&self, wanted: Wanted) -> PodSandboxConfig {
        let number = wanted.number;
        let metadata = PodSandboxMetadata {
            name: format!("bench-{number}"),
            uid: format!("00000000-0000-0000-0000-{number:012}"),
            namespace: "default".into(),
            attempt: 0,
        };
        let context =
            LinuxSandboxSecurityContext { namespace_options: Some(namespaces(wanted)), ..Default::default() };
        let asks = wanted.users == Users::Annotation;
        PodSandboxConfig {
            annotations: asks.then(|| (ASKS.to_owned(), "true".to_owned())).into_iter().collect(),
            metadata: Some(metadata),
            hostname: format!("bench-{number}"),
            log_directory: self.log_directory(number).display().to_string(),
            linux: Some(LinuxPodSandboxConfig { security_context: Some(context), ..Default::default() }),
            ..Default::default()
        }
    }
}

fn namespaces(wanted: Wanted) -> NamespaceOption {
    let host_id = FIRST_ID + (wanted.number % 4000) * 65_536;
    let ids = vec![IdMapping { host_id, container_id: 0, length: 65_536 }];
    let userns = UserNamespace { mode: NamespaceMode::Pod.into(), uids: ids.clone(), gids: ids };
    NamespaceOption {
        network: NamespaceMode::Pod.into(),
        pid: NamespaceMode::Container.into(),
        userns_options: (wanted.users == Users::Cri).then_some(userns),
        ..Default::default()
    }
}

fn container(wanted: Wanted) -> ContainerConfig {
    let context =
        LinuxContainerSecurityContext { namespace_options: Some(namespaces(wanted)), ..Default::default() };
    ContainerConfig {
        metadata: Some(ContainerMetadata { name: "main".into(), attempt: 0 }),
        image: Some(ImageSpec { image: testbed::images::BUSYBOX.into(), ..Default::default() }),
        // It ends at once on SIGTERM: what is measured is the runtime's part.
        command: ["sh", "-c", "trap 'exit 0' TERM; echo up; sleep 1000000 & wait"].map(str::to_owned).into(),
        log_path: "main.log".into(),
        linux: Some(LinuxContainerConfig { security_context: Some(context), ..Default::default() }),
        ..Default::default()
    }
}
