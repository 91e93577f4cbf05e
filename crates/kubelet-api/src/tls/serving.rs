use std::path::Path;

use node::kubelet::KubeletConfig;
use secure_serving::ServingCertificate;
use tracing::warn;

use crate::ServeError;

/// The certificate that the configuration names, or one that the API server's signer has issued, or a self-signed one.
pub(super) fn certificate(
    config: &KubeletConfig,
    cert_dir: &Path,
    node: &str,
) -> Result<ServingCertificate, ServeError> {
    if let (Some(certificate), Some(key)) = (&config.tls_cert_file, &config.tls_private_key_file) {
        return Ok(ServingCertificate::open(certificate, key)?);
    }
    if config.server_tls_bootstrap {
        let both = cert_dir.join("kubelet-server-current.pem");
        let serving = ServingCertificate::expected(&both);
        if !serving.is_there() {
            warn!(
                "serverTLSBootstrap is set and there is no {}: TLS connections fail until there is",
                both.display()
            );
        }
        return Ok(serving);
    }
    let [certificate, key] = ["kubelet.crt", "kubelet.key"].map(|name| cert_dir.join(name));
    Ok(ServingCertificate::self_signed(&certificate, &key, node)?)
}
