//! CRI calls, each with a timeout and with the method's name in errors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cri::client::Client;
use cri::{CallError, Response, Status, within};
use cri::{ContainerStatus, LinuxContainerResources, PodSandboxStatus};
use tracing::{debug, info, warn};
use types::keys::POD_UID;

use crate::blocking::blocking;
use crate::cri::journal::Call;
use crate::error::Result;
use crate::metrics::runtime::RuntimeMetrics;
use crate::owned::Owned;

/// The kubelet's default timeout of CRI calls.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a call may last, beyond what is expected of it, before a warning.
const SLOW: Duration = Duration::from_secs(20);

/// The label with the pod's name.
pub(crate) const POD_NAME: &str = "io.kubernetes.pod.name";
/// The label with the pod's namespace.
pub(crate) const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
/// The annotation with the container's terminationMessagePath.
pub(crate) const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
/// The annotation with the container's terminationMessagePolicy.
pub(crate) const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";

/// A callback that gets each request that creates a sandbox or a container, before it is sent.
pub type Journal = Arc<dyn Fn(&Call) + Send + Sync>;

/// A client of the CRI runtime.
#[derive(Clone)]
pub(crate) struct Cri {
    pub(crate) client: Client,
    /// Whose sandboxes and containers are listed.
    pub(crate) owned: Owned,
    pub(crate) journal: Option<Journal>,
    pub(crate) metrics: RuntimeMetrics,
    /// The timeout of a call; the creation of a sandbox has twice as long.
    pub(crate) timeout: Duration,
}

