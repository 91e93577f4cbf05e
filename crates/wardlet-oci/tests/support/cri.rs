//! containerd's CRI socket, asked one thing after the other.

use std::future::Future;

use cri::client::Client;
use cri::{Endpoint, Status};
use serde_json::Value;
use testbed::Testbed;
use tokio::runtime::{Builder, Runtime};

use super::pods::Pod;

/// One client. Each thread that asks has its own.
pub struct Cri {
    runtime: Runtime,
    client: Client,
}

impl Cri {
    pub fn of(testbed: &Testbed) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let endpoint = Endpoint::try_from(testbed.containerd_socket()).unwrap();
        let client = runtime.block_on(Client::connect(&endpoint)).expect("containerd answers");
        Self { runtime, client }
    }

    fn ask<T>(&self, asked: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
        self.runtime.block_on(asked)
    }

    pub fn run_sandbox(&self, pod: &Pod) -> Result<String, Status> {
        let request = cri::RunPodSandboxRequest {
            config: Some(pod.config.clone()),
            runtime_handler: pod.handler.clone(),
        };
        let mut runtime = self.client.runtime();
        Ok(self.ask(async move { runtime.run_pod_sandbox(request).await })?.into_inner().pod_sandbox_id)
    }

    pub fn create(&self, sandbox: &str, pod: &Pod, config: cri::ContainerConfig) -> Result<String, Status> {
        let request = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox.into(),
            config: Some(config),
            sandbox_config: Some(pod.config.clone()),
        };
        let mut runtime = self.client.runtime();
        Ok(self.ask(async move { runtime.create_container(request).await })?.into_inner().container_id)
    }

    pub fn start(&self, container: &str) -> Result<(), Status> {
        let request = cri::StartContainerRequest { container_id: container.into() };
        let mut runtime = self.client.runtime();
        self.ask(async move { runtime.start_container(request).await }).map(drop)
    }

    /// A container that runs.
    pub fn run(&self, sandbox: &str, pod: &Pod, config: cri::ContainerConfig) -> Result<String, Status> {
        let container = self.create(sandbox, pod, config)?;
        self.start(&container)?;
        Ok(container)
    }

    pub fn exec(&self, container: &str, script: &str) -> Result<cri::ExecSyncResponse, Status> {
        let cmd = ["sh", "-c", script].map(str::to_owned).to_vec();
        let request = cri::ExecSyncRequest { container_id: container.into(), cmd, timeout: 30 };
        let mut runtime = self.client.runtime();
        Ok(self.ask(async move { runtime.exec_sync(request).await })?.into_inner())
    }

    /// What a command says that must succeed.
    #[track_caller]
    pub fn said(&self, container: &str, script: &str) -> String {
        let answer = self.exec(container, script).expect(script);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(answer.exit_code, 0, "{script}: {}{}", text(&answer.stdout), text(&answer.stderr));
        text(&answer.stdout)
    }

    /// Its status, and what containerd adds to it.
    pub fn status(&self, container: &str) -> Result<(cri::ContainerStatus, Value), Status> {
        let request = cri::ContainerStatusRequest { container_id: container.into(), verbose: true };
        let mut runtime = self.client.runtime();
        let answer = self.ask(async move { runtime.container_status(request).await })?.into_inner();
        let info = answer.info.get("info").map(String::as_str).unwrap_or("null");
        Ok((answer.status.unwrap(), serde_json::from_str(info).unwrap()))
    }

    pub fn sandbox_status(&self, sandbox: &str) -> Result<(cri::PodSandboxStatus, Value), Status> {
        let request = cri::PodSandboxStatusRequest { pod_sandbox_id: sandbox.into(), verbose: true };
        let mut runtime = self.client.runtime();
        let answer = self.ask(async move { runtime.pod_sandbox_status(request).await })?.into_inner();
        let info = answer.info.get("info").map(String::as_str).unwrap_or("null");
        Ok((answer.status.unwrap(), serde_json::from_str(info).unwrap()))
    }

    /// The container's first process, as the host numbers it.
    #[track_caller]
    pub fn pid(&self, container: &str) -> i32 {
        pid_in(&self.status(container).expect("a container").1)
    }

    #[track_caller]
    pub fn sandbox_pid(&self, sandbox: &str) -> i32 {
        pid_in(&self.sandbox_status(sandbox).expect("a sandbox").1)
    }

    #[track_caller]
    pub fn address(&self, sandbox: &str) -> String {
        self.sandbox_status(sandbox).expect("a sandbox").0.network.expect("a network").ip
    }

    pub fn sandboxes(&self) -> Result<Vec<cri::PodSandbox>, Status> {
        let mut runtime = self.client.runtime();
        let asked =
            self.ask(async move { runtime.list_pod_sandbox(cri::ListPodSandboxRequest::default()).await });
        Ok(asked?.into_inner().items)
    }

    pub fn remove_container(&self, container: &str) -> Result<(), Status> {
        let stop = cri::StopContainerRequest { container_id: container.into(), timeout: 0 };
        let remove = cri::RemoveContainerRequest { container_id: container.into() };
        let mut runtime = self.client.runtime();
        self.ask(async move {
            runtime.stop_container(stop).await?;
            runtime.remove_container(remove).await
        })
        .map(drop)
    }

    pub fn remove_sandbox(&self, sandbox: &str) -> Result<(), Status> {
        let stop = cri::StopPodSandboxRequest { pod_sandbox_id: sandbox.into() };
        let remove = cri::RemovePodSandboxRequest { pod_sandbox_id: sandbox.into() };
        let mut runtime = self.client.runtime();
        self.ask(async move {
            runtime.stop_pod_sandbox(stop).await?;
            runtime.remove_pod_sandbox(remove).await
        })
        .map(drop)
    }
}

#[track_caller]
fn pid_in(info: &Value) -> i32 {
    let pid = info["pid"].as_i64().unwrap_or_else(|| panic!("no pid in {info}"));
    i32::try_from(pid).unwrap()
}
