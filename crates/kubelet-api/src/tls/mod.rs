//! TLS of port 10250.

mod request;
mod serving;

use std::path::Path;
use std::sync::Arc;

use node::kubelet::{KubeletConfig, TlsVersion};
use secure_serving::provider;
use tokio_rustls::rustls::{self, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use crate::ServeError;

/// The TLS configuration of a kubelet's configuration. Certificates are made in `cert_dir` if none are configured.
pub(crate) fn server_config(
    config: &KubeletConfig,
    cert_dir: &Path,
    node: &str,
) -> Result<Arc<ServerConfig>, ServeError> {
    let mut provider = provider();
    if !config.tls_cipher_suites.is_empty() {
        provider.cipher_suites.retain(|suite| is_offered(suite, &config.tls_cipher_suites));
    }
    let provider = Arc::new(provider);
    let tls = |error: rustls::Error| ServeError::Tls(error.to_string());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder.with_protocol_versions(versions(config.tls_min_version)).map_err(tls)?;
    let builder = if config.authentication.x509.client_ca_file.is_some() {
        builder.with_client_cert_verifier(Arc::new(request::RequestCertificate::new(&provider)))
    } else {
        builder.with_no_client_auth()
    };
    let certificate = serving::certificate(config, cert_dir, node)?;
    let mut server = builder.with_cert_resolver(Arc::new(certificate));
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(server))
}

fn versions(oldest: Option<TlsVersion>) -> &'static [&'static SupportedProtocolVersion] {
    static NEWEST: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];
    match oldest {
        Some(TlsVersion::VersionTLS13) => NEWEST,
        _ => rustls::ALL_VERSIONS,
    }
}

/// Whether a suite is among Go's names. The suites of TLS 1.3 cannot be chosen, as in Go.
fn is_offered(suite: &SupportedCipherSuite, names: &[String]) -> bool {
    if suite.tls13().is_some() {
        return true;
    }
    // rustls: TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256; Go also knows it without the hash.
    let own = format!("{:?}", suite.suite());
    names.iter().any(|name| own == *name || own.strip_suffix("_SHA256") == Some(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_chosen_by_the_names_of_go() {
        let count = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            provider().cipher_suites.iter().filter(|suite| is_offered(suite, &names)).count()
        };
        assert_eq!(count(&["TLS_AES_128_GCM_SHA256"]), 3);
        assert_eq!(count(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]), 4);
        assert_eq!(count(&["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"]), 4);
        assert_eq!(
            count(&[
                "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
                "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"
            ]),
            5
        );
    }
}
