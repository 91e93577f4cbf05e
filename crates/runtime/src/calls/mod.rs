//! The calls of CRI's runtime service. What changes something is done to its end, also if the caller hangs up.

mod info;

use std::sync::Arc;

use cri::runtime_service_server::RuntimeService;
use cri::{ContainerStatsFilter, PodSandboxStatsFilter};
use cri::{Request, Response, Status};
use kernel::disk_usage::Round;
use tonic::codegen::BoxStream;
use tracing::debug;

use crate::container::{attach, create, exec, is_ready, remove, start, stop, update};
use crate::container_state::ContainerState;
use crate::error::{Error, Result};
use crate::node::Node;
use crate::records::{ContainerStage, SandboxStage};
use crate::server::Runtime;
use crate::stats::usage::Sample;
use crate::stats::{metrics, usage};
use crate::work::{blocking, now, to_the_end};
use crate::{collect, sandbox, status, view};

type Answer<T> = std::result::Result<Response<T>, Status>;

/// How many entries one message of a stream has.
const A_MESSAGE: usize = 100;
/// How many sandboxes one message with metrics has: a sandbox has a hundred metrics for each container, and eight for each of its
/// network interfaces, so that a few may fill a message.
const METRICS_A_MESSAGE: usize = 4;

fn missing(field: &str) -> Error {
    Error::invalid(field, "it is missing")
}

/// A list in pieces.
fn stream<T, M>(all: &[T], message: impl Fn(Vec<T>) -> M) -> Answer<BoxStream<M>>
where
    T: Clone,
    M: Send + 'static,
{
    stream_by(A_MESSAGE, all, message)
}

/// A list in pieces of so many entries.
fn stream_by<T, M>(a_message: usize, all: &[T], message: impl Fn(Vec<T>) -> M) -> Answer<BoxStream<M>>
where
    T: Clone,
    M: Send + 'static,
{
    let messages: Vec<_> = all.chunks(a_message).map(|some| Ok(message(some.to_vec()))).collect();
    Ok(Response::new(Box::pin(tokio_stream::iter(messages))))
}

impl Runtime {
    fn node(&self) -> Arc<Node> {
        Arc::clone(&self.node)
    }

    fn streams(&self) -> Result<&streaming::Server> {
        self.node.streams.get().ok_or(Error::NotOffered { what: "streaming" })
    }

    fn sandboxes(&self, filter: Option<&cri::PodSandboxFilter>) -> Vec<cri::PodSandbox> {
        let all = self.node.store.sandboxes();
        // A sandbox in this stage without a running call failed to be created and to be removed: list it, so that the client
        // can remove it.
        let made =
            all.iter().filter(|sandbox| !sandbox.is(SandboxStage::Making) || sandbox.gate.try_lock().is_ok());
        made.map(|found| view::sandbox(found)).filter(|found| view::sandbox_matches(found, filter)).collect()
    }

    fn containers(&self, filter: Option<&cri::ContainerFilter>) -> Vec<cri::Container> {
        let all = self.node.store.containers();
        let made = all.iter().filter(|container| container.record().stage != ContainerStage::Making);
        made.map(|found| view::container(found))
            .filter(|found| view::container_matches(found, filter))
            .collect()
    }

    fn sample(&self) -> Sample<'_> {
        Sample { at: now(), rates: &self.node.rates }
    }

    async fn container_stats_of(
        &self,
        filter: Option<ContainerStatsFilter>,
    ) -> Result<Vec<cri::ContainerStats>> {
        let found = collect::containers(&self.node, filter).await?;
        Ok(found.iter().map(|found| usage::container(found, self.sample())).collect())
    }

    async fn sandbox_stats_of(
        &self,
        filter: Option<PodSandboxStatsFilter>,
    ) -> Result<Vec<cri::PodSandboxStats>> {
        let found = collect::sandboxes(&self.node, filter).await?;
        Ok(found.iter().map(|found| usage::sandbox(found, self.sample())).collect())
    }

    async fn metrics_of_all(&self) -> Result<Vec<cri::PodSandboxMetrics>> {
        let found = collect::sandboxes(&self.node, None).await?;
        let at = now();
        Ok(found.iter().map(|found| metrics::sandbox(found, at)).collect())
    }
}

