//! A new key of one of the types that the API knows, and the proof that this node has it.

use aws_lc_rs::signature::Ed25519KeyPair;
use rcgen::{
    CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_ECDSA_P521_SHA512, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize,
};

/// A key.
pub(super) struct Key(KeyPair);

impl Key {
    /// A new key of this type, as the API names it. An RSA key takes up to some seconds.
    ///
    /// # Errors
    /// If the type is not known, or the system gives no random numbers.
    pub(super) fn generate(key_type: &str) -> Result<Self, String> {
        let pair = match key_type {
            "RSA3072" => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_3072),
            "RSA4096" => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096),
            "ECDSAP256" => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            "ECDSAP384" => KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384),
            "ECDSAP521" => KeyPair::generate_for(&PKCS_ECDSA_P521_SHA512),
            "ED25519" => return ed25519(),
            other => return Err(format!("this node makes no keys of type {other:?}")),
        };
        pair.map(Self).map_err(|error| format!("a key of type {key_type} cannot be made: {error}"))
    }

    /// The key as PEM: PKCS #8.
    pub(super) fn pem(&self) -> String {
        let pem = self.0.serialize_pem();
        pem.replace("\r\n", "\n")
    }

    /// A certificate request with nothing but the public key, signed with the key: PKCS #10, as DER.
    pub(super) fn stub_request(&self) -> Result<Vec<u8>, String> {
        let empty = || {
            let mut params = CertificateParams::new(Vec::new())?;
            params.distinguished_name = DistinguishedName::new();
            params.serialize_request(&self.0)
        };
        let request = empty().map_err(|error| format!("the key cannot sign: {error}"))?;
        Ok(request.der().to_vec())
    }
}

/// In the first version of PKCS #8: many programs cannot read the second one, in which the public key is there as well.
fn ed25519() -> Result<Key, String> {
    let failed = |error: String| format!("a key of type ED25519 cannot be made: {error}");
    let pair = Ed25519KeyPair::generate().map_err(|error| failed(error.to_string()))?;
    let document = pair.to_pkcs8v1().map_err(|error| failed(error.to_string()))?;
    let der: &[u8] = document.as_ref();
    let pair = KeyPair::from_pkcs8_der_and_sign_algo(&der.into(), &PKCS_ED25519);
    pair.map(Key).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::pem::Pem;
    use x509_parser::prelude::FromDer as _;

    use super::*;

    #[test]
    fn every_type_of_the_api_has_a_key_and_an_empty_request_that_it_signs() {
        let types = [
            ("RSA3072", "1.2.840.113549.1.1.1", 3072),
            ("RSA4096", "1.2.840.113549.1.1.1", 4096),
            ("ECDSAP256", "1.2.840.10045.2.1", 256),
            ("ECDSAP384", "1.2.840.10045.2.1", 384),
            ("ECDSAP521", "1.2.840.10045.2.1", 528),
            ("ED25519", "1.3.101.112", 256),
        ];
        for (name, algorithm, bits) in types {
            let key = Key::generate(name).unwrap();
            let der = key.stub_request().unwrap();
            let (rest, request) = X509CertificationRequest::from_der(&der).unwrap();
            let info = &request.certification_request_info;
            assert!(rest.is_empty() && info.subject.iter().next().is_none(), "{name}");
            assert!(request.requested_extensions().is_none_or(|mut all| all.next().is_none()), "{name}");
            assert_eq!(info.subject_pki.algorithm.algorithm.to_id_string(), algorithm, "{name}");
            let size = info.subject_pki.parsed().unwrap().key_size();
            assert_eq!(if name == "ED25519" { 256 } else { size }, bits, "{name}");
            let pem = key.pem();
            let block = Pem::iter_from_buffer(pem.as_bytes()).next().unwrap().unwrap();
            assert_eq!(block.label, "PRIVATE KEY", "{name}");
            assert!(!pem.contains('\r') && pem.ends_with('\n'), "{name}");
            // An INTEGER 0 is the first version.
            let version = block.contents.windows(3).position(|bytes| bytes == [2, 1, 0]);
            assert!(name != "ED25519" || version == Some(2), "{name}: {version:?}");
        }
        assert!(Key::generate("RSA1024").err().unwrap().contains("\"RSA1024\""));
    }
}
