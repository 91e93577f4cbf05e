//! One CertificateSigningRequest: created, awaited, and its certificate verified.

use std::pin::pin;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ObjectMeta, PostParams, WatchEvent};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData as _};
use ring::digest::{Context, SHA512_256};
use tokio::time::Instant;
use tracing::debug;
use x509_parser::pem::Pem;

use super::IdentityError;
use super::names::Names;
use crate::client::pair::Pair;
use crate::client::{ApiClient, ErrorKind, Watch};

/// The wait after a failure while a certificate is awaited.
const AGAIN: Duration = Duration::from_secs(2);

/// The signer, and what its certificates are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signer {
    /// Client certificates of nodes.
    Client,
    /// Serving certificates of nodes.
    Serving,
}

impl Signer {
    fn name(self) -> &'static str {
        match self {
            Self::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Self::Serving => "kubernetes.io/kubelet-serving",
        }
    }

    /// Those of an elliptic key; the signer refuses more.
    fn usages(self) -> [&'static str; 2] {
        match self {
            Self::Client => ["digital signature", "client auth"],
            Self::Serving => ["digital signature", "server auth"],
        }
    }
}

/// What a certificate is to say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) node: &'a str,
    pub(super) signer: Signer,
    pub(super) names: &'a Names,
}

const ORGANIZATION: &str = "system:nodes";

impl Wanted<'_> {
    fn common_name(&self) -> String {
        format!("system:node:{}", self.node)
    }

    /// The request as PEM, signed with the key.
    fn signed(&self, key: &KeyPair) -> Result<String, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, ORGANIZATION);
        params.distinguished_name.push(DnType::CommonName, self.common_name());
        params.subject_alt_names = self.names.alternatives()?;
        params.serialize_request(key)?.pem()
    }

    /// The name of the request of a key: the same each time, so that an agent that starts again finds it.
    pub(super) fn name_for(&self, key: &KeyPair) -> String {
        let mut hash = Context::new(&SHA512_256);
        let common_name = self.common_name();
        let mut write = |field: &[u8]| {
            hash.update(BASE64_URL_SAFE_NO_PAD.encode(field).as_bytes());
            hash.update(b"|");
        };
        write(&key.subject_public_key_info());
        write(common_name.as_bytes());
        write(ORGANIZATION.as_bytes());
        self.signer.usages().iter().for_each(|usage| write(usage.as_bytes()));
        format!("node-csr-{}", BASE64_URL_SAFE_NO_PAD.encode(hash.finish()))
    }
}

/// A new key: ECDSA, P-256.
pub(super) fn new_key() -> Result<KeyPair, IdentityError> {
    KeyPair::generate().map_err(|error| IdentityError::Crypto(error.to_string()))
}

/// Creates the request under a name, or under one that the server makes up. One that exists is used: its name is made of
/// its key.
pub(super) async fn submit(
    client: &ApiClient,
    wanted: Wanted<'_>,
    key: &KeyPair,
    name: Option<String>,
) -> Result<String, IdentityError> {
    let pem = wanted.signed(key).map_err(|error| IdentityError::Crypto(error.to_string()))?;
    let generate_name = name.is_none().then(|| "csr-".to_owned());
    let request = CertificateSigningRequest {
        metadata: ObjectMeta { name: name.clone(), generate_name, ..ObjectMeta::default() },
        spec: CertificateSigningRequestSpec {
            request: ByteString(pem.into_bytes()),
            signer_name: wanted.signer.name().to_owned(),
            usages: Some(wanted.signer.usages().map(str::to_owned).to_vec()),
            ..CertificateSigningRequestSpec::default()
        },
        status: None,
    };
    let api: Api<CertificateSigningRequest> = Api::all(client.kube());
    let action = format!("create a CertificateSigningRequest for {}", wanted.common_name());
    match (client.call(&action, api.create(&PostParams::default(), &request)).await, name) {
        (Ok(made), _) => Ok(made.metadata.name.unwrap_or_default()),
        (Err(error), Some(name)) if error.kind() == ErrorKind::AlreadyExists => Ok(name),
        (Err(error), _) => Err(error.into()),
    }
}

