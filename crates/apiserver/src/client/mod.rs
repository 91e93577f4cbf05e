//! From a kubeconfig to clients of the API server.
//!
//! kube sets no limit to the time that an answer may take. So no request is awaited outside of [`ApiClient::call`] and
//! [`ApiClient::watch`], which set one.

mod certificate;
mod error;
mod kubeconfig;
mod watch;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

pub use error::{ApiError, ClientError, ErrorKind};
pub use watch::Watch;

/// How long a request of the main client may take.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(60);
/// How long a request of the heartbeat client may take: a heartbeat that is later than the next one has no use.
pub const HEARTBEAT_DEADLINE: Duration = Duration::from_secs(10);

/// The clients of one kubeconfig. The credentials are read when they are built: after a renewal of the client
/// certificate they have to be built again.
#[derive(Debug, Clone)]
pub struct Clients {
    /// For everything but heartbeats.
    pub main: ApiClient,
    /// For the status of the Node and its lease, over connections of its own.
    pub heartbeat: ApiClient,
}

impl Clients {
    /// Builds the clients that a kubeconfig describes. The API server need not be reachable. It must be called inside
    /// of a tokio runtime.
    ///
    /// # Errors
    /// If the kubeconfig, or a file that it names, cannot be read or used.
    pub async fn from_kubeconfig(path: &Path) -> Result<Self, ClientError> {
        let loaded = kubeconfig::load(path).await?;
        let identity = Arc::new(Identity {
            server: loaded.server,
            kubeconfig: path.to_owned(),
            certificate_expires: loaded.certificate_expires,
        });
        let build = |deadline: Duration| {
            let client = kube::Client::try_from(loaded.config.clone());
            let client = client.map_err(|error| ClientError::unusable(path, &error))?;
            Ok(ApiClient { client, deadline, identity: Arc::clone(&identity) })
        };
        Ok(Self { main: build(REQUEST_DEADLINE)?, heartbeat: build(HEARTBEAT_DEADLINE)? })
    }
}

/// One client: connections to the API server, and the deadline of its requests.
#[derive(Clone)]
pub struct ApiClient {
    client: kube::Client,
    deadline: Duration,
    identity: Arc<Identity>,
}

/// What messages say about a client.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The URL of the API server.
    pub(crate) server: String,
    pub(crate) kubeconfig: PathBuf,
    /// The end of the client certificate's validity; none if the credentials are no certificate.
    pub(crate) certificate_expires: Option<Timestamp>,
}

impl std::fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiClient").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl ApiClient {
    /// The client to build a `kube::Api` with. Its requests go through [`ApiClient::call`] or [`ApiClient::watch`].
    #[must_use]
    pub fn kube(&self) -> kube::Client {
        self.client.clone()
    }

    /// The URL of the API server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.identity.server
    }

    /// When the client certificate expires; `None` if the credentials are no certificate.
    #[must_use]
    pub fn certificate_expires(&self) -> Option<Timestamp> {
        self.identity.certificate_expires
    }

    /// Awaits the answer to a request, up to this client's deadline. `action` says in messages what the request does:
    /// "get Node worker-1".
    ///
    /// # Errors
    /// If the server cannot be reached, does not answer in time, or refuses.
    pub async fn call<T>(
        &self,
        action: &str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ApiError> {
        match tokio::time::timeout(self.deadline, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(ApiError::new(action, &error, &self.identity)),
            Err(_) => Err(ApiError::timeout(action, self.deadline, &self.identity)),
        }
    }
}
