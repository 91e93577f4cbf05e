//! A signer of PodCertificateRequests, as a controller of a cluster is one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_ED25519, PKCS_RSA_SHA256, PublicKeyData,
    SignatureAlgorithm, date_time_ymd,
};
use serde_json::{Value, json};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer as _;

use crate::{Error, Result};

/// How long its certificates are valid.
const LIFETIME: Duration = Duration::from_secs(60 * 60);
/// How long they are in use before they are to be refreshed.
const IN_USE: Duration = Duration::from_secs(30 * 60);

/// A certificate authority.
pub struct Signer {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
}

/// The public key of a request.
struct PublicKey {
    bits: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
}

impl PublicKeyData for PublicKey {
    fn der_bytes(&self) -> &[u8] {
        &self.bits
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl Signer {
    /// A new authority of this name.
    ///
    /// # Errors
    /// If its key cannot be made.
    pub fn new(name: &str) -> Result<Self> {
        let failed = Error::crypto("the certificate of a signer");
        let key = KeyPair::generate().map_err(&failed)?;
        let mut params = CertificateParams::new(Vec::new()).map_err(&failed)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).map_err(&failed)?.pem().replace("\r\n", "\n");
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    /// Its own certificate, as PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The status of a PodCertificateRequest with a certificate for it. The certificate is valid for an hour, and to be
    /// refreshed after half an hour.
    ///
    /// # Errors
    /// If the request has no key of a known type, or the certificate cannot be made.
    pub fn issue(&self, request: &Value) -> Result<Value> {
        let failed = Error::crypto("the certificate of a pod");
        let unknown = || failed(rcgen::Error::CouldNotParseCertificationRequest);
        let public = public_key(request).ok_or_else(unknown)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Duration::from_secs(now.as_secs());
        let mut params = CertificateParams::new(Vec::new()).map_err(&failed)?;
        params.not_before = date_time_ymd(1970, 1, 1) + now;
        params.not_after = params.not_before + LIFETIME;
        let pod = request.pointer("/spec/podName").and_then(Value::as_str).unwrap_or_default();
        params.distinguished_name.push(DnType::CommonName, pod);
        let leaf = params.signed_by(&public, &self.issuer).map_err(&failed)?.pem().replace("\r\n", "\n");
        Ok(json!({
            "conditions": [condition("Issued", now)],
            "certificateChain": format!("{leaf}{}", self.certificate),
            "notBefore": written(now), "notAfter": written(now + LIFETIME),
            "beginRefreshAt": written(now + IN_USE),
        }))
    }

    /// The status of a PodCertificateRequest that is refused: `Denied` or `Failed`.
    #[must_use]
    pub fn refuse(kind: &str) -> Value {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({"conditions": [condition(kind, now)]})
    }
}

fn condition(kind: &str, now: Duration) -> Value {
    json!({"type": kind, "status": "True", "reason": "ByTest", "message": "as the test decided",
        "lastTransitionTime": written(now)})
}

fn public_key(request: &Value) -> Option<PublicKey> {
    let stub = STANDARD.decode(request.pointer("/spec/stubPKCS10Request")?.as_str()?).ok()?;
    let (_, stub) = X509CertificationRequest::from_der(&stub).ok()?;
    let public = &stub.certification_request_info.subject_pki;
    let algorithm = match public.algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.113549.1.1.1" => &PKCS_RSA_SHA256,
        "1.3.101.112" => &PKCS_ED25519,
        _ => match public.subject_public_key.data.len() {
            65 => &PKCS_ECDSA_P256_SHA256,
            97 => &PKCS_ECDSA_P384_SHA384,
            _ => &PKCS_ECDSA_P521_SHA512,
        },
    };
    Some(PublicKey { bits: public.subject_public_key.data.to_vec(), algorithm })
}

/// A time as the API writes it.
fn written(since: Duration) -> String {
    let time = date_time_ymd(1970, 1, 1) + since;
    let (date, hour, minute, second) = (time.date(), time.hour(), time.minute(), time.second());
    format!("{date}T{hour:02}:{minute:02}:{second:02}Z")
}
