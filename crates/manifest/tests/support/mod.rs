//! Manifests with the verdict that they must get, for our reader and for a real API server alike.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod cases;
mod found;
mod typos;

/// What must become of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Refused,
}

/// One manifest.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub text: String,
    pub verdict: Verdict,
    /// Part of the field that a refusal must name; empty where the text as a whole is refused.
    pub field: String,
}

/// All manifests, named, valid and invalid.
pub fn corpus() -> Vec<Case> {
    let mut all = cases::cases();
    all.extend(typos::typos());
    all.extend(typos::wrong_types());
    all
}

pub use found::found;
pub use typos::{doc_for, pod_fields};
