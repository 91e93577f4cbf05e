//! The certificate of port 10250 from the API server's signer. Port 10250 reads the file that is written here.

use std::path::Path;
use std::sync::Arc;

use ::node::kubelet::KubeletConfig;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tracing::warn;

use super::metrics::ServingMetrics;
use super::names::Names;
use super::request::Signer;
use super::rotation::{Rotation, State};
use super::store::Store;
use crate::client::ApiClient;

/// The task that requests and renews the serving certificate; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Serving {
    metrics: ServingMetrics,
    _tasks: JoinSet<()>,
}

impl Serving {
    /// The certificate and its renewals, for the metrics.
    pub(crate) fn metrics(&self) -> ServingMetrics {
        self.metrics.clone()
    }

    /// Starts it, if the configuration wants a certificate of the signer. The certificate is for the addresses of the
    /// Node's status; another one is requested when an address comes that it lacks.
    pub(crate) fn start(
        config: &KubeletConfig,
        cert_dir: &Path,
        client: &ApiClient,
        name: &str,
        node: watch::Receiver<Option<Arc<Node>>>,
    ) -> Self {
        let mut tasks = JoinSet::new();
        let mut metrics = ServingMetrics::default();
        let has_files = config.tls_cert_file.is_some() && config.tls_private_key_file.is_some();
        if config.enable_server && config.server_tls_bootstrap && !has_files {
            let store = Store::serving(cert_dir);
            if let Err(error) = store.open() {
                warn!(hint = error.hint(), "serving certificate: {error}");
            }
            metrics.store = Some(store.clone());
            let (reads, client) = (store.clone(), client.clone());
            let rotation = Rotation {
                title: "serving certificate",
                node: name.to_owned(),
                signer: Signer::Serving,
                store,
                renewed: Arc::new(Notify::new()),
                errors: metrics.errors.clone(),
                awaits: Box::new(|_| ()),
                state: Box::new(move || {
                    let state = state(&reads, &client, node.borrow().as_deref());
                    Box::pin(async { state })
                }),
            };
            tasks.spawn(rotation.run());
        }
        Self { metrics, _tasks: tasks }
    }
}

/// The signer wants an address at least: before the Node has one, nothing is requested.
fn state(store: &Store, client: &ApiClient, node: Option<&Node>) -> State {
    let names = node.map(Names::of).filter(|names| !names.addresses.is_empty());
    let current = store.current().filter(|pair| !pair.is_expired(Timestamp::now()));
    let covers = |names: &Names| {
        current.as_ref().is_some_and(|pair| Names::of_certificate(&pair.certificates).cover(names))
    };
    let is_unfit = names.as_ref().is_some_and(|names| !covers(names));
    State { current, is_unfit, names, client: client.clone() }
}