/// Waits for the certificate of a request, and verifies that it belongs to the key and is valid now. An API server that
/// does not answer for a while is no error.
pub(super) async fn await_certificate(
    client: &ApiClient,
    name: &str,
    key: &KeyPair,
    patience: Duration,
) -> Result<Pair, IdentityError> {
    let api: Api<CertificateSigningRequest> = Api::all(client.kube());
    let deadline = Instant::now() + patience;
    let mut missing = "it was not approved";
    let waiting = async {
        loop {
            let action = format!("get CertificateSigningRequest {name}");
            let found = match client.call(&action, api.get(name)).await {
                Ok(found) => found,
                Err(error) if is_passing(error.kind()) => {
                    debug!("{error}; trying again");
                    tokio::time::sleep(AGAIN).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if let Some(outcome) = outcome(&found, &mut missing) {
                return outcome;
            }
            let version = found.metadata.resource_version.unwrap_or_default();
            let fields = format!("metadata.name={name}");
            let watch = Watch { fields: &fields, version: &version };
            let action = format!("watch CertificateSigningRequest {name}");
            let Ok(stream) = client.watch(&action, &api, watch).await else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            let mut stream = pin!(stream);
            while let Some(Ok(event)) = stream.next().await {
                if let WatchEvent::Added(found) | WatchEvent::Modified(found) = event
                    && let Some(outcome) = outcome(&found, &mut missing)
                {
                    return outcome;
                }
            }
        }
    };
    let waited = tokio::time::timeout_at(deadline, waiting).await;
    let minutes = patience.as_secs() / 60;
    let pem = waited.map_err(|_| IdentityError::Unanswered { name: name.to_owned(), minutes, missing })??;
    verified(&pem, key, Timestamp::now())
        .map_err(|cause| IdentityError::Issued { name: name.to_owned(), cause })
}

/// Whether the same request may succeed later.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Other | ErrorKind::Unreadable)
}

/// The certificate, or why there will be none; `None` while it is open.
fn outcome(
    request: &CertificateSigningRequest,
    missing: &mut &'static str,
) -> Option<Result<String, IdentityError>> {
    let status = request.status.as_ref()?;
    let name = request.metadata.name.clone().unwrap_or_default();
    for one in status.conditions.iter().flatten() {
        let outcome = match one.type_.as_str() {
            "Denied" => "was denied",
            "Failed" => "failed",
            "Approved" => {
                *missing = "it is approved, and was not signed";
                continue;
            }
            _ => continue,
        };
        let words = [one.reason.as_deref(), one.message.as_deref()].into_iter().flatten();
        let cause = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(": ");
        let cause = if cause.is_empty() { "no reason is given".to_owned() } else { cause };
        return Some(Err(IdentityError::Refused { name, outcome, cause }));
    }
    let pem = status.certificate.as_ref().filter(|pem| !pem.0.is_empty())?;
    let cause = "it is no PEM text".to_owned();
    Some(String::from_utf8(pem.0.clone()).map_err(|_| IdentityError::Issued { name, cause }))
}

fn verified(pem: &str, key: &KeyPair, now: Timestamp) -> Result<Pair, String> {
    let pair = Pair::parse(pem, &key.serialize_pem())?;
    let own = Pem::iter_from_buffer(pair.certificates.as_bytes()).next().and_then(Result::ok);
    let own = own.ok_or("it has no certificate")?;
    let parsed = own.parse_x509().map_err(|error| error.to_string())?;
    if parsed.public_key().raw != key.subject_public_key_info().as_slice() {
        return Err("it is for another key".to_owned());
    }
    // Signers begin the validity some minutes early, or now: a second of difference between two clocks is usual.
    if pair.is_expired(now) || pair.not_before.as_second() > now.as_second() + 60 {
        return Err(format!(
            "it is valid from {} to {}, and the clock of this node reads {now}",
            pair.not_before, pair.chain_ends
        ));
    }
    Ok(pair)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::prelude::FromDer as _;

    use super::*;

    fn wanted(names: &Names) -> Wanted<'_> {
        Wanted { node: "worker-1", signer: Signer::Client, names }
    }

    #[test]
    fn a_request_names_the_node_and_nothing_else() {
        let names = Names::default();
        let key = new_key().unwrap();
        let pem = wanted(&names).signed(&key).unwrap();
        let block = Pem::iter_from_buffer(pem.as_bytes()).next().unwrap().unwrap();
        assert_eq!(block.label, "CERTIFICATE REQUEST");
        let (_, request) = X509CertificationRequest::from_der(&block.contents).unwrap();
        let info = &request.certification_request_info;
        assert_eq!(info.subject.to_string(), "O=system:nodes, CN=system:node:worker-1");
        assert!(request.requested_extensions().is_none_or(|mut all| all.next().is_none()));
        assert_eq!(info.subject_pki.raw, key.subject_public_key_info().as_slice());
    }

    #[test]
    fn the_name_of_a_request_is_made_of_its_key() {
        let names = Names::default();
        let [one, other] = [new_key().unwrap(), new_key().unwrap()];
        let again = KeyPair::from_pem(&one.serialize_pem()).unwrap();
        assert_eq!(wanted(&names).name_for(&one), wanted(&names).name_for(&again));
        assert_ne!(wanted(&names).name_for(&one), wanted(&names).name_for(&other));
        assert_eq!(wanted(&names).name_for(&one).len(), "node-csr-".len() + 43);
    }

    #[test]
    fn a_request_is_open_until_it_is_signed_denied_or_failed() {
        let read = |status: serde_json::Value| {
            let request = json!({"metadata": {"name": "csr-1"}, "spec": {"request": "", "signerName": "a"}, "status": status});
            let mut missing = "";
            (outcome(&serde_json::from_value(request).unwrap(), &mut missing), missing)
        };
        assert!(read(json!({})).0.is_none());
        let approved = json!({"conditions": [{"type": "Approved", "status": "True"}]});
        let (open, missing) = read(approved);
        assert!(open.is_none() && missing.contains("signed"), "{missing}");
        let denied = json!({"conditions": [{"type": "Denied", "status": "True", "reason": "No", "message": "unknown"}]});
        let Some(Err(IdentityError::Refused { cause, .. })) = read(denied).0 else { panic!("open") };
        assert_eq!(cause, "No: unknown");
        assert!(matches!(read(json!({"certificate": "YWJj"})).0, Some(Ok(text)) if text == "abc"));
    }

    #[test]
    fn a_certificate_of_another_key_or_another_time_is_not_used() {
        let key = new_key().unwrap();
        let certificate = |key: &KeyPair| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.not_before = rcgen::date_time_ymd(2026, 1, 1);
            params.not_after = rcgen::date_time_ymd(2027, 1, 1);
            params.self_signed(key).unwrap().pem()
        };
        let at = |text: &str| verified(&certificate(&key), &key, text.parse().unwrap());
        assert!(at("2026-06-01T00:00:00Z").is_ok());
        assert!(at("2027-06-01T00:00:00Z").unwrap_err().contains("the clock of this node"));
        assert!(at("2025-06-01T00:00:00Z").is_err());
        let other = certificate(&new_key().unwrap());
        let now = "2026-06-01T00:00:00Z".parse().unwrap();
        assert_eq!(verified(&other, &key, now).unwrap_err(), "it is for another key");
    }
}
