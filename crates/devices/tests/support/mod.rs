//! A device plugin for tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use devices::api::v1beta1::device_plugin_client::DevicePluginClient;
use devices::api::v1beta1::device_plugin_server::{DevicePlugin, DevicePluginServer};
use devices::api::v1beta1::registration_client::RegistrationClient;
use devices::api::v1beta1::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateResponse,
    ContainerPreferredAllocationResponse, Device, DevicePluginOptions, DeviceSpec, Empty,
    ListAndWatchResponse, Mount, NumaNode, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse, RegisterRequest, TopologyInfo,
};
use devices::api::{HEALTHY, UNHEALTHY, VERSION};
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::{UnixListenerStream, WatchStream};
use tonic::codegen::BoxStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};

/// A device of the plugin: a device node of the host.
#[derive(Debug, Clone)]
pub(crate) struct FakeDevice {
    pub(crate) id: String,
    /// Its path on the host.
    pub(crate) node: PathBuf,
    pub(crate) is_healthy: bool,
    pub(crate) numa: Vec<i64>,
}

impl FakeDevice {
    pub(crate) fn new(id: &str, node: &str) -> Self {
        Self { id: id.to_owned(), node: node.into(), is_healthy: true, numa: Vec::new() }
    }
}

/// What serves a plugin. It ends when it is dropped, with all connections, as those of a process that is killed.
pub(crate) struct PluginProcess(Option<Runtime>);

impl Drop for PluginProcess {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// A device plugin. Clones are the same.
#[derive(Clone)]
pub(crate) struct FakePlugin {
    pub(crate) devices: watch::Sender<Vec<FakeDevice>>,
    pub(crate) options: DevicePluginOptions,
    /// What it was called for: `Allocate a b`.
    pub(crate) calls: Arc<Mutex<Vec<String>>>,
    /// The devices that it prefers.
    pub(crate) preferred: Vec<String>,
    /// Why it does not allocate; empty if it does.
    pub(crate) refusal: Arc<Mutex<String>>,
    /// A file of the host that containers get at the same path.
    pub(crate) mount: Option<PathBuf>,
}

impl FakePlugin {
    pub(crate) fn new(devices: Vec<FakeDevice>) -> Self {
        Self {
            devices: watch::channel(devices).0,
            options: DevicePluginOptions::default(),
            calls: Arc::default(),
            preferred: Vec::new(),
            refusal: Arc::default(),
            mount: None,
        }
    }

    fn called(&self, call: &str, devices: &[String]) {
        self.calls.lock().unwrap().push(format!("{call} {}", devices.join(" ")).trim_end().to_owned());
    }

    /// Serves at this socket.
    pub(crate) fn serve(&self, socket: &Path) -> PluginProcess {
        let _ = std::fs::remove_file(socket);
        let threads = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let entered = threads.enter();
        let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
        let server = Server::builder().add_service(DevicePluginServer::new(self.clone()));
        threads.spawn(async move { server.serve_with_incoming(incoming).await.unwrap() });
        drop(entered);
        PluginProcess(Some(threads))
    }

    fn answer(&self, ids: &[String]) -> ContainerAllocateResponse {
        let all = self.devices.borrow();
        let given = all.iter().filter(|device| ids.contains(&device.id));
        let node = |device: &FakeDevice| DeviceSpec {
            container_path: format!("/dev/{}", device.id),
            host_path: device.node.display().to_string(),
            permissions: "rw".to_owned(),
        };
        let mount = |path: &PathBuf| Mount {
            container_path: path.display().to_string(),
            host_path: path.display().to_string(),
            read_only: true,
        };
        let names = ids.join(",");
        ContainerAllocateResponse {
            envs: BTreeMap::from([("FAKE_DEVICES".to_owned(), names.clone())]),
            mounts: self.mount.iter().map(mount).collect(),
            devices: given.map(node).collect(),
            annotations: BTreeMap::from([("fake.example.com/devices".to_owned(), names)]),
            cdi_devices: Vec::<CdiDevice>::new(),
        }
    }
}

fn listed(devices: &[FakeDevice]) -> ListAndWatchResponse {
    let device = |device: &FakeDevice| Device {
        id: device.id.clone(),
        health: if device.is_healthy { HEALTHY } else { UNHEALTHY }.to_owned(),
        topology: (!device.numa.is_empty())
            .then(|| TopologyInfo { nodes: device.numa.iter().map(|id| NumaNode { id: *id }).collect() }),
    };
    ListAndWatchResponse { devices: devices.iter().map(device).collect() }
}

#[tonic::async_trait]
impl DevicePlugin for FakePlugin {
    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(self.options))
    }

    async fn list_and_watch(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<BoxStream<ListAndWatchResponse>>, Status> {
        let lists = WatchStream::new(self.devices.subscribe()).map(|devices| Ok(listed(&devices)));
        Ok(Response::new(Box::pin(lists)))
    }

    async fn get_preferred_allocation(
        &self,
        request: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        let request = &request.into_inner().container_requests[0];
        let call = format!("GetPreferredAllocation {} of", request.allocation_size);
        self.called(&call, &request.available_device_i_ds);
        let answer = ContainerPreferredAllocationResponse { device_i_ds: self.preferred.clone() };
        Ok(Response::new(PreferredAllocationResponse { container_responses: vec![answer] }))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let request = request.into_inner();
        let ids = &request.container_requests[0].devices_ids;
        self.called("Allocate", ids);
        let refusal = self.refusal.lock().unwrap().clone();
        if !refusal.is_empty() {
            return Err(Status::unknown(refusal));
        }
        Ok(Response::new(AllocateResponse { container_responses: vec![self.answer(ids)] }))
    }

    async fn pre_start_container(
        &self,
        request: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        self.called("PreStartContainer", &request.into_inner().devices_ids);
        Ok(Response::new(PreStartContainerResponse {}))
    }
}

/// A connection to a Unix socket.
pub(crate) async fn dial(socket: &Path) -> Result<Channel, String> {
    let target = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let target = target.clone();
        async move { UnixStream::connect(target).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    endpoint.connect_with_connector(connector).await.map_err(|error| error.to_string())
}

/// Registers the plugin that listens at `endpoint` beside the node's socket.
pub(crate) async fn register(dir: &Path, endpoint: &str, resource: &str) -> Result<(), String> {
    let request = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint: endpoint.to_owned(),
        resource_name: resource.to_owned(),
        options: None,
    };
    let mut client = RegistrationClient::new(dial(&dir.join("kubelet.sock")).await?);
    client.register(request).await.map(drop).map_err(|status| status.message().to_owned())
}

/// Waits until the plugin at this socket answers.
pub(crate) async fn ready(socket: &Path) {
    loop {
        if let Ok(channel) = dial(socket).await
            && DevicePluginClient::new(channel).get_device_plugin_options(Empty {}).await.is_ok()
        {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
