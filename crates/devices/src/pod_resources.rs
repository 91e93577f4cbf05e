//! The PodResources API: which container has which devices, for monitoring agents of the node.
//!
//! No container has processors or memory for itself on this node, so that these lists are empty, as on a kubelet whose CPU and
//! memory managers have the policy none.

use std::path::Path;
use std::sync::Arc;

use tokio::task::JoinSet;
use tonic::transport::Server;
use tonic::{Request, Response, Status};
use tracing::{error, info};

use crate::api::v1::pod_resources_lister_server::{PodResourcesLister, PodResourcesListerServer};
use crate::api::v1::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices, ContainerResources,
    GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest, ListPodResourcesResponse,
    NumaNode, PodResources, TopologyInfo,
};
use crate::api::v1alpha1;
use crate::api::v1alpha1::pod_resources_lister_server as alpha;
use crate::error::Result;
use crate::manager::DeviceManager;
use crate::socket::Listener;
use crate::state::AllocatedDevice;

/// Its name in the directory `pod-resources` of the kubelet's root directory.
pub const SOCKET: &str = "kubelet.sock";
/// Requests in a second, and requests at once, as with a kubelet.
pub const REQUESTS_PER_SECOND: u32 = 100;
/// Requests at once.
pub const BURST: u32 = 10;
/// Calls of one connection at the same time.
const CALLS: usize = 16;
/// The longest answer: that of a full node with all its devices.
const LONGEST_MESSAGE: usize = 64 << 20;

/// The pods of a node, as this API shows them. The methods may read files: they are called where they may block.
pub trait NodePods: Send + Sync {
    /// The pods that have not ended.
    fn active(&self) -> Vec<NodePod>;

    /// All pods that are known.
    fn all(&self) -> Vec<NodePod>;
}

/// A pod, as this API shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, as the node knows it.
    pub uid: String,
    /// Its sidecars.
    pub sidecars: Vec<String>,
    /// Its regular containers.
    pub containers: Vec<String>,
}

/// What the API needs.
#[derive(Clone)]
pub struct Options {
    /// The devices.
    pub devices: DeviceManager,
    /// The pods.
    pub pods: Arc<dyn NodePods>,
    /// Takes a turn, and says whether there was one: [`REQUESTS_PER_SECOND`] and [`BURST`].
    pub limiter: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// Serves the API at this path, in the place of a socket that an ended process has left, until the returned tasks are dropped.
/// Must be called within a tokio runtime.
///
/// # Errors
/// If another process serves there, or the socket cannot be made.
pub async fn serve(path: &Path, options: Options) -> Result<JoinSet<()>> {
    let incoming = Listener::bind(path).await?.incoming();
    let limiter = Arc::clone(&options.limiter);
    let limited = move |request: Request<()>| match limiter() {
        true => Ok(request),
        false => Err(Status::resource_exhausted("rejected by rate limit")),
    };
    let lister = Lister { options };
    let v1 = PodResourcesListerServer::new(lister.clone()).max_encoding_message_size(LONGEST_MESSAGE);
    let first = alpha::PodResourcesListerServer::new(lister).max_encoding_message_size(LONGEST_MESSAGE);
    let interceptor = tonic::service::interceptor::InterceptorLayer::new(limited);
    let server = Server::builder()
        .concurrency_limit_per_connection(CALLS)
        .layer(interceptor)
        .add_service(v1)
        .add_service(first);
    info!("the PodResources API is served at {}", path.display());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        if let Err(cause) = server.serve_with_incoming(incoming).await {
            error!("the PodResources API is not served any more: {cause}; restart the agent");
        }
    });
    Ok(tasks)
}

/// Answers requests.
#[derive(Clone)]
struct Lister {
    options: Options,
}

impl Lister {
    /// The pods, read where it may block.
    async fn pods(
        &self,
        read: impl FnOnce(&dyn NodePods) -> Vec<NodePod> + Send + 'static,
    ) -> std::result::Result<Vec<NodePod>, Status> {
        let pods = Arc::clone(&self.options.pods);
        let pods = tokio::task::spawn_blocking(move || read(&*pods)).await;
        pods.map_err(|cause| Status::internal(format!("the pods of this node cannot be read: {cause}")))
    }

