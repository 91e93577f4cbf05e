//! This crate at a real API server with the Node authorizer and NodeRestriction, with the credentials of a node.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, missing_docs)]

mod cluster;
mod errors;
mod events;
mod identity;
mod lease;
mod node;
mod objects;
mod outage;
mod pod_certificates;
mod pods;
mod services;
mod status;
mod support;
mod tokens;
mod trust_bundles;
