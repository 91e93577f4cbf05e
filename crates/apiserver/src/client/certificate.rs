//! The validity of a client certificate.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::jiff::Timestamp;
use x509_parser::pem::Pem;

/// When the first certificate of a PEM text expires: the client's own, those after it are its issuers.
pub(super) fn expires(pem: &[u8]) -> Option<Timestamp> {
    let mut blocks = Pem::iter_from_buffer(pem).filter_map(Result::ok);
    let own = blocks.find(|block| block.label == "CERTIFICATE")?;
    let seconds = own.parse_x509().ok()?.validity().not_after.timestamp();
    Timestamp::from_second(seconds).ok()
}

/// The PEM text of a `client-certificate-data`.
pub(super) fn decode(data: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD.decode(data.trim()).ok()
}
