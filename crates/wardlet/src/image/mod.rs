//! What `image` reads and shows.
//!
//! - [`registries`]: the file that says how registries are reached and what an image may take.
//! - [`auth`]: credentials, from a file as docker writes it or from standard input.
//! - [`progress`]: long work, told on stderr.
//! - [`view`]: images as a table.

pub(crate) mod auth;
pub(crate) mod progress;
pub(crate) mod registries;
pub(crate) mod view;

use images::Error;

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