/// Treats `NotFound` as success: the object is already removed.
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
    /// Makes a call with this timeout, and counts it in the metrics.
    async fn call<T>(
        &self,
        deadline: Duration,
        method: &'static str,
        answer: impl Future<Output = std::result::Result<Response<T>, Status>>,
    ) -> std::result::Result<T, CallError> {
        self.lasting_call(Duration::ZERO, deadline, method, answer).await
    }

    /// Makes a call that may well last as long as `expected`.
    async fn lasting_call<T>(
        &self,
        expected: Duration,
        deadline: Duration,
        method: &'static str,
        answer: impl Future<Output = std::result::Result<Response<T>, Status>>,
    ) -> std::result::Result<T, CallError> {
        let begun = Instant::now();
        let outcome = within(deadline, method, answer);
        tokio::pin!(outcome);
        let slow = expected.saturating_add(SLOW);
        let outcome = tokio::select! {
            biased;
            outcome = &mut outcome => outcome,
            () = tokio::time::sleep(slow) => {
                warn!(method, "{method}: the runtime has not answered for {} s", slow.as_secs());
                outcome.await
            }
        };
        self.called(method, begun, &outcome);
        outcome
    }

    fn called<T, E>(&self, method: &'static str, begun: Instant, outcome: &std::result::Result<T, E>) {
        self.metrics.called(method, begun, outcome);
        let milliseconds = begun.elapsed().as_millis();
        let how = if outcome.is_ok() { "took" } else { "failed after" };
        debug!(method, "{method} {how} {milliseconds} ms");
    }

    fn note(&self, call: Option<&Call>) {
        if let (Some(journal), Some(call)) = (&self.journal, call) {
            journal(call);
        }
    }

    /// The sandboxes of a pod of this agent.
    pub(crate) async fn sandboxes(&self, uid: &str) -> Result<Vec<cri::PodSandbox>> {
        let listed = self.list_sandboxes(of_pod(uid)).await?;
        Ok(listed.into_iter().filter(|sandbox| self.owned.sandbox(sandbox)).collect())
    }

    /// The sandboxes with this UID, whichever client of the runtime created them.
    pub(crate) async fn sandboxes_of_all_clients(&self, uid: &str) -> Result<Vec<cri::PodSandbox>> {
        self.list_sandboxes(of_pod(uid)).await
    }

    /// All sandboxes of this agent.
    pub(crate) async fn all_sandboxes(&self) -> Result<Vec<cri::PodSandbox>> {
        let listed = self.all_sandboxes_of_all_clients().await?;
        Ok(listed.into_iter().filter(|sandbox| self.owned.sandbox(sandbox)).collect())
    }

    /// All sandboxes of the runtime, whichever client created them.
    pub(crate) async fn all_sandboxes_of_all_clients(&self) -> Result<Vec<cri::PodSandbox>> {
        self.list_sandboxes(BTreeMap::new()).await
    }

    async fn list_sandboxes(&self, labels: BTreeMap<String, String>) -> Result<Vec<cri::PodSandbox>> {
        let filter = cri::PodSandboxFilter { label_selector: labels, ..Default::default() };
        let request = cri::ListPodSandboxRequest { filter: Some(filter) };
        let listed = self
            .call(self.timeout, "ListPodSandbox", self.client.runtime().list_pod_sandbox(request))
            .await?;
        Ok(listed.items)
    }

    /// The containers of a pod of this agent.
    pub(crate) async fn containers(&self, uid: &str) -> Result<Vec<cri::Container>> {
        self.list_containers(of_pod(uid)).await
    }

    /// All containers of this agent.
    pub(crate) async fn all_containers(&self) -> Result<Vec<cri::Container>> {
        self.list_containers(BTreeMap::new()).await
    }

    async fn list_containers(&self, labels: BTreeMap<String, String>) -> Result<Vec<cri::Container>> {
        let listed = self.list_each_container(labels).await?;
        Ok(listed.into_iter().filter(|container| self.owned.container(container)).collect())
    }

    /// All containers, whichever client of the runtime created them.
    pub(crate) async fn containers_of_all_clients(&self) -> Result<Vec<cri::Container>> {
        self.list_each_container(BTreeMap::new()).await
    }

    async fn list_each_container(&self, labels: BTreeMap<String, String>) -> Result<Vec<cri::Container>> {
        let filter = cri::ContainerFilter { label_selector: labels, ..Default::default() };
        let request = cri::ListContainersRequest { filter: Some(filter) };
        let listed =
            self.call(self.timeout, "ListContainers", self.client.runtime().list_containers(request)).await?;
        Ok(listed.containers)
    }

    /// `None` if the sandbox does not exist.
    pub(crate) async fn sandbox_status(&self, id: &str) -> Result<Option<PodSandboxStatus>> {
        let request = cri::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        match self
            .call(self.timeout, "PodSandboxStatus", self.client.runtime().pod_sandbox_status(request))
            .await
        {
            Err(error) if error.is_not_found() => Ok(None),
            answer => Ok(answer?.status),
        }
    }

    /// `None` if the container does not exist.
    pub(crate) async fn container_status(&self, id: &str) -> Result<Option<ContainerStatus>> {
        let request = cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        match self
            .call(self.timeout, "ContainerStatus", self.client.runtime().container_status(request))
            .await
        {
            Err(error) if error.is_not_found() => Ok(None),
            answer => Ok(answer?.status),
        }
    }

    pub(crate) async fn run_sandbox(&self, config: cri::PodSandboxConfig, handler: &str) -> Result<String> {
        self.note(Some(&Call::sandbox(&config)));
        let request = cri::RunPodSandboxRequest { config: Some(config), runtime_handler: handler.to_owned() };
        let begun = Instant::now();
        let made = self
            .call(self.timeout * 2, "RunPodSandbox", self.client.runtime().run_pod_sandbox(request))
            .await;
        self.metrics.ran_sandbox(handler, begun, &made);
        Ok(made?.pod_sandbox_id)
    }

    pub(crate) async fn stop_sandbox(&self, id: &str) -> Result<()> {
        let request = cri::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        or_gone(
            self.call(self.timeout, "StopPodSandbox", self.client.runtime().stop_pod_sandbox(request)).await,
        )
    }

    pub(crate) async fn remove_sandbox(&self, id: &str) -> Result<()> {
        let request = cri::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        or_gone(
            self.call(self.timeout, "RemovePodSandbox", self.client.runtime().remove_pod_sandbox(request))
                .await,
        )
    }

    pub(crate) async fn create(&self, request: cri::CreateContainerRequest) -> Result<String> {
        self.note(Call::container(&request).as_ref());
        let made = self
            .call(self.timeout, "CreateContainer", self.client.runtime().create_container(request))
            .await?;
        Ok(made.container_id)
    }

    pub(crate) async fn start(&self, id: &str) -> Result<()> {
        let request = cri::StartContainerRequest { container_id: id.to_owned() };
        self.call(self.timeout, "StartContainer", self.client.runtime().start_container(request)).await?;
        Ok(())
    }

    pub(crate) async fn stop(&self, id: &str, grace: Duration) -> Result<()> {
        let seconds = grace.as_secs().saturating_add(u64::from(grace.subsec_nanos() > 0));
        let timeout = i64::try_from(seconds).unwrap_or(i64::MAX);
        let request = cri::StopContainerRequest { container_id: id.to_owned(), timeout };
        let patience = self.timeout.saturating_add(grace);
        or_gone(
            self.lasting_call(
                grace,
                patience,
                "StopContainer",
                self.client.runtime().stop_container(request),
            )
            .await,
        )
    }

    /// Gives a running container other resources.
    pub(crate) async fn update_container(&self, id: &str, linux: LinuxContainerResources) -> Result<()> {
        let request = cri::UpdateContainerResourcesRequest {
            container_id: id.to_owned(),
            linux: Some(linux),
            ..cri::UpdateContainerResourcesRequest::default()
        };
        let mut runtime = self.client.runtime();
        let updated = runtime.update_container_resources(request);
        self.call(self.timeout, "UpdateContainerResources", updated).await?;
        Ok(())
    }

    /// Gives the runtime other resources of a pod. One without such a call goes without.
    pub(crate) async fn update_sandbox(
        &self,
        id: &str,
        overhead: LinuxContainerResources,
        resources: LinuxContainerResources,
    ) -> Result<()> {
        let request = cri::UpdatePodSandboxResourcesRequest {
            pod_sandbox_id: id.to_owned(),
            overhead: Some(overhead),
            resources: Some(resources),
        };
        let mut runtime = self.client.runtime();
        let updated = runtime.update_pod_sandbox_resources(request);
        match self.call(self.timeout, "UpdatePodSandboxResources", updated).await {
            Err(CallError::Refused { code: cri::Code::Unimplemented, .. }) => Ok(()),
            done => Ok(done.map(drop)?),
        }
    }

    /// Makes the runtime reopen the log of a container after the file was renamed.
    pub(crate) async fn reopen_log(&self, id: &str) -> Result<()> {
        let request = cri::ReopenContainerLogRequest { container_id: id.to_owned() };
        self.call(self.timeout, "ReopenContainerLog", self.client.runtime().reopen_container_log(request))
            .await?;
        Ok(())
    }

    /// Removes a container, running or not. containerd refuses that while it has a task of which it has no record: when its
    /// client is killed during StartContainer, it calls the container ended and leaves the process that waits for the start.
    /// Such processes are killed; containerd then forgets the task, and the call succeeds when it is made again.
    pub(crate) async fn remove(&self, id: &str) -> Result<()> {
        let request = cri::RemoveContainerRequest { container_id: id.to_owned() };
        let removed =
            self.call(self.timeout, "RemoveContainer", self.client.runtime().remove_container(request)).await;
        if removed.as_ref().is_err_and(CallError::is_failed_precondition) {
            let container = id.to_owned();
            let kill = move || Ok(cgroups::kill_abandoned(&container));
            let killed = blocking("killing the processes of a container", kill).await?;
            if killed > 0 {
                info!(
                    "killed {killed} processes of container {id}: its start failed, and the runtime had left them"
                );
            }
        }
        or_gone(removed)
    }

    /// Runs a command in a container and waits for its end; a timeout of zero is no limit.
    pub(crate) async fn exec(
        &self,
        id: &str,
        command: &[String],
        limit: Duration,
    ) -> Result<cri::ExecSyncResponse> {
        let timeout = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        let request = cri::ExecSyncRequest { container_id: id.to_owned(), cmd: command.to_vec(), timeout };
        let expected = if limit.is_zero() { Duration::from_secs(u64::from(u32::MAX)) } else { limit };
        let patience = expected.saturating_add(self.timeout);
        Ok(self
            .lasting_call(expected, patience, "ExecSync", self.client.runtime().exec_sync(request))
            .await?)
    }

    /// The image, if the runtime has it.
    pub(crate) async fn image(&self, spec: cri::ImageSpec) -> Result<Option<cri::Image>> {
        let request = cri::ImageStatusRequest { image: Some(spec), verbose: false };
        Ok(self.call(self.timeout, "ImageStatus", self.client.images().image_status(request)).await?.image)
    }

    /// All images.
    pub(crate) async fn images(&self) -> Result<Vec<cri::Image>> {
        let request = cri::ListImagesRequest::default();
        Ok(self.call(self.timeout, "ListImages", self.client.images().list_images(request)).await?.images)
    }

    /// Removes an image under all of its names.
    pub(crate) async fn remove_image(&self, id: &str) -> Result<()> {
        let image = cri::ImageSpec { image: id.to_owned(), ..cri::ImageSpec::default() };
        let request = cri::RemoveImageRequest { image: Some(image) };
        or_gone(self.call(self.timeout, "RemoveImage", self.client.images().remove_image(request)).await)
    }

    /// Pulls an image, without a timeout: the duration depends on the registry.
    ///
    /// # Errors
    /// Why the pull failed, and whether the runtime may have the image all the same.
    pub(crate) async fn pull(
        &self,
        request: cri::PullImageRequest,
    ) -> std::result::Result<String, PullFailure> {
        let begun = Instant::now();
        let answer = self.client.images().pull_image(request).await;
        self.called("PullImage", begun, &answer);
        answer.map(|pulled| pulled.into_inner().image_ref).map_err(|status| PullFailure::of(&status))
    }
}