#[tonic::async_trait]
impl RuntimeService for Runtime {
    async fn version(&self, _: Request<cri::VersionRequest>) -> Answer<cri::VersionResponse> {
        Ok(Response::new(status::version()))
    }

    async fn status(&self, request: Request<cri::StatusRequest>) -> Answer<cri::StatusResponse> {
        Ok(Response::new(info::status(&self.node, request.get_ref().verbose).await))
    }

    async fn runtime_config(
        &self,
        _: Request<cri::RuntimeConfigRequest>,
    ) -> Answer<cri::RuntimeConfigResponse> {
        Ok(Response::new(status::runtime_config(self.node.facts.cgroup_driver())))
    }

    async fn update_runtime_config(
        &self,
        request: Request<cri::UpdateRuntimeConfigRequest>,
    ) -> Answer<cri::UpdateRuntimeConfigResponse> {
        let config = request.into_inner().runtime_config.and_then(|config| config.network_config);
        let cidr = config.map(|network| network.pod_cidr).unwrap_or_default();
        if !cidr.is_empty() {
            let node = self.node();
            to_the_end(async move {
                let outcome = node.network.set_pod_cidr(&cidr).await;
                node.log_network();
                Ok(outcome?)
            })
            .await?;
        }
        Ok(Response::new(cri::UpdateRuntimeConfigResponse {}))
    }

    async fn run_pod_sandbox(
        &self,
        request: Request<cri::RunPodSandboxRequest>,
    ) -> Answer<cri::RunPodSandboxResponse> {
        let cri::RunPodSandboxRequest { config, runtime_handler } = request.into_inner();
        let config = config.ok_or_else(|| missing("config"))?;
        debug!(handler = runtime_handler, "RunPodSandbox for {}", sandbox::called(&config));
        let id = to_the_end(sandbox::run::run(self.node(), config, runtime_handler)).await?;
        Ok(Response::new(cri::RunPodSandboxResponse { pod_sandbox_id: id.to_string() }))
    }

    async fn stop_pod_sandbox(
        &self,
        request: Request<cri::StopPodSandboxRequest>,
    ) -> Answer<cri::StopPodSandboxResponse> {
        let id = request.into_inner().pod_sandbox_id;
        debug!(sandbox = id, "StopPodSandbox {id}");
        to_the_end(sandbox::stop::stop(self.node(), id)).await?;
        Ok(Response::new(cri::StopPodSandboxResponse {}))
    }

    async fn remove_pod_sandbox(
        &self,
        request: Request<cri::RemovePodSandboxRequest>,
    ) -> Answer<cri::RemovePodSandboxResponse> {
        let id = request.into_inner().pod_sandbox_id;
        debug!(sandbox = id, "RemovePodSandbox {id}");
        to_the_end(sandbox::remove::remove(self.node(), id)).await?;
        Ok(Response::new(cri::RemovePodSandboxResponse {}))
    }

    async fn pod_sandbox_status(
        &self,
        request: Request<cri::PodSandboxStatusRequest>,
    ) -> Answer<cri::PodSandboxStatusResponse> {
        let cri::PodSandboxStatusRequest { pod_sandbox_id, verbose } = request.into_inner();
        let sandbox = self.node.store.sandbox(&pod_sandbox_id)?;
        let containers = self.node.store.containers_of(&sandbox.id);
        Ok(Response::new(cri::PodSandboxStatusResponse {
            status: Some(view::sandbox_status(&sandbox)),
            info: if verbose { info::sandbox(&self.node, &sandbox) } else { Default::default() },
            containers_statuses: containers.iter().map(|found| view::container_status(found)).collect(),
            timestamp: now(),
        }))
    }

