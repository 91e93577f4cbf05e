//! Ports with TLS whose users the API server decides on: what the API of a kubelet and the controller have in common.
//!
//! | where | what |
//! |---|---|
//! | [`serve`] | connections and their limits: silent clients and refused ones keep no other out |
//! | [`Answers`] | what answers the requests: a port that the caller implements |
//! | [`Tokens`], [`Decisions`] | TokenReview and SubjectAccessReview, whose answers are kept for a time |
//! | [`ServingCertificate`], [`server_config`] | a certificate that is read again when its files change, or a self-signed one |
//! | [`answer`], [`path`] | answers as text, percent-encoding and queries |
//! | [`slots`] | the connections to a port, of which there is a greatest number |
//!
//! If the API server cannot be asked, nothing is allowed.

pub mod answer;
mod cache;
mod certificate;
mod connection;
mod decisions;
mod error;
mod files;
pub mod path;
mod reviews;
mod self_signed;
pub mod slots;
mod tls;
mod token;
mod user;
mod watched;

use std::pin::Pin;

pub use certificate::ServingCertificate;
pub use connection::{Answers, Decided, Secure, serve};
pub use decisions::{Decisions, Ttls};
pub use error::Error;
pub use files::certificates;
pub use reviews::{AccessQuestion, Action, ApiReviews, Reviews};
pub use tls::{provider, server_config};
pub use token::{Tokens, bearer};
pub use tokio_rustls::rustls::pki_types::CertificateDer;
pub use user::User;
pub use watched::Watched;

/// A future in a box.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
