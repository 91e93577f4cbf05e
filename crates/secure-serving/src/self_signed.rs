use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use durable::AtomicFile;
use k8s_openapi::jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::error::Error;
use crate::tls::provider;

/// Makes a certificate for the name of the node, signed by an authority whose key is not kept, for a year. Files that
/// exist are kept, as a kubelet keeps them.
pub(crate) fn make(certificate: &Path, key: &Path, node: &str) -> Result<(), Error> {
    let has = |path: &Path| path.try_exists().map_err(|error| Error::file(path, &error));
    if has(certificate)? && has(key)? {
        return Ok(());
    }
    let made = generate(node).map_err(|error| Error::Tls(error.to_string()))?;
    for (path, mode, text) in [(certificate, 0o644, &made.certificates), (key, 0o600, &made.key)] {
        if let Some(dir) = path.parent() {
            durable::make_dirs(dir, 0o755).map_err(|error| Error::file(dir, &error))?;
        }
        let written = AtomicFile::at(path).mode(mode).replace(text.as_bytes());
        written.map_err(|error| Error::file(path, &error))?;
    }
    Ok(())
}

/// The same without files.
pub(crate) fn in_memory(name: &str) -> Result<Arc<CertifiedKey>, Error> {
    let tls = |cause: String| Error::Tls(cause);
    let made = generate(name).map_err(|error| tls(error.to_string()))?;
    let chain = CertificateDer::pem_slice_iter(made.certificates.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| tls(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(made.key.as_bytes()).map_err(|error| tls(error.to_string()))?;
    let both = CertifiedKey::from_der(chain, key, &provider());
    both.map(Arc::new).map_err(|error| tls(error.to_string()))
}

/// PEM texts.
struct Made {
    certificates: String,
    key: String,
}

fn generate(node: &str) -> Result<Made, rcgen::Error> {
    let now = Timestamp::now();
    let unix = now.as_second();
    let authority_key = KeyPair::generate()?;
    let mut authority = params(now)?;
    authority.distinguished_name.push(DnType::CommonName, format!("{node}-ca@{unix}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let mut own = params(now)?;
    own.distinguished_name.push(DnType::CommonName, format!("{node}@{unix}"));
    own.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    own.subject_alt_names.push(match node.parse::<IpAddr>() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) => SanType::DnsName(node.try_into()?),
    });
    let key = KeyPair::generate()?;
    let own = own.signed_by(&key, &Issuer::new(authority, authority_key))?;
    Ok(Made { certificates: own.pem() + &authority_pem, key: key.serialize_pem() })
}

/// Valid from the day before to the same day of the next year.
fn params(now: Timestamp) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    let today = now.to_zoned(TimeZone::UTC).date();
    let day = |date: k8s_openapi::jiff::civil::Date| {
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        date_time_ymd(date.year().into(), part(date.month()), part(date.day()))
    };
    params.not_before = day(today.saturating_sub(1.day()));
    params.not_after = day(today.saturating_add(1.year()));
    Ok(params)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use x509_parser::pem::Pem;

    use super::*;

    #[test]
    fn it_is_made_once_for_the_nodes_name_and_its_key_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let [certificate, key] = ["pki/kubelet.crt", "pki/kubelet.key"].map(|name| dir.path().join(name));
        make(&certificate, &key, "node-1").unwrap();
        let text = std::fs::read(&certificate).unwrap();
        let blocks: Vec<Pem> = Pem::iter_from_buffer(&text).collect::<Result<_, _>>().unwrap();
        let own = blocks[0].parse_x509().unwrap();
        assert_eq!((blocks.len(), own.is_ca()), (2, false));
        assert!(own.subject().to_string().starts_with("CN=node-1@"), "{}", own.subject());
        assert!(
            own.validity().is_valid()
                && own.validity().not_after.timestamp()
                    > own.validity().not_before.timestamp() + 300 * 86_400
        );
        let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&certificate), mode(&key)), (0o644, 0o600));
        make(&certificate, &key, "other").unwrap();
        assert_eq!(std::fs::read(&certificate).unwrap(), text);
    }

    #[test]
    fn without_files_there_is_a_certificate_with_its_authority() {
        assert_eq!(in_memory("node-1").unwrap().cert.len(), 2);
        assert!(in_memory("n\u{f6}de").is_err(), "a name is ASCII");
    }
}
