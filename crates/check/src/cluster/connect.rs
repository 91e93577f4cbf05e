//! From a kubeconfig to a client.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::trouble::{Trouble, chain};
use super::{Access, Error};

/// A server that is there answers in less.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest silence within one page.
const SILENCE: Duration = Duration::from_secs(60);

/// A client of a cluster.
pub struct Connection {
    /// The client.
    pub client: Client,
    /// The URL of its API server, for messages.
    pub server: String,
    /// The namespace of the pod's service account, if its credentials are used.
    pub namespace: Option<String>,
}

/// A client for as long as a process lives: it waits for an answer without an end, and tries nothing again. Its caller
/// sets deadlines. Must be called within a tokio runtime.
///
/// # Errors
/// If there are no credentials, or they cannot be used. The server need not be reachable.
pub async fn connect(access: &Access) -> Result<Connection, Error> {
    let Found { mut config, namespace } = config(access).await?;
    config.connect_timeout = Some(CONNECT);
    config.default_retry = false;
    connected(config, namespace)
}

/// A client for a few lists.
pub(super) async fn target(access: &Access) -> Result<Connection, Error> {
    let Found { mut config, namespace } = config(access).await?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    // Otherwise the time between two pages would count as the server's silence.
    config.reset_reader_on_write = true;
    connected(config, namespace)
}

fn connected(config: Config, namespace: Option<String>) -> Result<Connection, Error> {
    let server = config.cluster_url.to_string();
    let server = server.trim_end_matches('/').to_owned();
    let client = Client::try_from(config).map_err(|e| Error::from(Trouble::of(&e, &server)))?;
    Ok(Connection { client, server, namespace })
}

/// A configuration, and the namespace of the service account that it is of.
struct Found {
    config: Config,
    namespace: Option<String>,
}

async fn config(access: &Access) -> Result<Found, Error> {
    let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let chosen = access.kubeconfig.as_deref();
    let read = match chosen {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let read = match read {
        Err(e) if chosen.is_none() && access.context.is_none() && is_absent(&e) => {
            // The service account of a pod, which is how the check runs inside a cluster.
            let config = Config::incluster().map_err(|_| Error::NoKubeconfig)?;
            let namespace = Some(config.default_namespace.clone());
            return Ok(Found { config, namespace });
        }
        other => other.map_err(|e| unusable(e, chosen))?,
    };
    let known: Vec<String> = read.contexts.iter().map(|context| context.name.clone()).collect();
    let config = Config::from_custom_kubeconfig(read, &options).await;
    Ok(Found { config: config.map_err(|e| no_context(e, known, chosen))?, namespace: None })
}

fn is_absent(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(e, _) => e.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

fn unusable(error: KubeconfigError, chosen: Option<&Path>) -> Error {
    match error {
        KubeconfigError::ReadConfig(cause, path) => Error::KubeconfigUnreadable { path, cause },
        error => Error::KubeconfigUnusable { kubeconfig: spoken(chosen), cause: chain(&error) },
    }
}

fn no_context(error: KubeconfigError, contexts: Vec<String>, chosen: Option<&Path>) -> Error {
    let kubeconfig = spoken(chosen);
    match error {
        KubeconfigError::CurrentContextNotSet => Error::NoCurrentContext { kubeconfig, contexts },
        KubeconfigError::LoadContext(name) => Error::NoContext { kubeconfig, name, contexts },
        KubeconfigError::LoadClusterOfContext(name) => Error::NoCluster { kubeconfig, name, contexts },
        other => unusable(other, chosen),
    }
}

fn spoken(chosen: Option<&Path>) -> String {
    chosen.map_or_else(|| "the kubeconfig".to_owned(), |file| format!("the kubeconfig {}", file.display()))
}
