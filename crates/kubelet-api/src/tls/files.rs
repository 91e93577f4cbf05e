use std::path::Path;

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::ServeError;

/// Greater files are no certificates.
const LARGEST: u64 = 4 << 20;

/// The certificates of a PEM file; at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServeError> {
    let text = read(path)?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| ServeError::file(path, &error))?;
    if found.is_empty() {
        return Err(ServeError::file(path, &"it has no certificate"));
    }
    Ok(found)
}

/// The private key of a PEM file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, ServeError> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| ServeError::file(path, &error))
}

fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    let text = durable::read(path, LARGEST).map_err(|error| ServeError::file(path, &error))?;
    text.ok_or_else(|| ServeError::file(path, &"it does not exist"))
}
