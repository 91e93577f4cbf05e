//! The runtime's calls, each with a time it may take and its name in the error.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use types::keys::POD_UID;
use wire::client::Client;
use wire::cri::{self, ContainerStatus, PodSandboxStatus};
use wire::{CallError, within};

use crate::error::Result;
use crate::journal::Call;

/// As long as a kubelet waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// The label with the pod's name.
pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
/// The label with the pod's namespace.
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// The annotation that says what a container's last message is taken from.
pub(crate) const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
/// The annotation with the revision of a container's definition.
pub(crate) const REVISION: &str = "wardlet.dev/container-hash";

/// Is told every call that makes something.
pub type Journal = Arc<dyn Fn(&Call) + Send + Sync>;

/// A runtime.
#[derive(Clone)]
pub(crate) struct Cri {
    pub(crate) client: Client,
    pub(crate) journal: Option<Journal>,
}

/// Gone already is as good.
fn or_gone<T>(done: std::result::Result<T, CallError>) -> Result<()> {
    match done {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

fn of_pod(uid: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(POD_UID.to_owned(), uid.to_owned())])
}

impl Cri {
    fn note(&self, call: Option<&Call>) {
        if let (Some(journal), Some(call)) = (&self.journal, call) {
            journal(call);
        }
    }

    pub(crate) async fn sandboxes(&self, uid: &str) -> Result<Vec<cri::PodSandbox>> {
        let filter = cri::PodSandboxFilter { label_selector: of_pod(uid), ..Default::default() };
        let request = cri::ListPodSandboxRequest { filter: Some(filter) };
        let listed =
            within(PATIENCE, "ListPodSandbox", self.client.runtime().list_pod_sandbox(request)).await?;
        Ok(listed.items)
    }

    pub(crate) async fn containers(&self, uid: &str) -> Result<Vec<cri::Container>> {
        let filter = cri::ContainerFilter { label_selector: of_pod(uid), ..Default::default() };
        let request = cri::ListContainersRequest { filter: Some(filter) };
        let listed =
            within(PATIENCE, "ListContainers", self.client.runtime().list_containers(request)).await?;
        Ok(listed.containers)
    }

    /// None if there is no such sandbox any more.
    pub(crate) async fn sandbox_status(&self, id: &str) -> Result<Option<PodSandboxStatus>> {
        let request = cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        match within(PATIENCE, "PodSandboxStatus", self.client.runtime().pod_sandbox_status(request)).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => Ok(answer?.status),
        }
    }

    /// None if there is no such container any more.
    pub(crate) async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>> {
        let request = cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        match within(PATIENCE, "ContainerStatus", self.client.runtime().container_status(request)).await {
            Err(error) if error.is_not_found() => Ok(None),
            answer => Ok(answer?.status),
        }
    }

    pub(crate) async fn run_sandbox(&self, config: cri::PodSandboxConfig, handler: &str) -> Result<String> {
        self.note(Some(&Call::sandbox(&config)));
        let request = cri::RunPodSandboxRequest { config: Some(config), runtime_handler: handler.to_owned() };
        let made =
            within(PATIENCE * 2, "RunPodSandbox", self.client.runtime().run_pod_sandbox(request)).await?;
        Ok(made.pod_sandbox_id)
    }

    pub(crate) async fn stop_sandbox(&self, id: &str) -> Result<()> {
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        or_gone(within(PATIENCE, "StopPodSandbox", self.client.runtime().stop_pod_sandbox(request)).await)
    }

    pub(crate) async fn remove_sandbox(&self, id: &str) -> Result<()> {
        let request = cri::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        or_gone(within(PATIENCE, "RemovePodSandbox", self.client.runtime().remove_pod_sandbox(request)).await)
    }

    pub(crate) async fn create(&self, request: cri::CreateContainerRequest) -> Result<String> {
        self.note(Call::container(&request).as_ref());
        let made =
            within(PATIENCE, "CreateContainer", self.client.runtime().create_container(request)).await?;
        Ok(made.container_id)
    }

    pub(crate) async fn start(&self, id: &str) -> Result<()> {
        let request = cri::StartContainerRequest { container_id: id.to_owned() };
        within(PATIENCE, "StartContainer", self.client.runtime().start_container(request)).await?;
        Ok(())
    }

    pub(crate) async fn stop(&self, id: &str, grace: Duration) -> Result<()> {
        let seconds = grace.as_secs().saturating_add(u64::from(grace.subsec_nanos() > 0));
        let timeout = i64::try_from(seconds).unwrap_or(i64::MAX);
        let request = cri::StopContainerRequest { container_id: id.to_owned(), timeout };
        let patience = PATIENCE.saturating_add(grace);
        or_gone(within(patience, "StopContainer", self.client.runtime().stop_container(request)).await)
    }

    /// Has the runtime open the log of a container anew, where it was renamed.
    pub(crate) async fn reopen_log(&self, id: &str) -> Result<()> {
        let request = cri::ReopenContainerLogRequest { container_id: id.to_owned() };
        within(PATIENCE, "ReopenContainerLog", self.client.runtime().reopen_container_log(request)).await?;
        Ok(())
    }

    pub(crate) async fn remove(&self, id: &str) -> Result<()> {
        let request = cri::RemoveContainerRequest { container_id: id.to_owned() };
        or_gone(within(PATIENCE, "RemoveContainer", self.client.runtime().remove_container(request)).await)
    }

    /// Runs a command to its end; no limit if the time is zero.
    pub(crate) async fn exec(
        &self,
        id: &str,
        command: &[String],
        limit: Duration,
    ) -> Result<cri::ExecSyncResponse> {
        let timeout = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        let request = cri::ExecSyncRequest { container_id: id.to_owned(), cmd: command.to_vec(), timeout };
        let patience =
            if limit.is_zero() { Duration::from_secs(u64::from(u32::MAX)) } else { limit + PATIENCE };
        Ok(within(patience, "ExecSync", self.client.runtime().exec_sync(request)).await?)
    }

    /// The image, if it is here.
    pub(crate) async fn image(&self, spec: cri::ImageSpec) -> Result<Option<cri::Image>> {
        let request = cri::ImageStatusRequest { image: Some(spec), verbose: false };
        Ok(within(PATIENCE, "ImageStatus", self.client.images().image_status(request)).await?.image)
    }

    /// Fetches an image, however long it takes: only the registry knows.
    pub(crate) async fn pull(&self, request: cri::PullImageRequest) -> std::result::Result<String, String> {
        let answer = self.client.images().pull_image(request).await;
        answer.map(|pulled| pulled.into_inner().image_ref).map_err(|status| status.message().to_owned())
    }
}