    async fn list_pod_sandbox(
        &self,
        request: Request<cri::ListPodSandboxRequest>,
    ) -> Answer<cri::ListPodSandboxResponse> {
        let items = self.sandboxes(request.get_ref().filter.as_ref());
        Ok(Response::new(cri::ListPodSandboxResponse { items }))
    }

    async fn stream_pod_sandboxes(
        &self,
        request: Request<cri::StreamPodSandboxesRequest>,
    ) -> Answer<BoxStream<cri::StreamPodSandboxesResponse>> {
        let found = self.sandboxes(request.get_ref().filter.as_ref());
        stream(&found, |pod_sandboxes| cri::StreamPodSandboxesResponse { pod_sandboxes })
    }

    async fn update_pod_sandbox_resources(
        &self,
        request: Request<cri::UpdatePodSandboxResourcesRequest>,
    ) -> Answer<cri::UpdatePodSandboxResourcesResponse> {
        to_the_end(sandbox::update::update(self.node(), request.into_inner())).await?;
        Ok(Response::new(cri::UpdatePodSandboxResourcesResponse {}))
    }

    async fn create_container(
        &self,
        request: Request<cri::CreateContainerRequest>,
    ) -> Answer<cri::CreateContainerResponse> {
        let cri::CreateContainerRequest { pod_sandbox_id, config, .. } = request.into_inner();
        let config = config.ok_or_else(|| missing("config"))?;
        debug!(sandbox = pod_sandbox_id, "CreateContainer in sandbox {pod_sandbox_id}");
        let id = to_the_end(create::create(self.node(), pod_sandbox_id, config)).await?;
        Ok(Response::new(cri::CreateContainerResponse { container_id: id.to_string() }))
    }

    async fn start_container(
        &self,
        request: Request<cri::StartContainerRequest>,
    ) -> Answer<cri::StartContainerResponse> {
        let id = request.into_inner().container_id;
        debug!(container = id, "StartContainer {id}");
        to_the_end(start::start(self.node(), id)).await?;
        Ok(Response::new(cri::StartContainerResponse {}))
    }

    async fn stop_container(
        &self,
        request: Request<cri::StopContainerRequest>,
    ) -> Answer<cri::StopContainerResponse> {
        let cri::StopContainerRequest { container_id, timeout } = request.into_inner();
        debug!(container = container_id, timeout, "StopContainer {container_id} within {timeout} s");
        to_the_end(stop::stop(self.node(), container_id, timeout)).await?;
        Ok(Response::new(cri::StopContainerResponse {}))
    }

    async fn remove_container(
        &self,
        request: Request<cri::RemoveContainerRequest>,
    ) -> Answer<cri::RemoveContainerResponse> {
        let id = request.into_inner().container_id;
        debug!(container = id, "RemoveContainer {id}");
        to_the_end(remove::remove(self.node(), id)).await?;
        Ok(Response::new(cri::RemoveContainerResponse {}))
    }

    async fn container_status(
        &self,
        request: Request<cri::ContainerStatusRequest>,
    ) -> Answer<cri::ContainerStatusResponse> {
        let cri::ContainerStatusRequest { container_id, verbose } = request.into_inner();
        let container = self.node.store.container(&container_id)?;
        Ok(Response::new(cri::ContainerStatusResponse {
            status: Some(view::container_status(&container)),
            info: if verbose { info::container(&container) } else { Default::default() },
        }))
    }

    async fn list_containers(
        &self,
        request: Request<cri::ListContainersRequest>,
    ) -> Answer<cri::ListContainersResponse> {
        let containers = self.containers(request.get_ref().filter.as_ref());
        Ok(Response::new(cri::ListContainersResponse { containers }))
    }

