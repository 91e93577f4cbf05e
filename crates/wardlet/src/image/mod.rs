//! What `image` reads and shows.
//!
//! - [`auth`]: credentials, from a file as docker writes it or from standard input.
//! - [`progress`]: progress of long operations, on stderr.

pub(crate) mod auth;
pub(crate) mod progress;

use images::{CredentialsError, Error, RegistriesError};

use crate::failure::Failure;

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        let refused = matches!(
            e,
            Error::Entry { .. }
                | Error::Layer { .. }
                | Error::WrongDigest { .. }
                | Error::WrongSize { .. }
                | Error::NotAnImage { .. }
                | Error::Document { .. }
                | Error::OtherPlatform { .. }
                | Error::Unauthorized { .. }
                | Error::NotThere { .. }
                | Error::Unknown { .. }
                | Error::Ambiguous { .. }
                | Error::InUse { .. }
                | Error::BeyondMapping { .. }
        );
        let failure = if refused { Self::refused(e.to_string()) } else { Self::unknown(e.to_string()) };
        match e.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

impl From<RegistriesError> for Failure {
    fn from(e: RegistriesError) -> Self {
        Self::unknown(e.to_string()).with_hint(e.hint())
    }
}

impl From<CredentialsError> for Failure {
    fn from(e: CredentialsError) -> Self {
        Self::unknown(e.to_string())
    }
}
