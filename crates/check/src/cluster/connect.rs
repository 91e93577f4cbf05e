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

pub(super) struct Target {
    pub(super) client: Client,
    /// Its URL, for messages.
    pub(super) server: String,
}

pub(super) async fn target(access: &Access) -> Result<Target, Error> {
    let mut config = config(access).await?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    // Otherwise the time between two pages would count as the server's silence.
    config.reset_reader_on_write = true;
    let server = config.cluster_url.to_string();
    let server = server.trim_end_matches('/').to_owned();
    let client = Client::try_from(config).map_err(|e| Error::from(Trouble::of(&e, &server)))?;
    Ok(Target { client, server })
}

async fn config(access: &Access) -> Result<Config, Error> {
    let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let chosen = access.kubeconfig.as_deref();
    let read = match chosen {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let read = match read {
        Err(e) if chosen.is_none() && access.context.is_none() && is_absent(&e) => {
            // The service account of a pod, which is how the check runs inside a cluster.
            return Config::incluster().map_err(|_| Error::NoKubeconfig);
        }
        other => other.map_err(|e| unusable(e, chosen))?,
    };
    let known: Vec<String> = read.contexts.iter().map(|context| context.name.clone()).collect();
    Config::from_custom_kubeconfig(read, &options).await.map_err(|e| no_context(e, known, chosen))
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
