//! From a kubeconfig to a client.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::Access;
use super::trouble::{Trouble, chain};
use crate::failure::Failure;

/// A server that is there answers in less.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest silence within one page.
const SILENCE: Duration = Duration::from_secs(60);

pub(super) struct Target {
    pub(super) client: Client,
    /// Its URL, for messages.
    pub(super) server: String,
}

pub(super) async fn target(access: &Access) -> Result<Target, Failure> {
    let mut config = config(access).await?;
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    // Otherwise the time between two pages would count as the server's silence.
    config.reset_reader_on_write = true;
    let server = config.cluster_url.to_string();
    let server = server.trim_end_matches('/').to_owned();
    let client = Client::try_from(config).map_err(|e| Trouble::of(&e, &server).into_failure())?;
    Ok(Target { client, server })
}

async fn config(access: &Access) -> Result<Config, Failure> {
    let options = KubeConfigOptions { context: access.context.clone(), ..KubeConfigOptions::default() };
    let chosen = access.kubeconfig.as_deref();
    let read = match chosen {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let read = match read {
        Err(e) if chosen.is_none() && access.context.is_none() && is_absent(&e) => {
            // The service account of a pod, which is how the check runs inside a cluster.
            return Config::incluster().map_err(|_| no_kubeconfig());
        }
        other => other.map_err(|e| unusable(&e, chosen))?,
    };
    let known: Vec<String> = read.contexts.iter().map(|context| context.name.clone()).collect();
    Config::from_custom_kubeconfig(read, &options).await.map_err(|e| no_context(&e, &known, chosen))
}

fn is_absent(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(e, _) => e.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

fn no_kubeconfig() -> Failure {
    Failure::unknown(
        "no cluster is named: KUBECONFIG is not set, ~/.kube/config is not there, and this is no pod",
    )
    .with_hint("--kubeconfig FILE, or check a dump instead: kubectl get … -o json | wardlet check -")
}

fn unusable(error: &KubeconfigError, chosen: Option<&Path>) -> Failure {
    match error {
        KubeconfigError::ReadConfig(e, path) => {
            Failure::unknown(format!("cannot read the kubeconfig {}: {e}", path.display()))
                .with_hint("--kubeconfig FILE or KUBECONFIG names another")
        }
        error => Failure::unknown(format!("{} cannot be used: {}", spoken(chosen), chain(error)))
            .with_hint("`kubectl config view` with the same file shows what kubectl makes of it"),
    }
}

fn no_context(error: &KubeconfigError, known: &[String], chosen: Option<&Path>) -> Failure {
    let spoken = spoken(chosen);
    let hint = match known {
        [] => "it has no contexts; `kubectl config set-context` makes one".to_owned(),
        known => format!("--context NAME; it has {}", known.join(", ")),
    };
    match error {
        KubeconfigError::CurrentContextNotSet => {
            Failure::unknown(format!("{spoken} has no current context")).with_hint(hint)
        }
        KubeconfigError::LoadContext(name) => {
            Failure::unknown(format!("{spoken} has no context {name:?}")).with_hint(hint)
        }
        KubeconfigError::LoadClusterOfContext(name) => {
            Failure::unknown(format!("{spoken} has no cluster {name:?}, which its context names"))
                .with_hint(hint)
        }
        other => unusable(other, chosen),
    }
}

fn spoken(chosen: Option<&Path>) -> String {
    chosen.map_or_else(|| "the kubeconfig".to_owned(), |file| format!("the kubeconfig {}", file.display()))
}
