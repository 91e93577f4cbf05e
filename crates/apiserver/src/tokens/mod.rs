//! Tokens of service accounts for pods, requested from the API server and refreshed before they expire.

mod cache;
mod issue;

pub(crate) use cache::Tokens;
pub(crate) use issue::issue;