    async fn stream_containers(
        &self,
        request: Request<cri::StreamContainersRequest>,
    ) -> Answer<BoxStream<cri::StreamContainersResponse>> {
        let found = self.containers(request.get_ref().filter.as_ref());
        stream(&found, |containers| cri::StreamContainersResponse { containers })
    }

    async fn update_container_resources(
        &self,
        request: Request<cri::UpdateContainerResourcesRequest>,
    ) -> Answer<cri::UpdateContainerResourcesResponse> {
        let cri::UpdateContainerResourcesRequest { container_id, linux, .. } = request.into_inner();
        let wanted = linux.ok_or_else(|| missing("linux"))?;
        to_the_end(update::update(self.node(), container_id, wanted)).await?;
        Ok(Response::new(cri::UpdateContainerResourcesResponse {}))
    }

    async fn reopen_container_log(
        &self,
        request: Request<cri::ReopenContainerLogRequest>,
    ) -> Answer<cri::ReopenContainerLogResponse> {
        to_the_end(attach::reopen_log(self.node(), request.into_inner().container_id)).await?;
        Ok(Response::new(cri::ReopenContainerLogResponse {}))
    }

    async fn checkpoint_container(
        &self,
        _: Request<cri::CheckpointContainerRequest>,
    ) -> Answer<cri::CheckpointContainerResponse> {
        Err(Error::NotOffered { what: "CheckpointContainer" }.into())
    }

    async fn get_container_events(
        &self,
        _: Request<cri::GetEventsRequest>,
    ) -> Answer<BoxStream<cri::ContainerEventResponse>> {
        Ok(Response::new(Box::pin(self.node.events.listen())))
    }

    async fn exec_sync(&self, request: Request<cri::ExecSyncRequest>) -> Answer<cri::ExecSyncResponse> {
        let cri::ExecSyncRequest { container_id, cmd, timeout } = request.into_inner();
        debug!(container = container_id, timeout, "ExecSync in container {container_id}");
        // With the caller its command goes, too.
        Ok(Response::new(exec::sync(self.node(), container_id, cmd, timeout).await?))
    }

    async fn exec(&self, request: Request<cri::ExecRequest>) -> Answer<cri::ExecResponse> {
        let cri::ExecRequest { container_id, cmd, tty, stdin, stdout, stderr } = request.into_inner();
        let container = self.node.store.container(&container_id)?;
        crate::container::running(&container)?;
        let container = container.id.to_string();
        let wanted = streaming::ExecRequest { container, command: cmd, tty, stdin, stdout, stderr };
        let url = self.streams()?.exec(wanted).map_err(Error::from)?;
        Ok(Response::new(cri::ExecResponse { url }))
    }

    async fn attach(&self, request: Request<cri::AttachRequest>) -> Answer<cri::AttachResponse> {
        let cri::AttachRequest { container_id, stdin, tty, stdout, stderr } = request.into_inner();
        let container = self.node.store.container(&container_id)?;
        crate::container::running(&container)?;
        let container = container.id.to_string();
        let wanted = streaming::AttachRequest { container, tty, stdin, stdout, stderr };
        let url = self.streams()?.attach(wanted).map_err(Error::from)?;
        Ok(Response::new(cri::AttachResponse { url }))
    }

    async fn port_forward(
        &self,
        request: Request<cri::PortForwardRequest>,
    ) -> Answer<cri::PortForwardResponse> {
        let cri::PortForwardRequest { pod_sandbox_id, port } = request.into_inner();
        let sandbox = self.node.store.sandbox(&pod_sandbox_id)?;
        is_ready(&sandbox)?;
        let ports: std::result::Result<Vec<u16>, _> = port.into_iter().map(u16::try_from).collect();
        let ports = ports.map_err(|_| Error::invalid("port", "a port is from 1 to 65535"))?;
        let wanted = streaming::PortForwardRequest { sandbox: sandbox.id.to_string(), ports };
        let url = self.streams()?.port_forward(wanted).map_err(Error::from)?;
        Ok(Response::new(cri::PortForwardResponse { url }))
    }

