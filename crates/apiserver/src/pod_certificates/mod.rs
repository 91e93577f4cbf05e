//! Certificates of pods: keys that are made on this node, and PodCertificateRequests for them.
//!
//! Nothing is kept on disk but the files in the pods: another process of this agent has them all issued anew.

mod entries;
mod key;
mod outcome;
mod request;
mod task;

pub use request::Requester;

pub(crate) use entries::PodCertificates;
