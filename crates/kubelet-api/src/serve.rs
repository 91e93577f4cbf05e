use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use node::kubelet::{AuthorizationMode, KubeletConfig};
use secure_serving::{ApiReviews, Decisions, Reviews, Secure, Tokens, Ttls};
use telemetry::metrics::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::auth::{Access, Auth, ClientCertificates};
use crate::error::ServeError;
use crate::health::SyncLoop;
use crate::http::{self, Handler, RequestMetrics, UsageTurns, serve_healthz};
use crate::pods::Pods;
use crate::streams::Streams;
use crate::tls::server_config;
use crate::usage::Usage;

/// How many logs may be read at once: each has a file open, and memory for what its client has not taken.
const LOGS: usize = 500;

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
}

/// The kubelet's API while it is served. It ends when this value is dropped.
#[derive(Debug)]
pub struct Server {
    /// Where port 10250 is served; `None` if it is disabled.
    pub address: Option<SocketAddr>,
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
    if config.read_only_port != 0 {
        warn!("readOnlyPort {} is not served", config.read_only_port);
    }
    if !config.enable_server {
        return Ok(Server { address: None, _tasks: tasks });
    }
    let tls = server_config(config, options.cert_dir, options.node)?;
    let wanted = SocketAddr::new(config.address, config.port);
    let handler = Arc::new(Handler {
        auth: auth(config, options.node, options.client)?,
        pods: options.pods,
        metrics: RequestMetrics::register(&options.metrics, options.node)?,
        registry: options.metrics,
        sync_loop: options.sync_loop,
        usage: options.usage,
        usage_turns: UsageTurns::new(),
        configz: configz(options.effective).into(),
        log_turns: Arc::new(Semaphore::new(LOGS)),
        streams: options.streams,
        session_turns: Arc::new(Semaphore::new(http::most_connections() / 2)),
        has_debugging: config.enable_debugging_handlers,
        splits_streams: config.is_gate_on("PodLogsQuerySplitStreams"),
    });
    let listening = async {
        let listener = TcpListener::bind(wanted).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    let listening = listening.await.map_err(|cause| ServeError::Listen { address: wanted, cause });
    let (listener, address) = listening?;
    info!("the kubelet's API is served on {address}");
    tasks.spawn(secure_serving::serve(Secure { listener, tls, answers: handler }));
    Ok(Server { address: Some(address), _tasks: tasks })
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

/// Serves the healthz port alone, for a node without an API server. Must be called within a tokio runtime.
#[must_use]
pub fn serve_health(config: &KubeletConfig, sync_loop: &SyncLoop) -> Server {
    let mut tasks = JoinSet::new();
    health(config, sync_loop, &mut tasks);
    Server { address: None, _tasks: tasks }
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
            Access::reviewed(Decisions::new(Arc::clone(&reviews), ttls), node)
        }
    };
    Ok(Auth {
        certificates: authorities.map(ClientCertificates::open).transpose()?,
        tokens: webhook.enabled.then(|| Tokens::new(reviews, webhook.cache_ttl.to_std())),
        anonymous: authentication.anonymous.enabled,
        access,
    })
}
