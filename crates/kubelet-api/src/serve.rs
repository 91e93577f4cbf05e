use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use node::kubelet::{AuthorizationMode, KubeletConfig};
use telemetry::metrics::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use crate::auth::{Access, ApiReviews, Auth, ClientCertificates, Reviews, Tokens, Ttls};
use crate::error::ServeError;
use crate::health::SyncLoop;
use crate::http::{
    self, Handler, Paths, RequestMetrics, Secure, UsageTurns, serve_healthz, serve_local_page,
};
use crate::page::Page;
use crate::pods::Pods;
use crate::streams::Streams;
use crate::tls::server_config;
use crate::usage::Usage;

/// How many logs may be read at once: each has a file open, and memory for what its client has not taken.
const LOGS: usize = 500;

/// The page of this node, and where it is served besides `/wardlet/` of port 10250: without authentication on a loopback
/// address; on another address as on port 10250, with its certificate and its decisions on users.
#[derive(Clone)]
pub struct ServedPage {
    /// The page.
    pub page: Arc<dyn Page>,
    /// The address.
    pub address: SocketAddr,
}

/// What the kubelet's API needs.
pub struct Options<'a> {
    /// The kubelet's configuration.
    pub config: &'a KubeletConfig,
    /// Where a certificate is made and kept if none is configured.
    pub cert_dir: &'a Path,
    /// The node's name.
    pub node: &'a str,
    /// The client of the API server, which decides on users.
    pub client: kube::Client,
    /// The pods to serve.
    pub pods: Arc<dyn Pods>,
    /// The runtime, for sessions in their containers.
    pub streams: Arc<dyn Streams>,
    /// What the node and its pods use.
    pub usage: Arc<dyn Usage>,
    /// Every field of the configuration, for `/configz`.
    pub effective: &'a serde_json::Value,
    /// The metrics to serve; those of requests are added.
    pub metrics: Registry,
    /// The loop that drives all pods, for `/healthz`.
    pub sync_loop: SyncLoop,
    /// The page of this node; `None` if it is not served.
    pub page: Option<ServedPage>,
}

/// The kubelet's API while it is served. It ends when this value is dropped.
#[derive(Debug)]
pub struct Server {
    /// Where port 10250 is served; `None` if it is disabled.
    pub address: Option<SocketAddr>,
    /// Where the page is served to users with a decision of the API server; `None` if it is on a loopback address.
    pub page: Option<SocketAddr>,
    _tasks: JoinSet<()>,
}

/// Serves the ports that the configuration enables. Must be called within a tokio runtime.
///
/// # Errors
/// If the port is not free, or if a certificate, key or authority cannot be used.
pub async fn serve(options: Options<'_>) -> Result<Server, ServeError> {
    let config = options.config;
    let mut tasks = JoinSet::new();
    health(config, &options.sync_loop, &mut tasks);
    let exposed = local_page(options.page.as_ref(), &mut tasks);
    if config.read_only_port != 0 {
        warn!("readOnlyPort {} is not served", config.read_only_port);
    }
    if !config.enable_server {
        if let Some(address) = exposed {
            warn!("the page of this node is not served on {address}: enableServer is false");
        }
        return Ok(Server { address: None, page: None, _tasks: tasks });
    }
    let tls = server_config(config, options.cert_dir, options.node)?;
    let wanted = SocketAddr::new(config.address, config.port);
    let handler = Arc::new(Handler {
        paths: Paths::All,
        auth: Arc::new(auth(config, options.node, options.client)?),
        pods: options.pods,
        metrics: RequestMetrics::register(&options.metrics, options.node)?,
        registry: options.metrics,
        sync_loop: options.sync_loop,
        usage: options.usage,
        usage_turns: UsageTurns::new(),
        page: options.page.map(|served| served.page),
        page_turns: Semaphore::new(UsageTurns::EACH),
        configz: configz(options.effective).into(),
        log_turns: Arc::new(Semaphore::new(LOGS)),
        streams: options.streams,
        session_turns: Arc::new(Semaphore::new(http::most_connections() / 2)),
        has_debugging: config.enable_debugging_handlers,
        splits_streams: config.is_gate_on("PodLogsQuerySplitStreams"),
    });
    let tls = TlsAcceptor::from(tls);
    let (listener, address) = listen(wanted).await?;
    info!("the kubelet's API is served on {address}");
    let of_page = Arc::new(handler.of_page());
    tasks.spawn(http::serve(Secure { listener, tls: tls.clone(), handler }));
    let mut page = None;
    if let Some(exposed) = exposed {
        let (listener, address) = listen(exposed).await?;
        info!("the page of this node is served on {address}");
        tasks.spawn(http::serve(Secure { listener, tls, handler: of_page }));
        page = Some(address);
    }
    Ok(Server { address: Some(address), page, _tasks: tasks })
}

