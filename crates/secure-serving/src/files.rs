use std::path::Path;

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::Error;

/// Greater files are no certificates.
const LARGEST: u64 = 4 << 20;

/// The certificates of a PEM file; at least one.
///
/// # Errors
/// If the file cannot be read, or has none.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = read(path)?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let found = found.map_err(|error| Error::file(path, &error))?;
    if found.is_empty() {
        return Err(Error::file(path, &"it has no certificate"));
    }
    Ok(found)
}

/// The private key of a PEM file.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(&read(path)?).map_err(|error| Error::file(path, &error))
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let text = durable::read(path, LARGEST).map_err(|error| Error::file(path, &error))?;
    text.ok_or_else(|| Error::file(path, &"it does not exist"))
}
