//! From a kubeconfig to clients of the API server.
//!
//! kube sets no limit to the time that an answer may take. So no request is awaited outside of [`ApiClient::call`] and
//! [`ApiClient::watch`], which set one.

mod connections;
mod error;
pub(crate) mod kubeconfig;
pub(crate) mod pair;
pub(crate) mod presented;
mod requests;
mod watch;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

pub use error::{ApiError, ClientError, ErrorKind};
pub(crate) use presented::{Identity, Presented};
pub use watch::Watch;

use telemetry::metrics::Registry;

use connections::Purpose;
use pair::Source;

/// How long a request of the main client may take.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(60);
/// How long a request of the heartbeat client may take: a heartbeat that is later than the next one has no use.
pub const HEARTBEAT_DEADLINE: Duration = Duration::from_secs(10);

/// The clients of one kubeconfig. [`crate::identity::connect`] gives those whose credentials follow the files.
#[derive(Debug, Clone)]
pub struct Clients {
    /// For everything but events and heartbeats.
    pub main: ApiClient,
    /// For events, which are many and may be lost.
    pub events: ApiClient,
    /// For the status of the Node and its lease, over connections of its own.
    pub heartbeat: ApiClient,
    /// What changes the credentials; `None`: nothing does.
    pub(crate) session: Option<Arc<crate::identity::Session>>,
}

impl Clients {
    /// Builds the clients that a kubeconfig describes, with its credentials of now. The API server need not be reachable.
    /// It must be called inside of a tokio runtime.
    ///
    /// # Errors
    /// If the kubeconfig, or a file that it names, cannot be read or used.
    pub async fn from_kubeconfig(path: &Path) -> Result<Self, ClientError> {
        let loaded = kubeconfig::load(path).await?;
        let presented = Presented::new(&loaded.server, path);
        match &loaded.certificate {
            Source::Embedded(pair) | Source::Files(Some(pair)) => presented.replace(&loaded, pair)?,
            // The error names the file that is missing.
            Source::Files(None) | Source::Other => presented.replace_as_named(&loaded)?,
        }
        Ok(Self::presenting(&presented))
    }

    /// Counts the requests of these clients from now on.
    ///
    /// # Errors
    /// If the registry has one of the names already.
    pub fn register(&self, registry: &Registry) -> Result<(), telemetry::metrics::Error> {
        self.main.identity.count_requests(registry)
    }

    /// Waits until the identity of these clients is lost; for ever, if nothing renews it. See
    /// [`crate::identity::Session::lost`].
    pub async fn lost(&self) -> Arc<crate::identity::IdentityError> {
        match &self.session {
            Some(session) => session.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Clients that send what is presented at the moment of each request.
    pub(crate) fn presenting(presented: &Presented) -> Self {
        let build = |purpose, deadline| {
            let identity = Arc::clone(presented.identity());
            let client = connections::client(purpose, presented.subscribe(), Arc::clone(&identity));
            ApiClient { client, deadline, identity }
        };
        Self {
            main: build(Purpose::Main, REQUEST_DEADLINE),
            events: build(Purpose::Events, REQUEST_DEADLINE),
            heartbeat: build(Purpose::Heartbeat, HEARTBEAT_DEADLINE),
            session: None,
        }
    }
}

/// One client: connections to the API server, and the deadline of its requests.
#[derive(Clone)]
pub struct ApiClient {
    client: kube::Client,
    deadline: Duration,
    identity: Arc<Identity>,
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
        self.identity.certificate_expires()
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
