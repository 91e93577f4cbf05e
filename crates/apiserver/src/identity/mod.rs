//! The identity of this node at the API server: its client certificate, requested, renewed and followed.
//!
//! | where | what |
//! |---|---|
//! | [`connect`] | clients whose credentials follow the files that hold them |
//! | `bootstrap` | the first certificate, with the credentials of a bootstrap kubeconfig |
//! | `request` | one CertificateSigningRequest: created, awaited, verified |
//! | `store` | certificates in `--cert-dir`, under the kubelet's names |
//! | `rotation` | a new certificate when 70 to 90 % of the lifetime have passed |
//! | `metrics` | when certificates end, and how often their renewal has failed |
//! | `session` | the credentials that the clients present; the end of an agent that has none |
//! | `serving` | the certificate of port 10250, if `serverTLSBootstrap` is set |
//!
//! No step leaves a state that the next start cannot go on from: keys and certificates are complete files before a name
//! leads to them, and the kubeconfig is written as a whole.

mod bootstrap;
mod error;
mod kubeconfig;
mod metrics;
mod names;
mod request;
mod rotation;
mod serving;
mod session;
mod store;

use std::path::{Path, PathBuf};

use ::node::kubelet::{KubeletConfig, NodeFlags};

use crate::client::Clients;

pub use error::IdentityError;
pub(crate) use metrics::CertificateMetrics;
pub(crate) use serving::Serving;
pub use session::Session;

/// The files and settings that a node's identity comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeIdentity {
    /// The node's name.
    pub name: String,
    /// `--kubeconfig`.
    pub kubeconfig: PathBuf,
    /// `--bootstrap-kubeconfig`.
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// `--cert-dir`.
    pub cert_dir: PathBuf,
    /// `rotateCertificates`.
    pub rotates: bool,
}

/// Clients of the API server with the identity that configuration and flags describe. Must be called within a tokio
/// runtime.
///
/// # Errors
/// If the kubeconfig cannot be used, or no first certificate can be had.
pub async fn connect(
    kubeconfig: &Path,
    config: &KubeletConfig,
    flags: &NodeFlags,
    name: &str,
) -> Result<Clients, IdentityError> {
    let identity = NodeIdentity {
        name: name.to_owned(),
        kubeconfig: kubeconfig.to_owned(),
        bootstrap_kubeconfig: flags.bootstrap_kubeconfig.clone(),
        cert_dir: flags.cert_dir.clone(),
        rotates: config.rotate_certificates,
    };
    identity.connect().await
}

impl NodeIdentity {
    /// Gets the first certificate, if the kubeconfig has none and a bootstrap kubeconfig is given, and keeps the clients'
    /// credentials up to date from then on. With `rotates` it does not wait for the certificate: requests fail with
    /// [`crate::client::ErrorKind::NoClientCertificate`] until it is there.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used, or no first certificate can be had.
    pub async fn connect(&self) -> Result<Clients, IdentityError> {
        let bootstrap = match &self.bootstrap_kubeconfig {
            Some(path) => bootstrap::ensure(self, path).await?,
            None => None,
        };
        session::start(self, bootstrap).await
    }
}
