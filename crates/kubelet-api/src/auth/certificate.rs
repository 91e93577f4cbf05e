//! Client certificates: CN is the user, each O a group.

use std::path::Path;
use std::sync::Arc;

use ring::digest::{SHA256, digest};
use secure_serving::{Error, User, Watched, certificates, provider};
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::{CertificateDer, UnixTime};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use x509_parser::parse_x509_certificate;
use x509_parser::x509::AttributeTypeAndValue;

use crate::ServeError;

/// The attribute of a subject with the UID of the user.
const UID: &str = "1.3.6.1.4.1.57683.2";

/// Verifies client certificates against the authorities in a file, which is read again when it changes.
pub(crate) struct ClientCertificates {
    authorities: Watched<Arc<dyn ClientCertVerifier>>,
}

impl ClientCertificates {
    pub(crate) fn open(path: &Path) -> Result<Self, ServeError> {
        let file = path.to_owned();
        let load = move || {
            let mut roots = RootCertStore::empty();
            for authority in certificates(&file)? {
                roots.add(authority).map_err(|error| Error::file(&file, &error))?;
            }
            let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider()));
            builder.build().map_err(|error| Error::file(&file, &error))
        };
        Ok(Self { authorities: Watched::open(vec![path.to_owned()], load)? })
    }

    /// The user of a chain, at this moment; `None` if the certificate names none. The error says why it is not valid.
    pub(super) fn user(&self, chain: &[CertificateDer<'_>]) -> Result<Option<User>, String> {
        let (own, intermediates) = chain.split_first().ok_or("there is no certificate")?;
        let authorities = self.authorities.current().ok_or("there are no authorities")?;
        let verified = authorities.verify_client_cert(own, intermediates, UnixTime::now());
        verified.map_err(|error| error.to_string())?;
        user(own)
    }
}

fn user(certificate: &CertificateDer<'_>) -> Result<Option<User>, String> {
    let (_, parsed) = parse_x509_certificate(certificate).map_err(|error| error.to_string())?;
    let subject = parsed.subject();
    let text = |attribute: &AttributeTypeAndValue<'_>| {
        attribute.as_str().map(str::to_owned).map_err(|error| error.to_string())
    };
    let name = subject.iter_common_name().last().map(text).transpose()?.unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    let uids = subject.iter_attributes().filter(|attribute| attribute.attr_type().to_id_string() == UID);
    let uids = uids.map(text).collect::<Result<Vec<_>, _>>()?;
    let uid = match uids.as_slice() {
        [] => String::new(),
        [uid] if !uid.is_empty() => uid.clone(),
        _ => return Err("its subject has no single UID".to_owned()),
    };
    let fingerprint = digest(&SHA256, certificate);
    let hex: String = fingerprint.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let id = ("authentication.kubernetes.io/credential-id".to_owned(), vec![format!("X509SHA256={hex}")]);
    let groups = subject.iter_organization().map(text).collect::<Result<Vec<_>, _>>()?;
    Ok(Some(User { name, uid, groups, extra: [id].into() }))
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
        date_time_ymd,
    };

    use super::*;

    struct Authority {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    fn authority() -> Authority {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    fn client(authority: &Authority, change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "jane");
        params.distinguished_name.push(DnType::OrganizationName, "devs");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        params.signed_by(&key, &authority.issuer).unwrap().der().clone()
    }

    #[test]
    fn only_a_valid_client_certificate_of_the_authority_names_a_user() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.crt");
        let [known, other] = [authority(), authority()];
        std::fs::write(&file, &known.pem).unwrap();
        let certificates = ClientCertificates::open(&file).unwrap();
        let good = client(&known, |_| ());
        let user = certificates.user(std::slice::from_ref(&good)).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.groups.as_slice()), ("jane", &["devs".to_owned()][..]));
        assert!(user.extra["authentication.kubernetes.io/credential-id"][0].starts_with("X509SHA256="));
        let expired = |params: &mut CertificateParams| {
            (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
        };
        let serves = |params: &mut CertificateParams| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        };
        for bad in [client(&other, |_| ()), client(&known, expired), client(&known, serves)] {
            assert!(certificates.user(&[bad]).is_err());
        }
        let unnamed = client(&known, |params| params.distinguished_name = rcgen::DistinguishedName::new());
        assert_eq!(certificates.user(&[unnamed]), Ok(None));
        // Another authority takes the place of the first.
        std::fs::write(&file, &other.pem).unwrap();
        assert!(certificates.user(&[good]).is_err());
        assert!(certificates.user(&[client(&other, |_| ())]).is_ok());
    }
}