    fn resources(&self, pod: &NodePod) -> PodResources {
        let container = |name: &String| ContainerResources {
            name: name.clone(),
            devices: listed(self.options.devices.devices_of(&pod.uid, name)),
            ..ContainerResources::default()
        };
        PodResources {
            name: pod.name.clone(),
            namespace: pod.namespace.clone(),
            containers: pod.sidecars.iter().chain(&pod.containers).map(container).collect(),
            ..PodResources::default()
        }
    }

    fn count(&self, version: &str) {
        self.options.devices.inner.metrics.requests.with([version]).increment();
    }
}

/// Devices, each once for every NUMA node that it is near to.
fn listed(devices: Vec<AllocatedDevice>) -> Vec<ContainerDevices> {
    let of = |device: AllocatedDevice| {
        let AllocatedDevice { resource, id, numa, .. } = device;
        let nodes: Vec<Option<i64>> =
            if numa.is_empty() { vec![None] } else { numa.into_iter().map(Some).collect() };
        let one = move |node: Option<i64>| ContainerDevices {
            resource_name: resource.clone(),
            device_ids: vec![id.clone()],
            topology: node.map(|id| TopologyInfo { nodes: vec![NumaNode { id }] }),
        };
        nodes.into_iter().map(one).collect::<Vec<_>>()
    };
    devices.into_iter().flat_map(of).collect()
}

const V1: &str = "v1";
const V1ALPHA1: &str = "v1alpha1";

#[tonic::async_trait]
impl PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> std::result::Result<Response<ListPodResourcesResponse>, Status> {
        self.count(V1);
        self.options.devices.inner.metrics.lists.with([V1]).increment();
        let pods = self.pods(|pods| pods.active()).await?;
        let pod_resources = pods.iter().map(|pod| self.resources(pod)).collect();
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> std::result::Result<Response<AllocatableResourcesResponse>, Status> {
        self.count(V1);
        self.options.devices.inner.metrics.allocatables.with([V1]).increment();
        let devices = listed(self.options.devices.allocatable());
        Ok(Response::new(AllocatableResourcesResponse { devices, ..AllocatableResourcesResponse::default() }))
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> std::result::Result<Response<GetPodResourcesResponse>, Status> {
        self.count(V1);
        let metrics = &self.options.devices.inner.metrics;
        metrics.gets.with([V1]).increment();
        let GetPodResourcesRequest { pod_name, pod_namespace } = request.into_inner();
        let pods = self.pods(|pods| pods.active()).await?;
        let pod = pods.iter().find(|pod| pod.name == pod_name && pod.namespace == pod_namespace);
        let Some(pod) = pod else {
            metrics.failed_gets.with([V1]).increment();
            return Err(Status::unknown(format!("pod {pod_name} in namespace {pod_namespace} not found")));
        };
        Ok(Response::new(GetPodResourcesResponse { pod_resources: Some(self.resources(pod)) }))
    }
}

#[tonic::async_trait]
impl alpha::PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<v1alpha1::ListPodResourcesRequest>,
    ) -> std::result::Result<Response<v1alpha1::ListPodResourcesResponse>, Status> {
        self.count(V1ALPHA1);
        let pods = self.pods(|pods| pods.all()).await?;
        let pod = |pod: NodePod| {
            let container = |name: &String| v1alpha1::ContainerResources {
                name: name.clone(),
                devices: listed(self.options.devices.devices_of(&pod.uid, name))
                    .into_iter()
                    .map(|of| v1alpha1::ContainerDevices {
                        resource_name: of.resource_name,
                        device_ids: of.device_ids,
                    })
                    .collect(),
            };
            let containers = pod.containers.iter().map(container).collect();
            v1alpha1::PodResources { name: pod.name.clone(), namespace: pod.namespace.clone(), containers }
        };
        let pod_resources = pods.into_iter().map(pod).collect();
        Ok(Response::new(v1alpha1::ListPodResourcesResponse { pod_resources }))
    }
}