    async fn container_stats(
        &self,
        request: Request<cri::ContainerStatsRequest>,
    ) -> Answer<cri::ContainerStatsResponse> {
        let container = self.node.store.container(&request.get_ref().container_id)?;
        if !matches!(container.state(), ContainerState::Running(_)) {
            crate::container::running(&container)?;
        }
        let node = self.node();
        let found = blocking(move || collect::container(&node, &container, Round::begin())).await?;
        Ok(Response::new(cri::ContainerStatsResponse {
            stats: Some(usage::container(&found, self.sample())),
        }))
    }

    async fn list_container_stats(
        &self,
        request: Request<cri::ListContainerStatsRequest>,
    ) -> Answer<cri::ListContainerStatsResponse> {
        let stats = self.container_stats_of(request.into_inner().filter).await?;
        Ok(Response::new(cri::ListContainerStatsResponse { stats }))
    }

    async fn stream_container_stats(
        &self,
        request: Request<cri::StreamContainerStatsRequest>,
    ) -> Answer<BoxStream<cri::StreamContainerStatsResponse>> {
        let found = self.container_stats_of(request.into_inner().filter).await?;
        stream(&found, |container_stats| cri::StreamContainerStatsResponse { container_stats })
    }

    async fn pod_sandbox_stats(
        &self,
        request: Request<cri::PodSandboxStatsRequest>,
    ) -> Answer<cri::PodSandboxStatsResponse> {
        let sandbox = self.node.store.sandbox(&request.get_ref().pod_sandbox_id)?;
        let found = collect::sandbox(&self.node, &sandbox, Round::begin()).await?;
        Ok(Response::new(cri::PodSandboxStatsResponse { stats: Some(usage::sandbox(&found, self.sample())) }))
    }

    async fn list_pod_sandbox_stats(
        &self,
        request: Request<cri::ListPodSandboxStatsRequest>,
    ) -> Answer<cri::ListPodSandboxStatsResponse> {
        let stats = self.sandbox_stats_of(request.into_inner().filter).await?;
        Ok(Response::new(cri::ListPodSandboxStatsResponse { stats }))
    }

    async fn stream_pod_sandbox_stats(
        &self,
        request: Request<cri::StreamPodSandboxStatsRequest>,
    ) -> Answer<BoxStream<cri::StreamPodSandboxStatsResponse>> {
        let found = self.sandbox_stats_of(request.into_inner().filter).await?;
        stream(&found, |pod_sandbox_stats| cri::StreamPodSandboxStatsResponse { pod_sandbox_stats })
    }

    async fn list_metric_descriptors(
        &self,
        _: Request<cri::ListMetricDescriptorsRequest>,
    ) -> Answer<cri::ListMetricDescriptorsResponse> {
        Ok(Response::new(cri::ListMetricDescriptorsResponse { descriptors: metrics::descriptors() }))
    }

    async fn list_pod_sandbox_metrics(
        &self,
        _: Request<cri::ListPodSandboxMetricsRequest>,
    ) -> Answer<cri::ListPodSandboxMetricsResponse> {
        let pod_metrics = self.metrics_of_all().await?;
        Ok(Response::new(cri::ListPodSandboxMetricsResponse { pod_metrics }))
    }

    async fn stream_pod_sandbox_metrics(
        &self,
        _: Request<cri::StreamPodSandboxMetricsRequest>,
    ) -> Answer<BoxStream<cri::StreamPodSandboxMetricsResponse>> {
        let found = self.metrics_of_all().await?;
        let message = |pod_sandbox_metrics| cri::StreamPodSandboxMetricsResponse { pod_sandbox_metrics };
        stream_by(METRICS_A_MESSAGE, &found, message)
    }
}
