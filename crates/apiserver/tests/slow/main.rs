//! A node at a real API server with the Node authorizer and NodeRestriction.

mod errors;
mod lease;
mod node;
mod outage;
mod support;