/// Why a pull failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PullFailure {
    pub(crate) message: String,
    /// Whether the runtime may have the image, or get it yet: its answer was lost, and not a refusal.
    pub(crate) may_be_pulled: bool,
}

impl PullFailure {
    fn of(status: &cri::Status) -> Self {
        use cri::Code;
        let lost =
            [Code::Unavailable, Code::DeadlineExceeded, Code::Cancelled, Code::Aborted, Code::DataLoss];
        // A connection that breaks is reported as Unknown, as are most refusals of runtimes; the former has a source.
        let is_broken = std::error::Error::source(status).is_some();
        Self {
            message: status.message().to_owned(),
            may_be_pulled: is_broken || lost.contains(&status.code()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use telemetry::log::{Filter, Format, Log};
    use tracing::level_filters::LevelFilter;
    use tracing::{Dispatch, dispatcher};

    use super::*;
    use crate::instance::InstanceId;
    use crate::metrics::Metrics;

    async fn cri() -> Cri {
        let (ours, _theirs) = tokio::io::duplex(4096);
        let client = Client::over(ours).await.unwrap();
        let metrics = Metrics::register(&telemetry::metrics::Registry::default()).unwrap().runtime;
        let owned = Owned::new(InstanceId::for_test("instance-1"), None);
        Cri { client, owned, journal: None, metrics, timeout: DEFAULT_TIMEOUT }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_lasts_longer_than_expected_is_warned_of_once_and_goes_on() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let sink = Box::new(move |line: &str| kept.lock().unwrap().push(line.to_owned()));
        let log = Log::new(Filter::new(LevelFilter::WARN), Format::Json, sink);
        let _guard = dispatcher::set_default(&Dispatch::new(log));
        let cri = cri().await;
        let answer = |seconds| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok::<_, Status>(Response::new(seconds))
        };
        let timeout = Duration::from_secs(120);
        assert_eq!(cri.call(timeout, "ListContainers", answer(19)).await, Ok(19));
        let grace = Duration::from_secs(60);
        assert_eq!(cri.lasting_call(grace, timeout, "StopContainer", answer(79)).await, Ok(79));
        assert!(lines.lock().unwrap().is_empty(), "{lines:?}");
        assert_eq!(cri.call(timeout, "ListContainers", answer(100)).await, Ok(100));
        let warned = std::mem::take(&mut *lines.lock().unwrap());
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert!(warned[0].contains("ListContainers: the runtime has not answered for 20 s"), "{warned:?}");
        let late = cri.call(timeout, "Status", answer(121)).await.unwrap_err();
        assert_eq!(late, CallError::DeadlineExceeded { call: "Status", seconds: 120 });
        assert_eq!(lines.lock().unwrap().len(), 1);
    }
}
