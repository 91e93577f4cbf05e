use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use crate::error::Error;
use crate::files::{certificates, private_key};
use crate::self_signed;
use crate::tls::provider;
use crate::watched::Watched;

/// The serving certificate of the moment: its files are read again when they change.
pub struct ServingCertificate(Watched<Arc<CertifiedKey>>);

impl ServingCertificate {
    /// The certificate chain and the key of these files.
    ///
    /// # Errors
    /// If they cannot be read, or do not belong together.
    pub fn open(certificate: &Path, key: &Path) -> Result<Self, Error> {
        let paths = vec![certificate.to_owned(), key.to_owned()];
        Ok(Self(Watched::open(paths, loader(certificate, key))?))
    }

    /// The certificate chain and the key of one file, which may not exist yet.
    #[must_use]
    pub fn expected(both: &Path) -> Self {
        Self(Watched::expected(vec![both.to_owned()], loader(both, both)))
    }

    /// A certificate for this name, signed by an authority whose key is not kept, for a year. Files that exist are kept.
    ///
    /// # Errors
    /// If it cannot be made, or its files cannot be written or read.
    pub fn self_signed(certificate: &Path, key: &Path, name: &str) -> Result<Self, Error> {
        self_signed::make(certificate, key, name)?;
        Self::open(certificate, key)
    }

    /// A self-signed certificate for this name that is kept in memory only.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn in_memory(name: &str) -> Result<Self, Error> {
        let made = self_signed::in_memory(name)?;
        Ok(Self(Watched::open(Vec::new(), move || Ok(Arc::clone(&made)))?))
    }

    /// Whether there is a certificate now.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.0.current().is_some()
    }
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificate").finish_non_exhaustive()
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.current()
    }
}

fn loader(
    certificate: &Path,
    key: &Path,
) -> impl Fn() -> Result<Arc<CertifiedKey>, Error> + Send + Sync + 'static {
    let paths: [PathBuf; 2] = [certificate.to_owned(), key.to_owned()];
    move || {
        let [certificate, key] = &paths;
        let both = CertifiedKey::from_der(certificates(certificate)?, private_key(key)?, &provider());
        both.map(Arc::new).map_err(|error| Error::file(key, &error))
    }
}
