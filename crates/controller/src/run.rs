use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use check::cluster::{Access, connect};
use check::controller::NAMESPACE;
use conflicts::Rules;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Client;
use secure_serving::{Secure, ServingCertificate, serve, server_config};
use selinux::{ContextsError, HostDefaults};
use telemetry::metrics::{ProcessMetrics, Registry};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tracing::info;

use crate::cluster::{Cluster, Details};
use crate::error::Error;
use crate::events::{self, Sender};
use crate::leader::Elector;
use crate::metrics::{ConflictMetrics, Counters, ObjectSeries};
use crate::objects::{ClaimObject, DriverObject, NodeObject, PodObject};
use crate::serve::Handler;
use crate::shared::Shared;
use crate::status::{self, StatusWriter};
use crate::watch::{Object, watch};

/// What a controller is run with.
#[derive(Debug, Clone)]
pub struct Options {
    /// The cluster. Its namespace is that of the controller's Lease and ConfigMap; without one, that of the pod's service
    /// account, or `wardlet-system`.
    pub access: Access,
    /// Where metrics and checks of health are served.
    pub listen: SocketAddr,
    /// The certificate of that port; without one, a self-signed one is made for this process.
    pub files: Option<ServingFiles>,
    /// Which series are served.
    pub series: Series,
    /// A contexts file of the nodes, if it is the same on all of them: what they fill in where a pod's label lacks
    /// something.
    pub contexts: Option<PathBuf>,
}

/// The files of a serving certificate, PEM.
#[derive(Debug, Clone)]
pub struct ServingFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Which series are served.
#[derive(Debug, Clone, Copy)]
pub struct Series {
    /// The most series of upstream's metric of conflicts.
    pub most_conflicts: usize,
    /// Whether series of pods, claims, volumes and drivers are served, too.
    pub of_objects: bool,
}

/// Runs the controller until `shutdown` is done; the lease is then given up.
///
/// # Errors
/// If there are no credentials, or the port cannot be served. The API server need not be reachable.
pub async fn run(options: Options, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
    let defaults = options.contexts.as_deref().map(defaults).transpose()?;
    let connection = connect(&options.access).await?;
    let client = connection.client;
    let namespace = options.access.namespace.or(connection.namespace);
    let namespace = namespace.unwrap_or_else(|| NAMESPACE.to_owned());
    let details = if options.series.of_objects { Details::Kept } else { Details::Dropped };
    let rules = Rules { defaults, ..Rules::default() };
    let shared = Arc::new(Shared::new(Cluster::new(rules, details)));
    let registry = Registry::default();
    let counters = Counters::register(&registry)?;
    let most_series = options.series.most_conflicts;
    registry.collector(Arc::new(ConflictMetrics { shared: Arc::clone(&shared), most_series }))?;
    registry.collector(Arc::new(ProcessMetrics))?;
    if options.series.of_objects {
        registry.collector(Arc::new(ObjectSeries { shared: Arc::clone(&shared) }))?;
    }
    let replica = replica();
    let certificate = match &options.files {
        Some(files) => ServingCertificate::open(&files.certificate, &files.key)?,
        None => ServingCertificate::in_memory(&host())?,
    };
    let tls = server_config(certificate)?;
    let handler = Handler::new(registry, Arc::clone(&shared), client.clone());
    let listener = TcpListener::bind(options.listen).await;
    let listener = listener.map_err(|cause| Error::Listen { address: options.listen, cause })?;
    let address = listener.local_addr().map_err(|cause| Error::Listen { address: options.listen, cause })?;
    info!("replica {replica} watches {}; metrics are served on https://{address}/metrics", connection.server);
    let elector = Elector::new(client.clone(), &namespace, &replica, counters.clone());
    let leads = elector.leads();
    let mut tasks = JoinSet::new();
    tasks.spawn(serve(Secure { listener, tls, answers: Arc::new(handler) }));
    let watches = Watches { client: &client, shared: &shared, counters: &counters };
    watches.start::<PodObject>(&mut tasks);
    watches.start::<ClaimObject>(&mut tasks);
    watches.start::<PersistentVolume>(&mut tasks);
    watches.start::<DriverObject>(&mut tasks);
    watches.start::<NodeObject>(&mut tasks);
    let writer =
        StatusWriter { shared: Arc::clone(&shared), client: client.clone(), namespace, leads: leads.clone() };
    tasks.spawn(status::run(writer));
    tasks.spawn(events::run(Sender { shared, client, leads, replica, counters }));
    let (stop, stopped) = oneshot::channel::<()>();
    // It ends when it is asked to, or when this function returns early.
    let mut election = tokio::spawn(elector.run(async move { drop(stopped.await) }));
    let ended = tokio::select! {
        () = shutdown => None,
        ended = &mut election => Some(ended),
        ended = tasks.join_next() => ended,
    };
    if let Some(ended) = ended {
        return Err(early(ended));
    }
    drop(stop);
    // Events are sent until the lease is given up; then nothing is written any more.
    let _ = election.await;
    tasks.shutdown().await;
    Ok(())
}

fn defaults(path: &Path) -> Result<HostDefaults, Error> {
    let unusable = |cause: String| Error::Contexts { path: path.to_owned(), cause };
    let text = std::fs::read_to_string(path).map_err(|cause| unusable(cause.to_string()))?;
    text.parse().map_err(|cause: ContextsError| unusable(cause.to_string()))
}

fn early(ended: Result<(), JoinError>) -> Error {
    Error::Task(ended.err().map_or_else(|| "it returned".to_owned(), |cause| cause.to_string()))
}

struct Watches<'a> {
    client: &'a Client,
    shared: &'a Arc<Shared>,
    counters: &'a Counters,
}

impl Watches<'_> {
    fn start<K: Object>(&self, tasks: &mut JoinSet<()>) {
        let failures = self.counters.watch_failures(K::WATCHED);
        tasks.spawn(watch::<K>(self.client.clone(), Arc::clone(self.shared), failures));
    }
}

/// The name of this machine; in a pod, the pod's.
fn host() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = read.trim();
    if name.is_empty() { "controller".to_owned() } else { name.to_owned() }
}

/// A name that no other replica has, nor an earlier process of this one. std seeds its hashers randomly.
fn replica() -> String {
    format!("{}_{:016x}", host(), RandomState::new().hash_one(std::process::id()))
}
