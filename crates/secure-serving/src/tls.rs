use std::sync::Arc;

use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};

use crate::certificate::ServingCertificate;
use crate::error::Error;

/// The cryptography of all connections.
#[must_use]
pub fn provider() -> CryptoProvider {
    ring::default_provider()
}

/// TLS 1.2 and 1.3 with this certificate, for HTTP/2 and HTTP/1.1. Clients are not asked for certificates.
///
/// # Errors
/// If the cryptography does not support these versions of TLS.
pub fn server_config(certificate: ServingCertificate) -> Result<Arc<ServerConfig>, Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| Error::Tls(error.to_string()))?;
    let mut server = builder.with_no_client_auth().with_cert_resolver(Arc::new(certificate));
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(server))
}
