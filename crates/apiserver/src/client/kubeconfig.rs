//! Reading a kubeconfig and the files that it names.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::certificate;
use super::error::ClientError;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

pub(super) struct Loaded {
    pub(super) config: Config,
    pub(super) server: String,
    pub(super) certificate_expires: Option<Timestamp>,
}

pub(super) async fn load(path: &Path) -> Result<Loaded, ClientError> {
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| unreadable(path, error))?;
    let authority = authority_file(&kubeconfig);
    let options = KubeConfigOptions::default();
    let loaded = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = loaded.map_err(|error| ClientError::unusable(path, &error))?;
    config.connect_timeout = Some(CONNECT);
    // The callers retry, with deadlines of their own.
    config.default_retry = false;
    // Read again each minute, so that a renewed authority needs no restart.
    config.root_cert_file = authority;
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let certificate_expires = certificate_pem(&config.auth_info).as_deref().and_then(certificate::expires);
    Ok(Loaded { config, server, certificate_expires })
}

fn unreadable(path: &Path, error: KubeconfigError) -> ClientError {
    match error {
        KubeconfigError::ReadConfig(cause, _) => ClientError::Unreadable { path: path.to_owned(), cause },
        error => ClientError::unusable(path, &error),
    }
}

/// The file of the certificate authority, if the current cluster names one.
fn authority_file(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *current)?;
    let name = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == *name)?.cluster.as_ref()?;
    if cluster.certificate_authority_data.is_some() {
        return None;
    }
    cluster.certificate_authority.as_ref().map(PathBuf::from)
}

/// The client certificate as PEM, from the file or from the kubeconfig itself.
fn certificate_pem(auth: &AuthInfo) -> Option<Vec<u8>> {
    match (&auth.client_certificate_data, &auth.client_certificate) {
        (Some(data), _) => certificate::decode(data),
        (None, Some(file)) => fs::read(file).ok(),
        (None, None) => None,
    }
}