async fn listen(wanted: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listening = async {
        let listener = TcpListener::bind(wanted).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listening.await.map_err(|cause| ServeError::Listen { address: wanted, cause })
}

/// Serves the page on a loopback address. Another address is returned: it needs a decision on each user.
fn local_page(page: Option<&ServedPage>, tasks: &mut JoinSet<()>) -> Option<SocketAddr> {
    let ServedPage { page, address } = page?;
    if !address.ip().is_loopback() {
        return Some(*address);
    }
    info!("the page of this node is at http://{address}/wardlet/");
    tasks.spawn(serve_local_page(*address, Arc::clone(page)));
    None
}

/// The configuration as a kubelet shows it: an object of its API.
fn configz(effective: &serde_json::Value) -> String {
    let mut config = effective.clone();
    if let Some(fields) = config.as_object_mut() {
        fields.insert("kind".to_owned(), "KubeletConfiguration".into());
        fields.insert("apiVersion".to_owned(), "kubelet.config.k8s.io/v1beta1".into());
    }
    serde_json::json!({"kubeletconfig": config}).to_string()
}

/// Serves the healthz port and the page on a loopback address, for a node without an API server. Must be called within a tokio
/// runtime.
#[must_use]
pub fn serve_health(config: &KubeletConfig, sync_loop: &SyncLoop, page: Option<&ServedPage>) -> Server {
    let mut tasks = JoinSet::new();
    health(config, sync_loop, &mut tasks);
    if let Some(address) = local_page(page, &mut tasks) {
        warn!(
            "the page of this node is not served on {address}: there is no API server to decide on its users"
        );
    }
    Server { address: None, page: None, _tasks: tasks }
}

fn health(config: &KubeletConfig, sync_loop: &SyncLoop, tasks: &mut JoinSet<()>) {
    if config.healthz_port != 0 {
        let address = SocketAddr::new(config.healthz_bind_address, config.healthz_port);
        tasks.spawn(serve_healthz(address, sync_loop.clone()));
    }
}

fn auth(config: &KubeletConfig, node: &str, client: kube::Client) -> Result<Auth, ServeError> {
    let reviews: Arc<dyn Reviews> = Arc::new(ApiReviews::new(client));
    let authentication = &config.authentication;
    let authorities = authentication.x509.client_ca_file.as_deref();
    let webhook = &authentication.webhook;
    let access = match config.authorization.mode {
        AuthorizationMode::AlwaysAllow => {
            if authentication.anonymous.enabled {
                warn!(
                    "every client of port {} may do everything: authentication.anonymous.enabled is true and authorization.mode AlwaysAllow",
                    config.port
                );
            }
            Access::AlwaysAllow
        }
        AuthorizationMode::Webhook => {
            let ttls = &config.authorization.webhook;
            let ttls = Ttls {
                allowed: ttls.cache_authorized_ttl.to_std(),
                denied: ttls.cache_unauthorized_ttl.to_std(),
            };
            Access::reviewed(Arc::clone(&reviews), node, ttls)
        }
    };
    Ok(Auth {
        certificates: authorities.map(ClientCertificates::open).transpose()?,
        tokens: webhook.enabled.then(|| Tokens::new(reviews, webhook.cache_ttl.to_std())),
        anonymous: authentication.anonymous.enabled,
        access,
    })
}
