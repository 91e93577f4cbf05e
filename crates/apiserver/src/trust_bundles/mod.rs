//! ClusterTrustBundles, as files of pods.

mod bundle;
mod selection;
mod watch;

pub(crate) use bundle::{certificates, pem};
pub(crate) use watch::TrustBundleWatch;
