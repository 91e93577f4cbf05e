//! Reading a kubeconfig and the files that it names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::error::ClientError;
use super::pair::Source;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);

pub(crate) struct Loaded {
    /// With the credentials as the kubeconfig names them.
    pub(crate) config: Config,
    pub(crate) server: String,
    pub(crate) certificate: Source,
    pub(crate) kubeconfig: Kubeconfig,
}

pub(crate) async fn load(path: &Path) -> Result<Loaded, ClientError> {
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| unreadable(path, error))?;
    let authority = authority_file(&kubeconfig);
    let options = KubeConfigOptions::default();
    let loaded = Config::from_custom_kubeconfig(kubeconfig.clone(), &options).await;
    let mut config = loaded.map_err(|error| ClientError::unusable(path, &error))?;
    config.connect_timeout = Some(CONNECT);
    // The callers retry, with deadlines of their own.
    config.default_retry = false;
    // Read again each minute, so that a renewed authority needs no restart.
    config.root_cert_file = authority;
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let certificate = Source::of(&config.auth_info)
        .map_err(|cause| ClientError::Unusable { path: path.to_owned(), cause })?;
    Ok(Loaded { config, server, certificate, kubeconfig })
}

impl Loaded {
    /// The configuration of a client with other credentials.
    pub(crate) fn config_with(&self, auth_info: AuthInfo) -> Config {
        let mut config = self.config.clone();
        config.auth_info = auth_info;
        config
    }
}

fn unreadable(path: &Path, error: KubeconfigError) -> ClientError {
    match error {
        KubeconfigError::ReadConfig(cause, _) => ClientError::Unreadable { path: path.to_owned(), cause },
        error => ClientError::unusable(path, &error),
    }
}

/// The cluster of the current context.
pub(crate) fn cluster(kubeconfig: &Kubeconfig) -> Option<&kube::config::Cluster> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|context| context.name == *current)?;
    let name = &context.context.as_ref()?.cluster;
    kubeconfig.clusters.iter().find(|cluster| cluster.name == *name)?.cluster.as_ref()
}

/// The file of the certificate authority, if the current cluster names one.
fn authority_file(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let cluster = cluster(kubeconfig)?;
    if cluster.certificate_authority_data.is_some() {
        return None;
    }
    cluster.certificate_authority.as_ref().map(PathBuf::from)
}
