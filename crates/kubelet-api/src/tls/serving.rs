use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use node::kubelet::KubeletConfig;
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tracing::warn;

use super::files::{certificates, private_key};
use super::{Watched, provider, self_signed};
use crate::ServeError;

/// The serving certificate of the moment.
pub(super) struct Serving(Watched<Arc<CertifiedKey>>);

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.current()
    }
}

/// The certificate that the configuration names, or one that the API server's signer has issued, or a self-signed one.
pub(super) fn certificate(
    config: &KubeletConfig,
    cert_dir: &Path,
    node: &str,
) -> Result<Serving, ServeError> {
    if let (Some(certificate), Some(key)) = (&config.tls_cert_file, &config.tls_private_key_file) {
        return Ok(Serving(Watched::open(vec![certificate.clone(), key.clone()], loader(certificate, key))?));
    }
    if config.server_tls_bootstrap {
        let both = cert_dir.join("kubelet-server-current.pem");
        let serving = Watched::expected(vec![both.clone()], loader(&both, &both));
        if serving.current().is_none() {
            warn!(
                "serverTLSBootstrap is set and there is no {}: TLS connections fail until there is",
                both.display()
            );
        }
        return Ok(Serving(serving));
    }
    let [certificate, key] = ["kubelet.crt", "kubelet.key"].map(|name| cert_dir.join(name));
    self_signed::make(&certificate, &key, node)?;
    Ok(Serving(Watched::open(vec![certificate.clone(), key.clone()], loader(&certificate, &key))?))
}

fn loader(
    certificate: &Path,
    key: &Path,
) -> impl Fn() -> Result<Arc<CertifiedKey>, ServeError> + Send + Sync + 'static {
    let paths: [PathBuf; 2] = [certificate.to_owned(), key.to_owned()];
    move || {
        let [certificate, key] = &paths;
        let both = CertifiedKey::from_der(certificates(certificate)?, private_key(key)?, &provider());
        both.map(Arc::new).map_err(|error| ServeError::file(key, &error))
    }
}
