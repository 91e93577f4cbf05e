use cri::NamespaceMode;
use cri::Status;
use cri::client::Client;

use super::image::BUSYBOX;
use super::{House, until};

/// A pod as the tests ask for it.
pub fn pod(house: &House, name: &str) -> cri::PodSandboxConfig {
    let metadata = cri::PodSandboxMetadata {
        name: name.into(),
        uid: format!("uid-of-{name}"),
        namespace: "tests".into(),
        attempt: 0,
    };
    cri::PodSandboxConfig {
        metadata: Some(metadata),
        hostname: name.into(),
        log_directory: house.logs().join(name).display().to_string(),
        linux: Some(cri::LinuxPodSandboxConfig {
            security_context: Some(cri::LinuxSandboxSecurityContext {
                namespace_options: Some(own_processes()),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn own_processes() -> cri::NamespaceOption {
    cri::NamespaceOption { pid: NamespaceMode::Container.into(), ..Default::default() }
}

/// The same pod in a user namespace whose IDs begin at this one of the host.
pub fn in_users(mut config: cri::PodSandboxConfig, first: u32) -> cri::PodSandboxConfig {
    let line = cri::IdMapping { host_id: first, container_id: 0, length: 65_536 };
    let users = cri::UserNamespace { mode: NamespaceMode::Pod.into(), uids: vec![line], gids: vec![line] };
    options(&mut config).userns_options = Some(users);
    config
}

/// The namespaces that a pod asks for.
pub fn options(config: &mut cri::PodSandboxConfig) -> &mut cri::NamespaceOption {
    let linux = config.linux.as_mut().unwrap();
    linux.security_context.as_mut().unwrap().namespace_options.as_mut().unwrap()
}

/// A container that runs a script of the shell, in the namespaces of its pod.
pub fn shell(name: &str, script: &str, pod: &cri::PodSandboxConfig) -> cri::ContainerConfig {
    let mut pod = pod.clone();
    cri::ContainerConfig {
        metadata: Some(cri::ContainerMetadata { name: name.into(), attempt: 0 }),
        image: Some(cri::ImageSpec { image: BUSYBOX.into(), ..Default::default() }),
        command: ["sh", "-c", script].map(str::to_owned).to_vec(),
        log_path: format!("{name}.log"),
        linux: Some(cri::LinuxContainerConfig {
            security_context: Some(cri::LinuxContainerSecurityContext {
                namespace_options: Some(options(&mut pod).clone()),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// What a container may do.
pub fn security(config: &mut cri::ContainerConfig) -> &mut cri::LinuxContainerSecurityContext {
    config.linux.as_mut().unwrap().security_context.as_mut().unwrap()
}

pub async fn run_pod(client: &Client, config: &cri::PodSandboxConfig) -> Result<String, Status> {
    let request = cri::RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
    Ok(client.runtime().run_pod_sandbox(request).await?.into_inner().pod_sandbox_id)
}

pub async fn create(
    client: &Client,
    sandbox: &str,
    config: &cri::ContainerConfig,
    pod: &cri::PodSandboxConfig,
) -> Result<String, Status> {
    let request = cri::CreateContainerRequest {
        pod_sandbox_id: sandbox.into(),
        config: Some(config.clone()),
        sandbox_config: Some(pod.clone()),
    };
    Ok(client.runtime().create_container(request).await?.into_inner().container_id)
}

pub async fn start(client: &Client, container: &str) -> Result<(), Status> {
    let request = cri::StartContainerRequest { container_id: container.into() };
    client.runtime().start_container(request).await.map(drop)
}

/// A pod with one container that runs this script.
pub async fn run_shell(
    client: &Client,
    pod: &cri::PodSandboxConfig,
    script: &str,
) -> Result<(String, String), Status> {
    let sandbox = run_pod(client, pod).await?;
    let container = create(client, &sandbox, &shell("main", script, pod), pod).await?;
    start(client, &container).await?;
    Ok((sandbox, container))
}

pub async fn status(client: &Client, container: &str) -> Result<cri::ContainerStatus, Status> {
    let request = cri::ContainerStatusRequest { container_id: container.into(), verbose: false };
    Ok(client.runtime().container_status(request).await?.into_inner().status.unwrap())
}

pub async fn sandbox_status(client: &Client, sandbox: &str) -> Result<cri::PodSandboxStatus, Status> {
    let request = cri::PodSandboxStatusRequest { pod_sandbox_id: sandbox.into(), verbose: false };
    Ok(client.runtime().pod_sandbox_status(request).await?.into_inner().status.unwrap())
}

/// Its status, once it has ended.
pub async fn ended(client: &Client, container: &str) -> cri::ContainerStatus {
    until("the container ends", async || {
        let status = status(client, container).await.unwrap();
        (status.state() == cri::ContainerState::ContainerExited).then_some(status)
    })
    .await
}

pub async fn stop(client: &Client, container: &str, timeout: i64) -> Result<(), Status> {
    let request = cri::StopContainerRequest { container_id: container.into(), timeout };
    client.runtime().stop_container(request).await.map(drop)
}

pub async fn remove_pod(client: &Client, sandbox: &str) {
    let id = sandbox.to_owned();
    let stop = cri::StopPodSandboxRequest { pod_sandbox_id: id.clone() };
    client.runtime().stop_pod_sandbox(stop).await.unwrap();
    client.runtime().remove_pod_sandbox(cri::RemovePodSandboxRequest { pod_sandbox_id: id }).await.unwrap();
}

pub async fn exec(client: &Client, container: &str, script: &str) -> Result<cri::ExecSyncResponse, Status> {
    exec_within(client, container, script, 0).await
}

pub async fn exec_within(
    client: &Client,
    container: &str,
    script: &str,
    timeout: i64,
) -> Result<cri::ExecSyncResponse, Status> {
    let cmd = ["sh", "-c", script].map(str::to_owned).to_vec();
    let request = cri::ExecSyncRequest { container_id: container.into(), cmd, timeout };
    Ok(client.runtime().exec_sync(request).await?.into_inner())
}

/// What a container has written to its log, without times and tags.
pub fn logged(house: &House, pod: &str, container: &str) -> String {
    let path = house.logs().join(pod).join(format!("{container}.log"));
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    text.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).map(|line| format!("{line}\n")).collect()
}
