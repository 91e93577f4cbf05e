//! The protocols between node, plugins and monitoring agents.

/// Messages and services of the device plugin API, `v1beta1`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::indexing_slicing,
    reason = "generated; what there is to say about a field is said in proto/"
)]
pub mod v1beta1 {
    tonic::include_proto!("v1beta1");
}

/// Messages and the service by which a plugin in `plugins_registry` says what it is.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::indexing_slicing,
    reason = "generated; what there is to say about a field is said in proto/"
)]
pub mod pluginregistration {
    tonic::include_proto!("pluginregistration");
}

/// Messages and the service of the PodResources API, `v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::indexing_slicing,
    reason = "generated; what there is to say about a field is said in proto/"
)]
pub mod v1 {
    tonic::include_proto!("v1");
}

/// Messages and the service of the first PodResources API, `v1alpha1`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::indexing_slicing,
    reason = "generated; what there is to say about a field is said in proto/"
)]
pub mod v1alpha1 {
    tonic::include_proto!("v1alpha1");
}

/// The version of the device plugin API.
pub const VERSION: &str = "v1beta1";
/// The health of a device that can be used; every other word means that it cannot.
pub const HEALTHY: &str = "Healthy";
/// The health of a device that cannot be used.
pub const UNHEALTHY: &str = "Unhealthy";
