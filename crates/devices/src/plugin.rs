//! Calls of a device plugin.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use crate::api::HEALTHY;
use crate::api::v1beta1::device_plugin_client::DevicePluginClient;
use crate::api::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerAllocateRequest, ContainerPreferredAllocationRequest,
    DevicePluginOptions, Empty, ListAndWatchResponse, PreStartContainerRequest, PreferredAllocationRequest,
};
use crate::error::CallError;
use crate::state::{Device, Devices, Health};

/// How long a plugin may take to accept the connection, and to say what it can do.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a plugin may take to prepare devices: a kubelet waits for ever, and so would all pods that ask for devices.
const ALLOCATE: Duration = Duration::from_mins(2);
/// How long a plugin may take before a container starts, as with a kubelet.
const PRE_START: Duration = Duration::from_secs(30);

/// The server's name in requests; Go's servers refuse an empty one.
const AUTHORITY: &str = "http://localhost";

/// A connected plugin. Clones share the connection.
#[derive(Debug, Clone)]
pub(crate) struct Plugin {
    socket: PathBuf,
    client: DevicePluginClient<Channel>,
    options: DevicePluginOptions,
}

/// A connection to a Unix socket, made within a deadline.
pub(crate) async fn dial(socket: &Path, deadline: Duration) -> Result<Channel, CallError> {
    let refused = |cause: String| CallError::Connect { socket: socket.to_owned(), cause };
    // The transport hides what the kernel said; this tells it.
    UnixStream::connect(socket).await.map_err(|cause| refused(cause.to_string()))?;
    let target = socket.to_owned();
    let connector = tower::service_fn(move |_| {
        let target = target.clone();
        async move { UnixStream::connect(target).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static(AUTHORITY);
    match tokio::time::timeout(deadline, endpoint.connect_with_connector(connector)).await {
        Ok(connected) => connected.map_err(|error| refused(innermost(&error))),
        Err(_) => Err(CallError::Silent { socket: socket.to_owned(), seconds: deadline.as_secs() }),
    }
}

/// "transport error" says nothing: the last cause is the one that does.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The answer of a call, if it comes before the deadline.
pub(crate) async fn within<T>(
    socket: &Path,
    deadline: Duration,
    answer: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(deadline, answer).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(CallError::Silent { socket: socket.to_owned(), seconds: deadline.as_secs() }),
    }
}

impl Plugin {
    /// Connects to the plugin at this socket, and asks what it can do.
    pub(crate) async fn connect(socket: &Path) -> Result<Self, CallError> {
        let mut client = DevicePluginClient::new(dial(socket, CONNECT).await?);
        let options = within(socket, CONNECT, client.get_device_plugin_options(Empty {})).await?;
        Ok(Self { socket: socket.to_owned(), client, options })
    }

    /// Whether the plugin is to be called before a container starts.
    pub(crate) fn is_pre_start_required(&self) -> bool {
        self.options.pre_start_required
    }

    /// Whether the plugin has preferences among its devices.
    pub(crate) fn has_preferences(&self) -> bool {
        self.options.get_preferred_allocation_available
    }

    /// Calls `listed` with each list of devices until the plugin ends or a list is not taken, and says why.
    pub(crate) async fn list_and_watch(
        &self,
        mut listed: impl FnMut(Devices) -> Result<(), String>,
    ) -> String {
        let mut client = self.client.clone();
        let mut lists = match client.list_and_watch(Empty {}).await {
            Ok(lists) => lists.into_inner(),
            Err(status) => return CallError::from(status).to_string(),
        };
        loop {
            match lists.message().await {
                Ok(Some(list)) => {
                    if let Err(cause) = listed(read(list)) {
                        return cause;
                    }
                }
                Ok(None) => return io::Error::from(io::ErrorKind::UnexpectedEof).to_string(),
                Err(status) => return CallError::from(status).to_string(),
            }
        }
    }

    /// The devices that the plugin prefers, among the available ones.
    pub(crate) async fn preferred(&self, among: Preference) -> Result<Vec<String>, CallError> {
        let Preference { available, must_include, size } = among;
        let request = ContainerPreferredAllocationRequest {
            available_device_i_ds: available,
            must_include_device_i_ds: must_include,
            allocation_size: i32::try_from(size).unwrap_or(i32::MAX),
        };
        let request = PreferredAllocationRequest { container_requests: vec![request] };
        let mut client = self.client.clone();
        let answer = within(&self.socket, ALLOCATE, client.get_preferred_allocation(request)).await?;
        Ok(answer.container_responses.into_iter().next().map(|one| one.device_i_ds).unwrap_or_default())
    }

    /// Has the plugin prepare these devices for a container.
    pub(crate) async fn allocate(&self, devices: Vec<String>) -> Result<AllocateResponse, CallError> {
        let request = ContainerAllocateRequest { devices_ids: devices };
        let request = AllocateRequest { container_requests: vec![request] };
        let mut client = self.client.clone();
        within(&self.socket, ALLOCATE, client.allocate(request)).await
    }

    /// Has the plugin prepare these devices for the start of a container.
    pub(crate) async fn pre_start(&self, devices: Vec<String>) -> Result<(), CallError> {
        let request = PreStartContainerRequest { devices_ids: devices };
        let mut client = self.client.clone();
        within(&self.socket, PRE_START, client.pre_start_container(request)).await.map(drop)
    }
}

/// Among which devices a plugin is asked for its preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preference {
    pub(crate) available: Vec<String>,
    pub(crate) must_include: Vec<String>,
    pub(crate) size: usize,
}

fn read(list: ListAndWatchResponse) -> Devices {
    let device = |device: crate::api::v1beta1::Device| {
        let health = if device.health == HEALTHY { Health::Healthy } else { Health::Unhealthy };
        let numa = device.topology.map(|topology| topology.nodes.iter().map(|node| node.id).collect());
        (device.id, Device { health, numa: numa.unwrap_or_default() })
    };
    list.devices.into_iter().map(device).collect()
}
