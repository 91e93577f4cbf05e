use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use node::kubelet::{AuthorizationMode, KubeletConfig};
use telemetry::metrics::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tracing::{info, warn};

use crate::auth::{Access, ApiReviews, Auth, ClientCertificates, Reviews, Tokens, Ttls};
use crate::error::ServeError;
use crate::health::SyncLoop;
use crate::http::{
    self, Handler, Health, HealthMetrics, Limits, Places, ReadOnly, RequestMetrics, Secure, Shown,
    serve_healthz,
};
use crate::node_logs::NodeLogs;
use crate::pods::Pods;
use crate::streams::Streams;
use crate::tls::server_config;
use crate::usage::Usage;

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
    /// The metrics of probes.
    pub probe_metrics: Registry,
    /// The directory of the node's logs.
    pub node_logs: &'a Path,
    /// The loop that drives all pods, for `/healthz`.
    pub sync_loop: SyncLoop,
}

/// The kubelet's API while it is served. It ends when this value is dropped.
#[derive(Debug)]
pub struct Server {
    /// Where port 10250 is served; `None` if it is disabled.
    pub address: Option<SocketAddr>,
    /// Where the read-only port is served; `None` if it is not configured.
    pub read_only: Option<SocketAddr>,
    _tasks: JoinSet<()>,
}

/// Serves the ports that the configuration enables. Must be called within a tokio runtime.
///
/// # Errors
/// If a port is not free, or if a certificate, key or authority cannot be used.
pub async fn serve(options: Options<'_>) -> Result<Server, ServeError> {
    let config = options.config;
    let mut tasks = JoinSet::new();
    let health = Health { sync_loop: options.sync_loop, metrics: HealthMetrics::register()? };
    spawn_healthz(config, &health, &mut tasks);
    let metrics = RequestMetrics::register(&options.metrics, options.node)?;
    let shown = Arc::new(Shown {
        pods: options.pods,
        registry: options.metrics,
        probes: options.probe_metrics,
        health,
        usage: options.usage,
        limits: Limits::of_port(),
    });
    let (mut address, mut read_only) = (None, None);
    if config.read_only_port != 0 {
        let (listener, bound) = listen(SocketAddr::new(config.address, config.read_only_port)).await?;
        warn!(
            "every client that reaches {bound} sees the pods and metrics of this node: readOnlyPort is set"
        );
        let port = ReadOnly { shown: Arc::new(shown.of_other_port()), metrics: metrics.clone() };
        tasks.spawn(http::serve_read_only(listener, port));
        read_only = Some(bound);
    }
    if config.enable_server {
        let tls = server_config(config, options.cert_dir, options.node)?;
        // A session has a connection to its client and one to the runtime, and a log has a file.
        let most = http::most_connections() / 2;
        let idle = config.streaming_connection_idle_timeout.to_std();
        let handler = Arc::new(Handler {
            auth: auth(config, options.node, options.client)?,
            shown,
            metrics,
            configz: configz(options.effective).into(),
            logs: Places::new("logs", most),
            node_logs: config.enable_system_log_handler.then(|| NodeLogs::new(options.node_logs.to_owned())),
            streams: options.streams,
            sessions: Places::new("sessions", most),
            idle: Some(idle).filter(|idle| !idle.is_zero()),
            has_debugging: config.enable_debugging_handlers,
            bridges: config.is_gate_on("ExtendWebSocketsToKubelet"),
            splits_streams: config.is_gate_on("PodLogsQuerySplitStreams"),
        });
        let (listener, bound) = listen(SocketAddr::new(config.address, config.port)).await?;
        info!("the kubelet's API is served on {bound}");
        tasks.spawn(http::serve(Secure { listener, tls: TlsAcceptor::from(tls), handler }));
        address = Some(bound);
    }
    Ok(Server { address, read_only, _tasks: tasks })
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listening = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listening.await.map_err(|cause| ServeError::Listen { address, cause })
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
///
/// # Errors
/// If the metrics of its checks cannot be registered.
pub fn serve_health(config: &KubeletConfig, sync_loop: &SyncLoop) -> Result<Server, ServeError> {
    let mut tasks = JoinSet::new();
    let health = Health { sync_loop: sync_loop.clone(), metrics: HealthMetrics::register()? };
    spawn_healthz(config, &health, &mut tasks);
    Ok(Server { address: None, read_only: None, _tasks: tasks })
}

fn spawn_healthz(config: &KubeletConfig, health: &Health, tasks: &mut JoinSet<()>) {
    if config.healthz_port != 0 {
        let address = SocketAddr::new(config.healthz_bind_address, config.healthz_port);
        tasks.spawn(serve_healthz(address, health.clone()));
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
